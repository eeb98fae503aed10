"""Inputs with several devices side by side, and cells of a matrix without a file."""

from __future__ import annotations

from pathlib import Path

import made_runs as made
import pytest
from traces import write_trace

import memlens
from memlens.comparing.result import Comparison
from memlens.errors import UsageError
from memlens.summarizing.figures import METRICS
from memlens.summarizing.summary import Run


def held(run: Run) -> int | None:
    return run.windows[0].remaining_bytes if run.windows else None


def changes(found: Comparison) -> list[int | None]:
    metric = next(metric for metric in METRICS if metric.key == "remaining_bytes")
    return [found.change(run, None, metric) for run in found.runs]


def test_a_trace_of_cpu_and_gpu_is_compared_by_its_gpu(tmp_path: Path) -> None:
    base = write_trace(tmp_path / "base.json", cpu=(64, 64), gpu0=(512,))
    head = write_trace(tmp_path / "head.json", cpu=(8,), gpu0=(512, 1024))
    found = memlens.compare([base, head])
    assert [run.path for run in found.runs] == [str(base), str(head)]
    assert [held(run) for run in found.runs] == [512, 1536]
    assert changes(found) == [None, 1024]
    assert all("memory of the CPU is left out" in run.remarks[-1] for run in found.runs)
    assert found.to_dict()["runs"][0]["device"] == 0
    alone = memlens.compare([base, head], device=-1)
    assert [held(run) for run in alone.runs] == [128, 8]
    assert not any(run.remarks for run in alone.runs)


def test_each_gpu_is_a_row_and_compared_with_the_gpu_of_its_number(tmp_path: Path) -> None:
    base = write_trace(tmp_path / "base.json", cpu=(8,), gpu0=(512,), gpu1=(1024,))
    head = write_trace(tmp_path / "head.json", gpu1=(4096,), gpu0=(2048,), gpu2=(1,))
    found = memlens.compare([base, head])
    assert [(run.path, held(run)) for run in found.runs] == [
        (f"{base} [device 0]", 512),
        (f"{base} [device 1]", 1024),
        (f"{head} [device 0]", 2048),
        (f"{head} [device 1]", 4096),
        (f"{head} [device 2]", 1),
    ]
    assert changes(found) == [None, None, 1536, 3072, None]
    assert changes(memlens.compare([base, head], base=str(head))) == [-1536, -3072, None, None, None]
    assert [held(run) for run in memlens.compare([base, head], device=1).runs] == [1024, 4096]


def test_the_devices_of_a_template_are_one_more_field(tmp_path: Path) -> None:
    for branch, size in (("dev", 512), ("pr", 1024)):
        write_trace(tmp_path / branch / "t.json", cpu=(8,), gpu0=(size,), gpu1=(2 * size,))
    found = memlens.compare(f"{tmp_path}/{{branch}}/t.json", base="branch=dev")
    assert found.layout.cols == "branch"
    assert found.layout.rows == ("device",)
    assert [(run.fields, held(run)) for run in found.runs] == [
        ({"branch": "dev", "device": "0"}, 512),
        ({"branch": "dev", "device": "1"}, 1024),
        ({"branch": "pr", "device": "0"}, 1024),
        ({"branch": "pr", "device": "1"}, 2048),
    ]
    assert changes(found) == [None, None, 512, 1024]
    assert memlens.compare(f"{tmp_path}/{{branch}}/t.json", rows="device", cols="branch").layout.rows == ("device",)
    with pytest.raises(UsageError, match="has a field 'device' already"):
        memlens.compare(f"{tmp_path}/{{device}}/t.json")


def logs(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made.log_text(made.MIB))


def test_each_cell_without_a_file_is_a_run_that_is_missing(tmp_path: Path) -> None:
    logs(tmp_path, "32/dev.log", "32/pr.log", "64/dev.log", "128/pr.log")
    found = memlens.compare(f"{tmp_path}/{{gbs}}/{{branch}}.log", cols="branch")
    runs = found.to_dict()["runs"]
    assert [(run["fields"]["gbs"], run["fields"]["branch"], run["status"]) for run in runs] == [
        ("32", "dev", "ok"),
        ("32", "pr", "ok"),
        ("64", "dev", "ok"),
        ("64", "pr", "missing"),
        ("128", "dev", "missing"),
        ("128", "pr", "ok"),
    ]
    assert runs[3]["path"] == f"{tmp_path}/64/pr.log"
    assert runs[3]["message"] == f"{tmp_path}/64/pr.log: no such file"
    assert runs[3]["base"] == f"{tmp_path}/64/dev.log"
    assert [row["status"] for row in found.rows()].count("missing") == 2
    assert len(found.to_pandas()) == 6


def test_rows_that_exist_nowhere_are_no_cells_where_most_combinations_are_none(tmp_path: Path) -> None:
    logs(tmp_path, *(f"{number}/{number}/{branch}.log" for number in range(4) for branch in "ab"))
    found = memlens.compare(f"{tmp_path}/{{gbs}}/{{rank}}/{{branch}}.log")
    assert len(found.runs) == 8
