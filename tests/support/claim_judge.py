"""Claims judged by the events themselves: plain Python over the columns of a log, with dictionaries and no analyzer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from memlens.facts import Kind
from memlens.log import Log

Values = Mapping[str, Any]
#: Kinds whose figures are worked out anew; of the others the shape alone is looked at (:func:`judged`).
JUDGES: dict[str, Callable[[PlainRun, Values], bool]] = {}


class PlainRun:
    """The events of a log, replayed one by one.

    Attributes:
        lines: The line of each event, ``None`` for one that was there before the input.
        levels: The allocated and the reserved level after each event, beginning with those before the first.
        live: After all events, the ALLOC of each block that is live.
        partner: The FREE of each ALLOC, by their indices.
        text: Its text; ``""`` where it has none: nothing of windows is judged then.
        steps: The regular expression that cuts it; ``""`` for none.
        ends: The lines that it finds end what they name.
        bounds: The events ``[lo, hi)`` that claims are about, where one window was asked for.
    """

    def __init__(
        self, log: Log, text: str = "", *, steps: str = "", ends: bool = False, bounds: tuple[int, int] | None = None
    ) -> None:
        self.opening, self.text, self.steps, self.ends, self.log = log.facts.opening, text, steps, ends, log
        self.kinds, self.sizes, self.addrs = log.kind.tolist(), log.size.tolist(), log.addr.tolist()
        lines = log.line_numbers(list(range(self.opening, len(self.kinds))))
        self.lines: list[int | None] = [*([None] * self.opening), *lines]
        self.bounds = bounds or (self.opening, len(self.kinds))
        self.live: dict[int, int] = {}
        self.partner: dict[int, int] = {}
        level = reserved = 0
        self.levels = [(0, 0)]
        for event, (kind, size, addr) in enumerate(zip(self.kinds, self.sizes, self.addrs, strict=True)):
            level += {Kind.ALLOC: size, Kind.FREE: -size}.get(kind, 0)
            reserved += {Kind.RESERVE: size, Kind.RELEASE: -size}.get(kind, 0)
            self.levels.append((level, reserved))
            if kind == Kind.ALLOC:
                self.live[addr] = event
            elif kind == Kind.FREE and addr in self.live:
                self.partner[self.live.pop(addr)] = event

    def highest(self, lo: int, hi: int, which: int = 0) -> tuple[int, int | None]:
        """The highest level from ``lo`` on and before ``hi``, with the event that reaches it; ``None`` where it is there from the start."""
        high, at = self.levels[lo][which], None
        for event in range(lo, hi):
            if self.levels[event + 1][which] > high:
                high, at = self.levels[event + 1][which], event
        return high, at

    def live_after(self, event: int) -> list[int]:
        """The ALLOCs whose blocks are live right after an event."""
        born = (one for one in range(event + 1) if self.kinds[one] == Kind.ALLOC)
        return [one for one in born if self.partner.get(one, len(self.kinds)) > event]

    def windows(self) -> dict[str, tuple[int, int]]:
        """The events of the windows that the expression cuts, by their names."""
        names, starts = ["(before)"], [0]
        for number, line in enumerate(self.text.split("\n"), 1):
            if found := re.search(self.steps, re.sub(r"\x1b\[[0-9;]*m", "", line)):
                names.append(found[1] if found.re.groups else found[0])
                starts.append(number)
        edges = [0]
        for start in starts[1:]:
            event = edges[-1]
            while event < len(self.lines) and (self.lines[event] or 0) < start:
                event += 1
            edges.append(event)
        if self.ends:
            # A bar that is drawn anew before anything happens says nothing of a step; no line but the last names what follows it.
            told = [[*map(int, re.findall(r"\d+", name))] for name in names]
            some = [k for k in range(len(edges)) if k < 2 or edges[k] > edges[k - 1] or told[k] > told[k - 1]]
            edges, names = [edges[k] for k in some], [names[k] for k in some]
        times: Counter[str] = Counter()
        for k, name in enumerate(names):
            times[name] += 1
            names[k] = name if times[name] == 1 else f"{name} #{times[name]}"
        if self.ends:
            names = [names[0], *names[2:], "(after)"]
        ends = [*edges[1:], len(self.lines)]
        cut = zip(names, edges, ends, strict=True)
        return {name: (max(lo, self.opening), hi) for name, lo, hi in cut}

    def after_windows(self) -> list[int]:
        """What is live at the end of each closed window, of what precedes the first one too where it has events."""
        *closed, _ = self.windows().values()
        return [self.levels[hi][0] for k, (lo, hi) in enumerate(closed) if k or hi > lo]


def judged(claim: Mapping[str, Any], run: PlainRun) -> bool | None:
    """Whether a claim, as it stands in JSON, is right; ``None`` where its kind has no figures that are judged."""
    assert isinstance(claim["kind"], str)
    assert isinstance(claim["weight"], int)
    assert claim["text"]
    for name, value in claim.items():
        assert not name.endswith("_bytes") or isinstance(value, (int, float, dict)), name
        assert not (name == "line" or name.endswith("_line")) or (isinstance(value, int) and value >= 1), name
    judge = JUDGES.get(claim["kind"])
    return None if judge is None or ("windows" in claim and not run.text) else judge(run, claim)


def of(*kinds: str) -> Callable[[Callable[[PlainRun, Values], bool]], Callable[[PlainRun, Values], bool]]:
    def add(judge: Callable[[PlainRun, Values], bool]) -> Callable[[PlainRun, Values], bool]:
        JUDGES.update(dict.fromkeys(kinds, judge))
        return judge

    return add


@of("peak")
def _peak(run: PlainRun, claim: Values) -> bool:
    lo, hi = run.windows()[claim["window"]] if claim.get("series") else run.bounds
    high, at = run.highest(lo, hi)
    line = None if at is None else run.lines[at]
    if "peak_bytes" not in claim:
        most, there = run.highest(lo, hi, 1)
        line = None if there is None else run.lines[there]
        return bool(claim["reserved_bytes"] == most and claim.get("line", line) == line)
    right = claim["peak_bytes"] == high and claim.get("line", line) == line
    if "reserved_bytes" in claim:
        right &= claim["reserved_bytes"] == run.levels[lo if at is None else at + 1][1]
    if "rise_bytes" in claim:
        right &= claim["rise_bytes"] == high - run.levels[lo][0]
    if claim.get("series"):
        right &= high == max(run.highest(*edges)[0] for edges in run.windows().values())
    return bool(right and claim["at_start"] == (at is None))


@of("reserved_idle")
def _reserved_idle(run: PlainRun, claim: Values) -> bool:
    lo, hi = run.bounds if run.bounds != (-1, -1) else (run.opening, len(run.kinds))
    (most, at), (high, _) = run.highest(lo, hi, 1), run.highest(lo, hi)
    line = None if at is None else run.lines[at]
    return (most, high, line) == (claim["reserved_peak_bytes"], claim["peak_bytes"], claim.get("line")) and 2 * (
        most - high
    ) >= most


@of("reserved_peak")
def _reserved_peak(run: PlainRun, claim: Values) -> bool:
    lo, hi = run.windows()[claim["window"]] if run.steps and "window" in claim else run.bounds
    most, at = run.highest(lo, hi, 1)
    return bool(claim["reserved_peak_bytes"] == most and claim.get("line") == (None if at is None else run.lines[at]))


@of("largest_at_peak")
def _largest(run: PlainRun, claim: Values) -> bool:
    windows = run.windows().values() if run.steps and run.bounds == (-1, -1) else [run.bounds]
    return any(_largest_in(run, claim, *edges) for edges in windows)


def _largest_in(run: PlainRun, claim: Values, lo: int, hi: int) -> bool:
    high, at = run.highest(lo, hi)
    live = run.live_after(lo - 1 if at is None else at)
    if claim.get("before_input", False):
        key: Any = None
    else:
        key = claim["owner"] if "owner" in claim else claim["block_bytes"]
    parts: dict[Any, list[int]] = {}
    for one in live:
        label = _label(run.log.owner_of(one)) if "block_bytes" not in claim else run.sizes[one]
        if label is not None or one < run.opening:
            parts.setdefault(label, []).append(run.sizes[one])
    most, its = [sum(sizes) for sizes in parts.values()], parts.get(key, [])
    right = (high, len(its), sum(its)) == (claim["peak_bytes"], claim["blocks"], claim["total_bytes"])
    return right and sum(its) == max(most) and most.count(max(most)) == 1 + claim.get("ties", 0)


def _label(owner: str | None) -> str | None:
    """The innermost frame, and the first one that is a file of the user's."""
    frames = (owner or "").split(" < ")
    for frame in frames:
        path, _, rest = frame.partition(".py")
        foreign = "/" in path and (rest[:1] == ":" or "torch/" in path or "-packages/" in path)
        if rest[:1] in (":", "(") and not foreign and path not in ("threading", "contextlib", "functools"):
            return frame if frame == frames[0] else f"{frames[0]} < {frame}"
    return frames[0] or None


