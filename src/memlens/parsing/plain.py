"""The plain way to read a block: regular expressions, line by line.

This is what the formats of :mod:`memlens.parsing.paddle` mean, written for reading and not for speed.  The vectorised decoder
(:mod:`memlens.parsing.decode`) must give the same, and a property test holds it to that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from memlens.events import Kind
from memlens.parsing import context, paddle
from memlens.parsing.times import microseconds

if TYPE_CHECKING:
    from memlens.matching import Pattern
    from memlens.parsing.formats import LineFormat

__all__ = ["ANSI", "PlainBlock", "PlainEvent", "header_before", "read_plain"]

ANSI = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]")
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
    owner: str | None = None


@dataclass
class PlainBlock:
    """All that stands in one block of lines."""

    events: list[PlainEvent] = field(default_factory=list)
    malformed: list[int] = field(default_factory=list)


def header_before(text: bytes) -> re.Match[bytes] | None:
    """The glog header that ends right at the end of ``text``, colours ignored."""
    return _HEADER_BEFORE.search(ANSI.sub(b"", text[-400:]))


@dataclass
class _State:
    """What earlier lines say of later ones, by thread: requests that wait, owners; and the thread of the last header."""

    pending: dict[int, tuple[int, int]] = field(default_factory=dict)
    owners: dict[int, str] = field(default_factory=dict)
    thread: int = -1


def read_plain(text: bytes, owners: Sequence[Pattern] = ()) -> PlainBlock:
    """Read a whole text that begins at a line start.

    Requests are joined as the design says: an ALLOC takes the request of the last ``Allocate … aligned to`` line of its
    thread, if nothing of that thread was allocated since and the aligned size is the block's.  An event's owner is what the last
    context line of its thread before it names.
    """
    found, state = PlainBlock(), _State()
    start = 0
    for line in text.split(b"\n"):
        named = _contexts(line, owners if start < len(text) else (), state)
        _read_line(line, start, found, state, named)
        start += len(line) + 1
    return found


def _contexts(line: bytes, owners: Sequence[Pattern], state: _State) -> list[tuple[int, int, str]]:
    """The context lines in a line: where each takes effect, its thread and the owner it names; in order."""
    named = [(m.start(), m["owner"].decode()) for form in context.FORMATS for m in form.find_all(line)]
    marks = [name for name in (pattern.match_line(line) for pattern in owners) if name is not None]
    named += [(len(line), name) for name in marks[:1]]
    # Where each header of the line ends, and its thread; before them all, the last one of the lines above.
    ends = [bracket.end() for bracket in re.finditer(rb"\]", line)]
    found = [(end, header_before(line[:end])) for end in ends]
    headers = [(0, state.thread), *((end, int(header["thread"])) for end, header in found if header is not None)]
    state.thread = headers[-1][1]
    return [
        (at, max((h for h in headers if h[0] <= at), key=lambda h: h[0])[1], name)
        for at, name in sorted(named, key=lambda item: item[0])
    ]


def _read_line(line: bytes, start: int, found: PlainBlock, state: _State, named: list[tuple[int, int, str]]) -> None:
    matches: list[tuple[int, LineFormat, re.Match[bytes]]] = [
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
                state.pending[thread] = int(match["requested"]), int(match["aligned"])
            continue
        if int(match["size"]) > paddle.MAX_SIZE:
            doubtful = True
            continue
        spans.append(match.span())
        kind = form.kinds[match["kind"].decode()] if "kind" in match.groupdict() else form.kinds[""]
        addr = int(match["addr"] or b"0", 16) if "addr" in match.groupdict() else 0
        requested = -1
        if kind == Kind.ALLOC:
            wanted, aligned = state.pending.pop(thread, (-1, -1))
            if aligned == int(match["size"]):
                requested = wanted
        time_us = microseconds(header["date"], header["time"]) if header else -1
        while named and named[0][0] < at:
            _, of, name = named.pop(0)
            state.owners[of] = name
        owner = state.owners.get(thread)
        found.events.append(
            PlainEvent(kind, int(match["size"]), addr, start, start + at, thread, time_us, requested, owner)
        )
    state.owners.update((of, name) for _, of, name in named)
    for alike in paddle.LOOK_ALIKE.finditer(line):
        inside = any(lo <= alike.start() < hi for lo, hi in spans)
        doubtful |= not inside and not (alike["word"] and paddle.TRAP.match(line, alike.start()))
    if doubtful:
        found.malformed.append(start)
