"""Call stacks of changes of memory in a Kineto trace: the operators around each, and then the frames of Python around it."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens.columns import distinct, rows_alike
from memlens.source import NumberedSource

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from memlens.columns import Flags, Ints
    from memlens.inputs.kineto.events import Spans

#: Operators that are a node of the graph in a backward pass; their second name is all that they had in 2021.
_IS_NODE = re.compile(r"autograd::engine::evaluate_function|\w+Backward\d*$").match
_RANK_BITS = np.int64(32)
#: Names of a chain, at most, about as many: what is far out may be as far from several of those asked for.
_MOST_FRAMES = 512


def nodes(texts: Sequence[str]) -> Flags:
    """Which of some operators are nodes of the graph in a backward pass, bool."""
    return np.array([bool(_IS_NODE(text)) for text in texts], np.bool_)


class Nesting:
    """Some intervals of a trace, and which of them are around a time or around each other.

    Intervals may overlap in any way.  Both ends belong to an interval.

    Args:
        spans: All intervals, whose tracks are below 2**31.
        chosen: Which of them, bool.
    """

    def __init__(self, spans: Spans, chosen: Flags) -> None:
        rows = np.flatnonzero(chosen)
        self._all, start, end = len(chosen), spans.start[rows], spans.end[rows]
        # Times as ranks, so that a track and a time make one number.
        self._times = distinct(start)
        key = (spans.track[rows] << _RANK_BITS) | self._times.searchsorted(start)
        order = np.lexsort((-end, key))
        self._order, self._key, self._end = rows[order], key[order], end[order]
        #: The largest end in each whole block of 1, 2, 4, … intervals.
        self._largest = [self._end]
        while len(self._largest[-1]) > 1:
            self._largest.append(np.maximum(self._largest[-1][:-1:2], self._largest[-1][1::2]))

    def innermost(self, track: Ints, time: Ints) -> Ints:
        """The interval of the same track that holds each time and started last; of those that started together, the one that ends first; -1 for none.

        Intervals are indices of all of the trace, here and below.

        Args:
            track: Whose each time is, int64, ``(m,)``.
            time: The times, int64.
        """
        rank = self._times.searchsorted(time, "right") - 1
        last = self._key.searchsorted((track << _RANK_BITS) + rank, "right") - 1
        return np.append(self._order, -1)[self._reaching(track, last, time)]

    def around(self, intervals: Ints) -> Ints:
        """The innermost interval of the same track that began before each of some and ends no earlier; -1 for none."""
        place = self._place[intervals]
        track = self._key[place] >> _RANK_BITS
        return np.append(self._order, -1)[self._reaching(track, place - 1, self._end[place])]

    @cached_property
    def _place(self) -> Ints:
        place = np.empty(self._all, np.int64)
        place[self._order] = np.arange(len(self._order))
        return place

    def _reaching(self, track: Ints, last: Ints, least: Ints) -> Ints:
        """The last place up to ``last`` of a track with an interval that ends at ``least`` or later, or -1, for each of some.

        What stands up to a place is cut into aligned blocks of powers of two, as the bits of its length say, the nearest ones the smallest.
        The first block whose largest value is enough is halved until one value is left, on the right where that has one.
        """
        length = last + 1
        block, size = np.full(len(last), -1, np.int64), np.full(len(last), -1, np.int64)
        for power, most in enumerate(self._largest):
            at = np.flatnonzero((block < 0) & (length >> power & 1 == 1))
            nearest = (length[at] >> power) - 1
            enough = most[nearest] >= least[at]
            block[at[enough]], size[at[enough]] = nearest[enough], power
            length[at[~enough]] -= 1 << power
        for power in range(len(self._largest) - 1, 0, -1):
            at = np.flatnonzero(size == power)
            right = 2 * block[at] + 1
            block[at], size[at] = right - (self._largest[power - 1][right] < least[at]), power - 1
        block[block < self._key.searchsorted(track << _RANK_BITS)] = -1  # what was found is another track's
        return block


class _Chains(NamedTuple):
    """The chains of names that intervals and all around them have.

    Attributes:
        of: The number of the chain of each of the intervals that were asked for, -1 for none.
        name: The innermost name of each chain.
        rest: The chain of what is around that, -1 for none.
    """

    of: Ints
    name: Ints
    rest: Ints

    def names(self, chain: int) -> list[int]:
        """The names of a chain, innermost first."""
        names = []
        while chain >= 0:
            names.append(int(self.name[chain]))
            chain = int(self.rest[chain])
        return names


def _chains(nesting: Nesting, name: Ints, asked: Ints) -> _Chains:
    """Number the chains of intervals; those of one number have the same names in the same order.

    Args:
        nesting: The intervals.
        name: The number of the name of each.
        asked: The intervals whose chains are wanted, -1 for none.
    """
    around = np.full(len(name) + 1, -1, np.int64)
    seen = np.zeros(len(name) + 1, np.bool_)
    seen[-1] = True  # stands for none
    level = distinct(asked[asked >= 0])
    for _ in range(_MOST_FRAMES):
        if not len(level):
            break
        seen[level] = True
        around[level] = nesting.around(level)
        level = distinct(around[level])
        level = level[~seen[level]]
    around[~seen[around]] = -1
    (those,) = np.nonzero(seen[:-1])
    depth, outer = np.zeros(len(those), np.int64), around[those]
    while (outer >= 0).any():
        depth += outer >= 0
        outer = around[outer]
    chain, names, rests, count = np.full(len(name) + 1, -1, np.int64), [name[:0]], [name[:0]], 0
    width = int(name.max(initial=0)) + 1
    for number in range(int(depth.max(initial=-1)) + 1):
        of_depth = those[depth == number]
        keys, which = np.unique((chain[around[of_depth]] + 1) * width + name[of_depth], return_inverse=True)
        chain[of_depth] = which + count
        names.append(keys % width)
        rests.append(keys // width - 1)
        count += len(keys)
    return _Chains(chain[asked], np.concatenate(names), np.concatenate(rests))


class CallStacks:
    """The call stacks of changes of memory; worked out when one is asked for.

    Args:
        spans: The operators and frames of the whole trace.
        texts: The names of the spans, and call stacks in one line, by number.
        frame_of: Gives a name as a frame, ``file:line function``; ``""`` of what is none.
        ops: The operators among the spans.
        frames: … and the frames.
        op: The innermost operator of each change, as an index of the spans, -1 for none.
        frame: … and its innermost frame.
    """

    def __init__(
        self,
        spans: Spans,
        texts: Sequence[str],
        frame_of: Callable[[str], str],
        ops: Nesting,
        frames: Nesting,
        op: Ints,
        frame: Ints,
    ) -> None:
        self._spans, self._texts, self._frame_of = spans, texts, frame_of
        self._ops, self._frames = ops, frames
        self._op, self._frame = op, frame

    @cached_property
    def numbers(self) -> NDArray[np.int32] | None:
        """The number of the stack of each change, -1 where neither a frame nor a node of a backward pass is around it; ``None`` where no frame is around any."""
        spans, (ops, frames) = self._spans, self._parts
        known = np.append(nodes(self._texts)[ops.name], False)
        outer = ops.rest
        while (outer >= 0).any():
            known[:-1] |= known[outer]
            outer = np.append(ops.rest, -1)[outer]
        text = np.append(spans.stack, -1)[self._op]
        text[~np.array([*map(bool, self._texts), False], np.bool_)[text]] = -1
        framed = (frames.of >= 0) | (text >= 0)
        if not framed.any():
            return None
        first, which = rows_alike(ops.of, frames.of, text)
        self._rows = np.stack((ops.of, frames.of, text), axis=1)[first]
        return np.where(framed | known[ops.of], which, -1).astype(np.int32)

    def stack_of(self, number: int) -> tuple[str, ...]:
        """The frames of a stack, innermost first: operators by their names, and then frames as ``file:line function``."""
        if self.numbers is None or number < 0:
            return ()
        of_op, of_frame, text = self._rows[number].tolist()
        ops, frames = self._parts
        lines = self._texts[text].split(";") if text >= 0 else [self._texts[name] for name in frames.names(of_frame)]
        return *(self._texts[name] for name in ops.names(of_op)), *filter(None, map(self._frame_of, lines))

    @cached_property
    def _parts(self) -> tuple[_Chains, _Chains]:
        name = self._spans.name
        return _chains(self._ops, name, self._op), _chains(self._frames, name, self._frame)


class KinetoSource(NumberedSource):
    """A trace as the source of one of its devices: it has no lines of text, but knows call stacks.

    Args:
        name: The path as the user gave it.
        stacks: Those of the whole trace.
        rows: Which of the changes of the trace are the device's.
        offset: Their numbers among what is numbered, rising.
    """

    def __init__(self, name: str, stacks: CallStacks, rows: Ints, offset: Ints) -> None:
        super().__init__(name)
        self._stacks, self._rows, self._offset = stacks, rows, offset

    def stack_numbers(self, offsets: NDArray[np.int64]) -> NDArray[np.int32] | None:
        numbers = self._stacks.numbers
        if numbers is None:
            return None
        place = np.minimum(self._offset.searchsorted(offsets), len(self._offset) - 1)
        return np.where(self._offset[place] == offsets, numbers[self._rows[place]], np.int32(-1))

    def stack_of(self, number: int) -> tuple[str, ...]:
        return self._stacks.stack_of(number)
