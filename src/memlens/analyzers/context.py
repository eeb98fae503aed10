"""The lines of a log around the lines of some events, as they are quoted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlens.analyzers.places import Lines
from memlens.results import Result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlens.events import EventLog


#: Bytes before and after the start of an event's line that are looked at, whatever stands there.
_REACH = 64 << 10
#: Characters of a line that are kept.
_LONGEST = 400


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


def context_lines(log: EventLog, events: Sequence[int], each_side: int) -> list[tuple[ContextLine, ...]]:
    """The log lines around the line of each of some events, that line among them.

    Of a long line its beginning is kept, with ``…`` for the rest (its end, where it begins out of reach); beyond a line that is out of
    reach (64 KiB from the event) there is none.  Bytes that are no UTF-8 become U+FFFD; all else is as it stands in the log.

    Args:
        log: The log.
        events: Indices of events, in any order.
        each_side: Lines wanted before and after.

    Returns:
        For each event the lines in file order; none where the text cannot be read again or told, and for opening blocks.

    Raises:
        InputError: The text of the log is no longer there.
    """
    if not log.source.rereadable:
        return [() for _ in events]
    offsets = {event: int(log.offset[event]) for event in dict.fromkeys(events) if event >= log.facts.opening}
    numbers = Lines(log, offsets)
    # What was written to the log after it was read is no part of it.
    end = log.facts.bytes or None
    starts = sorted(set(offsets.values()))
    spans = [(max(start - _REACH, 0), start + _REACH if end is None else min(start + _REACH, end)) for start in starts]
    texts = dict(zip(starts, zip(spans, log.source.parts(spans), strict=True), strict=True))
    found: dict[int, tuple[ContextLine, ...]] = {}
    for event, start in offsets.items():
        (begin, stop), text = texts[start]
        line, is_end = numbers.of(event), stop == end or len(text) < stop - begin
        before, after = _around(text, start - begin, each_side, is_start=begin == 0, is_end=is_end)
        first = 0 if line is None else line - len(before)
        lines = enumerate((*before, *after), first)
        found[event] = () if line is None else tuple(ContextLine(n, shown, n == line) for n, shown in lines)
    return [found.get(event, ()) for event in events]


def _around(text: bytes, at: int, each_side: int, *, is_start: bool, is_end: bool) -> tuple[list[str], list[str]]:
    """The lines before a place in a part of a log, where a line begins, and from there on; of the log's start and end, if it holds them."""
    if at >= len(text):
        return [], []
    before = text[:at].split(b"\n")[:-1]
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
