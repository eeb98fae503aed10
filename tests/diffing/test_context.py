"""The lines around an event are those of the log, whatever stands there, and looking them up is bounded work."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from paddle import read

from memlens.diffing.finding import ContextLine
from memlens.diffing.findings import context_lines
from memlens.events import EventLog
from memlens.facts import Facts
from memlens.source import MemorySource


def alloc(number: int) -> str:
    return f"Alloc 256 bytes, ptr = 0x{number:x}00"


def plain(log: EventLog, text: bytes, event: int, each_side: int) -> tuple[ContextLine, ...]:
    """The same the plain way: all lines of the log, counted one by one."""
    lines = text.split(b"\n")
    if not lines[-1]:
        lines.pop()
    own = text.count(b"\n", 0, int(log.offset[event]))
    return tuple(
        ContextLine(k + 1, lines[k].rstrip(b"\r").decode("utf-8", "replace"), k == own)
        for k in range(max(own - each_side, 0), min(own + each_side + 1, len(lines)))
    )


def written(tmp_path: Path, text: bytes, name: str = "run.log") -> EventLog:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return read(path)


@pytest.mark.parametrize("name", ["run.log", "run.log.gz"])
@pytest.mark.parametrize("each_side", [0, 1, 3, 50])
@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_context_is_what_stands_around(tmp_path: Path, name: str, each_side: int, end: str) -> None:
    lines = [line for k in range(12) for line in (alloc(k), *[f"line {k}.{i}" for i in range(k % 4)], "")]
    text = ((end or "\n").join(lines[:-1]) + end).encode()
    log = written(tmp_path, text, name)
    events = [11, 0, 5, 5, 7]
    assert context_lines(log, events, each_side) == [plain(log, text, event, each_side) for event in events]


def test_the_first_and_the_last_line_of_a_log_have_context_on_one_side(tmp_path: Path) -> None:
    log = written(tmp_path, f"{alloc(1)}\nbetween\n{alloc(2)}".encode())
    first, last = context_lines(log, [0, 1], 3)
    assert [(line.line, line.is_event) for line in first] == [(1, True), (2, False), (3, False)]
    assert [(line.line, line.is_event) for line in last] == [(1, False), (2, False), (3, True)]


def test_several_events_on_one_line_have_that_line(tmp_path: Path) -> None:
    log = written(tmp_path, f"before\n{alloc(1)} {alloc(2)}\nafter\n".encode())
    assert len(log) == 2
    one, other = context_lines(log, [0, 1], 1)
    assert (
        one
        == other
        == (
            ContextLine(1, "before", False),
            ContextLine(2, f"{alloc(1)} {alloc(2)}", True),
            ContextLine(3, "after", False),
        )
    )


@pytest.mark.parametrize("name", ["run.log", "run.log.gz"])
def test_of_a_line_of_megabytes_what_is_near_is_shown(tmp_path: Path, name: str) -> None:
    long = "x" * (3 << 20)
    text = f"first\n{long}y\n{alloc(1)}\nnear\n{long}\nlast\n{alloc(2)}{long}\n".encode()
    log = written(tmp_path, text, name)
    one, other = context_lines(log, [0, 1], 3)
    assert [(line.line, line.text) for line in one] == [
        (2, "…" + "x" * 399 + "y"),
        (3, alloc(1)),
        (4, "near"),
        (5, "x" * 400 + "…"),
    ]
    assert [(line.line, line.text) for line in other] == [
        (5, "…" + "x" * 400),
        (6, "last"),
        (7, (alloc(2) + long)[:400] + "…"),
    ]


def test_a_line_that_begins_in_reach_and_ends_out_of_it_is_left_out(tmp_path: Path) -> None:
    filler = "f" * (
        (64 << 10) - len(alloc(1)) - 1 - 1 - 20
    )  # the next line begins 20 bytes before the end of the reach
    log = written(tmp_path, f"{alloc(1)}\n{filler}\n{'z' * 100}\nlast\n".encode())
    (lines,) = context_lines(log, [0], 3)
    assert [line.line for line in lines] == [1, 2]


def test_bytes_that_are_no_text_are_replaced_and_control_characters_kept(tmp_path: Path) -> None:
    log = written(tmp_path, b"\xff\x00\x1b[31m [bold]\n" + alloc(1).encode() + b"\n")
    (lines,) = context_lines(log, [0], 1)
    assert lines[0].text == "\ufffd\x00\x1b[31m [bold]"  # reports see to that


def test_what_was_written_after_the_reading_is_no_context(tmp_path: Path) -> None:
    log = written(tmp_path, f"{alloc(1)}\nlast\n".encode())
    with (tmp_path / "run.log").open("a") as file:
        file.write("later\n")
    (lines,) = context_lines(log, [0], 3)
    assert [line.text for line in lines] == [alloc(1), "last"]


def test_a_log_cut_short_after_the_reading_has_no_context(tmp_path: Path) -> None:
    log = written(tmp_path, f"one\ntwo\nthree\n{alloc(1)}\n".encode())
    (tmp_path / "run.log").write_bytes(b"one\n")
    assert context_lines(log, [0], 3) == [()]


def test_a_text_that_cannot_be_read_again_or_is_not_there_has_none() -> None:
    class Piped(MemorySource):
        @property
        def rereadable(self) -> bool:
            return False

    assert context_lines(EventLog.from_rows([(0, 256, 1)], source=Piped(b"Alloc")), [0, 0], 3) == [(), ()]  # type: ignore[list-item]
    assert context_lines(EventLog.from_rows([(0, 256, 1)]), [0], 3) == [()]  # type: ignore[list-item]
    assert context_lines(EventLog.from_rows([]), [], 3) == []


def test_all_events_are_looked_up_in_one_go() -> None:
    asked: list[int] = []

    class Counting(MemorySource):
        def parts(self, spans):  # type: ignore[no-untyped-def]
            asked.append(len(spans))
            return super().parts(spans)

    text = "".join(f"{alloc(k)}\n" for k in range(100)).encode()
    offsets = np.array([k for k in range(len(text)) if k == 0 or text[k - 1] == 0x0A], np.int64)
    log = EventLog.from_rows(
        [(0, 256, k) for k in range(100)],  # type: ignore[misc]
        offset=offsets,
        source=Counting(text),
        facts=Facts(bytes=len(text), lines=100),
    )
    found = context_lines(log, range(100), 2)
    assert asked == [100]
    assert found == [plain(log, text, event, 2) for event in range(100)]


def test_real_logs_have_the_context_that_their_text_has(shared: Path, tmp_path: Path) -> None:
    for name in ("30_sot_cnn_breaks_pt.log", "331_parts_pir_transformer.log", "10_v10_ast_pt_30.log.gz"):
        path = shared / "data" / "paddle" / name
        text = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
        log = read(path)
        events = np.random.default_rng(0).integers(0, len(log), 200).tolist()
        found = context_lines(log, [0, *events, len(log) - 1], 3)
        for lines, event in zip(found, [0, *events, len(log) - 1], strict=True):
            exact = plain(log, text, event, 3)
            assert [(line.line, line.text[:400], line.is_event) for line in exact] == [
                (line.line, line.text.removesuffix("…")[:400], line.is_event) for line in lines
            ]


@pytest.mark.parametrize("name", ["run.log", "run.log.gz"])
def test_parts_of_a_file_are_its_bytes_in_any_order_and_overlapping(tmp_path: Path, name: str) -> None:
    text = b"".join(f"{alloc(k)} {'x' * (k % 700)}\n".encode() for k in range(20_000))  # several blocks of text
    source = written(tmp_path, text, name).source
    random = np.random.default_rng(1)
    spans = [(int(begin), int(begin + size)) for begin, size in random.integers(0, len(text), (50, 2)) // [1, 100]]
    spans += [(0, 10), (5, 5), (7, 3), (0, len(text)), (len(text) - 5, len(text) + 5), (len(text) + 1, len(text) + 9)]
    assert source.parts(spans) == [text[begin:end] for begin, end in spans] == MemorySource(text).parts(spans)
    assert source.parts([]) == []
