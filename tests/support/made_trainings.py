"""Trainings by chance, of which each block's role is known by construction: as logs with steps, and as snapshots with call stacks."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from logs import LogText
from snapshots import entry, frame, read, segment

from memlens.analyzers.roles.by_stack import roles_by_stack
from memlens.claims.roles import GRADIENT, GRAPH, ROLES, TEMPORARY
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
        ahead: The batch of a step is made at the end of the one before it.

    Attributes:
        events: Numbers of blocks, made where they come first, given back where they come again.
        blocks: The blocks.
        steps: The first event of each step.
        steps_of: How many there are.
    """

    def __init__(
        self,
        seed: int,
        states: int,
        *,
        alike: bool = False,
        late: bool = False,
        anew: bool = False,
        ahead: bool = False,
    ) -> None:
        chance = self._chance = random.Random(seed)
        self._begin()
        self._late, self._anew, self._ahead = late, anew, ahead
        self._batch: int | None = None
        self._gradients: list[int] = []
        self._states: list[int] = []
        sizes = [512 * chance.randint(4, 60) for _ in range(chance.randint(3, 8))]
        self.parameters = [*sizes, *(chance.choice(sizes) for _ in range(chance.randint(8, 20)))]
        self._sizes = sizes if alike else []
        saved = [self._other(200) for _ in range(chance.randint(8, 25))]
        for size in self.parameters:
            self._make(size, "parameter", "model")
        for number in range(chance.randint(3, 5)):
            self.steps.append(len(self.events))
            self._step(saved, states if number == 0 or anew else 0)

    def _begin(self) -> None:
        self.events: list[int] = []
        self.blocks: list[Block] = []
        self.steps: list[int] = []
        self.stacks: dict[str, list[dict[str, Any]]] = dict(STACKS)

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
        batch = make(self._other(90), "variable", "program") if self._batch is None else self._batch
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
        if self._ahead:
            self._batch = make(self._other(90), "variable", "program")

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

    def snapshot(self, begin: int, *, of_python: bool, walk: bool = False) -> Log:
        """As a snapshot at the end, whose record began before an event.

        Args:
            begin: The event.
            of_python: Stacks are of Python alone, which backward passes have none of.
            walk: A walk at the end finds that no variable holds anything.
        """
        made, live, trace = set[int](), dict[int, None](), []
        for at, block in enumerate(self.events):
            size, _, phase = self.blocks[block]
            frames: list[dict[str, Any]] = [] if of_python and phase == "backward" else self.stacks[phase]
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
        found = {"names": ["-"], "time_us": [len(self.events)], "rows": [1], "address": [0], "name": [0]}
        noted = {"memlens": {"holders": found}} if walk else {}
        (log,) = read({"segments": segments, "device_traces": [trace], **noted})
        return log

    def role_of(self, log: Log, event: int, shift: int) -> str:
        """What the block is that an event of a log made."""
        return self.blocks[(int(log.addr[event]) >> shift) - 1].role


