"""The lines around an event are those of the log, whatever stands there, and looking them up is bounded work."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from memory_source import MemorySource
from paddle import read

from memlens.analyzers import places
from memlens.analyzers.places import ContextLine, context_lines
from memlens.log import Log


def alloc(number: int) -> str:
    return f"Alloc 256 bytes, ptr = 0x{number:x}00"


def plain(log: Log, text: bytes, event: int, each_side: int) -> tuple[ContextLine, ...]:
    """The same the plain way: all lines of the log, counted one by one."""
    lines = text.split(b"\n")
    if not lines[-1]:
        lines.pop()
    own = text.count(b"\n", 0, int(log.offset[event]))
    return tuple(
        ContextLine(k + 1, lines[k].rstrip(b"\r").decode("utf-8", "replace"), k == own)
        for k in range(max(own - each_side, 0), min(own + each_side + 1, len(lines)))
    )


def written(tmp_path: Path, text: bytes, name: str = "run.log") -> Log:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return read(path)


@pytest.mark.parametrize("name", ["run.log", "run.log.gz"])
@pytest.mark.parametrize("each_side", [0, 1, 3, 50])
@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
@pytest.mark.parametrize("near", [1, 50, places._NEAR])
def test_context_is_what_stands_around(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, each_side: int, end: str, near: int
) -> None:
    monkeypatch.setattr(places, "_NEAR", near)
    lines = [line for k in range(12) for line in (alloc(k), *[f"line {k}.{i}" for i in range(k % 4)], "")]
    text = ((end or "\n").join(lines[:-1]) + end).encode()
    log = written(tmp_path, text, name)
    events = [11, 0, 5, 5, 7]
    assert context_lines(log, events, each_side) == [plain(log, text, event, each_side) for event in events]


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


def test_a_text_that_cannot_be_read_again_or_is_not_there_has_none() -> None:
    class Piped(MemorySource):
        @property
        def rereadable(self) -> bool:
            return False

    assert context_lines(Log.from_rows([(0, 256, 1)], source=Piped(b"Alloc")), [0, 0], 3) == [(), ()]  # type: ignore[list-item]
    assert context_lines(Log.from_rows([(0, 256, 1)]), [0], 3) == [()]  # type: ignore[list-item]
    assert context_lines(Log.from_rows([]), [], 3) == []
