"""What the tables of a comparison come to: how figures grow with a field, and which ranks stand out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from memlens.reports.blocks import Block, Column, Line, Table, Value, take
from memlens.reports.compare_tables import column_values, field_columns, value_title
from memlens.reports.compare_words import scale_of, slope_words
from memlens.reports.text import format_change, plural

if TYPE_CHECKING:
    from memlens.comparing.metrics import Metric
    from memlens.comparing.outliers import Outlier
    from memlens.comparing.result import Comparison
    from memlens.comparing.scaling import Slope

__all__ = ["outlier_blocks", "scaling_blocks"]

_TOP_OF_SLOPES = 20
_TOP_OF_OUTLIERS = 5


def scaling_blocks(comparison: Comparison, top: int | None) -> Iterator[Block]:
    """For each metric shown and each field that is a number: the slope for one more of it, laid out as the runs are."""
    for field in dict.fromkeys(slope.field for slope in comparison.scaling):
        for metric in comparison.metrics:
            found = [slope for slope in comparison.scaling if (slope.field, slope.metric) == (field, metric.key)]
            if found and all(slope.verdict == "flat" for slope in found):
                text = f"{metric.words} is flat over {field}{_in_all(found)}{_left_out(found)}"
                yield Line(text, label="Scaling")
            elif found:
                yield _slopes(comparison, metric, field, found, _TOP_OF_SLOPES if top is None else top)


def _in_all(found: Sequence[Slope]) -> str:
    return "" if len(found) == 1 else f", in all {len(found)} combinations of the other fields"


def _slopes(comparison: Comparison, metric: Metric, field: str, found: Sequence[Slope], top: int) -> Table:
    cols = comparison.layout.cols if comparison.layout.cols != field else None
    rows = [name for name in found[0].fields if name != cols and len(comparison.values[name]) > 1]
    heads: Sequence[str | None] = (None,) if cols is None else column_values(comparison)
    known = {
        (tuple(slope.fields[name] for name in rows), None if cols is None else slope.fields[cols]): slope
        for slope in found
    }
    columns = field_columns(comparison, rows)
    columns += [Column(head or "slope", value_title(head) if head else "Slope", "count", strong=True) for head in heads]
    keys = list(dict.fromkeys(key for key, _ in known))
    cells = ([*key, *(slope_words(known.get((key, head)), metric) for head in heads)] for key in keys)
    table = take(f"{metric.words}: slope for one more of {field}", columns, cells, len(keys), top, "row")
    notes = [note for note in (table.more, _left_out(found).removeprefix("; ")) if note]
    return Table(table.title, table.columns, table.rows, "; ".join(notes))


def _left_out(found: Sequence[Slope]) -> str:
    ooms, others = sum(slope.ooms for slope in found), sum(slope.left_out for slope in found)
    parts = [*([f"{ooms} OOM"] if ooms else []), *([f"{others} without a figure"] if others else [])]
    return f"; left out: {', '.join(parts)}" if parts else ""


def outlier_blocks(comparison: Comparison, top: int | None) -> Iterator[Table]:
    """The ranks that stand out in the metrics shown: each once a metric, where it is farthest off."""
    shown = {metric.key: metric for metric in comparison.metrics}
    by_rank: dict[tuple[str, str, str], list[Outlier]] = {}
    for outlier in comparison.outliers:
        if outlier.metric in shown:
            by_rank.setdefault((outlier.field, outlier.fields[outlier.field], outlier.metric), []).append(outlier)
    for field in dict.fromkeys(field for field, _, _ in by_rank):
        ranks = {key: found for key, found in by_rank.items() if key[0] == field}
        others = [name for name, values in comparison.values.items() if name != field and len(values) > 1]
        columns = [
            *field_columns(comparison, [field]),
            Column("metric", "Metric", "word"),
            Column("off", "Off median", "count", strong=True),
            Column("percent", "%", "count", drop=1),
            Column("z", "z", "count", drop=2),
            Column("groups", "Groups", "count", drop=3),
            *(Column(name, name, "name", drop=4) for name in others),
        ]
        rows = (_outlier(found, shown[key[2]], others) for key, found in ranks.items())
        most = _TOP_OF_OUTLIERS if top is None else top
        title = (
            f"Stand out among {plural(len(comparison.values[field]), field)}, each where it is farthest from the median"
        )
        yield take(title, columns, rows, len(ranks), most, "row")


def _outlier(found: Sequence[Outlier], metric: Metric, others: Sequence[str]) -> list[Value]:
    worst = found[0]
    scale = scale_of(metric, [worst.figure])
    unit = f" {scale.unit}" if scale.unit else ""
    return [
        worst.fields[worst.field],
        metric.title,
        f"{scale.signed(round(worst.off))}{unit}",
        format_change(round(worst.median), worst.figure),
        "" if worst.z is None else f"{worst.z:+.1f}",
        str(len(found)),
        *(worst.fields[name] for name in others),
    ]
