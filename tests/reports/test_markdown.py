"""Labels in Markdown: those of different stacks read differently, and the user's own frame is in each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path

import pytest
from night import some

import memlens
from memlens.reports.analyze import analysis_blocks
from memlens.reports.blocks import Block, Column, Table, unfolded
from memlens.reports.compare import compare_blocks
from memlens.reports.diff import diff_blocks
from memlens.reports.gate import gate_blocks
from memlens.reports.markdown import render
from memlens.text import STACK

SNAPSHOTS = (
    *("forward_bf16", "forward_fp32", "medium_256_training", "medium_512_training", "oom_2023", "train_19464"),
    "state_only_2023",
)
#: A line of a program, and where libraries lie.
OWN, LIBRARIES = re.compile(r"^(?!torch/|einops/|triton/|<)\S+\.py:\d+"), "einops/einops.py:939 einsum"


def labels(table: Table) -> dict[str, set[str]]:
    """The stacks of a table in Markdown, by their cells."""
    lines = [line for line in render([table]).splitlines() if line.startswith("|")][2:]
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines]
    found: dict[str, set[str]] = {}
    for index, column in enumerate(table.columns):
        for row, shown in zip(table.rows, cells, strict=True):
            if column.kind == "name" and STACK in str(row[index]):
                found.setdefault(shown[index].strip(), set()).add(str(row[index]))
    return found


def check(blocks: Iterable[Block]) -> int:
    """Check the labels of all tables; how many there are."""
    found = [labels(block) for block in unfolded(blocks) if isinstance(block, Table)]
    for cell, stacks in (one for table in found for one in table.items()):
        assert len(stacks) == 1
        own = next(filter(None, map(OWN.match, stacks.pop().split(STACK))), None)
        assert own is None or own[0] in cell
    return sum(map(len, found))


VERBS: dict[str, Callable[[Path, Path], Iterable[Block]]] = {
    "analyze": lambda _, head: analysis_blocks(memlens.analyze(head, top=500)),
    "diff": lambda base, head: diff_blocks(memlens.diff(base, head, top=500), full=True),
    "gate": lambda base, head: gate_blocks(memlens.gate(head, base=base, trust=False)),
    "compare": lambda base, head: compare_blocks(memlens.compare([base, head], base=str(base)), full=True),
}


@pytest.mark.night
@pytest.mark.parametrize("verb", VERBS)
def test_labels_of_real_snapshots_hold_what_tells_them_apart(shared: Path, verb: str) -> None:
    paths = [shared / f"data/torch/snapshots/{name}.pickle" for name in SNAPSHOTS]
    seen = sum(check(VERBS[verb](*pair)) for pair in some(pairwise(paths), 3))
    assert seen or verb not in ("analyze", "diff")


def test_long_stacks_that_differ_in_their_last_frame_alone_read_differently() -> None:
    frames = [f"{LIBRARIES}_{k}" for k in range(4)]
    stacks = [STACK.join([*frames[:2], "model.py:427 attend", *frames, *frames, f"main.py:{k} main"]) for k in (17, 18)]
    table = Table("", (Column("owner", "Owner", "name"),), tuple((stack,) for stack in stacks))
    assert all(len(stack) > 240 for stack in stacks)
    assert check([table]) == 2
