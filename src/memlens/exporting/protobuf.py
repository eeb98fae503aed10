"""Protocol buffers, written: single messages, and many messages of one shape at once from NumPy columns.

The wire format is https://protobuf.dev/programming-guides/encoding: a field is a varint of its number and type, then a varint, or a length
and so many bytes.  This is the little of it that a trace needs; a library for it (``protobuf``) makes an object of each
message, which takes a minute for a million events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

if TYPE_CHECKING:
    from numpy.typing import NDArray

_VARINT, _LENGTH = 0, 2


def varint(value: int) -> bytes:
    """A whole number of at most 64 bits; a negative one as its two's complement."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """A field that is a whole number."""
    return varint(field << 3 | _VARINT) + varint(value)


def message(field: int, *parts: bytes) -> bytes:
    """A field that is a message of some fields, or bytes."""
    inner = b"".join(parts)
    return varint(field << 3 | _LENGTH) + varint(len(inner)) + inner


def text(field: int, value: str) -> bytes:
    """A field that is text; what is no Unicode in it becomes ``?``."""
    return message(field, value.encode("utf-8", "replace"))


class Rows(Struct, frozen=True):
    """A part of many messages: some bytes of each.

    Attributes:
        data: uint8, a row a message.
        size: How many bytes of its row each has, from the left, int64.
    """

    data: NDArray[np.uint8]
    size: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.size)

    def tobytes(self) -> bytes:
        """All messages, one after the other."""
        return self.data[np.arange(self.data.shape[1]) < self.size[:, None]].tobytes()

    def only(self, wanted: NDArray[np.bool_]) -> Rows:
        """The same in some messages, and nothing in the others."""
        return Rows(self.data, self.size * wanted)


def numbers(field: int, values: NDArray[np.integer]) -> Rows:
    """A field that is a whole number, in each of many messages."""
    return _joined([_same(varint(field << 3 | _VARINT), len(values)), _varints(values)])


def rows_message(field: int, count: int, *parts: Rows | bytes) -> Rows:
    """A field that is a message, in each of many messages.

    Args:
        field: Its number.
        count: How many messages.
        parts: Its fields; bytes are alike in all.
    """
    inner = _joined([_same(part, count) if isinstance(part, bytes) else part for part in parts])
    return _joined([_same(varint(field << 3 | _LENGTH), count), _varints(inner.size), inner])


def _same(data: bytes, count: int) -> Rows:
    alike = np.broadcast_to(np.frombuffer(data, np.uint8), (count, len(data)))
    return Rows(alike, np.full(count, len(data), np.int64))


def _varints(values: NDArray[np.integer]) -> Rows:
    unsigned = values.astype(np.int64).view(np.uint64) if values.dtype != np.uint64 else values
    most = int(unsigned.max(initial=0))
    width = max(-(-most.bit_length() // 7), 1)
    shifts = np.arange(0, 7 * width, 7, dtype=np.uint64)
    data = (unsigned[:, None] >> shifts & np.uint64(0x7F)).astype(np.uint8)
    # Bytes up to the highest one that is not 0.
    size = 1 + (unsigned[:, None] >> shifts[1:] != 0).sum(axis=1, dtype=np.int64)
    data[np.arange(width) < size[:, None] - 1] |= 0x80
    return Rows(data, size)


def _joined(parts: list[Rows]) -> Rows:
    """The bytes of several parts, one after the other in each message."""
    width = sum(part.data.shape[1] for part in parts)
    mask = np.concatenate([np.arange(part.data.shape[1]) < part.size[:, None] for part in parts], axis=1)
    data = np.concatenate([part.data for part in parts], axis=1)
    size = np.add.reduce([part.size for part in parts])
    if bool((size == width).all()):
        return Rows(data, size)
    # To the left, in their order.
    left = np.zeros((len(size), int(size.max(initial=0))), np.uint8)
    left[np.arange(left.shape[1]) < size[:, None]] = data[mask]
    return Rows(left, size)
