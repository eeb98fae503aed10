"""What a comparison shows: which metrics, which fields are the rows of a table, which one is its columns, and with which run each run is compared."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import chain, product
from math import prod
from typing import TYPE_CHECKING, ClassVar

from msgspec.structs import replace

from memlens.comparing.templates import natural, number
from memlens.errors import UsageError
from memlens.results import Result
from memlens.summarizing.figures import METRICS, OF_ROLES, Metric, RunWindow

if TYPE_CHECKING:
    from memlens.summarizing.summary import Run

#: Columns of :meth:`~memlens.comparing.result.Comparison.rows`: figures of a window, and all that are no fields of a template.
FIGURES = [name for name in RunWindow.__struct_fields__ if name not in ("name", "oom", "roles")]
_RESERVED = frozenset(
    {
        *("path", "status", "window", "oom_requested_bytes", "doubts", "message", "told_by"),
        *RunWindow.__struct_fields__,
        *(name for metric in (*METRICS, *OF_ROLES) for name in (metric.key, metric.change_key)),
    }
)
#: What is shown where nothing is asked for, in a list of runs and in a matrix, where each metric is a table of its own: of whole logs, where
#: no figure leaves out what was there before them, and of windows (``True``).
DEFAULT = {
    ("list", False): ("peak", "reserved-peak", "duration", "live", "allocs"),
    ("list", True): ("peak", "rise", "reserved-peak", "duration", "remaining", "allocs"),
    ("matrix", False): ("peak", "reserved-peak"),
    ("matrix", True): ("peak", "rise", "reserved-peak"),
}
#: What ``--metric`` calls the peak and all that is live then, by role.
BY_ROLE = "roles"
#: The same for the ranks of one job.
DEFAULT_OF_RANKS = ("peak", "reserved-peak", "live")


def choose_metrics(names: Sequence[str]) -> tuple[Metric, ...]:
    """Metrics by their names, each once, in the order given; ``roles`` stands for the peak and all roles.

    Raises:
        UsageError: There is no such metric.
    """
    every = (*METRICS, *OF_ROLES)
    known: dict[str, tuple[Metric, ...]] = {
        name: (one,) for one in every for name in (one.name, one.key.replace("_", "-"), *one.also)
    }
    known[BY_ROLE] = (METRICS[0], *OF_ROLES)
    chosen = [known.get(name.strip().lower().replace("_", "-")) for name in names]
    if None in chosen:
        hint = f"Metrics: {', '.join(one.name for one in METRICS)}, {BY_ROLE}; of the roles {', '.join(one.name for one in OF_ROLES)}."
        raise UsageError(f"there is no metric {names[chosen.index(None)]!r}", hint)
    return tuple(dict.fromkeys(chain(*filter(None, chosen))))


def roles_of(runs: Sequence[Run]) -> dict[Metric, int]:
    """The metrics of roles that some run has, in their order, and the most bytes of each."""
    most = dict.fromkeys(OF_ROLES, 0)
    for window in (window for run in runs if run.told_by for window in run.windows):
        most |= {one: max(most[one], size) for one in OF_ROLES if (size := (window.roles or {}).get(one.role))}
    return {metric: size for metric, size in most.items() if size}


def compared_metrics(metrics: Sequence[Metric], runs: Sequence[Run]) -> list[Metric]:
    """Metrics without roles, where rules of several kinds tell these."""
    alike = len({run.told_by for run in runs} - {None}) < 2
    return [metric for metric in metrics if alike or not metric.role]


def shown_metrics(metrics: Sequence[Metric], runs: Sequence[Run]) -> tuple[Metric, ...]:
    """Metrics without the roles that no run has; of all roles those with the most bytes first.  What is not compared never comes first."""
    most = roles_of(runs)
    shown = [metric for metric in metrics if not metric.role or metric in most] or [*metrics]
    if {*OF_ROLES} <= {*metrics}:
        shown.sort(key=lambda metric: -most.get(metric, float("inf")))
    first = [] if compared_metrics(shown[:1], runs) else [METRICS[0]]
    return tuple(dict.fromkeys([*first, *shown]))


def field_values(found: Sequence[Mapping[str, str]], names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The values of each field, in their natural order."""
    return {name: tuple(sorted({fields[name] for fields in found}, key=natural)) for name in names}


