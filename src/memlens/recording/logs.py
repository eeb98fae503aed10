"""The logs of a program that is recorded.

Its stdout and stderr are one log, and those of its ranks a log each: the ranks, which are no children of the recorder, hand over their output through
a socket, whose other side is ``inside/ranks.py``.  A memory history, of PyTorch or Paddle, is written by the program itself, as snapshots whose
names ``inside/histories.py`` has; its streams stay as they are.
"""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import socket
import sys
import tempfile
import threading
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from memlens.errors import MemlensError, UsageError
from memlens.output import refuse_overwrite
from memlens.recording.inside import ranks as inside
from memlens.recording.inside.histories import no_device, oom_path
from memlens.recording.names import asked_for
from memlens.recording.sink import Drain, LogFile, PassedOn, check_name, rank_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from memlens.claims.claim import Answer
    from memlens.options.verbs import Record
    from memlens.results import Failure


__all__ = ["RecordedLog", "Recording", "by_rank"]


class RecordedLog(Struct, frozen=True):
    """A log, or a snapshot, that was written.

    Attributes:
        path: Of the file.
        rank: What the process of a distributed run calls its rank; ``None`` of the program itself, or of its launcher.
        text_bytes: Bytes that the program wrote, uncompressed; of a snapshot, the size of the file.
        problem: Why the file does not hold all of them, in words; ``""`` where it does.
    """

    path: str
    rank: str | None
    text_bytes: int
    problem: str = ""


class Recording(Struct, frozen=True):
    """How a recorded program ended.

    Attributes:
        command: The program and its arguments.
        exit_code: Its own; 128 and the number of the signal where one ended it.
        signal: The name of this signal, ``SIGKILL``; ``None`` where none did.
        seconds: From its start to its end.
        logs: What was written: first the log of the program itself, then those of its ranks by their numbers.
        environment: The variables of the program that differ from those of the recorder; ``None`` was taken away.
        problems: What went wrong with recording, or spoils the log, in words.
        answer: What :func:`memlens.analyze` says of the logs; ``None`` where it can say nothing.
        failures: Which of the logs cannot be analyzed, and why; of those that were to be judged.
        judged: The logs that the verdict is on: those of the ranks, or where they say nothing, or there are none, that of the program itself.
    """

    command: tuple[str, ...]
    exit_code: int
    signal: str | None
    seconds: float
    logs: tuple[RecordedLog, ...]
    environment: Mapping[str, str | None]
    problems: tuple[str, ...] = ()
    answer: Answer | None = None
    failures: tuple[Failure, ...] = ()
    judged: tuple[RecordedLog, ...] = ()

    @property
    def verdict(self) -> str:
        """The verdicts on the logs, in one to three sentences with exact figures; ``""`` where they say nothing."""
        return "" if self.answer is None else str(self.answer)


def by_rank(log: RecordedLog) -> tuple[bool, int, str]:
    """The program itself, then its ranks by their numbers, then what calls itself otherwise."""
    rank = log.rank or ""
    return log.rank is not None, int(rank) if rank.isdecimal() else sys.maxsize, log.path


#: A path of a Unix socket takes at most 104 bytes, 108 on Linux.
_LONGEST_PATH = 100


class ProgramLogs:
    """The logs of a program that is to be started.

    Args:
        path: The log of the program itself.
        options: How it is written, and what is passed on.
        note: Told what goes wrong.

    Attributes:
        path: The log of the program itself, with its rank if it is one.
        asked: What ``MEMLENS_RECORD`` asks of the program's Python processes.
        writing: Where the program's stdout and stderr go.

    Raises:
        MemlensError: The log cannot be written.
    """

    def __init__(self, path: Path, options: Record, note: Callable[[str], None]) -> None:
        own = inside.marks()
        check_name(path)
        self.path = rank_path(path, next(iter(own.values()), "main")) if "{rank}" in path.name else path
        refuse_overwrite(self.path, options.force)
        self._given, self._options, self._note = path, options, note
        self._output = PassedOn(1)
        self._drains: list[tuple[Drain, str | None]] = []
        self._paths = {self.path}
        self._log = LogFile(self.path, options.force)
        self._reading, self.writing = os.pipe()
        self._ranks: _Ranks | None = None
        names = asked_for(options.names)
        self.asked: Mapping[str, Any] = {"socket": None, **names}
        try:
            self._ranks = _Ranks(self._take_rank)
            self.asked = {"socket": {"path": self._ranks.path, "marks": own}, **names}
        except OSError as error:  # no room for temporary files
            note(f"ranks will get no logs of their own: {error.strerror}")

    def discard(self) -> None:
        """The program was not started: leave everything as it was."""
        self._log.discard()
        self._end_ranks()
        os.close(self._reading)
        os.close(self.writing)

    def begin(self) -> None:
        """The program runs."""
        os.close(self.writing)
        self._log.begin()
        self._drain(self._reading, self._log, self._output, None)
        if self._ranks is not None:
            self._ranks.start()

    def end(self) -> tuple[RecordedLog, ...]:
        """The program has ended: read what is still to be read, and give the logs."""
        self._end_ranks()
        for drain, _ in self._drains:
            drain.end()
        for drain, _ in self._drains:
            drain.join()
            if drain.left:
                self._note(f"{drain.log.path}: a process that the program left behind still writes; the log ends here")
        logs = (RecordedLog(str(d.log.path), rank, d.log.text_bytes, d.log.problem) for d, rank in self._drains)
        return tuple(sorted(logs, key=by_rank))

    def _end_ranks(self) -> None:
        if self._ranks is not None:
            self._ranks.close()

    def _drain(self, pipe: int, log: LogFile, output: PassedOn, rank: str | None) -> None:
        drain = Drain(pipe, log, self._options.passed, output, self._note)
        self._drains.append((drain, rank))
        drain.start()

    def _take_rank(self, rank: str, pipe: int, stdout: int) -> None:
        """Begin the log of a rank.

        Raises:
            OSError: It cannot be written; the rank keeps its streams then.
        """
        force = self._options.force
        names = (rank_path(self._given, rank, again) for again in count(1))
        path = next(p for p in names if p not in self._paths and (force or not os.path.lexists(p)))
        self._paths.add(path)
        try:
            log = LogFile(path, force)
        except MemlensError as error:
            self._note(error.message)
            os.close(pipe)
            os.close(stdout)
            raise OSError from error
        log.begin()
        # Where its stdout is that of the launcher, it is recorded: what is passed on of this rank would stand in the launcher's log too.
        own, theirs = os.fstat(self._reading), os.fstat(stdout)
        output = PassedOn(stdout, owned=True)
        if (own.st_dev, own.st_ino) == (theirs.st_dev, theirs.st_ino):
            output.close()
            output = self._output
        self._drain(pipe, log, output, rank)


