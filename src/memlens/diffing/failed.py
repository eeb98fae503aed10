"""Which of two runs ran out of memory, and where the other one was at that moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from memlens.analyzers.failures import MemoryFailure, failures, most_telling
from memlens.analyzers.places import lines_of
from memlens.analyzers.segments import layout_before
from memlens.diffing.alignment.blocks import gather_windows, tell_threads_apart
from memlens.diffing.pairing import match
from memlens.facts import Kind
from memlens.results import Result
from memlens.trust.failures import failures_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlens.columns import Ints
    from memlens.events import EventLog
    from memlens.windows.windows import Window


_SIDES = ("base", "head")


class Meanwhile(Result, frozen=True):
    """A run at the moment when the other one failed.

    Attributes:
        window: The window that pairs with the one that the other run failed in; text from the log.
        event: The last event before that moment, 0-based in the log; ``None`` where there is none.
        line: Its line, 1-based.
        aligned: The moment is before the block after the one that pairs with the last paired one that the failed run had allocated in its
            window; where none pairs it is the start of the window.
        allocated_bytes: What blocks held then; ``None`` where the log reports no block.
        reserved_bytes: What chunks held; ``None`` where it reports no chunk.
        largest_gap_bytes: The largest gap in them; ``None`` where addresses are not known.
    """

    window: str
    event: int | None
    line: int | None
    aligned: bool
    allocated_bytes: int | None
    reserved_bytes: int | None
    largest_gap_bytes: int | None


class FailedRun(Result, frozen=True, eq=False):
    """A run that ran out of memory.

    Attributes:
        side: ``base`` or ``head``.
        failures: How many failures it had.
        failure: The one that it ended in, or else the first.
        other: Where the other run was then; ``None`` where the failure is in none of the windows compared, or the other log ends before that.
    """

    side: str
    failures: int
    failure: MemoryFailure
    other: Meanwhile | None


def failed_runs(pairs: Sequence[tuple[Window, Window]], logs: tuple[EventLog, EventLog]) -> tuple[FailedRun, ...]:
    """The runs that ran out of memory, base first.  Of one log that is compared with itself only what fails inside the windows counts.

    Args:
        pairs: The windows compared.
        logs: The two logs.
    """
    found = []
    for side, (name, log) in enumerate(zip(_SIDES, logs, strict=True)):
        own, offsets = failures(log), failures_of(log).offset.tolist()
        if logs[0] is logs[1]:
            windows = [pair[side] for pair in pairs]
            inside = [k for k, offset in enumerate(offsets) if any(_holds(window, offset) for window in windows)]
            own, offsets = [own[k] for k in inside], [offsets[k] for k in inside]
        if not own:
            continue
        at = most_telling(own)
        pair = next((pair for pair in pairs if _holds(pair[side], offsets[at])), None)
        other = None if pair is None else _meanwhile(pair, side, offsets[at])
        found.append(FailedRun(name, len(own), own[at], other))
    return tuple(found)


def _holds(window: Window, offset: int) -> bool:
    return window.start_offset <= offset < window.end_offset


def _meanwhile(pair: tuple[Window, Window], side: int, offset: int) -> Meanwhile | None:
    """Return where the other run of a pair of windows was when the one of ``side`` failed; ``None`` where its log ends before that.

    What the failed run had allocated in its window is aligned with as many blocks of the other one, for what that did later has no partner.
    """
    failed, window = pair[side], pair[1 - side]
    failed = replace(failed, hi=int(np.searchsorted(failed.log.offset, offset)))
    asks = _allocs(failed), _allocs(window)
    stop = window.lo
    if all(map(len, asks)):
        cut = [failed, replace(window, hi=_next_request(window, int(asks[1][: len(asks[0])][-1])))]
        base, head = cut if side == 0 else reversed(cut)
        threads = tell_threads_apart(base.log, head.log)
        blocks = [gather_windows([one], threads=threads)[0] for one in (base, head)]
        found = match(*blocks)
        paired = np.flatnonzero(found.aligned >= 0)
        events = found.base.event[paired], found.head.event[found.aligned[paired]]
        if len(paired):
            last = int(events[1 - side][events[side].argmax()])
            if len(asks[1]) < len(asks[0]) and last == asks[1][-1] and window.hi == len(window.log):
                return None
            frees = int(np.count_nonzero(failed.log.kind[int(events[side].max()) : failed.hi] == Kind.FREE))
            stop = _next_request(window, last, frees)
    log, aligned = window.log, stop > window.lo
    allocated, reserved = log.level_before(stop)
    layout = layout_before(log, stop) if log.tells_of_chunks else None
    event = stop - 1 if stop > log.facts.opening else None
    return Meanwhile(
        window.name,
        event,
        lines_of(log, [event])(event),
        aligned,
        allocated if log.tells_of_blocks else None,
        reserved if log.tells_of_chunks else None,
        None if layout is None else int(layout.gap_size.max(initial=0)),
    )


def _allocs(window: Window) -> Ints:
    """The ALLOCs of a window, as events."""
    found: Ints = window.lo + np.flatnonzero(window.log.kind[window.lo : window.hi] == Kind.ALLOC)
    return found


def _next_request(window: Window, alloc: int, frees: int = 0) -> int:
    """The event before which a run asks for the block after one: what it frees in between is gone; as many FREEs after that one, if it is the last."""
    kind = window.log.kind[alloc + 1 : window.hi]
    asks = np.flatnonzero((kind == Kind.ALLOC) | (kind == Kind.RESERVE))
    return alloc + 1 + (int(asks[0]) if len(asks) else min(frees, len(kind)))
