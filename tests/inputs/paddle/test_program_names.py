"""The names that a recorded program writes into the log of Paddle: who allocates, and who holds."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any
from unittest import mock

import paddle
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from in_threads import in_small_blocks
from night import chance_of, some
from raw_runs import of_paddle

import memlens
from memlens.inputs.paddle import lines
from memlens.log import Log
from memlens.native import load
from memlens.windows.patterns import Pattern

CALLER, WORKER, OTHER = 586, 855, 900


def line(thread: int, text: str) -> str:
    return f"I1125 22:50:36.950187 {thread:5d} file.cc:1] {text}\n"


def calls(owner: str, thread: int = CALLER) -> str:
    return line(thread, f"memlens calls {owner}")


def alloc(address: int, thread: int = CALLER, size: int = 256) -> str:
    return line(thread, f"Alloc {size} bytes, ptr = 0x{address:x}")


def free(address: int, size: int = 256) -> str:
    return line(CALLER, f"Free {size} bytes, ptr = 0x{address:x}")


def holds(address: int, holder: str) -> str:
    return line(CALLER, f"memlens holds 0x{address:x} {holder}")


def read(*lines: str) -> Log:
    return memlens.read(io.BytesIO("".join(lines).encode()))


def owners(log: Log) -> list[str | None]:
    return [log.owner_of(event) for event in range(len(log))]


def holders(log: Log) -> list[str | None]:
    numbers: Sequence[int] = [-1] * len(log) if log.holder is None else log.holder.tolist()
    return [log.holder_names[number] if number >= 0 else None for number in numbers]


MATMUL = "matmul < mlp.py:25 forward < train.py:13 main"


def test_what_is_allocated_during_a_call_is_of_its_lines_and_what_comes_after_is_not() -> None:
    log = read(alloc(1), calls(MATMUL), alloc(2), alloc(3), calls("-"), alloc(4), calls("relu < a.py:1 f"), alloc(5))
    assert owners(log) == [None, MATMUL, MATMUL, None, "relu < a.py:1 f"]


def test_operators_that_the_framework_names_have_the_lines_of_the_call_that_they_are_within() -> None:
    log = read(
        *(calls("run_backward < train.py:20 main"), alloc(1)),
        *(line(CALLER, "MatmulGradNode(0x5619134aaac0) Preparing "), alloc(2)),
        *(line(CALLER, "Running_AD_API_GRAD: reshape_grad"), alloc(3)),
        *(line(CALLER, "Preparing GradNode:ReluGradNode addr:0x5579cdee0500"), alloc(4), calls("-"), alloc(5)),
        *(line(CALLER, "Running_AD_API: relu"), alloc(6)),
    )
    assert owners(log) == [
        "run_backward < train.py:20 main",
        "MatmulGradNode < train.py:20 main",
        "reshape_grad < train.py:20 main",
        "ReluGradNode < train.py:20 main",
        None,
        "relu",
    ]


def test_what_the_threads_of_an_executor_allocate_is_of_the_only_thread_that_calls_operators() -> None:
    log = read(calls("run_program < train.py:9 main"), alloc(1, WORKER), calls("-"), alloc(2, WORKER))
    assert owners(log) == ["run_program < train.py:9 main", None]


def test_of_two_threads_that_call_operators_neither_is_blamed_for_a_third() -> None:
    log = read(calls(MATMUL), calls("relu < a.py:1 f", OTHER), alloc(1, WORKER), alloc(2, OTHER), alloc(3))
    assert owners(log) == [None, "relu < a.py:1 f", MATMUL]


@pytest.mark.parametrize("apart", [0, 60_000])
def test_a_call_goes_on_in_the_next_block_of_text(apart: int) -> None:
    """A block is 2 MiB of text."""
    log = read(
        calls("run_backward < train.py:20 main"),
        *[line(CALLER, "x" * 40)] * apart,
        *(line(CALLER, "AddGradNode(0x1) Preparing "), alloc(1), calls("-"), alloc(2)),
    )
    assert owners(log) == ["AddGradNode < train.py:20 main", None]


def test_a_block_is_held_by_what_the_last_line_on_it_says_and_a_later_one_at_its_address_is_not() -> None:
    log = read(
        *(alloc(256), alloc(512), holds(256, "variable h (main, train.py)"), holds(512, "parameter w (train.py)")),
        *(holds(256, "variable feats[*] (train.py)"), free(256), alloc(256), holds(1024, "variable x (train.py)")),
    )
    feats, weight = "variable feats[*] (train.py)", "parameter w (train.py)"
    assert holders(log) == [feats, weight, feats, None]


def test_groups_have_the_holder_of_most_of_their_blocks() -> None:
    log = read(
        calls(MATMUL),
        *(alloc(256 * k) for k in range(1, 6)),
        *(holds(256 * k, "variable feats[*] (train.py)") for k in (1, 3, 5)),
        holds(512, "variable h (main, train.py)"),
    )
    window = memlens.analyze(log, whole=True).logs[0].windows[0].results
    assert [(group.count, group.holder) for group in window["peak"].live] == [(5, "variable feats[*] (train.py)")]
    assert [(group.count, group.holder) for group in window["unmatched"].held] == [(5, "variable feats[*] (train.py)")]


def test_who_holds_fewer_than_half_of_some_blocks_is_not_said_to_hold_them() -> None:
    log = read(
        calls(MATMUL), *(alloc(256 * k) for k in range(1, 6)), *(holds(256 * k, "variable h (t.py)") for k in (1, 2))
    )
    result = memlens.analyze(log, whole=True).logs[0]
    assert [group.holder for group in result.windows[0].results["peak"].live] == [None]
    assert "held by" not in result.verdict


@pytest.mark.parametrize(("large", "held"), [(300, "h"), (512, None)])
def test_the_peak_has_who_holds_most_bytes_of_its_largest_part(large: int, held: str | None) -> None:
    small = [(256 * k, 256) for k in range(1, 3)]
    log = read(
        calls(MATMUL),
        *(alloc(address, size=size) for address, size in (*small, (1 << 20, large))),
        *(holds(address, f"variable h[{address}] (t.py)") for address, _ in small),
        holds(1 << 20, "parameter net.weight (t.py)"),
    )
    (peak,) = [claim for claim in memlens.analyze(log, whole=True).logs[0].claims if claim.kind == "largest_at_peak"]
    # 512 of 812 bytes are the small blocks', and 512 of 1,024 not more than half.
    assert peak.values.get("holder") == (held and "h[*] (t.py)")
    assert (peak.values["blocks"], peak.values["total_bytes"]) == (3, 512 + large)


def test_the_verdict_on_a_leak_ends_in_a_line_of_the_program_and_a_variable() -> None:
    """Each step leaves 1 MiB in a list; each block is seen there at the next step."""
    address = [0x1000 * step for step in range(1, 12)]
    steps = [
        (
            f"STEP {step}\n",
            *(holds(one, "variable feats[*] (main, mlp.py)") for one in address[:step]),
            *(calls("relu < mlp.py:25 forward < mlp.py:40 main"), alloc(address[step], size=1 << 20), calls("-")),
        )
        for step in range(11)
    ]
    text = "".join(part for step in steps for part in step)
    log = memlens.analyze(io.BytesIO(text.encode())).logs[0]
    assert log.growth is not None
    assert [(pile.owner, pile.holder) for pile in log.growth.piling] == [
        ("relu < mlp.py:25 forward < mlp.py:40 main", "variable feats[*] (main, mlp.py)")
    ]
    assert "by relu < mlp.py:25 forward, held by feats[*] (main, mlp.py)" in log.verdict


def test_a_log_without_such_lines_has_no_holders() -> None:
    log = read(alloc(1), free(1))
    assert (log.holder, log.owner, log.holder_names) == (None, None, ())


def test_what_the_next_whole_walk_finds_nobody_to_hold_is_held_by_no_variable() -> None:
    hidden, weight = "variable hidden (main, train.py)", "parameter w (train.py)"
    walked = holds(0, "-")
    log = read(
        *(alloc(256), alloc(512), alloc(768), holds(256, hidden), holds(512, weight), holds(768, hidden), walked),
        *(alloc(1024), holds(1024, hidden), holds(768, hidden), walked, free(768), alloc(1280), holds(1280, hidden)),
        *(alloc(1536), alloc(1792)),
    )
    # The first block has no line in the second walk, for as long as it had one; a parameter is written once; after the last line no walk ends.
    assert holders(log) == ["no variable", weight, hidden, hidden, hidden, hidden, None, None]


def test_what_no_variable_holds_when_a_backward_pass_begins_and_the_pass_gives_back_was_saved_for_it() -> None:
    hidden, begins = "variable h (main, train.py)", calls("run_backward < train.py:20 main")
    node = line(CALLER, "MatmulGradNode(0x5619134aaac0) Preparing ")
    log = read(
        *(calls(MATMUL), alloc(256), alloc(512), alloc(768), calls("-"), holds(256, hidden), holds(0, "-")),
        *(begins, alloc(1024), node, free(512), free(1024), calls("-"), free(256), begins, free(768), calls("-")),
    )
    saved, passing = "the backward graph", "a temporary of the backward pass"
    assert holders(log) == [hidden, saved, saved, passing, saved, passing, hidden, saved]


@pytest.mark.parametrize("walked", [False, True])
def test_what_is_recomputed_within_a_backward_pass_was_saved_for_the_pass_within_it(walked: bool) -> None:
    """A layer is computed anew, and its own pass gives back what it saved, as nodes of the outer pass do what that made."""
    outer, node = "run_backward < train.py:20 main", line(CALLER, "GeluGradNode(0x5619134aaac0) Preparing ")
    x = "variable x (main, train.py)"
    log = read(
        *(alloc(64), holds(64, x)),
        *(calls(outer), node, alloc(256), calls(f"gelu < train.py:9 forward < {outer}"), alloc(512), calls(outer)),
        *((holds(64, x), holds(0, "-")) if walked else ()),
        *(calls(f"run_backward < {outer}"), node, alloc(768), free(512), free(768), calls(outer), node, free(256)),
    )
    saved, passing = "the backward graph", "a temporary of the backward pass"
    made = "no variable" if walked else passing
    assert holders(log) == [x, made, saved, passing, saved, passing, made]


def test_a_gradient_that_no_variable_holds_was_saved_where_a_later_pass_gives_it_back() -> None:
    """The first pass makes two with a graph of their own; the second one differentiates through one of them, and the program lets go of the other."""
    first, node = calls("run_partial_grad < train.py:19 main"), line(CALLER, "GeluGradNode(0x5619134aaac0) Preparing ")
    log = read(
        *(first, node, alloc(256), alloc(512), calls("-"), calls(MATMUL), alloc(768), calls("-"), holds(0, "-")),
        *(calls("run_backward < train.py:20 main"), node, free(256), free(768), calls("-"), free(512)),
    )
    saved = "the backward graph"
    assert holders(log) == [saved, "no variable", saved, saved, saved, "no variable"]


def test_what_goes_with_the_program_was_held_as_the_last_one_that_the_same_line_made() -> None:
    begins, node = calls("run_backward < train.py:20 main"), line(CALLER, "MatmulGradNode(0x5619134aaac0) Preparing ")
    add = calls("add < train.py:12 main")
    log = read(
        *(alloc(64, size=2048), holds(64, "parameter net.w (train.py)")),
        *(calls(MATMUL), alloc(256), add, alloc(512), calls("-"), begins, node, free(256), calls("-"), free(512)),
        *(calls(MATMUL), alloc(768), add, alloc(1024), calls("-"), free(768), free(1024)),
    )
    saved, unseen = "the backward graph", "a variable or a graph that no walk saw"
    found = {int(addr): name for addr, kind, name in zip(log.addr, log.kind, holders(log), strict=True) if not kind}
    assert found == {64: "parameter net.w (train.py)", 256: saved, 512: unseen, 768: saved, 1024: unseen}


def test_what_was_a_state_of_an_optimizer_that_is_gone_is_held_by_no_variable_or_saved_where_its_address_is_taken_again() -> (
    None
):
    states, begins = "optimizer adam (main, train.py)", calls("run_backward < train.py:20 main")
    log = read(
        *(alloc(256), holds(256, states), alloc(512), holds(512, states), holds(0, "-"), free(512)),
        *(calls(MATMUL), alloc(512), calls("-"), holds(256, "no variable"), holds(512, "no variable"), holds(0, "-")),
        *(begins, line(CALLER, "MatmulGradNode(0x5619134aaac0) Preparing "), free(512), calls("-")),
    )
    assert holders(log) == ["no variable", states, states, "the backward graph", "the backward graph"]


def test_what_goes_as_a_variable_and_is_as_an_optimizers_states_was_one() -> None:
    """An optimizer that is replaced before a walk sees it goes when the collector comes."""
    step, states = calls("full_ < train.py:30 main"), "optimizer adam (main, train.py)"
    log = read(
        *(step, alloc(256, size=64), calls("-"), holds(256, states), holds(0, "-")),
        *(step, alloc(512, size=64), alloc(768, size=32), calls("-"), free(512), free(768), alloc(1024)),
    )
    state, unseen = "optimizer state that no walk saw", "a variable that no walk saw"
    assert holders(log) == [states, state, unseen, state, unseen, None]


@pytest.mark.parametrize("weight", ["parameter net.w (train.py)", "variable x (main, train.py)"])
def test_of_what_no_walk_saw_its_life_tells_who_held_it(weight: str) -> None:
    begins, other = calls("run_backward < train.py:20 main"), calls("relu < train.py:9 main")
    hook = calls("mul < train.py:5 hook < run_backward < train.py:20 main")
    node = line(CALLER, "MatmulGradNode(0x5619134aaac0) Preparing ")
    unseen, saved = "a variable that no walk saw", "the backward graph"
    call, passing, nobody = "a temporary", "a temporary of the backward pass", "no variable"
    log = read(
        *(alloc(64), holds(64, weight)),
        *(calls(MATMUL), alloc(256), alloc(512), free(256), alloc(768), calls("-"), holds(0, "-")),
        # One is given back within its call, one by the program, one by the graph, one by another call, and one never.
        *(calls(MATMUL), alloc(1024), alloc(1280), alloc(1536), alloc(1792), alloc(2048), free(1024), calls("-")),
        *(free(1280), begins, node, free(1536), free(512), alloc(2304), hook, alloc(2560), begins, free(2560)),
        *(free(2304), alloc(2816), calls("-"), free(2816), other, free(1792), free(768), calls("-")),
    )
    found = {int(addr): name for addr, kind, name in zip(log.addr, log.kind, holders(log), strict=True) if not kind}
    assert found == {
        64: weight,
        256: call,
        512: saved,
        768: nobody,
        1024: call,
        1280: unseen,
        1536: saved,
        1792: None,
        2048: None,
        2304: passing,
        2560: passing,
        2816: "a gradient that no walk saw" if weight.startswith("parameter") else None,
    }
    names = holders(log)
    assert all(names[free] == names[alloc] for alloc, free in enumerate(log.lifetimes.partner.tolist()) if free > alloc)


def test_what_an_operator_was_given_and_what_is_let_go_of_before_the_next_one_is_a_temporary() -> None:
    given_to = "temporary argument of softmax (attend, serve.py)"
    after = (holds(256, given_to), holds(512, given_to), holds(0, "some"), calls("-"), free(256))
    log = read(
        calls(MATMUL), alloc(256), alloc(512), calls("-"), calls("softmax < serve.py:9 attend"), alloc(768), *after
    )
    assert holders(log)[:2] == [given_to, None]
    log = read(
        *(calls(MATMUL), alloc(256), alloc(512), calls("-"), holds(512, "variable h (main, serve.py)"), holds(0, "-")),
        *(calls("softmax < serve.py:9 attend"), alloc(768), *after),
        # The second one lives through another operator: it was held by what was not looked at then.
        *(calls("add < serve.py:9 attend"), alloc(1024), calls("-"), free(512)),
    )
    assert holders(log)[:2] == [given_to, "variable h (main, serve.py)"]


_ADDRESS = st.integers(1, 5)
_CALLED = st.sampled_from(
    [MATMUL, "relu < mlp.py:26 forward < train.py:13 main", "run_backward < train.py:20 main", "-"]
)
_HELD = [
    "variable h (main, t.py)",
    "parameter w (t.py)",
    "gradient w.grad (t.py)",
    *(f"variable {one}.h (main, t.py)" for one in ("a", "b")),
]
_GIVEN = "temporary argument of relu (forward, mlp.py)"
_ACT = st.one_of(
    _CALLED.map(lambda owner: ("calls", owner)),
    st.tuples(st.just("alloc"), _ADDRESS, st.sampled_from([256, 512])),
    st.tuples(st.just("free"), _ADDRESS),
    st.tuples(
        st.just("walk"), st.booleans(), st.lists(st.tuples(_ADDRESS, st.sampled_from([*_HELD, _GIVEN])), max_size=4)
    ),
)


_SEEN = [(1, "variable h (main, t.py)")]


@given(st.lists(_ACT, max_size=30))
@example([("alloc", 1, 256), ("walk", False, _SEEN), ("walk", True, [])])
@example([("walk", False, _SEEN), ("calls", MATMUL), ("alloc", 1, 256), ("alloc", 2, 256), ("walk", True, _SEEN)])
@example([("calls", MATMUL), ("alloc", 1, 256), ("alloc", 3, 256), ("free", 1), ("walk", True, _SEEN)])
@example(
    [
        ("alloc", 1, 256),
        ("free", 1),
        ("calls", "run_backward < train.py:20 main"),
        ("alloc", 1, 256),
        ("walk", False, []),
    ]
)
def test_holders_of_logs_by_chance_are_those_of_the_plain_twin(acts: list[tuple[Any, ...]]) -> None:
    text, live = [alloc(4096, size=1), calls(MATMUL), alloc(8192, size=1), calls("-")], dict[int, int]()
    for what, *values in acts:
        if what == "calls":
            text.append(calls(values[0]))
        elif what == "alloc" and values[0] not in live:
            live[values[0]] = values[1]
            text.append(alloc(values[0], size=values[1]))
        elif what == "free" and values[0] in live:
            text.append(free(values[0], size=live.pop(values[0])))
        elif what == "walk":
            whole, rows = values
            # A whole walk asks variables alone, before an operator, and names a block once.
            named = {address: name for address, name in rows if not (whole and name == _GIVEN)}
            text += [calls("-"), *(holds(one, name) for one, name in named.items()), holds(0, "-" if whole else "some")]
    log, run = read(*text), of_paddle("".join(text).replace("file.cc:1]", "line.py:0]"))
    found = {event: name for event, name in enumerate(holders(log)) if name is not None and log.kind[event] == 0}
    assert found == (run.holders if log.holder is not None else {})


@pytest.mark.skipif(load("memlens.scanner._scan") is None, reason="the compiled module was not built")
@pytest.mark.parametrize("size", [500, 1 << 20])
@pytest.mark.parametrize("seed", some(range(60), 6))
def test_owners_and_requests_are_those_of_the_plain_scanner(seed: int, size: int) -> None:
    """Of lines between two events the compiled scanner gives the latest ones only: callers, workers that name operators, and others that do not."""
    chance = chance_of(f"{__name__} {seed} {size}")
    callers, workers = [CALLER] * 3 + [CALLER + 4] * chance.randrange(2), [WORKER, WORKER + 1, OTHER]

    def one() -> str:
        thread = chance.choice([*callers, *workers])
        if thread in callers and chance.random() < 0.3:
            return calls(chance.choice([MATMUL, "relu < a.py:1 f", "-"]), thread)
        aligned = 256 * chance.randrange(1, 3)
        said = [f"Allocate {aligned - 6} bytes, aligned to {aligned}, extra size 0"] * 2
        said += [f"Running AD API: op{chance.randrange(4)}"] * (3 if thread != OTHER else 0)
        said += [f"Alloc {aligned} bytes, ptr = 0x{256 * chance.randrange(1, 9):x}", "Free 256 bytes, ptr = 0x100"]
        if chance.random() < 0.02:
            said = [
                f"Allocate {2**63 - 1} bytes, aligned to 256",
                "Alloc 256 bytes, ptr = 0x1x",
                f"Alloc {2**64} bytes, ptr = 0x1",
            ]
        return line(thread, chance.choice(said))

    text = alloc(1) + "".join(one() for _ in range(300))
    marks = chance.choice([(), (Pattern(r"Free (\d+)", regex=True),)])

    def found() -> list[Any]:
        with in_small_blocks(size):
            log = paddle.read(io.BytesIO(text.encode()), owners=marks)
        return [owners(log), None if log.requested is None else log.requested.tolist(), log.facts.malformed]

    scanner = lines.scanner(times=False, replays=False)
    rows = found()
    with mock.patch.object(scanner, "_compiled", None):
        assert rows == found()
