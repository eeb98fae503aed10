"""Inputs named by URLs."""

import builtins
import gzip
import http.server
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memory_source import MemorySource
from night import some

import memlens
from memlens.errors import InputError
from memlens.inputs import blocks, file_source, remote
from memlens.inputs.file_source import FileSource
from memlens.source import is_url, local_path, scheme_of

pytestmark = pytest.mark.changed("inputs")

fsspec = pytest.importorskip("fsspec")

TEXT = b"START A\nAlloc 512 bytes, ptr = 0x7f01\nFree 512 bytes, ptr = 0x7f01\nAlloc 256 bytes, ptr = 0x7f02\n"


@pytest.fixture
def memory() -> Iterator[str]:
    files = fsspec.filesystem("memory")
    files.pipe("/logs/run.log", TEXT)
    files.pipe("/logs/run.log.gz", gzip.compress(TEXT))
    yield "memory://logs/run.log"
    files.rm("/logs", recursive=True)


@pytest.mark.parametrize(
    ("where", "scheme"),
    [
        ("s3://bucket/run.log", "s3"),
        ("HTTPS://host/run.log", "https"),
        ("simplecache::gs://b/x", "simplecache"),
        ("run.log", ""),
        ("c://run.log", ""),
        ("-", ""),
        ("a:b", ""),
        (Path("s3://x"), ""),
    ],
)
def test_urls_are_told_from_paths(where: Any, scheme: str) -> None:
    assert scheme_of(where) == scheme
    assert is_url(where) == bool(scheme)


def test_a_file_url_is_a_path_of_this_machine() -> None:
    assert local_path("file:///tmp/a%20b.log") == Path("/tmp/a b.log")
    assert local_path("file://localhost/tmp/a.log") == Path("/tmp/a.log")
    assert local_path("file://elsewhere/tmp/a.log") == "file://elsewhere/tmp/a.log"


def test_what_is_not_there_is_said(memory: str) -> None:
    with pytest.raises(InputError) as error:
        memlens.read("memory://logs/none.log")
    assert error.value.message == "memory://logs/none.log: no such file"


def no_module(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    real = builtins.__import__

    def without(name: str, *rest: object, **named: object) -> object:
        if name.partition(".")[0] == missing:
            raise ImportError(f"No module named {missing!r}")
        return real(name, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)


@pytest.mark.parametrize(
    ("missing", "said"), [("fsspec", "No module named 'fsspec'"), ("s3fs", "Install s3fs to access S3")]
)
def test_without_fsspec_or_a_driver_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, missing: str, said: str
) -> None:
    no_module(monkeypatch, missing)
    with pytest.raises(InputError, match=f"a package is missing: {said}") as error:
        memlens.read("s3://bucket/run.log")
    assert "pip install 'memlens[remote]'" in error.value.hint


class Files:
    """A file system whose files fail in one way, when they are opened or when they are read."""

    def __init__(self, error: Exception, late: bool = False) -> None:
        self.error, self.late = error, late

    def open(self, *_: object, **__: object) -> "Files":
        if not self.late:
            raise self.error
        return self

    def info(self, _: str) -> dict[str, object]:
        return {"type": "file", "size": 100}

    def ls(self, _: str, detail: bool) -> list[dict[str, object]]:
        assert detail
        raise self.error

    def invalidate_cache(self, _: str) -> None:
        pass

    def seek(self, _: int) -> None:
        pass

    def read(self, _: int) -> bytes:
        raise self.error

    def close(self) -> None:
        raise self.error


def test_a_driver_that_cannot_begin_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def begun(*_: object, **__: object) -> None:
        raise OSError("no library\ntried here\ntried there")

    monkeypatch.setattr("fsspec.core.url_to_fs", begun)
    for read in (lambda: memlens.read("hdfs://host/run/"), lambda: memlens.compare(["hdfs://host/run/"])):
        with pytest.raises(InputError) as raised:
            read()
        assert raised.value.message == "hdfs://host/run/: cannot be read: OSError: no library"
        assert raised.value.hint


