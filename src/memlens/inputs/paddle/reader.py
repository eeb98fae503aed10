"""Read one text log of Paddle into an event log, in one pass.

Threads share the blocks of the input out and read each on its own (:mod:`memlens.inputs.paddle.block`).  Here they are put together in file
order: what lines say of events in later blocks, and at the end which layer is believed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from memlens.errors import UsageError
from memlens.facts import Facts, Figure, Kind, OutOfMemory, StatLines
from memlens.inputs.blocks import in_order
from memlens.inputs.builder import SAMPLES, Builder
from memlens.inputs.file_source import FileSource, open_source
from memlens.inputs.input_format import Request
from memlens.inputs.paddle.block import NO_HEADER, BlockReader, BlockReading, Streams
from memlens.inputs.paddle.joins import ByThread, Said, join_streams, size_frees
from memlens.inputs.paddle.layers import SIZELESS, WITHOUT_ADDRESSES, Chosen, Layer, Layers, layer_named
from memlens.inputs.paddle.messages import read_message
from memlens.inputs.paddle.other_events import HOST_PLACES
from memlens.inputs.paddle.unanswered import Unanswered, text_before
from memlens.windows.patterns import Matcher

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.errors import NoEventsError
    from memlens.events import EventLog
    from memlens.inputs.blocks import Block
    from memlens.windows.patterns import Pattern

__all__ = ["COLUMNS", "read"]

#: Columns that are read only when asked for.
COLUMNS = frozenset({"thread", "time_us"})
_TYPES = {"kind": np.int8, "size": np.int64, "addr": np.uint64, "offset": np.int64}


def read(
    where: str | Path | BinaryIO | FileSource,
    *,
    patterns: Sequence[Pattern] = (),
    owners: Sequence[Pattern] = (),
    columns: Collection[str] = (),
    layer: str | None = None,
    strict: bool = False,
    landmarks: bool = False,
    progress: Callable[[int], None] | None = None,
) -> EventLog:
    """Read a log of Paddle; see :func:`memlens.inputs.read` for any input.

    Args:
        where: A path, ``-`` for standard input, a URL, an open binary file, or any of these as a source.  Compressed input is known
            by its content.
        patterns: Anchors to find in the same pass; needed for input that can be read only once, quicker for any.
        owners: Lines that name the owner of what their thread allocates and frees next, beside those that memlens knows by itself
            (:mod:`memlens.inputs.paddle.context`): by the pattern's first group, or by what it matched.
        columns: Columns wanted beyond the usual ones: ``time_us``, ``thread``.
        layer: The allocator layer to take blocks from, a name of :class:`memlens.inputs.paddle.layers.Layer`; the most exact one by itself.
        strict: Raise when a compressed input is cut short, instead of reading what there is.
        landmarks: Keep lines that may mark the work of the run.
        progress: Called now and then with the bytes consumed of the input as it lies on disk.

    Raises:
        InputError: It cannot be read.
        NoEventsError: It holds no allocator event.
        UsageError: An unknown column, an unknown layer, or a pattern that is no regular expression.
    """
    if unknown := set(columns) - COLUMNS:
        raise UsageError(f"no column {', '.join(sorted(unknown))}", f"There are: {', '.join(sorted(COLUMNS))}.")
    asked = None if layer is None else layer_named(layer)
    source = where if isinstance(where, FileSource) else open_source(where)
    matchers, marks = ([Matcher(pattern) for pattern in texts] for texts in (patterns, owners))
    request = Request(tuple(patterns), tuple(owners), tuple(columns), layer, strict, landmarks, progress)
    with closing(source.open()) as stream:
        plain_file = source.path if not stream.compression else None
        # What cannot be looked up quickly later is numbered now.
        wanted = [*columns, *([] if plain_file else ["line"]), *(["landmarks"] if landmarks else [])]
        reader = BlockReader(matchers, marks, wanted, asked)

        def work(block: Block) -> tuple[BlockReading, tuple[dict[int, bytes], bytes]]:
            reading = reader.read(block)
            return reading, text_before(block, reading)

        # A log may be written faster than it is read: its end is where it was when the reading began.
        size = os.path.getsize(plain_file) if plain_file else 0
        assembler = _Assembler(source, request, size, asked)
        with closing(in_order(stream, work, size=size)) as readings:
            for reading, before in readings:
                assembler.add(reading, *before)
                if progress is not None:
                    progress(stream.consumed or reading.part.offset + reading.part.size)
        return assembler.finish(stream.problem)


class _Assembler:
    """Takes what the blocks hold in file order and makes the log of it.

    Args:
        source: The input.
        request: What was asked for.
        size: Bytes of the uncompressed input where they are known, else 0.
        layer: The layer that the user asks for; ``None`` for the most exact one.
    """

    def __init__(self, source: FileSource, request: Request, size: int, layer: Layer | None) -> None:
        self._source, self._layer = source, layer
        self._builder = Builder(source, request, _TYPES, size=size)
        self._with_threads = "thread" in request.columns
        self._layers = Layers(layer)
        self._requests, self._asked = ByThread(2, once=True), ByThread(2, once=True)
        self._sizes, self._owners = ByThread(2, once=True), ByThread(once=False)
        self._names: dict[str, int] = {}
        self._last_thread = -1
        self._ooms: list[OutOfMemory] = []
        self._unanswered = Unanswered([Matcher(pattern) for pattern in request.owners])
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
        first, columns, layer = self._builder.lines + 1, reading.columns, reading.layer
        self._add_sizes(reading)
        self._add_requested(reading)
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
        if reading.stat_lines is not None:
            self._stats.append(reading.stat_lines)
        if reading.streams is not None:
            before = reading.streams.before + (self._builder.events - len(columns["kind"]))
            self._streams.append(reading.streams._replace(before=before))

    def _add_sizes(self, reading: BlockReading) -> None:
        """Sizes and places of ALLOCs of naive best fit, which stand on the line before."""
        size = reading.columns["size"]
        if reading.layer is None and reading.sizes is None:
            return
        rows, values = self._sizes.join(reading.sizes, reading.thread, size < 0)
        if reading.layer is not None:
            size[rows] = values[:, 0]
            host = values[:, 1] < len(HOST_PLACES)
            reading.layer[rows] = np.where(host, Layer.HOST_NAIVE_BEST_FIT, Layer.NAIVE_BEST_FIT)

    def _add_requested(self, reading: BlockReading) -> None:
        columns, layer = reading.columns, reading.layer
        requested: NDArray[np.int64] | None = None
        for of, joined, said in (
            (Layer.AUTO_GROWTH, self._requests, reading.requests),
            (Layer.STREAM_SAFE, self._asked, reading.asked),
        ):
            if of != Layer.AUTO_GROWTH and layer is None and said is None:
                continue
            if said is None and not joined.carries:
                continue
            mine = columns["kind"] == Kind.ALLOC
            if layer is not None:
                mine &= layer == of
            elif of != Layer.AUTO_GROWTH:
                mine[:] = False
            rows, values = joined.join(said, reading.thread, mine)
            if of == Layer.AUTO_GROWTH:  # a request names the size that its block will have
                fits = values[:, 1] == columns["size"][rows]
                rows, values = rows[fits], values[fits]
            if len(rows):
                requested = np.full(len(mine), -1, np.int64) if requested is None else requested
                requested[rows] = values[:, 0]
        if requested is not None:
            columns["requested"] = requested

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
            reading.columns["owner"] = owner
        if reading.last_thread != NO_HEADER:
            self._last_thread = reading.last_thread

    def finish(self, cut_short: str) -> EventLog:
        """The log of all blocks taken: the events of the layers that are believed.

        Raises:
            InputError: The input is cut short, and was to be read whole.
            NoEventsError: There was no event.
        """
        builder = self._builder
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
        names = ("offset", "device", "reserved", "change", "current", "peak")
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
            "stat_lines": StatLines(*(np.concatenate([getattr(part, name) for part in self._stats]) for name in names))
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
