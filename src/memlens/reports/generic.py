"""Results that have no screen of their own, like those of analyzers from other packages, shown by the names of their fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memlens.analyzing.result import plain
from memlens.reports.blocks import Column, Figure, Figures, Line, Table, Value, take
from memlens.reports.text import format_count, format_duration
from memlens.units import format_bytes

__all__ = ["generic_blocks"]


def generic_blocks(name: str, result: Any, top: int, min_size: int) -> Iterator[Table | Line | Figures]:
    """All that a result says: its figures, then its lists, by the names they have in machine output."""
    values = plain(result, None, min_size)
    yield Line(_words(name).capitalize(), "heading")
    scalars = [
        (key, value) for key, value in values.items() if not isinstance(value, (list, dict)) and value is not None
    ]
    if scalars:
        yield Figures(
            tuple(
                Figure(key.removesuffix("_us").replace("_", " ").capitalize(), _figure_text(key, value))
                for key, value in scalars
            )
        )
    for key, value in values.items():
        if isinstance(value, list) and value and all(isinstance(row, Mapping) for row in value):
            yield from _rows(_words(key).capitalize(), value, top)


def _rows(title: str, rows: Sequence[Mapping[str, Any]], top: int) -> Iterator[Table]:
    keys = [key for key, value in rows[0].items() if not isinstance(value, (list, dict))]
    columns = [
        # The places of events go first where there is no room: their lines say the same.
        Column(key, _words(key).capitalize(), _kind(key, rows), drop=place + (100 if key.endswith("event") else 0))
        for place, key in enumerate(keys)
    ]
    values = ([_scalar(row.get(key)) for key in keys] for row in rows)
    yield take(title, columns, values, len(rows), top, "row")


def _words(key: str) -> str:
    for ending in ("_bytes", "_us"):
        key = key.removesuffix(ending)
    return key.replace("_", " ")


def _kind(key: str, rows: Sequence[Mapping[str, Any]]) -> Any:
    values = [row.get(key) for row in rows]
    if any(isinstance(value, str) for value in values):
        return "name"
    if any(isinstance(value, (bool, float)) for value in values):
        return "word"
    return "bytes" if key.endswith("_bytes") else "duration" if key.endswith("_us") else "count"


def _scalar(value: object) -> Value:
    if isinstance(value, float):
        return f"{value:,.2f}"
    return value if value is None or (isinstance(value, int) and not isinstance(value, bool)) else str(value)


def _figure_text(key: str, value: object) -> str:
    if isinstance(value, float):
        return format_bytes(round(value)) if "bytes" in key else f"{value:,.2f}"
    if isinstance(value, int) and not isinstance(value, bool):
        if key.endswith("_bytes"):
            return format_bytes(value)
        return format_duration(value) if key.endswith("_us") else format_count(value)
    return str(value)
