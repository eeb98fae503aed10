"""Rows of RMM's CSV log: what one looks like, and how the rows of a block are read together.

::

    Thread,Time,Action,Pointer,Size,Stream
    5563,10:29:36.035616,allocate,0x55639e0c6630,256,0
    5563,10:29:36.035619,free,0x55639e0c6630,256,0
    5563,10:29:36.035534,allocate failure,(nil),2147483648,0

:data:`ROW` is the definition, and covers what ten years of RMM have written: without a thread (0.13), with a colon before the microseconds
(until 2021), pointers and streams as ``0x…``, ``(nil)`` or a number.  Rows may stand amid other text, one a line, after any prefix that
does not end in a word character.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from memlens.facts import Kind
from memlens.inputs.paddle.events import MAX_SIZE
from memlens.inputs.paddle.swar import as_word, decimal_after, decimal_before, gather, hexadecimal_after
from memlens.scanner.bytesearch import Plan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Positions = NDArray[np.int64]
    Text = NDArray[np.uint8]

__all__ = ["FAILURE", "HEADER", "ROW", "Rows", "read_row", "read_rows"]

#: The kind of a row that tells of an allocation that failed; it is no event.
FAILURE = -1

HEADER = re.compile(rb"(?m)^(?:Thread,)?Time,Action,Pointer,Size,Stream\s*$")
#: One line, without its end.
ROW = re.compile(
    rb"(?:.*?\W)??"
    rb"(?:(?P<thread>[0-9]{1,15}),)?"
    rb"(?P<time>[0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}[.:][0-9]{1,6}|[0-9]{1,15}(?:\.[0-9]{1,9})?)"
    rb",(?P<action>allocate failure|allocate|free|deallocate)"
    rb",(?P<pointer>0x[0-9a-f]{1,16}|\(nil\)|[0-9]{1,15})"
    rb",(?P<size>[0-9]{1,15})"
    rb",(?P<stream>0x[0-9a-f]{1,15}|\(nil\)|[0-9]{1,15})[ \t]*",
    re.DOTALL,
)
#: What follows the time of a row; its comma is what is looked for.
_ACTIONS = (b",allocate,", b",allocate failure,", b",free,", b",deallocate,")
_KINDS = {b"allocate": Kind.ALLOC, b"free": Kind.FREE, b"deallocate": Kind.FREE, b"allocate failure": FAILURE}
_STAMP = 15  # characters of 10:29:36.035616
_MOST_DIGITS = 15


@dataclass(frozen=True)
class Rows:
    """Rows of one block, in order.

    Attributes:
        at: Where the comma before the action stands, int64.
        kind: :class:`Kind`, or :data:`FAILURE`, int8.
        size: Bytes, int64.
        addr: Pointer, uint64.
        time_us: Microseconds since midnight, or as written; int64.
        thread: int64, -1 where there is none.
        stream: int64.
        malformed: Where such a comma stands in a line that looks like a row and is none, int64.
    """

    at: Positions
    kind: NDArray[np.int8]
    size: NDArray[np.int64]
    addr: NDArray[np.uint64]
    time_us: NDArray[np.int64]
    thread: NDArray[np.int64]
    stream: NDArray[np.int64]
    malformed: Positions


def read_row(line: bytes) -> tuple[int, int, int, int, int, int] | None:
    """One line as ``(kind, size, addr, time_us, thread, stream)``; ``None`` where it is no row."""
    found = ROW.fullmatch(line)
    if found is None:
        return None
    size = int(found["size"])
    if size > MAX_SIZE:
        return None
    time = _time(found["time"])
    thread = int(found["thread"]) if found["thread"] else -1
    return _KINDS[found["action"]], size, _number(found["pointer"]), time, thread, _number(found["stream"])


def _number(text: bytes) -> int:
    return 0 if text == b"(nil)" else int(text, 0) if text.startswith(b"0x") else int(text)


def _time(text: bytes) -> int:
    """Microseconds: of a time of day since midnight, of seconds as they are."""
    if b":" not in text:
        seconds, _, fraction = text.partition(b".")
        return int(seconds) * 10**6 + int(fraction[:6].ljust(6, b"0"))
    hours, minutes, seconds, fraction = re.split(rb"[:.]", text)
    whole = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
    return whole * 10**6 + int(fraction.ljust(6, b"0"))


def read_rows(block: Text, begin: int, end: int) -> Rows:
    """Read the rows between two positions of a block.

    Args:
        block: uint8, with line ends before ``begin`` and after ``end``, enough for any look around.
        begin: Position of the first byte of the first line.
        end: Position after the last line.
    """
    text = block[begin:end]
    at = np.sort(Plan.of(_ACTIONS, text).positions(text)) + begin if end > begin else np.zeros(0, np.int64)
    at = at[_is_digit(block[at - 1])]  # a time comes before it
    kind, pointer = _actions(block, at)
    addr, pointer_end, fine = _pointers(block, pointer)
    fine &= block[pointer_end] == ord(",")
    size, digits = decimal_after(block, pointer_end + 1)
    fine &= (digits >= 1) & (digits <= _MOST_DIGITS) & (size <= MAX_SIZE)
    size_end = pointer_end + 1 + np.minimum(digits, _MOST_DIGITS)
    fine &= block[size_end] == ord(",")
    stream, stream_end, stream_fine = _pointers(block, size_end + 1)
    stream_end += block[stream_end] == ord("\r")
    fine &= stream_fine & (stream < np.uint64(1 << 60)) & (block[stream_end] == 0x0A)
    time, thread, stamped = _stamps(block, at)
    fine &= stamped
    rows = Rows(at, kind, size, addr, time, thread, stream.view(np.int64), at[:0])
    return _with_odd_rows(block, rows, fine)


def _actions(block: Text, at: Positions) -> tuple[NDArray[np.int8], Positions]:
    """What each row does, and where its pointer begins."""
    kind = np.full(len(at), Kind.ALLOC, np.int8)
    length = np.full(len(at), len(b",allocate,"), np.int64)
    first = block[at + 1]
    for letter, text, number in ((b"f", b",free,", Kind.FREE), (b"d", b",deallocate,", Kind.FREE)):
        like = first == letter[0]
        kind[like], length[like] = number, len(text)
    failed = (first == ord("a")) & (block[at + 9] == ord(" "))
    kind[failed], length[failed] = FAILURE, len(b",allocate failure,")
    return kind, at + length


def _pointers(block: Text, at: Positions) -> tuple[NDArray[np.uint64], Positions, NDArray[np.bool_]]:
    """``0x…``, ``(nil)`` or a decimal number at each position: the value, uint64; where it ends; whether there was one."""
    words = gather(block, at)
    is_hex = (words & np.uint64(0xFFFF)) == as_word(b"0x")
    values, digits = hexadecimal_after(block, at + 2)
    fine = is_hex & (digits >= 1) & (digits <= 16)
    end = at + 2 + digits
    other = np.flatnonzero(~is_hex)
    if len(other):
        nil = (words[other] & np.uint64((1 << 40) - 1)) == as_word(b"(nil)")
        decimal, count = decimal_after(block, at[other])
        values[other] = np.where(nil, 0, decimal).astype(np.uint64)
        end[other] = at[other] + np.where(nil, 5, count)
        fine[other] = nil | ((count >= 1) & (count <= _MOST_DIGITS))
    return values, end, fine


def _stamps(block: Text, at: Positions) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """The time of day that ends at each position, the thread before it, and whether both are plain to read."""
    # uint64 (n, 2): ??hh:mm:ss.ffffff, from 16 before the comma.
    around = gather(block, at - _STAMP - 1, 16).reshape(len(at), 2).view(np.uint8).reshape(len(at), 16)
    value = around - np.uint8(0x30)
    shape = (around[:, 3] == ord(":")) & (around[:, 6] == ord(":"))
    shape &= (around[:, 9] == ord(".")) | (around[:, 9] == ord(":"))
    for column in (1, 2, 4, 5, 7, 8, *range(10, 16)):
        shape &= value[:, column] <= 9
    number = value.astype(np.int64)
    seconds = np.zeros(len(at), np.int64)
    for tens, factor in ((1, 3600), (4, 60), (7, 1)):
        seconds += (number[:, tens] * 10 + number[:, tens + 1]) * factor
    micros = number[:, 10:16] @ 10 ** np.arange(5, -1, -1, dtype=np.int64)
    thread, digits = decimal_before(block, at - _STAMP - 1)
    has_thread = (around[:, 0] == ord(",")) & (digits >= 1)
    start = at - _STAMP - np.where(has_thread, 1 + digits, 0)
    # Without a thread the time begins the line, or what comes before it is left to the regular expression.
    fine = shape & (digits <= _MOST_DIGITS) & (block[start - 1] == 0x0A)
    return seconds * 10**6 + micros, np.where(has_thread, thread, -1), fine


def _with_odd_rows(block: Text, rows: Rows, fine: NDArray[np.bool_]) -> Rows:
    """The rows, those that are not plain to read by the regular expression."""
    odd = np.flatnonzero(~fine)
    if not len(odd):
        return rows
    kind, time, thread, stream = rows.kind, rows.time_us, rows.thread, rows.stream
    size, addr = rows.size, rows.addr
    keep, bad = np.ones(len(rows.at), np.bool_), []
    last, row_at, row = -1, -1, None
    for k in odd.tolist():
        at = int(rows.at[k])
        begin, stop = _line_around(block, at)
        if begin != last:
            line = block[begin:stop].tobytes().rstrip(b"\r")
            found, row, last = ROW.fullmatch(line), read_row(line), begin
            row_at = begin + found.start("action") - 1 if found else -1
        if row is None or row_at != at:
            keep[k] = False
            bad.append(at)
        else:
            kind[k], size[k], addr[k], time[k], thread[k], stream[k] = row
    return Rows(
        at=rows.at[keep],
        kind=kind[keep],
        size=size[keep],
        addr=addr[keep],
        time_us=time[keep],
        thread=thread[keep],
        stream=stream[keep],
        malformed=np.array(bad, np.int64),
    )


def _line_around(block: Text, position: int, reach: int = 512) -> tuple[int, int]:
    """The line that holds a position, as far as a row reaches."""
    before = block[max(position - reach, 0) : position].tobytes().rfind(b"\n")
    begin = max(position - reach, 0) + before + 1
    after = block[position : position + reach].tobytes().find(b"\n")
    return begin, position + (after if after >= 0 else reach)


def _is_digit(characters: NDArray[np.uint8]) -> NDArray[np.bool_]:
    return (characters - np.uint8(0x30)) <= 9
