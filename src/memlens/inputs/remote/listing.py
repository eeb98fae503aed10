"""Folders of object stores and of other places named by URLs, which end with a slash."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from memlens.inputs.remote import opened_files, scheme_of, unreadable
from memlens.inputs.remote.ranges import is_passing, tried

__all__ = ["RemoteEntry", "heads_of", "is_remote_file", "list_remote"]

#: Files whose beginnings are asked for at once.
_AT_ONCE = 128


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
    entries = []
    for entry in found:
        where = entry["name"].rstrip("/")
        name = where.rpartition("/")[2]
        # Stores without folders may have an empty object in place of one; lists of web servers have links that sort them.
        if where != path.rstrip("/") and not (name.startswith("?") and scheme_of(url) in ("http", "https")):
            entries.append(RemoteEntry(name, entry["type"] == "directory", entry.get("size")))
    return entries


def is_remote_file(url: str) -> bool:
    """Whether a URL names a file."""
    try:
        files, path = opened_files(url)
        return bool(files.isfile(path))
    except Exception:  # noqa: BLE001  what is wrong is said when it is read
        return True


def heads_of(urls: Sequence[str], size: int) -> Iterator[bytes | None]:
    """The first bytes of files of one place, in their order; ``None`` for one that cannot be read."""
    for start in range(0, len(urls), _AT_ONCE):
        some = [opened_files(url) for url in urls[start : start + _AT_ONCE]]
        found = some[0][0].cat_ranges([path for _, path in some], 0, size, on_error="return")
        yield from (head if isinstance(head, bytes) else None for head in found)
