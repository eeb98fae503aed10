"""Blocks as text: widths, what leaves first where there is no room, colour, and outputs without a width."""

from __future__ import annotations

import colorsys
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlens.drawing.stills import inks
from memlens.reports.blocks import Block, Column, Figure, Figures, Line, Table, Toned, take
from memlens.reports.terminal import render
from memlens.text import format_bytes, visible, width_of

ANSI = re.compile(r"\x1b\[[0-9;]*m")
NAME = Column("name", "Window", "name")
PEAK = Column("peak_bytes", "Peak", "bytes", strong=True)
FREES = Column("frees", "Frees", "count", drop=1)
EVENTS = Column("events", "Events", "count", drop=2)


def table(*rows: tuple[Any, ...], more: str = "") -> Table:
    return Table("", (NAME, PEAK, FREES, EVENTS), rows, more)


def test_columns_leave_in_their_order_and_a_note_names_them() -> None:
    rows = table(("SOT_CALL_0", 3538944, 1942, 10))
    lines = render([rows], width=28).splitlines()
    assert lines[0].split() == ["Window", "Peak", "Frees"]
    assert " ".join(lines[2:]).startswith("(no room here for: Events;")
    assert render([rows], width=21).splitlines()[0].split() == ["Window", "Peak"]
    assert render([rows], width=200) == render([rows])


def test_figures_are_never_cut_and_names_give_way() -> None:
    lines = render([table(("SOT_CALL_" + "7" * 50, 3538944, 1942, 10))], width=24).splitlines()
    assert lines[1].endswith("…777777  3.38 MiB")
    assert lines[1].startswith("SOT_C")


def test_a_cell_that_wraps_goes_on_below_and_is_whole() -> None:
    columns = (Column("line", "Setting", "name", wraps=True), PEAK)
    rows = Table("", columns, (("first_of_them=1, second_of_them=2", 3538944), ("x=1", 640)))
    assert render([rows], width=34).splitlines() == [
        "Setting                       Peak",
        "first_of_them=1,          3.38 MiB",
        "second_of_them=2",
        "x=1                          640 B",
    ]
    assert "first_of_them=1, second_of_them=2  3.38 MiB" in render([rows])


names = st.text(st.characters(codec=None), max_size=90)
figures = st.integers(-(2**62), 2**62)


@given(st.lists(st.tuples(names, figures, figures, figures), max_size=5), st.integers(45, 200))
def test_no_line_is_wider_than_the_terminal_and_every_peak_is_whole(
    rows: list[tuple[str, int, int, int]], width: int
) -> None:
    text = render([table(*rows)], width=width)
    assert all(width_of(line) <= width for line in text.splitlines())
    shown = text.splitlines()[1 : 1 + len(rows)]
    assert all(format_bytes(row[1]) in line for row, line in zip(rows, shown, strict=True))


@given(st.lists(names, max_size=4), st.sampled_from([None, 45, 80]), st.booleans())
def test_text_of_a_log_cannot_act_on_the_terminal(texts: list[str], width: int | None, colour: bool) -> None:
    blocks: list[Block] = [Line("words", name=text) for text in texts]
    blocks += [Line(text, "doubt", label="Trust") for text in texts]
    blocks += [Figures((Figure("Peak", "1 B", text),)) for text in texts]
    blocks.append(table(*((text, 1, 2, 3) for text in texts)))
    text = ANSI.sub("", render(blocks, width=width, colour=colour))
    assert visible(text.replace("\n", "")) == text.replace("\n", "")


def test_colour_changes_nothing_but_the_colour() -> None:
    blocks: list[Block] = [
        Line("fine", "good", name="[bold]x[/]", label="Trust"),
        None,
        Figures((Figure("Peak", "3.38 MiB", "allocated :smile:"),)),
        table(("[red]a[/]", 1, 2, 3), more="… and 1 more window"),
    ]
    coloured = render(blocks, width=60, colour=True)
    assert "\x1b[1m" in coloured
    assert [line.rstrip() for line in ANSI.sub("", coloured).splitlines()] == render(blocks, width=60).splitlines()
    assert "\x1b" not in render(blocks, width=60)


def test_base_and_head_have_the_hues_of_pictures() -> None:
    blocks = [Line("", name=f"{side}.log", label=side) for side in ("Base", "Head")]
    figures = Table("", tuple(Column(side.lower(), side, "bytes") for side in ("Base", "Head")), ((1, 2),))
    coloured = render([*blocks, figures], colour=True)
    for side in ("Base", "Head"):
        label, heading = re.findall(rf"\x1b\[1;38;5;(\d+)m *{side} *\x1b\[0m", coloured)
        assert label == heading
        parts = [(int(label) - 16) // 6**k % 6 for k in (2, 1, 0)]  # of the cube of 216 colours
        seen = colorsys.rgb_to_hsv(*(0 if part == 0 else (55 + 40 * part) / 255 for part in parts))[0]
        for scheme in ("light", "dark"):
            drawn = colorsys.rgb_to_hsv(*(part / 255 for part in bytes.fromhex(inks(scheme)[side.lower()][1:])))[0]
            assert abs(seen - drawn) < 1 / 40


def test_an_output_without_a_width_gets_all_columns_and_no_line_breaks() -> None:
    sentence = "word " * 100
    lines = render([Line(sentence, "doubt", label="Doubt"), table(("n" * 100, 1, 2, 3))]).splitlines()
    assert lines[0] == f"Doubt  {sentence.rstrip()}"
    assert lines[1].split() == ["Window", "Peak", "Frees", "Events"]
    assert "n" * 100 in lines[2]


def test_an_output_that_knows_ascii_only_gets_ascii_only() -> None:
    text = render([table(("größe…", 1, 2, 3), more="… and 2 more windows")], ascii_only=True)
    assert text.isascii()
    assert "... and 2 more windows" in text


@pytest.mark.parametrize(("top", "more"), [(5, ""), (3, ""), (2, "… and 1 more window"), (0, "… and 3 more windows")])
def test_rows_left_out_are_counted(top: int, more: str) -> None:
    made = take("", [NAME], [("a",), ("b",), ("c",)], 3, top, "window")
    assert (len(made.rows), made.more) == (min(top, 3), more)


def test_only_differences_from_another_run_are_red_and_green() -> None:
    columns = (Column("a", "Δ", "signed", strong=True), Column("b", "Net", "net"), Column("c", "Words", "word"))
    rows = ((5, 5, Toned("now OOM", "bad")), (-5, -5, Toned("was OOM", "good")), (0, 0, "x"), ("", "", None))
    lines = render([Table("", columns, rows)], colour=True).splitlines()[1:]
    assert lines[0] == "\x1b[1;31m+5 B\x1b[0m  +5 B\x1b[31m  now OOM\x1b[0m"
    assert lines[1] == "\x1b[1;32m-5 B\x1b[0m  -5 B\x1b[32m  was OOM\x1b[0m"
    assert lines[2] == "\x1b[1m 0 B\x1b[0m   0 B  x"
    assert lines[3] == ""
