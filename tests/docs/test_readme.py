"""The READMEs say what is so: their console examples are run, their links lead somewhere, their commands are CI's commands."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import memlens
from memlens.native import load

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
#: Every page that is written by hand: not the reference, which ``docs/reference.py`` may have made beside them.
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/*.md"), *ROOT.glob("*/README.md")})
PAGES = [page for page in PAGES if page.name != "cli.md"]

_BLOCK = re.compile(r"^```console\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    """One ``$ command`` and the text that stands below it."""

    command: str
    output: str


@dataclass(frozen=True)
class Example:
    """One console block of a page: its steps, and where its text stands in the page."""

    line: int
    start: int
    end: int
    steps: tuple[Step, ...]


def tidy(output: str) -> str:
    """Output as it stands in a page: no blanks at line ends, no empty lines at its end."""
    text = "\n".join(line.rstrip() for line in output.splitlines()).rstrip("\n")
    return f"{text}\n" if text else ""


def examples_in(text: str) -> list[Example]:
    """The console blocks of a page that call memlens, in order."""
    found = []
    for match in _BLOCK.finditer(text):
        steps: list[Step] = []
        for piece in re.split(r"^(?=\$ )", match["body"], flags=re.MULTILINE):
            command, _, output = piece.partition("\n")
            while command.endswith("\\"):  # a command over several lines
                more, _, output = output.partition("\n")
                command = f"{command}\n{more}"
            if command.startswith("$ "):
                steps.append(Step(command[2:], tidy(output)))
        if any("memlens" in step.command for step in steps):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Example(line, match.start("body"), match.end("body"), tuple(steps)))
    return found


def run_steps(example: Example, folder: Path, *, columns: int = 80) -> list[Step]:
    """Run a block's commands one after the other in ``folder``, which gets the examples, as a reader would in the checkout.

    Output is what a terminal of that width would show, without colours: stdout and stderr in one, blanks at line ends cut.
    """
    tools = folder / "bin"
    tools.mkdir()
    (tools / "memlens").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m memlens "$@"\n')
    (tools / "memlens").chmod(0o755)
    work = folder / "checkout"
    work.mkdir()
    (work / "examples").symlink_to(ROOT / "examples")
    environment = {name: value for name, value in os.environ.items() if name not in {"MEMLENS_APPROVE", "FORCE_COLOR"}}
    environment |= {"COLUMNS": str(columns), "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
    environment |= {"PYTHONIOENCODING": "utf-8", "PYTHONPATH": str(Path(memlens.__file__).parents[1])}
    done = []
    for step in example.steps:
        run = subprocess.run(
            ["bash", "-c", step.command],
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
            check=False,
        )
        done.append(Step(step.command, tidy(run.stdout.decode())))
    return done


def written(steps: list[Step]) -> str:
    """A block's text: each command with its output below it, a blank line before the next command."""
    return "\n".join(f"$ {step.command}\n{step.output}" for step in steps)


#: What commands print, by the commands: those of the README stand in its translation, too.
PRINTED: dict[tuple[str, ...], str] = {}
EXAMPLES = [
    pytest.param(page, number, id=f"{page.relative_to(ROOT)}-line{example.line}")
    for page in PAGES
    for number, example in enumerate(examples_in(page.read_text()))
]


def blocks(page: Path, language: str) -> list[str]:
    """The bodies of a page's fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("page", "number"), EXAMPLES)
def test_a_console_example_shows_what_the_command_prints(page: Path, number: int, tmp_path: Path) -> None:
    text = page.read_text()
    example = examples_in(text)[number]
    if load("memlens._replay") is None and re.search(
        r"^Setting |memlens whatif", written(list(example.steps)), re.MULTILINE
    ):
        pytest.skip("without the compiled modules nothing is replayed")
    commands = tuple(step.command for step in example.steps)
    if commands not in PRINTED:
        PRINTED[commands] = written(run_steps(example, tmp_path))
    printed = PRINTED[commands]
    if os.environ.get("MEMLENS_APPROVE"):  # in one process only: each example writes its page
        page.write_text(text[: example.start] + printed + text[example.end :])
        return
    assert printed == written(list(example.steps)), "run with MEMLENS_APPROVE=1 to accept, and read the difference"


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "pycon")], ids=lambda page: str(page.relative_to(ROOT))
)
def test_the_python_examples_of_a_page_run_as_shown(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    session = "\n".join(blocks(page, "pycon"))  # one block goes on where the one before it ended
    test = doctest.DocTestParser().get_doctest(session, {}, page.name, str(page), 0)
    said: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS).run(test, out=said.append)
    assert not said, "".join(said)


def test_the_readme_opens_with_one_command_to_try_it_and_one_to_run_the_tests() -> None:
    try_it, run_tests, *_ = blocks(README, "sh")
    assert try_it.count("\n") <= 2
    assert "pip install" in try_it
    assert "memlens diff examples/logs/" in try_it
    assert "pytest" in run_tests


def test_the_readme_in_chinese_shows_the_same_commands() -> None:
    chinese = ROOT / "README.zh-CN.md"
    for language in ("sh", "console"):
        ours, theirs = ("\n".join(blocks(page, language)) for page in (README, chinese))
        assert re.sub(" +#.*", "", ours) == re.sub(" +#.*", "", theirs)
    assert f"]({chinese.name})" in README.read_text()
    assert "](README.md)" in chinese.read_text()


def test_ci_takes_its_test_command_from_the_readme() -> None:
    script = ROOT / ".ci" / "run"
    if not script.exists():
        pytest.skip("only the checkout has .ci/run")
    assert 'bash -euo pipefail -c "$(block 2)"' in script.read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_file_leads_to_one(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text())
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing


def anchors_of(page: Path) -> set[str]:
    """What a link into a page may name: its headings as GitHub spells them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_heading_leads_to_one(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|mailto:)([^)#]*)#([^)]+)\)", page.read_text())
    missing = [(to, name) for to, name in links if name not in anchors_of(page.parent / to if to else page)]
    assert not missing


def test_every_page_is_listed_in_the_index_of_the_documentation() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    missing = [
        page.name
        for page in PAGES
        if page.parent == ROOT / "docs" and page.name != "README.md" and f"({page.name})" not in index
    ]
    assert not missing


def test_every_example_log_has_a_word_said_about_it() -> None:
    page = (ROOT / "examples" / "README.md").read_text()
    missing = [log.name for log in (ROOT / "examples" / "logs").iterdir() if log.name not in page]
    assert not missing
