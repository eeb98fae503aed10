"""Event logs made of what was read of a Kineto trace: one for each device.

What is decided here, and why:

* Events are put in the order of their time stamps, those of one stamp in the order of the file: files are grouped by thread.
* Events and annotations are numbered in that order; these numbers stand where a text log has lines.
* A block that is given back without having been taken was there before: an ALLOC at the start, before the first number, stands for it.
  On a GPU the rest of what the device says was allocated before is one more such ALLOC, without an address, so that levels are the
  device's own.  On the CPU it is not: PyTorch's count there keeps what was freed while nothing was recorded.
* Totals of reserved bytes become RESERVE and RELEASE events where they change: the level is exact, the single segments are not known.
* Traces of 2021 have no addresses.  A FREE of n bytes then ends the newest live ALLOC of n bytes: sums and what is left by size
  are exact, which of several blocks of one size is which is not known (``no_addresses`` among the hints).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from memlens.errors import InputError
from memlens.events import EventLog, Kind
from memlens.facts import Facts, LineSample, Mark, OutOfMemory, StatLines
from memlens.inputs.kineto.records import UNKNOWN, Changes, SpanKind
from memlens.source import NumberedSource
from memlens.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memlens.inputs.kineto.records import Failure, Spans

    Integers = NDArray[np.int64]

__all__ = ["CPU", "Trace", "device_name", "make_logs"]

#: The number of the CPU among devices, as in the traces.
CPU = -1
_CPU_TYPE = 0
_NO_ADDRESS = np.uint64((1 << 64) - 1)
_MOST_BYTES = float(1 << 62)
_KINDS = {0: "CPU", 1: "GPU", 6: "GPU", 9: "XLA", 12: "XPU", 13: "MPS", 15: "HPU", 19: "MTIA"}


@dataclass(frozen=True)
class Trace:
    """Everything that was read of one trace.

    Attributes:
        name: The input, as the user named it.
        size: Its bytes, uncompressed.
        changes: The changes of memory on all devices.
        owner: For each its owner, int32.
        owner_names: Names of owners.
        spans: Operators, frames and annotations.
        texts: Their names by number.
        failures: The failures.
        base: Nanoseconds since 1970 at the zero of the trace's clock.
        malformed: How many events could not be read.
        samples: The first few.
        cut_short: Why the trace ended early, or ``""``.
    """

    name: str
    size: int
    changes: Changes
    owner: NDArray[np.int32]
    owner_names: tuple[str, ...]
    spans: Spans
    texts: Sequence[str]
    failures: Sequence[Failure]
    base: int
    malformed: int
    samples: tuple[LineSample, ...]
    cut_short: str


def make_logs(trace: Trace) -> list[EventLog]:
    """The logs of a trace, by rising device number, the CPU's (:data:`CPU`) first.

    Two kinds of accelerators may have the same number: 1000 times PyTorch's number of the kind is then added to all but the first.
    """
    changes = trace.changes
    kinds_and_devices = sorted(set(zip(changes.kind.tolist(), changes.device.tolist(), strict=True)))
    if float(np.abs(changes.size).sum(dtype=np.float64)) > _MOST_BYTES:
        raise InputError(
            f"{trace.name}: the sizes add up to more than 4 EiB", "No run allocates that much: the trace is damaged."
        )
    taken: set[int] = set()
    numbered = []
    for kind, device in kinds_and_devices:
        number = CPU if kind == _CPU_TYPE else device
        while number in taken:
            number = max(number, 0) + 1000 * max(kind, 1)
        taken.add(number)
        rows = np.flatnonzero((changes.kind == kind) & (changes.device == device))
        numbered.append((number, kind, device, rows))
    annotations = _annotations(trace)
    return [
        _make_log(trace, number, kind, device, rows, annotations)
        for number, kind, device, rows in sorted(numbered, key=lambda found: found[0])
    ]


def device_name(kind: int, device: int) -> str:
    """What people call a device: ``CPU``, ``GPU 0``."""
    name = _KINDS.get(kind, f"device type {kind}")
    return name if kind == _CPU_TYPE else f"{name} {device}"


def _annotations(trace: Trace) -> Integers:
    """The annotations of a trace, in order of time, as indices of its spans."""
    spans = trace.spans
    rows = np.flatnonzero(spans.kind == SpanKind.ANNOTATION)
    return rows[np.lexsort((spans.place[rows], spans.start[rows]))]


def _make_log(trace: Trace, number: int, kind: int, device: int, rows: Integers, annotations: Integers) -> EventLog:
    changes, spans = trace.changes, trace.spans
    rows = rows[np.lexsort((changes.place[rows], changes.time[rows]))]
    failures = sorted(
        (one for one in trace.failures if (one.kind, one.device) == (kind, device)),
        key=lambda one: (one.time, one.place),
    )
    times = (
        spans.start[annotations],
        changes.time[rows],
        np.array([failure.time for failure in failures], np.int64),
    )
    mark_place, offset, failure_place = _number_places(times)
    size = changes.size[rows]
    addr, has_addresses = _addresses(changes, rows)
    columns = _Columns(
        kind=(size < 0).astype(np.int8),  # Kind.ALLOC is 0 and Kind.FREE is 1
        size=np.abs(size),
        addr=addr,
        offset=offset,
        row=rows,
    )
    opening = columns.opening()
    before = _level_before(changes.allocated[rows], size)
    rest = before - int(opening.size.sum()) if before is not None else 0
    shift = 0
    if kind == _CPU_TYPE:
        shift = rest
    elif rest > 0:
        opening = opening.followed_by(_Columns.of_opening([Kind.ALLOC], [rest], _NO_ADDRESS))
    stat_lines = _stat_lines(columns, changes, number, shift)
    columns, reserved_before = columns.with_segments(changes.reserved[rows])
    if reserved_before:
        opening = _Columns.of_opening([Kind.RESERVE], [reserved_before], np.uint64(0)).followed_by(opening)
    columns = opening.followed_by(columns)
    there = columns.row >= 0
    thread = _of_rows(changes.tid, columns.row)
    # The clock's zero is a time itself: nothing is lost by rounding down after both are added.
    moment = (changes.time[rows] + trace.base) // 1000
    time_us = np.full(len(there), -1, np.int64)
    time_us[there] = moment[np.searchsorted(offset, columns.offset[there])]
    owner = np.where(there & (columns.kind <= Kind.FREE), _of_rows(trace.owner, columns.row), -1).astype(np.int32)
    facts = Facts(
        bytes=trace.size,
        lines=len(annotations) + len(rows) + len(failures),
        malformed=trace.malformed,
        malformed_samples=trace.samples,
        cut_short=trace.cut_short,
        threads=tuple(sorted({int(one) for one in np.unique(thread[there])} - {-1})),
        layer="kineto",
        opening=len(opening.kind),
        hints={} if has_addresses else {"no_addresses": int(offset[0]) + 1},
        ooms=tuple(
            _out_of_memory(failure, place) for failure, place in zip(failures, failure_place.tolist(), strict=True)
        ),
        stat_lines=stat_lines,
    )
    return EventLog(
        kind=columns.kind,
        size=columns.size,
        addr=columns.addr,
        offset=columns.offset,
        time_us=time_us,
        thread=thread,
        owner=owner if (owner >= 0).any() else None,
        owner_names=trace.owner_names if (owner >= 0).any() else (),
        device=number,
        marks=tuple(
            Mark(place, place + 1, trace.texts[name])
            for place, name in zip(mark_place.tolist(), spans.name[annotations].tolist(), strict=True)
        ),
        line=columns.offset + 1,
        source=NumberedSource(trace.name),
        facts=facts,
    )


def _number_places(times: Sequence[Integers]) -> list[Integers]:
    """Number things of several kinds by time, from 0; of those of one time the earlier kind comes first."""
    kind = np.repeat(np.arange(len(times)), [len(part) for part in times])
    order = np.lexsort((kind, np.concatenate(times)))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return np.split(place, np.cumsum([len(part) for part in times])[:-1])


def _of_rows(values: NDArray[np.int64] | NDArray[np.int32], rows: Integers) -> Integers:
    """The values of some rows, int64; -1 for row -1."""
    if not len(values):
        return np.full(len(rows), -1, np.int64)
    return np.where(rows >= 0, values[np.maximum(rows, 0)], -1).astype(np.int64)


@dataclass(frozen=True)
class _Columns:
    """Events in order; ``row`` is that of the change that each comes from, int64, -1 for none."""

    kind: NDArray[np.int8]
    size: Integers
    addr: NDArray[np.uint64]
    offset: Integers
    row: Integers

    @classmethod
    def of_opening(cls, kinds: Sequence[Kind], sizes: Sequence[int], addr: np.uint64) -> _Columns:
        """Events from before the trace begins: they come before place 0."""
        count = len(kinds)
        nowhere = np.full(count, -1, np.int64)
        return cls(
            np.array(kinds, np.int8), np.array(sizes, np.int64), np.full(count, addr, np.uint64), nowhere, nowhere
        )

    def followed_by(self, other: _Columns) -> _Columns:
        return _Columns(
            np.concatenate((self.kind, other.kind)),
            np.concatenate((self.size, other.size)),
            np.concatenate((self.addr, other.addr)),
            np.concatenate((self.offset, other.offset)),
            np.concatenate((self.row, other.row)),
        )

    def opening(self) -> _Columns:
        """An ALLOC for each FREE that is the first event of its address."""
        _, first = np.unique(self.addr, return_index=True)
        frees = np.sort(first[self.kind[first] == Kind.FREE])
        nowhere = np.full(len(frees), -1, np.int64)
        return _Columns(np.zeros(len(frees), np.int8), self.size[frees], self.addr[frees], nowhere, nowhere)

    def with_segments(self, reserved: Integers) -> tuple[_Columns, int]:
        """The events with a RESERVE or RELEASE before each at which the reserved bytes change, and those reserved before the first.

        Args:
            reserved: Bytes reserved after each event, int64; :data:`UNKNOWN` where it does not say.
        """
        known = np.flatnonzero(reserved != UNKNOWN)
        if not len(known) or not reserved[known].any() or (reserved[known] < 0).any():
            return self, 0
        change = np.diff(reserved[known], prepend=reserved[known[0]])
        at, change = known[change != 0], change[change != 0]
        kind = np.where(change > 0, Kind.RESERVE, Kind.RELEASE).astype(np.int8)
        return _Columns(
            np.insert(self.kind, at, kind),
            np.insert(self.size, at, np.abs(change)),
            np.insert(self.addr, at, np.uint64(0)),
            np.insert(self.offset, at, self.offset[at]),
            np.insert(self.row, at, self.row[at]),
        ), int(reserved[known[0]])


def _level_before(allocated: Integers, size: Integers) -> int | None:
    """What the device says was allocated before the first event; ``None`` where that event does not say."""
    return None if allocated[0] == UNKNOWN else int(allocated[0] - size[0])


def _addresses(changes: Changes, rows: Integers) -> tuple[NDArray[np.uint64], bool]:
    """The address of each event, and whether they are real ones."""
    if changes.has_addr.any():
        return changes.addr[rows].view(np.uint64), True
    # Blocks of one size as a stack: an ALLOC is at the height that it reaches, a FREE at the one that it leaves.
    size = changes.size[rows]
    order = np.argsort(np.abs(size), kind="stable")
    up = np.where(size[order] > 0, 1, -1)
    height = np.cumsum(up)
    starts = np.flatnonzero(np.diff(np.abs(size[order]), prepend=-1))
    height -= np.repeat(np.concatenate(([0], height))[starts], np.diff(np.append(starts, len(order))))
    height += up < 0
    level = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(order))))
    _, number = np.unique((level << np.int64(32)) + height, return_inverse=True)
    addr = np.empty(len(rows), np.uint64)
    addr[order] = number.reshape(-1).astype(np.uint64) + np.uint64(1)
    return addr, False


def _stat_lines(columns: _Columns, changes: Changes, number: int, shift: int) -> StatLines | None:
    """The device's totals, as figures to compare the running sums with.

    Figures are compared as those of a Paddle log are: the total of an ALLOC stands after it, that of a FREE before it.
    """
    allocated = changes.allocated[columns.row]
    said = np.flatnonzero(allocated != UNKNOWN)
    if not len(said):
        return None
    change = changes.size[columns.row][said]
    return StatLines(
        offset=columns.offset[said] + (change > 0),
        device=np.full(
            len(said), min(max(number, 0), (1 << 15) - 1), np.int16
        ),  # the CPU is a device like any other here
        reserved=np.zeros(len(said), np.bool_),
        change=change,
        current=allocated[said] - shift,
        peak=np.full(len(said), -1, np.int64),
    )


def _out_of_memory(failure: Failure, place: int) -> OutOfMemory:
    device = device_name(failure.kind, failure.device)
    asked = "an unknown size" if failure.size is None else f"{failure.size:,} bytes ({format_bytes(failure.size)})"
    return OutOfMemory(
        place, place + 1, device, failure.size, None, f"[OutOfMemory] {device}: {asked} could not be given"
    )
