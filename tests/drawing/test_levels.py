"""The levels of a page against a plain walk over the events: every figure that a reader can point at is the exact one."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_lives import any_events, plain_levels

from memlens.analyzers.series.curve import Curve
from memlens.drawing import levels as module
from memlens.drawing.levels import levels, marks
from memlens.drawing.page import Owners
from memlens.events import Kind
from memlens.facts import Facts, OutOfMemory
from memlens.log import Log
from memlens.windows.windows import Window

Rows = list[tuple[Kind, int, int]]


@pytest.fixture
def few_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buckets of several events, and exact stretches, in small logs."""
    for name, value in (("EXACT", 7), ("BUCKETS", 7), ("AROUND_PEAK", 4), ("AROUND_FAILURE", 2)):
        monkeypatch.setattr(module, name, value)


def log_of(events: Rows, **columns: object) -> Log:
    """A log in which every third event has no owner."""
    owner = np.array([-1 if k % 3 == 0 else k % 2 for k in range(len(events))], np.int32)
    line = np.arange(len(events), dtype=np.int64) * 2 + 1
    return Log.from_rows(events, owner=owner, owner_names=("matmul", "relu"), line=line, **columns)


def drawn(window: Window, owners: Owners) -> tuple[Curve, Any]:
    made = module.curve_of_page(window)
    return made, levels(window, made, owners)


def check(made: Any, log: Log, window: Window, known: list[tuple[int, int]], owners: list[str]) -> None:
    for k, (a, b) in enumerate(pairwise(made["edges"].tolist())):
        inside = {event: known[event + 1][0] for event in ([window.lo - 1] if k == 0 else []) + list(range(a, b))}
        highest = [event for event, level in inside.items() if level == max(inside.values())]
        first = next((event for event in highest if event >= a), window.lo - 1)
        assert made["high_bytes"][k] == inside[first]
        assert made["high_event"][k] == first
        assert made["line"][k] == (0 if first < 0 else 2 * first + 1)
        number = int(made["owner"][k])
        assert (owners[number] if number >= 0 else None) == (None if first < 0 else log.owner_of(first))
    for detail in made["details"]:
        for k, level in enumerate(detail["bytes"].tolist()):
            event = detail["lo"] + k
            assert (level, detail["reserved_bytes"][k]) == known[event + 1]
            assert detail["line"][k] == 2 * event + 1
            number = int(detail["owner"][k])
            assert (owners[number] if number >= 0 else None) == log.owner_of(event)
    spans = [(detail["lo"], detail["lo"] + len(detail["bytes"])) for detail in made["details"]]
    assert all(end < begin for (_, end), (begin, _) in pairwise(spans))


@given(events=any_events, data=st.data())
@pytest.mark.usefixtures("few_buckets")
def test_each_bucket_names_the_event_that_reaches_its_highest_level(events: Rows, data: st.DataObject) -> None:
    places = st.integers(0, len(events))
    lo, hi = sorted(data.draw(st.tuples(places, places)))
    failed = sorted(data.draw(st.lists(places, max_size=3)))
    ooms = tuple(OutOfMemory(at, at, f"GPU {k}", 2**20, None, "") for k, at in enumerate(failed))
    log = log_of(events, facts=Facts(ooms=ooms))
    window = Window(log, "", lo, hi, lo, hi, lo + 1, hi)
    owners = Owners(log)
    curved, made = drawn(window, owners)
    known = plain_levels(events)
    check(made, log, window, known, list(owners._numbers))
    found = marks(window, curved)
    assert len(found) == (hi > lo) + len(curved.failures)
    for mark in found[1:]:
        assert mark["kind"] == "oom"
        assert mark["bytes"] == known[mark["event"] + 1][0]
    if hi - lo > 7:
        exact = {
            event for detail in made["details"] for event in range(detail["lo"], detail["lo"] + len(detail["bytes"]))
        }
        wanted = [curved.peak_event, *curved.failures]
        assert {event for event in wanted if event is not None} <= exact
        assert exact <= set(range(lo, hi))
    else:
        assert not made["details"]


@given(st.lists(st.integers(-1, 2000), min_size=1, max_size=30))
def test_times_at_the_edges_never_step_back(stamps: list[int]) -> None:
    log = Log.from_rows([(Kind.ALLOC, 1, k) for k in range(len(stamps))], time_us=np.array(stamps))
    times = drawn(log.whole, Owners(log))[1]["time_us"]
    known = [stamp for stamp in stamps if stamp >= 0]
    if not known or max(known) == known[0]:  # no time passes
        assert times is None
        return
    assert times is not None
    expected = []
    for k in range(len(stamps)):
        sofar = [stamp for stamp in stamps[: k + 1] if stamp >= 0]
        expected.append(max(sofar) if sofar else known[0])
    assert times.tolist() == [*expected, expected[-1]]
