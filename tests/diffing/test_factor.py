"""Runs that share little are said to, with the factor between most of their sizes, and no cause; nothing is taken out."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from diff_judge import check_accounts
from night import some
from real_windows import real_windows
from scaled import scaled

from late_frees import whole
from memlens.diffing.compare import common_factor
from memlens.diffing.run import diff
from memlens.events import Kind
from memlens.windows.windows import Window

FACTORS = [Fraction(2), Fraction(1, 2), Fraction(4), Fraction(3, 2), Fraction(1, 4), Fraction(3), Fraction(2, 3)]
KIB = 1024


@pytest.fixture(scope="module")
def logs(shared: Path) -> list[Window]:
    pairs = [pair for pair in real_windows(shared) if pair.anchors == "whole"]
    return list({side.log.source.name: side for pair in pairs for side in (pair.base, pair.head)}.values())


@pytest.mark.parametrize("factor", some(FACTORS), ids=str)
def test_a_factor_is_found_in_real_logs_whatever_the_padding(logs: list[Window], factor: Fraction) -> None:
    for log in some(logs[::3], 12):
        for padding in (256, 512):
            other = scaled(log, factor, padding=padding)
            assert (common_factor([log], [other]), common_factor([other], [log])) == (factor, 1 / factor)


def test_runs_of_other_models_have_no_factor(logs: list[Window]) -> None:
    models = [[log for log in logs if model in log.log.source.name] for model in ("cnn", "transformer")]
    assert min(map(len, models)) > 3
    for one in models[0]:
        for other in models[1]:
            assert common_factor([one], [other]) is None


@pytest.mark.parametrize("factor", FACTORS, ids=str)
def test_where_nothing_pairs_the_factor_is_said_first_and_no_cause_is_named(
    logs: list[Window], factor: Fraction
) -> None:
    log = min(logs, key=len)
    other = scaled(log, factor, small=0)
    found = diff(log, other)
    if not found.shares_little:  # equal sizes by chance
        assert found.factor is None
        return
    assert found.factor == factor
    first, sizes, second, *others = (one for one in found.answer.sentences if not one.startswith("In doubt: "))
    assert first.startswith("The runs share little: ")
    assert sizes == f"Most sizes of head are those of base times {factor} (another dtype, another batch size)."
    assert "eak" in second
    assert not others
    # All of it is accounted for in the sizes that stand in the logs.
    (window,) = found.windows
    check_accounts(log, other, window)


def _factor(base: list[int], head: list[int]) -> Fraction | None:
    """The factor between two runs that allocate these sizes, each freed at once."""
    windows = [
        whole([row for n, size in enumerate(sizes, 1) for row in ((Kind.ALLOC, size, n), (Kind.FREE, size, n))])
        for sizes in (base, head)
    ]
    return common_factor(windows[:1], windows[1:])


def _cycle(blocks: int, sizes: int, unit: int = 16 * KIB) -> list[int]:
    return [unit * (1 + 3 * (k % sizes)) for k in range(blocks)]


@pytest.mark.parametrize(("padding", "factor"), [(511, 2), (512, None), (-1023, 2), (-1024, None)])
def test_a_size_is_a_multiple_of_another_up_to_the_padding_of_both(padding: int, factor: int | None) -> None:
    # Less than 512 bytes in each run: in base they count twice.
    base = _cycle(40, 8)
    assert _factor(base, [2 * size + padding for size in base]) == factor
