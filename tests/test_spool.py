"""Columns in a temporary file say what columns in memory say, and the file leaves nothing behind."""

from __future__ import annotations

import errno
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from made_logs import made_log
from night import NIGHT, some

import memlens
from memlens import MemlensError, folding, spool
from memlens.inputs import Reading, blocks
from memlens.native import load

#: A program that reads a log whose columns are in a file, says so, and waits.
READS = """
import sys, time
from memlens import read
from memlens import spool
from memlens.inputs import blocks
spool.IN_MEMORY, blocks.BLOCK_BYTES = 100, 1000
log = read(sys.argv[1])
log.lifetimes
print("read", flush=True)
time.sleep(60)
"""
#: Without the compiled modules partners are found in memory.
COMPILED = load("memlens._columns") is not None
CUTS: tuple[dict[str, Any], ...] = (
    {},
    {"by": r"START STEP_\d+"},
    {"start_regex": r"START STEP_\d+", "nth": 2, "end": ["START BACKWARD"]},
    {"whole": True, "times": False},
)


@contextmanager
def spooled(size: int, in_memory: int = 100, at_once: int = 64) -> Iterator[None]:
    """Text comes in blocks of so many bytes, so many bytes of columns are held in memory, and so many entries are looked at together."""
    with (
        mock.patch.object(blocks, "BLOCK_BYTES", size),
        mock.patch.object(spool, "IN_MEMORY", in_memory),
        mock.patch.object(spool, "_AT_ONCE", at_once),
        mock.patch.object(folding, "BATCH", max(at_once // 2, 1)),
    ):
        yield


def result(work: Any) -> Any:
    """What work gives, or the error that it ends in, as text."""
    try:
        return work()
    except MemlensError as error:
        return str(error)


def is_mapped(column: Any) -> bool:
    """Whether a column is in a file."""
    while isinstance(column, np.ndarray):
        column = column.base
    return type(getattr(column, "obj", column)).__name__ == "mmap"


def columns_of(path: Path) -> list[dict[str, Any]]:
    logs = Reading(times=True, threads=True, requests=True).read_all(path)
    return [
        {
            name: column.tolist()
            for name in log.__struct_fields__
            if isinstance(column := getattr(log, name), np.ndarray)
        }
        | {"stats": None if log.facts.stat_lines is None else log.facts.stat_lines.current.tolist()}
        | {"requests": None if log.facts.requests is None else log.facts.requests.after.tolist()}
        for log in logs
    ]


@pytest.mark.parametrize("seed", some(range(12), 6))
def test_made_logs(seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"spooled {seed}")
    path = tmp_path / "made.log"
    path.write_text(made_log(rng, rng.choice([50, 300, 900 if NIGHT else 150])))
    for cut in CUTS:
        size, room = rng.choice([300, 1000, 4000]), rng.choice([0, 500, 5000])

        def found(cut: dict[str, Any] = cut) -> Any:
            return result(lambda: memlens.analyze(path, top=None, **cut).to_dict())

        with mock.patch.object(blocks, "BLOCK_BYTES", size):  # where a message lies in two blocks depends on them
            in_memory = found(), columns_of(path)
        with spooled(size, room, rng.choice([3, 17, 100])):
            assert (found(), columns_of(path)) == in_memory, (cut, size, room)


@pytest.mark.parametrize("seed", some(range(4)))
def test_runs_compared_and_judged(seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"judged {seed}")
    base, head = tmp_path / "base.log", tmp_path / "head.log"
    for path in (base, head):
        path.write_text(made_log(rng, 700 if NIGHT else 250))

    def found() -> Any:
        compared = [memlens.compare([base, head], by=cut, jobs=1).to_dict() for cut in (None, r"STEP_\d+")]
        limits = {"limits": ["reserved=0", "growth=0"], "budgets": ["peak=1MiB"], "trust": False}
        return compared, memlens.gate(head, base=base, **limits).to_dict(), memlens.diff(base, head).to_dict()  # type: ignore[arg-type]

    with mock.patch.object(blocks, "BLOCK_BYTES", 1000):
        in_memory = found()
    with spooled(1000, at_once=200):
        assert found() == in_memory


@pytest.mark.parametrize("part", some(range(8), 8))
@pytest.mark.parametrize("cut", [{}, {"by": r"(?i)(step|SOT_CALL)[ _]\d+"}])
def test_real_logs(part: int, cut: dict[str, Any], shared: Path) -> None:
    paths = [
        path
        for folder in ("paddle", "rmm", "traps")
        for path in sorted((shared / "data" / folder).iterdir())
        if path.is_file() and path.stat().st_size < 1 << 19 and not path.name.endswith((".json", ".md"))
    ]
    checked = 0
    for path in some(paths[part::8], 3):

        def found(path: Path = path) -> Any:
            analyzed = memlens.analyze(path, top=None, **cut).to_dict()
            for one in analyzed["logs"]:
                one.pop("remedy")
            return analyzed, columns_of(path)

        with mock.patch.object(blocks, "BLOCK_BYTES", 1 << 15):
            in_memory = result(found)
        with spooled(1 << 15, at_once=1 << 10):
            assert result(found) == in_memory, path.name
        checked += not isinstance(in_memory, str)
    assert checked > 1


def test_devices_of_a_format_of_ones_own(tmp_path: Path) -> None:
    form = tmp_path / "formats.toml"
    form.write_text(
        '[[format]]\nname = "pool"\nsummary = "a pool"\nliteral = "pool: "\n'
        "regex = 'pool: (?P<kind>take|give) (?:(?P<size>[0-9]+) )?at (?P<addr>0x[0-9a-f]+)(?: gpu(?P<device>\\d+))?(?: by (?P<thread>\\w+))?'\n"
        'alloc = ["take"]\nfree = ["give"]\nsamples = ["pool: take 4 at 0x1 gpu0 by a"]\n'
    )
    rng, path = random.Random(2), tmp_path / "pool.log"
    lines = [
        f"pool: {rng.choice(['take 4096', 'give'])} at {rng.choice([0x10, 0x20, 0x30, 0x40]):#x} gpu{rng.randrange(3)} by t{rng.randrange(4)}\n"
        for _ in range(400)
    ]
    path.write_text("".join(lines))

    def found() -> Any:
        return memlens.analyze(path, formats=form, top=None).to_dict()

    with mock.patch.object(blocks, "BLOCK_BYTES", 1000):
        in_memory = found()
    assert len(in_memory["logs"]) == 3
    with spooled(1000, at_once=7):
        assert found() == in_memory


@pytest.fixture
def made(tmp_path: Path) -> Path:
    path = tmp_path / "made.log"
    path.write_text(made_log(random.Random(7), 800))
    return path


def test_columns_in_a_file_can_be_handed_to_another_process(made: Path) -> None:
    log = memlens.read(made)
    with spooled(1000):
        mapped = memlens.read(made)
        assert is_mapped(mapped.size)
        assert is_mapped(mapped.lifetimes.partner) == COMPILED
    for name in ("kind", "size", "addr", "offset"):
        assert (pickle.loads(pickle.dumps(getattr(mapped, name))) == getattr(log, name)).all()
    assert mapped.to_pandas().equals(log.to_pandas())


def test_a_small_log_touches_no_disk(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "_File", lambda: pytest.fail("a file was made"))
    memlens.analyze(made).to_dict()
    log = memlens.read(made)
    assert not is_mapped(log.size)
    assert not is_mapped(log.lifetimes.partner)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="what a process has open is listed by Linux alone")
def test_the_file_has_no_name_and_is_gone_with_its_process(made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    environment = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen([sys.executable, "-c", READS, str(made)], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"read\n"
        maps = Path(f"/proc/{process.pid}/maps").read_text().splitlines()
        mapped = [line for line in maps if str(folder) in line]
        assert mapped
        assert all(line.endswith("(deleted)") for line in mapped)
        assert os.listdir(folder) == []
        process.send_signal(signal.SIGKILL)
    assert os.listdir(folder) == []


def test_the_file_has_no_name_where_the_system_has_no_such_files(made: Path, tmp_path: Path) -> None:
    log = memlens.read(made)
    with (
        spooled(1000),
        mock.patch.object(tempfile, "tempdir", str(tmp_path)),
        mock.patch.object(os, "O_TMPFILE", 0),  # a folder cannot be opened to be written
        mock.patch.object(os, "posix_fallocate", None),
    ):
        del os.posix_fallocate
        mapped = memlens.read(made)
        assert (mapped.lifetimes.partner == log.lifetimes.partner).all()
        assert os.listdir(tmp_path) == [made.name]


def test_a_file_is_closed_with_its_last_column(made: Path) -> None:
    folder = Path("/proc/self/fd")
    if not folder.is_dir():
        pytest.skip("what a process has open is listed by Linux alone")
    before = len(os.listdir(folder))
    with spooled(1000):
        log = memlens.read(made)
        assert log.lifetimes.partner is not None
        assert len(os.listdir(folder)) > before
        del log
    assert len(os.listdir(folder)) == before


@pytest.mark.parametrize("call", ["pwrite", *["posix_fallocate"][:COMPILED]])
def test_a_full_folder_is_named(call: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, full)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with spooled(1000), pytest.raises(MemlensError) as refused:
        _ = memlens.read(made).lifetimes
    assert f"{tmp_path} has no room left" in refused.value.message
    assert "TMPDIR" in refused.value.hint


def test_a_limit_of_the_size_of_files_is_an_error(made: Path) -> None:
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n" + READS
    done = subprocess.run([sys.executable, "-c", limited, str(made)], capture_output=True, check=False)
    assert done.returncode == 1
    assert b"cannot be written to (File too large)" in done.stderr


def test_a_folder_that_cannot_be_written_to_is_named(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/proc")
    with (
        spooled(1000),
        pytest.raises(MemlensError, match=r"the folder of temporary files, /proc, cannot be written to"),
    ):
        memlens.read(made)

    def none() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/x']")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    with spooled(1000), pytest.raises(MemlensError, match=r"no folder .* can be written to \(No usable .* \['/x'\]\)"):
        memlens.read(made)
