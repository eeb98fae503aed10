"""Two runs compared, as the page shows them: both curves over the axis that they share, the windows, and the findings with their places on it."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec.structs import asdict, replace

from memlens.analyzers.composition import Roles
from memlens.analyzers.places import lines_at
from memlens.diffing.run import diff_to_draw
from memlens.drawing.aligned import AlignedAxis, AlignedRun, aligned, aligned_curves
from memlens.drawing.levels import band_rows, merged
from memlens.drawing.lifetimes import WindowBlocks
from memlens.drawing.page import pack_json
from memlens.drawing.stacks import STRETCH, Way, common_ways, stacked
from memlens.errors import UsageError
from memlens.inputs import device_label, without_cpu
from memlens.options import Cut, Owners, ReadAs
from memlens.options.verbs import Diff as Options
from memlens.reports.blocks import Excerpt, Line
from memlens.reports.diff.findings import effects_of, finding_blocks, words_of
from memlens.text import file_names, plural, terms_of, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memlens.columns import Ints
    from memlens.diffing.finding import Finding, Side
    from memlens.diffing.result import Diff, WindowDiff
    from memlens.log import Input, Log
    from memlens.options.verbs import Report
    from memlens.windows.windows import Window


#: An axis of so many slots is drawn slot by slot; of a longer one there are so many buckets.
EXACT, BUCKETS = 1 << 16, 1 << 15
#: Findings that are listed, and blocks of each whose places are shown.
FINDINGS, MEMBERS = 100, 64
#: Of a long axis so many slots before and after the ALLOC and the FREE of the first block of a finding are kept one by one, for so many findings.
AROUND, AROUND_FINDINGS = 1 << 8, 24
#: Ways to group what is live.
_WAYS = 3
#: Slots that are shown before and after a finding, at least.
_ROOM = 16
_CURVES = ("base_low", "base_high", "head_low", "head_high", "slot")


class SideBySide(NamedTuple):
    """Two runs over one axis.

    Attributes:
        axis: The axis.
        groups: The blocks of base and of head, and the ways to group them alike.
    """

    axis: AlignedAxis
    groups: list[tuple[WindowBlocks, list[Way]]]

    def head_in(self, window: Window) -> Sequence[Way]:
        """The ways to group the blocks of a window, if that is all of head."""
        (_, (of, found)) = self.groups
        return found if (of.log, of.lo, of.hi) == (window.log, window.lo, window.hi) else ()


def compared(base: Input, logs: Sequence[Log], options: Report) -> Diff:
    """The log of a report compared with another one, both cut and read alike.

    Args:
        base: The run to compare with.
        logs: The log, of each device: that of the only GPU is compared, where there is one beside the CPU.
        options: How to read, and where to cut.

    Raises:
        UsageError: The log has several GPUs.
        MemlensError: See :func:`memlens.diffing.run.diff_with`.
    """
    (log, *others), _ = without_cpu(logs)
    if others:
        listed = ", ".join(map(device_label, logs))
        raise UsageError(f"{log.source.name} has {listed}", "Compare one of them: --device N.")
    return diff_to_draw(base, log, Options(**options.of(ReadAs, Owners, Cut)))


def side_by_side(diff: Diff) -> SideBySide:
    """Return the axis of two runs, of one device each, and their blocks."""
    (pairs,) = diff.in_order
    axis = aligned(pairs)
    return SideBySide(axis, groups_of(axis))


def diff_view(diff: Diff, made: SideBySide | None = None) -> dict[str, Any]:
    """Return the page's view of a comparison of two runs, each of one device.

    Args:
        diff: The comparison.
        made: The two side by side, where that is made already.

    Returns:
        ``base`` and ``head``, the names of the two; ``slots``, how long the axis is; ``curves``, columns with one entry a bucket, ``exact``
        where each bucket is one slot; ``details``, the slots around findings one by one, where that is not so; ``windows`` and their ``bands``; ``findings``, ``left_out``
        of them, and what all of them are ``of``: the window pair, or all window pairs of a series, alike findings as one.
    """
    axis, groups = made or side_by_side(diff)
    findings = list(_findings(diff))
    shown = findings[:FINDINGS]
    rows = [_finding_row(axis, diff, window, finding, more) for window, finding, more in shown]
    called = file_names([diff.base.path, diff.head.path])
    exact = len(axis) <= EXACT
    curves = aligned_curves(axis, EXACT if exact else BUCKETS)
    windows = sorted(window_rows(axis, diff), key=lambda row: row["spans"][0])
    return {
        "base": visible(called[diff.base.path]),
        "head": visible(called[diff.head.path]),
        "series": diff.series,
        "slots": len(axis),
        "line": terms_of(diff.head.trust.has_lines).line,
        "figures": _figures(axis, curves),
        "curves": _columns(axis, curves, exact),
        "details": [] if exact else [_detail(axis, lo, hi) for lo, hi in _stretches(axis, rows)],
        "stacks": _stacks(axis, curves, [(0, len(axis))] if exact else _stretches(axis, rows), exact, groups),
        "parting": None if diff.parting is None else visible(diff.parting.label),
        "windows": pack_json(windows),
        "bands": _bands(windows, diff),
        "findings": pack_json(rows),
        "left_out": len(findings) - len(shown),
    }


def groups_of(axis: AlignedAxis) -> list[tuple[WindowBlocks, list[Way]]]:
    """The blocks of base and of head, and the ways to group them alike."""
    blocks = [WindowBlocks(run.window) for run in (axis.base, axis.head)]
    return [*zip(blocks, common_ways(blocks, [Roles(of.log) for of in blocks]), strict=True)]


def _stacks(
    axis: AlignedAxis,
    curves: dict[str, Ints],
    stretches: list[tuple[int, int]],
    exact: bool,
    groups: list[tuple[WindowBlocks, list[Way]]],
) -> dict[str, Any]:
    """Return what is live in each run by the same groups: see :func:`memlens.drawing.stacks.stacks_view`, the slots of the axis for events."""
    slots = curves["slot"][: 0 if exact else None : STRETCH]
    views = {}
    for side, run, (of, found) in zip(("base", "head"), (axis.base, axis.head), groups, strict=True):
        events = [run.events_at(np.arange(lo, hi)) for lo, hi in stretches]
        before = [int(run.events_at(np.array([lo - 1]))[0]) if lo else run.lo - 1 for lo, _ in stretches]
        fresh = [np.where(np.diff(own, prepend=first) > 0, own, -1) for own, first in zip(events, before, strict=True)]
        made = stacked(of, found[:_WAYS], run.events_at(slots), fresh, before)
        views[side] = made | {"moments": slots, "events": run.slots_of(made["events"])}
    return views


def _findings(diff: Diff) -> Iterator[tuple[WindowDiff, Finding, dict[str, Any]]]:
    """Yield the rows of the list: the findings of a pair of windows, or those of all windows of a series, alike ones as one, each with its first window."""
    if not diff.series:
        for window in diff.windows:
            yield from ((window, one, {}) for one in window.findings if one.size_bytes >= diff.min_size)
        return
    by_name = {window.base.name: window for window in diff.windows}
    for row in diff.repeated:
        if row.finding.size_bytes >= diff.min_size:
            figures = row.to_dict()
            del figures["finding"]
            yield by_name[row.first_window], row.finding, figures


def _finding_row(
    axis: AlignedAxis, diff: Diff, window: WindowDiff, finding: Finding, more: dict[str, Any]
) -> dict[str, Any]:
    """A finding: as it stands in the machine output, in words, and where its blocks are on the axis."""
    members = list(islice(finding.members, MEMBERS))
    heading, *blocks = finding_blocks(finding, effects_of(window), terms_of(diff.base.trust.has_lines))
    if diff.series:
        others = f", the first of {plural(more['windows'], 'window')} that have it" if more["windows"] > 1 else ""
        blocks.insert(0, Line(f"in {visible(window.label)}{others}", "quiet"))
    places = {
        side: [_places(getattr(axis, side), getattr(member, side)) for member in members] for side in ("base", "head")
    }
    return {
        **more,
        "what": words_of(finding).short,
        "window": visible(window.label),
        "owner": visible(finding.owner or ""),
        "finding": {
            name: value
            for name, value in replace(finding, members=()).to_dict().items()
            if name not in ("context", "members")
        },
        "blocks": [_block(block) for block in (heading, *blocks)],
        "base_places": places["base"],
        "head_places": places["head"],
        "shown": _shown(len(axis), finding, [places["base"][0], places["head"][0]]),
    }


def _block(block: object) -> dict[str, Any]:
    """A line about a finding, or lines of a log."""
    if isinstance(block, Excerpt):
        return {"title": block.title, "lines": [{**asdict(one), "text": visible(one.text)} for one in block.lines]}
    assert isinstance(block, Line)
    return {"label": block.label, "text": block.text, "name": visible(block.name), "style": block.style}


def _places(run: AlignedRun, side: Side | None) -> list[int | None] | None:
    """The slots of the ALLOC and of the FREE of a block: -1 for what comes before the axis, ``None`` for what comes after it or never."""
    if side is None:
        return None
    return [
        None if event is None or event >= run.hi else -1 if event < run.lo else int(run.slots_of(np.array([event]))[0])
        for event in (side.alloc_event, side.free_event)
    ]


def _shown(slots: int, finding: Finding, places: list[list[int | None] | None]) -> tuple[int, int]:
    """Return the part of the axis that shows a finding: the life of its first block in both runs, or where that is long the event that tells the runs apart."""
    known = [slot for place in places if place for slot in place if slot is not None and slot >= 0]
    if not known:
        return 0, slots
    first, last = min(known), max(known) + 1
    if last - first > max(slots // 4, 4 * _ROOM):
        side, place = (finding.base, places[0]) if finding.context_of == "base" else (finding.head, places[1])
        marked = {line.line for line in finding.context if line.is_event}
        alloc, free = place or (None, None)
        at = free if side is not None and side.free_line in marked else alloc
        first, last = (at, at + 1) if at is not None and at >= 0 else (first, first + 1)
    room = max((last - first) // 4, _ROOM)
    return max(first - room, 0), min(last + room, slots)


def window_rows(axis: AlignedAxis, diff: Diff) -> Iterator[dict[str, Any]]:
    """The pairs of windows, and the windows that have no partner, each with the stretches of the axis that it takes."""
    (pairs,) = diff.in_order
    for found, (base, head) in zip(diff.windows, pairs.windows.pairs, strict=True):
        row = found.to_dict(top=0)
        figures = ("judged", "d_remaining_bytes", "d_live_bytes", "d_peak_bytes", "d_rise_bytes", "pairs")
        yield {
            "name": visible(found.label),
            "in": "both",
            "note": "alike" if found.alike else "" if row["judged"] else "not judged",
            "spans": _spans(axis, base, head),
            **{name: row[name] for name in figures},
        }
    for side, alone in (("base", pairs.windows.only_base), ("head", pairs.windows.only_head)):
        run: AlignedRun = getattr(axis, side)
        for window in alone:
            yield {"name": visible(window.name), "in": side, "note": f"only in {side}", "spans": [_span(run, window)]}


def _bands(rows: list[dict[str, Any]], diff: Diff) -> list[dict[str, Any]]:
    """The windows over the curves, and below them where the runs part; none where there is only one."""
    parting = parting_of(rows, diff)
    return band_rows({"windows": spans_of(rows), "part": [] if parting is None else [(*parting, "runs part here")]})


def spans_of(rows: list[dict[str, Any]]) -> list[tuple[int, int, str]]:
    """Where windows begin and end on the axis, and their names; none where there is only one."""
    alone = {row["in"]: f" ({row['note']})" for row in rows if row["in"] != "both"}
    spans = ((lo, hi, row["name"] + alone.get(row["in"], "")) for row in rows for lo, hi in row["spans"])
    return sorted(spans) if len(rows) > 1 else []


def parting_of(rows: list[dict[str, Any]], diff: Diff) -> tuple[int, int] | None:
    """Where the window begins and ends in which the runs part; ``None`` where they do not, or there is only one."""
    name = None if diff.parting is None or len(rows) < 2 else visible(diff.parting.label)
    spans = [span for row in rows if row["in"] == "both" and row["name"] == name for span in row["spans"]]
    return (spans[0][0], spans[-1][1]) if spans else None


def _spans(axis: AlignedAxis, base: Window, head: Window) -> list[tuple[int, int]]:
    """The stretch of the axis that a pair of windows takes: two where the windows come in another order in the two runs."""
    spans = sorted([_span(axis.base, base), _span(axis.head, head)])
    if not len(base) or not len(head):
        return [spans[1] if spans[0][0] == spans[0][1] else spans[0]]
    if spans[1][0] < spans[0][1]:
        return [(spans[0][0], max(spans[0][1], spans[1][1]))]
    return spans


def _span(run: AlignedRun, window: Window) -> tuple[int, int]:
    """From the slot of a window's first event to the one after its last."""
    if not len(window):
        slot = int(run.slots_of(np.array([window.lo]))[0])
        return slot, slot
    first, last = run.slots_of(np.array([window.lo, window.hi - 1])).tolist()
    return first, last + 1


