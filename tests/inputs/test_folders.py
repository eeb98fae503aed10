"""A folder stands for the logs in it: those whose content tells, by name, and nothing of it is left out in silence."""

from __future__ import annotations

import bz2
import gzip
import os
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from made_runs import MIB, log_text

import memlens
from memlens.errors import InputError
from memlens.inputs import expanded
from memlens.options import ReadAs

pytestmark = pytest.mark.changed("inputs")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Eleven ranks, one of them compressed, beside things that are no logs."""
    runs = tmp_path / "runs"
    runs.mkdir()
    for rank in range(11):
        text = log_text((rank + 1) * MIB).encode()
        name = f"workerlog.{rank}" + (".gz" if rank == 3 else "")
        (runs / name).write_bytes(gzip.compress(text) if rank == 3 else text)
    (runs / "README.md").write_text("# What this is\n")
    (runs / "run.stats.json").write_text("{}\n")
    (runs / "empty.log").write_bytes(b"")
    (runs / ".hidden.log").write_text(log_text(MIB))
    (runs / "older").mkdir()
    (runs / "older" / "workerlog.0").write_text(log_text(MIB))
    return runs


RANKS = [f"workerlog.{rank}" + (".gz" if rank == 3 else "") for rank in range(11)]
OTHERS = ["README.md", "empty.log", "run.stats.json"]


def test_logs_come_by_name_and_numbers_in_names_by_size(folder: Path) -> None:
    left_out: list[tuple[str, Any]] = []
    found = expanded([str(folder)], ReadAs(), lambda *said: left_out.append(said))
    assert found == [str(folder / name) for name in RANKS]
    assert left_out == [(str(folder), OTHERS)]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_not_left_out(folder: Path) -> None:
    (folder / "workerlog.5").chmod(0)
    assert "workerlog.5" in memlens.analyze(folder).failures[0].message


def test_a_folder_without_a_log_says_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a directory without a log; it has no file"):
        memlens.analyze(tmp_path)
    (tmp_path / "notes.txt").write_text("nothing\n")
    (tmp_path / "rank0").mkdir()
    with pytest.raises(InputError, match=r"none of its files begins like one: notes\.txt") as caught:
        memlens.analyze(tmp_path)
    assert caught.value.hint == "It has directories: rank0. Name one of them."
    log = tmp_path / "rank0" / "run.log"
    log.write_text(log_text(MIB))
    analysis = memlens.analyze([tmp_path, log])
    assert [one.path for one in analysis.logs] == [str(log)]
    assert "without a log" in analysis.failures[0].message


def test_where_one_log_is_needed_one_is_named(folder: Path) -> None:
    for judge in (memlens.read, partial(memlens.gate, budgets=["peak=1GiB"])):
        with pytest.raises(InputError, match="is a directory") as caught:
            judge(folder)
        assert caught.value.hint == f"Name one log in it, like {folder / 'workerlog.0'} (or one of 10 others)."
    with pytest.raises(InputError, match="is a directory"):
        memlens.diff(folder, folder / "workerlog.0")


@cache
def long_rank() -> bytes:
    return bz2.compress(log_text(12 * MIB, blocks=20_000).encode())


@pytest.fixture
def elsewhere(folder: Path) -> Iterator[str]:
    """The same folder in a store."""
    files = pytest.importorskip("fsspec", reason="pip install 'memlens[remote]'").filesystem("memory")
    for path in folder.rglob("*"):
        if path.is_file():
            files.pipe(f"/runs/{path.relative_to(folder).as_posix()}", path.read_bytes())
    files.pipe("/runs/workerlog.11.bz2", long_rank())
    yield "memory://runs/"
    files.rm("/runs", recursive=True)


@pytest.mark.night
def test_a_url_that_ends_with_a_slash_stands_for_the_logs_there(elsewhere: str) -> None:
    left_out: list[tuple[str, Any]] = []
    found = expanded([elsewhere], ReadAs(), lambda *said: left_out.append(said))
    assert found == [f"{elsewhere}{name}" for name in [*RANKS, "workerlog.11.bz2"]]
    assert left_out == [(elsewhere, OTHERS)]
    below = expanded([elsewhere], ReadAs(), below=pytest.fail)
    assert below == [*found, f"{elsewhere}older/workerlog.0"]
    assert [run.path for run in memlens.compare(elsewhere).runs] == found


@pytest.mark.night
def test_a_template_finds_logs_in_a_store(elsewhere: str) -> None:
    found = memlens.compare(f"{elsewhere}workerlog.{{rank}}").runs
    assert [run.fields["rank"] for run in found][:4] == ["0", "1", "2", "3.gz"]
    (run,) = memlens.compare(f"{elsewhere}{{age}}/workerlog.0").runs
    assert (run.path, run.fields) == (f"{elsewhere}older/workerlog.0", {"age": "older"})
    with pytest.raises(InputError, match="no file matches") as caught:
        memlens.compare(f"{elsewhere}nothing/{{rank}}.log")
    assert str(caught.value.hint) == f"{elsewhere}nothing/ has no such folder."


def test_a_folder_elsewhere_that_cannot_be_used_is_said(elsewhere: str) -> None:
    for url, says in (
        ("memory://runs/nothing/", "no such folder"),
        (f"{elsewhere}older", "is a directory"),
        ("nonsense://runs/", "nonsense"),
    ):
        with pytest.raises(InputError, match=says):
            memlens.analyze(url)
    with pytest.raises(InputError, match="is a directory") as caught:
        memlens.diff(elsewhere, elsewhere)
    assert f"{elsewhere}workerlog.0" in str(caught.value.hint)


def test_slashes_too_many_at_the_end_of_a_url_mean_the_same_folder(elsewhere: str) -> None:
    assert expanded([f"{elsewhere}//"], ReadAs()) == expanded([elsewhere], ReadAs())


def test_a_folder_is_looked_into_through_a_cache_of_its_driver(elsewhere: str) -> None:
    found = expanded([f"simplecache::{elsewhere}"], ReadAs())
    assert found == [f"simplecache::{path}" for path in expanded([elsewhere], ReadAs())]


@pytest.mark.parametrize(
    "name", ["50%25.log", "100%.log", "h#1.log", "q?a=b.log", "new\nline.log", "tab\t.log", "ü b.log"]
)
def test_a_name_in_a_file_url_is_that_of_the_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / name).write_text(log_text(MIB))
    (tmp_path / "runs" / "50%.log").write_text(log_text(2 * MIB))
    url = f"file://{tmp_path}/runs/"
    for given in (url, f"{url}{{run}}.log"):
        peaks = sorted(run.windows[0].peak_bytes or 0 for run in memlens.compare(given).runs)
        assert peaks == [MIB, 2 * MIB]
