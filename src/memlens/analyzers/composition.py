"""What live memory consists of, by role and by holder, where it was recorded who holds it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from memlens.analyzers.fates import live_events
from memlens.analyzers.groups import holders_alike, owner_labels, owners_of
from memlens.claims.roles import ROLES, role_of
from memlens.folding import peak_ends
from memlens.results import OnDemand, Result, Tables, deferred, lazy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memlens.columns import Ints
    from memlens.events import EventLog
    from memlens.windows.windows import Window


class Share(Result, frozen=True):
    """The blocks of one role, or of one holder, that are live at a moment.

    Attributes:
        at: ``"peak"`` of the allocated bytes, or ``"end"`` of the window.
        role: The role, one of :data:`memlens.claims.roles.ROLES`; ``None`` for blocks of which nothing tells it.
        holder: The holder of most of these bytes, without indices and keys; ``None`` likewise.
        owner: Who allocated most of them; ``None`` where that is not known.
        count: How many there are.
        total_bytes: Their bytes.
    """

    at: str
    role: str | None
    holder: str | None
    owner: str | None
    count: int
    total_bytes: int


@lazy("roles", "holders")
class Composition(Result, frozen=True):
    """What is live at the peak and at the end of a window; nothing where no holder was recorded.

    Attributes:
        roles: By role, the most bytes of each moment first.
        holders: By holder, likewise.
    """

    tables: ClassVar[Tables] = {"roles": Share, "holders": Share}

    roles: Sequence[Share] = ()
    holders: Sequence[Share] = ()


def composition(windows: Sequence[Window]) -> OnDemand[Composition]:
    """Analyze windows of one log; what is live is looked up when a table is asked for."""
    ends = peak_ends(windows).tolist()

    def one(k: int) -> Composition:
        log, moments = windows[k].log, {"peak": ends[k], "end": windows[k].hi}
        if log.holder is None:
            return Composition()
        live = cache(lambda at: LiveBlocks(log, moments[at]))

        def by(group: Literal["role", "holder"]) -> tuple[Share, ...]:
            return tuple(share for at in moments for share in live(at).shares(group, at))

        return Composition(deferred(by, "role"), deferred(by, "holder"))

    return OnDemand(len(windows), one)


class LiveBlocks:
    """What is live right before an event of a log that tells who holds its blocks."""

    def __init__(self, log: EventLog, event: int) -> None:
        assert log.holder is not None
        live = live_events(log, event)
        every, alike, _ = holders_alike(log.holder_names)
        # Behind the holders stands what several have in common; what follows the last one is nobody.
        self._names = (*every[len(log.holder_names) :], None)
        self._holder = np.append(alike, len(self._names) - 1)[log.holder[live]]
        self._labels = owner_labels(log)
        self._owner, self._size = owners_of(log, live) % len(self._labels), log.size[live]

    def shares(self, group: Literal["role", "holder"], at: str = "peak") -> Iterator[Share]:
        """The blocks of each role or holder, the most bytes first."""
        places = (*ROLES, None)
        roles = [None if name is None else role_of(name) for name in self._names]
        role = np.array([*map(places.index, roles)], np.int64)[self._holder]
        for members, total in _sums(role if group == "role" else self._holder, self._size):
            holder, owner = (_most(column[members], self._size[members]) for column in (self._holder, self._owner))
            yield Share(at, roles[holder], self._names[holder], self._labels[owner], len(members), total)


def _sums(group: Ints, size: Ints) -> Iterator[tuple[Ints, int]]:
    """The members of each group and their bytes; the most bytes first, and then in the order of the groups."""
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    parts = np.split(order, starts[1:]) if len(order) else []
    totals = [int(size[members].sum()) for members in parts]
    for number in sorted(range(len(parts)), key=lambda number: -totals[number]):
        yield parts[number], totals[number]


def _most(of: Ints, size: Ints) -> int:
    """Of some numbers that which has the most bytes; of several the lowest."""
    numbers, place = np.unique(of, return_inverse=True)
    totals = np.zeros(len(numbers), np.int64)
    np.add.at(totals, place, size)
    return int(numbers[totals.argmax()])
