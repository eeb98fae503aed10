"""What a log of Paddle says that was asked of its allocator, and what it lacks where it cannot be replayed."""

from __future__ import annotations

import io
import re
from collections import Counter
from random import Random

import numpy as np
import pytest
from msgspec.structs import replace
from paddle_allocator import MIB, PaddleAllocator, run

import memlens
from memlens.allocators.engine import prove
from memlens.allocators.history import ChunkChange, NotReplayable, RequestHistory
from memlens.allocators.paddle.auto_growth import AUTO_GROWTH
from memlens.allocators.paddle.history import COLUMNS
from memlens.log import Log

FILE = "I1120 10:22:32.856109 {:5} auto_growth_best_fit_allocator.cc:99] "
START = ["chunk_size_:256"]
ONE = [
    "Allocate 16 bytes, aligned to 256, extra size 0",
    "Not found and reallocate 256(0x1000), and remaining 0",
    "Alloc 256 bytes, ptr = 0x1000",
]


def read(lines: list[str]) -> Log:
    """A log of one thread, or of those that begin lines as ``8: ``."""
    return memlens.read(io.BytesIO("".join(map(written, lines)).encode()), columns=COLUMNS)


def written(line: str) -> str:
    """A line as the allocator writes it, of thread 7 unless it begins with another one's number."""
    number, rest = re.fullmatch(r"(?:(\d+): )?(.*)", line).groups()  # type: ignore[union-attr]
    return f"{line}\n" if line.startswith("OSError") else f"{FILE.format(int(number or 7))}{rest}\n"


def history(lines: list[str]) -> RequestHistory:
    found = AUTO_GROWTH.history(read(lines))
    assert isinstance(found, RequestHistory), found
    return found


def why_not(lines: list[str]) -> NotReplayable:
    found = AUTO_GROWTH.history(read(lines))
    assert isinstance(found, NotReplayable)
    return found


def test_a_request_that_is_tried_again_and_again_is_one_request() -> None:
    """The layers above ask again after a refusal; between the tries idle chunks are given back."""
    again = "Allocate 512 bytes, aligned to 512, extra size 0"
    lines = [*START, *ONE, "Free 256 bytes, ptr = 0x1000", again, "Free chunk with size 256", again, again]
    served = [*lines, "Not found and reallocate 512(0x2000), and remaining 0", "Alloc 512 bytes, ptr = 0x2000"]
    found = history(served)
    assert found.size.tolist() == [16, 0, 512]
    assert found.changes.at.tolist() == [0, 2, 2]
    assert found.changes.kind.tolist() == [ChunkChange.TAKEN, ChunkChange.GIVEN_BACK, ChunkChange.TAKEN]
    refused = history([*lines, "OSError: (External)  CustomDevice error, the error code is : 2.", *ONE])
    assert refused.size.tolist() == [16, 0, 512, 16]
    assert refused.failed.tolist() == [2]
    assert refused.address.tolist() == [0x1000, 0, 0, 0x1000]
    assert refused.event.tolist()[2] == -1
    assert refused.limit_bytes == 256


FOREIGN = "Free 256 bytes, ptr = 0x9000"


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([*START, *ONE, FOREIGN], "begins after the run did, or lines are lost: 1 block was freed"),
        ([*START, *ONE, FOREIGN, FOREIGN], "2 blocks were freed"),
        ([*START, *ONE, ONE[0], ONE[2].replace("0x1000", "0x2000")], "more is allocated than its chunks hold"),
        ([*START, *ONE, *ONE], "a block is allocated where another one is"),
        ([*START, *ONE[1:]], "1 of 1 blocks come without a line of their request"),
        ([*START, ONE[1]], "no line of a block"),
        ([*START, ONE[0], ONE[2]], "no line says which chunks were taken"),
        ([*START, ONE[0], "Not found and reallocate 256, and remaining 0", ONE[2]], "no addresses"),
        ([*START, ONE[0], "Not found and reallocate 256(0x1000) by strict_matching_state.", ONE[2]], "second form"),
        (
            [
                f"{thread}: {line}"
                for thread in (7, 8)
                for line in (*START, *(one.replace("0x1000", f"{thread:#x}000") for one in ONE))
            ],
            "2 processes",
        ),
    ],
)
def test_logs_that_cannot_be_replayed_say_why_and_what_to_do(lines: list[str], reason: str) -> None:
    found = why_not(lines)
    assert reason in found.reason
    assert found.hint.endswith(".")


