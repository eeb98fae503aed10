"""The memory history of a program of PyTorch, which the program itself writes as snapshots; its streams stay as they are.

The other side is ``inside/torch_history.py``, which has the names of the files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memlens.errors import UsageError
from memlens.output import refuse_overwrite
from memlens.recording.inside.torch_history import no_device, oom_path
from memlens.recording.result import RecordedLog, by_rank

if TYPE_CHECKING:
    from memlens.options import Record

__all__ = ["Snapshots"]

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
                "the torch preset leaves the program its output", "Leave --pass out; redirect the program as ever."
            )
        if "{rank}" in path.name:
            raise UsageError(
                "{rank} has no meaning in the name of a snapshot",
                "Ranks of torchrun add theirs by themselves: run.rank0.pickle beside run.pickle.",
            )
        for file in (path, Path(oom_path(str(path)))):
            refuse_overwrite(file, options.force)
        self.path, self._force, self._note = path, options.force, note
        why = no_device()
        if why:
            note(f"{why}: nothing will be recorded")
        self._before = self._found()
        self.asked: Mapping[str, Any] = {
            "socket": None,
            "torch": {"output": os.path.abspath(path), **({"said": True} if why else {})},
        }

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
            self._note("no snapshot was written: no process used CUDA by PyTorch, or it was killed before its end")
        logs = (RecordedLog(str(path), _rank(path), path.stat().st_size) for path in found)
        return tuple(sorted(logs, key=by_rank))

    def _found(self) -> set[Path]:
        """The files there are under the names of snapshots: ``run.pickle``, ``run.rank0.pickle``, ``run.oom.pickle``, with a process's number."""
        name = re.compile(rf"{re.escape(self.path.stem)}(?:\.(?:rank|pid)[0-9]+|\.oom)*{re.escape(self.path.suffix)}")
        return {file for file in self.path.parent.iterdir() if name.fullmatch(file.name)}


def _rank(path: Path) -> str | None:
    rank = _RANK.search(path.name)
    return None if rank is None else rank[1]
