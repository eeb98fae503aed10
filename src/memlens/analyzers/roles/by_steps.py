"""The roles of blocks in a log without call stacks, by when they are made and given back in the steps of a training.

What is there before the first step and stays to the end are candidates for parameters; each step makes a gradient of each and gives it back, and the
first one makes a state or two of each, which stay.  That is found by sizes, without names, in what each step makes by itself; where
it is not found, nothing is said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlens.claims.roles import ROLE_NUMBERS
from memlens.columns import Flags, Ints, among, rank_of
from memlens.facts import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.events import EventLog

#: How much of the bytes of what was there before the gradients of a step must cover, pairs of states, and of parameters single states.
_GRADIENTS, _PARAMETERS, _STATES = 0.4, 0.5, 0.9
#: Steps that there must be, and blocks of parameters.
_FEW_STEPS, _FEW_BLOCKS = 2, 4


def roles_by_steps(log: EventLog, lo: Ints, hi: Ints, event: int, live: Ints) -> NDArray[np.int8] | None:
    """The roles of what is live at a moment, as numbers of ``ROLES``, -1 where nothing tells one; ``None`` where the steps show none.

    Rules after measurements of logs of AdamW, SGD and momentum whose models were known.  Looked at are the first step, that of the moment, and the
    one before it; of what an earlier one left nothing is told but states.

    Args:
        log: The log, begun before the model was made.
        lo: The first event of each of its steps, in order, of which none shares one with another, int64.
        hi: What follows the last event of each.
        event: The event before which it is.
        live: The ALLOCs of what is live then, rising, int64.
    """
    now = int(lo.searchsorted(event - 1, "right")) - 1
    if len(lo) < _FEW_STEPS or (lo[1:] < hi[:-1]).any() or log.facts.opening or not lo[0] or now < 0:
        return None
    kind, recent = log.kind, max(int(lo[max(now - 1, 0)]), int(hi[0]))
    alloc = np.concatenate(
        (np.flatnonzero(kind[: hi[0]] == Kind.ALLOC), np.flatnonzero(kind[recent : hi[now]] == Kind.ALLOC) + recent)
    )
    last = len(kind) - 1 - int((kind[::-1] == Kind.ALLOC).argmax())
    size, partner = log.size[alloc], log.lifetimes.partner[alloc].astype(np.int64)
    free = np.where(partner >= 0, partner, len(log))
    stays = free > last
    step = lo.searchsorted(alloc, "right") - 1
    step[(step >= 0) & (alloc >= hi[step])] = -1
    before = stays & (alloc < lo[0])
    sizes, counts = np.unique(size[before], return_counts=True)
    if counts.sum() < _FEW_BLOCKS:
        return None
    role = np.full(len(alloc), -1, np.int8)
    made = (step >= 0) & among(size, sizes)
    of_size = sizes.searchsorted(size) % len(sizes)
    # What the first step leaves: two states of each parameter, of AdamW, tell which those are; one, of momentum, is told by gradients.
    left = made & stays & (step == 0)
    of_left = np.bincount(of_size[left], minlength=len(sizes))
    pairs = np.minimum(of_left // 2, counts)
    whole = int(sizes @ counts)
    # Of single states there are no more than of what may be parameters.
    doubled = (of_left > counts) @ (of_left * sizes) > of_left @ sizes / 2
    states = 2 if doubled and pairs @ sizes >= _PARAMETERS * whole else 0
    counts = pairs if states else counts
    optimizer = left & (_rank(size, left) < states * counts[of_size])
    those = np.flatnonzero(made & ~optimizer & ~left)
    gradient = np.zeros(len(alloc), np.bool_)
    gradient[those] = _gradients(alloc[those], free[those], size[those], step[those], sizes, counts, hi)
    covered = np.bincount(step[gradient], weights=size[gradient], minlength=1).max()
    if not states:  # as many as one step makes gradients of
        kinds, have = np.unique(step[gradient] * len(sizes) + of_size[gradient], return_counts=True)
        counts = np.zeros(len(sizes), np.int64)
        np.maximum.at(counts, kinds % len(sizes), have)
    parameter = before & (_rank(size, before) < counts[of_size])
    if not states:
        one = left & (_rank(size, left) < counts[of_size])
        if _STATES * int(size[parameter].sum()) <= int(size[one].sum()):
            states, optimizer = 1, one
    # Where no states are seen to come, they may have come before the first line that counts steps, and stand among the parameters.
    if not gradient.any() or (not states and covered < _STATES * whole):
        return None
    for name, blocks in (("gradient", gradient), ("parameter", parameter), ("optimizer", optimizer)):
        role[blocks] = ROLE_NUMBERS[name]
    # What each step makes before the first of its gradients and gives back after it was saved for the backward pass.
    first, there = np.full(len(lo) + 1, len(log), np.int64), np.append(hi, 0)
    np.minimum.at(first, step[gradient], alloc[gradient])
    there[step[gradient]] = alloc[gradient]
    inside = (step >= 0) & (role < 0) & (free < hi[step])
    # Of a step that fills up again when all gradients are there, as one does that adds up those of several batches, that says nothing.
    others = inside & ~stays & ~among(size, sizes)
    parts = (others & late for late in (alloc > there[step], alloc <= there[step]))
    again, first_time = (_heights(alloc[some], free[some], size[some], step[some], len(lo)) for some in parts)
    own = inside & (2 * again <= first_time)[step]
    role[own] = ROLE_NUMBERS["temporary"]
    forward = alloc < first[step]
    role[own & forward & (free > first[step])] = ROLE_NUMBERS["saved"]
    # … and gives back in the next step was kept by the program until it had another one: a batch, a loss.  So was what the last step but one
    # left to the last, where steps before these left nothing of its size.
    kept = (step >= 0) & (role < 0) & ~inside & (free < np.append(hi[1:], 0)[step])
    older = live[(live >= hi[0]) & (live < recent)]
    kept &= ~stays | ~among(size, log.size[older])
    role[kept & (forward | ~among(size, size[parameter]))] = ROLE_NUMBERS["variable"]
    place = np.minimum(alloc.searchsorted(live), len(alloc) - 1)
    return np.where(alloc[place] == live, role[place], np.int8(-1))


def _gradients(alloc: Ints, free: Ints, size: Ints, step: Ints, sizes: Ints, counts: Ints, hi: Ints) -> Flags:
    """Which of the blocks that steps make, of the sizes of what was there before, are gradients.

    At the moment of a step when what it made by itself covers those sizes best, the blocks of each size that live longest.

    Args:
        alloc: Where each block is made, int64.
        free: Where it is given back.
        size: Its size.
        step: The step that makes it.
        sizes: The sizes of what was there before, rising.
        counts: How many blocks there were of each.
        hi: The end of each step.
    """
    kind = sizes.searchsorted(size)
    # Each block comes and, within its step, goes: how many of its size the step has then, and what that adds to what is covered.
    goes = free < hi[step]
    event, sign = (
        np.concatenate((alloc, free[goes])),
        np.concatenate((np.ones(len(alloc), np.int64), np.full(goes.sum(), -1))),
    )
    of_step, of_kind = np.concatenate((step, step[goes])), np.concatenate((kind, kind[goes]))
    order = np.lexsort((event, of_kind, of_step))
    event, sign, of_step, of_kind = event[order], sign[order], of_step[order], of_kind[order]
    have = _sums(sign, (np.diff(of_step, prepend=-1) != 0) | (np.diff(of_kind, prepend=-1) != 0))
    most = counts[of_kind]
    adds = (np.minimum(have, most) - np.minimum(have - sign, most)) * sizes[of_kind]
    order = np.lexsort((event, of_step))
    event, of_step, of_kind, sign = event[order], of_step[order], of_kind[order], sign[order]
    starts = np.diff(of_step, prepend=-1) != 0
    covered = _sums(adds[order], starts)
    (begins,) = np.nonzero(starts)
    best = np.maximum.reduceat(covered, begins)
    # Of several such moments the last with the least of those sizes: the gradients are all there, and little that is alike.
    all_there = _sums(sign * sizes[of_kind], starts)
    (at_best,) = np.nonzero(covered == np.repeat(best, np.diff(begins, append=len(covered))))
    at_best = at_best[np.lexsort((-at_best, all_there[at_best], of_step[at_best]))]
    steps, first = np.unique(of_step[at_best], return_index=True)
    enough = best >= _GRADIENTS * int(sizes @ counts)
    moment = np.full(len(hi), -1, np.int64)
    moment[steps[enough]] = event[at_best[first[enough]]]
    live = (alloc <= moment[step]) & (free > moment[step])
    # Of each size those that live longest.
    (those,) = np.nonzero(live)
    those = those[np.lexsort((-free[those], kind[those], step[those]))]
    rank = rank_of(step[those] * len(sizes) + kind[those])
    chosen = np.zeros(len(alloc), np.bool_)
    chosen[those[rank < counts[kind[those]]]] = True
    return chosen


def _heights(alloc: Ints, free: Ints, size: Ints, step: Ints, steps: int) -> Ints:
    """How many bytes of some blocks are live together in each step, at most; all are given back in the step that makes them."""
    of, order = np.tile(step, 2), np.concatenate((alloc, free)).argsort()
    found = np.zeros(steps, np.int64)
    np.maximum.at(found, of[order], np.concatenate((size, -size))[order].cumsum())
    return found


def _sums(values: Ints, starts: Flags) -> Ints:
    """Running sums that begin anew at each start."""
    total = np.cumsum(values)
    (begins,) = np.nonzero(starts)
    before = np.append(0, total)[begins]
    sums: Ints = total - np.repeat(before, np.diff(begins, append=len(values)))
    return sums


def _rank(size: Ints, those: Flags) -> Ints:
    """How many of some blocks of one size come before each; far more than there are for others."""
    rank = np.full(len(size), len(size), np.int64)
    rank[those] = rank_of(size[those])
    return rank
