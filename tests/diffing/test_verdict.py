"""What differs is named with its lines: blocks that were put into a run, and Frees that were taken out of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from edited_runs import Row, kept_block, new_temporary, rows_of, temporary, write
from night import NIGHT, chance_of

import memlens
from memlens.diffing.result import Diff
from memlens.text import format_bytes

ROUNDS = 12 if NIGHT else 4


@pytest.fixture(scope="module")
def run(examples: Path) -> list[Row]:
    return rows_of(examples / "cnn_5steps.log.gz")


def said_of(diff: Diff) -> str:
    """The verdict, where the places of blocks follow what they are: in one sentence, or in one of their own where that gets long."""
    return re.sub(r"\. (Head|Base) (frees|allocates)", lambda found: f": {found[1].lower()} {found[2]}", diff.verdict)


def compared(base: list[Row], head: list[Row], folder: Path) -> Diff:
    return memlens.diff(write(base, folder / "base.log"), write(head, folder / "head.log"))


def test_a_missing_free_is_named_with_its_size_and_its_lines(
    run: list[Row], tmp_path: Path, rounds: Callable[[int], range]
) -> None:
    fresh = chance_of("missing free")
    for seed in [fresh.getrandbits(32) for _ in rounds(ROUNDS)]:
        step, alloc, free = temporary(run, Random(seed))
        size, base = 333_312, list(run)  # no other block has this size
        for place in (alloc, free):
            base[place] = (run[place][0], size, run[place][2])
        head = [*base[:free], *base[free + 1 :]]
        said = said_of(compared(base, head, tmp_path))
        ends = f"base frees it at line {free + 1:,}, head allocates it at line {alloc + 1:,} and never frees it"
        assert f"is a missing Free of {format_bytes(size)}: {ends}" in said, (seed, said)
        assert f" first needs more in {step} (line " in said, (seed, said)
        assert f"leaves {format_bytes(size)} more behind" in said, (seed, said)
        # And the other way round it is what head does better.
        back = compared(head, base, tmp_path)
        ends = f"head frees it at line {free + 1:,}, base allocates it at line {alloc + 1:,} and never frees it"
        assert f"is a Free that base lacks of {format_bytes(size)}: {ends}" in said_of(back), (seed, back.verdict)
        assert back.answer.tone == "good"


def test_a_new_block_is_named_with_its_lines_kept_or_not(
    run: list[Row], tmp_path: Path, rounds: Callable[[int], range]
) -> None:
    fresh = chance_of("new block")
    for seed in [fresh.getrandbits(32) for _ in rounds(ROUNDS)]:
        head = kept_block(run, Random(seed))
        line = next(place for place, row in enumerate(head, 1) if row[2] == 999_999)
        said = said_of(compared(run, head, tmp_path))
        ends = f"head allocates it at line {line:,} and never frees it"
        assert re.search(f"is a block of 759.00 KiB that only head (has|keeps): {ends}", said), (seed, said)
        head = new_temporary(run, Random(seed))
        places = [place for place, row in enumerate(head, 1) if row[2] == 999_999]
        said = said_of(compared(run, head, tmp_path))
        if "only head has" in said:
            ends = f"head allocates it at line {places[0]:,} and frees it at line {places[1]:,}"
            assert f"is a block of 759.00 KiB that only head has: {ends}" in said, (seed, said)
        else:
            assert "in temporaries, 759.00 KiB in head only" in said or " first needs more " in said, (seed, said)
