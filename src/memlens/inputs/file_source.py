"""Inputs whose text can be looked up again by byte offset."""

from __future__ import annotations

import os
from bisect import bisect_left
from contextlib import AbstractContextManager, closing, contextmanager
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar
from weakref import ref

import numpy as np

from memlens.columns import distinct
from memlens.errors import InputError, masked
from memlens.inputs.blocks import Block, Blocks, SupportsReadInto, in_order
from memlens.inputs.streams import ByteStream, NamedPath, open_bytes
from memlens.source import TextSource, is_url, local_path
from memlens.spool import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from memlens.inputs.remote import RemoteObject


Result = TypeVar("Result")
#: Bytes that are read at once where lines are counted.
_PIECE = 1 << 20
#: Bytes between places whose lines are counted that are read with them.
_GAP = 1 << 14
#: Offsets in a piece of text up to which lines are counted between them, and ends of lines not listed.
_FEW = 8
#: Bytes that are looked at first on both sides of an offset, and how many times as many where the line is longer.
_LOOK = 1 << 12
_FURTHER = 8
#: Lines that are looked up together.
_TOGETHER = 256


class _Between(NamedTuple):
    """What the events of a log tell of the lines behind each indexed one.

    Attributes:
        before: Events before it, int64.
        first: What to add to the index of an event behind it for its line, int64.
        told: That is so: up to the next indexed line there are as many events as lines, bool.
    """

    before: NDArray[np.int64]
    first: NDArray[np.int64]
    told: NDArray[np.bool_]


