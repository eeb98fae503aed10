"""Where a recorded program's output goes: a log that is compressed as it grows, and a thread that drains a pipe into it."""

from __future__ import annotations

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
from memlens.recording.passing import FILTERS, PassedOn

if TYPE_CHECKING:
    from collections.abc import Callable

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
        passed: What is passed on, one of the choices of :attr:`memlens.options.Record.passed`.
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
        self._filter = FILTERS[passed]()
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
                self.log.write(data)
                shown = self._filter.feed(data)
                if shown or not self._filter.held:
                    held_since = now
                elif now - held_since > _HELD_SECONDS:
                    shown = self._filter.release(surely=True)
                after_end += len(data) if now > self._ended else 0
            else:
                shown = self._filter.release()
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
