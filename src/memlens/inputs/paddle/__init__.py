"""Logs of Paddle's allocators."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from memlens.inputs.input_format import HEAD, InputFormat, Request, read_lines
from memlens.windows import glog

if TYPE_CHECKING:
    from memlens.inputs.paddle.reader import PaddleReader
    from memlens.source import TextSource

__all__ = ["FORMAT"]

#: Lines of the allocators, and the header of any message of the logging library.
_TEXTS = (b" bytes, ptr = 0x", b"Not found and reallocate ", b"auto_growth_best_fit_allocator")
_GLOG = f"{glog.STAMP} +[0-9]+ {glog.FILE}:{glog.LINE}".encode()


def _recognise(head: bytes) -> str:
    for text in _TEXTS:
        if text in head:
            return f"it holds {text.decode().strip()!r} within its first {HEAD >> 10} KiB"
    header = re.search(_GLOG, head)
    return "" if header is None else "it holds log headers as glog writes them: " + header[0].decode("ascii", "replace")


def _lines(source: TextSource, request: Request) -> PaddleReader:
    from memlens.inputs.paddle.reader import PaddleReader

    return PaddleReader(source, request)


FORMAT = InputFormat(
    "paddle",
    "a log of Paddle",
    "PaddlePaddle's allocator log: lines of text among any others; what text is read as where nothing else is recognised",
    "I1120 10:22:32.856307 13292 auto_growth_best_fit_allocator.cc:270] Alloc 256 bytes, ptr = 0x5606f8aeb000",
    _recognise,
    partial(read_lines, _lines),
    "rounded up to what the allocator gives out, multiples of 256 bytes",
    lines=_lines,
)
