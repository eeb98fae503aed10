"""What real runs on a GPU held, against what they counted themselves.

``gpu_runs`` has what ``torch_gpu.py`` and ``torch_gpu_held.py`` of ``tests/recording/programs`` recorded, with PyTorch 2.11 on a GPU of the Hopper generation, and what
they counted at their ends.  Workspaces of cuBLAS were told from all else by the C++ frames of further recordings: 32 MiB for each thread that
computes and each stream, and 1 MiB for cuBLASLt.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import memlens
from memlens.analyzers.composition import Roles

RUNS = Path(__file__).with_name("gpu_runs")
COUNTED: dict[str, dict[str, int]] = json.loads((RUNS / "counted.json").read_text())
MIB = 1 << 20


def model(layers: int) -> int:
    """Bytes of the language model: words and places, attention and two layers each, norms, scores."""
    block = 2 * 2 * 512 + 512 * 3 * 512 + 3 * 512 + 512 * 512 + 512 + 2 * 4 * 512 * 512 + 5 * 512
    return 4 * (8000 * 512 + 256 * 512 + layers * block + 2 * 512 + 512 * 8000)


@cache
def roles(name: str) -> dict[str, dict[str | None, int]]:
    """By moment the bytes of each role."""
    log = memlens.read(RUNS / f"{name}.pickle.zst")
    signs = np.select([log.kind == memlens.Kind.ALLOC, log.kind == memlens.Kind.FREE], [1, -1], 0)
    told, level = Roles(log), (signs * log.size).cumsum()
    assert level.max() == COUNTED[name].get("requested_peak", level.max())
    return {"peak": told.bytes_at(int(level.argmax()) + 1), "end": told.bytes_at(len(log))}


#: Layers of each model; bytes of its gradients, and of what the devices exchange, at the peak, as often as the model has them; workspaces of 32 and of 1 MiB.
TRAINED = {
    "captured": (3, 0, 0, (3, 2)),
    "compiled": (3, 0, 0, (2, 1)),
    "lightning": (3, 1, 0, (2, 1)),
    "ddp": (4, 1, 1, (2, 1)),
    "fsdp": (4, 1, 0, (2, 1)),
    "runs_out": (4, 0, 0, (2, 1)),
    "expandable": (4, 0, 0, (2, 1)),
    "reentrant": (6, 1, 0, (2, 2)),
    "nonreentrant": (6, 1, 0, (2, 2)),
}


@pytest.mark.parametrize("name", TRAINED)
def test_roles_at_the_peak_are_what_the_run_counted(name: str) -> None:
    layers, gradients, exchanged, (large, small) = TRAINED[name]
    whole, found = model(layers), dict(roles(name)["peak"])
    assert COUNTED[name].get("parameter", whole) == whole
    # Root parameters of a sharded model are there in whole, too, while its backward pass begins.
    twice = 4 * (2 * 8000 * 512 + 256 * 512 + 2 * 512) if name == "fsdp" else 0
    assert found.pop("parameter", 0) + found.pop("model", 0) + found.pop("nobody", 0) == pytest.approx(
        whole + twice, abs=64
    )
    assert found.pop("optimizer") == COUNTED[name].get("optimizer", 2 * whole)
    assert found.pop("gradient", 0) == gradients * whole
    assert found.pop("communication", 0) == exchanged * whole
    assert found.pop("workspace") == (32 * large + small) * MIB
    # The loss, and, without the stack of its pass, what that made before it failed; scores of a step that has returned, which a graph may have saved.
    scores = 8 * 256 * 8000 * 4
    untold = {"runs_out": 4, "expandable": 4 + scores, "lightning": scores // 4}
    if name in untold:
        assert found.pop(None) == untold[name]
    assert None not in found
    assert found.pop("variable") >= COUNTED[name].get("kept", 0)
    assert {*found} <= {"saved", "temporary", "result"}


@pytest.mark.parametrize(("name", "words"), [("ddp", "loss.backward()"), ("nonreentrant", "loss.backward()"), ("trainer", "run.train()")])  # fmt: skip
def test_what_a_backward_pass_allocates_is_by_the_line_that_began_it(name: str, words: str) -> None:
    """Though its thread runs no Python: the gradients, half a model at least, and nothing is by nobody."""
    log = memlens.read(RUNS / f"{name}.pickle.zst")
    assert log.owner is not None
    program = Path(__file__).parents[1] / "recording" / "programs" / "torch_gpu.py"
    lines = {f"torch_gpu.py:{n}" for n, line in enumerate(program.read_text().splitlines(), 1) if words in line}
    taken = log.kind == memlens.Kind.ALLOC
    taken[: log.facts.opening] = False
    assert (log.owner[taken] >= 0).all()
    begun = [any(line in owner for line in lines) and "torch/autograd/__init__.py:373 backward" in owner for owner in log.owner_names]  # fmt: skip
    by_backward = log.size[taken & np.array(begun)[log.owner]]
    assert by_backward.sum() > COUNTED[name]["parameter"] / 2


def test_the_trainer_of_transformers_is_told_to_the_byte() -> None:
    """Though it has no variable but what leads to it, and its passes are seen in a few walks alone."""
    found, counted = roles("trainer")["peak"], COUNTED["trainer"]
    assert (found["parameter"], found["optimizer"]) == (counted["parameter"], counted["optimizer"])
    assert found["gradient"] == counted["parameter"]
    assert found["workspace"] == (2 * 32 + 2) * MIB
    assert None not in found


@pytest.mark.parametrize("name", ["captured", "compiled", "reentrant", "nonreentrant", "streams"])
def test_when_a_program_has_let_go_of_all_what_stays_is_workspaces(name: str) -> None:
    """Of four streams four; of a graph one more of each kind."""
    want = {"captured": 4 * 32 + 2, "compiled": 65, "streams": 4 * 32}.get(name, 66)
    assert roles(name)["end"] == {"workspace": want * MIB}


def test_what_fills_the_memory_is_held_by_the_variable_that_keeps_it() -> None:
    log = memlens.read(RUNS / "runs_out.pickle.zst")
    assert log.holder is not None
    names = [*log.holder_names, ""]
    kept = [size for size, held in zip(log.size.tolist(), log.holder.tolist(), strict=True) if names[held].startswith("variable features[*]")]  # fmt: skip
    assert sum(kept) == COUNTED["runs_out"]["kept"]


def of_holders(name: str, at: str = "end") -> dict[str, int]:
    """The bytes that each holder has at a moment."""
    (window,) = memlens.analyze(RUNS / f"{name}.pickle.zst", whole=True).logs[0].windows
    return {str(one.holder): one.total_bytes for one in window.results["composition"].holders if one.at == at}


def test_what_classes_and_caches_of_methods_keep_is_theirs_to_the_byte() -> None:
    found, counted = of_holders("server"), COUNTED["server"]
    assert found["variable Server.features[*] (torch_gpu_held.py)"] == counted["features"]
    assert found["variable Server.sessions[*][*] (torch_gpu_held.py)"] == counted["sessions"]
    found = of_holders("pool")
    kept = [found[f"parameter Pool.models[*][*].{name} (torch_gpu_held.py)"] for name in ("weight", "bias")]
    assert sum(kept) == COUNTED["pool"]["kept"]


def test_copies_of_a_model_that_pile_up_are_named_together() -> None:
    """Each has three layers of as many bytes, so that none of them is most of it."""
    claims = memlens.analyze(RUNS / "pool.pickle.zst").to_dict()["claims"]
    (pile,) = (one for one in claims if one["kind"] == "piling_up")
    assert (pile["block_bytes"], pile["holder"]) == (MIB, "parameter Pool.models[*][*].weight (torch_gpu_held.py)")


def test_what_a_step_leaves_is_growth_though_the_last_batch_of_an_epoch_is_given_back() -> None:
    analysis = memlens.analyze(RUNS / "epochs.pickle.zst")
    (found,) = analysis.logs
    assert found.growth is not None
    assert found.growth.verdict == "growing"
    # The first scores are there before it begins, and those of the last step come after its end.
    assert found.growth.gained_bytes == COUNTED["epochs"]["scores"] // 32 * 30
    claims = {one["kind"]: one for one in analysis.to_dict()["claims"]}
    assert claims["piling_up"]["holder"] == "scores[*] (epochs, torch_gpu_held.py)"
    assert "run_ended" not in claims  # where a snapshot is taken the run goes on


def test_what_a_kept_exception_keeps_is_its_variables() -> None:
    """Of the attempt that failed, in a frame of PyTorch: the batch, and what four layers gave of it, of which the exception has the last."""
    batch = COUNTED["retries"]["batch"] * 1024 * 4
    found = of_holders("retries")
    held = {name: size for name, size in found.items() if " reason." in name}
    assert {name.split(" (")[0] for name in held} == {
        "saved reason.input.grad_fn",
        "variable reason.input",
        "variable reason.args[*]",
    }
    assert sum(held.values()) == 6 * batch


def test_a_trainer_that_no_variable_leads_to_is_held_by_its_own_functions() -> None:
    """The scores are tied to the words."""
    found, told = of_holders("anonymous", "peak"), roles("anonymous")["peak"]
    whole = model(3) - 4 * 512 * 8000
    assert sum(size for name, size in found.items() if name.startswith("parameter ")) == whole
    assert {name.rpartition(" (")[2] for name in found if name.startswith("parameter ")} == {
        "_inner_training_loop, transformers.trainer)"
    }
    assert told["parameter"] == whole
    steps = told["optimizer"] - 2 * whole
    assert 0 <= steps <= 512 * 40  # the number of steps of each
    assert None not in told


@pytest.mark.parametrize("name", ["runs_out", "expandable"])
def test_a_share_of_the_device_is_the_limit_and_other_settings_do_what_they_really_did(name: str) -> None:
    """Both ran, and both failed in the same step; PyTorch holds a request against the share before it rounds it up to pages."""
    assert COUNTED["runs_out"]["steps"] == COUNTED["expandable"]["steps"]
    (found,) = memlens.whatif(RUNS / f"{name}.pickle.zst").logs
    assert found.proof.holds
    assert (found.limit_bytes, found.limit_from) == (3 << 29, "allowed")
    done = [one for one in found.trials if one.own or (name == "runs_out" and "expandable" in one.line)]
    assert len(done) == (2 if name == "runs_out" else 1)
    for trial in done:
        assert trial.refused is not None
        assert (trial.within_limit, trial.refused.line) == ("fails", found.refused_line)
