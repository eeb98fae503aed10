"""Chunks, blocks and gaps of every real log, against replays in plain Python that take nothing from memlens.

A log of Paddle is replayed from its text by one regular expression, a snapshot from its pickle by torch's own fields; chunks and blocks are sorted intervals.
"""

from __future__ import annotations

import json
import random
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from night import NIGHT, many, some
from snapshots import Allocator, plain_pickle, rounded, snapshot
from snapshots import read as read_snapshot
from texts import read_packed

from memlens.analyzers import get
from memlens.analyzers.failures import failures
from memlens.analyzers.segments import Segments, layout_before
from memlens.inputs import Reading
from memlens.log import Log

MIB = 1 << 20


@dataclass
class Chunk:
    begin: int
    size: int
    pool: str | None = None
    stream: int | None = None


@dataclass
class Block:
    """``taken`` is what it occupies, ``size`` what it counts as allocated: nothing once it is given back."""

    begin: int
    size: int
    taken: int
    stream: int | None = None


@dataclass
class Figures:
    """What lies in some chunks; the gaps of each by rising address."""

    reserved: int = 0
    allocated: int = 0
    chunks: int = 0
    gaps: list[int] = field(default_factory=list)
    idle: list[int] = field(default_factory=list)

    def of_gaps(self) -> tuple[int, int, int]:
        return len(self.gaps), sum(self.gaps), max(self.gaps, default=0)


@dataclass
class State:
    """What lies where at one moment: all of it, by pool and stream, and the blocks that lie in no chunk."""

    whole: Figures
    places: dict[tuple[str | None, int | None], Figures]
    outside: int

    @classmethod
    def of(cls, of_chunks: Iterable[Chunk], of_blocks: Iterable[Block]) -> State:
        chunks = sorted(of_chunks, key=lambda chunk: chunk.begin)
        blocks = sorted(of_blocks, key=lambda block: block.begin)
        begins = [chunk.begin for chunk in chunks]
        of_chunk: list[list[Block]] = [[] for _ in chunks]
        outside = 0
        for block in blocks:
            number = bisect_right(begins, block.begin) - 1
            if number >= 0 and block.begin < begins[number] + chunks[number].size:
                of_chunk[number].append(block)
            else:
                outside += block.size
        whole, reach = Figures(), 0
        places: dict[tuple[str | None, int | None], Figures] = {}
        for chunk, own in zip(chunks, of_chunk, strict=True):
            assert reach <= chunk.begin, "chunks lie over each other"
            at, reach, gaps = chunk.begin, chunk.begin + chunk.size, []
            for block in own:
                assert at <= block.begin, "blocks lie over each other"
                gaps += [block.begin - at] if block.begin > at else []
                at = block.begin + block.taken
            gaps += [reach - at] if reach > at else []
            known = {block.stream for block in own} - {None}
            stream = chunk.stream if chunk.stream is not None or not known else known.pop()
            assert not known, "two streams in one chunk"
            for figures in whole, places.setdefault((chunk.pool, stream), Figures()):
                figures.reserved += chunk.size
                figures.allocated += sum(block.size for block in own)
                figures.chunks += 1
                figures.gaps += gaps
                figures.idle += [] if own else [chunk.size]
        return cls(whole, places, outside)


