"""Log text made harmless, and figures as people read them."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_paddle import microseconds

from memlens.text import (
    STACK,
    clipped,
    format_duration,
    format_moment,
    short_name,
    shorten,
    shortened,
    visible,
    width_of,
)

#: Any text, surrogates included: a file name may hold undecodable bytes.
any_text = st.text(st.characters(codec=None))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("SOT_CALL_4", "SOT_CALL_4"),
        ("[red]größe 张量[/]", "[red]größe 张量[/]"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\tb\r\n\0", r"a\tb\r\n\x00"),
        ("\x7f\x9b1m", r"\x7f\x9b1m"),
        ("\u202etxt.exe", r"\u202etxt.exe"),
        ("zero\u200bwidth\ufeff", r"zero\u200bwidth\ufeff"),
        ("line\u2028break", r"line\u2028break"),
        ("\udcff", r"\udcff"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_characters_that_act_are_written_out_and_others_stay(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(any_text)
def test_visible_text_holds_nothing_that_a_terminal_acts_upon(text: str) -> None:
    shown = visible(text)
    categories = {unicodedata.category(character) for character in shown}
    assert not categories & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert visible(shown) == shown
    shown.encode()


@given(any_text, st.integers(1, 60))
def test_a_shortened_name_fits_and_keeps_both_ends(text: str, width: int) -> None:
    name = visible(text)
    short = shorten(name, width)
    assert width_of(short) <= width
    if short != name:
        head, _, tail = short.partition("…")
        assert name.startswith(head)
        assert name.endswith(tail)


@pytest.mark.parametrize(
    ("stamp", "shown"),
    [
        ("0712 10:54:13.123456", "07-12 10:54:13.123456"),
        ("0101 00:00:00.000000", "01-01 00:00:00.000000"),
        ("0229 23:59:59.999999", "02-29 23:59:59.999999"),
        ("1231 23:59:59.999999", "12-31 23:59:59.999999"),
        ("20240229 01:02:03.000004", "2024-02-29 01:02:03.000004"),
        ("20251120 10:39:22.159653", "2025-11-20 10:39:22.159653"),
    ],
)
def test_a_moment_is_written_as_the_log_wrote_it(stamp: str, shown: str) -> None:
    date, time = stamp.encode().split()
    assert format_moment(microseconds(date, time)) == shown


@pytest.mark.parametrize(
    ("microseconds", "shown"),
    [
        (0, "0.00 ms"),
        (116, "0.12 ms"),
        (999_990, "999.99 ms"),
        (1_000_000, "1.00 s"),
        (59_990_000, "59.99 s"),
        (60_000_000, "1 min 00 s"),
        (185_000_000, "3 min 05 s"),
        (3_600_000_000, "1 h 00 min"),
        (90_000_000_000, "25 h 00 min"),
        (-116, "-0.12 ms"),
    ],
)
def test_durations_take_the_unit_that_suits_them(microseconds: int, shown: str) -> None:
    assert format_duration(microseconds) == shown


def test_stacks_that_would_read_alike_are_written_as_far_as_they_differ() -> None:
    frames = "linear_of_a_long_name", "forward_of_a_long_name", "called_from_somewhere"
    texts = [STACK.join((*frames, end)) for end in ("first (a.py:1)", "second (b.py:2)")]
    shown = shortened(texts, 50)
    assert shown[0] != shown[1]
    assert "first" in shown[0]
    assert "second" in shown[1]
    assert all(width_of(text) <= 50 for text in shown)


def test_the_users_own_frame_stays_in_a_name_that_is_clipped_wherever_it_stands() -> None:
    libraries = [
        f"/usr/lib/python3/dist-packages/library_{k}/functional.py:{k} a_function_of_a_long_name" for k in range(9)
    ]
    for place in range(9):
        frames = [*libraries[:place], "model.py:427 attend", *libraries[place:]]
        for text in (clipped(STACK.join(frames)), short_name(STACK.join(frames))):
            assert "model.py:427 attend" in text
    assert len(clipped(STACK.join(libraries))) <= 200


def test_texts_that_fit_stay_as_they_are_and_equal_ones_stay_equal() -> None:
    assert shortened(["relu", "matmul", "relu"], 20) == ["relu", "matmul", "relu"]
