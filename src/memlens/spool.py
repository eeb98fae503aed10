"""Columns that grow with a log: in memory while they are small, and beyond that in one temporary file that is mapped.

The pages of a mapped file are no memory of the process's own: the system writes them back and takes them when it needs them.  The file has no
name, so no other process opens it, and it is gone with the last of its columns, or with the process, whatever ends that.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import WeakSet

import numpy as np

from memlens.errors import MemlensError
from memlens.text import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import DTypeLike, NDArray


#: Bytes of columns that are held in memory together; what is larger touches a disk.
IN_MEMORY = 32 << 20
#: Bytes of the file that are kept free for each column: no file system minds a file with holes, and a mapping has to be of one piece.
_APART = 1 << 38
#: Entries that are looked at together: their temporaries stay in the cache.
_AT_ONCE = 1 << 17


#: What is mapped of the files.
_MAPPED: WeakSet[Any] = WeakSet()


def leave() -> None:
    """Leave the pages of all files to the system, which otherwise counts those that were once looked at; they come back when they are needed."""
    import mmap

    if hasattr(mmap, "MADV_DONTNEED"):
        for pages in _MAPPED:
            pages.madvise(mmap.MADV_DONTNEED)


class Spool:
    """The temporary file of the columns of one log, made when the first of them is written."""

    def __init__(self) -> None:
        self._file: _File | None = None
        self._columns = 0

    def new_column(self) -> int:
        """The byte offset in the file at which a further column begins."""
        self._columns += 1
        return (self._columns - 1) * _APART

    def write(self, at: int, entries: NDArray[Any]) -> None:
        """Write entries at a byte offset.

        Raises:
            MemlensError: The folder of temporary files is full, or cannot be written to.
        """
        left: Any = np.ascontiguousarray(entries).view(np.uint8)
        try:
            while len(left):
                count = os.pwrite(self._opened().number, left, at)
                at, left = at + count, left[count:]
        except OSError as error:
            _refuse(error)

    def mapped(self, at: int, count: int, dtype: np.dtype[Any], *, reserve: bool = False) -> NDArray[Any]:
        """The entries at a byte offset as an array of the file itself: what is written to it is written to the file.

        Args:
            at: Where they begin, as :meth:`new_column` gives it.
            count: How many there are, at least 1.
            dtype: Their type.
            reserve: Not all of them were written: room on the disk is made for them first, for a page that finds none ends the process.

        Raises:
            MemlensError: There is no room.
        """
        import mmap

        size = count * dtype.itemsize
        try:
            file = self._opened().number
            if reserve:
                _make_room(file, at, size)
            pages = mmap.mmap(file, size, offset=at)
        except OSError as error:
            _refuse(error)
        _MAPPED.add(pages)
        return np.frombuffer(pages, dtype)

    def _opened(self) -> _File:
        if self._file is None:
            self._file = _File()
        return self._file


class _File:
    """A temporary file without a name, closed when nobody holds it any more; what is mapped of it stays.

    Attributes:
        number: Its descriptor.
    """

    def __init__(self) -> None:
        import tempfile

        folder = tempfile.gettempdir()
        try:
            self.number = os.open(folder, os.O_TMPFILE | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except (AttributeError, OSError):  # no such system, or no such file system
            self.number, name = tempfile.mkstemp(prefix="memlens-", dir=folder)
            os.unlink(name)

    def __del__(self) -> None:
        if hasattr(self, "number"):
            os.close(self.number)


def _make_room(file: int, at: int, size: int) -> None:
    """Give a stretch of a file room on the disk."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, at, size)
        return
    zeros = bytes(1 << 20)
    for begin in range(at, at + size, len(zeros)):
        os.pwrite(file, zeros[: at + size - begin], begin)


def _refuse(error: OSError) -> NoReturn:
    import tempfile

    what = error.strerror or str(error)
    try:
        where = f"the folder of temporary files, {tempfile.gettempdir()}"
    except OSError:
        where = "no folder of temporary files can be written to"
    else:
        where += " has no room left" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ", cannot be written to"
    raise MemlensError(
        f"{where} ({what}): events that take more than {format_bytes(IN_MEMORY)} are kept there while a log is read",
        "Name another folder by TMPDIR, with room for about half of the size of the log (uncompressed).",
    ) from error


