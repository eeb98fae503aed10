"""Compressed inputs by the quicker library as by the usual one, whole and damaged."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
import zstandard

from memlens.errors import InputError
from memlens.inputs import blocks, streams
from memlens.inputs.blocks import in_order
from memlens.inputs.streams import open_bytes

pytestmark = pytest.mark.changed("inputs")

needs_isal = pytest.mark.skipif(find_spec("isal") is None, reason="needs isal, which is not installed")


def members(chance: random.Random) -> bytes:
    """A gzip file as they come: of one member or several, with names, of any level, with blocks that are stored, empty members, padding, rubbish."""
    made = b""
    for _ in range(chance.choice([1, 1, 2, 5])):
        line = b"Alloc %d bytes, ptr = 0x7f%04x\n"
        text = b"".join(
            line % (chance.choice([256, 512, chance.randrange(1 << 30)]), k)
            for k in range(chance.choice([0, 3, 400, 30_000]))
        )
        if chance.random() < 0.2:
            text += chance.randbytes(chance.randrange(1 << 17))
        made += gzip.compress(text, chance.choice([0, 1, 6, 9]))
    return made + chance.choice([b"", b"", b"\0" * 512, b"rubbish after it"])


def damaged(data: bytes, chance: random.Random) -> bytes:
    kind = chance.randrange(4)
    at = chance.randrange(6, len(data))
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
    if kind == 2:
        return data[:at] + chance.randbytes(min(40, len(data) - at)) + data[at + 40 :]
    return data[:at] + data[at + chance.randrange(1, 100) :]


def read(path: Path) -> tuple[bytes, str, int]:
    with open_bytes(path) as stream:
        return stream.readall(), stream.problem, stream.consumed


@needs_isal
def test_a_damaged_gzip_file_is_read_up_to_its_damage_by_either_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rounds: Callable[[int], range]
) -> None:
    path, problems = tmp_path / "run.log.gz", set()
    for seed in rounds(50):
        chance = random.Random(seed)
        data = members(chance)
        path.write_bytes(data if seed % 5 == 0 else damaged(data, chance))
        (text, quick_problem, _) = read(path)
        with monkeypatch.context() as patch:
            patch.setattr(streams, "find_spec", lambda _: None)
            (usual, problem, _) = read(path)
        assert text == usual or (problem and (text.startswith(usual) or usual.startswith(text))), seed
        assert bool(quick_problem) == bool(problem), seed
        problems.add(problem)
    assert "" in problems
    assert "the gzip stream ends in the middle" in problems
    assert len(problems) > 5


@pytest.fixture
def by_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several threads read, however few processors there are and whatever scans."""
    monkeypatch.setattr(blocks, "processors", lambda: 3)
    monkeypatch.setattr(blocks, "load", lambda _: blocks)


@pytest.mark.usefixtures("by_threads")
def test_what_a_thread_of_its_own_unpacks_comes_in_order_and_stops_when_nobody_wants_it(tmp_path: Path) -> None:
    text = b"".join(b"%d\n" % k for k in range(2_000_000)) * 5  # many times what is read ahead
    path = tmp_path / "run.log.gz"
    path.write_bytes(gzip.compress(text, 1))
    with open_bytes(path) as stream:
        assert b"".join(in_order(stream, lambda block: block.text.tobytes())) == text
    with open_bytes(path) as stream:
        results = in_order(stream, lambda block: block.text.tobytes())
        assert next(results) == text[: text.rindex(b"\n", 0, blocks.BLOCK_BYTES) + 1]
        results.close()
        assert stream.consumed < path.stat().st_size


@pytest.mark.usefixtures("by_threads")
def test_an_error_in_mid_stream_comes_after_what_was_read_before_it(tmp_path: Path) -> None:
    path = tmp_path / "run.log.gz"
    path.write_bytes(gzip.compress(b"line\n" * 4_000_000, 0))
    with open_bytes(path) as stream:
        real = stream._file

        class Failing:
            def read(self, size: int) -> bytes:
                if real.tell() > 15_000_000:
                    raise OSError("the disk is gone")
                return real.read(size) or b""

            def close(self) -> None:
                real.close()

        stream._file = Failing()  # type: ignore[assignment]
        seen: list[int] = []
        with pytest.raises(OSError, match="the disk is gone"):
            list(in_order(stream, lambda block: seen.append(len(block.text))))
    assert 0 < sum(seen) <= 15_000_000


def test_a_link_that_leads_nowhere_is_not_meant_instead_of_itself(tmp_path: Path) -> None:
    link = tmp_path / "workerlog.0"
    link.symlink_to(tmp_path / "gone")
    with pytest.raises(InputError, match="no such file") as raised:
        open_bytes(link)
    assert raised.value.hint == "Check the path."


def test_a_small_zstd_file_of_gigabytes_is_unpacked_in_small_pieces() -> None:
    text = b"x" * (1 << 28)  # 4 KiB of the file are more than 100 MB of the text
    pieces = list(streams.Decompressor("zstd").feed(zstandard.compress(text)))
    assert b"".join(pieces) == text
    assert max(map(len, pieces)) <= 8 << 20
