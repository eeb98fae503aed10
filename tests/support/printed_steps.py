"""Runs that print their steps as common trainers do: logs of Paddle's allocator, with a block kept in each step or without.

Each step allocates, for a moment, one block whose size tells which step it is: ``marker(step)`` bytes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

LEAK = 256 << 10
_HEADER = "I1120 10:22:32.{:06d} 13292 auto_growth_best_fit_allocator.cc:"


class At(NamedTuple):
    """Where in a run something is printed; counts from 0."""

    epoch: int
    epochs: int
    step: int
    steps: int
    chance: random.Random

    @property
    def overall(self) -> int:
        """Steps before this one."""
        return self.epoch * self.steps + self.step

    @property
    def loss(self) -> float:
        """Some figure."""
        return self.chance.uniform(0.001, 9)


def _bar(at: At, done: int, text: str = "") -> str:
    filled = 10 * done // at.steps
    pace = f"{at.loss:5.2f}it/s" if done else "?it/s"
    return f"\r{text}{100 * done // at.steps:3d}%|{'█' * filled}{'▌' * (filled < 10)}{' ' * max(9 - filled, 0)}| {done}/{at.steps} [00:{done:02d}<00:05, {pace}"


def _keras(at: At, done: int) -> str:
    width = 30 * done // at.steps
    bar = "=" * width + ">" * (width < 30) + "." * (29 - width)
    back = "\b" * 60 if done > 1 else ""
    ends = done == at.steps
    end = (
        f"] - {at.loss:.0f}s {at.loss:.0f}ms/step - loss: {at.loss:.4f}\n"
        if ends
        else f"] - ETA: {at.loss:.0f}s - loss: {at.loss:.4f}"
    )
    return f"{back}\r{done:{len(str(at.steps))}d}/{at.steps} [{bar}{end}"


def _keras3(at: At, done: int) -> str:
    head = f"\r\x1b[1m{done:{len(str(at.steps))}d}/{at.steps}\x1b[0m \x1b[32m{'━' * (20 * done // at.steps)}\x1b[0m\x1b[37m{'━' * (20 - 20 * done // at.steps)}"
    return f"{head}\x1b[0m \x1b[1m{at.loss:.0f}s\x1b[0m {at.loss:.0f}ms/step - loss: {at.loss:.4f}" + "\n" * (
        done == at.steps
    )


Print = Callable[[At], str]
#: What is printed when a step is done.
PRINTS: dict[str, Print] = {
    "dcgan": lambda at: (
        f"[{at.epoch}/{at.epochs}][{at.step}/{at.steps}]\tLoss_D: {at.loss:.4f}\tLoss_G: {at.loss:.4f}\tD(x): {at.loss:.4f}\tD(G(z)): {at.loss:.4f} / {at.loss:.4f}\n"
    ),
    "tqdm": lambda at: _bar(at, at.step + 1) + "]" + "\n" * (at.step + 1 == at.steps),
    "lightning": lambda at: _bar(at, at.step + 1, f"Epoch {at.epoch}: ") + f", v_num=0, train_loss={at.loss:.3f}]",
    "keras": lambda at: _keras(at, at.step + 1),
    "keras3": lambda at: _keras3(at, at.step + 1),
    "hugging_face": lambda at: (
        f"{{'loss': {at.loss:.4f}, 'grad_norm': {at.loss:.3f}, 'learning_rate': {at.loss * 1e-5:.3g}, 'epoch': {at.overall / at.steps:.2f}}}\n"
    ),
    "loss": lambda at: f"loss {at.loss:.4f}\n",
    "loss_in_chinese": lambda at: f"损失: {at.loss:.4f}\n",
    "megatron": lambda at: (
        f" iteration {at.overall + 1:8d}/{at.epochs * at.steps:8d} | consumed samples: {16 * at.overall:12d} | elapsed time per iteration (ms): {at.loss:.1f} | learning rate: {at.loss:.3E} | global batch size:    16 | lm loss: {at.loss:.6E} | loss scale: 1.0 | number of skipped iterations:   0 |\n"
    ),
    "hapi": lambda at: (
        f"step {at.step + 1:{len(str(at.steps))}d}/{at.steps} - loss: {at.loss:.4f} - acc: {at.loss:.4f} - {at.loss:.0f}ms/step\n"
    ),
    "hapi_bar": lambda at: (
        f"\rstep {at.step + 1:{len(str(at.steps))}d}/{at.steps} [{'=' * (at.step % 9)}>...] - loss: {at.loss:.4f} - ETA: {at.loss:.0f}s - {at.loss:.0f}ms/step"
    ),
    "paddle_clas": lambda at: (
        f"[2024/07/10 09:56:31] ppcls INFO: [Train][Epoch {at.epoch + 1}/{at.epochs}][Iter: {at.step}/{at.steps}]lr(Momentum): {at.loss:.8f}, top1: {at.loss:.5f}, CELoss: {at.loss:.5f}, loss: {at.loss:.5f}, batch_cost: {at.loss:.5f}s\n"
    ),
    "paddle_detection": lambda at: (
        f"[07/10 09:56:31] ppdet.engine INFO: Epoch: [{at.epoch}] [{at.step:{len(str(at.steps))}d}/{at.steps}] learning_rate: {at.loss:.6f} loss: {at.loss:.6f} eta: 0:01:00 batch_cost: {at.loss:.4f} data_cost: 0.0001 ips: {at.loss:.4f} images/s\n"
    ),
    "epoch_iter": lambda at: f"epoch: [{at.epoch}/{at.epochs}], iter: [{at.step}/{at.steps}], loss: {at.loss:.4f}\n",
    "fastai": lambda at: f"{at.overall:<10d}{at.loss:<12.6f}{at.loss:<12.6f}{at.loss:<10.6f}00:12     \n",
    "step_loss": lambda at: f"Step {at.overall}, loss {at.loss:.4f}\n",
    "global_step": lambda at: f"global_step={at.overall}\n",
    "imagenet": lambda at: (
        f"Epoch: [{at.epoch}][{at.step:{len(str(at.steps))}d}/{at.steps}]\tTime {at.loss:6.3f} ({at.loss:6.3f})\tData {at.loss:6.3f} ({at.loss:6.3f})\tLoss {at.loss:.4e} ({at.loss:.4e})\tAcc@1 {at.loss:6.2f} ({at.loss:6.2f})\n"
    ),
    "nano_gpt": lambda at: f"iter {at.overall}: loss {at.loss:.4f}, time {at.loss:.2f}ms, mfu {at.loss:.2f}%\n",
    "detectron": lambda at: (
        f"[07/10 09:56:31 d2.utils.events]:  eta: 0:01:00  iter: {at.overall}  total_loss: {at.loss:.4g}  loss_cls: {at.loss:.4g}  time: {at.loss:.4f}  lr: {at.loss * 1e-4:.5g}\n"
    ),
    "deepspeed": lambda at: (
        f"[2024-07-10 09:56:31,{at.overall:03d}] [INFO] [logging.py:96:log_dist] [Rank 0] step={at.overall}, skipped=0, lr=[{at.loss:.3g}], mom=[[0.9, 0.999]]\n"
    ),
    "mnist": lambda at: (
        f"Train Epoch: {at.epoch + 1} [{64 * at.step}/{64 * at.steps} ({100 * at.step // at.steps}%)]\tLoss: {at.loss:.6f}\n"
    ),
    "torch_tutorial": lambda at: f"[{at.epoch + 1}, {at.step + 1:5d}] loss: {at.loss:.3f}\n",
    "server": lambda at: (
        f"INFO:     127.0.0.1:{49000 + 7 * at.overall} - request {at.overall} done in {at.loss:.2f} ms, {at.chance.randint(8, 200)} tokens\n"
    ),
    "swin": lambda at: (
        f"[2024-07-10 09:56:31 swin_tiny](main.py 178): INFO Train: [{at.epoch}/{at.epochs}][{at.step}/{at.steps}]\teta 0:11:17 lr 0.000012\t time {at.loss:.4f} ({at.loss:.4f})\tloss {at.loss:.4f} ({at.loss:.4f})\tmem 10843MB\n"
    ),
    "timm": lambda at: (
        f"Train: {at.epoch} [{at.step:4d}/{at.steps} ({100 * at.step // at.steps:3d}%)]  Loss: {at.loss:.3f} ({at.loss:.2f})  Time: {at.loss:.3f}s,  235.93/s  LR: 1.000e-05  Data: {at.loss:.3f}\n"
    ),
    "metric_logger": lambda at: (
        f"[09:56:31.123456] Epoch: [{at.epoch}]  [{at.step:3d}/{at.steps}]  eta: 0:10:00  lr: 0.000{at.step}  loss: {at.loss:.4f} ({at.loss:.4f})  time: {at.loss:.4f}  data: 0.0001  max mem: 3042\n"
    ),
    "mmengine": lambda at: (
        f"07/10 09:56:31 - mmengine - INFO - Epoch(train)   [{at.epoch + 1}][{at.step + 1:3d}/{at.steps}]  lr: 1.0000e-03  eta: 1:20:30  time: {at.loss:.4f}  data_time: {at.loss:.4f}  memory: 3042  loss: {at.loss:.4f}\n"
    ),
    "megatron_stamped": lambda at: (
        f" [2024-07-10 09:56:31] iteration {at.overall + 1:8d}/{at.epochs * at.steps:8d} | consumed samples: {16 * at.overall:12d} | elapsed time per iteration (ms): {at.loss:.1f} | lm loss: {at.loss:.6E} |\n"
    ),
    "torchtitan": lambda at: (
        f"[rank0]:[titan] 2024-07-10 09:56:31,{at.overall:03d} - root - INFO - step: {at.overall + 1:2d}  loss: {at.loss:8.4f}  grad_norm: {at.loss:7.4f}  memory:  3.04GiB(3.20%)  tps: 12,345  tflops: 12.34  mfu: 12.30%\n"
    ),
    "paddle_speech": lambda at: (
        f"2024-07-10 09:56:31.{at.overall:03d} | INFO     | trainer:do_train:167 - Train: Rank: 0, epoch: {at.epoch}, iter: {at.overall}, batch_size: 32, loss: {at.loss:.6f}\n"
    ),
    "open_pcdet": lambda at: (
        f"2024-07-10 09:56:31,{at.overall:03d}   INFO  Train: {at.epoch + 1:4d}/{at.epochs} ({100 * at.epoch // at.epochs:3d}%) [{at.step:4d}/{at.steps} ({100 * at.step // at.steps:3d}%)]  Loss: {at.loss:.3f} ({at.loss:.2f})  LR: 1.000e-03\n"
    ),
    "done": lambda _: "one more batch is done\n",
}
#: What is printed before the steps of an epoch.
BEGINS: dict[str, Print] = {
    "tqdm": lambda at: _bar(at, 0) + "]",
    "lightning": lambda at: _bar(at, 0, f"Epoch {at.epoch}: ") + "]",
    "keras": lambda at: f"Epoch {at.epoch + 1}/{at.epochs}\n",
    "keras3": lambda at: f"Epoch {at.epoch + 1}/{at.epochs}\n",
    "hapi": lambda at: f"Epoch {at.epoch + 1}/{at.epochs}\n",
    "hapi_bar": lambda at: f"Epoch {at.epoch + 1}/{at.epochs}\n",
    "fastai": lambda at: "epoch     train_loss  valid_loss  accuracy  time    \n" if at.epoch == 0 else "",
}


def marker(step: int) -> int:
    """Bytes of the block that a step has for a moment and no other one."""
    return (4 << 20) + 256 * step


class Run(NamedTuple):
    """A log, how many steps it has, and how many bytes each keeps."""

    text: bytes
    steps: int
    kept: int


def run(name: str, chance: random.Random, *, leak: bool, at_exit: bool = True) -> Run:
    """A run that prints as the trainer of a name does."""
    epochs, per_epoch = chance.choice([(1, 24), (2, 12), (2, 20), (3, 15), (1, 60)])
    pieces = list(_pieces(name, chance, epochs, per_epoch, leak=leak, at_exit=at_exit))
    return Run("".join(pieces).encode(), epochs * per_epoch, LEAK * leak)


def _pieces(
    name: str, chance: random.Random, epochs: int, per_epoch: int, *, leak: bool, at_exit: bool
) -> Iterator[str]:
    clock, address, held = 0, 0x7F0000000000, list[tuple[int, int]]()

    def alloc(size: int) -> str:
        nonlocal clock, address
        clock, address = clock + 1, address + size
        held.append((size, address))
        return f"{_HEADER.format(clock)}270] Alloc {size} bytes, ptr = {address:#x}\n"

    def free(index: int) -> str:
        nonlocal clock
        clock += 1
        size, at = held.pop(index)
        return f"{_HEADER.format(clock)}279] Free {size} bytes, ptr = {at:#x}\n"

    layers = chance.randint(3, 12)
    sizes = [256 * chance.randint(1, 4000) for _ in range(layers)]
    yield "Loading the data\n"
    yield from map(alloc, sizes)
    for epoch in range(epochs):
        if name in BEGINS:
            yield BEGINS[name](At(epoch, epochs, 0, per_epoch, chance))
        for step in range(per_epoch):
            at = At(epoch, epochs, step, per_epoch, chance)
            before = len(held)
            if at.overall == 0:
                yield from map(alloc, sizes)  # the states of the optimizer
                before = len(held)
            if leak:
                yield alloc(LEAK)
                before += 1
            yield alloc(marker(at.overall))
            yield from (alloc(2 * size) for size in sizes)
            for _ in range(chance.randint(0, 2)):
                yield alloc(512)
            while len(held) > before:
                yield free(len(held) - 1)
            yield PRINTS[name](at)
    while at_exit and held:
        yield free(len(held) - 1)
