"""The builder puts parts together as one would by hand: columns, lines, examples, anchors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from memlens.errors import InputError, NoEventsError
from memlens.facts import Facts
from memlens.inputs.builder import Builder, Part, Text
from memlens.inputs.growing import GrowingColumn
from memlens.inputs.registry import Request
from memlens.source import MemorySource
from memlens.windows.patterns import Match, Pattern

TYPES = {"kind": np.int8, "size": np.int64, "addr": np.uint64, "offset": np.int64}


class Lines(MemorySource):
    """A source that keeps its line index."""

    def index(self, offsets: Any, lines: Any) -> None:
        self.indexed = (offsets.tolist(), lines.tolist())


def columns(*sizes: int, **more: list[int]) -> dict[str, Any]:
    count = len(sizes)
    return {
        "kind": np.zeros(count, np.int8),
        "size": np.array(sizes, np.int64),
        "addr": np.arange(count, dtype=np.uint64),
        "offset": np.arange(count),
        **{name: np.array(values, np.int64) for name, values in more.items()},
    }


def builder(**request: Any) -> Builder:
    return Builder(Lines(), Request(**request), TYPES)


def test_parts_follow_each_other_and_lines_count_on() -> None:
    source, pattern = Lines(), Pattern("x")
    made = Builder(source, Request(patterns=(pattern,)), TYPES, size=300)
    made.add(
        Part(
            columns(1, 2), offset=0, size=100, lines=3, line=np.array([0, 2]), malformed=1, samples=(Text(7, 1, b"a"),),
            anchors=([Match(5, 1, "one")],), hints={"prealloc": 2},
        )
    )  # fmt: skip
    made.add(
        Part(
            columns(3), offset=100, size=200, lines=4, line=np.array([1]), malformed=7, ends_mid_line=True,
            samples=tuple(Text(100 + k, k, b"b\xff" * 200) for k in range(7)), anchors=([Match(150, 2, "two")],),
            hints={"prealloc": 0, "binary": 0},
        )
    )  # fmt: skip
    log = made.finish(cut_short="the end is missing")
    assert log.size.tolist() == [1, 2, 3]
    assert log.line is not None
    assert log.line.tolist() == [1, 3, 5]
    facts = log.facts
    assert (facts.bytes, facts.lines, facts.malformed, facts.ends_mid_line) == (300, 8, 8, True)
    assert [(sample.offset, sample.line) for sample in facts.malformed_samples] == [
        (7, 2), (100, 4), (101, 5), (102, 6), (103, 7)
    ]  # fmt: skip
    assert facts.malformed_samples[1].text == "b\ufffd" * 100
    assert facts.hints == {"prealloc": 3, "binary": 4}
    assert facts.cut_short == "the end is missing"
    (anchor,) = log.anchors
    assert [*map(list, (anchor.offsets, anchor.lines, anchor.names))] == [[5, 150], [2, 6], ["one", "two"]]
    assert source.indexed == ([0, 100], [0, 3])


def test_a_column_that_comes_late_or_is_left_out_is_unknown_there() -> None:
    made = builder()
    made.add(Part(columns(1)))
    made.add(Part(columns(2, 3, requested=[20, 30])))
    made.add(Part(columns(4)))
    log = made.finish()
    assert log.requested is not None
    assert log.requested.tolist() == [-1, 20, 30, -1]
    assert log.anchors == ()


def test_rows_are_chosen_and_columns_kept_for_another_log() -> None:
    made = builder()
    made.add(Part(columns(1, 2, 3, 4)))
    even = np.array([False, True, False, True])
    one = made.finish(rows=even, keep=True, columns={"device": 1}, facts={"layer": "mine"})
    other = made.finish(rows=~even, columns={"device": 2})
    assert (one.size.tolist(), one.device, one.facts.layer) == ([2, 4], 1, "mine")
    assert (other.size.tolist(), other.device) == ([1, 3], 2)


def test_columns_made_elsewhere_are_taken_as_they_are() -> None:
    given = columns(5, 6)
    log = builder().finish(columns=given)
    assert log.size is given["size"]
    with pytest.raises(InputError, match="4 EiB"):
        builder().finish(columns=columns(1 << 62, 1 << 61))


def test_sums_of_sizes_stay_in_bounds() -> None:
    made = builder()
    made.add(Part(columns(1 << 61), lines=1, size=1))
    with pytest.raises(InputError, match="4 EiB by line 3"):
        made.add(Part(columns(1 << 61, 1 << 61), lines=2, size=1))


def test_nothing_is_an_error_and_what_is_cut_short_where_all_is_wanted() -> None:
    made = builder()
    made.add(Part(columns(), lines=2, size=10))
    with pytest.raises(NoEventsError):
        made.finish(keep=True)
    with pytest.raises(NoEventsError, match="2 lines"):
        made.finish(nothing=lambda facts: NoEventsError(f"{facts.lines} lines", ""))
    strict = builder(strict=True)
    strict.add(Part(columns(1)))
    with pytest.raises(InputError, match="the stream ends in the middle"):
        strict.finish(cut_short="the stream ends in the middle")
    assert strict.finish().facts == Facts()


@pytest.mark.parametrize("done", [0.0, 0.3, 1.0])
def test_a_growing_column_holds_what_was_appended(done: float) -> None:
    column = GrowingColumn(np.int32)
    expected: list[int] = []
    for count in (0, 1, 5000, 3, 20_000):
        part = np.arange(count, dtype=np.int32) + len(expected)
        column.append(part, done)
        column.fill(-1, count % 4, done)
        expected += part.tolist() + [-1] * (count % 4)
    assert column.entries().tolist() == expected
    assert len(column) == len(expected)
