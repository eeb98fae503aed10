"""The glog headers before many messages, read together.

A header is ``I1120 10:22:32.856307 13292 file.cc:270] ``.  In one log the text between the thread id and the message (the
*gap*, ``" file.cc:270] "``) is one of a few.  So the reader learns gaps: the regular expression reads one header, and all rows
with the very same gap before their message are then read by word arithmetic.  What fits no gap, or is not as regular as glog
writes it, goes through the regular expression, so the result is always the expression's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from memlens.inputs.paddle.events import HEADER
from memlens.inputs.paddle.plain import header_before
from memlens.inputs.paddle.swar import as_word, decimal_before, gather
from memlens.inputs.paddle.times import DAYS_BEFORE_MONTH, days_since_1970, microseconds

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["HeaderReader", "Headers", "header_threads"]

_GAP_BYTES = 64
_MOST_GAPS = 64
#: Nearly all names of source files are shorter.
_USUAL_FILE = 32
#: Text before a message that the regular expression looks at.
_REACH = 400
_RAW_HEADER = re.compile(HEADER.regex.encode() + rb"(?:\x1b\[[0-9;?]*[ -/]*[@-~]|[ \t])*\Z")
_LEVELS = np.zeros(256, np.bool_)
_LEVELS[list(b"IWEF")] = True
_DIGITS = np.zeros(256, np.bool_)
_DIGITS[list(b"0123456789")] = True
_DAYS_BEFORE_MONTH = np.array(DAYS_BEFORE_MONTH, np.int64)
_HIGH = np.uint64(0x8080808080808080)
_LOW7 = np.uint64(0x7F7F7F7F7F7F7F7F)


@dataclass(frozen=True)
class Headers:
    """What the headers say, one entry a message, int64; -1 where there is no header.

    ``begin`` is the position of the header's first character, -1 where unknown or of no use.
    """

    thread: NDArray[np.int64]
    time_us: NDArray[np.int64] | None
    begin: NDArray[np.int64]


@dataclass(frozen=True)
class _Gap:
    """A gap as words: its 64 bytes up to the message, those before it masked out; most telling word first."""

    text: bytes
    words: tuple[tuple[int, np.uint64, np.uint64], ...]

    @classmethod
    def of(cls, text: bytes) -> _Gap:
        padded, mask = text.rjust(_GAP_BYTES, b"\0"), (b"\xff" * len(text)).rjust(_GAP_BYTES, b"\0")
        words = [
            (k, as_word(padded[8 * k : 8 * k + 8]), as_word(mask[8 * k : 8 * k + 8]))
            for k in range(_GAP_BYTES // 8 - 1, -1, -1)
            if any(mask[8 * k : 8 * k + 8])
        ]
        return cls(text, tuple(words))

    def matches(self, tails: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which rows of ``tails`` (uint64, (n, 8): the 64 bytes before each message) end with this gap."""
        same = np.ones(len(tails), np.bool_)
        for column, word, mask in self.words:
            same &= (tails[:, column] if mask == ~np.uint64(0) else tails[:, column] & mask) == word
        return same


class HeaderReader:
    """Reads headers; keeps the gaps it has learned, so one reader serves one log (and all threads that read it)."""

    def __init__(self) -> None:
        self._gaps: tuple[_Gap, ...] = ()

    def read(self, block: NDArray[np.uint8], starts: NDArray[np.int64], *, times: bool = False) -> Headers:
        """The headers that end right where the messages start.

        Args:
            block: uint8; must have 128 bytes before the first start.
            starts: Where the messages begin, int64.
            times: Read the time stamps too.
        """
        n = len(starts)
        found = Headers(np.full(n, -1, np.int64), np.full(n, -1, np.int64) if times else None, np.full(n, -1, np.int64))
        if not n:
            return found
        # uint64 (n, 8): the 64 characters before each message; and how many of them are its gap, 0 where none is known.
        tails = gather(block, starts - _GAP_BYTES, _GAP_BYTES)
        lengths = np.zeros(n, np.int64)
        for gap in self._gaps:
            np.copyto(lengths, len(gap.text), where=gap.matches(tails))
        unknown = np.flatnonzero(lengths == 0)
        if len(unknown):
            unknown = unknown[_may_follow_header(block, starts[unknown])]
            self._learn(block, starts, tails, lengths, unknown, found)
        known = np.flatnonzero(lengths)
        every = len(known) == n
        ends = starts - lengths if every else (starts - lengths)[known]
        irregular = _read_regular(block, ends, None if every else known, found)
        _read_plainly(block, starts, irregular, found)
        return found

    def _learn(
        self,
        block: NDArray[np.uint8],
        starts: NDArray[np.int64],
        tails: NDArray[np.uint64],
        lengths: NDArray[np.int64],
        rows: NDArray[np.int64],
        found: Headers,
    ) -> None:
        """Learn the gaps of rows that fit none yet, and fill in their lengths; read what cannot be learned right away."""
        while len(rows):
            text = _gap_before(block, int(starts[rows[0]]))
            if text is None or len(self._gaps) >= _MOST_GAPS:
                _read_plainly(block, starts, rows[:1], found)
                rows = rows[1:]
                continue
            gap = _Gap.of(text)
            self._gaps = (*self._gaps, gap)
            same = gap.matches(tails[rows])
            lengths[rows[same]] = len(text)
            rows = rows[~same]


