"""An input as blocks of whole lines, in buffers that are used again and again, and threads that share the blocks out."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator
from itertools import chain, islice
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import numpy as np

from memlens.native import load
from memlens.scanner import line_start_before

if TYPE_CHECKING:
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from memlens.inputs.streams import ByteStream


#: Bytes of text that a block holds as a rule, at least; of so many blocks a large file consists, until they are so many times as large: each costs the
#: same few hundred calls of array operations, and a larger one more memory.
BLOCK_BYTES = 3 << 20
_BLOCKS, _MOST_TIMES = 64, 4
#: A line longer than this is cut into pieces: what stands in it is still read, but an event may lie across a cut.
LONGEST_LINE = 1 << 24
#: Line ends that stand in every buffer before the text and after it.
PAD = 128
#: More threads than this wait for each other: putting the results together is the work of one.
_MOST_THREADS = 4
_LOOK_BACK = 1 << 12
#: Freed memory that is kept for the next array; glibc takes at most 32 MiB.
_KEPT = 30 << 20
#: How long a thread is waited for that reads what nobody wants any more.
_PATIENCE_SECONDS = 1.0

Item = TypeVar("Item")
Result = TypeVar("Result")


class SupportsReadInto(Protocol):
    """A source that blocks are read from."""

    def readinto(self, buffer: memoryview, /) -> int:
        """Read some bytes into a buffer; 0 where there are none."""


class Block(NamedTuple):
    """Whole lines of the input: ``data[begin:end]``, with :data:`PAD` line ends before and after.

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
    """Buffers that are used again and again: fresh memory costs more than what is done with it.

    Args:
        size: Bytes of the file, 0 where they are not known.

    Attributes:
        block_bytes: Bytes of text that a block holds as a rule.
    """

    def __init__(self, size: int = 0) -> None:
        self._free: list[NDArray[np.uint8]] = []
        self.block_bytes = max(BLOCK_BYTES, min(size // _BLOCKS, _MOST_TIMES * BLOCK_BYTES))

    def take(self, size: int) -> NDArray[np.uint8]:
        """A buffer with room for a block of as many bytes."""
        if size > self.block_bytes:
            return np.empty(size + 2 * PAD, np.uint8)
        try:
            return self._free.pop()
        except IndexError:
            return np.empty(self.block_bytes + 2 * PAD, np.uint8)

    def give_back(self, block: Block) -> None:
        """Say that a block's buffer may be used again."""
        if len(block.data) == self.block_bytes + 2 * PAD:
            self._free.append(block.data)


class Blocks:
    """Cuts a stream into blocks at line ends.

    Args:
        stream: What to read, until it gives nothing.
        offset: Byte offset of the stream's first byte in the input.
        growing: More may come: a last line without its end is kept back, and iterating again goes on with it.
    """

    def __init__(self, stream: SupportsReadInto, offset: int = 0, *, growing: bool = False) -> None:
        self._stream = stream
        self._offset, self._rest = offset, np.zeros(0, np.uint8)
        self.growing = growing
        self.pool = BlockPool()

    def __iter__(self) -> Iterator[Block]:
        ended = False
        while not ended:
            rest = self._rest
            # What is kept of a line longer than a block doubles from time to time.
            room = BLOCK_BYTES if 2 * len(rest) < BLOCK_BYTES else min(2 * len(rest), LONGEST_LINE) + BLOCK_BYTES
            buffer = self.pool.take(room)
            buffer[PAD : PAD + len(rest)] = rest
            end, ended = self._fill(buffer, PAD + len(rest), PAD + room)
            if end == PAD:
                return
            # What is kept of a line holds no line end.
            stop = end if ended and not self.growing else line_start_before(buffer, PAD + len(rest), end)
            cut = not stop and end - PAD >= LONGEST_LINE
            if cut:
                stop = end
            self._rest = buffer[stop or PAD : end].copy()
            if stop:
                offset, self._offset = self._offset, self._offset + stop - PAD
                yield _padded(buffer, stop, offset, cut)

    def _fill(self, buffer: NDArray[np.uint8], end: int, stop: int) -> tuple[int, bool]:
        """Read until the buffer is full or the stream ends; gives the end of the text and whether it is the last."""
        view = buffer.data
        while end < stop:
            count = self._stream.readinto(view[end:stop])
            if not count:
                return end, True
            end += count
        return end, False


def _padded(buffer: NDArray[np.uint8], end: int, offset: int, cut: bool) -> Block:
    buffer[:PAD] = 0x0A
    buffer[end : end + PAD] = 0x0A
    return Block(buffer, PAD, end, offset, cut)


def in_order(stream: ByteStream, work: Callable[[Block], Result], *, size: int = 0) -> Generator[Result, None, None]:
    """Read all blocks of an input by several threads; the results come in the order of the input.

    Args:
        stream: The input.
        work: Reads a block; called by several threads.  The block's buffer is used again when it is done.
        size: Bytes to read of a plain file, by position; what is written to it afterwards is not read.  0 for what can only be read from front
            to back: then this thread reads ahead of the others, and where it takes work to
            decompress a thread of its own does so.
    """
    spans: Iterator[Callable[[], Block]]
    if size:
        file, pool = stream.fileno(), BlockPool(size)
        spans = (lambda span=span: _load(file, pool, *span) for span in _spans(file, size, pool.block_bytes))  # type: ignore[misc]
    else:
        blocks = Blocks(stream)
        spans, pool = (lambda block=block: block for block in blocks), blocks.pool  # type: ignore[misc]
    return shared_out(spans, work, pool, unpacking=not size and stream.unpacks)


def shared_out(
    spans: Iterator[Callable[[], Block]],
    work: Callable[[Block], Result],
    buffers: BlockPool,
    *,
    unpacking: bool = False,
) -> Generator[Result, None, None]:
    """Have blocks read by several threads; the results come in their order.

    As many threads work as there are processors, four at most, and one alone without the compiled scanner: then they would take turns.

    Args:
        spans: For each block what gets it, called by the thread that reads it.
        work: Reads a block.
        buffers: Where the buffers of the blocks are given back to.
        unpacking: To get the next of ``spans`` takes time, and one more thread is to do it.
    """

    def one(load: Callable[[], Block]) -> Result:
        block = load()
        result = work(block)
        buffers.give_back(block)
        return result

    most = min(processors(), _MOST_THREADS) if load("memlens.scanner._scan") else 1
    ahead = list(islice(spans, 2))
    if len(ahead) < 2 or most == 1:
        yield from map(one, chain(ahead, spans))
        return
    # Imported here, since a small log needs none of this.
    from concurrent.futures import ThreadPoolExecutor

    _keep_freed_memory()
    waiting: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(most, "memlens-read")
    others = _from_a_thread(spans, most) if unpacking else spans
    try:
        for span in chain(ahead, others):
            waiting.append(pool.submit(one, span))
            if len(waiting) > most:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        if isinstance(others, Generator):
            others.close()


def _from_a_thread(items: Iterator[Item], most: int) -> Generator[Item, None, None]:
    """The same items, which a thread gets beforehand; as many as ``most`` wait."""
    from queue import Empty, Queue
    from threading import Thread

    ready: Queue[tuple[Item] | BaseException | None] = Queue(most)
    left = False

    def get() -> None:
        end: BaseException | None = None
        try:
            for item in items:
                if left:
                    return
                ready.put((item,))
        except BaseException as error:  # noqa: BLE001 - raised where the items are taken
            end = error
        if not left:
            ready.put(end)

    thread = Thread(target=get, name="memlens-unpack", daemon=True)
    thread.start()
    try:
        while isinstance(item := ready.get(), tuple):
            yield item[0]
        if item is not None:
            raise item
    finally:
        left = True
        until = monotonic() + _PATIENCE_SECONDS
        while thread.is_alive() and monotonic() < until:  # it may wait for room, or for a pipe
            try:
                ready.get_nowait()
            except Empty:
                thread.join(0.001)


def _keep_freed_memory() -> None:
    """Let the C library keep freed memory, instead of handing it back after each array operation and faulting it in again.

    Where that library is glibc, freeing an array that was mapped on its own raises the size up to which it keeps memory, to
    that of the array (``M_MMAP_THRESHOLD`` in mallopt(3)); elsewhere nothing happens.
    """
    array = np.empty(_KEPT, np.uint8)
    del array


def processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _spans(file: int, size: int, block_bytes: int) -> Iterator[tuple[int, int, bool]]:
    """Where to cut a file into blocks: start, end, and whether the end is in the middle of a line."""
    start = 0
    while start < size:
        end, cut = min(start + block_bytes, size), False
        if end < size:
            end, cut = _line_start(file, start, end, size)
        yield start, end, cut
        start = end


def _line_start(file: int, start: int, end: int, size: int) -> tuple[int, bool]:
    """The last line start after ``start`` and up to ``end``, or else the next one; and whether it is none, the line being too long."""
    low = high = end
    step = _LOOK_BACK
    while low > start:
        low = max(low - step, start)
        at = os.pread(file, high - low, low).rfind(b"\n")
        if at >= 0:
            return low + at + 1, False
        high, step = low, step * 4
    most = min(start + max(LONGEST_LINE, BLOCK_BYTES), size)
    while end < most and (text := os.pread(file, min(BLOCK_BYTES, most - end), end)):
        at = text.find(b"\n")
        if at >= 0:
            return end + at + 1, False
        end += len(text)
    return most, most < size


def _load(file: int, pool: BlockPool, start: int, end: int, cut: bool) -> Block:
    """Read a block of a file; shorter where the file was made shorter meanwhile."""
    buffer = pool.take(end - start)
    stop, at = PAD + end - start, PAD
    while at < stop and (count := os.preadv(file, [buffer.data[at:stop]], start + at - PAD)):
        at += count
    return _padded(buffer, at, start, cut)
