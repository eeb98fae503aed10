"""Out-of-memory failures on a screen: what ten lines of 80 columns say, and what --full adds."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from answers import failure_sentence
from failing_runs import run_until_full

import memlens
from memlens.analyzers.failures import MemoryFailure, failures
from memlens.claims.claim import Answer
from memlens.events import Kind
from memlens.facts import Facts, OutOfMemory
from memlens.inputs import Reading
from memlens.log import Log
from memlens.reports import terminal
from memlens.reports.blocks import Block, ListOptions, answered
from memlens.reports.failures import failure_blocks
from memlens.text import terms_of

#: Runs of the model by the cause of what comes of them: a seed, and how much the message says.
RUNS = {"too much": (5, "full"), "fragmented": (2, "full"), "another process": (10, "full"), "unknown": (7, "none")}


def found(seed: int, message: str) -> tuple[MemoryFailure, ...]:
    log = memlens.read(io.BytesIO(run_until_full(seed, message)[0].text))
    assert isinstance(log, Log)
    return tuple(failures(log))


def screen(ooms: tuple[MemoryFailure, ...], *, full: bool = False) -> list[Block]:
    """The verdict and the failures, as an analysis begins with them."""
    verdict = answered(Answer((failure_sentence(ooms),), "bad"))
    return [*verdict, None, *failure_blocks(ooms, ListOptions(5), full=full)]


def test_a_screen_for_each_cause(golden: Callable[[str, str], None]) -> None:
    shown = [terminal.render(screen(found(*run), full=True), width=80) for run in RUNS.values()]
    golden("failures_full_80.txt", "\n".join(shown))


def real(shared: Path) -> Iterator[Log]:
    yield memlens.read(shared / "data/paddle/05_oom_331.log")
    for name in ("torch/kineto/oom.json", "rmm/rmm_log.dev0.csv"):
        yield from Reading(()).read_all(shared / "data" / name)


def test_a_failure_takes_ten_lines_at_most(shared: Path) -> None:
    logs = [(failures(log), terms_of(log.facts.has_lines)) for log in real(shared)]
    logs += [(found(seed, message), terms_of(True)) for seed in range(30) for message in ("full", "size", "none")]
    for ooms, terms in logs:
        if ooms:
            text = terminal.render(list(failure_blocks(ooms, ListOptions(5, 0, terms))), width=80)
            assert len(text.splitlines()) <= 10, text


def made(ooms: list[OutOfMemory]) -> tuple[MemoryFailure, ...]:
    rows = [(Kind.RESERVE, 1000, 1000), (Kind.ALLOC, 400, 1000), (Kind.ALLOC, 300, 1600)]
    rows += [(Kind.ALLOC, 1, 1900 + k) for k in range(50)]
    return tuple(failures(Log.from_rows(rows, facts=Facts(lines=60, bytes=600, ooms=tuple(ooms)))))


def test_of_many_failures_one_is_shown_and_the_others_are_counted_and_listed_on_demand() -> None:
    many = made([OutOfMemory(place, place + 1, "", 5000 + place, None, "oom") for place in range(10, 30)])
    assert len(many) == 20
    text = terminal.render(list(failure_blocks(many, ListOptions(5))), width=80)
    assert text.startswith("Out of memory at line 11 (and 19 more failures: --full)")
    assert len(text.splitlines()) <= 10
    text = terminal.render(list(failure_blocks(many, ListOptions(5), full=True)), width=80)
    assert "All out-of-memory failures" in text
    assert "… and 15 more failures" in text


def test_the_largest_part_is_all_that_one_owner_holds_whatever_its_sizes() -> None:
    # matmul has the largest block, and relu more in two blocks of two sizes, as much as softmax.
    header = "I0710 09:56:31.904374 28846 "
    lines = []
    for place, (operator, mib) in enumerate([("matmul", 5), ("relu", 4), ("relu", 2), ("softmax", 3), ("softmax", 3)]):
        size = mib << 20
        lines.append(f"{header}op.cc:1] Running AD API: {operator}")
        lines.append(
            f"{header}auto_growth_best_fit_allocator.cc:225] Not found and reallocate {size}(0x{place + 1:x}0000000), and remaining 0"
        )
        lines.append(f"{header}auto_growth_best_fit_allocator.cc:170] Alloc {size} bytes, ptr = 0x{place + 1:x}0000000")
    lines.append(
        "Out of memory error on GPU 0. Cannot allocate 3.125000GB memory on GPU 0, available memory is only 117.750000MB."
    )
    (log,) = memlens.analyze(io.BytesIO("\n".join(lines).encode())).logs
    text = terminal.render(list(failure_blocks(log.ooms, ListOptions(5))), width=200)
    (row,) = (line for line in text.splitlines() if line.startswith("Largest"))
    told = r"Largest 6\.00 MiB in 2 blocks by (relu|softmax), and as many bytes in 1 other group; 17\.00 MiB live in 5 blocks"
    assert re.fullmatch(told, " ".join(row.split()))
