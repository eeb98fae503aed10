r"""Regular expressions made into programs for the compiled scanner.

An expression of the common kind (literals, sets of bytes, repeats, alternatives, groups, looking ahead, looking behind at text of one
length, ``^ $ \b``) becomes a program of a small machine that backtracks as ``re`` does.  Where nothing can come of going back
(the next byte rules it out) the program does not note the way back; that is what makes it fast.  Other expressions are
:class:`Unsupported`, and run through ``re``.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, NamedTuple

from memlens.scanner.expressions import ALL_BYTES, Item, Items, captures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


#: No match goes over a line end.
NEWLINE = 1 << 10
_ENDLESS = (1 << 31) - 1
#: Most items of a program, parts that are repeated counted as often as they stand in it.
_MOST_ITEMS = 1000
_MOST_DEPTH = 8


class Unsupported(Exception):  # noqa: N818 - it is no error: ``re`` does the work
    """An expression that is not of the common kind."""


class Op(IntEnum):
    """The operations of the machine, with the arguments that follow in the program; targets are positions in the program."""

    MATCH = 0
    FIXED = 1  # n, 4 words of lows, 4 words of spans: n bytes, each in its range
    BYTE = 2  # set
    RUN = 3  # set, least, most: as many as there are, for good
    GREEDY = 4  # set, least, most: as many as there are; then fewer
    LAZY = 5  # set, least, most: as few as can be; then more
    SPLIT = 6  # target: go on here, and there if that fails
    CHOOSE = 7  # set, target: go on here if the next byte is of the set, there otherwise
    JUMP = 8  # target
    SAVE = 9  # how many, and of each: slot, n: the position n bytes back
    KEEP = 10  # slot: what it holds comes back when the machine goes back
    AHEAD = 11  # target, 0: what follows, up to its MATCH, must match here; go on at the target
    NOT_AHEAD = 12
    BEHIND = 13  # target, n: the same n bytes back
    NOT_BEHIND = 14
    LINE_START = 15
    LINE_END = 16
    EDGE = 17
    NO_EDGE = 18
    NOT_NEXT = 19  # set: the next byte is not of it
    RANGES = 20  # set, least, most, 4 words each of a low, a span, a low, a span: RUN, where the set is of at most two ranges
    SAME = 21  # if the rest of the text is one that matched the rest of the program before, it matches


_AT = {"AT_BEGINNING": Op.LINE_START, "AT_END": Op.LINE_END, "AT_BOUNDARY": Op.EDGE, "AT_NON_BOUNDARY": Op.NO_EDGE}
_LOOKS = {"AHEAD": Op.AHEAD, "NOT_AHEAD": Op.NOT_AHEAD, "BEHIND": Op.BEHIND, "NOT_BEHIND": Op.NOT_BEHIND}


class Follow(NamedTuple):
    """The bytes that may come next.

    Attributes:
        bytes: The bytes with which it may begin, a set.
        empty: It may also be nothing: then any byte may come after it.
    """

    bytes: int
    empty: bool


_END = Follow(0, empty=True)


def first_bytes(items: Items, rest: Follow = _END) -> Follow:
    """With what a sequence, and the rest after it, may begin."""
    for item in reversed(items):
        rest = _first_of(item, rest)
    return rest


def _first_of(item: Item, rest: Follow) -> Follow:
    if item.kind == "BYTE":
        return Follow(item.members & ~NEWLINE, empty=False)
    if item.repeats:
        first = first_bytes(item.inner[0], rest) if item.most else rest
        return first if item.least else Follow(first.bytes | rest.bytes, first.empty or rest.empty)
    if item.kind in ("GROUP", "BRANCH"):
        return _any_of([first_bytes(part, rest) for part in item.inner])
    if item.kind == "AT_END":
        return _END
    if item.kind == "AHEAD":
        ahead = first_bytes(item.inner[0])
        if not ahead.empty:
            return Follow(ahead.bytes if rest.empty else ahead.bytes & rest.bytes, empty=False)
    if item.kind == "NOT_AHEAD" and (never := _one_byte(item.inner[0])) is not None:
        return Follow((ALL_BYTES if rest.empty else rest.bytes) & ~never, rest.empty)
    # A condition.  Where nothing has to come after it, it may hold before any byte.
    return Follow(ALL_BYTES, empty=True) if rest.empty else rest


def _any_of(firsts: Sequence[Follow]) -> Follow:
    """The bytes that may come next where one of several things follows."""
    return Follow(reduce(or_, (first.bytes for first in firsts), 0), any(first.empty for first in firsts))


def looks_ahead(items: Items) -> bool:
    """Whether a sequence never looks at what stands before it."""
    return all(
        (not item.takes_no_text or item.kind == "AT_END") and all(map(looks_ahead, item.inner)) for item in items
    )


def can_be_nothing(items: Items) -> bool:
    """Whether a sequence of the common kind may match no text."""
    return all(
        item.takes_no_text
        or (item.repeats and (not item.least or can_be_nothing(item.inner[0])))
        or (item.kind in ("GROUP", "BRANCH") and any(map(can_be_nothing, item.inner)))
        for item in items
    )


def _two_ranges(members: int) -> list[int]:
    """A set as two ranges of bytes, of each the lowest and how many more; empty where it is of more ranges."""
    found: list[int] = []
    while members and len(found) < 4:
        low = (members & -members).bit_length() - 1
        span = (~(members >> low) & (members >> low) + 1).bit_length() - 2
        found += [low, span]
        members &= ~((2 << span) - 1 << low)
    return [] if members or not found else (found * 2)[:4]


def _one_byte(items: Items) -> int | None:
    """The set of bytes of which a sequence is one; ``None`` where it is something else."""
    return items[0].members if len(items) == 1 and items[0].kind == "BYTE" else None


class Compiler:
    """Makes programs, one after the other, that share their sets of bytes.

    Attributes:
        code: The programs, words of 32 bits.
        sets: The sets of bytes that they use, and the number of each.
    """

    def __init__(self) -> None:
        self.code: list[int] = []
        self.sets: dict[int, int] = {}
        self._slots: Mapping[int, int] = {}
        self._ranges: list[tuple[int, int]] = []  # bytes of the FIXED that is being made: lowest, and how many more
        self._saves: list[tuple[int, int]] = []  # slots to be set after it, and at which of its bytes
        self._items = self._depth = 0

    def program(self, items: Items, slots: Mapping[int, int], *, recurring: bool = False) -> int:
        """Make one program.

        Args:
            items: The tree of the expression.
            slots: Of the groups wanted the slot of their start; that of their end is the next one.
            recurring: It must match to the end of the text, and the end is often the same: the machine remembers it.

        Returns:
            Where it begins.

        Raises:
            Unsupported: The expression is not of the common kind.
        """
        begin, self._slots, self._items, self._depth = len(self.code), slots, 0, 0
        try:
            if recurring:
                items, rest = self._recurring(items)
                self._sequence(items, first_bytes(rest) if rest else _END)
                if rest:
                    self._op(Op.SAME)
                    self._sequence(rest, _END)
            else:
                self._sequence(items, _END)
            self._op(Op.MATCH)
        except Unsupported:
            del self.code[begin:]
            self._ranges, self._saves = [], []
            raise
        return begin

    def _recurring(self, items: Items) -> tuple[Items, Items]:
        """A sequence in two: the second part sets no slot, and whether it matches depends on no byte before it."""
        begin = len(items)
        while begin and not self._slots_in(items[begin - 1 :]) and looks_ahead(items[begin - 1 :]):
            begin -= 1
        return items[:begin], items[begin:]

    def set_of(self, members: int) -> int:
        """The number of a set of bytes."""
        return self.sets.setdefault(members & ~NEWLINE, len(self.sets))

    def _sequence(self, items: Items, rest: Follow) -> None:
        follows = [rest]
        for item in reversed(items[1:]):
            follows.append(_first_of(item, follows[-1]))
        for item, follow in zip(items, reversed(follows), strict=False):
            self._item(item, follow)

    def _item(self, item: Item, rest: Follow) -> None:
        self._items += 1
        if self._items > _MOST_ITEMS:
            raise Unsupported
        if item.kind == "BYTE":
            self._bytes(item.members & ~NEWLINE, 1)
        elif item.repeats:
            self._repeat(item, rest)
        elif item.kind == "BRANCH":
            self._branch(item.inner, rest)
        elif item.kind == "GROUP":
            slot = None if item.number is None else self._slots.get(item.number)
            self._save(slot)
            self._sequence(item.inner[0], rest)
            self._save(None if slot is None else slot + 1)
        elif item.kind in _LOOKS:
            self._condition(item)
        elif item.kind in _AT:
            self._op(_AT[item.kind])
        else:
            raise Unsupported

    def _bytes(self, members: int, times: int) -> None:
        """One byte of a set, or several."""
        low = (members & -members).bit_length() - 1
        span = (members >> max(low, 0)).bit_length() - 1
        if members and members >> low == (2 << span) - 1 and times <= 64:
            self._ranges += [(low, span)] * times
        elif times == 1:
            self._op(Op.BYTE, self.set_of(members))
        else:
            self._op(Op.RUN, self.set_of(members), times, times)

    def _save(self, slot: int | None) -> None:
        if slot is not None:
            self._saves.append((slot, len(self._ranges)))

    def _repeat(self, item: Item, rest: Follow) -> None:
        least, most, (inner,) = item.least, min(item.most, _ENDLESS), item.inner
        members = _one_byte(inner)
        if members is not None:
            members &= ~NEWLINE
            if least == most:
                self._bytes(members, least)
            elif item.kind == "MIN_REPEAT":
                self._op(Op.LAZY, self.set_of(members), least, most)
            else:
                # Going back helps only if what comes next may begin with a byte of the set.
                back = item.kind == "MAX_REPEAT" and members & rest.bytes
                ranges = [] if back or most == 1 else _two_ranges(members)
                run = Op.RANGES if ranges else Op.GREEDY if back else Op.RUN
                words = struct.unpack(f"<{4 * len(ranges)}i", bytes(byte for byte in ranges for _ in range(16)))
                self._op(run, self.set_of(members), least, most, *words)
            return
        first = first_bytes(inner, rest)
        if item.kind == "POSSESSIVE_REPEAT" or can_be_nothing(inner) or (most > 1 and self._slots_in(inner)):
            raise Unsupported
        again = Follow(first.bytes | rest.bytes, rest.empty) if most > 1 else rest
        for _ in range(least):
            self._sequence(inner, again)
        ends = []
        start = self._here()
        for _ in range(1 if most == _ENDLESS else most - least):
            ends.append(self._split(first, rest, lazy=item.kind == "MIN_REPEAT"))
            self._sequence(inner, again)
        if most == _ENDLESS:
            self._op(Op.JUMP, start)
        self._land(*ends)

    def _split(self, first: Follow, other: Follow, *, lazy: bool = False) -> int:
        """Go on here with what begins with ``first``, or elsewhere with the other: the word for where that is."""
        if not (first.empty or other.empty or first.bytes & other.bytes):
            self._op(Op.CHOOSE, self.set_of(first.bytes), 0)
        elif lazy:
            here = self._here() + 4
            self._op(Op.SPLIT, here)
            self._op(Op.JUMP, 0)
        else:
            self._op(Op.SPLIT, 0)
        return len(self.code) - 1

    def _branch(self, branches: Sequence[Items], rest: Follow) -> None:
        firsts = [first_bytes(branch, rest) for branch in branches]
        ends = []
        for index, branch in enumerate(branches[:-1]):
            otherwise = self._split(firsts[index], _any_of(firsts[index + 1 :]))
            self._sequence(branch, rest)
            self._op(Op.JUMP, 0)
            ends.append(len(self.code) - 1)
            self._land(otherwise)
        self._sequence(branches[-1], rest)
        self._land(*ends)

    def _condition(self, look: Item) -> None:
        (inner,), negative = look.inner, look.kind.startswith("NOT_")
        never = _one_byte(inner)
        if never is not None and look.kind == "NOT_AHEAD":
            self._op(Op.NOT_NEXT, self.set_of(never))
            return
        back = look.least if look.kind.endswith("BEHIND") else 0
        self._depth += 1
        if (look.kind.endswith("BEHIND") and look.least != look.most) or self._depth > _MOST_DEPTH:
            raise Unsupported
        slots = self._slots
        if negative:
            self._slots = {}  # whatever matches in it, the groups in it took no part
        else:
            for slot in self._slots_in(inner):
                self._op(Op.KEEP, slot)
                self._op(Op.KEEP, slot + 1)
        self._op(_LOOKS[look.kind], 0, back)
        target = len(self.code) - 2
        self._sequence(inner, _END)
        self._op(Op.MATCH)
        self._land(target)
        self._slots = slots
        self._depth -= 1

    def _slots_in(self, inner: Items) -> list[int]:
        return [self._slots[group] for group, _ in captures(inner) if group in self._slots]

    def _here(self) -> int:
        """The position in the program, with all before it written out."""
        if len(self._ranges) == 1:
            low, span = self._ranges[0]
            self.code += [Op.BYTE, self.set_of((2 << span) - 1 << low)]
        for begin in range(0, len(self._ranges) if len(self._ranges) > 1 else 0, 16):
            part = self._ranges[begin : begin + 16]
            filled = part + [(0, 255)] * (16 - len(part))
            lows, spans = (bytes(pair[k] for pair in filled) for k in (0, 1))
            self.code += [Op.FIXED, len(part), *struct.unpack("<8i", lows + spans)]
        if self._saves:
            self.code += [Op.SAVE, len(self._saves)]
        for slot, at in self._saves:
            self.code += [slot, len(self._ranges) - at]
        self._ranges, self._saves = [], []
        return len(self.code)

    def _op(self, operation: Op, *arguments: int) -> None:
        self._here()
        self.code += [operation, *arguments]

    def _land(self, *words: int) -> None:
        """Here is where the targets are."""
        here = self._here()
        for word in words:
            self.code[word] = here
