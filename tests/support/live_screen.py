"""Commands that draw on a terminal again and again: what stands on its screen, its bell, its cursor, and the signals that end them."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from commands import HERE
from pseudo_terminal import _DECIDING

_PIECE = re.compile(
    r"\x1b\[(?P<private>\??)(?P<number>[0-9;]*)(?P<end>[A-Za-z])|(?P<control>[\r\n\a])|(?P<text>[^\x1b\r\n\a]+)"
)
_TORN = re.compile(r"\x1b\[?\??[0-9;]*(?=\x1b)")
_PATIENCE = 60.0


class Screen:
    """As much of a terminal as the program uses; anything else it writes is an error.  Characters of two columns are not told apart."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.lines: list[str] = [""] * rows
        self._main = self.lines
        self._row = self._column = 0
        self.alternate = self.hidden = False
        self.wraps = True
        self.bells = self.frames = self.scrolled = self.coloured = 0

    def feed(self, text: str) -> None:
        at = 0
        while at < len(text):
            found = _PIECE.match(text, at) or _TORN.match(text, at)
            assert found, f"not known here: {text[at : at + 20]!r}"
            at = found.end()
            if found.re is _TORN:
                continue
            if found["text"]:
                self._put(found["text"])
            elif found["control"]:
                self._control(found["control"])
            else:
                self._act(found["private"] + found["number"] + found["end"])

    def _put(self, text: str) -> None:
        for character in text:
            if self._column == self.columns:
                if not self.wraps:
                    self._column -= 1
                else:
                    self._control("\n")
                    self._column = 0
            line = self.lines[self._row].ljust(self._column)
            self.lines[self._row] = line[: self._column] + character + line[self._column + 1 :]
            self._column += 1

    def _control(self, character: str) -> None:
        if character == "\a":
            self.bells += 1
        elif character == "\r":
            self._column = 0
        elif self._row < self.rows - 1:
            self._row += 1
        else:
            self.scrolled += 1
            self.lines.pop(0)
            self.lines.append("")

    def _act(self, code: str) -> None:
        if code == "H":
            self._row = self._column = 0
            self.frames += 1
        elif code == "K":
            self.lines[self._row] = self.lines[self._row][: self._column]
        elif code in ("J", "2J"):
            first = self._row if code == "J" else -1
            self.lines[first + 1 :] = [""] * (self.rows - first - 1)
            if code == "J":
                self._act("K")
        elif code in ("?1049h", "?1049l"):
            self.alternate = code.endswith("h")
            self.lines = [""] * self.rows if self.alternate else self._main
            self._row = self._column = 0
        elif code in ("?25l", "?25h"):
            self.hidden = code.endswith("l")
        elif code in ("?7l", "?7h"):
            self.wraps = code.endswith("h")
        else:
            assert code.endswith("m"), f"not known here: {code}"
            self.coloured += 1

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines)


class LiveTerminal:
    """``memlens`` in a terminal of its own, as the leader of its session, so that Ctrl-C in it reaches the program."""

    def __init__(
        self, *arguments: object, columns: int = 80, rows: int = 24, folder: Path | None = None, **environment: str
    ) -> None:
        inherited = {key: value for key, value in os.environ.items() if key not in _DECIDING}
        inherited |= {**HERE, "TERM": "xterm", "LANG": "C.UTF-8"}
        self._leader, follower = pty.openpty()
        self.screen = Screen(columns, rows)
        self.resize(columns, rows)
        # A terminal drops what it has not shown yet when Ctrl-C is typed: a character, or a code, may be torn then.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._cut = ""
        try:
            self.program = subprocess.Popen(
                [sys.executable, "-c", _SHELL, *map(str, arguments)],
                stdin=follower,
                stdout=follower,
                stderr=follower,
                env=inherited | environment,
                cwd=folder,
                start_new_session=True,
            )
        finally:
            os.close(follower)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.program.poll() is None:
            self.program.kill()
        self.program.wait(_PATIENCE)
        os.close(self._leader)

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._leader, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        before = self.screen
        self.screen = Screen(columns, rows)
        self.screen.alternate, self.screen.hidden, self.screen.wraps = before.alternate, before.hidden, before.wraps
        self.screen.bells = before.bells

    def type(self, keys: bytes) -> None:
        os.write(self._leader, keys)

    @property
    def echoes(self) -> bool:
        """Whether the terminal shows what is typed."""
        return bool(termios.tcgetattr(self._leader)[3] & termios.ECHO)

    def interrupt(self) -> None:
        """What Ctrl-C sends, without typing it: the terminal would send the signal and then drop what it has not shown, an answer to it as well."""
        os.killpg(os.tcgetpgrp(self._leader), signal.SIGINT)

    def until(self, holds: Callable[[Screen], bool], seconds: float = _PATIENCE) -> Screen:
        """Read what comes until something holds of the screen."""
        deadline = time.monotonic() + seconds
        while not holds(self.screen):
            assert time.monotonic() < deadline, f"it did not come:\n{self.screen.text}"
            assert self._read() or holds(self.screen), f"the program ended:\n{self.screen.text}"
        return self.screen

    def shows(self, text: str) -> Screen:
        """Read what comes until the screen shows a text."""
        return self.until(lambda screen: text in screen.text)

    def end(self, seconds: float = _PATIENCE) -> int:
        """Read to the end of the program, and give its exit code."""
        deadline = time.monotonic() + seconds
        while self._read():
            assert time.monotonic() < deadline, f"it did not end:\n{self.screen.text}"
        return self.program.wait(_PATIENCE)

    def _read(self) -> bool:
        if not select.select([self._leader], [], [], 0.1)[0]:
            return True
        try:
            piece = os.read(self._leader, 1 << 16)
        except OSError:  # the other side is closed
            return False
        # A character of several bytes, or a code, may be cut in two.
        text = self._cut + self._decoder.decode(piece)
        last = text.rfind("\x1b")
        ends = len(text) if last < 0 or _PIECE.match(text, last) else last
        self._cut = text[ends:]
        self.screen.feed(text[:ends])
        return True


#: Does what a shell does: makes the terminal the one that controls the session, runs the program in the foreground in a group of its own, and
#: continues it a moment after it was stopped.
_SHELL = """
import fcntl, os, signal, sys, termios, time
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
program = os.fork()
if not program:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpgrp())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
    from memlens.cli import main
    sys.exit(main())
signal.signal(signal.SIGTERM, lambda *_: os.kill(program, signal.SIGTERM))
while True:
    _, status = os.waitpid(program, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        os._exit(os.waitstatus_to_exitcode(status))
    os.write(1, b"[1]+ stopped\\r\\n")
    time.sleep(0.5)
    os.killpg(program, signal.SIGCONT)
"""
