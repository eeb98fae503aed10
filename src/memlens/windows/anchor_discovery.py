"""Find the anchor lines that two logs share, so that a comparison can cut both without being told how.

A *family* is a set of lines that differ in one counting number only: ``START SOT_CALL_0`` … ``START SOT_CALL_429``.  Both logs are
gone through as a whole, but only lines that begin at the margin and carry no header of the framework are looked at one by one.
What a family must hold, and which of several is taken, is said at :func:`common_family`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens.scanner.formats import LineFormat
from memlens.scanner.lines import pieces
from memlens.scanner.scan import Scan, Scanner
from memlens.windows.anchor_templates import WORDS, Place, Template, may_mark, skeleton, templates
from memlens.windows.patterns import Anchor, Pattern, clean_line, find_anchors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.events import EventLog

__all__ = ["Family", "common_family"]

#: Lines of one log that are looked at one by one, from its beginning: done in about a second.
_MOST_LINES = 400_000
#: With more lines to look at in a piece of the text (512 KiB), only those with a word of anchors are looked at, so many at most.
_CROWDED = 2000
#: Kinds of lines that are told apart in one log; a log with more of them is full of something else.
_MOST_KINDS = 20_000
_LONGEST_LINE = 400
#: Families that are looked for in the text of both logs before there is none.
_MOST_TRIED = 6
#: Numbers are short: longer ones are addresses, process ids, times.
_MOST_DIGITS = 9
#: Lines that a family without a word like START or STEP has at least; it counts on by one, from 0 or 1.
_FEWEST_UNNAMED = 3

Numbers = tuple[int, ...]


class Family(NamedTuple):
    """Anchor lines that two logs share.

    Attributes:
        by: A regular expression to cut both logs by (:meth:`EventLog.windows`), whose first group names the window.
        anchors: The lines themselves, of base and of head; put into :attr:`EventLog.anchors` they spare a pass over the text.
    """

    by: str
    anchors: tuple[Anchor, Anchor]


class _Seen(NamedTuple):
    """The lines of one log that fit a template: where they begin, and their numbers."""

    template: Template
    offsets: list[int]
    numbers: list[Numbers]


class _Side(NamedTuple):
    """The lines of one family in one log: their numbers, the events after each of them, and all events up to where lines were looked for."""

    numbers: Sequence[Numbers]
    counts: NDArray[np.int64]
    events: int

    @classmethod
    def of(cls, log: EventLog, events: int, offsets: Sequence[int], numbers: Sequence[Numbers]) -> _Side:
        first = log.offset.searchsorted(np.array(offsets, np.int64), "left")
        return cls(numbers, np.diff(np.append(first, events)), events)


def common_family(base: EventLog, head: EventLog) -> Family | None:
    """The family of anchor lines to cut two logs by.

    It must count, in each log: at least two lines, whose numbers rise; they may start again where a step or an epoch does.
    Where the line has no word like START or STEP, it must count on by one, from 0 or 1.  The logs must share at least two of its
    windows, and most of the windows of one of them; where they share fewer, because the numbers start elsewhere in one of them (a
    resumed run), the numbers are taken from the first ones on.  In one log at least most windows must hold an event, and they must share
    the events out: no more than half of them before the first window, no more than nine in ten in any window.

    Of several families one of lines that say START, of ``STEP 3`` alone, or of lines that print figures on the way goes before
    one of lines that say END, and that before one without such words; then the one that cuts both logs into the most windows
    with events; then the same numbers before others; then START before the others; then the one that comes first.  Which log is called base makes no difference.

    Args:
        base: A log whose text can be read again.
        head: Another one.

    Returns:
        The family, or ``None`` where there is none, or where a text cannot be read again.

    Raises:
        InputError: The text of a log is no longer there.
    """
    if not (base.source.rereadable and head.source.rereadable):
        return None
    ours, our_events = _candidates(base)
    theirs, their_events = _candidates(head) if ours else ({}, 0)
    ranked = []
    for by in ours.keys() & theirs.keys():
        seen, other = ours[by], theirs[by]
        worth, same = _worth(
            _Side.of(base, our_events, seen.offsets, seen.numbers),
            _Side.of(head, their_events, other.offsets, other.numbers),
        )
        if worth:
            place = seen.template.place
            rank = max(place, Place.PROGRESS), -worth, not same, place
            ranked.append((rank, seen.offsets[0] + other.offsets[0], by))
    tried: set[str] = set()
    for _, _, by in sorted(ranked):
        template = ours[by].template
        for expression in (template.by, template.strict):
            if expression in tried or len(tried) == _MOST_TRIED:
                continue
            tried.add(expression)
            found = _found(expression, template, base, head)
            if found is not None:
                return Family(expression, found)
    return None


def _found(by: str, template: Template, base: EventLog, head: EventLog) -> tuple[Anchor, Anchor] | None:
    """The lines that an expression finds in both logs, if they still are a family: the expression may find more than was looked at."""
    sides, anchors = [], []
    for log in (base, head):
        anchor = find_anchors(log, [Pattern(by, regex=True)])[0]
        numbers = [tuple(int(digits) for digits in re.findall("[0-9]+", name)) for name in anchor.names]
        if not _counts(template, numbers):
            return None
        sides.append(_Side.of(log, len(log), anchor.offsets, numbers))
        anchors.append(anchor)
    return (anchors[0], anchors[1]) if _worth(*sides)[0] else None


# -- what a log holds ------------------------------------------------------------------------------------------------------


def _candidates(log: EventLog) -> tuple[dict[str, _Seen], int]:
    """Lines of a log that count, by the expression that finds them; and the events up to where they were looked for."""
    seen: dict[str, _Seen] = {}
    known: dict[bytes, tuple[Template, ...]] = {}  # what lines are, by their skeletons
    looked_at, events = 0, len(log)
    for piece, lines, looks in _marginal_lines(log):
        looked_at += looks
        if looked_at > _MOST_LINES:
            events = int(log.offset.searchsorted(piece))
            break
        for offset, line in lines:
            kind = skeleton(line)
            if kind not in known:
                known[kind] = templates(kind) if len(known) < _MOST_KINDS else ()
            digits = re.findall(rb"[0-9]+", line) if known[kind] else []
            if max(map(len, digits), default=0) > _MOST_DIGITS:
                continue
            for template in known[kind]:
                if template.by not in seen:
                    seen[template.by] = _Seen(template, [], [])
                entry = seen[template.by]
                entry.offsets.append(offset)
                entry.numbers.append(tuple(int(digits[n]) for n in template.numbers))
    return {by: entry for by, entry in seen.items() if _counts(entry.template, entry.numbers)}, events


def _marginal_lines(log: EventLog) -> Iterator[tuple[int, list[tuple[int, bytes]], int]]:
    """The lines of a log that could be anchors: those at the margin, without a header of the framework, that hold a number.

    Yields:
        For each piece of the text its byte offset, such lines of it (where each begins, and its clean text), and how many lines were
        looked at one by one.
    """
    end = log.facts.bytes or None
    for offset, text in log.source.blocks(0, end):
        # What was written to the log after it was read is no part of it.
        block = np.frombuffer(text, np.uint8)[: None if end is None else end - offset]
        for low, high in pieces(block):
            piece = block[low:high]
            starts, stops = _at_margin(piece)
            looks = len(starts)
            if looks > _CROWDED:
                positions = _words().scan(block, low, high).start - low
                held = np.unique(starts.searchsorted(positions, "right") - 1)
                held = held[held >= 0][:_CROWDED]
                starts, stops, looks = starts[held], stops[held], _CROWDED
            lines = piece.tobytes() if len(starts) else b""
            found = [
                (offset + low + start, clean_line(line))
                for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
                if may_mark(line := lines[start:stop].rstrip(b"\r"))
            ]
            yield offset + low, found, looks


@cache
def _words() -> Scanner:
    forms = (LineFormat("word", "", word, re.escape(word).decode(), {}) for word in WORDS)
    return Scanner([Scan(form, values=()) for form in forms])


def _margins() -> NDArray[np.bool_]:
    """Which two bytes a line may begin with, bool, 65,536 entries by the first byte times 256 plus the second."""
    first = np.zeros(256, np.bool_)
    first[list(b"[(#=*-<>_+~|\x1b")] = True
    for byte in range(128):
        first[byte] |= chr(byte).isalnum()
    first[128:] = True  # letters of other scripts
    table = np.repeat(first, 256).reshape(256, 256)
    table[[[byte] for byte in b"IWEF"], list(b"0123456789")] = False  # glog
    return table.reshape(-1)


_MARGINS = _margins()


def _at_margin(piece: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Starts and ends (int64) of the lines that begin like an anchor and are no longer than one."""
    ends = np.flatnonzero(piece == ord("\n"))
    if not len(ends) or ends[-1] < len(piece) - 1:
        ends = np.append(ends, len(piece))
    starts = np.concatenate(([0], ends[:-1] + 1))
    two = piece[starts].astype(np.uint16) << 8 | piece[np.minimum(starts + 1, len(piece) - 1)]
    length = ends - starts
    fits = _MARGINS[two] & (length > 2) & (length <= _LONGEST_LINE)
    return starts[fits], ends[fits]


