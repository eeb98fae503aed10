"""What is live at the peak and what was allocated, by call stack, or by owner where the input has no call stacks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens.analyzers.fates import live_events
from memlens.analyzers.peak import Peak, peak
from memlens.exporting.forms import NO_BLOCKS
from memlens.facts import Kind
from memlens.inputs.torch_snapshot.stacks import PLUMBING
from memlens.text import visible

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.exporting.forms import Wanted

    Ints = NDArray[np.int64]

__all__ = ["Frame", "Profile", "Stack", "profile"]

#: Functions of the interpreter, of the allocator and around the program.
_PASSED_OVER = re.compile(f"{PLUMBING.pattern}|^__libc_").search
#: What blocks are called of which nothing is known.
_NOBODY = "(owner not known)"
#: A frame as snapshots have it, ``model.py:12 forward``, and as Kineto has it, ``model.py(12): forward``.
_FRAMES = (
    re.compile(r"(?P<file>[^\n]*?):(?P<line>[0-9]{1,9}) (?P<function>.+)", re.DOTALL),
    re.compile(r"(?P<file>[^\n]+?)\((?P<line>[0-9]{1,9})\): (?P<function>.+)", re.DOTALL),
)


class Frame(NamedTuple):
    """One frame of a stack; where only a name is known, ``file`` is empty and ``line`` 0."""

    function: str
    file: str = ""
    line: int = 0

    @classmethod
    def of(cls, text: str) -> Frame:
        """A frame as an input writes it."""
        shown = visible(text)
        for form in _FRAMES:
            if found := form.fullmatch(shown):
                file = found["file"]
                return cls(found["function"], *(("", 0) if file in ("", "?", "??") else (file, int(found["line"]))))
        return cls(shown)


@dataclass(frozen=True)
class Stack:
    """The blocks of one call stack, or of one owner.

    Attributes:
        frames: The stack, innermost first.
        alloc_objects: Blocks that are allocated in the window.
        alloc_bytes: Their bytes.
        live_objects: Blocks that are live at the peak of the window, wherever they were allocated.
        live_bytes: Their bytes.
    """

    frames: tuple[Frame, ...]
    alloc_objects: int
    alloc_bytes: int
    live_objects: int
    live_bytes: int


@dataclass(frozen=True)
class Profile:
    """All stacks of a window, and its peak; what to know of them."""

    stacks: Sequence[Stack]
    peak: Peak
    remarks: tuple[str, ...]


def profile(wanted: Wanted) -> Profile:
    """The stacks of the one window that was asked for."""
    log, window = wanted.log, wanted.windows[0]
    highest = peak([window])[0]
    live = live_events(log, window.lo if highest.event is None else highest.event + 1)
    born = np.flatnonzero(log.kind[window.lo : window.hi] == Kind.ALLOC) + window.lo
    parts = [born, live]
    allocs = np.concatenate(parts)
    # A call stack, or else an owner, is a number; below 0 are those that have neither.
    stacks = log.source.stack_numbers(log.offset[allocs])
    owners = np.full(len(allocs), -1, np.int64) if log.owner is None else log.owner[allocs].astype(np.int64)
    own = owners if stacks is None else np.where(stacks >= 0, len(log.owner_names) + stacks.astype(np.int64), owners)
    keys, first, number = np.unique(own, return_index=True, return_inverse=True)
    of_born, of_live = np.split(number.reshape(-1), [len(born)])
    sums = [
        part
        for numbers, events in zip((of_born, of_live), parts, strict=True)
        for part in (np.bincount(numbers, minlength=len(keys)), _added(numbers, log.size[events], len(keys)))
    ]
    found = []
    for key, at, *figures in zip(keys.tolist(), allocs[first].tolist(), *(one.tolist() for one in sums), strict=True):
        if key >= len(log.owner_names):
            frames = tuple(map(Frame.of, log.source.stack(int(log.offset[at]))))
            # What the interpreter and the allocator call on the way would be most of the picture.
            frames = tuple(frame for frame in frames if not _PASSED_OVER(frame.function)) or frames
        else:
            frames = tuple(map(Frame.of, log.owner_names[key].split(" < "))) if key >= 0 else ()
        found.append(Stack(frames or (Frame(_NOBODY),), *figures))
    of_window = f" of {visible(window.name)}" if wanted.given else ""
    told = f"live, or in use, is what is live at the peak{of_window}" if log.facts.addresses else NO_BLOCKS
    return Profile(found, highest, (told,))


def _added(numbers: Ints, amounts: Ints, count: int) -> Ints:
    """Sums by number, exact."""
    sums = np.zeros(count, np.int64)
    np.add.at(sums, numbers, amounts)
    return sums
