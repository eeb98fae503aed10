"""The figures that runs are compared by, in the words of ``memlens analyze``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from memlens.errors import UsageError

__all__ = ["DEFAULT", "DEFAULT_OF_MATRIX", "METRICS", "Metric", "choose_metrics"]


@dataclass(frozen=True)
class Metric:
    """One figure of a window.

    Attributes:
        name: What ``--metric`` calls it.
        key: Its name in machine output, and the attribute of :class:`~memlens.comparing.result.RunWindow`.
        title: Its heading in a table.
        words: What it is, above a table of it alone.
        kind: What is counted.
        also: Other names that ``--metric`` takes.
    """

    name: str
    key: str
    title: str
    words: str
    kind: Literal["bytes", "count", "time"] = "bytes"
    also: tuple[str, ...] = ()

    @property
    def change_key(self) -> str:
        """The name of its difference from the base in machine output."""
        return f"d_{self.key}"

    @property
    def least_change(self) -> int:
        """The smallest difference that is worth a word: 1 MiB, 1 block or 1 ms."""
        return {"bytes": 1 << 20, "count": 1, "time": 1000}[self.kind]


#: Every metric, in the order in which tables show them.
METRICS: tuple[Metric, ...] = (
    Metric("peak", "peak_bytes", "Peak", "Peak allocated"),
    Metric("rise", "rise_bytes", "Rise", "Rise above what was carried in"),
    Metric("reserved-peak", "reserved_peak_bytes", "Reserved", "Peak reserved", also=("reserved",)),
    Metric("live", "live_bytes", "Live", "Live at the end"),
    Metric("remaining", "remaining_bytes", "Remaining", "Remaining"),
    Metric("carried-in", "carried_in_bytes", "Carried in", "Carried in"),
    Metric("allocated", "alloc_bytes", "Allocated", "Allocated in all"),
    Metric("allocs", "allocs", "Allocs", "Allocations", "count"),
    Metric("freed", "free_bytes", "Freed", "Freed in all"),
    Metric("frees", "frees", "Frees", "Frees", "count"),
    Metric("duration", "duration_us", "Time", "Time", "time", also=("time",)),
)

#: What tables show where nothing is asked for: of whole logs, where no figure leaves out what was there before them, and of windows.
DEFAULT = {
    False: ("peak", "reserved-peak", "duration", "live", "allocs"),
    True: ("peak", "rise", "reserved-peak", "duration", "remaining", "allocs"),
}
#: The same for a matrix, where each metric is a table of its own.
DEFAULT_OF_MATRIX = {False: ("peak", "reserved-peak"), True: ("peak", "rise", "reserved-peak")}


def choose_metrics(names: Sequence[str]) -> tuple[Metric, ...]:
    """Metrics by their names, each once, in the order given.

    Raises:
        UsageError: There is no such metric.
    """
    known = {name: metric for metric in METRICS for name in (metric.name, metric.key.replace("_", "-"), *metric.also)}
    chosen = []
    for name in names:
        metric = known.get(name.strip().lower().replace("_", "-"))
        if metric is None:
            raise UsageError(
                f"there is no metric {name!r}", f"Metrics: {', '.join(metric.name for metric in METRICS)}."
            )
        chosen.append(metric)
    return tuple(dict.fromkeys(chosen))
