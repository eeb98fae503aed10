"""The compiled scanner finds what the plain one finds, which is what ``re`` finds."""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import random
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Literal
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import structs
from night import many, some

import memlens.inputs
from memlens import native
from memlens.inputs.paddle import lines
from memlens.inputs.paddle.context import CALL
from memlens.inputs.paddle.events import BLOCK, HEADER
from memlens.scanner import Scanner
from memlens.scanner.formats import LineFormat
from memlens.scanner.plain import Rows, Scan

compiled = native.load("memlens.scanner._scan")
pytestmark = pytest.mark.skipif(compiled is None, reason="the compiled module was not built")


def all_formats() -> list[LineFormat]:
    """Every format of every input, in no particular order."""
    found = {}
    for module in pkgutil.walk_packages(memlens.inputs.__path__, "memlens.inputs."):
        for value in vars(importlib.import_module(module.name)).values():
            for form in value if isinstance(value, tuple) else (value,):
                if isinstance(form, LineFormat):
                    found[form.name] = form
    return list(found.values())


ALIKE = LineFormat("alike", "made", b"", r"(?:Alloc|Free) [0-9]| bytes, ptr = 0x", {})
#: One that only ``re`` can read, one that begins a line, one that nothing is known of.
OTHERS = [
    LineFormat("doubled", "made", b"7f0", r"(?P<text>7f[0-9])(?:.{0,9}(?P=text))", {}),
    LineFormat("start", "made", b"", r"^(?P<level>[A-Z])(?P<date>[0-9]{4})", {}),
    LineFormat("number", "made", b"[", r"(?P<number>[0-9]+)(?P<rest>[^\s0-9]*?)$", {}),
]


def everything() -> list[Scan]:
    formats = all_formats()
    headers: tuple[Literal["none", "before", "nearest"], ...] = ("none", "before", "nearest")
    scans = [
        Scan(form, headers[i % 3], covers=i % 2 == 0, uncovered=i % 10 == 5, once=i % 7 == 0)
        for i, form in enumerate([*formats, *OTHERS])
        if form is not HEADER
    ]
    return [Scan(ALIKE, uncovered=True), Scan(BLOCK, "before", covers=True), *scans]


ALL = everything()
WHOLE = Scanner(ALL, header=HEADER, header_values=("level", "date", "time", "thread", "line"))
#: Each with the header nearest to it: in order or not, the compiled scanner finds it.
NEAREST = Scanner(
    [structs.replace(scan, header="nearest", covers=False, uncovered=False) for scan in ALL],
    header=HEADER,
    header_values=("thread", "line"),
)
SINGLE = [Scanner([scan], header=HEADER, header_values=("thread",)) for scan in ALL]
GLOG = b"I1120 10:22:32.856307 13292 a.cc:270] "
LINES = [
    text.encode()
    for form in [*all_formats(), BLOCK]
    for text in (*(sample.line for sample in form.examples), *form.traps)
] + [b"", GLOG, b"7f0 7f0 [3", b"I1120 12abc", b"[5]\x1b[1;31m", b"99999999999999999999 ["]


def blocks_of(text: bytes) -> Iterator[tuple[np.ndarray, int, int]]:
    """The text alone, and in the middle of more."""
    yield np.frombuffer(text, np.uint8).copy(), 0, len(text)  # so that reading past it is seen by a sanitizer
    around = b"Alloc 7 bytes, ptr = 0x7\n" + GLOG + b"7a"
    yield np.frombuffer(around + text + around, np.uint8), len(around), len(around) + len(text)


def assert_same(scanner: Scanner, text: bytes) -> None:
    for block, begin, end in blocks_of(text):
        assert_rows(scanner.scan(block, begin, end), scanner._plain.scan(block, begin, end))


def assert_rows(found: Rows, expected: Rows) -> None:
    for name in Rows.__struct_fields__:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


def damaged(chance: random.Random, lines: int) -> bytes:
    """Lines of samples and traps, torn, joined, coloured, with headers before them, and with bytes that are not theirs."""
    found = []
    for _ in range(lines):
        line = chance.choice(LINES)
        for _ in range(chance.choice((0, 0, 1, 1, 2, 3))):
            at = chance.randrange(len(line) + 1)
            what = chance.randrange(8)
            if what == 0:
                line = line[:at]
            elif what == 1:
                line = line[:at] + chance.choice(LINES) + line[at:]
            elif what == 2:
                line = line[:at] + bytes([chance.randrange(256)]) + line[at + 1 :]
            elif what == 3:
                line = line[:at] + chance.choice((b"\x1b[0m", b"\x1b[1;3", b"\x1b", b"\0", b"\r", b"\n")) + line[at:]
            elif what == 4:
                line = GLOG + line
            elif what == 5:
                line = line[:at] + chance.choice((GLOG, b" " * chance.choice((1, 333, 362, 400)))) + line[at:]
            elif what == 6:
                line = line[:at] + line[at:].swapcase()
            else:
                line = line[at:] + b"0123456789"[: chance.randrange(11)]
        found.append(line)
    return chance.choice((b"\n", b"\n", b"\r\n")).join(found) + chance.choice((b"", b"\n"))


