"""A log of which only the events are kept that a result needs says what all its events say."""

from __future__ import annotations

import gzip
import io
import logging
import os
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

import memlens
from memlens import MemlensError
from memlens.analyzers import registry
from memlens.events import EventLog
from memlens.folding import condenser
from memlens.gating.figures import near
from memlens.inputs import Reading, blocks, condensing
from memlens.options import Analyze, Cut
from memlens.windows.windows import edges_of

STEP = "START STEP_%d"
EVENT = re.compile(r"^.*\] (Alloc|Free) (\d+) bytes, ptr = 0x", re.MULTILINE)
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
    found = memlens.analyze(log, memory=memory, top=None, **options).to_dict()
    for one in found["logs"]:
        one.pop("remedy", None)  # a run of which not all events are kept is not replayed
    return found


def condensed(path: Any, events: int, **options: Any) -> EventLog:
    how = Analyze(**options)
    (log,) = Reading(how.patterns, how=how, landmarks=True, most_events=events).read_all(path)
    return log


@pytest.mark.parametrize("seed", range(12 * int(os.environ.get("MEMLENS_ROUNDS", "1"))))
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


@pytest.mark.parametrize("seed", range(4))
def test_runs_compared_and_judged(seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"judged {seed}")
    base, head = tmp_path / "base.log", tmp_path / "head.log"
    for path in (base, head):
        path.write_text(made_log(rng, 1500))

    def compared(memory: int) -> Any:
        runs = [memlens.compare([base, head], by=cut, memory=memory, jobs=1).to_dict() for cut in (None, r"STEP_\d+")]
        kept = tmp_path / "kept.json"
        memlens.accept(base, kept, memory=memory, trust=False)
        judged = [
            memlens.gate(
                head,
                base_log=base,
                limits=["reserved=0", "growth=0"],
                budgets=["peak=1MiB"],
                memory=memory,
                trust=False,
            ),
            memlens.gate(head, baseline=kept, memory=memory, trust=False),
        ]
        return runs, kept.read_bytes(), [one.to_dict() for one in judged]

    with small_blocks(1000):
        assert compared(20 * OF_EVENT) == compared(0)


@pytest.mark.parametrize("seed", range(4))
def test_the_events_next_to_anchors_are_known_without_being_kept(seed: int, tmp_path: Path) -> None:
    rng, text = random.Random(f"near {seed}"), ""
    path = tmp_path / "made.log"
    while "START STEP_" not in text or "START BACKWARD" not in text:
        text = made_log(rng, 1500)
    path.write_text(text)
    for cut in (Cut(by=r"STEP_\d+"), Cut(by=r"STEP_\d+", end=("START BACKWARD",)), Cut(start="START BACKWARD"), Cut()):
        kept = cut.windows(Reading(cut.patterns).read(path))
        with small_blocks(rng.choice([300, 1000, 4000])):
            log = Reading(cut.patterns, most_events=rng.choice([1, 20, 100]), near_cuts=True).read(path)
        assert log.condensed is not None
        known = near(cut.windows(log))
        assert known == near(kept)
        assert any(map(any, known[0]))
        # … and by the lines themselves.
        events = [(match.start(), int(match[2]) * (1 if match[1] == "Alloc" else -1)) for match in EVENT.finditer(text)]
        for at, found in zip(edges_of(kept, "start_offset").tolist(), known[0], strict=True):
            before, after = (
                [size for place, size in events if (place < at) == is_before] for is_before in (True, False)
            )
            assert found == (*[0] * (2 - len(before[-2:])), *before[-2:], *after[:2], *[0] * (2 - len(after[:2])))


