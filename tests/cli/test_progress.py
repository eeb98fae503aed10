"""The progress bar: for people only, and only when the work takes a while."""

from __future__ import annotations

import io
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from memlens import native
from memlens.cli import live, output
from memlens.cli.output import Output, Show, progress_bar


class FakeTerminal(io.StringIO):
    """A stderr that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> FakeTerminal:
    for name in ("CI", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    stream = FakeTerminal()
    # Not sys.stderr itself, which pytest sets anew between a fixture and its test.
    for module in (live, output):
        monkeypatch.setattr(module, "sys", SimpleNamespace(stderr=stream))
    return stream


class Clock:
    """A clock that a test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(live, "time", SimpleNamespace(monotonic=lambda: self.now))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "run.log"
    path.write_bytes(b"x" * 1000)
    return str(path)


def test_quick_work_shows_nothing(terminal: FakeTerminal, clock: Clock, log: str) -> None:
    with progress_bar([log], Output()) as report:
        assert report is not None
        clock.now += 0.9
        report(900)
    assert terminal.getvalue() == ""


def test_slow_work_shows_a_bar_that_goes_away(terminal: FakeTerminal, clock: Clock, log: str) -> None:
    with progress_bar([log], Output()) as report:
        assert report is not None
        clock.now += 1.1
        report(500)
        shown = terminal.getvalue()
    assert "reading" in shown
    assert "500/1,000 bytes" in shown
    assert terminal.getvalue().endswith("\x1b[2K")


@pytest.mark.parametrize("variable", ["CI", "TERM"])
def test_nobody_looks_at_a_bar_in_ci(
    terminal: FakeTerminal, monkeypatch: pytest.MonkeyPatch, log: str, variable: str
) -> None:
    monkeypatch.setenv(variable, "dumb")
    with progress_bar([log], Output()) as report:
        assert report is None
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("show", [Output(quiet=True), Output(verbose=True), Show(no_progress=True)])
def test_a_bar_can_be_switched_off(terminal: FakeTerminal, log: str, show: Output) -> None:
    with progress_bar([log], show) as report:
        assert report is None


@pytest.mark.parametrize(
    ("compiled", "switched_off", "size", "quiet", "said"),
    [
        (False, False, 65 << 20, False, True),
        (False, False, 65 << 20, True, False),
        (False, False, 63 << 20, False, False),  # soon done all the same
        (False, True, 65 << 20, False, False),  # whoever switched it off knows
        (True, False, 65 << 20, False, False),
    ],
)
def test_who_has_no_compiled_scanner_is_told_how_to_get_it_where_much_is_to_be_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    compiled: bool,
    switched_off: bool,
    size: int,
    quiet: bool,
    said: bool,
) -> None:
    log = tmp_path / "run.log"
    with log.open("wb") as file:
        file.truncate(size)  # a hole: it takes no room
    monkeypatch.setattr(
        "memlens.native.importlib.import_module",
        lambda name: ModuleType(name, native._sources()) if compiled else missing(name),
    )
    monkeypatch.setenv("MEMLENS_PURE", "1" if switched_off else "0")
    with progress_bar([str(log), str(tmp_path / "no such file"), "-"], Output(quiet=quiet)):
        pass
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == said
    assert all("without the compiled modules" in line and "pip install" in line for line in lines)


def missing(name: str) -> ModuleType:
    raise ModuleNotFoundError(name)
