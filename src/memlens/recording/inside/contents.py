"""What an object leads to: containers, attributes, closures, bound methods, frames that wait, and what the classes of the program have.

Runs inside the program, whose Python may be an older one (3.8) and need not have memlens: the standard library alone.  No code of the program is
run (no property, no ``__getattr__``, no ``__iter__``, no ``repr``).
"""

from __future__ import annotations

import functools
import gc
import sys
import threading
import types
from collections import deque
from contextlib import suppress
from inspect import CO_GENERATOR, CO_OPTIMIZED
from weakref import ref

TYPE_CHECKING = False  # what is imported here is paid by every Python process of the program
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeAlias

    #: What is added to the path, the value, and its role where that is another than that of what holds it.
    Child: TypeAlias = tuple[str, Any, str]

#: A key of a dictionary is written where it is as short as this, and where there are as few.
_LONGEST_KEY, _MOST_KEYS = 32, 64
#: Types whose values lead nowhere, by their ids: a type may have a hash of its own.
LEAVES = {*map(id, (int, float, complex, bool, str, bytes, bytearray, memoryview, range, slice))}
LEAVES |= {*map(id, (type(None), type(...), type(str.join), type(str.__add__), types.ModuleType))}
_SEQUENCES = (list, tuple, set, frozenset, deque)
_FRAMES = {id(types.GeneratorType): "gi_frame", id(types.CoroutineType): "cr_frame"}
_FRAMES[id(types.AsyncGeneratorType)] = "ag_frame"
#: Types that have no attributes of their own.
_CODE = (types.FunctionType, types.CellType, types.MethodType, types.TracebackType, types.FrameType, types.CodeType)
_PLAIN = {*map(id, (*_CODE, dict, *_SEQUENCES)), *_FRAMES}
_ASIDE, _METHODS = (types.FrameType, types.MethodType), (staticmethod, classmethod)
_STORING = (types.MemberDescriptorType, types.GetSetDescriptorType)
LEAVES |= {*map(id, _STORING)}
#: What is stored, though a function in C gives it: the latter is what a PyLayer of Paddle's has saved.
_OPEN = ("__dict__", "container")
#: Modules in C whose types tell the collector alone what they hold: iterators, caches of functions, queues, tasks.
_IN_C = ("builtins", "functools", "itertools", "_asyncio", "_contextvars", "_queue")
_OF_MODULES = {"__builtins__", "__build_class__"}  # in the variables of a module, and in the built-in ones
_IN_COVERAGE = ("", "coverage.collector")  # the module of no tracer, and of the hook of coverage, whose tracer is in C
#: The order of bases of a type, and what it has: none of a type in C that was not made ready.
_MRO, _VALUES = type.__dict__["__mro__"].__get__, type.__dict__["__dict__"].__get__
#: Attributes of models and optimizers that their own names leave out, and the role of what stands in them.
_INNER = dict.fromkeys(("_accumulators", "_master_weights", "state"), "optimizer")
_INNER.update(_parameters="parameter", _buffers="buffer", _sub_layers="", _modules="")
FRAMEWORKS = ("paddle.", "torch.")


