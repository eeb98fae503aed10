"""Who holds tensors: the variables of a program that lead to them, without running or keeping anything of it."""

# ruff: noqa: F841 - variables that hold something
from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import gc
import sys
import threading
import time
import tracemalloc
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from memlens.recording.inside.holders import Walk


class Tensor:
    """What is looked for."""


def own_name(file: str) -> str | None:
    return "program.py" if file == __file__ else None


def walked() -> list[tuple[Any, str, str, str]]:
    return Walk(lambda kind: issubclass(kind, Tensor), own_name).run()


def held(function: str) -> list[tuple[str, str]]:
    """The role and the path of each tensor that a variable of a function leads to."""
    return [(role, path) for _, role, path, where in walked() if where == f"{function}, program.py"]


class Slotted:
    __slots__ = ("empty", "inner")

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def method(self) -> None: ...


class Frozen(tuple):  # type: ignore[type-arg]  # Python 3.8
    """A container of the program's own, that says nothing of what is in it."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("code of the program was run")

    __len__ = __iter__  # type: ignore[assignment]


def closing_over(tensor: Tensor) -> Callable[[], Tensor]:
    return lambda: tensor


def waiting(tensor: Tensor) -> Iterator[Tensor]:
    kept = tensor
    yield kept
    yield kept


def generator(tensor: Tensor) -> Iterator[Tensor]:
    made = waiting(tensor)
    next(made)
    return made


def from_another(tensor: Tensor) -> Iterator[Tensor]:
    yield from waiting(tensor)


def going_through(tensors: list[Tensor]) -> Iterator[int]:
    for one in tensors:
        del one, tensors
        yield 1


def begun(made: Any) -> Any:
    """A generator or a coroutine that waits."""
    made.send(None)
    return made


@types.coroutine
def pause() -> Iterator[None]:
    yield


async def serving(tensor: Tensor) -> None:
    reply = tensor
    del tensor
    await pause()
    del reply


async def served(tensor: Tensor) -> None:
    made = serving(tensor)
    del tensor
    await made


async def replies(tensor: Tensor) -> AsyncIterator[Tensor]:
    reply = tensor
    del tensor
    yield reply


def first_of(made: Any) -> Any:
    """An asynchronous generator that waits."""
    with contextlib.suppress(StopIteration):
        made.asend(None).send(None)
    return made


def in_thread(tensor: Tensor) -> threading.local:
    made = threading.local()
    made.last = tensor
    return made


def cached(tensor: Tensor) -> Any:
    function = functools.lru_cache(4)(lambda key: key)
    function(tensor)
    return function


def cached_by_it(tensor: Tensor) -> Any:
    function = functools.lru_cache(None)(id)
    function(tensor)
    return function


def failed(tensor: Tensor) -> BaseException:
    """An exception whose cause has the tensor among the variables of its traceback."""

    def fails(inner: Tensor) -> None:
        raise KeyError(inner is tensor)

    try:
        try:
            fails(tensor)
        except KeyError as error:
            del tensor
            raise ValueError from error
    except ValueError as error:
        return error
    raise AssertionError


KEPT = {
    "itself": (lambda tensor: tensor, "kept"),
    "a list": (lambda tensor: [1, "x", tensor], "kept[*]"),
    "a list of tuples": (lambda tensor: [(0, tensor)], "kept[*][*]"),
    "a set": (lambda tensor: {tensor}, "kept[*]"),
    "a queue": (lambda tensor: deque([tensor]), "kept[*]"),
    "a dictionary by key": (lambda tensor: {"loss": {0: tensor}}, "kept['loss'][*]"),
    "a dictionary of many keys": (lambda tensor: {**dict.fromkeys(map(str, range(100))), "loss": tensor}, "kept[*]"),
    "a default dictionary": (lambda tensor: defaultdict(list, a=[tensor]), "kept['a'][*]"),
    "an ordered dictionary": (lambda tensor: OrderedDict(a=tensor), "kept['a']"),
    "an attribute": (lambda tensor: SimpleNamespace(cache=SimpleNamespace(last=tensor)), "kept.cache.last"),
    "a slot": (Slotted, "kept.inner"),
    "a bound method": (lambda tensor: Slotted(tensor).method, "kept.inner"),
    "a closure": (closing_over, "kept.tensor"),
    "a default value": (lambda tensor: eval("lambda value=given: value", {"given": tensor}), "kept(=)"),
    "a partial function": (lambda tensor: functools.partial(print, tensor), "kept.args[*]"),
    "the frame of a generator": (generator, "kept.tensor"),
    "a generator that another one waits for": (lambda tensor: begun(from_another(tensor)), "kept.tensor"),
    "what a generator goes through": (lambda tensor: begun(going_through([tensor, tensor])), "kept[*]"),
    "a coroutine": (lambda tensor: begun(serving(tensor)), "kept.reply"),
    "a coroutine that waits for another one": (lambda tensor: begun(served(tensor)), "kept.made.reply"),
    "an asynchronous generator": (lambda tensor: first_of(replies(tensor)), "kept.reply"),
    "an iterator": (lambda tensor: iter([tensor]), "kept[*]"),
    "an iterator over iterators": (lambda tensor: enumerate(iter([tensor])), "kept[*]"),
    "the values of a dictionary": (lambda tensor: {1: tensor}.values(), "kept[*]"),
    "a method of a list": (lambda tensor: [tensor].append, "kept[*]"),
    "a function that caches": (cached, "kept[*]"),
    "a function that caches without end by what it is given": (cached_by_it, "kept.keys()[*][*]"),
    "a variable of a thread": (in_thread, "kept.last"),
    "an argument of an exception": (KeyError, "kept[*]"),
    "the cause of an exception": (failed, "kept.inner"),
    "a container of the program's own": (lambda tensor: Frozen([tensor]), "kept[*]"),
}


@pytest.mark.parametrize(("keep", "path"), KEPT.values(), ids=KEPT)
def test_a_path_leads_from_a_variable_to_the_tensor(keep: Callable[[Tensor], Any], path: str) -> None:
    kept = keep(Tensor())
    assert held("test_a_path_leads_from_a_variable_to_the_tensor") == [("variable", path)]
    del kept


LISTED: list[Tensor] = []


def test_what_a_function_was_given_has_the_name_that_its_caller_gives_it_though_the_own_one_is_shorter() -> None:
    def forward(self: Any) -> list[tuple[str, str, str]]:
        h = Tensor()
        return [(role, path, where) for tensor, role, path, where in walked() if tensor in (h, self.weight)]

    net = SimpleNamespace(blocks=[SimpleNamespace(weight=Tensor())])
    here = test_what_a_function_was_given_has_the_name_that_its_caller_gives_it_though_the_own_one_is_shorter.__name__
    found = forward(net.blocks[0])
    assert found == [
        ("variable", "net.blocks[*].weight", f"{here}, program.py"),
        ("variable", "h", "forward, program.py"),
    ]


def test_a_global_variable_is_named_by_its_module() -> None:
    LISTED.append(Tensor())
    found = [(role, path, where) for _, role, path, where in walked() if path.startswith("LISTED")]
    LISTED.clear()
    assert found == [("variable", "LISTED[*]", "program.py")]


def fails() -> None:
    inner = Tensor()
    raise KeyError(id(inner))


def test_an_exception_that_is_kept_keeps_the_variables_of_its_traceback() -> None:
    try:
        fails()
    except KeyError as error:
        kept = error
    name = "test_an_exception_that_is_kept_keeps_the_variables_of_its_traceback"
    assert (held(name), type(kept)) == ([("variable", "kept.inner")], KeyError)


def test_an_exception_that_is_being_handled_keeps_them_too() -> None:
    try:
        fails()
    except KeyError:
        found = [row[1:] for row in walked() if row[3].startswith("an exception")]
    assert found == [("variable", "KeyError.inner", "an exception that is being handled")]


@pytest.mark.parametrize("code", ["def fail():\n    inner = Tensor()\n    raise KeyError", None])
def test_an_exception_that_nobody_catches_keeps_the_variables_of_its_traceback(
    code: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Python leaves it for what runs at exit; the frames are those of a library, or of the program."""
    try:
        (in_library(code)["fail"] if code else fails)()
    except KeyError as error:
        monkeypatch.setitem(vars(sys), "last_value", error)
        monkeypatch.setitem(vars(sys), "last_traceback", error.__traceback__)
    found = [row[1:] for row in walked() if "inner" in row[2]]
    expected = ("KeyError.inner", "the exception that ended the program") if code else ("inner", "fails, program.py")
    assert found == [("variable", *expected)]


