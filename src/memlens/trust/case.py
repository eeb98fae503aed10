"""What the findings about a log are drawn from, and what a finding is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memlens.events import EventLog
    from memlens.trust.agreement import Agreement
    from memlens.trust.processes import Writers

__all__ = [
    "OF_ENTRIES",
    "RESERVED_DOUBTS",
    "WITHOUT_CHUNKS",
    "Case",
    "Doubt",
    "Finding",
    "Note",
    "Pairs",
    "counted",
    "first_in",
    "place_word",
]

#: How the layers begin (:attr:`~memlens.facts.Facts.layer`) whose inputs may tell of blocks only, without anything being amiss.
WITHOUT_CHUNKS = ("rmm", "kineto", "format:")

#: Layers whose inputs consist of entries and not of lines.
OF_ENTRIES = frozenset({"torch_snapshot", "kineto"})

#: Doubts that make nothing wrong but what is reserved.
RESERVED_DOUBTS = frozenset({"no_chunk_lines", "prealloc", "reserved_too_low"})

#: What to do where recording of entries has gaps.
RECORD_FROM_THE_START = "Begin to record before the first tensor is made, and keep all entries: give no max_entries, and no schedule that skips."


class Finding(NamedTuple):
    """What a doubt or a note says: see :class:`Doubt`."""

    message: str
    hint: str = ""
    line: int | None = None


@dataclass(frozen=True)
class Doubt:
    """One thing that makes figures wrong or unsure.

    Attributes:
        code: A name for programs, one of :data:`memlens.trust.doubts.DOUBTS`.
        message: What was seen, how often, and what it does to the figures.
        hint: What to do about it.
        line: 1-based number of the first line, ``None`` where there is none or it is not known.
    """

    code: str
    message: str
    hint: str
    line: int | None = None


@dataclass(frozen=True)
class Note:
    """One thing to know that makes no figure wrong; ``code`` is one of :data:`memlens.trust.notes.NOTES`."""

    code: str
    message: str
    hint: str = ""
    line: int | None = None


@dataclass(frozen=True)
class Pairs:
    """What is wrong with the pairs of a log; ``first`` has the first unknown FREE, double ALLOC and mismatch, as events."""

    unknown_frees: int
    unknown_free_bytes: int
    size_mismatches: int
    double_alloc_bytes: int
    first: tuple[int | None, int | None, int | None]

    @property
    def unsound(self) -> bool:
        """Whether anything is wrong with a pair."""
        return any(event is not None for event in self.first)


@dataclass(frozen=True, eq=False)
class Case:
    """All that is known of one log, for the findings to be drawn from.

    Attributes:
        log: The log.
        kinds: Events of each kind, int64, shape (4,).
        pairs: What is wrong with its pairs.
        agreement: How the framework's own figures compare.
        writers: The processes that wrote it.
        above_reserved: The first event at which blocks hold more than chunks, and the most by which they do.
        distinct_ooms: Failures that the out-of-memory messages tell of.
        line: Line numbers of the events named here.
    """

    log: EventLog
    kinds: NDArray[np.int64]
    pairs: Pairs
    agreement: Agreement
    writers: Writers
    above_reserved: tuple[int, int] | None
    distinct_ooms: int
    line: dict[int, int | None]

    @property
    def of_entries(self) -> bool:
        """The input consists of entries and not of lines: a memory snapshot, or a trace."""
        return self.log.marks is not None

    def at(self, event: int | None) -> int | None:
        """The 1-based line number of an event named here."""
        return None if event is None else self.line.get(event)

    def first(self, line: int | None) -> str:
        """``, first in line 5``; nothing where the line is not known."""
        return first_in(line, "entry" if self.of_entries else "line")


def place_word(layer: str) -> str:
    """What a place is called in an input whose events come from a layer (:attr:`~memlens.facts.Facts.layer`)."""
    return "entry" if layer in OF_ENTRIES else "line"


def first_in(line: int | None, place: str = "line") -> str:
    """``, first in line 5``; nothing where the line is not known."""
    return "" if line is None else f", first in {place} {line:,}"


def counted(count: int, one: str, many: str = "") -> str:
    """``1 line``, ``2,000 lines``; ``many`` is for words that do not just take an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