class Contents:
    """What objects lead to.

    Args:
        is_tensor: Whether a type is that of a tensor.
        made: Weak references, by ids, to the classes of optimizers that are met, and to those of models that no framework has.

    Attributes:
        modules: Names of modules whose classes are the program's.
        generators: The code of functions that were met and make generators.
    """

    def __init__(self, is_tensor: Callable[[type], bool], made: dict[int, Any]) -> None:
        self._is_tensor, self._made = is_tensor, made
        self.modules: set[str] = set()
        self.generators: list[types.CodeType] = []
        self._kinds: dict[int, tuple[str, bool, bool, list[tuple[str, Any]]]] = {}

    def of(self, value: Any) -> Iterator[Child]:
        """What stands in a value, in its order."""
        kind = type(value)
        if issubclass(kind, type):
            yield from self._of_class(value)
            return
        if kind is types.FunctionType:
            yield from self._of_function(value)
            # Its own dictionary would be made, if it were asked for.
            for own in [
                one for one in gc.get_referents(value) if type(one) is dict and one.keys().isdisjoint(_OF_MODULES)
            ]:
                yield from ((f".{name}", inner, "") for name, inner in list(own.items()) if type(name) is str)
        elif kind is types.CellType:
            with suppress(ValueError):  # empty
                yield "", value.cell_contents, ""
        elif kind is types.MethodType:
            yield "", value.__self__, ""
        elif id(kind) in _FRAMES and (frame := getattr(value, _FRAMES[id(kind)])) is not None:
            yield from ((f".{name}", inner, "") for name, inner in locals_of(frame).items())
            # What it goes through, or waits for, is on its stack alone.  A method of its event loop would lead to all of that.
            for inner in gc.get_referents(value if sys.version_info >= (3, 11) else frame):
                if inner is not frame.f_globals and inner is not frame.f_builtins and type(inner) not in _ASIDE:
                    yield "", inner, ""
        elif kind is types.TracebackType:
            if not is_of_memlens(value.tb_frame):
                yield from ((f".{name}", inner, "") for name, inner in locals_of(value.tb_frame).items())
            yield "", value.tb_next, ""
        elif issubclass(kind, dict):
            few = dict.__len__(value) <= _MOST_KEYS
            for key, inner in zip(list(dict.__iter__(value)), list(dict.values(value))):  # noqa: B905 - Python 3.8
                yield f"[{key!r}]" if few and _is_short(key) else "[*]", inner, ""
                if id(type(key)) not in LEAVES:
                    yield ".keys()[*]", key, ""
        elif issubclass(kind, _SEQUENCES):
            base = next(base for base in _SEQUENCES if issubclass(kind, base))
            yield from (("[*]", inner, "") for inner in list(base.__iter__(value)))
        elif kind is getattr(sys.modules.get("numpy"), "ndarray", None):
            yield "", value.base, ""  # a tensor whose memory it shows
            yield from (("[*]", inner, "") for inner in (value.flat if value.dtype.kind == "O" else ()))
        if id(kind) not in _PLAIN:
            yield from self._attributes(value, kind)
            _, told, of_program, _ = self._kind(kind)
            if told:
                for inner in gc.get_referents(value):
                    # A cache of a function has its results beside that and the dictionary.
                    one_of_many = kind is functools._lru_cache_wrapper and not (type(inner) is dict or callable(inner))
                    yield "[*]" if one_of_many else "", inner, ""
            if of_program:
                yield "", kind, ""

    def _of_function(self, function: types.FunctionType) -> Iterator[Child]:
        if function.__code__.co_flags & CO_GENERATOR:
            self.generators.append(function.__code__)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):  # noqa: B905 - Python 3.8
            if name != "__class__":
                yield f".{name}", cell, ""
        for inner in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            yield "(=)", inner, ""

    def _of_class(self, kind: type) -> Iterator[Child]:
        """What the program's classes have as attributes, and their methods as defaults, in closures, and in caches."""
        for name, value in list(_VALUES(kind).items()):
            plain = value.__func__ if type(value) in _METHODS else value.fget if type(value) is property else value
            if type(plain) is types.FunctionType:  # of which there are many that have nothing
                yield from ((f".{name}{path}", inner, role) for path, inner, role in self._of_function(plain))
            elif not name.startswith("__"):
                yield f".{name}", plain, ""
        yield from (("", base, "") for base in _MRO(kind)[1:])

    def _attributes(self, value: Any, kind: type) -> Iterator[Child]:
        """What is stored in an instance: of a model or an optimizer by its own names."""
        framework = self._kind(kind)[0]
        for name, inner in self.stored(value, kind):
            if not (framework and name in _INNER and issubclass(type(inner), dict)):
                yield f".{name}", inner, "optimizer" if framework == "Optimizer" else ""
                continue
            for key, part in list(dict.items(inner)):
                shown = f".{key}" if _is_short(key) else "[*]"
                if framework == "Optimizer" and issubclass(type(part), dict):
                    for last, tensor in list(dict.items(part)):
                        # Of Paddle by its name and the parameter, of PyTorch by the parameter and its name.
                        yield f"{shown}[*]" if _is_short(key) else f".{last}[*]", tensor, "optimizer"
                else:
                    yield f".{name.strip('_')}[*]" if framework == "Optimizer" else shown, part, _INNER[name]

    def stored(self, value: Any, kind: type) -> Iterator[tuple[str, Any]]:
        """The attributes that stand in an instance, and in its slots."""
        if issubclass(kind, threading.local):  # whose dictionary is made for each thread, by code of the program
            kept = (inner for inner in gc.get_referents(value) if type(inner) is dict)
            for of_thread in [one for inner in kept for one in inner.values() if type(one) is dict]:
                yield from list(of_thread.items())
            return
        for name, descriptor in self._kind(kind)[3]:
            try:
                inner = descriptor.__get__(value)
            except (AttributeError, TypeError, RuntimeError):  # a slot without a value
                continue
            yield from list(inner.items()) if name == "__dict__" else ((name, inner),)

    def _kind(self, kind: type) -> tuple[str, bool, bool, list[tuple[str, Any]]]:
        """The class of a framework that a type is, whether the collector knows more, whether it is the program's, and where its instances store attributes."""
        if id(kind) not in self._kinds:
            framework = framework_class(kind, ("Layer", "Module", "Optimizer"))
            if framework == "Optimizer" or (framework and not module_of(kind).startswith(FRAMEWORKS)):
                self._made[id(kind)] = ref(kind)
            of_bases = [list((_VALUES(base) or {}).items()) for base in _MRO(kind) or (kind,)]
            found = [one for values in of_bases for one in values if type(one[1]) in _STORING]
            stored = [one for one in found if one[0] in _OPEN or type(one[1]) is types.MemberDescriptorType]
            told = issubclass(kind, BaseException) or module_of(kind) in _IN_C
            self._kinds[id(kind)] = framework, told, module_of(kind) in self.modules, stored
        return self._kinds[id(kind)]


