"""What replays of a run under other settings show to people."""

from memlens.reports.whatif.screen import whatif_blocks

__all__ = ["whatif_blocks"]
