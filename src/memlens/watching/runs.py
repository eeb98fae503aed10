"""One run whose log is read while it is written: its format, its levels, its windows."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.analyzers.running import Running
from memlens.errors import InputError, MemlensError
from memlens.events import Outline
from memlens.facts import Facts
from memlens.inputs import device_named
from memlens.inputs.blocks import Blocks
from memlens.inputs.built_in import BUILT_IN, PADDLE
from memlens.inputs.input_format import HEAD, Request
from memlens.inputs.registry import Recognised, known_formats, recognise
from memlens.source import TextSource
from memlens.watching.holding import Holding
from memlens.watching.result import KEPT_WINDOWS, LiveWindow, LogState, Timeline
from memlens.windows.anchor_discovery import find_steps
from memlens.windows.anchors import Numbering
from memlens.windows.landmarks import Landmarks
from memlens.windows.patterns import Match
from memlens.windows.windows import AFTER, BEFORE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from memlens.columns import Ints
    from memlens.gating.limits import Metric
    from memlens.inputs.blocks import Block
    from memlens.inputs.input_format import InputFormat, LineReader, NewEvents, Selection
    from memlens.options import ReadAs
    from memlens.windows.patterns import Pattern


#: Events of a piece of the log that tell whether it is of the same run.
_FIRST_EVENTS = 256
#: Lines that may mark steps, up to which steps are looked for; what cuts the log then goes on to.
_MOST_LANDMARKS = 1 << 13
#: The text after which steps are looked for first; then each time that it, or the lines that may mark them, have doubled.
_FIRST_LOOK = 1 << 12


class LiveRun:
    """A run whose log is still written.

    Args:
        name: The log as it was named.
        how: The format, and further ones, where they are given.
        by: What to cut by; ``None`` for the steps.
        budgets: What levels may be.
    """

    def __init__(self, name: str, how: ReadAs, by: Pattern | None, budgets: Mapping[Metric, int]) -> None:
        self._name, self._how, self._by, self._budgets = name, how, by, budgets
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
        self._readings = [_Reading(form, self._name, head, self._by, self._budgets) for form in forms if form.lines]
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

    def read(self, block: Block) -> list[tuple[_Reading, Any]]:
        """Read a block of this piece by each format that the log may have; several threads may call it."""
        block = block._replace(offset=self._base + block.offset)
        return [(reading, reading.reader.read(block)) for reading in self._readings]

    def add(self, results: Sequence[tuple[_Reading, Any]]) -> None:
        """Take the results of :meth:`read` for the next block."""
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
            reading.next_piece()

    def is_other(self, piece: LiveRun, *, ended: bool) -> bool | None:
        """Whether this piece of the log is of another run than those before; ``None`` where that is not known yet.

        It is where it has no event in their format and some in its own; where it begins as the run did, a program that was started again with
        threads of the same numbers (in a container, say); and where none of its threads was seen before.

        Args:
            piece: The same piece, read by itself.
            ended: No more of it comes.
        """
        mine, theirs = self._reading, piece._reading
        if mine is None:
            return False
        events = 0 if theirs is None else theirs.running.events
        if theirs is None or events < (1 if ended else _FIRST_EVENTS):
            return False if ended else None
        if mine.running.events == mine.before or mine.beginning == (theirs.first, theirs.marks):
            return True
        return bool(mine.known and theirs.threads) and mine.known.isdisjoint(theirs.threads)

    @property
    def _reading(self) -> _Reading | None:
        """The format that counts: the first one that has events."""
        with_events = (reading for reading in self._readings if reading.running.events)
        return next(with_events, self._readings[0] if self._readings else None)

    def states(self, *, waiting: str, **more: Any) -> tuple[LogState, ...]:
        """Its state, for each device.

        Args:
            waiting: Why there is nothing to read, or ``""``.
            more: Further fields of the states.
        """
        reading = self._reading
        if reading is None or reading.last is None:
            by = "" if self._by is None else self._by.text
            return (LogState(self._name, by=by, waiting=waiting or "nothing is written yet", **more),)
        waiting = waiting or ("" if reading.running.events else "no event of an allocator yet")
        return tuple(reading.states(self._name, reading.last, waiting=waiting, **more))


class _Reading:
    """A run as one format has it.

    Attributes:
        last: What was read last, without its events.
        first: Kind and size of the first events of the run.
        marks: Lines before the last of them that may start windows.
        beginning: Both, where all of these events stand before this piece of the log; ``None`` where they do not.
        threads: The threads of the first events of this piece.
        known: The threads of all events before it.
        before: Events before it.
    """

    def __init__(
        self, form: InputFormat, name: str, head: bytes, by: Pattern | None, budgets: Mapping[Metric, int]
    ) -> None:
        assert form.lines is not None
        request = Request(patterns=() if by is None else (by,), columns=("thread",), landmarks=by is None)
        self.reader: LineReader[Any] = form.lines(TextSource(name, head), request)
        self.running = Running((budgets.get("peak"), budgets.get("reserved")))
        self.holding = Holding()
        self.series = _LiveSeries(by)
        self.last: NewEvents | None = None
        self.first: list[tuple[int, ...]] = []
        self.marks: list[bytes | str] = []
        self.beginning: tuple[list[tuple[int, ...]], list[bytes | str]] | None = None
        self.threads: set[int] = set()
        self.known: set[int] = set()
        self.before = 0
        self._seen: set[int] = set()  # threads of all events

    def add(self, result: Any, *, ended: bool = False) -> None:
        """Take the result of the next block; ``None`` where nothing more comes."""
        if result is not None:
            self.reader.add(result)
        new = self.reader.take(ended=ended)
        left = max(_FIRST_EVENTS - (self.running.events - self.before), 0)
        thread: NDArray[np.int64] | None = new.columns.get("thread")
        if thread is not None:
            self.threads |= set(thread[:left].tolist()) - {-1}
            self._seen |= set(np.unique(thread).tolist()) - {-1}
        self._note_beginning(new)
        self.running.add(new, self.series.take(new))
        self.holding.take(new, self.series.count - 1)
        self.series.settle(self.running, new.selected[0], new.lines, ended=ended)
        self.last = new._replace(columns={}, group=None, holders=None)

    def _note_beginning(self, new: NewEvents) -> None:
        if (left := _FIRST_EVENTS - len(self.first)) <= 0:
            return
        kind, size, offset = (new.columns[name][:left].tolist() for name in ("kind", "size", "offset"))
        end = offset[-1] if len(offset) == left else new.end
        marks = new.landmarks
        self.marks += [text for at, text in zip(marks.offsets, marks.texts, strict=True) if at < end]
        self.marks += [match[2] for anchors in new.anchors for match in anchors if match[0] < end]
        self.first += zip(kind, size, strict=True)

    def next_piece(self) -> None:
        """The log goes on in another file."""
        self.before, self.known, self.threads = self.running.events, set(self._seen), set()
        self.beginning = (self.first, self.marks) if len(self.first) == _FIRST_EVENTS else None

    def states(self, name: str, last: NewEvents, **more: Any) -> Iterator[LogState]:
        """Its state, for each device."""
        running, series = self.running, self.series
        for selected in last.selected:
            named = len(last.selected) > 1 and selected.device is not None
            figures, peak_line = running.whole(selected.blocks, selected.chunks)
            allocs, frees = figures["allocs"], figures["frees"]
            blocks, chunks = allocs + frees, figures["reserves"] + figures["releases"]
            windows, count, ends = series.windows(running, selected, chunks=bool(chunks))
            reserved = figures["reserve_bytes"] - figures["release_bytes"]
            allocated, levels = running.timeline(selected.blocks, selected.chunks)
            yield LogState(
                name,
                device=device_named(selected.device) if named else "",
                layer=selected.layer if blocks + chunks else "",
                lines=last.lines,
                events=blocks + chunks,
                allocs=allocs,
                frees=frees,
                allocated_bytes=figures["live_bytes"] if blocks else None,
                reserved_bytes=reserved if chunks else None,
                peak_bytes=figures["peak_bytes"],
                peak_line=peak_line,
                reserved_peak_bytes=figures["reserved_peak_bytes"] if chunks else None,
                exceeded=dict(
                    zip(("peak", "reserved"), running.exceeded(selected.blocks, selected.chunks), strict=True)
                ),
                timeline=Timeline(running.stretch, allocated, levels if chunks else None),
                windows=windows,
                window_count=count,
                end_live_bytes=ends,
                by=series.by,
                repeated=series.repeated,
                ooms=last.ooms,
                malformed=selected.malformed,
                walks=() if named else tuple(self.holding.walks),
                **more,
            )


class _LiveSeries:
    """The windows of a log that is still written: cut by what the user names, or by the steps of the run as far as they show.

    Where nothing is given to cut by, the steps are looked for among the lines that may mark them whenever the text has doubled, as
    :func:`memlens.windows.anchor_discovery.find_steps` does in a log that is complete, and levels are kept at each such line: so the windows
    before are right too, and a better family of lines takes the place of the one that was found first.  After :data:`_MOST_LANDMARKS` such lines
    what was found stays; where a block of the text is so full of them that not all are known, there are no windows.  Of several devices the
    events of the first one tell.

    Args:
        by: What to cut by; ``None`` for the steps.

    Attributes:
        repeated: See :attr:`memlens.watching.result.LogState.repeated`.
    """

    def __init__(self, by: Pattern | None) -> None:
        self._by, self._given = by, by is not None
        self._settled, self.repeated, self._ends = self._given, True, False
        self._starts: list[Match] = []
        self._numbering = Numbering()
        self._forgotten = 0  # windows of which the levels at their ends are kept alone
        self._landmarks = Landmarks()
        self._looked = 1, _FIRST_LOOK // 2

    @property
    def by(self) -> str:
        """The regular expression that cuts the log; ``""`` for none."""
        return self._by.text if self._by is not None and (self._given or self._starts) else ""

    @property
    def count(self) -> int:
        """How many windows there are."""
        return self._forgotten + len(self._starts)

    def take(self, new: NewEvents) -> Ints:
        """Take the new lines that start windows.

        Returns:
            Where to cut the text, rising byte offsets, int64.
        """
        if self._given:
            found = list(new.anchors[0])
            cuts = [match.start for match in found]
        else:
            marks = new.landmarks
            found = marks.matches(self._by) if self._by else []
            if not self._settled and marks.offsets:
                self._landmarks = self._landmarks.and_then([marks])
            cuts = [match.start for match in found] if self._settled else list(marks.offsets)
        for match in found:
            self._append(match)
        return np.array(cuts, np.int64)

    def _append(self, match: Match) -> None:
        if not self._starts and not self._forgotten and match.start > 0:
            self._starts.append(Match(0, 1, BEFORE))
        name = self._numbering.next(match.name)
        if self._ends:  # it names the window that it ends
            if self._starts[-1:] and self._starts[-1].name == AFTER:
                self._starts[-1] = self._starts[-1]._replace(name=name)
            name = AFTER
        self._starts.append(match._replace(name=name))

    def settle(self, running: Running, selected: Selection, lines: int, *, ended: bool = False) -> None:
        """Look for the steps where it is time to, and forget what is not shown.

        Args:
            running: The levels, cut as :meth:`take` gave.
            selected: What counts.
            lines: Lines so far.
            ended: Nothing more comes.
        """
        count = len(self._landmarks.offsets)
        if not self._settled and count:
            marks, end = self._looked
            self._settled = count >= _MOST_LANDMARKS or not self._landmarks.complete
            if ended or self._settled or count >= 2 * marks or running.end >= 2 * end:
                self._looked = count, max(running.end, _FIRST_LOOK // 2)
                self._look(running, selected, lines, ended=ended)
            if self._settled:
                self._landmarks = Landmarks()
                running.forget(self._offsets(), np.zeros(0, np.int64))
        if self._settled and len(self._starts) > 2 * KEPT_WINDOWS:
            dropped = len(self._starts) - KEPT_WINDOWS
            ends = self._offsets()[1 : dropped + 1]
            self._starts = self._starts[dropped:]
            self._forgotten += dropped
            running.forget(self._offsets(), ends)

    def _look(self, running: Running, selected: Selection, lines: int, *, ended: bool) -> None:
        places = np.append(np.array(self._landmarks.offsets, np.int64), running.end)
        figures = running.figures(selected.blocks, selected.chunks, np.zeros_like(places), places)
        allocs, blocks = figures["allocs"].copy(), figures["allocs"] + figures["frees"]
        if not ended:
            allocs[-1] = np.iinfo(np.int64).max  # who knows what follows the last line
        facts = Facts(bytes=running.end, lines=lines)
        events = blocks + figures["reserves"] + figures["releases"]
        found = find_steps(Outline.of(places, events, allocs, facts, self._landmarks, blocks=bool(blocks[-1])))
        self._starts, self._numbering, self._by = [], Numbering(), None
        self.repeated = found is None or found.repeated
        if found is not None:
            anchor, self._ends = found.family.anchors[0], found.family.ends
            self._by = anchor.pattern
            for row in zip(anchor.offsets, anchor.lines, anchor.names, strict=True):
                self._append(Match(*row))

    def _offsets(self) -> Ints:
        return np.array([match.start for match in self._starts], np.int64)

    def windows(
        self, running: Running, selected: Selection, *, chunks: bool
    ) -> tuple[tuple[LiveWindow, ...], int, Ints]:
        """The last windows, how many there were in all, and the live level at the end of each closed one, int64."""
        if not self._starts:
            return (), 0, np.zeros(0, np.int64)
        count = self.count
        shown = self._starts[-KEPT_WINDOWS:]
        places, of = self._offsets(), (selected.blocks, selected.chunks)
        ends = np.concatenate((running.noted(selected.blocks), running.figures(*of, places[1:], places[1:]).levels[0]))
        lo = places[-len(shown) :]
        figures = running.figures(*of, lo, np.append(lo[1:], running.end))
        names = ("peak_bytes", "rise_bytes", "live_bytes", "reserved_peak_bytes", "allocs", "frees")
        rows: list[LiveWindow] = []
        for k, match in enumerate(shown, count - len(shown)):
            row: dict[str, Any] = {name: int(figures[name][len(rows)]) for name in names}
            row["reserved_peak_bytes"] = row["reserved_peak_bytes"] if chunks else None
            rows.append(LiveWindow(match.name, k, start_line=match.line, open=k == count - 1, **row))
        return tuple(rows), count, ends
