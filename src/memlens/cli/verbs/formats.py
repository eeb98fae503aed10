"""``memlens formats``: list the formats that memlens reads, and say which one an input has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from memlens.cli.options import verb
from memlens.cli.output import read_stdin_once, report_failures
from memlens.options import ReadAs
from memlens.options.keywords import Options, option
from memlens.text import format_count, no_command, plural, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memlens.inputs.registry import Formats, RecognisedInput


class ShowFormats(Options):
    """How a list is shown.

    Attributes:
        form: How to write the result.
    """

    form: str = option("", "--format", default="table", choices=("table", "json"), shown=True)


@verb(
    "formats",
    [click.Argument(["logs"], metavar="[LOG]...", nargs=-1)],
    *(ReadAs, ShowFormats),
    only=("formats", "form"),
)
def command(logs: tuple[str, ...], how: ReadAs, show: ShowFormats) -> int:
    """List the formats that memlens reads, or say which of them each LOG has, and why.

    LOG is a file (plain, .gz, .zst, .xz, .bz2), a URL, or - for stdin; only its first 64 KiB are read.

    An input that cannot be read, or in which nothing is recognised, does not lose the others; the exit code is then 1.

    Formats of your own come from [[tool.memlens.format]] in the nearest pyproject.toml or from a file given by --formats.

    Examples:
      memlens formats
      memlens formats run.log snapshot.pickle trace.json.gz
      memlens formats run.log --formats my-formats.toml
      zcat run.log.gz | memlens formats -
    """
    from memlens.inputs.registry import formats

    read_stdin_once(logs)
    found = formats(logs, formats=how.formats)
    if show.form == "json":
        import json

        click.echo(json.dumps(found.to_dict(), indent=2))
    else:
        click.echo(no_command(f"{_sentence(found, len(logs))}\n"))
        if entries := [*(_recognised(found) if logs else _listed(found))]:
            click.echo(no_command("\n\n".join(entries)))
    report_failures(found.failures)
    return 0 if len(_known(found)) == len(logs) else 1


def _known(found: Formats) -> list[RecognisedInput]:
    """The inputs that something in them tells the format of."""
    return [one for one in found.inputs if one.recognised]


def _sentence(found: Formats, inputs: int) -> str:
    """The total of the list."""
    if not inputs:
        return f"memlens reads {plural(len(found.known), 'format')}: {', '.join(visible(form.name) for form in found.known)}."
    if inputs > 1:
        return f"{format_count(len(_known(found)))} of {plural(inputs, 'input')} can be read."
    for one in found.inputs:
        path = visible(one.path)
        if one.recognised:
            return f"{path} can be read, as {visible(one.format or '')}."
        if one.format is not None:
            return f"Nothing that memlens reads was recognised in the first 64 KiB of {path}."
        return f"{path} cannot be read: it is {one.looks_like}."
    return "The input cannot be read."


def _listed(found: Formats) -> Iterator[str]:
    for form in found.known:
        rows = [("sample", form.sample), ("sizes", form.sizes), ("places", form.places)]
        rows += [] if form.origin == "memlens" else [("from", form.origin)]
        yield _entry(f"{form.name}  {form.summary}", rows)


def _recognised(found: Formats) -> Iterator[str]:
    summaries = {form.name: form.summary for form in found.known}
    for one in found.inputs:
        if one.format is None:
            rows = [("format", f"none that memlens reads: it is {one.looks_like}")]
        elif not one.recognised:
            rows = [("format", f"nothing recognised; it would be read as {one.format}")]
        else:
            rows = [("format", f"{one.format}: {summaries.get(one.format, '')}"), ("why", one.why)]
        if one.looks_like and one.format is not None:
            rows.append(("looks", f"like {one.looks_like}"))
        rows += [("" if index else "hint", line) for index, line in enumerate(one.hint.splitlines())]
        yield _entry(one.path + (f" ({one.compression})" if one.compression else ""), rows)


def _entry(heading: str, rows: Sequence[tuple[str, str]]) -> str:
    return "\n".join([visible(heading), *(f"  {label:6}  {visible(text)}" for label, text in rows)])
