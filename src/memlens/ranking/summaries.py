"""One rank's log read down to what is kept of it, in a worker: figures, what is live at its peak, and how it failed; never events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median_low
from typing import TYPE_CHECKING

from memlens.analyzers.failures import failures, most_telling
from memlens.analyzers.peak import LiveGroup, peak
from memlens.errors import AnchorError
from memlens.folding.levels import profile
from memlens.inputs import Reading, without_cpu
from memlens.inputs.paddle.times import times_of
from memlens.options import OfRanks, as_list
from memlens.text import innermost, terms_of
from memlens.trust.report import failures_of
from memlens.windows.windows import BEFORE, as_patterns, judged

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memlens.analyzers.failures import MemoryFailure
    from memlens.events import EventLog
    from memlens.options import Cut
    from memlens.text import Terms
    from memlens.windows.windows import Window

__all__ = ["MOST_GROUPS", "FailedRank", "RankOrder", "RankSummary", "summarize"]

#: Groups of blocks live at the peak that are kept: the largest.
MOST_GROUPS = 64
#: Characters of an owner that are kept.
_OF_OWNER = 200


@dataclass(frozen=True)
class RankOrder:
    """A rank's log to be read, and how.

    Attributes:
        given: Its path or URL.
        options: Where to cut it, and what to read it as.
    """

    given: str
    options: OfRanks = field(default_factory=OfRanks)


@dataclass(frozen=True)
class FailedRank:
    """How a rank ran out of memory: of the failure that it ended in, or else of the first.

    Attributes:
        failure: The failure, without its lists of blocks.
        failures: How many the log reports.
        allocs: Allocations before it.
        time_us: The time of the last event before it; ``None`` where unknown.
        terms: What the lines of its input are called.
    """

    failure: MemoryFailure
    failures: int
    allocs: int
    time_us: int | None
    terms: Terms


@dataclass(frozen=True)
class RankSummary:
    """What is kept of one rank, or of one device of it.

    Attributes:
        device: The number of its device among several of its input, else ``None``.
        doubts: The codes of what its trust report doubts.
        message: Why there are no figures (no such anchor), or ``""``.
        hint: What to do about that.
        window: The window that the figures are of.
        windows: Windows of its series that are judged.
        peak_bytes: The highest allocated level, what was carried in included; ``None`` where the log tells of no block.
        reserved_peak_bytes: The highest reserved level; ``None`` where it tells of no chunk.
        live_bytes: Live at the end.
        allocs: Allocations in the whole log.
        begins_us: The time of its first event; ``None`` where unknown.
        ends_us: The time of its last event.
        held: What is live at the peak by size and owner, the largest total first; no more than :data:`MOST_GROUPS` groups.
        rest_bytes: What is live then beside these, as far as the level tells.
        failed: How it ran out of memory, or ``None``.
    """

    device: int | None = None
    doubts: tuple[str, ...] = ()
    message: str = ""
    hint: str = ""
    window: str = ""
    windows: int = 0
    peak_bytes: int | None = None
    reserved_peak_bytes: int | None = None
    live_bytes: int | None = None
    allocs: int = 0
    begins_us: int | None = None
    ends_us: int | None = None
    held: tuple[LiveGroup, ...] = ()
    rest_bytes: int = 0
    failed: FailedRank | None = None


def summarize(order: RankOrder) -> tuple[RankSummary, ...]:
    """Read one log, and keep what is needed of it, for each of its devices; memory of the CPU beside GPUs is left out.

    Raises:
        MemlensError: It cannot be read.
    """
    options = order.options
    marks = as_patterns(as_list(options.owners), regex=True)
    reading = Reading(
        options.patterns, strict=options.strict, owners=marks, how=options, most_events=options.most_events
    )
    logs, _ = without_cpu(reading.read_all(order.given))
    return tuple(_summary(log, options, None if len(logs) == 1 else log.device) for log in logs)


def _summary(log: EventLog, cut: Cut, device: int | None) -> RankSummary:
    begins, ends = times_of(log, [log.facts.opening, len(log) - 1]) if len(log) > log.facts.opening else (None, None)
    allocs = int(profile([log.whole])["allocs"][0])
    known = RankSummary(
        device,
        tuple(doubt.code for doubt in log.trust.doubts),
        allocs=allocs,
        begins_us=begins,
        ends_us=ends,
        failed=_failed(log, allocs),
    )
    try:
        windows = cut.windows(log)
    except AnchorError as error:
        return replace(known, message=error.message, hint=error.hint)
    figures = profile(windows)
    chosen, at = _typical(windows, figures["peak_bytes"].tolist(), series=cut.series)
    found = peak([windows[at]])[0] if log.tells_of_blocks else None
    held = _short(found.live) if found else []
    return replace(
        known,
        window=windows[at].name,
        windows=len(chosen),
        peak_bytes=found.peak_bytes if found else None,
        reserved_peak_bytes=_middle(figures["reserved_peak_bytes"], chosen) if log.tells_of_chunks else None,
        live_bytes=_middle(figures["live_bytes"], chosen) if log.tells_of_blocks else None,
        held=tuple(held[:MOST_GROUPS]),
        # Not what the other groups hold: in a condensed log the blocks of a peak may not be known at all.
        rest_bytes=max(found.peak_bytes - sum(group.total_bytes for group in held[:MOST_GROUPS]), 0) if found else 0,
    )


def _typical(windows: Sequence[Window], peaks: Sequence[int], *, series: bool) -> tuple[list[int], int]:
    """The windows that count, and the one of them with the median peak: without what precedes the first one and an open window, where there are others."""
    fates = judged(windows) if series else [True] * len(windows)
    closed = [k for k, counts in enumerate(fates) if counts and windows[k].name != BEFORE]
    chosen = closed or list(range(len(windows)))
    middle = median_low([peaks[k] for k in chosen])
    return chosen, next(k for k in chosen if peaks[k] == middle)


def _middle(column: NDArray[np.int64], chosen: Sequence[int]) -> int:
    return int(median_low(column[list(chosen)].tolist()))


def _failed(log: EventLog, allocs: int) -> FailedRank | None:
    found = failures(log)
    if not found:
        return None
    at = most_telling(found)
    failure, last = found[at], int(log.offset.searchsorted(failures_of(log)[at].offset)) - 1
    return FailedRank(
        replace(failure, live=(), youngest=None, oldest=None, owner=_named(failure.owner)),
        len(found),
        allocs - failure.allocs_after,
        times_of(log, [last])[0] if last >= log.facts.opening else None,
        terms_of(log.facts.layer),
    )


def _short(groups: Sequence[LiveGroup]) -> list[LiveGroup]:
    """Groups whose owners are short; those that are alike then as one, the largest total first."""
    counts: dict[tuple[int, str | None], int] = {}
    for group in groups:
        key = group.size_bytes, _named(group.owner)
        counts[key] = counts.get(key, 0) + group.count
    found = [LiveGroup(size, count, size * count, owner) for (size, owner), count in counts.items()]
    return sorted(found, key=lambda group: (-group.total_bytes, -group.size_bytes, group.owner or ""))


def _named(owner: str | None) -> str | None:
    """An owner in short: an operator, or the innermost frame of a call stack."""
    return None if owner is None else innermost(owner)[:_OF_OWNER]
