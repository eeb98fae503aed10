"""The lines of Paddle's other allocator layers in one block, read together.

:mod:`memlens.inputs.paddle.other_events` defines them; :func:`memlens.inputs.paddle.plain.read_plain` is the plain twin.  This costs a second look at the
block, taken only where the layers may be needed: where the block holds no event of the auto-growth layer, or the user asks for another
layer, or streams can be joined.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens.facts import Kind
from memlens.inputs.paddle.events import MAX_SIZE
from memlens.inputs.paddle.layers import Layer
from memlens.inputs.paddle.other_events import RARE, read_rare
from memlens.inputs.paddle.scan import Scanner
from memlens.inputs.paddle.swar import as_word, decimal_after, decimal_before, gather, hexadecimal_after

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.facts import StatLines

    Block = NDArray[np.uint8]
    Positions = NDArray[np.int64]

__all__ = ["LayerEvents", "LayerLines", "Streams", "in_order", "read_layers", "read_streams", "stat_events"]

_MOST_DIGITS = 15
_MOST_STREAM_DIGITS = 15
#: Longer than any text that :data:`RARE` matches.
_REACH = 256


class _Text(IntEnum):
    """The texts that are scanned for."""

    ALLOCATE = 1
    TRY_ALLOCATE = 2
    TRY_FREE = 3
    DEFERRED = 4
    POINTER = 5
    RARE = 6


_SCANNER = Scanner(
    {
        _Text.ALLOCATE: (b"Allocate",),
        _Text.TRY_ALLOCATE: (b"Try allo",),
        _Text.TRY_FREE: (b"Try free",),
        _Text.DEFERRED: (b"Put into",),
        _Text.POINTER: (b"pointer=",),
        _Text.RARE: (b"[cudaMal", b"[cudaFre", b"MemDbg m", b"FreeIdle"),
    },
    # P and T are alike but for one bit.
    ((0xFF, ord("A")), (0xFB, ord("P")), (0xFF, ord("p")), (0xFF, ord("[")), (0xFF, ord("M")), (0xFF, ord("F"))),
)
_MASK2, _MASK4, _MASK5, _MASK6 = (np.uint64((1 << 8 * count) - 1) for count in (2, 4, 5, 6))
#: As in the regular expressions; the characters beyond the first eight are looked at in a second word.
_HOST_PLACES = (b"Place(cpu", b"Place(gpu_pinned", b"Place(xpu_pinned", b"CPUPlace", b"CUDAPinnedPlace")


class LayerEvents(NamedTuple):
    """Events in the order of the file: where their text starts, int64; ``kind`` int8, ``size`` int64, ``addr`` uint64, ``layer`` int8.

    A size is -1 where another line gives it (ALLOCs of naive best fit), and 0 where none does (FREEs that take it from their ALLOC).
    """

    start: Positions
    kind: NDArray[np.int8]
    size: NDArray[np.int64]
    addr: NDArray[np.uint64]
    layer: NDArray[np.int8]

    def where(self, rows: NDArray[np.bool_]) -> LayerEvents:
        """Some of the events."""
        return LayerEvents(self.start[rows], self.kind[rows], self.size[rows], self.addr[rows], self.layer[rows])


class Streams(NamedTuple):
    """ALLOC lines that name a stream: where their text starts, the block's address (uint64) and the stream (int64)."""

    at: Positions
    addr: NDArray[np.uint64]
    stream: NDArray[np.int64]


class LayerLines(NamedTuple):
    """What one block holds of the other layers, all by rising position.

    Attributes:
        events: Their events, without those of statistics.
        requests: ``Try allocate`` lines: where they start, and their bytes.
        sizes: ``Allocate N bytes on`` lines: where they start, and twice their bytes, one more where the place is the host.
        streams: The ALLOCs that name their stream.
        broken: Texts that look like an event and cannot be read, and their layer (int8).
        deferred: Where the first free is put off, or ``None``.
    """

    events: LayerEvents
    requests: tuple[Positions, NDArray[np.int64]]
    sizes: tuple[Positions, NDArray[np.int64]]
    streams: Streams
    broken: tuple[Positions, NDArray[np.int8]]
    deferred: int | None


