"""Output of a program that is passed on while it is recorded: whole blocks at once, and partial lines as soon as they are the program's own."""

from __future__ import annotations

import errno
import os
import re
import select
import threading
from typing import TYPE_CHECKING

from memlens.windows.glog import CLOCK, DAY, FILE, LINE, YEAR

if TYPE_CHECKING:
    from collections.abc import Callable

_HEADER = f"I(?:{YEAR})?{DAY} {CLOCK} +[0-9]+ {FILE}:{LINE}"
#: Where an INFO line of glog begins: anywhere, for it is one write, which may come after half a line of the program (a progress bar).
_BEGINS = re.compile(_HEADER.encode())
#: Any number of INFO lines, the end of the last one included.  Without them stands there what the program wrote without a log.
_LINE = f"{_HEADER}[^\n]*+\n"
_WHOLE = re.compile(f"{_LINE}(?:{_LINE})*+".encode())  # begins with a letter, which is searched for fast
#: The end of a text that more may turn into a header: every beginning of one, and some that are none.
_MAYBE = re.compile(rb"I[0-9]{0,8}(?: [0-9:.]{0,15}(?: +[0-9]*(?: [^\s\]]*)?)?)?\Z")
#: Of a line without an end no more is held than this; headers are shorter.
_LONGEST = 4096


class Filter:
    """A stream of bytes, block by block, cut after ends of lines: several processes print on one terminal, and a print is several writes.

    Attributes:
        held: The beginning of a line whose end has not come.
    """

    def __init__(self) -> None:
        self.held = b""

    def feed(self, block: bytes) -> bytes:
        """Give what was held, and of a block all but the beginning of its last line."""
        text = self.held + block
        return self._cut(text, text.rfind(b"\n") + 1)

    def _cut(self, text: bytes, line: int) -> bytes:
        """Hold the last line, which starts at ``line``, or what follows the last time that it was written over."""
        end = max(line, text.rfind(b"\r", line) + 1)
        if len(text) - end > _LONGEST:
            end = self._surely(text)
        self.held = text[end:]
        return text[:end]

    def release(self, surely: bool = False) -> bytes:
        """Give what is held.

        Args:
            surely: More is on its way: give only what stays as it is whatever that is.
        """
        end = self._surely(self.held) if surely else len(self.held)
        given, self.held = self.held[:end], self.held[end:]
        return given

    def _surely(self, text: bytes) -> int:
        return len(text)


class _Program(Filter):
    """The stream without glog's INFO lines, byte by byte."""

    def __init__(self) -> None:
        super().__init__()
        self._within = False  # an INFO line whose end has not come

    def feed(self, block: bytes) -> bytes:
        text, self.held = self.held + block, b""
        if self._within:
            end = text.find(b"\n") + 1
            if not end:
                return b""
            text, self._within = text[end:], False
        line = text.rfind(b"\n") + 1
        if begun := _BEGINS.search(text, line):
            self._within = True
            return _WHOLE.sub(b"", text[: begun.start()])
        return _WHOLE.sub(b"", self._cut(text, line))

    def _surely(self, text: bytes) -> int:
        maybe = _MAYBE.search(text, max(0, len(text) - _LONGEST))
        return maybe.start() if maybe else len(text)


class _Nothing(Filter):
    """Nothing."""

    def feed(self, block: bytes) -> bytes:  # noqa: ARG002
        return b""


#: How what is passed on is chosen, by the values of :attr:`memlens.options.Record.passed`.
FILTERS: dict[str, Callable[[], Filter]] = {"program": _Program, "all": Filter, "none": _Nothing}


class PassedOn:
    """Where output is passed on to: a file descriptor that several threads write to, unbuffered.

    Args:
        number: The file descriptor.
        owned: :meth:`close` closes it.

    Attributes:
        problem: Why no more is passed on, in words; ``""`` while it is, and where the reader has gone, which is no problem of the program.
    """

    def __init__(self, number: int, *, owned: bool = False) -> None:
        self.number = number
        self._owned = owned
        self.problem = ""
        self._lock = threading.Lock()
        self._open = True

    def write(self, data: bytes) -> None:
        """Write all of it, or none once writing has failed."""
        if not (data and self._open):
            return
        with self._lock:
            rest = memoryview(data)
            while rest and self._open:
                try:
                    rest = rest[os.write(self.number, rest) :]
                except BlockingIOError:  # non-blocking, as another process that shares it made it
                    ready = select.poll()
                    ready.register(self.number, select.POLLOUT)
                    ready.poll()
                except OSError as error:
                    self._open = False
                    if error.errno not in (errno.EPIPE, errno.EBADF):
                        self.problem = f"its output is no longer passed on: {error.strerror}"

    def close(self) -> None:
        """Write no more."""
        if self._owned:
            self._open = False
            os.close(self.number)
