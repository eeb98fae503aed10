"""The last window of a series is open where no end anchor closes it: it is shown, and not judged."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from logs import write_log
from texts import read_packed

import memlens
from memlens.diffing.result import Diff

STEPS = r"STEP (\d+)"


def step(number: int) -> list[str]:
    return [f"STEP {number} START", "+512@a", "+256@b", "-256@b", "-512@a"]


def run(folder: Path, name: str, steps: int, *more: str) -> Path:
    """A run of so many steps, with parameters before."""
    return write_log(folder, name, "+4096@1", *(line for k in range(steps) for line in step(k)), *more)


def judged(found: Diff) -> list[str]:
    return [window.name for window in found.judged]


def test_a_run_killed_in_mid_step_lacks_no_free(tmp_path: Path) -> None:
    base = run(tmp_path, "base.log", 5, "-4096@1")
    head = run(tmp_path, "head.log", 3, "STEP 3 START", "+512@a")
    for one, other, side in ((base, head, "head"), (head, base, "base")):
        found = memlens.diff(one, other, by=STEPS)
        assert judged(found) == ["(before)", "0", "1", "2"]
        assert (found.parting, tuple(found.repeated)) == (None, ())
        assert {window.name for window in found.worst()} == {"(before)", "0", "1", "2"}
        (open_one,) = (window for window in found.windows if not window.judged)
        assert (open_one.base.open_end, open_one.head.open_end) == (side == "base", side == "head")
        assert abs(open_one.d_remaining_bytes) == 512  # it is shown
        assert found.notes == (
            f"3 runs to the end of the log in {side}, so it is shown and not judged (--open judges it)",
        )


def test_open_windows_are_judged_where_they_are_asked_for(tmp_path: Path) -> None:
    base, head = run(tmp_path, "base.log", 4), run(tmp_path, "head.log", 3, "STEP 3 START", "+512@a")
    found = memlens.diff(base, head, by=STEPS, open_windows=True)
    assert judged(found) == ["(before)", "0", "1", "2", "3"]
    assert found.parting is not None
    assert found.parting.name == "3"
    assert [row.finding.kind for row in found.repeated] == ["missing_free", "only_base"]
    assert found.notes == ("3 runs to the end of the log in base and head; it is judged all the same, as asked",)


def test_one_window_whose_end_never_came_is_judged_and_doubted(tmp_path: Path) -> None:
    base, head = run(tmp_path, "base.log", 3), run(tmp_path, "head.log", 2, "+64@c")
    found = memlens.diff(base, head, start="STEP 1 START", end="STEP 2 START", to_end=True)
    assert [window.judged for window in found.windows] == [True]
    (note,) = found.notes
    assert note.startswith("STEP 1 START runs to the end of the log in head, so it may be cut short")
    assert note.endswith("doubt what differs in it")
    assert memlens.diff(base, head, start="STEP 1 START").notes == ()  # a start alone is what was asked for


# -- real logs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", ["five", "seven", "five_osexit"])
@pytest.mark.parametrize("head", ["five", "seven", "five_osexit"])
def test_fewer_steps_and_frees_at_exit_are_no_difference(shared: Path, base: str, head: str) -> None:
    paths = (shared / "data" / "traps" / f"{name}.log.gz" for name in (base, head))
    found = memlens.diff(*paths, by=r"(STEP \d+) START")
    assert all(window.same for window in found.judged)
    assert judged(found) == ["(before)", *(f"STEP {k}" for k in range(6 if base == head == "seven" else 4))]
    assert (found.parting, tuple(found.repeated)) == (None, ())


@pytest.mark.night
@pytest.mark.parametrize("by", [None, r"^(?:START (\w+)|STEP \d+ START)"])
@pytest.mark.parametrize(
    "name", ["331_sot_pir_cnnbreaks.log", "30_ast_transformer_pir.log", "05_leak_graph_331.log.gz"]
)
def test_a_real_run_differs_in_nothing_from_itself_killed_anywhere(
    shared: Path, tmp_path: Path, name: str, by: str | None
) -> None:
    path = shared / "data" / "paddle" / name
    text = read_packed(path)
    (whole := tmp_path / "whole.log").write_bytes(text)
    chance = Random(name)
    for _ in range(3):
        killed = tmp_path / "killed.log"
        killed.write_bytes(text[: chance.randrange(len(text) // 2, len(text))])
        for base, head in ((whole, killed), (killed, whole)):
            found = memlens.diff(base, head, by=by)
            assert found.series
            assert not found.paired_by_work
            assert all(window.same for window in found.judged)
            assert len(found.judged) == len(found.windows) - 1
