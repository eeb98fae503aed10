"""The events of a baseline, as compact columns in a file beside it, so that a later failure can be blamed without the old log.

Kept is what a comparison needs: kind, size, requested size, owner, and which events are of one address (numbered in order of appearance, so
that two runs of one program give the same file).  Text, lines and times of the log are not kept: findings come without the lines around
them.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from memlens.errors import InputError
from memlens.events import EventLog, Kind
from memlens.facts import Facts
from memlens.source import NumberedSource
from memlens.windows.windows import Window

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["content", "digest", "events_path", "is_events", "read_events", "to_columns", "write_events"]

#: What an array may be in the file; ``owner``, ``owner_names`` (UTF-8 JSON) and ``requested`` are there where they are known.
_TYPES = {
    "kind": "|i1",
    "size": "<i8",
    "addr": "<u4",
    "windows": "<i8",  # two rows: the first event of each window, and the event after its last
    "requested": "<i8",
    "owner": "<i4",
    "owner_names": "|u1",
}
_NEEDED = ("kind", "size", "addr", "windows")
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '(?P<type>[^']{1,9})', 'fortran_order': False, "
    rb"'shape': \((?P<shape>[0-9]{1,18},|2, [0-9]{1,18})\), \} *\n",
    re.DOTALL,
)
#: Bytes that the arrays of one file may unpack to.
_LARGEST = 8 << 30

#: What a zip file and the arrays in it are refused with.
_DAMAGES = (ValueError, EOFError, KeyError, RuntimeError, RecursionError, struct.error, zipfile.BadZipFile, zlib.error)


def events_path(baseline: str | Path) -> Path:
    """Where the events of a baseline are: ``memory.events.npz`` beside ``memory.json``."""
    path = Path(os.fspath(baseline))
    return path.with_name(f"{path.stem if path.suffix == '.json' else path.name}.events.npz")


def to_columns(windows: Sequence[Window]) -> dict[str, NDArray[Any]]:
    """The events of a log and windows of it, the last of which is the whole log, as the arrays that are kept."""
    log = windows[0].log
    bounds = np.array([[window.lo for window in windows], [window.hi for window in windows]])
    columns = {"kind": log.kind, "size": log.size, "addr": _in_order_of_appearance(log.addr), "windows": bounds}
    if log.requested is not None:
        columns["requested"] = log.requested
    if log.owner is not None:
        columns["owner"] = log.owner
        columns["owner_names"] = np.frombuffer(json.dumps(log.owner_names).encode(), np.uint8)
    return {name: np.ascontiguousarray(column, _TYPES[name]) for name, column in columns.items()}


def _in_order_of_appearance(addr: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Addresses as the numbers 0, 1, 2 … of the order in which they come first."""
    _, first, inverse = np.unique(addr, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    numbers: NDArray[np.int64] = rank[inverse.reshape(-1)]
    return numbers


def digest(columns: dict[str, NDArray[Any]]) -> str:
    """A check sum of the arrays, whatever packs them."""
    found = hashlib.sha256()
    for name in _TYPES:
        if name in columns:
            found.update(f"{name} {columns[name].shape}\n".encode())
            found.update(columns[name].tobytes())
    return found.hexdigest()


def write_events(columns: dict[str, NDArray[Any]], out: BinaryIO) -> None:
    """Write the arrays, packed."""
    packed = io.BytesIO()  # a zip file is written back and forth, which a device or a pipe cannot do
    np.savez_compressed(packed, allow_pickle=False, **columns)
    out.write(packed.getvalue())


def is_events(path: str | Path) -> bool:
    """Whether a file is one that :func:`write_events` may have written."""
    try:
        with zipfile.ZipFile(path) as archive:
            return set(_NEEDED) <= {name.removesuffix(".npy") for name in archive.namelist()} <= set(_TYPES)
    except (OSError, *_DAMAGES):
        return False


def content(baseline: str | Path) -> bytes | None:
    """The file of the events of a baseline, as it is; ``None`` where it cannot be read."""
    try:
        return events_path(baseline).read_bytes()
    except OSError:
        return None


def read_events(
    path: str | Path, sha256: str, name: str, names: Sequence[str], content: bytes | None = None
) -> tuple[Window, ...]:
    """The windows of a baseline with their events.

    Args:
        path: The file of the events.
        sha256: The check sum that the baseline names.
        name: What to call their log.
        names: The names of the windows, in the order in which they were kept; the last one is the whole log.
        content: The file itself, where it is not to be opened by its name.

    Raises:
        InputError: The file cannot be read, is damaged, or is not the one that was written with the baseline.
    """
    try:
        with zipfile.ZipFile(path if content is None else io.BytesIO(content)) as archive:
            columns = dict(_arrays(archive))
        if digest(columns) != sha256:
            raise InputError(f"{os.fspath(path)}: these are not the events that the baseline was accepted with")
        return _windows(columns, name, names)
    except OSError as error:
        raise InputError(f"{os.fspath(path)}: cannot read the events: {error.strerror or error}") from error
    except _DAMAGES as error:
        raise InputError(f"{os.fspath(path)}: these events are damaged") from error


def _arrays(archive: zipfile.ZipFile) -> Iterator[tuple[str, NDArray[Any]]]:
    """The arrays of the file, each only if it is what may be there, and nothing unpacks without end."""
    members = {info.filename: info for info in archive.infolist()}
    names = [name.removesuffix(".npy") for name in members]
    told_twice = len(members) < len(archive.infolist())
    too_large = sum(info.file_size for info in members.values()) > _LARGEST
    if told_twice or too_large or not set(_NEEDED) <= set(names) <= set(_TYPES):
        raise ValueError("not the arrays of events")
    for name in names:
        with archive.open(f"{name}.npy") as member:
            yield name, _array(member.read(), np.dtype(_TYPES[name]))


def _array(text: bytes, dtype: np.dtype[Any]) -> NDArray[Any]:
    """An array as NumPy writes it, read without NumPy's loader: that makes room for what a header promises, and may unpickle."""
    header = _HEADER.match(text)
    if header is None or header["type"].decode() != dtype.str or (len(text) - header.end()) % dtype.itemsize:
        raise ValueError("not the array that it must be")
    shape = [int(count) for count in header["shape"].split(b",") if count.strip()]
    return np.frombuffer(text, dtype, offset=header.end()).reshape(shape)


def _windows(columns: dict[str, NDArray[Any]], name: str, names: Sequence[str]) -> tuple[Window, ...]:
    """The windows by name, once it is certain that nothing in the columns points beyond them."""
    count, bounds = len(columns["kind"]), columns["windows"]
    owners = json.loads(columns["owner_names"].tobytes()) if "owner_names" in columns else []
    if any(columns[key].shape != (count,) for key in columns if key not in ("windows", "owner_names")):
        raise ValueError("columns of several lengths")
    if bounds.shape != (2, len(names)) or (bounds < 0).any() or (bounds[0] > bounds[1]).any() or (bounds > count).any():
        raise ValueError("windows that are not there")
    if (count and not 0 <= columns["kind"].min() <= columns["kind"].max() <= max(Kind)) or (columns["size"] < 0).any():
        raise ValueError("events that are none")
    if "owner" in columns and count and not -1 <= columns["owner"].min() <= columns["owner"].max() < len(owners):
        raise ValueError("owners without a name")
    log = EventLog(
        columns["kind"],
        columns["size"],
        columns["addr"].astype(np.uint64),
        np.arange(count, dtype=np.int64),
        requested=columns.get("requested"),
        owner=columns.get("owner"),
        owner_names=tuple(map(str, owners)),
        source=StoredSource(name),
        # The whole log begins after the events that stand for what was there before.
        facts=Facts(opening=int(bounds[0, -1])),
    )
    return tuple(Window(log, own, lo, hi, 0, 0, 1, 0) for own, (lo, hi) in zip(names, bounds.T.tolist(), strict=True))


class StoredSource(NumberedSource):
    """Where events came from whose log is no longer there."""

    def blocks(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:  # noqa: ARG002
        raise InputError(f"{self.name}: the text of the log was not kept with the baseline")

    def line_numbers(self, offsets: Sequence[int]) -> list[int | None]:
        return [None] * len(offsets)

    def parts(self, spans: Sequence[tuple[int, int]]) -> list[bytes]:  # noqa: ARG002
        return []
