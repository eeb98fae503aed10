"""What is concluded of logs made for it: each claim where it must be made, and where it must not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import process
from logs import ALLOC, FREE, HEADER, LogText, write_log
from traces import memory_event, trace, write_trace

import memlens

CHUNK = HEADER + "Not found and reallocate {}(0x{:x}), and remaining 0\n"
alloc, free = ALLOC.format, FREE.format


Claimed = Callable[..., dict[str, Any]]


@pytest.fixture
def claimed(tmp_path: Path) -> Claimed:
    """The values of the claims on the text of a log, by their kinds."""

    def claims(*lines: str, **options: Any) -> dict[str, Any]:
        path = tmp_path / "run.log"
        path.write_text("".join(lines))
        return {claim.kind: claim.values for claim in memlens.analyze(path, **options).claims}

    return claims


def work(steps: int, kept: int = 0) -> Iterator[str]:
    """Steps that each allocate a block and free it, and keep so many bytes."""
    yield CHUNK.format(1 << 20, 0x100000)
    for step in range(steps):
        yield f"STEP {step} START\n"
        yield alloc(4096, 0x100000)
        if kept:
            yield alloc(kept, 0x110000 + step * kept)
        yield free(4096, 0x100000)
    yield "DONE\n"


def test_what_is_live_at_the_end_is_what_has_no_free_and_not_a_level_of_zero(claimed: Claimed) -> None:
    """A block stays, and a FREE of its size is of a block from before the log: the level is 0 in the end."""
    found = claimed(CHUNK.format(4096, 0x100000), alloc(1024, 0x100000), free(1024, 0x900000))
    assert found["live_at_end"] == {"live_bytes": 1024, "blocks": 1}
    assert "nothing_live_at_end" not in found
    assert found["in_doubt"] == {"doubts": ["unknown_frees"]}
    assert found["peak"]["earlier_unknown"]


def test_everything_is_freed_only_where_nothing_is_left(claimed: Claimed) -> None:
    found = claimed(CHUNK.format(4096, 0x100000), alloc(1024, 0x100000), free(1024, 0x100000))
    assert found["nothing_live_at_end"] == {"grows": False, "exit_bytes": 1024}


@pytest.mark.parametrize(("steps", "few"), [(0, None), (2, 1)])
def test_where_growth_is_not_judged_that_is_said(claimed: Claimed, steps: int, few: int | None) -> None:
    found = claimed(*work(steps), alloc(256, 0x1F0000), free(256, 0x1F0000))
    by = None if few else True
    assert found["growth_not_judged"] == {
        "steps": few,
        "parts": False,
        "by": by,
        "entries": None,
        "whole": None,
        "mixed": None,
    }
    assert "not_growing" not in found


def test_a_leak_that_the_exit_frees_is_said_to_be_freed_only_then(claimed: Claimed) -> None:
    kept = 1024
    frees = [free(kept, 0x110000 + step * kept) for step in range(12)]
    found = claimed(*work(12, kept), *frees)
    assert (found["growing"]["since"], found["growing"]["gained_bytes_per_window"]) == ("STEP 0", kept)
    assert found["nothing_live_at_end"] == {"grows": True, "exit_bytes": None}


def test_windows_without_an_event_are_not_said_to_be_flat(claimed: Claimed) -> None:
    """Anchors that came late, as through a buffered stdout: all stand behind the events."""
    lines = [*work(0), alloc(4096, 0x100000), *(f"STEP {k} START\n" for k in range(9))]
    found = claimed(*lines, by=r"STEP (\d+) START")
    assert found["no_event"] == {"windows": 9}
    assert "not_growing" not in found
    found = claimed(*lines, start="STEP 3 START", end="STEP 4 START")
    assert found["no_event"] == {"windows": None}
    assert "nothing_held_in_window" not in found


def test_what_only_makes_reserved_doubtful_puts_nothing_else_in_doubt(claimed: Claimed) -> None:
    found = claimed(alloc(1024, 0x100000), free(1024, 0x100000))  # no line of a chunk
    assert "in_doubt" not in found
    assert (found["peak"]["peak_bytes"], found["peak"]["reserved_bytes"]) == (1024, None)


def test_of_several_devices_the_fullest_gpu_is_told_of_and_the_peaks_of_the_others(tmp_path: Path) -> None:
    text = memlens.analyze(write_trace(tmp_path / "trace.json", gpu0=512, gpu1=4096, cpu=1 << 20)).verdict
    assert text.startswith("Device 1: Peak: 4.00 KiB allocated")
    assert text.endswith("Peaks of the others: device 0 512 B, CPU 1.00 MiB.")


def test_a_device_that_ran_out_is_told_of_before_a_fuller_one(tmp_path: Path) -> None:
    blocks = [memory_event(1.0, 4096, 16, 4096, 0), memory_event(2.0, 1024, 16, 1024, 1)]
    path = tmp_path / "trace.json"
    path.write_text(trace(*blocks, memory_event(3.0, 2 << 30, 16, 2 << 30, 1) | {"name": "[OutOfMemory]"}))
    answer = memlens.analyze(path).answer
    assert str(answer).startswith("Device 1: Ran out of memory at entry 2: 2.00 GiB")
    assert str(answer).endswith("Peaks of the others: device 0 4.00 KiB.")
    assert answer.tone == "bad"


def test_of_several_logs_with_the_lowest_peak_none_is_named(tmp_path: Path) -> None:
    for rank in range(4):
        write_log(tmp_path, f"worker.{rank}", f"+{(1 + (rank == 2)) << 20}@1000")
    verdict = memlens.analyze(tmp_path).verdict
    assert verdict.startswith("Of 4 logs the highest peak is 2.00 MiB in worker.2, the lowest 1.00 MiB in 3 of them.")


def test_logs_with_brackets_in_their_names_are_no_devices(tmp_path: Path) -> None:
    paths = [tmp_path / "run [1]", tmp_path / "run [2]"]
    for path in paths:
        path.write_text(CHUNK.format(4096, 0x1000) + alloc(1024, 0x1000))
    assert memlens.analyze(paths).verdict == "All of 2 logs have the same peak, 1.00 KiB."


@pytest.mark.parametrize(
    ("name", "says", "without"),
    [
        ("06_small_pool.log", "Reserved   not known", "Reserved   2.00"),  # the pool has no line, and more is allocated
        ("08_cpu_stats_331.log", "Peak: 4.24 MiB allocated, 4.24 MiB reserved, at line 961.", "In doubt"),
        ("07_stdout_anchors_331.log.gz", "growth is not checked, because anchors or figures come late", "No step"),
        ("09_two_procs_one_file_331.log.gz", "growth is not checked, because several processes wrote", "no step lines"),
    ],
)
def test_of_real_logs_in_doubt_only_that_is_doubted_which_is(shared: Path, name: str, says: str, without: str) -> None:
    text = process("analyze", shared / "data/paddle" / name).stdout
    assert says in text
    assert without not in text


@pytest.mark.parametrize(("calls", "shown"), [(1000, True), (1001, False)])
def test_a_thousand_parts_are_shown_and_no_more(tmp_path: Path, calls: int, shown: bool) -> None:
    """Nothing is judged over calls, so that very many of them are not worth their windows."""
    path = tmp_path / "run.log"
    lines = (f"START SOT_CALL_{k}\n" + alloc(256, 0x1000 + 256 * k) for k in range(calls))
    path.write_text(CHUNK.format(1 << 20, 0x1000) + "".join(lines))
    (log,) = memlens.analyze(path).logs
    assert (log.steps is not None) == shown
    assert log.growth is None
    assert "growth not checked" in log.verdict


def test_what_fills_up_and_is_emptied_swings_though_peaks_grow(tmp_path: Path) -> None:
    """Each of 22 steps keeps 2 MiB; the last but one gives all back after its peak."""
    log, mib = LogText(), 1 << 20
    for step in range(24):
        log.lines.append(f"STEP {step} START")
        log.alloc(8 * mib, 1 << 40)
        log.free(8 * mib, 1 << 40)
        if step < 22:
            log.alloc(2 * mib, step << 30)
        for kept in range(22 * (step == 22)):
            log.free(2 * mib, kept << 30)
    (tmp_path / "run.log").write_text(log.text)
    said = "does not grow over 23 steps: it swings between 0 B and 44.00 MiB. The peak of a step grows from STEP 1 on"
    assert said in memlens.analyze(tmp_path / "run.log").verdict


def test_of_steps_too_few_to_judge_nothing_is_said_to_grow_or_not_to(tmp_path: Path) -> None:
    """Each of three steps keeps a block and reserves more for it: the level before them makes a fourth only of what is reserved."""
    log = LogText()
    for step in range(4):
        log.chunk(16 << 20, step << 30)
        log.alloc(9 << 20, step << 30)
        log.lines.append(f"STEP {step} START")
    (tmp_path / "run.log").write_text(log.text)
    kinds = {claim.kind for claim in memlens.analyze(tmp_path / "run.log").claims}
    assert "growth_not_judged" in kinds
    assert not kinds & {"live_not_growing", "level_growing", "not_growing"}
