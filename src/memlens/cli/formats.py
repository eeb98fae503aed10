"""``memlens formats``: list the formats that memlens reads, and say which one an input has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from memlens.cli.results import report_failures
from memlens.errors import UsageError

if TYPE_CHECKING:
    from memlens.inputs.registry import Formats

__all__ = ["formats_command"]


@click.command(
    "formats",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  memlens formats
  memlens formats run.log snapshot.pickle trace.json.gz
  memlens formats run.log --formats my-formats.toml
  zcat run.log.gz | memlens formats -""",
)
@click.argument("logs", metavar="[LOG]...", nargs=-1)
@click.option(
    "--formats",
    metavar="FILE",
    help="Know the formats in this TOML file too, instead of those in the nearest pyproject.toml.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(("table", "json")),
    default="table",
    show_default=True,
    help="How to write the result.",
)
def formats_command(logs: tuple[str, ...], formats: str | None, form: str) -> int:
    """List the formats that memlens reads, or say which of them each LOG has, and why.

    LOG is a file (plain, .gz, .zst, .xz, .bz2), a URL, or - for stdin; only its first 64 KiB are read.

    An input that cannot be read does not lose the others; the exit code is then 1.

    Formats of your own come from [[tool.memlens.format]] in the nearest pyproject.toml or from a file given by --formats.
    """
    from memlens.inputs.registry import formats as list_formats

    if logs.count("-") > 1:
        raise UsageError("stdin (-) can be read only once", "Give - once.")
    found = list_formats(logs, formats=formats)
    if form == "json":
        import json

        click.echo(json.dumps(found.to_dict(), indent=2))
    else:
        for line in _recognised(found) if logs else _listed(found):
            click.echo(line)
    report_failures(found.failures)
    return 1 if found.failures else 0


def _listed(found: Formats) -> Iterator[str]:
    from memlens.reports.text import visible

    for number, form in enumerate(found.known):
        if number:
            yield ""
        yield f"{visible(form.name)}  {visible(form.summary)}"
        yield f"  sample  {visible(form.sample)}"
        yield f"  sizes   {visible(form.sizes)}"
        yield f"  places  {visible(form.places)}"
        if form.origin != "memlens":
            yield f"  from    {visible(form.origin)}"


def _recognised(found: Formats) -> Iterator[str]:
    from memlens.reports.text import visible

    summaries = {form.name: form.summary for form in found.known}
    for number, one in enumerate(found.inputs):
        if number:
            yield ""
        compressed = f" ({one.compression})" if one.compression else ""
        yield f"{visible(one.path)}{compressed}"
        if one.format is None:
            yield f"  format  none that memlens reads: it is {one.looks_like}"
        else:
            yield f"  format  {visible(one.format)}: {visible(summaries.get(one.format, ''))}"
            yield f"  why     {visible(one.why)}"
            if one.looks_like:
                yield f"  looks   like {one.looks_like}"
        for place, line in enumerate(one.hint.splitlines()):
            yield f"  {' ' if place else 'hint':6}  {line}"