class GrowingColumn:
    """One column that parts are appended to.

    Room in memory is made ahead of need.  Room that is not used yet costs no memory, since the system hands out pages when they are
    first written; so making much of it is cheap, while making it anew means to copy what is there.

    Args:
        dtype: Of the entries.
    """

    def __init__(self, dtype: DTypeLike) -> None:
        self._entries = np.empty(0, dtype)
        self._count = 0
        self._spool: tuple[Spool, int] | None = None

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Bytes of all entries."""
        return self._count * self._entries.itemsize

    def append(self, part: NDArray[Any], done: float = 0.0) -> None:
        """Append some entries.

        Args:
            part: The entries.
            done: The share of the input that they complete, 0 to 1; 0 where that is not known.
        """
        if self._spool is None:
            self._room(len(part), done)[:] = part
            return
        spool, begin = self._spool
        spool.write(begin + self.nbytes, part.astype(self._entries.dtype, copy=False))
        self._count += len(part)

    def fill(self, value: int, count: int, done: float = 0.0) -> None:
        """Append one entry some times."""
        if self._spool is None:
            self._room(count, done)[:] = value
            return
        for start, stop in walk(0, count):
            self.append(np.full(stop - start, value, self._entries.dtype))

    def _room(self, more: int, done: float) -> NDArray[Any]:
        before, count = self._count, self._count + more
        if count > len(self._entries):
            # What the rest will need if it is like what came so far, and some more; what is larger will be in the file.
            expected = min(int(count / done * 1.1) if done > 0 else 0, IN_MEMORY // self._entries.itemsize)
            grown = np.empty(max(expected, count + count // 2, 1 << 12), self._entries.dtype)
            grown[:before] = self._entries[:before]
            self._entries = grown
        self._count = count
        return self._entries[before:count]

    def entries(self) -> NDArray[Any]:
        """All entries, in order."""
        if self._spool is None or not self._count:
            return self._entries[: self._count]
        spool, begin = self._spool
        return spool.mapped(begin, self._count, self._entries.dtype)

    def move_to(self, spool: Spool) -> None:
        """Move the entries to a file, to which further ones are written."""
        if self._spool is None:
            entries, begin = self._entries[: self._count], spool.new_column()
            spool.write(begin, entries)
            self._entries, self._spool = np.empty(0, entries.dtype), (spool, begin)

    def clear(self) -> None:
        """Forget all entries; their room is used again."""
        self._count = 0


class GrowingColumns:
    """Columns of one length that grow together, in memory up to :data:`IN_MEMORY` bytes.

    Args:
        types: The columns and their types.
        spool: The file for what is larger.
    """

    def __init__(self, types: Mapping[str, DTypeLike], spool: Spool) -> None:
        self._columns = {name: GrowingColumn(dtype) for name, dtype in types.items()}
        self._spool, self._is_large = spool, False

    def __len__(self) -> int:
        return max(map(len, self._columns.values()), default=0)

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def append(self, columns: Mapping[str, NDArray[Any]], done: float = 0.0) -> None:
        """Append entries to all columns: to one that was not there after -1 for each entry so far, and -1 to one that is left out.

        Args:
            columns: The entries.
            done: As of :meth:`GrowingColumn.append`.

        Raises:
            MemlensError: The folder of temporary files is full, or cannot be written to.
        """
        before = len(self)
        for name in [name for name in columns if name not in self._columns]:
            column = self.add(name, columns[name].dtype)
            if before:
                column.fill(-1, before, done)
        count = len(next(iter(columns.values())))
        for name, column in self._columns.items():
            if name in columns:
                column.append(columns[name], done)
            else:
                column.fill(-1, count, done)
        if not self._is_large and sum(column.nbytes for column in self._columns.values()) > IN_MEMORY:
            self._is_large = True
            for column in self._columns.values():
                column.move_to(self._spool)

    def add(self, name: str, dtype: DTypeLike) -> GrowingColumn:
        """A further column, or one in place of another, without entries."""
        column = self._columns[name] = GrowingColumn(dtype)
        if self._is_large:
            column.move_to(self._spool)
        return column

    def entries(self, name: str) -> NDArray[Any]:
        """All entries of a column so far, to be read or changed in place."""
        return self._columns[name].entries()

    def drop(self, name: str) -> NDArray[Any] | None:
        """The same of a column that is not wanted any more; ``None`` where there is none of the name."""
        return self._columns.pop(name).entries() if name in self._columns else None

    def clear(self) -> None:
        """Forget all entries; their room is used again."""
        for column in self._columns.values():
            column.clear()


def walk(lo: int, hi: int, most: int | None = None) -> Iterator[tuple[int, int]]:
    """Entries ``lo … hi-1`` in stretches of at most so many, by itself of so many that temporaries are small."""
    step = most or _AT_ONCE
    for start in range(lo, hi, step):
        yield start, min(start + step, hi)


def empty(count: int, dtype: DTypeLike) -> NDArray[Any]:
    """A column of so many entries that are not written yet: in memory, or in a file of its own where it is large.

    Raises:
        MemlensError: The folder of temporary files has no room for it.
    """
    kind = np.dtype(dtype)
    if count * kind.itemsize <= IN_MEMORY:
        return np.empty(count, kind)
    spool = Spool()
    return spool.mapped(spool.new_column(), count, kind, reserve=True)


def column_of(parts: Iterable[NDArray[Any]], dtype: DTypeLike) -> NDArray[Any]:
    """Parts of a column put one after the other, in memory or in a file of its own where they are large.

    Raises:
        MemlensError: The folder of temporary files has no room for them.
    """
    found = GrowingColumns({"column": dtype}, Spool())
    for part in parts:
        found.append({"column": part})
    return found.entries("column")


def chosen(column: NDArray[Any], rows: NDArray[np.bool_] | None) -> NDArray[Any]:
    """The entries of a column that are chosen, ``None`` for all; in a file where they are large.

    Raises:
        MemlensError: The folder of temporary files has no room for them.
    """
    if rows is None:
        return column
    if column.nbytes <= IN_MEMORY:
        return column[rows]
    return column_of((column[start:stop][rows[start:stop]] for start, stop in walk(0, len(column))), column.dtype)
