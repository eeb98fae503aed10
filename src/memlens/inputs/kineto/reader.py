"""Kineto traces: the JSON files that ``torch.profiler`` writes, read for their ``[memory]`` events.

The file is never parsed as a whole.  Its list of events is cut where one event ends and the next one begins: what is decoded as a list
of events was cut at the right position (:mod:`memlens.inputs.kineto.events`).  What cannot be decoded so is walked through bracket by
bracket instead, as is all that stands around the list; the brackets are trusted there, so that a damaged file gives the events before the damage.
"""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING

from memlens.errors import InputError, NoEventsError
from memlens.units import plural

if TYPE_CHECKING:
    from collections.abc import Callable

    from memlens.inputs.file_source import FileSource
    from memlens.inputs.input_format import Request
    from memlens.inputs.kineto.events import Events
    from memlens.inputs.streams import ByteStream
    from memlens.log import Log


#: Bytes read at once.
BLOCK_BYTES = 1 << 18
#: An event longer than this is taken for damage: a string or a bracket without its end.
LONGEST_EVENT = 1 << 24
#: Brackets within brackets, which no trace has so many of.
_DEEPEST = 1000
_MOST_BASE = 4 * 10**18
_SPACE = b" \t\r\n"
#: All up to the last position where one object ends and another one of the same list begins.
_WHOLE_EVENTS = re.compile(rb"(?P<before>[ \t\r\n,]*+)(?s:.*)\}(?=[ \t\r\n]*+,[ \t\r\n]*+\{)")
#: A string, up to the end of the text where it has no end of its own; and what stands before a bracket that is in no string.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_TO_BRACKET = re.compile(rb'(?:[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+")*+[{}\[\]]', re.DOTALL)
# Keys are not looked for in strings: there a quote has a backslash before it.
_TO_LIST = re.compile(rb'(?<!\\)"traceEvents"\s*:\s*\Z')
_BASE = re.compile(rb'(?<!\\)"baseTimeNanoseconds"\s*:\s*(-?[0-9]{1,19})(?![0-9.eE])')
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
    base = walk.base if abs(walk.base) <= _MOST_BASE else 0
    return make_logs(events, source.name, request, base=base, size=walk.size, cut_short=problem)


class _Walk:
    """Finds the events of a trace.

    Args:
        events: Where they are read; of several lists of events the last one counts.

    Attributes:
        size: Bytes of the uncompressed input.
        base: Nanoseconds since 1970 at the zero of the trace's clock.
        listed: There is a list of events.
    """

    def __init__(self, events: Events) -> None:
        self._events = events
        self.size, self.base, self.listed = 0, 0, False
        # What is not used up yet, and room behind it, which is used again: fresh memory is dear.
        self._text = bytearray()
        self._left = 0  # bytes of it
        self._depth = 0  # of brackets, before that text
        self._list = 0  # the depth inside the list of events; 0 outside it
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
            if self._ended:
                if after := self._text[: self._left].lstrip(_SPACE):
                    return f"there is more text after the end of the JSON, at byte {self.size - len(after):,}"
                self._left = 0
            tried = self._left
            if tried > LONGEST_EVENT:
                return self._damage(f"one value is longer than {LONGEST_EVENT >> 20} MiB")
            if progress is not None:
                progress(stream.consumed)
        return "" if self._ended else stream.problem or self._damage("closing brackets are missing")

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
        used, done = 0, self._ended
        while not done:
            whole = _WHOLE_EVENTS.match(self._text, used, self._left) if self._list else None
            if whole and self._events.add(memoryview(self._text)[whole.end("before") : whole.end()]):
                used, done = whole.end(), not last
            else:
                outside = not self._list
                used = self._walk(used)
                done = not (outside and self._list)
        self._text[: self._left - used] = self._text[used : self._left]
        self._left -= used

    def _walk(self, used: int) -> int:
        """Read bracket by bracket from some position on, up to the beginning of the list; gives how far the text is used up then."""
        text, offset = self._text, self.size - self._left
        found: list[tuple[int, bytearray]] = []
        begin = after = used
        while bracket := _TO_BRACKET.match(text, after, self._left):
            before, at, outside, level = after, bracket.end() - 1, not self._list, self._depth
            after, opens = at + 1, text[at] in b"[{"
            self._depth += 1 if opens else -1
            if outside and level == 1:
                for base in _BASE.finditer(text, before, at):
                    self.base = int(base[1])
            if outside and text[at] == ord("["):
                if level == 0 or (level == 1 and _TO_LIST.search(text, before, at)):
                    if self.listed:  # JSON's rule for a key that comes twice: the last one counts
                        self._events.clear()
                    self._list, self.listed = self._depth, True
                    return after
            elif not outside and self._depth == self._list + opens:
                if opens:
                    begin = at
                elif text[begin] == ord("{") and text[at] == ord("}"):
                    found.append((offset + begin, text[begin:after]))
            elif self._depth < self._list:
                self._events.add_singly(found)
                found, self._list = [], 0
            if self._depth == self._list or not self._list:
                used = after
            if self._depth > _DEEPEST:
                self._problem = f"the JSON is damaged: at byte {offset + at:,} are more than {_DEEPEST:,} open brackets"
            self._ended = self._depth <= 0
            if self._ended or self._problem:
                break
        self._events.add_singly(found)
        self._depth = self._list or self._depth
        return used

    def _damage(self, otherwise: str) -> str:
        """Say what is wrong with text that does not come to an end."""
        for string in _STRING.finditer(self._text, 0, self._left):
            if (end := self._text.find(b"\n", *string.span())) >= 0:  # JSON has no line end inside a string
                end += self.size - self._left
                return f"the JSON is damaged: the line that ends at byte {end:,} has a text without its end"
        return f"the JSON ends in the middle, at byte {self.size:,}: {otherwise}"
