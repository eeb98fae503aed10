"""Write a log in a form that other tools open."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memlens.errors import UsageError
from memlens.exporting.forms import FORMS, Counted, Wanted, Written
from memlens.inputs import Reading
from memlens.keywords import with_keywords
from memlens.options import Export, as_list
from memlens.output import open_output, refuse_inputs, refuse_overwrite
from memlens.text import plural

if TYPE_CHECKING:
    from memlens.inputs import Input

__all__ = ["Exported", "export", "export_with"]


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        to: The form.
        rows: Rows of a table, slices of a trace, stacks of a profile.
        written_bytes: Bytes of the file.
        remarks: What to know of it, like what its time axis is.
    """

    to: str
    rows: int
    written_bytes: int
    remarks: tuple[str, ...] = ()

    @property
    def counted(self) -> str:
        """How much it is, in words: ``1,942 rows``."""
        return plural(self.rows, FORMS[self.to].unit)


def export_with(log: Input, options: Export) -> Exported:
    """Write the events of a log, or the lifetimes of its blocks, in a form that other tools open.

    ``parquet``, ``csv`` and ``jsonl`` are tables; ``perfetto`` is a trace with the levels as counters and a slice a block; ``speedscope``
    and ``pprof`` are profiles of what is live at the peak and of what was allocated, by call stack or owner.

    Args:
        log: A path (``-`` is standard input), a URL, a binary file, or a log already read.
        options: See :class:`memlens.options.Export`.

    Raises:
        AnchorError: A start that marks no line.
        InputError: The log cannot be read, or Parquet is asked for and pyarrow is not installed.
        OutputError: The output exists, or cannot be written.
        UsageError: No such form, a table of what is none, a profile of several windows, an input of several devices of which none is named, or an
            output that is the input.
    """
    if options.to not in FORMS:
        which = f"no form is called {options.to!r}" if options.to else "nothing says which form to write"
        raise UsageError(which, f"There are: {', '.join(FORMS)}. Name one of them with --to.")
    form = FORMS[options.to]
    if options.table != "events" and not form.tables:
        raise UsageError(f"{options.to} is no table of {options.table}", "Leave out --table.")
    if options.series and form.one_window:
        raise UsageError(f"{options.to} is of one window", "Cut one with --start or --start-regex instead of --by.")
    output = options.output
    # What it is written to stands before the work: stdout must not be the log either.
    refuse_inputs(["-" if output is None else output], [log])
    refuse_overwrite(output, options.force)
    if form.binary and output in (None, "-") and sys.stdout is not None and sys.stdout.isatty():
        raise UsageError(f"{options.to} is no text for a terminal", "Name a file with -o, or pipe it on.")
    writer = getattr(importlib.import_module(f"memlens.exporting.{form.module}"), f"write_{options.to}")
    if options.to == "parquet":
        from memlens.inputs.parquet.reader import need_pyarrow

        need_pyarrow("writing Parquet")
    from memlens.windows.windows import as_patterns

    reading = Reading(
        options.patterns,
        strict=options.strict,
        times=True,
        owners=as_patterns(as_list(options.owners), regex=True),
        how=options,
        threads=True,
        landmarks=True,
    )
    read = reading.read(log)
    windows = options.windows(read)
    written = Written(0)  # all there is to say where the reader of a pipe leaves before the end
    with open_output(output, options.force) as out:
        counted = Counted(out)
        written = writer(Wanted(read, windows, options.table, options.given, options.series), counted)
    return Exported(options.to, written.rows, counted.tell(), written.remarks)


export = with_keywords("export", export_with, Export)
