"""Everything that is looked for in a log of Paddle, as one list of formats for one scanner."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from memlens.inputs.paddle import context, events, messages
from memlens.inputs.paddle import other_events as others
from memlens.scanner.formats import LineFormat
from memlens.scanner.scan import Scan, Scanner
from memlens.windows.landmarks import WORD_SCANS, words_are_scanned

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The groups that are read of the header of an event; the last three only where times are wanted.
HEADER_VALUES = ("thread", "year", "date", "time")


#: The formats of events; the number of a format is its index here.
EVENTS = (*events.EVENTS, *others.EVENTS)
#: What is said of the next ALLOC of a thread: of the auto-growth layer, of the stream-safe one, of naive best fit.
SPEECH = (events.REQUEST, others.STREAM_REQUEST, others.NAIVE_SIZE)


#: Texts whose lines may hold a message: they are read in another way.
_MESSAGES = tuple(
    LineFormat(text.decode(), "message", text, re.escape(text).decode(), {}) for text in messages.LITERALS
)
_SCANS = (
    *(Scan(form, "before", covers=form not in others.RARE) for form in EVENTS),
    *(Scan(form, "before") for form in SPEECH),
    *(Scan(form, "nearest") for form in context.FORMATS),
    *(Scan(form, uncovered=True) for form in (*events.LOOK_ALIKES, *others.LOOK_ALIKES)),
    Scan(others.STREAM_DEFERRED),
    Scan(events.PREALLOC, "before"),
    *(Scan(form, once=True) for form in _MESSAGES),
)
#: Words of landmarks follow all others, and what only a replay needs follows these.
_ALL_SCANS = (*_SCANS, *WORD_SCANS, *(Scan(form, "before") for form in events.OF_REPLAYS))
_NUMBERS = {scan.format.name: number for number, scan in enumerate(_ALL_SCANS)}
_NUMBERS |= {scan.format.name: number for number, scan in enumerate(_SCANS)}  # a word may be called as a format is
#: Of each format the columns of its groups, by name.
GROUPS = [{group.name: column for column, group in enumerate(scan.groups())} for scan in _ALL_SCANS]


def number_of(form: LineFormat) -> int:
    """The number of a format."""
    return _NUMBERS[form.name]


def _numbers(forms: Sequence[LineFormat]) -> range:
    return range(number_of(forms[0]), number_of(forms[-1]) + 1)


#: Numbers of the formats of context lines; of what looks like an event, of the auto-growth layer and of the others; of messages.
CONTEXTS = _numbers(context.FORMATS)
ALIKE = _numbers(events.LOOK_ALIKES)
ALIKE_OTHERS = _numbers(others.LOOK_ALIKES)
MESSAGES = _numbers(_MESSAGES)
#: What is said of events of other layers than auto-growth: not looked for where these are not read.
SAID_ELSEWHERE = tuple(number_of(form) for form in SPEECH[1:])
#: … and of words of landmarks.
LANDMARKS = range(len(_SCANS), len(_SCANS) + len(WORD_SCANS))


@lru_cache(maxsize=4)
def scanner(*, times: bool, landmarks: bool = False, replays: bool = False) -> Scanner:
    """The scanner for all of it, with the time stamps of the headers or without, with words of landmarks or without, and with what only a replay needs.

    With that the words of landmarks are always among them.  Where :func:`~memlens.windows.landmarks.words_are_scanned` says no, there is nothing gained by it, and it is left out.
    """
    if replays:
        scans: tuple[Scan, ...] = _ALL_SCANS
    else:
        scans = (*_SCANS, *WORD_SCANS) if landmarks and words_are_scanned() else _SCANS
    return Scanner(scans, header=events.HEADER, header_values=HEADER_VALUES if times else HEADER_VALUES[:1])


@lru_cache(maxsize=1)
def events_scanner() -> Scanner:
    """The scanner for the events of the auto-growth layer alone; their size is the only value."""
    return Scanner([Scan(form, values=("size",)) for form in events.EVENTS])
