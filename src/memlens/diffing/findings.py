"""Findings: groups of alike items, with the lines and the text of the log that go with them, looked up when they are shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    from memlens.windows.windows import Window

    Ints = NDArray[np.int64]

__all__ = ["Runs", "context_lines", "findings_of", "repeated_in"]

#: Findings whose context is looked up at once: a compressed log is read from its start for every look at it.
_TOGETHER = 16
#: Bytes before and after the start of an event's line that are looked at, whatever stands there.
_REACH = 64 << 10
#: Characters of a line that are kept.
_LONGEST = 400


class Runs(NamedTuple):
    """What findings are made from.

    Attributes:
        base: Windows of base's log.
        head: Each one's partner in head's.
        owners: The owners of both runs.
        items: The items of all windows, by window.
        context: Log lines shown on each side of an event.
    """

    base: Sequence[Window]
    head: Sequence[Window]
    owners: Sequence[str]
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
                runs.base[windows[largest]].name if peaks[largest] else None,
                runs.base[windows[0]].name,
                finding,
                Later(_members, runs, items, own),
            )
        )
    # Not as they are grouped: peaks of several windows do not add up.
    return tuple(sorted(rows, key=lambda row: row.weight, reverse=True))


def _findings(runs: Runs, items: Items, groups: Sequence[Ints]) -> Iterator[Finding]:
    firsts = np.array([own[0] for own in groups], np.int64)
    leading = items.take(firsts)
    contexts: dict[int, tuple[ContextLine, ...]] = {}
    for number, (own, member) in enumerate(zip(groups, _members(runs, items, firsts), strict=True)):
        size = int(leading.size[number])
        yield Finding(
            KIND_NAMES[int(leading.kind[number])],
            _named(FATES, leading.fate[number]),
            size,
            _known(leading.requested[number]),
            len(own),
            size * len(own),
            int(items.remaining[own].sum()),
            int(items.peak[own].sum()),
            _known(items.apart[own].max()),
            _known(items.apart_bytes[own].max()),
            _owner(runs, leading, number),
            _named(runs.owners, leading.freed_by[number]),
            member.base,
            member.head,
            ("base", "head")[leading.in_head[number]],
            context=Later(_context, runs, leading, contexts, number),
            members=Later(_members, runs, items, own),
        )


def _known(figure: np.int64) -> int | None:
    """A figure of which -1 is none."""
    return None if figure < 0 else int(figure)


def _named(names: Sequence[str], number: np.int64) -> str | None:
    """One of some names, or none for -1."""
    return None if number < 0 else names[int(number)]


def _context(
    runs: Runs, items: Items, known: dict[int, tuple[ContextLine, ...]], number: int
) -> tuple[ContextLine, ...]:
    """The lines around the event that tells the runs apart, and with them those for its neighbours, which are probably shown together."""
    if number not in known:
        first = number - number % _TOGETHER
        near = np.arange(first, min(first + _TOGETHER, len(items.window)))
        for in_head, windows in enumerate((runs.base, runs.head)):
            wanted = near[items.in_head[near] == in_head]
            lines = context_lines(windows[0].log, items.telling[wanted].tolist(), runs.context)
            known.update(zip(wanted.tolist(), lines, strict=True))
    return known[number]


def _owner(runs: Runs, items: Items, number: int) -> str | None:
    """What an item's allocation is blamed on; where an input with stacks has none of it, what it is instead."""
    if items.owner[number] >= 0:
        return _named(runs.owners, items.owner[number])
    in_head = items.base_alloc[number] < 0
    log, alloc = (runs.head[0].log, items.head_alloc) if in_head else (runs.base[0].log, items.base_alloc)
    return owner_labels(log)[int(owners_of(log, alloc[number : number + 1])[0])]


def _members(runs: Runs, items: Items, at: Ints) -> tuple[Member, ...]:
    """Where the runs allocate and free the blocks of some items; all line numbers are looked up together."""
    items = items.take(at)
    sides = [
        _sides(windows, items.window, alloc, free)
        for windows, alloc, free in (
            (runs.base, items.base_alloc, items.base_free),
            (runs.head, items.head_alloc, items.head_free),
        )
    ]
    return tuple(map(Member, *sides))


def _sides(windows: Sequence[Window], window: Ints, allocs: Ints, frees: Ints) -> Iterator[Side | None]:
    """One run's side of each item; none where it has no ALLOC (-1) of it."""
    events = np.concatenate((allocs, frees))
    lines = Lines(windows[0].log, events[events >= 0].tolist())
    for number, alloc, free in zip(window.tolist(), allocs.tolist(), frees.tolist(), strict=True):
        if alloc < 0:
            yield None
        elif free < 0:
            yield Side(alloc, lines.of(alloc), None, None, "never")
        else:
            freed = "in_window" if free < windows[number].hi else "later"
            yield Side(alloc, lines.of(alloc), free, lines.of(free), freed)


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
    texts = dict(zip(starts, zip(spans, log.source.parts(spans), strict=True), strict=True))
    found: dict[int, tuple[ContextLine, ...]] = {}
    for event, start in offsets.items():
        (begin, stop), text = texts[start]
        line, is_end = numbers.of(event), stop == end or len(text) < stop - begin
        before, after = _around(text, start - begin, each_side, is_start=begin == 0, is_end=is_end)
        first = 0 if line is None else line - len(before)
        lines = enumerate((*before, *after), first)
        found[event] = () if line is None else tuple(ContextLine(n, shown, n == line) for n, shown in lines)
    return [found.get(event, ()) for event in events]


def _around(text: bytes, at: int, each_side: int, *, is_start: bool, is_end: bool) -> tuple[list[str], list[str]]:
    """The lines before a place in a part of a log, where a line begins, and from there on; of the log's start and end, if it holds them."""
    if at >= len(text):
        return [], []
    before = text[:at].split(b"\n")[:-1]
    is_whole = is_start or len(before) > each_side
    before = before[len(before) - min(each_side, len(before)) :]
    after = text[at:].split(b"\n", each_side + 1)
    if len(after) > each_side + 1:
        after.pop()  # more text than wanted
    elif len(after) > 1 and (not after[-1] or (not is_end and len(after[-1]) <= 4 * _LONGEST)):
        after.pop()  # what follows the last line end is no line; or there is more of it, out of reach
    return [_shown(raw, whole=is_whole or k > 0) for k, raw in enumerate(before)], [_shown(raw) for raw in after]


def _shown(raw: bytes, *, whole: bool = True) -> str:
    """A line as text; where its beginning is missing, its end."""
    text = raw.rstrip(b"\r").decode("utf-8", "replace")
    if not whole:
        return "…" + text[-_LONGEST:]
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
