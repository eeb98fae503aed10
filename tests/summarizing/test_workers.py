"""Inputs shared out: a worker reads a log as this process would, wherever it runs, and what it says is the same to the byte."""

from __future__ import annotations

import io
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import made_runs as made
import pytest
from commands import HERE
from night import some
from worker_jobs import square_or_fail

import memlens
from memlens.errors import AnchorError, InputError, MemlensError, NoEventsError, OutputError, UsageError
from memlens.options import Spread
from memlens.options.verbs import Analyze
from memlens.results import Deferred, OnDemand
from memlens.summarizing.workers import Order, at_worker, opened, spread_out

FORMAT = """
[[tool.memlens.format]]
name = "mine"
literal = "MINE"
regex = 'MINE (?P<kind>take|give) (?P<addr>[0-9a-f]+) (?P<size>[0-9]+)'
alloc = ["take"]
free = ["give"]
samples = ["MINE take a0 16"]
"""


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Executor]:
    """A worker in another working directory."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        pool.submit(os.chdir, "/").result()
        yield pool


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Five logs of some steps, named from the working directory; the third has a twin name that somebody may have meant."""
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    names = [f"runs/workerlog.{number}" for number in range(5)]
    for number, name in enumerate(names):
        Path(name).write_text(made.log_text((number + 1) * 4096, blocks=5, steps=6))
    return names


def text(found: Any) -> str:
    return json.dumps(found.to_dict())


def test_formats_of_a_project_are_known_to_workers(logs: list[str], elsewhere: Executor) -> None:
    Path("mine.log").write_text("MINE take a0 16\nMINE take b0 48\nMINE give a0 16\n")
    Path("pyproject.toml").write_text(FORMAT)
    for options in ({}, {"formats": "pyproject.toml"}):
        found = memlens.analyze(["mine.log", logs[0]], executor=elsewhere, **options)  # type: ignore[arg-type]
        assert found.logs[0].windows[0].results["peak"].peak_bytes == 64
        assert text(found) == text(memlens.analyze(["mine.log", logs[0]], **options))  # type: ignore[arg-type]


def test_what_only_this_process_has_is_read_here(logs: list[str], elsewhere: Executor) -> None:
    with open(logs[1], "rb") as opened_file:
        given: list[Any] = [logs[0], io.BytesIO(Path(logs[1]).read_bytes()), memlens.read(logs[2]), opened_file]
        found = memlens.compare(given, executor=elsewhere)
    assert [run.windows[0].peak_bytes for run in found.runs] == [4096, 8192, 12288, 8192]


@pytest.mark.parametrize("spread", [{}, {"jobs": 2}, {"scheduler": "local"}, {"executor": "threads"}])
def test_progress_rises_to_the_bytes_of_all_logs_and_no_further(logs: list[str], spread: dict[str, Any]) -> None:
    seen: list[int] = []
    with ThreadPoolExecutor(2) as threads:
        if spread.get("executor"):
            spread = {"executor": threads}
        memlens.analyze([*logs, "gone.log"], progress=seen.append, **spread)
    assert seen == sorted(seen)
    assert seen[-1] == sum(map(os.path.getsize, logs))


def test_processes_of_this_machine_end_in_the_midst_of_what_they_do() -> None:
    began = time.monotonic()
    with opened(Spread(scheduler="local", jobs=1)) as (pool, _):
        future = pool.submit(time.sleep, 100)
        while not future.running():
            time.sleep(0.01)
    assert time.monotonic() - began < 60


