"""What people see: in a terminal of its own, at several widths, with colours and without, with more than ASCII and without."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from commands import process
from night import some

from memlens.cli import output as terminal
from memlens.cli.output import Show
from memlens.cli.verbs.analyze import ShowAnalysis
from memlens.text import visible, width_of

if sys.platform == "win32":
    pytest.skip("needs POSIX terminals", allow_module_level=True)

import pseudo_terminal
from pseudo_terminal import ANSI

#: Steps of the example that the analysis of a series shows.
STEPS = "STEP (\\d+) START"


@cache
def in_terminal(*arguments: Any, **options: Any) -> str:
    """What is written in a terminal, without a progress bar, which comes where a machine is slow."""
    return pseudo_terminal.in_terminal(*arguments, CI="1", **options)


@pytest.fixture
def log(examples: Path) -> Path:
    return examples / "cnn_5steps.log.gz"


@pytest.fixture
def oom(examples: Path) -> Path:
    return examples / "oom.log.gz"


def picture_of(text: str) -> list[str]:
    """The lines of the picture, without colours."""
    lines = ANSI.sub("", text).splitlines()
    (axis,) = [number for number, line in enumerate(lines) if " 0 B └" in line or " 0 B +" in line]
    caption = max(number for number, line in enumerate(lines[:axis]) if " allocated  " in line and "peak" in line)
    return lines[caption : axis + 2]


@pytest.mark.parametrize(("columns", "arguments"), some([(60, ()), (80, ()), (200, ("--by", STEPS)), (120, ())], 2))
def test_a_terminal_gets_a_picture_as_wide_as_it_is(log: Path, columns: int, arguments: tuple[str, ...]) -> None:
    text = in_terminal("analyze", log, *arguments, columns=columns)
    assert all(width_of(line) <= columns for line in ANSI.sub("", text).splitlines())
    drawn = picture_of(text)
    assert width_of(drawn[-2]) == columns
    assert "█ allocated" in drawn[0]
    assert "▲" in drawn[-2]
    assert drawn[-1].split()[-2] == "line"
    if arguments:
        assert "┴" in drawn[-2]


def test_every_line_ends_its_own_colours_and_nothing_else_acts_on_the_terminal(small_log: Path) -> None:
    text = in_terminal("analyze", small_log, "--by", "STEP (.*) START")
    assert "\x1b[" in text
    for line in text.splitlines():
        codes = ANSI.findall(line)
        assert codes[1::2] == ["\x1b[0m"] * (len(codes) // 2)
        assert len(codes) % 2 == 0
        assert ANSI.sub("", line) == visible(ANSI.sub("", line)).rstrip()


def test_a_failure_is_marked_in_red(oom: Path) -> None:
    text = in_terminal("analyze", oom)
    assert "\x1b[1;31m✗\x1b[0m" in text
    assert "\x1b[31m  ✗ out of memory\x1b[0m" in text


class Stdout:
    """A stdout of some kind."""

    def __init__(self, terminal: bool, encoding: str = "utf-8") -> None:
        self.isatty, self.encoding = lambda: terminal, encoding


@pytest.fixture
def stdout(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Set what stdout is, and nothing but these variables in the environment."""

    def be(out: Stdout, environment: dict[str, str]) -> None:
        monkeypatch.setattr(terminal, "sys", SimpleNamespace(stdout=out))
        monkeypatch.setattr(terminal, "os", SimpleNamespace(environ=environment))

    return be


@pytest.mark.parametrize(
    ("environment", "in_terminal", "in_pipe"),
    [
        ({}, True, False),
        ({"TERM": "dumb"}, False, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, True, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"CLICOLOR_FORCE": "1"}, True, True),
        ({"FORCE_COLOR": "0"}, True, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False, False),
        ({"CLICOLOR": "0"}, False, False),
        ({"CLICOLOR": "0", "CLICOLOR_FORCE": "1"}, True, True),
        ({"TERM": "dumb", "FORCE_COLOR": "3"}, True, True),
    ],
)
def test_the_option_decides_about_colours_and_then_the_environment(
    stdout: Callable[..., None], environment: dict[str, str], in_terminal: bool, in_pipe: bool
) -> None:
    for is_terminal, coloured in ((True, in_terminal), (False, in_pipe)):
        stdout(Stdout(is_terminal), environment)
        assert terminal.screen(Show())["colour"] == coloured
        assert terminal.screen(Show(color="always"))["colour"]
        assert not terminal.screen(Show(color="never"))["colour"]
        assert terminal.screen(Show(color="always", output="report.txt")) == {}


