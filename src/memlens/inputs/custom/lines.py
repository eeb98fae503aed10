"""One kind of line of a user's own format: which lines it is, and what the groups of its regular expression mean.

This is the definition, a line at a time; :mod:`memlens.inputs.custom.reader` gives the same of a whole block.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from memlens.facts import Kind
from memlens.windows.patterns import clean_line

if TYPE_CHECKING:
    from memlens.scanner.formats import LineFormat

__all__ = ["GROUPS", "LONGEST", "MOST_BYTES", "MOST_DEVICES", "MOST_TIME_US", "TIME_UNITS"]
__all__ += ["Found", "TextError", "UserLine", "UserSample", "bytes_in"]

#: What named groups may be called, and what each is.
GROUPS: dict[str, str] = {
    "kind": "a word that tells what the event is",
    "size": "bytes of the block or chunk, decimal, or hexadecimal after 0x",
    "unit": "the unit of the size: B, KB, KiB, MB, MiB, GB, GiB, TiB, or K, M, G, T for the binary ones",
    "addr": "its address, hexadecimal with or without 0x",
    "requested": "bytes that the tensor asked for",
    "thread": "the thread, a number or a name",
    "time": "when",
    "device": "number of the device",
    "stream": "number of the stream",
    "owner": "what to blame it on",
}
#: The largest size that is believed: the address space of one process.
MOST_BYTES = 1 << 47
#: Characters of a line that a regular expression is given.
LONGEST = 1 << 16
#: What the group ``time`` may be, and how many of it make a microsecond; ``clock`` is hh:mm:ss and ``iso`` a date and a time.
TIME_UNITS: dict[str, float] = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3, "clock": 0.0, "iso": 0.0}

_UNITS = {"": 1, "b": 1, "byte": 1, "bytes": 1}
for _power, _letter in enumerate("kmgt", 1):
    _UNITS |= {_letter: 1024**_power, f"{_letter}ib": 1024**_power, f"{_letter}b": 1000**_power}
_CLOCK = re.compile(r"(\d{1,2}):(\d{2}):(\d{2}(?:[.,]\d{1,9})?)\Z")
MOST_TIME_US = float(1 << 53)
_MOST_DIGITS = 32
#: The largest number of a device.
MOST_DEVICES = 1 << 15
_MOST = {"addr": (1 << 64) - 1, "device": MOST_DEVICES, "stream": (1 << 63) - 1}


class TextError(ValueError):
    """Text of a group that is not what the group means."""


class UserSample(NamedTuple):
    """A line that must be read, and what must be read from it."""

    line: str
    values: Mapping[str, object]


class Found(NamedTuple):
    """What one line says; -1 and ``None`` where it says nothing."""

    kind: Kind
    size: int = -1
    addr: int = 0
    requested: int = -1
    thread: str | None = None
    time_us: int = -1
    device: int | None = None
    stream: int = -1
    owner: str | None = None


@dataclass(frozen=True)
class UserLine:
    """One kind of line.

    Attributes:
        format: What such a line is: a text that stands in it and an expression, with groups of :data:`GROUPS`.
        kinds: The event that it is, by the text of the group ``kind``; by ``""`` where there is no such group.
        unit: Bytes in one of what the group ``size`` counts, where no group ``unit`` says so.
        size_base: 10, or 16 for hexadecimal sizes without 0x.
        addr_base: 16, or 10 for decimal addresses.
        time: What the group ``time`` is, one of :data:`TIME_UNITS`.
        ignore: Lines with the literal that are no event and not to be wondered at.
        samples: Lines that must be read, with what must be read from them.
    """

    format: LineFormat
    kinds: Mapping[str, Kind]
    unit: int = 1
    size_base: int = 10
    addr_base: int = 16
    time: str = "s"
    ignore: re.Pattern[bytes] | None = None
    samples: tuple[UserSample, ...] = ()

    def find(self, line: bytes) -> Found | None:
        """What a line says, or ``None`` where it is not of this kind.

        Raises:
            TextError: It matches, but a group holds what it cannot mean.
        """
        if self.format.literal not in line:
            return None
        match = self.format.pattern.search(clean_line(line[:LONGEST]))
        if match is None:
            return None
        texts = {name: text.decode("utf-8", "replace") for name, text in match.groupdict().items() if text is not None}
        said = {name: self.number(name, text) for name, text in texts.items() if name not in ("thread", "owner")}
        kind = Kind(int(said["kind"])) if "kind" in said else self.kinds.get("")
        if kind is None:
            raise TextError("the group kind is empty")
        factor = said.get("unit", self.unit)
        size, requested = (_bytes_of(said[name], factor) if name in said else -1 for name in ("size", "requested"))
        if size < 0 and kind in (Kind.ALLOC, Kind.RESERVE):
            raise TextError(f"a line of {kind.name} without a size")
        return Found(
            kind,
            size,
            int(said.get("addr", 0)),
            requested,
            texts.get("thread"),
            int(said.get("time", -1)),
            int(said["device"]) if "device" in said else None,
            int(said.get("stream", -1)),
            texts.get("owner"),
        )

    def number(self, name: str, text: str) -> int | float:
        """What the text of a group says: the kind, the bytes of a unit, a count of units, an address, a time.

        Raises:
            TextError: It is not what the group means.
        """
        if name == "kind":
            if text not in self.kinds:
                raise TextError(f"no kind of event is called {text!r}")
            return self.kinds[text]
        if name == "unit":
            return bytes_in(text)
        if name == "time":
            return _time_us(text, self.time)
        base = self.base(name)
        if "." in text and name in ("size", "requested") and base == 10:
            return _amount(name, text)
        return _number(name, text, base, _MOST.get(name, MOST_BYTES))

    def base(self, name: str) -> int:
        """The base of the whole numbers of a group; 0 where it holds none."""
        if name in ("kind", "unit", "owner") or (name == "time" and not TIME_UNITS[self.time]):
            return 0
        return {"size": self.size_base, "requested": self.size_base, "addr": self.addr_base}.get(name, 10)

    def ignored(self, line: bytes) -> bool:
        """Whether a line with the literal is known to be no event."""
        return self.ignore is not None and self.ignore.search(clean_line(line[:LONGEST])) is not None


def bytes_in(unit: str) -> int:
    """Bytes in a unit as it is written.

    Raises:
        TextError: It is none.
    """
    try:
        return _UNITS[unit.strip().lower()]
    except KeyError:
        raise TextError(f"{unit!r} is no unit of bytes") from None


def _bytes_of(amount: float, factor: float) -> int:
    """So many of some unit in bytes, to the nearest one."""
    size = amount * factor
    if not 0 <= size <= MOST_BYTES:
        raise TextError(f"a size of {size:,} bytes is none")
    return round(size)


def _amount(name: str, text: str) -> float:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        raise TextError(f"{name} {text!r} is no number") from None


def _number(name: str, text: str, base: int, most: int) -> int:
    plain = text.strip().replace(",", "").lower()
    digits, base = (plain[2:], 16) if plain.startswith("0x") else (plain, base)
    try:
        number = int(digits, base) if digits.isalnum() and len(digits) <= _MOST_DIGITS else -1
    except ValueError:
        number = -1
    if number < 0:
        raise TextError(f"{name} {text!r} is no number")
    if number > most:
        raise TextError(f"{name} {text!r} is too large")
    return number


def _time_us(text: str, unit: str) -> int:
    """Microseconds, int; -1 where the text is no time: a block counts all the same."""
    try:
        if unit == "clock":
            match = _CLOCK.match(text.strip())
            if match is None:
                return -1
            return round(((int(match[1]) * 60 + int(match[2])) * 60 + float(match[3].replace(",", "."))) * 1e6)
        if unit == "iso":
            return _iso_us(text.strip())
        time = float(text) * TIME_UNITS[unit]
    except (ValueError, OverflowError):
        return -1
    return round(time) if 0 <= time < MOST_TIME_US else -1


def _iso_us(text: str) -> int:
    from datetime import UTC, datetime, timedelta

    moment = datetime.fromisoformat(text.replace("Z", "+00:00").replace(",", "."))
    since = moment - datetime(1970, 1, 1, tzinfo=UTC if moment.tzinfo else None)
    return max(since // timedelta(microseconds=1), -1)
