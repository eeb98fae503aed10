"""The options that verbs share: what to read, where to cut, whom to blame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memlens.errors import UsageError
from memlens.keywords import option, python_only

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from memlens.events import EventLog
    from memlens.windows.patterns import Pattern
    from memlens.windows.windows import Window

__all__ = ["Bounded", "Cut", "OneWindow", "Owners", "Read", "ReadAs", "Spread", "as_list", "values_of"]


def as_list(patterns: str | Sequence[str]) -> list[str]:
    """One text or several, as a list."""
    return [patterns] if isinstance(patterns, str) else list(patterns)


def values_of(options: Any, *parts: type) -> dict[str, Any]:
    """What a verb's options hold of classes that they inherit from, as keyword arguments: for these, or for another verb that inherits from them too."""
    return {spec.name: getattr(options, spec.name) for part in parts for spec in fields(part)}


@dataclass(frozen=True, kw_only=True)
class ReadAs:
    """How inputs are to be read, where they do not tell by themselves.

    Attributes:
        input_format: Read the input as this format: paddle, torch-snapshot, kineto, rmm, parquet, or one of your own (memlens
            formats lists them). Default: what its content says.
        device: Read only device N, a number or cpu, of an input that has several. In Python: -1 is the CPU.
        layer: Take blocks from this layer of Paddle's allocator (auto_growth, stream_safe, naive_best_fit, stats, …). Default:
            the most exact one that the log has.
        formats: Know the formats in this TOML file too, instead of those in the nearest pyproject.toml.
        cache: Keep what is read of a file, and take it from there the next time: in your cache folder (user), beside the file (beside), in
            another folder, or not at all (off). Default: what MEMLENS_CACHE says, else off. memlens cache shows what is kept.
        progress: Called now and then with the bytes read so far, over all inputs, as they lie on disk.
    """

    input_format: str | None = option(None, "NAME", offers="formats")
    device: int | None = option(None, "N", kind="device")
    layer: str | None = option(None, "NAME", offers="layers")
    formats: str | Path | None = option(None, "FILE")
    cache: str | Path | None = option(None, "WHERE")
    progress: Callable[[int], None] | None = python_only(None)


@dataclass(frozen=True, kw_only=True)
class Read(ReadAs):
    """The options of :func:`memlens.read`.

    Attributes:
        patterns: Anchors to find in the same pass; needed for input that can be read only once, quicker for any.
        owners: Lines that name the owner of what their thread allocates and frees next, beside those that memlens knows by
            itself: by the pattern's first group, or by what it matched. Of logs of Paddle only.
        columns: Columns wanted beyond the usual ones: ``time_us``, ``thread``; of logs of Paddle also ``requests``, the lines by which its allocator says what it is
            asked for (``facts.requests``).
        strict: Raise when a compressed input is cut short, instead of reading what there is.
    """

    patterns: Sequence[Pattern] = python_only(())
    owners: Sequence[Pattern] = python_only(())
    columns: Sequence[str] = python_only(())
    strict: bool = python_only(False)


@dataclass(frozen=True, kw_only=True)
class OneWindow:
    """Where to cut one window out of a log.

    Attributes:
        start: Start with the line that contains TEXT as whole words (START SOT_CALL_4 is not START SOT_CALL_42). Without a start:
            from the beginning.
        end: End before the first later line that contains TEXT. May be given several times: any of them ends. Where none comes:
            the end of the log.
        start_regex: Start with the line where the regular expression REGEX is found.
        end_regex: End before the first later line where REGEX is found. May be given several times.
        nth: Take the K-th line that matches the start.
    """

    start: str | None = option(None, "TEXT")
    end: Sequence[str] = option((), "TEXT", several=True)
    start_regex: str | None = option(None, "REGEX")
    end_regex: Sequence[str] = option((), "REGEX", several=True)
    nth: int = option(1, "K", kind=1, shown=True)

    def __post_init__(self) -> None:
        for name in ("end", "end_regex"):
            object.__setattr__(self, name, tuple(as_list(getattr(self, name))))


