"""The requests of a program to Paddle's auto-growth allocator, from the lines of its log; and which processes wrote it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import structs

from memlens import columns
from memlens.allocators.history import ChunkChange, ChunkChanges, NotReplayable, Operation, RequestHistory
from memlens.allocators.paddle.rows import LogRows, effects, uncertain
from memlens.columns import SET, USE, last_by_key
from memlens.facts import Kind, RequestLine, RequestLines
from memlens.inputs.paddle.layers import Layer
from memlens.trust import trust_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.columns import Ints
    from memlens.events import EventLog


#: What must be asked for when a log is read.
COLUMNS = ("thread", "requests")
#: Layers of Paddle's logs.
LAYERS = frozenset(layer.label for layer in Layer)
_RECORD = "Record the whole run, from its first allocation, with GLOG_vmodule='auto_g*=10'."
#: Blocks that may be the first one of a chunk that was made in advance, and are looked at.
_LOOKED_AT = 1000
#: Chunks made in advance: two for each allocator of a process.
_MOST_IN_ADVANCE = 64
#: What names settings that a log tells of.
CHUNK_BYTES, ALIGNMENT, PADDING, CUSTOM_DEVICE = "chunk_bytes", "alignment", "padding", "custom_device"
IDLE, GIVEN_BACK_FOR_REQUESTS = "free_idle_chunk", "given_back_for_requests"
SMALL_PREALLOC, LARGE_PREALLOC = "small_pool_pre_alloc_bytes", "large_pool_pre_alloc_bytes"


def request_history(log: EventLog) -> RequestHistory | NotReplayable:
    """The operations of one process on its auto-growth allocator, in the order in which they took effect.

    Args:
        log: A log that was read with :data:`COLUMNS`.
    """
    lines = log.facts.requests
    why = _unreadable(log, lines)
    if why is not None:
        return why
    assert lines is not None
    rows = LogRows(log, lines)
    why = _incomplete(log, rows)
    return _built(log, rows) if why is None else why


def _unreadable(log: EventLog, lines: RequestLines | None) -> NotReplayable | None:
    """Why the lines of a log do not tell what was asked of the allocator."""
    facts = log.facts
    if facts.layer.endswith("naive_best_fit"):
        return NotReplayable(
            "its memory is given out by the strategy naive_best_fit, whose rules memlens does not have",
            "Record a run with FLAGS_allocator_strategy=auto_growth.",
        )
    if lines is None or log.thread is None:
        return NotReplayable("its lines of requests were not read", "Read it with the columns thread and requests.")
    if (lines.what == RequestLine.STRICT).any():
        return NotReplayable(
            "it is of the second form of the auto-growth allocator, which warms up by other rules",
            "Record a run with FLAGS_use_auto_growth_v2=0.",
        )
    kinds = np.bincount(log.kind, minlength=4)
    if not kinds[Kind.ALLOC]:
        return NotReplayable("it has no line of a block: at VLOG 7 and less chunks are logged alone", _RECORD)
    if facts.layer not in ("auto_growth", "stream_safe"):
        return NotReplayable(
            f"its blocks are known from the layer {facts.layer}, which says nothing of requests", _RECORD
        )
    if not kinds[Kind.RESERVE] and not (lines.what == RequestLine.PREALLOC).any():
        return NotReplayable(
            "no line says which chunks were taken: not the auto-growth allocator, or only a part of its lines", _RECORD
        )
    if "no_pointers" in facts.hints:
        return NotReplayable(
            "its chunks have no addresses, as up to Paddle 2.2", "Record the run with Paddle 2.3 or later."
        )
    if several := len(writers(log)):
        return NotReplayable(
            f"{several} processes wrote it, each of which has memory of its own",
            "Have each process write a log of its own, as memlens record does.",
        )
    return None


def _incomplete(log: EventLog, rows: LogRows) -> NotReplayable | None:
    """Why the events of a log are not all of one process from its start."""
    partner = log.lifetimes.partner
    if len(log.lifetimes.double_allocs):
        return NotReplayable(
            "several processes wrote it, or lines are lost: a block is allocated where another one is",
            "Have each process write a log of its own.",
        )
    unknown = int(np.count_nonzero((log.kind == Kind.FREE) & (partner < 0)))
    allocated, reserved = _levels(log, rows)
    if unknown or allocated > reserved:
        blocks = "1 block was" if unknown == 1 else f"{unknown:,} blocks were"
        what = f"{blocks} freed that it does not allocate" if unknown else "more is allocated than its chunks hold"
        return NotReplayable(f"the log begins after the run did, or lines are lost: {what}", _RECORD)
    allocs = log.kind == Kind.ALLOC
    if without := int(np.count_nonzero(rows.request[allocs] < 0)):
        return NotReplayable(
            f"{without:,} of {int(np.count_nonzero(allocs)):,} blocks come without a line of their request", _RECORD
        )
    return None


def _levels(log: EventLog, rows: LogRows) -> tuple[int, int]:
    """The most bytes allocated beyond what is reserved, as a pair of figures of one moment: allocated, reserved."""
    advance = int(_in_advance(rows).sum())
    worst, level = (0, 0), -1 << 62
    for batch in log.batches():
        over = batch.allocated - batch.reserved
        at = int(over.argmax())
        if over[at] > level:
            level, worst = int(over[at]), (int(batch.allocated[at]), int(batch.reserved[at]) + advance)
    return worst


def _in_advance(rows: LogRows) -> Ints:
    """The sizes of chunks made in advance, as many as an allocator may have."""
    sizes: Ints = rows.lines.second[rows.lines.what == RequestLine.PREALLOC][:_MOST_IN_ADVANCE]
    return sizes


def _built(log: EventLog, rows: LogRows) -> RequestHistory:
    lines = rows.lines
    event_rows = np.flatnonzero(rows.is_event)
    given_back = _given_back(log, rows, event_rows)
    row, operation = _in_order(log, rows, event_rows, given_back)
    if given_back.after_frees and operation[-1] == Operation.FREE and row[-1] not in given_back.during:
        # The log may end before the line that gives its chunk back; for what comes before it is all the same.
        row, operation = row[:-1], operation[:-1]
    number = np.full(len(rows.thread), -1, rows.event.dtype)  # of the operation of each row
    number[row] = np.arange(len(row), dtype=number.dtype)
    is_request, of_log = operation == Operation.REQUEST, rows.is_event[row]
    allocs, frees = np.flatnonzero(is_request & of_log), np.flatnonzero(operation == Operation.FREE)
    event, of, block_bytes = (np.full(len(row), -1, np.int64) for _ in range(3))
    size, address = np.zeros(len(row), np.int64), np.zeros(len(row), np.uint64)
    served = event[allocs] = rows.event[row[allocs]]
    freed = event[frees] = rows.event[row[frees]]
    of[frees] = number[event_rows[log.lifetimes.partner[freed]]]
    failed = np.flatnonzero(is_request & ~of_log)
    size[allocs] = lines.first[rows.line(rows.request[served])]
    size[failed] = lines.first[rows.line(row[failed])]
    block_bytes[allocs], address[allocs] = log.size[served], log.addr[served]
    changes = _changes(log, rows, event_rows, number, given_back)
    # A request that failed has none of its own.
    line = log.offset[np.minimum(rows.event[row], len(log) - 1)]
    line[failed] = lines.offset[rows.line(row[failed])]
    stream, pool = np.zeros(len(row), np.int32), np.zeros(len(row), np.int32)
    if log.stream is not None:  # each has an allocator of its own
        named = log.stream[served]
        stream[allocs] = np.maximum(np.unique(named[named >= 0]).searchsorted(named), 0)
    return RequestHistory(
        operation,
        of,
        size,
        stream,
        pool,
        event,
        line,
        address,
        block_bytes,
        failed=failed,
        changes=changes,
        settings=_settings(log, rows, given_back),
        limit_bytes=_limit(log, rows, given_back),
    )


def _in_order(log: EventLog, rows: LogRows, event_rows: Ints, given_back: _GivenBack) -> tuple[Ints, NDArray[np.int8]]:
    """The rows of the operations and what they are, in the order in which they took effect.

    A FREE that took effect late comes right after an ALLOC, a request that failed where its line stands.
    """
    blocks = np.flatnonzero(log.kind <= Kind.FREE)
    row = event_rows[blocks]
    operation = log.kind[blocks]  # Kind.ALLOC is Operation.REQUEST, and Kind.FREE is Operation.FREE
    late = log.facts.layer == "auto_growth" and bool(uncertain(log.kind, rows.until).any())
    if not (late or len(rows.failed) or len(given_back.trims)):
        return row, operation
    key = 2 * row
    if late:
        known = log.kind, log.size, log.addr, rows.free, rows.until, rows.emptied
        effect = effects(*known, _in_advance(rows).tolist())[blocks]
        key = 2 * event_rows[effect] + (effect > blocks)
    key = np.concatenate((key, 2 * rows.failed, 2 * given_back.trims))
    kinds = np.array([Operation.REQUEST, Operation.TRIM], np.int8)
    others = np.repeat(kinds, (len(rows.failed), len(given_back.trims)))
    order = key.argsort(kind="stable")
    return np.concatenate((row, rows.failed, given_back.trims))[order], np.concatenate((operation, others))[order]


class _GivenBack(NamedTuple):
    """The RELEASEs of a log, one entry each.

    Attributes:
        event: Their events, int64.
        during: The rows of the operations during which they happened, int64.
        trims: Rows of RELEASEs that begin a run for which nothing else was asked: the program itself gave idle chunks back.
        after_frees: Chunks are given back as soon as they are idle.
        in_requests: How many happened while a request was served.
    """

    event: Ints
    during: Ints
    trims: Ints
    after_frees: bool
    in_requests: int


def _given_back(log: EventLog, rows: LogRows, event_rows: Ints) -> _GivenBack:
    event = np.flatnonzero(log.kind == Kind.RELEASE)
    if not len(event):
        return _GivenBack(event, event, event, after_frees=False, in_requests=0)
    row = event_rows[event]
    stands = rows.kind <= Kind.FREE  # requests, ALLOCs and FREEs
    role = np.where(stands, SET, 0).astype(np.int8)
    role[row] = USE
    context = last_by_key(rows.thread, role)[row]
    during = context.copy()
    in_request = (context >= 0) & ~rows.is_event[context]
    waiting = in_request & ~np.isin(context, rows.failed)
    during[waiting] = rows.next_operation(row[waiting])
    freed = (context >= 0) & (rows.kind[context] == Kind.FREE)
    # A FREE makes one chunk idle at most: where more are given back after one, those made in advance aside, the program asked for it.
    advance = len(_in_advance(rows))
    after_frees = bool(freed.any()) and int((np.unique(context[freed], return_counts=True)[1] - 1).sum()) <= advance
    by_program = ~in_request & ~freed if after_frees else ~in_request
    first = by_program & np.append(True, (context[1:] != context[:-1]) | ~by_program[:-1])
    begins = row[first]
    during[by_program] = begins[np.cumsum(first)[by_program] - 1]
    return _GivenBack(event, during, begins, after_frees=after_frees, in_requests=int(np.count_nonzero(in_request)))


def _changes(log: EventLog, rows: LogRows, event_rows: Ints, number: Ints, given_back: _GivenBack) -> ChunkChanges:
    """Changes of chunks, those made in advance first: where these lie is learnt from the first block cut from each."""
    taken = np.flatnonzero(log.kind == Kind.RESERVE)
    event = np.concatenate((taken, given_back.event))
    during = np.concatenate((rows.next_operation(event_rows[taken]), given_back.during))
    at = np.where(during >= 0, number[during], len(number))
    kinds = np.array([ChunkChange.TAKEN, ChunkChange.GIVEN_BACK], np.int8)
    kind = np.repeat(kinds, (len(taken), len(given_back.event)))
    order = np.lexsort((event, at))
    order = order[at[order] < len(number)]
    event, at, kind = event[order], at[order], kind[order]
    advance = _in_advance(rows)
    places = _places_of(advance.tolist(), log, rows)
    return ChunkChanges(
        np.append(np.full(len(advance), -1), at),
        np.append(np.full(len(advance), ChunkChange.TAKEN, np.int8), kind),
        np.append(places, log.addr[event]),
        np.append(advance, log.size[event]),
    )


def _places_of(sizes: list[int], log: EventLog, rows: LogRows) -> NDArray[np.uint64]:
    """Where chunks lie that were made in advance, uint64, 0 where nothing tells; the first block of a chunk is cut from all of it."""
    found = np.zeros(len(sizes), np.uint64)
    chunks = log.kind == Kind.RESERVE
    begins, bytes_ = log.addr[chunks], log.size[chunks].astype(np.uint64)
    for number, size in enumerate(sizes):
        for event in np.flatnonzero(rows.free == size)[:_LOOKED_AT].tolist():
            start = log.addr[event] + np.uint64(int(log.size[event])) - np.uint64(size)
            if start not in found and not ((begins <= start) & (start < begins + bytes_)).any():
                found[number] = start
                break
    return found


def _settings(log: EventLog, rows: LogRows, given_back: _GivenBack) -> dict[str, str]:
    """Return the allocator's settings as far as the lines tell."""
    lines = rows.lines
    found = {ALIGNMENT: str(_alignment(log, lines))}
    for what, name in ((RequestLine.CHUNK_SIZE, CHUNK_BYTES), (RequestLine.PADDED, PADDING)):
        if (at := np.flatnonzero(lines.what == what)).size:
            found[name] = str(int(lines.first[at[-1]]))
    for of in np.flatnonzero(lines.what == RequestLine.PREALLOC)[:_MOST_IN_ADVANCE].tolist():
        found[LARGE_PREALLOC if lines.first[of] else SMALL_PREALLOC] = str(int(lines.second[of]))
    if given_back.after_frees:
        found[IDLE] = "1"
    if given_back.in_requests:
        found[GIVEN_BACK_FOR_REQUESTS] = str(given_back.in_requests)
    if (lines.what == RequestLine.CUSTOM_DEVICE).any():
        found[CUSTOM_DEVICE] = "1"
    return found


