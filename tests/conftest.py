"""Fixtures that several test modules share."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from changed import has_changed
from hypothesis import HealthCheck, settings
from night import NIGHT, many

from memlens.native import load

ROOT = Path(__file__).resolve().parents[1]
# How long an example takes says how busy the machine is; and by day each run draws the same ones.
settings.register_profile(
    "memlens",
    deadline=None,
    derandomize=not NIGHT,
    max_examples=many(100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("memlens")
# Under nohup, or behind a shell's "&", signals are ignored, and so they would be in the programs that tests start and interrupt.
for _ignored in ("SIGINT", "SIGHUP", "SIGQUIT"):
    if hasattr(signal, _ignored) and signal.getsignal(getattr(signal, _ignored)) == signal.SIG_IGN:
        signal.signal(getattr(signal, _ignored), signal.default_int_handler if _ignored == "SIGINT" else signal.SIG_DFL)
#: A minute's look at everything: each verb, each input format, the README's examples.  ``-m smoke`` runs these alone.
SMOKE = frozenset(
    {
        "cli/test_main.py",
        "docs/test_examples.py",
        "docs/test_readme.py",
        "end_to_end/test_traps.py",
        "inputs/test_inputs.py",
        "test_analyzing.py",
        "test_lifetimes.py",
    }
)
#: Tests that replay runs, which only the compiled modules can.
REPLAYS = (
    "tests/allocators/",
    "tests/replaying/",
    "cli/test_whatif.py",
    "[cli_oom_whole]",
    "[whatif ",
    "other_settings_are_right",
    "under_other_settings",
    "_carried_a_run_on",
    "test_a_share_of_the_device_is_the_limit",
)
LONG = pytest.mark.skip(
    reason="takes long, and others look at the same by day: MEMLENS_ROUNDS=20 runs it, as CI does at night"
)
UNCHANGED = pytest.mark.skip(
    reason="what it looks at has not changed since it passed: MEMLENS_CHANGED=1 runs it, as CI does at night (tests/support/changed.py)"
)
WITHOUT = pytest.mark.skip(reason="without the compiled modules nothing is replayed")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """For the smoke tests nothing else is imported."""
    if config.option.markexpr != "smoke" or collection_path.suffix != ".py":
        return None
    return None if collection_path.relative_to(ROOT / "tests").as_posix() in SMOKE else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the smoke tests, and skip those that replay runs where that cannot be done."""
    tests, compiled = ROOT / "tests", load("memlens._replay") is not None
    for item in items:
        if not compiled and any(part in item.nodeid for part in REPLAYS):
            item.add_marker(WITHOUT)
        if not NIGHT and item.get_closest_marker("night"):
            item.add_marker(LONG)
        if not NIGHT and (part := item.get_closest_marker("changed")) and not has_changed(*part.args):
            item.add_marker(UNCHANGED)
        smoke = item.path.is_relative_to(tests) and item.path.relative_to(tests).as_posix() in SMOKE
        if smoke and "[docs/" not in item.nodeid:  # of the pages the README alone
            item.add_marker("smoke")


def pytest_collection_finish() -> None:
    """What thousands of tests and their modules are made of stays: no collection of garbage looks through it again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """``--dist loadfile``, but that all tests of pages go to one worker: one browser starts, and each page is made once."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

    class Scheduling(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            name = super()._split_scope(nodeid)
            return "pages" if name.endswith(("_browser.py", "drawing/test_compared.py")) else name

    return Scheduling(config, log)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real logs beside the project; tests that need it are skipped without it, and fail in CI."""
    folder = Path(os.environ.get("MEMLENS_SHARED", ROOT.parent / "shared"))
    if not (folder / "data").is_dir():
        if os.environ.get("CI"):
            pytest.fail(f"no shared data at {folder}: CI must have it")
        pytest.skip(f"needs the real logs of the shared data folder, which is not at {folder}")
    return folder


@pytest.fixture(scope="session")
def examples() -> Path:
    """The logs that come with the project."""
    return ROOT / "examples" / "logs"


@pytest.fixture(scope="session")
def rounds() -> Callable[[int], range]:
    """The rounds of a fuzz test: as many as it asks for, or ``MEMLENS_ROUNDS`` times as many in a night's run."""
    factor = int(os.environ.get("MEMLENS_ROUNDS", "1"))
    return lambda count: range(count * factor)


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare a text with its golden copy in ``tests/golden``; ``MEMLENS_APPROVE=1`` writes the copy instead."""

    def compare(name: str, text: str) -> None:
        copy = ROOT / "tests" / "golden" / name
        if os.environ.get("MEMLENS_APPROVE"):
            copy.parent.mkdir(exist_ok=True)
            copy.write_bytes(text.encode())
            return
        assert copy.is_file(), f"no golden copy {name}: look at the text, then approve it with MEMLENS_APPROVE=1"
        assert text == copy.read_bytes().decode(), f"not the golden copy {name}: if it is right, MEMLENS_APPROVE=1"

    return compare
