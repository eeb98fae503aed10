"""Reads memory snapshots: what ``torch.cuda.memory._dump_snapshot`` writes, from 2023 on, and ``paddle.device.cuda._dump_snapshot``, from August 2026 on.

A snapshot is a pickle; it is read as data and never executed (:mod:`memlens.inputs.torch_snapshot.pickles`).  Each device becomes an
:class:`~memlens.events.Log` of its own.  An event's ``line`` is the 1-based number of its entry in the device's trace, its ``offset`` the 0-based index.
Sizes are what tensors asked for; torch's own ``memory_allocated()`` rounds each block up to 512 bytes.

**Paddle's** has torch's form, and is told by its entries, which name operators (``op_name``).  Sizes are those of blocks.  What its ``segments`` hold is
not written down anywhere; where there are none, what the device holds at the end is not known: neither reserved bytes, nor blocks from before the
first entry that are never freed.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from memlens.errors import InputError, NoEventsError
from memlens.events import pair
from memlens.facts import DEFAULT_POOL, Figure, Kind, OutOfMemory
from memlens.inputs.builder import Builder
from memlens.inputs.calls import calls_of_stacks
from memlens.inputs.holders import held_at, is_count, read_walks
from memlens.inputs.torch_snapshot.entries import Action, Annotation, Entries, marks_of, read_annotations, read_entries
from memlens.inputs.torch_snapshot.entry_runs import EntryRuns
from memlens.inputs.torch_snapshot.pickles import BadPickle, load
from memlens.inputs.torch_snapshot.replay import MOST_DEVICES, DeviceEvents, Final, events_of, pools_of, read_segments
from memlens.inputs.torch_snapshot.retained import BLOCK_GRANULARITY, kept_of
from memlens.inputs.torch_snapshot.stacks import LONGEST_TEXT, Tables
from memlens.source import NumberedSource
from memlens.text import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from memlens.inputs.file_source import FileSource
    from memlens.inputs.holders import Walks
    from memlens.inputs.input_format import Request
    from memlens.inputs.torch_snapshot.replay import Columns
    from memlens.log import Log


_LAYER, _PADDLE_LAYER = "torch_snapshot", "paddle_history"
#: Actions of segments that are mapped in parts, and of others.
_MAPPED, _WHOLE = (Action.SEGMENT_MAP, Action.SEGMENT_UNMAP), (Action.SEGMENT_ALLOC, Action.SEGMENT_FREE)
#: More settings than an allocator has, and longer ones, are not looked at.
_MOST_SETTINGS, _LONGEST_SETTING = 100, 2000
#: Actions that take memory.
_TAKING = (Action.ALLOC, Action.SEGMENT_ALLOC, Action.SEGMENT_MAP, Action.OOM)
#: Events at the end of a trace that nearly always show whether stacks of FREEs were recorded.
_TAIL = 4096

RECORD = (
    "Record with torch.cuda.memory._record_memory_history() before the first tensor is made, and write with"
    " torch.cuda.memory._dump_snapshot(path) while it is on."
)
_RECORD_PADDLE = (
    "With Paddle set FLAGS_use_virtual_memory_auto_growth=1, call"
    ' paddle.device.cuda._record_memory_history(enabled="all", max_entries=1_000_000) before the first tensor is made, and'
    " paddle.device.cuda._dump_snapshot(path) while it is on."
)
_DAMAGED = "Copy the file again, or write it again with _dump_snapshot(path)."
_HOSTILE = (
    "Neither torch nor Paddle writes such a file: do not load it with anything else, and ask who gave it to you where it comes from."
    " If you wrote it, turn such objects into numbers, texts, lists and dicts before it is pickled."
)


class SnapshotSource(NumberedSource):
    """A snapshot as a source: it has no lines of text, but knows the whole call stack of each entry.

    Args:
        name: The path as the user gave it.
        tables: Have all call stacks.
        stack: Number of the stack of each entry of the device, int32.
        opening: … and of each opening event.
    """

    def __init__(self, name: str, tables: Tables, stack: NDArray[np.int32], opening: NDArray[np.int32]) -> None:
        super().__init__(name)
        self._tables, self._stack, self._opening = tables, stack, opening

    def line_numbers(self, offsets: Sequence[int]) -> list[int | None]:
        return [offset + 1 if 0 <= offset < len(self._stack) else None for offset in offsets]

    def stack_of(self, number: int) -> tuple[str, ...]:
        return self._tables.whole(number) if number >= 0 else ()

    def opening_stacks(self) -> NDArray[np.int32]:
        return self._opening

    def stack_numbers(self, offsets: NDArray[np.int64]) -> NDArray[np.int32]:
        # What stands for the opening events, whose offset is -1, and for what is no entry, is put behind the entries.
        return np.append(self._stack, np.int32(-1))[np.minimum(offsets, len(self._stack))]


def read_snapshot(source: FileSource, request: Request) -> list[Log]:
    """Read a memory snapshot.

    Args:
        source: The input; compressed or not.
        request: What is wanted of it.  Anchors are looked for among the marks when they are asked for.

    Returns:
        A log for each device that has an event or a segment, by device number.

    Raises:
        InputError: It cannot be read, is no snapshot, or is more than data.
        NoEventsError: It holds neither an event nor a segment.
    """
    runs = EntryRuns()
    with source.open() as stream:

        def read(size: int) -> bytes:
            data = stream.read(size) or b""
            if request.progress is not None:
                request.progress(stream.consumed)
            return data

        try:
            return _logs(load(read, runs), runs.objects, source.name, request)
        except BadPickle as bad:
            if bad.hostile:
                raise InputError(f"{source.name}: not read: {bad.reason}", _HOSTILE) from None
            why = f"{bad.reason} ({stream.problem})" if stream.problem else bad.reason
            reason = f"{source.name}: is no memory snapshot that can be read: {why}"
            raise InputError(reason, bad.hint or _DAMAGED) from None


def _logs(snapshot: Any, objects: list[Any], name: str, request: Request) -> list[Log]:
    """The logs of a snapshot as it was unpickled.

    Raises:
        BadPickle: It has another shape.
        NoEventsError: It is empty.
    """
    if type(snapshot) is list and snapshot and all(type(part) is dict and "blocks" in part for part in snapshot):
        snapshot = {"segments": snapshot}  # torch's own tools take the list of segments alone, too
    if type(snapshot) is not dict or not {"segments", "device_traces"} & snapshot.keys():
        raise BadPickle("it is a pickle of something else, without segments and device_traces", hint=RECORD)
    tables = Tables()
    tables.add(objects)  # owners, pools and metadata are numbered in the order in which they are met
    finals = read_segments(snapshot.get("segments", []), tables)
    traces = snapshot.get("device_traces", [])
    if type(traces) is not list or len(traces) > MOST_DEVICES or any(type(trace) is not list for trace in traces):
        raise BadPickle("its device_traces are no list of a list for each device")
    if len({id(trace) for trace in traces if trace}) < sum(map(bool, traces)):
        raise BadPickle("a trace stands in it more than once", hostile=True)
    noted = snapshot.get("memlens")
    walks, failures = read_walks(noted), _failures(noted)
    annotations, unread = read_annotations(snapshot.get("external_annotations"))
    may_be_paddles = not snapshot.keys() & {"external_annotations", "allocator_settings"}
    settings = _settings(snapshot.get("allocator_settings"))
    of_device: dict[int, Any] = {**dict.fromkeys(finals, ()), **dict(enumerate(traces))}
    entries = {
        device: _with_passes(read_entries(trace, objects, tables), noted, tables)
        for device, trace in sorted(of_device.items())
    }
    snapshot.clear()
    objects.clear()
    tables.forget_objects()
    logs = []
    for device, own in entries.items():
        final = finals.get(device, Final())
        log = _log(device, own, final, (annotations, unread), (walks, failures), tables, settings, name, request)
        logs += [] if log is None else [log]
    if not logs:
        hint = _RECORD_PADDLE if tables.of_paddle else f"{RECORD} {_RECORD_PADDLE}" if may_be_paddles else RECORD
        counted = sum(map(len, entries.values()))
        if not counted and not any(final.segment_rows or final.malformed for final in finals.values()):
            raise NoEventsError(f"{name}: the snapshot is empty: no trace entries and no segments", hint)
        raise NoEventsError(f"{name}: no event among {plural(counted, 'entry', 'entries')}, and no segments", hint)
    return logs


def _with_passes(entries: Entries, noted: Any, tables: Tables) -> Entries:
    """Entries where what backward passes allocate has the stack that began them, as ``memlens record`` notes it: their threads run no Python."""
    passes = noted.get("passes") if type(noted) is dict else None
    if type(passes) is not dict or not (entries.stack >= 0).any():
        return entries
    columns: list[Any] = [passes.get(name) for name in ("stacks", "time_us", "stack")]
    stacks, times, numbers = columns
    if any(type(column) is not list for column in columns) or len(times) != len(numbers):
        return entries
    if not all(is_count(time, 1 << 62) for time in times) or not all(is_count(one, len(stacks)) for one in numbers):
        return entries
    stack_of = np.array([*map(tables.stack, stacks), -1], np.int32)[np.array([-1, *numbers], np.int64)]
    those = (entries.stack < 0) & np.isin(entries.action, _TAKING) & (entries.time_us >= 0)
    began = np.maximum.accumulate(np.array(times, np.int64)).searchsorted(entries.time_us, "right")
    return replace(entries, stack=np.where(those, stack_of[began], entries.stack))


def _log(
    device: int,
    entries: Entries,
    final: Final,
    annotations: tuple[list[Annotation], int],
    by_memlens: tuple[Walks | None, list[list[int]]],
    tables: Tables,
    settings: dict[str, str],
    name: str,
    request: Request,
) -> Log | None:
    """The log of one device; ``None`` where it has no event."""
    events = events_of(entries, final)
    columns = events.columns
    in_parts, whole = (
        expandable in final.expandable or bool(np.isin(entries.action, actions).any())
        for expandable, actions in ((True, _MAPPED), (False, _WHOLE))
    )
    if not len(columns.kind):
        return None
    paddles = tables.of_paddle
    layer, granularity = (_PADDLE_LAYER, 1) if paddles else (_LAYER, BLOCK_GRANULARITY)
    # Of Paddle's the state at the end may be left out.
    ends = not paddles or bool(final.segment_rows)
    pools, texts = tables.pools.values, tables.texts.values
    marks, placed = marks_of(entries, annotations[0], device, texts)
    owner, owner_names = _named(columns.stack, tables.name)
    _forget_borrowed(owner, columns)
    pool, pool_names = _named(pools_of(columns, entries, final, pools), lambda number: _pool_name(*pools[number]))
    # What stands for the opening events, whose entry is -1, is put behind the entries.
    time_us, noted = (np.append(column, -1)[columns.entry] for column in (entries.time_us, entries.metadata))
    metadata, metadata_names = _named(noted, lambda number: texts[number][:LONGEST_TEXT])
    source = SnapshotSource(name, tables, entries.stack, columns.stack[: events.opening])
    return Builder(source, request, {}).finish(
        columns={
            **{name: getattr(columns, name) for name in ("kind", "size", "addr", "stream")},
            "offset": columns.entry,
            "line": columns.entry + 1,
            "time_us": time_us if (entries.time_us >= 0).any() else None,  # in 2023 no entry had a time
            "owner": owner,
            "owner_names": owner_names,
            **_holders(by_memlens[0], entries, columns, (owner, owner_names)),
            "device": device,
            "pool": pool,
            "pool_names": pool_names,
            "user_metadata": metadata,
            "user_metadata_names": metadata_names,
            "marks": marks,
        },
        facts={
            "bytes": len(entries),
            "lines": len(entries),
            "malformed": entries.malformed + final.malformed,
            "malformed_samples": entries.samples,
            "layer": layer,
            "has_lines": False,
            "has_chunks": ends or in_parts or whole,
            "keeps_last": True,
            "block_granularity": granularity,
            "kept": kept_of(
                entries, final, columns, events.opening, expandable=in_parts or paddles, granularity=granularity
            ),
            "chunks_join": in_parts,
            "opening": events.opening,
            "hints": _hints(entries, events, paddles=paddles, placed=placed, unread=annotations[1])
            | ({"mixed_segments": 1} if in_parts and whole else {}),
            "ooms": _ooms(entries, device, tables, by_memlens[1]),
            # What the segments say is held at the end: the events must add up to that.
            "figures": tuple(
                Figure(len(entries), metric, value, value, layer, device)
                for metric, value in (("allocated", events.allocated), ("reserved", events.reserved))
                if ends
            ),
            "uneven_segments": tuple(final.uneven),
            "settings": settings,
        },
    )


def _forget_borrowed(owner: NDArray[np.int32] | None, columns: Columns) -> None:
    """Take the stack from FREEs that have that of their ALLOC: PyTorch gives them this where it records none of its own (``context="alloc"``).

    So it is from the last FREE on whose stack is another one.
    """
    if owner is None:
        return
    last = 0
    for begin in (max(len(owner) - _TAIL, 0), 0):
        of, kind = owner[begin:], columns.kind[begin:]
        partner = pair(kind, columns.addr[begin:]).partner
        freed = np.flatnonzero((kind == Kind.FREE) & (partner >= 0))
        its_own = freed[(of[freed] >= 0) & (of[freed] != of[partner[freed]])]
        if len(its_own):
            last = begin + int(its_own[-1]) + 1
            break
    owner[last:][columns.kind[last:] == Kind.FREE] = -1


def _holders(
    walks: Walks | None, entries: Entries, columns: Columns, owners: tuple[NDArray[np.int32] | None, Sequence[str]]
) -> dict[str, Any]:
    """Who holds the blocks; where entries have no times, as the last walk says, which was made for the snapshot."""
    times = entries.time_us[entries.time_us >= 0]
    if walks is None or not len(walks.time_us):
        return {}
    at = np.maximum.accumulate(entries.time_us).searchsorted(walks.time_us)
    first = int(times[0] if len(times) else walks.time_us[-1])
    before, calls = columns.entry.searchsorted(at), calls_of_stacks(*owners, columns.kind)
    return held_at(walks, first, before, columns.kind, columns.addr, columns.size, calls)


def _named(numbers: NDArray[Any], name_of: Callable[[int], str]) -> tuple[NDArray[np.int32] | None, tuple[str, ...]]:
    """A column of numbers, -1 for none, as one of names, and the names; ``None`` where all are -1."""
    used = np.unique(numbers[numbers >= 0])
    if not len(used):
        return None, ()
    names: dict[str, int] = {}
    of_number = np.full(int(used[-1]) + 2, -1, np.int32)  # the last one, too, is asked for: by -1
    for number in used.tolist():
        of_number[number] = names.setdefault(name_of(number), len(names))
    return of_number[numbers], tuple(names)


def _pool_name(first: int, second: int) -> str:
    """The name that people give a pool that torch names by two numbers."""
    return f"private pool ({first}, {second})" if first or second else DEFAULT_POOL


def _settings(found: Any, name: str = "") -> dict[str, str]:
    """The settings of the allocator as texts; those of a dict among them by both names: ``roundup_power2_divisions.16``."""
    settings: dict[str, str] = {}
    if type(found) is dict:
        for key, value in islice(found.items(), _MOST_SETTINGS):
            whole = f"{name}{key}" if type(key) is str else ""
            if whole and type(value) in (str, int, float, bool) and len(f"{value}{whole}") <= _LONGEST_SETTING:
                settings[whole] = f"{value}"
            elif whole and not name:
                settings |= _settings(value, f"{key}.")
    return settings


def _hints(entries: Entries, events: DeviceEvents, *, paddles: bool, placed: bool, unread: int) -> dict[str, int]:
    """Things worth knowing, by name, with the 1-based number of the first entry."""
    hints = {}
    if len(entries) <= (not paddles):  # where no history is kept, torch keeps its last entry at times
        hints["no_trace"] = 1
    if events.deferred is not None:
        hints["deferred_frees"] = events.deferred + 1
    if (other := np.flatnonzero(entries.action == Action.OTHER)).size:
        hints["unknown_actions"] = int(other[0]) + 1
    if not placed or unread or "" in entries.user_defined.values():
        hints["annotations_not_placed"] = 1
    return hints


def _failures(noted: Any) -> list[list[int]]:
    """What ``memlens record`` notes each time that memory runs out: the device, its bytes, how many of them the process may have, and how many it has."""
    rows = noted.get("failures") if type(noted) is dict else None
    if type(rows) is not list or any(type(row) is not list or len(row) != 4 for row in rows):
        return []
    return rows if all(is_count(number, 1 << 63) for row in rows for number in row) else []


def _ooms(entries: Entries, device: int, tables: Tables, noted: list[list[int]]) -> tuple[OutOfMemory, ...]:
    at_all = np.flatnonzero(entries.action == Action.OOM).tolist()
    figures = dict(zip(reversed(at_all), reversed([row[1:] for row in noted if row[0] == device]), strict=False))
    found = []
    for at in at_all:
        size, left, stack = int(entries.size[at]), entries.device_free.get(at), int(entries.stack[at])
        owner, stream = tables.name(stack) if stack >= 0 else "", int(entries.stream[at])
        limit = whole = None
        if at in figures:
            whole, allowed, reserved = figures[at]
            below = max(allowed - reserved, 0)
            if allowed < whole and (left is None or below < left):
                limit, whole, left = allowed, allowed, below
        found.append(
            OutOfMemory(
                *(at, at + 1, f"GPU {device}", size, left, "oom entry", whole),
                owner=owner,
                stream=stream,
                limit_bytes=limit,
            )
        )
    return tuple(found)
