"""The options of the verbs that draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from memlens.keywords import option
from memlens.options.parts import Cut, Owners, ReadAs

if TYPE_CHECKING:
    from memlens.inputs import Input

__all__ = ["Report"]


@dataclass(frozen=True, kw_only=True)
class Report(ReadAs, Owners, Cut):
    """The options of :func:`memlens.report`.

    Attributes:
        diff: Compare with this earlier run, as memlens diff does: the page begins with what differs, both curves side by side.
        title: The title of the page. Default: the name of the log, or of both.
    """

    diff: Input | None = option(None, "LOG")
    title: str | None = option(None, "TEXT")
