"""The plain way to read a block: regular expressions, line by line.

This is what the formats of :mod:`memlens.parsing.paddle` mean, written for reading and not for speed.  The vectorised decoder
(:mod:`memlens.parsing.decode`) must give the same, and a property test holds it to that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from memlens.events import Kind
from memlens.parsing import paddle
from memlens.parsing.times import microseconds

__all__ = ["PlainBlock", "PlainEvent", "read_plain"]

_ANSI = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]")
_HEADER_BEFORE = re.compile(paddle.HEADER.regex.encode() + rb"\Z")


@dataclass(frozen=True)
class PlainEvent:
    """One event; offsets are those of the block's text.  ``thread`` and ``time_us`` are -1 where no header stands before it."""

    kind: Kind
    size: int
    addr: int
    line_start: int
    at: int
    thread: int
    time_us: int
    requested: int = -1


@dataclass
class PlainBlock:
    """All that stands in one block of lines."""

    events: list[PlainEvent] = field(default_factory=list)
    malformed: list[int] = field(default_factory=list)


def header_before(text: bytes) -> re.Match[bytes] | None:
    """The glog header that ends right at the end of ``text``, colours ignored."""
    return _HEADER_BEFORE.search(_ANSI.sub(b"", text[-400:]))


def read_plain(text: bytes) -> PlainBlock:
    """Read a whole text that begins at a line start.

    Requests are joined as the design says: an ALLOC takes the request of the last ``Allocate … aligned to`` line of its
    thread, if nothing of that thread was allocated since and the aligned size is the block's.
    """
    found = PlainBlock()
    pending: dict[int, tuple[int, int]] = {}
    start = 0
    for line in text.split(b"\n"):
        _read_line(line, start, found, pending)
        start += len(line) + 1
    return found


def _read_line(line: bytes, start: int, found: PlainBlock, pending: dict[int, tuple[int, int]]) -> None:
    matches = [
        (m.start(), f, m)
        for f in (paddle.BLOCK, paddle.CHUNK_NEW, paddle.CHUNK_BACK, paddle.REQUEST)
        for m in f.find_all(line)
    ]
    spans = []
    doubtful = False
    for at, form, match in sorted(matches, key=lambda item: item[0]):
        header = header_before(line[:at])
        thread = int(header["thread"]) if header else -1
        if form is paddle.REQUEST:
            if int(match["requested"]) <= paddle.MAX_SIZE:
                pending[thread] = int(match["requested"]), int(match["aligned"])
            continue
        if int(match["size"]) > paddle.MAX_SIZE:
            doubtful = True
            continue
        spans.append(match.span())
        kind = form.kinds[match["kind"].decode()] if "kind" in match.groupdict() else form.kinds[""]
        addr = int(match["addr"] or b"0", 16) if "addr" in match.groupdict() else 0
        requested = -1
        if kind == Kind.ALLOC:
            wanted, aligned = pending.pop(thread, (-1, -1))
            if aligned == int(match["size"]):
                requested = wanted
        time_us = microseconds(header["date"], header["time"]) if header else -1
        found.events.append(PlainEvent(kind, int(match["size"]), addr, start, start + at, thread, time_us, requested))
    for alike in paddle.LOOK_ALIKE.finditer(line):
        inside = any(lo <= alike.start() < hi for lo, hi in spans)
        doubtful |= not inside and not (alike["word"] and paddle.TRAP.match(line, alike.start()))
    if doubtful:
        found.malformed.append(start)
