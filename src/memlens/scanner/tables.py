"""The tables that the compiled scanner works with: programs, prefixes to search for, conversions.

How a format is looked for: where every match begins with one of a few texts, those are searched for, and its program runs where one of them
stands (:attr:`Mode.PLACE`).  Otherwise its literal is searched for, and the program tried at every byte of a line that holds it
(:attr:`Mode.LINE`; without a literal, of every line).  An expression that has no program is left to ``re``, on those lines
(:attr:`Mode.BY_RE`).
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from memlens.scanner import Prepared
from memlens.scanner.expressions import ALL_BYTES, Group, Item, Items, parse, runs_of
from memlens.scanner.programs import NEWLINE, Compiler, Unsupported, first_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memlens.scanner.plain import Header, Scan


#: Bytes of a prefix that are compared before a program runs, and those that are searched for.
_PREFIX, _SEARCHED = 8, 3
_MOST_PREFIXES = 24
#: A prefix is worth a search if at most so many texts of three bytes begin like it.
_COMMON = 512
_BUCKETS = 8
#: How often a byte stands in a log, roughly, by its high and its low half: blanks and digits most of all.
_OFTEN = np.ones((16, 16))
_OFTEN[2:8] = 5  # what can be printed
_OFTEN[6:8] = 20
_OFTEN[3, :10] = 40
_OFTEN[2, 0] = 100
_MOST_SLOTS = 64


class Mode(IntEnum):
    """How a format is looked for."""

    PLACE = 0
    LINE = 1
    BY_RE = 2


#: The first bytes of a match: of each the set of bytes that it may be; and the number of the format.
_Prefix = tuple[int, ...]
_Entry = tuple[_Prefix, int]


class _Sought(NamedTuple):
    """How one format is looked for."""

    mode: Mode
    prefixes: tuple[_Prefix, ...]
    program: int = 0
    first: int = 0
    at_line_start: bool = False
    apart: bool = False


def prepare(scans: Sequence[Scan], header: Header | None) -> Prepared:
    """The groups of what a scanner looks for, and its tables; empty where it can only work through ``re``: its header has no program."""
    groups = tuple(scan.groups() for scan in scans)
    of_header = ((), None) if header is None else (header.groups, header.last)
    compiler = Compiler()
    header_program = header_first = 0
    try:
        if header is not None:
            items, _ = parse(header.regex)
            header_program = compiler.program(items, _slots(header.groups), recurring=True)
            header_first = _first(items, compiler)
    except (Unsupported, NotImplementedError):
        return Prepared(groups, tuple(Mode.BY_RE for _ in scans), b"", of_header)
    sought = [_sought(scan, of_scan, compiler) for scan, of_scan in zip(scans, groups, strict=True)]
    # Others are found behind their start, and by then a row may have been taken that was the latest before it.
    in_order = all(how.mode == Mode.PLACE for scan, how in zip(scans, sought, strict=True) if not scan.latest)
    pool = _Pool()
    columns = [_column(group, pool) for group in (header.groups if header else ())]
    formats = []
    for scan, of_scan, how in zip(scans, groups, sought, strict=True):
        flags = sum(
            flag << bit
            for bit, flag in enumerate(
                (
                    scan.covers,
                    scan.uncovered,
                    scan.once,
                    scan.header == "before",
                    scan.header == "nearest",
                    how.at_line_start,
                    # Where no match can begin inside another one, one that is left out need not be found.
                    how.apart and scan.uncovered and not scan.once,
                    scan.latest if in_order and how.mode == Mode.PLACE else 0,  # and in the bits above
                )
            )
        )
        literal = scan.format.literal
        place = (len(of_scan), len(columns), pool.add(literal), len(literal))
        formats += [how.mode, flags, how.program, how.first, *place]
        columns += [_column(group, pool) for group in of_scan]
    entries = [(prefix, number) for number, how in enumerate(sought) for prefix in how.prefixes]
    line_formats = [n for n, how in enumerate(sought) if not how.prefixes]
    starts, listed = _by_first_byte(entries)
    numbers = [
        len(scans),
        max(map(len, groups), default=0),
        0 if header is None else len(header.groups),
        len(line_formats),
        header_program,
        header_first,
        -1 if header is None or header.last is None else header.last[0],
    ]
    parts: list[NDArray[Any]] = [
        np.array(formats, np.int32),
        np.array(columns, np.int32),
        np.array(compiler.code, np.int32),
        np.stack([_bits(members) for members in compiler.sets] or [_bits(0)]),
        _entries(listed),
        np.array(starts, np.int32),
        np.array(line_formats, np.int32),
        np.frombuffer(bytes(pool), np.uint8),
        _nibbles([prefix for prefix, _ in entries]),
    ]
    return Prepared(groups, tuple(how.mode for how in sought), _joined(numbers, parts), of_header)


def _joined(numbers: Sequence[int], parts: Sequence[NDArray[Any]]) -> bytes:
    """One text of a head (numbers, then the offset of each part) and the parts, each at a multiple of eight bytes."""
    blank = -4 * (len(numbers) + len(parts)) % 8
    offset, offsets, pieces = 4 * (len(numbers) + len(parts)) + blank, [], []
    for part in parts:
        raw = part.tobytes()
        pieces.append(raw + b"\0" * (-len(raw) % 8))
        offsets.append(offset)
        offset += len(pieces[-1])
    head = np.array([*numbers, *offsets], np.int32).tobytes() + b"\0" * blank
    return head + b"".join(pieces)


class _Pool(bytearray):
    """Texts that the tables name by their offset."""

    def add(self, text: bytes) -> int:
        offset = len(self)
        self.extend(text)
        return offset


def _column(group: Group, pool: _Pool) -> tuple[int, int, int]:
    words = b"".join(bytes([len(word)]) + word for word in group.words)
    return int(group.conversion), pool.add(words), len(group.words)


def _slots(groups: Sequence[Group]) -> dict[int, int]:
    """Of the groups wanted the slots of their starts."""
    slots = {group.number: 2 * column for column, group in enumerate(groups)}
    if 2 * len(groups) > _MOST_SLOTS or len(slots) < len(groups) or any(len(w) > 255 for g in groups for w in g.words):
        raise Unsupported
    return slots


def _sought(scan: Scan, groups: Sequence[Group], compiler: Compiler) -> _Sought:
    literal = scan.format.literal
    of_literal = (tuple(1 << byte for byte in literal[:_PREFIX]),) if literal else ()
    try:
        items, _ = parse(scan.format.regex.encode())
        program = compiler.program(items, _slots(groups))
    except (Unsupported, NotImplementedError):
        return _Sought(Mode.BY_RE, of_literal)
    first = _first(items, compiler)
    if items[0].kind == "AT_BEGINNING":
        held = literal in b"\n".join(runs_of(items))
        return _Sought(Mode.LINE, () if held else of_literal, program, first, at_line_start=True)
    prefixes = _prefixes(items)
    if prefixes and sum(map(_texts, prefixes)) <= _COMMON and literal in b"\n".join(runs_of(items)):
        return _Sought(Mode.PLACE, tuple(prefixes), program, first, apart=_apart(items))
    return _Sought(Mode.LINE, of_literal, program, first)


def _apart(items: Items) -> bool:
    """Whether no match can begin inside another one: what it begins with stands nowhere later in it."""
    rest = [item for item in items if not item.takes_no_text]
    return rest[0].kind == "BYTE" and not rest[0].members & _bytes_of(rest[1:])


def _bytes_of(items: Sequence[Item]) -> int:
    """The set of all bytes that a match of a sequence may hold."""
    found = 0
    for item in items:
        if item.kind in ("BYTE", "GROUP", "BRANCH") or item.repeats:
            found |= item.members | _bytes_of([inner for part in item.inner for inner in part])
        elif not item.takes_no_text:
            return ALL_BYTES
    return found


def _first(items: Items, compiler: Compiler) -> int:
    first = first_bytes(items)
    return compiler.set_of(ALL_BYTES if first.empty else first.bytes)


def _texts(prefix: _Prefix) -> int:
    """How many texts of the bytes searched for begin with a prefix."""
    count = 1
    for members in (*prefix, *[ALL_BYTES] * _SEARCHED)[:_SEARCHED]:
        count *= members.bit_count()
    return count


def _prefixes(items: Items) -> list[_Prefix] | None:
    """The ways in which a match may begin; ``None`` where they are too many, or nothing is known."""
    try:
        found = [prefix for prefix, _ in _beginnings(items)]
    except Unsupported:
        return None
    return found if all(found) else None


def _beginnings(items: Items) -> list[tuple[_Prefix, bool]]:
    """How a sequence may begin, and of each way whether that is all of it, so that what comes next follows."""
    found: list[tuple[_Prefix, bool]] = [((), True)]
    for item in items:
        if not any(goes_on for _, goes_on in found):
            break
        following = _item_beginnings(item)
        joined: list[tuple[_Prefix, bool]] = []
        for prefix, goes_on in found:
            joined += [(prefix + after, more) for after, more in following] if goes_on else [(prefix, False)]
        found = list(dict.fromkeys((prefix[:_PREFIX], more and len(prefix) < _PREFIX) for prefix, more in joined))
        if len(found) > _MOST_PREFIXES:
            raise Unsupported
    return found


def _item_beginnings(item: Item) -> list[tuple[_Prefix, bool]]:
    if item.kind == "BYTE":
        return [((item.members & ~NEWLINE,), True)]
    if item.kind in ("GROUP", "BRANCH"):
        return [way for part in item.inner for way in _beginnings(part)]
    if item.repeats:
        if item.least:
            ways = _beginnings(item.inner[0] * min(item.least, _PREFIX))
            # More of the same may follow.
            return ways if item.least == item.most else [(prefix, False) for prefix, _ in ways]
        return [((), True), *((prefix, item.most == 1 and more) for prefix, more in _beginnings(item.inner[0]))]
    if item.takes_no_text:
        return [((), True)]  # nothing of the match
    raise Unsupported


def _entries(entries: Sequence[_Entry]) -> NDArray[np.uint64]:
    """Of each prefix the bytes that are certain, which of them are, and its format: uint64 of shape (prefixes, 3)."""
    rows = np.zeros((len(entries), 3), np.uint64)
    for row, (prefix, number) in zip(rows, entries, strict=True):
        for at, members in enumerate(prefix):
            if members.bit_count() == 1:
                row[0] |= np.uint64((members.bit_length() - 1) << 8 * at)
                row[1] |= np.uint64(0xFF << 8 * at)
        row[2] = number
    return rows


def _by_first_byte(entries: Sequence[_Entry]) -> tuple[list[int], list[_Entry]]:
    """The entries of each first byte, in the order of the formats: 257 starts, and the list that they cut."""
    starts: list[int] = []
    listed: list[_Entry] = []
    for byte in range(256):
        starts.append(len(listed))
        listed += [entry for entry in entries if entry[0][0] >> byte & 1]
    return [*starts, len(listed)], listed


def _nibbles(prefixes: Sequence[_Prefix]) -> NDArray[np.uint8]:
    """Of each byte searched for the buckets that its low and its high half fit: uint8 of shape (3, 2, 16)."""
    distinct = list(dict.fromkeys((*prefix, *[ALL_BYTES] * _SEARCHED)[:_SEARCHED] for prefix in prefixes))
    tables = [np.stack([_bits(members) for members in prefix]).reshape(_SEARCHED, 16, 16) for prefix in distinct]
    orders = [tables, tables[::-1], *(tables[k:] + tables[:k] for k in range(1, min(len(tables), _BUCKETS)))]
    halves = min(map(_in_buckets, orders), key=lambda buckets: float(_let_through(buckets).sum()))
    return np.packbits(halves.transpose(2, 1, 3, 0), axis=-1, bitorder="little")[..., 0]


def _in_buckets(tables: Sequence[NDArray[np.uint8]]) -> NDArray[np.bool_]:
    """Of each bucket the low and the high halves that fit each byte: bool of shape (buckets, 2, 3, 16)."""
    halves = np.zeros((_BUCKETS, 2, _SEARCHED, 16), bool)
    before = _let_through(halves)
    for table in tables:
        joined = halves | np.stack([table.any(1), table.any(2)])
        # It goes where it lets through the fewest texts that did not fit before.
        after = _let_through(joined)
        bucket = np.argmin(after - before)
        halves[bucket], before[bucket] = joined[bucket], after[bucket]
    return halves


def _let_through(halves: NDArray[np.bool_]) -> NDArray[np.float64]:
    """How often text looks like the prefixes of each bucket by the halves of its bytes."""
    often: NDArray[np.float64] = ((halves[:, 1] @ _OFTEN) * halves[:, 0]).sum(-1).prod(-1)
    return often


def _bits(members: int) -> NDArray[np.uint8]:
    """A set as 256 bytes of 0 and 1."""
    return np.unpackbits(np.frombuffer(members.to_bytes(32, "little"), np.uint8), bitorder="little")
