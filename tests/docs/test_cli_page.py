"""The reference page of the command line: below its prose it is what the commands say; ``MEMLENS_APPROVE=1`` writes that part anew."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from pathlib import Path

import click

from memlens.cli import VERBS, group

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"


def reference() -> str:
    """A section a verb, Markdown."""
    context = click.Context(group, info_name="memlens", **group.context_settings)
    commands = {verb: group.get_command(context, verb) for verb in VERBS}
    return "\n\n".join("\n".join(section(verb, command, context)) for verb, command in commands.items() if command)


def section(verb: str, command: click.Command, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=verb, parent=parent, **command.context_settings)
    yield f"## memlens {verb}\n\n    memlens {verb} {' '.join(command.collect_usage_pieces(context))}\n"
    yield inspect.cleandoc((command.help or "").replace("\b\n", ""))
    yield f"\nIn Python: `memlens.{verb}`.\n\n| option | |\n|---|---|"
    for option in command.params:
        if isinstance(option, click.Option):
            default = f" Default: `{option.default}`." if option.show_default else ""
            cells = [names(option, context), (option.help or "").replace("|", "\\|") + default]
            yield f"| {' | '.join(cells)} |"
    yield "| `-h`, `--help` | Show the help and exit. |"
    if command.epilog:
        lines = command.epilog.replace("\b\n", "").splitlines()
        yield "\nExamples:\n"
        yield from (f"    {line.removeprefix('  ')}" for line in lines if line.strip() != "Examples:")


def names(option: click.Option, context: click.Context) -> str:
    value = "" if option.is_flag else f" {option.make_metavar(context)}"
    if isinstance(option.type, click.Choice):
        value = f" {'|'.join(option.type.choices)}"
    return ", ".join(f"`{name}{value if name.startswith('--') else ''}`" for name in option.opts).replace("|", "\\|")


def test_the_reference_page_is_fresh() -> None:
    prose, mark, _ = PAGE.read_text().partition("\n## memlens ")
    page = f"{prose}\n{reference()}\n"
    if os.environ.get("MEMLENS_APPROVE"):
        PAGE.write_text(page)
    assert mark
    assert PAGE.read_text() == page, "if the commands are right, write the page anew with MEMLENS_APPROVE=1"
