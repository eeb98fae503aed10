"""Judges of claims on runs compared: plain Python over the lines of the logs says whether what a claim in JSON has for values is right.

Kinds of :data:`SHAPES` are held against what is said of them alone: that they name a run, or that their counts can be.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

import claim_judge
import raw_runs
from texts import read_packed

Values = Mapping[str, Any]
#: How claims on blocks begin that the one on their first block follows.
_EXPLAIN = ("explains", "outweighs", "largest_in_one")
_EVENT = re.compile(r"(?:\] |^)(Alloc|Free) (\d+) bytes, ptr = (0x[0-9a-f]+)$")
WHOLE = "(whole log)"


@dataclass(frozen=True)
class Part:
    """A part of a run: its first line and that behind it, and its events from ``lo`` up to ``hi``, whose levels stand in ``levels``."""

    line: int
    end: int
    lo: int
    hi: int
    levels: Sequence[int]

    @property
    def carried_in(self) -> int:
        return self.levels[self.lo]

    @property
    def left(self) -> int:
        return self.levels[self.hi] - self.carried_in

    @property
    def peak(self) -> int:
        return max(self.levels[self.lo : self.hi + 1])

    @property
    def rise(self) -> int:
        return self.peak - self.carried_in

    @property
    def top(self) -> int:
        """The event after which the level is highest first; the one before the part where it never rises above its start."""
        return self.lo + list(self.levels[self.lo : self.hi + 1]).index(self.peak)


class RawRun:
    """The events of a log of Paddle, read line by line.

    Attributes:
        events: Line, bytes (below 0 of a FREE) and address of each.
        parts: By name what lies between two lines that match; without a pattern the whole log.
        ended_by: The FREE of each ALLOC, both by their lines.
    """

    def __init__(self, path: Path, by: str | None = None) -> None:
        self.path = path
        self.events: list[tuple[int, int, str]] = []
        starts: list[tuple[str, int, int]] = [("(before)" if by else WHOLE, 1, 0)]
        self.ended_by: dict[int, int] = {}
        live: dict[str, int] = {}
        line = 0
        for line, text in enumerate(read_packed(path).decode(errors="replace").splitlines(), 1):
            if found := _EVENT.search(text):
                size = int(found[2])
                if found[1] == "Alloc":
                    live[found[3]] = line
                elif found[3] in live:
                    self.ended_by[live.pop(found[3])] = line
                self.events.append((line, size if found[1] == "Alloc" else -size, found[3]))
            elif by and (start := re.search(by, text)):
                starts.append((start[1], line, len(self.events)))
        self.levels = [0, *accumulate(size for _, size, _ in self.events)]
        stops = [*(start[1:] for start in starts[1:]), (line + 1, len(self.events))]
        cut = zip(starts, stops, strict=True)
        self.parts = {name: Part(first, end, lo, hi, self.levels) for (name, first, lo), (end, hi) in cut}
        self.size_at = {line: size for line, size, _ in self.events}
        self.peak = max(self.levels)

    @cached_property
    def raw(self) -> raw_runs.RawRun:
        """All that its lines say, chunks and failures too."""
        return raw_runs.raw_runs(self.path)[""]

    def reserved_peak(self, part: str) -> int:
        lo, hi = (self.raw.before(line) for line in (self.parts[part].line, self.parts[part].end))
        return max(self.raw.reserved[lo : hi + 1])

    def level_at(self, line: int) -> int:
        """The level after the event of a line."""
        return next(level for (at, _, _), level in zip(self.events, self.levels[1:], strict=True) if at == line)

    @property
    def top(self) -> int:
        """How many events lie up to the peak."""
        return self.levels.index(self.peak)

    def live(self, events: int) -> Counter[int]:
        """How many blocks of each size are live after so many events."""
        found: Counter[int] = Counter()
        last = self.events[events - 1][0] if events else 0
        for line, size, _ in self.events[:events]:
            if size > 0 and self.ended_by.get(line, last + 1) > last:
                found[size] += 1
        return found

    def kept(self, name: str) -> Counter[int]:
        """How many more blocks of each size are live after a part than before it."""
        part = self.parts[name]
        found = self.live(part.hi)
        found.subtract(self.live(part.lo))
        return found

    def part_of(self, line: int) -> int:
        """The place of the part that a line is in."""
        return [part.line <= line for part in self.parts.values()].count(True) - 1

    def allocs_after_peak(self, line: int, events: int) -> int:
        """How many ALLOCs lie between the last of so many events, a peak, and the event of a line; below 0 where that comes before."""
        top = self.events[events - 1][0] if events else 0
        between = sum(1 for at, size, _ in self.events if size > 0 and min(top, line) < at <= max(top, line))
        return between if line > top else -between


class RawPair:
    """Two runs, cut alike.

    Attributes:
        steps_by: What cuts head into the steps over which it may grow.
        names: Windows of both that a next one ends, in base's order; or the only one, which is looked at.
    """

    def __init__(self, base: Path, head: Path, by: str | None = None, only: str | None = None) -> None:
        self.base, self.head = RawRun(base, by), RawRun(head, by)
        closed = [list(run.parts)[: -1 if by else None] for run in (self.base, self.head)]
        self.names = [name for name in closed[0] if name in closed[1] and only in (None, name)]
        self.series = by is not None and only is None
        self.claims: Sequence[Values] = ()
        self.steps_by = by or ""

    def change(self, name: str, what: str) -> int:
        ours, theirs = (getattr(run.parts[name], what) for run in (self.head, self.base))
        return int(ours - theirs)

    def higher(self, name: str) -> int:
        """How much farther head rises in a window, as far as it comes higher, or less far and lower."""
        rise, peak = self.change(name, "rise"), self.change(name, "peak")
        return min(rise, peak, key=abs) if rise * peak > 0 else 0

    @property
    def left(self) -> list[int]:
        return [self.change(name, "left") for name in self.names]

    @property
    def sign(self) -> int:
        """1 where head needs more, -1 where less: by peaks, by what is left in all, by rises, by what any window leaves."""
        rise = max(map(self.higher, self.names), key=abs, default=0)
        decides = next(filter(None, (self.head.peak - self.base.peak, sum(self.left), rise, *self.left)), 0)
        return (decides > 0) - (decides < 0)

    def needing(self, sign: int) -> list[str]:
        return [n for n in self.names if max(sign * self.change(n, "left"), sign * self.higher(n)) > 0]

    def tops(self) -> tuple[int, int]:
        """Up to which event each run goes where the one with the higher peak is at it, and the other one highest in that window."""
        higher, lower = (self.head, self.base) if self.head.peak > self.base.peak else (self.base, self.head)
        name = list(higher.parts)[higher.part_of(higher.events[higher.top - 1][0])]
        there = lower.parts[name].top if name in lower.parts else lower.top
        return (there, higher.top) if higher is self.head else (higher.top, there)

    def more_kept(self, names: Sequence[str]) -> Counter[int]:
        """How many more blocks of each size head leaves behind in some windows."""
        found: Counter[int] = Counter()
        for name in names:
            found.update(self.head.kept(name))
            found.subtract(self.base.kept(name))
        return found

    def explaining(self) -> Values:
        """The claim on blocks that the one on their first block follows."""
        return next(claim for claim in self.claims if claim["kind"].startswith(_EXPLAIN))


# -- two runs ------------------------------------------------------------------------------------------------------------------


def _peaks(v: Values, p: RawPair) -> None:
    base, head = v.get("base_peak_bytes", v.get("peak_bytes")), v.get("head_peak_bytes", v.get("peak_bytes"))
    assert (base, head) == (p.base.peak, p.head.peak)
    assert v.get("d_peak_bytes", 0) == p.head.peak - p.base.peak
    assert (base == head) == (v["kind"] == "equal_peaks")


def _by_role(v: Values, p: RawPair) -> None:
    if not (p.base.raw.holders or p.head.raw.holders):  # by rules, whose truth is in tests/analyzers/test_roles.py
        assert v["d_peak_bytes"] == p.head.peak - p.base.peak
        assert 1 <= len(v["roles"]) <= 2
        assert all(10 * abs(size) >= abs(v["d_peak_bytes"]) for size in v["roles"].values())
        return
    base, head = (
        run.roles_after(run.highest(0, len(run.events), run.allocated)[1] or 0) for run in (p.base.raw, p.head.raw)
    )
    changes = {role: head[role] - base[role] for role in {*base, *head}}
    assert sum(changes.values()) == v["d_peak_bytes"] == p.head.peak - p.base.peak
    large = sorted((abs(size) for size in changes.values() if 10 * abs(size) >= abs(v["d_peak_bytes"])), reverse=True)
    assert [abs(size) for size in v["roles"].values()] == large[:2]
    assert all(changes[role] == size for role, size in v["roles"].items())


def _no_difference(v: Values, p: RawPair) -> None:
    assert v.get("window_pairs", 1) == len(p.names)
    whats = ("left", "rise", "carried_in") if v["kind"] == "no_difference" else ("left", "rise")
    assert not any(p.change(name, what) for name in p.names for what in whats)


def _largest_change(v: Values, p: RawPair) -> None:
    (what,) = {"peak", "carried_in", "reserved_peak"} & {key[2:].removesuffix("_bytes") for key in v}
    changes = {
        name: p.head.reserved_peak(name) - p.base.reserved_peak(name)
        if what == "reserved_peak"
        else p.change(name, what)
        for name in p.names
    }
    assert v[f"d_{what}_bytes"] == changes[v.get("window", p.names[0])] != 0
    assert abs(v[f"d_{what}_bytes"]) == max(map(abs, changes.values()))


def _ends_with(v: Values, p: RawPair) -> None:
    base, head = (run.levels[run.parts[p.names[0]].hi] for run in (p.base, p.head))
    assert (v["base_live_bytes"], v["head_live_bytes"], v["d_live_bytes"]) == (base, head, head - base)


def _left_behind(v: Values, p: RawPair) -> None:
    base, head = (run.parts[p.names[0]].left for run in (p.base, p.head))
    assert (v["base_remaining_bytes"], v["head_remaining_bytes"], v["d_remaining_bytes"]) == (base, head, head - base)
    assert (v["kind"] == "older_freed") == (min(base, head) < 0)


def _leaves_more(v: Values, p: RawPair) -> None:
    costs = [name for name in p.names if p.change(name, "left") > 0]
    costs = costs if sum(p.left) > 0 else costs[-v["windows"] :]
    assert (v["window"], v["windows"]) == (costs[0], len(costs))
    amounts = [p.change(name, "left") for name in costs]
    assert v["d_remaining_bytes"] == (amounts[0] if v["each"] else sum(amounts))
    assert not v["each"] or len(set(amounts)) == 1
    assert not v["lasting"] or costs == p.names[-len(costs) :]


def _parting(v: Values, p: RawPair) -> None:
    name, sign = v["window"], p.sign
    assert (name, v["needs"]) == (p.needing(sign)[0], "more" if sign > 0 else "less")
    assert v["line"] == p.head.parts[name].line
    changes = {"d_remaining_bytes": p.change(name, "left"), "d_higher_bytes": p.higher(name)}
    assert {key: v.get(key) for key in changes} == {key: c if c * sign > 0 else None for key, c in changes.items()}


def _windows_need(v: Values, p: RawPair) -> None:
    assert (v["needing"], v["windows"]) == (len(p.needing(p.sign)), len(p.names))


def _cancels_out(v: Values, p: RawPair) -> None:
    _windows_need(v, p)
    name = p.needing(p.sign)[0]
    assert v["opposite"] == len(p.needing(-p.sign)) > 0
    assert (v["window"], v["line"], v["needs"]) == (name, p.head.parts[name].line, "more" if p.sign > 0 else "less")
    assert sum(p.left) == 0


def _left_in_all(v: Values, p: RawPair) -> None:
    leaving = [name for name, left in zip(p.names, p.left, strict=True) if left > 0]
    assert (v["d_remaining_bytes"], v["window"], v["others"]) == (sum(p.left), leaving[0], len(leaving) - 1)


def _no_window_needs(v: Values, p: RawPair) -> None:
    assert not p.needing(p.sign)


def _open_window(v: Values, p: RawPair) -> None:
    assert v["window"] in {list(run.parts)[-1] for run in (p.base, p.head)}
    changes = p.change(v["window"], "left"), p.change(v["window"], "rise")
    assert (v.get("d_remaining_bytes", 0), v.get("d_rise_bytes", 0)) == changes


def _explains(v: Values, p: RawPair) -> None:
    whole, part, size, way = v["d_bytes"], v["explained_bytes"], v["size_bytes"], 1 if v["explained_bytes"] > 0 else -1
    assert part == way * size * v["blocks"]
    if v["at_peak"]:
        assert whole == p.head.peak - p.base.peak
        held = [run.live(top)[size] for run, top in zip((p.base, p.head), p.tops(), strict=True)]
        more = held[1] - held[0]
        known = held if abs(more) == v["blocks"] else [None, None]
        assert [v.get("base_blocks"), v.get("head_blocks")] == known
        if "owner" not in v:
            assert v.get("more_blocks") == (abs(more) if abs(more) > v["blocks"] else None)
    else:
        costs = next((c for c in p.claims if c["kind"] == "leaves_more"), None)
        names = p.names
        if costs is not None:
            names = [name for name, left in zip(names, p.left, strict=True) if left > 0][-costs["windows"] :]
        assert whole == sum(p.change(name, "left") for name in names)
        more = p.more_kept(names)[size]
    assert 0 < v["blocks"] <= way * more
    shares = {
        "explains_all": part == whole,
        "explains_most": abs(whole) > abs(part) > abs(whole) / 2 and part * whole > 0,
        "explains_part": 0 < abs(part) <= abs(whole) / 2 and part * whole > 0,
        "outweighs": part * whole <= 0 or abs(part) > abs(whole),
    }
    assert [kind for kind, holds in shares.items() if holds] == [v["kind"]]
    assert abs(v.get("alike_bytes", whole)) >= min(abs(part), abs(whole))
    if not v["finding"].endswith("_free"):
        assert abs(whole) >= abs(v.get("alike_bytes", whole))
    elif "alike_bytes" in v:  # other changes may take back some of what such Frees are, but one alone is less than all
        assert abs(part) < min(abs(whole), abs(v["alike_bytes"]))
    assert v["blocks"] < v.get("alike_blocks", v["blocks"] + 1)
    assert 1 < v.get("windows", 2) < max(v["blocks"], 3)


def _largest_in_one(v: Values, p: RawPair) -> None:
    base, head = (run.live(top) for run, top in zip((p.base, p.head), p.tops(), strict=True))
    more, less = (head, base) if v["side"] == "head" else (base, head)
    assert (p.head.peak > p.base.peak) == (v["side"] == "head")
    assert abs(v["explained_bytes"]) == max(size * (more[size] - less[size]) for size in more)
    assert abs(v["explained_bytes"]) == v["blocks"] * v["size_bytes"]
    assert (v["base_blocks"], v["head_blocks"]) == (base[v["size_bytes"]], head[v["size_bytes"]])
    assert v["blocks"] == abs(v["head_blocks"] - v["base_blocks"])


def _taken_back(v: Values, p: RawPair) -> None:
    cause = p.explaining()
    assert v["taken_back_bytes"] == abs(cause["explained_bytes"] - cause["d_bytes"])
    assert (v["side"] == "head") == (cause["explained_bytes"] > 0)


def _ends(v: Values, run: RawRun, prefix: str, size: int) -> None:
    """The lines of a block in one run, and whether it is freed."""
    alloc, free, freed = (v.get(f"{prefix}{name}") for name in ("alloc_line", "free_line", "freed"))
    assert alloc is not None
    assert run.size_at[alloc] == size
    assert run.ended_by.get(alloc) == free
    assert (freed == "never") == (free is None)


def _counts(v: Values, p: RawPair, name: str, prefix: str = "") -> None:
    """At a peak the block that is cited is live there."""
    run, top = (p.base, p.tops()[0]) if name == "base" else (p.head, p.tops()[1])
    if p.explaining()["at_peak"]:
        last = run.events[top - 1][0]
        assert v[f"{prefix}alloc_line"] <= last < v.get(f"{prefix}free_line", last + 1)


def _first_block(v: Values, p: RawPair) -> None:
    cause = p.explaining()
    for name, run in (("base", p.base), ("head", p.head)):
        if v["kind"] != "first_in_one":
            _ends(v, run, f"{name}_", cause["size_bytes"])
        elif v["side"] == name:
            _ends(v, run, "", cause["size_bytes"])
    if v["kind"] == "first_in_one":
        _counts(v, p, v["side"])
        return
    more, less = ("head", "base") if cause["explained_bytes"] > 0 else ("base", "head")
    _counts(v, p, more, f"{more}_")
    if v["kind"] == "first_elsewhere":
        return
    assert v["side"] == more
    keeps, frees = (p.head, p.base) if more == "head" else (p.base, p.head)
    freed = frees.part_of(v[f"{less}_free_line"])
    if late_by := v.get("late_by"):
        # Windows of both runs have one order here.
        assert keeps.part_of(v[f"{more}_free_line"]) - freed == late_by
        assert 1 < v["late_windows"] <= len(p.names)
    elif p.series and f"{more}_free_line" in v:
        assert keeps.part_of(v[f"{more}_free_line"]) > freed


def _untimely(v: Values, p: RawPair) -> None:
    for name, run, top in zip(("base", "head"), (p.base, p.head), p.tops(), strict=True):
        line = v[f"{name}_free_line"]
        assert run.size_at[line] == -p.explaining()["size_bytes"]
        assert v[f"{name}_allocs_after_peak"] == run.allocs_after_peak(line, top)
        assert (line > run.events[top - 1][0]) == ((name == "head") == (p.explaining()["explained_bytes"] > 0))


def _lives(v: Values, p: RawPair) -> None:
    """How long the first block lives is counted in each run's own allocations; the run that has more has it at its peak."""
    lives = []
    for name, run, top in zip(("base", "head"), (p.base, p.head), p.tops(), strict=True):
        alloc, free = v[f"{name}_alloc_line"], v[f"{name}_free_line"]
        assert run.size_at[alloc] == p.explaining()["size_bytes"]
        assert run.ended_by[alloc] == free
        assert v[f"{name}_allocs_after_peak"] == run.allocs_after_peak(free, top)
        lives.append(sum(alloc < line < free and size > 0 for line, size in run.size_at.items()))
    assert (v["base_lives"], v["head_lives"]) == tuple(lives)
    assert (lives[1] > lives[0]) == (p.explaining()["explained_bytes"] > 0)
    _counts(v, p, *(("head", "head_") if lives[1] > lives[0] else ("base", "base_")))


