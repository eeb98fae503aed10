"""The raw text of a window: byte for byte, events only, renumbered; from files and pipes; by the verb and by its twin."""

from __future__ import annotations

import gzip
import io
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from memlens.cli.verbs.slice import command as slice_command
from memlens.errors import AnchorError, OutputError, UsageError
from memlens.extract import Renumberer, TextCutter, events_only, slice_log
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
    slice_log(log, out, force=True, **options)  # type: ignore[arg-type]
    return out.read_bytes()


# -- the text ------------------------------------------------------------------------------------------------------------


def test_a_window_is_cut_out_byte_for_byte(base: Path, tmp_path: Path) -> None:
    assert cut(base, tmp_path, start="START SOT_CALL_0", end="END SOT_CALL_0") == CALL_0


def test_what_was_cut_is_told(base: Path, tmp_path: Path) -> None:
    piece = slice_log(base, tmp_path / "cut", start_regex=r"START (SOT_CALL_\d)", end="END SOT_CALL_0")
    assert (piece.name, piece.start_line, piece.end_line, piece.open_end) == ("SOT_CALL_0", 3, 8, False)
    assert (piece.bytes, piece.written_bytes) == (len(CALL_0), len(CALL_0))


def test_without_an_end_it_goes_to_the_end_of_the_log(base: Path, tmp_path: Path) -> None:
    piece = slice_log(base, tmp_path / "cut", start="START SOT_CALL_1", end="EPOCH 1")
    assert (piece.open_end, piece.end_line) == (True, 12)
    assert (tmp_path / "cut").read_bytes() == BASE[BASE.index(b"START SOT_CALL_1") :]


def test_without_a_start_it_begins_with_the_log(base: Path, tmp_path: Path) -> None:
    assert cut(base, tmp_path, end_regex=["SOT_CALL_1", "CALL_0$"]) == BASE[: BASE.index(b"START SOT_CALL_0")]
    assert cut(base, tmp_path, end="EPOCH 0 START") == b""
    assert cut(base, tmp_path) == BASE


def test_nth_takes_the_later_start(base: Path, tmp_path: Path) -> None:
    assert cut(base, tmp_path, start_regex="^START", end_regex="^END", nth=2).startswith(b"START SOT_CALL_1\n")


def test_compressed_logs_are_cut_too(tmp_path: Path) -> None:
    path = tmp_path / "run.log"  # told by content and not by name
    path.write_bytes(gzip.compress(BASE))
    assert cut(path, tmp_path, start="START SOT_CALL_0", end="END SOT_CALL_0") == CALL_0


def test_of_a_compressed_log_cut_short_the_readable_part_is_cut_and_the_loss_is_told(tmp_path: Path) -> None:
    path = tmp_path / "run.log.gz"
    text = b"".join(b"%d %d\n" % (i, i * i * 7919) for i in range(50_000))
    path.write_bytes(gzip.compress(text)[:100_000])
    out = tmp_path / "out"
    result = CliRunner().invoke(slice_command, [str(path), "-o", str(out)])
    assert result.exit_code == 0
    assert len(out.read_bytes()) > 100_000
    assert text.startswith(out.read_bytes())
    assert "what was readable is cut" in result.stderr
    # a window that ends before the damage is whole
    assert slice_log(path, tmp_path / "whole", end_regex="^100 ").cut_short == ""


def test_a_stream_is_cut_in_one_pass(tmp_path: Path) -> None:
    out = tmp_path / "cut"
    slice_log(io.BytesIO(BASE), out, start="START SOT_CALL_0", end="END SOT_CALL_0")
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


def test_events_only_leaves_nothing_where_there_is_no_event() -> None:
    assert events_only(b"START\nAllocate 16 bytes, aligned to 256\n\n") == b""
    assert events_only(b"") == b""


