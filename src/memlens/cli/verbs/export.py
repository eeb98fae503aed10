"""``memlens export``: write a log in a form that other tools open."""

from __future__ import annotations

import click

from memlens.cli.options import verb
from memlens.cli.output import Output, note, reading
from memlens.options.verbs import Export


@verb("export", [click.Argument(["log"], metavar="LOG")], *(Export, Output))
def command(log: str, options: Export, to: Output) -> None:
    """Write LOG in a form that other tools open.

    LOG is any input that memlens reads. Parquet, CSV and JSON lines are tables of its events, or of the lifetimes of its blocks; perfetto is
    a trace with allocated and reserved bytes as counters and each block as a slice; speedscope is profiles of what is live at the
    peak and of what was allocated. A Parquet file of all events is an input of memlens again.

    Examples:
      memlens export run.log --to parquet -o events.parquet
      memlens export run.log --to csv --table lifetimes -o lifetimes.csv
      memlens export run.log --to perfetto -o run.pftrace    # for ui.perfetto.dev
      memlens export snapshot.pickle --to speedscope -o run.speedscope.json
      memlens export run.log --to jsonl | jq 'select(.size_bytes > 1e9)'
    """
    from memlens.exporting.export import export_with
    from memlens.text import visible

    with reading(options, to, [log]) as how:
        written = export_with(log, how.replace(output=to.output, force=to.force))
    for remark in written.remarks:
        note(visible(remark), to)
    if not to.on_stdout or to.verbose:
        target = "stdout" if to.on_stdout else visible(str(to.output))
        note(f"{target}: {written.written_bytes:,} bytes, {written.counted}", to)
