"""The picture of the README is what the command prints today, drawn by rich; ``MEMLENS_APPROVE=1`` draws it anew."""

from __future__ import annotations

import html
import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "leak.svg"
COMMAND = ["analyze", "examples/logs/feats.log.gz", "--plot", "always", "--color", "always"]
COLUMNS = 100


def printed() -> str:
    """What the command prints on a terminal of that width, with its colours."""
    environment = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "FORCE_COLOR"}}
    environment |= {"COLUMNS": str(COLUMNS), "LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "utf-8"}
    run = subprocess.run(
        [sys.executable, "-m", "memlens", *COMMAND], cwd=ROOT, env=environment, capture_output=True, check=True
    )
    return run.stdout.decode()


def draw(text: str) -> str:
    console = Console(file=io.StringIO(), record=True, width=COLUMNS, color_system="standard")
    console.print(Text.from_ansi(text), soft_wrap=True)
    return console.export_svg(title="memlens analyze examples/logs/feats.log.gz", unique_id="memlens")


def lines_of(svg: str) -> list[str]:
    """The lines of text of a picture by rich, which has a text element a run of one style, by their heights."""
    rows: dict[float, dict[float, str]] = {}
    for x, y, text in re.findall(r'<text class="memlens-r\d+" x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>', svg):
        rows.setdefault(float(y), {})[float(x)] = html.unescape(text).replace("\xa0", " ")
    lines = ["".join(row[x] for x in sorted(row)) for _, row in sorted(rows.items())]
    return [line.replace(" ", "") for line in lines if line.strip()]


def test_the_picture_shows_what_the_command_prints() -> None:
    text = printed()
    if os.environ.get("MEMLENS_APPROVE"):
        PICTURE.write_text(draw(text))
    wanted = [line.replace(" ", "") for line in Text.from_ansi(text).plain.splitlines() if line.strip()]
    assert lines_of(PICTURE.read_text()) == wanted


def test_the_picture_has_colours_of_its_own() -> None:
    svg = PICTURE.read_text()
    assert len(set(re.findall(r"fill: (#[0-9a-f]{6})", svg))) >= 3
    assert "<script" not in svg
