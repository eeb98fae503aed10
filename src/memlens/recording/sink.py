"""Where a recorded program's output goes: a log that is compressed as it grows, what is passed on, and a thread that drains a pipe into both.

What is passed on is whole blocks at once, and partial lines as soon as they are the program's own.
"""

from __future__ import annotations

import errno
import os
import re
import select
import stat
import threading
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from memlens.errors import OutputError, UsageError
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
#: The line of a call (:mod:`memlens.recording.inside.program_lines`) that another of its thread follows.
_CALLS = b" line.py:0] memlens calls "
_OF_CALL = rf"I{DAY} {CLOCK} +%s{re.escape(_CALLS.decode())}"
_FOLLOWED = re.compile((rf"(?m)^{_OF_CALL}[^\n]*\n(?={_OF_CALL})" % ("([0-9]+)", r"\1")).encode())
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


class Slimmed(Filter):
    """The stream without the lines of calls that another follows at once, of its thread: nothing was allocated in between."""

    def feed(self, block: bytes) -> bytes:
        text = self.held + block
        if _CALLS in text:
            text = _FOLLOWED.sub(b"", text)
        end = text.rfind(b"\n") + 1
        last = text.rfind(b"\n", 0, max(end - 1, 0)) + 1
        return self._cut(text, last if text.find(_CALLS, last, end) >= 0 else end)


#: How what is passed on is chosen, by the values of :attr:`memlens.options.verbs.Record.passed`.
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


#: Seconds after which what was written can be read in the file, and after which half a line is passed on.
_FLUSH_SECONDS, _HELD_SECONDS = 0.5, 0.05
#: Seconds for which the pipe is drained after the program has ended, where a process that it left behind still holds it.
_GRACE_SECONDS = 2.0
#: Seconds between two looks at a pipe that was empty: a program writes each line by itself, and must not wake the recorder for each; the pipe
#: holds what a fast one writes meanwhile (a tenth of them where it is small).
_PAUSE_SECONDS = 0.005
#: Bytes read at once, and of a pipe where its size can be set: a program that logs at full speed seldom waits then.
_BLOCK = 1 << 18
_PIPE_BYTES = 1 << 20
#: Uncompressed bytes after which a new frame begins: what is damaged costs at most one, and frames can be read in parallel.
_FRAME_BYTES = 64 << 20
_NOT_WRITTEN = frozenset({".xz", ".bz2", ".lzma", ".zip"})


def check_name(path: str | Path) -> None:
    """Refuse names whose compression cannot be written.

    Raises:
        UsageError: Such a name, or stdout.
    """
    if str(path) == "-":
        raise UsageError("the log cannot go to stdout, which is the program's", "Name a file: -o run.log.zst.")
    if Path(path).suffix in _NOT_WRITTEN:
        raise UsageError(f"a log cannot be written as {Path(path).suffix}", "Name it .zst, .gz, or without either.")


def rank_path(path: Path, rank: str, again: int = 1) -> Path:
    """The log of a rank beside that of its launcher: ``run.rank0.log.zst`` beside ``run.log.zst``.

    Args:
        path: The launcher's log; where its name has ``{rank}``, the rank stands there.
        rank: What the process calls its rank; text from another process.
        again: Which log of this rank it is, counted from 1.
    """
    rank = re.sub(r"[^\w.-]", "_", rank)[:40] + (f"-{again}" if again > 1 else "")
    if "{rank}" in path.name:
        return path.with_name(path.name.replace("{rank}", rank))
    name = re.sub(r"(?:\.(?:log|txt|out))?(?:\.zst|\.gz)?\Z", rf".rank{rank}\g<0>", path.name, count=1)
    return path.with_name(name)


class LogFile:
    """A log that is being written, compressed as its name says.

    It is written in its place and not renamed into it at the end: it is there to be read while it grows, and after this process was killed.

    Args:
        path: The file.
        force: Write over a file that exists; it is not touched before :meth:`begin`.

    Attributes:
        text_bytes: Bytes that were to be written.
        problem: Why it was not written to its end, in words; ``""`` while nothing is wrong.

    Raises:
        OutputError: It cannot be written.
    """

    def __init__(self, path: Path, force: bool = False) -> None:
        self.path = path
        self.text_bytes = 0
        self.problem = ""
        self._new = not os.path.lexists(path)
        try:
            self._number = os.open(path, os.O_WRONLY | os.O_CREAT | (0 if force or not self._new else os.O_EXCL), 0o666)
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror}") from error
        self._make = _MAKERS.get(path.suffix, _plain)
        self._frame = self._make()
        self._in_frame = 0
        self._unflushed = False

    def begin(self) -> None:
        """Empty a file that is written over."""
        if stat.S_ISREG(os.fstat(self._number).st_mode):
            os.ftruncate(self._number, 0)

    def discard(self) -> None:
        """Close it, and remove it where it was made here."""
        os.close(self._number)
        if self._new:
            self.path.unlink(missing_ok=True)

    def write(self, data: bytes) -> None:
        """Add bytes; once that has failed, nothing."""
        self.text_bytes += len(data)
        if self.problem:
            return
        self._put(self._frame.compress, data)
        self._unflushed = True
        self._in_frame += len(data)
        if self._in_frame >= _FRAME_BYTES:
            self._put(self._frame.flush)
            self._frame, self._in_frame, self._unflushed = self._make(), 0, False

    def flush(self) -> None:
        """Make all that was written readable in the file."""
        if self._unflushed and not self.problem:
            self._put(self._frame.flush, self._frame.block)
        self._unflushed = False

    def close(self) -> None:
        """End the file."""
        if not self.problem and (self._in_frame or not self.text_bytes):
            self._put(self._frame.flush)
        try:
            os.close(self._number)
        except OSError as error:  # a network's file system may say only now that its disk is full
            self._failed(error)

    def _put(self, make: Callable[..., bytes], *given: object) -> None:
        """Write what a compressor makes.  Whatever fails, the pipe must be drained further: a program would wait for it forever."""
        try:
            rest = memoryview(make(*given))
            while rest:
                rest = rest[os.write(self._number, rest) :]
        except Exception as error:  # noqa: BLE001
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        why = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        self.problem = self.problem or f"{self.path}: the log ends early: {why}"


