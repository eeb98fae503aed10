"""Follows one known sequence of pickle instructions from many places of a window at once.

The places are where dicts of one shape may begin: the values of their keys differ, and the instructions do not.  Each place has a
position of its own, which moves on with what it finds.  A place that leaves the sequence is no entry; for the others every byte
from the first to the last was looked at, but for the items of a list, which are left to the caller.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = ["BEGIN", "LIST", "METADATA", "Ahead", "Key", "keys_of", "look_ahead"]

#: A dict that goes into the memo, and its items.
BEGIN = b"}\x94("
#: How frames are given.
LIST, REFERENCE = 1, 2
_MOST_KEYS = 32
#: The key whose value may be a dict, by reference, where others are texts.
METADATA = "user_metadata"


@dataclass(frozen=True)
class Key:
    """One key of the usual entry: the bytes that write it, and what its values are (``int``, ``str``, ``pair``, ``frames``)."""

    name: str
    written: bytes
    holds: str


@dataclass(frozen=True, eq=False)
class Ahead:
    """What may be entries in one window.

    Attributes:
        start: Where each begins, int64, rising.
        end: Where each ends.
        good: It is an entry, from its first byte to its last.
        stop: For each the first one from it on after which the next does not follow at once.
        slots: How many memo slots each takes.
        numbers: Values by key.
        references: For each key with texts the memo index, -1 where the text itself stands there.
        places: For each key with texts where the text stands, its length, and the memo slots that its entry takes before it.
        pairs: For each key with tuples the memo index, -1 where the tuple itself stands there, its two numbers, and the memo slots that its
            entry takes before it.
        frames: How the frames are given: as a list or as a reference.
        body: Where the items of the list begin, or the memo index of the reference.
    """

    start: Ints
    end: Ints
    good: NDArray[np.bool_]
    stop: Ints
    slots: Ints
    numbers: dict[str, Ints]
    references: dict[str, Ints]
    places: dict[str, tuple[Ints, Ints, Ints]]
    pairs: dict[str, tuple[Ints, Ints, Ints, Ints]]
    frames: NDArray[np.int8]
    body: Ints


def keys_of(value: dict[str, Any], memo: list[Any]) -> tuple[Key, ...]:
    """How entries like this one are written; nothing where one of its values is of no known kind."""
    if len(value) > _MOST_KEYS:
        return ()
    wanted = {id(name): name for name in value}
    found: dict[str, int] = {}
    for index, item in enumerate(memo):
        if id(item) in wanted:
            found.setdefault(wanted[id(item)], index)
    keys = []
    for place, (name, example) in enumerate(value.items()):
        if name not in found:
            return ()
        index = found[name]
        if name == "frames":
            holds = "frames" if type(example) in (list, tuple) and place == len(value) - 1 else ""
        elif type(example) is tuple:
            holds = "pair" if len(example) == 2 and all(type(part) is int for part in example) else ""
        else:
            holds = {int: "int", str: "str", dict: "str" if name == METADATA else ""}.get(type(example), "")
        if not holds:
            return ()
        written = b"h%c" % index if index < 256 else b"j" + index.to_bytes(4, "little")
        keys.append(Key(name, written, holds))
    return tuple(keys)


class _Cursor:
    """Positions in a window that move on together, as long as they find what they should.

    Args:
        window: The bytes.
        at: Where to begin, int64.
    """

    def __init__(self, window: bytes, at: Ints) -> None:
        self._bytes = np.frombuffer(window, np.uint8)
        # The 8 bytes from any position on, as one number.
        self._words = np.ndarray((len(window) - 7,), "<u8", window, strides=(1,))
        self._last = len(window) - 8
        self.at = at
        self.good = np.ones(len(at), np.bool_)
        self.slots = np.ones(len(at), np.int64)

    def _here(self, ahead: int | Ints = 0) -> Ints:
        here: Ints = np.minimum(self.at + ahead, self._last)
        return here

    def byte(self, ahead: int | Ints = 0) -> Ints:
        """The byte so many positions ahead, as int64."""
        found: Ints = self._bytes[self._here(ahead)].astype(np.int64)
        return found

    def word(self, ahead: int | Ints, size: int | Ints) -> NDArray[np.uint64]:
        """So many bytes from there on, at the upper end of a word whose lower bytes are 0."""
        shift = np.asarray(64 - 8 * np.asarray(size), np.uint64)
        shifted: NDArray[np.uint64] = self._words[self._here(ahead)] << shift
        return shifted

    def expect(self, text: bytes) -> None:
        """Pass over a given text."""
        for offset in range(0, len(text), 8):
            part = text[offset : offset + 8]
            wanted = int.from_bytes(part, "little") << (64 - 8 * len(part))
            self.good &= self.word(offset, len(part)) == np.uint64(wanted)
        self.at = self.at + len(text)

    def number(self) -> Ints:
        """Pass over a whole number and give it."""
        code = self.byte()
        long = code == 0x8A
        size = np.where(long, self.byte(1), _NUMBER_SIZE[code])
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

    def reference(self) -> Ints:
        """Pass over a reference and give its memo index; -1 and no step where there is none."""
        code = self.byte()
        short, long = code == 0x68, code == 0x6A
        index = np.where(short, self.byte(1), (self.word(1, 4) >> np.uint64(32)).view(np.int64))
        index = np.where(short | long, index, -1)
        self.at = self.at + 2 * short + 5 * long
        return index

    def text(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Pass over a text or a reference to one: the memo index or -1, where the text stands, its length, slots taken before it."""
        index = self.reference()
        inline = index < 0
        size = self.byte(1)
        self.good &= ~inline | ((self.byte() == 0x8C) & (self.byte(2 + size) == 0x94))
        place, before = self.at + 2, self.slots
        self.at = self.at + inline * (size + 3)
        self.slots = self.slots + inline
        return index, place, size, before

    def pair(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Pass over a tuple of two numbers or a reference to one: the memo index or -1, the two numbers, slots taken before it."""
        index = self.reference()
        inline, good, at, before = index < 0, self.good.copy(), self.at, self.slots
        first, second = self.number(), self.number()
        self.expect(b"\x86\x94")
        self.good = good & (~inline | self.good)
        self.at = np.where(inline, self.at, at)
        self.slots = self.slots + inline
        return index, first, second, before


#: Bytes of the number that follow each instruction; 9 for what is no number.
_NUMBER_SIZE = np.full(256, 9, np.int64)
_NUMBER_SIZE[[0x4B, 0x4D, 0x4A]] = 1, 2, 4


def look_ahead(window: bytes, at: int, begin: bytes, keys: tuple[Key, ...]) -> Ahead | None:
    """Follow the usual sequence from all places of a window from ``at`` on where an entry may begin."""
    if len(window) < 64 or not len(start := _places(window, at, begin)):
        return None
    cursor = _Cursor(window, start + len(BEGIN))
    numbers: dict[str, Ints] = {}
    references: dict[str, Ints] = {}
    pairs: dict[str, tuple[Ints, Ints, Ints, Ints]] = {}
    places: dict[str, tuple[Ints, Ints, Ints]] = {}
    frames, body = np.zeros(len(start), np.int8), np.zeros(len(start), np.int64)
    follows = np.append(start[1:], len(window))
    end = start
    for key in keys:
        cursor.expect(key.written)
        if key.holds == "int":
            numbers[key.name] = cursor.number()
        elif key.holds == "pair":
            pairs[key.name] = cursor.pair()
        elif key.holds == "str":
            references[key.name], *place = cursor.text()
            places[key.name] = (place[0], place[1], place[2])
        else:
            body = cursor.reference()
            is_list = body < 0
            frames = np.where(is_list, LIST, REFERENCE).astype(np.int8)
            cursor.good &= ~is_list | ((cursor.byte() == 0x5D) & (cursor.byte(1) == 0x94))
            body = np.where(is_list, cursor.at + 2, body)
            cursor.slots = cursor.slots + is_list
            # A list is taken to reach to the next entry; its items say later whether that is so.
            list_end = _end_before(window, follows)
            cursor.at = np.where(is_list, list_end - 1, cursor.at)
            cursor.good &= ~is_list | (list_end - 1 >= body)
    cursor.expect(b"u")
    end = cursor.at
    good = cursor.good & (end <= len(window) - 8)  # beyond, the cursor does not see what is there
    stop = _stops(window, start, end, good)
    return Ahead(start, end, good, stop, cursor.slots, numbers, references, places, pairs, frames, body)


def _places(window: bytes, at: int, begin: bytes) -> Ints:
    """Where the first bytes of an entry stand, from ``at`` on, rising."""
    cursor = _Cursor(window, np.flatnonzero(np.frombuffer(window, np.uint8)[at:] == begin[0]) + at)
    found = cursor.at
    cursor.expect(begin)
    return found[cursor.good & (cursor.at <= len(window) - 8)]


def _end_before(window: bytes, follows: Ints) -> Ints:
    """Where an entry ends that is followed by one at each of the given places: right there, or before an ``e(`` that begins a new batch."""
    data = np.frombuffer(window, np.uint8)
    batch = (data[follows - 1] == 0x28) & (data[follows - 2] == 0x65)
    end: Ints = follows - 2 * batch
    return end


def _stops(window: bytes, start: Ints, end: Ints, good: NDArray[np.bool_]) -> Ints:
    """For each entry the first one from it on that is no entry or that no other follows at once."""
    data = np.frombuffer(window, np.uint8)
    after, place = start[1:], np.minimum(end[:-1], len(window) - 2)
    linked = after == end[:-1]
    linked |= (after == end[:-1] + 2) & (data[place] == 0x65) & (data[place + 1] == 0x28)
    breaks = np.flatnonzero(~np.append(linked & good[:-1], False))
    found: Ints = breaks[breaks.searchsorted(np.arange(len(start)))]
    return found
