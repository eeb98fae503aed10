"""Steps are found by themselves, and growth is claimed over them where memory grows and nowhere else."""

from __future__ import annotations

import gc
import gzip
import io
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from made_series import LEAKS, NO_LEAKS, Maker, made

import memlens
from memlens.analyzers.series.trend import judge
from memlens.analyzing.result import LogAnalysis
from memlens.analyzing.verdict import window_label
from memlens.errors import MemlensError
from memlens.events import EventLog
from memlens.windows.windows import BEFORE

ALLOC = "I0712 10:54:00.000000  1120 auto_growth_best_fit_allocator.cc:169] Alloc {} bytes, ptr = 0x{:x}\n"
FREE = "I0712 10:54:00.000000  1120 auto_growth_best_fit_allocator.cc:220] Free {} bytes, ptr = 0x{:x}\n"
NO_STEPS = (ALLOC.format(256, 0x1) + "STEP 0 START\n" + FREE.format(256, 0x1)).encode()


def levels(live: Sequence[int], anchor: str = "STEP {} START\n") -> bytes:
    """A log whose level at the end of each step is what is given: each step takes a block of that size, and gives the last one back."""
    lines, before = [], 0
    for step, level in enumerate(live):
        lines.append(anchor.format(step))
        if level:
            lines.append(ALLOC.format(level, 0x1000 + step))
        if before:
            lines.append(FREE.format(before, 0x1000 + step - 1))
        before = level
    # The last step is open: what it gives back at exit counts for nothing.
    lines += [anchor.format(len(live)), FREE.format(before, 0x1000 + len(live) - 1), ALLOC.format(256, 0x1), FREE.format(256, 0x1)]  # fmt: skip
    return "".join(lines).encode()


def analyzed(text: bytes, **options: object) -> LogAnalysis:
    (log,) = memlens.analyze(io.BytesIO(text), times=False, **options).logs  # type: ignore[arg-type]
    return log


@pytest.mark.parametrize("kind", [*LEAKS, *NO_LEAKS], ids=lambda kind: kind.__name__)
def test_growth_is_claimed_over_steps_where_the_series_grows_and_nowhere_else(kind: Maker) -> None:
    chance = np.random.default_rng([7, *kind.__name__.encode()])
    for windows in (20, 50):
        live = np.maximum(made(kind, chance, windows)[0], 256)
        log = analyzed(levels(live.tolist()))
        assert log.steps is not None
        assert log.growth is not None
        expected = judge(live)
        assert log.growth.verdict == expected.verdict
        assert log.growth.live_bytes == (*live.tolist(), 0)
        assert log.growth.open_end == f"STEP {windows}"
        if expected.since is not None:
            assert log.growth.since == f"STEP {expected.since}"
            assert log.growth.gained_bytes == expected.gained_bytes
        # The same series over epochs is judged, too; over calls of one forward pass, which keep activations, nothing is claimed.
        epochs = analyzed(levels(live.tolist(), "EPOCH {} START\n")).growth
        assert epochs is not None
        assert epochs.verdict == expected.verdict
        parts = analyzed(levels(live.tolist(), "START SOT_CALL_{}\n"))
        assert parts.steps is not None
        assert not parts.steps.repeated
        assert parts.growth is None


def interleaved(train: Sequence[int], each: int, kept: int, evaluation: str = "eval step {}\n") -> bytes:
    """A run whose level at the end of each step is what is given; after every tenth step an evaluation, each step of which keeps so many
    bytes until it is over, and ``kept`` bytes for ever after its first step."""
    lines, before, count, address = [], 0, 0, 0x100000
    for step, level in enumerate(train):
        lines += [f"train step {step}\n", ALLOC.format(level, 0x1000 + step)]
        lines += [FREE.format(before, 0x1000 + step - 1)] if before else []
        before = level
        if step % 10 == 9:
            held = []
            for part in range(each):
                lines += [evaluation.format(count), ALLOC.format(512, address + count)]
                held.append(address + count)
                count += 1
                if part == 0 and kept:
                    lines.append(ALLOC.format(kept, 2 * address + count))
            lines += [FREE.format(512, pointer) for pointer in held]
    return "".join(lines).encode()


