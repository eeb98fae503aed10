"""One block of a log: the rows of the scanner made into columns, as far as one block tells."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec import Struct

from memlens.facts import MAX_SIZE, Kind, MessageLines, OutOfMemory, RequestLines, StatLines
from memlens.inputs.builder import SAMPLES, Part, Text
from memlens.inputs.joins import ThreadLines, last_before_events
from memlens.inputs.paddle import context, message_formats
from memlens.inputs.paddle import events as paddle
from memlens.inputs.paddle import other_events as others
from memlens.inputs.paddle.layers import Layer, layer_named
from memlens.inputs.paddle.lines import (
    ALIKE,
    ALIKE_OTHERS,
    CONTEXTS,
    EVENTS,
    MESSAGES,
    MOST_LOOKED_INTO,
    OF_NEXT_ALLOC,
    OF_OTHER_LAYERS,
    BlockRows,
    column_of_times,
    first_of,
    holder_lines,
    messages_of,
    number_of,
    request_lines,
    scanner,
)
from memlens.scanner import count_lines, distinct_texts
from memlens.scanner.expressions import TEXT_PLACE
from memlens.windows.landmarks import landmarks_in_block

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from memlens.columns import Ints
    from memlens.inputs.blocks import Block
    from memlens.inputs.input_format import HolderLines
    from memlens.scanner.formats import LineFormat
    from memlens.windows.patterns import Matcher


#: No header stands before that place in its block; one in an earlier block may be the nearest.
NO_HEADER = -2
#: As many of the messages that every operator prints are read in one block.
_MOST_FREQUENT = 256

_LAYERS = np.array([layer_named(form.layer) for form in EVENTS], np.int8)
#: That of some formats stands in the line, and is added.
_KINDS = np.array([form.kinds.get("", Kind.ALLOC) for form in EVENTS], np.int8)
_OF_AUTO_GROWTH = range(len(paddle.EVENTS))
_BLOCK, _CHUNK_NEW, _STREAM_ALLOC = map(number_of, (paddle.BLOCK, paddle.CHUNK_NEW, others.STREAM_ALLOC))
_POINTER, _NAIVE_FREE, _STAT = map(number_of, (others.NAIVE_POINTER, others.NAIVE_FREE, others.STAT_LINE))
_RARE = tuple(map(number_of, others.RARE))
_PROGRAM = number_of(context.PROGRAM)


class Streams(NamedTuple):
    """ALLOC lines that name a stream, in order.

    Attributes:
        before: How many events stand before each, its own one among them, int64.
        addr: The address of its block, uint64.
        stream: Its stream, int64.
        of_driver: CUDA's driver wrote it, bool.
    """

    before: Ints
    addr: NDArray[np.uint64]
    stream: Ints
    of_driver: NDArray[np.bool_]

    def where(self, chosen: NDArray[Any]) -> Streams:
        """Some of them, or in another order."""
        return Streams(*(column[chosen] for column in self))


class BlockReading(Struct, frozen=True):
    """The columns of one block.

    Attributes:
        part: Its events, and what else the builder takes; what other lines say of its events is filled in.
        thread: The thread of each event, int64; -1 where a header is missing.
        layer: Its layer, int8; ``None`` where all are of the auto-growth layer.
        of_next_alloc: Lines of each format of :data:`~memlens.inputs.paddle.lines.OF_NEXT_ALLOC`.
        contexts: Context lines: the number of the owner's name, and whether it is a line of the program (:data:`.context.PROGRAM`); of thread
            :data:`NO_HEADER` where the block has no header before them.
        names: The names of the owners.
        last_thread: The thread of the last header, :data:`NO_HEADER` where there is none.
        streams: The ALLOC lines that name a stream.
        holders: Lines that name who holds a block.
        malformed: Lines that look like an event and cannot be read, of other layers than auto-growth: how many, and the first few.
        messages: The lines that may hold figures of the framework.
        ooms: The out-of-memory messages, the names of their devices, and the first of them with their texts.
        stat_lines: The framework's running totals.
        requests: Lines of requests, where they are asked for.
        lines: Lines of each layer family.
    """

    part: Part
    thread: Ints
    layer: NDArray[np.int8] | None
    of_next_alloc: tuple[ThreadLines | None, ...]
    contexts: ThreadLines | None
    names: tuple[str, ...]
    last_thread: int
    streams: Streams | None
    holders: HolderLines | None
    malformed: Mapping[Layer, tuple[int, tuple[Text, ...]]]
    messages: tuple[Text, ...]
    ooms: tuple[MessageLines, tuple[str, ...], list[OutOfMemory]] | None
    stat_lines: StatLines | None
    requests: RequestLines | None
    lines: Mapping[str, int]


class BlockReader:
    """Reads the blocks of one log; several threads may use it.

    Args:
        matchers: The anchors to look for.
        marks: Lines that name an owner, beside those of :mod:`memlens.inputs.paddle.context`; where several match one line the first counts.
        columns: What is wanted: ``time_us``, ``line``, ``landmarks``, ``requests``.
        layer: The layer that the user asks for.
    """

    def __init__(
        self, matchers: Sequence[Matcher], marks: Sequence[Matcher], columns: Collection[str], layer: Layer | None
    ) -> None:
        self._matchers, self._marks, self._layer = matchers, marks, layer
        self._times, self._lines, self._landmarks = (name in columns for name in ("time_us", "line", "landmarks"))
        self._requests = "requests" in columns
        self._scanner = scanner(times=self._times, replays=self._requests)
        # Once the auto-growth layer is there, or asked for, events of no other one are kept.
        self._alone = layer == Layer.AUTO_GROWTH

    def read(self, block: Block) -> BlockReading:
        """Read one block."""
        scanned = self._scanner.scan(block.data, block.begin, block.end, OF_OTHER_LAYERS if self._alone else ())
        rows = BlockRows(block, scanned, self._scanner.columns)
        blocks = len(rows.sound(_BLOCK))
        alone = self._alone = self._alone or (self._layer is None and blocks > 0)
        rare = {} if alone else dict(_rare(rows))
        found, oversize = _events(rows, _OF_AUTO_GROWTH if alone else range(len(EVENTS)), rare)
        if not alone and self._layer is not None:
            # An ALLOC of naive best fit does not say itself where its memory is.
            family = [layer for layer in Layer if layer.family == self._layer.family]
            found = found.where(np.isin(found.layer, family) | (found.kind >= Kind.RESERVE))
        header = rows.take(rows.found.header, found.row)
        columns: dict[str, NDArray[Any]] = {
            "kind": found.kind,
            "size": found.size,
            "addr": found.addr,
            "offset": rows.take(rows.found.line_start, found.row) + rows.to_input,
        }
        if self._times:
            columns["time_us"] = column_of_times(header[:, 1], header[:, 2], header[:, 3])
        contexts, names = self._contexts(rows, found)
        malformed = rows.lines_of(np.concatenate((rows.of(*ALIKE), oversize)))
        broken = {} if alone else _broken_others(rows)
        last = self._scanner.last_header(block.data, block.begin, block.end)
        ooms = messages_of(rows)
        part = Part.of(
            block,
            rows.found,
            columns,
            self._matchers,
            line=rows.take(rows.found.line, found.row) if self._lines else None,
            malformed=len(malformed),
            samples=rows.texts(malformed[:SAMPLES]),
            hints=dict(_hints(rows)),
            landmarks=landmarks_in_block(block.text, block.offset) if self._landmarks else None,
        )
        return BlockReading(
            part,
            thread=np.ascontiguousarray(header[:, 0]),
            layer=found.layer if not alone and found.layer.any() else None,
            of_next_alloc=tuple(
                # A replay asks for the requests themselves.
                None if self._requests and form is OF_NEXT_ALLOC[0] else _thread_lines(rows, found, form)
                for form in OF_NEXT_ALLOC[: 1 if alone else None]
            ),
            contexts=contexts,
            names=names,
            last_thread=NO_HEADER if last is None else int(last[0]),
            streams=_streams(rows, found, rare),
            holders=holder_lines(rows, found.row),
            malformed={layer: (len(lines), rows.texts(lines[:SAMPLES])) for layer, lines in broken.items()},
            messages=_messages(rows),
            ooms=None if ooms is None else (*ooms, first_of(*ooms, rows, MOST_LOOKED_INTO)),
            stat_lines=_stat_lines(rows),
            requests=request_lines(rows, found.row) if self._requests else None,
            lines={"auto_growth": blocks, **_lines_of(rows, rare)},
        )

    def _contexts(self, rows: BlockRows, found: _Events) -> tuple[ThreadLines | None, tuple[str, ...]]:
        """The context lines, and the names of owners that they give by number."""
        at, starts = rows.of(*CONTEXTS), rows.found.start
        if not len(at) and not self._marks:
            return None, ()
        at = at[starts[at].argsort(kind="stable")]  # a later one may stand in the row of an earlier one
        thread, events = rows.found.header[at, 0], starts[found.row].searchsorted(starts[at])
        calls = rows.found.format[at] == _PROGRAM
        # Most name nobody: the next one of their thread comes before any event, and is not within their call.
        kept = last_before_events(events, thread)
        kept[:-1] |= calls[:-1] & ~calls[1:]
        at, thread, events, calls = at[kept], thread[kept], events[kept], calls[kept]
        texts, which = distinct_texts(rows.block.data, rows.found.values[at, rows.columns[CONTEXTS[0]]["owner"]])
        names = tuple(text.decode("utf-8", "replace") for text in texts)
        if self._marks:
            ends, given = self._marked(rows.block)
            numbers = {name: number for number, name in enumerate(dict.fromkeys((*names, *given)))}
            # Of two at one place that of the user comes last, and counts.
            order = np.concatenate((starts[at], ends)).argsort(kind="stable")
            thread = np.concatenate((thread, self._threads_before(rows.block, ends)))[order]
            events = np.concatenate((events, starts[found.row].searchsorted(ends)))[order]
            which = np.concatenate((which, np.array([numbers[name] for name in given], np.int64)))[order]
            calls = np.append(calls, np.zeros(len(ends), np.bool_))[order]
            names = tuple(numbers)
        return ThreadLines(events, thread, np.stack((which, calls), axis=1)) if len(which) else None, names

    def _marked(self, block: Block) -> tuple[Ints, list[str]]:
        """Where the lines end that the user's patterns name, and the names that they give."""
        marked = {match.start: match.name for matcher in reversed(self._marks) for match in matcher.find(block.text)}
        starts = np.array(sorted(marked), np.int64)
        ends = np.append(np.flatnonzero(block.text == 0x0A), len(block.text))
        return ends[ends.searchsorted(starts)] + block.begin, [marked[start] for start in starts.tolist()]

    def _threads_before(self, block: Block, ends: Ints) -> Ints:
        """The thread of the last header before each of some line ends."""
        threads, begin, thread = [], block.begin, NO_HEADER
        for end in ends.tolist():
            header = self._scanner.last_header(block.data, begin, end)
            thread = thread if header is None else int(header[0])
            threads.append(thread)
            begin = end
        return np.array(threads, np.int64)


