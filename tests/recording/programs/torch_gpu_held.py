"""Further programs of PyTorch for a GPU, whose memory is held in ways of its own: ``memlens record --preset torch -o pool.pickle python torch_gpu_held.py pool counted.json``.

They count as those of ``torch_gpu.py`` do, which stands beside this one.
"""

from __future__ import annotations

import copy
import functools
import importlib
import json
import sys
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from torch_gpu import bytes_of, count, counted, device, functional, nn, torch


class Server:
    """Answers by layers of its own, and remembers in its class what it was asked."""

    sessions: dict[int, Any] = {}  # noqa: RUF012 - of all servers

    def __init__(self) -> None:
        self.net = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(6))).to(device).eval()

    @functools.lru_cache(None)  # noqa: B019 - which never forgets
    def features(self, key: int) -> Any:
        """What is computed of a key, once."""
        return self.net(torch.full([64, 1024], float(key), device=device))

    def answer(self, request: int) -> None:
        """Answer a request; four answers are kept of each of seven users."""
        with torch.no_grad():
            kept = Server.sessions.setdefault(request % 7, deque(maxlen=4))
            kept.append(self.features(request % 40) * 2)


def server() -> None:
    """Four threads that answer."""
    app = Server()
    with ThreadPoolExecutor(4) as several:
        for first in range(0, 120, 4):
            [*several.map(app.answer, range(first, first + 4))]
    sessions = bytes_of(one for kept in Server.sessions.values() for one in kept)
    count("end", app.net, features=bytes_of(map(app.features, range(40))), sessions=sessions)


class Pool:
    """Copies of a model."""

    models: dict[int, Any] = {}  # noqa: RUF012

    @classmethod
    def add(cls, step: int, model: Any) -> None:
        """Keep the model as it is now."""
        cls.models[step] = copy.deepcopy(model)


def pool() -> None:
    """Every tenth model is kept."""
    model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(3))).to(device)
    optimizer = torch.optim.RMSprop(model.parameters())
    for step in range(60):
        loss = model(torch.randn([32, 512], device=device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            Pool.add(step, model)
    count("end", model, optimizer, kept=bytes_of(one for kept in Pool.models.values() for one in kept.parameters()))


def epochs() -> None:
    """Two epochs by Accelerate, which has the next batch on the device but for the end of an epoch; all scores are kept."""
    accelerator = importlib.import_module("accelerate").Accelerator(mixed_precision="bf16")
    model, scores = nn.Linear(1024, 128), []
    data = torch.utils.data.TensorDataset(torch.randn([1024, 1024]), torch.randint(0, 128, [1024]))
    loader = torch.utils.data.DataLoader(data, batch_size=64)
    model, optimizer, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters()), loader)
    for _ in range(2):
        for x, y in loader:
            given = model(x)
            accelerator.backward(functional.cross_entropy(given, y))
            optimizer.step()
            optimizer.zero_grad()
            scores.append(given.detach())
    count("end", model, scores=bytes_of(scores))


def anonymous() -> None:
    """A model of Transformers that no variable of the program leads to."""
    there: Any = importlib.import_module("transformers")
    shape = {"n_layer": 3, "n_embd": 512, "n_head": 8, "vocab_size": 8000, "n_positions": 256}
    data = [{"input_ids": words, "labels": words} for words in torch.randint(0, 8000, (100, 128))]
    by = {"per_device_train_batch_size": 8, "max_steps": 8, "save_strategy": "no", "report_to": []}
    there.Trainer(
        model_init=lambda: there.GPT2LMHeadModel(there.GPT2Config(**shape)),
        args=there.TrainingArguments("out", **by),
        train_dataset=data,
    ).train()


def retries() -> None:
    """Looks for the largest batch, and keeps the exception that says which is too large, and with it all that the attempt had computed."""
    torch.cuda.set_per_process_memory_fraction(2**30 / torch.cuda.get_device_properties(0).total_memory)
    model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(8))).to(device)
    batch, reason = 2048, None
    while reason is None:
        try:
            model(torch.randn([batch, 1024], device=device)).square().mean().backward()
            batch *= 2
        except torch.OutOfMemoryError as error:
            reason = error
    try:
        model(torch.randn([batch // 2, 1024], device=device)).square().mean().backward()
    finally:
        count("end", model, batch=batch)


if __name__ == "__main__":
    what = {one.__name__: one for one in (anonymous, epochs, pool, retries, server)}
    try:
        what[sys.argv[1]]()
    finally:
        Path(sys.argv[2]).write_text(json.dumps(counted))
