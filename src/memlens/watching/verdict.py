"""The verdict on logs that grow: what their steps gained so far, which budgets are exceeded, and both in one to three sentences.

Growth is judged as :func:`memlens.analyze` judges it (:mod:`memlens.analyzers.series.trend`), over closed windows alone.  While a log
grows the series is judged again and again, and the beginning of many a series looks like a leak: memory fills up in the first windows,
or the first tooth of a sawtooth is not over yet.  So a budget of growth is called exceeded only where it goes on: among
:data:`FEWEST` windows or more, and where the series was growing already before the last third of what grows.  At the end of a log,
when all of it is read, that judge alone decides; and where the logs are whole, :mod:`memlens.analyzing.verdict` says it, for it knows
which blocks are live.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from memlens.analyzers.series.growth import Growth
from memlens.analyzers.series.trend import MINIMUM, judge
from memlens.analyzing.verdict import window_label
from memlens.results import Answer
from memlens.text import file_names, short_name
from memlens.units import format_bytes, plural
from memlens.watching.result import Crossing
from memlens.windows.windows import BEFORE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from memlens.columns import Ints
    from memlens.gating.limits import Metric
    from memlens.watching.result import LogState, Watched


#: The fewest closed windows of which growth is said to exceed a budget while the log still grows.
FEWEST = 12
#: Series are judged anew after so many times as long as the last judgement took, so that it costs a small part of the work.
_PATIENCE = 20


def crossing_text(crossing: Crossing) -> str:
    """Return a crossing in words: the figure, the budget, and where."""
    what = {"peak": "the peak", "reserved": "what is reserved", "growth": "what the windows gain"}[crossing.metric]
    where = "" if crossing.line is None else f", at line {crossing.line:,}"
    where += "" if crossing.since is None else f", from {short_name(window_label('', crossing.since))} on"
    return f"{what} exceeds {format_bytes(crossing.budget_bytes)}: {format_bytes(crossing.reached_bytes)}{where}"


def growth_of(state: LogState, before: Growth | None = None) -> Growth:
    """How memory develops over the closed windows of a log so far.

    Args:
        state: The log.
        before: What was found before: it may know the name of a window that is no longer kept.
    """
    trend, judged = judge(state.end_live_bytes), len(state.end_live_bytes)
    names = {window.index: window.name for window in state.windows}
    if before is not None and before.since_window is not None and before.since is not None:
        names.setdefault(before.since_window, before.since)
    since, rise = trend.since, trend.rise
    return Growth(
        state.window_count,
        judged,
        (),
        trend.gained_bytes,
        trend.gained_bytes_per_window,
        trend.verdict,
        None if since is None else names.get(since, f"window no. {since + 1:,}"),
        since,
        trend.swing_bytes,
        rose=None if rise is None else rise.how,
        rose_bytes=0 if rise is None else rise.rose_bytes,
    )


def lasting_gain(live: Ints) -> int | None:
    """The bytes that a series gained that grows and goes on growing; ``None`` of one of which that cannot be said yet.

    Args:
        live: The live bytes at the ends of its closed windows so far, int64.
    """
    if len(live) < FEWEST:
        return None
    trend = judge(live)
    if trend.since is None:
        return None
    earlier = len(live) - max((len(live) - trend.since) // 3, 1)
    return trend.gained_bytes if judge(live[:earlier]).verdict == "growing" else None


class Judge:
    """Judges the series of logs where windows have closed, and not so often that it takes much time."""

    def __init__(self) -> None:
        # Of each log by what it is cut and into how many closed windows, its growth, and what is held against its budget.
        self._found: dict[tuple[str, str], tuple[tuple[str, int], Growth, int | None]] = {}
        self._again = 0.0

    def judge(self, states: tuple[LogState, ...], *, final: bool) -> None:
        """Judge those logs that have more closed windows than when they were judged last."""
        began = time.monotonic()
        if began < self._again and not final:
            return
        for state in states:
            by, count = series = state.by, len(state.end_live_bytes)
            before = self._found.get(state.key)
            if not state.repeated or not count or (before is not None and before[0] == series and not final):
                continue
            same = before is not None and before[0][0] == by and before[0][1] <= count
            growth = growth_of(state, before[1] if before is not None and same else None)
            gained = growth.gained_bytes if growth.verdict == "growing" else None
            self._found[state.key] = series, growth, gained if final else lasting_gain(state.end_live_bytes)
        now = time.monotonic()
        self._again = now + _PATIENCE * (now - began)

    def growth(self, state: LogState) -> Growth | None:
        """How memory develops over the closed windows of a log; ``None`` where none is closed, or they are parts of a larger unit of work."""
        found = self._found.get(state.key)
        return found[1] if found is not None and state.repeated and len(state.end_live_bytes) else None

    def gained(self, state: LogState) -> int | None:
        """The bytes that its budget is held against; ``None`` where the series does not grow for sure."""
        return None if self.growth(state) is None else self._found[state.key][2]


def crossings_of(state: LogState, budgets: Mapping[Metric, int], judge: Judge) -> Iterator[Crossing]:
    """The figures of a log that exceed their budgets."""
    growth = judge.growth(state)
    figures: dict[str, tuple[int | None, dict[str, Any]]] = {
        "peak": (state.peak_bytes, {"line": state.peak_line}),
        "reserved": (state.reserved_peak_bytes, {}),
        "growth": (judge.gained(state), {"since": None if growth is None else growth.since}),
    }
    for metric, budget in budgets.items():
        reached, where = figures[metric]
        if reached is not None and reached > budget:
            yield Crossing(*state.key, metric, budget, reached, **where)


def unjudged(states: Sequence[LogState], growths: Sequence[Growth | None], budgets: Iterable[str]) -> Iterator[str]:
    """The budgets that nothing could be held against, and why, in sentences.

    Args:
        states: The logs; of those without an event nothing is said.
        growths: How memory develops over the windows of each.
        budgets: The metrics that have a budget.
    """
    names = _names(states)
    for state, growth in zip(states, growths, strict=True):
        why = {
            "peak": "" if state.allocated_bytes is not None else "no line tells of blocks",
            "reserved": "" if state.reserved_peak_bytes is not None else "no line tells of chunks",
            "growth": _no_growth(state, growth),
        }
        for metric in budgets:
            if state.events and why[metric]:
                yield f"{names[state.key]}: {metric} is not judged, for {why[metric]}"


def _no_growth(state: LogState, growth: Growth | None) -> str:
    """Why growth is not judged; ``""`` where it is."""
    if not state.window_count:
        return "no line that counts steps was found (--by names them)"
    if not state.repeated:
        return "no line counts steps (--by names them)"
    if growth is None or growth.judged < MINIMUM:
        return f"{plural(0 if growth is None else growth.judged, 'closed window')} tell too little"
    return ""


def answer_of(seen: Watched) -> Answer:
    """Word which budget is exceeded, and the state of the logs."""
    first = tuple(_exceeded(seen))
    if seen.analysis is not None:
        answer = seen.analysis.answer
        return Answer((*first, *answer.sentences), "bad" if first else answer.tone)
    bad = any(map(_grows, seen.growths)) or any(state.ooms for state in seen.states)
    sentences = _of_one(seen.states[0], seen.growths[0]) if len(seen.states) == 1 else _of_several(seen)
    return Answer((*first, *sentences), "bad" if first or bad else "plain")


def _grows(growth: Growth | None) -> bool:
    return growth is not None and growth.verdict == "growing"


def _exceeded(seen: Watched) -> Iterator[str]:
    """The first budget that was exceeded, and how many more."""
    if seen.crossings:
        first, more = seen.crossings[0], len(seen.crossings) - 1
        text = f"{crossing_text(first)}{', for a time and not at the end' if _over_again(first, seen) else ''}"
        others = f" ({plural(more, 'more budget')} exceeded)" if more else ""
        if len(seen.states) > 1:
            yield f"{_names(seen.states)[first.path, first.device]}: {text}{others}."
        else:
            yield f"{text[0].upper()}{text[1:]}{others}."


def _over_again(crossing: Crossing, seen: Watched) -> bool:
    """Whether growth that exceeded its budget while the log grew does not at the end, as of a sawtooth that came back."""
    growths = dict(zip((state.key for state in seen.states), seen.growths, strict=True))
    growth = growths.get((crossing.path, crossing.device))
    lasts = growth is not None and growth.verdict == "growing" and growth.gained_bytes > crossing.budget_bytes
    return bool(seen.ended) and crossing.metric == "growth" and not lasts


def _names(states: Sequence[LogState]) -> dict[tuple[str, str], str]:
    """Short and harmless names of logs, by their keys."""
    names = file_names(list(dict.fromkeys(state.path for state in states)))
    return {
        state.key: short_name(names[state.path]) + (f" [{state.device}]" if state.device else "") for state in states
    }


def _of_one(state: LogState, growth: Growth | None) -> list[str]:
    if not state.events:
        return [nothing_of(state)]
    figures = [f"{format_bytes(state.peak_bytes)} allocated"] if state.allocated_bytes is not None else []
    figures += [] if state.reserved_peak_bytes is None else [f"{format_bytes(state.reserved_peak_bytes)} reserved"]
    where = "" if state.peak_line is None else f", at line {state.peak_line:,}"
    words = [f"Peak: {', '.join(figures)}{where}.", _growth(state, growth)]
    failed = f"{plural(state.ooms, 'out-of-memory message')}." if state.ooms else ""
    sentences = [text for text in (failed, *(words[::-1] if _grows(growth) else words)) if text]
    return [*sentences[:2], *_gone(state), *sentences[2:]][:3]


def nothing_of(state: LogState) -> str:
    """Why nothing is known of a log, in a sentence."""
    if state.problem or not state.lines:
        return f"Nothing was read: {state.problem or state.waiting or 'nothing is written yet'}."
    return f"No event of an allocator in {plural(state.lines, 'line')}."


def _growth(state: LogState, growth: Growth | None) -> str:
    if growth is None or growth.judged < MINIMUM:
        return ""
    # What precedes the first window is no window of the series; where it is long gone, there was such a part.
    first = state.windows[0] if state.windows else None
    over = plural(growth.judged - (first is None or first.index > 0 or first.name == BEFORE), "window")
    if growth.verdict == "growing":
        each, since = format_bytes(round(growth.gained_bytes_per_window)), window_label(state.by, growth.since or "")
        return f"Memory grows from {since} on: {each} a window, {format_bytes(growth.gained_bytes)} in all over {over}."
    if growth.verdict == "shrinking":
        return f"Memory shrinks over {over}."
    if growth.rose is not None:
        return f"Memory does not grow steadily over {over}: it rose by {format_bytes(growth.rose_bytes)}."
    swings = f": it swings within ±{format_bytes(growth.swing_bytes)}" if growth.verdict == "swinging" else ""
    return f"Memory does not grow over {over}{swings}."


def _gone(state: LogState) -> list[str]:
    """Why the file of that name does not hold all that was read."""
    if state.restarts:
        count = plural(state.restarts, "time")
        return [f"The file was replaced by that of another run {count}; this is of the last one."]
    if not state.rotations:
        return []
    count = plural(state.rotations, "time")
    return [f"The log went on in a new file {count}, so that earlier parts may be gone; this is of all that was read."]


def _of_several(seen: Watched) -> list[str]:
    names, read = _names(seen.states), plural(len(seen.states), "log")
    known = [state for state in seen.states if state.allocated_bytes is not None]
    if not known:
        return [f"Of {read} none has told of a block."]
    low, high = (pick(known, key=lambda state: state.peak_bytes) for pick in (min, max))
    words = f"Of {read} the highest peak is {format_bytes(high.peak_bytes)} in {names[high.key]}"
    if low.peak_bytes < high.peak_bytes:
        words += f", the lowest {format_bytes(low.peak_bytes)} in {names[low.key]}"
    sentences = [f"{words}."]
    growths = zip(seen.states, seen.growths, strict=True)
    if growing := [names[state.key] for state, growth in growths if _grows(growth) and state in known]:
        more = f" and {len(growing) - 3} more" if len(growing) > 3 else ""
        sentences.insert(0, f"Memory grows in {', '.join(growing[:3])}{more}.")
    if failed := [names[state.key] for state in known if state.ooms]:
        sentences.insert(0, f"{plural(len(failed), 'log')} ran out of memory: {', '.join(failed[:3])}.")
    return sentences[:3]
