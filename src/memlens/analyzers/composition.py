"""What live memory consists of, by role and by holder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from memlens.analyzers.fates import live_events
from memlens.analyzers.groups import holders_alike, holders_of, owner_labels, owners_of
from memlens.analyzers.roles.twins import Twin, Twins
from memlens.claims.roles import EITHER, INFERRED, ROLE_NUMBERS, ROLES, STATE, UNSEEN, role_of
from memlens.facts import Kind
from memlens.folding import bounds, of_lists, peak_ends, profile
from memlens.results import OnDemand, Result, Tables, deferred, lazy
from memlens.windows.windows import BEFORE, Window

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.analyzers.roles.by_stack import ByStack
    from memlens.columns import Flags, Ints
    from memlens.events import EventLog


class Share(Result, frozen=True):
    """The blocks of one role, or of one holder, that are live at a moment.

    Attributes:
        at: ``"peak"`` of the allocated bytes, or ``"end"`` of the window.
        role: The role, one of :data:`memlens.claims.roles.ROLES`; ``None`` for blocks of which nothing tells it.
        holder: The holder of most of these bytes, without indices and keys; ``None`` likewise.
        owner: Who allocated most of them; ``None`` where that is not known.
        count: How many there are.
        total_bytes: Their bytes.
        told_by: What tells the roles: ``"holders"`` that were recorded, the ``"stacks"`` of what allocates and when that is given back, or the ``"steps"`` in
            which blocks come and go.
    """

    at: str
    role: str | None
    holder: str | None
    owner: str | None
    count: int
    total_bytes: int
    told_by: str


@lazy("roles", "holders", "twins")
class Composition(Result, frozen=True):
    """What is live at the peak and at the end of a window; nothing where nothing tells a role.

    Attributes:
        roles: By role, the most bytes of each moment first.
        holders: By holder, likewise; nothing where no holder was recorded.
        twins: What exists twice at the peak, what saves most first; of several windows in the one with the highest peak alone.
    """

    tables: ClassVar[Tables] = {"roles": Share, "holders": Share, "twins": Twin}

    roles: Sequence[Share] = ()
    holders: Sequence[Share] = ()
    twins: Sequence[Twin] = ()


def composition(windows: Sequence[Window]) -> OnDemand[Composition]:
    """Analyze windows of one log; what is live is looked up when a table is asked for."""
    ends, log = peak_ends(windows).tolist(), windows[0].log
    roles = cache(lambda: Roles(log, windows))
    highest = cache(lambda: int(profile(windows)["peak_bytes"].argmax()))

    live = lru_cache(maxsize=2)(lambda event: LiveBlocks(roles(), event))

    def by(k: int, group: Literal["role", "holder"]) -> tuple[Share, ...]:
        return tuple(
            share
            for at, event in (("peak", ends[k]), ("end", windows[k].hi))
            for share in live(event).shares(group, at)
        )

    def twins(k: int) -> tuple[Twin, ...]:
        return roles().twins(windows[k], ends[k]) if k == highest() else ()

    def one(k: int) -> Composition:
        holders = () if log.holder is None else deferred(by, k, "holder")
        return Composition(deferred(by, k, "role"), holders, deferred(twins, k))

    return of_lists(windows, one)


def largest_share(found: Composition | None) -> Share | None:
    """The role of the most that is live at the peak; ``None`` where nothing tells one."""
    shares = () if found is None else found.roles[:1]
    return next((share for share in shares if share.at == "peak"), None)


class Roles:
    """What tells the roles of the blocks of a log.

    Args:
        log: The log.
        windows: Those that it is cut into, which may be the steps of a training; where it is not cut into several, steps are looked for.

    Attributes:
        log: The log.
        told_by: See :class:`Share`.
        of_event: The role of the block of each ALLOC, as in :meth:`at`; ``None`` where it is told of moments alone.
    """

    def __init__(self, log: EventLog, windows: Sequence[Window] = ()) -> None:
        self.log, self._windows = log, windows
        self.of_event: NDArray[np.int8] | None = log.role
        found = _by_stack(log) if log.role is None else None
        if found is not None:
            self.of_event = found.role
        self.told_by = "steps" if self.of_event is None else "stacks"
        self._by_stack = found if log.holder is None else None
        if (held_by := holders_of(log)) is not None:
            self.told_by, self.of_event = "holders", _held_by(*held_by, self.of_event)

    def at(self, event: int, live: Ints) -> NDArray[np.int8] | None:
        """The roles of what is live right before an event, as numbers of ``ROLES``, -1 or one more for none; ``None`` where nothing tells any."""
        if self.of_event is not None:
            return self.of_event[live]
        from memlens.analyzers.roles.by_steps import roles_by_steps

        return roles_by_steps(self.log, *self._steps, event, live)

    def twins(self, window: Window, event: int) -> tuple[Twin, ...]:
        """What exists twice at the peak of a window, which is right before an event."""
        live = live_events(self.log, event)
        role = self.at(event, live)
        if role is None or not len(live):
            return ()
        if self._by_stack is not None and len(self._by_stack.steps) > 1:
            steps = self._by_stack.steps  # those that annotations count may begin with the optimizer's
        else:
            lo, hi = self._steps
            steps = np.append(lo, hi[-1:])
        return Twins(self.log, window.lo, window.hi, event, live, role, self.of_event, steps).rows()

    def of_blocks(self, alloc: Ints, live: Flags, event: int) -> NDArray[np.int8]:
        """The roles of some blocks, as numbers of ``ROLES``, -1 for none.

        Where steps tell them, those of what is live at one moment are those of that moment; others are told in the step that makes them, of many
        steps in those of the most bytes.

        Args:
            alloc: The ALLOC of each, int64, rising.
            live: Which of them are live at the moment, bool.
            event: The event before which that is.
        """
        role = np.full(len(alloc), -1, np.int8)
        if self.of_event is not None:
            role[:] = self.of_event[alloc]
        elif (told := self.at(event, alloc[live])) is not None:
            role[live] = told
            lo, hi = self._steps
            step = np.where(live, len(lo), np.maximum(lo.searchsorted(alloc, "right") - 1, 0))
            bytes_of = np.bincount(step, self.log.size[alloc], len(lo) + 1)[:-1]
            for k in np.argsort(-bytes_of, kind="stable")[:_MOST_STEPS].tolist():
                if (told := self.at(int(hi[k]), alloc[step == k])) is not None:
                    role[step == k] = told
        role[role == len(ROLES)] = -1
        return role

    def bytes_at(self, event: int) -> dict[str | None, int]:
        """The bytes of each role of what is live right before an event, in the order of ``ROLES``; nothing where nothing tells any."""
        live = live_events(self.log, event)
        role = self.at(event, live)
        if role is None:
            return {}
        found, place = np.unique(role.astype(np.int64) % len(_PLACES), return_inverse=True)
        total = np.zeros(len(found), np.int64)
        np.add.at(total, place, self.log.size[live])
        return {_PLACES[k]: size for k, size in zip(found.tolist(), total.tolist(), strict=True)}

    def of(self, role: str) -> Ints | None:
        """The ALLOCs of all blocks of a role, rising; ``None`` where roles are told of moments alone."""
        if self.of_event is None:
            return None
        return np.flatnonzero((self.of_event == ROLE_NUMBERS[role]) & (self.log.kind == Kind.ALLOC))

    @cached_property
    def _steps(self) -> tuple[Ints, Ints]:
        """The first event of each step, and what follows its last one."""
        windows = self._windows
        if len(windows) < 2:
            from memlens.windows.anchor_discovery import find_steps

            found = find_steps(self.log)
            windows = () if found is None or not found.repeated else found.windows
        if not windows:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        _, lo, hi = bounds(windows)
        before = int(windows[0].name == BEFORE)
        return lo[before:], hi[before:]


def _by_stack(log: EventLog) -> ByStack | None:
    from memlens.analyzers.roles.by_stack import roles_by_stack

    return roles_by_stack(log)


def _held_by(holder: Ints, names: Sequence[str], by_stack: NDArray[np.int8] | None) -> NDArray[np.int8]:
    """The role of the block of each event by who holds it; of what no walk saw anybody hold, by the stacks where these tell more."""
    roles = [*map(role_of, names)]
    role = np.array([*map(_PLACES.index, roles), len(ROLES)], np.int8)[holder]
    if by_stack is None:
        return role
    more = np.zeros((len(names) + 1, len(ROLES)), np.bool_)
    more[-1] = True
    for number, (name, of) in enumerate(zip(names, roles, strict=True)):
        told = _OF_LIBRARIES if name in INFERRED else ("cache",) if of == "variable" else ()
        more[
            number, [ROLE_NUMBERS[one] for one in (*told, *(_OF_UNSEEN if name in (UNSEEN, EITHER, STATE) else ()))]
        ] = True
    return np.where((by_stack >= 0) & more[holder, by_stack], by_stack, role)


_PLACES = (*ROLES, None)
#: Roles by stacks that tell more than the life of a block, or that no variable has it; and than that the program let go of it.
_OF_LIBRARIES, _OF_UNSEEN = (
    ("communication", "cache", "workspace"),
    ("parameter", "model", "gradient", "optimizer", "temporary"),
)
#: Steps that are looked at to tell the roles of blocks of all of them.
_MOST_STEPS = 64


class LiveBlocks:
    """What is live right before an event of a log, by role and by holder."""

    def __init__(self, roles: Roles, event: int) -> None:
        log, self._told_by = roles.log, roles.told_by
        live = live_events(log, event)
        role = roles.at(event, live)
        if role is None:
            live, role = live[:0], np.zeros(0, np.int8)
        held_by, names = holders_of(log) or (None, ())
        every, alike, _ = holders_alike(names)
        # Behind the holders stands what several have in common; what follows the last one is nobody.
        self._names = (*every[len(names) :], None)
        holder = np.full(len(live), -1) if held_by is None else held_by[live]
        self._holder = np.append(alike, len(self._names) - 1)[holder]
        self._role = role.astype(np.int64) % len(_PLACES)
        self._labels = owner_labels(log)
        self._owner, self._size = owners_of(log, live) % len(self._labels), log.size[live]

    def shares(self, group: Literal["role", "holder"], at: str = "peak") -> Iterator[Share]:
        """The blocks of each role or holder, the most bytes first."""
        columns = self._role, self._holder, self._owner
        for members, total in _sums(self._role if group == "role" else self._holder, self._size):
            role, holder, owner = (_most(column[members], self._size[members]) for column in columns)
            yield Share(at, _PLACES[role], self._names[holder], self._labels[owner], len(members), total, self._told_by)


def peak_by_role(window: Window) -> Iterator[Share]:
    """What is live at the peak of a window by role, the most bytes first; nothing where nothing tells a role."""
    return LiveBlocks(Roles(window.log, [window]), peak_ends([window]).item()).shares("role")


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
