"""The metrics that runs are compared by, and a run with its figures."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from memlens.comparing.templates import natural
from memlens.errors import UsageError
from memlens.results import Result
from memlens.text import format_count, format_duration
from memlens.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from memlens.analyzers.curve import Curve


class Metric(Struct, frozen=True):
    """One figure of a window.

    Attributes:
        name: What ``--metric`` calls it.
        key: Its name in machine output, and the attribute of :class:`RunWindow`.
        title: Its heading in a table.
        words: What it is, above a table of it alone.
        kind: What is counted.
        also: Other names that ``--metric`` takes.
    """

    name: str
    key: str
    title: str
    words: str
    kind: Literal["bytes", "count", "time"] = "bytes"
    also: tuple[str, ...] = ()

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

#: The same by their names in machine output.
BY_KEY = {metric.key: metric for metric in METRICS}

#: What is shown where nothing is asked for, in a list of runs and in a matrix, where each metric is a table of its own: of whole logs, where
#: no figure leaves out what was there before them, and of windows (``True``).
DEFAULT = {
    ("list", False): ("peak", "reserved-peak", "duration", "live", "allocs"),
    ("list", True): ("peak", "rise", "reserved-peak", "duration", "remaining", "allocs"),
    ("matrix", False): ("peak", "reserved-peak"),
    ("matrix", True): ("peak", "rise", "reserved-peak"),
}
#: The same for the ranks of one job.
DEFAULT_OF_RANKS = ("peak", "reserved-peak", "live")


def choose_metrics(names: Sequence[str]) -> tuple[Metric, ...]:
    """Metrics by their names, each once, in the order given.

    Raises:
        UsageError: There is no such metric.
    """
    known = {name: metric for metric in METRICS for name in (metric.name, metric.key.replace("_", "-"), *metric.also)}
    chosen = {name: known.get(name.strip().lower().replace("_", "-")) for name in names}
    for name, metric in chosen.items():
        if metric is None:
            raise UsageError(f"there is no metric {name!r}", f"Metrics: {', '.join(one.name for one in METRICS)}.")
    return tuple(dict.fromkeys(filter(None, chosen.values())))


#: What became of a run, or of one window of it.
Status: TypeAlias = Literal["ok", "oom", "no_window", "missing", "unreadable"]


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


class RunWindow(Result, frozen=True):
    """The figures of one window of one run, as ``memlens analyze`` defines them.

    Where the whole log reports no chunk, or no block, nothing is known of reserved or of allocated bytes: those figures are
    ``None`` then, and not 0.

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

    def figure(self, metric: Metric) -> int | None:
        """One figure; ``None`` where it is not known."""
        value: int | None = getattr(self, metric.key)
        return value


class ComparedWindow(RunWindow, frozen=True, kw_only=True):
    """A window with its figures less those of the base, in the units of the metrics; ``None`` where one of the two is not known.

    Attributes:
        d_peak_bytes: That of ``peak_bytes``, and so on.
        d_rise_bytes: See above, and so are the others.
    """

    d_peak_bytes: int | None
    d_rise_bytes: int | None
    d_reserved_peak_bytes: int | None
    d_live_bytes: int | None
    d_remaining_bytes: int | None
    d_carried_in_bytes: int | None
    d_alloc_bytes: int | None
    d_allocs: int | None
    d_free_bytes: int | None
    d_frees: int | None
    d_duration_us: int | None


class Run(Result, frozen=True, dict=True):
    """One run: where its log is, what became of it, and its figures.

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
    """

    path: str
    fields: Mapping[str, str]
    status: Status
    windows: tuple[RunWindow, ...] = ()
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

    @cached_property
    def _by_name(self) -> dict[str, RunWindow]:
        return {window.name: window for window in self.windows}

    @property
    def lasts_us(self) -> int | None:
        """From its first event to its last one; ``None`` where times are not known."""
        return None if self.begins_us is None or self.ends_us is None else self.ends_us - self.begins_us

    def window(self, name: str | None) -> RunWindow | None:
        """The window of that name, ``None`` where the run has none; with ``None`` the only one."""
        if name is None:
            return self.windows[0] if self.windows else None
        return self._by_name.get(name)

    def status_of(self, name: str | None) -> Status:
        """The status of one window: a run that ended out of memory before it began is ``oom`` there too."""
        if self.status in ("missing", "unreadable"):
            return self.status
        window = self.window(name)
        if window is None:
            return "oom" if self.oom is not None else "no_window"
        return "oom" if window.oom else "ok"


#: Columns of :meth:`~memlens.comparing.result.Comparison.rows`: figures of a window, and all that are no fields of a template.
FIGURES = [name for name in RunWindow.__struct_fields__ if name not in ("name", "oom")]
RESERVED = frozenset(
    {*("path", "status", "window", "oom_requested_bytes", "doubts", "message"), *ComparedWindow.__struct_fields__}
)


def field_values(found: Sequence[Mapping[str, str]], names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The values of each field, in their natural order."""
    return {name: tuple(sorted({fields[name] for fields in found}, key=natural)) for name in names}
