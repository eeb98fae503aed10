"""``memlens diff`` from two logs to a screen, a file or a pipe."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from widths import check_widths

ALLOC = "I0712 10:54:13.000001  1120 auto_growth_best_fit_allocator.cc:169] Alloc {} bytes, ptr = 0x{:x}\n"
FREE = "I0712 10:54:14.000003  1120 auto_growth_best_fit_allocator.cc:220] Free {} bytes, ptr = 0x{:x}\n"
SUBGRAPH = ("--start", "START SOT_CALL_0", "--end", "START SOT_CALL_1")


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Two steps each; in the second one head keeps the 4096 bytes that base frees on line 8."""

    def step(number: int, address: int, *, free: bool) -> str:
        lines = [f"STEP {number} START\n", ALLOC.format(1024, address), ALLOC.format(4096, address + 4096)]
        lines += [FREE.format(1024, address), *([FREE.format(4096, address + 4096)] if free else [])]
        return "".join(lines)

    base, head = tmp_path / "base.log", tmp_path / "head.log"
    base.write_text(step(1, 0x1000, free=False) + step(2, 0x10000, free=True))
    head.write_text(step(1, 0x3000, free=False) + step(2, 0x30000, free=False))
    return base, head


def finding_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if re.match(r"(Missing|Extra|Late|Early) free: ", line)]


# --- case 1 ---


def test_case_1_names_its_missing_free_and_explains_everything(memlens: Any, examples: Path) -> None:
    ran = memlens("diff", examples / "case1_pt.log", examples / "case1_pir.log", *SUBGRAPH, columns=80)
    assert (ran.code, ran.err) == (0, "")
    assert finding_lines(ran.out) == ["Missing free: 3.38 MiB (3538944 B)"]
    assert "All of the 3.38 MiB left behind is a missing Free of 3.38 MiB" in " ".join(ran.out.split())
    # Base frees it on leaving a scope, which is the line above the marked one.
    lines = ran.out.splitlines()
    marked = next(i for i, line in enumerate(lines) if line.startswith("> "))
    assert any("Leave scope" in line for line in lines[marked - 2 : marked])


