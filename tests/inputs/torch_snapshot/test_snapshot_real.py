"""Real memory snapshots: levels known of them, and what damage does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from night import some
from snapshots import read_file

from memlens.analyzers import get
from memlens.log import Log

#: The keys of ``expected.json`` that are about levels.
LEVELS = (
    "start_allocated",
    "end_allocated",
    "peak_allocated",
    "peak_event",
    "start_reserved",
    "end_reserved",
    "peak_reserved",
)


def figures(log: Log) -> dict[str, int]:
    """What a log says of its levels, under the names of ``expected.json``."""
    (start, start_reserved), (end, end_reserved) = (log.level_before(k) for k in (log.facts.opening, len(log)))
    peak = get("peak")(log.whole)
    event = int(log.offset[peak.event]) if peak.rise_bytes and peak.event is not None else -1
    return dict(
        zip(
            LEVELS,
            (start, end, peak.peak_bytes, event, start_reserved, end_reserved, peak.reserved_peak_bytes),
            strict=True,
        )
    )


def test_real_snapshots_have_the_levels_that_are_known_of_them(shared: Path) -> None:
    expected = json.loads((shared / "data/torch/expected.json").read_text())
    assert len(expected) == 13
    for name, devices in some(expected.items()):
        logs = read_file(shared / "data/torch/snapshots" / name)
        assert [str(log.device) for log in logs] == sorted(devices), name
        for log in logs:
            known = devices[str(log.device)]
            assert figures(log) == {key: known[key] for key in LEVELS}, name
            left, u = get("remaining")(log.whole), get("unmatched")(log.whole)
            assert left.remaining_bytes == known["end_allocated"] - known["start_allocated"]
            assert (left.carried_in_bytes, left.live_bytes) == (known["start_allocated"], known["end_allocated"])
            assert u.held_bytes + u.opening_bytes == known["end_allocated"], name
            assert get("peak")(log.whole).rise_bytes == known["peak_allocated"] - known["start_allocated"]
            assert log.facts.lines == known["events"]
            assert len(log.facts.ooms) == len(known["ooms"])
            assert log.trust.ok, name
            assert log.trust.figures_agreeing == 2
            assert log.owner is None or int(log.owner.max()) < len(log.owner_names)
            assert bool(np.all(np.diff(log.offset) >= 0))
