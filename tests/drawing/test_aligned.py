"""The axis that two runs share, judged slot by slot in plain Python."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from made_lives import plain_levels, random_rows, rows_of
from made_threads import run, threaded_program
from night import some

import memlens
from memlens.columns import Ints
from memlens.diffing.alignment.blocks import Blocks
from memlens.diffing.pairing import InOrder, Match, match
from memlens.diffing.result import Diff
from memlens.diffing.run import diff_to_draw
from memlens.diffing.window_pairs import WindowPairs
from memlens.drawing import aligned as module
from memlens.drawing.aligned import AlignedAxis, aligned, aligned_curves
from memlens.drawing.differences import _columns
from memlens.events import Kind
from memlens.log import Log
from memlens.options.verbs import Diff as Options
from memlens.windows.windows import Window

Row = tuple[Kind, int, int]


def changed(chance: Random, rows: list[Row]) -> list[Row]:
    """Some of the rows, and others in between."""
    kept = [row for row in rows if chance.random() < 0.9]
    for _ in range(chance.randint(0, 6)):
        address, at = 50_000 + len(kept), chance.randint(0, len(kept))
        kept.insert(at, (Kind.ALLOC, 512 * chance.randint(1, 5), address))
    return kept


def pieces(log: Log, chance: Random, count: int, names: list[str]) -> list[Window]:
    """Neighbouring windows, some empty, with room between some of them."""
    edges = sorted(chance.randint(0, len(log)) for _ in range(2 * count))
    if chance.random() < 0.5:
        edges = [*[edge for edge in edges[::2] for _ in (0, 1)][1:], len(log)]
    return [
        Window(log, name, lo, hi, lo, hi, lo + 1, hi)
        for name, lo, hi in zip(names, edges[::2], edges[1::2], strict=True)
    ]


def assert_sound(axis: AlignedAxis) -> None:
    """What holds for any axis: events of a run stand one after the other, in their order, and no slot is empty."""
    taken = np.zeros(len(axis), np.int64)
    for run_ in (axis.base, axis.head):
        events = np.arange(run_.lo, run_.hi)
        slots = run_.slots_of(events)
        assert (np.diff(slots) > 0).all()
        assert not len(slots) or (slots[0] >= 0 and slots[-1] < len(axis))
        taken[slots] += 1
        # The other way round, slot by slot.
        at, last = dict(zip(slots.tolist(), events.tolist(), strict=True)), run_.lo - 1
        for slot, found in enumerate(run_.events_at(np.arange(len(axis))).tolist()):
            last = at.get(slot, last)
            assert found == last
        assert run_.slots_of(np.array([run_.hi])).tolist() == [len(axis)]
    assert (taken > 0).all()


def assert_curves(axis: AlignedAxis, curves: dict[str, Ints]) -> None:
    """The curves are those of the two step functions, walked slot by slot."""
    levels = [[level for level, _ in plain_levels(rows_of(run_.log))] for run_ in (axis.base, axis.head)]
    places = [
        {slot: event for event, slot in enumerate(run_.slots_of(np.arange(run_.lo, run_.hi)).tolist(), run_.lo)}
        for run_ in (axis.base, axis.head)
    ]
    events = [axis.base.lo - 1, axis.head.lo - 1]
    for number, (first, stop) in enumerate(
        zip(curves["edges"][:-1].tolist(), curves["edges"][1:].tolist(), strict=True)
    ):
        seen = []
        for slot in range(first, stop):
            events = [place.get(slot, event) for place, event in zip(places, events, strict=True)]
            seen.append((slot, *events, *(own[event + 1] for own, event in zip(levels, events, strict=True))))
        starts = [(-1, 0, 0, levels[0][axis.base.lo], levels[1][axis.head.lo])] if number == 0 else []
        base, head = [row[3] for row in starts + seen], [row[4] for row in starts + seen]
        apart = [two - one for one, two in zip(base, head, strict=True)]
        assert [int(column[number]) for column in (curves["base_low"], curves["base_high"])] == [min(base), max(base)]
        assert [int(column[number]) for column in (curves["head_low"], curves["head_high"])] == [min(head), max(head)]
        assert [int(column[number]) for column in (curves["low"], curves["high"])] == [min(apart), max(apart)]
        farthest = max(seen, key=lambda row: abs(row[4] - row[3]))
        columns = curves["slot"], curves["base_event"], curves["head_event"], curves["base_bytes"], curves["head_bytes"]
        assert tuple(int(column[number]) for column in columns) == farthest
    assert not len(axis) or curves["edges"][-1] == len(axis)
    # A page has one of the two extremes of the difference, for the other is where the runs are farthest apart, or what they start from.
    shown = _columns(axis, curves, exact=False)
    ends = np.stack([curves["head_bytes"] - curves["base_bytes"], shown["other"]])
    for fold, name in ((np.minimum, "low"), (np.maximum, "high")):
        found = fold.reduce(ends)
        found[:1] = fold(found[:1], shown["start_bytes"])
        assert found.tolist() == curves[name].tolist()


@pytest.mark.parametrize("seed", range(30))
def test_pairs_in_order_stand_at_one_place_and_the_curves_are_exact(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TOGETHER", 16)
    chance = Random(f"aligned {seed}")
    rows = random_rows(chance, chance.choice([0, 1, 2, 30, 120]))
    base, head = Log.from_rows(rows), Log.from_rows(changed(chance, rows))
    found = memlens.diff(base.whole, head.whole)
    (pairs,) = found.in_order
    axis = aligned(pairs)
    assert_sound(axis)
    allocs = pairs.turn == 0
    assert np.count_nonzero(allocs) == found.windows[0].pairs
    assert (axis.base.slots_of(pairs.base[allocs]) == axis.head.slots_of(pairs.head[allocs])).all()
    assert (base.size[pairs.base] == head.size[pairs.head]).all()
    assert (base.kind[pairs.base] == head.kind[pairs.head]).all()
    # Between two pairs of allocations there is room for the run that does more there, and for no more than both.
    edges = [
        np.concatenate(([-1], np.sort(own[allocs]), [len(log)]))
        for own, log in ((pairs.base, base), (pairs.head, head))
    ]
    between = [np.diff(own) - 1 for own in edges]
    slots = np.diff(np.concatenate(([-1], axis.base.slots_of(edges[0][1:])))) - 1
    assert (slots >= np.maximum(*between)).all()
    assert (slots <= between[0] + between[1]).all()
    for buckets in (1, 7, 1 << 17):
        assert_curves(axis, aligned_curves(axis, buckets))


@pytest.mark.parametrize("seed", range(30))
def test_windows_in_any_order_and_pairs_that_cross(seed: int) -> None:
    chance = Random(f"windows {seed}")
    logs = [Log.from_rows(random_rows(chance, chance.choice([5, 40, 90]))) for _ in range(2)]
    count = chance.randint(1, 6)
    base, head = (pieces(log, chance, count, [f"w{k}" for k in range(count)]) for log in logs)
    if chance.random() < 0.4:
        chance.shuffle(head)
    paired = sorted(chance.sample(range(count), chance.randint(1, count)))
    windows = WindowPairs(
        tuple((base[k], head[k]) for k in paired),
        tuple(base[k] for k in range(count) if k not in paired),
        tuple(head[k] for k in range(count) if k not in paired and chance.random() < 0.5),
    )
    events: list[tuple[int, int, int]] = []
    for one, two in windows.pairs:
        # An event is in one pair at most.
        most = chance.randint(0, min(len(one), len(two)))
        lefts, rights = (chance.sample(range(window.lo, window.hi), most) for window in (one, two))
        for turn in range(3):
            left, right = lefts[turn::3], rights[turn::3]
            events += zip(sorted(left), sorted(right) if turn < 2 else right, [turn] * len(left), strict=True)
    chance.shuffle(events)
    columns = np.array(events, np.int64).reshape(-1, 3).T
    axis = aligned(InOrder(windows, *columns))
    assert_sound(axis)
    assert_curves(axis, aligned_curves(axis, chance.choice([3, 1000])))
    in_base = sorted(windows.pairs, key=lambda pair: (pair[0].lo, pair[0].hi))
    places = [(two.lo, two.hi) for _, two in in_base]
    if places == sorted(places):
        # Windows come in one order, so no two pairs that go first cross: each stands at one place.
        first = columns[2] == 0
        assert (axis.base.slots_of(columns[0][first]) == axis.head.slots_of(columns[1][first])).all()


@pytest.mark.parametrize("seed", range(8))
def test_where_threads_cross_the_one_with_most_pairs_is_side_by_side(seed: int) -> None:
    chance = Random(f"threads {seed}")
    program = threaded_program(chance)
    for base, head in zip(run(program, chance), run(program, chance), strict=True):
        found = memlens.diff(base, head)
        (pairs,) = found.in_order
        axis = aligned(pairs)
        assert_sound(axis)
        assert base.log.thread is not None
        assert np.count_nonzero(pairs.turn < 1 << 32) == found.windows[0].pairs
        # The same is kept where it is asked for.
        (kept,) = diff_to_draw(base, head, Options()).in_order
        for name in ("base", "head", "turn"):
            assert (getattr(kept, name) == getattr(pairs, name)).all()
        if not found.windows[0].threads:
            assert set(pairs.turn[pairs.turn < 1 << 32].tolist()) <= {0}
            continue
        allocs = pairs.turn < 1 << 32
        counts = Counter(base.log.thread[pairs.base[allocs]].tolist())
        first = pairs.turn == 0
        assert np.count_nonzero(first) == max(counts.values())
        assert len(set(base.log.thread[pairs.base[first]].tolist())) == 1
        assert (axis.base.slots_of(pairs.base[first]) == axis.head.slots_of(pairs.head[first])).all()


def assert_figures(found: Diff) -> AlignedAxis:
    """The curves give the figures of the diff: what is live at the end of each window, and the peak within it."""
    (pairs,) = found.in_order
    axis = aligned(pairs)
    curves = aligned_curves(axis, len(axis))
    for window, both in zip(found.windows, pairs.windows.pairs, strict=True):
        ends, peaks = [], []
        for run_, own, level in (
            (axis.base, both[0], curves["base_bytes"]),
            (axis.head, both[1], curves["head_bytes"]),
        ):
            start, *rest = (
                int(level[slot]) if slot >= 0 else int(run_.levels[0])
                for slot in [*(run_.slots_of(np.array([own.lo])) - 1), *run_.slots_of(np.arange(own.lo, own.hi))]
            )
            peaks.append(max(start, *rest, start))
            ends.append(rest[-1] if rest else start)
        assert ends[1] - ends[0] == window.d_live_bytes
        assert peaks[1] - peaks[0] == window.d_peak_bytes
    return axis


def test_what_is_drawn_is_aligned_once(examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Blocks] = []

    def counted(base: Blocks, head: Blocks) -> Match:
        calls.append(base)
        return match(base, head)

    monkeypatch.setattr("memlens.diffing.compare.match", counted)
    base, head = examples / "case1_pt.log", examples / "case1_pir.log"
    found = memlens.diff(base, head)
    once = len(calls)
    assert found.in_order
    assert len(calls) == 2 * once
    memlens.report(head, base=base)
    assert len(calls) == 3 * once


@pytest.mark.parametrize("cut", [{}, {"whole": True}, {"start": "START SOT_CALL_2", "end": "START SOT_CALL_3"}])
def test_case_1(examples: Path, cut: dict[str, Any]) -> None:
    assert_figures(memlens.diff(examples / "case1_pt.log", examples / "case1_pir.log", **cut))


@pytest.mark.parametrize(
    ("base", "head"),
    [
        ("paddle/331_ast_pt_cnn.log", "paddle/331_ast_pir_cnn.log"),
        ("paddle/30_ast_transformer_pt.log", "paddle/30_ast_transformer_pir.log"),
        ("paddle/06_padding32.log", "paddle/06_small_pool.log"),
        ("paddle/05_fixed_331.log.gz", "paddle/05_leak_graph_331.log.gz"),
        ("traps/five.log.gz", "traps/seven.log.gz"),
        ("traps/cut_base.log.gz", "traps/cut_head.log.gz"),
        ("traps/threads_base.log.gz", "traps/threads_head.log.gz"),
    ],
)
@pytest.mark.parametrize("whole", some([False, True]))
def test_real_runs(shared: Path, base: str, head: str, whole: bool) -> None:
    logs = [shared / "data" / name for name in (base, head)]
    axis = assert_figures(memlens.diff(*logs, whole=whole))
    assert_sound(axis)
