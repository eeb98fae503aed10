"""Many pairs of windows of two logs compared, a stretch of neighbouring pairs at a time, and the factor between their sizes."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.columns import rank_of
from memlens.diffing.alignment.blocks import Blocks, gather_windows, owner_names, tell_threads_apart
from memlens.diffing.alignment.indices import batches
from memlens.diffing.alignment.tables import in_bytes
from memlens.diffing.differences import Items, collect, follow_older, levels, terms
from memlens.diffing.finding import Runs, findings_of
from memlens.diffing.pairing import InOrder, Match, apart, match, match_opening
from memlens.diffing.result import Approximation, PeakAccount, RemainingAccount, WindowDiff, WindowSide
from memlens.facts import Kind
from memlens.folding import profile
from memlens.results import deferred

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from memlens.columns import Ints
    from memlens.diffing.window_pairs import WindowPairs
    from memlens.windows.windows import Window

    Floats = NDArray[np.float64]


#: Events of both runs compared together: what is made of them stays in proportion to this, unless one pair alone is longer.
_TOGETHER = 1 << 19
#: Most of some bytes are more than this share of them.
_MOST = 0.5
#: The largest numerator and denominator that are tried.
_LARGEST_TERM = 16
#: Allocators round sizes up to multiples of so many bytes at most.
_PADDING = 512
#: A factor shows in blocks of so many bytes, at least and at most, …
_LARGE, _LARGEST = 16 * _PADDING, 1 << 55
#: … where each run has so many sizes of them; of more it would take too long.
_LEAST_SIZES, _MOST_SIZES = 4, 20_000


def compare(
    base: Sequence[Window],
    head: Sequence[Window],
    *,
    context: int = 3,
    judged: Sequence[bool] | None = None,
    peaks: tuple[int, int] | None = None,
    in_order: list[Ints] | None = None,
) -> tuple[tuple[WindowDiff, ...], Runs]:
    """Compare windows of one log with as many windows of another, or of the same, one by one.

    Args:
        base: Windows of base; not empty.
        head: Windows of head, as many.
        context: Log lines to show on each side of an event.
        judged: Whether each pair is judged; by default all are.
        peaks: The event after the one that reaches base's peak, and after the one that reaches head's; by default those of the first pair.
        in_order: Gets the pairs that are aligned in order, as :func:`pairs_in_order` has them, a stretch after the other.

    Returns:
        The window pairs compared, and what their findings are made from.
    """
    sides = _sides(base), _sides(head)
    of_base, of_head = levels(base), levels(head)
    peaks = peaks or (int(of_base.peak_end[0]), int(of_head.peak_end[0]))
    items: list[Items] = []
    pairs: list[Ints] = []
    rows: list[dict[str, Any]] = []
    for part, born, carried in _gathered(base, head):
        allocs, released, opening = match(*born), match(*carried), match_opening(base[part], head[part])
        if in_order is not None:
            in_order.append(_in_order(base[part], head[part], allocs, released))
        here = of_base.part(part), of_head.part(part)
        same = apart(allocs)
        found = collect(same, released, opening, *here)
        items.append(found._replace(window=found.window + part.start))
        pairs.append(_lasting(same, peaks))
        remaining, peak, temporary = terms(found, *here)
        accounts = map(_by_window, (remaining, peak, {**_figures(allocs), **temporary}))
        for number, (of_remaining, of_peak, figures) in enumerate(zip(*accounts, strict=True)):
            inexact = allocs.ordered.inexact.get(number)
            figures["cost_bytes"] = in_bytes(figures["cost_bytes"])
            figures["approximation"] = inexact and Approximation(*inexact[:3], in_bytes(inexact.excess()))
            rows.append({**figures, "remaining": RemainingAccount(**of_remaining), "peak": PeakAccount(**of_peak)})
    lasting = np.concatenate(pairs, axis=1)
    both = lasting[0], lasting[1]
    every = follow_older(Items.joined(items), both, (base, head))
    runs = Runs(base, head, owner_names(base[0].log, head[0].log), every, both, peaks, context)
    return tuple(
        WindowDiff(
            name=left.name,
            judged=judged is None or judged[number],
            base=left,
            head=right,
            **{f"d_{name}": _change(getattr(left, name), getattr(right, name)) for name in _COMPARED},
            **row,
            findings=deferred(findings_of, runs, number),
        )
        for number, (left, right, row) in enumerate(zip(*sides, rows, strict=True))
    ), runs


def _change(base: int | None, head: int | None) -> Any:
    return None if base is None or head is None else head - base


def _lasting(found: Match, peaks: tuple[int, int]) -> Ints:
    """The ALLOCs of pairs of blocks of which one outlives its window or is live at its run's peak: two rows, of base and of head."""
    left = np.flatnonzero(found.partner >= 0)
    right = found.partner[left]
    lasts = [
        blocks.held | ((blocks.alloc < end) & (blocks.free >= end))
        for blocks, end in zip((found.base, found.head), peaks, strict=True)
    ]
    some = lasts[0][left] | lasts[1][right]
    return np.stack((found.base.alloc[left[some]], found.head.alloc[right[some]]))


