"""Why a request found no memory: rules on what was free, each with its arithmetic.

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

from typing import Literal, NamedTuple, TypeAlias

from memlens.units import format_bytes, plural

Cause: TypeAlias = Literal["too much", "fragmented", "another process", "unknown"]

UNKNOWN: Cause = "unknown"
#: What others hold counts from this part of the device on.
_PART = 8


class Room(NamedTuple):
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