def header_threads(block: NDArray[np.uint8], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The threads of the headers that end right where messages start, int64; -1 where none does.

    The same as :meth:`HeaderReader.read` gives, for messages of so many source lines that learning their gaps does not pay.
    The gap is found by the characters that end it instead: ``:270]`` and the blank before the file's name.

    Args:
        block: uint8; must have 128 bytes before the first start.
        starts: Where the messages begin, int64.
    """
    found = Headers(np.full(len(starts), -1, np.int64), None, np.full(len(starts), -1, np.int64))
    rows = np.flatnonzero(_may_follow_header(block, starts)) if len(starts) else starts
    if not len(rows):
        return found.thread
    bracket = starts[rows] - np.where(block[starts[rows] - 1] == 0x5D, 1, 2)
    _, digits = decimal_before(block, bracket)
    colon = bracket - digits - 1
    usual = (block[bracket] == 0x5D) & (digits >= 1) & (digits < 16) & (block[colon] == 0x3A)
    length = _file_name_length(block, colon, _USUAL_FILE)
    if (longer := np.flatnonzero(usual & (length < 0))).size:
        length[longer] = _file_name_length(block, colon[longer], _GAP_BYTES)
    ends = colon - length - 1
    fine = usual & (length >= 1) & (block[ends] == 0x20)
    irregular = _read_regular(block, ends[fine], rows[fine], found)
    # What is not as glog writes it may still be a header: with a colour in it, other blanks, a very long name, or one that holds
    # control characters.
    rest = np.flatnonzero(~fine)
    colours = (gather(block, bracket[rest] - _GAP_BYTES, _GAP_BYTES).view(np.uint8) == 0x1B).any(axis=1)
    doubtful = colours | (block[bracket[rest]] != 0x5D) | (digits[rest] >= 16)
    doubtful |= usual[rest] & ((length[rest] < 0) | (block[ends[rest]] < 0x20))
    _read_plainly(block, starts, np.concatenate((irregular, rows[rest[doubtful]])), found)
    return found.thread


def _file_name_length(block: NDArray[np.uint8], colons: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """How many characters that a file's name may have stand right before each colon; -1 where ``width`` or more do."""
    text = gather(block, colons - width, width).view(np.uint8).reshape(-1, width)
    # One number a row, a bit a character, the last character lowest: which ones no name has.
    outside = np.packbits((text <= 0x20) | (text == 0x3A) | (text == 0x5D), axis=1).view(f">u{width // 8}")[:, 0]
    outside = outside.astype(np.int64)  # the highest bit becomes the sign, which is a power of two as well
    length: NDArray[np.int64] = np.frexp((outside & -outside).astype(np.float64))[1] - 1  # the number of the lowest bit
    return length


