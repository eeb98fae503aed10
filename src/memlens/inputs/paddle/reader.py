"""Read one text log of Paddle into an event log, in one pass.

Threads share the blocks of the input out and read each on its own (:mod:`memlens.inputs.paddle.block`).  Here they are put together in file
order: what lines say of events in later blocks, and at the end which layer is believed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.errors import UsageError
from memlens.facts import Facts, Figure, Kind, OutOfMemory, StatLines
from memlens.inputs.builder import SAMPLES, Builder
from memlens.inputs.paddle.block import NO_HEADER, BlockReader, BlockReading, Streams, layers_of_places
from memlens.inputs.paddle.joins import ByThread, Said, join_streams, size_frees
from memlens.inputs.paddle.layers import SIZELESS, WITHOUT_ADDRESSES, Chosen, Layer, Layers, layer_named
from memlens.inputs.paddle.messages import read_message
from memlens.inputs.paddle.unanswered import Unanswered, text_before
from memlens.windows.patterns import Matcher

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.errors import NoEventsError
    from memlens.events import EventLog
    from memlens.inputs.blocks import Block
    from memlens.inputs.file_source import FileSource
    from memlens.inputs.input_format import Request

__all__ = ["COLUMNS", "read"]

#: Columns that are read only when asked for.
COLUMNS = frozenset({"thread", "time_us"})
_TYPES = {"kind": np.int8, "size": np.int64, "addr": np.uint64, "offset": np.int64}


def read(source: FileSource, request: Request) -> EventLog:
    """Read a log of Paddle; see :func:`memlens.inputs.read` for any input.

    Owners are named by the lines of :mod:`memlens.inputs.paddle.context` and by those that the request names; the layer is a name of
    :class:`memlens.inputs.paddle.layers.Layer`, the most exact one by itself.

    Raises:
        InputError: It cannot be read.
        NoEventsError: It holds no allocator event.
        UsageError: An unknown column, an unknown layer, or a pattern that is no regular expression.
    """
    if unknown := set(request.columns) - COLUMNS:
        raise UsageError(f"no column {', '.join(sorted(unknown))}", f"There are: {', '.join(sorted(COLUMNS))}.")
    layer = None if request.layer is None else layer_named(request.layer)
    matchers, marks = ([Matcher(pattern) for pattern in texts] for texts in (request.patterns, request.owners))
    # What cannot be looked up quickly later is numbered now.
    wanted = (*request.columns, *["line"] * source.numbered, *["landmarks"] * request.landmarks)
    reader = BlockReader(matchers, marks, wanted, layer)

    def work(block: Block) -> tuple[BlockReading, tuple[dict[int, bytes], bytes]]:
        reading = reader.read(block)
        return reading, text_before(block, reading)

    assembler = _Assembler(source, request, layer)
    for reading, before in source.read_blocks(work, request.progress):
        assembler.add(reading, *before)
    return assembler.finish(source.problem)


class _Assembler:
    """Takes what the blocks hold in file order and makes the log of it.

    Args:
        source: The input.
        request: What was asked for.
        layer: The layer that the user asks for; ``None`` for the most exact one.
    """

    def __init__(self, source: FileSource, request: Request, layer: Layer | None) -> None:
        self._source, self._layer = source, layer
        self._builder = Builder(source, request, _TYPES, size=source.size)
        self._with_threads = "thread" in request.columns
        self._layers = Layers(layer)
        self._said = [
            (of, ByThread(2, once=True)) for of in (Layer.AUTO_GROWTH, Layer.STREAM_SAFE, Layer.NAIVE_BEST_FIT)
        ]
        self._owners = ByThread(once=False)
        self._names: dict[str, int] = {}
        self._last_thread = -1
        self._ooms: list[OutOfMemory] = []
        self._unanswered = Unanswered([Matcher(pattern) for pattern in request.owners])
        self._end = 0
        self._figures: list[Figure] = []
        self._stats: list[StatLines] = []
        self._streams: list[Streams] = []

    def add(self, reading: BlockReading, above: Mapping[int, bytes], tail: bytes) -> None:
        """Take the next block.

        Args:
            reading: What it holds.
            above: The text before its out-of-memory messages, by their offset.
            tail: How it ends.

        Raises:
            InputError: The sizes add up to more than 64-bit sums can hold.
        """
        first, columns, layer = self._builder.lines + 1, reading.part.columns, reading.layer
        self._add_said(reading)
        self._add_owners(reading)
        if layer is not None:
            columns["layer"] = layer
        if self._with_threads:
            columns["thread"] = reading.thread
        self._layers.add(layer, columns["kind"], reading.thread, reading.lines)
        self._builder.add(reading.part)
        for of, (count, texts) in reading.malformed.items():
            self._layers.add_malformed(of, count, [Builder.sample(text, first) for text in texts])
        for text in reading.messages:
            message = read_message(text.text, text.offset, first + text.line)
            if message is not None:
                self._figures.extend(message.figures)
                if message.oom is not None:
                    self._ooms.append(self._unanswered.completed(message.oom, above.get(text.offset)))
        self._unanswered.end_block(tail)
        self._end = reading.part.offset + reading.part.size
        if reading.stat_lines is not None:
            self._stats.append(reading.stat_lines)
        if reading.streams is not None:
            before = reading.streams.before + (self._builder.events - len(columns["kind"]))
            self._streams.append(reading.streams._replace(before=before))

    def _add_said(self, reading: BlockReading) -> None:
        """What lines said of the next ALLOC of their thread: what was requested; of naive best fit its size and place."""
        columns, layer = reading.part.columns, reading.layer
        size = columns["size"]
        for (of, joined), said in zip_longest(self._said, reading.said):
            if said is None and not (joined.carries and (layer is not None or of == Layer.AUTO_GROWTH)):
                continue
            mine = (columns["kind"] == Kind.ALLOC) & (of == (Layer.AUTO_GROWTH if layer is None else layer))
            rows, values = joined.join(said, reading.thread, mine)
            if of == Layer.NAIVE_BEST_FIT:
                if layer is not None:
                    size[rows], layer[rows] = values[:, 0], layers_of_places(values[:, 1])
                continue
            if of == Layer.AUTO_GROWTH:  # a request names the size that its block will have
                fits = values[:, 1] == size[rows]
                rows, values = rows[fits], values[fits]
            if len(rows):
                columns.setdefault("requested", np.full(len(size), -1, np.int64))[rows] = values[:, 0]

    def _add_owners(self, reading: BlockReading) -> None:
        contexts = reading.contexts
        if contexts is not None:
            thread = np.where(contexts.thread == NO_HEADER, self._last_thread, contexts.thread)
            numbers = np.array([self._names.setdefault(name, len(self._names)) for name in reading.names], np.int64)
            contexts = Said(contexts.before, thread, numbers[contexts.values])
        rows, values = self._owners.join(contexts, reading.thread)
        if len(rows):
            owner = np.full(len(reading.thread), -1, np.int32)
            owner[rows] = values[:, 0]
            reading.part.columns["owner"] = owner
        if reading.last_thread != NO_HEADER:
            self._last_thread = reading.last_thread

    def finish(self, cut_short: str) -> EventLog:
        """The log of all blocks taken: the events of the layers that are believed.

        Raises:
            InputError: The input is cut short, and was to be read whole.
            NoEventsError: There was no event.
        """
        builder = self._builder
        cut_off = self._unanswered.cut_off(self._end, builder.lines)
        if cut_off is not None and (not self._ooms or self._ooms[-1].line < cut_off.line):
            self._ooms.append(cut_off)
        layer, owner, requested = builder.drop("layer"), builder.drop("owner"), builder.drop("requested")
        if layer is not None:
            np.maximum(layer, Layer.AUTO_GROWTH, out=layer)  # blocks without another layer had no such column
        chosen = self._layers.finish(layer, builder.column("kind"), builder.column("size"))
        rows = None if chosen.rows is None or chosen.rows.all() else chosen.rows
        if rows is not None:
            owner, requested = (None if column is None else column[rows] for column in (owner, requested))
        names: tuple[str, ...] = ()
        if owner is not None:
            owner, names = _by_name(owner, self._names)
        if requested is not None and (requested < 0).all():
            requested = None
        log = builder.finish(
            cut_short=cut_short,
            facts=self._facts(chosen),
            columns={"owner": owner, "owner_names": names, "requested": requested},
            rows=rows,
            nothing=self._nothing,
        )
        streams = self._stream(log, chosen.blocks, rows)
        log = log if streams is None else replace(log, stream=streams)
        if chosen.blocks in SIZELESS:
            size_frees(log)
        return log

    def _nothing(self, facts: Facts) -> NoEventsError:
        from memlens.trust import no_events_error

        return no_events_error(self._source.name, facts, None if self._layer is None else self._layer.label)

    def _facts(self, chosen: Chosen) -> dict[str, Any]:
        builder = self._builder
        layer = chosen.blocks if chosen.blocks is not None else chosen.chunks
        samples = sorted((*builder.samples, *chosen.samples), key=lambda sample: sample.offset)
        if chosen.blocks != Layer.STREAM_SAFE:
            builder.hints.pop("deferred_frees", None)
        return {
            "malformed": builder.malformed + chosen.malformed,
            "malformed_samples": tuple(samples[:SAMPLES]),
            "threads": tuple(sorted(chosen.threads)),
            "unstamped": chosen.unstamped,
            "layer": (Layer.AUTO_GROWTH if layer is None else layer).label,
            "chunk_layer": "" if chosen.chunks is None else chosen.chunks.label,
            "addresses": chosen.blocks not in WITHOUT_ADDRESSES,
            "sized_frees": layer not in SIZELESS,
            "other_layers": chosen.passed_over,
            "ooms": tuple(self._ooms),
            "figures": tuple(self._figures),
            "stat_lines": StatLines(
                *map(np.concatenate, zip(*(vars(part).values() for part in self._stats), strict=True))
            )
            if self._stats
            else None,
        }

    def _stream(self, log: EventLog, blocks: Layer | None, rows: NDArray[np.bool_] | None) -> NDArray[np.int64] | None:
        if not self._streams:
            return None
        streams = Streams(*map(np.concatenate, zip(*self._streams, strict=True)))
        if blocks == Layer.AUTO_GROWTH and streams.of_driver.any():
            # Of the layers that are passed over only those lines count that stand between these blocks' own.
            streams = streams.where(~streams.of_driver)
        before = streams.before if rows is None else np.append(0, np.cumsum(rows))[streams.before]
        return join_streams(log, before, streams.addr, streams.stream)


def _by_name(owner: NDArray[np.int32], names: dict[str, int]) -> tuple[NDArray[np.int32] | None, tuple[str, ...]]:
    """The owners numbered in the order of the alphabet, without those that own nothing."""
    used = np.zeros(len(names) + 1, np.bool_)
    used[owner] = True
    kept = sorted(name for name, number in names.items() if used[number])
    if not kept:
        return None, ()
    numbering = np.full(len(used), -1, np.int32)
    numbering[[names[name] for name in kept]] = np.arange(len(kept))
    return numbering[owner], tuple(kept)
