"""Find the anchor lines of one log, or those that two logs share, so that they can be cut without being told how.

A *family* is a set of lines that differ in one counting number only: ``START SOT_CALL_0`` … ``START SOT_CALL_429``.  Of one log the
landmarks are looked at (:mod:`memlens.windows.landmarks`), which are found while it is read.  Two logs are gone through as a whole,
but only lines that begin at the margin and carry no header of the framework are looked at one by one.
What a family must hold, and which of several is taken, is said at :func:`common_family` and :func:`family`.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from memlens.scanner import pieces
from memlens.windows.anchor_templates import Place, Template, Work, may_mark, skeleton, templates
from memlens.windows.anchors import find_anchors, landmarks_of, text_blocks
from memlens.windows.landmarks import LONGEST_LINE, Landmarks, at_margin, word_scanner
from memlens.windows.patterns import Anchor, Pattern, clean_line
from memlens.windows.windows import suspect_anchors, windows_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from memlens.columns import Ints
    from memlens.events import EventLog
    from memlens.windows.windows import Window


#: Lines of one log that are looked at one by one, from its beginning: done in about a second.
_MOST_LINES = 400_000
#: With more lines to look at in a piece of the text (512 KiB), only those with a word of anchors are looked at, so many at most.
_CROWDED = 2000
#: Kinds of lines that are told apart in one log; a log with more of them is full of something else.
_MOST_KINDS = 20_000
#: Families that are looked for in the text of both logs before there is none.
_MOST_TRIED = 6
#: Numbers are short: longer ones are addresses, process ids, times.
_MOST_DIGITS = 9
#: Lines that a family without a word like START or STEP has at least; it counts on by one, from 0 or 1.
_FEWEST_UNNAMED = 3

#: Parts of one log (calls, blocks, layers) are shown, and nothing is judged over them: many of them are not worth their windows.
_MOST_PARTS = 1000
#: The numbers of a line, and of a name.
_IN_BYTES, _IN_TEXT = re.compile(rb"[0-9]+").findall, re.compile("[0-9]+").findall

Numbers = tuple[int, ...]


class Family(Struct, frozen=True):
    """Anchor lines of one log, or that two logs share.

    Attributes:
        by: A regular expression to cut the logs by (:meth:`EventLog.windows`), whose first group names the window.
        anchors: The lines themselves, of each log; put into :attr:`EventLog.anchors` they spare a pass over the text.
        work: What they count.
    """

    by: str
    anchors: tuple[Anchor, ...]
    work: Work


class FoundSteps(Struct, frozen=True, eq=False):
    """The steps of one log.

    Attributes:
        family: The lines that count them.
        windows: One from each such line to the next, and what precedes the first.
    """

    family: Family
    windows: Sequence[Window]

    @property
    def repeated(self) -> bool:
        """Whether each is the same work again, so that memory that one leaves behind after the other is growth."""
        return self.family.work is not Work.PART


def find_steps(log: EventLog) -> FoundSteps | None:
    """Look for the steps of a log.

    Returns:
        ``None`` where no lines count them, where these came late, or where its text cannot be read again and they were not looked for
        when it was read.
    """
    found = family(log)
    if found is None:
        return None
    windows = windows_at(log, found.anchors[0])
    return None if suspect_anchors(windows) is not None else FoundSteps(found, windows)


class _Seen(Struct, frozen=True):
    """The lines of one log that fit a template: where they begin, and their numbers; and the events up to where they were looked for."""

    template: Template
    offsets: list[int]
    numbers: list[Numbers]
    events: int


class _Side(Struct, frozen=True):
    """The lines of one family in one log: their numbers, the events after each of them, and all events up to where lines were looked for."""

    numbers: Sequence[Numbers]
    counts: Ints
    events: int

    @classmethod
    def of(cls, log: EventLog, events: int, offsets: Sequence[int], numbers: Sequence[Numbers]) -> _Side:
        first = log.events_before(np.array(offsets, np.int64))
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
        base: A log whose text can be read again, or whose landmarks were kept.
        head: Another one.

    Returns:
        The family, or ``None`` where there is none, or where nothing is known of the text of one.

    Raises:
        InputError: The text of a log is no longer there.
    """
    logs = base, head
    kept = [None if log.source.rereadable else log.landmarks for log in logs]
    if any(one is None and not log.source.rereadable for log, one in zip(logs, kept, strict=True)):
        return None
    ours = _candidates(*_looked_at(base))
    theirs = _candidates(*_looked_at(head)) if ours else ours
    return _best(logs, kept, (ours, theirs))


