"""The state of a growing log at one moment, which the reader that follows it gives and the screen shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from msgspec import Struct, field

from memlens.results import Result

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


#: Windows of a series that are kept one by one; of those before them only the levels at their ends.
KEPT_WINDOWS = 64


class LiveWindow(Result, frozen=True):
    """One window of a series, as far as it is written; the figures mean what those of :func:`memlens.analyze` of the same names do.

    Attributes:
        name: Its name.
        index: Its 0-based index in the series; what precedes the first anchor is a window too.
        start_line: The line of its anchor, 1-based; 1 for what precedes the first.
        peak_bytes: The highest allocated level in it.
        rise_bytes: That less what was carried in.
        live_bytes: The level at its end, or now.
        reserved_peak_bytes: The highest reserved level; ``None`` where the log does not tell of chunks.
        allocs: Its ALLOCs.
        frees: Its FREEs.
        open: It is still being written.
    """

    name: str
    index: int
    start_line: int
    peak_bytes: int
    rise_bytes: int
    live_bytes: int
    reserved_peak_bytes: int | None
    allocs: int
    frees: int
    open: bool


class Timeline(Struct, frozen=True, eq=False):
    """The highest levels of consecutive stretches of as many events, the last one still open; at most some hundred entries.

    Attributes:
        events: Events a stretch; doubles as the log grows, and neighbours are merged.
        allocated_bytes: The highest allocated level in each stretch, int64.
        reserved_bytes: The highest reserved level, int64; ``None`` where the log does not tell of chunks.
    """

    events: int
    allocated_bytes: Ints
    reserved_bytes: Ints | None


class LogState(Result, frozen=True, eq=False):
    """The state of a growing log: all that was read so far.

    Attributes:
        path: The log as it was named.
        device: Which device of several, ``device 1``; ``""`` where the log has one.
        layer: The layer, or the format, that is believed; ``""`` before the first event.
        bytes: Bytes of text read, over all files that the log had.
        lines: Whole lines read.
        events: Events that count.
        allocs: ALLOCs.
        frees: FREEs.
        allocated_bytes: The level now; ``None`` where no event tells of blocks.
        reserved_bytes: The reserved level now; ``None`` where the log does not tell of chunks.
        peak_bytes: The highest allocated level so far; 0 where none is known.
        peak_line: The line that first reaches it, 1-based, counted over all files; ``None`` where the level never rose.
        reserved_peak_bytes: The highest reserved level so far; ``None`` where not known.
        timeline: The levels over the run.
        windows: The last windows of the series, the open one at the end; none where nothing cuts the log.
        window_count: How many windows there were in all.
        end_live_bytes: The live level at the end of every closed window, int64.
        by: The regular expression that cuts the log; ``""`` for none.
        repeated: The windows were asked for, or each is the same work again, so that what they leave behind is growth; else they are parts of a
            larger unit of work (:class:`memlens.analyzing.result.Steps`).
        ooms: Out-of-memory messages so far.
        malformed: Lines that look like an event and cannot be read.
        rotations: How often the log went on in a new file, or from the start of a file made shorter.
        restarts: How often the file was replaced by that of another run; figures are of the last one.
        waiting: Why there is nothing to read, in words (``no such file yet``); ``""`` where there is.
        problem: What is wrong with what was read (a damaged compressed stream), in words; ``""`` where nothing is.
        written: When something was read last, in seconds of :func:`time.monotonic`.
    """

    in_json: ClassVar[tuple[str, ...]] = (
        "path", "device", "layer", "bytes", "lines", "events", "allocs", "frees", "allocated_bytes", "reserved_bytes",
        "peak_bytes", "peak_line", "reserved_peak_bytes", "window_count", "by", "repeated", "ooms", "malformed",
        "rotations", "restarts", "waiting", "problem", "windows",
    )  # fmt: skip

    path: str
    device: str = ""
    layer: str = ""
    bytes: int = 0
    lines: int = 0
    events: int = 0
    allocs: int = 0
    frees: int = 0
    allocated_bytes: int | None = None
    reserved_bytes: int | None = None
    peak_bytes: int = 0
    peak_line: int | None = None
    reserved_peak_bytes: int | None = None
    timeline: Timeline = field(default_factory=lambda: Timeline(1, np.zeros(0, np.int64), None))
    windows: tuple[LiveWindow, ...] = ()
    window_count: int = 0
    end_live_bytes: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    by: str = ""
    repeated: bool = True
    ooms: int = 0
    malformed: int = 0
    rotations: int = 0
    restarts: int = 0
    waiting: str = ""
    problem: str = ""
    written: float = 0.0

    @property
    def key(self) -> tuple[str, str]:
        """The path and the device, which tell it from the others that are watched."""
        return self.path, self.device
