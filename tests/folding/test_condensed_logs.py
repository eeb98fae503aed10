"""A log of which only the events are kept that a result needs says what all its events say."""

from __future__ import annotations

import gzip
import io
import logging
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from made_logs import made_log
from night import many, some

import memlens
from memlens import MemlensError
from memlens.analyzers import registry
from memlens.folding import condenser
from memlens.inputs import Reading, blocks, condensing
from memlens.log import Log
from memlens.options import Analyze

STEP = "START STEP_%d"
#: Bytes that an event takes by the option ``memory``.
OF_EVENT = 128
#: Figures that the framework printed, a line for each event: they are not held against ours where not all events are kept.
NOT_COMPARED = {"figures_agreeing", "figures_checked", "notes"}
CUTS: tuple[dict[str, Any], ...] = (
    {},
    {"by": r"START STEP_\d+"},
    {"start_regex": r"START STEP_\d+", "nth": 2, "end": ["START BACKWARD"]},
    {"whole": True, "times": False},
)


@contextmanager
def small_blocks(size: int) -> Iterator[None]:
    """Text comes in blocks of so many bytes, and no first events are kept whole: events are dropped after every block."""
    with mock.patch.object(blocks, "BLOCK_BYTES", size), mock.patch.object(condenser, "FIRST_EVENTS", 0):
        yield


def said(log: Any, memory: int, **options: Any) -> dict[str, Any]:
    found = memlens.analyze(log, event_memory=memory, top=None, **options).to_dict()
    for one in found["logs"]:
        one.pop("remedy", None)  # a run of which not all events are kept is not replayed
    return found


def condensed(path: Any, events: int, **options: Any) -> Log:
    how = Analyze(**options)
    (log,) = Reading(how.patterns, how=how, landmarks=True, most_events=events).read_all(path)
    return log


@pytest.mark.parametrize("seed", range(many(16)))
def test_made_logs(seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"condensed {seed}")
    path = tmp_path / "made.log"
    path.write_text(made_log(rng, rng.choice([50, 400, 1500])))
    for cut in CUTS:
        events, size = rng.choice([1, 5, 30, 100]), rng.choice([300, 1000, 4000])
        with small_blocks(size):  # where a message and its traceback lie in two blocks depends on them
            try:
                whole = said(path, 0, **cut)
            except MemlensError as error:
                with pytest.raises(type(error)) as refused:
                    said(path, events * OF_EVENT, **cut)
                assert str(refused.value) == str(error)
                continue
            assert said(path, events * OF_EVENT, **cut) == whole, (cut, events, size)


@pytest.mark.parametrize("seed", some(range(4)))
def test_runs_compared_and_judged(seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"judged {seed}")
    base, head = tmp_path / "base.log", tmp_path / "head.log"
    for path in (base, head):
        path.write_text(made_log(rng, 1500))

    def compared(memory: int) -> Any:
        runs = [
            memlens.compare([base, head], by=cut, event_memory=memory, jobs=1).to_dict() for cut in (None, r"STEP_\d+")
        ]
        kept = tmp_path / "kept.json"
        memlens.accept(base, kept, event_memory=memory, trust=False)
        judged = [
            memlens.gate(
                head,
                base=base,
                limits=["reserved=0", "growth=0"],
                budgets=["peak=1MiB"],
                event_memory=memory,
                trust=False,
            ),
            memlens.gate(head, baseline=kept, event_memory=memory, trust=False),
        ]
        return runs, kept.read_bytes(), [one.to_dict() for one in judged]

    with small_blocks(1000):
        assert compared(20 * OF_EVENT) == compared(0)


def test_the_verdict_on_a_condensed_log_is_that_on_all_its_events(tmp_path: Path) -> None:
    paths = {name: of_steps(tmp_path / f"{name}.log", held) for name, held in (("base", 4096), ("head", 8192))}
    by, verdicts = r"START (STEP_\d+)", []
    for memory in (0, 20 * OF_EVENT):
        kept = tmp_path / f"{memory}.json"
        with small_blocks(1000):
            memlens.accept(paths["base"], kept, by=by, event_memory=memory)
            for name, limits in (("base", []), ("head", []), ("head", ["remaining=0", "growth=0"])):
                found = memlens.gate(paths[name], baseline=kept, limits=limits, event_memory=memory, trust=False)
                verdicts.append({**found.to_dict(), "base": None})
    assert verdicts[:3] == verdicts[3:]
    assert [one["verdict"] for one in verdicts[:3]] == ["pass", "pass", "regression"]
    assert (tmp_path / "0.json").read_bytes() == (tmp_path / f"{20 * OF_EVENT}.json").read_bytes()


