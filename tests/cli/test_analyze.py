"""``memlens analyze`` from a log to a screen, a file or a pipe."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from widths import check_widths

from memlens.analyzers import registry

ALLOC = "I0712 10:54:13.000001  1120 auto_growth_best_fit_allocator.cc:169] Alloc {} bytes, ptr = 0x{:x}\n"


def lines_of(text: str) -> dict[str, str]:
    """Lines by their first word; continued lines are left out."""
    return {line.split()[0]: line for line in text.splitlines() if line and not line.startswith(" ")}


# --- case 1 ---


@pytest.mark.parametrize(
    ("log", "remaining", "freed"),
    [("case1_pir.log", "6.75 MiB", "3.38 MiB  1 free,"), ("case1_pt.log", "3.38 MiB", "6.75 MiB  2 frees,")],
)
def test_the_small_subgraph_of_case_1_prints_its_published_figures(
    memlens: Any, examples: Path, log: str, remaining: str, freed: str
) -> None:
    ran = memlens("analyze", examples / log, "--start", "START SOT_CALL_0", "--end", "START SOT_CALL_1", columns=80)
    assert ran.code == 0
    lines = lines_of(ran.out)
    assert remaining in lines["Remaining"]
    assert "10.12 MiB" in lines["Rise"]
    assert "10.12 MiB  3 allocs" in lines["Allocated"]
    assert freed in lines["Freed"]


def test_the_small_subgraph_of_case_1_has_a_row_in_the_table(memlens: Any, examples: Path) -> None:
    ran = memlens("analyze", examples / "case1_pir.log", "--by", r"START (SOT_CALL_\d+)", columns=80)
    row = next(line for line in ran.out.splitlines() if line.startswith("SOT_CALL_0 "))
    assert re.split(r"  +", row)[1:4] == ["32.91 MiB", "10.12 MiB", "6.75 MiB"]


# --- screens, as approved ---

SCREENS = {
    "case1_whole": ("case1_pir.log",),
    "case1_subgraph": ("case1_pir.log", "--start", "START SOT_CALL_0", "--end", "START SOT_CALL_1"),
    "case1_by": ("case1_pir.log", "--by", r"START (\S+)", "--sort", "remaining"),
    "case1_everything": (
        "case1_pir.log",
        "-A",
        "remaining",
        "-A",
        "peak",
        "-A",
        "stats",
        "-A",
        "unmatched",
        "-A",
        "lifetimes",
    ),
    "case1_both": ("case1_pt.log", "case1_pir.log"),
    "cnn_whole": ("cnn_5steps.log.gz",),
    "cnn_by_step": ("cnn_5steps.log.gz", "--by", r"STEP (\d+) START"),
    "oom_whole": ("oom.log.gz",),
    "several_processes": ("torn_4procs.log.gz",),
}


@pytest.mark.parametrize("name", list(SCREENS))
def test_an_example_looks_as_approved_and_says_the_same_at_every_width(
    memlens: Any, examples: Path, golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(examples)
    monkeypatch.setenv("NO_COLOR", "1")

    def show(columns: int | None) -> str:
        ran = memlens("analyze", *SCREENS[name], columns=columns)
        assert (ran.code, ran.err) == (0, "")
        return str(ran.out)

    golden(f"cli_{name}_80.txt", show(80))
    check_widths(show)


@pytest.mark.parametrize("name", ["case1_whole", "case1_subgraph", "cnn_whole"])
def test_a_clean_log_is_one_screen(memlens: Any, examples: Path, name: str) -> None:
    log, *options = SCREENS[name]
    assert len(memlens("analyze", examples / log, *options, columns=80).out.splitlines()) <= 40


def test_hostile_log_text_stays_text(memlens: Any, small_log: Path) -> None:
    ran = memlens("analyze", small_log, "--by", "STEP (.+) START", columns=80)
    assert ran.code == 0
    assert "\x1b" not in ran.out
    assert re.search(r"^\[red\]1\[/\] ", ran.out, re.MULTILINE)
    assert re.search(r"^=2 ", ran.out, re.MULTILINE)


# --- machine output ---


def test_json_is_exact(memlens: Any, small_log: Path) -> None:
    ran = memlens("analyze", small_log, "--format", "json")
    values = json.loads(ran.out)
    (window,) = values["logs"][0]["windows"]
    assert window["remaining"] == {"remaining_bytes": 2560, "carried_in_bytes": 0, "live_bytes": 2560}
    assert (window["peak"]["peak_bytes"], window["peak"]["event"], window["peak"]["line"]) == (3072, 1, 3)
    assert window["peak"]["live"] == [
        {"size_bytes": size, "count": 1, "total_bytes": size, "owner": None} for size in (2048, 1024)
    ]
    stats = window["stats"]
    assert (stats["alloc_bytes"], stats["allocs"], stats["free_bytes"], stats["frees"]) == (3584, 3, 1024, 1)
    assert stats["duration_us"] == 1_000_003
    assert (window["unmatched"]["held_allocs"], window["unmatched"]["held_bytes"]) == (2, 2560)
    assert set(window) >= {"remaining", "peak", "stats", "unmatched", "lifetimes"}
    assert values["logs"][0]["growth"] is None


def test_json_of_a_series_has_every_window_and_its_growth(memlens: Any, small_log: Path) -> None:
    values = json.loads(memlens("analyze", small_log, "--by", "STEP (.+) START", "--format", "json", "--top", "0").out)
    windows = values["logs"][0]["windows"]
    assert [window["remaining"]["remaining_bytes"] for window in windows] == [1024, 1024, 512]
    assert [window["remaining"]["carried_in_bytes"] for window in windows] == [0, 1024, 2048]
    assert values["logs"][0]["growth"]["windows"] == 3


def test_csv_has_a_row_a_window_whatever_top_says(memlens: Any, small_log: Path) -> None:
    ran = memlens(
        "analyze", small_log, "--by", "STEP (.+) START", "--format", "csv", "--top", "1", "--sort", "remaining"
    )
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    assert [(row["start_line"], row["remaining_bytes"]) for row in rows] == [("1", "1024"), ("2", "1024"), ("5", "512")]
    assert rows[2]["name"] == "'=2"


def test_markdown_is_a_table(memlens: Any, small_log: Path) -> None:
    ran = memlens("analyze", small_log, "--by", "STEP (.+) START", "--format", "markdown")
    assert "| `=2 (open)` | **2.50 KiB** | 512 B | **512 B** |" in ran.out


# --- lists, sorting ---


def test_top_and_min_size_shorten_lists(memlens: Any, small_log: Path) -> None:
    ran = memlens("analyze", small_log, "--top", "1", columns=80)
    assert ran.out.count("… and 1 more size") == 2
    ran = memlens("analyze", small_log, "--min-size", "2k", "--format", "json")
    (window,) = json.loads(ran.out)["logs"][0]["windows"]
    assert [group["size_bytes"] for group in window["unmatched"]["held"]] == [2048]
    assert window["unmatched"]["held_bytes"] == 2560


def test_an_analyzer_that_was_asked_for_shows_all_it_says(memlens: Any, small_log: Path) -> None:
    ran = memlens("analyze", small_log, "-A", "stats", columns=80)
    assert "Sizes" in ran.out
    assert "Peak" not in ran.out
    ran = memlens("analyze", small_log, "-A", "remaining", "--format", "json")
    (window,) = json.loads(ran.out)["logs"][0]["windows"]
    assert "remaining" in window
    assert "peak" not in window


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sort", "peak"], "--sort needs a table"),
        (["--by", "STEP", "--sort", "size"], "there is no column 'size' to sort by"),
        (["--by", "STEP", "-A", "remaining", "--sort", "peak"], "Ask for its analyzer with -A peak"),
        (["-A", "pike"], "no analyzer of a window is called 'pike'"),
        (["--whole", "-A", "growth"], "growth needs a series"),
        (["--min-size", "big"], "is not a size"),
        (["--by", "STEP", "--start", "STEP"], "exclude each other"),
        (["--by", "(STEP"], "memlens: error:"),
        (["--format", "xml"], "xml"),
        (["-"], "_"),
    ],
)
def test_arguments_that_make_no_sense_are_wrong_usage(
    memlens: Any, small_log: Path, arguments: list[str], message: str
) -> None:
    ran = memlens("analyze", small_log, *(["-", "-"] if arguments == ["-"] else arguments))
    assert (ran.code, ran.out) == (2, "")
    assert arguments == ["-"] or message in ran.err


# --- outputs ---


def test_a_result_goes_to_a_file_and_stdout_stays_empty(memlens: Any, small_log: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    ran = memlens("analyze", small_log, "--format", "json", "-o", target)
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert json.loads(target.read_text())["schema"] == "memlens.analyze/2"


def test_a_file_is_written_over_only_when_asked(memlens: Any, small_log: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    target.write_text("mine")
    ran = memlens("analyze", small_log, "-o", target)
    assert ran.code == 1
    assert "exists" in ran.err
    assert "-f" in ran.err
    assert target.read_text() == "mine"
    assert memlens("analyze", small_log, "-o", target, "-f").code == 0
    assert "Peak" in target.read_text()


def test_a_log_is_not_written_over_by_its_own_report(memlens: Any, small_log: Path) -> None:
    before = small_log.read_bytes()
    ran = memlens("analyze", small_log, "-f", "-o", small_log)
    assert ran.code == 2
    assert "an input of this command" in ran.err
    assert small_log.read_bytes() == before


def test_a_failed_analysis_writes_no_file(memlens: Any, small_log: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    assert memlens("analyze", small_log, "--start", "no such line", "-o", target).code == 1
    assert not target.exists()


# --- inputs ---


def test_stdin_gives_the_same_result_as_the_file(process: Callable[..., Any], small_log: Path) -> None:
    from_file = json.loads(process("analyze", small_log, "--by", "STEP", "--format", "json").stdout)
    with small_log.open() as log:
        from_stdin = json.loads(process("analyze", "-", "--by", "STEP", "--format", "json", stdin=log).stdout)
    assert from_stdin["logs"][0]["windows"] == from_file["logs"][0]["windows"]
    assert from_stdin["logs"][0]["path"] == "<stdin>"


def test_several_logs_are_a_row_each(memlens: Any, small_log: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.log"
    other.write_text(ALLOC.format(1 << 20, 4096))
    ran = memlens("analyze", small_log, other, "--sort", "peak", columns=80)
    assert ran.code == 0
    rows = [line.split()[:3] for line in ran.out.partition("\nLog ")[2].splitlines()[1:3]]
    assert rows == [["other.log", "1.00", "MiB"], ["small.log", "3.00", "KiB"]]


def test_one_unreadable_log_does_not_lose_the_others(memlens: Any, small_log: Path, tmp_path: Path) -> None:
    missing = tmp_path / "missing.log"
    ran = memlens("analyze", missing, small_log, columns=80)
    assert ran.code == 1
    assert "small.log" in ran.out
    assert "not analyzed" in ran.out
    assert ran.err.startswith("memlens: error:")
    assert "missing.log" in ran.err
    ran = memlens("analyze", missing, small_log, "--format", "json")
    values = json.loads(ran.out)
    assert ran.code == 1
    assert [log["path"] for log in values["logs"]] == [str(small_log)]
    assert [failure["path"] for failure in values["failures"]] == [str(missing)]


def test_all_logs_unreadable_is_an_error_for_each(memlens: Any, tmp_path: Path) -> None:
    ran = memlens("analyze", tmp_path / "a.log", tmp_path / "b.log", columns=80)
    assert ran.code == 1
    assert ran.err.count("memlens: error:") == 2


def test_a_log_without_the_anchor_is_an_error_in_words(memlens: Any, small_log: Path) -> None:
    ran = memlens("analyze", small_log, "--start", "START SOT_CALL_9")
    assert (ran.code, ran.out) == (1, "")
    assert "START SOT_CALL_9" in ran.err
    assert "Traceback" not in ran.err


def test_an_end_that_never_comes_is_said(memlens: Any, small_log: Path) -> None:
    ran = memlens("analyze", small_log, "--start-regex", "STEP .* START", "--end", "nowhere", columns=120)
    assert "runs to the end of the log: no end anchor closes it" in ran.out


def test_strict_refuses_a_log_that_is_cut_short(memlens: Any, tmp_path: Path) -> None:
    whole = gzip.compress("".join(ALLOC.format(512, 512 * place) for place in range(1, 20_000)).encode())
    log = tmp_path / "cut.log.gz"
    log.write_bytes(whole[: len(whole) * 2 // 3])
    ran = memlens("analyze", log)
    assert ran.code == 0
    assert "doubtful" in ran.out
    ran = memlens("analyze", log, "--strict")
    assert (ran.code, ran.out) == (1, "")


# --- terminals ---


class Terminal(io.TextIOWrapper):
    """A stdout or stderr that says that it is a terminal."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.bytes = io.BytesIO()
        super().__init__(self.bytes, encoding, newline="\n", write_through=True)

    def isatty(self) -> bool:
        return True

    @property
    def text(self) -> str:
        return self.bytes.getvalue().decode(self.encoding)


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"NO_COLOR": ""}, True)],
)
def test_colour_is_for_terminals_that_want_it(
    memlens: Any, small_log: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], coloured: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    assert memlens("analyze", small_log, columns=80).code == 0
    assert ("\x1b[" in terminal.text) == coloured
    assert "Peak" in terminal.text


