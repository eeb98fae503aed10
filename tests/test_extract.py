"""The raw text of a window: byte for byte, events only, renumbered; from files and pipes; by the verb and by its twin."""

from __future__ import annotations

import io
import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from memlens.cli.verbs.slice import command as slice_command
from memlens.errors import AnchorError, OutputError, UsageError
from memlens.exporting.extract import Renumberer, TextCutter, events_only, slice_log
from memlens.inputs.paddle.events import BLOCK, CHUNK_BACK, CHUNK_NEW
from memlens.windows.patterns import Matcher, Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

BASE = b"""\
EPOCH 0 START
I1120 10:22:32.856100 13292 a.cc:191] Allocate 16 bytes, aligned to 256, extra size 0
START SOT_CALL_0
I1120 10:22:32.856307 13292 a.cc:260] Not found and reallocate 4096(0x7f00000000), and remaining 0
I1120 10:22:32.856307 13292 a.cc:270] Alloc 256 bytes, ptr = 0x7f00000000\r
op name: matmul \xff\xfe
I1120 10:22:32.956307   992 a.cc:279] Free 256 bytes, ptr = 0x7f00000000
I1120 10:22:32.956400   992 a.cc:341] Free chunk with size 4096
END SOT_CALL_0
START SOT_CALL_1
I1120 10:22:33.156307 13292 a.cc:270] Alloc 512 bytes, ptr = 0x7f00000100
END SOT_CALL_1"""
CALL_0 = BASE[BASE.index(b"START SOT_CALL_0") : BASE.index(b"END SOT_CALL_0")]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "base.log"
    path.write_bytes(BASE)
    return path


def cut(log: Path, tmp_path: Path, **options: object) -> bytes:
    out = tmp_path / "cut.log"
    slice_log(log, output=out, force=True, **options)  # type: ignore[arg-type]
    return out.read_bytes()


# -- the text ------------------------------------------------------------------------------------------------------------


def test_a_window_is_cut_out_byte_for_byte(base: Path, tmp_path: Path) -> None:
    assert cut(base, tmp_path, start="START SOT_CALL_0", end="END SOT_CALL_0") == CALL_0


def test_a_stream_is_cut_in_one_pass(tmp_path: Path) -> None:
    out = tmp_path / "cut"
    slice_log(io.BytesIO(BASE), output=out, start="START SOT_CALL_0", end="END SOT_CALL_0")
    assert out.read_bytes() == CALL_0


def test_reading_stops_at_the_end_of_the_window() -> None:
    def texts() -> Iterator[bytes]:
        yield b"START\nx\n"
        yield b"y\nEND\nz\n"
        pytest.fail("read on after the end of the window")

    cutter = TextCutter(Pattern("START"), [Pattern("END")])
    assert b"".join(cutter.cut(texts())) == b"START\nx\ny\n"


@given(
    st.lists(st.sampled_from(["S", "E", "F", "S E", "a", ""]), max_size=20),
    st.lists(st.integers(0, 20), max_size=5),
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from([[], ["E"], ["E", "F"]]),
    st.booleans(),
)
def test_the_window_is_the_same_however_the_text_comes_in_blocks(
    lines: list[str], cuts: list[int], nth: int, with_start: bool, ends: list[str], ends_mid_line: bool
) -> None:
    # the plain twin: indices of lines
    starts = [i for i, line in enumerate(lines) if "S" in line]
    first = 0 if not with_start else starts[nth - 1] if len(starts) >= nth else None
    # GIVEN the lines in blocks cut anywhere between lines
    texts = [line.encode() + b"\n" for line in lines]
    if ends_mid_line and texts:
        texts[-1] = texts[-1][:-1]
    edges = sorted({0, len(texts), *(c for c in cuts if c <= len(texts))})
    blocks = [b"".join(texts[a:b]) for a, b in pairwise(edges)]
    # WHEN a window is cut
    cutter = TextCutter(Pattern("S") if with_start else None, [Pattern(end) for end in ends], nth)
    got = b"".join(cutter.cut(blocks))
    # THEN it is the lines from the start to before the next end
    assert cutter.started == (first is not None)
    if first is None:
        assert got == b""
        return
    after = first + 1 if with_start else 0
    found = [i for i in range(after, len(lines)) if any(end in lines[i].split() for end in ends)]
    stop = found[0] if found else len(lines)
    assert got == b"".join(texts[first:stop])
    piece = cutter.piece(0)
    assert (piece.bytes, piece.open_end) == (len(got), bool(ends) and not found)
    if got:
        assert (piece.start_line, piece.end_line) == (first + 1, first + len(got.split(b"\n")) - got.endswith(b"\n"))


