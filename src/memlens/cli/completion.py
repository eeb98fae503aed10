"""What a shell offers where the value of an option or an argument is typed: names that memlens knows, and files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class, shell_complete

if TYPE_CHECKING:
    from memlens.keywords import Option

__all__ = ["FILES", "complete", "offered"]

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
        """What begins as the word that is being typed."""
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
FILES = _Offered(lambda incomplete: [CompletionItem(incomplete, type="file")])


def offered(one: Option) -> click.ParamType | None:  # type: ignore[type-arg]
    """The type of an option whose value is text, where a shell can offer something for it."""
    if one.offers:
        return _Offered(lambda incomplete: _names(one.offers, incomplete))
    return FILES if one.metavar.endswith(_PATHS) else None


def _names(kind: str, incomplete: str) -> list[CompletionItem[Any]]:
    found: Sequence[str] = ()
    # A package or a file of formats that is not sound: the command says so, and a shell waits for nothing.
    with suppress(Exception):
        found = _known(kind)
    return [CompletionItem(name) for name in found if name.startswith(incomplete)]


def _known(kind: str) -> Sequence[str]:
    """The names of a kind that :attr:`~memlens.keywords.Option.offers` may say; only their own modules are imported."""
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
    from memlens.comparing.statistics import METRICS

    return [metric.name for metric in METRICS]
