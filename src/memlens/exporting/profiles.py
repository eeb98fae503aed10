"""Profiles of what is live at the peak and of what was allocated, by call stack, or by owner where the input has no call stacks.

``speedscope`` writes them by its file format (https://www.speedscope.app/file-format-schema.json), ``pprof`` as the message ``Profile`` of
https://github.com/google/pprof/blob/main/proto/profile.proto, compressed by gzip, with the four values of a heap profile of Go: ``alloc_objects``,
``alloc_space``, ``inuse_objects`` and ``inuse_space``; in use is what is live at the peak.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import memlens
from memlens.analyzers.fates import live_events
from memlens.analyzers.peak import Peak, peak
from memlens.exporting.forms import NO_BLOCKS, Counted, Wanted, Written
from memlens.exporting.protobuf import message, number, packed, text
from memlens.facts import Kind
from memlens.inputs.torch_snapshot.stacks import PLUMBING
from memlens.text import terms_of, visible
from memlens.units import format_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = ["Frame", "write_pprof", "write_speedscope"]

#: Functions of the interpreter, of the allocator and around the program.
_PASSED_OVER = re.compile(f"{PLUMBING.pattern}|^__libc_").search
#: What blocks are called of which nothing is known.
_NOBODY = "(owner not known)"
#: A frame as snapshots have it, ``model.py:12 forward``, and as Kineto has it, ``model.py(12): forward``.
_FRAMES = (
    re.compile(r"(?P<file>[^\n]*?):(?P<line>[0-9]{1,9}) (?P<function>.+)", re.DOTALL),
    re.compile(r"(?P<file>[^\n]+?)\((?P<line>[0-9]{1,9})\): (?P<function>.+)", re.DOTALL),
)
# Fields of pprof's Profile, and the values of its samples.
_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _STRING = 1, 2, 4, 5, 6
_PERIOD_TYPE, _PERIOD, _COMMENT, _DEFAULT = 11, 12, 13, 14
_VALUES = (("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes"))


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


def write_speedscope(wanted: Wanted, out: Counted) -> Written:
    """Write two profiles of one window, in bytes: what is live at its peak, and what is allocated in it."""
    found = profile(wanted)
    numbers: dict[Frame, int] = {}
    live = _sampled(
        f"live at the peak of {format_bytes(found.peak.peak_bytes)}",
        [(stack, stack.live_bytes) for stack in found.stacks if stack.live_objects],
        numbers,
    )
    allocated = _sampled(
        "allocated in all", [(stack, stack.alloc_bytes) for stack in found.stacks if stack.alloc_objects], numbers
    )
    frames = [
        {"name": frame.function, **({"file": frame.file, "line": frame.line} if frame.file else {})}
        for frame in numbers
    ]
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": f"memlens@{memlens.__version__}",
        "name": visible(PurePath(wanted.log.source.name).name),
        "activeProfileIndex": 0,
        "shared": {"frames": frames},
        "profiles": [live, allocated],
    }
    out.write(json.dumps(document, ensure_ascii=True, allow_nan=False).encode("ascii") + b"\n")
    return Written(len(found.stacks), found.remarks)


def _sampled(name: str, stacks: list[tuple[Stack, int]], numbers: dict[Frame, int]) -> dict[str, Any]:
    """One profile, whose samples are stacks, outermost frame first, the heaviest first."""
    stacks.sort(key=lambda entry: -entry[1])
    samples = [[numbers.setdefault(frame, len(numbers)) for frame in reversed(stack.frames)] for stack, _ in stacks]
    weights = [weight for _, weight in stacks]
    return {
        "type": "sampled",
        "name": name,
        "unit": "bytes",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": samples,
        "weights": weights,
    }


def write_pprof(wanted: Wanted, out: Counted) -> Written:
    """Write a profile of one window."""
    found = profile(wanted)
    # Each has the next number when it is first asked for; string 0 is empty.
    strings = defaultdict(count(1).__next__, {"": 0})
    locations: defaultdict[Frame, int] = defaultdict(count(1).__next__)
    functions: defaultdict[tuple[str, str], int] = defaultdict(count(1).__next__)
    parts = [message(_SAMPLE_TYPE, *_value_type(strings, *one)) for one in _VALUES]
    for stack in found.stacks:
        numbers = [locations[frame] for frame in stack.frames]
        values = stack.alloc_objects, stack.alloc_bytes, stack.live_objects, stack.live_bytes
        parts.append(message(_SAMPLE, packed(1, numbers), packed(2, values)))
    for frame, location in locations.items():
        function = functions[frame.function, frame.file]
        parts.append(message(_LOCATION, number(1, location), message(4, number(1, function), number(2, frame.line))))
    for (name, file), function in functions.items():
        named = number(2, strings[name]), number(3, strings[name]), number(4, strings[file])
        parts.append(message(_FUNCTION, number(1, function), *named))
    highest = found.peak
    at = "" if highest.line is None else f", at {terms_of(wanted.log.facts.layer).at(highest.line)}"
    said = f"{visible(PurePath(wanted.log.source.name).name)}: in use is what is live at the peak, {format_bytes(highest.peak_bytes)}{at}"
    parts += [
        message(_PERIOD_TYPE, *_value_type(strings, "space", "bytes")),
        number(_PERIOD, 1),
        number(_COMMENT, strings[said]),
        number(_DEFAULT, strings["inuse_space"]),
        *(text(_STRING, value) for value in strings),
    ]
    out.write(gzip.compress(b"".join(parts), mtime=0))
    return Written(len(found.stacks), found.remarks)


def _value_type(strings: dict[str, int], name: str, unit: str) -> tuple[bytes, bytes]:
    return number(1, strings[name]), number(2, strings[unit])
