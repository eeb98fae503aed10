"""A progress bar by bytes on stderr: only for people, only for work longer than a moment."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["progress_bar"]

_PATIENCE_SECONDS = 1.0
_REFRESH_SECONDS = 0.1


@contextmanager
def progress_bar(paths: Sequence[str]) -> Iterator[Callable[[int], None] | None]:
    """Show how far the reading of some inputs is, while the block runs.

    Args:
        paths: The inputs, read one after another; ``-`` is standard input, whose size nobody knows; of URLs the place is asked for it.

    Yields:
        A function to call with the bytes read so far, as they lie on disk; ``None`` where nobody would see it: stderr is no
        terminal, or this is a CI run.
    """
    if not sys.stderr.isatty() or os.environ.get("CI") or os.environ.get("TERM") == "dumb":
        yield None
        return
    bar = _Bar(_total(paths))
    try:
        yield bar.update
    finally:
        bar.close()


def _total(paths: Sequence[str]) -> int | None:
    try:
        return sum(map(_size, paths)) or None
    except (OSError, ValueError):
        return None


def _size(path: str) -> int:
    from memlens.inputs.remote import is_url, local_path

    if is_url(given := local_path(path)):
        from memlens.inputs.remote import remote_size

        size = remote_size(path)
        if size is None:
            raise ValueError(path)
        return size
    return Path(given).stat().st_size


class _Bar:
    """Comes up after a second and goes away when done; rich is imported when it comes up."""

    def __init__(self, total: int | None) -> None:
        self._total = total
        self._next_look = time.monotonic() + _PATIENCE_SECONDS
        self._shown: tuple[Progress, TaskID] | None = None

    def update(self, done: int) -> None:
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _REFRESH_SECONDS
        progress, task = self._shown or self._show()
        progress.update(task, completed=done, refresh=True)

    def _show(self) -> tuple[Progress, TaskID]:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("reading"), BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn())
        # No refresh thread: the clock is looked at between blocks anyway.
        progress = Progress(*columns, console=Console(file=sys.stderr), transient=True, auto_refresh=False)
        progress.start()
        self._shown = (progress, progress.add_task("", total=self._total))
        return self._shown

    def close(self) -> None:
        if self._shown is not None:
            self._shown[0].stop()
