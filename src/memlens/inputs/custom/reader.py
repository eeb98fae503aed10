"""Reads an input of a user's own format: lines are found by their literal, and only these meet a regular expression."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from memlens.errors import InputError, NoEventsError
from memlens.events import EventLog, Kind
from memlens.facts import Facts, LineSample
from memlens.inputs.blocks import Blocks
from memlens.inputs.custom.lines import LONGEST, Found, LineOf, TextError
from memlens.scanner.bytesearch import Plan, pieces
from memlens.windows.patterns import Anchor, Matcher, anchors_in_block

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.inputs.file_source import FileSource
    from memlens.inputs.input_format import Request

__all__ = ["lines_with", "read_user_format"]

#: What an event is kept as: kind, size, addr, offset, time_us, thread, requested, stream, line, device, owner.
_Row: TypeAlias = "tuple[int, int, int, int, int, int, int, int, int, int | None, int]"

_SAMPLES = 5
_SHOWN = 200
_MOST_BYTES = 1 << 62
_MOST_OWNERS = 1 << 20


def read_user_format(source: FileSource, request: Request, *, name: str, lines: Sequence[LineOf]) -> Sequence[EventLog]:
    """Read an input.

    Args:
        source: The input; compressed or not.
        request: What is wanted of it.
        name: The format's name.
        lines: Its kinds of lines; of several that match a line the first counts.

    Returns:
        A log for each device that lines name, by rising number; one where none does.

    Raises:
        InputError: It cannot be read.
        NoEventsError: No line is an event.
        UsageError: A pattern is no regular expression.
    """
    collector = _Collector(lines)
    matchers = [Matcher(pattern) for pattern in request.patterns]
    found: list[tuple[list[int], list[int], list[str]]] = [([], [], []) for _ in matchers]
    index: list[tuple[int, int]] = []
    count = size = 0
    mid_line = False
    with closing(source.open()) as stream:
        blocks = Blocks(stream)
        for block in blocks:
            index.append((block.offset, count))
            ends = np.flatnonzero(block.text == 0x0A)
            collector.add(block.text, ends, block.offset, count + 1)
            for matcher, (offsets, numbers, names) in zip(matchers, found, strict=True):
                more = anchors_in_block(matcher, block.text, block.offset, count + 1)
                offsets.extend(more[0])
                numbers.extend(more[1])
                names.extend(more[2])
            count += len(ends)
            size = block.offset + block.end - block.begin
            mid_line = block.data[block.end - 1] != 0x0A and not block.cut
            blocks.pool.give_back(block)
            if request.progress is not None:
                request.progress(stream.consumed)
        problem, compressed = stream.problem, bool(stream.compression)
    if problem and request.strict:
        raise InputError(f"{source.name}: {problem}", "Leave out --strict to analyze what can be read.")
    total = count + mid_line
    if not collector.rows:
        early = f" ({problem})" if problem else ""
        wrong = f"; {collector.malformed:,} of them look like one but cannot be read" if collector.malformed else ""
        raise NoEventsError(
            f"{source.name}: no event of the format {name!r} in {total:,} lines{early}{wrong}",
            f"Looked for {' and '.join(sorted({repr(line.literal.decode('utf-8', 'replace')) for line in lines}))}.",
        )
    places = np.array(index, np.int64)
    source.index(places[:, 0], places[:, 1])
    facts = Facts(
        bytes=size,
        lines=int(total),
        malformed=collector.malformed,
        malformed_samples=tuple(collector.samples),
        ends_mid_line=bool(mid_line),
        cut_short=problem,
        layer=f"format:{name}",
        addresses=any("addr" in line.groups for line in lines),
    )
    anchors = tuple(
        Anchor(matcher.pattern, tuple(offsets), tuple(numbers), tuple(names))
        for matcher, (offsets, numbers, names) in zip(matchers, found, strict=True)
    )
    return collector.logs(source, facts, anchors, numbered=compressed or source.path is None)


def lines_with(
    text: NDArray[np.uint8], ends: NDArray[np.int64], literals: Sequence[bytes]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The lines of a block that hold one of some texts.

    Args:
        text: The block, uint8; begins at a line start.
        ends: Positions of its line ends, int64, rising.
        literals: The texts; none is empty.

    Returns:
        Their numbers, counted from 0, where they start, and where they end, int64, rising.
    """
    if not len(text):
        return (np.zeros(0, np.int64),) * 3
    plan = Plan.of(literals, text)
    parts = [np.unique(plan.positions(text[begin:end])) + begin for begin, end in pieces(text)]
    number = np.unique(ends.searchsorted(np.concatenate(parts)))
    starts, stops = np.append(0, ends + 1), np.append(ends, len(text))
    return number, starts[number], stops[number]


