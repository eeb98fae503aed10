"""Programs of PyTorch for a GPU, as others write them: ``memlens record --preset torch -o ddp.pickle python torch_gpu.py ddp counted.json``.

Each counts itself what its parameters, its optimizer's state and what it keeps take on the device, in bytes.  What they recorded, with PyTorch 2.11
on a GPU of the Hopper generation, is what ``tests/analyzers/test_gpu_runs.py`` reads.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

torch = importlib.import_module("torch")  # not imported by name: the type checker knows another module of this name
nn, functional, device = torch.nn, torch.nn.functional, "cuda"
counted: dict[str, dict[str, int]] = {}


def bytes_of(tensors: Iterable[Any]) -> int:
    """Bytes on the device, of what several share once."""
    there = [
        getattr(one, "_local_tensor", one) for one in tensors if torch.is_tensor(one) and one.device.type == device
    ]
    storages = [one.untyped_storage() for one in there]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def count(moment: str, model: Any = None, optimizer: Any = None, **kept: int) -> None:
    """Count what there is at a moment."""
    parameters = [*model.parameters()] if model is not None else []
    states = [] if optimizer is None else [one for state in optimizer.state.values() for one in state.values()]
    gradients = [one.grad for one in parameters if one.grad is not None]
    named = {"parameter": bytes_of(parameters), "gradient": bytes_of(gradients), "optimizer": bytes_of(states)}
    told = torch.cuda.memory_stats()
    figures = {"requested": "requested_bytes.all.current", "requested_peak": "requested_bytes.all.peak"}
    counted[moment] = {**named, **kept, **{name: told[figure] for name, figure in figures.items()}}


class Block(nn.Module):  # type: ignore[name-defined, misc]
    """A layer of a transformer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        """Attention of eight heads, and two layers."""
        batch, length, width = x.shape
        q, k, v = self.qkv(self.before(x)).view(batch, length, 3, 8, width // 8).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.between(x))))


class Language(nn.Module):  # type: ignore[name-defined, misc]
    """A model of 8,000 words."""

    def __init__(self, layers: int, anew: bool | None = None) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(8000, 512), nn.Embedding(256, 512)
        self.blocks = nn.ModuleList([Block(512) for _ in range(layers)])
        self.last, self.head, self.anew = nn.LayerNorm(512), nn.Linear(512, 8000, bias=False), anew

    def forward(self, words: Any) -> Any:
        """What comes next; with ``anew`` layers are computed once more in the backward pass, reentrantly or not."""
        x = self.words(words) + self.places(torch.arange(words.shape[1], device=words.device))
        for block in self.blocks:
            x = block(x) if self.anew is None else torch.utils.checkpoint.checkpoint(block, x, use_reentrant=self.anew)
        return self.head(self.last(x))


def drawn(batch: int, length: int = 128) -> Any:
    """Words by chance."""
    return torch.randint(0, 8000, (batch, length), device=device)


def loss_of(logits: Any, words: Any) -> Any:
    """How far off it is."""
    return functional.cross_entropy(logits.flatten(0, 1), words.flatten())


def train(layers: int, *, anew: bool | None = None, net: Any = None, steps: int = 8, batch: int = 8) -> None:
    """Train one model, by itself or in a wrapper."""
    model = Language(layers, anew).to(device)
    wrapped = model if net is None else net(model)
    optimizer = torch.optim.AdamW(wrapped.parameters())
    for step in range(steps):
        words = drawn(batch)
        loss = loss_of(wrapped(words), words)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=net is None)
        sys.stdout.write(f"iter {step}: loss {loss.item():.3f}\n")
    count("end", model, optimizer)


def checkpointed(*, anew: bool) -> None:
    """Layers computed anew, and mixed precision."""
    importlib.import_module("torch.utils.checkpoint")
    with torch.autocast(device, torch.bfloat16):
        train(6, anew=anew, steps=12)


def distributed(wrap: str) -> None:
    """One process of data-parallel training, whole or sharded."""
    torch.distributed.init_process_group("nccl", store=torch.distributed.HashStore(), rank=0, world_size=1)

    def sharded(model: Any) -> Any:
        shard = importlib.import_module("torch.distributed.fsdp").fully_shard
        return [shard(part) for part in (*model.blocks, model)][-1]

    train(4, net=sharded if wrap == "fsdp" else nn.parallel.DistributedDataParallel)
    torch.distributed.destroy_process_group()


