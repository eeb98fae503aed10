"""The result of a recording: how the program ended, where its logs are, and what they say."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memlens.results import Answer, Failure

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
