"""Findings: groups of alike items, with the lines and the text of the log that go with them, looked up when they are shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens.analyzers.groups import owner_labels, owners_of
from memlens.analyzers.places import Lines
from memlens.analyzers.result import Later
from memlens.diffing.differences import FATES, KIND_NAMES, Items, group
from memlens.diffing.finding import ContextLine, Finding, Member, Repeated, Side

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.events import EventLog

    Ints = NDArray[np.int64]

__all__ = ["Runs", "context_lines", "findings_of", "repeated_in"]

#: Findings whose context is looked up at once: a compressed log is read from its start for every look at it.
_TOGETHER = 16
#: Bytes before and after the start of an event's line that are looked at, whatever stands there.
_REACH = 64 << 10
#: Characters of a line that are kept.
_LONGEST = 400


@dataclass(frozen=True, eq=False)
class Runs:
    """What findings are made from.

    Attributes:
        base: Base's log.
        head: Head's log.
        owners: The owners of both runs.
        names: The name of each window pair.
        base_ends: The event after each window of base, int64.
        head_ends: The same for head.
        items: The items of all windows, by window.
        context: Log lines shown on each side of an event.
    """

    base: EventLog
    head: EventLog
    owners: Sequence[str]
    names: Sequence[str]
    base_ends: Ints
    head_ends: Ints
    items: Items
    context: int


def findings_of(runs: Runs, window: int) -> tuple[Finding, ...]:
    """The findings of one window pair, the largest effect first."""
    items = runs.items.take(np.arange(*np.searchsorted(runs.items.window, (window, window + 1))))
    return tuple(_findings(runs, items, group(items)))


def repeated_in(runs: Runs, judged: Sequence[bool]) -> tuple[Repeated, ...]:
    """The findings of all window pairs that are judged, alike ones as one, the largest effect first."""
    items = runs.items.take(np.flatnonzero(np.array(judged)[runs.items.window]))
    groups = group(items)
    # Of each group the items of the first window that has one; its finding stands for all.
    firsts = [own[items.window[own] == items.window[own[0]]] for own in groups]
    rows = []
    for own, finding in zip(groups, _findings(runs, items, firsts), strict=True):
        windows, first = np.unique(items.window[own], return_index=True)
        peaks = np.add.reduceat(items.peak[own], first)
        largest = int(np.abs(peaks).argmax())
        rows.append(
            Repeated(
                len(windows),
                len(own),
                int(items.size[own].sum()),
                int(items.remaining[own].sum()),
                int(peaks[largest]),
                runs.names[int(windows[largest])] if peaks[largest] else None,
                runs.names[int(windows[0])],
                finding,
            )
        )
    # Not as they are grouped: peaks of several windows do not add up.
    return tuple(sorted(rows, key=lambda row: row.weight, reverse=True))


def _findings(runs: Runs, items: Items, groups: Sequence[Ints]) -> Iterator[Finding]:
    leading = items.take(np.array([own[0] for own in groups], np.int64))
    sides, contexts = _Sides(runs, leading), _Contexts(runs, leading)
    for number, own in enumerate(groups):
        size, member = int(leading.size[number]), sides.member(number)
        yield Finding(
            KIND_NAMES[int(leading.kind[number])],
            FATES[int(leading.fate[number])],
            size,
            _known(leading.requested[number]),
            len(own),
            size * len(own),
            int(items.remaining[own].sum()),
            int(items.peak[own].sum()),
            _known(items.apart[own].max()),
            _known(items.apart_bytes[own].max()),
            _owner(runs, leading, number),
            _name(runs, leading.freed_by[number]),
            member.base,
            member.head,
            contexts.events[number][0],
            context=Later(contexts.of, number),
            members=Later(_members, runs, items, own),
        )


def _known(figure: np.int64) -> int | None:
    """A figure of which -1 is none."""
    return None if figure < 0 else int(figure)


class _Contexts:
    """The log lines around the events that tell the runs apart, one item an entry."""

    def __init__(self, runs: Runs, items: Items) -> None:
        self._runs = runs
        self.events = [_telling(items, number) for number in range(len(items.window))]
        self._lines: dict[int, tuple[ContextLine, ...]] = {}

    def of(self, number: int) -> tuple[ContextLine, ...]:
        """The lines for one item, and with them those for its neighbours, which are probably shown together."""
        if number not in self._lines:
            first = number - number % _TOGETHER
            for side, log in (("base", self._runs.base), ("head", self._runs.head)):
                near = range(first, min(first + _TOGETHER, len(self.events)))
                wanted = [k for k in near if self.events[k][0] == side]
                events = [self.events[k][1] for k in wanted]
                self._lines.update(zip(wanted, context_lines(log, events, self._runs.context), strict=True))
        return self._lines[number]


def _telling(items: Items, number: int) -> tuple[str, int]:
    """The event that tells the runs apart, and in which of them: the FREE that only one has, or has sooner, or else an ALLOC."""
    kind = KIND_NAMES[int(items.kind[number])]
    if kind in ("missing_free", "extra_free", "late_free", "early_free"):
        in_head = kind in ("extra_free", "early_free")
    else:
        in_head = bool(items.base_alloc[number] < 0 or (kind == "elsewhere" and items.peak[number] > 0))
    of_free = not kind.endswith(("only_head", "only_base", "elsewhere"))
    base, head = (items.base_free, items.head_free) if of_free else (items.base_alloc, items.head_alloc)
    return ("head", int(head[number])) if in_head else ("base", int(base[number]))


def _members(runs: Runs, items: Items, own: Ints) -> tuple[Member, ...]:
    sides = _Sides(runs, items.take(own))
    return tuple(sides.member(number) for number in range(len(own)))


def _owner(runs: Runs, items: Items, number: int) -> str | None:
    """What an item's allocation is blamed on; where an input with stacks has none of it, what it is instead."""
    if items.owner[number] >= 0:
        return _name(runs, items.owner[number])
    in_head = items.base_alloc[number] < 0
    log, alloc = (runs.head, items.head_alloc) if in_head else (runs.base, items.base_alloc)
    return owner_labels(log)[int(owners_of(log, alloc[number : number + 1])[0])]


