"""One kind of line of a user's own format: which lines it is, and what the groups of its regular expression mean.

This is the definition, a line at a time; :mod:`memlens.inputs.custom.reader` gives the same of a whole block.  :func:`line_of` makes it of what users
write down, and sees whether what that says holds together.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct, ValidationError, convert

from memlens.errors import UsageError
from memlens.facts import Kind
from memlens.scanner.formats import LineFormat, Sample
from memlens.windows.patterns import clean_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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
_KINDS = ("alloc", "free", "reserve", "release")
_MOST = {"addr": (1 << 64) - 1, "device": MOST_DEVICES, "stream": (1 << 63) - 1}


class TextError(ValueError):
    """Text of a group that is not what the group means."""


class Found(NamedTuple):
    """The values of one line; -1 and ``None`` where it has none."""

    kind: Kind
    size: int = -1
    addr: int = 0
    requested: int = -1
    thread: str | None = None
    time_us: int = -1
    device: int | None = None
    stream: int = -1
    owner: str | None = None


class UserLine(Struct, frozen=True):
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
    samples: tuple[Sample, ...] = ()

    def find(self, line: bytes) -> Found | None:
        """Read a line; ``None`` where it is not of this kind.

        Raises:
            TextError: It matches, but a group holds what it cannot mean.
        """
        if self.format.literal not in line:
            return None
        match = self.format.pattern.search(clean_line(line[:LONGEST]))
        if match is None:
            return None
        texts = {name: text.decode("utf-8", "replace") for name, text in match.groupdict().items() if text is not None}
        values = {name: self.number(name, text) for name, text in texts.items() if name not in ("thread", "owner")}
        kind = Kind(int(values["kind"])) if "kind" in values else self.kinds.get("")
        if kind is None:
            raise TextError("the group kind is empty")
        factor = values.get("unit", self.unit)
        size, requested = (_bytes_of(values[name], factor) if name in values else -1 for name in ("size", "requested"))
        if size < 0 and kind in (Kind.ALLOC, Kind.RESERVE):
            raise TextError(f"a line of {kind.name} without a size")
        return Found(
            kind,
            size,
            int(values.get("addr", 0)),
            requested,
            texts.get("thread"),
            int(values.get("time", -1)),
            int(values["device"]) if "device" in values else None,
            int(values.get("stream", -1)),
            texts.get("owner"),
        )

    def number(self, name: str, text: str) -> int | float:
        """The value of the text of a group: the kind, the bytes of a unit, a count of units, an address, a time.

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


def recognise(lines: Sequence[UserLine], head: bytes) -> str:
    """The first line among the first bytes that is one of the format's, in words."""
    whole = head[: head.rfind(b"\n") + 1] or head
    if not any(line.format.literal in whole for line in lines):
        return ""
    for number, text in enumerate(whole.split(b"\n"), 1):
        for line in lines:
            try:
                if line.find(text) is not None:
                    return f"line {number:,} is one of its lines"
            except TextError:
                continue
    return ""


_Text = Annotated[str, Meta(min_length=1)]


class _Table(Struct, forbid_unknown_fields=True, kw_only=True):
    """The table of one kind of line, as users write it."""

    name: _Text
    literal: Annotated[str, Meta(pattern=r"\A[^\n]+\Z")]
    regex: _Text
    samples: Annotated[list[str | dict[str, Any]], Meta(min_length=1)]
    summary: Any = None
    kind: Literal["ALLOC", "FREE", "RESERVE", "RELEASE"] | None = None
    alloc: str | list[str] = []
    free: str | list[str] = []
    reserve: str | list[str] = []
    release: str | list[str] = []
    size_unit: _Text = "B"
    size_base: Literal[10, 16] = 10
    addr_base: Literal[10, 16] = 16
    time: Literal["s", "ms", "us", "ns", "clock", "iso"] = "s"
    ignore: _Text | None = None
    traps: str | list[str] = []


