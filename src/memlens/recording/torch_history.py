"""``memlens.record_torch``: the memory history of PyTorch over a block of a program, as a snapshot."""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from memlens.errors import MemlensError, OutputError, UsageError
from memlens.output import refuse_overwrite
from memlens.recording.inside import imports
from memlens.recording.inside.histories import ENTRIES, STACKS, History, missing, oom_path

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["TorchRecording", "record_torch"]

_HINT = "Run it on a machine with an NVIDIA or AMD GPU; on a CPU, torch.profiler.profile(profile_memory=True) writes a trace that memlens reads."


_NAMES = ("holders", "none")


@dataclass(frozen=True)  # no struct: a training program need not have what memlens needs
class TorchRecording:
    """A memory history while it is recorded, and what became of it.

    Attributes:
        path: Where the snapshot is written when the block ends.
        history: What records.
    """

    path: str
    history: History

    @property
    def ooms(self) -> int:
        """How often memory ran out so far; torch itself tries again at times, so that nothing need have failed."""
        return self.history.ooms

    @property
    def written(self) -> tuple[str, ...]:
        """The snapshots written so far: of the moment when memory first ran out, and of the end."""
        return tuple(self.history.written)


@contextmanager
def record_torch(
    output: str | os.PathLike[str],
    *,
    entries: int = ENTRIES,
    stacks: Literal["python", "all", "none"] = "python",
    names: Literal["holders", "none"] = "holders",
    force: bool = False,
) -> Iterator[TorchRecording]:
    """Record the memory history of PyTorch over a block, and write it as a snapshot, which memlens reads, when the block ends, also by an exception.

    When CUDA runs out of memory, a second snapshot is written at that moment, before the exception frees what it unwinds: ``run.oom.pickle`` beside
    ``run.pickle``; once, for the snapshot of the end holds the history of every failure.  CUDA is initialised if it was not.  Where
    the history was being recorded already, it goes on as it was, and after the block too; else its end clears it.

    Args:
        output: The snapshot, ``run.pickle``.  Give each rank of a distributed run its own.
        entries: Entries of the history to keep, the latest ones; each takes about a kilobyte of host memory.
        stacks: Whose frames call stacks have: Python's, those of C++ too (all), or there are no stacks (none).
        names: Say in the snapshots which variables hold the memory (holders), or do not (none).
        force: Write over files that exist.

    Yields:
        The recording.

    Raises:
        UsageError: Options that make no sense.
        MemlensError: There is no PyTorch, no CUDA device, or a PyTorch that records no memory history; before the block runs.
        OutputError: The output exists, or cannot be written.

    Example:
        >>> with memlens.record_torch("run.pickle"):                     # doctest: +SKIP
        ...     train()
    """
    if stacks not in STACKS:
        raise UsageError(f"no stacks {stacks!r}", f"There are: {', '.join(STACKS)}.")
    if names not in _NAMES:
        raise UsageError(f"no names {names!r}", f"There are: {', '.join(_NAMES)}.")
    if entries < 1:
        raise UsageError("entries is at least 1")
    path = os.path.abspath(output)
    for file in (path, oom_path(path)):
        refuse_overwrite(file, force)
    history = History(_torch(), path, entries, stacks, force)
    try:
        if names == "holders":
            imports.start({"holders": {}})
        history.start()
    except Exception as error:
        raise MemlensError(f"PyTorch does not record its memory history: {error}", _HINT) from error
    try:
        yield TorchRecording(path, history)
    except BaseException:
        try:
            _end(history)
        except MemlensError as error:  # what passes through is the user's
            sys.stderr.write(f"memlens: {error}\n")
        raise
    _end(history)


def _end(history: History) -> None:
    try:
        history.dump()
    except Exception as error:
        raise OutputError(f"cannot write {history.path}: {error}") from error
    finally:
        history.stop()


def _torch() -> Any:
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise MemlensError(f"there is no PyTorch here: {error}", "Install it, or leave record_torch out.") from error
    if why := missing(torch):
        raise MemlensError(why, _HINT)
    return torch
