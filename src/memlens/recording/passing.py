"""What of a program's output is passed on while it is recorded: whole blocks at once, and partial lines as soon as they are the program's own."""

from __future__ import annotations

import errno
import os
import re
import select
import threading

from memlens.glog import CLOCK, DAY, FILE, LINE, YEAR

__all__ = ["FILTERS", "Filter", "Output"]

_HEADER = f"I(?:{YEAR})?{DAY} {CLOCK} +[0-9]+ {FILE}:{LINE}"
#: Where an INFO line of glog begins: anywhere, for it is one write, which may come after half a line of the program (a progress bar).
_BEGINS = re.compile(_HEADER.encode())
#: Any number of INFO lines, the end of the last one included.  Without them stands there what the program wrote without a log.
_LINE = f"{_HEADER}[^\n]*+\n"
_WHOLE = re.compile(f"{_LINE}(?:{_LINE})*+".encode())  # begins with a letter, which is searched for fast
#: The end of a text that more may turn into a header: every beginning of one, and some that are none.
_MAYBE = re.compile(rb"I[0-9]{0,8}(?: [0-9:.]{0,15}(?: +[0-9]*(?: [^\s\]]*)?)?)?\Z")
#: Headers are shorter than this, so that no more of the end of a text is looked at.
_LONGEST = 512


class Filter:
    """Leaves glog's INFO lines out of a stream of bytes, block by block; what comes out is the stream without them, byte by byte."""

    def __init__(self) -> None:
        self.held = b""
        self._within = False  # an INFO line whose end has not come

    def feed(self, block: bytes) -> bytes:
        """Give what of a block, and of what was held before it, is no INFO line; a possible beginning of one is held."""
        text = self.held + block
        self.held = b""
        if self._within:
            end = text.find(b"\n") + 1
            if not end:
                return b""
            text, self._within = text[end:], False
        tail = text.rfind(b"\n") + 1
        decided = len(text)
        if begun := _BEGINS.search(text, tail):
            decided, self._within = begun.start(), True
        elif maybe := _MAYBE.search(text, max(tail, len(text) - _LONGEST)):
            decided = maybe.start()
            self.held = text[decided:]
        return _WHOLE.sub(b"", text[:decided])

    def release(self) -> bytes:
        """Give what is held: nothing came after it, so it is the program's own."""
        held, self.held = self.held, b""
        return held


class _Whole(Filter):
    """Everything."""

    def feed(self, block: bytes) -> bytes:
        return block


class _Nothing(Filter):
    """Nothing."""

    def feed(self, block: bytes) -> bytes:  # noqa: ARG002
        return b""


#: How what is passed on is chosen, by the values of :attr:`memlens.options.Record.passed`.
FILTERS: dict[str, type[Filter]] = {"program": Filter, "all": _Whole, "none": _Nothing}


class Output:
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
                except BlockingIOError:  # whoever shares it with us wants it so
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
