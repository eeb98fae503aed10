"""Reading whole inputs: any block size, any number of processes, any compression give the same log."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from in_threads import in_small_blocks
from night import many, some
from paddle import read
from plain_paddle import read_plain, rows, rows_of

from memlens.errors import InputError, NoEventsError, UsageError
from memlens.events import Kind
from memlens.inputs import blocks
from memlens.inputs.paddle.block import BlockReader
from memlens.log import Log
from memlens.windows.patterns import Pattern

HEADER = "I1120 10:22:32.856307 13292 auto_growth_best_fit_allocator.cc:270] "


def log_text(steps: int = 50) -> bytes:
    """A small sound log with anchors: each step allocates two blocks and frees one of them."""
    lines = []
    for step in range(steps):
        lines.append(f"START STEP_{step}")
        for which in (0, 1):
            addr = 0x7F0000000000 + 4096 * (2 * step + which)
            lines.append(f"{HEADER}Allocate {250 + step} bytes, aligned to {256 + 256 * which}, extra size 0")
            lines.append(f"{HEADER}Not found and reallocate {256 + 256 * which}({addr:#x}), and remaining 0")
            lines.append(f"{HEADER}Alloc {256 + 256 * which} bytes, ptr = {addr:#x}")
        lines.append(f"{HEADER}Free 512 bytes, ptr = {addr:#x}")
    return "\n".join(lines).encode() + b"\n"


def read_text(text: bytes) -> Log:
    return read(io.BytesIO(text), columns=("thread", "time_us"))


@given(st.integers(200, 9000), st.integers(0, 300), st.booleans())
@settings(max_examples=many(40))
def test_blocks_of_any_size_give_the_same_log(size: int, cut: int, long_line: bool) -> None:
    text = (b"x" * 20_000 + HEADER.encode() + b"Alloc 1 bytes, ptr = 0x1\n" if long_line else b"") + log_text()
    text = text[: len(text) - cut]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK_BYTES", size)
        log = read_text(text)
    assert rows(log) == rows_of(read_plain(text).events)
    assert log.facts.lines == text.count(b"\n") + (not text.endswith(b"\n"))
    assert log.facts.bytes == len(text)
    assert log.facts.malformed == len(read_plain(text).malformed)
    # A stream cannot be read again, so the reader has numbered the lines: by hand, line ends before the event's line.
    assert log.line is not None
    assert log.line.tolist() == [text.count(b"\n", 0, offset) + 1 for offset in log.offset.tolist()]


@pytest.mark.parametrize("size", some([1000, 100, 4096, 33_333], 2))
@pytest.mark.parametrize("threads", some([3, 1], 2))
def test_blocks_read_by_several_threads_give_the_same_log(tmp_path: Path, size: int, threads: int) -> None:
    text = b"y" * 3000 + b"\n" + log_text(200) + b"Alloc 7 bytes, ptr = 0x7"
    path = tmp_path / "run.log"
    path.write_bytes(text)
    patterns = [Pattern("START STEP_3"), Pattern(r"STEP_(\d+)", regex=True)]
    with in_small_blocks(size, threads):
        log = read(path, columns=("thread", "time_us"), patterns=patterns)
    assert rows(log) == rows_of(read_plain(text).events)
    assert log.facts.lines == text.count(b"\n") + 1
    assert log.facts.ends_mid_line
    one, every = log.anchors
    assert list(one.offsets) == [text.index(b"START STEP_3\n")]
    assert list(one.lines) == [text[: one.offsets[0]].count(b"\n") + 1]
    assert every.names == tuple(str(step) for step in range(200))
    offsets = log.offset[::37].tolist()
    assert log.source.line_numbers(offsets) == [text.count(b"\n", 0, offset) + 1 for offset in offsets]
    assert log.source.lines(offsets) == [text[offset:].partition(b"\n")[0] for offset in offsets]


def test_a_thread_that_fails_fails_the_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(BlockReader, "read", fail)
    path = tmp_path / "run.log"
    path.write_bytes(log_text())
    before = threading.active_count()  # libraries of other tests have some
    with in_small_blocks(1000), pytest.raises(ZeroDivisionError):
        read(path)
    assert threading.active_count() == before


def test_a_file_that_shrinks_while_it_is_read_is_read_as_far_as_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(log_text())
    monkeypatch.setattr(os.path, "getsize", lambda _: len(log_text()) + 5000)
    with in_small_blocks(1000):
        log = read(path)
    assert len(log) == 50 * 5
    assert log.facts.bytes == len(log_text())


def pack_zstd(text: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(text)


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": pack_zstd,
    "xz": lzma.compress,
    "bzip2": lambda text: bz2.compress(text, 1),  # in blocks of 100 kB, of which each is read alone
}


@pytest.mark.parametrize("compression", PACKERS)
@pytest.mark.parametrize("members", [1, 3])
def test_compression_is_known_by_content_and_not_by_name(tmp_path: Path, compression: str, members: int) -> None:
    text = log_text(300)
    pack = PACKERS[compression]
    third = len(text) // members
    parts = [text[k * third : (k + 1) * third if k < members - 1 else None] for k in range(members)]
    path = tmp_path / "run.txt"
    path.write_bytes(b"".join(pack(part) for part in parts) + (b"\0" * 512 if compression == "gzip" else b""))
    log = read(path, columns=("thread", "time_us"))
    assert rows(log) == rows_of(read_plain(text).events)
    assert log.facts.cut_short == ""
    assert log.source.lines([int(log.offset[5])]) == [text[int(log.offset[5]) :].partition(b"\n")[0]]


@pytest.mark.parametrize("compression", PACKERS)
@pytest.mark.parametrize("share", some([0.98, 0.5]))
def test_a_compressed_log_cut_short_is_read_as_far_as_it_goes_and_says_so(
    tmp_path: Path, compression: str, share: float
) -> None:
    text = b"".join(log_text(30).replace(b"0x7f", b"0x%x" % k) for k in range(16, 36))
    packed = PACKERS[compression](text)
    path = tmp_path / "run.log.gz"
    path.write_bytes(packed[: int(len(packed) * share)])
    log = read(path, columns=("thread", "time_us"))
    assert "ends in the middle" in log.facts.cut_short
    assert rows(log) == rows_of(read_plain(text[: log.facts.bytes]).events)
    assert 0 < log.facts.bytes < len(text)
    with pytest.raises(InputError, match="ends in the middle"):
        read(path, strict=True)


@pytest.mark.parametrize("compression", PACKERS)
def test_a_damaged_compressed_log_is_no_traceback(tmp_path: Path, compression: str) -> None:
    packed = bytearray(PACKERS[compression](log_text(2000)))
    for k in range(len(packed) // 2, len(packed) // 2 + 40):
        packed[k] ^= 0x5A
    path = tmp_path / "run.log"
    path.write_bytes(bytes(packed))
    try:
        log = read(path)
    except NoEventsError:
        return
    assert log.facts.cut_short


def test_a_directory_is_refused_and_a_log_in_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "workerlog.0").write_bytes(log_text())
    with pytest.raises(InputError, match="is a directory") as caught:
        read(tmp_path)
    assert "workerlog.0" in caught.value.hint


@pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(log_text())
    path.chmod(0)
    with pytest.raises(InputError, match="cannot be read"):
        read(path)


@pytest.mark.parametrize("before", [0, 1, 40])
def test_nul_bytes_are_told_by_the_line_that_they_are_in(tmp_path: Path, before: int) -> None:
    path = tmp_path / "holes.log"
    path.write_bytes(b"epoch 1\n" * before + bytes(3000) + b"\nAlloc 1024 bytes, ptr = 0x100\n")
    (doubt,) = [doubt for doubt in read(path).trust.doubts if doubt.code == "nul_bytes"]
    assert doubt.line == before + 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\xff\xfe\x80 ", b""),
        (b"\0\0", b""),
        (b"", b"\r"),
        (b"\x1b[31m", b"\x1b[0m"),
        (b"69: ", b""),
        (b"2024-11-20T10:22:32.1Z stderr F ", b""),
        (b"    ", b""),
        (b"\xf0\x9f\x92\xa5", b" \xe2\x80\xae"),
    ],
    ids=["invalid utf-8", "zero bytes", "crlf", "colours", "ctest", "container", "indented", "emoji"],
)
def test_events_are_read_whatever_stands_around_them(before: bytes, after: bytes) -> None:
    text = b"".join(before + line + after + b"\n" for line in log_text(5).splitlines())
    clean = read_text(log_text(5))
    log = read_text(text)
    assert [row[:3] for row in rows(log)] == [row[:3] for row in rows(clean)]
    assert log.thread is not None
    assert set(log.thread.tolist()) == {13292}


def test_a_line_of_megabytes_is_read() -> None:
    text = (
        b"z" * 9_000_000 + HEADER.encode() + b"Alloc 256 bytes, ptr = 0x7f01 " + b"q" * 9_000_000 + b"\n" + log_text(3)
    )
    log = read_text(text)
    assert log.size[0] == 256
    assert log.facts.lines == text.count(b"\n")


def test_a_line_too_long_to_keep_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr(blocks, "LONGEST_LINE", 1 << 14)
    text = b"z" * 100_000 + b" " + HEADER.encode() + b"Alloc 256 bytes, ptr = 0x7f01\n" + log_text(3)
    log = read_text(text)
    assert log.size[0] == 256
    assert "long_line" in log.facts.hints
    assert log.facts.lines == text.count(b"\n")


def test_two_lines_run_together_are_two_events() -> None:
    log = read_text(b"Alloc 256 bytes, ptr = 0x7f01Free 256 bytes, ptr = 0x7f01\n")
    assert log.kind.tolist() == [Kind.ALLOC, Kind.FREE]


@pytest.mark.parametrize("cut", range(1, 32))
def test_half_an_event_at_the_end_is_never_lost_in_silence(cut: int) -> None:
    text = log_text(3)
    whole = len(read_text(text))
    log = read_text(text[:-cut])
    assert log.facts.ends_mid_line
    # The address may have lost digits, which nobody can tell; or the event is gone, and then its line is counted.
    assert len(log) + log.facts.malformed == whole


def test_a_size_of_twenty_digits_is_malformed_and_named() -> None:
    log = read_text(log_text(1) + b"Alloc 12345678901234567890 bytes, ptr = 0x7f01\n")
    assert log.facts.malformed == 1
    assert log.facts.malformed_samples[0].line == log_text(1).count(b"\n") + 1
    assert "12345678901234567890" in log.facts.malformed_samples[0].text


def test_sizes_that_add_up_beyond_sixty_four_bits_are_refused() -> None:
    line = b"Alloc 140737488355328 bytes, ptr = 0x7f01\n"
    with pytest.raises(InputError, match="4 EiB"):
        read(io.BytesIO(line * 40_000))


def test_a_log_that_grows_faster_than_it_is_read_is_read_as_far_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(log_text(2000))
    stop = threading.Event()

    def write() -> None:
        with path.open("ab") as out:
            while not stop.wait(0.001):
                out.write(log_text(1))
                out.flush()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(5):
            before = path.stat().st_size
            log = read(path)
            assert before <= log.facts.bytes <= path.stat().st_size
            assert len(log) >= 2000 * 5
            assert log.facts.malformed == 0 or log.facts.ends_mid_line
    finally:
        stop.set()
        writer.join()


def test_a_pipe_is_read_once_and_says_so_when_asked_again(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(log_text(300),))
    writer.start()
    log = read(pipe)
    writer.join()
    assert len(log) == 300 * 5
    assert not log.source.rereadable
    assert log.source.line_numbers([0]) == [None]
    with pytest.raises(InputError, match="only once"):
        list(log.source.blocks())


@given(st.binary(max_size=400))
@settings(max_examples=many(150))
def test_any_bytes_are_a_log_or_a_clear_error(noise: bytes) -> None:
    for text in (noise, b"\x1f\x8b" + noise, b"\x28\xb5\x2f\xfd" + noise, b"\xfd7zXZ\x00" + noise, b"BZh9" + noise):
        try:
            read(io.BytesIO(text))
        except InputError as error:
            assert error.message


def test_a_missing_file_is_named_with_what_lies_near(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_bytes(log_text())
    with pytest.raises(InputError, match="no such file") as caught:
        read(tmp_path / "runn.log")
    assert "run.log" in caught.value.hint


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(UsageError, match="no column colour"):
        read(io.BytesIO(log_text()), columns=["colour"])
