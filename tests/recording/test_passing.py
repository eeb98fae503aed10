"""What is passed on of a program's output while it is recorded: what it would have written without a log, as soon as that is known."""

from __future__ import annotations

import io
import os
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from raw_runs import read_packed

from memlens import read
from memlens.recording.sink import FILTERS, PassedOn, Slimmed

#: The definition, for a whole text at once: an INFO line of glog from its header to its end.
INFO = re.compile(rb"I(?:\d{4})?\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ [^\s:\]]+:\d+\][^\n]*(?:\n|\Z)")
PIECES = (
    b"I1120 10:22:32.856307 13292 auto_growth_best_fit_allocator.cc:270] Alloc 1792 bytes, ptr = 0x7f\n",
    b"I20261120 10:22:32.856307     7 a.cc:1] \n",
    b"I1120 10:22:32.856307 13292 a.cc:270] In one line I1120 10:22:32.856307 13292 b.cc:1] another\n",
    b"W1120 10:22:32.856307 13292 init.cc:5] a warning\n",
    b"I1120 10:22:32.856307 13292 no header\n",
    b"I1120 10:22:32.85630 13292 a.cc:270] nor this\n",
    b"STEP 1 START\n",
    b"\r 10%|##        | 1/10",
    b"I",
    b"I1120",
    b" 10:22:32.",
    b"\n",
    b"\xff\x00",
    b"x" * 700,
)


def passed(text: bytes, cuts: list[int]) -> bytes:
    kept = FILTERS["program"]()
    parts = [kept.feed(text[start:end]) for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    return b"".join(parts) + kept.release()


def test_any_blocks_give_what_the_whole_text_gives(rounds: Callable[[int], range]) -> None:
    for seed in rounds(3000):
        chance = random.Random(seed)
        text = b"".join(chance.choices(PIECES, k=chance.randrange(1, 12)))
        text = text[: chance.randrange(1, len(text) + 1)]
        cuts = sorted(chance.choices(range(len(text) + 1), k=chance.randrange(8)))
        assert passed(text, cuts) == INFO.sub(b"", text), (seed, text, cuts)


def test_of_a_real_log_stays_what_glog_did_not_write(shared: Path) -> None:
    text = (shared / "data/paddle/09_launch2_dygraph_331.workerlog.0").read_bytes()
    kept = passed(text, list(range(4096, len(text), 4096)))
    lines = text.splitlines(keepends=True)
    assert kept == b"".join(line for line in lines if not re.match(rb"I\d{4} \d\d:", line))
    assert kept.count(b"STEP 0 START") == 1
    assert b"] Alloc " not in kept


def test_lines_come_at_once_and_half_a_line_when_nothing_follows() -> None:
    kept = FILTERS["program"]()
    assert kept.feed(b"one\ntwo\n50%") == b"one\ntwo\n"
    assert kept.feed(b"\r60% I1120 10:2") == b"50%\r"
    assert kept.release(surely=True) == b"60% "
    assert kept.held == b"I1120 10:2"
    assert kept.release() == b"I1120 10:2"
    assert kept.held == b""


CALLS = [
    b"I1120 10:22:32.856307 %5d line.py:0] memlens calls %b\n" % (thread, text)
    for thread in (7, 13292)
    for text in (b"-", b"relu < a.py:1 main", b"full_ < a.py:2 main")
]
BETWEEN = (
    *PIECES[:3],
    b"STEP 1 START\n",
    b"10%|# ",
    b"I1120 10:22:32.856307 13292 auto_growth_best_fit_allocator.cc:279] Free 1792 bytes, ptr = 0x7f\n",
    b"I1120 10:22:32.856307     7 auto_growth_best_fit_allocator.cc:270] Alloc 256 bytes, ptr = 0x8f\n",
)


def slimmed(text: bytes, cuts: list[int]) -> bytes:
    kept = Slimmed()
    parts = [kept.feed(text[start:end]) for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    return b"".join(parts) + kept.release()


def test_calls_in_which_nothing_is_allocated_are_not_in_the_log_and_all_else_is(rounds: Callable[[int], range]) -> None:
    for seed in rounds(200):
        chance = random.Random(seed)
        lines = b"".join(chance.choice((CALLS, CALLS, BETWEEN))[-chance.randrange(1, 7)] for _ in range(30)).splitlines(
            True
        )
        threads = [re.match(rb"I\S+ \S+ +(\d+) line\.py:0\] memlens calls ", line) for line in lines]
        want = [
            line
            for line, thread, after in zip(lines, threads, [*threads[1:], None], strict=True)
            if not (thread and after and thread[1] == after[1])
        ]
        cuts = sorted(chance.choices(range(len(b"".join(lines)) + 1), k=chance.randrange(8)))
        assert slimmed(b"".join(lines), cuts) == b"".join(want), seed
        whole, short = (
            read(io.BytesIO(b"".join(text))) if b"bytes, ptr" in b"".join(text) else None for text in (lines, want)
        )
        if whole is not None and short is not None:
            assert [whole.owner_of(event) for event in range(len(whole))] == [
                short.owner_of(event) for event in range(len(short))
            ]


def test_a_recorded_log_says_the_same_with_fewer_lines() -> None:
    path = Path(__file__).parents[2] / "examples/logs/feats.log.gz"
    text = read_packed(path)
    short = slimmed(text, list(range(4096, len(text), 4096)))
    assert short.count(b"memlens calls") < text.count(b"memlens calls") / 1.5
    found = []
    for log in (read(path), read(io.BytesIO(short))):
        assert log.holder is not None
        holders = [log.holder_names[number] if number >= 0 else None for number in log.holder.tolist()]
        owners = [log.owner_of(event) for event in range(len(log))]
        found.append((log.kind.tolist(), log.size.tolist(), log.addr.tolist(), owners, holders))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["program", "all"])
def test_no_more_than_the_size_of_a_line_is_held(name: str) -> None:
    kept = FILTERS[name]()
    assert sum(len(kept.feed(b"x" * 1000)) for _ in range(1000)) >= 1_000_000 - 5000
    assert len(kept.held) < 5000


def test_a_reader_that_has_gone_is_no_problem_and_a_full_disk_is_one() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    gone = PassedOn(writing, owned=True)
    gone.write(b"x")
    gone.write(b"x")
    gone.close()
    assert gone.problem == ""
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    full = PassedOn(os.open("/dev/full", os.O_WRONLY), owned=True)
    full.write(b"x")
    full.close()
    assert full.problem == "its output is no longer passed on: No space left on device"
