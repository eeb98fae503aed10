"""Who holds blocks, as a program of PyTorch noted it in a snapshot or in a trace."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kineto_judge import read_bytes
from snapshots import entry, frame, read, segment

from memlens.inputs.calls import Calls
from memlens.inputs.holders import held
from memlens.inputs.input_format import HolderLines
from memlens.log import Log

START = 1_700_000_000_000_000
A, B = 1 << 40, (1 << 40) + 4096
NAMES = ["variable feats[*] (main, train.py)", "parameter net.w (train.py)", "-"]

#: Two blocks; the first is given back, and its address taken again.
EVENTS = [(10, A, 512), (20, B, 1024), (30, A, -512), (40, A, 256)]


def noted(*walks: tuple[int, list[tuple[int, int]]], **other: Any) -> dict[str, Any]:
    """What a program notes: of each walk its time, and addresses with the numbers of names."""
    rows = [row for _, those in walks for row in those]
    columns = {"time_us": [START + time for time, _ in walks], "rows": [len(those) for _, those in walks]}
    return {
        "holders": {"names": NAMES, **columns, "address": [a for a, _ in rows], "name": [n for _, n in rows], **other}
    }


def of_snapshot(notes: Any, *, timed: bool = True) -> Log:
    trace = []
    for time, addr, size in EVENTS:
        more = {"time_us": START + time} if timed else {}
        actions = ("alloc",) if size > 0 else ("free_requested", "free_completed")
        trace += [entry(action, addr, abs(size), **more) for action in actions]
    sizes = (256, "active_allocated"), (3840, "inactive"), (1024, "active_allocated"), (3072, "inactive")
    blocks = [{"size": size, "requested_size": size, "state": state, "frames": []} for size, state in sizes]
    reserved = {**segment(A, 8192), "blocks": blocks}
    (log,) = read({"segments": [reserved], "device_traces": [trace], "memlens": notes})
    return log


def of_trace(notes: Any) -> Log:
    events = [
        {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": time, "args": {"Device Type": 0, "Device Id": -1, "Bytes": size, "Addr": addr}}
        for time, addr, size in EVENTS
    ]  # fmt: skip
    text = base64.b64encode(json.dumps(notes).encode()).decode()
    (log,) = read_bytes(
        json.dumps({"memlens": text, "baseTimeNanoseconds": START * 1000, "traceEvents": events}).encode()
    )
    return log


def holders(log: Log) -> list[str | None]:
    """Who holds the block of each event that is no chunk."""
    if log.holder is None:
        return []
    return [None if n < 0 else log.holder_names[n] for n in log.holder[log.kind < 2].tolist()]


@pytest.mark.parametrize("read_log", [of_snapshot, of_trace])
def test_a_holder_is_that_of_the_block_that_was_live_when_it_was_seen(read_log: Any) -> None:
    feats, weight, _ = NAMES
    assert holders(read_log(noted((25, [(A, 0), (B, 1)])))) == [feats, weight, feats, None]
    assert holders(read_log(noted((35, [(A, 0)])))) == [None, None, None, None]  # nothing is live there
    assert holders(read_log(noted((15, [(A, 0)]), (45, [(A, 1)])))) == [feats, None, feats, weight]


@pytest.mark.parametrize("read_log", [of_snapshot, of_trace])
def test_what_a_later_walk_that_saw_all_does_not_find_is_held_by_no_variable(read_log: Any) -> None:
    feats, weight, _ = NAMES
    first = (22, [(A, 1), (B, 0), (0, 2)])
    # Of a trace of a processor, whose profiler misses what threads of the program's own give back, that one may be gone.
    nobody = "no variable" if read_log is of_snapshot else None
    assert holders(read_log(noted(first, (25, [(0, 2)])))) == [weight, nobody, weight, None]
    assert holders(read_log(noted(first, (25, [])))) == [weight, feats, weight, None]


@pytest.mark.parametrize(("walks", "holder"), [((2, 4), "no variable"), ((6, 9), "variable errors[*].h (run, a.py)")])
def test_what_a_variable_held_for_longer_than_nobody_did_was_held_by_it(walks: tuple[int, int], holder: str) -> None:
    """A walk after a function has returned, whose variables a cycle keeps, finds nobody; so does one while a graph keeps what a variable had for a moment."""
    kind, addr = np.zeros(10, np.int8), np.arange(1, 11).astype(np.uint64)
    before, named = np.repeat(walks, (2, 1)), np.array([1, 0, 0], np.uint64)
    names = ("variable errors[*].h (run, a.py)", "some", "-")
    found, every = held(HolderLines(before, named, np.arange(3), names), kind, addr, np.full(10, 512), None)
    assert every[found[0]] == holder


@pytest.mark.parametrize(
    ("name", "freed", "held_by"),
    [("n.data", 9, False), ("n.data", 1, True), ("n.data[*]", 9, True), ("self.x", 9, True)],
)
def test_a_variable_that_has_another_block_holds_the_one_before_no_more(
    name: str, freed: int, *, held_by: bool
) -> None:
    """A short walk finds a second block where the first one was, of which another lives on: in a cycle perhaps, or in a graph."""
    kind, addr = np.zeros(10, np.int8), np.arange(1, 11).astype(np.uint64)
    kind[freed], addr[freed] = 1, 1
    before, named = np.array([1, 1, 4, 4]), np.array([1, 0, 4, 0], np.uint64)
    names = (f"variable {name} (work, a.py)", "some")
    found, every = held(HolderLines(before, named, np.array([0, 1, 0, 1]), names), kind, addr, np.full(10, 512), None)
    assert [every[n] if n >= 0 else None for n in found[[0, 3]]] == [names[0] if held_by else None, names[0]]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=30),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), max_size=20),
)
def test_who_holds_a_block_at_the_peak_is_whom_the_walk_next_to_it_saw(
    events: list[tuple[int, int]], rows: list[tuple[int, int]]
) -> None:
    """Blocks at four addresses, which each event makes or gives back, and walks that see each a variable of its own."""
    live, lives, kind, size = dict[int, int](), list[tuple[int, int, int, int]](), list[int](), list[int]()
    for event, (place, units) in enumerate(events):
        kind.append(place in live)
        size.append(units if place not in live else size[live[place]])
        if place in live:
            lives.append((place, live[place], event, size[event]))
            del live[place]
        else:
            live[place] = event
    lives += [(place, made, 99, size[made]) for place, made in live.items()]
    levels = [sum(n for *_, made, free, n in lives if made <= at < free) for at in range(len(events))]
    peak, end = levels.index(max(levels)) + 1, max(made for _, made, *_ in lives)
    rows = sorted((min(before, len(events)), place) for before, place in rows)
    expected = [-1] * len(events)
    for place, made, free, _ in lives:
        seen = [(at, -number) for number, (at, where) in enumerate(rows) if where == place and made < at <= free]
        if seen:
            expected[made] = last = -max(seen, key=lambda row: (row[0], -row[1]))[1]
            if made < peak <= free < end:  # what stays longer has its last holder
                early = [row for row in seen if row[0] <= peak]
                late = [row for row in seen if row[0] > peak]
                nearest = [max(early, key=lambda row: (row[0], -row[1]))] if early else []
                nearest += [min(late, key=lambda row: (row[0], -row[1]))] if late else []
                expected[made] = -min(nearest, key=lambda row: abs(row[0] - peak))[1]
            if free < 99:
                expected[free] = last
    before, address = np.array(rows, np.int64).reshape(-1, 2).T
    names = tuple(f"variable row{number} (main, a.py)" for number in range(len(rows)))
    holder, _ = held(HolderLines(before, address.astype(np.uint64) + 1, np.arange(len(rows)), names), np.array(kind, np.int8),
        np.array([place + 1 for place, _ in events], np.uint64), np.array(size, np.int64), None)  # fmt: skip
    assert holder.tolist() == expected


@pytest.mark.parametrize("alike", [None, np.array([0, 1, 0, 1, 2, 2, 2, 2], np.int32)])
def test_what_goes_with_the_program_is_as_what_calls_alike_made_and_a_walk_saw(alike: Any) -> None:
    """Two operators make a block each, which a walk sees, and each one more; of a trace each call is a place of its own."""
    kind, addr = np.array([0] * 4 + [1] * 4, np.int8), np.array([*range(1, 5)] * 2, np.uint64)
    none = np.zeros(8, np.bool_)
    place = np.array([0, 1, 0, 1, -1, -1, -1, -1] if alike is None else [*range(4), -1, -1, -1, -1], np.int32)
    calls = Calls(place, none, place < 0, alike=alike)
    names = ("saved y.grad_fn (a.py)", "variable z (a.py)")
    holder, every = held(
        HolderLines(np.array([2, 2]), addr[:2], np.array([0, 1]), names), kind, addr, np.full(8, 512), calls
    )
    assert [every[n] for n in holder[:4].tolist()] == [*names, "the backward graph", "a variable that no walk saw"]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_value_within_an_expression_is_a_temporary_though_a_graph_has_the_node_that_made_it(elsewhere: bool) -> None:
    """``softmax(q * scale)``, after whose product a walk sees all: it goes when softmax has run, or when another line has, in a run without its backward pass."""
    order = [0, 1, 2, 3, 4, 5] if elsewhere else [0, 1, 3, 2, 4, 5]
    kind, addr = np.array([0, 0, 0, 1, 1, 1], np.int8)[order], np.array([1, 2, 3, 1, 2, 3], np.uint64)[order]
    place = np.array([0, 0, 1, -1, -1, -1] if elsewhere else [0, 0, -1, 1, -1, -1], np.int32)
    calls = Calls(place, np.zeros(6, np.bool_), place < 0, operator=place * 0, operators=("mul",))
    names = ("graph loss.grad_fn (main, a.py): Multiply 1", "-")
    rows = np.array([1, 1]), np.zeros(2, np.uint64), np.array([0, 1])
    holder, every = held(HolderLines(*rows, names), kind, addr, np.full(6, 512), calls)
    assert every[holder[0]] == ("saved loss.grad_fn (main, a.py)" if elsewhere else "a temporary")


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("trained", [False, True])
def test_what_goes_within_its_line_after_another_operator_is_a_temporary_unless_the_line_is_a_loop(
    trained: bool, again: bool
) -> None:
    """``relu(linear(x))``, which no walk saw: what linear gave goes when relu has run, or linear once more."""
    kind, addr = np.array([0, 0, 0, 1, 1, 1, 0, 0], np.int8), np.array([1, 2, 3, 1, 2, 3, 4, 5], np.uint64)
    operator = np.array([0, 1, 0 if again else 2, -1, -1, -1, 3, 4], np.int32)
    place, backward = np.array([0, 0, 0, -1, -1, -1, 1, 2], np.int32), np.array([False] * 7 + [trained])
    calls = Calls(place, backward, place < 0, operator=operator, operators=("linear", "relu", "scale", "full", "grad"))
    rows = HolderLines(np.array([7]), addr[6:7], np.array([0]), ("variable y (main, a.py)",))
    holder, every = held(rows, kind, addr, np.full(8, 512), calls)
    unseen = "a variable or a graph that no walk saw" if trained else "a variable that no walk saw"
    went = [unseen if trained or again else "a temporary", unseen if trained else "a temporary", unseen]
    assert [every[n] for n in holder[:3].tolist()] == went


@pytest.mark.parametrize("of_operators", [False, True])
@pytest.mark.parametrize("trained", [False, True])
def test_what_no_walk_saw_is_as_garbage_that_was_made_so_and_in_a_training_may_be_of_a_graph(
    trained: bool, of_operators: bool
) -> None:
    """Two blocks of one call, of which a walk finds the first in a cycle; one of another call; and one of a backward pass."""
    kind, addr = np.array([0, 0, 0, 0, 1, 1, 1, 0], np.int8), np.array([1, 2, 3, 4, 1, 2, 3, 5], np.uint64)
    place = np.array([0, 0, 1, 2, -1, -1, -1, 2], np.int32)
    backward = np.array([False, False, False, trained, False, False, False, False])
    calls = Calls(place, backward, place < 0, operator=place, operators=("full", "relu", "grad"))
    calls = calls if of_operators else calls._replace(operator=None)
    garbage = "garbage Adam.moment1[*] (a cycle that gc.collect() frees)"
    size = np.full(8, 512)
    holder, every = held(HolderLines(np.array([1]), addr[:1], np.array([0]), (garbage,)), kind, addr, size, calls)
    graph = "a variable or a graph that no walk saw" if trained else "a variable that no walk saw"
    assert [every[n] for n in holder[:3].tolist()] == [garbage, garbage, graph]


@pytest.mark.parametrize(("freed", "holder"), [(7, "variable queue[*] (fill, a.py)"), (10, "variable x (main, a.py)")])
def test_what_goes_on_to_another_is_held_by_who_had_it_at_the_peak_unless_it_stays(freed: int, holder: str) -> None:
    """Two blocks are in a queue while a third makes the peak; the first is another variable's then, to the end or until before the last ALLOC."""
    kind = np.array([0, 0, 0, 1, 1, 2, 2, 2, 0, 1, 2, 2], np.int8)
    addr = np.array([1, 2, 3, 3, 2, 0, 0, 0, 4, 4, 0, 0], np.uint64)
    kind[freed], addr[freed] = 1, 1
    names = ("variable queue[*] (fill, a.py)", "-", "variable x (main, a.py)")
    before, named, name = np.array([2, 2, 2, 5, 5]), np.array([1, 2, 0, 1, 0], np.uint64), np.array([0, 0, 1, 2, 1])
    found, every = held(HolderLines(before, named, name, names), kind, addr, np.where(kind < 2, 512, 0), None)
    assert [every[n] for n in found[:2].tolist()] == [holder, names[0]]


