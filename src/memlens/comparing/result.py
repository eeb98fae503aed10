"""The result of a comparison: the runs with their figures, and all of it in plain types."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import structs

from memlens.comparing.layout import FIGURES, field_values, roles_of
from memlens.results import Result, Tabular
from memlens.summarizing.figures import METRICS, Metric, RunWindow
from memlens.summarizing.summary import Run
from memlens.windows.windows import names_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memlens.comparing.layout import Layout
    from memlens.comparing.ranks import Outlier, Ranks
    from memlens.comparing.scaling import Slope


SCHEMA = "memlens.compare/3"


class ComparedWindow(RunWindow, frozen=True, kw_only=True):
    """A window with its figures less those of the base, in the units of the metrics; ``None`` where one of the two is not known.

    Attributes:
        d_peak_bytes: That of ``peak_bytes``, and so on.
        d_rise_bytes: See above, and so are the others.
        d_roles: That of each role that is known of both.
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
    d_roles: Mapping[str, int]


class RunTrust(Result, frozen=True):
    """Whether the log of a run is in doubt, and by the codes of which doubts."""

    ok: bool
    doubts: tuple[str, ...]


class ComparedRun(Run, frozen=True, kw_only=True):
    """One run beside its base; what the other fields mean stands at :class:`~memlens.summarizing.summary.Run`.

    Attributes:
        windows: Its windows, with their figures less those of the base.
        notes: What to doubt or to know of its windows, in words.
        trust: Whether its log is in doubt; ``None`` where it could not be read.
        base: The log of the run that it is compared with, ``None`` where there is none.
        typical: With ``by``: the lower median of each metric over the windows that all runs have.
        missing_windows: Windows that other runs have and this one has not.
        told_by: What tells the roles in its windows.
    """

    in_json: ClassVar[tuple[str, ...]] = (
        *("path", "fields", "status", "message", "hint", "trust", "notes", "oom", "ooms", "device", "allocs"),
        *("begins_us", "ends_us", "base", "told_by", "windows", "typical", "missing_windows"),
    )

    windows: tuple[ComparedWindow, ...]
    trust: RunTrust | None
    base: str | None
    typical: Mapping[str, int | None] | None
    missing_windows: tuple[str, ...]


