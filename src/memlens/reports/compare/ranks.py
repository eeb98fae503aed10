"""The ranks of one job as people see them: how they spread, which stand out and by what, how they differ by field."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memlens.comparing.claims import AlikeOutliers, alike_outliers
from memlens.reports.blocks import (
    ALL_ROWS,
    Block,
    Column,
    Line,
    ListOptions,
    Table,
    Toned,
    Value,
    answered,
    apart,
    take,
)
from memlens.reports.compare.tables import tables_of
from memlens.reports.lists import HOLDER, held_by
from memlens.reports.terminal import Part, Size, fits, naming, one_screen
from memlens.summarizing.figures import BY_KEY, Metric
from memlens.text import format_bytes, format_change, format_count, name_list, plural, short_name, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from memlens.comparing.ranks import Ranks, Spread
    from memlens.comparing.result import Comparison

#: Up to so many ranks have a row each; of more it is shown how they spread.
_FEW = 16
#: Rows of the tables of one screen, from the most to the least.
_ROWS = (10, 8, 6, 5, 4, 3, 2)
_TOP = 20


def rank_blocks(comparison: Comparison, ranks: Ranks, head: Sequence[Line], size: Size, top: int | None) -> list[Block]:
    """The verdict on the ranks of a job, and what it rests on.

    Args:
        comparison: What to show.
        ranks: What is said of the ranks.
        head: The lines above the tables.
        size: What one screen holds.
        top: Rows of each list, or :data:`ALL_ROWS` for everything; ``None`` for as many as fit one screen.
    """
    count, most = len(comparison.runs), _TOP if top is None else top
    rows = [*tables_of(comparison, None)] if top == ALL_ROWS or count <= _FEW else []
    spread = [*_spread(ranks)] if count > _FEW else []
    outliers, skews = [*outliers_blocks(comparison, most)], [*_skews(ranks, most)]
    everything: list[Block] = [*answered(comparison.answer), None, *head]
    everything += _apart([*spread, *rows, *outliers, *_groups(ranks, most), *skews])
    if top is not None or fits(everything, size):
        return naming(everything, "" if top else "--full")
    parts = [
        Part((head, [line for line in head if line.style not in ("quiet", "good")]), 12),
        Part((_on_screen([*spread, *rows]), _on_screen(spread or [*tables_of(comparison, None, _ROWS[0])])), 10),
        Part(tuple(_on_screen(outliers_blocks(comparison, rows)) for rows in _ROWS), 3),
        Part((*(_on_screen(_groups(ranks, rows)) for rows in _ROWS), ()), 0),
        Part((_on_screen(skews), _on_screen(_skews(ranks, 3)), ()), 11),
    ]
    return one_screen(comparison.answer, parts, size)


def _apart(blocks: Iterable[Block]) -> list[Block]:
    """Blocks, each table behind an empty line."""
    return [one for block in blocks for one in (apart(block) if isinstance(block, Table) else (block,))]


def _on_screen(blocks: Iterable[Block]) -> list[Block]:
    """The same without a word on columns that have no room: on one screen other lines say more."""
    return _apart(replace(block, says_hidden=False) if isinstance(block, Table) else block for block in blocks)


def rank_lines(comparison: Comparison, ranks: Ranks) -> Iterator[Line]:
    """The lines above all others: how many ranks there are, and what of them is not there."""
    count = len(comparison.runs)
    counts = {name: len(values) for name, values in comparison.values.items()}
    several = [f"{format_count(n)} of {short_name(name)}" for name, n in counts.items() if 1 < n < count]
    words = f"{plural(count, 'rank')}{'; values: ' if several else ''}{', '.join(several)}"
    yield Line(words, "quiet", comparison.template or "", label="Ranks")
    if comparison.by is not None:
        yield Line(f"by {comparison.by}; figures are those of each rank's median window", label="Windows")
    elif comparison.cut:
        names = dict.fromkeys(window.name for run in comparison.runs for window in run.windows)
        yield Line("", name=name_list([*names]), label="Window")
    if ranks.missing:
        yield Line(_runs_of(ranks.missing), "bad", label="Missing")
    first = ranks.first_failure
    named = zip(ranks.names, comparison.runs, strict=True)
    failed = [
        name + (f" ({format_bytes(run.oom.requested_bytes)})" if run.oom and run.oom.requested_bytes else "")
        for name, run in sorted(named, key=lambda one: first is None or one[0] != first.rank)
        if run.status == "oom"
    ]
    if failed:
        yield Line(name_list(failed), "bad", label="Failed")
    if ranks.ended_early:
        yield Line(name_list([one.rank for one in ranks.ended_early]), "bad", label="Ended early")
    if ranks.peers_by:
        by = " and ".join(map(short_name, ranks.peers_by))
        yield Line(f"the ranks of one {by}: most of the spread is between them", "quiet", label="Peers")


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


def _spread(ranks: Ranks) -> Iterator[Table]:
    rows = [(BY_KEY[one.metric].title, one) for one in ranks.spreads]
    if rows:
        yield _spreads("", Column("name", "", "word"), rows, len(rows), "figure")


def _groups(ranks: Ranks, top: int) -> Iterator[Table]:
    """The first metric in each group of peers."""
    if ranks.groups:
        rows = [(one.name or f"{number}", one) for number, one in enumerate(ranks.groups, 1)]
        title = f"{BY_KEY[ranks.groups[0].metric].title} of each group of peers"
        yield _spreads(title, Column("name", "Peers" if ranks.peers_by else "Group", "name"), rows, top, "group")


def _spreads(title: str, first: Column, rows: Sequence[tuple[str, Spread]], top: int, what: str) -> Table:
    columns = [
        first,
        Column("ranks", "Ranks", "count", drop=3),
        Column("min", "Lowest", "count"),
        Column("median", "Median", "count", strong=True),
        Column("max", "Highest", "count"),
        Column("max_rank", "Highest in", "name", drop=1),
        Column("min_rank", "Lowest in", "name", drop=2),
    ]
    made: list[list[Value]] = [
        [name, one.ranks, *map(BY_KEY[one.metric].text, (one.min, one.median, one.max)), one.max_rank, one.min_rank]
        for name, one in rows
    ]
    return take(title, columns, made, len(rows), top, what)


def outliers_blocks(comparison: Comparison, top: int) -> Iterator[Block]:
    """The ranks that stand out, those that are alike in one row, and how to see what the farthest does differently."""
    groups = alike_outliers(comparison)
    if not groups:
        return
    columns = [
        Column("rank", "Rank", "name"),
        Column("metric", "Figure", "word"),
        Column("figure", "Is", "count", drop=3),
        Column("off", "Off peers", "count", strong=True),
        Column("percent", "%", "count", drop=2),
        Column("peers", "Peers", "count", drop=4),
        Column("holds", "Holds more", "word"),
        Column("owner", "Of", "name"),
        HOLDER,
        Column("where", "Where", "name", drop=1),
    ]
    rows = [_outlier(group) for group in groups]
    used = [k for k in range(len(columns)) if k < 6 or any(row[k] for row in rows)]
    shown = [[row[k] for k in used] for row in rows]
    yield take("Stand out among their peers", [columns[k] for k in used], shown, len(rows), top, "row")
    one = groups[0].outliers[0]
    if comparison.ranks is not None and "device" not in one.fields:
        command = visible(shlex.join(["memlens", "diff", one.median_path, one.path]))
        yield Line(f"{command} shows what {short_name(one.rank)} does differently.", "hint")


def _outlier(group: AlikeOutliers) -> list[Value]:
    one, more = group.outliers[0], len(group.outliers) - 1
    metric, held = BY_KEY[one.metric], one.holds[0] if one.holds else None
    off = _signed(metric, one.off)
    blocks: tuple[Value, ...] = ("", "", "")
    if held is not None:
        blocks = f"{format_count(held.blocks)} × {format_bytes(held.size_bytes)}", held.owner, held_by(held)
    return [
        f"{one.rank} +{format_count(more)}" if more else one.rank,
        metric.title,
        metric.text(one.figure),
        Toned.change(off, one.off) if metric.more_is_worse else off,
        format_change(one.median, one.figure),
        one.peers,
        *blocks,
        group.where,
    ]


def _signed(metric: Metric, figure: int) -> str:
    return ("+" if figure > 0 else "-" if figure else "") + metric.text(abs(figure))


def _skews(ranks: Ranks, top: int) -> Iterator[Table]:
    """How the first metric differs by the fields of the paths."""
    if not ranks.skews:
        return
    metric = BY_KEY[ranks.spreads[0].metric]
    columns = (
        Column("field", "Field", "name"),
        Column("values", "Values", "count"),
        Column("lowest", "Lowest", "name"),
        Column("lowest_off", "Off", "count"),
        Column("highest", "Highest", "name"),
        Column("highest_off", "Off", "count"),
    )
    lowest = {"lowest_off": lambda one: _signed(metric, one.lowest_off)}
    highest = {"highest_off": lambda one: _signed(metric, one.highest_off)}
    besides = f"; {' and '.join(map(short_name, ranks.peers_by))} taken out of the others" if ranks.peers_by else ""
    title = f"Medians of {metric.title.lower()} by field, off that of all{besides}"
    yield ListOptions(top).table(title, columns, ranks.skews, "field", **lowest, **highest)
