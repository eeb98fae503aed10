"""Our running sums held against the figures that the framework printed into the same log.

A figure is compared with the sum of all events of earlier lines.  Peaks are compared with the highest sum so far.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, structs

from memlens.columns import Flags, Ints, distinct
from memlens.folding.levels import figures
from memlens.results import Result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from memlens.events import EventLog


#: What a figure may be of, in the order of the rows of :func:`metrics_before`.
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


def metrics_before(log: EventLog, events: Ints) -> Ints:
    """The sums, and the highest sums so far, before each of some events.

    Args:
        log: The log.
        events: Event numbers, 0 to ``len(log)``, not falling.

    Returns:
        A row a metric of :data:`METRICS`, a column an event; int64, shape (4, events).
    """
    if log.condensed is None:
        return _so_far(log, events)
    rows = np.zeros((4, len(events)), np.int64)
    # As many of the first events as are all there; after them figures are known at folds.
    whole = int(np.count_nonzero(log.condensed.number == np.arange(len(log))))
    first = int(np.searchsorted(events, whole, "right"))
    rows[:, :first] = _so_far(log.without_cache(condensed=None), events[:first])
    found = figures(log, np.zeros_like(events[first:]), events[first:])
    rows[0, first:], rows[2, first:] = found["live_bytes"], found["reserve_bytes"] - found["release_bytes"]
    rows[1, first:], rows[3, first:] = found["peak_bytes"], found["reserved_peak_bytes"]
    return rows


def _so_far(log: EventLog, events: Ints) -> Ints:
    """The same of a log all of whose events are there, up to the last one that is asked for."""
    rows = np.zeros((4, len(events)), np.int64)
    peaks = [0, 0]
    last = int(events[-1]) if len(events) else 0
    for batch in log.batches(0, last):
        # Places whose last event before is in this batch: shape (places here,).
        here = slice(np.searchsorted(events, batch.lo, "right"), np.searchsorted(events, batch.hi, "right"))
        at = events[here] - batch.lo - 1
        for row, sums in ((0, batch.allocated), (2, batch.reserved)):
            if len(at):
                so_far = np.maximum(np.maximum.accumulate(sums), peaks[row // 2])
                rows[row, here], rows[row + 1, here] = sums[at], so_far[at]
                peaks[row // 2] = int(so_far[-1])
            else:
                peaks[row // 2] = max(peaks[row // 2], int(sums.max()))
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
        overtaken=two.overtaken,
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
    ours = metrics_before(log, places)[metric, place]

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
    of_stats = [layer.endswith("stats") for layer in (log.facts.layer, log.facts.chunk_layer)]
    device = (lines.device < 0) if log.facts.layer == "host_stats" else (lines.device >= 0)
    if not device.any() or len(np.unique(lines.device[device])) > 1:
        return Agreement()
    chosen = np.flatnonzero(device & np.where(lines.reserved, comparable[2], comparable[0]))
    if not len(chosen):
        return Agreement()
    metric = np.where(lines.reserved[chosen], 2, 0)
    before = np.searchsorted(log.offset, lines.offset[chosen], "left").astype(np.int64)
    places, place = np.unique(before, return_inverse=True)
    rows = metrics_before(log, places)
    change = lines.change[chosen]
    ahead = ((change < 0) ^ lines.reserved[chosen]) & ~np.array(of_stats)[lines.reserved[chosen].astype(np.int64)]
    ours = rows[metric, place] + np.where(ahead, change, 0)
    same = ours == lines.current[chosen]
    overtaken = ~same & _between(same, metric) if several else np.zeros_like(same)
    peak, says_peak = lines.peak[chosen], lines.peak[chosen] >= 0
    our_peak = np.maximum(rows[metric + 1, place], ours)
    same_peak, missed = says_peak & (our_peak == peak), says_peak & (our_peak > peak) & several
    wrong_level, wrong_peak = ~same & ~overtaken, says_peak & ~same_peak & ~missed & ~overtaken
    theirs = np.where(wrong_level, lines.current[chosen], peak)
    exact = np.flatnonzero(wrong_level & (metric == 0) & ~ahead)[:64]
    return Agreement(
        checked=len(chosen) + int(says_peak.sum()),
        agreeing=int(same.sum()) + int(same_peak.sum()),
        missed_peaks=int(missed.sum()),
        missed_bytes=int((our_peak - peak)[missed].max(initial=0)),
        overtaken=int(overtaken.sum()) + int((overtaken & says_peak & ~same_peak & ~missed).sum()),
        levels=tuple(zip(before[exact].tolist(), lines.current[chosen][exact].tolist(), strict=True)),
        first=_first(
            log,
            wrong_level | wrong_peak,
            np.full(len(chosen), "stats"),
            lines.offset[chosen],
            np.where(wrong_level, metric, metric + 1),
            theirs,
            theirs,
            np.where(wrong_level, ours, our_peak),
        ),
    )


def _between(same: Flags, metric: Ints) -> Flags:
    """True where a run of at most :data:`OVERTAKEN` lines lies between two lines of the same metric that agree."""
    short = np.zeros_like(same)
    for number in (0, 2):
        mine = np.flatnonzero(metric == number)
        agreed = np.flatnonzero(same[mine])
        # For each line the number of agreeing lines before it: those in a gap between two agreeing lines share it.
        nearest = np.searchsorted(agreed, np.arange(len(mine)), "right")
        inner = (nearest > 0) & (nearest < len(agreed))
        gap = np.diff(agreed, prepend=0)[np.where(inner, nearest, 0)] if len(agreed) else np.zeros(len(mine), np.int64)
        short[mine] = inner & (gap <= OVERTAKEN + 1)
    return short