def _name(runs: Runs, owner: np.int64) -> str | None:
    return None if owner < 0 else runs.owners[int(owner)]


class _Sides:
    """Where the runs allocate and free the blocks of some items; all line numbers are looked up together."""

    def __init__(self, runs: Runs, items: Items) -> None:
        self._sides = []
        for log, alloc, free, ends in (
            (runs.base, items.base_alloc, items.base_free, runs.base_ends),
            (runs.head, items.head_alloc, items.head_free, runs.head_ends),
        ):
            events = np.concatenate((alloc, free))
            lines = Lines(log, events[events >= 0].tolist())
            self._sides.append((alloc.tolist(), free.tolist(), ends[items.window].tolist(), lines))

    def member(self, number: int) -> Member:
        """The two sides of one item."""
        base, head = (_side(alloc[number], free[number], end[number], lines) for alloc, free, end, lines in self._sides)
        return Member(base, head)


def _side(alloc: int, free: int, end: int, lines: Lines) -> Side | None:
    if alloc < 0:
        return None
    if free < 0:
        return Side(alloc, lines.of(alloc), None, None, "never")
    return Side(alloc, lines.of(alloc), free, lines.of(free), "in_window" if free < end else "later")


def context_lines(log: EventLog, events: Sequence[int], each_side: int) -> list[tuple[ContextLine, ...]]:
    """The log lines around the line of each of some events, that line among them.

    Of a long line its beginning is kept, with ``…`` for the rest (its end, where it begins out of reach); beyond a line that is out of
    reach (64 KiB from the event) there is none.  Bytes that are no UTF-8 become U+FFFD; all else is as it stands in the log.

    Args:
        log: The log.
        events: Indices of events, in any order.
        each_side: Lines wanted before and after.

    Returns:
        For each event the lines in file order; none where the text cannot be read again or told, and for opening blocks.

    Raises:
        InputError: The text of the log is no longer there.
    """
    if not log.source.rereadable:
        return [() for _ in events]
    offsets = {event: int(log.offset[event]) for event in dict.fromkeys(events) if event >= log.facts.opening}
    numbers = Lines(log, offsets)
    # What was written to the log after it was read is no part of it.
    end = log.facts.bytes or None
    starts = sorted(set(offsets.values()))
    spans = [(max(start - _REACH, 0), start + _REACH if end is None else min(start + _REACH, end)) for start in starts]
    parts = {
        start: _Part(text, begin, begin == 0, stop == end or len(text) < stop - begin)
        for start, (begin, stop), text in zip(starts, spans, log.source.parts(spans), strict=True)
    }
    found: dict[int, tuple[ContextLine, ...]] = {}
    for event, start in offsets.items():
        line = numbers.of(event)
        found[event] = () if line is None else _around(parts[start], start, line, each_side)
    return [found.get(event, ()) for event in events]


class _Part(NamedTuple):
    """A part of a log, cut anywhere: its first byte's offset, and whether the log begins with it, and ends with it."""

    text: bytes
    offset: int
    is_start: bool
    is_end: bool


def _around(part: _Part, start: int, line: int, each_side: int) -> tuple[ContextLine, ...]:
    """The lines around the one that begins at offset ``start`` and has number ``line``."""
    at = start - part.offset
    if at >= len(part.text):
        return ()
    before = part.text[:at].split(b"\n")[:-1]
    is_whole = part.is_start or len(before) > each_side
    before = before[len(before) - min(each_side, len(before)) :]
    after = part.text[at:].split(b"\n", each_side + 1)
    if len(after) > each_side + 1:
        after.pop()  # more text than wanted
    elif len(after) > 1 and (not after[-1] or (not part.is_end and len(after[-1]) <= 4 * _LONGEST)):
        after.pop()  # what follows the last line end is no line; or there is more of it, out of reach
    shown = [_shown(raw, whole=is_whole or k > 0) for k, raw in enumerate(before)] + [_shown(raw) for raw in after]
    first = line - len(before)
    return tuple(ContextLine(first + k, text, first + k == line) for k, text in enumerate(shown))


def _shown(raw: bytes, *, whole: bool = True) -> str:
    """A line as text; where its beginning is missing, its end."""
    text = raw.rstrip(b"\r").decode("utf-8", "replace")
    if not whole:
        return "…" + text[-_LONGEST:]
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
