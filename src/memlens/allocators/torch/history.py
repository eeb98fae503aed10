"""The requests of a program to PyTorch's allocator, from a memory snapshot with its trace.

A block is given back at its ``free_completed``, which may come later than the ``free_requested`` where the FREE of the log stands: until then nothing else can
lie there.  What was live before the trace begins lies where it was; a large one of those may keep up to 1 MiB behind it that nobody asked for, and that no entry
tells of.  In the large pool every free block is larger than that, so what lies between such a block and the next one that is less far away is its own.

What a snapshot does not say is found by replaying it: which of free blocks of one size serves, and the order in which the opening segments were taken.
PyTorch up to 2.11 takes the block at the lowest address, from 2.13 on that of the oldest segment, and a snapshot has neither a version nor the age of segments.  So
both are tried.  Where the second one gives another block than the recorded one, and both are in segments from before the trace, the recorded one's is the older one:
it is put in front of the other, and the replay begins anew, a bounded number of times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from memlens.allocators.engine import replay
from memlens.allocators.history import ChunkChange, NotReplayable, Operation, RequestHistory
from memlens.allocators.placing import Addresses, Placement
from memlens.allocators.torch import segments
from memlens.allocators.torch.settings import Configuration, recorded_values
from memlens.facts import DEFAULT_POOL, Kind
from memlens.inputs.torch_snapshot.reader import RECORD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from memlens.allocators.history import OpeningChunks
    from memlens.allocators.models import AllocatorRules, Values
    from memlens.columns import Ints
    from memlens.events import EventLog


_LAYER = "torch_snapshot"
#: So many replays at most, and so many operations in all of them, but one replay of any history.
_MOST_REPLAYS, _MOST_OPERATIONS = 200, 20_000_000
_SHARES = {"garbage_collection_threshold", "per_process_memory_fraction"}
_OLDEST = {"oldest_segment_first": "True"}
#: Addresses below it, and sizes.
_MOST_ADDRESS, _MOST_SIZE = 1 << 62, 1 << 48
#: The place of an operation is that of an event times so many, and a step: a request that failed before the event; the event itself; what can be used again
#: after it.
_STEPS, _HERE, _LATER = 4, 1, 2


def request_histories(log: EventLog) -> list[RequestHistory] | NotReplayable | None:
    """The requests of a memory snapshot; why it cannot be replayed; ``None`` for another input.

    There are two where it is not known whether segments were given back because the device refused a request: as if it did, and as if it did not.
    """
    if log.facts.layer != _LAYER:
        return None
    missing = _missing(log)
    if missing is not None:
        return missing
    conf, found = Configuration.of(recorded_values(log.facts.settings)), []
    for refused in (True, False):
        trims, of_request, unclear = segments.released(log, refused=refused)
        history = _history(log, conf, trims, of_request)
        if isinstance(history, NotReplayable):
            return history
        found.append(history)
        if not unclear:
            break
    return found


def _missing(log: EventLog) -> NotReplayable | None:
    facts = log.facts
    if not (log.kind[facts.opening :] == Kind.ALLOC).any():
        return NotReplayable("it has no trace of requests, only what the device held at its end", RECORD)
    if facts.malformed:
        return NotReplayable(f"{facts.malformed:,} of its entries cannot be read, and a request may be among them")
    if "mixed_segments" in facts.hints:
        return NotReplayable("some of its segments are expandable, and others are not")
    if len(log.lifetimes.double_allocs):
        return NotReplayable("an address is allocated twice in it: entries are missing")
    if (log.addr >= np.uint64(_MOST_ADDRESS)).any() or (log.size >= _MOST_SIZE).any():
        return NotReplayable("it has an address or a size that no device has")
    return None


class _Rows(NamedTuple):
    """Operations of one kind, one entry each.

    Attributes:
        place: Where they stand among all.
        operation: What they are.
        addr, size, stream, pool, event, line: As in a history.
    """

    place: Ints
    operation: NDArray[np.int8]
    addr: NDArray[np.uint64]
    size: Ints
    stream: NDArray[np.int32]
    pool: NDArray[np.int32]
    event: Ints
    line: Ints

    @classmethod
    def of(cls, place: Ints, operation: Operation, **columns: NDArray[Any]) -> _Rows:
        """Operations; columns that are not given are 0."""
        types = {
            "addr": np.uint64,
            "size": np.int64,
            "stream": np.int32,
            "pool": np.int32,
            "event": np.int64,
            "line": np.int64,
        }
        found: Any = (columns.get(name, np.zeros(len(place), kind)) for name, kind in types.items())
        return cls(place, np.full(len(place), operation, np.int8), *found)

    @classmethod
    def in_order(cls, parts: tuple[_Rows, ...]) -> tuple[_Rows, Ints]:
        """All of some by their places, and where each has come to, by its number among all."""
        columns: Any = (np.concatenate(pieces) for pieces in zip(*parts, strict=True))
        together = cls(*columns)
        order = np.argsort(together.place, kind="stable")
        index = np.empty(len(order), np.int64)
        index[order] = np.arange(len(order))
        columns = (column[order] for column in together)
        return cls(*columns), index


def _history(log: EventLog, conf: Configuration, trims: Ints, of_request: Ints) -> RequestHistory | NotReplayable:
    """The history; ``trims`` and ``of_request`` are what :func:`segments.released` gives."""
    streams = np.full(len(log), -1, np.int64) if log.stream is None else log.stream
    values, numbers = np.unique(streams, return_inverse=True)
    stream, pool = numbers.reshape(-1).astype(np.int32), _pools(log)
    lives = segments.lives_of(log)
    before = lives.alloc < log.facts.opening
    lives, before = lives.at(order := np.lexsort((lives.addr, ~before))), before[order]
    opened, gone = int(before.sum()), np.flatnonzero(lives.last >= 0)
    operations, index = _Rows.in_order(
        (
            _requests(log, lives, before, stream, pool),
            _frees(log, lives.at(gone), stream, pool),
            _failed(log, values),
            _Rows.of(trims * _STEPS + _HERE, Operation.TRIM, event=np.full_like(trims, -1), line=log.offset[trims]),
        )
    )
    requests = len(before)
    of, block_bytes = np.full(len(index), -1, np.int64), np.full(len(index), -1, np.int64)
    of[index[requests : requests + len(gone)]] = index[gone]
    chunks = segments.opening_chunks(log, conf, lives, stream, pool)
    block_bytes[:opened] = segments.opening_block_bytes(log, conf, lives, opened, chunks)
    outside = _outside(operations.addr[:opened], block_bytes[:opened], chunks)
    if outside:
        return NotReplayable(f"{outside:,} of its blocks lie in none of its segments")
    events = np.flatnonzero(log.kind >= Kind.RESERVE)
    events = events[events >= log.facts.opening]
    changes = segments.changes_of(log, events, _moments(log, events, of_request, operations))
    failed = len(log.facts.ooms)
    shares = {oom.limit_bytes for oom in log.facts.ooms} - {None}
    share = shares.pop() if len(shares) == 1 else None
    return RequestHistory(
        operations.operation,
        of,
        operations.size,
        operations.stream,
        operations.pool,
        operations.event,
        operations.line,
        operations.addr,
        block_bytes,
        opened,
        segments.with_ranges(conf, chunks, changes, operations.size, operations.stream, operations.pool),
        np.sort(index[requests + len(gone) : requests + len(gone) + failed]),
        changes,
        log.facts.settings,
        segments.limit_of(log, conf, changes) if share is None else share,
        share is not None,
    )


def _pools(log: EventLog) -> NDArray[np.int32]:
    """Of each event the number of its pool, 0 for the default one and where it is not known."""
    if log.pool is None:
        return np.zeros(len(log), np.int32)
    names = {name: number for number, name in enumerate(dict.fromkeys((DEFAULT_POOL, *log.pool_names)))}
    return np.array([names[name] for name in log.pool_names] + [0], np.int32)[log.pool]


def _requests(
    log: EventLog, lives: segments.Lives, before: NDArray[np.bool_], stream: NDArray[np.int32], pool: NDArray[np.int32]
) -> _Rows:
    event = np.maximum(lives.alloc, 0)
    return _Rows.of(
        np.where(before, -1, lives.alloc * _STEPS + _HERE),
        Operation.REQUEST,
        addr=lives.addr,
        size=lives.size,
        stream=stream[event],
        pool=pool[event],
        event=np.where(before, -1, lives.alloc),
        line=np.where(before, -1, log.offset[event]),
    )


def _frees(log: EventLog, lives: segments.Lives, stream: NDArray[np.int32], pool: NDArray[np.int32]) -> _Rows:
    event = np.maximum(lives.free, 0)
    return _Rows.of(
        lives.last * _STEPS + np.where(lives.last == lives.free, _HERE, _LATER),
        Operation.FREE,
        stream=stream[event],
        pool=pool[event],
        event=lives.free,
        line=np.where(lives.free < 0, -1, log.offset[event]),
    )


def _failed(log: EventLog, streams: NDArray[np.int64]) -> _Rows:
    """The requests that failed; entries of those have no pool."""
    ooms = log.facts.ooms
    numbers = {value: number for number, value in enumerate(streams.tolist())}
    return _Rows.of(
        segments.failures(log) * _STEPS,
        Operation.REQUEST,
        size=np.array([oom.requested_bytes or 1 for oom in ooms], np.int64),
        stream=np.array([numbers.get(oom.stream, 0) for oom in ooms], np.int32),
        event=np.full(len(ooms), -1, np.int64),
        line=np.array([oom.offset for oom in ooms], np.int64),
    )


def _moments(log: EventLog, events: Ints, of_request: Ints, operations: _Rows) -> Ints:
    """During which operation each chunk event happened: those of requests before theirs, others at the emptying of the cache."""
    place = events * _STEPS + _HERE
    requests = np.flatnonzero(operations.operation == Operation.REQUEST)
    following = requests[np.minimum(np.searchsorted(operations.place[requests], place), len(requests) - 1)]
    trims = np.flatnonzero(operations.operation == Operation.TRIM)
    trimmed = (log.kind[events] == Kind.RELEASE) & ~np.isin(events, of_request)
    if not trimmed.any():
        return following
    latest = trims[np.maximum(np.searchsorted(operations.place[trims], place, "right") - 1, 0)]
    return np.where(trimmed, latest, following)


def _outside(addr: NDArray[np.uint64], size: Ints, chunks: OpeningChunks) -> int:
    """How many blocks do not lie in a chunk."""
    if not len(chunks.addr):
        return len(addr)
    piece = np.searchsorted(chunks.addr, addr, "right") - 1
    ends = (chunks.addr + chunks.size.astype(np.uint64))[piece]
    return int(((piece < 0) | (addr + size.astype(np.uint64) > ends)).sum())


def settled(
    histories: Sequence[RequestHistory], rules: Callable[[RequestHistory, Values], AllocatorRules]
) -> RequestHistory:
    """That one of some histories that is explained farthest, with what was found."""
    if _SHARES & recorded_values(histories[0].settings).keys():
        return histories[0]  # nothing can be replayed before it is known of what they are shares
    best, reached = histories[0], -2
    for history in histories:
        for tried, at in _tries(history, rules):
            if at < 0:
                return tried
            if at > reached:
                best, reached = tried, at
    return best


def _tries(
    history: RequestHistory, rules: Callable[[RequestHistory, Values], AllocatorRules]
) -> Iterator[tuple[RequestHistory, int]]:
    """A history under each assumption, and the first operation that is not explained, -1 where all are."""
    other = _first_other(history, rules)
    yield history, other.at if other is not None else -1
    tried = replace(history, settings={**history.settings, **_OLDEST})
    for _ in range(min(_MOST_REPLAYS, max(_MOST_OPERATIONS // len(history), 1))):
        other = _first_other(tried, rules)
        yield tried, other.at if other is not None else -1
        if other is None:
            return
        chunks = tried.opening_chunks
        newer, older = (_chunk_of(chunks, addr) for addr in (other.got, other.recorded))
        if newer < 0 or older < 0 or older <= newer:
            return
        order = np.arange(len(chunks.addr))
        order[newer : older + 1] = np.append(order[older], order[newer:older])
        tried = replace(tried, opening_chunks=chunks.at(order))


class _Other(NamedTuple):
    """The first thing that came out otherwise: during which operation, and where it was recorded and came out; 0 where it does not tell."""

    at: int
    recorded: int
    got: int


def _first_other(history: RequestHistory, rules: Callable[[RequestHistory, Values], AllocatorRules]) -> _Other | None:
    """The first block that does not lie where it was recorded, or segment that is given back instead of another; ``None`` where there is none."""
    own = rules(history, recorded_values(history.settings))
    got = replay(history, own, addresses=Addresses(Placement.RECORDED), limit=history.limit_bytes, trace=True)
    assert got.address is not None
    assert got.changes is not None
    known = (history.operation == Operation.REQUEST) & (history.address != 0)
    other = np.flatnonzero(known & (got.address != history.address))
    found = [_Other(int(at), int(history.address[at]), int(got.address[at])) for at in other[:1]]
    both = min(len(history.changes.at), len(got.changes.at))
    here, there = history.changes, got.changes
    pairs = ((getattr(changes, name)[:both] for changes in (here, there)) for name in ("at", "addr", "size"))
    differ = np.flatnonzero(np.logical_or.reduce([one != other for one, other in pairs]))
    for row in differ[:1].tolist():
        same = here.at[row] == there.at[row] and here.kind[row] == there.kind[row] == ChunkChange.GIVEN_BACK
        at = min(int(here.at[row]), int(there.at[row]))
        found.append(_Other(at, int(here.addr[row]), int(there.addr[row])) if same else _Other(at, 0, 0))
    return min(found, default=None)


def _chunk_of(chunks: OpeningChunks, addr: int) -> int:
    """Which chunk an address lies in, -1 for none."""
    # An address below a chunk's own wraps round to a large distance.
    found = np.flatnonzero(np.uint64(addr) - chunks.addr < chunks.size.astype(np.uint64))
    return int(found[0]) if len(found) else -1
