"""The house keeps its shape: one direction of imports, no circle, no module that is two, no crowded folder."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import memlens

PACKAGE = Path(memlens.__file__).parent
#: The rooms, the lowest first: a module imports from its own room and from lower ones.
ROOMS = (
    ("errors", "version", "native", "plugins"),
    ("text",),
    ("columns", "spool"),
    ("claims",),
    ("results", "facts", "schemas"),
    ("scanner", "source"),
    ("events", "folding", "windows", "trust"),
    ("log",),
    ("options",),
    ("inputs", "output"),
    ("analyzers", "allocators"),
    ("replaying", "summarizing"),
    ("analyzing", "diffing", "comparing", "gating", "watching"),
    ("reports",),
    ("drawing", "exporting", "recording"),
    ("cli", "__main__"),
)
LEVEL = {room: level for level, rooms in enumerate(ROOMS) for room in rooms}
MOST_LINES, MOST_MODULES = 420, 16


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its name without ``memlens.``; a package is its ``__init__``."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        found[name.removesuffix("__init__").rstrip(".")] = path
    return found


def imports(path: Path) -> Iterator[str]:
    """What a module imports of memlens: at its top, in a function, for types alone, or by name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "memlens":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Call) and "import_module" in (
            getattr(node.func, name, "") for name in ("attr", "id")
        ):
            yield from (str(given.value) for given in node.args[:1] if isinstance(given, ast.Constant))


@cache
def graph() -> dict[str, set[str]]:
    """For each module the modules that it imports; a package's own face is there before its modules."""
    known = modules()
    edges: dict[str, set[str]] = {}
    for name, path in known.items():
        edges[name] = set()
        for imported in imports(path):
            parts = imported.split(".")[1:] if imported.startswith("memlens.") else []
            while parts and ".".join(parts) not in known:
                parts.pop()  # the name of a function or class
            if parts and not f"{name}.".startswith(f"{'.'.join(parts)}."):
                edges[name].add(".".join(parts))
    return edges


@pytest.mark.parametrize("name", [name for name in modules() if name])
def test_a_module_imports_from_its_room_and_from_lower_ones(name: str) -> None:
    room = name.split(".", maxsplit=1)[0]
    above = {target for target in graph()[name] if LEVEL[target.split(".")[0]] > LEVEL[room]}
    assert not above, f"{name} imports from above: {sorted(above)}"


def test_no_module_imports_itself_by_others() -> None:
    TopologicalSorter(graph()).prepare()  # which raises CycleError, and names the circle


@pytest.mark.parametrize("name", list(modules()))
def test_a_module_is_one_thing(name: str) -> None:
    assert len(modules()[name].read_text().splitlines()) <= MOST_LINES


@pytest.mark.parametrize("folder", sorted({path.parent for path in modules().values()}), ids=lambda path: path.name)
def test_a_folder_is_not_crowded(folder: Path) -> None:
    assert len(list(folder.glob("*.py"))) <= MOST_MODULES


def test_what_a_module_shows_is_there() -> None:
    shown = [name for name, path in modules().items() if "\n__all__ = " in path.read_text(encoding="utf-8")]
    assert "analyzers" in shown
    for name in shown:
        module = importlib.import_module(f"memlens.{name}".rstrip("."))
        assert [one for one in module.__all__ if not hasattr(module, one)] == [], name
