"""``memlens block``: tell the life of one block."""

from __future__ import annotations

from dataclasses import replace

import click

from memlens.cli.options import Show, verb
from memlens.options import Block

__all__ = ["command"]


@verb(
    "block",
    [click.Argument(["log"], metavar="LOG"), click.Argument(["line"], metavar="LINE", type=click.IntRange(min=1))],
    *(Block, Show),
    examples="""\
  memlens block run.log 1942
  memlens block run.log.gz 1942 --context 10
  memlens block snapshot.pickle 2631
  memlens block run.log 1942 --format json""",
)
def command(log: str, line: int, options: Block, show: Show) -> None:
    """Tell the life of the block that LINE of LOG allocates or frees.

    LOG is any input that memlens reads, LINE the number of a line, or of an entry where the input has no lines: reports show them.
    Shown are its ALLOC and FREE with the log lines around them, its owner or its whole call stack, how long it lives and how much is
    allocated meanwhile, and what lies beside it in its chunk.
    """
    from memlens.analyzing.block import block_with
    from memlens.cli.output import progress_bar, refuse_outputs, write_result
    from memlens.reports.block import life_blocks

    refuse_outputs(show, (log,), formats=options.formats)
    with progress_bar([log], show) as progress:
        life = block_with(log, line, replace(options, progress=progress))
    write_result(life, show, lambda: life_blocks(life, full=show.everything))
