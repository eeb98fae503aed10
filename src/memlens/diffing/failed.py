"""Which of two runs ran out of memory, and where the other one was at that moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from memlens.analyzers.failures.failures import MemoryFailure, failures
from memlens.analyzers.failures.words import failure_sentence, most_telling
from memlens.analyzers.places import Lines
from memlens.analyzers.segments import layout_before
from memlens.diffing.alignment.blocks import gather_windows, tell_threads_apart
from memlens.diffing.pairing import match
from memlens.facts import Kind
from memlens.results import Result
from memlens.trust.report import failures_of
from memlens.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlens.columns import Ints
    from memlens.events import EventLog
    from memlens.text import Terms
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
        other: Where the other run was then; ``None`` where the failure is in none of the windows compared.
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
        own, offsets = failures(log), [oom.offset for oom in failures_of(log)]
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


def _meanwhile(pair: tuple[Window, Window], side: int, offset: int) -> Meanwhile:
    """Return where the other run of a pair of windows was when the one of ``side`` failed.

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
            stop = _next_request(window, int(events[1 - side][events[side].argmax()]))
    log, aligned = window.log, stop > window.lo
    allocated, reserved = log.level_before(stop)
    layout = layout_before(log, stop) if log.tells_of_chunks else None
    event = stop - 1 if stop > log.facts.opening else None
    return Meanwhile(
        window.name,
        event,
        Lines(log, [event]).of(event),
        aligned,
        allocated if log.tells_of_blocks else None,
        reserved if log.tells_of_chunks else None,
        None if layout is None else int(layout.gap_size.max(initial=0)),
    )


def _allocs(window: Window) -> Ints:
    """The ALLOCs of a window, as events."""
    found: Ints = window.lo + np.flatnonzero(window.log.kind[window.lo : window.hi] == Kind.ALLOC)
    return found


def _next_request(window: Window, alloc: int) -> int:
    """The event before which a run asks for the block after one: what it frees in between is gone; right after that one, if it is the last."""
    kind = window.log.kind[alloc + 1 : window.hi]
    asks = np.flatnonzero((kind == Kind.ALLOC) | (kind == Kind.RESERVE))
    return alloc + 1 + (int(asks[0]) if len(asks) else 0)


def failed_sentences(failed: Sequence[FailedRun], terms: Terms) -> list[str]:
    """One sentence on the runs that ran out of memory: what ran out, and of one alone where the other run was then."""
    if len({run.side for run in failed}) < len(_SIDES):
        return [_sentence(run, terms) for run in failed[:1]]
    sides = {run.side: run.failure for run in reversed(failed)}
    how = [
        failure_sentence([sides[side]], terms, who=side)[:-1].removeprefix(f"{side} ran out of memory ")
        for side in _SIDES
    ]
    (base, _, figures), (head, _, others) = (words.partition(": ") for words in how)
    if figures != others or not figures:
        return [f"Both ran out of memory: base {how[0]}; and head {how[1]}."]
    return [f"Both ran out of memory{f' {base}' if base == head else f', base {base}, head {head}'}: {figures}."]


def _sentence(run: FailedRun, terms: Terms) -> str:
    words = failure_sentence([run.failure], terms, who=run.side.capitalize())
    other = run.other
    if other is None or other.allocated_bytes is None:
        return words
    name = _SIDES[1 - _SIDES.index(run.side)]
    where = "" if other.line is None else f" ({terms.at(other.line)})"
    words = f"{words[:-1]}; {name} had {format_bytes(other.allocated_bytes)} allocated then{where}"
    if other.reserved_bytes is not None:
        words += f", of {format_bytes(other.reserved_bytes)} reserved"
    if other.largest_gap_bytes is not None:
        words += f", largest gap {format_bytes(other.largest_gap_bytes)}"
    return words + "."
