"""Event logs as plain values and arrays, and back again.

What is stored of a log follows from the types of its fields: an array is put aside and its number stands in its place, classes whose fields hold arrays
are gone through field by field, and everything else is plain JSON.  A field that a log gets later is stored without a line here, as long as
it is of such a type.  Pairs of ALLOCs and FREEs are stored as well: they take longer to find than all else that is asked of a log.
"""

from __future__ import annotations

import inspect
import json
from array import array
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import accumulate, pairwise
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
from numpy.typing import NDArray

from memlens import events, facts, lifetimes
from memlens.events import EventLog
from memlens.facts import Kind
from memlens.folding import condensed, levels
from memlens.inputs.file_source import FileSource
from memlens.inputs.torch_snapshot.reader import SnapshotSource
from memlens.inputs.torch_snapshot.stacks import Frame, Tables
from memlens.lifetimes import Lifetimes, OddFrees, odd_frees, set_pairs
from memlens.source import NumberedSource
from memlens.windows.landmarks import Landmarks
from memlens.windows.patterns import Anchor, Pattern

if TYPE_CHECKING:
    from memlens.source import Source

__all__ = ["Arrays", "can_be_stored", "restored_anchor", "restored_logs", "stored_anchor", "stored_logs"]

Object = TypeVar("Object")

#: Fields of a log that are not stored as they stand.
_APART = ("source", "anchors", "landmarks")
#: Names that the types of fields are written with.
_NAMES = {
    **{name: known for module in (events, facts, lifetimes, levels, condensed) for name, known in vars(module).items()},
    "np": np,
    "NDArray": NDArray,
    "Ints": NDArray[np.int64],
}


class Arrays(list[NDArray[Any]]):
    """Arrays in the order in which they are stored; the first one is the JSON of all that is none."""

    def put(self, array: NDArray[Any]) -> int:
        """Store one and give its number."""
        self.append(array)
        return len(self)

    def whole(self, plain: Any) -> list[NDArray[Any]]:
        """All of them, with plain values in front; arrays among these are stored as well."""

        def put(value: Any) -> Any:
            return self.put(value) if isinstance(value, np.ndarray) else value.item()

        text = json.dumps(msgspec.to_builtins(plain, enc_hook=put)).encode("ascii")
        return [np.frombuffer(text, np.uint8), *self]


def can_be_stored(logs: Sequence[EventLog]) -> bool:
    """Whether all of some logs are of a kind that is stored."""
    return all(
        type(log) is EventLog and type(log.source) in (FileSource, NumberedSource, SnapshotSource) for log in logs
    )


def stored_logs(logs: Sequence[EventLog]) -> list[NDArray[Any]]:
    """Logs of one input as arrays.  Their anchors are not among it."""
    arrays = Arrays()
    tables: dict[int, Any] = {}
    plain = []
    for log in logs:
        found = {spec.name: getattr(log, spec.name) for spec in fields(EventLog) if spec.name not in _APART}
        plain.append(
            {
                "log": found,
                "source": _stored_source(log.source, arrays, tables),
                "landmarks": _stored_landmarks(log.landmarks, arrays),
                "lifetimes": log.lifetimes,
                "odd": odd_frees(log)._asdict(),
            }
        )
    return arrays.whole(plain)


def restored_logs(arrays: Sequence[NDArray[Any]], source: FileSource) -> tuple[EventLog, ...]:
    """The logs of one input, whose name and text is that of a source.

    Raises:
        ValueError: The arrays are nothing that :func:`stored_logs` gives; other errors of wrong values say the same.
    """
    plain: list[dict[str, Any]] = json.loads(bytes(arrays[0]))
    tables: dict[int, Tables] = {}
    logs = []
    for one in plain:
        origin = _restored_source(one["source"], arrays, source, tables)
        landmarks = _restored_landmarks(one["landmarks"], arrays)
        log = _object(EventLog, one["log"], arrays, source=origin, landmarks=landmarks)
        pairs = _object(Lifetimes, one["lifetimes"], arrays)
        odd = _object(OddFrees, one["odd"], arrays)
        _check(log, pairs, odd)
        set_pairs(log, pairs, odd)
        logs.append(log)
    if not logs:
        raise ValueError("there is no log")
    return tuple(logs)


