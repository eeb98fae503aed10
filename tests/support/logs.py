"""The text of logs of Paddle: line by line by what happens, or by hand, an event a word and every other line as it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from memlens.log import Log
from memlens.windows.windows import Window

HEADER = "I1120 10:22:32.856307 13292 auto_growth_best_fit_allocator.cc:270] "
ALLOC = HEADER + "Alloc {} bytes, ptr = 0x{:x}\n"
FREE = HEADER + "Free {} bytes, ptr = 0x{:x}\n"


@dataclass
class LogText:
    """A log that is written line by line, each with the header of glog.

    Attributes:
        thread: Who writes the next line.
        at_us: When, in microseconds of the day.
        line_us: How much later each further line is.
        date: Month and day.
        place: The line of the allocator's source.
        lines: What is written so far; others are added as they are.
    """

    thread: int = 1120
    at_us: int = 36_000_000_000
    line_us: int = 1
    date: str = "1120"
    place: int = 270
    lines: list[str] = field(default_factory=list)

    def say(self, text: str, where: str = "") -> None:
        """A line of the allocator, or of another source file."""
        seconds, micros = divmod(self.at_us, 1_000_000)
        clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{micros:06d}"
        where = where or f"auto_growth_best_fit_allocator.cc:{self.place}"
        self.lines.append(f"I{self.date} {clock} {self.thread:5d} {where}] {text}")
        self.at_us += self.line_us

    def operator(self, name: str) -> None:
        self.say(f"Running AD API: {name}", "dygraph_functions.cc:1775")

    def request(self, size: int, aligned: int, extra: int = 0) -> None:
        self.say(f"Allocate {size} bytes, aligned to {aligned}, extra size {extra}")

    def chunk(self, size: int, addr: int, remaining: int = 0) -> None:
        self.say(f"Not found and reallocate {size}({addr:#x}), and remaining {remaining}")

    def from_chunk(self, size: int, stretch: int) -> None:
        self.say(f"Allocate {size} bytes from chunk size {stretch}, remaining {stretch - size}")

    def release(self, size: int) -> None:
        self.say(f"Free chunk with size {size}")

    def alloc(self, size: int, addr: int) -> None:
        self.say(f"Alloc {size} bytes, ptr = {addr:#x}")

    def free(self, size: int, addr: int) -> None:
        self.say(f"Free {size} bytes, ptr = {addr:#x}")

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)


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