@pytest.mark.parametrize(("walk", "holder"), [(9, "a variable that no walk saw"), (11, "no variable")])
def test_what_is_younger_than_another_was_when_it_was_found_may_be_held_as_that_is(walk: int, holder: str) -> None:
    """One call makes two blocks, which a library passes on before a list has them: the first is found three events later; of the second the last walk is earlier, or as late."""
    kind = np.array([0, 1, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1, 1, 1], np.int8)
    addr = np.array([9, 9, 1, 8, 8, 8, 8, 2, 8, 8, 8, 8, 8, 1, 2], np.uint64)
    place = np.array([-1, -1, 0, -1, 1, -1, 1, 0, -1, 1, -1, 1, -1, -1, -1], np.int32)
    calls = Calls(place, np.zeros(15, np.bool_), place < 0)
    names = ("variable metric.seen[*] (main, fit.py)", "-")
    before, named, name = np.array([6, 6, walk, walk]), np.array([1, 0, 1, 0], np.uint64), np.array([0, 1, 0, 1])
    found, every = held(HolderLines(before, named, name, names), kind, addr, np.full(15, 512), calls)
    assert [every[n] for n in found[[2, 7]].tolist()] == [names[0], holder]


@pytest.mark.parametrize(
    ("seen", "short", "kept"),
    [
        ("variable metric.preds[*] (train.py)", "variable self.preds[*] (result, train.py)", True),
        ("optimizer opt (main, train.py)", "variable v (<dictcomp>, train.py)", True),
        ("variable metric.preds[*] (train.py)", "variable self.best (result, train.py)", False),
        ("variable batch (train.py)", "variable x (forward, train.py)", False),
    ],
)
def test_what_a_walk_from_functions_alone_calls_otherwise_keeps_the_name_that_it_is_known_by(
    seen: str, short: str, *, kept: bool
) -> None:
    """An attribute that another variable leads to, and the state of an optimizer that a loop goes through, and not the next block at that address."""
    kind, addr = np.array([0, 1, 0, 1], np.int8), np.ones(4, np.uint64)
    before, named = np.array([1, 1, 1, 1, 3, 3]), np.array([1, 0, 1, 0, 1, 0], np.uint64)
    names = (seen, "-", short, "some")
    found, every = held(
        HolderLines(before, named, np.array([0, 1, 2, 3, 2, 3]), names), kind, addr, np.full(4, 512), None
    )
    assert [every[n] for n in found] == [seen if kept else short] * 2 + [short] * 2