def test_a_terminal_that_knows_ascii_only_gets_ascii_only(
    memlens: Any, small_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal("ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("NO_COLOR", "1")
    assert memlens("analyze", small_log, "--top", "1", columns=80).code == 0
    assert "... and 1 more size" in terminal.text


# --- owners ---


def owned_log(tmp_path: Path) -> Path:
    """Two blocks of equal size, allocated by two operators, and lines of the program's own in front of them."""
    header = "I0712 10:54:13.000001  1120 dygraph_functions.cc:1775] "
    path = tmp_path / "run.log"
    path.write_text(
        f"{header}Running AD API: conv2d\nLAYER encoder forward\n{ALLOC.format(1024, 0x100)}"
        f"{header}Running AD API: relu\nLAYER <b>=decoder forward\n{ALLOC.format(1024, 0x200)}"
    )
    return path


def test_blocks_are_listed_by_size_and_owner_where_the_log_names_owners(memlens: Any, tmp_path: Path) -> None:
    ran = memlens("analyze", owned_log(tmp_path), columns=80)
    assert re.search(r"^ *Size +Count +Total +Share +Owner$", ran.out, re.MULTILINE)
    assert re.search(r"^1\.00 KiB +1 +1\.00 KiB +50% +conv2d$", ran.out, re.MULTILINE)
    assert re.search(r"^1\.00 KiB +1 +1\.00 KiB +50% +6 +relu$", ran.out, re.MULTILINE)


def test_a_log_that_names_no_owner_has_no_column_of_them(memlens: Any, small_log: Path) -> None:
    assert "Owner" not in memlens("analyze", small_log, columns=80).out


def test_a_line_of_ones_own_can_name_the_owner(memlens: Any, tmp_path: Path) -> None:
    log = owned_log(tmp_path)
    ran = memlens("analyze", log, "--owner", r"LAYER (\S+) forward", "--format", "json")
    (window,) = json.loads(ran.out)["logs"][0]["windows"]
    assert [(row["owner"], row["first_line"]) for row in window["unmatched"]["held"]] == [
        ("encoder", 3),
        ("<b>=decoder", 6),
    ]
    both = memlens("analyze", log, "--owner", "LAYER enc", "--owner", r"LAYER (.)b", "--format", "json")
    (window,) = json.loads(both.out)["logs"][0]["windows"]
    assert [row["owner"] for row in window["peak"]["live"]] == ["LAYER enc", "<"]


def test_an_owner_that_is_no_regular_expression_is_wrong_usage(memlens: Any, tmp_path: Path) -> None:
    ran = memlens("analyze", owned_log(tmp_path), "--owner", "LAYER (")
    assert ran.code == 2
    assert "is not a regular expression" in ran.err


def test_the_python_twin_takes_owners_as_the_command_line_does(tmp_path: Path) -> None:
    import memlens

    log = owned_log(tmp_path)
    analysis = memlens.analyze(log, owners=[r"LAYER (\w+) forward"])
    assert [group.owner for group in analysis.logs[0].windows[0].results["peak"].live] == ["encoder", "relu"]
    one = memlens.analyze(log, owners="LAYER encoder")
    assert one.logs[0].windows[0].results["peak"].live[0].owner == "LAYER encoder"


def _trace_of_two_gpus(path: Path) -> Path:
    """Device 0 holds 512 bytes; device 1 holds 1,024 bytes and then cannot give 2 GiB."""
    events: list[dict[str, Any]] = [
        {"name": "[memory]", "ts": 1.0, "args": {"Device Id": 0, "Addr": 16, "Bytes": 512, "Total Allocated": 512}},
        {"name": "[memory]", "ts": 2.0, "args": {"Device Id": 1, "Addr": 32, "Bytes": 1024, "Total Allocated": 1024}},
        {"name": "[OutOfMemory]", "ts": 3.0, "args": {"Device Id": 1, "Bytes": 2 << 30, "Total Allocated": 1024}},
    ]
    for event in events:
        event.update(ph="i", pid=1, tid=1)
        event["args"]["Device Type"] = 1
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


@pytest.mark.parametrize("columns", [None, 80])
def test_which_of_several_devices_ran_out_of_memory_is_said_first(
    memlens: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int | None
) -> None:
    monkeypatch.chdir(_trace_of_two_gpus(tmp_path / "t.json").parent)
    ran = memlens("analyze", "t.json", columns=columns)
    assert ran.code == 0
    first = " ".join(ran.out.partition("\n\n")[0].split())
    assert first.startswith("Device 1: Ran out of memory at entry 2: 2.00 GiB were asked for, and 1.00 KiB were")


def test_a_log_that_ran_out_of_memory_is_named_above_a_table_of_logs(
    memlens: Any, small_log: Path, tmp_path: Path
) -> None:
    failed = tmp_path / "failed.log"
    failed.write_bytes(
        small_log.read_bytes() + b"Out of memory error on GPU 0. Cannot allocate 2.000000GB memory on GPU 0\n"
    )
    for arguments in ([small_log, failed], [small_log, failed, "--by", "STEP (.*) START"]):
        ran = memlens("analyze", *arguments)
        assert ran.code == 0
        assert ran.out.startswith("failed.log ran out of memory")
        assert "2.00 GiB were asked for" in ran.out.splitlines()[0]
    assert "out of memory" not in memlens("analyze", small_log, small_log).out


def test_help_names_every_analyzer_there_is(memlens: Any) -> None:
    text = " ".join(memlens("analyze", "--help").out.split())
    listed = text[text.index("Built in:") : text.index("installed packages")]
    names = [*(one.name for one in registry.BUILT_IN), registry.OF_SERIES]
    assert [name for name in names if not re.search(rf"\b{name}\b", listed)] == []


# --- folders ---


def test_a_folder_stands_for_its_logs_and_what_is_none_is_named(memlens: Any, small_log: Path) -> None:
    folder = small_log.parent / "runs \x1b[31m"
    folder.mkdir()
    for name in ("worker.10", "worker.9"):
        (folder / name).write_bytes(small_log.read_bytes())
    (folder / "notes\x1b.txt").write_text("nothing\n")
    ran = memlens("analyze", folder)
    assert ran.code == 0
    assert "\x1b" not in ran.out + ran.err
    assert ran.out.index("worker.9") < ran.out.index("worker.10")
    assert ran.err.endswith(": 1 file is no log by the first 64 KiB and left out: notes\\x1b.txt\n")
    assert memlens("analyze", folder, "-q").err == ""
    assert memlens("compare", folder).err == ran.err
    assert memlens("analyze", folder, "--sort", "peak").code == 0
    target = folder / "worker.9"
    assert "is" in memlens("analyze", folder, "-f", "-o", target).err
    assert target.read_bytes() == small_log.read_bytes()


def test_a_verb_for_one_log_says_which_to_name_of_a_folder(memlens: Any, small_log: Path) -> None:
    for arguments in (("gate", small_log.parent, "--budget", "peak=1GiB"), ("diff", small_log.parent, small_log)):
        ran = memlens(*arguments)
        assert (ran.code, ran.out) == (1, "")
        assert f"Name one log in it, like {small_log}." in ran.err
