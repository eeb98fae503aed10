"""Lines that may mark the work of a run, found while a log is read: those that begin at the margin and say START, STEP, EPOCH and the like.

One scan of each block for a handful of words costs a few hundredths of what reading it costs, and then the text need not be gone
through again (a pipe cannot be).  Which of these lines count the steps of a run is judged in :mod:`memlens.windows.anchor_discovery`.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens import native
from memlens.scanner import Scanner
from memlens.scanner.formats import LineFormat
from memlens.scanner.plain import Scan
from memlens.windows.patterns import Match, Pattern, clean_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from memlens.columns import Flags, Ints


#: Anchors are no longer than this; of a longer line one byte more is kept, so that it is known for one.
LONGEST_LINE = 400
#: … with their colours.
_LONGEST_RAW = 4096
#: Landmarks that are kept of one block of the text, and of one log: each is looked at by itself.
_MOST_OF_BLOCK, MOST_LANDMARKS = 2000, 400_000

#: Texts that an anchor holds most often; lines with such a word are told from all others.
_LOWER = b"start begin step epoch iter batch round request sample"
#: … in lower and upper case and with a capital; "end" stands in many words.
_WORDS = (*_LOWER.split(), *_LOWER.upper().split(), *_LOWER.title().split(), b"END", b"End")
_ANY_WORD = b"|".join(_WORDS)
#: Finds these words, each once a line.
WORD_SCANS = tuple(
    Scan(LineFormat(word.decode(), "", word, word.decode(), {}), once=True, values=()) for word in _WORDS
)


class Landmarks(NamedTuple):
    """Lines of one log that may mark its work, in file order.

    Attributes:
        offsets: Where they begin, byte offsets in the uncompressed input.
        lines: Their 1-based numbers.
        texts: Their clean texts (:func:`~memlens.windows.patterns.clean_line`), cut to :data:`LONGEST_LINE` bytes and one.
        complete: These are all there are; a log that is full of them has more.
    """

    offsets: tuple[int, ...] = ()
    lines: tuple[int, ...] = ()
    texts: tuple[bytes, ...] = ()
    complete: bool = True

    def and_then(self, later: Iterable[Landmarks]) -> Landmarks:
        """These and those of what follows in the log, up to as many as are kept of one."""
        parts = [self, *later]
        count = sum(len(part.offsets) for part in parts)
        return Landmarks(
            tuple(islice((offset for part in parts for offset in part.offsets), MOST_LANDMARKS)),
            tuple(islice((line for part in parts for line in part.lines), MOST_LANDMARKS)),
            tuple(islice((text for part in parts for text in part.texts), MOST_LANDMARKS)),
            count <= MOST_LANDMARKS and all(part.complete for part in parts),
        )

    def matches(self, pattern: Pattern) -> list[Match]:
        """Those that match a pattern."""
        rows = zip(self.offsets, self.lines, map(pattern.name_in, self.texts), strict=True)
        return [Match(offset, line, name) for offset, line, name in rows if name is not None]


def landmarks_in_block(block: NDArray[np.uint8], offset: int, first_line: int = 0) -> Landmarks:
    """The landmarks of one block.

    Args:
        block: uint8; whole lines.
        offset: Byte offset of the block in the input.
        first_line: The number of the block's first line, which theirs are counted from.
    """
    if words_are_scanned():
        rows = word_scanner().scan(block, 0, len(block))
        return landmarks_at(block, rows.line_start, rows.line + first_line, offset)
    # Each word looked for by itself takes longer than a look at the lines at the margin.
    starts = np.append(0, np.flatnonzero(block == ord("\n")) + 1)
    starts = starts[starts < len(block)]
    text, lines = block.tobytes(), np.flatnonzero(at_margin(block, starts))
    ends = np.append(starts[1:], len(block))
    spans = zip(lines.tolist(), starts[lines].tolist(), ends[lines].tolist(), strict=True)
    holds_word = re.compile(_ANY_WORD).search
    held = np.array([line for line, low, high in spans if holds_word(text, low, high)], np.int64)
    return landmarks_at(block, starts[held], held + first_line, offset)


def landmarks_at(block: NDArray[np.uint8], starts: Ints, lines: Ints, offset: int) -> Landmarks:
    """The same where a reader has looked for their words (:data:`WORD_SCANS`) in a scan of its own.

    Args:
        block: uint8; up to the end of the text.
        starts: Where lines begin that hold a word, positions in the block, int64, rising; several times where they hold several words.
        lines: Their numbers, int64.
        offset: Byte offset in the input of the block's first byte.
    """
    starts, first = np.unique(starts, return_index=True)
    kept = at_margin(block, starts)
    starts, lines = starts[kept], lines[first][kept]
    offsets = starts[:_MOST_OF_BLOCK] + offset
    texts = (_text(block, start) for start in starts[:_MOST_OF_BLOCK].tolist())
    complete = len(starts) <= _MOST_OF_BLOCK
    return Landmarks(tuple(offsets.tolist()), tuple(lines[:_MOST_OF_BLOCK].tolist()), tuple(texts), complete)


def _text(block: NDArray[np.uint8], start: int) -> bytes:
    line = block[start : start + _LONGEST_RAW].tobytes().partition(b"\n")[0]
    return clean_line(line)[: LONGEST_LINE + 1]


def words_are_scanned() -> bool:
    """Whether many words are looked for at once at little cost: by the compiled scanner."""
    return native.load("memlens.scanner._scan") is not None


@cache
def word_scanner() -> Scanner:
    """Finds the words of anchors."""
    return Scanner(WORD_SCANS)


def _margins() -> Flags:
    """Which two bytes a line may begin with, bool, 65,536 entries by the first byte times 256 plus the second."""
    first = np.zeros(256, np.bool_)
    first[list(b"[({#=*-<>_+~| \t\x1b")] = True
    for byte in range(128):
        first[byte] |= chr(byte).isalnum()
    first[128:] = True  # letters of other scripts
    table = np.repeat(first, 256).reshape(256, 256)
    table[[[byte] for byte in b"IWEF"], list(b"0123456789")] = False  # glog
    return table.reshape(-1)


_MARGINS = _margins()


def at_margin(block: NDArray[np.uint8], starts: Ints) -> Flags:
    """Which of some lines begin like an anchor: with text, a bracket or blanks, without a header of the framework; bool."""
    two = block[starts].astype(np.uint16) << 8 | block[np.minimum(starts + 1, len(block) - 1)]
    fits: Flags = _MARGINS[two]
    return fits
