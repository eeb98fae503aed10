"""Inputs named by a URL, read through fsspec: object stores, HDFS, web servers, the memory of this process.

fsspec and its drivers are not needed for anything else and are imported here only.
"""

from __future__ import annotations

import io
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from memlens.errors import InputError
from memlens.source import scheme_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_WEB = frozenset({"http", "https"})
_AGAIN = "Try again, or copy it here first."
#: Bytes that are asked for ahead, where a log is read and where some of its text is looked up again.
_BLOCK, _PAGE = 4 << 20, 1 << 16
#: Files whose beginnings are asked for at once, where a driver can have several requests.
_AT_ONCE = 32
#: By what stores tell versions of an object apart; and where they have none of these, when it was written.
_VERSIONS = ("generation", "ETag", "etag", "md5Hash", "Content-MD5", "Digest")
_TIMES = ("mtime", "Last-Modified", "LastModified", "last_modified", "modificationTime", "created")


class RemoteObject:
    """The object or file that a URL names; all that is read of it belongs to the version that was there when it was first asked for.

    Attributes:
        size: Its bytes; 0 where nobody says.
        seekable: It can be read from any place on, and not from front to back alone.

    Raises:
        InputError: fsspec or its driver is not installed, there is no such object, it is a directory, or access is refused.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._files, self._path = _opened_files(url)
        self._looked_up: Any = None
        with _in_words(url):
            self._info = self._look()
            if self._info["type"] == "directory":
                raise IsADirectoryError(url)
            self.size = int(self._info.get("size") or 0)
            self.seekable = scheme_of(url) not in _WEB or self._gives_ranges()

    def stream(self, begin: int = 0) -> io.RawIOBase:
        """Its bytes from ``begin`` on, to be read once."""
        with _in_words(self.url):
            if not self.seekable:
                return _Stream(self, self._files.open(self._path, "rb", block_size=0), 0)
            file = self._open(_BLOCK)
            if begin:
                file.seek(begin)
            return _Stream(self, file, begin)

    def parts(self, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of some spans of offsets, ``(first, after the last)``.

        Raises:
            InputError: They cannot be had, or the object is another one by now.
        """
        found = []
        with _in_words(self.url):
            if self._looked_up is None:
                self._looked_up = self._open(_PAGE)
                self.check()
            for begin, end in spans:
                self._looked_up.seek(begin)
                found.append(self._looked_up.read(max(min(end, self.size) - begin, 0)))
        return found

    def check(self) -> None:
        """Look whether it is still the object that was first asked for.

        Raises:
            InputError: It is not, or nobody says.
        """
        with _in_words(self.url):
            now = self._look()
        marks = [name for name in _VERSIONS if self._info.get(name)]
        if not marks and (now.get("size") or 0) > self.size:
            return  # a file system where logs are appended to: what was there is read
        if any(now.get(name) != self._info.get(name) for name in ("size", *(marks or _TIMES))):
            raise _changed(self.url)

    def _look(self) -> dict[str, Any]:
        self._files.invalidate_cache(self._path)  # what is said of it is to be true now
        info: dict[str, Any] = self._files.info(self._path)
        return info

    def _open(self, block: int) -> Any:
        known = {"size": self.size} if scheme_of(self.url) in _WEB else {}  # or it would be asked for once more
        return self._files.open(self._path, "rb", block_size=block, cache_type="readahead", **known)

    def _gives_ranges(self) -> bool:
        """Whether a web server gives the end of a file alone; some send the whole file whatever is asked for."""
        try:
            with self._open(1) as file:
                file.seek(self.size - 1)
                return len(file.read(1)) == 1
        except ValueError:
            return False


class _Stream(io.RawIOBase):
    """The bytes of a remote object from some place on."""

    def __init__(self, remote: RemoteObject, file: Any, at: int) -> None:
        super().__init__()
        self._remote, self._file, self._at = remote, file, at

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        left = (self._remote.size or sys.maxsize) - self._at  # what is appended meanwhile is not read
        with _in_words(self._remote.url):
            data = self._file.read(min(len(view), _BLOCK, left))
            view[: len(data)] = data
        if not data:
            self.confirm()
            if self._at < self._remote.size:
                raise InputError(f"{self._remote.url}: only {self._at:,} bytes came of {self._remote.size:,}", _AGAIN)
        self._at += len(data)
        return len(data)

    def confirm(self) -> None:
        """Look whether what was read is of one version, for whoever reads no further.

        Raises:
            InputError: It is not.
        """
        self._remote.check()

    def close(self) -> None:
        if not self.closed:
            with suppress(Exception):  # it was read; nothing is lost
                self._file.close()
        super().close()


