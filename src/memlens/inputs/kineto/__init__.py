"""Kineto traces, the JSON files that ``torch.profiler`` writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memlens.inputs.input_format import InputFormat, Request

if TYPE_CHECKING:
    from memlens.events import EventLog
    from memlens.inputs.file_source import FileSource

__all__ = ["FORMAT"]


def _recognise(head: bytes) -> str:
    if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] not in (b"{", b"["):
        return ""
    from memlens.inputs.kineto.reader import looks_like

    return "it is JSON and begins like a trace" if looks_like(head) else ""


def _read(source: FileSource, request: Request) -> Sequence[EventLog]:
    from memlens.inputs.kineto.reader import read_kineto

    return read_kineto(source, patterns=request.patterns, strict=request.strict, progress=request.progress)


FORMAT = InputFormat(
    "kineto",
    "a Kineto trace",
    "a trace of torch.profiler with profile_memory=True, JSON: its [memory] events",
    '{"ph": "i", "name": "[memory]", "ts": 1.5, "args": {"Bytes": 512, "Addr": 140737488355328, "Total Allocated": 512}}',
    _recognise,
    _read,
    "those that the allocator gave: on a GPU rounded up to multiples of 512 bytes",
    "entries: events, annotations and failures of a device, by their time",
    ("kineto",),
    is_text=False,
)
