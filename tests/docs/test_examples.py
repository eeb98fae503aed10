"""The example logs are what their page says: made anew byte for byte, and right by an independent count."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_pair_of_case_1_is_made_anew_byte_for_byte(tmp_path: Path, examples: Path) -> None:
    subprocess.run([sys.executable, str(ROOT / "examples" / "make_examples.py"), str(tmp_path)], check=True)
    for name in ("case1_pt.log", "case1_pir.log"):
        assert (tmp_path / name).read_bytes() == (examples / name).read_bytes(), f"{name} is not what its script writes"


def test_the_examples_stay_below_five_megabytes(examples: Path) -> None:
    assert sum(log.stat().st_size for log in examples.iterdir()) < 5_000_000
