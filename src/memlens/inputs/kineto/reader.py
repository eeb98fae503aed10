"""Kineto traces: the JSON files that ``torch.profiler`` writes, read for their ``[memory]`` events.

The file is never parsed as a whole.  Its list of events is cut where one event ends and the next one begins: what is decoded as a list
of events was cut at the right position (:mod:`memlens.inputs.kineto.events`).  What cannot be decoded so is walked through bracket by
bracket instead; the brackets are trusted there, so that a damaged file gives the events before the damage.
"""

from __future__ import annotations

import base64
import json
import re
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

from memlens.errors import InputError, NoEventsError
from memlens.inputs.holders import read_walks
from memlens.text import plural

if TYPE_CHECKING:
    from collections.abc import Callable

    from memlens.inputs.file_source import FileSource
    from memlens.inputs.input_format import Request
    from memlens.inputs.kineto.events import Events
    from memlens.inputs.streams import ByteStream
    from memlens.log import Log


#: Bytes read at once.
BLOCK_BYTES = 1 << 20
#: An event longer than this is taken for damage: a string or a bracket without its end.
LONGEST_EVENT = 1 << 24
#: Brackets within brackets, which no trace has so many of.
_DEEPEST = 1000
_MOST_BASE = 4 * 10**18
#: Where the list of events begins: the key is not looked for in strings, where a quote has a backslash before it.
_LIST = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*\[|(?<!\\)"traceEvents"\s*:\s*\[')
#: All up to the last position where one object ends and another one of the same list begins.
_WHOLE_EVENTS = re.compile(rb"(?P<before>[ \t\r\n,]*+)(?s:.*)\}(?=[ \t\r\n]*+,[ \t\r\n]*+\{)")
#: What stands before a bracket that is in no string.
_TO_BRACKET = re.compile(rb'(?:[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+")*+[{}\[\]]', re.DOTALL)
_HINT = (
    "Record with torch.profiler.profile(profile_memory=True), export_chrome_trace(), and without profile_all_threads:"
    " with it PyTorch writes no [memory] events."
)


def read_kineto(source: FileSource, request: Request) -> list[Log]:
    """Read a trace.

    Args:
        source: The input; compressed or not.
        request: What is wanted of it.  Anchors are looked for among the annotations when they are asked for.

    Returns:
        A log for each device with ``[memory]`` events, by rising :attr:`~memlens.EventLog.device`; the CPU is number -1.

    Raises:
        InputError: It cannot be read, or is no trace; or it is cut short or damaged, and was to be read whole.
        NoEventsError: It has no ``[memory]`` event.
    """
    from memlens.inputs.kineto.events import Events
    from memlens.inputs.kineto.logs import make_logs

    events = Events()
    walk = _Walk(events)
    with closing(source.open()) as stream:
        problem = walk.through(stream, request.progress)
    if not walk.listed:
        raise InputError(
            f"{source.name}: {problem or 'there is no list of trace events in this JSON file'}",
            "A trace has the key traceEvents; write one with torch.profiler's export_chrome_trace().",
        )
    if not events.has_changes:
        early = f" ({problem})" if problem else ""
        among = plural(events.count, "event")
        unreadable = (
            f"; {events.malformed:,} of them cannot be read, first event {events.samples[0].line:,}"
            if events.malformed
            else ""
        )
        raise NoEventsError(
            f"{source.name}: no [memory] event among {among} of a Kineto trace{early}{unreadable}", _HINT
        )
    walks = read_walks(walk.noted)
    return make_logs(events, source.name, request, walks, base=walk.base, size=walk.size, cut_short=problem)


class _Walk:
    """Finds the events of a trace.

    Args:
        events: Where they are read.

    Attributes:
        size: Bytes of the uncompressed input.
        base: Nanoseconds since 1970 at the zero of the trace's clock.
        listed: There is a list of events.
        noted: What the recorder noted, of any type.
    """

    def __init__(self, events: Events) -> None:
        self._events = events
        self.size, self.base, self.listed = 0, 0, False
        self.noted: Any = None
        # What is not used up yet, and room behind it, which is used again: fresh memory is dear.
        self._text = bytearray()
        self._left = 0  # bytes of it
        self._around = b""  # the JSON up to the events, and once they have ended all that follows
        self._ended = False
        self._problem = ""

    def through(self, stream: ByteStream, progress: Callable[[int], None] | None) -> str:
        """Read a trace to its end; why that could not be reached, or ``""``."""
        tried, last = 0, False
        while not last:
            last = not self._append(stream)
            if not last and self._left < 2 * tried:  # the more is left over, the more is read before it is tried again
                continue
            self._read(last=last)
            if self._problem:
                return self._problem
            tried = self._left
            if max(tried, len(self._around)) > LONGEST_EVENT:
                return f"the JSON ends in the middle, at byte {self.size:,}: one value is longer than {LONGEST_EVENT >> 20} MiB"
            if progress is not None:
                progress(stream.consumed)
        if not self._ended or stream.problem:
            return stream.problem or f"the JSON ends in the middle, at byte {self.size:,}: closing brackets are missing"
        return self._look_around(self._around)

    def _append(self, stream: ByteStream) -> int:
        """Read on; how much was read, nothing at the end of the stream."""
        end, before = self._left + BLOCK_BYTES, self._left
        if end > len(self._text):
            self._text.extend(bytes(end + BLOCK_BYTES - len(self._text)))
        with memoryview(self._text) as text:
            while self._left < end and (count := stream.readinto(text[self._left : end])):
                self._left += count
        self.size += self._left - before
        return self._left - before

    def _read(self, *, last: bool) -> None:
        """Read what can be read of the text; ``last`` says that no more follows."""
        used, done = 0, False
        if not self.listed and (begins := _LIST.search(self._text, 0, self._left)):
            self.listed, used = True, begins.end()
            self._around = bytes(self._text[:used])
            self._look_around(self._around + b"]}")  # where what follows is cut off, that is all there is
        while self.listed and not self._ended and not done:
            whole = _WHOLE_EVENTS.match(self._text, used, self._left)
            if whole and self._events.add(memoryview(self._text)[whole.end("before") : whole.end()]):
                used, done = whole.end(), not last
            else:
                used, done = self._split(used), True
        if self._ended:
            self._around += self._text[used : self._left]
            used = self._left
        self._text[: self._left - used] = self._text[used : self._left]
        self._left -= used

    def _split(self, used: int) -> int:
        """Read events bracket by bracket from some position on, up to the end of their list; gives how far the text is used up then."""
        text, offset, depth = self._text, self.size - self._left, 0
        found: list[tuple[int, bytes]] = []
        begin = after = used
        while bracket := _TO_BRACKET.match(text, after, self._left):
            at, after = bracket.end() - 1, bracket.end()
            if text[at] in b"[{":
                begin, depth = begin if depth else at, depth + 1
                if depth > _DEEPEST:
                    where = f"at byte {offset + at:,} are more than {_DEEPEST:,} open brackets"
                    self._problem = f"the JSON is damaged: {where}"
                    break
            elif depth == 0:
                self._ended, used = True, at
                break
            else:
                depth -= 1
                if depth == 0:
                    used = after
                    if text[begin] == ord("{") and text[at] == ord("}"):
                        found.append((offset + begin, bytes(text[begin:after])))
        self._events.add_singly(found)
        return used

    def _look_around(self, text: bytes) -> str:
        """Read what stands around the events; what is wrong with it, or ``""``."""
        try:
            around = json.loads(text.decode("utf-8-sig", "replace"), strict=False)
        except (ValueError, RecursionError) as error:
            return f"the JSON is damaged around its list of events: {error}"
        base = around.get("baseTimeNanoseconds") if isinstance(around, dict) else None
        if type(base) is int and abs(base) <= _MOST_BASE:
            self.base = base
        noted = around.get("memlens") if isinstance(around, dict) else None
        if type(noted) is str:
            with suppress(ValueError, RecursionError):  # in base 64: PyTorch writes no backslashes there
                self.noted = json.loads(base64.b64decode(noted))
        return ""
