"""Many pairs of windows of two logs compared, a stretch of neighbouring pairs at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from memlens.analyzers.levels import profile
from memlens.analyzers.result import Later
from memlens.diffing.alignment.blocks import gather_windows, owner_names, tell_threads_apart
from memlens.diffing.alignment.costs import in_bytes
from memlens.diffing.alignment.indices import batches
from memlens.diffing.differences import Items, collect, levels, terms
from memlens.diffing.findings import Runs, findings_of
from memlens.diffing.late_frees import Frees, judge_frees
from memlens.diffing.pairing import Match, match, match_opening
from memlens.diffing.result import Approximation, PeakAccount, RemainingAccount, WindowDiff, WindowSide

if TYPE_CHECKING:
    import numpy as np
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
    sides = _sides(base), _sides(head)
    of_base, of_head = levels(base), levels(head)
    left_out = of_head.remaining, of_head.peak
    if factor is not None:
        head = factor.taken_out(head)
        of_head = levels(head)
    left_out = left_out[0] - of_head.remaining, left_out[1] - of_head.peak
    items: list[Items] = []
    rows: list[dict[str, Any]] = []
    threads = tell_threads_apart(base[0].log, head[0].log)
    for part in batches([len(left) + len(right) for left, right in zip(base, head, strict=True)], _TOGETHER):
        (base_born, base_carried), (head_born, head_carried) = (
            gather_windows(windows[part], threads=threads) for windows in (base, head)
        )
        allocs, frees = judge_frees(match(base_born, head_born))
        released, opening = match(base_carried, head_carried), match_opening(base[part], head[part])
        here = of_base.part(part), of_head.part(part)
        found = collect(allocs, frees, released, opening, *here)
        items.append(found._replace(window=found.window + part.start))
        remaining, peak, temporary = terms(found, *here)
        accounts = zip(
            _by_window({**remaining, "factor_bytes": left_out[0][part]}),
            _by_window({**peak, "factor_bytes": left_out[1][part]}),
            _by_window({**_figures(allocs, frees), **temporary}),
            strict=True,
        )
        for number, (of_remaining, of_peak, figures) in enumerate(accounts):
            inexact = allocs.ordered.inexact.get(number)
            figures["cost_bytes"] = in_bytes(figures["cost_bytes"])
            figures["approximation"] = inexact and Approximation(*inexact[:3], in_bytes(inexact.excess))
            rows.append({**figures, "remaining": RemainingAccount(**of_remaining), "peak": PeakAccount(**of_peak)})
    runs = Runs(base, head, owner_names(base[0].log, head[0].log), Items.joined(items), context)
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
        for number, (left, right, row) in enumerate(zip(*sides, rows, strict=True))
    ), runs


#: Figures of windows of which the differences are shown.
_COMPARED = [spec.name.removeprefix("d_") for spec in fields(WindowDiff) if spec.name.startswith("d_")]


def _by_window(columns: dict[str, Ints]) -> Iterator[dict[str, Any]]:
    """Figures of windows by name, a window at a time."""
    for row in zip(*(column.tolist() for column in columns.values()), strict=True):
        yield dict(zip(columns, row, strict=True))


def _figures(found: Match, frees: Frees) -> dict[str, Ints]:
    """The figures of the alignment of window pairs by name; the cost in half bytes."""
    base = found.base
    moved = (found.partner >= 0) & (found.aligned < 0)
    return {
        "cost_bytes": found.ordered.half_costs,
        "pairs": base.sums(found.aligned >= 0),
        "moved": base.sums(moved),
        "moved_bytes": base.sums(base.size * moved),
        "late_frees": base.sums(frees.late != 0),
        "threads": found.ordered.threads,
    }


def _sides(windows: Sequence[Window]) -> list[WindowSide]:
    """One run's figures of each window."""
    figures = profile(windows)
    names = [spec.name for spec in fields(WindowSide) if spec.name in figures.columns]
    rows = _by_window({**{name: figures[name] for name in names}, "peak_event": figures.summit})
    return [
        WindowSide(
            name=window.name,
            start_line=int(window.start_line),
            end_line=int(window.end_line),
            events=len(window),
            open_end=window.open_end,
            **row | ({} if row["rise_bytes"] else {"peak_event": None}),
        )
        for window, row in zip(windows, rows, strict=True)
    ]
