"""Read a log by several processes, in a process of its own: a test process may have threads, and those must not be forked.

usage: read_striped.py LOG STRIPE_BYTES, or read_striped.py LOG fail, or read_striped.py LOG die
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

from memlens.inputs.paddle import reader, stripes
from memlens.windows.patterns import Pattern

_COLUMNS = ("kind", "size", "addr", "offset", "thread", "time_us", "requested", "owner", "owner_names")


def run(path: Path, how: str) -> subprocess.CompletedProcess[bytes]:
    """Run this script on a log; what it wrote is what :func:`main` says."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, __file__, str(path), how]
    return subprocess.run(command, check=False, capture_output=True, env=environment, timeout=100)


def _fail(*_: object) -> None:
    raise ZeroDivisionError


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Write the log's columns, facts, anchors and some looked-up lines to stdout, pickled."""
    path, how = sys.argv[1:]
    stripes._SMALLEST = 0
    if how in ("fail", "die"):
        reader._read_block = _fail if how == "fail" else _die  # type: ignore[assignment]
        reader.read(path)
    stripes._STRIPE = int(how)
    patterns = [Pattern("START STEP_3"), Pattern(r"STEP_(\d+)", regex=True)]
    log = reader.read(path, columns=("thread", "time_us"), patterns=patterns)
    offsets = log.offset[::37].tolist()
    columns = {name: getattr(log, name) for name in _COLUMNS}
    found = (columns, log.facts, log.anchors, offsets, log.source.line_numbers(offsets), log.source.lines(offsets))
    sys.stdout.buffer.write(pickle.dumps(found))


if __name__ == "__main__":
    main()
