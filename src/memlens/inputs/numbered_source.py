"""The source of a log whose events are not lines of text: its places are numbers, and there is no text to look up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memlens.errors import InputError

__all__ = ["NumberedSource"]


class NumberedSource:
    """An input whose events are numbered in order: offset ``k`` is the place that reports call line ``k + 1``.

    Args:
        name: The path as the user gave it, or ``<stdin>``.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"<NumberedSource {self._name!r}>"

    @property
    def name(self) -> str:
        return self._name

    @property
    def rereadable(self) -> bool:
        return False

    def blocks(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:  # noqa: ARG002 - a protocol's
        raise InputError(f"{self._name}: has no lines of text", "Anchors are looked for among its annotations.")

    def line_numbers(self, offsets: Sequence[int]) -> list[int | None]:
        return [offset + 1 if offset >= 0 else None for offset in offsets]

    def lines(self, offsets: Sequence[int]) -> list[bytes | None]:
        return [None for _ in offsets]

    def parts(self, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        return [b"" for _ in spans]
