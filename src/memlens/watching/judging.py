"""What is to be said of logs that grow: what their steps gained so far, which budgets are exceeded, and what follows.

Growth is judged as :func:`memlens.analyze` judges it (:mod:`memlens.analyzers.series.trend`), over closed windows alone.  While a log
grows the series is judged again and again, and the beginning of many a series looks like a leak: memory fills up in the first windows,
or the first tooth of a sawtooth is not over yet.  So a budget of growth is called exceeded only where it goes on: among
:data:`FEWEST` windows or more, and where the series was growing already before the last third of what grows.  At the end of a log,
when all of it is read, that judge alone decides; and where the logs are whole, :mod:`memlens.analyzing.claims` has the claims, for it knows
which blocks are live.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from memlens.analyzers.series.growth import Growth, of_levels
from memlens.analyzers.series.shapes import MINIMUM
from memlens.analyzers.series.trend import judge
from memlens.analyzing.claims import growth_claim
from memlens.claims.claim import Claim, Weight, claim, logs_peaks
from memlens.claims.roles import variable_of
from memlens.text import file_names, plural, short_name
from memlens.watching.result import Crossing
from memlens.windows.windows import BEFORE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from memlens.claims.claim import Tone
    from memlens.columns import Ints
    from memlens.gating.limits import Metric
    from memlens.watching.result import LogState, Watched


#: The fewest closed windows of which growth is said to exceed a budget while the log still grows.
FEWEST = 12
#: Series are judged anew after so many times as long as the last judgement took, so that it costs a small part of the work.
_PATIENCE = 20


def crossing_claim(crossing: Crossing, seen: Watched | None = None, **more: Any) -> Claim:
    """That a figure exceeds its budget, and where, and whether it still does as the logs are now; ``more`` are further values."""
    passed = seen is not None and _passed(crossing, seen)
    return claim("budget_exceeded", Weight.BUDGET, crossing, tone="bad", passed=passed, **more)


def growth_of(state: LogState, before: Growth | None = None) -> Growth:
    """How memory develops over the closed windows of a log so far.

    Args:
        state: The log.
        before: What was found before: it may know the name of a window that is no longer kept.
    """
    live, first = state.end_live_bytes, state.windows[0] if state.windows else None
    # What precedes the first window is no window of the series; where it is long gone, there was such a part.
    start = int(len(live) > 1 and (first is None or first.index > 0 or first.name == BEFORE))
    names = {window.index: window.name for window in state.windows}
    if before is not None and before.since_window is not None and before.since is not None:
        names.setdefault(before.since_window, before.since)
    found = of_levels(live, start, lambda window: names.get(window, f"window no. {window + 1:,}"))
    return Growth(state.window_count, len(live) - start, (), **found)


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
        """How memory developed over the closed windows of a log when it was judged last.

        ``None`` where none was closed, where they are parts of a larger unit of work, or where the log was cut otherwise then.
        """
        if (found := self._found.get(state.key)) is None or not state.repeated:
            return None
        (by, count), growth, _ = found
        return growth if by == state.by and count <= len(state.end_live_bytes) else None

    def gained(self, state: LogState) -> int | None:
        """The bytes that its budget is held against; ``None`` where the series does not grow for sure."""
        return None if self.growth(state) is None else self._found[state.key][2]


def crossings_of(state: LogState, budgets: Mapping[Metric, int], judge: Judge) -> Iterator[Crossing]:
    """The figures of a log that exceed their budgets."""
    growth = judge.growth(state)
    figures: dict[str, tuple[int | None, dict[str, Any]]] = {
        "peak": (state.peak_bytes, {"line": state.exceeded.get("peak")}),
        "reserved": (state.reserved_peak_bytes, {"line": state.exceeded.get("reserved")}),
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
                yield f"{short_name(names[state.key])}: {metric} is not judged, for {why[metric]}"


def _no_growth(state: LogState, growth: Growth | None) -> str:
    """Why growth is not judged; ``""`` where it is."""
    if not (state.window_count and state.repeated):
        found = "only parts of steps were found" if state.window_count else "no step lines were found"
        return f"{found} (use --by)" if state.lines > state.events else found
    if growth is None or growth.judged < MINIMUM:
        judged = 0 if growth is None else growth.judged
        return f"{plural(judged, 'closed window tells', 'closed windows tell')} too little"
    return ""


def claims_of(seen: Watched) -> Iterator[Claim]:
    """Which budget is exceeded, and the state of the logs."""
    yield from _exceeded(seen)
    if seen.analysis is not None:
        yield from seen.analysis.claims
    elif len(seen.states) == 1:
        held = holder_claim(seen.states[0], seen.growths[0], over=is_over(seen.states[0], seen))
        yield from _of_one(seen.states[0], seen.growths[0], held)
    else:
        yield from _of_several(seen)


def holder_claim(state: LogState, growth: Growth | None, *, over: bool) -> Claim | None:
    """Who held half of what a log gained or more when the recorder looked last; else, of one that needs too much, who held most.

    Args:
        state: The log.
        growth: How memory develops over its windows.
        over: Its peak is over its budget.
    """
    if not state.walks or not (now := state.walks[-1]).held:
        return None
    values: dict[str, Any] = {"line": now.line, "live_bytes": now.live_bytes if now.all_known else None}
    weight = Weight.FAILURE if state.ooms else Weight.PEAK
    holder, since = next(iter(now.held)), growth.since_window if growth is not None and _grows(growth) else None
    found = over or bool(state.ooms)
    if before := next((walk for walk in state.walks[:-1] if since is not None and walk.window >= since), None):
        most = max(now.held, key=lambda name: now.gained(name, before))
        gained = now.gained(most, before)
        if 0 < now.live_bytes - before.live_bytes <= 2 * gained:
            holder, weight, found = most, Weight.GROWTH, True
            values |= {"more_bytes": gained, "since_line": before.line}
    held_bytes, blocks = now.held[holder]
    values |= {"holder": variable_of(holder), "held_bytes": held_bytes, "blocks": blocks}
    return Claim("held_then", weight, values) if found else None


def is_over(state: LogState, seen: Watched) -> bool:
    """Whether the peak of a log is over its budget."""
    return any((one.path, one.device, one.metric) == (*state.key, "peak") for one in seen.crossings)


def _grows(growth: Growth | None) -> bool:
    return growth is not None and growth.verdict == "growing"


def _exceeded(seen: Watched) -> Iterator[Claim]:
    """The first budget that was exceeded, and how many more."""
    if seen.crossings:
        first, more = seen.crossings[0], len(seen.crossings) - 1
        log = _names(seen.states)[first.path, first.device] if len(seen.states) > 1 else None
        yield crossing_claim(first, seen, log=log, more=more or None)


def _passed(crossing: Crossing, seen: Watched) -> bool:
    """Whether what exceeded its budget no longer does: that of a run that was replaced, and, at the end, growth of a sawtooth that came back."""
    key = crossing.path, crossing.device
    ((state, growth),) = (one for one in zip(seen.states, seen.growths, strict=True) if one[0].key == key)
    gained = growth.gained_bytes if growth is not None and growth.verdict == "growing" else None
    now = {"peak": state.peak_bytes, "reserved": state.reserved_peak_bytes, "growth": gained}[crossing.metric]
    return bool(seen.ended or crossing.metric != "growth") and (now is None or now <= crossing.budget_bytes)


def _names(states: Sequence[LogState]) -> dict[tuple[str, str], str]:
    """Names of logs, by their keys."""
    names = file_names(list(dict.fromkeys(state.path for state in states)))
    return {state.key: names[state.path] + (f" [{state.device}]" if state.device else "") for state in states}


def _of_one(state: LogState, growth: Growth | None, held: Claim | None) -> Iterator[Claim]:
    if not state.events:
        yield nothing_claim(state)
        return
    if state.ooms:
        yield claim("oom_messages", Weight.FAILURE, tone="bad", messages=state.ooms)
    if state.allocated_bytes is not None:
        # What is reserved now is not what was reserved at the peak, which is not kept.
        yield claim("peak", Weight.PEAK, peak_bytes=state.peak_bytes, line=state.peak_line)
    else:
        yield claim("peak", Weight.PEAK, reserved_bytes=state.reserved_peak_bytes)
    if growth is not None and growth.judged >= MINIMUM:
        told = growth_claim(growth, unit="window")
        yield told
        if later := windows_since(state, growth):
            names = {window.index: window.name for window in state.windows}
            yield claim("judged_before", told.weight, later=later, window=names.get(growth.windows - 2))
    if held is not None:
        yield held
    # Why the file of that name does not hold all that was read.
    if state.restarts:
        yield claim("log_replaced", Weight.LIMITS, times=state.restarts)
    elif state.rotations:
        yield claim("log_rotated", Weight.LIMITS, times=state.rotations)


def windows_since(state: LogState, growth: Growth) -> int:
    """How many windows closed since growth was judged."""
    return state.window_count - growth.windows


def nothing_claim(state: LogState) -> Claim:
    """Why nothing is known of a log."""
    tone: Tone = "bad" if state.ooms else "plain"
    if state.problem or not state.lines:
        return claim("nothing_read", Weight.PEAK, tone=tone, why=state.problem or state.waiting or None)
    return claim("no_events_yet", Weight.PEAK, state, tone=tone)


def _of_several(seen: Watched) -> Iterator[Claim]:
    names, count = _names(seen.states), len(seen.states)
    known = [state for state in seen.states if state.allocated_bytes is not None]
    failed = [names[state.key] for state in known if state.ooms]
    growths = zip(seen.states, seen.growths, strict=True)
    grows = [names[state.key] for state, growth in growths if _grows(growth) and state in known]
    tone: Tone = "bad" if any(state.ooms for state in seen.states) or any(map(_grows, seen.growths)) else "plain"
    if not known:
        yield claim("no_blocks_yet", Weight.PEAK, tone=tone, count=count)
        return
    if failed:
        yield claim("logs_out_of_memory", Weight.FAILURE, tone=tone, count=len(failed), logs=failed)
    if grows:
        yield claim("logs_growing", Weight.GROWTH, tone=tone, logs=grows)
        both = zip(seen.states, seen.growths, strict=True)
        if later := max(
            windows_since(state, growth) for state, growth in both if growth is not None and _grows(growth)
        ):
            yield claim("judged_before", Weight.GROWTH, later=later)
    yield logs_peaks([(state.peak_bytes, names[state.key]) for state in known], count, tone)
