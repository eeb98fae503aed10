"""The options of the verb that runs a program and records its log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from memlens.errors import UsageError
from memlens.keywords import flag, option, python_only
from memlens.options.parts import as_list

__all__ = ["PASSED", "PRESETS", "Record"]

#: What is recorded: the log of Paddle's allocators, or the memory history of PyTorch.
PRESETS = ("paddle", "torch")
#: What of the program's output is passed on while it is recorded.
PASSED = ("program", "all", "none")


@dataclass(frozen=True, kw_only=True)
class Record:
    """The options of :func:`memlens.record`.

    Attributes:
        preset: What to record: the log of Paddle's allocators with all that the program prints (paddle), or the memory history of
            PyTorch as a snapshot (torch).
        output: Write to FILE, compressed as its name says (.zst, .gz); each rank of a distributed run to a file of its own, run.rank0.log.zst. Default: memlens-, the
            time and the number of the process, and .log.zst or .pickle.
        force: Write over FILE if it exists.
        env: Set a variable of the program, in place of what the preset sets; NAME= takes it away. May be given several times.
        tell: Called with each line for people: what the program's environment is, and what goes wrong while it runs. Default: nobody is told.
        passed: What of the program's output to pass on to stdout: all but the framework's log lines (program), all, or none.
    """

    preset: str = option("paddle", "", choices=PRESETS, shown=True)
    output: str | Path | None = option(None, "FILE", "-o", "--output")
    force: bool = flag(False, "-f", "--force")
    env: str | Sequence[str] = option((), "NAME=VALUE", several=True)
    tell: Callable[[str], None] | None = python_only(None)
    passed: str = option("program", "", "--pass", choices=PASSED, shown=True)

    def __post_init__(self) -> None:
        for name, value, known in (("preset", self.preset, PRESETS), ("pass", self.passed, PASSED)):
            if value not in known:
                raise UsageError(f"there is no {name} {value!r}", f"There are: {', '.join(known)}.")
        object.__setattr__(self, "env", tuple(as_list(self.env)))
