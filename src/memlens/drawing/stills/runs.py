"""Two runs in a still: their levels over the axis that the diff aligns them by, and the lives of the blocks that it names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from memlens.diffing.words import called, freed_words, sized
from memlens.drawing.aligned import aligned, aligned_curves
from memlens.drawing.stills.tracks import Band
from memlens.errors import NoEventsError, UsageError
from memlens.reports.diff.findings import words_of
from memlens.text import format_count, plural, terms_of
from memlens.trust.report import failures_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memlens.diffing.finding import Finding, Member, Side
    from memlens.diffing.result import Diff
    from memlens.drawing.aligned import AlignedAxis, AlignedCurves, AlignedRun
    from memlens.text import Terms

__all__ = ["Found", "Life", "Runs", "runs_of"]

#: Blocks of one finding whose lives are shown.
_MOST_BLOCKS = 200


@dataclass(frozen=True)
class Life:
    """From where to where on the axis a block is live.

    Attributes:
        side: ``base`` or ``head``.
        start: The slot of its ALLOC, or where the axis starts.
        end: The slot of its FREE, or where the axis ends.
        freed: Whether that is where it is freed.
    """

    side: str
    start: int
    end: int
    freed: bool


@dataclass(frozen=True)
class Found:
    """A finding of the diff.

    Attributes:
        words: What it is, in one line; names in it are text from the logs, made harmless.
        lives: Its blocks, base's and head's; some of them where they are many.
    """

    words: str
    lives: tuple[Life, ...]


@dataclass(frozen=True, eq=False)
class Runs:
    """Two runs over one axis.

    Attributes:
        names: What base's log is called, and head's.
        curves: The levels of both, and the difference, over the slots of the axis.
        peaks: The peaks of both.
        failures: Slots at which base runs out of memory, and head.
        bands: The windows of a series, where base has them.
        found: What the diff names, the largest effect first.
    """

    names: tuple[str, str]
    curves: AlignedCurves
    peaks: tuple[int, int]
    failures: tuple[tuple[int, ...], tuple[int, ...]]
    bands: tuple[Band, ...]
    found: tuple[Found, ...]


def runs_of(diff: Diff, names: tuple[str, str], columns: int, most: int) -> Runs:
    """What a still shows of a comparison.

    Args:
        diff: The comparison, of one device.
        names: What the two logs are called.
        columns: Buckets of the axis.
        most: Findings to show.

    Raises:
        UsageError: Several devices were compared.
        NoEventsError: Neither run has an event.
    """
    if len(diff.in_order) != 1:
        raise UsageError("several devices are compared", "Name one of them: --device N.")
    (pairs,) = diff.in_order
    axis = aligned(pairs)
    if not len(axis):
        raise NoEventsError("no event in either run, so there are no curves", "memlens report draws a memory map.")
    curves = aligned_curves(axis, columns)
    runs = axis.base, axis.head
    bands = []
    if diff.series:
        shown = [base for base, _ in pairs.windows.pairs if len(base)]
        starts, ends = (axis.base.slots_of(np.array([getattr(w, e) for w in shown], np.int64)) for e in ("lo", "hi"))
        order = np.argsort(starts, kind="stable").tolist()
        bands = [Band(shown[k].name, float(starts[k]), float(ends[k])) for k in order]
    base, head = (_failed(run) for run in runs)
    peaks = int(curves.base_high.max()), int(curves.head_high.max())
    terms = terms_of(diff.base.trust.layer)
    return Runs(names, curves, peaks, (base, head), tuple(bands), tuple(_found(diff, axis, terms, most)))


def _failed(run: AlignedRun) -> tuple[int, ...]:
    """The slots of the last events before a run is out of memory."""
    offsets = np.array([oom.offset for oom in failures_of(run.log)], np.int64)
    events = np.searchsorted(run.log.offset, offsets) - 1
    slots: list[int] = run.slots_of(events[(run.lo <= events) & (events < run.hi)]).tolist()
    return tuple(slots)


def _found(diff: Diff, axis: AlignedAxis, terms: Terms, most: int) -> Iterator[Found]:
    """What the diff names, with where it is."""
    if diff.series:
        for row in diff.repeated[:most]:
            where = f", in {plural(row.windows, 'window')} from {called(row.first_window)} on" if row.windows > 1 else f", in {called(row.first_window)}"  # fmt: skip
            yield Found(_words(row.finding, row.count, terms) + where, _lives(row.members, axis))
        return
    for finding in diff.windows[0].findings[:most] if diff.windows else ():
        yield Found(_words(finding, finding.count, terms), _lives(finding.members, axis))


def _words(finding: Finding, count: int, terms: Terms) -> str:
    """``Missing free: 3.38 MiB (matmul); base frees it at line 77, head never frees it``."""
    many = f"{format_count(count)} × " if count > 1 else ""
    fates = []
    for name, side in (("base", finding.base), ("head", finding.head)):
        if side is None:
            continue
        it = "it" if count == 1 else "the first"
        alone = finding.base is None or finding.head is None
        born = f"allocates {it} at {terms.at(side.alloc_line)} and " if alone and side.alloc_line is not None else ""
        fates.append(f"{name} {born}{freed_words(side, terms, '' if born else it)}")
    return f"{words_of(finding).title}: {many}{sized(finding)}; {', '.join(fates)}"


def _lives(members: Sequence[Member], axis: AlignedAxis) -> tuple[Life, ...]:
    """Where the blocks of a finding are live; of many some from all over the axis."""
    return tuple(
        _life(name, side, run, len(axis))
        for member in members[:: -(-len(members) // _MOST_BLOCKS) or 1]
        for name, side, run in (("base", member.base, axis.base), ("head", member.head, axis.head))
        if side is not None
    )


def _life(name: str, side: Side, run: AlignedRun, end: int) -> Life:
    """One block; what lies outside of the axis is at its edge."""
    inside = [
        event if event is not None and run.lo <= event < run.hi else None
        for event in (side.alloc_event, side.free_event)
    ]
    born, freed = (None if event is None else int(run.slots_of(np.array([event]))[0]) for event in inside)
    return Life(name, 0 if born is None else born, end if freed is None else freed, freed is not None)
