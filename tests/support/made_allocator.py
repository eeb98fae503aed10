"""A made-up allocator, and runs under it: random requests, served by a replay, which records them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec import structs

from memlens.allocators.engine import Replay, replay
from memlens.allocators.history import NotReplayable, Operation, RequestHistory
from memlens.allocators.models import (
    AllocatorModel,
    AllocatorRules,
    AllocatorSetting,
    Groups,
    IdleChunks,
    Relief,
    Values,
)
from memlens.allocators.placing import Addresses, Placement
from memlens.facts import Facts
from memlens.log import Log
from memlens.source import NumberedSource

KIB = 1024

#: The histories of made logs, by the name of the log.
HISTORIES: dict[str, RequestHistory | NotReplayable] = {}


def rules(history: RequestHistory, values: Values) -> AllocatorRules:
    """Blocks of multiples of 256 bytes; ``chunk_kib``: chunks of at least so many KiB; ``free_idle``: idle chunks go at once;
    ``relief``: they go when the device refuses; ``padding``: bytes behind each block."""
    block = -(-(history.size + int(values["padding"])) // 256) * 256
    return AllocatorRules(
        block,
        np.zeros(len(history), np.int32),
        np.maximum(block, int(values["chunk_kib"]) * KIB),
        Groups.alike(1),
        take_high=bool(values["high"]),
        idle=IdleChunks.AFTER_FREE if values["free_idle"] else IdleChunks.KEPT,
        relief=(Relief.ALL,) if values["relief"] else (),
    )


def _candidates(history: RequestHistory, own: Values) -> Sequence[Values]:
    return [
        {"chunk_kib": 4},
        {"chunk_kib": 16},
        {"chunk_kib": 64},
        {"free_idle": True},
        {"relief": True},
        {"padding": 512},
    ]


MODEL = AllocatorModel(
    "made-allocator",
    "a made-up allocator",
    (
        AllocatorSetting("chunk_kib", "count", 0, "the least bytes of a chunk", (0, 4, 16, 64)),
        AllocatorSetting("free_idle", "switch", False, "give idle chunks back at once", (False, True)),
        AllocatorSetting("relief", "switch", False, "give idle chunks back when the device refuses", (False, True)),
        AllocatorSetting("padding", "count", 0, "bytes behind each block"),
        AllocatorSetting("high", "switch", True, "blocks lie at the high end"),
    ),
    lambda log: HISTORIES.get(log.source.name),
    lambda history: dict(history.settings),
    rules,
    _candidates,
    lambda values: " ".join(f"MADE_{name}={value}" for name, value in values.items()),
)
DEFAULTS: dict[str, Any] = {one.name: one.default for one in MODEL.settings}


@dataclass(frozen=True)
class MadeProgram:
    """What a program asks for: the bytes of each request, and for each operation the request that it frees, or -1."""

    size: tuple[int, ...]
    of: tuple[int, ...]


def program_of(steps: Sequence[int | str]) -> MadeProgram:
    """Requests as their bytes, frees as the number of the request among the requests, written ``"#0"``."""
    size, of, requests = [], [], []
    for at, step in enumerate(steps):
        if isinstance(step, int):
            requests.append(at)
        size.append(step if isinstance(step, int) else 0)
        of.append(-1 if isinstance(step, int) else requests[int(step[1:])])
    return MadeProgram(tuple(size), tuple(of))


def random_program(seed: int, operations: int = 240) -> MadeProgram:
    """Waves of requests of few sizes, as steps of a training are, freed in another order; some live on."""
    chance = random.Random(seed)
    sizes = [
        chance.choice((1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)) * KIB + chance.choice((0, 0, 256, 300))
        for _ in range(chance.randint(3, 9))
    ]
    size: list[int] = []
    of: list[int] = []
    live: list[int] = []
    while len(size) < operations:
        target = chance.randint(1, 24)
        while len(live) < target:
            live.append(len(size))
            size.append(max(int(chance.choice(sizes) * chance.choice((1, 1, 1, 1.5, 2))), 1))
            of.append(-1)
        for _ in range(chance.randint(1, len(live))):
            gone = live.pop(chance.randrange(len(live)))
            size.append(0)
            of.append(gone)
    return MadeProgram(tuple(size), tuple(of))


def history_of(program: MadeProgram, **columns: Any) -> RequestHistory:
    """What a program asks for, not yet served."""
    count = len(program.size)
    of, none = np.array(program.of, np.int64), np.full(count, -1, np.int64)
    return RequestHistory(
        **{
            "operation": np.where(of >= 0, Operation.FREE, Operation.REQUEST).astype(np.int8),
            "of": of,
            "size": np.array(program.size, np.int64),
            "stream": np.zeros(count, np.int32),
            "pool": np.zeros(count, np.int32),
            "event": np.arange(count),
            "line": np.arange(count),
            "address": np.zeros(count, np.uint64),
            "block_bytes": none,
            **columns,
        }
    )


def run_made(
    history: RequestHistory, values: Values, addresses: Addresses, limit: int | None = None, *, trace: bool = False
) -> Replay:
    """One replay under one setting."""
    return replay(history, rules(history, values), addresses=addresses, limit=limit, trace=trace)


def recorded(program: MadeProgram, seed: int = 0, limit: int | None = None, **values: Any) -> RequestHistory:
    """A program that ran, with chunks at addresses drawn by a seed; with a limit up to the request that the device refused."""
    asked = history_of(program)
    own = {**DEFAULTS, **values}
    found = run_made(asked, own, Addresses(Placement.SHUFFLED, seed), limit, trace=True)
    stop = found.operations
    cut = slice(0, stop)
    names = ("operation", "of", "size", "stream", "pool", "event", "line", "block_bytes")
    assert found.address is not None
    assert found.changes is not None
    return structs.replace(
        asked,
        **{name: getattr(asked, name)[cut] for name in names},
        address=found.address[cut],
        failed=np.array([found.failed] if found.failed >= 0 else [], np.int64),
        changes=found.changes,
        settings=dict(values),
        limit_bytes=limit,
    )


def made_log(history: RequestHistory | NotReplayable, name: str = "made.log") -> Log:
    """A log whose history that is; its model is to be among the registered ones."""
    HISTORIES[name] = history
    return Log.from_rows([], source=NumberedSource(name), facts=Facts(layer="made"))
