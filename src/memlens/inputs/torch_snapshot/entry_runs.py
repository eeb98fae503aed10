"""Runs of trace entries in a pickle, read as columns: many entries with a few array operations instead of 20 instructions each.

A trace is a list of dicts with the same keys, so its pickle repeats one sequence of instructions, and only values differ.  Once the
machine has read one such dict, :class:`EntryRuns` knows the sequence.  It finds where others may begin in the machine's window, and follows
the sequence from all of these positions at once.  An entry is taken only if every one of its bytes was accounted for and it begins
where the one before it ends: then the machine would have read the same.  Whatever is not taken, the machine reads itself.

What is read so does not become dicts: a :class:`Rows` stands for the entries in their list.  Values that are no numbers are references into the memo,
or known by their bytes: most of a file are lists of frames, and the same stack is written with the same references each time.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec import Struct

from memlens.columns import distinct
from memlens.inputs.torch_snapshot.pickles import BadPickle, Gone, Machine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.columns import Ints

    Numbers = NDArray[np.int32]


#: The protocol from which on every container is put into the memo right where it begins, without an index.
_MEMOIZING = 4
#: A dict that goes into the memo, and its items.
_BEGIN = b"}\x94("
#: A list that does, whose items are references alone; they may be none, or one.
_LIST = re.compile(rb"\]\x94(?:\((?:h.|j.{4})++e|h.a|j.{4}a)?", re.DOTALL)
#: Entries of other shapes that are read before the shape of the last one is taken as the usual one, and how often that may happen.
_PATIENCE = 4
_MOST_SHAPES, _MOST_KEYS = 32, 32
#: Entries taken at once, at most and at least.
_FARTHEST, _NEAREST = 1 << 14, 8
_UNKNOWN = -1
#: What the values of a type are called, and what those of the keys are that are read; a dict is one by reference.
_HOLDS = {int: "int", str: "text", dict: "text", tuple: "pair", list: "list"}
_KNOWN = dict.fromkeys(("addr", "size", "stream", "time_us"), "int")
_KNOWN |= {"action": "text", "op_name": "text", "user_metadata": "text", "pool_id": "pair", "frames": "list"}
#: Bytes of the number that follow each instruction; 9 for what is no number.
_NUMBER_SIZE = np.full(256, 9, np.int64)
_NUMBER_SIZE[[0x4B, 0x4D, 0x4A]] = 1, 2, 4


class Rows(NamedTuple):
    """Entries of a trace, as columns.

    Attributes:
        entries: How many.
        numbers: Whole numbers by key, int64.
        objects: Other values by key, as indices of :attr:`EntryRuns.objects`, int32.
    """

    entries: int
    numbers: dict[str, Ints]
    objects: dict[str, Numbers]


class _Key(NamedTuple):
    """One key of the usual entry: the bytes that write it, and what its values are (``int``, ``text``, ``pair``, ``list``)."""

    name: str
    written: bytes
    holds: str


class _Objects(NamedTuple):
    """Values that are no numbers, int64: memo index or -1, and of those without one the position, the end, and the memo slots taken before it."""

    reference: Ints
    begin: Ints
    end: Ints
    before: Ints


class _Ahead(Struct, frozen=True, eq=False):
    """The bytes of one window that may be entries.

    Attributes:
        start: Where each begins, int64, rising.
        end: Where each ends.
        good: It is an entry, from its first byte to its last.
        stop: For each the first one from it on after which the next does not follow at once.
        slots: How many memo slots each takes.
        numbers: Values by key.
        objects: Other values by key.
    """

    start: Ints
    end: Ints
    good: NDArray[np.bool_]
    stop: Ints
    slots: Ints
    numbers: dict[str, Ints]
    objects: dict[str, _Objects]


class EntryRuns:
    """Takes runs of entries out of a machine's input.

    Attributes:
        objects: The values that :class:`Rows` speaks of.
    """

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self._numbers: dict[Any, int] = {}  # by text, or by the id of what is no text
        self._written: dict[bytes, int] = {}
        # What is known of memo slots; what one holds never changes.
        self._of_slot = np.full(1 << 12, _UNKNOWN, np.int32)
        self._keys: tuple[_Key, ...] = ()
        self._others = self._learned = 0
        self._reach = _FARTHEST
        self._window: bytes | None = None
        self._ahead: _Ahead | None = None

    def seen(self, machine: Machine, value: dict[str, Any]) -> None:
        """Learn the shape of the entries from one that the machine read."""
        names = tuple(value)
        if machine.protocol < _MEMOIZING or names == tuple(key.name for key in self._keys):
            return
        self._others += 1
        if (self._keys and self._others < _PATIENCE) or self._learned >= _MOST_SHAPES:
            return
        # Counted also where nothing comes of it: the whole memo is looked through.
        self._others, self._learned = 0, self._learned + 1
        if keys := _keys_of(value, machine.memo):
            self._keys, self._window = keys, None

    def take(self, machine: Machine, at: int) -> int:
        """Take the entries from ``at`` on, as one :class:`Rows` on the machine's stack; give where they end."""
        marks, stack = machine.marks, machine.stack
        if not self._keys or not machine.window.startswith(_BEGIN + self._keys[0].written, at):
            return at
        if not marks or not 0 < marks[-1] <= len(stack) or type(stack[marks[-1] - 1]) is not list:
            return at
        if self._window is not machine.window:
            self._window, self._ahead = machine.window, _look_ahead(machine.window, at, self._keys)
        ahead = self._ahead
        if ahead is None:
            return at
        first = int(ahead.start.searchsorted(at))
        if first == len(ahead.start) or ahead.start[first] != at or not ahead.good[first]:
            return at
        last = int(ahead.stop[first])
        end = min(last + bool(ahead.good[last]), first + self._reach)
        stop = self._read(machine, ahead, first, end)
        # Where runs end early time and again, what lies beyond must not be looked at each time.
        self._reach = min(2 * self._reach, _FARTHEST) if stop == end else max(2 * (stop - first), _NEAREST)
        return int(ahead.end[stop - 1]) if stop > first else at

    def _read(self, machine: Machine, ahead: _Ahead, first: int, stop: int) -> int:
        """Read the entries ``first … stop-1``, or those before the first one that refers to what it may not; give where it stopped."""
        memo, known = machine.memo, len(machine.memo)
        slots = np.cumsum(ahead.slots[first:stop]) + known
        # That of each entry's dict; its other slots come after it.
        slot, reach = slots - ahead.slots[first:stop], int(slots[-1])
        if reach > len(self._of_slot):
            self._of_slot = np.append(self._of_slot, np.full(reach, _UNKNOWN, np.int32))
        objects = {}
        for name, found in ahead.objects.items():
            some = _Objects(*(column[first:stop] for column in found))
            objects[name] = self._numbered(machine, some, slot[: stop - first])
            stop = first + len(objects[name])
        count = stop - first
        after = int(slots[count - 1]) if count else known
        self._of_slot[after:reach] = _UNKNOWN
        memo.extend([Gone] * (after - known))
        for name, numbers in objects.items():
            written = np.flatnonzero(ahead.objects[name].reference[first:stop] < 0)
            own = (slot[:count] + ahead.objects[name].before[first:stop])[written]
            for index, number in zip(own.tolist(), numbers[written].tolist(), strict=True):
                memo[index] = self.objects[number]
        if count:
            numbers_of = {name: column[first:stop].copy() for name, column in ahead.numbers.items()}
            machine.stack.append(Rows(count, numbers_of, {name: numbers[:count] for name, numbers in objects.items()}))
        return stop

    def _numbered(self, machine: Machine, found: _Objects, slot: Ints) -> Numbers:
        """The numbers of the objects of one key, up to the first one that is not known; ``slot`` is that of each entry's dict."""
        reference, written = found.reference, np.flatnonzero(found.reference < 0)
        made = self._made(machine, found.begin[written].tolist(), found.end[written].tolist())
        usable = len(slot) if len(made) == len(written) else int(written[len(made)])
        numbers = np.full(usable, _UNKNOWN, np.int32)
        written = written[: len(made)]
        numbers[written] = self._of_slot[(slot + found.before)[written]] = made
        # A reference is to what comes before the entry: in the memo, or in an entry of this very run.
        referring = np.flatnonzero((reference[:usable] >= 0) & (reference[:usable] < slot[:usable]))
        wanted = reference[referring]
        for index in distinct(wanted[(self._of_slot[wanted] == _UNKNOWN) & (wanted < len(machine.memo))]).tolist():
            self._of_slot[index] = self._number(machine.memo[index])
        numbers[referring] = self._of_slot[wanted]
        unknown = np.flatnonzero(numbers == _UNKNOWN)
        return numbers[: int(unknown[0])] if len(unknown) else numbers

    def _made(self, machine: Machine, begins: list[int], ends: list[int]) -> list[int]:
        """The numbers of the objects that are written in the window, up to the first one that the machine must see itself."""
        known = self._written
        bodies = [*map(machine.window.__getitem__, map(slice, begins, ends))]
        numbers: list[Any] = [*map(known.get, bodies)]
        for at in (at for at, number in enumerate(numbers) if number is None) if None in numbers else ():
            body = bodies[at]
            if body not in known:
                if body[:1] == b"]" and not _LIST.fullmatch(body):
                    return numbers[:at]
                try:
                    value = machine.value_of(body.replace(b"]\x94", b"]", 1) if body[:1] == b"]" else body)
                except BadPickle:
                    return numbers[:at]
                known[body] = self._number(value)
            numbers[at] = known[body]
        return numbers

    def _number(self, value: Any) -> int:
        number = self._numbers.setdefault(value if type(value) is str else id(value), len(self.objects))
        if number == len(self.objects):
            self.objects.append(value)  # which keeps it, so that no other object gets its id
        return number


