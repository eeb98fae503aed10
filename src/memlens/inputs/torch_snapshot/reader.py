"""Reads PyTorch memory snapshots: what ``torch.cuda.memory._dump_snapshot`` writes, from 2023 on.

A snapshot is a pickle; it is read as data and never executed (:mod:`memlens.inputs.torch_snapshot.pickles`).  Each device becomes an
:class:`~memlens.events.EventLog` of its own.  An event's ``line`` is the 1-based number of its entry in the device's trace, its ``offset`` the 0-based index.
Sizes are what tensors asked for; torch's own ``memory_allocated()`` rounds each block up to 512 bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from memlens.errors import InputError, NoEventsError
from memlens.events import EventLog
from memlens.facts import Facts, Figure, OutOfMemory
from memlens.inputs.streams import ByteStream, open_bytes
from memlens.inputs.torch_snapshot.entries import Action, Entries, read_entries
from memlens.inputs.torch_snapshot.marks import Annotation, marks_of, read_annotations
from memlens.inputs.torch_snapshot.pickle_runs import EntryRuns
from memlens.inputs.torch_snapshot.pickles import BadPickle, load
from memlens.inputs.torch_snapshot.pools import pools_of
from memlens.inputs.torch_snapshot.replay import DeviceEvents, events_of
from memlens.inputs.torch_snapshot.segments import MOST_DEVICES, Final, read_segments
from memlens.inputs.torch_snapshot.stacks import Stacks
from memlens.inputs.torch_snapshot.texts import LONGEST_TEXT
from memlens.windows.patterns import Matcher

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.windows.patterns import Pattern

__all__ = ["LAYER", "SnapshotSource", "looks_like", "read_snapshot", "read_stream"]

#: What :attr:`Facts.layer` says.
LAYER = "torch_snapshot"
#: Bytes of which every block of torch's allocator occupies a multiple.
BLOCK_GRANULARITY = 512

_RECORD = (
    "Record with torch.cuda.memory._record_memory_history() before the first tensor is made, and write with"
    " torch.cuda.memory._dump_snapshot(path) while it is on."
)
_DAMAGED = "Copy the file again, or write it again with torch.cuda.memory._dump_snapshot(path)."
_HOSTILE = (
    "torch writes no such file: do not load it with anything else, and ask who gave it to you where it comes from."
)


class SnapshotSource:
    """A snapshot as a source: it has no lines of text, but knows the whole call stack of each entry.

    Args:
        name: The path as the user gave it.
        stacks: All call stacks.
        stack: Number of the stack of each entry of the device, int32.
    """

    def __init__(self, name: str, stacks: Stacks, stack: NDArray[np.int32]) -> None:
        self._name = name
        self._stacks = stacks
        self._stack = stack

    @property
    def name(self) -> str:
        return self._name

    @property
    def rereadable(self) -> bool:
        return False

    def blocks(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:  # noqa: ARG002 - there are none
        raise InputError(
            f"{self._name}: a memory snapshot has no lines of text", "Anchors are looked for among its marks."
        )

    def line_numbers(self, offsets: Sequence[int]) -> list[int | None]:
        return [offset + 1 if 0 <= offset < len(self._stack) else None for offset in offsets]

    def lines(self, offsets: Sequence[int]) -> list[bytes | None]:
        return [None] * len(offsets)

    def parts(self, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        return [b""] * len(spans)

    def stack(self, offset: int) -> tuple[str, ...]:
        """The whole call stack of an entry, innermost first, as ``file:line function``; empty where it has none.

        Args:
            offset: As :attr:`EventLog.offset` gives it.
        """
        if not 0 <= offset < len(self._stack) or self._stack[offset] < 0:
            return ()
        return self._stacks.whole(int(self._stack[offset]))


def looks_like(head: bytes) -> bool:
    """Whether an input that begins so is a pickle of protocol 2 or later; no log of text begins so."""
    return len(head) >= 3 and head[0] == 0x80 and 2 <= head[1] <= 5 and head[2] in _FIRST


#: What may follow the protocol: FRAME, a dict, a list, or, of other pickles, what is refused with a reason.
_FIRST = frozenset(b"\x95}](c\x8c\x8d\x93")


def read_snapshot(
    where: str | Path | BinaryIO,
    *,
    patterns: Sequence[Pattern] = (),
    strict: bool = False,
    progress: Callable[[int], None] | None = None,
) -> list[EventLog]:
    """Read a memory snapshot.

    Args:
        where: A path, ``-`` for standard input, or an open binary file.  Compressed input is known by its content.
        patterns: Anchors; looked for among the marks whenever they are asked for, here only seen to be right.
        strict: Of no effect: a snapshot that is cut short cannot be read at all.
        progress: Called now and then with the bytes consumed of the input as it lies on disk.

    Returns:
        A log for each device that has an event or a segment, by device number.

    Raises:
        InputError: It cannot be read, is no snapshot, or is more than data.
        NoEventsError: It holds neither an event nor a segment.
        UsageError: A pattern that is no regular expression.
    """
    name = "<stdin>" if str(where) == "-" else str(where if isinstance(where, (str, Path)) else _name_of(where))
    with open_bytes(where) as stream:
        return read_stream(stream, name, patterns=patterns, strict=strict, progress=progress)


def _name_of(stream: BinaryIO) -> str:
    return str(getattr(stream, "name", "<stream>"))


def read_stream(
    stream: ByteStream,
    name: str,
    *,
    patterns: Sequence[Pattern] = (),
    strict: bool = False,  # noqa: ARG001 - every reader takes it
    progress: Callable[[int], None] | None = None,
) -> list[EventLog]:
    """The same for an input that is open: from its first byte on, called ``name`` in reports."""
    for pattern in patterns:
        Matcher(pattern)
    stacks = Stacks()
    runs = EntryRuns(stacks)

    def read(size: int) -> bytes:
        data = stream.read(size) or b""
        if progress is not None:
            progress(stream.consumed)
        return data

    try:
        return _logs(load(read, runs), name, runs, stacks)
    except BadPickle as bad:
        if bad.hostile:
            raise InputError(f"{name}: not read: {bad.reason}", _HOSTILE) from None
        why = f"{bad.reason} ({stream.problem})" if stream.problem else bad.reason
        raise InputError(f"{name}: is no memory snapshot that can be read: {why}", bad.hint or _DAMAGED) from None


def _logs(snapshot: Any, name: str, runs: EntryRuns, stacks: Stacks) -> list[EventLog]:
    """The logs of a snapshot as it was unpickled.

    Raises:
        BadPickle: It has another shape.
        NoEventsError: It is empty.
    """
    if type(snapshot) is list and snapshot and all(type(part) is dict and "blocks" in part for part in snapshot):
        snapshot = {"segments": snapshot}  # torch's own tools take the list of segments alone, too
    if type(snapshot) is not dict or not {"segments", "device_traces"} & snapshot.keys():
        raise BadPickle("it is a pickle of something else, without segments and device_traces", hint=_RECORD)
    finals = read_segments(snapshot.get("segments", []), stacks, runs.pools)
    traces = snapshot.get("device_traces", [])
    if type(traces) is not list or len(traces) > MOST_DEVICES or any(type(trace) is not list for trace in traces):
        raise BadPickle("its device_traces are no list of a list for each device")
    if len({id(trace) for trace in traces if trace}) < sum(map(bool, traces)):
        raise BadPickle("a trace stands in it more than once", hostile=True)
    annotations, unread = read_annotations(snapshot.get("external_annotations"))
    nothing = read_segments([{"device": 0, "address": 0, "total_size": 0}], stacks, runs.pools)[0]
    entries = {device: read_entries(trace, runs, stacks) for device, trace in enumerate(traces)}
    snapshot.clear()
    stacks.forget_objects()
    devices = sorted({*finals, *(device for device, own in entries.items() if len(own))})
    devices = [device for device in devices if len(entries.get(device, ())) or _holds(finals[device])]
    if not devices:
        raise NoEventsError(f"{name}: the snapshot is empty: no trace entries and no segments", _RECORD)
    no_entries = read_entries([], runs, stacks)
    logs = [
        _log(
            name,
            device,
            entries.get(device, no_entries),
            finals.get(device, nothing),
            (annotations, unread),
            runs,
            stacks,
        )
        for device in devices
    ]
    if not any(map(len, logs)):
        counted = sum(map(len, entries.values()))
        among = "1 entry" if counted == 1 else f"{counted:,} entries"
        raise NoEventsError(f"{name}: no event among {among}, and no segments", _RECORD)
    return logs


def _holds(final: Final) -> bool:
    return bool(len(final.segment_size) or len(final.size) or final.malformed)


def _log(
    name: str,
    device: int,
    entries: Entries,
    final: Final,
    annotations: tuple[list[Annotation], int],
    runs: EntryRuns,
    stacks: Stacks,
) -> EventLog:
    events = events_of(entries, final)
    owner, owner_names = _owners(events, stacks)
    marks, placed = marks_of(entries, annotations[0], device, runs.texts.values)
    pool, pool_names = pools_of(events, entries, final, runs.pools.values)
    metadata, metadata_names = _metadata(entries, events, runs.texts.values)
    opening = np.full(events.opening, -1, np.int64)
    return EventLog(
        kind=events.kind,
        size=events.size,
        addr=events.addr,
        offset=events.entry,
        time_us=_times(entries, events, opening),
        owner=owner,
        owner_names=owner_names,
        device=device,
        stream=events.stream,
        pool=pool,
        pool_names=pool_names,
        user_metadata=metadata,
        user_metadata_names=metadata_names,
        marks=marks,
        line=events.entry + 1,
        source=SnapshotSource(name, stacks, entries.stack),
        facts=Facts(
            bytes=len(entries),
            lines=len(entries),
            malformed=entries.malformed + final.malformed,
            malformed_samples=entries.samples,
            layer=LAYER,
            block_granularity=BLOCK_GRANULARITY,
            chunks_join=bool(np.isin(entries.action, (Action.SEGMENT_MAP, Action.SEGMENT_UNMAP)).any()),
            opening=events.opening,
            hints=_hints(entries, events, placed=placed, unread=annotations[1]),
            ooms=_ooms(entries, device),
            figures=_figures(entries, events, device),
            uneven_segments=final.uneven,
        ),
    )


def _times(entries: Entries, events: DeviceEvents, opening: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Times of the events; ``None`` where no entry has one (2023)."""
    if not (entries.time_us >= 0).any():
        return None
    return np.concatenate((opening, entries.time_us[events.entry[events.opening :]]))