@pytest.mark.parametrize(
    ("environment", "encoding", "unicode"),
    [
        ({"LANG": "de_DE.UTF-8"}, "utf-8", True),
        ({"LANG": "C"}, "utf-8", False),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, "utf-8", False),  # as Python sets it
        ({"LANG": "C", "LC_CTYPE": "de_DE.UTF-8"}, "utf-8", True),
        ({"LANG": "de_DE.UTF-8", "LC_ALL": "POSIX"}, "utf-8", False),
        ({"LC_CTYPE": "C.UTF-8"}, "utf-8", True),  # a container without any locale: its terminal is somewhere else
        ({}, "ascii", False),
        ({"LANG": "de_DE"}, "iso8859-1", False),
    ],
)
def test_a_terminal_whose_locale_is_c_on_purpose_gets_ascii(
    stdout: Callable[..., None], environment: dict[str, str], encoding: str, unicode: bool
) -> None:
    stdout(Stdout(True, encoding), environment)
    assert terminal.screen(Show())["ascii_only"] != unicode
    stdout(Stdout(False, encoding), environment)
    assert terminal.screen(Show())["ascii_only"] == (encoding != "utf-8")


def test_colours_are_there_where_they_are_asked_for_and_not_in_programs_forms(log: Path) -> None:
    clear = {"FORCE_COLOR": "", "CLICOLOR_FORCE": "", "NO_COLOR": "1", "TERM": "dumb"}
    text = process("analyze", log, "--color", "always", env=clear).stdout
    assert "\x1b[" in text
    assert ANSI.sub("", text) == process("analyze", log, env=clear).stdout
    assert "\x1b[" not in process("analyze", log, "--color", "always", "--format", "markdown").stdout


def test_a_picture_is_ascii_where_all_is(oom: Path) -> None:
    text = in_terminal("analyze", oom, LANG="C", NO_COLOR="1")
    assert text.isascii()
    assert "\x1b" not in text
    drawn = picture_of(text)
    assert "X out of memory" in drawn[0]
    assert {"X", "^"} < set(drawn[-2])


@pytest.mark.parametrize(
    ("show", "at_terminal", "in_pipe"),
    [
        (ShowAnalysis(), True, False),
        (ShowAnalysis(plot="always"), True, True),
        (ShowAnalysis(plot="never"), False, False),
        (ShowAnalysis(output="-"), True, False),
        (ShowAnalysis(output="report.txt"), False, False),
        (ShowAnalysis(output="report.txt", plot="always"), True, True),
        (ShowAnalysis(form="markdown"), False, False),
        (ShowAnalysis(form="markdown", plot="always"), True, True),
    ],
)
def test_a_picture_is_for_people_at_a_terminal_and_where_it_is_asked_for(
    stdout: Callable[..., None], show: ShowAnalysis, at_terminal: bool, in_pipe: bool
) -> None:
    for is_terminal, drawn in ((True, at_terminal), (False, in_pipe)):
        stdout(Stdout(is_terminal), {})
        assert terminal.shows_pictures(show, show.plot) == drawn


# --- what is said on stderr ---


def test_quiet_says_nothing_beside_errors(memlens: Any, small_log: Path, tmp_path: Path) -> None:
    target = tmp_path / "part.log"
    assert "part.log" in memlens("slice", small_log, "-o", target).err
    assert memlens("slice", small_log, "-q", "-f", "-o", target).err == ""
    accept = ("gate", small_log, "--baseline", tmp_path / "memory.json", "--accept")
    assert "accepted" in memlens(*accept).err
    assert memlens(*accept, "--quiet").err == ""
    assert "no such file" in memlens("analyze", tmp_path / "no.log", "-q").err