def family(log: EventLog) -> Family | None:
    """The family of anchor lines that counts the steps of one log.

    The rules are those of :func:`common_family`, but for two things.  Nothing but the log itself confirms what its lines count, so lines
    without a word like START or STEP are none.  And what is wanted is not the smallest pieces but those that repeat: steps, iterations,
    batches and the like go before epochs, and these before calls, blocks, layers and other parts; training goes before evaluation.

    Args:
        log: A log whose landmarks were looked for when it was read, or whose text can be read again, or one with marks.

    Returns:
        The family, or ``None`` where there is none.  Its expression finds no other lines than these in the log.

    Raises:
        InputError: The text of the log is no longer there.
    """
    landmarks = landmarks_of(log)
    if landmarks is None or not landmarks.offsets:
        return None
    seen = _candidates(_marking(landmarks), len(log))
    named = {by: entry for by, entry in seen.items() if _wanted(entry)}
    return _best((log,), (landmarks,), (named,))


def _wanted(entry: _Seen) -> bool:
    """Whether lines of one log count anything that is worth its windows."""
    many_parts = entry.template.work is Work.PART and len(entry.offsets) > _MOST_PARTS
    return entry.template.place is not Place.UNNAMED and not many_parts


def _lines_of(log: EventLog, landmarks: Landmarks | None, pattern: Pattern) -> Anchor | None:
    """All lines of a log that match a pattern: of the landmarks where they are all there are, or else of the text."""
    if landmarks is not None and landmarks.complete:
        return Anchor.of(pattern, landmarks.matches(pattern))
    return find_anchors(log, [pattern])[0] if log.source.rereadable else None


def _marking(landmarks: Landmarks) -> Iterator[tuple[int, bytes]]:
    """Those landmarks that could be anchors: where each begins, and its text."""
    return (line for line in zip(landmarks.offsets, landmarks.texts, strict=True) if may_mark(line[1]))


def _best(
    logs: Sequence[EventLog], kept: Sequence[Landmarks | None], found: Sequence[Mapping[str, _Seen]]
) -> Family | None:
    """Of the lines that all logs have (one, or two), the best that still are a family where their expression has found all lines.

    Args:
        logs: The logs.
        kept: The landmarks of each that are looked at; ``None`` where its text is.
        found: What lines of each count.
    """
    ranked: list[tuple[Any, ...]] = []
    for by in found[0].keys() & found[-1].keys():
        entries = [seen[by] for seen in found]
        sides = [
            _Side.of(log, entry.events, entry.offsets, entry.numbers) for log, entry in zip(logs, entries, strict=True)
        ]
        windows, same = _worth(sides[0], sides[-1])
        if windows:
            template, first = entries[0].template, sum(entry.offsets[0] for entry in entries)
            # What the lines count says which pieces repeat; two logs confirm each other's.
            of_one = (template.work, template.aside) if len(logs) == 1 else ()
            place = max(template.place, Place.PROGRESS)
            ranked.append((*of_one, place, -windows, not same, template.place, first, by))
    tried: set[str] = set()
    for *_, by in sorted(ranked):
        template = found[0][by].template
        for expression in (template.by, template.strict):
            if expression in tried or len(tried) == _MOST_TRIED:
                continue
            tried.add(expression)
            if any(one is not None for one in kept) and template.strict.startswith("^"):  # they are lines at the margin
                expression = f"^{expression.removeprefix('^')}"  # noqa: PLW2901
            pattern = Pattern(expression, regex=True)
            anchors = [_lines_of(log, landmarks, pattern) for log, landmarks in zip(logs, kept, strict=True)]
            known = tuple(anchor for anchor in anchors if anchor is not None)
            if len(known) == len(logs) and _still(template, logs, known):
                return Family(expression, known, template.work)
    return None


