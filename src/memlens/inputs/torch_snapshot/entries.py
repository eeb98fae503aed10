"""The entries of one device's trace as columns, from the dicts and rows that the unpickler gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.facts import LineSample
from memlens.inputs.torch_snapshot.entry_runs import Rows
from memlens.inputs.torch_snapshot.instructions import BadPickle
from memlens.inputs.torch_snapshot.pickles import Gone
from memlens.inputs.torch_snapshot.values import ADDRESSES, MOST_BYTES, is_count, stage_and_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.inputs.torch_snapshot.stacks import Tables

__all__ = ["Action", "Entries", "read_entries"]

_SAMPLES = 5
_MOST_TIME = 1 << 62


class Action(IntEnum):
    """What a trace entry tells of; the names are torch's own."""

    ALLOC = 0
    FREE_REQUESTED = 1
    FREE_COMPLETED = 2
    SEGMENT_ALLOC = 3
    SEGMENT_FREE = 4
    SEGMENT_MAP = 5
    SEGMENT_UNMAP = 6
    SNAPSHOT = 7
    OOM = 8
    USER_DEFINED = 9
    #: Another action, of a later torch perhaps; it is no event here.
    OTHER = 10
    #: The entry cannot be read.
    BAD = 11


_ACTIONS = {action.name.lower(): action for action in Action if action < Action.OTHER}
#: Actions whose entries need an address and a size to mean anything.
_SIZED = np.array([action <= Action.SEGMENT_UNMAP for action in Action])


@dataclass(frozen=True, eq=False)
class Entries:
    """The entries of a trace, one NumPy entry each, in the order of the trace.

    Attributes:
        action: :class:`Action`, int8.
        addr: Address, uint64; 0 where there is none.
        size: Bytes, int64.
        stream: Stream, int64, -1 where unknown.
        time_us: Microseconds since 1970, int64, -1 where unknown.
        stack: Number of the call stack, int32, -1 where there is none.
        metadata: Number of the user's metadata among the texts, int32, -1 where there is none.
        pool: Number of the memory pool, int32, -1 where the entry names none.
        device_free: Bytes left on the device, by index, of ``oom`` entries.
        user_defined: What ``user_defined`` entries mark, by index; ``""`` where that cannot be read.
        malformed: How many cannot be read.
        samples: The first few of them.
    """

    action: NDArray[np.int8]
    addr: NDArray[np.uint64]
    size: NDArray[np.int64]
    stream: NDArray[np.int64]
    time_us: NDArray[np.int64]
    stack: NDArray[np.int32]
    metadata: NDArray[np.int32]
    pool: NDArray[np.int32]
    device_free: dict[int, int] = field(default_factory=dict)
    user_defined: dict[int, str] = field(default_factory=dict)
    malformed: int = 0
    samples: tuple[LineSample, ...] = ()

    def __len__(self) -> int:
        return len(self.action)


#: The columns of an entry that cannot be read.
_BLANK = (int(Action.BAD), 0, 0, -1, -1, -1, -1, -1)
_TYPES: dict[str, type] = {
    "action": np.int8,
    "addr": np.uint64,
    "size": np.int64,
    "stream": np.int64,
    "time_us": np.int64,
    "stack": np.int32,
    "metadata": np.int32,
    "pool": np.int32,
}


def read_entries(trace: Sequence[Any], objects: Sequence[Any], tables: Tables) -> Entries:
    """Make columns of a trace.

    Args:
        trace: Dicts, and :class:`~memlens.inputs.torch_snapshot.entry_runs.Rows` that stand for several.
        objects: The values that the rows speak of.
        tables: Numbers stacks, texts and pools.

    Raises:
        BadPickle: An entry is in the trace twice.
    """
    reader = _Reader(objects, tables)
    for item in trace:
        if type(item) is Rows:
            reader.add_rows(item)
        elif item is Gone or type(item) is dict:
            reader.add(item)
        else:
            reader.add_bad("not a dict")
    return reader.finish()