class _Events(NamedTuple):
    """Events in the order of the file.

    A size is -1 where another line gives it (ALLOCs of naive best fit), and 0 where none does (FREEs that take it from their ALLOC).

    Attributes:
        row: Their rows, int64.
        kind: int8.
        size: int64.
        addr: uint64.
        layer: int8.
    """

    row: Ints
    kind: NDArray[np.int8]
    size: Ints
    addr: NDArray[np.uint64]
    layer: NDArray[np.int8]

    def where(self, chosen: NDArray[np.bool_]) -> _Events:
        """Some of the events."""
        return _Events(self.row[chosen], self.kind[chosen], self.size[chosen], self.addr[chosen], self.layer[chosen])


def _events(rows: BlockRows, formats: Sequence[int], rare: Mapping[int, others.RareEvent]) -> tuple[_Events, Ints]:
    """The events of some formats; and the rows of the auto-growth layer that are none, because their size cannot be."""
    row = rows.of(*formats)
    form = rows.take(rows.found.format, row)
    present = [number for number in formats if rows.counts[number]]
    same = len(present) == 1
    kind, layer = (np.full(len(row), of[present[0]]) if same else of[form] for of in (_KINDS, _LAYERS))
    size, addr = np.zeros(len(row), np.int64), np.zeros(len(row), np.int64)
    fine = np.ones(len(row), np.bool_)
    for number in present:
        mine = slice(None) if same else np.flatnonzero(form == number)
        groups = {name: rows.values(number, name, row[mine]) for name in rows.columns[number]}
        for name, column in (("size", size), ("addr", addr)):
            if name in groups:
                column[mine] = groups[name]
        if number == _BLOCK:
            kind[mine] = groups["kind"]  # Kind.ALLOC is 0 and Kind.FREE is 1, as in the format
        elif number == _CHUNK_NEW:
            addr[mine] = np.where(groups["bare"] < 0, groups["addr"], 0)
        elif number == _POINTER:
            size[mine] = -1
        elif number == _NAIVE_FREE:
            layer[mine] = layers_of_places(groups["host"])
        elif number == _STAT:
            kind[mine] += (2 * groups["what"] + (groups["change"] < 0)).astype(np.int8)
            size[mine] = np.abs(groups["change"])
            layer[mine] = np.where(groups["where"] == 0, Layer.STATS, Layer.HOST_STATS)
            fine[mine] = groups["peak"] < 0  # a line that names a peak repeats the one before it
        elif number in _RARE:
            fine[mine] = False
    for at, event in rare.items():
        k = int(row.searchsorted(at))
        kind[k], size[k], layer[k], fine[k] = event.kind, event.size, event.layer, True
        addr.view(np.uint64)[k] = event.addr
    oversize, large = row[:0], size > MAX_SIZE
    if large.any():
        large &= form != _STAT
        fine &= ~large
        oversize = row[large & (layer == Layer.AUTO_GROWTH)]
    found = _Events(row, kind, size, addr.view(np.uint64), layer)
    return found if fine.all() else found.where(fine), oversize