def test_coroutines_that_wait_in_an_event_loop_are_looked_at() -> None:
    found: list[tuple[str, str]] = []

    async def reply() -> None:
        kept = Tensor()
        await asyncio.sleep(0.01)
        del kept

    async def look() -> None:
        await asyncio.sleep(0)
        found.extend(held("reply"))

    async def serve() -> None:
        await asyncio.gather(reply(), reply(), look())

    asyncio.run(serve())
    assert found == [("variable", "kept")] * 2


class Node:
    """Refers to itself."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor, self.itself = tensor, self


def garbage() -> list[str]:
    """Which nodes are held by garbage alone."""
    return [path for _, role, path, _ in walked() if role == "garbage" and path.startswith("Node")]


def test_what_only_a_cycle_holds_is_garbage_and_has_the_type_that_closes_it() -> None:
    node = Node(Tensor())
    assert garbage() == []
    gc.disable()
    try:
        del node
        assert garbage() == ["Node.tensor"]
        assert garbage() == ["Node.tensor"]  # a walk keeps nothing
    finally:
        gc.enable()
    gc.collect()
    assert garbage() == []


def test_garbage_is_looked_for_anew_where_there_may_be_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """To ask the collector who refers to classes takes longer than all the rest of a walk."""
    gc.collect()
    asked: list[int] = []
    referrers = gc.get_referrers

    def counting(*ones: Any) -> list[Any]:
        asked.append(len(ones))
        return referrers(*ones)

    monkeypatch.setattr(gc, "get_referrers", counting)
    kept: dict[str, Any] = {}

    def lost() -> list[str]:
        walk = Walk(lambda kind: issubclass(kind, Tensor), own_name, kept=kept)
        return [path for _, role, path, _ in walk.run() if role == "garbage" and path.startswith("Node")]

    node = Node(Tensor())
    assert (lost(), bool(asked)) == ([], True)
    asked.clear()
    assert (lost(), asked) == ([], [])
    gc.disable()
    try:
        del node
        assert lost() == lost() == ["Node.tensor"]
        node = Node(Tensor())
        assert lost() == ["Node.tensor"]
    finally:
        gc.enable()
    del node
    gc.collect()
    assert lost() == []


def test_an_optimizer_that_the_program_has_replaced_is_garbage_though_its_class_is_a_librarys() -> None:
    """As one of Paddle's is, which has a method of its own under a second name; but not one that the library has kept."""
    base = a_class("Optimizer", "paddle.optimizer.optimizer", clear=lambda _: None)
    adam = type("Adam", (base,), {"__module__": "paddle.optimizer.adam"})
    kept: dict[str, Any] = {}

    def lost() -> list[str]:
        walk = Walk(lambda kind: issubclass(kind, Tensor), own_name, kept=kept)
        return [path for _, role, path, _ in walk.run() if role == "garbage" and path.startswith("Adam")]

    def made() -> Any:
        optimizer = adam()
        vars(optimizer).update(_accumulators={"moment1": {"w_0": Tensor()}}, clear_gradients=optimizer.clear)
        return optimizer

    optimizer, library = made(), in_library("kept = []")
    assert lost() == []
    gc.disable()
    try:
        optimizer = made()
        assert len(lost()) == 1
        library["kept"].append(optimizer)
        del optimizer
        assert len(lost()) == 1
    finally:
        gc.enable()
    library["kept"].clear()
    gc.collect()
    assert lost() == []


