"""Inputs named by URLs."""

import builtins
import gzip
import hashlib
import http.server
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from range_server import Asked, Served, serving

import memlens
from memlens.errors import InputError
from memlens.inputs.file_source import open_source
from memlens.inputs.remote import is_url, local_path, remote_size, scheme_of

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


def test_a_url_is_read_like_a_file(tmp_path: Path, memory: str) -> None:
    (tmp_path / "run.log").write_bytes(TEXT)
    near, far = memlens.read(tmp_path / "run.log"), memlens.read(memory)
    assert far.size.tolist() == near.size.tolist() == [512, 512, 256]
    assert far.source.name == memory
    assert far.source.lines(far.offset.tolist()) == near.source.lines(near.offset.tolist())
    assert far.source.line_numbers([0, 8]) == [1, 2]
    assert far.source.parts([(0, 7), (8, 13)]) == [b"START A", b"Alloc"]
    assert len(far.window("START A")) == 3


def test_what_lies_elsewhere_may_be_compressed(memory: str) -> None:
    assert memlens.read(f"{memory}.gz").size.tolist() == [512, 512, 256]


def test_progress_counts_the_bytes_as_they_lie_there(memory: str) -> None:
    seen: list[int] = []
    memlens.read(f"{memory}.gz", progress=seen.append)
    assert seen[-1] == remote_size(f"{memory}.gz") == len(gzip.compress(TEXT))


def test_every_verb_takes_urls(tmp_path: Path, memory: str) -> None:
    assert memlens.analyze(memory).logs[0].path == memory
    assert memlens.diff(memory, f"{memory}.gz").windows[0].same
    assert memlens.compare([memory, "memory://logs/none.log"]).runs[1].status == "missing"
    piece = memlens.slice(memory, tmp_path / "out", start="START A")
    assert piece.written_bytes == len(TEXT)
    assert memlens.formats(memory).inputs[0].format == "paddle"


def test_a_file_url_needs_no_fsspec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(TEXT)
    no_module(monkeypatch, "fsspec")
    log = memlens.read(path.as_uri())
    assert log.size.tolist() == [512, 512, 256]
    assert log.source.name == path.as_uri()


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


def test_without_fsspec_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    no_module(monkeypatch, "fsspec")
    with pytest.raises(InputError, match="needs the package fsspec") as error:
        memlens.read("s3://bucket/run.log")
    assert error.value.hint == "Install it with: pip install 'memlens[remote]'."


def test_without_a_driver_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    no_module(monkeypatch, "s3fs")
    with pytest.raises(InputError, match="a driver that is not installed") as error:
        memlens.read("s3://bucket/run.log")
    assert error.value.hint == "Install it with: pip install s3fs."


def test_an_unknown_scheme_is_said() -> None:
    with pytest.raises(InputError, match="cannot be read"):
        memlens.read("nowhere://bucket/run.log")


class Files:
    """A file system whose files fail in one way."""

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


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("error", "says"),
    [
        (PermissionError("no key"), "access is refused: no key"),
        (StatusError(403), "access is refused: answered 403"),
        (StatusError(404), "no such file"),
        (OSError("the line is dead"), "cannot be read: OSError: the line is dead"),
    ],
)
def test_what_a_driver_raises_becomes_an_error_that_names_the_url(
    monkeypatch: pytest.MonkeyPatch, error: Exception, says: str, late: bool
) -> None:
    from memlens.inputs import remote
    from memlens.inputs.remote import listing, ranges

    monkeypatch.setattr(ranges, "DELAYS", (0.0,))
    monkeypatch.setattr(remote, "opened_files", lambda url: (Files(error, late), url))
    with pytest.raises(InputError) as raised:
        memlens.read("s3://bucket/run.log")
    assert raised.value.message == f"s3://bucket/run.log: {says}"
    assert raised.value.hint
    monkeypatch.setattr(listing, "opened_files", remote.opened_files)
    with pytest.raises(InputError) as raised:
        memlens.read("s3://bucket/run/")
    assert raised.value.message == f"s3://bucket/run/: {says}"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    pytest.importorskip("aiohttp")
    (tmp_path / "run.log").write_bytes(TEXT)

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(tmp_path))  # type: ignore[arg-type]

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            if self.path == "/secret.log":
                self.send_error(403)
            else:
                super().do_GET()

    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
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


@pytest.mark.parametrize(("path", "says"), [("none.log", "no such file"), ("secret.log", "access is refused")])
def test_what_a_web_server_refuses_is_said(server: str, path: str, says: str) -> None:
    code = """
import json, sys, memlens
try:
    memlens.read(sys.argv[1])
except memlens.InputError as error:
    print(json.dumps([error.message, error.hint]))
"""
    message, hint = elsewhere(code, f"{server}/{path}")
    assert str(message).startswith(f"{server}/{path}: {says}")
    assert hint


