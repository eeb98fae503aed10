"""A folder as an input stands for the logs that lie in it."""

from __future__ import annotations

import io
import os
import re
from contextlib import closing, suppress
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, NoReturn

from memlens.errors import InputError, MemlensError, UsageError
from memlens.inputs.file_source import FileSource
from memlens.inputs.input_format import HEAD
from memlens.inputs.registry import get_format, recognise
from memlens.inputs.remote import first_bytes, is_remote_file, list_remote
from memlens.source import is_url, local_path
from memlens.text import name_list, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from memlens.options import ReadAs


_DIGITS = r"([0-9]+)"
#: Slashes at the end of a URL, more of which than one mean the same folder.
_SLASHES = r"(?<=[^:/])//+$"
#: What stands for itself in a name, but not in a ``file://`` URL.
_NO_URL = r"[%?#\t\r\n]"
#: Bytes of a file elsewhere by which it is told what it is: enough of one that is compressed for :data:`HEAD`.
_REMOTE_HEAD = 4 * HEAD


class Entry(NamedTuple):
    """An entry of a folder.

    Attributes:
        name: The name.
        is_folder: It is a folder itself, or leads to one.
        is_file: It is a file, or leads to one; else it is a pipe or a device, or leads nowhere.
        is_link: It is a link.
        is_empty: It is said to be of 0 bytes.
    """

    name: str
    is_folder: bool
    is_file: bool
    is_link: bool = False
    is_empty: bool = False


def logs_in(
    folder: str,
    how: ReadAs,
    passed_over: Callable[[str, Sequence[str]], None] | None = None,
    below: Callable[[str], None] | None = None,
) -> list[str]:
    """The logs in a folder; see :func:`memlens.inputs.expanded`."""
    logs: list[str] = []
    for one in [folder] if below is None else _folders(folder, below):
        here, others = _sorted_out(one, how)
        logs += here
        if here and others and passed_over is not None:
            passed_over(one, others)
    return logs


def _folders(folder: str, unreadable: Callable[[str], None]) -> Iterator[str]:
    """A folder and those below it, by name; links to folders are not followed, for they may lead around in a circle."""
    try:
        inside = sorted((one.name for one in _shown(folder) if one.is_folder and not one.is_link), key=_natural)
    except InputError as error:
        unreadable(error.message)
        return
    yield folder
    for name in inside:
        yield from _folders(_join(folder, name, "/" if is_url(folder) else ""), unreadable)


def refuse_folder(folder: str, how: ReadAs) -> NoReturn:
    """Say what to name instead of a folder where one log is needed, or where there is none in it.

    Raises:
        InputError: Always.
    """
    logs, others = _sorted_out(folder, how)
    if logs:
        first, more = logs[0], len(logs) - 1
        hint = f"Name one log in it, like {first}" + (f" (or one of {plural(more, 'other')})." if more else ".")
        raise InputError(f"{folder}: is a directory", hint)
    folders = sorted(entry.name for entry in _shown(folder) if entry.is_folder)
    hint = f"It has directories: {name_list(folders)}. Name one of them." if folders else "Name a log file."
    what = f"none of its files begins like one: {name_list(others)}" if others else "it has no file"
    raise InputError(f"{folder}: is a directory without a log; {what}", hint)


def is_file(path: str) -> bool:
    """Whether a path or a URL names something that is no folder."""
    where = local_path(path)
    if is_url(where):
        return is_remote_file(path)
    return os.path.lexists(where) and not os.path.isdir(where)


def entries_of(folder: str) -> list[Entry]:
    """The entries of a folder, by a path or a URL that ends with a slash; ordered by name, which is as it stands in that path or URL.

    Raises:
        OSError: There is no such folder, or it cannot be looked into.
        InputError: The same of one elsewhere.
    """
    where = local_path(folder)
    if is_url(where):
        found = list_remote(folder)
        return sorted(Entry(name, is_folder, not is_folder, is_empty=is_empty) for name, is_folder, is_empty in found)
    with os.scandir(where or ".") as listing:
        entries = sorted(map(_entry, listing))
    if where is folder:
        return entries
    return [one._replace(name=re.sub(_NO_URL, lambda found: f"%{ord(found[0]):02X}", one.name)) for one in entries]


def _entry(entry: os.DirEntry[str]) -> Entry:
    with suppress(OSError):  # a link that leads around in a circle
        return Entry(entry.name, entry.is_dir(), entry.is_file(), entry.is_symlink())
    return Entry(entry.name, is_folder=False, is_file=False, is_link=True)


def _shown(folder: str) -> list[Entry]:
    """The entries of a folder without hidden ones.

    Raises:
        InputError: It cannot be looked into.
    """
    try:
        return [entry for entry in entries_of(folder) if not entry.name.startswith(".")]
    except OSError as error:
        what = error.strerror or ("no such folder" if isinstance(error, FileNotFoundError) else error)
        raise InputError(f"{folder}: cannot be read: {what}") from error


def _join(folder: str, name: str, end: str = "") -> str:
    if not is_url(folder):
        return os.path.join(folder, name)
    return f"{re.sub(_SLASHES, '/', folder)}{name}{end}"


def _sorted_out(folder: str, how: ReadAs) -> tuple[list[str], list[str]]:
    """The paths of the logs in a folder, and the names of its other files."""
    files = sorted((one for one in _shown(folder) if one.is_file), key=lambda one: _natural(one.name))
    there = [one.name for one in files if not one.is_empty]
    known = dict(zip(there, _are_logs([_join(folder, name) for name in there], how), strict=True))
    logs = [_join(folder, name) for name in there if known[name]]
    return logs, [one.name for one in files if not known.get(one.name)]


def _are_logs(paths: Sequence[str], how: ReadAs) -> Iterator[bool]:
    """Whether each file is a log; all of them are of one folder."""
    if not (paths and is_url(local_path(paths[0]))):
        return (_is_log(path, how) for path in paths)
    heads = first_bytes(paths, _REMOTE_HEAD)
    return (head is None or _is_log(io.BytesIO(head), how) for head in heads)


def _is_log(where: str | BinaryIO, how: ReadAs) -> bool:
    """Whether something at the beginning of a file tells that it is read; also where it cannot be opened, which is no reason to pass it over."""
    try:
        with closing(FileSource(where)) as source:
            if how.read_as is not None:
                return bool(get_format(how.read_as, how.formats).recognise(source.head(HEAD)))
            return recognise(source, how).certain
    except UsageError:
        raise
    except MemlensError:
        return True


def _natural(name: str) -> list[tuple[int, str]]:
    """A key that orders numbers within names by size."""
    return [(int(part[:300]), part) if part.isdecimal() else (-1, part) for part in re.split(_DIGITS, name)]
