"""Logs of Paddle written by hand: an event a word, and every other line as it is."""

from __future__ import annotations

from pathlib import Path

from memlens.log import Log
from memlens.windows.windows import Window

HEADER = "I1120 10:22:32.856307 13292 auto_growth_best_fit_allocator.cc:270] "
ALLOC = HEADER + "Alloc {} bytes, ptr = 0x{:x}\n"
FREE = HEADER + "Free {} bytes, ptr = 0x{:x}\n"


def write_log(folder: Path, name: str, *lines: str) -> Path:
    """A log whose lines are anchors, or ``+size@address`` and ``-size@address``."""
    text = []
    for line in lines:
        size, _, addr = line[1:].partition("@")
        made = {"+": ALLOC, "-": FREE}.get(line[0])
        text.append(made.format(size, int(addr, 16)) if made else f"{line}\n")
    path = folder / name
    path.write_text("".join(text))
    return path


def window_of(log: Log, lo: int = 0, hi: int | None = None, name: str = "all") -> Window:
    """The window of some events of a log, or of all, an event a line."""
    hi = len(log) if hi is None else hi
    return Window(log, name, lo, hi, lo, hi, lo + 1, hi)
