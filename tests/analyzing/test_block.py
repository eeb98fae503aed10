"""The life of one block, against a plain walk over the text of the log."""

from __future__ import annotations

import gzip
import hashlib
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from logs import LogText
from snapshots import entry, pickled
from texts import read_packed

import memlens
from memlens.errors import UsageError

EVENT = re.compile(r"\] (Alloc|Free) (\d+) bytes, ptr = (0x[0-9a-f]+)$")
CHUNK = re.compile(r"reallocate (\d+)\((0x[0-9a-f]+)\)")


class Plain:
    """Events of a log by a loop over its lines: ``(line, kind, size, address)`` with line numbers from 1."""

    def __init__(self, path: Path) -> None:
        self.lines = read_packed(path).decode().splitlines()
        self.events: list[tuple[int, str, int, int]] = []
        for number, line in enumerate(self.lines, 1):
            if found := EVENT.search(line):
                self.events.append((number, found[1], int(found[2]), int(found[3], 16)))
            elif found := CHUNK.search(line):
                self.events.append((number, "Chunk", int(found[1]), int(found[2], 16)))

    def life(self, alloc: int) -> tuple[int | None, int, int]:
        """The index of the FREE of an ALLOC, the events between, and the bytes of the ALLOCs between."""
        _, _, _, address = self.events[alloc]
        later = range(alloc + 1, len(self.events))
        free = next((k for k in later if self.events[k][1] == "Free" and self.events[k][3] == address), None)
        end = len(self.events) if free is None else free
        meanwhile = sum(size for _, kind, size, _ in self.events[alloc + 1 : end] if kind == "Alloc")
        return free, end - alloc, meanwhile

    def beside(self, alloc: int) -> list[tuple[str, str, int]]:
        """What lies below and above right after an ALLOC."""
        live: dict[int, int] = {}
        chunks: list[tuple[int, int]] = []
        for _, kind, size, address in self.events[: alloc + 1]:
            if kind == "Chunk":
                chunks.append((address, address + size))
            elif kind == "Alloc":
                live[address] = size
            else:
                del live[address]
        _, _, size, address = self.events[alloc]
        low, high = next(chunk for chunk in chunks if chunk[0] <= address < chunk[1])
        below = max((start + live[start] for start in live if low <= start < address), default=low)
        above = min((start for start in live if address < start < high), default=high)
        blocks = {start + length: length for start, length in live.items()}
        found = []
        for side, distance, length in (
            ("below", address - below, blocks.get(address) if below > low else None),
            ("above", above - address - size, live.get(above) if above < high else None),
        ):
            what = "gap" if distance else "block" if length is not None else "edge"
            found.append((side, what, distance or length or 0))
        return found


@pytest.mark.parametrize("name", ["case1_pir.log", "case1_pt.log", "cnn_5steps.log.gz", "oom.log.gz"])
def test_a_life_is_what_a_walk_over_the_lines_finds(examples: Path, rounds: Callable[[int], range], name: str) -> None:
    plain = Plain(examples / name)
    log = memlens.read(examples / name, columns=("time_us", "thread"))
    allocs = [k for k, event in enumerate(plain.events) if event[1] == "Alloc"]
    levels = [0]
    for _, kind, size, _ in plain.events:
        levels.append(levels[-1] + {"Alloc": size, "Free": -size, "Chunk": 0}[kind])
    summit = levels.index(max(levels)) - 1
    chosen = random.Random(name)
    for _ in rounds(12):
        alloc = chosen.choice(allocs)
        line, _, size, address = plain.events[alloc]
        free, events, meanwhile = plain.life(alloc)
        block = memlens.block(log, line if free is None or chosen.random() < 0.5 else plain.events[free][0])
        assert (block.address, block.life.size_bytes, block.life.alloc_line) == (address, size, line)
        assert block.life.free_line == (None if free is None else plain.events[free][0])
        assert (block.life.life_events, block.life.meanwhile_bytes) == (events, meanwhile)
        assert block.allocated_bytes == levels[alloc + 1]
        assert block.at_peak == (alloc <= summit and (free is None or free > summit))
        assert [(one.side, one.what, one.size_bytes) for one in block.neighbours] == plain.beside(alloc)
        assert [one.text for one in block.alloc_context if one.is_event] == [plain.lines[line - 1]]


@pytest.mark.parametrize("name", ["case1_pir.log", "cnn_5steps.log.gz"])
def test_an_address_stands_for_the_last_block_that_holds_it(examples: Path, name: str) -> None:
    plain = Plain(examples / name)
    log = memlens.read(examples / name)
    blocks = [(line, address, size) for line, kind, size, address in plain.events if kind == "Alloc"]
    chosen = random.Random(name)
    for _, address, size in chosen.sample(blocks, 12):
        at = address + chosen.randrange(size)
        lines = [line for line, start, length in blocks if start <= at < start + length]
        block = memlens.block(log, hex(at))
        assert (block.life.alloc_line, block.earlier_lines) == (lines[-1], tuple(lines[:-1][-10:]))


