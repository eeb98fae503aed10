"""What was live before an input or a window: peak, rise, held, remaining and live at the end on one screen, in JSON and in compare."""

from __future__ import annotations

import csv
import io
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from snapshots import Allocator, entry, frame, pickled, segment, snapshot

import memlens as package
from memlens.units import format_bytes

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


def table(text: str, title: str) -> list[list[str]]:
    """The cells of the rows below a title."""
    rows = text.partition(title)[2].partition("\n\n")[0].splitlines()[2:]
    return [re.split(r"  +", row.strip()) for row in rows]


def figures(text: str) -> dict[str, str]:
    """Key figures by their label."""
    found = re.findall(r"^(Peak|Rise|Remaining|Live) +(-?[0-9.]+ \w+)", text, re.MULTILINE)
    return dict(found)


# --- one snapshot ---


def test_a_snapshot_whose_level_falls_shows_what_was_there_before_it(memlens: Any, tmp_path: Path) -> None:
    ran = memlens("analyze", write(tmp_path, falling()), columns=80)
    assert ran.code == 0
    # 4 + 2 + 1 MiB before; 4 are freed and 1 is taken
    assert figures(ran.out) == {
        "Peak": "7.00 MiB",
        "Rise": "0 B",
        "Remaining": "-3.00 MiB",
        "Live": "4.00 MiB",
    }
    assert "allocated, at or before the first recorded event" in ran.out
    assert "the true peak was before the first entry" in " ".join(ran.out.split())
    assert "Held at the end: 4.00 MiB in 3 blocks, 3.00 MiB of it from before the input\n" in ran.out
    assert table(ran.out, "Held at the end") == [
        ["2.00 MiB", "1", "2.00 MiB", "50%", "(before the input)"],
        ["1.00 MiB", "1", "1.00 MiB", "25%", "train.py:7 step"],
        ["1.00 MiB", "1", "1.00 MiB", "25%", "3", "(no stack)"],
    ]


def test_the_json_of_a_snapshot_says_the_same(memlens: Any, tmp_path: Path) -> None:
    ran = memlens("analyze", write(tmp_path, falling()), "--format", "json")
    (log,) = json.loads(ran.out)["logs"]
    (window,) = log["windows"]
    assert window["remaining"] == {
        "remaining_bytes": -3 * MIB,
        "carried_in_bytes": 7 * MIB,
        "live_bytes": 4 * MIB,
    }
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


def test_a_snapshot_without_a_trace_holds_all_that_it_shows(memlens: Any, tmp_path: Path) -> None:
    made = {"segments": falling()["segments"], "device_traces": [[]]}
    ran = memlens("analyze", write(tmp_path, made), columns=80)
    assert figures(ran.out) == {"Peak": "4.00 MiB", "Rise": "0 B", "Remaining": "0 B", "Live": "4.00 MiB"}
    assert "Held at the end: 4.00 MiB in 3 blocks, all of it from before the input\n" in ran.out
    assert "nothing;" not in ran.out


# --- held, remaining and live never contradict each other ---


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("last", [0, 1, 40, 200])
def test_what_a_snapshot_shows_as_held_is_what_is_live_at_its_end(
    memlens: Any, tmp_path: Path, seed: int, last: int
) -> None:
    allocator = Allocator(random.Random(seed)).run(200)
    path = write(tmp_path, snapshot([allocator], last=min(last, len(allocator.entries))))
    text = memlens("analyze", path, columns=80).out
    live = sum(size for size, _ in allocator.live.values())
    assert figures(text).get("Live", figures(text)["Remaining"]) == format_bytes(live)
    held = re.search(r"^Held at the end: ([^;\n]*?)(?: in [\d,]+ blocks?|;)", text, re.MULTILINE)
    assert held is not None
    assert held[1] == (format_bytes(live) if live else "nothing")


