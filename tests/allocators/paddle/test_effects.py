"""When FREEs of several threads took effect: by hand, and held against the plain reference."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import plain_effects
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from night import many

from memlens.allocators.engine import compiled
from memlens.allocators.paddle import rows as module
from memlens.allocators.paddle.rows import effects, uncertain

ALLOC, FREE, RESERVE, RELEASE = range(4)
#: A chunk of 512 bytes and one of 1,024, each one block; the second is freed, and then the first by another thread.
CHUNKS = [
    (RESERVE, 512, 0x1000, 0),
    (ALLOC, 512, 0x1000, 0),
    (RESERVE, 1024, 0x3000, 0),
    (ALLOC, 1024, 0x3000, 0),
    (FREE, 1024, 0x3000, 0),
    (FREE, 512, 0x1000, 0),
]


def found(rows: list[tuple[int, int, int, int]], until: dict[int, int], emptied: tuple[int, ...] = ()) -> list[int]:
    """Where FREEs took effect; ``until`` has those that may be late."""
    kind, size, addr, free = zip(*rows, strict=True)
    ends = np.array([until.get(row, row + 1) for row in range(len(rows))])
    gone = np.zeros(len(rows), np.bool_)
    gone[list(emptied)] = True
    columns = np.array(kind, np.int8), np.array(size), np.array(addr, np.uint64), np.array(free)
    places: list[int] = effects(*columns, ends, gone).tolist()
    return places


def test_a_free_that_an_alloc_of_another_thread_did_not_see_took_effect_after_it() -> None:
    """512 bytes fit the first chunk exactly, and were cut from the second: the first one was not free yet."""
    rows = [*CHUNKS, (ALLOC, 512, 0x3200, 1024), (ALLOC, 512, 0x1000, 512)]
    assert found(rows, {5: 8}) == [0, 1, 2, 3, 4, 6, 6, 7]


def test_a_free_is_never_later_than_the_next_line_of_its_thread() -> None:
    rows = [*CHUNKS, (ALLOC, 512, 0x3200, 1024), (ALLOC, 512, 0x3000, 512)]
    assert found(rows, {5: 7}) == [0, 1, 2, 3, 4, 6, 6, 7]  # the second ALLOC cannot be right, and moves nothing
    assert found(rows, {}) == [*range(8)]


def test_a_neighbour_that_was_freed_later_is_not_part_of_the_block() -> None:
    """Both halves of a chunk are freed; 256 bytes were cut from the 512 of the first half alone."""
    rows = [
        (RESERVE, 1024, 0x1000, 0),
        (ALLOC, 512, 0x1200, 0),
        (ALLOC, 512, 0x1000, 512),
        (FREE, 512, 0x1000, 0),
        (FREE, 512, 0x1200, 0),
        (ALLOC, 256, 0x1100, 512),
    ]
    assert found(rows, {4: 6}) == [0, 1, 2, 3, 5, 5]


def test_uncertain_are_frees_with_an_alloc_before_the_next_line_of_their_thread() -> None:
    kind = np.array([FREE, ALLOC, FREE, RESERVE, ALLOC, FREE], np.int8)
    assert uncertain(kind, np.array([2, 2, 4, 4, 5, 6])).tolist() == [True, False, False, False, False, False]


units = st.integers(0, 12).map(lambda unit: unit * 256)
any_rows = st.lists(
    st.tuples(st.integers(0, 3), units, st.integers(0, 24).map(lambda unit: unit * 256), units), min_size=1, max_size=60
)


@settings(max_examples=many(400))
@given(
    any_rows, st.lists(st.integers(0, 30), min_size=60, max_size=60), st.integers(0, 2**60), st.lists(units, max_size=3)
)
def test_compiled_and_reference_agree_on_any_rows(rows: Any, waits: list[int], bits: int, advance: list[int]) -> None:
    kind, size, addr, free = (np.array(column) for column in zip(*rows, strict=True))
    count = len(rows)
    until = np.arange(count) + 1 + np.array(waits[:count])
    emptied = np.zeros(count, np.bool_)
    for row in np.flatnonzero((kind == FREE) & (until < count)).tolist():
        emptied[row] = bits >> row & 1 and kind[until[row]] == RELEASE and not (until[emptied] == until[row]).any()
    given_ = (kind.astype(np.int8), size, addr.astype(np.uint64), free, until, emptied, advance)
    found = effects(*given_)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "compiled", lambda: plain_effects)
        assert effects(*given_).tolist() == found.tolist()


def test_an_interrupt_ends_the_work() -> None:
    """Many rows, the last of which tell of a late FREE: not when somebody interrupts before they are reached."""
    native = compiled()
    late = [*CHUNKS, (ALLOC, 512, 0x3200, 1024), (ALLOC, 512, 0x1000, 512)]
    many = 1 << 20
    before = np.array([(RESERVE, 256, 0x9000, 0), *[(ALLOC, 256, 0x9000, 256), (FREE, 256, 0x9000, 0)] * 8], np.int64)
    rows = np.concatenate((before[:1], np.tile(before[1:], (many // 16, 1)), np.array(late, np.int64)))
    kind, addr = rows[:, 0].astype(np.int8), rows[:, 2].astype(np.uint64)
    size, free = np.ascontiguousarray(rows[:, 1]), np.ascontiguousarray(rows[:, 3])
    until = np.arange(len(rows)) + 1
    until[-3] = len(rows)
    waits = np.zeros(len(rows), np.int8)
    waits[-3] = 1
    columns = kind, size, addr, free, until, waits, np.full(len(rows), -1), np.zeros(0, np.int64)
    found = np.arange(len(rows))
    native.effects(*columns, found)
    assert found[-8:].tolist() == [*range(many + 1, many + 6), many + 7, many + 7, many + 8]

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def interrupted() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.005)
        native.effects(*columns, found)

    own, found = signal.signal(signal.SIGALRM, interrupt), np.arange(len(rows))
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, own)
    assert found[-3] == many + 6  # as it stood


def test_columns_that_do_not_belong_together_are_refused() -> None:
    native = compiled()
    ints, bytes_ = np.zeros(3, np.int64), np.zeros(3, np.int8)
    words = ints.astype(np.uint64)
    with pytest.raises(ValueError, match="one length"):
        native.effects(bytes_, ints, words, ints, ints[:2], bytes_, ints, ints.copy(), ints.copy())
    with pytest.raises(ValueError, match="8 bytes"):
        native.effects(bytes_, bytes_, words, ints, ints, bytes_, ints, ints, ints)
    with pytest.raises(TypeError, match="9 columns"):
        native.effects(bytes_)
