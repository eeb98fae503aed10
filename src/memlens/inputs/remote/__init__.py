"""Inputs named by a URL, read through fsspec: object stores, HDFS, web servers, the memory of this process.

fsspec and its drivers are not needed for anything else and are imported here only.
"""

from __future__ import annotations

import contextlib
import io
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from memlens.errors import InputError

if TYPE_CHECKING:
    from memlens.inputs.remote.ranges import RemoteObject

__all__ = [
    "PlainStream",
    "is_url",
    "local_path",
    "open_remote",
    "opened_files",
    "remote_size",
    "remote_version",
    "scheme_of",
    "unreadable",
    "without_secrets",
]

_Where = TypeVar("_Where")
#: A scheme has two letters at least: ``c://`` is a drive.
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)(?:::[^\s]+)?://")
#: What to install for a scheme, where the name does not say it.
_DRIVERS = {
    scheme: package
    for line in (
        *("s3fs: s3 s3a", "gcsfs: gs gcs", "pyarrow: hdfs", "aiohttp: http https"),
        *("adlfs: abfs abfss az", "ossfs: oss", "ocifs: oci", "paramiko: sftp ssh"),
    )
    for package, schemes in [line.split(": ")]
    for scheme in schemes.split()
}
_WEB = ("http://", "https://")
_STATUS_REFUSED = frozenset({401, 403})
#: Seconds without a byte after which a request to a web server has failed.
STALLED = 60.0


def scheme_of(where: object) -> str:
    """The scheme of a URL, lower case; ``""`` for anything else."""
    match = _URL.match(where) if isinstance(where, str) else None
    return "" if match is None else match[1].lower()


def is_url(where: object) -> bool:
    """Whether an input is named by a URL (``s3://bucket/run.log``) and not by a path."""
    return bool(scheme_of(where))


def local_path(where: _Where) -> _Where | Path:
    """The path that a ``file://`` URL of this machine names; anything else as it is."""
    if scheme_of(where) != "file":
        return where
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(str(where))
    return Path(unquote(parts.path)) if parts.netloc in ("", "localhost") and parts.path else where


class PlainStream(io.RawIOBase):
    """What a store gives from front to back only; what its driver raises becomes an :class:`InputError`."""

    def __init__(self, file: Any, url: str) -> None:
        super().__init__()
        self._file, self._url = file, url

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        try:
            data = self._file.read(len(view))
        except Exception as error:  # drivers raise whatever their transport does
            raise unreadable(self._url, error) from error
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            with contextlib.suppress(Exception):  # it was read; nothing is lost
                self._file.close()
        super().close()


def open_remote(url: str) -> RemoteObject | PlainStream:
    """Open what a URL names, for reading: by ranges where the store gives them, else from front to back.

    Raises:
        InputError: fsspec or its driver is not installed, there is no such object, it is a directory, or access is refused.
    """
    try:
        files, path = opened_files(url)
        from memlens.inputs.remote.ranges import is_passing, tried

        return tried(lambda: _opened_or_said(files, path, url), is_passing)
    except InputError:
        raise
    except Exception as error:
        raise unreadable(url, error) from error


def _opened_or_said(files: Any, path: str, url: str) -> RemoteObject | PlainStream:
    """What a URL names, opened; errors are those that tell most."""
    try:
        return _opened(files, path, url)
    except (FileNotFoundError, ValueError):
        _look_closer(files, path)
        raise


def _opened(files: Any, path: str, url: str) -> RemoteObject | PlainStream:
    from memlens.inputs.remote.ranges import FIRST, IN_FLIGHT, RemoteObject

    web = path.startswith(_WEB)
    known: dict[str, Any] = {}

    def open_file() -> Any:
        return files.open(path, "rb", cache_type="none", **known)

    def look() -> dict[str, Any]:
        files.invalidate_cache(path)  # what it says is to be true now
        return _told(files, path)

    # A driver whose files know what they are of is asked once for both.
    first = None if web else open_file()
    details = getattr(first, "details", None) or _told(files, path)
    if details.get("type") == "directory":
        raise IsADirectoryError(path)
    size = details.get("size")
    if isinstance(size, int) and details.get("partial", True):
        known = {"size": size} if web and size else {}
        driver_has_several = getattr(files, "async_impl", False)
        remote = RemoteObject(
            *(open_file, look, details, url, partial(unreadable, url)), IN_FLIGHT if driver_has_several else 1
        )
        if first is not None:
            remote.keep(first)
        if not web or size <= FIRST or _gives_ranges(open_file(), size):
            return remote
    return PlainStream(files.open(path, "rb", **({"block_size": 0} if web else {})), url)


def _told(files: Any, path: str) -> dict[str, Any]:
    """What a store says of an object."""
    try:
        found: dict[str, Any] = files.info(path)
    except FileNotFoundError as error:
        # Of web servers the driver calls whatever goes wrong "not found".
        if isinstance(cause := error.__cause__, Exception) and path.startswith(_WEB):
            raise cause from None
        raise
    return found


