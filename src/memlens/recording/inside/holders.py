"""Who keeps tensors alive: the variables of the program, as paths from what its own code can reach.

Runs inside the program, whose Python may be an older one (3.8) and need not have memlens: the standard library alone.

The walk goes breadth first from the global variables of the program's own modules and the local ones of their frames on all threads, through containers,
attributes, closures, bound methods and frames that wait, and stops at tensors: the first path that is found is a short name.  Of a long
container some elements are looked at in each turn, so that a large data set in memory hides no model.  No code of the program is run (no property, no ``__getattr__``,
no ``__iter__``, no ``repr``), and nothing is kept when the walk has ended.
"""

from __future__ import annotations

import gc
import sys
import threading
import types
from collections import Counter, deque
from contextlib import suppress
from inspect import CO_OPTIMIZED
from itertools import islice
from operator import is_

TYPE_CHECKING = False  # what is imported here is paid by every Python process of the program
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeAlias

    #: What is added to the path, the value, and its role where that is another than that of what holds it.
    Child: TypeAlias = tuple[str, Any, str]

#: Turns of a walk, and again beyond tensors; those of a short one, and from frames of libraries; what is looked at in one; characters of a path; frames of a thread.
_MOST_TURNS, _FEW_TURNS, _LIBRARY_TURNS, _AT_ONCE, _LONGEST, _DEEPEST = 20_000, 200, 2_000, 64, 120, 200
#: Rings of what refers to tensors, and how much one of them may have.
_MOST_RINGS, _MOST_REFERRERS = 8, 10_000
#: A key of a dictionary is written where it is as short as this, and where there are as few.
_LONGEST_KEY, _MOST_KEYS = 32, 64
_CYCLE, _HANDLED = "a cycle that gc.collect() frees", "an exception that is being handled"
#: Types whose values lead nowhere, by their ids: a type may have a hash of its own.
_LEAVES = {*map(id, (int, float, complex, bool, str, bytes, bytearray, memoryview, range, slice, type))}
_LEAVES |= {*map(id, (type(None), type(...), type(str.join), types.ModuleType))}
_SEQUENCES = (list, tuple, set, frozenset, deque)
_FRAMES = {id(types.GeneratorType): "gi_frame", id(types.CoroutineType): "cr_frame"}
_FRAMES[id(types.AsyncGeneratorType)] = "ag_frame"
#: Types that have no attributes of their own.
_CODE = (types.FunctionType, types.CellType, types.MethodType, types.TracebackType, types.FrameType, types.CodeType)
_PLAIN = {*map(id, (*_CODE, dict, *_SEQUENCES)), *_FRAMES}
_ASIDE, _STORING = (types.FrameType, types.MethodType), (types.MemberDescriptorType, types.GetSetDescriptorType)
#: Modules in C whose types tell the collector alone what they hold: iterators, caches of functions, queues, tasks.
_IN_C = ("builtins", "functools", "itertools", "_asyncio", "_contextvars", "_queue")
_IN_COVERAGE = ("", "coverage.collector")  # the module of no tracer, and of the hook of coverage, whose tracer is in C
#: The order of bases of a type, and what it has: none of a type in C that was not made ready.
_MRO, _VALUES = type.__dict__["__mro__"].__get__, type.__dict__["__dict__"].__get__
#: Attributes of models and optimizers that their own names leave out, and the role of what stands in them.
_INNER = dict.fromkeys(("_accumulators", "_master_weights", "state"), "optimizer")
_INNER.update(_parameters="parameter", _buffers="buffer", _sub_layers="", _modules="")
_FRAMEWORKS = ("paddle.", "torch.")


