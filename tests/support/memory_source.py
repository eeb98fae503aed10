"""A log held in memory as the source of events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from memlens.source import Source


class MemorySource(Source):
    """A log held in memory.

    Args:
        text: The whole log.
        name: What to call it in reports.
    """

    _rereadable = True

    def __init__(self, text: bytes = b"", name: str = "<memory>") -> None:
        super().__init__(name)
        self.text = text

    def blocks(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
        begin = self.text.rfind(b"\n", 0, max(start, 0)) + 1
        stop = len(self.text) if end is None else end
        if begin < stop:
            yield begin, self.text[begin:stop]

    def line_numbers(self, offsets: Iterable[int]) -> list[int | None]:
        return [self.text.count(b"\n", 0, offset) + 1 if 0 <= offset < len(self.text) else None for offset in offsets]

    def lines(self, offsets: Iterable[int]) -> list[bytes | None]:
        found: list[bytes | None] = []
        for offset in offsets:
            if not 0 <= offset < len(self.text):
                found.append(None)
                continue
            begin = self.text.rfind(b"\n", 0, offset) + 1
            end = self.text.find(b"\n", offset)
            found.append(self.text[begin : len(self.text) if end < 0 else end].rstrip(b"\r"))
        return found

    def parts(self, spans: Iterable[tuple[int, int]]) -> list[bytes]:
        return [self.text[max(begin, 0) : max(end, 0)] for begin, end in spans]
