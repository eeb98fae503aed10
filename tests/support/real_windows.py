"""Pairs of windows of real logs: runs of one model and batch, and how they are related."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from paddle import read

from memlens.errors import AnchorError
from memlens.log import Log
from memlens.windows.windows import Window

#: How two logs are related: one model and one batch but for the last relation.  ``ast``, ``sot`` and ``dygraph`` are ways to run a
#: model, ``pt`` and ``pir`` what it is compiled to.
RUNS = (
    ("same run", "331_dygraph_cnn.log", "331_dygraph_cnn.log"),
    ("same run", "30_ast_transformer_pt.log", "30_ast_transformer_pt.log"),
    ("same run", "331_parts_pir_transformer.log", "331_parts_pir_transformer.log"),
    ("same run", "30_sot_cnn_breaks_pir.log", "30_sot_cnn_breaks_pir.log"),
    ("two runs", "331_dygraph_cnn.log", "09_launch2_dygraph_331.workerlog.0"),
    ("two runs", "05_fixed_331.log.gz", "331_dygraph_cnn.log"),
    ("two runs", "06_free_idle_chunk.log", "331_dygraph_cnn.log"),
    ("two runs", "06_dump_chunk_info.log.gz", "06_free_idle_chunk.log"),
    ("with a leak", "05_fixed_331.log.gz", "05_leak_graph_331.log.gz"),
    ("with a leak", "05_fixed_331.log.gz", "05_leak_activations_331.log.gz"),
    ("two versions", "30b2_ast_transformer_pt.log", "30_ast_transformer_pt.log"),
    ("two versions", "30b2_ast_transformer_pir.log", "30_ast_transformer_pir.log"),
    ("two versions", "30b2_sot_cnn_breaks_pt.log", "30_sot_cnn_breaks_pt.log"),
    ("two versions", "30b2_sot_cnn_breaks_pir.log", "30_sot_cnn_breaks_pir.log"),
    ("pt and pir", "30b2_ast_transformer_pt.log", "30b2_ast_transformer_pir.log"),
    ("pt and pir", "30_ast_transformer_pt.log", "30_ast_transformer_pir.log"),
    ("pt and pir", "30b2_sot_cnn_breaks_pt.log", "30b2_sot_cnn_breaks_pir.log"),
    ("pt and pir", "30_sot_cnn_breaks_pt.log", "30_sot_cnn_breaks_pir.log"),
    ("pt and pir", "331_ast_pt_cnn.log", "331_ast_pir_cnn.log"),
    ("ways to run", "331_ast_pir_cnn.log", "331_dygraph_cnn.log"),
    ("ways to run", "331_ast_pt_cnn.log", "331_dygraph_cnn.log"),
    ("another batch or depth", "30_ast_transformer_pir.log", "331_parts_pir_transformer.log"),
    ("another batch or depth", "262_ast_cnn_pt.log", "331_ast_pt_cnn.log"),
    ("another batch or depth", "30_sot_cnn_breaks_pir.log", "331_sot_pir_cnnbreaks.log"),
    ("another batch or depth", "30_ast_transformer_pt.log", "04_threads_30_ast_pt_transformer.log.gz"),
    ("another batch or depth", "09_launch2_dygraph_331.workerlog.0", "09_launch2_dygraph_331.workerlog.1"),
)
_STEPS = "two steps"
RELATIONS = (*dict.fromkeys(relation for relation, *_ in RUNS), _STEPS)

_STEP = r"STEP \d+ START"
#: How a log is cut, and which lines end a window before the next one starts.
_CUTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("step", _STEP, ()),
    ("forward", _STEP, ("START BACKWARD",)),
    ("backward", "START BACKWARD", ("START OPT",)),
    ("call", r"START SOT_CALL_\d+", ("START LOSS", "START BACKWARD")),
)


@dataclass(frozen=True, eq=False)
class WindowPair:
    """Two windows to compare.

    Attributes:
        logs: Their logs.
        anchors: How they are cut out of these.
        relation: One of :data:`RELATIONS`.
        base: The window that is compared against.
        head: The window that is judged.
    """

    logs: str
    anchors: str
    relation: str
    base: Window
    head: Window

    @property
    def name(self) -> str:
        """Which windows these are."""
        return f"{self.logs} {self.anchors}"

    @property
    def longest(self) -> int:
        """Events of the longer one."""
        return max(len(self.base), len(self.head))

    @property
    def shortest(self) -> int:
        """Events of the shorter one."""
        return min(len(self.base), len(self.head))


def real_windows(shared: Path, relations: Collection[str] = RELATIONS) -> Iterator[WindowPair]:
    """Windows of real logs, of any length: those of two runs in order, both runs whole, and neighbouring steps of one run."""
    folder = shared / "data" / "paddle"
    runs = [run for run in RUNS if run[0] in relations or _STEPS in relations]
    logs = {name: read(folder / name, columns=("thread",)) for name in sorted({n for _, *pair in runs for n in pair})}
    for relation, base, head in runs:
        if relation not in relations:
            continue
        for cut, by, ends in _CUTS:
            for left, right in zip(*(_cut(logs[name], by, ends) for name in (base, head)), strict=False):
                yield WindowPair(f"{base} | {head}", f"{cut} {left.name}", relation, left, right)
        yield WindowPair(f"{base} | {head}", "whole", relation, logs[base].whole, logs[head].whole)
    for name, log in logs.items() if _STEPS in relations else ():
        for cut, by, ends in _CUTS[:3]:
            for left, right in pairwise(_cut(log, by, ends)):
                yield WindowPair(name, f"{cut} {left.name} | {right.name}", _STEPS, left, right)


def _cut(log: Log, by: str, ends: tuple[str, ...]) -> list[Window]:
    """The windows of a series; none where the log has no such anchor."""
    try:
        return [window for window in log.windows(by, end=ends) if window.name != "(before)"]
    except AnchorError:
        return []
