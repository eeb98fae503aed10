"""Who holds what is live in a log that is still written: its live blocks, and what the walks of the recorder say of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens.analyzers.groups import holders_alike
from memlens.claims.roles import OF_GRAPH, SAW_ALL, STAYING
from memlens.columns import distinct
from memlens.facts import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from memlens.columns import Ints
    from memlens.inputs.input_format import NewEvents


#: Walks that are kept, holders of each, and walks of one part of the log that are looked at, at most.
_MOST_WALKS, _MOST_HOLDERS, _AT_ONCE = 32, 256, 8


class Walk(NamedTuple):
    """What a walk that saw all found.

    Attributes:
        line: The line of the last event before it, 1-based.
        window: The window of the series that it is in at the latest, 0-based.
        live_bytes: What is live there, of the blocks that are known.
        all_known: These are all blocks.
        held: The holders with the most bytes, and the bytes and blocks of each; those that differ by an index or a key alone are one.
        left_out_bytes: The most that a holder has that is not among them.
    """

    line: int
    window: int
    live_bytes: int
    all_known: bool
    held: Mapping[str, tuple[int, int]]
    left_out_bytes: int

    def gained(self, holder: str, before: Walk) -> int:
        """The bytes that a holder surely has more than in an earlier walk."""
        return self.held[holder][0] - before.held.get(holder, (before.left_out_bytes, 0))[0]


class Holding:
    """Follows the live blocks of a log that names variables, and who holds them.

    Attributes:
        walks: The last walk, and ever fewer of those before.
    """

    def __init__(self) -> None:
        self.walks: list[Walk] = []
        #: Of each live block its address, rising; its size, the number of who was last said to hold it, or -1, and in which walk.
        self._addr, self._blocks = np.zeros(0, np.uint64), np.zeros((3, 0), np.int64)
        self._names: dict[str, int] = {}
        self._line = self._walk = self._before = 0
        self._layers: frozenset[int] = frozenset()

    def take(self, new: NewEvents, window: int) -> None:
        """Take the next part of a log.

        Args:
            new: The part.
            window: The window in which it ends.
        """
        kind, line, rows = new.columns["kind"], new.columns["line"], new.holders
        if rows is None:
            self._before += len(kind)
            return
        if (layers := new.selected[0].blocks) != self._layers:  # what was taken for the blocks of the log before is not
            self._before, self._layers = self._before + len(self._addr), layers
            self._addr, self._blocks = self._addr[:0], self._blocks[:, :0]
        mine = kind <= Kind.FREE
        if new.group is not None:
            mine &= np.isin(new.group, list(layers))
        events, before = np.flatnonzero(mine), np.append(0, np.cumsum(mine))[rows.before]
        addr, size = new.columns["addr"][events], np.where(kind == Kind.ALLOC, new.columns["size"], -1)[events]
        every, alike, _ = holders_alike(rows.names)
        numbers = [self._names.setdefault(name, len(self._names)) for name in every[len(rows.names) :]]
        ends = rows.addr == 0
        ends &= ~np.array([name.startswith(OF_GRAPH) for name in rows.names], np.bool_)[rows.name]
        said = np.stack(
            (np.zeros_like(rows.name), np.array(numbers, np.int64)[alike[rows.name]], np.cumsum(ends) - ends)
        )
        said[2] += self._walk
        self._walk += int(ends.sum())
        saw_all = np.array([name == SAW_ALL for name in rows.names], np.bool_)
        (at,) = (ends & saw_all[rows.name]).nonzero()
        event = row = 0
        for end in at[distinct(np.linspace(0, len(at) - 1, min(len(at), _AT_ONCE)).astype(np.int64))].tolist():
            parts = slice(event, int(before[end])), slice(row, end)
            self._advance(
                addr[parts[0]], size[parts[0]], before[parts[1]] - event, rows.addr[parts[1]], said[:, parts[1]]
            )
            event, row = int(before[end]), end + 1
            last = int(rows.before[end])
            self._note(int(said[2, end]), int(line[last - 1]) if last else self._line, window)
        self._advance(addr[event:], size[event:], before[row:] - event, rows.addr[row:], said[:, row:])
        self._line = int(line[-1]) if len(line) else self._line
        # Names that no live block has are forgotten.
        used = distinct(self._blocks[1])
        used = used[used >= 0]
        kept = [*self._names]
        self._names = {kept[number]: k for k, number in enumerate(used.tolist())}
        self._blocks[1] = np.where(self._blocks[1] >= 0, used.searchsorted(self._blocks[1]), -1)

    def _advance(
        self, addr: NDArray[np.uint64], size: Ints, before: Ints, named: NDArray[np.uint64], said: Ints
    ) -> None:
        """Take some ALLOCs and FREEs, these of size -1, and the rows that name holders, with the events that stand before each."""
        kept, events = len(self._addr), np.stack((size, np.full_like(size, -1), np.full_like(size, -1)))
        every, values = np.concatenate((self._addr, addr, named)), np.concatenate((self._blocks, events, said), axis=1)
        when = np.concatenate((np.full(kept, -1), 2 * np.arange(len(addr)) + 1, 2 * before))
        order = np.lexsort((when, every))
        every = every[order]
        begins = np.flatnonzero(np.append(True, every[1:] != every[:-1])[: len(every)])
        ends = np.append(begins[1:], len(every))[: len(begins)] - 1
        # The last event of each address, and the last row, which may stand behind it.
        is_event = order < kept + len(addr)
        last = np.maximum.accumulate(np.where(is_event, np.arange(len(order)), -1))[ends]
        live = (last >= begins) & (values[0, order[last]] >= 0)
        self._addr = every[begins[live]]
        self._blocks = values[:, order[ends[live]]]
        self._blocks[0] = values[0, order[last[live]]]

    def _note(self, walk: int, line: int, window: int) -> None:
        """Keep what a walk found: a block is held by whom that walk names, or one before, of those that are named once."""
        size, name, said = self._blocks
        stays = np.array([text.startswith(STAYING) for text in self._names], np.bool_)
        held = name >= 0
        held[held] &= (said[held] == walk) | stays[name[held]]
        totals, counts = np.zeros(len(stays), np.int64), np.bincount(name[held], minlength=len(stays))
        np.add.at(totals, name[held], size[held])
        order, names = np.argsort(-totals, kind="stable"), [*self._names]
        most = order[:_MOST_HOLDERS]
        found = zip(most.tolist(), totals[most].tolist(), counts[most].tolist(), strict=True)
        left_out = int(totals[order[_MOST_HOLDERS:]].max(initial=0))
        held_by = {names[k]: (total, count) for k, total, count in found if count}
        self.walks.append(Walk(line, window, int(size.sum()), not self._before, held_by, left_out))
        if len(self.walks) > _MOST_WALKS:
            self.walks = [*self.walks[:-1:2], self.walks[-1]]
