"""Write the reference of the command line, made from the commands themselves: ``python docs/reference.py DIR`` writes ``DIR/cli.md``."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memlens.cli import VERBS, group

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

INTRODUCTION = """# Command line

Made from the commands by `docs/reference.py`. Exit codes, and how output is written:
[command-line.md](command-line.md).
"""


def reference() -> str:
    """Return the page: a section a verb."""
    context = click.Context(group, info_name="memlens", **group.context_settings)
    found = {verb: group.get_command(context, verb) for verb in VERBS}
    parts = ["\n".join(section(verb, command, context)) for verb, command in found.items() if command is not None]
    return "\n".join([INTRODUCTION, *parts])


def section(verb: str, command: click.Command, parent: click.Context) -> Iterator[str]:
    """Yield the lines of one verb: usage, help, its options, those that are rarely needed, examples."""
    context = click.Context(command, info_name=verb, parent=parent, **command.context_settings)
    options = [one for one in command.get_params(context) if isinstance(one, click.Option) and not one.hidden]
    rare: frozenset[str] = getattr(command, "rare", frozenset())
    yield f"## memlens {verb}\n\n    memlens {verb} {' '.join(command.collect_usage_pieces(context))}\n"
    yield inspect.cleandoc((command.help or "").replace("\b\n", ""))
    yield f"\nIn Python: `memlens.{verb}`.\n"
    yield from table((one for one in options if one.name not in rare), context)
    if any(one.name in rare for one in options):
        yield "### Rarely needed\n"
        yield from table((one for one in options if one.name in rare), context)
    if command.epilog:
        yield "### Examples\n"
        lines = command.epilog.replace("\b\n", "").splitlines()
        yield from (f"    {line.removeprefix('  ')}" for line in lines if line.strip() != "Examples:")
        yield ""


def table(options: Iterable[click.Option], context: click.Context) -> Iterator[str]:
    """Yield a table of options."""
    yield "| option | |\n|---|---|"
    for one in options:
        default = f" Default: `{one.default}`." if one.show_default and not one.is_flag else ""
        meaning = (one.help or "").replace("|", "\\|")
        yield f"| {names(one, context)} | {meaning}{default} |"
    yield ""


def names(option: click.Option, context: click.Context) -> str:
    """Return the names of an option as one types them, with what it takes."""
    value = "" if option.is_flag else f" {option.make_metavar(context)}"
    if isinstance(option.type, click.Choice):
        value = f" {'|'.join(option.type.choices)}"
    shown = (f"`{name}{value if name.startswith('--') else ''}`" for name in option.opts)
    return ", ".join(shown).replace("|", "\\|")


def main(arguments: list[str]) -> int:
    """Write the page into the folder that is named; return the exit code."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        sys.stderr.write("usage: python docs/reference.py DIR\n")
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cli.md").write_text(reference(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