# -- what counts -----------------------------------------------------------------------------------------------------------


def _counts(template: Template, numbers: Sequence[Numbers]) -> bool:
    """Whether the numbers of such lines, in file order, are a count."""
    if len(numbers) < 2:
        return False
    steps = list(pairwise(numbers))
    back = [after for before, after in steps if after <= before]
    if any(after == before for before, after in steps):
        return False  # two processes in one log, or no count at all
    again = sum(after == numbers[0] for after in back)  # the count of each step starts at its first number
    if len(back) * 2 > len(numbers) or (len(back) - again) * 10 > len(numbers):
        return False
    if template.place is not Place.UNNAMED:
        return True
    by_one = sum(after[-1] == before[-1] + 1 for before, after in steps)
    return len(numbers) >= _FEWEST_UNNAMED and numbers[0][-1] <= 1 and by_one + again == len(steps)


def _worth(base: _Side, head: _Side) -> tuple[int, bool]:
    """Into how many windows with events a family cuts both logs, 0 where it is no family of both; and whether by the same numbers.

    Where the logs share too few numbers, the counts may start elsewhere (a resumed run): they are taken from their first ones on.
    """
    if not (_cuts(base) or _cuts(head)):
        return 0, True
    for same in (True, False):
        sides = [side.numbers if same else _from_first(side.numbers) for side in (base, head)]
        shared = Counter(sides[0]) & Counter(sides[1])
        if len(shared) < 2 or sum(shared.values()) * 2 <= min(map(len, sides)):
            continue
        ours, theirs = map(_times, sides)
        with_events = {
            name
            for names, side in ((ours, base), (theirs, head))
            for name, count in zip(names, side.counts.tolist(), strict=True)
            if count
        }
        return len(set(ours) & set(theirs) & with_events), same
    return 0, True


def _from_first(numbers: Sequence[Numbers]) -> list[Numbers]:
    """The numbers less those of the first line."""
    return [tuple(number - first for number, first in zip(line, numbers[0], strict=True)) for line in numbers]


def _cuts(side: _Side) -> bool:
    """Whether windows share the events of a log out among them."""
    counts = side.counts
    half, most = int(counts.sum()) * 2, int(counts.max()) * 10
    return int(np.count_nonzero(counts)) * 2 > len(counts) and half >= side.events and most <= side.events * 9


def _times(numbers: Sequence[Numbers]) -> list[tuple[Numbers, int]]:
    """Each name with how many times it came up to there."""
    times: Counter[Numbers] = Counter()
    named = []
    for name in numbers:
        times[name] += 1
        named.append((name, times[name]))
    return named
