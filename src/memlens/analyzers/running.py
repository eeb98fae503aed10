"""Levels and windows of a log that is still written, whose events are forgotten once they are counted.

What is kept for each set of groups of events that may count (:class:`~memlens.inputs.input_format.NewEvents`) is a :class:`~memlens.folding.Tally`, merged as
the log goes on, whose segments are cut by lines of the text, of which windows are made; and the highest levels in stretches that have equally many events.
The figures are those of the whole log, for tallies merge exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlens.columns import Ints, distinct
from memlens.events import EventLog, running_sums
from memlens.folding import SUMS, Figures, Tally, tally
from memlens.spool import GrowingColumn

if TYPE_CHECKING:
    from memlens.inputs.input_format import NewEvents


#: Stretches of a timeline at most.
STRETCHES = 512
#: Parts of a tally that are joined when there are more.
_MOST_PARTS = 64


class Running:
    """Takes what is read of a log, in order.

    Places in the text are byte offsets; a segment holds the events of the lines from its edge on.

    Args:
        limits: Of allocated and of reserved bytes: the first line at which each is exceeded is noted; ``None`` for no limit.

    Attributes:
        events: Events so far, those among them that do not count.
        stretch: Events of a stretch of the timeline: a power of two, such that there are no more than :data:`STRETCHES`.
        end: Where the text ends that was read.
    """

    def __init__(self, limits: tuple[int | None, int | None] = (None, None)) -> None:
        self._limits = limits
        self._sets: dict[frozenset[int], _Levels] = {}
        self._seen: set[int] = set()
        self._edges = np.zeros(1, np.int64)  # where the text is cut, and its end
        self._noted = 0
        self.events, self.stretch, self.end = 0, 1, 0

    def add(self, new: NewEvents, cuts: Ints) -> None:
        """Take the next part of the log.

        Args:
            new: The part.
            cuts: Where to cut its text, rising byte offsets, int64.
        """
        if new.end == self.end:
            return
        columns = new.columns
        cuts = cuts[cuts > 0]
        places = distinct(np.concatenate(([self.end, new.end], cuts)))
        at = np.searchsorted(columns["offset"], places)
        at[-1] = len(columns["offset"])
        count = self.events + len(columns["kind"])
        while count > self.stretch * STRETCHES:
            self.stretch *= 2
            for levels in self._sets.values():
                pairs = np.arange(0, levels.highest.shape[1], 2)
                levels.highest = np.maximum.reduceat(levels.highest, pairs, axis=1) if len(pairs) else levels.highest
        group = np.zeros(min(len(columns["kind"]), 1), np.int8) if new.group is None else new.group
        # A new set begins as others were before this part.
        self._sets = {of: self._sets.get(of) or self._started(frozenset(of & self._seen)) for of in new.sets}
        for of, levels in self._sets.items():
            some, numbers, own = columns, np.arange(len(columns["kind"])), at
            if new.group is not None and not (mine := np.isin(new.group, list(of))).all():
                numbers = np.flatnonzero(mine)
                some = {name: columns[name][numbers] for name in ("kind", "size", "addr", "line")}
                own = np.searchsorted(numbers, at)
            log = EventLog(some["kind"], some["size"], some["addr"], some["line"])
            begins = np.arange(levels.highest.shape[1], -(-count // self.stretch)) * self.stretch
            levels.add(log, some["line"], self.events + numbers, begins, self.stretch, self._limits)
            levels.cut(log, some["line"], places, own, kept=self.end in cuts)
        self._seen.update(distinct(group).tolist() if len(group) else ())
        kept = self._edges if self.end == 0 or self.end in cuts else self._edges[:-1]
        self._edges = np.concatenate((kept, places[1:]))
        self.events, self.end = count, new.end

    def _started(self, known: frozenset[int]) -> _Levels:
        """The levels of a set of groups none of whose events were seen, but for those that are a set by themselves."""
        if known:
            return self._sets[known].copy()
        noted, highest = GrowingColumn(np.int64), np.zeros((2, -(-self.events // self.stretch)), np.int64)
        noted.fill(0, self._noted)
        return _Levels(GrowingTally(Tally.zeros(self._edges)), highest, noted)

    def forget(self, kept: Ints, noted: Ints) -> None:
        """Keep only those edges of the text that are named, besides its start and its end.

        Args:
            kept: The edges, rising, int64.
            noted: Edges at which the level is noted before, rising, int64: see :meth:`noted`.
        """
        self._edges = distinct(np.concatenate(([0, self.end], kept)))
        self._noted += len(noted)
        for levels in self._sets.values():
            levels.noted.append(levels.text.tally.over(noted, noted).levels[0])
            levels.text.squeeze(self._edges)

    def noted(self, blocks: frozenset[int]) -> Ints:
        """The allocated level at each place that was noted when edges were forgotten, int64."""
        return self._of(blocks).noted.entries()

    def figures(self, blocks: frozenset[int], chunks: frozenset[int], lo: Ints, hi: Ints) -> Figures:
        """The figures of stretches of the text, which must begin and end at cuts: of blocks of one set of groups and of chunks of another one."""
        found, theirs = (self._of(of).text.tally.over(lo, hi) for of in (blocks, chunks))
        rows = slice(SUMS.index("reserve_bytes"), SUMS.index("releases") + 1)
        found.sums[rows], found.rise[1], found.levels[1] = theirs.sums[rows], theirs.rise[1], theirs.levels[1]
        return found

    def whole(self, blocks: frozenset[int], chunks: frozenset[int]) -> tuple[dict[str, int], int | None]:
        """The figures of all that was read, by the names of :attr:`~memlens.folding.Figures.columns`, and the line that first reaches the peak."""
        found = self.figures(blocks, chunks, np.zeros(1, np.int64), np.array([self.end]))
        figures = {name: int(column[0]) for name, column in found.columns.items()}
        return figures, int(found.summit[0]) if figures["rise_bytes"] else None

    def exceeded(self, blocks: frozenset[int], chunks: frozenset[int]) -> tuple[int | None, int | None]:
        """The first line at which each limit is exceeded; ``None`` where it is not, or there is none."""
        return self._of(blocks).exceeded[0], self._of(chunks).exceeded[1]

    def timeline(self, blocks: frozenset[int], chunks: frozenset[int]) -> tuple[Ints, Ints]:
        """The highest allocated and reserved level in each stretch of :attr:`stretch` events, int64; the last one may have less."""
        return self._of(blocks).highest[0], self._of(chunks).highest[1]

    def _of(self, groups: frozenset[int]) -> _Levels:
        return self._sets.get(groups) or self._started(frozenset())


class _Levels:
    """The levels of one set of groups.

    Attributes:
        text: Segments by places in the text; the summit of each is the line of its event.
        highest: The highest allocated and reserved level in each stretch, int64, a row each.
        noted: Allocated levels.
        levels: Allocated and reserved bytes now.
        exceeded: The first line at which each of them was above its limit.
    """

    def __init__(self, text: GrowingTally, highest: Ints, noted: GrowingColumn) -> None:
        self.text, self.highest, self.noted = text, highest, noted
        self.levels, self.exceeded = [0, 0], list[int | None]([None, None])

    def copy(self) -> _Levels:
        noted = GrowingColumn(np.int64)
        noted.append(self.noted.entries())
        made = _Levels(self.text.copy(), self.highest, noted)
        made.levels, made.exceeded = self.levels, [*self.exceeded]
        return made

    def add(
        self,
        log: EventLog,
        line: Ints,
        numbers: Ints,
        begins: Ints,
        stretch: int,
        limits: tuple[int | None, int | None],
    ) -> None:
        """Go on with the next events.

        Args:
            log: Those that are of this set.
            line: Their lines.
            numbers: How manieth of all events each is.
            begins: The first events of the stretches that begin among all that are new.
            stretch: Events of a stretch.
            limits: Of allocated and of reserved bytes.
        """
        # int64, a row each: allocated and reserved bytes before the first of them, and right after each.
        levels = np.concatenate(
            [np.array(self.levels)[:, None], running_sums(log.kind, log.size, *self.levels)], axis=1
        )
        for row, limit in enumerate(limits):
            if limit is not None and self.exceeded[row] is None and (above := levels[row, 1:] > limit).any():
                self.exceeded[row] = int(line[int(above.argmax())])
        self.highest = np.concatenate([self.highest, levels[:, numbers.searchsorted(begins)]], axis=1)
        if len(numbers):
            first = np.flatnonzero(np.diff(numbers // stretch, prepend=-1))
            there = numbers[first] // stretch
            highest = np.maximum.reduceat(levels[:, 1:], first, axis=1)
            self.highest[:, there] = np.maximum(self.highest[:, there], highest)
        self.levels = levels[:, -1].tolist()

    def cut(self, log: EventLog, line: Ints, edges: Ints, at: Ints, *, kept: bool) -> None:
        """Put the same events to those before, cut at edges in the text, with the event at each; ``kept`` as in :meth:`GrowingTally.add`."""
        found = tally(log, distinct(np.append(0, at))).over(at[:-1], at[1:])
        lines = line[found.summit] if len(log) else found.summit
        self.text.add(Tally(edges, found.sums, found.largest, found.rise, lines), kept=kept)


class GrowingTally:
    """A tally that grows at its end: segments that are closed, in parts, and the last one."""

    def __init__(self, *parts: Tally) -> None:
        self._parts = list(parts)

    def copy(self) -> GrowingTally:
        return GrowingTally(*self._parts)

    def add(self, more: Tally, *, kept: bool) -> None:
        """Take what follows; ``kept`` says that it begins a segment of its own, and does not go on with the last one."""
        last = self._parts.pop()
        if not kept and len(last):
            last, rest = last.part(0, len(last) - 1), last.part(len(last) - 1, len(last))
            more = rest.join(more).squeeze(np.append(rest.edges[:1], more.edges[1:]))
        self._parts += [part for part in (last, more) if len(part)]
        if len(self._parts) > _MOST_PARTS:
            self._parts = [self.tally]

    @property
    def tally(self) -> Tally:
        """All segments."""
        if len(self._parts) > 1:
            self._parts = [self._parts[0].join(*self._parts[1:])]
        return self._parts[0]

    def squeeze(self, edges: Ints) -> None:
        """Keep only these edges."""
        self._parts = [self.tally.squeeze(edges)]
