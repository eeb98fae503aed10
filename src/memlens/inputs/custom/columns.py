"""The groups of a user's expression as values, for many lines at once.

:meth:`memlens.inputs.custom.lines.UserLine.find` is the definition.  Here numbers come from the scanner, other texts are read once each,
and what is not sure to be read alike is marked, and left to it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.facts import Kind
from memlens.inputs.custom.lines import MOST_BYTES, MOST_DEVICES, MOST_TIME_US, TIME_UNITS, TextError, UserLine
from memlens.scanner import distinct_texts
from memlens.scanner.expressions import TEXT_LENGTH, TEXT_PLACE, Conversion, Group, groups_of
from memlens.scanner.plain import Scan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from memlens.columns import Flags, Ints

    Bytes = NDArray[np.uint8]


#: A number of the scanner below this is what the text says, and exact as a float.
_SURE = 1 << 53
_LONGEST_TIME = 32
_IN_TIME = np.isin(np.arange(256), list(b"0123456789.,:- T"))
_DATE = b"1970-01-01T"
_STAMP = np.frombuffer(b"0000-00-00T00:00:00.000000", np.uint8)
_POINT = 19
#: What columns hold where a line says nothing; sizes in units that a group may name.
_NOTHING: dict[str, Any] = dict.fromkeys(("time_us", "device", "stream", "thread", "owner"), -1)
_NOTHING |= {"size": -1.0, "requested": -1.0, "addr": np.uint64(0)}


class LineColumns:
    """Reads the rows that a scanner finds of one kind of line.

    Args:
        line: The kind.

    Attributes:
        scan: What the scanner is to look for.
        groups: The groups, in the order of the value columns.

    Raises:
        ValueError: The expression may match the empty text, which no scanner looks for.
    """

    def __init__(self, line: UserLine) -> None:
        regex = line.format.pattern.pattern
        # Between letters it is a range of them; any other may be a sign, and -1 is what the scanner says where there is no text.
        signed = b"-" in re.sub(rb"\w-\w", b"", regex)

        def is_plain(group: Group) -> bool:
            if group.conversion is Conversion.DECIMAL:
                return line.base(group.name) == 10 and not signed
            if group.conversion is Conversion.HEXADECIMAL:
                return group.name == "addr" and line.addr_base == 16
            return group.conversion in (Conversion.WORD, Conversion.TEXT)

        texts = frozenset(group.name for group in groups_of(regex) if not is_plain(group))
        self._line = line
        self.scan = Scan(line.format, once=True, texts=texts)
        self.groups = self.scan.groups()

    def columns(
        self, data: Bytes, values: Ints, names: Mapping[str, dict[str, int]]
    ) -> tuple[dict[str, NDArray[Any]], Flags]:
        """The values of rows.

        Args:
            data: The block.
            values: The values of the rows, int64 (rows, groups).
            names: The numbers of names of threads, and of owners; new ones are added.

        Returns:
            Columns, one entry a row, with -1 for nothing and -2 - n for the n-th name; and which rows they are right for: the others are to
            be read by themselves.
        """
        line = self._line
        nothing = {**_NOTHING, "kind": int(line.kinds.get("", -1)), "unit": float(line.unit)}
        found: dict[str, NDArray[Any]] = {name: np.full(len(values), value) for name, value in nothing.items()}
        fine = np.ones(len(values), np.bool_)
        for group, value in zip(self.groups, values.T, strict=False):
            there = value != -1
            if group.name == "time" and (times := self._times(data, value[there], group.conversion)) is not None:
                found["time_us"][there] = times
            elif group.conversion is Conversion.HEXADECIMAL:  # of an address, and all bits may be set
                found[group.name], fine = value.view(np.uint64), fine & there
            elif group.conversion is Conversion.DECIMAL:
                found[group.name][there] = value[there]
                fine &= value < _SURE
            else:
                column = found["time_us" if group.name == "time" else group.name]
                is_text = group.conversion is Conversion.TEXT
                texts, index = distinct_texts(data, value[there]) if is_text else (group.words, value[there])
                numbers = [self._number(group.name, text.decode("utf-8", "replace"), names) for text in texts]
                read = np.array([number is not None for number in numbers], np.bool_)
                column[there] = np.array([number or 0 for number in numbers], column.dtype)[index]
                fine[there] &= read[index]
        unit = found.pop("unit")
        for name in ("size", "requested"):
            size = np.where(found[name] < 0, -1, np.rint(found[name] * unit))
            fine &= size <= MOST_BYTES
            found[name] = np.where(fine, size, 0).astype(np.int64)
        fine &= (found["kind"] >= 0) & (found["device"] <= MOST_DEVICES)
        fine &= (found["size"] >= 0) | (found["kind"] == Kind.FREE) | (found["kind"] == Kind.RELEASE)
        return found, fine

    def _number(self, name: str, text: str, names: Mapping[str, dict[str, int]]) -> int | float | None:
        """The value of a text, ``None`` where it is not what the group means."""
        try:
            return name_number(name, text, names) if name in names else self._line.number(name, text)
        except TextError:
            return None

    def _times(self, data: Bytes, value: Ints, conversion: Conversion) -> Ints | None:
        """Times in microseconds; ``None`` where they are not as plain as all these."""
        unit = self._line.time
        if conversion is Conversion.DECIMAL:
            amount = value.astype(np.float64)
        else:
            start, length = value & TEXT_PLACE, value >> TEXT_LENGTH
            width = int(length.max(initial=1))
            if conversion is not Conversion.TEXT or width > _LONGEST_TIME:
                return None
            column = np.arange(width)
            text = data[start[:, None] + column]
            behind = column >= length[:, None]
            if not (behind | _IN_TIME[text]).all():
                return None
            text[behind] = 0
            if unit in ("clock", "iso"):
                return _moments(text, clock=unit == "clock")
            try:
                amount = text.view(f"S{width}").ravel().astype(np.float64)
            except ValueError:
                return None
        time = amount * TIME_UNITS[unit]
        return np.where((time >= 0) & (time < MOST_TIME_US), np.rint(time), -1).astype(np.int64)


def name_number(group: str, text: str | None, names: Mapping[str, dict[str, int]]) -> int:
    """The number that stands for a name in the column of a group: -2 - its number; for a thread that is a number, this; -1 for none."""
    if text is None:
        return -1
    if group == "thread" and text.isascii() and text.isdigit() and len(text.lstrip("0")) < 19:
        return int(text)
    return -2 - names[group].setdefault(text, len(names[group]))


def _moments(text: Bytes, *, clock: bool) -> Ints | None:
    """Microseconds since midnight or since 1970 of texts like 10:22:32.856307 or 2026-01-02T10:22:32, NUL behind them."""
    begin = len(_DATE) if clock else 0
    stamp = np.zeros((len(text), len(_STAMP)), np.uint8)
    if text.shape[1] > len(_STAMP) - begin:
        return None
    stamp[:, :begin] = np.frombuffer(_DATE, np.uint8)[:begin]
    stamp[:, begin : begin + text.shape[1]] = text
    stamp[stamp == ord(",")] = ord(".")
    stamp[stamp == ord(" ")] = ord("T")
    wanted = _STAMP
    fits = np.where(wanted == ord("0"), stamp - np.uint8(ord("0")) < 10, stamp == wanted)
    fits[:, _POINT:] |= stamp[:, _POINT:] == 0
    fits[:, _POINT + 1] &= (stamp[:, _POINT] == 0) | (stamp[:, _POINT + 1] != 0)
    if not fits.all():
        return None
    try:
        moments = stamp.view(f"S{len(_STAMP)}").ravel().astype("datetime64[us]").astype(np.int64)
    except ValueError:
        return None
    return np.maximum(moments, -1)
