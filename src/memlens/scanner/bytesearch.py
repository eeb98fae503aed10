"""Find texts in blocks of bytes at memory speed, with NumPy and without the interpreter lock."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PIECE", "Plan", "count_lines", "line_end_after", "line_start_before", "lines_before", "marks", "pieces"]

#: Bytes compared at once: a piece and its marks stay in the second-level cache while several passes go over them.
PIECE = 1 << 19
#: Bytes of a block looked at to learn which bytes are rare in it.
_SAMPLE = 16 << 10
_NEWLINE = 0x0A
#: With more bytes than this to a position, the line ends before it are counted and not found.
_WORTH_A_COUNT = 1 << 14


class Plan(NamedTuple):
    """Which byte to look for, and which texts to check where it stands: ``(byte, ((text, place of the byte in it), …))``."""

    steps: tuple[tuple[int, tuple[tuple[bytes, int], ...]], ...]

    @classmethod
    def of(cls, texts: Sequence[bytes], block: NDArray[np.uint8]) -> Plan:
        """The cheapest way to find the texts in a block like this one: few passes, over bytes that are rare in it."""
        frequency = _frequencies(block)
        left = list(dict.fromkeys(texts))
        steps = []
        while left:
            # A pass costs as much as a closer look at one byte in twenty; a byte that several texts share saves passes.
            costs = {b: (0.05 + frequency[b]) / sum(b in text for text in left) for b in sorted(set(b"".join(left)))}
            byte = min(costs, key=costs.__getitem__)
            steps.append((byte, tuple((text, text.index(byte)) for text in left if byte in text)))
            left = [text for text in left if byte not in text]
        return cls(tuple(steps))

    def positions(self, piece: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Where one of the texts begins, int64, in no order."""
        found = []
        for byte, texts in self.steps:
            places = marks(piece, byte).nonzero()[0]
            if len(places):
                found += [_check(piece, places - place, text) for text, place in texts]
        return np.concatenate(found) if found else np.zeros(0, np.int64)


def _frequencies(block: NDArray[np.uint8]) -> list[float]:
    """The share of each byte value in a block, judged by three samples of it."""
    size = _SAMPLE // 3
    starts = [0] if len(block) <= _SAMPLE else [0, (len(block) - size) // 2, len(block) - size]
    sample = np.concatenate([block[start : start + (_SAMPLE if len(starts) == 1 else size)] for start in starts])
    shares: list[float] = (np.bincount(sample, minlength=256) / len(sample)).tolist()
    return shares


def _check(piece: NDArray[np.uint8], starts: NDArray[np.int64], text: bytes) -> NDArray[np.int64]:
    """Those of the starts where the text stands, int64."""
    starts = starts[(starts >= 0) & (starts <= len(piece) - len(text))]
    # First the first eight bytes as one word: it rules out nearly everything, at a few nanoseconds a start.
    for begin, width in _words(len(text)):
        if not len(starts):
            break
        word = np.frombuffer(text, f"<u{width}", 1, begin)[0]
        # One row for each position of the piece, rows overlap; only the rows at the starts are ever gathered.
        windows = np.ndarray((len(piece) - width + 1,), f"V{width}", piece, 0, (1,))
        starts = starts[windows[starts + begin].view(f"<u{width}") == word]
    return starts


def _words(length: int) -> Iterator[tuple[int, int]]:
    """Cut a length into words of 8, 4, 2 and 1 bytes: ``(begin, width)``."""
    begin = 0
    while begin < length:
        width = next(w for w in (8, 4, 2, 1) if w <= length - begin)
        yield begin, width
        begin += width


class _Scratch(threading.local):
    """Marks of one piece, kept a thread: a fresh array would cost a page fault every 4 KiB."""

    def __init__(self) -> None:
        self.marks = np.empty(PIECE, np.bool_)


_scratch = _Scratch()


def marks(piece: NDArray[np.uint8], byte: int) -> NDArray[np.bool_]:
    """Where a byte stands, bool, one entry a byte of the piece; good until the next call in this thread."""
    if len(piece) <= PIECE:
        found = _scratch.marks[: len(piece)]
        np.equal(piece, np.uint8(byte), out=found)
        return found
    longer: NDArray[np.bool_] = piece == np.uint8(byte)  # a line of megabytes
    return longer


def pieces(block: NDArray[np.uint8]) -> Iterator[tuple[int, int]]:
    """Cut a block into pieces of whole lines, of about :data:`PIECE` bytes; longer only where a line is."""
    begin = 0
    while begin < len(block):
        end = min(begin + PIECE, len(block))
        if end < len(block):
            end = line_start_before(block, begin, end) or line_end_after(block, end)
        yield begin, end
        begin = end


def line_start_before(block: NDArray[np.uint8], begin: int, end: int) -> int:
    """The position after the last line end in ``begin … end``, or 0."""
    step = 1024
    while begin < end:
        low = max(end - step, begin)
        at = block[low:end].tobytes().rfind(b"\n")
        if at >= 0:
            return low + at + 1
        end = low
        step *= 4
    return 0


def line_end_after(block: NDArray[np.uint8], position: int) -> int:
    """The position after the first line end from ``position`` on, or the length of the block."""
    step = 1024
    while position < len(block):
        at = block[position : position + step].tobytes().find(b"\n")
        if at >= 0:
            return position + at + 1
        position += step
        step *= 4
    return len(block)


def lines_before(block: NDArray[np.uint8], positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of line ends before each of the rising positions, int64."""
    if len(positions) * _WORTH_A_COUNT < len(block):
        # Counting the line ends between positions is several times faster than finding each of them.
        parts = np.split(block[: positions[-1]], positions[:-1])
        return np.cumsum([count_lines(part) for part in parts])
    counts = np.empty(len(positions), np.int64)
    before = done = 0
    last = int(positions[-1])
    for begin in range(0, last + 1, PIECE):
        piece = block[begin : begin + PIECE]
        upto = int(np.searchsorted(positions, begin + len(piece)))
        ends = marks(piece, _NEWLINE).nonzero()[0] + begin
        counts[done:upto] = before + np.searchsorted(ends, positions[done:upto])
        before, done = before + len(ends), upto
    return counts


def count_lines(block: NDArray[np.uint8]) -> int:
    """Line ends in a block."""
    return sum(
        int(np.count_nonzero(marks(block[begin : begin + PIECE], _NEWLINE))) for begin in range(0, len(block), PIECE)
    )
