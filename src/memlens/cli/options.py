"""The command of a verb, made of the classes of its options, and what a shell offers where the value of one is typed."""

from __future__ import annotations

import inspect
from contextlib import suppress
from functools import cache
from math import inf
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class, shell_complete

from memlens.cli.output import Output, verbose
from memlens.errors import UsageError
from memlens.options.keywords import Option, Options, options_of
from memlens.text import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: The order in which help lists options; others come last.
_ORDER = str.split("""
    preset env passed
    rows cols base metrics baseline accept limits budgets
    start start_regex end end_regex nth to_end by
    base_start head_start base_start_regex head_start_regex base_end head_end base_nth head_nth
    whole open_windows owners read_as device layer formats
    allow_missing settings all_settings own trust run idle pid every x title theme width height dpi analyzers scheduler jobs memory top min_size sort context
    events_only renumber to table form full brief plot color output force junit markdown github strict no_progress quiet verbose
""")


def verb(
    name: str, arguments: Sequence[click.Argument], *owners: type[Options], only: Sequence[str] = (), **context: Any
) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a function the command of a verb; it gets the arguments by their names, then an object of each class of options.

    Its docstring is the help, and ends with ``Examples:``, which stand below the options.

    Args:
        name: What the verb is called.
        arguments: What it takes beside options; those that are text are paths of files.
        owners: The classes of its options; one that stands in two of them is one option.
        only: Take these options alone; all where none is named.
        context: Settings of click's context.
    """
    known = {key: one for owner in owners for key, one in owner._fields.items() if one.kind != "python"}
    place = {key: number for number, key in enumerate(_ORDER)}
    chosen = sorted(
        (known[key] for key in known if not only or key in only), key=lambda one: place.get(one.name, len(place))
    )

    @cache
    def meanings() -> dict[str, str]:
        typed = (one for owner in owners for one in options_of(owner).values() if one.kind != "python")
        return {one.name: one.help for one in typed}

    for argument in arguments:
        if argument.type is click.STRING:
            argument.type = FILES

    def decorate(run: Callable[..., Any]) -> click.Command:
        about, _, examples = inspect.cleandoc(run.__doc__ or "").partition("\n\nExamples:\n")
        takes = [key for key in inspect.signature(run).parameters if key not in {one.name for one in arguments}]

        def command(**values: Any) -> Any:
            given = {one.name: _value(one, values.pop(one.name)) for one in chosen}
            objects = [owner(**{key: given[key] for key in owner._fields if key in given}) for owner in owners]
            with verbose(next((one for one in objects if isinstance(one, Output)), None)):
                return run(**values, **dict(zip(takes, objects, strict=True)))

        made = _Command(
            name,
            {"help_option_names": ["-h", "--help"], **context},
            command,
            [*arguments, *(_Option(one, meanings) for one in chosen)],
            about,
            f"\b\nExamples:\n{examples}",
        )
        made.rare = frozenset(one.name for one in chosen if one.rare)
        return made

    return decorate


class _Command(click.Command):
    """A command whose help lists what most people need first, and rare options below."""

    rare: frozenset[str] = frozenset()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under two headings."""
        params = self.get_params(ctx)
        for heading, rare in (("Options", False), ("Rarely needed", True)):
            rows = [row for one in params if (one.name in self.rare) is rare and (row := one.get_help_record(ctx))]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


class _Option(click.Option):
    """An option whose meaning is looked up where help is shown, and not at each start."""

    def __init__(self, one: Option, meanings: Callable[[], dict[str, str]]) -> None:
        self._meanings = meanings
        kind: Any = click.IntRange(min=one.kind) if isinstance(one.kind, int) else _TYPES.get(one.kind) or offered(one)
        bare = one.several or one.kind == "flag" or one.default == ()
        super().__init__(
            [*one.flags, one.name],
            metavar=one.metavar or None,
            type=click.Choice(one.choices) if one.choices else kind,
            multiple=one.several,
            is_flag=one.kind == "flag",
            show_default=one.shown,
            **({} if bare else {"default": one.default}),
        )

    def _meaning(self) -> str:
        return self._meanings()[str(self.name)]

    def _leave(self, _: object) -> None:
        """Click sets what it was made with."""

    help = property(_meaning, _leave)


