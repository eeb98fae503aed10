"""Out-of-memory failures in one sentence."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from memlens.text import LINES, Terms, format_count, innermost, short_name
from memlens.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlens.analyzers.failures.failures import MemoryFailure

__all__ = ["asker", "failure_sentence", "most_telling"]


def failure_sentence(failures: Sequence[MemoryFailure], terms: Terms = LINES, who: str = "") -> str:
    """What ran out, where, and why: of the failure that the run ended in, or else of the first one.

    Args:
        failures: All failures of a log; at least one.
        terms: What its lines are called.
        who: The run, as the subject of the sentence; nothing where there is one.
    """
    failure = failures[most_telling(failures)]
    words = f"{who} ran out of memory" if who else "Ran out of memory"
    words += f" at {terms.at(failure.line)}"
    if failure.owner:
        words += f" in {asker(failure.owner)}"
    words += "" if failure.ended else ", and went on"
    figures = ", ".join(_figures(failure))
    cause: str = failure.cause if failure.cause != "unknown" else "why cannot be told from the log"
    if failure.cause == "another process":
        cause += f", as {failure.explanation}"
    others = f" (one of {format_count(len(failures))} such failures)" if len(failures) > 1 else ""
    return f"{words}: {figures}{': ' if figures else ''}{cause}{others}."


def _figures(failure: MemoryFailure) -> list[str]:
    found = []
    if failure.requested_bytes is not None:
        found.append(f"{format_bytes(failure.requested_bytes)} asked for")
    if failure.allocated_bytes is not None:
        of = "" if failure.reserved_bytes is None else f" of {format_bytes(failure.reserved_bytes)} reserved"
        found.append(f"{format_bytes(failure.allocated_bytes)} allocated{of}")
    if failure.largest_gap_bytes is not None:
        found.append(f"largest gap {format_bytes(failure.largest_gap_bytes)}")
    if failure.device_free_bytes is not None:
        found.append(f"{format_bytes(failure.device_free_bytes)} left on the device")
    return found


def asker(owner: str) -> str:
    """The operator or the innermost frame of an owner, harmless and short."""
    return short_name(innermost(owner))


def most_telling(failures: Sequence[MemoryFailure]) -> int:
    """Which failure to tell of first: the first one of those that the run ended in, which come last; else the first."""
    at = bisect_left(range(len(failures)), True, key=lambda k: failures[k].ended)
    return at if at < len(failures) else 0
