"""The out-of-memory failures of a log, each of which may have several messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import structs

from memlens.events import EventLog, once
from memlens.facts import Kind, OutOfMemory
from memlens.results import OnDemand
from memlens.spool import walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from memlens.columns import Flags, Ints
    from memlens.windows.windows import Window


#: What a size that is printed in GB with six decimals is known to.
_ALIKE = 1024
#: Messages of one failure that are looked at for what the first of them does not say.
_MOST = 100
#: A run ended in a failure where at most one in so many of its ALLOCs comes after the message: what the process still allocates while it
#: goes down.  A run that caught the failure and went on allocates far more.
STILL_GOING = 100
#: Events that are looked at together for the first one after a failure that gives no chunk back.
_NEAR = 1 << 10


class Failures(OnDemand[OutOfMemory]):
    """Failures in file order, each made of its messages when it is asked for.

    Args:
        make: Makes the failure of an index.
        offset: Byte offset of the line of each, int64.
        at_request: That is the line of a request, bool.
    """

    def __init__(self, make: Callable[[int], OutOfMemory], offset: Ints, at_request: Flags) -> None:
        super().__init__(len(offset), make)
        self.offset, self.at_request = offset, at_request

    def chosen(self, chosen: Flags) -> Failures:
        """Some of them, bool, one entry a failure."""
        at = np.flatnonzero(chosen)
        return Failures(lambda k: self[int(at[k])], self.offset[at], self.at_request[at])


@once
def failures_of(log: EventLog) -> Failures:
    """The failures that the messages of a log tell of, in file order.

    Messages with no ALLOC between them that name the same size and device, or none, are one: the first of them, with what the others
    say beyond it.
    """
    early, later, devices = log.facts.ooms, log.facts.later_ooms, log.facts.oom_devices
    numbers = {name: number for number, name in enumerate(devices)} | {"": -1}
    rows = [
        (
            oom.offset,
            numbers.setdefault(oom.device, len(numbers)),
            -1 if oom.requested_bytes is None else oom.requested_bytes,
            oom.message_line is not None,
        )
        for oom in early
    ]
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    if later is not None:
        more = np.stack((later.offset, later.device, later.requested, np.zeros(len(later), np.int64)))
        columns = np.concatenate((columns, more), axis=1)
    order = columns[0].argsort(kind="stable")
    offset, device, asked, at_request = columns[:, order]
    starts = _first_messages(allocs_before(log, offset), device, asked)
    ends = np.append(starts[1:], len(offset))

    def message(k: int) -> OutOfMemory:
        at = int(order[k])
        if at < len(early):
            return early[at]
        assert later is not None
        return later.message(at - len(early), devices)

    def one(k: int) -> OutOfMemory:
        first, *others = map(message, range(int(starts[k]), min(int(ends[k]), int(starts[k]) + _MOST)))
        for oom in others:
            unsaid = [name for name in oom.__struct_fields__ if getattr(first, name) in (None, "")]
            first = structs.replace(first, **{name: getattr(oom, name) for name in unsaid})
        return first

    return Failures(one, offset[starts], at_request[starts].astype(np.bool_))


def _first_messages(before: Ints, device: Ints, asked: Ints) -> Ints:
    """The first message of each failure, given the ALLOCs before each message, its device and what was asked for, -1 for none."""
    count = len(before)
    repeats, is_first = np.zeros(count, np.bool_), np.ones(count, np.bool_)
    together = before[1:] == before[:-1]
    # A message that says the same as the one before it is of the same failure.
    repeats[1:] = together & (device[1:] == device[:-1]) & (asked[1:] == asked[:-1])
    is_first[1:] = ~repeats[1:]
    unlike = np.flatnonzero(~repeats)
    known, previous = [-1, -1], -1
    for k in (np.flatnonzero(together & ~repeats[1:]) + 1).tolist():
        earlier = int(unlike[unlike.searchsorted(k) - 1])
        if earlier != previous:
            known = [device.item(earlier), asked.item(earlier)]
        mine, previous = [device.item(k), asked.item(k)], k
        same_device = min(mine[0], known[0]) < 0 or mine[0] == known[0]
        same_size = min(mine[1], known[1]) < 0 or abs(mine[1] - known[1]) <= _ALIKE
        is_first[k] = not (same_device and same_size)
        if not is_first[k]:  # what the failure is known by, and what this message says beyond it
            mine = [one if one >= 0 else other for one, other in zip(known, mine, strict=True)]
        known = mine
    found: Ints = np.flatnonzero(is_first)
    return found


def allocs_before(log: EventLog, offsets: Ints) -> Ints:
    """How many ALLOCs stand on lines before each of some places, given as byte offsets, int64."""
    stops = log.events_before(offsets)
    order = stops.argsort(kind="stable")
    rising, found, count = stops[order], np.zeros(len(stops), np.int64), 0
    for lo, hi in walk(0, int(rising[-1]) if len(rising) else 0):
        counts = count + np.cumsum(log.kind[lo:hi] == Kind.ALLOC)
        here = slice(*rising.searchsorted((lo, hi), "right"))
        found[order[here]] = counts[rising[here] - lo - 1]
        count = int(counts[-1])
    return found


def refused_before(log: EventLog, failures: Failures) -> Ints:
    """Of each failure the first event after it, int64.

    After the line of a request chunks that the allocator gives back, before it asks the device once more, are gone too.  A chunk that is taken is of
    a later request, and blocks that are freed are so on the way to the message.
    """
    stops = log.events_before(failures.offset)
    for k in np.flatnonzero(failures.at_request):
        for lo, hi in walk(int(stops[k]), len(log), _NEAR):
            others = log.kind[lo:hi] != Kind.RELEASE
            stops[k] = lo + int(others.argmax()) if others.any() else hi
            if others.any():
                break
    return stops


def failures_in(window: Window) -> Failures:
    """Those of them whose line is one of a window."""
    found = failures_of(window.log)
    return found.chosen((window.start_offset <= found.offset) & (found.offset < window.end_offset))
