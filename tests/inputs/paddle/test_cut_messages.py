"""A log that ends inside the out-of-memory message, as that of a killed run does: cut at every byte, and texts that only look so."""

from __future__ import annotations

import io

import pytest
from night import some

import memlens
from memlens.errors import NoEventsError
from memlens.facts import OutOfMemory
from memlens.log import Log

STAMP = "I1120 10:40:54.334872 22168 auto_growth_best_fit_allocator.cc:270] "
BLOCK = (
    f"{STAMP}Allocate 240 bytes, aligned to 256, extra size 0\n"
    f"{STAMP}Not found and reallocate 256(0x1000), and remaining 0\n"
    f"{STAMP}Alloc 256 bytes, ptr = 0x1000\n"
)
WAITING = f"{STAMP}Allocate 52428800 bytes, aligned to 52428800, extra size 0\n"
SUMMARY = (
    "\n--------------------------------------\nC++ Traceback (most recent call last):\n"
    "--------------------------------------\n0   paddle::experimental::matmul(\n\n"
    "----------------------\nError Message Summary:\n----------------------\n"
)
ERROR = "ResourceExhaustedError: \n\n"
LINE = (
    "Out of memory error on GPU 0. Cannot allocate 50.000000MB memory on GPU 0, 12.000000MB memory has been allocated and"
    " available memory is only 48.000000MB."
)


def messages(text: str) -> tuple[OutOfMemory, ...]:
    log = memlens.read(io.BytesIO(text.encode()))
    assert isinstance(log, Log)
    return log.facts.ooms


@pytest.mark.parametrize("waiting", [WAITING, ""])
@pytest.mark.parametrize("end", ["", "\n", "\r\n\n"])
def test_a_message_cut_at_any_byte_is_a_failure_at_the_line_of_its_request_or_else_at_its_own(
    waiting: str, end: str
) -> None:
    before = BLOCK + waiting + SUMMARY
    message = ERROR + LINE
    for length in some(range(len("ResourceExhaustedError"), len(message) + 1), 3):
        (oom,) = messages(before + message[:length] + end)
        begun = length > len(ERROR)
        line, offset = before.count("\n") + (3 if begun else 1), len(before) + (len(ERROR) if begun else 0)
        at_request = (BLOCK.count("\n") + 1, len(BLOCK), line)
        assert (oom.line, oom.offset, oom.message_line) == (at_request if waiting else (line, offset, None)), message[
            :length
        ]
        assert oom.asked_bytes == (52428800 if waiting or length >= message.index(" on GPU 0, 12") else None)
        # The device is known from the full stop after it on.
        assert oom.device == ("GPU 0" if length > message.index(". Cannot") else "")


def test_without_the_name_of_the_error_a_request_waits_before_it() -> None:
    for length in range(len("Out of memory error on GPU 0"), len(LINE) + 1):
        assert [oom.asked_bytes for oom in messages(BLOCK + WAITING + LINE[:length])] == [52428800]
    assert messages(BLOCK + "Out of memory error on GPU 0. Cann") == ()
    assert messages(BLOCK + ERROR) == ()


@pytest.mark.parametrize(
    "end",
    [
        "INFO: if you see an Out of memory error on GPU 0",
        "Out of memory error on purpose",
        "except ResourceExhaustedError:",
        "MyResourceExhaustedError: ",
        "ResourceExhaustedError: caught, the batch is halved",
        ERROR + "Fail to alloc memory",
        ERROR + "Out of memory error on GPU 0. Cann\n" + STAMP + "Free 256 bytes, ptr = 0x1000\n",
    ],
)
def test_what_only_looks_like_the_end_of_a_message_is_none(end: str) -> None:
    assert messages(BLOCK + WAITING + SUMMARY + end) == ()


def test_a_limit_is_read_from_the_line_that_names_it() -> None:
    advice = (
        "\n\n2. If no, please decrease the batch size of your model. Or set environment variable `FLAGS_gpu_memory_limit_mb` to"
        " a larger value. Currently `FLAGS_gpu_memory_limit_mb` is 60, so the maximum GPU memory usage is limited to 60 MB.\n"
    )
    assert [oom.limit_bytes for oom in messages(BLOCK + WAITING + SUMMARY + ERROR + LINE + advice)] == [None, 60 << 20]


def error_of(text: str) -> NoEventsError:
    with pytest.raises(NoEventsError) as caught:
        memlens.read(io.BytesIO(text.encode()))
    return caught.value


def test_a_run_that_fails_at_its_first_request_is_said_to_have_run_out() -> None:
    """50 MiB are asked for; the message says 12 in use and 48 left."""
    text = WAITING + SUMMARY + ERROR + LINE
    error = error_of(text)
    assert ": ran out of memory on its first request (50.00 MiB, with 48.00 MiB left, line 1)" in error.message
    assert "logging on" not in str(error)
    assert "Looked for" not in error.message
    assert "GLOG_vmodule" not in error.hint
    larger = text.replace("52428800", "73400320").replace("50.000000MB", "70.000000MB")
    assert error_of(larger).hint == "It can never fit: the device has 60.00 MiB."
    assert error_of(WAITING + SUMMARY + ERROR).message.count("(50.00 MiB, line ") == 1


@pytest.mark.parametrize(
    "refused",
    [
        "OSError: (External)  CustomDevice error, the error code is : 2.  (at custom_device.cc:387)\n",
        SUMMARY + ERROR + LINE.replace("50.000000MB", "64.000000MB"),
    ],
)
def test_where_the_first_chunk_is_refused_its_size_is_what_to_set(refused: str) -> None:
    """50 MiB are asked for, and the least chunk has 64: so many are asked of the device."""
    error = error_of(STAMP.replace(":191]", ":99]") + "chunk_size_:67108864\n" + WAITING + refused)
    assert "ran out of memory on its first request (50.00 MiB" in error.message
    assert error.hint == (
        "The allocator requested a chunk of 64.00 MiB for it: with a smaller FLAGS_auto_growth_chunk_size_in_mb it requests less."
    )
    for least in (256, 67108864):
        # The device was asked for what the message says, whatever another allocator's chunks have.
        assert "request less" in error_of(f"{STAMP}chunk_size_:{least}\n" + WAITING + SUMMARY + ERROR + LINE).hint