@of("live_at_end", "nothing_live_at_end")
def _live_at_end(run: PlainRun, claim: Values) -> bool:
    # What is allocated at an address that is live already leaves the block before it without a FREE.
    never = [one for one, kind in enumerate(run.kinds) if kind == Kind.ALLOC and one not in run.partner]
    size = sum(run.sizes[one] for one in never)
    return (len(never), size) == (claim.get("blocks", 0), claim.get("live_bytes", 0))


@of("held_in_window", "nothing_held_in_window")
def _held(run: PlainRun, claim: Values) -> bool:
    lo, hi = run.bounds
    born = [one for one in range(lo, hi) if run.kinds[one] == Kind.ALLOC]
    held = [one for one in born if run.partner.get(one, hi) >= hi]
    return (len(held), sum(run.sizes[one] for one in held)) == (claim.get("blocks", 0), claim.get("held_bytes", 0))


@of("out_of_memory")
def _out_of_memory(run: PlainRun, claim: Values) -> bool:
    before = sum((line or 0) < claim["line"] for line in run.lines)
    level, reserved = run.levels[before]
    right = claim.get("allocated_bytes", level) == level and claim.get("reserved_bytes", reserved) == reserved
    asked, total = claim.get("requested_bytes"), claim.get("device_total_bytes")
    return bool(right and claim["never_fits"] == (asked is not None and total is not None and asked > total))


