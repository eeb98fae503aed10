"""What the ranks of a job show to people: the verdict, how they spread, which stand out and by what, and how they differ by field."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import log
from typing import TYPE_CHECKING

from memlens.ranking.verdict import AlikeOutliers, alike_outliers, unreadable_reasons
from memlens.reports.blocks import Block, Column, Line, Table, Toned, Value, answered, apart, labelled, take
from memlens.reports.terminal import Part, fits, one_screen
from memlens.text import NO_BREAK, format_change, format_count, format_moment, name_list, plural, short_name
from memlens.units import format_bytes, format_signed

if TYPE_CHECKING:
    from memlens.ranking.result import Rank, Ranking, RankOutlier
    from memlens.ranking.spread import FieldSkew, MetricSpread

__all__ = ["ranks_blocks"]

_TITLES = {"peak_bytes": "Peak", "reserved_peak_bytes": "Reserved", "live_bytes": "Live at end"}
_BARS = "▁▂▃▄▅▆▇█"
#: Rows of the tables of one screen, from the most to the least.
_ROWS = (10, 8, 6, 5, 4, 3, 2)
_TOP = 20


def ranks_blocks(ranking: Ranking, *, top: int | None = None, full: bool = False) -> list[Block]:
    """The verdict, and what it rests on.

    Args:
        ranking: What to show.
        top: Rows of each list; ``None`` for as many as fit.
        full: Show everything; without it, and without ``top``, all of it is one screen.
    """
    most = max(len(ranking.ranks), 1) if full and top is None else _TOP if top is None else top
    head, spread, diffs = [*_head(ranking)], [*_spreads(ranking)], [*_diffs(ranking)]
    lists = (_failed, _outliers, _groups, _skews)
    everything: list[Block] = [*answered(ranking.answer), None, *head]
    everything += apart(*spread) if spread else ()
    for make in lists:
        everything += [block for table in make(ranking, most) for block in apart(table)]
        if make is _outliers and diffs:
            everything += apart(*diffs)
    if full:
        everything += [block for table in _all_ranks(ranking, most) for block in apart(table)]
    if full or top is not None or fits(everything):
        return everything
    parts = [
        Part(
            (head, [line for line in head if line.style != "quiet"], [line for line in head if line.style == "bad"]), 12
        ),
        Part((apart(*spread), apart(spread[0]) if spread else (), ()), 13),
    ]
    for make, weight in zip(lists, (2, 3, 0, 9), strict=True):
        versions = [
            [block for table in make(ranking, rows) for block in apart(*_without_notes([table]))] for rows in _ROWS
        ]
        if versions[0]:
            parts.append(Part((*versions[:: 3 if make is _skews else 1], ()), weight))
        if make is _outliers and diffs:
            parts.append(Part((apart(*diffs), apart(diffs[0]), ()), 7))
    return one_screen(ranking.answer, parts)


def _without_notes(blocks: Sequence[Block]) -> list[Block]:
    """Tables that do not say which of their columns have no room: on one screen other lines say more."""
    return [replace(block, says_hidden=False) if isinstance(block, Table) else block for block in blocks]


def _head(ranking: Ranking) -> Iterator[Line]:
    varying = {name: values for name, values in ranking.fields.items() if len(values) > 1}
    product = ", ".join(f"{format_count(len(values))} {short_name(name)}" for name, values in varying.items())
    counted = plural(len(ranking.ranks), "rank")
    yield Line(f"{counted}: {product}" if len(varying) > 1 else counted, "quiet", ranking.template or "", label="Ranks")
    if ranking.by is not None:
        counts = sorted({rank.windows for rank in ranking.read})
        several = (
            f"{format_count(counts[0])} to {format_count(counts[-1])}"
            if len(counts) > 1
            else f"{counts[0] if counts else 0}"
        )
        yield Line(f"{several} windows a rank by {ranking.by}; figures are those of its median window", label="Windows")
    elif ranking.cut:
        yield Line("", name=name_list(tuple(dict.fromkeys(rank.window for rank in ranking.read))), label="Window")
    if ranking.missing:
        yield Line(_runs_of(ranking.missing), "bad", label="Missing")
    for problem in ranking.problems:
        yield Line(problem, "bad", label="Folder")
    reasons = unreadable_reasons(ranking.ranks)
    lines = [
        Line(f"{plural(len(ranks), 'rank')}: {reason} ({_names(ranks)})", "bad") for reason, ranks in reasons.items()
    ]
    yield from labelled("No figures", lines, "more reason")
    yield from _trust(ranking.read)
    yield from _survivors(ranking.read)
    if ranking.spreads and (fields := ranking.spreads[0].peers_by):
        by = " and ".join(map(short_name, fields))
        yield Line(f"the ranks of one {by}: most of the spread is between them", "quiet", label="Peers")


def _names(ranks: Sequence[Rank]) -> str:
    return name_list([rank.name for rank in ranks])


def _runs_of(names: Sequence[str]) -> str:
    """Names of which neighbouring numbers are put together: ``rank 3, rank 64 to 71``."""
    runs: list[list[str]] = []
    for name in names:
        head, _, number = name.rpartition(" ")
        if runs:
            last_head, _, last = runs[-1][-1].rpartition(" ")
            if head == last_head and number.isdecimal() and last.isdecimal() and int(number) == int(last) + 1:
                runs[-1].append(name)
                continue
        runs.append([name])
    return name_list([run[0] if len(run) == 1 else f"{run[0]} to {run[-1].rpartition(' ')[2]}" for run in runs])


def _trust(ranks: Sequence[Rank]) -> Iterator[Line]:
    doubts: dict[str, list[Rank]] = {}
    for rank in ranks:
        for code in rank.doubts:
            doubts.setdefault(code.replace("_", " "), []).append(rank)
    if ranks and not doubts:
        yield Line(f"ok: nothing to doubt in any of the {format_count(len(ranks))} logs", "good", label="Trust")
    lines = [
        Line(f"{words} in {format_count(len(found))} of {format_count(len(ranks))} logs ({_names(found)})", "doubt")
        for words, found in sorted(doubts.items(), key=lambda item: -len(item[1]))
    ]
    yield from labelled("Doubt", lines, "more doubt")


def _survivors(ranks: Sequence[Rank]) -> Iterator[Line]:
    found = [rank for rank in ranks if rank.ooms and rank.status != "oom"]
    if found:
        yield Line(
            f"{plural(len(found), 'rank')} met an out-of-memory failure and went on ({_names(found)})", label="Note"
        )


def _spreads(ranking: Ranking) -> Iterator[Block]:
    if not ranking.spreads:
        return
    titles = {
        "min_bytes": "Lowest",
        "lower_quartile_bytes": "25 %",
        "median_bytes": "Median",
        "upper_quartile_bytes": "75 %",
        "max_bytes": "Highest",
    }
    columns = [
        Column("metric", "", "word"),
        *(Column(key, title, "bytes", strong=key == "median_bytes") for key, title in titles.items()),
        Column("max_rank", "Highest in", "name", drop=1),
        Column("min_rank", "Lowest in", "name", drop=2),
    ]
    rows = tuple(
        (_TITLES[one.metric], *(getattr(one, key) for key in titles), one.max_rank, one.min_rank)
        for one in ranking.spreads
    )
    yield Table("", tuple(columns), rows)
    for one in ranking.spreads[:2]:
        if one.max_bytes > one.min_bytes:
            yield Line(_histogram(one), "plain", label=_TITLES[one.metric])


def _histogram(one: MetricSpread) -> str:
    """How many ranks lie where between the lowest figure and the highest, on a scale of logarithms: one rank shows among ten thousand."""
    most = max(one.histogram)
    bars = [
        NO_BREAK if not count else _BARS[int(7 * log(count) / log(most)) if most > 1 else 7] for count in one.histogram
    ]
    ends = (format_bytes(one.min_bytes).replace(" ", NO_BREAK), format_bytes(one.max_bytes).replace(" ", NO_BREAK))
    return f"{ends[0]}{NO_BREAK}{''.join(bars)}{NO_BREAK}{ends[1]}"


def _failed(ranking: Ranking, top: int) -> Iterator[Table]:
    """The ranks that ran out of memory, by time where that is known."""
    found = [rank for rank in ranking.ranks if rank.status == "oom"]
    if len(found) < 2:
        return
    timed = ranking.first is not None and ranking.first.first.known_by == "time"
    if timed:
        found.sort(key=lambda rank: rank.oom_time_us or 0)
    columns = (
        Column("name", "Rank", "name"),
        Column("asked", "Asked for", "bytes", strong=True),
        Column("peak_bytes", "Peak", "bytes"),
        Column("reserved", "Reserved", "bytes"),
        Column("time", "Time of its log", "word", drop=1),
    )
    rows = (
        (
            rank.name,
            rank.oom_requested_bytes,
            rank.peak_bytes,
            rank.reserved_peak_bytes,
            "" if rank.oom_time_us is None else format_moment(rank.oom_time_us),
        )
        for rank in found
    )
    title = f"Ran out of memory{', the first one first' if timed else ''}"
    yield take(title, columns, rows, len(found), top, "rank")


def _outliers(ranking: Ranking, top: int) -> Iterator[Table]:
    """The ranks that stand out, those that are alike in one row."""
    groups = alike_outliers(ranking)
    if not groups:
        return
    several = len({group.outliers[0].metric for group in groups}) > 1
    columns = [
        Column("rank", "Rank", "name"),
        *([Column("metric", "Figure", "word")] if several else []),
        Column("figure", "Bytes" if several else _TITLES[groups[0].outliers[0].metric], "bytes", drop=3),
        Column("off", "Off peers", "count", strong=True),
        Column("percent", "%", "count", drop=2),
        Column("peers", "Peers", "count", drop=4),
        Column("z", "z", "count", drop=5),
        Column("holds", "Holds more", "word"),
        Column("owner", "Of", "name"),
        Column("where", "Where", "name", drop=1),
    ]
    rows = (_outlier(group, several=several) for group in groups)
    yield take("Stand out among their peers", columns, rows, len(groups), top, "row")


def _outlier(group: AlikeOutliers, *, several: bool) -> list[Value]:
    one, more = group.outliers[0], len(group.outliers) - 1
    held = one.holds[0] if one.holds and one.off_bytes > 0 else None
    return [
        f"{one.rank} +{format_count(more)}" if more else one.rank,
        *([_TITLES[one.metric]] if several else []),
        one.figure_bytes,
        Toned.change(format_signed(one.off_bytes), one.off_bytes),
        format_change(one.median_bytes, one.figure_bytes),
        one.peers,
        "" if one.z is None else f"{one.z:+.1f}",
        ""
        if held is None
        else f"{'at least ' if held.at_least else ''}{format_count(held.blocks)} × {format_bytes(held.size_bytes)}",
        "" if held is None else held.owner,
        group.where,
    ]


def _diffs(ranking: Ranking) -> list[Line]:
    """What the diffs say, one that is alike in several ranks once."""
    said: dict[str, list[RankOutlier]] = {}
    for one in ranking.outliers:
        if one.diff is not None:
            said.setdefault(one.diff.verdict, []).append(one)
    return [
        Line(
            f"against {short_name(found[0].median_rank)} (base), which has the median: {verdict}",
            name=name_list([one.rank for one in found]),
            label=" " if number else "Diff",
        )
        for number, (verdict, found) in enumerate(said.items())
    ]


def _groups(ranking: Ranking, top: int) -> Iterator[Table]:
    """The groups of peers by the peak."""
    if not ranking.spreads or not ranking.spreads[0].groups:
        return
    spread = ranking.spreads[0]
    columns = (
        Column("name", "Peers" if spread.peers_by else "Group", "name"),
        Column("ranks", "Ranks", "count"),
        Column("min", "Lowest", "bytes"),
        Column("median", "Median", "bytes", strong=True),
        Column("max", "Highest", "bytes"),
    )
    rows = (
        (group.name or f"{number}", group.ranks, group.min_bytes, group.median_bytes, group.max_bytes)
        for number, group in enumerate(spread.groups, 1)
    )
    title = f"{_TITLES[spread.metric]} of each group of peers"
    yield take(title, columns, rows, spread.group_count, top, "group")


def _skews(ranking: Ranking, top: int) -> Iterator[Table]:
    shown = [skew for skew in ranking.skews if skew.skew_bytes]
    if not shown:
        return
    columns = (
        Column("field", "Field", "name"),
        Column("values", "Values", "count"),
        Column("lowest", "Lowest", "name"),
        Column("low", "Off", "net"),
        Column("highest", "Highest", "name"),
        Column("high", "Off", "net"),
        Column("explains", "Explains", "word"),
        Column("out", "Stand out", "name", drop=1),
    )
    rows = (_skew(skew) for skew in shown)
    beyond = next((skew.beyond for skew in shown if skew.beyond), ())
    besides = f"; {' and '.join(map(short_name, beyond))} taken out of the others" if beyond else ""
    yield take(f"Medians of the peak by field, off that of all{besides}", columns, rows, len(shown), top, "field")


def _skew(skew: FieldSkew) -> list[Value]:
    percent = 100 * skew.explained
    return [
        skew.field,
        skew.values,
        skew.lowest,
        skew.lowest_off_bytes,
        skew.highest,
        skew.highest_off_bytes,
        "<1 %" if 0 < percent < 1 else f"{percent:.0f} %",
        ", ".join(short_name(one.value) for one in skew.stand_out[:3]) + (" …" if len(skew.stand_out) > 3 else ""),
    ]


def _all_ranks(ranking: Ranking, top: int) -> Iterator[Table]:
    columns = (
        Column("name", "Rank", "name"),
        Column("peak", "Peak", "bytes"),
        Column("reserved", "Reserved", "bytes"),
        Column("live", "Live at end", "bytes"),
        Column("allocs", "Allocs", "count"),
        Column("status", "Status", "word"),
    )
    rows = (
        (
            rank.name,
            rank.peak_bytes,
            rank.reserved_peak_bytes,
            rank.live_bytes,
            rank.allocs,
            "" if rank.status == "ok" else rank.status.replace("_", " "),
        )
        for rank in ranking.ranks
    )
    yield take("All ranks", columns, rows, len(ranking.ranks), top, "rank")
