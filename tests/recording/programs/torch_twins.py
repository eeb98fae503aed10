"""A training in which something exists twice at the peak, or not, as the variable ``TWIN`` says (``buckets with``); its trace goes into ``run.json``."""

from __future__ import annotations

import copy
import importlib
import os
from typing import Any

import memlens

torch = importlib.import_module("torch")  # not imported by name: the type checker knows another module of this name
nn = torch.nn

memlens.names()
kind, _, how = os.environ["TWIN"].partition(" ")
twice = how == "with"
WIDTH = 256


class Block(nn.Module):  # type: ignore[name-defined, misc]
    """Two layers, and a way around them."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        return x + self.down(nn.functional.gelu(self.up(x)))


class Net(nn.Module):  # type: ignore[name-defined, misc]
    """Four of them."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 8)
        self.blocks = nn.Sequential(*[Block() for _ in range(4)])

    def forward(self, x: Any) -> Any:
        return self.head(self.blocks(self.embed(x)))


class Momentum(torch.optim.Optimizer):  # type: ignore[name-defined, misc]
    """An optimizer that makes its states anew in each step, or not."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {})

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self, closure: Any = None) -> Any:
        weights = [weight for group in self.param_groups for weight in group["params"]]
        for weight in weights:
            if not self.state[weight]:
                self.state[weight]["mean"] = torch.zeros_like(weight)
        means = [self.state[weight]["mean"] for weight in weights]
        if twice:
            new = torch._foreach_mul(means, 0.9)
            for weight, mean in zip(weights, new, strict=True):
                self.state[weight]["mean"] = mean
            del new
        else:
            torch._foreach_mul_(means, 0.9)
        del means
        for weight in weights:
            self.state[weight]["mean"].add_(weight.grad, alpha=0.1)
            weight.sub_(self.state[weight]["mean"], alpha=1e-3)


def main() -> None:
    """Train."""
    torch.manual_seed(3)
    torch.set_num_threads(1)
    net: Any = Net()
    optimizer: Any = Momentum(net.parameters()) if kind == "states" else torch.optim.AdamW(net.parameters(), 1e-3)
    model = net
    if kind == "buckets":
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
        store = torch.distributed.HashStore()
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        model = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=2, gradient_as_bucket_view=not twice)
    if kind == "average" and twice:
        average = copy.deepcopy(net)
    for _ in range(6):
        x = torch.rand(64, WIDTH)
        if kind == "late" and not twice:
            optimizer.zero_grad()
        loss = model(x).square().mean()
        if kind == "late" and twice:
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if kind != "late":
            optimizer.zero_grad()
        del x, loss
    if kind == "autocast":
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, cache_enabled=twice):
            model(torch.rand(4096, WIDTH))
    if kind == "average" and twice:
        del average


with torch.profiler.profile(
    activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True, with_stack=True
) as trace:
    main()
trace.export_chrome_trace("run.json")
