"""What an input format is, and what is wanted of an input: the contract between the registry and the readers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memlens.events import EventLog
    from memlens.inputs.file_source import FileSource
    from memlens.inputs.line_reader import LineReader, TextSource
    from memlens.windows.patterns import Pattern

__all__ = ["HEAD", "InputFormat", "Request"]

#: Bytes of an input that are looked at to tell its format.
HEAD = 1 << 16


@dataclass(frozen=True)
class Request:
    """What is wanted of one input; see :func:`memlens.read`.

    Attributes:
        patterns: Anchors to find in the same pass.
        owners: Further context lines.
        columns: Columns wanted beyond the usual ones.
        layer: The layer of Paddle's allocator to take blocks from.
        strict: An input that is cut short is an error.
        landmarks: Keep lines that may mark the work of the run (:mod:`memlens.windows.landmarks`).
        progress: Called with the bytes consumed of the input as it lies on disk.
        most_events: Events that are held at once, where those that no result needs may be dropped (:mod:`memlens.folding.condensed`);
            ``None`` keeps all, -1 those of a text that is known to be short.  Inputs that have no lines are read whole.
        needed_by: What needs all events, in words: where they are many it is said how much memory they will take.
        near_cuts: Where events are dropped, note the blocks' events next to anchors.
    """

    patterns: tuple[Pattern, ...] = ()
    owners: tuple[Pattern, ...] = ()
    columns: tuple[str, ...] = ()
    layer: str | None = None
    strict: bool = False
    landmarks: bool = False
    progress: Callable[[int], None] | None = None
    most_events: int | None = None
    needed_by: str = ""
    near_cuts: bool = False


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
        lines: Makes the reader of an input that consists of lines, so that it can be read while it is written
            (:mod:`memlens.inputs.line_reader`); ``None`` where only a whole input makes sense.
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
    lines: Callable[[TextSource, Request], LineReader[Any]] | None = None