class StatusError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(f"answered {status}")
        self.status = status


class FileExpired(OSError):  # noqa: N818  as s3fs calls it
    pass


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("error", "says"),
    [
        (PermissionError("no key"), "access is refused: no key"),
        (StatusError(403), "access is refused: answered 403"),
        (StatusError(404), "no such file"),
        (OSError("the line is dead"), "cannot be read: OSError: the line is dead"),
        (FileExpired(), "changed while it was read"),
    ],
)
def test_what_a_driver_raises_becomes_an_error_that_names_the_url(
    monkeypatch: pytest.MonkeyPatch, error: Exception, says: str, late: bool
) -> None:
    monkeypatch.setattr(remote, "_opened_files", lambda url: (Files(error, late), url))
    with pytest.raises(InputError) as raised:
        memlens.read("s3://bucket/run.log")
    assert raised.value.message == f"s3://bucket/run.log: {says}"
    assert raised.value.hint
    with pytest.raises(InputError) as raised:
        memlens.read("s3://bucket/run/")
    assert raised.value.message == f"s3://bucket/run/: {says}"


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder: of files below ``/ranges`` any part, of others the whole file whatever is asked for."""

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if self.path == "/secret.log":
            self.send_error(403)
        elif wanted and self.path.startswith("/ranges"):
            text = Path(self.translate_path(self.path)).read_bytes()
            part = text[int(wanted[1]) : int(wanted[2]) + 1]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {wanted[1]}-{int(wanted[1]) + len(part) - 1}/{len(text)}")
            self.send_header("Content-Length", str(len(part)))
            self.end_headers()
            self.wfile.write(part)
        else:
            super().do_GET()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    pytest.importorskip("aiohttp")
    (tmp_path / "run.log").write_bytes(TEXT)
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(tmp_path)))
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{running.server_port}"
    running.shutdown()
    running.server_close()
    thread.join()


def elsewhere(code: str, *arguments: str) -> list[object]:
    """What some code prints as JSON in a process of its own: fsspec's thread for web servers would outlive the test in this one."""
    found = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    answer: list[object] = json.loads(found.stdout)
    return answer


def test_a_web_server_gives_logs(server: str) -> None:
    code = (
        "import json, sys, memlens; from memlens.inputs.remote import remote_size; log = memlens.read(sys.argv[1]);"
        " print(json.dumps([log.size.tolist(), log.source.lines([8])[0].decode(), remote_size(sys.argv[1])]))"
    )
    found = elsewhere(code, f"{server}/run.log")
    assert found == [[512, 512, 256], "Alloc 512 bytes, ptr = 0x7f01", len(TEXT)]


def test_the_list_of_a_web_server_is_a_folder(server: str, tmp_path: Path) -> None:
    """Of its links those count that lead to what lies in it."""
    (tmp_path / "runs" / "older").mkdir(parents=True)
    for name in ("rank 0.log", "rank 1.log", "older/rank 2.log"):
        (tmp_path / "runs" / name).write_bytes(TEXT)
    (tmp_path / "runs" / "notes.md").write_text("# What this is\n")
    links = ("#top", "?C=M;O=A", "/", "rank%200.log", "older/", "older/rank%202.log")
    (tmp_path / "apache").mkdir()
    (tmp_path / "apache" / "index.html").write_text("".join(f'<a href="{link}">it</a>' for link in links))
    (tmp_path / "apache" / "rank 0.log").write_bytes(TEXT)
    code = (
        "import json, sys, memlens; print(json.dumps([[run.path.removeprefix(sys.argv[1])"
        " for run in memlens.compare(sys.argv[1] + folder).runs] for folder in sys.argv[2:]]))"
    )
    assert elsewhere(code, server, "/runs/", "/apache/") == [
        ["/runs/rank%200.log", "/runs/rank%201.log"],
        ["/apache/rank%200.log"],
    ]


