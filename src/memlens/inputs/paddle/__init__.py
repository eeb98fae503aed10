"""Logs of Paddle's allocators."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from memlens import glog
from memlens.inputs.input_format import HEAD, InputFormat, Request

if TYPE_CHECKING:
    from memlens.events import EventLog
    from memlens.inputs.file_source import FileSource

__all__ = ["FORMAT"]

#: Lines of the allocators, and the header of any message of the logging library.
_TEXTS = (b" bytes, ptr = 0x", b"Not found and reallocate ", b"auto_growth_best_fit_allocator")
_GLOG = re.compile(f"{glog.STAMP} +[0-9]+ {glog.FILE}:{glog.LINE}".encode())


def _recognise(head: bytes) -> str:
    for text in _TEXTS:
        if text in head:
            return f"it holds {text.decode().strip()!r} within its first {HEAD >> 10} KiB"
    header = _GLOG.search(head)
    return "" if header is None else "it holds log headers as glog writes them: " + header[0].decode("ascii", "replace")


def _read(source: FileSource, request: Request) -> Sequence[EventLog]:
    from memlens.inputs.paddle.reader import read

    return [read(source, request)]


FORMAT = InputFormat(
    "paddle",
    "a log of Paddle",
    "PaddlePaddle's allocator log: lines of text among any others; what text is read as where nothing else is recognised",
    "I1120 10:22:32.856307 13292 auto_growth_best_fit_allocator.cc:270] Alloc 256 bytes, ptr = 0x5606f8aeb000",
    _recognise,
    _read,
    "rounded up to what the allocator gives out, multiples of 256 bytes",
)
