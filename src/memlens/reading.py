"""Inputs as verbs take them, read one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

if TYPE_CHECKING:
    from memlens.events import EventLog
    from memlens.slicing import Pattern

__all__ = ["Input", "ReadAs", "Reading", "input_name"]

#: A path, ``-`` for standard input, a URL, an open binary file, or a log that was read.
Input: TypeAlias = "str | Path | BinaryIO | EventLog"

#: Names of files whose lines cannot be looked up at little cost; a guess, which the time of a peak depends on and no more.
_COMPRESSED = frozenset({".gz", ".zst", ".xz", ".bz2"})


@dataclass(frozen=True)
class ReadAs:
    """How inputs are to be read, where they do not tell by themselves.

    Attributes:
        input_format: The name of their format; ``None``: look what each of them is.
        device: The device to read of inputs that have several; ``None``: all.
        formats: A TOML file with formats of users, instead of those in the nearest ``pyproject.toml``.
        layer: The layer of Paddle's allocator to take blocks from.
    """

    input_format: str | None = None
    device: int | None = None
    formats: str | Path | None = None
    layer: str | None = None


@dataclass
class Reading:
    """Reads one log after another and adds their progress up.

    Attributes:
        patterns: Anchors to find in the same pass.
        strict: An input that is cut short is an error.
        times: Read the time of every event, also where that costs a second look at the text.
        owners: Further context lines.
        progress: Called with the bytes read so far, over all logs, as they lie on disk.
        how: The format and the device, where they are given.
        threads: Read the thread of every event.
    """

    patterns: tuple[Pattern, ...] = ()
    strict: bool = False
    times: bool = False
    owners: Sequence[Pattern] = ()
    progress: Callable[[int], None] | None = None
    how: ReadAs = field(default_factory=ReadAs)
    threads: bool = False
    _before: int = 0

    def read(self, given: Input) -> EventLog:
        """Read one input that has one device, or the device that was named; a log that was read comes back as it is.

        Raises:
            UsageError: It has several devices, and none was named.
        """
        logs = self.read_all(given)
        if len(logs) > 1:
            from memlens.parsing.inputs import several_devices

            raise several_devices(input_name(given), logs)
        return logs[0]

    def read_all(self, given: Input) -> tuple[EventLog, ...]:
        """Read one input, a log for each of its devices; a log that was read comes back as it is."""
        from memlens.events import EventLog
        from memlens.parsing.input_formats import Request
        from memlens.parsing.inputs import read_all

        if isinstance(given, EventLog):
            return (given,)
        before = self._before

        def add_up(done: int) -> None:
            self._before = before + done
            if self.progress is not None:
                self.progress(self._before)

        request = Request(self.patterns, tuple(self.owners), self._columns(given), strict=self.strict, progress=add_up)
        return read_all(given, request, self.how)

    def _columns(self, given: Input) -> tuple[str, ...]:
        from memlens.parsing.urls import is_url

        plain_file = isinstance(given, (str, Path)) and str(given) != "-" and Path(given).suffix not in _COMPRESSED
        times = () if plain_file and not is_url(given) and not self.times else ("time_us",)
        return (*times, "thread") if self.threads else times


def input_name(given: Input) -> str:
    """An input as it was named."""
    from memlens.events import EventLog

    if isinstance(given, EventLog):
        return given.source.name
    if isinstance(given, (str, Path)):
        return "<stdin>" if str(given) == "-" else str(given)
    name = getattr(given, "name", "")
    return name if isinstance(name, str) and name else "<stream>"
