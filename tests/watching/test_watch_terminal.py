"""``memlens watch`` in a terminal of its own, beside a program that writes: what it shows, how it ends, and what it leaves behind."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

if os.name != "posix":
    pytest.skip("needs pseudo terminals", allow_module_level=True)

from commands import process
from live_screen import LiveTerminal, Screen
from texts import read_packed

import memlens
from memlens.cli import main
from memlens.text import width_of

STEPS = r"STEP (\d+) START"
#: Writes a log in so many pieces, with a pause after each.
_WRITER = """
import sys, time
text = open(sys.argv[1], "rb").read()
count, pause = int(sys.argv[3]), float(sys.argv[4])
with open(sys.argv[2], "ab") as out:
    for k in range(count):
        out.write(text[len(text) * k // count : len(text) * (k + 1) // count])
        out.flush()
        time.sleep(pause)
"""


@pytest.fixture
def leak(shared: Path, tmp_path: Path) -> Path:
    """A run that leaks 512 bytes a step over 30 steps; its peak is 4482816 bytes by Paddle's own count."""
    path = tmp_path / "whole.log"
    path.write_bytes(read_packed(shared / "data" / "paddle" / "05_leak_activations_331.log.gz"))
    return path


@contextmanager
def written(source: Path, target: Path, pieces: int = 40, pause: float = 0.05) -> Iterator[subprocess.Popen[bytes]]:
    """A second process that writes a log while the block runs."""
    with subprocess.Popen([sys.executable, "-c", _WRITER, source, target, str(pieces), str(pause)]) as writer:
        try:
            yield writer
        finally:
            writer.kill()


def restored(screen: Screen) -> bool:
    """Whether the screen is as a shell expects it."""
    return not screen.alternate and not screen.hidden and screen.wraps


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (80, 10)])
def test_a_growing_log_is_shown_and_ctrl_c_ends_it_with_the_verdict(
    columns: int, rows: int, leak: Path, tmp_path: Path
) -> None:
    with (
        LiveTerminal(
            "watch", "run.log", "--by", STEPS, "--every", "0.1", columns=columns, rows=rows, folder=tmp_path
        ) as terminal,
        written(leak, tmp_path / "run.log"),
    ):
        screen = terminal.until(lambda screen: "4.27 MiB" in screen.text and "now, peak" in screen.text)
        assert screen.hidden
        assert screen.alternate
        assert screen.lines[0].startswith("run.log  ")
        terminal.shows("13,134 lines read, 6,517 events. Ctrl-C ends.")
        assert "0 B now, peak 4.28 MiB at line 12,802" in screen.text
        assert "29 (open)" in screen.text
        assert screen.scrolled == 0
        assert all(width_of(line) <= columns for line in screen.lines)
        terminal.type(b"\x03")
        assert terminal.end() == 0
        assert restored(screen)
        # What it leaves behind is the verdict of the analysis, above the levels and the windows, and fits the terminal.
        left = " ".join(screen.text.split())
        assert screen.scrolled <= 1
        assert memlens.analyze(tmp_path / "run.log", by=STEPS).verdict in left
        assert ("29 (open)" in left) == (rows > 10)
        assert "Traceback" not in left


def test_notes_at_the_end_do_not_push_the_verdict_off_the_screen(leak: Path, tmp_path: Path) -> None:
    names = [f"workerlog.{k}" for k in range(6)]
    for name in names:  # too little to have steps: of each it is said that growth is not judged
        (tmp_path / name).write_bytes(b"".join(leak.read_bytes().splitlines(keepends=True)[:100]))
    with LiveTerminal("watch", *names, "--budget", "growth=1GiB", "--idle", "0", rows=20, folder=tmp_path) as terminal:
        assert terminal.end() == 0
        screen = terminal.shows("growth is not judged")
        assert screen.text.count("growth is not judged") == 6
        assert screen.scrolled <= 1
        assert "All of 6 logs have the same peak" in screen.text


def test_a_second_ctrl_c_does_not_wait_for_a_command(leak: Path) -> None:
    with LiveTerminal("watch", leak, "--budget", "peak=1MiB", "--run", "sleep 60") as terminal:
        terminal.shows("over the budget of 1.00 MiB")
        terminal.type(b"\x03")
        terminal.until(restored)
        terminal.shows("at line 12,802")
        terminal.interrupt()
        assert terminal.end(8) == 3
        assert "a command of --run is still running" in terminal.screen.text.replace("\n", "")


