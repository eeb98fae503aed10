"""Stat lines read together are the ones that the regular expression finds."""

from __future__ import annotations

import io
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from night import many
from paddle import read
from texts import read_packed

from memlens.facts import StatLines
from memlens.inputs.paddle.other_events import STAT_LINE

FIRST = b"Alloc 7 bytes, ptr = 0x7\n"


def read_stat_lines(text: bytes) -> StatLines | None:
    """The stat lines of a text; an event in front, so that there is a log."""
    return read(io.BytesIO(FIRST + text)).facts.stat_lines


def rows(text: bytes) -> list[tuple[int, bool, int, int, int]]:
    found = read_stat_lines(text)
    if found is None:
        return []
    columns = (found.device, found.reserved, found.change, found.current, found.peak)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def plain_rows(text: bytes) -> list[tuple[int, bool, int, int, int]]:
    return [
        (
            int(m["device"]) if m["where"] == b"Device" else -1,
            m["what"] == b"Reserved",
            int(m["change"]),
            int(m["current"]),
            -1 if m["peak"] is None else int(m["peak"]),
        )
        for line in text.split(b"\n")
        for m in STAT_LINE.find_all(line)
    ]


numbers = st.sampled_from(
    ["0", "256", "-256", "99999999", "123456789", "-140737488355328", "1234567890123456", "", "x1", "--2"]
)
names = st.sampled_from(["DeviceMemoryStatAllocated0", "HostMemoryStatAllocated0", "DeviceMemoryStatReserved12", "HostMemoryStatReserved0",
                         "MemoryStatAllocated0", "DeviceMemoryStatAllocated", "DeviceMemoryStatReserved12345", "GpuMemoryStatReserved1"])  # fmt: skip
stats = st.builds(
    "I1120 10:54:59.653695 14969 stats.h:94] {}: Update current_value with {}, after update, {}current value = {}".format,
    names,
    numbers,
    st.one_of(st.just(""), st.builds("peak_value = {} , ".format, numbers), st.just("peak_value = 5, ")),
    numbers,
)


@given(st.lists(st.one_of(stats, st.builds(lambda line, n: line[:n], stats, st.integers(0, 160))), max_size=12))
@settings(max_examples=many(300))
def test_stat_lines_are_those_of_the_regular_expression(lines: list[str]) -> None:
    text = "\n".join(lines).encode()
    assert rows(text) == plain_rows(text)


def test_stat_lines_of_real_logs_are_those_of_the_regular_expression(shared: Path) -> None:
    for name in ("08_cpu_stats_331.log", "10_v8_dygraph_331.log.gz", "10_v10_ast_pt_30.log.gz"):
        text = read_packed(shared / "data/paddle" / name)
        assert rows(text) == plain_rows(text)
        assert len(rows(text)) > 100
