"""Runs of trace entries in a pickle, read as columns: many entries with a few array operations instead of 20 instructions each.

A trace is a list of dicts with the same keys, so its pickle repeats one sequence of instructions, and only values differ.  Once the
machine has read one such dict, :class:`EntryRuns` knows the sequence.  It finds where others may begin in the machine's window, follows the
sequence from all of them at once, each with its own position, and drops those that leave it.  An entry is taken only if every one of its bytes
was accounted for and it begins where the one before it ends: then the machine would have read the same.  Whatever is not taken, the
machine reads itself.

What is read so does not become dicts: a :class:`Rows` stands for the entries in their list.  Their lists of frames, which make up most of a file, are
known by their bytes, as the same stack is written with the same references each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.inputs.torch_snapshot.pickle_ahead import BEGIN, LIST, METADATA, Ahead, Key, keys_of, look_ahead
from memlens.inputs.torch_snapshot.pickles import Gone, Machine
from memlens.inputs.torch_snapshot.texts import Numbering, as_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.inputs.torch_snapshot.stacks import Stacks

    Ints = NDArray[np.int64]

__all__ = ["EntryRuns", "Rows", "as_pool"]

#: The protocol from which on every container is put into the memo right where it begins, without an index.
_MEMOIZING = 4
#: Entries of another shape that come in a row before that shape is taken as the usual one, and how often that may happen.
_PATIENCE = 4
_MOST_SHAPES = 32
#: Entries taken at once, at most and at least.
_FARTHEST, _NEAREST = 1 << 14, 8
_UNKNOWN = -2
#: Keys whose texts are kept.
_TEXTS = ("action", METADATA, "stage", "name")
#: The key whose pairs are kept.
_POOL = "pool_id"


@dataclass(frozen=True, eq=False)
class Rows:
    """Entries of a trace, as columns.

    Attributes:
        count: How many.
        numbers: Whole numbers by key, int64.
        texts: Texts by key, as numbers of :attr:`EntryRuns.texts`, int32.
        stack: Numbers of :class:`Stacks`, int32; ``None`` where the entries have no frames.
        pool: Numbers of :attr:`EntryRuns.pools`, int32; ``None`` where the entries name no pool.
    """

    count: int
    numbers: dict[str, Ints]
    texts: dict[str, NDArray[np.int32]]
    stack: NDArray[np.int32] | None
    pool: NDArray[np.int32] | None


class _Slots:
    """What is known of memo slots, so that references are looked up many at once.  What a slot holds never changes.

    Attributes:
        text: Numbers of texts, int32, -1 where none is known.
        stack: Numbers of stacks, int32, :data:`_UNKNOWN` where none is known.
    """

    def __init__(self) -> None:
        self.text = np.full(1 << 12, -1, np.int32)
        self.stack = np.full(1 << 12, _UNKNOWN, np.int32)

    def reach(self, count: int) -> None:
        """Have room for so many slots."""
        if count > len(self.text):
            more = max(count, 2 * len(self.text)) - len(self.text)
            self.text = np.append(self.text, np.full(more, -1, np.int32))
            self.stack = np.append(self.stack, np.full(more, _UNKNOWN, np.int32))


class EntryRuns:
    """Takes runs of entries out of a machine's input.

    Args:
        stacks: Numbers the lists of frames.

    Attributes:
        texts: The texts that :class:`Rows` speaks of.
        pools: The memory pools, as torch names them.
    """

    def __init__(self, stacks: Stacks) -> None:
        self._stacks = stacks
        self._keys: tuple[Key, ...] = ()
        self._begin = b""
        self._other: tuple[str, ...] = ()
        self._others = 0
        self._learned = 0
        self._reach = _FARTHEST
        self._window: bytes | None = None
        self._ahead: Ahead | None = None
        self._bodies: dict[bytes, int] = {}
        self._lists: dict[int, tuple[Any, ...]] = {}
        self._slots = _Slots()
        self.texts: Numbering[str] = Numbering()
        self.pools: Numbering[tuple[int, int]] = Numbering()

    def seen(self, machine: Machine, value: dict[str, Any]) -> None:
        """Learn the shape of the entries from one that the machine read."""
        names = tuple(value)
        if machine.protocol < _MEMOIZING or names == tuple(key.name for key in self._keys):
            return
        if names != self._other:
            self._other, self._others = names, 0
        self._others += 1
        if (self._keys and self._others < _PATIENCE) or self._learned >= _MOST_SHAPES:
            return
        self._learned += 1  # also where nothing comes of it: the whole memo is looked through
        keys = keys_of(value, machine.memo)
        if keys:
            self._keys, self._begin, self._window = keys, BEGIN + keys[0].written, None

    def take(self, machine: Machine, at: int) -> int:
        """Take the entries from ``at`` on, as one :class:`Rows` on the machine's stack; give where they end."""
        window = machine.window
        if not self._keys or not window.startswith(self._begin, at):
            return at
        marks, stack = machine.marks, machine.stack
        if not marks or not 0 < marks[-1] <= len(stack) or type(stack[marks[-1] - 1]) is not list:
            return at
        if self._window is not window:
            self._window, self._ahead = window, look_ahead(window, at, self._begin, self._keys)
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

    def _read(self, machine: Machine, ahead: Ahead, first: int, stop: int) -> int:
        """Read the entries ``first … stop-1``, or those before the first one that refers to what it may not; give where it stopped."""
        memo, known = machine.memo, len(machine.memo)
        slots = ahead.slots[first:stop]
        slot = known + np.cumsum(slots) - slots  # of each entry's dict; its texts and its list come after it
        self._slots.reach(int(slot[-1] + slots[-1]))
        texts: dict[str, NDArray[np.int32]] = {}
        made: list[tuple[int, str]] = []
        for reference, *_ in ahead.pairs.values():
            beyond = np.flatnonzero(reference[first:stop] >= known)
            stop = first + int(beyond[0]) if len(beyond) else stop
        for name in ahead.references:
            count = stop - first
            numbers, usable = self._texts(machine, ahead, name, slice(first, stop), slot[:count], made)
            stop = first + min(usable, len(numbers))
            if name in _TEXTS:
                texts[name] = numbers
        pool, usable = self._pools(machine, ahead, slice(first, stop))
        stop = first + usable
        stack, usable = (
            self._frames(machine, ahead, slice(first, stop), slot[: stop - first]) if stop > first else (None, 0)
        )
        stop = first + usable
        if not usable:
            return first
        memo.extend([Gone] * (int(slot[usable - 1] + slots[usable - 1]) - known))
        for index, text in made:
            if index < len(memo):
                memo[index] = text
        if pool is not None:
            reference, *_, before = ahead.pairs[_POOL]
            inline = np.flatnonzero(reference[first:stop] < 0)
            own = (slot[:usable] + before[first:stop])[inline]
            for index, number in zip(own.tolist(), pool[inline].tolist(), strict=True):
                memo[index] = self.pools.values[number]
        if stack is not None:
            is_list = ahead.frames[first:stop] == LIST
            own = (slot[:usable] + slots[:usable] - 1)[is_list]
            for index, number in zip(own.tolist(), stack[is_list].tolist(), strict=True):
                memo[index] = self._lists[number]
        machine.stack.append(
            Rows(
                usable,
                {name: column[first:stop].copy() for name, column in ahead.numbers.items()},
                {name: numbers[:usable] for name, numbers in texts.items()},
                stack,
                None if pool is None else pool[:usable],
            )
        )
        return stop

    def _pools(self, machine: Machine, ahead: Ahead, rows: slice) -> tuple[NDArray[np.int32] | None, int]:
        """The pools by number, and how many rows from the first on have one."""
        if _POOL not in ahead.pairs:
            return None, rows.stop - rows.start
        reference, left, right = (column[rows] for column in ahead.pairs[_POOL][:3])
        numbers = np.full(len(reference), -1, np.int32)
        inline = np.flatnonzero(reference < 0)
        left, right = left[inline], right[inline]
        # Entries of one pool come in a row: one look-up for each such row.
        begins = np.flatnonzero(
            np.diff(left, prepend=-1).astype(np.bool_) | np.diff(right, prepend=-1).astype(np.bool_)
        )
        begins = np.unique(np.append(begins, 0)) if len(inline) else begins
        pairs = zip(left[begins].tolist(), right[begins].tolist(), strict=True)
        numbers[inline] = np.repeat(
            np.array([self.pools.number(pair) for pair in pairs], np.int32), np.diff(begins, append=len(inline))
        )
        referred = np.flatnonzero(reference >= 0)
        slots, which = np.unique(reference[referred], return_inverse=True)
        known = [
            -1 if (pool := as_pool(machine.memo[slot])) is None else self.pools.number(pool) for slot in slots.tolist()
        ]
        numbers[referred] = np.array(known, np.int32)[which.reshape(-1)]
        wrong = np.flatnonzero(numbers < 0)
        return numbers, int(wrong[0]) if len(wrong) else len(numbers)

    def _texts(
        self, machine: Machine, ahead: Ahead, name: str, rows: slice, slot: Ints, made: list[tuple[int, str]]
    ) -> tuple[NDArray[np.int32], int]:
        """The texts of one key by number, and how many rows from the first on have one; new texts go to ``made`` with their slot."""
        memo, reference = machine.memo, ahead.references[name][rows]
        usable = len(reference)
        beyond = np.flatnonzero(reference >= len(memo))
        if len(beyond):  # a text of this very run, or none at all
            usable = int(beyond[0])
        numbers = self._slots.text[np.where(reference < len(memo), reference, 0)]
        unknown = np.flatnonzero((numbers < 0) & (reference >= 0) & (reference < len(memo)))
        noted = []
        for index in np.unique(reference[unknown]).tolist():
            if type(memo[index]) is str:
                self._slots.text[index] = self.texts.number(memo[index])
            elif name == METADATA and type(memo[index]) is dict:
                noted.append(index)
                self._slots.text[index] = self.texts.number(as_text(memo[index]))
            else:
                usable = min(usable, int((reference == index).argmax()))
        numbers[unknown] = self._slots.text[reference[unknown]]
        self._slots.text[noted] = -1  # only as metadata a dict is a text
        at, size, before = (column[rows] for column in ahead.places[name])
        inline = np.flatnonzero(reference < 0)
        for k, begin, length, own in zip(
            inline.tolist(), at[inline].tolist(), size[inline].tolist(), (slot + before)[inline].tolist(), strict=True
        ):
            try:
                text = machine.window[begin : begin + length].decode("utf-8", "surrogatepass")
            except UnicodeDecodeError:
                return numbers, min(usable, k)
            numbers[k] = self.texts.number(text)
            made.append((own, text))
        return numbers, usable

    def _frames(self, machine: Machine, ahead: Ahead, rows: slice, slot: Ints) -> tuple[NDArray[np.int32] | None, int]:
        """The stacks by number, and how many rows from the first on have one."""
        if self._keys[-1].holds != "frames":
            return None, rows.stop - rows.start
        memo, of_slot, place = machine.memo, self._slots.stack, ahead.body[rows]
        is_list = ahead.frames[rows] == LIST
        own = slot + ahead.slots[rows] - 1
        usable = len(place)
        numbers = np.full(usable, _UNKNOWN, np.int32)
        lists = np.flatnonzero(is_list)
        read = self._read_lists(machine, place[lists].tolist(), (ahead.end[rows][lists] - 1).tolist())
        if len(read) < len(lists):
            usable = int(lists[len(read)])
        lists = lists[: len(read)]
        numbers[lists] = of_slot[own[lists]] = read
        references = np.flatnonzero(~is_list[:usable])
        wanted = place[references]
        before = wanted < slot[references]
        found = np.where(before, of_slot[np.where(before, wanted, 0)], _UNKNOWN)
        for index in np.unique(wanted[before & (found == _UNKNOWN)]).tolist():
            if index < len(memo) and type(memo[index]) in (list, tuple):
                of_slot[index] = self._stacks.number(memo[index])
        found = np.where(before, of_slot[np.where(before, wanted, 0)], _UNKNOWN)
        numbers[references] = found
        if (found == _UNKNOWN).any():
            usable = int(references[(found == _UNKNOWN).argmax()])
        of_slot[own[usable:]] = _UNKNOWN
        return numbers[:usable], usable

    def _read_lists(self, machine: Machine, begins: list[int], ends: list[int]) -> list[int]:
        """The numbers of the stacks that stand in the window, up to the first one that is not written as references alone."""
        window, known = machine.window, self._bodies
        bodies = [window[begin:end] for begin, end in zip(begins, ends, strict=True)]
        numbers = []
        for body, found in zip(bodies, map(known.get, bodies), strict=True):
            number = known.get(body) if found is None else found
            if number is None:
                frames = self._body(body, machine.memo)
                if frames is None:
                    break
                number = known[body] = self._stacks.number(frames)
                self._lists.setdefault(number, frames)
            numbers.append(number)
        return numbers

    def _body(self, body: bytes, memo: list[Any]) -> tuple[Any, ...] | None:
        """The items of a list that is written as references alone; ``None`` for any other list.

        What a memo index stands for never changes, so the same bytes mean the same list from here on.
        """
        if not body:
            indices: list[int] = []
        elif body[:1] == b"(" and body[-1:] == b"e":
            indices = _references(body[1:-1])
        elif body[-1:] == b"a":
            indices = _references(body[:-1])
            if len(indices) != 1:
                return None
        else:
            return None
        if body and (not indices or max(indices) >= len(memo)):
            return None
        frames = tuple([memo[index] for index in indices])
        return frames if all(type(frame) is dict for frame in frames) else None


def as_pool(value: Any) -> tuple[int, int] | None:
    """A pair of numbers, as torch names a pool; ``None`` for anything else."""
    if type(value) is tuple and len(value) == 2 and all(type(part) is int for part in value):
        return value
    return None


def _references(body: bytes) -> list[int]:
    """The memo indices of references that follow each other; none where anything else is among them."""
    indices, pos, size = [], 0, len(body)
    while pos < size:
        if body[pos] == 0x68 and pos + 2 <= size:
            indices.append(body[pos + 1])
            pos += 2
        elif body[pos] == 0x6A and pos + 5 <= size:
            indices.append(int.from_bytes(body[pos + 1 : pos + 5], "little"))
            pos += 5
        else:
            return []
    return indices