@dataclass
class _Collector:
    """Takes the blocks of one input in order, and keeps a row an event."""

    lines: Sequence[LineOf]
    rows: list[_Row] = field(default_factory=list)
    malformed: int = 0
    samples: list[LineSample] = field(default_factory=list)
    #: What the latest ALLOC or RESERVE of an address says of it: its size and its device.
    _live: dict[tuple[bool, int, int | None], int] = field(default_factory=dict)
    _device: dict[tuple[bool, int], int | None] = field(default_factory=dict)
    _threads: dict[str, int] = field(default_factory=dict)
    _owners: dict[str, int] = field(default_factory=dict)
    _total: int = 0

    def add(self, text: NDArray[np.uint8], ends: NDArray[np.int64], offset: int, first: int) -> None:
        """Take the next block.

        Args:
            text: Whole lines, uint8.
            ends: Positions of the line ends, int64.
            offset: Byte offset of the block.
            first: 1-based number of its first line.
        """
        number, starts, stops = lines_with(text, ends, [line.literal for line in self.lines])
        whole = text.tobytes() if len(number) else b""
        for line, start, stop in zip(number.tolist(), starts.tolist(), stops.tolist(), strict=True):
            self._add_line(whole[start : min(stop, start + LONGEST)], offset + start, first + line)

    def _add_line(self, line: bytes, offset: int, number: int) -> None:
        for form in self.lines:
            try:
                found = form.find(line)
            except TextError:
                break
            if found is not None:
                if (row := self._row(found, offset, number)) is None:
                    break
                self.rows.append(row)
                return
        else:
            if any(form.ignored(line) for form in self.lines):
                return
        self.malformed += 1
        if len(self.samples) < _SAMPLES:
            self.samples.append(LineSample(offset, number, line[:_SHOWN].rstrip(b"\r").decode("utf-8", "replace")))

    def _row(self, found: Found, offset: int, number: int) -> _Row | None:
        """The row of an event; ``None`` where its size is not to be had."""
        kind, size, device = found.kind, found.size, found.device
        chunk = kind in (Kind.RESERVE, Kind.RELEASE)
        if kind in (Kind.ALLOC, Kind.RESERVE):
            self._live[chunk, found.addr, device] = size
            self._device[chunk, found.addr] = device
        else:
            if device is None:
                device = self._device.get((chunk, found.addr))
            known = self._live.pop((chunk, found.addr, device), -1)
            if size < 0:
                size = known
            if size < 0:
                return None
        self._total += size
        if self._total > _MOST_BYTES:
            raise InputError(
                f"the sizes add up to more than 4 EiB by line {number:,}",
                "No run allocates that much: the log is damaged.",
            )
        thread = -1 if found.thread is None else self._thread(found.thread)
        owner = -1
        if found.owner is not None and (found.owner in self._owners or len(self._owners) < _MOST_OWNERS):
            owner = self._owners.setdefault(found.owner, len(self._owners))
        return (
            *(int(kind), size, found.addr, offset, found.time_us, thread, found.requested),
            *(found.stream, number, device, owner),
        )

    def _thread(self, text: str) -> int:
        """The number of a thread; threads with names are numbered in order of first use."""
        if text.isascii() and text.isdigit() and len(text) < 19:
            return int(text)
        return self._threads.setdefault(text, len(self._threads) + 1)

    def logs(self, source: FileSource, facts: Facts, anchors: tuple[Anchor, ...], *, numbered: bool) -> list[EventLog]:
        """A log for each device."""
        devices: list[int | None] = [row[9] for row in self.rows]
        names = sorted({device for device in devices if device is not None})
        if len(names) < 2:
            return [self._log(self.rows, names[0] if names else None, source, facts, anchors, numbered=numbered)]
        # What names no device is the first one's: programs leave it out where there was only one.
        return [
            self._log(
                [row for row in self.rows if row[9] == name or (row[9] is None and name == names[0])],
                name,
                source,
                facts,
                anchors,
                numbered=numbered,
            )
            for name in names
        ]

    def _log(
        self,
        rows: Sequence[_Row],
        device: int | None,
        source: FileSource,
        facts: Facts,
        anchors: tuple[Anchor, ...],
        *,
        numbered: bool,
    ) -> EventLog:
        kind, size, addr, offset, time_us, thread, requested, stream, number, _, owner = zip(*rows, strict=True)
        columns: dict[str, Any] = {
            "kind": np.array(kind, np.int8),
            "size": np.array(size, np.int64),
            "addr": np.array(addr, np.uint64),
            "offset": np.array(offset, np.int64),
        }
        optional = (("time_us", time_us), ("thread", thread), ("requested", requested), ("stream", stream))
        for name, values in optional:
            if max(values) >= 0:
                columns[name] = np.array(values, np.int64)
        if max(owner) >= 0:
            columns |= {"owner": np.array(owner, np.int32), "owner_names": tuple(self._owners)}
        if numbered:
            columns["line"] = np.array(number, np.int64)
        threads = tuple(sorted(set(thread) - {-1}))
        return EventLog(
            **columns,
            device=device,
            source=source,
            facts=replace(facts, threads=threads, unstamped=0),
            anchors=anchors,
        )
