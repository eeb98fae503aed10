"""What a command says on stderr beside errors: ``-v`` tells what was read and how long it took."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from memlens.errors import MemlensWarning

if TYPE_CHECKING:
    from memlens.cli.options import Output

__all__ = ["note", "told"]


def note(text: str, show: Output) -> None:
    """Write a line on stderr that is no error, unless ``-q`` was given; control characters in it are made harmless."""
    if not show.quiet:
        _write(text)


def _write(text: str) -> None:
    from memlens.text import visible

    with suppress(OSError):  # the result stands where stderr takes nothing
        click.echo(f"memlens: {visible(text)}", err=True)


@contextmanager
def told(show: Output | None) -> Iterator[None]:
    """While the block runs, write its warnings on stderr, and with ``-v`` what the readers log, and at its end how long it took."""
    with warnings.catch_warnings():
        warnings.showwarning = _said(show, warnings.showwarning)
        if show is None or not show.verbose:
            yield
        else:
            with _told():
                yield


def _said(show: Output | None, otherwise: Callable[..., None]) -> Callable[..., None]:
    """How warnings of memlens are shown: as notes, each once."""
    said: set[str] = set()

    def say(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if not issubclass(category, MemlensWarning):
            otherwise(message, category, *where, **more)
        elif (show is None or not show.quiet) and str(message) not in said:
            said.add(str(message))  # the same may be said of several logs, from several places
            _write(str(message))

    return say


@contextmanager
def _told() -> Iterator[None]:
    import logging

    reading, began = 0.0, time.perf_counter()

    class Told(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            nonlocal reading
            reading += getattr(record, "seconds", 0.0)
            _write(record.getMessage())

    logger, handler = logging.getLogger("memlens"), Told()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
        whole = time.perf_counter() - began
        # Of inputs that several processes read the time is known of all of it alone.
        parts = f" ({reading:.2f} s reading, {whole - reading:.2f} s analysis and report)" if reading else ""
        _write(f"{whole:.2f} s{parts}")
