"""What lies where after any event: against every byte of made devices, and against the segments analyzer on every real log."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from night import NIGHT, many
from real_logs import real_logs
from viewer_modules import VIEWER, answer

from memlens.analyzers import get
from memlens.analyzers.segments import Segments, layout_before
from memlens.drawing import memory_map as module
from memlens.drawing.lifetimes import WindowBlocks, largest_blocks, moments
from memlens.drawing.memory_map import events_of, maps_view, moments_of, other_blocks
from memlens.drawing.page import Owners, encoded
from memlens.events import Kind
from memlens.facts import Facts, OutOfMemory
from memlens.log import Log
from memlens.windows.windows import Window

BLOCK, GAP, KEPT = range(3)
Rows = list[tuple[Kind, int, int]]

#: The layouts of some logs after some events: of each its chunks, each its address, its bytes, its stream and pool and its pieces (kind, bytes, and the ALLOC
#: of a block); the gaps, and the bytes of blocks in no chunk.
LAID = f"""
import {{ readFileSync }} from "node:fs";
import {{ unpacked }} from "./{VIEWER}/data.js";
import {{ Blocks }} from "./{VIEWER}/layout.js";
const found = [];
for (const {{ view, asked }} of JSON.parse(readFileSync(0, "utf8"))) {{
  const {{ lifetimes, others, maps }} = await unpacked(view), blocks = new Blocks(lifetimes, others, maps), {{ columns }} = blocks;
  const told = ({{ kind, size, number }}) => [kind, size, number < 0 ? null : columns.alloc[number]];
  found.push(asked.map((event) => {{
    const layout = blocks.layoutAfter(event);
    return {{ known: blocks.nearest(event) === event, live: blocks.liveAfter(event).map((k) => columns.alloc[k]),
      ...layout, chunks: layout?.chunks.map((one) => ({{ ...one, pieces: one.pieces.map(told) }})) }};
  }}));
}}
console.log(JSON.stringify(found));"""


def view_of(window: Window, **how: Any) -> dict[str, Any]:
    """What the page has of a window to lay its blocks out."""
    blocks, owners = WindowBlocks(window), Owners(window.log)
    found = get("segments")(window)
    assert isinstance(found, Segments)
    shown, left = moments_of(window, found)
    bars = largest_blocks(blocks, owners, contexts=0, **how)
    grid = moments(window, blocks, owners)["event"]
    others = other_blocks(blocks, owners, bars["alloc"], events_of(window, shown), [], grid)
    return {"lifetimes": bars, "others": others, "maps": maps_view(window, shown, left)}


def laid_out(node: Callable[..., str], asked: list[tuple[dict[str, Any], list[int]]]) -> Any:
    given = [{"view": json.loads(encoded(view)), "asked": events} for view, events in asked]
    return json.loads(node("--input-type=module", "--eval", LAID, given=given))


def device(chance: Random) -> tuple[Rows, int, bool]:
    """A log of a small device: its events, what sizes of blocks are rounded up to, and whether blocks may go from chunk to chunk."""
    granule, joined = chance.choice([1, 4]), chance.random() < 0.5
    rows: Rows = []
    at = 1000
    for _ in range(chance.randint(1, 6)):
        at += chance.choice([0, 0, 8, 40])
        size = 4 * chance.randint(1, 12)
        rows.append((Kind.RESERVE, size, at))
        at += size
    place = 1000 if joined else 1000 - 8
    while place < at:
        place += 4 * chance.randint(0, 6)
        size = chance.randint(1, 20)
        rows.append((Kind.ALLOC, size, place))
        place += -(-size // 4) * 4
    # Some are freed, and some lie over others, as in a doubtful log.
    rows += [(Kind.FREE, size, addr) for kind, size, addr in rows if kind == Kind.ALLOC and chance.random() < 0.5]
    if chance.random() < 0.5:
        rows.append((Kind.ALLOC, chance.randint(0, 30), 4 * chance.randint(250, at // 4)))
    return rows, granule, joined


def test_every_byte_of_a_device_is_in_the_piece_that_it_belongs_to(
    node: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "OTHERS", 2)
    chance = Random(6)
    made = [device(chance) for _ in range(many(300))]
    logs = [
        Log.from_rows(rows, facts=Facts(block_granularity=granule, chunks_join=joined))
        for rows, granule, joined in made
    ]
    asked = [len(log) - 1 for log in logs]
    whole = laid_out(node, [(view_of(log.whole), [event]) for log, event in zip(logs, asked, strict=True)])
    few = laid_out(node, [(view_of(log.whole, most=2), [event]) for log, event in zip(logs, asked, strict=True)])
    unknown = 0
    for (rows, granule, _), log, [found], [less] in zip(made, logs, whole, few, strict=True):
        chunk_at: dict[int, int] = {}
        blocks_at: dict[int, set[int]] = {}
        taken: set[int] = set()
        live: dict[int, int] = {}
        for event, (kind, size, addr) in enumerate(rows):
            if kind == Kind.RESERVE:
                chunk_at |= dict.fromkeys(range(addr, addr + size), addr)
            elif kind == Kind.ALLOC:
                live[event] = addr
            else:
                del live[max(k for k, place in live.items() if place == addr)]
        for event, addr in live.items():
            size = rows[event][1]
            for byte in range(addr, addr + size):
                blocks_at.setdefault(byte, set()).add(event)
            taken |= set(range(addr, addr + -(-size // granule) * granule))
        seen: dict[int, int] = {}
        for chunk in found["chunks"]:
            byte = chunk["at"]
            for kind, size, alloc in chunk["pieces"]:
                for _ in range(size):
                    assert byte not in seen
                    seen[byte] = kind
                    if kind == BLOCK:
                        assert alloc in blocks_at[byte]
                    else:
                        assert byte not in blocks_at
                        assert (kind == KEPT) == (byte in taken)
                    byte += 1
        assert seen.keys() == chunk_at.keys()
        layout = layout_before(log, len(log))
        assert layout is not None
        assert sorted(found["gaps"]) == sorted(layout.gap_size.tolist())
        assert found["outside"] == sum(rows[k][1] for k, addr in live.items() if addr not in chunk_at)
        assert set(found["live"]) == set(live)
        # Where there is room for a few, all that are live are known, or the page says that it does not know them.
        assert not less["known"] or less == found
        unknown += not less["known"]
    assert len(logs) < 10 * unknown < 9 * len(logs)


@pytest.mark.night
@pytest.mark.parametrize("folder", ["data/paddle", "data/torch/snapshots"])
def test_on_every_real_log_it_is_what_the_segments_analyzer_says(
    shared: Path, folder: str, node: Callable[..., str]
) -> None:
    checked, chance = 0, Random(3)
    for _, log in real_logs(shared / folder):
        found = get("segments")(log.whole)
        assert isinstance(found, Segments)
        shown, _ = moments_of(log.whole, found)
        events = events_of(log.whole, shown).tolist()
        assert events == sorted(events)
        if len(log.whole):
            assert set(shown) == set(found.moments)  # no real log has more than three failures
        if all(moment.chunks is None for moment in shown):
            continue
        lo, hi = log.whole.lo, log.whole.hi
        asked = [*events, *(chance.randrange(lo, hi) for _ in range(3 if hi > lo else 0))]
        [laid] = laid_out(node, [(view_of(log.whole), asked)])
        for event, now in zip(asked, laid, strict=True):
            layout = layout_before(log, event + 1)
            assert (layout is None) == (now["chunks"] is None)
            if layout is None or not now["known"]:
                continue
            gaps = now["gaps"]
            figures = (len(now["chunks"]), len(gaps), sum(gaps), max(gaps, default=0), now["outside"])
            assert figures == layout.figures()
            assert [one["at"] for one in now["chunks"]] == layout.chunk_addr.tolist()
            assert [one["size"] for one in now["chunks"]] == layout.chunk_size.tolist()
            assert [[one["pool"], one["stream"]] for one in now["chunks"]] == layout.chunk_place.tolist()
            within = set(layout.block_event[(layout.block_chunk >= 0) & (layout.block_size > 0)].tolist())
            drawn = {of for one in now["chunks"] for kind, _, of in one["pieces"] if kind == BLOCK}
            assert drawn == within or log.trust.double_allocs
            assert set(now["live"]) == set(layout.block_event.tolist())
            checked += 1
    assert checked >= {"data/paddle": 150, "data/torch/snapshots": 40}[folder] / (1 if NIGHT else 4)


def test_of_a_long_log_moments_are_known_evenly_and_the_named_ones_in_any_case(
    node: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, rows, live = Random(8), [(Kind.RESERVE, 1 << 20, 1 << 20)], list[tuple[int, int]]()
    for _ in range(6000):
        if len(live) > 60 or (live and chance.random() < 0.5):
            rows.append((Kind.FREE, *live.pop(chance.randrange(len(live)))))
        else:
            place = chance.choice(sorted(set(range(256)) - {(addr >> 12) - 256 for _, addr in live}))
            live.append((chance.randrange(1, 4096), (256 + place) << 12))
            rows.append((Kind.ALLOC, *live[-1]))
    log = Log.from_rows(rows)
    monkeypatch.setattr(module, "OTHERS", 500)
    view = view_of(log.whole, most=100)
    known = [event for lo, hi in view["others"]["known"] for event in range(lo, hi)]
    assert 8 <= len(known) < 200
    assert {moment["after"] for moment in view["maps"]["moments"]} <= set(known)
    assert np.diff(known).max() < 1000
    [laid] = laid_out(node, [(view, [*known, known[3] + 1])])
    for event, now in zip(known, laid, strict=False):
        layout = layout_before(log, event + 1)
        assert layout is not None
        assert now["known"]
        assert set(now["live"]) == set(layout.block_event.tolist())
        assert sorted(now["gaps"]) == sorted(layout.gap_size.tolist())
    assert not laid[-1]["known"]


def test_of_many_failures_the_first_ones_are_shown_in_the_order_of_the_log() -> None:
    rows: Rows = [(Kind.RESERVE, 1 << 20, 4096)]
    ooms = []
    for k in range(6):
        rows.append((Kind.ALLOC, 512, 4096 + 512 * k))
        ooms.append(OutOfMemory(len(rows), 100 + k, "GPU 0", (k + 1) << 30, None, "out of memory"))
    rows += [(Kind.ALLOC, 512, 1 << 19), (Kind.FREE, 512, 1 << 19)]
    log = Log.from_rows(rows, facts=Facts(ooms=tuple(ooms), bytes=1000, lines=200))
    found = get("segments")(log.whole)
    assert isinstance(found, Segments)
    shown, left_failures = moments_of(log.whole, found)
    assert [one.at for one in shown] == ["oom", "oom", "oom", "peak", "end"]
    assert events_of(log.whole, shown).tolist() == [1, 2, 3, 7, 8]
    assert left_failures == 3


def test_rows_of_a_length_that_fits_hold_everything_in_order(node: Callable[..., str]) -> None:
    chance = Random(5)
    made = [
        (
            [
                [chance.randint(1, 4 ** chance.randint(1, 10)) for _ in range(chance.randint(1, 30))]
                for _ in range(groups)
            ],
            chance.randint(1, 20),
        )
        for groups in (chance.randint(1, 5) for _ in range(many(300)))
    ]
    for (groups, most), found in zip(
        made, answer(node, "layout", "inRows", "given.map((one) => inRows(...one))", made), strict=True
    ):
        length, rows, firsts, starts = (found[key] for key in ("length", "rows", "firsts", "starts"))
        assert rows <= max(most, len(groups) + 1)
        bar, end = 0, 0
        for group, first in zip(groups, firsts, strict=True):
            assert starts[bar] == first * length  # each group begins a row
            for size in group:
                assert (
                    end <= starts[bar] < end + 2 * length
                )  # no bar lies over the one before, and no row is left empty
                room = length - starts[bar] % length
                # Only a bar longer than a row is broken, and it begins one.
                assert size <= room or (size > length and room == length)
                end = starts[bar] + size
                bar += 1
        assert end <= rows * length