def test_the_verdict_on_a_condensed_log_is_that_on_all_its_events(tmp_path: Path) -> None:
    paths = {name: of_steps(tmp_path / f"{name}.log", held) for name, held in (("base", 4096), ("head", 8192))}
    by, verdicts = r"START (STEP_\d+)", []
    for memory in (0, 20 * OF_EVENT):
        kept = tmp_path / f"{memory}.json"
        with small_blocks(1000):
            memlens.accept(paths["base"], kept, by=by, memory=memory)
            for name, limits in (("base", []), ("head", []), ("head", ["remaining=0", "growth=0"])):
                found = memlens.gate(paths[name], baseline=kept, limits=limits, memory=memory, trust=False)
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
        verdict = memlens.gate(io.BytesIO(head.read_bytes()), base_log=base, by=r"STEP_\d+", memory=20 * OF_EVENT)
        assert (verdict.verdict, verdict.blame) == ("regression", ())
        assert any("can be read only once (--memory 0 keeps all)" in note for note in verdict.notes)
        # What fits is all there: only the log that is a file is read again.
        short = io.BytesIO(b"".join(of_steps(tmp_path / "large.log", 1 << 22).read_bytes().splitlines(True)[:10]))
        verdict = memlens.gate(short, base_log=base, memory=20 * OF_EVENT, trust=False)
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
        verdict = memlens.gate(head, base_log=base, memory=20 * OF_EVENT)
    assert (verdict.verdict, verdict.blame) == ("regression", ())
    assert any("no blame: " in note and "was written to" in note for note in verdict.notes)


def test_verbose_says_how_many_events_there_are_and_how_many_are_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("xxhash", reason="sums up what is kept")
    path = of_steps(tmp_path / "run.log", 1024)
    caplog.set_level(logging.INFO, "memlens")
    with small_blocks(1000):
        for _ in range(2):
            memlens.analyze(path, memory=20 * OF_EVENT, cache=tmp_path / "c")
    read, taken = (record.getMessage() for record in caplog.records if " events" in record.getMessage())
    assert re.search(r" 1,640 events \([0-9,]+ of them kept\), read in ", read)
    assert " 1,640 events, kept in " in taken  # 40 steps of one block that stays and 20 that come and go


@pytest.mark.parametrize("part", range(4))
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


def test_blocks_that_come_and_go_are_dropped(tmp_path: Path) -> None:
    lines, stamp = [], "I0710 10:00:00.000000   100 auto_growth_best_fit_allocator.cc:"
    for number in range(30_000):
        lines += [f"{stamp}117] Alloc {256 + number % 7 * 256} bytes, ptr = 0x{number % 3 + 1}00000"]
        lines += [f"{stamp}177] Free {256 + number % 7 * 256} bytes, ptr = 0x{number % 3 + 1}00000"]
        if number % 100 == 0:
            lines += [f"{stamp}117] Alloc 512 bytes, ptr = {0x7F0000000000 + number * 4096:#x}"]
    path = tmp_path / "churn.log"
    path.write_text("\n".join(lines) + "\n")
    with small_blocks(1 << 14):
        log = condensed(path, 1000)
    assert log.events == 60_300
    # 300 that stay, two hundred long-lived or costly pairs, and what came since it was looked at last.
    assert 300 <= len(log) <= 300 + 2 * 200 + 2 * 1000 + 200
    assert said(log, 0)["logs"][0]["windows"][0]["remaining"]["live_bytes"] == 300 * 512


def test_a_pipe_and_a_format_of_a_user(tmp_path: Path) -> None:
    text = made_log(random.Random(7), 1500)
    formats = tmp_path / "formats.toml"
    formats.write_text(
        '[[format]]\nname = "mine"\nliteral = " bytes, ptr = "\nalloc = ["Alloc"]\nfree = ["Free"]\n'
        "regex = '(?P<kind>Alloc|Free) (?P<size>[0-9]+) bytes, ptr = (?P<addr>0x[0-9a-f]+)'\n"
        'samples = ["Alloc 1 bytes, ptr = 0x1"]\n'
    )
    mine = {"input_format": "mine", "formats": formats}
    for how in ({}, mine):
        with small_blocks(4000):
            whole, some = (said(io.BytesIO(text.encode()), memory, **how) for memory in (0, 100 * OF_EVENT))
        assert some == whole
    (tmp_path / "made.log").write_text(text)
    with small_blocks(4000):
        log = condensed(tmp_path / "made.log", 100, **mine)
    assert len(log) < log.events == text.count("] Alloc ") + text.count("] Free ") - text.count("] Free xx")