def of_steps(path: Path, held: int) -> Path:
    """A log of 40 steps with blocks that come and go, each of which leaves some bytes."""
    stamp, lines = "I0710 10:00:00.000000   100 auto_growth_best_fit_allocator.cc:", []
    for step in range(40):
        lines += [STEP % step, f"{stamp}117] Alloc {held} bytes, ptr = {0x7F0000000000 + step * held:#x}"]
        lines += [f"{stamp}117] Alloc 512 bytes, ptr = 0x1000", f"{stamp}177] Free 512 bytes, ptr = 0x1000"] * 20
    path.write_text("\n".join(lines) + "\n")
    return path


def test_what_can_be_read_only_once_is_not_read_again_for_the_blame(tmp_path: Path) -> None:
    base, head = of_steps(tmp_path / "base.log", 1024), of_steps(tmp_path / "head.log", 1 << 20)
    with small_blocks(1000):
        verdict = memlens.gate(io.BytesIO(head.read_bytes()), base=base, by=r"STEP_\d+", event_memory=20 * OF_EVENT)
        assert (verdict.verdict, verdict.blame) == ("regression", ())
        assert any("can be read only once (--event-memory 0 keeps all)" in note for note in verdict.notes)
        # What fits is all there: only the log that is a file is read again.
        short = io.BytesIO(b"".join(of_steps(tmp_path / "large.log", 1 << 22).read_bytes().splitlines(True)[:10]))
        verdict = memlens.gate(short, base=base, event_memory=20 * OF_EVENT, trust=False)
        assert verdict.verdict == "regression"
        assert verdict.blame


def test_a_log_that_was_written_to_is_not_blamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from memlens.gating import figures, run

    base, head = of_steps(tmp_path / "base.log", 1024), of_steps(tmp_path / "head.log", 1 << 20)
    read = figures.read_runs

    def read_runs(*given: Any, **how: Any) -> Any:
        found = read(*given, **how)
        of_steps(head, 1 << 21)
        return found

    monkeypatch.setattr(run, "read_runs", read_runs)
    with small_blocks(1000):
        verdict = memlens.gate(head, base=base, event_memory=20 * OF_EVENT)
    assert (verdict.verdict, verdict.blame) == ("regression", ())
    assert any("no blame: " in note and "was written to" in note for note in verdict.notes)


@pytest.mark.parametrize("part", some(range(4)))
@pytest.mark.parametrize("cut", [{}, {"by": r"(?i)(step|SOT_CALL)[ _]\d+"}])
def test_real_logs(part: int, cut: dict[str, Any], shared: Path) -> None:
    paths = [
        path
        for folder in ("paddle", "rmm", "traps")
        for path in sorted((shared / "data" / folder).iterdir())
        if path.is_file() and path.stat().st_size < 1 << 20 and not path.name.endswith((".json", ".md"))
    ]
    checked = dropped = 0
    for path in paths[part::4]:
        try:
            whole = said(path, 0, **cut)
        except MemlensError:
            continue
        with small_blocks(1 << 15):
            found = said(path, 50 * OF_EVENT, **cut)
            log = condensed(path, 50, **cut)
        for one, other in zip(whole["logs"], found["logs"], strict=True):
            if any(note["code"] == "stat_lines" for note in other["trust"]["notes"]):
                for name in NOT_COMPARED:
                    one["trust"][name] = other["trust"][name]
        assert found == whole, path.name
        checked += 1
        dropped += len(log) < log.events
    assert checked > 7
    assert dropped > 0


def test_of_so_many_windows_not_all_details_are_kept(tmp_path: Path) -> None:
    rng = random.Random(11)
    path = tmp_path / "made.log"
    text = made_log(rng, 2500)
    while not 40 < text.count("START STEP_") < 80:  # which have 40 events each
        text = made_log(rng, 2500)
    path.write_text(text)
    by = r"START STEP_\d+"
    whole = memlens.analyze(path, by=by, event_memory=0).logs[0]
    with small_blocks(2000), mock.patch.object(condenser, "_MOST_AT_PEAKS", 20):
        log = memlens.analyze(path, by=by, event_memory=100 * OF_EVENT).logs[0]
    known = [bool(window.results["peak"].live) for window in log.windows]
    assert 0 < known.count(True) < len(known)
    highest = max(log.windows, key=lambda window: window.results["peak"].peak_bytes)
    assert highest.results["peak"].live
    for one, other in zip(log.windows, whole.windows, strict=True):  # all of it, or nothing
        assert one.results["peak"].live in ((), other.results["peak"].live)
        assert one.results["stats"].to_dict() == other.results["stats"].to_dict()
    assert any("live at the peak" in remark for remark in log.remarks)
    with small_blocks(2000), mock.patch.object(condenser, "_MOST_WITH_LIVES", 5):
        log = memlens.analyze(path, by=by, event_memory=100 * OF_EVENT).logs[0]
    assert not any(window.results["lifetimes"].longest for window in log.windows)
    assert any("live longest" in remark for remark in log.remarks)
    with small_blocks(2000), mock.patch.object(condenser, "_MOST_WITH_LIVES", 5):  # who lists none misses none
        few = memlens.analyze(path, by=by, event_memory=100 * OF_EVENT, analyzers=["peak"]).logs[0]
        short = memlens.analyze(path, by=by, event_memory=100 * OF_EVENT, top=0).logs[0]
    for log in (few, short, whole):
        assert not any("live longest" in remark for remark in log.remarks)


