"""A late Free is a block that both runs free and that is live at head's peak and gone at base's.

The rates with fresh seeds are measured by ``benchmarks/late_frees.py``.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from diff_judge import assert_mirrored, check_accounts
from real_windows import real_windows

from late_frees import late_frees, named, whole
from memlens.claims.template import write
from memlens.claims.words_compared import TIMING
from memlens.diffing.claims import timing
from memlens.diffing.result import WindowDiff
from memlens.diffing.run import diff_windows
from memlens.events import Kind
from memlens.reports.diff.findings import words_of
from memlens.windows.windows import Window

A, F = Kind.ALLOC, Kind.FREE


@pytest.fixture(scope="module")
def windows(shared: Path) -> list[Window]:
    relations = ["same run", "two runs", "two versions"]
    return [pair.base for pair in real_windows(shared, relations) if pair.shortest >= 40 and pair.longest <= 2000]


def compared(base: Window, head: Window) -> WindowDiff:
    return diff_windows([(base, head)])[0]


def pulses(count: int) -> list[tuple[Kind, int, int]]:
    """So many blocks, each of its own size, one at a time."""
    return [row for n in range(100, 100 + count) for row in ((A, n, n), (F, n, n))]


@pytest.mark.parametrize(("before", "after"), [(1, 0), (3, 2), (7, 22)])
def test_a_late_free_is_told_in_allocations_from_each_runs_own_peak(before: int, after: int) -> None:
    # Base frees the block before so many allocations, of which the last one is the peak, head only so many after it.
    block, top = (A, 64, 1), [(A, 5000, 2), (F, 5000, 2)]
    rest = pulses(before - 1), [(kind, size + 1000, addr) for kind, size, addr in pulses(after)]
    base = whole([block, (F, 64, 1), *rest[0], *top, *rest[1]])
    head = whole([block, *rest[0], *top, *rest[1], (F, 64, 1)])
    found = compared(base, head)
    (finding,) = found.findings
    assert (finding.kind, finding.fate, finding.size_bytes, finding.count) == ("late_free", None, 64, 1)
    assert (finding.d_peak_bytes, finding.d_remaining_bytes, found.d_rise_bytes) == (64, 0, 64)
    assert (finding.base_allocs_after_peak, finding.head_allocs_after_peak) == (-before, after)
    own = f"{after} allocation{'s' * (after > 1)}" if after else "right"
    others = f"{before} allocation{'s' * (before > 1)} before base's"
    assert finding.base is not None
    assert finding.head is not None
    lines = finding.head.free_line, finding.base.free_line
    without, text = (write(TIMING, timing(finding, lines=known)) for known in (False, True))
    assert without == f"{own} after head's peak, {others}"
    assert text == f"{own} after head's peak (line {lines[0]}), {others} (line {lines[1]})"
    assert_mirrored(found, compared(head, base))
    check_accounts(base, head, found)


def test_of_a_block_that_one_run_frees_late_and_the_other_after_its_peak_makes_nothing_is_said_of_their_frees() -> None:
    """Base peaks first and frees each block at once; head keeps them to the end, which is freed in the window, too."""
    top, numbers = [(A, 5000, 2), (F, 5000, 2)], range(10, 14)
    base = whole([*top, *(row for n in numbers for row in ((A, 2000, n), (F, 2000, n)))])
    head = whole([*top, *((A, 2000, n) for n in numbers), *((F, 2000, n) for n in numbers)])
    kept, first = compared(base, head).findings
    assert (kept.kind, kept.count, kept.d_peak_bytes) == ("elsewhere", 4, 8000)
    assert "alike" not in words_of(kept).meaning
    assert (first.kind, first.d_peak_bytes) == ("early_free", -5000)  # the peak of base alone: 8000 - 5000 is all


@pytest.mark.night
def test_late_frees_of_real_windows_are_those_of_a_plain_replay(windows: list[Window]) -> None:
    chance = Random(1)
    for _ in range(15):
        made = late_frees(chance.choice(windows), chance, 5)
        found = compared(made.base, made.head)
        assert (named(found, "late_free"), named(found, "early_free")) == (made.late, made.early)
        check_accounts(made.base, made.head, found)
        assert_mirrored(found, compared(made.head, made.base))
