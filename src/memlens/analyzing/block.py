"""The whole life of one block: where it is allocated and freed, whose it is, how long it lives, and what lies beside it."""

from __future__ import annotations

from bisect import bisect_left
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from msgspec import structs

from memlens.analyzers.chunks import chunks_of, ends_of, gaps_between, inside, occupied_before
from memlens.analyzers.fates import live_events
from memlens.analyzers.groups import held_by
from memlens.analyzers.lifetimes import Life, lives_of
from memlens.analyzers.places import ContextLine, context_lines, time_of
from memlens.claims.claim import Claim, Weight, claim
from memlens.claims.roles import variable_of
from memlens.errors import UsageError
from memlens.facts import Kind
from memlens.folding import profile
from memlens.inputs import Reading
from memlens.options.keywords import with_keywords
from memlens.options.verbs import Block
from memlens.results import Answered, Result, claimed
from memlens.text import format_bytes, terms_of
from memlens.windows.windows import whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from memlens.events import EventLog
    from memlens.log import Input


SCHEMA = "memlens.block/1"
#: Earlier blocks at one address that are listed.
_LISTED = 10


class Neighbour(Result, frozen=True):
    """The neighbour right below or right above a block in its chunk, right after its ALLOC.

    Attributes:
        side: ``below`` or ``above``.
        what: ``block``, ``gap``, or ``edge`` of the chunk.
        size_bytes: Of the block or the gap; 0 of an edge.
        alloc_line: The ALLOC of the block, 1-based.
        owner: The block's.
    """

    side: str
    what: str
    size_bytes: int
    alloc_line: int | None = None
    owner: str | None = None


class BlockLife(Answered, frozen=True):
    """The life of one block.

    Attributes:
        path: The input as it was named.
        layer: The layer or the format that its events come from.
        has_lines: The input consists of lines, and not of entries.
        address: Where it begins.
        life: Its size, its ALLOC and FREE, and how long it lives.
        before_input: It was live before the first event; its ALLOC has no line.
        requested_bytes: What was asked for; ``None`` where the input does not say.
        owner: Whom it belongs to, a whole call stack where the input has them; ``None`` where that is not known.
        holder: Who was last seen to hold it: ``variable feats[3] (main, train.py)``.
        freed_by: The owner of its FREE.
        alloc_thread: Who allocated it; ``None`` where the input does not say, and so are the next four.
        free_thread: Who freed it.
        stream: Its stream.
        pool: Its memory pool.
        alloc_time_us: When it was allocated.
        free_time_us: When it was freed.
        allocated_bytes: The level right after its ALLOC, or as the input begins.
        at_peak: It is live at the peak of the log.
        chunk_bytes: The chunk that holds it; ``None`` where chunks have no addresses, or none holds it.
        chunk_offset: Where in the chunk it begins, in bytes.
        neighbours: What lies beside it, where that is known.
        alike: Blocks of its size and owner in the log, it among them.
        alloc_context: Log lines around its ALLOC; none where the input has no lines of text.
        free_context: Log lines around its FREE.
        earlier_lines: Where the block is the last one that holds an address: the lines of the ALLOCs of the ten before it that did.
    """

    schema: ClassVar[str] = SCHEMA
    in_json: ClassVar[tuple[str, ...]] = (
        "schema", "verdict", "claims", "path", "layer", "has_lines", "address", "life", "before_input", "requested_bytes",
        "owner", "holder", "freed_by", "alloc_thread", "free_thread", "stream", "pool", "alloc_time_us", "free_time_us",
        "allocated_bytes", "at_peak", "chunk_bytes", "chunk_offset", "neighbours", "alike", "earlier_lines", "alloc_context", "free_context",
    )  # fmt: skip
    spliced: ClassVar[frozenset[str]] = frozenset({"life"})

    path: str
    layer: str
    has_lines: bool
    address: int
    life: Life
    before_input: bool
    requested_bytes: int | None
    owner: str | None
    holder: str | None
    freed_by: str | None
    alloc_thread: int | None
    free_thread: int | None
    stream: int | None
    pool: str | None
    alloc_time_us: int | None
    free_time_us: int | None
    allocated_bytes: int
    at_peak: bool
    chunk_bytes: int | None
    chunk_offset: int | None
    neighbours: tuple[Neighbour, ...]
    alike: int
    alloc_context: tuple[ContextLine, ...]
    free_context: tuple[ContextLine, ...]
    earlier_lines: tuple[int | None, ...] = ()

    def rows(self) -> list[dict[str, Any]]:
        """One flat row: every single figure."""
        return [{name: value for name, value in self.to_dict().items() if not isinstance(value, list)}]


