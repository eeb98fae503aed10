"""Ranks that add up a number each over gloo, and mark what they do; the last one fails where it is asked to."""

from __future__ import annotations

import importlib
import sys

import memlens

torch = importlib.import_module("torch")
distributed = importlib.import_module("torch.distributed")


def main() -> None:
    """Run as one rank."""
    distributed.init_process_group("gloo")
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    with memlens.window(f"reduce of rank {rank}"):
        number = torch.tensor([float(rank + 1)])
        distributed.all_reduce(number)
    sys.stdout.write(f"rank {rank}: sum {number.item():.0f}\n")
    distributed.barrier()
    distributed.destroy_process_group()
    if "--fail" in sys.argv and rank == ranks - 1:
        raise RuntimeError(f"rank {rank} was asked to fail")


if __name__ == "__main__":
    main()
