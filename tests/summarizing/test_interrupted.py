"""Ctrl-C, which goes to all processes of a terminal, while the processes of ``--scheduler local`` start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

#: A worker that takes its time until it can leave Ctrl-C to the parent, as on a machine with much to do.
PROGRAM = """
import sys, time
from memlens.summarizing import workers
begin = workers._begin
def slow(shared):
    print("begun", flush=True)
    time.sleep(1)
    begin(shared)
workers._begin = slow
from memlens.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(os.name != "posix", reason="signals go to groups of processes on POSIX alone")
def test_ctrl_c_while_workers_start_leaves_no_traceback(tmp_path: Path) -> None:
    logs = []
    for k in range(4):
        log = tmp_path / f"run{k}.log"
        log.write_text("Alloc 512 bytes, ptr = 0x1000\n" * 2)
        logs.append(str(log))
    command = [sys.executable, "-c", PROGRAM, "compare", "--scheduler", "local", "--jobs", "2", *logs]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline().startswith("begun")  # two may say so at once
        time.sleep(0.1)
        os.killpg(run.pid, signal.SIGINT)
        _, errors = run.communicate(timeout=60)
    assert run.returncode == 130
    assert errors == "memlens: interrupted\n"