def _owners(events: DeviceEvents, stacks: Stacks) -> tuple[NDArray[np.int32] | None, tuple[str, ...]]:
    """The owner column and its names: one for all stacks that are called the same."""
    used = np.unique(events.stack)
    used = used[used >= 0]
    if not len(used):
        return None, ()
    numbers: dict[str, int] = {}
    of_stack = np.full(int(used[-1]) + 2, -1, np.int32)  # the last one, too, is asked for: by -1
    for stack in used.tolist():
        of_stack[stack] = numbers.setdefault(stacks.name(stack), len(numbers))
    return of_stack[events.stack], tuple(numbers)


def _metadata(
    entries: Entries, events: DeviceEvents, texts: Sequence[str]
) -> tuple[NDArray[np.int32] | None, tuple[str, ...]]:
    """The column of the users' metadata and its texts; ``None`` where no event has any."""
    column = np.full(len(events.entry), -1, np.int32)
    column[events.opening :] = entries.metadata[events.entry[events.opening :]]
    used = np.unique(column[column >= 0])
    if not len(used):
        return None, ()
    numbers: dict[str, int] = {}
    of_text = np.full(int(used[-1]) + 2, -1, np.int32)  # the last one, too, is asked for: by -1
    for text in used.tolist():
        of_text[text] = numbers.setdefault(texts[text][:LONGEST_TEXT], len(numbers))
    return of_text[column], tuple(numbers)


