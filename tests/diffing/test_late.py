"""Frees that come much later are named even where no peak shows them, what piles up until the exit is one finding, and chance is neither.

The rates with fresh seeds are measured by ``benchmarks/late_frees.py``.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest
from diff_judge import assert_mirrored, check_accounts
from paddle import read
from real_windows import real_windows

from late_frees import interleaved, jittered, leaking, rates, whole, with_late_frees
from memlens.diffing.result import WindowDiff
from memlens.diffing.run import diff, diff_windows
from memlens.events import Kind
from memlens.windows.windows import Window

A, F = Kind.ALLOC, Kind.FREE


@pytest.fixture(scope="module")
def windows(shared: Path) -> list[Window]:
    relations = ["same run", "two runs", "two versions"]
    return [pair.base for pair in real_windows(shared, relations) if pair.shortest >= 40 and pair.longest <= 2000]


def compared(base: Window, head: Window) -> WindowDiff:
    return diff_windows([(base, head)])[0]


def pulses(count: int, first: int = 1000) -> list[tuple[Kind, int, int]]:
    """So many blocks, each of its own size, one at a time."""
    return [row for n in range(first, first + count) for row in ((A, 16 * n, n), (F, 16 * n, n))]


def test_a_free_that_comes_much_later_below_the_peak_is_named_with_what_is_allocated_meanwhile() -> None:
    # Block 1 is freed at once in base, and after ten allocations of 10, 20, … 100 bytes in head; the peak is a block of 1000 before.
    peak = [(A, 1000, 9), (F, 1000, 9)]
    rest = [row for n in range(1, 11) for row in ((A, 10 * n, 50 + n), (F, 10 * n, 50 + n))]
    end = [(A, 5, 70), (F, 5, 70)]
    base = whole([*peak, (A, 64, 1), (F, 64, 1), *rest, *end])
    head = whole([*peak, (A, 64, 1), *rest, (F, 64, 1), *end])
    found = compared(base, head)
    assert (found.d_remaining_bytes, found.d_peak_bytes, found.cost_bytes) == (0, 0, 0)
    (finding,) = found.findings
    assert (finding.kind, finding.fate, finding.size_bytes, finding.count) == ("late_free", None, 64, 1)
    assert (finding.late_by_allocs, finding.late_by_bytes) == (10, sum(10 * n for n in range(1, 11)))
    assert (finding.d_remaining_bytes, finding.d_peak_bytes) == (0, 0)
    assert found.late_frees == 1
    assert not found.same
    assert not found.alike
    assert_mirrored(found, compared(head, base))


def test_a_thread_that_waits_for_another_one_frees_nothing_late() -> None:
    # Thread 1 has 12 blocks at once, thread 2 has 40, one at a time.  In head thread 2 begins first, and goes on before thread 1 frees.
    own = [(A, 256 * n, n) for n in range(1, 13)], [(F, 256 * n, n) for n in range(1, 13)]
    other = [row for n in range(1, 41) for row in ((A, 64 * n, 50 + n), (F, 64 * n, 50 + n))]
    runs = []
    for parts in ((own[0], own[1], other), (other[:40], own[0], other[40:], own[1])):
        threads = [2 if block > 50 else 1 for rows in parts for *_, block in rows]
        runs.append(whole([row for rows in parts for row in rows], threads))
    found = compared(*runs)
    assert found.cost_bytes == 0  # the threads are aligned on their own
    assert found.late_frees == 0
    assert not [f for f in found.findings if f.fate == "to_end" or f.late_by_allocs]
    assert_mirrored(found, compared(*runs[::-1]))
    # What a thread frees late beside its own work is named all the same.
    (kind, size, block), *rest = own[1]
    busy = [row for n in range(20) for row in ((A, 32 * n, 100), (F, 32 * n, 100))]
    runs = []
    for rows in (
        [*own[0], *own[1], *busy, *other],
        [*other[:40], *own[0], *rest, *busy, (kind, size, block), *other[40:]],
    ):
        runs.append(whole(rows, [2 if 50 < row[2] < 100 else 1 for row in rows]))
    (finding,) = [f for f in compared(*runs).findings if f.kind == "late_free"]
    assert (finding.size_bytes, finding.count, finding.late_by_allocs) == (256, 1, 20)


@pytest.mark.parametrize(("later", "late"), [(0, 0), (7, 0), (8, 1)])
def test_what_lives_as_long_among_blocks_of_its_own_run_is_not_late(later: int, late: int) -> None:
    # A longer run: base has 30 blocks more while the block lives, and head goes on with what base does after that.
    more, common = pulses(30, 3000), pulses(60)
    base = whole([(A, 64, 1), *more, (F, 64, 1), *common])
    head = whole([(A, 64, 1), *common[: 60 + 2 * later], (F, 64, 1), *common[60 + 2 * later :]])
    assert compared(base, head).late_frees == compared(head, base).late_frees == late


def test_a_free_that_comes_a_little_later_is_not_named() -> None:
    rest = [row for n in range(1, 40) for row in ((A, 10 * n, 50 + n), (F, 10 * n, 50 + n))]
    base = whole([(A, 64, 1), (F, 64, 1), *rest])
    head = whole([(A, 64, 1), *rest[:10], (F, 64, 1), *rest[10:]])  # five allocations later
    assert compared(base, head).late_frees == 0


def _temporaries(count: int) -> list[tuple[Kind, int, int]]:
    """Allocations that are freed at once, each of a size of its own."""
    return [row for k in range(1, count + 1) for row in ((A, 10 * k, 5000 + k), (F, 10 * k, 5000 + k))]


@pytest.mark.parametrize(
    ("allocs", "life", "later"),
    [
        (400, 0, 8),  # eight allocations …
        (2000, 0, 20),  # … and a hundredth of them
        (400, 12, 12),  # twice the life …
        (400, 100, 40),  # … or a tenth of them
    ],
)
def test_what_is_much_later_in_a_window_of_that_length(allocs: int, life: int, later: int) -> None:
    rows = _temporaries(allocs)

    def run(born_until: int) -> Window:
        return whole([(A, 64, 1), *rows[: 2 * born_until], (F, 64, 1), *rows[2 * born_until :]])

    assert [compared(run(life), run(life + by)).late_frees for by in (later - 1, later)] == [0, 1]


@pytest.mark.parametrize(("each", "fewer", "later"), [(8, 2, 24), (15, 2, 20), (8, 5, 24), (8, 17, 20)])
def test_much_later_is_four_times_what_a_tenth_of_the_pairs_are_apart(each: int, fewer: int, later: int) -> None:
    # Blocks live for 20 allocations, but one in so many, in head, for six more, or (one in so many of these) six fewer; one more is
    # freed late.  Where fewer than a tenth are apart, or fewer than one in a hundred the other way, it is late from twice its life on.
    def run(of_head: int, by: int = 0) -> Window:
        rows: list[tuple[Kind, int, int]] = []
        due: dict[int, list[tuple[int, int]]] = {}
        for k in range(400):
            rows += [(F, *block) for block in due.pop(k, ())]
            life = 20 + of_head * ((6 if k // each % fewer else -6) if k % each == 0 else by if k == 201 else 0)
            rows.append((A, 16 * (k + 1), 1000 + k))
            due.setdefault(k + 1 + life, []).append((16 * (k + 1), 1000 + k))
        return whole([*rows, *((F, *block) for k in sorted(due) for block in due[k])])

    assert [compared(run(0), run(1, by)).late_frees for by in (later - 1, later)] == [0, 1]


@pytest.mark.parametrize(("distance", "named"), [(0, 1), (1, 0), (2, 0), (3, 1)])
def test_of_two_blocks_alike_one_is_late_where_its_neighbours_tell_which(distance: int, named: int) -> None:
    # Base frees one of two blocks of 64 bytes late, and so does head, which lacks the other Free: which one it lacks, only the
    # two allocations on each side of a block tell.  Head allocates one more, so many places before it (0: it does not).
    rows = _temporaries(60)
    at = 2 * (21 - distance)
    more = [*rows[:at], (A, 7, 9), (F, 7, 9), *rows[at:]] if distance else rows
    begin = 40 + len(more) - len(rows)
    base = whole([(A, 64, 2), *rows[:40], (A, 64, 1), (F, 64, 1), *rows[40:80], (F, 64, 2), *rows[80:]])
    head = whole([(A, 64, 2), *more[:begin], (A, 64, 1), *more[begin : begin + 60], (F, 64, 1), *more[begin + 60 :]])
    found = compared(base, head)
    assert found.late_frees == named
    check_accounts(base, head, found)


@pytest.mark.parametrize("seed", [56, 58, 63, 65])
def test_a_pair_that_may_be_of_two_other_blocks_is_late_only_whoever_pairs(windows: list[Window], seed: int) -> None:
    chance = Random(f"jitter {seed}")  # found among 400: there the cheapest alignment pairs a short one with a long one
    window = chance.choice(windows)
    assert compared(window, jittered(window, chance, 0.3)).late_frees == 0


def test_of_blocks_alike_no_more_are_kept_to_the_end_than_are_freed_there_beyond_the_other_run() -> None:
    first, last = pulses(40), pulses(2, 2000)
    # Of three blocks of 64 bytes base frees one at the end, and head two others, one of which base does not have.
    base = whole([(A, 64, 1), (F, 64, 1), *first, (A, 64, 2), *last, (F, 64, 2)])
    head = whole([(A, 64, 1), (A, 64, 3), *first, (A, 64, 2), (F, 64, 2), *last, (F, 64, 1), (F, 64, 3)])
    for there, which in ((compared(base, head), "head"), (compared(head, base), "base")):
        assert sum(f.count for f in there.findings if f.fate == "to_end") == 1, which


def test_what_is_allocated_last_and_freed_at_once_does_not_pile_up() -> None:
    first = pulses(40)
    base, head = whole(first), whole([*first, *((A, 64, n) for n in range(5)), *((F, 64, n) for n in range(5))])
    (finding,) = compared(base, head).findings
    assert (finding.kind, finding.fate, finding.count) == ("only_head", "temporary", 5)


def test_late_frees_in_real_windows_are_named_and_every_byte_is_accounted_for(windows: list[Window]) -> None:
    chance = Random(1)
    for _ in range(15):
        made = with_late_frees(chance.choice(windows), chance, 5)
        assert made is not None
        found = compared(made.base, made.head)
        check_accounts(made.base, made.head, found)
        assert_mirrored(found, compared(made.head, made.base))
        assert found.late_frees == len(made.truth)
        late = {
            member.head.alloc_event: finding.late_by_allocs
            for finding in found.findings
            if finding.kind == "late_free"
            for member in finding.members
            if member.head is not None
        }
        for alloc, later in made.truth.items():
            assert (late[alloc] or 0) >= later  # the most of all members


def test_neighbours_that_change_places_make_nothing_late(windows: list[Window]) -> None:
    found = rates(windows, Random(2), 40, most=0, swaps=0.1)
    assert found.runs == 40
    assert found.false == 0
    chance = Random(3)
    for _ in range(8):
        window = chance.choice(windows)
        other = jittered(window, chance, 0.2)
        check_accounts(window, other, compared(window, other))


def test_late_frees_are_named_among_neighbours_that_change_places(windows: list[Window]) -> None:
    found = rates(windows, Random(4), 40, most=10, swaps=0.1)
    assert found.late > 130
    assert found.found >= 0.88 * found.late
    assert found.false <= 0.01 * found.late


def test_threads_that_interleave_otherwise_make_nothing_late() -> None:
    chance = Random(5)
    pairs = [interleaved(chance, chance.randint(2, 5), chance.randint(10, 80)) for _ in range(30)]
    assert sum(compared(*pair).late_frees for pair in pairs) == 0


@pytest.mark.parametrize("at_exit", [True, False])
def test_a_leak_in_one_long_window_is_named_with_its_count(at_exit: bool) -> None:
    chance = Random(6)
    for _ in range(8):
        base, head, truth = leaking(chance, chance.randint(10, 80), at_exit=at_exit)
        found = compared(base, head)
        kept: Counter[int] = Counter()
        for finding in found.findings:
            held = finding.kind == "missing_free" or (finding.kind, finding.fate) == ("only_head", "held")
            if held or finding.fate == "to_end":
                kept[finding.size_bytes] += finding.count
        assert kept == truth
        assert_mirrored(found, compared(head, base))
    # No leak, nothing kept.
    assert len(compared(base, base).findings) == 0


def test_a_leak_of_a_real_run_in_one_window_has_the_count_of_what_is_live_when_the_work_is_done(shared: Path) -> None:
    folder = shared / "data/paddle"
    for leak in ("05_leak_graph_331", "05_leak_activations_331"):
        logs = read(folder / "05_fixed_331.log.gz"), read(folder / f"{leak}.log.gz")
        live = []
        for log in logs:  # right after the last ALLOC
            partner, last = log.lifetimes.partner, int(np.flatnonzero(log.kind == A)[-1])
            live.append(Counter(log.size[(log.kind == A) & ((partner < 0) | (partner > last))].tolist()))
        (window,) = diff(logs[0].whole, logs[1].whole).windows
        kept: Counter[int] = Counter()
        for finding in window.findings:
            if finding.fate == "to_end":
                assert finding.kind in ("late_free", "only_head")
                kept[finding.size_bytes] += finding.count
        assert kept == live[1] - live[0]
        check_accounts(logs[0].whole, logs[1].whole, window)
        assert not [
            f
            for f in window.findings
            if f.kind == "late_free" and f.fate is None and f.size_bytes in kept and f.late_by_allocs
        ]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("05_fixed_331.log.gz", "04_threads_30_ast_pt_transformer.log.gz"),
        ("05_leak_activations_331.log.gz", "30_ast_transformer_pt.log"),
    ],
)
def test_unlike_runs_compared_the_other_way_round_mirror_each_other(shared: Path, one: str, two: str) -> None:
    left, right = (read(shared / "data/paddle" / name).whole for name in (one, two))
    found = compared(left, right)
    assert found.late_frees > 10
    assert_mirrored(found, compared(right, left))
    check_accounts(left, right, found)
