"""The picture of a run: nothing is wider than there is room, the peak stands in its column, and ASCII is ASCII."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlens.analyzers.curve import Curve
from memlens.reports.blocks import Picture
from memlens.reports.markdown import render as markdown
from memlens.reports.picture import draw, sparkline
from memlens.reports.terminal import render
from memlens.text import Terms, plain_ascii, visible, width_of
from memlens.units import format_bytes

MIB = 1 << 20


def levels(*high: int, low: list[int] | None = None, reserved: list[int] | None = None, **more: Any) -> Curve:
    """A curve with an event a bucket."""
    count = len(high)
    columns = (list(high) if low is None else low, list(high), [0] * count if reserved is None else reserved)
    lows, highs, chunks = (np.array(column, np.int64) for column in columns)
    return Curve(np.arange(count + 1), lows, highs, chunks, **{"end_line": count, **more})


def lines(curve: Curve, width: int = 80, ascii_only: bool = False, rows: int = 6) -> list[str]:
    drawn = draw(Picture(curve, rows=rows), width, ascii_only=ascii_only)
    return ["".join(text for text, _ in line) for line in drawn]


def test_a_picture_shows_levels_marks_and_labels() -> None:
    # Three columns for each of 10 buckets: 40, less 10 for the labels. 6 rows are 4 MiB, so a MiB is a row and a half.
    curve = levels(
        *(MIB * k for k in (0, 1, 2, 3, 2, 1, 1, 0, 0, 0)),
        reserved=[MIB * k for k in (2, 2, 4, 4, 4, 4, 4, 4, 0, 0)],
        peak_event=3,
        failures=(6,),
        steps=((2, "STEP 1"), (6, "STEP 2")),
    )
    assert [line.rstrip() for line in lines(curve, 40)] == [
        "          █ allocated  ─ reserved",
        "4.00 MiB ┤      ▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔",
        "3.00 MiB ┤         ▄▄▄",
        "         │         ███",
        "         │▔▔▔▔▔▔█████████",
        "         │   ▄▄▄█████████▄▄▄▄▄▄",
        "         │   ██████████████████",
        "     0 B └──────┴──▲────────✗───────────",
        "                STEP 1           line 10",
    ]


def test_memory_that_comes_and_goes_within_a_column_is_told_from_what_stays() -> None:
    text = lines(levels(*[6 * MIB] * 60, low=[3 * MIB] * 60))
    assert [line[10:20] for line in text[1:7]] == ["▒" * 10] * 3 + ["█" * 10] * 3
    assert text[0].split("  ")[5:] == ["█ allocated", "▲ peak", "▒ at times", "over 60 events"]


def test_the_signs_explained_are_those_that_are_there() -> None:
    assert "".join(lines(levels(0, 0, reserved=[5, 9]))[0]).split() == ["─", "reserved", "over", "2", "events"]
    assert lines(levels(7, 7, failures=(1,)))[0].split("  ")[-1] == "over 2 events"
    assert "✗ out of memory" in lines(levels(7, 7, failures=(1,)))[0]


def test_a_log_that_frees_what_it_never_allocated_is_drawn_from_its_lowest_level() -> None:
    text = lines(levels(-3 * MIB, 0, 3 * MIB, low=[-3 * MIB, -3 * MIB, 3 * MIB]))
    assert text[1].startswith(" 3.00 MiB ┤")
    assert text[7].startswith("-3.00 MiB └")


sizes = st.sampled_from([0, 1, 255, 256, 3538944, 2**40, 2**60])


@st.composite
def curves(draw: st.DrawFn) -> Curve:
    buckets = draw(st.lists(st.tuples(sizes, sizes, sizes), min_size=1, max_size=300))
    count = len(buckets)
    events = st.integers(0, count - 1)
    names = st.text(st.characters(codec=None), max_size=30)
    steps = sorted(draw(st.lists(st.tuples(events, names), max_size=30)))
    return levels(
        *(max(a, b) for a, b, _ in buckets),
        low=[min(a, b) for a, b, _ in buckets],
        reserved=[reserved for _, _, reserved in buckets],
        peak_event=max(range(count), key=lambda k: max(buckets[k][:2])),
        failures=tuple(sorted(draw(st.lists(events, max_size=3)))),
        steps=tuple(steps),
    )


@given(curves(), st.integers(40, 220), st.booleans(), st.integers(1, 9))
def test_no_line_is_wider_than_its_room_and_every_picture_is_as_high_as_asked(
    curve: Curve, width: int, ascii_only: bool, rows: int
) -> None:
    text = lines(curve, width, ascii_only, rows)
    assert len(text) == rows + 3
    assert all(width_of(line) <= width for line in text)
    assert all(line == visible(line) for line in text)
    assert not ascii_only or "".join(text[:-1]).isascii()


@given(curves(), st.integers(40, 220))
def test_the_peak_is_named_to_the_figure_and_marked_where_it_is(curve: Curve, width: int) -> None:
    text = lines(curve, width)
    peak = int(curve.high_bytes.max())
    plot = text[1].index("┤") + 1
    assert peak == 0 or any(line[:plot].strip(" ┤") == format_bytes(peak) for line in text[1:7])
    columns = width - plot
    for column in [k for k, sign in enumerate(text[7][plot:]) if sign == "▲"]:  # none where a failure stands there
        first, after = column * len(curve) // columns, (column + 1) * len(curve) // columns
        assert curve.peak_event is not None
        assert first <= curve.peak_event <= max(first, after - 1)


@given(st.lists(sizes, max_size=300), st.integers(1, 60))
def test_a_sparkline_is_as_wide_as_asked_and_shows_its_highest_value(values: list[int], width: int) -> None:
    line = sparkline(values, width)
    assert len(line) == width
    assert ("█" in line) == (max(values, default=0) > 0)
    assert len(plain_ascii(line)) == width
    if len(values) <= width:
        assert line.count(" ") == (
            width if not values else sum(values[k * len(values) // width] == 0 for k in range(width))
        )


def test_sparklines_of_one_scale_can_be_compared() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7, 8], 9) == " ▁▂▃▄▅▆▇█"
    assert sparkline([4, 4], 4, high=8) == "▄▄▄▄"
    assert sparkline([1], 2, high=10**12) == "▁▁"
    assert sparkline([0, 9, 0, 0], 2) == "█ "


def test_forms_for_people_show_a_picture() -> None:
    block = Picture(levels(1, 2, 3, peak_event=2, steps=((0, "``` <b>"),)), Terms("entry", "entries", "segment"))
    text = render([block], width=60)
    assert text.splitlines() == ["".join(part for part, _ in line).rstrip() for line in draw(block, 60)]
    assert "entry 3" in text
    assert max(map(len, render([block]).splitlines())) == 80
    assert render([block], width=60, ascii_only=True).isascii()
    assert "\x1b[" in render([block], width=60, colour=True)
    page = markdown([block]).splitlines()
    assert (page[0], page[-1]) == ("````", "````")


@pytest.mark.parametrize("count", [5, 5000])
def test_names_of_steps_stand_apart_however_many_there_are(count: int) -> None:
    steps = tuple((k, f"STEP {k}") for k in range(count))
    words = lines(levels(*range(1, count + 1), steps=steps), 120)[8]
    shown = [name.strip() for name in words.split("  ") if name.strip()]
    assert shown[0] == "STEP 0"
    assert len(set(shown)) == len(shown) >= 5
