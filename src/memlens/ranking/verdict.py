"""What the ranks of a job come to, in one to three sentences: which one failed first, how they spread, which stand out and by what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from memlens.analyzers.failures import failure_sentence
from memlens.text import Answer, format_count, format_duration, plural, short_name
from memlens.units import format_bytes

if TYPE_CHECKING:
    from memlens.ranking.held import HeldMore
    from memlens.ranking.result import FailureOfRanks, Rank, Ranking, RankOutlier

__all__ = ["AlikeOutliers", "alike_outliers", "answer_of", "failed_first", "held_words", "unreadable_reasons"]

#: Ranks that a sentence names.
_NAMED = 3
_PEAKS = {"peak_bytes": "peaks", "reserved_peak_bytes": "reserved peaks", "live_bytes": "live bytes at the end"}
_HOLDS = {
    "peak_bytes": "holds {} {} than its peers",
    "reserved_peak_bytes": "reserves {} {} than its peers",
    "live_bytes": "keeps {} {} to its end than its peers",
}


_EACH = {"peak_bytes": "hold", "reserved_peak_bytes": "reserve", "live_bytes": "keep to their end"}


def answer_of(ranking: Ranking) -> Answer:
    """The verdict."""
    if not ranking.read:
        return Answer((_none_read(ranking),), "bad")
    sentences = [*_failed(ranking), _spread(ranking), _stand_out(ranking)]
    bad = ranking.first is not None
    good = not bad and ranking.spreads and not ranking.outliers and len(ranking.read) == len(ranking.ranks)
    return Answer(tuple(filter(None, sentences)), "bad" if bad else "good" if good else "plain")


def unreadable_reasons(ranks: Sequence[Rank]) -> dict[str, list[Rank]]:
    """The ranks without figures by why, the most frequent reason first; text from logs and paths."""
    found: dict[str, list[Rank]] = {}
    for rank in ranks:
        if rank.message:
            reason = rank.message.partition("\n")[0].replace(rank.path, "").strip(": ")
            found.setdefault(reason, []).append(rank)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def _none_read(ranking: Ranking) -> str:
    reason, ranks = next(iter(unreadable_reasons(ranking.ranks).items()), ("", ranking.ranks))
    count = len(ranking.ranks)
    who = "The only rank could not be read" if count == 1 else f"None of {format_count(count)} ranks could be read"
    share = "" if len(ranks) == count else f" ({format_count(len(ranks))} of them)"
    return f"{who}: {reason}{share}."


def _failed(ranking: Ranking) -> Iterator[str]:
    if ranking.first is not None:
        failed, count = ranking.first.first.failed, format_count(len(ranking.ranks))
        told = failed_first(ranking.first)
        words = f"{format_count(failed)} of {count} ranks ran out of memory{f', {told}' if told else ''}."
        own = failure_sentence(
            [ranking.first.failed.failure], ranking.first.failed.terms, short_name(ranking.first.rank)
        )
        numbered = ranking.first.rank[-1:].isdecimal()  # and no file's name
        yield f"{words} {own[:1].upper()}{own[1:]}" if numbered else f"{words} {own}"


def failed_first(first: FailureOfRanks) -> str:
    """How a rank is known to have failed first, in words; ``""`` where it is the only one."""
    name, how = short_name(first.rank), first.first
    after = short_name(first.next_rank or "")
    if how.known_by == "time":
        doubt = ", less than clocks of machines may differ by" if how.within_clocks else ""
        return f"{name} first by the time stamps ({format_duration(how.lead_us or 0)} before {after}{doubt})"
    if how.known_by == "progress":
        fewer = plural(how.lead_allocs or 0, "allocation")
        return f"{name} first by its progress ({fewer} fewer than {after}; time stamps do not tell)"
    return "" if how.known_by == "only" else f"which of them first is not known ({name} is the first in order)"


def _spread(ranking: Ranking) -> str:
    count, read = len(ranking.ranks), len(ranking.read)
    who = plural(count, "rank")
    if read < count:
        who += f", {format_count(read)} of them with figures"
    if not ranking.spreads:
        return f"{who}: their logs tell of no bytes."
    one = ranking.spreads[0]
    lowest, median, highest = map(format_bytes, (one.min_bytes, one.median_bytes, one.max_bytes))
    if one.ranks == 1:
        words = f"a {_PEAKS[one.metric].replace('peaks', 'peak')} of {median}"
    elif one.min_bytes == one.max_bytes:
        words = f"all {_PEAKS[one.metric]} are {median}, to the byte"
    elif lowest == highest:
        words = f"{_PEAKS[one.metric]} of about {median}, at most {format_bytes(one.max_bytes - one.min_bytes)} apart"
    else:
        words = f"{_PEAKS[one.metric]} of {lowest} to {highest}, median {median}"
    missing = f"; {_missing(ranking)}" if ranking.missing else ""
    return f"{who}: {words}{missing}."


def _missing(ranking: Ranking) -> str:
    count = len(ranking.missing)
    if count == 1:
        return f"{short_name(ranking.missing[0])} has no log"
    return f"{format_count(count)} ranks have no log, {short_name(ranking.missing[0])} the first"


def _stand_out(ranking: Ranking) -> str:
    if not ranking.outliers:
        return _nobody(ranking)
    groups = alike_outliers(ranking)
    count = sum(len(group.outliers) for group in groups)
    words = "; ".join(_group_words(group) for group in groups[:_NAMED])
    if left := sum(len(group.outliers) for group in groups[_NAMED:]):
        words += f"; and {format_count(left)} more"
    return f"{'One rank stands' if count == 1 else f'{format_count(count)} ranks stand'} out: {words}."


@dataclass(frozen=True)
class AlikeOutliers:
    """Ranks that stand out by the same figure in the same direction, and hold more of the same blocks in the first place.

    Attributes:
        outliers: The farthest first.
        where: Of several ranks what their paths share and few others have, in words, or ``""``; text from paths is in it.
    """

    outliers: tuple[RankOutlier, ...]
    where: str


def alike_outliers(ranking: Ranking) -> list[AlikeOutliers]:
    """The ranks that stand out, each by the first of its figures that does, in groups that are alike; the farthest first."""
    groups: dict[tuple[object, ...], list[RankOutlier]] = {}
    seen: set[str] = set()
    for one in ranking.outliers:
        if one.path not in seen:
            seen.add(one.path)
            most = one.holds[0] if one.holds and one.off_bytes > 0 else None
            kind = (most.size_bytes, most.blocks, most.owner) if most else None
            groups.setdefault((one.metric, one.off_bytes > 0, kind), []).append(one)
    return [AlikeOutliers(tuple(group), _common(ranking, group)) for group in groups.values()]


def _group_words(group: AlikeOutliers) -> str:
    first, count = group.outliers[0], len(group.outliers)
    if count == 1:
        return _words(first)
    low, high = (format_bytes(abs(end(one.off_bytes for one in group.outliers))) for end in (min, max))
    by = low if low == high else f"{low} to {high}"
    name = f"{short_name(first.rank)} and {format_count(count - 1)} more{group.where and f', {group.where},'}"
    words = f"{name} {_EACH[first.metric]} {by} {'more' if first.off_bytes > 0 else 'less'} than their peers"
    return f"{words}, {_in_blocks(first)}" if first.off_bytes > 0 and first.holds else words


def _nobody(ranking: Ranking) -> str:
    if not ranking.spreads:
        return ""
    spread = ranking.spreads[0]
    if spread.modes and not spread.peers_by:
        groups = "; ".join(
            f"{format_count(group.ranks)} of about {format_bytes(group.median_bytes)}"
            for group in sorted(spread.groups, key=lambda group: -group.ranks)[:_NAMED]
        )
        return f"They fall into {spread.group_count} groups that no field of the paths tells apart: {groups}. No rank stands out in its group."
    if spread.ranks < 4:
        return "Of fewer than four ranks none can stand out."
    among = f" among the ranks of its {' and '.join(map(short_name, spread.peers_by))}" if spread.peers_by else ""
    return f"No rank stands out{among}."


def _words(one: RankOutlier) -> str:
    """What is said of one rank."""
    name = short_name(one.rank)
    more = "more" if one.off_bytes > 0 else "less"
    words = f"{name} {_HOLDS[one.metric].format(format_bytes(abs(one.off_bytes)), more)}"
    told = ", ".join(code.replace("_", " ") for code in one.doubts if not code.startswith("no_"))
    doubt = f" (its log is in doubt: {told})" if told else ""  # what a log does not tell of changes no other figure
    if one.off_bytes > 0 and one.holds:
        words += f", {_in_blocks(one)}"
    shorter, longer = sorted((one.allocs, one.median_allocs))
    # It holds less and ended sooner than its peers, or holds more and went on for longer.
    by_length = (one.off_bytes > 0) == (one.allocs == longer)
    if by_length and 2 * shorter < longer:
        usual = f"that of {short_name(one.median_rank)} {format_count(one.median_allocs)}"
        words += f" (its log has {plural(one.allocs, 'allocation')}, {usual})"
    return f"{words}{doubt}"


def _in_blocks(one: RankOutlier) -> str:
    most = one.holds[0]
    if most.more_bytes > one.off_bytes * 1.005:  # what it holds less of than they do takes a part of that away
        least = "at least " if most.at_least else ""
        more = replace(most, at_least=False)
        return f"with {least}{format_bytes(most.more_bytes)} more in {held_words(more)}, and less in others"
    part = f"{format_bytes(most.more_bytes)} of it " if most.more_bytes < one.off_bytes * 0.995 else ""
    return f"{part}in {held_words(most)}"


def held_words(held: HeldMore) -> str:
    """``2 blocks of 1.05 GiB of embedding``; text from a log is in it."""
    least = "at least " if held.at_least else ""
    owner = f" of {short_name(held.owner)}" if held.owner else ""
    return f"{least}{plural(held.blocks, 'block')} of {format_bytes(held.size_bytes)}{owner}"


def _common(ranking: Ranking, found: Sequence[RankOutlier]) -> str:
    """The value of a field that all of some ranks share, and few others have."""
    if len(found) < 2:
        return ""
    chosen = {one.path for one in found}
    own = [rank.fields for rank in ranking.ranks if rank.path in chosen]
    for name, values in ranking.fields.items():
        shared = {fields[name] for fields in own}
        if len(values) < 2 or len(shared) > 1 or not (value := next(iter(shared))):
            continue
        having = Counter(rank.fields[name] for rank in ranking.ranks)[value]
        if having <= 2 * len(found):
            part = "all" if having == len(found) else f"{format_count(len(found))} of the {format_count(having)}"
            return f"{part} of {short_name(f'{name} {value}')}"
    return ""
