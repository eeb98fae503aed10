"""Everything that is looked for in a log of Paddle, as one list of formats for one scanner."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from memlens.inputs.paddle import context, events, messages
from memlens.inputs.paddle import other_events as others
from memlens.inputs.paddle.layers import Layer
from memlens.scanner.formats import LineFormat
from memlens.scanner.scan import Scan, Scanner
from memlens.windows.landmarks import WORD_SCANS

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "ALIKE",
    "ALIKE_OTHERS",
    "CONTEXTS",
    "EVENTS",
    "HEADER_VALUES",
    "LANDMARKS",
    "MESSAGES",
    "events_scanner",
    "number_of",
    "scanner",
]

#: The groups that are read of the header of an event; the last three only where times are wanted.
HEADER_VALUES = ("thread", "year", "date", "time")


#: The formats of events; the number of a format is its index here.
EVENTS = (*events.EVENTS, *others.EVENTS)
_SPEECH = (
    (events.REQUEST, ("requested", "aligned")),
    (others.STREAM_REQUEST, ("requested",)),
    (others.NAIVE_SIZE, ("size", "host")),
)


def _literal(text: bytes) -> LineFormat:
    """A format that is a text alone: lines that hold it are read in another way."""
    return LineFormat(text.decode(), "message", text, re.escape(text).decode(), {})


_LITERALS = {text: _literal(text) for text in messages.LITERALS}

_SCANS = (
    *(Scan(event.format, "before", covers=event.format not in others.RARE, values=event.values) for event in EVENTS),
    *(Scan(form, "before", values=values) for form, values in _SPEECH),
    *(Scan(form, "nearest") for form in context.FORMATS),
    *(Scan(form, uncovered=True) for form in (*events.LOOK_ALIKES, *others.LOOK_ALIKES)),
    *(Scan(form) for form in (others.STREAM_DEFERRED, events.PREALLOC)),
    *(Scan(form, once=True) for form in _LITERALS.values()),
)
_NUMBERS = {scan.format.name: number for number, scan in enumerate(_SCANS)}


def number_of(form: LineFormat | bytes) -> int:
    """The number of a format, or of a message by its literal."""
    return _NUMBERS[(_LITERALS[form] if isinstance(form, bytes) else form).name]


def _numbers(forms: Sequence[LineFormat]) -> range:
    return range(number_of(forms[0]), number_of(forms[-1]) + 1)


#: Numbers of the formats of context lines; of what looks like an event, of the auto-growth layer and of the others; of messages.
CONTEXTS = _numbers(context.FORMATS)
ALIKE = _numbers(events.LOOK_ALIKES)
ALIKE_OTHERS = _numbers(others.LOOK_ALIKES)
MESSAGES = _numbers(tuple(_LITERALS.values()))


#: … and of words of landmarks, which follow all others.
LANDMARKS = range(len(_SCANS), len(_SCANS) + len(WORD_SCANS))


@lru_cache(maxsize=4)
def scanner(*, times: bool, landmarks: bool = False) -> Scanner:
    """The scanner for all of it, with the time stamps of the headers or without, and with words of landmarks or without."""
    scans = (*_SCANS, *WORD_SCANS) if landmarks else _SCANS
    return Scanner(scans, header=events.HEADER, header_values=HEADER_VALUES if times else HEADER_VALUES[:1])


@lru_cache(maxsize=1)
def events_scanner() -> Scanner:
    """The scanner for the events of the auto-growth layer alone; their size is the first value."""
    return Scanner([Scan(event.format, values=event.values) for event in EVENTS if event.layer == Layer.AUTO_GROWTH])
