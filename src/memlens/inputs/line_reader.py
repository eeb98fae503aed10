"""Formats that consist of lines: what a reader of lines gives of a log that is read from front to back, all of it at the end or bit by bit.

:func:`read_lines` reads a whole input with such a reader and keeps its events.  Whoever reads an input that has no end yet, or more
events than memory holds, takes them after each block instead (:meth:`LineReader.take`), and the reader forgets them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from memlens.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from memlens.events import EventLog
    from memlens.inputs.blocks import Block
    from memlens.inputs.file_source import FileSource
    from memlens.inputs.input_format import Request
    from memlens.windows.landmarks import Landmarks
    from memlens.windows.patterns import Match

__all__ = ["Believed", "LineReader", "Taken", "TextSource", "read_lines"]

Result = TypeVar("Result")


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
        """Whether lines are to be numbered while they are read."""
        return True

    @property
    def size(self) -> int:
        """Bytes of the text where they are known before it is read, else 0."""
        return 0

    def head(self, size: int) -> bytes:
        """The first bytes, uncompressed, fewer only where there are no more."""
        return self._head[:size]


class Believed(NamedTuple):
    """Which events of a log count for one device.  More of the log may change it: then it holds for all that was read.

    Attributes:
        device: The device's number; ``None`` where the log does not tell devices apart.
        layer: What :attr:`memlens.facts.Facts.layer` would say; ``""`` before the first event.
        blocks: The groups whose ALLOCs and FREEs count.
        chunks: The groups whose RESERVEs and RELEASEs count.
        malformed: Lines so far that look like an event and cannot be read.
    """

    device: int | None
    layer: str
    blocks: frozenset[int]
    chunks: frozenset[int]
    malformed: int


class Taken(NamedTuple):
    """What was read since the last time.  Arrays are valid until the next block is added.

    Attributes:
        columns: The new events in file order, one entry each: ``kind``, ``size``, ``addr``, ``offset``, ``line`` (1-based), and what else was asked for,
            as in :class:`~memlens.events.EventLog`.  Sizes are final; what has none is no event.
        group: The group of each; ``None`` where all are of group 0.
        sets: Sets of groups whose levels count now or may count later.  A set that was not there the last time has events of this time alone,
            or those of its groups that were a set before.
        believed: What counts by all that was read so far, for each device by rising number; never empty.
        end: Byte offset in the text up to which it was read.
        lines: Line ends so far, and one for a last line without.
        anchors: For each pattern asked for its new lines, by byte offset and 1-based number.
        landmarks: New lines that may mark the work of the run.
        ooms: Out-of-memory messages so far.
    """

    columns: Mapping[str, NDArray[Any]]
    group: NDArray[np.integer[Any]] | None
    sets: tuple[frozenset[int], ...]
    believed: tuple[Believed, ...]
    end: int
    lines: int
    anchors: tuple[Sequence[Match], ...]
    landmarks: Landmarks
    ooms: int


class LineReader(ABC, Generic[Result]):
    """Reads the blocks of one input."""

    @abstractmethod
    def read(self, block: Block) -> Result:
        """What one block says, which must not be kept; several threads may call it at once, in any order."""

    @abstractmethod
    def add(self, result: Result) -> None:
        """Take what the next block says, in the order of the input.

        Raises:
            InputError: The sizes add up to more than 64-bit sums can hold.
        """

    @abstractmethod
    def take(self, *, ended: bool = False) -> Taken:
        """What was added since the last time, which the reader then forgets: lines have to be numbered, and :meth:`finish` is of no use afterwards.

        Args:
            ended: Nothing more comes: the end of the text is to be looked at as such.
        """

    @abstractmethod
    def finish(self, problem: str) -> Sequence[EventLog]:
        """The logs of all blocks added, one a device.

        Args:
            problem: Why the input ended early, or ``""``.

        Raises:
            InputError: It ended early, and was to be read whole.
            NoEventsError: There was no event.
        """


def read_lines(
    lines: Callable[[TextSource, Request], LineReader[Any]], source: FileSource, request: Request
) -> Sequence[EventLog]:
    """Read a whole input with a reader of lines; see :attr:`memlens.inputs.input_format.InputFormat.lines`."""
    reader = lines(source, request)
    for result in source.read_blocks(reader.read, request.progress):
        reader.add(result)
    return reader.finish(source.problem)
