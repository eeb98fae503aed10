"""The figures of windows: which there are, what they are called, and the windows of one run as one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from msgspec import Struct

from memlens.claims.roles import ROLES
from memlens.results import OnDemand, Result
from memlens.text import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from memlens.columns import Flags, Ints


class Metric(Struct, frozen=True):
    """One figure of a window.

    Attributes:
        name: What ``--metric`` calls it.
        key: Its name in machine output, and the attribute of :class:`RunWindow`.
        title: Its heading in a table.
        words: What it is, above a table of it alone.
        kind: What is counted.
        also: Other names that ``--metric`` takes.
        role: The role of which it is what is live at the peak, one of :data:`memlens.claims.roles.ROLES`.
    """

    name: str
    key: str
    title: str
    words: str
    kind: Literal["bytes", "count", "time"] = "bytes"
    also: tuple[str, ...] = ()
    role: str = ""

    def text(self, figure: int) -> str:
        """A figure as it stands in a sentence."""
        return {"bytes": format_bytes, "count": format_count, "time": format_duration}[self.kind](figure)

    @property
    def change_key(self) -> str:
        """The name of its difference from the base in machine output."""
        return f"d_{self.key}"

    @property
    def more_is_worse(self) -> bool:
        """Whether a higher figure is a worse one: not of sums of what came and went."""
        return self.kind != "count" and self.name not in ("allocated", "freed")

    @property
    def least_change(self) -> int:
        """The smallest difference that is worth a word: 1 MiB, 1 block or 1 ms."""
        return {"bytes": 1 << 20, "count": 1, "time": 1000}[self.kind]


#: Every metric, in the order in which tables show them.
METRICS: tuple[Metric, ...] = (
    Metric("peak", "peak_bytes", "Peak", "Peak allocated"),
    Metric("rise", "rise_bytes", "Rise", "Rise above what was carried in"),
    Metric("reserved-peak", "reserved_peak_bytes", "Reserved", "Peak reserved", also=("reserved",)),
    Metric("live", "live_bytes", "Live", "Live at the end"),
    Metric("remaining", "remaining_bytes", "Remaining", "Remaining"),
    Metric("carried-in", "carried_in_bytes", "Carried in", "Carried in"),
    Metric("allocated", "alloc_bytes", "Allocated", "Allocated in all"),
    Metric("allocs", "allocs", "Allocs", "Allocations", "count"),
    Metric("freed", "free_bytes", "Freed", "Freed in all"),
    Metric("frees", "frees", "Frees", "Frees", "count"),
    Metric("duration", "duration_us", "Time", "Time", "time", also=("time",)),
)
#: What is live at the peak of each role, which is told where it is asked for.
OF_ROLES = tuple(
    Metric(role, f"{role}_bytes", f"{name[0].upper()}{name[1:]}", f"Memory {of}{name} at the peak", role=role)
    for role, name in ROLES.items()
    for of in ["" if role in ("saved", "nobody") else "of "]
)
#: All of them by their names in machine output.
BY_KEY = {metric.key: metric for metric in (*METRICS, *OF_ROLES)}
#: Roles that leave open which of two it is.
_OPEN = ("model", "result")
#: Those that are known where a log tells of blocks that are allocated, of blocks at all, and of chunks.
OF_LEVELS = ("peak_bytes", "live_bytes", "carried_in_bytes")
OF_BLOCKS = (*OF_LEVELS, "rise_bytes", "remaining_bytes")
OF_CHUNKS = ("reserved_peak_bytes",)


class RunWindow(Result, frozen=True):
    """The figures of one window of one run, as ``memlens analyze`` defines them.

    Where the whole log reports no chunk, or no block, nothing is known of reserved or of allocated bytes; where it reports Frees alone, no
    level of allocated bytes is known.  Those figures are ``None`` then, and not 0.

    Attributes:
        name: The window's name; text from the log.
        start_line: 1-based number of its first line.
        end_line: 1-based number of its last line (included).
        events: Events in it.
        peak_bytes: The highest level within it, what was carried in included.
        rise_bytes: That less what was carried in.
        reserved_peak_bytes: The highest level of reserved bytes.
        live_bytes: Live at its end.
        remaining_bytes: Allocated less freed.
        carried_in_bytes: Live right before it.
        alloc_bytes: Σ of the sizes allocated.
        allocs: ALLOC events.
        free_bytes: Σ of the sizes freed.
        frees: FREE events.
        duration_us: From its first event to its last one; ``None`` where times are not known.
        oom: The run ended out of memory in this window, which has its figures up to there.
        open_end: It is an open window: it runs to the end of the log, for no end line closes it.
        roles: The bytes of each role that are live at the peak; ``None`` where nothing tells them, or nobody asked.
    """

    name: str
    start_line: int
    end_line: int
    events: int
    peak_bytes: int | None = None
    rise_bytes: int | None = None
    reserved_peak_bytes: int | None = None
    live_bytes: int | None = None
    remaining_bytes: int | None = None
    carried_in_bytes: int | None = None
    alloc_bytes: int = 0
    allocs: int = 0
    free_bytes: int = 0
    frees: int = 0
    duration_us: int | None = None
    oom: bool = False
    open_end: bool = False
    roles: Mapping[str, int] | None = None

    def figure(self, metric: Metric) -> int | None:
        """One figure; ``None`` where it is not known."""
        if not metric.role:
            value: int | None = getattr(self, metric.key)
            return value
        roles = self.roles or {}
        # What nothing tells may be of any role: there is none of it where that is nothing.
        all_told = bool(roles) and self.peak_bytes == sum(roles.values()) and roles.keys().isdisjoint(_OPEN)
        return roles.get(metric.role, 0 if all_told else None)


#: The columns of a :class:`WindowTable`, and the sign of a figure that is not known.
COLUMNS = RunWindow.__struct_fields__[1:-1]
_ROW = {name: row for row, name in enumerate(COLUMNS)}
NOT_KNOWN = -(1 << 63)


class WindowTable(OnDemand[RunWindow]):
    """The figures of the windows of one run: a sequence of :class:`RunWindow`, each made when it is asked for, kept as columns.

    Args:
        names: The names of the windows.
        rows: A row a column of :class:`RunWindow` but its name and its roles, an entry a window, int64.
        roles: The roles of each, where they were asked for.
    """

    def __init__(self, names: Sequence[str], rows: Ints, roles: Sequence[Mapping[str, int] | None] = ()) -> None:
        super().__init__(len(names), self._window)
        self.names, self._rows, self._roles = names, rows, roles

    def _window(self, k: int) -> RunWindow:
        *figures, oom, open_end = self._rows[:, k].tolist()
        values: list[Any] = [None if one == NOT_KNOWN else one for one in figures]
        values += [bool(oom), bool(open_end), self._roles[k] if self._roles else None]
        return RunWindow(self.names[k], *values)

    def __reduce__(self) -> tuple[object, ...]:
        return WindowTable, (self.names, self._rows, self._roles)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def column(self, name: str) -> Ints:
        """One column, int64; 0 where the figure is not known."""
        column: Ints = self._rows[_ROW[name]]
        return np.where(column == NOT_KNOWN, 0, column)

    def part(self, some: slice) -> WindowTable:
        """Some windows that follow each other."""
        return WindowTable(self.names[some], self._rows[:, some], self._roles[some])

    def where(self, chosen: Flags) -> WindowTable:
        """The windows that are chosen, bool, one entry a window."""
        names, roles = [*compress(self.names, chosen)], [*compress(self._roles, chosen)]
        return WindowTable(names, self._rows[:, chosen], roles)

    def with_roles(self, at_peak: Mapping[int, Mapping[str | None, int]]) -> WindowTable:
        """The same with what is live at the peaks of some windows by role; ``None`` for that of which it is not known."""
        told: list[Mapping[str, int] | None] = [None] * len(self)
        for k, sizes in at_peak.items():
            told[k] = {role: size for role, size in sizes.items() if role is not None} or None
        return WindowTable(self.names, self._rows, told)

    @property
    def middle(self) -> int:
        """The index of the window whose peak is the lower median of all."""
        return int(np.argsort(self.column("peak_bytes"), kind="stable")[(len(self) - 1) // 2])

    def typical(self) -> WindowTable:
        """The window in the middle, with its roles, and the lower median of each figure: one that some window has, exact, and of no size that none has."""
        found = self._rows[:, [self.middle]]
        for row in (_ROW[metric.key] for metric in METRICS):
            known = np.sort(self._rows[row][self._rows[row] != NOT_KNOWN])
            found[row, 0] = known[(len(known) - 1) // 2] if len(known) else NOT_KNOWN
        return WindowTable([self.names[self.middle]], found, self._roles[self.middle :][:1])
