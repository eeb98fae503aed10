"""The entries of one device's trace as columns, from the dicts and rows that the unpickler gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.facts import LineSample
from memlens.inputs.torch_snapshot.pickle_runs import EntryRuns, Rows, as_pool
from memlens.inputs.torch_snapshot.pickles import BadPickle, Gone
from memlens.inputs.torch_snapshot.texts import as_text, stage_and_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.inputs.torch_snapshot.stacks import Stacks

__all__ = ["MOST_BYTES", "Action", "Entries", "read_entries"]

#: Larger sizes are no sizes of GPU memory (128 TiB).
MOST_BYTES = 1 << 47
_SAMPLES = 5
_ADDRESSES = 1 << 64


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


_NUMBERS = ("size", "stream", "time_us")


def read_entries(trace: Sequence[Any], runs: EntryRuns, stacks: Stacks) -> Entries:
    """Make columns of a trace.

    Args:
        trace: Dicts, and :class:`~memlens.inputs.torch_snapshot.pickle_runs.Rows` that stand for several.
        runs: Knows the texts that the rows speak of.
        stacks: Numbers the lists of frames.

    Raises:
        BadPickle: An entry is in the trace twice.
    """
    reader = _Reader(runs, stacks)
    for item in trace:
        if type(item) is Rows:
            reader.add_rows(item)
        elif item is Gone or type(item) is dict:
            reader.add(item)
        else:
            reader.add_bad("not a dict")
    return reader.finish()


class _Reader:
    def __init__(self, runs: EntryRuns, stacks: Stacks) -> None:
        self._runs = runs
        self._stacks = stacks
        self._parts: dict[str, list[NDArray[Any]]] = {name: [] for name in _TYPES}
        self._pending: list[tuple[int, ...]] = []
        self._seen: set[int] = set()
        self._count = 0
        self._bad: dict[int, str] = {}
        self._bad_count = 0
        self._device_free: dict[int, int] = {}
        self._user_defined: dict[int, str] = {}
        self._known_metadata: dict[int, int] = {}

    def add(self, entry: Any) -> None:
        """Take one entry that the machine read by itself."""
        if entry is Gone or id(entry) in self._seen:
            raise BadPickle("an entry stands in a trace more than once", hostile=True)
        self._seen.add(id(entry))
        action = entry.get("action")
        kind = _ACTIONS.get(action, Action.OTHER) if type(action) is str else Action.BAD
        addr, size = entry.get("addr", 0), entry.get("size", 0)
        if kind == Action.BAD:
            self.add_bad("no action")
        elif not _is_count(addr, _ADDRESSES) or (_SIZED[kind] and "addr" not in entry):
            self.add_bad("no address")
        elif not _is_count(size, MOST_BYTES + 1) or (_SIZED[kind] and "size" not in entry):
            self.add_bad("no size, or none that can be")
        else:
            if kind == Action.OOM and _is_count(entry.get("device_free"), MOST_BYTES + 1):
                self._device_free[self._count] = entry["device_free"]
            frames, pool = entry.get("frames"), as_pool(entry.get("pool_id"))
            stream, time = entry.get("stream"), entry.get("time_us")
            stack = self._stacks.number(frames) if type(frames) in (list, tuple) else -1
            metadata = self._metadata_number(entry.get("user_metadata"))
            if kind == Action.USER_DEFINED:
                self._mark(self._count, entry, stack, metadata)
            self._pending.append(
                (
                    int(kind),
                    addr,
                    size,
                    stream if _is_count(stream, 1 << 63) else -1,
                    time if _is_count(time, 1 << 62) else -1,
                    stack,
                    metadata,
                    -1 if pool is None else self._runs.pools.number(pool),
                )
            )
            self._count += 1

    def _metadata_number(self, metadata: Any) -> int:
        """The number of metadata among the texts; -1 for none."""
        if not metadata or type(metadata) is str:
            return self._runs.texts.number(metadata) if type(metadata) is str and metadata else -1
        number = self._known_metadata.get(id(metadata))  # the trace holds it, so no other object gets its id
        if number is None:
            text = as_text(metadata)
            number = self._known_metadata[id(metadata)] = self._runs.texts.number(text) if text else -1
        return number

    def _mark(self, index: int, entry: dict[str, Any], stack: int, metadata: int) -> None:
        """Note what a ``user_defined`` entry marks.

        torch wrote such entries in 2024: their only frame has the name as its file and the stage as its function.
        """
        noted = entry.get("user_metadata")
        noted = noted if type(noted) is dict else {}
        file, _, function = self._stacks.frames[self._stacks.stacks[stack][0]] if stack >= 0 else ("", 0, "")
        self._user_defined[index] = stage_and_name(
            (entry.get("stage"), entry.get("name")),
            (noted.get("stage"), noted.get("name")),
            (function, file),
            (file, function),
        ) or (self._runs.texts.values[metadata] if metadata >= 0 else "")

    def add_bad(self, why: str) -> None:
        """Count an entry that cannot be read."""
        self._pending.append(_BLANK)
        self._note_bad(self._count, why)
        self._count += 1

    def _note_bad(self, index: int, why: str) -> None:
        self._bad_count += 1
        if len(self._bad) < _SAMPLES:
            self._bad[index] = why

    def add_rows(self, rows: Rows) -> None:
        """Take entries that were read as columns."""
        self._flush()
        action = self._actions(rows)
        nothing = np.full(rows.count, -1, np.int64)
        addr, size = (rows.numbers.get(name, nothing) for name in ("addr", "size"))
        sized = _SIZED[action]
        bad = (action == Action.BAD) | (sized & ((addr < 0) | (size < 0))) | (size > MOST_BYTES)
        bad |= (addr < 0) & ("addr" in rows.numbers) | (size < 0) & ("size" in rows.numbers)
        for index in np.flatnonzero(bad).tolist():
            self._note_bad(self._count + index, "no address or size that can be")
        stream, time = (rows.numbers.get(name, nothing) for name in ("stream", "time_us"))
        for index in np.flatnonzero((action == Action.OOM) & ~bad).tolist():
            free = int(rows.numbers.get("device_free", nothing)[index])
            if 0 <= free <= MOST_BYTES:
                self._device_free[self._count + index] = free
        stack, metadata = nothing if rows.stack is None else rows.stack, self._metadata(rows)
        texts = self._runs.texts.values
        for index in np.flatnonzero((action == Action.USER_DEFINED) & ~bad).tolist():
            named: dict[str, Any] = {
                name: texts[rows.texts[name][index]] for name in ("stage", "name") if name in rows.texts
            }
            self._mark(self._count + index, named, int(stack[index]), int(metadata[index]))
        columns = (
            action,
            np.maximum(addr, 0),
            np.maximum(size, 0),
            np.maximum(stream, -1),
            np.where(time < 1 << 62, np.maximum(time, -1), -1),
            stack,
            metadata,
            nothing if rows.pool is None else rows.pool,
        )
        self._extend([np.where(bad, blank, column) for blank, column in zip(_BLANK, columns, strict=True)])
        self._count += rows.count

    def _actions(self, rows: Rows) -> NDArray[np.int8]:
        texts = rows.texts.get("action")
        if texts is None:
            return np.full(rows.count, Action.BAD, np.int8)
        distinct, which = np.unique(texts, return_inverse=True)
        codes = [_ACTIONS.get(self._runs.texts.values[number], Action.OTHER) for number in distinct.tolist()]
        actions: NDArray[np.int8] = np.array(codes, np.int8)[which]
        return actions

    def _metadata(self, rows: Rows) -> NDArray[np.int32]:
        texts = rows.texts.get("user_metadata")
        if texts is None:
            return np.full(rows.count, -1, np.int32)
        return np.where(texts == self._runs.texts.number(""), -1, texts).astype(np.int32)

    def _flush(self) -> None:
        if self._pending:
            columns = zip(*self._pending, strict=True)
            # Addresses may have all 64 bits.
            self._extend([np.array(column, kind) for column, kind in zip(columns, _TYPES.values(), strict=True)])
            self._pending = []

    def _extend(self, columns: Sequence[NDArray[Any]]) -> None:
        for (name, kind), column in zip(_TYPES.items(), columns, strict=True):
            self._parts[name].append(column.astype(kind, copy=False))

    def finish(self) -> Entries:
        """All entries that were taken."""
        self._flush()
        columns = {name: np.concatenate([np.zeros(0, kind), *self._parts[name]]) for name, kind in _TYPES.items()}
        samples = tuple(LineSample(index, index + 1, f"entry {index}: {why}") for index, why in self._bad.items())
        return Entries(
            **columns,
            device_free=self._device_free,
            user_defined=self._user_defined,
            malformed=self._bad_count,
            samples=samples,
        )


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


def _is_count(value: Any, below: int) -> bool:
    return type(value) is int and 0 <= value < below
