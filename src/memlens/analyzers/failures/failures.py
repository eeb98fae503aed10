"""Each out-of-memory failure of a log, with what stood around it."""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from memlens.analyzers.failures.causes import UNKNOWN, Cause, Judged, Room, cause_of
from memlens.analyzers.fates import live_events
from memlens.analyzers.groups import owner_labels, owners_of
from memlens.analyzers.peak import LiveGroup, live_before
from memlens.analyzers.places import Lines
from memlens.analyzers.segments import layout_before
from memlens.facts import Kind
from memlens.folding.levels import levels_before
from memlens.results import OnDemand, Result, Tables, deferred, lazy
from memlens.text import terms_of
from memlens.trust.report import allocs_before, failures_of, trust_of
from memlens.windows.windows import NEVER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from memlens.events import EventLog
    from memlens.facts import OutOfMemory
    from memlens.windows.windows import Window


#: A run ended in a failure where at most one in so many of its ALLOCs comes after the message: what the process still allocates while it
#: goes down.  A run that caught the failure and went on allocates far more.
STILL_GOING = 100
#: Doubts under which the figures up to a failure that are known hold all the same: the input ends too early, or does not tell of all.
_HARMLESS = frozenset({"cut_short", "half_line", "no_chunk_lines", "no_tensor_events", "no_lifetimes"})


class LiveBlock(Result, frozen=True):
    """One block: its bytes, the event and the line that allocate it (``None`` for one from before the input), and its owner."""

    size_bytes: int
    event: int | None
    line: int | None
    owner: str | None


@lazy("live", "youngest", "oldest")
class MemoryFailure(Result, frozen=True, eq=False):
    """One out-of-memory failure.

    Attributes:
        line: The line of its first message, 1-based.
        event: The last event before it, 0-based in the log; ``None`` where there is none.
        device: The device as written, or ``""``.
        requested_bytes: What was asked for: by a message, or else by the request before it that never got its block; ``None`` where
            neither is there.
        owner: The operator or the call stack that asked, ``None`` where unknown; text from the log.
        allocated_bytes: What blocks held then; ``None`` where the log reports no block.
        reserved_bytes: What chunks held then; ``None`` where it reports no chunk.
        free_bytes: What of that held no block; ``None`` where it cannot be told.
        gaps: Stretches of chunks between blocks; ``None`` where addresses are not known.
        largest_gap_bytes: The longest of them, 0 where there is none.
        idle_chunks: Chunks that held no block at all, which the allocator could have given back.
        idle_bytes: Their bytes.
        device_free_bytes: What the device had left, by the message.
        device_total_bytes: What the device has, by the message.
        limit_bytes: What the run may use of the device, by the message; what it has and had left is then of that.
        elsewhere_bytes: What of the device was neither left nor reserved by this run; ``None`` where unknown, as with a limit.
        cause: ``too much``, ``fragmented``, ``another process`` or ``unknown``, by the rules of
            :mod:`memlens.analyzers.failures.causes`.
        explanation: The figures that the cause follows from, or why it is unknown, in words.
        missing_bytes: What had to be free beside what was; ``None`` where unknown.
        must_go_blocks: The fewest live blocks that hold so much, for ``too much``; ``None`` where all of them do not.
        must_go_bytes: What these hold.
        allocs_after: ALLOCs that follow in the log.
        ended: The run ended in it: hardly any ALLOC follows.
        live: The blocks live then by size and owner, the largest total first.
        youngest: The block allocated last among these.
        oldest: The one allocated first.
    """

    tables: ClassVar[Tables] = {"live": LiveGroup}

    line: int
    event: int | None
    device: str
    requested_bytes: int | None
    owner: str | None
    allocated_bytes: int | None
    reserved_bytes: int | None
    free_bytes: int | None
    gaps: int | None
    largest_gap_bytes: int | None
    idle_chunks: int | None
    idle_bytes: int | None
    device_free_bytes: int | None
    device_total_bytes: int | None
    limit_bytes: int | None
    elsewhere_bytes: int | None
    cause: Cause
    explanation: str
    missing_bytes: int | None
    must_go_blocks: int | None
    must_go_bytes: int | None
    allocs_after: int
    ended: bool
    live: tuple[LiveGroup, ...] = ()
    youngest: LiveBlock | None = None
    oldest: LiveBlock | None = None


def run_ended_in(log: EventLog, messages: Sequence[OutOfMemory]) -> list[bool]:
    """Of each message whether hardly anything is allocated after it: the run ended in what it reports."""
    return [after * STILL_GOING <= count for after, count in _allocs_after(log, messages)]


def _allocs_after(log: EventLog, messages: Sequence[OutOfMemory]) -> list[tuple[int, int]]:
    """Of each message the ALLOCs after it, and those of the whole log."""
    if not messages:
        return []
    *before, count = allocs_before(log, [*(oom.offset for oom in messages), NEVER])
    return [(count - some, count) for some in before]


