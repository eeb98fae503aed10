"""The real logs of the shared data folder, read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from memlens.inputs import Reading
from memlens.log import Log

#: Where they lie.
FOLDERS = ("data/paddle", "data/torch/snapshots", "data/torch/kineto", "data/rmm")
#: Logs that hold no event.
_EMPTY = frozenset({"08_cpu_nolines_331.log", "10_v2_dygraph_331.log", "threads_profile_all_threads.json"})
#: The largest ones, of which there are smaller ones like them.
_LARGE = frozenset({"transformer_6l_26steps.json.gz"})


def real_logs(folder: Path) -> Iterator[tuple[Path, Log]]:
    """Each log in a folder with its path; one of several devices comes once for each of them."""
    for path in sorted(folder.iterdir()):
        if path.is_file() and ".stats." not in path.name and path.name not in _EMPTY | _LARGE:
            for log in Reading(()).read_all(path):
                yield path, log
