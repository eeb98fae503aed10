"""The options of the verbs that draw."""

from __future__ import annotations

from dataclasses import dataclass

from memlens.keywords import option
from memlens.options.parts import Cut, Owners, ReadAs

__all__ = ["Report"]


@dataclass(frozen=True, kw_only=True)
class Report(ReadAs, Owners, Cut):
    """The options of :func:`memlens.report`.

    Attributes:
        title: The title of the page. Default: the name of the log.
    """

    title: str | None = option(None, "TEXT")
