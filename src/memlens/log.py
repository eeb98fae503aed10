"""A log as it was read: its events, the windows that are cut out of it, and what to believe of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlens.events import EventLog
from memlens.results import Answered
from memlens.trust import Trust, trust_of
from memlens.windows.windows import Window, Windows, whole, window, windows

if TYPE_CHECKING:
    from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Input", "Log"]

#: A path, ``-`` for standard input, a URL, an open binary file, or a log that was read.
Input: TypeAlias = "str | Path | BinaryIO | Log"


class Log(EventLog, frozen=True, eq=False, dict=True, weakref=True):
    """The log of one input, as :func:`memlens.read` gives it: an :class:`~memlens.events.EventLog` to be cut and judged."""

    @property
    def trust(self) -> Trust:
        """The trust report of this log."""
        return trust_of(self)

    def _repr_html_(self) -> str | None:
        return None if Answered.to_html is None else Answered.to_html(self)

    @property
    def whole(self) -> Window:
        """The window that holds the whole log."""
        return whole(self)

    def window(
        self,
        start: str | None = None,
        end: str | Sequence[str] = (),
        *,
        start_regex: str | None = None,
        end_regex: str | Sequence[str] = (),
        nth: int = 1,
    ) -> Window:
        """Cut one window: from the ``nth`` line that matches the start to before the next line that matches any end.

        See :func:`memlens.windows.windows.window`.
        """
        return window(self, start, end, start_regex=start_regex, end_regex=end_regex, nth=nth)

    def windows(self, by: str, *, end: str | Sequence[str] = (), end_regex: str | Sequence[str] = ()) -> Windows:
        """Cut the log into consecutive windows, one from each line that matches the regular expression ``by``.

        See :func:`memlens.windows.windows.windows`.
        """
        return windows(self, by, end=end, end_regex=end_regex)
