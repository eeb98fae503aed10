"""PyTorch's own caching allocator, run without a device: what it does with a program of requests, as the snapshot that PyTorch would write.

``MEMLENS_TORCH_CUDA`` names folders, separated by ``:``, each with what a wheel of PyTorch for CUDA holds of it: ``lib/libc10.so``, ``lib/libc10_cuda.so``, and
``include`` with the headers of ``c10`` and of the CUDA runtime.  The runtime itself is ``device.c``; ``program.cpp`` calls the allocator.
"""

from __future__ import annotations

import os
import pickle
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
_START = 1_700_000_000_000_000


def folders() -> list[Path]:
    """The versions there are."""
    return [Path(part) for part in os.environ.get("MEMLENS_TORCH_CUDA", "").split(":") if part]


@dataclass(frozen=True)
class TorchAllocator:
    """One version, built."""

    program: Path

    @classmethod
    def build(cls, source: Path, into: Path) -> TorchAllocator:
        """Build the program against one version of the allocator."""
        into.mkdir(parents=True)
        for name in ("libc10.so", "libc10_cuda.so"):
            shutil.copy(source / "lib" / name, into)
        library = (into / "libc10_cuda.so").read_bytes()
        (runtime,) = set(re.findall(rb"libcudart\.so\.\d+", library))
        name = runtime.decode()
        (into / "map").write_text((HERE / "device.map").read_text().replace("RUNTIME", name))
        include = ["-I", str(source / "include")]
        subprocess.run(
            [
                *("cc", "-shared", "-fPIC", "-O1", *include, f"-Wl,-soname,{name}"),
                *(f"-Wl,--version-script={into / 'map'}", "-o", str(into / name), str(HERE / "device.c")),
            ],
            check=True,
        )
        for other in ("libnvidia-ml.so.1", "libcuda.so.1"):
            (into / other).symlink_to(name)
        abi = ["-D_GLIBCXX_USE_CXX11_ABI=0"] if b"setAllocatorSettingsERKSs" in library else []
        subprocess.run(
            [
                *(
                    "c++",
                    "-std=c++20",
                    "-O1",
                    "-w",
                    *abi,
                    *include,
                    "-o",
                    str(into / "program"),
                    str(HERE / "program.cpp"),
                ),
                *("-L", str(into), "-lc10", "-lc10_cuda", f"-l:{name}"),
                *("-Wl,-rpath,$ORIGIN", "-Wl,--allow-shlib-undefined"),
            ],
            check=True,
        )
        return cls(into / "program")

    def run(self, lines: Sequence[str], *, conf: str = "", total: int = 1 << 40, policy: str = "ascending") -> str:
        """What a program of requests gives, as text: see ``program.cpp``.

        Args:
            lines: The program.
            conf: PYTORCH_CUDA_ALLOC_CONF.
            total: Bytes of the device.
            policy: Where new memory lies: ``ascending``, ``descending``, ``reuse`` or ``shuffled``.
        """
        environment = {
            "PATH": os.environ["PATH"],
            "LD_LIBRARY_PATH": str(self.program.parent),
            "PYTORCH_CUDA_ALLOC_CONF": conf,
            "DEVICE_BYTES": str(total),
            "DEVICE_POLICY": policy,
        }
        done = subprocess.run(
            [str(self.program)],
            input="\n".join(lines) + "\n",
            env=environment,
            text=True,
            capture_output=True,
            timeout=60,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(done.stderr[:2000])
        return done.stdout


def snapshot_of(output: str, *, stacks: bool = True) -> dict[str, Any]:
    """The snapshot that PyTorch would write of what the program did.

    Args:
        output: What :meth:`TorchAllocator.run` gave.
        stacks: Each line of the program has a call stack of its own.
    """
    trace: list[dict[str, Any]] = []
    segments: list[dict[str, Any]] = []
    settings: dict[str, Any] = {"roundup_power2_divisions": {}}
    frames: dict[str, list[dict[str, Any]]] = {"-1": []}
    for line in output.splitlines():
        what, *fields = line.split(" ")
        if what == "T":
            action, where, bytes_, stream, pool_number, label = fields
            name = "empty_cache" if label == "0" else f"line_{label}"
            stack = frames.setdefault(label, [{"name": name, "filename": "program.py", "line": int(label)}])
            entry: dict[str, Any] = {
                "action": action,
                "size": int(bytes_),
                "stream": int(stream),
                "time_us": _START + len(trace),
            }
            entry["device_free" if action == "oom" else "addr"] = int(where)
            if pool_number != "-1":
                entry["pool_id"] = (0, int(pool_number))
            trace.append(entry | {"frames": stack if stacks else []})
        elif what == "S":
            addr, total, requested, allocated, active, of, large, expandable, pool, _ = map(int, fields)
            segments.append(
                {
                    "device": 0,
                    "address": addr,
                    "total_size": total,
                    "requested_size": requested,
                    "allocated_size": allocated,
                    "active_size": active,
                    "stream": of,
                    "segment_type": "large" if large else "small",
                    "segment_pool_id": (0, pool),
                    "is_expandable": bool(expandable),
                    "frames": [],
                    "blocks": [],
                }
            )
        elif what == "B":
            size, requested, allocated, active = map(int, fields)
            held = [block["size"] for block in segments[-1]["blocks"]]
            state = "active_allocated" if allocated else "active_pending_free" if active else "inactive"
            segments[-1]["blocks"].append(
                {
                    "address": segments[-1]["address"] + sum(held),
                    "size": size,
                    "requested_size": requested,
                    "state": state,
                    "frames": [],
                }
            )
        elif what == "C":
            name, _, number = fields[0].partition(".")
            value = " ".join(fields[1:])
            if number:
                settings[name][number] = int(value)
            else:
                settings[name] = {"True": True, "False": False}.get(value, value)
    settings["max_split_size"] = int(settings["max_split_size"])
    settings["garbage_collection_threshold"] = float(settings["garbage_collection_threshold"])
    # What a segment says was asked for is what its blocks in use asked for.
    for segment in segments:
        segment["requested_size"] = sum(b["requested_size"] for b in segment["blocks"] if b["state"] != "inactive")
    return {"segments": segments, "device_traces": [trace], "allocator_settings": settings}


def write_snapshot(path: Path, snapshot: dict[str, Any]) -> Path:
    """Write a snapshot as PyTorch does."""
    path.write_bytes(pickle.dumps(snapshot, 4))
    return path
