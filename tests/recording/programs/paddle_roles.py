"""A model that trains for two steps and then ends at once, with all that it has: ``python paddle_roles.py KIND``, on the host-memory device."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import memlens

paddle = importlib.import_module("paddle")  # not imported by name: the type checker knows another module of this name
nn = paddle.nn
kind = sys.argv[1]


class Net(nn.Layer):  # type: ignore[name-defined, misc]
    """Two layers, of which the first is the last one as well where weights are tied, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(100, 300), nn.Linear(300, 200)
        self.register_buffer("scale", paddle.ones([500]))

    def forward(self, x: Any) -> Any:
        """A loss."""
        first, second = self.first.weight.astype("float32"), self.second.weight.astype("float32")
        hidden = paddle.matmul(x, first) + self.first.bias.astype("float32")
        if kind == "tied":
            hidden = hidden + paddle.matmul(paddle.matmul(hidden, first, transpose_y=True), first)
        out = paddle.matmul(hidden, second) + self.second.bias.astype("float32")
        return (out * out).mean() * self.scale.astype("float32").mean()


def main() -> None:
    """Train; on a processor Adam has no kernel for numbers of half a width, and fails when all of its state is there."""
    paddle.set_device("hostdev")
    paddle.seed(3)
    net = Net()
    if kind == "frozen":
        net.first.weight.stop_gradient = True
    if kind == "masters":
        net.to(dtype="bfloat16")
    optimizers = {"SGD": paddle.optimizer.SGD, "Momentum": paddle.optimizer.Momentum, "AdamW": paddle.optimizer.AdamW}
    more = {"multi_precision": True} if kind == "masters" else {}
    optimizer = optimizers.get(kind, paddle.optimizer.Adam)(0.1, parameters=net.parameters(), **more)
    for _ in range(2):
        optimizer.clear_grad(set_to_zero=False)
        for _ in range(3 if kind == "passes" else 1):
            loss = net(paddle.ones([50, 100]))
            loss.backward()
            del loss
        try:
            optimizer.step()
        except RuntimeError as error:
            sys.stderr.write(f"{error}\n")
    memlens.mark("TRAINED")
    sys.stderr.flush()
    os._exit(0)


main()
