"""Profiles of what is live at the peak and of what was allocated, by call stack, or by owner where the input has no call stacks.

They are written by the file format of speedscope: https://www.speedscope.app/file-format-schema.json.
"""

from __future__ import annotations

import json
import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from memlens.analyzers.fates import live_events
from memlens.analyzers.peak import peak
from memlens.columns import Ints, distinct
from memlens.exporting.tables import NO_BLOCKS, Counted, Wanted, Written
from memlens.facts import Kind
from memlens.folding import power_of_two
from memlens.inputs.stack_names import PLUMBING
from memlens.text import format_bytes, visible
from memlens.version import __version__

if TYPE_CHECKING:
    from memlens.events import EventLog


#: Functions of the interpreter, of the allocator and around the program.
_PASSED_OVER = re.compile(f"{PLUMBING}|^__libc_").search
#: What blocks are called whose owner is not known where others' are, below which they are told apart by size; by powers of two where there are more sizes than so many.
_NOBODY, _SIZES = "(owner not known)", 64
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


def write_speedscope(wanted: Wanted, out: Counted) -> Written:
    """Write two profiles of one window, in bytes: what is live at its peak, and what is allocated in it."""
    log, window = wanted.log, wanted.windows[0]
    highest = peak([window])[0]
    live = live_events(log, window.lo if highest.event is None else highest.event + 1)
    born = np.flatnonzero(log.kind[window.lo : window.hi] == Kind.ALLOC) + window.lo
    stacks, number = _stacks(log, np.concatenate([live, born]))
    of_live, of_born = np.split(number, [len(live)])
    numbers: dict[Frame, int] = {}
    profiles = [
        _sampled(f"live at the peak of {format_bytes(highest.peak_bytes)}", stacks, of_live, log.size[live], numbers),
        _sampled("allocated in all", stacks, of_born, log.size[born], numbers),
    ]
    places = ({"file": frame.file, "line": frame.line} if frame.file else {} for frame in numbers)
    frames = [{"name": frame.function, **place} for frame, place in zip(numbers, places, strict=True)]
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": f"memlens@{__version__}",
        "name": visible(PurePath(log.source.name).name),
        "activeProfileIndex": 0,
        "shared": {"frames": frames},
        "profiles": profiles,
    }
    out.write(json.dumps(document, ensure_ascii=True, allow_nan=False).encode("ascii") + b"\n")
    return Written(len(stacks), () if log.facts.addresses else (NO_BLOCKS,))


def _stacks(log: EventLog, allocs: Ints) -> tuple[list[tuple[Frame, ...]], Ints]:
    """The call stacks of ALLOCs, or else their owners as stacks, each innermost frame first; and for each ALLOC the index of its own, int64."""
    # A call stack, or else an owner, is a number; below 0 are those that have neither.
    numbers, names = log.source.stack_numbers(log.offset[allocs]), log.owner_names
    owners = np.full(len(allocs), -1, np.int64) if log.owner is None else log.owner[allocs].astype(np.int64)
    own = owners if numbers is None else np.where(numbers >= 0, len(names) + numbers.astype(np.int64), owners)
    unknown = np.flatnonzero(own < 0)
    sizes = log.size[allocs[unknown]]
    more = ""
    if len(distinct(sizes)) > _SIZES:
        sizes, more = 1 << np.maximum(power_of_two(sizes) - 1, 0), " and more"
    own[unknown] = -1 - sizes
    keys, first, index = np.unique(own, return_index=True, return_inverse=True)
    stacks = []
    for key, at in zip(keys.tolist(), allocs[first].tolist(), strict=True):
        if key >= len(names):
            frames = tuple(map(Frame.of, log.source.stack(int(log.offset[at]))))
            # What the interpreter and the allocator call on the way would be most of the picture.
            frames = tuple(frame for frame in frames if not _PASSED_OVER(frame.function)) or frames
        elif key >= 0:
            frames = tuple(map(Frame.of, names[key].split(" < ")))
        else:
            size = Frame(f"blocks of {format_bytes(-1 - key)}{more}")
            frames = (size,) if len(unknown) == len(own) else (size, Frame(_NOBODY))
        stacks.append(frames or (Frame(_NOBODY),))
    return stacks, index.reshape(-1)


def _sampled(
    name: str, stacks: list[tuple[Frame, ...]], index: Ints, size: Ints, numbers: dict[Frame, int]
) -> dict[str, Any]:
    """One profile, whose samples are stacks, outermost frame first, the heaviest first."""
    weights = np.zeros(len(stacks), np.int64)
    np.add.at(weights, index, size)
    there = np.unique(index)
    order = there[np.argsort(-weights[there], kind="stable")]
    samples = [[numbers.setdefault(frame, len(numbers)) for frame in reversed(stacks[k])] for k in order.tolist()]
    return {
        "type": "sampled",
        "name": name,
        "unit": "bytes",
        "startValue": 0,
        "endValue": int(weights.sum()),
        "samples": samples,
        "weights": weights[order].tolist(),
    }
