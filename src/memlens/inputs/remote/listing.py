"""Folders of object stores and of other places named by URLs, which end with a slash."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

from memlens.inputs.remote import opened_files, scheme_of, unreadable
from memlens.inputs.remote.ranges import is_passing, tried

__all__ = ["RemoteEntry", "heads_of", "is_remote_file", "list_remote"]

#: Files whose beginnings are asked for at once.
_AT_ONCE = 128
_WEB = frozenset({"http", "https"})
#: Links in lists that name nothing in the folder: those that sort it, that lead to a place in the page or below a folder, mail.
_ELSEWHERE = re.compile(r"[?#]|[A-Za-z][A-Za-z0-9+.-]*:|(?!\./)[^/]+/.")
#: What a web server answers who asks for the beginning of an empty file.
_NOTHING_THERE = 416


class RemoteEntry(NamedTuple):
    """What has a name in a folder: a folder itself, or a file with its bytes, ``None`` where the place does not say them."""

    name: str
    is_folder: bool
    size: int | None


def list_remote(url: str) -> list[RemoteEntry]:
    """What lies in a folder, in no order.

    Raises:
        FileNotFoundError: There is no such folder.
        InputError: It cannot be looked into.
    """
    files, path = opened_files(url)

    def listed() -> list[dict[str, Any]]:
        files.invalidate_cache(path)  # what lies there now
        found: list[dict[str, Any]] = files.ls(path, detail=True)
        return found

    try:
        found = tried(listed, is_passing)
    except FileNotFoundError:
        raise
    except Exception as error:  # drivers raise whatever their transport does
        raise unreadable(url, error) from error
    web, folder = scheme_of(url) in _WEB, path.rstrip("/")
    entries = []
    for entry in found:
        where = entry["name"].rstrip("/")
        name = where.rpartition("/")[2]
        # Stores without folders may have an empty object in place of one; lists of web servers have links that lead elsewhere.
        if where != folder and not (web and _ELSEWHERE.match(_inside(folder, where))):
            entries.append(RemoteEntry(name, entry["type"] == "directory", entry.get("size")))
    return entries


def _inside(folder: str, where: str) -> str:
    """The rest of a URL behind that of a folder; the one may say ``https`` and the other ``http``."""
    return where.partition("://")[2].removeprefix(folder.partition("://")[2] + "/")


def is_remote_file(url: str) -> bool:
    """Whether a URL names a file."""
    try:
        files, path = opened_files(url)
        return bool(files.isfile(path))
    except Exception:  # noqa: BLE001  what is wrong is said when it is read
        return True


def heads_of(urls: Sequence[str], size: int) -> Iterator[bytes | None]:
    """The first bytes of files of one place, in their order; ``None`` for one that cannot be read."""
    from fsspec.asyn import AsyncFileSystem

    web = scheme_of(urls[0]) in _WEB
    for start in range(0, len(urls), _AT_ONCE):
        opened = [opened_files(url) for url in urls[start : start + _AT_ONCE]]
        files, paths = opened[0][0], [path for _, path in opened]
        if web:
            with ThreadPoolExecutor(len(paths)) as pool:
                yield from pool.map(partial(_head_on_web, files, size), paths)
        elif isinstance(files, AsyncFileSystem):
            found = files.cat_ranges(paths, 0, size, on_error="return")
            yield from (head if isinstance(head, bytes) else None for head in found)
        else:
            yield from map(partial(_head, files, size), paths)


def _head_on_web(files: Any, size: int, path: str) -> bytes | None:
    """The same of a web server: some send the whole file whatever is asked for, of which no more is taken."""
    headers = {**files.kwargs.get("headers", {}), "Range": f"bytes=0-{size - 1}"}
    # To say some size spares a request for the size.
    return _head(files, size, path, block_size=0, size=1, headers=headers)


def _head(files: Any, size: int, path: str, /, **how: Any) -> bytes | None:
    text = b""
    try:
        with files.open(path, "rb", **how) as file:
            while len(text) < size and (piece := file.read(size - len(text))):
                text += piece
    except Exception as error:  # noqa: BLE001  what is wrong is said when it is read
        return b"" if getattr(error, "status", None) == _NOTHING_THERE else None
    return text