def failures(log: EventLog, windows: Sequence[Window] | None = None) -> Sequence[MemoryFailure]:
    """The out-of-memory failures that the messages of a log report, in its order; each is worked out when it is asked for.

    Args:
        log: The log.
        windows: Windows of it that follow each other: only the failures on their lines count; ``None`` for all.
    """
    found = failures_of(log)
    if windows is not None:
        found = tuple(oom for oom, inside in zip(found, _inside(found, windows), strict=True) if inside)
    if not found:
        return ()
    stops = np.searchsorted(log.offset, [oom.offset for oom in found])
    after = _allocs_after(log, found)
    levels = cache(lambda: levels_before(log, stops))
    return OnDemand(len(found), lambda k: _failure(log, found[k], int(stops[k]), levels()[k], *after[k]))


def failures_outside(log: EventLog, windows: Sequence[Window]) -> Iterator[str]:
    """Return remarks on failures before windows that follow each other, and of those behind them: where the first one is."""
    found = failures_of(log)
    outside = [oom for oom, inside in zip(found, _inside(found, windows), strict=True) if not inside]
    at = terms_of(log.facts.has_lines).at
    earlier = [oom.line for oom in outside if oom.offset < windows[0].start_offset]
    later = [oom.line for oom in outside if oom.offset >= windows[-1].end_offset]
    for lines, when in ((earlier, "earlier"), (later, "later")):
        if lines:
            yield f"The log runs out of memory {when}, at {at(lines[0])}."


def _inside(found: Sequence[OutOfMemory], windows: Sequence[Window]) -> list[bool]:
    """Of each message whether it stands in one of some windows that follow each other."""
    if not found:
        return []
    begins = [window.start_offset for window in windows]
    last = [bisect_right(begins, oom.offset) - 1 for oom in found]
    return [k >= 0 and oom.offset < windows[k].end_offset for oom, k in zip(found, last, strict=True)]


def _failure(
    log: EventLog, oom: OutOfMemory, stop: int, levels: Sequence[int], allocs_after: int, allocs: int
) -> MemoryFailure:
    allocated = levels[0] if log.tells_of_blocks else None
    reserved = levels[1] if bool((log.kind == Kind.RESERVE).any()) else None
    free = gaps = largest = idle = None
    if allocated is not None and reserved is not None:
        free = reserved - allocated if reserved >= allocated else None
        if (layout := layout_before(log, stop)) is not None:
            _, gaps, in_gaps, largest, outside = layout.figures()
            free = None if outside else in_gaps
            idle = None if log.facts.chunks_join else layout.idle()
    room = Room(
        oom.asked_bytes, allocated, reserved, free, gaps, largest, oom.free_bytes, oom.total_bytes, oom.limit_bytes
    )
    judged = _judged(log, room)
    live = live_events(log, stop)
    must_go = _fewest(log.size[live], judged.missing) if judged.cause == "too much" else (None, None)
    ends = None if not len(live) else (int(live[0]), int(live[-1]))
    blocks = cache(lambda: _blocks(log, *ends) if ends else (None, None))
    return MemoryFailure(
        oom.line,
        log.number(stop - 1) if stop > log.facts.opening else None,
        oom.device,
        oom.asked_bytes,
        oom.owner or None,
        allocated,
        reserved,
        free,
        gaps,
        largest,
        None if idle is None else len(idle),
        None if idle is None else int(idle.sum()),
        oom.free_bytes,
        oom.total_bytes,
        oom.limit_bytes,
        room.elsewhere,
        *judged,
        *must_go,
        allocs_after,
        allocs_after * STILL_GOING <= allocs,
        deferred(live_before, log, stop),
        deferred(lambda: blocks()[1]),
        deferred(lambda: blocks()[0]),
    )


def _judged(log: EventLog, room: Room) -> Judged:
    doubts = [doubt.code.replace("_", " ") for doubt in trust_of(log).doubts if doubt.code not in _HARMLESS]
    if doubts:
        return Judged(UNKNOWN, f"the figures of the log are in doubt ({', '.join(doubts)})")
    return cause_of(room, terms_of(log.facts.has_lines).chunk)


def _fewest(sizes: NDArray[np.int64], missing: int | None) -> tuple[int | None, int | None]:
    """How many of some blocks, the largest first, hold so many bytes, and what these hold; ``None`` where all do not."""
    held = np.cumsum(np.sort(sizes)[::-1])
    count = 0 if missing is None else int(held.searchsorted(missing)) + 1
    return (count, int(held[count - 1])) if 0 < count <= len(held) else (None, None)


def _blocks(log: EventLog, *events: int) -> list[LiveBlock]:
    """Some blocks by their ALLOCs."""
    known = [event if event >= log.facts.opening else None for event in events]
    lines, names = Lines(log, known), owner_labels(log)
    owners = owners_of(log, np.array(events, np.int64)).tolist()
    return [
        LiveBlock(int(log.size[event]), log.number(given), lines.of(given), names[owner])
        for event, given, owner in zip(events, known, owners, strict=True)
    ]
