"""The plain way to follow a log: read all of it again whenever it has changed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

import memlens
from memlens.watching.state import KEPT_WINDOWS, LiveWindow, LogState, Timeline

__all__ = ["PlainFollowed"]


class PlainFollowed:
    """What :class:`memlens.watching.followed.Followed` gives, for a log that is neither rotated nor replaced."""

    ended = False

    def __init__(
        self, path: str, *, by: str | None = None, input_format: str | None = None, formats: Path | None = None
    ) -> None:
        self.path, self.by, self._size = path, by, -1
        self._state = LogState(path, waiting="no such file yet")

    def poll(self) -> bool:
        size = os.path.getsize(self.path) if Path(self.path).exists() else -1
        if size == self._size:
            return False
        self._size = size
        self._state = self._read()
        return True

    def states(self) -> tuple[LogState, ...]:
        return (self._state,)

    def flush(self) -> None:
        self.poll()

    def close(self) -> None:
        pass

    def _read(self) -> LogState:
        size, now = max(self._size, 0), time.monotonic()
        try:
            log = memlens.read(self.path)
        except memlens.NoEventsError:
            return LogState(self.path, bytes=size, written=now)
        analysis = memlens.analyze(self.path, by=self.by, analyzers=["peak", "remaining", "stats"])
        whole = (
            memlens.analyze(self.path, whole=True, analyzers=["peak", "remaining", "stats"]).logs[0].windows[0].results
        )
        series = analysis.logs[0].windows if self.by else ()
        windows = [
            LiveWindow(
                window.name,
                index,
                window.start_line,
                window.results["peak"].peak_bytes,
                window.results["peak"].rise_bytes,
                window.results["remaining"].live_bytes,
                window.results["peak"].reserved_peak_bytes,
                window.results["stats"].allocs,
                window.results["stats"].frees,
                index == len(series) - 1,
            )
            for index, window in enumerate(series)
        ]
        signs = np.array([1, -1, 0, 0])[log.kind]
        levels = np.cumsum(log.size * signs)
        reserved = np.cumsum(log.size * np.array([0, 0, 1, -1])[log.kind])
        stretch = max(1, 1 << max(int(np.ceil(np.log2(len(log) / 256))), 0))
        begins = np.arange(0, len(log), stretch)
        return LogState(
            self.path,
            layer=log.trust.layer,
            bytes=size,
            lines=log.trust.lines,
            events=len(log),
            allocs=whole["stats"].allocs,
            frees=whole["stats"].frees,
            allocated_bytes=whole["remaining"].live_bytes,
            reserved_bytes=int(reserved[-1]),
            peak_bytes=whole["peak"].peak_bytes,
            peak_line=whole["peak"].line,
            reserved_peak_bytes=whole["peak"].reserved_peak_bytes,
            timeline=Timeline(stretch, np.maximum.reduceat(levels, begins), np.maximum.reduceat(reserved, begins)),
            windows=tuple(windows[-KEPT_WINDOWS:]),
            window_count=len(windows),
            end_live_bytes=np.array([window.live_bytes for window in windows[:-1]], np.int64),
            by=self.by or "",
            written=now,
        )