def _alignment(log: EventLog, lines: RequestLines) -> int:
    """Return the power of two that sizes of blocks are multiples of, those of a refused request too."""
    sizes = log.size[log.kind == Kind.ALLOC], lines.second[lines.what == RequestLine.REQUEST]
    bits = int(np.bitwise_or.reduce(np.concatenate(sizes)))
    return bits & -bits


def _limit(log: EventLog, rows: LogRows, given_back: _GivenBack) -> int | None:
    """Return the bytes of the device, where it refused a request: all that was ever reserved, or what it said was left then."""
    if not len(rows.failed) and not given_back.in_requests:
        return None
    reserved = np.cumsum(np.where(log.kind == Kind.RESERVE, log.size, np.where(log.kind == Kind.RELEASE, -log.size, 0)))
    advance = int(_in_advance(rows).sum())
    return int(reserved.max()) + advance


def writers(log: EventLog) -> tuple[tuple[int, ...], ...]:
    """The threads of each process that wrote a log, rising; empty where it is one process, or they cannot be told apart.

    They are those of the trust report.  Where that has no figures to tell by: each process makes its allocator and says so, and where several
    threads do, and each frees what it allocated itself, they are processes of one thread.

    Args:
        log: A log that was read with the columns ``thread`` and ``requests``.
    """
    lines, thread = log.facts.requests, log.thread
    if lines is None or thread is None or len(log.facts.threads) < 2:
        return ()
    if found := trust_of(log).processes:
        return found
    makers = np.unique(lines.thread[lines.what == RequestLine.CHUNK_SIZE])
    if len(makers) < 2 or not np.isin(thread, makers).all():
        return ()
    for maker in makers.tolist():
        chosen = thread == maker
        kind = log.kind[chosen]
        partner, _ = columns.pair(kind, log.addr[chosen])
        if ((kind == Kind.FREE) & (partner < 0)).any():
            return ()
    return tuple((maker,) for maker in makers.tolist())


def processes(log: EventLog) -> tuple[EventLog, ...]:
    """The log of each process that wrote a log, as :func:`writers` tells them apart; none where it is one process."""
    return tuple(_of_threads(log, threads) for threads in writers(log))


def _of_threads(log: EventLog, threads: tuple[int, ...]) -> EventLog:
    assert log.thread is not None
    lines = log.facts.requests
    assert lines is not None
    chosen, mine = np.isin(log.thread, threads), np.isin(lines.thread, threads)
    after = np.append(0, np.cumsum(chosen))[lines.after[mine]]
    requests = structs.replace(lines, **{name: column[mine] for name, column in structs.asdict(lines).items()})
    names = ("kind", "size", "addr", "offset", "time_us", "thread", "requested", "owner", "stream", "pool", "line")
    parts: dict[str, NDArray[np.generic]] = {
        name: column[chosen] for name in names if (column := getattr(log, name)) is not None
    }
    facts = structs.replace(log.facts, threads=threads, requests=structs.replace(requests, after=after))
    return log.without_cache(**parts, facts=facts)
