"""How verbs write what they give: in which form, to where, and how wide."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import click

from memlens.errors import UsageError
from memlens.units import parse_bytes

if TYPE_CHECKING:
    from memlens.analyzing.analyze import Analysis
    from memlens.comparing.result import Comparison
    from memlens.diffing.result import Diff
    from memlens.errors import Failure
    from memlens.reports.blocks import Block

__all__ = ["FORMATS", "Size", "refuse_outputs", "render_result", "report_failures"]

FORMATS = ("table", "json", "csv", "markdown")


class Size(click.ParamType):  # type: ignore[type-arg]  # generic only in newer releases
    """A size as people type it."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse_bytes(str(value))
        except UsageError as error:
            self.fail(f"{error.message}. {error.hint}", param, ctx)


def refuse_outputs(
    output: str | None,
    force: bool,
    logs: Iterable[str],
    *,
    formats: str | None = None,
    others: Iterable[str | None] = (),
    appended: Iterable[str | None] = (),
) -> None:
    """Say early, before any work, that an output cannot be written: it exists, or it is something that is read.

    Args:
        output: What ``-o`` names; ``None`` and ``-`` are stdout.
        force: Write over it if it exists.
        logs: What is read.
        formats: The file of formats that was named; without one the nearest ``pyproject.toml`` is read.
        others: Further outputs, all of them files.
        appended: Files that may exist, for they are written to at their end.

    Raises:
        OutputError: See :func:`memlens.output.refuse_overwrite`.
        UsageError: It is an input; see :func:`memlens.output.refuse_inputs`.
    """
    from memlens.inputs.custom.formats import formats_file
    from memlens.output import refuse_inputs, refuse_overwrite

    outputs = [None if output == "-" else output, *others]
    refuse_inputs([*outputs, *appended], [*logs, formats_file(formats)])
    for path in outputs:
        refuse_overwrite(path, force)


def report_failures(failures: Iterable[Failure]) -> None:
    """Write on stderr which of several inputs could not be read, and why."""
    from memlens.cli import report_error
    from memlens.errors import MemlensError

    for failure in failures:
        report_error(MemlensError(failure.message, failure.hint))


def render_result(
    result: Analysis | Diff | Comparison,
    form: str,
    output: str | None,
    blocks: Callable[[], Sequence[Block]],
    sort: str | None = None,
) -> str:
    """A result as text.

    Args:
        result: What a verb gives.
        form: One of :data:`FORMATS`.
        output: Where it goes: a terminal is asked for its width and its colours, a file has neither.
        blocks: Makes what people see; called for the forms for people only.
        sort: Order windows and logs by this column in machine output.
    """
    from memlens.reports import csv_report, json_report, markdown, terminal

    if form == "json":
        return json_report.render(result, sort=sort)
    if form == "csv":
        return csv_report.render(result, sort=sort)
    shown = blocks()
    if form == "markdown":
        return markdown.render(shown)
    if output not in (None, "-"):
        return terminal.render(shown)
    return terminal.render(shown, width=_width(), colour=_colour(), ascii_only=not _shows_unicode())


def _width() -> int | None:
    """Columns of the terminal.  A pipe has none: only a COLUMNS set on purpose gives it some."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns) > 0:
        return int(columns)
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _shows_unicode() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "") in ("utf8", "utf8sig")
