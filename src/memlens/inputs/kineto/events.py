"""The events of a Kineto trace that matter here, as columns: changes of memory, and the operators, frames and annotations around them.

Events are decoded many at once, typed.  Where one of them cannot be read so, each is decoded and checked by itself.
"""

from __future__ import annotations

import re
from decimal import Decimal
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
import numpy as np

from memlens.facts import MAX_SIZE, LineSample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]


#: Stands for a number that an event does not have.
UNKNOWN = -(1 << 63)
_MEMORY, _OUT_OF_MEMORY = "[memory]", "[OutOfMemory]"
#: The phases of an event without a duration.
_INSTANT = ("i", "I")
_MOST_THREAD = 10**15
#: Microseconds: no time is later.
_MOST_TIME = 4 * 10**15
#: Characters of a time that fits int64 without its point.
_LONGEST_NUMBER = 20
#: No device has more bytes.
_MOST_TOTAL = 1 << 60
#: Characters of a name that are kept.
_LONGEST_NAME = 4096
_MOST_SAMPLES = 5
_THREAD = re.compile(r"-?[0-9]{1,15}")


class SpanKind(IntEnum):
    """The kinds of intervals in a trace."""

    OP = 0
    FRAME = 1
    ANNOTATION = 2


#: The categories of intervals that are read.  2021 called operators ``Operator``.
_OPERATORS = ("cpu_op", "Operator")
_CATEGORIES = dict.fromkeys(_OPERATORS, SpanKind.OP)
_ANNOTATION = "user_annotation"
_CATEGORIES |= {"python_function": SpanKind.FRAME, _ANNOTATION: SpanKind.ANNOTATION}


class Changes(NamedTuple):
    """``[memory]`` events in the order of the file, int64, one entry an event; :data:`UNKNOWN` where an event does not say.

    ``time`` is in nanoseconds on the trace's clock, ``track`` an index of :attr:`Events.tracks`, ``kind`` PyTorch's number for the type
    of device (0 is the CPU, 1 CUDA), ``device`` its number (-1 for the CPU).  ``size`` is in bytes, negative for memory given
    back, ``addr`` has the bits of an uint64.  ``allocated`` and ``reserved`` are the device's totals after the event, in bytes.
    """

    time: Integers
    track: Integers
    kind: Integers
    device: Integers
    size: Integers
    addr: Integers
    allocated: Integers
    reserved: Integers


class Spans(NamedTuple):
    """Intervals in the order of the file, int64, one entry an interval.

    ``kind`` is a :class:`SpanKind`; ``start`` and ``end`` are in nanoseconds on the trace's clock.
    ``track`` is an index of :attr:`Events.tracks`, ``name`` and ``stack`` of :attr:`Events.texts`, -1 for no call stack.
    """

    start: Integers
    end: Integers
    track: Integers
    kind: Integers
    name: Integers
    stack: Integers


class Failure(NamedTuple):
    """An ``[OutOfMemory]`` event: when and on which track, on which device, and the bytes asked for."""

    time: int
    track: int
    kind: int
    device: int
    size: int | None


_Total = Annotated[int, msgspec.Meta(ge=-_MOST_TOTAL, le=_MOST_TOTAL)]


class _Args(msgspec.Struct, gc=False):
    kind: Annotated[int, msgspec.Meta(ge=0, lt=1 << 8)] = msgspec.field(name="Device Type", default=UNKNOWN)
    device: Annotated[int, msgspec.Meta(ge=-1, lt=1 << 15)] = msgspec.field(name="Device Id", default=UNKNOWN)
    size: int = msgspec.field(name="Bytes", default=0)
    addr: Annotated[int, msgspec.Meta(ge=0)] = msgspec.field(name="Addr", default=-UNKNOWN)  # the same bits
    allocated: _Total = msgspec.field(name="Total Allocated", default=UNKNOWN)
    reserved: _Total = msgspec.field(name="Total Reserved", default=UNKNOWN)
    stack: str | None = msgspec.field(name="Call stack", default=None)  # of operators until 2022


_UNTOLD = msgspec.Raw(b"?")


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = -1
    tid: int | str = -1
    ts: msgspec.Raw = _UNTOLD
    dur: msgspec.Raw = _UNTOLD
    args: _Args | None = None


class _Kind(msgspec.Struct):
    """What an event is, whatever else is wrong with it."""

    ph: Any = None
    cat: Any = None
    name: Any = None


