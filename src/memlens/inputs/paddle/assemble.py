"""Put together what the blocks of one input gave, in order, into an event log."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.errors import InputError
from memlens.events import EventLog
from memlens.facts import Facts, Figure, LineSample, OutOfMemory, StatLines
from memlens.inputs.growing import GrowingColumn
from memlens.inputs.paddle.layer_columns import LayerColumns, size_frees
from memlens.inputs.paddle.layers import WITHOUT_ADDRESSES, Layer
from memlens.inputs.paddle.messages import read_message
from memlens.inputs.paddle.owners import OwnerColumn
from memlens.inputs.paddle.requests import PendingRequests
from memlens.windows.patterns import Anchor, Pattern

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.inputs.file_source import FileSource
    from memlens.inputs.paddle.decode import Decoded
    from memlens.inputs.paddle.layer_columns import Chosen

__all__ = ["Assembler", "BlockReading", "Text"]

_ALWAYS = ("kind", "size", "addr", "offset")
_TYPES = {"kind": np.int8, "addr": np.uint64}
_SAMPLES = 5
_SHOWN = 200
#: Sums of sizes stay in 63 bits below this many bytes.
_MOST_BYTES = float(1 << 62)


@dataclass(frozen=True)
class Text:
    """One line: its byte offset, its number counted from 0 at the first line of its block, its first characters."""

    offset: int
    line: int
    text: bytes


@dataclass(frozen=True)
class BlockReading:
    """What one block gave.  Lines count from 0 at the block's first line.

    Attributes:
        offset: Byte offset of the block in the uncompressed input.
        size: Its bytes.
        lines: Its line ends.
        decoded: Its events, and what else the decoder found.
        messages: The lines that may hold a message of the framework.
        samples: The first malformed lines, also of other layers.
        threads: Threads of the events; -1 where a header is missing.
        thread_numbers: For each event which of these it has; ``None`` where there are not two.
        unstamped: Events without a header.
        anchors: For each pattern ``(offsets, lines, names)``.
        line: The line of each event, int64, where wanted.
        ends_mid_line: Its last line has no line end.
        cut: It ends in the middle of a line that is too long to keep whole.
        hints: Other things seen, by name, with the first line.
    """

    offset: int
    size: int
    lines: int
    decoded: Decoded
    messages: tuple[Text, ...]
    samples: tuple[Text, ...]
    threads: tuple[int, ...]
    thread_numbers: NDArray[np.unsignedinteger] | None
    unstamped: int
    anchors: tuple[tuple[Sequence[int], Sequence[int], Sequence[str]], ...]
    line: NDArray[np.int64] | None
    ends_mid_line: bool
    cut: bool
    hints: Mapping[str, int]


class Assembler:
    """Takes block readings in file order and makes the log of them.

    Args:
        source: The input; its line index is filled here.
        patterns: The anchors looked for, in the order of :attr:`BlockReading.anchors`.
        columns: The columns wanted beyond the usual ones; ``line`` among them where lines cannot be numbered later.
        size: Bytes of the uncompressed input where they are known, else 0.
        layer: The layer that the user asks for; ``None`` for the most exact one.
    """

    def __init__(
        self,
        source: FileSource,
        patterns: tuple[Pattern, ...],
        columns: Collection[str],
        size: int = 0,
        layer: Layer | None = None,
    ) -> None:
        self._source, self._patterns, self._size = source, patterns, size
        self._columns = {name: GrowingColumn(_TYPES.get(name, np.int64)) for name in (*_ALWAYS, *columns)}
        self._requested: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._pending = PendingRequests()
        self._owners = OwnerColumn()
        self._layer, self._layers = layer, LayerColumns(layer)
        self._events = self._bytes = self._lines = self._malformed = 0
        self._total = 0.0
        self._samples: list[LineSample] = []
        self._hints: dict[str, int] = {}
        self._ooms: list[OutOfMemory] = []
        self._figures: list[Figure] = []
        self._stats: list[StatLines] = []
        self._anchors: list[tuple[list[int], list[int], list[str]]] = [([], [], []) for _ in patterns]
        self._index: list[tuple[int, int]] = []
        self._mid_line = False

    def add(self, reading: BlockReading) -> None:
        """Take the next block.

        Raises:
            InputError: The sizes add up to more than 64-bit sums can hold.
        """
        decoded, first = reading.decoded, self._lines + 1
        self._index.append((reading.offset, self._lines))
        self._add_events(reading)
        self._add_requests(decoded)
        for text in reading.messages:
            self._add_message(text, first)
        for text in reading.samples:
            shown = text.text[:_SHOWN].decode("utf-8", "replace")
            sample = LineSample(text.offset, first + text.line, shown)
            other = decoded.layers is not None and self._layers.add_sample(decoded.layers, sample, _SAMPLES)
            if not other and len(self._samples) < _SAMPLES:
                self._samples.append(sample)
        self._malformed += len(decoded.malformed)
        for column, found in zip(self._anchors, reading.anchors, strict=True):
            column[0].extend(found[0])
            column[1].extend(line + first for line in found[1])
            column[2].extend(found[2])
        for hint, line in reading.hints.items():
            self._hints.setdefault(hint, first + line)
        self._layers.count_lines("naive_best_fit", decoded.naive_best_fit)
        if decoded.stat_lines is not None:
            self._layers.count_lines("stats", len(decoded.stat_lines))
            self._stats.append(decoded.stat_lines)
        self._bytes = reading.offset + reading.size
        self._lines += reading.lines
        self._mid_line = bool(reading.ends_mid_line) and not reading.cut

    def _add_events(self, reading: BlockReading) -> None:
        decoded = reading.decoded
        done = (reading.offset + reading.size) / self._size if self._size else 0.0
        self._requested += self._layers.add(
            decoded.layers, decoded.kind, reading.threads, reading.thread_numbers, reading.unstamped, done
        )
        for name, column in self._columns.items():
            part = (
                getattr(decoded, name) if reading.line is None or name != "line" else reading.line + (self._lines + 1)
            )
            column.append(part, done)
        self._owners.add(decoded.owners, len(decoded.kind), reading.threads, reading.thread_numbers, done)
        self._total += float(decoded.size.sum(dtype=np.float64))
        if self._total > _MOST_BYTES:
            raise InputError(
                f"{self._source.name}: the sizes add up to more than 4 EiB by line {self._lines + reading.lines:,}",
                "No run allocates that much: the log is damaged.",
            )

    def _add_requests(self, decoded: Decoded) -> None:
        requests = decoded.requests
        late = self._pending.settle(requests)
        if len(requests.rows):
            self._requested.append((requests.rows + self._events, requests.requested))
        if late:
            rows, values = zip(*late, strict=True)
            self._requested.append((np.array(rows, np.int64) + self._events, np.array(values, np.int64)))
        self._events += len(decoded.kind)

    def _add_message(self, text: Text, first: int) -> None:
        message = read_message(text.text, text.offset, first + text.line)
        if message is not None:
            self._figures.extend(message.figures)
            if message.oom is not None:
                self._ooms.append(message.oom)

    def finish(self, cut_short: str) -> EventLog:
        """The log of all blocks taken: the events of the layers that are believed.

        Raises:
            NoEventsError: There was no event.
        """
        chosen = self._layers.finish(self._columns["kind"].entries(), self._columns["size"].entries())
        facts = self._facts(chosen, cut_short)
        if not self._events or (chosen.rows is not None and not chosen.rows.any()):
            from memlens.trust import no_events_error

            raise no_events_error(self._source.name, facts, None if self._layer is None else self._layer.label)
        index = np.array(self._index, np.int64)
        self._source.index(index[:, 0], index[:, 1])
        owner, owner_names = self._owners.finish()
        columns: dict[str, Any] = {name: self._columns.pop(name).entries() for name in list(self._columns)}
        columns["requested"], columns["owner"] = self._requested_column(columns["kind"]), owner
        if chosen.rows is not None and not chosen.rows.all():
            for name in list(columns):  # one after the other: what is not chosen is dropped
                column = columns.pop(name)
                columns[name] = None if column is None else column[chosen.rows]
                del column
            if owner is not None:
                columns["owner"], owner_names = _names_in_use(columns["owner"], owner_names)
            if columns["requested"] is not None and (columns["requested"] < 0).all():
                columns["requested"] = None
        log = EventLog(
            **columns,
            owner_names=owner_names,
            source=self._source,
            facts=facts,
            anchors=tuple(
                Anchor(pattern, tuple(offsets), tuple(lines), tuple(names))
                for pattern, (offsets, lines, names) in zip(self._patterns, self._anchors, strict=True)
            ),
        )
        size_frees(log, chosen.blocks)
        streams = self._layers.streams(log)
        return log if streams is None else replace(log, stream=streams)

    def _facts(self, chosen: Chosen, cut_short: str) -> Facts:
        layer = chosen.blocks if chosen.blocks is not None else chosen.chunks
        samples = sorted((*self._samples, *chosen.samples), key=lambda sample: sample.offset)
        if chosen.blocks != Layer.STREAM_SAFE:
            self._hints.pop("deferred_frees", None)
        return Facts(
            bytes=self._bytes,
            lines=int(self._lines + self._mid_line),
            malformed=self._malformed + chosen.malformed,
            malformed_samples=tuple(samples[:_SAMPLES]),
            ends_mid_line=self._mid_line,
            cut_short=cut_short,
            threads=tuple(sorted(chosen.threads - {-1})),
            unstamped=chosen.unstamped,
            layer=(Layer.AUTO_GROWTH if layer is None else layer).label,
            chunk_layer="" if chosen.chunks is None else chosen.chunks.label,
            addresses=chosen.blocks not in WITHOUT_ADDRESSES,
            other_layers=chosen.passed_over,
            hints=self._hints,
            ooms=tuple(self._ooms),
            figures=tuple(self._figures),
            stat_lines=_join_stat_lines(self._stats),
        )

    def _requested_column(self, kind: NDArray[np.int8]) -> NDArray[np.int64] | None:
        if not self._requested:
            return None
        requested = np.full(len(kind), -1, np.int64)
        for rows, values in self._requested:
            requested[rows] = values
        return requested


def _names_in_use(owner: NDArray[np.int32], names: tuple[str, ...]) -> tuple[NDArray[np.int32] | None, tuple[str, ...]]:
    """The owners numbered anew where some names are left without an event."""
    used = np.unique(owner[owner >= 0])
    if not len(used):
        return None, ()
    numbering = np.full(len(names) + 1, -1, np.int32)
    numbering[used] = np.arange(len(used))
    return numbering[owner], tuple(names[number] for number in used.tolist())


def _join_stat_lines(parts: list[StatLines]) -> StatLines | None:
    if not parts:
        return None
    names = ("offset", "device", "reserved", "change", "current", "peak")
    return StatLines(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
