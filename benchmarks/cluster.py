#!/usr/bin/env python3
"""Time the comparison of many logs by one process, by processes of this machine, and by the workers of a Dask cluster on it.

See README.md beside this file.  Makes its logs by itself in a folder that is gone afterwards; needs memlens[dask].  Prints and judges; it
never fails on a slow machine.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import memlens
from comparing import make_logs  # type: ignore[import-not-found]  # beside this script

#: What docs/scale.md tells workers: to keep freed memory.
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": 256 << 20, "MALLOC_MMAP_THRESHOLD_": 32 << 20}


@contextmanager
def dask(workers: int) -> Iterator[Any]:
    """The executor of a cluster of so many processes on this machine, all of them there."""
    import dask as settings
    from distributed import Client, LocalCluster

    with (
        settings.config.set(
            {f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in KEEP_MEMORY.items()}
        ),
        LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.ERROR
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.wait_for_workers(workers)
        list(client.map(len, [[]] * 20 * workers, pure=False))
        client.run(__import__, "memlens.comparing.run")  # what each of them loads once
        yield client.get_executor()


def timed(run: Callable[[], memlens.Comparison]) -> tuple[float, str]:
    """Seconds that a comparison takes, and what it says."""
    start = time.perf_counter()
    found = run()
    return time.perf_counter() - start, json.dumps(found.to_dict())


def main() -> None:
    """Make logs, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=400, help="how many (%(default)s)")
    parser.add_argument("--megabytes", type=float, default=1.0, help="size of each (%(default)s)")
    parser.add_argument("--noise", type=float, default=0.0, help="share of lines that are no events (%(default)s)")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4], help="how many (%(default)s)")
    parser.add_argument("--repeat", type=int, default=3, help="how often; the fastest counts (%(default)s)")
    chosen = parser.parse_args()
    print(f"{chosen.logs} logs of {chosen.megabytes} MB, {os.cpu_count()} processors, Python {sys.version.split()[0]}")
    print(f"  {'read by':<24}{'workers':>8}{'wall s':>9}{'logs/s':>9}{'MB/s':>8}{'against one process':>21}")
    with tempfile.TemporaryDirectory() as folder:
        template = make_logs(Path(folder), chosen.logs, chosen.megabytes, chosen.noise)
        alone = said = None

        def row(name: str, workers: int, run: Callable[[], memlens.Comparison]) -> None:
            nonlocal alone, said
            measured = [timed(run) for _ in range(chosen.repeat)]
            wall = min(seconds for seconds, _ in measured)
            alone, said = alone or wall, said or measured[0][1]
            rates = f"{chosen.logs / wall:>9.0f}{chosen.logs * chosen.megabytes / wall:>8.0f}"
            print(f"  {name:<24}{workers:>8}{wall:>9.2f}{rates}{alone / wall:>21.2f}")
            if any(text != said for _, text in measured):
                print("  IT SAYS SOMETHING ELSE")

        row("this process", 1, lambda: memlens.compare(template, jobs=1))
        for workers in chosen.workers:
            if workers > 1:
                row("processes (--jobs)", workers, lambda workers=workers: memlens.compare(template, jobs=workers))  # type: ignore[misc]
        for workers in chosen.workers:
            with dask(workers) as executor:
                row("Dask workers", workers, lambda executor=executor: memlens.compare(template, executor=executor))  # type: ignore[misc]


if __name__ == "__main__":
    main()