_DECODER, _ONE = msgspec.json.Decoder(list[_Event]), msgspec.json.Decoder(_Event)
_NO_TIME = msgspec.Raw(b"0")
_NO_ARGS = _Args()


class Events:
    """The events of a trace, read part by part.

    Attributes:
        count: How many events there were, of any kind.
        failures: The failures.
        malformed: How many events are of those read here but cannot be read.
        samples: The first few of these; ``line`` is the event's number, from 1.
    """

    def __init__(self) -> None:
        texts: dict[str, int] = {}
        tracks: dict[tuple[int, int], int] = {}
        # By number; those alike that are equal once they are cleaned.
        self._texts, self._tracks = texts, tracks
        self._text = cache(lambda text: texts.setdefault(_clean(text), len(texts)))
        self._track = cache(lambda pid, tid: tracks.setdefault((_thread(pid), _thread(tid)), len(tracks)))
        self.count = self.malformed = 0
        self.failures: list[Failure] = []
        self.samples: list[LineSample] = []
        # Each part int64, (columns, events).
        self._changes: list[Integers] = []
        self._spans: list[Integers] = []

    @property
    def has_changes(self) -> bool:
        """Whether there was a change of memory."""
        return any(part.size for part in self._changes)

    @property
    def changes(self) -> Changes:
        """All changes of memory."""
        return Changes(*np.concatenate([np.zeros((len(Changes._fields), 0), np.int64), *self._changes], axis=1))

    @property
    def spans(self) -> Spans:
        """All intervals."""
        spans = Spans(*np.concatenate([np.zeros((len(Spans._fields), 0), np.int64), *self._spans], axis=1))
        # Until 2022 operators and annotations had one category, but only annotations have a # in their name.
        marks = np.array(["#" in text for text in self.texts], np.bool_)[spans.name]
        return spans._replace(kind=np.where(marks & (spans.kind == SpanKind.OP), SpanKind.ANNOTATION, spans.kind))

    @property
    def texts(self) -> Sequence[str]:
        """The names of intervals, and call stacks."""
        return list(self._texts)

    @property
    def tracks(self) -> Sequence[tuple[int, int]]:
        """Process and thread of each track; -1 where an event's is no number."""
        return list(self._tracks)

    def add(self, text: memoryview) -> bool:
        """Read whole events with commas between them; where one of them cannot be read none is, and the result is false."""
        try:
            events = _DECODER.decode(b"".join((b"[", text, b"]")))
            self._take(events)
        except (ValueError, ArithmeticError, RecursionError):
            return False
        self.count += len(events)
        return True

    def add_singly(self, texts: Sequence[tuple[int, bytes]]) -> None:
        """Read those of some events that can be read.

        Args:
            texts: Their byte offsets in the input, and their texts from brace to brace.
        """
        readable = [text.decode("utf-8", "replace").encode() for _, text in texts]
        together = self._taken(readable)
        for (offset, _), text in zip(texts, readable, strict=True):
            self.count += 1
            if not (together or self._taken([text])) and _is_wanted(text):
                self.malformed += 1
                if len(self.samples) < _MOST_SAMPLES:
                    shown = " ".join(text[:200].decode("utf-8", "replace").split())
                    self.samples.append(LineSample(offset, self.count, shown))

    def _taken(self, texts: Sequence[bytes]) -> bool:
        """Read events by themselves; where one of them cannot be read none is, and the result is false."""
        try:
            self._take([*map(_ONE.decode, texts)])
        except (ValueError, ArithmeticError, RecursionError):
            return False
        return True

    def _take(self, events: list[_Event]) -> None:
        spans = self._spans_of([event for event in events if event.ph == "X" and event.cat in _CATEGORIES])
        instants = [event for event in events if event.ph in _INSTANT and event.name[:1] == "["]
        changes = self._changes_of([event for event in instants if event.name == _MEMORY])
        self.failures += self._failures_of([event for event in instants if event.name == _OUT_OF_MEMORY])
        self._spans.append(spans)
        self._changes.append(changes)

    def _spans_of(self, events: list[_Event]) -> Integers:
        # An annotation that does not say how long it lasts is a point; by identity and inline, for this is done for each interval.
        lasting = [_NO_TIME if one.dur is _UNTOLD and one.cat == _ANNOTATION else one.dur for one in events]
        start, lasts = np.split(_thousandths([event.ts for event in events] + lasting), 2)
        kind = [_CATEGORIES[event.cat] for event in events]
        stacks = [event.args.stack if event.args and event.cat in _OPERATORS else None for event in events]
        stack = [-1 if stack is None else self._text(stack) for stack in stacks]
        track = [self._track(event.pid, event.tid) for event in events]
        return _rows(start, start + lasts, track, kind, [self._text(event.name) for event in events], stack)

    def _changes_of(self, events: list[_Event]) -> Integers:
        args = [event.args or _NO_ARGS for event in events]
        size, addr = np.array([of.size for of in args], np.int64), np.array([of.addr for of in args], np.uint64)
        if ((size == 0) | (np.abs(size) > MAX_SIZE)).any():
            raise ValueError
        totals = [of.allocated for of in args], [of.reserved for of in args]
        return _rows(*self._places_of(events), size, addr.view(np.int64), *totals)

    def _failures_of(self, events: list[_Event]) -> list[Failure]:
        sizes = [event.args.size if event.args else 0 for event in events]
        asked = (size if 0 < size <= _MOST_TOTAL else None for size in sizes)
        return list(map(Failure, *self._places_of(events), asked))

    def _places_of(self, events: list[_Event]) -> tuple[list[int], ...]:
        """When and on which track, on which device."""
        args = [event.args or _NO_ARGS for event in events]
        kind, device = [of.kind for of in args], [of.device for of in args]
        if UNKNOWN in kind or UNKNOWN in device:
            raise ValueError
        track = [self._track(event.pid, event.tid) for event in events]
        return _thousandths([event.ts for event in events]).tolist(), track, kind, device


