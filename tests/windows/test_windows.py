"""Anchors cut a log into windows: what belongs to a window, how it is named, and what is said when nothing matches."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_source import MemorySource
from paddle import read

from memlens.errors import AnchorError, InputError, NoEventsError
from memlens.events import Kind
from memlens.facts import Facts, Mark
from memlens.log import Log
from memlens.windows.patterns import Anchor, Pattern
from memlens.windows.windows import Window, judged, open_window, some_of, suspect_anchors, window, windows

LOG = """\
Alloc 1 bytes, ptr = 0x1
EPOCH 0 START
START SOT_CALL_0
Alloc 2 bytes, ptr = 0x2
END SOT_CALL_0
Alloc 3 bytes, ptr = 0x3
START SOT_CALL_1
Free 2 bytes, ptr = 0x2
Alloc 4 bytes, ptr = 0x4
END SOT_CALL_1
START SOT_CALL_10
START SOT_CALL_0
Alloc 5 bytes, ptr = 0x5
"""


def log_of(text: str) -> Log:
    """An event log of a text, read by the plainest reader there is."""
    rows, offsets, offset = [], [], 0
    for line in text.encode().splitlines(keepends=True):
        match = re.search(rb"(Alloc|Free) (\d+) bytes, ptr = (0x[0-9a-f]+)", line)
        if match:
            rows.append((Kind[match[1].decode().upper()], int(match[2]), int(match[3], 16)))
            offsets.append(offset)
        offset += len(line)
    facts = Facts(bytes=offset, lines=len(text.splitlines()))
    return Log.from_rows(
        rows, offset=np.array(offsets, np.int64), source=MemorySource(text.encode(), "run.log"), facts=facts
    )


def text_of(cut: Window) -> str:
    assert isinstance(cut.log.source, MemorySource)
    return cut.log.source.text[cut.start_offset : cut.end_offset].decode()


def sizes(cut: Window) -> list[int]:
    return [int(size) for size in cut.log.size[cut.lo : cut.hi]]


def check(cut: Window) -> None:
    """The three ways to say what a window is (events, bytes, lines) agree."""
    text = text_of(cut)
    assert sizes(cut) == [int(size) for size in re.findall(r"(?:Alloc|Free) (\d+) bytes, ptr", text)]
    assert cut.end_line - cut.start_line + 1 == len(text.splitlines())
    source = cut.log.source
    assert isinstance(source, MemorySource)
    assert cut.start_line == source.text.count(b"\n", 0, cut.start_offset) + 1


# -- one window ----------------------------------------------------------------------------------------------------------


def test_a_window_starts_with_its_start_line_and_ends_before_its_end_line() -> None:
    cut = window(log_of(LOG), "START SOT_CALL_1", "END SOT_CALL_1")
    assert text_of(cut) == "START SOT_CALL_1\nFree 2 bytes, ptr = 0x2\nAlloc 4 bytes, ptr = 0x4\n"
    assert (cut.name, cut.start_line, cut.end_line) == ("START SOT_CALL_1", 7, 9)
    assert (sizes(cut), cut.open_end) == ([2, 4], False)


def test_where_no_end_comes_it_ends_with_the_log_if_that_is_asked_for() -> None:
    for no_end in ("END SOT_CALL_10", ["END SOT_CALL_0", "Traceback"]):
        with pytest.raises(
            AnchorError, match=r"run.log: no line after line \d+ matches the end 'END SOT_CALL"
        ) as error:
            window(log_of(LOG), "START SOT_CALL_10", no_end)
        assert "END SOT_CALL_0" in error.value.hint
        assert "--to-end" in error.value.hint
    with pytest.raises(AnchorError, match=r"no line matches the end 'END_CALL' \(none"):
        windows(log_of(LOG), r"START (SOT_CALL_\d+)", end="END_CALL")
    cut = window(log_of(LOG), "START SOT_CALL_10", "END SOT_CALL_10", to_end=True)
    assert cut.open_end
    assert (cut.end_line, sizes(cut)) == (13, [5])
    assert not window(log_of(LOG), "START SOT_CALL_10").open_end  # no end was asked for


def test_fewer_starts_than_nth_is_an_error_that_counts_them() -> None:
    with pytest.raises(AnchorError, match=r"run.log: 'START SOT_CALL_0' matches 2 lines; there is no number 3"):
        window(log_of(LOG), "START SOT_CALL_0", nth=3)


def test_anchors_named_when_reading_cut_a_log_that_cannot_be_read_again() -> None:
    class Piped(MemorySource):
        @property
        def rereadable(self) -> bool:
            return False

    log = log_of(LOG).without_cache(
        source=Piped(b""),
        anchors=(Anchor(Pattern("START SOT_CALL_1"), (LOG.index("START SOT_CALL_1"),), (7,), ("START SOT_CALL_1",)),),
    )
    assert sizes(log.window("START SOT_CALL_1")) == [2, 4, 5]
    with pytest.raises(InputError, match="cannot be searched again") as error:
        log.window("START SOT_CALL_0")
    assert "when reading" in error.value.hint


# -- series --------------------------------------------------------------------------------------------------------------


def test_an_end_ends_windows_of_a_series_early() -> None:
    cut = windows(log_of(LOG), r"START (SOT_CALL_\d+)", end_regex=r"END SOT_CALL_\d+")
    assert [sizes(w) for w in cut] == [[1], [2], [2, 4], [], [5]]
    assert [w.end_line for w in cut] == [2, 4, 9, 11, 13]
    assert [w.open_end for w in cut] == [False, False, False, False, True]


def test_the_last_window_of_a_series_can_be_ended_too() -> None:
    cut = windows(log_of(LOG), r"SOT_CALL_1$", end="START SOT_CALL_10")
    assert [(w.name, sizes(w), w.open_end) for w in cut] == [
        ("(before)", [1, 2, 3], False),
        ("SOT_CALL_1", [2, 4], False),
        ("SOT_CALL_1 #2", [], False),
    ]


def test_repeated_names_are_numbered_and_never_alike() -> None:
    log = log_of("START a\nSTART a #2\nSTART a\nSTART b\nSTART a\n")
    names = [w.name for w in windows(log, "START (.*)")]
    assert names == ["a", "a #2", "a #3", "b", "a #4"]


def test_a_series_that_matches_nothing_is_an_error() -> None:
    with pytest.raises(AnchorError, match="no line matches"):
        windows(log_of(LOG), "BLOCK")


LINES = st.lists(
    st.sampled_from(["START A", "START B", "END A", "STEP", "Alloc 1 bytes, ptr = 0x1", "Free 2 bytes, ptr = 0x2", ""]),
    max_size=30,
)


@given(LINES, st.sampled_from([[], ["END A"], ["END A", "STEP"]]))
def test_every_window_agrees_with_its_text_and_none_is_lost(lines: list[str], ends: list[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    log = log_of(text)
    starts = [i for i, line in enumerate(lines) if "START" in line]
    if not starts:
        return
    cut = windows(log, "START (.)", end=ends, to_end=True)
    for w in cut:
        check(w)
    # the reference implementation: the lines of each window by going through the lines
    expected = [lines[: starts[0]]] if starts[0] else []
    for start, following in zip(starts, [*starts[1:], len(lines)], strict=True):
        stop = next((i for i in range(start + 1, following) if lines[i] in ends), following)
        expected.append(lines[start:stop])
    assert [text_of(w).splitlines() for w in cut] == expected
    # only the last window can be open: where no line after its start ends it
    is_open = not any(line in ends for line in lines[starts[-1] + 1 :])
    assert [w.open_end for w in cut] == [False] * (len(cut) - 1) + [is_open]
    one = window(log, start_regex="START (.)", end=ends, nth=len(starts), to_end=True)
    check(one)
    assert text_of(one) == text_of(cut[-1])
    assert one.open_end == (is_open and bool(ends))  # a start alone is what was asked for


# -- nothing matches -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "shown"),
    [
        ("start sot_call_1", "line 7: START SOT_CALL_1"),  # case
        ("SOT_CALL", "line 3: START SOT_CALL_0"),  # not whole words
        ("START  SOT_CALL_10", "line 11: START SOT_CALL_10"),  # blanks
        ("START SOT_CALL_7", "line 3: START SOT_CALL_0"),  # alike
        ("EPOCH 1 START", "line 2: EPOCH 0 START"),
        ("EPOHC 0", "line 2: EPOCH 0 START"),  # mistyped
    ],
)
def test_a_start_that_matches_nothing_shows_the_nearest_lines(start: str, shown: str) -> None:
    with pytest.raises(AnchorError, match=f"run.log: no line matches the start '{start}'") as error:
        window(log_of(LOG), start)
    assert shown in error.value.hint
    assert error.value.hint.count("\n  line ") <= 3


def test_a_literal_that_would_match_as_an_expression_is_told_so() -> None:
    with pytest.raises(AnchorError) as error:
        window(log_of(LOG), r"START SOT_CALL_\d+")
    assert "--start-regex" in error.value.hint
    assert "line 3: START SOT_CALL_0" in error.value.hint


def test_lines_are_shown_without_anything_that_a_terminal_obeys() -> None:
    with pytest.raises(AnchorError) as error:
        window(log_of("\x1b]0;x\x07\x1b[31mSTART LOSS \x08\x9b1m\n"), "start loss")
    assert str(error.value).replace("\n", "").isprintable()
    assert "line 1: START LOSS" in error.value.hint


def test_events_and_messages_are_no_suggestions() -> None:
    header = "I1120 10:22:32.856307 13292 a.cc:270] "
    with pytest.raises(AnchorError) as error:
        window(log_of(f"{header}START LOSX\nAlloc 25 bytes, ptr = 0x1\n"), "START LOSS")
    assert "No line comes near" in error.value.hint


# -- anchors that came late ----------------------------------------------------------------------------------------------

STEP = (
    "STEP {0} START\nSTART LOSS\n"
    + "Alloc 1 bytes, ptr = 0x1\nFree 1 bytes, ptr = 0x1\n" * 20
    + "START OPT\nSTEP {0} END loss=1\n"
)
SOUND = "".join(STEP.format(i) for i in range(9))
#: The same through a buffered stdout: all anchors come in two bursts.
LATE = "".join(
    "Alloc 1 bytes, ptr = 0x1\nFree 1 bytes, ptr = 0x1\n" * 20 * count
    + "".join(re.sub(r"(Alloc|Free).*\n", "", STEP.format(i)) for i in range(first, first + count))
    for first, count in ((0, 5), (5, 4))
) + ("Alloc 1 bytes, ptr = 0x1\n")


@pytest.mark.parametrize("by", [r"STEP \d+ START", r"START \w+", r"^(START|STEP) .*", r"STEP (\d+) START"])
def test_anchors_in_bursts_are_said_to_come_through_a_buffered_stdout(by: str) -> None:
    said = suspect_anchors(windows(log_of(LATE), by))
    assert said is not None
    assert "buffered stdout" in said
    assert "PYTHONUNBUFFERED=1" in said
    assert suspect_anchors(windows(log_of(SOUND), by)) is None


def test_a_kind_of_window_that_is_always_empty_is_no_sign_of_late_anchors() -> None:
    cut = windows(log_of(SOUND), "START (OPT)|STEP", end="STEP")
    assert sum(len(w) == 0 for w in cut) >= 9
    assert suspect_anchors(cut) is None


def test_no_windows_and_logs_without_events_raise_no_doubt() -> None:
    assert suspect_anchors([]) is None
    assert suspect_anchors(windows(log_of("START a\nSTART a\nSTART a\nSTART a\n"), "START")) is None


SERIES = [
    r"STEP \d+ START",
    r"^START \w+",
    r"^(?:START|STEP|EPOCH|MEMSTAT)\b.*",
    r"STEP (\d+) END",
    "SOT_CALL_",
    "MEMSTAT",
]


def test_of_the_real_logs_only_the_one_with_buffered_anchors_is_doubted(shared: Path) -> None:
    late = "07_stdout_anchors_331.log.gz"
    for path in sorted((shared / "data/paddle").glob("*.log*")):
        if path.name.startswith(("20_", "21_")):
            continue  # large, and without anchors
        with suppress(NoEventsError):
            log = read(path, patterns=[Pattern(by, regex=True) for by in SERIES])
            for anchor in log.anchors:
                if len(anchor):
                    said = suspect_anchors(windows(log, anchor.pattern.text))
                    assert (said is not None) == (path.name == late), (path.name, anchor.pattern)


# --- marks of inputs without lines ---


def marked(*marks: tuple[int, str]) -> Log:
    """Four ALLOCs, and marks before the event that they name."""
    return Log.from_rows(
        [(Kind.ALLOC, 1, at) for at in range(4)],
        marks=tuple(Mark(at, at + 1, text) for at, text in marks),
        facts=Facts(bytes=4, lines=4),
    )


def spans(cut: Sequence[Window]) -> list[tuple[str, int, int, bool]]:
    return [(w.name, w.lo, w.hi, w.open_end) for w in cut]


def test_a_match_that_is_an_end_as_well_does_not_end_its_own_window() -> None:
    cut = windows(marked((0, "START a"), (2, "START b")), r"START (\w)", end="START")
    assert spans(cut) == [("a", 0, 2, False), ("b", 2, 4, True)]


def test_where_all_closed_windows_are_empty_nothing_else_is_judged_and_the_note_does_not_say_so() -> None:
    cut = windows(marked((2, "START a"), (2, "START b")), r"START (\w)")
    assert spans(cut) == [("(before)", 0, 2, False), ("a", 2, 2, False), ("b", 2, 4, True)]
    assert open_window(cut) == "b runs to the end of the log: no end anchor closes it."


def test_closed_windows_of_a_series_are_judged_and_all_where_nothing_but_what_precedes_it_is_closed() -> None:
    log = marked((1, "START a"), (2, "START b"), (3, "START c"))
    cut = windows(log, r"START (\w)")
    assert [window.name for window in cut] == ["(before)", "a", "b", "c"]
    assert judged(cut) == [True, True, True, False]
    assert judged([cut[0], cut[3]]) == [True, True]
    assert judged([cut[1], cut[3]]) == [True, False]
    assert judged([cut[1], cut[3]], [0, 2]) == [True, True]
    assert judged([cut[1], cut[3]], [1, 0]) == [True, False]
    assert judged([]) == []


def test_a_series_is_columns_and_gives_its_windows_again() -> None:
    log = log_of(LOG)
    cut = windows(log, r"START (SOT_CALL_\d+)")
    assert len(cut) > 2
    rows = [(w.name, w.lo, w.hi, w.start_offset, w.end_offset, w.start_line, w.end_line, w.open_end) for w in cut]
    assert rows == [
        (w.name, w.lo, w.hi, w.start_offset, w.end_offset, w.start_line, w.end_line, w.open_end)
        for w in (cut[k] for k in range(len(cut)))
    ]
    assert all(type(value) in (str, int, bool) for row in rows for value in row)
    assert [w.name for w in cut[1:]] == [row[0] for row in rows[1:]]
    assert cut[-1].name == rows[-1][0]
    assert cut.lo.tolist() == [row[1] for row in rows]
    assert len(cut[:0]) == 0
    with pytest.raises(IndexError):
        cut[len(cut)]
    chosen = np.zeros(len(cut), np.bool_)
    assert list(some_of(cut, chosen)) == []
    chosen[[0, 2]] = True
    assert [w.name for w in some_of(cut, chosen)] == [rows[0][0], rows[2][0]]
    chosen[1] = True
    assert some_of(cut, chosen).lo.tolist() == [row[1] for row in rows[:3]]  # type: ignore[attr-defined]
