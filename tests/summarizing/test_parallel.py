"""Many logs by several processes: the same figures as by one, and no process too many."""

from __future__ import annotations

import gzip
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import made_runs as made
import pytest

from memlens.comparing import run as comparing
from memlens.comparing.run import record_all as record_by
from memlens.inputs import input_name
from memlens.options.verbs import Compare
from memlens.summarizing import workers
from memlens.summarizing.summary import Run
from memlens.summarizing.workers import Order

MIB = made.MIB


@pytest.fixture
def forking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork, also where idle threads of another test are left in this process: what is patched here is so in forked processes alone."""
    if sys.platform != "linux":
        pytest.skip("forks on Linux only")
    monkeypatch.setattr(workers, "may_fork", lambda: True)


def record_all(
    orders: list[Order], jobs: int | None = None, progress: Callable[[int], None] | None = None
) -> list[Run]:
    return [run for (run,) in record_by(orders, Compare(jobs=jobs, progress=progress))]


@pytest.fixture
def orders(tmp_path: Path) -> list[Order]:
    """Twelve logs of rising peaks, one of them packed, and two that are no logs."""
    for number in range(12):
        text = made.log_text((number + 1) * MIB).encode()
        (tmp_path / f"{number}.log").write_bytes(gzip.compress(text) if number == 5 else text)
    (tmp_path / "empty.log").write_text("")
    names = [*(f"{number}.log" for number in range(12)), "empty.log", "gone.log"]
    return [Order(str(tmp_path / name), Compare(), ({}, False)) for name in names]


def test_figures_come_back_in_the_order_of_the_logs(orders: list[Order]) -> None:
    read = record_all(orders, jobs=3)
    assert [run.path for run in read] == [order.given for order in orders]
    assert [run.windows[0].peak_bytes for run in read[:12]] == [(number + 1) * MIB for number in range(12)]
    assert [run.status for run in read[12:]] == ["unreadable", "missing"]


def test_one_process_and_many_say_the_same(orders: list[Order]) -> None:
    assert record_all(orders, jobs=1) == record_all(orders, jobs=4) == record_all(orders)


def test_nothing_is_forked_where_another_thread_runs(orders: list[Order], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_local", lambda *_: pytest.fail("it started processes"))
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert len(record_all(orders, jobs=4)) == 14
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("jobs", [1, 3])
def test_progress_rises_to_the_bytes_of_all_logs(orders: list[Order], jobs: int) -> None:
    seen: list[int] = []
    record_all(orders, jobs, seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == sum(os.path.getsize(str(order.given)) for order in orders[:13])


@pytest.mark.usefixtures("forking")
def test_a_log_that_ends_its_process_is_a_row_that_says_what_to_do(
    orders: list[Order], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = input_name

    def deadly(given: Any) -> str:
        if str(given).endswith("3.log") and os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(given)

    here = os.getpid()
    expected = record_all(orders, jobs=1)
    monkeypatch.setattr(comparing, "input_name", deadly)
    read = record_all(orders, jobs=3)
    assert read[3].status == "unreadable"
    for run, right in zip(read, expected, strict=True):
        if run != right:
            assert run.message.startswith(f"{run.path}: its worker was lost: BrokenProcessPool")
            assert "--jobs 1" in run.hint
