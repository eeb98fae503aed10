"""Who holds the blocks of a log, as walks of the recorder found it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

import numpy as np

from memlens.claims.roles import (
    EITHER,
    GIVEN,
    GRADIENT,
    GRAPH,
    NO_VARIABLE,
    OF_BACKWARD,
    OF_GRAPH,
    SAW_ALL,
    STATE,
    STAYING,
    TEMPORARY,
    UNSEEN,
    role_of,
)
from memlens.events import pair
from memlens.facts import Kind
from memlens.inputs.input_format import HolderLines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from memlens.columns import Flags, Ints
    from memlens.inputs.calls import Calls

#: A tensor's share of all of an operator's nodes, in tenths, at least, for what they have saved to be of its graph.
_SHARE = 9
#: Nodes that are not called after the operator.
_NODES = {
    "linear": ("matmul", "add"),
    "sub": ("subtract", "scale"),
    "rsub": ("subtract", "scale"),
    "mul": ("multiply", "scale"),
    "rmul": ("multiply", "scale"),
    "truediv": ("divide", "divscale", "scale"),
    "div": ("divide", "divscale", "scale"),
    "radd": ("add", "scale"),
    "add": ("add", "scale"),
    "getitem_index_not_tensor": ("slice", "stridedslice"),
    "clone": ("assign",),
}
#: What of a holder names the variable whose attributes lead on, and where that is.
_LEADS = re.compile(r"variable [^.\[ ]+(?=\.)| \([^()]*\)$")
#: One place of the program at a time: no element of something, nor of a ``self``, of which there are several.
_ONE = re.compile(r"variable (?!self\.)[^\[]*$")
#: Characters of a holder, at most.
_LONGEST = 240


def is_count(value: Any, below: int) -> TypeGuard[int]:
    """Whether a value is a whole number, not negative and below a bound."""
    return type(value) is int and 0 <= value < below


class Walks(NamedTuple):
    """What walks found, a row a block that is held, in order.

    Attributes:
        names: The holders.
        time_us: Microseconds since 1970 of each walk, int64, rising.
        walk: The walk of each row, int64.
        addr: Its address, uint64; 0 is that of the row after a walk.
        name: An index of the names, int64.
    """

    names: tuple[str, ...]
    time_us: Ints
    walk: Ints
    addr: NDArray[np.uint64]
    name: Ints


def read_walks(noted: Any) -> Walks | None:
    """What a program of PyTorch noted; ``None`` where that is nothing, or nothing that can be read."""
    found = noted.get("holders") if type(noted) is dict else None
    if type(found) is not dict:
        return None
    lists: list[Any] = [found.get(key) for key in ("names", "time_us", "rows", "address", "name")]
    if any(type(one) is not list for one in lists):
        return None
    names, *numbers = lists
    if any(type(text) is not str for text in names) or not all(is_count(n, 1 << 63) for some in numbers for n in some):
        return None
    time, rows, addr, name = (np.array(some, np.int64) for some in numbers)
    if (len(time), sum(numbers[1]), len(name)) != (len(rows), len(addr), len(addr)):
        return None
    if (name >= len(names)).any() or (time[1:] < time[:-1]).any():
        return None
    texts = tuple(" ".join(text[:_LONGEST].split()) for text in names)
    return Walks(texts, time, np.repeat(np.arange(len(rows)), rows), addr.view(np.uint64), name)


def held_at(
    walks: Walks | None,
    first: int,
    before: Ints,
    kind: NDArray[np.int8],
    addr: NDArray[np.uint64],
    size: Ints,
    calls: Calls | None,
    *,
    of_all_threads: bool = True,
) -> dict[str, Any]:
    """The columns of who holds the blocks of a log that has times; see :func:`held`.

    Args:
        walks: What walks found; those before the first event are of memory that may have been given to others since.
        first: When that was, in microseconds.
        before: How many events stand before each walk, int64.
        kind: The kinds of the events, int8.
        addr: Their addresses, uint64.
        size: Their sizes, int64.
        calls: What runs at each event; ``None`` where that is not known.
        of_all_threads: See :func:`held`.
    """
    if walks is None:
        return {}
    late = (walks.time_us >= first)[walks.walk]
    rows = HolderLines(before[walks.walk][late], walks.addr[late], walks.name[late], walks.names)
    holder, names = held(rows, kind, addr, size, calls, of_all_threads=of_all_threads)
    return {"holder": holder, "holder_names": names}


def held(
    rows: HolderLines,
    kind: NDArray[np.int8],
    addr: NDArray[np.uint64],
    size: Ints,
    calls: Calls | None,
    *,
    of_all_threads: bool = True,
) -> tuple[Ints, tuple[str, ...]]:
    """Who holds the block of each event, as the last walk that saw it says, an index of the names that follow, int64, -1 where unknown.

    Where a later walk finds another block at the one place that a path names, and does not name the one before, that is not there any more.

    The ALLOC of a block that is live at the peak, and does not stay, has the holder that the walk next to the peak saw; its FREE has the last one.

    What a walk that saw all has no row of, for no shorter than walks before had one, is held by no variable, or by the graph that has the nodes of the operator that made it; what an operator was
    given counts where it went right after.  Of what no walk saw its life tells: what a backward pass gives back and did not make was saved for it, also where it runs within another, which recomputes layers; what is made and given back in one call, or in one backward pass, is a temporary; what a backward pass makes and leaves, of the
    size of a parameter or of a gradient that was seen, is a gradient; what else is given back while no operator runs the program held, by a variable or in a
    training by a graph, unless a walk saw others like it, or it went within its line after other operators, and no training runs.

    Args:
        rows: What walks found.
        kind: The kinds of the events, int8.
        addr: Their addresses, uint64.
        size: Their sizes, int64.
        calls: What runs at each event; ``None`` where that is not known.
        of_all_threads: FREEs of all threads are recorded: else what nobody holds and has none may have been given back by another.
    """
    search = _Search(rows, kind, addr, size, calls)
    search.by_walks(of_all_threads=of_all_threads)
    if calls is not None:
        search.by_graphs(calls)
        search.by_lives(calls)
    holder = np.full(len(kind), -1, np.int64)
    holder[search.alloc] = search.found
    freed = search.free < len(kind)
    holder[search.free[freed]] = search.found[freed]
    if len(rows.name) and len(search.alloc):
        blocks, at_peak = search.at_peak()
        holder[search.alloc[blocks]] = at_peak
    return holder, (*search.number,)


class _Search:
    """Finds who holds each block, by one rule of :func:`held` after the other; the arguments are those of that.

    Attributes:
        alloc: Where each block is made, int64.
        free: Where it is given back, int64; past the last event where it is not.
        number: The number of each holder.
        found: That of the holder of each block, int64, -1 where unknown.
    """

    def __init__(
        self, rows: HolderLines, kind: NDArray[np.int8], addr: NDArray[np.uint64], size: Ints, calls: Calls | None
    ) -> None:
        before, named, name, names = rows
        partner = pair(kind, addr).partner
        self.alloc = alloc = np.flatnonzero(kind == Kind.ALLOC)
        self.free = free = np.where(partner[alloc] >= 0, partner[alloc], len(kind))
        self._events, self._size, self._calls, self._names = len(kind), size[alloc], calls, names
        every = dict.fromkeys((*names, NO_VARIABLE, GRAPH, TEMPORARY, OF_BACKWARD, UNSEEN, EITHER, GRADIENT, STATE))
        self.number = {text: place for place, text in enumerate(every)}  # of the graphs more are added
        block = _blocks_of(before, named, alloc, free, addr)
        given = self._begins(GIVEN)[name]
        if given.any():
            last_given = _last(given, block, len(alloc))
            if calls is not None:
                given[last_given[calls.let_go(before[last_given], free) & (last_given >= 0)]] = False
            before, named, name, block = before[~given], named[~given], name[~given], block[~given]
        # The rows of walks, and of each block the last one; the rows of graphs, and the ends of walks.
        self._before, self._block = before, block
        self._row = _last(np.ones(len(block), np.bool_), block, len(alloc))
        graph = self._begins(OF_GRAPH)[name]
        self._graphs, self._ends = np.flatnonzero(graph), np.flatnonzero((named == 0) & ~graph)
        # Walks that saw all, after one that never was: the events before each, the end of the walk before, and the last one while a block was live.
        all_seen = np.array([*(text == SAW_ALL for text in names), False])[name[self._ends]]
        self._whole = self._ends[all_seen]
        of_whole = np.append(all_seen, False)[self._ends.searchsorted(np.arange(len(name)))]
        self._name = _known_as(name, names, block, of_whole)
        self._began = np.append(-1, before[self._whole])
        self._start = np.append(-1, np.append(-1, self._ends[:-1])[: len(self._ends)][all_seen])
        self._last = self._began[1:].searchsorted(free, "right")

    def _begins(self, text: str | tuple[str, ...]) -> Flags:
        """Which holders have names that begin so, with one more that has not."""
        return np.array([*(name.startswith(text) for name in self._names), False])

    def by_walks(self, *, of_all_threads: bool) -> None:
        """Whom the last row of each block names, or nobody where the last walk that saw all has none."""
        alloc, free, row, began, last = self.alloc, self.free, self._row, self._began, self._last
        found = self.found = np.where(row >= 0, self._name[row], -1) if len(self._name) else row
        self._stays = self._begins(STAYING)
        nobody = (began[last] > alloc) & (row <= self._start[last]) & ~self._stays[found]
        # What somebody held for longer than nobody did, at the end of a function perhaps, was held.
        seen = self._seen = np.flatnonzero(nobody & (row >= 0))
        lost = self._lost = began[self._start.searchsorted(row[seen])]
        nobody[seen] = np.minimum(free[seen], self._events) - lost >= self._before[row[seen]] - alloc[seen]
        nobody |= found == self.number[NO_VARIABLE]  # of what was said to be held, a walk says so
        if self._calls is not None:
            looked, blocks = began[last] - alloc, np.flatnonzero(nobody & (row < 0))
            nobody &= ~self._calls.too_young(blocks, looked, alloc, self._size, self._before, self._block)
        found[nobody] = np.where((free[nobody] < self._events) | of_all_threads, self.number[NO_VARIABLE], -1)
        self._later = self._renamed()
        self._let_go = (self._later[row] <= free) & ~nobody
        found[self._let_go] = -1
        self._nobody = nobody

    def _renamed(self) -> Ints:
        """Before which event a later walk finds what the path of each row leads to, int64, and of one more row: past the last event where none does, or the path is of several places."""
        name, ends = np.append(self._name, -1), self._ends
        order = np.argsort(key := name * (len(ends) + 2) + ends.searchsorted(np.arange(len(name))), kind="stable")
        following = np.append(order, -1)[key[order].searchsorted(key, "right")]
        one = np.array([*(_ONE.match(text) is not None for text in self._names), False])
        found = (following < ends.max(initial=-1)) & (name[following] == name) & one[name]
        return np.where(found, np.append(self._before, 0)[following], self._events + 1)

    def by_graphs(self, calls: Calls) -> None:
        """The graph that saved what nobody holds; values within an expression are temporaries."""
        within = self._nobody & calls.within_a_line(self.alloc, self.free)
        self.found[within] = self.number[TEMPORARY]
        those = np.flatnonzero(self._nobody & ~within)
        walk = self._whole.searchsorted(self._graphs) + 1
        rows = [self._names[at] for at in self._name[self._graphs]]
        for blocks, text in _saved(walk, rows, self._last[those], calls.operator_of(self.alloc[those])):
            self.found[those[blocks]] = self.number.setdefault(text, len(self.number))

    def by_lives(self, calls: Calls) -> None:
        """What the lives of blocks tell of those that no walk saw, and what others like them are."""
        alloc, found, number, size = self.alloc, self.found, self.number, self._size
        # Weights that lie in one block may have gradients in several.
        of_weight = np.array([*(text.startswith(("parameter ", "gradient ")) for text in number), False])[found]
        like_one = np.isin(size, size[of_weight])
        for life, text in _by_life(alloc, self.free, found < 0, self._nobody, like_one, calls):
            found[life] = number[text]
        # What goes when nothing is made any more goes with the program, whoever held it: as others like it.  States of optimizers go at any time.
        unseen, roles = np.flatnonzero(found == number[UNSEEN]), [role_of(text) for text in (*number, "")]
        saved, state, variable, garbage = (
            np.array([role == one for role in roles])[found] for one in ("saved", "optimizer", "variable", "garbage")
        )
        late = self.free[unseen] > alloc[-1:].sum()
        variable[unseen] = False
        like = calls.last_like(unseen, np.flatnonzero(saved | state | variable | garbage), alloc, size)
        found[unseen[(like >= 0) & late & saved[like]]] = number[GRAPH]
        found[unseen[(like >= 0) & state[like]]] = number[STATE]
        waits = (like >= 0) & garbage[like]
        found[unseen[waits]] = found[like[waits]]
        alone = unseen[like < 0]
        if calls.backward.any():
            found[alone] = number[EITHER]
        else:  # no graph can have kept what goes within its line
            found[alone[calls.within_an_expression(alloc[alone], self.free[alone])]] = number[TEMPORARY]
        found[self._let_go & (found == number[UNSEEN])] = number[EITHER]

    def at_peak(self) -> tuple[Ints, Ints]:
        """The blocks that are live at the peak and do not stay, and whom the row nearest the peak names."""
        alloc, free, before, block, name = self.alloc, self.free, self._before, self._block, self._name
        change, freed = np.zeros(self._events, np.int64), free < self._events
        change[alloc], change[free[freed]] = self._size, -self._size[freed]
        peak = int(change.cumsum().argmax()) + 1
        # Of the later walks only those rows count that name somebody: who let go of it since may have had it then.
        early = _last(before <= peak, block, len(alloc))
        later = _last(((before > peak) & (name != self.number[NO_VARIABLE]))[::-1], block[::-1], len(alloc))
        late = np.where(later >= 0, len(block) - 1 - later, -1)
        nearer = (late >= 0) & ((early < 0) | (before[late] - peak < peak - before[early]))
        row = np.where(nearer, late, early)
        passing = (row >= 0) & ~self._stays[name[row]] & (alloc < peak) & (peak <= free) & (free < alloc[-1])
        passing[self._seen[self._lost <= peak]] = False  # nobody held it then
        passing &= nearer | (self._later[row] > peak)
        return np.flatnonzero(passing), name[row[passing]]


def _blocks_of(before: Ints, named: NDArray[np.uint64], alloc: Ints, free: Ints, addr: NDArray[np.uint64]) -> Ints:
    """The block that each row of a walk is of, the one that lives at its address then, as an index of all, int64, -1 for none; see :func:`held`."""
    if not len(alloc):
        return np.full(len(named), -1)
    order, most = np.lexsort((alloc, addr[alloc])), len(addr) + 1
    place = np.unique(np.concatenate((addr[alloc], named)), return_inverse=True)[1]
    at = (place[order] * most + alloc[order]).searchsorted(place[len(alloc) :] * most + before) - 1
    fits, at = at >= 0, order[np.maximum(at, 0)]
    fits &= (addr[alloc[at]] == named) & (before <= free[at])
    return np.where(fits, at, -1)


def _last(rows: Flags, block: Ints, count: int) -> Ints:
    """The last of some rows of each block, int64, -1 where there is none."""
    found = np.full(count, -1)
    (some,) = np.nonzero(rows & (block >= 0))
    np.maximum.at(found, block[some], some)
    return found


def _known_as(name: Ints, names: Sequence[str], block: Ints, whole: Flags) -> Ints:
    """The names of rows, those of a short walk, which begins at functions alone, by what a walk that saw all last called the block.

    That is where the one leads on from its variable as the other does (``self.preds[*]`` and ``metric.preds[*]``), and where it is of a role that stays.

    Args:
        name: The number of who holds the block of each row, int64.
        names: The holders.
        block: The block of each row, int64, -1 for none.
        whole: Its walk saw all.
    """
    tails: dict[str, int] = {}
    tail = [tails.setdefault(_LEADS.sub("", text), len(tails)) if _LEADS.match(text) else -1 for text in names]
    stays, leads = np.array([*(text.startswith(STAYING) for text in names), False]), np.array([*tail, -1])
    order = np.argsort(block, kind="stable")
    known, of = name[order], block[order]
    last = np.maximum.accumulate(np.where(whole[order] | stays[known], np.arange(len(order)), -1))
    earlier = known[last]
    alike = stays[earlier] & ~stays[known] | (leads[earlier] == leads[known]) & (leads[known] >= 0)
    known = np.where(alike & (last >= 0) & (of[last] == of) & (of >= 0) & ~whole[order], earlier, known)
    found = name.copy()
    found[order] = known
    return found


def _saved(
    walk: Ints, rows: Sequence[str], last: Ints, operator: tuple[Ints, Sequence[str]]
) -> Iterator[tuple[Ints, str]]:
    """Which blocks that no tensor has a graph saved, and who has it.

    Args:
        walk: The walk of each row, int64, rising.
        rows: How many nodes of each operator the graph has that a tensor leads to.
        last: The last walk while each block was live, int64.
        operator: The operator that made each block, as an index of the operators, int64; and these.
    """
    made, operators = operator
    by_walk = defaultdict[int, defaultdict[str, Counter[str]]](lambda: defaultdict(Counter))
    for at, row in zip(walk.tolist(), rows, strict=True):
        path, _, counts = row.removeprefix(OF_GRAPH).rpartition(": ")
        words = counts.split()
        for node, count in zip(words[::2], words[1::2], strict=False) if path else ():
            by_walk[at][path][_plain(node).removesuffix("final")] += int(count) if count.isdecimal() else 0
    order = np.lexsort((made, last))
    firsts = np.flatnonzero(np.diff(last[order], prepend=-1) | np.diff(made[order], prepend=-2))
    for blocks in np.split(order, firsts[1:]) if by_walk and len(order) else ():
        graphs, index = by_walk.get(int(last[blocks[0]])), int(made[blocks[0]])
        if graphs is not None and index >= 0 and (holder := _saved_by(graphs, operators[index])):
            yield blocks, holder


def _saved_by(graphs: dict[str, Counter[str]], operator: str) -> str:
    """The graph that has nearly all nodes of an operator, or that several have; ``""`` where none has."""
    nodes = _NODES.get(operator, (_plain(operator),))
    counts = Counter({path: sum(map(counted.__getitem__, nodes)) for path, counted in graphs.items()})
    ((path, most),) = counts.most_common(1)
    if not most:
        return ""
    return f"saved {path}" if most * 10 >= counts.total() * _SHARE else GRAPH


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _by_life(
    alloc: Ints, free: Ints, unseen: Flags, nobody: Flags, like_parameter: Flags, calls: Calls
) -> Iterator[tuple[Flags, str]]:
    """What the lives of blocks tell, the later the more.

    Args:
        alloc: Where each block is made, int64.
        free: Where it is given back, int64; past the last event where it is not.
        unseen: No walk had a row of it, nor saw all while it was live.
        nobody: The last walk that saw all had no row of it.
        like_parameter: It has the size of a parameter, or of a gradient that was seen.
        calls: What runs at each event.
    """
    place, passes, outside, told = calls[:4]
    backward = passes > 0
    freed = free < min(told, len(place))
    at = np.where(freed, free, 0)
    # How many events before each are not of a backward pass, and how often the place has changed up to each.
    others = np.concatenate(([0], np.cumsum(~backward)))
    changes = np.concatenate(([0], np.cumsum(place[1:] != place[:-1])))
    yield unseen & freed & outside[at] & ~backward[alloc], UNSEEN
    yield unseen & backward[alloc] & like_parameter, GRADIENT
    yield unseen & freed & (place[at] >= 0) & (changes[at] == changes[alloc]), TEMPORARY
    yield unseen & freed & backward[alloc] & backward[at] & (others[at] == others[alloc]), OF_BACKWARD
    # A gradient that has a graph of its own is saved for the next pass.
    yield nobody & freed & backward[alloc] & backward[at] & (others[at] != others[alloc]), GRAPH
    yield (unseen | nobody) & freed & (passes[at] > passes[alloc]), GRAPH
