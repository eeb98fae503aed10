"""Parquet files of events, as ``memlens export --to parquet`` writes them, read again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlens.inputs.input_format import InputFormat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlens.inputs.file_source import FileSource
    from memlens.inputs.input_format import Request
    from memlens.log import Log

__all__ = ["FORMAT"]


def _read(source: FileSource, request: Request) -> Sequence[Log]:
    from memlens.inputs.parquet.reader import read_parquet

    return read_parquet(source, request)


FORMAT = InputFormat(
    "parquet",
    "a Parquet file of events",
    "the events of a log as columns: what memlens export --to parquet writes",
    "kind, size_bytes, addr, line, … : ALLOC, 512, 140737488355328, 4, …",
    lambda head: "it begins with PAR1, as Parquet does" if head.startswith(b"PAR1") else "",
    _read,
    "those of the log that it was made from",
    "what that log counts, or rows",
    layers=("parquet",),
    is_text=False,
)