def test_growth_is_seen_in_training_where_evaluation_has_more_steps() -> None:
    log = analyzed(interleaved([65536 * (k + 1) for k in range(40)], 30, 0))
    assert log.steps is not None
    assert log.growth is not None
    assert (log.steps.by, log.steps.anchors, log.growth.verdict) == (r"^(train step \d+)", 40, "growing")
    assert log.growth.gained_bytes_per_window == 65536


def test_growth_in_evaluation_is_seen_in_the_steps_of_training() -> None:
    log = analyzed(interleaved([4096] * 120, 5, 1 << 20))  # 1 MiB after every tenth step
    assert log.growth is not None
    assert log.growth.verdict == "growing"


@pytest.mark.parametrize("kind", NO_LEAKS, ids=lambda kind: kind.__name__)
def test_evaluation_between_steps_adds_no_false_alarm(kind: Maker) -> None:
    chance = np.random.default_rng([11, *kind.__name__.encode()])
    for _ in range(5):
        live = np.maximum(made(kind, chance, 50)[0], 256)
        log = analyzed(interleaved(live.tolist(), 12, 0))
        assert log.growth is not None
        assert log.growth.verdict != "growing" or judge(live[:-1]).verdict == "growing"


def test_what_is_read_in_is_no_growth() -> None:
    for line in ("Loading batch {} of checkpoint shards\n", "STEP {} START load shard\n", "read sample {}\n"):
        log = analyzed(levels(range(1000, 30_000, 1000), line))
        assert log.growth is None


@pytest.mark.parametrize(
    ("by", "name", "said"),
    [
        (None, BEFORE, "the part before the first step"),
        (r"STEP (\d+)", BEFORE, "the part before the first window"),
        (r"STEP (\d+) START", "9", "window 9"),
        (r"(STEP \d+) START", "STEP 9", "STEP 9"),
        (r"STEP \d+ START", "STEP 9 START", "STEP 9 START"),
    ],
)
def test_a_sentence_calls_a_window_what_the_table_calls_it(by: str | None, name: str, said: str) -> None:
    assert window_label(by, name) == said


def test_steps_are_the_windows_of_their_expression() -> None:
    text = levels([1000, 2000, 3000, 4000, 5000])
    log = analyzed(text)
    assert log.steps is not None
    assert log.by is None
    (whole,) = log.windows
    assert whole.whole
    cut = analyzed(text, by=log.steps.by)
    assert [window.to_dict(0) for window in log.steps.windows] == [
        {key: value for key, value in window.to_dict(0).items() if key not in ("segments", "stats", "unmatched", "lifetimes")}
        for window in cut.windows
    ]  # fmt: skip
    assert log.growth == cut.growth
    assert log.steps.anchors == 6
    assert [window.name for window in log.steps.windows] == [f"STEP {k}" for k in range(6)]
    assert [window.results["remaining"].remaining_bytes for window in log.steps.windows] == [1000] * 5 + [-5000]
    assert [window.results["peak"].peak_bytes for window in log.steps.windows] == [1000, 3000, 5000, 7000, 9000, 5000]


def test_whole_looks_for_none() -> None:
    text = levels([1000, 2000, 3000, 4000, 5000])
    for log in (analyzed(text, whole=True), analyzed(text, analyzers=["peak"]), analyzed(text, start="STEP 2 START")):
        assert (log.steps, log.growth, log.phases) == (None, None, None)
    only = analyzed(text, analyzers=["growth"])
    assert only.growth is not None
    assert only.growth.verdict == "growing"
    with pytest.raises(memlens.UsageError, match="no lines that count steps"):
        analyzed(NO_STEPS, analyzers=["growth"])


def test_a_pipe_a_packed_log_and_one_that_was_read_have_the_same_steps(tmp_path: Path) -> None:
    text = levels([1000, 2000, 3000, 4000, 5000])
    plain, packed = tmp_path / "run.log", tmp_path / "run.log.gz"
    plain.write_bytes(text)
    packed.write_bytes(gzip.compress(text))
    read = memlens.read(plain, columns=("time_us",))
    logs = [memlens.analyze(given).logs[0] for given in (plain, packed, io.BytesIO(text), read)]
    said = [json.dumps({"steps": log.to_dict()["steps"], "growth": log.to_dict()["growth"]}) for log in logs]
    assert len(set(said)) == 1
    second = json.loads(said[0])["steps"]["windows"][1]
    assert second["peak"].pop("time_us") is not None
    assert second == {
        "name": "STEP 1", "start_line": 3, "end_line": 5, "events": 2, "open_end": False,
        "remaining": {"remaining_bytes": 1000, "carried_in_bytes": 1000, "live_bytes": 2000},
        "peak": {"peak_bytes": 3000, "rise_bytes": 2000, "reserved_peak_bytes": 0, "event": 1, "line": 4},
    }  # fmt: skip


