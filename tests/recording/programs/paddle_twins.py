"""A training in which something exists twice at the peak, or not: ``python paddle_twins.py KIND with|without``, on Paddle's host-memory device."""

from __future__ import annotations

import copy
import importlib
import json
import sys
from typing import Any

import numpy as np

paddle = importlib.import_module("paddle")  # not imported by name: not every environment has it
nn, core = paddle.nn, importlib.import_module("paddle.base.core")

kind, twice = sys.argv[1], sys.argv[2] == "with"
WIDTH, ROWS = 256, 64


class Block(nn.Layer):  # type: ignore[misc, name-defined]
    """Two layers, and a way around them."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        return x + self.down(nn.functional.gelu(self.up(x)))


class Net(nn.Layer):  # type: ignore[misc, name-defined]
    """Four of them; of one layer where the batch is what is large."""

    def __init__(self) -> None:
        super().__init__()
        blocks = [] if kind == "batch" else [Block() for _ in range(4)]
        self.embed, self.blocks, self.head = nn.Linear(WIDTH, WIDTH), nn.Sequential(*blocks), nn.Linear(WIDTH, 8)

    def forward(self, x: Any) -> Any:
        return self.head(self.blocks(self.embed(x)))


def load() -> Any:
    """A batch."""
    rows = 16 * ROWS if kind == "batch" else ROWS
    return paddle.to_tensor(np.ones((rows, WIDTH), "float32"))


def main() -> None:
    """Train, and say how high memory stood."""
    paddle.set_device("hostdev")
    paddle.seed(3)
    net = Net()
    optimizer = paddle.optimizer.AdamW(1e-3, parameters=net.parameters())
    if kind == "average" and twice:
        average = copy.deepcopy(net)
    if kind == "loaded" and twice:
        loaded = Net()
        loaded.set_state_dict(net.state_dict())
    ahead = load() if kind == "batch" and twice else None
    for step in range(8):
        sys.stderr.write(f"STEP {step}\n")
        if ahead is None:
            x = load()
        else:
            x, ahead = ahead, load()
        if kind == "late" and not twice:
            optimizer.clear_grad(set_to_zero=False)
        loss = net(x).square().mean()
        if kind == "late" and twice:
            optimizer.clear_grad(set_to_zero=False)
        loss.backward()
        optimizer.step()
        if kind != "late":
            optimizer.clear_grad(set_to_zero=kind == "zero" and twice)
        if kind == "average" and twice:
            with paddle.no_grad():
                for mean, weight in zip(average.parameters(), net.parameters(), strict=True):
                    mean.set_value(mean * 0.9 + weight * 0.1)
        del x, loss
    sys.stderr.write(f"PEAK {json.dumps(int(core.device_memory_stat_peak_value('Allocated', 0)))}\n")


if __name__ == "__main__":
    main()