def _keys_of(value: dict[str, Any], memo: list[Any]) -> tuple[_Key, ...]:
    """How entries like this one are written; nothing where one of its values is of no known kind."""
    if len(value) > _MOST_KEYS:
        return ()
    wanted = set(map(id, value))
    slots: dict[int, int] = {}
    for slot, item in enumerate(memo):
        if id(item) in wanted:
            slots.setdefault(id(item), slot)
    keys = []
    for name, example in value.items():
        holds, index = _HOLDS.get(type(example)), slots.get(id(name))
        # A list is taken to reach to the next entry, so it has to be the last value.
        if (
            holds is None
            or index is None
            or _KNOWN.get(name, holds) != holds
            or (holds == "list" and name != [*value][-1])
        ):
            return ()
        keys.append(_Key(name, b"h%c" % index if index < 256 else b"j" + index.to_bytes(4, "little"), holds))
    return tuple(keys)


class _Cursor:
    """Positions in a window that move on together, as long as they find what they should.

    Args:
        window: The bytes.
        at: Where to begin, int64.
    """

    def __init__(self, window: bytes, at: Ints) -> None:
        # The 8 bytes from any position on, as one number.
        self._words = np.ndarray((len(window) - 7,), "<u8", window, strides=(1,))
        self._last = len(window) - 8
        self.at = at
        self.good = np.ones(len(at), np.bool_)
        self.slots = np.ones(len(at), np.int64)

    def word(self, ahead: int | Ints, size: int | Ints) -> NDArray[np.uint64]:
        """So many bytes from there on, at the upper end of a word whose lower bytes are 0."""
        shift = np.asarray(64 - 8 * np.asarray(size), np.uint64)
        shifted: NDArray[np.uint64] = self._words[np.minimum(self.at + ahead, self._last)] << shift
        return shifted

    def key(self, text: bytes) -> tuple[Ints, Ints]:
        """Pass over a given text of at most six bytes, and give the two bytes that follow it, as int64."""
        size = len(text)
        word = self._words[np.minimum(self.at, self._last)]
        self.good &= word & np.uint64((1 << 8 * size) - 1) == np.uint64(int.from_bytes(text, "little"))
        self.at = self.at + size
        two = (word >> np.uint64(8 * size)).view(np.int64)
        return two & 255, two >> 8 & 255

    def expect(self, text: bytes) -> None:
        """Pass over a given text."""
        for offset in range(0, len(text), 8):
            part = text[offset : offset + 8]
            wanted = int.from_bytes(part, "little") << (64 - 8 * len(part))
            self.good &= self.word(offset, len(part)) == np.uint64(wanted)
        self.at = self.at + len(text)

    def number(self, key: bytes = b"") -> Ints:
        """Pass over a key and its whole number, and give the number."""
        code, second = self.key(key)
        long = code == 0x8A
        size = np.where(long, second, _NUMBER_SIZE[code])
        self.good &= (size >= 1) & (size <= 8)
        size = np.clip(size, 1, 8)
        head = 1 + long
        word = self.word(head, size)
        shift = 64 - 8 * size
        value = np.where(
            (code == 0x4B) | (code == 0x4D),  # these two have no sign
            (word >> shift.astype(np.uint64)).view(np.int64),
            word.view(np.int64) >> shift,
        )
        self.at = self.at + head + size
        return value

    def object(self, key: bytes, holds: str, list_end: Ints) -> _Objects:
        """Pass over a key, and a reference, or a text, a pair of numbers or a list that goes into the memo."""
        code, second = self.key(key)
        short, long = code == 0x68, code == 0x6A
        reference = second
        if long.any():
            reference = np.where(short, second, (self.word(1, 4) >> np.uint64(32)).view(np.int64))
        written = ~(short | long)
        begin, good, before = self.at, self.good.copy(), self.slots
        if holds == "text":
            self.good = good & (code == 0x8C)
            self.at = begin + 2 + second
        elif holds == "pair":
            self.number()
            self.number()
            self.expect(b"\x86")
        else:
            self.good = good & (list_end >= begin + 2)
            self.expect(b"]\x94")
            self.at = list_end
        end = self.at
        if holds != "list":
            self.expect(b"\x94")
        self.good = good & (~written | self.good)
        self.at = np.where(written, self.at, begin + 2 * short + 5 * long)
        self.slots = before + written
        return _Objects(np.where(written, -1, reference), begin, end, before)