def test_real_snapshots_hold_what_is_live_at_their_end(memlens: Any, shared: Path) -> None:
    expected = json.loads((shared / "data/torch/expected.json").read_text())
    for name in ("ring_3000", "segments_only", "forward_fp32", "pre_existing_blocks"):
        known = expected[f"{name}.pickle"]["0"]
        text = memlens("analyze", shared / f"data/torch/snapshots/{name}.pickle", columns=80).out
        end, start, peak = (known[f"{key}_allocated"] for key in ("end", "start", "peak"))
        wanted = {"Peak": peak, "Rise": peak - start, "Remaining": end - start, "Live": end}
        assert figures(text) == {label: format_bytes(size) for label, size in wanted.items()}, name
        assert f"Held at the end: {format_bytes(end)} in " in text, name


def test_a_window_that_holds_nothing_says_what_it_still_carries(memlens: Any, examples: Path) -> None:
    log = examples / "case1_pir.log"
    ran = memlens("analyze", log, "--start", "START SOT_CALL_0", "--end-regex", "LAUNCH|Alloc", columns=120)
    assert ran.code == 0
    assert "every block allocated here is freed here" not in ran.out
    carried = figures(ran.out)["Live"]
    assert f"Held (allocated here, not freed here): nothing; {carried} carried in is still live at its end." in ran.out


def test_a_log_that_begins_late_says_why_its_blocks_do_not_add_up(memlens: Any, tmp_path: Path) -> None:
    line = "I0712 10:54:13.00000{}  1120 auto_growth_best_fit_allocator.cc:169] {} {} bytes, ptr = 0x{:x}\n"
    log = tmp_path / "late.log"
    log.write_text(line.format(1, "Free", 4096, 0x900) + line.format(2, "Alloc", 10240, 0x100))
    ran = memlens("analyze", log, columns=120)
    # 10,240 B are held, and the level is 4,096 B lower
    assert figures(ran.out)["Remaining"] == "6.00 KiB"
    assert "Held at the end: 10.00 KiB in 1 block\n" in ran.out
    assert (
        ran.out.count("The level is 6.00 KiB: FREEs that have no ALLOC in the log") == 2
    )  # at the peak and at the end


def test_what_is_held_cannot_be_told_where_lines_have_no_addresses(memlens: Any, tmp_path: Path) -> None:
    formats = tmp_path / "plain.toml"
    formats.write_text(
        '[[format]]\nname = "plain"\nliteral = "mem "\nregex = \'mem (?P<kind>[+-])(?P<size>[0-9]+)\'\nalloc = "+"\nfree = "-"\n'
        'samples = ["mem +1"]\n'
    )
    log = tmp_path / "run.log"
    log.write_text("mem +1000\nmem +500\nmem -1000\nEXIT\nmem -500\n")
    ran = memlens("analyze", log, "--formats", formats, columns=120)
    assert figures(ran.out)["Remaining"] == "0 B"
    assert "Live at the peak: cannot be told" in ran.out
    assert "Held at the end: cannot be told" in ran.out
    # Nor is it in a window that takes nothing: 500 B are carried in, none of them is left.
    ran = memlens("analyze", log, "--formats", formats, "--start", "EXIT", columns=120)
    assert (figures(ran.out)["Peak"], figures(ran.out)["Live"]) == ("500 B", "0 B")
    assert "Live at the peak: cannot be told" in ran.out
    assert "Held (allocated here, not freed here): cannot be told" in ran.out


