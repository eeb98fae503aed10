"""Judges of claims on single runs: each is computed again from the lines or entries of the file (:mod:`raw_runs`), with nothing of memlens.

A judge of a kind is added with ``@of(kind, …)``; it fails by an assertion.  Every kind of claim has a judge, here or in :mod:`compared_judge`,
or stands in :data:`NO_FIGURE` or, till it has one, in :data:`UNJUDGED`.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

from raw_runs import Failure, RawRun, in_common
from whatif_judge import Requests

Values: TypeAlias = Mapping[str, Any]
Judge: TypeAlias = Callable[[Values, RawRun], None]
JUDGES: dict[str, Judge] = {}
#: Kinds without a figure: they say which run the next claims are about, why nothing is claimed, or that a figure is in doubt.
NO_FIGURE = {
    "device": "names a device",
    "log_cut_short": "says that the log ends too early",
    "nothing_read": "says why there is nothing",
    "replay_differs": "says why nothing is claimed",
    "nothing_compared": "says why nothing is claimed",
    "no_window_judged": "says why nothing is claimed",
    "none_read": "says why nothing is claimed",
    "not_judged": "says why nothing is claimed",
    "figures_unjudged": "says why nothing is claimed",
    "peak_may_be_earlier": "says that a figure is in doubt",
    "peak_may_be_higher": "says that a figure is in doubt",
    "may_be_higher": "says that a figure is in doubt",
    "held_and_not_needed": "says what a figure is not",
    "regression": "heads the claims on figures",
    "no_figure": "says that there is none",
    "logs_in_doubt": "counts logs that say so themselves",
    "logs_not_analyzed": "counts logs that were refused",
}
#: Kinds with figures that no judge works out, and why.
UNJUDGED = {
    "approximate": "a bound on what only the exact alignment would tell",
    "log_replaced": "counts what happens to a file, which its lines do not tell",
    "log_rotated": "counts what happens to a file, which its lines do not tell",
}
#: The fewest windows over which growth is judged, and from which a pile comes.
FEWEST, PILE = 4, 3


def of(*kinds: str) -> Callable[[Judge], Judge]:
    """Make a function the judge of some kinds."""

    def add(judge: Judge) -> Judge:
        JUDGES.update(dict.fromkeys(kinds, judge))
        return judge

    return add


def judge(claims: Iterable[Values], run: RawRun) -> Counter[str]:
    """Judge claims as they stand in JSON; how many of which kind there was a judge for."""
    seen: Counter[str] = Counter()
    run.claims = [*claims]
    run.later = next((claim["later"] for claim in run.claims if claim["kind"] == "judged_before"), 0)
    for claim in run.claims:
        assert claim["text"]
        assert claim["weight"] >= 0
        if claim["kind"] in JUDGES:
            JUDGES[claim["kind"]](claim, run)
            seen[claim["kind"]] += 1
    return seen


# -- levels --------------------------------------------------------------------------------------------------------------------


def _bounds(v: Values, run: RawRun) -> tuple[int, int]:
    return run.windows[v["window"]] if run.by and "window" in v else run.bounds


def _entries(v: Values, run: RawRun) -> None:
    assert v.get("entries", not run.lines) == (not run.lines)


@of("peak")
def _peak(v: Values, run: RawRun) -> None:
    lo, hi = _bounds(v, run)
    level, levels = ("peak_bytes", run.allocated) if "peak_bytes" in v else ("reserved_bytes", run.reserved)
    high, at = run.highest(lo, hi, levels)
    assert v[level] == high
    assert v.get("line") == run.place(at)
    assert v.get("at_start", False) == (at is None)
    assert level == "peak_bytes" or not any(one.kind == "alloc" for one in run.events)
    if level == "peak_bytes" and "reserved_bytes" in v:
        assert v["reserved_bytes"] == run.reserved[lo if at is None else at + 1]
    carried = run.allocated[lo] if run.asked or (run.by and "window" in v) else 0
    assert v.get("rise_bytes", 0) == (high - carried if carried else 0)
    assert v.get("snapshot", False) == run.snapshot
    if "since_recording" in v:
        assert v["since_recording"] == (run.opening > 0)
    if "earlier_unknown" in v:
        assert v["earlier_unknown"] == any(_unknown_frees(run))
    _entries(v, run)
    assert v.get("series", False) == ("window" in v and run.asked is None)
    if v.get("series"):
        assert high == max(run.highest(*each, levels)[0] for each in run.windows.values())


@of("reserved_peak", "reserved_idle")
def _reserved_peak(v: Values, run: RawRun) -> None:
    lo, hi = _bounds(v, run)
    most, at = run.highest(lo, hi, run.reserved)
    assert (v["reserved_peak_bytes"], v.get("line")) == (most, run.place(at))
    _entries(v, run)
    high, where = run.highest(lo, hi, run.allocated)
    if v["kind"] == "reserved_idle":
        assert v["peak_bytes"] == high
        assert 2 * (most - high) >= most
        if "setting" in v:  # how many chunks are taken depends a little on where they lie
            served = Requests(run).served(v["setting"])[0]
            assert v["needs_bytes"] <= v["needs_most_bytes"] < most
            assert Requests(run).completes(v["setting"], v["needs_most_bytes"])
            assert abs(served.taken - v.get("chunks", served.taken)) <= served.taken / 10
    elif "window" not in v:
        assert 20 * most >= 21 * run.reserved[lo if where is None else where + 1]


def _unknown_frees(run: RawRun) -> list[int]:
    known = {*run.partner.values()}
    return [k for k, one in enumerate(run.events) if one.kind == "free" and one.block is not None and k not in known]


def _peak_of(v: Values, run: RawRun) -> int:
    """The event right after which the blocks are live that a claim on a peak is about."""
    windows = run.windows.values() if run.by and run.asked is None and v["peak_bytes"] != max(run.allocated) else ()
    peaks = [(lo, run.highest(lo, hi, run.allocated)) for lo, hi in [run.bounds, *windows]]
    lo, (_, at) = next(one for one in peaks if one[1][0] == v["peak_bytes"])
    return lo - 1 if at is None else at


@of("largest_at_peak")
def _largest(v: Values, run: RawRun) -> None:
    live = run.live_after(_peak_of(v, run))
    by_size = "block_bytes" in v
    groups: dict[Any, list[int]] = {}
    for k in live:
        one = run.events[k]
        groups.setdefault(one.size if by_size else _whose(one.owner, opening=one.place is None), []).append(one.size)
    # Of a state without a history nothing is said of what came before it.
    key = v["block_bytes"] if by_size else v.get("owner", "")
    totals = {name: sum(sizes) for name, sizes in groups.items() if name is not None}
    known = not (run.uncounted and v.get("before_input"))
    assert (v["total_bytes"], v.get("blocks")) == (totals.get(key), len(groups.get(key, ())) if known else None)
    assert v["total_bytes"] == max(totals.values())
    if "holder" in v:
        theirs = [k for k in live if _whose(run.events[k].owner, opening=run.events[k].place is None) == key]
        assert in_common(v["holder"]) in _held_by(run, theirs, v["total_bytes"] // 2 + 1)
        assert v["held_in_part"] == _others_hold(run, theirs, v["holder"])
    assert v.get("ties", 0) == [*totals.values()].count(v["total_bytes"]) - 1
    if v.get("before_input"):
        assert v.get("no_stack", False) == (len(totals) > 1 and known)
    if by_size:
        owned = sum(run.events[k].size for k in live if _whose(run.events[k].owner, opening=False))
        assert 2 * owned <= v["peak_bytes"]


@of("by_role")
def _by_role(v: Values, run: RawRun) -> None:
    event = _peak_of(v, run)
    if v["told_by"] != "holders":  # by rules, whose truth is in tests/analyzers/test_roles.py
        assert v["peak_bytes"] >= sum(v["roles"].values()) >= 3 * min(v["roles"].values()) * (len(v["roles"]) == 3)
        assert all(10 * size >= v["peak_bytes"] for size in v["roles"].values())
        return
    totals = run.roles_after(event)
    large = [size for _, size in totals.most_common(3) if 10 * size >= v["peak_bytes"]]
    assert [*v["roles"].values()] == large
    assert all(totals[role] == size for role, size in v["roles"].items())
    assert 2 * totals.total() >= v["peak_bytes"]


@of("exists_twice")
def _twice(v: Values, run: RawRun) -> None:
    """What is there twice goes at the most; of gradients in logs without names it is counted again, with small blocks that are no parameters'."""
    event = _peak_of(v, run)
    assert v["peak_bytes"] - v["total_bytes"] <= v["peak_without_bytes"] <= v["peak_bytes"] * 19 / 20
    assert v.get("at_most", False) == (v["what"] == "half_weights")
    if v["what"] != "gradients" or not run.by or any(run.held_by(k) for k in run.live_after(event)):
        return
    starts = [lo for lo, _ in run.windows.values()][1:]
    last = max(k for k, one in enumerate(run.events) if one.kind == "alloc")
    born = [(k, run.partner.get(k, last + 1)) for k, one in enumerate(run.events) if one.kind == "alloc"]
    stays = Counter(run.events[k].size for k, end in born if k < starts[0] and end > last)
    # An optimizer leaves two blocks of each parameter in the first step, or none.
    second = starts[1] if len(starts) > 1 else len(run.events)
    states = Counter(run.events[k].size for k, end in born if starts[0] <= k < second and end > last)
    if any(states[size] >= 2 for size in stays):
        stays = Counter({size: min(count, states[size] // 2) for size, count in stays.items()})
    # Of the sizes of what stays, what a step makes and leaves to the next; that of the last step but one may go with the program.
    made = ((bisect(starts, k), k, end) for k, end in born if k >= starts[0] and run.events[k].size in stays)
    left = ((step, k, end) for step, k, end in made if step < len(starts) and starts[step] < end)
    # Of as many as stay those that go first; a batch goes at the end of a step.
    first = Counter[tuple[int, int]]()
    old = []
    for step, k, end in sorted(left, key=lambda one: one[2]):
        first[step, run.events[k].size] += 1
        if first[step, run.events[k].size] <= stays[run.events[k].size] and (end <= last or step == len(starts) - 1):
            old.append((starts[step], k, end))
    there = sum(run.events[k].size for begin, k, end in old if begin <= event < end)
    levels = [*run.allocated]
    for begin, k, end in old:
        for at in range(begin, min(end, last + 1)):
            levels[at + 1] -= run.events[k].size
    assert 0 <= there - v["total_bytes"] <= v["total_bytes"] / 100
    assert abs(max(levels) - v["peak_without_bytes"]) <= v["peak_bytes"] / 100
    assert v["total_bytes"] % 256 == v["peak_without_bytes"] % 256 == 0


@of("activations")
def _activations(v: Values, run: RawRun) -> None:
    live = run.live_after(_peak_of(v, run))
    if run.holders:
        assert v.get("saved_bytes", 0) in (0, sum(run.events[k].size for k in live if run.role_of(k) == "saved"))
    if "owner" in v:
        assert 0 < v["total_bytes"] <= v["saved_bytes"] <= v["peak_bytes"]
        theirs = [run.events[k] for k in live if v["owner"] in run.events[k].call.split(" < ")]
        assert not theirs or v["total_bytes"] <= sum(one.size for one in theirs)
    if "layers" in v:  # by replay, whose truth is in tests/analyzers/test_activations.py
        assert v["layers"] >= 2
        assert 10 * v["recomputed_peak_bytes"] <= 9 * v["peak_bytes"]


#: How a holder ends that no walk saw.
UNSEEN = " that no walk saw"


def _held_by(run: RawRun, blocks: Iterable[int], least: int) -> set[str]:
    """Who holds so many bytes of some blocks, their keys and indices left aside, as sentences name them."""
    found = Counter[str]()
    for k in blocks:
        if name := run.held_by(k):
            found[name] += run.events[k].size
    return {name for name, held in found.items() if held >= least}


def _others_hold(run: RawRun, blocks: Iterable[int], holder: str) -> bool:
    """Whether somebody else was seen to hold one of some blocks."""
    seen = (k for k in blocks if not run.holders.get(k, UNSEEN).endswith(UNSEEN))
    return any(run.held_by(k) != in_common(holder) for k in seen)


def _whose(owner: str | None, *, opening: bool) -> str | None:
    """A label; ``""`` for blocks without a stack from before the input, ``None`` where no owner is known."""
    if opening and not owner:
        return ""
    return "(no stack)" if owner == "" else owner


@of("events", "no_event")
def _events(v: Values, run: RawRun) -> None:
    lo, hi = run.bounds
    assert hi - lo == v.get("events", 0)


# -- what is left --------------------------------------------------------------------------------------------------------------


@of("live_at_end", "nothing_live_at_end")
def _live_at_end(v: Values, run: RawRun) -> None:
    # What is allocated at an address that is live already leaves the block before it without a FREE.
    never = [one.size for k, one in enumerate(run.events) if one.kind == "alloc" and k not in run.partner]
    assert v.get("live_bytes", 0) == sum(never)
    assert v.get("blocks", 0) == (0 if run.uncounted else len(never))
    last = max(k for k, one in enumerate(run.events) if one.kind == "alloc")
    freed = sum(one.size for one in run.events[last:] if one.kind == "free")
    assert v.get("exit_bytes", freed) == freed
    if "grows" in v:
        kept = _kept(run) if any(claim["kind"] in ("piling_up", "grown_by") for claim in run.claims) else {}
        late = Counter(run.events[k].size for k in (_left(run) if kept else ()) if run.partner[k] > last)
        assert v["grows"] == (bool(kept) and all(late[size] >= count for size, count in kept.items()))


def _grows(run: RawRun) -> bool:
    return any(claim["kind"] == "growing" for claim in run.claims)


def _since(run: RawRun) -> str:
    """The window from which on it grows, as a claim before has it."""
    (since,) = (str(claim["since"]) for claim in run.claims if claim["kind"] in ("growing", "grows"))
    return since


@of("held_in_window", "nothing_held_in_window")
def _held(v: Values, run: RawRun) -> None:
    lo, hi = run.bounds
    born = [k for k in range(lo, hi) if run.events[k].kind == "alloc"]
    held = [run.events[k].size for k in born if run.partner.get(k, hi) >= hi]
    assert (v.get("blocks", 0), v.get("held_bytes", 0)) == (len(held), sum(held))


# -- how it ended --------------------------------------------------------------------------------------------------------------


@of("run_ended")
def _run_ended(v: Values, run: RawRun) -> None:
    """The text that says it follows the last ALLOC; or the last window allocates less often than all others, and more is live in it than after any."""
    allocs = [one.place or 0 for one in run.events if one.kind == "alloc"]
    if v["how"] == "cut":
        assert v["line"] == run.lines
    else:
        assert v["line"] > allocs[-1]
        (line,) = (text for place, text in run.notes if place == v["line"])
        assert ("Traceback" in line) == (v["how"] == "exception")
        assert v.get("what", "") in "\n".join(text for place, text in run.notes if place >= v["line"])
        last = run.before(allocs[-1])
        assert v.get("at_exit", False) <= (2 * run.allocated[-1] < run.allocated[last] + 2)
    if "window" in v or "after" in v:
        names, counts = [*run.windows], [0] * len(run.windows)
        for k, (lo, hi) in enumerate(run.windows.values()):
            counts[k] = sum(one.kind == "alloc" for one in run.events[lo:hi])
        assert v.get("window", names[-1]) == names[-1]
        assert v.get("after", names[-2]) == names[-2]
        assert 0 < counts[-1] < min(count for count in counts[1:-1] if count)
        assert run.allocated[-1] > max(_live(run))


@of("peak_may_come_later")
def _later(v: Values, run: RawRun) -> None:
    lo, hi = run.bounds
    high, at = run.highest(lo, hi, run.allocated)
    assert hi == len(run.events)
    assert at is not None
    if v["inside"]:
        assert at >= [*run.windows.values()][-1][0]
    else:
        assert 100 * (len(run.events) - 1 - at) <= len(run.events)
        assert 20 * run.allocated[-1] >= 19 * high
    _entries(v, run)


# -- failures ------------------------------------------------------------------------------------------------------------------


@of("out_of_memory", "run_out_of_memory")
def _out_of_memory(v: Values, run: RawRun) -> None:
    assert v.get("failures", 1) == len(run.failures)
    failure = next(one for one in run.failures if one.place == v["line"])
    _entries(v, run)
    asked, left, total = failure.requested, failure.device_free, failure.device_total
    assert (v.get("requested_bytes"), v.get("device_free_bytes"), v.get("device_total_bytes")) == (asked, left, total)
    stop = run.before(failure.place)
    blocks = any(one.kind == "alloc" for one in run.events)
    allocated, reserved = run.allocated[stop], run.reserved[stop]
    assert v.get("allocated_bytes") == (allocated if blocks else None)
    assert v.get("reserved_bytes") == (reserved if any(one.kind == "reserve" for one in run.events) else None)
    assert v["never_fits"] == (asked is not None and total is not None and asked > total)
    own = v.get("reserved_bytes", v.get("allocated_bytes"))
    assert v["alone"] == (own is not None and left is not None and (asked or 0) > own + left)
    later = sum(one.kind == "alloc" and (one.place or 0) > failure.message for one in run.events)
    assert v["ended"] == (100 * later <= sum(one.kind == "alloc" for one in run.events))
    gaps = _gaps(run, stop) if run.chunks and v["cause"] in ("fragmented", "unknown") else None
    if gaps is not None:
        assert (v.get("gaps"), v.get("largest_gap_bytes")) == (len(gaps), max(gaps, default=0))
        assert v.get("free_bytes", 0) == sum(gaps)
    if not _unknown_frees(run):
        assert v["cause"] == _cause(run, failure, stop, gaps)


def _gaps(run: RawRun, stop: int) -> list[int] | None:
    """What lies free in the chunks; ``None`` where addresses or chunks are not known."""
    chunks: list[tuple[int, int]] = []
    live = [(int(str(run.events[k].block), 0), run.events[k].size) for k in run.live_after(stop - 1)]
    for k, one in enumerate(run.events[:stop]):
        if one.kind == "reserve" and one.block is None:
            return None
        if one.kind == "reserve":
            chunks.append((int(str(one.block), 0), one.size))
        elif one.kind == "release":
            there = [(int(str(run.events[j].block), 0)) for j in run.live_after(k)]
            idle = [c for c in chunks if c[1] == one.size and not any(c[0] <= at < sum(c) for at in there)]
            if len(idle) != 1:
                return None
            chunks.remove(idle[0])
    gaps = []
    for base, size in chunks:
        at = base
        for start, length in [*sorted(b for b in live if base <= b[0] < base + size), (base + size, 0)]:
            gaps += [start - at] * (start > at)
            at = start + length
    return gaps


def _cause(run: RawRun, failure: Failure, stop: int, gaps: list[int] | None) -> str:
    """The first rule of ``docs/oom.md`` that holds."""
    asked, left, total = failure.requested, failure.device_free, failure.device_total
    reserved, allocated = run.reserved[stop], run.allocated[stop]
    if asked is None:
        return "unknown"
    if total is not None and left is not None and run.chunks:
        others = total - left - reserved
        if 8 * others >= total and left < asked <= left + others:
            return "another process"
    if left is not None and asked <= left:
        return "unknown"
    free = reserved - allocated if run.chunks and reserved else None
    if free is None:
        return "too much" if total is not None and allocated + asked > total else "unknown"
    if left is None and 0 < free < asked:
        return "unknown"
    if asked > free + (left or 0):
        return "too much"
    return "fragmented" if gaps is not None and max(gaps, default=0) < asked else "unknown"


# -- series --------------------------------------------------------------------------------------------------------------------


def _live(run: RawRun) -> list[int]:
    """What is live at the end of each judged window."""
    return [run.allocated[hi] for _, hi in run.judged.values()]


def _floors(levels: Sequence[int], width: int = 1) -> list[int]:
    """The lowest level of so many windows in a row, from each place on."""
    lowest = [min(levels[k : k + width]) for k in range(len(levels) - width + 1)]
    return [*accumulate(reversed(lowest), min)][::-1]


def _rises(levels: Sequence[int], since: int, low: int, gained: int) -> bool:
    """Whether the floor of a series gains so much from a window on, in some width of windows."""
    for width in _widths(levels):
        floors = _floors(levels, width)
        if 0 < since < len(floors) and (floors[since - 1], floors[-1] - floors[since - 1]) == (low, gained):
            return floors[since] > low
    return False


def _counted(v: Values, run: RawRun) -> None:
    assert v["windows"] == len(run.judged) - ("(before)" in run.judged)
    assert v["windows"] >= FEWEST - ("(before)" in run.judged)


@of("growing", "grows")
def _growing(v: Values, run: RawRun) -> None:
    _counted(v, run)
    live, since = _live(run), [*run.judged].index(v["since"])
    assert any(_rises(live, since, low, v["gained_bytes"]) for low in live)
    last, rate = len(live) - since, v["gained_bytes_per_window"]
    assert rate * last / 3 <= v["gained_bytes"] <= 3 * rate * (last + v.get("every", 1))
    assert v.get("last_windows", v["windows"]) == last
    if (until := v.get("until")) is not None:
        waits = [_waits(_floors(live, width), since) for width in _widths(live)]
        ended = [since + sum(waited) for *waited, idle in filter(None, waits) if idle > 2 * max(waited, default=last)]
        assert [*run.judged].index(until) in ended
    if v["kind"] == "grows":
        return
    every = v.get("every", 1)
    assert v["gained_each_bytes"] == round(rate * every)
    assert every == 1 or any(_comes(every, _floors(live, width)[since - 1 :]) for width in _widths(live))


def _waits(floors: Sequence[int], since: int) -> list[int]:
    """How many windows there are from each rise of a floor to the next, and from the last one to the end."""
    rises = [k for k in range(max(since, 1), len(floors)) if floors[k] > floors[k - 1]]
    return [after - before for before, after in pairwise([*rises, len(floors) - 1])]


def _widths(levels: Sequence[int]) -> range:
    return range(1, max(len(levels) // 5, 1) + 1)


def _comes(every: int, floors: Sequence[int]) -> bool:
    """Whether a floor makes its large steps so many windows apart, but for what follows the last of them, and gains by them."""
    steps = [after - before for before, after in pairwise(floors)]
    large = [k for k, step in enumerate(steps) if 2 * step >= max(steps) > 0]
    waits = Counter(after - before for before, after in pairwise(large))
    gained = sum(steps[k] for k in large)
    return waits[every] > 1 and waits.total() - waits[every] <= 1 and 3 * gained >= 2 * sum(steps)


@of("level_growing")
def _level_growing(v: Values, run: RawRun) -> None:
    names, levels = [*run.judged], [run.reserved[hi] for _, hi in run.judged.values()]
    if v["level"] == "peak":
        names = [name for name in names if name != "(before)"]
        levels = [run.highest(*run.judged[name], run.allocated)[0] for name in names]
    assert v["live_growing"] == _grows(run)
    assert _rises(levels, names.index(v["since"]), v["from_bytes"], v["to_bytes"] - v["from_bytes"])


@of("not_growing", "sawtooth", "uneven", "shrinking", "live_not_growing")
def _steady(v: Values, run: RawRun) -> None:
    _counted(v, run)
    live = _live(run)
    if "swing_bytes" in v:
        assert v["swing_bytes"] == max(_came_back(live), _came_back([-one for one in live])) // 2
    series = live["(before)" in run.judged :]
    low, high = min(series), max(series)
    assert (v.get("lowest_bytes", low), v.get("highest_bytes", high)) == (low, high)
    if "from_bytes" in v:
        fall = next(k for k, level in enumerate(series) if 2 * level <= low + high)
        assert v["from_bytes"] == high == max(series[:fall])
        assert 2 * max(series[fall:]) <= low + high + 1
    if v["kind"] == "shrinking":
        assert series[-1] < min(series[: len(series) // 4])
        assert max(high - min(series[: k + 1]) for k, high in enumerate(series)) <= (series[0] - series[-1]) / 2
    if v["kind"] in ("not_growing", "sawtooth"):
        # What rises for good by more than it ever fell grows.
        fell = max(max(series[: k + 1]) - level for k, level in enumerate(series))
        assert min(series[-2:]) - series[0] <= max(8 * fell, (high - low) // 2 * (fell > 0), high // 1000)
        assert not _leaks(series)
    if period := v.get("period"):
        apart = [
            sum((one - other) ** 2 for one, other in zip(series, series[lag:], strict=False)) / (len(series) - lag)
            for lag in range(1, period + 1)
        ]
        assert 5 * apart[-1] <= max(apart)


def _leaks(series: Sequence[int]) -> bool:
    """Whether the floor of each quarter lies above that of the one before, and that of the last one above all of the middle half."""
    count = len(series)
    edges = [count * k // 4 for k in range(5)]
    floors = [min(series[lo:hi], default=0) for lo, hi in pairwise(edges)]
    late = floors[3] - max(series[edges[1] : edges[3]], default=0)
    return count >= 8 and floors == sorted({*floors}) and late > 0 and late * 1000 > max(series)


def _came_back(levels: Sequence[int]) -> int:
    """The most by which a level rose and fell again."""
    return max(min(one - min(levels[: k + 1]), one - min(levels[k:])) for k, one in enumerate(levels))


@of("higher_after")
def _higher_after(v: Values, run: RawRun) -> None:
    judged = [events for name, events in run.judged.items() if name != "(before)"]
    within = max(run.highest(*events, run.allocated)[0] for events in judged)
    after, _ = run.highest(max(hi for _, hi in judged), len(run.events), run.allocated)
    assert after == v["peak_bytes"] >= 1.1 * within


@of("rose", "rose_late")
def _rose(v: Values, run: RawRun) -> None:
    _counted(v, run)
    floors, names = _floors(_live(run)), [*run.judged]
    if v["kind"] == "rose_late":
        first = len(names) - v["rose_windows"]
        assert v["rose_bytes"] in [level - floors[first - 1] for level in floors[first:]]
        return
    first, last = names.index(v["rose_from"]), names.index(v["rose_until"])
    assert (v["from_bytes"], v["to_bytes"]) == (floors[first - 1], floors[last])
    assert v["rose_bytes"] == v["to_bytes"] - v["from_bytes"] > 0
    assert v["rising_windows"] == last - first + 1
    assert last < len(names) - 2 or not v["stays"]
    for part, size in v.get("rises_bytes", {}).items():
        begins, _, ends = part.partition(" to ")
        assert size == floors[names.index(ends or begins)] - floors[names.index(begins) - 1]


def _left(run: RawRun) -> list[int]:
    """The blocks of the windows from where it grows that are live at the end of the last one."""
    names, since = [*run.judged], _since(run)
    end = run.judged[names[-1]][1]
    born = (k for name in names[names.index(since) :] for k in range(*run.judged[name]))
    return [k for k in born if run.events[k].kind == "alloc" and run.partner.get(k, end) >= end]


def _passing(run: RawRun, since: str) -> dict[int, list[int]]:
    """By size, how many blocks of the windows from one on are live at the end of each but the last and freed before that of the last."""
    spans = [*run.judged.values()][[*run.judged].index(since) :]
    end, found = spans[-1][1], dict[int, list[int]]()
    for number, (_, hi) in enumerate(spans[:-1]):
        for k in (k for lo, stop in spans[: number + 1] for k in range(lo, stop)):
            if run.events[k].kind == "alloc" and hi <= run.partner.get(k, end) < end:
                found.setdefault(run.events[k].size, [0] * (len(spans) - 1))[number] += 1
    return found


def _alike(v: Values, size: int, run: RawRun) -> tuple[list[int], list[int]]:
    """The blocks of a pile, of which it counts all but as many as some window leaves until a later one; and these, by their windows."""
    left = [k for k in _left(run) if run.events[k].size == size]
    alike = [k for k in left if "owner" not in v or (run.events[k].owner or None) == v["owner"]]
    passing = _passing(run, _since(run)).get(size, [0])
    assert len(alike) - max(passing) <= v["blocks"] <= len(alike)
    assert v["total_bytes"] == v["blocks"] * size
    return alike, passing


@of("piles_up")
def _piles(v: Values, run: RawRun) -> None:
    _alike(v, v["size_bytes"], run)
    assert v["total_bytes"] == max(size * count for size, count in _kept(run).items())
    starts, passing = [lo for lo, _ in run.judged.values()], _passing(run, _since(run))
    left, born = (
        Counter(run.events[k].size for k in _left(run)),
        {(run.events[k].size, bisect(starts, k)) for k in _left(run)},
    )
    # Of how many pass the end of a window as always a run takes samples: what is more than any of them are, or less, is certain.
    often = [size for size, windows in Counter(size for size, _ in born).items() if windows >= PILE]
    certain = [size for size in often if left[size] > max(passing.get(size, [0]))]
    assert len(certain) <= v["kinds"]
    if not any(one.owner for one in run.events):
        assert v["kinds"] <= sum(left[size] > min(passing.get(size, [0])) for size in often)


@of("piling_up")
def _piling(v: Values, run: RawRun) -> None:
    (grows,) = (claim for claim in run.claims if claim["kind"] == "growing")
    assert (v["since"], v["gained_bytes"]) == (grows["since"], grows["gained_bytes"])
    alike, passing = _alike(v, v["block_bytes"], run)
    assert v["beyond"] == (v["total_bytes"] > v["gained_bytes"])
    assert v["most"] == (2 * v["total_bytes"] > v["gained_bytes"])
    if "holder" in v:
        held_by = _held_by(run, alike, len(alike) * v["block_bytes"] // 2)
        assert in_common(v["holder"]) in held_by
        if "owner" in v:
            assert v["held_in_part"] == _others_hold(run, alike, v["holder"])
    if "owner" not in v and "phase" not in v and not v["before_phases"]:
        assert v["blocks"] <= len(alike) - min(passing)
    if not any(passing):
        assert v["blocks"] == len(alike)
    if v["before_phases"]:
        assert sum(bool(re.search(run.by, _phase(run, k, over=True))) for k in alike) >= v["blocks"]
    if "phase" in v:
        # ``n`` stands for a number that goes on counting, ``#2`` for the second of its kind.
        named = re.sub(r"(?<![A-Za-z])n(?![A-Za-z])", r"\\d+", re.escape(v["phase"].partition(" #")[0]))
        assert sum(bool(re.search(named, _phase(run, k))) for k in alike) >= v["blocks"]
    if "owner" not in v or not any(map(any, _passing(run, v["since"]).values())):
        owned = Counter((run.events[k].size, run.events[k].owner or None if "owner" in v else None) for k in _left(run))
        kept = {(size, None): count for size, count in _kept(run).items()} if "owner" not in v else owned
        totals = [size * count for (size, _), count in kept.items() if count >= PILE]
        assert v["total_bytes"] == max(totals)
        assert v.get("ties", 0) == totals.count(v["total_bytes"]) - 1


@of("hidden_growth")
def _hidden(v: Values, run: RawRun) -> None:
    """What the owner gains, whom the next claim names, and no less than half of the most that memory came back by."""
    _counted(v, run)
    assert v["since"] in run.judged
    assert any(claim["kind"] == "grown_by" for claim in run.claims)
    live = _live(run)
    assert v["gained_bytes"] > max(_came_back(live), _came_back([-one for one in live])) // 2


@of("grown_by")
def _grown_by(v: Values, run: RawRun) -> None:
    """Most of what is gained is live of one owner at the end beyond what was at some end before; and somebody holds more than half of that."""
    gained = {
        claim["kind"]: claim["gained_bytes"] for claim in run.claims if claim["kind"] in ("growing", "hidden_growth")
    }
    least = gained.get("hidden_growth", gained.get("growing", 0) / 2)
    ends = [stop for _, stop in run.judged.values()]
    theirs = [k for k, one in enumerate(run.events) if one.kind == "alloc" and one.owner and one.owner == v["owner"]]
    live = [{k for k in theirs if k < end <= run.partner.get(k, end)} for end in ends]
    levels = [sum(run.events[k].size for k in blocks) for blocks in live]
    assert levels[-1] - min(levels) >= least
    assert levels[-1] > max(levels[: len(levels) // 4], default=0)
    if "holder" in v:
        assert in_common(v["holder"]) in _held_by(run, live[-1], levels[-1] // 2)
        assert v.get("held_in_part", False) == _others_hold(run, live[-1], v["holder"])


def _kept(run: RawRun) -> dict[int, int]:
    """By size, how many blocks pile up: those that are left, less those that pass the end of a window as always."""
    usual = {size: sorted(counts)[len(counts) // 2] for size, counts in _passing(run, _since(run)).items()}
    left = Counter(run.events[k].size for k in _left(run))
    return {size: count - usual.get(size, 0) for size, count in left.items() if count >= PILE + usual.get(size, 0)}


def _phase(run: RawRun, event: int, *, over: bool = False) -> str:
    """The last line before an event that says that a phase begins or ends, or the last annotation that is not ``over``."""
    place = run.events[event].place or 0
    at = bisect(run.notes, (place + 1, ""))
    marks = (
        run.notes[k][1] for k in range(at - 1, -1, -1) if over or run.until.get(run.notes[k][0], place + 1) > place
    )
    return next((text for text in marks if not run.lines or re.search(r"\b(START|END)\b", text)), "")


@of("no_size_piles_up")
def _no_pile(v: Values, run: RawRun) -> None:
    left, passing = Counter(run.events[k].size for k in _left(run)), _passing(run, _since(run))
    assert not [size for size, count in left.items() if count >= PILE and count > max(passing.get(size, [0]))]


@of("growth_not_judged")
def _not_judged(v: Values, run: RawRun) -> None:
    if "steps" in v:
        assert v["steps"] < FEWEST
    _entries(v, run)


@of("in_doubt")
def _in_doubt(v: Values, run: RawRun) -> None:
    assert v["doubts"]
    doubts_are({*v["doubts"]}, run)


def doubts_are(codes: set[str], run: RawRun) -> None:
    """Hold the codes of a run's doubts, or that it has none, against its events."""
    blocks = [one for one in run.events if one.kind in ("alloc", "free")]
    assert "no_tensor_events" not in codes or not blocks
    assert "no_lifetimes" not in codes or all(one.block is None for one in blocks)
    if "several_processes" not in codes:
        assert ("unknown_frees" in codes) == bool(_unknown_frees(run))
        assert ("double_allocs" in codes) == _doubles(run)


def is_doubtful(run: RawRun) -> bool:
    """Whether blocks are freed that nobody allocated, or allocated twice."""
    return bool(_unknown_frees(run)) or _doubles(run)


def _doubles(run: RawRun) -> bool:
    """Whether an address is allocated that is live."""
    live = {one.block for one in run.events[: run.opening]}
    for one in run.events[run.opening :]:
        if one.kind == "alloc":
            if one.block is not None and one.block in live:
                return True
            live.add(one.block)
        elif one.kind == "free":
            live.discard(one.block)
    return False


# -- logs that grow ------------------------------------------------------------------------------------------------------------


@of("budget_exceeded")
def _budget(v: Values, run: RawRun) -> None:
    assert v["reached_bytes"] > v["budget_bytes"]
    if v["metric"] == "growth":
        live, since = _live(run), [*run.judged].index(v["since"])
        told = (live[:count] for count in range(len(live), since, -1))
        assert any(_rises(some, since, low, v["reached_bytes"]) for some in told for low in {*some})
    else:
        levels = run.allocated if v["metric"] == "peak" else run.reserved
        first = next(k for k, level in enumerate(levels) if level > v["budget_bytes"])
        assert (v["reached_bytes"], v["line"]) == (max(levels), run.events[first - 1].place)


@of("judged_before")
def _judged_before(v: Values, run: RawRun) -> None:
    """So many windows have closed since the one that was the last when growth was judged."""
    assert [*run.windows][-2 - v["later"]] == v["window"] == [*run.judged][-1]


@of("oom_messages")
def _messages(v: Values, run: RawRun) -> None:
    assert v["messages"] == len(run.failures)


@of("held_then")
def _held_then(v: Values, run: RawRun) -> None:
    now = _walked(run, v["line"])
    size, blocks = now[v["holder"]]
    live = next(level for one, level in zip(run.events, run.allocated[1:], strict=True) if one.place == v["line"])
    assert (v["held_bytes"], v["blocks"], v.get("live_bytes", live)) == (size, blocks, live)
    if "more_bytes" in v:
        before = _walked(run, v["since_line"])
        more = {name: size - before.get(name, (0, 0))[0] for name, (size, _) in now.items()}
        assert v["more_bytes"] == more[v["holder"]] == max(more.values())
        places = [one.place for one in run.events]
        assert 2 * v["more_bytes"] >= live - run.allocated[places.index(v["since_line"]) + 1]
    else:
        assert size == max(size for size, _ in now.values())


def _walked(run: RawRun, line: int) -> dict[str, tuple[int, int]]:
    """What holders, as sentences name them, have by the last whole walk before the event that follows a line: bytes and blocks."""
    upto = [place for place, text in run.notes if "memlens holds 0x0 -" in text and place > line]
    following = min((one.place for one in run.events if one.place and one.place > line), default=run.lines + 1)
    end = max(place for place in upto if place < following)
    events = [one for one in run.events if (one.place or 0) <= line]
    then = RawRun(events, [note for note in run.notes if note[0] <= end])
    found: dict[str, tuple[int, int]] = {}
    for k in then.live_after(len(events) - 1):
        if (name := then.holders.get(k, "no variable")) != "no variable":
            name = in_common(re.sub(r"^(variable|saved) ", "", name))
            size, blocks = found.get(name, (0, 0))
            found[name] = size + events[k].size, blocks + 1
    return found


@of("no_events_yet")
def _no_events_yet(v: Values, run: RawRun) -> None:
    assert (v["lines"], run.events) == (run.lines, [])


# -- one block -----------------------------------------------------------------------------------------------------------------


@of("block", "lifetime", "allocated_meanwhile", "live_at_peak")
def _block(v: Values, run: RawRun) -> None:
    event = run.bounds[0]
    end = run.partner.get(event, len(run.events))
    freed = end < len(run.events)
    _, at = run.highest(run.opening, len(run.events), run.allocated)
    between = run.events[event + 1 : end]
    found = {
        "size_bytes": run.events[event].size,
        "alloc_line": run.events[event].place,
        "free_line": run.events[end].place if freed else None,
        "freed": freed,
        "life_events": end - event,
        "meanwhile_bytes": sum(one.size for one in between if one.kind == "alloc"),
        "at_peak": event <= at < end if at is not None else event < run.opening,
    }
    for name, value in found.items():
        assert v.get(name, value) == value, name
    assert ("free_line" in v) == (freed and v["kind"] == "block")


# -- several runs --------------------------------------------------------------------------------------------------------------

Runs: TypeAlias = Mapping[str, RawRun]
#: Judges of what is said of several runs together, by the names that they have there; each has its own claims.
OF_RUNS: dict[str, Callable[[Values, Runs], None]] = {}


def judge_together(claims: Iterable[Values], runs: Runs) -> None:
    """Judge claims on several runs."""
    for claim in claims:
        if claim["kind"] in OF_RUNS:
            OF_RUNS[claim["kind"]](claim, runs)


def _peaks(runs: Runs) -> dict[str, int]:
    told = {name: run for name, run in runs.items() if any(one.kind == "alloc" for one in run.events)}
    return {name: run.highest(*run.bounds, run.allocated)[0] for name, run in told.items()}


def _logs_peaks(v: Values, runs: Runs) -> None:
    peaks = _peaks(runs)
    assert (v["count"], v["known"]) == (len(runs), len(peaks))
    assert v["peak_bytes"] == peaks[v["log"]] == max(peaks.values())
    assert v.get("lowest_bytes", v["peak_bytes"]) == min(peaks.values())
    assert peaks[v.get("lowest", v["log"])] == min(peaks.values())
    heights = [*peaks.values()]
    assert (v["as_high"], v.get("as_low", v["as_high"])) == tuple(heights.count(pick(heights)) for pick in (max, min))


def _peaks_of_others(v: Values, runs: Runs) -> None:
    peaks = _peaks(runs)
    assert {name: peaks[name] for name in v["peaks_bytes"]} == v["peaks_bytes"]
    assert len(v["peaks_bytes"]) + v.get("more", 0) == len(runs) - 1
    first = peaks.keys() - v["peaks_bytes"]
    assert v.get("more") or all(name == "CPU" or peaks[one] >= peaks[name] for one in first for name in peaks)


def _having(*kinds: str) -> Callable[[Values, Runs], None]:
    """A judge that names are those of the runs that have a claim of some kinds."""

    def judge(v: Values, runs: Runs) -> None:
        having = [name for name, run in runs.items() if any(one["kind"] in kinds for one in run.claims)]
        assert v["logs"] == having
        assert v.get("count", len(having)) == len(having)

    return judge


def _analyzed(v: Values, runs: Runs) -> None:
    assert v["count"] == len(runs)
    assert not _peaks(runs)


OF_RUNS |= {
    "logs_peaks": _logs_peaks,
    "peaks_of_others": _peaks_of_others,
    "logs_growing": _having("growing", "level_growing"),
    "logs_out_of_memory": _having("out_of_memory"),
    **dict.fromkeys(("logs_analyzed", "no_blocks_yet"), _analyzed),
}
