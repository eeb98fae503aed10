"""What a comparison of many runs shows to people."""

from memlens.reports.compare.screen import compare_blocks

__all__ = ["compare_blocks"]
