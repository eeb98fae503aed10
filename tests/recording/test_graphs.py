"""Which graphs tensors lead to, and who holds what they have saved."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import io
import sys
from pathlib import Path
from typing import Any

import pytest

import memlens
from memlens.recording import inside

_spec = importlib.util.spec_from_file_location("graphs", Path(next(iter(inside.__path__))) / "graphs.py")
assert _spec is not None
assert _spec.loader is not None
graphs: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(graphs)


class Node:
    """A node of a graph."""

    def __init__(self, name: str, *following: Node | None) -> None:
        self._name, self.next_functions = name, [*following]

    def name(self) -> str:
        return self._name


class Tensor:
    """A tensor whose graph can be read; where it ``leaks``, a reference to it is left behind each time."""

    def __init__(self, node: Node | None, *, leaks: bool = False) -> None:
        self._node, self._leaks = node, leaks

    @property
    def grad_fn(self) -> Node | None:
        if self._leaks:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._node))
        return self._node


def rows(*found: tuple[Tensor, str], role: str = "variable") -> list[str]:
    return [*graphs.Graphs(Tensor).of(tuple((tensor, role, path, "main, train.py") for tensor, path in found))]


def chain(step: Node | None, steps: int) -> Node | None:
    for _ in range(steps):
        step = Node("AddGradNode", step, Node("ReluGradNode", Node("GradNodeAccumulation")))
    return step


def test_a_node_is_counted_for_the_tensor_whose_graph_is_a_part_of_the_others() -> None:
    hidden = chain(None, 5)
    loss = Node("Conv2dGradNodeFinal", hidden, None)
    for order in (1, -1):
        found = [(Tensor(hidden), "h"), (Tensor(loss), "loss"), (Tensor(None), "x")][::order]
        assert sorted(rows(*found)) == [
            "graph h.grad_fn (main, train.py): Add 5 Relu 5",
            "graph loss.grad_fn (main, train.py): Conv2dFinal 1",
        ]
    assert rows((Tensor(hidden), "h"), role="parameter") == []
    several = [(Tensor(chain(None, 2)), "outputs[*]") for _ in range(3)]
    assert rows(*several) == ["graph outputs[*].grad_fn (main, train.py): Add 6 Relu 6"]


def test_graphs_without_end_take_no_longer_and_have_equal_shares() -> None:
    one, other = (Tensor(chain(None, 10_000)) for _ in range(2))
    first, second = (row.split()[-3:] for row in rows((one, "a"), (other, "b")))
    assert first[0] == second[0] == "1" or abs(int(first[0]) - int(second[0])) <= 1
    assert int(first[0]) < 2000


def test_a_graph_has_no_more_references_than_before() -> None:
    for leaks in (False, True):
        node = Node("ReluGradNode", chain(None, 3))
        tensor = Tensor(node, leaks=leaks)
        before = sys.getrefcount(node)
        for _ in range(3):
            assert len(rows((tensor, "x"))) == 1
        assert sys.getrefcount(node) == before
    gc.collect()


HEAD = "I1127 10:00:00.{:06d} 77 line.py:0] memlens "
ALLOC = "I1127 10:00:00.{:06d} 77 auto_growth_best_fit_allocator.cc:270] Alloc 256 bytes, ptr = {:#x}"


@pytest.mark.parametrize(
    ("graph", "holder"),
    [
        (["total.grad_fn (main, train.py): Add 9 Relu 9"], "saved total.grad_fn (main, train.py)"),
        (["total.grad_fn (main, train.py): Relu_ 3", "loss.grad_fn (main, train.py): Relu 1 Add 50"], "the backward graph"),
        (["a: Add 1", "total.grad_fn (main, train.py): Add 3 Relu 95", "b: Relu 5"], "saved total.grad_fn (main, train.py)"),
        (["total.grad_fn (main, train.py): Add 9 Matmul 9"], "no variable"),
        (["total.grad_fn (main, train.py): Relu", "Relu 9", ": Relu 9 9", "x: Relu nine Relu -9"], "no variable"),
        ([], "no variable"),
    ],
)  # fmt: skip
def test_what_no_tensor_has_is_held_by_the_graph_with_nearly_all_nodes_of_its_operator_or_by_a_graph(
    graph: list[str], holder: str
) -> None:
    call = "calls relu < train.py:25 forward < train.py:40 main"
    lines = [HEAD + call, ALLOC.replace("{:#x}", "0xa00"), HEAD + "calls -"]
    lines += [HEAD + f"holds 0x0 graph {text}" for text in graph] + [HEAD + "holds 0x0 -"]
    text = "\n".join(line.format(at) for at, line in enumerate([*lines, HEAD + "calls -"])) + "\n"
    log = memlens.read(io.BytesIO(text.encode()))
    assert log.holder is not None
    assert [log.holder_names[n] for n in log.holder.tolist()] == [holder]
