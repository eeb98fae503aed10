"""The sentence of a failure: the facts of the message that decide the cause are in it, and failures of a window are those inside it."""

from __future__ import annotations

import io
from typing import Any

import memlens
from memlens.analyzers.failures import MemoryFailure, failure_sentence, failures
from memlens.events import EventLog
from memlens.reports import terminal
from memlens.reports.blocks import Asked
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


def read(text: str) -> EventLog:
    log = memlens.read(io.BytesIO(text.encode()))
    assert isinstance(log, EventLog)
    return log


def sentence(text: str) -> str:
    return failure_sentence(failures(read(text)))


def screen(text: str) -> str:
    return terminal.render(list(failure_blocks(failures(read(text)), Asked(5))), width=120)


THREE = block(0) + block(1) + block(2)


def test_who_asked_for_how_much_and_what_was_in_use() -> None:
    assert sentence(THREE + message(50, 12, 48)) == (
        "Ran out of memory at line 10: 50.00 MiB were asked for, and 12.00 MiB of the 12.00 MiB reserved were in use, with"
        " 48.00 MiB left on the device (too much in use)."
    )


def test_a_limit_of_the_process_is_named_and_is_not_said_to_be_the_device() -> None:
    for asked, why in ((50, "too much for the limit of the process"), (64, "more than the limit of the process")):
        text = THREE + message(asked, 12, 48) + LIMIT.format(60)
        assert ", with 48.00 MiB left of the 60.00 MiB that FLAGS_gpu_memory_limit_mb allows " in sentence(text)
        assert sentence(text).endswith(f"({why}).")
        assert "device" not in screen(text)


def test_with_a_limit_no_other_process_is_blamed() -> None:
    """20 MiB asked for; 50 of 60 counted; the log shows 12 of them. Without a limit 38 MiB are held by others."""
    text = THREE + message(20, 50, 10)
    (without,) = failures(read(text))
    (limited,) = failures(read(text + LIMIT.format(60)))
    assert (without.cause, without.elsewhere_bytes) == ("another process", 38 << 20)
    assert (limited.cause, limited.elsewhere_bytes, limited.limit_bytes) == ("too much", None, 60 << 20)
    assert "; 38.00 MiB of the device's 60.00 MiB were neither free nor reserved by this run (another process)." in (
        sentence(text)
    )


def test_what_is_held_elsewhere_is_said_where_the_request_is_unknown() -> None:
    text = THREE + (
        "Out of memory error on npu 0. total memory is 60.000000MB, used memory is 50.000000MB, available memory is only"
        " 10.000000MB.\n"
    )
    # 60 - 10 - 12 reserved
    assert (
        "38.00 MiB of the device's 60.00 MiB were neither free nor reserved by this run (how much was asked for is not"
        in (sentence(text))
    )


def test_what_could_never_fit_is_said_so() -> None:
    text = THREE + message(64, 12, 48)
    assert sentence(text).endswith("(more than the 60.00 MiB that the device has in all).")
    assert "it can never fit: the device has 60.00 MiB" in screen(text)
    assert "never" not in screen(THREE + message(60, 12, 48))  # it fits on an empty device


def test_what_all_of_its_own_memory_would_not_have_sufficed_for_is_too_much_asked_for() -> None:
    """12 MiB are its own; of the device 48, 38 or 37 are left by a message that does not say what the device has."""
    for left, why in ((48, "in use"), (38, "in use"), (37, "asked for")):
        told = f"Out of memory error on GPU 0. Cannot allocate 50.000000MB memory on GPU 0, available memory is only {left}.000000MB.\n"
        assert sentence(THREE + told).endswith(f"(too much {why}).")


def test_the_device_is_named_where_failures_are_of_several() -> None:
    two = THREE + message(50, 12, 48) + message(50, 12, 48, "GPU 1")
    assert sentence(two).startswith("Ran out of memory on GPU 0 at line 10: ")
    assert sentence(two).endswith("; the first of 2 failures).")
    assert screen(two).startswith("Out of memory on GPU 0 at line 10: too much (and 1 more failure")
    assert "GPU" not in sentence(THREE + message(50, 12, 48))


def test_one_block_is_not_the_oldest_and_the_youngest() -> None:
    assert "Oldest" not in screen(block(0) + message(58, 4, 56))
    assert "Oldest" in screen(block(0) + block(1) + message(58, 8, 52))


def test_what_would_have_had_to_go_did_not() -> None:
    assert "so the largest block, 4.00 MiB, would have had to go" in screen(THREE + message(50, 12, 48))


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
