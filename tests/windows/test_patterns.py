"""Lines that a pattern marks: whole words, expressions, colours, and the fast way against the plain one."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from memory_source import MemorySource

from memlens.errors import UsageError
from memlens.facts import Facts
from memlens.log import Log
from memlens.scanner.expressions import longest_text
from memlens.windows.anchors import find_anchors
from memlens.windows.patterns import Match, Matcher, Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

LOG = b"""\
EPOCH 0 START
START SOT_CALL_42
I1120 10:22:32.856307 13292 auto_growth_best_fit_allocator.cc:270] Alloc 256 bytes, ptr = 0x5606f8aeb000
START SOT_CALL_4
RESTART SOT_CALL_4
69: START SOT_CALL_4, again
"""


def block_of(text: bytes) -> np.ndarray:
    return np.frombuffer(text, np.uint8)


def found(pattern: Pattern, text: bytes) -> list[str]:
    """The text of the lines that match."""
    return [text[match.start :].split(b"\n", 1)[0].decode() for match in Matcher(pattern).find(block_of(text))]


def plainly(pattern: Pattern, text: bytes) -> list[Match]:
    """The definition, line by line."""
    matches, start = [], 0
    lines = text.splitlines(keepends=True) if b"\r" not in text else re.findall(rb"[^\n]*\n|[^\n]+", text)
    for number, line in enumerate(lines):
        name = pattern.match_line(line)
        if name is not None:
            matches.append(Match(start, number, name))
        start += len(line)
    return matches


@pytest.mark.parametrize("length", range(1, 20))
def test_a_literal_of_any_length_is_found_wherever_it_stands(length: int) -> None:
    text = "abcdefghijklmnopqrst"[:length]
    log = b"%s\n. %s .\n%sx\n.%s" % ((text.encode(),) * 4)
    assert found(Pattern(text), log) == [text, f". {text} .", f".{text}"]


def test_the_name_is_the_first_group_or_what_matched() -> None:
    line = b"x START SOT_CALL_7 y\n"
    assert Pattern(r"START (\w+)", regex=True).match_line(line) == "SOT_CALL_7"
    assert Pattern(r"START \w+", regex=True).match_line(line) == "START SOT_CALL_7"
    assert Pattern(r"START (nothing)?", regex=True).match_line(line) == "START "
    assert Pattern("START SOT_CALL_7").match_line(line) == "START SOT_CALL_7"


def test_a_match_without_text_is_named_by_its_line() -> None:
    assert Pattern("^", regex=True).match_line(b"STEP 3\n") == "STEP 3"


@pytest.mark.parametrize("pattern", [Pattern("START SOT_CALL_4"), Pattern(r"^START SOT_CALL_4$", regex=True)])
@pytest.mark.parametrize(
    "line",
    [
        b"\x1b[32mSTART SOT_CALL_4\x1b[0m\n",
        b"START \x1b[1;31mSOT_\x1b[0mCALL_4\r\n",
        b"\x1b]0;title\x07START SOT_CALL_4\n",
        b"\x1b(BSTART SOT_CALL_4",
    ],
)
def test_colours_do_not_hide_an_anchor(pattern: Pattern, line: bytes) -> None:
    log = b"before\n\x1b[31mred\x1b[0m\n" + line
    assert [match.start for match in Matcher(pattern).find(block_of(log))] == [len(log) - len(line)]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (Pattern(""), "empty"),
        (Pattern("", regex=True), "empty"),
        (Pattern("a\nb"), "spans lines"),
        (Pattern("é(START", regex=True), r"'é\(START' is not a regular expression: .*at position 2"),
    ],
)
def test_a_pattern_that_is_none_is_wrong_usage_and_says_where(pattern: Pattern, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Matcher(pattern)


@pytest.mark.parametrize("text", ["(" * 5000 + ")" * 5000, "a{99999999999999999999}", "(?u)a", "[[a]"])
def test_an_odd_expression_never_ends_in_another_error(text: str) -> None:
    with suppress(UsageError):  # some of them are expressions to one Python and not to another
        Matcher(Pattern(text, regex=True))


# -- the fast way is the plain way ---------------------------------------------------------------------------------------

WORDS = [
    *("START", "STEP", "SOT_CALL_4", "SOT_CALL_42", " ", "  ", "a", "\x1b[31m", "\x1b[0m", "0", "_", "é"),
    *("\r", "\n", "\n", "S"),
]
TEXTS = st.lists(st.sampled_from(WORDS) | st.text("STAR \n\x1b[m_4", max_size=6), max_size=40).map("".join)
LITERALS = st.sampled_from(["START", "SOT_CALL_4", "START SOT_CALL_4", "S", "_", " ", "é", "T S"])
ATOMS = st.sampled_from(
    [
        *("S", "T", "START", "STEP", " ", r"\d", r"\w+", ".", "^", "$", r"\b", "[A-S]", "a?", "4*"),
        *("(?=SOT)", "(?<=_)", r"(?i:start)"),
    ]
)
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"({'|'.join(parts)})"),
        inner.map(lambda part: f"(?:{part})?"),
        inner.map(lambda part: f"(?:{part}){{1,2}}"),
        inner.map(lambda part: f"(?:{part}){{2}}"),
        inner.map(lambda part: f"(?!{part})"),
    ),
    max_leaves=8,
)


@given(TEXTS, LITERALS)
@example("SOT_CALL_42 SOT_CALL_4", "SOT_CALL_4")
def test_a_block_gives_the_lines_that_the_plain_way_gives_for_a_literal(text: str, literal: str) -> None:
    pattern = Pattern(literal)
    assert Matcher(pattern).find(block_of(text.encode())) == plainly(pattern, text.encode())


@given(TEXTS, EXPRESSIONS, st.booleans())
def test_a_block_gives_the_lines_that_the_plain_way_gives_for_an_expression(
    text: str, expression: str, caseless: bool
) -> None:
    pattern = Pattern(f"(?i){expression}" if caseless else expression, regex=True)
    assert Matcher(pattern).find(block_of(text.encode())) == plainly(pattern, text.encode())


@given(TEXTS, EXPRESSIONS, st.booleans())
def test_a_line_that_matches_holds_the_text_it_must_hold(text: str, expression: str, caseless: bool) -> None:
    expression = f"(?i){expression}" if caseless else expression
    needed = longest_text(expression.encode())
    for line in text.encode().splitlines():
        if re.search(expression.encode(), line):
            assert needed.lower() in line.lower() if caseless else needed in line


def test_anchors_of_a_block_are_counted_from_its_place_in_the_log() -> None:
    text = LOG * 20 + b"START SOT_CALL_4 and the line goes on " * 50 + b"\n" + b"no end of line: START SOT_CALL_4"
    for pattern in (Pattern("START SOT_CALL_4"), Pattern(r"\d+ START", regex=True), Pattern(r"\d{3}|", regex=True)):
        plain = plainly(pattern, text)
        assert Matcher(pattern).find(block_of(text), 100, 11) == [
            Match(100 + start, 11 + text.count(b"\n", 0, start), name) for start, _, name in plain
        ]


def test_a_line_of_megabytes_is_searched_as_a_whole() -> None:
    text = b"x\n" + b"a " * 1_000_000 + b"START LOSS" + b" b" * 1_000_000 + b"\nSTART LOSS\n"
    assert [m.start for m in Matcher(Pattern("START LOSS")).find(block_of(text))] == [2, len(text) - 11]


# -- anchors of a log ----------------------------------------------------------------------------------------------------


class Blockwise(MemorySource):
    """Memory that gives its text line by line, as a file does in large blocks."""

    def blocks(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
        offset = 0
        for line in self.text.splitlines(keepends=True):
            yield offset, line
            offset += len(line)


def test_anchors_of_a_log_have_exact_places_over_all_blocks() -> None:
    log = Log.from_rows([], source=Blockwise(LOG), facts=Facts(bytes=len(LOG), lines=LOG.count(b"\n")))
    anchor = find_anchors(log, [Pattern("START SOT_CALL_4")])[0]
    assert tuple(anchor.lines) == (4, 6)
    assert [LOG[offset:].split(b"\n")[0] for offset in anchor.offsets] == [
        b"START SOT_CALL_4",
        b"69: START SOT_CALL_4, again",
    ]
