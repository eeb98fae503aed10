"""The example logs are what their page says: made anew byte for byte, and right by an independent count."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOKENS = 96 * 96 * 96 * 4  # 96 x 96 patches of 96 channels in float32
EVENT = re.compile(r"\] (Alloc|Free) (\d+) bytes, ptr = (0x[0-9a-f]+)$")


def lines_of(log: Path) -> list[str]:
    return log.read_text().splitlines()


def small_subgraph(log: Path) -> list[tuple[str, int, str]]:
    """The events between the anchors of subgraph 0 and subgraph 1: kind, size, address."""
    lines = lines_of(log)
    window = lines[lines.index("START SOT_CALL_0") : lines.index("START SOT_CALL_1")]
    return [(m[1], int(m[2]), m[3]) for line in window if (m := EVENT.search(line))]


def test_the_pair_of_case_1_is_made_anew_byte_for_byte(tmp_path: Path, examples: Path) -> None:
    subprocess.run([sys.executable, str(ROOT / "examples" / "make_examples.py"), str(tmp_path)], check=True)
    for name in ("case1_pt.log", "case1_pir.log"):
        assert (tmp_path / name).read_bytes() == (examples / name).read_bytes(), f"{name} is not what its script writes"


@pytest.mark.parametrize(("name", "frees"), [("case1_pt.log", 2), ("case1_pir.log", 1)])
def test_the_small_subgraph_has_three_equal_allocations_and_the_frees_of_the_case(
    examples: Path, name: str, frees: int
) -> None:
    events = small_subgraph(examples / name)
    assert [kind for kind, _, _ in events] == ["Alloc"] * 3 + ["Free"] * frees
    assert {size for _, size, _ in events} == {TOKENS} == {3_538_944}
    allocated = [address for kind, _, address in events if kind == "Alloc"]
    assert [address for kind, _, address in events if kind == "Free"] == allocated[:frees]


def test_the_free_that_only_the_good_run_has_stands_on_leaving_a_scope(examples: Path) -> None:
    lines = lines_of(examples / "case1_pt.log")
    last_free = max(i for i in range(lines.index("START SOT_CALL_1")) if "] Free " in lines[i])
    assert "Leave scope" in lines[last_free - 1]
    assert not any("Leave scope" in line for line in lines_of(examples / "case1_pir.log"))


@pytest.mark.parametrize("name", ["case1_pt.log", "case1_pir.log"])
def test_blocks_lie_in_chunks_and_never_overlap(examples: Path, name: str) -> None:
    chunks: list[range] = []
    live: dict[int, range] = {}
    for line in lines_of(examples / name):
        if chunk := re.search(r"reallocate (\d+)\((0x[0-9a-f]+)\)", line):
            chunks.append(range(int(chunk[2], 16), int(chunk[2], 16) + int(chunk[1])))
        elif event := EVENT.search(line):
            address, size = int(event[3], 16), int(event[2])
            if event[1] == "Free":
                assert live.pop(address) == range(address, address + size)
                continue
            block = range(address, address + size)
            assert any(chunk.start <= block.start and block.stop <= chunk.stop for chunk in chunks)
            assert all(block.stop <= other.start or other.stop <= block.start for other in live.values())
            live[address] = block


def test_the_examples_stay_below_five_megabytes(examples: Path) -> None:
    assert sum(log.stat().st_size for log in examples.iterdir()) < 5_000_000
