"""The evidence that doubts of a log and notes on it are drawn from, and these themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from memlens.events import EventLog
    from memlens.trust.agreement import Agreement
    from memlens.trust.processes import Writers


T = TypeVar("T")

#: Doubts that make nothing wrong but what is reserved.
RESERVED_DOUBTS = frozenset({"no_chunk_lines", "prealloc", "reserved_too_low"})

#: Doubts under which nothing is known of single blocks.
UNPAIRED_DOUBTS = frozenset({"no_lifetimes", "no_tensor_events"})

#: What to do where recording of entries has gaps.
RECORD_FROM_THE_START = "Start recording before the first tensor is created, and keep all entries: no max_entries, and no schedule that skips."


class Remark(NamedTuple):
    """The text of a doubt or a note: see :class:`Note`."""

    message: str
    hint: str = ""
    line: int | None = None


class Note(Struct, frozen=True):
    """One thing to know of a log.

    Attributes:
        code: A name for programs, one of :data:`memlens.trust.notes.NOTES`, or of :data:`memlens.trust.doubts.DOUBTS`.
        message: What was seen, how often, and what it does to the figures.
        hint: What to do about it.
        line: 1-based number of the first line, ``None`` where there is none or it is not known.
    """

    code: str
    message: str
    hint: str = ""
    line: int | None = None


class Doubt(Note, frozen=True):
    """One thing that makes figures wrong or unsure."""


class Case(Struct, frozen=True, eq=False):
    """All that is known of one log, for doubts and notes to be drawn from.

    Attributes:
        log: The log.
        counts: What was counted, by the names of the report.
        first_line: For each doubt that is about events the 1-based number of the first one's line, where it is known.
        agreement: How the framework's own figures compare.
        writers: The processes that wrote it.
        above_reserved_bytes: The most by which blocks hold more than chunks.
    """

    log: EventLog
    counts: Mapping[str, int]
    first_line: Mapping[str, int | None]
    agreement: Agreement
    writers: Writers
    above_reserved_bytes: int

    @property
    def of_entries(self) -> bool:
        """The input consists of entries and not of lines: a memory snapshot, or a trace."""
        return not self.log.facts.has_lines

    def either(self, of_lines: T, of_entries: T) -> T:
        """The words for a log of lines, or those for an input of entries."""
        return of_entries if self.of_entries else of_lines

    def first(self, line: int | None) -> str:
        """``, first in line 5``; nothing where the line is not known."""
        return "" if line is None else f", first in {self.either('line', 'entry')} {line:,}"


#: What may be said of a log: nothing, or one finding.
Rule: TypeAlias = Callable[[Case], Iterator[Remark]]


def of_lines(rule: Rule) -> Rule:
    """A rule that says nothing of an input of entries."""
    return lambda case: iter(()) if case.of_entries else rule(case)


def seen(thing: str, message: str, hint: str = "") -> Rule:
    """The rule for one of the things that readers see (:attr:`Facts.hints`); ``{first}`` is where it stands first."""

    def rule(case: Case) -> Iterator[Remark]:
        if (line := case.log.facts.hints.get(thing)) is not None:
            yield Remark(message.replace("{first}", case.first(line)), hint, line)

    return rule
