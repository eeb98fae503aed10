"""Options declared once: the fields of a class as keyword arguments of a Python function, each with its meaning.

What a field means stands in the docstring of its class, under ``Attributes``.  The command line shows it as help, up to ``In Python:``;
the documentation of the function shows all of it.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections import ChainMap
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, ParamSpec, Self, TypeVar, dataclass_transform, overload

from msgspec import Struct, structs

from memlens.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable


Keywords = ParamSpec("Keywords")
First = TypeVar("First")
Second = TypeVar("Second")
Given = TypeVar("Given")
Result = TypeVar("Result")

_MEANING = r"(?m)^    (\w+): (.+(?:\n {8}.*)*)"
_FLAG = r"--([a-z][a-z-]*)"


class Option(Struct, frozen=True):
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
        rare: Few need it: help lists it below the others.
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
    rare: bool = False
    name: str = ""
    default: Any = None
    meaning: str = ""

    @property
    def help(self) -> str:
        """The text of the command line's help."""
        return self.meaning.partition(" In Python: ")[0]

    @property
    def documented(self) -> str:
        """The text of a function's documentation, with the names of keyword arguments."""
        text = self.meaning.replace(" In Python:", "")
        return re.sub(_FLAG, lambda found: f"``{found[1].replace('-', '_')}``", text)


def option(metavar: str, *flags: str, default: Any, **more: Any) -> Any:
    """A field that takes a value."""
    return Option(metavar, flags, default=default, **more)


def flag(*flags: str, default: bool | None, rare: bool = False) -> Any:
    """A field that is switched on, or off where its default is ``True``."""
    return Option("", flags, "flag", default=default, rare=rare)


def python_only(*, default: Any) -> Any:
    """A field that the command line does not have."""
    return Option(kind="python", default=default)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(option, flag, python_only))
class Options:
    """A class of options: frozen, each field declared by :func:`option`, :func:`flag` or :func:`python_only`, and given by keyword.

    Unlike a dataclass it costs next to nothing to declare: every start of the command line declares those of all verbs.

    Raises:
        UsageError: One that has choices is given something else.
    """

    _fields: ClassVar[dict[str, Option]] = {}

    def __init_subclass__(cls) -> None:
        known = {name: one for base in reversed(cls.__mro__[1:]) for name, one in vars(base).get("_fields", {}).items()}
        own = {name: value for name, value in vars(cls).items() if isinstance(value, Option)}
        for name, one in own.items():
            own[name] = structs.replace(one, name=name, flags=one.flags or (f"--{name.replace('_', '-')}",))
        cls._fields = known | own
        for name, one in own.items():
            setattr(cls, name, one.default)

    def __init__(self, **given: Any) -> None:
        if unknown := given.keys() - self._fields:
            raise TypeError(f"{type(self).__name__} has no option {min(unknown)!r}")
        for name, value in given.items():
            if (choices := self._fields[name].choices) and value is not None and value not in choices:
                raise UsageError(f"there is no {name} {value!r}", f"There are: {', '.join(choices)}.")
        vars(self).update({name: one.default for name, one in self._fields.items()}, **given)
        self.__post_init__()

    def __post_init__(self) -> None:
        """Check what was given."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name}")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        given = (f"{name}={value!r}" for name, value in vars(self).items() if value != self._fields[name].default)
        return f"{type(self).__name__}({', '.join(given)})"

    def replace(self, **changes: Any) -> Self:
        """The same with some options changed."""
        return type(self)(**{**vars(self), **changes})

    def of(self, *parts: type[Options]) -> dict[str, Any]:
        """The options of classes that this one inherits from, by their names."""
        return {name: getattr(self, name) for part in parts for name in part._fields}


def options_of(owner: type[Options]) -> dict[str, Option]:
    """The options that are fields of a class, by their names, in its order."""
    meanings: dict[str, str] = {}
    for part in reversed(owner.__mro__):
        _, _, attributes = inspect.cleandoc(part.__doc__ or "").partition("Attributes:\n")
        found = re.findall(_MEANING, attributes.partition("\n\n")[0])
        meanings |= {name: " ".join(text.split()) for name, text in found}
    return {name: structs.replace(one, meaning=meanings.get(name, "")) for name, one in owner._fields.items()}


@overload
def with_keywords(
    name: str, run: Callable[[First, Given], Result], options: Callable[Keywords, Given]
) -> Callable[Concatenate[First, Keywords], Result]: ...
@overload
def with_keywords(
    name: str, run: Callable[[First, Second, Given], Result], options: Callable[Keywords, Given]
) -> Callable[Concatenate[First, Second, Keywords], Result]: ...
def with_keywords(name: str, run: Callable[..., Any], options: Any) -> Callable[..., Any]:
    """The same function with the fields of its last argument, an object of :class:`Options`, as keyword arguments.

    Its signature has them all, and its documentation says what each means, once :func:`described`: no start of the command line needs them.

    Args:
        name: What it is called.
        run: What it does, given the object of its options; its docstring has a line for this argument, the last of its ``Args``.
        options: The class of that object.
    """

    @cache
    def signature() -> inspect.Signature:
        taken = inspect.signature(run)
        hints = ChainMap(*(vars(base).get("__annotations__", {}) for base in options.__mro__))
        own = [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=hints[key])
            for key, one in options._fields.items()
        ]
        inputs = list(taken.parameters.values())[:-1]
        return inspect.Signature([*inputs, *own], return_annotation=taken.return_annotation)

    def call(*args: Any, **keywords: Any) -> Any:
        try:
            given = signature().bind(*args, **keywords).arguments
        except TypeError as error:
            raise TypeError(f"{name}() {error}") from None
        inputs = [given.pop(key) for key in signature().parameters if key not in options._fields]
        return run(*inputs, options(**given))

    def describe() -> None:
        head, _, tail = inspect.cleandoc(run.__doc__ or "").partition("\n    options: ")
        meanings = (f"{one.name}: {one.documented}" for one in options_of(options).values())
        added = (textwrap.fill(text, 120, initial_indent=" " * 4, subsequent_indent=" " * 8) for text in meanings)
        call.__doc__ = "\n".join([head, *added, *tail.splitlines()[1:]])
        call.__signature__ = signature()  # type: ignore[attr-defined]

    call.__name__ = call.__qualname__ = name
    call.__module__ = run.__module__
    call.describe = describe  # type: ignore[attr-defined]
    return call


def described(function: Any) -> Any:
    """A function of :func:`with_keywords` with its signature and its documentation; anything else as it is."""
    if (describe := vars(function).get("describe") if inspect.isfunction(function) else None) is not None:
        describe()
    return function
