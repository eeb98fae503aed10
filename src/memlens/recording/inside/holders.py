"""Who keeps tensors alive: the variables of the program, as paths from what its own code can reach.

Runs inside the program, whose Python may be an older one (3.8) and need not have memlens: the standard library alone.

The walk goes breadth first from the global variables of the program's own modules and the local ones of the functions that began their threads, then from those
of the functions that these have called, which are there for the time of a call; through containers,
attributes, closures, bound methods and frames that wait, and stops at tensors: the first path that is found is a short name, and the same in each walk.  Of a long
container some elements are looked at in each turn, so that a large data set in memory hides no model.  No code of the program is run (no property, no ``__getattr__``,
no ``__iter__``, no ``repr``), and nothing is kept when the walk has ended.
"""

from __future__ import annotations

import gc
import sys
import threading
import types
from collections import Counter, deque
from contextvars import copy_context
from itertools import islice
from operator import is_

from .contents import LEAVES, Contents, framework_class, is_of_memlens, locals_of, module_of, waiting_in

TYPE_CHECKING = False  # what is imported here is paid by every Python process of the program
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from .contents import Child

#: Turns of a walk, again in classes, and again beyond tensors; those of a short one, and from frames of libraries; what is looked at in one; characters of a path; frames of a thread.
_MOST_TURNS, _FEW_TURNS, _LIBRARY_TURNS, _AT_ONCE, _LONGEST, _DEEPEST = 20_000, 200, 4_000, 64, 120, 200
#: Rings of what refers to tensors, and how much one of them may have.
_MOST_RINGS, _MOST_REFERRERS = 8, 10_000
_CYCLE, _HANDLED = "a cycle that gc.collect() frees", "an exception that is being handled"
_CONTEXT, _UNCAUGHT = "a context variable", "the exception that ended the program"


