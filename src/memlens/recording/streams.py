"""A program's stdout and stderr as one log, and those of its ranks as a log each."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memlens.errors import MemlensError
from memlens.output import refuse_overwrite
from memlens.recording.inside import ranks as inside
from memlens.recording.passing import PassedOn
from memlens.recording.ranks import Ranks
from memlens.recording.result import RecordedLog, by_rank
from memlens.recording.sink import Drain, LogFile, check_name, rank_path

if TYPE_CHECKING:
    from memlens.options import Record

__all__ = ["ProgramLogs"]


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
        self._ranks: Ranks | None = None
        self.asked: Mapping[str, Any] = {"socket": None, "torch": None}
        try:
            self._ranks = Ranks(self._take_rank)
            self.asked = {"socket": {"path": self._ranks.path, "marks": own}, "torch": None}
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