class _Ranks:
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
            # Of a process that did not go on, or is none of ours.
            with suppress(OSError, ValueError, KeyError, TypeError):
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


_RANK = re.compile(r"\.rank([0-9]+)\b")


class Snapshots:
    """The snapshots of a program that is to be started.

    Args:
        path: The snapshot of its end; others stand beside it.
        options: Whether files are written over.
        note: Told what goes wrong.

    Attributes:
        path: The snapshot of its end.
        asked: What ``MEMLENS_RECORD`` asks of the program's Python processes.
        writing: ``None``: the program's streams are those of the recorder.

    Raises:
        MemlensError: The snapshot cannot be written, or options that make no sense.
    """

    writing = None

    def __init__(self, path: Path, options: Record, note: Callable[[str], None]) -> None:
        if path.suffix in (".zst", ".gz", ".xz", ".bz2") or str(path) == "-":
            raise UsageError(
                "a snapshot is not compressed, and does not go to stdout", "Name it as a pickle: -o run.pickle."
            )
        if options.passed == "none":
            raise UsageError(
                f"the {options.preset} preset leaves the program its output",
                "Leave --pass out; redirect the program as ever.",
            )
        if "{rank}" in path.name:
            raise UsageError(
                "{rank} has no meaning in the name of a snapshot",
                "Ranks add theirs by themselves: run.rank0.pickle beside run.pickle.",
            )
        for file in (path, Path(oom_path(str(path)))):
            refuse_overwrite(file, options.force)
        self.path, self._force, self._note = path, options.force, note
        why = no_device()
        if why:
            note(f"{why}: nothing will be recorded")
        self._before = self._found()
        asked = {"output": os.path.abspath(path), **({"said": True} if why else {})}
        self.asked: Mapping[str, Any] = {"torch": asked, "holders": asked_for(options.names)["holders"]}
        self._framework = "PyTorch"
        if options.preset == "paddle-history":
            self.asked = {"paddle": {**asked, "of": "paddle"}}
            self._framework = "a Paddle that records it"

    def discard(self) -> None:
        """The program was not started."""

    def begin(self) -> None:
        """The program runs: what it writes over goes, for it writes over nothing itself."""
        if self._force:
            for path in self._before:
                path.unlink(missing_ok=True)
            self._before = set()

    def end(self) -> tuple[RecordedLog, ...]:
        """The program has ended: give its snapshots."""
        found = self._found() - self._before
        if not found:
            self._note(
                f"no snapshot was written: no process used CUDA by {self._framework}, or it was killed before its end"
            )
        logs = (RecordedLog(str(path), _rank(path), path.stat().st_size) for path in found)
        return tuple(sorted(logs, key=by_rank))

    def _found(self) -> set[Path]:
        """The files there are under the names of snapshots: ``run.pickle``, ``run.rank0.pickle``, ``run.oom.pickle``, with a process's number."""
        name = re.compile(rf"{re.escape(self.path.stem)}(?:\.(?:rank|pid)[0-9]+|\.oom)*{re.escape(self.path.suffix)}")
        return {file for file in self.path.parent.iterdir() if name.fullmatch(file.name)}


def _rank(path: Path) -> str | None:
    rank = _RANK.search(path.name)
    return None if rank is None else rank[1]
