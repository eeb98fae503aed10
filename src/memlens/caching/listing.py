"""What a cache holds, by the logs that it was read of, and how it is cleared."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from memlens.caching import chosen_place
from memlens.caching.entries import DamagedEntryError, read_facts
from memlens.caching.places import NAME, Place, entries_in, limit_of, make_room, place_of
from memlens.errors import OutputError, UsageError
from memlens.inputs.remote import is_url, local_path, without_secrets

__all__ = ["SCHEMA", "CacheListing", "KeptLog", "cache"]

SCHEMA = "memlens.cache/1"


@dataclass(frozen=True)
class KeptLog:
    """What a folder keeps of one log.

    Attributes:
        path: The log as it was when it was kept: an absolute path, or a URL without what is secret in it; ``""`` where its entry cannot be read.
        folder: The folder.
        log_bytes: Bytes of the log as it lies on disk; 0 where it came over the network.
        kept_us: When it was read, microseconds since 1970.
        used_us: When it was of use last, or else kept, microseconds since 1970.
        size_bytes: What its entries take.
        entries: How many there are: one for each way of reading it, and one for each anchor.
        hits: How often it was not read again for their sake.
    """

    path: str
    folder: str
    log_bytes: int
    kept_us: int
    used_us: int
    size_bytes: int
    entries: int
    hits: int

    def to_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)


@dataclass(frozen=True)
class CacheListing:
    """What :func:`cache` found, or cleared.

    Attributes:
        folder: The folder that was looked at, beside those of the logs that were named; ``""`` where these alone were.
        limit_bytes: What its entries may take; 0 where no folder was looked at.
        logs: What is kept, that of use last first; the same log may be in several folders.
        cleared: These are gone.
    """

    folder: str
    limit_bytes: int
    logs: tuple[KeptLog, ...]
    cleared: bool

    @property
    def total_bytes(self) -> int:
        """What all of :attr:`logs` take, or took."""
        return sum(log.size_bytes for log in self.logs)

    def to_dict(self) -> dict[str, Any]:
        """Everything, in plain JSON types, by the contract ``memlens.cache/1``."""
        totals = {"limit_bytes": self.limit_bytes, "total_bytes": self.total_bytes, "cleared": self.cleared}
        return {"schema": SCHEMA, "folder": self.folder, **totals, "logs": self.rows()}

    def rows(self) -> list[dict[str, Any]]:
        """The logs as plain values."""
        return [log.to_dict() for log in self.logs]


def cache(
    logs: str | Path | Sequence[str | Path] = (), *, cache: str | Path | None = None, clear: bool = False
) -> CacheListing:
    """Say what is kept of logs that were read, or clear it.

    Args:
        logs: One log or several, or folders of logs: only what is kept of these, in the cache folder and beside them.  None: all that is kept in
            the folder.
        cache: Look there: in your cache folder (``user``), beside the logs that are named alone (``beside``), or in another folder.  ``None`` is what
            ``MEMLENS_CACHE`` says, else ``user``.
        clear: Remove what is listed.

    Raises:
        OutputError: It cannot be cleared, or there is no folder of the user's own.
        UsageError: What lies beside logs is asked for, and no log is named; or the variable that limits a cache holds no size.
    """
    named = [str(log) for log in (logs if isinstance(logs, (list, tuple)) else [logs])]
    where = chosen_place(cache)
    if where == "beside" and not named:
        raise UsageError("which logs?", "Entries lie beside their logs: name these, or their folders.")
    try:
        folder = "" if where == "beside" else place_of(cache, "").folder
        limit = limit_of(folder) if folder else 0
        files = list(_files(folder, named))
        found = sorted(_by_log(files), key=lambda log: (-log.used_us, log.path))
        if clear:
            for path in files:
                with suppress(FileNotFoundError):  # somebody else made room
                    os.unlink(path)
            if folder:
                make_room(folder, limit)  # and what killed writers left
    except OSError as error:
        raise OutputError(f"the cache cannot be looked at or cleared: {error.strerror or error}") from error
    return CacheListing(folder, limit, tuple(found), clear)


def _files(folder: str, named: Sequence[str]) -> Iterator[str]:
    """The entries of a folder; where logs are named those of these, and what lies beside them."""
    if not named:
        yield from (file.path for _, file in entries_in(folder))
        return
    for log in dict.fromkeys(named):
        path = without_secrets(log) if is_url(local_path(log)) else os.path.abspath(local_path(log))
        for _, file in entries_in(folder) if folder else ():
            kept = _path_of(file.path)
            if kept == path or (kept and os.path.dirname(kept) == path):
                yield file.path
        if not is_url(path):
            whole = os.path.realpath(path)
            own = Place(os.path.dirname(whole), whole)
            yield from (
                file.path
                for match, file in entries_in(whole if os.path.isdir(whole) else own.folder)
                if match["log"] and (os.path.isdir(whole) or file.name.startswith(own.prefix))
            )


def _path_of(entry: str) -> str:
    with suppress(DamagedEntryError, OSError):
        return str(read_facts(entry, _owners(entry)).facts.get("path"))
    return ""


def _owners(entry: str) -> list[int]:
    """Whose entries are listed: everybody's."""
    return [os.lstat(entry).st_uid]


def _by_log(files: Sequence[str]) -> Iterator[KeptLog]:
    """Entries of the same content in one folder, together."""
    groups: dict[tuple[str, str], list[str]] = {}
    for path in files:
        match = NAME.fullmatch(os.path.basename(path))
        groups.setdefault((os.path.dirname(path), match["content"] if match else ""), []).append(path)
    for (folder, _), paths in groups.items():
        known = []
        for path in paths:
            with suppress(DamagedEntryError, OSError):
                known.append(read_facts(path, _owners(path)))
        latest = max(known, key=lambda entry: _number(entry.facts.get("kept")), default=None)
        facts = {} if latest is None else latest.facts
        yield KeptLog(
            path=str(facts.get("path", "")),
            folder=folder,
            log_bytes=int(_number(facts.get("bytes"))),
            kept_us=int(_number(facts.get("kept")) * 1e6),
            used_us=int(max((entry.used for entry in known), default=0.0) * 1e6),
            size_bytes=sum(entry.size for entry in known),
            entries=len(paths),
            hits=sum(entry.uses for entry in known if "events" in entry.facts),
        )


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
