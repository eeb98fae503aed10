"""What is true of recorded runs of ``benchmarks/trainers.py``, and whether what memlens says of them is.

Blocks come from the lines of the log by an expression of its own, the peak and the levels from Paddle's counters, and the lines of the
log that a line of the program made from where the log was when it ran.  Nothing here reads a log with memlens.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from real_paddle import RealPaddle

TRAINERS = Path(__file__).parents[2] / "benchmarks" / "trainers.py"
#: What ``memlens record`` sets for PaddlePaddle; the log is redirected here, for the program looks how far it is.
_PRESET = {
    "GLOG_vmodule": "auto_g*=10",
    "FLAGS_new_executor_sequential_run": "true",
    "PYTHONUNBUFFERED": "1",
    "OMP_NUM_THREADS": "1",
}
_EVENT = re.compile(rb"(\d+) \S+\] (?:(Alloc) (\d+) bytes|Free \d+ bytes), ptr = (0x[0-9a-f]+)")
_NEVER = 1 << 60
#: The findings that are right of a regression, by its kind; a late Free that a step's end divides is missing in that step.
_FINDINGS = {
    "kept": {"missing_free"},
    "late": {"late_free", "missing_free"},
    "more": {"only_head"},
    "larger": {"only_head"},
}
#: Claims that say that one run needs more, or other blocks, than the other.
DIFFERENCES = {
    "leaves_more",
    "parting",
    "windows_need",
    "left_in_all",
    "explains_all",
    "explains_most",
    "explains_part",
}
DIFFERENCES |= {"outweighs", "shares_little", "largest_peak_change", "left_behind", "head_peak", "open_window"}


@dataclass
class Block:
    """A block of a log: its bytes, the thread that allocates it, and the lines that allocate and free it."""

    size: int
    thread: bytes
    alloc: int
    free: int = _NEVER

    def lives_at(self, line: int) -> bool:
        return self.alloc <= line < self.free


@dataclass(frozen=True)
class Run:
    """A recorded run: its log, and what its program wrote beside it."""

    log: Path

    @cached_property
    def truth(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.log.with_suffix(".json").read_text())
        return found

    @cached_property
    def _lines(self) -> list[int]:
        """Where each line begins."""
        return [0, *(found.end() for found in re.finditer(rb"\n", self.log.read_bytes()))]

    def line_at(self, offset: int) -> int:
        """The number of the line that holds a byte, from 1 on."""
        return bisect_right(self._lines, offset)

    @cached_property
    def blocks(self) -> dict[int, Block]:
        """Blocks by the lines that allocate them."""
        text, live, found = self.log.read_bytes(), {}, {}
        for event in _EVENT.finditer(text):
            line, (thread, alloc, size, address) = self.line_at(event.start()), event.groups()
            if alloc:
                live[address] = found[line] = Block(int(size), thread, line)
            else:
                live.pop(address).free = line
        return found

    @cached_property
    def peak_line(self) -> int:
        """The line that first reaches the peak, which is that of Paddle's counters."""
        changes = sorted(
            [(one.alloc, one.size) for one in self.blocks.values()]
            + [(one.free, -one.size) for one in self.blocks.values() if one.free < _NEVER]
        )
        level, best, at = 0, 0, 0
        for line, change in changes:
            level += change
            if level > best:
                best, at = level, line
        assert best == self.truth["peak"], (self.log, best, self.truth["peak"])
        return at

    @cached_property
    def step_ends(self) -> list[int]:
        """Where each step is over."""
        return [self.line_at(offset) for offset, _ in self.truth["ends"]]

    @property
    def ends(self) -> list[int]:
        """What Paddle counts as allocated where each step is over."""
        return [level for _, level in self.truth["ends"]]

    @property
    def rises(self) -> bool:
        """Whether the last step ends higher than another one."""
        return self.ends[-1] > min(self.ends)

    def life_of(self, block: Block) -> int:
        """How many allocations lie between the ALLOC and the FREE of a block."""
        return bisect_left(self._allocs, block.free) - bisect_right(self._allocs, block.alloc)

    @cached_property
    def _allocs(self) -> list[int]:
        return sorted(self.blocks)

    def made_by(self, names: Iterable[str]) -> list[Block]:
        """The blocks that lines of the program allocate, each once; what loaders allocate at the same time is not theirs."""
        spans = [
            (self.line_at(one[0]), self.line_at(one[1])) for name in names for one in self.truth["spans"].get(name, [])
        ]
        own = next(iter(self.blocks.values())).thread  # makes the weights, before any loader starts
        made = (block for block in self.blocks.values() if block.thread == own)
        return [block for block in made if any(low <= block.alloc < high for low, high in spans)]


