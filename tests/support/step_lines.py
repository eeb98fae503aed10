"""Logs of steps written by hand, a line a text."""

from __future__ import annotations

from collections.abc import Sequence

ALLOC = "I1120 10:22:32.856307 13292 auto_growth_best_fit_allocator.cc:270] Alloc 256 bytes, ptr = 0x5606f8aeb000"


def text_of(lines: Sequence[str]) -> str:
    """The text of a log; ``*`` stands for three events."""
    return "".join("\n".join([ALLOC] * 3 if line == "*" else [line]) + "\n" for line in lines)


def steps(*anchors: str, count: int = 5) -> list[str]:
    """A run: before it and after each anchor line some events; ``{}`` is the number of the step."""
    return ["*", *(line for k in range(count) for anchor in anchors for line in (anchor.replace("{}", str(k)), "*"))]
