"""Logs that grow on a screen: of one log its levels and its last windows, of several a row each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from memlens.analyzers.series.curve import Curve
from memlens.comparing.outliers import peers_of, standing_out
from memlens.reports.blocks import Block, Column, Line, ListOptions, Picture, Table, Toned, Value, answered, apart, take
from memlens.reports.lists import growth_line
from memlens.reports.picture import sparkline
from memlens.reports.series import growth_word
from memlens.reports.tables import OPEN
from memlens.reports.terminal import SCREEN, Part, Size, fitted
from memlens.text import LINES, file_names, format_bytes, format_duration, format_share, plural, short_name
from memlens.watching.judging import crossing_claim, holder_claim, is_over, windows_since

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memlens.analyzers.series.growth import Growth
    from memlens.watching.result import LiveWindow, LogState, Watched

_WINDOW = (
    Column("name", "Window", "name"),
    Column("peak_bytes", "Peak", "bytes", strong=True),
    Column("rise_bytes", "Rise", "bytes", drop=1),
    Column("live_bytes", "Live", "bytes"),
    Column("reserved_peak_bytes", "Reserved", "bytes", drop=3),
    Column("allocs", "Allocs", "count", drop=2),
    Column("frees", "Frees", "count", drop=4),
    Column("start_line", "From line", "count", drop=5),
)
_LOG = (
    Column("path", "Log", "name"),
    Column("allocated_bytes", "Now", "bytes"),
    Column("peak_bytes", "Peak", "bytes", strong=True),
    Column("reserved_peak_bytes", "Reserved", "bytes", drop=4),
    Column("levels", "Levels", "word", drop=6),
    Column("window_count", "Windows", "count", drop=3),
    Column("last", "Last window", "name", drop=5),
    Column("growth", "Growth", "word", drop=2),
    Column("state", "State", "word"),
)
#: Characters that the levels of one of several logs are drawn with.
_DRAWN = 16
#: What tries to fit, from the most to the least: rows of the picture, windows, notes, logs.
_PICTURE, _WINDOWS = (10, 8, 6, 4, 3), (30, 20, 15, 10, 7, 5, 3, 2, 1)
_NOTES, _LOGS = (9, 3, 2, 1), (99, 60, 40, 30, 20, 15, 10, 7, 5, 3, 2, 1)
#: The same of the picture and the windows when it has ended.
_PICTURE_AT_END, _WINDOWS_AT_END = (6, 4, 3), (10, 7, 5, 3, 2, 1)
#: What gives way first where all does not fit: the least.
_OF_WINDOWS, _OF_PICTURE, _OF_NOTES = 0, 4, 12
#: Budgets of several logs: the rows of the logs say "over the budget", too.
_OF_BUDGETS = 5
#: A log that was written so many seconds ago is being written.
_FRESH = 10
#: How far a peak is at least from the median that stands out.
_LEAST = 1 << 20


def watch_blocks(seen: Watched, *, picture: bool = False, size: Size = SCREEN) -> list[Block]:
    """Show the verdict, the levels and the last windows, at the end.

    Args:
        seen: What is known of the logs.
        picture: Draw the levels, of one log.
        size: What one screen holds.
    """
    _, *parts = _parts(seen, picture=picture)
    return fitted([Part((answered(seen.answer),)), *parts], size, "")


def live_blocks(seen: Watched, size: Size) -> list[Block]:
    """Show logs that grow on a screen.

    Args:
        seen: What is known of them.
        size: What it holds.
    """
    foot = Line(f"{_read(seen)} Ctrl-C ends.", "hint")
    return fitted([*_parts(seen, picture=True), Part(((None, foot), (foot,)), 2)], size, "")


def _parts(seen: Watched, *, picture: bool) -> Iterator[Part]:
    """Show the state now, then the rest."""
    over = [
        Line(f"{_called(seen, crossing)}{crossing_claim(crossing, seen).text}", "bad", label="Budget")
        for crossing in seen.crossings
    ]
    if seen.ended and len(over) == 1:  # the verdict says it
        over = []
    rows, windows = (_PICTURE_AT_END, _WINDOWS_AT_END) if seen.ended else (_PICTURE, _WINDOWS)
    if len(seen.states) == 1:
        state, growth = seen.states[0], seen.growths[0]
        yield Part((tuple(_head(state, growth, over=is_over(state, seen))),))
        yield from _budgets(over)
        if picture and state.events and len(state.timeline.allocated_bytes):
            drawn = Picture(_curve(state), LINES)
            yield Part((*(apart(replace(drawn, rows=count)) for count in rows), ()), _OF_PICTURE)
        if state.windows:
            yield Part((*(apart(_windows(state, count)) for count in windows), ()), _OF_WINDOWS)
        notes = [*_notes(state)]
    else:
        yield Part((tuple(answered(seen.answer)),))
        yield from _budgets(over, _OF_BUDGETS)
        yield Part(tuple(apart(_logs(seen, count)) for count in _LOGS), _OF_WINDOWS)
        notes = [
            replace(note, text=f"{short_name(name)}: {note.text}")
            for name, state in zip(_names(seen), seen.states, strict=True)
            for note in _notes(state)
        ]
    if notes:
        yield Part((*(apart(*_few(notes, count)) for count in _NOTES), ()), _OF_NOTES)


def _budgets(over: Sequence[Line], weight: int = _OF_NOTES) -> Iterator[Part]:
    if over:
        yield Part(tuple(tuple(_few(over, count, "more budget")) for count in _NOTES), weight)


def _few(notes: Sequence[Line], count: int, what: str = "more note") -> Iterator[Line]:
    yield from notes[:count]
    if (left := len(notes) - count) > 0:
        yield Line(f"… and {plural(left, what)}", "hint", label=" ")


def _head(state: LogState, growth: Growth | None, *, over: bool) -> Iterator[Line]:
    """The level now, the peak, what is reserved, whether it grows, and who holds most of that."""
    yield Line(_allocated(state), "strong", _name(state))
    if state.reserved_peak_bytes is not None:
        yield Line(_reserved(state), label="Reserved")
    if growth is not None:
        line = growth_line(growth)
        later = windows_since(state, growth)
        yield replace(line, text=f"{line.text}; judged {plural(later, 'window')} ago") if later else line
    if held := holder_claim(state, growth, over=over):
        yield Line(held.text, label="Holder")


def _allocated(state: LogState) -> str:
    """Word what is allocated now, and at the peak; or why that is not known."""
    if state.waiting and not state.events:
        return state.waiting
    if state.problem and not state.lines:
        return "nothing was read"
    if state.allocated_bytes is None:
        return f"no event in {plural(state.lines, 'line')} yet" if not state.events else "only chunks are logged"
    where = "" if state.peak_line is None else f" at line {state.peak_line:,}"
    return f"{format_bytes(state.allocated_bytes)} now, peak {format_bytes(state.peak_bytes)}{where}"


def _reserved(state: LogState) -> str:
    peak = state.reserved_peak_bytes or 0
    now = format_bytes(state.reserved_bytes or 0)
    return f"{now}, never more" if state.reserved_bytes == peak else f"{now} now, peak {format_bytes(peak)}"


def _curve(state: LogState) -> Curve:
    """The timeline as what pictures are drawn of; of each stretch the highest level is known."""
    levels = state.timeline.allocated_bytes
    edges = np.arange(len(levels) + 1, dtype=np.int64) * state.timeline.events
    edges = np.minimum(edges, max(state.events, len(levels)))
    known = state.timeline.reserved_bytes
    reserved = np.zeros_like(levels) if known is None else known
    peak = int(edges[int(levels.argmax())]) if int(levels.max()) > 0 else None
    return Curve(edges, levels, levels, reserved, peak, end_line=max(state.lines, 1))


def _windows(state: LogState, count: int) -> Table:
    """The last windows, the open one at the end."""
    shown = state.windows[-count:]
    known = [one for one in _WINDOW if any(getattr(window, one.key) is not None for window in shown)]
    by = f" by {short_name(state.by)}" if state.by else ""
    which = plural(state.window_count, "window")
    if len(shown) < state.window_count:
        which = f"The last {len(shown)} of {which}"
    named = {"name": lambda window: f"{window.name}{OPEN if window.open else ''}"}
    return replace(ListOptions(count).table(f"{which}{by}", known, shown, "window", **named), says_hidden=False)


def _notes(state: LogState) -> Iterator[Line]:
    """Remarks on a log beside its figures."""
    if state.waiting and state.events:
        yield Line(state.waiting, "doubt", label="Waiting")
    if state.ooms:
        yield Line(f"{plural(state.ooms, 'out-of-memory message')}", "bad", label="Failed")
    if state.problem:
        yield Line(state.problem, "doubt", label="Trust")
    if state.malformed:
        looks = plural(state.malformed, "line looks", "lines look")
        yield Line(f"{looks} like an event and cannot be read", "doubt", label="Trust")
    if state.restarts:
        often = plural(state.restarts, "time")
        yield Line(f"the file was replaced by that of another run {often}; figures are of the last one", label="Note")
    if state.rotations:
        often = plural(state.rotations, "time")
        yield Line(f"the log went on in a new file {often}; figures are of all that was read", label="Note")


def _logs(seen: Watched, count: int) -> Table:
    """A row a log: those first that need somebody's look, then the highest peak."""
    names, growths = _names(seen), seen.growths
    exceeded = {(crossing.path, crossing.device) for crossing in seen.crossings}
    known = [k for k, state in enumerate(seen.states) if state.allocated_bytes is not None]
    peaks = np.array([seen.states[k].peak_bytes for k in known], np.int64)
    found = standing_out(peaks, peers_of(peaks, {}, _LEAST), _LEAST) if known else ()
    apart_from_others = {known[one.rank]: one.median for one in found}
    top = max((int(state.timeline.allocated_bytes.max(initial=0)) for state in seen.states), default=0)

    def rank(k: int) -> tuple[bool, bool, int]:
        state = seen.states[k]
        return (state.path, state.device) not in exceeded, not (state.ooms or state.problem), -state.peak_bytes

    rows = []
    for k in sorted(range(len(seen.states)), key=rank):
        state = seen.states[k]
        own: dict[str, Value] = {
            "path": names[k],
            "peak_bytes": None if state.allocated_bytes is None else state.peak_bytes,
            "levels": sparkline(state.timeline.allocated_bytes, _DRAWN, high=max(top, 1)),
            "window_count": state.window_count or None,
            "last": state.windows[-1].name if state.windows else None,
            "growth": _growth_cell(growths[k]),
            "state": _state_cell(seen, state, (state.path, state.device) in exceeded, apart_from_others.get(k)),
        }
        rows.append([own[column.key] if column.key in own else getattr(state, column.key) for column in _LOG])
    used = [index for index in range(len(_LOG)) if index == 0 or any(row[index] not in (None, "") for row in rows)]
    columns = [_LOG[index] for index in used]
    table = take("", columns, [[row[index] for index in used] for row in rows], len(rows), count, "log")
    return replace(table, says_hidden=False)