def _claims_of(block: BlockLife, *, cut_short: bool) -> Iterator[Claim]:
    """Where it is allocated and freed, and how long it lives, where that is known; what comes after a log that is cut short is not known."""
    life, freed = block.life, block.life.free_event is not None
    yield claim(
        *("block", Weight.PEAK, block, life),
        alloc_line=life.alloc_line or None,
        owner=None if block.before_input else block.owner,
        holder=variable_of(block.holder),
        freed=freed,
        # Of a FREE, a context line says what ran before it, and a stack who asked for it.
        entries=not block.has_lines or None,
    )
    if not block.before_input:
        yield claim("lifetime", Weight.LEFT, life, freed=freed)
        yield claim("allocated_meanwhile", Weight.LEFT, life)
    yield claim("live_at_peak", Weight.LEFT, block)
    if cut_short and not freed:
        yield claim("log_cut_short", Weight.LIMITS)


def block_with(log: Input, line: int | str, options: Block) -> BlockLife:
    """Tell the life of the block that a line allocates or frees, or of the last one that holds an address.

    Args:
        log: A path, a URL, a binary file, or a log already read.
        line: The number of the line, from 1; of an input without lines that of the entry.  Or an address as text, ``0x7f6c…``.
        options: See :class:`memlens.options.verbs.Block`.

    Raises:
        UsageError: There is no ALLOC or FREE on that line; the message names the nearest ones.  Or no block ever held that address.
        MemlensError: The log cannot be read.
    """
    found = Reading(owners=options.owner_patterns, how=options, times=True, threads=True).read(log)
    if isinstance(line, str):
        holding = _holding(found, line)
        event, others = int(holding[-1]), tuple(found.line_numbers(holding[:-1][-_LISTED:].tolist()))
    else:
        event, others = _event_on(found, line), ()
    partner = int(found.lifetimes.partner[event])
    if found.kind[event] == Kind.FREE:
        if partner < 0:
            raise UsageError(
                f"{found.source.name}: line {line:,} frees a block that the log never allocates",
                "Its life began before the log did.",
            )
        event, partner = partner, event
    life = _life(found, event, partner if partner >= 0 else None, options.context)
    return structs.replace(life, earlier_lines=others) if others else life


block = with_keywords("block", block_with, Block)


def _holding(log: EventLog, address: str) -> NDArray[np.int64]:
    """The ALLOCs of the blocks that hold an address, first to last.

    Raises:
        UsageError: There is none, or the text is no address.
    """
    try:
        at = int(address, 16)
    except ValueError:
        at = -1
    if not 0 <= at < 1 << 64:
        raise UsageError(
            f"{address!r} is no address", "Give one as the log has it, like 0x7f6cc2000000, or the number of a line."
        )
    if not log.facts.addresses:
        raise UsageError(f"{log.source.name}: its blocks have no addresses", "Give the number of a line.")
    # An address below a block's own wraps round to a large distance.
    distance = np.uint64(at) - log.addr
    holding = np.flatnonzero((log.kind == Kind.ALLOC) & (distance < log.size.astype(np.uint64)))
    if not len(holding):
        raise UsageError(
            f"{log.source.name}: no block holds the address {address}", "memlens analyze --full lists lines of blocks."
        )
    return holding


def _event_on(log: EventLog, line: int) -> int:
    """The first ALLOC or FREE on a line.

    Raises:
        UsageError: There is none.
    """
    blocks = np.flatnonzero(log.kind <= Kind.FREE)
    blocks = blocks[blocks >= log.facts.opening]
    low, high = 0, len(blocks)  # the first block event whose line is not less lies between
    while low < high:
        # One look-up of many lines costs about as much as one of a single line.
        probes = np.unique(np.linspace(low, high - 1, 256).astype(np.int64))
        after = bisect_left(log.line_numbers(blocks[probes].tolist()), line, key=_number)
        high = int(probes[after]) if after < len(probes) else high
        low = int(probes[after - 1]) + 1 if after else low
    if low < len(blocks) and log.line_numbers([int(blocks[low])]) == [line]:
        return int(blocks[low])
    near = blocks[max(low - 1, 0) : low + 1].tolist()
    unit = terms_of(log.facts.has_lines)
    listed = ", ".join(
        f"{unit.at(_number(number))} ({Kind(log.kind[event]).name} of {format_bytes(int(log.size[event]))})"
        for event, number in zip(near, log.line_numbers(near), strict=True)
    )
    raise UsageError(
        f"{log.source.name}: {unit.at(line)} neither allocates nor frees a block",
        f"The nearest that do: {listed}." if listed else "The log has no such line.",
    )


