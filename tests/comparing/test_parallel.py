"""Many logs by several processes: the same figures as by one, and no process too many."""

from __future__ import annotations

import gzip
import os
import signal
import threading
from pathlib import Path
from typing import Any

import made_runs as made
import pytest

from memlens.comparing import runs
from memlens.comparing.result import Run
from memlens.comparing.runs import Order, record_all
from memlens.errors import MemlensError, UsageError
from memlens.options import Compare

MIB = made.MIB
linux = pytest.mark.skipif(not runs._may_fork(), reason="forks on Linux only")


@pytest.fixture
def orders(tmp_path: Path) -> list[Order]:
    """Twelve logs of rising peaks, one of them packed, and two that are no logs."""
    for number in range(12):
        text = made.log_text((number + 1) * MIB).encode()
        (tmp_path / f"{number}.log").write_bytes(gzip.compress(text) if number == 5 else text)
    (tmp_path / "empty.log").write_text("")
    names = [*(f"{number}.log" for number in range(12)), "empty.log", "gone.log"]
    return [Order(str(tmp_path / name)) for name in names]


def test_figures_come_back_in_the_order_of_the_logs(orders: list[Order]) -> None:
    read = record_all(orders, jobs=3)
    assert [run.path for run in read] == [order.path for order in orders]
    assert [run.windows[0].peak_bytes for run in read[:12]] == [(number + 1) * MIB for number in range(12)]
    assert [run.status for run in read[12:]] == ["unreadable", "missing"]


def test_one_process_and_many_say_the_same(orders: list[Order]) -> None:
    assert record_all(orders, jobs=1) == record_all(orders, jobs=4) == record_all(orders)


@linux
def test_so_many_processes_work_as_there_are_jobs(orders: list[Order], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "record", lambda order, progress: Run(str(os.getpid()), {}, "ok"))
    assert {run.path for run in record_all(orders, jobs=1)} == {str(os.getpid())}
    here, *workers = sorted({run.path for run in record_all(orders, jobs=2)}, key=lambda pid: pid != str(os.getpid()))
    assert here == str(os.getpid())  # what is not there needs no process
    assert len(workers) in (1, 2)


@linux
def test_a_log_that_the_reader_shares_out_itself_is_read_by_no_worker(
    orders: list[Order], monkeypatch: pytest.MonkeyPatch
) -> None:
    large = os.path.getsize(orders[11].path)
    monkeypatch.setattr(runs, "_SHARED_OUT", large)
    monkeypatch.setattr(runs, "record", lambda order, progress: Run(str(os.getpid()), {}, "ok"))
    by_this_process = [run.path == str(os.getpid()) for run in record_all(orders, jobs=2)]
    sizes = [os.path.getsize(order.path) for order in orders[:12]]
    assert by_this_process[:12] == [size >= large for size in sizes]
    assert any(by_this_process[:11])
    assert not all(by_this_process[:12])


@linux
def test_a_large_packed_log_is_read_by_a_worker(orders: list[Order], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "_SHARED_OUT", 0)
    assert [runs._for_a_worker(order) for order in orders] == [number == 5 for number in range(14)]


def test_nothing_is_forked_where_another_thread_runs(orders: list[Order], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "_in_processes", lambda *_: pytest.fail("it forked"))
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
    assert seen[-1] == sum(os.path.getsize(order.path) for order in orders[:13])


@linux
def test_a_worker_that_is_killed_is_an_error_in_words(orders: list[Order], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "record", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(MemlensError, match="was ended from outside") as raised:
        record_all(orders[:4], jobs=2)
    assert "--jobs 1" in raised.value.hint


@pytest.mark.parametrize("jobs", [1, 2])
def test_wrong_usage_comes_back_from_a_worker(orders: list[Order], jobs: int) -> None:
    bad: list[Any] = [Order(order.given, Compare(by="(STEP")) for order in orders[:4]]
    with pytest.raises(UsageError):
        record_all(bad, jobs)
