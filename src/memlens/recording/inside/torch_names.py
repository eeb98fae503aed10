"""Who holds the tensors of PyTorch, in its memory snapshots and in the traces of its profiler.

Runs inside the program, whose Python may be an older one (3.8) and need not have memlens: the standard library alone.

Holders are looked for while the memory history or a profile of memory is recorded: when backward passes begin, when an optimizer clears
gradients, at the end of what runs without gradients where there are no backward passes, at marks, when a snapshot is taken, which is also when memory
runs out, and when a profile ends.  A snapshot has them under a key of its own, ``memlens``, a trace among its metadata, in base 64::

    {"holders": {"names": ["variable feats[*] (main, train.py)", "-"], "time_us": [1790857026000000], "rows": [2],
                 "address": [93883121772608, 0], "name": [0, 1]}}

a walk a time, with so many rows; the row of address 0 says that all was looked at that variables lead to.  Beside ``holders`` a snapshot has ``passes``: when backward passes began, and by which stacks.

**Harmless.**  A walk has a thread of its own, made without the ``threading`` module: no profiler, debugger, compiler, or mode of PyTorch's follows
it there, and the thread that began it waits.  What a graph has saved is read where no other thread can change it: see ``_is_still``.  Hooks on
saved tensors are not run, and whatever they made is looked into.  What is put in the place of functions of PyTorch allocates nothing and
is on no stack while something else does.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from _thread import allocate_lock, start_new_thread
from array import array
from collections import deque
from contextlib import suppress
from contextvars import copy_context
from types import FrameType, FunctionType, GetSetDescriptorType

from .walks import Passes, Walks, is_over, others_wait

TYPE_CHECKING = False  # what is imported here is paid by every Python process of the program
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

#: Rows that are kept of walks that come more often than at counts that double.
_MOST_ROWS = 1_000_000
#: Frames of a thread that are looked at for a backward pass.
_DEEPEST = 200
_KEY = "memlens"
#: What sparse tensors are made of.
_SPARSE = ("_indices", "_values", "values", "crow_indices", "col_indices", "ccol_indices", "row_indices")
#: Seconds to wait for a walk, and characters of what is put into a trace, at most.
_PATIENCE, _LONGEST_NOTE = 10.0, 8_000_000

_names: list[_Names] = []


def start(_asked: Any, when_imported: Callable[[str, Callable[[Any], None]], None]) -> None:
    """Look for holders once torch is imported, which ``when_imported`` brings word of; no more than once in a process."""
    if not _started:
        _started.append(True)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_forked)
        when_imported("torch", _imported)


_started: list[bool] = []


def _imported(torch: Any) -> None:
    try:
        _names.append(_Names(torch))
    except Exception as error:  # noqa: BLE001  the program goes on
        with suppress(Exception):
            sys.stderr.write(f"memlens: who holds tensors is not recorded: {type(error).__name__}: {error}\n")


def _forked() -> None:
    for names in _names:
        names.clear(on=False)


def marked() -> None:
    """The program marks a phase, which may be over."""
    for names in _names:
        names.look_at("mark")


def failed() -> None:
    """Memory ran out again: what failed the first time may be kept by its exception."""
    for names in _names:
        names.look_at("failure")


def recording() -> None:
    """This process records a memory history of its own: one that was forked does as others from here on."""
    for names in _names:
        if not names.walks.on:
            names.clear(on=True)


class _Names:
    """Walks over the tensors of PyTorch, and what they found."""

    def __init__(self, torch: Any) -> None:
        self._torch, self._tensors = torch, _Tensors(torch)
        self._rows: array[int] = array("q")
        self.walks = Walks(self._tensors, self._put, lambda: sum(self._rows) < _MOST_ROWS)
        self.clear(on=True)
        places = (torch.autograd, "backward"), (torch.autograd, "grad"), (torch.autograd, "_engine_run_backward")
        #: What runs while a backward pass does.
        self._engine = {getattr(getattr(owner, name, None), "__code__", None) for owner, name in places} - {None}
        self._replace()

    def _replace(self) -> None:
        torch, profiler, look, is_due = self._torch, self._torch.autograd.profiler, self._look, self._is_due
        compiler = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
        compiles = getattr(compiler, "get_eval_frame_callback", lambda: None)
        wait = self._wait

        def begins(*args: Any, **kwargs: Any) -> Any:  # within ``backward`` and ``grad``, right before they run
            if not compiles():
                if is_due("backward"):
                    look(sys._getframe(2))
                wait()
                self._passes.begins(sys._getframe(1))
            return prepare(*args, **kwargs)

        def clears(*args: Any, **kwargs: Any) -> Any:
            if not compiles() and is_due("zero_grad"):
                look(sys._getframe(1), after=True)
            return cleared(*args, **kwargs)

        def snapshot(*args: Any, **kwargs: Any) -> Any:
            self.walks.anew()
            look(sys._getframe(1), at_exit=is_over())
            found = taken(*args, **kwargs)
            if type(found) is dict and self._names:
                found[_KEY] = {**self._found(), "passes": self._passes.found()}
            return found

        def ends(profile: Any, *args: Any) -> Any:
            if getattr(profile, "enabled", False) and getattr(profile, "profile_memory", False):
                self._profile(on=True)
                look(sys._getframe(1))
                self._note()
                self._profile(on=False)
            return ended(profile, *args)

        def leaving(left: list[Any], moment: str) -> Any:
            def leaves(*args: Any) -> Any:
                found = left[0](*args)
                if not compiles() and is_due(moment):
                    frame = sys._getframe(1)  # of a decorated function, whose result is in no variable yet
                    look(frame, at_exit=frame.f_code.co_name == "decorate_context")
                return found

            return leaves

        ends_of = {
            "no_grad": (torch, "inference"),
            "inference_mode": (torch, "inference"),
            "record_function": (profiler, "mark"),
        }
        for name, (owner, moment) in ends_of.items():
            left: list[Any] = []
            left.append(_put_in_place(torch, getattr(owner, name, object), "__exit__", leaving(left, moment)))
        prepare = _put_in_place(torch, torch.autograd, "_tensor_or_tensors_to_tuple", begins)
        cleared = _put_in_place(torch, torch.optim.Optimizer, "zero_grad", clears)
        taken = _put_in_place(torch, torch.cuda.memory, "_snapshot", snapshot)
        ended = _put_in_place(torch, profiler.profile, "__exit__", ends)

    def look_at(self, moment: str) -> None:
        """Walk at a moment, if it is time to."""
        if self._is_due(moment):
            self._look(sys._getframe(1))

    def _is_due(self, moment: str) -> bool:
        """Whether memory is recorded, and it is time to walk."""
        torch = self._torch
        profiled = torch.autograd.profiler._is_profiler_enabled
        if profiled or self._profiled:
            self._profile(on=profiled)
        recorded = profiled or (
            torch.cuda.is_initialized() and getattr(torch._C, "_cuda_isHistoryEnabled", lambda: True)()
        )
        return recorded and self.walks.due(moment)

    def clear(self, *, on: bool) -> None:
        """Forget everything, and go on or not."""
        self.walks.on, self._profiled, self._since = on, False, (0, 0)
        self.walks.anew()
        self._passes = Passes()
        self._names: dict[str, int] = {}
        self._time, self._rows, self._address, self._name = array("q"), array("q"), array("Q"), array("q")
        self._one_by_one = allocate_lock()

    def _profile(self, *, on: bool) -> None:
        """A profile is being recorded, or is not."""
        if on and not self._profiled:
            self.walks.anew()
            self._since = len(self._time), len(self._name)
        self._profiled = on

    def _look(self, frame: FrameType | None, *, at_exit: bool = False, after: bool = False) -> None:
        """Walk in another thread, and wait for it.

        Args:
            frame: From which on the stack of this thread has no backward pass that is only about to begin.
            at_exit: The program has ended.
            after: A backward pass is over.
        """
        lock = self._one_by_one
        if not self.walks.on or not lock.acquire(timeout=_PATIENCE):
            return

        still, plainly = self._is_still(frame), self._torch._C.DisableTorchFunctionSubclass

        def work() -> None:  # which holds no frame: that would hold itself
            try:
                with plainly():
                    self._tensors.begin(still=still)
                    self.walks.walk(at_exit=at_exit, after=after)
            except Exception:  # noqa: BLE001  the program goes on
                self.walks.on = False
            finally:
                self._tensors.end()
                lock.release()

        try:
            start_new_thread(copy_context().run, (work,))
        except RuntimeError:  # Python ends
            work()
        except BaseException:
            lock.release()
            raise
        self._wait()

    def _wait(self) -> None:
        """Wait for a walk of another thread, which reads graphs: none is run while it does."""
        if self._one_by_one.acquire(timeout=_PATIENCE):
            self._one_by_one.release()

    def _is_still(self, frame: FrameType | None) -> bool:
        """Whether nobody changes gradients and graphs: this thread, which waits, is in no backward pass, and all others wait somewhere in Python's own library."""
        for _ in range(_DEEPEST):
            if frame is None:
                break
            if frame.f_code in self._engine:
                return False
            frame = frame.f_back
        return frame is None and others_wait()

    def _put(self, rows: Iterator[tuple[int, str]]) -> None:
        now, found = time.time_ns() // 1000, list(rows)
        self._time.append(now)
        self._rows.append(len(found))
        self._address.extend(address for address, _ in found)
        self._name.extend(self._names.setdefault(text, len(self._names)) for _, text in found)

    def _found(self, walk: int = 0, row: int = 0) -> dict[str, Any]:
        """What was found, from a walk and its first row on."""
        columns = {"time_us": self._time[walk:], "rows": self._rows[walk:]}
        columns.update(address=self._address[row:], name=self._name[row:])
        return {"holders": {"names": [*self._names], **{name: column.tolist() for name, column in columns.items()}}}

    def _note(self) -> None:
        """Put what was found since the profile began into its trace."""
        with suppress(Exception):
            import base64
            import json

            text = base64.b64encode(json.dumps(self._found(*self._since)).encode()).decode()
            if len(text) <= _LONGEST_NOTE:
                self._torch.autograd._add_metadata_json(_KEY, f'"{text}"')


