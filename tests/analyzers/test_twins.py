"""What exists twice at a peak: found where it does, with the peak that there is without it, and not where it does not."""

from __future__ import annotations

from itertools import accumulate, count
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from edited_runs import Row, write
from hypothesis import given, settings
from hypothesis import strategies as st
from made_trainings import Training, live_at
from night import many

import memlens
from memlens.analyzers.composition import Roles
from memlens.analyzers.roles.by_steps import roles_by_steps
from memlens.analyzers.roles.models import Model, alike, copies, models_of
from memlens.analyzers.roles.twins import Twin, Twins
from memlens.folding import peak_ends
from memlens.windows.windows import whole

if TYPE_CHECKING:
    from memlens.log import Log

SEEDS = st.integers(0, 1 << 32)


def highest(training: Training) -> int:
    """The peak of a training, block by block."""
    made, sizes = set[int](), list[int]()
    for block in training.events:
        sizes.append(-training.blocks[block].size if block in made else training.blocks[block].size)
        made.add(block)
    return max(accumulate(sizes))


def by_steps(training: Training) -> tuple[Twin, ...]:
    """What its log says, without stacks."""
    log, steps = training.log()
    event = peak_ends([whole(log)]).item()
    role = roles_by_steps(log, *steps, event, live := live_at(log, event))
    assert role is not None
    return Twins(log, 0, len(log), event, live, role, None, np.append(steps[0], steps[1][-1:])).rows()


def by_stacks(training: Training, *, of_python: bool) -> tuple[Twin, ...]:
    """What its snapshot says."""
    return of(training.snapshot(0, of_python=of_python))


def of(log: Log) -> tuple[Twin, ...]:
    window = whole(log)
    return Roles(log, [window]).twins(window, peak_ends([window]).item())


def assert_right(found: tuple[Twin, ...], kind: str, peak: int, without: int) -> None:
    """See that the one kind is found where it is worth a row, that the peak without it is that of the training without it, and what it holds at the peak covers what it saves."""
    if 100 * (peak - without) < peak:
        assert found == ()
        return
    (twin,) = found
    assert (twin.kind, twin.peak_bytes, twin.saved_bytes) == (kind, without, peak - without)
    assert twin.total_bytes >= twin.saved_bytes


@given(SEEDS, st.integers(0, 2), st.booleans())
@settings(max_examples=many(60))
def test_without_gradients_of_the_step_before_the_peak_is_that_of_a_training_that_clears_them(
    seed: int, states: int, of_python: bool
) -> None:
    late, cleared = Training(seed, states, late=True), highest(Training(seed, states))
    for found in (by_steps(late), by_stacks(late, of_python=of_python)):
        assert_right(found, "gradients", highest(late), cleared)


@given(SEEDS, st.integers(1, 2), st.booleans())
@settings(max_examples=many(60))
def test_without_states_that_are_made_anew_the_peak_is_that_of_a_training_that_keeps_them(
    seed: int, states: int, of_python: bool
) -> None:
    anew, kept = Training(seed, states, anew=True), highest(Training(seed, states))
    assert_right(by_stacks(anew, of_python=of_python), "states", highest(anew), kept)


@given(SEEDS, st.integers(0, 2), st.booleans())
@settings(max_examples=many(60))
def test_nothing_exists_twice_where_each_step_clears_what_it_makes(seed: int, states: int, of_python: bool) -> None:
    training = Training(seed, states)
    assert (by_steps(training), by_stacks(training, of_python=of_python)) == ((), ())


@pytest.mark.parametrize("late_states", [False, True])
def test_gradients_that_are_added_up_over_steps_do_not_wait_in_vain(late_states: bool, tmp_path: Path) -> None:
    """Every fourth step gives back the sums of its own and of the three before; states come with the first of these, and go at exit."""
    mib, numbers = 1 << 20, count(1)
    rows: list[Row] = [("ALLOC", 4 * mib, next(numbers)) for _ in range(6)]
    sums: list[int] = []
    states: list[int] = []
    for step in range(16):
        rows.append(("STEP", step, 0))
        saved = [("ALLOC", 3 * mib, next(numbers)) for _ in range(12)]
        rows += saved
        for k in range(6):
            rows += [("ALLOC", 4 * mib, made := next(numbers))]
            if len(sums) <= k:
                sums.append(made)
            else:
                rows += [("ALLOC", 4 * mib, both := next(numbers)), ("FREE", 4 * mib, sums[k]), ("FREE", 4 * mib, made)]
                sums[k] = both
            rows += [("FREE", size, one) for _, size, one in (saved.pop(), saved.pop())]
        if step == 3 * late_states:
            states = [next(numbers) for _ in range(12)]
            rows += [("ALLOC", 4 * mib, one) for one in states]
        if step % 4 == 3:
            rows += [("FREE", 4 * mib, one) for one in sums]
            sums = []
    rows += [("FREE", 4 * mib, one) for one in (*states, *range(1, 7))]
    assert "gradients of the step before" not in memlens.analyze(write(rows, tmp_path / "run.log")).verdict


