"""``memlens slice``: cut the raw text of a window out of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from memlens.cli.options import Cut, anchor_options, output_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memlens.extract import Piece

__all__ = ["slice_command"]


@click.command(
    "slice",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  memlens slice run.log --start "START SOT_CALL_4" --end "END SOT_CALL_4"
  memlens slice run.log --start-regex "STEP \\d+ START" --nth 3 \\
                        --end-regex "STEP \\d+ END" -o step3.log
  diff <(memlens slice base.log --start "START LOSS" --end "START OPT" \\
                       --events-only --renumber) \\
       <(memlens slice head.log --start "START LOSS" --end "START OPT" \\
                       --events-only --renumber)
  zcat run.log.gz | memlens slice - --end "EPOCH 1 START" | less""",
)
@click.argument("log", metavar="LOG")
@anchor_options(by=False)
@click.option(
    "--events-only",
    is_flag=True,
    help="Keep only the lines with an allocator event, and the lines that match --start or --end.",
)
@click.option(
    "--renumber",
    is_flag=True,
    help="Write addresses as #1, #2, … in order of first use, and leave out time stamps and thread ids, so that any diff "
    "tool can compare two runs.",
)
@output_options
def slice_command(log: str, cut: Cut, events_only: bool, renumber: bool, output: str | None, force: bool) -> None:
    """Cut the text of a window out of LOG, byte for byte.

    LOG is a file (plain or compressed) or - for stdin. The window starts with the line that matches the start and ends
    before the first later line that matches any end; without a start it begins with the log.
    """
    from memlens.cli.progress import progress_bar
    from memlens.extract import slice_log

    with progress_bar([log] if output not in (None, "-") else []) as progress:
        piece = slice_log(
            log,
            output,
            start=cut.start,
            end=cut.end,
            start_regex=cut.start_regex,
            end_regex=cut.end_regex,
            nth=cut.nth,
            events_only=events_only,
            renumber=renumber,
            force=force,
            progress=progress,
        )
    for note in _notes(piece, log, output):
        click.echo(f"memlens: {note}", err=True)


def _notes(piece: Piece, log: str, output: str | None) -> Iterator[str]:
    from memlens.reports.text import visible

    if piece.cut_short:
        yield f"{visible(log)}: {visible(piece.cut_short)}; what was readable is cut"
    if piece.open_end:
        yield "no line matches the end, so the window goes to the end of the log"
    if output not in (None, "-"):
        lines = piece.end_line - piece.start_line + 1
        place = f"lines {piece.start_line:,}-{piece.end_line:,} ({lines:,})" if lines else "no line"
        yield f"{visible(str(output))}: {piece.written_bytes:,} bytes, from {place} of {visible(log)}"
