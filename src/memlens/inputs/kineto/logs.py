"""Event logs made of what was read of a Kineto trace: one for each device.

What is decided here, and why:

* Events are put in the order of their time stamps, those of one stamp in the order of the file: files are grouped by thread.
* Events and annotations are numbered in that order; these numbers stand where a text log has lines.
* An annotation reaches to the event at which it ends.  One in which nothing happens for less than a millisecond names a place
  (:func:`memlens.mark`), unless the profiler itself wrote it.
* A block that is given back without having been taken was there before: an ALLOC at the start, before the first number, stands for it.
  On a GPU the rest of what the device says was allocated before is one more such ALLOC, without an address, so that levels are the
  device's own.  On the CPU it is not: PyTorch's count there keeps what was freed while nothing was recorded.
* Totals of reserved bytes become RESERVE and RELEASE events where they change: the level is exact, the single segments are not known.
* Traces of 2021 have no addresses.  A FREE of n bytes then ends the newest live ALLOC of n bytes: sums and what is left by size
  are exact, which of several blocks of one size is which is not known (``no_addresses`` among the hints).
* The owner of a change is the innermost operator whose time holds it, on the same thread of the same process, then the innermost Python frame of a file likewise,
  among the frames alone (the two kinds do not nest in each other), then, where that one is PyTorch's own code, the innermost frame that is not::

      aten::addmm < torch/nn/modules/linear.py(130): forward < train.py(31): step

  Frames of built-in functions and of modules (``nn.Module: Linear_0``) are passed over: what the operator says they say too, and they hold
  addresses and running numbers, which no two runs share.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.columns import distinct, rows_alike
from memlens.facts import CPU, Kind, Mark, OutOfMemory, StatLines
from memlens.inputs.builder import Builder
from memlens.inputs.calls import Calls
from memlens.inputs.holders import held_at
from memlens.inputs.kineto.events import UNKNOWN, Changes, SpanKind
from memlens.inputs.kineto.stacks import CallStacks, KinetoSource, Nesting, nodes
from memlens.inputs.stack_names import GENERATED, is_generated
from memlens.text import LIBRARY_CODE, format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memlens.inputs.holders import Walks
    from memlens.inputs.input_format import Request
    from memlens.inputs.kineto.events import Events, Failure, Spans
    from memlens.log import Log

    Integers = NDArray[np.int64]


_CPU_TYPE = 0
_NO_ADDRESS = (1 << 64) - 1
#: Nanoseconds: an annotation in which nothing happens is one of a place if it is shorter.
_BRIEF = 1_000_000
_KINDS = {0: "CPU", 1: "GPU", 6: "GPU", 9: "XLA", 12: "XPU", 13: "MPS", 15: "HPU", 19: "MTIA"}
_JOINED = " < "
_FILE_FRAME = re.compile(r"(?P<path>(?!<built-in |nn\.Module: ).+?)\((?P<line>\d+)\): ")
#: The path of a file that the user has not written.
_FOREIGN = re.compile(rf"{LIBRARY_CODE}\Z")
_NO_FRAME, _FRAME, _OWN_FRAME = 0, 1, 2


def make_logs(
    events: Events, name: str, request: Request, walks: Walks | None, *, base: int, size: int, cut_short: str
) -> list[Log]:
    """The logs of a trace, by rising device number, the CPU's (:data:`CPU`) first.

    Two kinds of accelerators may have the same number: 1000 times PyTorch's number of the kind is then added to all but the first.

    Args:
        events: What was read of it, with at least one change of memory.
        name: The input, as the user named it.
        request: What is wanted of it.
        walks: Who holds what, where the recorder noted it.
        base: Nanoseconds since 1970 at the zero of the trace's clock.
        size: Bytes of the input, uncompressed.
        cut_short: Why the trace ended early, or ``""``.
    """
    trace = _Trace(events, base, with_calls=walks is not None)
    devices = set(zip(trace.changes.kind.tolist(), trace.changes.device.tolist(), strict=True))
    logs: dict[int, Log] = {}
    for kind, device in sorted(devices):
        number = CPU if kind == _CPU_TYPE else device
        while number in logs:
            number = max(number, 0) + 1000 * max(kind, 1)
        facts, columns, calls, source = _columns_of(trace, name, number, kind, device)
        if "no_addresses" not in facts["hints"]:
            time, opening = columns["time_us"], facts["opening"]
            before = time.searchsorted([] if walks is None else walks.time_us)
            blocks = columns["kind"], columns["addr"], columns["size"]
            columns |= held_at(walks, int(time[opening]), before, *blocks, calls, of_all_threads=number != CPU)
        facts |= {"bytes": size, "malformed": events.malformed, "malformed_samples": tuple(events.samples)}
        builder = Builder(source, request, {})
        logs[number] = builder.finish(cut_short=cut_short, facts=facts, columns=columns)
    return [logs[number] for number in sorted(logs)]


class _Trace:
    """One trace as read, on all its devices: changes of memory with owners, threads and times; annotations and failures by time, failures with their owners."""

    def __init__(self, events: Events, base: int, *, with_calls: bool) -> None:
        self.changes, spans, texts = events.changes, events.spans, events.texts
        failures = sorted(events.failures, key=lambda failure: failure.time)
        time, track = (np.array([failure[k] for failure in failures], np.int64) for k in (0, 1))
        time, track = np.append(self.changes.time, time), np.append(self.changes.track, track)
        level = np.array([_frame_level(text) for text in texts], np.int64)[spans.name]
        is_frame = spans.kind == SpanKind.FRAME
        ops, frames, own = (
            Nesting(spans, chosen)
            for chosen in (spans.kind == SpanKind.OP, is_frame & (level >= _FRAME), is_frame & (level >= _OWN_FRAME))
        )
        around = np.stack([nesting.innermost(track, time) for nesting in (ops, frames, own)])
        around, asking = np.split(around, [len(self.changes.time)], axis=1)
        self.owner, self.owner_names = owners_of(around, spans, texts)
        self.stacks = CallStacks(spans, texts, _as_line, ops, frames, *around[:2])
        self.calls = calls_of(self.changes.track, self.changes.time, spans, texts) if with_calls else None
        self.thread = np.array([thread for _, thread in events.tracks], np.int64)[self.changes.track]
        # The clock's zero is a time itself: nothing is lost by rounding down after both are added.
        self.time_us = (self.changes.time + base) // 1000
        annotations = np.flatnonzero(spans.kind == SpanKind.ANNOTATION)
        annotations = annotations[np.argsort(spans.start[annotations], kind="stable")]
        self.marked, self.ends = spans.start[annotations], spans.end[annotations]
        self.marks = [texts[number] for number in spans.name[annotations].tolist()]
        asked, names = owners_of(asking, spans, texts)
        asked_by = [names[number] if number >= 0 else "" for number in asked.tolist()]
        self.failures = list(zip(failures, asked_by, strict=True))


def device_name(kind: int, device: int) -> str:
    """The name that people give a device: ``CPU``, ``GPU 0``."""
    name = _KINDS.get(kind, f"device type {kind}")
    return name if kind == _CPU_TYPE else f"{name} {device}"


def _columns_of(
    trace: _Trace, name: str, number: int, kind: int, device: int
) -> tuple[dict[str, Any], dict[str, Any], Calls | None, KinetoSource]:
    """The facts of one device, the columns and other fields of its log, what runs at its events, where that is asked for, and its source."""
    changes = trace.changes
    rows = np.flatnonzero((changes.kind == kind) & (changes.device == device))
    rows = rows[np.argsort(changes.time[rows], kind="stable")]
    failures = [found for found in trace.failures if (found[0].kind, found[0].device) == (kind, device)]
    failed = np.array([failure.time for failure, _ in failures], np.int64)
    mark_offset, offset, failure_offset = _numbered_by_time(trace.marked, changes.time[rows], failed)
    change = changes.size[rows]
    size, is_free = np.abs(change), change < 0
    addr, has_addresses = _addresses(changes, rows)
    # What was there before: the first event of its address is a FREE.
    _, first = np.unique(addr, return_index=True)
    before = np.sort(first[is_free[first]])
    opening = [(Kind.ALLOC, *pair) for pair in zip(size[before].tolist(), addr[before].tolist(), strict=True)]
    allocated = changes.allocated[rows]
    rest = int(allocated[0] - change[0] - size[before].sum()) if allocated[0] != UNKNOWN else 0
    if kind != _CPU_TYPE and rest > 0:
        opening.append((Kind.ALLOC, rest, _NO_ADDRESS))
    at, reserved, reserved_before = _segments(changes.reserved[rows])
    if reserved_before:
        opening.insert(0, (Kind.RESERVE, reserved_before, 0))

    def joined(column: NDArray[Any], of_segments: Any, of_opening: Any = -1) -> NDArray[Any]:
        """A column of changes with that of segments in between, and that of what was there before in front."""
        woven = np.insert(column, at, of_segments)
        return np.concatenate((np.full(len(opening), of_opening, woven.dtype), woven))

    kinds, sizes, addresses = ([row[k] for row in opening] for k in range(3))
    offsets = joined(offset, offset[at])
    thread = trace.thread[rows]
    owner = joined(trace.owner[rows], -1)
    has_owners = bool((owner >= 0).any())
    facts = {
        "layer": "kineto",
        "has_lines": False,
        "has_chunks": False,
        "lines": len(trace.marks) + len(rows) + len(failures),
        "threads": tuple(sorted(set(distinct(thread).tolist()) - {-1})),
        "opening": len(opening),
        "hints": ({} if has_addresses else {"no_addresses": int(offset[0]) + 1})
        | ({"uncounted_blocks": 1} if kind != _CPU_TYPE and rest > 0 else {}),
        "ooms": tuple(
            _out_of_memory(*found, offset) for found, offset in zip(failures, failure_offset.tolist(), strict=True)
        ),
        "stat_lines": _stat_lines(
            offset, change, allocated - (rest if kind == _CPU_TYPE else 0), allocated != UNKNOWN, number
        ),
    }
    every = np.sort(np.concatenate((trace.marked, changes.time[rows], failed)))
    ends = np.maximum(every.searchsorted(trace.ends), mark_offset + 1)
    brief = (ends == mark_offset + 1) & (trace.ends - trace.marked < _BRIEF)
    own = [None if is_brief and "#" not in text.strip("#") else end for is_brief, text, end in zip(brief.tolist(), trace.marks, ends.tolist(), strict=True)]  # fmt: skip
    marks = zip(mark_offset.tolist(), trace.marks, own, strict=True)
    columns = {
        "kind": joined(is_free.astype(np.int8), np.where(reserved > 0, Kind.RESERVE, Kind.RELEASE), kinds),
        "size": joined(size, np.abs(reserved), sizes),
        "addr": joined(addr, 0, np.array(addresses, np.uint64)),
        "offset": offsets,
        "line": offsets + 1,
        "time_us": joined(trace.time_us[rows], trace.time_us[rows[at]]),
        "thread": joined(thread, thread[at]),
        "owner": owner if has_owners else None,
        "owner_names": trace.owner_names if has_owners else (),
        "device": number,
        "marks": tuple(Mark(offset, offset + 1, text, end) for offset, text, end in marks),
    }
    calls = None
    if trace.calls is not None:
        place, backward, outside = (
            joined(column[rows], column[rows[at]], none)
            for column, none in zip(trace.calls[:3], (-1, False, True), strict=True)
        )
        calls = Calls(place, backward, outside, alike=owner)
    return facts, columns, calls, KinetoSource(name, trace.stacks, rows, offset)


def _numbered_by_time(*times: Integers) -> list[Integers]:
    """Number things of several kinds by time, from 0; of those of one time the earlier kind comes first."""
    order = np.argsort(np.concatenate(times), kind="stable")
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    return np.split(number, np.cumsum([len(part) for part in times])[:-1])


def _segments(reserved: Integers) -> tuple[Integers, Integers, int]:
    """Before which changes the reserved bytes change, by how much, and how many were reserved before the first.

    Args:
        reserved: Bytes reserved after each change, int64; :data:`UNKNOWN` where it does not say.
    """
    known = np.flatnonzero(reserved != UNKNOWN)
    levels = reserved[known]
    if not levels.any() or (levels < 0).any():
        return known[:0], known[:0], 0
    change = np.diff(levels, prepend=levels[0])
    return known[change != 0], change[change != 0], int(levels[0])


def _addresses(changes: Changes, rows: Integers) -> tuple[NDArray[np.uint64], bool]:
    """The address of each event, and whether they are real ones."""
    if (changes.addr != UNKNOWN).any():
        given = changes.addr[rows]
        return np.where(given == UNKNOWN, np.int64(0), given).view(np.uint64), True
    # Blocks of one size as a stack: an ALLOC is at the height that it reaches, a FREE at the one that it leaves.
    _, kind, count = np.unique(np.abs(changes.size[rows]), return_inverse=True, return_counts=True)
    order = np.argsort(kind, kind="stable")
    up = np.where(changes.size[rows][order] > 0, 1, -1)
    height = np.cumsum(up)
    height -= np.repeat(np.append(0, height)[np.cumsum(count) - count], count)
    height += up < 0
    _, number = np.unique((kind[order] << np.int64(32)) + height, return_inverse=True)
    addr = np.empty(len(rows), np.uint64)
    addr[order] = number.reshape(-1).astype(np.uint64) + np.uint64(1)
    return addr, False


def _stat_lines(
    offset: Integers, change: Integers, total: Integers, known: NDArray[np.bool_], number: int
) -> StatLines | None:
    """The device's totals after changes, where they are known, as figures to compare the running sums with.

    Figures are compared as those of a Paddle log are: the total of an ALLOC stands after it, that of a FREE before it.
    """
    if not known.any():
        return None
    offset, change, total = offset[known], change[known], total[known]
    device = min(max(number, 0), (1 << 15) - 1)  # the CPU is a device like any other here
    return StatLines(
        offset=offset + (change > 0),
        device=np.full(len(change), device, np.int16),
        reserved=np.zeros(len(change), np.bool_),
        change=change,
        current=total,
        peak=np.full(len(change), -1, np.int64),
    )


def _out_of_memory(failure: Failure, owner: str, offset: int) -> OutOfMemory:
    device = device_name(failure.kind, failure.device)
    asked = "an unknown size" if failure.size is None else f"{failure.size:,} bytes ({format_bytes(failure.size)})"
    text = f"[OutOfMemory] {device}: {asked} could not be given"
    return OutOfMemory(offset, offset + 1, device, failure.size, None, text, owner=owner)


def owners_of(around: Integers, spans: Spans, texts: Sequence[str]) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Name the owners of changes of memory, or of failures.

    Args:
        around: The innermost operator, frame of a file and frame of the user's around each on its track, as indices of the spans, -1 for
            none; int64, ``(3, changes)``.
        spans: The operators and frames of the whole trace.
        texts: The names of the spans, and their call stacks, by number.

    Returns:
        For each change the number of its owner, int32, -1 for none; and the names of the owners.
    """
    op, frame, own = around
    names_of, stack = np.append(spans.name, -1), np.append(spans.stack, -1)
    # The texts that a name is made of; -1 for none.
    columns = names_of[op], stack[op], names_of[frame], names_of[own]
    first, which = rows_alike(*columns)
    labels = [_joined(row, texts) for row in np.stack(columns, axis=1)[first].tolist()]
    in_order = dict.fromkeys(labels[k] for k in np.argsort(first).tolist())
    names = {name: number for number, name in enumerate(filter(None, in_order))}
    return np.array([names.get(label, -1) for label in labels], np.int32)[which], tuple(names)


