"""Tables as text: CSV, and JSON with an object a line.

Both are made column by column and put together by compiled code.  Names are log text: in CSV they are made harmless for terminals and spreadsheets
(:func:`memlens.reports.machine.cell`), in JSON they are exact, with every character beyond ASCII escaped.
"""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from memlens.exporting.forms import Counted, Wanted, Written
from memlens.exporting.tables import table_of
from memlens.reports.machine import cell

if TYPE_CHECKING:
    from collections.abc import Callable

    from memlens.exporting.tables import Column

__all__ = ["write_csv", "write_jsonl"]


def write_csv(wanted: Wanted, out: Counted) -> Written:
    """Write a table as CSV: a heading, a row a line; what is not known is empty."""
    table = table_of(wanted)
    names = _Named(cell, "")
    for number, columns in enumerate(table.batches()):
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not number:
            writer.writerow([column.name for column in columns])
        writer.writerows(zip(*(names.values(column) for column in columns), strict=True))
        out.write(text.getvalue().encode())
    return Written(len(table))


def write_jsonl(wanted: Wanted, out: Counted) -> Written:
    """Write a table as JSON lines: an object a row; what is not known is ``null``."""
    table = table_of(wanted)
    names = _Named(lambda name: msgspec.Raw(json.dumps(name).encode("ascii")), None)
    encode = msgspec.json.Encoder().encode_lines
    row: Any = None
    for columns in table.batches():
        # An object of a class of its own is made and written in a third of the time of a dict.
        row = row or msgspec.defstruct("Row", [(column.name, Any) for column in columns], gc=False)
        out.write(encode(list(map(row, *(names.values(column) for column in columns)))))
    return Written(len(table))


class _Named:
    """The values of columns as Python's own; each name is made harmless once.

    Args:
        made: Makes a name what is written.
        nothing: What stands for no value.
    """

    def __init__(self, made: Callable[[str], Any], nothing: Any) -> None:
        self._made, self._nothing = made, nothing
        self._known: dict[str, Any] = {}

    def values(self, column: Column) -> list[Any]:
        """The values of a column, one a row."""
        if column.names is not None:
            known = self._known.get(column.name)
            if known is None:
                known = np.empty(len(column.names) + 1, object)
                known[:] = [*map(self._made, column.names), self._nothing]
                self._known[column.name] = known
            named: list[Any] = known[column.values].tolist()
            return named
        missing = ~column.known()
        values = column.values
        if missing.any():
            values = values.astype(object)
            values[missing] = self._nothing
        found: list[Any] = values.tolist()
        return found