@pytest.mark.parametrize("read_log", [of_snapshot, of_trace])
def test_a_walk_before_the_first_event_says_nothing_of_blocks_that_were_there(read_log: Any) -> None:
    assert set(holders(read_log(noted((5, [(A, 0), (B, 1)]))))) == {None}


def test_where_entries_have_no_times_the_walk_of_the_snapshot_itself_counts() -> None:
    log = of_snapshot(noted((25, [(A, 0), (B, 1)]), (50, [(A, 1)])), timed=False)
    assert holders(log) == [None, None, None, NAMES[1]]


@pytest.mark.parametrize("read_log", [of_snapshot, of_trace])
@pytest.mark.parametrize(
    "notes",
    [
        None,
        7,
        [],
        {},
        {"holders": None},
        {"holders": {}},
        noted((25, [(A, 0)]), names="x"),
        noted((25, [(A, 0)]), names=[1]),
        noted((25, [(A, 3)])),
        noted((25, [(A, -1)])),
        noted((25, [(1 << 64, 0)])),
        noted((25, [(A, 0)]), rows=[2]),
        noted((25, [(A, 0)]), rows=[1 << 62]),
        noted((25, [(A, 0)]), time_us=[]),
        noted((25, [(A, 0)]), address=[True]),
        noted((25, [(A, 0)]), address=[A, A]),
        noted((25, []), (20, [])),
    ],
)
def test_notes_that_cannot_be_read_are_none(read_log: Any, notes: Any) -> None:
    assert read_log(notes).holder is None