@dataclass(frozen=True, kw_only=True)
class Cut(OneWindow):
    """One window or a series of windows, by the words of :func:`memlens.windows.windows.window` and :func:`memlens.windows.windows.windows`.

    Attributes:
        by: Cut into consecutive windows, one from each line where REGEX is found to the next (or to --end), named by its first
            group or by what it matched.

    Raises:
        UsageError: ``by`` and a start are both given.
    """

    by: str | None = option(None, "REGEX")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by is not None and (self.start is not None or self.start_regex is not None):
            raise UsageError(
                "by and start exclude each other", "A series starts a window at each line that `by` matches."
            )

    @property
    def given(self) -> bool:
        """Whether logs are to be cut at all."""
        named = (self.start, self.start_regex, self.by)
        return bool(self.end or self.end_regex) or any(pattern is not None for pattern in named)

    @property
    def series(self) -> bool:
        """Whether the cut gives a series of windows and not one."""
        return self.by is not None

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """What to look for while reading, so that the text need not be read twice (a pipe cannot be)."""
        from memlens.windows.windows import as_patterns

        regexes = [pattern for pattern in (self.start_regex, self.by) if pattern is not None]
        literals = [] if self.start is None else [self.start]
        return (
            *as_patterns([*literals, *self.end], regex=False),
            *as_patterns([*regexes, *self.end_regex], regex=True),
        )

    def windows(self, log: EventLog) -> Sequence[Window]:
        """The windows asked for: a series, or one; the whole log where nothing was asked for.

        Raises:
            AnchorError: A start that marks no line, or fewer lines than asked for.
        """
        if self.by is not None:
            return log.windows(self.by, end=self.end, end_regex=self.end_regex)
        if not self.given:
            return (log.whole,)
        return (log.window(self.start, self.end, start_regex=self.start_regex, end_regex=self.end_regex, nth=self.nth),)


#: Bytes that one event takes while a log is read whose events are not all kept, with what is worked out on the way.
_OF_EVENT = 128


@dataclass(frozen=True, kw_only=True)
class Bounded:
    """How much memory a log may take.

    Attributes:
        memory: Take about SIZE (256MiB) for the events of a log: of one with more, those that no result needs are dropped while it
            is read. 0 keeps them all. Default: 64MiB; a plain file of less than 2 GiB keeps all.
    """

    memory: int | None = option(None, "SIZE", kind="size")

    @property
    def most_events(self) -> int | None:
        """Events that may be held at once; ``None`` for all, -1 where the size of the input is to decide."""
        if self.memory is None:
            return -1
        return max(self.memory // _OF_EVENT, 1) if self.memory else None


@dataclass(frozen=True, kw_only=True)
class Owners:
    """Whom allocations belong to.

    Attributes:
        owners: Blame what a thread allocates and frees after a line where REGEX is found on that line: on its first group or on
            what it matched. May be given several times. Lines in which Paddle says which operator runs are known without. In
            Python: A log already read keeps the owners that it has.
    """

    owners: Sequence[str] = option((), "REGEX", "--owner", several=True)


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Who reads several logs.

    Attributes:
        scheduler: Have logs read by the workers of a Dask cluster that exists, tcp://HOST:PORT, or by processes of this machine, one a
            processor (local).
        jobs: Read N logs at a time, each in a process of its own on this machine. Default: one after another. A plain log of 48 MiB or
            more is shared out among all processors in any case.
        executor: Have logs read by this :class:`concurrent.futures.Executor`, which stays open: of a Dask client, of mpi4py, a pool of
            processes or of threads.
    """

    scheduler: str | None = option(None, "tcp://HOST:PORT|local")
    jobs: int | None = option(None, "N", "-j", "--jobs", kind=1)
    executor: Executor | None = python_only(None)
