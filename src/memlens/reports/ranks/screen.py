"""What the ranks of a job show to people: the verdict, how they spread, which stand out and by what, and how they differ by field."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import log
from typing import TYPE_CHECKING

from memlens.ranking.verdict import unreadable_reasons
from memlens.reports.blocks import Block, Column, Line, Table, answered, apart, cells, labelled, unbroken
from memlens.reports.ranks.tables import (
    TITLES,
    all_ranks_table,
    failed_table,
    groups_table,
    outliers_table,
    skews_table,
)
from memlens.reports.terminal import Part, fits, one_screen
from memlens.text import NO_BREAK, format_count, name_list, plural, short_name
from memlens.units import format_bytes

if TYPE_CHECKING:
    from memlens.ranking.result import Rank, Ranking, RankOutlier
    from memlens.ranking.spread import MetricSpread

__all__ = ["ranks_blocks"]

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
    lists = (failed_table, outliers_table, groups_table, skews_table)
    everything: list[Block] = [*answered(ranking.answer), None, *head]
    everything += apart(*spread) if spread else ()
    for make in lists:
        everything += [block for table in make(ranking, most) for block in apart(table)]
        if make is outliers_table and diffs:
            everything += apart(*diffs)
    if full:
        everything += [block for table in all_ranks_table(ranking, most) for block in apart(table)]
    if full or top is not None or fits(everything):
        return everything
    failed, outliers, groups, skews = (_shorter(make, ranking) for make in lists)
    bad = [line for line in head if line.style == "bad"]
    parts = (
        Part((head, [line for line in head if line.style != "quiet"], bad), 12),
        Part((_screen_tables(spread), _screen_tables(spread[:1]), ()), 13),
        Part(failed, 2),
        Part(outliers, 3),
        Part((_screen_tables(diffs), _screen_tables(diffs[:1]), ()), 7),
        Part((*groups, ()), 0),
        Part((*skews[::3], ()), 11),
    )
    return one_screen(ranking.answer, parts)


def _shorter(make: Callable[[Ranking, int], Iterator[Table]], ranking: Ranking) -> tuple[Sequence[Block], ...]:
    """A table with fewer and fewer rows; nothing where it has none."""
    return tuple(_screen_tables([*make(ranking, rows)]) for rows in _ROWS)


def _screen_tables(blocks: Sequence[Block]) -> Sequence[Block]:
    """Blocks behind an empty line, if there are any; tables do not say which of their columns have no room, for on one screen other lines say more."""
    shown = [replace(block, says_hidden=False) if isinstance(block, Table) else block for block in blocks]
    return apart(*shown) if shown else ()


def _head(ranking: Ranking) -> Iterator[Line]:
    counts = {name: len(values) for name, values in ranking.fields.items()}
    several = [
        f"{format_count(count)} of {short_name(name)}"
        for name, count in counts.items()
        if 1 < count < len(ranking.ranks)
    ]
    counted = f"{plural(len(ranking.ranks), 'rank')}{'; values: ' if several else ''}{', '.join(several)}"
    yield Line(counted, "quiet", ranking.template or "", label="Ranks")
    if ranking.by is not None:
        found = sorted({rank.windows for rank in ranking.read})
        windows = " to ".join(map(format_count, dict.fromkeys((found[0], found[-1])))) if found else "no"
        words = f"{windows} windows a rank by {ranking.by}; figures are those of its median window"
        yield Line(words, label="Windows")
    elif ranking.cut and ranking.read:
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
        where = "its log" if len(ranks) == 1 else f"any of the {format_count(len(ranks))} logs"
        yield Line(f"ok: nothing to doubt in {where}", "good", label="Trust")
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
    yield Table("", tuple(columns), tuple(cells(columns, ranking.spreads, metric=lambda one: TITLES[one.metric])))
    for one in ranking.spreads[:2]:
        if one.max_bytes > one.min_bytes:
            yield Line(_histogram(one), "plain", label=TITLES[one.metric])


def _histogram(one: MetricSpread) -> str:
    """How many ranks lie where between the lowest figure and the highest, on a scale of logarithms: one rank shows among ten thousand."""
    most = max(one.histogram)
    bars = [
        NO_BREAK if not count else _BARS[int(7 * log(count) / log(most)) if most > 1 else 7] for count in one.histogram
    ]
    ends = (format_bytes(one.min_bytes).replace(" ", NO_BREAK), format_bytes(one.max_bytes).replace(" ", NO_BREAK))
    return f"{ends[0]}{NO_BREAK}{''.join(bars)}{NO_BREAK}{ends[1]}"


def _diffs(ranking: Ranking) -> list[Line]:
    """What the diffs say, one that is alike in several ranks once."""
    said: dict[str, list[RankOutlier]] = {}
    for one in ranking.outliers:
        if one.diff is not None:
            said.setdefault(one.diff.verdict, []).append(one)
    return [
        Line(
            unbroken(f"against {short_name(found[0].median_rank)} (base), which has the median: {verdict}"),
            name=name_list([one.rank for one in found]),
            label=" " if number else "Diff",
        )
        for number, (verdict, found) in enumerate(said.items())
    ]
