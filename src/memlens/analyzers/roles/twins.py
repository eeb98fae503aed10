"""What exists twice at a peak, and what the peak would be if it existed once.

Each kind has its own evidence, of which bytes alone are never enough: gradients that the next step makes anew, buckets that hold what gradients hold,
states of an optimizer that are made anew beside the old ones, a second set of weights under another variable, weights that are kept in half their
size, a batch that is made before the one before it is gone.  What the peak would be is replayed (:func:`memlens.analyzers.fates.peak_without`).
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens.analyzers.fates import peak_without, until
from memlens.analyzers.groups import holders_alike, owner_labels, owners_of
from memlens.analyzers.roles.models import alike, copies, models_of
from memlens.claims.roles import GRADIENT, ROLE_NUMBERS, role_of
from memlens.columns import Flags, Ints, among, distinct, rank_of
from memlens.facts import Kind
from memlens.results import Result
from memlens.spool import walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from memlens.events import EventLog

#: Less of the peak is not worth a row.
_LEAST = 0.01
#: How much of the bytes of gradients buckets must hold.
_COVERED = 0.9
#: How much of the parameters must be there in half their size, or as gradients of the step before.
_HALF = 0.5
#: Owners of the buckets in which gradients are sent, by the frames of PyTorch.
_BUCKETS = re.compile(r"nn/parallel/distributed\.py\W\d+\W*(?:_ddp_init_helper|_pre_forward|__init__)\b|c10d::Reducer")
#: … of what is copied with its module.
_COPIED = re.compile(r"nn/parameter\.py\W\d+\W*__deepcopy__\b")
#: … of what is made in another type.
_CAST = re.compile(r"^cast\b|\b_to_copy\b|\bcached_cast\b")
#: … of what comes from the host.
_LOADED = re.compile(r"^(?:to_tensor|Tensor|init|aten::_to_copy)\b")


class Twin(Result, frozen=True):
    """Blocks that are live at the peak of a window and hold what others hold, or held.

    Attributes:
        kind: ``"buckets"``: gradients that are copied into the buckets that are sent; ``"gradients"``: those of the step before, until the next ones
            are made; ``"states"``: of an optimizer, the old beside the new; ``"weights"``: a second set with the sizes of the first;
            ``"half_weights"``: copies of weights in half their size; ``"batch"``: one that is there before the one before it is gone.
        count: How many blocks of these there are at the peak.
        total_bytes: Their bytes.
        peak_bytes: What the peak of the window would be without them, by replaying it.
        saved_bytes: How much lower that is.
        at_most: It may be less, for part of them may be needed.
        holder: Who holds most of them; ``None`` where that is not known.
        owner: Who made most of them, likewise.
        of: Who holds what they are as large as, of weights.
    """

    kind: str
    count: int
    total_bytes: int
    peak_bytes: int
    saved_bytes: int
    at_most: bool
    holder: str | None
    owner: str | None
    of: str | None = None


class _Found(NamedTuple):
    """Blocks that need not be there for some time.

    Attributes:
        kind: See :class:`Twin`.
        alloc: The ALLOC of each, int64.
        begin: The event from which on it need not be there.
        end: What gives it back.
        holder: See :class:`Twin`; ``None`` for that of most of the bytes.
        of: See there.
    """

    kind: str
    alloc: Ints
    begin: Ints
    end: Ints
    holder: str | None = None
    of: str | None = None


class _Crossing(NamedTuple):
    """The blocks that are made in one step, or before all of them, and given back in a later one, or never.

    Attributes:
        alloc: The ALLOC of each, int64.
        free: Its FREE; more than any event where there is none.
        born: The step that makes it, -1 before the first.
        gone: The step that gives it back; as many as there are where none does.
    """

    alloc: Ints
    free: Ints
    born: Ints
    gone: Ints

    def take(self, those: Flags | Ints | slice) -> _Crossing:
        return _Crossing(*(column[those] for column in self))


class Twins:
    """What exists twice at the peak of a part of a log.

    Args:
        log: The log.
        lo: The first event of the part.
        hi: What follows its last one.
        event: What follows the event of its peak.
        live: The ALLOCs of what is live then, rising, int64.
        role: Their roles, as numbers of ``ROLES``.
        every: The roles of all blocks, an entry an event, where they are known; ``None`` where what is live at the peak has been looked at alone.
        steps: The first event of each step of the log, and what follows the last event of the last one; rising, int64.  Not needed where holders were
            recorded.
    """

    def __init__(
        self,
        log: EventLog,
        lo: int,
        hi: int,
        event: int,
        live: Ints,
        role: NDArray[np.int8],
        every: NDArray[np.int8] | None,
        steps: Ints,
    ) -> None:
        self.log, self.lo, self.hi, self.event = log, lo, hi, event
        self.live, self.role, self.every = live, role, every
        steps = steps.copy() if log.holder is None or every is None else _cycles(log, every)
        # What is given back after the last block is made goes with the program.
        steps[-1:] = len(log) - int((log.kind[::-1] == Kind.ALLOC).argmax())
        self.steps = np.maximum.accumulate(steps)
        self.size = log.size[self.live]
        self._owners = owner_labels(log)
        self.owner = owners_of(log, self.live) % len(self._owners)
        self._holders = (*log.holder_names, None)
        self.holder = np.full(len(self.live), -1) if log.holder is None else log.holder[self.live].astype(np.int64)
        self.step = self._step_of(self.live)
        self.now = int(self._step_of(np.array([event - 1])).item())

    def rows(self) -> tuple[Twin, ...]:
        """Those without which the peak would be lower by a hundredth or more; what saves most first."""
        none = self.live[:0]
        found, peak = [], None
        for one in self._candidates():
            peak = peak_without(self.log, none, none, none, self.lo, self.hi) if peak is None else peak
            level = peak_without(self.log, one.begin, one.end, self.log.size[one.alloc], self.lo, self.hi)
            there = self.live.searchsorted(one.alloc[(one.begin < self.event) & (one.end >= self.event)])
            if peak - level < max(_LEAST * peak, 1) or not len(there):
                continue
            holder = one.holder or self._most(self.holder, there, self._holders)
            owner, total = self._most(self.owner, there, self._owners), int(self.size[there].sum())
            at_most = one.kind == "half_weights"
            found.append(Twin(one.kind, len(there), total, level, peak - level, at_most, holder, owner, one.of))
        return tuple(sorted(found, key=lambda twin: twin.peak_bytes))

    def _candidates(self) -> Iterator[_Found]:
        yield from self._buckets()
        if self.now >= 0:
            yield from self._gradients()
            yield from self._states()
            yield from self._batch()
        yield from self._weights()
        yield from self._half_weights()

    # Parts of a step.

    def _step_of(self, event: Ints) -> Ints:
        return self.steps.searchsorted(event, "right") - 1

    def _is(self, *roles: str) -> Flags:
        return np.isin(self.role, [ROLE_NUMBERS[role] for role in roles])

    def _by(self, owners: re.Pattern[str]) -> Flags:
        """Which of all owners are of a kind, bool."""
        return np.array([bool(label and owners.search(label)) for label in self._owners], np.bool_)

    @cached_property
    def _crossing(self) -> _Crossing:
        """Of the whole log."""
        kind, parts = self.log.kind, list[_Crossing]()
        ends = np.append(self.steps, len(self.log) + 1)
        for start, stop in walk(0, min(int(self.steps[-1]), len(self.log))):
            alloc = np.flatnonzero(kind[start:stop] == Kind.ALLOC) + start
            free = self._free_of(alloc)
            born = self._step_of(alloc)
            those = free >= ends[np.minimum(born + 1, len(ends) - 1)]
            gone = np.minimum(self._step_of(free[those]), len(self.steps) - 1)
            parts.append(_Crossing(alloc[those], free[those], born[those], gone))
        return _Crossing(*map(np.concatenate, zip(*parts, strict=True)))

    def _of_role(self, role: str, those: Flags) -> _Crossing:
        """The blocks of a role that cross the end of a step; those at the peak that say so tell which, where not the roles of all are known."""
        found = self._crossing
        if self.every is not None:
            return found.take(self.every[found.alloc] == ROLE_NUMBERS[role])
        sizes, counts = np.unique(self.size[those], return_counts=True)
        found = found.take((found.born >= 0) & among(self.log.size[found.alloc], sizes))
        number = sizes.searchsorted(self.log.size[found.alloc])
        return found.take(rank_of(found.born * len(sizes) + number) < counts[number])

    def _of_their_kind(self, blocks: _Crossing) -> _Crossing:
        """Some blocks, and all others of their sizes and owners: of those that each step makes anew walks see a few."""
        if self.log.holder is None or not len(blocks.alloc):
            return blocks
        owners = len(self._owners)
        ours, all_of = (
            self.log.size[alloc] * owners + owners_of(self.log, alloc) % owners
            for alloc in (blocks.alloc, self._crossing.alloc)
        )
        return self._crossing.take(among(all_of, ours))

    def _followed(self, blocks: _Crossing, key: Ints) -> tuple[Ints, Ints]:
        """Which blocks are followed by one of their key that the next step makes, and which ones these are; of several in one step each by its own."""
        key = distinct(key).searchsorted(key)
        steps = len(self.steps) + 1
        rank = rank_of(key * steps + blocks.born + 1)
        name = ((key * steps) + blocks.born + 1) * (len(key) + 1) + rank
        order = np.argsort(name)
        place = np.minimum(name[order].searchsorted(name + len(key) + 1), max(len(name) - 1, 0))
        followed = name[order][place] == name + len(key) + 1
        return np.flatnonzero(followed), order[place][followed]

    # The kinds.

    def _gradients(self) -> Iterator[_Found]:
        """Gradients that wait in vain for the next ones: a step could begin without them."""
        those = self._is("gradient") & (self.step < self.now)
        if not those.any():
            return
        blocks = self._of_role("gradient", those)
        old, new = self._followed(blocks, self.log.size[blocks.alloc])
        if self.log.holder is not None:
            # They are gradients of the same parameters, and not of two models that are trained in turn.
            same, _ = self._followed(blocks, self.log.holder[blocks.alloc])
            unseen = self._holders.index(GRADIENT) if GRADIENT in self._holders else -1
            seen = self.log.holder[blocks.alloc] != unseen
            if 2 * np.count_nonzero(seen[same]) < np.count_nonzero(seen[old] & seen[new]):
                return
        old = old[blocks.free[old] < self.steps[-1]]
        of_step = np.trim_zeros(np.bincount(blocks.born[old] + 1, weights=self.log.size[blocks.alloc[old]]))
        # Some alone are none of them; of batches whose gradients are added up, the last one of a sum leaves none.
        if min(of_step, default=0) < _HALF * self.size[self._is("parameter")].sum():
            return
        yield _Found("gradients", blocks.alloc[old], self.steps[blocks.born[old] + 1], blocks.free[old])

    def _states(self) -> Iterator[_Found]:
        """States that are made anew while the old ones are there."""
        those = self._is("optimizer") & (self.step == self.now)
        if self.every is None or not those.any():
            return
        new = self._of_their_kind(self._of_role("optimizer", those))
        followed, _ = self._followed(new, self.log.size[new.alloc])
        if not len(followed):
            return
        # The first of them take the place of what no walk saw, or of what the optimizer's step made just before.
        kinds = [ROLE_NUMBERS[role] for role in ("optimizer", "variable", "temporary")]
        sizes = distinct(self.log.size[new.alloc[followed]])
        alloc = np.flatnonzero(np.isin(self.every, kinds) & (self.log.kind == Kind.ALLOC))
        new = new.take((new.born >= 0) & among(self.log.size[new.alloc], sizes))
        begins = np.full(len(self.steps) + 1, -1, np.int64)
        begins[new.born[::-1]] = new.alloc[::-1]
        alloc = alloc[among(self.log.size[alloc], sizes)]
        free = self._free_of(alloc)
        # In the last step the old ones may go after the last block is made.
        gone = np.minimum(self._step_of(free), len(self.steps) - 2)
        early = alloc < begins[gone]
        alloc, free, gone = alloc[early], free[early], gone[early]
        size, steps = sizes.searchsorted(self.log.size[alloc]), len(self.steps) + 1
        old_key, new_key = size * steps + gone, sizes.searchsorted(self.log.size[new.alloc]) * steps + new.born
        order = np.lexsort((free, old_key))
        first, last = old_key[order].searchsorted(new_key), old_key[order].searchsorted(new_key, "right")
        place = first + rank_of(new_key)
        inside = place < last
        old, begin = order[np.minimum(place, len(order) - 1)], new.alloc
        both = inside & (alloc[old] < begin) & (begin < free[old])
        yield _Found("states", alloc[old[both]], begin[both], free[old[both]])

    def _batch(self) -> Iterator[_Found]:
        """What comes from the host, and follows one of its size that is still there."""
        if self.every is None or self.log.owner is None:
            return
        loaded = self._by(_LOADED)
        those = self._is("variable") & loaded[self.owner]
        if those.any() and len(distinct(self.step[those])) > 1:
            blocks = self._of_role("variable", those)
            # What stays longer than until the end of the step after the next is something else.
            gone = np.minimum(blocks.gone, len(self.steps) - 2)
            loaded = loaded[owners_of(self.log, blocks.alloc) % len(self._owners)]
            blocks = blocks.take(loaded & (gone <= blocks.born + 2))
            for size in distinct(self.log.size[blocks.alloc]).tolist():
                of_size = blocks.take(self.log.size[blocks.alloc] == size)
                # Each is followed by the one that comes as many later as a step loads.
                a_step = max(int(np.median(np.unique(of_size.born, return_counts=True)[1])), 1)
                old, new = of_size.take(slice(-a_step)), of_size.take(slice(a_step, None))
                both = new.alloc < old.free
                yield _Found("batch", old.alloc[both], new.alloc[both], old.free[both])

    def _buckets(self) -> Iterator[_Found]:
        """Gradients that buckets hold too."""
        gradients = self._is("gradient")
        if self.every is None or not gradients.any():
            return
        of_buckets = self._by(_BUCKETS)
        buckets = of_buckets[self.owner]
        gradients &= ~buckets
        if not gradients.any() or self.size[buckets].sum() < _COVERED * self.size[gradients].sum():
            return
        alloc = np.flatnonzero((self.every == ROLE_NUMBERS["gradient"]) & (self.log.kind == Kind.ALLOC))
        alloc = alloc[~of_buckets[owners_of(self.log, alloc) % len(self._owners)]]
        free = self._free_of(alloc)
        # What a backward function makes, of a weight and of a bias, is copied when both are there.
        copied = alloc[np.minimum(np.arange(len(alloc)) + 2, len(alloc) - 1)]
        yield _Found("buckets", alloc, np.minimum(copied, free), free)

    def _weights(self) -> Iterator[_Found]:
        """A set of blocks with the sizes of the parameters, under another variable."""
        own = self._is("parameter", "buffer")
        if self.log.holder is None:
            copied = self._by(_COPIED)[self.owner]
            first = self._is("parameter", "model") & ~copied
            if alike(self.size[copied & ~own].tolist(), self.size[first].tolist()):
                yield self._whole("weights", self.live[copied & ~own])
            return
        every, numbers, _ = holders_alike(self.log.holder_names)
        held = ((self._holders[self.holder[place]] or "", place) for place in np.flatnonzero(own).tolist())
        models = models_of((name, place, int(self.size[place])) for name, place in held)
        gradients = [name for name in self.log.holder_names if role_of(name) == "gradient"]
        for copy, model in copies(models, gradients):
            places = [place for place, _ in models[copy].values()]
            yield self._whole("weights", self.live[places], f"parameter {copy}", model.path)
        variables = np.where(self._is("variable"), np.append(numbers, -1)[self.holder], -1)
        for number in distinct(variables[variables >= 0]).tolist():
            those = np.flatnonzero(variables == number)
            holder = every[len(self.log.holder_names) + number]
            for name, parts in models.items() if "[*]" in holder else ():
                if "." not in name.path and alike(self.size[those].tolist(), [size for _, size in parts.values()]):
                    yield self._whole("weights", self.live[those], holder, name.path)
                    break

    def _half_weights(self) -> Iterator[_Found]:
        """Copies of parameters in half their size, each once, that a pass makes."""
        parameters = self._is("parameter", "model")
        if not parameters.any():
            return
        numbers = self._stacks(self.live)
        used = distinct(numbers[numbers >= 0]).tolist()
        stacks = [number for number in used if any(map(_CAST.search, self.log.source.stack_of(number)))]
        halves = np.isin(numbers, stacks) & ~parameters & among(2 * self.size, self.size[parameters])
        have, most = Counter((2 * self.size[halves]).tolist()), Counter(self.size[parameters].tolist())
        whole = int(self.size[parameters].sum())
        if sum(size * min(count, most[size]) for size, count in have.items()) >= _HALF * whole and not have - most:
            alloc = np.flatnonzero((self.log.kind == Kind.ALLOC) & among(self.log.size, self.size[halves]))
            yield self._whole("half_weights", alloc[np.isin(self._stacks(alloc), stacks)])

    def _stacks(self, alloc: Ints) -> NDArray[np.int32]:
        """The number of the call stack of each of some ALLOCs, -1 for none, and of what was there before the input."""
        numbers = self.log.source.stack_numbers(self.log.offset[alloc])
        known = (alloc >= self.log.facts.opening) & (numbers is not None)
        return np.where(known, np.int32(-1) if numbers is None else numbers, np.int32(-1))

    def _whole(self, kind: str, alloc: Ints, holder: str | None = None, of: str | None = None) -> _Found:
        """Blocks that need not be there at all."""
        alloc = np.sort(alloc)
        return _Found(kind, alloc, alloc, self._free_of(alloc), holder, of)

    def _free_of(self, alloc: Ints) -> Ints:
        free: Ints = np.minimum(until(self.log.lifetimes.partner)[alloc], len(self.log)).astype(np.int64)
        return free

    def _most(self, of: Ints, places: Ints, names: tuple[str | None, ...]) -> str | None:
        """The name that most of the bytes of some blocks have, where more than half have one."""
        numbers, which = np.unique(of[places], return_inverse=True)
        totals = np.zeros(len(numbers), np.int64)
        np.add.at(totals, which, self.size[places])
        most = int(totals.argmax())
        return names[numbers[most]] if 2 * totals[most] > totals.sum() else None


def _cycles(log: EventLog, every: NDArray[np.int8]) -> Ints:
    """The first event of each step, which begins where, after gradients, something is saved for a backward pass again; and the end of the log."""
    those = np.flatnonzero(np.isin(every, (ROLE_NUMBERS["saved"], ROLE_NUMBERS["gradient"])) & (log.kind == Kind.ALLOC))
    saved = every[those] == ROLE_NUMBERS["saved"]
    begins = saved & np.append(True, ~saved[:-1])[: len(saved)]
    return np.append(those[begins], len(log))