def list_remote(url: str) -> list[tuple[str, bool, bool]]:
    """The entries of a folder, in no order: the name of each, whether it is a folder itself, and whether it is said to be empty.

    Raises:
        FileNotFoundError: There is no such folder.
        InputError: It cannot be looked into.
    """
    files, path = _opened_files(url)
    try:
        files.invalidate_cache(path)  # what lies there now
        found = files.ls(path, detail=True)
    except FileNotFoundError:
        raise
    except Exception as error:  # drivers raise whatever their transport does
        raise _unreadable(url, error) from error
    entries, folder, web = [], path.rstrip("/"), scheme_of(url) in _WEB
    for one in found:
        where = one["name"].rstrip("/")
        parent, _, name = where.rpartition("/")
        # Lists of web servers have links that lead elsewhere; stores without folders may have an empty object in place of one.
        if parent.partition("://")[2] == folder.partition("://")[2] if web else where != folder:
            entries.append((name, one["type"] == "directory", one.get("size") == 0))
    return entries


def is_remote_file(url: str) -> bool:
    """Whether a URL names a file."""
    with suppress(Exception):  # what is wrong is said when it is read
        files, path = _opened_files(url)
        return bool(files.isfile(path))
    return True


def first_bytes(urls: Sequence[str], size: int) -> list[bytes | None]:
    """The first bytes of files of one place, in their order; ``None`` for one that cannot be read."""
    from concurrent.futures import ThreadPoolExecutor

    def first(url: str) -> bytes | None:
        with suppress(Exception):  # what is wrong is said when it is read
            files, path = _opened_files(url)
            with files.open(path, "rb", block_size=size, cache_type="none") as file:
                return bytes(file.read(size))
        return None

    with ThreadPoolExecutor(_AT_ONCE if _opened_files(urls[0])[0].async_impl else 1) as pool:
        return list(pool.map(first, urls))


def remote_size(url: str) -> int | None:
    """The bytes of what a URL names, as it lies there; ``None`` where nobody says."""
    with suppress(Exception):  # what is wrong is said when it is read
        files, path = _opened_files(url)
        return files.size(path) or None
    return None


def _opened_files(url: str) -> tuple[Any, str]:
    """The file system of a URL, of fsspec, and the path in it.

    Raises:
        InputError: fsspec or the driver is not installed, the URL makes no sense, or the driver cannot begin.
    """
    with _in_words(url):
        from fsspec.core import url_to_fs

        try:
            files, path = url_to_fs(url)
        except ValueError as error:
            raise InputError(
                f"{url}: cannot be read: {_first_line(error)}",
                "Give a path, or a URL of a scheme that fsspec knows, like s3://, gs://, hdfs:// or https://.",
            ) from None
    return files, path


@contextmanager
def _in_words(url: str) -> Iterator[None]:
    """Make of what a driver raises an error that names the URL."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # drivers raise whatever their transport does
        raise _unreadable(url, error) from error


def _changed(url: str) -> InputError:
    return InputError(
        f"{url}: changed while it was read", "Read it again once nothing writes it, or copy it here first."
    )


def _unreadable(url: str, error: Exception) -> InputError:
    if isinstance(error, FileNotFoundError) and isinstance(error.__cause__, Exception) and scheme_of(url) in _WEB:
        error = error.__cause__  # of web servers the driver calls whatever goes wrong "not found"
    status, what = getattr(error, "status", None), type(error).__name__
    if isinstance(error, FileNotFoundError) or status == 404:
        return InputError(f"{url}: no such file", "Check the URL; for an object store also the bucket and the region.")
    if isinstance(error, PermissionError) or status in (401, 403) or "credentials" in what.lower():
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
        return InputError(
            f"{url}: a package is missing: {_first_line(error)}",
            "Install it: pip install 'memlens[remote]' brings fsspec; each store's driver is a package, like s3fs.",
        )
    if what == "FileExpired":  # of s3fs, which asks for one version
        return _changed(url)
    return InputError(f"{url}: cannot be read: {what}: {_first_line(error)}", _AGAIN)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
