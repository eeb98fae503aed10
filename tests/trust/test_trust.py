"""What the trust report says of small logs, each with one thing wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs import write_log
from made_lives import plain_pairs
from memory_source import MemorySource
from paddle import read

import memlens
from memlens.errors import OutputError
from memlens.events import Kind
from memlens.facts import Facts, Figure, LineSample, OutOfMemory, StatLines
from memlens.log import Log
from memlens.trust import Trust, pairing_beside, trust_of
from memlens.trust.advice import no_events_error

STAMP = "I1120 10:22:33.{us:06d} {thread} auto_growth_best_fit_allocator.cc:270] "

Report = Callable[..., Trust]


def line(text: str, thread: int = 13292, us: int = 0) -> str:
    return STAMP.format(us=us, thread=thread) + text


@pytest.fixture
def report(tmp_path: Path) -> Report:
    """Reads a log of the given lines and gives its trust report."""

    def of(*lines: str, end: str = "\n") -> Trust:
        path = tmp_path / "run.log"
        path.write_text("\n".join(lines) + end)
        return read(path).trust

    return of


def codes(trust: Trust) -> list[str]:
    return [doubt.code for doubt in trust.doubts]


def note_codes(trust: Trust) -> list[str]:
    return [note.code for note in trust.notes]


CHUNK = line("Not found and reallocate 4096(0x1000), and remaining 0")
CLEAN = (
    CHUNK,
    line("Alloc 512 bytes, ptr = 0x1000"),
    line("Alloc 256 bytes, ptr = 0x1200"),
    line("Free 512 bytes, ptr = 0x1000"),
    'MEMSTAT {"allocated": 256, "allocated_peak": 768, "reserved": 4096, "reserved_peak": 4096}',
    line("Free 256 bytes, ptr = 0x1200"),
    line("Free chunk with size 4096"),
)


def test_a_clean_log_gets_one_line(report: Report) -> None:
    trust = report(*CLEAN)
    assert trust.ok
    assert (trust.doubts, trust.notes) == ((), ())
    assert trust.summary() == (
        "ok: 6 events in 7 lines (692 B); every FREE has its ALLOC; 4 of 4 figures of the framework agree"
    )
    assert (trust.allocs, trust.frees, trust.reserves, trust.releases, trust.threads) == (2, 2, 1, 1, 1)
    assert "\n" not in trust.summary()


def test_a_free_without_an_alloc_says_how_much_is_missing_at_least(report: Report) -> None:
    trust = report(CHUNK, line("Free 1024 bytes, ptr = 0x1000"), line("Free 512 bytes, ptr = 0x1400"))
    assert codes(trust) == ["unknown_frees"]
    assert (trust.unknown_frees, trust.unknown_free_bytes, trust.doubts[0].line) == (2, 1536, 2)
    assert "too low by at least 1.50 KiB" in trust.doubts[0].message
    assert trust.summary().startswith("doubtful: unknown frees; ")


def test_a_double_alloc_says_how_much_is_too_high(report: Report) -> None:
    trust = report(CHUNK, line("Alloc 512 bytes, ptr = 0x1000"), line("Alloc 256 bytes, ptr = 0x1000"))
    assert codes(trust) == ["double_allocs"]
    assert (trust.double_allocs, trust.double_alloc_bytes, trust.doubts[0].line) == (1, 512, 3)


def test_a_torn_line_is_told_with_a_sample(report: Report) -> None:
    trust = report(*CLEAN, line("Alloc 512 byt") + "STEP 1", *CLEAN[1:4])
    assert "malformed" in codes(trust)
    assert (trust.malformed, trust.malformed_samples[0].line) == (1, 8)
    assert "first in line 8" in trust.doubts[0].message


@pytest.mark.parametrize("tail", ["Alloc 512 bytes, ptr = 0x10", "Free", "DONE"])
def test_a_stream_cut_within_an_event_is_told_like_a_file(tmp_path: Path, tail: str) -> None:
    import io

    text = "\n".join([*CLEAN[:4], line(tail) if tail != "DONE" else tail]).encode()
    (tmp_path / "run.log").write_bytes(text)
    of_file, of_stream = (read(given).trust for given in (tmp_path / "run.log", io.BytesIO(text)))
    assert of_stream.doubts == of_file.doubts
    assert codes(of_stream) == ([] if tail == "DONE" else ["half_line"])


def test_pools_taken_in_advance_make_reserved_unknown_and_are_not_compared(report: Report) -> None:
    trust = report(
        line("PreAlloc small_pool_pre_alloc_in_mb = 4"),
        line("Alloc 512 bytes, ptr = 0x1000"),
        'MEMSTAT {"allocated": 512, "allocated_peak": 512, "reserved": 4194304, "reserved_peak": 4194304}',
    )
    assert codes(trust) == ["prealloc"]
    assert (trust.figures_checked, trust.figures_agreeing) == (2, 2)


def test_blocks_that_hold_more_than_their_chunks_tell_of_missing_chunk_lines(report: Report) -> None:
    trust = report(
        line("Not found and reallocate 256(0x9000), and remaining 0"),
        line("Alloc 256 bytes, ptr = 0x9000"),
        line("Alloc 512 bytes, ptr = 0x1000"),
        line("Alloc 512 bytes, ptr = 0x1200"),
        line("Free 512 bytes, ptr = 0x1200"),
    )
    assert codes(trust) == ["reserved_too_low"]
    assert trust.doubts[0].line == 3
    assert "1.00 KiB more" in trust.doubts[0].message


def test_a_figure_that_is_not_ours_is_told_with_both_figures(report: Report) -> None:
    trust = report(
        *CLEAN[:4], 'MEMSTAT {"allocated": 300, "allocated_peak": 768, "reserved": 4096, "reserved_peak": 4096}'
    )
    assert codes(trust) == ["figures_disagree"]
    first = trust.first_disagreement
    assert first is not None
    assert (first.line, first.metric) == (5, "allocated")
    assert (first.low_bytes, first.high_bytes, first.ours_bytes) == (300, 300, 256)
    assert "1 of 4 of the framework's own figures" in trust.doubts[0].message
    assert "says allocated 300 bytes; the events before it add up to 256" in trust.doubts[0].message


def test_a_rounded_figure_agrees_within_its_digits(report: Report) -> None:
    alloc = line("Alloc 2621440 bytes, ptr = 0x1000")
    chunk = line("Not found and reallocate 8388608(0x1000), and remaining 0")
    assert report(chunk, alloc, "loss: 1, max_mem_reserved: 8 MB, max_mem_allocated: 2 MB").figures_agreeing == 2
    assert report(chunk, alloc, "loss: 1, max_mem_reserved: 8 MB, max_mem_allocated: 3 MB").figures_agreeing == 1
    assert report(chunk, alloc, "[Memory Usage (MB)] gpu 0 : Reserved = 8, Allocated = 2.5").figures_agreeing == 2


def test_figures_that_change_while_nothing_happens_were_printed_through_a_buffer(report: Report) -> None:
    early = 'MEMSTAT {"allocated": 512, "allocated_peak": 512, "reserved": 4096, "reserved_peak": 4096}'
    trust = report(*CLEAN[:4], early, CLEAN[4], *CLEAN[5:])
    assert codes(trust) == ["late_output"]
    assert "python -u" in trust.doubts[0].hint


def test_a_peak_too_low_is_a_doubt_with_one_thread_and_explained_with_several(report: Report) -> None:
    stat = 'MEMSTAT {"allocated": 256, "allocated_peak": 512, "reserved": 4096, "reserved_peak": 4096}'
    assert codes(report(*CLEAN[:4], stat)) == ["figures_disagree"]
    other = line("Free 512 bytes, ptr = 0x1000", thread=5)
    trust = report(*CLEAN[:3], other, stat)
    assert trust.ok
    assert note_codes(trust) == ["missed_peaks"]
    assert (trust.figures_checked, trust.figures_agreeing, trust.figures_explained) == (4, 3, 1)
    assert "up to 256 B lower" in trust.notes[0].message
    assert "the others are explained" in trust.summary()


def test_a_peak_above_ours_is_a_doubt_with_any_number_of_threads(report: Report) -> None:
    stat = 'MEMSTAT {"allocated": 256, "allocated_peak": 1024, "reserved": 4096, "reserved_peak": 4096}'
    assert codes(report(*CLEAN[:3], line("Free 512 bytes, ptr = 0x1000", thread=5), stat)) == ["figures_disagree"]


def test_figures_that_are_always_zero_are_not_kept_by_the_build(report: Report) -> None:
    zero = 'MEMSTAT {"allocated": 256, "allocated_peak": 768, "reserved": 0, "reserved_peak": 0}'
    trust = report(*CLEAN[:4], zero)
    assert trust.ok
    assert note_codes(trust) == ["not_kept"]
    assert (trust.figures_checked, trust.figures_agreeing) == (2, 2)


def two_processes() -> list[str]:
    """Two processes with a chunk and blocks of their own, each printing its own figures."""
    lines = []
    for step in range(3):
        for rank, (thread, addr, size) in enumerate(((11, 0x1000, 512), (12, 0x8000, 256))):
            lines.append(line(f"Not found and reallocate {size}({addr + step * 1024:#x}), and remaining 0", thread))
            lines.append(line(f"Alloc {size} bytes, ptr = {addr + step * 1024:#x}", thread))
            total = size * (step + 1)
            lines.append(
                f'MEMSTAT {{"allocated": {total}, "allocated_peak": {total}, "reserved": {total}, "reserved_peak": {total},'
                f' "rank": {rank}}}'
            )
    return lines


def test_several_processes_in_one_file_are_told_by_the_figures_of_each(report: Report) -> None:
    trust = report(*two_processes())
    assert codes(trust) == ["several_processes"]
    assert trust.processes == ((11,), (12,))
    assert "2 processes wrote this file (threads 11; 12)" in trust.doubts[0].message


def test_several_processes_are_told_by_an_address_that_both_hold_and_both_free(report: Report) -> None:
    chunks = [line("Not found and reallocate 4096(0x1000), and remaining 0", thread) for thread in (11, 12)]
    allocs = [line("Alloc 512 bytes, ptr = 0x1000", thread) for thread in (11, 12)]
    frees = [line("Free 512 bytes, ptr = 0x1000", thread) for thread in (11, 12)]
    assert codes(report(*chunks, *allocs, *frees)) == ["several_processes", "unknown_frees", "double_allocs"]


def test_many_threads_of_one_process_are_not_taken_for_processes(report: Report) -> None:
    lines = [CHUNK.replace("13292", "20")]
    lines += [line(f"Alloc 256 bytes, ptr = {0x1000 + 256 * number:#x}", thread=20 + number) for number in range(4)]
    trust = report(
        *lines, 'MEMSTAT {"allocated": 1024, "allocated_peak": 1024, "reserved": 4096, "reserved_peak": 4096}'
    )
    assert trust.ok
    assert (trust.threads, trust.processes) == (4, ())


def test_one_failure_that_is_printed_three_times_is_one(report: Report) -> None:
    full = (
        "Out of memory error on GPU 0. Cannot allocate 4.000000GB memory on GPU 0, available memory is only 1.000000MB."
    )
    wrapper = "Allocation of 4294967296 bytes failed after releasing memory from all streams."
    trust = report(*CLEAN, wrapper, full, full)
    assert (len(trust.ooms), trust.distinct_ooms) == (3, 1)
    smaller = full.replace("4.0", "2.0")
    assert report(*CLEAN, wrapper, full, smaller).distinct_ooms == 2
    assert report(*CLEAN, full, line("Alloc 256 bytes, ptr = 0x1000"), full).distinct_ooms == 2


def judged(facts: Facts, rows: list[tuple[Kind, int, int]] | None = None) -> Trust:
    rows = [(Kind.RESERVE, 4096, 0x1000), (Kind.ALLOC, 512, 0x1000)] if rows is None else rows
    offset = np.arange(len(rows), dtype=np.int64) * 10
    return trust_of(Log.from_rows(rows, offset=offset, facts=facts, source=MemorySource(b"line line\n" * 100)))


def stat_lines(*rows: tuple[int, int, bool, int, int, int]) -> StatLines:
    offset, device, reserved, change, current, peak = zip(*rows, strict=True)
    return StatLines(
        np.array(offset, np.int64),
        np.array(device, np.int16),
        np.array(reserved, np.bool_),
        np.array(change, np.int64),
        np.array(current, np.int64),
        np.array(peak, np.int64),
    )


def test_a_stats_line_is_held_against_the_sum_that_it_was_written_beside() -> None:
    rows = [(Kind.RESERVE, 4096, 1), (Kind.ALLOC, 512, 1), (Kind.FREE, 512, 1), (Kind.RELEASE, 4096, 1)]
    lines = stat_lines(
        (0, 0, True, 4096, 4096, 4096),  # a new chunk: before its line
        (15, 0, False, 512, 512, 512),  # a block: after its Alloc line …
        (16, 0, False, -512, 0, -1),  # … and before its Free line
        (17, -1, False, 64, 999, -1),  # the host's, not ours
        (35, 0, True, -4096, 0, -1),  # a chunk given back: after its line
    )
    trust = judged(Facts(threads=(7,), stat_lines=lines), rows)
    assert trust.ok
    assert (trust.figures_checked, trust.figures_agreeing) == (6, 6)


def test_a_stats_line_overtaken_by_another_thread_is_explained() -> None:
    rows = [(Kind.RESERVE, 4096, 1), (Kind.ALLOC, 512, 1), (Kind.ALLOC, 256, 2), (Kind.ALLOC, 128, 3)]
    lines = stat_lines(
        (11, 0, False, 512, 512, -1),
        (25, 0, False, 256, 700, -1),  # not what any order of these events gives, but only between two that agree
        (35, 0, False, 128, 896, -1),
    )
    trust = judged(Facts(threads=(7, 8), stat_lines=lines), rows)
    assert trust.ok
    assert note_codes(trust) == ["overtaken"]
    assert not judged(Facts(threads=(7,), stat_lines=lines), rows).ok


def test_figures_of_several_devices_are_not_compared() -> None:
    figures = (Figure(15, "allocated", 1, 1, "x", 0), Figure(15, "allocated", 1, 1, "x", 1))
    trust = judged(Facts(figures=figures))
    assert trust.ok
    assert note_codes(trust) == ["several_devices"]
    assert trust.figures_checked == 0


#: Few addresses, so that they clash.
ROWS = st.lists(
    st.tuples(
        st.sampled_from([Kind.ALLOC, Kind.ALLOC, Kind.FREE, Kind.FREE, *Kind]),
        st.integers(0, 1 << 40),
        st.integers(1, 2),
    ),
    max_size=60,
)


@given(ROWS)
def test_counts_are_those_of_a_plain_walk(rows: list[tuple[Kind, int, int]]) -> None:
    partner, doubles = plain_pairs(rows)
    frees = [(size, partner[event]) for event, (kind, size, _) in enumerate(rows) if kind == Kind.FREE]
    unknown = [size for size, alloc in frees if alloc < 0]
    # What stood at the address of an ALLOC that is another's still: the newest ALLOC before it.
    left = [
        next(size for kind, size, addr in rows[at - 1 :: -1] if (kind, addr) == (Kind.ALLOC, rows[at][2]))
        for at in doubles
    ]
    trust = judged(Facts(), rows)
    assert (trust.unknown_frees, trust.unknown_free_bytes) == (len(unknown), sum(unknown))
    assert (trust.double_allocs, trust.double_alloc_bytes) == (len(doubles), sum(left))
    assert trust.size_mismatches == sum(alloc >= 0 and rows[alloc][1] != size for size, alloc in frees)


@given(
    ROWS,
    st.lists(st.tuples(st.integers(0, 700), st.sampled_from(["allocated", "reserved"]), st.booleans()), max_size=8),
)
def test_true_figures_agree_wherever_they_stand(
    rows: list[tuple[Kind, int, int]], places: list[tuple[int, str, bool]]
) -> None:
    figures = []
    for offset, metric, peak in sorted(places):
        kinds = (Kind.ALLOC, Kind.FREE) if metric == "allocated" else (Kind.RESERVE, Kind.RELEASE)
        level = highest = 0
        for index, (kind, size, _) in enumerate(rows):
            if index * 10 < offset and kind in kinds:
                level += size if kind == kinds[0] else -size
                highest = max(highest, level)
        value = highest if peak else level
        figures.append(Figure(offset, metric + "_peak" * peak, value, value, "x"))
    trust = judged(Facts(threads=(1,), figures=tuple(figures)), rows)
    assert trust.first_disagreement is None
    assert trust.figures_checked == trust.figures_agreeing <= len(figures)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (Facts(), "the file is empty"),
        (Facts(bytes=9, lines=1, cut_short="gzip cut short"), "gzip cut short"),
        (Facts(bytes=9, lines=1, hints={"binary": 1}), "NUL bytes, first in line 1"),
        (Facts(bytes=9, lines=1, malformed=2, malformed_samples=(LineSample(0, 5, ""),)), "2 lines look like an event"),
        (Facts(bytes=9, lines=1, other_layers={"naive_best_fit": 350}), "350 lines of the naive_best_fit allocator"),
        (
            Facts(bytes=9, lines=1, other_layers={"stream_safe": 3}),
            "3 lines of the stream-safe allocator, none of which is an event",
        ),
        (Facts(bytes=9, lines=1, other_layers={"cuda_malloc": 3}), "FLAGS_use_cuda_malloc_async_allocator"),
        (Facts(bytes=9, lines=1, other_layers={"stats": 3}), "3 memory statistics lines"),
        (Facts(bytes=9, lines=1, figures=(Figure(0, "allocated", 1, 1, "x"),)), "The framework printed 1 figure"),
        (Facts(bytes=9, lines=1, ooms=(OutOfMemory(0, 4, "", None, None, ""),)), "out-of-memory message in line 4"),
    ],
)
def test_a_log_without_events_tells_what_it_does_hold(facts: Facts, words: str) -> None:
    assert words in no_events_error("run.log", facts).message


def test_a_log_whose_events_cannot_be_paired_in_a_thread_says_so_where_it_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread has no room for the pairs; what is done meanwhile goes on, and who asks for them is told."""
    monkeypatch.setattr("memlens.trust.BATCH", 1)
    path = write_log(tmp_path, "run.log", "+512@a", "-512@a")
    threads = set[str]()

    def full(*_: object) -> None:
        threads.add(threading.current_thread().name)
        raise OutputError("no room left", "Make some.")

    log = memlens.read(path)
    with monkeypatch.context() as patch:
        patch.setattr("memlens.events.pair_by_address", full)
        with pairing_beside(log):
            events = len(log)
        with pytest.raises(OutputError, match="no room left"):
            trust_of(log)
    assert (events, len(threads)) == (2, 2)  # it was tried in both
    assert trust_of(log).unknown_frees == 0
