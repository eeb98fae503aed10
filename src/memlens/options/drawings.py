"""The options of the verbs that draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlens.errors import UsageError
from memlens.options.keywords import option
from memlens.options.parts import Cut, Owners, ReadAs

if TYPE_CHECKING:
    from memlens.log import Input


#: What the axis of a still counts.
AXES = ("events", "time")
#: The colours of a still.
THEMES = ("light", "dark")
#: Inches of a still each way, at least and at most, and pixels in each of them.
_WIDTH, _HEIGHT, _DPI = (3.0, 100.0), (2.0, 100.0), (10, 1200)
#: Pixels of a still each way: what Matplotlib draws at most.
_MOST_PIXELS = 1 << 16


class Report(ReadAs, Owners, Cut):
    """The options of :func:`memlens.report`.

    Attributes:
        base: Compare with this earlier run, as memlens diff does: the page begins with what differs, both curves side by side.
        title: The title of the page. Default: the name of the log, or of both.
    """

    base: Input | None = option("LOG", default=None)
    title: str | None = option("TEXT", default=None)


class Plot(ReadAs, Cut):
    """The options of :func:`memlens.plot`.

    Attributes:
        base: Compare with this earlier run: it is drawn above LOG, and the verdict is that of memlens diff.
        x: What the axis counts: events, or the time that passes by the stamps of the log.
        title: The title of the picture. Default: the name of the log, or how many there are.
        theme: Dark lines on white, or light ones on black.
        width: The width in inches.
        height: The height in inches. Default: 5, and more for more than two logs.
        dpi: Pixels an inch of a PNG; an SVG and a PDF are drawn in lines.

    Raises:
        UsageError: A size that no picture has, or an axis or a theme that does not exist.
    """

    base: Input | None = option("LOG", default=None)
    x: str = option("", default="events", choices=AXES, shown=True)
    title: str | None = option("TEXT", default=None)
    theme: str = option("", default="light", choices=THEMES, shown=True, rare=True)
    width: float = option("INCHES", default=10.0, kind="inches", shown=True, rare=True)
    height: float | None = option("INCHES", default=None, kind="inches", rare=True)
    dpi: int = option("N", default=150, kind=1, shown=True, rare=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        height = 5.0 if self.height is None else self.height
        for name, value, known in (("axis", self.x, AXES), ("theme", self.theme, THEMES)):
            if value not in known:
                raise UsageError(f"there is no {name} {value!r}", f"There are: {', '.join(known)}.")
        for inches, how, (least, most) in ((self.width, "wide", _WIDTH), (height, "high", _HEIGHT)):
            if not least <= inches <= most:
                raise UsageError(f"a picture cannot be {inches:g} inches {how}", f"It can from {least:g} to {most:g}.")
        if not _DPI[0] <= self.dpi <= _DPI[1] or max(self.width, height) * self.dpi >= _MOST_PIXELS:
            raise UsageError(
                f"a picture of {self.width:g} by {height:g} inches cannot have {self.dpi} pixels an inch",
                "It has from {} to {}, and fewer than {:,} pixels each way.".format(*_DPI, _MOST_PIXELS),
            )