class Layered(Training):
    """A training by chance of a model whose layers all do the same, of which some are made again in the backward pass.

    Args:
        seed: The chance; it is another training with the same seed where other layers are made again, and the same in all else.
        layers: How many there are.
        again: Those that are made again, from 0.
        large: How large what is saved is.
        heavy: How large parameters are.
        unrolled: Each layer stands on lines of its own.
        steps: How many batches there are.
        last: How many times larger the last one is.
        dies: The layer at which the forward pass of the last batch ends, and the training with it.

    Attributes:
        layer: The layer of each block that a forward pass makes and does not give back, by its number.
        line: The line of the model that each of these is made by.
    """

    def __init__(
        self,
        seed: int,
        layers: int,
        again: frozenset[int] = frozenset(),
        *,
        large: int = 8,
        heavy: int = 1,
        unrolled: bool = False,
        steps: int = 3,
        last: int = 1,
        dies: int | None = None,
    ) -> None:
        chance = self._chance = random.Random(seed)
        self._begin()
        self._layers, self._again, self._unrolled = layers, again, unrolled
        self.layer: dict[int, int] = {}
        self.line: dict[int, str] = {}
        #: Of each operator of a layer the line of the model that calls it, and what it saves, the last of them what it gives.
        self._work = [
            (10 + k // 2, [large * 512 * chance.randint(4, 60) for _ in range(chance.randint(1, 3))])
            for k in range(chance.randint(3, 7))
        ]
        self._while = large * 512 * chance.randint(1, 4)
        self._weights = [heavy * 512 * chance.randint(4, 60) + 256 for _ in range(3)]
        weights = [*self._weights * layers, *(512 * chance.randint(4, 90) for _ in range(2))]
        self.parameters = [self._make(size, "parameter", "model") for size in weights]
        # What is beside the layers is less than what is in them.
        units = sum(sum(sizes) for _, sizes in self._work) // (large * 512)
        self._given, self._logits = (large * 512 * chance.randint(1, most) for most in (units // 2, units))
        for number in range(steps):
            self.steps.append(len(self.events))
            if number == steps - 1:
                self._work = [(line, [size * last for size in sizes]) for line, sizes in self._work]
                self._while, self._given, self._logits = (last * n for n in (self._while, self._given, self._logits))
            self._train(states=2 if number == 0 else 0, dies=dies if number == steps - 1 else None)

    def _forward(self, line: int, of: str, size: int, role: str, layer: int) -> int:
        """A block that a line of the forward pass makes, in a layer or beside them."""
        # Operators of one line are called by lines of a module.
        inside = [
            frame("/home/user/net.py", line, "forward"),
            frame("/venv/torch/nn/modules/module.py", 1750, "_call_impl"),
        ]
        outside = [
            frame("/home/user/net.py", 50, "forward"),
            frame("/venv/torch/nn/modules/module.py", 1750, "_call_impl"),
        ]
        phase = f"forward {line} {of}"
        self.stacks[phase] = [
            frame("/venv/torch/nn/functional.py", int(of), "apply"),
            *inside,
            *outside * (layer >= 0),
            _MAIN,
        ]
        block = self._make(size, role, phase)
        if role == "saved":
            # Where each layer is called by a line of its own, what tells its work from that beside the layers is the line outside.
            told = 50 if self._unrolled and layer >= 0 else line
            self.layer[block], self.line[block] = layer, f"net.py:{told} forward"
        return block

    def _run(self, layer: int, *, back: bool = False) -> list[tuple[int, int]]:
        """Run a layer: what it saves, with the operator that does, and at last what it gives."""
        saved = []
        for at, (work, sizes) in enumerate(self._work):
            line = work + 100 * (layer + 1) * self._unrolled
            for number, size in enumerate(sizes):
                gives = (at, number) == (len(self._work) - 1, len(sizes) - 1)
                role = "saved" if gives or layer not in self._again else "temporary"
                for what, of, made in (("temporary", 50, self._while), (role, number, size)):
                    if back:
                        block = self._make(made, "temporary", "backward")
                    else:
                        block = self._forward(line, f"{100 * at + of}", made, what, layer)
                    if of == 50:
                        self.events.append(block)
                saved.append((at, block))
        return saved

    def _train(self, states: int, dies: int | None) -> None:
        make, drop = self._make, self.events.append
        batch = make(2048, "variable", "program")
        given = self._forward(40, "1", self._given, "saved", -1)
        saved, outputs = [], [given]
        for layer in range(self._layers):
            if layer == dies:
                return
            own = self._run(layer)
            outputs.append(own.pop()[1])
            if layer in self._again:
                for _, block in own:
                    drop(block)
            saved.append(own)
        logits = self._forward(60, "1", self._logits, "saved", -1)
        drop(self._forward(60, "2", 1024, "temporary", -1))
        gradients = [make(self.blocks[self.parameters[-1]].size, "gradient", "backward")]
        passed = make(self._logits, "temporary", "backward")
        drop(logits)
        for layer in reversed(range(self._layers)):
            drop(outputs[layer + 1])
            own = self._run(layer, back=True) if layer in self._again else saved[layer]
            given_again = own.pop()[1] if layer in self._again else None
            gradients += [make(size, "gradient", "backward") for size in self._weights]
            for at, block in reversed(own):
                handed = make(self._work[at][1][0], "temporary", "backward")
                drop(passed)
                drop(block)
                passed = handed
            if given_again is not None:
                drop(given_again)
        drop(outputs[0])
        drop(passed)
        gradients.append(make(self.blocks[self.parameters[-2]].size, "gradient", "backward"))
        for parameter in self.parameters:
            for _ in range(states):
                make(self.blocks[parameter].size, "optimizer", "optimizer")
        for _ in range(10):
            drop(make(2304, "temporary", "optimizer"))
        for block in [*gradients, batch]:
            drop(block)

    def recorded(self) -> Log:
        """As a log whose owners and holders were recorded."""
        names = [*self.stacks]
        owners = [
            " < ".join(f"{one['filename'].rpartition('/')[2]}:{one['line']} {one['name']}" for one in self.stacks[name])
            for name in names
        ]
        holders = {"parameter": "parameter net (a.py)", "gradient": GRADIENT, "optimizer": "optimizer adam (a.py)"}
        holders |= {"saved": GRAPH, "temporary": TEMPORARY, "variable": "variable batch (a.py)"}
        rows, owner, holder, made = [], [], [], set[int]()
        for block in self.events:
            size, role, phase = self.blocks[block]
            rows.append((Kind.FREE if block in made else Kind.ALLOC, size, (block + 1) << 20))
            made.add(block)
            owner.append(names.index(phase))
            holder.append([*holders].index(role))
        columns = {"owner": np.array(owner, np.int32), "owner_names": tuple(owners)}
        return Log.from_rows(rows, **columns, holder=np.array(holder, np.int64), holder_names=tuple(holders.values()))

    def peak(self) -> tuple[int, list[int]]:
        """The highest level, and the blocks that are live then, by a plain count."""
        level, top, live, there = 0, -1, dict[int, None](), list[int]()
        for block in self.events:
            if block in live:
                del live[block]
                level -= self.blocks[block].size
            else:
                live[block] = None
                level += self.blocks[block].size
            if level > top:
                top, there = level, [*live]
        return top, there


class Called(Training):
    """A program in which functions make blocks, as many as somebody says."""

    def __init__(self, **stacks: list[dict[str, Any]]) -> None:
        self._begin()
        self.stacks |= stacks

    def call(self, phase: str, *blocks: tuple[int, str], keep: bool = True) -> list[int]:
        """A function makes some blocks, which are given back right after where they are not kept."""
        made = [self._make(size, role, phase) for size, role in blocks]
        self.events += [] if keep else made
        return made

    def wrong(self, log: Log) -> list[tuple[str, str]]:
        """Of what a role is told that it does not have: that, and the one that it has."""
        found = roles_by_stack(log)
        assert found is not None
        alloc = np.flatnonzero(log.kind == Kind.ALLOC)
        told = [[*ROLES][role] for role in found.role[alloc].tolist()]
        return [
            pair
            for pair in zip(told, (self.role_of(log, at, 30) for at in alloc.tolist()), strict=True)
            if pair[0] != pair[1]
        ]


def live_at(log: Log, event: int) -> Ints:
    """The ALLOCs of what is live right before an event."""
    partner = log.lifetimes.partner
    return np.array([k for k in range(event) if log.kind[k] == Kind.ALLOC and not 0 <= partner[k] < event], np.int64)
