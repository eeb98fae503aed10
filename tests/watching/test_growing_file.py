"""What becomes of a file that is followed: compressed, rotated, made shorter, replaced, removed, a pipe."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import random
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard
from following import analyzed, pieces, said, without_counts
from night import some
from texts import read_packed

from memlens.errors import InputError
from memlens.watching.followed import Followed
from memlens.watching.result import LogState

HEADER = "I1120 10:22:32.856307 {} auto_growth_best_fit_allocator.cc:270] "


def events(count: int, thread: int = 7, first: int = 0) -> str:
    """So many ALLOCs of 256 bytes, of one thread."""
    lines = (f"{HEADER.format(thread)}Alloc 256 bytes, ptr = {k:#x}\n" for k in range(first + 1, first + count + 1))
    return "".join(lines)


def drain(log: Followed) -> LogState:
    while log.poll():
        pass
    (state,) = log.states()
    return state


def write(path: Path, text: str, how: str = "a") -> None:
    with path.open(how) as file:
        file.write(text)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.log"


@pytest.fixture
def log(path: Path) -> Iterator[Followed]:
    log = Followed(path)
    yield log
    log.close()


@pytest.fixture(scope="module")
def text(shared: Path) -> bytes:
    return read_packed(shared / "data" / "paddle" / "05_leak_graph_331.log.gz")


def test_a_file_that_is_not_there_yet_is_waited_for(path: Path, log: Followed) -> None:
    assert not log.poll()
    assert log.states()[0].waiting == "no such file yet"
    path.touch()
    assert log.poll()  # that there is one now can be shown
    assert not log.poll()
    assert log.states()[0].waiting == "nothing is written yet"
    write(path, "hello\n")
    assert drain(log).waiting == "no event of an allocator yet"
    write(path, events(1))
    assert drain(log).waiting == ""
    assert log.states()[0].allocated_bytes == 256


def test_half_a_line_waits_for_the_rest_of_it_and_counts_at_the_end(path: Path, log: Followed) -> None:
    write(path, events(2)[:-20])
    state = drain(log)
    assert (state.allocs, state.lines) == (1, 1)
    write(path, events(2)[-20:-1])
    assert drain(log).allocs == 1
    log.flush()
    (state,) = log.states()
    assert (state.allocs, state.lines) == (2, 2)


class Compressors:
    """Compressors that give out all that was put into them, by flushing or by ending a member."""

    @staticmethod
    def zst(parts: list[bytes]) -> Iterator[bytes]:
        """Blocks of frames, of which one ends after each third part."""
        for number, part in enumerate(parts):
            if number % 3 == 0:
                frame = zstandard.ZstdCompressor().compressobj()
            ends = number % 3 == 2 or number == len(parts) - 1
            how = zstandard.COMPRESSOBJ_FLUSH_FINISH if ends else zstandard.COMPRESSOBJ_FLUSH_BLOCK
            yield frame.compress(part) + frame.flush(how)

    @staticmethod
    def gz(parts: list[bytes]) -> Iterator[bytes]:
        """One member, flushed."""
        member = zlib.compressobj(wbits=31)
        for part in parts:
            yield member.compress(part) + member.flush(zlib.Z_SYNC_FLUSH)
        yield member.flush()

    @staticmethod
    def gz_members(parts: list[bytes]) -> Iterator[bytes]:
        return map(gzip.compress, parts)

    @staticmethod
    def xz(parts: list[bytes]) -> Iterator[bytes]:
        return map(lzma.compress, parts)

    @staticmethod
    def bz2(parts: list[bytes]) -> Iterator[bytes]:
        return map(bz2.compress, parts)


@pytest.mark.parametrize("name", some(["zst", "gz", "gz_members", "xz", "bz2"], 2))
def test_a_compressed_log_is_read_as_far_as_it_was_flushed(path: Path, log: Followed, text: bytes, name: str) -> None:
    chance = random.Random(name)
    plain = path.with_suffix(".plain")
    written = b""
    parts = list(pieces(text, chance, 9))
    for part, packed in zip(parts, getattr(Compressors, name)(parts), strict=False):
        written += part
        cut = chance.randrange(len(packed) + 1)
        for half in (packed[:cut], packed[cut:]):
            with path.open("ab") as file:
                file.write(half)
            state = drain(log)
        whole = written[: written.rfind(b"\n") + 1]
        plain.write_bytes(whole)
        (wanted,) = analyzed(plain, "never") or [{"allocs": 0, "live_bytes": 0}]
        assert (state.allocs, state.allocated_bytes or 0) == (wanted["allocs"], wanted["live_bytes"])
    log.flush()
    plain.write_bytes(text)
    state = log.states()[0]
    assert (said(state)["live_bytes"], state.lines) == (analyzed(plain)[0]["live_bytes"], analyzed(plain)[0]["lines"])
    assert state.problem == ("the gzip stream ends in the middle" if name == "gz" else "")


def test_a_damaged_stream_is_said_and_what_was_readable_stays(path: Path, log: Followed) -> None:
    packed = gzip.compress(events(3).encode()) + gzip.compress(events(3).encode())[:10] + b"\xff" * 50
    path.write_bytes(packed)
    state = drain(log)
    assert "the gzip stream is damaged" in state.problem
    assert state.allocs == 3
    write(path, "more")
    assert not log.poll() or drain(log).allocs == 3


def moved_away(path: Path) -> None:
    path.rename(path.with_suffix(f".{len(list(path.parent.iterdir()))}"))


def truncated(path: Path) -> None:
    os.truncate(path, 0)


@pytest.mark.parametrize("how", [moved_away, truncated])
@pytest.mark.parametrize("seed", range(3))
def test_a_log_that_goes_on_in_a_new_file_is_one_log(
    path: Path, text: bytes, how: Callable[[Path], None], seed: int
) -> None:
    chance = random.Random(seed)
    lines = text.splitlines(keepends=True)[:4000]
    cuts = sorted(chance.sample(range(1, len(lines)), 3))
    log = Followed(path)
    for number, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(lines)], strict=True)):
        if number:
            how(path)
        for part in pieces(b"".join(lines[start:end]), chance, 3):
            with path.open("ab") as file:
                file.write(part)
            if how is truncated or chance.random() < 0.6:
                drain(log)
        drain(log)
    log.flush()
    whole = path.with_suffix(".whole")
    whole.write_bytes(b"".join(lines))
    (state,) = log.states()
    log.close()
    assert (state.rotations, state.restarts) == (3, 0)
    assert [without_counts(said(state))] == analyzed(whole)
    assert state.windows
    assert state.bytes == len(b"".join(lines))


def test_what_was_written_before_a_rotation_is_read_to_its_end(path: Path, log: Followed) -> None:
    write(path, events(3))
    assert drain(log).allocs == 3
    write(path, events(2, first=3))
    path.rename(path.with_suffix(".1"))
    write(path.with_suffix(".1"), events(2, first=5)[:-1])  # the writer has it open still, and ends without a line end
    write(path, events(4, first=7))
    state = drain(log)
    assert (state.allocs, state.lines, state.peak_line) == (11, 11, 11)


def test_what_is_written_to_the_old_file_until_the_new_one_is_used_counts(path: Path, log: Followed) -> None:
    write(path, events(3))
    assert drain(log).allocs == 3
    old = path.rename(path.with_suffix(".1"))
    path.touch()  # as logrotate does before it tells the writer
    assert drain(log).allocs == 3
    write(old, events(2, first=3))
    assert drain(log).allocs == 5
    write(path, events(4, first=5))
    state = drain(log)
    assert (state.allocs, state.rotations, state.restarts) == (9, 1, 0)


@pytest.mark.parametrize("how", [moved_away, truncated])
def test_another_run_starts_anew(path: Path, log: Followed, how: Callable[[Path], None]) -> None:
    write(path, "STEP 1\n" + events(5, thread=7))
    assert drain(log).allocs == 5
    how(path)
    write(path, "hello\n" * 3)
    state = drain(log)
    assert (state.allocs, state.lines, state.restarts) == (5, 9, 0)  # nothing tells yet
    write(path, events(2, thread=8))
    state = drain(
        log
    )  # as long as none of a thread that was seen before comes, it is of another run: nothing is added up
    assert (state.allocs, state.lines, state.rotations, state.restarts) == (2, 5, 0, 1)
    write(path, events(300, thread=9))
    state = drain(log)
    assert (state.allocs, state.lines, state.peak_line) == (302, 305, 305)
    assert (state.rotations, state.restarts) == (0, 1)


def test_a_log_goes_on_where_a_thread_that_was_seen_before_comes_behind_one_that_was_not(
    path: Path, log: Followed
) -> None:
    write(path, events(5, thread=7))
    drain(log)
    moved_away(path)
    write(path, events(2, thread=8))
    assert drain(log).allocs == 2
    write(path, events(2, thread=7, first=7))
    state = drain(log)
    assert (state.allocs, state.rotations, state.restarts) == (9, 1, 0)


@pytest.mark.parametrize("by", [None, r"^(STEP \d+)"])
@pytest.mark.parametrize(("first", "steps"), [(0, (3, 3)), (3, (6, 0))])
def test_a_program_that_is_started_again_with_the_same_threads_starts_anew(
    first: int, steps: tuple[int, int], by: str | None, path: Path
) -> None:
    def run(first: int, hour: int) -> str:
        """Three steps that all do the same."""
        return "".join(f"STEP {k} START\n" + events(300) for k in range(first, first + 3)).replace(" 10:", f" {hour}:")

    log = Followed(path, by=by)
    write(path, run(0, 9))
    drain(log)
    moved_away(path)
    write(path, run(first, 10))  # the same steps again, or those that follow them
    state = drain(log)
    assert (state.allocs, state.restarts + state.rotations) == (300 * steps[0], 1)
    assert (state.restarts == 1) == (steps[1] > 0)
    log.close()


def test_a_log_of_another_format_starts_anew(path: Path, log: Followed) -> None:
    rows = "".join(f"7,10:29:36.{k:06},allocate,0x{4096 * (k + 1):x},512,0\n" for k in range(3))
    write(path, "Thread,Time,Action,Pointer,Size,Stream\n" + rows)
    assert drain(log).allocs == 3
    moved_away(path)
    write(path, events(300))
    state = drain(log)
    assert (state.layer, state.allocs, state.rotations, state.restarts) == ("auto_growth", 300, 0, 1)
    moved_away(path)
    write(path, "Thread,Time,Action,Pointer,Size,Stream\n" + rows)
    log.flush()
    (state,) = log.states()
    assert (state.layer, state.allocs, state.rotations, state.restarts) == ("rmm", 3, 0, 2)


def test_a_writer_that_goes_on_at_its_place_in_a_truncated_file_leaves_a_hole(path: Path, log: Followed) -> None:
    with path.open("w") as file:
        file.write(events(300))
        file.flush()
        drain(log)
        truncated(path)
        file.write(events(5, first=300))
    assert path.read_bytes().startswith(b"\0" * 1000)
    state = drain(log)
    assert (state.allocs, state.rotations, state.restarts) == (305, 1, 0)


def copied(path: Path) -> None:
    new = path.with_suffix(".new")
    new.write_text(path.read_text() + events(200, first=300))
    new.rename(path)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 + 10)


def copied_slowly(path: Path) -> None:
    write(path, events(3), "w")


@pytest.mark.parametrize(("how", "allocs"), [(copied, 500), (cut, 150), (copied_slowly, 3)])
def test_the_same_text_again_is_read_again(path: Path, log: Followed, how: Callable[[Path], None], allocs: int) -> None:
    write(path, events(300))
    drain(log)
    how(path)
    drain(log)
    log.flush()
    state = log.states()[0]
    assert state.allocs == allocs
    assert (state.rotations, state.restarts) == (0, 0)


def test_a_file_written_anew_in_place_is_seen_though_it_is_longer(path: Path, log: Followed) -> None:
    write(path, events(5, thread=7))
    drain(log)
    write(path, events(300, thread=8), "w")
    state = drain(log)
    assert (state.allocs, state.restarts) == (300, 1)


def test_a_file_that_never_could_be_read_is_refused(path: Path, log: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path, events(1))

    def closed(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", closed)
    with pytest.raises(InputError, match="cannot be read: Permission denied"):
        log.poll()


def test_a_file_that_is_removed_is_read_to_its_end(path: Path, log: Followed) -> None:
    with path.open("a") as file:
        file.write(events(5))
        file.flush()
        drain(log)
        path.unlink()
        file.write(events(2, first=5))
    assert log.poll()
    assert log.states()[0].allocs == 7
    assert log.poll()  # so that it can be shown
    assert log.states()[0].waiting == "the file is gone"
    assert not log.poll()
    write(path, events(3, first=7))
    state = drain(log)
    assert (state.allocs, state.rotations, state.waiting) == (10, 1, "")


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (FileNotFoundError(), "the file is gone"),
        (PermissionError(13, "Permission denied"), "cannot be read: Permission denied"),
    ],
)
def test_a_file_that_goes_away_while_it_is_looked_at_is_waited_for(
    error: OSError, why: str, path: Path, log: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, "half a line")
    drain(log)
    truncated(path)
    path.rename(path.with_suffix(".1"))
    write(path, events(1))

    def gone(*_: object) -> int:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", gone)
        for _ in range(3):
            log.poll()
        assert log.states()[0].waiting == why
    write(path, events(1, first=1))
    state = drain(log)
    assert (state.allocs, state.lines, state.rotations) == (2, 3, 1)


def test_a_named_pipe_is_read_as_it_is_written_and_ends_with_its_writers(path: Path, text: bytes) -> None:
    os.mkfifo(path)
    log = Followed(path)
    assert log.poll()  # there it is
    assert not log.poll()
    assert not log.ended

    def feed_pipe() -> None:
        with path.open("wb", buffering=0) as pipe:
            for part in pieces(text, random.Random(0), 20):
                pipe.write(part)

    writer = threading.Thread(target=feed_pipe)
    writer.start()
    deadline = time.monotonic() + 60
    while not log.ended and time.monotonic() < deadline:
        log.poll()
    writer.join()
    log.flush()
    (state,) = log.states()
    log.close()
    whole = path.with_suffix(".whole")
    whole.write_bytes(text)
    (wanted,) = analyzed(whole)
    assert (state.allocs, state.peak_line, state.lines) == (wanted["allocs"], wanted["peak_line"], wanted["lines"])


def test_memory_does_not_grow_with_the_log(path: Path) -> None:
    block = "".join(
        f"STEP {k}\n"
        + f"{HEADER.format(7)}Alloc 256 bytes, ptr = 0x10\n{HEADER.format(7)}Free 256 bytes, ptr = 0x10\n" * 2000
        for k in range(10)
    )
    log = Followed(path, by=r"^STEP \d+")
    most = []
    tracemalloc.start()
    for _ in range(12):
        write(path, block)
        drain(log)
        most.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    log.close()
    # 40,000 events a round, 25 bytes each where they are kept.
    assert max(most[4:]) - most[3] < 200_000


def test_the_end_is_what_is_there_when_it_is_asked_for_however_fast_the_log_grows(
    path: Path, log: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, events(5))
    poll = log.poll

    def and_more() -> bool:
        write(path, events(1, first=path.stat().st_size))
        return poll()

    monkeypatch.setattr(log, "poll", and_more)
    log.flush()
    assert log.states()[0].allocs == 6
