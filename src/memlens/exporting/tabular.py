"""Tables as files: CSV, JSON with an object a line, and Parquet by pyarrow.  Events of a whole log as Parquet are read again by :mod:`memlens.inputs.parquet`.

The texts are made column by column and put together by compiled code.  Names are log text: in CSV they are made harmless for terminals and spreadsheets
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
from memlens.inputs.parquet.metadata import KEY, metadata_of
from memlens.reports.machine import cell

if TYPE_CHECKING:
    from collections.abc import Callable

    from memlens.exporting.tables import Column

#: Rows of one group: names are written once a group.
_GROUP = 1 << 20
#: Bytes of names that are kept as such; of more, each row has its own.
_MOST_NAMES = 1 << 26
#: Columns whose values mostly rise, which differences pack best, and those whose values come again and again, as names do.
_RISING = ("event", "line", "offset", "time_us", "alloc_event", "alloc_line", "alloc_time_us")


def write_csv(wanted: Wanted, out: Counted) -> Written:
    """Write a table as CSV: a heading, a row a line; what is not known is empty."""
    table = table_of(wanted)
    names: dict[str, Any] = {}
    for number, columns in enumerate(table.batches()):
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not number:
            writer.writerow([column.name for column in columns])
        writer.writerows(zip(*(_values(column, names, cell, "") for column in columns), strict=True))
        out.write(text.getvalue().encode())
    return Written(len(table))


def write_jsonl(wanted: Wanted, out: Counted) -> Written:
    """Write a table as JSON lines: an object a row; what is not known is ``null``."""
    table = table_of(wanted)
    names: dict[str, Any] = {}
    encode = msgspec.json.Encoder().encode_lines
    row: Any = None
    for columns in table.batches():
        # An object of a class of its own is made and written in a third of the time of a dict.
        row = row or msgspec.defstruct("Row", [(column.name, Any) for column in columns], gc=False)
        out.write(encode(list(map(row, *(_values(column, names, _quoted, None) for column in columns)))))
    return Written(len(table))


def _quoted(name: str) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(name).encode("ascii"))


def _values(column: Column, known: dict[str, Any], made: Callable[[str], Any], nothing: Any) -> list[Any]:
    """The values of a column as Python's own, one a row.

    Args:
        column: The column.
        known: Names that were made what is written, by columns: each is made once.
        made: Makes a name what is written.
        nothing: What stands for no value.
    """
    values = column.values
    if column.names is not None:
        if column.name not in known:
            known[column.name] = np.empty(len(column.names) + 1, object)
            known[column.name][:] = [*map(made, column.names), nothing]
        values = known[column.name][values]
    elif (missing := ~column.known()).any():
        values = values.astype(object)
        values[missing] = nothing
    found: list[Any] = values.tolist()
    return found


def write_parquet(wanted: Wanted, out: Counted) -> Written:
    """Write a table as Parquet, compressed by zstd, with check sums of its pages."""
    import pyarrow as pa
    from pyarrow import parquet

    table = table_of(wanted)
    metadata = {}
    if wanted.table == "events":
        part = f"the window {wanted.windows[0].name}" if wanted.given else None
        if wanted.series:
            part = f"the {len(wanted.windows):,} windows of a series"
        metadata = {KEY: metadata_of(wanted.log, part)}
    names: dict[str, Any] = {}
    writer = None
    for columns in table.batches(_GROUP):
        batch = pa.RecordBatch.from_arrays([_array(column, names) for column in columns], [one.name for one in columns])
        if writer is None:
            rising = [column.name for column in columns if column.name in _RISING]
            writer = parquet.ParquetWriter(
                pa.PythonFile(out, mode="w"),
                batch.schema.with_metadata(metadata),
                compression="zstd",
                use_dictionary=[column.name for column in columns if column.name not in rising],
                column_encoding=dict.fromkeys(rising, "DELTA_BINARY_PACKED"),
                dictionary_pagesize_limit=_MOST_NAMES,
                write_page_checksum=True,
            )
        writer.write_batch(batch, row_group_size=_GROUP)
    assert writer is not None  # there is a batch without rows at least
    writer.close()
    return Written(len(table))


def _array(column: Column, names: dict[str, Any]) -> Any:
    import pyarrow as pa

    missing = None if column.unknown is None else ~column.known()
    if column.names is None:
        return pa.array(column.values, mask=missing)
    if column.name not in names:
        names[column.name] = pa.array([name.encode("utf-8", "replace").decode() for name in column.names], pa.string())
    codes = pa.array(column.values.astype("int32"), mask=missing)
    return pa.DictionaryArray.from_arrays(codes, names[column.name])