def test_what_a_library_holds_is_no_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    library = types.ModuleType("library")
    library.registry = {"nodes": [Node(Tensor())]}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "library", library)
    del library
    assert garbage() == []
    gc.disable()
    try:
        del sys.modules["library"].registry
        assert garbage() == ["Node.tensor"]
    finally:
        gc.enable()


def test_what_a_library_in_c_holds_is_no_garbage() -> None:
    """It tells the collector nothing of what it holds."""
    gc.collect()
    node = Node(Tensor())
    held_in_c = ctypes.py_object(node)
    ctypes.pythonapi.Py_IncRef(held_in_c)
    gc.disable()
    try:
        del node, held_in_c
        assert garbage() == []
        (node,) = (one for one in gc.get_objects() if type(one) is Node)
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(node))
        del node
        assert garbage() == ["Node.tensor"]
    finally:
        gc.enable()
        gc.collect()


def test_variables_of_other_threads_are_found() -> None:
    ready, over = threading.Event(), threading.Event()

    def work() -> None:
        mine = Tensor()
        ready.set()
        over.wait(60)
        assert mine

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait(60)
    found = held("work")
    over.set()
    thread.join()
    assert found == [("variable", "mine")]


def test_nothing_is_kept_alive_by_a_walk() -> None:
    """A frame keeps the dictionary of its variables up to Python 3.12, and a walk that keeps its own frame keeps all that it looked at."""

    def step() -> tuple[weakref.ref[Tensor], weakref.ref[Tensor]]:
        first, second = Tensor(), [Tensor()]
        assert len(held("step")) == 2
        seen = weakref.ref(first), weakref.ref(second[0])
        del first
        assert seen[0]() is None
        return seen

    enabled = gc.isenabled()
    gc.disable()
    try:
        assert [one() for one in step()] == [None, None]
    finally:
        if enabled:
            gc.enable()