def test_of_so_many_lines_those_are_kept_that_count_the_steps(tmp_path: Path) -> None:
    rng = random.Random(3)
    text = made_log(rng, 3000)
    while text.count("START STEP_") < 200 or "START BACKWARD" not in text:
        text = made_log(rng, 3000)
    path = tmp_path / "made.log"
    path.write_text(text)
    whole = memlens.analyze(path, event_memory=0).logs[0]
    assert whole.steps is not None
    assert whole.growth is not None
    count = text.count("START STEP_")
    with small_blocks(4000), mock.patch.object(condensing, "_MOST_LANDMARKS", count + 1):
        log = memlens.analyze(path, event_memory=100 * OF_EVENT).logs[0]
    assert log.steps is not None
    assert log.growth is not None
    assert [window.to_dict(0) for window in log.steps.windows] == [window.to_dict(0) for window in whole.steps.windows]
    assert log.growth.live_bytes == whole.growth.live_bytes
    assert log.phases is None
    with small_blocks(4000), mock.patch.object(condensing, "_MOST_LANDMARKS", count // 2):
        log = memlens.analyze(path, event_memory=100 * OF_EVENT).logs[0]
    assert log.steps is None
    assert any("Too many lines may mark steps" in remark for remark in log.remarks)
    assert log.windows[0].to_dict() == whole.windows[0].to_dict()


def test_an_analyzer_of_another_package_gets_all_events_and_says_what_they_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Found:
        def __init__(self, events: int) -> None:
            self.events = events

        def to_dict(self) -> dict[str, int]:
            return {"events": self.events}

    def count(window: Any) -> Found:
        return Found(int((window.log.kind == 0).sum()))

    point = metadata.EntryPoint("count", "elsewhere:count", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda _: [point])
    monkeypatch.setattr(metadata.EntryPoint, "load", lambda _: count)
    text = made_log(random.Random(5), 2000)
    path = tmp_path / "made.log"
    path.write_text(text)
    allocs = text.count("] Alloc ")
    with small_blocks(2000), mock.patch("memlens.inputs.builder._MOST_EVENTS", 500), caplog.at_level(logging.WARNING):
        found = memlens.analyze(path, analyzers=["count"], event_memory=100 * OF_EVENT).logs[0]
    assert found.windows[0].results["count"].events == allocs
    assert "the analyzer 'count' needs all events (about " in caplog.text
    count.condensed = True  # type: ignore[attr-defined]
    caplog.clear()
    with small_blocks(2000), mock.patch("memlens.inputs.builder._MOST_EVENTS", 500), caplog.at_level(logging.WARNING):
        found = memlens.analyze(path, analyzers=["count"], event_memory=100 * OF_EVENT).logs[0]
    assert found.windows[0].results["count"].events < allocs
    assert not caplog.text


def test_statistics_of_the_first_events_are_held_against_ours(shared: Path, tmp_path: Path) -> None:
    with gzip.open(shared / "data/paddle/10_v10_dygraph_331.log.gz") as file:
        text = file.read()
    pattern = rb"(StatAllocated0: Update current_value with -?[0-9]+, after update, current value = )([0-9]+)"
    sound, wrong = tmp_path / "sound.log", tmp_path / "wrong.log"
    sound.write_bytes(text)
    lines = list(re.finditer(pattern, text))
    spoiled = lines[20]
    wrong.write_bytes(text[: spoiled.start(2)] + b"%d" % (int(spoiled[2]) + 256) + text[spoiled.end(2) :])
    with mock.patch.object(blocks, "BLOCK_BYTES", 1 << 15), mock.patch.object(condenser, "FIRST_EVENTS", 100):
        checked = {}
        for path in (sound, wrong):
            (log,) = memlens.analyze(path, event_memory=50 * OF_EVENT).logs
            checked[path] = log.trust
    assert checked[sound].ok
    assert 40 < checked[sound].figures_checked < len(lines)
    assert any(note.code == "stat_lines" for note in checked[sound].notes)
    assert "figures_disagree" in checked[wrong].doubt_codes