@pytest.mark.parametrize("scan", some(range(len(ALL)), 2))
def test_each_format_alone_finds_what_re_finds_in_every_sample_and_trap(scan: int) -> None:
    scanner = SINGLE[scan]
    for line in some(LINES[scan % 12 :], 12):
        assert_same(scanner, line)
        assert_same(scanner, GLOG + line + b"\n" + line)
    assert_same(scanner, b"\n".join(LINES))


def searches() -> list[int]:
    """The packed searches that this machine can run."""
    found, block = [], np.zeros(1, np.uint8)
    for search in range(2 if compiled else 0):
        scanner = Scanner([])
        scanner._search = search
        with suppress(ValueError):
            scanner.scan(block, 0, 1)
            found.append(search)
    return found


@pytest.mark.skipif(compiled is None, reason="without the compiled scanner")
def test_the_machine_runs_one_of_the_packed_searches_at_least() -> None:
    assert searches()


@pytest.mark.parametrize("search", searches())
@pytest.mark.parametrize("seed", some(range(40)))
def test_all_formats_together_find_what_re_finds_in_damaged_text(
    search: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WHOLE, "_search", search)
    chance = random.Random(seed)
    text = damaged(chance, chance.choice((1, 3, 60)))
    assert_same(WHOLE, text)
    assert_same(NEAREST, text)
    assert_same(SINGLE[seed % len(SINGLE)], text)


@pytest.mark.parametrize("seed", some(range(20)))
def test_a_full_buffer_of_rows_changes_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = damaged(random.Random(1000 + seed), 40)
    for room in (1, 100, 700, 1500):
        monkeypatch.setattr(WHOLE, "_room", room)
        assert_same(WHOLE, text)


