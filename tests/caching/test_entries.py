"""Files of a cache: whatever lies there, what is believed is what was written."""

from __future__ import annotations

import io
import json
import os
import pickle
import random
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from memlens.caching.digests import sum_of, sum_of_file
from memlens.caching.entries import DamagedEntryError, read_entry, read_facts, write_entry

xxhash = pytest.importorskip("xxhash", reason="sums up what is kept")

ME = (os.geteuid(),)
COLUMNS: list[NDArray[Any]] = [
    np.frombuffer(b'{"plain": true}', np.uint8),
    np.arange(1000, dtype=np.int64),
    np.zeros(0, np.int32),
    np.array([True, False]),
    np.array([2**64 - 1], np.uint64),
    np.arange(6, dtype=np.int16).reshape(2, 3),
]


@pytest.fixture
def entry(tmp_path: Path) -> Path:
    path = tmp_path / "an.entry"
    write_entry(str(path), {"content": "x"}, COLUMNS, 0o600, 1 << 20)
    return path


def same(path: Path) -> bool:
    """Whether a file gives what was written; anything else must be refused."""
    found = read_entry(str(path), ME, content="x")
    assert [array.dtype for array in found.arrays] == [array.dtype for array in COLUMNS]
    return all(np.array_equal(one, other) for one, other in zip(found.arrays, COLUMNS, strict=True))


def test_what_was_written_is_read(entry: Path) -> None:
    assert same(entry)
    found = read_entry(str(entry), ME)
    assert (found.uses, found.size, found.facts["content"]) == (1, entry.stat().st_size, "x")
    assert not any(array.flags.writeable for array in found.arrays)
    assert all(array.ctypes.data % 64 == 0 for array in found.arrays)
    assert entry.stat().st_mode & 0o777 == 0o600


def test_each_reading_counts_and_moves_the_time_of_the_file(entry: Path) -> None:
    os.utime(entry, (1, 1))
    for _ in range(3):
        read_entry(str(entry), ME)
    assert read_facts(str(entry), ME).uses == 3
    assert read_facts(str(entry), ME).uses == 3  # to look at it is no use of it
    assert entry.stat().st_mtime > 1e9


def test_a_file_of_another_content_is_refused(entry: Path) -> None:
    with pytest.raises(DamagedEntryError, match="something else"):
        read_entry(str(entry), ME, content="y")


@pytest.mark.parametrize("step", [1, 97])
def test_a_file_cut_short_anywhere_is_refused(entry: Path, step: int) -> None:
    whole = entry.read_bytes()
    for size in range(0, len(whole), step if step > 1 else 41):
        entry.write_bytes(whole[:size])
        with pytest.raises(DamagedEntryError):
            same(entry)
    entry.write_bytes(whole + b"\0")
    with pytest.raises(DamagedEntryError):
        same(entry)


def test_a_flipped_bit_is_refused_or_of_no_meaning(entry: Path) -> None:
    """Bits of the count of uses and between the parts mean nothing; each other one is seen."""
    whole, unseen = entry.read_bytes(), []
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 8
        entry.write_bytes(damaged)
        try:
            assert same(entry)
            unseen.append(at)
        except DamagedEntryError:
            pass
    length = struct.unpack_from("<Q", whole, 8)[0]
    meaningful = [*range(32), *range(64, 64 + length)]
    assert not set(unseen) & set(meaningful)
    assert len(unseen) == 32 + sum(-end % 64 for end in ends(length)) - trailing(length)


