"""Our running sums held against the figures that the framework printed into the same log.

A figure is compared with the sum of all events of earlier lines.  Peaks are compared with the highest sum so far.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, structs

from memlens.columns import Flags, Ints, distinct
from memlens.events import running_sums
from memlens.facts import StatLines
from memlens.results import Result
from memlens.spool import walk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from memlens.events import EventLog


#: What a figure may be of, in the order of the rows of :class:`MetricsBefore`.
METRICS = ("allocated", "allocated_peak", "reserved", "reserved_peak")

#: With several threads a stats line may be overtaken by events of other threads; so many in a row are believed to be that.
OVERTAKEN = 16


class Disagreement(Result, frozen=True):
    """The first figure that is not ours.

    Attributes:
        offset: Byte offset of its line.
        line: 1-based number of its line, ``None`` where it is not known.
        origin: The format that printed it.
        metric: One of :data:`METRICS`.
        low_bytes: The smallest count that prints as the figure.
        high_bytes: The largest one.
        ours_bytes: What the events of earlier lines add up to.
    """

    offset: int
    line: int | None
    origin: str
    metric: str
    low_bytes: int
    high_bytes: int
    ours_bytes: int


class Agreement(Struct, frozen=True):
    """How our sums and the framework's own figures compare.

    Attributes:
        checked: Figures that could be compared, stats lines included.
        agreeing: Those that are ours, to the byte or to the last digit printed.
        missed_peaks: Peaks that are lower than ours in a log of several threads.  Paddle's own counter misses them: it
            looks at the total only when one thread's own net value reaches a new maximum.
        missed_bytes: The most by which such a peak is lower.
        overtaken: Stats lines that events of other threads overtook on the way into the log.
        not_kept: Metrics that this build prints as 0 all the time.
        late: Figures changed where no event stands between their lines: they were printed through a buffer.
        levels: For each ``allocated`` figure that disagrees and is exact: events before it, and its bytes.
        falling: A peak is lower than the same peak on an earlier line.
        first: The first that disagrees.
    """

    checked: int = 0
    agreeing: int = 0
    missed_peaks: int = 0
    missed_bytes: int = 0
    overtaken: int = 0
    not_kept: tuple[str, ...] = ()
    late: bool = False
    levels: tuple[tuple[int, int], ...] = ()
    falling: bool = False
    first: Disagreement | None = None

    @property
    def disagreeing(self) -> int:
        """Figures that are not ours and that nothing explains."""
        return self.checked - self.agreeing - self.missed_peaks - self.overtaken


class MetricsBefore:
    """The sums, and the highest sums so far, before some events of a log, in one pass over it."""

    def __init__(self, log: EventLog) -> None:
        self._log, self._at = log, 0
        self._sums, self._peaks = [0, 0], [0, 0]

    def at(self, events: Ints) -> Ints:
        """Those before each of some events.

        Args:
            events: Event numbers, 0 to ``len(log)``, not falling, none before one that was asked for.

        Returns:
            A row a metric of :data:`METRICS`, a column an event; int64, shape (4, events).
        """
        rows = np.zeros((4, len(events)), np.int64)
        rows[0::2], rows[1::2] = np.array([self._sums]).T, np.array([self._peaks]).T  # where none comes in between
        for lo, hi in walk(self._at, int(events[-1]) if len(events) else 0):
            # Places whose last event before is in this batch: shape (places here,).
            here = slice(np.searchsorted(events, lo, "right"), np.searchsorted(events, hi, "right"))
            at = events[here] - lo - 1
            both = running_sums(self._log.kind[lo:hi], self._log.size[lo:hi], *self._sums)
            for k, sums in enumerate(both):
                if len(at):
                    so_far = np.maximum(np.maximum.accumulate(sums), self._peaks[k])
                    rows[2 * k, here], rows[2 * k + 1, here] = sums[at], so_far[at]
                self._sums[k], self._peaks[k] = int(sums[-1]), max(self._peaks[k], int(sums.max()))
            self._at = hi
        return rows


def compare(log: EventLog, counts: Mapping[str, int]) -> Agreement:
    """Hold every figure of a log against our own sums.

    Args:
        log: The log.
        counts: Its ``allocs``, ``frees``, ``reserves`` and ``releases``.
    """
    facts = log.facts
    if not facts.figures and facts.stat_lines is None:
        return Agreement()
    # Sums of no events are no sums, and pools taken in advance are in nobody's chunk lines.
    blocks = bool(counts["allocs"] or counts["frees"])
    chunks = bool(counts["reserves"] or counts["releases"]) and "prealloc" not in facts.hints
    comparable = np.array([blocks, blocks, chunks, chunks])
    several = len(facts.threads) != 1  # unknown threads may be several
    return _both(_compare_figures(log, comparable, several), _compare_stat_lines(log, comparable, several))


def _both(one: Agreement, two: Agreement) -> Agreement:
    firsts = [part.first for part in (one, two) if part.first is not None]
    return structs.replace(
        one,
        checked=one.checked + two.checked,
        agreeing=one.agreeing + two.agreeing,
        missed_peaks=one.missed_peaks + two.missed_peaks,
        missed_bytes=max(one.missed_bytes, two.missed_bytes),
        overtaken=one.overtaken + two.overtaken,
        levels=one.levels + two.levels,
        first=min(firsts, key=lambda first: first.offset, default=None),
    )


def _compare_figures(log: EventLog, comparable: Flags, several: bool) -> Agreement:
    figures = log.facts.figures
    if not figures or len({figure.device for figure in figures if figure.device >= 0}) > 1:
        return Agreement()  # events do not say their device, so figures of several devices are no sum of ours
    if log.facts.layer.startswith("host_") and log.facts.other_layers:
        return Agreement()  # they are of a device, and the user asked for the host's memory
    rows = [(figure.offset, METRICS.index(figure.metric), figure.low_bytes, figure.high_bytes) for figure in figures]
    offset, metric, low, high = np.array(rows, np.int64).T
    before = np.searchsorted(log.offset, offset).astype(np.int64)
    places, place = np.unique(before, return_inverse=True)
    ours = MetricsBefore(log).at(places)[metric, place]

    kept = comparable[metric]
    origin = np.array([figure.origin for figure in figures])
    not_kept: set[str] = set()
    # A sum over the segments of a snapshot is a figure like any other where it is 0.
    for name in distinct(origin) if log.facts.has_lines else ():
        for number, text in enumerate(METRICS):
            series = (origin == name) & (metric == number) & kept
            if series.any() and not high[series].any() and ours[series].any():
                kept &= ~series
                not_kept.add(text)
    same = kept & (low <= ours) & (ours <= high)
    missed = kept & (metric % 2 == 1) & (ours > high) & several
    wrong = kept & ~same & ~missed
    exact = np.flatnonzero(wrong & (metric == 0) & (low == high) & (low > 0))
    # Each figure, and the next one of its metric.
    order = np.argsort(metric, kind="stable")
    follows = metric[order[1:]] == metric[order[:-1]]
    one, two = order[:-1][follows], order[1:][follows]
    changed = (high[one] < low[two]) | (low[one] > high[two])
    return Agreement(
        checked=int(kept.sum()),
        agreeing=int(same.sum()),
        missed_peaks=int(missed.sum()),
        missed_bytes=int((ours - high)[missed].max(initial=0)),
        not_kept=tuple(sorted(not_kept)),
        late=bool((changed & (before[one] == before[two]) & (offset[one] != offset[two])).any()),
        levels=tuple(zip(before[exact].tolist(), low[exact].tolist(), strict=True)),
        falling=bool((kept[one] & kept[two] & (metric[one] % 2 == 1) & (high[two] < low[one])).any()),
        first=_first(log, wrong, origin, offset, metric, low, high, ours),
    )


def _first(log: EventLog, wrong: Flags, origin: NDArray[np.str_], *columns: Ints) -> Disagreement | None:
    """The first figure that is wrong, of columns: its offset, metric, low and high bytes, and ours."""
    if not wrong.any():
        return None
    k = int(wrong.argmax())
    offset, metric, *figures = (int(column[k]) for column in columns)
    return Disagreement(offset, log.source.line_numbers([offset])[0], str(origin[k]), METRICS[metric], *figures)


def _compare_stat_lines(log: EventLog, comparable: Flags, several: bool) -> Agreement:
    """Hold Paddle's running totals, ``…MemoryStat…: Update current_value with …``, against ours.

    The line of a block's total comes after the Alloc line but before the Free line; the line of a chunk's total comes
    before the line of a new chunk but after the line of one given back.  So at a total that is written ahead of its event our
    sum is still without the change; where the statistics are the events, the line is the event.
    """
    lines = log.facts.stat_lines
    if lines is None:
        return Agreement()
    of_stats = np.array([layer.endswith("stats") for layer in (log.facts.layer, log.facts.chunk_layer)])
    of_host = log.facts.layer == "host_stats"
    numbers = set[int]().union(*(distinct(lines.device[lo:hi]).tolist() for lo, hi in walk(0, len(lines))))
    devices = [number for number in numbers if (number < 0) == of_host]
    if len(devices) != 1:
        return Agreement()
    sums = MetricsBefore(log)
    every = [_StatLines(metric, several=several) for metric in (0, 2)]
    for lo, hi in walk(0, len(lines)):
        part = StatLines(*(column[lo:hi] for column in structs.astuple(lines)))
        chosen = (part.device == devices[0]) & np.where(part.reserved, comparable[2], comparable[0])
        before = np.searchsorted(log.offset, part.offset[chosen]).astype(np.int64)
        places, place = np.unique(before, return_inverse=True)
        rows, change, reserved = sums.at(places)[:, place], part.change[chosen], part.reserved[chosen]
        ahead = ((change < 0) ^ reserved) & ~of_stats[reserved.astype(np.int64)]
        for of in every:
            ours = rows[of.metric] + np.where(ahead, change, 0)
            columns = (
                before,
                part.offset[chosen],
                ours,
                rows[of.metric + 1],
                part.current[chosen],
                part.peak[chosen],
                ahead,
            )
            of.add(np.stack(columns)[:, reserved == (of.metric == 2)])
    for of in every:
        of.add(np.zeros((7, 0), np.int64), last=True)
    found = _both(every[0].found, every[1].found)
    wrong = min((of.first for of in every if of.first is not None), default=None)
    if wrong is not None:
        offset, metric, theirs, ours_bytes = wrong
        line = log.source.line_numbers([offset])[0]
        first = Disagreement(offset, line, "stats", METRICS[metric], theirs, theirs, ours_bytes)
        found = structs.replace(found, first=first)
    return structs.replace(found, levels=found.levels[:64])


class _StatLines:
    """The lines of one metric, held against our sums part by part.

    Attributes:
        metric: The row of its sums among :data:`METRICS`.
        found: How they compare, but for the first that disagrees.
        first: That one: its offset, metric and bytes, and our bytes.
    """

    def __init__(self, metric: int, *, several: bool) -> None:
        self.metric, self._several = metric, several
        self.found = Agreement()
        self.first: tuple[int, int, int, int] | None = None
        # The last lines, of which the first ones are counted: which others agree close by is what the next ones are judged by.
        self._lines, self._counted = np.zeros((7, 0), np.int64), 0

    def add(self, lines: Ints, *, last: bool = False) -> None:
        """Take the next lines.

        Args:
            lines: For each the events before it, its offset, our sum and our peak, its sum and its peak, and whether it is ahead of its
                event; seven rows, int64.
            last: There are no more.
        """
        lines = np.concatenate((self._lines, lines), axis=1)
        count = lines.shape[1]
        end = count if last else max(count - OVERTAKEN - 1, self._counted)
        before, offset, ours, our_peak, current, peak, ahead = lines
        same = ours == current
        overtaken = ~same & _between(same) if self._several else np.zeros_like(same)
        our_peak = np.maximum(our_peak, ours)
        says_peak = peak >= 0
        same_peak, missed = says_peak & (our_peak == peak), says_peak & (our_peak > peak) & self._several
        wrong_level, wrong_peak = ~same & ~overtaken, says_peak & ~same_peak & ~missed & ~overtaken
        new = np.zeros(count, np.bool_)
        new[self._counted : end] = True
        exact = np.flatnonzero(new & wrong_level & (ahead == 0))[:64] if self.metric == 0 else np.zeros(0, np.int64)
        part = Agreement(
            checked=int(new.sum() + (new & says_peak).sum()),
            agreeing=int((new & same).sum() + (new & same_peak).sum()),
            missed_peaks=int((new & missed).sum()),
            missed_bytes=int((our_peak - peak)[new & missed].max(initial=0)),
            overtaken=int((new & overtaken).sum() + (new & overtaken & says_peak & ~same_peak & ~missed).sum()),
            levels=tuple(zip(before[exact].tolist(), current[exact].tolist(), strict=True)),
        )
        self.found = _both(self.found, part)
        wrong = np.flatnonzero(new & (wrong_level | wrong_peak))
        if len(wrong) and self.first is None:
            k = int(wrong[0])
            level = bool(wrong_level[k])
            figures = (current, ours) if level else (peak, our_peak)
            theirs, our_bytes = (int(column[k]) for column in figures)
            self.first = int(offset[k]), self.metric + (not level), theirs, our_bytes
        kept = max(end - OVERTAKEN - 1, 0)
        self._lines, self._counted = lines[:, kept:], end - kept


def _between(same: Flags) -> Flags:
    """True where a run of at most :data:`OVERTAKEN` lines lies between two lines that agree."""
    agreed = np.flatnonzero(same)
    if not len(agreed):
        return np.zeros_like(same)
    # For each line the number of agreeing lines before it: those in a gap between two agreeing lines share it.
    nearest = np.searchsorted(agreed, np.arange(len(same)), "right")
    inner = (nearest > 0) & (nearest < len(agreed))
    return inner & (np.diff(agreed, prepend=0)[np.where(inner, nearest, 0)] <= OVERTAKEN + 1)