def test_what_a_program_asked_for_stays_as_it_is() -> None:
    tensor = Tensor()
    mine = locals()
    assert held("test_what_a_program_asked_for_stays_as_it_is") == [("variable", "tensor")]
    assert mine["tensor"] is tensor


def test_a_tracer_that_uses_tensors_does_not_take_the_variables_of_what_it_traces() -> None:
    """Up to Python 3.12 a frame is given back what its dictionary has when a function that traces it returns."""
    found: list[tuple[str, str]] = []

    def traces(frame: types.FrameType, _event: str, _value: object) -> Any:
        if frame.f_code.co_name == "step":
            found.extend(held("step"))
        return traces

    def step(given: Tensor) -> int:
        made = Tensor()
        return len([given, made])

    before = sys.gettrace()
    sys.settrace(traces)
    try:
        length = step(Tensor())
    finally:
        sys.settrace(before)
    assert (length, {path for _, path in found}) == (2, {"given", "made"})


RUN = """
class Lost:
    def __init__(self): self.tensor, self.itself = Tensor(), self
kept = [Tensor()]
def main():
    Lost()
    return [row[1:] for row in walked()]
found = main()
"""


def test_a_program_that_another_one_runs_has_its_variables_and_its_garbage_named() -> None:
    """As ``python -m cProfile``, ``pdb`` and notebooks do, in a namespace that is no module's."""
    names: dict[str, Any] = {"Tensor": Tensor, "walked": walked, "__name__": "__main__"}
    gc.disable()
    try:
        exec(compile(RUN, __file__, "exec"), names)
    finally:
        gc.enable()
    assert ("variable", "kept[*]", "program.py") in names["found"]
    assert ("garbage", "Lost.tensor", "a cycle that gc.collect() frees") in names["found"]


def test_the_namespace_of_a_class_that_is_being_made_stays_as_it_is() -> None:
    class Made:
        value = 3
        walked()
        after = value

    assert Made.after == 3


class Meta(type):
    def __hash__(cls) -> int:
        raise AssertionError("code of the program was run")

    def __instancecheck__(cls, _: object) -> bool:
        raise AssertionError("code of the program was run")


class Hostile(metaclass=Meta):
    def __init__(self, tensor: Tensor) -> None:
        object.__setattr__(self, "inner", tensor)

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError("code of the program was run")

    __getattr__ = __len__ = __iter__ = __repr__ = __bool__ = __getattribute__  # type: ignore[assignment]

    def __eq__(self, _: object) -> bool:
        raise AssertionError("code of the program was run")

    __hash__ = __eq__  # type: ignore[assignment]


