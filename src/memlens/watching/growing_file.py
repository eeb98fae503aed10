"""The bytes of a file that is still written: as they come, over rotations, and decompressed.

A file is read through one descriptor, by position, so what is moved away is read to its end before the file that took its place.  It is
over, and another piece of the log begins, where

- its name stands for another file (rotated, or replaced) that is not empty any more, and nothing more came to the old one since;
- it was made shorter than what was read of it (truncated), or what was read last is no longer there (written anew, in place).

Several of these between two looks are one: what a file held that came and went in between is not seen.
"""

from __future__ import annotations

import os
import select
import stat
import sys
from enum import Enum
from typing import TYPE_CHECKING

from memlens.errors import InputError
from memlens.inputs.input_format import HEAD
from memlens.inputs.streams import Decompressor, compression_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


#: Bytes before the place that was read up to which must still be there when the file has grown.
_TAIL = 256
#: Compressed bytes read at once: they may expand a thousandfold.
_CHUNK = 1 << 16


class Look(Enum):
    """The next thing to do with a file."""

    NOTHING = 0
    MORE = 1
    NEXT = 2


class Piece:
    """The text of one file, from its first byte on.

    Args:
        file: Its descriptor.
        position: Where it begins; ``None`` for what can only be read from front to back.

    Attributes:
        position: The bytes read so far.
        left: Bytes of text that may be read now.
        given: Bytes of text given so far, a line end that was added among them.
        head: The first bytes of the text.
        over: What comes from front to back has come to its end.
    """

    def __init__(self, file: int, position: int | None = 0) -> None:
        self._file, self._seekable = file, position is not None
        self.position = position or 0
        self._tail = b""
        self._compression: str | None = None
        self._members: Decompressor | None = None
        self._start = b""  # what was read to tell the compression
        self._chunks: Iterator[bytes] = iter(())
        self._rest = memoryview(b"")
        self._closing, self._end_line, self._ends_line = False, False, True
        self.left = self.given = 0
        self.head = b""
        self.over = False

    @property
    def pending(self) -> bool:
        """Whether text waits that was decompressed but not given."""
        return bool(self._rest) or (self.left <= 0 < self.given and self._members is not None)

    def problem(self, *, ended: bool) -> str:
        """The damage to what was read, or that there would be if no more came; ``""`` where there is none."""
        members = self._members
        return "" if members is None else members.problem or (members.unfinished if ended else "")

    def finish(self, *, end_line: bool) -> None:
        """No more of the file is read: what was too little to tell the compression by is text.

        Args:
            end_line: Give the last line a line end, where it has none.
        """
        self._closing, self._end_line, self.left = True, end_line, sys.maxsize

    def readinto(self, buffer: memoryview, /) -> int:
        """Read some text; 0 where there is none for now, or where as much was read as may be."""
        target = buffer[: max(self.left, 0)]
        count = self._text(target) if len(target) else 0
        if not count and self._end_line and not self._ends_line:
            target[0], count = ord("\n"), 1
        if count:
            if len(self.head) < HEAD:
                self.head += bytes(target[: min(count, HEAD - len(self.head))])
            self._ends_line = target[count - 1] == ord("\n")
            self.left -= count
            self.given += count
        return count

    def _text(self, target: memoryview) -> int:
        if self._compression is None and not self._told():
            return 0
        while not self._rest:
            if self._members is None:
                return self._raw(target)
            chunk = next(self._chunks, None)
            if chunk is None:
                raw = bytearray(_CHUNK)
                count = 0 if self._members.problem else self._raw(memoryview(raw))
                if not count:
                    return 0
                self._chunks = self._members.feed(bytes(raw[:count]))
                continue
            self._rest = memoryview(chunk)
        count = min(len(target), len(self._rest))
        target[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def _told(self) -> bool:
        """Whether the first bytes tell how it is compressed; then they are given again."""
        start = bytearray(8)
        while (found := compression_of(self._start)) is None and (count := self._raw(memoryview(start))):
            self._start += bytes(start[:count])
        if found is None and not (self._closing and self._start):
            return False
        self._compression = found or ""
        if self._compression:
            self._members = Decompressor(self._compression)
            self._chunks = self._members.feed(self._start)
        else:
            self._rest = memoryview(self._start)
        return True

    def _raw(self, target: memoryview) -> int:
        if self._closing:
            return 0
        if self._seekable:
            count = os.preadv(self._file, [target], self.position)
        else:
            if self.over or not select.select([self._file], [], [], 0)[0]:
                return 0
            count = os.readv(self._file, [target])
            self.over = not count
        if count:
            self.position += count
            self._tail = (self._tail + bytes(target[max(count - _TAIL, 0) : count]))[-_TAIL:]
        return count

    @property
    def stands(self) -> bool:
        """Whether what was read last is still there."""
        tail = self._tail
        return os.pread(self._file, len(tail), self.position - len(tail)) == tail

    @property
    def readable(self) -> bool:
        """Whether there is something to read of what comes from front to back, its end among it."""
        return not self.over and bool(select.select([self._file], [], [], 0)[0])


class GrowingFile:
    """A log by its name: a file, a pipe, or ``-`` for standard input.

    Args:
        name: The name.

    Attributes:
        piece: What is read now; ``None`` before there is a file.
        waiting: Why there is nothing to read, in words; ``""`` where there is.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.piece: Piece | None = None
        self.waiting = self._missing = "no such file yet"
        self._file = -1
        self._known: tuple[int, int] | None = None
        self._regular = True

    def look(self) -> Look:
        """See what there is to do; one call of the system where there is nothing.

        Raises:
            InputError: It is a directory, or may not be read and never was.
        """
        if (piece := self.piece) is None:
            if (found := self._stat()) is None:
                self.waiting = self._missing
                return Look.NOTHING
            if stat.S_ISDIR(found.st_mode):
                raise InputError(f"{self.name}: is a directory", "Name a log file.")
            return Look.NEXT
        if not self._regular:
            return Look.MORE if piece.pending or piece.readable else Look.NOTHING
        named = self._stat()
        if named is None or (named.st_dev, named.st_ino) != self._known:
            # What was moved away, or taken away, is read to its end first.
            if piece.pending or os.fstat(self._file).st_size > piece.position:
                return Look.MORE
            self.waiting = self._missing if named is None else ""
            # Who rotates a log makes the new file first and tells the writer then: until it writes there, it writes to the old one.
            empty = named is None or (stat.S_ISREG(named.st_mode) and not named.st_size)
            return Look.NOTHING if empty else Look.NEXT
        if named.st_size == piece.position:
            return Look.MORE if piece.pending else Look.NOTHING
        return Look.MORE if named.st_size > piece.position and piece.stands else Look.NEXT

    def next(self) -> Piece | None:
        """Begin with the file that has the name now; ``None`` where none has."""
        if self._file < 0 or not self._same():
            self._open()
        if self._file < 0:  # it went away since it was looked at
            self.piece, self.waiting = None, self._missing
            return None
        self.waiting = ""
        start = os.lseek(self._file, 0, os.SEEK_CUR) if self.name == "-" and self._regular and self.piece is None else 0
        self.piece = Piece(self._file, start if self._regular else None)
        return self.piece

    def mark(self) -> Callable[[], bool]:
        """Tells from now on whether all was read that is there now; what is written meanwhile may be more than is ever read."""
        named = self._stat()

        def read() -> bool:
            if not self._regular or self.piece is None or named is None:
                return True  # as much as a pipe holds is read at once
            same = (named.st_dev, named.st_ino) == self._known
            return same and self.piece.position >= named.st_size and not self.piece.pending

        return read

    def close(self) -> None:
        """Let go of the file."""
        if self._file > 2:
            os.close(self._file)
        self._file = -1

    @property
    def over(self) -> bool:
        """Whether nothing can come any more: it is a pipe that all writers have closed."""
        return self.piece is not None and self.piece.over and not self.piece.pending

    def _stat(self) -> os.stat_result | None:
        try:
            return os.fstat(0) if self.name == "-" else os.stat(self.name)
        except OSError as error:
            self._note_missing(error)
            return None

    def _same(self) -> bool:
        named = self._stat()
        return named is not None and (named.st_dev, named.st_ino) == self._known

    def _open(self) -> None:
        self.close()
        try:
            if self.name == "-":
                file = sys.stdin.fileno()
            else:
                # A pipe without a writer is opened at once, too.
                file = os.open(self.name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        except OSError as error:
            self._note_missing(error)
            return
        found = os.fstat(file)
        self._file, self._known = file, (found.st_dev, found.st_ino)
        self._regular = stat.S_ISREG(found.st_mode)

    def _note_missing(self, error: OSError) -> None:
        """Note why there is no file to read now; that it may not be read is final only where it never could be.

        Raises:
            InputError: It may not be read.
        """
        if not isinstance(error, FileNotFoundError):
            self._missing = f"cannot be read: {error.strerror or error}"
            if self._known is None:
                raise InputError(f"{self.name}: {self._missing}") from error
        elif self._known is not None:
            self._missing = "the file is gone"
