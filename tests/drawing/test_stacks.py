"""What is live by groups: of any window the bytes of each group after any event are those of its blocks, counted one by one."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import window_of
from made_lives import plain_blocks, random_rows, windows_of_made_logs
from made_owners import run_of
from night import many

from memlens.analyzers.composition import Roles
from memlens.analyzers.series.growth import growth
from memlens.claims.roles import ROLES
from memlens.drawing import levels as levels_module
from memlens.drawing import stacks as module
from memlens.drawing.levels import curve_of_page, levels
from memlens.drawing.lifetimes import WindowBlocks
from memlens.drawing.page import Owners
from memlens.drawing.stacks import Way, stacks_view, ways
from memlens.facts import Kind
from memlens.log import Log
from memlens.text import format_bytes
from memlens.windows.windows import Window


def stacked(window: Window, **how: Any) -> tuple[WindowBlocks, list[Way], Any, Any]:
    of = WindowBlocks(window)
    given = {"series": (), "pieces": None, "growth": None} | how
    found = ways(of, Roles(window.log), **given)
    drawn = levels(window, curve_of_page(window), Owners(window.log))
    return of, found, drawn, stacks_view(of, found, drawn, of.alloc, np.zeros(0, np.int64))


def live_by_group(of: WindowBlocks, way: Way, event: int) -> list[int]:
    """The bytes of each group right after an event, block by block."""
    group = dict(zip(of.alloc.tolist(), way.code.tolist(), strict=True))
    sums = [0] * len(way.groups)
    for block in plain_blocks(of.log):
        if block.alloc in group and block.alloc <= event and (block.free is None or block.free > event):
            sums[group[block.alloc]] += block.size
    return sums


def stretches(window: Window, view: Any, drawn: Any) -> list[tuple[int, int]]:
    """The stretches that are there event by event."""
    if view["moments"] is None:
        return [(window.lo, window.hi)]
    return [(one["lo"], one["lo"] + len(one["bytes"])) for one in drawn["details"]]


def check(window: Window, of: WindowBlocks, found: list[Way], drawn: Any, view: Any) -> None:
    log, excess = window.log, dict(zip(view["events"].tolist(), view["excess"].tolist(), strict=True))
    for way, seen in zip(found, view["ways"], strict=True):
        assert seen["bars"].tolist() == way.code.tolist()
        for k, (lo, hi) in enumerate(stretches(window, view, drawn)):
            now = list(seen["start"][k])
            assert now == live_by_group(of, way, lo - 1)
            for event, code in zip(range(lo, hi), seen["codes"][k].tolist(), strict=True):
                signed = {Kind.ALLOC: 1, Kind.FREE: -1}.get(Kind(log.kind[event]), 0) * int(log.size[event])
                if code < len(now):
                    now[code] += signed - excess.get(event, 0)
                assert now == live_by_group(of, way, event)
        if view["moments"] is not None:
            sums = np.array(seen["sums"])
            for k, event in enumerate(view["moments"].tolist()):
                assert sums[:, k].tolist() == live_by_group(of, way, event)


@settings(max_examples=many(200))
@given(windows_of_made_logs())
def test_the_groups_of_any_window_add_up_after_every_event(window: Window) -> None:
    of, found, drawn, view = stacked(window)
    if not len(of):
        assert [way.key for way in found] == ["all"]
        return
    assert found[-1].key in {"size", "fate"}
    for way in found:
        assert len({group["name"] for group in way.groups}) == len({group["ink"] for group in way.groups})
        assert sorted(set(way.code.tolist())) == list(range(len(way.groups)))
    check(window, of, found, drawn, view)


@settings(max_examples=many(60))
@given(st.integers(0, 10_000), st.integers(0, 100), st.integers(250, 300))
def test_of_a_long_window_they_are_known_at_the_highest_moment_of_each_stretch(seed: int, lo: int, hi: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("BUCKETS", 40), ("AROUND_PEAK", 6), ("EXACT", 60)):
            patch.setattr(levels_module, name, value)
        patch.setattr(module, "EXACT", 60)
        window = window_of(Log.from_rows(random_rows(Random(seed), 300)), lo, hi)
        of, found, drawn, view = stacked(window)
        assert len(view["moments"]) == 5
        for k, event in enumerate(view["moments"].tolist()):
            stretch = slice(8 * k, 8 * k + 8)
            assert event in drawn["high_event"][stretch]
            level = drawn["high_bytes"][stretch][drawn["high_event"][stretch].tolist().index(event)]
            assert level == drawn["high_bytes"][stretch].max()
        check(window, of, found, drawn, view)


def test_few_sizes_have_colours_of_their_own_and_many_are_ranges() -> None:
    few = Log.from_rows([(Kind.ALLOC, 1024 * (k % 3 + 1), k + 1) for k in range(9)])
    of = WindowBlocks(few.whole)
    (way,) = (way for way in stacked(few.whole)[1] if way.key == "size")
    assert {group["name"] for group in way.groups} == {"1.00 KiB", "2.00 KiB", "3.00 KiB"}
    for size, code in zip(of.size.tolist(), way.code.tolist(), strict=True):
        assert way.groups[code]["from"] == size == way.groups[code]["to"] - 1
    many_sizes = Log.from_rows([(Kind.ALLOC, 1000 + 7 * k, k + 1) for k in range(400)])
    (way,) = (way for way in stacked(many_sizes.whole)[1] if way.key == "size")
    assert {group["name"] for group in way.groups} == {
        f"{format_bytes(1024)} and more",
        f"{format_bytes(256)} and more",
    }
    for size, code in zip(many_sizes.size.tolist(), way.code.tolist(), strict=True):
        assert way.groups[code]["from"] <= size < way.groups[code]["to"]


def leaking(steps: int) -> tuple[Log, list[Window]]:
    """Steps each of which keeps 300 bytes, passes 1,000 within itself and 500 to the next one; 7,000 are there from the first on."""
    rows: list[tuple[Kind, int, int]] = []
    edges, address = [0], 100
    rows.append((Kind.ALLOC, 7000, 1))
    for step in range(steps):
        address += 3
        rows += [(Kind.ALLOC, 300, address), (Kind.ALLOC, 1000, address + 1), (Kind.FREE, 1000, address + 1)]
        if step:
            rows.append((Kind.FREE, 500, 2 + step))
        rows.append((Kind.ALLOC, 500, 3 + step))
        edges.append(len(rows))
    log = Log.from_rows(rows)
    return log, [Window(log, f"STEP {k}", lo, hi, lo, hi, lo + 1, hi) for k, (lo, hi) in enumerate(pairwise(edges))]


def test_what_piles_up_comes_first_and_is_one_strong_colour() -> None:
    log, series = leaking(40)
    said = growth(series)
    assert said.verdict == "growing"
    of, found, _, _ = stacked(log.whole, series=series, growth=said)
    first = found[0]
    assert first.key == "growth"
    assert [group["ink"] for group in first.groups] == ["steady", "piles", "passing"]
    piled = Counter(of.size[first.code == 1].tolist())
    assert set(piled) == {300}
    since = next(k for k, step in enumerate(series) if step.name == said.since)
    assert piled[300] == 40 - since
    assert set(of.size[first.code == 2].tolist()) == {1000}
    assert set(of.size[first.code == 0].tolist()) >= {500, 7000}


@pytest.mark.parametrize(("told", "first"), [(6, "role"), (2, "owner")])
def test_roles_come_first_where_they_are_told_of_half_of_the_peak(told: int, first: str) -> None:
    rows = [(Kind.ALLOC, 100, k + 1) for k in range(10)]
    role = np.array([k % 2 if k < told else len(ROLES) for k in range(10)], np.int8)
    owner = np.arange(10, dtype=np.int32) % 2
    log = Log.from_rows(rows, role=role, owner=owner, owner_names=("relu", "matmul"))
    found = stacked(log.whole)[1]
    assert [way.key for way in found][:2] == [first, "role" if first == "owner" else "owner"]


def test_of_a_state_without_events_the_largest_have_colours() -> None:
    sizes = [512, *[256] * 30, 1 << 20]  # each of an owner of its own
    events = [*((Kind.ALLOC, size, 4096 * k) for k, size in enumerate(sizes))]
    state = Log.from_rows(events)
    window = Window(state, "", len(state), len(state), 0, 0, 1, 1)
    of = WindowBlocks(window)
    (by_size,) = [way for way in ways(of, Roles(state), (), None, None) if way.key == "size"]
    assert [group["ink"] for group in by_size.groups if group["name"] == "1.00 MiB"] == ["size-1"]
    assert of.area().tolist() == sizes


def test_where_nothing_grows_nothing_piles_up() -> None:
    log, series = leaking(40)
    flat = [Window(log, step.name, series[0].lo, series[0].hi, 0, 1, 1, 1) for step in series]
    assert "growth" not in {way.key for way in stacked(log.whole, series=series, growth=growth(flat))[1]}
    assert "growth" not in {way.key for way in stacked(log.whole)[1]}


def test_owners_that_read_alike_are_one_group_and_the_rest_is_others() -> None:
    names = [f"op{k} < train.py:{k} main" for k in range(9)] + [
        "op8 < lib/python3/site-packages/x.py:3 f < train.py:8 main"
    ]
    rows = [(Kind.ALLOC, 100 * (k + 1), k + 1) for k in range(10)]
    log = Log.from_rows(rows, owner=np.arange(10, dtype=np.int32), owner_names=tuple(names))
    (way,) = (way for way in stacked(log.whole)[1] if way.key == "owner")
    assert len(way.groups) == 8
    # Block k of 100 (k + 1) bytes lives for 10 - k events; the last two are one group: 900 × 2 + 1,000 × 1.
    assert way.code[8] == way.code[9]
    weight = {name: 100 * (k + 1) * (10 - k) for k, name in enumerate(names[:8])} | {"op8 < train.py:8 main": 2800}
    largest = sorted(weight, key=lambda name: -weight[name])[:7]
    assert {group["name"] for group in way.groups} == {*largest, "other owners"}
    assert way.groups[-1]["ink"] == "owner-other"


def test_where_an_owner_grows_what_he_keeps_beyond_a_step_piles_up() -> None:
    # Each step keeps a result of another size, and makes another block anew; a block lives into the next step.
    steps = [[(3000 + 7 * k, 0, 0), (900, 0, 1), (400 + 5000 * (k % 2), 1, 1)] for k in range(24)]
    windows = run_of(steps, ("kept", "passing"))
    log = windows[0].log
    assert isinstance(log, Log)
    assert log.owner is not None
    of, found, *_ = stacked(log.whole, series=windows, growth=growth(windows))
    assert (found[0].key, [group["name"] for group in found[0].groups]) == (
        "growth",
        ["other blocks that outlive their step", "piles up"],
    )
    assert found[0].code.tolist() == (log.owner[of.alloc] == 0).astype(int).tolist()