def read_layers(block: Block, begin: int, end: int) -> LayerLines:
    """Read the lines between two positions of a block; see :func:`memlens.inputs.paddle.decode.decode`."""
    positions, classes, _ = _SCANNER.find(block, begin, end)
    at = {text: positions.compress(classes == text) for text in _Text}
    allocs, streams, sizes, bad_allocs = _read_allocates(block, at[_Text.ALLOCATE])
    frees, bad_frees = _read_frees(block, at[_Text.TRY_FREE])
    pointers, pointer_frees, bad_pointers = _read_pointers(block, at[_Text.POINTER])
    rare, rare_streams = _read_rare(block, at[_Text.RARE])
    events = in_order([allocs, frees, pointers, pointer_frees, rare])
    bad_safe = np.concatenate((bad_allocs, bad_frees))
    broken = np.concatenate((bad_safe, bad_pointers))
    layers = np.repeat(np.array([Layer.STREAM_SAFE, Layer.NAIVE_BEST_FIT], np.int8), [len(bad_safe), len(bad_pointers)])
    order = broken.argsort(kind="stable")
    return LayerLines(
        events,
        _read_requests(block, at[_Text.TRY_ALLOCATE]),
        sizes,
        Streams(*(np.concatenate(pair) for pair in zip(streams, rare_streams, strict=True))),
        (broken[order], layers[order]),
        _first_deferred(block, at[_Text.DEFERRED]),
    )


def read_streams(block: Block, commas: Positions) -> Streams:
    """The streams that stream-safe ALLOC lines name, where their ``, stream`` stands at ``commas``; without a second look at the block."""
    stream = _stream(block, commas - 2)
    ends, stream = commas[stream >= 0] - 2, stream[stream >= 0]
    other = ~_HEX[gather(block, ends - 24, 24).view(np.uint8)].reshape(-1, 24)[:, ::-1]
    digits = other.argmax(axis=1)  # of the address, backwards; "0x" stops them
    addr, _, fine = _address(block, ends - digits - 2)
    words = gather(block, ends - digits - 20, 24)
    fine &= (words[:, 0] == as_word(b" bytes a")) & (words[:, 1] == as_word(b"t addres"))
    fine &= (words[:, 2] & _MASK2) == as_word(b"s ")
    size, size_digits = decimal_before(block, ends - digits - 20)
    fine &= (size_digits >= 1) & (size_digits <= _MOST_DIGITS) & (size <= MAX_SIZE)
    start = ends - digits - 20 - size_digits - 9
    fine &= (gather(block, start) == as_word(b"Allocate")) & (block[start + 8] == ord(" "))
    return Streams(_thread_start(block, start[fine]), addr[fine], stream[fine])


def stat_events(lines: StatLines | None, starts: Positions) -> LayerEvents:
    """The events that lines of memory statistics tell: how many bytes, but not of which block.

    A line that names a peak repeats the one before it.
    """
    if lines is None:
        return _events(starts[:0], Kind.ALLOC, 0, 0, Layer.STATS)
    once = lines.peak < 0
    change = lines.change[once]
    kind = np.where(lines.reserved[once], Kind.RESERVE, Kind.ALLOC) + (change < 0)
    layer = np.where(lines.device[once] < 0, Layer.HOST_STATS, Layer.STATS)
    return _events(starts[once], kind, np.abs(change), 0, layer)


def _events(start: Positions, kind: object, size: object, addr: object, layer: object) -> LayerEvents:
    """Events of columns, or of one value for all."""
    columns = ((kind, np.int8), (size, np.int64), (addr, np.uint64), (layer, np.int8))
    return LayerEvents(
        start,
        *(np.broadcast_to(np.asarray(value, dtype), start.shape) for value, dtype in columns),
    )


