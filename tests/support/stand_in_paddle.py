"""A stand-in for a Paddle of August 2026 with CUDA devices: copied to ``paddle/__init__.py`` in a folder, it is imported as paddle.

It does what memlens relies on and no more, after Paddle's source: recording neither touches a device nor needs one, must have its allocator, keeps a ring
a device and is cleared when it is switched on or off; annotations go into the rings that there are.  What ``_snapshot`` gives is made after its tests.
``alloc`` and ``free`` are its tensors.  It proves nothing of a real device.
"""

# mypy: ignore-errors
import os
import pickle
import sys
import time
import types

__version__ = "3.4.0+standin"
_CAPACITY = int(os.environ.get("STAND_IN_BYTES", "1000000"))
_DEVICES = int(os.environ.get("STAND_IN_DEVICES", "1"))
_FLAG = "FLAGS_use_virtual_memory_auto_growth"
calls = []  #: what was asked of the stand-in, in order
_state = {"max": 0, "stacks": "all", "next": 0x7F0000000000, "level": 0}
_rings = {}


def _module(name, **names):
    module = types.ModuleType(name)
    vars(module).update(names)
    sys.modules[name] = module
    return module


def is_compiled_with_cuda():
    return True


def is_compiled_with_rocm():
    return False


def _record(action, addr, size, name, frames=(), device=0):
    if _state["max"]:
        ring = _rings.setdefault(device, [])
        time_us = time.time_ns() // 1000
        ring.append(
            {
                "action": action,
                "addr": addr,
                "size": size,
                "stream": 0,
                "time_us": time_us,
                "op_name": name,
                "frames": [*frames],
            }
        )
        del ring[: -_state["max"]]


def _record_memory_history(
    enabled="all", context="all", stacks="all", max_entries=sys.maxsize, device=None, stacks_min_size=0
):
    calls.append(("record", enabled, stacks, max_entries))
    if enabled and os.environ.get(_FLAG) != "1":
        raise RuntimeError(f"GPU memory history recording needs {_FLAG}=1")
    _state.update(max=max_entries if enabled else 0, stacks=stacks)
    for ring in _rings.values():
        ring.clear()


def _annotate_memory_history(message):
    for device in _rings:
        _record("annotation", 0, 0, str(message), device=device)


def _snapshot(device=None):
    calls.append("snapshot")
    return {"segments": [], "device_traces": [[*_rings.get(number, ())] for number in range(_DEVICES)]}


def _dump_snapshot(filename="paddle_memory_snapshot.pickle", device=None):
    with open(filename, "wb") as out:
        pickle.dump(_snapshot(), out)


cuda = _module(
    "paddle.device.cuda",
    device_count=lambda: _DEVICES,
    _record_memory_history=_record_memory_history,
    _annotate_memory_history=_annotate_memory_history,
    _snapshot=_snapshot,
    _dump_snapshot=_dump_snapshot,
)
device = _module("paddle.device", cuda=cuda)


class alloc:  # noqa: N801  used as a function
    """A block of so many bytes, in multiples of 256; raises as Paddle does where the device is full."""

    def __init__(self, size, device=0, name="full"):
        self.device, self.size = device, -(-size // 256) * 256
        if _state["level"] + self.size > _CAPACITY:
            raise RuntimeError(f"ResourceExhaustedError: Out of memory error on GPU {device}.")
        self.address = _state["next"]
        _state["next"] += self.size
        _state["level"] += self.size
        frames = [{"filename": "train.py", "name": "train", "line": 1}] if _state["stacks"] == "all" else []
        _record("alloc", self.address, self.size, name, frames, device)

    def free(self):
        _state["level"] -= self.size
        for action in ("free_requested", "free_completed"):
            _record(action, self.address, self.size, "", device=self.device)