PARTS = [
    "START",
    "Alloc 1 bytes, ptr = 0x1",
    "Free 2 bytes, ptr = 0x1",
    "Free 2 bytes, ptr = 0",
    "Free chunk with size 9",
    "Not found and reallocate 4(0x7), and remaining 0",
    "I1120 10:22:32.856307 13292 a.cc:270] ",
    "Allocate 1 bytes, aligned to 256",
    "69: ",
    "\x1b[0m",
    "Alloc ",
    "\r",
    " ",
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


def test_numbers_count_first_uses_and_go_on_over_blocks() -> None:
    renumberer = Renumberer()
    assert renumberer.rewrite(b"0xb 0xa 0xb\n") == b"#1 #2 #1\n"
    assert renumberer.rewrite(b"0xa 0xc\n") == b"#2 #3\n"


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


# -- what goes wrong -----------------------------------------------------------------------------------------------------


def test_a_start_that_matches_nothing_leaves_no_file(base: Path, tmp_path: Path) -> None:
    with pytest.raises(AnchorError, match=r"no line matches") as error:
        slice_log(base, tmp_path / "out", start="start SOT_CALL_1")
    assert "line 10: START SOT_CALL_1" in error.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["base.log"]


def test_too_large_an_nth_says_how_many_there_are(base: Path, tmp_path: Path) -> None:
    with pytest.raises(AnchorError, match="matches 2 lines; there is no number 3"):
        slice_log(base, tmp_path / "out", start_regex="^START SOT", nth=3)
    with pytest.raises(UsageError):
        slice_log(base, tmp_path / "out", start="a", start_regex="b")


def test_a_file_that_exists_is_not_written_over_unasked(base: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("mine")
    with pytest.raises(OutputError, match="exists"):
        slice_log(base, out)
    assert out.read_text() == "mine"
    slice_log(base, out, force=True)
    assert out.read_bytes() == BASE


def test_a_log_is_not_cut_in_place(tmp_path: Path) -> None:
    log = tmp_path / "base.log"
    log.write_bytes(b"one\ntwo\n")
    with pytest.raises(UsageError, match="an input of this command"):
        slice_log(log, log, start="two", force=True)
    assert log.read_bytes() == b"one\ntwo\n"


def test_progress_is_told_in_bytes(base: Path, tmp_path: Path) -> None:
    told: list[int] = []
    slice_log(base, tmp_path / "out", progress=told.append)
    assert told[-1] == len(BASE)


# -- the verb ------------------------------------------------------------------------------------------------------------


def test_the_verb_writes_the_window_to_stdout(base: Path) -> None:
    result = CliRunner().invoke(slice_command, [str(base), "--start", "START SOT_CALL_0", "--end", "END SOT_CALL_0"])
    assert (result.exit_code, result.stdout_bytes, result.stderr) == (0, CALL_0, "")


def test_the_verb_reads_stdin() -> None:
    result = CliRunner().invoke(slice_command, ["-", "--start-regex", "CALL_0", "--end-regex", "^END"], input=BASE)
    assert (result.exit_code, result.stdout_bytes) == (0, CALL_0)


def test_the_verb_writes_a_file_and_says_what_on_stderr(base: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.log"
    arguments = [
        str(base),
        "--start-regex",
        r"^START",
        "--nth",
        "1",
        "--end",
        "nowhere",
        "--end",
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


def test_the_verb_notes_an_end_that_never_came(base: Path) -> None:
    result = CliRunner().invoke(slice_command, [str(base), "--start", "START SOT_CALL_1", "--end", "nowhere"])
    assert "no line matches the end" in result.stderr


def test_the_verb_refuses_options_that_make_no_sense_together(base: Path) -> None:
    for arguments in (["--nth", "2"], ["--start", "a", "--start-regex", "b"], ["--start-regex", "("], ["--start", ""]):
        assert isinstance(CliRunner().invoke(slice_command, [str(base), *arguments]).exception, UsageError)
    assert CliRunner().invoke(slice_command, [str(base), "--nth", "0"]).exit_code == 2


def test_every_option_of_the_verb_is_explained() -> None:
    text = CliRunner().invoke(slice_command, ["-h"]).stdout
    assert all(option.help for option in slice_command.params if option.param_type_name == "option")
    assert "memlens slice run.log --start" in text


def test_a_reader_that_closes_the_pipe_ends_the_verb_quietly(tmp_path: Path) -> None:
    # GIVEN a log much larger than a pipe holds
    log = tmp_path / "large.log"
    log.write_bytes(BASE * 50_000)
    # WHEN the reader takes ten bytes and goes
    program = "from memlens.cli.verbs.slice import command as slice_command; slice_command(standalone_mode=False)"
    run = subprocess.Popen(
        [sys.executable, "-c", program, str(log)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert run.stdout is not None
    assert run.stderr is not None
    with run.stdout, run.stderr:
        assert run.stdout.read(10) == BASE[:10]
        run.stdout.close()
        # THEN it ends well, without a word
        assert (run.stderr.read(), run.wait(30)) == (b"", 0)


# -- real logs -----------------------------------------------------------------------------------------------------------


def test_two_runs_of_a_real_model_differ_in_nothing_once_renumbered(shared: Path, tmp_path: Path) -> None:
    logs = [shared / f"data/paddle/{name}.log" for name in ("331_dygraph_cnn", "09_launch2_dygraph_331.worker")]
    logs[1] = logs[1].with_name("09_launch2_dygraph_331.workerlog.0")
    options = {"start": "STEP 3 START", "end": "STEP 3 END", "events_only": True, "renumber": True}
    texts = [cut(log, tmp_path, **options) for log in logs]
    assert texts[0].count(b"Alloc ") > 50
    assert texts[0] == texts[1]
