"""The metadata of a Parquet file of events: what the reader of the log saw that is no event, as JSON.

The JSON, under the key ``memlens``, has

* ``schema``: ``memlens.events/1``, and ``window`` where the file holds no whole log;
* ``device``, and ``facts``: :class:`~memlens.facts.Facts` by the names of its fields;
* ``marks``: the annotations of an input that has no lines of text, or ``landmarks``: the lines that may be anchors
  (:mod:`memlens.windows.landmarks`);
* ``places``: lines that the trust report asks for, ``[offset, number, text]``.

Long columns of whole numbers are the zlib-compressed, base64-coded differences of 64-bit numbers, long lists of texts a
zlib-compressed, base64-coded list in JSON.  Nothing is ever unpickled, and every number is checked before anything is made of it.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args, get_type_hints

import msgspec
import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from memlens import facts
from memlens.facts import Facts, Kept, Mark, RequestLines, StatLines
from memlens.source import Source
from memlens.trust.agreement import METRICS
from memlens.trust.report import trust_of
from memlens.windows.anchors import landmarks_of
from memlens.windows.landmarks import Landmarks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlens.events import EventLog


KEY = b"memlens"
SCHEMA = "memlens.events/1"

#: Names that the types of fields are written with.
_NAMES = {**vars(facts), "np": np, "NDArray": NDArray}
#: What the facts that are columns consist of.
_COLUMNS: dict[str, tuple[type, dict[str, type[np.generic]]]] = {
    name: (owner, {column: get_args(get_args(hint)[1])[0] for column, hint in get_type_hints(owner, _NAMES).items()})
    for name, owner in (("kept", Kept), ("stat_lines", StatLines), ("requests", RequestLines))
}
#: Bytes that what is packed may unpack to, all together.
_LARGEST = 1 << 30
#: Running totals of the framework are left out where there are more: they would be most of the file.
_MOST_STAT_LINES = 1 << 24
_MOST_DIGITS = 19
#: A device's number, which has 32 bits in the column of devices, too.
_Device = Annotated[int, msgspec.Meta(ge=-(1 << 31), lt=1 << 31)]


class DamagedError(ValueError):
    """Metadata that no export writes; its text says what is wrong."""


class Metadata(NamedTuple):
    """The metadata as read; see the fields of :class:`~memlens.events.EventLog`."""

    facts: Facts
    device: int | None = None
    marks: tuple[Mark, ...] | None = None
    landmarks: Landmarks | None = None
    places: tuple[tuple[int, int | None, str | None], ...] = ()


class StoredSource(Source):
    """The source of events whose log is not at hand: a few of its lines are known.

    Args:
        name: The file, as the user named it.
        places: Offsets in the log, each with the number of its line and its text, where they are known.
    """

    def __init__(self, name: str, places: Sequence[tuple[int, int | None, str | None]] = ()) -> None:
        super().__init__(name)
        self._places = {offset: (line, text) for offset, line, text in places}

    def line_numbers(self, offsets: Sequence[int]) -> list[int | None]:
        return [self._places.get(offset, (None, None))[0] for offset in offsets]

    def lines(self, offsets: Sequence[int]) -> list[bytes | None]:
        texts = [self._places.get(offset, (None, None))[1] for offset in offsets]
        return [None if text is None else text.encode("utf-8", "surrogateescape") for text in texts]


def metadata_of(log: EventLog, window: str | None = None) -> bytes:
    """The metadata of a log.

    Args:
        log: The log.
        window: What the file holds of it, where that is not all.
    """
    plain = {name: value for name, value in structs.asdict(log.facts).items() if name not in _COLUMNS}
    for name, (_, columns) in _COLUMNS.items():
        value = getattr(log.facts, name)
        if value is not None and len(getattr(value, next(iter(columns)))) <= _MOST_STAT_LINES:
            plain[name] = {column: _packed(getattr(value, column)) for column in columns}
    found: dict[str, Any] = {"schema": SCHEMA, "device": log.device, "facts": msgspec.to_builtins(plain)}
    if window is not None:
        found["window"] = window
    if log.marks is not None:
        found["marks"] = _placed([mark.offset for mark in log.marks], [mark.line for mark in log.marks])
        found["marks"]["texts"] = _packed_texts([mark.text for mark in log.marks])
    elif (landmarks := landmarks_of(log)) is not None:
        found["landmarks"] = _placed(landmarks.offsets, landmarks.lines)
        texts = [text.decode("utf-8", "surrogateescape") for text in landmarks.texts]
        found["landmarks"] |= {"texts": _packed_texts(texts), "complete": landmarks.complete}
    if window is None:
        found["places"] = _places(log)
    return json.dumps(found).encode("ascii")


def _places(log: EventLog) -> list[tuple[int, int | None, str | None]]:
    """The lines that are looked up to judge a log, by their offsets."""
    places: dict[int, tuple[int | None, str | None]] = {}
    if (first := trust_of(log).first_disagreement) is not None:
        places[first.offset] = (first.line, None)
    if log.facts.ends_mid_line and (text := log.source.lines([log.facts.bytes - 1])[0]) is not None:
        places[log.facts.bytes - 1] = (log.facts.lines, text.decode("utf-8", "surrogateescape"))
    return [(offset, *place) for offset, place in places.items()]


def _placed(offsets: Sequence[int], lines: Sequence[int]) -> dict[str, Any]:
    return {"offsets": _packed(np.array(offsets, np.int64)), "lines": _packed(np.array(lines, np.int64))}


def _packed(column: NDArray[Any]) -> str:
    numbers = column if column.dtype == np.uint64 else column.astype(np.int64)
    steps = np.diff(numbers.view(np.int64), prepend=np.int64(0)).astype("<i8")
    return base64.b64encode(zlib.compress(steps.tobytes())).decode()


def _packed_texts(texts: Sequence[str]) -> str:
    return base64.b64encode(zlib.compress(json.dumps(texts).encode("ascii"))).decode()


def read_metadata(text: bytes, events: int) -> Metadata:
    """Read the metadata of a file.

    Args:
        text: What stands under :data:`KEY`.
        events: How many events the file has.

    Raises:
        DamagedError: It is nothing that :func:`metadata_of` gives.
    """
    try:
        return _Reading(json.loads(text, parse_int=_whole, parse_constant=_refused)).metadata(events)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, OverflowError, zlib.error) as error:
        raise error if isinstance(error, DamagedError) else DamagedError("its metadata is damaged") from error


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS or abs(number := int(digits)) > 1 << 62:
        raise DamagedError("its metadata holds a number that is too large")
    return number


def _refused(constant: str) -> float:
    raise DamagedError(f"its metadata holds {constant}")


class _Reading:
    """Reads one object of metadata; what it unpacks is counted."""

    def __init__(self, found: Any) -> None:
        if not isinstance(found, dict) or found.get("schema") != SCHEMA:
            raise DamagedError(f"its metadata is not of {SCHEMA}: another version of memlens wrote it")
        if (window := found.get("window")) is not None:
            raise DamagedError(f"it holds a part of a log only: {window}")
        self._found = found
        self._left = _LARGEST

    def metadata(self, events: int) -> Metadata:
        found, marks, landmarks = self._found, self._found.get("marks"), self._found.get("landmarks")
        return Metadata(
            self._facts(found["facts"], events),
            msgspec.convert(found.get("device"), _Device | None),
            None if marks is None else tuple(map(Mark, *self._placed(marks))),
            None if landmarks is None else self._landmarks(landmarks),
            msgspec.convert(found.get("places", ()), tuple[tuple[int, int | None, str | None], ...]),
        )

    def _facts(self, found: dict[str, Any], events: int) -> Facts:
        hints = get_type_hints(Facts, _NAMES)
        taken = {
            name: msgspec.convert(found[name], hints[name]) for name in hints.keys() & found.keys() - _COLUMNS.keys()
        }
        for name, (make, columns) in _COLUMNS.items():
            if (own := found.get(name)) is not None:
                unpacked = {column: self._numbers(own[column], dtype) for column, dtype in columns.items()}
                if len({len(column) for column in unpacked.values()}) > 1:
                    raise DamagedError(f"its metadata has columns of several lengths in {name}")
                taken[name] = make(**unpacked)
        made = Facts(**taken)
        counts = (made.bytes, made.lines, made.malformed, made.unstamped, made.opening, events - made.opening)
        if min(counts) < 0 or made.block_granularity < 1 or {one.metric for one in made.figures} - {*METRICS}:
            raise DamagedError("its metadata tells of nothing that there is")
        return made

    def _landmarks(self, found: dict[str, Any]) -> Landmarks:
        offsets, lines, texts = self._placed(found)
        raw = tuple(text.encode("utf-8", "surrogateescape") for text in texts)
        return Landmarks(tuple(offsets), tuple(lines), raw, msgspec.convert(found["complete"], bool))

    def _placed(self, found: dict[str, Any]) -> tuple[list[int], list[int], list[str]]:
        """The offsets of lines or marks, which do not fall, their numbers and their texts."""
        offsets, lines = (self._numbers(found[name], np.int64) for name in ("offsets", "lines"))
        texts = msgspec.convert(json.loads(self._bytes(found["texts"])), list[str])
        if not len(offsets) == len(lines) == len(texts) or (np.diff(offsets) < 0).any():
            raise DamagedError("its metadata has lines out of order")
        return offsets.tolist(), lines.tolist(), texts

    def _numbers(self, packed: str, dtype: type[np.generic]) -> NDArray[Any]:
        steps = np.frombuffer(self._bytes(packed), "<i8").astype(np.int64)
        numbers = np.cumsum(steps, dtype=np.int64)
        return numbers.view(np.uint64) if dtype is np.uint64 else numbers.astype(dtype)

    def _bytes(self, packed: str) -> bytes:
        """Unpack, as much as there is room for."""
        member = zlib.decompressobj()
        data = member.decompress(base64.b64decode(packed, validate=True), self._left)
        self._left -= len(data)
        if not member.eof or self._left <= 0:
            raise DamagedError("its metadata is damaged, or unpacks to more than any log has")
        return data
