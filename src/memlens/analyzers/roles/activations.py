"""What is saved for backward at a peak, by line and by layer, and what a run that makes layers again would leave of the peak."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from memlens.analyzers.composition import Roles
from memlens.analyzers.fates import live_events, peak_without
from memlens.analyzers.places import between_us
from memlens.claims.roles import OF_BACKWARD, ROLE_NUMBERS
from memlens.columns import Flags, Ints, among, distinct, rank_of
from memlens.folding import of_lists, peak_ends
from memlens.inputs.stack_names import name_of
from memlens.results import OnDemand, Result, Tables, deferred, lazy
from memlens.text import STACK, is_own

if TYPE_CHECKING:
    from memlens.events import EventLog
    from memlens.windows.windows import Window

#: A line of Python in a call stack.
_FRAME = r"(.*\.py):(\d+) (.*)"
#: What the graphs of several tensors in one container are held by.
_SEVERAL = "[*].grad_fn "
#: Call stacks that make blocks in each layer at least.
_FEW_SITES = 2


class SavedGroup(Result, frozen=True):
    """Blocks that are saved for backward and live at a peak, of one line or of one layer.

    Attributes:
        owner: The line, by which layers and what is beside them tell their work apart; ``None`` of layers, and where none is known.
        layer: Which layer, from 1 in the order of the forward pass; ``None`` of lines, and of what is in no layer.
        count: How many there are.
        total_bytes: Their bytes.
        waits_events: Events from the ALLOC to the FREE, or to the end of the log, of that which waits longest.
        waits_us: The time between the two; ``None`` where one is unknown.
    """

    owner: str | None
    layer: int | None
    count: int
    total_bytes: int
    waits_events: int
    waits_us: int | None


class Recomputed(Result, frozen=True):
    """The peak that a window would have if the backward pass made what is saved in some layers again; an estimate.

    Attributes:
        which: ``"first"``, ``"every_second"`` or ``"all"``.
        count: How many layers that is.
        peak_bytes: The peak.
    """

    which: str
    count: int
    peak_bytes: int


@lazy("lines", "layers", "recomputed")
class Activations(Result, frozen=True):
    """What is saved for backward at the peak of a window; nothing where nothing tells it, or who allocates it.

    Attributes:
        lines: By line, the most bytes first.
        layers: By layer, in their order; nothing where no layers are found.
        recomputed: The peak with some of them recomputed; likewise.
    """

    tables: ClassVar[Tables] = {"lines": SavedGroup, "layers": SavedGroup, "recomputed": Recomputed}
    scales: ClassVar[frozenset[str]] = frozenset({"recomputed"})

    lines: Sequence[SavedGroup] = ()
    layers: Sequence[SavedGroup] = ()
    recomputed: Sequence[Recomputed] = ()


def activations(windows: Sequence[Window]) -> OnDemand[Activations]:
    """Analyze windows of one log; all is worked out when a table is asked for."""
    ends, log = peak_ends(windows).tolist(), windows[0].log
    roles = cache(lambda: Roles(log, windows))
    saved = lru_cache(maxsize=1)(lambda k: _Saved(roles(), windows[k], ends[k]))

    def table(k: int, name: str) -> tuple[Any, ...]:
        return () if log.owner is None else tuple(getattr(saved(k), name)())

    return of_lists(windows, lambda k: Activations(*(deferred(table, k, name) for name in Activations.tables)))


class _Layers(NamedTuple):
    """The layers that a forward pass has.

    Attributes:
        number: How many; 0 where none are found.
        sites: The numbers of the stacks that make blocks in each, rising.
        each: How many blocks each of these makes in a layer.
    """

    number: int
    sites: Ints
    each: Ints


class _Saved:
    """What is saved for backward, in all passes of a log, or at one moment where it is told of that alone.

    Args:
        roles: What tells it.
        window: The window.
        event: The event after its peak.
    """

    def __init__(self, roles: Roles, window: Window, event: int) -> None:
        self._window, self._log = window, (log := roles.log)
        live, number = live_events(log, event), ROLE_NUMBERS["saved"]
        role = roles.at(event, live)
        self._level = int(log.size[live].sum())
        live = live[:0] if role is None else live[role == number]
        every = roles.of("saved")
        self.alloc = live if every is None else every
        self._live = self.alloc.searchsorted(live)
        partner = log.lifetimes.partner[self.alloc].astype(np.int64)
        self.free, self.size = np.where(partner >= 0, partner, len(log)), log.size[self.alloc]
        self._site, self._stack = _sites(log, self.alloc)
        self._pass = _passes(self.alloc, self.free)
        #: Which layer each is in, from 0, -1 for none; and that of its pass, apart from all others.
        self.layer = np.full(len(self.alloc), -1)
        self._found, self._here = _Layers(0, live[:0], live[:0]), -1
        self._cut, self._counted = False, True
        if len(live) and every is not None and not self._kept(live):
            self._here = int(np.bincount(self._pass[self._live], weights=self.size[self._live]).argmax())
            own = self._pass == self._here
            self._found, self._cut = self._layers_of(self._here), bool((self.free[own] == len(log)).any())
            if self._cut:
                # Memory may have run out within the forward pass: the one before it tells how many layers there are.
                before = self._layers_of(self._here - 1)
                alike = own & among(self._site, before.sites)
                self._counted = bool(2 * self.size[alike].sum() > self.size[own].sum())
                self._found = before if self._counted else self._found
        if self._found.number:
            self._say_layers()

    def _kept(self, live: Ints) -> bool:
        """Whether most of it is of several passes, each of which would be like a layer: a container of the program has it, or a backward pass has run since and left it."""
        log = self._log
        if log.holder is None:
            return False
        names = [*log.holder_names, ""]
        several = np.array([_SEVERAL in name for name in names])[log.holder[live]]
        in_backward = np.array([name == OF_BACKWARD for name in names])[log.holder[: live[-1]]]
        several |= live < np.append(-1, np.flatnonzero(in_backward))[-1]
        return bool(2 * log.size[live[several]].sum() > log.size[live].sum())

    def _layers_of(self, number: int) -> _Layers:
        """The layers that a pass has."""
        those = self._pass == number
        return _layers(self._site[those], self.size[those])

    def _say_layers(self) -> None:
        """Number the layers of all passes."""
        _, sites, each = self._found
        (those,) = np.nonzero(among(self._site, sites))
        _, of, blocks = np.unique(
            self._pass[those] * (sites.max() + 1) + self._site[those], return_inverse=True, return_counts=True
        )
        in_each = each[sites.searchsorted(self._site[those])]
        whole = (blocks[of] % in_each == 0) | (self._pass[those] == self._pass.max())  # the last may be cut
        self.layer[those] = np.where(whole, rank_of(of) // in_each, -1)
        self._found = self._found._replace(number=max(self._found.number, int(self.layer.max()) + 1))

    def lines(self) -> Iterator[SavedGroup]:
        """What is live by line, the most bytes first."""
        sites, of = np.unique(self._site[self._live], return_inverse=True)
        labels = self._labels(sites)
        numbers = {label: number for number, label in enumerate(dict.fromkeys(labels))}
        number = np.array([numbers[label] for label in labels], np.int64)[of]
        found = [SavedGroup(label, None, *group) for label, group in zip(numbers, self._groups(number), strict=True)]
        yield from sorted(found, key=lambda group: -group.total_bytes)

    def layers(self) -> Iterator[SavedGroup]:
        """What is live by layer, and then what is in none: that of another pass, too."""
        layer = np.where(self._pass[self._live] == self._here, self.layer[self._live], -1) % (self._found.number + 1)
        none = self._found.number
        if (known := distinct(layer).tolist()) != [none]:
            for number, group in zip(known, self._groups(layer), strict=True):
                yield SavedGroup(None, number + 1 if number < none else None, *group)

    def recomputed(self) -> Iterator[Recomputed]:
        """The peak with the first layer, every second one, and all recomputed; nothing where it is not known how many there are."""
        count = self._found.number * self._counted
        for which, every in (("first", len(self.layer)), ("every_second", 2), ("all", 1))[: 3 if count else 0]:
            those = np.flatnonzero((self.layer >= 0) & (self.layer % every == 0))
            peak = max(self._peak_without(those), self._cut and self._rest(every))
            yield Recomputed(which, -(-count // every), peak)

    def _rest(self, every: int) -> int:
        """What would be live at the end of the forward pass in which memory ran out, or when its last layer has been made again."""
        own, last = (self._pass == self._here) & (self.layer >= 0), self._found.number - 1
        first = self.size[own & (self.layer == 0)]
        kept = np.where(np.arange(last + 1) % every, first.sum(), first[-1:].sum()).sum()
        again = 0 if last % every else first[:-1].sum()
        return self._level + int(kept + again - self.size[self._live[own[self._live]]].sum())

    def _peak_without(self, those: Ints) -> int:
        """The peak if some blocks were given back when their layer has run, and made again when its backward pass begins.

        The last block of a layer stays, for the next one is given it, and is made a second time with the others.
        """
        apart = self._pass[those] * (self.layer.max() + 1) + self.layer[those]
        order = np.argsort(apart, kind="stable")
        _, starts, of = np.unique(apart[order], return_index=True, return_inverse=True)
        those, stays = those[order], np.append(np.diff(of) != 0, True)
        ends, free = self.alloc[those[stays]] + 1, self.free[those]
        first = np.minimum.reduceat(np.where(stays, len(self._log), free), starts)
        # The pass comes to a layer when it has given back the last of what follows that.
        frees = np.sort(self.free)
        again = np.append(frees, -1)[frees.searchsorted(first) - 1]
        again = np.where(again >= ends, again, first)
        last = np.maximum.reduceat(np.where(stays, again[of], free), starts)
        begin, end = np.where(stays, again[of], ends[of]), np.where(stays, last[of], again[of])
        size = np.where(stays, -1, 1) * self.size[those]
        return peak_without(self._log, begin, end, size, self._window.lo, self._window.hi)

    def _labels(self, sites: Ints) -> list[str | None]:
        """The line of each of some sites.

        Those of layers are told apart from each other by what these have in common, and what is beside them by what all have.
        """
        stacks = [_python_lines(self._stack(site)) if site >= 0 else () for site in sites.tolist()]
        inner = among(sites, self._found.sites).tolist()
        of_layers = [stack for stack, own in zip(stacks, inner, strict=True) if own]
        shared = {True: _in_common(of_layers), False: _in_common([*filter(None, stacks)])}
        return [_line(stack, shared[own]) for stack, own in zip(stacks, inner, strict=True)]

    def _groups(self, number: Ints) -> Iterator[tuple[int, int, int, int | None]]:
        """What is live in groups, by the number of each, which rises: how many blocks, their bytes, and how long that waits which waits longest."""
        if not len(number):
            return
        order, waits = np.argsort(number, kind="stable"), self.free - self.alloc
        parts = np.split(self._live[order], np.flatnonzero(np.diff(number[order])) + 1)
        longest = np.array([those[waits[those].argmax()] for those in parts])
        lasted = between_us(self._log, self.alloc[longest], self.free[longest])
        for those, events, time in zip(parts, waits[longest].tolist(), lasted, strict=True):
            yield len(those), int(self.size[those].sum()), events, time


def _sites(log: EventLog, alloc: Ints) -> tuple[Ints, Callable[[int], tuple[str, ...]]]:
    """Which of some ALLOCs have one call stack, or one owner, by its number, -1 for none; and the frames of a number, innermost first."""
    numbers = log.source.stack_numbers(log.offset[alloc])
    if numbers is not None:
        if (of_opening := log.source.opening_stacks()) is not None:
            opening = alloc < log.facts.opening
            numbers[opening] = of_opening[alloc[opening]]
        return numbers.astype(np.int64), log.source.stack_of
    assert log.owner is not None
    return log.owner[alloc].astype(np.int64), lambda number: tuple(log.owner_names[number].split(STACK))


def _passes(alloc: Ints, free: Ints) -> Ints:
    """The forward pass that each of the blocks that are saved is of, by number.

    A pass ends where one of its own blocks is given back before another comes: the backward pass has begun.

    Args:
        alloc: Their ALLOCs, rising.
        free: Their FREEs.
    """
    place, after = np.arange(len(alloc)), alloc.searchsorted(free)
    inside = after < len(alloc)
    cuts = distinct(after[inside])
    part = cuts.searchsorted(place, "right")
    # What an earlier pass saved may be given back at any time.
    own = part[inside] == part[after[inside] - 1]
    found: Ints = distinct(after[inside][own]).searchsorted(place, "right")
    return found


def _layers(site: Ints, size: Ints) -> _Layers:
    """How often a pass does the same work again, by what its blocks have in common.

    A loop over layers makes as many blocks at each of its sites as there are layers, or that many times two or three, and those of one layer come before those
    of the next.  Of all such counts that which says most of the bytes is taken, and of several the largest; it must say half of them.

    Args:
        site: The site of each block, in the order of their birth, -1 where none is known.
        size: Their sizes.
    """
    sites, of, counts = np.unique(site, return_inverse=True, return_counts=True)
    totals = np.bincount(of, weights=size, minlength=len(sites))
    rank, place = rank_of(of), np.arange(len(site))
    best, least = _Layers(0, sites[:0], counts[:0]), totals.sum() / 2
    for count in sorted(_divisors(counts[sites >= 0]), reverse=True):
        fits = (counts % count == 0) & (sites >= 0)
        if totals[fits].sum() <= least:
            continue
        those = np.flatnonzero(fits[of])
        which = np.cumsum(fits) - 1
        layer = rank[those] * count // counts[of[those]]
        first, last = np.full((fits.sum(), count), len(site)), np.full((fits.sum(), count), -1)
        np.minimum.at(first, (which[of[those]], layer), place[those])
        np.maximum.at(last, (which[of[those]], layer), place[those])
        heaviest = totals[fits].argmax()
        kept = _apart(first, last[heaviest]) & _apart(first[heaviest], last)
        total = totals[fits][kept].sum()
        in_order = bool((last[kept].max(0)[:-1] < first[kept].min(0)[1:]).all())
        if kept.sum() >= _FEW_SITES and in_order and total > least:
            best, least = _Layers(count, sites[fits][kept], counts[fits][kept] // count), total
    return best


def _apart(first: Ints, last: Ints) -> Flags:
    """Whether each layer of some sites begins after the layer before it of others has ended."""
    apart: Flags = np.all(last[..., :-1] < first[..., 1:], axis=-1)
    return apart


def _divisors(counts: Ints) -> set[int]:
    """What some numbers can be divided by, 2 and more."""
    return {
        by
        for count in set(counts.tolist())
        for by in (np.flatnonzero(count % np.arange(2, count + 1) == 0) + 2).tolist()
    }


def _in_common(stacks: Sequence[Sequence[str]]) -> int:
    """How many of their first lines all of some stacks share."""
    return sum(1 for _ in takewhile(lambda lines: len({*lines}) == 1, zip(*stacks, strict=False)))


def _line(stack: tuple[str, ...], shared: int) -> str | None:
    """The outermost line of a stack inside what it shares with others, the user's first; of what has none there the innermost one around it.

    Args:
        stack: Its lines, outermost first.
        shared: How many of them are shared.
    """
    inside, around = stack[shared:], stack[:shared][::-1]
    own = (line for line in (*inside, *around) if is_own(line))
    return next(own, next(iter((*inside, *around)), None))


def _python_lines(stack: tuple[str, ...]) -> tuple[str, ...]:
    """The lines of Python of a stack as results name them, outermost first, without those that only pass a call on; of what has none the innermost frame.

    Args:
        stack: Its frames, innermost first.
    """
    return tuple(filter(None, map(_label, stack[::-1]))) or stack[:1]


@lru_cache(maxsize=1 << 14)
def _label(frame: str) -> str:
    """A frame that is a line of Python as results name it; ``""`` for others."""
    found = re.fullmatch(_FRAME, frame)
    label = frame if found is None else name_of([(found[1], int(found[2]), found[3])])
    return label if is_own(label) or (found is not None and ".py:" in label) else ""