@pytest.mark.parametrize("when", ["there", "comes later"])
def test_a_budget_rings_runs_its_command_and_is_the_exit_code(when: str, leak: Path, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    if when == "there":
        log.write_bytes(leak.read_bytes())
    command = 'echo "told: $MEMLENS_METRIC $MEMLENS_BYTES of $MEMLENS_LOG"; echo once >> ran.txt'
    words = "watch run.log --every 0.1 --budget peak=4300KiB --budget growth=8KiB"
    with (
        LiveTerminal(*words.split(), "--by", STEPS, "--run", command, folder=tmp_path, rows=40) as terminal,
        written(leak, log if when != "there" else tmp_path / "other"),
    ):
        screen = terminal.shows("the windows gain")
        assert "told:" not in screen.text  # it would tear the screen
        assert 1 <= screen.bells <= 2
        terminal.type(b"\x03")
        assert terminal.end() == 3
        assert restored(screen)
        assert re.search(r"told: growth \d+ of run.log", screen.text)
    assert (tmp_path / "ran.txt").read_text().splitlines() in (["once"], ["once"] * 2)


def test_the_screen_follows_the_size_of_the_terminal(leak: Path) -> None:
    with LiveTerminal("watch", leak, "--by", STEPS, columns=120, rows=40) as terminal:
        terminal.shows("Ctrl-C ends.")
        for columns, rows in ((60, 15), (100, 30)):
            terminal.resize(columns, rows)
            screen = terminal.shows("Ctrl-C ends.")
            assert all(width_of(line) <= columns for line in screen.lines)
            assert any(line.rstrip().endswith("line 12,802") for line in screen.lines[:2])
            assert screen.scrolled == 0
        terminal.type(b"\x03")
        assert terminal.end() == 0


def test_stopped_by_ctrl_z_it_gives_the_terminal_back_and_takes_it_again(leak: Path) -> None:
    with LiveTerminal("watch", leak) as terminal:
        assert terminal.echoes
        terminal.shows("Ctrl-C ends.")
        assert not terminal.echoes  # what is typed is not shown over a frame
        terminal.type(b"\x1a")
        screen = terminal.shows("[1]+ stopped")  # as the shell says
        assert restored(screen)
        assert terminal.echoes
        terminal.until(lambda screen: screen.alternate and "Ctrl-C ends." in screen.text)
        assert screen.hidden
        terminal.type(b"\x03")
        assert terminal.end() == 0
        assert restored(terminal.screen)


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_without_a_screen_gets_lines(term: str, leak: Path) -> None:
    with LiveTerminal("watch", leak, "--idle", "0", "--color", "never", TERM=term, rows=60) as terminal:
        assert terminal.end() == 0
        assert "Memory grows from STEP 1 on: 512 B a step" in " ".join(terminal.screen.text.split())
        assert "0 B now, peak 4.28 MiB at line 12,802" in " ".join(terminal.screen.text.split())
        assert terminal.screen.frames == 0


def watch(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return process("watch", *arguments, **options)


def test_a_pipe_gets_a_line_for_what_is_new_and_the_verdict_without_control_characters(
    leak: Path, tmp_path: Path
) -> None:
    with written(leak, tmp_path / "run.log", 20, 0.05):
        words = "--every 0.05 --idle 1 --budget peak=4300KiB"
        ran = watch(tmp_path / "run.log", "--by", STEPS, *words.split(), "--run", "echo told")
    assert ran.returncode == 3
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", ran.stdout)
    told, said = ran.stdout.split("\n\n", 1)
    lines = told.splitlines()
    assert lines[0].startswith("run.log  ")
    assert len(lines) <= 4  # one at the beginning, one on the budget, and no more than one in five seconds
    assert sum("over the budget of 4.20 MiB from line " in line for line in lines) == 1
    assert said.startswith("The peak is 4.28 MiB, over the budget of 4.20 MiB from line ")
    assert memlens.analyze(leak, by=STEPS).verdict in said
    assert ran.stderr == "told\n"


def test_json_lines_have_the_contract_and_end_with_the_verdict(leak: Path) -> None:
    ran = watch(leak, "--by", STEPS, "--idle", "0", "--format", "jsonl", "--budget", "growth=1KiB")
    first, *_, last = map(json.loads, ran.stdout.splitlines())
    assert ran.returncode == 3
    assert (first["schema"], first["ended"], last["ended"]) == ("memlens.watch/2", "", "idle")
    (log,) = last["logs"]
    assert (log["peak_bytes"], log["peak_line"], log["events"]) == (4482816, 12802, 6517)
    assert [window["name"] for window in log["windows"]] == ["28", "29"]
    # 512 B in each of 28 steps after the first.
    assert log["growth"]["gained_bytes"] == 512 * 28
    assert last["crossings"] == [
        {
            "path": str(leak),
            "device": "",
            "metric": "growth",
            "budget_bytes": 1024,
            "reached_bytes": 512 * 28,
            "line": None,
            "since": "1",
        }
    ]
    assert last["verdict"].endswith(memlens.analyze(leak, by=STEPS).verdict)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("nosuch.log", "--idle", "0"), 1, "nosuch.log: nothing was read: no such file yet"),
        (("empty.log", "--idle", "0"), 1, "empty.log: nothing was read: "),
        (("words.log", "--idle", "0"), 1, "words.log: no event of an allocator in 2 lines"),
        (("words.log", "nosuch.log", "--idle", "0"), 1, "nosuch.log: nothing was read: no such file yet"),
        (("empty.log", "--budget", "peak=3"), 2, "has no unit"),
        (("empty.log", "--every", "0"), 2, "two looks"),
        (("empty.log", "--idle", "-1"), 2, "is no time"),
        (("empty.log", "--pid", "0"), 2, "0 is not in the range"),
        (("picture.pickle", "--idle", "0"), 1, "cannot be followed"),
        (("-", "-"), 2, "only once"),
    ],
)
def test_what_cannot_be_watched_is_said_in_a_line(
    arguments: Sequence[str],
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.log").touch()
    (tmp_path / "words.log").write_text("no line of this\nis an event\n")
    (tmp_path / "picture.pickle").write_bytes(b"\x80\x04}\x94(\x8c\x08segments\x94]\x94\x8c\rdevice_traces\x94]\x94u.")
    assert main(["watch", *arguments]) == code
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said
    assert len(said.splitlines()) <= 8
