"""Logs in an S3-compatible store: what is said of them is what is said of files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import zstandard
from night import some
from s3_server import Store, storing

missing = [name for name in ("s3fs", "moto", "flask_cors") if find_spec(name) is None]
pytestmark = [
    pytest.mark.changed("inputs"),
    pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}, which is not installed"),
]


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with storing() as running:
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


@pytest.mark.parametrize(
    "words",
    some(
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
            ["compare", "LOGS/node{node}/workerlog.{rank}", "--format", "json"],
            ["compare", "LOGS/", "--format", "json"],
        ],
        5,
    ),
    ids=some(["analyze", "by", "compare", "template", "folder"], 5),
)
def test_what_is_said_of_logs_in_a_store_is_what_is_said_of_files(store: Store, logs: Path, words: list[str]) -> None:
    far = memlens(store, *(word.replace("LOGS/", "s3://logs/") for word in words))
    near = memlens(store, *(word.replace("LOGS", str(logs)) for word in words))
    assert far.stderr == near.stderr.replace(str(logs).encode(), b"s3://logs")
    assert far.returncode == near.returncode
    assert far.stdout.replace(b"s3://logs", str(logs).encode()) == near.stdout
    assert len(near.stdout) > 1000


@pytest.mark.night
@pytest.mark.parametrize(
    ("url", "says"),
    some(
        [
            ("s3://logs/none.log", b"s3://logs/none.log: no such file"),
            ("s3://nowhere/run.log", b"s3://nowhere/run.log: no such file"),
            ("s3://logs", b"s3://logs: is a directory"),
        ]
    ),
)
def test_what_is_not_there_is_said(store: Store, logs: Path, url: str, says: bytes) -> None:
    found = memlens(store, "analyze", url)
    assert b" ".join(found.stderr.split()).startswith(b"memlens: error: " + says), found.stderr
    assert b"Traceback" not in found.stderr
    assert found.returncode == 1
