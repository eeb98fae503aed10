"""Read one text log of Paddle into an event log, in one pass.

The input is cut into blocks of whole lines, each block is decoded on its own, and the readings are put together in file order.
Threads share the blocks out (:mod:`memlens.inputs.blocks`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from memlens.errors import InputError, UsageError
from memlens.inputs.blocks import Block, in_order
from memlens.inputs.file_source import FileSource, open_source
from memlens.inputs.paddle.assemble import Assembler, BlockReading, Text
from memlens.inputs.paddle.context import marked_lines
from memlens.inputs.paddle.decode import Decoded, decode
from memlens.inputs.paddle.headers import HeaderReader
from memlens.inputs.paddle.layers import Layer, layer_named
from memlens.inputs.paddle.owners import thread_numbers
from memlens.inputs.paddle.requests import distinct
from memlens.scanner.bytesearch import count_lines, lines_before
from memlens.windows.patterns import Matcher, anchors_in_block

if TYPE_CHECKING:
    from memlens.events import EventLog
    from memlens.windows.patterns import Pattern

__all__ = ["COLUMNS", "read"]

#: Columns that are read only when asked for.
COLUMNS = frozenset({"thread", "time_us"})
_SAMPLES = 5
_LONGEST_TEXT = 4096


def read(
    where: str | Path | BinaryIO | FileSource,
    *,
    patterns: Sequence[Pattern] = (),
    owners: Sequence[Pattern] = (),
    columns: Collection[str] = (),
    layer: str | None = None,
    strict: bool = False,
    progress: Callable[[int], None] | None = None,
) -> EventLog:
    """Read a log of Paddle; see :func:`memlens.inputs.read` for any input.

    Args:
        where: A path, ``-`` for standard input, a URL, an open binary file, or any of these as a source.  Compressed input is known
            by its content.
        patterns: Anchors to find in the same pass; needed for input that can be read only once, quicker for any.
        owners: Lines that name the owner of what their thread allocates and frees next, beside those that memlens knows by itself
            (:mod:`memlens.inputs.paddle.context`): by the pattern's first group, or by what it matched.
        columns: Columns wanted beyond the usual ones: ``time_us``, ``thread``.
        layer: The allocator layer to take blocks from, a name of :class:`memlens.inputs.paddle.layers.Layer`; the most exact one by itself.
        strict: Raise when a compressed input is cut short, instead of reading what there is.
        progress: Called now and then with the bytes consumed of the input as it lies on disk.

    Raises:
        InputError: It cannot be read.
        NoEventsError: It holds no allocator event.
        UsageError: An unknown column, an unknown layer, or a pattern that is no regular expression.
    """
    if unknown := set(columns) - COLUMNS:
        raise UsageError(f"no column {', '.join(sorted(unknown))}", f"There are: {', '.join(sorted(COLUMNS))}.")
    asked = None if layer is None else layer_named(layer)
    source = where if isinstance(where, FileSource) else open_source(where)
    matchers, marks = ([Matcher(pattern) for pattern in wanted] for wanted in (patterns, owners))
    headers = HeaderReader()
    with closing(source.open()) as stream:
        plain_file = source.path if not stream.compression else None
        # What cannot be looked up quickly later is numbered now.
        wanted = {*columns} if plain_file else {*columns, "line"}

        def work(block: Block) -> BlockReading:
            return _read_block(block, headers, matchers, marks, wanted, asked)

        size = os.path.getsize(plain_file) if plain_file else 0
        assembler = Assembler(source, tuple(patterns), sorted(wanted), size, asked)
        # A log may be written faster than it is read: its end is where it was when the reading began.
        readings = in_order(stream, work, size=size)
        with closing(readings):
            for reading in readings:
                assembler.add(reading)
                if progress is not None:
                    progress(stream.consumed or reading.offset + reading.size)
        if stream.problem and strict:
            raise InputError(f"{source.name}: {stream.problem}", "Leave out --strict to analyze what can be read.")
        return assembler.finish(stream.problem)


def _read_block(
    block: Block,
    headers: HeaderReader,
    matchers: Sequence[Matcher],
    marks: Sequence[Matcher],
    wanted: Collection[str],
    layer: Layer | None,
) -> BlockReading:
    marked = marked_lines(block.text, block.begin, marks) if marks else None
    decoded = decode(
        block.data,
        block.begin,
        block.end,
        block.offset,
        headers,
        times="time_us" in wanted,
        marked=marked,
        layer=layer,
    )
    line = None
    if "line" in wanted:
        line = np.flatnonzero(block.text == 0x0A).searchsorted(decoded.offset - block.offset)
    threads = distinct(decoded.thread)
    numbers = thread_numbers(decoded.thread, threads)
    unstamped = int(np.count_nonzero(decoded.thread < 0)) if -1 in threads else 0
    if "thread" not in wanted:  # what is not wanted need not come back from a worker
        decoded = replace(decoded, thread=decoded.thread[:0])
    return BlockReading(
        offset=block.offset,
        size=block.end - block.begin,
        lines=decoded.line_ends,
        decoded=decoded,
        messages=_numbered(block, {at: _text_at(block, at) for at in decoded.message_lines.tolist()}),
        samples=_numbered(block, {at: _text_at(block, at) for at in decoded.first_malformed(_SAMPLES)}),
        threads=tuple(threads),
        thread_numbers=numbers,
        unstamped=unstamped,
        anchors=tuple(anchors_in_block(matcher, block.text, block.offset, 0) for matcher in matchers),
        line=line,
        ends_mid_line=block.data[block.end - 1] != 0x0A,
        cut=block.cut,
        hints={name: count_lines(block.data[block.begin : at]) for name, at in _hints(block, decoded)},
    )


def _hints(block: Block, decoded: Decoded) -> Iterator[tuple[str, int]]:
    """Things worth knowing that were seen in a block, with a position in their first line."""
    deferred = None if decoded.layers is None else decoded.layers.deferred
    for name, offset in (
        ("prealloc", decoded.prealloc),
        ("no_pointers", decoded.no_pointers),
        ("deferred_frees", deferred),
    ):
        if offset is not None:
            yield name, offset - block.offset + block.begin
    if block.offset == 0 and (nul := block.text[: 1 << 16] == 0).any():
        yield "binary", block.begin + int(nul.argmax())
    if block.cut:
        yield "long_line", block.begin


def _numbered(block: Block, texts: Mapping[int, bytes]) -> tuple[Text, ...]:
    """Lines of a block, by rising byte offset, with their numbers."""
    if not texts:
        return ()
    starts = np.array(list(texts), np.int64) - block.offset
    numbers = lines_before(block.text, starts).tolist()
    return tuple(Text(offset, number, text) for number, (offset, text) in zip(numbers, texts.items(), strict=True))


def _text_at(block: Block, offset: int) -> bytes:
    begin = offset - block.offset + block.begin
    return block.data[begin : min(begin + _LONGEST_TEXT, block.end)].tobytes().partition(b"\n")[0].rstrip(b"\r")