def _number(line: int | None) -> int:
    """A line to compare with others; 0 where it is not known."""
    return line or 0


def _life(log: EventLog, alloc: int, free: int | None, context: int) -> BlockLife:
    levels = profile([whole(log)])
    summit = int(levels.summit[0]) if levels.rise[0, 0] > 0 else log.facts.opening - 1
    ends = [alloc] if free is None else [alloc, free]
    around = dict(zip(ends, context_lines(log, ends, context), strict=True))
    begins = max(alloc + 1, log.facts.opening)
    chunk, neighbours = _beside(log, alloc, begins)
    same = (log.kind == Kind.ALLOC) & (log.size == log.size[alloc])
    if log.owner is not None:
        same &= log.owner == log.owner[alloc]
    found = BlockLife(
        path=log.source.name,
        layer=log.facts.layer,
        has_lines=log.facts.has_lines,
        address=int(log.addr[alloc]),
        life=lives_of(log, np.array([alloc], np.int64))[0],
        before_input=alloc < log.facts.opening,
        requested_bytes=_known(log.requested, alloc),
        owner=log.owner_of(alloc),
        holder=held_by(log, alloc),
        freed_by=log.owner_of(free),
        alloc_thread=_known(log.thread, alloc),
        free_thread=_known(log.thread, free),
        stream=_known(log.stream, alloc),
        pool=None if (number := _known(log.pool, alloc)) is None else log.pool_names[number],
        alloc_time_us=time_of(log, alloc),
        free_time_us=time_of(log, free),
        allocated_bytes=log.level_before(begins)[0],
        at_peak=alloc <= summit and (free is None or free > summit),
        chunk_bytes=None if chunk is None else chunk[1],
        chunk_offset=None if chunk is None else int(log.addr[alloc]) - chunk[0],
        neighbours=neighbours,
        alike=int(np.count_nonzero(same)),
        alloc_context=around[alloc],
        free_context=() if free is None else around[free],
    )
    return claimed(found, partial(_claims_of, cut_short=bool(log.facts.cut_short)))


def _known(column: Any, event: int | None) -> int | None:
    """The value of a column at an event; ``None`` where there is none, or it is unknown."""
    return None if column is None or event is None or column[event] < 0 else int(column[event])


def _beside(log: EventLog, alloc: int, begins: int) -> tuple[tuple[int, int] | None, tuple[Neighbour, ...]]:
    """The address and the bytes of the chunk that holds a block right before an event, and what lies beside it there."""
    chunks = chunks_of(log)
    if chunks is None:
        return None, ()
    there = np.flatnonzero((chunks.born < begins) & (chunks.dead >= begins))
    there = there[np.argsort(chunks.addr[there], kind="stable")]
    number = int(inside(log.addr[alloc : alloc + 1], chunks.addr[there], chunks.size[there])[0])
    if number < 0:
        return None, ()
    start, size = int(chunks.addr[there[number]]), int(chunks.size[there[number]])
    live = live_events(log, begins)
    live = live[np.argsort(log.addr[live], kind="stable")]
    live = live[log.addr[live] - np.uint64(start) < np.uint64(size)]  # what is below wraps round to the largest
    at = int(np.flatnonzero(live == alloc)[0])
    below = int(live[at - 1]) if at else None
    above = int(live[at + 1]) if at + 1 < len(live) else None
    own = chunks.addr[there[number : number + 1]], chunks.size[there[number : number + 1]]
    gap_addr, gap_size = gaps_between(own, occupied_before(log, begins, live))
    low = start if below is None else int(log.addr[below])
    high = int(ends_of(*own)[0]) if above is None else int(log.addr[above])
    sides = pairwise((low, int(log.addr[alloc]), high))
    free = [int(gap_size[(gap_addr >= begin) & (gap_addr < end)].sum()) for begin, end in sides]
    return (start, size), (_neighbour(log, "below", below, free[0]), _neighbour(log, "above", above, free[1]))


def _neighbour(log: EventLog, side: str, block: int | None, distance: int) -> Neighbour:
    """Return the neighbour on one side: a gap of some bytes, or a block, or the edge of the chunk."""
    if distance > 0:
        return Neighbour(side, "gap", distance)
    if block is None:
        return Neighbour(side, "edge", 0)
    line = log.line_numbers([block])[0] if block >= log.facts.opening else None
    return Neighbour(side, "block", int(log.size[block]), line, log.owner_of(block))
