"""The facts that a reader sees beside the events: counts of lines, out-of-memory messages, the framework's own figures.

Readers fill these; :mod:`memlens.trust` judges them.  Nothing here is computed from the events.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np  # noqa: TC002  the types of columns are read when facts are read from a file
from msgspec import Struct
from numpy.typing import NDArray  # noqa: TC002

from memlens.results import Result

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The largest size that is believed: 128 TiB, the address space of one process.  A larger one is a damaged line.
MAX_SIZE = 1 << 47
#: What the memory pool is called that is nobody's own.
DEFAULT_POOL = "default pool"
#: The number of the CPU among devices.
CPU = -1


class Kind(IntEnum):
    """The kind of an event: a block given out or taken back, a chunk taken from or given back to the device."""

    ALLOC = 0
    FREE = 1
    RESERVE = 2
    RELEASE = 3


class LineSample(Result, frozen=True):
    """One line shown as an example: its byte offset, its 1-based number and its text (decoded, cut to 200 characters)."""

    offset: int
    line: int
    text: str


#: What a size that is printed in GB with six decimals may be off by.
_OF_DIGITS = 1024


class OutOfMemory(Result, frozen=True):
    """An out-of-memory message.

    Attributes:
        offset: Byte offset of the line of the request that was refused, where the input has that line, else of the message's.
        line: 1-based number of that line.
        device: The device as written (``GPU 0``), or ``""``.
        requested_bytes: What was asked for, or ``None`` where the message does not say.
        free_bytes: What the message says was left on the device, or ``None``.
        text: The message's line, decoded, cut to 300 characters.
        total_bytes: What the device has by the message, or ``None``: what is in use, whoever holds it, and what is left.
        unanswered_bytes: The last block that was asked for before it and never given, by its line in the log, or ``None`` where no such
            line is there.
        owner: The operator or the call stack that asked, or ``""`` where the input does not say.
        limit_bytes: What the message says the run may use of the device, or ``None``; with it ``total_bytes`` is of that.
        stream: The stream that it was asked for on, as :attr:`memlens.events.EventLog.stream` counts, or -1.
        chunk_bytes: The least bytes of a chunk, where a line not far above it says that, else 0.
        message_line: 1-based line number of the message, where ``line`` is that of the request; else ``None``.
    """

    offset: int
    line: int
    device: str
    requested_bytes: int | None
    free_bytes: int | None
    text: str
    total_bytes: int | None = None
    unanswered_bytes: int | None = None
    owner: str = ""
    limit_bytes: int | None = None
    stream: int = -1
    chunk_bytes: int = 0
    message_line: int | None = None

    @property
    def asked_bytes(self) -> int | None:
        """The bytes asked for: by the message, or else by the request that never got its block; ``None`` where neither says.

        Where the two agree as far as the message's digits go, the request is the exact one.
        """
        message, request = self.requested_bytes, self.unanswered_bytes
        if message is None or (request is not None and abs(message - request) <= _OF_DIGITS):
            return request
        return message


class Ending(Result, frozen=True):
    """How a run ended, by the first line after its last ALLOC that says so.

    Attributes:
        how: ``exception``: of Python; ``death`` of the process.
        what: The exception, the signal, or what the C library found, as written; ``""`` where it is not.
        offset: Byte offset of the text.
        line: 1-based number of its line.
    """

    how: str
    what: str
    offset: int
    line: int


class MessageLines(Struct, frozen=True, eq=False):
    """Out-of-memory messages, as columns in file order (there may be millions); a size is -1 where a message does not say it.

    Attributes:
        offset: Byte offset of the line, int64.
        line: Its number, int64.
        device: The device, an index of a list of names, int32, -1 where the message names none.
        requested: What was asked for, int64.
        free: What was left on the device, int64.
        total: What the device has, int64.
        limit: What the run may use of it, int64.
    """

    offset: NDArray[np.int64]
    line: NDArray[np.int64]
    device: NDArray[np.int32]
    requested: NDArray[np.int64]
    free: NDArray[np.int64]
    total: NDArray[np.int64]
    limit: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offset)

    def message(self, k: int, devices: Sequence[str], text: str = "") -> OutOfMemory:
        """One of them, given the names of the devices."""
        device, *sizes = (
            None if (value := column.item(k)) < 0 else value
            for column in (self.device, self.requested, self.free, self.total, self.limit)
        )
        requested, free, total, limit = sizes
        name = "" if device is None else devices[device]
        place = self.offset.item(k), self.line.item(k)
        return OutOfMemory(*place, name, requested, free, text, total, limit_bytes=limit)


class Figure(Struct, frozen=True):
    """One figure that the framework printed about itself.

    Attributes:
        offset: Byte offset of its line.
        metric: ``allocated``, ``allocated_peak``, ``reserved`` or ``reserved_peak``.
        low_bytes: The smallest number of bytes that prints as this figure.
        high_bytes: The largest one; equal to ``low_bytes`` where the figure is exact.
        origin: The format that printed it (a name from ``memlens.inputs.paddle.message_formats``).
        device: Device id where the line has one, else -1.
    """

    offset: int
    metric: str
    low_bytes: int
    high_bytes: int
    origin: str
    device: int = -1


class StatLines(Struct, frozen=True, eq=False):
    """Paddle's ``…MemoryStat…: Update current_value with …`` lines, as columns in file order (there may be millions).

    Attributes:
        offset: Byte offset of the line, int64.
        device: Device id for ``DeviceMemoryStat…<id>``, -1 for ``HostMemoryStat…``, int16.
        reserved: The line is of ``…StatReserved…`` and not of ``…StatAllocated…``, bool.
        change: The signed change, int64.
        current: The framework's running total after it, int64.
        peak: The peak it says, int64, -1 where the line says none.
    """

    offset: NDArray[np.int64]
    device: NDArray[np.int16]
    reserved: NDArray[np.bool_]
    change: NDArray[np.int64]
    current: NDArray[np.int64]
    peak: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offset)


class RequestLine(IntEnum):
    """The kinds of lines in :class:`RequestLines`, with their two values."""

    REQUEST = 0  # an allocation is asked of the allocator: bytes asked for, bytes of the block that it will get
    STREAM_REQUEST = 1  # … of the stream-safe layer above it: bytes asked for
    SERVED = 2  # the next ALLOC of the thread is cut from a free block: bytes of the block, bytes of the free one
    CHUNK_SIZE = 3  # an allocator is made: the least bytes of its chunks
    PREALLOC = 4  # a chunk is made in advance: 0 for the small pool, 1 for the large one; its bytes
    PADDED = 5  # a request with padding: bytes of it
    CUSTOM_DEVICE = 6  # the device is a plug-in's
    STRICT = 7  # the second form of the allocator is at work, which fits strictly while it warms up


class RequestLines(Struct, frozen=True, eq=False):
    """Lines by which Paddle's allocator says what it is asked for, and how it finds it, as columns in file order.

    Attributes:
        what: :class:`RequestLine`, int8.
        offset: Byte offset of the line, as :attr:`EventLog.offset` counts, int64.
        after: How many events stand before it in the file, int64.
        thread: Thread id, int64, -1 where unknown.
        first: Its first value, int64; 0 where it has none.
        second: Its second value, int64; 0 where it has none.
    """

    what: NDArray[np.int8]
    offset: NDArray[np.int64]
    after: NDArray[np.int64]
    thread: NDArray[np.int64]
    first: NDArray[np.int64]
    second: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.what)


class Mark(Struct, frozen=True):
    """A named place of an input that has no lines of text: an annotation of the user's, a profiler's step.

    Attributes:
        offset: As :attr:`EventLog.offset` counts: it stands before the first event of an offset that is not less.
        line: The 1-based number that stands for its line.
        text: What it says; what anchors are looked for in.
        end: The offset at which what it names ends, likewise; ``None`` where it names a place, or the input does not say.
    """

    offset: int
    line: int
    text: str
    end: int | None = None


class Kept(Struct, frozen=True, eq=False):
    """Stretches of chunks that a block keeps beyond its size, or after its FREE: nothing else can be allocated there; one entry each.

    Attributes:
        addr: Where it begins, uint64; part of it may be the block's own.
        size: Its bytes, int64.
        born: The ALLOC of the block, int64, -1 for one from before the input begins.
        last: The last event before which it is still there, int64.
    """

    addr: NDArray[np.uint64]
    size: NDArray[np.int64]
    born: NDArray[np.int64]
    last: NDArray[np.int64]

    def before(self, event: int) -> NDArray[np.int64]:
        """Which of them are there right before an event."""
        return ((self.born < event) & (self.last >= event)).nonzero()[0]


class UnevenSegment(Struct, frozen=True):
    """A segment whose blocks do not add up to what it says of itself.

    Attributes:
        address: Where it begins.
        what: ``allocated_size``, ``active_size``, ``requested_size`` or ``total_size``, or ``overlap`` where blocks lie over each other.
        stated_bytes: What the segment says; for ``overlap`` 0.
        blocks_bytes: What its blocks add up to, or, for ``total_size``, that and what lies outside of it; for ``overlap`` the bytes that are two blocks'.
    """

    address: int
    what: str
    stated_bytes: int
    blocks_bytes: int


class Facts(Struct, frozen=True):
    """The facts of one reading, beside the events.

    Attributes:
        bytes: Bytes of the uncompressed input.
        lines: Lines, the last one counted even without its line end.
        malformed: Lines that look like an event but do not parse.
        malformed_samples: The first few of them.
        ends_mid_line: The last line has no line end.
        cut_short: Why the input ended early (a compressed stream cut short), or ``""``.
        threads: Thread ids seen on event lines, sorted.
        unstamped: Events without a readable header (no time, no thread).
        layer: The log layer, or the format, that the events come from; where two give them, that of the blocks.
        chunk_layer: The layer that RESERVE and RELEASE events come from, or ``""`` where nothing is known of that.
        has_lines: The input consists of lines of text, and not of entries, as a snapshot or a trace does.
        has_chunks: The format tells of chunks: where none is there, lines are missing.
        keeps_last: The recorder keeps the last entries alone: when it is full, those before are dropped.
        addresses: Blocks have addresses.  Where they have none no ALLOC is paired with a FREE: there are levels and no lifetimes.
        sized_frees: Lines of FREEs have a size; where they have none it is that of their ALLOC.
        block_granularity: Blocks occupy multiples of so many bytes of their chunk, where sizes are what was asked for.
        kept: What blocks occupy beyond that, where it is known.
        chunks_join: Chunks may lie side by side as one (expandable segments), and a block may go from one into the next.
        opening: So many events at the start stand for blocks and chunks that were there before the input begins; they have no line.
        other_layers: Lines seen of other layers that tell of the same memory, by layer name (``stream_safe``, ``stats``,
            ``naive_best_fit``).
        hints: Other things seen, by name, with the 1-based number of the first line: ``prealloc``, ``binary``, …
        ooms: Out-of-memory messages, in file order; of a log of Paddle the first hundred, and the one that it is cut in.
        later_ooms: The others.
        oom_devices: The names of the devices of these.
        ending: How the run ended, where the log says so.
        figures: The framework's own figures, in file order.
        stat_lines: The framework's running totals, where the log has them.
        requests: Lines of requests; ``None`` where they were not asked for.
        uneven_segments: Segments whose blocks do not add up, in the order of the input, each with the first thing that is wrong with it.
        settings: Settings of the allocator that the input tells of, by the names it gives them, as it would write them.
    """

    bytes: int = 0
    lines: int = 0
    malformed: int = 0
    malformed_samples: tuple[LineSample, ...] = ()
    ends_mid_line: bool = False
    cut_short: str = ""
    threads: tuple[int, ...] = ()
    unstamped: int = 0
    layer: str = "auto_growth"
    chunk_layer: str = ""
    has_lines: bool = True
    has_chunks: bool = True
    keeps_last: bool = False
    addresses: bool = True
    sized_frees: bool = True
    block_granularity: int = 1
    kept: Kept | None = None
    chunks_join: bool = False
    opening: int = 0
    other_layers: dict[str, int] = {}
    hints: dict[str, int] = {}
    ooms: tuple[OutOfMemory, ...] = ()
    later_ooms: MessageLines | None = None
    oom_devices: tuple[str, ...] = ()
    ending: Ending | None = None
    figures: tuple[Figure, ...] = ()
    stat_lines: StatLines | None = None
    requests: RequestLines | None = None
    uneven_segments: tuple[UnevenSegment, ...] = ()
    settings: dict[str, str] = {}

    @property
    def oom_messages(self) -> int:
        """How many out-of-memory messages there are."""
        return len(self.ooms) + (0 if self.later_ooms is None else len(self.later_ooms))
