"""The options of the verb that follows logs that grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType

from memlens.errors import UsageError
from memlens.keywords import option

__all__ = ["Watch"]


@dataclass(frozen=True, kw_only=True)
class Watch:
    """The options of :func:`memlens.watch`.

    Attributes:
        by: Cut into consecutive windows, one from each line where REGEX is found to the next, named by its first group or by what it matched. Default: the steps of
            the run, where its log counts them.
        limits: Say when a figure of a log exceeds a limit: peak=10GiB, reserved=12GiB, or growth=64MiB, which is what the series of windows gains. May
            be given several times.
        run: Run COMMAND by the shell when a limit is crossed, once for each log and limit; MEMLENS_LOG, MEMLENS_METRIC, MEMLENS_BYTES and MEMLENS_LIMIT tell it what.
        idle: End when nothing was written for so many seconds; 0 ends with what is there now. Default: when interrupted (Ctrl-C).
        pid: End when the process of this number has ended and all that it wrote is read.
        every: Seconds between two looks at the logs.
        input_format: Read the logs as this format: paddle, rmm, or one of your own. Default: what their content says.
        formats: Know the formats in this TOML file too, instead of those in the nearest pyproject.toml.

    Raises:
        UsageError: ``every`` or ``idle`` is no time, or ``pid`` no number.
    """

    by: str | None = option(None, "REGEX")
    limits: Sequence[str] = option((), "METRIC=SIZE", "--limit", several=True)
    run: str | None = option(None, "COMMAND")
    idle: float | None = option(None, "SECONDS", kind="seconds")
    pid: int | None = option(None, "PID", kind=1)
    every: float = option(0.5, "SECONDS", kind="seconds", shown=True)
    input_format: str | None = option(None, "NAME", offers="formats")
    formats: str | Path | None = option(None, "FILE")

    def __post_init__(self) -> None:
        if not isinstance(self.every, (int, float)) or not self.every > 0:
            raise UsageError("--every is a time between two looks", "Give seconds, like 0.5.")
        if not isinstance(self.idle, (int, float, NoneType)):
            raise UsageError(
                f"--idle is a time in which nothing is written, not {self.idle!r}", "Give seconds, like 600."
            )
        if not isinstance(self.pid, (int, NoneType)):
            raise UsageError(f"--pid is the number of a process, not {self.pid!r}", "Give it as a number, like 4711.")
