"""What the places of an input are called: lines and chunks of a log of text, entries and segments of a snapshot or a trace.

The words are those of the input whose blocks are being made, as a locale is, so that no function has to hand them on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from memlens.reports.text import format_count, plural
from memlens.trust.case import OF_ENTRIES

__all__ = ["format_place", "in_words_of", "many_chunks", "place_title", "plural_chunks", "plural_places"]

#: What one place is called, what several are, and what is taken from the device.
_WORDS: ContextVar[tuple[str, str, str]] = ContextVar("words", default=("line", "lines", "chunk"))
_LINE = re.compile(r"(?i)\bline\b")


@contextmanager
def in_words_of(layer: str) -> Iterator[None]:
    """Call places as they are called in an input whose events come from a layer (:attr:`~memlens.facts.Facts.layer`)."""
    token = _WORDS.set(("entry", "entries", "segment") if layer in OF_ENTRIES else ("line", "lines", "chunk"))
    try:
        yield
    finally:
        _WORDS.reset(token)


def format_place(number: int) -> str:
    """``line 1,942``, or ``entry 1,942``."""
    return f"{_WORDS.get()[0]} {format_count(number)}"


def plural_places(count: int) -> str:
    """``line`` or ``lines``, ``entry`` or ``entries``, as many as there are."""
    return _WORDS.get()[min(count, 2) - 1]


def plural_chunks(count: int) -> str:
    """``2 chunks``, or ``2 segments``."""
    return plural(count, _WORDS.get()[2])


def many_chunks() -> str:
    """``chunks``, or ``segments``."""
    return f"{_WORDS.get()[2]}s"


def place_title(title: str) -> str:
    """The heading of a column: ``First line``, or ``First entry``."""
    word = _WORDS.get()[0]
    return _LINE.sub(lambda found: word.capitalize() if found[0][0] == "L" else word, title)
