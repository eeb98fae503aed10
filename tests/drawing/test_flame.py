"""What is live at the peak: the leaves and what is no block's add up to the peak, and are the blocks of a plain walk over the events."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from real_logs import FOLDERS, real_logs
from unpacked import unpacked

from memlens.analyzers import get
from memlens.analyzers.peak import Peak
from memlens.drawing.packing import Owners
from memlens.drawing.tables import flame_view
from memlens.events import Kind
from memlens.log import Log


def flame_of(log: Log, owners: Owners | None = None) -> Any:
    found = get("peak")(log.whole)
    assert isinstance(found, Peak)
    return unpacked(flame_view(found, owners or Owners(log)))


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_flame_graph_of_every_real_log_is_what_a_walk_over_its_events_finds_live_at_its_peak(
    shared: Path, folder: str
) -> None:
    for path, log in real_logs(shared / folder):
        owners = Owners(log)
        shown = flame_of(log, owners)
        levels, peak, at, level = [], 0, -1, 0
        for event, (kind, size) in enumerate(zip(log.kind.tolist(), log.size.tolist(), strict=True)):
            level += {Kind.ALLOC: size, Kind.FREE: -size}.get(kind, 0)
            levels.append(level)
            if event == log.facts.opening - 1:
                peak = level  # what is live before the first event
            elif event >= log.facts.opening and level > peak:
                peak, at = level, event
        stop = log.facts.opening if at < 0 else at + 1
        live: dict[int, int] = {}
        for event, (kind, addr) in enumerate(zip(log.kind[:stop].tolist(), log.addr[:stop].tolist(), strict=True)):
            if kind == Kind.ALLOC:
                assert addr not in live or log.trust.double_allocs or not log.facts.addresses
                live[addr] = event
            elif kind == Kind.FREE:
                live.pop(addr, None)
        groups = zip(shown["size_bytes"], shown["blocks"], shown["owners"], strict=True)
        totals = [size * blocks for size, blocks, _ in groups]
        assert shown["peak_bytes"] == peak, path
        assert sum(totals) + shown["left"]["bytes"] + shown["other_bytes"] == peak, path
        if log.trust.double_allocs or not log.facts.addresses:
            continue
        events = np.array(list(live.values()), np.int64)
        expected = Counter(zip(log.size[events].tolist(), owners.code(events).tolist(), strict=True))
        assert shown["left"]["groups"] == 0, path
        assert {(s, o): n for s, n, o in zip(shown["size_bytes"], shown["blocks"], shown["owners"], strict=True)} == expected  # fmt: skip
        if not log.trust.unknown_frees and not log.trust.size_mismatches:
            assert shown["other_bytes"] == 0, path


def test_what_the_log_frees_and_never_allocated_is_no_blocks() -> None:
    # 30 bytes of a block from before the log are freed: the level is 30 lower than what is live.
    rows = [(Kind.FREE, 30, 8), (Kind.ALLOC, 100, 16), (Kind.ALLOC, 100, 32), (Kind.FREE, 100, 16)]
    found = flame_of(Log.from_rows(rows))
    assert (found["peak_bytes"], found["other_bytes"], found["event"]) == (170, -30, 2)
    assert (found["size_bytes"], found["blocks"]) == ([100], [2])


def test_of_many_groups_the_smallest_are_counted() -> None:
    sizes = list(range(1, 2001))
    log = Log.from_rows([(Kind.ALLOC, size, 16 * size) for size in sizes])
    found = flame_of(log)
    assert found["size_bytes"] == sizes[:499:-1]
    assert found["left"] == {"groups": 500, "blocks": 500, "bytes": sum(sizes[:500])}