def test_a_log_that_was_read_without_its_requests_says_so() -> None:
    text = "".join(f"{line}\n" for line in (*START, *ONE)).encode()
    found = AUTO_GROWTH.history(memlens.read(io.BytesIO(text)))
    assert isinstance(found, NotReplayable)
    assert "were not read" in found.reason


def made(seed: int, threads: int) -> tuple[PaddleAllocator, bytes]:
    """A run of an allocator with settings that the seed draws."""
    chance = Random(seed)
    small = chance.choice((0, 0, MIB))
    allocator = PaddleAllocator(
        chance,
        chunk=chance.choice(((0, 0), (4 * MIB, 4 * MIB), (2 * MIB, 8 * MIB))),
        idle=threads == 1 and chance.random() < 0.2,
        miss=threads == 1 and chance.random() < 0.2,
        pad=chance.choice((0, 0, 32)),
        alignment=chance.choice((256, 512)),
        small=small,
        advance=chance.choice(((0, 0), (2 * MIB, 4 * MIB))) if small else (0, 0),
        capacity=1 << 60 if small else chance.choice((1 << 60, 5_000_000)),
        retry=chance.random() < 0.5,
    )
    return allocator, run(allocator, 400, threads).encode()


@pytest.mark.parametrize(("threads", "runs", "exact"), [(1, 60, 1.0), (3, 40, 0.95)])
def test_runs_of_an_allocator_in_plain_python_come_out_as_they_were(threads: int, runs: int, exact: float) -> None:
    """Its settings are found from its log; of several threads that wait long for the lock not all that happened can be told."""
    found: Counter[bool] = Counter()
    for seed in range(runs):
        allocator, text = made(seed, threads)
        if b"ptr = " not in text:
            continue
        log = memlens.read(io.BytesIO(text), columns=COLUMNS)
        asked = AUTO_GROWTH.history(log)
        assert isinstance(asked, RequestHistory), asked
        values = AUTO_GROWTH.recorded(asked)
        proof = prove(asked, AUTO_GROWTH.rules(asked, values))
        found[proof.exact] += 1
        if proof.exact:
            assert (proof.chunks.of, proof.given_back.of) == (allocator.taken, allocator.given_back)
            assert proof.addresses.matched == len(allocator.addresses)
            assert values["padding_bytes"] == allocator.pad
            assert values["FLAGS_free_idle_chunk"] == (allocator.given_back > 0 and allocator.idle)
    assert found[True] >= exact * found.total()
    assert found.total() > runs // 2


def test_each_stream_has_an_allocator_of_its_own() -> None:
    """Where lines of the layer above name streams: a block that is free in one serves no request of another."""
    named = "Thread 5 Allocate 256 bytes at address 0x{}000  , stream: 0x{}"
    one = [*ONE, named.format(1, "a0")]
    two = [line.replace("0x1000", "0x2000") for line in ONE] + [named.format(2, "b0")]
    lines = [*START, *one, "Free 256 bytes, ptr = 0x1000", *two, ONE[0]]
    lines += ["Allocate 256 bytes from chunk size 256, remaining 0", ONE[2], named.format(1, "a0")]
    found = history(lines)
    assert found.stream.tolist() == [0, 0, 1, 0]
    values = AUTO_GROWTH.recorded(found)
    assert prove(found, AUTO_GROWTH.rules(found, values)).exact
    alone = replace(found, stream=np.zeros(4, np.int32))
    assert not prove(alone, AUTO_GROWTH.rules(alone, values)).exact
