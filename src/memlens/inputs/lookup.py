"""Lines of a text that can be read at any place, found by byte offset."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Protocol

__all__ = ["AnyPlace", "LocalText", "lines_at"]

#: Bytes that are looked at first on both sides of an offset, and how many times as many where the line is longer.
_LOOK = 1 << 12
_FURTHER = 8
#: Lines that are looked up together.
_TOGETHER = 256


class AnyPlace(Protocol):
    """Bytes that can be read at any place."""

    @property
    def size(self) -> int:
        """As many there are."""

    def parts(self, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each span of offsets, ``(first, after the last)``; fewer where there are no more."""


class LocalText:
    """The bytes of an open file."""

    def __init__(self, file: int) -> None:
        self._file = file
        self.size = os.fstat(file).st_size

    def parts(self, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        return [self._part(begin, end) for begin, end in spans]

    def _part(self, begin: int, end: int) -> bytes:
        text = b""
        while begin + len(text) < end and (piece := os.pread(self._file, end - begin - len(text), begin + len(text))):
            text = text + piece if text else piece
        return text


def lines_at(text: AnyPlace, offsets: Sequence[int]) -> Iterator[tuple[int, int, bytes]]:
    """The line that holds each offset: the offset, where the line begins, and its bytes with its line end; nothing for what lies outside."""
    inside = [offset for offset in offsets if 0 <= offset < text.size]
    for first in range(0, len(inside), _TOGETHER):
        look, left = _LOOK, inside[first : first + _TOGETHER]
        while left:
            spans = [(max(offset - look, 0), min(offset + look, text.size)) for offset in left]
            longer = []
            for offset, (begin, end), part in zip(left, spans, text.parts(spans), strict=True):
                start = part.rfind(b"\n", 0, offset - begin) + 1
                stop = part.find(b"\n", offset - begin) + 1
                if (start or begin == 0) and (stop or end == text.size):
                    yield offset, begin + start, part[start : stop or len(part)]
                else:
                    longer.append(offset)
            look, left = look * _FURTHER, longer
