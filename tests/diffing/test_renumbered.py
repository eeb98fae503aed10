"""Windows pair by what they do where numbers were inserted or lost or start elsewhere, and by name everywhere else."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import HEADER
from made_window_series import EDITS, KINDS, REGRESSIONS, Program, judged, made, series_of
from msgspec.structs import replace
from night import many, some
from paddle import read

import memlens
from memlens.cli import main as cli
from memlens.diffing import window_order
from memlens.diffing.window_order import Series, Work, in_order, likeness
from memlens.diffing.window_pairs import WindowPairs, pair_by_name_or_work
from memlens.errors import AnchorError
from memlens.events import Kind
from memlens.log import Log

# Four calls that have nothing to do with each other, and one more
A, B, C, D, X = (tuple((256 * 7**n * k, k % 2) for k in range(1, 9)) for n in range(1, 6))


def names(found: WindowPairs) -> list[tuple[str, str]]:
    return [(one.name, other.name) for one, other in found.pairs][1:]  # without (before)


def numbers(found: WindowPairs) -> list[tuple[int, int]]:
    return [(int(one.split("_")[1]), int(other.split("_")[1])) for one, other in names(found)]


def pair(base: Sequence[Program], head: Sequence[Program], start: int = 0) -> WindowPairs:
    return pair_by_name_or_work(series_of(base), series_of(head, start=start))


def keeps(program: Program) -> Program:
    """The same without its frees."""
    return tuple((size, -1) for size, _ in program)


# -- where names mislead ---------------------------------------------------------------------------------------------------


def test_a_call_more_renumbers_the_later_ones_and_they_pair_all_the_same() -> None:
    base = [A, B, C, D] * 3
    found = pair(base, [*base[:5], X, *base[5:]])
    assert found.by_work
    assert numbers(found) == [(k, k + (k >= 5)) for k in range(12)]
    assert [w.name for w in found.only_head] == ["CALL_5"]
    assert found.only_base == ()


@pytest.mark.parametrize("side", [0, 1, 2])
def test_where_the_first_window_begins_with_the_log_it_pairs_like_the_others(side: int) -> None:
    # Nothing precedes the series of base, of head, of either; head has a call more at its beginning.
    base, head = series_of([A, B, C, D] * 3), series_of([X, *[A, B, C, D] * 3])
    found = pair_by_name_or_work(base[side != 1 :], head[side != 0 :])
    assert found.by_work
    paired = [(one.name, other.name) for one, other in found.pairs]
    assert paired == [(f"CALL_{k}", f"CALL_{k + 1}") for k in range(12)]
    assert [window.name for window in (*found.only_base, *found.only_head)] == [
        *(["(before)"] if side == 1 else []), *(["(before)"] if side == 0 else []), "CALL_0",
    ]  # fmt: skip


# -- where names are right -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "head",
    [
        [keeps(B)] * 20,  # every step leaks
        [*[B] * 9, keeps(B), *[B] * 10],  # one does
        [*[B] * 9, X, *[B] * 10],  # one does something else
        [*[X] * 5, *[B] * 15],  # the first ones do
        [*[B] * 15, *[X] * 5],  # the last ones do
        [*[X] * 5, *[B] * 25],  # the first ones do, and the run is longer
        [*[B] * 9, X, *[B] * 20],
        [X, C, D, A] * 5,
    ],
)
def test_windows_that_changed_stay_paired_with_their_names(head: list[Program]) -> None:
    found = pair([B] * 20, head)
    assert not found.by_work
    assert all(one == other for one, other in names(found))


def test_two_runs_without_a_name_in_common_that_do_different_things_are_an_error() -> None:
    with pytest.raises(AnchorError):
        pair([A, B] * 5, [C, D] * 5, start=100)
    with pytest.raises(AnchorError):
        pair([A, A], [A, A], start=100)  # the last is open, and one window alone says nothing


# -- series of all kinds ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", some(KINDS, 3))
def test_made_window_series_pair_as_they_were_made(kind: str) -> None:
    """Fixed seeds; ``benchmarks/pairing.py`` takes fresh ones and counts what comes out."""
    chance = Random(kind)
    windows = wrong = left = cases = 0
    for edit in EDITS:
        for regression in REGRESSIONS:
            case = made(chance, kind, edit, regression, chance.choice([12, 24]))
            try:
                verdict = judged(case, found := pair_by_name_or_work(*case.windows))
            except AnchorError:
                continue
            if verdict.story == "names":
                # steps in another order cannot be told from calls that were inserted and lost
                left += found.by_work and verdict.wrong > 0 and edit != "redrawn"
            if verdict.story == "work":
                cases += 1
                windows, wrong = windows + verdict.closed, wrong + verdict.wrong
    assert not left
    assert wrong <= 0.15 * windows, (cases, windows, wrong)


@settings(max_examples=many(60))
@given(st.integers(0, 2**32), st.sampled_from(list(KINDS)), st.sampled_from(EDITS), st.sampled_from(REGRESSIONS))
def test_the_other_way_round_the_pairs_are_the_same(seed: int, kind: str, edit: str, regression: str) -> None:
    base, head = made(Random(seed), kind, edit, regression, 15).windows
    try:
        found = pair_by_name_or_work(base, head)
    except AnchorError:
        with pytest.raises(AnchorError):
            pair_by_name_or_work(head, base)
        return
    other = pair_by_name_or_work(head, base)
    assert sorted((one.name, two.name) for one, two in found.pairs) == sorted(
        (one.name, two.name) for two, one in other.pairs
    )
    assert (found.by_work, found.only_base, found.only_head) == (other.by_work, other.only_head, other.only_base)
    for windows, side, alone in ((base, 0, found.only_base), (head, 1, found.only_head)):
        each = [*(one[side].start_line for one in found.pairs), *(window.start_line for window in alone)]
        assert sorted(each) == [window.start_line for window in windows]  # each window once


# -- the whole way ---------------------------------------------------------------------------------------------------------


def text_of(programs: Sequence[Program], start: int = 0) -> str:
    """A log of such windows, as text."""
    lines = ["here we go"]
    for number, program in enumerate(programs, start):
        lines.append(f"START CALL_{number}")
        for k, (size, life) in enumerate(program):
            address = f"0x{number:x}00{k:x}"
            lines.append(f"{HEADER}Alloc {size} bytes, ptr = {address}")
            if life >= 0:
                lines.append(f"{HEADER}Free {size} bytes, ptr = {address}")
    return "\n".join([*lines, "END", ""])


def test_a_lost_free_behind_a_new_call_is_named_under_both_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = [A, B, C, D] * 3
    worse = [(size, -1 if k == 3 else life) for k, (size, life) in enumerate(base[8])]
    paths = tmp_path / "base.log", tmp_path / "head.log"
    paths[0].write_text(text_of(base))
    paths[1].write_text(text_of([*base[:5], X, *base[5:8], tuple(worse), *base[9:]]))
    found = memlens.diff(*paths)  # the anchors are found, too
    assert (found.found_by, found.paired_by_work, found.head.unpaired) == (True, True, ("CALL_5",))
    (differs,) = (window for window in found.windows if not window.alike)
    assert (differs.name, differs.head.name, differs.label) == ("CALL_8", "CALL_9", "CALL_8 / CALL_9")
    assert [(f.kind, f.size_bytes) for f in differs.findings] == [("missing_free", base[8][3][0])]
    assert found.to_dict()["paired_by_work"]
    assert cli(["diff", *map(str, paths), "--no-progress"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert " first needs more in CALL_8 / CALL_9 (line " in shown
    assert "paired by what they do" in shown


def test_lines_that_count_elsewhere_but_mark_other_work_are_no_windows_to_compare(tmp_path: Path) -> None:
    paths = tmp_path / "base.log", tmp_path / "head.log"
    paths[0].write_text(text_of([A, B] * 5))
    paths[1].write_text(text_of([C, D] * 5, start=100))
    found = memlens.diff(*paths)
    assert [window.name for window in found.windows] == ["(whole log)"]
    with pytest.raises(AnchorError):
        memlens.diff(*paths, by=r"START (CALL_\d+)")


# -- real logs -------------------------------------------------------------------------------------------------------------

CALLS = r"START (SOT_CALL_\d+)"


@pytest.mark.parametrize("by", [None, CALLS, r"^(?:START (\w+)|STEP \d+ START)"])
@pytest.mark.parametrize("head", ["extra_call_head", "resumed_head"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_real_run_renumbered_differs_in_nothing(shared: Path, by: str | None, head: str, turned: bool) -> None:
    paths = [shared / "data" / "paddle" / "331_sot_pir_cnnbreaks.log", shared / "data" / "traps" / f"{head}.log.gz"]
    found = memlens.diff(*paths[:: -1 if turned else 1], by=by, open_windows=True)
    assert found.paired_by_work
    if head == "extra_call_head" and by is not None and "STEP" in by:
        # nothing but the call that is new tells the runs apart, and no window of a step holds it
        assert {w.name for w in found.windows if not w.same} == set()
    else:
        assert all(window.same for window in found.windows)
    new = ("SOT_CALL_5",) if head == "extra_call_head" else ()
    assert (found.base.unpaired, found.head.unpaired) == ((new, ()) if turned else ((), new))
    (note,) = (note for note in found.notes if "pair by what they do" in note)
    assert ("SOT_CALL_5 / SOT_CALL_6" if new and not turned else " / ") in note


@cache
def _log(path: Path) -> Log:
    return read(path)


@pytest.mark.parametrize("base", ["30_sot_cnn_breaks_pt", "30_sot_cnn_breaks_pir"])
@pytest.mark.parametrize("head", ["30_sot_cnn_breaks_pir", "30b2_sot_cnn_breaks_pt"])
def test_calls_of_real_runs_that_are_taken_out_are_found_wherever_they_stand(
    shared: Path, base: str, head: str
) -> None:
    """Also between runs of two versions, and of two intermediate representations, in which no window does quite the same."""
    folder = shared / "data" / "paddle"
    whole, other = (_log(folder / f"{name}.log").windows(CALLS) for name in (base, head))
    assert not pair_by_name_or_work(whole, other).by_work
    for lost in range(1, len(other) - 6):
        calls = [*other[:lost], *other[lost + 1 :]]
        renamed = [calls[0], *(replace(window, name=f"SOT_CALL_{k}") for k, window in enumerate(calls[1:]))]
        found = pair_by_name_or_work(whole, renamed)
        # Neighbours may do the very same, so that nothing tells which of them is missing.
        expected = [w.name for k, w in enumerate(whole[: len(other)]) if k != lost]
        pairs = [one.name for one, _ in found.pairs]
        assert found.by_work
        assert [one for one, other in zip(pairs, expected, strict=True) if one != other] in ([], [expected[lost]])


# -- what windows do -------------------------------------------------------------------------------------------------------


def plain_likeness(one: Counter[tuple[int, bool]], other: Counter[tuple[int, bool]]) -> float:
    """One less the Hellinger distance, from counts of sizes."""
    weights = [
        {(size, free): count * math.log2(size + 2) * (0.25 if free else 1) for (size, free), count in counts.items()}
        for counts in (one, other)
    ]
    total, other_total = (sum(each.values()) for each in weights)
    if not total or not other_total:
        return 0.0
    common = sum(math.sqrt(weights[0][key] / total * weights[1].get(key, 0) / other_total) for key in weights[0])
    return 1 - math.sqrt(max(1 - common * min(total, other_total) / max(total, other_total), 0))


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([-1, 0, 2])), max_size=8), min_size=2, max_size=4)
)
def test_two_windows_are_as_much_alike_as_their_sizes_are(drawn: list[list[tuple[int, int]]]) -> None:
    windows = series_of([tuple((256 * 7**size, life) for size, life in program) for program in drawn])[1:]
    log, work = windows[0].log, Work.of(windows)
    counts = [
        Counter((int(log.size[k]), bool(log.kind[k] == Kind.FREE)) for k in range(window.lo, window.hi))
        for window in windows
    ]
    found = likeness(work.roots @ work.roots.T, work.total[:, None], work.total[None, :])
    plain = [[plain_likeness(one, other) for other in counts] for one in counts]
    assert np.allclose(found, plain, atol=0.005)


def plain_score(gains: list[list[float]]) -> float:
    """The score of the best alignment in order, by the table of the textbook."""
    opening, each = window_order._OPENING, window_order._EACH
    rows, columns = len(gains), len(gains[0])
    # paired, row alone, column alone, after i rows and j columns
    table = {(0, 0): (0.0, -math.inf, -math.inf)}
    ends = []
    for i in range(rows + 1):
        for j in range(columns + 1):
            if i or j:
                paired = gains[i - 1][j - 1] + max(table[i - 1, j - 1]) if i and j else -math.inf
                row = max(max(table[i - 1, j]) - opening, table[i - 1, j][1]) - each if i else -math.inf
                column = (
                    max(max(table[i, j - 1][0], table[i, j - 1][1], 0.0 if i == j - 1 == 0 else -math.inf) - opening,
                        table[i, j - 1][2]) - each if j else -math.inf
                )  # fmt: skip
                table[i, j] = paired, row, column
            if (i == rows or j == columns) and i and j:
                ends.append(max(table[i, j]))
    return max(ends)


def score_of(gains: list[list[float]], pairs: list[tuple[int, int]]) -> float:
    opening, each = window_order._OPENING, window_order._EACH
    total = sum(gains[i][j] for i, j in pairs)
    for (i, j), (k, m) in pairwise([(-1, -1), *pairs]):
        total -= sum(opening + each * (alone - 1) for alone in (k - i, m - j) if alone > 1)
    left = [size - 1 - last for size, last in zip((len(gains), len(gains[0])), pairs[-1], strict=True)]
    return total - (opening + each * min(left) if min(left) else 0)  # what one run has more at its end is free


@given(
    st.lists(st.sampled_from("abcdx"), min_size=1, max_size=12),
    st.lists(st.sampled_from("abcdy"), min_size=1, max_size=12),
    st.booleans(),
)
def test_the_alignment_in_order_is_the_best_one(base: list[str], head: list[str], kinds: bool) -> None:
    programs = {"a": A, "b": B, "c": C, "d": D, "x": X, "y": (*A, *B)}
    sides = []
    for letters in (base, head):
        work = Work.of(series_of([programs[letter] for letter in letters])[1:])
        kind = np.array([kinds and letter in "ax" for letter in letters], np.int64)
        sides.append(Series(work, kind, np.ones(len(letters), np.bool_)))
    ours, theirs = sides
    alike = likeness(ours.work.roots @ theirs.work.roots.T, ours.work.total[:, None], theirs.work.total[None, :])
    gains = np.where(ours.kind[:, None] == theirs.kind[None, :], alike - window_order._BY_CHANCE, -math.inf).tolist()
    pairs = in_order(ours, theirs, np.full(len(base), -1, np.int64))
    assert all(i < k and j < m for (i, j), (k, m) in pairwise(pairs))
    assert all(gains[i][j] > -math.inf for i, j in pairs)
    if pairs:
        assert score_of(gains, pairs) == pytest.approx(plain_score(gains), abs=1e-4)
