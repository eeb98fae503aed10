"""Whether to trust a log, as lines: the summary, then what to doubt and what to know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from memlens.reports.blocks import Line
from memlens.reports.text import plural

if TYPE_CHECKING:
    from memlens.analyzing.analyze import LogAnalysis
    from memlens.trust import Doubt, Note, Trust

__all__ = ["doubt_lines", "trust_lines"]

#: Doubts and notes told in full; machine output has all.
_MOST_REMARKS = 6


def trust_lines(log: LogAnalysis) -> Iterator[Line]:
    """The trust report of a log, most important first."""
    trust = log.trust
    yield Line(trust.summary(), "good" if trust.ok else "doubt", label="Trust")
    kinds: tuple[tuple[str, tuple[Doubt | Note, ...]], ...] = (("doubt", trust.doubts), ("note", trust.notes))
    for kind, remarks in kinds:
        for number, remark in enumerate(remarks[:_MOST_REMARKS]):
            label = kind.capitalize() if number == 0 else " "
            yield Line(remark.message, "doubt" if kind == "doubt" else "plain", label=label)
            if remark.hint:
                yield Line(remark.hint, "hint", label=" ")
        if (left := len(remarks) - _MOST_REMARKS) > 0:
            yield Line(f"… and {plural(left, f'more {kind}')} (--format json has all)", "hint", label=" ")
    for note in log.notes:
        yield Line(note, "doubt", label="Windows")
    for number, text in enumerate(log.remarks):
        yield Line(text, label=" " if number or trust.notes else "Note")


def doubt_lines(trust: Trust, label: str) -> Iterator[Line]:
    """The trust report of a log in short where it is in doubt or ran out of memory; nothing where neither is so."""
    if not trust.ok:
        yield Line(trust.summary(), "doubt", label=label)
        yield Line("memlens analyze tells what that means for its figures.", "hint", label=" ")
    for note in trust.notes:
        if note.code == "out_of_memory":
            yield Line(note.message, "doubt", label=label)
