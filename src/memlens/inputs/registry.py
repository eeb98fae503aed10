"""What an input format is, and the built-in ones.

A reader is imported when an input of its format is met: what is looked for first are a few bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memlens.events import EventLog
    from memlens.inputs.file_source import FileSource
    from memlens.windows.patterns import Pattern

__all__ = ["BUILT_IN", "HEAD", "PADDLE", "InputFormat", "Request", "begins_like_paddle", "not_text"]

#: Bytes of an input that are looked at to tell its format.
HEAD = 1 << 16

_NOTHING = ""


@dataclass(frozen=True)
class Request:
    """What is wanted of one input; see :func:`memlens.read`.

    Attributes:
        patterns: Anchors to find in the same pass.
        owners: Further context lines.
        columns: Columns wanted beyond the usual ones.
        layer: The layer of Paddle's allocator to take blocks from.
        strict: An input that is cut short is an error.
        progress: Called with the bytes consumed of the input as it lies on disk.
    """

    patterns: tuple[Pattern, ...] = ()
    owners: tuple[Pattern, ...] = ()
    columns: tuple[str, ...] = ()
    layer: str | None = None
    strict: bool = False
    progress: Callable[[int], None] | None = None


@dataclass(frozen=True)
class InputFormat:
    """A format of inputs.

    Attributes:
        name: What ``--input-format`` calls it; lower case, no spaces.
        title: What messages call an input of it, with its article.
        summary: What it is and who writes it, in one line.
        sample: What an input of it looks like, in a line or two.
        recognise: Given the first bytes of an input, uncompressed: what in them tells, in words; ``""`` where nothing does.
        read: Reads an input, given its source and what is wanted of it, into one log a device.
        sizes: What its sizes are, in words that follow "are".
        places: What ``line`` counts in results, in words.
        layers: What :attr:`~memlens.facts.Facts.layer` of its logs may say; empty for formats of users.
        is_text: It consists of lines of text, which may begin with others.
        origin: Where it comes from: ``memlens``, a file, a package.
    """

    name: str
    title: str
    summary: str
    sample: str
    recognise: Callable[[bytes], str]
    read: Callable[[FileSource, Request], Sequence[EventLog]]
    sizes: str = "what its lines say"
    places: str = "lines"
    layers: tuple[str, ...] = ()
    is_text: bool = True
    origin: str = "memlens"


#: Lines of Paddle's allocators, and the header of any message of its logging library.
_PADDLE_TEXT = (b" bytes, ptr = 0x", b"Not found and reallocate ", b"auto_growth_best_fit_allocator")
_GLOG = re.compile(rb"[IWEF][0-9]{4}(?:[0-9]{4})? [0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6} +[0-9]+ [^\s:\]]+:[0-9]+\]")


def begins_like_paddle(head: bytes) -> str:
    """What in the first bytes tells a log of Paddle, in words; ``""`` where nothing does."""
    for text in _PADDLE_TEXT:
        if text in head:
            return f"it holds {text.decode().strip()!r} within its first {HEAD >> 10} KiB"
    header = _GLOG.search(head)
    return (
        _NOTHING
        if header is None
        else "it holds log headers as glog writes them: " + header[0].decode("ascii", "replace")
    )


def _read_paddle(source: FileSource, request: Request) -> Sequence[EventLog]:
    from memlens.inputs.paddle.reader import read

    return [
        read(
            source,
            patterns=request.patterns,
            owners=request.owners,
            columns=request.columns,
            layer=request.layer,
            strict=request.strict,
            progress=request.progress,
        )
    ]


def _like_snapshot(head: bytes) -> str:
    if head[:1] != b"\x80":
        return _NOTHING
    from memlens.inputs.torch_snapshot.reader import looks_like

    return f"it begins like a pickle of protocol {head[1]}" if looks_like(head) else _NOTHING


def _read_snapshot(source: FileSource, request: Request) -> Sequence[EventLog]:
    from memlens.inputs.torch_snapshot.reader import read_stream

    with source.open() as stream:
        return read_stream(
            stream, source.name, patterns=request.patterns, strict=request.strict, progress=request.progress
        )


def _like_kineto(head: bytes) -> str:
    if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] not in (b"{", b"["):
        return _NOTHING
    from memlens.inputs.kineto.reader import looks_like

    return "it is JSON and begins like a trace" if looks_like(head) else _NOTHING


def _read_kineto(source: FileSource, request: Request) -> Sequence[EventLog]:
    from memlens.inputs.kineto.reader import read_kineto

    return read_kineto(source, patterns=request.patterns, strict=request.strict, progress=request.progress)


def _like_rmm(head: bytes) -> str:
    if head.count(b",") < 4:
        return _NOTHING
    from memlens.inputs.rmm import looks_like

    return "it holds RMM's header or whole rows of its log" if looks_like(head) else _NOTHING


def _read_rmm(source: FileSource, request: Request) -> Sequence[EventLog]:
    from memlens.inputs.rmm import read_rmm

    return read_rmm(source, patterns=request.patterns, strict=request.strict, progress=request.progress)


PADDLE = InputFormat(
    "paddle",
    "a log of Paddle",
    "PaddlePaddle's allocator log: lines of text among any others; what text is read as where nothing else is recognised",
    "I1120 10:22:32.856307 13292 auto_growth_best_fit_allocator.cc:270] Alloc 256 bytes, ptr = 0x5606f8aeb000",
    begins_like_paddle,
    _read_paddle,
    "rounded up to what the allocator gives out, multiples of 256 bytes",
)
#: The built-in formats, in the order in which they are looked for.  To add one, add it here.
BUILT_IN: tuple[InputFormat, ...] = (
    PADDLE,
    InputFormat(
        "torch-snapshot",
        "a PyTorch memory snapshot",
        "PyTorch's CUDA memory snapshot: what torch.cuda.memory._dump_snapshot('run.pickle') writes; never executed",
        "{'segments': [...], 'device_traces': [[{'action': 'alloc', 'addr': 140737488355328, 'size': 512, ...}]]}",
        _like_snapshot,
        _read_snapshot,
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
        _like_kineto,
        _read_kineto,
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
        _like_rmm,
        _read_rmm,
        "those that were asked for",
        layers=("rmm",),
    ),
)


def not_text(head: bytes) -> str:
    """What an input is that has no lines of text, given its first bytes; ``""`` for text."""
    return next((form.title for form in BUILT_IN if not form.is_text and form.recognise(head)), _NOTHING)