def stored_anchor(anchor: Anchor) -> list[NDArray[Any]]:
    """An anchor as arrays."""
    arrays = Arrays()
    columns = [arrays.put(np.array(column, np.int64)) for column in (anchor.offsets, anchor.lines)]
    return arrays.whole([*columns, list(anchor.names)])


def restored_anchor(arrays: Sequence[NDArray[Any]], pattern: Pattern) -> Anchor:
    """The lines of a pattern; errors as of :func:`restored_logs`."""
    offsets, lines, names = json.loads(bytes(arrays[0]))
    starts, numbers = (array("q", _column(arrays, number, np.int64).tobytes()) for number in (offsets, lines))
    found = Anchor(pattern, starts, numbers, tuple(msgspec.convert(names, list[str])))
    if not len(found.offsets) == len(found.lines) == len(found.names):
        raise ValueError("columns of several lengths")
    return found


def _stored_source(source: Source, arrays: Arrays, tables: dict[int, Any]) -> dict[str, Any]:
    """A source; the call stacks of a snapshot stand once for all its devices."""
    if isinstance(source, FileSource):
        return {"kind": "text", "index": [arrays.put(column) for column in source.indexed]}
    if not isinstance(source, SnapshotSource):
        return {"kind": "numbered"}
    key = id(source.tables)
    if key not in tables:
        frames, numbers, lengths = source.tables.stored()
        tables[key] = [list(frames), *(arrays.put(np.array(column, np.int64)) for column in (numbers, lengths))]
        return {"kind": "snapshot", "stack": arrays.put(source.stack_of_entry), "key": key, "tables": tables[key]}
    return {"kind": "snapshot", "stack": arrays.put(source.stack_of_entry), "key": key}


def _restored_source(
    plain: dict[str, Any], arrays: Sequence[NDArray[Any]], source: FileSource, tables: dict[int, Tables]
) -> Source:
    if plain["kind"] == "text":
        source.index(*(_column(arrays, number, np.int64) for number in plain["index"]))
        return source
    if plain["kind"] == "numbered":
        return NumberedSource(source.name)
    if "tables" in plain:
        frames, *columns = plain["tables"]
        numbers, lengths = (_column(arrays, number, np.int64).tolist() for number in columns)
        tables[plain["key"]] = Tables.restored(msgspec.convert(frames, list[Frame]), numbers, lengths)
    return SnapshotSource(source.name, tables[plain["key"]], _column(arrays, plain["stack"], np.int32))


def _stored_landmarks(landmarks: Landmarks | None, arrays: Arrays) -> list[Any] | None:
    if landmarks is None:
        return None
    columns = [landmarks.offsets, landmarks.lines, [*map(len, landmarks.texts)]]
    text = np.frombuffer(b"".join(landmarks.texts), np.uint8)
    return [*(arrays.put(np.array(column, np.int64)) for column in columns), arrays.put(text), landmarks.complete]


def _restored_landmarks(plain: list[Any] | None, arrays: Sequence[NDArray[Any]]) -> Landmarks | None:
    if plain is None:
        return None
    *columns, text, complete = plain
    offsets, lines, lengths = (_column(arrays, number, np.int64).tolist() for number in columns)
    whole, ends = bytes(_column(arrays, text, np.uint8)), [0, *accumulate(lengths)]
    texts = tuple(whole[begin:end] for begin, end in pairwise(ends))
    if not len(offsets) == len(lines) == len(texts) or ends[-1] != len(whole):
        raise ValueError("lines of several lengths")
    return Landmarks(tuple(offsets), tuple(lines), texts, msgspec.convert(complete, bool))


