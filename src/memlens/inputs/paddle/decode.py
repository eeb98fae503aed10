"""The fast way to read a block: the formats of :mod:`memlens.inputs.paddle.events`, found and read for all lines together.

The regular expressions are the definition; this gives the same as :func:`memlens.inputs.paddle.plain.read_plain`, and a property
test over valid, broken and interleaved lines holds it to that.  Positions count from the start of the padded block.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens.facts import Kind
from memlens.inputs.paddle import messages
from memlens.inputs.paddle.context import Contexts, find_contexts, merge
from memlens.inputs.paddle.events import MAX_SIZE
from memlens.inputs.paddle.layer_block import LayerPart, join_layers, look_at_layers
from memlens.inputs.paddle.nearest import last_thread, nearest_threads
from memlens.inputs.paddle.owners import Owners, join_owners
from memlens.inputs.paddle.requests import Requests, join
from memlens.inputs.paddle.scan import Scanner
from memlens.inputs.paddle.stat_lines import read_stat_lines
from memlens.inputs.paddle.swar import (
    as_word,
    decimal_after,
    decimal_from,
    decimal_in,
    gather,
    hexadecimal_after,
    hexadecimal_in,
)
from memlens.scanner.bytesearch import line_start_before

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.facts import StatLines
    from memlens.inputs.paddle.headers import HeaderReader
    from memlens.inputs.paddle.layers import Layer

    Block = NDArray[np.uint8]
    Positions = NDArray[np.int64]

__all__ = ["Decoded", "decode"]

#: As many line starts are looked up one by one before all line ends of a block are looked for.
_FEW = 32
#: As many lines of the wordings that every operator prints are read in one block.
_MOST_FREQUENT = 256
_MOST_DIGITS = 15  # of a size, as in the regular expressions


class _Text(IntEnum):
    """The texts that are scanned for, by the first characters that tell them from all others."""

    PTR = 1
    ALLOC = 2
    FREE = 3
    CHUNK_BACK = 4
    CHUNK_NEW = 5
    ALIGNED = 6
    UPDATE = 7
    STREAM = 8
    POINTER = 9
    MESSAGE = 10
    CALL = 11
    NODE = 12
    INSTRUCTION = 13
    INPUTS = 14


_SCANNER = Scanner(
    {
        _Text.PTR: (b", ptr = ",),
        _Text.ALLOC: (b"Alloc ",),
        _Text.FREE: tuple(b"Free %d" % digit for digit in range(10)),
        _Text.CHUNK_BACK: (b"Free chu",),
        _Text.CHUNK_NEW: (b"Not foun",),
        _Text.ALIGNED: (b", aligne",),
        _Text.UPDATE: (b", after ",),
        _Text.STREAM: (b", stream",),
        _Text.POINTER: (b"Free poi",),
        _Text.MESSAGE: tuple({text[:8] for text in messages.LITERALS}),
        _Text.CALL: (b"AD_API", b"AD API"),
        _Text.NODE: (b"Node: ",),
        _Text.INSTRUCTION: (b"OP id:",),
        _Text.INPUTS: (b", inputs",),
    }
)
_BYTES = as_word(b" bytes, ")
_MASK5, _MASK3 = (np.uint64((1 << 8 * count) - 1) for count in (5, 3))
_MASK7 = np.uint64((1 << 56) - 1)


@dataclass(frozen=True)
class Decoded:
    """What one block holds; offsets are absolute byte offsets of the input.

    ``kind`` int8, ``size`` int64, ``addr`` uint64, ``offset`` int64 (of the line), ``thread`` int64, ``time_us`` int64 or
    ``None``: one entry an event in file order.  ``malformed`` and ``message_lines`` hold offsets of lines.  All events are of the
    auto-growth layer unless ``layers`` says more.  ``naive_best_fit`` counts that layer's lines of FREEs.
    """

    line_ends: int
    kind: NDArray[np.int8]
    size: NDArray[np.int64]
    addr: NDArray[np.uint64]
    offset: NDArray[np.int64]
    thread: NDArray[np.int64]
    time_us: NDArray[np.int64] | None
    requests: Requests
    owners: Owners
    malformed: NDArray[np.int64]
    message_lines: NDArray[np.int64]
    stat_lines: StatLines | None
    naive_best_fit: int
    prealloc: int | None
    no_pointers: int | None
    layers: LayerPart | None = None

    def first_malformed(self, most: int) -> list[int]:
        """Byte offsets of the first lines that cannot be read, rising: so many of this layer, and as many of the others."""
        others = self.malformed[:0] if self.layers is None else self.layers.malformed[0]
        return sorted({*self.malformed[:most].tolist(), *np.sort(others)[:most].tolist()})


class _Found(NamedTuple):
    """Events or requests of one shape: where their text starts, and their columns."""

    start: Positions
    kind: NDArray[np.int8]
    size: NDArray[np.int64]
    addr: NDArray[np.uint64]


def decode(
    block: Block,
    begin: int,
    end: int,
    offset: int,
    headers: HeaderReader,
    *,
    times: bool = False,
    marked: Contexts | None = None,
    layer: Layer | None = None,
) -> Decoded:
    """Read the lines between two positions of a block.

    Args:
        block: uint8, with at least :data:`memlens.inputs.blocks.PAD` bytes of line ends before ``begin`` and after ``end``.
        begin: Position of the first byte of the first line.
        end: Position after the last line.
        offset: Byte offset in the input of the byte at ``begin``.
        headers: What has been learned of the headers of this log.
        times: Read the time stamps too.
        marked: Context lines beside those of :mod:`memlens.inputs.paddle.context`.
        layer: Read the blocks of this layer; ``None`` reads those of the other layers only where the block has none of the auto-growth
            layer.
    """
    positions, classes, line_ends = _SCANNER.find(block, begin, end)
    counts = np.bincount(classes, minlength=len(_Text) + 1)
    at = {text: positions.compress(classes == text) if counts[text] else positions[:0] for text in _Text}
    blocks, orphans = _read_blocks(block, at[_Text.PTR])
    new, bad_new, no_pointers = _read_new_chunks(block, at[_Text.CHUNK_NEW])
    back, bad_back = _read_chunks_back(block, at[_Text.CHUNK_BACK])
    events = _in_order(blocks, new, back)
    unread = _unread_keywords(block, at[_Text.ALLOC], at[_Text.FREE], blocks.start)
    malformed = np.concatenate((orphans, bad_new, bad_back, unread))
    wanted = _read_requests(block, at[_Text.ALIGNED])
    to_input = offset - begin
    stat_lines, stat_starts = read_stat_lines(block, at[_Text.UPDATE], to_input)
    others = look_at_layers(
        block, begin, end, events, (stat_lines, stat_starts), len(blocks.start), at[_Text.STREAM], layer
    )
    if others is not None:
        events = _Found(*others.events[:4])
    n = len(events.start)
    spoken = (events.start, wanted.start) if others is None else (events.start, wanted.start, *others.spoken)
    stamps = headers.read(block, np.concatenate(spoken), times=times)
    lines = _Lines(block, begin, end)
    starts = lines.of_events(events.start, stamps.begin[:n])
    part = None
    if others is not None:
        part = join_layers(others, stamps.thread, len(wanted.start), lines.of, to_input)
        events = _Found(events.start, *part.columns)
    allocs = np.flatnonzero(events.kind == Kind.ALLOC if part is None else part.auto_growth_allocs)
    requests = join(
        allocs,
        events.start[allocs],
        stamps.thread[:n][allocs],
        events.size[allocs],
        wanted.start,
        stamps.thread[n : n + len(wanted.start)],
        wanted.size,
        wanted.addr.view(np.int64),
    )
    contexts = find_contexts(block, at[_Text.CALL], at[_Text.NODE], at[_Text.INSTRUCTION], at[_Text.INPUTS])
    if marked is not None:
        contexts = merge(contexts, marked)
    owners = join_owners(
        block,
        events.start,
        stamps.thread[:n],
        contexts,
        nearest_threads(block, begin, contexts.start),
        last_thread(block, begin, end),
    )
    prealloc = at[_Text.ALLOC].compress(
        block[at[_Text.ALLOC] + 6] == ord("s")
    )  # PreAlloc small_pool_pre_alloc_in_mb = …
    prealloc = prealloc.compress(gather(block, prealloc - 3) == as_word(b"PreAlloc"))
    return Decoded(
        line_ends=line_ends,
        kind=events.kind,
        size=events.size,
        addr=events.addr,
        offset=starts + to_input,
        thread=stamps.thread[:n],
        time_us=None if stamps.time_us is None else stamps.time_us[:n],
        requests=requests,
        owners=owners,
        malformed=np.unique(lines.of(malformed)) + to_input,
        message_lines=np.unique(lines.of(_messages(block, at[_Text.MESSAGE]))) + to_input,
        stat_lines=stat_lines,
        naive_best_fit=len(at[_Text.POINTER]),
        prealloc=int(prealloc[0]) + to_input if len(prealloc) else None,
        no_pointers=None if no_pointers is None else no_pointers + to_input,
        layers=part,
    )


def _read_blocks(block: Block, commas: Positions) -> tuple[_Found, Positions]:
    """The ALLOC and FREE events whose ``, ptr`` stands at ``commas``; and where such a text belongs to no event."""
    # uint64 (n, 8), from 22 before the comma: digits, digits, " bytes, ", "ptr = 0x", then the address.
    around = gather(block, commas - 22, 64)
    whole = (around[:, 2] == _BYTES) & (around[:, 3] == as_word(b"ptr = 0x"))
    if not whole.all():
        commas, around = commas[whole], around[whole]
    size, digits = decimal_in(around[:, 1], around[:, 0])
    addr, hex_digits = hexadecimal_in(around[:, 4], around[:, 5], around[:, 6])
    first_digit = commas - 6 - digits
    before = gather(block, first_digit - 8)
    alloc = (before >> np.uint64(16)) == as_word(b"Alloc ")
    free = (before >> np.uint64(24)) == as_word(b"Free ")
    fine = (alloc | free) & (digits >= 1) & (digits <= _MOST_DIGITS) & (hex_digits >= 1) & (hex_digits <= 16)
    fine &= size <= MAX_SIZE
    start = first_digit - np.where(alloc, 6, 5)
    kind = free.astype(np.int8)  # Kind.ALLOC is 0 and Kind.FREE is 1
    if fine.all():
        return _Found(start, kind, size, addr), commas[:0]
    return _Found(start[fine], kind[fine], size[fine], addr[fine]), commas[~fine] - 6


def _read_new_chunks(block: Block, at: Positions) -> tuple[_Found, Positions, int | None]:
    """The RESERVE events; lines that only look like one; and where the first one without an address stands."""
    at = at.compress(
        (gather(block, at + 8) == as_word(b"d and re"))
        & (gather(block, at + 16) == as_word(b"allocate"))
        & (block[at + 24] == 0x20)
    )
    size, digits = decimal_after(block, at + 25)
    tail = at + 25 + np.minimum(digits, _MOST_DIGITS + 1)
    addr, hex_digits = hexadecimal_after(block, tail + 3)
    with_addr = (gather(block, tail) & _MASK3) == as_word(b"(0x")
    with_addr &= (hex_digits >= 1) & (hex_digits <= 16) & (block[tail + 3 + np.minimum(hex_digits, 16)] == ord(")"))
    bare = (gather(block, tail) == as_word(b", and re")) & (gather(block, tail + 6) == as_word(b"remainin"))
    bare &= block[tail + 14] == ord("g")
    fine = (with_addr | bare) & (digits >= 1) & (digits <= _MOST_DIGITS) & (size <= MAX_SIZE)
    no_pointers = np.flatnonzero(fine & bare)
    addr = np.where(with_addr, addr, np.uint64(0))
    found = _Found(at[fine], np.full(int(fine.sum()), Kind.RESERVE, np.int8), size[fine], addr[fine])
    return found, at[~fine], int(at[no_pointers[0]]) if len(no_pointers) else None


def _read_chunks_back(block: Block, at: Positions) -> tuple[_Found, Positions]:
    """The RELEASE events among ``Free chu…`` texts; and lines that only look like one."""
    at = at.compress(
        (gather(block, at + 8) == as_word(b"nk with ")) & ((gather(block, at + 16) & _MASK5) == as_word(b"size "))
    )
    size, digits = decimal_after(block, at + 21)
    fine = (digits >= 1) & (digits <= _MOST_DIGITS) & (size <= MAX_SIZE)
    kind = np.full(int(fine.sum()), Kind.RELEASE, np.int8)
    return _Found(at[fine], kind, size[fine], np.zeros(len(kind), np.uint64)), at[~fine]


def _in_order(blocks: _Found, *chunks: _Found) -> _Found:
    """Events of several shapes in the order of the file."""
    parts = [blocks, *(part for part in chunks if len(part.start))]
    if len(parts) == 1:
        return blocks
    order = np.concatenate([part.start for part in parts]).argsort(kind="stable")
    return _Found(
        np.concatenate([part.start for part in parts])[order],
        np.concatenate([part.kind for part in parts])[order],
        np.concatenate([part.size for part in parts])[order],
        np.concatenate([part.addr for part in parts])[order],
    )


def _unread_keywords(block: Block, allocs: Positions, frees: Positions, read: Positions) -> Positions:
    """Where ``Alloc <digit>`` or ``Free <digit>`` begins no event and no line of another allocator."""
    allocs = allocs.compress(_is_digit(block[allocs + 6]))
    if len(allocs) + len(frees) == len(read):
        return allocs[:0]  # every event read begins with one of them
    keywords = np.concatenate((allocs, frees))
    unread = ~np.isin(keywords, read)
    number = (keywords + np.repeat([6, 5], [len(allocs), len(frees)]))[unread]
    keywords = keywords[unread]
    _, digits = decimal_after(block, number)
    tail = gather(block, number + digits)
    trap = (tail == as_word(b" bytes a")) | (tail == as_word(b" bytes o")) | ((tail & _MASK7) == as_word(b" bytes."))
    unexplained: Positions = keywords[~(trap & (digits <= _MOST_DIGITS))]
    return unexplained


def _is_digit(characters: NDArray[np.uint8]) -> NDArray[np.bool_]:
    return (characters - np.uint8(0x30)) <= 9


def _read_requests(block: Block, commas: Positions) -> _Found:
    """The ``Allocate R bytes, aligned to A`` lines: ``size`` is R, and ``addr`` holds A."""
    # uint64 (n, 8), from 22 before the comma: digits, digits, " bytes, ", "aligned ", "to " and what follows.
    around = gather(block, commas - 22, 64)
    whole = (around[:, 2] == _BYTES) & (around[:, 3] == as_word(b"aligned "))
    whole &= (around[:, 4] & _MASK3) == as_word(b"to ")
    if not whole.all():
        commas, around = commas[whole], around[whole]
    requested, digits = decimal_in(around[:, 1], around[:, 0])
    first, second, third = (around[:, column] for column in (4, 5, 6))
    aligned, aligned_digits = decimal_from(
        (first >> np.uint64(24)) | (second << np.uint64(40)), (second >> np.uint64(24)) | (third << np.uint64(40))
    )
    first_digit = commas - 6 - digits
    fine = (gather(block, first_digit - 8) == as_word(b"llocate ")) & (block[first_digit - 9] == ord("A"))
    for count in (digits, aligned_digits):
        fine &= (count >= 1) & (count <= _MOST_DIGITS)
    fine &= requested <= MAX_SIZE
    kind = np.zeros(int(fine.sum()), np.int8)
    return _Found((first_digit - 9)[fine], kind, requested[fine], aligned[fine].view(np.uint64))


def _messages(block: Block, at: Positions) -> Positions:
    """Where one of the messages' texts stands, as far as sixteen characters tell."""
    found = [at[:0]]
    words = gather(block, at)
    for text in messages.LITERALS if len(at) else ():
        of_text = at.compress(words == as_word(text[:8]))
        if len(of_text) and (rest := text[8:16]):
            mask = ~np.uint64(0) >> np.uint64(8 * (8 - len(rest)))
            of_text = of_text.compress((gather(block, of_text + 8) & mask) == as_word(rest))
        if text in messages.FREQUENT and len(of_text) > _MOST_FREQUENT:
            of_text = of_text[np.linspace(0, len(of_text) - 1, _MOST_FREQUENT).astype(np.int64)]  # both ends among them
        found.append(of_text)
    return np.concatenate(found)


class _Lines:
    """Line starts in a block, looked up only where a header does not tell them."""

    def __init__(self, block: Block, begin: int, end: int) -> None:
        self._block, self._begin, self._end = block, begin, end
        self._before_starts: Positions | None = None

    def of_events(self, at: Positions, headers: Positions) -> Positions:
        """The start of the line of each event, given where its header begins (or -1): as a rule, at the line's start."""
        starts = headers.copy()
        unknown = np.flatnonzero((headers < 0) | (self._block[headers - 1] != 0x0A))
        starts[unknown] = self.of(at[unknown])
        return starts

    def of(self, at: Positions) -> Positions:
        """The start of the line that holds each position."""
        if len(at) <= _FEW:
            return np.array(
                [line_start_before(self._block, self._begin, p) or self._begin for p in at.tolist()], np.int64
            )
        if self._before_starts is None:
            ends = np.flatnonzero(self._block[self._begin : self._end] == 0x0A) + self._begin
            self._before_starts = np.concatenate(([self._begin - 1], ends))
        return self._before_starts[self._before_starts.searchsorted(at) - 1] + 1