class _Reader:
    """Takes entries one by one, or many at once: :meth:`add` is the reference implementation of :meth:`add_rows`."""

    def __init__(self, objects: Sequence[Any], tables: Tables) -> None:
        self._objects, self._tables = objects, tables
        self._parts: list[list[NDArray[Any]]] = [[np.zeros(0, kind)] for kind in _TYPES.values()]
        self._pending: list[tuple[int, ...]] = []
        self._seen: set[int] = set()
        self._count = 0
        self._bad: list[tuple[int, str]] = []
        self._bad_count = 0
        self._device_free: dict[int, int] = {}
        self._user_defined: dict[int, str] = {}

    def add(self, entry: Any) -> None:
        """Take one entry that the machine read by itself."""
        if entry is Gone or id(entry) in self._seen:
            raise BadPickle("an entry stands in a trace more than once", hostile=True)
        self._seen.add(id(entry))
        action = _action_of(entry.get("action"))
        addr, size = entry.get("addr", 0), entry.get("size", 0)
        if action == Action.BAD:
            self.add_bad("no action")
        elif not is_count(addr, ADDRESSES) or (_SIZED[action] and "addr" not in entry):
            self.add_bad("no address")
        elif not is_count(size, MOST_BYTES + 1) or (_SIZED[action] and "size" not in entry):
            self.add_bad("no size, or none that can be")
        else:
            stream, time = entry.get("stream"), entry.get("time_us")
            stack = self._tables.stack(entry.get("frames"))
            metadata = self._tables.metadata(entry.get("user_metadata"))
            stream = stream if is_count(stream, 1 << 63) else -1
            time = time if is_count(time, _MOST_TIME) else -1
            pool = self._tables.pool(entry.get("pool_id"))
            self._pending.append((action, addr, size, stream, time, stack, metadata, pool))
            self._note(action, entry, stack, metadata)
            self._count += 1

    def _note(self, action: int, entry: dict[str, Any], stack: int, metadata: int) -> None:
        """Note what the next entry says beside its columns.

        torch wrote ``user_defined`` entries in 2024: their only frame has the name of an annotation as its file and the stage as its function.
        """
        if action == Action.OOM and is_count(entry.get("device_free"), MOST_BYTES + 1):
            self._device_free[self._count] = entry["device_free"]
        elif action == Action.USER_DEFINED:
            noted = entry.get("user_metadata")
            noted = noted if type(noted) is dict else {}
            file, _, function = self._tables.stacks.innermost(stack)
            self._user_defined[self._count] = stage_and_name(
                (entry.get("stage"), entry.get("name")),
                (noted.get("stage"), noted.get("name")),
                (function, file),
                (file, function),
            ) or (self._tables.texts.values[metadata] if metadata >= 0 else "")

    def add_bad(self, why: str) -> None:
        """Count an entry that cannot be read."""
        self._pending.append(_BLANK)
        self._note_bad(self._count, why)
        self._count += 1

    def _note_bad(self, index: int, why: str) -> None:
        self._bad_count += 1
        if len(self._bad) < _SAMPLES:
            self._bad.append((index, why))

    def add_rows(self, rows: Rows) -> None:
        """Take entries that were read as columns."""
        self._flush()
        nothing = np.full(rows.entries, -1, np.int64)
        addr, size, stream, time = (rows.numbers.get(name, nothing) for name in ("addr", "size", "stream", "time_us"))
        action = self._each(rows, "action", _action_of)
        stack = self._each(rows, "frames", self._tables.stack)
        metadata = self._each(rows, "user_metadata", self._tables.metadata)
        sized, known = _SIZED[action], rows.numbers.keys() | rows.objects.keys()
        bad = (action == Action.BAD) | (size > MOST_BYTES)
        bad |= ((addr < 0) & (sized | ("addr" in known))) | ((size < 0) & (sized | ("size" in known)))
        first = self._count
        for index in np.flatnonzero(bad | (action == Action.OOM) | (action == Action.USER_DEFINED)).tolist():
            self._count = first + index
            if bad[index]:
                self._note_bad(self._count, "no address or size that can be")
            else:
                entry = {name: int(column[index]) for name, column in rows.numbers.items()}
                entry |= {name: self._objects[column[index]] for name, column in rows.objects.items()}
                self._note(int(action[index]), entry, int(stack[index]), int(metadata[index]))
        self._count = first + rows.entries
        columns = (
            action,
            np.maximum(addr, 0),
            np.maximum(size, 0),
            np.maximum(stream, -1),
            np.where(time < _MOST_TIME, np.maximum(time, -1), -1),
            stack,
            metadata,
            self._each(rows, "pool_id", self._tables.pool),
        )
        self._extend([np.where(bad, blank, column) for blank, column in zip(_BLANK, columns, strict=True)])

    def _each(self, rows: Rows, name: str, number_of: Callable[[Any], int]) -> NDArray[np.int64]:
        """The numbers of the values of one key."""
        if name in rows.objects:
            distinct, which = np.unique(rows.objects[name], return_inverse=True)
            values = [self._objects[number] for number in distinct.tolist()]
        else:
            distinct, which = np.unique(rows.numbers.get(name, np.zeros(rows.entries, np.int64)), return_inverse=True)
            values = distinct.tolist() if name in rows.numbers else [None]
        numbers: NDArray[np.int64] = np.array([number_of(value) for value in values], np.int64)[which]
        return numbers

    def _flush(self) -> None:
        if self._pending:
            # Addresses may have all 64 bits.
            columns = zip(zip(*self._pending, strict=True), _TYPES.values(), strict=True)
            self._extend([np.array(column, kind) for column, kind in columns])
            self._pending = []

    def _extend(self, columns: Sequence[NDArray[Any]]) -> None:
        for parts, column in zip(self._parts, columns, strict=True):
            parts.append(column.astype(parts[0].dtype, copy=False))

    def finish(self) -> Entries:
        """All entries that were taken."""
        self._flush()
        columns: dict[str, Any] = dict(zip(_TYPES, map(np.concatenate, self._parts), strict=True))
        return Entries(
            **columns,
            device_free=self._device_free,
            user_defined=self._user_defined,
            malformed=self._bad_count,
            samples=tuple(LineSample(index, index + 1, f"entry {index}: {why}") for index, why in self._bad),
        )


def _action_of(value: Any) -> int:
    return int(_ACTIONS.get(value, Action.OTHER)) if type(value) is str else int(Action.BAD)
