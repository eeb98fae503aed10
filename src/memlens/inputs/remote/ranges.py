"""Objects of a remote store, read by ranges: several requests are in flight while what came before is worked on, and a line that is looked up costs one.

The requests are made by threads through the file objects of fsspec's drivers, each thread with one of its own.
"""

from __future__ import annotations

import io
import random
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from memlens.errors import InputError

__all__ = ["FrontToBack", "RemoteObject", "is_final"]

_Result = TypeVar("_Result")
#: Bytes of one request.  Many are cheap in time and dear in memory: so many times as many bytes as are in flight are held.
RANGE = 1 << 21
#: … and of the first one: to tell the format of a log needs no more than its beginning.
FIRST = 1 << 20
#: Requests at once to a store whose driver can have several.
IN_FLIGHT = 8
#: What is looked up is fetched and kept in pages.
PAGE = 1 << 16
PAGES_KEPT = 256
#: Pages in between that are fetched as well, since they cost less than one more request.
_GAP = 4
#: Seconds to wait before each further try of a request that failed.
DELAYS = (0.2, 0.8, 3.2)
#: What stores tell versions of an object apart by, the surest first.
_VERSIONS = ("generation", "ETag", "etag", "md5Hash", "Content-MD5", "Digest")
#: … and where they have none of these, when it was written.
_TIMES = ("mtime", "LastModified", "last_modified", "Last-Modified", "modificationTime", "created")
#: Answers of a server that a further try may change: timeout, too early, too many requests.
_PASSING = frozenset({408, 425, 429})
_FINAL = (
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
    ImportError,
    NotImplementedError,
    InputError,
)


def is_final(error: Exception) -> bool:
    """Whether trying again is of no use."""
    status = getattr(error, "status", None)
    refused = isinstance(status, int) and 400 <= status < 500 and status not in _PASSING
    return (
        refused or isinstance(error, (*_FINAL, ValueError, TypeError)) or "credentials" in type(error).__name__.lower()
    )


