"""The builder puts parts together as one would by hand: columns, lines, examples, anchors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from memory_source import MemorySource

from memlens.errors import InputError, NoEventsError
from memlens.facts import Facts
from memlens.inputs.builder import Builder, Part
from memlens.inputs.input_format import Request

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


def test_a_column_that_comes_late_or_is_left_out_is_unknown_there() -> None:
    made = builder()
    made.add(Part(columns(1)))
    made.add(Part(columns(2, 3, requested=[20, 30])))
    made.add(Part(columns(4)))
    log = made.finish()
    assert log.requested is not None
    assert log.requested.tolist() == [-1, 20, 30, -1]
    assert log.anchors == ()


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