def pairs_in_order(windows: WindowPairs, known: Sequence[Ints] | None = None) -> tuple[InOrder]:
    """Return the pairs that :func:`compare` aligns in order, worked out once more where it did not keep them."""
    base, head = zip(*windows.pairs, strict=True)
    parts = known or [
        _in_order(base[part], head[part], match(*born), match(*carried))
        for part, born, carried in _gathered(base, head)
    ]
    return (InOrder(windows, *np.concatenate(parts, axis=1)),)


def _in_order(base: Sequence[Window], head: Sequence[Window], allocs: Match, released: Match) -> Ints:
    """The pairs of some windows: three rows, the columns of :class:`memlens.diffing.pairing.InOrder`."""
    parts: list[Ints] = []
    for turn, pairs in enumerate((allocs, released)):
        left = np.flatnonzero(pairs.aligned >= 0)
        right = pairs.aligned[left]
        rank = _rank_in_window(pairs.ordered.sequences[0][left], pairs.base.window[left])
        parts.append(np.stack((pairs.base.event[left], pairs.head.event[right], (turn << 32) + rank)))
        if pairs is allocs:
            ends = [np.array([window.hi for window in side], np.int64) for side in (base, head)]
            frees = pairs.base.free[left], pairs.head.free[right]
            both = (frees[0] >= 0) & (frees[1] >= 0)
            both &= (frees[0] < ends[0][pairs.base.window[left]]) & (frees[1] < ends[1][pairs.head.window[right]])
            parts.append(np.stack((frees[0][both], frees[1][both], np.full(np.count_nonzero(both), 2 << 32))))
    return np.concatenate(parts, axis=1)


def _rank_in_window(sequence: Ints, window: Ints) -> Ints:
    """Return how many sequences of its window have more pairs than that of each pair, int64: 0 wherever a window was aligned as a whole."""
    numbers, first, number, counts = np.unique(sequence, return_index=True, return_inverse=True, return_counts=True)
    order = np.lexsort((numbers, -counts))
    rank = np.empty(len(order), np.int64)
    rank[order] = rank_of(window[first][order])
    return rank[number]


def _gathered(
    base: Sequence[Window], head: Sequence[Window]
) -> Iterator[tuple[slice, tuple[Blocks, Blocks], tuple[Blocks, Blocks]]]:
    """Some neighbouring pairs at a time: what both runs allocate in them, and what they free in them that was carried in."""
    threads = tell_threads_apart(base[0].log, head[0].log)
    for part in batches([len(left) + len(right) for left, right in zip(base, head, strict=True)], _TOGETHER):
        sides = [gather_windows(windows[part], threads=threads) for windows in (base, head)]
        born, carried = zip(*sides, strict=True)
        yield part, born, carried