def _figures(axis: AlignedAxis, curves: dict[str, Ints]) -> dict[str, int]:
    """Return the lowest and highest levels of the curves, exact."""
    base, head = axis.base.levels, axis.head.levels
    return {
        "base_low_bytes": int(base.min()),
        "head_low_bytes": int(head.min()),
        "base_peak_bytes": int(base.max()),
        "head_peak_bytes": int(head.max()),
        "low_bytes": int(curves["low"].min(initial=0)),
        "high_bytes": int(curves["high"].max(initial=0)),
    }


def _columns(axis: AlignedAxis, curves: dict[str, Ints], exact: bool) -> dict[str, Any]:
    """Columns of the curves; those of lowest and highest levels are left out where each bucket is one slot.

    Where the runs are farthest apart head less base is lowest or highest: ``other`` is the other of these, and ``start_bytes`` what the axis starts with.
    """
    columns: dict[str, Any] = {
        name: curves[name] for name in ("edges", *(() if exact else _CURVES), "base_bytes", "head_bytes")
    }
    if not exact:
        above = curves["head_bytes"] > curves["base_bytes"]
        start = int(axis.head.levels[0] - axis.base.levels[0])
        columns |= {"other": np.where(above, curves["low"], curves["high"]), "start_bytes": start}
    lines = {f"{side}_line": _lines(getattr(axis, side), curves[f"{side}_event"]) for side in ("base", "head")}
    return columns | lines


def _lines(run: AlignedRun, events: Ints) -> Ints:
    """The lines of some events, 1-based, int64; 0 where there is none or it is unknown."""
    return lines_at(run.log, np.where(events < run.lo, -1, events))


def _stretches(axis: AlignedAxis, rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """Return the stretches to keep slot by slot, those that touch as one."""
    firsts = [
        places[0] for row in rows[:AROUND_FINDINGS] for places in (row["base_places"], row["head_places"]) if places
    ]
    slots = sorted({slot for place in firsts if place for slot in place if slot is not None and slot >= 0})
    return merged((max(slot - AROUND, 0), min(slot + AROUND, len(axis))) for slot in slots)


def _detail(axis: AlignedAxis, lo: int, hi: int) -> dict[str, Any]:
    """Every single slot of a stretch: the levels of both runs, and the lines of the events that they are right after."""
    slots = np.arange(lo, hi)
    columns: dict[str, Any] = {"lo": lo}
    for name, run in (("base", axis.base), ("head", axis.head)):
        events = run.events_at(slots)
        columns |= {f"{name}_bytes": run.levels[events - run.lo + 1], f"{name}_line": _lines(run, events)}
    return columns