def test_chunk_lines_alone_say_nothing_of_blocks(memlens: Any, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(
        "I0712 10:54:13.000001  1120 auto_growth_best_fit_allocator.cc:120] Not found and reallocate 1024(0x10), and remaining 0\n"
    )
    ran = memlens("analyze", log, columns=120)
    assert "Held at the end: cannot be told" in ran.out
    assert "free inside" not in ran.out


def test_a_level_that_no_block_accounts_for_is_explained(memlens: Any, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    line = "I0712 10:54:13.000001  1120 auto_growth_best_fit_allocator.cc:169] {} bytes, ptr = 0x10\n"
    log.write_text(line.format("Alloc 1024") + line.format("Free 512") + "LATER\n" + line.format("Free 256"))
    ran = memlens("analyze", log, "--start", "LATER", columns=120)
    assert "Live at the peak: nothing.\n\nThe level is 512 B: FREEs that have no ALLOC in the log" in ran.out


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


# --- open windows ---

STEPS = "".join(f"STEP {step} START\n" + "Alloc 8 bytes, ptr = 0x1\nFree 8 bytes, ptr = 0x1\n" for step in range(3))


def test_the_last_window_of_a_series_is_marked_and_named(memlens: Any, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(STEPS + "Alloc 1024 bytes, ptr = 0x2\n")
    ran = memlens("analyze", log, "--by", r"STEP (\d+) START", columns=80)
    assert re.findall(r"^(\d.*?)  ", ran.out, re.MULTILINE) == ["0–1 ×2", "2 (open)"]  # which do the same
    assert "2 is open: no end anchor closes it" in ran.out
    (analyzed,) = json.loads(memlens("analyze", log, "--by", r"STEP (\d+) START", "--format", "json").out)["logs"]
    assert [window["open_end"] for window in analyzed["windows"]] == [False, False, True]
    assert [window["name"] for window in analyzed["windows"]] == ["0", "1", "2"]  # the mark is no part of the name
    assert len(analyzed["notes"]) == 1
    rows = csv.DictReader(io.StringIO(memlens("analyze", log, "--by", r"STEP (\d+) START", "--format", "csv").out))
    assert [row["open_end"] for row in rows] == ["False", "False", "True"]


def test_windows_that_are_all_closed_or_stand_alone_are_not_marked(memlens: Any, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(STEPS + "DONE\n")
    ended = memlens("analyze", log, "--by", r"STEP (\d+) START", "--end", "DONE", columns=80).out
    alone = memlens("analyze", log, "--start", "STEP 2 START", columns=80).out
    for text in (ended, alone):
        assert not re.search(r"\(open\)|is open", text)
        assert "no end line" not in text
    once = memlens("analyze", log, "--by", "STEP (2) START", columns=80).out
    assert "2 runs to the end of the log: no end anchor closes it." in once
    assert "it is shown, but not judged" not in once.lower()


def test_frees_at_exit_are_no_part_of_a_typical_window(shared: Path) -> None:
    logs = [shared / f"data/traps/{name}.log.gz" for name in ("five", "seven", "five_osexit")]
    comparison = package.compare(logs, by=r"STEP (\d+) START")
    assert [
        window and (window.peak_bytes, window.rise_bytes, window.remaining_bytes) for window in comparison.typical
    ] == [(26 * MIB, 16 * MIB, 0)] * 3
    assert [window.name for run in comparison.runs for window in run.windows if window.open_end] == ["4", "6", "4"]
    for run in comparison.to_dict()["runs"]:
        assert [note for note in run["notes"] if "is open" in note]
    # all but the open windows are alike, to the byte
    assert {row["d_remaining_bytes"] for row in comparison.rows() if not row["open_end"] and row["window"] != "4"} <= {
        0,
        None,
    }


# --- compare ---


def test_the_peak_of_a_whole_snapshot_is_compared_with_what_was_carried_in(memlens: Any, shared: Path) -> None:
    folder = shared / "data/torch/snapshots"
    expected = json.loads((shared / "data/torch/expected.json").read_text())
    names = ("train_19464.pickle", "without_frames.pickle")
    base, head = (expected[name]["0"] for name in names)
    # The rise grows while the peak falls: counted from what was carried in, the second run would look larger.
    assert base["peak_allocated"] - base["start_allocated"] < head["peak_allocated"] - head["start_allocated"]
    assert base["peak_allocated"] > head["peak_allocated"]
    ran = memlens("compare", *(folder / name for name in names), "--format", "json")
    first, second = (run["windows"][0] for run in json.loads(ran.out)["runs"])
    assert (first["peak_bytes"], second["peak_bytes"]) == (base["peak_allocated"], head["peak_allocated"])
    assert (first["live_bytes"], second["live_bytes"]) == (base["end_allocated"], head["end_allocated"])
    assert second["d_peak_bytes"] == head["peak_allocated"] - base["peak_allocated"] < 0
    assert second["d_live_bytes"] == head["end_allocated"] - base["end_allocated"]
    text = memlens("compare", *(folder / name for name in names)).out
    assert "Live (MiB)" in text
    assert "Rise" not in text


def test_a_snapshot_whose_peak_may_lie_before_it_is_named_in_a_comparison(memlens: Any, tmp_path: Path) -> None:
    logs = [write(tmp_path, falling(), f"{name}.pickle") for name in "ab"]
    trace = [entry("segment_alloc", 0, 512), entry("alloc", 0, 7)]
    logs.append(
        write(
            tmp_path, {"segments": [segment(0, 512, [(7, "active_allocated")])], "device_traces": [trace]}, "c.pickle"
        )
    )
    text = " ".join(memlens("compare", *logs, columns=120).out.split())
    assert (
        "In 2 of 3 runs: The peak may lie before the first recorded event: what came before is not in the input."
        in text
    )


def test_of_many_failures_the_first_ones_are_shown_beside_the_peak_and_the_end(memlens: Any, tmp_path: Path) -> None:
    said = "I0712 10:54:13.000001  1120 auto_growth_best_fit_allocator.cc:120] {}\n"
    alloc, free = (said.format(f"{what} 512 bytes, ptr = 0x1000") for what in ("Alloc", "Free"))
    failed = "Out of memory error on GPU 0. Cannot allocate 32.000000GB memory on GPU 0, available memory is only 1.000000GB.\n"
    log = tmp_path / "run.log"
    log.write_text(
        said.format("Not found and reallocate 1024(0x1000), and remaining 0") + (alloc + free + failed * 2) * 9
    )
    ran = memlens("analyze", log, columns=120)
    assert " of 9 failures)" in " ".join(ran.out.partition("\n\n")[0].split())
    everything = memlens("analyze", log, "--full", columns=120).out
    rows = everything[everything.index("All out-of-memory failures\n") :].splitlines()[2:]
    assert [line.split()[:3] for line in rows[:9]] == [[str(4 + 4 * k), "32.00", "GiB"] for k in range(9)]


def test_a_later_window_of_a_snapshot_does_not_hold_what_was_there_before_the_input(
    memlens: Any, tmp_path: Path
) -> None:
    made = falling()
    made["device_traces"][0][2]["user_metadata"] = "late"
    ran = memlens("analyze", write(tmp_path, made), "--start", "START late", columns=120)
    # Three of the seven MiB from before the input are live; the window takes one.
    assert (figures(ran.out)["Rise"], figures(ran.out)["Live"]) == ("1.00 MiB", "4.00 MiB")
    assert "Held (allocated here, not freed here): 1.00 MiB in 1 block\n" in ran.out


def test_segments_asked_for_show_pools_and_the_sizes_of_gaps(memlens: Any, tmp_path: Path) -> None:
    made = segment(MIB, 8192, [(512, "active_allocated")], segment_pool_id=(0, 1))
    other = segment(4 * MIB, 1024, segment_pool_id=(0, 0))
    path = write(tmp_path, {"segments": [made, other], "device_traces": [[]]})
    ran = memlens("analyze", path, "-A", "segments", columns=100)
    assert table(ran.out, "By pool and stream")[0] == [
        "the peak", "private pool (0, 1)", "0", "8.00 KiB", "512 B", "1", "7.50 KiB", "7.50 KiB",
    ]  # fmt: skip
    # [512, 8192) of the one, all of the other.
    assert table(ran.out, "Gaps by size") == [
        ["the peak", "1.00 KiB", "2.00 KiB", "1", "1.00 KiB"],
        ["the peak", "4.00 KiB", "8.00 KiB", "1", "7.50 KiB"],
        ["the end", "1.00 KiB", "2.00 KiB", "1", "1.00 KiB"],
        ["the end", "4.00 KiB", "8.00 KiB", "1", "7.50 KiB"],
    ]
    assert "Gaps by size" not in memlens("analyze", path, columns=100).out
