"""Reading through a cache: what was read of an input before is taken from there, and what is read is kept.

An entry is found by what the input holds, by the version of everything that makes events of it, and by what was asked.  The lines of an
anchor are an entry of their own: they follow from the text alone.  Whatever goes wrong with a cache costs no result: it is one
:class:`~memlens.errors.MemlensWarning`.
"""

from __future__ import annotations

import json
import logging
import os
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from memlens.caching.digests import sum_of, sum_of_file, version_of_formats
from memlens.caching.entries import DAMAGES, DamagedEntryError, Entry, read_entry, write_entry
from memlens.caching.logs import can_be_stored, restored_anchor, restored_logs, stored_anchor, stored_logs
from memlens.caching.places import Place, asked_limit, limit_of, make_room, place_of, remove_earlier
from memlens.errors import MemlensError, MemlensWarning, UsageError
from memlens.inputs.builder import most_events
from memlens.inputs.custom.formats import formats_file
from memlens.inputs.registry import GROUP, Recognised
from memlens.inputs.remote import remote_version, without_secrets
from memlens.lifetimes import odd_frees, set_pairs
from memlens.plugins import entry_points
from memlens.scanner.lines import count_lines
from memlens.windows.patterns import Anchor, Matcher, Matches

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.events import EventLog
    from memlens.inputs.blocks import Block
    from memlens.inputs.file_source import FileSource
    from memlens.inputs.input_format import Request
    from memlens.options import ReadAs
    from memlens.windows.patterns import Match, Pattern

__all__ = ["read_through"]

#: Reads an input, given what is wanted of it.
Read = Callable[["Request"], tuple[Recognised, Sequence["EventLog"]]]


def read_through(source: FileSource, request: Request, how: ReadAs, read: Read) -> Sequence[EventLog]:
    """The logs of an input: those that were kept, or else as they are read, and then kept.

    Args:
        source: The input.
        request: What is wanted of it.
        how: The format and the layer, where they are given, and where entries lie.
        read: Reads it, given what is wanted.

    Raises:
        MemlensError: As reading does; or the variable that limits the cache holds no size.
    """
    asked_limit()  # what is wrong with it is said before anything is read
    cache, problem = None, None
    try:
        cache = _Cache.of(source, request, how)
        if cache is not None and (known := cache.logs()) is not None:
            return known
    except UsageError:
        raise
    except (OSError, MemlensError) as error:
        problem = error  # where reading fails as well that alone is said
    # Landmarks cost little here, and the next one who looks may want them.
    found, logs = read(request if cache is None else replace(request, landmarks=True))
    try:
        if cache is not None and problem is None:
            cache.keep(found, logs)
    except (OSError, MemlensError) as error:
        problem = error
    if problem is not None:
        _warn(problem, cache)
    return logs


def _warn(error: OSError | MemlensError, cache: _Cache | None = None) -> None:
    """Say that something is not kept: once for all logs of which the same is to be said."""
    cause = error if isinstance(error, OSError) else error.__cause__
    what = (
        cause.strerror or str(cause) if isinstance(cause, OSError) else ". ".join(filter(None, str(error).split("\n")))
    )
    where = f"{cache.place.folder}: " if cache is not None else ""
    warnings.warn(f"what is read is not kept for the next time: {where}{what}", MemlensWarning, stacklevel=4)


def _say(text: str, source: FileSource, *more: object) -> None:
    logging.getLogger("memlens").info("%s: " + text, source.name, *more)  # noqa: G003 - a format of two parts


class _Content(NamedTuple):
    """What an input holds: a sum of it, and what tells that it was written to meanwhile."""

    made: str
    state: tuple[int, ...] = ()

    @classmethod
    def of(cls, source: FileSource, progress: Callable[[int], None] | None = None) -> _Content | None:
        """That of a file, or what a store says of its object; ``None`` where nobody says.

        Raises:
            OSError: It cannot be read.
        """
        if source.path is None:
            url = source.url if source.rereadable else None
            version = remote_version(url) if url is not None else ""
            return cls(sum_of(f"{url}\n{version}".encode())) if version else None
        made, state = sum_of_file(source.path, progress), os.stat(source.path)
        return cls(made, (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns))


