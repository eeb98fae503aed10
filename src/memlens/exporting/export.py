"""Write a log in a form that other tools open."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from memlens.errors import UsageError
from memlens.exporting.tables import Counted, Wanted, Written
from memlens.inputs import Reading
from memlens.options.keywords import with_keywords
from memlens.options.verbs import Export
from memlens.output import open_output, refuse_inputs, refuse_overwrite
from memlens.text import plural

if TYPE_CHECKING:
    from pathlib import Path

    from memlens.log import Input

__all__ = ["Exported", "export", "export_with"]


class Form(NamedTuple):
    """A form.

    Attributes:
        module: The module of :mod:`memlens.exporting` that has its writer, ``write_`` and the form's name.
        tables: It is a table, of events or of lifetimes.
        binary: It is no text.
        one_window: It shows one window and not a series.
        unit: What is counted of it.
        endings: How names of such files end.
    """

    module: str
    tables: bool = False
    binary: bool = False
    one_window: bool = False
    unit: str = "row"
    endings: tuple[str, ...] = ()


#: By their names.  To add one, add it here, and its name in the documentation of the option.
FORMS: dict[str, Form] = {
    "parquet": Form("tables", tables=True, binary=True, endings=(".parquet",)),
    "csv": Form("tables", tables=True, endings=(".csv",)),
    "jsonl": Form("tables", tables=True, endings=(".jsonl",)),
    "perfetto": Form("perfetto", binary=True, unit="slice", endings=(".pftrace", ".perfetto-trace")),
    "speedscope": Form("profiles", one_window=True, unit="stack", endings=(".speedscope.json",)),
}


class Exported(Struct, frozen=True):
    """An export that was written.

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
    shows what is live at the peak and what was allocated, by call stack or owner.

    Args:
        log: A path (``-`` is standard input), a URL, a binary file, or a log already read.
        options: See :class:`memlens.options.verbs.Export`.

    Raises:
        AnchorError: A start that marks no line.
        InputError: The log cannot be read, or Parquet is asked for and pyarrow is not installed.
        OutputError: The output exists, or cannot be written.
        UsageError: No such form, a table of what is none, a profile of several windows, an input of several devices of which none is named, or an
            output that is the input.
    """
    to = options.to or _form_of(options.output)
    if to not in FORMS:
        which = f"no form is called {to!r}" if to else "nothing says which form to write"
        raise UsageError(which, f"There are: {', '.join(FORMS)}. Name one of them with --to.")
    form = FORMS[to]
    if options.table != "events" and not form.tables:
        raise UsageError(f"{to} is no table of {options.table}", "Leave out --table.")
    if options.series and form.one_window:
        raise UsageError(f"{to} is of one window", "Cut one with --start or --start-regex instead of --by.")
    output = options.output
    # What it is written to stands before the work: stdout must not be the log either.
    refuse_inputs(["-" if output is None else output], [log])
    refuse_overwrite(output, options.force)
    if form.binary and output in (None, "-") and sys.stdout is not None and sys.stdout.isatty():
        raise UsageError(f"{to} is no text for a terminal", "Name a file with -o, or pipe it on.")
    writer = getattr(importlib.import_module(f"memlens.exporting.{form.module}"), f"write_{to}")
    if to == "parquet":
        from memlens.inputs.parquet.reader import need_pyarrow

        need_pyarrow("writing Parquet")
    owners, strict = options.owner_patterns, options.strict
    reading = Reading(
        options.patterns, strict=strict, owners=owners, how=options, times=True, threads=True, landmarks=True
    )
    read = reading.read(log)
    windows = options.windows(read)
    written = Written(0)  # all there is to say where the reader of a pipe leaves before the end
    with open_output(output, options.force) as out:
        counted = Counted(out)
        written = writer(Wanted(read, windows, options.table, options.given, options.series), counted)
    early = read.facts.cut_short
    cut = (f"{read.source.name}: {early}; what was readable is written",) if early else ()
    return Exported(to, written.rows, counted.tell(), (*cut, *written.remarks))


def _form_of(output: str | Path | None) -> str:
    """The form that the name of a file tells; ``""`` where it tells none."""
    name = "" if output is None else os.fspath(output).lower()
    return next((to for to, form in FORMS.items() for ending in form.endings if name.endswith(ending)), "")


export = with_keywords("export", export_with, Export)
