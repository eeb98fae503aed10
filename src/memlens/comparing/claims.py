"""What follows from runs side by side: who ran out, who needs most and least, and what grows with what; of the ranks of a job who is unlike its peers."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from memlens.analyzers.failures import failure_claim
from memlens.claims.claim import Claim, Tone, Weight, values_of
from memlens.claims.template import write
from memlens.comparing.templates import number
from memlens.summarizing.figures import BY_KEY
from memlens.text import LINES, format_count, short_name
from memlens.trust import PEAK_MAY_BE_EARLIER
from memlens.trust.case import RESERVED_DOUBTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memlens.comparing.ranks import Outlier, Ranks
    from memlens.comparing.result import Comparison
    from memlens.comparing.scaling import Slope
    from memlens.summarizing.summary import Run

#: Runs, or groups of ranks, that a claim names.
_NAMED = 3
_WITHOUT_FIGURES = ("missing", "unreadable", "no_window")


def claims_of(comparison: Comparison) -> Iterator[Claim]:
    """Yield what follows from a comparison, by the first of its metrics."""
    if comparison.ranks is not None:
        yield from _claims_of_ranks(comparison, comparison.ranks)
        return
    runs = _Runs(comparison)
    made = [
        *((Weight.FAILURE, one) for one in runs.failed()),
        *((Weight.DIFFERENCE, one) for one in runs.figures()),
        *((Weight.SCALING, one) for one in runs.scaling()),
        *((Weight.OUTLIER, one) for one in runs.outliers()),
    ]
    tone = runs.tone()
    for weight, (kind, values) in made:
        yield Claim(kind, weight, values, tone)


# -- runs of any kind ----------------------------------------------------------------------------------------------------------

_Made = tuple[str, dict[str, Any]]


class _Runs:
    """Runs by the first of their metrics."""

    def __init__(self, comparison: Comparison) -> None:
        self._all, self._metric = comparison, comparison.metrics[0]
        self._names = _names(comparison)
        found = zip(comparison.runs, map(self._figure, range(len(comparison.runs))), strict=True)
        self._figures = {id(run): figure for run, figure in found if figure is not None}
        self._measured = [run for run in comparison.runs if id(run) in self._figures]

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
        if not ooms and any(map(_begins_late, self._measured)):
            return "plain"  # of a part that is known nothing is better or worse
        new = [run for run in ooms if (base := self._all.base_of(run)) is None or base.status != "oom"]
        bases = {id(base) for run in self._all.runs if (base := self._all.base_of(run)) is not None}
        if any(id(run) not in bases for run in new):
            return "bad"
        changes = {(change > 0) - (change < 0) for _, change in self._changes()} - {0}
        if ooms or not changes:
            return "good" if ooms and 1 not in changes else "plain"
        return {frozenset({1}): "bad", frozenset({-1}): "good"}.get(frozenset(changes), "plain")  # type: ignore[return-value]

    def failed(self) -> Iterator[_Made]:
        """Yield which runs ran out of memory, with what was asked for, and which have no figures."""
        runs = self._all.runs
        if ooms := [run for run in runs if run.status == "oom"]:
            sizes = {_requested(run) for run in ooms}
            asked = next(iter(sizes)) if len(sizes) == 1 < len(ooms) else None
            values = {"failed": len(ooms), "runs": len(runs), "requested_bytes": asked}
            if len(ooms) == len(runs) > 1 and (asked is not None or len(runs) > _NAMED):
                yield "all_out_of_memory", values
            elif alike := self._alike(ooms):
                yield "some_out_of_memory", {**values, "alike": alike}
            else:
                yield "some_out_of_memory", values | self._named(ooms, sizes=asked is None)
        found = {status: [run for run in runs if run.status == status] for status in _WITHOUT_FIGURES}
        found["in_doubt"] = [run for run in runs if not RESERVED_DOUBTS.issuperset(run.doubts)]
        for status, those in found.items():
            if those:
                yield "without_figures", {"status": status, "runs": len(runs), **self._named(those)}

    def _alike(self, runs: Sequence[Run]) -> list[str]:
        """The values that all of several runs have, and only they."""
        values = self._all.values
        shared = {name: runs[0].fields[name] for name in values if len({run.fields[name] for run in runs}) == 1}
        shared = {name: value for name, value in shared.items() if len(values[name]) > 1}
        alike = [run for run in self._all.runs if all(run.fields[name] == value for name, value in shared.items())]
        return [_field(*one) for one in shared.items()] if 1 < len(runs) == len(alike) else []

    def _named(self, runs: Sequence[Run], *, sizes: bool = False) -> dict[str, Any]:
        """The first few of some runs, how many they are, and how many are not named."""
        named = [{**self._run(run), **({"requested_bytes": _requested(run)} if sizes else {})} for run in runs[:_NAMED]]
        return {"count": len(runs), "named": named, "more": max(len(runs) - _NAMED, 0) or None}

    def _run(self, run: Run) -> dict[str, str]:
        return {"run": self._names[id(run)], "path": run.path}

    def figures(self) -> Iterator[_Made]:
        """Yield who needs most and least, and what changed against the base."""
        key, figures, measured = self._metric.key, self._figures, self._measured
        if not measured:
            if len(self._all.runs) and not any(run.status == "oom" for run in self._all.runs):
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
            yield "run_against_base", {**about, **heads, "base_run": self._names[id(base)], "base_path": base.path}
        elif highest == lowest:
            yield "same_figure", {**about, "highest": highest}
        else:
            ends = {"highest": highest, "lowest": lowest, "apart": highest - lowest}
            yield "figures_range", {**about, **ends, **self._place("highest", highest), **self._place("lowest", lowest)}
            yield from self._against(about)
        late = [run for run in measured if _begins_late(run)]
        if late and key in ("peak_bytes", "reserved_peak_bytes"):
            yield "may_be_higher", self._named(late)

    def _place(self, name: str, figure: int) -> dict[str, Any]:
        """How many runs have a figure; the one that has it alone."""
        having = [run for run in self._measured if self._figures[id(run)] == figure]
        alone = {f"{name}_in": self._names[id(having[0])], f"{name}_path": having[0].path} if len(having) == 1 else {}
        return {f"{name}_runs": len(having), **alone}

    def _against(self, about: dict[str, Any]) -> Iterator[_Made]:
        """Yield how many runs have more than their base, and how many less, by how much at most."""
        changes = [*self._changes()]
        continues = False
        for sign in (1, -1):
            if found := [(run, change) for run, change in changes if change * sign > 0]:
                run, change = max(found, key=lambda one: abs(one[1]))
                counts = {"changed": len(found), "runs": len(changes), "change": change, **self._run(run)}
                yield "runs_against_base", {**about, **counts, "base_run": self._base_name(), "continues": continues}
                continues = True

    def _base_name(self) -> str:
        layout = self._all.layout
        if layout.base_runs:
            return self._names[id(self._all.runs[layout.base_runs[0]])]
        return _field(layout.base_field or "", layout.base_value or "")

    def scaling(self) -> Iterator[_Made]:
        """Yield how the metric grows with the first field that is a number, for each value of the columns."""
        found = [slope for slope in self._all.scaling if slope.metric == self._metric.key]
        for field in dict.fromkeys(slope.field for slope in found[:1]):
            cols = self._all.layout.cols if self._all.layout.cols != field else None
            groups: dict[str, list[Slope]] = {}
            for slope in (slope for slope in found if slope.field == field):
                groups.setdefault("" if cols is None else slope.fields[cols], []).append(slope)
            yield from self._scales(field, groups)

    def _scales(self, field: str, groups: dict[str, list[Slope]]) -> Iterator[_Made]:
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

    def outliers(self) -> Iterator[_Made]:
        """Yield the rank that is farthest from its peers."""
        found = [one for one in self._all.outliers if one.metric == self._metric.key]
        if found:
            worst = found[0]
            run = next(run for run in self._all.runs if run.path == worst.path)
            off = {"off": worst.off, "peers": worst.peers, "others": len(found) - 1}
            yield "run_stands_out", {"metric": worst.metric, **self._run(run), **off}


def _begins_late(run: Run) -> bool:
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


# -- the ranks of one job ------------------------------------------------------------------------------------------------------


def _claims_of_ranks(comparison: Comparison, ranks: Ranks) -> Iterator[Claim]:
    """Yield which rank failed first, how they spread, which stand out and by what, and whose logs end early."""
    count, first = len(comparison.runs), ranks.first_failure
    read = [run for run in comparison.runs if run.status in ("ok", "oom")]
    if not read:
        reason, alike = Counter(map(_reason, comparison.runs)).most_common(1)[0]
        yield Claim("none_read", Weight.FAILURE, {"ranks": count, "reason": reason, "alike": alike}, "bad")
        return
    if first is not None:
        values = values_of(first, "rank", "path", "known_by", "failed", "lead_us", "lead_allocs", "within_clocks")
        values |= {"next_rank": first.next_rank, "ranks": count, "told": first.failure is not None}
        yield Claim("first_to_fail", Weight.FAILURE, values, "bad")
        if first.failure is not None:
            own = failure_claim([first.failure], has_lines=first.terms is LINES, run=short_name(first.rank))
            values = {**own.values, "file": not first.rank[-1:].isdecimal() or None}
            yield replace(own, kind="run_out_of_memory", values=values)
    good = first is None and ranks.spreads and not comparison.outliers and not ranks.ended_early and len(read) == count
    yield from _spread(ranks, count, len(read), "good" if good else "plain")
    for kind, values in (*_stand_out(comparison, ranks), *_ended_early(ranks)):
        yield Claim(kind, Weight.OUTLIER, values)


def _reason(run: Run) -> str:
    return run.message.partition("\n")[0].replace(run.path, "").strip(": ")


def _spread(ranks: Ranks, count: int, read: int, tone: Tone) -> Iterator[Claim]:
    values: dict[str, Any] = {"ranks": count, "measured": read}
    if not ranks.spreads:
        yield Claim("no_spread", Weight.DIFFERENCE, values, tone)
        return
    one = ranks.spreads[0]
    metric = BY_KEY[one.metric]
    values |= {"metric": one.metric, "figure": metric.words.lower(), "bytes": metric.kind == "bytes"}
    values |= {"min": one.min, "median": one.median, "max": one.max, "apart": one.max - one.min}
    close = metric.text(one.min) == metric.text(one.max)
    yield Claim("spread", Weight.DIFFERENCE, {**values, "close": close}, tone)
    if ranks.missing:
        missing = {"missing": len(ranks.missing), "rank": ranks.missing[0]}
        yield Claim("ranks_without_log", Weight.DIFFERENCE, missing)


def _stand_out(comparison: Comparison, ranks: Ranks) -> Iterator[_Made]:
    groups = alike_outliers(comparison)
    if count := sum(len(group.outliers) for group in groups):
        by_path = {run.path: run for run in comparison.runs}
        yield "stand_out", {"ranks": count}
        for group in groups[:_NAMED]:
            yield "stands_out", _group(group, by_path[group.outliers[0].path])
        if left := sum(len(group.outliers) for group in groups[_NAMED:]):
            yield "more_stand_out", {"ranks": left}
    elif ranks.spreads and ranks.spreads[0].ranks < 4:
        yield "too_few_ranks", {"ranks": ranks.spreads[0].ranks}
    elif ranks.spreads and ranks.modes and not ranks.peers_by:
        sizes = sorted(ranks.groups, key=lambda group: -group.ranks)[:_NAMED]
        largest = [{"ranks": group.ranks, "median": group.median} for group in sizes]
        yield "groups", {"metric": ranks.spreads[0].metric, "groups": len(ranks.groups), "largest": largest}
        yield "none_in_its_group", {}
    elif ranks.spreads:
        yield "none_stands_out", {"peers_by": list(ranks.peers_by) or None}


def _group(group: AlikeOutliers, run: Run) -> dict[str, Any]:
    """Ranks that stand out alike."""
    one, others = group.outliers[0], len(group.outliers) - 1
    metric = BY_KEY[one.metric]
    offs = [end(each.off for each in group.outliers) for end in (min, max)]
    apart = metric.text(abs(offs[0])) != metric.text(abs(offs[1]))
    values = values_of(one, "metric", "rank", "path", others=others, where=group.where or None, off=offs[0])
    values |= {"off_to": offs[1] if apart else None, "figure": metric.words.lower()}
    if one.holds:
        most = one.holds[0]
        # What it holds less of than its peers takes a part of that away.
        parts = {"outweighs": most.more_bytes > one.off * 1.005, "part": most.more_bytes < one.off * 0.995}
        values |= values_of(most, "blocks", "size_bytes", "more_bytes", owner=most.owner or None, **parts)
    # What a log does not tell of changes no other figure.
    doubts = [code for code in run.doubts if not code.startswith("no_")]
    return {**values, "doubts": doubts if doubts and not others else None}


def _ended_early(ranks: Ranks) -> Iterator[_Made]:
    if found := ranks.ended_early:
        several = {"several": len(found) > 1, "ranks": [each.rank for each in found]}
        counts = values_of(found[0], "rank", "path", "allocs", "median_allocs", "median_rank")
        yield "ended_early", several | counts


class AlikeOutliers(Struct, frozen=True):
    """Ranks that stand out by the same figure in the same direction, and hold more of the same blocks in the first place.

    Attributes:
        outliers: The farthest first.
        where: Of several ranks what their paths share and few others have, in words, or ``""``; text from paths is in it.
    """

    outliers: tuple[Outlier, ...]
    where: str


def alike_outliers(comparison: Comparison) -> list[AlikeOutliers]:
    """The ranks that stand out, each by the first of its figures that does, in groups that are alike; the farthest first."""
    groups: dict[tuple[object, ...], list[Outlier]] = {}
    seen: set[str] = set()
    for one in comparison.outliers:
        if one.path not in seen:
            seen.add(one.path)
            kind = (one.holds[0].size_bytes, one.holds[0].blocks, one.holds[0].owner) if one.holds else None
            groups.setdefault((one.metric, one.off > 0, kind), []).append(one)
    return [AlikeOutliers(tuple(group), _common(comparison, group)) for group in groups.values()]


def _common(comparison: Comparison, found: Sequence[Outlier]) -> str:
    """The value of a field that all of some ranks share, and few others have."""
    for name, values in comparison.values.items() if len(found) > 1 else ():
        shared = {one.fields[name] for one in found}
        if len(values) < 2 or len(shared) > 1:
            continue
        having = sum(run.fields[name] in shared for run in comparison.runs)
        if having <= 2 * len(found):
            part = "all" if having == len(found) else f"{format_count(len(found))} of the {format_count(having)}"
            return f"{part} of {short_name(f'{name} {shared.pop()}')}"
    return ""