def check(found: Segments, number: int, state: State, *, by_place: bool) -> None:
    """Every figure of one moment."""
    moment, whole = found.moments[number], state.whole
    allocated = whole.allocated + state.outside
    assert (moment.reserved_bytes, moment.allocated_bytes, moment.chunks) == (whole.reserved, allocated, whole.chunks)
    assert moment.free_bytes == (None if state.outside else whole.reserved - allocated)
    assert (moment.gaps, moment.gap_bytes, moment.largest_gap_bytes) == whole.of_gaps()
    assert moment.outside_bytes == state.outside
    # A row of the histogram is of the gaps whose size has so many binary digits.
    digits = Counter(gap.bit_length() for gap in whole.gaps)
    bins = [(b.low_bytes, b.high_bytes, b.gaps) for b in found.histogram if b.moment == number]
    assert bins == [((1 << k) // 2, (1 << k) - 1, digits[k]) for k in sorted(digits)]
    pools = {
        (p.pool, p.stream): (p.reserved_bytes, p.allocated_bytes, p.chunks, p.gaps, p.gap_bytes, p.largest_gap_bytes)
        for p in found.pools
        if p.moment == number
    }
    expected = {k: (f.reserved, f.allocated, f.chunks, *f.of_gaps()) for k, f in state.places.items()}
    assert pools == (expected if by_place else {})


# -- logs of Paddle --------------------------------------------------------------------------------------------------------

EVENT = re.compile(
    rb"(?P<kind>Alloc|Free) (?P<size>[0-9]+) bytes, ptr = (?P<addr>0x[0-9a-f]+)"
    rb"|Not found and reallocate (?P<chunk>[0-9]+)\((?P<base>0x[0-9a-f]+)\)"
    rb"|Free chunk with size (?P<back>[0-9]+)"
    # The layer above: the same block again, with its stream, and the first thing said of its end.
    rb"|Allocate (?P<again>[0-9]+) bytes at address (?P<there>0x[0-9a-f]+)  , stream: (?P<stream>0x[0-9a-f]+)"
    rb"|Try free allocation (?P<given>0x[0-9a-f]+)"
    rb"|(?P<failed>error code is : 2\.)"
)
#: What every line of an event holds; looked for first, for most lines of a log hold none of it.
HINT = re.compile(
    rb"^.*(?: ptr = 0x|and reallocate|Free chunk with|at address 0x|Try free alloc|code is : 2).*$", re.MULTILINE
)


def events_in(text: bytes) -> list[dict[str, Any]]:
    """The events of a log: of the two layers that say the same of a block, those of the lower one where it speaks."""
    matches = [match.groupdict() for match in EVENT.finditer(b"\n".join(HINT.findall(text)))]
    lower = any(match["kind"] for match in matches)
    found: list[dict[str, Any]] = []
    streams: dict[bytes, dict[str, Any]] = {}
    for match in matches:
        block = {"addr": int(match["addr"] or match["there"] or match["given"] or b"0", 16), "stream": None}
        stream = int(match["stream"], 16) if match["stream"] else None
        if match["again"] and lower:
            streams[match["there"]]["stream"] = stream
        elif match["again"]:
            found.append({"kind": "alloc", "size": int(match["again"]), **block, "stream": stream})
        elif match["kind"]:
            found.append({"kind": match["kind"].decode().lower(), "size": int(match["size"]), **block})
            streams[match["addr"]] = found[-1]
        elif match["given"] and not lower:
            found.append({"kind": "free", "size": None, **block})
        elif match["chunk"]:
            found.append({"kind": "chunk", "size": int(match["chunk"]), "addr": int(match["base"], 16)})
        elif match["back"]:
            found.append({"kind": "back", "size": int(match["back"])})
        elif match["failed"]:
            found.append({"kind": "failed"})
    return found


def replayed(events: Sequence[dict[str, Any]]) -> State:
    """What lies where after these events."""
    chunks: dict[int, Chunk] = {}
    blocks: dict[int, Block] = {}
    for event in events:
        if event["kind"] == "alloc":
            blocks[event["addr"]] = Block(event["addr"], event["size"], event["size"], event["stream"])
        elif event["kind"] == "free":
            assert blocks.pop(event["addr"]).size == event["size"] or event["size"] is None
        elif event["kind"] == "chunk":
            chunks[event["addr"]] = Chunk(event["addr"], event["size"])
        elif event["kind"] == "back":  # its line has no address: all chunks without a block are given back at once
            held = {max((c for c in chunks if c <= b), default=0) for b in blocks}
            del chunks[next(c for c in chunks if c not in held and chunks[c].size == event["size"])]
    return State.of(chunks.values(), blocks.values())


def levels_of(events: Sequence[dict[str, Any]]) -> list[int]:
    """Allocated bytes after each event."""
    levels, level, sizes = [], 0, {}
    for event in events:
        if event["kind"] == "alloc":
            sizes[event["addr"]] = event["size"]
            level += event["size"]
        elif event["kind"] == "free":
            level -= sizes[event["addr"]]
        levels.append(level)
    return levels


def check_log(path: Path) -> int:
    """Check a log; how many moments it has."""
    events = events_in(read_packed(path))
    if not all(any(event["kind"] == kind for event in events) for kind in ("alloc", "chunk")):
        return 0
    (log,) = Reading(()).read_all(path)
    found = get("segments")(log.whole)
    assert isinstance(found, Segments)
    levels = levels_of(events)
    at_failures = [k for k, event in enumerate(events) if event["kind"] == "failed"]
    stops = [levels.index(max(levels)) + 1, len(events), *at_failures]
    assert [moment.at for moment in found.moments] == ["peak", "end", *("oom" for _ in at_failures)]
    by_place = any(event["kind"] == "alloc" and event["stream"] is not None for event in events)
    for number, stop in enumerate(stops):
        check(found, number, replayed(events[:stop]), by_place=by_place)
    for failure, stop in zip(failures(log), at_failures, strict=True):
        whole = replayed(events[:stop]).whole
        assert (failure.allocated_bytes, failure.reserved_bytes) == (whole.allocated, whole.reserved)
        assert (failure.gaps, failure.free_bytes, failure.largest_gap_bytes) == whole.of_gaps()
        assert (failure.idle_chunks, failure.idle_bytes) == (len(whole.idle), sum(whole.idle))
    return len(stops)


def test_every_log_with_chunk_lines_is_replayed(shared: Path) -> None:
    folder = shared / "data/paddle"
    logs = [path for path in sorted(folder.iterdir()) if ".stats." not in path.name and path.is_file()]
    moments = {path.name: check_log(path) for path in {folder / "05_oom_331.log", *some(logs, 8)}}
    # No chunk line with an address, or no block: naive best fit, the CPU's running totals, and levels of logging that leave one out.
    without = {
        "06_naive_best_fit_customdev.log",
        "08_cpu_nolines_331.log",
        "08_cpu_stats_331.log",
        "09_loader_workers_331.log.gz",
        "10_v2_dygraph_331.log",
    }
    assert {name for name, count in moments.items() if not count} == without & moments.keys()
    assert [name for name, count in moments.items() if count == 3] == ["05_oom_331.log"]


# -- snapshots of torch ----------------------------------------------------------------------------------------------------


class Device:
    """A device of a snapshot, as it was before its first entry, and from there on entry by entry."""

    def __init__(self, made: dict[str, Any], device: int) -> None:
        trace = (made.get("device_traces") or [[]] * (device + 1))[device]
        # With its history off torch keeps the last entry alone: that is no history.
        self.entries = [] if len(trace) == 1 and trace[0]["action"].startswith("free") else trace
        segments = [one for one in made["segments"] if one.get("device", 0) == device]
        private = any(tuple(one.get("segment_pool_id", (0, 0))) != (0, 0) for one in segments)
        self.chunks: dict[int, Chunk] = {}
        self.at_end: dict[int, Block] = {}
        self.inactive: dict[tuple[str | None, int | None], list[int]] = {}
        for one in segments:
            pool = _pool_name(*one["segment_pool_id"]) if private else None
            self.chunks[one["address"]] = Chunk(one["address"], one["total_size"], pool, one["stream"])
            at = one["address"]
            for block in one["blocks"]:
                at = block.get("address", at)
                if block["state"] == "inactive":
                    self.inactive.setdefault((pool, one["stream"]), []).append(block["size"])
                else:
                    is_held = block["state"] == "active_allocated"
                    self.at_end[at] = Block(at, block["requested_size"] if is_held else 0, block["size"])
                at += block["size"]
        self.blocks = self._opening()

    def _opening(self) -> dict[int, Block]:
        """What was there before the first entry: what is freed first, and what is there at the end without an entry."""
        seen: set[int] = set()
        blocks: dict[int, Block] = {}
        for entry in self.entries:
            if entry["action"] in ("alloc", "free_requested", "free_completed") and entry["addr"] not in seen:
                seen.add(entry["addr"])
                if entry["action"] != "alloc":
                    size = entry["size"] if entry["action"] == "free_requested" else 0
                    blocks[entry["addr"]] = Block(entry["addr"], size, rounded(entry["size"]))
        for entry in reversed(self.entries):
            assert entry["action"] not in ("segment_map", "segment_unmap"), "no log has expandable segments"
            if entry["action"] == "segment_alloc":
                self.chunks.pop(entry["addr"])
            elif entry["action"] == "segment_free":
                self.chunks[entry["addr"]] = Chunk(entry["addr"], entry["size"], None, entry["stream"])
        blocks |= {at: block for at, block in self.at_end.items() if at not in seen}
        taken = {at: self.taken(block.begin, block.taken, blocks) for at, block in blocks.items() if at in seen}
        for at, size in taken.items():
            blocks[at].taken = size
        return blocks

    def taken(self, at: int, size: int, blocks: dict[int, Block]) -> int:
        """What a block gets: torch splits off the rest of a free stretch where that is more than 1 MiB, or where the block is small."""
        if size <= MIB:
            return size
        chunk = max((one for one in self.chunks.values() if one.begin <= at), key=lambda one: one.begin)
        rest = min([chunk.begin + chunk.size, *(b for b in blocks if b > at)]) - at - size
        return size + rest if rest <= MIB else size

    def step(self, entry: dict[str, Any]) -> None:
        action, at = entry["action"], entry.get("addr", 0)
        if action == "alloc":
            self.blocks[at] = Block(at, entry["size"], self.taken(at, rounded(entry["size"]), self.blocks))
        elif action == "free_requested":
            self.blocks[at].size = 0
        elif action == "free_completed":
            del self.blocks[at]
        elif action == "segment_alloc":
            self.chunks[at] = Chunk(at, entry["size"], None, entry["stream"])
        elif action == "segment_free":
            del self.chunks[at]

    def state(self) -> State:
        return State.of(self.chunks.values(), self.blocks.values())


def _pool_name(first: int, second: int) -> str:
    return f"private pool ({first}, {second})" if first or second else "default pool"


@pytest.mark.night
def test_every_snapshot_is_replayed_and_ends_with_the_inactive_blocks_of_the_allocator(shared: Path) -> None:
    expected = json.loads((shared / "data/torch/expected.json").read_text())
    checked = kept = 0
    for path in (paths := some(sorted((shared / "data/torch/snapshots").glob("*.pickle")), 3)):
        made = plain_pickle(path)
        made = made if isinstance(made, dict) else {"segments": made}
        for log in Reading(()).read_all(path):
            known, device = expected[path.name][str(log.device)], Device(made, log.device or 0)
            found = get("segments")(log.whole)
            assert isinstance(found, Segments)
            peak, levels = device.state(), [sum(block.size for block in device.blocks.values())]
            for entry in device.entries:
                device.step(entry)
                sign = {"alloc": 1, "free_requested": -1}.get(entry["action"], 0)
                levels.append(levels[-1] + sign * entry["size"])
                if len(levels) - 2 == known["peak_event"]:
                    peak = device.state()
            assert (levels[0], max(levels), levels[-1]) == tuple(
                known[f"{at}_allocated"] for at in ("start", "peak", "end")
            )
            assert levels.index(max(levels)) == known["peak_event"] + 1
            assert found.moments[0].line == (None if known["peak_event"] < 0 else known["peak_event"] + 1)
            # What each block occupies follows from torch's rule, and is what the snapshot says at the end.
            assert device.blocks == device.at_end
            kept += sum(block.taken > rounded(block.size) for at, block in device.blocks.items() if block.size)
            check(found, 0, peak, by_place=True)
            check(found, 1, device.state(), by_place=True)
            inactive = [size for sizes in device.inactive.values() for size in sizes]
            end = found.moments[1]
            assert (end.gaps, end.gap_bytes) == (len(inactive), sum(inactive))
            assert end.largest_gap_bytes == max(inactive, default=0)
            pools = {(p.pool, p.stream): (p.gaps, p.gap_bytes) for p in found.pools if p.moment == 1 and p.gaps}
            assert pools == {place: (len(sizes), sum(sizes)) for place, sizes in device.inactive.items()}
            checked += 1
    assert checked == sum(len(expected[path.name]) for path in paths)
    assert kept > (500 if NIGHT else 20)  # the rule is tried


class Splitting(Allocator):
    """Two pools as torch has them: blocks of more than 1 MiB keep what lies behind them where that is no more than 1 MiB."""

    def stretches(self) -> list[tuple[int, int, dict[str, Any]]]:
        """Bytes and address of what is free, and its segment."""
        found = []
        for segment in self.segments.values():
            at = segment["addr"]
            for begin, length in [*sorted(segment["blocks"].items()), (segment["addr"] + segment["size"], 0)]:
                found += [(begin - at, at, segment)] if begin > at else []
                at = begin + length
        return found

    def alloc(self, size: int) -> None:
        size += self.chance.randrange(9) * 300_000 if size > MIB else 0
        need, frames = rounded(size), self.stack()
        is_large = need > MIB
        fits = [one for one in self.stretches() if one[2].get("large") == is_large and one[0] >= need]
        if not fits:
            more = self.chance.choice([0, MIB // 2, MIB, MIB + 512, 3 * MIB])
            self.reserve(need + more if is_large else 2 * MIB)["large"] = is_large
            fits = self.stretches()[-1:]
        gap, at, segment = min(fits, key=lambda one: one[:2])
        segment["blocks"][at] = gap if is_large and gap - need <= MIB else need
        self.live[at] = size, frames
        self.level += size
        self.record("alloc", at, size, frames)


@settings(max_examples=many(40))
@given(st.integers(0, 2**32), st.integers(1, 120), st.booleans(), st.none() | st.integers(2, 100))
def test_what_blocks_occupy_beyond_their_size_is_what_an_allocator_gave_them(
    seed: int, steps: int, streams: bool, last: int | None
) -> None:
    allocator = Splitting(random.Random(seed))
    moments = []
    for _ in range(steps):
        allocator.run(1, streams=streams)
        gaps = sorted(gap for gap, _, _ in allocator.stretches())
        moments.append((len(allocator.entries), (len(allocator.segments), gaps)))
    made = snapshot([allocator], last=last)
    if not made["segments"] and not any(made["device_traces"]):
        return
    (log,) = read_snapshot(made)
    cut = len(allocator.entries) - len(made["device_traces"][0])
    assert chunks_and_gaps(log, len(log)) == moments[-1][1]
    # Right before an event: of several entries that are none the last one counts.
    before = {int((log.offset < entries - cut).sum()): made for entries, made in moments if entries >= cut}
    for stop, (chunks, gaps) in before.items():
        found = chunks_and_gaps(log, stop)
        assert found[0] == chunks
        # What a block kept that was there before the trace and is freed in it cannot always be known.
        assert sum(found[1]) >= sum(gaps) if cut else found[1] == gaps


def chunks_and_gaps(log: Log, stop: int) -> tuple[int, list[int]]:
    layout = layout_before(log, stop)
    assert layout is not None
    return len(layout.chunk_size), sorted(layout.gap_size.tolist())
