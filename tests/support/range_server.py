"""A web server of one folder that gives ranges of its files, writes down what it is asked for, and can be slow, broken or of little use.

``python range_server.py FOLDER [--delay SECONDS] [--rate BYTES_A_SECOND]`` serves until it is stopped, and prints its address first.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["Asked", "Served", "serving"]

_PIECE = 1 << 18


@dataclass(frozen=True)
class Asked:
    """One request: its method, the file, and the range, ``(first, after the last)``, or ``None`` for all of it."""

    method: str
    name: str
    span: tuple[int, int] | None


@dataclass
class Served:
    """What a server does, and what it was asked for.

    Attributes:
        folder: Whose files it serves.
        delay: Seconds before each answer.
        rate: Bytes a second of each connection; 0 for as many as go through.
        ranges: Ranges are given; else the whole file is sent whatever is asked for.
        size: The size of a file is told.
        encoding: The ``Content-Encoding`` of everything.
        trouble: Called with each request; a status that it gives is the answer, and -1 breaks the connection off after half of it.
        asked: The requests so far.
        most: The most that were under way at once.
    """

    folder: Path
    delay: float = 0.0
    rate: int = 0
    ranges: bool = True
    size: bool = True
    encoding: str = ""
    trouble: Callable[[Asked], int] = lambda _: 0
    asked: list[Asked] = field(default_factory=list)
    most: int = 0
    url: str = ""
    _now: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The ranges that were asked for."""
        return [one.span for one in self.asked if one.span is not None]

    @contextmanager
    def counted(self, asked: Asked) -> Iterator[None]:
        with self._lock:
            self.asked.append(asked)
            self._now += 1
            self.most = max(self.most, self._now)
        try:
            yield
        finally:
            with self._lock:
                self._now -= 1


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: Served

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        name = unquote(urlsplit(self.path).path).lstrip("/")
        path = self.served.folder / name
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        size = path.stat().st_size if path.is_file() else 0
        span = None if wanted is None else (int(wanted[1]), min(int(wanted[2] or size - 1) + 1, size))
        asked = Asked(self.command, name, span)
        with self.served.counted(asked):
            time.sleep(self.served.delay)
            status = self.served.trouble(asked)
            if status > 0 or not path.is_file():
                return self.send_error(status if status > 0 else 404)
            ranged = span is not None and self.served.ranges
            begin, end = span if ranged and span is not None else (0, size)
            self.send_response(206 if ranged else 200)
            if ranged:
                self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{size}")
            if self.served.encoding:
                self.send_header("Content-Encoding", self.served.encoding)
            if self.served.size:
                self.send_header("Content-Length", str(end - begin))
            else:
                self.send_header("Connection", "close")
                self.close_connection = True
            with path.open("rb") as file:
                self.send_header(
                    "ETag", f'"{hashlib.file_digest(file, "md5").hexdigest() if size < 1 << 24 else size}"'
                )
                self.end_headers()
                if body:
                    self._send(file.fileno(), begin, end if status == 0 else (begin + end) // 2)
        if status < 0:
            self.close_connection = True
        return None

    def _send(self, file: int, begin: int, end: int) -> None:
        while begin < end:
            piece = os.pread(file, min(end - begin, _PIECE), begin)
            if not piece:  # it is shorter now than was promised: whoever waits for the rest is to know
                self.close_connection = True
                return
            self.wfile.write(piece)
            begin += len(piece)
            if self.served.rate:
                time.sleep(len(piece) / self.served.rate)


@contextmanager
def serving(folder: Path, **what: object) -> Iterator[Served]:
    """Serve a folder on a port of this machine until the block ends."""
    served = Served(folder, **what)  # type: ignore[arg-type]
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"served": served}))
    server.daemon_threads = True
    server.block_on_close = False
    served.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


if __name__ == "__main__":
    words = argparse.ArgumentParser()
    words.add_argument("folder", type=Path)
    words.add_argument("--delay", type=float, default=0.0)
    words.add_argument("--rate", type=int, default=0)
    given = words.parse_args()
    with serving(given.folder, delay=given.delay, rate=given.rate) as running:
        print(running.url, flush=True)  # noqa: T201
        sys.stdin.read()