def test_a_note_that_is_no_text_of_base_64_is_none() -> None:
    for text in ('"?"', '"eA=="', '"W10="', "7"):
        (log,) = read_bytes(
            b'{"memlens": %b, "traceEvents": [{"ph": "i", "name": "[memory]", "ts": 1, "args": {"Device Type": 0,'
            b' "Device Id": -1, "Bytes": 8, "Addr": 8}}]}' % text.encode()
        )
        assert log.holder is None


def owners_with(passes: Any) -> list[str | None]:
    """Who allocates: a forward pass, two blocks of no stack, one more after another pass began; the last one is given back without one, too."""
    forward = [frame("/train.py", 3, "main")]
    taken = [(10, A, forward), (20, B, []), (30, B + 4096, []), (50, B + 8192, [])]
    trace = [entry("alloc", addr, 512, time_us=START + time, frames=frames) for time, addr, frames in taken]
    trace += [
        entry(action, B + 8192, 512, time_us=START + 60, frames=[]) for action in ("free_requested", "free_completed")
    ]
    (log,) = read({"segments": [], "device_traces": [trace], "memlens": {"passes": passes}})
    assert log.owner is not None
    return [None if n < 0 else log.owner_names[n] for n in log.owner.tolist()]


def test_what_has_no_stack_is_by_the_pass_that_began_last() -> None:
    stacks = [
        [frame("/site-packages/torch/autograd/__init__.py", 9, "backward"), frame("/train.py", n, "main")]
        for n in (5, 6)
    ]
    times = [START + 25, START + 40]
    found = owners_with({"stacks": stacks, "time_us": times, "stack": [1, 0]})
    first, second = (f"torch/autograd/__init__.py:9 backward < train.py:{n} main" for n in (6, 5))
    assert found == ["train.py:3 main", None, first, second, None]


@pytest.mark.parametrize(
    "passes",
    [
        *(None, 7, {}, {"stacks": [], "time_us": [START], "stack": [0]}),
        *({"stacks": [[]], "time_us": [START], "stack": []}, {"stacks": [7], "time_us": [START], "stack": [0]}),
        *({"stacks": [[]], "time_us": ["x"], "stack": [0]}, {"stacks": [[]], "time_us": [-1], "stack": [0]}),
        {"stacks": [[]], "time_us": [START], "stack": [-1]},
    ],
)
def test_passes_that_cannot_be_read_are_none(passes: Any) -> None:
    assert owners_with(passes) == ["train.py:3 main", None, None, None, None]
