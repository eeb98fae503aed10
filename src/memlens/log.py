"""A log as it was read: its events, the windows that are cut out of it, and what to believe of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from memlens.events import EventLog
from memlens.results import Answered
from memlens.trust import Trust, trust_of
from memlens.windows import windows as cutting

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Input", "Log"]

#: A path, ``-`` for standard input, a URL, an open binary file, or a log that was read.
Input: TypeAlias = "str | Path | BinaryIO | Log"


class Log(EventLog, frozen=True, eq=False, dict=True, weakref=True):
    """The log of one input, as :func:`memlens.read` gives it: an :class:`~memlens.events.EventLog` to be cut and judged."""

    window = cutting.window
    windows = cutting.windows

    @property
    def trust(self) -> Trust:
        """The trust report of this log."""
        return trust_of(self)

    @property
    def whole(self) -> cutting.Window:
        """The window that holds the whole log."""
        return cutting.whole(self)

    def _repr_html_(self) -> str | None:
        return None if Answered.to_html is None else Answered.to_html(self)