def calls_of(track: Integers, time: Integers, spans: Spans, texts: Sequence[str]) -> Calls | None:
    """What runs at each change of memory: its place is the outermost operator, and a node of the graph runs in a backward pass.

    ``None`` where the trace has no operators.

    Args:
        track: The track of each change, int64.
        time: When it happens, int64.
        spans: The operators and frames of the whole trace.
        texts: The names of the spans, by number.
    """
    operators = spans.kind == SpanKind.OP
    rows = np.flatnonzero(operators)
    if not len(rows):
        return None
    rows = rows[np.lexsort((-spans.end[rows], spans.start[rows], spans.track[rows]))]
    # The ends of those before it on its track, which ranks tell apart.
    _, end = np.unique(spans.end[rows], return_inverse=True)
    reach = np.maximum.accumulate(end + spans.track[rows] * len(rows))
    outermost = np.zeros(len(operators), np.bool_)
    outermost[rows] = np.append(-1, reach)[:-1] < end + spans.track[rows] * len(rows)
    place = Nesting(spans, outermost).innermost(track, time)
    backward = Nesting(spans, operators & nodes(texts)[spans.name]).innermost(track, time) >= 0
    return Calls(place.astype(np.int32), backward, place < 0)


def _joined(row: Sequence[int], texts: Sequence[str]) -> str:
    """The name of an owner, from the numbers of operator, call stack, frame and own frame."""
    op, stack, frame, own = (texts[number] if number >= 0 else "" for number in row)
    if stack:
        frame, own = _of_stack(stack)
    return _JOINED.join(dict.fromkeys(part for part in (op, _shown(frame), own) if part))


def _of_stack(stack: str) -> tuple[str, str]:
    """The innermost frame of a file, and the innermost one of the user's, of a stack written in one line (until 2022)."""
    frames = [text for text in stack.split(";") if _frame_level(text)]
    return (frames[0] if frames else ""), next((text for text in frames if _frame_level(text) == _OWN_FRAME), "")


def _frame_level(name: str) -> int:
    found = _FILE_FRAME.match(name)
    if found is None:
        return _NO_FRAME
    path = found["path"]
    return _FRAME if _FOREIGN.match(path) or is_generated(path) else _OWN_FRAME


def _as_line(name: str) -> str:
    """A frame of a file as ``file:line function``; ``""`` of what is none."""
    found = _FILE_FRAME.match(name)
    return "" if found is None else f"{found['path']}:{found['line']} {name[found.end() :]}"


def _shown(name: str) -> str:
    """The label of a frame in the name of an owner."""
    found = _FILE_FRAME.match(name)
    return GENERATED if found is not None and is_generated(found["path"]) else name
