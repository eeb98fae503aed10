"""Real windows again, with neighbouring events that changed places."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from memlens.events import Kind
from memlens.log import Log
from memlens.windows.windows import Window

_COLUMNS = ("kind", "size", "addr", "thread", "requested", "owner")


def jittered(window: Window, share: float, chance: Random) -> Window:
    """A window in a log of its own, so large a share of whose neighbours, of any kind and fate, changed places; all at other addresses.

    No event takes part in two exchanges, and two events of one address stay in their order.
    """
    log = window.log
    order = np.arange(len(log))
    at = window.lo
    while at < window.hi - 1:
        if log.addr[at] != log.addr[at + 1] and chance.random() < share:
            order[at], order[at + 1] = at + 1, at
            at += 1
        at += 1
    columns: dict[str, Any] = {name: getattr(log, name) for name in _COLUMNS if getattr(log, name) is not None}
    columns = {name: column[order] for name, column in columns.items()}
    block = columns["kind"] <= Kind.FREE
    columns["addr"] = np.where(block, columns["addr"] ^ np.uint64(chance.getrandbits(40) << 8), columns["addr"])
    places = np.arange(len(log), dtype=np.int64)
    moved = Log(**columns, offset=places, line=places + 1, owner_names=log.owner_names)
    return Window(moved, window.name, window.lo, window.hi, window.lo, window.hi, window.lo + 1, window.hi)
