"""What live memory consists of, by role and by holder, where it was recorded who holds it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from memlens.analyzers.fates import live_events
from memlens.analyzers.groups import holders_alike, owner_labels, owners_of
from memlens.claims.roles import ROLES, role_of
from memlens.folding import profile
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
    figures = profile(windows)
    peaks = np.where(figures["rise_bytes"] > 0, figures.summit + 1, [window.lo for window in windows]).tolist()

    def one(k: int) -> Composition:
        log, hi = windows[k].log, windows[k].hi
        if log.holder is None:
            return Composition()

        @cache
        def tables() -> tuple[tuple[Share, ...], tuple[Share, ...]]:
            moments = [live_at(log, at, event) for at, event in (("peak", peaks[k]), ("end", hi))]
            roles, holders = zip(*moments, strict=True)
            return tuple(row for rows in roles for row in rows), tuple(row for rows in holders for row in rows)

        return Composition(deferred(lambda: tables()[0]), deferred(lambda: tables()[1]))

    return OnDemand(len(windows), one)


def live_at(log: EventLog, at: str, event: int) -> tuple[list[Share], list[Share]]:
    """What is live right before an event, by role and by holder; nothing where no holder was recorded."""
    if log.holder is None:
        return [], []
    live = live_events(log, event)
    every, alike, _ = holders_alike(log.holder_names)
    # Behind the holders stands what several have in common; what follows the last one is nobody.
    names = (*every[len(log.holder_names) :], None)
    holder = np.append(alike, len(names) - 1)[log.holder[live]]
    roles = (*ROLES, None)
    role = np.array([roles.index(None if name is None else role_of(name)) for name in names], np.int64)
    owner, labels = owners_of(log, live), owner_labels(log)
    owner %= len(labels)
    size = log.size[live]

    def rows(group: Ints) -> Iterator[Share]:
        for members, count, total in _sums(group, size):
            kind, own = (_most(column[members], size[members]) for column in (holder, owner))
            yield Share(at, roles[role[kind]], names[kind], labels[own], count, total)

    return list(rows(role[holder])), list(rows(holder))


def _sums(group: Ints, size: Ints) -> Iterator[tuple[Ints, int, int]]:
    """The members of each group, how many they are, and their bytes; the most bytes first, and then in the order of the groups."""
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    parts = np.split(order, starts[1:]) if len(order) else []
    totals = [int(size[members].sum()) for members in parts]
    for number in sorted(range(len(parts)), key=lambda number: -totals[number]):
        yield parts[number], len(parts[number]), totals[number]


def _most(of: Ints, size: Ints) -> int:
    """Of some numbers that which has the most bytes; of several the lowest."""
    numbers, place = np.unique(of, return_inverse=True)
    totals = np.zeros(len(numbers), np.int64)
    np.add.at(totals, place, size)
    return int(numbers[totals.argmax()])
