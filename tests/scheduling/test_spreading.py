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
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import made_runs as made
import pytest

import memlens
from memlens.analyzers.result import Each, Later
from memlens.inputs.streams import NamedPath, open_bytes
from memlens.options import Spread
from memlens.scheduling import executors, spreading
from memlens.scheduling.executors import LocalProcesses, opened

STEPS = r"STEP (\d+) START"
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


@pytest.mark.parametrize("gone", ["runs/workerlog.77", "./runs/worklog.1", "no/such/folder.log", "runs", ""])
@pytest.mark.parametrize(
    "options", [{}, {"by": STEPS}, {"start": "STEP 2 START"}, {"top": 0, "by": STEPS}, {"start": "none"}]
)
def test_names_are_those_that_were_given(
    logs: list[str], elsewhere: Executor, gone: str, options: dict[str, Any]
) -> None:
    given: list[Any] = [*logs, gone, f"../{Path.cwd().name}/{logs[1]}", Path(logs[2])]
    expected, found = memlens.analyze(given, **options), memlens.analyze(given, executor=elsewhere, **options)
    assert text(found) == text(expected)
    cut = {key: value for key, value in options.items() if key != "top"}
    assert text(memlens.compare(given, executor=elsewhere, **cut)) == text(memlens.compare(given, **cut))


def test_the_only_log_is_analyzed_as_it_is_here_with_its_curve(logs: list[str], elsewhere: Executor) -> None:
    expected, found = memlens.analyze(logs[0]), memlens.analyze(logs[0], executor=elsewhere)
    assert text(found) == text(expected)
    assert found.logs[0].curve is not None
    assert repr(found.logs[0].curve) == repr(expected.logs[0].curve)
    with pytest.raises(memlens.InputError, match=r"^gone.log: no such file"):
        memlens.analyze("gone.log", executor=elsewhere)
    with pytest.raises(memlens.AnchorError):
        memlens.analyze(logs[0], start="no such line", executor=elsewhere)


def test_a_long_series_comes_back_whole(tmp_path: Path, elsewhere: Executor) -> None:
    """More windows than are settled at once where several logs are read here."""
    long = tmp_path / "long.log"
    long.write_text(made.log_text(1 << 20, blocks=3, steps=250))
    options: dict[str, Any] = {"by": STEPS, "top": None}
    expected, found = (
        memlens.analyze([long, long], **options),
        memlens.analyze([long, long], executor=elsewhere, **options),
    )
    assert text(found) == text(expected)
    assert found.to_pandas().equals(expected.to_pandas())
    assert [window.peak_time_us for window in found.logs[0].windows] == [
        window.peak_time_us for window in expected.logs[0].windows
    ]


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


def test_urls_are_opened_by_the_worker(logs: list[str], elsewhere: Executor) -> None:
    pytest.importorskip("fsspec")
    url = f"local://{Path(logs[3]).resolve()}"
    found = memlens.compare([url, "nosuch://bucket/a.log"], executor=elsewhere)
    assert found.runs[0].windows[0].peak_bytes == 4 * 4096
    assert text(found) == text(memlens.compare([url, "nosuch://bucket/a.log"]))


@pytest.mark.parametrize("spread", [{}, {"jobs": 2}, {"scheduler": "local"}, {"executor": "threads"}])
def test_progress_rises_to_the_bytes_of_all_logs_and_no_further(logs: list[str], spread: dict[str, Any]) -> None:
    seen: list[int] = []
    with ThreadPoolExecutor(2) as threads:
        if spread.get("executor"):
            spread = {"executor": threads}
        memlens.analyze([*logs, "gone.log"], progress=seen.append, **spread)
    assert seen == sorted(seen)
    assert seen[-1] == sum(map(os.path.getsize, logs))


