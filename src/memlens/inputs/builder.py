"""Puts together what the parts of one input gave, in order, into an event log: one builder for every input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec import Struct

from memlens.columns import distinct
from memlens.errors import InputError, MemlensError
from memlens.facts import Facts, LineSample
from memlens.inputs.input_format import NewEvents
from memlens.log import Log
from memlens.spool import GrowingColumns, Spool, chosen
from memlens.windows.landmarks import MOST_LANDMARKS, Landmarks
from memlens.windows.patterns import Matches

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import DTypeLike, NDArray

    from memlens.inputs.blocks import Block
    from memlens.inputs.input_format import Request
    from memlens.scanner.plain import Rows
    from memlens.source import Source, TextSource
    from memlens.windows.patterns import Match, Matcher


#: Malformed lines that are kept as examples.
SAMPLES = 5
_SHOWN = 200
#: Bytes that are kept of a last line without a line end.
_LAST_LINE = 1 << 12
#: Sums of sizes stay in 63 bits below this many bytes.
_MOST_BYTES = float(1 << 62)
#: Bytes between the lines of which it is kept which lines they are.
_APART = 1 << 13
#: Lines of a text of so many bytes are numbered while it is read.
_LONG = 2 << 30


def lines_wanted(source: TextSource) -> bool:
    """Whether lines are to be numbered while they are read: they cannot be looked up later at little cost, or there may be very many to be looked up."""
    return source.numbered or not 0 < source.size < _LONG


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
        index: The first of its lines and some others, to number all from: their byte offsets and how many lines of the block stand before each, int64, shape (lines, 2), the others in any order.
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
    index: NDArray[np.int64] = np.zeros((0, 2), np.int64)
    malformed: int = 0
    samples: Sequence[Text] = ()
    anchors: Sequence[Sequence[Match]] = ()
    landmarks: Landmarks | None = None
    hints: Mapping[str, int] = {}

    @classmethod
    def of(
        cls, block: Block, rows: Rows, columns: dict[str, NDArray[Any]], matchers: Sequence[Matcher], **more: Any
    ) -> Part:
        """The reading of a block of text: its lines and anchors, and ``more`` of the fields given."""
        places = rows.start.searchsorted(np.arange(block.begin, block.end, _APART))
        places = distinct(places[places < len(rows.start)])
        offsets = np.append(block.begin, rows.line_start[places]) + (block.offset - block.begin)
        index = np.stack((offsets, np.append(0, rows.line[places])), axis=1)
        ends_mid_line = block.end > block.begin and bool(block.data[block.end - 1] != ord("\n"))
        tail = block.data[max(block.begin, block.end - _LAST_LINE) : block.end].tobytes() if ends_mid_line else b""
        return cls(
            columns,
            offset=block.offset,
            size=block.end - block.begin,
            lines=rows.lines,
            index=index,
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
        spool: The file for columns that are large.
        lines: Line ends so far: the 0-based number of the next part's first line.
        malformed: Malformed lines so far.
        samples: The first of them.
        hints: What was seen, by name, with the 1-based number of the first line.
    """

    def __init__(self, source: Source, request: Request, columns: Mapping[str, DTypeLike], *, size: int = 0) -> None:
        self._source, self._request, self._size = source, request, size
        self.spool = Spool()
        self._columns = GrowingColumns(columns, self.spool)
        self._anchors = [Matches() for _ in request.patterns]
        self._landmarks: list[Landmarks] = []
        self._index: list[NDArray[np.int64]] = []
        self._bytes, self._total, self._mid_line, self._last_line = 0, 0.0, False, b""
        self._marked = 0
        self.lines = self.malformed = 0
        self.samples: list[LineSample] = []
        self.hints: dict[str, int] = {}

    def add(self, part: Part) -> None:
        """Take the next part; its arrays are copied.

        Raises:
            InputError: The sizes add up to more than 64-bit sums can hold.
            MemlensError: The folder of temporary files has no room for a large log.
        """
        first = self.lines + 1
        done = (part.offset + part.size) / self._size if self._size else 0.0
        self._columns.append(part.columns if part.line is None else {**part.columns, "line": part.line + first}, done)
        if part.size:
            self._index.append(part.index[: None if part.line is None else 1] + np.array([0, self.lines]))
            self._bytes = part.offset + part.size
            self._mid_line = part.ends_mid_line and not part.cut
            self._last_line = part.last_line if self._mid_line else b""
        self.lines += part.lines
        self._check_sums(float(part.columns["size"].sum(dtype=np.float64)), f" by line {self.lines:,}")
        self.malformed += part.malformed
        self.samples += [self.sample(text, first) for text in part.samples[: SAMPLES - len(self.samples)]]
        for matches, found in zip(self._anchors, part.anchors, strict=False):
            matches.add(found, first)
        if part.landmarks is not None and self._marked <= MOST_LANDMARKS:
            self._marked += len(part.landmarks.offsets)
            marks = part.landmarks._replace(lines=tuple(line + first for line in part.landmarks.lines))
            self._landmarks.append(marks)
            if part.line is None and marks.lines:
                self._index.append(np.stack((marks.offsets, marks.lines), axis=1) - np.array([0, 1]))
        for hint, line in part.hints.items():
            self.hints.setdefault(hint, first + line)

    @staticmethod
    def sample(text: Text, first: int) -> LineSample:
        """An example, given the 1-based number of the first line of its part."""
        return LineSample(text.offset, first + text.line, text.text[:_SHOWN].decode("utf-8", "replace"))

    @property
    def events(self) -> int:
        """Events held: those added so far, or since they were taken last."""
        return len(self._columns)

    @property
    def end(self) -> int:
        """Byte offset in the input after the last part."""
        return self._bytes

    def take(self) -> NewEvents:
        """Return the part that was added since the last time, and forget it, as far as all readers of lines have it: no groups, and no selection."""
        columns = {name: self._columns.entries(name) for name in self._columns}
        self._columns.clear()
        anchors, landmarks = tuple(matches.each() for matches in self._anchors), Landmarks().and_then(self._landmarks)
        self._anchors = [Matches() for _ in anchors]
        self._landmarks, self._marked, self._index = [], 0, []
        return NewEvents(columns, None, (), (), self._bytes, self.lines + self._mid_line, anchors, landmarks, 0)

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def column(self, name: str) -> NDArray[Any]:
        """All entries of a column so far, to be read or changed in place."""
        return self._columns.entries(name)

    def drop(self, name: str) -> NDArray[Any] | None:
        """The same for a column that is no part of the log; ``None`` where no part had it."""
        return self._columns.drop(name)

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
        for name in [name for name in self._columns if name not in whole]:  # one by one: what is not chosen is let go
            column = self._columns.entries(name) if keep else self._columns.drop(name)
            assert column is not None
            whole[name] = chosen(column, rows)
            del column
        if not len(whole["kind"]):
            if nothing is None:
                from memlens.trust.advice import no_events_error

                raise no_events_error(self._source.name, seen)
            raise nothing(seen)
        if self._index:
            end = [] if self._mid_line else [np.array([[self._bytes, self.lines]])]
            # Marks are among the lines of their block, and a row may be that of a later line (Scan.latest).
            index = np.sort(np.concatenate(self._index + end), axis=0)
            self._source.index(index[:, 0], index[:, 1])  # type: ignore[attr-defined]
            if self._last_line:
                self._source.end_with(self._bytes, self._last_line)  # type: ignore[attr-defined]
        return Log(
            **whole,
            source=self._source,
            facts=seen,
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