@of("growing")
def _growing(run: PlainRun, claim: Values) -> bool:
    live, gained = run.after_windows(), claim["gained_bytes"]
    return 0 < gained <= max(live) - min(live) and claim["since"] in run.windows() and _windows(run, claim)


@of("piling_up")
def _piling(run: PlainRun, claim: Values) -> bool:
    alike = sum(
        kind == Kind.ALLOC and size == claim["block_bytes"] for kind, size in zip(run.kinds, run.sizes, strict=True)
    )
    size = claim["blocks"] * claim["block_bytes"]
    return bool(
        claim["blocks"] <= alike and (size, size > claim["gained_bytes"]) == (claim["total_bytes"], claim["beyond"])
    )


@of("not_growing", "shrinking", "rose", "rose_late", "live_not_growing")
def _steady(run: PlainRun, claim: Values) -> bool:
    live = run.after_windows()
    highest = max(live) - min(live)
    return claim.get("rose_bytes", 0) <= highest and 2 * claim.get("swing_bytes", 0) <= highest and _windows(run, claim)


def _windows(run: PlainRun, claim: Values) -> bool:
    return bool(claim["windows"] == len(run.windows()) - 2)  # without what precedes the first, and the open one


@of("logs_peaks")
def _logs(run: PlainRun, claim: Values) -> bool:
    return bool(claim.get("lowest_bytes", claim["peak_bytes"]) <= claim["peak_bytes"] and claim["count"] >= 1)


@of("block", "lifetime", "allocated_meanwhile", "live_at_peak")
def _block(run: PlainRun, claim: Values) -> bool:
    (event,) = (one for one in range(run.bounds[0], run.bounds[1]) if run.kinds[one] == Kind.ALLOC)
    end = run.partner.get(event, len(run.kinds))
    _, at = run.highest(run.opening, len(run.kinds))
    between: Sequence[int] = range(event + 1, end)
    found = {
        "size_bytes": run.sizes[event],
        "alloc_line": run.lines[event],
        "free_line": run.lines[end] if end < len(run.kinds) else None,
        "freed": end < len(run.kinds),
        "life_events": end - event,
        "meanwhile_bytes": sum(run.sizes[one] for one in between if run.kinds[one] == Kind.ALLOC),
        "at_peak": at is not None and event <= at < end,
    }
    return all(claim.get(name) == value for name, value in found.items() if name in claim)
