"""Logs with as many out-of-memory messages as events: read by columns, they say what reading them one by one does."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs import LogText
from plain_failures import bytes_of, plain_failures, plain_messages, read_messages

import memlens
from memlens import folding
from memlens.analyzers.failures import failures
from memlens.events import EventLog
from memlens.facts import Facts, Kind, MessageLines, OutOfMemory
from memlens.inputs.paddle.lines import sizes
from memlens.inputs.paddle.message_formats import OUT_OF_MEMORY
from memlens.log import Log
from memlens.trust import trust_of
from memlens.trust.failures import allocs_before, failures_of

SAMPLES = [sample.line for form in OUT_OF_MEMORY for sample in form.examples]
TRAPS = [trap for form in OUT_OF_MEMORY for trap in form.traps]
NUMBERS = st.from_regex(r"[0-9]{1,15}(\.[0-9]{1,20})?", fullmatch=True)
SIZES = st.builds(str.__add__, NUMBERS, st.sampled_from(["B", "kB", "KB", "MB", "GB", "TB", "PB"]))
MADE = st.builds(
    "Out of memory error on {}. Cannot allocate {} memory, {} memory has been allocated, available memory is only {}.".format,
    st.sampled_from(["GPU 0", "GPU 1", "npu 12"]),
    *[SIZES] * 3,
)
#: Lines of messages, whole or cut anywhere, alone or behind each other.
LINES = st.one_of(
    st.sampled_from([*SAMPLES, *TRAPS, "", "Alloc 256 bytes, ptr = 0x7f01"]),
    MADE,
    st.builds(lambda one, other, cut: one[:cut] + other, st.sampled_from(SAMPLES), st.one_of(MADE, st.sampled_from(SAMPLES)), st.integers(0, 120)),
)  # fmt: skip


@given(st.lists(LINES, max_size=12))
def test_the_messages_of_a_block_are_those_of_its_lines(lines: list[str]) -> None:
    text = "\n".join(lines).encode()
    assert read_messages(text)[0] == list(plain_messages(text))


HALVES = st.builds("{}.{}B".format, st.integers(0, 99), st.sampled_from(["5", "50", "49", "500000000000000000", "51"]))


@given(st.lists(st.one_of(SIZES, NUMBERS, HALVES), max_size=12))
def test_sizes_are_read_together_as_each_by_itself(texts: list[str]) -> None:
    data, places, at = "/".join(texts).encode(), [-1], 0
    for text in texts:
        places.append(at | len(text) << 40)
        at += len(text) + 1
    found = sizes(np.frombuffer(data, np.uint8), np.array(places, np.int64)).tolist()
    assert found == [-1, *(-1 if (size := bytes_of(text)) is None else size for text in texts)]


@pytest.mark.parametrize("before", ["", "x" * 5000])
def test_the_text_of_a_message_is_its_line_or_what_follows_in_a_long_one(before: str) -> None:
    said = "Allocation failed when allocating 4096 bytes"
    (text,) = read_messages(f"\n{before}{said}{'y' * 5000}".encode())[1]
    assert text == (said + "y" * 300)[:300]


MESSAGES = st.lists(
    st.tuples(st.integers(0, 40), st.sampled_from(["", "GPU 0", "GPU 1"]), st.sampled_from([None, 100, 1000, 2000, 9000])),
    max_size=14,
)  # fmt: skip
ROWS = st.lists(st.sampled_from([Kind.ALLOC, Kind.FREE, Kind.RESERVE, Kind.RELEASE]), max_size=12)


@given(ROWS, MESSAGES, st.integers(0, 14))
def test_messages_are_put_together_as_one_by_one(
    kinds: list[Kind], said: list[tuple[int, str, int | None]], whole: int
) -> None:
    said = sorted(said, key=lambda row: row[0])
    ooms = tuple(OutOfMemory(place, line, device, size, None, "") for line, (place, device, size) in enumerate(said, 1))
    devices = ("GPU 0", "GPU 1")
    columns = [
        (oom.offset, oom.line, devices.index(oom.device) if oom.device else -1, oom.requested_bytes or -1)
        for oom in ooms[whole:]
    ]
    later = None
    if columns:
        offset, line, device, asked = np.array(columns, np.int64).T
        later = MessageLines(offset, line, device, asked, *np.full((3, len(offset)), -1))
    facts = Facts(ooms=ooms[:whole], later_ooms=later, oom_devices=devices)
    log = Log.from_rows([(kind, 1, 4096 * k) for k, kind in enumerate(kinds)], facts=facts)
    found = failures_of(log)
    assert [(oom.offset, oom.device, oom.requested_bytes) for oom in found] == plain_failures(log, ooms)
    assert found.offset.tolist() == [oom.offset for oom in found]


@given(
    st.lists(st.tuples(st.sampled_from(list(Kind)), st.integers(1, 99)), max_size=30),
    st.sampled_from([2, 7, folding.BATCH]),
    st.sampled_from([0, 3, 99]),
    st.data(),
)
def test_levels_and_allocs_before_places_are_those_of_a_walk(
    rows: list[tuple[Kind, int]], batch: int, near: int, data: st.DataObject
) -> None:
    log = EventLog.from_rows([(kind, size, 0) for kind, size in rows])
    places = st.lists(st.integers(0, len(rows)), max_size=8)
    events, cuts = data.draw(places), np.array(sorted(data.draw(places)), np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folding, "BATCH", batch)
        patch.setattr(folding, "_NEAR", near)
        if len(cuts) > 1:
            folding.figures(log, cuts[:-1], cuts[1:])
        found = folding.levels_before(log, np.array(events, np.int64))
    signs = {Kind.ALLOC: (1, 0), Kind.FREE: (-1, 0), Kind.RESERVE: (0, 1), Kind.RELEASE: (0, -1)}
    levels = [[sum(signs[kind][row] * size for kind, size in rows[:event]) for row in (0, 1)] for event in events]
    assert found.tolist() == levels
    allocs = [sum(kind == Kind.ALLOC for kind, _ in rows[:event]) for event in events]
    assert allocs_before(log, np.array(events, np.int64)).tolist() == allocs


def many(count: int) -> bytes:
    """A block that is kept and then so many, each with a failure of another size after it."""
    log = LogText()
    log.chunk(1 << 30, 1 << 40)
    for k in range(count):
        log.alloc(512, (1 << 40) + 512 * k)
        log.lines.append(f"Out of memory error on GPU 0. Cannot allocate {k + 1}.000000GB memory on GPU 0.")
    return log.text.encode()


def test_of_thousands_of_failures_all_count_and_the_last_is_known_like_the_first() -> None:
    log = memlens.read(io.BytesIO(many(3000)))
    assert (trust_of(log).oom_messages, trust_of(log).distinct_ooms, len(trust_of(log).ooms)) == (3000, 3000, 100)
    found = failures(log)
    for k in (0, 99, 100, 2999):
        one = found[k]
        # A line of the chunk, and two lines each; the chunk is an event, too.
        assert (one.line, one.event, one.allocated_bytes) == (2 * k + 3, k + 1, 512 * (k + 1))
        assert (one.requested_bytes, one.allocs_after, one.device) == ((k + 1) << 30, 2999 - k, "GPU 0")


def test_a_log_that_is_cut_in_the_last_of_very_many_messages_counts_that_one(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_bytes(many(150) + b"Error Message Summary:\nResourceExhaustedError: ")
    log = memlens.read(tmp_path / "run.log")
    assert log.facts.oom_messages == 151
    assert failures_of(log)[149].requested_bytes == 150 << 30


def test_very_many_failures_are_counted_in_json_and_the_first_are_there(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_bytes(many(500))
    (log,) = memlens.analyze(tmp_path / "run.log").to_dict()["logs"]
    assert (len(log["ooms"]), log["ooms_left_out"]) == (10, 490)
    assert [oom["line"] for oom in log["trust"]["ooms"]] == [2 * k + 3 for k in range(100)]