def _look_ahead(window: bytes, at: int, keys: tuple[_Key, ...]) -> _Ahead | None:
    """Follow the usual sequence from all positions of a window from ``at`` on where an entry may begin."""
    if len(window) < 64:
        return None
    data = np.frombuffer(window, np.uint8)
    cursor = _Cursor(window, np.flatnonzero(data[at:] == _BEGIN[0]) + at)
    start = cursor.at
    cursor.expect(_BEGIN + keys[0].written)
    start = start[cursor.good & (cursor.at <= len(window) - 8)]
    if not len(start):
        return None
    cursor = _Cursor(window, start + len(_BEGIN))
    # A list reaches to the entry that follows, or to before an ``e(`` that begins a new batch; its items say later whether that is so.
    follows = np.append(start[1:], len(window))
    list_end = follows - 1 - 2 * ((data[follows - 1] == ord("(")) & (data[follows - 2] == ord("e")))
    numbers: dict[str, Ints] = {}
    objects: dict[str, _Objects] = {}
    for key in keys:
        if key.holds == "int":
            numbers[key.name] = cursor.number(key.written)
        else:
            objects[key.name] = cursor.object(key.written, key.holds, list_end)
    cursor.expect(b"u")
    end = cursor.at
    good = cursor.good & (end <= len(window) - 8)  # beyond, the cursor does not see what is there
    after, behind = start[1:], np.minimum(end[:-1], len(window) - 2)
    linked = after == end[:-1]
    linked |= (after == end[:-1] + 2) & (data[behind] == ord("e")) & (data[behind + 1] == ord("("))
    breaks = np.flatnonzero(~np.append(linked & good[:-1], False))
    stop = breaks[breaks.searchsorted(np.arange(len(start)))]
    return _Ahead(start, end, good, stop, cursor.slots, numbers, objects)
