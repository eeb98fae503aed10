"""Options that several verbs share: where to cut a log, and where the result goes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from memlens.errors import UsageError

if TYPE_CHECKING:
    from memlens.events import EventLog
    from memlens.slicing import Pattern, Window

__all__ = ["Cut", "anchor_options", "output_options"]

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Cut:
    """Where to cut a log, as asked for on the command line.

    Raises:
        UsageError: Options that make no sense together.
    """

    start: str | None = None
    start_regex: str | None = None
    end: tuple[str, ...] = ()
    end_regex: tuple[str, ...] = ()
    nth: int = 1
    by: str | None = None

    def __post_init__(self) -> None:
        if self.start is not None and self.start_regex is not None:
            raise UsageError("--start and --start-regex exclude each other", "Give one of them.")
        if self.by is not None and (self.start is not None or self.start_regex is not None):
            raise UsageError(
                "--by and --start exclude each other",
                "--by starts a window at each line that matches it; give --end beside it if you need to.",
            )
        if self.nth != 1 and self.start is None and self.start_regex is None:
            raise UsageError("--nth needs --start or --start-regex", "It counts the lines that match the start.")

    @property
    def given(self) -> bool:
        """Whether the log is to be cut at all."""
        return bool(self.patterns)

    @property
    def series(self) -> bool:
        """Whether the cut gives a series of windows and not one."""
        return self.by is not None

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """The anchors to look for while the log is read, so that a log from a pipe can be cut as well."""
        from memlens.slicing import as_patterns

        return (
            *as_patterns([self.start] if self.start is not None else [], regex=False),
            *as_patterns([p for p in (self.start_regex, self.by) if p is not None], regex=True),
            *as_patterns(self.end, regex=False),
            *as_patterns(self.end_regex, regex=True),
        )

    def windows(self, log: EventLog) -> tuple[Window, ...]:
        """The windows asked for: a series with ``--by``, else one; the whole log when nothing was asked for.

        Raises:
            AnchorError: A start that marks no line, or fewer lines than asked for.
        """
        if self.by is not None:
            return log.windows(self.by, end=self.end, end_regex=self.end_regex)
        if not self.given:
            return (log.whole,)
        return (log.window(self.start, self.end, start_regex=self.start_regex, end_regex=self.end_regex, nth=self.nth),)


def anchor_options(*, by: bool = True) -> Callable[[Command], Command]:
    """Add ``--start``, ``--end``, their ``-regex`` forms, ``--nth`` and ``--by``; the command gets them as ``cut: Cut``.

    Args:
        by: Offer ``--by`` too (not where exactly one window makes sense).
    """
    options = [
        click.option(
            "--start",
            metavar="TEXT",
            help="Start with the line that contains TEXT as whole words (START SOT_CALL_4 is not START SOT_CALL_42). "
            "Without a start: from the beginning.",
        ),
        click.option(
            "--start-regex", metavar="REGEX", help="Start with the line where the regular expression REGEX is found."
        ),
        click.option(
            "--end",
            metavar="TEXT",
            multiple=True,
            help="End before the first later line that contains TEXT. May be given several times: any of them ends. "
            "Where none comes: the end of the log.",
        ),
        click.option(
            "--end-regex",
            metavar="REGEX",
            multiple=True,
            help="End before the first later line where REGEX is found. May be given several times.",
        ),
        click.option(
            "--nth",
            metavar="K",
            type=click.IntRange(min=1),
            default=1,
            show_default=True,
            help="Take the K-th line that matches the start.",
        ),
    ]
    if by:
        options.append(
            click.option(
                "--by",
                metavar="REGEX",
                help="Cut into consecutive windows, one from each line where REGEX is found to the next (or to --end), "
                "named by its first group or by what it matched.",
            )
        )

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def with_cut(*args: Any, **values: Any) -> Any:
            names = ("start", "start_regex", "end", "end_regex", "nth", "by")
            cut = Cut(**{name: values.pop(name) for name in names if name in values})
            return command(*args, cut=cut, **values)

        return _with(options, with_cut)  # type: ignore[return-value]

    return decorate


def output_options(command: Command) -> Command:
    """Add ``-o FILE`` and ``-f``; the command gets ``output: str | None`` and ``force: bool``."""
    return _with(
        [
            click.option("-o", "--output", metavar="FILE", help="Write to FILE instead of stdout."),
            click.option("-f", "--force", is_flag=True, help="Write over FILE if it exists."),
        ],
        command,
    )


def _with(options: list[Callable[[Any], Any]], command: Command) -> Command:
    for option in reversed(options):
        command = option(command)
    return command
