"""Real runs: the run as it was set comes out with the reserved peak that the framework itself printed, and what is said of it holds together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import memlens
from memlens.allocators.registry import built_in

#: Logs of one process of Paddle 3.x, with figures of its own.
PADDLE = (
    "01_first_venv_dygraph.log",
    "06_free_idle_chunk.log",
    "06_padding32.log",
    "06_small_pool.log",
    "30_sot_cnn_breaks_pir.log",
    "331_parts_pir_transformer.log",
    "331_dygraph_cnn.log",
)
SNAPSHOTS = ("forward_bf16", "medium_1024_inference", "pre_existing_blocks")


@pytest.mark.parametrize("name", PADDLE)
def test_a_run_as_it_was_set_reserves_what_paddle_says_it_did(shared: Path, name: str) -> None:
    folder = shared / "data" / "paddle"
    log = folder / name
    stats = json.loads((folder / f"{name.partition('.')[0]}.stats.json").read_text())
    (found,) = memlens.whatif(log).logs
    own = found.own
    assert found.proof.holds
    assert own is not None
    low, high = own.reserved_peak.low_bytes, own.reserved_peak.high_bytes
    # With new chunks where they were recorded it is what it was; other addresses give a range around it.
    assert low <= stats["reserved_peak"] <= high
    assert (found.live_peak_bytes or 0) <= low
    _hold_together(found)


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_a_snapshot_as_it_was_set_reserves_what_its_segments_are(shared: Path, name: str) -> None:
    expected = json.loads((shared / "data" / "torch" / "expected.json").read_text())
    (found,) = memlens.whatif(shared / "data" / "torch" / "snapshots" / f"{name}.pickle").logs
    own = found.own
    assert found.proof.holds
    assert own is not None
    (devices,) = [value for key, value in expected.items() if Path(key).stem == name]
    assert str(own.reserved_peak.low_bytes) in json.dumps(devices)
    _hold_together(found)


def _hold_together(found: memlens.ReplayedLog) -> None:
    """What must be so of every answer."""
    model = next(model for model in built_in() if model.name == found.model)
    own = found.own
    assert own is not None
    for trial in found.trials:
        assert (trial.line == "") == (trial is own)
        assert trial.values.keys() <= {setting.name for setting in model.settings}
        assert trial.needs.low_bytes >= (found.live_peak_bytes or 0)
        assert trial.needs.high_bytes <= trial.reserved_peak.high_bytes
        assert trial.needs.low_bytes <= trial.needs.high_bytes
        if trial.within_limit == "completes":
            assert trial.needs.low_bytes <= (found.limit_bytes or 0)
        if trial.within_limit == "fails":
            assert trial.needs.high_bytes > (found.limit_bytes or 0)