def line_of(place: str, values: Mapping[str, Any]) -> UserLine:
    """The kind of line that a table describes, which reads its samples and not its traps.

    Args:
        place: What every error begins with.
        values: What the table holds.

    Raises:
        UsageError: It is not sound.
    """
    try:
        table = convert(values, _Table)
        regex, ignore = (None if text is None else re.compile(text.encode()) for text in (table.regex, table.ignore))
        unit = bytes_in(table.size_unit)
    except ValidationError as error:
        keys = ", ".join(_Table.__struct_fields__)
        raise UsageError(f"{place}: {error}", f"Its keys are {keys}; see docs/formats.md.") from None
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"{place}: no regular expression: {error}", "Python's re syntax is expected.") from None
    except TextError as error:
        raise UsageError(f"{place}: size_unit: {error}", "Write B, KiB, MiB, GiB, KB, MB or GB.") from None
    assert regex is not None
    if unknown := sorted(regex.groupindex.keys() - GROUPS.keys()):
        what = f"no meaning is known of the group {', '.join(unknown)}"
        raise UsageError(f"{place}: {what}", f"There are: {', '.join(GROUPS)}.")
    means, traps = {group: GROUPS[group] for group in regex.groupindex}, tuple(_listed(table.traps))
    samples = tuple(_sample(place, sample) for sample in table.samples)
    line = UserLine(
        LineFormat(table.name, f"format:{table.name}", table.literal.encode(), table.regex, means, traps=traps),
        _kinds_of(place, table, grouped="kind" in means),
        unit,
        table.size_base,
        table.addr_base,
        table.time,
        ignore,
        samples,
    )
    for sample in samples:
        if wrong := _wrong_reading(line, sample):
            raise UsageError(f"{place}: sample {sample.line!r}{wrong}", "Correct the sample or the format.")
    for trap in traps:
        if not _wrong_reading(line, Sample(trap, {})):
            raise UsageError(f"{place}: reads its trap {trap!r}", "Make the regex stricter.")
    return line


def _listed(texts: str | list[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else texts


def _kinds_of(place: str, table: _Table, *, grouped: bool) -> dict[str, Kind]:
    """The kinds of events, by the word that tells them; ``grouped`` says that the expression has a group for it."""
    given = [(word, Kind[key.upper()]) for key in _KINDS for word in _listed(getattr(table, key))]
    if not grouped and not given and table.kind is not None:
        return {"": Kind[table.kind]}
    if not grouped:
        what = "there are words for kinds but no group (?P<kind>…)" if given else "kind is missing"
        raise UsageError(f"{place}: {what}", 'Write the group and its words, or kind = "ALLOC" alone.')
    if not given or len(dict(given)) < len(given):
        raise UsageError(
            f"{place}: the words of the group kind are missing, or one of them stands for two kinds",
            'Write alloc = ["…"], free = ["…"], and where there are chunks reserve and release.',
        )
    return dict(given)


def _sample(place: str, sample: str | dict[str, Any]) -> Sample:
    values = {"line": sample} if isinstance(sample, str) else sample
    line, wanted = values.get("line"), {key: value for key, value in values.items() if key != "line"}
    if not isinstance(line, str):
        what = f"{place}: {sample!r} is no sample"
        raise UsageError(what, 'Write { line = "…", kind = "ALLOC", size = 4096 }.')
    for key in wanted.keys() - set(Found._fields):
        what = f"{place}: sample {line!r}: there is no {key!r} to check"
        raise UsageError(what, f"There are: {', '.join(Found._fields)}.")
    return Sample(line, wanted)


def _wrong_reading(line: UserLine, sample: Sample) -> str:
    """Say what is wrong with how a sample is read, in words that follow it; ``""`` where nothing is."""
    text = sample.line.encode()
    try:
        found = line.find(text)
    except TextError as error:
        return f": {error}"
    if found is None:
        return " is not matched by the regex" if line.format.literal in text else " does not hold the literal"
    for key, wanted in sample.values.items():
        value = found.kind.name if key == "kind" else getattr(found, key)
        if value != wanted:
            return f": {key} is {value!r} and not {wanted!r}"
    return ""
