"""Memory snapshots of PyTorch, and the memory history of Paddle, which has their form."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from memlens.inputs.input_format import InputFormat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlens.inputs.file_source import FileSource
    from memlens.inputs.input_format import Request
    from memlens.log import Log

__all__ = ["FORMAT", "PADDLE_HISTORY", "looks_like"]


#: What may follow the protocol: FRAME, a dict, a list, or, of other pickles, what is refused with a reason.
_FIRST = frozenset(b"\x95}](c\x8c\x8d\x93")


def looks_like(head: bytes) -> bool:
    """Whether an input that begins so is a pickle of protocol 2 or later; no log of text begins so."""
    return len(head) >= 3 and head[0] == 0x80 and 2 <= head[1] <= 5 and head[2] in _FIRST


def _names_operators(head: bytes) -> bool:
    return looks_like(head) and re.search(rb"(?:\x8c\x07|X\x07\0\0\0)op_name", head) is not None


def _read(source: FileSource, request: Request) -> Sequence[Log]:
    from memlens.inputs.torch_snapshot.reader import read_snapshot

    return read_snapshot(source, request)


PADDLE_HISTORY = InputFormat(
    "paddle-history",
    "a Paddle memory history",
    "Paddle's memory history: what paddle.device.cuda._dump_snapshot('run.pickle') writes; never executed",
    "{'segments': [], 'device_traces': [[{'action': 'alloc', 'addr': 140737488355328, 'size': 512, 'op_name': 'matmul', ...}]]}",
    lambda head: "it is a pickle whose entries name operators" if _names_operators(head) else "",
    _read,
    "those of blocks, multiples of 256 bytes",
    "entries of a device's trace",
    ("paddle_history",),
    is_text=False,
)
FORMAT = InputFormat(
    "torch-snapshot",
    "a PyTorch memory snapshot",
    "PyTorch's CUDA memory snapshot: what torch.cuda.memory._dump_snapshot('run.pickle') writes; never executed",
    "{'segments': [...], 'device_traces': [[{'action': 'alloc', 'addr': 140737488355328, 'size': 512, ...}]]}",
    lambda head: f"it begins like a pickle of protocol {head[1]}" if looks_like(head) else "",
    _read,
    "those that tensors asked for",
    "entries of a device's trace",
    ("torch_snapshot",),
    is_text=False,
)