def test_the_list_of_a_web_server_is_a_folder(server: str, tmp_path: Path) -> None:
    (tmp_path / "runs" / "older").mkdir(parents=True)
    for name in ("rank 0.log", "rank 1.log", "older/rank 2.log"):
        (tmp_path / "runs" / name).write_bytes(TEXT)
    (tmp_path / "runs" / "notes.md").write_text("# What this is\n")
    links = "".join(f'<a href="{link}">it</a>' for link in ("?C=M;O=A", "/", "rank%200.log"))
    (tmp_path / "apache").mkdir()
    (tmp_path / "apache" / "index.html").write_text(f"<html>{links}</html>")
    (tmp_path / "apache" / "rank 0.log").write_bytes(TEXT)
    code = (
        "import json, sys, memlens; print(json.dumps([[run.path.removeprefix(sys.argv[1]) for run in memlens.compare(sys.argv[1] + folder).runs]"
        " for folder in sys.argv[2:]] + [len(memlens.ranks(sys.argv[1] + sys.argv[2]).ranks)]))"
    )
    assert elsewhere(code, server, "/runs/", "/apache/") == [
        ["/runs/rank%200.log", "/runs/rank%201.log"],
        ["/apache/rank%200.log"],
        3,
    ]


def test_of_a_list_only_what_lies_in_the_folder_counts(server: str, tmp_path: Path) -> None:
    (tmp_path / "runs" / "node0").mkdir(parents=True)
    (tmp_path / "runs" / "rank 0.log").write_bytes(TEXT)
    (tmp_path / "runs" / "a:b.log").write_bytes(TEXT)
    (tmp_path / "runs" / "node0" / "rank 0.log").write_bytes(TEXT)
    links = ("#top", "?C=M;O=A", "/", "mailto:admin@host", "rank%200.log", "./a:b.log", "node0/", "node0/rank%200.log")
    (tmp_path / "runs" / "index.html").write_text("".join(f'<a href="{link}">it</a>' for link in links))
    code = (
        "import json, sys; from memlens.inputs.remote.listing import list_remote;"
        " print(json.dumps(sorted([one.name, one.is_folder] for one in list_remote(sys.argv[1]))))"
    )
    assert elsewhere(code, f"{server}/runs/") == [["a:b.log", False], ["node0", True], ["rank%200.log", False]]


@pytest.mark.parametrize("ranges", [True, False])
def test_no_more_than_the_beginning_of_a_file_is_taken_to_tell_what_it_is(tmp_path: Path, ranges: bool) -> None:
    pytest.importorskip("aiohttp")
    text = LONG[: 1 << 20]
    for rank in range(3):
        (tmp_path / f"{rank}.log").write_bytes(text)
        os.truncate(tmp_path / f"{rank}.log", 1 << 36)  # at 16 MiB a second all of it takes an hour
    (tmp_path / "empty.log").write_bytes(b"")
    code = (
        "import hashlib, json, sys; from memlens.inputs.remote.listing import heads_of;"
        " print(json.dumps([head if head is None else hashlib.md5(head).hexdigest() for head in heads_of(sys.argv[1:], 300_000)]))"
    )
    with serving(tmp_path, ranges=ranges, rate=1 << 24) as served:
        urls = [f"{served.url}/{name}.log" for name in ("0", "1", "none", "2", "empty")]
        found = subprocess.run([sys.executable, "-c", code, *urls], capture_output=True, timeout=30, check=True)
    head, nothing = (hashlib.md5(part).hexdigest() for part in (text[:300_000], b""))
    assert json.loads(found.stdout) == [head, head, None, head, nothing]


READ = """
import json, sys, memlens
from memlens.inputs import remote
from memlens.inputs.remote import ranges
ranges.DELAYS = (0.01, 0.01)
remote.STALLED = 2.0
try:
    log = memlens.read(sys.argv[1])
    print(json.dumps([len(log), int(log.size.sum()), *[line.decode() for line in log.source.lines(log.offset[-1:].tolist())]]))
except memlens.InputError as error:
    print(json.dumps([error.message, error.hint]))
"""
COUNT = 120_000
#: More than four ranges.
LONG = b"".join(b"Alloc %d bytes, ptr = 0x7f%06x    (padding, padding, padding)\n" % (512 + k, k) for k in range(COUNT))
READ_RIGHT = [COUNT, sum(512 + k for k in range(COUNT)), LONG.splitlines()[-1].decode()]
SPANS = [(0, 1 << 20), *((at, min(at + (2 << 20), len(LONG))) for at in range(1 << 20, len(LONG), 2 << 20))]


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Served]:
    pytest.importorskip("aiohttp")
    (tmp_path / "run.log").write_bytes(LONG)
    with serving(tmp_path) as served:
        yield served


def test_a_web_server_is_asked_for_ranges_several_at_once(web: Served) -> None:
    web.delay = 0.1
    assert elsewhere(READ, f"{web.url}/run.log") == READ_RIGHT
    end, last = (len(LONG) - 1, len(LONG)), (len(LONG) - 1) // (1 << 16) << 16
    # Whether there are ranges at all is seen by the last byte; and the page of the line that was looked up.
    assert sorted(web.spans) == sorted([*SPANS, end, (last, len(LONG))])
    assert len(SPANS) - 1 <= web.most <= 8


