"""Formats of other packages, through the entry-point group ``memlens.formats``.

An entry point leads to an :class:`~memlens.inputs.registry.InputFormat`, whose name is the entry point's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from memlens.errors import MemlensError
from memlens.inputs.registry import BUILT_IN, InputFormat

if TYPE_CHECKING:
    from importlib import metadata

    from memlens.events import EventLog
    from memlens.inputs.file_source import FileSource
    from memlens.inputs.registry import Request

__all__ = ["GROUP", "installed_formats"]

#: The entry-point group through which other packages add formats.
GROUP = "memlens.formats"


def installed_formats() -> tuple[InputFormat, ...]:
    """The formats of installed packages, by name; a built-in one is never replaced.

    Raises:
        MemlensError: One cannot be loaded, or is none; the message names its package.
    """
    own = {form.name for form in BUILT_IN}
    points = {point.name: point for point in sorted(_entry_points(), key=_package) if point.name not in own}
    return tuple(_load(point) for _, point in sorted(points.items()))


def _entry_points() -> list[metadata.EntryPoint]:
    from importlib import metadata  # an e-mail parser comes with it

    return list(metadata.entry_points(group=GROUP))


def _package(point: metadata.EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.module


def _load(point: metadata.EntryPoint) -> InputFormat:
    package = _package(point)
    what = f"input format {point.name!r} of package {package!r}"
    try:
        form = point.load()
    except Exception as error:  # whatever a foreign module raises while it is imported
        raise MemlensError(
            f"{what} cannot be loaded: {type(error).__name__}: {error}", f"Update or uninstall {package}."
        ) from error
    if not isinstance(form, InputFormat):
        raise MemlensError(f"{what} is no InputFormat but {type(form).__name__}", f"Update or uninstall {package}.")
    return replace(
        form,
        name=point.name,
        origin=package,
        recognise=_guarded(form.recognise, what, point.name),
        read=_guarded_read(form, what),
    )


def _guarded(recognise: Callable[[bytes], str], what: str, name: str) -> Callable[[bytes], str]:
    """A foreign detector: a failure of it names its package."""

    def look(head: bytes) -> str:
        try:
            found = recognise(head)
        except Exception as error:
            raise MemlensError(f"{what} failed to look at an input: {type(error).__name__}: {error}") from error
        return found if isinstance(found, str) else f"the detector of {name} says so" if found else ""

    return look


def _guarded_read(form: InputFormat, what: str) -> Callable[[FileSource, Request], Sequence[EventLog]]:
    """A foreign reader: a failure of it that it does not explain names its package."""

    def read(source: FileSource, request: Request) -> Sequence[EventLog]:
        try:
            logs = list(form.read(source, request))
        except MemlensError:
            raise
        except Exception as error:
            raise MemlensError(f"{what} failed on {source.name}: {type(error).__name__}: {error}") from error
        if not logs:
            raise MemlensError(f"{what} gave no log of {source.name}")
        return logs

    return read
