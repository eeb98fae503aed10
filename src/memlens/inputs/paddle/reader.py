"""Read one text log of Paddle into an event log, in one pass.

Threads share the blocks of the input out and read each on its own (:mod:`memlens.inputs.paddle.block`).  Here they are put together in file
order: what lines say of events in later blocks, and at the end which layer is believed.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from msgspec import structs

from memlens.columns import TAKE, rows_alike
from memlens.errors import UsageError
from memlens.facts import Facts, Figure, Kind, MessageLines, OutOfMemory, RequestLine, RequestLines, StatLines
from memlens.inputs.builder import SAMPLES, Builder, lines_wanted
from memlens.inputs.calls import Calls
from memlens.inputs.holders import held
from memlens.inputs.input_format import HolderLines, LineReader, NewEvents, Selection
from memlens.inputs.joins import ByThread, LatestByAddress, ThreadLines, join_streams
from memlens.inputs.paddle.block import NO_HEADER, BlockReader, BlockReading, Streams, layers_of_places
from memlens.inputs.paddle.context import BACKWARD, NOBODY
from memlens.inputs.paddle.endings import LastText, text_after_allocs
from memlens.inputs.paddle.layers import SIZELESS, Layer, Layers, layer_named
from memlens.inputs.paddle.lines import MOST_LOOKED_INTO, times_of_lines
from memlens.inputs.paddle.messages import RefusedRequests, read_figures, text_before
from memlens.spool import GrowingColumns, chosen, walk
from memlens.text import STACK
from memlens.windows.patterns import Matcher

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memlens.columns import Flags, Ints
    from memlens.errors import NoEventsError
    from memlens.facts import LineSample
    from memlens.inputs.blocks import Block
    from memlens.inputs.input_format import Request
    from memlens.log import Log
    from memlens.source import TextSource


Lines = TypeVar("Lines", StatLines, RequestLines, MessageLines, Streams)
_Read: TypeAlias = "tuple[BlockReading, tuple[list[bytes], bytes], tuple[bool, bytes]]"

#: Columns that are read only when asked for.
COLUMNS = frozenset({"thread", "time_us", "requests"})
_SIZELESS = np.array(sorted(SIZELESS), np.int8)
_TYPES = {"kind": np.int8, "size": np.int64, "addr": np.uint64, "offset": np.int64}
_HOLDERS = {"before": np.int64, "addr": np.uint64, "name": np.int64}


class PaddleReader(LineReader["_Read"]):
    """Takes what the blocks of a log hold in file order and makes the log of it.

    Owners are named by the lines of :mod:`memlens.inputs.paddle.context` and by those that the request names; the layer is a name of
    :class:`memlens.inputs.paddle.layers.Layer`, the most exact one by itself.  Groups of events are layers, by their numbers.

    Args:
        source: The input.
        request: What is asked for.

    Raises:
        UsageError: An unknown column, an unknown layer, or a pattern that is no regular expression.
    """

    def __init__(self, source: TextSource, request: Request) -> None:
        if unknown := set(request.columns) - COLUMNS:
            raise UsageError(f"no column {', '.join(sorted(unknown))}", f"There are: {', '.join(sorted(COLUMNS))}.")
        self._source = source
        source.times_of_lines = times_of_lines
        self._layer = layer = None if request.layer is None else layer_named(request.layer)
        matchers, marks = ([Matcher(pattern) for pattern in texts] for texts in (request.patterns, request.owners))
        # What cannot be looked up quickly later is numbered now.
        wanted = (*request.columns, *["line"] * lines_wanted(source), *["landmarks"] * request.landmarks)
        self._blocks = BlockReader(matchers, marks, wanted, layer)
        self._builder = Builder(source, request, _TYPES, size=source.size)
        self._with_threads = "thread" in request.columns
        self._layers = Layers(layer)
        self._requested = [
            (of, ByThread(2, once=True)) for of in (Layer.AUTO_GROWTH, Layer.STREAM_SAFE, Layer.NAIVE_BEST_FIT)
        ]
        self._sizes = LatestByAddress(TAKE)
        self._owners, self._calls = ByThread(once=False), ByThread(once=False)
        self._names: dict[str, int] = {}
        # Threads on which lines name owners, and those on which the program calls operators.
        self._naming: set[int] = set()
        self._calling: set[int] = set()
        self._last_thread = -1
        self._ooms: list[OutOfMemory] = []  # the first hundred; of the others the columns
        self._devices: dict[str, int] = {}
        self._refused = RefusedRequests([Matcher(pattern) for pattern in request.owners])
        self._last_text = LastText()
        self._figures: list[Figure] = []
        # There may be as many of these lines as events.
        self._stats, self._streams, self._requests, self._later_ooms = (
            GrowingColumns({}, self._builder.spool) for _ in range(4)
        )
        self._holders = GrowingColumns(_HOLDERS, self._builder.spool)
        self._holder_names: dict[str, int] = {}
        self._named = False  # lines tell of the variables of the program, or of its lines

    def read(self, block: Block) -> _Read:
        """Read a block; also the text before each of its first out-of-memory messages, its end, and what follows its last ALLOC."""
        reading = self._blocks.read(block)
        above = text_before(block, () if reading.ooms is None else reading.ooms[-1])
        return reading, above, text_after_allocs(block, reading.part.columns)

    def add(self, result: _Read) -> None:
        reading, (above, tail), last_text = result
        self._last_text.add(last_text)
        first, columns, layer = self._builder.lines + 1, reading.part.columns, reading.layer
        self._add_requests(reading)
        self._add_owners(reading)
        if layer is not None:
            columns["layer"] = layer
        if self._with_threads:
            columns["thread"] = reading.thread
        self._size_frees(columns, layer)
        if reading.requests is not None:
            after = reading.requests.after + self._builder.events
            self._requests.append({**structs.asdict(reading.requests), "after": after})
        self._layers.add(layer, columns["kind"], columns["size"], reading.thread, reading.lines)
        self._builder.add(reading.part)
        for of, (count, texts) in reading.malformed.items():
            self._layers.add_malformed(of, count, [Builder.sample(text, first) for text in texts])
        for text in reading.messages:
            self._figures.extend(read_figures(text.text, text.offset))
        if reading.ooms is not None:
            self._add_ooms(*reading.ooms, above, first)
        self._refused.end_block(tail)
        if reading.stat_lines is not None:
            self._stats.append(structs.asdict(reading.stat_lines))
        if reading.streams is not None:
            before = reading.streams.before + (self._builder.events - len(columns["kind"]))
            self._streams.append({**reading.streams._asdict(), "before": before})
        if (holders := reading.holders) is not None:
            before = holders.before + (self._builder.events - len(columns["kind"]))
            numbers = np.array([self._holder_names.setdefault(name, len(self._holder_names)) for name in holders.names])
            self._holders.append({"before": before, "addr": holders.addr, "name": numbers[holders.name]})

    def _add_ooms(
        self,
        lines: MessageLines,
        names: Sequence[str],
        found: Sequence[OutOfMemory],
        above: Sequence[bytes],
        first: int,
    ) -> None:
        """Take the out-of-memory messages of a block, given the text above the first of them, and the number of the block's first line."""
        whole = found[: MOST_LOOKED_INTO - len(self._ooms)]
        self._ooms += map(
            self._refused.completed, (structs.replace(oom, line=oom.line + first) for oom in whole), above
        )
        number = np.array([*(self._devices.setdefault(name, len(self._devices)) for name in names), -1], np.int32)
        columns = structs.asdict(lines) | {"line": lines.line + first, "device": number[lines.device]}
        self._later_ooms.append({name: column[len(whole) :] for name, column in columns.items()})

    def _add_requests(self, reading: BlockReading) -> None:
        """Values that lines give for the next ALLOC of their thread: the bytes requested; of naive best fit the size and place."""
        columns, layer = reading.part.columns, reading.layer
        size = columns["size"]
        for (of, joined), lines in zip_longest(self._requested, reading.of_next_alloc):
            if lines is None and not (joined.carries and (layer is not None or of == Layer.AUTO_GROWTH)):
                continue
            mine = (columns["kind"] == Kind.ALLOC) & (of == (Layer.AUTO_GROWTH if layer is None else layer))
            rows, values = joined.join(lines, reading.thread, mine)
            if of == Layer.NAIVE_BEST_FIT:
                if layer is not None:
                    size[rows], layer[rows] = values[:, 0], layers_of_places(values[:, 1])
                continue
            if of == Layer.AUTO_GROWTH:  # a request names the size that its block will have
                fits = values[:, 1] == size[rows]
                rows, values = rows[fits], values[fits]
            if len(rows):
                columns.setdefault("requested", np.full(len(size), -1, np.int64))[rows] = values[:, 0]

    def _size_frees(self, columns: dict[str, NDArray[Any]], layer: NDArray[np.int8] | None) -> None:
        """Give each FREE the size of its ALLOC where the free lines of its layer have none; it stays 0 where nothing was allocated."""
        if layer is None:
            return
        kind, size = columns["kind"], columns["size"]
        rows = np.flatnonzero(np.isin(layer, _SIZELESS) & (kind <= Kind.FREE) & (size >= 0))
        if len(rows):
            kind, size = kind[rows], size[rows]
            known = self._sizes.before(columns["addr"][rows], layer[rows].astype(np.int64), size, kind == Kind.ALLOC)
            columns["size"][rows] = np.where(known >= 0, known, size)

    def _add_owners(self, reading: BlockReading) -> None:
        contexts = reading.contexts
        if contexts is not None:
            thread = np.where(contexts.thread == NO_HEADER, self._last_thread, contexts.thread)
            numbers = np.array([self._number(name) for name in reading.names], np.int64)
            which, calls = numbers[contexts.values[:, 0]], contexts.values[:, 1] > 0
            self._naming.update(thread.tolist())
            self._calling.update(thread[calls].tolist())
            self._within_calls(which, thread, calls)
            contexts = ThreadLines(contexts.before, thread, which[:, None])
        rows, values = self._owners.join(contexts, self._on_behalf(reading.thread, self._naming))
        if len(rows):
            owner = np.full(len(reading.thread), -1, np.int32)
            owner[rows] = values[:, 0]
            reading.part.columns["owner"] = owner
        if reading.last_thread != NO_HEADER:
            self._last_thread = reading.last_thread

    def _number(self, name: str) -> int:
        """The number of an owner, -1 for nobody."""
        return -1 if name == NOBODY else self._names.setdefault(name, len(self._names))

    def _on_behalf(self, thread: Ints, others: set[int]) -> Ints:
        """Threads, with the only one that calls operators in place of those that are not among others: an executor's threads, which it waits for."""
        if len(self._calling) != 1:
            return thread
        return np.where(np.isin(thread, [*others]), thread, next(iter(self._calling)))

    def _within_calls(self, which: Ints, thread: Ints, calls: Flags) -> None:
        """Give operators that the framework names the lines of the program that they were called from, in place.

        Args:
            which: The number of the owner that each context line names, int64.
            thread: Its thread, int64.
            calls: It is a line of the program, bool.
        """
        if not calls.any() and not self._calls.carries:
            return
        rest = np.flatnonzero(~calls)
        before: Ints = np.cumsum(~calls, dtype=np.int64)[calls]
        lines = ThreadLines(before, thread[calls], which[calls][:, None])
        rows, within = self._calls.join(lines, self._on_behalf(thread[rest], self._calling))
        rows, within = rest[rows[within[:, 0] >= 0]], within[within[:, 0] >= 0, 0]
        names = list(self._names)
        first, index = rows_alike(which[rows], within)
        pairs = zip(which[rows[first]].tolist(), within[first].tolist(), strict=True)
        joined = [STACK.join([names[operator], *names[call].split(STACK)[1:]]) for operator, call in pairs]
        which[rows] = np.array([self._number(name) for name in joined], np.int64)[index]

    def take(self, *, ended: bool = False) -> NewEvents:
        new = self._builder.take()
        columns = new.columns
        self._figures = []
        self._stats.clear()
        self._streams.clear()
        holders = None
        self._named = self._named or bool(self._calling or len(self._holders))
        if self._named:
            before, addr, name = map(self._holders.entries, _HOLDERS)
            holders = HolderLines(before, addr, name, (*self._holder_names,))
        self._holders.clear()
        self._holder_names.clear()
        layer = columns.get("layer")
        if layer is not None:
            kept = columns["size"] >= 0
            if not kept.all():
                if holders is not None:
                    holders = holders._replace(before=np.append(0, np.cumsum(kept))[holders.before])
                columns = {name: column[kept] for name, column in columns.items()}
            layer = np.maximum(columns["layer"], Layer.AUTO_GROWTH)  # blocks without another layer had no such column
        blocks, chunks = (frozenset() if of is None else frozenset({int(of)}) for of in self._layers.choice())
        # Once the auto-growth layer is there no other one will count.
        alone = self._layer is None and blocks == {Layer.AUTO_GROWTH}
        present = [Layer.AUTO_GROWTH] if alone else self._layers.present
        return new._replace(
            columns=columns,
            group=layer,
            sets=tuple(frozenset({int(of)}) for of in present),
            selected=(Selection(None, self._label() if present else "", blocks, chunks, self._malformed),),
            ooms=len(self._ooms) + len(self._later_ooms) + (ended and self._cut_off() is not None),
            holders=holders,
        )

    def _label(self) -> str:
        """The layer that is believed, that of the blocks where two are."""
        blocks, chunks = self._layers.choice()
        layer = blocks if blocks is not None else chunks
        return (Layer.AUTO_GROWTH if layer is None else layer).label

    @property
    def _malformed(self) -> int:
        return self._builder.malformed + self._layers.malformed(self._layers.choice()[0])

    def _cut_off(self) -> OutOfMemory | None:
        """The message that the log is cut in, if it is cut in one."""
        found = self._refused.cut_off(self._builder.end, self._builder.lines)
        last = self._later_ooms.entries("line")[-1:] if len(self._later_ooms) else [oom.line for oom in self._ooms[-1:]]
        return None if found is None or any(line >= found.line for line in last) else found

    def finish(self, problem: str) -> list[Log]:
        builder = self._builder
        if (cut_off := self._cut_off()) is not None:
            self._ooms.append(cut_off)
        layer, owner, requested = builder.drop("layer"), builder.drop("owner"), builder.drop("requested")
        if layer is not None:
            np.maximum(layer, Layer.AUTO_GROWTH, out=layer)  # blocks without another layer had no such column
        blocks, rows, facts = self._layers.finish(layer, builder.column("kind"), builder.column("size"))
        rows = None if rows is None or rows.all() else rows
        stream = self._stream(blocks, rows) if [*self._streams] else None
        holder, holders = None, (*self._holder_names,)
        if len(self._holders):
            before, addr, name = map(self._holders.entries, _HOLDERS)
            before = before if rows is None else np.append(0, np.cumsum(rows))[before]
            kind, addresses, size = (chosen(builder.column(name), rows) for name in ("kind", "addr", "size"))
            calls = None if owner is None else _calls(chosen(owner, rows), [*self._names])
            holder, holders = held(HolderLines(before, addr, name, holders), kind, addresses, size, calls)
        owner, requested, stream = (
            None if column is None else chosen(column, rows) for column in (owner, requested, stream)
        )
        names: tuple[str, ...] = ()
        if owner is not None:
            owner, names = _by_name(owner, self._names)
        if requested is not None and requested.max(initial=-1) < 0:
            requested = None
        log = builder.finish(
            cut_short=problem,
            facts={**facts, **self._facts(blocks, facts["malformed_samples"]), "requests": self._request_lines(rows)},
            columns={
                "owner": owner,
                "owner_names": names,
                "requested": requested,
                "stream": stream,
                "holder": holder,
                "holder_names": holders,
            },
            rows=rows,
            nothing=self._nothing,
        )
        return [log]

    def _nothing(self, facts: Facts) -> NoEventsError:
        from memlens.trust.advice import no_events_error

        return no_events_error(self._source.name, facts, None if self._layer is None else self._layer.label)

    def _facts(self, blocks: Layer | None, samples: Sequence[LineSample]) -> dict[str, Any]:
        builder = self._builder
        samples = sorted((*builder.samples, *samples), key=lambda sample: sample.offset)
        if blocks != Layer.STREAM_SAFE:
            builder.hints.pop("deferred_frees", None)
        return {
            "malformed": self._malformed,
            "malformed_samples": tuple(samples[:SAMPLES]),
            "layer": self._label(),
            "ooms": tuple(sorted(self._ooms, key=lambda oom: oom.offset)),
            "ending": self._last_text.ending(builder.end, builder.lines),
            "later_ooms": _lines(MessageLines, self._later_ooms) if len(self._later_ooms) else None,
            "oom_devices": tuple(self._devices),
            "figures": tuple(self._figures),
            "stat_lines": _lines(StatLines, self._stats) if [*self._stats] else None,
        }

    def _request_lines(self, rows: NDArray[np.bool_] | None) -> RequestLines | None:
        """All lines of requests, with places among the chosen events."""
        if not [*self._requests]:  # they were not asked for
            return None
        lines = _lines(RequestLines, self._requests)
        others = lines.what == RequestLine.STREAM_REQUEST
        if self._layers.choice()[0] == Layer.AUTO_GROWTH and others.any():
            # They are looked for until this layer is there, which says itself what is asked for.
            lines = RequestLines(*(chosen(column, ~others) for column in structs.astuple(lines)))
        return lines if rows is None else structs.replace(lines, after=np.append(0, np.cumsum(rows))[lines.after])

    def _stream(self, blocks: Layer | None, rows: NDArray[np.bool_] | None) -> NDArray[np.int64]:
        """The stream of each event, of those that are chosen, as lines name it; int64, -1 where unknown."""
        streams = _lines(Streams, self._streams)
        # Of the layers that are passed over only those lines count that stand between these blocks' own.
        fits = ~streams.of_driver if blocks == Layer.AUTO_GROWTH and streams.of_driver.any() else None
        kind, addr = self._builder.column("kind"), self._builder.column("addr")
        return join_streams(kind, addr, rows, *(chosen(column, fits) for column in streams[:3]))