def _unpaired(v: Values, p: RawPair) -> None:
    own, other = (p.base, p.head) if v["side"] == "base" else (p.head, p.base)
    alone = [name for name in own.parts if name not in other.parts]
    assert (v["windows"], v["unpaired"]) == (len(alone), alone[:2])
    peak = v.get("peak_window")
    assert peak is None or own.parts[peak].peak == own.peak


def _shares_little(v: Values, p: RawPair) -> None:
    assert not any(claim["kind"].startswith(("explains", "outweighs")) for claim in p.claims)
    both = [sum(v[f"{name}_{what}_bytes"] for name in ("base", "head")) for what in ("unpaired", "alloc")]
    assert 2 * both[0] > both[1]
    for name, run in (("base", p.base), ("head", p.head)):
        parts = [run.parts[window] for window in p.names]
        made = sum(size for part in parts for _, size, _ in run.events[part.lo : part.hi] if size > 0)
        assert v[f"{name}_alloc_bytes"] == made
        assert made < 5 * v[f"{name}_unpaired_bytes"] <= 5 * made


def _meanwhile(v: Values, p: RawPair) -> None:
    run = p.base if v["side"] == "base" else p.head
    assert v["allocated_bytes"] == run.level_at(v["line"])


def _failures(v: Values, p: RawPair) -> None:
    """How one of the runs ran out of memory, or both did."""
    sides = {"base": v["base"], "head": v["head"]} if v["kind"] == "both_out_of_memory" else {v["run"]: v}
    for side, values in sides.items():
        run = getattr(p, side).raw
        known = {name: value for name, value in values.items() if value is not None}
        claim_judge.JUDGES["out_of_memory"]({**known, "failures": len(run.failures)}, run)  # the one it ended in


