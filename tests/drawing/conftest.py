"""One browser for all tests of pages, and the pages: each made once."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pytest
from browser import Browser, Page, browser
from hostile import hostile_log, hostile_snapshot

from memlens.cli import main

__all__ = ["Report"]


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
        at = words.index("--diff")
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
        "diff": lambda: (str(examples / "case1_pir.log"), "--diff", str(examples / "case1_pt.log")),
        "snapshot": lambda: (str(shared() / "data/torch/snapshots/train_19464.pickle"),),
        "snapshot that ran out": lambda: (str(shared() / "data/torch/snapshots/oom_2023.pickle"),),
        "snapshot of one moment": lambda: (str(shared() / "data/torch/snapshots/segments_only.pickle"),),
        "kineto": lambda: (str(examples / "torch_leak.json.gz"),),
        "million": lambda: (str(million_events(folder, shared())),),
        "hostile log": lambda: (str(hostile_log(folder)), *cut),
        "hostile snapshot": lambda: (str(hostile_snapshot(folder)),),
    }

    @cache
    def words(name: str) -> tuple[str, ...]:
        return known[name]()

    return words


#: Of :func:`small_log`: 3 MiB and 5 MiB live together.
SMALL_PEAK = 8 << 20


def small_log(folder: Path) -> Path:
    """Two steps of five events: 1 MiB stays, 3 and 5 MiB are temporary; 4 + 8 MiB are reserved."""
    text, clock = "", 0
    for step in range(2):
        text += f"START STEP_{step}\n"
        for what in (
            "Not found and reallocate 8388608(0x7f0000000000), and remaining 0" if step == 0 else "",
            "Alloc 3145728 bytes, ptr = 0x7f0000000000",
            "Alloc 5242880 bytes, ptr = 0x7f0000300000",
            "Free 5242880 bytes, ptr = 0x7f0000300000",
            "Free 3145728 bytes, ptr = 0x7f0000000000",
        ):
            if what:
                clock += 250_000
                text += f"I0712 10:54:{clock // 1_000_000:02d}.{clock % 1_000_000:06d} 1120 auto_growth_best_fit_allocator.cc:169] {what}\n"
    path = folder / "small.log"
    path.write_text(text)
    return path


#: What :func:`million_events` holds for two events in the middle, beside some GiB of other blocks.
SPIKE = 1 << 40


def million_events(folder: Path, shared: Path) -> Path:
    """A log of a million events, with a peak that lasts one event."""
    path = folder / "million.log"
    command = [sys.executable, str(shared / "bench/make_log.py"), str(path), "95", "--calls", "20000"]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    lines = path.read_bytes().splitlines(keepends=True)
    stamp = b"I0710 %b auto_growth_best_fit_allocator.cc:%d] %b %d bytes, ptr = 0x10000000000000\n"
    at = len(lines) // 2 + random.Random(0).randrange(1000)
    clock = next(line for line in lines[at:] if line.startswith(b"I0710")).split()[1] + b" 12345"
    lines[at:at] = [stamp % (clock, 169, b"Alloc", SPIKE), stamp % (clock, 177, b"Free", SPIKE)]
    path.write_bytes(b"".join(lines))
    return path
