"""What all results share: values worked out when first asked for, plain JSON types, and DataFrames.

A result is a frozen dataclass whose field names are the contract of the machine output.  What costs a walk over the log
(the blocks live at a peak, line numbers) is a :class:`Lazy` field: thousands of windows have it, few are shown with it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from memlens.windows.windows import Window

__all__ = ["Each", "Later", "Lazy", "OneByOne", "Result", "Row", "Tabled", "results"]

T = TypeVar("T")


class Later(partial[T]):
    """A value that is worked out when it is first asked for: a function, and what to call it with.

    Pickled it is its value: what goes to another process needs no log any more.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _itself, (self(),)


def _itself(value: T) -> T:
    return value


class Lazy(Generic[T]):
    """A dataclass field that takes a value or a :class:`Later`, and always gives the value.

    Declared as ``live: Lazy[tuple[LiveGroup, ...]] = field(default=Lazy(()), repr=False)``: left out of the ``repr``, so that
    showing a result computes nothing.

    Args:
        default: The value where none is given.
    """

    def __init__(self, default: T) -> None:
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Lazy[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> T | Lazy[T]:
        if instance is None:
            return self
        value = instance.__dict__[self.name]
        if isinstance(value, Later):
            value = instance.__dict__[self.name] = value()
        return cast("T", value)

    def __set__(self, instance: object, value: T | Later[T]) -> None:
        # Reached from __init__ only: a frozen dataclass refuses assignment from outside.
        instance.__dict__[self.name] = self.default if isinstance(value, Lazy) else value


#: The names of the fields of dataclasses: asked for once, for very many windows have one.
_FIELDS: dict[type, tuple[str, ...]] = {}


def _fields_of(kind: Any) -> tuple[str, ...]:
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(spec.name for spec in dataclasses.fields(kind))
    return _FIELDS[kind]


class Row:
    """One row of a table in a result: a frozen dataclass of plain values."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, in plain JSON types."""
        return {name: getattr(self, name) for name in _fields_of(type(self))}


class Tabled:
    """A result that can be read as flat rows, too."""

    def rows(self) -> list[dict[str, Any]]:
        """The rows, all with the same names."""
        raise NotImplementedError

    def to_pandas(self) -> pd.DataFrame:
        """:meth:`rows` as a DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.rows())


class Result:
    """What an analyzer says of a window, or of a series of windows: a frozen dataclass.

    Attributes:
        tables: The fields that are tables, with the type of their rows; the first one is what ``to_pandas`` gives.
    """

    tables: ClassVar[dict[str, type[Row]]] = {}

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """The fields by name, in plain JSON types, as they stand in the machine output.

        Args:
            top: How many rows of each table to keep; ``None`` keeps all.  Where rows are left out,
                ``<table>_left_out`` counts them.  ``0`` leaves the tables out altogether and works none of them out.
        """
        plain: dict[str, Any] = {}
        for name in _fields_of(type(self)):
            if name not in self.tables:
                value = getattr(self, name)
                plain[name] = list(value) if isinstance(value, tuple) else value
            elif top != 0:
                rows: tuple[Row, ...] = getattr(self, name)
                plain[name] = [row.to_dict() for row in rows[:top]]
                if top is not None and len(rows) > top:
                    plain[f"{name}_left_out"] = len(rows) - top
        return plain

    def to_pandas(self, table: str | None = None) -> pd.DataFrame:
        """A table of the result as a DataFrame, one row a row; without tables, the fields as one row.

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
        columns = [spec.name for spec in dataclasses.fields(cast("Any", self.tables[name]))]
        return pd.DataFrame([row.to_dict() for row in getattr(self, name)], columns=columns)


#: Results of windows that are kept at once: those of a hundred thousand windows would take more than their log.
_MOST_MADE = 4096


class Each(Sequence[T]):
    """Results of windows, each made when it is asked for: thousands of windows have one, few are shown, and few are kept.  Pickled it is a list of all.

    Args:
        count: How many there are.
        make: Makes the result of the window of an index.
    """

    def __init__(self, count: int, make: Callable[[int], T]) -> None:
        self._indices = range(count)
        self._make = make
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
            if len(self._made) >= _MOST_MADE:
                self._made.clear()
            self._made[index] = self._make(index)
        return self._made[index]


class OneByOne(list[Any]):
    """A list whose entries are made anew each time it is walked through, so that a long one is never held: the JSON encoder of Python takes lists alone.

    Args:
        of: What they are made of.
        make: Makes one.
    """

    def __init__(self, of: Sequence[T], make: Callable[[T], Any]) -> None:
        super().__init__()
        self._of, self._make = of, make

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[Any]:
        return map(self._make, self._of)


def results(
    kind: Callable[..., T],
    windows: Sequence[Window],
    columns: Mapping[str, NDArray[np.int64] | NDArray[np.object_]],
    **later: Callable[[Window], object],
) -> Each[T]:
    """A result a window, from columns by the names of its fields, one entry a window.

    Args:
        kind: The result's dataclass.
        windows: The windows.
        columns: All fields but the last ones, and perhaps more.
        later: What gives each of those last fields, in their order, when it is asked for.
    """
    rows = [columns[name] for name in _fields_of(cast("Any", kind)) if name not in later]

    def one(k: int) -> T:
        owed = (Later(work, window) for window in [windows[k]] for work in later.values()) if later else ()
        return kind(*(row.item(k) for row in rows), *owed)

    return Each(len(windows), one)
