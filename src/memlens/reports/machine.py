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
from typing import Any, Protocol

import numpy as np

from memlens.text import visible

__all__ = ["Result", "cell", "render_csv", "render_json"]

#: What a spreadsheet takes for the beginning of a formula, in full width too.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")


class Result(Protocol):
    """What a verb gives: an analysis, a comparison, a verdict."""

    def to_dict(self) -> dict[str, Any]: ...

    def rows(self) -> list[dict[str, Any]]: ...


def render_json(result: Result) -> str:
    """One JSON document with a newline at its end."""
    return json.dumps(result.to_dict(), ensure_ascii=True, allow_nan=False, indent=1, default=_plain_value) + "\n"


def _plain_value(value: Any) -> Any:
    """NumPy scalars, as analyzers of other packages may give, as what they are."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a result holds {type(value).__name__}, which is no JSON")


def render_csv(result: Result) -> str:
    """A heading and a row a window."""
    rows = result.rows()
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(cell(name) for name in names)
    writer.writerows([cell(row.get(name)) for name in names] for row in rows)
    return out.getvalue()


def cell(value: Any) -> Any:
    """A value as it stands in CSV: nothing is empty, and text is harmless on a terminal and in a spreadsheet."""
    if not isinstance(value, str):
        return "" if value is None else value
    text = visible(value)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text
