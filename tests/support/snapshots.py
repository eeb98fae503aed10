"""Memory snapshots made by hand: a small allocator that records what torch would, in the shapes of its years."""

from __future__ import annotations

import io
import pickle
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memlens.events import Kind
from memlens.inputs.file_source import FileSource
from memlens.inputs.input_format import Request
from memlens.inputs.torch_snapshot.reader import read_snapshot
from memlens.log import Log

#: Shapes of snapshots by the year in which they were first written.
ERAS = ("2023-04", "2023-12", "2024", "2025", "2026", "newest")
#: … and that of Paddle's memory history, which was made after what is written of it (no real file was seen).
FORMS = (*ERAS, "paddle")
HOLDING = ("active_allocated", "active_pending_free")

FRAMES = [{"filename": f"/home/user/model_{k % 3}.py", "line": 10 + k, "name": f"layer_{k}"} for k in range(6)] + [
    {"filename": "??", "line": 0, "name": "torch::unwind::unwind()"},
    {"filename": "VariableType_0.cpp", "line": 0, "name": "at::_ops::bmm::call(at::Tensor const&)"},
]


def rounded(size: int) -> int:
    """What a block takes."""
    return max((size + 511) // 512, 1) * 512


@dataclass
class Allocator:
    """Hands out blocks within segments and records what it does.

    ``allocated`` and ``reserved`` are the levels after each entry, as torch counts them: the first falls when a free is requested.
    """

    chance: random.Random
    device: int = 0
    entries: list[dict[str, Any]] = field(default_factory=list)
    allocated: list[int] = field(default_factory=list)
    reserved: list[int] = field(default_factory=list)
    segments: dict[int, dict[str, Any]] = field(default_factory=dict)
    live: dict[int, tuple[int, Any]] = field(default_factory=dict)
    waiting: dict[int, tuple[int, Any]] = field(default_factory=dict)
    level: int = 0
    held: int = 0
    time: int = 1_700_000_000_000_000
    stacks: list[list[dict[str, Any]]] = field(default_factory=list)
    metadata: str = ""

    def record(self, action: str, addr: int, size: int, frames: Any, **more: Any) -> None:
        self.time += self.chance.choice((0, 0, 1, 7))
        entry = {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": self.time, **more}
        self.entries.append({**entry, "compile_context": "N/A", "user_metadata": self.metadata, "frames": frames})
        self.allocated.append(self.level)
        self.reserved.append(self.held)

    def stack(self) -> list[dict[str, Any]]:
        """A list of frames, an old one now and then."""
        if self.stacks and self.chance.random() < 0.6:
            return self.chance.choice(self.stacks)
        frames = [self.chance.choice(FRAMES) for _ in range(self.chance.randrange(5))]
        self.stacks.append(frames)
        return frames

    def reserve(self, size: int) -> dict[str, Any]:
        size = max(size, 1 << 21)
        addr = 0x7F00_0000_0000
        while any(at < addr + size and addr < at + segment["size"] for at, segment in self.segments.items()):
            addr += 1 << 21
        self.segments[addr] = {"addr": addr, "size": size, "blocks": {}}
        self.held += size
        self.record("segment_alloc", addr, size, [])
        return self.segments[addr]

    def alloc(self, size: int) -> None:
        need, frames = rounded(size), self.stack()
        for segment in self.segments.values():
            addr = segment["addr"]
            for at, length in sorted(segment["blocks"].items()):
                if at - addr >= need:
                    break
                addr = at + length
            if segment["addr"] + segment["size"] - addr >= need:
                break
        else:
            segment = self.reserve(need)
            addr = segment["addr"]
        segment["blocks"][addr] = need
        self.live[addr] = size, frames
        self.level += size
        self.record("alloc", addr, size, frames)

    def free(self, *, later: bool = False) -> None:
        if not self.live:
            return
        addr = self.chance.choice(sorted(self.live))
        size, frames = self.live.pop(addr)
        self.level -= size
        self.record("free_requested", addr, size, frames)
        if later:
            self.waiting[addr] = size, frames
        else:
            self.record("free_completed", addr, size, frames)
            self.drop(addr)

    def complete(self) -> None:
        if self.waiting:
            addr = self.chance.choice(sorted(self.waiting))
            size, _ = self.waiting.pop(addr)
            self.record("free_completed", addr, size, self.stack())
            self.drop(addr)

    def drop(self, addr: int) -> None:
        for segment in self.segments.values():
            segment["blocks"].pop(addr, None)

    def release(self) -> None:
        for addr, segment in list(self.segments.items()):
            if not segment["blocks"]:
                del self.segments[addr]
                self.held -= segment["size"]
                self.record("segment_free", addr, segment["size"], [])

    def run(self, steps: int, *, streams: bool = False) -> Allocator:
        """Allocate and free at random."""
        for step in range(steps):
            what = self.chance.random()
            self.metadata = f"step {step // 20}" if self.chance.random() < 0.8 else self.metadata
            if what < 0.55:
                self.alloc(self.chance.choice((1, 4, 513, 4096, 70_000, 1 << 20, 3 << 20)))
            elif what < 0.93:
                self.free(later=streams and self.chance.random() < 0.3)
            elif what < 0.97:
                self.complete()
            else:
                self.release()
        return self

    def snapshot_segments(self, era: str) -> list[dict[str, Any]]:
        return [self._segment(segment, era) for segment in self.segments.values()]

    def _segment(self, segment: dict[str, Any], era: str) -> dict[str, Any]:
        blocks, at = [], segment["addr"]
        for addr, length in [*sorted(segment["blocks"].items()), (segment["addr"] + segment["size"], 0)]:
            if addr > at:
                blocks.append(
                    {"address": at, "size": addr - at, "requested_size": 0, "state": "inactive", "frames": []}
                )
            if length:
                size, frames = self.live.get(addr) or self.waiting[addr]
                state = HOLDING[addr in self.waiting]
                blocks.append(
                    {"address": addr, "size": length, "requested_size": size, "state": state, "frames": frames}
                )
            at = addr + length
        if era == "2023-04":
            blocks = [_old_block(block) for block in blocks]
        made = {"device": self.device, "address": segment["addr"], "total_size": segment["size"], "stream": 0}
        if era != "2023-04":
            made |= {"segment_pool_id": (0, 0), "is_expandable": False, "frames": []}
        return {**made, "segment_type": "large", "blocks": blocks}


def _old_block(block: dict[str, Any]) -> dict[str, Any]:
    old = {key: block[key] for key in ("size", "requested_size", "state")}
    if block["state"] != "inactive":
        old["history"] = [{"addr": block["address"], "real_size": block["requested_size"], "frames": block["frames"]}]
    return old


#: Keys of an entry that an era does not know.
_UNKNOWN = {
    "2023-04": ("time_us", "compile_context", "user_metadata"),
    "2023-12": ("time_us", "compile_context", "user_metadata"),
    "2024": ("compile_context", "user_metadata"),
    "2025": ("user_metadata",),
    "2026": (),
    "newest": (),
}


def entries_of(entries: list[dict[str, Any]], era: str) -> list[dict[str, Any]]:
    """The entries as an era writes them."""
    if era == "paddle":
        return [*_as_paddle(entries)]
    made = []
    for entry in entries:
        new = {key: value for key, value in entry.items() if key not in _UNKNOWN[era]}
        if era == "newest":
            frames = new.pop("frames")
            new |= {"pool_id": (0, 0), "frames": frames}
        made.append(new)
    return made


def _as_paddle(entries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The same as Paddle writes it: operators, stacks of what is allocated alone, and annotations where the metadata change."""
    noted = ""
    for entry in entries:
        kept: dict[str, Any] = {
            key: entry[key] for key in ("action", "addr", "size", "stream", "time_us") if key in entry
        }
        if noted != (noted := entry.get("user_metadata", "")):
            zero = dict.fromkeys(("addr", "size", "stream"), 0)
            yield kept | {"action": "annotation", **zero, "op_name": noted, "frames": []}
        frames = entry.get("frames", [])
        name = frames[0]["name"].partition("(")[0] if frames else ""
        own = [frame for frame in frames if frame["filename"].endswith(".py")] if entry["action"] == "alloc" else []
        made = own or ([{"filename": "", "name": name, "line": 0}] if name else [])
        yield {**kept, "op_name": name, "frames": made}


def unshared(value: Any) -> Any:
    """The same of objects that are each made anew, as from C++."""
    if type(value) is dict:
        return {unshared(key): unshared(item) for key, item in value.items()}
    if type(value) is list:
        return [*map(unshared, value)]
    return "".join([*value]) if type(value) is str else value


def snapshot(allocators: list[Allocator], era: str = "2026", *, last: int | None = None) -> dict[str, Any]:
    """The snapshot of some devices; ``last`` keeps only so many entries, as a ring buffer does."""
    made: dict[str, Any] = {"segments": [s for a in allocators for s in a.snapshot_segments(era)]}
    traces: list[list[dict[str, Any]]] = [[] for _ in range(max((a.device for a in allocators), default=0) + 1)]
    for allocator in allocators:
        entries = allocator.entries if last is None else allocator.entries[max(len(allocator.entries) - last, 0) :]
        traces[allocator.device] = entries_of(entries, era)
    made["device_traces"] = traces
    if era not in ("2023-04", "2023-12", "paddle"):
        made |= {"allocator_settings": {"expandable_segments": False}, "external_annotations": []}
    return made


def pickled(value: Any, protocol: int = 4, *, slow: bool = False) -> bytes:
    """A pickle, by the C pickler or by the one in Python."""
    if not slow:
        return pickle.dumps(value, protocol=protocol)
    out = io.BytesIO()
    pickle._Pickler(out, protocol=protocol).dump(value)
    return out.getvalue()


def plain_pickle(path: Path) -> Any:
    """The data of a pickle that holds nothing but data."""

    class Plain(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            raise pickle.UnpicklingError(f"{module}.{name} is no data")

    with path.open("rb") as file:
        return Plain(file).load()


def replayed(made: dict[str, Any], device: int) -> list[tuple[int, int]]:
    """Levels before the first entry and after each, allocated and reserved, by walking back from the end one entry at a time."""
    segments = [segment for segment in made["segments"] if segment["device"] == device]
    allocated = sum(b["requested_size"] for s in segments for b in s["blocks"] if b["state"] == "active_allocated")
    reserved = sum(segment["total_size"] for segment in segments)
    levels = [(allocated, reserved)]
    for entry in reversed(made["device_traces"][device]):
        sign = {"alloc": -1, "free_requested": 1}.get(entry["action"], 0)
        chunk = {"segment_alloc": -1, "segment_map": -1, "segment_free": 1, "segment_unmap": 1}.get(entry["action"], 0)
        allocated += sign * entry["size"]
        reserved += chunk * entry["size"]
        levels.append((allocated, reserved))
    return levels[::-1]


def read(made: Any, protocol: int = 4) -> list[Log]:
    return read_file(io.BytesIO(pickled(made, protocol)))


def read_file(where: Any, **wanted: Any) -> list[Log]:
    """Read a file, named or open; with what else is wanted of it."""
    return read_snapshot(FileSource(where), Request(**wanted))


def entry(action: str, addr: int, size: int, **more: Any) -> dict[str, Any]:
    return {"action": action, "addr": addr, "size": size, "stream": 0, **more}


def segment(addr: int, size: int, blocks: Iterable[tuple[int, str]] = (), **more: Any) -> dict[str, Any]:
    made = [{"size": 512, "requested_size": size, "state": state, "frames": []} for size, state in blocks]
    return {"device": 0, "address": addr, "total_size": size, "stream": 0, "blocks": made, **more}


def rows(log: Log) -> list[tuple[str, int, int, int]]:
    """Kind, size, address and entry of each event."""
    return [
        (Kind(kind).name, size, addr, offset)
        for kind, size, addr, offset in zip(
            log.kind.tolist(), log.size.tolist(), log.addr.tolist(), log.offset.tolist(), strict=True
        )
    ]


def frame(file: str, line: int, name: str) -> dict[str, Any]:
    return {"filename": file, "line": line, "name": name}


def levels(log: Log) -> dict[int, tuple[int, int]]:
    """Allocated and reserved bytes after each entry that is an event; -1 for before the first."""
    found = {-1: (0, 0)}
    for batch in log.batches():
        places = log.offset[batch.lo : batch.hi].tolist()
        found.update(zip(places, zip(batch.allocated.tolist(), batch.reserved.tolist(), strict=True), strict=True))
    return found


def check_levels(log: Log, made: dict[str, Any]) -> None:
    """Every level is that of walking back from the end; between a request and its completion the bytes may be either's."""
    expected = list(replayed(made, log.device or 0))
    trace = made["device_traces"][log.device or 0]
    found = levels(log)
    assert found.pop(-1) == expected[0]
    for index, level in found.items():
        assert level == expected[index + 1], index
    events = set(found)
    for index, entry in enumerate(trace):
        if entry["action"] in ("alloc", "segment_alloc", "segment_free"):
            assert index in events
    assert log.level_before(len(log)) == expected[-1]
    assert log.facts.opening == sum(log.offset < 0)