def test_events_only_keeps_event_lines_and_anchors(base: Path, tmp_path: Path) -> None:
    kept = cut(base, tmp_path, start="START SOT_CALL_0", end="END SOT_CALL_0", events_only=True)
    assert kept == CALL_0.replace(b"op name: matmul \xff\xfe\n", b"")
    assert cut(base, tmp_path, events_only=True) == b"".join(
        line
        for line in BASE.splitlines(keepends=True)
        if b" Alloc " in line or b" Free " in line or b"Not found" in line
    )


PARTS = [
    *("START", "Alloc 1 bytes, ptr = 0x1", "Free 2 bytes, ptr = 0x1", "Free 2 bytes, ptr = 0"),
    *("Free chunk with size 9", "Not found and reallocate 4(0x7), and remaining 0"),
    *("I1120 10:22:32.856307 13292 a.cc:270] ", "Allocate 1 bytes, aligned to 256", "69: ", "\x1b[0m"),
    *("Alloc ", "\r", " "),
]


@given(st.lists(st.lists(st.sampled_from(PARTS), max_size=5).map("".join)), st.booleans())
def test_events_only_is_the_same_as_line_by_line(lines: list[str], ends_mid_line: bool) -> None:
    text = "".join(f"{line}\n" for line in lines).encode()[: -1 if ends_mid_line else None]
    kept = [
        line
        for line in re.findall(rb"[^\n]*\n|[^\n]+", text)
        if any(form.search(line) for form in (BLOCK, CHUNK_NEW, CHUNK_BACK))
        or Pattern("START").match_line(line) is not None
    ]
    assert events_only(text, [Matcher(Pattern("START"))]) == b"".join(kept)


# -- renumbered ----------------------------------------------------------------------------------------------------------


def test_renumbering_makes_equal_work_equal_text(base: Path, tmp_path: Path) -> None:
    # GIVEN the same work at other addresses, at another time, on other threads
    head = tmp_path / "head.log"
    other = BASE.replace(b"0x7f00000", b"0x55c0000").replace(b"I1120 10:2", b"I20261121 01:0")
    head.write_bytes(other.replace(b" 13292 ", b" 2778380 ").replace(b"   992 ", b" 2778381 "))
    # WHEN the same window is cut out of both
    options = {"start": "START SOT_CALL_0", "end": "END SOT_CALL_0", "renumber": True}
    # THEN the texts are the same
    assert cut(base, tmp_path, **options) == cut(head, tmp_path, **options)
    assert cut(base, tmp_path, **options) == (
        b"START SOT_CALL_0\n"
        b"I a.cc:260] Not found and reallocate 4096(#1), and remaining 0\n"
        b"I a.cc:270] Alloc 256 bytes, ptr = #1\r\n"
        b"op name: matmul \xff\xfe\n"
        b"I a.cc:279] Free 256 bytes, ptr = #1\n"
        b"I a.cc:341] Free chunk with size 4096\n"
    )


