"""Logs of the ranks of made-up jobs as Paddle writes them, with the figures that must come of them by the arithmetic of what was written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from logs import LogText

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
#: 2 h after midnight of July 12th.
_BEGIN_US = 2 * 3600 * 1_000_000
_LINE_US = 50_000


@dataclass(frozen=True)
class Program:
    """What a rank does: it takes its parameters, then each step takes and frees its temporaries one after the other, all live at once.

    Attributes:
        parameters: Sizes and operators, held to the end.
        temporaries: Those of each step.
        steps: How many.
        leaked: What each step leaves behind.
        asks: In this step, after its temporaries, so many bytes are asked for by this operator and refused: the run ends.
        begin_us: When it begins, from that of others.
        stops: After so many steps the log ends.
    """

    parameters: Sequence[tuple[int, str]] = ((64 * MIB, "embedding"), *(((16 * MIB), "linear"),) * 4)
    temporaries: Sequence[tuple[int, str]] = ((8 * MIB, "matmul"), (4 * MIB, "softmax"), (4 * MIB, "relu"))
    steps: int = 5
    leaked: Sequence[tuple[int, str]] = ()
    asks: tuple[int, int, str] | None = None
    begin_us: int = 0
    stops: int | None = None

    @property
    def _steps_done(self) -> int:
        return min(step for step in (self.steps, self.stops, self.asks and self.asks[0] + 1) if step is not None)

    @property
    def live(self) -> int:
        """What is live at the end."""
        left = sum(size for size, _ in self.leaked) * (self._steps_done - (self.asks is not None))
        held = sum(size for size, _ in self.temporaries) if self.asks is not None else 0
        return sum(size for size, _ in self.parameters) + left + held

    @property
    def peak(self) -> int:
        """The highest level: before the temporaries of the last step are freed, and before it leaves something behind."""
        left = sum(size for size, _ in self.leaked) * max(self._steps_done - 1, 0)
        at_once = sum(size for size, _ in self.temporaries) * (self._steps_done > 0)
        highest = sum(size for size, _ in self.parameters) + left + at_once
        return max(highest, self.live)

    @property
    def reserved(self) -> int:
        """A chunk a block; those of temporaries are used again."""
        left = sum(size for size, _ in self.leaked) * (self._steps_done - (self.asks is not None))
        return sum(size for size, _ in (*self.parameters, *self.temporaries)) + left

    @property
    def text(self) -> bytes:
        """The log."""
        log, after = LogText(4711, _BEGIN_US + self.begin_us + _LINE_US, _LINE_US, "0712"), 0x7F0000000000

        def alloc(size: int, owner: str) -> int:
            nonlocal after
            log.operator(owner)
            log.chunk(size, after)
            log.alloc(size, after)
            after += size
            return after - size

        for size, owner in self.parameters:
            alloc(size, owner)
        chunks: list[int] = []
        for step in range(self._steps_done):
            log.lines.append(f"STEP {step} START")
            log.at_us += _LINE_US
            for k, (size, owner) in enumerate(self.temporaries):
                if step == 0:
                    chunks.append(alloc(size, owner))
                else:
                    log.operator(owner)
                    log.alloc(size, chunks[k])
            if self.asks is not None and self.asks[0] == step:
                _, size, owner = self.asks
                log.operator(owner)
                failed = f"Allocation of {size} bytes failed after releasing memory from all streams."
                log.say(failed, "stream_safe_cuda_allocator.cc:224")
                break
            for (size, _), addr in zip(self.temporaries, chunks, strict=True):
                log.free(size, addr)
            for size, owner in self.leaked:
                alloc(size, owner)
        return log.text.encode()


def write(folder: Path, name: str, program: Program) -> Path:
    """Write the log of a rank; names of folders in ``name`` are made."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(program.text)
    return path


@dataclass(frozen=True)
class MadeJob:
    """A job of many ranks: the path of each below a folder, and what it does."""

    programs: dict[str, Program] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write all logs, each program that several ranks run once."""
        texts: dict[Program, bytes] = {}
        for name, program in self.programs.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if program not in texts:
                texts[program] = program.text
            path.write_bytes(texts[program])


def large_job(ranks: int = 10_000, seed: int = 0) -> MadeJob:
    """A job of so many ranks, at least a thousand, on machines of eight: 8 stages of a pipeline of which the first holds an embedding and the last a head; what
    ranks differ by is up to 1 MiB; rank 4711 (of fewer, half of them) holds two blocks of a gather more, the machine 137 (of fewer, 13) a block of its own on each rank, and rank 17 of stage 0 asks for too much."""
    chance = np.random.default_rng(seed)
    programs: dict[str, Program] = {}
    odd, machine = (4711, 137) if ranks > 4711 else (ranks // 2, 13)
    for rank in range(ranks):
        stage = rank * 8 // ranks
        layers = [(64 * MIB, "matmul")] * 8
        own = [(512 * MIB, "embedding")] * (stage == 0) + [(256 * MIB, "lm_head")] * (stage == 7)
        buffer = [(int(chance.integers(1, 65)) * 16 * KIB, "all_to_all")]
        extra = [(134 * MIB, "gather")] * 2 * (rank == odd) + [(96 * MIB, "nccl")] * (rank // 8 == machine)
        program = Program((*own, *layers, *buffer, *extra), ((32 * MIB, "flash_attn"), (16 * MIB, "softmax")), 4)
        if rank == 17:
            program = replace(program, asks=(2, 2 * GIB, "flash_attn"))
        elif rank in (5, 23):
            program = replace(program, asks=(2, 2 * GIB, "flash_attn"), begin_us=420_000)
        programs[f"node{rank // 8:04d}/pp{stage}_rank{rank:05d}.log"] = program
    return MadeJob(programs)
