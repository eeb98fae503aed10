"""Results for machines: JSON by their contracts, and CSV with a row a window (or pair of windows) and a column a figure.

Both hold exact integers.  Text from a log is a JSON string with every character beyond ASCII escaped: no terminal that the output is
printed on by accident obeys it.  In CSV, which has no lists (what is live at the peak, what is held, what differs), it is made visible
as on the terminal, and a cell of text that a spreadsheet would take for a formula gets an apostrophe in front, as spreadsheets
themselves write it.  Programs that join on names should read the JSON, where names are exact.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from memlens.text import visible

__all__ = ["Long", "Result", "cell", "csv_parts", "json_parts"]

#: Characters that are handed on at once.
_AT_ONCE = 1 << 16

#: What a spreadsheet takes for the beginning of a formula, in full width too.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")


class Result(Protocol):
    """What a verb gives: an analysis, a comparison, a verdict."""

    def to_dict(self) -> dict[str, Any]: ...

    def rows(self) -> list[dict[str, Any]]: ...


@runtime_checkable
class Long(Result, Protocol):
    """A result with so many windows, perhaps, that what is said of them is made window by window."""

    def to_lazy_dict(self) -> dict[str, Any]:
        """As :meth:`to_dict`, but its long lists make their entries while they are walked through (:class:`~memlens.analyzers.result.OneByOne`)."""
        ...

    def lazy_rows(self) -> tuple[Sequence[str], Iterator[dict[str, Any]]]:
        """The names of all columns in their order, and the rows of :meth:`rows` one by one."""
        ...


def json_parts(result: Result) -> Iterator[str]:
    """One JSON document with a newline at its end, in parts none of which holds many windows."""
    values = result.to_lazy_dict() if isinstance(result, Long) else result.to_dict()
    encoder = json.JSONEncoder(ensure_ascii=True, allow_nan=False, indent=1, default=_plain_value)
    yield from _in_parts(encoder.iterencode(values))
    yield "\n"


def _in_parts(texts: Iterable[str]) -> Iterator[str]:
    """Short texts put together to longer ones."""
    held: list[str] = []
    size = 0
    for text in texts:
        held.append(text)
        size += len(text)
        if size >= _AT_ONCE:
            yield "".join(held)
            held, size = [], 0
    yield "".join(held)


def _plain_value(value: Any) -> Any:
    """NumPy scalars, as analyzers of other packages may give, as what they are."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a result holds {type(value).__name__}, which is no JSON")


def csv_parts(result: Result) -> Iterator[str]:
    """A heading and a row a window, in such parts."""
    rows: Iterable[dict[str, Any]]
    if isinstance(result, Long):
        names, rows = result.lazy_rows()
    else:
        rows = result.rows()
        names = list(dict.fromkeys(name for row in rows for name in row))
    yield from _in_parts(_csv_lines(names, rows))


def _csv_lines(names: Sequence[str], rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(cell(name) for name in names)
    known = set(names)
    for row in rows:
        if not known.issuperset(row):
            raise ValueError(f"a row has columns that were not named: {sorted(row.keys() - known)}")
        writer.writerow([cell(row.get(name)) for name in names])
        yield out.getvalue()
        out.seek(0)
        out.truncate()
    yield out.getvalue()


def cell(value: Any) -> Any:
    """A value as it stands in CSV: nothing is empty, and text is harmless on a terminal and in a spreadsheet."""
    if not isinstance(value, str):
        return "" if value is None else value
    text = visible(value)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text
