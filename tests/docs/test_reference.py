"""Nothing that a user can type or read is missing from the pages, and nothing there has gone from the program.

The reference of the command line is made by ``docs/reference.py``; all other pages are written by hand.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import memlens
from memlens.cli import VERBS, group
from memlens.diffing.differences import KINDS
from memlens.schemas import schema

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SCRIPT = DOCS / "reference.py"
#: Pages that are written by hand: not the reference, which somebody may have made beside them.
PAGES = sorted(path for path in DOCS.glob("*.md") if path.name != "cli.md")
READMES = [ROOT / "README.md", ROOT / "README.zh-CN.md"]
CHANGELOG, CONTRIBUTING = ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"

#: Options of other programs that the pages show: pytest, Dask, git, nsys, GitHub's gh, launchers, our benchmarks.
OTHERS = {
    *("--memlens", "--port", "--nworkers", "--nthreads", "--log_dir", "--cuda-memory-usage", "--type"),
    *("--megabytes", "--repeat", "--seed", "--short", "--live", "--runs", "--config", "--project", "--test"),
}


def verbs() -> dict[str, click.Command]:
    context = click.Context(group, **group.context_settings)
    found = {name: group.get_command(context, name) for name in VERBS}
    return {name: command for name, command in found.items() if command is not None}


def options_of(command: click.Command) -> set[str]:
    return {
        name
        for parameter in command.get_params(click.Context(command, **command.context_settings))
        if isinstance(parameter, click.Option) and not parameter.hidden
        for name in (*parameter.opts, *parameter.secondary_opts)
    }


# -- the reference that is made ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("reference") / "new"
    done = subprocess.run([sys.executable, str(SCRIPT), str(folder)], capture_output=True, check=True)
    assert not done.stdout + done.stderr
    assert [path.name for path in folder.iterdir()] == ["cli.md"]
    return (folder / "cli.md").read_text()


def section(page: str, verb: str) -> str:
    """The part of the reference under the heading that names a verb."""
    (found,) = re.findall(rf"^## memlens {verb}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.mark.parametrize("verb", list(VERBS))
def test_every_option_of_a_verb_is_in_the_table_of_its_section(reference: str, verb: str) -> None:
    rows = re.findall(r"^\| (`-.*?`) \| \S", section(reference, verb), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(-[\w-]+)", row)}
    assert named == options_of(verbs()[verb])


@pytest.mark.parametrize("verb", list(VERBS))
def test_a_section_has_usage_and_examples_and_rare_options_apart(reference: str, verb: str) -> None:
    text = section(reference, verb)
    assert text.startswith(f"\n    memlens {verb} ")
    usual, _, rare = text.partition("### Rarely needed\n")
    assert "`--help`" in usual
    assert bool(rare) == bool(getattr(verbs()[verb], "rare", ()))
    assert f"\n    memlens {verb}" in text.partition("### Examples\n")[2]


def test_the_script_says_how_it_is_used() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "usage: python docs/reference.py DIR\n")


# -- the pages that are written ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [*READMES, *PAGES], ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_names_an_option_that_does_not_exist(page: Path) -> None:
    known = {"--help", "--version"}.union(*map(options_of, verbs().values()))
    named = set(re.findall(r"(?<![\w\[.-])--[a-z][\w-]*", page.read_text()))
    assert not named - known - OTHERS


@pytest.mark.parametrize("page", [*READMES, *PAGES], ids=lambda page: str(page.relative_to(ROOT)))
def test_a_command_on_a_page_has_the_options_that_stand_with_it(page: Path) -> None:
    text = page.read_text().replace("\\\n", " ")
    commands = re.findall(r"(?:^|[\s$`|('])memlens (\w+)((?: +(?:'[^'\n]*'|\"[^\"\n]*\"|[^\s`|;)]+))*)", text)
    wrong = [
        (verb, option)
        for verb, words in commands
        if verb in VERBS and verb != "record"  # whose command has options of its own
        for option in re.findall(r"(?<!\S)--[a-z][\w-]*", words)
        if option not in options_of(verbs()[verb])
    ]
    assert not wrong


@pytest.mark.parametrize(
    "page", [*READMES, *PAGES, CHANGELOG, CONTRIBUTING], ids=lambda page: str(page.relative_to(ROOT))
)
def test_no_line_of_a_page_is_wider_than_120_characters(page: Path) -> None:
    wide = {number: line for number, line in enumerate(page.read_text().splitlines(), 1) if len(line) > 120}
    assert not wide


def test_the_pages_stay_small_enough_to_be_read() -> None:
    assert sum(page.stat().st_size for page in PAGES) <= 186 * 1024
    assert READMES[0].read_text().count("\n") <= 180
    for page in (CHANGELOG, CONTRIBUTING):
        assert page.read_text().count("\n") <= 60


def prose_of(text: str) -> Iterator[str]:
    """Paragraphs and items of lists: what is no code, no table and no heading."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    for part in re.split(r"\n\s*\n|\n(?=(?:[-*]|\d+\.) )", text):
        if not part.lstrip("\n").startswith(("    ", "|", "#", "<", "!")):
            yield part


@pytest.mark.parametrize("page", [*READMES, *PAGES], ids=lambda page: str(page.relative_to(ROOT)))
def test_no_paragraph_is_longer_than_120_words(page: Path) -> None:
    assert not [part for part in prose_of(page.read_text()) if len(part.split()) > 120]


def fields_in(schema: Any) -> set[str]:
    """Every name that a JSON document by a schema may have, wherever it stands."""
    values = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    own = schema.get("properties", {}) if isinstance(schema, dict) else {}
    return {name.removesuffix("_left_out") for name in own}.union(*map(fields_in, values))


@pytest.mark.parametrize("verb", ["analyze", "baseline", "block", "compare", "diff", "gate", "watch", "whatif"])
def test_every_field_of_the_machine_output_is_described(verb: str) -> None:
    """On the page of the verb, or of what it holds: figures, findings, the trust report, failures."""
    text = "\n".join(path.read_text() for path in PAGES)
    assert not [name for name in fields_in(schema(verb)) if f"`{name}`" not in text and f'"{name}"' not in text]


def test_every_kind_of_finding_is_described() -> None:
    rows = r"^\| `(\w+)` \| (?:paired|only head|only base|born|both|live|the opposite)"
    assert re.findall(rows, (DOCS / "diff.md").read_text(), re.MULTILINE) == [*KINDS]


def test_every_public_name_of_the_package_is_in_the_pages() -> None:
    text = "\n".join(path.read_text() for path in (*PAGES, READMES[0]))
    missing = [name for name in memlens.__all__ if not name.startswith("__") and not re.search(rf"\b{name}\b", text)]
    assert not missing


@pytest.mark.parametrize("verb", list(VERBS))
def test_every_verb_is_in_the_index_of_the_pages_and_in_the_readme(verb: str) -> None:
    for page in (DOCS / "README.md", *READMES):
        assert f"memlens {verb}" in page.read_text(), page
