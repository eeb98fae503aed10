"""Runs side by side by role: what of each role is live at the peak of each, where that is asked for, and nothing that cannot be known."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from logs import LogText
from made_trainings import Training

from memlens.comparing.run import compare
from memlens.summarizing.figures import OF_ROLES

MIB = 1 << 20


def recorded(path: Path, kept: int, *, weights: int = 1, strangers: int = 0) -> Path:
    """A log that names holders: weights of a MiB, tensors of a MiB in a list, and blocks of a MiB that nobody tells of."""
    log = LogText()
    for number in range(weights + kept):
        log.alloc(MIB, (number + 1) << 24)
        name = "variable feats[*] (main, train.py)" if number >= weights else f"parameter net.w{number} (net.py)"
        log.say(f"memlens holds {(number + 1) << 24:#x} {name}", "line.py:0")
    for number in range(strangers):
        log.alloc(MIB, (number + 1) << 40)
    path.write_text(log.text)
    return path


def trained(folder: Path, seed: int, states: int) -> tuple[Path, Training]:
    training = Training(seed, states)
    path = folder / f"{seed}_{states}.log"
    path.write_text(training.text())
    return path, training


# -- what is told ----------------------------------------------------------------------------------------------------------


def test_roles_of_trainings_are_those_that_blocks_were_made_for(tmp_path: Path) -> None:
    runs = [trained(tmp_path, seed, states) for seed in range(3) for states in range(3)]
    found = compare([path for path, _ in runs], metrics="roles")
    rows = found.rows()
    bases = runs[0][1].at_peak()
    for run, row, (_, training) in zip(found.runs, rows, runs, strict=True):
        truth, roles = training.at_peak(), run.windows[0].roles or {}
        for role in ("parameter", "gradient", "optimizer"):
            assert roles.get(role, 0) == truth[role] == (row.get(f"{role}_bytes") or 0)
            if run is not found.runs[0] and roles.get(role) and bases[role]:
                assert row[f"d_{role}_bytes"] == truth[role] - bases[role]
        # The batch lives as what is saved for the backward pass does.
        rest = sum(size for role, size in roles.items() if role in ("saved", "temporary"))
        assert rest == sum(truth[role] for role in ("saved", "temporary", "variable"))
        assert (run.told_by, row["told_by"]) == ("steps", "steps")


def test_one_window_has_the_roles_that_the_steps_of_its_whole_log_tell(shared: Path) -> None:
    path = shared / "data" / "paddle" / "331_dygraph_cnn.log"
    of_series = compare([path], metrics="roles", by=r"STEP (\d+) START").runs[0]
    (window,) = compare([path], metrics="roles", start="STEP 2 START", end="STEP 3 START").runs[0].windows
    same = of_series.window("2")
    assert same is not None
    assert window.roles == same.roles
    # Windows that are no steps are told by these, too.
    parts = compare([path], metrics="roles", by=r"STEP (\d+)").runs[0]
    part = parts.window("2")
    assert part is not None
    assert (part.peak_bytes, part.roles) == (same.peak_bytes, same.roles)


# -- what cannot be known --------------------------------------------------------------------------------------------------


def test_there_is_none_of_a_role_only_where_all_of_the_peak_is_told(tmp_path: Path) -> None:
    paths = [
        recorded(tmp_path / "a.log", 2),
        recorded(tmp_path / "b.log", 0),
        recorded(tmp_path / "c.log", 0, strangers=1),
    ]
    rows = compare(paths, metrics="roles").rows()
    assert [row["variable_bytes"] for row in rows] == [2 * MIB, 0, None]
    assert [row["parameter_bytes"] for row in rows] == [MIB, MIB, MIB]
    assert [row["d_variable_bytes"] for row in rows] == [None, -2 * MIB, None]


def test_what_rules_of_other_kinds_tell_is_not_compared(memlens: Any, shared: Path, tmp_path: Path) -> None:
    snapshot = shared / "data" / "torch" / "snapshots" / "train_19464.pickle"
    path, training = trained(tmp_path, 1, 2)
    for given in (("roles",), ("optimizer",)):
        found = compare([path, snapshot], metrics=given)
        assert found.metrics[0].name == "peak"
        one, two = found.rows()
        assert (one["told_by"], two["told_by"]) == ("steps", "stacks")
        assert (one["optimizer_bytes"], two["optimizer_bytes"] > 0) == (training.at_peak()["optimizer"], True)
        assert two["d_optimizer_bytes"] is None
        assert two["d_peak_bytes"] == two["peak_bytes"] - one["peak_bytes"]
        assert [claim.kind for claim in found.claims if claim.kind == "change_by_role"] == []
    ran = memlens("compare", path, snapshot, "-m", "roles")
    assert "Roles told by steps in 1 run, by call stacks in 1 run, and not compared" in " ".join(ran.out.split())
    assert "Roles told by steps Run" in " ".join(memlens("compare", path, path, "-m", "saved").out.split())


def test_a_run_whose_roles_nothing_tells_has_none(memlens: Any, tmp_path: Path) -> None:
    log = LogText()
    log.alloc(MIB, 1 << 24)
    (bare := tmp_path / "bare.log").write_text(log.text)
    kept = recorded(tmp_path / "kept.log", 2)
    ran = memlens("compare", kept, bare, "-m", "roles", "--format", "csv")
    one, two = csv.DictReader(io.StringIO(ran.out))
    assert (one["variable_bytes"], one["told_by"]) == (str(2 * MIB), "holders")
    assert (two["variable_bytes"], two["d_variable_bytes"], two["told_by"]) == ("", "", "")
    ran = memlens("compare", bare, bare, "-m", "saved")
    assert "Roles nothing tells them" in " ".join(ran.out.split())
    assert "no run has a figure for memory saved for backward at the peak" in ran.out.lower()


def test_nothing_is_told_by_role_where_nobody_asks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path, _ = trained(tmp_path, 1, 2)
    monkeypatch.setattr("memlens.comparing.run.Roles", None)
    found = compare([path, path], jobs=1)
    assert {run.windows[0].roles for run in found.runs} == {None}
    assert not [name for name in found.rows()[0] if name in {metric.key for metric in OF_ROLES} | {"told_by"}]


# -- what follows ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("strangers", "said"), [(0, True), (2, False)])
def test_what_a_run_needs_more_is_said_by_role_where_roles_account_for_it(
    tmp_path: Path, strangers: int, said: bool
) -> None:
    base = recorded(tmp_path / "base.log", 2)
    head = recorded(tmp_path / "head.log", 5, strangers=strangers)
    found = compare([base, head], metrics="roles")
    assert ("by role: variables of the program +3.00 mib" in found.verdict.lower()) is said
    found = compare([base, head, base, recorded(tmp_path / "less.log", 1)], metrics="roles")
    told = {claim.values["run"]: claim.values["roles"] for claim in found.claims if claim.kind == "change_by_role"}
    assert told == {**({"head.log": {"variable": 3 * MIB}} if said else {}), "less.log": {"variable": -MIB}}


def test_a_role_grows_with_a_field_of_the_paths(tmp_path: Path) -> None:
    for batch in (1, 2, 4, 8):
        recorded(tmp_path / f"batch{batch}.log", 3 * batch)
    found = compare(str(tmp_path / "batch{batch}.log"), metrics="roles")
    slopes = {slope.metric: slope for slope in found.scaling}
    assert (slopes["variable_bytes"].slope, slopes["variable_bytes"].verdict) == (3 * MIB, "growing")
    assert slopes["parameter_bytes"].verdict == "flat"


def test_a_rank_stands_out_by_what_of_a_role_it_holds(memlens: Any, tmp_path: Path) -> None:
    paths = [recorded(tmp_path / f"workerlog.{rank}", 9 if rank == 5 else 2, weights=40) for rank in range(8)]
    found = compare(paths, metrics=["peak", "variable"])
    assert [(one.metric, one.rank, one.off) for one in found.outliers] == [
        ("peak_bytes", "rank 5", 7 * MIB),
        ("variable_bytes", "rank 5", 7 * MIB),
    ]
    assert {run.windows[0].roles["parameter"] for run in found.runs if run.windows[0].roles} == {40 * MIB}
    assert "Variables of the program" in memlens("compare", tmp_path, "-m", "roles").out


def test_a_metric_that_there_is_not_is_refused_before_anything_is_read(memlens: Any, tmp_path: Path) -> None:
    ran = memlens("compare", tmp_path / "none.log", "-m", "weights")
    assert ran.code == 2
    assert "there is no metric 'weights'" in ran.err
    assert "roles" in ran.err
