"""The real logs of the shared data folder, read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from night import some

from memlens.inputs import Reading
from memlens.log import Log

#: Where they lie.
FOLDERS = ("data/paddle", "data/torch/snapshots", "data/torch/kineto", "data/rmm")
#: Logs of Paddle that one process wrote: everything in them must agree.
ONE_PROCESS = (
    *("01_first_venv_dygraph.log", "04_threads_30_ast_pt_transformer.log.gz", "05_fixed_331.log.gz"),
    *("05_grow_batch_331.log.gz", "05_leak_activations_331.log.gz", "05_leak_graph_331.log.gz"),
    *("05_leak_graph_sot_transformer_30_pt.log.gz", "05_oom_331.log", "06_dump_chunk_info.log.gz"),
    *("06_free_idle_chunk.log", "06_noprefix.log", "06_padding32.log", "09_launch2_dygraph_331.workerlog.0"),
    *("09_launch2_dygraph_331.workerlog.1", "10_v10_ast_pir_262.log.gz", "10_v10_ast_pt_30.log.gz"),
    *("10_v10_dygraph_331.log.gz", "21_dense_dygraph_cnn_331.part.log.zst", "262_ast_cnn_pt.log"),
    *("30_ast_transformer_pir.log", "30_ast_transformer_pt.log", "30_sot_cnn_breaks_pir.log"),
    *("30_sot_cnn_breaks_pt.log", "30b2_ast_transformer_pir.log", "30b2_ast_transformer_pt.log"),
    *("30b2_sot_cnn_breaks_pir.log", "30b2_sot_cnn_breaks_pt.log", "331_ast_pir_cnn.log"),
    *("331_ast_pt_cnn.log", "331_dygraph_cnn.log", "331_parts_pir_transformer.log"),
    *("331_sot_pir_cnnbreaks.log",),
)
#: Logs that hold no event.
_EMPTY = frozenset({"08_cpu_nolines_331.log", "10_v2_dygraph_331.log", "threads_profile_all_threads.json"})
#: The largest ones, of which there are smaller ones like them.
_LARGE = frozenset({"transformer_6l_26steps.json.gz"})


def real_logs(folder: Path) -> Iterator[tuple[Path, Log]]:
    """Each log in a folder with its path, by day every third; one of several devices comes once for each of them."""
    paths = [path for path in sorted(folder.iterdir()) if path.is_file() and ".stats." not in path.name]
    for path in some((path for path in paths if path.name not in _EMPTY | _LARGE), 3):
        for log in Reading(()).read_all(path):
            yield path, log