def layers_of_places(host: Ints) -> NDArray[np.int8]:
    """The layer of naive best fit for memory at some places, given as an index of :data:`~.other_events.HOST_PLACES`."""
    return np.where(host < len(others.HOST_PLACES), Layer.HOST_NAIVE_BEST_FIT, Layer.NAIVE_BEST_FIT).astype(np.int8)


def _rare(rows: BlockRows) -> Iterator[tuple[int, others.RareEvent]]:
    """The events on lines of which there are few, by row."""
    for row in rows.of(*_RARE).tolist():
        text = rows.block.data[rows.found.start[row] : rows.found.end[row]].tobytes()
        form = EVENTS[rows.found.format[row]]
        match = form.pattern.match(text)
        if match is not None and (event := others.read_rare(form, match)) is not None:
            yield row, event


def _thread_lines(rows: BlockRows, found: _Events, form: LineFormat) -> ThreadLines | None:
    """Values that the lines of a format give for the next ALLOC of their thread: a size, and the column after it."""
    at = rows.of(number_of(form))
    if not len(at):
        return None
    before, thread = found.row.searchsorted(at), rows.found.header[at, 0]
    last = last_before_events(before, thread)
    values = rows.found.values[at[last], :2]
    values[values[:, 0] > MAX_SIZE] = -1  # it says nothing, nor does any before it
    return ThreadLines(before[last], thread[last], values)


