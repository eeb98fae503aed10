"""``memlens slice``: cut the raw text of a window out of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from memlens.cli.options import verb
from memlens.cli.output import Output, note, progress_bar
from memlens.options.verbs import Slice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memlens.exporting.extract import Piece


@verb("slice", [click.Argument(["log"], metavar="LOG")], *(Slice, Output))
def command(log: str, options: Slice, to: Output) -> None:
    r"""Cut the text of a window out of LOG, byte for byte.

    LOG is a file (plain or compressed) or - for stdin. The window starts with the line that matches the start and ends
    before the first later line that matches any end; without a start it begins with the log.

    Examples:
      memlens slice run.log --start "START SOT_CALL_4" --end "END SOT_CALL_4"
      memlens slice run.log --start-regex "STEP \d+ START" --nth 3 \
                            --end-regex "STEP \d+ END" -o step3.log
      diff <(memlens slice base.log --start "START LOSS" --end "START OPT" \
                           --events-only --renumber) \
           <(memlens slice head.log --start "START LOSS" --end "START OPT" \
                           --events-only --renumber)
      zcat run.log.gz | memlens slice - --end "EPOCH 1 START" | less
    """
    from memlens.exporting.extract import slice_with

    with progress_bar([log] if not to.on_stdout else [], to) as progress:
        piece = slice_with(log, options.replace(output=to.output, force=to.force, progress=progress))
    for text in _notes(piece, log, to):
        note(text, to)


def _notes(piece: Piece, log: str, to: Output) -> Iterator[str]:
    from memlens.text import visible

    if piece.cut_short:
        yield f"{visible(log)}: {visible(piece.cut_short)}; what was readable is cut"
    if piece.open_end:
        yield "no line matches the end, so the window goes to the end of the log"
    # Whoever pipes the text on sees it; it is said of stdout where much is to be said.
    if not to.on_stdout or to.verbose:
        target = "stdout" if to.on_stdout else visible(str(to.output))
        lines = piece.end_line - piece.start_line + 1
        which = f"lines {piece.start_line:,}-{piece.end_line:,} ({lines:,})" if lines else "no line"
        yield f"{target}: {piece.written_bytes:,} bytes, from {which} of {visible(log)}"
