"""Programs that keep memory, in one way each: ``python paddle_leaks.py KIND``, on Paddle's host-memory device."""

from __future__ import annotations

import functools
import gc
import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

paddle = importlib.import_module("paddle")  # not imported by name: the type checker knows another module of this name
nn, relu = paddle.nn, paddle.nn.functional.relu

kind = sys.argv[1]
module_list: list[Any] = []
by_key: dict[str, Any] = {}


class Net(nn.Layer):  # type: ignore[name-defined, misc]
    """Two layers; keeps what its first one gives where that is asked for."""

    all_maps: list[Any] = []  # noqa: RUF012 - that of all models

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(128, 256), nn.Linear(256, 10)
        self.maps: list[Any] = []

    def forward(self, x: Any) -> tuple[Any, Any]:
        """The scores, and what the first layer gives."""
        hidden = relu(self.first(x))
        if kind == "saving":
            return self.second(Same.apply(hidden)), hidden
        if kind == "attribute":
            self.maps.append(hidden)
        elif kind == "class":
            self.all_maps.append(hidden)
        return self.second(hidden), hidden

    @functools.lru_cache(None)  # noqa: B019 - that is what keeps it
    def scaled(self, step: int) -> Any:
        """The weights of the first layer, so many times."""
        return self.first.weight * (step + 1)


class Same(paddle.autograd.PyLayer):  # type: ignore[name-defined, misc]
    """Gives what it is given, and keeps what it has saved for backward."""

    saving: list[Any] = []  # noqa: RUF012 - that of all calls

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        """The same."""
        ctx.save_for_backward(x)
        Same.saving.append(ctx)
        return x + 0.0

    @staticmethod
    def backward(_: Any, gradient: Any) -> Any:
        """The same."""
        return gradient + 0.0


class Node:
    """Refers to itself."""

    def __init__(self, tensor: Any) -> None:
        self.tensor, self.itself = tensor, self


def closing() -> Callable[[Any], None]:
    """A function whose closure grows."""
    seen: list[Any] = []

    def keep(tensor: Any) -> None:
        seen.append(tensor)

    return keep


def waiting(tensor: Any) -> Iterator[None]:
    """A generator that holds what it made while it waits."""
    copy = tensor * 1.0
    yield
    del copy


def fails(tensor: Any) -> None:
    """Raise, with a tensor in the frame."""
    doubled = tensor * 2.0
    raise ValueError(doubled.shape)


def main() -> None:
    """Train, and keep something in each step."""
    paddle.set_device("hostdev")
    paddle.seed(3)
    gc.disable()
    net = Net()
    optimizer = paddle.optimizer.Adam(1e-3, parameters=net.parameters())
    outputs: list[Any] = []
    hooked: list[Any] = []
    optimizers: list[Any] = []
    joined: Any = None
    total, keep = 0.0, closing()
    for step in range(14):
        sys.stderr.write(f"STEP {step}\n")
        rows = 256 + 8 * (5 * step % 14) if kind == "lengths" else 256
        x, y = paddle.randn([rows, 128]), paddle.zeros([rows], dtype="int64")
        scores, hidden = net(x)
        loss = nn.functional.cross_entropy(scores, y)
        if kind == "hook":
            hidden.register_hook(hooked.append)
        loss.backward(retain_graph=kind == "total")
        optimizer.step()
        optimizer.clear_grad()
        if kind == "module":
            module_list.append(hidden)
        elif kind in ("local", "lengths"):
            outputs.append(hidden)
        elif kind == "joined":
            joined = hidden if joined is None else paddle.concat([joined, hidden])
        elif kind == "cached":
            net.scaled(step)
        elif kind == "closure":
            keep(hidden)
        elif kind == "key":
            by_key[f"step{step}"] = hidden
        elif kind == "total":
            total += loss
        elif kind == "cycle":
            Node(hidden)
        elif kind == "generator":
            outputs.append(waiting(hidden))
            next(outputs[-1])
        elif kind == "exception":
            try:
                fails(hidden)
            except ValueError as error:
                outputs.append(error)
        elif kind == "optimizer":
            optimizers.append(optimizer)
            optimizer = paddle.optimizer.Adam(1e-3, parameters=net.parameters())
        elif kind == "model":
            outputs.append(Net())
        del x, y, scores, hidden, loss
    sys.stderr.write(f"{float(total)}\n")


main()
