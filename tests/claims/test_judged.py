"""Each kind of claim against the events: real logs, and small ones that are made here."""

from __future__ import annotations

import io
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from claim_judge import JUDGES, PlainRun, judged
from hypothesis import given
from hypothesis import strategies as st
from printed_steps import PRINTS, run
from texts import read_packed

import memlens
from memlens.analyzing.result import LogAnalysis
from memlens.errors import MemlensError
from memlens.facts import Kind
from memlens.log import Log

HEADER = "I0710 09:56:31.904374 28846 auto_growth_best_fit_allocator.cc:170] "
#: Logs are replayed in plain Python.
_MOST_EVENTS = 20_000


def wrong(analysis: LogAnalysis, run: PlainRun) -> list[Any]:
    return [claim for claim in analysis.to_dict()["claims"] if judged(claim, run) is False]


def of_log(log: Log, text: str) -> list[Any]:
    (analysis,) = memlens.analyze(log).logs
    by, ends = ("", False) if analysis.steps is None else (analysis.steps.by, analysis.steps.ends)
    return wrong(analysis, PlainRun(log, text, steps=by, ends=ends))


def read(path: Path) -> list[Log]:
    try:
        found = memlens.read(path)
    except MemlensError:
        return []
    return list(found) if isinstance(found, (list, tuple)) else [found]


def logs_in(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size < 1 << 20]


@pytest.mark.parametrize("name", PRINTS)
def test_the_claims_on_runs_that_print_their_steps_are_right(name: str, rounds: Callable[[int], range]) -> None:
    for seed in rounds(2):
        for leak in (True, False):
            text = run(name, random.Random(f"{name} {seed}"), leak=leak, at_exit=seed % 2 == 0).text
            log = memlens.read(io.BytesIO(text))
            assert isinstance(log, Log)
            assert of_log(log, text.decode()) == [], (seed, leak)


def test_the_claims_on_real_logs_are_right(shared: Path, examples: Path) -> None:
    seen: Counter[str] = Counter()
    for path in [*logs_in(examples), *logs_in(shared / "data")]:
        text = read_packed(path).decode(errors="replace") if ".log" in path.name else ""
        for log in read(path):
            if len(log) <= _MOST_EVENTS:
                assert of_log(log, text) == [], path
                seen.update(claim.kind for claim in memlens.analyze(log).claims)
    assert {"peak", "largest_at_peak", "live_at_end", "out_of_memory", "growing", "piling_up", "not_growing"} <= {*seen}


@st.composite
def runs(draw: st.DrawFn) -> str:
    """Steps that use memory, and may keep some of it; perhaps with chunks, and Frees of what was there before."""
    lines, place = [], 1 << 30
    sizes = st.sampled_from([256, 1024, 4096, 1 << 20])
    if draw(st.booleans()):
        lines.append(f"{HEADER}Alloc {draw(sizes)} bytes, ptr = 0x10")
    steps, leak = draw(st.sampled_from([0, 1, 3, 6, 12, 30])), draw(st.sampled_from([0, 0, 256, 4096]))
    for step in range(max(steps, 1)):
        lines += [f"STEP {step} START"] if steps else []
        for kept in draw(st.lists(st.booleans(), min_size=1, max_size=2)):
            place, size = place + (1 << 26), draw(sizes)
            if draw(st.booleans()):
                lines.append(f"{HEADER}Not found and reallocate {size}(0x{place:x}), and remaining 0")
            lines.append(f"{HEADER}Alloc {size} bytes, ptr = 0x{place:x}")
            if not (kept and draw(st.integers(0, 9)) == 0):
                lines.append(f"{HEADER}Free {size} bytes, ptr = 0x{place:x}")
        if leak:
            place += 1 << 26
            lines.append(f"{HEADER}Alloc {leak} bytes, ptr = 0x{place:x}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def log_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Log]:
    path = tmp_path_factory.mktemp("runs") / "run.log"

    def write(text: str) -> Log:
        path.write_text(text)
        (log,) = read(path)
        return log

    return write


@given(text=runs())
def test_the_claims_on_a_log_are_right(log_of: Callable[[str], Log], text: str) -> None:
    assert of_log(log_of(text), text) == []


@given(text=runs())
def test_the_claims_on_windows_are_right(log_of: Callable[[str], Log], text: str) -> None:
    log = log_of(text)
    if "STEP 1 START" not in text:
        return
    (analysis,) = memlens.analyze(log, by=r"(STEP \d+) START").logs
    series = PlainRun(log, text, steps=r"(STEP \d+) START", bounds=(-1, -1))
    assert wrong(analysis, series) == []
    (analysis,) = memlens.analyze(log, start="STEP 1 START", end="STEP 2 START").logs
    assert wrong(analysis, PlainRun(log, text, bounds=series.windows()["STEP 1"])) == []


@given(text=runs(), data=st.data())
def test_the_claims_on_a_block_are_right(log_of: Callable[[str], Log], text: str, data: st.DataObject) -> None:
    log = log_of(text)
    lines = log.line_numbers(list(range(len(log))))
    event = data.draw(st.sampled_from([event for event in range(len(log)) if log.kind[event] == Kind.ALLOC]))
    claims = memlens.block(log, lines[event] or 0).to_dict()["claims"]
    run = PlainRun(log, bounds=(event, event + 1))
    assert [claim for claim in claims if judged(claim, run) is not True] == []


@pytest.mark.parametrize(("steps", "leak"), [(12, 4096), (30, 256), (99, 1 << 20)])
def test_a_constant_leak_is_claimed_to_the_byte(steps: int, leak: int) -> None:
    lines = []
    for step in range(steps):
        lines.append(f"STEP {step} START")
        lines += [f"{HEADER}{what} 8192 bytes, ptr = 0x10" for what in ("Alloc", "Free")]
        lines.append(f"{HEADER}Alloc {leak} bytes, ptr = 0x{(step + 1) << 26:x}")
    (found,) = [one for one in memlens.analyze(io.BytesIO("\n".join(lines).encode())).claims if one.kind == "growing"]
    gained = (found.values["gained_bytes_per_window"], found.values["gained_bytes"])
    assert gained == (leak, leak * found.values["windows"] - leak * (found.values["since"] != "STEP 0"))


def test_the_judge_sees_what_is_wrong(log_of: Callable[[str], Log]) -> None:
    log = log_of("".join(f"{HEADER}Alloc {size} bytes, ptr = 0x{size:x}\n" for size in (512, 1024)))
    run, claims = PlainRun(log), memlens.analyze(log).to_dict()["claims"]
    figures = {"peak": "peak_bytes", "largest_at_peak": "blocks", "live_at_end": "live_bytes"}
    for kind, name in figures.items():
        (claim,) = (one for one in claims if one["kind"] == kind)
        assert judged(claim, run)
        assert not judged({**claim, name: claim[name] + 1}, run)
    assert {*figures} <= {*JUDGES}
