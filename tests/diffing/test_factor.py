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
from memlens.windows.windows import Window

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


KIB = 1024


def _found(base: list[int], head: list[int]) -> Fraction | None:
    """The factor between two runs that allocate these sizes, each freed at once."""
    windows = [
        whole([row for n, size in enumerate(sizes, 1) for row in ((Kind.ALLOC, size, n), (Kind.FREE, size, n))])
        for sizes in (base, head)
    ]
    factor = common_factor(windows[:1], windows[1:])
    return None if factor is None else factor.value


def _cycle(blocks: int, sizes: int, unit: int = 16 * KIB) -> list[int]:
    return [unit * (1 + 3 * (k % sizes)) for k in range(blocks)]


@pytest.mark.parametrize(
    ("enough", "too_few"),
    [
        (_cycle(16, 5), _cycle(15, 5)),  # blocks
        (_cycle(40, 4), _cycle(40, 3)),  # sizes
        ([8 * KIB + 512 * (k % 5) for k in range(40)], [8 * KIB - 512 * (k % 5 + 1) for k in range(40)]),  # large ones
        (_cycle(40, 8, 1 << 48), _cycle(40, 8, 1 << 55)),  # sizes that can be
    ],
)
def test_a_factor_takes_sixteen_large_blocks_of_four_sizes(enough: list[int], too_few: list[int]) -> None:
    assert _found(enough, [2 * size for size in enough]) == 2
    assert _found(too_few, [2 * size for size in too_few]) is None


def test_factors_are_fractions_of_numbers_up_to_16() -> None:
    base = _cycle(40, 8, 16 * 16 * KIB)
    found = {
        value: _found(base, [int(size * value) for size in base])
        for value in map(Fraction, ("15", "16", "17", "13/16", "17/16"))
    }
    assert found == {value: value if max(value.as_integer_ratio()) <= 16 else None for value in found}


@pytest.mark.parametrize(("padding", "factor"), [(511, 2), (512, None), (-1023, 2), (-1024, None)])
def test_a_size_is_a_multiple_of_another_up_to_the_padding_of_both(padding: int, factor: int | None) -> None:
    # Less than 512 bytes in each run: in base they count twice.
    base = _cycle(40, 8)
    assert _found(base, [2 * size + padding for size in base]) == factor


def test_seven_of_ten_places_where_three_large_blocks_follow_each_other_are_in_both_runs() -> None:
    # Of 120 places four are lost wherever two neighbours change places: 36 with 9 exchanges, 40 with 10.
    base = _cycle(122, 61)
    for every, factor in ((14, Fraction(2)), (13, None)):
        head = [2 * size for size in base]
        for at in range(0, 121, every):
            head[at], head[at + 1] = head[at + 1], head[at]
        assert _found(base, head) == factor


def test_a_factor_explains_three_times_as_much_as_equal_sizes_do() -> None:
    # Sizes are each other's multiples by 16/15, so that equal sizes explain nearly as much: all but the largest one's blocks, a
    # quarter of all bytes.  That is to be a tenth, and three times what some blocks of sizes of their own take from the factor.
    base = [512 * 15 ** (4 - k % 5) * 16 ** (k % 5) for k in range(240)]
    for own, factor in ((0, Fraction(16, 15)), (8, Fraction(16, 15)), (9, None)):
        head = [-(-size * 16 // 15 // 512) * 512 for size in base]
        for number in range(own):
            head[240 * number // own] = 512 * (99_991 + 1000 * number)
        assert _found(base, head) == factor


@pytest.mark.parametrize(("small", "found"), [(90, True), (110, False)])
def test_blocks_that_are_large_enough_must_hold_half_of_all_bytes(small: int, found: bool) -> None:
    sizes = [10_000 * n for n in range(1, 20)]
    rest = [8000] * (sum(sizes) * small // 100 // 8000)
    assert (_found(sizes + rest, [3 * size for size in sizes] + rest) is not None) == found


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
