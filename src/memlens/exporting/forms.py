"""The forms that a log can be written in, and what their writers are given and give."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlens.events import EventLog
    from memlens.windows.windows import Window

#: What is said of a profile or a trace of a log that tells of no single block.
NO_BLOCKS = "this log does not say which block a line is about, so that nothing is said of blocks"


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
    "parquet": Form("tabular", tables=True, binary=True, endings=(".parquet",)),
    "csv": Form("tabular", tables=True, endings=(".csv",)),
    "jsonl": Form("tabular", tables=True, endings=(".jsonl",)),
    "perfetto": Form("perfetto", binary=True, unit="slice", endings=(".pftrace", ".perfetto-trace")),
    "speedscope": Form("profiles", one_window=True, unit="stack", endings=(".speedscope.json",)),
}


class Wanted(NamedTuple):
    """A log to be written, and how.

    Attributes:
        log: The log.
        windows: The windows of it that were asked for, one or a series; the whole log where none was.
        table: ``events`` or ``lifetimes``.
        given: Windows were asked for.
        series: … and they are a series.
    """

    log: EventLog
    windows: Sequence[Window]
    table: str = "events"
    given: bool = False
    series: bool = False


class Written(NamedTuple):
    """Rows that a writer wrote; see :class:`~memlens.exporting.export.Exported`."""

    rows: int
    remarks: tuple[str, ...] = ()


class Counted:
    """An output that knows how far it is written, also where the system cannot tell, as of a pipe.

    Args:
        out: Where to write.
    """

    closed = False

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._written = 0

    def write(self, data: bytes) -> int:
        """Write all of some bytes."""
        view = memoryview(data).cast("B")
        self._out.write(view)
        self._written += len(view)
        return len(view)

    def tell(self) -> int:
        """Bytes written so far."""
        return self._written

    def flush(self) -> None:
        """Nothing waits here."""