def test_each_of_several_logs_has_its_own(tmp_path: Path) -> None:
    paths = []
    texts = {"leak": levels(range(1000, 30_000, 1000)), "fixed": levels([1000] * 29), "none": NO_STEPS}
    for name, text in texts.items():
        paths.append(tmp_path / f"{name}.log")
        paths[-1].write_bytes(text)
    logs = memlens.analyze(paths).logs
    assert [None if log.growth is None else log.growth.verdict for log in logs] == ["growing", "flat", None]


def test_the_events_of_one_of_several_logs_are_let_go(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(levels(range(1000, 300_000, 1000)))
    analysis = memlens.analyze([path, path], analyzers=["remaining", "growth"])
    gc.collect()
    assert not [one for one in gc.get_objects() if type(one) is EventLog and one.source.name == str(path)]
    (alone,) = memlens.analyze(path).logs
    for log in analysis.logs:
        assert log.steps is not None
        assert alone.steps is not None
        assert log.steps.to_dict() == alone.steps.to_dict()


#: What the README of the data says of each: a real leak, or a batch that grows; all others leak nothing.
GROW = ("05_grow_batch", "05_leak", "20_big", "late_leak", "leak900k")
#: Fewer than four closed windows tell nothing; `(before)` is one of them.
LATE_OR_MIXED = ("procs", "stdout_anchors", "loader_workers")


def test_real_runs_grow_where_they_leak_and_nowhere_else(shared: Path) -> None:
    grown, judged = set(), 0
    data = shared / "data"
    for path in sorted((*(data / "paddle").glob("*log*"), *(data / "traps").glob("*.gz"))):
        try:
            (log,) = memlens.analyze(path, times=False).logs
        except MemlensError:
            continue
        if any(word in path.name for word in LATE_OR_MIXED):
            assert log.steps is None
            continue
        if log.growth is not None and log.growth.judged >= 4:
            judged += 1
            assert log.growth.open_end is not None  # frees at exit are in the open window, which is not judged
            if log.growth.verdict == "growing":
                grown.add(path.name)
    assert judged > 25
    assert {name for name in grown if not name.startswith(GROW)} == set()
    assert len(grown) == 7


@pytest.mark.parametrize(
    ("name", "since", "bytes_a_step"),
    [
        ("paddle/05_leak_activations_331.log.gz", "STEP 1", 512),  # the README: 512 bytes a step
        ("traps/late_leak.log.gz", "STEP 50", 1 << 20),  # 1 MiB a step from the middle of 100
        ("traps/leak900k.log.gz", "STEP 0", 900 << 10),  # 900 KiB each step
    ],
)
def test_known_leaks_have_their_figures(shared: Path, name: str, since: str, bytes_a_step: int) -> None:
    (log,) = memlens.analyze(shared / "data" / name, times=False).logs
    assert log.growth is not None
    assert (log.growth.since, log.growth.gained_bytes_per_window) == (since, bytes_a_step)


def test_a_leak_in_a_trace_is_told_by_the_steps_of_the_profiler(shared: Path) -> None:
    kineto = shared / "data" / "torch" / "kineto"
    for name, leaked in (
        ("cnn_leak.json.gz", 320),
        ("transformer_6l_26steps.json.gz", 1_024_000),
        ("cnn.json.gz", None),
    ):
        (log,) = memlens.analyze(kineto / name, times=False).logs
        assert log.steps is not None
        assert log.steps.by == r"^(ProfilerStep#\d+)"
        assert log.growth is not None
        if leaked is None:
            assert log.growth.verdict != "growing"
        else:
            assert (log.growth.verdict, log.growth.gained_bytes_per_window) == ("growing", leaked)
