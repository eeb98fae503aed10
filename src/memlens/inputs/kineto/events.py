"""The events of a Kineto trace that matter here, read from the text of many of them at once.

These are changes of memory, and the operators, Python frames and annotations around them.  What is spelled in an unusual way
(:mod:`memlens.inputs.kineto.json_fields`) is read one by one, to the same result (:mod:`memlens.inputs.kineto.odd`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlens.inputs.kineto.json_fields import KeySet, Values, string_ends, text_stands_at, thousandths_at, wholes_at
from memlens.inputs.kineto.odd import ChangeRow, Malformed, SpanRow, read_odd
from memlens.inputs.kineto.records import (
    ARGS,
    CATEGORIES,
    INSTANT,
    MEMORY,
    MOST_THREAD,
    NO_TEXT,
    OUT_OF_MEMORY,
    STACK,
    UNKNOWN,
    Changes,
    Failure,
    Names,
    SpanKind,
    Spans,
    is_change,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.inputs.kineto.json_objects import Objects

    Positions = NDArray[np.int64]

__all__ = ["EventReader"]

_KEYS = KeySet(("ph", "cat", "name", "pid", "tid", "ts", "dur", "args", *ARGS, STACK))


class EventReader:
    """Reads the events of one trace, part by part.

    Attributes:
        names: The names of intervals, and call stacks.
        changes: What was read of memory.
        spans: What was read of intervals.
        failures: What was read of failures.
        malformed: Byte offsets of the events that look like one of these but cannot be read, or that are no JSON.
    """

    def __init__(self) -> None:
        self.names = Names()
        self.clear()

    def clear(self) -> None:
        """Forget all events."""
        self.changes: list[Changes] = []
        self.spans: list[Spans] = []
        self.failures: list[Failure] = []
        self.malformed: list[int] = []

    def add(self, objects: Objects) -> None:
        """Read the next events."""
        text = objects.text
        if not len(objects):
            return
        values = Values(objects, _KEYS)
        phase, name = values.of("ph"), values.of("name")
        instant = np.zeros(len(objects), np.bool_)
        for letter in INSTANT:
            instant |= text_stands_at(text, phase, f'"{letter}"'.encode())
        memory = instant & text_stands_at(text, name, f'"{MEMORY}"'.encode())
        odd = values.with_escapes() | (instant & text_stands_at(text, name, f'"{OUT_OF_MEMORY}"'.encode()))
        kind = self._span_kinds(objects, values.of("cat"), text_stands_at(text, phase, b'"X"'))
        times, timed = thousandths_at(text, values.of("ts"))
        pid, has_pid = wholes_at(text, values.of("pid"), quoted=True)
        tid, has_tid = wholes_at(text, values.of("tid"), quoted=True)
        fine = timed & has_pid & has_tid & (np.abs(pid) <= MOST_THREAD) & (np.abs(tid) <= MOST_THREAD)
        odd |= (memory | (kind >= 0)) & ~fine
        args = values.of("args")
        odd |= self._add_changes(objects, np.flatnonzero(memory & ~odd), values, args, times, pid, tid)
        odd |= self._add_spans(objects, np.flatnonzero((kind >= 0) & ~odd), kind, values, args, times, pid, tid)
        self._add_odd(objects, np.flatnonzero(odd))

    @staticmethod
    def _span_kinds(objects: Objects, category: Positions, lasting: NDArray[np.bool_]) -> NDArray[np.int64]:
        kind = np.full(len(objects), -1, np.int64)
        for text, number in CATEGORIES.items():
            kind[lasting & text_stands_at(objects.text, category, f'"{text}"'.encode())] = number
        return kind

    def _add_changes(
        self,
        objects: Objects,
        chosen: Positions,
        values: Values,
        args: Positions,
        times: NDArray[np.int64],
        pid: NDArray[np.int64],
        tid: NDArray[np.int64],
    ) -> NDArray[np.bool_]:
        """Read the chosen ``[memory]`` events; gives those of all events that are odd."""
        odd = np.zeros(len(objects), np.bool_)
        if not len(chosen):
            return odd
        fields, fine = {}, np.ones(len(chosen), np.bool_)
        for key, places in values.inside(args, ARGS).items():
            at = places[chosen]
            fields[key], read = wholes_at(objects.text, at)
            fields[key][at < 0] = UNKNOWN
            needed = key in {"Device Type", "Device Id", "Bytes"}
            fine &= read if needed else (read | (at < 0))
        fine &= is_change(*(fields[key] for key in ARGS))
        odd[chosen[~fine]] = True
        rows = chosen[fine]
        kind, device, size, addr, allocated, reserved = (fields[key][fine] for key in ARGS)
        has_addr = (addr != UNKNOWN).astype(np.int64)
        self.changes.append(
            Changes(
                objects.begin[rows] + objects.offset,
                times[rows],
                pid[rows],
                tid[rows],
                kind,
                device,
                size,
                np.where(has_addr == 1, addr, 0),
                has_addr,
                allocated,
                reserved,
            )
        )
        return odd

    def _add_spans(
        self,
        objects: Objects,
        chosen: Positions,
        kind: NDArray[np.int64],
        values: Values,
        args: Positions,
        times: NDArray[np.int64],
        pid: NDArray[np.int64],
        tid: NDArray[np.int64],
    ) -> NDArray[np.bool_]:
        """Read the chosen intervals; gives those of all events that are odd."""
        odd = np.zeros(len(objects), np.bool_)
        if not len(chosen):
            return odd
        lasts, fine = thousandths_at(objects.text, values.of("dur")[chosen])
        annotation = kind[chosen] == SpanKind.ANNOTATION
        lasts[annotation] = 0
        begin = values.of("name")[chosen]
        end = string_ends(objects, begin)
        fine = (fine | annotation) & (end >= 0)
        odd[chosen[~fine]] = True
        rows, begin, end = chosen[fine], begin[fine] + 1, end[fine]
        raw = objects.text.tobytes()
        name = self.names.numbers(raw, begin, end)
        stack = np.full(len(rows), -1, np.int64)
        ops = np.flatnonzero(kind[rows] == SpanKind.OP)
        at = values.inside(args, (STACK,))[STACK][rows[ops]]
        ends = string_ends(objects, at)
        with_stack = np.flatnonzero(ends >= 0)
        stack[ops[with_stack]] = self.names.numbers(raw, at[with_stack] + 1, ends[with_stack])
        bad = (name == NO_TEXT) | (stack == NO_TEXT)
        odd[rows[bad]] = True
        self.spans.append(
            Spans(
                objects.begin[rows][~bad] + objects.offset,
                kind[rows][~bad],
                times[rows][~bad],
                (times[rows] + lasts[fine])[~bad],
                pid[rows][~bad],
                tid[rows][~bad],
                name[~bad],
                stack[~bad],
            )
        )
        return odd

    def _add_odd(self, objects: Objects, chosen: Positions) -> None:
        """Read the chosen events one by one."""
        changes: list[tuple[int, ...]] = []
        spans: list[tuple[int, ...]] = []
        for begin, end in zip(objects.begin[chosen].tolist(), objects.end[chosen].tolist(), strict=True):
            place = objects.offset + begin
            found = read_odd(objects.text[begin:end].tobytes(), place, self.names)
            if isinstance(found, ChangeRow):
                changes.append(found.values)
            elif isinstance(found, SpanRow):
                spans.append(found.values)
            elif isinstance(found, Failure):
                self.failures.append(found)
            elif isinstance(found, Malformed):
                self.malformed.append(place)
        if changes:
            self.changes.append(Changes(*np.array(changes, np.int64).T))
        if spans:
            self.spans.append(Spans(*np.array(spans, np.int64).T))