def test_processes_of_this_machine_tell_of_the_bytes_of_a_log_that_they_are_at(tmp_path: Path) -> None:
    """Two packed logs, each read by a process whole: what is shown is more than those that are done."""
    import gzip

    names = []
    for number in range(2):
        names.append(str(tmp_path / f"{number}.log.gz"))
        lines = made.log_text(1 << 30, blocks=200, steps=1000).encode()
        Path(names[-1]).write_bytes(gzip.compress(lines, 1))
    sizes = list(map(os.path.getsize, names))
    seen: list[int] = []
    memlens.compare(names, scheduler="local", progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == sum(sizes)
    assert [size for size in seen if size not in (*sizes, sum(sizes))]


def test_what_a_lost_worker_had_read_is_shown_once() -> None:
    seen: list[int] = []
    count = spreading._Count(seen.append)
    count.reading(50)
    count.reading(20)  # it was lost with 40, and somebody else is at 10
    count.done(60)  # what was read of another one
    count.reading(30)
    count.done(40)
    assert seen == [50, 60, 90, 100]


def test_processes_of_ours_end_in_the_midst_of_what_they_do() -> None:
    began = time.monotonic()
    with LocalProcesses(1) as pool:
        future = pool.submit(time.sleep, 100)
        while not future.running():
            time.sleep(0.01)
    assert time.monotonic() - began < 60


def test_ways_to_share_out_exclude_each_other(logs: list[str]) -> None:
    with ThreadPoolExecutor(1) as threads:
        for spread in (
            {"executor": threads, "jobs": 2},
            {"executor": threads, "scheduler": "local"},
            {"scheduler": "tcp://127.0.0.1:8786", "jobs": 2},
            {"jobs": 0},
            {"scheduler": "slurm"},
        ):
            with pytest.raises(memlens.UsageError):
                memlens.analyze(logs, **spread)


def test_wrong_usage_comes_back_from_any_worker(logs: list[str], elsewhere: Executor) -> None:
    Path("plain.log").write_text(made.log_text(4096))
    with pytest.raises(memlens.UsageError, match="growth needs a series"):
        memlens.analyze([*logs, "plain.log"], analyzers=["growth"], executor=elsewhere)


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


def test_an_executor_of_somebody_else_stays_open(logs: list[str]) -> None:
    with ThreadPoolExecutor(1) as threads:
        with opened(Spread(executor=threads)) as executor:
            assert executor is threads
        assert len(memlens.compare(logs, executor=threads).runs) == 5
        assert threads.submit(len, "abc").result() == 3


def test_jobs_are_processes_and_one_job_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "may_fork", lambda: True)
    for spread, workers in ((Spread(jobs=3), 3), (Spread(scheduler="local", jobs=5), 5)):
        with opened(spread) as executor:
            assert isinstance(executor, LocalProcesses)
            assert executor.ahead == 2 * workers
    monkeypatch.setattr(executors, "may_fork", lambda: False)  # what is asked for by name needs no fork
    for spread, processes in ((Spread(), False), (Spread(jobs=4), False), (Spread(scheduler="local"), True)):
        with opened(spread) as executor:
            assert isinstance(executor, LocalProcesses) == processes


def test_what_is_worked_out_later_is_worked_out_on_the_way() -> None:
    asked: list[int] = []

    def work(number: int) -> int:
        asked.append(number)
        return number * 2

    assert pickle.loads(pickle.dumps(Later(work, 4))) == 8
    assert pickle.loads(pickle.dumps(Each(3, work))) == [0, 2, 4]
    assert asked == [4, 0, 1, 2]


def test_a_path_keeps_its_name_on_the_way(tmp_path: Path) -> None:
    path = pickle.loads(pickle.dumps(NamedPath(str(tmp_path / "a.log"), name="a.log")))
    assert (path, path.name) == (str(tmp_path / "a.log"), "a.log")
    with pytest.raises(memlens.InputError, match=r"^a.log: no such file"):
        open_bytes(path)


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes by /proc")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_no_process_stays_behind(tmp_path: Path, sent: signal.Signals) -> None:
    """Neither where Ctrl-C ends the command nor where it is killed, in the midst of packed logs."""
    import gzip

    packed = gzip.compress(made.log_text(1 << 30, blocks=1000, steps=500).encode(), 1)
    names = [str(tmp_path / f"{number}.log.gz") for number in range(4)]
    for name in names:
        Path(name).write_bytes(packed)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", "memlens", "analyze", *names, "--scheduler", "local", "--jobs", "2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment, stdout=subprocess.DEVNULL)
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
