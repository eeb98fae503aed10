"""The claim of a failure: the facts of the message that decide the cause are in it, and failures of a window are those inside it."""

from __future__ import annotations

import io
from typing import Any

import memlens
from memlens.analyzers.failures import MemoryFailure, failure_claim, failures
from memlens.log import Log
from memlens.reports import terminal
from memlens.reports.blocks import ListOptions
from memlens.reports.failures import failure_blocks

STAMP = "I1120 10:40:54.334872 22168 auto_growth_best_fit_allocator.cc:270] "
LIMIT = (
    "2. If no, please decrease the batch size of your model. Or set environment variable `FLAGS_gpu_memory_limit_mb` to a"
    " larger value. Currently `FLAGS_gpu_memory_limit_mb` is {0}, so the maximum GPU memory usage is limited to {0} MB.\n"
)


def block(number: int, mib: int = 4) -> str:
    size, place = mib << 20, 0x7F0000000000 + (number << 30)
    texts = (
        f"Allocate {size} bytes, aligned to {size}, extra size 0",
        f"Not found and reallocate {size}({place:#x}), and remaining 0",
        f"Alloc {size} bytes, ptr = {place:#x}",
    )
    return "".join(f"{STAMP}{text}\n" for text in texts)


def message(asked: int, used: int, left: int, device: str = "GPU 0") -> str:
    return (
        f"Out of memory error on {device}. Cannot allocate {asked}.000000MB memory on {device}, {used}.000000MB memory has been"
        f" allocated and available memory is only {left}.000000MB.\n"
    )


THREE = block(0) + block(1) + block(2)


def read(text: str) -> Log:
    log = memlens.read(io.BytesIO(text.encode()))
    assert isinstance(log, Log)
    return log


def test_who_asked_for_how_much_and_what_was_in_use() -> None:
    values = failure_claim(failures(read(THREE + message(50, 12, 48)))).values
    sizes = ("requested_bytes", "allocated_bytes", "reserved_bytes", "device_free_bytes")
    assert [values[name] >> 20 for name in sizes] == [50, 12, 12, 48]
    assert (values["line"], values["cause"], values["never_fits"], values["ended"]) == (10, "too much", False, True)


def test_a_limit_of_the_process_is_named_and_is_not_said_to_be_the_device() -> None:
    for asked in (50, 64):
        found = failures(read(THREE + message(asked, 12, 48) + LIMIT.format(60)))
        values = failure_claim(found).values
        assert (values["limit_bytes"], values["never_fits"]) == (60 << 20, asked > 60)
        assert "device" not in terminal.render(list(failure_blocks(found, ListOptions(5))), width=120)


# Failures of windows.


def run(*steps: str) -> str:
    """Steps that allocate a block of their own and free it, with a message in some."""
    text = ""
    for number, inside in enumerate(steps):
        place = 0x7F0000000000 + (number << 30)
        text += f"STEP {number} START\n{block(number)}{inside}{STAMP}Free {4 << 20} bytes, ptr = {place:#x}\n"
    return text + "STEP END\n"


RUN = run("", message(64, 4, 56), "", "", message(63, 4, 56), "")


def analyzed(**asked: Any) -> tuple[list[int | None], list[str]]:
    (log,) = memlens.analyze(io.BytesIO(RUN.encode()), **asked).logs
    found: list[MemoryFailure] = list(log.ooms)
    return [None if one.requested_bytes is None else one.requested_bytes >> 20 for one in found], [
        text for text in log.remarks if "memory" in text
    ]


def test_a_window_has_the_failures_on_its_lines_and_says_where_the_log_fails_besides() -> None:
    lines = [number for number, line in enumerate(RUN.splitlines(), 1) if line.startswith("Out of memory")]
    earlier = f"The log runs out of memory earlier, at line {lines[0]}."
    later = f"The log runs out of memory later, at line {lines[1]}."
    assert analyzed(start="STEP 2 START", end="STEP 3 START") == ([], [earlier, later])
    assert analyzed(start="STEP 1 START", end="STEP 2 START") == ([64], [later])
    assert analyzed(start="STEP 4 START", end="STEP 5 START") == ([63], [earlier])
    assert analyzed(start="STEP 1 START", end="STEP END") == ([64, 63], [])
    assert analyzed(by=r"STEP (\d+) START") == ([64, 63], [])
    assert analyzed() == ([64, 63], [])
    assert analyzed(whole=True) == ([64, 63], [])


def test_the_verdict_of_a_window_without_a_failure_says_nothing_of_one() -> None:
    found = memlens.analyze(io.BytesIO(RUN.encode()), start="STEP 2 START", end="STEP 3 START")
    assert "memory" not in found.verdict
    assert found.answer.tone == "plain"
