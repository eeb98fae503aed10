"""Texts of one list, cut so that those that differ read differently."""

from __future__ import annotations

from memlens.text import STACK, shortened, width_of


def test_stacks_that_would_read_alike_are_written_as_far_as_they_differ() -> None:
    frames = "linear_of_a_long_name", "forward_of_a_long_name", "called_from_somewhere"
    texts = [STACK.join((*frames, end)) for end in ("first (a.py:1)", "second (b.py:2)")]
    shown = shortened(texts, 50)
    assert shown[0] != shown[1]
    assert "first" in shown[0] and "second" in shown[1]
    assert all(width_of(text) <= 50 for text in shown)


def test_texts_that_fit_stay_as_they_are_and_equal_ones_stay_equal() -> None:
    assert shortened(["relu", "matmul", "relu"], 20) == ["relu", "matmul", "relu"]