@pytest.mark.parametrize("seed", some(range(10), 2))
def test_a_line_goes_with_its_block_wherever_the_blocks_are_cut(seed: int) -> None:
    text = damaged(random.Random(2000 + seed), 30)
    block = np.frombuffer(text, np.uint8)
    whole = WHOLE.scan(block, 0, len(block))
    ends = np.flatnonzero(block == ord("\n")) + 1
    cut = int(ends[len(ends) // 2])
    parts = [WHOLE.scan(block, 0, cut), WHOLE.scan(block, cut, len(block))]
    for name in ("format", "start", "end", "line_start", "values"):
        np.testing.assert_array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(whole, name))
    assert parts[0].lines + parts[1].lines == whole.lines
    for low, high in ((0, cut), (cut, len(block))):
        found, expected = (way.last_header(block, low, high) for way in (WHOLE, WHOLE._plain))
        assert (found is None) == (expected is None)
        assert found is None or expected is None or found.tolist() == expected.tolist()


def test_a_block_of_paddle_is_not_read_again_by_re() -> None:
    scanner = lines.scanner(times=True, replays=True)
    text = b"".join(GLOG + sample.line.encode() + b"\n" for scan in lines.SCANS[1] for sample in scan.format.examples)
    with mock.patch.object(scanner, "_finish", side_effect=AssertionError("it is read again")):
        rows = scanner.scan(np.frombuffer(text, np.uint8), 0, len(text))
    assert latest(rows, scanner) == latest(scanner._plain.scan(np.frombuffer(text, np.uint8), 0, len(text)), scanner)
    assert not NEAREST._to_finish


def latest(rows: Rows, scanner: Scanner) -> list[list[int]]:
    """The rows that count, in order: of a group those that no later one makes needless (``Scan.latest``)."""
    kept: list[list[int] | None] = []
    # By group and thread: where the row stands that a later one may make needless, or -1.
    last: dict[tuple[int, int], int] = {}
    for at in np.lexsort((rows.format, rows.start)).tolist():
        row = [int(getattr(rows, name)[at]) for name in ("format", "start", "end", "line_start", "line")]
        group, thread = scanner._scans[row[0]].latest, int(rows.header[at, 0])
        if group:
            if last.get((group, thread), -1) >= 0:
                kept[last[group, thread]] = None
            last[group, thread] = len(kept)
        else:
            for of, whose in last:
                if whose == thread or (of, thread) not in last:
                    last[of, whose] = -1
        kept.append([*row, *rows.values[at].tolist(), *rows.header[at].tolist()])
    return [row for row in kept if row is not None]


@pytest.mark.parametrize("room", [1, 1 << 16])
@pytest.mark.parametrize("threads", [1, 3, 40])
@pytest.mark.parametrize("seed", some(range(20), 5))
def test_of_a_group_only_the_latest_rows_of_a_thread_stay(
    seed: int, threads: int, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, scanner = random.Random(seed), lines.scanner(times=seed % 2 == 0, replays=False)
    messages = [f"Running AD API: op{k}" for k in range(3)]
    messages += [
        "Allocate 7 bytes, aligned to 256, extra size 0",
        "Try allocate 5 bytes",
        "memlens calls relu < a.py:1",
        "Alloc 256 bytes, ptr = 0x7f00",
        "Free 256 bytes, ptr = 0x7f00",
        "Alloc 2x bytes, ptr = 0x7f00",
        "Alloc",
    ]
    found = []
    for _ in range(400):
        head = f"I1120 10:22:32.856307 {13292 + chance.randrange(threads)} a.cc:270] " if chance.random() < 0.9 else ""
        found.append(head + chance.choice(messages))
    text = "\n".join(found).encode()
    monkeypatch.setattr(scanner, "_room", room)
    block = np.frombuffer(text, np.uint8)
    rows, plain = scanner.scan(block, 0, len(text)), scanner._plain.scan(block, 0, len(text))
    assert latest(rows, scanner) == latest(plain, scanner)
    assert len(rows.start) < len(plain.start)
    if threads <= 3 and room > 1:
        assert len(rows.start) == len(latest(plain, scanner))


EVENT_LINES = [
    b"Alloc 256 bytes, ptr = 0x7f00",
    b"Free 256 bytes, ptr = 0x7f00",
    b"Free chunk with size 512, ptr = 0x7f00",
]


@pytest.mark.parametrize("seed", some(range(20)))
def test_what_looks_like_an_event_is_found_wherever_it_is_part_of_none(seed: int) -> None:
    """The plain way does not look where every literal is part of an event: here a text in two has one event of some dozens that is damaged."""
    chance, scanner = random.Random(seed), lines.scanner(times=True, replays=False)
    found = [GLOG + chance.choice(EVENT_LINES) for _ in range(chance.choice((1, 40)))]
    if chance.random() < 0.5:
        where = chance.randrange(len(found))
        at = chance.randrange(len(found[where]))
        found[where] = found[where][:at] + bytes([chance.randrange(32, 127)]) + found[where][at + 1 :]
    text = b"\n".join(found)
    assert_same(scanner, text)
    block = np.frombuffer(text, np.uint8)
    plain = scanner._plain.scan(block, 0, len(text))
    with mock.patch.object(scanner._plain, "_left_out", [False] * 100):
        assert_rows(plain, scanner._plain.scan(block, 0, len(text)))


def test_a_row_whose_header_is_left_to_re_takes_no_place_and_leaves_none() -> None:
    header = LineFormat("slow", "made", b"", rf"(?P<thread>[0-9]){'x?' * 18}\]", {})
    call, event = (LineFormat(name, "made", name.encode(), name, {}) for name in ("call", "event"))
    scans = [Scan(call, "before", latest=1), Scan(event, "before")]
    scanner = Scanner(scans, header=header, header_values=("thread",))
    slow = "7" + "x" * 9 + " "
    choices = [slowly + text for slowly in ("", slow) for text in ("1]call", "2]call", "1]event", "2]event")]
    for three in some(itertools.product(choices, repeat=3), 13):
        text = "\n".join(three).encode()
        block = np.frombuffer(text, np.uint8)
        rows, plain = scanner.scan(block, 0, len(text)), scanner._plain.scan(block, 0, len(text))
        assert latest(rows, scanner) == latest(plain, scanner), text


def test_threads_share_a_scanner() -> None:
    texts = [np.frombuffer(damaged(random.Random(3000 + seed), 200), np.uint8) for seed in range(16)]
    expected = [WHOLE._plain.scan(text, 0, len(text)) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            for found, rows in zip(pool.map(lambda text: WHOLE.scan(text, 0, len(text)), texts), expected, strict=True):
                assert_rows(found, rows)


def test_what_is_not_decided_within_the_bounds_is_left_to_re() -> None:
    slow = LineFormat("slow", "made", b"", f"(?P<a>a){'x?' * 18}(?P<b>b)", {})
    scanner = Scanner([slow, BLOCK])
    text = b"axxb a" + b"x" * 9 + b" ab\nAlloc 1 bytes, ptr = 0x1 ab\n"
    rows = scanner.scan(np.frombuffer(text, np.uint8), 0, len(text))
    assert rows.start.tolist() == [0, text.index(b" ab") + 1, text.index(b"Alloc"), len(text) - 3]
    assert_same(scanner, text)


CHARS = "ab0 x"


BYTES = [*CHARS, "[ab]", "[^a]", "[0-9]", r"\d", r"\w", r"\s", ".", r"\S", "[a-x]"]
COUNTS = ["?", "*", "+", "??", "*?", "+?", "{2}", "{1,3}", "{0,2}?", "{2,}", "*+", "?+"]


def expressions() -> st.SearchStrategy[str]:
    """Small expressions; they match at least one byte."""
    counts = st.sampled_from(COUNTS)
    one = st.sampled_from(BYTES)
    atoms = st.one_of(
        one,
        st.sampled_from(["ab", "a0b", "^", "$", r"\b", r"\B", "(?<=a)", "(?<!b)", "(?<=ab)", r"(?<!\w)"]),
        st.tuples(one, counts).map("".join),
    )

    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.lists(inner, min_size=2, max_size=3).map("".join),
            st.tuples(inner, counts).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
            st.lists(inner, min_size=2, max_size=3).map(lambda some: f"(?:{'|'.join(some)})"),
            inner.map(lambda text: f"(?={text})"),
            inner.map(lambda text: f"(?!{text})"),
            inner.map(lambda text: f"(@{text})"),
        )

    small = st.recursive(atoms, larger, max_leaves=8)
    return st.tuples(small, one, small).map("".join)


def with_names(regex: str) -> str:
    for name in "pqrstuv":
        regex = regex.replace("(@", f"(?P<{name}>", 1)
    return regex.replace("(@", "(?:")


texts = st.lists(st.text(CHARS + "\r", max_size=12), max_size=30).map(lambda lines: "\n".join(lines).encode())


@settings(max_examples=many(500))
@given(expressions().map(with_names), texts, st.sampled_from(["", "", "a", "ab", "0"]))
@example("a{0,3}(?P<p>b)?a", b"aab aaaa aba", "")
@example("(?P<p>(?:a|ab)(?:c|bcd)*)(?P<q>x?)", b"abcdx", "")
@example("(?P<p>[ab]+)ab0", b"aababab0", "")
@example("(?P<p>[ab]{1,4}?)(?:b0|a0)", b"aababab0", "")
@example("(?:(?=(?P<p>a))ab|(?P<q>a)x)", b"ab ax", "")
@example("[ab](?P<p>$|a)", b"ab\nbaa", "")
@example("(?:(?P<p>a)b|(?P<q>a)x)(?P<r>x)??0", b"ab0 axx0", "")
@example("(?:(?<=(?P<p>a))b0|b(?P<q>x))", b"abx ab0", "")
def test_any_small_expression_finds_what_re_finds(regex: str, text: bytes, literal: str) -> None:
    try:
        re.compile(regex.encode())
        scanner = Scanner([LineFormat("made", "made", literal.encode(), regex, {}), CALL])
    except (re.error, ValueError):
        return
    assert_same(scanner, text)


@settings(max_examples=many(300))
@given(expressions().map(with_names), texts)
@example("b?", b"00aa 0a 0b")
@example(r"\w", b"a0a\n000a\n0b")
def test_any_small_header_finds_what_re_finds(regex: str, text: bytes) -> None:
    regex = regex.replace("(?P<", "(?:(?#") if "(?P<" in regex else regex
    regex = re.sub(r"\(\?#(\w)>", "", regex)
    header = LineFormat("header", "made", b"", regex + "(?P<m>[0-9])?(?P<n>[0-9])x *", {})
    try:
        scanner = Scanner(
            [
                Scan(LineFormat("a", "made", b"", "aa", {}), "before"),
                Scan(LineFormat("b", "made", b"", "bb", {}), "nearest"),
            ],
            header=header,
            header_values=("m", "n"),
        )
    except (re.error, ValueError):
        return
    assert scanner._compiled is None or not scanner._to_finish  # or ``re`` would add the headers
    assert_same(scanner, text.replace(b"00", b"07x").replace(b"0b", b"5xbb").replace(b"0a", b"6xaa"))


def test_the_nearest_header_costs_no_more_than_going_over_the_text_once() -> None:
    text = np.frombuffer(
        b"Running AD API: x [1]\n" * 200_000, np.uint8
    )  # each of them looks for the header of another line
    scanner = Scanner([Scan(CALL, "nearest")], header=HEADER, header_values=("thread",))
    assert (scanner.scan(text, 0, len(text)).header == -2).all()
    assert scanner.last_header(text, 0, len(text)) is None
