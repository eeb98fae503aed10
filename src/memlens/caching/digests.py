"""What tells one content from another: sums of files and of columns, and the version of all that makes events of a text.

Sums are XXH3 of 128 bits: a gigabyte takes about as long as copying it once.  They tell a log that was changed from the same log, and a damaged
column from a sound one; they do not withstand somebody who makes up two logs of one sum on purpose.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import memlens
from memlens import native
from memlens.errors import MemlensError
from memlens.inputs.custom.formats import formats_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["sum_of", "sum_of_file", "sums_of", "version_of_formats"]

Item = TypeVar("Item")
Made = TypeVar("Made")

#: A file is summed up in pieces of so many bytes, each by one of some threads, which read so many bytes at once.
_PIECE, _AT_ONCE = 8 << 20, 1 << 20
_THREADS = min(4, os.cpu_count() or 1)
#: The memory that each thread reads into: fresh memory costs as much as the sum of what is read into it.
_OF_THREAD = threading.local()
#: What of the package decides which events a text gives: these folders, and the modules beside them.
_ROOMS = ("caching", "folding", "inputs", "scanner", "windows")


def sum_of(*parts: bytes | NDArray[Any]) -> str:
    """The sum of some bytes, 32 hexadecimal digits.

    Raises:
        MemlensError: The package that sums up is not installed.
    """
    made = _xxh3()
    for part in parts:
        made.update(part)
    return str(made.hexdigest())


def sums_of(columns: Sequence[NDArray[Any]]) -> list[str]:
    """The sum of each of some columns, by several threads."""
    return [*_shared_out(sum_of, columns, many=sum(column.nbytes for column in columns) > _PIECE)]


def sum_of_file(path: str, progress: Callable[[int], None] | None = None) -> str:
    """The sum of a file as it lies on disk.

    Args:
        path: The file.
        progress: Called now and then with the bytes summed up so far.

    Raises:
        MemlensError: The package that sums up is not installed, or this system cannot read a file at any place.
        OSError: It cannot be read, or is made shorter meanwhile.
    """
    if not hasattr(os, "preadv"):
        raise MemlensError("this system cannot read a file at any place", "A cache needs Linux or macOS.")
    number = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(number).st_size
        spans = [(at, min(at + _PIECE, size)) for at in range(0, size, _PIECE)]
        whole = _xxh3()
        whole.update(f"{size} ".encode())
        with closing(_shared_out(lambda span: _sum_of_piece(number, *span), spans, many=len(spans) > 1)) as sums:
            for (_, end), made in zip(spans, sums, strict=True):
                whole.update(made)
                if progress is not None:
                    progress(end)
        return str(whole.hexdigest())
    finally:
        os.close(number)


def _sum_of_piece(number: int, start: int, end: int) -> bytes:
    if not hasattr(_OF_THREAD, "buffer"):
        _OF_THREAD.buffer = memoryview(bytearray(_AT_ONCE))
    made = _xxh3()
    while start < end:
        wanted = _OF_THREAD.buffer[: end - start]
        count = os.preadv(number, [wanted], start)
        if not count:
            raise OSError("it was made shorter while it was read")
        made.update(wanted[:count])
        start += count
    return bytes(made.digest())


def _shared_out(work: Callable[[Item], Made], items: Sequence[Item], *, many: bool) -> Generator[Made, None, None]:
    """What a function gives of each item, in order; by several threads where there is much to do."""
    if not many:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(_THREADS) as threads:
        try:
            yield from threads.map(work, items)
        finally:
            threads.shutdown(cancel_futures=True)


def _xxh3() -> Any:
    try:
        import xxhash
    except ImportError:
        raise MemlensError("needs the package xxhash", "Install it with: pip install 'memlens[cache]'.") from None
    return xxhash.xxh3_128()


def version_of_formats(formats: str | Path | None) -> str:
    """What stands for everything that makes events of a text: memlens itself, to the letter, and the formats of users.

    Args:
        formats: As :attr:`memlens.options.ReadAs.formats`.

    Raises:
        OSError: The file of formats cannot be read.
    """
    text = b""
    if (where := formats_file(formats)) is not None:
        with open(where, "rb") as file:
            text = file.read()
        if formats is None and b"memlens" not in text:  # as they are looked for
            text = b""
    return sum_of(_version().encode(), text)


@cache
def _version() -> str:
    """The version of memlens: its number, its code, whether compiled code runs, and the order of bytes in numbers."""
    package = Path(memlens.__file__).parent
    paths = [path for room in _ROOMS for path in (package / room).rglob("*") if path.suffix in (".py", ".so", ".pyd")]
    paths += [path for path in package.iterdir() if path.suffix in (".py", ".so", ".pyd")]
    code = [part for path in sorted(paths) for part in (str(path.relative_to(package)).encode(), path.read_bytes())]
    compiled = native.load("memlens.scanner._scan") is not None
    return f"{memlens.__version__} {sum_of(*code)} {compiled} {sys.byteorder}"
