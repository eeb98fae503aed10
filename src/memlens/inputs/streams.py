"""Inputs as streams of uncompressed bytes: files, pipes, standard input; gzip, zstd, xz and bzip2 known by their first bytes."""

from __future__ import annotations

import io
import os
import stat
import sys
import zlib
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from memlens.errors import InputError
from memlens.source import is_url

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator


#: Compressed bytes handed to a decompressor at once.  Small, because a hostile file may expand a thousandfold.
_CHUNK = 1 << 16
_MOST_AT_ONCE = 1 << 22
#: Bytes that are handed to one without a bound on its output where a byte becomes so many, or nothing is known of that.
_LEAST, _MUCH = 1 << 7, 1 << 8


class NamedPath(str):
    """An absolute path that is called as somebody named it, for processes with another working directory.

    Args:
        path: The absolute path.
        name: What to call it.
    """

    __slots__ = ("name",)
    name: str

    def __new__(cls, path: str, name: str) -> Self:
        made = super().__new__(cls, path)
        made.name = name
        return made

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        return type(self), (str(self), self.name)


class ByteStream(io.RawIOBase):
    """Uncompressed bytes of one input, to be read once from front to back.

    Attributes:
        compression: ``gzip``, ``zstd``, ``xz``, ``bzip2`` or ``""``.
        problem: Why the stream ended early, in words; ``""`` as long as nothing is wrong.  What was readable has been given.
        consumed: Bytes read so far of the input as it lies on disk, for progress.
    """

    def __init__(self, file: BinaryIO | io.RawIOBase, head: bytes, compression: str) -> None:
        super().__init__()
        self._file = file
        self.compression = compression
        self.problem = ""
        self.consumed = 0
        self._chunks = self._decompressed(head) if compression else iter((head,) if head else ())
        self._rest = memoryview(b"")
        self._left = sys.maxsize

    def readable(self) -> bool:
        return True

    @property
    def unpacks(self) -> bool:
        """Whether another thread may read it, and it is worth it: it is compressed, and no thread is left waiting for standard input at exit."""
        return bool(self.compression) and self._file is not sys.stdin.buffer

    def fileno(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        if self._file is not sys.stdin.buffer:
            self._file.close()
        super().close()

    def readinto(self, buffer: Any, /) -> int:
        target = memoryview(buffer).cast("B")
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0 if self.compression else self._read_plain(target)
            self._rest = memoryview(chunk)
        count = min(len(target), len(self._rest))
        target[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        if not self.compression:
            self.consumed += count
        return count

    def peek(self, size: int) -> bytes:
        """The next ``size`` bytes, fewer only where the input ends; they are read again by what reads next."""
        before, buffer = self.consumed, bytearray(size)
        view, have = memoryview(buffer), 0
        while have < size and (count := self.readinto(view[have:])):
            have += count
        if not self.compression:
            self.consumed = before
        ahead = bytes(buffer[:have])
        self._rest = memoryview(ahead + bytes(self._rest))
        return ahead

    def confirm(self) -> None:
        """Say that no more is read, and what was read is to be relied on.

        Raises:
            InputError: It lies elsewhere, and was replaced meanwhile.
        """
        if confirm := getattr(self._file, "confirm", None):
            confirm()

    def part(self, start: int, end: int | None) -> ByteStream:
        """The bytes from ``start`` to before ``end``, of an uncompressed file that can be read anywhere.

        The part shares the file and its place in it with this stream, so only one of them may be in use.
        """
        self._file.seek(start)
        part = ByteStream(io.FileIO(self._file.fileno(), closefd=False), b"", "")
        part._left = sys.maxsize if end is None else end - start
        return part

    def _read_plain(self, target: memoryview) -> int:
        count = self._file.readinto(target[: self._left]) or 0  # type: ignore[union-attr]
        self.consumed += count
        self._left -= count
        return count

    def _decompressed(self, head: bytes) -> Iterator[bytes]:
        """Decompress member after member; a damaged or missing end becomes :attr:`problem` and ends the stream."""
        members = Decompressor(self.compression)
        chunk = head
        while chunk and not members.problem:
            self.consumed += len(chunk)
            yield from members.feed(chunk)
            chunk = b"" if members.problem else self._file.read(_CHUNK) or b""
        self.problem = members.problem or members.unfinished


class Decompressor:
    """Decompresses member after member, given bit by bit.

    Args:
        compression: ``gzip``, ``zstd``, ``xz`` or ``bzip2``.

    Attributes:
        problem: What is wrong with the bytes, in words; ``""`` as long as nothing is.
    """

    def __init__(self, compression: str) -> None:
        self._compression = compression
        make, self._feed = _COMPRESSIONS[compression]
        self._make = make()
        self._member: Any = None
        self.problem = ""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Decompress the next bytes: pieces of a bounded size, some of them empty; nothing more once the input is damaged."""
        try:
            while chunk and not self.problem:
                if self._member is None:
                    if not chunk.strip(b"\0"):
                        return  # tape-style zero padding after the last member
                    self._member = self._make()
                chunk = yield from self._feed(self._member, chunk)
                if self._member.eof:
                    self._member = None
        except _damages() as error:
            self.problem = f"the {self._compression} stream is damaged: {error}"

    @property
    def unfinished(self) -> str:
        """Say what is wrong if no more bytes come; ``""`` where a member has ended."""
        return "" if self._member is None else f"the {self._compression} stream ends in the middle"


# How a decompressor of a library is fed: its output in bounded pieces, and at last what comes after the member's end.


def _feed_zlib(member: Any, data: bytes) -> Generator[bytes, None, bytes]:
    while data and not member.eof:
        yield member.decompress(data, _MOST_AT_ONCE)
        data = member.unconsumed_tail
    return bytes(member.unused_data)


def _feed(member: Any, data: bytes) -> Generator[bytes, None, bytes]:
    yield member.decompress(data, _MOST_AT_ONCE)
    while not member.eof and not member.needs_input:
        yield member.decompress(b"", _MOST_AT_ONCE)
    return bytes(member.unused_data)


def _feed_zstandard(member: Any, data: bytes) -> Generator[bytes, None, bytes]:
    # This library has no bound on the output; feeding little at a time bounds it instead, and very little of what expands much: a byte may become 32 KiB.
    size = _LEAST
    while data and not member.eof:
        piece, data = data[:size], data[size:]
        text = member.decompress(piece)
        size = min(2 * size, _CHUNK >> 6) if len(text) < _MUCH * size else _LEAST
        yield text
    return bytes(member.unused_data) + data


def _damages() -> tuple[type[Exception], ...]:
    """Exceptions that decompressors raise on damaged input."""
    modules = (("lzma", "LZMAError"), ("zstandard", "ZstdError"), ("isal.isal_zlib", "error"))
    # One that is just being imported has not got its error yet: a stream may be let go of at any moment.
    others = [getattr(sys.modules[module], name, OSError) for module, name in modules if module in sys.modules]
    return (OSError, EOFError, zlib.error, *others)


def _gzip() -> Callable[[], Any]:
    # isal takes less than half the time.
    return partial(import_module("isal.isal_zlib" if find_spec("isal") else "zlib").decompressobj, wbits=31)


#: What makes a decompressor of each member of a compressed file, and how that is fed; modules are imported where they are needed.
_COMPRESSIONS: dict[str, tuple[Callable[[], Callable[[], Any]], Callable[[Any, bytes], Generator[bytes, None, bytes]]]]
_COMPRESSIONS = {
    "gzip": (_gzip, _feed_zlib),
    "zstd": (
        lambda: import_module("zstandard").ZstdDecompressor(max_window_size=1 << 31).decompressobj,
        _feed_zstandard,
    ),
    "xz": (lambda: partial(import_module("lzma").LZMADecompressor, import_module("lzma").FORMAT_XZ), _feed),
    "bzip2": (lambda: import_module("bz2").BZ2Decompressor, _feed),
}
_MAGIC = ((b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"\xfd7zXZ\x00", "xz"), (b"BZh", "bzip2"))


def open_bytes(where: str | Path | BinaryIO | io.RawIOBase) -> ByteStream:
    """Open an input for reading its uncompressed bytes.

    Args:
        where: A path, ``-`` for standard input, a URL, or an open binary file.

    Raises:
        InputError: It does not exist, is a directory, or may not be read.
    """
    file: BinaryIO | io.RawIOBase
    if is_url(where):
        from memlens.inputs.remote import RemoteObject

        file = RemoteObject(str(where)).stream()
    elif isinstance(where, (str, Path)):
        named = where.name if isinstance(where, NamedPath) else where
        file = sys.stdin.buffer if str(where) == "-" else _open_file(where or ".", Path(named))
    else:
        file = where
    head = b""
    try:
        while len(head) < 6 and (more := file.read(6 - len(head))):
            head += more
    except OSError as error:
        raise InputError(f"{where}: cannot be read: {error.strerror or error}") from error
    return ByteStream(file, head, compression_of(head) or "")


def compression_of(head: bytes) -> str | None:
    """How a file is compressed whose first bytes these are, ``""`` for not at all; ``None`` where more of them have to tell."""
    found = next((name for magic, name in _MAGIC if head.startswith(magic)), None)
    return "" if found is None and not any(magic.startswith(head) for magic, _ in _MAGIC) else found


def _open_file(where: str | Path, path: Path) -> io.FileIO:
    """Open a file, and call it ``path`` in errors."""
    try:
        if stat.S_ISDIR(os.stat(where).st_mode):
            inside = sorted(entry.name for entry in os.scandir(where) if entry.is_file())[:3]
            hint = f"Name a log in it, like {path / inside[0]}." if inside else "Name a log file."
            raise InputError(f"{path}: is a directory", hint)
        return io.FileIO(where)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", _similar(os.path.dirname(os.fspath(where)) or ".", path)) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error


def _similar(place: str, path: Path) -> str:
    import difflib

    folder = path.parent
    if not os.path.isdir(place):
        return f"There is no directory {folder} either."
    others = [
        entry.name for entry in os.scandir(place) if entry.name != path.name
    ]  # a link that leads nowhere is there
    close = difflib.get_close_matches(path.name, others, 3, 0.7)
    return f"Did you mean {' or '.join(str(folder / name) for name in close)}?" if close else "Check the path."