def _hints(entries: Entries, events: DeviceEvents, *, placed: bool, unread: int) -> dict[str, int]:
    """Things worth knowing, by name, with the 1-based number of the first entry."""
    hints = {}
    if len(entries) <= 1:  # where no history is kept, torch keeps its last entry at times
        hints["no_trace"] = 1
    if events.deferred is not None:
        hints["deferred_frees"] = events.deferred + 1
    if (other := np.flatnonzero(entries.action == Action.OTHER)).size:
        hints["unknown_actions"] = int(other[0]) + 1
    if not placed or unread or "" in entries.user_defined.values():
        hints["annotations_not_placed"] = 1
    return hints


def _ooms(entries: Entries, device: int) -> tuple[OutOfMemory, ...]:
    return tuple(
        OutOfMemory(
            index, index + 1, f"GPU {device}", int(entries.size[index]), entries.device_free.get(index), "oom entry"
        )
        for index in np.flatnonzero(entries.action == Action.OOM).tolist()
    )


def _figures(entries: Entries, events: DeviceEvents, device: int) -> tuple[Figure, ...]:
    """What the segments say is held at the end: the events must add up to that."""
    return tuple(
        Figure(len(entries), metric, value, value, LAYER, device)
        for metric, value in (("allocated", events.allocated), ("reserved", events.reserved))
    )
