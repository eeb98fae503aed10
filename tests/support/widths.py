"""What holds of a screen at every width; its text is kept at one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise

from memlens.text import width_of

_FIGURE = re.compile(r"(?<![\w…])[-+]?[\d,]+(?:\.\d+)?(?: (?:[KMG]i)?B| m?s|%)(?!\w)")
_LEFT_OUT = "(no room here for: "


def check_widths(show: Callable[[int | None], str], narrow: int = 80) -> None:
    """Hold the text of a screen at several widths to what must be alike.

    No line is wider than there is room; a wider screen has every figure that a narrower one has; and where nothing is left out and
    nothing is shortened, two widths say the same words.

    Args:
        show: The screen at a width; a pipe has none.
        narrow: The smallest width for which it is made.
    """
    texts = {width: show(width) for width in (narrow, 80, 120, None)}
    for width, text in texts.items():
        assert width is None or all(width_of(line) <= width for line in text.splitlines())
        assert "\n\n\n" not in text
    for small, wide in pairwise(texts.values()):
        assert not figures(line for line in small.splitlines() if "…" not in line) - figures(wide.splitlines())
        if _LEFT_OUT not in small and "…" not in small + wide:
            assert small.split() == wide.split()
    assert _LEFT_OUT not in texts[None]


def figures(lines: Iterable[str]) -> Counter[str]:
    """The figures with a unit, each as often as it stands there."""
    return Counter(figure for line in lines for figure in _FIGURE.findall(line))
