"""The entries of one device's trace as columns, from the dicts and rows that the unpickler gives, and the marks among them.

Every mark reads ``START name`` or ``END name``, ``SNAPSHOT`` or ``OUT OF MEMORY``; only entries that users wrote may have another text.

* An *annotation* has a time, and entries have one.  Its START stands before the first entry that is not earlier than it, its END before
  the first entry that is later.  Times of entries that step back count as the latest one so far.  Annotations that ended before the first entry are left
  out: they mark nothing that was recorded.
* *Metadata* stands with each entry.  Where it changes, what it was ENDs and what it becomes STARTs, before that entry; only entries of blocks and
  segments are looked at.
* A ``user_defined`` entry, as torch wrote them for annotations in 2024, is the mark itself, and so is an ``annotation`` of Paddle's.
* An earlier snapshot and an allocation that failed are marked before their entry.
"""

from __future__ import annotations

from array import array
from enum import IntEnum
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec import Struct

from memlens.columns import distinct
from memlens.facts import LineSample, Mark
from memlens.inputs.holders import is_count
from memlens.inputs.torch_snapshot.entry_runs import Rows
from memlens.inputs.torch_snapshot.pickles import BadPickle, Gone
from memlens.inputs.torch_snapshot.stacks import LONGEST_TEXT, MOST_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from memlens.columns import Ints
    from memlens.inputs.torch_snapshot.stacks import Tables


_SAMPLES = 5
_UNKNOWN = -2
_MOST_TIME = 1 << 62
_STAGES = ("START", "END")


class Action(IntEnum):
    """The actions of trace entries, by the names of torch and Paddle."""

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
_ACTIONS["annotation"] = Action.USER_DEFINED
#: Actions whose entries need an address and a size to mean anything.
_SIZED = np.array([action <= Action.SEGMENT_UNMAP for action in Action])


