"""Each out-of-memory failure of a log, with what stood around it, and why the request found no memory.

The causes are rules on what was free, each with its arithmetic.

With *Q* what was asked for, *F* what lies free inside chunks, *G* the largest gap there, *D* what the device had left, *T* what it has in
all, *R* what the run had reserved, and *E = T - D - R* what neither is free nor was reserved by the run, these are tried in order:

1. *another process*: E is at least an eighth of T, and Q <= D + E: it would have fitted but for what others hold.  Less than that is what a
   process needs itself beside its chunks: its context, libraries, buffers of communication.
2. unknown: Q <= D, the device had enough left.  A limit of the process, or how the allocator rounds, is not in the log.
3. *too much*: Q > F + D: even in one piece all that was free does not suffice.  Where the log does not say D, all that is known of it is that
   the device refused, D < Q: then F = 0.  Where nothing is known of chunks, the blocks themselves are held against T: allocated + Q > T.
4. *fragmented*: G < Q (and D < Q) <= F + D: there was enough, but no piece of it is large enough.  Without D: G < Q <= F.
5. unknown in all other cases.

With a limit set for the process D and T are of that limit, all that counts against it is the run's own, and E is not known.

Where the log's own figures are in doubt nothing is claimed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
from msgspec import Struct

from memlens.analyzers.fates import live_events
from memlens.analyzers.groups import owner_labels, owners_of
from memlens.analyzers.peak import LiveGroup, live_before
from memlens.analyzers.places import lines_of
from memlens.analyzers.segments import layout_before
from memlens.claims.claim import Claim, Weight, claim
from memlens.facts import Kind, OutOfMemory
from memlens.folding import levels_before
from memlens.results import OnDemand, Result, Tables, deferred, lazy
from memlens.spool import walk
from memlens.text import format_bytes, plural, terms_of
from memlens.trust import trust_of
from memlens.trust.case import RESERVED_DOUBTS
from memlens.trust.failures import STILL_GOING, Failures, allocs_before, failures_of, refused_before
from memlens.windows.windows import NEVER, Window, edges_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.columns import Flags, Ints
    from memlens.events import EventLog


Cause: TypeAlias = Literal["too much", "fragmented", "another process", "unknown"]

UNKNOWN: Cause = "unknown"
#: What others hold counts from this part of the device on.
_PART = 8


class Room(Struct, frozen=True):
    """The room that there was at a failure, in bytes; ``None`` where unknown.

    Attributes:
        asked: Q, what was asked for.
        allocated: What blocks held.
        reserved: R, what the run had reserved.
        free: F, what lay free inside chunks.
        gaps: In how many gaps.
        largest: G, the largest of them.
        left: D, what the device had left.
        total: T, what the device has.
        limit: What the run may use of the device; D and T are then of that, and all of it is the run's own.
    """

    asked: int | None
    allocated: int | None
    reserved: int | None
    free: int | None
    gaps: int | None
    largest: int | None
    left: int | None
    total: int | None
    limit: int | None = None

    @property
    def elsewhere(self) -> int | None:
        """E, what neither was free nor reserved by the run; at least 0."""
        if self.total is None or self.left is None or self.reserved is None or self.limit is not None:
            return None
        return max(self.total - self.left - self.reserved, 0)


def holds_much(elsewhere: int, total: int) -> bool:
    """Whether what is held elsewhere is more than what a process needs beside its chunks."""
    return elsewhere > 0 and elsewhere * _PART >= total


class Judged(NamedTuple):
    """The cause of a failure.

    Attributes:
        cause: Its name.
        explanation: The figures that it follows from, or why nothing can be told, in words.
        missing: Bytes that had to be free beside what was, ``None`` where that cannot be told: of *too much* in all, of *fragmented* and
            *another process* in one piece.
    """

    cause: Cause
    explanation: str
    missing: int | None = None


def cause_of(room: Room, chunk: str = "chunk") -> Judged:
    """Tell the cause by the first rule that holds.

    Args:
        room: What there was.
        chunk: What the input calls a chunk.
    """
    asked, left = room.asked, room.left
    if asked is None:
        return Judged(UNKNOWN, "the log does not say how much was asked for")
    elsewhere, total, free = room.elsewhere, room.total, room.free
    others_hold_much = elsewhere is not None and total is not None and holds_much(elsewhere, total)
    if others_hold_much and elsewhere and total and left is not None and left < asked <= left + elsewhere:
        part = f"{format_bytes(elsewhere)} of the device's {format_bytes(total)}"
        words = f"{part} was neither free nor reserved by this run"
        return Judged("another process", words, asked - max(left, room.largest or 0))
    if left is not None and asked <= left:
        words = f"the device had {format_bytes(left)} left, enough for it: a limit of the process, or how the allocator rounds"
        return Judged(UNKNOWN, words)
    if free is None:
        if total is not None and room.allocated is not None and room.allocated + asked > total:
            words = f"with what was allocated it is more than the {format_bytes(total)} that the device has"
            return Judged("too much", words, room.allocated + asked - total)
        return Judged(UNKNOWN, "the log does not say how much was free")
    if left is None and free == 0:
        return Judged("too much", f"nothing was free inside {chunk}s, and the device refused")
    if left is None and free < asked:
        words = f"{format_bytes(free)} was free inside {chunk}s; what the device had left is not in the log"
        return Judged(UNKNOWN, words)
    if asked > (in_all := free + (left or 0)):
        words = f"{format_bytes(in_all)} was free in all"
        if left:
            words += f", {format_bytes(free)} inside {chunk}s and {format_bytes(left)} {'on the device' if room.limit is None else 'below the limit'}"
        if total is not None and asked > total:
            words += f"; {'the device has' if room.limit is None else 'the limit is'} {format_bytes(total)}, so it can never fit"
        elif room.limit is not None:
            words += f"; the run is limited to {format_bytes(room.limit)}"
        return Judged("too much", words, asked - in_all)
    if room.largest is None:
        return Judged(UNKNOWN, f"{format_bytes(free)} was free inside {chunk}s, but not in which pieces")
    if room.largest < asked:
        words = f"{format_bytes(free)} was free inside {chunk}s, in {plural(room.gaps or 0, 'gap')} of at most {format_bytes(room.largest)}"
        words += f", and {format_bytes(left)} on the device" if left else ""
        return Judged("fragmented", words, asked - max(room.largest, left or 0))
    words = f"a gap of {format_bytes(room.largest)} was free, enough for it: in another pool or stream, or held back by the allocator"
    return Judged(UNKNOWN, words)


#: Failures that are looked at to tell whether they are of several devices.
_LOOKED_AT = 10
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
        reserved_bytes: What chunks held then; ``None`` where it reports no chunk, or lines of chunks are missing.
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
            :mod:`memlens.analyzers.failures`.
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
    live: Sequence[LiveGroup] = ()
    youngest: LiveBlock | None = None
    oldest: LiveBlock | None = None


def run_ended_in(log: EventLog, found: Failures) -> Flags:
    """Of each failure whether hardly anything is allocated after it: the run ended in it."""
    after, count = _allocs_after(log, found)
    ended: Flags = after * STILL_GOING <= count
    return ended


def _allocs_after(log: EventLog, found: Failures) -> tuple[Ints, int]:
    """Of each failure the ALLOCs after it, and those of the whole log."""
    before = allocs_before(log, np.append(found.offset, NEVER))
    return before[-1] - before[:-1], int(before[-1])


def failures(log: EventLog, windows: Sequence[Window] | None = None) -> Sequence[MemoryFailure]:
    """The out-of-memory failures that the messages of a log report, in its order; each is worked out when it is asked for.

    Args:
        log: The log.
        windows: Windows of it that follow each other: only the failures on their lines count; ``None`` for all.
    """
    found = failures_of(log)
    if windows is not None:
        found = found.chosen(_inside(found, windows))
    if not found:
        return ()
    stops = refused_before(log, found)
    after, allocs = _allocs_after(log, found)
    levels = cache(lambda: levels_before(log, stops))

    @cache
    def reserves() -> bool:
        if RESERVED_DOUBTS & trust_of(log).doubt_codes:
            return False
        return any((log.kind[lo:hi] == Kind.RESERVE).any() for lo, hi in walk(0, len(log)))

    def one(k: int) -> MemoryFailure:
        allocated, reserved = levels()[k].tolist()
        known = allocated if log.tells_of_blocks else None, reserved if reserves() else None
        return _failure(log, found[k], int(stops[k]), *known, int(after[k]), allocs)

    return OnDemand(len(found), one)


def failures_outside(log: EventLog, windows: Sequence[Window]) -> Iterator[str]:
    """Return remarks on failures before windows that follow each other, and of those behind them: where the first one is."""
    found = failures_of(log)
    at = terms_of(log.facts.has_lines).at
    earlier, later = found.offset < windows[0].start_offset, found.offset >= windows[-1].end_offset
    for outside, when in ((earlier, "earlier"), (later, "later")):
        if outside.any():
            yield f"The log runs out of memory {when}, at {at(found[int(outside.argmax())].line)}."


def most_telling(failures: Sequence[MemoryFailure]) -> int:
    """Which failure to tell of first: the first one of those that the run ended in, which come last; else the first."""
    at = bisect_left(range(len(failures)), True, key=lambda k: failures[k].ended)
    return at if at < len(failures) else 0


def device_among(failures: Sequence[MemoryFailure], failure: MemoryFailure) -> str:
    """The device of one of some failures, where these name several; else ``""``."""
    return failure.device if len({one.device for one in failures[:_LOOKED_AT]} - {""}) > 1 else ""


def failure_claim(failures: Sequence[MemoryFailure], *, has_lines: bool = True, run: str = "") -> Claim:
    """What ran out, where, and why: of the failure that the run ended in, or else of the first one.

    Args:
        failures: All failures of a log; at least one.
        has_lines: Its input consists of lines, and not of entries.
        run: The run, as the subject of the sentence; nothing where there is one.
    """
    at, count = most_telling(failures), len(failures)
    failure = failures[at]
    asked, total, left = failure.requested_bytes, failure.device_total_bytes, failure.device_free_bytes
    own = failure.allocated_bytes if failure.reserved_bytes is None else failure.reserved_bytes
    elsewhere = failure.elsewhere_bytes
    explains = failure.cause in ("fragmented", UNKNOWN) and failure.largest_gap_bytes is not None
    return claim(
        *("out_of_memory", Weight.FAILURE, failure),
        tone="bad",
        run=run or None,
        entries=not has_lines or None,
        device=device_among(failures, failure) or None,
        free_bytes=(failure.free_bytes or None) if explains else None,
        elsewhere_bytes=elsewhere if elsewhere and total is not None and holds_much(elsewhere, total) else None,
        never_fits=asked is not None and total is not None and asked > total,
        # Giving back all of its own would not have helped.
        alone=own is not None and left is not None and (asked or 0) > own + left,
        failures=count if count > 1 else None,
        place=None if count == 1 else "the first" if at == 0 else "the last" if at == count - 1 else "one",
    )


def _inside(found: Failures, windows: Sequence[Window]) -> Flags:
    """Of each failure whether it stands in one of some windows that follow each other."""
    last = edges_of(windows, "start_offset").searchsorted(found.offset, "right") - 1
    inside: Flags = (last >= 0) & (found.offset < edges_of(windows, "end_offset")[last])
    return inside


def _failure(
    log: EventLog,
    oom: OutOfMemory,
    stop: int,
    allocated: int | None,
    reserved: int | None,
    allocs_after: int,
    allocs: int,
) -> MemoryFailure:
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
        stop - 1 if stop > log.facts.opening else None,
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
    line_of, names = lines_of(log, known), owner_labels(log)
    owners = owners_of(log, np.array(events, np.int64)).tolist()
    return [
        LiveBlock(int(log.size[event]), given, line_of(given), names[owner])
        for event, given, owner in zip(events, known, owners, strict=True)
    ]
