"""Programs of PyTorch for a GPU whose sizes change from step to step: ``python cuda_trainers.py NAME FIGURES.json [LIMIT_BYTES]``.

Writes what the allocator itself counted: ``reserved`` and ``allocated``, the peaks in bytes, and whether memory ran out.
"""

from __future__ import annotations

import importlib
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

torch = importlib.import_module("torch")  # the type checker knows another module of this name
nn, functional = torch.nn, torch.nn.functional
STEPS = 20


def _trained(model: Any, optimizer: Any, batch: Callable[[random.Random], Any], *, each: int = 1) -> None:
    """Train a model on batches of one size after the other, with a step of the optimizer after ``each``."""
    draw = random.Random(7)  # noqa: S311
    for step in range(STEPS):
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(batch(draw)).float().square().mean()
        loss.backward()
        if step % each == each - 1:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)


def transformer() -> None:
    """Sequences of another length each step."""
    layer = nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True, device="cuda")
    model = nn.TransformerEncoder(layer, 8)
    _trained(
        model,
        torch.optim.AdamW(model.parameters()),
        lambda draw: torch.randn(8, draw.randint(100, 900), 768, device="cuda"),
    )


def checkpointed() -> None:
    """The same with layers that are computed anew, and gradients of three batches."""
    layers = [nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True, device="cuda") for _ in range(8)]

    def forward(batch: Any) -> Any:
        for layer in layers:
            batch = torch.utils.checkpoint.checkpoint(layer, batch, use_reentrant=False)
        return batch

    importlib.import_module("torch.utils.checkpoint")
    parameters = [one for layer in layers for one in layer.parameters()]
    _trained(
        forward,
        torch.optim.Adam(parameters, fused=True),
        lambda draw: torch.randn(draw.randint(4, 24), 512, 768, device="cuda"),
        each=3,
    )


def convolutions() -> None:
    """Images of another size each step."""
    parts: list[Any] = []
    for before, after in ((3, 64), (64, 128), (128, 256), (256, 512)):
        parts += [nn.Conv2d(before, after, 3, 2, 1), nn.BatchNorm2d(after), nn.ReLU(), nn.Conv2d(after, after, 3, 1, 1), nn.ReLU()]  # fmt: skip
    model = nn.Sequential(*parts).cuda()
    _trained(
        model,
        torch.optim.SGD(model.parameters(), 0.01, momentum=0.9),
        lambda draw: torch.randn(32, 3, side := 32 * draw.randint(4, 12), side, device="cuda"),
    )


def experts() -> None:
    """A mixture of experts: how many tokens each one gets differs."""
    gate = nn.Linear(512, 8, device="cuda")
    many = nn.ModuleList(nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)) for _ in range(8)).cuda()
    draw = torch.Generator("cuda").manual_seed(3)

    def forward(batch: Any) -> Any:
        chosen = (gate(batch).detach().float() + 2 * torch.randn(len(batch), 8, device="cuda", generator=draw)).argmax(1)  # fmt: skip
        out = torch.zeros_like(batch)
        for number, expert in enumerate(many):
            rows = (chosen == number).nonzero().squeeze(1)
            out = out.index_add(0, rows, expert(batch[rows]).to(batch.dtype))
        return out

    _trained(
        forward,
        torch.optim.AdamW([*many.parameters(), *gate.parameters()]),
        lambda draw: torch.randn(draw.randint(20_000, 60_000), 512, device="cuda"),
    )


def sessions() -> None:
    """Answers of a language model: caches that grow by a token a step, of sessions that come and go."""
    draw = random.Random(5)  # noqa: S311
    live: list[list[Any]] = []
    projection = nn.Linear(1024, 3072, device="cuda", dtype=torch.float16)
    with torch.no_grad():
        for _ in range(10 * STEPS):
            if len(live) < 24:
                length = draw.randint(200, 2000)
                live.append([torch.randn(2, 16, length, 64, device="cuda", dtype=torch.float16) for _ in range(4)])
            for caches in live:
                new = projection(torch.randn(1, 1024, device="cuda", dtype=torch.float16)).view(3, 16, 1, 64)
                for number, cache in enumerate(caches):
                    caches[number] = torch.cat([cache, new[1:]], 2)
                    functional.scaled_dot_product_attention(new[:1], caches[number][:1], caches[number][1:])
            live = [one for one in live if draw.random() > 0.03]


def streams() -> None:
    """Batches that another stream copies ahead, and that are used on two."""
    model = nn.Sequential(*(nn.Sequential(nn.Linear(2048, 2048), nn.GELU()) for _ in range(12))).cuda()
    side = torch.cuda.Stream()
    draw = random.Random(9)  # noqa: S311
    optimizer = torch.optim.AdamW(model.parameters())

    def ahead() -> Any:
        with torch.cuda.stream(side):
            return torch.randn(draw.randint(2_000, 20_000), 2048, pin_memory=True).to("cuda", non_blocking=True)

    coming = ahead()
    for _ in range(STEPS):
        torch.cuda.current_stream().wait_stream(side)
        batch, coming = coming, ahead()
        batch.record_stream(torch.cuda.current_stream())
        model(batch).square().mean().backward()
        torch.cuda.synchronize()  # without it the moment at which a block is free differs from run to run
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


PROGRAMS = {one.__name__: one for one in (transformer, checkpointed, convolutions, experts, sessions, streams)}


def main(name: str, figures: Path, limit: int) -> None:
    """Run a program, on a device of so many bytes, and write the allocator's figures."""
    torch.manual_seed(1)
    if limit:
        torch.cuda.set_per_process_memory_fraction(limit / torch.cuda.get_device_properties(0).total_memory)
    failed = ""
    try:
        PROGRAMS[name]()
        torch.cuda.synchronize()
    except torch.cuda.OutOfMemoryError as error:
        failed = str(error)
    counted = torch.cuda.memory_stats()
    found = {"reserved": counted["reserved_bytes.all.peak"], "allocated": counted["allocated_bytes.all.peak"], "failed": failed}  # fmt: skip
    figures.write_text(json.dumps(found | {"retries": counted["num_alloc_retries"], "torch": torch.__version__}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
