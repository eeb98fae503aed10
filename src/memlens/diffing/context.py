"""The lines of a log around some of its events: there stands who should have freed a block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from memlens.analyzers.places import Lines
from memlens.diffing.finding import ContextLine

if TYPE_CHECKING:
    from memlens.events import EventLog

__all__ = ["context_lines"]

#: Bytes before and after the start of an event's line that are looked at, whatever stands there.
_REACH = 64 << 10
#: Characters of a line that are kept.
_LONGEST = 400


def context_lines(log: EventLog, events: Sequence[int], each_side: int) -> list[tuple[ContextLine, ...]]:
    """The log lines around the line of each of some events, that line among them.

    Of a long line its beginning is kept, with ``…`` for the rest (its end, where it begins out of reach); beyond a line that is out of
    reach (64 KiB from the event) there is none.  Bytes that are no UTF-8 become U+FFFD; all else is as it stands in the log.

    Args:
        log: The log.
        events: Indices of events, in any order.
        each_side: Lines wanted before and after.

    Returns:
        For each event the lines in file order; none where the text cannot be read again or told.

    Raises:
        InputError: The text of the log is no longer there.
    """
    if not log.source.rereadable:
        return [() for _ in events]
    offsets = {event: int(log.offset[event]) for event in dict.fromkeys(events)}
    numbers = Lines(log, offsets)
    # What was written to the log after it was read is no part of it.
    end = log.facts.bytes or None
    starts = sorted(set(offsets.values()))
    spans = [(max(start - _REACH, 0), start + _REACH if end is None else min(start + _REACH, end)) for start in starts]
    parts = {
        start: _Part(text, begin, begin == 0, stop == end or len(text) < stop - begin)
        for start, (begin, stop), text in zip(starts, spans, log.source.parts(spans), strict=True)
    }
    found: dict[int, tuple[ContextLine, ...]] = {}
    for event, start in offsets.items():
        line = numbers.of(event)
        found[event] = () if line is None else _around(parts[start], start, line, each_side)
    return [found[event] for event in events]


class _Part(NamedTuple):
    """A part of a log, cut anywhere: its first byte's offset, and whether the log begins with it, and ends with it."""

    text: bytes
    offset: int
    is_start: bool
    is_end: bool


def _around(part: _Part, start: int, line: int, each_side: int) -> tuple[ContextLine, ...]:
    """The lines around the one that begins at offset ``start`` and has number ``line``."""
    at = start - part.offset
    if at >= len(part.text):
        return ()
    before = part.text[:at].split(b"\n")[:-1]
    is_whole = part.is_start or len(before) > each_side
    before = before[len(before) - min(each_side, len(before)) :]
    after = part.text[at:].split(b"\n", each_side + 1)
    if len(after) > each_side + 1:
        after.pop()  # more text than wanted
    elif len(after) > 1 and (not after[-1] or (not part.is_end and len(after[-1]) <= 4 * _LONGEST)):
        after.pop()  # what follows the last line end is no line; or there is more of it, out of reach
    shown = [_shown(raw, whole=is_whole or k > 0) for k, raw in enumerate(before)] + [_shown(raw) for raw in after]
    first = line - len(before)
    return tuple(ContextLine(first + k, text, first + k == line) for k, text in enumerate(shown))


def _shown(raw: bytes, *, whole: bool = True) -> str:
    """A line as text; where its beginning is missing, its end."""
    text = raw.rstrip(b"\r").decode("utf-8", "replace")
    if not whole:
        return "…" + text[-_LONGEST:]
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
