"""What the page on recording shows is what a recording gives: its variables, its two lines for marks, its screens, its program run by real Paddle.

``MEMLENS_APPROVE=1`` writes the outputs anew.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import TextWrapper

import pytest
from live_screen import LiveTerminal
from real_paddle import RealPaddle, environment

from memlens.recording.presets import settings

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "recording.md"
WATCHING = ROOT / "docs" / "watch.md"


def block(language: str, begins: str, page: Path = PAGE) -> str:
    """The body of the one fenced block in a language that begins so."""
    found = [
        text
        for text in re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
        if text.startswith(begins)
    ]
    assert len(found) == 1
    return str(found[0])


def folded(output: str) -> list[str]:
    """Lines of output as a page has them: no blanks at their ends, and none wider than 100 columns."""
    lines = output.rstrip("\n").splitlines()
    fold = TextWrapper(100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False).wrap
    return [part for line in lines for part in (fold(line) if len(line) > 100 else [line.rstrip()])]


def shown(command: str, output: str, page: Path = PAGE, *, changes: tuple[tuple[str, str], ...] = ()) -> None:
    """Compare a block of the page that shows a command with its output; what differs from run to run is taken out of both."""
    old = block("text", f"$ {command}\n", page)
    new = f"$ {command}\n" + "".join(f"{line}\n" for line in folded(output))
    if os.environ.get("MEMLENS_APPROVE"):
        page.write_text(page.read_text().replace(f"```text\n{old}```", f"```text\n{new}```"))
        return
    for pattern, word in changes:
        old, new = (re.sub(pattern, word, text, flags=re.MULTILINE) for text in (old, new))
    assert old == new, "run with MEMLENS_APPROVE=1 to accept, and read the difference"


def test_the_variables_of_the_preset_are_those_of_the_page() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| `?([^|`]+)`? \|", PAGE.read_text(), re.MULTILINE))
    for preset in ("paddle", "paddle-history", "torch"):
        environment = settings(preset, [], {}, "{}", names=True).environment
        assert environment.keys() - rows.keys() == set()
        own = {name: value for name, value in environment.items() if name not in ("PYTHONPATH", "MEMLENS_RECORD")}
        assert own.items() <= rows.items()


def test_the_plain_command_sets_what_the_preset_sets() -> None:
    (plain,) = re.findall(r"^    ((?:\w+=\S+ )+)\\\n +python train.py > run.log 2>&1$", PAGE.read_text(), re.MULTILINE)
    given = dict(word.replace("'", "").split("=", 1) for word in plain.split())
    ours = settings("paddle", [], {}, "{}").environment
    assert given == {name: value for name, value in ours.items() if name not in ("PYTHONPATH", "MEMLENS_RECORD")}


def test_the_two_lines_print_what_a_mark_prints(tmp_path: Path) -> None:
    (two,) = re.findall(r"^    (import os)\n    (def mark.*)\n\n", PAGE.read_text(), re.MULTILINE)
    lines = "\n".join(two)
    written = [
        subprocess.run([sys.executable, "-c", f"{text}\nmark('STEP 1 – ü')"], stderr=subprocess.PIPE, check=True).stderr
        for text in (lines, "from memlens import mark")
    ]
    assert written == ["STEP 1 – ü\n".encode()] * 2


@pytest.mark.skipif(sys.platform == "win32", reason="needs pseudo-terminals")
def test_the_screen_of_watching_is_that_of_a_terminal_of_80_columns() -> None:
    command = "memlens watch examples/logs/cnn_5steps.log.gz --budget peak=4MiB"
    with LiveTerminal(*command.split()[1:], rows=26, folder=ROOT, NO_COLOR="1") as terminal:
        shown(command, terminal.shows("1,367 events. Ctrl-C ends.").text, WATCHING)


@pytest.mark.changed("recording")
@pytest.mark.paddle
def test_the_program_of_the_page_gives_what_is_shown(paddle: RealPaddle, tmp_path: Path) -> None:
    program = block("python", "import paddle\n").replace('"gpu"', '"hostdev"')
    (tmp_path / "train.py").write_text(program)
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, words in (("memlens", f"{sys.executable} -m memlens"), ("python", paddle.python)):
        (tools / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        (tools / name).chmod(0o755)
    command = "memlens record -o run.log.zst -- python train.py"
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=tmp_path,
        env=environment(paddle, tmp_path, PATH=path, COLUMNS="80", PYTHONWARNINGS="ignore"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=True,
    )
    startup = r"(?<=PYTHONPATH=)\S+(?=/memlens/recording)"
    output = re.sub(startup, "…", done.stdout)
    output = re.sub(r"(?<=^STEP 0\n).*(?=^STEP 11$)", "…\n", output, flags=re.MULTILINE | re.DOTALL)
    figures = (
        (r"(?<=^loss )[\d.]+", "small"),
        (r"(?<=ran for )[\d.]+ m?s", "a while"),
        (r"[\d.]+ KiB of log in [\d.]+ KiB", "text"),
        (r"(?<=at line )[\d,]+", "N"),
    )
    shown(command, output, changes=figures)
