"""Many pairs of windows of two logs compared, a stretch of neighbouring pairs at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.analyzers.levels import profile
from memlens.analyzers.result import Later
from memlens.diffing.alignment.blocks import gather_windows, owner_names, tell_threads_apart
from memlens.diffing.alignment.costs import in_bytes
from memlens.diffing.differences import Items, Levels, PairsAtPeaks, collect, levels, peak_terms, remaining_terms
from memlens.diffing.findings import Runs, findings_of
from memlens.diffing.late_frees import Frees, judge_frees
from memlens.diffing.pairing import Match, match, match_opening
from memlens.diffing.result import Approximation, PeakAccount, RemainingAccount, WindowDiff, WindowSide

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.diffing.factor import Factor
    from memlens.windows.windows import Window

    Ints = NDArray[np.int64]

__all__ = ["compare"]

#: Events of both runs compared together: what is made of them stays in proportion to this, unless one pair alone is longer.
_TOGETHER = 1 << 19


def compare(
    base: Sequence[Window],
    head: Sequence[Window],
    *,
    context: int = 3,
    factor: Factor | None = None,
    judged: Sequence[bool] | None = None,
) -> tuple[tuple[WindowDiff, ...], Runs]:
    """Compare windows of one log with as many windows of another, or of the same, one by one.

    Args:
        base: Windows of base; not empty.
        head: Windows of head, as many.
        context: Log lines to show on each side of an event.
        factor: One between nearly all sizes, to be taken out.
        judged: Whether each pair is judged; by default all are.

    Returns:
        The window pairs compared, and what their findings are made from.
    """
    of_base, of_head = levels(base), levels(head)
    sides = zip(_sides(base, of_base), _sides(head, of_head), strict=True)
    left_out = of_head.remaining, of_head.peak
    if factor is not None:
        head = factor.taken_out(head)
        of_head = levels(head)
    left_out = left_out[0] - of_head.remaining, left_out[1] - of_head.peak
    items: list[Items] = []
    rows: list[dict[str, Any]] = []
    threads = tell_threads_apart(base[0].log, head[0].log)
    for part in _parts(base, head):
        here = of_base.part(part), of_head.part(part)
        base_allocs, base_released = gather_windows(base[part], threads=threads)
        head_allocs, head_released = gather_windows(head[part], threads=threads)
        allocs, frees = judge_frees(match(base_allocs, head_allocs, threads=threads))
        pairs = PairsAtPeaks.of(allocs, frees, *here)
        opening = match_opening(base[part], head[part])
        found = collect(allocs, pairs, frees, match(base_released, head_released, threads=threads), opening, *here)
        items.append(found._replace(window=found.window + part.start))
        remaining = {**remaining_terms(allocs, *here), "factor_bytes": left_out[0][part]}
        peak = {**peak_terms(allocs, pairs, opening, *here), "factor_bytes": left_out[1][part]}
        accounts = zip(_by_window(remaining), _by_window(peak), strict=True)
        for number, (figures, account) in enumerate(zip(_by_window(_figures(allocs, frees)), accounts, strict=True)):
            inexact = allocs.ordered.inexact.get(number)
            figures["cost_bytes"] = in_bytes(figures["cost_bytes"])
            figures["approximation"] = inexact and Approximation(*inexact[:3], in_bytes(inexact.excess))
            rows.append({**figures, "remaining": RemainingAccount(**account[0]), "peak": PeakAccount(**account[1])})
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
    return tuple(
        WindowDiff(
            name=left.name,
            judged=judged is None or judged[number],
            base=left,
            head=right,
            **{f"d_{name}": getattr(right, name) - getattr(left, name) for name in _COMPARED},
            **row,
            findings=Later(findings_of, runs, number),
        )
        for number, ((left, right), row) in enumerate(zip(sides, rows, strict=True))
    ), runs


#: Figures of windows of which the differences are shown.
_COMPARED = (
    "remaining_bytes", "carried_in_bytes", "live_bytes", "peak_bytes", "rise_bytes", "reserved_peak_bytes",
)  # fmt: skip


def _parts(base: Sequence[Window], head: Sequence[Window]) -> Iterator[slice]:
    """Runs of window pairs that are compared together."""
    start = events = 0
    for index, (left, right) in enumerate(zip(base, head, strict=True)):
        more = len(left) + len(right)
        if index > start and events + more > _TOGETHER:
            yield slice(start, index)
            start, events = index, 0
        events += more
    yield slice(start, len(base))


def _by_window(columns: dict[str, Ints]) -> Iterator[dict[str, Any]]:
    """Figures of windows by name, a window at a time."""
    for row in zip(*(column.tolist() for column in columns.values()), strict=True):
        yield dict(zip(columns, row, strict=True))


def _figures(found: Match, frees: Frees) -> dict[str, Ints]:
    """The figures of the alignment of window pairs by name; the cost in half bytes."""
    of_base, of_head = found.base, found.head
    return {
        "cost_bytes": found.ordered.half_costs,
        "pairs": of_base.sums(found.aligned >= 0),
        "moved": of_base.sums(found.moved),
        "moved_bytes": of_base.sums(of_base.size * found.moved),
        "only_head_temporary_bytes": of_head.sums(of_head.size * (found.in_head_only & ~of_head.held)),
        "only_base_temporary_bytes": of_base.sums(of_base.size * ((found.partner < 0) & ~of_base.held)),
        "late_frees": of_base.sums(frees.late != 0),
        "threads": found.ordered.threads,
    }


def _sides(windows: Sequence[Window], of: Levels) -> Iterator[WindowSide]:
    """One run's figures of each window."""
    figures = profile(windows)
    columns = {name: figures[name] for name in ("allocs", "frees", "alloc_bytes", "free_bytes")} | {
        "remaining_bytes": of.remaining,
        "carried_in_bytes": of.carried_in,
        "live_bytes": of.carried_in + of.remaining,
        "peak_bytes": of.peak,
        "rise_bytes": of.rise,
        "peak_event": of.peak_end - 1,
        "reserved_peak_bytes": figures.rise[1] + figures.levels[1],
    }
    for window, row in zip(windows, _by_window(columns), strict=True):
        if not row["rise_bytes"]:
            row["peak_event"] = None
        lines = int(window.start_line), int(window.end_line)
        yield WindowSide(window.name, *lines, len(window), **row, open_end=window.open_end)
