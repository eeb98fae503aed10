"""One browser for all tests of pages, and the pages: each made once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from browser import Browser, Page, browser
from logs_of_reports import million_events, small_log, three_devices
from viewer_modules import VIEWER

from hostile import hostile_log, hostile_snapshot
from memlens.cli import main


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """A headless browser; tests that need it are skipped without one, and fail in CI."""
    with browser() as running:
        yield running


@dataclass(frozen=True)
class Report:
    """A report of an input, and what the other verbs say of the same input as JSON.

    Attributes:
        path: The page.
        words: The command line of the report, without the verb and where to.
        browser: What opens it.
    """

    path: Path
    words: tuple[str, ...]
    browser: Browser

    def open(self, **how: Any) -> Page:
        """Open the page, and see that it is well."""
        page = self.browser.open(self.path, **how)
        page.assert_well()
        return page

    @cached_property
    def analysis(self) -> dict[str, Any]:
        """What ``analyze`` says."""
        return self._said("analyze", self.words)

    @property
    def log(self) -> dict[str, Any]:
        """What ``analyze`` says of the only log."""
        (log,) = self.analysis["logs"]
        return dict(log)

    @property
    def peak_bytes(self) -> int:
        """The highest level of the log."""
        return max(int(window["peak"]["peak_bytes"]) for window in self.log["windows"])

    @cached_property
    def diff(self) -> dict[str, Any]:
        """What ``diff`` says, of a report with a base."""
        words = list(self.words)
        at = words.index("--base")
        base = words.pop(at + 1)
        words.pop(at)
        return self._said("diff", [base, *words])

    def _said(self, verb: str, words: Any) -> dict[str, Any]:
        to = self.path.with_suffix(f".{verb}.json")
        if not to.exists():
            assert main([verb, *words, "--format", "json", "-o", str(to), "-q"]) in {0, 1}
        return dict(json.loads(to.read_text()))


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory, chromium: Browser) -> Callable[..., Report]:
    """Make the report of a command line, once."""
    folder = tmp_path_factory.mktemp("reports")

    @cache
    def make(*words: str) -> Report:
        path = folder / f"{len(list(folder.glob('*.html')))}.html"
        assert main(["report", *words, "-o", str(path), "-q"]) == 0
        return Report(path, words, chromium)

    return make


@pytest.fixture
def node(tmp_path: Path) -> Callable[..., str]:
    """Run Node in a folder that holds the page's modules where the tests look for them; what it prints."""
    program = shutil.which("node")
    if program is None:
        words = "needs node on the PATH (the dev environment has it)"
        if os.environ.get("CI"):
            pytest.fail(words)
        pytest.skip(words)
    (tmp_path / "package.json").write_text(json.dumps({"type": "module"}))
    with resources.as_file(resources.files("memlens.drawing") / "viewer") as folder:
        shutil.copytree(folder, tmp_path / VIEWER)
    shutil.copytree(Path(__file__).resolve().parents[1] / "viewer", tmp_path / "tests/viewer")

    def run(*words: str, given: object = None) -> str:
        command, text = [program, *words], json.dumps(given)
        done = subprocess.run(
            command, check=False, cwd=tmp_path, input=text, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture
def leak(report: Callable[..., Report], inputs: Callable[[str], tuple[str, ...]]) -> Page:
    """The report of a log of 9,097 events and 30 steps, opened."""
    return report(*inputs("leak")).open()


@pytest.fixture(scope="session")
def inputs(
    tmp_path_factory: pytest.TempPathFactory, examples: Path, request: pytest.FixtureRequest
) -> Callable[[str], tuple[str, ...]]:
    """The command line of each input that reports are tried on, by its name."""
    folder = tmp_path_factory.mktemp("inputs")

    def shared() -> Path:
        return Path(request.getfixturevalue("shared"))

    cut = ("--by", "^STEP (.*) START", "--owner", "OWNER (.*)")
    known: dict[str, Callable[[], tuple[str, ...]]] = {
        "small": lambda: (str(small_log(folder)),),
        "leak": lambda: (str(examples / "leak.log.gz"),),
        "oom": lambda: (str(examples / "oom.log.gz"),),
        "torn": lambda: (str(examples / "torn_4procs.log.gz"),),
        "diff": lambda: (str(examples / "case1_pir.log"), "--base", str(examples / "case1_pt.log")),
        "snapshot": lambda: (str(shared() / "data/torch/snapshots/train_19464.pickle"),),
        "snapshot that ran out": lambda: (str(shared() / "data/torch/snapshots/oom_2023.pickle"),),
        "snapshot of one moment": lambda: (str(shared() / "data/torch/snapshots/segments_only.pickle"),),
        "three devices": lambda: (str(three_devices(folder)),),
        "kineto": lambda: (str(examples / "torch_leak.json.gz"),),
        "million": lambda: (str(million_events(folder, shared())),),
        "hostile log": lambda: (str(hostile_log(folder)), *cut),
        "hostile snapshot": lambda: (str(hostile_snapshot(folder)),),
    }

    @cache
    def words(name: str) -> tuple[str, ...]:
        return known[name]()

    return words