class Pretending(Hostile):
    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise AssertionError("code of the program was run")

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise AssertionError("code of the program was run")


@pytest.mark.parametrize("kind", [Hostile, Pretending])
def test_no_code_of_the_program_is_run(kind: Any) -> None:
    kept = [kind(Tensor()), Tensor()]
    found = held("test_no_code_of_the_program_is_run")
    assert ("variable", "kept[*]") in found
    assert len(kept) == len(found) == 2 or kind is Pretending


def test_variables_of_threads_are_looked_at_and_not_made() -> None:
    made: list[int] = []

    class Mine(threading.local):
        def __init__(self) -> None:
            made.append(threading.get_ident())
            self.last = Tensor()

    mine, found = Mine(), []
    name = "test_variables_of_threads_are_looked_at_and_not_made"
    thread = threading.Thread(target=lambda: found.extend(held(name)))
    thread.start()
    thread.join()
    assert (found, made, type(mine)) == ([("variable", "mine.last")], [threading.get_ident()], Mine)


def test_at_the_limit_of_recursion_a_walk_raises_what_python_raises_and_leaves_nothing_behind() -> None:
    kept = Tensor()
    name = "test_at_the_limit_of_recursion_a_walk_raises_what_python_raises_and_leaves_nothing_behind"
    ends: list[Any] = []

    def deeper() -> None:
        with contextlib.suppress(RecursionError):
            deeper()
        if len(ends) < 20:
            try:
                ends.append(held(name))  # which lies deeper than the frames that are looked at
            except RecursionError as error:
                ends.append(type(error))

    deeper()
    assert [end for end in ends if end not in ([], RecursionError)] == []
    assert (held(name), kept is None) == ([("variable", "kept")], False)


