"""Write what PyTorch's allocator does with some programs: the traces that tests read where there is no PyTorch.

Run it with MEMLENS_TORCH_CUDA set; folders are named by the version: ``…/2.15.0``.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import zstandard

from torch_allocator import TorchAllocator, folders
from torch_allocator.programs import MEBIBYTE, mixed, training


@dataclass(frozen=True)
class Run:
    """A program, and how it is run.

    Attributes:
        lines: The program, with where the recording begins.
        confs: Settings; each is a run of its own.
        total: Bytes of the device.
        policy: Where new memory lies.
        since: The first version that takes all of it.
    """

    lines: list[str]
    confs: tuple[str, ...]
    total: int = 1 << 40
    policy: str = "shuffled"
    since: tuple[int, int] = (2, 6)


def late(lines: list[str]) -> list[str]:
    """The same, recorded from its third part on."""
    at = len(lines) // 3
    return [*lines[:at], "h", *lines[at:]]


ALL = ("", "expandable_segments:True", "roundup_power2_divisions:4", "max_split_size_mb:32")
SHARES = "garbage_collection_threshold:0.5,per_process_memory_fraction:0.9"
TRAINING = ["h", *training(3, layers=8, steps=10)]
RUNS = {
    "training": Run(TRAINING, ALL),
    "training_refused": Run(TRAINING, (*ALL[:2], ALL[3]), total=230 * MEBIBYTE),
    "training_retried": Run(["h", *training(5, layers=8, steps=10)], (*ALL[:2], ALL[3]), total=387 * MEBIBYTE),
    "mixed_late": Run(late(mixed(1, 400, streams=3, uses=True)), ALL),
    "mixed_pools": Run(["h", *mixed(5, 300, streams=2, pools=True)], ALL[:2], since=(2, 10)),
    "mixed_refused": Run(["h", *mixed(8, 300)], (*ALL[:2], ALL[3]), total=400 * MEBIBYTE),
    "mixed_collected": Run(["h", *mixed(9, 300)], (SHARES,), total=1500 * MEBIBYTE, since=(2, 10)),
}


def name_of(conf: str) -> str:
    """A setting as a part of a file's name."""
    return conf.split(",", maxsplit=1)[0].replace(":", "=") or "default"


def main(into: Path) -> None:
    """Write all traces of all versions."""
    for folder in folders():
        allocator = TorchAllocator.build(folder, Path(tempfile.mkdtemp()) / "built")
        version = tuple(map(int, folder.name.split(".")))
        for program, run in RUNS.items():
            for conf in run.confs if version >= run.since else ():
                text = allocator.run(run.lines, conf=conf, total=run.total, policy=run.policy)
                path = into / folder.name / f"{program}.{name_of(conf)}.zst"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(zstandard.ZstdCompressor(19).compress(text.encode()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