class Comparison(Tabular, frozen=True, eq=False, dict=True):
    """Runs side by side.

    Attributes:
        runs: All of them, in the order given or in the natural order of their fields.
        layout: Which fields are rows, which one is columns, and what is compared with what.
        metrics: The metrics asked for, in their order; the machine output has all of them.
        template: The template that found the runs, or ``None``.
        by: The regular expression that cut each log into a series of windows, or ``None``.
        cut: Whether the logs were cut at all.
        scaling: How each metric grows with each field that is a number.
        outliers: The ranks that stand out among their peers, by metric, and in each the farthest first.
        ranks: What else is said of the ranks of one job; ``None`` where the runs are something else.
        typical: With ``by``: for each run in order the lower median of each figure over the windows that all runs have, none of them
            open.
        problems: Folders that could not be looked into, so that runs may be missing unseen; in words.
    """

    schema: ClassVar[str] = SCHEMA
    in_json: ClassVar[tuple[str, ...]] = (
        *("schema", "verdict", "claims", "template", "fields=values", "layout", "base=base_named", "by"),
        *("metrics=metric_keys", "runs=compared", "scaling", "outliers", "ranks", "problems"),
    )
    spliced: ClassVar[frozenset[str]] = frozenset({"layout"})

    runs: tuple[Run, ...]
    layout: Layout
    metrics: tuple[Metric, ...]
    template: str | None = None
    by: str | None = None
    cut: bool = False
    scaling: tuple[Slope, ...] = ()
    outliers: tuple[Outlier, ...] = ()
    ranks: Ranks | None = None
    typical: tuple[RunWindow | None, ...] = ()
    problems: tuple[str, ...] = ()

    @cached_property
    def windows(self) -> tuple[str, ...]:
        """The names of all windows of a series, each once: those of the first run, then what only later ones have; of the ranks of a job none is named."""
        if self.by is None or self.ranks is not None:
            return ()
        return tuple(dict.fromkeys(name for run in self.runs for name in names_of(run.windows)))

    @property
    def present(self) -> list[Run]:
        """The runs whose logs are there."""
        return [run for run in self.runs if run.status != "missing"]

    @property
    def has_fields(self) -> bool:
        """Whether the paths of the runs have fields that tell them apart."""
        return self.template is not None or self.ranks is not None

    @cached_property
    def values(self) -> dict[str, tuple[str, ...]]:
        """The values of each field, in their natural order."""
        fields_of = [run.fields for run in self.runs]
        return field_values(fields_of, dict.fromkeys(name for own in fields_of for name in own))

    @cached_property
    def _bases(self) -> dict[int, Run | None]:
        return {id(run): base for run, base in zip(self.runs, self.layout.bases(self.runs), strict=True)}

    @property
    def base_named(self) -> dict[str, str | None] | None:
        """The base of the comparison: a path, or a field and its value."""
        if self.layout.base_runs:
            return {"path": self.runs[self.layout.base_runs[0]].path}
        field = self.layout.base_field
        return None if field is None else {"field": field, "value": self.layout.base_value}

    @property
    def metric_keys(self) -> tuple[str, ...]:
        """The metrics asked for, by their names in the machine output."""
        return tuple(metric.key for metric in self.metrics)

    def base_of(self, run: Run) -> Run | None:
        """The run that one of the runs is compared with; ``None`` where there is none, and for a base itself."""
        return self._bases[id(run)]

    def change(self, run: Run, window: str | None, metric: Metric) -> int | None:
        """A figure less that of the base; ``None`` where there is no base, or one of the two is not known or ended out of memory."""
        change: int | None = self._changes(run, window, (metric,))[metric.change_key]
        return change

    def _changes(self, run: Run, window: str | None, metrics: Sequence[Metric] = METRICS) -> dict[str, Any]:
        """Such differences by their names in machine output."""
        base, own = self.base_of(run), run.window(window)
        other = None if base is None else base.window(window)
        changes: dict[str, Any] = dict.fromkeys(metric.change_key for metric in metrics)
        if base is None or own is None or other is None:
            return changes
        if base.status_of(window) == run.status_of(window) == "ok":
            for metric in metrics:
                before, after = other.figure(metric), own.figure(metric)
                if before is not None and after is not None and (not metric.role or base.told_by == run.told_by):
                    changes[metric.change_key] = after - before
        return changes

    @cached_property
    def roles(self) -> tuple[Metric, ...]:
        """The metrics of roles that some run has."""
        return tuple(roles_of(self.runs))

    @cached_property
    def _missing(self) -> dict[int, tuple[str, ...]]:
        known = {
            id(run): set(names_of(run.windows)) for run in self.runs if run.status not in ("missing", "unreadable")
        }
        return {run: tuple(name for name in self.windows if name not in names) for run, names in known.items()}

    def missing_windows(self, run: Run) -> tuple[str, ...]:
        """The windows of a series that other runs have and this one, which could be read, has not."""
        return self._missing.get(id(run), ())

    @cached_property
    def compared(self) -> tuple[ComparedRun, ...]:
        """The runs as the machine output has them: with what they changed against the base."""
        return tuple(map(self._compared, self.runs, self.typical or [None] * len(self.runs)))

    def _compared(self, run: Run, typical: RunWindow | None) -> ComparedRun:
        base = self.base_of(run)
        more = {
            "windows": tuple(
                ComparedWindow(
                    **structs.asdict(window), **self._all_changes(run, window.name if self.windows else None)
                )
                for window in run.windows
            ),
            "notes": (*run.notes, *run.remarks),
            "trust": RunTrust(not run.doubts, run.doubts) if run.status in ("ok", "oom") else None,
            "base": None if base is None else base.path,
            "typical": typical and {metric.key: typical.figure(metric) for metric in (*METRICS, *self.roles)},
            "missing_windows": self.missing_windows(run),
        }
        return ComparedRun(**(structs.asdict(run) | more))

    def _all_changes(self, run: Run, window: str | None) -> dict[str, Any]:
        roles = self._changes(run, window, self.roles)
        by_role = {metric.role: roles[metric.change_key] for metric in self.roles}
        return {**self._changes(run, window), "d_roles": {role: d for role, d in by_role.items() if d is not None}}

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
            **{figure: getattr(window, figure, None) for figure in FIGURES},
            **self._changes(run, name),
            **({"told_by": run.told_by} if self.roles else {}),
            **{metric.key: None if window is None else window.figure(metric) for metric in self.roles},
            **self._changes(run, name, self.roles),
            "message": run.message,
        }
