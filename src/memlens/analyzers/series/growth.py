"""Whether memory grows from window to window, and which blocks pile up."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from msgspec import structs

from memlens.analyzers.fates import held_events
from memlens.analyzers.groups import kinds_of_blocks, owner_labels
from memlens.analyzers.series.trend import Trend, Verdict, began, judge
from memlens.columns import spans
from memlens.folding import bounds, profile
from memlens.results import Result, Tables, deferred, lazy
from memlens.windows.windows import BEFORE, judged, some_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memlens.analyzers.series.phases import Pieces
    from memlens.windows.windows import Window


#: From how many windows blocks of a size and owner must come to be a pile: what fewer leave behind may be in use.
PILE_WINDOWS = 3
#: In so large a share of the windows reserved memory must rise: a pool takes a chunk for each request larger than all before, and of
#: requests by chance these come ever more seldom.
_OFTEN = 1 / 3


class Pile(Result, frozen=True):
    """Blocks of one size (and owner, where that is known) that window after window leaves behind.

    Attributes:
        count: Blocks born in the judged windows from ``since`` on and still live at the end of the last one.
        total_bytes: Their bytes.
        windows: In how many of these windows they were born.
        phase: The phase of a step in which all of them were born, where there is one; text from the log.
        bytes_per_window: ``total_bytes`` by the number of these windows.
    """

    size_bytes: int
    count: int
    total_bytes: int
    owner: str | None
    windows: int
    bytes_per_window: float
    phase: str | None = None


@lazy("piling")
class Growth(Result, frozen=True):
    """The live bytes at the ends of a series of windows.

    Attributes:
        windows: How many windows there are.
        judged: How many of them the verdict is about: all but an open one at the end.
        live_bytes: The level at the end of each window (all of them).
        gained_bytes: By how much the floor of the level rose; see :class:`~memlens.analyzers.series.trend.Trend`.
        gained_bytes_per_window: What is gained in a window; see there.
        verdict: ``"flat"``, ``"growing"``, ``"shrinking"`` or ``"swinging"``; the rule is in :mod:`memlens.analyzers.series.trend`.
        since: Name of the window in which the first bytes were gained, where the series grows.
        since_window: Its 0-based index in the series.
        swing_bytes: Half of the most by which the level rose and came back, or fell and came back.
        open_end: Name of the open window that is left out, or ``None``.
        peak_verdict: The same verdict on the windows' peaks, but for that of what precedes the series.
        peak_since: Name of the window from which on the peaks grow, or ``None``.
        peak_from_bytes: The floor of the peaks right before it, or ``None``.
        peak_gained_bytes: By how much the floor of the peaks rose.
        reserved_verdict: The verdict on what is reserved at the ends of the windows; ``None`` where the log does not tell of chunks.
            Reserved memory that grows must rise in a third of the windows from ``reserved_since`` on: a pool takes a chunk for every
            request larger than all before, and these come ever more seldom.
        reserved_since: As for the peaks.
        reserved_from_bytes: As for the peaks.
        reserved_gained_bytes: As for the peaks; ``None`` where it is not known.
        rose: How the level rose where the verdict is neither ``"growing"`` nor ``"shrinking"``: ``"stayed"``, ``"late"`` or ``"unsteady"``; ``None`` where it did not; see
            :class:`~memlens.analyzers.series.trend.Rise`.
        rose_bytes: By how much; 0 where it did not.
        rose_from: Name of the window in which it began to rise, or ``None``.
        rose_until: Name of the last window in which its floor rose, or ``None``.
        rose_windows: How many judged windows there are from ``rose_from`` to the last; 0 where it did not rise.
        piling: The blocks that pile up from window ``since`` on, the largest total first; none where the series does not grow.
    """

    tables: ClassVar[Tables] = {"piling": Pile}

    windows: int
    judged: int
    live_bytes: tuple[int, ...]
    gained_bytes: int
    gained_bytes_per_window: float
    verdict: Verdict
    since: str | None
    since_window: int | None
    swing_bytes: int
    open_end: str | None = None
    peak_verdict: Verdict = "flat"
    peak_since: str | None = None
    peak_from_bytes: int | None = None
    peak_gained_bytes: int = 0
    reserved_verdict: Verdict | None = None
    reserved_since: str | None = None
    reserved_from_bytes: int | None = None
    reserved_gained_bytes: int | None = None
    rose: Literal["stayed", "late", "unsteady"] | None = None
    rose_bytes: int = 0
    rose_from: str | None = None
    rose_until: str | None = None
    rose_windows: int = 0
    piling: tuple[Pile, ...] = ()


def growth(windows: Sequence[Window], pieces: Pieces | None = None) -> Growth:
    """Analyze a series of windows of one log, in their order; ``pieces`` are their phases, where they have some."""
    if not windows:
        return Growth(0, 0, (), 0, 0.0, "flat", None, None, 0)
    found = profile(windows)
    log, lo, hi = bounds(windows)
    fates = np.array(judged(windows, (hi - lo).tolist()), bool)
    chosen = some_of(windows, fates)
    live = found["live_bytes"]
    trend = judge(live[fates])
    since, rise = trend.since, trend.rise
    before = int(len(chosen) > 1 and chosen[0].name == BEFORE)
    peaks = _of_device(found["peak_bytes"][fates][before:], 0)
    reserved = None
    if log.tells_of_chunks:
        reserved = _of_device((found.levels[1] + found["reserve_bytes"] - found["release_bytes"])[fates], _OFTEN)
    return Growth(
        windows=len(windows),
        judged=len(chosen),
        live_bytes=tuple(live.tolist()),
        gained_bytes=trend.gained_bytes,
        gained_bytes_per_window=trend.gained_bytes_per_window,
        verdict=trend.verdict,
        since=None if since is None else chosen[since].name,
        since_window=since,
        swing_bytes=trend.swing_bytes,
        open_end=windows[-1].name if len(chosen) < len(windows) else None,
        peak_verdict=peaks.verdict,
        peak_since=None if peaks.since is None else chosen[before + peaks.since].name,
        peak_from_bytes=peaks.from_bytes,
        peak_gained_bytes=peaks.gained_bytes,
        reserved_verdict=None if reserved is None else reserved.verdict,
        reserved_since=None if reserved is None or reserved.since is None else chosen[reserved.since].name,
        reserved_from_bytes=None if reserved is None else reserved.from_bytes,
        reserved_gained_bytes=None if reserved is None else reserved.gained_bytes,
        rose=None if rise is None else rise.how,
        rose_bytes=0 if rise is None else rise.rose_bytes,
        rose_from=None if rise is None else chosen[rise.first].name,
        rose_until=None if rise is None else chosen[rise.last].name,
        rose_windows=0 if rise is None else len(chosen) - rise.first,
        piling=() if since is None else deferred(piles, chosen[since:], pieces),
    )


def _of_device(levels: NDArray[np.int64], often: float) -> Trend:
    """The trend of what the device must hold, from where it began to rise; it grows where its floor rises in such a share of the windows."""
    trend = judge(levels)
    if trend.since is None:
        return trend
    floor = np.minimum.accumulate(levels[::-1])[::-1]
    rises = np.count_nonzero(np.diff(floor)[trend.since - 1 :])
    if rises < often * (len(levels) - trend.since):
        return structs.replace(trend, verdict="swinging" if trend.swing_bytes else "flat", since=None, from_bytes=None)
    since = began(levels, trend.since)
    if since == trend.since:
        return trend
    start, end = int(floor[since - 1]), (trend.from_bytes or 0) + trend.gained_bytes
    return structs.replace(trend, since=since, from_bytes=start, gained_bytes=end - start)


def piles(windows: Sequence[Window], pieces: Pieces | None = None) -> tuple[Pile, ...]:
    """The blocks that windows leave behind and that are still live at the end of the last of them, by size and owner."""
    if len(windows) < PILE_WINDOWS:
        return ()
    log, lo, hi = bounds(windows)
    end = int(hi.max())
    left = held_events(log, int(lo.min()), end, end)
    # A row for each block and window that it was born in: windows may overlap, and a block between windows is in none.
    first, last = np.searchsorted(left, lo), np.searchsorted(left, hi)
    count = np.maximum(last - first, 0)
    window = np.repeat(np.arange(len(windows)), count)
    rows = spans(first, count)
    kind, sizes, owners = kinds_of_blocks(log, left[rows])
    order = np.lexsort((window, kind))
    kind, window, rows = kind[order], window[order], rows[order]
    starts = np.flatnonzero(np.diff(kind, prepend=-1))
    if not len(starts):
        return ()
    # Within a kind the windows rise: each rise is one more window.
    fresh = np.diff(window, prepend=-1) != 0
    fresh[starts] = True
    seen = np.add.reduceat(fresh, starts, dtype=np.int64)
    names, phase_of = owner_labels(log), _phases_of(pieces, left)
    found = []
    # Every kind has blocks, so the k-th one starts at starts[k].
    for k in np.flatnonzero(seen >= PILE_WINDOWS).tolist():
        stop = int(starts[k + 1]) if k + 1 < len(starts) else len(kind)
        size, count = int(sizes[k]), len(np.unique(rows[starts[k] : stop]))
        here = phase_of[rows[starts[k] : stop]]
        phase = pieces.names[int(here[0])] if pieces and here[0] >= 0 and (here == here[0]).all() else None
        total = size * count
        found.append(Pile(size, count, total, names[owners[k]], int(seen[k]), total / len(windows), phase))
    return tuple(sorted(found, key=lambda pile: (-pile.total_bytes, -pile.size_bytes, pile.owner or "")))


def _phases_of(pieces: Pieces | None, events: NDArray[np.int64]) -> NDArray[np.int64]:
    """The index of the phase that each event is in; -1 for none."""
    if pieces is None or not len(pieces.lo):
        return np.full(len(events), -1, np.int64)
    order = np.argsort(pieces.lo, kind="stable")
    at = order[np.maximum(np.searchsorted(pieces.lo[order], events, "right") - 1, 0)]
    return np.where((pieces.lo[at] <= events) & (events < pieces.hi[at]), pieces.phase[at], -1)
