"""The verdict on the ranks of a job, in one to three sentences: which one failed first, how they spread, which stand out and by what."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct

from memlens.analyzers.failures.words import failure_sentence
from memlens.comparing.figures import BY_KEY, Run
from memlens.results import Answer, Tone
from memlens.text import format_count, format_duration, name_list, short_name
from memlens.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlens.comparing.first import FirstFailure
    from memlens.comparing.ranks import Outlier, Ranks
    from memlens.comparing.result import Comparison


#: Groups of ranks that a sentence names.
_NAMED = 3
_NOUNS = {"peak_bytes": "peaks", "reserved_peak_bytes": "reserved peaks", "live_bytes": "live bytes at the end"}
#: What a rank does, and what several do, that are so much off their peers.
_DOES = {
    "peak_bytes": ("holds", "hold", ""),
    "reserved_peak_bytes": ("reserves", "reserve", ""),
    "live_bytes": ("keeps", "keep", " to the end"),
}


def answer_of_ranks(comparison: Comparison, ranks: Ranks) -> Answer:
    """The verdict on the ranks of one job."""
    runs = comparison.runs
    read = [run for run in runs if run.status in ("ok", "oom")]
    if not read:
        reason, alike = Counter(_reason(run) for run in runs).most_common(1)[0]
        share = "" if alike == len(runs) else f" ({format_count(alike)} of them)"
        return Answer((f"None of {format_count(len(runs))} ranks could be read: {reason}{share}.",), "bad")
    first = ranks.first_failure
    sentences = [
        *([] if first is None else [_failed(first, len(runs))]),
        _spread(ranks, len(runs), len(read)),
        " ".join(filter(None, (_stand_out(comparison, ranks), _ended_early(ranks)))),
    ]
    good = first is None and ranks.spreads and not comparison.outliers and not ranks.ended_early
    tone: Tone = "bad" if first is not None else "good" if good and len(read) == len(runs) else "plain"
    return Answer(tuple(filter(None, sentences)), tone)


def _reason(run: Run) -> str:
    return run.message.partition("\n")[0].replace(run.path, "").strip(": ")


def _failed(first: FirstFailure, ranks: int) -> str:
    name, how = short_name(first.rank), _how_known(first)
    words = f"{format_count(first.failed)} of {format_count(ranks)} ranks ran out of memory{f', {how}' if how else ''}."
    if first.failure is None:
        return words if how else f"{words[:-1]}: {name}."
    own = failure_sentence([first.failure], first.terms, name)
    numbered = first.rank[-1:].isdecimal()  # and no file's name
    return f"{words} {own[:1].upper() if numbered else own[:1]}{own[1:]}"


def _how_known(first: FirstFailure) -> str:
    """How a rank is known to have failed first, in words; ``""`` where it is the only one."""
    name, after = short_name(first.rank), short_name(first.next_rank or "")
    if first.known_by == "time":
        doubt = ", less than clocks of machines may differ by" if first.within_clocks else ""
        return f"{name} first by the time stamps ({format_duration(first.lead_us or 0)} before {after}{doubt})"
    if first.known_by == "progress":
        fewer = plural(first.lead_allocs or 0, "allocation")
        return f"{name} first by its progress ({fewer} fewer than {after}; time stamps do not tell)"
    return "" if first.known_by == "only" else f"which of them first is not known ({name} is the first in order)"


def _spread(ranks: Ranks, count: int, read: int) -> str:
    who = plural(count, "rank") + (f", {format_count(read)} of them with figures" if read < count else "")
    if not ranks.spreads:
        return f"{who}: their logs tell of no such figure."
    one = ranks.spreads[0]
    write, noun = BY_KEY[one.metric].text, _NOUNS.get(one.metric, BY_KEY[one.metric].words.lower())
    lowest, median, highest = map(write, (one.min, one.median, one.max))
    if one.min == one.max:
        words = f"{noun} of {median}, alike" + (" to the byte" if BY_KEY[one.metric].kind == "bytes" else "")
    elif lowest == highest:
        words = f"{noun} of about {median}, at most {write(one.max - one.min)} apart"
    else:
        words = f"{noun} of {lowest} to {highest}, median {median}"
    missing = len(ranks.missing)
    if missing:
        first = short_name(ranks.missing[0])
        words += (
            f"; {first} has no log"
            if missing == 1
            else f"; {format_count(missing)} ranks have no log, {first} the first"
        )
    return f"{who}: {words}."


def _stand_out(comparison: Comparison, ranks: Ranks) -> str:
    groups = alike_outliers(comparison)
    count = sum(len(group.outliers) for group in groups)
    if not count:
        return _nobody(ranks)
    by_path = {run.path: run for run in comparison.runs}
    words = "; ".join(_group_words(group, by_path[group.outliers[0].path]) for group in groups[:_NAMED])
    if left := sum(len(group.outliers) for group in groups[_NAMED:]):
        words += f"; and {format_count(left)} more"
    return f"{'One rank stands' if count == 1 else f'{format_count(count)} ranks stand'} out: {words}."


def _nobody(ranks: Ranks) -> str:
    if not ranks.spreads or ranks.spreads[0].ranks < 4:
        return "Of fewer than four ranks none can stand out." if ranks.spreads else ""
    if ranks.modes and not ranks.peers_by:
        write = BY_KEY[ranks.spreads[0].metric].text
        sizes = sorted(ranks.groups, key=lambda group: -group.ranks)[:_NAMED]
        listed = "; ".join(f"{format_count(group.ranks)} of about {write(group.median)}" for group in sizes)
        many = len(ranks.groups)
        return f"They fall into {many} groups that no field of the paths tells apart: {listed}. No rank stands out in its group."
    among = f" among the ranks of its {' and '.join(map(short_name, ranks.peers_by))}" if ranks.peers_by else ""
    return f"No rank stands out{among}."


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


def _group_words(group: AlikeOutliers, run: Run) -> str:
    one, count = group.outliers[0], len(group.outliers)
    metric = BY_KEY[one.metric]
    low, high = (metric.text(abs(end(each.off for each in group.outliers))) for end in (min, max))
    by = low if low == high else f"{low} to {high}"
    more = "more" if one.off > 0 else "less"
    does, do, when = _DOES.get(one.metric, ("has", "have", f" of {metric.words.lower()}"))
    if count > 1:
        name = f"{short_name(one.rank)} and {format_count(count - 1)} more{group.where and f', {group.where},'}"
        words = f"{name} {do} {by} {more}{when} than their peers"
    else:
        words = f"{short_name(one.rank)} {does} {by} {more}{when} than its peers"
    if one.holds:
        words += f", {_in_blocks(one)}"
    doubts = ", ".join(code.replace("_", " ") for code in run.doubts if not code.startswith("no_"))
    # What a log does not tell of changes no other figure.
    return f"{words} (its log is in doubt: {doubts})" if doubts and count == 1 else words


def _in_blocks(one: Outlier) -> str:
    most = one.holds[0]
    blocks = f"{plural(most.blocks, 'block')} of {format_bytes(most.size_bytes)}"
    blocks += f" of {short_name(most.owner)}" if most.owner else ""
    if most.more_bytes > one.off * 1.005:  # what it holds less of than they do takes a part of that away
        return f"with {format_bytes(most.more_bytes)} more in {blocks}, and less in others"
    part = f"{format_bytes(most.more_bytes)} of it " if most.more_bytes < one.off * 0.995 else ""
    return f"{part}in {blocks}"


def _ended_early(ranks: Ranks) -> str:
    if not (found := ranks.ended_early):
        return ""
    one, log = found[0], "The logs of" if len(found) > 1 else "The log of"
    counts = f"{plural(one.allocs, 'allocation')}, {format_count(one.median_allocs)} in that of {short_name(one.median_rank)}"
    if len(found) > 1:
        return f"{log} {name_list([each.rank for each in found])} end early ({short_name(one.rank)}: {counts})."
    return f"{log} {short_name(one.rank)} ends early ({counts})."