class RemoteObject:
    """One object whose size is known and any part of which can be asked for.

    What is read of it belongs to one version: that which was there when it was opened.

    Args:
        open_file: Opens it anew for reading at any place.
        look: What the store says of it now.
        details: What the store said of it.
        name: Its URL.
        in_words: Makes of what a driver raises an error that names the URL.
        in_flight: Requests at once.

    Attributes:
        size: Its bytes.
    """

    def __init__(
        self,
        open_file: Callable[[], Any],
        look: Callable[[], dict[str, Any]],
        details: dict[str, Any],
        name: str,
        in_words: Callable[[Exception], InputError],
        in_flight: int = IN_FLIGHT,
    ) -> None:
        self.size = int(details["size"])
        self.in_flight = in_flight
        self._open_file, self._look, self._details = open_file, look, details
        self._name, self._in_words = name, in_words
        self._idle: list[Any] = []
        self._threads = _Threads(in_flight)
        self._pages: OrderedDict[int, bytes] = OrderedDict()

    def stream(self, begin: int = 0, end: int | None = None) -> FrontToBack:
        """Its bytes from ``begin`` to before ``end``, to be read once."""
        return FrontToBack(self, begin, self.size if end is None else min(end, self.size))

    def fetch(self, begin: int, end: int) -> Future[bytes]:
        """Ask for some bytes; a request that fails is tried again where that may help."""
        return self._threads.start(lambda: self._fetched(begin, end))

    def result(self, future: Future[bytes]) -> bytes:
        """The bytes that were asked for.

        Raises:
            InputError: They cannot be had, or the object is another one by now.
        """
        try:
            return future.result()
        except InputError:
            raise
        except Exception as error:  # drivers raise whatever their transport does
            raise self._in_words(error) from error

    def check(self) -> None:
        """Look whether it is still the object that was opened.

        Raises:
            InputError: It is not, or nobody says.
        """
        self.result(self._threads.start(lambda: self._tried(self._checked)))

    def parts(self, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of some spans of offsets, ``(first, after the last)``, fetched together; what was looked up lately is at hand.

        Raises:
            InputError: They cannot be had, or the object is another one by now.
        """
        wanted = sorted({page for begin, end in spans for page in self._pages_of(begin, end)})
        pages = {page: self._pages[page] for page in wanted if page in self._pages}
        if missing := [page for page in wanted if page not in pages]:
            runs = [(first * PAGE, min((last + 1) * PAGE, self.size)) for first, last in _runs(missing)]
            asked = [self.fetch(*run) for run in runs]
            for (begin, end), future in zip(runs, asked, strict=True):
                text = self.result(future)
                pages.update((at // PAGE, text[at - begin : at - begin + PAGE]) for at in range(begin, end, PAGE))
            self.check()
            self.rest()
        for page in wanted:
            self._pages[page] = pages[page]
            self._pages.move_to_end(page)
        while len(self._pages) > PAGES_KEPT:
            self._pages.popitem(last=False)
        found = []
        for begin, end in spans:
            inside = self._pages_of(begin, end)
            text = b"".join(pages[page] for page in inside)
            found.append(
                text[begin - inside.start * PAGE : min(end, self.size) - inside.start * PAGE] if inside else b""
            )
        return found

    def rest(self) -> None:
        """Let the threads go; they come back when they are needed."""
        self._threads.stop()

    def keep(self, file: Any) -> None:
        """Use an open file for the next request."""
        self._idle.append(file)

    def _pages_of(self, begin: int, end: int) -> range:
        end = min(end, self.size)
        return range(begin // PAGE, -(-end // PAGE)) if begin < end else range(0)

    def _fetched(self, begin: int, end: int) -> bytes:
        return self._tried(lambda: self._requested(begin, end))

    def _tried(self, work: Callable[[], _Result]) -> _Result:
        for delay in DELAYS:
            try:
                return work()
            except Exception as error:
                if is_final(error):
                    raise
            # Half of them at other moments: what refuses eight requests at once would refuse them again.
            time.sleep(delay * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
        return work()

    def _requested(self, begin: int, end: int) -> bytes:
        try:
            file = self._idle.pop()
        except IndexError:
            file = self._open_file()
            self._compare(getattr(file, "_details", None))
        try:
            file.seek(begin)
            text: bytes = file.read(end - begin)
            while len(text) < end - begin and (piece := file.read(end - begin - len(text))):
                text += piece
        except Exception:
            self._checked()  # another object is what to say, and no reason to try again
            raise
        if len(text) < end - begin:
            self._checked()
            raise OSError(f"{len(text):,} bytes came of {end - begin:,} at {begin:,}")
        self._idle.append(file)
        return text

    def _checked(self) -> None:
        try:
            details = self._look()
        except FileNotFoundError:
            raise self._changed("it is gone") from None
        self._compare(details)

    def _compare(self, now: dict[str, Any] | None) -> None:
        """Whether the store speaks of the object that was opened."""
        if now is None:
            return
        before, size = self._details, now.get("size")
        said = [[name for name in names if before.get(name) and now.get(name)] for names in (_VERSIONS, _TIMES)]
        if not said[0] and isinstance(size, int) and size > self.size:
            return  # a file system where logs are appended to: what was there is read
        told_by = (said[0] or said[1])[:1]
        same = size == before["size"] and all(now[name] == before[name] for name in told_by)
        if not same:
            raise self._changed(
                f"it had {self.size:,} bytes and has {size:,}" if size != self.size else "it was written anew"
            )

    def _changed(self, how: str) -> InputError:
        return InputError(
            f"{self._name}: changed while it was read: {how}",
            "Read it again once nothing writes it, or copy it here first.",
        )


class FrontToBack(io.RawIOBase):
    """Bytes of a remote object from front to back, the next ranges being fetched meanwhile."""

    def __init__(self, remote: RemoteObject, begin: int, end: int) -> None:
        super().__init__()
        self._remote, self._next, self._end = remote, begin, end
        self._ahead = 0 if begin == 0 else remote.in_flight  # the first range is asked for alone
        self._waiting: deque[Future[bytes]] = deque()
        self._rest = memoryview(b"")
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        target = memoryview(buffer).cast("B")
        if not self._rest and not self._ended:
            self._take()
        count = min(len(target), len(self._rest))
        target[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def confirm(self) -> None:
        """Look whether what was read is of one version, for whoever reads no further.

        Raises:
            InputError: It is not.
        """
        if not self._ended:
            self._remote.check()

    def close(self) -> None:
        if not self.closed:
            for future in self._waiting:
                future.cancel()
            self._waiting.clear()
            self._remote.rest()
        super().close()

    def _take(self) -> None:
        while self._next < self._end and len(self._waiting) < max(self._ahead, 1):
            stop = min(self._next + (RANGE if self._ahead else FIRST), self._end)
            self._waiting.append(self._remote.fetch(self._next, stop))
            self._next = stop
        self._ahead = self._remote.in_flight
        if self._waiting:
            self._rest = memoryview(self._remote.result(self._waiting.popleft()))
        else:
            self._remote.check()
            self._ended = True


class _Threads:
    """Threads that do what they are told, and that a process does not wait for when it ends: a request may hang for minutes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._running = 0

    def start(self, work: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        self._jobs.put((future, work))
        if self._running < self._most:
            self._running += 1
            threading.Thread(target=_work, args=(self._jobs,), name="memlens-fetch", daemon=True).start()
        return future

    def stop(self) -> None:
        for _ in range(self._running):
            self._jobs.put(None)
        # What still runs ends by itself, and takes from the old queue.
        self._jobs, self._running = SimpleQueue(), 0


def _work(jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]) -> None:
    while (job := jobs.get()) is not None:
        future, work = job
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
                future.set_exception(error)
        del job, future, work  # the next one may be long in coming, and a range is large


def _runs(pages: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Rising pages as runs, the first and the last page of each: neighbours, and those with little in between, up to one range."""
    first = last = None
    for page in pages:
        if first is not None and last is not None:
            if page - last <= _GAP and (page + 1 - first) * PAGE <= RANGE:
                last = page
                continue
            yield first, last
        first = last = page
    if first is not None and last is not None:
        yield first, last