class Walk:
    """One walk.

    Args:
        is_tensor: Whether a type is that of a tensor.
        own_name: The name of a file of the user's, ``None`` of any other.
        garbage: Look for what is in cycles, too; ``None``: only whether there may be some, which is quick, and makes a walk that did not see all.
        beyond: What a tensor itself holds, once all else was looked at: its gradient, and what its graph has saved.
        kept: What takes long to look for, from walk to walk: references to classes when there was no garbage of theirs, which of them are those of
            optimizers and models, and which modules are the program's.

    Attributes:
        found: A row a tensor: itself, its role (``parameter``, ``buffer``, ``optimizer``, ``variable``, ``gradient``, ``saved``, ``garbage``), its path, and where that begins.
        whole: Everything that can be reached was looked at, and what there may be of garbage.
        reached: Everything that variables lead to was; it may have been looked for garbage, or not.
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
        self.whole, self.named, self.searched, self.reached = True, True, False, False
        self._is_tensor, self._own_name, self._and_garbage, self._beyond = is_tensor, own_name, garbage, beyond
        self._kept: dict[str, Any] = {} if kept is None else kept
        self._passed = 0  # tensors that were looked beyond
        self._seen: dict[int, Any] = {}  # which keeps them, so that no id is given again
        self._loose: dict[int, int] = {}  # where in what was found the parameters are that no model has led to yet
        self._waiting: deque[tuple[Iterator[Child] | None, Any, str, str, str]] = deque()
        #: Classes, of which there may be many that have nothing.
        self._later: deque[tuple[None, Any, str, str, str]] = deque()
        self._spaces: list[tuple[dict[str, Any], str]] = []  # the variables of modules
        self._called: list[types.FrameType] = []  # the frames of libraries within functions of the program
        self.contents = Contents(is_tensor, self._kept.setdefault("classes", {}))

    def run(self, *, short: bool = False) -> list[tuple[Any, str, str, str]]:
        """Walk, and return what was found; ``short``: from the local variables of functions alone, and not far, in a tenth of the time."""
        try:
            called = self._roots(of_modules=not short)
            if short:
                self._called_by_these(called)
                self._turns(_FEW_TURNS)
                self.whole = False
                return self.found
            self._turns(_MOST_TURNS // 2)
            self.whole = True
            self._called_by_these(called)
            self._go()
            if self.whole and self._and_garbage is not False:
                self.reached = True
                self._garbage()
                self._go()
            return self.found
        finally:
            for some in (self._seen, self._waiting, self._later, self._spaces, self._called):
                some.clear()

    def _go(self) -> None:
        """Look at all that waits, and beyond the tensors that were found; there, too, where not all could be looked at; and at what libraries hold."""
        self._turns(_MOST_TURNS)
        left = _MOST_TURNS
        while left and self.whole and self._later:
            self._waiting.append(self._later.popleft())
            left = self._turns(left)
        self.whole = self.whole and not self._later
        if self.whole:
            self._generators()
            self._turns(_MOST_TURNS)
        self._go_beyond(_MOST_TURNS)
        if self.whole:  # an anonymous trainer may be held by its own functions alone
            named = self.named
            for frame in self._called:
                self._variables(locals_of(frame), f"{frame.f_code.co_name}, {frame.f_globals['__name__']}")
            self._turns(_LIBRARY_TURNS)
            self._go_beyond(_LIBRARY_TURNS)
            self._waiting.clear()
            self.whole, self.named = True, named

    def _generators(self) -> None:
        """The variables of the program's generators that wait and that no variable has: a loop that runs goes through them."""
        codes = {one: name for one in self.contents.generators if (name := self._own_name(one.co_filename)) is not None}
        # Generators refer to their code: as often as when none waited so means that none does.
        counts = [sys.getrefcount(one) for one in codes]
        if counts == self._kept.get("generators", []):
            return
        self._kept["generators"] = counts
        for one in gc.get_referrers(*codes):
            if type(one) is types.GeneratorType and one.gi_frame is not None and id(one) not in self._seen:
                self._kept["generators"] = None
                where = f"{one.gi_code.co_name}, {codes[one.gi_code]}"
                self._variables(locals_of(one.gi_frame), where)
                self._reach(one, "variable", one.gi_code.co_name, where)

    def _go_beyond(self, left: int) -> None:
        self._waiting.clear()
        while left and self._passed < len(self.found):
            for tensor, role, path, where in self.found[self._passed :]:
                self._waiting.append((self._beyond(self, tensor, role), None, role, path, where))
            self._passed = len(self.found)
            left = self._turns(left)
        self._passed = len(self.found)

    def _turns(self, most: int) -> int:
        """Look at what waits, in so many turns at most; gives how many are left."""
        while most and self._waiting:
            most -= 1
            begun, value, role, path, where = self._waiting.popleft()
            children, child = begun or self.contents.of(value), None
            for child in islice(children, _AT_ONCE):
                role_of_child = role if role == "garbage" else child[2] or role
                self._reach(child[1], role_of_child, _further(path, child[0]), where)
            if child is not None:  # there may be more
                self._waiting.append((children, value, role, path, where))
        self.whole = self.whole and not self._waiting
        return most

    def _garbage(self) -> None:
        """Begin anew at instances of the program's classes, and of optimizers, that no variable leads to: those in cycles wait for the collector.

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
        held = {id(value) for frame in self._frames() for value in locals_of(frame).values()}
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
        """The classes of the program's own modules, and of its models and optimizers."""
        for module, _ in self._spaces:
            for value in list(module.values()):
                if issubclass(type(value), type) and module_of(value) == module.get("__name__"):
                    yield value
        yield from filter(None, [made() for made in self._kept["classes"].values()])

    def _roots(self, *, of_modules: bool) -> list[types.FrameType]:
        """Begin at the variables of modules, of the functions that began threads, and of contexts; gives all frames."""
        self._spaces += self._modules() if of_modules else ()
        names = [values.get("__name__") for values, _ in self._spaces]
        self.contents.modules.update(name for name in names if type(name) is str)
        for values, where in self._spaces:
            self._variables(values, where)
        frames, within = list(self._frames()), False
        first: types.FrameType | None = None
        begun: list[types.FrameType] = []
        for frame in reversed(frames):
            own = self._own_name(frame.f_code.co_filename)
            within = own is not None or (within and frame.f_back is not None)
            # Walks of Paddle are taken between operators, too, whose arguments are there for the length of a call.
            if within and own is None and not is_of_memlens(frame, "paddle."):
                self._called.append(frame)
            first = first if frame.f_back is not None else None
            if first is None and own is not None and frame.f_code.co_name != "<module>":
                first = frame
                begun.append(frame)
        ended: list[types.FrameType] = []  # by an exception, or what a prompt has shown
        at = getattr(sys, "last_traceback", None)
        while type(at) is types.TracebackType:
            ended.insert(0, at.tb_frame)
            at = at.tb_next
        if of_modules:
            for frame in (*begun, *ended):
                self._function(frame)
        for variable, value in copy_context().items():
            self._reach(value, "variable", variable.name, _CONTEXT)
        if ended:
            error = getattr(sys, "last_value", None)
            self._reach(error, "variable", type.__dict__["__name__"].__get__(type(error)), _UNCAUGHT)
        return frames

    def _called_by_these(self, frames: list[types.FrameType]) -> None:
        """Go on at the variables of the functions of some frames, the innermost first, of those that wait in them, and at exceptions."""
        for frame in (*frames, *(waiting for one in frames for waiting in waiting_in(one))):
            self._function(frame)
        # Exceptions that are being handled, whose frames no variable need lead to.  Python 3.10 has those of all threads.
        for one in getattr(sys, "_current_exceptions", lambda: {0: sys.exc_info()})().values():
            error = one[1] if type(one) is tuple else one
            self._reach(error, "variable", type.__dict__["__name__"].__get__(type(error)), _HANDLED)

    def _function(self, frame: types.FrameType) -> None:
        name = self._own_name(frame.f_code.co_filename)
        if name is not None and frame.f_code.co_name != "<module>":
            self._variables(locals_of(frame), f"{frame.f_code.co_name}, {name}")

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
        if id(kind) in LEAVES:
            return
        if id(value) in self._seen:
            # A model's own name for its parameter goes before that of a list which has it.
            if role == "parameter" and id(value) in self._loose and len(path) <= _LONGEST:
                self.found[self._loose.pop(id(value))] = (value, role, path, where)
            return
        of_class = issubclass(kind, type)
        if of_class and module_of(value) not in self.contents.modules:
            self._seen[id(value)] = value
            return
        if len(path) > _LONGEST:
            self.named = False
            return
        self._seen[id(value)] = value
        if self._is_tensor(kind):
            if role in ("variable", "optimizer", "saved") and framework_class(kind, ("EagerParamBase", "Parameter")):
                self._loose[id(value)], role = len(self.found), "parameter"
            self.found.append((value, role, path, where))
            for name, inner in self.contents.stored(value, kind) if role == "parameter" else ():
                if name == "_local_tensor":  # a shard of FSDP's, whatever else has it
                    self._reach(inner, role, path, where)
        else:
            (self._later if of_class else self._waiting).append((None, value, role, path, where))


def _further(path: str, step: str) -> str:
    """A path, and a step from there; what one step leads on to a third time and more, in a list of things that each lead to the next one, is one name."""
    if step and step != "[*]":
        if path.endswith(2 * step) and not step[1:].isdigit():  # as layers are called within layers
            return f"{path}[*]"
        if path.endswith("[*]") and path.endswith(f"{2 * step}[*]"):
            return path
    return path + step