class Layout(Result, frozen=True):
    """How runs are laid out.

    Attributes:
        rows: The fields whose values make the rows, in their order; empty where each run is a row of its own.
        cols: The field whose values are the columns; ``None`` where metrics are.
        base_field: The field by which a run's base is found: the run alike in all other fields that has ``base_value`` there.
        base_value: The value of the base.
        base_runs: Which run all others are compared with, where there is no such field; of an input with several devices those of all:
            each device is compared with the one of its number.
    """

    in_json: ClassVar[tuple[str, ...]] = ("rows", "cols")

    rows: tuple[str, ...] = ()
    cols: str | None = None
    base_field: str | None = None
    base_value: str | None = None
    base_runs: tuple[int, ...] = ()

    def bases(self, runs: Sequence[Run]) -> list[Run | None]:
        """The base of each run, in their order; ``None`` for a base itself and where there is none."""
        standing = [runs[place] for place in self.base_runs]
        if self.base_field is not None:
            standing = [run for run in runs if run.fields[self.base_field] == self.base_value]
        known = {self._shared_with_base(run): run for run in standing}
        found = [known.get(self._shared_with_base(run)) for run in runs]
        return [None if base is run else base for run, base in zip(runs, found, strict=True)]

    def _shared_with_base(self, run: Run) -> object:
        """The fields that a run shares with its base, and with no other base."""
        if self.base_runs:
            return run.device if len(self.base_runs) > 1 else None
        return frozenset((name, value) for name, value in run.fields.items() if name != self.base_field)


def run_key(run: Run, fields: Sequence[str]) -> tuple[str, ...]:
    """The values of some fields of a run."""
    return tuple(run.fields[name] for name in fields)


def row_keys(known: AbstractSet[tuple[str, ...]], values: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """The rows of a table in their natural order.

    Where at least half of all combinations of values have a run, all have a row, so that a run that is missing in every
    column shows as missing; else only those that exist have one.

    Args:
        known: The combinations that some run has.
        values: The values of each field of the rows, in their natural order.
    """
    if 2 * len(known) >= prod(map(len, values)):
        return list(product(*values))
    return sorted(known, key=lambda key: [natural(text) for text in key])


def lay_out_list(paths: Sequence[str], base: str | None) -> Layout:
    """A row a log, each compared with the first one or with the one named.

    Raises:
        UsageError: ``base`` is none of the logs.
    """
    if base is None:
        return Layout(base_runs=(0,))
    place = _place(paths, base)
    if place is None:
        raise UsageError(f"the base {base} is none of the logs", "Name it among the logs too.")
    return Layout(base_runs=(place,))


def _place(paths: Sequence[str], wanted: str) -> int | None:
    if wanted in paths:
        return list(paths).index(wanted)
    for place, path in enumerate(paths):
        with suppress(OSError, ValueError):
            if os.path.samefile(path, wanted):
                return place
    return None


def refuse_fields(names: Iterable[str]) -> None:
    """Refuse the first field of a template, by name, that is called what something else is in the machine output."""
    if clash := _RESERVED.intersection(names):
        raise UsageError(
            f"a field cannot be called {min(clash)!r}: the machine output has that name for something else",
            "Give it another name in the template.",
        )


def lay_out(
    values: Mapping[str, Sequence[str]], paths: Sequence[str], rows: Sequence[str], cols: str | None, base: str | None
) -> Layout:
    """Lay out the runs that a template found.

    Columns are the field asked for; else that of the base; else the first one that has several values which are not all
    numbers.  Rows are the fields asked for, and then all others that have several values, so that no two runs share a cell.

    Args:
        values: The values of each field, in the order of the template's fields.
        paths: The paths of the runs.
        rows: The fields asked for as rows.
        cols: The field asked for as columns.
        base: ``field=value``, or the path of one of the runs; ``None`` takes the first value of the columns.

    Raises:
        UsageError: There is no such field, value or run, or a field is asked for as both rows and columns.
    """
    refuse_fields(values)
    for name in (*rows, *([] if cols is None else [cols])):
        if name not in values:
            raise UsageError(f"the template has no field {name!r}", f"Its fields: {', '.join(values)}.")
    if cols in rows:
        raise UsageError(f"{cols!r} cannot be both rows and columns", "Leave it out of one of them.")
    layout = Layout() if base is None else _base(values, paths, base)
    varying = [name for name in values if len(values[name]) > 1]
    if cols is None:
        free = [name for name in varying if name not in rows]
        named = [name for name in free if not all(number(value) is not None for value in values[name])]
        cols = layout.base_field if layout.base_field in free else next(iter(named), None)
    if base is None and cols is not None:
        layout = Layout(base_field=cols, base_value=values[cols][0])
    rest = [name for name in varying if name not in rows and name != cols]
    return replace(layout, rows=(*dict.fromkeys(rows), *rest), cols=cols)


def _base(values: Mapping[str, Sequence[str]], paths: Sequence[str], base: str) -> Layout:
    """A layout with nothing but its base: a field and its value, or a run."""
    name, equals, value = base.partition("=")
    if equals and name in values:
        if value not in values[name]:
            shown = ", ".join(values[name][:20]) + (" …" if len(values[name]) > 20 else "")
            raise UsageError(f"no run has {name}={value}", f"Values of {name}: {shown}.")
        return Layout(base_field=name, base_value=value)
    place = _place(paths, base)
    if place is None:
        raise UsageError(f"the base {base} is neither FIELD=VALUE nor one of the runs", f"Fields: {', '.join(values)}.")
    return Layout(base_runs=(place,))
