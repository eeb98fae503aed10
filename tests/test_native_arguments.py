"""The compiled modules refuse what they cannot work with, whatever they are handed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from memlens import native
from memlens.inputs.paddle import lines
from memlens.scanner.expressions import Conversion
from memlens.scanner.tables import prepare

COLUMNS: Any = native.load("memlens._columns")
REPLAY: Any = native.load("memlens._replay")
SCAN: Any = native.load("memlens.scanner._scan")
pytestmark = pytest.mark.skipif(not (COLUMNS and REPLAY and SCAN), reason="without the compiled modules")

EDGES = (0, 1, -1, 2, 7, 2**31 - 1, 2**31, 2**40 + 1, -(2**40), 2**62, 2**63 - 1, -(2**63), 2**64, -(2**70))
REFUSED = (ValueError, OverflowError, TypeError, MemoryError, BufferError)


def column(rng: random.Random, width: int, length: int) -> Any:
    """Items of any value; now and then of another width or number, misaligned or not writable."""
    if rng.random() < 0.02:
        width, length = rng.choice([1, 4, 8]), rng.choice([0, 1, 2, 3, 8])
    kind = np.dtype(f"i{width}")
    limits, few = np.iinfo(kind), rng.random() < 0.7
    inside = [edge for edge in EDGES[: 5 if few else None] if limits.min <= edge <= limits.max]
    made = np.array([rng.choice(inside) for _ in range(length)], kind)
    if rng.random() < 0.01:
        return np.frombuffer(b"\0" + made.tobytes(), kind, offset=1)
    return np.sort(made) if rng.random() < 0.3 else made


#: Each function, and its columns: widths, and how much longer than the shortest they are ("!": of any length).
FUNCTIONS: dict[str, tuple[Callable[[], Callable[..., Any]], str]] = {
    "latest": (lambda: COLUMNS.latest, "8 1 8 1 8!"),
    "align": (lambda: COLUMNS.align, "4 1 8 8 8+ 4 1 8 8+ 8! 8! 8! 8! 8! 8 8!"),
    "chain": (lambda: COLUMNS.chain, "8 8 8! 8"),
    "effects": (lambda: REPLAY.effects, "1 8 8 8 8 1 8 8! 8"),
    "start": (lambda: REPLAY.start, "1 8 4 8 8 4 8 8 8 1 1 8 8 4 8 8 8 8 8 4 8 1! 8! 8! 8! 8 8"),
    "scan": (lambda: SCAN.scan, "1! 1! 8! 8! 8!"),
    "last_header": (lambda: SCAN.last_header, "1! 1! 8! 8! 8!"),
    "lines_that_begin": (lambda: SCAN.lines_that_begin, "1 1 8! 8!"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_any_arguments_are_taken_or_refused(name: str) -> None:
    function, kinds = FUNCTIONS[name]
    rng = random.Random(name)
    for _ in range(3_000):
        length = rng.choice([0, 1, 2, 3, 8])
        lengths = [rng.choice([0, 1, 3, 8]) if "!" in kind else length + ("+" in kind) for kind in kinds.split()]
        given = [column(rng, int(kind[0]), many) for kind, many in zip(kinds.split(), lengths, strict=True)]
        if name == "align":
            given[13] = np.minimum(given[13].astype(np.int64), 1 << 20)  # keys take memory
        try:
            function()(*given)
        except REFUSED:
            continue


def test_chains_near_the_limits_of_int64_are_as_those_of_python() -> None:
    low = np.iinfo(np.int64).min
    at, chosen = np.array([0, 4], np.int64), np.zeros(2, np.int64)
    COLUMNS.chain(at, np.array([low, 0, 4, low], np.int64), np.array([4, 2, 0]), chosen)
    assert chosen.tolist() == [1, 0]  # a negative place is none, however negative
    with pytest.raises(ValueError, match="chain"):
        COLUMNS.chain(at, np.array([0, 4], np.int64), np.array([4, 2, low]), chosen)


def test_columns_that_are_written_must_lie_apart_from_the_others() -> None:
    addr = np.zeros(4, np.int64)
    with pytest.raises(ValueError, match="latest"):
        COLUMNS.latest(addr.view(np.uint64), np.zeros(4, np.int8), addr, np.zeros(4, np.uint8), np.ones(1, np.uint64))


def test_sizes_that_would_overflow_addresses_are_refused() -> None:
    one, byte = np.ones(1, np.int64), np.zeros(1, np.int8)
    given = [byte, one * (2**63 - 1), one.view(np.uint64).copy(), -one, one * 0, byte, -one, one[:0].copy(), one.copy()]
    with pytest.raises(ValueError, match="effects"):
        REPLAY.effects(*given)


def test_lines_are_chosen_by_whole_tables_and_written_as_far_as_there_is_room() -> None:
    text, every = b"a\nb\n\nc", np.ones(1 << 16, np.uint8)
    rows, counts = np.full((3, 2), -1, np.int64), np.zeros(2, np.int64)
    SCAN.lines_that_begin(text, every, rows[:2], counts)
    assert counts.tolist() == [4, 4]
    assert rows.tolist() == [[0, 0], [2, 1], [-1, -1]]
    with pytest.raises(ValueError, match="65,536"):
        SCAN.lines_that_begin(text, every[1:], rows, counts)


def whole(end: int, search: int = -1) -> Any:
    """The last argument of a scan: from where to where, by which search, and what it says."""
    return np.array([0, end, search, 0])


def test_tables_without_a_header_have_no_last_header() -> None:
    tables = prepare([], None).tables
    with pytest.raises(ValueError, match="header"):
        SCAN.last_header(b"abc", tables, np.zeros(64, np.int64), np.zeros(64, np.int64), whole(3))
    for state in ((-1, 0, 0), (9, 0, 0), (0, 2**63 - 1, 0), (0, 0, -5)):
        kept = np.zeros(64, np.int64)
        kept[:3] = state
        with pytest.raises(ValueError, match="fit"):
            SCAN.scan(b"abc", tables, kept, np.zeros(64, np.int64), whole(3))
    with pytest.raises(ValueError, match="search"):
        SCAN.scan(b"abc", tables, np.zeros(64, np.int64), np.zeros(64, np.int64), whole(3, 99))


def test_tables_that_name_anything_outside_of_themselves_are_refused_or_read_within_them() -> None:
    scanner, rng, refused = lines.scanner(times=True), random.Random(0), 0
    text = np.frombuffer(b"I0710 10:22:32.856307 13292 a.cc:270] Alloc 7 bytes, ptr = 0x7\n", np.uint8)
    numbers = scanner._tables.view(np.int32)
    formats, columns, code, after = (numbers[7 + part] // 4 for part in range(4))
    # What stands in programs, and where they begin, is not looked at.
    apart = {4, *range(formats + 2, columns, 8), *range(code, after)}
    changed = [at for at in range(len(numbers)) if at not in apart]
    for _ in range(3_000):
        tables = numbers.copy()
        for at in rng.sample([*changed[:columns], *changed[:20]], 2):
            tables[at] = rng.choice([-1, 0, 1, -(2**31), 2**31 - 1, rng.randrange(2**16)])
        state = scanner._state(0)
        try:
            SCAN.scan(text, tables.view(np.uint8), state, np.empty(4000, np.int64), whole(len(text)))
        except ValueError:
            refused += 1
    assert 0 < refused < 3_000
    longer = numbers.copy()
    words = [at for at in range(columns, code - 2, 3) if longer[at] == Conversion.WORD]
    longer[words[0] + 2] = 2**20
    with pytest.raises(ValueError, match="fit"):
        SCAN.scan(text, longer.view(np.uint8), scanner._state(0), np.empty(4000, np.int64), whole(3))
