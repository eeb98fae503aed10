"""The recorder as a process of its own, and programs for it to record."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import zstandard
from commands import HERE


def python(text: str) -> list[str]:
    """The command that runs a program of Python."""
    return [sys.executable, "-c", text]


def recorder(log: Path | str, *options: str) -> list[str]:
    """The command that records into a log, up to the program."""
    return [sys.executable, "-m", "memlens", "record", "-o", str(log), *options, "--"]


def started(command: Sequence[str], **more: Any) -> subprocess.Popen[bytes]:
    """A process with pipes for its streams."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, **{**pipes, "env": os.environ | HERE, **more})


def read_zst(path: Path) -> bytes:
    """The text of a compressed log, as far as it can be read."""
    with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as text:
        return text.read()


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