@pytest.mark.changed("recording")
@pytest.mark.parametrize("inner", [1, 50], ids=["in a dictionary", "in lists"])
def test_a_million_objects_take_seconds_and_megabytes_at_most(inner: int) -> None:
    gc.disable()
    try:
        kept = Tensor()
        data: dict[int, list[list[int]]] = {
            number: [[] for _ in range(inner - 1)] for number in range(1_000_000 // inner)
        }
        if inner == 1:  # it takes long
            tracemalloc.start()
        began = time.thread_time()
        found = held("test_a_million_objects_take_seconds_and_megabytes_at_most")
        taken = time.thread_time() - began
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        gc.enable()
    assert (found, kept is None) == ([("variable", "kept")], False)
    assert (taken < 5, most < 32 << 20, len(data)) == (True, True, 1_000_000 // inner)


def test_a_large_data_set_hides_no_tensor() -> None:
    data = [{"row": [number, str(number)]} for number in range(30_000)]
    model = SimpleNamespace(layers=[SimpleNamespace(weight=Tensor()) for _ in range(3)])
    kept = [(number, Tensor()) for number in range(100)]
    paths = [path for _, path in held("test_a_large_data_set_hides_no_tensor")]
    assert (paths.count("model.layers[*].weight"), paths.count("kept[*][*]"), len(data)) == (3, 100, 30_000)


def test_what_tensors_hold_is_looked_at_where_not_everything_can_be() -> None:
    data = [{"row": [number, str(number)]} for number in range(30_000)]
    weight = Tensor()

    def beyond(_: Walk, tensor: Any, __: str) -> Iterator[tuple[str, Any, str]]:
        if tensor is weight:
            yield ".grad", Tensor(), "gradient"

    made = Walk(lambda kind: issubclass(kind, Tensor), own_name, beyond=beyond)
    gradients = [path for _, role, path, _ in walk_of(made) if role == "gradient"]
    assert (gradients, made.whole, len(data)) == (["weight.grad"], False, 30_000)


def test_a_parameter_whose_model_is_gone_is_one_though_a_graph_alone_leads_to_it() -> None:
    output = Tensor()

    def beyond(_: Walk, tensor: Any, __: str) -> Iterator[tuple[str, Any, str]]:
        if tensor is output:
            yield ".grad_fn", type("Parameter", (Tensor,), {"__module__": "torch.nn.parameter"})(), "saved"
            yield ".grad_fn", Tensor(), "saved"

    made = Walk(lambda kind: issubclass(kind, Tensor), own_name, beyond=beyond)
    assert [(role, path) for _, role, path, _ in walk_of(made)] == [
        ("variable", "output"),
        ("parameter", "output.grad_fn"),
        ("saved", "output.grad_fn"),
    ]


def walk_of(made: Walk) -> list[tuple[Any, str, str, str]]:
    """A walk that looks at the frame of the test."""
    return made.run()


def test_where_a_path_is_too_long_to_be_written_not_all_is_named() -> None:
    chain: list[Any] = [Tensor()]
    for _ in range(60):
        chain = [chain]

    def walk() -> tuple[bool, bool]:
        made = Walk(lambda kind: issubclass(kind, Tensor), own_name)
        made.run()
        return made.whole, made.named

    assert walk() == (True, False)
    assert len(chain) == 1


def test_of_a_list_of_things_that_each_lead_to_the_next_the_far_ones_have_one_name() -> None:
    """As they have where there are more than a path may have characters."""

    def linked(step: Callable[[Any], Any]) -> list[str]:
        head: Any = None
        for _ in range(60):
            head = step(head)
        return [path for _, path in held("linked")]

    by_attribute = linked(lambda rest: SimpleNamespace(x=Tensor(), prev=rest))
    assert by_attribute == ["head.x", "head.prev.x", "head.prev.prev.x", *["head.prev.prev[*].x"] * 57]
    by_key = linked(lambda rest: {"x": Tensor(), "prev": rest})
    assert set(by_key[3:]) == {"head['prev']['prev'][*]['x']"}


def test_a_cycle_ends() -> None:
    ring: list[Any] = [Tensor()]
    ring.append(ring)
    assert held("test_a_cycle_ends") == [("variable", "ring[*]")]


def a_class(name: str, module: str, **base: Any) -> Any:
    return type(name, (), {"__module__": module, **base})


def test_models_and_optimizers_have_the_names_that_they_give_themselves() -> None:
    layer, optimizer = a_class("Layer", "paddle.nn.layer.layers"), a_class("Optimizer", "paddle.optimizer.optimizer")
    net, inner, adam = layer(), layer(), type("AdamW", (optimizer,), {})()
    vars(net).update(_sub_layers=OrderedDict({"0": inner}), _parameters={}, _buffers={"mean": Tensor()})
    vars(inner).update(_sub_layers={}, _parameters={"weight": Tensor()}, _buffers={}, cache=Tensor())
    vars(adam).update(
        _parameter_list=[*vars(inner)["_parameters"].values()], _accumulators={"moment1": {"w_0": Tensor()}}
    )
    del inner
    assert set(held("test_models_and_optimizers_have_the_names_that_they_give_themselves")) == {
        ("buffer", "net.mean"),
        ("parameter", "net.0.weight"),
        ("variable", "net.0.cache"),
        ("optimizer", "adam.moment1[*]"),
    }


@pytest.mark.parametrize("module", ["paddle.optimizer.optimizer", "torch.optim.optimizer"])
def test_what_a_model_has_is_named_by_it_however_short_the_way_through_others_is(module: str) -> None:
    layer, optimizer = a_class("Module", "torch.nn.modules.module"), a_class("Optimizer", module)
    weight, alone = type("Parameter", (Tensor,), {"__module__": "torch.nn.parameter"})(), Tensor()
    kept, adam, net = [weight], optimizer(), layer()
    vars(net).update(_modules={"0": layer()}, _parameters={}, _buffers={})
    inner = vars(net)["_modules"]["0"]
    for _ in range(8):
        vars(inner).update(_modules={"0": layer()}, _parameters={}, _buffers={})
        inner = vars(inner)["_modules"]["0"]
    vars(inner).update(_modules={}, _parameters={"weight": weight}, _buffers={})
    vars(adam).update(_parameter_list=[weight, alone], param_groups=[{"params": [weight, alone]}])
    del weight, inner, alone
    name = "test_what_a_model_has_is_named_by_it_however_short_the_way_through_others_is"
    assert held(name)[0] == ("parameter", f"net{9 * '.0'}.weight")
    assert [role for role, _ in held(name)[1:]] == ["optimizer"]
    assert kept


def test_the_state_of_an_optimizer_of_pytorch_is_named_alike() -> None:
    adam = a_class("Optimizer", "torch.optim.optimizer")()
    vars(adam)["state"] = {object(): {"exp_avg": Tensor()}}
    assert held("test_the_state_of_an_optimizer_of_pytorch_is_named_alike") == [("optimizer", "adam.exp_avg[*]")]


def test_files_of_others_are_no_roots() -> None:
    own = {where.rpartition(" ")[2] for _, role, _, where in walked() if role != "garbage"}
    assert own <= {"program.py"}


def test_a_shard_is_its_parameter_whatever_else_has_it() -> None:
    """FSDP has the local part of a parameter in hooks of the module, too."""
    shard = Tensor()

    class Sharded(Tensor):
        __slots__ = ("_local_tensor",)
        _local_tensor: Tensor

    whole = Sharded()
    whole._local_tensor = shard
    net = a_class("Module", "torch.nn.modules.module")()
    vars(net).update(_hooks={0: SimpleNamespace(data=shard)}, _parameters={"weight": whole}, _modules={}, _buffers={})
    del whole
    del shard
    assert held("test_a_shard_is_its_parameter_whatever_else_has_it") == [("parameter", "net.weight")] * 2


def paths(found: list[tuple[Any, str, str, str]]) -> list[str]:
    return [path for _, _, path, _ in found]


def in_library(source: str, name: str = "library.trainer") -> dict[str, Any]:
    """The variables of a module of a library."""
    values: dict[str, Any] = {"__name__": name, "Node": Node, "Tensor": Tensor, "walked": walked}
    exec(compile(source, "/site/library/trainer.py", "exec"), values)
    return values


_TRAINER = """
class Trainer:
    def __init__(self): self.model = Node(Tensor())
    def fit(self, step): return step()
def fit(step): return Trainer().fit(step)
"""


def test_what_functions_of_a_library_hold_that_the_program_has_called() -> None:
    assert "self.model.tensor" not in paths(walked())
    found = in_library(_TRAINER)["fit"](walked)
    assert [(role, path, where) for _, role, path, where in found if path.startswith("self.model.")] == [
        ("variable", "self.model.tensor", "fit, library.trainer")
    ]


def test_a_variable_of_the_program_goes_before_one_of_a_library_though_its_path_is_longer() -> None:
    mine = {"a": [[[[in_library(_TRAINER)["Trainer"]()]]]]}
    found = mine["a"][0][0][0][0].fit(walked)
    trainer = mine["a"][0][0][0][0]
    assert {path for tensor, _, path, _ in found if tensor is trainer.model.tensor} == {
        "mine['a'][*][*][*][*].model.tensor"
    }


def test_what_a_layer_of_pytorch_works_on_when_memory_runs_out() -> None:
    found = in_library(_TRAINER, "torch.nn.modules.container")["fit"](walked)
    assert ("self.model.tensor", "fit, torch.nn.modules.container") in {(path, where) for _, _, path, where in found}


@pytest.mark.parametrize("name", ["paddle.nn.layer", "_memlens.walks"])
def test_not_what_is_there_for_the_length_of_a_call(name: str) -> None:
    assert "self.model.tensor" not in paths(in_library(_TRAINER, name)["fit"](walked))


def test_not_what_runs_the_program_has() -> None:
    def program() -> list[tuple[Any, str, str, str]]:
        return walked()

    found: list[Any] = []
    runner = in_library("def run(program, found, kept): found += program()")["run"]
    thread = threading.Thread(target=runner, args=(program, found, [Tensor()]))  # nothing of the program's is outside
    thread.start()
    thread.join()
    assert found
    assert not any(path.startswith("kept") for path in paths(found))


def test_what_a_library_holds_beyond_what_is_looked_at_leaves_a_walk_whole() -> None:
    many = in_library("def fit(step):\n    many = [[Tensor()] for _ in range(200_000)]\n    return step()")["fit"]

    def walk() -> Walk:
        made = Walk(lambda kind: issubclass(kind, Tensor), own_name)
        made.run()
        return made

    done = many(walk)
    assert done.whole
    assert 0 < sum(path == "many[*][*]" for _, _, path, _ in done.found) < 200_000


class Store:
    """What classes have."""

    by_key: dict[str, Tensor] = {}  # noqa: RUF012
    plain = 3

    def __init__(self) -> None:
        self.field = None

    @functools.lru_cache(None)  # noqa: B019 - that is what is tested
    def remembered(self, key: str) -> Tensor:
        return Tensor()

    @staticmethod
    def kept(tensor: Any, into: list[Tensor] = []) -> None:  # noqa: B006
        into.append(tensor)

    @property
    def asked(self) -> Tensor:
        raise AssertionError("code of the program was run")


class Derived(Store):
    more: list[Tensor] = []  # noqa: RUF012


def remember(tensor: Tensor) -> None:
    remember.last = tensor  # type: ignore[attr-defined]


def test_what_classes_and_functions_of_the_program_keep() -> None:
    try:
        Store.by_key["a"] = Tensor()
        Derived.more.append(Tensor())
        Store().remembered("a")
        Store.kept(Tensor())
        remember(Tensor())
        found = {path for _, _, path, where in walked() if where == "program.py"}
        assert {
            "Store.by_key['a']",
            "Derived.more[*]",
            "Store.remembered[*]",
            "Store.kept(=)[*]",
            "remember.last",
        } <= found
    finally:
        Store.by_key.clear()
        Derived.more.clear()
        Store.remembered.cache_clear()
        vars(Store)["kept"].__func__.__defaults__[0].clear()
        del remember.last  # type: ignore[attr-defined]


def test_a_class_within_a_function_is_reached_by_its_instances() -> None:
    class Local(Store):
        mine = {"b": Tensor()}  # noqa: RUF012

    local = Local()
    del Local
    assert held("test_a_class_within_a_function_is_reached_by_its_instances") == [("variable", "local.mine['b']")]


def test_no_class_of_a_library_is_looked_into() -> None:
    library = in_library("class Registry:\n    kept = [Tensor()]\n")["Registry"]
    here = [library, library()]
    assert not held("test_no_class_of_a_library_is_looked_into")


def test_functions_get_no_dictionary_for_being_looked_at() -> None:
    def plain() -> None: ...

    before = sys.getsizeof(plain), len(gc.get_referents(plain))
    walked()
    assert (sys.getsizeof(plain), len(gc.get_referents(plain))) == before


def test_tensors_that_are_keys() -> None:
    seen = {Tensor(): 1, (1, 2): Tensor(), (3, Tensor()): 2}
    paths = [("variable", "seen.keys()[*]"), ("variable", "seen.keys()[*][*]"), ("variable", "seen[*]")]
    assert sorted(held("test_tensors_that_are_keys")) == paths


class Loader:
    def batches(self, count: int) -> Iterator[int]:
        queue = [Tensor()]
        yield from range(count)
        del queue


def test_a_generator_that_a_loop_goes_through_has_its_variables_named() -> None:
    for _ in enumerate(Loader().batches(1)):
        assert held("batches") == [("variable", "queue[*]")]


def test_what_a_library_had_when_it_failed_is_held_by_the_exception_that_is_kept() -> None:
    fail = in_library("def fail():\n    kept = Tensor()\n    raise ValueError\n")["fail"]
    try:
        fail()
    except ValueError as error:
        reason = error
    name = "test_what_a_library_had_when_it_failed_is_held_by_the_exception_that_is_kept"
    assert held(name) == [("variable", "reason.kept")]


def test_paths_from_libraries_that_are_too_long_leave_a_walk_named() -> None:
    deep = "def fit(step):\n    deep = Tensor()\n    for _ in range(100): deep = [deep]\n    return step()"

    def walk() -> Walk:
        made = Walk(lambda kind: issubclass(kind, Tensor), own_name)
        made.run()
        return made

    assert in_library(deep)["fit"](walk).named
