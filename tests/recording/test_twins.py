"""Real programs in which something exists twice, and the same without: what the one's peak would be is what the other's is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from night import NIGHT
from real_paddle import RealPaddle, command, environment, run
from torch_programs import Programs, real_torch

import memlens

PROGRAMS = Path(__file__).parent / "programs"
#: By what a program does the kind of what exists twice in it.
OF_PADDLE = {"zero": "gradients", "late": "gradients", "average": "weights", "loaded": "weights", "batch": "batch"}
OF_TORCH = {"buckets": "buckets", "states": "states", "late": "gradients", "average": "weights"}
# In a forward pass without gradients, and a cache switched off: a training saves the copies for backward, too.
OF_TORCH["autocast"] = "half_weights"


def twins(log: Path) -> tuple[int, dict[str, Any]]:
    """The peak of a run, and what exists twice at it, by kinds."""
    (window,) = memlens.analyze(log, whole=True).logs[0].windows
    return window.results["peak"].peak_bytes, {twin.kind: twin for twin in window.results["composition"].twins}


@pytest.mark.paddle
@pytest.mark.night  # by day the same is told of made runs and of recorded logs: tests/analyzers/test_twins.py
@pytest.mark.parametrize("name", OF_PADDLE)
def test_a_run_of_paddle_without_a_twin_peaks_where_it_was_said(
    counting: RealPaddle, tmp_path: Path, name: str
) -> None:
    found, variables = {}, environment(counting, tmp_path)
    for how in ("with", "without"):
        log = tmp_path / f"{how}.log"
        words = [str(PROGRAMS / "paddle_twins.py"), name, how]
        assert run(command(counting, log, words, []), variables, tmp_path, log).code == 0
        peak, found[how] = twins(log)
        said = re.search(r"^PEAK (\d+)$", log.read_text(), re.MULTILINE)
        assert said
        assert peak == int(said[1])
    assert found["without"] == {}
    assert set(found["with"]) == {OF_PADDLE[name]}
    assert abs(found["with"][OF_PADDLE[name]].peak_bytes - peak) <= peak / 100


@pytest.mark.torch
@pytest.mark.parametrize("name", [name for name in OF_TORCH if NIGHT or name in {"buckets", "autocast"}])
def test_a_run_of_pytorch_without_a_twin_peaks_where_it_was_said(programs: Programs, name: str) -> None:
    found, peak = {}, 0
    for how in ("with", "without"):
        text = (PROGRAMS / "torch_twins.py").read_text()
        done = programs.run(text, python=real_torch(), path=(programs.source,), TWIN=f"{name} {how}")
        assert done.returncode == 0, done.stderr
        peak, found[how] = twins(programs.folder / "run.json")
        # Call stacks alone say so too, but for states that the last step makes anew, which go with the program.
        trace = programs.folder / "run.json"
        named = json.loads(trace.read_text())
        del named["memlens"]
        trace.write_text(json.dumps(named))
        by_stacks = twins(trace)[1]
        assert name == "states" or set(by_stacks) == set(found[how])
        found[f"{how} by stacks"] = by_stacks
    assert found["without"] == {}
    assert set(found["with"]) == {OF_TORCH[name]}
    for told in ("with", "with by stacks"):
        for twin in found[told].values():
            assert abs(twin.peak_bytes - peak) <= peak / 100