# -- real snapshots --------------------------------------------------------------------------------------------------------


def test_gradients_of_the_step_before_are_as_large_as_the_model(shared: Path) -> None:
    """The forward pass of the second step begins with those of the first: as many bytes as the model has parameters."""
    (twin,) = of(memlens.read(shared / "data/torch/snapshots/train_19464.pickle"))
    assert (twin.kind, twin.total_bytes) == ("gradients", 3_877_647_360)


def test_half_of_what_matrix_products_multiply_by_is_there_in_half_its_size(shared: Path) -> None:
    """24 layers 1,024 wide, a vocabulary of 10,000, under autocast: of 1,692,733,440 bytes not the embedding, which is looked up, and not the 49 norms."""
    (twin,) = of(memlens.read(shared / "data/torch/snapshots/medium_512_training.pickle"))
    assert (twin.kind, twin.at_most) == ("half_weights", True)
    assert twin.total_bytes == (1_692_733_440 - 4 * 10_000 * 1024 - 4 * 49 * 1024) // 2


@pytest.mark.parametrize("name", ["medium_256_training", "medium_1024_inference", "forward_fp32", "forward_bf16", "without_frames", "oom_2023", "state_only_2024", "segments_only"])  # fmt: skip
def test_nothing_is_claimed_of_snapshots_in_which_nothing_exists_twice(shared: Path, name: str) -> None:
    assert of(memlens.read(shared / f"data/torch/snapshots/{name}.pickle")) == ()


# -- models ----------------------------------------------------------------------------------------------------------------


def net(root: str, layers: int = 2, where: str = "main, train.py") -> list[tuple[str, int]]:
    parts = {
        f"layers.{k}.{name}": size for k in range(layers) for name, size in (("up", 4096), ("down", 4000), ("b", 16))
    }
    return [(f"parameter {root}.{name} ({where})", size) for name, size in ({"embed": 9000, "norm": 8} | parts).items()]


def found(*nets: list[tuple[str, int]], trained: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """Which of some models are copies of which."""
    weights = [weight for one in nets for weight in one]
    models = models_of((holder, number, size) for number, (holder, size) in enumerate(weights))
    gradients = [
        holder.replace("parameter", "gradient").replace(" (", ".grad (")
        for holder, _ in weights
        if holder.split()[1].startswith(trained or ("?",))
    ]
    return [(copy.path, model.path) for copy, model in copies(models, gradients)]


def test_a_model_that_is_not_trained_is_a_copy_of_one_that_is() -> None:
    assert found(net("net"), net("ema"), trained=("net.",)) == [("ema", "net")]
    assert found(net("ema"), net("net"), trained=("net.",)) == [("ema", "net")]
    assert found(net("self.teacher"), net("self.student"), trained=("self.student",)) == [
        ("self.teacher", "self.student")
    ]
    assert found(net("nets['a']"), net("nets['b']"), trained=("nets['b']",)) == [("nets['a']", "nets['b']")]


def test_of_two_that_are_not_trained_the_later_one_is_the_copy() -> None:
    assert found(net("first"), net("second")) == [("second", "first")]


@pytest.mark.parametrize(
    ("nets", "trained"),
    [
        ((net("net"),), ()),
        ((net("one"), net("two")), ("one.", "two.")),  # each has its own gradients
        ((net("net", layers=8),), ("net.layers.1",)),  # a frozen layer is as large as another one
        ((net("net"), net("other", layers=7)), ("net.",)),
        # Lists of keys and of values are two parts of one model.
        (tuple([(f"parameter {root}.{k}.{name} (main, train.py)", size) for k in range(4) for name, size in (("weight", 4096), ("bias", 64))] for root in ("keys", "values")), ()),
    ],
)  # fmt: skip
def test_no_copy_is_seen_where_there_is_none(nets: tuple[list[tuple[str, int]], ...], trained: tuple[str, ...]) -> None:
    assert found(*nets, trained=trained) == []


def test_sets_of_blocks_are_alike_by_nine_tenths_of_their_bytes() -> None:
    sizes = [512, 1024, 2048, 512, 1024, 2048]
    assert alike(sizes, [*sizes, 512])
    assert not alike(sizes, [*sizes, 4096])
    assert not alike(sizes[:5], sizes[:5])
    assert not alike([512] * 8, [512] * 8)


def test_a_model_is_named_by_its_path_and_its_place() -> None:
    assert str(Model("net", "main, train.py")) == "net (main, train.py)"
