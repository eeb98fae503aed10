"""An input as blocks of whole lines, in padded buffers that are used again and again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from memlens.inputs.paddle.decode import PAD
from memlens.scanner.bytesearch import line_start_before

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.inputs.streams import ByteStream

__all__ = ["BLOCK_BYTES", "LONGEST_LINE", "Block", "BlockPool", "Blocks"]

#: Bytes of text that a block holds at most.
BLOCK_BYTES = 1 << 23
#: Bytes of text in a first block, and in any block of a log that is dense with events.
DENSE_BYTES = 1 << 21
#: With as many events to a block, the arrays of one block stay in the cache, and the cost of each array operation is small
#: against what it does.
_EVENTS = 1 << 12
#: A line longer than this is cut into pieces: what stands in it is still read, but an event may lie across a cut.
LONGEST_LINE = 1 << 26


@dataclass(frozen=True)
class Block:
    """Whole lines of the input: ``data[begin:end]``, with :data:`~memlens.inputs.paddle.decode.PAD` line ends before and after.

    Attributes:
        data: uint8; belongs to whoever holds the block until it is handed back by :meth:`BlockPool.give_back`.
        begin: Position of the first byte of text.
        end: Position after the last one.
        offset: Byte offset of the text in the uncompressed input.
        cut: The block ends in the middle of a line that is too long to keep whole.
    """

    data: NDArray[np.uint8]
    begin: int
    end: int
    offset: int
    cut: bool = False

    @property
    def text(self) -> NDArray[np.uint8]:
        """The text alone, uint8."""
        return self.data[self.begin : self.end]


class BlockPool:
    """Buffers that are used again and again, and how large the next block should be; outlives one reading of a part."""

    def __init__(self) -> None:
        self.block_bytes = min(DENSE_BYTES, BLOCK_BYTES)
        self._free: list[NDArray[np.uint8]] = []

    def take(self, kept: int) -> NDArray[np.uint8]:
        """A buffer with room for a block, and for twice what is kept from before."""
        if 2 * kept < BLOCK_BYTES:
            return self._free.pop() if self._free else np.empty(BLOCK_BYTES + 2 * PAD, np.uint8)
        return np.empty(min(2 * kept + BLOCK_BYTES, LONGEST_LINE + BLOCK_BYTES) + 2 * PAD, np.uint8)

    def give_back(self, block: Block) -> None:
        """Say that a block's buffer may be used again."""
        if len(block.data) == BLOCK_BYTES + 2 * PAD:
            self._free.append(block.data)

    def expect(self, events: int, size: int) -> None:
        """Say how many events were in so many bytes, so that the next block is cut to a size that is quick to decode."""
        self.block_bytes = min(max(_EVENTS * size // max(events, 1), DENSE_BYTES), BLOCK_BYTES)


class Blocks:
    """Cuts a stream into blocks at line ends.

    Args:
        stream: What to read; read to its end.
        offset: Byte offset of the stream's first byte in the input.
        pool: Where buffers come from, and go back to.
    """

    def __init__(self, stream: ByteStream, offset: int = 0, pool: BlockPool | None = None) -> None:
        self._stream = stream
        self._offset = offset
        self.pool = pool or BlockPool()

    def __iter__(self) -> Iterator[Block]:
        offset, rest = self._offset, np.zeros(0, np.uint8)
        while True:
            buffer = self.pool.take(len(rest))
            buffer[PAD : PAD + len(rest)] = rest
            end, over = self._fill(buffer, PAD + len(rest))
            if end == PAD:
                return
            cut_at = end if over else line_start_before(buffer, PAD, end) or PAD
            if cut_at == PAD:  # no line end yet: a line longer than a block
                if end - PAD >= LONGEST_LINE:
                    yield self._block(buffer, end, offset, cut=True)
                    offset, rest = offset + end - PAD, np.zeros(0, np.uint8)
                else:
                    rest = buffer[PAD:end].copy()
                continue
            rest = buffer[cut_at:end].copy()
            yield self._block(buffer, cut_at, offset)
            offset += cut_at - PAD
            if over:
                return

    def _fill(self, buffer: NDArray[np.uint8], end: int) -> tuple[int, bool]:
        """Read until the buffer is full or the stream ends; gives the end of the text and whether it is the last."""
        view = buffer.data
        stop = (
            len(buffer) - PAD
            if len(buffer) > BLOCK_BYTES + 2 * PAD
            else PAD + max(self.pool.block_bytes, 2 * (end - PAD))
        )
        while end < stop:
            count = self._stream.readinto(view[end:stop])
            if not count:
                return end, True
            end += count
        return end, False

    @staticmethod
    def _block(buffer: NDArray[np.uint8], end: int, offset: int, *, cut: bool = False) -> Block:
        buffer[:PAD] = 0x0A
        buffer[end : end + PAD] = 0x0A
        return Block(buffer, PAD, end, offset, cut)
