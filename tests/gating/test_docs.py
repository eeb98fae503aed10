"""``docs/gate.md`` says what is so: its jobs run the command that it shows, and its rules and codes are the program's."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from memlens.gating.baseline import Anchors, Baseline
from memlens.gating.limits import METRICS, Rules
from memlens.gating.verdict import _EXIT_CODES

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "gate.md").read_text()


@pytest.mark.parametrize("name", ["github-actions.yml", "gitlab-ci.yml"])
def test_the_page_leads_to_a_job_that_runs_the_command_of_the_page(name: str) -> None:
    (command,) = re.findall(r"^    (memlens gate run.log --baseline ci/memory.json .*)$", PAGE, re.MULTILINE)
    (ours,) = re.findall(r"memlens gate run.log --baseline ci/memory.json .*", (DOCS / "ci" / name).read_text())
    assert f"](ci/{name})" in PAGE
    assert set(ours.split()) <= set(command.split())


def test_every_metric_is_on_the_page() -> None:
    rows = re.findall(r"^\| (`[a-z]+`) \| .* \| .* \| (?:by default|when asked for)", PAGE, re.MULTILINE)
    roles = re.findall(r"at the peak of the run: ([^.]*)", PAGE)
    assert tuple(re.findall(r"`([a-z]+)`", " ".join(rows + roles))) == METRICS


def test_every_verdict_is_on_the_page_with_its_exit_code() -> None:
    assert {match[2]: int(match[1]) for match in re.finditer(r"^\| (\d) \| `(\w+)`", PAGE, re.MULTILINE)} == _EXIT_CODES


def test_the_baseline_on_the_page_has_the_fields_of_a_baseline() -> None:
    text = re.search(r"^    \{\n     \"anchors\".*?^    \}\n", PAGE, re.MULTILINE | re.DOTALL)
    assert text
    shown = json.loads(text[0])
    from memlens.gating.baseline import RunFigures, WindowFigures

    written = json.loads(Baseline(Anchors(by="x"), (RunFigures(1, 1, (WindowFigures("0", 1, 1, 1),)),)).render())
    assert list(shown) == list(written)
    assert list(shown["runs"][0]) == list(written["runs"][0])
    assert list(shown["runs"][0]["windows"][0]) == list(written["runs"][0]["windows"][0])
    assert all(f"`{field}`" in PAGE for field in (*written["runs"][0], *written["runs"][0]["windows"][0]))
    assert list(shown["anchors"]) == list(written["anchors"])
    assert all(f"| `{field}` |" in PAGE for field in written)


def test_the_example_of_a_negative_figure_is_right() -> None:
    mib = 1 << 20
    assert "from −100 MiB to −98 MiB" in PAGE
    assert Rules.parse("remaining=2%").limits["remaining"].allows(-100 * mib) == 2 * mib
