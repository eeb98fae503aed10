"""The tables of the ranks of a job: those that failed, those that stand out, groups of peers, skews, and all ranks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from memlens.ranking.verdict import AlikeOutliers, alike_outliers
from memlens.reports.blocks import Column, Table, Toned, Value, cells, take
from memlens.text import format_change, format_count, format_moment, short_name
from memlens.units import format_bytes, format_signed

if TYPE_CHECKING:
    from memlens.ranking.result import Ranking
    from memlens.ranking.spread import FieldSkew

__all__ = ["TITLES", "all_ranks_table", "failed_table", "groups_table", "outliers_table", "skews_table"]

TITLES = {"peak_bytes": "Peak", "reserved_peak_bytes": "Reserved", "live_bytes": "Live at end"}


def failed_table(ranking: Ranking, top: int) -> Iterator[Table]:
    """The ranks that ran out of memory, by time where that is known."""
    found = [rank for rank in ranking.ranks if rank.status == "oom"]
    if len(found) < 2:
        return
    timed = ranking.first is not None and ranking.first.first.known_by == "time"
    if timed:
        found.sort(key=lambda rank: rank.oom_time_us or 0)
    columns = (
        Column("name", "Rank", "name"),
        Column("oom_requested_bytes", "Asked for", "bytes", strong=True),
        Column("peak_bytes", "Peak", "bytes"),
        Column("reserved_peak_bytes", "Reserved", "bytes"),
        Column("time", "Time of its log", "word", drop=1),
    )
    rows = cells(columns, found, time=lambda rank: "" if rank.oom_time_us is None else format_moment(rank.oom_time_us))
    title = f"Ran out of memory{', the first one first' if timed else ''}"
    yield take(title, columns, rows, len(found), top, "rank")


def outliers_table(ranking: Ranking, top: int) -> Iterator[Table]:
    """The ranks that stand out, those that are alike in one row."""
    groups = alike_outliers(ranking)
    if not groups:
        return
    several = len({group.outliers[0].metric for group in groups}) > 1
    columns = [
        Column("rank", "Rank", "name"),
        *([Column("metric", "Figure", "word")] if several else []),
        Column("figure", "Bytes" if several else TITLES[groups[0].outliers[0].metric], "bytes", drop=3),
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
        *([TITLES[one.metric]] if several else []),
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


def groups_table(ranking: Ranking, top: int) -> Iterator[Table]:
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
    title = f"{TITLES[spread.metric]} of each group of peers"
    yield take(title, columns, rows, spread.group_count, top, "group")


def skews_table(ranking: Ranking, top: int) -> Iterator[Table]:
    """How the peak differs by the fields of the paths."""
    shown = [skew for skew in ranking.skews if skew.skew_bytes]
    if not shown:
        return
    columns = (
        Column("field", "Field", "name"),
        Column("values", "Values", "count"),
        Column("lowest", "Lowest", "name"),
        Column("lowest_off_bytes", "Off", "net"),
        Column("highest", "Highest", "name"),
        Column("highest_off_bytes", "Off", "net"),
        Column("explained", "Explains", "word"),
        Column("stand_out", "Stand out", "name", drop=1),
    )
    rows = cells(columns, shown, explained=_percent, stand_out=_stand_out)
    beyond = next((skew.beyond for skew in shown if skew.beyond), ())
    besides = f"; {' and '.join(map(short_name, beyond))} taken out of the others" if beyond else ""
    yield take(f"Medians of the peak by field, off that of all{besides}", columns, rows, len(shown), top, "field")


def _percent(skew: FieldSkew) -> str:
    percent = 100 * skew.explained
    return "<1 %" if 0 < percent < 1 else f"{percent:.0f} %"


def _stand_out(skew: FieldSkew) -> str:
    return ", ".join(short_name(one.value) for one in skew.stand_out[:3]) + (" …" if len(skew.stand_out) > 3 else "")


def all_ranks_table(ranking: Ranking, top: int) -> Iterator[Table]:
    """A row a rank."""
    columns = (
        Column("name", "Rank", "name"),
        Column("peak_bytes", "Peak", "bytes"),
        Column("reserved_peak_bytes", "Reserved", "bytes"),
        Column("live_bytes", "Live at end", "bytes"),
        Column("allocs", "Allocs", "count"),
        Column("status", "Status", "word"),
    )
    rows = cells(
        columns, ranking.ranks, status=lambda rank: "" if rank.status == "ok" else rank.status.replace("_", " ")
    )
    yield take("All ranks", columns, rows, len(ranking.ranks), top, "rank")
