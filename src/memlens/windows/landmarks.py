"""Lines that may mark the work of a run, found while a log is read: those that begin at the margin, as what a program prints does.

Where the log itself is full of such lines, only those are kept that say START, STEP, EPOCH, loss and the like.  To look for the beginnings of
lines costs a hundredth of what reading a block costs, and then the text need not be gone through again (a pipe cannot be).  Which of
these lines mark the steps of a run is judged in :mod:`memlens.windows.anchor_discovery`.
"""

from __future__ import annotations

from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens.columns import among
from memlens.native import load
from memlens.scanner import Scanner
from memlens.scanner.formats import LineFormat
from memlens.scanner.plain import Scan
from memlens.windows.patterns import Match, Pattern, clean_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from memlens.columns import Flags, Ints


_native = load("memlens.scanner._scan")

#: Anchors are no longer than this; of a longer line one byte more is kept, so that it is known for one.
LONGEST_LINE = 400
#: … with their colours.
_LONGEST_RAW = 4096
#: Landmarks that are kept of one block of the text, and of one log: each is looked at by itself.
_MOST_OF_BLOCK, MOST_LANDMARKS = 2000, 400_000
#: All lines at the margin are kept of a block that has few of them, or where they are at most one in so many, if there is room for them.
_FEW, _SPARSE = 100, 10
#: Lines at the margin that there is room for at first.
_ROOM = 512

#: Texts that an anchor holds most often; lines with such a word are told from all others.
_LOWER = b"start begin step epoch iter batch round request sample loss"
#: … in lower and upper case and with a capital; "end" stands in many words; bars tell their pace.
_WORDS = (*_LOWER.split(), *_LOWER.upper().split(), *_LOWER.title().split(), b"END", b"End", b"it/s", b"s/it")


class Landmarks(NamedTuple):
    """Lines of one log that may mark its work, in file order.

    Attributes:
        offsets: Where they begin, byte offsets in the uncompressed input.
        lines: Their 1-based numbers.
        texts: Their clean texts (:func:`~memlens.windows.patterns.clean_line`), cut to :data:`LONGEST_LINE` bytes and one.
        complete: These are all there are; a log that is full of them has more.
        thinned: In a part of the log that is full of other lines only those with a word of anchors were kept.
    """

    offsets: tuple[int, ...] = ()
    lines: tuple[int, ...] = ()
    texts: tuple[bytes, ...] = ()
    complete: bool = True
    thinned: bool = False

    def and_then(self, later: Iterable[Landmarks]) -> Landmarks:
        """These and those of what follows in the log, up to as many as are kept of one."""
        parts = [self, *later]
        count = sum(len(part.offsets) for part in parts)
        return Landmarks(
            tuple(islice((offset for part in parts for offset in part.offsets), MOST_LANDMARKS)),
            tuple(islice((line for part in parts for line in part.lines), MOST_LANDMARKS)),
            tuple(islice((text for part in parts for text in part.texts), MOST_LANDMARKS)),
            count <= MOST_LANDMARKS and all(part.complete for part in parts),
            any(part.thinned for part in parts),
        )

    def matches(self, pattern: Pattern) -> list[Match]:
        """Those that match a pattern."""
        rows = zip(self.offsets, self.lines, map(pattern.name_in, self.texts), strict=True)
        return [Match(offset, line, name) for offset, line, name in rows if name is not None]


def landmarks_in_block(block: NDArray[np.uint8], offset: int, first_line: int = 0) -> Landmarks:
    """The landmarks of one block: all lines at the margin, or, where these are very many, those of them with a word of anchors.

    Args:
        block: uint8; whole lines.
        offset: Byte offset of the block in the input.
        first_line: The number of the block's first line, which theirs are counted from.
    """
    starts, lines, every = lines_at_margin(block)
    thinned = len(lines) > min(_MOST_OF_BLOCK, max(_FEW, every // _SPARSE))
    if thinned:
        kept = among(lines, word_scanner().scan(block, 0, len(block)).line)
        starts, lines = starts[kept], lines[kept]
    complete, starts, lines = len(lines) <= _MOST_OF_BLOCK, starts[:_MOST_OF_BLOCK], lines[:_MOST_OF_BLOCK]
    raw = (block[start : start + _LONGEST_RAW].tobytes().partition(b"\n")[0] for start in starts.tolist())
    texts = [clean_line(text)[: LONGEST_LINE + 1] for text in raw]
    return Landmarks(
        tuple((starts + offset).tolist()), tuple((lines + first_line).tolist()), tuple(texts), complete, thinned
    )


def holds_word(text: bytes) -> bool:
    """Whether a text has a word of anchors."""
    return any(word in text for word in _WORDS)


@cache
def word_scanner() -> Scanner:
    """Finds the words of anchors."""
    return Scanner(
        [Scan(LineFormat(word.decode(), "", word, word.decode(), {}), once=True, values=()) for word in _WORDS]
    )


def _margins() -> Flags:
    """Which two bytes a line may begin with, bool, 65,536 entries by the first byte times 256 plus the second."""
    first = np.zeros(256, np.bool_)
    first[list(b"[({#=*-<>_+~|' \t\r\b\x1b")] = True
    for byte in range(128):
        first[byte] |= chr(byte).isalnum()
    first[128:] = True  # letters of other scripts
    table = np.repeat(first, 256).reshape(256, 256)
    table[[[byte] for byte in b"IWEF"], list(b"0123456789")] = False  # glog
    table[ord("\r"), ord("\n")] = False
    return table.reshape(-1)


_MARGINS = _margins()


def at_margin(block: NDArray[np.uint8], starts: Ints) -> Flags:
    """Which of some lines begin like an anchor: with text, a bracket or blanks, without a header of the framework; bool."""
    two = block[starts].astype(np.uint16) << 8 | block[np.minimum(starts + 1, len(block) - 1)]
    fits: Flags = _MARGINS[two]
    return fits


def lines_at_margin(block: NDArray[np.uint8]) -> tuple[Ints, Ints, int]:
    """Where the lines begin that do so, their numbers from 0 (both int64), and how many lines there are in all."""
    if _native is None:
        return reference_lines_at_margin(block)
    rows, counts = np.empty((_ROOM, 2), np.int64), np.zeros(2, np.int64)
    _native.lines_that_begin(block, _MARGINS, rows, counts)
    count, every = counts.tolist()
    if count > len(rows):
        rows = np.empty((count, 2), np.int64)
        _native.lines_that_begin(block, _MARGINS, rows, counts)
    return rows[:count, 0], rows[:count, 1], every


def reference_lines_at_margin(block: NDArray[np.uint8]) -> tuple[Ints, Ints, int]:
    """The reference implementation of :func:`lines_at_margin`."""
    starts = np.append(0, np.flatnonzero(block == ord("\n")) + 1)
    starts = starts[starts < len(block)]
    lines = np.flatnonzero(at_margin(block, starts))
    return starts[lines], lines, len(starts)
