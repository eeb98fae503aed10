"""The base of all results: JSON by their types, values worked out when they are first asked for, DataFrames, and how a notebook shows them.

A result is a frozen :class:`msgspec.Struct` whose names are the contract of the machine output.  Nothing here knows a verb: a report, or
the machine output, is made of a result by who needs it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, ParamSpec, TypeAlias, TypeVar, cast, overload

import msgspec
from msgspec import Struct

from memlens.claims.claim import Answer, Claim, answer_of, ranked

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

T = TypeVar("T")
R = TypeVar("R", bound="Answered")
S = TypeVar("S", bound=type[Struct])
Arguments = ParamSpec("Arguments")

#: The fields of a result that are tables, with the types of their rows.
Tables: TypeAlias = Mapping[str, type[Struct]]

#: Results that an :class:`OnDemand` keeps at once: those of a hundred thousand windows would take more than their log.
_MOST_KEPT = 4096
#: Annotations of values that msgspec writes as they are.
_VALUES = {"str", "int", "float", "bool", "None"}
_AS_IT_IS = (str, int, float, type(None))


# -- values worked out when they are first asked for --------------------------------------------------------------------------


class Deferred(Generic[T]):
    """A value that is worked out once, when it is first asked for.

    Pickled it is its value: what goes to another process needs no log any more.
    """

    __slots__ = ("_value", "_work")

    def __init__(self, work: Callable[[], T]) -> None:
        self._work: Callable[[], T] | None = work
        self._value: T

    def __call__(self) -> T:
        if self._work is not None:
            self._value, self._work = self._work(), None
        return self._value

    def __reduce__(self) -> tuple[Any, ...]:
        return _itself, (self(),)

    def __repr__(self) -> str:
        return "…" if self._work is not None else repr(self._value)


def _itself(value: T) -> T:
    return value


def deferred(work: Callable[Arguments, T], *args: Arguments.args, **keywords: Arguments.kwargs) -> T:
    """Return the value of a call, worked out when it is first read: for a field that is declared :func:`lazy`."""
    return cast("T", Deferred(partial(work, *args, **keywords)))


class _LazyField:
    """Reads a field of a struct, and works its value out where that is a :class:`Deferred`."""

    def __init__(self, member: Any) -> None:
        self._member = member

    def __get__(self, instance: object | None, owner: type) -> Any:
        value = self._member.__get__(instance, owner)
        return value() if isinstance(value, Deferred) else value


def lazy(*names: str) -> Callable[[S], S]:
    """Declare fields of a struct that may be given :func:`deferred` values, and always give the values."""

    def equal(one: Any, other: Any) -> bool:
        return type(other) is type(one) and all(
            getattr(one, name) == getattr(other, name) for name in one.__struct_fields__
        )

    def declare(kind: S) -> S:
        if kind.__struct_config__.eq:
            kind.__eq__ = equal  # type: ignore[method-assign]
        for name in names:
            setattr(kind, name, _LazyField(vars(kind)[name]))
        return kind

    return declare


class OnDemand(Sequence[T]):
    """Results, each made when it is asked for: thousands of windows have one, few are shown, and few are kept.  Pickled it is a list of all.

    Args:
        count: How many there are.
        make: Makes the result of an index.
        rows: Gives what the machine output says of each where lists are left out; ``None`` where the results tell it.
    """

    def __init__(self, count: int, make: Callable[[int], T], rows: Callable[[], Iterable[Any]] | None = None) -> None:
        self._indices = range(count)
        self._make, self.plain_rows = make, rows
        self._made: dict[int, T] = {}

    def __len__(self) -> int:
        return len(self._indices)

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self[k] for k in self._indices[index]]
        index = self._indices[index]
        if index not in self._made:
            if len(self._made) >= _MOST_KEPT:
                self._made.clear()
            self._made[index] = self._make(index)
        return self._made[index]


class Rows(Sequence[T]):
    """Rows of a long list, made each time that they are asked for, those of a stretch at once.  Pickled it is a tuple of all.

    Args:
        count: How many there are.
        make: Makes those at some indices, int64; each is a record (:func:`_is_record`).
    """

    def __init__(self, count: int, make: Callable[[NDArray[np.int64]], Iterable[T]]) -> None:
        self._indices = range(count)
        self._make = make

    def __len__(self) -> int:
        return len(self._indices)

    def __iter__(self) -> Iterator[T]:
        for start in range(0, len(self), _MOST_KEPT):
            yield from self[start : start + _MOST_KEPT]

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (list(self),)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            import numpy as np

            some = self._indices[index]
            return tuple(self._make(np.arange(some.start, some.stop, some.step)))
        index = self._indices[index]
        return self[index : index + 1][0]


# -- results ------------------------------------------------------------------------------------------------------------------


class Result(Struct, frozen=True):
    """The result of an analyzer or a verb, or a part of one.

    Attributes:
        in_json: The names of the machine output in their order, which are those of fields or properties, or ``name=attribute``; empty where they
            are the fields.
        tables: The fields that are tables, with the types of their rows; the first one is what :meth:`to_pandas` gives.
        scales: Those of them that are a scale, and not a list with the most important first: they are never cut.
        headlines: Lists of which ten entries are kept even where tables are left out.
        spliced: Parts whose names stand beside those of the result: results, or mappings by name.
    """

    in_json: ClassVar[tuple[str, ...]] = ()
    tables: ClassVar[Tables] = {}
    scales: ClassVar[frozenset[str]] = frozenset({"histogram"})
    headlines: ClassVar[frozenset[str]] = frozenset()
    spliced: ClassVar[frozenset[str]] = frozenset()

    def to_dict(self, top: int | None = None, min_size: int = 0) -> dict[str, Any]:
        """Everything by the names of the machine output, in plain JSON types; see :func:`plain`."""
        return cast("dict[str, Any]", to_builtins(plain(self, top, min_size)))

    def to_pandas(self, table: str | None = None) -> pd.DataFrame:
        """A table of the result as a DataFrame, one row a row; of a result without tables its fields as one row.

        Args:
            table: Which of :attr:`tables`; the first one when not given.

        Raises:
            UsageError: The result has no such table.
        """
        import pandas as pd

        if table is None and not self.tables:
            return pd.DataFrame([self.to_dict()])
        name = next(iter(self.tables)) if table is None else table
        if name not in self.tables:
            from memlens.errors import UsageError

            raise UsageError(
                f"{type(self).__name__} has no table {name!r}", f"It has: {', '.join(self.tables) or 'none'}."
            )
        columns = list(names_of(self.tables[name]))
        return pd.DataFrame([row.to_dict() for row in getattr(self, name)], columns=columns)


class Failure(Result, frozen=True):
    """One of several inputs that could not be read.

    Attributes:
        path: The input as it was named.
        message: What is wrong.
        hint: What to do next, or ``""``.
    """

    path: str
    message: str
    hint: str = ""


# -- what results are made of in the machine output ----------------------------------------------------------------------------


class Listed(Generic[T]):
    """A long list of the machine output, whose entries are made while it is walked through, so that it is never held."""

    def __init__(self, of: Iterable[T], make: Callable[[T], Any]) -> None:
        self._of, self._make = of, make

    def __iter__(self) -> Iterator[Any]:
        return map(self._make, self._of)


@cache
def names_of(kind: type[Struct]) -> dict[str, str]:
    """The names of a type of results in the machine output, each with that of the attribute that has its value."""
    own: tuple[str, ...] = getattr(kind, "in_json", ()) or kind.__struct_fields__
    return {name: attribute or name for name, _, attribute in (entry.partition("=") for entry in own)}


def plain(value: Any, top: int | None = None, min_size: int = 0) -> Any:
    """A result as dicts, lists and values, and records, which msgspec writes; what is made on demand is a :class:`Listed`, long lists stay :class:`Rows`.

    Args:
        value: A result, or what results hold.  The ``top`` and ``min_size`` of a result count before those of what it is a part of.
        top: How many rows of each table to keep; ``None`` keeps all.  Where rows are left out, ``<table>_left_out`` counts them.  ``0``
            leaves the tables out altogether, and works none of them out.
        min_size: Leave rows of smaller blocks (bytes) out of tables.
    """
    if isinstance(value, _AS_IT_IS):
        return value
    if isinstance(value, Struct):
        return value if _is_record(type(value)) else _plain_struct(value, top, min_size)
    if isinstance(value, Rows):
        return value
    if isinstance(value, OnDemand):
        if top == 0 and value.plain_rows is not None:
            return Listed(value.plain_rows(), dict)
        return Listed(value, lambda entry: plain(entry, top, min_size))
    if isinstance(value, (tuple, list)):
        return [plain(entry, top, min_size) for entry in value]
    if isinstance(value, Mapping):
        return {name: plain(entry, top, min_size) for name, entry in value.items()}
    return value.to_dict() if hasattr(value, "to_dict") else value


@cache
def _is_record(kind: type[Struct]) -> bool:
    """Whether a type of results is its fields by their names, each a plain value, such a result or none: msgspec writes it as it is."""
    fields = kind.__struct_fields__
    if not issubclass(kind, Result) or kind.tables or kind.spliced or kind.headlines:
        return False
    hints = _hints(kind)
    known = vars(sys.modules[kind.__module__])
    return (
        names_of(kind) == dict(zip(fields, fields, strict=True))
        and not any(isinstance(getattr(kind, name), _LazyField) for name in fields)
        and all(_is_value(word, known.get(word)) for name in fields for word in _words(hints[name]))
    )


def _hints(kind: type[Struct]) -> dict[str, Any]:
    hints: dict[str, Any] = {}
    for owner in reversed(kind.__mro__):
        hints |= getattr(owner, "__annotations__", {})  # not of its dictionary, where Python 3.14 has none
    return hints


def _words(hint: Any) -> list[str]:
    """The parts of an annotation, which is text where the module says so."""
    return (hint if isinstance(hint, str) else str(getattr(hint, "__name__", hint))).split(" | ")


def _is_value(hint: str, kind: Any) -> bool:
    return hint in _VALUES or (isinstance(kind, type) and issubclass(kind, Struct) and _is_record(kind))


@cache
def _parts(kind: type[Result]) -> tuple[tuple[str, str, bool, bool], ...]:
    """The names of a type of results, each with that of its attribute, whether it is a list, and whether it is a plain value."""
    hints, lists = _hints(kind), kind.tables.keys() | kind.headlines
    return tuple(
        (name, attribute, name in lists, _VALUES.issuperset(_words(hints.get(attribute, ""))))
        for name, attribute in names_of(kind).items()
    )


def _plain_struct(value: Struct, top: int | None, min_size: int) -> dict[str, Any]:
    if isinstance(value, Claim):
        return value.to_dict()
    if not isinstance(value, Result):
        return {name: plain(getattr(value, name), top, min_size) for name in value.__struct_fields__}
    top, min_size = getattr(value, "top", top), getattr(value, "min_size", min_size)
    found: dict[str, Any] = {}
    for name, attribute, is_list, as_it_is in _parts(type(value)):
        if as_it_is:
            found[name] = getattr(value, attribute)
        elif name in value.spliced:
            found |= to_builtins(plain(getattr(value, attribute), top, min_size))
        elif not is_list:
            found[name] = plain(getattr(value, attribute), top, min_size)
        elif (most := 10 if top == 0 and name in value.headlines else top) != 0:
            rows = kept = getattr(value, attribute)
            if name not in value.scales:
                kept = [row for row in rows if getattr(row, "size_bytes", min_size) >= min_size] if min_size else rows
                kept = kept[:most]
            found[name] = [plain(row, top, min_size) for row in kept]
            if len(kept) < len(rows):
                found[f"{name}_left_out"] = len(rows) - len(kept)
    return found


def to_builtins(value: Any) -> Any:
    """Return the output of :func:`plain` in plain JSON types alone."""
    return msgspec.to_builtins(value, enc_hook=builtin)


def builtin(value: Any) -> Any:
    """What msgspec does not know in the output of :func:`plain`, by what it knows."""
    if isinstance(value, (Listed, Rows)):
        return list(value[:] if isinstance(value, Rows) else value)
    if hasattr(value, "item"):  # a NumPy scalar, as analyzers of other packages may give
        return value.item()
    raise TypeError(f"a result holds {type(value).__name__}, which is no JSON")


# -- verdicts -----------------------------------------------------------------------------------------------------------------


@lazy("claims")
class Answered(Result, frozen=True, kw_only=True):
    """A result with what follows from it, which whoever makes the result gives it (:func:`claimed`); a notebook shows it as its screen.

    Attributes:
        claims: What is concluded, the weightiest first.
    """

    #: Makes the HTML that a notebook shows of a result; set where the reports are at hand.
    to_html: ClassVar[Callable[[object], str] | None] = None

    claims: tuple[Claim, ...] = ()

    @property
    def answer(self) -> Answer:
        """The claims in sentences."""
        return answer_of(self.claims)

    @property
    def verdict(self) -> str:
        """The verdict, in one to three sentences with exact figures."""
        return str(self.answer)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.answer}>"

    def _repr_html_(self) -> str | None:
        return None if Answered.to_html is None else Answered.to_html(self)


class Tabular(Answered, frozen=True):
    """A result that can be read as flat rows, too: without the name of a table they are its DataFrame."""

    def rows(self) -> list[dict[str, Any]]:
        """The rows, all with the same names."""
        raise NotImplementedError

    def lazy_rows(self) -> tuple[Sequence[str], Iterable[dict[str, Any]]]:
        """The names of all columns in their order, and the rows one by one: there may be so many that they are never all held."""
        rows = self.rows()
        return list(dict.fromkeys(name for row in rows for name in row)), rows

    def to_pandas(self, table: str | None = None) -> pd.DataFrame:
        """:meth:`rows` as a DataFrame, or a table by its name as :meth:`Result.to_pandas` gives it."""
        import pandas as pd

        return pd.DataFrame(self.rows()) if table is None else Answered.to_pandas(self, table)


def claimed(result: R, claims_of: Callable[[R], Iterable[Claim]]) -> R:
    """A result with its claims, which are worked out when they are asked for."""
    return msgspec.structs.replace(result, claims=deferred(lambda: ranked(claims_of(result))))