def _still(template: Template, logs: Sequence[EventLog], anchors: Sequence[Anchor]) -> bool:
    """Whether the lines that an expression finds are a family: it may find more than was looked at."""
    sides = []
    for log, anchor in zip(logs, anchors, strict=True):
        numbers = [tuple(int(digits) for digits in _IN_TEXT(name)) for name in anchor.names]
        if not _counts(template, numbers):
            return False
        sides.append(_Side.of(log, len(log), anchor.offsets, numbers))
    return _worth(sides[0], sides[-1])[0] > 0


# -- what a log holds ------------------------------------------------------------------------------------------------------


def _candidates(lines: Iterable[tuple[int, bytes]], events: int) -> dict[str, _Seen]:
    """Those of some lines that count, by the expression that finds them.

    Args:
        lines: Where each begins, and its clean text.
        events: The events up to where they were looked for.
    """
    seen: dict[str, _Seen] = {}
    known: dict[bytes, tuple[Template, ...]] = {}  # what lines are, by their skeletons
    for offset, line in lines:
        if len(line) > LONGEST_LINE:
            continue
        kind = skeleton(line)
        if kind not in known:
            known[kind] = templates(kind) if len(known) < _MOST_KINDS else ()
        digits = _IN_BYTES(line) if known[kind] else []
        if max(map(len, digits), default=0) > _MOST_DIGITS:
            continue
        for template in known[kind]:
            if template.by not in seen:
                seen[template.by] = _Seen(template, [], [], events)
            entry = seen[template.by]
            entry.offsets.append(offset)
            entry.numbers.append(tuple(int(digits[n]) for n in template.numbers))
    return {by: entry for by, entry in seen.items() if _counts(entry.template, entry.numbers)}


def _looked_at(log: EventLog) -> tuple[list[tuple[int, bytes]], int]:
    """The lines of a log that could be anchors, as many as are looked at, and the events up to there."""
    if not log.source.rereadable and log.landmarks is not None:
        return list(_marking(log.landmarks)), len(log)
    found: list[tuple[int, bytes]] = []
    looked_at = 0
    for piece, lines, looks in _marginal_lines(log):
        looked_at += looks
        if looked_at > _MOST_LINES:
            return found, int(log.offset.searchsorted(piece))
        found += lines
    return found, len(log)


def _marginal_lines(log: EventLog) -> Iterator[tuple[int, list[tuple[int, bytes]], int]]:
    """The lines of a log that could be anchors: those at the margin, without a header of the framework, that hold a number.

    Yields:
        For each piece of the text its byte offset, such lines of it (where each begins, and its clean text), and how many lines were
        looked at one by one.
    """
    for offset, block in text_blocks(log):
        for low, high in pieces(block):
            piece = block[low:high]
            starts, stops = _at_margin(piece)
            looks = len(starts)
            if looks > _CROWDED:
                positions = word_scanner().scan(block, low, high).start - low
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


def _at_margin(piece: NDArray[np.uint8]) -> tuple[Ints, Ints]:
    """Starts and ends (int64) of the lines that begin like an anchor and are no longer than one."""
    ends = np.flatnonzero(piece == ord("\n"))
    if not len(ends) or ends[-1] < len(piece) - 1:
        ends = np.append(ends, len(piece))
    starts = np.concatenate(([0], ends[:-1] + 1))
    length = ends - starts
    fits = at_margin(piece, starts) & (length > 2) & (length <= LONGEST_LINE)
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
    if base is head:
        return int(np.count_nonzero(base.counts)), True
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
