"""The requests of a program to its allocator, and how they were served: the input of a replay."""

from __future__ import annotations

from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from memlens.columns import Ints


class Operation(IntEnum):
    """An operation that a program asks its allocator for; ``TRIM`` gives all idle chunks back (``torch.cuda.empty_cache``)."""

    REQUEST = 0
    FREE = 1
    TRIM = 2


class ChunkChange(IntEnum):
    """A change of an allocator's memory of the device: it takes a chunk, gives one back; maps or unmaps pages of an expandable one."""

    TAKEN = 0
    GIVEN_BACK = 1
    MAPPED = 2
    UNMAPPED = 3


class ChunkChanges(NamedTuple):
    """Changes of chunks, in order, one entry a change.

    Attributes:
        at: Index of the operation during which it happened, -1 before the first one (a chunk taken when the allocator was made), int64.
        kind: :class:`ChunkChange`, int8.
        addr: Where the chunk, or what was mapped or unmapped, begins, uint64.
        size: Its bytes, int64.
    """

    at: Ints
    kind: NDArray[np.int8]
    addr: NDArray[np.uint64]
    size: Ints

    @classmethod
    def none(cls) -> ChunkChanges:
        """No change."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int8), np.zeros(0, np.uint64), np.zeros(0, np.int64))

    def take(self, at: Ints | NDArray[np.bool_] | slice) -> ChunkChanges:
        """Some of them, in the order given."""
        return ChunkChanges(self.at[at], self.kind[at], self.addr[at], self.size[at])


class OpeningChunks(NamedTuple):
    """Chunks that were there before the input begins, in the order in which they were taken as far as that is known.

    Attributes:
        addr: Where each begins, uint64.
        size: Its bytes, int64.
        stream: The stream whose requests it serves, int32.
        pool: The private pool it belongs to, 0 for the default one, int32.
        page: 0 for a chunk that is taken and given back whole; of what is mapped of an expandable one the bytes of a page.  Int64.
            One of 0 bytes says where a range of addresses begins of which the first pages are not mapped.
    """

    addr: NDArray[np.uint64]
    size: Ints
    stream: NDArray[np.int32]
    pool: NDArray[np.int32]
    page: Ints

    @classmethod
    def none(cls) -> OpeningChunks:
        """No chunk."""
        ints, numbers = np.zeros(0, np.int64), np.zeros(0, np.int32)
        return cls(np.zeros(0, np.uint64), ints, numbers, numbers, ints)

    def at(self, rows: Ints) -> OpeningChunks:
        """Some of them."""
        columns: Any = (column[rows] for column in self)
        return OpeningChunks(*columns)

    def then(self, others: OpeningChunks) -> OpeningChunks:
        """These, and then others."""
        pairs: Any = zip(self, others, strict=True)
        columns: Any = (np.concatenate(pair) for pair in pairs)
        return OpeningChunks(*columns)


class RequestHistory(Struct, frozen=True, eq=False, dict=True):
    """Operations in the order in which they took effect (which need not be that of their lines), one NumPy entry each.

    Attributes:
        operation: :class:`Operation`, int8.
        of: Of a FREE the index of the REQUEST whose block it gives back; else -1.  Int64.
        size: Of a REQUEST the bytes that the program asked for, before any rounding; else 0.  Int64.
        stream: The stream, or the instance of the allocator, that serves it, from 0; int32.
        pool: The private pool that serves it, 0 for the default one, int32.
        event: The event of the log, as its number in file order; -1 for a REQUEST that got nothing, for an opening one and for a TRIM.  Int64.
        line: How an operation is named to people: the byte offset of its line or entry, -1 where it has none, int64.
        address: Where a REQUEST's block lay as recorded; 0 where that is not known and where it got none, uint64.
        block_bytes: Bytes of a REQUEST's block, rounded and with its slack, where that is known, else -1; int64.
        opening: The first so many operations are REQUESTs of blocks that were live before the input begins, at known addresses.
        opening_chunks: The chunks in which those lie.
        failed: Indices of the REQUESTs that got nothing, int64, rising.
        changes: What happened to chunks as recorded.
        settings: Settings of the allocator that the input tells of, by name.
        limit_bytes: Bytes at which the device refused more, where that is known.
        limit_is_share: That is a share of the device, which requests are held against before they are rounded to pages.
    """

    operation: NDArray[np.int8]
    of: Ints
    size: Ints
    stream: NDArray[np.int32]
    pool: NDArray[np.int32]
    event: Ints
    line: Ints
    address: NDArray[np.uint64]
    block_bytes: Ints
    opening: int = 0
    opening_chunks: OpeningChunks = field(default_factory=OpeningChunks.none)
    failed: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    changes: ChunkChanges = field(default_factory=ChunkChanges.none)
    settings: Mapping[str, str] = {}
    limit_bytes: int | None = None
    limit_is_share: bool = False

    @cached_property
    def proofs(self) -> dict[Any, Any]:
        """Proofs of it by model and values; see :func:`memlens.allocators.engine.proven`."""
        return {}

    def __len__(self) -> int:
        return len(self.operation)

    @property
    def requests(self) -> int:
        """How many requests there are, the opening ones among them."""
        return int(np.count_nonzero(self.operation == Operation.REQUEST))


class NotReplayable(Struct, frozen=True):
    """Why a log cannot be replayed.

    Attributes:
        reason: What is missing, as a sentence without its full stop.
        hint: What to record to have it, or ``""``.
    """

    reason: str
    hint: str = ""
