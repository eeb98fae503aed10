"""A folder as an input stands for the logs that lie in it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from memlens.errors import InputError, MemlensError, UsageError
from memlens.inputs.file_source import open_source
from memlens.inputs.input_format import HEAD
from memlens.inputs.registry import get_format, recognise
from memlens.text import name_list, plural

if TYPE_CHECKING:
    from memlens.inputs import Input
    from memlens.options import ReadAs

__all__ = ["expanded", "refuse_folder"]

_DIGITS = re.compile(r"([0-9]+)")


def expanded(
    inputs: Sequence[Input],
    how: ReadAs,
    passed_over: Callable[[str, Sequence[str]], None] | None = None,
    *,
    below: Callable[[str], None] | None = None,
) -> list[Input]:
    """Inputs with the logs of a folder in its place, by name, ``workerlog.2`` before ``workerlog.10``.

    A file in it counts where its content says that it is something that memlens reads; its folders do not, nor do names that begin with a
    dot.  A folder without a log stays what it is: to read it is an error.

    Args:
        inputs: As for :func:`memlens.analyze`.
        how: How inputs are to be read.
        passed_over: Called with a folder and the files in it that are no logs, if there are any.
        below: Also the logs in the folders of a folder; called, in words, with each of these that cannot be read.

    Raises:
        UsageError: No format has the name that was asked for, or a file of formats is not sound.
    """
    found: list[Input] = []
    for given in inputs:
        if not _is_folder(given):
            found.append(given)
            continue
        logs: list[str] = []
        for folder in [str(given)] if below is None else _folders(str(given), below):
            here, others = _sorted_out(folder, how)
            logs += here
            if here and others and passed_over is not None:
                passed_over(folder, others)
        found += logs or [given]
    return found


def _folders(folder: str, unreadable: Callable[[str], None]) -> Iterator[str]:
    """A folder and those below it, by name; links to folders are not followed, for they may lead around in a circle."""
    try:
        inside = sorted((entry.name for entry in _entries(folder) if entry.is_dir(follow_symlinks=False)), key=_natural)
    except InputError as error:
        unreadable(error.message)
        return
    yield folder
    for name in inside:
        yield from _folders(os.path.join(folder, name), unreadable)


def refuse_folder(given: Input, how: ReadAs) -> None:
    """Say what to name instead of a folder where one log is needed, or where there is none in it.

    Raises:
        InputError: It is a folder.
    """
    if not _is_folder(given):
        return
    folder = str(given)
    logs, others = _sorted_out(folder, how)
    if logs:
        first, more = logs[0], len(logs) - 1
        hint = f"Name one log in it, like {first}" + (f" (or one of {plural(more, 'other')})." if more else ".")
        raise InputError(f"{folder}: is a directory", hint)
    folders = sorted(entry.name for entry in _entries(folder) if entry.is_dir())
    hint = f"It has directories: {name_list(folders)}. Name one of them." if folders else "Name a log file."
    what = f"none of its files begins like one: {name_list(others)}" if others else "it has no file"
    raise InputError(f"{folder}: is a directory without a log; {what}", hint)


def _is_folder(given: Input) -> bool:
    return isinstance(given, (str, Path)) and str(given) != "-" and os.path.isdir(given)


def _sorted_out(folder: str, how: ReadAs) -> tuple[list[str], list[str]]:
    """The paths of the logs in a folder, and the names of its other files."""
    logs, others = [], []
    for name in sorted((entry.name for entry in _entries(folder) if entry.is_file()), key=_natural):
        path = os.path.join(folder, name)
        if _is_log(path, how):
            logs.append(path)
        else:
            others.append(name)
    return logs, others


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as listing:
            yield from (entry for entry in listing if not entry.name.startswith("."))
    except OSError as error:
        raise InputError(f"{folder}: cannot be read: {error.strerror or error}") from error


def _is_log(path: str, how: ReadAs) -> bool:
    """Whether something at the beginning of a file tells that it is read; also where it cannot be opened, which is no reason to pass it over."""
    try:
        with closing(open_source(path)) as source:
            if how.input_format is not None:
                return bool(get_format(how.input_format, how.formats).recognise(source.head(HEAD)))
            return recognise(source, how).certain
    except UsageError:
        raise
    except MemlensError:
        return True


def _natural(name: str) -> list[tuple[int, str]]:
    """A key that orders numbers within names by size."""
    return [(int(part[:300]), part) if part.isdecimal() else (-1, part) for part in _DIGITS.split(name)]
