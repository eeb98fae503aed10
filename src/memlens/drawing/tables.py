"""The tables of the page: the windows of a series or the steps of the run, the blocks held at the end, the trust report and the growth.

All figures are those of the analysis; nothing is worked out here.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.drawing.packing import pack, pack_json
from memlens.reports.lists import growth_line
from memlens.text import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlens.analyzers import Growth, Unmatched
    from memlens.analyzing.result import LogAnalysis
    from memlens.drawing.owners import Owners
    from memlens.trust import Trust
    from memlens.windows.windows import Window

__all__ = ["Held", "WindowRows", "growth_view", "held", "trust_view", "window_rows"]

#: Groups of held blocks, and of blocks that pile up, that are shown at most.
_GROUPS, _PILES = 1_000, 100
#: The figures of a window, by their names in the machine output.
_FIGURES = (
    *("peak_bytes", "rise_bytes", "remaining_bytes", "live_bytes", "carried_in_bytes", "reserved_peak_bytes"),
    *("alloc_bytes", "allocs", "free_bytes", "frees"),
)


@dataclass(frozen=True, eq=False)
class WindowRows:
    """The windows of a series, or the steps of a run.

    Attributes:
        windows: Where they are.
        said: The figures of all of them.
        by: What cuts the log so, a regular expression.
        found: They were found by themselves.
        repeated: Each is the same work again.
    """

    windows: Sequence[Window]
    said: LogAnalysis
    by: str
    found: bool
    repeated: bool

    def to_dict(self) -> dict[str, Any]:
        """What the page gets: a column a figure, one entry a window, and their names."""
        steps, windows = self.said.steps, self.windows
        figures = self.said.figures if steps is None else steps.figures
        places = ("lo", "hi", "start_line", "end_line")
        return {
            "by": self.by,
            "found": self.found,
            "repeated": self.repeated,
            "open_end": windows[-1].open_end,  # only the last one may be open
            "names": pack_json([visible(window.name) for window in windows]),
            **{
                name: pack(np.fromiter((getattr(window, name) for window in windows), np.int64, len(windows)))
                for name in places
            },
            **{name: pack(figures[name]) for name in _FIGURES},
        }


@dataclass(frozen=True, eq=False)
class Held:
    """The blocks that are live at the end of a window and were born in it, or before the input begins."""

    found: Unmatched

    def to_dict(self, owners: Owners) -> dict[str, Any]:
        """What the page gets: totals, and a column a figure with one entry a group, the largest total first; lines and events are -1 for none."""
        found = self.found
        groups = sorted((*found.held, *found.opening), key=lambda group: (-group.total_bytes, group.first_event))
        shown, left = groups[:_GROUPS], groups[_GROUPS:]
        names = (
            "size_bytes",
            "count",
            "total_bytes",
            "first_event",
            "first_line",
            "first_free_event",
            "first_free_line",
        )
        columns = {name: [getattr(group, name) for group in shown] for name in names}
        return {
            "held_bytes": found.held_bytes,
            "held_allocs": found.held_allocs,
            "opening_bytes": found.opening_bytes,
            "opening_blocks": found.opening_blocks,
            "earlier_bytes": found.earlier_bytes,
            **{name: pack([-1 if value is None else value for value in column]) for name, column in columns.items()},
            "owners": pack(owners.code_texts(group.owner for group in shown)),
            "left_groups": len(left),
            "left_bytes": sum(group.total_bytes for group in left),
        }


def window_rows(windows: Sequence[Window], said: LogAnalysis) -> WindowRows | None:
    """The table of windows; ``None`` where there are none.

    Args:
        windows: The series that the log was cut into, or the steps that were found in it.
        said: What is said of them.
    """
    if said.steps is not None:
        return WindowRows(windows, said, said.steps.by, found=True, repeated=said.steps.repeated)
    return None if said.by is None else WindowRows(windows, said, said.by, found=False, repeated=True)


def held(found: Unmatched) -> Held:
    """The table of what is held at the end."""
    return Held(found)


def trust_view(trust: Trust) -> dict[str, Any]:
    """What the page says of a log: its summary, what to doubt, what to know, and how the framework's own figures compare."""
    findings = {
        name: [
            {"code": finding.code, "message": finding.message, "hint": finding.hint, "line": finding.line}
            for finding in getattr(trust, name)
        ]
        for name in ("doubts", "notes")
    }
    first = trust.first_disagreement
    return {
        "ok": trust.ok,
        "summary": trust.summary(),
        **findings,
        "figures_checked": trust.figures_checked,
        "figures_agreeing": trust.figures_agreeing,
        "figures_explained": trust.figures_explained,
        "first_disagreement": None if first is None else first.to_dict(),
    }


def growth_view(growth: Growth | None, owners: Owners) -> dict[str, Any] | None:
    """What the page says of growth over the windows of its table; the level at the end of each is ``live_bytes`` there."""
    if growth is None:
        return None
    line = growth_line(growth)
    piles = list(islice(growth.piling, _PILES))
    return {
        "words": line.text,
        "bad": line.style == "bad",
        "verdict": growth.verdict,
        "judged": growth.judged,
        "since": growth.since,
        "piling": [
            {**pile.to_dict(), "owner": number}
            for pile, number in zip(piles, owners.code_texts(pile.owner for pile in piles), strict=True)
        ],
        "piling_left": len(growth.piling) - len(piles),
    }
