"""The roles of blocks that nobody's walk saw, by the call stacks of what made them and by when they are given back.

A whole stack says which phase of the work runs: the forward pass, the backward pass, the optimizer's step.  What is made in one phase and is
given back in it, in a later one, or never, has its role by that; what was there before the record by what gives it back, or by the sizes
of the gradients or the states that are made during it.  No role is said where nothing tells it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens.claims.roles import INFERRED, NO_VARIABLE, ROLE_NUMBERS, WORKSPACE
from memlens.columns import among, rank_of, rows_alike
from memlens.events import once
from memlens.facts import CPU, Kind
from memlens.inputs.stack_names import place_of
from memlens.text import is_own

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from memlens.columns import Flags, Ints
    from memlens.events import EventLog

#: What a stack is of: the first of these expressions that fits a frame of it, ``file:line function``; of names of files the last part alone counts, for
#: folders are the user's.
_FORWARD, _BACKWARD, _OPTIMIZER, _MODEL, _NETWORK, _CACHE, _LIBRARY, _OTHER, _NONE = range(9)
_PHASES = (
    (_CACHE, r"(?:kv_cache|KVCache)[^/]*$|transformers/cache_utils\.py"),
    (_LIBRARY, r":\d+ .*Workspace|getCurrentCUDABlas"),
    (
        _NETWORK,
        r"c10d::Reducer|\bProcessGroup\w*::|\bnccl[A-Z]|torch/distributed/distributed_c10d|deepspeed/runtime/zero",
    ),
    # … but for the function of the wrapper, within which all of the model runs.
    (_NETWORK, r"param_and_grad_buffer\.py|torch/(?:distributed|_composable)/[\w/]*fsdp[\w/]*\.py:\d+ (?!forward$)"),
    (_NETWORK, r"torch/nn/parallel/(?:distributed|comm)\.py:\d+ (?!forward$|_run_ddp_forward$)"),
    (_OPTIMIZER, r"torch/optim/(?!lr_scheduler|swa_utils)\w+\.py:\d+ (?!zero_grad$)|(?:apex|bitsandbytes)/\w*optim"),
    (
        _BACKWARD,
        r"torch::autograd::Engine|^autograd::engine::|^\w+Backward\d*$|\bNode::operator\(\)|Backward\d*::apply\(",
    ),
    (_BACKWARD, r"torch/utils/checkpoint\.py:\d+ (?:unpack_hook|recompute_fn|backward)$"),
    (_BACKWARD, r"torch/(?:_tensor|autograd/(?:__init__|graph))\.py:\d+ (?:backward|_engine_run_backward)$"),
    (_MODEL, r"nn/modules/module\.py:\d+ (?:_apply|to|cuda|load_state_dict)$| from_pretrained$"),
    (_FORWARD, r"nn/modules/module\.py:\d+ _call_impl$| forward$|torchinductor_"),
    (_MODEL, r" __init__$"),
    (_OTHER, r" (?:\w+_)?closure$"),
)
#: Those of what an optimizer's step may call, and of that step.
_CALLED = {k for k, (phase, _) in enumerate(_PHASES) if phase in (_FORWARD, _BACKWARD, _OTHER)}
_STEP = {k for k, (phase, _) in enumerate(_PHASES) if phase == _OPTIMIZER}
#: A backward function that is written in Python, where it is the outermost frame.
_OF_PYTHON = r"torch/autograd/function\.py:\d+ apply$"
#: Fewer blocks in a row of another phase are no phase; what lives through so many is kept from step to step.
_RUN, _LONG = 8, 6
#: What is there while the same call makes more than so many others is no temporary of it.
_OTHERS = 8
#: Of the blocks that an operator makes one in so many is a workspace, at most.
_SELDOM = 8
#: What an optimizer gives back within so many events was never its state.
_SOON = 64
#: Blocks and sizes that must be alike, and how much of their bytes must be found.
_FEW_BLOCKS, _FEW_SIZES, _COVERED = 6, 2, 0.9
#: Blocks that a parameter has at most, itself among them: its gradient, and two states.
_COPIES = 4
#: Workspaces of matrix products: their sizes, the second kind's, and how many of a kind a stream has at most, one a thread that computes.
_WORKSPACES, _SMALL_WORKSPACE, _FEW_WORKSPACES = (8_519_680, 33_554_432), 1 << 20, 2


class _Runs(NamedTuple):
    """Phases that follow each other.

    Attributes:
        phase: Which each is: ``_FORWARD``, ``_BACKWARD`` or ``_OPTIMIZER``, int64.
        start: Its first event, int64, rising.
    """

    phase: Ints
    start: Ints

    def at(self, event: Ints) -> Ints:
        """In which an event is, -1 before the first."""
        return self.start.searchsorted(event, "right") - 1

    def next_of(self, phase: int, run: Ints) -> Ints:
        """The first of a phase after each of some, as many as there are where there is none."""
        (those,) = np.nonzero(self.phase == phase)
        return np.append(those, len(self.phase))[those.searchsorted(run, "right")]


class ByStack(NamedTuple):
    """What the call stacks of a log say.

    Attributes:
        role: The role of the block of each ALLOC, as a number of ``ROLES``, -1 where nothing tells it; an entry an event, int8.
        steps: The first event of each step of the training, which ends with the optimizer's, and the end of the log; int64.
    """

    role: NDArray[np.int8]
    steps: Ints


def workspaces_told(log: EventLog, holder: Ints) -> tuple[Ints, tuple[str, ...]]:
    """The holders of a log, and libraries as those of their workspaces: an index of the names for each event, int64, -1 for none, and the names."""
    if (found := roles_by_stack(log)) is None:
        return holder, log.holder_names
    inferred = np.array([*(name in INFERRED for name in log.holder_names), True])[holder]
    (those,) = np.nonzero((found.role == ROLE_NUMBERS["workspace"]) & inferred)
    freed = log.lifetimes.partner[those].astype(np.int64)
    holder = holder.copy()
    holder[np.append(those, freed[freed >= 0])] = len(log.holder_names)
    return holder, (*log.holder_names, WORKSPACE)


@once
def roles_by_stack(log: EventLog) -> ByStack | None:
    """The roles of the blocks of a log; ``None`` where it has no stacks or addresses, or these tell none.

    Rules after measurements of seventy snapshots that training and serving programs of others wrote.
    """
    # Without addresses it is not known which of the blocks of one size is given back.
    numbers = None if "no_addresses" in log.facts.hints else log.source.stack_numbers(log.offset)
    if numbers is None or not (numbers >= 0).any():
        return None
    if (of_opening := log.source.opening_stacks()) is not None:
        numbers[: log.facts.opening] = of_opening
    used = np.flatnonzero(np.bincount(numbers + 1))  # 0 is that of none
    stacks = [log.source.stack_of(number) for number in (used - 1).tolist()]
    of_python = not any("::" in frame for stack in stacks for frame in stack)
    phase_of = np.full(int(used[-1]) + 1, _NONE, np.int8)
    phase_of[used] = [*map(_phase, stacks)]
    blocks = _Blocks(log, numbers, phase_of[numbers + 1], of_python=of_python)
    blocks.by_phase(dict(zip((used - 1).tolist(), stacks, strict=True)))
    blocks.by_size()
    if not (blocks.role >= 0).any():
        return None
    role = np.full(len(log), -1, np.int8)
    role[blocks.alloc] = blocks.role
    runs = blocks.runs
    begins = runs.start[np.append(True, runs.phase[:-1] == _OPTIMIZER)[: len(runs.start)]]
    return ByStack(role, np.append(begins, len(log)))


def _phase(stack: tuple[str, ...]) -> int:
    """What a stack is of, its innermost frame first."""
    if not stack:
        return _NONE
    fits = [*map(_first, stack)]
    if next((k for k in fits if k in _CALLED | _STEP), -1) in _CALLED:  # in a closure, if in a step at all
        fits = [k for k in fits if k not in _STEP]
    phase = (*(phase for phase, _ in _PHASES), _OTHER)[min(fits)]
    if phase not in (_CACHE, _LIBRARY, _NETWORK, _OPTIMIZER) and re.search(_OF_PYTHON, stack[-1].replace("\\", "/")):
        return _BACKWARD
    return phase


@lru_cache(maxsize=1 << 16)
def _first(frame: str) -> int:
    """The first of the expressions that fits a frame, by its number; as many as there are where none does."""
    frame = frame.replace("\\", "/")
    return next((k for k, (_, form) in enumerate(_PHASES) if re.search(form, frame)), len(_PHASES))


@lru_cache(maxsize=1 << 16)
def _own_function(frame: str) -> str | None:
    """The file and the function of a frame of the user's, at whatever line it is; ``None`` of any other."""
    found = re.match(r"(?P<file>.+):(?P<line>\d+) (?P<function>.+)", frame)
    if found is None or not is_own(f"{place_of(found['file'])}:{found['line']}"):
        return None
    return f"{found['file']} {found['function']}"


