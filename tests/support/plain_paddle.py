"""The reference implementation of reading a log of Paddle: regular expressions, line by line, and dictionaries.

This is what the formats of :mod:`memlens.inputs.paddle.events` and :mod:`memlens.inputs.paddle.other_events` mean, written for reading and not
for speed.  The reader must give the same, and property tests hold it to that.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from msgspec import structs

from memlens.facts import MAX_SIZE, Kind
from memlens.inputs.paddle import context
from memlens.inputs.paddle import events as paddle
from memlens.inputs.paddle import other_events as paddle_layers
from memlens.inputs.paddle.layers import SIZELESS, Layer, choose
from memlens.inputs.paddle.other_events import STAT_LINE

if TYPE_CHECKING:
    from memlens.log import Log
    from memlens.scanner.formats import LineFormat
    from memlens.windows.patterns import Pattern


ANSI = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]")
_HEADER_BEFORE = re.compile(paddle.HEADER.regex.encode() + rb"\Z")
#: Text that looks like an event: it counts as malformed unless a format matches right there, or it is a line of another allocator that
#: begins like one.
LOOK_ALIKE = re.compile(
    rb"(?P<word>(?:Alloc|Free) [0-9])|(?P<tail> bytes, ptr = 0x)|(?P<chunk>Not found and reallocate |Free chunk with size )"
)
TRAP = re.compile(rb"(?:Alloc|Free) [0-9]{1,15} bytes(?: a| o|\.)")
LOOK_ALIKE_OTHERS = re.compile(
    rb"(?P<stream_safe>Allocate [0-9]{1,16} bytes at address |Try free allocation )"
    rb"|(?P<naive_best_fit>  pointer=|Free pointer=)"
)


@dataclass(frozen=True)
class PlainEvent:
    """One event; offsets are those of the block's text.  ``thread`` and ``time_us`` are -1 where no header stands before it.

    ``size`` is -1 where another line should give it and none does, and 0 where none does; ``stream`` is that of the line itself.
    """

    kind: Kind
    size: int
    addr: int
    line_start: int
    at: int
    thread: int
    time_us: int
    requested: int = -1
    owner: str | None = None
    layer: Layer = Layer.AUTO_GROWTH
    stream: int = -1


@dataclass
class PlainBlock:
    """All that stands in one block of lines; lines of other layers that cannot be read come with their layer."""

    events: list[PlainEvent] = field(default_factory=list)
    malformed: list[int] = field(default_factory=list)
    malformed_of: list[tuple[int, Layer]] = field(default_factory=list)


def header_before(text: bytes) -> re.Match[bytes] | None:
    """The glog header that ends right at the end of ``text``, colours ignored."""
    return _HEADER_BEFORE.search(ANSI.sub(b"", text[-400:]))


@dataclass
class _State:
    """What earlier lines say of later ones, by thread: requests that wait, owners; and the thread of the last header."""

    pending: dict[int, tuple[int, int]] = field(default_factory=dict)
    asked: dict[int, int] = field(default_factory=dict)
    sizes: dict[int, tuple[int, bool]] = field(default_factory=dict)
    owners: dict[int, str] = field(default_factory=dict)
    thread: int = -1


def read_plain(text: bytes, owners: Sequence[Pattern] = (), *, layers: bool = False) -> PlainBlock:
    """Read a whole text that begins at a line start: the auto-growth layer, or with ``layers`` all of them.

    Requests are joined as the design says: an ALLOC takes the request of the last ``Allocate … aligned to`` line of its
    thread, if nothing of that thread was allocated since and the aligned size is the block's; a stream-safe ALLOC that of the last ``Try
    allocate`` line, and an ALLOC of naive best fit its size and its place of the last ``Allocate N bytes on`` line.  An event's owner is what the last
    context line of its thread before it names.
    """
    found, state = PlainBlock(), _State()
    start = 0
    for line in text.split(b"\n"):
        named = _contexts(line, owners if start < len(text) else (), state)
        _read_line(line, start, found, state, named, layers)
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


_OF_LAYERS = (*(form for form in paddle_layers.FORMATS if form is not paddle_layers.STREAM_DEFERRED),)


def _read_line(
    line: bytes, start: int, found: PlainBlock, state: _State, named: list[tuple[int, int, str]], layers: bool
) -> None:
    formats = (paddle.BLOCK, paddle.CHUNK_NEW, paddle.CHUNK_BACK, paddle.REQUEST, *(_OF_LAYERS if layers else ()))
    matches: list[tuple[int, LineFormat, re.Match[bytes]]] = [
        (m.start(), f, m) for f in formats for m in f.find_all(line)
    ]
    spans = []
    doubtful = False
    for at, form, match in sorted(matches, key=lambda item: item[0]):
        header = header_before(line[:at])
        thread = int(header["thread"]) if header else -1
        time_us = microseconds((header["year"] or b"") + header["date"], header["time"]) if header else -1
        here = PlainEvent(Kind.ALLOC, 0, 0, start, start + at, thread, time_us)
        event = _event(form, match, here, state) if form in _OF_LAYERS else _auto_growth_event(form, match, here, state)
        doubtful |= event is None and form.layer == "auto_growth" and form is not paddle.REQUEST
        if event is None:
            continue
        spans.append(match.span())
        while named and named[0][0] < at:
            _, of, name = named.pop(0)
            state.owners[of] = name
        found.events.append(replace(event, owner=state.owners.get(thread)))
    state.owners.update((of, name) for _, of, name in named)
    for alike in LOOK_ALIKE.finditer(line):
        inside = any(lo <= alike.start() < hi for lo, hi in spans)
        doubtful |= not inside and not (alike["word"] and TRAP.match(line, alike.start()))
    if doubtful:
        found.malformed.append(start)
    for alike in LOOK_ALIKE_OTHERS.finditer(line) if layers else ():
        if not any(lo <= alike.start() < hi for lo, hi in spans):
            found.malformed_of.append((start, Layer[(alike.lastgroup or "").upper()]))


def _auto_growth_event(form: LineFormat, match: re.Match[bytes], here: PlainEvent, state: _State) -> PlainEvent | None:
    if form is paddle.REQUEST:
        if int(match["requested"]) <= MAX_SIZE:
            state.pending[here.thread] = int(match["requested"]), int(match["aligned"])
        return None
    size = int(match["size"])
    if size > MAX_SIZE:
        return None
    kind = form.kinds[match["kind"].decode()] if "kind" in match.groupdict() else form.kinds[""]
    addr = int(match["addr"] or b"0", 16) if "addr" in match.groupdict() else 0
    wanted, aligned = state.pending.pop(here.thread, (-1, -1)) if kind == Kind.ALLOC else (-1, -1)
    return replace(here, kind=kind, size=size, addr=addr, requested=wanted if aligned == size else -1)


def _event(form: LineFormat, match: re.Match[bytes], here: PlainEvent, state: _State) -> PlainEvent | None:
    """The event of a line of another layer; ``None`` where it is none, but may tell something of a later one."""
    groups = match.groupdict()
    if form in paddle_layers.RARE:
        rare = paddle_layers.read_rare(form, match)
        return None if rare is None else replace(here, **structs.asdict(rare))
    if form is STAT_LINE:
        change = int(match["change"])
        kind = Kind((Kind.RESERVE if match["what"] == b"Reserved" else Kind.ALLOC) + (change < 0))
        layer = Layer.STATS if match["where"] == b"Device" else Layer.HOST_STATS
        # A line with a peak repeats the one before it.
        return replace(here, kind=kind, size=abs(change), layer=layer) if match["peak"] is None else None
    size = int(groups.get("size") or groups.get("requested") or 0)
    if size > MAX_SIZE:
        return None
    if form is paddle_layers.STREAM_REQUEST:
        state.asked[here.thread] = size
    elif form is paddle_layers.NAIVE_SIZE:
        state.sizes[here.thread] = size, bool(match["host"])
    else:
        layer, requested, host = Layer[form.layer.upper()], -1, bool(groups.get("host"))
        if form is paddle_layers.STREAM_ALLOC:
            requested = state.asked.pop(here.thread, -1)
        elif form is paddle_layers.NAIVE_POINTER:
            size, host = state.sizes.pop(here.thread, (-1, False))
        return replace(
            here,
            kind=form.kinds[""],
            size=size,
            addr=int(match["addr"], 16),
            requested=requested,
            layer=Layer.HOST_NAIVE_BEST_FIT if host else layer,
            stream=int(groups.get("stream") or b"-1", 16),
        )
    return None


def rows_of(events: Iterable[PlainEvent]) -> list[tuple[int, ...]]:
    """Events as :func:`rows` has them."""
    return [(e.kind, e.size, e.addr, e.line_start, e.thread, e.time_us, e.requested, e.stream) for e in events]


def rows(log: Log) -> list[tuple[int, ...]]:
    """Kind, size, address, offset, thread, time, request and stream of each event of a log, -1 where it has no such column."""
    columns = (log.kind, log.size, log.addr, log.offset, log.thread, log.time_us, log.requested, log.stream)
    return list(zip(*([-1] * len(log) if one is None else one.tolist() for one in columns), strict=True))


def choose_plain(text: bytes, wanted: Layer | None) -> tuple[list[PlainEvent], int]:
    """The events of the layers that are believed, with the sizes and streams that other lines give; and the lines that cannot be read."""
    plain = read_plain(text, layers=True)
    counts = np.zeros((len(Layer), 2), np.int64)
    for event in plain.events:
        counts[event.layer, int(event.kind > Kind.FREE)] += 1
    blocks, chunks = choose(counts, wanted)
    live: dict[int, tuple[int, int]] = {}
    found: list[PlainEvent] = []
    newest: dict[int, int | None] = {}
    malformed = len(plain.malformed)
    for event in plain.events:
        mine = event.layer == (blocks if event.kind <= Kind.FREE else chunks)
        malformed += mine and event.size < 0
        if mine and event.size >= 0:
            found.append(replace(event, stream=-1))
            if event.kind == Kind.ALLOC:
                newest[event.addr] = len(found) - 1
                live[event.addr] = event.size, len(found) - 1
        # The stream of the newest ALLOC of the address, where no other event of it stands between.
        told = event.kind == Kind.ALLOC and event.stream >= 0
        told &= blocks != Layer.AUTO_GROWTH or event.layer == Layer.STREAM_SAFE
        if told and (at := newest.get(event.addr)) is not None:
            found[at] = replace(found[at], stream=event.stream)
        if mine and event.kind == Kind.FREE:
            newest[event.addr] = None
            size, alloc = live.pop(event.addr, (0, -1))
            size = size if blocks in SIZELESS else event.size
            found[-1] = replace(found[-1], size=size, stream=found[alloc].stream if alloc >= 0 else -1)
    family = "" if blocks is None else blocks.family
    return found, malformed + len({line for line, layer in plain.malformed_of if layer.label == family})


def microseconds(date: bytes, time: bytes) -> int:
    """Microseconds of a glog stamp: since the start of the year (``mmdd``) or since 1970 (``yyyymmdd``); -1 for a month or day that does not exist."""
    month, day = int(date[-4:-2]), int(date[-2:])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return -1
    # A stamp without a year may be of a leap year, as 2000 is.  The calendar repeats after 400 years of 146,097 days.
    year, first = (int(date[:4]), 1970) if len(date) == 8 else (2000, 2000)
    alike = 2000 + year % 400
    days = (dt.date(alike, month, 1) - dt.date(first, 1, 1)).days + (year - alike) // 400 * 146_097 + day - 1
    hours, minutes, seconds = int(time[0:2]), int(time[3:5]), int(time[6:8])
    return ((days * 24 + hours) * 60 + minutes) * 60_000_000 + seconds * 1_000_000 + int(time[9:15])
