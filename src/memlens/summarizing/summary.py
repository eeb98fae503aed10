"""A log read down to what is said of it beside others: the figures of its windows, what to doubt, how it failed, and what it holds most of.

A summary is small and plain, holds no events, and can be pickled: ``compare`` puts summaries side by side, ``gate`` judges one by the figures that
were kept of others, and it is what a worker on another machine hands back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np
from msgspec import structs

from memlens.analyzers.endings import ended, freed_last, stopped_inside
from memlens.analyzers.failures import MemoryFailure, failures, most_telling, run_ended_in
from memlens.analyzers.places import lasting_us
from memlens.facts import Kind
from memlens.folding import bounds, figures, peak_ends
from memlens.results import Result
from memlens.summarizing.figures import (
    COLUMNS,
    METRICS,
    NOT_KNOWN,
    OF_BLOCKS,
    OF_CHUNKS,
    OF_LEVELS,
    RunWindow,
    WindowTable,
)
from memlens.summarizing.largest import OF_OWNER, LargestGroups, bytes_by_holder, held_at_peak
from memlens.text import innermost
from memlens.trust import PEAK_MAY_BE_EARLIER, trust_of
from memlens.trust.failures import allocs_before, failures_of
from memlens.windows.windows import (
    BEFORE,
    NEVER,
    WHOLE,
    edges_of,
    judged,
    names_of,
    open_window,
    suspect_anchors,
    whole,
)

if TYPE_CHECKING:
    from memlens.analyzers.composition import Roles
    from memlens.analyzers.series.curve import Curve
    from memlens.columns import Flags
    from memlens.folding import Figures
    from memlens.log import Log
    from memlens.options import Cut
    from memlens.windows.windows import Window


#: What became of a run, or of one window of it.
Status: TypeAlias = Literal["ok", "oom", "no_window", "missing", "unreadable"]
#: What tells whether a log stops inside a step.
_OF_STEPS = ("allocs", "live_bytes", "rise_bytes")


class Oom(Result, frozen=True):
    """The out-of-memory failure that a run ended in.

    Attributes:
        requested_bytes: What was asked for, or ``None`` where neither a message nor a request without its block says.
        device: The device as written, or ``""``.
        line: 1-based number of the first message's line.
        time_us: The time of the last event before it, in microseconds as the log has it; ``None`` where unknown.
        allocs: Allocations before it.
    """

    requested_bytes: int | None
    device: str
    line: int
    time_us: int | None = None
    allocs: int = 0


class Run(Result, frozen=True, dict=True):
    """The summary of one run: where its log is, what became of it, and its figures.

    Attributes:
        path: The log as it was named or found.
        fields: What stands where the template has fields; empty without a template.
        status: ``ok``; ``oom`` where the run ended out of memory; ``no_window`` where the log has no such anchor; ``missing`` where
            there is no such file; ``unreadable``.
        windows: Its windows in file order; exactly one without ``by``.
        message: Why there are no figures, or ``""``.
        hint: What to do about that, or ``""``.
        doubts: The codes of what its trust report doubts; empty for a sound log.
        notes: What to doubt of the windows themselves (anchors that came late), in words.
        remarks: What to know of them (which one is open, that the peak may lie before the input), in words.
        oom: The failure that it ended in.
        ooms: Out-of-memory failures that its log reports, also those that it survived.
        device: The number of its device, -1 for the CPU; ``None`` where its input does not tell.
        allocs: Allocations in the whole log; ``None`` where it could not be read.
        begins_us: The time of its first event, in microseconds as the log has it; ``None`` where unknown.
        ends_us: The time of its last event.
        curve: The levels of its window, or of the whole log with the windows of a series marked; ``None`` where that was not asked for.
        layer: The layer of its events, which tells what its sizes are.
        has_lines: Its log consists of lines, and not of entries.
        oom_line: The line of the first out-of-memory message, 1-based; ``None`` where there is none.
        whole: The figures of the whole log; ``None`` where it could not be read.
        step_levels: The allocated level at the end of each closed step, where steps were given.
        steps_begin_bytes: The level at which the first of them begins; ``None`` where the log begins with it.
        held: Of a rank the blocks live at its peak; ``None`` where these are not known.
        holders: Who holds what is live at the peak of its only window, and how many bytes; ``None`` of a rank, and where its log names nobody.
        failure: Of a rank how it ran out of memory, without lists of blocks; ``None`` where it did not end so.
        ended: How it ended early, by the values of the claim ``run_ended``; nothing where it ran to its end, or out of memory.
        told_by: What tells the roles of what is live at its peaks (:class:`~memlens.analyzers.composition.Share`); ``None`` where nothing does, or nobody asked.
    """

    # What only a comparison or a gate needs to know is not in it.
    in_json: ClassVar[tuple[str, ...]] = (
        *("path", "fields", "status", "windows", "message", "hint", "doubts", "notes", "remarks", "oom"),
        *("ooms", "device", "allocs", "begins_us", "ends_us", "curve"),
    )

    path: str
    fields: Mapping[str, str]
    status: Status
    windows: Sequence[RunWindow] = ()
    message: str = ""
    hint: str = ""
    doubts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    oom: Oom | None = None
    ooms: int = 0
    device: int | None = None
    allocs: int | None = None
    begins_us: int | None = None
    ends_us: int | None = None
    curve: Curve | None = None
    layer: str = ""
    has_lines: bool = True
    oom_line: int | None = None
    whole: RunWindow | None = None
    step_levels: tuple[int, ...] = ()
    steps_begin_bytes: int | None = None
    held: LargestGroups | None = None
    holders: Mapping[str, int] | None = None
    failure: MemoryFailure | None = None
    ended: Mapping[str, Any] = {}
    told_by: str | None = None

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(names_of(self.windows))}

    @property
    def lasts_us(self) -> int | None:
        """From its first event to its last one; ``None`` where times are not known."""
        return None if self.begins_us is None or self.ends_us is None else self.ends_us - self.begins_us

    def window(self, name: str | None) -> RunWindow | None:
        """The window of that name, ``None`` where the run has none; with ``None`` the only one."""
        place = 0 if name is None and self.windows else self._places.get(name or "")
        return None if place is None else self.windows[place]

    def status_of(self, name: str | None) -> Status:
        """The status of one window: a run that ended out of memory before it began is ``oom`` there too."""
        if self.status in ("missing", "unreadable"):
            return self.status
        window = self.window(name)
        if window is None:
            return "oom" if self.oom is not None else "no_window"
        return "oom" if window.oom else "ok"


# --- how a log is summed up --------------------------------------------------------------------------------------------------


def summarize(
    log: Log,
    windows: Sequence[Window],
    cut: Cut,
    *,
    path: str = "",
    fields: Mapping[str, str] | None = None,
    steps: Sequence[Window] = (),
    rank: bool = False,
    buckets: int = 0,
    roles: Roles | None = None,
    left_out: tuple[str, ...] = (),
) -> Run:
    """Sum up a log.

    Args:
        log: The log.
        windows: Its windows; none where it has no such anchor.
        cut: Where it was cut.
        path: The log as it was named.
        fields: What its path says.
        steps: The windows over which growth is judged; beside a series that is cut they are its windows.
        rank: It is of a rank of a job: of a series only the typical window is kept, and what is live at its peak and how it failed is, too.
        buckets: Keep its curve in so many buckets; 0 keeps none.
        roles: What tells by role what is live at the peak of each window, of a rank at that of the typical one.
        left_out: What of its input is not looked at, in words.
    """
    trust, opening, oom = trust_of(log), log.facts.opening, _ending(log)
    begins, ends = log.times_of([opening, len(log) - 1])
    found, table, of_log, levels = _figures(log, windows, steps, oom, known=bool(log.facts.opening or trust.allocs))
    begun = int(names_of(steps)[:1] == [BEFORE])
    late = suspect_anchors(windows) if cut.given else None
    series, at = (windows, slice(len(windows))) if cut.series else (steps, slice(len(windows), -1))
    stopped = stopped_inside(series, {name: found[name][at] for name in _OF_STEPS}, "window" if cut.series else "step")
    end = {} if oom else ended(trust, stopped, int(found["live_bytes"][-1]), freed_last(log) if trust.ending else 0)
    remarks = open_window(windows), PEAK_MAY_BE_EARLIER if trust.peak_may_be_earlier and windows else None
    held = failure = holders = told_by = None
    shown: Sequence[int] = range(len(windows))
    if log.holder is not None and len(windows) == 1 and not rank:
        holders = bytes_by_holder(windows[0])
    if rank:
        ooms = failures(log) if oom is not None else ()
        if ooms:
            one = ooms[most_telling(ooms)]
            failure = structs.replace(
                one,
                live=(),
                youngest=None,
                oldest=None,
                owner=None if one.owner is None else innermost(one.owner)[:OF_OWNER],
            )
        if windows:
            counted = _counted(table, windows)
            middle = int(np.flatnonzero(counted)[table.where(counted).middle])
            summit = int(found.summit[middle]) if found["rise_bytes"][middle] else None
            held, shown = held_at_peak(windows[middle], summit, int(found["peak_bytes"][middle])), [middle]
    if roles and windows:
        peaks = peak_ends(windows).tolist()
        table = table.with_roles({k: roles.bytes_at(peaks[k]) for k in shown})
        told_by = roles.told_by if any(window.roles for window in table) else None
    if rank and windows:
        table = table.where(counted)
        table = table.typical() if cut.series else table
    return Run(
        path,
        fields or {},
        "ok" if oom is None else "oom",
        table,
        doubts=tuple(doubt.code for doubt in trust.doubts),
        notes=() if late is None else (late,),
        remarks=(*filter(None, remarks), *left_out),
        oom=oom,
        ooms=trust.distinct_ooms,
        device=log.device,
        allocs=trust.allocs - _opening_blocks(log),
        begins_us=begins,
        ends_us=ends,
        curve=_curve(log, windows, cut, buckets) if buckets and windows and log.tells_of_blocks else None,
        layer=log.facts.layer,
        has_lines=log.facts.has_lines,
        oom_line=trust.ooms[0].line if trust.ooms else None,
        whole=of_log,
        step_levels=() if rank else levels[begun:],
        steps_begin_bytes=levels[0] if begun and not rank else None,
        held=held,
        holders=holders,
        failure=failure,
        ended=end,
        told_by=told_by,
    )


def _figures(
    log: Log, windows: Sequence[Window], steps: Sequence[Window], oom: Oom | None, *, known: bool
) -> tuple[Figures, WindowTable, RunWindow, tuple[int, ...]]:
    """The figures of windows and of the whole log, and the levels at the ends of closed steps, from one pass over it.

    Returns:
        The figures of the windows, of the steps and of the whole log; the windows and the whole log as a comparison has them; and the levels.
    """
    parts = [part for part in (windows, steps, (whole(log),)) if part]
    lo, hi = map(np.concatenate, zip(*(bounds(part)[1:] for part in parts), strict=True))
    found, count = figures(log, lo, hi), len(windows)
    at = [*range(count), -1]  # the windows, and the whole log
    first, last = (np.append(edges_of(windows, edge), end) for edge, end in (("start_line", 1), ("end_line", NEVER)))
    of_blocks = () if known else OF_LEVELS if log.tells_of_blocks else OF_BLOCKS
    lasted = np.append(lasting_us(windows) if windows else first[:0], -1)
    unknown = (*of_blocks, *(() if log.tells_of_chunks else OF_CHUNKS))
    columns = {
        **{metric.key: found[metric.key][at] for metric in METRICS[:-1]},
        **dict.fromkeys(unknown, np.full(count + 1, NOT_KNOWN)),
        "start_line": first,
        "end_line": last,
        "events": (hi - lo)[at],
        "duration_us": np.where(lasted < 0, NOT_KNOWN, lasted),
        "oom": np.zeros(count + 1) if oom is None else (first <= oom.line) & (oom.line <= last),
        "open_end": np.append(edges_of(windows, "open_end"), False),
    }
    table = WindowTable([*names_of(windows), WHOLE], np.array([columns[name] for name in COLUMNS], np.int64))
    levels = found["live_bytes"][count:-1][~edges_of(steps, "open_end")]
    return found, table.part(slice(0, count)), table[count], tuple(levels.tolist())


def _counted(table: WindowTable, windows: Sequence[Window]) -> Flags:
    """The windows of a run that count: not what precedes the first one, an open one, or one that ended out of memory, where there are others."""
    counted: Flags = np.array(judged(windows), np.bool_) & (table.column("oom") == 0)
    counted &= [name != BEFORE for name in table.names]
    return counted if counted.any() else np.ones_like(counted)


def _ending(log: Log) -> Oom | None:
    """The out-of-memory failure that the run ended in."""
    found = failures_of(log)
    endings = found.chosen(run_ended_in(log, found))
    if not endings:
        return None
    asked = (failure.asked_bytes for failure in endings if failure.asked_bytes is not None)
    first = endings[0]
    last = int(log.offset.searchsorted(first.offset)) - 1
    (time,) = log.times_of([last])
    allocs = int(allocs_before(log, endings.offset[:1])[0]) - _opening_blocks(log)
    return Oom(next(asked, None), first.device, first.line, time, allocs)


def _opening_blocks(log: Log) -> int:
    return int(np.count_nonzero(log.kind[: log.facts.opening] == Kind.ALLOC))


def _curve(log: Log, windows: Sequence[Window], cut: Cut, buckets: int) -> Curve:
    """The levels of the only window, or of all of a log with its windows marked."""
    from memlens.analyzers.series.curve import curve

    return curve(whole(log) if cut.series else windows[0], windows if cut.series else (), buckets)