@pytest.mark.parametrize(
    ("address", "message"),
    [("0x10", "no block holds the address"), ("0xzz", "is no address"), ("-0x1", "is no address")],
)
def test_an_address_that_no_block_holds_is_said(examples: Path, address: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        memlens.block(examples / "case1_pir.log", address)


def test_the_verdict_of_the_block_that_the_bad_run_keeps(examples: Path) -> None:
    """Line 64 allocates the transposed tensor, and line 201 frees it, while the backward pass runs."""
    block = memlens.block(examples / "case1_pir.log", 64)
    assert "transpose" in (block.owner or "")
    assert block.verdict.startswith("3.38 MiB, allocated at line 64 by pd_op.transpose, freed at line 201 after ")


def test_what_a_block_of_a_snapshot_keeps_beyond_its_size_is_no_gap_beside_it(tmp_path: Path) -> None:
    """A segment of 6 MiB; a block of 1.5 MiB keeps what lies behind it up to one of 2 MiB; behind that 2 MiB are free."""
    mib = 1 << 20
    trace = [
        entry("alloc", 10 * mib, 2 * mib),
        entry("alloc", 8 * mib, 3 * mib // 2),
        entry("free_requested", 8 * mib, 3 * mib // 2),
    ]
    rest = {"address": 12 * mib, "size": 2 * mib, "requested_size": 0, "state": "inactive"}
    held = {"address": 10 * mib, "size": 2 * mib, "requested_size": 2 * mib, "state": "active_allocated"}
    whole = {"device": 0, "address": 8 * mib, "total_size": 6 * mib, "stream": 0}
    free = {"address": 8 * mib, "size": 2 * mib, "requested_size": 0, "state": "inactive"}
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickled({"segments": [{**whole, "blocks": [free, held, rest]}], "device_traces": [trace]}))
    small, large = memlens.block(path, 2), memlens.block(path, 1)
    assert [(one.side, one.what, one.size_bytes) for one in small.neighbours] == [
        ("below", "edge", 0),
        ("above", "block", 2 * mib),
    ]
    assert [(one.side, one.what, one.size_bytes) for one in large.neighbours] == [
        ("below", "gap", 2 * mib),
        ("above", "gap", 2 * mib),
    ]


def test_a_block_of_before_the_input_is_there_with_all_others_as_it_begins(tmp_path: Path) -> None:
    """Three blocks side by side, the first two of which are given back: the only entries that there are."""
    mib, base = 1 << 20, 1 << 32
    actions = ("free_requested", "free_completed")
    trace = [entry(action, base + k * mib, mib) for k in (0, 1) for action in actions]
    kept = {"address": base + 2 * mib, "size": mib, "requested_size": mib, "state": "active_allocated", "frames": []}
    free = {"address": base, "size": 2 * mib, "requested_size": 0, "state": "inactive", "frames": []}
    segments = [{"device": 0, "address": base, "total_size": 3 * mib, "stream": 0, "blocks": [free, kept]}]
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickled({"segments": segments, "device_traces": [trace]}))
    for number, line in enumerate((2, 4), 1):
        found = memlens.block(path, line)
        assert (found.before_input, found.allocated_bytes, found.at_peak) == (True, 3 * mib, True)
        assert [one.what for one in found.neighbours] == (["edge", "block"] if number == 1 else ["block", "block"])
        assert (found.life.life_events, found.life.meanwhile_bytes) == (number, 0)
        assert (
            found.verdict == f"1.00 MiB, live before the input begins, freed at entry {line}. It is live at the peak."
        )


@pytest.mark.parametrize("line", [1, 63, 10_000])
def test_a_line_without_a_block_names_the_nearest_that_have_one(examples: Path, line: int) -> None:
    plain = Plain(examples / "case1_pir.log")
    with pytest.raises(UsageError) as caught:
        memlens.block(examples / "case1_pir.log", line)
    assert f"line {line:,} neither allocates nor frees" in caught.value.message
    lines = [number for number, kind, _, _ in plain.events if kind != "Chunk"]
    near = [*[n for n in lines if n < line][-1:], *[n for n in lines if n > line][:1]]
    assert re.findall(r"line ([\d,]+)", caught.value.hint) == [f"{number:,}" for number in near]


def test_of_a_log_that_is_cut_short_a_block_without_a_free_is_said_to_be_so_as_far_as_is_known(tmp_path: Path) -> None:
    log = LogText()
    log.alloc(512, 0x1000)
    log.alloc(256, 0x2000)
    log.free(256, 0x2000)
    log.lines += [hashlib.sha256(b"%d" % k).hexdigest() for k in range(4000)]
    path = tmp_path / "run.log.gz"
    path.write_bytes(gzip.compress(log.text.encode())[:-99])
    kept, freed = (memlens.block(path, line) for line in (1, 2))
    assert kept.verdict.endswith("The log is cut short: what the run did later is not known.")
    assert "cut short" not in freed.verdict
