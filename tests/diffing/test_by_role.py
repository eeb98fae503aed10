"""What differs between two peaks by role is what the logs say, and is said where it accounts for all of the difference."""

from __future__ import annotations

from pathlib import Path

import pytest
from logs import LogText
from made_trainings import Training

import memlens

MIB = 1 << 20


def run(path: Path, feats: int, *, named: bool = True, strangers: int = 0) -> Path:
    """Two weights of a MiB, some tensors of a list of 256 KiB, and blocks of a MiB that nobody tells of."""
    log = LogText()
    held = []
    log.say("memlens calls relu < train.py:10 main", "line.py:0")
    for number in range(2):
        log.alloc(MIB, (number + 1) << 30)
        held.append(f"memlens holds {(number + 1) << 30:#x} parameter net.w{number} (train.py)")
    for number in range(feats):
        log.alloc(MIB // 4, (number + 1) << 24)
        held.append(f"memlens holds {(number + 1) << 24:#x} variable feats[*] (main, train.py)")
    for line in held if named else ():
        log.say(line, "line.py:0")
    for number in range(strangers):
        log.alloc(MIB, (number + 1) << 40)
    path.write_text(log.text)
    return path


def test_the_roles_at_both_peaks_are_those_that_walks_saw(tmp_path: Path) -> None:
    found = memlens.diff(run(tmp_path / "base.log", 4), run(tmp_path / "head.log", 12))
    # Eight blocks of 256 KiB more: 2 MiB.
    assert [(row.role, row.base_bytes, row.head_bytes, row.d_bytes) for row in found.roles] == [
        ("variable", MIB, 3 * MIB, 2 * MIB),
        ("parameter", 2 * MIB, 2 * MIB, 0),
    ]
    assert "by role: variables of the program +2.00 MiB" in found.verdict
    assert found.to_dict()["roles"][0]["d_bytes"] == 2 * MIB


@pytest.mark.parametrize(("named", "strangers"), [(False, 0), (True, 1)])
def test_no_role_is_said_where_one_run_has_none_or_where_they_are_not_all(
    tmp_path: Path, named: bool, strangers: int
) -> None:
    base, head = run(tmp_path / "base.log", 4), run(tmp_path / "head.log", 4, named=named, strangers=strangers)
    head = head if strangers else run(tmp_path / "head.log", 12, named=named)
    found = memlens.diff(base, head)
    assert "by role" not in found.verdict
    assert bool(found.roles) == named


def test_roles_that_steps_tell_are_those_that_blocks_were_made_for(tmp_path: Path) -> None:
    runs = {tmp_path / f"{states}.log": Training(7, states) for states in (1, 2)}
    for path, training in runs.items():
        path.write_text(training.text())
    found = memlens.diff(*runs)
    base, head = (training.at_peak() for training in runs.values())
    # One state more of each parameter; nothing else differs.
    assert head - base == {"optimizer": base["parameter"]}
    rows = {row.role: (row.base_bytes, row.head_bytes) for row in found.roles}
    for role in ("parameter", "gradient", "optimizer"):
        assert rows.get(role, (0, 0)) == (base[role], head[role])
    assert found.verdict.count(f"by role: optimizer state +{base['parameter'] / 1024:.2f} KiB") == 1