def _runs(alloc: Ints, phase: NDArray[np.int8], *, of_python: bool) -> _Runs:
    """The phases of the work, in order.

    Threads of backward passes have no stack in records of Python's alone: what has none after a forward pass is the backward pass.
    """
    those = np.isin(phase, (_FORWARD, _BACKWARD, _OPTIMIZER, *[_NONE][:of_python]))
    alloc, phase = alloc[those], phase[those]
    passes = np.where(phase == _NONE, _BACKWARD, phase)
    starts = np.flatnonzero(np.diff(passes, prepend=-1))
    starts = starts[np.diff(starts, append=len(phase)) >= _RUN]
    found: list[tuple[int, int]] = []
    for at in starts.tolist():
        last, now = found[-1][0] if found else _NONE, int(passes[at])
        if now != last and (phase[at] != _NONE or last == _FORWARD):
            found.append((now, int(alloc[at])))
    return _Runs(*np.array(found, np.int64).reshape(-1, 2).T)


class _Blocks:
    """The blocks of a log, an entry an ALLOC.

    Args:
        log: The log.
        stack: The number of the stack of each of its events, int32, -1 where it has none.
        phase: What that is of, int8.
        of_python: Stacks are of Python alone.
    """

    def __init__(self, log: EventLog, stack: NDArray[np.int32], phase: NDArray[np.int8], *, of_python: bool) -> None:
        self.device = log.device
        self.alloc = alloc = np.flatnonzero(log.kind == Kind.ALLOC)
        self.phase, self.size = phase[alloc], log.size[alloc]
        partner = log.lifetimes.partner[alloc].astype(np.int64)
        self.freed = partner >= 0
        self.free = np.where(self.freed, partner, len(log))
        self.opening = alloc < log.facts.opening
        self.runs = _runs(alloc[~self.opening], self.phase[~self.opening], of_python=of_python)
        self.born, self.gone = (self.runs.at(event) for event in (alloc, self.free))
        self.born[self.opening] = -1
        #: What has no stack within a backward pass is of that; what runs no module within a forward pass, of that: a loss.
        within = np.where(self.born >= 0, np.append(self.runs.phase, -1)[self.born], -1)
        self.backward = (self.phase == _BACKWARD) | ((self.phase == _NONE) & (within == _BACKWARD))
        self.forward = (self.phase == _FORWARD) | ((self.phase == _OTHER) & (within == _FORWARD))
        self.role = np.full(len(alloc), -1, np.int8)
        self.stack, self.free_stack = stack[alloc], np.where(self.freed, stack[partner], -1)
        self.stream = np.zeros(len(alloc), np.int64) if log.stream is None else log.stream[alloc]
        holder = np.full(len(alloc), -1) if log.holder is None else log.holder[alloc]
        names = (*log.holder_names, "")
        #: Which a walk found nobody to hold, and which it found somebody to.
        self.nobody = np.array([name == NO_VARIABLE for name in names])[holder]
        self.held = np.array([name not in INFERRED for name in names[:-1]] + [False])[holder]

    def say(self, role: str, those: Flags | Ints) -> None:
        self.role[those] = ROLE_NUMBERS[role]

    def has(self, role: str) -> Flags:
        those: Flags = self.role == ROLE_NUMBERS[role]
        return those

    def by_phase(self, stacks: Mapping[int, tuple[str, ...]]) -> None:
        """Say the roles of blocks by the phase in which they are made and that in which they are given back, and by whether the call that made them was over."""
        phase, born, gone, freed = self.phase, self.born, self.gone, self.freed
        forward, following = self.forward, self.runs.next_of(_BACKWARD, born)
        at_once, no_pass = freed & (gone == born) & (born >= 0), following == len(self.runs.phase)
        # What a model has made and goes when nothing is made any more goes with the program.
        briefly = at_once & ((phase != _MODEL) | (self.free < self.alloc[-1:].sum()))
        self.say(
            "variable",
            ((phase == _OTHER) & bool(len(self.runs.phase)))
            | (forward & ~at_once & np.where(freed, gone < following, ~no_pass)),
        )
        self.say("temporary", (forward | self.backward | (phase == _MODEL)) & briefly)
        self.say("result", self._among_others(np.flatnonzero(forward & at_once)))
        self.say("variable", self._given_on(np.flatnonzero(forward & at_once), stacks))
        self.say("saved", forward & freed & ~at_once & (gone >= following))
        self.say("result", forward & ~freed & no_pass)
        self.say("model", (phase == _MODEL) & ~briefly)
        soon = at_once | (freed & ~self.opening & (self.free - self.alloc <= _SOON))
        self.say("optimizer", (phase == _OPTIMIZER) & ~soon)
        self.say("temporary", (phase == _OPTIMIZER) & soon)
        for of, role in ((_NETWORK, "communication"), (_CACHE, "cache"), (_LIBRARY, "workspace")):
            self.say(role, phase == of)

    def _given_on(self, those: Ints, stacks: Mapping[int, tuple[str, ...]]) -> Ints:
        """Those of some blocks that are given back when the program's own function that made them has returned: it gave them on."""
        made, ended = self.stack[those], self.free_stack[those]
        first, place = rows_alike(made, ended)
        over = [
            after >= 0
            and (own := next(filter(None, map(_own_function, stacks.get(one, ()))), None)) is not None
            and own not in map(_own_function, stacks[after])
            for one, after in np.stack((made, ended), axis=1)[first].tolist()
        ]
        return those[np.array(over, np.bool_)[place]]

    def _among_others(self, those: Ints) -> Ints:
        """Those of some blocks while which are there more than a few others with the stack of each are made."""
        ends = self.alloc.searchsorted(self.free[those])
        those, ends = (column[ends - those > _OTHERS] for column in (those, ends))
        stack, times = self.stack.astype(np.int64), len(self.stack) + 1
        (every,) = np.nonzero(among(stack, stack[those]))
        keys = np.sort(stack[every] * times + every)
        own = stack[those] * times
        return those[keys.searchsorted(own + ends) - keys.searchsorted(own + those + 1) > _OTHERS]

    def by_size(self) -> None:
        """Say the roles of what stays, and of what was there before, by the sizes of what a backward pass or an optimizer makes and leaves."""
        stays = ~self.freed & (self.has("model") | (self.opening & (self.phase == _NONE)))
        backward = self.backward & among(self.size, self.size[stays | self.has("optimizer")])
        cleared = backward & self.freed & among(self.size, self.size[stays])
        at_once = self._go_at_once(cleared, int(self.size[stays & among(self.size, self.size[cleared])].sum()))
        self.say("gradient", backward & (~self.freed | (self.gone > self.born) | at_once))
        # What goes after the last block that a phase makes may go for another reason, unless states take its place.
        last = np.full(len(self.runs.phase) + 1, -1, np.int64)
        phases = np.append(self.runs.phase, -1)
        of_phase = (self.born >= 0) & (np.where(self.backward, _BACKWARD, self.phase) == phases[self.born])
        np.maximum.at(last, self.born[of_phase], self.alloc[of_phase])
        before = self.opening & self.freed & (self.role < 0)
        like_states = among(self.size, self.size[self.has("optimizer")]) & (phases[self.gone] == _OPTIMIZER)
        gone = np.where((self.free < last[self.gone]) | like_states, phases[self.gone], -1)
        self.say("optimizer", before & (gone == _OPTIMIZER))
        self.say("saved", before & (gone == _BACKWARD))
        if self.device != CPU:  # whose libraries take theirs elsewhere
            self._workspaces()
        for sizes, counts in self._sets():
            self.say("gradient", self._go_at_once(before & among(self.size, sizes), int(sizes @ counts)))
            have = _count(self.size[stays], sizes)
            if (np.minimum(have, counts) * sizes).sum() >= _COVERED * (sizes @ counts):
                self._copies(stays, sizes, counts)
                break

    def _go_at_once(self, those: Flags, whole: int) -> Flags:
        """Which of some blocks go together with half of so many bytes or more, between two blocks that are made: gradients that are cleared."""
        between = self.alloc.searchsorted(self.free)
        totals = np.bincount(between[those], weights=self.size[those], minlength=len(self.alloc) + 1)
        return those & (2 * totals[between] >= whole)

    def _workspaces(self) -> None:
        """Say which blocks are workspaces of matrix products, by their sizes: nobody holds them, and they stay; few, where no walk says that nobody does."""
        unknown = self.has("variable") | self.has("result") | self.has("saved") | (self.role < 0) | self.nobody
        stays = (~self.freed | (self.gone - self.born >= _LONG)) & ~self.held
        large = stays & unknown & np.isin(self.size, _WORKSPACES)
        # The first of the small ones is taken right after a large one, by the same operator; another thread takes its own in the first backward pass.
        same, small = self.stack[1:] == self.stack[:-1], stays & (self.size == _SMALL_WORKSPACE)
        pairs = large & np.append(same & small[1:], False)
        # What the operator makes each time is no workspace, nor is what it made just before memory ran out.
        (at,) = np.nonzero(among(self.stack, self.stack[large]))
        own, size = self.stack[at].astype(np.int64), self.size[at]
        seldom = np.zeros(len(large), np.bool_)
        seldom[at] = _SELDOM * _alike(own, size) <= _alike(own)
        long = (self.gone > self.born) | (2 * (self.free - self.alloc) > self.free.max(initial=0))
        large = (large & seldom & (pairs | (self.nobody & long))) | self._few(large, _FEW_WORKSPACES)
        after = np.append(False, large[:-1] & same)
        passes = np.flatnonzero(self.runs.phase == _BACKWARD)
        first = self.has("gradient") & (len(passes) > 1) & (self.born == passes[:1].sum())
        others = (unknown | first) & (after & small).any()
        self.say(
            "workspace",
            large | self._few(small & (self.nobody | after | others), max(_FEW_WORKSPACES, int(large.sum()))),
        )

    def _few(self, those: Flags, most: int) -> Flags:
        """Those of some blocks whose size no more than ``most`` of them have on their stream."""
        (at,) = np.nonzero(those)
        few = np.zeros(len(those), np.bool_)
        few[at] = _alike(self.size[at], self.stream[at]) <= most
        return few

    def _sets(self) -> Iterator[tuple[Ints, Ints]]:
        """Sizes, and how many blocks of each: of the gradients that a backward pass leaves, and of half of what a step of the optimizer does."""
        for role, parts in (("gradient", 1), ("optimizer", 2)):
            own = self.has(role) & (self.backward | (self.phase == _OPTIMIZER))
            if not own.any():
                continue
            runs = np.bincount(self.born[own] + 1, weights=self.size[own])
            sizes, counts = np.unique(self.size[own & (self.born + 1 == runs.argmax())], return_counts=True)
            counts //= parts
            if len(sizes) >= _FEW_SIZES and counts.sum() >= _FEW_BLOCKS:
                yield sizes, counts

    def _copies(self, stays: Flags, sizes: Ints, counts: Ints) -> None:
        """Say the roles of what stays: as many as there are gradients are parameters; of further ones, where just one role is left for them."""
        (those,) = np.nonzero(stays & among(self.size, sizes))
        own = self.size[those]
        rank = rank_of(own) // np.maximum(counts[sizes.searchsorted(own)], 1)
        whole = int(sizes @ counts)
        copies = [int(self.size[those[rank == k]].sum()) >= _COVERED * whole for k in range(_COPIES + 1)]
        if copies[_COPIES]:
            return  # they are a part of a set
        self.say("parameter", those[rank == 0])
        known = ~self.freed & (self.phase != _NONE)
        alive = {role: int(self.size[self.has(role) & known].sum()) for role in ("optimizer", "gradient")}
        if not alive["optimizer"] and copies[2] and not copies[3]:
            self.say("optimizer", those[(rank == 1) | (rank == 2)])
        elif alive["optimizer"] >= _COVERED * 2 * whole and not alive["gradient"] and copies[1] and not copies[2]:
            self.say("gradient", those[rank == 1])


def _alike(*columns: Ints) -> Ints:
    """How many of some things are like each, by columns of what they are."""
    _, kind = rows_alike(*columns)
    found: Ints = np.bincount(kind)[kind]
    return found


def _count(size: Ints, of: Ints) -> Ints:
    """How many of some sizes there are of each of others, which rise."""
    found = np.sort(size)
    return found.searchsorted(of, "right") - found.searchsorted(of)