COUNT = 120_000
#: More than one request of a block.
LONG = b"".join(b"Alloc %d bytes, ptr = 0x7f%06x    (padding, padding, padding)\n" % (512 + k, k) for k in range(COUNT))
LINE = len(LONG) // 2


@pytest.mark.night
@pytest.mark.parametrize("path", ["ranges/run.log", "run.log", "ranges/run.log.gz"])
def test_a_long_log_of_a_web_server_is_read_whole_and_looked_up(server: str, tmp_path: Path, path: str) -> None:
    (tmp_path / "ranges").mkdir()
    for name in ("ranges/run.log", "run.log"):
        (tmp_path / name).write_bytes(LONG)
    (tmp_path / "ranges" / "run.log.gz").write_bytes(gzip.compress(LONG, 1))
    code = (
        "import json, sys, memlens; log = memlens.read(sys.argv[1]); at = int(sys.argv[2]); print(json.dumps([len(log),"
        " int(log.size.sum()), log.source.lines([at, 0])[0].decode(), log.source.line_numbers([at])[0]]))"
    )
    number = LONG.count(b"\n", 0, LINE)
    assert elsewhere(code, f"{server}/{path}", str(LINE)) == [
        *(COUNT, sum(512 + k for k in range(COUNT)), LONG.splitlines()[number].decode(), number + 1)
    ]


