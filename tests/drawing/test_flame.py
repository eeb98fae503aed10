"""What is live at the peak: the leaves and what is no block's add up to the peak, and are those of the analyzer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from real_logs import FOLDERS, real_logs
from unpacked import unpacked

from memlens.analyzers import get
from memlens.analyzers.peak import Peak
from memlens.drawing.page import Owners
from memlens.drawing.report import flame_view
from memlens.events import Kind
from memlens.log import Log


def flame_of(log: Log, owners: Owners | None = None) -> Any:
    found = get("peak")(log.whole)
    assert isinstance(found, Peak)
    return unpacked(flame_view(found, owners or Owners(log)))


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_flame_graph_of_every_real_log_is_what_the_analyzer_finds_live_at_its_peak(
    shared: Path, folder: str
) -> None:
    for path, log in real_logs(shared / folder):
        owners = Owners(log)
        shown = flame_of(log, owners)
        found = get("peak")(log.whole)
        groups = zip(shown["size_bytes"], shown["blocks"], shown["owners"], strict=True)
        codes = owners.code_texts(group.owner for group in found.live).tolist()
        assert (
            list(groups)
            == [(one.size_bytes, one.count, code) for one, code in zip(found.live, codes, strict=True)][:1500]
        )
        totals = [size * blocks for size, blocks in zip(shown["size_bytes"], shown["blocks"], strict=True)]
        assert shown["peak_bytes"] == found.peak_bytes == sum(totals) + shown["left"]["bytes"] + shown["other_bytes"], (
            path
        )
        if (
            not (log.trust.double_allocs or log.trust.unknown_frees or log.trust.size_mismatches)
            and log.facts.addresses
        ):
            assert (shown["other_bytes"], shown["left"]["groups"]) == (0, 0), path


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