def _may_follow_header(block: NDArray[np.uint8], starts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """False where the characters before a message rule out a header: neither ``:270] `` nor blanks nor a colour stand there."""
    one, two, three = block[starts - 1], block[starts - 2], block[starts - 3]
    usual = (one == 0x20) & (two == 0x5D)
    unusual = (
        (one == 0x5D)
        | (one == 0x09)
        | (one == 0x6D)
        | ((one == 0x20) & ((two == 0x20) | (two == 0x09) | (two == 0x6D)))
    )
    # A colour may stand before the bracket too; `m` is rare enough there to ask the regular expression.
    may: NDArray[np.bool_] = (usual & (_DIGITS[three] | (three == 0x6D))) | unusual
    return may


def _gap_before(block: NDArray[np.uint8], start: int) -> bytes | None:
    """The gap before one message, or ``None`` where no plain header of a usable length stands there."""
    match = _RAW_HEADER.search(_text_before(block, start))
    if match is None:
        return None
    gap = match.string[match.end("thread") :]
    return gap if len(gap) <= _GAP_BYTES else None


def _text_before(block: NDArray[np.uint8], start: int) -> bytes:
    """The text of the line before a position, as far as the regular expression looks."""
    text = block[max(start - _REACH, 0) : start].tobytes()
    return text[text.rfind(b"\n") + 1 :]


def _read_plainly(block: NDArray[np.uint8], starts: NDArray[np.int64], rows: NDArray[np.int64], found: Headers) -> None:
    """Read rows one by one, by the regular expression: the few that are not as regular as the others."""
    for row in rows.tolist():
        header = header_before(_text_before(block, int(starts[row])))
        if header is not None:
            found.thread[row] = int(header["thread"])
            if found.time_us is not None:
                found.time_us[row] = microseconds(header["date"], header["time"])


def _read_regular(
    block: NDArray[np.uint8], ends: NDArray[np.int64], rows: NDArray[np.int64] | None, found: Headers
) -> NDArray[np.int64]:
    """Read the rows whose header is just as glog writes it; give back the other ones.

    The thread id is one to seven digits, right-justified to five; one blank; a time stamp of 15 characters; one blank; a date of
    four or eight digits after a level letter.

    Args:
        block: The text.
        ends: Where the thread ids end, int64.
        rows: Where in ``found`` each belongs, int64; ``None`` where these are all rows.
        found: What is filled in.
    """
    thread, width = decimal_before(block, ends)
    stamp_end = ends - np.maximum(width, 5) - 1
    # uint64 (n, 4): the 24 characters before the end of the stamp, "...I1120 | hh:mm:s|s.uuuuuu", and the eight after it
    words = gather(block, stamp_end - 24, 32)
    date, after = words[:, 0], words[:, 3]
    first = words[:, 1] ^ as_word(b" 00:00:0")
    second = words[:, 2] ^ as_word(b"0.000000")
    bad = _off(first, b" dd:dd:d")
    bad |= _off(second, b"d.dddddd")
    # Blanks pad the id to five: as many of the characters after the stamp as the id leaves free must be blanks.
    bad |= (after ^ _EIGHT_BLANKS) & _BLANKS[np.maximum(6 - width, 1)]
    levels = words.view(np.uint8)[:, 3]  # the character before mmdd
    is_short = _LEVELS[levels] & (_off((date ^ _ZEROS) & _UPPER_HALF, b"    dddd") == 0)
    fine = (bad == 0) & (width >= 1) & (width <= 7)
    is_long = None
    if not is_short.all():  # glog 0.5 and later stamp the year too
        is_long = _LEVELS[block[stamp_end - 25]] & (_off(date ^ _ZEROS, b"dddddddd") == 0)
        fine &= is_short | is_long
    begin = stamp_end - (21 if is_long is None else np.where(is_short, 21, 25))
    columns = [(found.thread, thread), (found.begin, begin)]
    if found.time_us is not None:
        columns.append((found.time_us, _microseconds(date, first, second, is_long)))
    if fine.all():
        for column, values in columns:
            column[slice(None) if rows is None else rows] = values
        return ends[:0]
    rows = np.arange(len(ends)) if rows is None else rows
    for column, values in columns:
        column[rows[fine]] = values[fine]
    irregular: NDArray[np.int64] = rows[~fine]
    return irregular


_ZEROS = as_word(b"0" * 8)
_UPPER_HALF = np.uint64(0xFFFFFFFF00000000)
_EIGHT_BLANKS = as_word(b" " * 8)
#: For 0 to 6 blanks, the mask of as many characters.
_BLANKS = np.array([(1 << 8 * count) - 1 for count in range(7)], np.uint64)


def _off(values: NDArray[np.uint64], shape: bytes) -> NDArray[np.uint64]:
    """Non-zero where a character is not as ``shape`` wants it: ``d`` a digit (0-9 after the exclusive-or), else exactly 0."""
    limit = as_word(bytes(0x76 if wanted == ord("d") else 0x7F for wanted in shape))
    return (((values & _LOW7) + limit) | values) & _HIGH


def _microseconds(
    date: NDArray[np.uint64], first: NDArray[np.uint64], second: NDArray[np.uint64], is_long: NDArray[np.bool_] | None
) -> NDArray[np.int64]:
    """Time stamps from the words of :func:`_read_regular`, as :func:`memlens.inputs.paddle.times.microseconds` gives them."""

    def digit(word: NDArray[np.uint64], index: int) -> NDArray[np.int64]:
        return ((word >> np.uint64(8 * index)) & np.uint64(0x0F)).view(np.int64)

    # The digits of the second word, "s.uuuuuu", as one number of seven digits: seconds and microseconds together.
    tail = digit(second, 0) * 1_000_000
    for place, index in enumerate(range(7, 1, -1)):
        tail += digit(second, index) * 10**place
    minutes = (digit(first, 1) * 10 + digit(first, 2)) * 60 + digit(first, 4) * 10 + digit(first, 5)
    # mmdd stands in bytes 4-7 whether a year precedes it or not.
    month = digit(date, 4) * 10 + digit(date, 5)
    day = digit(date, 6) * 10 + digit(date, 7)
    real = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    days = _DAYS_BEFORE_MONTH[np.where(real, month, 0)] + day - 1
    if is_long is not None:
        year = digit(date, 0) * 1000 + digit(date, 1) * 100 + digit(date, 2) * 10 + digit(date, 3)
        days = np.where(is_long, days_since_1970(year, month, day), days)
    return np.where(real, (days * 1440 + minutes) * 60_000_000 + digit(first, 7) * 10_000_000 + tail, -1)