def test_verbose_says_what_was_read_and_how_long_it_took(memlens: Any, small_log: Path) -> None:
    ran = memlens("analyze", small_log, "-v")
    first, last = ran.err.splitlines()
    size = small_log.stat().st_size
    assert first.startswith(f"memlens: {small_log}: a log of Paddle (it holds ")
    assert f", layer auto_growth: {size} bytes, 6 lines, 4 events, read in 0." in first
    assert last.startswith("memlens: ")
    assert "s reading, " in last
    assert memlens("analyze", small_log).err == ""
    assert memlens("analyze", small_log).out == ran.out


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_both_ways_give_the_version(memlens: Any, option: str) -> None:
    assert memlens(option).out.startswith("memlens 0")


WITHOUT_EVENTS = ("08_cpu_nolines_331", "10_v2_dygraph_331")
#: What a screen of an analysis answers beside its verdict: what is live at the peak, or what piles up; and why memory ran out.
ANSWERS = re.compile("^(Live at the peak|Piling up|Out of memory at)", re.MULTILINE)


@pytest.mark.parametrize("rows", [24, 40])
def test_every_log_fits_its_terminal_with_the_answer_whether_there_is_room_for_a_picture_or_not(
    shared: Path, rows: int
) -> None:
    found = sorted(path for path in (shared / "data/paddle").glob("*.log*") if path.stem not in WITHOUT_EVENTS)
    logs = [*some(found, 60), shared / "data/torch/snapshots/train_19464.pickle"]
    for path in logs:
        text = ANSI.sub("", in_terminal("analyze", path, rows=rows))
        lines = text.splitlines()
        assert len(lines) < rows, path.name
        assert max(map(width_of, lines)) <= 80, path.name
        assert ANSWERS.search(text), path.name


def test_a_picture_that_is_asked_for_stays_and_takes_nothing_from_the_lists(examples: Path) -> None:
    for name in some(("leak", "oom", "cnn_5steps"), 3):
        log = examples / f"{name}.log.gz"
        with_picture, without = (in_terminal("analyze", log, "--plot", plot, rows=24) for plot in ("always", "never"))
        assert picture_of(with_picture)
        assert ANSWERS.findall(ANSI.sub("", with_picture)) == ANSWERS.findall(ANSI.sub("", without))


def test_what_is_cut_is_counted_and_what_is_left_out_is_named(examples: Path) -> None:
    """The leak has 14 groups of sizes at its peak, 7 of which pile up."""
    text = ANSI.sub("", in_terminal("analyze", examples / "leak.log.gz", rows=24))
    for title, sizes in (("Live at the peak", 14), ("Piling up", 7)):
        listed = text.partition(title)[2].split("\n\n")[0].splitlines()
        assert listed[-1] == f"… and {sizes - (len(listed) - 3)} more sizes (--full)"
    assert "Not shown here: levels, " in text
    assert " (--full).\n" in text
    whole = ANSI.sub("", in_terminal("analyze", examples / "leak.log.gz", "--full", rows=24))
    assert "(--full)" not in whole
    assert "┤" in whole


def test_a_higher_terminal_shows_more(examples: Path) -> None:
    shown = [in_terminal("analyze", examples / "leak.log.gz", rows=rows).count("\n") for rows in (24, 40, 60)]
    assert shown == sorted(set(shown))


def test_an_error_is_wrapped_at_words(shared: Path) -> None:
    lines = in_terminal("analyze", shared / "data/paddle/08_cpu_nolines_331.log").splitlines()
    assert max(map(width_of, lines)) <= 80
    assert "  Not recognised either: paddle-history, torch-snapshot, kineto, rmm, parquet." in lines


def test_quiet_and_verbose_exclude_each_other(memlens: Any, small_log: Path) -> None:
    ran = memlens("analyze", small_log, "-q", "-v")
    assert (ran.code, ran.out) == (2, "")
    assert "--quiet and --verbose exclude each other" in ran.err


def test_what_no_line_tells_of_is_not_shown_as_0_bytes(memlens: Any, tmp_path: Path) -> None:
    """Two chunks of 1 MiB, and no block."""
    log = tmp_path / "chunks.log"
    log.write_text("".join(f"Not found and reallocate 1048576(0x{k}00000), and remaining 0\n" for k in (1, 2)))
    said = memlens("analyze", log, columns=80).out
    assert "Allocated  not known  no line tells of blocks" in said
    assert "Reserved    2.00 MiB  at most" in said
    assert " 0 B " not in said
