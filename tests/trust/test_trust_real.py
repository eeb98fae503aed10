"""The trust report of real logs, against the plain reading of the same files."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from night import some
from paddle import read
from real_logs import ONE_PROCESS

from memlens.errors import NoEventsError

if TYPE_CHECKING:
    from memlens.trust import Trust

#: Logs of several threads, in which Paddle's own counter misses peaks.
PEAKS_MISSED = {
    *("04_threads_30_ast_pt_transformer.log.gz", "05_leak_graph_sot_transformer_30_pt.log.gz"),
    *("30_ast_transformer_pir.log", "30_ast_transformer_pt.log", "30b2_ast_transformer_pir.log"),
    *("30b2_ast_transformer_pt.log", "331_ast_pir_cnn.log", "331_parts_pir_transformer.log"),
}

COUNTS = (
    *("lines", "allocs", "frees", "reserves", "releases", "unknown_frees", "unknown_free_bytes"),
    *("double_allocs", "size_mismatches", "unstamped"),
)

DOUBTFUL = {
    "06_small_pool.log": "prealloc",
    "07_stdout_anchors_331.log.gz": "late_output",
    "09_loader_workers_331.log.gz": "no_tensor_events",
    "09_torn_4procs_unbuffered_331.log.gz": "several_processes",
    "09_two_procs_one_file_331.log.gz": "several_processes",
}


@pytest.fixture(scope="module")
def trust_of(shared: Path) -> Callable[[str], Trust]:
    return cache(lambda name: read(shared / "data/paddle" / name).trust)


@pytest.mark.parametrize("name", some([*ONE_PROCESS, *DOUBTFUL], 3))
def test_counts_of_a_real_log_are_those_of_a_plain_reading(
    name: str, shared: Path, trust_of: Callable[[str], Trust], twin: Callable[[Path], Any]
) -> None:
    trust, plain = trust_of(name), twin(shared / "data/paddle" / name)
    for field in COUNTS:
        assert getattr(trust, field) == getattr(plain, field), field
    assert trust.threads == len(plain.threads)
    assert trust.malformed == 0


@pytest.mark.parametrize("name", some(ONE_PROCESS, 2))
def test_figures_of_one_process_agree_and_are_counted_as_a_plain_reading_does(
    name: str, shared: Path, trust_of: Callable[[str], Trust], twin: Callable[[Path], Any]
) -> None:
    trust, plain = trust_of(name), twin(shared / "data/paddle" / name)
    kept = {metric for _, metric, theirs, _ in plain.figures if theirs}
    compared = [row for row in plain.figures if row[1] in kept]
    equal = [row for row in compared if row[2] == row[3]]
    low = [row for row in compared if row[2] < row[3] and row[1].endswith("_peak") and trust.threads > 1]
    assert len(equal) + len(low) == len(compared)
    assert (trust.figures_checked, trust.figures_agreeing) == (len(compared), len(equal))
    assert trust.figures_explained == len(low)
    assert trust.first_disagreement is None
    assert trust.ok
    assert trust.processes == ()
    notes = {note.code for note in trust.notes}
    assert ("missed_peaks" in notes) == (name in PEAKS_MISSED)
    assert ("not_kept" in notes) == name.startswith(("262", "30b2", "10_v10_ast_pir_262"))


@pytest.mark.parametrize(("name", "code"), DOUBTFUL.items())
def test_what_is_wrong_with_a_log_is_the_first_thing_said(
    name: str, code: str, trust_of: Callable[[str], Trust]
) -> None:
    trust = trust_of(name)
    assert [doubt.code for doubt in trust.doubts] == [code]
    assert not trust.ok


def test_the_processes_of_one_file_are_told_apart_by_thread(trust_of: Callable[[str], Trust]) -> None:
    assert trust_of("09_two_procs_one_file_331.log.gz").processes == ((12893,), (12894,))
    assert trust_of("09_torn_4procs_unbuffered_331.log.gz").processes == ((13316,), (13317,), (13318,), (13319,))


def test_the_failure_of_a_full_device_is_noted_once_with_its_line(trust_of: Callable[[str], Trust]) -> None:
    trust = trust_of("05_oom_331.log")
    # The request that never got its block stands on line 1,327, the message on line 1,341.
    assert [(oom.line, oom.message_line, oom.asked_bytes) for oom in trust.ooms] == [(1327, 1341, 786432)]
    assert "first in line 1,327" in next(note for note in trust.notes if note.code == "out_of_memory").message


def test_the_refused_request_is_found_wherever_the_text_above_its_message_is_cut(shared: Path, tmp_path: Path) -> None:
    # A line of another length each time stands above the request, so that the cut moves through the lines above it byte by byte.
    lines = (shared / "data/paddle/05_oom_331.log").read_bytes().splitlines(keepends=True)
    path, wrong = tmp_path / "oom.log", []
    for length in some(range(430), 9):
        path.write_bytes(b"".join([*lines[:1326], b"x" * length + b"\n", *lines[1326:]]))
        found = [(oom.line, oom.message_line) for oom in read(path).facts.ooms]
        if found != [(1328, 1342)]:
            wrong.append((length, found))
    assert wrong == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("08_cpu_nolines_331.log", "The framework printed 20 figures"),
        ("10_v2_dygraph_331.log", "The framework printed 20 figures"),
    ],
)
def test_a_real_log_without_events_says_what_it_holds_and_what_to_set(name: str, words: str, shared: Path) -> None:
    with pytest.raises(NoEventsError) as caught:
        read(shared / "data/paddle" / name)
    assert words in caught.value.message
    assert "export GLOG_vmodule='auto_g*=10'" in caught.value.hint
