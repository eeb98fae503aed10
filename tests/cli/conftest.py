"""The command line, run as a user runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from memlens.cli import main


@dataclass(frozen=True)
class Ran:
    """What a run gave back."""

    code: int
    out: str
    err: str


@pytest.fixture
def memlens(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Run a command line in this process, as in a pipe; ``columns`` gives the pipe a width."""

    def run(*arguments: object, columns: int | None = None) -> Ran:
        monkeypatch.delenv("COLUMNS", raising=False)
        if columns is not None:
            monkeypatch.setenv("COLUMNS", str(columns))
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


@pytest.fixture
def small_log(tmp_path: Path) -> Path:
    """Two allocations, one of them freed, between two anchors with hostile names."""
    text = (
        "I0712 10:54:13.000001  1120 auto_growth_best_fit_allocator.cc:169] Alloc 1024 bytes, ptr = 0x100\n"
        "STEP [red]1[/] \x1b[31m START\n"
        "I0712 10:54:13.000002  1120 auto_growth_best_fit_allocator.cc:169] Alloc 2048 bytes, ptr = 0x200\n"
        "I0712 10:54:14.000003  1120 auto_growth_best_fit_allocator.cc:220] Free 1024 bytes, ptr = 0x100\n"
        "STEP =2 START\n"
        "I0712 10:54:14.000004  1120 auto_growth_best_fit_allocator.cc:169] Alloc 512 bytes, ptr = 0x300\n"
    )
    log = tmp_path / "small.log"
    log.write_bytes(text.encode())
    return log
