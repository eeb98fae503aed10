"""Programs of PyTorch that keep memory, in one way each: ``LEAK=total python torch_leaks.py``.

On a processor a profile is written to ``run.json``; with ``DEVICE=cuda`` whoever starts the program records it.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import gc
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

torch = importlib.import_module("torch")  # not imported by name: the type checker knows another module of this name
nn, relu = torch.nn, torch.relu

kind, device = os.environ["LEAK"], os.environ.get("DEVICE", "cpu")
torch.set_default_device(device)
module_list: list[Any] = []
by_key: dict[str, Any] = {}
context: contextvars.ContextVar[Any] = contextvars.ContextVar("context", default=())


class Net(nn.Module):  # type: ignore[name-defined, misc]
    """Two layers; keeps what its first one gives where that is asked for."""

    all_maps: list[Any] = []  # noqa: RUF012 - that of all models

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(128, 256), nn.Linear(256, 10)
        self.maps: list[Any] = []

    def forward(self, x: Any) -> tuple[Any, Any]:
        """The scores, and what the first layer gives."""
        hidden = relu(self.first(x))
        if kind == "attribute":
            self.maps.append(hidden)
        elif kind == "class":
            self.all_maps.append(hidden)
        return self.second(hidden), hidden

    @functools.lru_cache(None)  # noqa: B019 - that is what keeps it
    def scaled(self, step: int) -> Any:
        """The weights of the first layer, so many times."""
        return self.first.weight * (step + 1)


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
    copy = torch.cat([tensor, tensor])
    yield
    del copy


def fails(tensor: Any) -> None:
    """Raise, with a tensor in the frame."""
    doubled = torch.cat([tensor, tensor])
    raise ValueError(doubled.shape)


def train() -> None:
    """Train, and keep something in each step."""
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    outputs: list[Any] = []
    hooked: list[Any] = []
    optimizers: list[Any] = []
    joined: Any = None
    total, keep = 0.0, closing()
    on_cpu = device == "cpu"
    with (
        torch.profiler.profile(profile_memory=True, with_stack=True) if on_cpu else contextlib.nullcontext() as profile
    ):
        for step in range(14):
            with torch.profiler.record_function(f"STEP {step}"):
                rows = 256 + 8 * (5 * step % 14) if kind == "lengths" else 256
                x, y = torch.randn([rows, 128]), torch.zeros([rows], dtype=torch.int64)
                scores, hidden = net(x)
                loss = nn.functional.cross_entropy(scores, y)
                if kind == "hook":
                    hidden.register_hook(hooked.append)
                loss.backward(retain_graph=kind == "total")
                optimizer.step()
                optimizer.zero_grad()
                hidden = hidden.detach() if kind != "graph" else hidden
                if kind == "module":
                    module_list.append(hidden)
                elif kind in ("local", "lengths"):
                    outputs.append(hidden)
                elif kind == "joined":
                    joined = hidden if joined is None else torch.cat([joined, hidden])
                elif kind == "cached":
                    net.scaled(step)
                elif kind == "closure":
                    keep(hidden)
                elif kind == "key":
                    by_key[f"step{step}"] = hidden
                elif kind == "context":
                    context.set((*context.get(), hidden))
                elif kind == "sparse":
                    outputs.append(torch.sparse_coo_tensor(torch.zeros([1, rows], dtype=torch.int64), hidden))
                elif kind == "total":
                    total += loss
                elif kind == "graph":
                    outputs.append(nn.functional.cross_entropy(net.second(hidden.detach()), y))
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
                    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
                elif kind == "model":
                    outputs.append(Net())
                del x, y, scores, hidden, loss
    if profile is not None:
        profile.export_chrome_trace("run.json")
    sys.stderr.write(f"{float(total)}\n")


gc.disable()
train()