@dataclass(frozen=True)
class Pair:
    """A good run and one with a regression of some kind, whose blocks certain lines of the program allocate."""

    good: Run
    bad: Run
    kind: str
    spans: tuple[str, ...]

    @property
    def d_peak(self) -> int:
        return int(self.bad.truth["peak"] - self.good.truth["peak"])

    @property
    def gained(self) -> int:
        """What the steps of the bad run gain over those of the good one, from the first's end to the last's."""
        more = [ours - theirs for ours, theirs in zip(self.bad.ends, self.good.ends, strict=True)]
        return more[-1] - more[0]

    @property
    def must_fail(self) -> bool:
        """Whether a gate must not let it pass: it needs 2 % of the peak more, at its peak or at its end."""
        return max(self.d_peak, self.gained) * 50 > int(self.good.truth["peak"])

    @property
    def counts(self) -> dict[int, set[int]]:
        """How many blocks of a size head has more than base, by the size: at its peak, at a step's end, kept to the end, and in all.

        Late are as well those at its peak that live for more allocations than the same ones do in base.
        """
        found: dict[int, set[int]] = {}
        ours, theirs = self.bad.made_by(self.spans), self.good.made_by(self.spans)
        last = self.bad.step_ends[-1], self.good.step_ends[-1]
        ways = [
            [
                _counted(one for one in run if one.lives_at(line))
                for run, line in ((ours, self.bad.peak_line), (theirs, self.good.peak_line))
            ],
            [_counted(_divided(run.made_by(self.spans), run.step_ends)) for run in (self.bad, self.good)],
            [_counted(_divided(run.made_by(self.spans), run.step_ends[:-1])) for run in (self.bad, self.good)],
            [
                _counted(one for one in run if one.lives_at(line))
                for run, line in zip((ours, theirs), last, strict=True)
            ],
            [_counted(ours), _counted(theirs)],
        ]
        if self.kind == "late":
            there = [(one, other) for one, other in zip(ours, theirs, strict=False) if one.lives_at(self.bad.peak_line)]
            longer = (one for one, other in there if self.bad.life_of(one) > self.good.life_of(other))
            ways.append([_counted(longer), Counter()])
        for more, less in ways:
            for size, count in (more - less).items():
                found.setdefault(size, set()).add(count)
        return found

    def faults(self, claims: list[dict[str, Any]]) -> list[str]:
        """What is wrong with claims that ought to name the regression: none where one of them has its kind, size, count and place."""
        sized = [one for one in claims if "size_bytes" in one and one.get("finding") in _FINDINGS[self.kind]]
        if not sized:
            return ["it names no such block"]
        lines = [
            one[name]
            for one in claims
            for name in ("head_alloc_line", "alloc_line")
            if one.get("side") != "base" and one.get(name)
        ]
        ours = {block.alloc: block.size for block in self.bad.made_by(self.spans)}
        faults = []
        for one in sized:
            size, counts = one["size_bytes"], self.counts.get(one["size_bytes"], set())
            if not counts & {one["blocks"], one.get("counting"), one.get("alike_blocks")}:
                faults.append(f"{one['blocks']} of {size} B, not {sorted(counts)}")
            elif not any(ours.get(line) == size for line in lines):
                faults.append(f"lines {lines} are none that the program's line made")
            else:
                return []
        return faults


def regressions() -> dict[tuple[str, str], tuple[str, tuple[str, ...]]]:
    """Kinds and places of the regressions, by program and name; the programs themselves are not loaded, for Paddle may not be there."""
    for node in ast.parse(TRAINERS.read_text()).body:
        if (
            isinstance(node, ast.Assign)
            and ast.unparse(node.targets[0]) == "REGRESSIONS"
            and isinstance(node.value, ast.Dict)
        ):
            found = {}
            for key, value in zip(node.value.keys, node.value.values, strict=True):
                assert isinstance(key, ast.Constant)
                assert isinstance(value, ast.Call)
                kind, spans, _ = (ast.literal_eval(one) for one in value.args)
                program, name = str(key.value).split(":")
                found[program, name] = kind, tuple(spans.split())
            return found
    raise AssertionError


def record_program(
    paddle: RealPaddle,
    log: Path,
    program: str,
    bad: str = "",
    *,
    steps: int = 20,
    variables: Mapping[str, str] = _PRESET,
    switch: bool = False,
) -> Run:
    """Run a program to its end, its log redirected into a file; names switched on and off from step to step, if asked for."""
    words = [paddle.python, str(TRAINERS), program, "--bad", bad, "--truth", str(log.with_suffix(".json"))]
    words += ["--steps", str(steps), *["--switch"][:switch]]
    with log.open("wb") as file:
        subprocess.run(
            words,
            env={**paddle.environment(), **variables},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            timeout=600,
            check=True,
        )
    return Run(log)


def _counted(blocks: Iterable[Block]) -> Counter[int]:
    return Counter(block.size for block in blocks)


def _divided(blocks: list[Block], ends: list[int]) -> Iterator[Block]:
    """The blocks that live over the end of a step."""
    return (one for one in blocks if bisect_right(ends, one.alloc) < bisect_right(ends, one.free))


def first_sentences(verdict: str, claims: list[dict[str, Any]], count: int = 3) -> list[dict[str, Any]]:
    """The claims that the first sentences of a verdict say whole: how much more, of what, and where that is allocated."""
    said = "".join(re.split(r"(?<=\.) (?=[A-Z0-9(])", verdict)[:count]).lower()
    return [one for one in claims if one["text"].lower().rstrip(".") in said]
