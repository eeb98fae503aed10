"""Many pairs of windows of two logs compared, a stretch of neighbouring pairs at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.analyzers.levels import profile
from memlens.analyzers.result import Later
from memlens.diffing.attribution import Levels, PairsAtPeaks, levels, peak_terms, remaining_terms
from memlens.diffing.blocks import gather_windows, owner_names, tell_threads_apart
from memlens.diffing.costs import in_bytes
from memlens.diffing.differences import Items, collect
from memlens.diffing.findings import Runs, findings_of
from memlens.diffing.late import Frees, judge_frees
from memlens.diffing.opening import match_opening
from memlens.diffing.pairing import Match, match
from memlens.diffing.result import PeakAccount, RemainingAccount, WindowDiff, WindowSide

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.diffing.factor import Factor
    from memlens.diffing.finding import Finding
    from memlens.windows.windows import Window

    Ints = NDArray[np.int64]

__all__ = ["Compared", "compare"]

#: Events of both runs compared together: what is made of them stays in proportion to this, unless one pair alone is longer.
_TOGETHER = 1 << 19


@dataclass(frozen=True, eq=False)
class Compared:
    """Window pairs compared, and what their findings are told from."""

    windows: tuple[WindowDiff, ...]
    runs: Runs


def compare(
    base: Sequence[Window], head: Sequence[Window], *, context: int = 3, factor: Factor | None = None
) -> Compared:
    """Compare windows of one log with as many windows of another, or of the same, one by one.

    Args:
        base: Windows of base; not empty.
        head: Windows of head, as many.
        context: Log lines to show on each side of an event.
        factor: One between nearly all sizes, to be taken out.
    """
    as_logged = levels(head)
    sides = zip(_sides(base, levels(base)), _sides(head, as_logged), strict=True)
    head = head if factor is None else factor.taken_out(head)
    of_base, of_head = levels(base), levels(head)
    items: list[Items] = []
    rows: list[tuple[Any, ...]] = []
    threads = tell_threads_apart(base[0].log, head[0].log)
    for part in _parts(base, head):
        here = of_base.part(part), of_head.part(part)
        base_allocs, base_released = gather_windows(base[part], threads=threads)
        head_allocs, head_released = gather_windows(head[part], threads=threads)
        allocs, frees = judge_frees(match(base_allocs, head_allocs, threads=threads))
        pairs = PairsAtPeaks.of(allocs, frees, *here)
        opening = match_opening(base[part], head[part])
        released = match(base_released, head_released, threads=threads)
        found = collect(allocs, pairs, frees, released, opening, *here)
        items.append(found.in_windows_from(part.start))
        rows.extend(_figures(allocs, pairs, frees, opening, *here))
    runs = Runs(
        base[0].log,
        head[0].log,
        owner_names(base[0].log, head[0].log),
        [window.name for window in base],
        np.array([window.hi for window in base], np.int64),
        np.array([window.hi for window in head], np.int64),
        Items.joined(items),
        context,
    )
    more = as_logged.remaining - of_head.remaining, as_logged.peak - of_head.peak
    accounts = (part.tolist() for part in more)
    return Compared(
        tuple(
            _window_diff(left, right, row, by_factor, Later(findings_of, runs, number))
            for number, ((left, right), row, by_factor) in enumerate(
                zip(sides, rows, zip(*accounts, strict=True), strict=True)
            )
        ),
        runs,
    )


def _parts(base: Sequence[Window], head: Sequence[Window]) -> Iterator[slice]:
    """Runs of window pairs that are compared together."""
    start = events = 0
    for place, (left, right) in enumerate(zip(base, head, strict=True)):
        more = len(left) + len(right)
        if place > start and events + more > _TOGETHER:
            yield slice(start, place)
            start, events = place, 0
        events += more
    yield slice(start, len(base))


def _figures(
    found: Match, pairs: PairsAtPeaks, frees: Frees, opening: Match, base: Levels, head: Levels
) -> Iterator[tuple[Any, ...]]:
    """For each window pair the figures of its alignment, its two accounts, and what was approximated."""
    of_base, of_head = found.base, found.head
    columns = (
        found.ordered.half_costs,
        of_base.sums(found.aligned >= 0),
        of_base.sums(found.moved),
        of_base.sums(of_base.size * found.moved),
        of_head.sums(of_head.size * (found.in_head_only & ~of_head.held)),
        of_base.sums(of_base.size * ((found.partner < 0) & ~of_base.held)),
        frees.late_frees(found),
        found.ordered.threads,
    )
    accounts = (
        map(account, *(term.tolist() for term in terms.values()))
        for account, terms in (
            (RemainingAccount, remaining_terms(found, base, head)),
            (PeakAccount, peak_terms(found, pairs, opening, base, head)),
        )
    )
    rows = zip(zip(*(column.tolist() for column in columns), strict=True), *accounts, strict=True)
    for number, row in enumerate(rows):
        inexact = found.ordered.inexact.get(number)
        yield *row, inexact and inexact.approximation()


def _window_diff(
    base: WindowSide,
    head: WindowSide,
    figures: tuple[Any, ...],
    by_factor: tuple[int, int],
    findings: Later[tuple[Finding, ...]],
) -> WindowDiff:
    (half_cost, *counts), remaining, peak, approximated = figures
    make: Callable[..., WindowDiff] = WindowDiff  # the figures are its fields, in order
    return make(
        base.name,
        base,
        head,
        head.remaining_bytes - base.remaining_bytes,
        head.carried_in_bytes - base.carried_in_bytes,
        head.live_bytes - base.live_bytes,
        head.peak_bytes - base.peak_bytes,
        head.rise_bytes - base.rise_bytes,
        head.reserved_peak_bytes - base.reserved_peak_bytes,
        in_bytes(half_cost),
        *counts,
        replace(remaining, factor_bytes=by_factor[0]),
        replace(peak, factor_bytes=by_factor[1]),
        approximated,
        findings,
    )


def _sides(windows: Sequence[Window], of: Levels) -> Iterator[WindowSide]:
    """One run's figures of each window."""
    figures = profile(windows)
    columns = (
        *(figures[name] for name in ("allocs", "frees", "alloc_bytes", "free_bytes")),
        of.remaining,
        of.carried_in,
        of.carried_in + of.remaining,
        of.carried_in + of.rise,
        of.rise,
        of.peak_end,
        figures.rise[1] + figures.levels[1],
    )
    make: Callable[..., WindowSide] = WindowSide  # the columns are its last fields, in order
    for window, row in zip(windows, zip(*(column.tolist() for column in columns), strict=True), strict=True):
        *counts, rise, end, reserved = row
        place = window.name, int(window.start_line), int(window.end_line), len(window)
        yield make(*place, *counts, rise, end - 1 if rise else None, reserved, window.open_end)
