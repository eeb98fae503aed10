"""The roles of blocks whose holders nobody recorded: what rules tell is true where it is told, and told where it can be known."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from edited_runs import Row, write
from hypothesis import given
from hypothesis import strategies as st
from made_trainings import Called, Training, live_at
from msgspec.structs import replace
from night import NIGHT, some
from raw_runs import read_packed
from snapshots import entry, frame, read

import memlens
from memlens.analyzers.composition import Roles
from memlens.analyzers.roles.by_stack import roles_by_stack
from memlens.analyzers.roles.by_steps import roles_by_steps
from memlens.claims.roles import ROLES
from memlens.facts import Kind
from memlens.inputs import read_all
from memlens.log import Log

NAMES = (*ROLES, None)
SEEDS = st.integers(0, 1 << 32)


def totals(log: Log, roles: Any, live: Any) -> Counter[str | None]:
    found = Counter[str | None]()
    for role, size in zip(roles.tolist(), log.size[live].tolist(), strict=True):
        found[NAMES[role]] += size
    return found


def peak_of(log: Log) -> int:
    """The event after the first one that reaches the highest level."""
    sizes = np.where(log.kind == Kind.ALLOC, log.size, np.where(log.kind == Kind.FREE, -log.size, 0))
    return int(np.cumsum(sizes).argmax()) + 1


# -- by steps --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batches", [1, 2, 4])
def test_of_a_step_that_adds_up_gradients_of_several_batches_nothing_else_is_told(batches: int, tmp_path: Path) -> None:
    """What all but the first batch save comes after the gradients, to which theirs are added."""
    mib, numbers = 1 << 20, count(1)
    weights = [(4 * mib, next(numbers)) for _ in range(6)]
    rows: list[Row] = [("ALLOC", *one) for one in weights]
    for step in range(4):
        rows.append(("STEP", step, 0))
        sums: list[int] = []
        for _ in range(batches):
            saved = [(3 * mib + 4096 * k, next(numbers)) for k in range(12)]
            rows += [("ALLOC", *one) for one in saved]
            for k in range(6):
                rows.append(("ALLOC", 4 * mib, made := next(numbers)))
                if len(sums) <= k:
                    sums.append(made)
                else:
                    rows.append(("FREE", 4 * mib, made))
                rows += [("FREE", *saved.pop()), ("FREE", *saved.pop())]
        if step == 0:
            rows += [("ALLOC", 4 * mib, next(numbers)) for _ in range(12)]
        rows += [("FREE", 4 * mib, one) for one in sums]
    (log,) = memlens.analyze(write(rows, tmp_path / "run.log")).logs
    told = {row.role: row.total_bytes for row in log.windows[0].results["composition"].roles}
    assert told["parameter"] == 24 * mib
    assert told["optimizer"] == 48 * mib
    assert ("saved" in told) == (batches == 1)
    assert "temporary" not in told


@given(SEEDS, st.integers(0, 2), st.floats(0, 1))
def test_roles_by_steps_are_those_that_blocks_were_made_for(seed: int, states: int, where: float) -> None:
    training = Training(seed, states)
    log, steps = training.log()
    event = training.steps[1] + 1 + int(where * (len(log) - training.steps[1] - 1))
    live = live_at(log, event)
    roles = roles_by_steps(log, *steps, event, live)
    if roles is None:
        # Within a step whose gradients are still to come, those of the step before are looked at: there are always some.
        raise AssertionError("steps that are all alike tell roles")
    for role, alloc in zip(roles.tolist(), live.tolist(), strict=True):
        # What a step begins with, the batch, lives as what is saved does.
        want = training.role_of(log, alloc, 20)
        assert NAMES[role] == want or (want == "variable" and NAMES[role] in ("saved", "temporary"))


@given(SEEDS, st.integers(0, 2), st.booleans())
def test_what_a_step_leaves_to_the_next_one_is_kept_by_the_program(seed: int, states: int, early: bool) -> None:
    training = Training(seed, states, ahead=True)
    log, (lo, hi) = training.log()
    # Made by the line that begins the step, or before it: in the end of the step before, as others read the log.
    lo, hi = (lo, hi) if early else (lo - 1, np.append(hi[:-1] - 1, hi[-1]))
    for start in lo[1:].tolist():
        batch = start - 1 if early else start
        live = live_at(log, event := start + 4)
        roles = roles_by_steps(log, lo, hi, event, live)
        assert roles is not None
        told = NAMES[roles[live.tolist().index(batch)]]
        assert told == "variable" if early else told in ("saved", "temporary", "variable")


@given(SEEDS, st.integers(0, 2))
def test_where_nothing_tells_steps_apart_from_what_was_before_no_role_is_told(seed: int, states: int) -> None:
    training = Training(seed, states)
    log, steps = training.log()
    live = live_at(log, event := peak_of(log))
    assert roles_by_steps(log, steps[0][:1], steps[1][:1], event, live) is None  # one step
    none = np.zeros(0, np.int64)
    assert roles_by_steps(log, none, none, event, live) is None
    # Lines that end steps: states that the first one makes stand before the first line, and look like parameters.
    late = roles_by_steps(log, steps[0][1:], steps[1][1:], event, live)
    if states:
        assert late is None
    # Passes that only go forward.
    forward = [block for block in training.events if training.blocks[block].phase in ("model", "forward")]
    training.events = [block for block in forward if training.blocks[block].role != "saved"]
    training.steps = [len(training.parameters) + 4 * k for k in range(3)]
    log, steps = training.log()
    assert roles_by_steps(log, *steps, len(log), live_at(log, len(log))) is None


def parameters(argv: list[str]) -> list[int]:
    """How many numbers each parameter has of the models of ``paddle-hostdev/train.py``."""
    options = dict(pairwise(argv))
    layers, dim, words = int(options.get("--layers", 2)), int(options.get("--dim", 64)), 512
    if options.get("--model", "cnn").startswith("cnn"):
        found, width = [3 * 16 * 9, 16, 16], 16
        for _ in range(layers):
            wide = 2 * width
            found += [width * wide * 9, wide, wide, wide * wide * 9, wide, wide, width * wide]
            width = wide
        return [*found, width * 10, 10]
    block = [dim] * 4 + [3 * dim * dim, 3 * dim, dim * dim, dim, 4 * dim * dim, 4 * dim, 4 * dim * dim, dim]
    return [words * dim, int(options.get("--seq", 32)) * dim, *block * layers, dim, dim, dim * words, words]


#: Logs of AdamW; where the device or the log has no memory of the model's, or blocks of several processes, there is nothing to tell.
ADAMW = re.compile(r"(?:04|05_(?!oom)|06|10_v(?:8|10_)|262|30b?2?_|331_)")


def test_roles_of_real_logs_are_the_models_arithmetic(shared: Path) -> None:
    seen, unnamed = 0, []
    for stats in sorted((shared / "data" / "paddle").glob("*.stats.json")):
        name = stats.name.removesuffix(".stats.json")
        path = next(
            (stats.with_name(name + end) for end in (".log", ".log.gz") if stats.with_name(name + end).exists()), None
        )
        if path is None or not ADAMW.match(name):
            continue
        seen += 1
        text = read_packed(path)
        log = memlens.read(path)
        (logs,) = memlens.analyze(path, by=r"STEP (\d+) START", analyzers=["composition", "peak"]).logs
        best = max(logs.windows, key=lambda window: window.results["peak"].peak_bytes)
        rows = {share.role: share for share in best.results["composition"].roles if share.at == "peak"}
        assert {share.told_by for share in rows.values()} == {"steps"}, name
        # Each block is a multiple of 256 bytes, in one log behind 32 bytes that nobody asked for.
        numbers = parameters(json.loads(stats.read_text())["argv"])
        more = 32 if "padding32" in name else 0
        truth = sum(-(-(4 * n + more) // 256) * 256 for n in numbers)
        assert abs(rows["parameter"].total_bytes - truth) <= 0.01 * truth, name
        # Two states of each, and for each parameter two numbers, of 256 bytes as well.
        assert 2 * truth * 0.98 <= rows["optimizer"].total_bytes <= 2 * truth * 1.02 + 512 * len(numbers), name
        # What was saved for the backward pass, by the lines that the program prints: made before it begins, and given back after.
        events = [
            int(log.events_before(np.array([at.start()]))[0]) for at in re.finditer(rb"(?m)^START BACKWARD", text)
        ]
        starts = [
            int(log.events_before(np.array([at.start()]))[0]) for at in re.finditer(rb"(?m)^STEP \d+ START", text)
        ]
        event = peak_of(log)
        live = live_at(log, event)
        start = max(one for one in starts if one < event)
        begins = min(one for one in events if one >= start)
        saved = live[(live >= start) & (live < begins)]
        saved = saved[log.lifetimes.partner[saved] > begins]
        assert event > begins, name
        # Of a loss, and where several threads are at work, a block may be on the other side.
        assert abs(rows["saved"].total_bytes - int(log.size[saved].sum())) <= 512, name
        if "leak_graph" not in name:
            unnamed.append(rows[None].total_bytes / sum(row.total_bytes for row in rows.values()))
    assert seen >= 27
    assert sorted(unnamed)[20] <= 0.01
    assert max(unnamed) <= 0.12


# -- by stacks -------------------------------------------------------------------------------------------------------------


@given(SEEDS, st.integers(0, 2), st.booleans(), st.floats(0, 1), st.floats(0, 1))
def test_roles_by_stack_are_those_that_blocks_were_made_for(
    seed: int, states: int, of_python: bool, begin: float, where: float
) -> None:
    """The record begins before the model, or somewhere in the first step or the second."""
    training = Training(seed, states)
    third = training.steps[2]
    log = training.snapshot(int(begin * third) if begin > 0.3 else 0, of_python=of_python)
    found = roles_by_stack(log)
    assert found is not None
    opening = log.facts.opening
    live = live_at(log, opening + int(where * (len(log) - opening)))
    live = live[log.kind[live] == Kind.ALLOC]
    for role, alloc in zip(found.role[live].tolist(), live.tolist(), strict=True):
        want = training.role_of(log, alloc, 30)
        allowed = {want, None} | ({"model"} if want == "parameter" else set())
        assert NAMES[role] in allowed
    if begin <= 0.3:
        known = totals(log, found.role[live], live)
        assert known[None] == 0
        # All parameters have gradients here.
        assert known["model"] == 0


_LARGE, _SMALL = (32 << 20, "workspace"), (1 << 20, "workspace")


@given(st.integers(1, 8), st.integers(80, 200), st.randoms())
def test_workspaces_are_told_by_what_an_operator_makes_once_a_thread(threads: int, calls: int, chance: Any) -> None:
    """Threads that answer; no walk reads all."""
    run, begun = Called(), set[int]()
    for thread in [*range(threads), *(chance.randrange(threads) for _ in range(calls))]:
        if thread not in begun:
            run.call("forward", _LARGE, _SMALL)
        begun.add(thread)
        run.call("forward", (256 << 10, "temporary"), keep=False)
    assert run.wrong(run.snapshot(0, of_python=True)) == []


def test_a_processor_has_no_workspaces() -> None:
    """A copy of weights is as large as one, and nobody that a walk knows holds it."""
    run = Called()
    run.call("model", (1 << 20, "model"))
    for _ in range(20):
        run.call("forward", (256 << 10, "temporary"), keep=False)
    log = run.snapshot(0, of_python=True, walk=True)
    for device, role in ((0, "workspace"), (-1, "model")):
        found = roles_by_stack(replace(log, device=device))
        assert found is not None
        assert NAMES[found.role[np.flatnonzero(log.kind == Kind.ALLOC)[0]]] == role


def test_what_a_model_made_and_goes_with_the_program_is_no_temporary() -> None:
    """Tables that grow: each is made by a larger model, and all go when the program ends."""
    run, kept = Called(), list[int]()
    for day in range(12):
        run.call("forward", *[(512, "temporary")] * 9, keep=False)
        kept += run.call("model", (4096 + 512 * day, "model"))
    run.events += kept
    assert {told for told, role in run.wrong(run.snapshot(0, of_python=True)) if role == "model"} == set()


@given(st.integers(3, 40), st.booleans(), st.booleans())
def test_what_an_operator_makes_each_time_is_no_workspace_though_it_is_as_large(
    layers: int, pairs: bool, walk: bool
) -> None:
    """Memory runs out in a forward pass, or in the second one; attention makes a small block with each large one."""
    for passes in (1, 2):
        run = Called()
        for last in [False, True][-passes:]:
            each = [(32 << 20, "result"), (1 << 20, "result")][: 1 + pairs]
            kept = [block for _ in range(layers) for block in run.call("forward", *each)]
            if not last:
                for block in reversed(kept):
                    run.call("backward", (512, "temporary"), keep=False)
                    run.events.append(block)
        wrong = run.wrong(run.snapshot(0, of_python=False, walk=walk))
        assert "workspace" not in {told for told, _ in wrong}


@given(st.integers(20, 60), st.integers(1, 3))
def test_what_is_kept_from_call_to_call_of_a_forward_pass_is_no_temporary(calls: int, layers: int) -> None:
    """Scores that are computed without another phase between them, and all given back at the end."""
    inner = [frame("/venv/torch/nn/functional.py", k, "relu") for k in range(layers)]
    run = Called(**{f"layer {k}": [one, *Called().stacks["forward"]] for k, one in enumerate(inner)})
    kept = []
    for _ in range(calls):
        for k in range(layers):
            run.call(f"layer {k}", (2048, "temporary"), keep=False)
            kept += run.call(f"layer {k}", (4096 + 512 * k, "result"))
    run.events += kept
    late = kept[: -2 * 8 * layers]
    log = run.snapshot(0, of_python=True)
    found = roles_by_stack(log)
    assert found is not None
    for at in np.flatnonzero(log.kind == Kind.ALLOC).tolist():
        block = (int(log.addr[at]) >> 30) - 1
        if block in late or run.blocks[block].role == "temporary":
            assert NAMES[found.role[at]] == run.blocks[block].role


@given(st.integers(10, 40), st.integers(0, 3))
def test_what_a_function_gives_on_is_a_variable_and_what_goes_within_it_a_temporary(calls: int, others: int) -> None:
    """Keys and values of a request that is answered without a backward pass: a call makes them, and those who called it let them go."""
    answer = [frame("/home/me/serve.py", 30, "answer"), frame("/home/me/serve.py", 50, "main")]
    forward = [frame("/home/me/serve.py", 17, "forward"), frame("/venv/torch/nn/modules/module.py", 1, "_call_impl")]
    later = [frame("/home/me/serve.py", 19, "forward"), *forward[1:], *answer]
    trace, before = [], None
    for k in range(calls):
        own, short = ((2 * k + last + 1) << 30 for last in (0, 1))
        trace.append(entry("alloc", own, 4096 + 512 * k, frames=[*forward, *answer]))
        for _ in range(others + 1):
            trace.append(entry("alloc", short, 2048, frames=[*forward, *answer]))
            trace += [entry(f"free_{what}", short, 2048, frames=later) for what in ("requested", "completed")]
        if before is not None:
            trace += [entry(f"free_{what}", *before, frames=answer) for what in ("requested", "completed")]
        before = own, 4096 + 512 * k
    assert before is not None
    trace += [entry(f"free_{what}", *before, frames=answer) for what in ("requested", "completed")]
    (log,) = read({"segments": [], "device_traces": [[{**one, "time_us": at} for at, one in enumerate(trace)]]})
    found = roles_by_stack(log)
    assert found is not None
    made = np.flatnonzero(log.kind == Kind.ALLOC)
    told = [(NAMES[role], size == 2048) for role, size in zip(found.role[made], log.size[made], strict=True)]
    assert set(told) == {("temporary", True), ("variable", False)}


def test_averages_of_weights_are_no_state_of_an_optimizer() -> None:
    """``torch.optim.swa_utils`` copies a model; it is no optimizer, though it stands among those."""
    run = Called(average=[frame("/venv/torch/optim/swa_utils.py", 246, "__init__"), frame("/home/me/t.py", 9, "main")])
    run.call("average", *[(4096, "model")] * 10)
    run.call("optimizer", *[(2048, "optimizer")] * 10)
    assert run.wrong(run.snapshot(0, of_python=True)) == []


def gpt(words: int, width: int, hidden: int, layers: int) -> int:
    """Bytes of the model that four of the snapshots are of: two tables of words, attention of four squares, SwiGLU of three matrices, norms."""
    return 4 * (2 * words * width + layers * (4 * width * width + 3 * width * hidden + 2 * width) + width)


@pytest.mark.parametrize(
    ("name", "model", "states"),
    [
        ("medium_256_training", gpt(10_000, 1024, 4096, 24), 2),
        ("medium_512_training", gpt(10_000, 1024, 4096, 24), 2),
        ("ring_3000", gpt(10_000, 1024, 4096, 24), 2),
        ("train_19464", gpt(10_000, 1280, 5120, 36), 2),
        ("pre_existing_blocks", gpt(50_257, 768, 3072, 12), 2),
    ],
)
def test_roles_of_real_snapshots_are_the_models_arithmetic(shared: Path, name: str, model: int, states: int) -> None:
    log = memlens.read(shared / "data" / "torch" / "snapshots" / f"{name}.pickle")
    live = live_at(log, len(log))
    roles = Roles(log)
    assert roles.told_by == "stacks"
    told = roles.at(len(log), live)
    assert told is not None
    found = totals(log, told, live)
    # One of 8 KiB more: a table of positions is a parameter of the same size as norms.
    assert found["parameter"] in (model, model + 8192)
    assert (found["gradient"], found["optimizer"]) == (model, states * model)
    assert found[None] <= 0.001 * found.total()
    # At the peak, where a step of the optimizer has made no second version of its states yet.
    event = peak_of(log)
    live = live_at(log, event)
    told = roles.at(event, live)
    assert told is not None
    found = totals(log, told, live)
    assert found["parameter"] in (model, model + 8192)
    assert found["optimizer"] == states * model or name in ("ring_3000", "pre_existing_blocks")
    assert found[None] <= 0.005 * found.total()


@pytest.mark.parametrize("name", ["forward_fp32", "forward_bf16", "medium_1024_inference", "without_frames"])
def test_of_weights_that_nothing_tells_no_role_is_told(shared: Path, name: str) -> None:
    log = memlens.read(shared / "data" / "torch" / "snapshots" / f"{name}.pickle")
    found = roles_by_stack(log)
    assert found is not None
    assert not {"parameter", "gradient", "optimizer", "model"} & {NAMES[role] for role in found.role.tolist()}


@pytest.mark.parametrize("name", ["state_only_2023", "state_only_2024", "segments_only", "oom_2023"])
def test_states_without_a_record_have_no_roles(shared: Path, name: str) -> None:
    log = memlens.read(shared / "data" / "torch" / "snapshots" / f"{name}.pickle")
    live = live_at(log, len(log))
    roles = Roles(log).at(len(log), live)
    assert roles is None or {NAMES[role] for role in roles.tolist()} <= {None, "workspace"}


# -- by the operators and frames of Kineto traces ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "leaked"),
    [("cnn", 0), ("cnn_leak", 5 * 320), ("transformer", 0), *[("transformer_6l_26steps", 26 * 1_024_000)] * NIGHT],
)
def test_roles_of_real_traces_are_adam_s_arithmetic(shared: Path, name: str, leaked: int) -> None:
    log = memlens.read(shared / "data" / "torch" / "kineto" / f"{name}.json.gz")
    found = roles_by_stack(log)
    assert found is not None
    is_gradient = np.array([NAMES[role] == "gradient" for role in found.role.tolist()]) & (log.kind == Kind.ALLOC)
    partner = np.where(log.lifetimes.partner < 0, len(log), log.lifetimes.partner)
    change = np.where(is_gradient, log.size, 0)
    np.subtract.at(change, partner[is_gradient & (partner < len(log))], log.size[is_gradient & (partner < len(log))])
    most = live_at(log, int(change.cumsum().argmax()) + 1)
    gradients = log.size[most[is_gradient[most]]]
    # Adam keeps two states of each parameter, and counts its steps in four bytes; the loss has a gradient of four, too.
    sizes = Counter(gradients.tolist()) - Counter([4])
    end = totals(log, found.role[live_at(log, len(log))], live_at(log, len(log)))
    assert end == Counter(
        {"optimizer": sum(2 * size * count + 4 * count for size, count in sizes.items()), "variable": leaked}
    )


@pytest.mark.parametrize("name", some(["cnn_nostack", "gpu_2021_resnet50", "gpu_2022_rank1"], 3))
def test_of_traces_without_frames_or_without_addresses_no_role_is_told(shared: Path, name: str) -> None:
    for log in read_all(shared / "data" / "torch" / "kineto" / f"{name}.json.gz"):
        assert roles_by_stack(log) is None
