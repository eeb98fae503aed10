"""Tables as Parquet, by pyarrow.  A table of events of a whole log is read again by :mod:`memlens.inputs.parquet`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memlens.exporting.forms import Counted, Wanted, Written
from memlens.exporting.tables import table_of
from memlens.inputs.parquet.carried import KEY, carried

if TYPE_CHECKING:
    from memlens.exporting.tables import Column

__all__ = ["write_parquet"]

#: Rows of one group: names are written once a group.
_GROUP = 1 << 20
#: Bytes of names that are kept as such; of more, each row has its own.
_MOST_NAMES = 1 << 26
#: Columns whose values mostly rise, which differences pack best, and those whose values come again and again, as names do.
_RISING = ("event", "line", "offset", "time_us", "alloc_event", "alloc_line", "alloc_time_us")


def write_parquet(wanted: Wanted, out: Counted) -> Written:
    """Write a table as Parquet, compressed by zstd, with check sums of its pages."""
    import pyarrow as pa
    from pyarrow import parquet

    table = table_of(wanted)
    if wanted.table != "events":
        metadata = {}
    else:
        metadata = {KEY: carried(wanted.log, _part(wanted) if wanted.given else None)}
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


def _part(wanted: Wanted) -> str:
    """What a file holds that has not all of a log, in words."""
    return (
        f"the {len(wanted.windows):,} windows of a series" if wanted.series else f"the window {wanted.windows[0].name}"
    )