@pytest.mark.parametrize("seed", range(3))
def test_a_condensed_log_is_kept_in_a_cache(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "made.log"
    path.write_text(made_log(random.Random(f"kept {seed}"), 1500))
    memory, kept = 50 * OF_EVENT, tmp_path / "cache"
    with small_blocks(2000):
        for cut in CUTS[:2]:
            whole = said(path, memory, **cut)
            assert said(path, memory, cache=kept, **cut) == whole
            with mock.patch("memlens.inputs.paddle.reader.PaddleReader.add", side_effect=AssertionError("it is read")):
                assert said(path, memory, cache=kept, **cut) == whole
                with pytest.raises(AssertionError, match="it is read"):  # another window has other events
                    said(path, memory, cache=kept, by="BACKWARD")
                with pytest.raises(AssertionError, match="it is read"):  # not all are there
                    said(path, 0, cache=kept, **cut)


def test_of_so_many_windows_not_all_details_are_kept(tmp_path: Path) -> None:
    rng = random.Random(11)
    path = tmp_path / "made.log"
    text = made_log(rng, 2500)
    while not 40 < text.count("START STEP_") < 80:  # which have 40 events each
        text = made_log(rng, 2500)
    path.write_text(text)
    by = r"START STEP_\d+"
    whole = memlens.analyze(path, by=by, memory=0).logs[0]
    with small_blocks(2000), mock.patch.object(condenser, "_MOST_AT_PEAKS", 20):
        log = memlens.analyze(path, by=by, memory=100 * OF_EVENT).logs[0]
    known = [bool(window.results["peak"].live) for window in log.windows]
    assert 0 < known.count(True) < len(known)
    highest = max(log.windows, key=lambda window: window.results["peak"].peak_bytes)
    assert highest.results["peak"].live
    for one, other in zip(log.windows, whole.windows, strict=True):  # all of it, or nothing
        assert one.results["peak"].live in ((), other.results["peak"].live)
        assert one.results["stats"].to_dict() == other.results["stats"].to_dict()
    assert any("live at the peak" in remark for remark in log.remarks)
    with small_blocks(2000), mock.patch.object(condenser, "_MOST_WITH_LIVES", 5):
        log = memlens.analyze(path, by=by, memory=100 * OF_EVENT).logs[0]
    assert not any(window.results["lifetimes"].longest for window in log.windows)
    assert any("live longest" in remark for remark in log.remarks)
    with small_blocks(2000), mock.patch.object(condenser, "_MOST_WITH_LIVES", 5):  # who lists none misses none
        few = memlens.analyze(path, by=by, memory=100 * OF_EVENT, analyzers=["peak"]).logs[0]
        short = memlens.analyze(path, by=by, memory=100 * OF_EVENT, top=0).logs[0]
    for log in (few, short, whole):
        assert not any("live longest" in remark for remark in log.remarks)


def test_of_so_many_lines_those_are_kept_that_count_the_steps(tmp_path: Path) -> None:
    rng = random.Random(3)
    text = made_log(rng, 3000)
    while text.count("START STEP_") < 200 or "START BACKWARD" not in text:
        text = made_log(rng, 3000)
    path = tmp_path / "made.log"
    path.write_text(text)
    whole = memlens.analyze(path, memory=0).logs[0]
    assert whole.steps is not None
    assert whole.growth is not None
    count = text.count("START STEP_")
    with small_blocks(4000), mock.patch.object(condensing, "_MOST_LANDMARKS", count + 1):
        log = memlens.analyze(path, memory=100 * OF_EVENT).logs[0]
    assert log.steps is not None
    assert log.growth is not None
    assert [window.to_dict(0) for window in log.steps.windows] == [window.to_dict(0) for window in whole.steps.windows]
    assert log.growth.live_bytes == whole.growth.live_bytes
    assert log.phases is None
    with small_blocks(4000), mock.patch.object(condensing, "_MOST_LANDMARKS", count // 2):
        log = memlens.analyze(path, memory=100 * OF_EVENT).logs[0]
    assert log.steps is None
    assert any("Too many lines may mark steps" in remark for remark in log.remarks)
    assert log.windows[0].to_dict() == whole.windows[0].to_dict()


def test_the_curve_reaches_the_peak(tmp_path: Path) -> None:
    for seed in range(5):
        path = tmp_path / f"{seed}.log"
        path.write_text(made_log(random.Random(seed), 3000))
        whole = memlens.analyze(path, memory=0).logs[0]
        with small_blocks(4000), mock.patch.object(condenser, "_STRETCHES", 64):
            log = memlens.analyze(path, memory=100 * OF_EVENT).logs[0]
        peak = whole.windows[0].results["peak"]
        assert log.curve is not None
        assert whole.curve is not None
        assert log.curve.high_bytes.max() == peak.peak_bytes
        assert log.curve.reserved_bytes.max() == peak.reserved_peak_bytes
        assert log.curve.low_bytes.min() == whole.curve.low_bytes.min()
        assert log.curve.peak_event == whole.curve.peak_event == peak.event
        assert log.curve.edges[[0, -1]].tolist() == whole.curve.edges[[0, -1]].tolist()


def test_a_layer_that_comes_late_is_named(tmp_path: Path) -> None:
    text = made_log(random.Random(1), 2000)
    stream = "".join(
        f"I0710 10:00:00.000000   100 stream_safe_cuda_allocator.cc:{what}\n"
        for k in range(1, 300)
        for what in (
            f"243] Try allocate {k} bytes",
            f"260] Allocate {256 * k} bytes at address {4096 * k:#x}  , stream: 0",
        )
    )
    path = tmp_path / "two.log"
    path.write_text(stream + text)
    whole = said(path, 0)
    with small_blocks(2000):
        with pytest.raises(MemlensError, match="--layer auto_growth"):
            said(path, 50 * OF_EVENT)
        assert said(path, 50 * OF_EVENT, layer="auto_growth")["logs"][0]["windows"] == whole["logs"][0]["windows"]


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
        found = memlens.analyze(path, analyzers=["count"], memory=100 * OF_EVENT).logs[0]
    assert found.windows[0].results["count"].events == allocs
    assert "the analyzer 'count' needs all events (about " in caplog.text
    count.condensed = True  # type: ignore[attr-defined]
    caplog.clear()
    with small_blocks(2000), mock.patch("memlens.inputs.builder._MOST_EVENTS", 500), caplog.at_level(logging.WARNING):
        found = memlens.analyze(path, analyzers=["count"], memory=100 * OF_EVENT).logs[0]
    assert found.windows[0].results["count"].events < allocs
    assert not caplog.text


def test_a_condensed_log_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    path = tmp_path / "made.log"
    path.write_text(made_log(random.Random(2), 2000))
    with small_blocks(2000):
        log = condensed(path, 100)
    assert len(log) < log.events
    with pytest.raises(ValueError, match="not all there"):
        next(log.batches())


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
            (log,) = memlens.analyze(path, memory=50 * OF_EVENT).logs
            checked[path] = log.trust
    assert checked[sound].ok
    assert 40 < checked[sound].figures_checked < len(lines)
    assert any(note.code == "stat_lines" for note in checked[sound].notes)
    assert "figures_disagree" in checked[wrong].doubt_codes
