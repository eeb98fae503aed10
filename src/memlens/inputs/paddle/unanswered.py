"""What was asked for when memory ran out, where the message does not say: the request before it that never got its block, and who asked.

An allocator that fails throws: its thread writes ``Allocate … aligned to N`` and no ``Alloc`` after it, and then the message, mostly
below a traceback.  So the text right before a message tells what it leaves out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from memlens.facts import MAX_SIZE, OutOfMemory
from memlens.inputs.paddle import context, events
from memlens.inputs.paddle.wordings import CUT_OFF, DEVICE, OUT_OF_MEMORY
from memlens.inputs.stack_names import joined

if TYPE_CHECKING:
    from memlens.inputs.blocks import Block
    from memlens.inputs.paddle.block import BlockReading
    from memlens.windows.patterns import Matcher

__all__ = ["Unanswered", "text_before"]

#: Bytes before a message that are looked at: a traceback, and what is logged between the request and it.
_FAR = 1 << 15
#: So many messages of a log are looked into, and of each of its blocks.
_MOST = 100
#: Bytes that a message has at most that a log is cut in; the title that the framework puts over one, and how far above it stands.
_LONGEST_CUT, _SUMMARY, _NEAR = 600, b"Error Message Summary:", 100

_HEADER, _REQUEST, _BLOCK = events.HEADER.pattern, events.REQUEST.pattern, events.BLOCK.pattern
_CONTEXTS = [form.pattern for form in context.FORMATS]
_TRACEBACK = re.compile(rb"(?<!C\+\+ )\bTraceback \(most recent call last\):")
_FRAME = re.compile(rb'File "([^"\n]{1,1000})", line (\d{1,9}), in ([^\n]{1,200})')
#: Where something stands in a text, what it is, and what it says.
_Line: TypeAlias = tuple[int, str, bytes]
_OPERATOR = re.compile(rb"\b_(?:legacy_)?C_ops\.(\w{1,64})\(")


def text_before(block: Block, reading: BlockReading) -> tuple[dict[int, bytes], bytes]:
    """What stands before the out-of-memory messages of a block, by the offset of the message, and how the block ends."""

    def text(end: int) -> bytes:
        return block.data[max(block.begin, end - _FAR) : end].tobytes()

    failed = (
        message.offset for message in reading.messages if any(form.literal in message.text for form in OUT_OF_MEMORY)
    )
    to_position = block.begin - block.offset
    return {offset: text(offset + to_position) for offset in islice(failed, _MOST)}, text(block.end)


class Unanswered:
    """Completes out-of-memory messages; carries the end of the text from block to block.

    Args:
        marks: The user's own lines that name an owner, which count before all others.
    """

    def __init__(self, marks: Sequence[Matcher]) -> None:
        self._marks = marks
        self._tail = b""
        self._left = _MOST

    def completed(self, oom: OutOfMemory, before: bytes | None) -> OutOfMemory:
        """A message with what the text before it tells, which begins with its block where it is short."""
        if before is None or not self._left:
            return oom
        self._left -= 1
        return self._told(oom, self._tail + before)

    def cut_off(self, end: int, line_ends: int) -> OutOfMemory | None:
        """The message that the log was cut in, which is the last text of it; ``None`` where there is none.

        Only what the framework wrote counts: its summary of an error, or a request that still waits, stands before it.

        Args:
            end: Byte offset of the end of the log.
            line_ends: How many line ends it has.
        """
        text = self._tail
        found = CUT_OFF.pattern.search(text, max(len(text) - _LONGEST_CUT, 0))
        if found is None:
            return None
        at = text.rstrip().rfind(b"\n") + 1
        device = DEVICE.search(text, at)
        oom = self._told(
            OutOfMemory(
                end - len(text) + at,
                line_ends - text.count(b"\n", at) + 1,
                device[1].decode() if device is not None else "",
                None,
                None,
                text[at:].decode("utf-8", "replace").strip()[:300],
            ),
            text[: found.start()],
        )
        summary = text.find(_SUMMARY, max(found.start() - _NEAR, 0), found.start()) >= 0
        return oom if summary or oom.unanswered_bytes is not None else None

    def _told(self, oom: OutOfMemory, text: bytes) -> OutOfMemory:
        if len(text) > _FAR:  # the first line is cut
            text = text[-_FAR:].partition(b"\n")[2]
        lines = sorted((*_lines(text), *self._marked(text)), key=lambda line: line[0])
        thread, asked, at = _waiting(lines)
        mark, operator = (_last(lines, thread, kind) for kind in ("mark", "operator"))
        chunk = max((int(match["size"]) for match in events.CHUNK_SIZE.pattern.finditer(text)), default=0)
        owner = mark or _traceback(text[at:]) or operator
        return replace(oom, unanswered_bytes=asked, owner=owner, chunk_bytes=chunk)

    def _marked(self, text: bytes) -> Iterator[_Line]:
        """Where the lines end that the user's patterns name, and the names."""
        for matcher in self._marks:
            for match in matcher.find(np.frombuffer(text, np.uint8)):
                end = text.find(b"\n", match.start)
                yield len(text) if end < 0 else end, "mark", match.name.encode()

    def end_block(self, tail: bytes) -> None:
        """Take the end of the block whose messages were completed."""
        self._tail = (self._tail + tail)[-_FAR:]


def _waiting(lines: Sequence[_Line]) -> tuple[int | None, int | None, int]:
    """The thread that asked for a block and was not given it, how much it asked for, and where in the text it did.

    Nothing where several threads wait: any of them may be the one that failed.  Where none does, the thread of the last header.
    """
    thread: int | None = -1
    waiting: dict[int | None, tuple[int, int]] = {}
    for at, kind, found in lines:
        if kind == "thread":
            thread = int(found)
        elif kind == "request":
            waiting[thread] = int(found), at
        elif kind == "alloc":
            waiting.pop(thread, None)
    if len(waiting) != 1:
        return None if waiting else thread, None, 0
    ((thread, (size, at)),) = waiting.items()
    return thread, size, at


def _last(lines: Sequence[_Line], wanted: int | None, kind: str) -> str:
    """What the last line of a kind and of a thread says."""
    thread, name = -1, b""
    for _, one, found in lines:
        if one == "thread":
            thread = int(found)
        elif one == kind and thread == wanted:
            name = found
    return name.decode("utf-8", "replace")


def _lines(text: bytes) -> Iterator[_Line]:
    """Headers, requests, blocks given and context lines."""
    for match in _HEADER.finditer(text):
        yield match.start(), "thread", match["thread"]
    for match in _REQUEST.finditer(text):
        if int(match["aligned"]) <= MAX_SIZE:
            yield match.start(), "request", match["aligned"]
    for match in _BLOCK.finditer(text):
        if match["kind"] == b"Alloc":
            yield match.start(), "alloc", b""
    for pattern in _CONTEXTS:
        for match in pattern.finditer(text):
            yield match.start(), "operator", match["owner"]


def _traceback(text: bytes) -> str:
    """The operator that the last traceback in a text ends in and the Python frames that led to it, innermost first; empty without one."""
    start = max((match.end() for match in _TRACEBACK.finditer(text)), default=None)
    if start is None:
        return ""
    text = text[start:]
    operators = _OPERATOR.findall(text)
    frames = [
        f"{_cut(file.replace(chr(92).encode(), b'/').rpartition(b'/')[2])}:{int(line)} {_cut(function)}"
        for file, line, function in _FRAME.findall(text)
    ]
    return joined([*map(_cut, operators[-1:]), *reversed(frames)])


def _cut(text: bytes) -> str:
    return text.decode("utf-8", "replace").strip()[:80]
