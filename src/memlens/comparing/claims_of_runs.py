"""What follows from runs of any kind side by side: who ran out or ended early, who needs most and least, and what grows with what."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from memlens.claims.claim import Claim, Tone, Weight
from memlens.claims.roles import large_changes, variable_of
from memlens.claims.template import write
from memlens.comparing.templates import number
from memlens.summarizing.figures import OF_CHUNKS
from memlens.summarizing.largest import holder_of_most
from memlens.text import short_name
from memlens.trust import PEAK_MAY_BE_EARLIER
from memlens.trust.case import RESERVED_DOUBTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from memlens.comparing.result import Comparison
    from memlens.comparing.scaling import Slope
    from memlens.summarizing.figures import Metric
    from memlens.summarizing.summary import Run

#: Runs, or groups of ranks, that a claim names.
NAMED = 3
_WITHOUT_FIGURES = ("missing", "unreadable", "no_window")
#: A kind of claims, and its values.
Made = tuple[str, dict[str, Any]]


class Runs:
    """Runs by the first of their metrics."""

    def __init__(self, comparison: Comparison) -> None:
        self._all, self._metric = comparison, comparison.metrics[0]
        self._names = _names(comparison)
        found = zip(comparison.runs, map(self._figure, range(len(comparison.runs))), strict=True)
        self._figures = {id(run): figure for run, figure in found if figure is not None}
        self._measured = [run for run in comparison.runs if id(run) in self._figures]
        self._present = comparison.present

    def _figure(self, place: int) -> int | None:
        """The figure of a run: of all of it, the highest peak of its windows, or that of its typical window."""
        run, metric = self._all.runs[place], self._metric
        if run.status != "ok":
            return None
        if self._all.by and metric.key == "peak_bytes":
            return max((window.peak_bytes for window in run.windows if window.peak_bytes is not None), default=None)
        window = self._all.typical[place] if self._all.typical else run.window(None)
        return None if window is None else window.figure(metric)

    def _changes(self) -> Iterator[tuple[Run, int]]:
        """Each run that has a base, both with a figure, and by how much it differs."""
        for run in self._measured:
            base = self._all.base_of(run)
            if base is not None and id(base) in self._figures:
                yield run, self._figures[id(run)] - self._figures[id(base)]

    def tone(self) -> Tone:
        """Bad where a run that has a base ran out and the base did not, or where all that changed rose; good for the opposite."""
        ooms = [run for run in self._all.runs if run.status == "oom"]
        if not ooms and any(map(begins_late, self._measured)):
            return "plain"  # of a part that is known nothing is better or worse
        ended = [run for run in self._present if _died(run)]
        new = [run for run in ooms if (base := self._all.base_of(run)) is None or base.status != "oom"]
        new += [run for run in ended if (base := self._all.base_of(run)) is None or not _died(base)]
        bases = {id(base) for run in self._all.runs if (base := self._all.base_of(run)) is not None}
        if any(id(run) not in bases for run in new):
            return "bad"
        if self._unknown() or any(run.ended for run in self._present):
            return "plain"
        changes = {(change > 0) - (change < 0) for _, change in self._changes()} - {0}
        if ooms or not changes:
            return "good" if ooms and 1 not in changes else "plain"
        return {frozenset({1}): "bad", frozenset({-1}): "good"}.get(frozenset(changes), "plain")  # type: ignore[return-value]

    def failed(self) -> Iterator[Made]:
        """Yield which runs ran out of memory, with what was asked for, how others ended early, and which have no figures."""
        runs = self._present
        if ooms := [run for run in runs if run.status == "oom"]:
            sizes = {_requested(run) for run in ooms}
            asked = next(iter(sizes)) if len(sizes) == 1 < len(ooms) else None
            values = {"failed": len(ooms), "runs": len(runs), "requested_bytes": asked}
            if len(ooms) == len(runs) > 1 and (asked is not None or len(runs) > NAMED):
                yield "all_out_of_memory", values
            elif alike := self._alike(ooms):
                yield "some_out_of_memory", {**values, "alike": alike}
            else:
                yield "some_out_of_memory", values | self._named(ooms, sizes=asked is None)
        yield from runs_ended(runs, self._names, {"runs": len(runs)})
        found = {status: [run for run in self._all.runs if run.status == status] for status in _WITHOUT_FIGURES}
        found["in_doubt"] = [run for run in runs if in_doubt(run, self._metric)]
        for status, those in found.items():
            if those:
                yield "without_figures", {"status": status, "runs": len(runs), **self._named(those)}

    def _alike(self, runs: Sequence[Run]) -> list[str]:
        """The values that all of several runs have, and only they."""
        values = self._all.values
        shared = {name: runs[0].fields[name] for name in values if len({run.fields[name] for run in runs}) == 1}
        shared = {name: value for name, value in shared.items() if len(values[name]) > 1}
        alike = [run for run in self._present if all(run.fields[name] == value for name, value in shared.items())]
        return [_field(*one) for one in shared.items()] if 1 < len(runs) == len(alike) else []

    def _named(self, runs: Sequence[Run], *, sizes: bool = False) -> dict[str, Any]:
        """The first few of some runs, how many they are, and how many are not named."""
        return named_runs(runs, self._names, lambda run: {"requested_bytes": _requested(run)} if sizes else {})

    def _run(self, run: Run) -> dict[str, str]:
        return {"run": self._names[id(run)], "path": run.path}

    def figures(self) -> Iterator[Made]:
        """Yield who needs most and least, and what changed against the base."""
        key, figures, measured = self._metric.key, self._figures, self._measured
        if not measured:
            if self._present and not any(run.status == "oom" for run in self._present):
                yield "no_figure", {"metric": key, "figure": self._metric.words.lower()}
            return
        figure, typical = "peak" if key == "peak_bytes" else self._metric.words.lower(), bool(self._all.typical)
        about = {"metric": key, "figure": figure, "typical": typical and key != "peak_bytes", "runs": len(measured)}
        highest, lowest = max(figures.values()), min(figures.values())
        pair = next(self._changes(), None)
        if len(measured) == 1:
            yield "one_figure", {**about, "highest": highest, **self._run(measured[0])}
        elif len(measured) == 2 and pair is not None and (base := self._all.base_of(pair[0])) is not None:
            run, change = pair
            if (base.path, base.device) == (run.path, run.device):
                yield "with_itself", {**about, "highest": figures[id(base)], **self._run(run)}
                return
            heads = {"head": figures[id(run)], "base": figures[id(base)], "change": change, **self._run(run)}
            heads |= self._held(run, change)
            yield "run_against_base", {**about, **heads, "base_run": self._names[id(base)], "base_path": base.path}
            yield from self._by_role(run, change)
        elif highest == lowest:
            yield "same_figure", {**about, "highest": highest}
        else:
            ends = {"highest": highest, "lowest": lowest, "apart": highest - lowest}
            yield "figures_range", {**about, **ends, **self._place("highest", highest), **self._place("lowest", lowest)}
            yield from self._against(about)
        if unknown := self._unknown():
            yield (
                "figure_not_known",
                {"metric": key, "figure": figure, "runs": len(self._present), **self._named(unknown)},
            )
        late = [run for run in measured if begins_late(run)]
        if late and key in ("peak_bytes", "reserved_peak_bytes"):
            yield "may_be_higher", self._named(late)

    def _unknown(self) -> list[Run]:
        """The runs that were read and did not fail, whose logs do not tell the figure."""
        return [run for run in self._present if run.status == "ok" and id(run) not in self._figures]

    def _place(self, name: str, figure: int) -> dict[str, Any]:
        """How many runs have a figure; the one that has it alone."""
        having = [run for run in self._measured if self._figures[id(run)] == figure]
        alone = {f"{name}_in": self._names[id(having[0])], f"{name}_path": having[0].path} if len(having) == 1 else {}
        return {f"{name}_runs": len(having), **alone}

    def _against(self, about: dict[str, Any]) -> Iterator[Made]:
        """Yield how many runs have more than their base, and how many less, by how much at most."""
        changes = [*self._changes()]
        continues = False
        for sign in (1, -1):
            if found := [(run, change) for run, change in changes if change * sign > 0]:
                run, change = max(found, key=lambda one: abs(one[1]))
                counts = {"changed": len(found), "runs": len(changes), "change": change, **self._run(run)}
                counts |= self._held(run, change)
                yield "runs_against_base", {**about, **counts, "base_run": self._base_name(), "continues": continues}
                yield from self._by_role(run, change)
                continues = True

    def _held(self, run: Run, change: int) -> dict[str, Any]:
        """Who holds half of what is more at the peak of a run than at that of its base, or more."""
        base = self._all.base_of(run)
        if change <= 0 or self._metric.key != "peak_bytes" or base is None or None in (run.holders, base.holders):
            return {}
        most = holder_of_most(run.holders or {}, base.holders or {}, change)
        return {} if most is None else {"holder": variable_of(most[0]), "more_bytes": most[1], "at_least": most[2]}

    def _by_role(self, run: Run, change: int) -> Iterator[Made]:
        """Yield which roles change most from the peak of its base to that of a run, where the roles account for all of it."""
        base = self._all.base_of(run)
        if self._metric.key != "peak_bytes" or base is None or not base.told_by == run.told_by is not None:
            return
        before, after = (max(one.windows, key=lambda window: window.peak_bytes or 0).roles or {} for one in (base, run))
        changes: dict[str | None, int] = {
            role: after.get(role, 0) - before.get(role, 0) for role in {**before, **after}
        }
        if roles := large_changes({**changes, None: change - sum(changes.values())}, change):
            yield "change_by_role", {**self._run(run), "roles": roles, "d_peak_bytes": change}

    def _base_name(self) -> str:
        layout = self._all.layout
        if layout.base_runs:
            return self._names[id(self._all.runs[layout.base_runs[0]])]
        return _field(layout.base_field or "", layout.base_value or "")

    def scaling(self) -> Iterator[Made]:
        """Yield how the metric grows with the first field that is a number, for each value of the columns."""
        found = [slope for slope in self._all.scaling if slope.metric == self._metric.key]
        for field in dict.fromkeys(slope.field for slope in found[:1]):
            cols = self._all.layout.cols if self._all.layout.cols != field else None
            groups: dict[str, list[Slope]] = {}
            for slope in (slope for slope in found if slope.field == field):
                groups.setdefault("" if cols is None else slope.fields[cols], []).append(slope)
            yield from self._scales(field, groups)

    def _scales(self, field: str, groups: dict[str, list[Slope]]) -> Iterator[Made]:
        flat, cols = [], self._all.layout.cols or ""
        about = {"metric": self._metric.key, "figure": self._metric.words.lower(), "field": field, "cols": cols}
        moves: dict[str, tuple[dict[str, Any], list[str]]] = {}
        for value, slopes in groups.items():
            moving = [slope for slope in slopes if slope.verdict in ("growing", "shrinking")]
            if not moving:
                flat.append((_field(cols, value), all(slope.verdict == "flat" for slope in slopes)))
                continue
            steepest = max(moving, key=lambda slope: abs(slope.slope))
            written = {(one.slope < 0, write("{slope:slope}", {**about, "slope": one.slope})) for one in moving}
            counts = {"rows": len(slopes), "moving": len(moving)}
            values = {**about, "slope": steepest.slope, "up_to": len(written) > 1, **counts}
            # What reads alike is said once.
            _, places = moves.setdefault(Claim("scales", Weight.SCALING, values).text, (values, []))
            places += [_field(cols, value)] if value else []
        for values, places in moves.values():
            everywhere = len(places) == len(groups) > 1
            yield (
                "scales",
                {**values, "everywhere": everywhere, "places": places if places and not everywhere else None},
            )
        if flat and len(flat) == len(groups):
            yield "scales_not", {**about, "steady": all(is_flat for _, is_flat in flat)}
        elif flat:
            yield "scales_not_in", {**about, "places": [name for name, _ in flat]}

    def outliers(self) -> Iterator[Made]:
        """Yield the rank that is farthest from its peers."""
        found = [one for one in self._all.outliers if one.metric == self._metric.key]
        if found:
            worst = found[0]
            run = next(run for run in self._all.runs if run.path == worst.path)
            off = {"off": worst.off, "peers": worst.peers, "others": len(found) - 1}
            yield "run_stands_out", {"metric": worst.metric, **self._run(run), **off}


def named_runs(
    runs: Sequence[Run], names: Mapping[int, str], more: Callable[[Run], Mapping[str, Any]] = lambda _: {}
) -> dict[str, Any]:
    """The first few of some runs with what else is said of each, how many they are, and how many are not named."""
    named = [{"run": names[id(run)], "path": run.path, **more(run)} for run in runs[:NAMED]]
    return {"count": len(runs), "named": named, "more": max(len(runs) - NAMED, 0) or None}


def runs_ended(runs: Sequence[Run], names: Mapping[int, str], counted: Mapping[str, int]) -> Iterator[Made]:
    """Yield which runs ended early, by how they did; of one alone where."""
    for how in ("death", "exception", "cut"):
        those = [run for run in runs if run.ended.get("how") == how]
        if len(those) == 1:
            yield "runs_ended", {**counted, **those[0].ended, **named_runs(those, names)}
        elif those:
            what = {run.ended.get("what") for run in those}
            alike = {"what": what.pop()} if len(what) == 1 else {}
            each = named_runs(those, names, lambda run: {} if alike else {"what": run.ended.get("what")})  # noqa: B023
            yield "runs_ended", {**counted, "how": how, **alike, **each}


def _died(run: Run) -> bool:
    """Whether its log says that it ended early; not where it stops, as one that is copied too soon does."""
    return run.ended.get("how") in ("death", "exception")


def in_doubt(run: Run, metric: Metric) -> bool:
    """Whether a figure of it is in doubt: doubts of what is reserved count where that is asked for, and what is not known is no doubt."""
    sure = {"no_chunk_lines"} if metric.key in OF_CHUNKS else RESERVED_DOUBTS
    return not sure.issuperset(run.doubts)


def begins_late(run: Run) -> bool:
    """Whether its peak may lie before what its log holds."""
    return PEAK_MAY_BE_EARLIER in run.remarks


def _requested(run: Run) -> int | None:
    return None if run.oom is None else run.oom.requested_bytes


def _field(name: str, value: str) -> str:
    """A field and its value as they stand in a sentence: ``gbs 3072``, ``develop``."""
    return short_name(value) if number(value) is None else f"{short_name(name)} {short_name(value)}"


def _names(comparison: Comparison) -> dict[int, str]:
    """A name for each run in a sentence: the values of the fields that vary, or its file where that tells it apart."""
    if comparison.template is not None:
        varying = [name for name, values in comparison.values.items() if len(values) > 1]
        return {
            id(run): " ".join(_field(name, run.fields[name]) for name in varying) or short_name(run.path)
            for run in comparison.runs
        }
    paths = [run.path for run in comparison.runs]
    files = [PurePath(path).name or path for path in paths]
    names = files if len(set(files)) == len(set(paths)) else paths
    several = len(set(names)) < len(names)
    return {
        id(run): short_name(name) + (f" device {run.device}" if several and run.device is not None else "")
        for run, name in zip(comparison.runs, names, strict=True)
    }
