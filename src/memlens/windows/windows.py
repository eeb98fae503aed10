"""Anchors cut a log into windows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from msgspec import Struct

from memlens.errors import AnchorError, UsageError
from memlens.text import BEFORE_FIRST, plural
from memlens.windows.anchors import find_anchors, numbered
from memlens.windows.patterns import Anchor, Pattern

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.columns import Flags, Ints
    from memlens.events import EventLog

#: The names of the window that holds what precedes a series, and of the one that holds the whole log.
BEFORE, WHOLE = BEFORE_FIRST, "(whole log)"
#: … and of the one that follows the last line of a series whose lines end windows.
AFTER = "(after)"
#: So many windows of one kind in a row without an event between them, before their anchors are doubted.
_IDLE_RUN = 3
#: … and so many times fewer lines in them than in windows on average.
_CROWDED = 3
#: Bytes before and after an anchor where others like it are looked for.
_NEAR = 64 << 10
#: Windows that are made at once where all are walked through.
_AT_ONCE = 1 << 10
#: Beyond all offsets.
NEVER = (1 << 63) - 1
_LATE = (
    "{}, while the log has events elsewhere: the anchors were probably printed through a buffered stdout and came late, so the "
    "windows do not hold what belongs to them. Record again with PYTHONUNBUFFERED=1, or print the anchors with flush=True."
)


class Window(Struct, frozen=True, eq=False):
    """The events of the lines between two anchors.

    Attributes:
        log: The log it is cut from.
        name: ``SOT_CALL_0``; ``(whole log)``; ``(start)`` where only an end was asked for; ``(before)`` for what precedes a series.
        lo: Index of its first event.
        hi: Index after its last event.
        start_offset: Byte offset of its first line.
        end_offset: Byte offset after its last line.
        start_line: 1-based number of its first line.
        end_line: 1-based number of its last line (included); ``start_line - 1`` where it has no line.
        open_end: It is an open window: it runs to the end of the log though an end was asked for and never came, or it is the last
            one of a series and no end line closed it, where the others are closed by the next start.  It holds what comes after
            the last unit of work, or is cut short.
    """

    log: EventLog
    name: str
    lo: int
    hi: int
    start_offset: int
    end_offset: int
    start_line: int
    end_line: int
    open_end: bool = False

    def __len__(self) -> int:
        return self.hi - self.lo

    @property
    def events(self) -> int:
        """How many events it holds."""
        return self.hi - self.lo

    def __repr__(self) -> str:
        return f"<Window {self.name!r}: lines {self.start_line:,}-{self.end_line:,}, {self.events:,} events>"


class Windows(Sequence[Window]):
    """Windows of one log in file order, each made anew when it is asked for; one entry a window, arrays int64.

    Attributes:
        log: As of :class:`Window`, and so are the others.
    """

    def __init__(self, log: EventLog, names: Sequence[str], *columns: NDArray[Any]) -> None:
        self.log, self.names = log, names
        self.lo, self.hi, self.start_offset, self.end_offset, self.start_line, self.end_line, self.open_end = columns
        self._columns = columns

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, index: int) -> Window: ...
    @overload
    def __getitem__(self, index: slice) -> Windows: ...
    def __getitem__(self, index: int | slice) -> Window | Windows:
        if isinstance(index, slice):
            return Windows(self.log, self.names[index], *(column[index] for column in self._columns))
        row: list[Any] = [column.item(index) for column in self._columns]
        return Window(self.log, self.names[index], *row)

    def __iter__(self) -> Iterator[Window]:
        for start in range(0, len(self), _AT_ONCE):
            columns = (column[start : start + _AT_ONCE].tolist() for column in self._columns)
            for row in zip(self.names[start : start + _AT_ONCE], *columns, strict=True):
                yield Window(self.log, *row)


def as_patterns(texts: str | Iterable[str], *, regex: bool) -> tuple[Pattern, ...]:
    """Patterns of one kind from one text or several."""
    return tuple(Pattern(text, regex) for text in ([texts] if isinstance(texts, str) else texts))


def anchors_of(
    start: str | None, end: str | Sequence[str], start_regex: str | None, end_regex: str | Sequence[str], nth: int
) -> tuple[tuple[Pattern, ...], tuple[Pattern, ...]]:
    """The start of one window, if there is one, and its ends, as patterns; the arguments are those of :func:`window`.

    Raises:
        UsageError: They make no sense together.
    """
    if start is not None and start_regex is not None:
        raise UsageError("start and start_regex exclude each other", "Give one of them.")
    if nth < 1:
        raise UsageError(f"there is no match number {nth}", "The first one is number 1.")
    starts = [Pattern(text, regex) for text, regex in ((start, False), (start_regex, True)) if text is not None]
    return tuple(starts), (*as_patterns(end, regex=False), *as_patterns(end_regex, regex=True))


def whole(log: EventLog) -> Window:
    """The window that holds the whole log, named ``(whole log)``."""
    return Window(log, WHOLE, log.facts.opening, len(log), 0, log.facts.bytes, 1, max(log.facts.lines, 1))


def window(
    log: EventLog,
    start: str | None = None,
    end: str | Sequence[str] = (),
    *,
    start_regex: str | None = None,
    end_regex: str | Sequence[str] = (),
    nth: int = 1,
    to_end: bool = False,
) -> Window:
    """Cut one window: from the ``nth`` line that matches the start to before the next line that matches any end.

    Args:
        log: What to cut.
        start: Text that the first line contains, as whole words; ``None`` starts at the beginning of the log.
        end: Text, or several, of the line before which the window ends.
        start_regex: The start as a regular expression, instead of ``start``.
        end_regex: Further ends, as regular expressions.
        nth: Which of the lines that match the start, from 1.
        to_end: Where no end comes it ends with the log, and ``open_end`` says so.

    Raises:
        AnchorError: No line, or fewer than ``nth`` lines, match the start; or no later line matches any end.
        InputError: The log cannot be searched again, and the anchors were not named when it was read.
        UsageError: A pattern is empty or is no regular expression, or ``start`` and ``start_regex`` are both given.
    """
    starts, ends = anchors_of(start, end, start_regex, end_regex, nth)
    if not starts and not ends:
        return whole(log)
    found = find_anchors(log, (*starts, *ends))
    offset, line, name, after = 0, 1, "(start)", -1
    if starts:
        anchor = found[0]
        if not len(anchor):
            raise no_such_anchor(log, starts)
        if len(anchor) < nth:
            what = "line" if log.marks is None else "annotation"
            raise too_few_anchors(log.source.name, anchor.pattern, len(anchor), nth, what)
        offset, line, name = anchor.offsets[nth - 1], anchor.lines[nth - 1], numbered(anchor.names[:nth])[-1]
        after = offset
    (stop,), (next_line,) = (ends_at.tolist() for ends_at in _next_ends(found[len(starts) :], np.array([after])))
    is_open = stop == NEVER
    if is_open and ends and not to_end:
        raise no_such_anchor(log, ends, line if starts else 0)
    lo, hi = np.searchsorted(log.offset, [offset, stop]).tolist()
    if is_open:
        stop, next_line = _log_end(log)
    return Window(log, name, lo, hi, offset, stop, line, next_line - 1, is_open and bool(ends))


def windows(
    log: EventLog, by: str, *, end: str | Sequence[str] = (), end_regex: str | Sequence[str] = (), to_end: bool = False
) -> Windows:
    """Cut consecutive windows, one from each line that matches ``by`` to the next, or to before the next end.

    Args:
        log: What to cut.
        by: A regular expression; its first group, or else what it matched, names the window.  Names that come again get
            ``#2``, ``#3``.
        end: Text, or several, of lines that end a window before the next one starts; what follows up to that is in none.
        end_regex: Further ends, as regular expressions.
        to_end: The ends may all be missing.

    Returns:
        The windows in file order; first ``(before)``, what precedes the first match, where that has any line.  The last one is
        open where no end line closes it: see :attr:`Window.open_end`.

    Raises:
        AnchorError: No line matches, or none matches any end.
        InputError: The log cannot be searched again, and the anchors were not named when it was read.
        UsageError: A pattern is empty or is no regular expression.
    """
    ends = (*as_patterns(end, regex=False), *as_patterns(end_regex, regex=True))
    anchor, *end_anchors = find_anchors(log, (Pattern(by, regex=True), *ends))
    if not len(anchor):
        raise no_such_anchor(log, [anchor.pattern])
    if ends and not to_end and not any(map(len, end_anchors)):
        raise no_such_anchor(log, ends, 0)
    return windows_at(log, anchor, end_anchors)


def windows_at(log: EventLog, anchor: Anchor, end_anchors: Sequence[Anchor] = (), *, ends: bool = False) -> Windows:
    """The same where the lines are found already; there is one at least.  Where lines come when work is done (``ends``), each names the window before it."""
    last_offset, last_line = _log_end(log)
    # int64, one entry a window: where it starts, and where the next one does
    starts, lines = np.array(anchor.offsets, np.int64), np.array(anchor.lines, np.int64)
    stops = np.append(starts[1:], NEVER)
    to_end, end_lines = _next_ends(end_anchors, starts)
    own = {mark.offset: mark.end for mark in log.marks or () if mark.end is not None}
    if own and not ends:  # an annotation tells where it ends itself
        lasts = np.array([own.get(offset, NEVER) for offset in anchor.offsets], np.int64)
        begins, within = (log.events_before(places) for places in (starts, np.minimum(stops, lasts)))
        # What counts nothing, and little happens in, comes once in a larger piece of work: a step of the optimizer.
        if len(set(anchor.names)) == 1 < len(starts) and 2 * int((within - begins)[:-1].sum()) < begins[-1] - begins[0]:
            lasts[:] = NEVER
        to_end, end_lines = np.minimum(to_end, lasts), np.where(lasts < to_end, lasts + 1, end_lines)
    open_end = np.zeros(len(starts), np.bool_)
    open_end[-1] = to_end[-1] == NEVER
    next_lines = np.where(to_end < stops, end_lines, np.append(lines[1:], last_line))
    stops = np.minimum(stops, to_end)
    lo, hi = (log.events_before(places) for places in (starts, stops))
    stops[stops == NEVER] = last_offset
    names = numbered(anchor.names)
    if ends:
        names = [*names[1:], AFTER]
    columns: list[NDArray[Any]] = [lo, hi, starts, stops, lines, next_lines - 1, open_end]
    if starts[0] > 0:
        before = log.facts.opening, lo[0], 0, starts[0], 1, lines[0] - 1, False
        columns = [np.append(first, column) for first, column in zip(before, columns, strict=True)]
        names = [BEFORE, *names]
    return Windows(log, names, *columns)


def no_such_anchor(log: EventLog, patterns: Sequence[Pattern], after: int | None = None) -> AnchorError:
    """The error for a start, or for ends, that mark no line, with the lines that come nearest; ``after`` as of :func:`missing_anchor`."""
    from memlens.windows.suggestions import missing_anchor, missing_mark

    if log.marks is not None:
        return missing_mark(log.source.name, patterns, log.marks, after, log.facts.layer)
    blocks = log.source.blocks(0, log.facts.bytes or None) if log.source.rereadable else ()
    return missing_anchor(log.source.name, patterns, blocks, after)


def too_few_anchors(name: str, pattern: Pattern, found: int, nth: int, what: str = "line") -> AnchorError:
    """The error for a start that marks fewer lines than asked for."""
    matches = f"{pattern} matches {plural(found, what)}"
    return AnchorError(f"{name}: {matches}; there is no number {nth}", f"Take --nth {found} or less.")


def suspect_anchors(windows: Sequence[Window]) -> str | None:
    """Say that anchors are probably not where they belong: they were printed through a buffered stdout.

    Such anchors come late and in bursts, so whole cycles of them pass without one event: one kind of window (names that
    differ only in digits) comes three times or more with no event between them and hardly any other line, while the log has
    events elsewhere, and most windows of that kind are empty.  In a sound log a window may well be empty, but not every one of
    several cycles: a cycle in which nothing was allocated would be a step without work.

    Args:
        windows: Windows of one log in file order.

    Returns:
        What is wrong and what to do about it, or ``None``.
    """
    if not windows or not len(windows[0].log):
        return None
    empty = [windows[k] for k in np.flatnonzero(edges_of(windows, "lo") == edges_of(windows, "hi")).tolist()]
    if len(windows) < _IDLE_RUN:
        return _LATE.format(f"{empty[0].name} holds no event") if empty and _in_burst(empty[0]) else None
    # No event between two windows: the same event comes next.
    runs: dict[tuple[str, int], list[Window]] = {}
    for w in empty:
        runs.setdefault((kind_of(w.name), w.lo), []).append(w)
    run = max(runs.values(), key=len, default=[])
    if len(run) < _IDLE_RUN:
        return None
    log, kind = windows[0].log, kind_of(run[0].name)
    # Steps that allocate nothing, or a log that has chunk lines only, still write all other lines of a step.
    lines = (run[-1].end_line - run[0].start_line + 1) / len(run)
    if _CROWDED * lines > log.facts.lines / len(windows) or not log.tells_of_blocks:
        return None
    if 2 * sum(kind_of(w.name) == kind for w in empty) <= sum(kind_of(w.name) == kind for w in windows):
        return None
    return _LATE.format(
        f"{len(empty):,} of {len(windows):,} windows hold no event, {len(run):,} of them in one run ({run[0].name} … {run[-1].name})"
    )


def judged(windows: Sequence[Any], events: Sequence[int] | None = None) -> list[bool]:
    """Which windows of a series are judged: the closed ones, or all of them where no closed one but what precedes the series counts.

    Args:
        windows: Windows, or figures of windows, of one log in file order.
        events: How many events each of them holds, where those without any do not count; by default all count.
    """
    closed = ~edges_of(windows, "open_end")
    counting, names = closed if events is None else closed & (np.asarray(events) > 0), names_of(windows)
    some = any(names[int(k)] != BEFORE for k in np.flatnonzero(counting))
    return closed.tolist() if some else [True] * len(closed)


def names_of(windows: Sequence[Any]) -> Sequence[str]:
    """The names of windows, or of figures of windows."""
    return windows.names if isinstance(windows, Windows) else [window.name for window in windows]


def edges_of(windows: Sequence[Any], edge: str) -> NDArray[Any]:
    """One of the columns of :class:`Windows` by its name, of any windows."""
    if isinstance(windows, Windows):
        column: NDArray[Any] = getattr(windows, edge)
        return column
    kind = np.bool_ if edge == "open_end" else np.int64
    return np.array([getattr(window, edge) for window in windows], kind)


def some_of(windows: Sequence[Window], chosen: Flags) -> Sequence[Window]:
    """Those of some windows that are chosen, bool, one entry a window; columns stay columns where they follow each other."""
    first, count = int(chosen.argmax()) if len(chosen) else 0, int(np.count_nonzero(chosen))
    follow = chosen[first : first + count].all()
    return windows[first : first + count] if follow else list(compress(windows, chosen.tolist()))


def open_window(windows: Sequence[Window]) -> str | None:
    """Say that the last window is open, and that it is therefore not judged where other windows of its series are closed.

    Args:
        windows: Windows of one log in file order.

    Returns:
        Which one it is and why, or ``None``.
    """
    if not windows or not windows[-1].open_end:
        return None
    name = windows[-1].name
    if not judged(windows, (edges_of(windows, "hi") - edges_of(windows, "lo")).tolist())[-1]:
        return (
            f"{name} is open: no end anchor closes it, so it holds what comes after the last unit of work too, or is cut short. It is"
            " shown, but not judged."
        )
    return f"{name} runs to the end of the log: no end anchor closes it."


def _in_burst(window: Window) -> bool:
    """Whether lines like the first one of a window come several times, around it, without an event between them."""
    log, lo = window.log, window.lo
    first = log.source.lines([window.start_offset])[0] if log.source.rereadable else None
    if not first:
        return False
    kind = re.sub(rb"[0-9]+", b"", first)
    begin = max(int(log.offset[lo - 1]) if lo else 0, window.start_offset - _NEAR)
    end = min(int(log.offset[lo]) if lo < len(log) else log.facts.bytes, window.start_offset + _NEAR)
    # A source gives whole blocks: cut off what lies beyond the two events.
    text = b"".join(text[max(begin - at, 0) : end - at] for at, text in log.source.blocks(begin, end) if at < end)
    return sum(re.sub(rb"[0-9]+", b"", line) == kind for line in text.splitlines()) >= _IDLE_RUN


def kind_of(name: str) -> str:
    """A name without its numbers: ``STEP 3 START`` and ``STEP 4 START``, ``LOSS`` and ``LOSS #2`` are of one kind."""
    return re.sub(r"[0-9]+", "", re.sub(r" #[0-9]+\Z", "", name))


def _next_ends(anchors: Sequence[Anchor], places: Ints) -> tuple[Ints, Ints]:
    """Of each place the first line of some anchors after it: its offset, or :data:`NEVER`, and its number, int64."""
    offsets = np.concatenate([*(np.array(anchor.offsets, np.int64) for anchor in anchors), [NEVER]])
    lines = np.concatenate([*(np.array(anchor.lines, np.int64) for anchor in anchors), [0]])
    order = np.argsort(offsets, kind="stable")
    first = order[np.searchsorted(offsets[order], places, "right")]
    return offsets[first], lines[first]


def _log_end(log: EventLog) -> tuple[int, int]:
    """Where the log ends: the offset after its last line, and the number of the line that would come next."""
    return log.facts.bytes, max(log.facts.lines, 1) + 1