def _broken_others(rows: BlockRows) -> dict[Layer, Ints]:
    """A row for each line that looks like an event of another layer and cannot be read, by layer."""
    oversize = np.setdiff1d(rows.of(_STREAM_ALLOC), rows.sound(_STREAM_ALLOC))
    return {
        Layer.STREAM_SAFE: rows.lines_of(np.concatenate((rows.of(*ALIKE_OTHERS[:2]), oversize))),
        Layer.NAIVE_BEST_FIT: rows.lines_of(rows.of(*ALIKE_OTHERS[2:])),
    }


def _lines_of(rows: BlockRows, rare: Mapping[int, others.RareEvent]) -> dict[str, int]:
    """Lines of each layer family; of the stream-safe layer also those that name a stream."""
    allocs = rows.sound(_STREAM_ALLOC)
    return {
        "stream_safe": len(allocs),
        "streams": int(np.count_nonzero(rows.values(_STREAM_ALLOC, "stream", allocs) >= 0)),
        "naive_best_fit": rows.counts[_NAIVE_FREE] + rows.counts[ALIKE_OTHERS[3]],
        "stats": rows.counts[_STAT],
        **Counter(event.layer.label for event in rare.values()),
    }


def _streams(rows: BlockRows, found: _Events, rare: Mapping[int, others.RareEvent]) -> Streams | None:
    """The ALLOC lines that name a stream."""
    at = rows.sound(_STREAM_ALLOC)
    at = at[rows.values(_STREAM_ALLOC, "stream", at) >= 0]
    named = [(row, event) for row, event in rare.items() if event.stream >= 0 and event.kind == Kind.ALLOC]
    if not len(at) and not named:
        return None
    row = np.concatenate((at, np.array([row for row, _ in named], np.int64)))
    addr, stream = (rows.values(_STREAM_ALLOC, name, at) for name in ("addr", "stream"))
    return Streams(
        found.row.searchsorted(row, "right"),
        np.concatenate((addr.view(np.uint64), np.array([event.addr for _, event in named], np.uint64))),
        np.concatenate((stream, np.array([event.stream for _, event in named], np.int64))),
        np.arange(len(row)) >= len(at),
    ).where(row.argsort())


