"""How a run ended that did not run to its end: what its log says of it, and the step that its log stops inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from memlens.facts import Kind
from memlens.folding import BATCH
from memlens.windows.windows import AFTER, BEFORE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memlens.columns import Ints
    from memlens.events import EventLog
    from memlens.trust import Trust


#: A log stops inside a step where it has closed ones before it, where the last one allocates at most so much as often as they do, and where this part
#: of what a step rises by is live beyond what was live after any of them.
_FEWEST_CLOSED, _MOST_OF, _PART = 2, 0.95, 8


#: Memory comes higher after a series where it comes a tenth higher.
_HIGHER = 1.1


class _Named(Protocol):
    """A window of a series."""

    @property
    def name(self) -> str: ...
    @property
    def open_end(self) -> bool: ...
    @property
    def end_line(self) -> int: ...


class _Analyzed(Protocol):
    """A window with results."""

    @property
    def results(self) -> Mapping[str, Any]: ...


def stopped_inside(series: Sequence[_Named], columns: Mapping[str, Ints], unit: str) -> dict[str, str]:
    """The window that a log stops inside, by the values of the claim: it allocates less often than any other, and more is live in it than after any.

    Args:
        series: Windows of a log.
        columns: Their figures.
        unit: What one of them is, a step or a window.
    """
    first = int(len(series) > 1 and series[0].name == BEFORE)
    if len(series) - first <= _FEWEST_CLOSED or len(columns) == 0 or not series[-1].open_end:
        return {}
    allocs, live, rise = (columns[name][first:] for name in ("allocs", "live_bytes", "rise_bytes"))
    fewest = allocs[:-1][allocs[:-1] > 0].min(initial=np.iinfo(np.int64).max)
    above = live[-1] - live[:-1].max()  # nothing where the process freed its blocks at exit
    if not 0 < allocs[-1] <= fewest * _MOST_OF or above * _PART < np.median(rise[:-1]):
        return {}
    last = series[-1].name
    return {"after": series[-2].name, "unit": unit} if last == AFTER else {"window": last, "unit": unit}


def higher_after(series: Sequence[_Named], columns: Mapping[str, Ints], highest: _Analyzed | None) -> int | None:
    """The peak of a log, where that comes after the windows of a series that are judged, and is higher than all of theirs.

    Args:
        series: Windows of the log.
        columns: Their figures.
        highest: The window with the highest peak, which may be the whole log; ``None`` where none is known.
    """
    closed = len(series) - int(len(series) > 0 and series[-1].open_end)
    first = int(closed > 1 and series[0].name == BEFORE)
    found = None if highest is None else highest.results.get("peak")
    if found is None or found.line is None or not first < closed or "peak_bytes" not in columns:
        return None
    below = int(columns["peak_bytes"][first:closed].max())
    return (
        int(found.peak_bytes)
        if found.line > series[closed - 1].end_line and found.peak_bytes >= _HIGHER * below
        else None
    )


def ended(trust: Trust, stopped: Mapping[str, str], live_bytes: int | None, freed_last: int) -> dict[str, Any]:
    """How a run ended, by the values of the claim; nothing where it ran to its end.

    Args:
        trust: The trust report of its log.
        stopped: See :func:`stopped_inside`.
        live_bytes: What is live at the end.
        freed_last: See :func:`freed_last`.
    """
    if (ending := trust.ending) is None:
        # A snapshot is taken whole, wherever its program is then.
        return {"how": "cut", "line": trust.lines, **stopped} if stopped and trust.has_lines else {}
    at_exit = ending.how == "death" and not stopped and live_bytes is not None and live_bytes < freed_last
    what = ending.what or None
    return {"how": ending.how, "what": what, "at_exit": at_exit or None, "line": ending.line, **stopped}


def freed_last(log: EventLog) -> int:
    """Bytes freed after the last ALLOC."""
    size = 0
    for hi in range(len(log), 0, -BATCH):
        kind, sizes = (column[max(hi - BATCH, 0) : hi] for column in (log.kind, log.size))
        allocs = np.flatnonzero(kind == Kind.ALLOC)
        begin = int(allocs[-1]) if len(allocs) else 0
        size += int(sizes[begin:][kind[begin:] == Kind.FREE].sum())
        if len(allocs):
            break
    return size
