"""Runs the tests of a module in a Python that has neither pytest nor memlens: ``python3.8 elsewhere.py holders.py test_holders.py``.

The first file is the module of memlens's that is tested.  Of pytest there is what such tests use: parameters, and ``monkeypatch``.
"""

from __future__ import annotations

import inspect
import os
import sys
import traceback
from importlib.machinery import SourceFileLoader
from types import ModuleType, SimpleNamespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any


def parametrize(names: Any, values: Iterable[Any], ids: Any = None) -> Callable[[Any], Any]:
    """Give a test its parameters."""
    several = names if isinstance(names, tuple) else (names,)
    rows = [dict(zip(several, row if len(several) > 1 else (row,))) for row in values]  # noqa: B905 - Python 3.8

    def mark(test: Any) -> Any:
        test.rows = rows
        return test

    return mark


class MonkeyPatch:
    """Sets attributes and items for a while."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], Any]] = []

    def setattr(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute."""
        first = getattr(owner, name)
        self._undo.append(lambda: setattr(owner, name, first))
        setattr(owner, name, value)

    def setitem(self, owner: Any, name: str, value: Any) -> None:
        """Set an item that is new."""
        self._undo.append(lambda: owner.pop(name, None))
        owner[name] = value

    def undo(self) -> None:
        """Set all as it was."""
        for one in self._undo:
            one()


def load(name: str, path: str) -> dict[str, Any]:
    """Load a module from a file; gives what is in it."""
    module = sys.modules[name] = ModuleType(name)
    module.__file__ = path
    SourceFileLoader(name, path).exec_module(module)
    return vars(module)


def main(tested: str, tests: str) -> None:
    """Run the tests."""
    sys.modules["pytest"] = ModuleType("pytest")
    vars(sys.modules["pytest"])["mark"] = SimpleNamespace(
        parametrize=parametrize, changed=lambda part: lambda test: test
    )
    for package in ("memlens", "memlens.recording", "memlens.recording.inside"):
        sys.modules[package] = made = ModuleType(package)
        made.__path__ = [os.path.dirname(tested)] if package.endswith(".inside") else []
    load("memlens.recording.inside.holders", tested)
    failed = ran = 0
    for name, test in list(load("tests", tests).items()):
        for arguments in getattr(test, "rows", [{}]) if name.startswith("test_") else ():
            patch, ran = MonkeyPatch(), ran + 1
            try:
                test(
                    **arguments,
                    **({"monkeypatch": patch} if "monkeypatch" in inspect.signature(test).parameters else {}),
                )
            except BaseException:  # noqa: BLE001
                failed += 1
                sys.stdout.write(f"{name} {arguments}\n{traceback.format_exc()}\n")
            patch.undo()
    sys.stdout.write(f"{ran} ran, {failed} failed\n")


main(*sys.argv[1:])
