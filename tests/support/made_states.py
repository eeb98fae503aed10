"""Hand-made states of logs that grow: figures that follow from a few numbers by arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from memlens.watching.result import LiveWindow, LogState, Timeline

MIB = 1 << 20


def live_window(index: int, live: int, *, name: str | None = None, open_end: bool = False) -> LiveWindow:
    """Window ``index`` of a series: it ends with ``live`` MiB, its peak is 2 MiB above and its rise 3 MiB, on 10 lines."""
    named = name if name is not None else "(before)" if index == 0 else f"STEP_{index}"
    start = 1 + 10 * index
    return LiveWindow(named, index, start, (live + 2) * MIB, 3 * MIB, live * MIB, (live + 4) * MIB, 4, 3, open_end)


def log_state(path: str = "run.log", live: Sequence[int] = (), **values: Any) -> LogState:
    """A log whose closed windows end with ``live`` MiB, and whose open one is at 1 MiB; without windows, one of 100 events at 5 MiB."""
    closed = [live_window(index, level) for index, level in enumerate(live)]
    windows = (*closed, live_window(len(closed), 1, open_end=True)) if closed else ()
    peak = max([window.peak_bytes for window in windows], default=5 * MIB)
    levels = np.array([level * MIB for level in live] or [1 * MIB, 5 * MIB, 2 * MIB], np.int64)
    made = LogState(
        path,
        layer="auto_growth",
        bytes=123 * MIB,
        lines=10 * (len(windows) or 3),
        events=7 * (len(windows) or 3),
        allocated_bytes=1 * MIB,
        reserved_bytes=8 * MIB,
        peak_bytes=peak,
        peak_line=17,
        reserved_peak_bytes=16 * MIB,
        timeline=Timeline(7, levels, levels + 2 * MIB),
        windows=windows[-64:],
        window_count=len(windows),
        end_live_bytes=np.array([level * MIB for level in live], np.int64),
        by=r"(STEP_\d+)" if windows else "",
        written=100.0,
    )
    return replace(made, **values)


class ScriptedLog:
    """What :class:`memlens.watching.followed.Followed` gives, by a script: a state a look; after the last one nothing comes.

    Args:
        path: The log.
        states: What is known after each look; an error is raised at its look, and ``None`` is a look at which nothing had changed.
        ends: After the last one nothing can come any more.
    """

    def __init__(self, path: str, states: Sequence[LogState | Exception | None], *, ends: bool = False) -> None:
        self.path, self._ends = path, ends
        self._script = list(states)
        self._state = LogState(path, waiting="no such file yet")
        self.looks = 0
        self.closed = False
        self.when_looked: Callable[[], None] = lambda: None

    @property
    def ended(self) -> bool:
        return self._ends and not self._script

    def poll(self) -> bool:
        self.looks += 1
        self.when_looked()
        found = self._script.pop(0) if self._script else None
        if isinstance(found, Exception):
            raise found
        if found is not None:
            self._state = found
        return found is not None

    def flush(self) -> None:
        while self._script:
            self.poll()

    def states(self) -> tuple[LogState, ...]:
        return (self._state,)

    def close(self) -> None:
        self.closed = True
