"""The built-in formats of inputs: what they are called, by what they are recognised, and what reads them."""

from __future__ import annotations

import re
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from memlens.inputs.input_format import HEAD, InputFormat, read_lines
from memlens.windows import glog

if TYPE_CHECKING:
    from collections.abc import Callable


#: What is in a log of Paddle: lines of its allocators, and the header of any message of its logging library.
_OF_PADDLE = (b" bytes, ptr = 0x", b"Not found and reallocate ", b"auto_growth_best_fit_allocator")
_HEADER = f"{glog.STAMP} +[0-9]+ {glog.FILE}:{glog.LINE}".encode()
#: What follows the protocol in a pickle: FRAME, a dict, a list, or, in those that are no snapshots, what is refused with a reason.
_IN_PICKLES = frozenset(b"\x95}](c\x8c\x8d\x93")
_IN_TRACES = (
    b'"traceEvents"',
    b'"schemaVersion"',
    b'"deviceProperties"',
    b'"displayTimeUnit"',
    b'"baseTimeNanoseconds"',
)


def _like_paddle(head: bytes) -> str:
    for text in _OF_PADDLE:
        if text in head:
            return f"it holds {text.decode().strip()!r} within its first {HEAD >> 10} KiB"
    header = re.search(_HEADER, head)
    return "" if header is None else "it holds log headers as glog writes them: " + header[0].decode("ascii", "replace")


def _like_pickle(head: bytes) -> str:
    if len(head) >= 3 and head[0] == 0x80 and 2 <= head[1] <= 5 and head[2] in _IN_PICKLES:  # no log of text begins so
        return f"it begins like a pickle of protocol {head[1]}"
    return ""


def _like_history(head: bytes) -> str:
    names_operators = _like_pickle(head) and re.search(rb"(?:\x8c\x07|X\x07\0\0\0)op_name", head)
    return "it is a pickle whose entries name operators" if names_operators else ""


def _like_trace(head: bytes) -> str:
    """A trace is a JSON object with a list of trace events, or that list alone."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"["):
        like = start[1:].lstrip().startswith(b"{") and b'"ph"' in start
    else:
        like = start.startswith(b"{") and any(mark in start for mark in _IN_TRACES)
    return "it is JSON and begins like a trace" if like else ""


def _later(module: str, function: str) -> Callable[..., Any]:
    """A function of a module of readers, which is imported only where it is called: each input needs one of them."""

    def call(*given: Any) -> Any:
        return getattr(import_module(f"memlens.inputs.{module}"), function)(*given)

    return call


_PADDLE_LINES, _RMM_LINES = _later("paddle.reader", "PaddleReader"), _later("rmm", "RmmReader")
PADDLE = InputFormat(
    "paddle",
    "a log of Paddle",
    "PaddlePaddle's allocator log: lines of text among any others; what text is read as where nothing else is recognised",
    "I1120 10:22:32.856307 13292 auto_growth_best_fit_allocator.cc:270] Alloc 256 bytes, ptr = 0x5606f8aeb000",
    _like_paddle,
    partial(read_lines, _PADDLE_LINES),
    "rounded up to what the allocator gives out, multiples of 256 bytes",
    lines=_PADDLE_LINES,
)
#: The built-in formats, in the order in which they are looked for.  To add one, add it here.
BUILT_IN = (
    PADDLE,
    InputFormat(
        "paddle-history",
        "a Paddle memory history",
        "Paddle's memory history: what paddle.device.cuda._dump_snapshot('run.pickle') writes; never executed",
        "{'segments': [], 'device_traces': [[{'action': 'alloc', 'addr': 140737488355328, 'size': 512, 'op_name': 'matmul', ...}]]}",
        _like_history,
        _later("torch_snapshot.reader", "read_snapshot"),
        "those of blocks, multiples of 256 bytes",
        "entries of a device's trace",
        ("paddle_history",),
        is_text=False,
    ),
    InputFormat(
        "torch-snapshot",
        "a PyTorch memory snapshot",
        "PyTorch's CUDA memory snapshot: what torch.cuda.memory._dump_snapshot('run.pickle') writes; never executed",
        "{'segments': [...], 'device_traces': [[{'action': 'alloc', 'addr': 140737488355328, 'size': 512, ...}]]}",
        _like_pickle,
        _later("torch_snapshot.reader", "read_snapshot"),
        "those that tensors asked for",
        "entries of a device's trace",
        ("torch_snapshot",),
        is_text=False,
    ),
    InputFormat(
        "kineto",
        "a Kineto trace",
        "a trace of torch.profiler with profile_memory=True, JSON: its [memory] events",
        '{"ph": "i", "name": "[memory]", "ts": 1.5, "args": {"Bytes": 512, "Addr": 140737488355328, "Total Allocated": 512}}',
        _like_trace,
        _later("kineto.reader", "read_kineto"),
        "those that the allocator gave: on a GPU rounded up to multiples of 512 bytes",
        "entries: events, annotations and failures of a device, by their time",
        ("kineto",),
        is_text=False,
    ),
    InputFormat(
        "rmm",
        "an RMM log",
        "the CSV log of RAPIDS Memory Manager, alone or amid other text",
        "5563,10:29:36.035871,allocate,0x55639e0c6630,4096,0",
        _later("rmm", "recognise"),
        partial(read_lines, _RMM_LINES),
        "those that were asked for",
        layers=("rmm",),
        lines=_RMM_LINES,
    ),
    InputFormat(
        "parquet",
        "a Parquet file of events",
        "the events of a log as columns: what memlens export --to parquet writes",
        "kind, size_bytes, addr, line, … : ALLOC, 512, 140737488355328, 4, …",
        lambda head: "it begins with PAR1, as Parquet does" if head.startswith(b"PAR1") else "",
        _later("parquet.reader", "read_parquet"),
        "those of the log that it was made from",
        "what that log counts, or rows",
        layers=("parquet",),
        is_text=False,
    ),
)
