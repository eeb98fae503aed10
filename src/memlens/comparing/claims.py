"""What follows from runs side by side: who ran out, who needs most and least, and what grows with what; of the ranks of a job who is unlike its peers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from memlens.analyzers.failures import failure_claim
from memlens.claims.claim import Claim, Tone, Weight, values_of
from memlens.claims.roles import variable_of
from memlens.comparing.claims_of_runs import NAMED, Made, Runs, begins_late, in_doubt, named_runs, runs_ended
from memlens.summarizing.figures import BY_KEY
from memlens.text import LINES, format_count, short_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memlens.comparing.ranks import Outlier, Ranks
    from memlens.comparing.result import Comparison
    from memlens.summarizing.figures import Metric
    from memlens.summarizing.summary import Run


def claims_of(comparison: Comparison) -> Iterator[Claim]:
    """Yield what follows from a comparison, by the first of its metrics."""
    if comparison.ranks is not None:
        yield from _claims_of_ranks(comparison, comparison.ranks)
        return
    runs = Runs(comparison)
    made = [
        *((Weight.FAILURE, one) for one in runs.failed()),
        *((Weight.DIFFERENCE, one) for one in runs.figures()),
        *((Weight.SCALING, one) for one in runs.scaling()),
        *((Weight.OUTLIER, one) for one in runs.outliers()),
    ]
    tone = runs.tone()
    for weight, (kind, values) in made:
        yield Claim(kind, weight, values, tone)


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
    names = {id(run): name for run, name in zip(comparison.runs, ranks.names, strict=True)}
    for kind, values in runs_ended(read, names, {"ranks": count}):
        yield Claim(kind, Weight.FAILURE, values, "plain" if values["how"] == "cut" else "bad")
    metric = BY_KEY[ranks.spreads[0].metric] if ranks.spreads else comparison.metrics[0]
    # Of those that stand out it is said there.
    apart = {one.path for one in comparison.outliers}
    if doubtful := [run for run in read if in_doubt(run, metric) and run.path not in apart]:
        values = {"status": "in_doubt", "ranks": count, **named_runs(doubtful, names)}
        yield Claim("without_figures", Weight.FAILURE, values)
    late = [run for run in read if begins_late(run)] if metric.key in ("peak_bytes", "reserved_peak_bytes") else []
    unlike = first or comparison.outliers or ranks.ended_early or doubtful or late or any(run.ended for run in read)
    good = ranks.spreads and ranks.spreads[0].ranks == count and not unlike
    yield from _spread(ranks, count, metric, "good" if good else "plain")
    if late and ranks.spreads:
        yield Claim("may_be_higher", Weight.DIFFERENCE, {"ranks": count, **named_runs(late, names)})
    for kind, values in (*_stand_out(comparison, ranks), *_ended_early(ranks)):
        yield Claim(kind, Weight.OUTLIER, values)


def _reason(run: Run) -> str:
    return run.message.partition("\n")[0].replace(run.path, "").strip(": ")


def _spread(ranks: Ranks, count: int, metric: Metric, tone: Tone) -> Iterator[Claim]:
    values: dict[str, Any] = {"ranks": count, "metric": metric.key, "figure": metric.words.lower()}
    if not ranks.spreads:
        yield Claim("no_spread", Weight.DIFFERENCE, values, tone)
        return
    one = ranks.spreads[0]
    values |= {"measured": one.ranks, "bytes": metric.kind == "bytes"}
    values |= {"min": one.min, "median": one.median, "max": one.max, "apart": one.max - one.min}
    close = metric.text(one.min) == metric.text(one.max)
    yield Claim("spread", Weight.DIFFERENCE, {**values, "close": close}, tone)
    if ranks.missing:
        missing = {"missing": len(ranks.missing), "rank": ranks.missing[0]}
        yield Claim("ranks_without_log", Weight.DIFFERENCE, missing)


def _stand_out(comparison: Comparison, ranks: Ranks) -> Iterator[Made]:
    groups = alike_outliers(comparison)
    if count := sum(len(group.outliers) for group in groups):
        by_path = {run.path: run for run in comparison.runs}
        yield "stand_out", {"ranks": count}
        for group in groups[:NAMED]:
            yield "stands_out", _group(group, by_path[group.outliers[0].path])
        if left := sum(len(group.outliers) for group in groups[NAMED:]):
            yield "more_stand_out", {"ranks": left}
    elif ranks.spreads and ranks.spreads[0].ranks < 4:
        yield "too_few_ranks", {"ranks": ranks.spreads[0].ranks}
    elif ranks.spreads and ranks.modes and not ranks.peers_by:
        sizes = sorted(ranks.groups, key=lambda group: -group.ranks)[:NAMED]
        largest = [{"ranks": group.ranks, "median": group.median} for group in sizes]
        told = {"metric": ranks.spreads[0].metric, "groups": len(ranks.groups), "told_by": ranks.told_by or None}
        yield "groups", {**told, "largest": largest}
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
        values["holder"] = variable_of(most.holder)
    # What a log does not tell of changes no other figure.
    doubts = [code for code in run.doubts if not code.startswith("no_")]
    return {**values, "doubts": doubts if doubts and not others else None}


def _ended_early(ranks: Ranks) -> Iterator[Made]:
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
            kind = one.holds[0] if one.holds else None
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
