"""The events of a Kineto trace that matter here, as columns: changes of memory, and the operators, frames and annotations around them.

Events are decoded many at once, typed.  Where one of them is not of the usual kind (a string where a number is expected, say), the JSON
parser of the standard library reads all of these one by one: :meth:`Events.add_singly` is what both mean.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from memlens.facts import MAX_SIZE, LineSample

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]


#: Stands for a number that an event does not have.
UNKNOWN = -(1 << 63)
_ARGS = ("Device Type", "Device Id", "Bytes", "Addr", "Total Allocated", "Total Reserved")
#: What operators have until 2022.
_STACK = "Call stack"
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
_CATEGORIES |= {"python_function": SpanKind.FRAME, "user_annotation": SpanKind.ANNOTATION}


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

    ``kind`` is a :class:`SpanKind`; ``start`` and ``end`` are in nanoseconds on the trace's clock, the end of an annotation is its start.
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


class _Args(msgspec.Struct, gc=False):
    kind: int = msgspec.field(name=_ARGS[0], default=UNKNOWN)
    device: int = msgspec.field(name=_ARGS[1], default=UNKNOWN)
    size: int = msgspec.field(name=_ARGS[2], default=UNKNOWN)
    addr: int = msgspec.field(name=_ARGS[3], default=UNKNOWN)
    allocated: int = msgspec.field(name=_ARGS[4], default=UNKNOWN)
    reserved: int = msgspec.field(name=_ARGS[5], default=UNKNOWN)
    stack: str | None = msgspec.field(name=_STACK, default=None)


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = -1
    tid: int | str = -1
    ts: msgspec.Raw = msgspec.Raw(b"?")
    dur: msgspec.Raw = msgspec.Raw(b"?")
    args: _Args | None = None


_DECODER = msgspec.json.Decoder(list[_Event])
_NO_TIME = msgspec.Raw(b"0")
_NO_ARGS = _Args()


class Events:
    """The events of a trace, read part by part.

    Attributes:
        count: How many events there were, of any kind.
        failures: The failures.
        malformed: How many events look like one of those read here but cannot be read, or are no JSON.
        samples: The first few of these; ``line`` is the event's number, from 1.
    """

    def __init__(self) -> None:
        texts: dict[str, int] = {}
        tracks: dict[tuple[int, int], int] = {}
        # By number; those alike that are equal once they are cleaned.
        self._texts, self._tracks = texts, tracks
        self._text = cache(lambda text: texts.setdefault(_clean(text), len(texts)))
        self._track = cache(lambda pid, tid: tracks.setdefault((_thread(pid), _thread(tid)), len(tracks)))
        self.clear()

    def clear(self) -> None:
        """Forget all events."""
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
        """Read whole events with commas between them; where one of them is unusual none is read, and the result is false."""
        try:
            events = _DECODER.decode(b"".join((b"[", text, b"]")))
            spans = self._spans_of([event for event in events if event.ph == "X" and event.cat in _CATEGORIES])
            changes = self._changes_of([event for event in events if event.ph in _INSTANT and event.name[:1] == "["])
        except (ValueError, OverflowError, RecursionError):
            return False
        self._spans.append(spans)
        self._changes.append(changes)
        self.count += len(events)
        return True

    def _spans_of(self, events: list[_Event]) -> Integers:
        start = _thousandths([event.ts for event in events])
        lasts = _thousandths([event.dur if event.cat != "user_annotation" else _NO_TIME for event in events])
        kind = [_CATEGORIES[event.cat] for event in events]
        stacks = [event.args.stack if event.args and event.cat in _OPERATORS else None for event in events]
        stack = [-1 if stack is None else self._text(stack) for stack in stacks]
        track = [self._track(event.pid, event.tid) for event in events]
        return _rows(start, start + lasts, track, kind, [self._text(event.name) for event in events], stack)

    def _changes_of(self, events: list[_Event]) -> Integers:
        if any(event.name == _OUT_OF_MEMORY for event in events):
            raise ValueError
        events = [event for event in events if event.name == _MEMORY]
        time = _thousandths([event.ts for event in events])
        track = [self._track(event.pid, event.tid) for event in events]
        args = [msgspec.structs.astuple(event.args or _NO_ARGS)[: len(_ARGS)] for event in events]
        rows = _rows(time, track, *zip(*args, strict=True)) if args else _rows(*[[]] * len(Changes._fields))
        if not np.all(_is_change(*rows[2:])):
            raise ValueError
        return rows

    def add_singly(self, texts: Iterable[tuple[int, bytes | bytearray]]) -> None:
        """Read events one by one, with the JSON parser of the standard library.

        Args:
            texts: Their byte offsets in the input, and their texts from brace to brace.
        """
        changes: list[tuple[int, ...]] = []
        spans: list[tuple[int, ...]] = []
        for offset, text in texts:
            self.count += 1
            try:
                event = json.loads(
                    text.decode("utf-8", "replace"), strict=False, parse_float=Decimal, parse_constant=lambda _: None
                )
                self._add_one(event, changes, spans)
            except (ValueError, ArithmeticError, RecursionError):
                self.malformed += 1
                if len(self.samples) < _MOST_SAMPLES:
                    shown = " ".join(text[:200].decode("utf-8", "replace").split())
                    self.samples.append(LineSample(offset, self.count, shown))
        self._changes.append(np.array(changes, np.int64).reshape(-1, len(Changes._fields)).T)
        self._spans.append(np.array(spans, np.int64).reshape(-1, len(Spans._fields)).T)

    def _add_one(self, event: dict[str, Any], changes: list[tuple[int, ...]], spans: list[tuple[int, ...]]) -> None:
        """Append the row of an event to the changes or to the spans, or else the failure that it is, if it is any of these.

        Raises:
            ValueError: It is, but cannot be read.
        """
        name, phase, category, args = (event.get(key) for key in ("name", "ph", "cat", "args"))
        span = (
            _CATEGORIES.get(category) if isinstance(category, str) and isinstance(name, str) and phase == "X" else None
        )
        if span is None and (phase not in _INSTANT or name not in (_MEMORY, _OUT_OF_MEMORY)):
            return
        time = _one_in_thousandths(event.get("ts"))
        lasts = _one_in_thousandths(event.get("dur")) if span in (SpanKind.OP, SpanKind.FRAME) else 0
        if time is None or lasts is None:
            raise ValueError
        track = self._track(_thread(event.get("pid")), _thread(event.get("tid")))
        args = args if isinstance(args, dict) else {}
        if span is not None:
            stack = args.get(_STACK) if span == SpanKind.OP else None
            number = self._text(stack) if isinstance(stack, str) else -1
            spans.append((time, time + lasts, track, span, self._text(name), number))
            return
        numbers = [_whole(args[key]) if key in args else UNKNOWN for key in _ARGS]
        known = [number for number in numbers if number is not None]
        if name == _OUT_OF_MEMORY:
            kind, device, size = numbers[:3]
            if kind is None or device is None or not _is_device(kind, device):
                raise ValueError
            size = size if size is not None and 0 < size <= _MOST_TOTAL else None
            self.failures.append(Failure(time, track, kind, device, size))
        elif len(known) < len(numbers) or not _is_change(*known):
            raise ValueError
        else:
            known[3] -= (known[3] >= 1 << 63) << 64  # the same bits
            changes.append((time, track, *known))


def _rows(*columns: Integers | Sequence[int]) -> Integers:
    """Columns as one array, int64, ``(columns, events)``."""
    return np.stack([np.asarray(column, np.int64) for column in columns])


def _is_change(kind: Any, device: Any, size: Any, addr: Any, allocated: Any, reserved: Any) -> Any:
    """Whether numbers, or arrays of them, can be those of a change of memory."""
    fine = _is_device(kind, device) & (size != 0) & (size >= -MAX_SIZE) & (size <= MAX_SIZE)
    fine &= (addr == UNKNOWN) | (addr >= 0)
    for total in (allocated, reserved):
        fine &= (total == UNKNOWN) | ((total >= -_MOST_TOTAL) & (total <= _MOST_TOTAL))
    return fine


def _is_device(kind: Any, device: Any) -> Any:
    return (kind >= 0) & (kind < 1 << 8) & (device >= -1) & (device < 1 << 15)


def _thousandths(numbers: Sequence[msgspec.Raw]) -> Integers:
    """Numbers as they are written, not negative and without exponents, in thousandths, rounded down.

    Raises:
        ValueError: One of them is something else, too large, or very long.
    """
    text = b" ".join([*numbers, b""])
    if text.translate(None, b"0123456789. "):
        raise ValueError
    characters = np.frombuffer(text, np.uint8)
    ends, points = np.flatnonzero(characters == ord(" ")), np.flatnonzero(characters == ord("."))
    decimals = np.zeros(len(ends), np.int64)
    holder = ends.searchsorted(points)
    decimals[holder] = ends[holder] - points - 1
    if np.diff(ends, prepend=-1).max(initial=0) > _LONGEST_NUMBER + 1:
        raise ValueError
    values = np.fromstring(text.replace(b".", b""), np.int64, sep=" ")
    if np.any(values // 10**decimals > _MOST_TIME):  # so that what follows stays within int64
        raise ValueError
    thousandths: Integers = values * 10 ** np.maximum(3 - decimals, 0) // 10 ** np.maximum(decimals - 3, 0)
    if np.any(thousandths > _MOST_TIME * 1000):
        raise ValueError
    return thousandths


def _clean(text: str) -> str:
    """A text as far as anybody would read it; what is no character becomes a question mark."""
    return text[:_LONGEST_NAME].encode("utf-8", "replace").decode()


def _thread(value: Any) -> int:
    """A process or thread as a number; -1 where it is none."""
    if isinstance(value, str):
        value = int(value) if _THREAD.fullmatch(value) else None
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _MOST_THREAD:
        return -1
    return value


def _is_number(value: Any) -> bool:
    """Whether a value is a number of not too many digits."""
    if isinstance(value, Decimal):
        return value.is_finite() and value.adjusted() <= 20
    return isinstance(value, int) and not isinstance(value, bool)


def _whole(value: Any) -> int | None:
    """A value as a whole number that fits 64 bits with room to spare, or as an address; ``None`` where it is none."""
    if not _is_number(value) or value != int(value):
        return None
    return int(value) if -(1 << 62) <= value < 1 << 64 else None


def _one_in_thousandths(value: Any) -> int | None:
    """As :func:`_thousandths`; ``None`` where it is no such number."""
    if not _is_number(value) or not 0 <= value <= _MOST_TIME:
        return None
    return int(value.scaleb(3)) if isinstance(value, Decimal) else int(value) * 1000