def ends(length: int) -> list[int]:
    """Where the facts and the arrays end, each of which begins at a multiple of 64."""
    found = [64 + length]
    for array in COLUMNS:
        found.append(-(-found[-1] // 64) * 64 + array.nbytes)
    return found


def trailing(length: int) -> int:
    """What would follow the last array, with which the file ends."""
    return -ends(length)[-1] % 64


def test_random_bytes_are_refused(entry: Path) -> None:
    chance = random.Random(5)
    whole = entry.read_bytes()
    for _ in range(300):
        damaged = bytearray(whole)
        at = chance.randrange(len(whole))
        damaged[at : at + chance.randrange(1, 200)] = chance.randbytes(chance.randrange(1, 200))
        entry.write_bytes(damaged)
        with suppress(DamagedEntryError):
            assert same(entry)


def made(facts: Any, arrays: bytes = b"") -> bytes:
    """A file whose sums are right, whatever its facts say."""
    text = facts if isinstance(facts, bytes) else json.dumps(facts).encode()
    head = struct.pack("<8sQ16s", b"memlens\x01", len(text), xxhash.xxh3_128(text).digest()) + bytes(8)
    body = head.ljust(64, b"\0") + text
    return body.ljust(-(-len(body) // 64) * 64, b"\0") + arrays if arrays else body


def npy() -> bytes:
    out = io.BytesIO()
    np.save(out, np.array([os.getcwd], object), allow_pickle=True)
    return out.getvalue()


SUM = sum_of(bytes(8))
HOSTILE: dict[str, Callable[[], bytes]] = {
    "no facts": lambda: made(b""),
    "no object": lambda: made([1, 2]),
    "no JSON": lambda: made(b"{"),
    "no UTF-8": lambda: made(b'"\xff\xfe"'),
    "deep": lambda: made(b"[" * 100_000),
    "no arrays": lambda: made({"content": "x"}),
    "arrays that are none": lambda: made({"content": "x", "arrays": 5}),
    "an array of objects": lambda: made({"content": "x", "arrays": [["object", [1], SUM]]}, bytes(8)),
    "an array of no type": lambda: made({"content": "x", "arrays": [[None, [1], SUM]]}, bytes(8)),
    "a length below nothing": lambda: made({"content": "x", "arrays": [["int64", [-1], SUM]]}, bytes(8)),
    "a shape that is none": lambda: made({"content": "x", "arrays": [["int64", 1, SUM]]}, bytes(8)),
    "a shape of very many": lambda: made({"content": "x", "arrays": [["int64", [1] * 1000, SUM]]}, bytes(8)),
    "a shape of text": lambda: made({"content": "x", "arrays": [["int64", "1", SUM]]}, bytes(8)),
    "a length that is none": lambda: made({"content": "x", "arrays": [["int64", [1.0], SUM]]}, bytes(8)),
    "a length that is true": lambda: made({"content": "x", "arrays": [["int64", [True], SUM]]}, bytes(8)),
    "more than there is": lambda: made({"content": "x", "arrays": [["int64", [1 << 60], SUM]]}, bytes(8)),
    "no number at all": lambda: made({"content": "x", "arrays": [["int64", [10**40], SUM]]}, bytes(8)),
    "another sum": lambda: made({"content": "x", "arrays": [["int64", [1], "0" * 32]]}, bytes(8)),
    "a pickle": lambda: pickle.dumps(os.getcwd),
    "an array of NumPy's": npy,
    "nothing": lambda: b"",
    "zeros": lambda: bytes(4096),
    "a length of facts beyond the file": lambda: struct.pack("<8sQ16s", b"memlens\x01", 1 << 62, bytes(16)).ljust(
        64, b"\0"
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused(entry: Path, name: str) -> None:
    entry.write_bytes(HOSTILE[name]())
    with pytest.raises(DamagedEntryError):
        read_entry(str(entry), ME, content="x")


def test_what_is_no_file_is_refused_at_once(tmp_path: Path, entry: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DamagedEntryError):
        read_entry(str(tmp_path / "pipe"), ME)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(entry)
    for name in ("folder", "link", "nothing"):
        with pytest.raises(OSError):
            read_entry(str(tmp_path / name), ME)


def test_files_of_others_and_files_that_others_may_write_are_not_believed(entry: Path) -> None:
    with pytest.raises(PermissionError):
        read_entry(str(entry), [ME[0] + 1])
    for mode in (0o660, 0o602):
        entry.chmod(mode)
        with pytest.raises(DamagedEntryError):
            read_entry(str(entry), ME)
    entry.chmod(0o644)
    assert same(entry)


def test_a_link_in_the_place_of_an_entry_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("untouched")
    (tmp_path / "an.entry").symlink_to(tmp_path / "mine")
    write_entry(str(tmp_path / "an.entry"), {"content": "x"}, COLUMNS, 0o600, 1 << 20)
    assert (tmp_path / "mine").read_text() == "untouched"
    assert same(tmp_path / "an.entry")


def test_what_is_too_large_is_not_written(tmp_path: Path) -> None:
    assert write_entry(str(tmp_path / "e"), {}, COLUMNS, 0o600, 1000) == 0
    assert not list(tmp_path.iterdir())


def test_the_sum_of_a_file_is_that_of_its_content_alone(tmp_path: Path) -> None:
    """Against the definition: the size in digits, a blank, and the sums of pieces of 8 MiB."""
    chance = random.Random(1)
    for size in (0, 1, 1 << 20, (8 << 20) - 1, 8 << 20, (8 << 20) + 1, 40_000_000):
        text = chance.randbytes(size)
        (tmp_path / "a").write_bytes(text)
        pieces = [xxhash.xxh3_128(text[at : at + (8 << 20)]).digest() for at in range(0, size, 8 << 20)]
        told: list[int] = []
        assert sum_of_file(str(tmp_path / "a"), told.append) == sum_of_file(str(tmp_path / "a"))
        assert told == [*range(8 << 20, size, 8 << 20), size][: len(told)]
        assert told[-1:] == ([size] if size else [])
        assert sum_of_file(str(tmp_path / "a")) == xxhash.xxh3_128(f"{size} ".encode() + b"".join(pieces)).hexdigest()


def test_to_stop_while_a_file_is_summed_up_leaves_no_thread_behind(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(100 << 20))
    before = threading.active_count()

    def stop(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sum_of_file(str(tmp_path / "a"), stop)
    assert threading.active_count() == before
