"""Find the anchor lines of one log, or those that two logs share, so that they can be cut without being told how.

A *family* is a set of lines that differ in one counting number only: ``START SOT_CALL_0`` … ``START SOT_CALL_429``.
The lines come from :mod:`memlens.windows.anchor_lines`.
What a family must hold, and which of several is taken, is said at :func:`common_family` and :func:`family`.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import compress, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from memlens.events import EventLog, once
from memlens.windows.anchor_lines import Kinds, Numbers, Seen, counting_lines, recurring_lines
from memlens.windows.anchor_templates import Place, Template, Work
from memlens.windows.anchors import find_anchors, landmarks_of
from memlens.windows.patterns import Anchor, Match, Pattern
from memlens.windows.windows import suspect_anchors, windows_at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memlens.columns import Ints
    from memlens.windows.landmarks import Landmarks
    from memlens.windows.windows import Window


#: Families that are looked for in the text of both logs before there is none.
_MOST_TRIED = 6
#: Lines that a family without a word like START or STEP has at least; it counts on by one, from 0 or 1.
_FEWEST_UNNAMED = 3

#: Windows with events between lines that do not count: of fewer it is chance that they are alike.
_FEWEST_EVEN = 3
#: Parts of one log (calls, blocks, layers) are shown, and nothing is judged over them: many of them are not worth their windows.
_MOST_PARTS = 1000
#: Lines whose numbers tell whether they count one by one.
_MOST_COUNTED = 1000
#: The numbers of a name.
_IN_TEXT = re.compile("[0-9]+").findall


class Family(Struct, frozen=True):
    """Anchor lines of one log, or that two logs share.

    Attributes:
        by: A regular expression to cut the logs by (:meth:`EventLog.windows`), whose first group names the window.
        anchors: The lines themselves, of each log; put into :attr:`EventLog.anchors` they spare a pass over the text.
        work: What they count.
        ends: They come when the work that they name is done.
    """

    by: str
    anchors: tuple[Anchor, ...]
    work: Work
    ends: bool = False


class FoundSteps(Struct, frozen=True, eq=False):
    """The steps of one log.

    Attributes:
        family: The lines that count them.
        windows: One from each such line to the next, and what precedes the first.  Each is called after the line that it begins with, or, where lines
            come when the work is done, after the line that ends it; the last one is ``(after)`` then.
    """

    family: Family
    windows: Sequence[Window]

    @property
    def repeated(self) -> bool:
        """Whether each is the same work again, so that memory that one leaves behind after the other is growth."""
        return self.family.work is not Work.PART

    @property
    def unit(self) -> str:
        """What each is: a ``step`` where lines count steps one by one; else a ``window``, of several steps or of nobody knows how many."""
        if self.family.work is not Work.STEP:
            return "window"
        numbers = [[*map(int, _IN_TEXT(name))] for name in self.family.anchors[0].names[:_MOST_COUNTED]]
        pairs = [(before, after) for before, after in pairwise(numbers) if len(before) == len(after)]
        changed = [next((b - a for a, b in zip(*pair, strict=True) if a != b), 0) for pair in pairs]
        return "step" if changed and np.median(changed) == 1 else "window"


def find_steps(log: EventLog) -> FoundSteps | None:
    """Look for the steps of a log.

    Returns:
        ``None`` where no lines count them, where these came late, or where its text cannot be read again and they were not looked for
        when it was read.
    """
    found = family(log)
    if found is None:
        return None
    windows = windows_at(log, found.anchors[0], ends=found.ends)
    return None if suspect_anchors(windows) is not None else FoundSteps(found, windows)


class _Side(Struct, frozen=True):
    """The lines of one family in one log: their numbers, the events after each of them, and how many events the log has."""

    numbers: Sequence[Numbers]
    counts: Ints
    events: int

    @classmethod
    def of(cls, log: EventLog, offsets: Sequence[int], numbers: Sequence[Numbers]) -> _Side:
        first = log.events_before(np.array(offsets, np.int64))
        return cls(numbers, np.diff(np.append(first, len(log))), len(log))


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
    Lines that mark the steps of each of the logs by themselves go before them where they are more.

    Args:
        base: A log whose text can be read again, or whose landmarks were kept.
        head: Another one.

    Returns:
        The family, or ``None`` where there is none, or where nothing is known of the text of one.

    Raises:
        InputError: The text of a log is no longer there.
    """
    logs = base, head
    kept = [*filter(None, map(landmarks_of, logs))]
    if len(kept) < len(logs):
        return None
    counting = _best(
        logs, kept, [_those_that_count(counting_lines(Kinds.of(marks.offsets, marks.texts))) for marks in kept]
    )
    one, other = map(family, logs)
    if one is None or other is None or (one.by, one.ends) != (other.by, other.ends):
        return counting
    finer = counting is None or len(one.anchors[0]) > len(counting.anchors[0])
    return replace(one, anchors=one.anchors + other.anchors) if finer else counting


