"""Inputs as verbs take them, read one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

if TYPE_CHECKING:
    from memlens.events import EventLog
    from memlens.slicing import Pattern

__all__ = ["Input", "Reading", "input_name"]

#: A path, ``-`` for standard input, an open binary file, or a log that was read.
Input: TypeAlias = "str | Path | BinaryIO | EventLog"

#: Names of files whose lines cannot be looked up at little cost; a guess, which the time of a peak depends on and no more.
_COMPRESSED = frozenset({".gz", ".zst", ".xz", ".bz2"})


@dataclass
class Reading:
    """Reads one log after another and adds their progress up.

    Attributes:
        patterns: Anchors to find in the same pass.
        strict: An input that is cut short is an error.
        times: Read the time of every event, also where that costs a second look at the text.
        owners: Further context lines.
        progress: Called with the bytes read so far, over all logs, as they lie on disk.
    """

    patterns: tuple[Pattern, ...] = ()
    strict: bool = False
    times: bool = False
    owners: Sequence[Pattern] = ()
    progress: Callable[[int], None] | None = None
    _before: int = 0

    def read(self, given: Input) -> EventLog:
        """Read one input; a log that was read comes back as it is."""
        from memlens.events import EventLog
        from memlens.parsing.reader import read

        if isinstance(given, EventLog):
            return given
        before = self._before

        def add_up(done: int) -> None:
            self._before = before + done
            if self.progress is not None:
                self.progress(self._before)

        return read(
            given,
            patterns=self.patterns,
            columns=self._columns(given),
            owners=self.owners,
            strict=self.strict,
            progress=add_up,
        )

    def _columns(self, given: Input) -> tuple[str, ...]:
        plain_file = isinstance(given, (str, Path)) and str(given) != "-" and Path(given).suffix not in _COMPRESSED
        return () if plain_file and not self.times else ("time_us",)


def input_name(given: Input) -> str:
    """An input as it was named."""
    from memlens.events import EventLog

    if isinstance(given, EventLog):
        return given.source.name
    if isinstance(given, (str, Path)):
        return "<stdin>" if str(given) == "-" else str(given)
    name = getattr(given, "name", "")
    return name if isinstance(name, str) and name else "<stream>"
