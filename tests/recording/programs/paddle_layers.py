"""A transformer of six layers trained for three steps, of which every so many layers are recomputed: ``python paddle_layers.py EVERY``, 0 for none."""

from __future__ import annotations

import importlib
import sys
from typing import Any

paddle = importlib.import_module("paddle")  # not imported by name: the type checker knows another module of this name
recompute = importlib.import_module("paddle.distributed.fleet.utils").recompute
nn, functional = paddle.nn, paddle.nn.functional
every = int(sys.argv[1])
WIDTH, LENGTH, ROWS, WORDS = 128, 64, 8, 256


class Block(nn.Layer):  # type: ignore[name-defined, misc]
    """Attention, and two matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def attend(self, x: Any) -> Any:
        """Attention of eight heads."""
        parts = self.qkv(x).chunk(3, -1)
        q, k, v = (part.reshape([ROWS, LENGTH, 8, WIDTH // 8]).transpose([0, 2, 1, 3]) for part in parts)
        scores = functional.softmax(q @ k.transpose([0, 1, 3, 2]) * 0.25)
        return self.out((scores @ v).transpose([0, 2, 1, 3]).reshape([ROWS, LENGTH, WIDTH]))

    def forward(self, x: Any) -> Any:
        """One layer."""
        x = x + self.attend(self.before(x))
        return x + self.down(functional.gelu(self.up(self.between(x))))


class Net(nn.Layer):  # type: ignore[name-defined, misc]
    """The layers, between two tables of words."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.blocks = nn.LayerList([Block() for _ in range(6)])

    def forward(self, ids: Any) -> Any:
        """A score of each word."""
        x = self.words(ids)
        for number, block in enumerate(self.blocks):
            x = recompute(block, x) if every and number % every == 0 else block(x)
        return self.head(x)


def main() -> None:
    """Train."""
    paddle.set_device("hostdev")
    paddle.seed(3)
    net = Net()
    adam = paddle.optimizer.AdamW(1e-3, parameters=net.parameters())
    for _ in range(3):
        ids = paddle.randint(0, WORDS, [ROWS, LENGTH])
        loss = functional.cross_entropy(net(ids).reshape([-1, WORDS]), ids.reshape([-1]))
        loss.backward()
        adam.step()
        adam.clear_grad()


main()