def waiting_in(frame: types.FrameType) -> Iterator[types.FrameType]:
    """The frames of coroutines that wait in an event loop of asyncio, where a frame is the one in which it runs."""
    tasks = sys.modules.get("asyncio.tasks")
    if tasks is None or frame.f_code.co_name != "run_forever" or frame.f_globals.get("__package__") != "asyncio":
        return
    with suppress(RuntimeError):  # other threads change it
        for task in tasks.all_tasks(locals_of(frame)["self"]):
            coroutine = next((one for one in gc.get_referents(task) if type(one) is types.CoroutineType), None)
            while type(coroutine) is types.CoroutineType and coroutine.cr_frame is not None:
                yield coroutine.cr_frame
                coroutine = coroutine.cr_await


def is_of_memlens(frame: types.FrameType, *others: str) -> bool:
    """Whether a frame is of a module of memlens's, or of others, whose names begin so; or of none."""
    module = frame.f_globals.get("__name__")
    return type(module) is not str or f"{module}.".startswith(("memlens.", "_memlens.", *others))


def locals_of(frame: types.FrameType) -> dict[str, Any]:
    """The local variables of a frame.

    Up to Python 3.12 a frame keeps the dictionary that it gives, and so what the variables were: it is emptied, unless the program has asked
    for it as well, or a tracer in Python may be about to give the frame back what is in it.
    """
    kept = frame.f_locals
    found = dict(kept)
    function = frame.f_code.co_flags & CO_OPTIMIZED  # that of a class, or of exec, is the namespace itself
    if sys.version_info < (3, 13) and function and sys.getrefcount(kept) <= 3:  # the frame, a variable, an argument
        tracers = frame.f_trace, sys.gettrace(), getattr(threading, "_trace_hook", None)
        if all(type(one).__module__ == "coverage" or getattr(one, "__module__", "") in _IN_COVERAGE for one in tracers):
            kept.clear()
    return found


def _is_short(key: Any) -> bool:
    return type(key) is str and len(key) <= _LONGEST_KEY and key.isprintable()


def module_of(kind: type) -> str:
    """The name of the module that a class is of, ``""`` where it has none."""
    with suppress(AttributeError):  # it was deleted
        if type(found := type.__dict__["__module__"].__get__(kind)) is str:
            return found
    return ""


def framework_class(kind: type, names: tuple[str, ...]) -> str:
    """The name of the class of a framework, among some, that a type is or comes from; ``""`` where it comes from none."""
    for base in _MRO(kind) or (kind,):
        name = type.__dict__["__name__"].__get__(base)
        if name in names and module_of(base).startswith(FRAMEWORKS):
            return name  # type: ignore[no-any-return]
    return ""
