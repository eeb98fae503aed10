"""Out-of-memory failures: what was asked for, what there was, and why it did not suffice."""

from memlens.analyzers.failures.failures import failures

__all__ = ["failures"]
