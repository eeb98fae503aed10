"""The stills of the documentation are what their commands draw today; ``MEMLENS_APPROVE=1`` draws them anew."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from memlens.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "plot.md"
COMMANDS = [
    shlex.split(line) for line in re.findall(r"^    memlens (plot .* -o docs/\S+)$", PAGE.read_text(), re.MULTILINE)
]
OF_README = shlex.split("plot examples/logs/feats.log.gz -o docs/leak.svg")


def texts(svg: str) -> list[str]:
    return ["".join(one.itertext()) for one in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def places(svg: str) -> dict[str, list[float]]:
    """The numbers of each named curve."""
    found = re.findall(r'<g id="((?:allocated|reserved|peak|base|head)(?:-[12])?)">(.*?)</g>', svg, re.DOTALL)
    return {name: [float(number) for number in re.findall(r"-?\d+\.?\d*", part)] for name, part in found}


@pytest.mark.parametrize("command", [OF_README, *COMMANDS], ids=lambda command: command[-1])
def test_a_still_is_what_its_command_draws(command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    if os.environ.get("MEMLENS_APPROVE"):
        assert main([*command, "-f"]) == 0
    assert main([*command[:-1], str(tmp_path / "now.svg")]) == 0
    now, kept = (tmp_path / "now.svg").read_text(), (ROOT / command[-1]).read_text()
    assert texts(now) == texts(kept)
    assert places(now).keys() == places(kept).keys() != set()
    for name, numbers in places(now).items():
        assert numbers == pytest.approx(places(kept)[name], abs=0.1)
    page = ROOT / "README.md" if command is OF_README else PAGE
    assert f"({os.path.relpath(command[-1], page.parent.relative_to(ROOT))})" in page.read_text()


def test_the_page_has_a_still_of_one_log_and_one_of_a_comparison() -> None:
    assert [("--base" in command) for command in COMMANDS] == [False, True]