@dataclass(frozen=True)
class _Cache:
    """The entries of one input that hold what is asked of it.

    Attributes:
        source: The input.
        request: What is wanted of it.
        place: Where its entries lie.
        content: What it holds.
        version: What stands for all that makes events of it.
        asked: What is asked of it beside anchors, by which its entry is found.
        formats: The file of the formats of users, if there is one.
    """

    source: FileSource
    request: Request
    place: Place
    content: _Content
    version: str
    asked: dict[str, Any]
    formats: str | None

    @classmethod
    def of(cls, source: FileSource, request: Request, how: ReadAs) -> _Cache | None:
        """``None`` for an input of which nothing is kept: it can be read only once, or nobody knows whether it changes.

        Raises:
            MemlensError: A package is missing.
            OSError: It cannot be read.
        """
        if not source.rereadable or (content := _Content.of(source, request.progress)) is None:
            if source.rereadable:
                _say("not kept: its server gives no ETag and no version of it", source)
            return None
        asked = {
            "columns": sorted(request.columns),
            "owners": [[pattern.text, pattern.regex] for pattern in request.owners],
            "layer": how.layer,
            "input_format": how.input_format,
            "most_events": most_events(request, source.size),
        }
        place = place_of(how.cache, source.path or source.url or source.name)
        version, formats = version_of_formats(how.formats), formats_file(how.formats)
        return cls(source, request, place, content, version, asked, formats)

    def logs(self) -> Sequence[EventLog] | None:
        """What was kept; ``None`` where nothing was, or what was asked to be an error."""
        began, asked = time.perf_counter(), self.asked
        entry = self._entry(asked)
        if entry is None and asked["most_events"] is not None:
            asked = self._condensed
            entry = self._entry(asked)
        if entry is None or ((told := entry.facts.get("packages")) is not None and told != _packages()):
            return None
        if self.source.path is not None:
            self.source.compression  # noqa: B018 - how lines are looked up depends on it, and it is known of an open file
        try:
            logs = restored_logs(entry.arrays, self.source)
        except DAMAGES:
            self._forget(asked)
            return None
        if self.request.strict and any(log.facts.cut_short for log in logs):
            return None
        if self.request.progress is not None:
            self.request.progress(int(entry.facts["bytes"]))
        seconds = time.perf_counter() - began
        _say(
            "%s events, kept in %s, taken in %.2f s",
            self.source,
            f"{sum(log.events for log in logs):,}",
            self._path(asked),
            seconds,
        )
        return self._with_anchors(logs)

    @property
    def _condensed(self) -> dict[str, Any]:
        """The same where events are left out: which ones depends on the anchors, and on what is asked of them."""
        patterns = [[pattern.text, pattern.regex] for pattern in self.request.patterns]
        return {**self.asked, "patterns": patterns, "near_cuts": self.request.near_cuts}

    def keep(self, found: Recognised, logs: Sequence[EventLog]) -> None:
        """Keep what was read.

        Raises:
            OSError: It cannot be written.
            MemlensError: The same; or the variable that limits the cache holds no size.
        """
        if not can_be_stored(logs) or found.format.origin not in ("memlens", self.formats):
            _say(
                "not kept: it comes from a format of another package, or its events are elsewhere already", self.source
            )
            return
        if self.content != _Content.of(self.source):
            _say("not kept: it was written to while it was read", self.source)
            return
        # Where nothing in the input told its format, one of a package that is installed later may know it.
        packages = None if found.told else _packages()
        asked = self.asked if all(log.condensed is None for log in logs) else self._condensed
        self._put(asked, stored_logs(logs), events=sum(log.events for log in logs), packages=packages)
        for anchor in logs[0].anchors:
            self._put(_of_anchor(anchor.pattern), stored_anchor(anchor))

    def _with_anchors(self, logs: Sequence[EventLog]) -> Sequence[EventLog] | None:
        """Logs that were kept, with the lines of the patterns that are looked for; those that are not known yet are kept then.

        ``None`` where the input no longer holds what they are of.
        """
        if logs[0].marks is not None or not self.request.patterns:
            return logs
        stored = {pattern: self._anchor(pattern) for pattern in self.request.patterns}
        known = {pattern: anchor for pattern, anchor in stored.items() if anchor is not None}
        missing = [pattern for pattern in stored if pattern not in known]
        known.update(zip(missing, self._found(missing), strict=True))
        if missing and self.content != _Content.of(self.source):
            return None  # it was written to, and these are the lines of another text
        with_them = tuple(known[pattern] for pattern in self.request.patterns)
        found = []
        for log in logs:
            found.append(replace(log, anchors=with_them))
            set_pairs(found[-1], log.lifetimes, odd_frees(log))
        try:
            for pattern in missing:
                self._put(_of_anchor(pattern), stored_anchor(known[pattern]))
        except (OSError, MemlensError) as error:
            _warn(error, self)
        return found

    def _found(self, patterns: Sequence[Pattern]) -> list[Anchor]:
        """The lines that match, by one pass over the text that several threads share."""
        matchers, line = [Matcher(pattern) for pattern in patterns], 1
        found = [Matches() for _ in patterns]

        def look(block: Block) -> tuple[list[list[Match]], int]:
            return [matcher.find(block.text, block.offset) for matcher in matchers], count_lines(block.text)

        for of_block, lines in self.source.read_blocks(look, self.request.progress) if patterns else ():
            for matches, more in zip(found, of_block, strict=True):
                matches.add(more, line)
            line += lines
        return [*map(Matches.anchor, found, patterns)]

    def _anchor(self, pattern: Pattern) -> Anchor | None:
        asked = _of_anchor(pattern)
        if (entry := self._entry(asked)) is None:
            return None
        try:
            return restored_anchor(entry.arrays, pattern)
        except DAMAGES:
            self._forget(asked)
            return None

    def _path(self, asked: dict[str, Any]) -> str:
        name = f"{self.content.made}-{sum_of(json.dumps([self.version, asked]).encode())[:16]}.memlens"
        return os.path.join(self.place.folder, self.place.prefix + name)

    def _entry(self, asked: dict[str, Any]) -> Entry | None:
        """The entry of something that is asked; one that is damaged is removed."""
        try:
            return read_entry(
                self._path(asked), self.place.owners, content=self.content.made, version=self.version, asked=asked
            )
        except DamagedEntryError:
            self._forget(asked)
        except OSError:
            pass
        return None

    def _forget(self, asked: dict[str, Any]) -> None:
        with suppress(OSError):
            os.unlink(self._path(asked))

    def _put(self, asked: dict[str, Any], arrays: Sequence[NDArray[Any]], **more: Any) -> None:
        """Write an entry, and make room for it."""
        path, folder = self._path(asked), self.place.folder
        os.makedirs(folder, 0o700, exist_ok=True)
        limit = limit_of(folder)
        facts = {
            "content": self.content.made,
            "version": self.version,
            "asked": asked,
            "path": without_secrets(self.source.name)
            if self.source.path is None
            else os.path.abspath(self.source.path),
            "bytes": 0 if self.source.path is None else os.path.getsize(self.source.path),
            "kept": time.time(),
            **more,
        }
        size = write_entry(path, facts, arrays, self.place.mode, limit)
        if not size:
            _say("not kept: it would take more than the limit of %s bytes", self.source, f"{limit:,}")
        remove_earlier(path)
        make_room(folder, limit, path, size)


def _of_anchor(pattern: Pattern) -> dict[str, Any]:
    return {"pattern": [pattern.text, pattern.regex]}


def _packages() -> list[list[str]]:
    """The formats of installed packages, with the versions of these."""
    return sorted(
        [point.name, *([point.dist.name, point.dist.version] if point.dist else ["", ""])]
        for point in entry_points(GROUP)
    )
