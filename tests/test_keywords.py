"""Options are declared once: Python's keyword arguments, their documentation and the command line come from the same fields."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

import memlens
from memlens.cli import VERBS
from memlens.options import Read
from memlens.options import verbs as options
from memlens.options.keywords import options_of

if TYPE_CHECKING:  # a type checker knows the keyword arguments: these are errors, and their ignores are needed
    memlens.analyze("run.log", by="STEP", end="EXIT", top=None)
    memlens.analyze("run.log", nth="2")  # type: ignore[arg-type]
    memlens.diff("a.log", "b.log", colour="red")  # type: ignore[call-arg]
    memlens.slice("run.log", "part.log", True)  # type: ignore[arg-type, call-arg]
    memlens.gate(memlens.read("run.log"), budgets=["peak=1GiB"]).verdict.strip()

OWNERS: dict[str, type] = {
    owner.__name__.lower(): owner
    for owner in (
        *(options.Accept, options.Analyze, options.Compare, options.Diff, options.Export, options.Gate, options.Plot),
        *(Read, options.Record, options.Report, options.Slice, options.Watch),
    )
}


@pytest.mark.parametrize("name", OWNERS)
def test_a_function_takes_the_fields_of_its_options_and_documents_each(name: str) -> None:
    function = getattr(memlens, name)
    keywords = {
        key: one.default for key, one in inspect.signature(function).parameters.items() if one.default is not one.empty
    }
    assert keywords == {name: one.default for name, one in options_of(OWNERS[name]).items()}
    assert function.__name__ == name
    for key, one in options_of(OWNERS[name]).items():
        assert f"\n    {key}: " in function.__doc__
        assert len(one.meaning) > 15
    assert "\n    options: " not in function.__doc__
    assert "--" not in function.__doc__


def test_the_text_of_a_meaning_stands_in_one_class_only() -> None:
    found: dict[str, set[str]] = {}
    for owner in OWNERS.values():
        for name, one in options_of(owner).items():
            found.setdefault(one.meaning, set()).add(name)
    assert all(len(names) == 1 for names in found.values())


@pytest.mark.parametrize("name", OWNERS)
def test_what_is_no_option_is_a_type_error_that_names_it(name: str) -> None:
    with pytest.raises(TypeError, match=rf"{name}\(\) .*'colour'"):
        getattr(memlens, name)(*["x"] * (1 + (name in ("accept", "diff"))), colour="red")


def test_inputs_may_be_named_and_options_may_not_be_given_by_position() -> None:
    with pytest.raises(memlens.UsageError, match="no log to analyze"):
        memlens.analyze(logs=[])  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="too many positional"):
        memlens.analyze([], "STEP")  # type: ignore[call-arg]


@pytest.mark.parametrize("verb", sorted(set(VERBS) & set(OWNERS)))
def test_a_command_has_every_option_that_python_has_and_the_same_defaults(verb: str) -> None:
    command: click.Command = importlib.import_module(f"memlens.cli.verbs.{verb}").command
    typed: dict[str, Any] = {one.name or "": one for one in command.params}
    for name, one in options_of(OWNERS[verb]).items():
        if one.kind == "python":
            continue
        assert set(typed[name].opts) == set(one.flags)
        assert typed[name].help == one.help
        if one.shown:
            assert typed[name].default == one.default


@pytest.mark.parametrize("verb", ["compare", "diff", "gate", "watch", "whatif"])
def test_what_is_said_of_a_verb_names_options_that_it_has(verb: str) -> None:
    room = {"compare": "comparing", "diff": "diffing", "gate": "gating", "watch": "watching", "whatif": "replaying"}[
        verb
    ]
    command: click.Command = importlib.import_module(f"memlens.cli.verbs.{verb}").command
    known = {name for one in command.params for name in one.opts}
    for path in (Path(memlens.__file__).parent / room).glob("*.py"):
        texts = (node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant))
        named = {name for text in texts if isinstance(text, str) for name in re.findall(r"(?<![\w-])--[a-z-]+", text)}
        assert named <= known, path.name