def test_ctrl_c_says_nothing_of_calls_that_wait(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also where the pool sees that its processes are gone before it is told to shut down."""

    class Late(ProcessPoolExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            time.sleep(0.5)
            super().shutdown(wait, cancel_futures=cancel_futures)

    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("concurrent.futures.ProcessPoolExecutor", Late)
    failed: list[Any] = []
    monkeypatch.setattr("threading.excepthook", failed.append)
    (tmp_path / "2").write_text("read")
    orders = [Order(tmp_path / "2", Analyze()), *[Order("1000", Analyze())] * 20]
    with pytest.raises(KeyboardInterrupt):
        spread_out(square_or_fail, orders, Spread(scheduler="local", jobs=2), interrupted)
    assert failed == []


def test_wrong_usage_cancels_what_has_not_begun(logs: list[str]) -> None:
    class Keeping(ThreadPoolExecutor):
        def submit(self, work: Any, /, *args: Any, **keywords: Any) -> Any:
            futures.append(future := super().submit(work, *args, **keywords))
            return future

    futures: list[Any] = []
    Path("plain.log").write_text(made.log_text(4096))
    with Keeping(1) as threads:
        with pytest.raises(memlens.UsageError, match="growth needs a series") as raised:
            memlens.analyze(["plain.log", *logs * 20], analyzers=["growth"], executor=threads)
        assert raised.traceback  # whose frames hold on to all that was begun
        assert sum(future.cancelled() for future in futures) > 50
        assert len(futures) == 101


def spread(numbers: range, executor: Executor | None = None, jobs: int | None = None) -> dict[int, Any]:
    options = Spread(executor=executor) if jobs is None else Spread(scheduler="local", jobs=jobs)
    orders = [Order(str(number), Analyze()) for number in numbers]
    return dict(enumerate(spread_out(square_or_fail, orders, options, None)))


def test_what_one_raises_is_its_own_error_in_words(elsewhere: Executor) -> None:
    for found in (spread(range(7), elsewhere), spread(range(7), jobs=2)):
        assert [found.pop(number) for number in range(3)] == [0, 1, 4]
        assert str(found[3]) == "3 cannot be read\nTake 4."
        assert str(found[4]) == "4: it failed in its worker: ZeroDivisionError: by nothing"
        assert str(found[5]).startswith("5: it failed in its worker: MemoryError\nPerhaps memory ran out there")
        assert str(found[6]).startswith("6: it failed in its worker: TypeError: cannot pickle")


def test_where_a_pool_breaks_what_was_not_done_says_what_to_do() -> None:
    found = spread(range(7, 300), jobs=2)
    lost = [error for error in found.values() if isinstance(error, MemlensError)]
    assert sorted(found) == list(range(293))
    assert str(found[0]).startswith("7: its worker was lost: BrokenProcessPool: A process in the process pool was")
    assert {error.hint for error in lost} == {
        "Perhaps memory ran out there: give workers more, or read fewer logs at once (--jobs 1)."
    }
    assert [found[k] for k in found if found[k] not in lost] == [(k + 7) ** 2 for k in found if found[k] not in lost]
    assert len(spread(range(8, 20), jobs=2)) == 12  # the next pool is another one


class Ending(Executor):
    """Ends each call in its own way: an exception, or ``None`` for what it gives."""

    def __init__(self, *script: BaseException | None) -> None:
        self._script = iter(script)
        self.calls: list[Any] = []

    def submit(self, work: Callable[..., Any], /, *args: Any, **keywords: Any) -> Future[Any]:
        self.calls.append(args)
        future, ends_in = Future[Any](), next(self._script, None)
        if isinstance(ends_in, ProcessLookupError):
            raise ends_in
        if isinstance(ends_in, CancelledError):
            future.cancel()
        elif ends_in is not None:
            future.set_exception(ends_in)
        else:
            future.set_result(work(*args, **keywords))
        return future


@pytest.mark.parametrize(
    ("ends_in", "says"),
    [
        (BrokenExecutor("gone\nfar away"), "8: its worker was lost: BrokenExecutor: gone\nPerhaps memory ran out"),
        (CancelledError(), "8: its worker was lost: CancelledError\nPerhaps"),
        (ProcessLookupError("it is shut down"), "8: its worker was lost: ProcessLookupError: it is shut down"),
        (
            ModuleNotFoundError("No module named 'memlens'"),
            f"8: its worker cannot load memlens: ModuleNotFoundError: No module named 'memlens'\nInstall memlens {memlens.__version__}",
        ),
    ],
)
def test_what_an_executor_ends_in_costs_that_log_alone(ends_in: BaseException, says: str) -> None:
    found = spread(range(8, 11), Ending(ends_in))
    assert str(found[0]).startswith(says)
    assert (found[1], found[2]) == (81, 100)


def test_a_worker_with_another_memlens_says_which_and_runs_nothing() -> None:
    with pytest.raises(MemlensError, match=f"has memlens {memlens.__version__}, and it is asked by 99.1") as raised:
        at_worker("99.1", b"no pickle of this version", "ticket")
    assert f"pip install memlens=={memlens.__version__}" in raised.value.hint


@pytest.mark.parametrize("kind", [AnchorError, InputError, MemlensError, NoEventsError, OutputError, UsageError])
def test_errors_survive_the_way_between_processes(kind: type[MemlensError]) -> None:
    back = pickle.loads(pickle.dumps(kind("what is wrong", "what to do")))
    assert type(back) is kind
    assert (back.message, back.hint, str(back)) == ("what is wrong", "what to do", "what is wrong\nwhat to do")


def test_what_is_worked_out_later_is_worked_out_on_the_way() -> None:
    asked: list[int] = []

    def work(number: int) -> int:
        asked.append(number)
        return number * 2

    assert pickle.loads(pickle.dumps(Deferred(lambda: work(4)))) == 8
    assert pickle.loads(pickle.dumps(OnDemand(3, work))) == [0, 2, 4]
    assert asked == [4, 0, 1, 2]


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes by /proc")
@pytest.mark.parametrize("sent", some([signal.SIGINT, signal.SIGKILL], 2))
def test_no_process_stays_behind(tmp_path: Path, sent: signal.Signals) -> None:
    """Neither where Ctrl-C ends the command nor where it is killed, in the midst of packed logs."""
    import gzip

    packed = gzip.compress(made.log_text(1 << 30, blocks=1000, steps=50).encode(), 1) * 10
    names = [str(tmp_path / f"{number}.log.gz") for number in range(4)]
    for name in names:
        Path(name).write_bytes(packed)
    command = [sys.executable, "-m", "memlens", "analyze", *names, "--scheduler", "local", "--jobs", "2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env=os.environ | HERE, stdout=subprocess.DEVNULL)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while process.poll() is None and len(workers := children.read_text().split()) < 2:
        time.sleep(0.01)
    time.sleep(0.3)
    process.send_signal(sent)
    _, errors = process.communicate(timeout=60)
    if sent == signal.SIGINT:
        assert process.returncode == 130
        assert errors == b"memlens: interrupted\n"
    end = time.monotonic() + 20
    while time.monotonic() < end and any(map(alive, workers)):
        time.sleep(0.05)
    assert not any(map(alive, workers))


def alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
