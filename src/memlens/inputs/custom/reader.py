"""Reads an input of a user's own format: the scanner finds its lines, and most of them are read together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from memlens.columns import TAKE, USE
from memlens.errors import MemlensError, NoEventsError
from memlens.inputs.builder import SAMPLES, Builder, Part, Text, lines_wanted
from memlens.inputs.custom.columns import LineColumns, name_number
from memlens.inputs.custom.lines import LONGEST, Found, TextError, UserLine
from memlens.inputs.input_format import LineReader, NewEvents, Selection
from memlens.inputs.joins import LatestByAddress
from memlens.scanner import Scanner
from memlens.scanner.formats import LineFormat
from memlens.scanner.plain import Scan
from memlens.spool import chosen, empty, walk
from memlens.windows.landmarks import landmarks_in_block
from memlens.windows.patterns import Matcher

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from memlens.facts import Facts
    from memlens.inputs.blocks import Block
    from memlens.inputs.input_format import Request
    from memlens.log import Log
    from memlens.source import TextSource


_SHOWN = 200
#: Names of threads, and of owners, that are told apart.
_MOST_NAMES = 1 << 20
_OPTIONAL = ("time_us", "thread", "requested", "stream", "owner")
#: What is read of a line, in the order of :func:`_numbers`.
_READ = ("row", "kind", "size", "addr", "requested", "time_us", "device", "stream", "thread", "owner")
_TYPES = {"kind": np.int8, "size": np.int64, "addr": np.uint64, "owner": np.int32}


class UserReader(LineReader["Read"]):
    """Reads an input of a user's format: a log for each device that lines name, by rising number; one where none does.

    Groups of events are devices, by their number and 1; those of group 0 name none, and count for the first one: programs leave a device
    out where there was only one.

    Args:
        source: The input; compressed or not.
        request: What is wanted of it.
        name: The format's name.
        lines: Its kinds of lines; of several that match a line the first counts.

    Raises:
        UsageError: A pattern is no regular expression.
    """

    def __init__(self, source: TextSource, request: Request, *, name: str, lines: Sequence[UserLine]) -> None:
        self._source, self._name, self._lines = source, name, lines
        self._matchers, self._landmarks = [Matcher(pattern) for pattern in request.patterns], request.landmarks
        self._numbered = lines_wanted(source)
        groups = {"time_us" if group == "time" else group for line in lines for group in line.format.means}
        self._columns = ("kind", "size", "addr", "offset", *(name for name in ("device", *_OPTIONAL) if name in groups))
        types = {column: _TYPES.get(column, np.int64) for column in self._columns}
        self._builder = Builder(source, request, types, size=source.size)
        self._seen: set[int] = set()  # devices of events so far
        self._with_addresses = "addr" in groups
        # What lines say by what stands before them in the input: numbers for names, sizes and devices of addresses.
        self._names: dict[str, dict[str, int]] = {"thread": {}, "owner": {}}
        self._sizes, self._devices = LatestByAddress(TAKE), LatestByAddress(USE)
        self._has_devices = False
        try:
            self._readers = [LineColumns(line) for line in lines]
        except ValueError:  # an expression that matches the empty text: every line with a literal is read by itself
            self._readers = []
        self._literals = {line.format.literal.decode() for line in lines}
        others = [*((literal, re.escape(literal)) for literal in self._literals), ("\x1b", r"\x1b"), ("\r", r"\r+$")]
        scans = [Scan(LineFormat("", "", literal.encode(), regex, {}), once=True) for literal, regex in others]
        self._scanner = Scanner([*(reader.scan for reader in self._readers), *scans])

    def read(self, block: Block) -> Read:
        data = block.data
        rows = self._scanner.scan(data, block.begin, block.end)
        with_literal = rows.format >= len(self._readers)
        unclean = rows.format >= len(self._readers) + len(self._literals)
        found = np.flatnonzero(~with_literal)
        if len(self._readers) > 1:
            found = rows.first_of_lines(found[np.lexsort((rows.format[found], rows.line[found]))])
        # Of lines with colours, a carriage return or no end in sight the expression is to see something else.
        found = found[:0] if _has_long_line(block) else found[~np.isin(rows.line[found], rows.line[unclean])]
        names: dict[str, dict[str, int]] = {"thread": {}, "owner": {}}
        parts: list[dict[str, NDArray[Any]]] = []
        for index, reader in enumerate(self._readers):
            mine = found[rows.format[found] == index]
            columns, fine = reader.columns(data, rows.values[mine], names)
            parts.append({name: column[fine] for name, column in {**columns, "row": mine}.items()})
        done = np.concatenate([found[:0], *(rows.line[part["row"]] for part in parts)])
        left = rows.first_of_lines(np.flatnonzero(with_literal & ~unclean & ~np.isin(rows.line, done)))
        malformed: list[Text] = []
        singly: list[tuple[int, ...]] = []
        for row in left.tolist():
            start = int(rows.line_start[row])
            line = data[start : min(start + LONGEST, block.end)].tobytes().partition(b"\n")[0]
            try:
                line_values = self._look(line)
            except TextError:
                malformed.append(Text.of(block, start, int(rows.line[row])))
                continue
            if line_values is not None:
                singly.append(_numbers(row, line_values, names))
        parts.append(
            {
                name: np.array([values[k] for values in singly], _TYPES.get(name, np.int64))
                for k, name in enumerate(_READ)
            }
        )
        columns = {name: np.concatenate([part[name] for part in parts]) for name in _READ}
        order = columns["row"].argsort(kind="stable")
        columns = {name: column[order] for name, column in columns.items()}
        row = columns.pop("row")
        columns["line"] = rows.line[row]
        columns["offset"] = rows.line_start[row] + (block.offset - block.begin)
        seen: dict[str, Any] = {"malformed": len(malformed), "samples": malformed[:SAMPLES]}
        if self._landmarks:
            seen["landmarks"] = landmarks_in_block(block.text, block.offset)
        text = block.text.tobytes() if (columns["size"] < 0).any() else b""
        named = {group: tuple(numbers) for group, numbers in names.items()}
        return Read(Part.of(block, rows, columns, self._matchers, **seen), named, text)

    def _look(self, line: bytes) -> Found | None:
        """The values of a line that holds a literal; ``None`` where it is known to have none.

        Raises:
            TextError: It cannot be read.
        """
        for form in self._lines:
            if (found := form.find(line)) is not None:
                return found
        if any(form.ignored(line) for form in self._lines):
            return None
        raise TextError("it is no line of the format")

    def add(self, result: Read) -> None:
        part = self._completed(result)
        self._builder.add(part if self._numbered else replace(part, line=None))

    def take(self, *, ended: bool = False) -> NewEvents:  # noqa: ARG002
        new = self._builder.take()
        device = new.columns.get("device")
        group = None if device is None else np.maximum(device, -1) + 1
        if group is not None:
            self._seen.update(np.unique(group).tolist())
        numbers = sorted(self._seen - {0})
        alone = [frozenset({number}) for number in (0, *numbers)]
        first = frozenset({0, *numbers[:1]})
        of_devices = (first, *alone[2:]) if numbers else (first,)
        selected = tuple(
            Selection(max(of) - 1 if numbers else None, self._layer, of, of, self._builder.malformed)
            for of in of_devices
        )
        return new._replace(group=group, sets=tuple(dict.fromkeys((*alone, first))), selected=selected)

    @property
    def _layer(self) -> str:
        return f"format:{self._name}"

    def finish(self, problem: str) -> list[Log]:
        builder = self._builder
        device = builder.drop("device")
        numbers = [] if device is None else [number for number in _different(device) if number >= 0]
        logs = []
        devices: list[int | None] = [*numbers] or [None]
        for number in devices:
            # What names no device is the first one's.
            of_device = [number, -1] if [number] == devices[:1] else [number]
            rows = None
            if device is not None and len(numbers) > 1:
                rows = empty(len(device), np.bool_)
                for start, stop in walk(0, len(device)):
                    rows[start:stop] = np.isin(device[start:stop], np.array(of_device, np.int64))
            some = {column: builder.column(column) for column in self._columns if column in _OPTIONAL}
            some = {column: chosen(entries, rows) for column, entries in some.items()}
            missing = [column for column, entries in some.items() if entries.max(initial=-1) < 0]
            threads = _different(some["thread"]) if "thread" in some else ()
            logs.append(
                builder.finish(
                    cut_short=problem,
                    facts={
                        "layer": self._layer,
                        "has_chunks": False,
                        "addresses": self._with_addresses,
                        "threads": tuple(thread for thread in threads if thread != -1),
                    },
                    columns={
                        "device": number,
                        "owner_names": () if "owner" in missing else tuple(self._names["owner"]),
                        **dict.fromkeys(missing),
                    },
                    rows=rows,
                    keep=rows is not None,
                    nothing=self._nothing,
                )
            )
        return logs

    def _completed(self, read: Read) -> Part:
        """The part with all that it lacks; a FREE whose size nobody says is malformed."""
        part, columns = read.part, dict(read.part.columns)
        kind, size, addr, device = (columns[name] for name in ("kind", "size", "addr", "device"))
        gives, chunk = kind % 2 == 0, (kind // 2).astype(np.int64)
        self._has_devices |= bool((device >= 0).any())
        if self._has_devices:
            latest = self._devices.before(addr, chunk, device, gives)
            device = columns["device"] = np.where(gives | (device >= 0), device, latest)
        known = self._sizes.before(addr, chunk | (device + 1) << 1, size, gives)
        size = columns["size"] = np.where(size < 0, known, size)
        lost = np.flatnonzero(size < 0)
        samples = list(part.samples)
        for row in lost[:SAMPLES].tolist():
            offset = int(columns["offset"][row])
            line = read.text[offset - part.offset :][:_SHOWN].partition(b"\n")[0].rstrip(b"\r")
            samples.append(Text(offset, int(columns["line"][row]), line))
        kept = np.flatnonzero(size >= 0) if len(lost) else slice(None)
        columns = {name: columns[name][kept] for name in ("line", *self._columns)}
        for name, lowest in (("thread", 1), ("owner", 0)):
            if read.names[name]:
                columns[name] = _renumbered(columns[name], read.names[name], self._names[name], lowest)
        return replace(
            part,
            columns=columns,
            line=columns.pop("line"),
            malformed=part.malformed + len(lost),
            samples=sorted(samples)[:SAMPLES],
        )

    def _nothing(self, facts: Facts) -> MemlensError:
        early = f" ({facts.cut_short})" if facts.cut_short else ""
        wrong = f"; {facts.malformed:,} of them look like one but cannot be read" if facts.malformed else ""
        literals = sorted({repr(line.format.literal.decode("utf-8", "replace")) for line in self._lines})
        return NoEventsError(
            f"{self._source.name}: no event of the format {self._name!r} in {facts.lines:,} lines{early}{wrong}",
            f"Looked for {' and '.join(literals)}.",
        )


def _different(column: NDArray[Any]) -> list[int]:
    """The different numbers in a column, rising."""
    return sorted(set[int]().union(*(np.unique(column[start:stop]).tolist() for start, stop in walk(0, len(column)))))


class Read(NamedTuple):
    """The columns of one block's lines.

    Attributes:
        part: Their events; sizes and devices of FREEs may be missing, and names are -2 - their number here.
        names: Names of threads, and of owners, by number.
        text: The block, where a size is missing.
    """

    part: Part
    names: Mapping[str, Sequence[str]]
    text: bytes


def _numbers(row: int, found: Found, names: Mapping[str, dict[str, int]]) -> tuple[int, ...]:
    """One line in numbers, in the order of :data:`_READ`."""
    thread, owner = name_number("thread", found.thread, names), name_number("owner", found.owner, names)
    device = -1 if found.device is None else found.device
    return row, found.kind, found.size, found.addr, found.requested, found.time_us, device, found.stream, thread, owner


def _has_long_line(block: Block) -> bool:
    """Whether a line may be longer than what an expression is given."""
    half = LONGEST // 2
    whole = range(block.begin, block.end - half, half)
    return any(b"\n" not in block.data[start : start + half].tobytes() for start in whole)


def _renumbered(column: NDArray[Any], names: Sequence[str], known: dict[str, int], lowest: int) -> NDArray[Any]:
    """A column with the numbers that names have in the input, from ``lowest`` on, which are given in order of first use."""
    rows = np.flatnonzero(column < -1)
    which, first, index = np.unique(-2 - column[rows], return_index=True, return_inverse=True)
    numbers = np.full(len(which), -1, column.dtype)
    for k in np.argsort(first).tolist():
        name = names[which[k]]
        if name in known or len(known) < _MOST_NAMES:
            numbers[k] = known.setdefault(name, len(known) + lowest)
    column[rows] = numbers[index]
    return column
