"""Out-of-memory failures in one sentence."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from memlens.analyzers.failures.causes import UNKNOWN, holds_much
from memlens.text import LINES, Terms, format_count, innermost, short_name
from memlens.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlens.analyzers.failures.failures import MemoryFailure


#: Failures that are looked at to tell whether they are of several devices.
_LOOKED_AT = 10
_CAUSES = {"too much": "too much in use", UNKNOWN: "why cannot be told from the log"}


def failure_sentence(failures: Sequence[MemoryFailure], terms: Terms = LINES, who: str = "") -> str:
    """Return a sentence on what ran out, where, and why: of the failure that the run ended in, or else of the first one.

    Args:
        failures: All failures of a log; at least one.
        terms: What its lines are called.
        who: The run, as the subject of the sentence; nothing where there is one.
    """
    at = most_telling(failures)
    failure = failures[at]
    words = f"{who} ran out of memory" if who else "Ran out of memory"
    words += f"{on_device(failures, failure)} at {terms.at(failure.line)}"
    if failure.owner and failure.requested_bytes is None:
        words += f" in {asker(failure.owner)}"
    words += "" if failure.ended else ", and went on"
    figures = _figures(failure, terms.chunk)
    cause = failure.cause
    why = _too_large(failure) if cause == "too much" else ""
    if cause == UNKNOWN and failure.requested_bytes is None:
        why = "how much was asked for is not in the log"
    count = len(failures)
    place = "the first" if at == 0 else "the last" if at == count - 1 else "one"
    others = f"; {place} of {format_count(count)} failures" if count > 1 else ""
    return f"{words}{': ' if figures else ''}{figures} ({why or _CAUSES.get(cause, cause)}{others})."


def on_device(failures: Sequence[MemoryFailure], failure: MemoryFailure) -> str:
    """``on`` and the device of one of some failures, where these name several."""
    devices = {one.device for one in failures[:_LOOKED_AT]} - {""}
    return f" on {short_name(failure.device)}" if failure.device and len(devices) > 1 else ""


def _too_large(failure: MemoryFailure) -> str:
    """Why a request is too much that is larger than all there is, or that a limit keeps from its memory."""
    total = failure.device_total_bytes
    never = failure.requested_bytes is not None and total is not None and failure.requested_bytes > total
    if failure.limit_bytes is not None:
        return f"{'more than' if never else 'too much for'} the limit of the process"
    if never:
        return f"more than the {format_bytes(total or 0)} that the device has in all"
    own, left = failure.reserved_bytes, failure.device_free_bytes
    own = failure.allocated_bytes if own is None else own
    alone = own is not None and left is not None and (failure.requested_bytes or 0) > own + left
    return "too much asked for" if alone else ""  # giving back all of its own would not have helped


def _figures(failure: MemoryFailure, chunk: str) -> str:
    asked, allocated, reserved = failure.requested_bytes, failure.allocated_bytes, failure.reserved_bytes
    words = ""
    if asked is not None:
        needs = format_bytes(asked)
        words = f"{asker(failure.owner)} asked for {needs}" if failure.owner else f"{needs} were asked for"
    in_use = ""
    if allocated is not None:
        in_use = f"{format_bytes(allocated)} were allocated"
        if reserved is not None:
            in_use = f"{format_bytes(allocated)} of the {format_bytes(reserved)} reserved were in use"
    if failure.device_free_bytes is not None:
        left = f"{format_bytes(failure.device_free_bytes)} left {_of_device(failure)}"
        in_use += f", with {left}" if in_use else f"there were {left}"
    words += f"{', and ' if words and in_use else ''}{in_use}"
    further = [_pieces(failure, chunk) if failure.cause in ("fragmented", UNKNOWN) else "", _elsewhere(failure)]
    return "; ".join(filter(None, [words, *further]))


def _of_device(failure: MemoryFailure) -> str:
    if failure.limit_bytes is None:
        return "on the device"
    return f"of the {format_bytes(failure.limit_bytes)} that FLAGS_gpu_memory_limit_mb allows"


def _pieces(failure: MemoryFailure, chunk: str) -> str:
    """Return words on what was free inside chunks, and why it did not serve."""
    if not failure.free_bytes or failure.largest_gap_bytes is None:
        return ""
    words = f"{format_bytes(failure.free_bytes)} were free inside {chunk}s"
    but = ", but" if failure.cause == "fragmented" else ","
    if failure.gaps == 1:
        return f"{words}{but} in one piece by itself"
    return f"{words}{but} in pieces of at most {format_bytes(failure.largest_gap_bytes)}"


def _elsewhere(failure: MemoryFailure) -> str:
    """Return words on what other processes held of the device, where that is much."""
    held, total = failure.elsewhere_bytes, failure.device_total_bytes
    if held is None or total is None or not holds_much(held, total):
        return ""
    return f"{format_bytes(held)} of the device's {format_bytes(total)} were neither free nor reserved by this run"


def asker(owner: str) -> str:
    """The operator or the innermost frame of an owner, harmless and short."""
    return short_name(innermost(owner))


def most_telling(failures: Sequence[MemoryFailure]) -> int:
    """Which failure to tell of first: the first one of those that the run ended in, which come last; else the first."""
    at = bisect_left(range(len(failures)), True, key=lambda k: failures[k].ended)
    return at if at < len(failures) else 0
