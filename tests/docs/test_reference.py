"""Nothing that a user can type or read is missing from the pages in docs/, and nothing there has gone from the program."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import memlens
from memlens.analyzers import registry
from memlens.cli import VERBS, group

DOCS = Path(__file__).resolve().parents[2] / "docs"

#: Fields whose own keys are data of the log and no names of ours.
FREE_KEYS = {"other_layers", "hints"}


def page(name: str) -> str:
    return (DOCS / name).read_text()


def verbs() -> dict[str, click.Command]:
    context = click.Context(group, **group.context_settings)
    found = {name: group.get_command(context, name) for name in VERBS}
    return {name: command for name, command in found.items() if command is not None}


def options_of(command: click.Command) -> set[str]:
    return {
        name
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.hidden
        for name in (*parameter.opts, *parameter.secondary_opts)
    }


def section(text: str, verb: str) -> str:
    """The part of a page under the heading that names a verb, up to the next heading of the same or a higher level."""
    heading = re.search(rf"^(#+) .*\bmemlens {verb}\b.*$", text, re.MULTILINE)
    assert heading, f"docs/cli.md has no heading that names memlens {verb}"
    rest = text[heading.end() :]
    end = re.search(rf"^#{{1,{len(heading[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def fields_of(value: Any) -> Iterator[str]:
    """Every key of nested dictionaries and lists."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            if key not in FREE_KEYS:
                yield from fields_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from fields_of(inner)


@pytest.mark.parametrize("verb", list(VERBS))
def test_every_option_of_a_verb_is_in_its_section(verb: str) -> None:
    text = section(page("cli.md"), verb)
    missing = sorted(
        option for option in options_of(verbs()[verb]) if not re.search(rf"(?<![\w-]){option}(?![\w-])", text)
    )
    assert not missing


@pytest.mark.parametrize("name", sorted(path.name for path in DOCS.glob("*.md")))
def test_no_page_names_an_option_of_memlens_that_is_gone(name: str) -> None:
    known = {"--help", "--version"}.union(*map(options_of, verbs().values()))
    lines = [line for line in page(name).splitlines() if "memlens " in line or line.startswith(("| `-", "- `-"))]
    named = {option for line in lines for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", line)}
    assert not named - known - {"--memlens", "--megabytes", "--repeat"}


def test_every_analyzer_is_described_on_its_page() -> None:
    text = page("analyzers.md")
    built_in = [*(a.name for a in registry.BUILT_IN), registry.OF_SERIES]
    missing = [name for name in built_in if not re.search(rf"^#+ .*\b{name}\b", text, re.MULTILINE)]
    assert len(built_in) == 7
    assert not missing


def test_every_field_of_the_machine_output_is_described(examples: Path) -> None:
    logs = [memlens.analyze(log).to_dict() for log in sorted(examples.iterdir())]
    logs.append(memlens.analyze(examples / "cnn_5steps.log.gz", by=r"STEP (\d+) START").to_dict())
    text = "\n".join(path.read_text() for path in DOCS.glob("*.md"))
    named = {field.removesuffix("_left_out") for log in logs for field in fields_of(log)}
    missing = sorted(field for field in named if f"`{field}`" not in text and f'"{field}"' not in text)
    assert not missing


def test_every_public_name_of_the_package_is_in_the_pages() -> None:
    text = "\n".join(path.read_text() for path in (*DOCS.glob("*.md"), DOCS.parent / "README.md"))
    missing = [name for name in memlens.__all__ if not name.startswith("__") and not re.search(rf"\b{name}\b", text)]
    assert not missing
