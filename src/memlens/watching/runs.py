"""One run whose log is read while it is written: its format, its levels, its windows."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.analyzers.running import Running
from memlens.errors import InputError, MemlensError
from memlens.inputs import device_named
from memlens.inputs.blocks import Blocks
from memlens.inputs.input_format import HEAD, InputFormat, Request
from memlens.inputs.line_reader import LineReader, TextSource
from memlens.inputs.registry import BUILT_IN, PADDLE, Recognised, known_formats, recognise
from memlens.watching.series import LiveSeries
from memlens.watching.state import LogState, Timeline

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.inputs.blocks import Block
    from memlens.inputs.line_reader import Taken
    from memlens.options import ReadAs
    from memlens.windows.patterns import Pattern

__all__ = ["LiveRun", "Results"]

#: Events of a piece of the log that tell whether it is of the same run.
_FIRST_EVENTS = 256

#: What each reader of a run makes of one block.
Results = Sequence[tuple["_Reading", Any]]


class _Reading:
    """A run as one format has it.

    Attributes:
        last: What was read last, without its events.
    """

    def __init__(self, form: InputFormat, name: str, head: bytes, by: Pattern | None) -> None:
        assert form.lines is not None
        request = Request(patterns=() if by is None else (by,), columns=("thread",), landmarks=by is None)
        self.reader: LineReader[Any] = form.lines(TextSource(name, head), request)
        self.running, self.series = Running(), LiveSeries(by)
        self.last: Taken | None = None
        self._threads: set[int] = set()  # of all events
        self._known: set[int] = set()  # of those before this piece of the log
        self._new: set[int] = set()  # of the first ones of this piece
        self._left = 0  # events of this piece that are still to be looked at
        self._first: list[tuple[int, ...]] = []  # kind and size of the first events of the run
        self._marks: list[bytes | str] = []  # lines before the last of them that may start windows
        self._begun = False  # whether all of these stand before this piece

    def add(self, result: Any, *, ended: bool = False) -> None:
        """Take what the next block says; where there is no result, only that nothing more comes."""
        if result is not None:
            self.reader.add(result)
        taken = self.reader.take(ended=ended)
        self._note_beginning(taken)
        self.running.add(taken, self.series.take(taken))
        self.series.settle(self.running, taken.believed[0], taken.lines, ended=ended)
        thread: NDArray[np.int64] | None = taken.columns.get("thread")
        if thread is not None and len(thread):
            self._new.update(thread[: self._left].tolist())
            self._left -= min(self._left, len(thread))
            self._threads.update(np.unique(thread).tolist())
        self.last = taken._replace(columns={}, group=None)

    def _note_beginning(self, taken: Taken) -> None:
        if (left := _FIRST_EVENTS - len(self._first)) <= 0:
            return
        kind, size, offset = (taken.columns[name][:left].tolist() for name in ("kind", "size", "offset"))
        end = offset[-1] if len(offset) == left else taken.end
        marks = taken.landmarks
        self._marks += [text for at, text in zip(marks.offsets, marks.texts, strict=True) if at < end]
        self._marks += [match[2] for anchors in taken.anchors for match in anchors if match[0] < end]
        self._first += zip(kind, size, strict=True)

    def begins_like(self, other: _Reading) -> bool:
        """Whether this piece begins as the run did before it: its first events of the same sizes, the lines among them that may start windows the same.

        Args:
            other: The piece, read by itself.
        """
        return self._begun and (self._first, self._marks) == (other._first, other._marks)

    def begin_piece(self) -> None:
        """The log goes on in another file."""
        self._known, self._new, self._left = self._threads - {-1}, set(), _FIRST_EVENTS
        self._begun = len(self._first) == _FIRST_EVENTS

    def same_run(self, *, ended: bool) -> bool | None:
        """Whether the piece is of the same run; ``None`` where it is not known yet.

        Args:
            ended: No more of it comes.
        """
        new = self._new - {-1}
        if not self._known or not new.isdisjoint(self._known):
            return True
        return not new if ended or not self._left else None

    @property
    def silent(self) -> bool:
        """Whether the piece has no event so far."""
        return self._left == _FIRST_EVENTS


class LiveRun:
    """What is known of one run.

    Args:
        name: The log as it was named.
        how: The format, and further ones, where they are given.
        by: What to cut by; ``None`` for the steps.
    """

    def __init__(self, name: str, how: ReadAs, by: Pattern | None) -> None:
        self._name, self._how, self._by = name, how, by
        self._readings: list[_Reading] = []
        self._found: Recognised | None = None
        self._certain = False
        self._base = 0  # where this piece of the log begins in the text of the run

    def recognise(self, head: bytes, given: int, *, ended: bool = False) -> None:
        """Tell the format by the first bytes of the first piece, as long as there are not enough of them to be sure.

        Args:
            head: The first bytes of the text, as far as they are there.
            given: How many of them were read before.
            ended: There are no more.

        Raises:
            InputError: It is of a format that cannot be followed, or that is not read at all.
        """
        if self._certain or not head:
            return
        self._certain = ended or len(head) >= HEAD
        found = recognise(TextSource(self._name, head), self._how)
        if self._certain or found.asked:
            self._refuse(found)
        if self._found is not None and found.format is self._found.format:
            return
        self._found = found
        forms = [found.format, *(() if found.asked or found.format is not PADDLE else self._others())]
        self._readings = [_Reading(form, self._name, head, self._by) for form in forms if form.lines is not None]
        # What was read as something else.
        for block in Blocks(io.BytesIO(head[:given])):
            self.add(self.read(block))

    def _others(self) -> list[InputFormat]:
        """The other formats of text, of which one counts where no line is of Paddle's."""
        try:
            known = known_formats(self._how.formats)
        except MemlensError:  # of a package whose format is not asked for
            known = BUILT_IN
        return [form for form in known if form.is_text and form is not PADDLE]

    def _refuse(self, found: Recognised) -> None:
        if found.unread is not None:
            from memlens.inputs.unread import refuse_unread

            refuse_unread(self._name, found.unread)
        if found.format.lines is None:
            raise InputError(
                f"{self._name}: is {found.format.title}, which is no log of lines: it cannot be followed while it is written",
                "Read it when it is complete: memlens analyze.",
            )

    def read(self, block: Block) -> Results:
        """What a block of this piece says, by each format that the log may have; several threads may call it."""
        block = block._replace(offset=self._base + block.offset)
        return [(reading, reading.reader.read(block)) for reading in self._readings]

    def add(self, results: Results) -> None:
        """Take what the next block says."""
        for reading, result in results:
            reading.add(result)
        if len(self._readings) > 1 and self._readings[0].running.events:
            del self._readings[1:]

    def end(self) -> None:
        """Nothing more comes."""
        for reading in self._readings:
            if reading.last is not None:
                reading.add(None, ended=True)

    def next_piece(self, given: int) -> None:
        """The log goes on in another file, after so many bytes of text of this one."""
        self._base += given
        self._certain = self._certain or bool(self._readings)
        for reading in self._readings:
            reading.begin_piece()

    def same_run(self, *, ended: bool) -> bool | None:
        """Whether this piece is of the same run as those before; ``None`` where it is not known yet.

        It is where a thread of its first events was seen before, or where lines tell of no threads.

        Args:
            ended: No more of it comes.
        """
        reading = self._reading
        return True if reading is None else reading.same_run(ended=ended)

    def replaced_by(self, other: LiveRun, *, ended: bool) -> bool | None:
        """Whether this piece is plainly another run; ``None`` where it is not known yet.

        It is where it has no event in the format of those before, and events in the one that it is read as by itself; and where it begins as
        the run did: of a program that was started again, with the threads of the same numbers (in a container, say).

        Args:
            other: The piece, read by itself.
            ended: No more of it comes.
        """
        mine, theirs = self._reading, other._reading
        if mine is None:
            return False
        events = 0 if theirs is None else theirs.running.events
        if theirs is None or events < (1 if ended else _FIRST_EVENTS):
            return False if ended else None
        return mine.silent or mine.begins_like(theirs)

    @property
    def _reading(self) -> _Reading | None:
        """The format that counts: the first one that has events."""
        with_events = (reading for reading in self._readings if reading.running.events)
        return next(with_events, self._readings[0] if self._readings else None)

    def states(self, *, waiting: str, **more: Any) -> tuple[LogState, ...]:
        """What is known of it, for each device.

        Args:
            waiting: Why there is nothing to read, or ``""``.
            more: What else a state says.
        """
        reading = self._reading
        if reading is None or reading.last is None:
            by = "" if self._by is None else self._by.text
            return (LogState(self._name, by=by, waiting=waiting or "nothing is written yet", **more),)
        return tuple(self._states(reading, reading.last, waiting, more))

    def _states(self, reading: _Reading, last: Taken, waiting: str, more: dict[str, Any]) -> Iterator[LogState]:
        running = reading.running
        for believed in last.believed:
            named = len(last.believed) > 1 and believed.device is not None
            figures, peak_line = running.whole(believed.blocks, believed.chunks)
            allocs, frees = figures["allocs"], figures["frees"]
            blocks, chunks = allocs + frees, figures["reserves"] + figures["releases"]
            windows, count, ends = reading.series.windows(running, believed, chunks=bool(chunks))
            reserved = figures["reserve_bytes"] - figures["release_bytes"]
            allocated, levels = running.timeline(believed.blocks, believed.chunks)
            yield LogState(
                self._name,
                device=device_named(believed.device) if named else "",
                layer=believed.layer if blocks + chunks else "",
                lines=last.lines,
                events=blocks + chunks,
                allocs=allocs,
                frees=frees,
                allocated_bytes=figures["live_bytes"] if blocks else None,
                reserved_bytes=reserved if chunks else None,
                peak_bytes=figures["peak_bytes"],
                peak_line=peak_line,
                reserved_peak_bytes=figures["reserved_peak_bytes"] if chunks else None,
                timeline=Timeline(running.stretch, allocated, levels if chunks else None),
                windows=windows,
                window_count=count,
                end_live_bytes=ends,
                by=reading.series.by,
                repeated=reading.series.repeated,
                ooms=last.ooms,
                malformed=believed.malformed,
                waiting=waiting or ("" if running.events else "no event of an allocator yet"),
                **more,
            )