@pytest.mark.parametrize(
    ("line", "rewritten"),
    [
        (b"69: I0712 20:44:41.779470 2569728960 b.cc:55] x", b"69: I b.cc:55] x"),
        (b"2024-07-12T10:22:33.123456789Z I0712 10:22:33.123456     7 b.cc:5] x", b"I b.cc:5] x"),
        (
            b"a.cc:1] Thread 139900 Allocate 8 bytes at address 0x7f , stream: 0x1",
            b"a.cc:1] Thread Allocate 8 bytes at address #1 , stream: #2",
        ),
        (b"STEPI1120 10:54:13.000001 12 a.cc:1] Free 7 bytes, ptr = 0x7f", b"STEPI a.cc:1] Free 7 bytes, ptr = #1"),
        (b"I1120 10:54 no header 0x", b"I1120 10:54 no header 0x"),
        (b"tile 10x20 0xg", b"tile 10x20 0xg"),
    ],
)
def test_prefixes_times_and_threads_go(line: bytes, rewritten: bytes) -> None:
    assert Renumberer().rewrite(line) == rewritten


# -- the verb ------------------------------------------------------------------------------------------------------------


def test_the_verb_writes_the_window_to_stdout(base: Path) -> None:
    result = CliRunner().invoke(slice_command, [str(base), "--start", "START SOT_CALL_0", "--end", "END SOT_CALL_0"])
    assert (result.exit_code, result.stdout_bytes, result.stderr) == (0, CALL_0, "")


def test_the_verb_writes_a_file_and_says_what_on_stderr(base: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.log"
    arguments = [
        str(base),
        *["--start-regex", "^START", "--nth", "1", "--end", "nowhere", "--end"],
        "END SOT_CALL_0",
        "-o",
        str(out),
    ]
    result = CliRunner().invoke(slice_command, [*arguments, "--events-only", "--renumber"])
    assert (result.exit_code, result.stdout) == (0, "")
    assert "lines 3-8 (6)" in result.stderr
    assert out.read_bytes().count(b"#1") == 3
    assert isinstance(CliRunner().invoke(slice_command, arguments).exception, OutputError)
    assert CliRunner().invoke(slice_command, [*arguments, "-f"]).exit_code == 0
    assert out.read_bytes() == CALL_0


# -- real logs -----------------------------------------------------------------------------------------------------------


def test_two_runs_of_a_real_model_differ_in_nothing_once_renumbered(shared: Path, tmp_path: Path) -> None:
    logs = [shared / f"data/paddle/{name}.log" for name in ("331_dygraph_cnn", "09_launch2_dygraph_331.worker")]
    logs[1] = logs[1].with_name("09_launch2_dygraph_331.workerlog.0")
    options = {"start": "STEP 3 START", "end": "STEP 3 END", "events_only": True, "renumber": True}
    texts = [cut(log, tmp_path, **options) for log in logs]
    assert texts[0].count(b"Alloc ") > 50
    assert texts[0] == texts[1]


def test_a_start_that_matches_nothing_leaves_no_file(base: Path, tmp_path: Path) -> None:
    with pytest.raises(AnchorError, match=r"no line matches") as error:
        slice_log(base, output=tmp_path / "out", start="start SOT_CALL_1")
    assert "line 10: START SOT_CALL_1" in error.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["base.log"]


def test_too_large_an_nth_says_how_many_there_are(base: Path, tmp_path: Path) -> None:
    with pytest.raises(AnchorError, match="matches 2 lines; there is no number 3"):
        slice_log(base, output=tmp_path / "out", start_regex="^START SOT", nth=3)
    with pytest.raises(UsageError):
        slice_log(base, output=tmp_path / "out", start="a", start_regex="b")


def test_an_end_that_no_line_matches_is_an_error_and_writes_nothing(base: Path, tmp_path: Path) -> None:
    out = tmp_path / "part.log"
    with pytest.raises(AnchorError, match=r"no line after line \d+ matches the end 'END SOT_CAL_0'") as caught:
        slice_log(base, output=out, start="START SOT_CALL_0", end="END SOT_CAL_0")
    assert "END SOT_CALL_0" in caught.value.hint
    assert not out.exists()
    text = cut(base, tmp_path, start="START SOT_CALL_0", end="END SOT_CAL_0", to_end=True)
    assert text == BASE[BASE.index(b"START SOT_CALL_0") :]
