"""Out-of-memory failures: what was asked for, what there was, and why it did not suffice."""

from memlens.analyzers.failures.failures import LiveBlock, MemoryFailure, failures, failures_outside, run_ended_in
from memlens.analyzers.failures.words import failure_sentence, most_telling

__all__ = [
    "LiveBlock",
    "MemoryFailure",
    "failure_sentence",
    "failures",
    "failures_outside",
    "most_telling",
    "run_ended_in",
]
