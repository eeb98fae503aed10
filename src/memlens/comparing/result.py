"""What a comparison of runs gives: the runs with their figures, and all of it in plain types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from memlens.analyzers.result import Tabled
from memlens.comparing.statistics import METRICS, Metric, Outlier, Slope
from memlens.comparing.templates import natural
from memlens.text import Answer, Answered

if TYPE_CHECKING:
    from memlens.analyzers.curve import Curve
    from memlens.comparing.layout import Layout

__all__ = ["RESERVED", "SCHEMA", "Comparison", "Oom", "Run", "RunWindow", "Status", "field_values"]

SCHEMA = "memlens.compare/2"

#: What became of a run, or of one window of it.
Status: TypeAlias = Literal["ok", "oom", "no_window", "missing", "unreadable"]


@dataclass(frozen=True)
class Oom:
    """The out-of-memory failure that a run ended in.

    Attributes:
        requested_bytes: What was asked for, or ``None`` where neither a message nor a request without its block says.
        device: The device as written, or ``""``.
        line: 1-based number of the first message's line.
    """

    requested_bytes: int | None
    device: str
    line: int


@dataclass(frozen=True)
class RunWindow:
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


@dataclass(frozen=True)
class Run:
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
        further: As it is read: the runs of the further devices of its input, which then stand beside it.
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
    further: tuple[Run, ...] = ()
    curve: Curve | None = None

    @cached_property
    def _by_name(self) -> dict[str, RunWindow]:
        return {window.name: window for window in self.windows}

    def window(self, name: str | None) -> RunWindow | None:
        """The window of that name, ``None`` where the run has none; with ``None`` the only one."""
        if name is None:
            return self.windows[0] if self.windows else None
        return self._by_name.get(name)

    def status_of(self, name: str | None) -> Status:
        """What became of one window: a run that ended out of memory before it began is ``oom`` there too."""
        if self.status in ("missing", "unreadable"):
            return self.status
        window = self.window(name)
        if window is None:
            return "oom" if self.oom is not None else "no_window"
        return "oom" if window.oom else "ok"


#: Columns of :meth:`Comparison.rows` that are no fields of a template.
_OF_RUN = ("path", "status", "window", "oom_requested_bytes", "doubts", "message")
_OF_WINDOW = [spec.name for spec in fields(RunWindow)]
_FIGURES = [name for name in _OF_WINDOW if name not in ("name", "oom")]
RESERVED = frozenset({*_OF_RUN, *_OF_WINDOW, *(metric.change_key for metric in METRICS)})


def field_values(found: Sequence[Mapping[str, str]], names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The values of each field, in their natural order."""
    return {name: tuple(sorted({fields[name] for fields in found}, key=natural)) for name in names}


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Answered, Tabled):
    """Runs side by side.

    Attributes:
        runs: All of them, in the order given or in the natural order of their fields.
        layout: Which fields are rows, which one is columns, and what is compared with what.
        metrics: The metrics asked for, in their order; the machine output has all of them.
        template: The template that found the runs, or ``None``.
        by: The regular expression that cut each log into a series of windows, or ``None``.
        cut: Whether the logs were cut at all.
        scaling: How each metric grows with each field that is a number.
        outliers: The ranks that stand out among their like, the farthest first.
        typical: With ``by``: for each run in order the lower median of each figure over the windows that all runs have, none of them
            open.
        problems: Folders that could not be looked into, so that runs may be missing unseen; in words.
    """

    runs: tuple[Run, ...]
    layout: Layout
    metrics: tuple[Metric, ...]
    template: str | None = None
    by: str | None = None
    cut: bool = False
    scaling: tuple[Slope, ...] = ()
    outliers: tuple[Outlier, ...] = ()
    typical: tuple[RunWindow | None, ...] = ()
    problems: tuple[str, ...] = ()

    @cached_property
    def windows(self) -> tuple[str, ...]:
        """The names of all windows of a series, each once: those of the first run, then what only later ones have."""
        return tuple(dict.fromkeys(window.name for run in self.runs for window in run.windows)) if self.by else ()

    @cached_property
    def values(self) -> dict[str, tuple[str, ...]]:
        """The values of each field, in their natural order."""
        fields_of = [run.fields for run in self.runs]
        return field_values(fields_of, dict.fromkeys(name for own in fields_of for name in own))

    @cached_property
    def _bases(self) -> dict[int, Run | None]:
        return {id(run): base for run, base in zip(self.runs, self.layout.bases(self.runs), strict=True)}

    def base_of(self, run: Run) -> Run | None:
        """The run that one of the runs is compared with; ``None`` where there is none, and for a base itself."""
        return self._bases[id(run)]

    def change(self, run: Run, window: str | None, metric: Metric) -> int | None:
        """A figure less that of the base; ``None`` where there is no base, or one of the two is not known or ended out of memory."""
        base = self.base_of(run)
        if base is None or base.status_of(window) != "ok" or run.status_of(window) != "ok":
            return None
        before, after = (side.window(window).figure(metric) for side in (base, run))  # type: ignore[union-attr]
        return None if before is None or after is None else after - before

    def _changes(self, run: Run, window: str | None) -> dict[str, int | None]:
        """All differences by their names in machine output."""
        return {metric.change_key: self.change(run, window, metric) for metric in METRICS}

    def missing_windows(self, run: Run) -> tuple[str, ...]:
        """The windows of a series that other runs have and this one, which could be read, has not."""
        if run.status in ("missing", "unreadable"):
            return ()
        return tuple(name for name in self.windows if run.window(name) is None)

    @cached_property
    def answer(self) -> Answer:
        """The verdict with its tone."""
        from memlens.comparing.verdict import answer_of

        return answer_of(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain JSON types, by the contract ``memlens.compare/2``: exact bytes, 1-based lines."""
        return {
            "schema": SCHEMA,
            "verdict": self.verdict,
            "template": self.template,
            "fields": {name: list(values) for name, values in self.values.items()},
            "rows": list(self.layout.rows),
            "cols": self.layout.cols,
            "base": self.layout.base_dict(self.runs),
            "by": self.by,
            "metrics": [metric.key for metric in self.metrics],
            "runs": list(map(self._run_dict, self.runs, self.typical or [None] * len(self.runs))),
            "scaling": [slope.to_dict() for slope in self.scaling],
            "outliers": [outlier.to_dict() for outlier in self.outliers],
            "problems": list(self.problems),
        }

    def _run_dict(self, run: Run, typical: RunWindow | None) -> dict[str, Any]:
        base = self.base_of(run)
        return {
            "path": run.path,
            "fields": dict(run.fields),
            "status": run.status,
            "message": run.message,
            "hint": run.hint,
            "trust": {"ok": not run.doubts, "doubts": list(run.doubts)} if run.status in ("ok", "oom") else None,
            "notes": [*run.notes, *run.remarks],
            "oom": None if run.oom is None else asdict(run.oom),
            "ooms": run.ooms,
            "device": run.device,
            "base": None if base is None else base.path,
            "windows": [
                {**asdict(window), **self._changes(run, window.name if self.by else None)} for window in run.windows
            ],
            "typical": None if typical is None else {metric.key: typical.figure(metric) for metric in METRICS},
            "missing_windows": list(self.missing_windows(run)),
        }

    def rows(self) -> list[dict[str, Any]]:
        """A flat row a run, or a window of a run: its fields, what became of it, its figures and their changes.

        A run without figures has its row all the same, with its status and without figures.
        """
        names: Sequence[str | None] = self.windows or (None,)
        return [self._row(run, name) for name in names for run in self.runs]

    def _row(self, run: Run, name: str | None) -> dict[str, Any]:
        window, status = run.window(name), run.status_of(name)
        return {
            "path": run.path,
            **run.fields,
            "window": name if window is None else window.name,
            "status": status,
            "oom_requested_bytes": run.oom.requested_bytes if status == "oom" and run.oom is not None else None,
            "doubts": " ".join(run.doubts),
            **{figure: getattr(window, figure, None) for figure in _FIGURES},
            **self._changes(run, name),
            "message": run.message,
        }