class Entries(Struct, frozen=True, eq=False):
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
        samples: The first few that cannot be read.
    """

    action: NDArray[np.int8]
    addr: NDArray[np.uint64]
    size: NDArray[np.int64]
    stream: NDArray[np.int64]
    time_us: NDArray[np.int64]
    stack: NDArray[np.int32]
    metadata: NDArray[np.int32]
    pool: NDArray[np.int32]
    device_free: dict[int, int]
    user_defined: dict[int, str]
    samples: tuple[LineSample, ...]

    def __len__(self) -> int:
        return len(self.action)

    @property
    def malformed(self) -> int:
        """How many cannot be read."""
        return int((self.action == Action.BAD).sum())


#: The columns of an entry that cannot be read, and their types.
_BLANK = (int(Action.BAD), 0, 0, -1, -1, -1, -1, -1)
_TYPES = (np.int8, np.uint64, np.int64, np.int64, np.int64, np.int32, np.int32, np.int32)


#: What is read of an entry: numbers, and other values.
_NUMBERS = ("addr", "size", "stream", "time_us", "device_free")
_OBJECTS = ("action", "frames", "op_name", "user_metadata", "pool_id")


def read_entries(trace: Sequence[Any], objects: Sequence[Any], tables: Tables) -> Entries:
    """Make columns of a trace.

    Args:
        trace: Dicts, and :class:`~memlens.inputs.torch_snapshot.entry_runs.Rows` that stand for several.
        objects: The values that the rows speak of.
        tables: Numbers stacks, texts and pools.

    Raises:
        BadPickle: An entry is in the trace twice.
    """
    tables.refuse(trace)
    reader = _Reader(tables)
    for kind, items in groupby(trace, type):
        if kind is Rows:
            for rows in items:
                reader.add(rows.entries, rows.numbers, rows.objects, objects)
        else:
            reader.add_singly(list(items))
    return reader.finish()


class _Reader:
    """Takes entries, many at once."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        # Arrays of the standard library, which grow by many entries.
        self._columns: list[array[int]] = [array(np.dtype(kind).char) for kind in _TYPES]
        self._seen: set[int] = set()  # by their ids
        self._singly = 0
        # Values that were numbered, and the numbers of each key's.
        self._values: Sequence[Any] = ()
        self._known: dict[str, Ints] = {}
        self._samples: list[LineSample] = []
        self._device_free: dict[int, int] = {}
        self._user_defined: dict[int, str] = {}

    def add_singly(self, entries: list[Any]) -> None:
        """Take entries that the machine read by itself, as columns; what is no dict is no entry.

        Raises:
            BadPickle: One of them was there before.
        """
        self._seen.update(ids := [id(entry) for entry in entries if type(entry) is dict])
        self._singly += len(ids)
        if Gone in entries or len(self._seen) < self._singly:
            raise BadPickle("an entry stands in a trace more than once", hostile=True)
        dicts = [entry if type(entry) is dict else {} for entry in entries]
        numbers = {
            name: np.array([of if is_count(of := entry.get(name), 1 << 63) else -1 for entry in dicts], np.int64)
            for name in _NUMBERS
        }
        index = np.arange(len(dicts) * len(_OBJECTS), dtype=np.int32).reshape(len(_OBJECTS), -1)
        values = [entry.get(name) for name in _OBJECTS for entry in dicts]
        self.add(len(dicts), numbers, dict(zip(_OBJECTS, index, strict=True)), values)

    def _note(self, index: int, action: int, entry: dict[str, Any]) -> None:
        """Note what an entry says beside its columns.

        torch wrote ``user_defined`` entries in 2024: their only frame has the name of an annotation as its file and the stage as its function.  In
        Paddle's the text stands where others have the operator.
        """
        if action == Action.OOM and is_count(entry.get("device_free"), MOST_BYTES + 1):
            self._device_free[index] = entry["device_free"]
        elif action == Action.USER_DEFINED:
            file, _, function = self._tables.innermost(self._tables.stack(entry.get("frames")))
            metadata = self._tables.metadata(entry.get("user_metadata"))
            noted = self._tables.texts.values[metadata] if metadata >= 0 else ""
            if type(text := entry.get("op_name")) is str:
                noted = text
            self._user_defined[index] = f"{function} {file[:LONGEST_TEXT]}" if function in _STAGES and file else noted

    def add(
        self, count: int, numbers: dict[str, Ints], objects: dict[str, NDArray[np.int32]], values: Sequence[Any]
    ) -> None:
        """Take entries as columns; see :class:`~memlens.inputs.torch_snapshot.entry_runs.Rows`."""
        if self._values is not values:
            self._values, self._known = values, {}

        def each(name: str, number_of: Callable[[Any], int]) -> Ints:
            if name not in objects:
                return np.full(count, number_of(None), np.int64)
            if name not in self._known:
                self._known[name] = np.full(len(values), _UNKNOWN)
            column, known = objects[name], self._known[name]
            for number in distinct(column[known[column] == _UNKNOWN]).tolist():
                known[number] = number_of(values[number])
            return known[column]

        nothing = np.full(count, -1, np.int64)
        addr, size, stream, time = (numbers.get(name, nothing) for name in _NUMBERS[:4])
        action = each("action", _action_of)
        bad = (action == Action.BAD) | (size > MOST_BYTES) | (_SIZED[action] & ((addr < 0) | (size < 0)))
        stack, operator = each("frames", self._tables.stack), each("op_name", self._tables.operator)
        if (operator >= 0).any():
            many = int(operator.max()) + 2
            pairs, which = np.unique((stack + 1) * many + operator + 1, return_inverse=True)
            called = [self._tables.called(pair // many - 1, pair % many - 1) for pair in pairs.tolist()]
            stack = np.array(called, np.int64)[which]
        columns = (
            action,
            np.maximum(addr, 0),
            np.maximum(size, 0),
            np.maximum(stream, -1),
            np.where(time < _MOST_TIME, np.maximum(time, -1), -1),
            stack,
            each("user_metadata", self._tables.metadata),
            each("pool_id", self._tables.pool),
        )
        start, some_bad = len(self._columns[0]), bad.any()
        for index in np.flatnonzero(bad)[: _SAMPLES - len(self._samples)].tolist():
            text = f"entry {start + index}: no action, or no address or size that can be"
            self._samples.append(LineSample(start + index, start + index + 1, text))
        for index in np.flatnonzero(~bad & ((action == Action.OOM) | (action == Action.USER_DEFINED))).tolist():
            entry = {name: int(column[index]) for name, column in numbers.items()}
            entry |= {name: values[column[index]] for name, column in objects.items()}
            self._note(start + index, int(action[index]), entry)
        for own, column, blank, kind in zip(self._columns, columns, _BLANK, _TYPES, strict=True):
            filled = np.where(bad, blank, column) if some_bad else column
            own.frombytes(filled.astype(kind, copy=False).view(np.uint8).data)

    def finish(self) -> Entries:
        """All entries that were taken."""
        columns: Any = [np.frombuffer(column, kind) for column, kind in zip(self._columns, _TYPES, strict=True)]
        columns += [self._device_free, self._user_defined, tuple(self._samples)]
        return Entries(*columns)


def _action_of(value: Any) -> int:
    return int(_ACTIONS.get(value, Action.OTHER)) if type(value) is str else int(Action.BAD)


class Annotation(NamedTuple):
    """An annotation of the user's program: START or END, a name, and for which device (-1 for every one)."""

    time: int
    stage: str
    name: str
    device: int


def read_annotations(annotations: Any) -> tuple[list[Annotation], int]:
    """The annotations of a snapshot by time, and how many cannot be read."""
    if type(annotations) is not list:
        return [], int(annotations is not None)
    found = []
    for annotation in annotations:
        if type(annotation) is not dict:
            continue
        stage, name, time = (annotation.get(key) for key in ("stage", "name", "time_us"))
        device = annotation.get("device", -1)
        if stage in _STAGES and type(name) is str and is_count(time, _MOST_TIME):
            device = device if type(device) is int and device >= 0 else -1
            found.append(Annotation(time, stage, name[:LONGEST_TEXT], device))
    found.sort(key=lambda annotation: annotation.time)
    return found, len(annotations) - len(found)


def marks_of(
    entries: Entries, annotations: Sequence[Annotation], device: int, texts: Sequence[str]
) -> tuple[tuple[Mark, ...], bool]:
    """The marks of one device, in order, and whether its annotations could be placed.

    Args:
        entries: The device's trace.
        annotations: All annotations, by time.
        device: The device's number.
        texts: The texts that metadata are numbers of.
    """
    own = [annotation for annotation in annotations if annotation.device in (-1, device)]
    timed = bool((entries.time_us >= 0).any())
    found = [*_from_entries(entries, texts), *(_from_annotations(entries.time_us, own) if timed else ())]
    found.sort(key=lambda mark: mark[0])
    return tuple(Mark(offset, offset + 1, text) for offset, text in found), timed or not own


def _from_entries(entries: Entries, texts: Sequence[str]) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    events = np.flatnonzero(entries.action <= Action.SEGMENT_UNMAP)
    metadata = np.append(np.int32(-1), entries.metadata[events])
    for change in np.flatnonzero(metadata[1:] != metadata[:-1]).tolist():
        for stage, number in (("END", metadata[change]), ("START", metadata[change + 1])):
            if number >= 0:
                found.append((int(events[change]), f"{stage} {texts[number][:LONGEST_TEXT]}"))
    found += [(index, text[:LONGEST_TEXT]) for index, text in entries.user_defined.items() if text]
    for action, text in ((Action.SNAPSHOT, "SNAPSHOT"), (Action.OOM, "OUT OF MEMORY")):
        found += [(index, text) for index in np.flatnonzero(entries.action == action).tolist()]
    return found


def _from_annotations(time_us: NDArray[np.int64], annotations: Sequence[Annotation]) -> list[tuple[int, str]]:
    so_far = np.maximum.accumulate(time_us)
    return [
        (int(so_far.searchsorted(time, "left" if stage == "START" else "right")), f"{stage} {name}")
        for time, stage, name, _ in _recorded(annotations, int(time_us[time_us >= 0][0]))
    ]


def _recorded(annotations: Sequence[Annotation], first: int) -> list[Annotation]:
    """The annotations without those that began and ended before a time."""
    early = [annotation for annotation in annotations if annotation.time < first]
    open_by_name: dict[str, list[Annotation]] = {}
    for annotation in early:
        began = open_by_name.setdefault(annotation.name, [])
        if annotation.stage == "START":
            began.append(annotation)
        elif began:
            began.pop()
    still_open = sorted(chain(*open_by_name.values()), key=lambda annotation: annotation.time)
    return [*still_open, *annotations[len(early) :]]