@pytest.mark.parametrize("size", some([len(LONG), len(LONG) // 2], 2))
def test_what_is_written_anew_while_it_is_read_is_no_mixed_log(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 16)
    files = fsspec.filesystem("memory")
    files.pipe("/logs/run.log", LONG)

    def replace(_: int) -> None:
        files.pipe("/logs/run.log", LONG[::-1][:size])

    try:
        with pytest.raises(InputError, match=r"^memory://logs/run.log: changed while it was read") as raised:
            memlens.read("memory://logs/run.log", progress=replace)
        assert raised.value.hint.startswith("Read it again")
    finally:
        files.rm("/logs", recursive=True)


class Object:
    """A text in place of a store's object."""

    def __init__(self, text: bytes, **info: object) -> None:
        self.text, self.at, self.said = text, 0, info

    def open(self, *_: object, **__: object) -> "Object":
        return Object(self.text, **self.said)

    def info(self, _: str) -> dict[str, object]:
        return {"type": "file", "size": len(self.text), **self.said}

    def invalidate_cache(self, _: str) -> None:
        pass

    def seek(self, at: int) -> None:
        self.at = at

    def read(self, size: int) -> bytes:
        self.at += size
        return self.text[self.at - size : self.at]

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("before", "after", "size", "same"),
    [
        ({"ETag": "a"}, {"ETag": "b"}, 0, False),
        ({"ETag": "a", "mtime": 1}, {"ETag": "a", "mtime": 2}, 0, True),
        ({"generation": 1}, {"generation": 2}, 9, False),
        ({"mtime": 1}, {"mtime": 2}, 0, False),
        ({"mtime": 1}, {"mtime": 2}, 9, True),  # a log that is still written
        ({"mtime": 1}, {"mtime": 2}, -9, False),
        ({}, {}, -9, False),
        ({}, {}, 0, True),
    ],
)
def test_by_what_a_store_says_of_an_object_it_is_seen_to_be_another_one(
    monkeypatch: pytest.MonkeyPatch, before: dict[str, object], after: dict[str, object], size: int, same: bool
) -> None:
    store = Object(TEXT, **before)
    monkeypatch.setattr(remote, "_opened_files", lambda _: (store, "run.log"))
    read = remote.RemoteObject("s3://logs/run.log")
    read.check()
    store.text, store.said = TEXT[: len(TEXT) + size] + bytes(max(size, 0)), after
    for look in (read.check, lambda: read.parts([(0, 5)])):
        if same:
            look()
        else:
            with pytest.raises(InputError, match="changed while it was read"):
                look()


def test_a_log_that_grows_where_it_lies_is_read_up_to_its_end_when_the_reading_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = Object(TEXT, mtime=1)
    monkeypatch.setattr(remote, "_opened_files", lambda _: (store, "run.log"))
    read = remote.RemoteObject("hdfs://logs/run.log")
    store.text, store.said = TEXT + b"more", {"mtime": 2}
    with read.stream() as stream:
        assert stream.readall() == TEXT


def test_fewer_bytes_than_there_are_is_an_error_and_no_shorter_log(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Object(TEXT)
    store.info = lambda _: {"type": "file", "size": 1000}  # type: ignore[method-assign]
    monkeypatch.setattr(remote, "_opened_files", lambda _: (store, "run.log"))
    with pytest.raises(InputError, match=f"run.log: only {len(TEXT)} bytes came of 1,000"):
        memlens.read("s3://logs/run.log")


_TEXTS = st.binary(min_size=1, max_size=80).map(lambda text: b"x" + text.replace(b"a", b"\n"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(text=_TEXTS, data=st.data())
def test_what_is_looked_up_is_as_in_the_whole_text(text: bytes, data: st.DataObject) -> None:
    """Any text and any sizes: lines, their numbers, spans and stretches of a remote log as those of a text in memory."""
    offsets = data.draw(st.lists(st.integers(-1, len(text) + 2), max_size=6))
    inside = [offset for offset in offsets if 0 <= offset < len(text)]
    indexed = [0, *(at + 1 for at, byte in enumerate(text) if byte == ord("\n") and data.draw(st.booleans()))]
    start, size = data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_source, "_LOOK", data.draw(st.integers(1, 30)))
        patch.setattr(file_source, "_TOGETHER", data.draw(st.integers(1, 4)))
        patch.setattr(file_source, "_PIECE", data.draw(st.integers(1, 9)))
        patch.setattr(remote, "_opened_files", lambda _: (Object(text), "run.log"))
        source, whole = FileSource("s3://x/run.log"), MemorySource(text)
        with source.open() as stream:
            assert stream.read() == text
        source.index(np.array(indexed, np.int64), np.array([text.count(b"\n", 0, at) for at in indexed], np.int64))
        assert source.lines(offsets) == whole.lines(offsets)
        assert source.line_numbers(inside) == whole.line_numbers(inside)
        assert source.parts([(start, start + size)]) == whole.parts([(start, start + size)])
        pieces = list(source.blocks(start, start + size))
        wanted = list(whole.blocks(start, start + size)) if size and start < len(text) else []
        assert [at for at, _ in pieces[: len(wanted)]] == [at for at, _ in wanted]
        assert b"".join(piece for _, piece in pieces).startswith(b"".join(piece for _, piece in wanted))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://me:word@host:1/a@b/run.log?id=7", "https://host:1/a@b/run.log?id=7"),
        ("s3://bucket/run.log", "s3://bucket/run.log"),
        (
            "https://host/run.log?X-Amz-Credential=AK%2Fx&X-Amz-Date=2025&X-Amz-Signature=0f#end",
            "https://host/run.log?X-Amz-Credential=…&X-Amz-Date=2025&X-Amz-Signature=…#end",
        ),
        ("https://host/run.log?sig=a%3D&page=2", "https://host/run.log?sig=…&page=2"),
    ],
)
def test_what_is_secret_in_a_url_is_not_shown(url: str, shown: str) -> None:
    assert FileSource(url).name == shown
    assert str(InputError(f"{url}: no such file", f"Look at {url}")) == f"{shown}: no such file\nLook at {shown}"


def test_what_is_no_url_is_shown_as_it_is() -> None:
    text = "runs/me:word@host/a.log?token=1: cannot be read"
    assert InputError(text).message == text
