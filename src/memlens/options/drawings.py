"""The options of the verbs that draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from memlens.errors import UsageError
from memlens.keywords import option
from memlens.options.parts import Cut, Owners, ReadAs

if TYPE_CHECKING:
    from memlens.inputs import Input

__all__ = ["AXES", "THEMES", "Plot", "Report"]

#: What the axis of a still counts.
AXES = ("events", "time")
#: The colours of a still.
THEMES = ("light", "dark")
#: Inches of a still each way, at least and at most, and pixels in each of them.
_WIDTH, _HEIGHT, _DPI = (3.0, 100.0), (2.0, 100.0), (10, 1200)
#: Pixels of a still each way: what Matplotlib draws at most.
_MOST_PIXELS = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Report(ReadAs, Owners, Cut):
    """The options of :func:`memlens.report`.

    Attributes:
        diff: Compare with this earlier run, as memlens diff does: the page begins with what differs, both curves side by side.
        title: The title of the page. Default: the name of the log, or of both.
    """

    diff: Input | None = option(None, "LOG")
    title: str | None = option(None, "TEXT")


@dataclass(frozen=True, kw_only=True)
class Plot(ReadAs, Cut):
    """The options of :func:`memlens.plot`.

    Attributes:
        diff: Compare with this earlier run, as memlens diff does: both curves side by side, the difference below them, and what is found marked.
        x: What the axis counts: events, or the time that passes by the stamps of the log.
        title: The title of the picture. Default: the names of the logs.
        theme: Dark lines on white, or light ones on black.
        width: The width in inches.
        height: The height in inches.
        dpi: Pixels an inch of a PNG; an SVG and a PDF are drawn in lines.

    Raises:
        UsageError: A size that no picture has, or an axis or a theme that does not exist.
    """

    diff: Input | None = option(None, "LOG")
    x: str = option("events", "", choices=AXES, shown=True)
    title: str | None = option(None, "TEXT")
    theme: str = option("light", "", choices=THEMES, shown=True)
    width: float = option(10.0, "INCHES", kind="inches", shown=True)
    height: float = option(5.0, "INCHES", kind="inches", shown=True)
    dpi: int = option(150, "N", kind=1, shown=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value, known in (("axis", self.x, AXES), ("theme", self.theme, THEMES)):
            if value not in known:
                raise UsageError(f"there is no {name} {value!r}", f"There are: {', '.join(known)}.")
        for inches, how, (least, most) in ((self.width, "wide", _WIDTH), (self.height, "high", _HEIGHT)):
            if not least <= inches <= most:
                raise UsageError(f"a picture cannot be {inches:g} inches {how}", f"It can from {least:g} to {most:g}.")
        if not _DPI[0] <= self.dpi <= _DPI[1] or max(self.width, self.height) * self.dpi >= _MOST_PIXELS:
            raise UsageError(
                f"a picture of {self.width:g} by {self.height:g} inches cannot have {self.dpi} pixels an inch",
                "It has from {} to {}, and fewer than {:,} pixels each way.".format(*_DPI, _MOST_PIXELS),
            )
