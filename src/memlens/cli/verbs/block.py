"""``memlens block``: tell the life of one block."""

from __future__ import annotations

from functools import partial

import click

from memlens.cli.options import Typed, verb
from memlens.cli.output import Show, reading, write_result
from memlens.errors import UsageError
from memlens.options.verbs import Block


def _place(text: str) -> int | str:
    """The number of a line, or an address as it was typed."""
    if text[:2].lower() == "0x":
        return text
    if not (text.isascii() and text.isdigit() and int(text[:19])):
        raise UsageError(f"{text!r} is neither the number of a line nor an address (0x7f6c…)")
    return int(text)


@verb(
    "block",
    [
        click.Argument(["log"], metavar="LOG"),
        click.Argument(["line"], metavar="LINE|ADDRESS", type=Typed("place", _place)),
    ],
    *(Block, Show),
)
def command(log: str, line: int | str, options: Block, show: Show) -> None:
    """Tell the life of the block that LINE of LOG allocates or frees, or of the last one that holds ADDRESS.

    LOG is any input that memlens reads, LINE the number of a line, or of an entry where the input has no lines: reports show them. ADDRESS is
    hexadecimal, as logs and debuggers have it.
    Shown are its ALLOC and FREE with the log lines around them, its owner or its whole call stack, how long it lives and how much is
    allocated meanwhile, and what lies beside it in its chunk.

    Examples:
      memlens block run.log 1942
      memlens block run.log.gz 1942 --context 10
      memlens block run.log 0x7f6cc2000000
      memlens block snapshot.pickle 2631
      memlens block run.log 1942 --format json
    """
    from memlens.analyzing.block import block_with
    from memlens.reports.block import life_blocks

    with reading(options, show, [log]) as how:
        life = block_with(log, line, how)
    write_result(life, show, partial(life_blocks, life, full=show.everything))
