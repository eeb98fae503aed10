"""What PyTorch's own allocator did, run without a device: replayed to the byte, and predicted from runs with other settings.

The traces were written by the allocators of PyTorch 2.6, 2.10 and 2.15 (:mod:`torch_allocator.record`).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import zstandard
from msgspec.structs import replace
from night import some
from torch_allocator import snapshot_of, write_snapshot
from torch_allocator.record import RUNS

import memlens
from memlens.allocators.engine import prove, replay
from memlens.allocators.history import ChunkChange, NotReplayable, Operation, RequestHistory
from memlens.allocators.models import Value
from memlens.allocators.placing import Addresses, Placement
from memlens.allocators.torch.caching import CACHING
from memlens.allocators.torch.settings import CONF, whole_values

TRACES = Path(__file__).parent / "traces"
FILES = sorted(TRACES.rglob("*.zst"))
PLACEMENTS = (Placement.RECORDED, Placement.ASCENDING, Placement.DESCENDING, Placement.REUSE, Placement.SHUFFLED)
#: From this version on free blocks of one size serve by the age of their segment.
OLDEST_FIRST = (2, 13)


@cache
def text_of(path: Path) -> str:
    return zstandard.ZstdDecompressor().decompress(path.read_bytes(), 1 << 24).decode()


def history_of(path: Path, folder: Path, *, stacks: bool = True) -> RequestHistory:
    written = write_snapshot(folder / "run.pickle", snapshot_of(text_of(path), stacks=stacks))
    found = CACHING.history(memlens.read(written))
    assert isinstance(found, RequestHistory)
    return found


def values_of(history: RequestHistory, path: Path, conf: str | None = None) -> dict[str, Value]:
    """The settings of a run, or others that it is asked about; with what the device had where they are shares of it."""
    values = dict(CACHING.recorded(history))
    if conf is not None:
        values = {name: value for name, value in values.items() if name == "oldest_segment_first"}
        values |= whole_values({CONF: conf})
    run = RUNS[path.name.split(".")[0]]
    shares = {"per_process_memory_fraction", "garbage_collection_threshold"} & values.keys()
    # Of a run with shares nothing can be found out before what the device has is given.
    return values | ({"device_total_mb": run.total >> 20, "oldest_segment_first": newer(path)} if shares else {})


def newer(path: Path) -> bool:
    return tuple(map(int, path.parent.name.split(".")))[:2] >= OLDEST_FIRST


def entries(path: Path, *actions: str) -> list[list[int]]:
    """Address, size and stream of the entries of these actions."""
    rows = (line.split(" ") for line in text_of(path).splitlines())
    return [[int(field) for field in row[2:5]] for row in rows if row[0] == "T" and row[1] in actions]


def reserved_peak(path: Path) -> int:
    """The most bytes reserved during the trace, by its entries, back from what the segments have at the end."""
    rows = [line.split(" ") for line in text_of(path).splitlines()]
    end = sum(int(row[2]) for row in rows if row[0] == "S")
    signs = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
    changes = [signs[row[1]] * int(row[3]) for row in rows if row[0] == "T" and row[1] in signs]
    levels = np.cumsum([end - sum(changes), *changes])
    return int(levels.max())


@pytest.mark.parametrize("path", some(FILES, 12), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_run_is_replayed_to_the_byte(path: Path, tmp_path: Path) -> None:
    history = history_of(path, tmp_path)
    proof = prove(history, CACHING.rules(history, values_of(history, path)))
    assert proof.exact, proof
    # All of the entries were looked at.
    assert proof.chunks.of == len(entries(path, "segment_alloc", "segment_map"))
    assert proof.given_back.of == len(entries(path, "segment_free", "segment_unmap"))
    assert proof.failures.of == len(entries(path, "oom"))
    allocs = len(entries(path, "alloc"))
    assert proof.addresses.of == allocs + history.opening
    assert history.requests == allocs + history.opening + len(entries(path, "oom"))
    # No mapped page of a range that is given back, and no block, is more than it was.
    expandable = "expandable" in path.stem
    assert set(history.changes.kind.tolist()) <= ({2, 3} if expandable else {0, 1})


def test_all_settings_and_versions_are_among_the_runs() -> None:
    assert {path.parent.name for path in FILES} == {"2.6.0", "2.10.0", "2.15.0"}
    for program, run in RUNS.items():
        for version in ("2.10.0", "2.15.0"):
            assert len(list((TRACES / version).glob(f"{program}.*.zst"))) == len(run.confs)
    failed = [path for path in FILES if entries(path, "oom")]
    assert len(failed) > 10
    assert any("expandable" in path.stem for path in failed)


@pytest.mark.changed("allocators")
@pytest.mark.parametrize("version", some(["2.10.0", "2.6.0", "2.15.0"], 3))
@pytest.mark.parametrize("base", ["default", "expandable_segments=True"])
def test_what_another_setting_does_is_predicted_to_the_byte(version: str, base: str, tmp_path: Path) -> None:
    """From a run that was recorded from its first request on; up to 2.11 within what the addresses of new segments decide."""
    path = TRACES / version / f"training.{base}.zst"
    history = history_of(path, tmp_path)
    assert history.opening == 0
    ranges = []
    for other in sorted((TRACES / version).glob("training.*.zst")):
        conf = other.stem.partition(".")[2].replace("=", ":").replace("default", "")
        rules = CACHING.rules(history, values_of(history, path, conf) | {"oldest_segment_first": newer(path)})
        found = {replay(history, rules, addresses=Addresses(placement)).reserved_peak for placement in PLACEMENTS}
        peak = reserved_peak(other)
        assert min(found) <= peak <= max(found), other
        # Addresses decide nothing where the age of segments does; nor is there more than one segment a pool where they expand.
        if newer(path) or "expandable" in conf:
            assert found == {peak}, other
        else:
            ranges.append(len(found))
    assert newer(path) or max(ranges) > 1


@pytest.mark.changed("allocators")
@pytest.mark.parametrize("version", some(["2.10.0", "2.15.0"], 2))
def test_what_a_smaller_device_does_is_predicted(version: str, tmp_path: Path) -> None:
    """From the run that nothing refused: whether the same program would have failed, at which request, and what would have been reserved."""
    path = TRACES / version / "training.default.zst"
    history = history_of(path, tmp_path)
    outcomes = {}
    for conf in RUNS["training_refused"].confs:
        other = TRACES / version / f"training_refused.{conf.replace(':', '=') or 'default'}.zst"
        rules = CACHING.rules(history, values_of(history, path, conf) | {"oldest_segment_first": newer(path)})
        found = replay(history, rules, limit=RUNS["training_refused"].total)
        failed = [line.split(" ") for line in text_of(other).splitlines() if line.startswith("F ")]
        outcomes[conf] = found.completed
        assert found.completed == (not failed)
        if failed:  # the program numbers requests by its lines, from 1
            requests = np.flatnonzero(history.operation == Operation.REQUEST)
            asked = int(np.flatnonzero(requests == found.failed)[0])
            lines = [line.split(" ") for line in RUNS["training"].lines if line.startswith("a ")]
            assert lines[asked][1] == failed[0][1]
            assert int(history.size[found.failed]) == int(lines[asked][2])
        else:
            assert found.reserved_peak == reserved_peak(other)
    assert outcomes == {"": False, "expandable_segments:True": True, "max_split_size_mb:32": False}


@pytest.mark.changed("allocators")
@pytest.mark.parametrize("version", some(["2.10.0", "2.15.0"], 2))
def test_a_retry_comes_out_for_every_limit_that_explains_it(version: str, tmp_path: Path) -> None:
    """The device refused a segment until others were given back: so it does for each limit from the most that was reserved to what was refused."""
    path = TRACES / version / "training_retried.default.zst"
    history = history_of(path, tmp_path)
    rules = CACHING.rules(history, CACHING.recorded(history))
    most = reserved_peak(path)
    assert history.limit_bytes == most
    changes = history.changes
    signed = np.where(changes.kind == ChunkChange.TAKEN, changes.size, -changes.size)
    level = np.append(0, np.cumsum(signed))
    refused = []
    for at in np.unique(changes.at[changes.kind == ChunkChange.GIVEN_BACK]).tolist():
        rows = np.flatnonzero(changes.at == at)
        assert history.operation[at] == Operation.REQUEST, "the program empties no cache"
        refused.append(int(level[rows[0]] + changes.size[rows[-1]]))
    assert refused
    assert most <= RUNS["training_retried"].total < min(refused)
    for limit in (most, RUNS["training_retried"].total, min(refused) - 1):
        assert prove(replace(history, limit_bytes=limit), rules).exact
    for limit in (most - 1, min(refused)):
        assert not prove(replace(history, limit_bytes=limit), rules).exact


@pytest.mark.changed("allocators")
@pytest.mark.parametrize("name", ["default", "expandable_segments=True"])
def test_the_moment_of_a_failure_follows_from_what_the_device_had_left(name: str, tmp_path: Path) -> None:
    path = TRACES / "2.15.0" / f"mixed_refused.{name}.zst"
    history = history_of(path, tmp_path)
    assert history.limit_bytes == RUNS["mixed_refused"].total
    assert len(history.failed) == len(entries(path, "oom")) > 0
    got = replay(history, CACHING.rules(history, CACHING.recorded(history)), limit=history.limit_bytes)
    assert got.failed == int(history.failed[0])


def test_segments_that_an_emptied_cache_gave_back_are_asked_back_of_every_setting(tmp_path: Path) -> None:
    """Told by the call stack, or where there is none by what follows."""
    path = TRACES / "2.15.0" / "mixed_late.default.zst"
    lines = RUNS["mixed_late"].lines
    emptied = lines[lines.index("h") :].count("e")
    for stacks in (True, False):
        history = history_of(path, tmp_path, stacks=stacks)
        trims = np.flatnonzero(history.operation == Operation.TRIM)
        assert 0 < len(trims) <= emptied, "one that gives nothing back leaves no entry"
        given_back = history.changes.kind == ChunkChange.GIVEN_BACK
        assert set(history.changes.at[given_back].tolist()) == set(trims.tolist())


def test_a_block_that_waits_for_another_stream_serves_only_when_it_is_done(tmp_path: Path) -> None:
    path = TRACES / "2.15.0" / "mixed_late.default.zst"
    rows = [line.split(" ")[1:3] for line in text_of(path).splitlines() if line.startswith("T ")]
    requested = {addr: at for at, (action, addr) in enumerate(rows) if action == "free_requested"}
    late = [
        at for at, (action, addr) in enumerate(rows) if action == "free_completed" and at - requested.get(addr, at) > 1
    ]
    assert late, "the program has such"
    history = history_of(path, tmp_path)
    frees = np.flatnonzero(history.operation == Operation.FREE)
    log = memlens.read(tmp_path / "run.pickle")
    # As many frees as are completed; each not before its FREE of the log, and some of them later than requests that followed it.
    assert len(frees) == len(entries(path, "free_completed"))
    before = history.event[: frees[-1]].max()
    overtaken = [at for at in frees.tolist() if (history.event[:at] > history.event[at]).any()]
    assert overtaken
    assert before < len(log)


def test_what_is_no_snapshot_with_a_trace_says_why(tmp_path: Path) -> None:
    snapshot = snapshot_of(text_of(TRACES / "2.15.0" / "training_refused.default.zst"))
    state = write_snapshot(tmp_path / "state.pickle", {**snapshot, "device_traces": [[]]})
    found = CACHING.history(memlens.read(state))
    assert isinstance(found, NotReplayable)
    assert "trace" in found.reason
    assert "_record_memory_history" in found.hint
    # Entries that cannot be: an allocation of what is allocated, and one that cannot be read.
    trace = snapshot["device_traces"][0]
    alloc = next(entry for entry in trace if entry["action"] == "alloc")
    for broken in ([{**alloc}, *trace], [{**alloc, "size": "many"}, *trace]):
        found = CACHING.history(
            memlens.read(write_snapshot(tmp_path / "x.pickle", {**snapshot, "device_traces": [broken]}))
        )
        assert isinstance(found, NotReplayable), found


def test_segments_of_both_kinds_at_once_are_not_replayed(tmp_path: Path) -> None:
    snapshot = snapshot_of(text_of(TRACES / "2.15.0" / "mixed_late.default.zst"))
    snapshot["segments"][0]["is_expandable"] = True
    found = CACHING.history(memlens.read(write_snapshot(tmp_path / "x.pickle", snapshot)))
    assert isinstance(found, NotReplayable)
    assert "expandable" in found.reason
