"""What is live at moments: the rows add up to the level, and are what a plain account of the log has."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from logs import window_of
from made_lives import plain_blocks, plain_level, plain_levels, random_rows, windows_of_made_logs
from night import many

import memlens
from memlens.analyzers.peak import peak
from memlens.drawing import lifetimes as module
from memlens.drawing.lifetimes import WindowBlocks, moments
from memlens.drawing.page import Owners
from memlens.events import EventLog
from memlens.facts import Kind
from memlens.log import Log
from memlens.windows.windows import Window


def moments_of(window: Window) -> tuple[Any, Owners]:
    owners = Owners(window.log)
    found = moments(window, WindowBlocks(window), owners)
    return found | {"counts": found["counts"].reshape(-1, len(found["event"]))}, owners


def sums(found: Any) -> list[int]:
    total = found["size_bytes"] @ found["counts"] + found["other_bytes"] + found["odd_bytes"]
    return [int(value) for value in total]


@settings(max_examples=many(300))
@given(windows_of_made_logs())
def test_every_moment_of_any_window(window: Window) -> None:
    log = window.log
    found, owners = moments_of(window)
    names = [None if code < 0 else name for code, name in zip(found["owner"], texts(found, owners), strict=True)]
    # So few events are all on the grid.
    assert found["event"].tolist() == list(range(window.lo - 1, window.hi))
    assert (
        found["level_bytes"].tolist() == [plain_level(log, event) for event in found["event"].tolist()] == sums(found)
    )
    if not log.facts.addresses:
        assert not len(found["counts"])
        assert found["other_bytes"].tolist() == found["level_bytes"].tolist()
        return
    blocks = plain_blocks(log)
    for column, event in enumerate(found["event"].tolist()):
        live = Counter(
            (block.size, label(log, block.alloc))
            for block in blocks
            if block.alloc <= event and (block.free is None or block.free > event)
        )
        groups = zip(found["size_bytes"].tolist(), names, found["counts"][:, column].tolist(), strict=True)
        shown = Counter({(size, name): count for size, name, count in groups})
        assert {key: count for key, count in shown.items() if count} == {k: n for k, n in live.items() if k in shown}
        others = {key: count for key, count in live.items() if key not in shown}
        assert int(found["other_counts"][column]) == sum(others.values())
        assert int(found["other_bytes"][column]) == sum(size * count for (size, _), count in others.items())


def texts(found: Any, owners: Owners) -> list[str | None]:
    back = {owners.code_texts([name])[0]: name for name in ("relu", "matmul", "(before the input)")}
    return [back.get(code) for code in found["owner"]]


def label(log: EventLog, event: int) -> str | None:
    return log.owner_of(event) or ("(before the input)" if event < log.facts.opening else None)


def test_a_long_window_has_its_peak_its_edges_and_its_failures_on_the_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = random_rows(Random(5), 5000)
    log, level = Log.from_rows(rows), np.array([level for level, _ in plain_levels(rows)][1:])
    for lo, hi in ((0, 5000), (1200, 4321)):
        found, _ = moments_of(window_of(log, lo, hi))
        assert len(found["event"]) <= 1024
        assert {lo - 1, hi - 1, lo + int(level[lo:hi].argmax())} <= set(found["event"].tolist())
        assert found["level_bytes"][1:].tolist() == level[found["event"][1:]].tolist() == sums(found)[1:]
        assert np.diff(found["event"]).max() <= 2 * -(-(hi - lo) // 1000)
    monkeypatch.setattr(module, "GRID", 16)
    found, _ = moments_of(log.whole)
    # Of each stretch the highest level is there: thirteen of them, for three places are taken.
    edges = [5000 * k // 13 for k in range(14)]
    highest = {a + int(level[a:b].argmax()) for a, b in pairwise(edges)}
    assert len(highest - set(found["event"].tolist())) <= 1  # one where a stretch never rises above what it starts from


REAL = (
    "data/paddle/331_dygraph_cnn.log",
    "data/paddle/05_leak_graph_331.log.gz",
    "data/paddle/05_oom_331.log",
    "data/paddle/09_torn_4procs_unbuffered_331.log.gz",
    "data/torch/snapshots/pre_existing_blocks.pickle",
    "data/torch/snapshots/ring_3000.pickle",
    "data/torch/kineto/cnn_leak.json.gz",
)


@pytest.mark.parametrize("name", REAL)
def test_real_logs_add_up_and_agree_with_what_is_live_at_the_peak(shared: Path, name: str) -> None:
    log = memlens.read(shared / name)
    third = (len(log) - log.facts.opening) // 3 + log.facts.opening
    for window in (log.whole, window_of(log, third, len(log) - 5)):
        found, owners = moments_of(window)
        assert found["level_bytes"].tolist() == sums(found)
        running = np.cumsum(np.where(log.kind == Kind.ALLOC, log.size, np.where(log.kind == Kind.FREE, -log.size, 0)))
        assert found["level_bytes"].tolist() == np.append(running, 0)[found["event"]].tolist()
        said = peak([window])[0]
        column = found["event"].tolist().index(window.lo - 1 if said.event is None else said.event)
        codes = owners.code_texts(group.owner for group in said.live)
        live = {(group.size_bytes, code): group.count for group, code in zip(said.live, codes, strict=True)}
        shown = zip(found["size_bytes"].tolist(), found["owner"], found["counts"][:, column].tolist(), strict=True)
        for size, owner, count in shown:
            assert live.pop((size, owner), 0) == count
        assert sum(live.values()) == int(found["other_counts"][column])
        assert len(found["counts"]) <= 64