# How values become what the fields of classes hold.


@cache
def _hints(owner: Any) -> dict[str, Any]:
    """The types of the fields of a class, without those that are stored apart or not at all."""
    known = {name: hint for name, hint in inspect.get_annotations(owner).items() if name not in _APART}
    return get_type_hints(type(owner.__name__, (), {"__annotations__": known}), _NAMES)


@cache
def _holds_arrays(hint: Any) -> bool:
    """Whether a field of some type holds arrays, or something whose fields do."""
    return (
        get_origin(hint) is np.ndarray
        or any(map(_holds_arrays, get_args(hint)))
        or (is_dataclass(hint) and any(map(_holds_arrays, _hints(cast("Any", hint)).values())))
    )


def _made(hint: Any, value: Any, arrays: Sequence[NDArray[Any]]) -> Any:
    """A value as a field of some type holds it."""
    if not _holds_arrays(hint):
        return msgspec.convert(value, hint)
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if value is None and NoneType in kinds:
        return None
    kinds = tuple(kind for kind in kinds if kind is not NoneType)
    if get_origin(kinds[0]) is np.ndarray:
        return _column(arrays, value, *(get_args(get_args(kind)[1])[0] for kind in kinds))
    return _object(kinds[0], value, arrays)


def _object(owner: type[Object], value: dict[str, Any], arrays: Sequence[NDArray[Any]], **more: Any) -> Object:
    """An object of a class by the values of its fields, those that are given apart from the others."""
    hints = _hints(cast("Any", owner))
    return owner(**{name: _made(hint, value[name], arrays) for name, hint in hints.items()}, **more)


def _column(arrays: Sequence[NDArray[Any]], number: int, *types: type[np.generic]) -> NDArray[Any]:
    """The array of a number, which must have one of some types."""
    if type(number) is not int or number < 1 or arrays[number].dtype not in types:
        raise ValueError("an array of another type")
    return arrays[number]


def _check(log: EventLog, pairs: Lifetimes, odd: OddFrees) -> None:
    """Refuse columns of several lengths, and numbers of what there is not.

    Raises:
        ValueError: There are such.
    """
    events = len(log)
    named: list[tuple[NDArray[Any], int, int]] = [
        (log.kind, 0, len(Kind)),
        (log.size, 0, 1 << 63),
        (pairs.partner, -1, events),
    ]
    named += [
        (column, -1, len(getattr(log, f"{name}_names")))
        for name in ("owner", "pool", "user_metadata")
        if (column := getattr(log, name)) is not None
    ]
    columns = [column for name in _hints(EventLog) if isinstance(column := getattr(log, name), np.ndarray)]
    if not events or any(column.shape != (events,) for column in (*columns, pairs.partner)):
        raise ValueError("columns of several lengths")
    named += [(column, 0, events) for column in (pairs.double_allocs, odd.unknown, odd.mismatched) if len(column)]
    if any(int(column.min()) < least or int(column.max()) >= end for column, least, end in named):
        raise ValueError("numbers of what there is not")
    if (known := log.condensed) is not None:
        columns = [known.number, known.level, *([known.allocated] if known.lives else [])]
        edges, parts = known.tally.edges, len(known.tally)
        rows = *known.tally.sums, *known.tally.largest, *known.tally.rise, known.tally.summit
        if any(column.shape != (events,) for column in columns) or any(row.shape != (parts,) for row in rows):
            raise ValueError("columns of several lengths")
        if edges.shape != (parts + 1,) or edges[0] != 0 or edges[-1] != events or (np.diff(edges) <= 0).any():
            raise ValueError("numbers of what there is not")
        near = known.near_cuts
        if near is not None and near.sizes.shape != (len(near.places), 2 * condensed.NEAR):
            raise ValueError("columns of several lengths")
    if len(odd.excess) != len(odd.mismatched) or not 0 <= log.facts.opening <= events:
        raise ValueError("columns of several lengths")
