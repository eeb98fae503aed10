"""An S3-compatible store in memory (moto's server), as a process: it prints its address, and serves until its standard input ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.request import Request, urlopen

_BUCKET = "logs"


@dataclass(frozen=True)
class Store:
    """A running store with one bucket, ``logs``.

    Attributes:
        url: Where it answers.
    """

    url: str

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to reach it."""
        keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
        return {**os.environ, **keys, "AWS_ENDPOINT_URL": self.url}

    def put(self, name: str, data: bytes) -> None:
        """Write an object."""
        self.ask("PUT", f"/{_BUCKET}/{name}", data)

    def ask(self, method: str, path: str, data: bytes | None = None) -> None:
        """Ask the store for something that answers with nothing of interest."""
        # It takes any credentials; which service is meant it sees by them.
        headers = {
            "Authorization": "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request",
            "Content-Type": "application/octet-stream",
        }
        with urlopen(Request(self.url + path, data, headers, method=method)) as answer:
            answer.read()


@contextmanager
def storing() -> Iterator[Store]:
    """Run a store until the block ends."""
    process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        store = Store(process.stdout.readline().strip())
        store.ask("PUT", f"/{_BUCKET}")
        yield store
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(timeout=20)


def _serve() -> None:
    import threading

    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log(self, *_: Any) -> None:
            pass

    app = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_port}", flush=True)  # noqa: T201
    sys.stdin.read()


if __name__ == "__main__":
    _serve()
