"""Options declared once: the fields of a dataclass as keyword arguments of a Python function, each with its meaning.

What a field means stands in the docstring of its class, under ``Attributes``.  The command line shows it as help, up to ``In Python:``;
the documentation of the function shows all of it.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

__all__ = ["Option", "flag", "option", "options_of", "python_only", "with_keywords"]

Keywords = ParamSpec("Keywords")
First = TypeVar("First")
Second = TypeVar("Second")
Options = TypeVar("Options")
Result = TypeVar("Result")

_MEANING = re.compile(r"^    (\w+): (.+(?:\n {8}.*)*)", re.MULTILINE)
_FLAG = re.compile(r"--([a-z][a-z-]*)")


@dataclass(frozen=True)
class Option:
    """How an option is typed on the command line, and what it means.

    Attributes:
        metavar: What its value is called in help; ``""`` of a flag.
        flags: How it is typed, where that is not ``--`` and its name.
        kind: What its text is turned into: ``text``, ``flag``, ``size``, ``device``, ``inches``, ``seconds``, ``names`` (a list with commas), or a number, the
            smallest one that it may be; ``python`` is an option that only Python has.
        several: It may be given several times.
        choices: The values that there are.
        offers: Of which names its value is one, where they are known only as a command runs: ``analyzers``, ``columns``, ``formats``,
            ``layers`` or ``metrics``.  A shell completes them.
        shown: Help says what its default is.
        name: The name of the field.
        default: Its default.
        meaning: What it does.
    """

    metavar: str = ""
    flags: tuple[str, ...] = ()
    kind: str | int = "text"
    several: bool = False
    choices: tuple[str, ...] = ()
    offers: str = ""
    shown: bool = False
    name: str = ""
    default: Any = None
    meaning: str = ""

    @property
    def help(self) -> str:
        """What the command line says of it."""
        return self.meaning.partition(" In Python: ")[0]

    @property
    def documented(self) -> str:
        """What the documentation of a function says of it, with the names of keyword arguments."""
        text = self.meaning.replace(" In Python:", "")
        return _FLAG.sub(lambda found: f"``{found[1].replace('-', '_')}``", text)


def option(default: Any, metavar: str, *flags: str, **more: Any) -> Any:
    """A field that takes a value."""
    return field(default=default, metadata={"option": Option(metavar, flags, **more)})


def flag(default: bool | None, *flags: str) -> Any:
    """A field that is switched on, or off where its default is ``True``."""
    return field(default=default, metadata={"option": Option("", flags, "flag")})


def python_only(default: Any) -> Any:
    """A field that the command line does not have."""
    return field(default=default, metadata={"option": Option(kind="python")})


def options_of(owner: type) -> dict[str, Option]:
    """The options that are fields of a dataclass, by their names, in its order."""
    meanings: dict[str, str] = {}
    for part in reversed(owner.__mro__):
        _, _, attributes = inspect.cleandoc(part.__doc__ or "").partition("Attributes:\n")
        meanings |= {name: " ".join(text.split()) for name, text in _MEANING.findall(attributes.partition("\n\n")[0])}
    return {
        name: replace(
            spec.metadata["option"],
            flags=spec.metadata["option"].flags or (f"--{name.replace('_', '-')}",),
            name=name,
            default=spec.default,
            meaning=meanings.get(name, ""),
        )
        for spec in fields(owner)
        for name in [spec.name]
    }


@overload
def with_keywords(
    name: str, run: Callable[[First, Options], Result], options: Callable[Keywords, Options]
) -> Callable[Concatenate[First, Keywords], Result]: ...
@overload
def with_keywords(
    name: str, run: Callable[[First, Second, Options], Result], options: Callable[Keywords, Options]
) -> Callable[Concatenate[First, Second, Keywords], Result]: ...
def with_keywords(name: str, run: Callable[..., Any], options: Any) -> Callable[..., Any]:
    """The same function with the fields of its last argument, a dataclass of options, as keyword arguments.

    Its signature has them all, and its documentation says what each means.

    Args:
        name: What it is called.
        run: What it does, given the object of its options; its docstring has a line for this argument, the last of its ``Args``.
        options: The class of that object.
    """
    inputs = list(inspect.signature(run).parameters.values())[:-1]
    own = [
        inspect.Parameter(
            spec.name,
            inspect.Parameter.KEYWORD_ONLY if spec.kw_only else inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=spec.default,
            annotation=spec.type,
        )
        for spec in sorted(fields(options), key=lambda spec: bool(spec.kw_only))
    ]
    signature = inspect.Signature([*inputs, *own], return_annotation=inspect.signature(run).return_annotation)

    def call(*args: Any, **keywords: Any) -> Any:
        try:
            given = signature.bind(*args, **keywords).arguments
        except TypeError as error:
            raise TypeError(f"{name}() {error}") from None
        return run(*(given.pop(one.name) for one in inputs), options(**given))

    call.__name__ = call.__qualname__ = name
    call.__module__ = run.__module__
    call.__signature__ = signature  # type: ignore[attr-defined]
    head, _, tail = inspect.cleandoc(run.__doc__ or "").partition("\n    options: ")
    meanings = (f"{one.name}: {one.documented}" for one in options_of(options).values())
    added = (textwrap.fill(text, 120, initial_indent=" " * 4, subsequent_indent=" " * 8) for text in meanings)
    call.__doc__ = "\n".join([head, *added, *tail.splitlines()[1:]])
    return call
