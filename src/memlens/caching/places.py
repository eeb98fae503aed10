"""Where entries lie, what they are called, and how much room they may take."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from memlens.caching import chosen_place
from memlens.caching.digests import sum_of
from memlens.errors import UsageError
from memlens.inputs.remote import is_url, local_path
from memlens.output import remove_parts
from memlens.units import parse_bytes

__all__ = [
    "LIMIT",
    "NAME",
    "Place",
    "asked_limit",
    "entries_in",
    "limit_of",
    "make_room",
    "place_of",
    "remove_earlier",
    "user_folder",
]

#: The variable that says how much room they may take.
LIMIT = "MEMLENS_CACHE_LIMIT"
#: What an entry is called: by the log that it lies beside, if it does; by what the log holds; and by what was asked of it.
NAME = re.compile(r"(?:\.(?P<log>.+)\.)?(?P<content>[0-9a-f]{32})-(?P<asked>[0-9a-f]{16})\.memlens", re.DOTALL)
#: A longer name of a log is cut, and told from others by its sum: what writes files takes no more than 100 characters for the name of a part.
_LONGEST_NAME = 40
_MOST_BYTES = 10_000_000_000
#: So many entries are written by one process between two looks at all of a folder.
_LOOKS = 100


@dataclass(frozen=True)
class Place:
    """Where the entries of one log lie.

    Attributes:
        folder: The folder.
        log: The log's path where they lie beside it, else ``""``.
    """

    folder: str
    log: str = ""

    @property
    def prefix(self) -> str:
        """How the names of the entries begin: a dot hides those that lie beside a log, from whoever takes a folder for its logs too."""
        name = os.path.basename(self.log)
        if len(name) > _LONGEST_NAME:
            name = f"{name[: _LONGEST_NAME - 9]}-{sum_of(os.fsencode(name))[:8]}"
        return f".{name}." if name else ""

    @property
    def owners(self) -> frozenset[int]:
        """Whose entries are believed: the user's own, and those of the log's owner, who could as well write another log."""
        me = os.geteuid() if hasattr(os, "geteuid") else 0
        return frozenset({me, os.stat(self.log).st_uid} if self.log else {me})

    @property
    def mode(self) -> int:
        """Who may read entries: what is beside a log whoever may read the log, all others the user alone."""
        if not self.log:
            return 0o600
        state = os.stat(self.log)
        group = 0o040 if state.st_gid == getattr(os, "getegid", lambda: -1)() else 0  # else it is another one's file
        return 0o600 | (state.st_mode & (0o004 | group))


def place_of(cache: str | Path | None, log: str) -> Place:
    """Where entries of a log lie; those of one that is no file of this machine, never beside it.

    Raises:
        OSError: There is no folder of the user's own.
    """
    chosen, path = chosen_place(cache), local_path(log)
    if chosen == "beside" and not is_url(path):
        whole = os.path.realpath(path)
        return Place(os.path.dirname(whole), whole)
    return Place(user_folder() if chosen in ("user", "beside", "off") else os.path.abspath(chosen))


def user_folder() -> str:
    """The user's own folder for what can be made again, of memlens.

    Raises:
        OSError: There is none.
    """
    given = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(given):  # others are to be passed over, by the convention
        return os.path.join(given, "memlens")
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        raise OSError("nobody knows your home directory")
    return os.path.join(home, *(("Library", "Caches") if sys.platform == "darwin" else (".cache",)), "memlens")


def entries_in(folder: str) -> Iterator[tuple[re.Match[str], os.DirEntry[str]]]:
    """The entries in a folder by their names, in no order; none where there is no folder."""
    with suppress(OSError), os.scandir(folder) as listing:
        for file in listing:
            if (match := NAME.fullmatch(file.name)) is not None:
                yield match, file


def asked_limit() -> int | None:
    """Bytes that the entries in a folder may take by the variable; ``None`` where it says nothing.

    Raises:
        UsageError: It holds no size.
    """
    try:
        return parse_bytes(given) if (given := os.environ.get(LIMIT, "")) else None
    except UsageError as error:
        raise UsageError(f"{LIMIT}: {error.message}", error.hint) from None


def limit_of(folder: str) -> int:
    """Bytes that the entries in a folder may take: what was asked for, else 10 GB, or a tenth of the room that there would be without them.

    Raises:
        OSError: Nobody knows how much room there is.
        UsageError: As of :func:`asked_limit`.
    """
    if (asked := asked_limit()) is not None:
        return asked
    there = next(one for one in (Path(folder), *Path(folder).parents) if one.is_dir())
    return min(_MOST_BYTES, (shutil.disk_usage(there).free + _taken(folder)) // 10)


#: What the entries of a folder took when this process looked last, with those that it has written since, and how many these are.
_SEEN: dict[str, tuple[int, int]] = {}


def _taken(folder: str) -> int:
    if folder not in _SEEN:
        _SEEN[folder] = sum(_state(file)[1] for _, file in entries_in(folder)), 0
    return _SEEN[folder][0]


def make_room(folder: str, limit: int, new: str = "", size: int = 0) -> None:
    """Remove entries, those first that were of no use for the longest time, until the others take no more than a limit; and what killed writers left.

    A folder may hold very many entries: it is looked through only where it may be too full, and else once for every hundred that a process writes.

    Args:
        folder: The folder.
        limit: Bytes.
        new: The path of an entry that was just written, and stays.
        size: Its bytes.
    """
    taken, written = _taken(folder) + size, _SEEN[folder][1] + 1
    _SEEN[folder] = taken, written
    if new and taken <= limit and written % _LOOKS and written > 1:
        return
    remove_parts(folder, NAME)
    found = [(file.path == new, *_state(file), file.path) for _, file in entries_in(folder)]
    left = sum(each for _, _, each, _ in found)
    for stays, _, each, path in sorted(found):
        if left <= limit or stays:
            break
        with suppress(OSError):
            os.unlink(path)
            left -= each
    _SEEN[folder] = left, written


def remove_earlier(new: str) -> None:
    """Remove what a log held before from beside it.

    Args:
        new: The path of an entry that holds what it holds now; one that lies beside no log is let alone.
    """
    folder, name = os.path.split(new)
    own = NAME.fullmatch(name)
    if own is None or not own["log"]:
        return
    prefix = f".{own['log']}."
    with suppress(OSError):
        for other in [one for one in os.listdir(folder) if one.startswith(prefix)]:  # there may be very many others
            match = NAME.fullmatch(other)
            if match and match["log"] == own["log"] and match["content"] != own["content"]:
                with suppress(OSError):
                    os.unlink(os.path.join(folder, other))


def _state(file: os.DirEntry[str]) -> tuple[float, int]:
    """When a file was written to last, and its size."""
    try:
        state = file.stat(follow_symlinks=False)
    except OSError:  # it was just removed
        return 0.0, 0
    return state.st_mtime, state.st_size
