"""The options of all verbs: what to read, where to cut, what to compare and to judge; declared and documented once.

A class has the options of one verb (:mod:`memlens.options.verbs`), and inherits those that verbs share, which stand here.  They are the keyword
arguments of the verb's Python function and the options of its command (:mod:`memlens.options.keywords`), and an object of the class is what
the verb is handed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlens.errors import UsageError
from memlens.options.keywords import Options, flag, option, python_only

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    from memlens.events import EventLog
    from memlens.windows.patterns import Pattern
    from memlens.windows.windows import Window


def as_list(patterns: str | Sequence[str]) -> list[str]:
    """One text or several, as a list."""
    return [patterns] if isinstance(patterns, str) else list(patterns)


class ReadAs(Options):
    """How inputs are to be read, where they do not tell by themselves.

    Attributes:
        read_as: Read the input as this format: paddle, torch-snapshot, kineto, rmm, parquet, or one of your own (memlens
            formats lists them). Default: what its content says.
        device: Read only device N, a number or cpu, of an input that has several. In Python: -1 is the CPU.
        layer: Take blocks from this layer of Paddle's allocator (auto_growth, stream_safe, naive_best_fit, stats, …). Default:
            the most exact one that the log has.
        formats: Know the formats in this TOML file too, instead of those in the nearest pyproject.toml.
        progress: Called now and then with the bytes read so far, over all inputs, as they lie on disk.
    """

    read_as: str | None = option("NAME", default=None, offers="formats", rare=True)
    device: int | None = option("N", default=None, kind="device")
    layer: str | None = option("NAME", default=None, offers="layers", rare=True)
    formats: str | Path | None = option("FILE", default=None, rare=True)
    progress: Callable[[int], None] | None = python_only(default=None)


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

    patterns: Sequence[Pattern] = python_only(default=())
    owners: Sequence[Pattern] = python_only(default=())
    columns: Sequence[str] = python_only(default=())
    strict: bool = python_only(default=False)


class OneWindow(Options):
    """Where to cut one window out of a log.

    Attributes:
        start: Start with the line that contains TEXT as whole words (START SOT_CALL_4 is not START SOT_CALL_42). Without a start:
            from the beginning.
        end: End before the first later line that contains TEXT. May be given several times: any of them ends.
        start_regex: Start with the line where the regular expression REGEX is found.
        end_regex: End before the first later line where REGEX is found. May be given several times.
        nth: Take the K-th line that matches the start.
        to_end: Go to the end of the log where no end comes, which is an error otherwise.

    Raises:
        UsageError: Two starts, or the number of a match of none.
    """

    start: str | None = option("TEXT", default=None)
    end: Sequence[str] = option("TEXT", default=(), several=True)
    start_regex: str | None = option("REGEX", default=None, rare=True)
    end_regex: Sequence[str] = option("REGEX", default=(), several=True, rare=True)
    nth: int = option("K", default=1, kind=1, shown=True, rare=True)
    to_end: bool = flag(default=False, rare=True)

    def __post_init__(self) -> None:
        for name in ("end", "end_regex"):
            object.__setattr__(self, name, tuple(as_list(getattr(self, name))))
        if self.start is not None and self.start_regex is not None:
            raise UsageError("--start and --start-regex exclude each other", "Give one of them.")
        if self.nth != 1 and not self.starts:
            raise UsageError("--nth needs --start or --start-regex", "It counts the lines that match the start.")

    @property
    def starts(self) -> bool:
        """Whether a line is named at which a window starts."""
        return self.start is not None or self.start_regex is not None


class Cut(OneWindow):
    """One window or a series of windows, by the words of :func:`memlens.windows.windows.window` and :func:`memlens.windows.windows.windows`.

    Attributes:
        by: Cut into consecutive windows, one from each line where REGEX is found to the next (or to --end), named by its first
            group or by what it matched.

    Raises:
        UsageError: ``by`` and a start are both given.
    """

    by: str | None = option("REGEX", default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by is not None and self.starts:
            raise UsageError(
                "--by and --start exclude each other",
                "--by starts a window at each line that matches it; give --end beside it if you need to.",
            )

    @property
    def given(self) -> bool:
        """Whether logs are to be cut at all."""
        return bool(self.end or self.end_regex) or self.starts or self.series

    @property
    def series(self) -> bool:
        """Whether the cut gives a series of windows and not one."""
        return self.by is not None

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """The anchors to look for while reading, so that the text need not be read twice (a pipe cannot be)."""
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
        from memlens.windows.windows import whole, window, windows

        if not self.given:
            return (whole(log),)
        given = self.of(Cut)
        if (by := given.pop("by")) is None:
            return (window(log, **given),)
        return windows(log, by, end=self.end, end_regex=self.end_regex, to_end=self.to_end)


class Owners(Options):
    """Whom allocations belong to.

    Attributes:
        owners: Blame what a thread allocates and frees after a line where REGEX is found on that line: on its first group or on
            what it matched. May be given several times. Lines in which Paddle says which operator runs are known without. In
            Python: A log already read keeps the owners that it has.
    """

    owners: Sequence[str] = option("REGEX", "--owner", default=(), several=True)

    @property
    def owner_patterns(self) -> tuple[Pattern, ...]:
        """The expressions of the lines that name an owner."""
        from memlens.windows.windows import as_patterns

        return tuple(as_patterns(as_list(self.owners), regex=True))


class Spread(Options):
    """Who reads several logs.

    Attributes:
        scheduler: Have logs read by the workers of a Dask cluster that exists, tcp://HOST:PORT, or by processes of this machine, one a
            processor (local).
        jobs: Read N logs at a time, each in a process of its own on this machine. Default: one after another.
        executor: Have logs read by this :class:`concurrent.futures.Executor`, which stays open: of a Dask client, of mpi4py, a pool of
            processes or of threads.
    """

    scheduler: str | None = option("tcp://HOST:PORT|local", default=None, rare=True)
    jobs: int | None = option("N", "-j", "--jobs", default=None, kind=1)
    executor: Executor | None = python_only(default=None)