def _doubted(v: Values, p: RawPair) -> None:
    assert v.get("base") or v.get("head")
    for side in ("base", "head"):
        claim_judge.doubts_are({*v.get(side, ())}, getattr(p, side).raw)


def _both_balance(v: Values, p: RawPair) -> None:
    """What has no effect leaves nothing and rises no higher."""
    assert p.sign == 0


# -- a run and its limits ------------------------------------------------------------------------------------------------------

_OF_METRIC = {"peak": "peak", "rise": "rise", "remaining": "left"}


def _limited(v: Values, p: RawPair) -> None:
    window = v.get("window", WHOLE)
    figures = [
        run.peak if window == WHOLE else getattr(run.parts[window], _OF_METRIC.get(v["metric"], "peak"))
        for run in (p.base, p.head)
    ]
    if v["metric"] in _OF_METRIC:
        assert [v["base_bytes"], v["head_bytes"]] == figures
    base, head, limit = v["base_bytes"], v["head_bytes"], v["limit_bytes"]
    assert v["d_bytes"] == head - base
    if v["limit_from"] == "budget":
        assert head <= limit
        return
    floor = (64 if window == WHOLE else 1024) << 10
    assert limit - base == max(abs(base) * 2 // 100, floor)
    assert v.get("allowed_bytes", floor) == floor
    assert v.get("over_bytes", 0) == max(head - limit, 0)
    assert (head > limit) == (v["kind"] == "over_limit")


def _within_limits(v: Values, p: RawPair) -> None:
    if "metric" in v:
        _limited(v, p)


def _missing(v: Values, p: RawPair) -> None:
    named = list(p.base.parts)
    last = max(k for k, name in enumerate(named) if name in p.head.parts)
    missing = [name for name in named[:last] if name not in p.head.parts]
    assert v["missing"] == len(missing)
    assert {*v.get("names", ())} <= {*missing}


def _missing_window(v: Values, p: RawPair) -> None:
    assert v["window"] not in p.head.parts
    assert v["base_bytes"] == getattr(p.base.parts[v["window"]], _OF_METRIC[v["metric"]])


def _ends_earlier(v: Values, p: RawPair) -> None:
    """Windows of base behind the last that head has are not judged."""
    named = list(p.base.parts)
    last = max(k for k, name in enumerate(named) if name in p.head.parts)
    assert last < len(named) - 1
    assert v["base_windows"] == len(named)
    assert v["judged_windows"] <= sum(name in p.head.parts for name in named)


def _over_budget(v: Values, p: RawPair) -> None:
    gained = next((claim["gained_bytes"] for claim in p.claims if claim["kind"] == "grows"), v["head_bytes"])
    figures = {"peak": p.head.peak, "reserved": max(p.head.raw.reserved), "growth": gained}
    assert v["head_bytes"] == figures[v["metric"]]
    assert v["over_bytes"] == v["head_bytes"] - v["limit_bytes"] > 0
    assert v["compared"] == ("base_bytes" in v)


def _largest_of_role(v: Values, p: RawPair) -> None:
    run = p.head.raw
    _, at = run.highest(0, len(run.events), run.allocated)
    mine = [k for k in run.live_after(-1 if at is None else at) if run.role_of(k) == v["role"]]
    for name, of in (("owner", lambda k: run.events[k].owner), ("holder", run.held_by)):
        totals = Counter[str | None]()
        for k in mine:
            totals[of(k)] += run.events[k].size
        if name in v:
            assert totals[v[name]] == max(totals.values())


def _of_head(v: Values, p: RawPair) -> None:
    """What is said of head alone, over steps that its lines mark."""
    run = p.head.raw
    run.by, run.claims = p.steps_by, p.claims
    claim_judge.JUDGES[v["kind"]](v, run)


def _figures(v: Values, p: RawPair) -> None:
    assert 0 < v.get("over", 1) <= v["figures"]
    of_rows = len(v.get("of_run") or ()) + v.get("windows", 0)
    assert of_rows <= v.get("over", 0)


def _reserved_grew(v: Values, p: RawPair) -> None:
    base, head = (max(run.raw.reserved) for run in (p.base, p.head))
    assert (v["base_bytes"], v["head_bytes"], v["d_bytes"]) == (base, head, head - base)
    assert head > base


# -- runs side by side ---------------------------------------------------------------------------------------------------------


def _against_base(v: Values, p: RawPair) -> None:
    assert (v["base"], v["head"], v["change"]) == (p.base.peak, p.head.peak, p.head.peak - p.base.peak)


JUDGES: dict[str, Callable[[Values, RawPair], None]] = {
    **dict.fromkeys(["head_peak", "equal_peaks"], _peaks),
    "change_by_role": _by_role,
    **dict.fromkeys(["no_difference", "same_work"], _no_difference),
    **dict.fromkeys(["largest_peak_change", "carried_in", "carried_in_change", "reserved_change"], _largest_change),
    **dict.fromkeys(["run_out_of_memory", "both_out_of_memory"], _failures),
    "runs_in_doubt": _doubted,
    **dict.fromkeys(["left_behind", "older_freed"], _left_behind),
    "ends_with": _ends_with,
    **dict.fromkeys(["explains_all", "explains_most", "explains_part", "outweighs"], _explains),
    "largest_in_one": _largest_in_one,
    "taken_back": _taken_back,
    **dict.fromkeys(["first_freed", "first_in_one", "first_elsewhere"], _first_block),
    "first_untimely": _untimely,
    "first_lives": _lives,
    "leaves_more": _leaves_more,
    "parting": _parting,
    "windows_need": _windows_need,
    "cancels_out": _cancels_out,
    "left_in_all": _left_in_all,
    "no_window_needs": _no_window_needs,
    "open_window": _open_window,
    "windows_unpaired": _unpaired,
    "shares_little": _shares_little,
    "meanwhile": _meanwhile,
    "no_effect": _both_balance,
    **dict.fromkeys(["over_limit", "within_limit"], _limited),
    "within_limits": _within_limits,
    "windows_missing": _missing,
    "missing_window": _missing_window,
    "ends_earlier": _ends_earlier,
    "over_budget": _over_budget,
    "largest_of_role": _largest_of_role,
    **dict.fromkeys(["grows", "piles_up"], _of_head),
    **dict.fromkeys(["figures_over", "figures_within"], _figures),
    "reserved_not_judged": _reserved_grew,
    "run_against_base": _against_base,
}


def judge(claims: Iterable[Values], pair: RawPair) -> set[str]:
    """Judge claims as they stand in JSON; the kinds that there is a judge for."""
    pair.claims = [*claims]
    for claim in pair.claims:
        assert claim["text"]
        assert claim["weight"] >= 0
        if claim["kind"] in JUDGES:
            JUDGES[claim["kind"]](claim, pair)
    return {claim["kind"] for claim in pair.claims} & set(JUDGES)
