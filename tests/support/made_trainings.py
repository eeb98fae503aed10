"""Trainings by chance, of which each block's role is known by construction: as logs with steps, and as snapshots with call stacks."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from logs import LogText
from snapshots import entry, frame, read, segment

from memlens.columns import Ints
from memlens.facts import Kind
from memlens.log import Log

#: Frames of what runs, innermost first; of the backward pass those of C++, which stacks of Python alone do not have.
_MAIN = frame("/home/user/train.py", 9, "main")
STACKS = {
    "model": [frame("/venv/torch/nn/modules/module.py", 927, "_apply"), _MAIN],
    "forward": [
        frame("/venv/torch/nn/modules/linear.py", 125, "forward"),
        frame("/venv/torch/nn/modules/module.py", 1750, "_call_impl"),
        _MAIN,
    ],
    "backward": [
        frame("??", 0, "MmBackward0::apply(std::vector<at::Tensor>&&)"),
        frame("??", 0, "torch::autograd::Engine::evaluate_function(torch::autograd::Node*)"),
    ],
    "optimizer": [
        frame("/venv/torch/optim/adamw.py", 380, "_multi_tensor_adamw"),
        frame("/venv/torch/optim/optimizer.py", 493, "wrapper"),
        _MAIN,
    ],
    "program": [_MAIN],
}


class Block(NamedTuple):
    """A block: its size, what it is, and what ran when it was made."""

    size: int
    role: str
    phase: str


class Training:
    """A training by chance.

    Args:
        seed: The chance.
        states: Blocks that the optimizer keeps of each parameter, 0 to 2.
        alike: Other blocks may be as large as parameters.
        late: Gradients are given back after the forward pass of the next step, and not at the end of their own.
        anew: The optimizer makes its states anew in each step, and gives the old ones back when the new ones are there.

    Attributes:
        events: Numbers of blocks, made where they come first, given back where they come again.
        blocks: The blocks.
        steps: The first event of each step.
        steps_of: How many there are.
    """

    def __init__(self, seed: int, states: int, *, alike: bool = False, late: bool = False, anew: bool = False) -> None:
        chance = self._chance = random.Random(seed)
        self._late, self._anew = late, anew
        self._gradients: list[int] = []
        self._states: list[int] = []
        self.events: list[int] = []
        self.blocks: list[Block] = []
        self.steps: list[int] = []
        sizes = [512 * chance.randint(4, 60) for _ in range(chance.randint(3, 8))]
        self.parameters = [*sizes, *(chance.choice(sizes) for _ in range(chance.randint(8, 20)))]
        self._sizes = sizes if alike else []
        saved = [self._other(200) for _ in range(chance.randint(8, 25))]
        for size in self.parameters:
            self._make(size, "parameter", "model")
        for number in range(chance.randint(3, 5)):
            self.steps.append(len(self.events))
            self._step(saved, states if number == 0 or anew else 0)

    def _other(self, most: int) -> int:
        """A size of something else: no parameter's, unless such may be."""
        if self._sizes and self._chance.random() < 0.3:
            return self._chance.choice(self._sizes)
        return 512 * self._chance.randint(4, most) + 256

    def _make(self, size: int, role: str, phase: str) -> int:
        self.blocks.append(Block(size, role, phase))
        self.events.append(len(self.blocks) - 1)
        return len(self.blocks) - 1

    def _step(self, saved: list[int], states: int) -> None:
        chance, make, drop = self._chance, self._make, self.events.append
        batch = make(self._other(90), "variable", "program")
        kept: list[int] = []
        for size in saved:
            drop(make(self._other(50), "temporary", "forward"))
            kept.append(make(size, "saved", "forward"))
        if self._late:
            self.events += self._gradients
        gradients = []
        waiting, cuts = [*reversed(self.parameters)], len(kept) - 1
        # The first layer that the pass comes to has a parameter.
        ends = sorted(chance.randint(1, len(waiting)) for _ in range(cuts))
        spans = zip([0, *ends], [*ends, len(waiting)], strict=True)
        for (start, end), block in zip(spans, reversed(kept), strict=True):
            gradients += [make(size, "gradient", "backward") for size in waiting[start:end]]
            for _ in range(chance.randint(1, 2)):
                drop(make(self._other(200), "temporary", "backward"))
            drop(block)
        if states:
            old = self._states
            self._states = [make(size, "optimizer", "optimizer") for size in self.parameters for _ in range(states)]
            self.events += old
        for _ in range(10):
            drop(make(self._other(60), "temporary", "optimizer"))
        self._gradients = gradients
        if not self._late:
            self.events += gradients
        drop(batch)

    def log(self) -> tuple[Log, tuple[Ints, Ints]]:
        """As a log without stacks, with the first event of each step, and what follows its last one."""
        made: set[int] = set()
        rows = []
        for block in self.events:
            kind = Kind.FREE if block in made else Kind.ALLOC
            made.add(block)
            rows.append((kind, self.blocks[block].size, (block + 1) << 20))
        edges = np.array([*self.steps, len(rows)], np.int64)
        return Log.from_rows(rows), (edges[:-1], edges[1:])

    def text(self) -> str:
        """As the text of a log, with a line where each step begins."""
        made, log = set[int](), LogText()
        for at, block in enumerate(self.events):
            if at in self.steps:
                log.lines.append(f"STEP {self.steps.index(at)} START")
            (log.free if block in made else log.alloc)(self.blocks[block].size, (block + 1) << 20)
            made.add(block)
        return log.text

    def at_peak(self) -> Counter[str]:
        """The bytes of each role that are live at the peak."""
        live, most = Counter[str](), Counter[str]()
        made = set[int]()
        for block in self.events:
            size, role, _ = self.blocks[block]
            live[role] += -size if block in made else size
            made.add(block)
            most = live.copy() if live.total() > most.total() else most
        return most

    def snapshot(self, begin: int, *, of_python: bool) -> Log:
        """As a snapshot at the end, whose record began before an event.

        Args:
            begin: The event.
            of_python: Stacks are of Python alone, which backward passes have none of.
        """
        made, live, trace = set[int](), dict[int, None](), []
        for at, block in enumerate(self.events):
            size, _, phase = self.blocks[block]
            frames: list[dict[str, Any]] = [] if of_python and phase == "backward" else STACKS[phase]
            actions = ("alloc",) if block not in made else ("free_requested", "free_completed")
            if block in made:
                del live[block]
            else:
                live[block] = None
            made.add(block)
            if at >= begin:
                trace += [entry(action, (block + 1) << 30, size, time_us=at, frames=frames) for action in actions]
        segments = []
        for block in live:
            size = self.blocks[block].size
            held = {"size": size, "requested_size": size, "state": "active_allocated", "frames": []}
            segments.append({**segment((block + 1) << 30, size), "blocks": [held]})
        (log,) = read({"segments": segments, "device_traces": [trace]})
        return log

    def role_of(self, log: Log, event: int, shift: int) -> str:
        """What the block is that an event of a log made."""
        return self.blocks[(int(log.addr[event]) >> shift) - 1].role


def live_at(log: Log, event: int) -> Ints:
    """The ALLOCs of what is live right before an event."""
    partner = log.lifetimes.partner
    return np.array([k for k in range(event) if log.kind[k] == Kind.ALLOC and not 0 <= partner[k] < event], np.int64)
