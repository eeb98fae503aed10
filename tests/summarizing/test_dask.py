"""A real Dask cluster of several processes on this machine: what its workers find is what this process finds, to the byte."""

from __future__ import annotations

import gzip
import json
import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import made_runs as made
import pytest
from commands import process
from night import NIGHT, some

import memlens
from memlens.errors import MemlensError, UsageError
from memlens.inputs.built_in import BUILT_IN
from memlens.reports.compare import compare_blocks
from memlens.reports.gate import gate_blocks
from memlens.reports.terminal import render
from memlens.summarizing import workers

pytestmark = pytest.mark.changed("summarizing")

distributed: Any = pytest.importorskip("distributed", reason="needs the extra dask")

STEPS = r"STEP (\d+) START"
#: Logs of a run of the tests.
COUNT = 2000 if NIGHT else 120
#: The logs that are bad, by their place, and what becomes of them in a comparison.
TORN, MISSING, OTHER = 17, 51, 102


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
    ) as started:
        yield started


@pytest.fixture
def client(cluster: Any) -> Iterator[Any]:
    with distributed.Client(cluster, set_as_default=False) as connected:
        connected.wait_for_workers(2, timeout=30)
        yield connected


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Logs of two steps with rising peaks, of a few kilobytes each; one is torn, one missing, and one of another format."""
    folder = tmp_path_factory.mktemp("runs")
    names = []
    for number in range(COUNT):
        path = folder / f"workerlog.{number}"
        text = made.log_text((number + 1) * 4096, blocks=20 + number % 7, steps=2).encode()
        if number == TORN:
            packed = gzip.compress(text, mtime=0)
            path.write_bytes(packed[: len(packed) * 2 // 3])
        elif number == OTHER:
            path.write_text(next(form.sample for form in BUILT_IN if form.name == "rmm") * 3)
        elif number != MISSING:
            path.write_bytes(text)
        names.append(str(path))
    return names


def killing(client: Any, bytes_read: int) -> Callable[[int], None]:
    """Kills a worker, by its process id, once so many bytes are read; to be told of progress."""
    pids = list(client.run(os.getpid).values())

    def look(done: int) -> None:
        if done > bytes_read and pids:
            os.kill(pids.pop(), signal.SIGKILL)
            pids.clear()

    return look


def size(logs: list[str]) -> int:
    return sum(os.path.getsize(log) for log in logs if os.path.exists(log))


@pytest.mark.night
def test_many_logs_compared_while_a_worker_is_killed(client: Any, logs: list[str]) -> None:
    before = set(client.run(os.getpid).values())
    expected = memlens.compare(logs, by=STEPS)
    kill = killing(client, size(logs) // 4)
    shown: list[int] = []

    def progress(done: int) -> None:
        shown.append(done)
        kill(done)

    found = memlens.compare(logs, by=STEPS, executor=client.get_executor(), progress=progress)
    assert len(before - set(client.run(os.getpid).values())) == 1  # it was killed, and another one came
    assert json.dumps(found.to_dict()) == json.dumps(expected.to_dict())
    assert render(compare_blocks(found)) == render(compare_blocks(expected))
    peaks = [run.windows[0].peak_bytes for run in found.runs if run.status == "ok" and run.path not in bad(logs)]
    assert peaks == [(number + 1) * 4096 for number in range(len(logs)) if number not in (TORN, MISSING, OTHER)]
    assert found.runs[MISSING].status == "missing"
    assert found.runs[OTHER].status == "no_window"
    assert found.runs[TORN].doubts
    assert shown == sorted(set(shown))
    assert shown[-1] == size(logs)  # what was read twice is counted once


def bad(logs: list[str]) -> set[str]:
    return {logs[number] for number in (TORN, MISSING, OTHER)}


def test_a_log_is_judged_and_blamed_where_it_lies(
    client: Any, examples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pt, pir = (str(examples / f"case1_{name}.log") for name in ("pt", "pir"))
    monkeypatch.chdir(tmp_path)
    by, executor = r"START (SOT_CALL_\d+)", client.get_executor()
    kept = memlens.accept([pt, pt], "memory.json", by=by, executor=executor).render()
    assert Path("memory.json").read_text() == kept
    assert memlens.accept([pt, pt], "memory.json", by=by).render() == kept
    for options in ({"baseline": "memory.json"}, {"base": pt, "by": by}, {"base": pt}, {"budgets": ("peak=1MiB",)}):
        for log, failing in ((pir, True), (pt, "budgets" in options)):
            expected = memlens.gate(log, **options)
            found = memlens.gate(log, executor=executor, **options)
            assert (found.verdict == "regression") == failing
            assert json.dumps(found.to_dict()) == json.dumps(expected.to_dict())
            assert render(gate_blocks(found)) == render(gate_blocks(expected))
    with pytest.raises(memlens.InputError, match=r"^gone.log: no such file"):
        memlens.gate("gone.log", baseline="memory.json", executor=executor)
    with pytest.raises(memlens.InputError, match=r"^gone.log: no such file"):
        memlens.accept([pt, "gone.log"], "memory.json", by=by, executor=executor)


def test_real_logs_of_every_format_say_the_same(client: Any, shared: Path) -> None:
    data = shared / "data"
    found_logs = [
        *data.glob("paddle/*.log"),
        *data.glob("torch/snapshots/*.pickle"),
        *data.glob("torch/kineto/*.json*"),
    ]
    found_logs += data.glob("rmm/*.csv")
    logs = sorted(str(path) for path in found_logs if path.stat().st_size < 1 << 20)[:: 2 if NIGHT else 5]
    assert len(logs) > 7
    cuts: list[dict[str, Any]] = [{"by": STEPS}, {}, {"start": "STEP 1 START"}]
    for options in some([*cuts, {"analyzers": ("peak", "growth"), "times": False}]):
        expected = memlens.analyze(logs, **options)
        found = memlens.analyze(logs, executor=client.get_executor(), **options)
        assert json.dumps(found.to_dict()) == json.dumps(expected.to_dict())
        assert [str(one.answer) for one in found.logs] == [str(one.answer) for one in expected.logs]


def test_the_command_line_takes_a_cluster_that_exists(cluster: Any, logs: list[str]) -> None:
    def run(*arguments: str) -> tuple[int, str, str]:
        ran = process(*arguments, logs[0], logs[TORN], logs[MISSING], logs[OTHER])
        return ran.returncode, ran.stdout, ran.stderr

    for verb in some(("compare", "analyze")):
        assert run(verb, "--scheduler", cluster.scheduler_address) == run(verb)


def test_a_cluster_that_is_none_is_an_error_in_words(logs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_CONNECT_SECONDS", 0.5)
    with pytest.raises(MemlensError, match="no Dask cluster with a worker answers") as raised:
        memlens.compare(logs[:2], scheduler="tcp://127.0.0.1:1")
    assert "dask worker tcp://127.0.0.1:1" in raised.value.hint
    with pytest.raises(UsageError, match="is no scheduler"):
        memlens.compare(logs[:2], scheduler="slurm")


@pytest.mark.parametrize("address", ["http://127.0.0.1:1", "tcp://127.0.0.1", "tcp://127.0.0.1:x", "tls://127.0.0.1:1"])
def test_of_an_address_that_is_none_no_client_is_made(
    address: str, logs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(*_: object, **__: object) -> None:
        pytest.fail("it would wait 20 s for its own end, and write a traceback then")

    monkeypatch.setattr(distributed, "Client", made)
    with pytest.raises(MemlensError, match="no Dask cluster with a worker answers"):
        memlens.compare(logs[:2], scheduler=address)


def test_a_cluster_without_a_worker_is_an_error_in_words(logs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_WORKER_SECONDS", 0.5)
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=logging.CRITICAL) as empty,
        pytest.raises(MemlensError, match="no Dask cluster with a worker answers: Only 0/1"),
    ):
        memlens.compare(logs[:2], scheduler=empty.scheduler_address)


@pytest.mark.night
def test_workers_that_cannot_load_memlens_say_what_to_install(logs: list[str], tmp_path: Path) -> None:
    block = tmp_path / "without_memlens.py"
    block.write_text("import sys\nsys.modules['memlens'] = None\n")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL, preload=[str(block)]
    ) as bare:
        found = memlens.compare(logs[:3], scheduler=bare.scheduler_address)
    assert {run.status for run in found.runs} == {"unreadable"}
    for run in found.runs:
        assert run.message.startswith(f"{run.path}: its worker cannot load memlens: ")
        assert f"pip install memlens=={memlens.__version__}" in run.hint