#: Figures of windows of which the differences are shown.
_COMPARED = [name.removeprefix("d_") for name in WindowDiff.__struct_fields__ if name.startswith("d_")]


def _by_window(columns: dict[str, Ints]) -> Iterator[dict[str, Any]]:
    """Figures of windows by name, a window at a time."""
    for row in zip(*(column.tolist() for column in columns.values()), strict=True):
        yield dict(zip(columns, row, strict=True))


def _figures(found: Match) -> dict[str, Ints]:
    """The figures of the alignment of window pairs by name; the cost in half bytes."""
    base = found.base
    moved = (found.partner >= 0) & (found.aligned < 0)
    return {
        "cost_bytes": found.ordered.half_costs,
        "pairs": base.sums(found.aligned >= 0),
        "moved": base.sums(moved),
        "moved_bytes": base.sums(base.size * moved),
        "threads": found.ordered.threads,
    }


def _sides(windows: Sequence[Window]) -> list[WindowSide]:
    """One run's figures of each window."""
    figures = profile(windows)
    unknown = {} if windows[0].log.tells_of_chunks else {"reserved_peak_bytes": None}
    names = [name for name in WindowSide.__struct_fields__ if name in figures.columns]
    rows = _by_window({**{name: figures[name] for name in names}, "peak_event": figures.summit})
    return [
        WindowSide(
            name=window.name,
            start_line=int(window.start_line),
            end_line=int(window.end_line),
            events=len(window),
            open_end=window.open_end,
            **row | unknown | ({} if row["rise_bytes"] else {"peak_event": None}),
        )
        for window, row in zip(windows, rows, strict=True)
    ]


def common_factor(base: Sequence[Window], head: Sequence[Window]) -> Fraction | None:
    """Return the factor by which most bytes of both runs pair off, the best one; ``None`` where it is 1 or there is none.

    Args:
        base: Windows of base; not empty.
        head: Windows of head.
    """
    left, right = _large_blocks(base), _large_blocks(head)
    if not all(_LEAST_SIZES <= len(sizes) <= _MOST_SIZES for sizes, _ in (left, right)):
        return None
    terms = range(1, _LARGEST_TERM + 1)
    fractions = sorted(
        {Fraction(p, q) for p in terms for q in terms}, key=lambda one: (sum(one.as_integer_ratio()), one)
    )
    shares = [_share(left, right, fraction) for fraction in fractions]
    best = max(range(len(fractions)), key=shares.__getitem__)
    return fractions[best] if shares[best] > _MOST and fractions[best] != 1 else None


def _large_blocks(windows: Sequence[Window]) -> tuple[Floats, Floats]:
    """Return the sizes of the large blocks that windows of one log allocate, rising, and how often each is allocated."""
    log = windows[0].log
    every = np.concatenate([log.size[w.lo : w.hi][log.kind[w.lo : w.hi] == Kind.ALLOC] for w in windows])
    sizes, counts = np.unique(every[(every >= _LARGE) & (every < _LARGEST)], return_counts=True)
    return sizes.astype(np.float64), counts.astype(np.float64)


def _share(left: tuple[Floats, Floats], right: tuple[Floats, Floats], factor: Fraction) -> float:
    """Return the share of bytes that pair off, in the run in which it is less, where head's sizes are base's times a factor."""
    (sizes, counts), (others, often) = left, right
    times, over = factor.as_integer_ratio()
    given, wanted = sizes * times, others * over
    above = np.minimum(np.searchsorted(given, wanted), len(given) - 1)
    below = np.maximum(above - 1, 0)
    nearest = np.where(wanted - given[below] < np.abs(given[above] - wanted), below, above)
    apart = wanted - given[nearest]
    # A size is the multiple of another one up to the padding of both.
    known = (apart > -_PADDING * times) & (apart < _PADDING * over)
    stands_for = np.bincount(nearest[known], often[known], len(sizes))
    paired = float((np.minimum(stands_for, counts) * sizes).sum())
    return min(paired / float((sizes * counts).sum()), paired * times / over / float((others * often).sum()))
