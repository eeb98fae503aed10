"""The metadata of a Parquet file of events: what the reader of the log saw that is no event, as JSON.

The JSON, under the key ``memlens``, is :class:`Metadata`.  Columns of whole numbers are the zlib-compressed, base64-coded differences of 64-bit numbers, those of
texts a zlib-compressed, base64-coded list in JSON.  Nothing is ever unpickled, and every value is checked before anything is made of it.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import TYPE_CHECKING, Annotated, Any, get_args

import msgspec
import numpy as np
from msgspec.structs import asdict, replace
from numpy.typing import NDArray  # noqa: TC002  msgspec reads the types of columns

from memlens.facts import Facts  # noqa: TC001
from memlens.source import Source
from memlens.trust import trust_of
from memlens.trust.agreement import METRICS
from memlens.windows.anchors import landmarks_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlens.events import EventLog


KEY = b"memlens"
SCHEMA = "memlens.events/1"

#: Facts that are columns.
_COLUMNS = ("kept", "stat_lines", "requests", "later_ooms")
#: Bytes that what is packed may unpack to, all together.
_LARGEST = 1 << 30
#: Running totals of the framework are left out where there are more: they would be most of the file.
_MOST_ROWS = 1 << 24
_MOST_DIGITS = 19

Place = tuple[int, int | None, str | None]


class DamagedError(ValueError):
    """Metadata that no export writes; its text says what is wrong."""


class PlacedTexts(msgspec.Struct):
    """Annotations of an input that has no lines of text, or lines that may be anchors (:mod:`memlens.windows.landmarks`).

    ``complete``: these are all there are; ``ends``: of annotations, 0 where that is not known.
    """

    offsets: NDArray[np.int64]
    lines: NDArray[np.int64]
    texts: NDArray[np.str_]
    complete: bool = True
    ends: NDArray[np.int64] = msgspec.field(default_factory=lambda: np.zeros(0, np.int64))


class Metadata(msgspec.Struct, kw_only=True):
    """The metadata of a file; see the fields of :class:`~memlens.events.EventLog`.

    Attributes:
        window: What the file holds of the log, where that is not all.
        places: Lines that the trust report asks for: offset, number, text.
    """

    schema: str = SCHEMA
    window: str | None = None
    device: Annotated[int, msgspec.Meta(ge=-(1 << 31), lt=1 << 31)] | None = None  # as in the column of devices
    facts: Facts
    marks: PlacedTexts | None = None
    landmarks: PlacedTexts | None = None
    places: tuple[Place, ...] = ()


class StoredSource(Source):
    """The source of events whose log is not at hand: a few of its lines are known.

    Args:
        name: The file, as the user named it.
        places: Offsets in the log, each with the number of its line and its text, where they are known.
    """

    def __init__(self, name: str, places: Sequence[Place] = ()) -> None:
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
    long = {name: None for name in _COLUMNS if any(len(column) > _MOST_ROWS for column in _columns(log.facts, name))}
    found = Metadata(
        window=window, device=log.device, facts=replace(log.facts, **long), places=() if window else _places(log)
    )
    if log.marks is not None:
        found.marks = _placed(*zip(*((mark.offset, mark.line, mark.text) for mark in log.marks), strict=True))
        found.marks.ends = np.array([mark.end or 0 for mark in log.marks], np.int64)
    elif (landmarks := landmarks_of(log)) is not None:
        texts = [text.decode("utf-8", "surrogateescape") for text in landmarks.texts]
        found.landmarks = _placed(landmarks.offsets, landmarks.lines, texts)
        found.landmarks.complete = landmarks.complete
    return json.dumps(msgspec.to_builtins(found, enc_hook=_packed)).encode("ascii")


def _columns(facts: Facts, name: str) -> list[NDArray[Any]]:
    value = getattr(facts, name)
    return [] if value is None else [*asdict(value).values()]


def _places(log: EventLog) -> tuple[Place, ...]:
    """The lines that are looked up to judge a log, by their offsets."""
    places: dict[int, Place] = {}
    if (first := trust_of(log).first_disagreement) is not None:
        places[first.offset] = (first.offset, first.line, None)
    if log.facts.ends_mid_line and (text := log.source.lines([at := log.facts.bytes - 1])[0]) is not None:
        places[at] = (at, log.facts.lines, text.decode("utf-8", "surrogateescape"))
    return tuple(places.values())


def _placed(offsets: Sequence[int] = (), lines: Sequence[int] = (), texts: Sequence[str] = ()) -> PlacedTexts:
    return PlacedTexts(np.array(offsets, np.int64), np.array(lines, np.int64), np.array(texts, object))


def _packed(column: NDArray[Any]) -> str:
    if column.dtype == object:
        data = json.dumps(column.tolist()).encode("ascii")
    else:
        numbers = column if column.dtype == np.uint64 else column.astype(np.int64)
        data = np.diff(numbers.view(np.int64), prepend=np.int64(0)).astype("<i8").tobytes()
    return base64.b64encode(zlib.compress(data)).decode()


def read_metadata(text: bytes, events: int) -> Metadata:
    """Read the metadata of a file.

    Args:
        text: What stands under :data:`KEY`.
        events: How many events the file has.

    Raises:
        DamagedError: It is nothing that :func:`metadata_of` gives.
    """
    left = _LARGEST

    def unpacked(kind: Any, packed: Any) -> NDArray[Any]:
        nonlocal left
        dtype, member = get_args(get_args(kind)[1])[0], zlib.decompressobj()
        data = member.decompress(base64.b64decode(packed, validate=True), left)
        left -= len(data)
        if not member.eof or left <= 0:
            raise DamagedError("its metadata is damaged, or unpacks to more than any log has")
        if dtype is np.str_:
            return np.array(msgspec.convert(json.loads(data), list[str]), object)
        numbers = np.cumsum(np.frombuffer(data, "<i8").astype(np.int64), dtype=np.int64)
        return numbers.view(np.uint64) if dtype is np.uint64 else numbers.astype(dtype)

    try:
        plain = json.loads(text, parse_int=_whole, parse_constant=_refused)
        if plain.get("schema") != SCHEMA:
            raise DamagedError(f"its metadata is not of {SCHEMA}: another version of memlens wrote it")
        if plain.get("window") is not None:
            raise DamagedError(f"it holds a part of a log only: {plain['window']}")
        found = msgspec.convert(plain, Metadata, dec_hook=unpacked)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, OverflowError, zlib.error) as error:
        damage = next((one for one in (error, error.__cause__) if isinstance(one, DamagedError)), None)
        raise damage or DamagedError("its metadata is damaged") from error
    facts = found.facts
    counts = (facts.bytes, facts.lines, facts.malformed, facts.unstamped, facts.opening, events - facts.opening)
    if min(counts) < 0 or facts.block_granularity < 1 or {one.metric for one in facts.figures} - {*METRICS}:
        raise DamagedError("its metadata tells of nothing that there is")
    if any(len({len(column) for column in _columns(facts, name)}) > 1 for name in _COLUMNS):
        raise DamagedError("its metadata has columns of several lengths")
    for placed in (found.marks, found.landmarks):
        if placed and not (len(placed.offsets) == len(placed.lines) == len(placed.texts) and _rises(placed.offsets)):
            raise DamagedError("its metadata has lines out of order")
    if found.marks and len(found.marks.ends) not in (0, len(found.marks.offsets)):
        raise DamagedError("its metadata has columns of several lengths")
    return found


def _rises(offsets: NDArray[np.int64]) -> bool:
    return not (np.diff(offsets) < 0).any()


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS or abs(number := int(digits)) > 1 << 62:
        raise DamagedError("its metadata holds a number that is too large")
    return number


def _refused(constant: str) -> float:
    raise DamagedError(f"its metadata holds {constant}")
