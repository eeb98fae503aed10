"""Where events stand: line numbers and times, and the lines around them, looked up only for the events that are shown."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.folding import bounds
from memlens.results import Result
from memlens.spool import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from memlens.events import EventLog
    from memlens.windows.windows import Window


#: A year of stamps without a year, which has a 29th of February (see :mod:`memlens.inputs.paddle.lines`).
YEAR_US = 366 * 24 * 3600 * 10**6
#: Bytes before and after the start of an event's line that are looked at, at first, and whatever stands there.
_NEAR, _REACH = 4 << 10, 64 << 10
#: Events at each end of a window whose times are looked up, if they were not read, until one is known.
_LOOKED_UP = 64
#: Characters of a line that are kept.
_LONGEST = 400


def lines_of(log: EventLog, events: Iterable[int | None]) -> Callable[[int | None], int | None]:
    """What gives the 1-based line of each of some events of a log, ``None`` for ``None``, and where it cannot be told.

    The first one that is asked for is looked up alone, for often it is the only one; then all are together.
    """
    first: list[tuple[int, int | None]] = []

    @cache
    def lines() -> dict[int, int | None]:
        known = [*{event for event in events if event is not None}]
        return dict(zip(known, log.line_numbers(known), strict=True))

    def line_of(event: int | None) -> int | None:
        if event is None:
            return None
        first.extend([] if first else [(event, log.line_numbers([event])[0])])
        return first[0][1] if event == first[0][0] else lines()[event]

    return line_of


def both_ends(
    log: EventLog, ends: Sequence[tuple[int, int | None]]
) -> list[tuple[int, int | None, int | None, int | None]]:
    """Of pairs of events, an ALLOC and its FREE say, both with their lines; ``None`` for one that is not there."""
    line = lines_of(log, [event for pair in ends for event in pair])
    return [(one, line(one), other, line(other)) for one, other in ends]


def lines_at(log: EventLog, events: NDArray[np.int64]) -> NDArray[np.int64]:
    """The 1-based lines of some events, int64; 0 where one cannot be told, and of what was there before the input begins.

    Args:
        log: The log.
        events: Events in any order, int64; below 0 there are none.
    """
    lines = np.zeros(len(events), np.int64)
    logged = events >= log.facts.opening
    lines[logged] = log.line_column(events[logged])
    return lines


def time_of(log: EventLog, event: int | None) -> int | None:
    """When an event was logged, in microseconds, looked up where times were not read; ``None`` where that is unknown."""
    return None if event is None else log.times_of([event])[0]


def elapsed_us(first: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.int64]:
    """Microseconds from stamps to later lines', int64, never negative; -1 stands for a stamp that is unknown, and for what is then.

    Stamps step back a little, which counts as 0.  Stamps without a year step back by a year where a run crosses New Year:
    going back by more than half a year is that.  Such stamps count 366 days in every year.
    """
    passed = last - first
    passed = np.maximum(np.where(passed < -YEAR_US // 2, passed + YEAR_US, passed), 0)
    return np.where((first >= 0) & (last >= 0), passed, -1)


def between_us(log: EventLog, first: NDArray[np.int64], last: NDArray[np.int64]) -> list[int | None]:
    """Microseconds from some events to others, which the log may not have; ``None`` where a time is unknown."""
    passed: list[int | None] = or_none(elapsed_us(log.times_at(first), log.times_at(last))).tolist()
    return passed


def lasting_us(windows: Sequence[Window]) -> NDArray[np.int64]:
    """Microseconds from the first known time of each window to its last, int64, -1 where none is known; looked up where times were not read."""
    log, lo, hi = bounds(windows)
    return elapsed_us(_first_known(log, lo, hi - lo, 1), _first_known(log, hi - 1, hi - lo, -1))


def lasted_us(windows: Sequence[Window]) -> Callable[[int], int | None]:
    """The same of each window by its index, ``None`` where none is known: all at once where times were read, else each when it is asked for."""
    if windows[0].log.time_us is not None:
        known: Callable[[int], int | None] = or_none(lasting_us(windows)).item
        return known
    return lambda index: or_none(lasting_us(windows[index : index + 1])).item()


def _first_known(log: EventLog, events: NDArray[np.int64], count: NDArray[np.int64], step: int) -> NDArray[np.int64]:
    """The first known time of so many events from one on, of several; of times that are looked up it is one of the first few, or -1."""
    times, left = np.full(len(events), -1, np.int64), np.flatnonzero(count)
    for k in range(_LOOKED_UP):
        times[left] = found = log.times_at(events[left] + k * step)
        if log.time_us is None and len(left) > _LOOKED_UP and (found < 0).all():
            break  # no line says
        left = left[(found < 0) & (count[left] > k + 1)]
        if not len(left):
            break
    if log.time_us is None:
        return times
    for k in left.tolist():
        stretch = log.time_us[: events[k] + 1][::-1] if step < 0 else log.time_us[events[k] :]
        for start, stop in walk(0, int(count[k])):
            known = np.flatnonzero(stretch[start:stop] >= 0)
            if len(known):
                times[k] = stretch[start + known[0]]
                break
    return times


def or_none(numbers: NDArray[np.int64]) -> NDArray[Any]:
    """A column with ``None`` in place of -1, object; as it is where there is none."""
    known = numbers >= 0
    return numbers if known.all() else np.where(known, numbers, np.array(None))


def rising_us(stamps: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Stamps in the order of the log as an axis of time that does not fall, int64; ``None`` where none is known.

    One that steps back is where those before it are, and so is one that is not known; before the first known one all are there.  Stamps without
    a year step back by one at New Year (see :func:`elapsed_us`), and forward again where a thread is late.

    Args:
        stamps: Microseconds, int64, -1 where unknown.
    """
    known = stamps >= 0
    if not known.any():
        return None
    last = np.maximum.accumulate(np.where(known, np.arange(len(stamps)), int(known.argmax())))
    times = stamps[last]
    step = np.diff(times, prepend=times[0])
    years = np.cumsum((step < -YEAR_US // 2).astype(np.int64) - (step > YEAR_US // 2))
    return np.maximum.accumulate(times + years * YEAR_US)


class ContextLine(Result, frozen=True):
    """A line of a log that is shown because of what stands next to it.

    Attributes:
        line: Its 1-based number.
        text: What stands there, cut to a sane length; text from the log.
        is_event: It is the very line that the context is for.
    """

    line: int
    text: str
    is_event: bool


def context_lines(
    log: EventLog, events: Sequence[int], each_side: int, lines: Sequence[int] | None = None
) -> list[tuple[ContextLine, ...]]:
    """The log lines around the line of each of some events, that line among them.

    Of a long line its beginning is kept, with ``…`` for the rest (its end, where it begins out of reach); beyond a line that is out of
    reach (64 KiB from the event) there is none.  Bytes that are no UTF-8 become U+FFFD; all else is as it stands in the log.

    Args:
        log: The log.
        events: Indices of events, in any order.
        each_side: Lines wanted before and after.
        lines: The 1-based line of each event, 0 where it cannot be told; looked up where it is not given.

    Returns:
        For each event the lines in file order; none where the text cannot be read again or told, and for opening blocks.

    Raises:
        InputError: The text of the log is no longer there.
    """
    if not log.source.rereadable:
        return [() for _ in events]
    offsets = {event: int(log.offset[event]) for event in dict.fromkeys(events) if event >= log.facts.opening}
    numbers = dict(
        zip(offsets, log.line_numbers([*offsets]), strict=True) if lines is None else zip(events, lines, strict=True)
    )
    # What was written to the log after it was read is no part of it.
    end = log.facts.bytes or None
    starts = sorted(set(offsets.values()))
    texts: dict[int, tuple[int, int, bytes]] = {}
    for reach in (_NEAR, _REACH):
        left = [start for start in starts if start not in texts]
        spans = [(max(start - reach, 0), start + reach if end is None else min(start + reach, end)) for start in left]
        for start, (begin, stop), text in zip(left, spans, log.source.parts(spans), strict=True):
            enough = begin == 0 or text.count(b"\n", 0, start - begin) > each_side
            enough &= stop == end or text.count(b"\n", start - begin) > each_side
            if enough or reach == _REACH:
                texts[start] = begin, stop, text
    found: dict[int, tuple[ContextLine, ...]] = {}
    for event, start in offsets.items():
        begin, stop, text = texts[start]
        line, is_end = numbers[event], stop == end or len(text) < stop - begin
        before, after = _around(text, start - begin, each_side, is_start=begin == 0, is_end=is_end)
        around = enumerate((*before, *after), (line or 0) - len(before))
        found[event] = tuple(ContextLine(n, shown, n == line) for n, shown in around) if line else ()
    return [found.get(event, ()) for event in events]


def _around(text: bytes, at: int, each_side: int, *, is_start: bool, is_end: bool) -> tuple[list[str], list[str]]:
    """The lines before a place in a part of a log, where a line begins, and from there on; of the log's start and end, if it holds them."""
    if at >= len(text):
        return [], []
    before = text[:at].rsplit(b"\n", each_side + 1)[:-1]
    is_whole = is_start or len(before) > each_side
    before = before[len(before) - min(each_side, len(before)) :]
    after = text[at:].split(b"\n", each_side + 1)
    if len(after) > each_side + 1:
        after.pop()  # more text than wanted
    elif len(after) > 1 and (not after[-1] or (not is_end and len(after[-1]) <= 4 * _LONGEST)):
        after.pop()  # what follows the last line end is no line; or there is more of it, out of reach
    return [_shown(raw, whole=is_whole or k > 0) for k, raw in enumerate(before)], [_shown(raw) for raw in after]


def _shown(raw: bytes, *, whole: bool = True) -> str:
    """A line as text; where its beginning is missing, its end."""
    text = raw.rstrip(b"\r").decode("utf-8", "replace")
    if not whole:
        return "…" + text[-_LONGEST:]
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