@once
def family(log: EventLog) -> Family | None:
    """The family of anchor lines that marks the steps of one log.

    The rules are those of :func:`common_family`, but for two things.  Nothing but the log itself confirms what its lines count, so lines
    without a word like START or STEP must come again evenly over its events; then they need not count.  And what is wanted is not the smallest pieces
    but those that repeat: steps, iterations, batches and the like go before epochs, and these before calls, blocks, layers and other parts;
    training goes before evaluation; and what comes evenly and more often before what does not.

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
    kinds = Kinds.of(landmarks.offsets, landmarks.texts)
    seen = counting_lines(kinds)
    found = _those_that_count(seen)
    # Lines that name steps and do not count are those of several processes.
    if not any(entry.counts_steps and len(set(entry.numbers)) > 1 and by not in found for by, entry in seen.items()):
        again = recurring_lines(kinds, thinned=landmarks.thinned)
        found |= {by: entry for by, entry in again.items() if _comes_evenly(log, entry.offsets)}
    found = {by: one for by, entry in found.items() if (one := _wanted(log, entry)) is not None}
    return _best((log,), (landmarks,), (found,))


def _comes_evenly(log: EventLog, offsets: Sequence[int]) -> bool:
    """Whether lines cut most of a log into windows of about as many events each."""
    between = _between(log, offsets)
    between = between[between > 0]
    return len(between) >= _FEWEST_EVEN and int(between.sum()) * 2 >= len(log) and _is_even(between)


def _between(log: EventLog, offsets: Sequence[int]) -> Ints:
    """Events between each two lines, int64."""
    return np.diff(log.events_before(np.array(offsets, np.int64)))


def _is_even(events: Ints) -> bool:
    """Whether most events stand in windows of about as many events as the one has in which the middle event stands."""
    rising = np.sort(events)
    total = int(rising.sum())
    if not total:
        return False
    middle = rising[np.cumsum(rising).searchsorted(total / 2)]
    return int(rising[np.abs(rising - middle) * 2 <= middle].sum()) * 4 >= total * 3


def _several(numbers: Sequence[Numbers]) -> bool:
    """Whether numbers come twice in a row again and again: several processes wrote one log, or nothing is counted."""
    return sum(after == before for before, after in pairwise(numbers)) * 4 > len(numbers)


def _wanted(log: EventLog, entry: Seen) -> Seen | None:
    """Lines of one log that count something that is worth its windows: annotations without a word like STEP, too, that count on through all of it, evenly."""
    template, often = entry.template, len(entry.offsets)
    if template.place is not Place.UNNAMED:
        return None if template.work is Work.PART and often > _MOST_PARTS else entry
    on = log.marks is not None and len(set(entry.numbers)) == often and _comes_evenly(log, entry.offsets)
    return replace(entry, template=replace(template, work=Work.STEP)) if on else None


def _lines_of(log: EventLog, landmarks: Landmarks, pattern: Pattern) -> Anchor | None:
    """All lines of a log that match a pattern: of the landmarks where they are all there are, or else of the text."""
    if landmarks.complete:
        return Anchor.of(pattern, landmarks.matches(pattern))
    return find_anchors(log, [pattern])[0] if log.source.rereadable else None


def _best(logs: Sequence[EventLog], kept: Sequence[Landmarks], found: Sequence[Mapping[str, Seen]]) -> Family | None:
    """Of the lines that all logs have (one, or two), the best that still are a family where their expression has found all lines.

    Args:
        logs: The logs.
        kept: The landmarks of each.
        found: What lines of each count.
    """
    ranked: list[tuple[Any, ...]] = []
    counted = [entry for entry in found[0].values() if entry.template.counts]
    epochs = max((len(entry.offsets) for entry in counted if entry.template.work is Work.EPOCH), default=0)
    even = any(_is_even(_between(logs[0], one.offsets)) for one in counted if one.template.work is not Work.PART)
    # Steps in which the run is evaluated, too, are longer than others; lines that come less often may be of these evaluations.
    often = 0 if even else max((len(one.offsets) for one in found[0].values() if not one.template.counts), default=0)
    for by in found[0].keys() & found[-1].keys():
        entries = [seen[by] for seen in found]
        sides = [_Side.of(log, entry.offsets, entry.numbers) for log, entry in zip(logs, entries, strict=True)]
        windows, same = _worth(sides[0], sides[-1])
        if windows:
            template, first = entries[0].template, sum(entry.offsets[0] for entry in entries)
            # What the lines count says which pieces repeat; two logs confirm each other's.
            of_one: tuple[Any, ...] = ()
            if len(logs) == 1:  # what comes about as often as an epoch is one
                work = template.work if template.counts or 2 * windows > 3 * epochs else Work.EPOCH
                uneven = template.counts and len(entries[0].offsets) < often
                of_one = work, template.aside, uneven, not template.counts
            place = max(template.place, Place.PROGRESS)
            ranked.append((*of_one, place, -windows, not same, template.place, first, by))
    tried: set[str] = set()
    for *_, by in sorted(ranked):
        template = found[0][by].template
        for expression in (template.by, template.strict):
            if expression in tried or len(tried) == _MOST_TRIED:
                continue
            tried.add(expression)
            if template.strict.startswith("^"):  # they are lines at the margin
                expression = _at_margin(expression, kept, [seen[by].offsets for seen in found])  # noqa: PLW2901
            pattern = Pattern(expression, regex=True)
            anchors = [_lines_of(log, landmarks, pattern) for log, landmarks in zip(logs, kept, strict=True)]
            known = tuple(anchor for anchor in anchors if anchor is not None)
            if len(known) == len(logs) and _still(template, logs, known):
                ends = all(_ends(template, log, anchor) for log, anchor in zip(logs, known, strict=True))
                if ends and len(logs) == 1:
                    known = (_without_repeats(template, logs[0], known[0]),)
                return Family(expression, known, template.work, ends)
    return None


def _at_margin(expression: str, kept: Sequence[Landmarks], lines: Sequence[Sequence[int]]) -> str:
    """An expression for lines at the margin, some of which may have returned to their beginning."""
    bare = expression.removeprefix("^")
    pattern = Pattern(f"^{bare}", regex=True)
    if all(len(marks.matches(pattern)) >= len(those) for marks, those in zip(kept, lines, strict=True)):
        return pattern.text
    return rf"^[\r\b]*{bare}"


def _without_repeats(template: Template, log: EventLog, anchor: Anchor) -> Anchor:
    """The lines but for those that count no further, and follow the one before without an event between them: a bar that is drawn again, or begins again."""
    idle = _between(log, anchor.offsets) == 0
    if not idle.any():
        return anchor
    numbers = [[int(digits) for digits in _IN_TEXT(name)] for name in anchor.names]
    again = [not template.counts or after <= before for before, after in pairwise(numbers)]
    kept = [True, *(~(idle & np.array(again, np.bool_))).tolist()]
    matches = map(Match, anchor.offsets, anchor.lines, anchor.names)
    return Anchor.of(anchor.pattern, [*compress(matches, kept)])


def _ends(template: Template, log: EventLog, anchor: Anchor) -> bool:
    """Whether lines come when the work is done: they say so, or give its figures, or little is allocated after the last one.

    That is not so where less is allocated before the first one than for one step, and they skip none; nor of annotations that something happens in.
    """
    own = {mark.offset: mark.end for mark in log.marks or () if mark.end is not None}
    begin, end = np.array([(at, own.get(at, at)) for at in anchor.offsets], np.int64).T
    if template.place is Place.PROGRESS and (log.events_before(end) > log.events_before(begin)).any():
        return False
    if template.place not in (Place.BARE, Place.PROGRESS) or log.marks is not None or not len(log):
        return template.place in (Place.PROGRESS, Place.CLOSING)
    *done, allocs = log.allocs_before(np.array([*anchor.offsets, np.iinfo(np.int64).max]))
    half = np.median(np.diff(done)) / 2
    counted = [int(numbers[-1]) for name in anchor.names if (numbers := _IN_TEXT(name))]
    if done[0] < half and (not template.counts or np.median(np.diff(counted)) == 1):
        return False
    return template.place is Place.PROGRESS or bool(allocs - done[-1] < half)


def _still(template: Template, logs: Sequence[EventLog], anchors: Sequence[Anchor]) -> bool:
    """Whether the lines that an expression finds are a family: it may find more than was looked at."""
    if not template.counts:
        return _comes_evenly(logs[0], anchors[0].offsets)
    sides = []
    for log, anchor in zip(logs, anchors, strict=True):
        numbers = [tuple(int(digits) for digits in _IN_TEXT(name)) for name in anchor.names]
        if not _counts(template, numbers):
            return False
        sides.append(_Side.of(log, anchor.offsets, numbers))
    return _worth(sides[0], sides[-1])[0] > 0


def _those_that_count(seen: Mapping[str, Seen]) -> dict[str, Seen]:
    """Those of some lines, as :func:`counting_lines` has them, that count."""
    return {by: entry for by, entry in seen.items() if _counts(entry.template, entry.numbers)}


# -- what counts -----------------------------------------------------------------------------------------------------------


def _counts(template: Template, numbers: Sequence[Numbers]) -> bool:
    """Whether the numbers of such lines, in file order, are a count."""
    if len(numbers) < 2:
        return False
    steps = list(pairwise(numbers))
    back = [after for before, after in steps if after < before]
    if _several(numbers):
        return False
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
