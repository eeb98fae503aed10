"""Cut the raw text of a window out of a log, in one pass over its bytes: no event is parsed, a pipe will do."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from msgspec import Struct

from memlens.errors import InputError, UsageError
from memlens.options.keywords import with_keywords
from memlens.options.verbs import Slice
from memlens.output import open_output, refuse_inputs, refuse_overwrite
from memlens.scanner import count_lines
from memlens.windows import glog
from memlens.windows.anchors import numbered
from memlens.windows.patterns import Matcher, Pattern
from memlens.windows.suggestions import missing_anchor
from memlens.windows.windows import anchors_of, too_few_anchors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from memlens.inputs.streams import ByteStream

__all__ = ["Piece", "Renumberer", "TextCutter", "events_only", "slice_log", "slice_with"]


class Piece(Struct, frozen=True):
    """The part of a log that was cut out.

    Attributes:
        name: What the start matched; ``(start)`` without a start.
        start_line: 1-based number of its first line.
        end_line: 1-based number of its last line (included); ``start_line - 1`` where it has none.
        bytes: Bytes of the log in it.
        written_bytes: Bytes written: fewer where lines were left out or rewritten.
        open_end: It ends with the log though an end was asked for.
        cut_short: Why the log ended early (a compressed log cut short) before the window did, or ``""``.
    """

    name: str
    start_line: int
    end_line: int
    bytes: int
    written_bytes: int
    open_end: bool
    cut_short: str = ""


def slice_with(log: str | Path | BinaryIO, options: Slice) -> Piece:
    """Cut the raw text of one window out of a log, byte for byte.

    Goes through the log once and holds a block of it at a time, so gigabytes and pipes will do.

    Args:
        log: A path, ``-`` for stdin, or a binary file.
        options: See :class:`memlens.options.verbs.Slice`.

    Raises:
        AnchorError: No line, or fewer than ``nth`` lines, match the start; or no later line matches any end.
        InputError: The log cannot be read, or has no lines of text.
        OutputError: The output exists, or cannot be written.
        UsageError: A pattern is empty or is no regular expression, both kinds of start are given, events are asked for of a log
            that is not Paddle's, or the output is the log.
    """
    from memlens.inputs.built_in import PADDLE
    from memlens.inputs.file_source import FileSource
    from memlens.inputs.input_format import HEAD
    from memlens.inputs.registry import not_text, recognise
    from memlens.inputs.unread import BINARY, refuse_unread, unread_kind

    output = options.output
    starts, ends = anchors_of(options.start, options.end, options.start_regex, options.end_regex, options.nth)
    cutter = TextCutter(starts[0] if starts else None, ends, options.nth)
    # The text is written while the log is read, so that stdout must not be the log either.
    refuse_inputs(["-" if output is None else output], [log])
    refuse_overwrite(output, options.force)
    source = FileSource(log)
    head = source.head(HEAD)
    if not PADDLE.recognise(head) and (kind := unread_kind(head, BINARY)) is not None:
        source.close()
        refuse_unread(source.name, kind)
    if what := not_text(head):
        source.close()
        raise InputError(
            f"{source.name} is {what}: it has no lines of text to cut",
            "memlens analyze and memlens diff cut it by its annotations: --start, --end, --by.",
        )
    if options.events_only and (found := recognise(source)).format is not PADDLE:
        source.close()
        raise UsageError(
            f"{source.name} is {found.format.title}: events_only knows the lines of Paddle only",
            "Cut it without --events-only.",
        )
    written = 0
    with source.open() as stream, open_output(output, options.force) as out:
        texts = cutter.cut(_texts(stream, options.progress))
        if options.events_only:
            texts = map(partial(events_only, anchors=[Matcher(anchor) for anchor in (*starts, *ends)]), texts)
        if options.renumber:
            texts = map(Renumberer().rewrite, texts)
        for text in texts:
            out.write(text)
            written += len(text)
        # Within the block, so that nothing is left behind where no line matched.
        stream.confirm()
        if cutter.start is not None and not cutter.started:
            if cutter.starts_seen:
                raise too_few_anchors(source.name, cutter.start, cutter.starts_seen, options.nth)
            raise missing_anchor(source.name, starts, source.blocks() if source.rereadable else ())
        if ends and not cutter.ended and not options.to_end and not stream.problem:
            after = cutter.piece(0).start_line if starts else 0
            raise missing_anchor(source.name, ends, source.blocks() if source.rereadable else (), after)
    return cutter.piece(written, "" if cutter.ended else stream.problem)


slice_log = with_keywords("slice", slice_with, Slice)


def _texts(stream: ByteStream, progress: Callable[[int], None] | None) -> Iterator[bytes]:
    from memlens.inputs.blocks import Blocks

    blocks = Blocks(stream)
    for block in blocks:
        text = block.text.tobytes()
        blocks.pool.give_back(block)
        yield text
        if progress is not None:
            progress(stream.consumed)


class TextCutter:
    """Follows a log block by block and gives out the text of one window.

    Args:
        start: Pattern of the first line; ``None``: from the beginning.
        ends: Patterns of the line before which the window ends.
        nth: Which of the lines that match the start, from 1.
    """

    def __init__(self, start: Pattern | None, ends: Sequence[Pattern] = (), nth: int = 1) -> None:
        self.start, self.nth = start, nth
        self.started, self.ended, self.starts_seen = start is None, False, 0
        self._start = None if start is None else Matcher(start)
        self._ends = [Matcher(end) for end in ends]
        self._name, self._start_line, self._lines, self._bytes = "(start)", 1, 0, 0
        self._mid_line = False
        self._names: list[str] = []

    def cut(self, texts: Iterable[bytes]) -> Iterator[bytes]:
        """The text of the window, piece by piece; stops reading at its end.

        Args:
            texts: The log in pieces that begin and end at line ends.
        """
        line = 1
        for text in texts:
            block = np.frombuffer(text, np.uint8)
            begin, after = 0, 0
            if self._start is not None and not self.started:
                begin, after = self._find_start(self._start, block, line)
                line += count_lines(block)
                if not self.started:
                    continue
            found = [match.start for matcher in self._ends for match in matcher.find(block) if match.start >= after]
            self.ended = bool(found)
            stop = min(found, default=len(block))
            if stop > begin:
                self._lines += count_lines(block[begin:stop])
                self._bytes += stop - begin
                self._mid_line = text[stop - 1] != 0x0A
                yield text[begin:stop]
            if self.ended:
                return

    def piece(self, written: int, cut_short: str = "") -> Piece:
        """The part that was cut out, with facts that only the one who wrote it knows."""
        end_line = self._start_line + self._lines + self._mid_line - 1
        open_end = bool(self._ends) and not self.ended
        return Piece(self._name, self._start_line, end_line, self._bytes, written, open_end, cut_short)

    def _find_start(self, start: Matcher, block: NDArray[np.uint8], first_line: int) -> tuple[int, int]:
        """Look for the start in a block: where it starts, and from where on an end counts."""
        matches = start.find(block, 0, first_line)
        wanted = self.nth - 1 - self.starts_seen
        self.starts_seen += len(matches)
        self._names += [match.name for match in matches[: wanted + 1]]
        if wanted >= len(matches):
            return 0, 0
        self.started = True
        self._start_line, self._name = matches[wanted].line, numbered(self._names)[-1]
        return matches[wanted].start, matches[wanted].start + 1


def events_only(text: bytes, anchors: Sequence[Matcher] = ()) -> bytes:
    """Keep the lines that hold an allocator event (Alloc, Free, chunk taken, chunk given back) or match an anchor.

    Args:
        text: Whole lines.
        anchors: Lines to keep as well.
    """
    from memlens.facts import MAX_SIZE
    from memlens.inputs.paddle.lines import events_scanner

    block = np.frombuffer(text, np.uint8)
    rows = events_scanner().scan(block, 0, len(block))
    events = rows.line_start[rows.values[:, 0] <= MAX_SIZE]
    marked = np.array([match.start for matcher in anchors for match in matcher.find(block)], np.int64)
    places = np.concatenate((events, marked))
    if not len(places):
        return b""
    starts = np.concatenate(([0], np.flatnonzero(block == 0x0A) + 1))
    keep = np.zeros(len(starts) + 2, np.bool_)  # one entry a line, and one before and after them
    keep[np.searchsorted(starts, places, "right")] = True
    # Where keeping begins and where it ends, by turns: lines that follow each other are copied together.
    edges = np.append(starts, len(block))[np.flatnonzero(keep[1:] != keep[:-1])].tolist()
    return b"".join(text[begin:end] for begin, end in zip(edges[::2], edges[1::2], strict=True))


class Renumberer:
    r"""Rewrites text so that the logs of two runs can be compared by any diff tool; keeps its numbers from call to call.

    Every address (``0x`` and hexadecimal digits, in any line) becomes ``#1``, ``#2``, … in order of first use.  Out of the
    header of a message go the date, the time and the thread id, and out of a stream-safe message the id of its thread; so does
    a time stamp with a year that a container runtime put before a line.

    >>> Renumberer().rewrite(b"I1120 10:22:32.856307 13292 a.cc:270] Alloc 256 bytes, ptr = 0x5606f8aeb000\n")
    b'I a.cc:270] Alloc 256 bytes, ptr = #1\n'
    """

    # The look behind comes after the 0x, so that the search jumps from 0x to 0x.
    _ADDRESS = re.compile(rb"(0x(?<![0-9A-Za-z_]0x)[0-9a-f]+)")
    _HEADER = re.compile(
        rf"({glog.LEVEL})(?:{glog.YEAR})?{glog.DAY} {glog.CLOCK}[ \t]+[0-9]+[ \t]+(?={glog.FILE}:{glog.LINE})".encode()
    )
    _THREAD = re.compile(rb"\bThread \d+ (?=Allocate )")
    _STAMP = re.compile(rb"^20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?[ \t]", re.MULTILINE)

    def __init__(self) -> None:
        numbers = count(1)
        self._numbers = defaultdict[bytes, bytes](lambda: b"#%d" % next(numbers))

    def rewrite(self, text: bytes) -> bytes:
        """The text with numbers for addresses and without times and thread ids.

        Args:
            text: Whole lines.
        """
        # A plain look first, where most logs have none: a search for a text is far faster than one for an expression.
        if text.startswith(b"20") or b"\n20" in text:
            text = self._STAMP.sub(b"", text)
        if b"Thread " in text:
            text = self._THREAD.sub(b"Thread ", text)
        parts = self._ADDRESS.split(self._HEADER.sub(rb"\1 ", text))
        parts[1::2] = map(self._numbers.__getitem__, parts[1::2])
        return b"".join(parts)
