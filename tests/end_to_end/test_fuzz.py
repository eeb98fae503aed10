"""Damaged logs: no traceback, no hang, and no figure that contradicts the identities."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from night import NIGHT, some
from snapshots import entries_of, pickled, plain_pickle
from texts import mutate, read_packed

from memlens.analyzers import get
from memlens.cli import group
from memlens.errors import AnchorError, MemlensError
from memlens.events import Kind
from memlens.inputs import Reading
from memlens.log import Log
from memlens.options import ReadAs

#: How often one log is damaged; a night has more of them (``rounds``).
ROUNDS = 40 if NIGHT else 16
LOGS = (
    *("paddle/05_oom_331.log", "paddle/09_torn_4procs_unbuffered_331.log.gz", "paddle/10_v10_dygraph_331.log.gz"),
    *("paddle/331_sot_pir_cnnbreaks.log", "rmm/rmm_log.dev0.csv"),
)
SNAPSHOTS = ("forward_fp32", "state_only_2023", "without_frames", "ring_3000")


def check_identities(log: Log) -> int:
    """Check a log and its windows; how many windows there were."""
    try:
        windows = (*log.windows(r"START|STEP|EPOCH|Free [0-9]*[26] bytes"), log.whole)
    except AnchorError:  # none of them is in this piece
        windows = (log.window(), log.whole)
    remaining, peak, stats, unmatched = (
        get(name).many(windows) for name in ("remaining", "peak", "stats", "unmatched")
    )
    for r, p, s, u in zip(remaining, peak, stats, unmatched, strict=True):
        assert r.remaining_bytes == s.alloc_bytes - s.free_bytes
        assert r.remaining_bytes == u.held_bytes - u.released_bytes - u.unknown_free_bytes + u.mismatch_bytes
        assert r.live_bytes == r.carried_in_bytes + r.remaining_bytes
        assert p.rise_bytes >= max(r.remaining_bytes, 0)
        assert p.peak_bytes == r.carried_in_bytes + p.rise_bytes
        assert s.frees <= s.allocs + u.released_frees + u.unknown_frees
    assert sum(r.remaining_bytes for r in remaining[:-1]) == remaining[-1].remaining_bytes
    assert max(p.peak_bytes for p in peak[:-1]) <= peak[-1].peak_bytes
    assert remaining[-1].live_bytes == log.level_before(len(log))[0]
    whole = log.trust
    assert (whole.allocs, whole.frees) == tuple(int((log.kind == kind).sum()) for kind in (Kind.ALLOC, Kind.FREE))
    return len(windows)


@pytest.mark.parametrize("name", LOGS)
def test_damaged_real_logs_give_figures_that_agree_with_each_other(
    shared: Path, rounds: Callable[[int], range], name: str
) -> None:
    text = read_packed(shared / "data" / name)
    chance = random.Random(Path(name).name)
    checked = 0
    for _ in (turns := rounds(ROUNDS)):
        at = chance.randrange(max(len(text) - 80_000, 1))
        damaged = mutate(text[at : at + chance.randrange(1000, 80_000)], chance)
        try:
            (log,) = Reading(how=ReadAs(read_as=name.split("/", maxsplit=1)[0]), times=True, threads=True).read_all(
                io.BytesIO(damaged)
            )
        except MemlensError as error:
            assert error.message
            continue
        checked += check_identities(log.without_cache(source=memory(damaged))) > ("paddle" in name) * 2
    assert checked > len(turns) / 2  # most pieces still hold events and anchors, or nothing was checked


@pytest.mark.parametrize("name", some(SNAPSHOTS, 2))
@pytest.mark.parametrize("form", ["torch", "paddle"])
def test_damaged_real_snapshots_are_read_or_refused(
    shared: Path, rounds: Callable[[int], range], name: str, form: str
) -> None:
    path = shared / f"data/torch/snapshots/{name}.pickle"
    data = path.read_bytes()
    if form == "paddle":
        real = plain_pickle(path)
        traces = [entries_of(trace, form) for trace in real["device_traces"]]
        data = pickled({"segments": real["segments"], "device_traces": traces})
    chance = random.Random(name)
    for turn in rounds(ROUNDS // 4):  # each takes as long as four of a log
        damaged = bytearray(data[: chance.randrange(len(data))] if turn % 3 == 0 else data)
        for _ in range(chance.choice((1, 1, 5, 40)) if turn % 3 else 0):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            logs = Reading(how=ReadAs(read_as="torch-snapshot")).read_all(io.BytesIO(bytes(damaged)))
        except MemlensError as error:
            assert error.hint
            continue
        for log in logs:
            check_identities(log)


def memory(text: bytes) -> object:
    from memory_source import MemorySource

    return MemorySource(text, "damaged.log")


@pytest.mark.parametrize("name", LOGS[:3])
def test_the_command_line_answers_damaged_logs_without_a_traceback(
    shared: Path, rounds: Callable[[int], range], tmp_path: Path, name: str
) -> None:
    text = read_packed(shared / "data" / name)
    chance = random.Random(Path(name).name)
    path = tmp_path / "damaged.log"
    answered = 0
    for _ in (turns := rounds(ROUNDS)):
        at = chance.randrange(max(len(text) - 60_000, 1))
        path.write_bytes(mutate(text[at : at + 60_000], chance))
        form = chance.choice(["table", "json", "csv", "markdown"])
        cut = chance.choice(
            [[], ["--by", "START|STEP"], ["--start", "START BACKWARD"], ["--nth", "2", "--start", "START"]]
        )
        done = CliRunner().invoke(group, ["analyze", str(path), "--format", form, *cut])
        assert done.exit_code in (0, 1), done.output
        if done.exception is not None and not isinstance(done.exception, (MemlensError, SystemExit)):
            raise done.exception
        answered += done.exit_code == 0
        if form == "json" and done.exit_code == 0:
            json.loads(done.stdout)
    assert answered > len(turns) / 4  # a start that does not come, or not twice, is an error
