"""Anchors cut a log into windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlens.events import EventLog

__all__ = ["Anchor", "Pattern", "Window", "whole", "window", "windows"]


@dataclass(frozen=True)
class Pattern:
    """What marks a line: a literal that stands in it as whole words, or a regular expression (``re`` syntax)."""

    text: str
    regex: bool = False


@dataclass(frozen=True)
class Anchor:
    """All lines of a log that match one pattern: line starts (byte offsets), line numbers and names, in file order."""

    pattern: Pattern
    offsets: tuple[int, ...]
    lines: tuple[int, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Window:
    """The events of the lines between two anchors.

    Attributes:
        log: The log it is cut from.
        name: ``SOT_CALL_0``; ``(whole log)``; ``(before)``.
        lo: Index of its first event.
        hi: Index after its last event.
        start_offset: Byte offset of its first line.
        end_offset: Byte offset after its last line.
        start_line: 1-based number of its first line.
        end_line: 1-based number of its last line (included).
        open_end: It ends with the log though an end was asked for.
    """

    log: EventLog
    name: str
    lo: int
    hi: int
    start_offset: int
    end_offset: int
    start_line: int
    end_line: int
    open_end: bool = False

    def __len__(self) -> int:
        return self.hi - self.lo


def whole(log: EventLog) -> Window:
    """The window that holds the whole log, named ``(whole log)``."""
    return Window(log, "(whole log)", 0, len(log), 0, log.facts.bytes, 1, max(log.facts.lines, 1))


def window(
    log: EventLog,
    start: str | None = None,
    end: str | Sequence[str] = (),
    *,
    start_regex: str | None = None,
    end_regex: str | Sequence[str] = (),
    nth: int = 1,
) -> Window:
    """Cut one window."""
    raise NotImplementedError


def windows(
    log: EventLog, by: str, *, end: str | Sequence[str] = (), end_regex: str | Sequence[str] = ()
) -> tuple[Window, ...]:
    """Cut consecutive windows."""
    raise NotImplementedError
