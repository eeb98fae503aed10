"""The objects of one long list in a JSON file, found block by block without parsing the file.

A block of text is looked at twice with NumPy: where its quotes are, and where its brackets are.  Brackets between an odd and an
even quote stand inside a string and do not count; the running depth of the others tells where each object of the list begins
and ends.  What an object says is read from its text later, and only where it matters (:mod:`memlens.inputs.kineto.json_fields`).

The brackets are trusted, the rest of the JSON is not looked at: a damaged file gives the objects before the damage.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Generator

    from numpy.typing import NDArray

    from memlens.inputs.streams import ByteStream

    Positions = NDArray[np.int64]

__all__ = ["LONGEST_OBJECT", "PAD", "ListReader", "Objects", "unescaped"]

#: Bytes read at once: the arrays of one block stay in the cache.
BLOCK_BYTES = 1 << 20
#: An object longer than this is taken for damage: a string or a bracket without its end.
LONGEST_OBJECT = 1 << 26
#: Bytes after the text of a block, so that no look at what follows a position runs out of it.
PAD = 64

_QUOTE, _BACKSLASH = 0x22, 0x5C
#: ``[ ] { }`` have these bits; so have ``Y y _`` and DEL, which the next two bits tell apart.
_BRACKET_BITS, _BRACKET, _KIND_BITS, _OPEN, _CLOSE = (np.uint8(bits) for bits in (0xD9, 0x59, 0x06, 0x02, 0x04))
_SPACE = b" \t\r\n"


@dataclass(frozen=True)
class Objects:
    """Some objects of the list, in order, within one block.  Positions are int64 and count from the block's start.

    Attributes:
        text: uint8; the block, and :data:`PAD` further bytes.
        offset: Byte offset of the block in the input.
        begin: Where the ``{`` of each object stands.
        end: The position after its ``}``.
        first_quotes: Where each string of these objects begins (its quote), rising.
        last_quotes: Where it ends (its quote).
        brackets_before: How many of the brackets stand before each string, int64.
        escapes: There are backslashes.
        brackets: Brackets outside strings, rising.
        opens: Whether each opens, bool.
        depths: How deep the text after each bracket is, counted so that it is 1 inside an object of the list, and 2 in what that
            holds.
        again: The file has more than one such list, and these are the first objects of a further one.
    """

    text: NDArray[np.uint8]
    offset: int
    begin: Positions
    end: Positions
    first_quotes: Positions
    last_quotes: Positions
    brackets_before: Positions
    escapes: bool
    brackets: Positions
    opens: NDArray[np.bool_]
    depths: Positions
    again: bool = False

    def __len__(self) -> int:
        return len(self.begin)


@dataclass(frozen=True)
class _Shape:
    """Strings and brackets of one block; ``depths`` counts from the start of the file.

    ``strings_before`` is the number of strings before each bracket, int64; ``escapes`` says that there are backslashes.
    """

    quotes: Positions
    brackets: Positions
    strings_before: Positions
    opens: NDArray[np.bool_]
    depths: Positions
    escapes: bool

    @classmethod
    def of(cls, text: NDArray[np.uint8], depth: int) -> _Shape:
        quotes = np.flatnonzero(text == _QUOTE)
        escapes = bool((text == _BACKSLASH).any())
        if escapes:
            quotes = quotes[unescaped(text, quotes)]
        brackets = np.flatnonzero((text & _BRACKET_BITS) == _BRACKET)
        kind = text[brackets] & _KIND_BITS
        real = (kind == _OPEN) | (kind == _CLOSE)
        brackets, kind = brackets[real], kind[real]
        quotes_before = quotes.searchsorted(brackets)
        outside = quotes_before & 1 == 0
        brackets, opens = brackets[outside], kind[outside] == _OPEN
        depths = depth + np.cumsum(opens.view(np.int8) * 2 - 1, dtype=np.int64)
        return cls(quotes, brackets, quotes_before[outside] >> 1, opens, depths, escapes)


def unescaped(text: NDArray[np.uint8], positions: Positions) -> NDArray[np.bool_]:
    """Whether the characters at some positions have an even number of backslashes before them, so that none of these is theirs."""
    slashes = np.flatnonzero(text == _BACKSLASH)
    if not len(slashes):
        return np.ones(len(positions), np.bool_)
    # For each backslash the first one of its run, int64.
    starts = np.concatenate(([True], np.diff(slashes) != 1))
    first = slashes[np.maximum.accumulate(np.where(starts, np.arange(len(slashes)), 0))]
    at = slashes.searchsorted(positions) - 1
    before = np.maximum(at, 0)
    follows = (at >= 0) & (slashes[before] == positions - 1)
    odd = follows & ((positions - first[before]) & 1 == 1)
    fine: NDArray[np.bool_] = ~odd
    return fine


@dataclass
class ListReader:
    """Reads the objects of the list that stands under one key of a JSON object, or that is the whole file.

    Args:
        stream: The input, read to its end.
        key: The key.
        numbers: Further keys beside it whose whole numbers are wanted.

    Attributes:
        problem: Why the list could not be read to its end; ``""`` as long as nothing is wrong.
        found: The numbers read, by key.
        size: Bytes of the uncompressed input.
        listed: The list was there.
    """

    stream: ByteStream
    key: str
    numbers: tuple[str, ...] = ()
    problem: str = ""
    found: dict[str, int] = field(default_factory=dict)
    size: int = 0
    listed: bool = False

    def __post_init__(self) -> None:
        # A key is no string's content: a quote inside a string has a backslash before it.
        self._at_list = re.compile(rb'(?<!\\)"' + re.escape(self.key.encode()) + rb'"\s*:\s*\Z')
        self._numbers = {
            name: re.compile(rb'(?<!\\)"' + re.escape(name.encode()) + rb'"\s*:\s*(-?[0-9]{1,19})\s*(?=[,}\s]|\Z)')
            for name in self.numbers
        }
        self._depth = 0
        self._base = 0  # depth inside the list, 0 outside it
        self._ended = False

    def __iter__(self) -> Iterator[Objects]:
        rest, offset = np.zeros(0, np.uint8), 0
        with closing(_chunks(self.stream)) as chunks:
            # The more is left over, the more is read before it is looked at again.
            while len(chunk := _at_least(chunks, len(rest))):
                self.size += len(chunk)
                text = np.concatenate((rest, chunk, np.zeros(PAD, np.uint8)))
                size = len(text) - PAD
                if self._ended:
                    rest = text[:size]
                    if self._text_follows(rest, offset):
                        return
                    rest, offset = rest[:0], offset + size
                    continue
                shape = _Shape.of(text[:size], self._depth)
                cut = 0
                for cut, objects in self._objects(text, shape, offset):  # noqa: B007 - how far the block was used
                    if objects is not None:
                        yield objects
                rest, offset = text[cut:size], offset + cut
                if self._ended:
                    if self._text_follows(rest, offset):
                        return
                    rest, offset = rest[:0], offset + len(rest)
                elif len(rest) > LONGEST_OBJECT:
                    self.problem = _damage(rest, offset, f"one value is longer than {LONGEST_OBJECT >> 20} MiB")
                    return
        if not self._ended:
            self.problem = self.stream.problem or _damage(rest, offset, "closing brackets are missing")

    def _text_follows(self, rest: NDArray[np.uint8], offset: int) -> bool:
        text = rest.tobytes()
        if after := text.lstrip(_SPACE):
            self.problem = f"there is more text after the end of the JSON, at byte {offset + len(text) - len(after):,}"
        return bool(self.problem)

    def _objects(self, text: NDArray[np.uint8], shape: _Shape, offset: int) -> Iterator[tuple[int, Objects | None]]:
        """The objects of one block, in as many parts as the list is left and entered; with how far the block is used up."""
        brackets, depths = shape.brackets, shape.depths
        i, used, again = 0, 0, False
        while i < len(brackets) and not self._ended:
            if not self._base:
                i, entered = self._enter(text, shape, i, used)
                again = entered and self.listed
                self.listed |= entered
                used = int(brackets[i - 1]) + 1
                self._depth = int(depths[i - 1])
                if again:
                    yield used, _part(text, shape, offset, 0, 0, self._base, again=True)
            else:
                left = np.flatnonzero(depths[i:] < self._base)
                stop = i + int(left[0]) if len(left) else len(brackets)
                objects = _part(text, shape, offset, i, stop, self._base)
                if stop < len(brackets):
                    self._base, self._depth, used = 0, int(depths[stop]), int(brackets[stop]) + 1
                    self._ended = self._depth <= 0
                    i = stop + 1
                else:
                    whole = np.flatnonzero(depths[i:] == self._base)
                    used = int(brackets[i + whole[-1]]) + 1 if len(whole) else used
                    i, self._depth = len(brackets), self._base
                yield used, objects
        yield used, None

    def _enter(self, text: NDArray[np.uint8], shape: _Shape, i: int, used: int) -> tuple[int, bool]:
        """Go on from bracket ``i`` to where the list is entered or the block ends; the bracket after that, and whether it was."""
        before = np.concatenate(([self._depth], shape.depths[i:-1]))
        # Only brackets of the outermost level can have one of the keys before them.
        for j in (np.flatnonzero(before <= 1) + i).tolist():
            at = int(shape.brackets[j])
            previous = int(shape.brackets[j - 1]) + 1 if j > i else used
            gap = text[previous:at].tobytes()
            depth = int(before[j - i])
            if depth == 1:
                self._read_numbers(gap)
            if shape.opens[j] and text[at] == ord("[") and (depth == 0 or (depth == 1 and self._at_list.search(gap))):
                self._base = depth + 1
                return j + 1, True
            if int(shape.depths[j]) <= 0:
                self._ended = True
                return j + 1, False
        return len(shape.brackets), False

    def _read_numbers(self, gap: bytes) -> None:
        for name, pattern in self._numbers.items():
            if found := pattern.findall(gap):
                self.found[name] = int(found[-1])


def _part(
    text: NDArray[np.uint8], shape: _Shape, offset: int, i: int, stop: int, base: int, *, again: bool = False
) -> Objects:
    """The objects whose brackets are among ``i … stop-1``, all within the list."""
    brackets, opens = shape.brackets[i:stop], shape.opens[i:stop]
    depths = shape.depths[i:stop] - base
    # What opens and what closes an element of the list take turns; the last one may not be whole yet.
    end = brackets[~opens & (depths == 0)]
    begin = brackets[opens & (depths == 1)][: len(end)]
    is_object = (text[begin] == ord("{")) & (text[end] == ord("}"))
    begin, end = begin[is_object], end[is_object] + 1
    last = int(end[-1]) if len(end) else 0
    first_quotes, last_quotes = shape.quotes[0::2], shape.quotes[1::2]
    lo = int(first_quotes.searchsorted(begin[0])) if len(begin) else 0
    hi = int(first_quotes.searchsorted(last))
    # A bracket with m strings before it stands before string number m and all later ones.
    before = np.cumsum(np.bincount(np.maximum(shape.strings_before[i:stop], lo) - lo, minlength=max(hi - lo, 0)))
    return Objects(
        text,
        offset,
        begin,
        end,
        first_quotes[lo:hi],
        last_quotes[lo:hi],
        before[: max(hi - lo, 0)],
        shape.escapes,
        brackets,
        opens,
        depths,
        again=again,
    )


def _damage(rest: NDArray[np.uint8], offset: int, otherwise: str) -> str:
    """What is wrong with text that does not come to an end."""
    quotes = np.flatnonzero(rest == _QUOTE)
    quotes = quotes[unescaped(rest, quotes)]
    line_ends = np.flatnonzero(rest == 0x0A)
    inside = line_ends[quotes.searchsorted(line_ends) & 1 == 1]  # JSON has no line end inside a string
    if len(inside):
        return f"the JSON is damaged: the line that ends at byte {offset + int(inside[0]):,} has a text without its end"
    return f"the JSON ends in the middle, at byte {offset + len(rest):,}: {otherwise}"


def _chunks(stream: ByteStream) -> Generator[NDArray[np.uint8], None, None]:
    """The stream's bytes; a compressed one is decompressed on another thread, one chunk ahead."""
    if not stream.compression:
        while len(chunk := _read(stream)):
            yield chunk
        return
    with ThreadPoolExecutor(1, "memlens-json") as pool:
        ahead = pool.submit(_read, stream)
        while len(chunk := ahead.result()):
            ahead = pool.submit(_read, stream)
            yield chunk


def _read(stream: ByteStream) -> NDArray[np.uint8]:
    chunk, size = np.empty(BLOCK_BYTES, np.uint8), 0
    while size < BLOCK_BYTES and (count := stream.readinto(chunk.data[size:])):
        size += count
    return chunk[:size]


def _at_least(chunks: Iterator[NDArray[np.uint8]], wanted: int) -> NDArray[np.uint8]:
    """The next chunks, joined, that have so many bytes together, and at least one byte; fewer at the end."""
    parts = [next(chunks, np.zeros(0, np.uint8))]
    while len(parts[-1]) > 0 and sum(map(len, parts)) < wanted:
        parts.append(next(chunks, parts[0][:0]))
    return np.concatenate(parts)