def _gives_ranges(file: Any, size: int) -> bool:
    """Whether a web server gives the end of a file alone; some say nothing of ranges, and send the whole file whatever is asked for."""
    try:
        file.seek(size - 1)
        return len(file.read(1)) == 1
    except ValueError:
        return False


def _look_closer(files: Any, path: str) -> None:
    """Raise what tells more than the error of a driver."""
    if path.startswith(
        _WEB
    ):  # of web servers it calls everything that is refused "not found"; the first byte's error tells more
        files.cat_file(path, start=0, end=1)
    elif files.isdir(path):
        raise IsADirectoryError(path)


def remote_size(url: str) -> int | None:
    """The bytes of what a URL names, as it lies there; ``None`` where nobody says."""
    try:
        files, path = opened_files(url)
        size = files.size(path)
    except Exception:  # noqa: BLE001  what is wrong is said when it is read
        return None
    return size if isinstance(size, int) and size > 0 else None


def remote_version(url: str) -> str:
    """What the store says of what a URL names that changes with each byte of it: its strong ETag, its generation or its MD5; ``""`` where it says none."""
    try:
        files, path = opened_files(url)
        files.invalidate_cache()  # what a listing said of it may be long ago
        told = {name.lower().replace("-", "").replace("_", ""): value for name, value in files.info(path).items()}
    except Exception:  # noqa: BLE001  what is wrong is said when it is read
        return ""
    known = {name: str(told[name]) for name in ("etag", "generation", "md5hash", "contentmd5") if told.get(name)}
    if known.get("etag", "").startswith("W/"):  # by which two texts may be one
        del known["etag"]
    return f"{told.get('size')} {sorted(known.items())}" if known else ""


def without_secrets(url: str) -> str:
    """A URL as it may be shown to others: without a user's name and without what follows a question mark, where signatures stand."""
    return re.sub(r"://[^/]*@", "://", url).partition("?")[0]


def opened_files(url: str) -> tuple[Any, str]:
    """The file system of a URL, of fsspec, and the path in it.

    Raises:
        InputError: fsspec or the driver is not installed, the URL makes no sense, or the driver cannot begin.
    """
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise InputError(
            f"{url}: reading URLs needs the package fsspec",
            "Install it with: pip install 'memlens[remote]'.",
        ) from None
    try:
        files, path = url_to_fs(url, **_patience(url))
    except ImportError as error:
        scheme = scheme_of(url)
        driver = _DRIVERS.get(scheme)
        what = f"pip install {driver}" if driver else f"the fsspec driver for {scheme}://"
        raise InputError(
            f"{url}: reading {scheme}:// needs a driver that is not installed: {_first_line(error)}",
            f"Install it with: {what}." if driver else f"Install {what}.",
        ) from None
    except ValueError as error:
        raise InputError(
            f"{url}: cannot be read: {_first_line(error)}",
            "Give a path, or a URL of a scheme that fsspec knows, like s3://, gs://, hdfs:// or https://.",
        ) from None
    except Exception as error:  # drivers raise whatever their transport does
        raise unreadable(url, error) from error
    return files, path


def _patience(url: str) -> dict[str, Any]:
    """Options of a driver: by itself that of web servers ends each request after five minutes, however much of a large log still comes."""
    from fsspec.config import conf

    scheme = scheme_of(url)
    if scheme not in ("http", "https") or any("client_kwargs" in conf.get(one, {}) for one in ("http", scheme)):
        return {}
    from aiohttp import ClientTimeout

    return {"client_kwargs": {"timeout": ClientTimeout(total=None, sock_connect=STALLED, sock_read=STALLED)}}


def unreadable(url: str, error: Exception) -> InputError:
    """What a driver raised, in words."""
    status = getattr(error, "status", None)
    if isinstance(error, FileNotFoundError) or status == 404:
        return InputError(f"{url}: no such file", "Check the URL; for an object store also the bucket and the region.")
    if isinstance(error, PermissionError) or status in _STATUS_REFUSED or "credentials" in type(error).__name__.lower():
        return InputError(
            f"{url}: access is refused: {_first_line(error)}",
            "Log in as for the store's own tools: its driver takes their credentials (environment, profile, key file).",
        )
    if isinstance(error, IsADirectoryError):
        return InputError(
            f"{url}: is a directory",
            "Name a log in it; to verbs of many logs a URL that ends with / stands for all logs in it.",
        )
    if isinstance(error, ImportError):
        return InputError(f"{url}: a package is missing: {_first_line(error)}", "Install what it names.")
    return InputError(
        f"{url}: cannot be read: {type(error).__name__}: {_first_line(error)}", "Try again, or copy it here first."
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