class Walk:
    """One walk.

    Args:
        is_tensor: Whether a type is that of a tensor.
        own_name: The name of a file of the user's, ``None`` of any other.
        garbage: Look for what is in cycles, too; ``None``: only whether there may be some, which is quick, and makes a walk that did not see all.
        beyond: What a tensor itself holds, once all else was looked at: its gradient, and what its graph has saved.
        kept: What takes long to look for, from walk to walk: references to classes when there was no garbage of theirs, and which modules are the program's.

    Attributes:
        found: A row a tensor: itself, its role (``parameter``, ``buffer``, ``optimizer``, ``variable``, ``gradient``, ``saved``, ``garbage``), its path, and where that begins.
        whole: Everything that can be reached was looked at.
        named: No path to something was too long.
        searched: It was looked for garbage, which takes longer than all else.
    """

    def __init__(
        self,
        is_tensor: Callable[[type], bool],
        own_name: Callable[[str], str | None],
        *,
        garbage: bool | None = True,
        beyond: Callable[[Walk, Any, str], Iterator[Child]] = lambda *_: iter(()),
        kept: dict[str, Any] | None = None,
    ) -> None:
        self.found: list[tuple[Any, str, str, str]] = []
        self.whole, self.named, self.searched = True, True, False
        self._is_tensor, self._own_name, self._and_garbage, self._beyond = is_tensor, own_name, garbage, beyond
        self._kept: dict[str, Any] = {} if kept is None else kept
        self._passed = 0  # tensors that were looked beyond
        self._seen: dict[int, Any] = {}  # which keeps them, so that no id is given again
        self._loose: dict[int, int] = {}  # where in what was found the parameters are that no model has led to yet
        self._waiting: deque[tuple[Iterator[Child] | None, Any, str, str, str]] = deque()
        self._spaces: list[tuple[dict[str, Any], str]] = []  # the variables of modules
        self._called: list[types.FrameType] = []  # the frames of libraries within functions of the program
        self._kinds: dict[int, tuple[str, bool, list[tuple[str, Any]]]] = {}

    def run(self, *, short: bool = False) -> list[tuple[Any, str, str, str]]:
        """Walk, and return what was found; ``short``: from the local variables of functions alone, and not far, in a tenth of the time."""
        try:
            self._roots(of_modules=not short)
            if short:
                self._turns(_FEW_TURNS)
                self.whole = False
                return self.found
            self._go()
            if self.whole and self._and_garbage is not False:
                self._garbage()
                self._go()
            return self.found
        finally:
            for some in (self._seen, self._waiting, self._kinds, self._spaces, self._called):
                some.clear()

    def _go(self) -> None:
        """Look at all that waits, and beyond the tensors that were found; there, too, where not all could be looked at."""
        self._turns(_MOST_TURNS)
        if self.whole:  # an anonymous trainer may be held by its own functions alone
            for frame in self._called:
                self._variables(_locals(frame), f"{frame.f_code.co_name}, {frame.f_globals['__name__']}")
            self._turns(_LIBRARY_TURNS)
            self.whole = True
        self._waiting.clear()
        left = _MOST_TURNS
        while left and self._passed < len(self.found):
            for tensor, role, path, where in self.found[self._passed :]:
                self._waiting.append((self._beyond(self, tensor, role), None, role, path, where))
            self._passed = len(self.found)
            left = self._turns(left)

    def _turns(self, most: int) -> int:
        """Look at what waits, in so many turns at most; gives how many are left."""
        while most and self._waiting:
            most -= 1
            begun, value, role, path, where = self._waiting.popleft()
            children, child = begun or self._children(value), None
            for child in islice(children, _AT_ONCE):
                self._reach(child[1], child[2] or role, path + child[0], where)
            if child is not None:  # there may be more
                self._waiting.append((children, value, role, path, where))
        self.whole = self.whole and not self._waiting
        return most

    def _garbage(self) -> None:
        """Begin anew at instances of the program's classes that no variable leads to: those in cycles wait for the collector.

        Ring by ring, what refers to them; and what of it a library holds, or is not looked at, with all that it leads to, is no garbage.
        Tensors may be no objects of the collector themselves, and up to Python 3.8 instances do not refer to their classes.
        """
        kinds = {id(kind): kind for kind in self._classes() if not self._is_tensor(kind)}
        reached = Counter(id(type(value)) for value in self._seen.values())
        # Instances refer to their classes: as many as when there was no garbage mean that there is none.
        left = {number: sys.getrefcount(kind) - reached[number] for number, kind in kinds.items()}
        quiet = not kinds or left == self._kept.get("quiet")
        if quiet or self._and_garbage is None:
            self.whole = quiet
            return
        self._kept["quiet"], self.searched = {}, True
        ring: list[Any] = gc.get_referrers(*kinds.values())
        ring = [one for one in ring if id(type(one)) in kinds and id(one) not in self._seen]
        if len(ring) > _MOST_REFERRERS:
            return
        held = {id(value) for frame in self._frames() for value in _locals(frame).values()}
        met: dict[int, Any] = {id(one): one for one in ring}
        alive: list[Any] = [one for one in ring if id(one) in held]
        for _ in range(_MOST_RINGS):
            if ring and len(ring) <= _MOST_REFERRERS:
                ring = self._referring(ring, met, alive, held)
        alive += ring
        del ring
        alive += self._held_elsewhere(met)
        marked = set(map(id, alive))
        while alive:
            for one in gc.get_referents(alive.pop()):
                if id(one) in met and id(one) not in marked:
                    marked.add(id(one))
                    alive.append(one)
        self._kept["quiet"] = left
        for one in [one for number, one in met.items() if number not in marked and id(type(one)) in kinds]:
            self._kept["quiet"] = {}
            self._reach(one, "garbage", type.__dict__["__name__"].__get__(type(one)), _CYCLE)

    @staticmethod
    def _held_elsewhere(met: dict[int, Any]) -> list[Any]:
        """Those of some objects that have more references than they have to each other: the rest is of a library in C, which tells the collector nothing."""
        known = dict.fromkeys(met, 0)
        for one in met.values():
            for inner in gc.get_referents(one):
                if id(inner) in known:
                    known[id(inner)] += 1
        one = inner = None
        counts = [sys.getrefcount(one) for one in met.values()]
        (ours,) = [sys.getrefcount(one) for one in {0: object()}.values()]
        return [one for one, count in zip(met.values(), counts) if count > known[id(one)] + ours]  # noqa: B905 - Python 3.8

    def _referring(self, ring: list[Any], met: dict[int, Any], alive: list[Any], held: set[int]) -> list[Any]:
        """What refers to a ring and was not met before; what of it is alive is put to that."""
        following: list[Any] = []
        ours = {id(ring), id(met), id(alive)}
        for one in gc.get_referrers(*ring):
            if id(one) in met or id(one) in ours or type(one) is types.FrameType:
                continue
            if type(one) is tuple and len(one) == len(ring) and all(map(is_, one, ring)):  # of this very call
                continue
            met[id(one)] = one
            known = id(one) in self._seen or id(one) in held or issubclass(type(one), (types.ModuleType, type))
            (alive if known else following).append(one)
        return following

    def _classes(self) -> Iterator[type]:
        """The classes of the program's own modules."""
        for module, _ in self._spaces:
            for value in list(module.values()):
                if issubclass(type(value), type) and _module_of(value) == module.get("__name__"):
                    yield value

    def _roots(self, *, of_modules: bool) -> None:
        self._spaces += self._modules() if of_modules else ()
        for values, where in self._spaces:
            self._variables(values, where)
        frames, within = list(self._frames()), False
        for frame in reversed(frames):
            own, module = self._own_name(frame.f_code.co_filename), frame.f_globals.get("__name__")
            within = own is not None or (within and frame.f_back is not None)
            theirs = within and own is None and type(module) is str
            if theirs and not f"{module}.".startswith(("_memlens_", *_FRAMEWORKS)):
                self._called.append(frame)
        frames += [waiting for frame in frames for waiting in _waiting_in(frame)]
        for frame in frames:
            name = self._own_name(frame.f_code.co_filename)
            if name is not None and frame.f_code.co_name != "<module>":
                self._variables(_locals(frame), f"{frame.f_code.co_name}, {name}")
        # Exceptions that are being handled, whose frames no variable need lead to.  Python 3.10 has those of all threads.
        for one in getattr(sys, "_current_exceptions", lambda: {0: sys.exc_info()})().values():
            error = one[1] if type(one) is tuple else one
            self._reach(error, "variable", type.__dict__["__name__"].__get__(type(error)), _HANDLED)

    def _modules(self) -> Iterator[tuple[dict[str, Any], str]]:
        """The variables of the program's own modules, and the names of their files; of one that is run in a namespace of its own, too."""
        loaded, kept = dict(sys.modules), self._kept
        when = len(loaded), next(reversed(loaded), None)
        if kept.get("when") != when:
            modules = [(name, one.__dict__) for name, one in loaded.items() if type(one) is types.ModuleType]
            files = [(name, values.get("__file__")) for name, values in modules]
            ours = (name for name, file in files if type(file) is str and self._own_name(file) is not None)
            kept.update(when=when, modules=["__main__", *ours])
        own = [loaded[name].__dict__ for name in kept["modules"] if type(loaded.get(name)) is types.ModuleType]
        found = [(values, values.get("__file__")) for values in own]
        found += [(frame.f_globals, frame.f_code.co_filename) for frame in self._frames()]
        met: set[int] = set()
        for values, file in found:
            at_exit = type(file) is not str and values.get("__name__") == "__main__"  # it has none any more
            name = (sys.argv or [""])[0] if at_exit else file
            where = self._own_name(name) if type(name) is str and id(values) not in met else None
            met.update([id(values)] if type(file) is str else ())
            if where is not None:
                yield values, where

    @staticmethod
    def _frames() -> Iterator[types.FrameType]:
        """The frames of all threads, without those of this walk: one that held itself would keep all that was looked at."""
        tops: dict[int, types.FrameType | None] = dict(sys._current_frames())
        tops[threading.get_ident()] = sys._getframe(3).f_back
        for top in list(tops.values()):
            frame = top
            for _ in range(_DEEPEST):
                if frame is None:
                    break
                yield frame
                frame = frame.f_back

    def _variables(self, values: dict[str, Any], where: str) -> None:
        for name, value in list(values.items()):
            if type(name) is str and not name.startswith("__"):
                self._reach(value, "variable", name, where)

    def _reach(self, value: Any, role: str, path: str, where: str) -> None:
        kind = type(value)
        if id(kind) in _LEAVES or issubclass(kind, type):
            return
        if id(value) in self._seen:
            # A model's own name for its parameter goes before that of a list which has it.
            if role == "parameter" and id(value) in self._loose and len(path) <= _LONGEST:
                self.found[self._loose.pop(id(value))] = (value, role, path, where)
            return
        if len(path) > _LONGEST:
            self.named = False
            return
        self._seen[id(value)] = value
        if self._is_tensor(kind):
            if role in ("variable", "optimizer") and _framework_class(kind, ("EagerParamBase", "Parameter")):
                self._loose[id(value)], role = len(self.found), "parameter"
            self.found.append((value, role, path, where))
            for name, inner in self.stored(value, kind) if role == "parameter" else ():
                if name == "_local_tensor":  # a shard of FSDP's, whatever else has it
                    self._reach(inner, role, path, where)
        else:
            self._waiting.append((None, value, role, path, where))

    def _children(self, value: Any) -> Iterator[Child]:
        kind = type(value)
        if kind is types.FunctionType:
            for name, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):  # noqa: B905 - Python 3.8
                yield f".{name}", cell, ""
            for inner in (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()):
                yield "(=)", inner, ""
        elif kind is types.CellType:
            with suppress(ValueError):  # empty
                yield "", value.cell_contents, ""
        elif kind is types.MethodType:
            yield "", value.__self__, ""
        elif id(kind) in _FRAMES and (frame := getattr(value, _FRAMES[id(kind)])) is not None:
            yield from ((f".{name}", inner, "") for name, inner in _locals(frame).items())
            # What it goes through, or waits for, is on its stack alone.  A method of its event loop would lead to all of that.
            for inner in gc.get_referents(value if sys.version_info >= (3, 11) else frame):
                if inner is not frame.f_globals and inner is not frame.f_builtins and type(inner) not in _ASIDE:
                    yield "", inner, ""
        elif kind is types.TracebackType:
            if self._own_name(value.tb_frame.f_code.co_filename) is not None:
                yield from ((f".{name}", inner, "") for name, inner in _locals(value.tb_frame).items())
            yield "", value.tb_next, ""
        elif issubclass(kind, dict):
            few = dict.__len__(value) <= _MOST_KEYS
            for key, inner in zip(list(dict.__iter__(value)), list(dict.values(value))):  # noqa: B905 - Python 3.8
                yield f"[{key!r}]" if few and _is_short(key) else "[*]", inner, ""
        elif issubclass(kind, _SEQUENCES):
            base = next(base for base in _SEQUENCES if issubclass(kind, base))
            yield from (("[*]", inner, "") for inner in list(base.__iter__(value)))
        if id(kind) not in _PLAIN:
            yield from self._attributes(value, kind)
            if self._kind(kind)[1]:
                yield from (("", inner, "") for inner in gc.get_referents(value))

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
        for name, descriptor in self._kind(kind)[2]:
            try:
                inner = descriptor.__get__(value)
            except (AttributeError, TypeError):  # a slot without a value
                continue
            yield from list(inner.items()) if name == "__dict__" else ((name, inner),)

    def _kind(self, kind: type) -> tuple[str, bool, list[tuple[str, Any]]]:
        """The class of a framework that a type is, whether the collector knows more, and where its instances store attributes."""
        if id(kind) not in self._kinds:
            framework = _framework_class(kind, ("Layer", "Module", "Optimizer"))
            of_bases = [list((_VALUES(base) or {}).items()) for base in _MRO(kind) or (kind,)]
            found = [one for values in of_bases for one in values if type(one[1]) in _STORING]
            stored = [one for one in found if one[0] == "__dict__" or type(one[1]) is types.MemberDescriptorType]
            self._kinds[id(kind)] = framework, issubclass(kind, BaseException) or _module_of(kind) in _IN_C, stored
        return self._kinds[id(kind)]


