"""Logs in an S3-compatible store: read and looked up by ranges, which are counted from what the store wrote down."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import zstandard
from s3_server import Store, storing

missing = [name for name in ("s3fs", "moto", "flask_cors") if find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}, which is not installed")

MIB = 1 << 20
#: The first range, and the others.
FIRST, RANGE, PAGE = MIB, 2 * MIB, 1 << 16


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with storing(tmp_path_factory.mktemp("store") / "asked") as running:
        yield running


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory, shared: Path, store: Store) -> Path:
    """Real logs in a folder, and under the same names in the store."""
    folder, paddle = tmp_path_factory.mktemp("logs"), shared / "data" / "paddle"
    for name in (
        *("331_dygraph_cnn.log", "30_ast_transformer_pt.log", "30b2_ast_transformer_pt.log", "05_oom_331.log"),
        *("05_leak_graph_331.log.gz", "21_dense_dygraph_cnn_331.part.log.zst"),
    ):
        (folder / name).write_bytes((paddle / name).read_bytes())
    with (paddle / "21_dense_dygraph_cnn_331.part.log.zst").open("rb") as packed:
        (folder / "dense.log").write_bytes(zstandard.ZstdDecompressor().stream_reader(packed).read())
    (folder / "notes.md").write_text("# What this is\n")
    (folder / "_SUCCESS").write_bytes(b"")
    for rank in range(2):
        (folder / f"node{rank}").mkdir()
        (folder / f"node{rank}" / f"workerlog.{rank}").write_bytes((paddle / "331_dygraph_cnn.log").read_bytes())
    for path in folder.rglob("*"):
        if path.is_file():
            store.put(path.relative_to(folder).as_posix(), path.read_bytes())
    return folder


def memlens(store: Store, *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "memlens", *words], env=store.environment, capture_output=True, check=False
    )


def in_python(store: Store, code: str) -> Any:
    """What some code prints as JSON: the driver's thread would outlive the test in this process."""
    found = subprocess.run(
        [sys.executable, "-c", code], env=store.environment, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


def spans(store: Store, name: str) -> list[tuple[int, int]]:
    return sorted((one["range"][0], one["range"][1]) for one in store.asked(name))


@pytest.mark.parametrize(
    "words",
    [
        [
            *(
                "analyze",
                "LOGS/331_dygraph_cnn.log",
                "LOGS/05_oom_331.log",
                "LOGS/05_leak_graph_331.log.gz",
                "LOGS/dense.log",
            ),
            *("LOGS/21_dense_dygraph_cnn_331.part.log.zst", "--format", "json"),
        ],
        ["analyze", "LOGS/dense.log", "--by", r"STEP (\d+) START", "--format", "json"],
        ["compare", "LOGS/30_ast_transformer_pt.log", "LOGS/30b2_ast_transformer_pt.log", "--format", "json"],
        ["compare", "--template", "LOGS/node{node}/workerlog.{rank}", "--format", "json"],
        ["ranks", "LOGS/", "--format", "json"],
    ],
    ids=["analyze", "by", "compare", "template", "folder"],
)
def test_what_is_said_of_logs_in_a_store_is_what_is_said_of_files(store: Store, logs: Path, words: list[str]) -> None:
    far = memlens(store, *(word.replace("LOGS/", "s3://logs/") for word in words))
    near = memlens(store, *(word.replace("LOGS", str(logs)) for word in words))
    assert far.stderr == near.stderr.replace(str(logs).encode(), b"s3://logs")
    assert far.returncode == near.returncode
    assert far.stdout.replace(b"s3://logs", str(logs).encode()) == near.stdout
    assert len(near.stdout) > 1000


def test_a_piece_of_a_log_in_a_store_is_the_piece_of_the_file(store: Store, logs: Path, tmp_path: Path) -> None:
    cut = ["--start", "STEP 3 START", "--end", "STEP 5 START"]
    assert memlens(store, "slice", "s3://logs/dense.log", *cut, "-o", str(tmp_path / "far")).returncode == 0
    assert memlens(store, "slice", str(logs / "dense.log"), *cut, "-o", str(tmp_path / "near")).returncode == 0
    assert (tmp_path / "far").read_bytes() == (tmp_path / "near").read_bytes()
    assert (tmp_path / "near").stat().st_size > 1000


def test_a_log_is_asked_for_once_by_ranges_of_one_version(store: Store, logs: Path) -> None:
    size = (logs / "dense.log").stat().st_size
    store.forget()
    in_python(store, "import memlens; print(len(memlens.read('s3://logs/dense.log')))")
    expected = [(0, FIRST), *((at, min(at + RANGE, size)) for at in range(FIRST, size, RANGE))]
    assert spans(store, "dense.log") == expected
    assert len({one["if_match"] for one in store.asked("dense.log")} - {None}) == 1
    assert all(one["if_match"] for one in store.asked("dense.log"))
    # One for each file of the eight that ask, and one for the check at the end.
    assert len(store.asked("dense.log", "HEAD")) <= 8 + 1


def test_a_line_that_is_looked_up_costs_one_small_range(store: Store, logs: Path) -> None:
    text = (logs / "dense.log").read_bytes()
    code = """
import json, memlens, sys
source = memlens.read("s3://logs/dense.log").source
print(json.dumps([[(line or b"").decode() for line in source.lines([{0}, {0} + 20_000, {1}])], source.line_numbers([{1}])]))
"""
    near, far = 3 * MIB + 30_000, 5 * MIB + 30_000
    store.forget()
    lines, numbers = in_python(store, code.format(near, far))
    read = 1 + -(-(len(text) - FIRST) // RANGE)
    asked = [(one["range"][0], one["range"][1]) for one in store.asked("dense.log")][read:]

    def line(at: int) -> str:
        return text[text.rfind(b"\n", 0, at) + 1 : text.index(b"\n", at)].decode()

    assert lines == [line(near), line(near + 20_000), line(far)]
    assert numbers == [text.count(b"\n", 0, far) + 1]
    # Two places, each within one page; then the stretch of the log whose lines are counted, a block of 2 MiB at most.
    assert [(begin // PAGE, end // PAGE) for begin, end in sorted(asked[:2])] == [(48, 49), (80, 81)]
    assert sum(end - begin for begin, end in asked[2:]) <= 2 * MIB + PAGE


def test_a_compressed_log_is_asked_for_once(store: Store, logs: Path) -> None:
    name = "05_leak_graph_331.log.gz"
    size = (logs / name).stat().st_size
    store.forget()
    in_python(store, f"import memlens; print(len(memlens.read('s3://logs/{name}')))")
    assert spans(store, name) == [
        (0, min(size, FIRST)),
        *((at, min(at + RANGE, size)) for at in range(FIRST, size, RANGE)),
    ]


def test_an_object_that_is_replaced_meanwhile_is_no_mixed_log(store: Store, logs: Path) -> None:
    store.put("replaced.log", (logs / "dense.log").read_bytes())
    code = """
import json, memlens, os, sys, fsspec
from memlens.inputs.remote import ranges
ranges.FIRST = ranges.RANGE = ranges.PAGE
done = []
def replace(_):
    if not done:
        done.append(1)
        files = fsspec.filesystem("s3")
        files.pipe("logs/replaced.log", b"x" * files.size("logs/replaced.log"))
try:
    memlens.read("s3://logs/replaced.log", progress=replace)
    print(json.dumps("read"))
except memlens.InputError as error:
    print(json.dumps([error.message, error.hint]))
"""
    message, hint = in_python(store, code)
    assert message == "s3://logs/replaced.log: changed while it was read: it was written anew"
    assert hint == "Read it again once nothing writes it, or copy it here first."


def test_an_empty_object_is_said_to_be_empty(store: Store) -> None:
    store.put("empty.log", b"")
    found = memlens(store, "analyze", "s3://logs/empty.log")
    assert b"s3://logs/empty.log: the file is empty" in found.stderr
    assert found.returncode == 1


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("s3://logs/none.log", b"s3://logs/none.log: no such file"),
        ("s3://nowhere/run.log", b"s3://nowhere/run.log: no such file"),
        ("s3://logs", b"s3://logs: is a directory"),
    ],
)
def test_what_is_not_there_is_said(store: Store, logs: Path, url: str, says: bytes) -> None:
    found = memlens(store, "analyze", url)
    assert b" ".join(found.stderr.split()).startswith(b"memlens: error: " + says), found.stderr
    assert b"Traceback" not in found.stderr
    assert found.returncode == 1


def test_what_is_refused_is_said(tmp_path: Path) -> None:
    with storing(tmp_path / "asked") as closed:
        closed.put("run.log", b"text")
        closed.ask("POST", "/moto-api/reset-auth", b"0")  # from now on nobody has any rights
        found = memlens(closed, "analyze", "s3://logs/run.log")
    assert b"s3://logs/run.log: access is refused" in found.stderr
    assert found.returncode == 1
