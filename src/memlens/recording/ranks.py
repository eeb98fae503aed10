"""A log for each rank: the ranks of a recorded program, which are no children of the recorder, hand over their output through a socket.

The other side is ``inside/ranks.py``.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress

__all__ = ["Ranks"]

#: A path of a Unix socket takes at most 104 bytes, 108 on Linux.
_LONGEST_PATH = 100


class Ranks:
    """Listens for the ranks of a program, in a folder that no other user can enter, until it is closed.

    Args:
        take: Called for each rank with what it calls itself, the end of a pipe to read its output from, and its old stdout; both are the callee's to close.
            It is called in a thread, one rank after another.

    Attributes:
        path: Of the socket.
    """

    def __init__(self, take: Callable[[str, int, int], None]) -> None:
        self._folder = tempfile.mkdtemp(prefix="memlens-")
        if len(os.fsencode(self._folder)) > _LONGEST_PATH - len("/ranks"):
            os.rmdir(self._folder)
            self._folder = tempfile.mkdtemp(prefix="memlens-", dir="/tmp")
        self.path = os.path.join(self._folder, "ranks")
        self._take = take
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(self.path)
        self._server.listen(128)
        self._closed, self._closing = os.pipe()
        self._thread = threading.Thread(target=self._listen, name="memlens ranks", daemon=True)

    def start(self) -> None:
        """Begin to take ranks; those that came before have waited."""
        self._thread.start()

    def close(self) -> None:
        """Take no more ranks, and remove the socket."""
        os.close(self._closing)
        if self._thread.is_alive():
            self._thread.join()
        os.close(self._closed)
        self._server.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _listen(self) -> None:
        ready = select.poll()
        ready.register(self._server, select.POLLIN)
        ready.register(self._closed, select.POLLIN)
        while self._closed not in dict(ready.poll()):
            with suppress(
                OSError, ValueError, KeyError, TypeError
            ):  # of a process that did not go on, or is none of ours
                connection, _ = self._server.accept()
                with connection:
                    connection.settimeout(5.0)
                    self._meet(connection)

    def _meet(self, connection: socket.socket) -> None:
        message, numbers, _, _ = socket.recv_fds(connection, 4096, 2)
        try:
            rank = str(json.loads(message)["rank"])
            pipe, stdout = numbers
        except (ValueError, KeyError, TypeError):
            for number in numbers:
                os.close(number)
            raise
        self._take(rank, pipe, stdout)
        connection.sendall(b"+")
