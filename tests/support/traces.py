"""Kineto traces made by hand: blocks of devices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def memory_event(ts: float, size: int, addr: int, total: int, device: int) -> dict[str, Any]:
    """A block that is allocated, or freed where its size is below 0; device -1 is the CPU."""
    kind = 0 if device < 0 else 1
    args = {"Device Type": kind, "Device Id": device, "Addr": addr, "Bytes": size, "Total Allocated": total}
    return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": ts, "args": args}


def trace(*events: dict[str, Any]) -> str:
    return json.dumps({"schemaVersion": 1, "traceEvents": events}, indent=1)


def write_trace(path: Path, **devices: int | tuple[int, ...]) -> Path:
    """A trace in which each device (``cpu``, ``gpu0``, …) allocates blocks of these sizes and keeps them."""
    events: list[dict[str, Any]] = []
    for name, given in devices.items():
        number, total = -1 if name == "cpu" else int(name.removeprefix("gpu")), 0
        for size in (given,) if isinstance(given, int) else given:
            total += size
            events.append(memory_event(float(len(events)), size, 4096 * (len(events) + 1), total, number))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(trace(*events))
    return path
