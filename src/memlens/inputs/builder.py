"""Puts together what the parts of one input gave, in order, into an event log: one builder for every input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec import Struct

from memlens.errors import InputError, MemlensError
from memlens.facts import Facts, LineSample
from memlens.inputs.growing import GrowingColumn
from memlens.inputs.input_format import NewEvents
from memlens.log import Log
from memlens.text import visible
from memlens.units import format_bytes
from memlens.windows.landmarks import Landmarks
from memlens.windows.patterns import Matches

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import DTypeLike, NDArray

    from memlens.folding.condensed import Condensed
    from memlens.inputs.blocks import Block
    from memlens.inputs.condensing import Condensing
    from memlens.inputs.input_format import Request
    from memlens.source import Source, TextSource
    from memlens.windows.patterns import Match, Matcher


#: Malformed lines that are kept as examples.
SAMPLES = 5
_SHOWN = 200
#: Bytes that are kept of a last line without a line end.
_LAST_LINE = 1 << 12
#: Sums of sizes stay in 63 bits below this many bytes.
_MOST_BYTES = float(1 << 62)
#: The events of a text of fewer bytes are all kept, where nobody says how many may be held, and of others so many.
_SHORT, _MOST_EVENTS = 2 << 30, 1 << 19
#: Bytes that an event takes where all are kept, with what is worked out of it.
_OF_EVENT = 48


def most_events(request: Request, size: int) -> int | None:
    """Events that may be held at once of an input of so many bytes, 0 where these are not known; ``None`` for all."""
    if request.most_events == -1:
        return None if 0 < size < _SHORT else _MOST_EVENTS
    return request.most_events


def lines_wanted(source: TextSource, request: Request) -> bool:
    """Whether lines are to be numbered while they are read: they cannot be looked up later at little cost, or there may be very many to be looked up."""
    return source.numbered or most_events(request, source.size) is not None


class Text(NamedTuple):
    """One line: its byte offset in the input, its number counted from 0 at the first line of its block, its first characters."""

    offset: int
    line: int
    text: bytes

    @classmethod
    def of(cls, block: Block, start: int, line: int, most: int = _SHOWN) -> Text:
        """The line of a block that starts at a position, so many bytes of it at most."""
        text = block.data[start : min(start + most, block.end)].tobytes().partition(b"\n")[0].rstrip(b"\r")
        return cls(start - block.begin + block.offset, line, text)


class Part(Struct, frozen=True):
    """The reading of one block of text, or of one stretch of entries.  Lines count from 0 at the block's first line.

    Attributes:
        columns: Columns of :class:`~memlens.events.EventLog`, one entry an event; others that the reader asks back are kept as well.
        offset: Byte offset of the block in the uncompressed input.
        size: Its bytes.
        lines: Its line ends.
        ends_mid_line: Its last line has no line end.
        last_line: The text of that line.
        cut: It ends in the middle of a line that is too long to keep whole.
        line: The line of each event, int64, where lines cannot be numbered later.
        malformed: Lines that look like an event and do not parse.
        samples: The first of them.
        anchors: For each pattern asked for its lines, by byte offsets; empty where the input has no lines.
        landmarks: Lines that may mark the work of the run, where they are wanted.
        hints: Other things seen, by name, with the first line.
    """

    columns: dict[str, NDArray[Any]]
    offset: int = 0
    size: int = 0
    lines: int = 0
    ends_mid_line: bool = False
    last_line: bytes = b""
    cut: bool = False
    line: NDArray[np.int64] | None = None
    malformed: int = 0
    samples: Sequence[Text] = ()
    anchors: Sequence[Sequence[Match]] = ()
    landmarks: Landmarks | None = None
    hints: Mapping[str, int] = {}

    @classmethod
    def of(cls, block: Block, columns: dict[str, NDArray[Any]], matchers: Sequence[Matcher], **more: Any) -> Part:
        """The reading of a block of text: its anchors, and ``more`` of the fields given."""
        ends_mid_line = block.end > block.begin and bool(block.data[block.end - 1] != ord("\n"))
        tail = block.data[max(block.begin, block.end - _LAST_LINE) : block.end].tobytes() if ends_mid_line else b""
        return cls(
            columns,
            offset=block.offset,
            size=block.end - block.begin,
            ends_mid_line=ends_mid_line,
            last_line=tail.rpartition(b"\n")[2],
            cut=block.cut,
            anchors=tuple(matcher.find(block.text, block.offset) for matcher in matchers),
            **more,
        )


class Builder:
    """Takes parts in file order and makes the log of them.

    Args:
        source: The input; where it has lines that can be looked up, its line index is filled here.
        request: What was asked for: the patterns of the anchors, and whether an input that is cut short is an error.
        columns: The columns and their types.  A column that comes with a later part is filled with -1 up to there, and so is one that a
            part leaves out.
        size: Bytes of the uncompressed input where they are known, else 0.

    Attributes:
        events: Events held: those added so far, or since they were taken last.
        lines: Line ends so far: the 0-based number of the next part's first line.
        malformed: Malformed lines so far.
        samples: The first of them.
        hints: What was seen, by name, with the 1-based number of the first line.
    """

    def __init__(self, source: Source, request: Request, columns: Mapping[str, DTypeLike], *, size: int = 0) -> None:
        self._source, self._request, self._size = source, request, size
        self._columns = {name: GrowingColumn(dtype) for name, dtype in columns.items()}
        self._anchors = [Matches() for _ in request.patterns]
        self._landmarks: list[Landmarks] = []
        self._index: list[tuple[int, int]] = []
        self._bytes, self._total, self._mid_line, self._last_line = 0, 0.0, False, b""
        self._condensing: Condensing | None = None
        self._most_events = most_events(request, size)
        self.events = self.lines = self.malformed = 0
        self.samples: list[LineSample] = []
        self.hints: dict[str, int] = {}

    def add(self, part: Part) -> None:
        """Take the next part; its arrays are copied.

        Raises:
            InputError: The sizes add up to more than 64-bit sums can hold.
        """
        first, events = self.lines + 1, len(part.columns["kind"])
        done = (part.offset + part.size) / self._size if self._size and self._most_events is None else 0.0
        columns = part.columns if part.line is None else {**part.columns, "line": part.line + first}
        if self._request.needed_by and self.events <= _MOST_EVENTS < self.events + events:
            self._say_memory(done)
        for name in columns.keys() - self._columns.keys():
            self._columns[name] = GrowingColumn(columns[name].dtype)
            self._columns[name].fill(-1, self.events, done)
        for name, column in self._columns.items():
            if name in columns:
                column.append(columns[name], done)
            else:
                column.fill(-1, events, done)
        self.events += events
        if part.size:
            self._index.append((part.offset, self.lines))
            self._bytes = part.offset + part.size
            self._mid_line = part.ends_mid_line and not part.cut
            self._last_line = part.last_line if self._mid_line else b""
        self.lines += part.lines
        self._check_sums(float(part.columns["size"].sum(dtype=np.float64)), f" by line {self.lines:,}")
        self.malformed += part.malformed
        self.samples += [self.sample(text, first) for text in part.samples[: SAMPLES - len(self.samples)]]
        for matches, found in zip(self._anchors, part.anchors, strict=False):
            matches.add(found, first)
        if part.landmarks is not None:
            self._landmarks.append(part.landmarks._replace(lines=tuple(line + first for line in part.landmarks.lines)))
        for hint, line in part.hints.items():
            self.hints.setdefault(hint, first + line)

    def _say_memory(self, done: float) -> None:
        """Say how much memory all events will take, by those so far."""
        import logging

        events = round(self.events / done) if done > 0 else 0
        how_much = (
            f"about {events:,}, of {format_bytes(events * _OF_EVENT)} of memory"
            if events
            else f"nobody knows how many; a million takes {format_bytes(10**6 * _OF_EVENT)}"
        )
        logging.getLogger("memlens").warning(
            "%s: %s needs all events (%s)", visible(self._source.name), self._request.needed_by, how_much
        )

    @staticmethod
    def sample(text: Text, first: int) -> LineSample:
        """An example, given the 1-based number of the first line of its part."""
        return LineSample(text.offset, first + text.line, text.text[:_SHOWN].decode("utf-8", "replace"))

    @property
    def is_full(self) -> bool:
        """Whether so many events are held that those that no result needs are to be dropped."""
        most = self._most_events
        if most is None:
            return False
        return self.events > (most if self._condensing is None else max(most, self._condensing.full))

    @property
    def is_condensed(self) -> bool:
        """Whether events were dropped: then all are to be counted at the end."""
        return self._condensing is not None

    def condense(self, chosen: NDArray[np.bool_] | None, places: Sequence[int]) -> None:
        """Drop the events that no result needs, and count all of them.

        Args:
            chosen: Which events are of the log at all; ``None`` for all.
            places: Byte offsets, rising, at which levels are wanted, beside those of anchors and landmarks.
        """
        from memlens.inputs.condensing import Condensing

        if self._condensing is None:
            self._condensing = Condensing()
        offsets = np.concatenate([np.zeros(0, np.int64), *(np.array(matches.starts) for matches in self._anchors)])
        self._landmarks = [self._condensing.landmarks(self._landmarks)]
        self._condensing.condense(
            self._columns,
            chosen,
            (offsets, np.array(places, np.int64), np.array(self._landmarks[0].offsets, np.int64)),
            self._bytes,
        )
        self.events = len(self._columns["kind"])

    @property
    def end(self) -> int:
        """Byte offset in the input after the last part."""
        return self._bytes

    def take(self) -> NewEvents:
        """Return the part that was added since the last time, and forget it, as far as all readers of lines have it: no groups, and no selection."""
        columns = {name: column.entries() for name, column in self._columns.items()}
        for column in self._columns.values():
            column.clear()
        anchors, landmarks = tuple(matches.each() for matches in self._anchors), Landmarks().and_then(self._landmarks)
        self._anchors = [Matches() for _ in anchors]
        self._landmarks, self._index, self.events = [], [], 0
        return NewEvents(columns, None, (), (), self._bytes, self.lines + self._mid_line, anchors, landmarks, 0)

    def set_column(self, name: str, entries: NDArray[Any]) -> None:
        """Put a column in place of what the parts gave, one entry an event so far."""
        self._columns[name] = GrowingColumn(entries.dtype)
        self._columns[name].append(entries, 0.0)

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def column(self, name: str) -> NDArray[Any]:
        """All entries of a column so far, to be read or changed in place."""
        return self._columns[name].entries()

    def drop(self, name: str) -> NDArray[Any] | None:
        """The same for a column that is no part of the log; ``None`` where no part had it."""
        return self._columns.pop(name).entries() if name in self._columns else None

    def finish(
        self,
        *,
        cut_short: str = "",
        facts: Mapping[str, Any] | None = None,
        columns: Mapping[str, Any] | None = None,
        rows: NDArray[np.bool_] | None = None,
        keep: bool = False,
        nothing: Callable[[Facts], MemlensError] | None = None,
    ) -> Log:
        """The log of all parts.

        Args:
            cut_short: Why the input ended early, or ``""``.
            facts: What else was seen; takes the place of what the builder knows.
            columns: Whole columns and other fields of the log, instead of those of the parts or beside them.
            rows: Which events are in the log; ``None`` for all.
            keep: Keep the columns for another log, of other rows.
            nothing: Makes the error for an input without an event; by itself it says how Paddle's log is switched on.

        Raises:
            InputError: It is cut short, and was to be read whole; or the sizes add up to more than 64-bit sums can hold.
            NoEventsError: There is no event.
        """
        if cut_short and self._request.strict:
            raise InputError(f"{self._source.name}: {cut_short}", "Leave out --strict to analyze what can be read.")
        seen = Facts(
            **{
                "bytes": self._bytes,
                "lines": self.lines + self._mid_line,
                "malformed": self.malformed,
                "malformed_samples": tuple(self.samples),
                "ends_mid_line": self._mid_line,
                "cut_short": cut_short,
                "hints": self.hints,
                **(facts or {}),
            }
        )
        whole = dict(columns or {})
        if "size" in whole:
            self._check_sums(float(whole["size"].sum(dtype=np.float64)), "")
        condensed: Condensed | None = None
        if self._condensing is not None:
            condensed = self._condensing.finish(self._columns)
        for name in [name for name in self._columns if name not in whole]:  # one by one: what is not chosen is let go
            # Of a condensed log there was room for all that was read at once.
            column = (
                self._columns[name].entries() if keep else self._columns.pop(name).whole(tight=condensed is not None)
            )
            whole[name] = column if rows is None else column[rows]
            del column
        if not len(whole["kind"]):
            if nothing is None:
                from memlens.trust import no_events_error

                raise no_events_error(self._source.name, seen)
            raise nothing(seen)
        if self._index:
            index = np.array(self._index, np.int64)
            self._source.index(index[:, 0], index[:, 1])  # type: ignore[attr-defined]
            if self._last_line:
                self._source.end_with(self._bytes, self._last_line)  # type: ignore[attr-defined]
        return Log(
            **whole,
            source=self._source,
            facts=seen,
            condensed=condensed,
            anchors=tuple(map(Matches.anchor, self._anchors, self._request.patterns)) if self._index else (),
            landmarks=Landmarks().and_then(self._landmarks) if self._request.landmarks and self._index else None,
        )

    def _check_sums(self, size: float, place: str) -> None:
        self._total += size
        if self._total > _MOST_BYTES:
            raise InputError(
                f"{self._source.name}: the sizes add up to more than 4 EiB{place}",
                "No run allocates that much: the log is damaged.",
            )
