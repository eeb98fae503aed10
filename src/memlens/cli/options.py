"""The command of a verb, made of the classes of its options, and the options that only the command line has."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import Any

import click

from memlens.cli.completion import FILES, offered
from memlens.cli.messages import told
from memlens.cli.terminal import WHEN
from memlens.errors import UsageError
from memlens.keywords import Option, flag, option, options_of
from memlens.options import OneWindow
from memlens.reports import FORMS
from memlens.units import parse_bytes

__all__ = ["Output", "Show", "verb"]

#: The order in which help lists options.
_ORDER = str.split("""
    preset env passed
    template rows cols base metrics baseline accept with_events limits budgets
    start start_regex end end_regex nth by
    base_start head_start base_start_regex head_start_regex base_end head_end base_nth head_nth
    whole open_windows owners input_format device layer formats cache clear
    base_log allow_missing limit settings all_settings own trust run idle pid every diff x title theme width height dpi analyzers scheduler jobs diffs memory top min_size sort context
    events_only renumber to table form full brief plot color output force junit markdown github strict no_progress quiet verbose
""")


@dataclass(frozen=True, kw_only=True)
class Output:
    """Where the result goes.

    Attributes:
        output: Write to FILE instead of stdout.
        force: Write over FILE if it exists.
        quiet: Write nothing on stderr but errors.
        verbose: Say on stderr what each input was taken for, what was read of it, and how long that and the rest took.
    """

    output: str | None = option(None, "FILE", "-o", "--output")
    force: bool = flag(False, "-f", "--force")
    quiet: bool = flag(False, "-q", "--quiet")
    verbose: bool = flag(False, "-v", "--verbose")

    def __post_init__(self) -> None:
        if self.quiet and self.verbose:
            raise UsageError("--quiet and --verbose exclude each other", "Give one of them.")

    @property
    def on_stdout(self) -> bool:
        """Whether the result goes to stdout and not to a file."""
        return self.output in (None, "-")


@dataclass(frozen=True, kw_only=True)
class Show(Output):
    """How the result is shown.

    Attributes:
        form: How to write the result.
        full: Show everything, and not one screen.
        brief: Show the verdict alone.
        color: When to use colours: always, never, or where stdout is a terminal that has them (auto), which NO_COLOR, FORCE_COLOR and
            CLICOLOR_FORCE decide too. A file never gets any.
        no_progress: Show no progress bar.
    """

    form: str = option("table", "", "--format", choices=tuple(FORMS), shown=True)
    full: bool = flag(False)
    brief: bool = flag(False)
    color: str = option("auto", "", choices=WHEN, shown=True)
    no_progress: bool = flag(False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.full and self.brief:
            raise UsageError("--full and --brief exclude each other", "Without either one screen is shown.")

    @property
    def everything(self) -> bool:
        """Whether to show more than one screen: what is pasted somewhere else has none."""
        return self.full or self.form == "markdown"


def verb(
    name: str,
    arguments: Sequence[click.Argument],
    *owners: type,
    examples: str,
    only: Sequence[str] = _ORDER,
    **context: Any,
) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a function the command of a verb; it gets the arguments by their names, then an object of each class of options.

    Args:
        name: What the verb is called.
        arguments: What it takes beside options; those that are text are paths of files.
        owners: The classes of its options; one that stands in two of them is one option.
        examples: Commands to try, below its help.
        only: Take these options alone.
        context: Settings of click's context.
    """
    known = {key: one for owner in owners for key, one in options_of(owner).items() if one.kind != "python"}
    chosen = [known[key] for key in _ORDER if key in known and key in only]

    for argument in arguments:
        if argument.type is click.STRING:
            argument.type = FILES

    def decorate(run: Callable[..., Any]) -> click.Command:
        takes = [key for key in inspect.signature(run).parameters if key not in {one.name for one in arguments}]

        def command(**values: Any) -> Any:
            if any(issubclass(owner, OneWindow) for owner in owners):
                _check_cut(**{key: values[key] for key in ("start", "start_regex", "nth")}, by=values.get("by"))
            given = {one.name: _value(one, values.pop(one.name)) for one in chosen}
            objects = [owner(**{key: given[key] for key in options_of(owner) if key in given}) for owner in owners]
            with told(next((one for one in objects if isinstance(one, Output)), None)):
                return run(**values, **dict(zip(takes, objects, strict=True)))

        return click.Command(
            name,
            {"help_option_names": ["-h", "--help"], **context},
            command,
            [*arguments, *map(_click_option, chosen)],
            inspect.cleandoc(run.__doc__ or ""),
            f"\b\nExamples:\n{examples}",
        )

    return decorate


def _check_cut(start: str | None, start_regex: str | None, nth: int, by: str | None) -> None:
    """Refuse anchors that make no sense together, in the words of the command line.

    Raises:
        UsageError: Such anchors.
    """
    if by is not None and (start is not None or start_regex is not None):
        raise UsageError(
            "--by and --start exclude each other",
            "--by starts a window at each line that matches it; give --end beside it if you need to.",
        )
    if start is not None and start_regex is not None:
        raise UsageError("--start and --start-regex exclude each other", "Give one of them.")
    if nth != 1 and start is None and start_regex is None:
        raise UsageError("--nth needs --start or --start-regex", "It counts the lines that match the start.")


def _click_option(one: Option) -> click.Option:
    kind: Any = click.IntRange(min=one.kind) if isinstance(one.kind, int) else _TYPES.get(one.kind) or offered(one)
    bare = one.several or one.kind == "flag" or one.default == ()
    return click.Option(
        [*one.flags, one.name],
        metavar=one.metavar or None,
        type=click.Choice(one.choices) if one.choices else kind,
        multiple=one.several,
        is_flag=one.kind == "flag",
        show_default=one.shown,
        help=one.help,
        **({} if bare else {"default": one.default}),
    )


def _value(one: Option, typed: Any) -> Any:
    """The value of an option: its default where it was not given, and the other one of a flag."""
    if one.default is True:
        return not typed
    return one.default if typed is None or typed is False or typed == () else typed


class _Typed(click.ParamType):  # type: ignore[type-arg]  # generic only in newer releases
    """Text that a function turns into a value."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except UsageError as error:
            self.fail(f"{error.message}. {error.hint}", param, ctx)


def _device(text: str) -> int:
    """The number of a device; ``cpu`` is -1."""
    number = "-1" if text.lower() == "cpu" else text
    if number != "-1" and not (number.isascii() and number.isdigit() and len(number) <= 6):
        raise UsageError(f"{text!r} is no device", "Give its number, or cpu.")
    return int(number)


def _inches(text: str) -> float:
    """A length in inches."""
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{text!r} is no length", "Give inches: 3.5, or 10.") from None


def _seconds(text: str) -> float:
    """A time in seconds, 0 or more."""
    with suppress(ValueError):
        if 0 <= (seconds := float(text)) < inf:
            return seconds
    raise UsageError(f"{text!r} is no time", "Give seconds: 0.5, or 60.")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


_TYPES = {
    "size": _Typed("size", parse_bytes),
    "device": _Typed("device", _device),
    "names": _Typed("names", _names),
    "inches": _Typed("inches", _inches),
    "seconds": _Typed("seconds", _seconds),
}
