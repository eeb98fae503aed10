"""Lines of a file looked up again by byte offset, as a source that holds the whole text does it."""

from __future__ import annotations

import gzip
import os
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs import write_log
from memory_source import MemorySource

import memlens
from memlens.inputs import Reading, file_source, streams
from memlens.inputs.file_source import FileSource

#: What begins so is taken for a compressed file, whose lines are others.
_COMPRESSED = tuple(magic for magic, _ in streams._MAGIC)
_TEXTS = st.binary(max_size=60).map(lambda text: text.replace(b"a", b"\n"))


@given(_TEXTS.filter(lambda text: not text.startswith(_COMPRESSED)), st.data())
def test_lines_are_numbered_as_in_the_whole_text(text: bytes, data: st.DataObject) -> None:
    """Any text, index and size of the pieces that are read; looked up in one go, and one after the other."""
    offsets = data.draw(st.lists(st.integers(0, max(len(text) - 1, 0)), max_size=8)) if text else []
    indexed = [0, *(at + 1 for at, byte in enumerate(text) if byte == ord("\n") and data.draw(st.booleans()))]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_source, "_PIECE", data.draw(st.integers(1, 9)))
        patch.setattr(file_source, "_GAP", data.draw(st.integers(-1, 9)))
        patch.setattr(file_source, "_FEW", data.draw(st.integers(0, 8)))
        path = Path(folder) / "run.log"
        path.write_bytes(text)
        source, whole = FileSource(path), MemorySource(text)
        source.index(np.array(indexed, np.int64), np.array([text.count(b"\n", 0, at) for at in indexed], np.int64))
        assert source.line_numbers(offsets) == whole.line_numbers(offsets)
        assert [source.line_numbers([offset]) for offset in offsets] == [whole.line_numbers([at]) for at in offsets]
        assert source.lines(offsets) == whole.lines(offsets)


@given(st.lists(st.sampled_from((0, 0, 1, 1, 1, 1, 2)), max_size=40), st.data())
def test_lines_of_events_are_told_by_how_many_stand_between_indexed_lines(held: list[int], data: st.DataObject) -> None:
    """Any lines, of no, one or two events, and any index."""
    text = b"".join(b"x" * data.draw(st.integers(0, 3)) + b"\n" for _ in held)
    starts = np.append(0, np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + 1)[: len(held)]
    offset = np.repeat(starts, held)
    events = np.array(data.draw(st.lists(st.integers(0, len(offset) - 1), max_size=9)) if len(offset) else [], np.int64)
    indexed = [0, *(start for start in starts.tolist() if data.draw(st.booleans()))]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_source, "_FEW", 0)
        path = Path(folder) / "run.log"
        path.write_bytes(text)
        source = FileSource(path)
        source.index(np.array(indexed, np.int64), np.array([text.count(b"\n", 0, at) for at in indexed], np.int64))
        told = source.lines_of_events(events, offset)
        assert told.tolist() == (starts.searchsorted(offset[events]) + 1).tolist()


def test_lines_of_events_are_told_without_the_text_where_only_anchors_stand_between_them(tmp_path: Path) -> None:
    lines = [
        line for step in range(20) for line in (f"START STEP_{step}", *(f"+{512 * k}@{k:x}" for k in range(1, 31)))
    ]
    path = write_log(tmp_path, "run.log", *lines)
    (log,) = Reading((), landmarks=True).read_all(path)
    path.unlink()
    assert log.line_numbers(range(600)) == [at for at, line in enumerate(lines, 1) if line[0] == "+"]


def test_lines_of_events_are_counted_once_where_many_are_looked_up(tmp_path: Path) -> None:
    """Of 600 events two are looked up, then a third, with which all are counted: then the text is not read again."""
    path = tmp_path / "run.log"
    line = "I1120 0:0:0.{0:06d} 7 auto_growth_best_fit_allocator.cc:270] Alloc 512 bytes, ptr = {1:#x}\n"
    path.write_text("".join("a line\n" * (k % 3) + line.format(k, 512 * (k + 1)) for k in range(600)))
    log = memlens.read(path)
    of = [at for at, text in enumerate(path.read_text().splitlines(), 1) if "Alloc" in text]
    assert log.line_numbers([5, 599]) == [of[5], of[599]]
    assert log.line_numbers([7]) == [of[7]]
    path.unlink()
    assert log.line_numbers(range(600)) == of


def test_an_input_that_was_read_is_not_opened_again_to_tell_its_compression(tmp_path: Path) -> None:
    path = tmp_path / "run.log.gz"
    path.write_bytes(gzip.compress(b"nothing of an allocator\n"))
    source = FileSource(path)
    with source.open() as stream:
        stream.read()
        assert source.compression == "gzip"
        source.close()
    with mock.patch("memlens.inputs.file_source.open_bytes") as opened:
        assert source.compression == "gzip"
        assert source.numbered
    opened.assert_not_called()


@pytest.mark.parametrize("left", [0, 1 << 20, 5 << 20])
def test_a_log_that_shrinks_while_it_is_read_says_so(tmp_path: Path, left: int) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(b"a line of text\n" * (12 << 16))
    source, read = FileSource(path), 0
    for size in source.read_blocks(lambda block: block.end - block.begin):
        if not read:
            os.truncate(path, left)
        read += size
    assert source.problem == "the file became shorter while it was read"


def test_a_log_that_grows_while_it_is_read_is_no_shorter(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(b"a line of text\n" * 3)
    source = FileSource(path)
    for _ in source.read_blocks(lambda block: block.end - block.begin):
        with path.open("ab") as log:
            log.write(b"more\n")
    assert source.problem == ""
