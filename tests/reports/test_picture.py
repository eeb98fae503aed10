"""The picture of a run: nothing is wider than there is room, the peak stands in its column, and ASCII is ASCII."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlens.analyzers.series.curve import Curve
from memlens.reports.blocks import Picture
from memlens.reports.picture import draw, sparkline
from memlens.text import format_bytes, plain_ascii, visible, width_of

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


@pytest.mark.parametrize("count", [5, 5000])
def test_names_of_steps_stand_apart_however_many_there_are(count: int) -> None:
    steps = tuple((k, f"STEP {k}") for k in range(count))
    words = lines(levels(*range(1, count + 1), steps=steps), 120)[8]
    shown = [name.strip() for name in words.split("  ") if name.strip()]
    assert shown[0] == "STEP 0"
    assert len(set(shown)) == len(shown) >= 5
