"""What was live before an input or a window: peak, rise, held, remaining and live at the end on one screen, in JSON and in compare."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from snapshots import entry, frame, pickled, segment

import memlens as package

MIB = 1 << 20
HERE = [frame("train.py", 7, "step")]


def write(folder: Path, made: Any, name: str = "run.pickle") -> Path:
    (folder / name).write_bytes(pickled(made))
    return folder / name


def falling() -> Any:
    """Three blocks of 4, 2 and 1 MiB from before the trace, which frees that of 4 and takes one of 1 MiB without frames."""
    trace = [
        *(entry(action, 512, 4 * MIB, frames=HERE) for action in ("free_requested", "free_completed")),
        entry("alloc", 512, MIB, frames=[]),
    ]
    made = segment(0, 8 * MIB, [(2 * MIB, "active_allocated"), (MIB, "active_allocated"), (MIB, "active_allocated")])
    made["blocks"][2]["frames"] = HERE
    return {"segments": [made], "device_traces": [trace]}


def figures(text: str) -> dict[str, str]:
    """Key figures by their label."""
    found = re.findall(r"^(Peak|Rise|Remaining|Live) +(-?[0-9.]+ \w+)", text, re.MULTILINE)
    return dict(found)


# --- one snapshot ---


def test_the_json_of_a_snapshot_says_the_same(memlens: Any, tmp_path: Path) -> None:
    ran = memlens("analyze", write(tmp_path, falling()), "--format", "json")
    (log,) = json.loads(ran.out)["logs"]
    (window,) = log["windows"]
    assert window["remaining"] == {"remaining_bytes": -3 * MIB, "carried_in_bytes": 7 * MIB, "live_bytes": 4 * MIB}
    peak, unmatched = window["peak"], window["unmatched"]
    assert (peak["peak_bytes"], peak["rise_bytes"], peak["event"], peak["line"]) == (7 * MIB, 0, None, None)
    assert sum(row["total_bytes"] for row in peak["live"]) == 7 * MIB
    assert (unmatched["held_allocs"], unmatched["held_bytes"]) == (1, MIB)
    assert (unmatched["opening_blocks"], unmatched["opening_bytes"], unmatched["earlier_bytes"]) == (2, 3 * MIB, 0)
    assert [(row["total_bytes"], row["owner"], row["first_line"]) for row in unmatched["opening"]] == [
        (2 * MIB, "(before the input)", None),
        (MIB, "train.py:7 step", None),
    ]
    assert [row["owner"] for row in unmatched["released"]] == ["(before the input)"]
    # the segment that it lies in stood for itself: nothing was taken or given
    assert (window["stats"]["allocs"], window["stats"]["frees"], window["stats"]["reserves"]) == (1, 1, 0)
    assert [row["alloc_event"] for row in window["lifetimes"]["longest"]] == [5]  # a segment and three blocks before
    assert [note["code"] for note in log["trust"]["notes"]] == ["starts_late"]


# --- held, remaining and live never contradict each other ---


# --- windows of a snapshot ---


def test_opening_blocks_are_carried_into_the_first_window_and_born_in_none(tmp_path: Path) -> None:
    made = falling()
    made["device_traces"][0] += [entry("alloc", 3 * 512, 5, user_metadata="eval")]
    made["segments"][0]["blocks"].append({"size": 512, "requested_size": 5, "state": "active_allocated", "frames": []})
    log = package.read(write(tmp_path, made))
    opening = log.facts.opening
    assert opening == 4
    before, after = log.windows("START (eval)")
    for window in (before, log.window(end="START eval"), log.window(end_regex="START")):
        assert (window.lo, window.hi) == (opening, opening + 2)
    assert (after.lo, after.open_end) == (opening + 2, True)
    whole = package.analyze(log, by="START (eval)").logs[0]
    first, second = (window.results["unmatched"] for window in whole.windows)
    assert (first.held_bytes, first.opening_bytes, first.earlier_bytes) == (MIB, 3 * MIB, 0)
    assert (second.held_bytes, second.opening_bytes, second.earlier_bytes) == (5, 3 * MIB, MIB)
    assert [window.results["stats"].allocs for window in whole.windows] == [1, 1]


# --- compare ---


def test_a_later_window_of_a_snapshot_does_not_hold_what_was_there_before_the_input(
    memlens: Any, tmp_path: Path
) -> None:
    made = falling()
    made["device_traces"][0][2]["user_metadata"] = "late"
    ran = memlens("analyze", write(tmp_path, made), "--start", "START late", columns=120)
    # Three of the seven MiB from before the input are live; the window takes one.
    assert (figures(ran.out)["Rise"], figures(ran.out)["Live"]) == ("1.00 MiB", "4.00 MiB")
    assert "Held (allocated here, not freed here): 1.00 MiB in 1 block\n" in ran.out
