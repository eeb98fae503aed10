"""The graphs of Paddle's backward passes that tensors lead to: how many nodes each has, by their operators.

Runs inside the program, whose Python may be an older one (3.8) and need not have memlens: the standard library alone.

What a node has saved is not open to Python, but that it is there, and which operator's it is, tells who keeps what no variable holds
(``total += loss``)::

    graph total.grad_fn (main, train.py): Add 59 Relu 59 Matmul 118
"""

from __future__ import annotations

import sys
from collections import deque

TYPE_CHECKING = False  # what is imported here is paid by every Python process of the program
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

#: Roles of tensors that may have a graph; nodes that are looked at in a walk, at most; operators in a row.
_ROLES, _MOST_NODES, _AT_ONCE = ("variable", "garbage"), 2000, 6


class Graphs:
    """Looks at graphs.

    Args:
        tensor: The class of tensors; before Paddle 3.0 they do not give their graphs.
    """

    def __init__(self, tensor: Any) -> None:
        get = getattr(vars(tensor).get("grad_fn"), "__get__", None)
        give_back = None if get is None else _give_back()
        self._read = None if get is None or give_back is None else (get, give_back)

    def of(self, found: tuple[tuple[Any, str, str, str], ...]) -> Iterator[str]:
        """The rows of the graphs that tensors lead to.

        A node is counted once: for the tensor whose graph is a part of the others', which is the farthest from what leads to it.

        Args:
            found: Tensors, as a walk found them.
        """
        roots = [
            (node, f"{path}.grad_fn ({where})")
            for tensor, role, path, where in found
            if role in _ROLES and (node := self._node(tensor)) is not None
        ]
        following: dict[int, list[Any]] = {}
        met = []  # which keeps them, so that no id is given again
        steps: dict[int, int] = {}  # from the tensor that leads to a node to it
        waiting = deque((node, 0) for node, _ in roots)
        while waiting and len(following) < _MOST_NODES:
            node, taken = waiting.popleft()
            if id(node) not in following:
                met.append(node)
                following[id(node)] = [one for one in node.next_functions if one is not None]
                for one in following[id(node)]:
                    steps.setdefault(id(one), taken + 1)
                    waiting.append((one, taken + 1))
        counts: dict[str, dict[str, int]] = {}
        for node, text in sorted(roots, key=lambda root: -steps.get(id(root[0]), 0)):
            count, left = counts.setdefault(text, {}), [node]
            while left:
                node = left.pop()  # noqa: PLW2901
                if id(node) in following:
                    left += following.pop(id(node))
                    name = node.name().replace("GradNode", "")
                    count[name] = count.get(name, 0) + 1
        for text, count in counts.items():
            words = [f"{name} {number}" for name, number in count.items() if name != "Accumulation"]
            for first in range(0, len(words), _AT_ONCE):
                yield f"graph {text}: {' '.join(words[first : first + _AT_ONCE])}"

    def _node(self, tensor: Any) -> Any:
        """The node that made a tensor, if there is one; nothing refers to what is given back but the caller.

        Paddle 3.0 and 3.3 leave a reference to it behind each time that they are asked, which would keep the whole graph.
        """
        if self._read is None:
            return None
        get, give_back = self._read
        node = get(tensor)
        if node is None:
            return None
        before = sys.getrefcount(node)
        get(tensor)
        if sys.getrefcount(node) == before + 1:
            give_back(node)
            give_back(node)
        return node


def _give_back() -> Callable[[Any], None] | None:
    """What takes one reference from an object; ``None`` where this Python has no such function."""
    try:
        import ctypes

        function = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_DecRef", ctypes.pythonapi))
    except (ImportError, AttributeError):
        return None
    return function