class _Frame(NamedTuple):
    """The compressor of a part of a log: a function that takes bytes, one that ends it, and the argument that makes it flush all bytes taken so far."""

    compress: Callable[[bytes], bytes]
    flush: Callable[..., bytes]
    block: int


def _plain() -> _Frame:
    return _Frame(lambda data: data, lambda *_: b"", 0)


def _gzip() -> _Frame:
    made = zlib.compressobj(1, zlib.DEFLATED, 31)
    return _Frame(made.compress, made.flush, zlib.Z_SYNC_FLUSH)


def _zstd() -> _Frame:
    import zstandard

    made = zstandard.ZstdCompressor(level=1).compressobj()
    return _Frame(made.compress, made.flush, zstandard.COMPRESSOBJ_FLUSH_BLOCK)


#: By the end of a name.
_MAKERS = {".zst": _zstd, ".gz": _gzip}


class Drain(threading.Thread):
    """Reads a pipe to its end, into a log and, as far as it is wanted, on to where the output would have gone.

    Args:
        pipe: The end to read from; closed when it is drained.
        log: Where all of it goes; closed likewise.
        passed: What is passed on, one of the choices of :attr:`memlens.options.verbs.Record.passed`.
        output: Where to; closed likewise, if it is owned.
        tell: Told once, in words, when something goes wrong.

    Attributes:
        left: The pipe was still held by a process when reading it ended.
    """

    def __init__(self, pipe: int, log: LogFile, passed: str, output: PassedOn, tell: Callable[[str], None]) -> None:
        super().__init__(name=f"memlens {log.path.name}", daemon=True)
        self.log, self.output = log, output
        self.left = False
        self._pipe = pipe
        self._filter, self._slimmed = FILTERS[passed](), Slimmed()
        self._tell, self._told = tell, {""}
        self._ended = float("inf")  # when the program ended
        self._pause = _PAUSE_SECONDS if _enlarge(pipe) else _PAUSE_SECONDS / 10

    def end(self) -> None:
        """Say that the program has ended: what is in the pipe is read, and what others still write is not waited for long."""
        self._ended = time.monotonic()

    def run(self) -> None:
        """Read until every writer has closed the pipe, or :meth:`end` was called a while ago."""
        readable = select.poll()
        readable.register(self._pipe, select.POLLIN)
        flushed = held_since = time.monotonic()
        after_end = 0
        while True:
            ready = readable.poll(1000 * (_HELD_SECONDS if self._filter.held else _FLUSH_SECONDS))
            now = time.monotonic()
            if ready:
                data = os.read(self._pipe, _BLOCK)
                if not data:
                    break
                self.log.write(self._slimmed.feed(data))
                shown = self._filter.feed(data)
                if shown or not self._filter.held:
                    held_since = now
                elif now - held_since > _HELD_SECONDS:
                    shown = self._filter.release(surely=True)
                after_end += len(data) if now > self._ended else 0
            else:
                shown = self._filter.release()
                self.log.write(self._slimmed.release())
            if not ready or now - flushed > _FLUSH_SECONDS:
                self.log.flush()
                flushed = now
            self.output.write(shown)
            self._tell_problems()
            if ready and len(data) < _BLOCK and now < self._ended:
                time.sleep(self._pause)
            # Once it was empty, or more came than it holds, the rest was written after the program's end.
            if now > self._ended + _GRACE_SECONDS and (after_end > _PIPE_BYTES or not readable.poll(0)):
                self.left = True
                break
        self.output.write(self._filter.release())
        os.close(self._pipe)
        self.log.write(self._slimmed.release())
        self.log.close()
        self.output.close()
        self._tell_problems()

    def _tell_problems(self) -> None:
        for problem in {self.log.problem, self.output.problem} - self._told:
            self._told.add(problem)
            self._tell(problem)


def _enlarge(pipe: int) -> bool:
    """Let the pipe hold more, where the system can: whether it does; a limit of the user's is no problem."""
    try:
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    except (ImportError, AttributeError, OSError):
        return False
    return True