def _stat_lines(rows: BlockRows) -> StatLines | None:
    """The framework's running totals; the offset is that of the text after the change, which is after the start of the line."""
    if not rows.counts[_STAT]:
        return None
    groups = {name: rows.values(_STAT, name).copy() for name in rows.columns[_STAT]}
    return StatLines(
        offset=(groups["after"] & TEXT_PLACE) + rows.to_input,
        device=np.where(groups["where"] == 0, groups["device"], -1).astype(np.int16),
        reserved=groups["what"] == 1,
        change=groups["change"],
        current=groups["current"],
        peak=groups["peak"],
    )


def _messages(rows: BlockRows) -> tuple[Text, ...]:
    """The lines that may hold figures of the framework; of those that every operator prints, samples."""
    found = []
    for number, text in zip(MESSAGES, message_formats.LITERALS, strict=True):
        at = rows.of(number)
        if text in message_formats.FREQUENT and len(at) > _MOST_FREQUENT:
            at = at[np.linspace(0, len(at) - 1, _MOST_FREQUENT).astype(np.int64)]  # both ends among them
        found.append(at)
    return rows.texts(rows.lines_of(np.concatenate(found)))


def _hints(rows: BlockRows) -> Iterator[tuple[str, int]]:
    """Things worth knowing that were seen in a block, with their first line."""
    new = rows.sound(_CHUNK_NEW)
    new = new[rows.values(_CHUNK_NEW, "bare", new) >= 0]
    deferred, prealloc = (rows.of(number_of(form)) for form in (others.STREAM_DEFERRED, paddle.PREALLOC))
    for name, at in (("prealloc", prealloc), ("no_pointers", new), ("deferred_frees", deferred)):
        if len(at):
            yield name, int(rows.found.line[at[0]])
    block = rows.block
    if block.offset == 0 and (nul := block.text[: 1 << 16] == 0).any():
        yield "binary", count_lines(block.text[: int(nul.argmax())])
    if block.cut:
        yield "long_line", 0