def captured() -> None:
    """Steps in a CUDA graph."""
    model = Language(3).to(device)
    optimizer, words = torch.optim.AdamW(model.parameters(), capturable=True), drawn(8)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss_of(model(words), words).backward()
        optimizer.step()

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for _ in range(8):
        graph.replay()
    count("end", model, optimizer)


def compiled() -> None:
    """A compiled model whose scores are kept."""
    model, kept = Language(3).to(device), []
    optimizer, net = torch.optim.AdamW(model.parameters()), torch.compile(model)
    for _ in range(10):
        words = drawn(8)
        scores = net(words)
        loss_of(scores, words).backward()
        optimizer.step()
        optimizer.zero_grad()
        kept.append(scores.detach())
    count("end", model, optimizer, kept=bytes_of(kept))


def lightning() -> None:
    """A module of Lightning, whose optimizer calls the passes."""
    framework: Any = importlib.import_module("pytorch_lightning")

    class Module(framework.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = Language(3)
            self.losses: list[Any] = []

        def training_step(self, words: Any, _: int) -> Any:
            self.losses.append(loss_of(self.model(words), words))
            return self.losses[-1]

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters())

    batches = torch.utils.data.DataLoader(torch.randint(0, 8000, (48, 128)), batch_size=4)
    off = {"logger": False, "enable_checkpointing": False}
    framework.Trainer(max_epochs=1, accelerator="gpu", devices=1, **off).fit(Module(), batches)


def trainer() -> None:
    """A model of Transformers by its Trainer: two batches a step, layers computed anew, mixed precision."""
    there: Any = importlib.import_module("transformers")
    shape = {"n_layer": 6, "n_embd": 512, "n_head": 8, "vocab_size": 8000, "n_positions": 256}
    model = there.GPT2LMHeadModel(there.GPT2Config(**shape))
    data = [{"input_ids": words, "labels": words} for words in torch.randint(0, 8000, (400, 256))]
    by = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2, "max_steps": 10, "bf16": True}
    quiet = {"save_strategy": "no", "report_to": [], "logging_steps": 1, "gradient_checkpointing": True}
    run = there.Trainer(model=model, args=there.TrainingArguments("out", **by, **quiet), train_dataset=data)
    run.train()
    count("end", model, getattr(run.optimizer, "optimizer", run.optimizer))


def streams() -> None:
    """Products on four streams."""
    several, weights = [torch.cuda.Stream() for _ in range(4)], [torch.randn(1024, 1024, device=device) for _ in "four"]
    for _ in range(10):
        for stream, weight in zip(several, weights, strict=True):
            with torch.cuda.stream(stream):
                ((weight @ weight).relu() @ weight).sum()
        torch.cuda.synchronize()
    count("end", weights=bytes_of(weights))


def runs_out() -> None:
    """Scores are kept until the 1.5 GiB are full that this process may have."""
    torch.cuda.set_per_process_memory_fraction(1.5 * 2**30 / torch.cuda.get_device_properties(0).total_memory)
    model, features = Language(4).to(device), {}
    optimizer = torch.optim.AdamW(model.parameters())
    try:
        for step in range(40):
            words = drawn(8, 256)
            scores = model(words)
            loss_of(scores, words).backward()
            optimizer.step()
            optimizer.zero_grad()
            features[step] = scores.detach()
    finally:
        count("end", model, optimizer, kept=bytes_of(features.values()), steps=len(features))


if __name__ == "__main__":
    programs = (captured, compiled, lightning, runs_out, streams, trainer)
    what = {one.__name__: one for one in programs} | {
        "ddp": lambda: distributed("ddp"),
        "fsdp": lambda: distributed("fsdp"),
        "reentrant": lambda: checkpointed(anew=True),
        "nonreentrant": lambda: checkpointed(anew=False),
    }
    try:
        what[sys.argv[1]]()
    finally:
        Path(sys.argv[2]).write_text(json.dumps(counted))
