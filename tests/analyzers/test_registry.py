"""Which analyzers there are, and how other packages add theirs."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memlens.analyzers import get, names, registry
from memlens.errors import MemlensError, UsageError
from memlens.events import Kind
from memlens.log import Log
from memlens.windows.windows import Window

PAGE = Path(__file__).resolve().parents[2] / "docs" / "analyzers.md"

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install packages as pip leaves them: modules, and a dist-info folder with entry points beside them."""
    modules = set(sys.modules)

    def install(package: str, source: str, entry: str) -> None:
        folder = tmp_path / package
        info = folder / f"{package}-1.0.dist-info"
        info.mkdir(parents=True)
        (folder / f"{package}.py").write_text(source)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[memlens.analyzers]\n{entry}\n")
        monkeypatch.syspath_prepend(str(folder))
        importlib.invalidate_caches()

    yield install
    for name in set(sys.modules) - modules:
        del sys.modules[name]


@pytest.fixture
def window() -> Window:
    rows = [(Kind.ALLOC, 4095, 1), (Kind.ALLOC, 4096, 2), (Kind.FREE, 4095, 1), (Kind.ALLOC, 256, 3)]
    log = Log.from_rows(rows)
    return Window(log, "all of it", 0, 4, 0, 4, 1, 4)


def code_on_the_page(language: str, holds: str) -> str:
    blocks: list[str] = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if holds in block]
    return found


def test_the_built_in_analyzers_are_those_of_the_design() -> None:
    wanted = "remaining composition activations peak segments stats unmatched lifetimes"
    assert names()[:8] == (*wanted.split(),)


def test_an_unknown_name_is_a_usage_error_that_lists_the_names_and_guesses_the_one_meant() -> None:
    with pytest.raises(UsageError, match=r"no analyzer is called 'remainin'") as caught:
        get("remainin")
    assert "Did you mean 'remaining'?" in caught.value.hint
    assert all(name in caught.value.hint for name in names())


def test_the_analyzer_on_the_documentation_page_works_once_installed(install: Install, window: Window) -> None:
    entry = code_on_the_page("toml", "entry-points").splitlines()[1].replace('"', "")
    install("memlens_small", code_on_the_page("python", "class Small"), entry)
    assert names()[-1] == "small"
    analyzer = get("small")
    assert analyzer(window).to_dict() == {"small_allocs": 2, "small_bytes": 4095 + 256}
    assert [result.small_allocs for result in analyzer.many([window, window])] == [2, 2]


def test_an_installed_analyzer_cannot_take_a_built_in_name(install: Install, window: Window) -> None:
    install("thief", "def peak(window): raise AssertionError", "peak = thief:peak")
    install("thief_of_series", "def growth(window): raise AssertionError", "growth = thief_of_series:growth")
    assert get("peak") in registry.BUILT_IN
    assert get("peak")(window).peak_bytes == 4095 + 4096
    assert names().count("peak") == 1
    assert "growth" not in names()


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("raise RuntimeError('no licence')", "cannot be loaded: RuntimeError: no licence"),
        ("import module_that_is_nowhere", "cannot be loaded: ModuleNotFoundError"),
        ("other = 1", "cannot be loaded: AttributeError"),
        ("run = 3", "is no function of a window but int"),
    ],
)
def test_a_broken_package_is_named_and_not_traced_back(install: Install, source: str, says: str) -> None:
    install("broken_package", source, "mine = broken_package:run")
    with pytest.raises(MemlensError, match=re.escape(says)) as caught:
        get("mine")
    assert "'broken_package'" in caught.value.message
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def run(window): return 1 / 0", "failed on 'all of it': ZeroDivisionError"),
        ("def run(window): return 42", "gave int, which has no to_dict()"),
    ],
)
def test_an_installed_analyzer_that_fails_is_named(install: Install, window: Window, source: str, says: str) -> None:
    install("failing_package", source, "mine = failing_package:run")
    with pytest.raises(MemlensError, match=re.escape(says)) as caught:
        get("mine")(window)
    assert "'failing_package'" in caught.value.message


def test_asking_for_growth_as_an_analyzer_of_one_window_says_what_it_is() -> None:
    with pytest.raises(UsageError, match="series of windows"):
        get("growth")


def test_two_packages_with_one_name_are_both_named(install: Install) -> None:
    install("first_package", "def run(window): ...", "mine = first_package:run")
    install("second_package", "def run(window): ...", "mine = second_package:run")
    assert names().count("mine") == 1
    with pytest.raises(MemlensError, match="first_package, second_package"):
        get("mine")
