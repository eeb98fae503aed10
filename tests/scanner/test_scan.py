"""What the scanner finds, on texts small enough to be read."""

from __future__ import annotations

import numpy as np
import pytest

from memlens import native
from memlens.inputs.paddle.context import CALL
from memlens.inputs.paddle.events import BLOCK, CHUNK_NEW, HEADER, REQUEST
from memlens.inputs.paddle.other_events import STAT_LINE
from memlens.inputs.paddle.wordings import JSON
from memlens.scanner.expressions import Conversion, groups_of
from memlens.scanner.formats import LineFormat
from memlens.scanner.scan import Rows, Scan, Scanner

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


def test_a_block_without_lines_has_no_rows() -> None:
    rows = scan(Scanner([BLOCK]), "")
    assert len(rows.start) == rows.lines == 0
    assert rows.values.shape == (0, 3)


def test_two_matches_of_one_line_are_two_rows_unless_only_the_first_is_wanted() -> None:
    text = "Free 512 bytes, ptr = 0x7f01Free 256 bytes, ptr = 0x7f02\n"
    assert scan(Scanner([BLOCK]), text).values[:, 1].tolist() == [512, 256]
    assert scan(Scanner([Scan(BLOCK, once=True)]), text * 2).values[:, 1].tolist() == [512, 512]


def test_rows_are_in_the_order_of_their_starts_and_then_of_the_formats() -> None:
    scanner = Scanner([form("[0-9]+"), BLOCK, form("Alloc")])
    rows = scan(scanner, "7 Alloc 8 bytes, ptr = 0x\nAlloc 9 bytes, ptr = 0x1\n")
    assert list(zip(rows.format.tolist(), rows.start.tolist(), strict=True)) == [
        (0, 0),
        (2, 2),
        (0, 8),
        (0, 23),
        (1, 26),
        (2, 26),
        (0, 32),
        (0, 47),
        (0, 49),
    ]


def test_a_line_without_the_literal_has_no_match() -> None:
    assert len(scan(Scanner([JSON]), '{"reserved": 5}\n').start) == 0
    assert len(scan(Scanner([JSON]), '{"reserved": 5, "allocated": 4}\n').start) == 2


def test_a_dollar_is_the_end_of_the_line_and_a_carriage_return_stands_before_it() -> None:
    text = b"ab\r\nab\nxab"
    assert scan(Scanner([form("b$")]), text).start.tolist() == [5, 9]
    assert scan(Scanner([form("^a")]), text).start.tolist() == [0, 4]
    assert scan(Scanner([form("b\\r")]), text).start.tolist() == [1]


def test_a_look_alike_is_left_out_where_a_match_covers_it() -> None:
    alike = LineFormat("alike", "made", b"", r"(?:Alloc|Free) [0-9]| bytes, ptr = 0x", {})
    scanner = Scanner([Scan(alike, uncovered=True), Scan(BLOCK, covers=True)])
    rows = scan(scanner, "Alloc 256 bytes, ptr = 0x7f01 Alloc 256 bytes, ptr = ?\n bytes, ptr = 0x1\n")
    assert rows.format.tolist() == [1, 0, 0]
    assert rows.start.tolist() == [0, 30, 55]


def test_only_the_groups_wanted_become_values_in_the_order_wanted() -> None:
    scanner = Scanner([Scan(BLOCK, values=("addr", "kind")), CHUNK_NEW])
    rows = scan(scanner, "Free 1 bytes, ptr = 0xa\nNot found and reallocate 5, and remaining 1\n")
    assert rows.values.tolist() == [[10, 1, -1], [5, -1, 0]]
    assert [group.name for group in scanner.groups[0]] == ["addr", "kind"]


def test_text_is_given_as_position_and_length() -> None:
    text = "Running AD API: matmul\n"
    (value,) = scan(Scanner([CALL]), text, begin=3).values[:, 0].tolist()
    assert (value & (1 << 40) - 1, value >> 40) == (3 + text.index("matmul"), 6)


def test_numbers_may_be_negative_and_are_held_at_the_largest_one() -> None:
    rows = scan(
        Scanner([STAT_LINE]),
        "HostMemoryStatReserved0: Update current_value with -64, after update, current value = 1728\n",
    )
    assert rows.values[0, [0, 1, 2, 3, 5, 6]].tolist() == [1, 1, 0, -64, -1, 1728]
    number = Scanner([form("(?P<n>-?[0-9]+)")])
    texts = ["9223372036854775806", "9223372036854775808", "18446744073709551617", "-" + "9" * 5000, "0" * 5000 + "7"]
    assert scan(number, "\n".join(texts)).values[:, 0].tolist() == [2**63 - 2, 2**63 - 1, 2**63 - 1, 1 - 2**63, 7]


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
    assert group == ("g", 1, conversion, words)


@pytest.fixture
def headers(way: None) -> Scanner:
    return Scanner(
        [Scan(BLOCK, header="before"), Scan(CALL, header="nearest"), REQUEST],
        header=HEADER,
        header_values=("date", "time", "thread"),
    )


def test_the_header_that_ends_where_the_match_starts_is_read_with_it(headers: Scanner) -> None:
    rows = scan(headers, f"{GLOG}Alloc 256 bytes, ptr = 0x7f01\n{GLOG}x Alloc 256 bytes, ptr = 0x7f01\n")
    assert rows.header.tolist() == [[1120, 102232856307, 13292], [-1, -1, -1]]


def test_a_header_may_stand_in_a_torn_line_and_may_be_coloured(headers: Scanner) -> None:
    text = f"xI1120 10:22:3{GLOG}\x1b[0mAlloc 256 bytes, ptr = 0x7f01\n"
    assert scan(headers, text).header.tolist() == [[1120, 102232856307, 13292]]
    for colour, thread in (
        ("\x1b[1;31m", 13292),
        ("\x1b[@", 13292),
        ("\x1b[?25 /~", 13292),
        ("\x1b[1", -1),
        ("\x1b[\x7f", -1),
    ):
        assert scan(headers, text.replace(" 13292", f" {colour}13292")).header[0, 2] == thread


def test_a_header_is_looked_for_in_the_400_bytes_before_and_in_the_line(headers: Scanner) -> None:
    for spaces, thread in ((400 - len(GLOG), 13292), (401 - len(GLOG), -1)):
        assert scan(headers, GLOG + " " * spaces + "Alloc 256 bytes, ptr = 0x7f01\n").header[0, 2] == thread
    assert scan(headers, f"{GLOG}\nAlloc 256 bytes, ptr = 0x7f01\n").header[0, 2] == -1


def test_the_nearest_header_is_the_last_one_before_the_match_in_its_line_or_above(headers: Scanner) -> None:
    other = GLOG.replace("13292", "7")
    text = (
        "Running AD API: first\n"
        f"{GLOG}x\nsaid [0] Running AD API: second\n"
        f"{other}y Running AD API: third\n"
        "Running AD API: fourth\n"
    )
    rows = scan(headers, text, begin=5)
    assert rows.format.tolist() == [1] * 4
    assert rows.header[:, 2].tolist() == [-2, 13292, 7, 7]


def test_the_last_header_of_a_text_is_given_alone(headers: Scanner) -> None:
    text = np.frombuffer(f"{GLOG}x\n{GLOG.replace('13292', '8')} [1]\n[2] I1120 x]\n".encode(), np.uint8)
    last = headers.last_header(text, 0, len(text))
    assert last is not None
    assert last.tolist() == [1120, 102232856307, 8]
    assert headers.last_header(text, 3, 30) is None


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
