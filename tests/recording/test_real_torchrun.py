"""``memlens record`` of real torchrun, on processors alone: a log a rank."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from real_paddle import text_of
from torch_programs import real_torch

import memlens

pytestmark = pytest.mark.torch

RANKS = Path(__file__).parent / "programs" / "torch_ranks.py"


def record(folder: Path, *arguments: str, output: str = "run.log.zst") -> subprocess.CompletedProcess[str]:
    """Record torchrun with two ranks."""
    (folder / "packages").mkdir()
    (folder / "packages" / "memlens").symlink_to(Path(memlens.__file__).parent)
    words = [sys.executable, "-m", "memlens", "record", "-o", output, "--"]
    words += [
        real_torch(),
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        str(RANKS),
        *arguments,
    ]
    return subprocess.run(
        words,
        env=os.environ | {"PYTHONPATH": str(folder / "packages"), "OMP_NUM_THREADS": "1"},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_each_rank_has_a_log_of_its_own_lines(tmp_path: Path) -> None:
    run = record(tmp_path)
    assert run.returncode == 0, run.stderr
    for rank in (0, 1):
        text = text_of(tmp_path / f"run.rank{rank}.log.zst")
        assert [line for line in text.splitlines() if "rank" in line] == [
            f"START reduce of rank {rank}",
            f"END reduce of rank {rank}",
            f"rank {rank}: sum 3",  # 1 + 2
        ]
    assert "sum" not in text_of(tmp_path / "run.log.zst")  # that of torchrun itself
    assert sorted(re.findall(r"^rank \d: sum 3$", run.stdout, re.MULTILINE)) == ["rank 0: sum 3", "rank 1: sum 3"]


def test_a_failing_rank_ends_torchrun_as_it_does_alone(tmp_path: Path) -> None:
    run = record(tmp_path, "--fail", output="run-{rank}.log")
    assert run.returncode == 1
    assert "RuntimeError: rank 1 was asked to fail" in (tmp_path / "run-1.log").read_text()
    assert "asked to fail" not in (tmp_path / "run-0.log").read_text()
    assert "ChildFailedError" in (tmp_path / "run-main.log").read_text()
