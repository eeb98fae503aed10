"""The verdict of a comparison is true: its figures by a plain loop over edited runs, and what it must not say of runs that do not differ."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from edited_runs import Row, figures, rows_of, temporary, write

import memlens
from memlens.diffing.result import Diff
from memlens.units import format_bytes

ROUNDS = 12
Edit = Callable[[list[Row], Random], list[Row]]


@pytest.fixture(scope="module")
def run(examples: Path) -> list[Row]:
    return rows_of(examples / "cnn_5steps.log.gz")


def compared(base: list[Row], head: list[Row], folder: Path) -> Diff:
    return memlens.diff(write(base, folder / "base.log"), write(head, folder / "head.log"))


def peaks_of(base: list[Row], head: list[Row]) -> str:
    """How a verdict says the peaks of two runs."""
    old, new = figures(base).peak, figures(head).peak
    if old == new:
        return f"oth peak at {format_bytes(new)}"
    more = "more" if new > old else "less"
    return f"ead peaks at {format_bytes(new)}, {format_bytes(abs(new - old))} {more} than base ({format_bytes(old)})"


def judged(rows: list[Row]) -> list[str]:
    """The parts of a run that a next step ends."""
    return list(figures(rows).left)[:-1]


# --- edits: each gives another run ---


def without_a_free(rows: list[Row], chance: Random) -> list[Row]:
    _, _, free = temporary(rows, chance)
    return [*rows[:free], *rows[free + 1 :]]


def later_free(rows: list[Row], chance: Random) -> list[Row]:
    _, _, free = temporary(rows, chance)
    end = next(place for place in range(free, len(rows)) if rows[place][0] == "STEP")
    to = chance.randint(free + 1, end)
    return [*rows[:free], *rows[free + 1 : to], rows[free], *rows[to:]]


def kept_block(rows: list[Row], chance: Random) -> list[Row]:
    _, place, _ = temporary(rows, chance)
    return [*rows[:place], ("ALLOC", 777_216, 999_999), *rows[place:]]


def new_temporary(rows: list[Row], chance: Random) -> list[Row]:
    _, alloc, free = temporary(rows, chance)
    new = ("ALLOC", 777_216, 999_999), ("FREE", 777_216, 999_999)
    return [*rows[:alloc], new[0], *rows[alloc:free], new[1], *rows[free:]]


def swapped(rows: list[Row], chance: Random) -> list[Row]:
    """Neighbours change places, but no block is freed before it is allocated."""
    rows = list(rows)
    for _ in range(20):
        at = chance.randrange(len(rows) - 1)
        if "STEP" not in (rows[at][0], rows[at + 1][0]) and rows[at][2] != rows[at + 1][2]:
            rows[at : at + 2] = [rows[at + 1], rows[at]]
    return rows


EDITS: dict[str, Edit] = {
    "without a free": without_a_free,
    "later free": later_free,
    "kept block": kept_block,
    "new temporary": new_temporary,
    "swapped": swapped,
    "nothing": lambda rows, _: rows,
}


@pytest.mark.parametrize("back", [False, True], ids=["as head", "as base"])
@pytest.mark.parametrize("name", list(EDITS))
def test_peaks_parting_and_tone_are_those_of_a_plain_loop(
    run: list[Row], tmp_path: Path, rounds: Callable[[int], range], name: str, back: bool
) -> None:
    chance = Random()
    for _ in rounds(ROUNDS):
        seed = chance.getrandbits(32)
        edited = EDITS[name](run, Random(seed))
        base, head = (edited, run) if back else (run, edited)
        diff = compared(base, head, tmp_path)
        said, old, new = diff.verdict, figures(base), figures(head)
        assert peaks_of(base, head) in said, (seed, said)
        changes = [(part, new.left[part] - old.left[part], new.rise[part] - old.rise[part]) for part in judged(run)]
        left = sum(change for _, change, _ in changes)
        decides = new.peak - old.peak or left or max((rise for _, _, rise in changes), key=abs)
        # Where only windows differ, and both ways, neither run needs more.
        even = new.peak == old.peak and not left
        even &= all(any(max(way * more, way * rise) > 0 for _, more, rise in changes) for way in (-1, 1))
        assert (diff.answer.tone == "bad") == (decides > 0 and not even), (seed, said)
        if decides > 0:
            first = next((part for part, remaining, rise in changes if remaining > 0 or rise > 0), None)
            assert first is None or f" first needs more in {first} (head line " in said, (seed, said)
            for part, remaining, rise in changes:
                if part == first:
                    assert (f" leaves {format_bytes(remaining)} more behind" in said) == (remaining > 0), (seed, said)
                    assert (f" rises {format_bytes(rise)} higher" in said) == (rise > 0), (seed, said)
        elif not decides and not even and not any(remaining for _, remaining, _ in changes):
            assert not re.search(r"\b(more|less)\b", said), (seed, said)
        if said.startswith("No difference"):
            assert (old, sorted(base)) == (new, sorted(head)), (seed, said)


def test_a_missing_free_is_named_with_its_size_and_its_lines(
    run: list[Row], tmp_path: Path, rounds: Callable[[int], range]
) -> None:
    for _ in rounds(ROUNDS):
        seed = Random().getrandbits(32)
        step, alloc, free = temporary(run, Random(seed))
        size, base = 333_312, list(run)  # no other block has this size
        for place in (alloc, free):
            base[place] = (run[place][0], size, run[place][2])
        head = [*base[:free], *base[free + 1 :]]
        said = compared(base, head, tmp_path).verdict
        what = f"is a missing Free of {format_bytes(size)}: base frees it at line {free + 1:,}, head never frees it."
        assert what in said, (seed, said)
        assert f" first needs more in {step} (head line " in said, (seed, said)
        assert f"leaves {format_bytes(size)} more behind" in said, (seed, said)
        # And the other way round it is what head does better.
        back = compared(head, base, tmp_path)
        said = f"is a Free that base lacks of {format_bytes(size)}: base never frees it, head frees it at line {free + 1:,}."
        assert said in back.verdict, (seed, back.verdict)
        assert back.answer.tone == "good"


def test_a_new_block_is_named_with_its_lines_kept_or_not(
    run: list[Row], tmp_path: Path, rounds: Callable[[int], range]
) -> None:
    for _ in rounds(ROUNDS):
        seed = Random().getrandbits(32)
        head = kept_block(run, Random(seed))
        line = next(place for place, row in enumerate(head, 1) if row[2] == 999_999)
        said = compared(run, head, tmp_path).verdict
        assert (
            f"is a block of 759.00 KiB that only head keeps: head allocates it at line {line:,} and never frees it."
            in said
        )
        head = new_temporary(run, Random(seed))
        ends = [place for place, row in enumerate(head, 1) if row[2] == 999_999]
        said = compared(run, head, tmp_path).verdict
        if " more " in said:
            what = r"759\.00 KiB(, is| by) a block of 759\.00 KiB that only head allocates(:|, and .* other findings;)"
            where = f"head allocates it at line {ends[0]:,} and frees it at line {ends[1]:,}\\."
            assert re.search(f"({what}|All of the 759.00 KiB .* is a block of .* allocates:) {where}", said), (
                seed,
                said,
            )
        else:
            assert "in temporaries, 759.00 KiB in head only" in said, (seed, said)
