"""What a gate must not claim: figures that a log does not show, and what a run that died would have freed."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import pytest

import memlens
from memlens.gating.figures import RunFigures, WindowFigures
from memlens.gating.judging import Judged, Rules, judge, pair_runs
from memlens.gating.limits import parse_limits
from memlens.reports.gate import gate_blocks
from memlens.reports.terminal import render
from memlens.windows.windows import WHOLE

MIB = 1 << 20
GLOG = "I1120 10:22:32.856307 13292 auto_growth_best_fit_allocator.cc:270] "
STEPS = r"STEP (\d+) START"


def log(path: Path, *lines: str) -> Path:
    """A log whose lines are text, or ``+size@address`` and ``-size@address`` in MiB; it begins with a chunk that holds them all."""
    text = [f"{GLOG}Not found and reallocate 1099511627776(0x1), and remaining 0"]
    for line in lines:
        size, at, addr = line[1:].partition("@")
        said = f"{'Alloc' if line[0] == '+' else 'Free'} {int(size) * MIB} bytes, ptr = 0x{addr}" if at else ""
        text.append(f"{GLOG}{said}" if said else line)
    path.write_text("\n".join(text) + "\n")
    return path


def recording(path: Path, *steps: tuple[int, int], last: int | None = None) -> Path:
    """A recording of blocks, ``(address, MiB)`` to allocate one and ``(address, -MiB)`` to free it, of which only the last entries were kept."""
    live: dict[int, int] = {}
    trace: list[dict[str, Any]] = []
    for address, size in steps:
        entry = {"addr": address * MIB, "size": abs(size) * MIB, "stream": 0, "frames": []}
        if size > 0:
            live[address] = size
            trace.append({"action": "alloc", **entry})
        else:
            del live[address]
            trace += [{"action": "free_requested", **entry}, {"action": "free_completed", **entry}]
    blocks, at = [], 0
    for address, size in [*sorted(live.items()), (1024, 0)]:
        if address > at:
            blocks.append({"address": at * MIB, "size": (address - at) * MIB, "state": "inactive", "frames": []})
        blocks.append(
            {
                "address": address * MIB,
                "size": size * MIB,
                "requested_size": size * MIB,
                "state": "active_allocated",
                "frames": [],
            }
        )
        at = address + size
    segment = {
        "device": 0, "address": 0, "total_size": 1024 * MIB, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0),
        "allocated_size": sum(live.values()) * MIB, "active_size": sum(live.values()) * MIB, "requested_size": sum(live.values()) * MIB,
        "is_expandable": False, "frames": [], "blocks": blocks[:-1],
    }  # fmt: skip
    made = {
        "segments": [segment],
        "device_traces": [trace if last is None else trace[-last:]],
        "allocator_settings": {},
    }
    path.write_bytes(pickle.dumps(made))
    return path


#: 40 MiB of weights, a summit 30 MiB above them, and then ten steps of 5 MiB.
RUN = [(0, 40), (100, 30), (100, -30)] + [(200, 5), (200, -5)] * 10


def test_a_recording_that_begins_after_the_peak_does_not_pass_and_blames_nobody(tmp_path: Path) -> None:
    full, ring = recording(tmp_path / "full.pickle", *RUN), recording(tmp_path / "ring.pickle", *RUN, last=9)
    late = memlens.gate(ring, base_log=full)
    assert (late.verdict, late.exit_code, late.improved) == ("unjudged", 1, ())
    assert "the log begins late, and may have been higher before" in late.explanation
    other = memlens.gate(full, base_log=ring)  # 70 MiB against what is left of it, 45 MiB
    assert other.verdict == "unjudged"
    assert "the base begins late" in other.explanation
    assert "25" not in other.explanation
    assert memlens.gate(full, base_log=full).verdict == "pass"
    both = memlens.gate(ring, base_log=ring)  # two that begin at one place can be held against each other
    assert both.verdict == "pass"
    assert "the peak may be higher, for the log begins late" in both.explanation.replace("The", "the")
    assert memlens.gate(ring, base_log=full, trust=False).verdict == "pass"


def test_a_recording_that_begins_late_fails_where_what_it_shows_is_too_much(tmp_path: Path) -> None:
    full = recording(tmp_path / "full.pickle", *RUN)
    higher = recording(tmp_path / "higher.pickle", *RUN, (300, 90), last=9)
    found = memlens.gate(higher, base_log=full)
    # At its end it holds the weights and 90 MiB, 60 MiB over the peak of 70 MiB.
    assert [(row.metric, row.d_bytes) for row in found.failing if row.metric == "peak"] == [("peak", 60 * MIB)]


FAILED = "ResourceExhaustedError: Out of memory error on GPU 0. Cannot allocate 256.000000MB memory on GPU 0."


def test_what_a_run_held_when_it_died_is_no_regression_and_the_failure_comes_first(tmp_path: Path) -> None:
    step = ["+6@b", "-6@b"]
    base = log(tmp_path / "base.log", "+10@a", *step * 9, "-10@a")
    same = log(tmp_path / "same.log", "+10@a", *step * 8, FAILED)
    found = memlens.gate(same, base_log=base)
    assert found.verdict == "unjudged"  # it died with no more than the base had then
    assert found.explanation.startswith("Head ran out of memory at line 19")
    assert "256.00 MiB" in found.explanation
    more = log(tmp_path / "more.log", "+10@a", *step * 8, "+20@c", FAILED)
    found = memlens.gate(more, base_log=base)
    assert found.verdict == "regression"
    assert {row.metric: row.d_bytes for row in found.failing} == {"peak": 14 * MIB, "rise": 14 * MIB}  # 30 less 16
    assert found.explanation.startswith("Head ran out of memory at line 20")
    assert "the peak and rise of the run" in found.explanation
    (blame,) = found.blame
    assert blame.metrics == ("peak", "rise")


def test_a_run_that_went_on_is_judged_by_what_it_leaves(tmp_path: Path) -> None:
    step = ["+6@b", "-6@b"]
    base = log(tmp_path / "base.log", "+10@a", *step * 9, "-10@a")
    head = log(tmp_path / "head.log", "+10@a", FAILED, *step * 9)
    found = memlens.gate(head, base_log=base)
    assert [(row.metric, row.head_bytes) for row in found.failing] == [("remaining", 10 * MIB)]
    assert "and went on" in found.explanation


def series(*levels: int) -> RunFigures:
    """A run with a window for each level (MiB) at its end; each rises by 50 MiB."""
    windows = [WindowFigures(str(k), 50 * MIB, 0, level * MIB) for k, level in enumerate(levels)]
    return RunFigures(max(levels) * MIB, None, tuple(windows))


def growth(head: RunFigures, base: RunFigures) -> Judged:
    rows = judge([base], head, pair_runs([base], head, series=True), Rules(parse_limits(())))
    return next(row for row in rows if (row.name, row.metric) == (WHOLE, "growth"))


FLAT = series(*[20] * 9)


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ([20, 20, 20, 20, 23, 26, 29, 32, 35], "the last 5 windows rise by 15.00 MiB, too few to tell"),
        ([20, 20, 20, 20, 20, 20, 23, 26, 29], "the last 3 windows rise by 9.00 MiB, too few to tell"),
        ([20] * 9, None),
        ([20, 20, 20, 20, 20, 20, 20, 23, 26], None),  # two windows are no more than one that fails by itself
        ([20, 11, 14, 17, 20, 11, 14, 17, 20], None),  # no higher than the base ever was
    ],
)
def test_a_rise_at_the_end_that_is_too_short_to_be_growth_is_not_denied(levels: list[int], said: str | None) -> None:
    row = growth(series(*levels), FLAT)
    assert (row.unjudged, row.ok) == (said, True)
    assert (row.limit_bytes is None) == (said is not None)


def test_where_the_base_rises_alike_nothing_is_said() -> None:
    filling = series(20, 20, 20, 20, 23, 26, 29, 32, 35)
    assert growth(filling, filling).unjudged is None
    more = series(20, 20, 20, 20, 27, 30, 33, 36, 39)  # 4 MiB more in one window, and else as the base
    assert growth(more, filling).unjudged is None
    faster = series(20, 20, 20, 20, 25, 30, 35, 40, 45)  # 2 MiB a window beyond it
    assert growth(faster, filling).unjudged == "the last 5 windows rise by 10.00 MiB, too few to tell"


def test_a_budget_says_how_high_a_figure_is_and_not_that_it_changed(tmp_path: Path) -> None:
    path = log(tmp_path / "run.log", "+20@a", "-20@a")
    for base in (None, path):
        found = memlens.gate(path, base_log=base, budgets="peak=19MiB")
        assert "peak is 20.00 MiB; over the budget of 19.00 MiB by 1.00 MiB (1048576 B)" in found.explanation
        assert "went from" not in found.explanation


def test_a_log_in_doubt_is_called_so_without_counts_of_its_events(tmp_path: Path) -> None:
    path = log(tmp_path / "run.log", "-7@a", "+20@b", "-7@c", "-7@d")
    found = memlens.gate(path, base_log=path)
    assert found.verdict == "unjudged"
    assert re.fullmatch(r"Not judged: the log is doubtful: [a-z ,]+\.", found.explanation)


def test_the_first_finding_with_its_line_is_the_last_that_leaves_a_screen(shared: Path) -> None:
    data = shared / "data" / "paddle"
    found = memlens.gate(data / "05_leak_graph_331.log.gz", base_log=data / "05_fixed_331.log.gz", by=STEPS)
    text = render(gate_blocks(found), width=80)
    assert text.count("\n") <= 40
    assert re.search(r"^> [\d,]+  I1120 .*Alloc", text, re.MULTILINE | re.DOTALL)
    assert "is over the limit; what the two runs do differently" in text
