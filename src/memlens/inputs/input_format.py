"""The contract between the registry and the readers: an input format, a request for one input, and the parts that a reader of lines gives.

:func:`read_lines` reads a whole input that consists of lines and keeps its events.  Whoever reads one that has no end yet
takes them after each block instead (:meth:`LineReader.take`), and the reader forgets them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from memlens.columns import Ints
    from memlens.inputs.blocks import Block
    from memlens.inputs.file_source import FileSource
    from memlens.log import Log
    from memlens.source import TextSource
    from memlens.windows.landmarks import Landmarks
    from memlens.windows.patterns import Match, Pattern


Result = TypeVar("Result")
#: Bytes of an input that are looked at to tell its format.
HEAD = 1 << 16


class Request(Struct, frozen=True):
    """The request for one input; see :func:`memlens.read`.

    Attributes:
        patterns: Anchors to find in the same pass.
        owners: Further context lines.
        columns: Columns wanted beyond the usual ones.
        layer: The layer of Paddle's allocator to take blocks from.
        strict: An input that is cut short is an error.
        landmarks: Keep lines that may mark the work of the run (:mod:`memlens.windows.landmarks`).
        progress: Called with the bytes consumed of the input as it lies on disk.
    """

    patterns: tuple[Pattern, ...] = ()
    owners: tuple[Pattern, ...] = ()
    columns: tuple[str, ...] = ()
    layer: str | None = None
    strict: bool = False
    landmarks: bool = False
    progress: Callable[[int], None] | None = None


class InputFormat(Struct, frozen=True):
    """A format of inputs.

    Attributes:
        name: What ``--read-as`` calls it; lower case, no spaces.
        title: What messages call an input of it, with its article.
        summary: What it is and who writes it, in one line.
        sample: What an input of it looks like, in a line or two.
        recognise: Given the first bytes of an input, uncompressed: what in them tells, in words; ``""`` where nothing does.
        read: Reads an input, given its source and what is wanted of it, into one log a device: of its columns ``offset`` says on which line an event
            stands, and of its facts ``bytes`` and ``lines`` how much was read (:func:`read_lines` does all that of an input that consists of lines).
        sizes: What its sizes are, in words that follow "are".
        places: What ``line`` counts in results, in words.
        layers: What :attr:`~memlens.facts.Facts.layer` of its logs may say; empty for formats of users.
        is_text: It consists of lines of text, which may begin with others.
        origin: Where it comes from: ``memlens``, a file, a package.
        lines: Makes the reader of an input that consists of lines, so that it can be read while it is written
            (:class:`LineReader`); ``None`` where only a whole input makes sense.
    """

    name: str
    title: str
    summary: str
    sample: str
    recognise: Callable[[bytes], str]
    read: Callable[[FileSource, Request], Sequence[Log]]
    sizes: str = "what its lines say"
    places: str = "lines"
    layers: tuple[str, ...] = ()
    is_text: bool = True
    origin: str = "memlens"
    lines: Callable[[TextSource, Request], LineReader[Any]] | None = None


class Selection(Struct, frozen=True):
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


class HolderLines(NamedTuple):
    """Lines that name who holds a block, in order.

    Attributes:
        before: How many events stand before each, int64.
        addr: The address of the block, uint64; 0 on a line after all that variables lead to was looked at.
        name: The number of the holder's name, int64.
        names: The names.
    """

    before: Ints
    addr: NDArray[np.uint64]
    name: Ints
    names: tuple[str, ...]


class NewEvents(NamedTuple):
    """The part of a log that was read since the last time.  Arrays are valid until the next block is added.

    Attributes:
        columns: The new events in file order, one entry each: ``kind``, ``size``, ``addr``, ``offset``, ``line`` (1-based), and what else was asked for,
            as in :class:`~memlens.events.EventLog`.  Sizes are final; what has none is no event.
        group: The group of each; ``None`` where all are of group 0.
        sets: Sets of groups whose levels count now or may count later.  A set that was not there the last time has events of this time alone,
            or those of its groups that were a set before.
        selected: What counts by all that was read so far, for each device by rising number; never empty.
        end: Byte offset in the text up to which it was read.
        lines: Line ends so far, and one for a last line without.
        anchors: For each pattern asked for its new lines, by byte offset and 1-based number.
        landmarks: New lines that may mark the work of the run.
        ooms: Out-of-memory messages so far.
        holders: New lines that name who holds a block, with places among the new events; ``None`` in a log that names no variables so far.
    """

    columns: Mapping[str, NDArray[Any]]
    group: NDArray[np.integer[Any]] | None
    sets: tuple[frozenset[int], ...]
    selected: tuple[Selection, ...]
    end: int
    lines: int
    anchors: tuple[Sequence[Match], ...]
    landmarks: Landmarks
    ooms: int
    holders: HolderLines | None = None


class LineReader(ABC, Generic[Result]):
    """Reads the blocks of one input."""

    @abstractmethod
    def read(self, block: Block) -> Result:
        """Read one block, which must not be kept; several threads may call it at once, in any order."""

    @abstractmethod
    def add(self, result: Result) -> None:
        """Take what the next block says, in the order of the input.

        Raises:
            InputError: The sizes add up to more than 64-bit sums can hold.
        """

    @abstractmethod
    def take(self, *, ended: bool = False) -> NewEvents:
        """Return the part that was added since the last time, and forget it: lines have to be numbered, and :meth:`finish` is of no use afterwards.

        Args:
            ended: Nothing more comes: the end of the text is to be looked at as such.
        """

    @abstractmethod
    def finish(self, problem: str) -> Sequence[Log]:
        """The logs of all blocks added, one a device.

        Args:
            problem: Why the input ended early, or ``""``.

        Raises:
            InputError: It ended early, and was to be read whole.
            NoEventsError: There was no event.
        """


def read_lines(
    lines: Callable[[FileSource, Request], LineReader[Any]], source: FileSource, request: Request
) -> Sequence[Log]:
    """Read a whole input with a reader of lines; see :attr:`memlens.inputs.input_format.InputFormat.lines`."""
    reader = lines(source, request)
    for result in source.read_blocks(reader.read, request.progress):
        reader.add(result)
    return reader.finish(source.problem)