def _put_in_place(torch: Any, owner: Any, name: str, function: Any) -> Any:
    """Replace a function of PyTorch's by one that is one of PyTorch's own for its compiler; gives the first one."""
    first = vars(owner).get(name)
    if first is None:  # of another torch
        return None
    code = function.__code__.replace(co_filename=torch.autograd.__file__, co_name=name)
    new = FunctionType(code, function.__globals__, name, None, function.__closure__)
    for attribute in ("__module__", "__qualname__", "__doc__"):
        setattr(new, attribute, getattr(first, attribute, None))
    new.__wrapped__ = first  # type: ignore[attr-defined]
    setattr(owner, name, new)
    return first


class _Tensors:
    """What a walk asks of PyTorch; all of it in a thread where subclasses of tensors are tensors.

    Attributes:
        whole: What graphs have saved was read.
    """

    def __init__(self, torch: Any) -> None:
        base = next(kind for kind in torch.Tensor.__mro__ if "grad_fn" in vars(kind))
        names = ("grad", "grad_fn", "is_leaf", "retains_grad", "untyped_storage", "layout", *_SPARSE)
        self._of = {name: vars(base)[name] for name in names if name in vars(base)}
        self._data_ptr = next(
            vars(kind)["data_ptr"] for kind in torch.UntypedStorage.__mro__ if "data_ptr" in vars(kind)
        )
        self._torch, self._tensor = torch, torch.Tensor
        self._plain = {torch.Tensor, torch.nn.Parameter, getattr(torch.nn, "Buffer", None)}
        self._saved = getattr(getattr(torch._C, "_autograd", None), "SavedTensor", None)
        # Without it, what was saved can only be had by the hooks of the program.
        self._data = getattr(vars(self._saved).get("data"), "fget", None) if self._saved else None
        self.begin(still=False)

    def begin(self, *, still: bool) -> None:
        # What another thread changes meanwhile must not be read: PyTorch 2.13 dies of gradients that are.
        self._still, self.whole = still, still and self._data is not None
        self._nodes: dict[int, Any] = {}  # which keeps them, so that no id is given again
        self._descriptors: dict[int, list[Any]] = {}
        self._layers: dict[int, Any] | None = None

    def end(self) -> None:
        self._nodes, self._descriptors, self._layers = {}, {}, None

    def is_tensor(self, kind: type) -> bool:
        return issubclass(kind, self._tensor)

    def level(self) -> int:
        """The bytes that are allocated on the device of the program now, 0 where that is not known."""
        try:
            cuda = self._torch.cuda
            return int(cuda.memory_allocated()) if cuda.is_initialized() else 0
        except Exception:  # noqa: BLE001  another torch
            return 0

    def peak(self) -> int:
        """Asked for after operators, which are not followed here."""
        return 0

    def address(self, tensor: Any) -> int:
        """Where the storage of a tensor begins, 0 where it has none."""
        try:
            return int(self._data_ptr(self._of["untyped_storage"](tensor)))
        except Exception:  # noqa: BLE001  sparse, fake, functorch's
            return 0

    def graphs(self, _: Any) -> tuple[str, ...]:
        """Nothing more: what graphs have saved are tensors that are found."""
        return ()

    def beyond(self, walk: Any, tensor: Any, _: str) -> Iterator[tuple[str, Any, str]]:
        """The tensors that a tensor is made of, its gradient, and what its graph has saved, the latter where nobody changes them."""
        if type(tensor) not in self._plain:
            for name, inner in walk.contents.stored(tensor, type(tensor)):
                yield "" if name.startswith("_") else f".{name}", inner, ""
        elif "sparse" in str(self._read(self._of.get("layout"), tensor)):  # of other classes operators would run
            yield from (("", self._read(self._of.get(name), tensor), "") for name in _SPARSE)
        if not self._still:
            return
        leaf, kept, node = (self._read(self._of[name], tensor) for name in ("is_leaf", "retains_grad", "grad_fn"))
        if (leaf or kept) and (grad := self._read(self._of["grad"], tensor)) is not None:
            yield ".grad", grad, "gradient"
        waiting = deque([node] if self.whole and node is not None else ())
        while waiting:
            node = waiting.popleft()
            if id(node) in self._nodes:
                continue
            self._nodes[id(node)] = node
            following, saved = self._parts(node)
            for inner in saved:
                yield ".grad_fn", inner, "saved"
                kept, saver = self._to_compute_anew(inner)
                yield from ((".grad_fn", one, "saved") for one in kept)
                waiting.extend([] if saver is None else [saver])
            if hasattr(type(node), "_raw_saved_tensors"):  # a function of Python, which may have attributes of its own
                for _, inner in walk.contents.stored(node, type(node)):
                    yield ".grad_fn", inner, "saved"
            waiting.extend(pair[0] for pair in following or () if pair[0] is not None)

    def _parts(self, node: Any) -> tuple[Any, list[Any]]:
        """The nodes that follow a node of a graph, and what it has saved."""
        kind = type(node)
        if id(kind) not in self._descriptors:
            self._descriptors[id(kind)] = [
                (name, one)
                for base in type.__dict__["__mro__"].__get__(kind)
                for name, one in type.__dict__["__dict__"].__get__(base).items()
                if type(one) is GetSetDescriptorType
                and (name in ("next_functions", "variable") or name.startswith("_raw_saved_"))
            ]
        following, saved = None, []
        for name, descriptor in self._descriptors[id(kind)]:
            value = self._read(descriptor.__get__, node)
            if name == "next_functions":
                following = value
            else:
                several = value if type(value) in (list, tuple) else (value,)
                # Where hooks took it, this is what they made of it.
                saved += [self._read(self._data, one) if type(one) is self._saved else one for one in several]
        return following, saved

    def _to_compute_anew(self, saved: Any) -> tuple[list[Any], Any]:
        """The tensors of which ``torch.utils.checkpoint`` computes what was saved anew, and the node of the graph that has more of them.

        The graph has but a key of it, and the hook that computes, which is not seen from Python, has what the layer was given.
        """
        module: Any = sys.modules.get("torch.utils.checkpoint")
        if module is None or type(saved) is not getattr(module, "_Holder", None):
            return [], None
        if self._layers is None:
            kind = getattr(module, "_CheckpointFrame", None)
            layers = [one for one in gc.get_referrers(kind) if type(one) is kind]
            self._layers = {id(key()): layer for layer in layers for key in getattr(layer, "weak_holders", ())}
        layer = self._layers.get(id(saved))
        kept = getattr(layer, "saved_args", [])  # later than PyTorch 2.11; before, what a function of autograd saves
        tensors = [self._read(self._data, one) if type(one) is self._saved else one for one in kept]
        return tensors, self._read(self._of["grad_fn"], getattr(layer, "input_saver", None))

    @staticmethod
    def _read(read: Any, value: Any) -> Any:
        try:
            return read(value) if callable(read) else read.__get__(value)
        except Exception:  # noqa: BLE001  it was freed
            return None