def in_order(parts: list[LayerEvents]) -> LayerEvents:
    """The events of several parts in the order of the file."""
    parts = [part for part in parts if len(part.start)] or parts[:1]
    order = np.concatenate([part.start for part in parts]).argsort(kind="stable")
    return LayerEvents(*(np.concatenate(columns)[order] for columns in zip(*parts, strict=True)))


def _read_allocates(
    block: Block, at: Positions
) -> tuple[LayerEvents, Streams, tuple[Positions, NDArray[np.int64]], Positions]:
    """Of ``Allocate``: stream-safe ALLOCs, their streams, sizes of naive best fit, and what only looks like such an ALLOC."""
    at = at.compress(block[at + 8] == ord(" "))
    size, digits = decimal_after(block, at + 9)
    tail = at + 9 + digits
    words = gather(block, tail, 24)
    fine = (digits >= 1) & (digits <= _MOST_DIGITS) & (size <= MAX_SIZE)
    alike = (words[:, 0] == as_word(b" bytes a")) & (words[:, 1] == as_word(b"t addres"))
    alike &= ((words[:, 2] & _MASK2) == as_word(b"s ")) & (digits >= 1)
    addr, hex_digits, whole = _address(block, tail + 18)
    read = alike & fine & whole
    start, addr, size_read = _thread_start(block, at[read]), addr[read], size[read]
    stream = _stream(block, (tail + 20 + hex_digits)[read])
    named = stream >= 0
    on = fine & (words[:, 0] == as_word(b" bytes o")) & ((words[:, 1] & _MASK2) == as_word(b"n "))
    host, placed = _place(block, tail[on] + 10)
    sizes = at[on][placed], (size[on] * 2 + host)[placed]
    return (
        _events(start, Kind.ALLOC, size_read, addr, Layer.STREAM_SAFE),
        Streams(start[named], addr[named], stream[named]),
        sizes,
        at[alike & ~read],
    )


def _thread_start(block: Block, at: Positions) -> Positions:
    """Where the ``Thread N`` and a blank begin that stand right before some places; the places themselves where none does."""
    _, digits = decimal_before(block, at - 1)
    start = at - 8 - digits
    named = (block[at - 1] == ord(" ")) & (digits >= 1) & (digits <= _MOST_DIGITS)
    named &= (gather(block, start - 1) >> np.uint64(8)) == as_word(b"Thread ")
    return np.where(named, start, at)


def _address(block: Block, at: Positions) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.bool_]]:
    """The addresses that begin at some places, ``0x`` and all: values, digits, and whether each is well formed."""
    addr, digits = hexadecimal_after(block, at + 2)
    fine = ((gather(block, at) & _MASK2) == as_word(b"0x")) & (digits >= 1) & (digits <= 16)
    return addr, digits, fine


def _stream(block: Block, at: Positions) -> NDArray[np.int64]:
    """The streams that ``  , stream: `` names at some places, int64; -1 where it does not."""
    words = gather(block, at, 16)
    named = (words[:, 0] == as_word(b"  , stre")) & ((words[:, 1] & _MASK4) == as_word(b"am: "))
    start = at + 12
    value, digits = hexadecimal_after(block, start + 2)
    beyond = block[start + 2 + np.minimum(digits, 16)]
    whole = ((gather(block, start) & _MASK2) == as_word(b"0x")) & (digits >= 1) & (digits <= _MOST_STREAM_DIGITS)
    whole &= beyond != ord("x")
    after = block[start + 1]
    null = (block[start] == ord("0")) & ~_HEX[after] & (after != ord("x"))
    return np.where(named & whole, value.view(np.int64), np.where(named & null, 0, -1))


_HEX = np.zeros(256, np.bool_)
_HEX[list(b"0123456789abcdef")] = True


