"""What is drawn on the terminal while work goes on, a bar or a screen, and signals that end a command without breaking into its work.

A frame is text that :mod:`memlens.reports.terminal` has laid out for this screen to the column; rich draws it, on the terminal's alternate
screen, so that a window that changes its size leaves no remains, and what was there before comes back.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType

    from rich.progress import Progress, ProgressColumn, TaskID

_USUAL = 80, 24
_PATIENCE_SECONDS = 1.0
_REFRESH_SECONDS = 0.1
#: Signals that end the command; on Windows there are fewer.
_ENDING = ("SIGINT", "SIGTERM")


def has_screen() -> bool:
    """Whether stdout is a terminal that moves its cursor, and that is not another command's at the moment."""
    dumb = os.name != "posix" or os.environ.get("TERM", "dumb") in ("", "dumb")
    return not dumb and sys.stdout.isatty() and _in_front(sys.stdout.fileno())


def _in_front(terminal: int) -> bool:
    """Whether this is the command that a terminal is for: not one that a shell runs in the background."""
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:  # it controls no session
        return True


class Screen:
    """The screen of the terminal at stdout, for as long as the block runs.

    Attributes:
        there: It is taken.
        blank: Nothing was drawn since it was taken.
    """

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self.there, self.blank = False, True
        self._echoed = 0
        # What a frame has of colours is in its text.
        self._console = Console(file=sys.stdout, force_terminal=True, color_system="truecolor", legacy_windows=False)
        self._live = Live(
            console=self._console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )

    def enter(self) -> Self:
        """Take the screen."""
        self.there = self.blank = True
        self._echo(on=False)
        self._fit(self.size)
        self._live.start()
        return self

    __enter__ = enter

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Give it back as it was."""
        if self.there:
            self.there = False
            with suppress(OSError):  # the terminal is gone
                self._live.stop()
            self._echo(on=True)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        with suppress(OSError, ValueError):
            columns, rows = os.get_terminal_size(sys.stdout.fileno())
            if columns > 0 and rows > 0:
                return columns, rows
        return _USUAL

    def draw(self, text: str, size: tuple[int, int]) -> None:
        """Draw a text in place of what is there: the lines that fit, and always the last one."""
        from rich.text import Text

        self.blank = False
        lines, rows = text.splitlines(), size[1]
        if len(lines) > rows:
            lines = [*lines[: rows - 1], lines[-1]]
        self._fit(size)
        self._live.update(Text.from_ansi("\n".join(lines), no_wrap=True, overflow="ignore"), refresh=True)

    def _fit(self, size: tuple[int, int]) -> None:
        from rich.console import ConsoleDimensions

        self._console.size = ConsoleDimensions(*size)

    def ring(self) -> None:
        """Ring the terminal's bell."""
        self._console.bell()

    def _echo(self, *, on: bool) -> None:
        """Whether the terminal shows what is typed: not over a frame, and after it where it did before."""
        import termios

        with suppress(OSError, ValueError, termios.error):
            keys = sys.stdin.fileno()
            if os.isatty(keys) and _in_front(keys):  # one in the background would be stopped
                modes = termios.tcgetattr(keys)
                self._echoed = self._echoed if on else modes[3] & termios.ECHO
                modes[3] = modes[3] | self._echoed if on else modes[3] & ~termios.ECHO
                termios.tcsetattr(keys, termios.TCSADRAIN, modes)


class Signals:
    """The signals that end a command, noted while the block runs instead of breaking into it.

    Attributes:
        ended: One of them came.
        again: Another one came after it.

    Args:
        screen: What gives the terminal back while the command is stopped (Ctrl-Z) and takes it again after.
    """

    def __init__(self, screen: Screen | None) -> None:
        self.ended = self.again = self._breaks = self._stopped = False
        self._screen = screen
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        # A byte comes through for each signal, also for one that comes right before the wait: none is slept through.
        self._woken, self._wakes = socket.socketpair()
        self._woken.setblocking(False)
        self._wakes.setblocking(False)
        self._fd_before = signal.set_wakeup_fd(self._wakes.fileno(), warn_on_full_buffer=False)
        for name in _ENDING:
            self._handle(name, self._end)
        if self._screen is not None:
            self._handle("SIGWINCH", lambda *_: None)  # wakes
            self._handle("SIGTSTP", self._note_stop)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._fd_before)
        self._woken.close()
        self._wakes.close()

    def wait(self, seconds: float) -> None:
        """Wait so long, or until a signal comes; stop where one said so."""
        if not self.ended and select.select([self._woken], [], [], seconds)[0]:
            with suppress(OSError):
                self._woken.recv(1 << 12)
        if self._stopped:
            self._stopped = False
            self._stop()

    @contextmanager
    def breaking(self) -> Iterator[None]:
        """Let a signal, or a second one that came already, break into the block as :class:`KeyboardInterrupt`."""
        self._breaks = True
        try:
            if self.again:
                raise KeyboardInterrupt
            yield
        finally:
            self._breaks = False

    def _handle(self, name: str, handler: Callable[[int, FrameType | None], None]) -> None:
        number = getattr(signal, name, None)
        # One that is ignored stays so, as in a script's background.
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            self._before[number] = signal.signal(number, handler)

    def _end(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self._breaks:
            raise KeyboardInterrupt
        self.again, self.ended = self.ended, True

    def _note_stop(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Stop at once, or where a frame may be half drawn, after it."""
        if self._screen is not None and self._screen.there:
            self._stopped = True
        else:
            self._stop()

    def _stop(self) -> None:
        """Stop as Ctrl-Z means it, with the terminal as it was."""
        screen = self._screen if self._screen is not None and self._screen.there else None
        if screen is not None:
            screen.leave()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)  # it goes on behind this line when the shell continues it
        signal.signal(signal.SIGTSTP, self._note_stop)
        if screen is not None:
            screen.enter()


def size_of(paths: Iterable[str]) -> int | None:
    """Bytes of some inputs as they lie on disk; ``None`` where nobody knows."""
    try:
        return sum(map(_size, paths)) or None
    except (OSError, ValueError):
        return None


def _size(path: str) -> int:
    from memlens.inputs.remote import remote_size
    from memlens.source import is_url, local_path

    if is_url(given := local_path(path)):
        size = remote_size(path)
        if size is None:
            raise ValueError(path)
        return size
    return os.stat(given).st_size


class Bar:
    """A progress bar: it comes up after a second and goes away when done; rich is imported when it comes up.

    Args:
        words: What stands in front of the bar, or all there is to say; a name in braces is one of rich's.
        total: How much is to be done, where that is known before.
    """

    def __init__(self, words: str, total: int | None = None) -> None:
        self._words, self._total = words, total
        self._next_look = time.monotonic() + _PATIENCE_SECONDS
        self._shown: tuple[Progress, TaskID] | None = None

    def update(self, done: int, total: int | None = None) -> None:
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _REFRESH_SECONDS
        progress, task = self._shown or self._show()
        progress.update(task, completed=done, total=total, refresh=True)

    def _show(self) -> tuple[Progress, TaskID]:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        columns: list[ProgressColumn] = [TextColumn(self._words)]
        if "{" not in self._words:
            columns += [BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn()]
        # No refresh thread: the clock is looked at between blocks anyway.
        progress = Progress(*columns, console=Console(file=sys.stderr), transient=True, auto_refresh=False)
        progress.start()
        self._shown = (progress, progress.add_task("", total=self._total))
        return self._shown

    def close(self) -> None:
        if self._shown is not None:
            self._shown[0].stop()