def _rows(*columns: Integers | Sequence[int]) -> Integers:
    """Columns as one array, int64, ``(columns, events)``."""
    return np.stack([np.asarray(column, np.int64) for column in columns])


def _is_wanted(text: bytes) -> bool:
    """Whether an event that cannot be read is one of those read here."""
    try:
        kind = msgspec.json.decode(text, type=_Kind)
    except (ValueError, RecursionError):  # no JSON
        return b'"[memory]"' in text or b'"[OutOfMemory]"' in text
    if kind.ph == "X":
        return type(kind.cat) is str and kind.cat in _CATEGORIES and type(kind.name) is str
    return kind.ph in _INSTANT and kind.name in (_MEMORY, _OUT_OF_MEMORY)


def _thousandths(numbers: Sequence[msgspec.Raw]) -> Integers:
    """Numbers as they are written, not negative, in thousandths, rounded down.

    Raises:
        ValueError, ArithmeticError: One of them is something else, or too large.
    """
    if not numbers:
        return np.zeros(0, np.int64)
    text = b" ".join([*numbers, b""])
    characters = np.frombuffer(text, np.uint8)
    ends, points = np.flatnonzero(characters == ord(" ")), np.flatnonzero(characters == ord("."))
    longest = np.diff(ends, prepend=-1).max(initial=0) - 1
    if longest > _LONGEST_NUMBER or text.translate(None, b"0123456789. "):  # an exponent, or no number
        return np.array([_one_in_thousandths(bytes(number)) for number in numbers], np.int64)
    decimals = np.zeros(len(ends), np.int64)
    holder = ends.searchsorted(points)
    decimals[holder] = ends[holder] - points - 1
    values = np.fromstring(text.replace(b".", b""), np.int64, sep=" ")
    if np.any(values // 10**decimals > _MOST_TIME):  # so that what follows stays within int64
        raise ValueError
    thousandths: Integers = values * 10 ** np.maximum(3 - decimals, 0) // 10 ** np.maximum(decimals - 3, 0)
    if np.any(thousandths > _MOST_TIME * 1000):
        raise ValueError
    return thousandths


def _one_in_thousandths(number: bytes) -> int:
    value = Decimal(number.decode())
    if not 0 <= value <= _MOST_TIME:
        raise ValueError
    return int(value.scaleb(3))


def _clean(text: str) -> str:
    """A text as far as anybody would read it; what is no character becomes a question mark."""
    return text[:_LONGEST_NAME].encode("utf-8", "replace").decode()


def _thread(value: int | str) -> int:
    """A process or thread as a number; -1 where it is none."""
    if isinstance(value, str):
        return int(value) if _THREAD.fullmatch(value) else -1
    return value if abs(value) <= _MOST_THREAD else -1