SCREENS = {
    "subgraph": ("case1_pt.log", "case1_pir.log", *SUBGRAPH),
    "by": ("case1_pt.log", "case1_pir.log", "--by", r"START (SOT_CALL_\d+)"),
    "found": ("case1_pt.log", "case1_pir.log"),
    "whole": ("case1_pt.log", "case1_pir.log", "--whole"),
    "equal": ("case1_pt.log", "case1_pt.log", "--whole"),
    "steps": ("cnn_5steps.log.gz", "cnn_5steps.log.gz", "--start-regex", r"STEP \d+ START", "--end-regex",
              r"STEP \d+ START", "--base-nth", "1", "--head-nth", "3"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(SCREENS))
def test_an_example_looks_as_approved_and_says_the_same_at_every_width(
    memlens: Any, examples: Path, golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(examples)
    monkeypatch.setenv("NO_COLOR", "1")

    def show(columns: int | None) -> str:
        ran = memlens("diff", *SCREENS[name], columns=columns)
        assert (ran.code, ran.err) == (0, "")
        return str(ran.out)

    golden(f"cli_diff_{name}_80.txt", show(80))
    check_widths(show)


def test_an_example_as_markdown_looks_as_approved(
    memlens: Any, examples: Path, golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(examples)
    golden("cli_diff_subgraph.md", memlens("diff", *SCREENS["subgraph"], "--format", "markdown").out)


# --- what is compared ---


def test_one_window_of_each_run_is_compared(memlens: Any, pair: tuple[Path, Path]) -> None:
    (window,) = json.loads(memlens("diff", *pair, "--start", "STEP 2 START", "--format", "json").out)["windows"]
    assert (window["d_remaining_bytes"], window["missing_free_bytes"], window["unexplained_bytes"]) == (4096, 4096, 0)
    (finding,) = window["findings"]
    assert (finding["kind"], finding["base"]["free_line"], finding["head"]["freed"]) == ("missing_free", 9, "never")


def test_a_series_pairs_windows_by_name(memlens: Any, pair: tuple[Path, Path]) -> None:
    values = json.loads(memlens("diff", *pair, "--by", r"STEP (\d+) START", "--open", "--format", "json").out)
    assert (values["by"], values["found_by"], values["parting"]) == (r"STEP (\d+) START", False, "2")
    assert [window["d_remaining_bytes"] for window in values["windows"]] == [0, 4096]


def test_an_open_window_is_shown_and_not_judged(memlens: Any, pair: tuple[Path, Path]) -> None:
    values = json.loads(memlens("diff", *pair, "--by", r"STEP (\d+) START", "--format", "json").out)
    assert (values["parting"], values["repeated"]) == (None, [])
    assert [(w["judged"], w["base"]["open_end"], w["head"]["open_end"]) for w in values["windows"]] == [
        (True, False, False),
        (False, True, True),
    ]
    assert [window["d_remaining_bytes"] for window in values["windows"]] == [0, 4096]
    shown = memlens("diff", *pair, "--by", r"STEP (\d+) START", "--full", columns=80).out
    assert "The same work: the one pair of windows is alike in all that they allocate and free" in " ".join(
        shown.split()
    )
    assert "Window 2 is open and not judged: Δremaining +4.00 KiB" in " ".join(shown.split())
    assert "Open     2 in base and head: Δremaining +4.00 KiB, Δrise 0 B; not judged" in shown
    assert "--open judges it" in shown


def test_the_anchors_of_the_two_runs_may_differ(memlens: Any, pair: tuple[Path, Path]) -> None:
    base, head = pair
    head.write_text(head.read_text().replace("STEP 2 START", "Step two"))
    ran = memlens("diff", base, head, "--base-start", "STEP 2 START", "--head-start-regex", "Step t.o", columns=80)
    assert ran.code == 0
    assert finding_lines(ran.out) == ["Missing free: 4.00 KiB (4096 B)"]


def test_two_windows_of_one_log_are_compared(memlens: Any, pair: tuple[Path, Path]) -> None:
    base, _ = pair
    anchors = ("--start-regex", "STEP . START", "--end-regex", "STEP . START", "--base-nth", "2", "--head-nth", "1")
    (window,) = json.loads(memlens("diff", base, base, *anchors, "--format", "json").out)["windows"]
    assert (window["d_remaining_bytes"], window["missing_free_bytes"]) == (4096, 4096)


def test_a_log_and_itself_do_not_differ(memlens: Any, pair: tuple[Path, Path]) -> None:
    base, _ = pair
    ran = memlens("diff", base, base, columns=80)
    assert ran.code == 0
    assert "No difference: " in ran.out


def test_stdin_may_be_one_of_the_two(process: Callable[..., Any], pair: tuple[Path, Path]) -> None:
    base, head = pair
    with head.open() as log:
        ran = process("diff", base, "-", "--whole", "--format", "json", stdin=log)
    values = json.loads(ran.stdout)
    assert values["head"]["path"] == "<stdin>"
    assert values["windows"][0]["d_remaining_bytes"] == 4096


def test_the_lines_around_are_as_many_as_asked_for(memlens: Any, pair: tuple[Path, Path]) -> None:
    for context, shown in ((0, 1), (1, 3), (2, 4)):  # base's FREE stands on the last line
        ran = memlens("diff", *pair, "--start", "STEP 1 START", "--context", context, columns=80)
        assert ran.code == 0
        ran = memlens("diff", *pair, "--start", "STEP 2 START", "--context", context, "--format", "json")
        (window,) = json.loads(ran.out)["windows"]
        assert len(window["findings"][0]["context"]) == min(shown, context + 1)


def test_small_findings_stay_in_figures_and_leave_the_lists(memlens: Any, pair: tuple[Path, Path]) -> None:
    ran = memlens("diff", *pair, "--start", "STEP 2 START", "--min-size", "8KiB", "--full", columns=80)
    assert finding_lines(ran.out) == []
    assert "… and 1 more finding" in ran.out
    assert "Explained  100.00% of Δremaining, by 1 finding" in ran.out


def test_owners_are_named_as_asked(memlens: Any, pair: tuple[Path, Path]) -> None:
    for log in pair:
        log.write_text(re.sub(r"^(.*Alloc 4096)", r"LAYER [conv] forward\n\1", log.read_text(), flags=re.MULTILINE))
    ran = memlens("diff", *pair, "--start", "STEP 2 START", "--owner", r"LAYER (\S+) forward", columns=80)
    assert (ran.code, ran.err) == (0, "")
    assert re.search(r"^Owner +\[conv\]$", ran.out, re.MULTILINE)


# --- outputs ---


def test_csv_has_a_row_a_pair_of_windows(memlens: Any, pair: tuple[Path, Path]) -> None:
    ran = memlens("diff", *pair, "--by", r"STEP (\d+) START", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    assert [(row["name"], row["d_remaining_bytes"]) for row in rows] == [("1", "0"), ("2", "4096")]


def test_markdown_goes_to_a_file(memlens: Any, pair: tuple[Path, Path], tmp_path: Path) -> None:
    target = tmp_path / "out.md"
    ran = memlens("diff", *pair, "--start", "STEP 2 START", "--format", "markdown", "-o", target)
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert "### Missing free: 4.00 KiB (4096 B)" in target.read_text()
    ran = memlens("diff", *pair, "-o", target)
    assert ran.code == 1
    assert "exists" in ran.err


@pytest.mark.parametrize("side", [0, 1])
def test_a_log_is_not_written_over_by_its_own_report(memlens: Any, pair: tuple[Path, Path], side: int) -> None:
    before = pair[side].read_bytes()
    ran = memlens("diff", *pair, "-f", "-o", pair[side])
    assert ran.code == 2
    assert "an input of this command" in ran.err
    assert pair[side].read_bytes() == before


def test_hostile_log_text_stays_text(memlens: Any, small_log: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.log"
    other.write_bytes(small_log.read_bytes().replace(b"Free 1024 bytes, ptr = 0x100\n", b"nothing\n"))
    for form in ("table", "markdown", "csv"):
        ran = memlens("diff", small_log, other, "--whole", "--format", form, columns=80)
        assert ran.code == 0
        assert "\x1b" not in ran.out


def test_comparing_into_a_pipe_needs_neither_pandas_nor_rich(
    process: Callable[..., Any], pair: tuple[Path, Path]
) -> None:
    logs = [str(log) for log in pair]
    code = (
        f"import sys; from memlens.cli import main; main(['diff', *{logs!r}]); "
        "heavy = {'pandas', 'rich'} & set(sys.modules); sys.exit(f'heavy: {heavy}' if heavy else 0)"
    )
    ran = process("-c", code, python="")
    assert ran.returncode == 0, ran.stderr


# --- errors ---


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--whole", "--start", "STEP"], "--whole and anchors exclude each other"),
        (["--whole", "--head-nth", "2"], "--whole and anchors exclude each other"),
        (["--by", "STEP", "--start", "STEP"], "--by and --start exclude each other"),
        (["--by", "STEP", "--base-start", "STEP"], "--by and --base-start exclude each other"),
        (["--base-start", "a", "--base-start-regex", "a"], "--base-start and --base-start-regex exclude each other"),
        (["--by", "STEP", "--head-nth", "2"], "--by and --head-nth exclude each other"),
        (["--base-nth", "2"], "--base-nth needs --start or --base-start"),
        (["--by", "(STEP"], "memlens: error:"),
        (["--context", "-1"], "--context"),
        (["--min-size", "big"], "is not a size"),
        (["--format", "xml"], "xml"),
        (["--base-nth", "0"], "--base-nth"),
    ],
)
def test_arguments_that_make_no_sense_are_wrong_usage(
    memlens: Any, pair: tuple[Path, Path], options: list[str], message: str
) -> None:
    ran = memlens("diff", *pair, *options)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


@pytest.mark.parametrize("logs", [[], ["a.log"], ["a.log", "b.log", "c.log"], ["-", "-"]])
def test_two_logs_are_compared_and_no_other_number(memlens: Any, logs: list[str]) -> None:
    ran = memlens("diff", *logs)
    assert (ran.code, ran.out) == (2, "")


@pytest.mark.parametrize("missing", [0, 1])
def test_a_log_that_is_not_there_is_named(memlens: Any, pair: tuple[Path, Path], missing: int, tmp_path: Path) -> None:
    logs = list(pair)
    logs[missing] = tmp_path / "gone.log"
    ran = memlens("diff", *logs, "-o", tmp_path / "out.txt")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("memlens: error:")
    assert "gone.log" in ran.err
    assert not (tmp_path / "out.txt").exists()


def test_an_anchor_that_one_log_has_not_is_an_error_in_words(memlens: Any, pair: tuple[Path, Path]) -> None:
    base, head = pair
    head.write_text(head.read_text().replace("STEP 2 START", ""))
    ran = memlens("diff", base, head, "--start", "STEP 2 START")
    assert (ran.code, ran.out) == (1, "")
    assert "head.log" in ran.err
    assert "STEP 2 START" in ran.err


def test_an_empty_log_is_an_error_in_words(memlens: Any, pair: tuple[Path, Path], tmp_path: Path) -> None:
    empty = tmp_path / "empty.log"
    empty.write_text("")
    ran = memlens("diff", pair[0], empty)
    assert (ran.code, ran.out) == (1, "")
    assert "empty.log" in ran.err


def test_strict_refuses_a_log_that_is_cut_short(memlens: Any, pair: tuple[Path, Path], tmp_path: Path) -> None:
    whole = gzip.compress("".join(ALLOC.format(512, 512 * place) for place in range(1, 20_000)).encode())
    cut = tmp_path / "cut.log.gz"
    cut.write_bytes(whole[: len(whole) * 2 // 3])
    ran = memlens("diff", pair[0], cut, "--whole")
    assert ran.code == 0
    assert "In doubt (head: cut short" in " ".join(ran.out.split())
    ran = memlens("diff", pair[0], cut, "--whole", "--strict")
    assert (ran.code, ran.out) == (1, "")