@pytest.mark.parametrize("kind", ["refused", "cut"])
def test_what_a_web_server_fails_to_give_is_asked_for_again(web: Served, kind: str) -> None:
    failed: set[object] = set()

    def trouble(asked: Asked) -> int:
        if asked.method == "HEAD" or asked.span is None or asked.span[1] - asked.span[0] == 1 or asked.span in failed:
            return 0
        failed.add(asked.span)
        return 503 if kind == "refused" else -1

    web.trouble = trouble
    assert elsewhere(READ, f"{web.url}/run.log") == READ_RIGHT
    assert set(SPANS) < failed
    assert all(web.spans.count(span) == 2 for span in SPANS)


@pytest.mark.parametrize("first", [True, False])
def test_a_web_server_that_is_busy_for_a_moment_has_the_file(web: Served, first: bool) -> None:
    """Neither when it is opened nor when it is looked whether it changed is a refusal taken for a file that is not there."""
    refused: list[Asked] = []

    def trouble(asked: Asked) -> int:
        looks = asked.span is None and (first or SPANS[-1] in web.spans)
        if looks and len(refused) < 2:  # by HEAD, and by GET where that fails
            refused.append(asked)
            return 503
        return 0

    web.trouble = trouble
    assert elsewhere(READ, f"{web.url}/run.log") == READ_RIGHT
    assert len(refused) == 2


def test_a_web_server_that_fails_each_time_is_said_to(web: Served) -> None:
    web.trouble = lambda asked: 503 if asked.span == SPANS[2] else 0
    message, hint = elsewhere(READ, f"{web.url}/run.log")
    assert str(message).startswith(f"{web.url}/run.log: cannot be read: ClientResponseError: 503")
    assert hint
    assert web.spans.count(SPANS[2]) == 3


def test_a_web_server_that_does_not_go_on_is_asked_again(web: Served) -> None:
    def trouble(asked: Asked) -> int:
        if asked.span == SPANS[2] and web.spans.count(SPANS[2]) == 1:
            time.sleep(10)
        return 0

    web.trouble = trouble
    began = time.monotonic()
    assert elsewhere(READ, f"{web.url}/run.log") == READ_RIGHT
    assert web.spans.count(SPANS[2]) == 2
    assert time.monotonic() - began < 10


def test_a_file_that_comes_slowly_from_front_to_back_is_read_to_its_end(web: Served) -> None:
    web.ranges, web.rate = False, len(LONG) // 5
    impatient = "import aiohttp.client\naiohttp.client.DEFAULT_TIMEOUT = aiohttp.ClientTimeout(total=2)\n"
    assert elsewhere(impatient + READ, f"{web.url}/run.log") == READ_RIGHT


def test_a_file_that_is_replaced_on_a_web_server_is_no_mixed_log(web: Served) -> None:
    def trouble(asked: Asked) -> int:
        if asked.span == SPANS[1]:  # at once, or other answers end within what they promised
            (web.folder / "other.log").write_bytes(LONG[::-1])
            (web.folder / "other.log").replace(web.folder / "run.log")
        return 0

    web.trouble = trouble
    message, _ = elsewhere(READ, f"{web.url}/run.log")
    assert message == f"{web.url}/run.log: changed while it was read: it was written anew"


@pytest.mark.parametrize("useless", [{"ranges": False}, {"size": False}, {"size": False, "ranges": False}])
def test_a_web_server_without_ranges_is_read_from_front_to_back(web: Served, useless: dict[str, bool]) -> None:
    for name, value in useless.items():
        setattr(web, name, value)
    assert elsewhere(READ, f"{web.url}/run.log") == READ_RIGHT


def test_what_a_web_server_packs_on_its_way_is_read_unpacked(web: Served) -> None:
    (web.folder / "run.log").write_bytes(gzip.compress(LONG, 1))
    web.encoding = "gzip"
    assert elsewhere(READ, f"{web.url}/run.log") == READ_RIGHT


def test_a_compressed_log_on_a_web_server_is_asked_for_ahead(web: Served) -> None:
    packed = gzip.compress(random.Random(0).randbytes(6 << 20).hex().encode() + b"\n" + LONG, 0)
    (web.folder / "run.log.gz").write_bytes(packed)
    web.delay = 0.1
    assert elsewhere(READ, f"{web.url}/run.log.gz")[:2] == READ_RIGHT[:2]
    assert web.most > 2


def test_a_source_of_a_url_is_no_path(memory: str) -> None:
    assert open_source(memory).path is None
    assert open_source(memory).rereadable


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
    assert open_source(url).name == shown
    assert open_source(url).url == url
    assert str(InputError(f"{url}: no such file", f"Look at {url}")) == f"{shown}: no such file\nLook at {shown}"


def test_what_is_no_url_is_shown_as_it_is() -> None:
    text = "runs/me:word@host/a.log?token=1: cannot be read"
    assert InputError(text).message == text