def _growth_cell(growth: Growth | None) -> Value:
    if (word := growth_word(growth)) != "growing" or growth is None:
        return word
    return Toned(f"+{format_bytes(growth.gained_bytes)}", "bad")


def _state_cell(seen: Watched, state: LogState, exceeded: bool, median: float | None) -> Value:
    """The state of one of several logs, in few words."""
    if exceeded:
        return Toned("over the budget", "bad")
    if state.ooms:
        return Toned("out of memory", "bad")
    if state.waiting or state.problem:
        return state.waiting or state.problem
    if median:
        over = state.peak_bytes - round(median)
        where = "above" if over > 0 else "below"
        return Toned(f"{format_share(abs(over), round(median))} {where} the median", "bad" if over > 0 else "plain")
    return _age(seen, state)


def _age(seen: Watched, state: LogState) -> str:
    """Since when nothing was written; nothing where it is being written."""
    seconds = int(seen.time - state.written)
    if seen.ended or seconds < _FRESH:
        return ""
    return f"quiet for {format_duration((seconds if seconds < 60 else seconds // 60 * 60) * 1_000_000).replace('.00', '').replace(' 00 s', '')}"


def _read(seen: Watched) -> str:
    """How much was read, and since when nothing was written."""
    states = seen.states
    events = sum(state.events for state in states)
    # Of a log with several devices each says how much was read of all of it.
    per_log: dict[str, Any] = {state.path: state for state in states}
    lines = sum(state.lines for state in per_log.values())
    read = sum(state.bytes for state in per_log.values())
    last = max(states, key=lambda state: state.written)
    age = f", {said}" if last.written and (said := _age(seen, last)) else ""
    return f"{format_bytes(read)} in {plural(lines, 'line')} read, {plural(events, 'event')}{age}."


