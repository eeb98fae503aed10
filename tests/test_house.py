"""The house keeps its shape: one direction of imports, no circle, no module that is two, no crowded folder."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import memlens

PACKAGE = Path(memlens.__file__).parent
#: The rooms, the lowest first: a module imports from its own room and from lower ones.  `events.py` stands above what an event log
#: looks up when it is asked for it (its lifetimes, windows and trust report).
ROOMS = (
    ("errors", "units", "native", "columns", "keywords", "glog", "plugins"),
    ("scanner",),
    ("facts", "source"),
    ("lifetimes", "folding"),
    ("windows",),
    ("trust",),
    ("events", "text"),
    ("options",),
    ("inputs", "output", "extract", "caching"),
    ("analyzers", "allocators", "scheduling"),
    ("replaying",),
    ("analyzing", "diffing", "comparing", "gating"),
    ("ranking",),
    ("reports",),
    ("drawing", "exporting", "recording", "watching"),
    ("cli", "__main__"),
)
LEVEL = {room: level for level, rooms in enumerate(ROOMS) for room in rooms}
MOST_LINES, MOST_MODULES = 400, 16


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its name without ``memlens.``; a package is its ``__init__``."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        found[name.removesuffix("__init__").rstrip(".")] = path
    return found


def imports(path: Path) -> Iterator[str]:
    """What a module imports of memlens when it runs, at its top or late."""
    tree = ast.parse(path.read_text())
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "memlens":
            yield from (f"{node.module}.{alias.name}".removeprefix("memlens.") for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (a.name.removeprefix("memlens.") for a in node.names if a.name.startswith("memlens."))


@cache
def graph() -> dict[str, set[str]]:
    """For each module the modules that it imports."""
    known = modules()
    edges: dict[str, set[str]] = {}
    for name, path in known.items():
        edges[name] = set()
        for imported in imports(path):
            parts = imported.split(".")
            while parts and ".".join(parts) not in known:
                parts.pop()  # the name of a function or class
            if parts and ".".join(parts) != name:
                edges[name].add(".".join(parts))
    return edges


@pytest.mark.parametrize("name", [name for name in modules() if name])
def test_a_module_imports_from_its_room_and_from_lower_ones(name: str) -> None:
    room = name.split(".", maxsplit=1)[0]
    above = {target for target in graph()[name] if LEVEL[target.split(".")[0]] > LEVEL[room]}
    assert not above, f"{name} imports from above: {sorted(above)}"


def test_no_module_imports_itself_by_others() -> None:
    edges = graph()
    done: set[str] = set()
    path: list[str] = []

    def visit(name: str) -> None:
        assert name not in path, f"a circle: {' -> '.join([*path[path.index(name) :], name])}"
        if name in done:
            return
        path.append(name)
        for target in sorted(edges[name]):
            if not name.startswith(f"{target}."):  # a package's __init__ is there before its modules
                visit(target)
        path.pop()
        done.add(name)

    for name in edges:
        visit(name)


@pytest.mark.parametrize("name", list(modules()))
def test_a_module_is_one_thing(name: str) -> None:
    assert len(modules()[name].read_text().splitlines()) <= MOST_LINES


@pytest.mark.parametrize("folder", sorted({path.parent for path in modules().values()}), ids=lambda path: path.name)
def test_a_folder_is_not_crowded(folder: Path) -> None:
    assert len(list(folder.glob("*.py"))) <= MOST_MODULES