def _lines(of: type[Lines], columns: GrowingColumns) -> Lines:
    """Lines that consist of columns, put together."""
    return of(**{name: columns.entries(name) for name in columns})


def _calls(owner: NDArray[np.int32], names: Sequence[str]) -> Calls:
    """What runs at each event, by its owner: a line of the program calls an operator, or the graph of a backward pass does."""
    operators, frames = zip(*(name.partition(STACK)[::2] for name in names), strict=True) if names else ((), ())
    places = {place: number for number, place in enumerate(dict.fromkeys(frames))}
    place = np.array([*map(places.__getitem__, frames), -1], np.int32)
    backward = [
        ("GradNode" in operator or operator == BACKWARD) + lines.split(STACK).count(BACKWARD)
        for operator, lines in zip(operators, frames, strict=True)
    ]
    passes = np.array([*backward, 0], np.int32)[owner]
    return Calls(place[owner], passes, owner < 0, operator=owner, operators=operators)


def _by_name(owner: NDArray[np.int32], names: dict[str, int]) -> tuple[NDArray[np.int32] | None, tuple[str, ...]]:
    """The owners numbered in the order of the alphabet, in place, without those that own nothing."""
    used = np.zeros(len(names) + 1, np.bool_)
    for start, stop in walk(0, len(owner)):
        used[owner[start:stop]] = True
    kept = sorted(name for name, number in names.items() if used[number])
    if not kept:
        return None, ()
    numbering = np.full(len(used), -1, np.int32)
    numbering[[names[name] for name in kept]] = np.arange(len(kept))
    for start, stop in walk(0, len(owner)):
        owner[start:stop] = numbering[owner[start:stop]]
    return owner, tuple(kept)
