"""One factor between nearly all sizes of two runs is found, named and taken out; sizes that only partly differ have none."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from random import Random

import numpy as np
import pytest
from real_windows import WindowPair, real_windows
from scaled import lossy, partly_scaled, scaled

from late_frees import whole
from memlens.diffing.factor import common_factor
from memlens.diffing.run import diff
from memlens.events import Kind
from memlens.slicing import Window

FACTORS = [Fraction(2), Fraction(1, 2), Fraction(4), Fraction(3, 2), Fraction(1, 4), Fraction(3), Fraction(2, 3)]


@pytest.fixture(scope="module")
def pairs(shared: Path) -> list[WindowPair]:
    return list(real_windows(shared))


@pytest.fixture(scope="module")
def logs(pairs: list[WindowPair]) -> list[Window]:
    found = {side.log.source.name: side for pair in pairs if pair.anchors == "whole" for side in (pair.base, pair.head)}
    return list(found.values())


@pytest.mark.parametrize("factor", FACTORS, ids=str)
def test_a_factor_is_found_in_real_logs_whatever_the_padding(logs: list[Window], factor: Fraction) -> None:
    for log in logs[::3]:
        for padding in (256, 512):
            other = scaled(log, factor, padding=padding)
            found, back = common_factor([log], [other]), common_factor([other], [log])
            assert found is not None
            assert back is not None
            assert (found.value, back.value) == (factor, 1 / factor)


def test_real_runs_of_one_batch_have_no_factor_and_one_of_half_the_batch_has(pairs: list[WindowPair]) -> None:
    found: dict[str, set[Fraction]] = {}
    for pair in pairs[::2]:  # the steps of one log are much alike
        if (factor := common_factor([pair.base], [pair.head])) is not None:
            found.setdefault(pair.logs, set()).add(factor.value)
    assert found == {"262_ast_cnn_pt.log | 331_ast_pt_cnn.log": {Fraction(1, 2)}}  # a batch of 16, and one of 8


def test_unlike_real_runs_have_no_factor(logs: list[Window]) -> None:
    for number, log in enumerate(logs[::2]):
        for other in logs[2 * number + 1 :: 2]:
            assert common_factor([log], [other]) is None


def test_sizes_that_only_partly_differ_have_no_factor(logs: list[Window]) -> None:
    chance = Random(1)
    judged = 0
    for log in logs:
        for factor in FACTORS[:4]:
            other = partly_scaled(log, factor, chance, chance.choice([0.3, 0.5, 0.7]))
            allocs = log.log.kind == Kind.ALLOC
            before, after = log.log.size[allocs], other.log.size[allocs]
            if int(before[before != after].sum()) < 0.8 * int(before.sum()):
                judged += 1
                assert common_factor([log], [other]) is None
    assert judged > 40


def test_what_differs_beside_the_factor_is_named_and_every_byte_is_accounted_for(logs: list[Window]) -> None:
    chance = Random(2)
    for log in logs[::2]:
        if len(log) > 3000:
            continue
        damaged, lost = lossy(log, chance, 3)
        factor = chance.choice(FACTORS)
        other = scaled(damaged, factor)
        compared = diff(log, other)
        (window,) = compared.windows
        assert compared.factor == factor
        net = [
            int(w.log.size[w.log.kind == Kind.ALLOC].sum() - w.log.size[w.log.kind == Kind.FREE].sum())
            for w in (log, other)
        ]
        assert window.d_remaining_bytes == net[1] - net[0]
        level = [_levels(w).max(initial=0) for w in (log, other)]
        assert window.d_peak_bytes == level[1] - level[0]
        assert window.remaining.unexplained_bytes == window.peak.unexplained_bytes == 0
        assert sum(f.d_remaining_bytes for f in window.findings) == window.remaining_explained_bytes
        assert sum(f.d_peak_bytes for f in window.findings) == window.peak_explained_bytes
        assert window.remaining_left_bytes == window.d_remaining_bytes - window.remaining.factor_bytes
        kept: dict[int, int] = {}
        for finding in window.findings:
            if finding.kind == "missing_free" or (finding.kind, finding.fate) == ("only_head", "held"):
                kept[finding.size_bytes] = kept.get(finding.size_bytes, 0) + finding.count
        if factor > 1:  # else scaled sizes may be those of blocks that keep theirs, and nothing tells which is which
            assert kept == lost
            assert window.remaining_left_bytes == sum(size * count for size, count in lost.items())
        assert not window.same


def blocks(sizes: list[int]) -> Window:
    """Blocks of these sizes, one at a time."""
    return whole([row for n, size in enumerate(sizes) for row in ((Kind.ALLOC, size, n), (Kind.FREE, size, n))])


@pytest.mark.parametrize("factor", [Fraction(5, 3), Fraction(7, 11), Fraction(16)], ids=str)
def test_less_simple_factors_are_found_as_well(factor: Fraction) -> None:
    sizes = [3 * 11 * 1024 * n for n in range(1, 30)]
    found = common_factor([blocks(sizes)], [blocks([int(size * factor) for size in sizes])])
    assert found is not None
    assert found.value == factor


@pytest.mark.parametrize(("count", "different", "found"), [(16, 4, True), (15, 4, False), (16, 3, False)])
def test_few_blocks_or_few_sizes_tell_no_factor(count: int, different: int, found: bool) -> None:
    sizes = [10_000 * (1 + n % different) for n in range(count)]
    factor = common_factor([blocks(sizes)], [blocks([3 * size for size in sizes])])
    assert (factor is not None) == found


def test_sizes_times_a_factor_in_another_order_are_another_program() -> None:
    sizes = [10_000 * n for n in range(1, 60)]
    other = [3 * size for size in sizes]
    assert common_factor([blocks(sizes)], [blocks(other)]) is not None
    for n in range(0, 58, 6):  # of six threes that follow each other two stay
        other[n], other[n + 1] = other[n + 1], other[n]
    assert common_factor([blocks(sizes)], [blocks(other)]) is None


@pytest.mark.parametrize(("small", "found"), [(90, True), (110, False)])
def test_blocks_that_are_large_enough_must_hold_half_of_all_bytes(small: int, found: bool) -> None:
    sizes = [10_000 * n for n in range(1, 20)]
    rest = [8000] * (sum(sizes) * small // 100 // 8000)
    factor = common_factor([blocks(sizes + rest)], [blocks([3 * size for size in sizes] + rest)])
    assert (factor is not None) == found


def test_two_equal_programs_times_a_factor_do_the_same_work_and_are_not_the_same() -> None:
    rows = [row for n in range(1, 40) for row in ((Kind.ALLOC, 4096 * n, n), (Kind.FREE, 4096 * n, n))]
    base, head = whole(rows), whole([(kind, 2 * size, addr) for kind, size, addr in rows])
    compared = diff(base, head)
    (window,) = compared.windows
    assert compared.factor == 2
    assert (window.alike, window.same, len(window.findings)) == (True, False, 0)
    assert (window.d_peak_bytes, window.peak.factor_bytes) == (4096 * 39, 4096 * 39)
    assert diff(base, base).factor is None


def _levels(window: Window) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    log = window.log
    signed = np.where(log.kind == Kind.ALLOC, log.size, np.where(log.kind == Kind.FREE, -log.size, 0))
    levels: np.ndarray[tuple[int], np.dtype[np.int64]] = np.cumsum(signed[window.lo : window.hi])
    return levels
