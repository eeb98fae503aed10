"""An S3-compatible store in memory (moto's server), as a process that writes down what it is asked for.

``python s3_server.py LOG`` prints its address, and serves until its standard input ends.  LOG gets a line of JSON for each request.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

__all__ = ["Store", "storing"]

_BUCKET = "logs"


@dataclass(frozen=True)
class Store:
    """A running store with one bucket, ``logs``.

    Attributes:
        url: Where it answers.
        log: Where its requests are written down.
    """

    url: str
    log: Path

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

    def asked(self, name: str, method: str = "GET") -> list[dict[str, Any]]:
        """The requests for an object so far: ``range`` as ``[first, after the last]``, ``if_match`` and ``status`` of each."""
        found = map(json.loads, self.log.read_text().splitlines())
        return [one for one in found if (one["method"], one["path"]) == (method, f"/{_BUCKET}/{name}")]

    def forget(self) -> None:
        """Begin the list of requests anew."""
        os.truncate(self.log, 0)


@contextmanager
def storing(log: Path) -> Iterator[Store]:
    """Run a store until the block ends."""
    process = subprocess.Popen(
        [sys.executable, __file__, log], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        store = Store(process.stdout.readline().strip(), log)
        store.ask("PUT", f"/{_BUCKET}")
        yield store
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(timeout=20)


def _serve(log: Path) -> None:
    import threading

    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log(self, *_: Any) -> None:
            pass

    app = DomainDispatcherApplication(create_backend_app)
    lock = threading.Lock()

    def written_down(environ: Any, start_response: Any) -> Any:
        def started(status: str, *rest: Any) -> Any:
            span = environ.get("HTTP_RANGE", "").removeprefix("bytes=").split("-")
            asked = {
                "method": environ["REQUEST_METHOD"],
                "path": environ["PATH_INFO"],
                "range": [int(span[0]), int(span[1]) + 1] if len(span) == 2 else None,
                "if_match": environ.get("HTTP_IF_MATCH"),
                "status": int(status.split(maxsplit=1)[0]),
            }
            with lock, log.open("a") as out:
                out.write(json.dumps(asked) + "\n")
            return start_response(status, *rest)

        return app(environ, started)

    server = make_server("127.0.0.1", 0, written_down, threaded=True, request_handler=Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_port}", flush=True)  # noqa: T201
    sys.stdin.read()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
