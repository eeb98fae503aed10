"""Files of a cache: one entry each, a few facts for whoever lists them and arrays that are mapped into memory.

A file has, one after the other,

* eight bytes that say what it is, the length of the facts (8 bytes), their sum (16 bytes), and how often the entry was of use (8 bytes, the only ones
  that are ever written over, which also makes the file's own time that of its last use);
* from byte 64 the facts, as JSON, among them the type, the shape and the sum of each array;
* the arrays, each from the next multiple of 64 bytes on.  The file ends with the last one.

All sums are checked before anything of it is believed, whose file it is as well, and nothing is ever unpickled.
"""

from __future__ import annotations

import json
import mmap
import os
import stat
import struct
from collections.abc import Collection, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.caching.digests import sum_of, sums_of
from memlens.output import replacing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["DAMAGES", "DamagedEntryError", "Entry", "read_entry", "read_facts", "write_entry"]

#: What a damaged entry raises, whatever is wrong with it.
DAMAGES = (ValueError, TypeError, LookupError, AttributeError, RecursionError, OverflowError)

_MAGIC = b"memlens\x01"
_HEAD = struct.Struct("<8sQ16s")
_USES = struct.Struct("<Q")
_FACTS_AT, _ALIGNED = 64, 64
_MOST_FACTS = 1 << 24
#: The types that arrays may have, in this machine's order of bytes.
_TYPES = {name: np.dtype(name) for name in ("int8", "uint8", "bool", "int16", "int32", "int64", "uint64")}


class DamagedEntryError(ValueError):
    """A file that is no whole entry."""


@dataclass(frozen=True, eq=False)
class Entry:
    """What a file holds.

    Attributes:
        facts: What it is of, in plain JSON types.
        arrays: Its arrays, which cannot be changed.
        size: Bytes of the file.
        uses: How often it was of use before.
        used: When it was of use last, or made, seconds since 1970.
    """

    facts: dict[str, Any]
    arrays: Sequence[NDArray[Any]]
    size: int
    uses: int
    used: float


def write_entry(path: str, facts: dict[str, Any], arrays: Sequence[NDArray[Any]], mode: int, most: int) -> int:
    """Write a file, which appears whole or not at all, in place of whatever is there.

    Args:
        path: The file.
        facts: What it is of, in plain JSON types.
        arrays: Its arrays.
        mode: Who may read it.
        most: Bytes that it may have.

    Returns:
        Its bytes; 0 where it would have been larger and was not written.

    Raises:
        OSError: It cannot be written.
        OutputError: The same.
    """
    arrays = [np.ascontiguousarray(array) for array in arrays]
    described = [[array.dtype.name, array.shape, made] for array, made in zip(arrays, sums_of(arrays), strict=True)]
    text = json.dumps({**facts, "arrays": described}).encode("ascii")
    spans, size = _laid_out(len(text), [array.nbytes for array in arrays])
    if size > most or len(text) > _MOST_FACTS:
        return 0
    head = _HEAD.pack(_MAGIC, len(text), bytes.fromhex(sum_of(text))) + _USES.pack(0)
    with replacing(path) as out:
        if hasattr(os, "fchmod"):
            os.fchmod(out.fileno(), mode)
        out.write(head.ljust(_FACTS_AT, b"\0") + text)
        for (begin, _), array in zip(spans, arrays, strict=True):
            out.write(bytes(begin - out.tell()))
            out.write(array.data.cast("B") if array.size else b"")
    return size


def read_facts(path: str, owners: Collection[int]) -> Entry:
    """What a file is of; the arrays are not looked at.

    Raises:
        DamagedEntryError: It is no entry.
        OSError: It cannot be read, or may not be believed.
    """
    with _opened(path, owners) as (_, found, _):
        return found


def read_entry(path: str, owners: Collection[int], **asked: Any) -> Entry:
    """What a file holds.

    Args:
        path: The file.
        owners: Whose files are believed: numbers of users.
        asked: Facts that it must have.

    Raises:
        DamagedEntryError: It is no whole entry, or one of something else.
        OSError: It cannot be read, or may not be believed.
    """
    with _opened(path, owners) as (number, found, length):
        if {name: found.facts.get(name) for name in asked} != asked:
            raise DamagedEntryError("it is of something else")
        described = found.facts["arrays"]
        types = [_TYPES[name] for name, _, _ in described]
        shapes = [tuple(shape) for _, shape, _ in described]
        if any(type(count) is not int or count < 0 for shape in shapes for count in shape):
            raise DamagedEntryError("an array has no length")
        sizes = [kind.itemsize * prod(shape) for kind, shape in zip(types, shapes, strict=True)]
        spans, size = _laid_out(length, sizes)
        if size != found.size:
            raise DamagedEntryError("it was cut short")
        whole = mmap.mmap(number, size, access=mmap.ACCESS_READ)
        arrays = [
            np.frombuffer(whole, kind, prod(shape), begin).reshape(shape)
            for kind, shape, (begin, _) in zip(types, shapes, spans, strict=True)
        ]
        if sums_of(arrays) != [made for _, _, made in described]:
            raise DamagedEntryError("an array is damaged")
        with suppress(OSError):  # it may belong to another user
            os.pwrite(number, _USES.pack(found.uses + 1), _HEAD.size)
        return Entry(found.facts, arrays, size, found.uses, found.used)


@contextmanager
def _opened(path: str, owners: Collection[int]) -> Iterator[tuple[int, Entry, int]]:
    """An open file, what it is of, and the length of that; see :func:`read_facts`."""
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        number = os.open(path, os.O_RDWR | flags)
    except PermissionError:
        number = os.open(path, os.O_RDONLY | flags)
    try:
        state = os.fstat(number)
        if not stat.S_ISREG(state.st_mode):
            raise DamagedEntryError("it is no file")
        if state.st_uid not in owners:
            raise PermissionError("it is another user's")
        if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise DamagedEntryError("others may write it")
        head = os.pread(number, _FACTS_AT, 0)
        if len(head) < _FACTS_AT:
            raise DamagedEntryError("it was cut short")
        magic, length, made = _HEAD.unpack_from(head)
        if magic != _MAGIC or length > min(_MOST_FACTS, state.st_size):
            raise DamagedEntryError("it is something else")
        text = os.pread(number, length, _FACTS_AT)
        if bytes.fromhex(sum_of(text)) != made:
            raise DamagedEntryError("its facts are damaged")
        (uses,) = _USES.unpack_from(head, _HEAD.size)
        yield number, Entry(json.loads(text), (), state.st_size, uses, state.st_mtime), length
    except DAMAGES as error:
        raise DamagedEntryError(str(error)) from error
    finally:
        os.close(number)


def _laid_out(facts: int, sizes: Sequence[int]) -> tuple[list[tuple[int, int]], int]:
    """Where arrays begin and end behind facts of so many bytes, and where the file ends."""
    spans, end = [], _FACTS_AT + facts
    for size in sizes:
        begin = -(-end // _ALIGNED) * _ALIGNED
        end = begin + size
        spans.append((begin, end))
    return spans, end