def _waiting_in(frame: types.FrameType) -> Iterator[types.FrameType]:
    """The frames of coroutines that wait in an event loop of asyncio, where a frame is the one in which it runs."""
    tasks = sys.modules.get("asyncio.tasks")
    if tasks is None or frame.f_code.co_name != "run_forever" or frame.f_globals.get("__package__") != "asyncio":
        return
    with suppress(RuntimeError):  # other threads change it
        for task in tasks.all_tasks(_locals(frame)["self"]):
            coroutine = next((one for one in gc.get_referents(task) if type(one) is types.CoroutineType), None)
            while type(coroutine) is types.CoroutineType and coroutine.cr_frame is not None:
                yield coroutine.cr_frame
                coroutine = coroutine.cr_await


def _locals(frame: types.FrameType) -> dict[str, Any]:
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


def _module_of(kind: type) -> str:
    with suppress(AttributeError):  # it was deleted
        if type(found := type.__dict__["__module__"].__get__(kind)) is str:
            return found
    return ""


def _framework_class(kind: type, names: tuple[str, ...]) -> str:
    """The name of the class of a framework, among some, that a type is or comes from; ``""`` where it comes from none."""
    for base in _MRO(kind) or (kind,):
        name = type.__dict__["__name__"].__get__(base)
        if name in names and _module_of(base).startswith(_FRAMEWORKS):
            return name  # type: ignore[no-any-return]
    return ""
