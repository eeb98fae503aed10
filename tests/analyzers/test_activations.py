"""What is saved for backward, by line and by layer, and what recomputing layers leaves of a peak."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from made_trainings import Layered
from night import chance_of, many

import memlens
from memlens.analyzers.composition import composition
from memlens.analyzers.roles.activations import Activations, activations
from memlens.claims.roles import GRAPH, OF_BACKWARD
from memlens.facts import Kind
from memlens.log import Log

SEEDS, LAYERS = st.integers(0, 1 << 32), st.integers(2, 12)


def logs_of(training: Layered) -> list[Log]:
    """As a snapshot with call stacks, those of Python alone, too, and as a log of holders."""
    return [*(training.snapshot(0, of_python=alone) for alone in (False, True)), training.recorded()]


def found_in(log: Log) -> Activations:
    (found,) = activations([log.whole])
    return found


@given(SEEDS, LAYERS)
def test_layers_and_lines_are_those_that_blocks_were_made_by(seed: int, layers: int) -> None:
    training = Layered(seed, layers)
    _, live = training.peak()
    saved = [block for block in live if training.blocks[block].role == "saved"]
    by_layer, by_line = Counter[int](), Counter[str]()
    for block in saved:
        by_layer[training.layer[block]] += training.blocks[block].size
        by_line[training.line[block]] += training.blocks[block].size
    for log in logs_of(training):
        found = found_in(log)
        assert {(row.layer or 0) - 1: row.total_bytes for row in found.layers} == by_layer
        # What is beside the layers is by the line that calls the operator.
        assert {row.owner: row.total_bytes for row in found.lines} == by_line
        assert {row.which: row.count for row in found.recomputed} == {
            "first": 1,
            "every_second": -(-layers // 2),
            "all": layers,
        }
        # The first layer waits longest.
        waits = [row.waits_events for row in found.layers if row.layer]
        assert waits == sorted(waits, reverse=True)


@given(SEEDS, LAYERS)
def test_the_peak_with_layers_recomputed_is_that_of_the_training_that_recomputes_them(seed: int, layers: int) -> None:
    again = {"first": {0}, "every_second": {*range(0, layers, 2)}, "all": {*range(layers)}}
    real = {which: Layered(seed, layers, frozenset(those)).peak()[0] for which, those in again.items()}
    for log in logs_of(Layered(seed, layers)):
        for row in found_in(log).recomputed:
            assert abs(row.peak_bytes - real[row.which]) <= 0.01 * real[row.which], row


@given(SEEDS, LAYERS, st.data())
def test_of_a_pass_in_which_memory_runs_out_all_layers_are_recomputed_and_not_those_alone_that_ran(
    seed: int, layers: int, data: st.DataObject
) -> None:
    dies = data.draw(st.integers(1, layers - 1))
    training = Layered(seed, layers, last=4, dies=dies)
    peak, live = training.peak()
    last = {block: layer for block, layer in training.layer.items() if block >= training.events[training.steps[2]]}
    inner = {block: training.blocks[block].size for block, layer in last.items() if layer >= 0}
    assume(not inner.keys().isdisjoint(live))
    first = [size for block, size in inner.items() if last[block] == 0]
    beside = peak - sum(size for block, size in inner.items() if block in live)
    again = {"first": {0}, "every_second": {*range(0, layers, 2)}, "all": {*range(layers)}}
    for row in found_in(training.recorded()).recomputed:
        those = again.pop(row.which)
        assert row.count == len(those)
        # Of layers that are made again what they give, and all of the others; the last one is made again first.
        level = beside + sum(first[-1] if layer in those else sum(first) for layer in range(layers))
        level += sum(first[:-1]) * (layers - 1 in those)
        real = Layered(seed, layers, frozenset(those), last=4).peak()[0]
        assert level <= row.peak_bytes <= 1.01 * real
    assert not again


@given(SEEDS, st.integers(3, 12), st.data())
def test_where_memory_runs_out_in_the_first_pass_it_is_not_known_how_many_layers_there_are(
    seed: int, layers: int, data: st.DataObject
) -> None:
    dies = data.draw(st.integers(2, layers - 1))
    found = found_in(Layered(seed, layers, steps=1, dies=dies).recorded())
    assert [row.layer for row in found.layers][:-1] == [*range(1, dies + 1)]
    assert found.recomputed == ()


def test_graphs_that_a_list_keeps_are_no_layers() -> None:
    """Scores of several batches, each with the graph of a whole pass."""
    log = Layered(7, 5).recorded()
    assert [len(found_in(log).layers), len(found_in(log).recomputed)] == [6, 3]
    for graph, layers in (("saved loss.grad_fn (main, a.py)", 6), ("saved scores[*].grad_fn (main, a.py)", 0)):
        names = tuple(graph if name == GRAPH else name for name in log.holder_names)
        named = log.without_cache(holder_names=names)
        assert isinstance(named, Log)
        found = found_in(named)
        assert [len(found.layers), len(found.recomputed)] == [layers, 3 * bool(layers)]
        assert sum(row.total_bytes for row in found.lines) == sum(row.total_bytes for row in found_in(log).lines)


@pytest.mark.parametrize(("passes", "layers"), [(1, 6), (6, 0)])
def test_graphs_that_backward_passes_leave_are_no_layers(passes: int, layers: int) -> None:
    """Six times the same work, followed by one backward pass, or each by one of its own that retains its graph."""
    rows, owner, holder = list[tuple[Kind, int, int]](), list[int](), list[int]()
    for k in range(6):
        made = [(Kind.ALLOC, 1 << 20, (2 * k + site + 1) << 21) for site in range(2)]
        own = [(kind, 4096, 99 << 21) for kind in (Kind.ALLOC, Kind.FREE) if k >= 6 - passes]
        rows += [*made, *own]
        owner += [0, 1, *(2 for _ in own)]
        holder += [0, 0, *(1 for _ in own)]
    rows += [(Kind.FREE, 1 << 20, (k + 1) << 21) for k in range(12)[::-1]]
    owner += [2] * 12
    holder += [0] * 12
    sites = ("gelu < a.py:9 forward", "linear < a.py:10 forward", "GeluGradNode < a.py:20 main")
    columns = {"owner": np.array(owner, np.int32), "owner_names": sites}
    log = Log.from_rows(rows, **columns, holder=np.array(holder), holder_names=(GRAPH, OF_BACKWARD))
    found = found_in(log)
    assert [len(found.layers), len(found.recomputed)] == [layers, 3 * bool(layers)]
    assert sum(row.total_bytes for row in found.lines) == 12 << 20


@given(SEEDS, LAYERS, st.booleans())
def test_where_no_loop_makes_layers_none_are_found(seed: int, layers: int, unrolled: bool) -> None:
    # Layers that stand on lines of their own, and a single one.
    training = Layered(seed, layers if unrolled else 1, unrolled=unrolled)
    for log in logs_of(training):
        found = found_in(log)
        assert (found.layers, found.recomputed) == ((), ())
        saved = [block for block in training.peak()[1] if training.blocks[block].role == "saved"]
        assert sum(row.total_bytes for row in found.lines) == sum(training.blocks[block].size for block in saved)


@given(SEEDS, LAYERS)
def test_layers_that_are_recomputed_already_are_not_to_be_recomputed_again(seed: int, layers: int) -> None:
    for log in logs_of(Layered(seed, layers, frozenset(range(layers)))):
        assert not found_in(log).recomputed


#: The layers of the models that snapshots are of, as their configurations say; of the last one the output layer holds most of what is saved.
SNAPSHOTS = {"medium_256_training": 24, "medium_512_training": 24, "train_19464": 36, "pre_existing_blocks": 12}


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_layers_of_real_snapshots_are_those_of_the_models(shared: Path, name: str) -> None:
    log = memlens.read(shared / "data" / "torch" / "snapshots" / f"{name}.pickle")
    found = found_in(log)
    assert {row.which: row.count for row in found.recomputed}["all"] == SNAPSHOTS[name]
    saved = [share for share in composition([log.whole])[0].roles if (share.at, share.role) == ("peak", "saved")]
    for rows in (found.lines, found.layers):
        assert not rows or sum(row.total_bytes for row in rows) == saved[0].total_bytes
        assert not rows or sum(row.count for row in rows) == saved[0].count
    if found.layers:
        assert [row.layer for row in found.layers] == [*range(1, SNAPSHOTS[name] + 1), None]
        assert len({row.total_bytes for row in found.layers if row.layer}) == 1
        assert {row.owner for row in found.lines[:2]} in (
            {f"model.py:{n} forward" for n in (382, 386)},
            {f"adapters.py:{n} forward" for n in (448, 449)},
        )
    # The levels with fewer layers recomputed are no lower.
    peaks = [row.peak_bytes for row in found.recomputed]
    assert peaks == sorted(peaks, reverse=True)


@pytest.mark.parametrize(
    "name", ["forward_fp32", "medium_1024_inference", "state_only_2023", "segments_only", "oom_2023"]
)
def test_of_runs_without_a_backward_pass_nothing_is_said(shared: Path, name: str) -> None:
    found = found_in(memlens.read(shared / "data" / "torch" / "snapshots" / f"{name}.pickle"))
    assert (found.lines, found.layers, found.recomputed) == ((), (), ())


def claims_on(log: Log) -> list[dict[str, Any]]:
    return [one.to_dict() for one in memlens.analyze(log).logs[0].claims if one.kind == "activations"]


def test_a_claim_is_made_where_most_is_saved_for_backward_and_nowhere_else() -> None:
    fresh, made = chance_of("claimed"), Counter[bool]()
    for seed in [fresh.getrandbits(32) for _ in range(many(80))]:
        layers, unrolled = fresh.randint(2, 9), fresh.random() < 0.3
        large, heavy = fresh.choice([1, 2, 8]), fresh.choice([1, 8])
        training = Layered(seed, layers, large=large, heavy=heavy, unrolled=unrolled)
        peak, live = training.peak()
        by_role, by_line = Counter[str](), Counter[str]()
        for block in live:
            by_role[training.blocks[block].role] += training.blocks[block].size
            if block in training.line and training.blocks[block].role == "saved":
                by_line[training.line[block]] += training.blocks[block].size
        (role, most), (_, second) = [*by_role.most_common(2), ("", 0)][:2]
        (line, total), (_, less) = [*by_line.most_common(2), ("", 0), ("", 0)][:2]
        if second == most or (role == "saved" and (less == total or 10 * most < peak)):
            continue
        real = Layered(seed, layers, frozenset(range(layers)), large=large, heavy=heavy).peak()[0]
        for claims in map(claims_on, logs_of(training)):
            made[bool(claims)] += 1
            assert len(claims) == (role == "saved")
            for one in claims:
                assert (one["peak_bytes"], one["saved_bytes"], one["total_bytes"]) == (peak, most, total)
                assert one["owner"] == line
                # Recomputation is spoken of where it saves a tenth.
                if unrolled or real > 0.91 * peak:
                    assert "layers" not in one
                elif real < 0.89 * peak:
                    assert one["layers"] == layers
                    assert abs(one["recomputed_peak_bytes"] - real) <= 0.01 * real
    assert made[True]
    assert made[False]


@pytest.mark.parametrize("name", ["10_v10_dygraph_331.log.gz", "10_v10_ast_pt_30.log.gz"])
def test_where_roles_are_told_by_steps_lines_are_operators_and_no_layers_are_found(shared: Path, name: str) -> None:
    (log,) = memlens.analyze(shared / "data" / "paddle" / name, whole=True).logs
    results = log.windows[0].results
    (saved,) = [share for share in results["composition"].roles if (share.at, share.role) == ("peak", "saved")]
    assert saved.told_by == "steps"
    found = results["activations"]
    assert sum(row.total_bytes for row in found.lines) == saved.total_bytes
    assert (found.layers, found.recomputed) == ((), ())
