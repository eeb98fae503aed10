"""Options that several verbs share: where to cut a log, whom allocations belong to, and where the result goes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from memlens.errors import UsageError
from memlens.options import Cut

__all__ = ["Cut", "anchor_options", "input_options", "output_options", "owner_options"]

Command = TypeVar("Command", bound=Callable[..., Any])


def _cut(values: dict[str, Any]) -> Cut:
    """Where to cut, as asked for.

    Raises:
        UsageError: Options that make no sense together, in the words of the command line.
    """
    if values.get("by") is not None and (values["start"] is not None or values["start_regex"] is not None):
        raise UsageError(
            "--by and --start exclude each other",
            "--by starts a window at each line that matches it; give --end beside it if you need to.",
        )
    cut = Cut(**values)
    if cut.start is not None and cut.start_regex is not None:
        raise UsageError("--start and --start-regex exclude each other", "Give one of them.")
    if cut.nth != 1 and cut.start is None and cut.start_regex is None:
        raise UsageError("--nth needs --start or --start-regex", "It counts the lines that match the start.")
    return cut


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
            cut = _cut({name: values.pop(name) for name in names if name in values})
            return command(*args, cut=cut, **values)

        return _with(options, with_cut)  # type: ignore[return-value]

    return decorate


def owner_options(command: Command) -> Command:
    """Add ``--owner``; the command gets ``owners: tuple[str, ...]``."""
    return _with(
        [
            click.option(
                "--owner",
                "owners",
                metavar="REGEX",
                multiple=True,
                help="Blame what a thread allocates and frees after a line where REGEX is found on that line: on its first group or "
                "on what it matched. May be given several times. Lines in which Paddle says which operator runs are known without.",
            )
        ],
        command,
    )


class _Device(click.ParamType):  # type: ignore[type-arg]  # generic only in newer releases
    """The number of a device; ``cpu`` is -1."""

    name = "device"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).lower()
        number = "-1" if text == "cpu" else text
        if number != "-1" and not (number.isascii() and number.isdigit() and len(number) <= 6):
            self.fail(f"{value!r} is no device. Give its number, or cpu.", param, ctx)
        return int(number)


def input_options(command: Command) -> Command:
    """Add ``--input-format``, ``--device``, ``--layer`` and ``--formats``.

    The command gets ``input_format: str | None``, ``device: int | None``, ``layer: str | None``
    and ``formats: str | None``.
    """
    return _with(
        [
            click.option(
                "--input-format",
                metavar="NAME",
                help="Read the input as this format: paddle, torch-snapshot, kineto, rmm, or one of your own (memlens formats lists "
                "them). Default: what its content says.",
            ),
            click.option(
                "--device",
                metavar="N",
                type=_Device(),
                help="Read only device N, a number or cpu, of an input that has several.",
            ),
            click.option(
                "--layer",
                metavar="NAME",
                help="Take blocks from this layer of Paddle's allocator (auto_growth, stream_safe, naive_best_fit, stats, …). Default: the "
                "most exact one that the log has.",
            ),
            click.option(
                "--formats",
                metavar="FILE",
                help="Know the formats in this TOML file too, instead of those in the nearest pyproject.toml.",
            ),
        ],
        command,
    )


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
