"""Out-of-memory failures: one may be printed several times, by several layers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from memlens.facts import Kind

if TYPE_CHECKING:
    from memlens.events import EventLog
    from memlens.facts import OutOfMemory

__all__ = ["failures_of"]


def failures_of(log: EventLog) -> tuple[OutOfMemory, ...]:
    """The failures that the messages of a log tell of, in file order.

    Messages with no ALLOC between them that name the same size and device, or none, are one: the first of them, with the size that one of
    them names.
    """
    ooms = log.facts.ooms
    if not ooms:
        return ()
    places = np.searchsorted(log.offset, [oom.offset for oom in ooms])
    allocs = np.flatnonzero(log.kind == Kind.ALLOC)
    before = np.searchsorted(allocs, places).tolist()  # ALLOCs before each message
    found = [ooms[0]]
    previous, since = ooms[0], before[0]
    for oom, taken in zip(ooms[1:], before[1:], strict=True):
        same_device = not oom.device or not previous.device or oom.device == previous.device
        asked, known = oom.requested_bytes, previous.requested_bytes
        # A size printed in GB with six decimals is known to about a KiB.
        same_size = asked is None or known is None or abs(asked - known) <= 1024
        if not (same_device and same_size and taken == since):
            previous = oom
            found.append(oom)
        elif known is None:
            previous = oom
            found[-1] = replace(found[-1], requested_bytes=asked)
        since = taken
    return tuple(found)