def _value(one: Option, typed: Any) -> Any:
    """The value of an option: its default where it was not given, and the other one of a flag."""
    if one.default is True:
        return not typed
    return one.default if typed is None or typed is False or typed == () else typed


class Typed(click.ParamType):  # type: ignore[type-arg]  # generic only in newer releases
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
            self.fail(f"{error.message}. {error.hint}".rstrip(), param, ctx)


def _device(text: str) -> int:
    """The number of a device; ``cpu`` is -1."""
    number = "-1" if text.lower() == "cpu" else text
    if number != "-1" and not (number.isascii() and number.isdigit() and len(number) <= 6):
        raise UsageError(f"{text!r} is no device", "Give its number, or cpu.")
    return int(number)


def _seconds(text: str) -> float:
    """A time in seconds, 0 or more."""
    with suppress(ValueError):
        if 0 <= (seconds := float(text)) < inf:
            return seconds
    raise UsageError(f"{text!r} is no time", "Give seconds: 0.5, or 60.")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


_TYPES = {
    "size": Typed("size", parse_bytes),
    "device": Typed("device", _device),
    "names": Typed("names", _names),
    "inches": click.FLOAT,
    "seconds": Typed("seconds", _seconds),
}


#: How help calls a value that is the path of a file.
_PATHS = ("FILE", "LOG", "PATH")


class _Offered(click.ParamType):  # type: ignore[type-arg]  # generic only in newer releases
    """Text for which a shell offers something."""

    name = "text"

    def __init__(self, find: Callable[[str], list[CompletionItem[Any]]]) -> None:
        self._find = find

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem[Any]]:
        """Complete the word that is being typed."""
        return self._find(incomplete)


class _Bash(BashComplete):
    """Bash, which takes the ``=`` of ``--format=json`` for a word of its own."""

    def get_completion_args(self) -> tuple[list[str], str]:
        words, incomplete = super().get_completion_args()
        return [word for word in words if word != "="], "" if incomplete == "=" else incomplete


def complete(group: click.Command, instruction: str) -> int:
    """Answer a shell: ``bash_source`` asks for its script, ``bash_complete`` for what may follow the words in the environment."""
    add_completion_class(_Bash)
    return shell_complete(group, {}, "memlens", "_MEMLENS_COMPLETE", instruction)


#: Text that is the path of a file: the shell finds it.
FILES = click.Path()


def offered(one: Option) -> click.ParamType | None:  # type: ignore[type-arg]
    """The type of an option whose value is text, where a shell can offer something for it."""
    if one.offers:
        return _Offered(lambda incomplete: _offered_names(one.offers, incomplete))
    return FILES if one.metavar.endswith(_PATHS) else None


def _offered_names(kind: str, incomplete: str) -> list[CompletionItem[Any]]:
    found: Sequence[str] = ()
    # A package or a file of formats that is not sound: the command says so, and a shell waits for nothing.
    with suppress(Exception):
        found = _known(kind)
    return [CompletionItem(name) for name in found if name.startswith(incomplete)]


def _known(kind: str) -> Sequence[str]:
    """The names of a kind that :attr:`~memlens.options.keywords.Option.offers` may say; only their own modules are imported."""
    if kind == "analyzers":
        from memlens.analyzers.registry import OF_SERIES, names

        return (*names(), OF_SERIES)
    if kind == "columns":
        from memlens.reports.tables import sort_names

        return sort_names()
    if kind == "formats":
        from memlens.inputs.registry import known_formats

        return [form.name for form in known_formats()]
    if kind == "layers":
        from memlens.inputs.paddle.layers import Layer

        return [layer.label for layer in Layer]
    from memlens.comparing.layout import BY_ROLE
    from memlens.summarizing.figures import METRICS, OF_ROLES

    return [*(metric.name for metric in METRICS), BY_ROLE, *(metric.name for metric in OF_ROLES)]
