"""The out-of-memory messages of a block as columns: a run that goes on after each may print as many as there are events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlens.columns import distinct
from memlens.facts import MessageLines, OutOfMemory
from memlens.inputs.paddle.lines import FAILURE_GROUPS, FAILURES, BlockRows
from memlens.scanner import distinct_texts
from memlens.scanner.expressions import TEXT_LENGTH, TEXT_PLACE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.columns import Ints

#: So many messages of a log are looked into: their texts, and what stands above them.
MOST_LOOKED_INTO = 100
#: Bytes of a line that are kept of it, and that are looked at for that from the message on where the line is long.
_SHOWN, _LOOKED_AT = 300, 1200
#: No longer text holds more digits than a number of 64 bits.
_MOST_DIGITS = 18
#: The power of 1,024 that a letter stands for, by its byte.
_POWERS = np.array([max(b"BKMGTP".find(chr(byte).upper().encode()), 0) for byte in range(256)], np.int64)


def messages_of(rows: BlockRows) -> tuple[MessageLines, tuple[str, ...]] | None:
    """The out-of-memory messages of a block, a line each, whose lines count from 0; and the names of their devices.

    Returns:
        ``None`` where there is none.
    """
    if not any(rows.counts[number] for number in FAILURES):
        return None
    at, number = _rows(rows)
    groups = {name: np.full(len(at), -1, np.int64) for name in FAILURE_GROUPS}
    for form in distinct(number).tolist():
        mine = number == form
        for name in FAILURE_GROUPS & rows.columns[form].keys():
            groups[name][mine] = rows.values(form, name, at[mine])
    device = groups.pop("device")
    named = device >= 0
    devices, device[named] = distinct_texts(rows.block.data, device[named])
    size = {name: sizes(rows.block.data, places) for name, places in groups.items()}
    total, used, free, limit = size["total"], size["used"], size["free"], size["limit"]
    total = np.where(total >= 0, total, limit)
    total = np.where((total < 0) & (used >= 0) & (free >= 0), used + free, total)
    lines = MessageLines(
        offset=rows.found.line_start[at] + rows.to_input,
        line=rows.found.line[at],
        device=device.astype(np.int32),
        requested=size["requested"],
        free=free,
        total=total,
        limit=limit,
    )
    return lines, tuple(name.decode() for name in devices)


def first_of(lines: MessageLines, devices: tuple[str, ...], rows: BlockRows, most: int) -> list[OutOfMemory]:
    """The first few of the messages of a block, with their texts."""
    begins = rows.found.start[_rows(rows)[0][:most]].tolist()
    found = []
    for k, begin in enumerate(begins):
        start = lines.offset.item(k) - rows.to_input
        line = rows.text(start, max(begin - start, 0) + _LOOKED_AT)
        shown = line if len(line) <= _SHOWN else line[begin - start :]
        found.append(lines.message(k, devices, shown.decode("utf-8", "replace").strip()[:_SHOWN]))
    return found


def _rows(rows: BlockRows) -> tuple[Ints, Ints]:
    """One row for each line that is a message, in order, and the number of its format: the first one that a line matches counts."""
    at = np.concatenate([rows.of(number) for number in FAILURES])
    number = rows.found.format[at].astype(np.int64)
    line = rows.found.line[at]
    order = line.argsort(kind="stable")  # formats are in the order in which they count
    first = order[np.append(True, line[order[1:]] != line[order[:-1]])]
    return at[first], number[first]


def sizes(data: NDArray[np.uint8], places: Ints) -> Ints:
    """The bytes that each text says, as :func:`_size` reads it; -1 where there is none.

    Args:
        data: uint8.
        places: Where the texts stand, int64, as :attr:`~memlens.scanner.expressions.Conversion.TEXT` says.
    """
    found = np.full(len(places), -1, np.int64)
    known = places >= 0
    begin, length = places[known] & TEXT_PLACE, places[known] >> TEXT_LENGTH
    number, decimals, power = np.zeros((3, len(begin)), np.int64)
    behind = np.zeros(len(begin), np.bool_)
    for k in range(min(length.max(initial=0), _MOST_DIGITS)):
        byte = np.where(k < length, data[begin + np.minimum(k, length - 1)], 0)
        digit = byte - np.uint8(ord("0"))
        is_digit = digit < 10
        number = np.where(is_digit, 10 * number + digit, number)
        decimals += is_digit & behind
        behind |= byte == ord(".")
        power += _POWERS[byte]
    scale, ten = 1 << 10 * power, 10**decimals
    whole, part = np.divmod(number, ten)
    size, rest = np.divmod(part * scale, ten)
    size += whole * scale
    size += (2 * rest + (size & 1)) > ten  # halves go to the even one
    # What would not fit is read by itself.
    for at in np.flatnonzero((length > _MOST_DIGITS) | ((whole | part) >> (61 - 10 * power) > 0)).tolist():
        size[at] = _size(data[begin[at] : begin[at] + length[at]].tobytes())
    found[known] = size
    return found


def _size(text: bytes) -> int:
    """Bytes of ``98.000244MB``, rounded to the nearest; a bare number is bytes, and -1 stands for more than any 64-bit number holds."""
    number = text.rstrip(b" kKMGTPB")
    whole, _, part = number.partition(b".")
    unit = text[len(number) :].strip()[:1].upper()
    size, rest = divmod(int(whole + part) << 10 * b"BKMGTP".index(unit or b"B"), 10 ** len(part))
    size += (2 * rest, size & 1) > (10 ** len(part), 0)  # halves go to the even one
    return size if size < 1 << 62 else -1
