"""What the ranks of a job show to people."""

from memlens.reports.ranks.screen import ranks_blocks

__all__ = ["ranks_blocks"]
