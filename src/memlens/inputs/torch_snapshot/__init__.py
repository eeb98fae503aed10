"""Memory snapshots of PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memlens.inputs.input_format import InputFormat, Request

if TYPE_CHECKING:
    from memlens.events import EventLog
    from memlens.inputs.file_source import FileSource

__all__ = ["FORMAT"]


def _recognise(head: bytes) -> str:
    if head[:1] != b"\x80":
        return ""
    from memlens.inputs.torch_snapshot.reader import looks_like

    return f"it begins like a pickle of protocol {head[1]}" if looks_like(head) else ""


def _read(source: FileSource, request: Request) -> Sequence[EventLog]:
    from memlens.inputs.torch_snapshot.reader import read_stream

    with source.open() as stream:
        return read_stream(
            stream, source.name, patterns=request.patterns, strict=request.strict, progress=request.progress
        )


FORMAT = InputFormat(
    "torch-snapshot",
    "a PyTorch memory snapshot",
    "PyTorch's CUDA memory snapshot: what torch.cuda.memory._dump_snapshot('run.pickle') writes; never executed",
    "{'segments': [...], 'device_traces': [[{'action': 'alloc', 'addr': 140737488355328, 'size': 512, ...}]]}",
    _recognise,
    _read,
    "those that tensors asked for",
    "entries of a device's trace",
    ("torch_snapshot",),
    is_text=False,
)
