"""Extensions by installed packages, by the entry points of a group; whatever is wrong with foreign code names its package."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from memlens.errors import MemlensError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib import metadata


def entry_points(group: str) -> list[metadata.EntryPoint]:
    """The entry points of a group, in no order."""
    from importlib import metadata  # an e-mail parser comes with it

    return list(metadata.entry_points(group=group))


def package_of(point: metadata.EntryPoint) -> str:
    """The name of the package that an entry point is of."""
    return point.dist.name if point.dist is not None else point.module


def load(point: metadata.EntryPoint, what: str, hint: str) -> Any:
    """Load an entry point.

    Args:
        point: The entry point.
        what: What to call it in messages.
        hint: What to do where it cannot be had.

    Raises:
        MemlensError: It cannot be loaded.
    """
    try:
        return point.load()
    except Exception as error:  # whatever a foreign module raises while it is imported
        raise MemlensError(f"{what} cannot be loaded: {type(error).__name__}: {error}", hint) from error


@contextmanager
def blaming(what: str) -> Iterator[None]:
    """Run foreign code: an error of it that it does not explain is said to be its own.

    Args:
        what: What failed, in words.

    Raises:
        MemlensError: It failed.
    """
    try:
        yield
    except MemlensError:
        raise
    except Exception as error:
        raise MemlensError(f"{what}: {type(error).__name__}: {error}") from error