def _place(block: Block, at: Positions) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Of the places named at some positions, which are of the host; and which begin as names of places do."""
    host = np.zeros(len(at), np.bool_)
    words = gather(block, at, 16)
    for text in _HOST_PLACES:
        mask = np.uint64((1 << 8 * (len(text) - 8)) - 1)
        host |= (words[:, 0] == as_word(text[:8])) & ((words[:, 1] & mask) == as_word(text[8:]))
    return host, (block[at] - np.uint8(ord("A"))) < 26


def _read_frees(block: Block, at: Positions) -> tuple[LayerEvents, Positions]:
    """The FREEs of ``Try free allocation``, and what only looks like one."""
    words = gather(block, at, 24)
    at = at.compress((words[:, 1] == as_word(b" allocat")) & ((words[:, 2] & _MASK4) == as_word(b"ion ")))
    addr, _, fine = _address(block, at + 20)
    return _events(at[fine], Kind.FREE, 0, addr[fine], Layer.STREAM_SAFE), at[~fine]


def _read_requests(block: Block, at: Positions) -> tuple[Positions, NDArray[np.int64]]:
    """``Try allocate N bytes``: where each starts, and N."""
    at = at.compress((gather(block, at + 8) & _MASK5) == as_word(b"cate "))
    size, digits = decimal_after(block, at + 13)
    fine = (digits >= 1) & (digits <= _MOST_DIGITS) & (size <= MAX_SIZE)
    fine &= (gather(block, at + 13 + digits) & _MASK6) == as_word(b" bytes")
    return at[fine], size[fine]


def _first_deferred(block: Block, at: Positions) -> int | None:
    words = gather(block, at, 32)
    fine = (
        (words[:, 1] == as_word(b" unfreed"))
        & (words[:, 2] == as_word(b"_allocat"))
        & (words[:, 3] == as_word(b"ion list"))
    )
    return int(at[fine.argmax()]) if fine.any() else None


def _read_pointers(block: Block, at: Positions) -> tuple[LayerEvents, LayerEvents, Positions]:
    """Of ``pointer=``: ALLOCs (their size stands in another line), FREEs, and what only looks like one of them."""
    before = gather(block, at - 8)
    blanks = (before >> np.uint64(48)) == as_word(b"  ")
    free = (before >> np.uint64(24)) == as_word(b"Free ")
    at, blanks = at[blanks | free], blanks[blanks | free]
    addr, digits, fine = _address(block, at + 8)
    tail = at + 10 + np.minimum(digits, 16)
    host, placed = _place(block, tail + 4)
    fine &= blanks | (((gather(block, tail) & _MASK4) == as_word(b" on ")) & placed)
    allocs, frees = fine & blanks, fine & ~blanks
    start = at - np.where(blanks, 2, 5)
    return (
        _events(start[allocs], Kind.ALLOC, -1, addr[allocs], Layer.NAIVE_BEST_FIT),
        _events(
            start[frees],
            Kind.FREE,
            0,
            addr[frees],
            np.where(host, Layer.HOST_NAIVE_BEST_FIT, Layer.NAIVE_BEST_FIT)[frees],
        ),
        start[~fine],
    )


def _read_rare(block: Block, at: Positions) -> tuple[LayerEvents, Streams]:
    """The lines of which there are few, one by one, by their regular expressions."""
    found = []
    for start in at.tolist():
        text = block[start : start + _REACH].tobytes().partition(b"\n")[0]
        for form in RARE:
            match = form.pattern.match(text)
            event = read_rare(form, match) if match is not None else None
            if event is not None:
                found.append((start, event))
    rows = np.array([(start, e.kind, e.size, e.layer, e.stream) for start, e in found], np.int64).reshape(-1, 5)
    addr = np.array([event.addr for _, event in found], np.uint64)
    named = (rows[:, 4] >= 0) & (rows[:, 1] == Kind.ALLOC)
    return (
        _events(rows[:, 0], rows[:, 1], rows[:, 2], addr, rows[:, 3]),
        Streams(rows[named, 0], addr[named], rows[named, 4]),
    )
