"""What ``startup/sitecustomize.py`` loads: starts what is asked for, and brings word of imports to it.

Runs inside the program, whose Python may be an older one (3.8) and need not have memlens: the standard library alone.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # what is imported here is paid by every Python process of the program
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


#: What may be asked for: its key in ``MEMLENS_RECORD``, and the module beside this one whose ``start`` takes its value, which is not null.
_MODULES = {
    "socket": "ranks",
    "torch": "histories",
    "paddle": "histories",
    "lines": "program_lines",
    "holders": "torch_names",
}


def start(asked: dict[str, Any]) -> None:
    """Start what is asked for."""
    for key, value in asked.items():
        if value is not None:
            load(_MODULES[key]).start(value, when_imported)


def load(name: str) -> Any:
    """Load a module that stands beside this one, from a package that is in no folder of modules; once in a process, whoever asks for it."""
    if "_memlens" not in sys.modules:
        package: Any = type(sys)("_memlens")
        package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
        sys.modules["_memlens"] = package
    __import__(f"_memlens.{name}")
    return sys.modules[f"_memlens.{name}"]


def when_imported(name: str, act: Callable[[Any], None]) -> None:
    """Call a function with a module once it is imported, at once where it is; looking for it alone, as libraries do, runs nothing.

    Args:
        name: Of the module, ``torch``.
        act: What to call; where it fails, that is said, and the program goes on.
    """
    if name in sys.modules:
        act(sys.modules[name])
        return
    _acts.setdefault(name, []).append(act)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


class _Finder:
    """Finds modules as Python would, with word of their import."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Find what the other finders find."""
        if name not in _acts:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            if find is not None and (spec := find(name, path, target)) is not None:
                _follow(name, spec.loader)
                return spec
        return None


_acts: dict[str, list[Callable[[Any], None]]] = {}
_finder = _Finder()


def _follow(name: str, loader: Any) -> None:
    """Call the functions after the module was run."""

    def exec_module(module: Any) -> None:
        loader.exec_module = run
        run(module)
        for act in _acts.pop(name, ()):
            try:
                act(module)
            except Exception as error:  # noqa: BLE001  the program goes on
                say(f"nothing of {name} is recorded: {in_words(error)}")
        if not _acts:
            # Another thread may be going through the list: it is replaced, not changed.
            sys.meta_path = [finder for finder in sys.meta_path if finder is not _finder]

    try:
        run = loader.exec_module
        loader.exec_module = exec_module
    except AttributeError as error:  # no loader, or one of an unusual kind
        say(f"nothing of {name} is recorded: {in_words(error)}")


def say(text: str) -> None:
    """Tell the user, where stderr can be written to."""
    try:
        sys.stderr.write(f"memlens: {text}\n")
        sys.stderr.flush()
    except Exception:  # noqa: BLE001  closed, or none
        return


def in_words(error: BaseException) -> str:
    """An exception as a line for people."""
    return f"{type(error).__name__}: {error}"
