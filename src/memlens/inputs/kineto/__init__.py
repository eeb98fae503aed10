"""Kineto traces, the JSON files that ``torch.profiler`` writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlens.inputs.input_format import InputFormat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlens.inputs.file_source import FileSource
    from memlens.inputs.input_format import Request
    from memlens.log import Log

__all__ = ["FORMAT", "looks_like"]


_MARKS = (b'"traceEvents"', b'"schemaVersion"', b'"deviceProperties"', b'"displayTimeUnit"', b'"baseTimeNanoseconds"')
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def looks_like(head: bytes) -> bool:
    """Whether an input that begins so is a trace: a JSON object with a list of trace events, or that list alone."""
    start = head.removeprefix(_BYTE_ORDER_MARK).lstrip()
    if start.startswith(b"["):
        return start[1:].lstrip().startswith(b"{") and b'"ph"' in start
    return start.startswith(b"{") and any(mark in start for mark in _MARKS)


def _read(source: FileSource, request: Request) -> Sequence[Log]:
    from memlens.inputs.kineto.reader import read_kineto

    return read_kineto(source, request)


FORMAT = InputFormat(
    "kineto",
    "a Kineto trace",
    "a trace of torch.profiler with profile_memory=True, JSON: its [memory] events",
    '{"ph": "i", "name": "[memory]", "ts": 1.5, "args": {"Bytes": 512, "Addr": 140737488355328, "Total Allocated": 512}}',
    lambda head: "it is JSON and begins like a trace" if looks_like(head) else "",
    _read,
    "those that the allocator gave: on a GPU rounded up to multiples of 512 bytes",
    "entries: events, annotations and failures of a device, by their time",
    ("kineto",),
    is_text=False,
)