def state_line(seen: Watched, index: int) -> Line:
    """One log in a line, for where there is no screen."""
    state, growth = seen.states[index], seen.growths[index]
    parts = [_allocated(state)]
    if state.reserved_peak_bytes is not None:
        parts.append(f"reserved {_reserved(state)}")
    if state.windows:
        last: LiveWindow = state.windows[-1]
        parts.append(f"{plural(state.window_count, 'window')}, the last {short_name(last.name)}")
    if growth_word(growth) == "growing" and growth is not None:
        later = windows_since(state, growth)
        when = f" ({plural(later, 'window')} ago)" if later else ""
        parts.append(f"growing, +{format_bytes(growth.gained_bytes)}{when}")
    if held := holder_claim(state, growth, over=is_over(state, seen)):
        parts.append(held.text)
    parts += [note.text for note in _notes(state)]
    return Line("; ".join(parts), name=_names(seen)[index])


def _names(seen: Watched) -> list[str]:
    """The name of each log."""
    short = file_names(list(dict.fromkeys(state.path for state in seen.states)))
    return [short[state.path] + (f" [{state.device}]" if state.device else "") for state in seen.states]


def _name(state: LogState) -> str:
    return state.path + (f" [{state.device}]" if state.device else "")


def _called(seen: Watched, crossing: Any) -> str:
    """The log of a crossing, where there are several."""
    if len(seen.states) == 1:
        return ""
    at = [(state.path, state.device) for state in seen.states].index((crossing.path, crossing.device))
    return f"{short_name(_names(seen)[at])}: "
