"""A verdict of the gate as Markdown for the comment of a pull request: never longer than GitHub takes, whatever the log holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlens.reports.gate_screens import Room, gate_blocks
from memlens.reports.gate_words import verdict_words
from memlens.reports.markdown import plain, render

if TYPE_CHECKING:
    from memlens.gating.verdict import Verdict

__all__ = ["LARGEST", "comment"]

#: Bytes of the longest comment.  GitHub takes 65,536 characters.
LARGEST = 60_000

#: How much is shown, from much to little: the first that fits is taken.
_ROOMS = (
    Room(100, 20, 10, 5),
    Room(50, 10, 5, 3),
    Room(30, 5, 3, 2),
    Room(20, 3, 1, 2),
    Room(10, 3, 1, 1),
    Room(10, 1, 0, 0),
    Room(1, 0, 0, 0),
)


def comment(verdict: Verdict) -> str:
    """The verdict as Markdown, below :data:`LARGEST` bytes of UTF-8; what was left out is counted in it."""
    for room in _ROOMS:
        text = render(gate_blocks(verdict, room))
        if len(text.encode()) < LARGEST:
            return text
    return f"### memlens gate: {verdict.verdict}\n\n{plain(verdict_words(verdict))}\n\nEverything else was too long for a comment.\n"
