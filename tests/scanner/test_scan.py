"""What the scanner finds, on texts small enough to be read."""

from __future__ import annotations

import numpy as np
import pytest

from memlens import native
from memlens.inputs.paddle.context import CALL
from memlens.inputs.paddle.events import BLOCK, CHUNK_NEW, HEADER, REQUEST
from memlens.scanner import Scanner
from memlens.scanner.expressions import Conversion, Group, groups_of
from memlens.scanner.formats import LineFormat
from memlens.scanner.plain import Rows, Scan

GLOG = "I1120 10:22:32.856307 13292 a.cc:270] "


@pytest.fixture(params=["compiled", "plain"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test goes both ways, where both are there."""
    if request.param == "plain":
        monkeypatch.setenv("MEMLENS_PURE", "1")


def scan(scanner: Scanner, text: str | bytes, begin: int = 0) -> Rows:
    raw = text.encode() if isinstance(text, str) else text
    block = np.frombuffer(b"#" * begin + raw + b"Alloc 1 bytes, ptr = 0x1\n", np.uint8)
    return scanner.scan(block, begin, begin + len(raw))


def form(regex: str, literal: bytes = b"") -> LineFormat:
    return LineFormat("made", "made", literal, regex, {})


def test_a_row_says_where_its_match_and_its_line_stand_and_what_the_groups_are() -> None:
    text = f"START\n{GLOG}Alloc 256 bytes, ptr = 0x7f01\nx Free 512 bytes, ptr = 0xffffffffffffffff\n"
    rows = scan(Scanner([BLOCK]), text, begin=100)
    assert rows.format.tolist() == [0, 0]
    assert rows.start.tolist() == [100 + text.index("Alloc"), 100 + text.index("Free")]
    assert rows.end.tolist() == [100 + text.index("\nx"), 100 + len(text) - 1]
    assert rows.line_start.tolist() == [106, 100 + text.index("x Free")]
    assert rows.line.tolist() == [1, 2]
    assert rows.values.tolist() == [[0, 256, 0x7F01], [1, 512, -1]]
    assert rows.header.shape == (2, 0)
    assert rows.lines == 3


def test_the_last_line_may_lack_its_line_end_and_text_after_the_end_is_not_read() -> None:
    rows = scan(Scanner([BLOCK]), "a\nAlloc 256 bytes, ptr = 0x7f")
    assert rows.values.tolist() == [[0, 256, 0x7F]]
    assert rows.lines == 1
    assert len(scan(Scanner([BLOCK]), "Alloc 256 bytes, ptr = 0x").start) == 0


def test_bytes_of_zero_are_bytes_like_others_and_there_are_none_after_the_end() -> None:
    zeros = Scanner([form("\\x00\\x00\\x00")])
    for length in range(1, 140):
        assert len(scan(zeros, b"a" * length).start) == 0
        assert scan(zeros, b"\0" * length).start.tolist() == list(range(0, length - 2, 3))


def test_a_dollar_is_the_end_of_the_line_and_a_carriage_return_stands_before_it() -> None:
    text = b"ab\r\nab\nxab"
    assert scan(Scanner([form("b$")]), text).start.tolist() == [5, 9]
    assert scan(Scanner([form("^a")]), text).start.tolist() == [0, 4]
    assert scan(Scanner([form("b\\r")]), text).start.tolist() == [1]


def test_only_the_groups_wanted_become_values_in_the_order_wanted() -> None:
    scanner = Scanner([Scan(BLOCK, values=("addr", "kind")), CHUNK_NEW])
    rows = scan(scanner, "Free 1 bytes, ptr = 0xa\nNot found and reallocate 5, and remaining 1\n")
    assert rows.values.tolist() == [[10, 1, -1], [5, -1, 0]]
    assert [group.name for group in scanner.groups[0]] == ["addr", "kind"]


def test_text_is_given_as_position_and_length() -> None:
    text = "Running AD API: matmul\n"
    (value,) = scan(Scanner([CALL]), text, begin=3).values[:, 0].tolist()
    assert (value & (1 << 40) - 1, value >> 40) == (3 + text.index("matmul"), 6)


@pytest.mark.parametrize(
    ("regex", "conversion", "words"),
    [
        ("[0-9]+", Conversion.DECIMAL, ()),
        (r"-?\d{1,9}", Conversion.DECIMAL, ()),
        ("[0-9]{8}|[0-9]{4}", Conversion.DECIMAL, ()),
        ("[0-9]{0,3}", Conversion.TEXT, ()),
        ("0x[0-9a-f]{1,16}|0", Conversion.HEXADECIMAL, ()),
        ("[0-9A-Fa-f]{1,16}", Conversion.HEXADECIMAL, ()),
        ("0x[0-9a-f]+", Conversion.HEXADECIMAL, ()),
        ("[0-9]{1,4}|0x[0-9a-f]{1,16}", Conversion.TEXT, ()),
        ("Alloc|Free|", Conversion.WORD, (b"Alloc", b"Free", b"")),
        ("[KM]i?B", Conversion.WORD, (b"KiB", b"KB", b"MiB", b"MB")),
        (r"[0-9]{2}:[0-9]{2}\.[0-9]{6}", Conversion.DIGITS, ()),
        (r"[0-9]{2}:[0-9]{2}\.[0-9]+", Conversion.TEXT, ()),
        (r"[0-9]{2}x[0-9]{2}", Conversion.TEXT, ()),
        (r"\S+", Conversion.TEXT, ()),
    ],
)
def test_the_expression_of_a_group_says_how_it_becomes_a_number(
    regex: str, conversion: Conversion, words: tuple[bytes, ...]
) -> None:
    (group,) = groups_of(f"<(?P<g>{regex})>".encode())
    assert group == Group("g", 1, conversion, words)


@pytest.fixture
def headers(way: None) -> Scanner:
    return Scanner(
        [Scan(BLOCK, header="before"), Scan(CALL, header="nearest"), REQUEST],
        header=HEADER,
        header_values=("date", "time", "thread"),
    )


def test_a_header_is_looked_for_in_the_400_bytes_before_and_in_the_line(headers: Scanner) -> None:
    for spaces, thread in ((400 - len(GLOG), 13292), (401 - len(GLOG), -1)):
        assert scan(headers, GLOG + " " * spaces + "Alloc 256 bytes, ptr = 0x7f01\n").header[0, 2] == thread
    assert scan(headers, f"{GLOG}\nAlloc 256 bytes, ptr = 0x7f01\n").header[0, 2] == -1


@pytest.mark.parametrize("regex", ["a?", "(?=a)", "a*|b", r"\b", ""])
def test_an_expression_that_may_match_no_text_is_refused(regex: str) -> None:
    with pytest.raises(ValueError, match="may match the empty text"):
        Scanner([form(regex)])


def test_a_group_that_is_not_there_or_a_header_of_text_is_refused() -> None:
    with pytest.raises(ValueError, match="no group is called 'size'; there are kind"):
        Scanner([Scan(form("(?P<kind>a)"), values=("size",))])
    with pytest.raises(ValueError, match="file is text"):
        Scanner([BLOCK], header=HEADER, header_values=("file",))


def test_what_a_scanner_cannot_look_for_is_refused() -> None:
    with pytest.raises(ValueError, match="the literal holds a line end"):
        Scanner([form("a", b"a\n")])
    with pytest.raises(ValueError, match="127 formats at most"):
        Scanner([BLOCK] * 128)
    with pytest.raises(ValueError, match="none is known"):
        Scanner([Scan(BLOCK, "nearest")])
    with pytest.raises(ValueError, match="none is known"):
        Scanner([BLOCK]).last_header(np.zeros(1, np.uint8), 0, 1)
    with pytest.raises(ValueError, match="may match the empty text"):
        Scanner([BLOCK], header=form("a*"))


def test_the_environment_switches_compiled_modules_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_sources", lambda: None)  # what is loaded here is none of memlens'
    monkeypatch.setenv("MEMLENS_PURE", "1")
    assert native.load("math") is None
    monkeypatch.setenv("MEMLENS_PURE", "0")
    assert native.load("math") is not None
    assert native.load("memlens.no_such_module") is None
