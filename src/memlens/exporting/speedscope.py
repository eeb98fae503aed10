"""A profile for speedscope, by its file format (https://www.speedscope.app/file-format-schema.json)."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import memlens
from memlens.exporting.forms import Counted, Wanted, Written
from memlens.exporting.stacks import Stack, profile
from memlens.text import visible
from memlens.units import format_bytes

if TYPE_CHECKING:
    from memlens.exporting.stacks import Frame

__all__ = ["write_speedscope"]


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
