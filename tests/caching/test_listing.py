"""``memlens cache`` and ``memlens.cache``: what is listed is what lies there, and what is cleared is gone."""

from __future__ import annotations

import csv
import io
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memlens
from memlens.cli import main
from memlens.errors import UsageError
from memlens.inputs.remote import without_secrets

pytest.importorskip("xxhash", reason="sums up what is kept")

LINE = "I0712 10:54:13.000001  1120 auto_growth_best_fit_allocator.cc:169] Alloc {} bytes, ptr = 0x100\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache folder, of an own home."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MEMLENS_CACHE", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("MEMLENS_CACHE_LIMIT", "1MiB")  # a part of the free room changes while a test runs
    return tmp_path / "home/memlens"


@pytest.fixture
def logs(tmp_path: Path) -> list[Path]:
    (tmp_path / "runs").mkdir()
    paths = [tmp_path / "runs" / f"{k}.log" for k in range(3)]
    for k, path in enumerate(paths):
        path.write_text(LINE.format(512 * (k + 1)))
    return paths


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.setenv("COLUMNS", "300")  # folders of tests have long names

    def call(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def sizes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def test_nothing_is_kept_at_first(folder: Path, run: Any) -> None:
    code, out, err = run("cache")
    assert (code, err, out.count("\n")) == (0, "", 1)
    assert out.startswith(f"{folder}  nothing is kept, of at most ")
    assert not folder.exists()


def test_what_is_kept_is_listed_with_what_it_takes_and_how_often_it_was_of_use(
    folder: Path, logs: list[Path], run: Any
) -> None:
    began = time.time()
    for path in logs:
        memlens.analyze(path, cache="user")
    for _ in range(2):
        memlens.analyze(logs[1], cache="user", by="Alloc")  # its anchors are entries too, and no hits
    found = memlens.cache()
    assert (found.folder, found.limit_bytes, found.total_bytes) == (str(folder), 1 << 20, sizes(folder))
    assert found.logs[0].path == str(logs[1])
    assert {log.path: (log.hits, log.entries, log.log_bytes) for log in found.logs} == {
        str(path): (2, 2, path.stat().st_size) if k == 1 else (0, 1, path.stat().st_size) for k, path in enumerate(logs)
    }
    for log in found.logs:
        assert began - 1 <= log.kept_us / 1e6 <= log.used_us / 1e6 + 0.1 <= time.time() + 1
    code, out, _ = run("cache")
    assert code == 0
    assert out.startswith(f"{folder}  3 logs kept in {memlens.format_bytes(found.total_bytes)}, of at most 1.00 MiB\n")
    assert all(str(path) in out for path in logs)


def test_the_machine_output_says_the_same(folder: Path, logs: list[Path], run: Any) -> None:
    memlens.analyze(logs[0], cache="user")
    listed = json.loads(run("cache", "--format", "json")[1])
    assert listed == memlens.cache().to_dict()
    assert (listed["schema"], listed["folder"], listed["cleared"]) == ("memlens.cache/1", str(folder), False)
    (row,) = csv.DictReader(io.StringIO(run("cache", "--format", "csv")[1]))
    assert row == {name: str(value) for name, value in listed["logs"][0].items()}
    assert "| Log |" in run("cache", "--format", "markdown")[1]


def test_all_of_it_or_that_of_some_logs_is_cleared(folder: Path, logs: list[Path], run: Any) -> None:
    for path in logs:
        memlens.analyze(path, cache="user")
    memlens.analyze(logs[0], cache="beside")
    left = folder / f".{'0' * 32}-{'1' * 16}.memlens.01234567.part"
    left.write_text("half")
    (folder / "notes.txt").write_text("not ours")
    _, out, _ = run("cache", "--clear", logs[0])
    assert out.startswith(f"{folder}  cleared 2 logs, ")
    assert not [path for path in logs[0].parent.iterdir() if path.suffix == ".memlens"]
    assert {log.path for log in memlens.cache().logs} == {str(path) for path in logs[1:]}
    found = memlens.cache(logs[1].parent, clear=True)
    assert (len(found.logs), found.cleared) == (2, True)
    assert os.listdir(folder) == ["notes.txt"]
    assert run("cache", "--clear")[1].startswith(f"{folder}  nothing to clear")


def test_what_lies_beside_logs_is_found_by_them_or_their_folder(folder: Path, logs: list[Path], run: Any) -> None:
    for path in logs[:2]:
        memlens.analyze(path, cache="beside")
    assert [log.path for log in memlens.cache(logs[0], cache="beside").logs] == [str(logs[0])]
    assert {log.path for log in memlens.cache(logs[0].parent).logs} == {str(path) for path in logs[:2]}
    assert not memlens.cache(logs[2]).logs
    with pytest.raises(UsageError, match="which logs"):
        memlens.cache(cache="beside")
    assert run("cache", "--cache", "beside")[0] == 2
    memlens.cache(logs, cache="beside", clear=True)
    assert sorted(os.listdir(logs[0].parent)) == [path.name for path in logs]
    assert not folder.exists()


def test_damaged_and_hostile_entries_are_listed_harmlessly_and_cleared(
    folder: Path, logs: list[Path], run: Any
) -> None:
    hostile = logs[0].with_name("\x1b[31m[red]\u202e.log")
    logs[0].rename(hostile)
    memlens.analyze(hostile, cache="user")
    (folder / f"{'0' * 32}-{'1' * 16}.memlens").write_bytes(b"no entry")
    os.mkfifo(folder / f"{'2' * 32}-{'1' * 16}.memlens")
    (folder / f"{'3' * 32}-{'1' * 16}.memlens").symlink_to("/nowhere")
    code, out, err = run("cache")
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert r"\x1b[31m[red]" in out
    assert out.count("(cannot be read)") == 3
    assert run("cache", "--clear")[0] == 0
    assert not os.listdir(folder)


def test_what_is_secret_in_a_url_is_not_written_down() -> None:
    assert without_secrets("https://me:word@host:1/a@b/run.log?X-Signature=1&b=2") == "https://host:1/a@b/run.log"
    assert without_secrets("s3://bucket/run.log") == "s3://bucket/run.log"


def test_every_verb_that_reads_logs_takes_a_cache(run: Any) -> None:
    for verb in ("analyze", "diff", "compare", "gate", "block", "report", "plot", "export"):
        assert "--cache WHERE" in run(verb, "--help")[1], verb
    for verb in ("slice", "watch", "record", "formats"):
        assert "--cache" not in run(verb, "--help")[1], verb
