"""Where a log came from, by its name, and how to get at its text again: lines and line numbers by byte offset."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, TypeVar

from memlens.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray


_Where = TypeVar("_Where")
#: A scheme has two letters at least: ``c://`` is a drive.
_URL = r"([A-Za-z][A-Za-z0-9+.-]+)(?:::[^\s]+)?://"


def scheme_of(where: object) -> str:
    """The scheme of a URL, lower case; ``""`` for anything else."""
    match = re.match(_URL, where) if isinstance(where, str) and "://" in where else None
    return "" if match is None else match[1].lower()


def is_url(where: object) -> bool:
    """Whether an input is named by a URL (``s3://bucket/run.log``) and not by a path."""
    return bool(scheme_of(where))


def local_path(where: _Where) -> _Where | Path:
    """The path that a ``file://`` URL of this machine names; anything else as it is."""
    if scheme_of(where) != "file":
        return where
    from pathlib import Path
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(str(where))
    return Path(unquote(parts.path)) if parts.netloc in ("", "localhost") and parts.path else where


def is_folder(given: object) -> bool:
    """Whether an input is a folder: of a URL its last character says so, for to ask takes time."""
    if is_url(given):
        return str(given).endswith("/")
    return isinstance(given, (str, os.PathLike)) and str(given) != "-" and os.path.isdir(given)


class Source:
    """An input that was read, whose text may be looked up by byte offset in the uncompressed input; this one's cannot.

    Args:
        name: The path as the user gave it, or ``<stdin>``.
    """

    _rereadable = False
    #: Tells when the events of some lines were logged, in microseconds; the reader sets it of an input whose lines say so.
    times_of_lines: Callable[[Sequence[bytes | None]], list[int | None]] | None = None

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r}>"

    @property
    def name(self) -> str:
        """The path as the user gave it, or ``<stdin>``."""
        return self._name

    @property
    def rereadable(self) -> bool:
        """Whether the text can be read a second time; lookups answer ``None`` or nothing where it cannot."""
        return self._rereadable

    def blocks(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:  # noqa: ARG002
        """The text again, as ``(offset, bytes)`` pieces that begin and end at line ends, from the line that holds ``start``.

        Raises:
            InputError: The input cannot be read a second time.
        """
        raise InputError(f"{self._name}: has no lines of text", "Anchors are looked for among its annotations.")

    def line_numbers(self, offsets: Sequence[int]) -> list[int | None]:
        """The 1-based number of the line that holds each offset; ``None`` where it cannot be told."""
        return [None] * len(offsets)

    def line_column(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """The same of a column, int64; 0 where it cannot be told."""
        import numpy as np

        return np.array([line or 0 for line in self.line_numbers(offsets.tolist())], np.int64)

    def lines_of_events(self, events: NDArray[np.int64], offset: NDArray[np.int64]) -> NDArray[np.int64]:
        """The same of some events of a log, given where the line of each of its events begins (int64, not falling)."""
        return self.line_column(offset[events])

    def lines(self, offsets: Sequence[int]) -> list[bytes | None]:
        """The text of the line that holds each offset, without its line end; ``None`` where it cannot be told."""
        return [None] * len(offsets)

    @property
    def numbered(self) -> bool:
        """Whether lines are to be numbered while they are read, because to look at some of them again is dear."""
        return False

    def times(self, offsets: Sequence[int]) -> list[int | None]:
        """When the event on the line of each offset was logged, in microseconds; ``None`` where no line says, or a second look is dear."""
        if self.times_of_lines is None or not self.rereadable or self.numbered:
            return [None] * len(offsets)
        return self.times_of_lines(self.lines(offsets))

    def stack(self, offset: int) -> tuple[str, ...]:
        """The whole call stack of the event at an offset, innermost first, as ``file:line function``; empty where it has none."""
        import numpy as np

        numbers = self.stack_numbers(np.array([offset]))
        return () if numbers is None else self.stack_of(int(numbers[0]))

    def stack_numbers(self, offsets: NDArray[np.int64]) -> NDArray[np.int32] | None:  # noqa: ARG002
        """Which of some events have one call stack, as its number, int32, -1 for none; ``None`` where the input has no call stacks."""
        return None

    def opening_stacks(self) -> NDArray[np.int32] | None:
        """Of the events that stand for what was there before the input, which no offset leads to, the numbers of their call stacks, likewise."""
        return None

    def stack_of(self, number: int) -> tuple[str, ...]:  # noqa: ARG002
        """The whole call stack that has a number, as :meth:`stack` gives it; empty for -1."""
        return ()

    def parts(self, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each span of offsets, ``(first, after the last)``; fewer or none where the text does not reach so far.

        All are looked up in one go, in any order.  Empty where the input cannot be read a second time.
        """
        return [b""] * len(spans)


class NumberedSource(Source):
    """An input whose events are numbered in order: offset ``k`` is the place that reports call line ``k + 1``."""

    def line_numbers(self, offsets: Sequence[int]) -> list[int | None]:
        return [offset + 1 if offset >= 0 else None for offset in offsets]


class TextSource(Source):
    """An input of lines; this one's text passes by and cannot be looked up again.

    Args:
        name: The input as it was named.
        head: Its first bytes, as many as are known.
    """

    def __init__(self, name: str, head: bytes = b"") -> None:
        super().__init__(name)
        self._head = head

    @property
    def numbered(self) -> bool:
        return True

    @property
    def size(self) -> int:
        """Bytes of the text where they are known before it is read, else 0."""
        return 0

    def head(self, size: int) -> bytes:
        """The first bytes, uncompressed, fewer only where there are no more."""
        return self._head[:size]