class FileSource(TextSource):
    """One input: a file, compressed or not, or a stream that can be read only once.

    Args:
        where: A path, ``-`` for standard input, a URL, or an open binary file.
    """

    def __init__(self, where: str | Path | BinaryIO) -> None:
        self._where = local_path(where)
        self._remote = is_url(self._where)
        self._peeked: ByteStream | None = None
        self._compression: str | None = None
        self._object: RemoteObject | None = None
        if self._remote:
            self._name, self._rereadable = masked(str(where)), True
        elif isinstance(where, (str, Path)):
            self._name = "<stdin>" if str(where) == "-" else where.name if isinstance(where, NamedPath) else str(where)
            path = str(self._where)
            self._rereadable = path != "-" and not (os.path.exists(path) and not os.path.isfile(path))
        else:
            self._name = str(getattr(where, "name", "<stream>"))
            self._rereadable = False
        self._opened: ByteStream | None = None
        self._offsets = np.zeros(1, np.int64)
        self._lines = np.zeros(1, np.int64)
        self._counted: tuple[ref[Any], _Between | None] | None = None
        self._last = (0, b"")  # where it ends, and its last line, where that has no end

    @property
    def path(self) -> str | None:
        """The file on this machine, or ``None`` for a stream and for what comes over the network."""
        return str(self._where) if self._rereadable and not self._remote else None

    def open(self) -> ByteStream:
        """The uncompressed bytes from the first one on.

        Raises:
            InputError: It cannot be read, or was read before and is no file.
        """
        if self._peeked is not None:
            stream, self._peeked = self._peeked, None
            return stream
        if self._opened is not None and not self._rereadable:
            raise InputError(
                f"{self._name}: can be read only once", "Save it to a file first, or name all anchors when reading it."
            )
        self._opened = open_bytes(self._remote_object.stream() if self._remote else self._where)
        self._compression = self._opened.compression
        return self._opened

    @property
    def _remote_object(self) -> RemoteObject:
        if self._object is None:
            from memlens.inputs.remote import RemoteObject

            self._object = RemoteObject(str(self._where))
        return self._object

    def head(self, size: int) -> bytes:
        """The first bytes, uncompressed, fewer only where the input is shorter; :meth:`open` gives them again.

        Raises:
            InputError: It cannot be read, or was read before and is no file.
        """
        self._peeked = self.open()
        return self._peeked.peek(size)

    def close(self) -> None:
        """Let go of what :meth:`head` opened, where nothing has read it."""
        if self._peeked is not None:
            self._peeked.close()
            self._peeked = None

    @property
    def numbered(self) -> bool:
        """Whether lines are to be numbered while they are read, because their numbers cannot be looked up later at little cost."""
        return self.path is None or bool(self.compression)

    @property
    def compression(self) -> str:
        """``gzip``, ``zstd``, ``xz``, ``bzip2`` or ``""``; its first bytes tell."""
        if self._compression is None:  # asked for again after it was read it must not be opened again
            self._peeked = self.open()
            return self._peeked.compression
        return self._compression

    @property
    def size(self) -> int:
        """Bytes of the text where they are known before it is read, else 0."""
        return 0 if self.path is None or self.compression else os.path.getsize(self.path)

    @property
    def problem(self) -> str:
        """Why the text ended early when it was read last, in words, or ``""``."""
        return "" if self._opened is None else self._opened.problem

    def read_blocks(
        self, work: Callable[[Block], Result], progress: Callable[[int], None] | None = None
    ) -> Iterator[Result]:
        """Read the text in blocks by several threads; the results come in the order of the text.

        Args:
            work: Reads a block, which it must not keep.
            progress: Called now and then with the bytes consumed of the input as it lies on disk.

        Raises:
            InputError: It cannot be read.
        """
        size = self.size  # a log may be written faster than it is read: its end is where it was when the reading began
        with self.open() as stream:
            results = in_order(
                stream, lambda block: (block.offset, block.offset + block.end - block.begin, work(block)), size=size
            )
            done, whole = 0, True
            with closing(results):
                for begin, end, result in results:
                    whole, done = whole and begin == done, end
                    yield result
                    if progress is not None:
                        progress(stream.consumed or done)
            if size and not (whole and done >= size <= os.fstat(stream.fileno()).st_size):
                stream.problem = "the file became shorter while it was read"

    def index(self, offsets: NDArray[np.int64], lines: NDArray[np.int64]) -> None:
        """Keep where some lines begin (``offsets``, not falling) and how many lines stand before each, to count from there."""
        if len(offsets):
            self._offsets, self._lines, self._counted = offsets, lines, None

    def blocks(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
        """The text as ``(offset, bytes)`` pieces of whole lines, from the indexed line start at or before ``start``.

        The first piece may begin before ``start`` and the last one end after ``end``.
        """
        if self._seekable:
            with self._any_place() as text:
                end = text.size if end is None else min(end, text.size)
                if start >= end:
                    return
                ((_, begin, _),) = _lines_at(text, [max(start, 0)])
                ((_, last, line),) = _lines_at(text, [end - 1])
            opened: AbstractContextManager[SupportsReadInto] = self._stretch(begin, last + len(line))
        else:
            begin, opened = 0, self.open()
        with opened as stretch:
            blocks = Blocks(stretch, begin)
            for block in blocks:
                if end is not None and block.offset >= end:
                    return
                if block.offset + block.end - block.begin > start:
                    yield block.offset, block.text.tobytes()
                blocks.pool.give_back(block)

    def line_numbers(self, offsets: Sequence[int]) -> list[int | None]:
        return [line or None for line in self.line_column(np.asarray(offsets, np.int64)).tolist()]

    def line_column(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        wanted = self._to_find(offsets)
        if not len(wanted):
            return np.zeros(len(offsets), np.int64)
        numbers = np.zeros(len(wanted), np.int64)
        if not self._seekable:  # it is read from its start
            _number(self.blocks(0, int(wanted[-1]) + 1), 1, wanted, numbers)
        else:
            with self._any_place() as text:
                for begin, end, line in self._stretches(wanted):
                    starts = range(begin, end, _PIECE)
                    texts = ((start, text.parts([(start, min(start + _PIECE, end))])[0]) for start in starts)
                    _number(texts, line, wanted, numbers)
        return np.where(offsets >= 0, numbers[np.minimum(wanted.searchsorted(offsets), len(wanted) - 1)], 0)

    def lines_of_events(self, events: NDArray[np.int64], offset: NDArray[np.int64]) -> NDArray[np.int64]:
        """See :meth:`memlens.source.Source.lines_of_events`; between indexed lines with as many events as lines no text is read to count them."""
        known = self._events_between(offset) if len(events) > _FEW else None
        if known is None:
            return self.line_column(offset[events])
        before, first, told = known
        place = before.searchsorted(events, "right") - 1
        numbers: NDArray[np.int64] = first[place] + events
        left = ~told[place]
        numbers[left] = self.line_column(offset[events[left]])
        return numbers

    def _events_between(self, offset: NDArray[np.int64]) -> _Between | None:
        """What the events of a log tell of the lines behind each indexed one; ``None`` where several events stand on a line.  Kept for one log."""
        if self._counted is None or self._counted[0]() is not offset:
            known = None
            if all((offset[a + 1 : b + 1] > offset[a:b]).all() for a, b in walk(0, len(offset) - 1)):
                before = offset.searchsorted(self._offsets)
                # An indexed line may be one of no event.
                other = offset[np.minimum(before, len(offset) - 1)] != self._offsets
                told = np.append(np.diff(before) + other[:-1] == np.diff(self._lines), False)
                known = _Between(before, self._lines + 1 + other - before, told)
            self._counted = ref(offset), known
        return self._counted[1]

    def _stretches(self, offsets: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
        """Where to read, to count up to some rising offsets: from an indexed place to after an offset, and the number of its first line."""
        places = self._offsets.searchsorted(offsets, "right") - 1
        firsts = np.flatnonzero(np.diff(places, prepend=-1))
        begins, ends = self._offsets[places[firsts]], offsets[np.append(firsts[1:], len(offsets)) - 1] + 1
        # What lies between near ones is read with them.
        cut = np.flatnonzero((begins[1:] - ends[:-1] > _GAP) | (begins[1:] // _PIECE != begins[:-1] // _PIECE)) + 1
        last, cut = np.append(cut, len(ends)) - 1, np.append(0, cut)
        columns = begins[cut], ends[last], self._lines[places[firsts[cut]]] + 1
        yield from zip(*(column.tolist() for column in columns), strict=True)

    def lines(self, offsets: Sequence[int]) -> list[bytes | None]:
        """The text of the line that holds each offset, without its line end; ``None`` where it cannot be read again."""
        end, last = self._last  # of a stream that is all there is
        texts = {
            offset: last.rstrip(b"\r") for offset in offsets if end - len(last) <= offset < end and not self._rereadable
        }
        if self._seekable:
            wanted = distinct(np.asarray(offsets, np.int64)).tolist()
            with self._any_place() as place:
                texts = {offset: line.removesuffix(b"\n").rstrip(b"\r") for offset, _, line in _lines_at(place, wanted)}
            return [texts.get(offset) for offset in offsets]
        group = self._to_find(np.asarray(offsets, np.int64)).tolist()
        for offset, text in self.blocks(group[0], group[-1] + 1) if group else ():
            for at in _within(group, offset, text):
                begin = text.rfind(b"\n", 0, at - offset) + 1
                end = text.find(b"\n", at - offset)
                texts[at] = text[begin : len(text) if end < 0 else end].rstrip(b"\r")
        return [texts.get(offset) for offset in offsets]

    def end_with(self, end: int, line: bytes) -> None:
        """Take the last line, which has no line end, and where it ends: a stream cannot be asked for it again."""
        self._last = end, line

    def parts(self, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each span of offsets, ``(first, after the last)``; none where it cannot be read again."""
        if not self._rereadable or not spans:
            return [b""] * len(spans)
        if self._seekable:
            with self._any_place() as place:
                return place.parts(spans)
        found = [bytearray() for _ in spans]
        for offset, text in self.blocks(min(spans)[0], max(end for _, end in spans)):
            for k, (begin, end) in enumerate(spans):
                found[k] += text[max(begin - offset, 0) : max(end - offset, 0)]
        return [bytes(part) for part in found]

    @property
    def _seekable(self) -> bool:
        """Whether its text can be read from any place on."""
        if self._opened is None and self._rereadable:
            self.head(0)
            self.close()
        plain = self._opened is not None and not self._opened.compression
        return plain and (self.path is not None or (self._object is not None and self._object.seekable))

    @contextmanager
    def _any_place(self) -> Iterator[RemoteObject | _LocalText]:
        if self._object is not None:
            yield self._object
            return
        with self.open() as stream:
            yield _LocalText(stream.fileno())

    @contextmanager
    def _stretch(self, begin: int, end: int) -> Iterator[SupportsReadInto]:
        """The bytes from ``begin`` to before ``end`` of a text that can be read from any place on."""
        if self._object is not None:
            with self._object.stream(begin) as remote:
                yield remote
            return
        with self.open() as stream:
            yield stream.part(begin, end)

    def _to_find(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Offsets, rising, each once; none where the input cannot be read again."""
        return distinct(offsets[offsets >= 0] if self._rereadable else offsets[:0])


class _LocalText:
    """The bytes of an open file."""

    def __init__(self, file: int) -> None:
        self._file = file
        self.size = os.fstat(file).st_size

    def parts(self, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        return [self._part(begin, end) for begin, end in spans]

    def _part(self, begin: int, end: int) -> bytes:
        text = b""
        while begin + len(text) < end and (piece := os.pread(self._file, end - begin - len(text), begin + len(text))):
            text = text + piece if text else piece
        return text


def _lines_at(text: RemoteObject | _LocalText, offsets: Sequence[int]) -> Iterator[tuple[int, int, bytes]]:
    """The line that holds each offset: the offset, where the line begins, and its bytes with its line end; nothing for what lies outside."""
    inside = [offset for offset in offsets if 0 <= offset < text.size]
    for first in range(0, len(inside), _TOGETHER):
        look, left = _LOOK, inside[first : first + _TOGETHER]
        while left:
            spans = [(max(offset - look, 0), min(offset + look, text.size)) for offset in left]
            longer = []
            for offset, (begin, end), part in zip(left, spans, text.parts(spans), strict=True):
                start = part.rfind(b"\n", 0, offset - begin) + 1
                stop = part.find(b"\n", offset - begin) + 1
                if (start or begin == 0) and (stop or end == text.size):
                    yield offset, begin + start, part[start : stop or len(part)]
                else:
                    longer.append(offset)
            look, left = look * _FURTHER, longer


def _number(
    texts: Iterable[tuple[int, bytes]], line: int, offsets: NDArray[np.int64], numbers: NDArray[np.int64]
) -> None:
    """Write the numbers of the lines of those of some rising offsets that lie in pieces of text, the first of which begins with a line's number."""
    for begin, text in texts:
        lo, hi = offsets.searchsorted((begin, begin + len(text)))
        if hi - lo > _FEW:
            ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + begin
            numbers[lo:hi] = line + ends.searchsorted(offsets[lo:hi])
            line += len(ends)
            continue
        at = [0, *(offsets[lo:hi] - begin).tolist(), len(text)]
        *before, line = accumulate((text.count(b"\n", first, last) for first, last in pairwise(at)), initial=line)
        numbers[lo:hi] = before[1:]


def _within(offsets: Sequence[int], offset: int, text: bytes) -> Sequence[int]:
    """Those of some rising offsets that lie in a piece of text."""
    return offsets[bisect_left(offsets, offset) : bisect_left(offsets, offset + len(text))]
