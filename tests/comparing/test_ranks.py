"""The ranks of one job from logs to what is said, with figures from the arithmetic of what the logs were made of, or from the framework itself."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_rank_logs import GIB, MIB, MadeJob, Program, write
from traces import write_trace

import memlens
from memlens.comparing.ranks import HeldMore, Ranks
from memlens.comparing.result import Comparison
from memlens.errors import UsageError

USUAL = Program()


def made(folder: Path, programs: dict[str, Program], **options: object) -> tuple[Comparison, Ranks]:
    MadeJob(programs).write(folder)
    return compared(folder, **options)


def compared(logs: Any, **options: object) -> tuple[Comparison, Ranks]:
    found = memlens.compare(logs, **{"jobs": 1, **options})  # type: ignore[arg-type]
    assert found.ranks is not None
    return found, found.ranks


def of_ranks(count: int, odd: dict[int, Program] | None = None, usual: Program = USUAL) -> dict[str, Program]:
    return {f"rank{rank}.log": (odd or {}).get(rank, usual) for rank in range(count)}


def peaks(found: Comparison) -> list[int | None]:
    return [run.windows[0].peak_bytes for run in found.runs]


# --- figures, and who stands out ---


def test_the_figures_of_each_rank_are_those_that_its_log_was_made_of(tmp_path: Path) -> None:
    programs = {f"rank{k}.log": replace(USUAL, steps=k + 1, leaked=((k * MIB, "cache"),) * (k > 0)) for k in range(5)}
    found, ranks = made(tmp_path, programs)
    assert ranks.names == tuple(f"rank {k}" for k in range(5))
    for run, program in zip(found.runs, programs.values(), strict=True):
        (window,) = run.windows
        assert (window.peak_bytes, window.reserved_peak_bytes) == (program.peak, program.reserved)
        assert window.live_bytes == program.live
        assert run.allocs == len(program.parameters) + program.steps * (len(program.temporaries) + len(program.leaked))
    assert [spread.metric for spread in ranks.spreads] == ["peak_bytes", "reserved_peak_bytes", "live_bytes"]
    assert ranks.spreads[0].median == sorted(program.peak for program in programs.values())[2]
    assert not ranks.ended_early


def test_a_rank_with_two_blocks_more_is_named_with_them(tmp_path: Path) -> None:
    odd = replace(USUAL, parameters=(*USUAL.parameters, (20 * MIB, "gather"), (20 * MIB, "gather")))
    found, _ = made(tmp_path, of_ranks(8, {5: odd}))
    one, *others = found.outliers
    assert (one.metric, one.rank, one.off, one.median, one.peers) == ("peak_bytes", "rank 5", 40 * MIB, USUAL.peak, 8)
    assert (one.median_rank, one.median_path) == ("rank 0", str(tmp_path / "rank0.log"))
    assert one.holds == (HeldMore(20 * MIB, 2, 40 * MIB, "gather"),)
    assert [(other.metric, other.rank, other.off, other.holds) for other in others] == [
        ("reserved_peak_bytes", "rank 5", 40 * MIB, ()),
        ("live_bytes", "rank 5", 40 * MIB, ()),
    ]
    words = "One rank stands out: rank 5 holds 40.00 MiB more than its peers, in 2 blocks of 20.00 MiB of gather."
    assert found.verdict.endswith(words)


def test_blocks_of_more_bytes_than_a_rank_is_off_by_are_not_all_it_holds_more(tmp_path: Path) -> None:
    # 10 blocks of 110 MiB, 1,100 MiB, in place of 10 of 100 MiB: 100 MiB more in all.
    usual = replace(USUAL, parameters=((100 * MIB, "linear"),) * 10)
    odd = replace(usual, parameters=((110 * MIB, "linear"),) * 10)
    found, _ = made(tmp_path, of_ranks(8, {5: odd}, usual))
    assert found.outliers[0].holds == (HeldMore(110 * MIB, 10, 1100 * MIB, "linear"),)
    assert "with 1.07 GiB more in 10 blocks of 110.00 MiB of linear, and less in others." in found.verdict


def test_stages_are_peers_and_the_machine_of_all_odd_ranks_is_named(tmp_path: Path) -> None:
    programs = {}
    for rank in range(32):
        head, buffer = [(64 * MIB, "head")] * (rank // 8 == 3), [(30 * MIB, "nccl")] * (rank % 8 == 5)
        parameters = (*USUAL.parameters, *head, *buffer)
        programs[f"node{rank % 8}/pp{rank // 8}_rank{rank}.log"] = replace(USUAL, parameters=parameters)
    found, ranks = made(tmp_path, programs)
    assert ranks.peers_by == ("pp",)
    assert [(group.name, group.ranks, group.median) for group in ranks.groups] == [
        *((f"pp {k}", 8, USUAL.peak) for k in range(3)),
        ("pp 3", 8, USUAL.peak + 64 * MIB),
    ]
    odd = [one.rank for one in found.outliers if one.metric == "peak_bytes"]
    assert odd == ["rank 5", "rank 13", "rank 21", "rank 29"]
    words = "Rank 5 and 3 more, all of node 5, hold 30.00 MiB more than their peers, in 1 block of 30.00 MiB of nccl."
    assert f"4 ranks stand out. {words}" in found.verdict
    skews = {skew.field: (skew.highest, skew.highest_off - skew.lowest_off) for skew in ranks.skews}
    assert skews == {"pp": ("3", 64 * MIB), "node": ("5", 30 * MIB)}


@pytest.mark.parametrize("nodes", [2, 3])
def test_where_all_ranks_of_one_machine_are_higher_it_is_named(tmp_path: Path, nodes: int) -> None:
    """Of 3 nodes of 4 with a rank beside them that is higher, too, these are no groups; of two as many are high as are not."""
    programs = {}
    for node in range(nodes):
        for gpu in range(4):
            more = 12 if node == 1 else 4 if (node, gpu) == (2, 3) else 0
            parameters = (*USUAL.parameters, *[(more * MIB, "nccl")] * (more > 0))
            programs[f"node{node}_gpu{gpu}.log"] = replace(USUAL, parameters=parameters)
    found, _ = made(tmp_path, programs)
    if nodes == 2:
        assert "They fall into 2 groups that node tells apart: 4 of about" in found.verdict
        return
    said = "5 ranks stand out. Node 1 gpu 0 and 3 more, all of node 1, hold 12.00 MiB more than their peers"
    assert said in found.verdict
    assert "Node 2 gpu 3 holds 4.00 MiB more than its peers" in found.verdict


def test_an_edited_block_of_a_real_log_is_what_stands_out(shared: Path, tmp_path: Path) -> None:
    """Eight ranks of one real log; of one rank a block that is live at the peak is larger by arithmetic on its lines."""
    text = (shared / "data" / "paddle" / "09_launch2_dygraph_331.workerlog.0").read_bytes()
    size = 98304
    for rank in range(8):
        more = text.replace(b"98304", b"%d" % (size + 2 * MIB)) if rank == 6 else text
        (tmp_path / f"workerlog.{rank}").write_bytes(more)
    found, _ = compared(tmp_path)
    (one,) = [one for one in found.outliers if one.metric == "peak_bytes"]
    assert (one.rank, one.off) == ("rank 6", 2 * MIB)
    assert [(held.size_bytes, held.blocks) for held in one.holds] == [(size + 2 * MIB, 1)]


def test_real_ranks_have_the_figures_of_the_framework(shared: Path) -> None:
    folder = shared / "data" / "paddle"
    found, ranks = compared([folder / f"09_launch2_dygraph_331.workerlog.{rank}" for rank in (1, 0)])
    assert ranks.names == ("rank 0", "rank 1")
    for rank, run in enumerate(found.runs):
        text = json.dumps(json.loads((folder / f"09_launch2_dygraph_331.rank{rank}.stats.json").read_text()))
        assert f'"allocated_peak": {run.windows[0].peak_bytes}' in text
        assert f'"reserved_peak": {run.windows[0].reserved_peak_bytes}' in text


# --- failures, and logs that end early ---


def test_the_first_rank_to_fail_is_told_by_time_with_what_it_asked_for(tmp_path: Path) -> None:
    odd = {
        k: replace(USUAL, asks=(2, GIB, "matmul"), begin_us=begin) for k, begin in ((2, 500_000), (6, 0), (7, 700_000))
    }
    found, ranks = made(tmp_path, of_ranks(8, odd))
    first = ranks.first_failure
    assert first is not None
    assert (first.rank, first.known_by, first.lead_us, first.next_rank, first.failed, first.within_clocks) == (
        *("rank 6", "time", 500_000, "rank 2", 3),
        True,
    )
    assert first.failure is not None
    assert (first.failure.requested_bytes, first.failure.owner) == (GIB, "matmul")
    assert (first.failure.allocated_bytes, first.failure.reserved_bytes) == (odd[6].live, odd[6].reserved)
    # Parameters, and the temporaries of three steps.
    assert [run.oom and run.oom.allocs for run in found.runs][6] == len(USUAL.parameters) + 3 * len(USUAL.temporaries)
    assert "Rank 6 ran out of memory at line " in found.verdict
    assert "matmul asked for 1.00 GiB" in found.verdict
    assert found.answer.tone == "bad"
    assert not ranks.ended_early  # that they ran out is why they end


def test_a_log_that_ends_early_is_named_and_one_that_lasts_as_long_is_not(tmp_path: Path) -> None:
    usual = replace(USUAL, steps=20)
    fewer = replace(usual, temporaries=((16 * MIB, "matmul"),))  # as long, for its log goes on to the last moment
    found, ranks = made(tmp_path, of_ranks(8, {4: replace(usual, stops=17)}, usual))
    assert [(one.rank, one.allocs, one.median_allocs, one.median_rank) for one in ranks.ended_early] == [
        ("rank 4", 5 + 17 * 3, 5 + 20 * 3, "rank 0")
    ]
    assert "The log of rank 4 ends early (56 allocations, 65 in that of rank 0)." in found.verdict
    assert found.answer.tone == "plain"
    last = usual.text.splitlines(keepends=True)[-1]
    _, ranks = made(tmp_path / "fewer", of_ranks(8, {}, usual))
    (tmp_path / "fewer" / "rank4.log").write_bytes(fewer.text + last)
    assert compared(tmp_path / "fewer")[1].ended_early == ()
    _, ranks = made(tmp_path / "hardly", of_ranks(8, {4: replace(usual, stops=19)}, usual))
    assert ranks.ended_early == ()


def test_logs_that_cannot_be_read_and_ranks_without_one_are_told(tmp_path: Path) -> None:
    MadeJob(of_ranks(8)).write(tmp_path)
    (tmp_path / "rank6.log").unlink()
    (tmp_path / "rank3.log").write_bytes(b"no event in here\n" * 50)
    found, ranks = compared([tmp_path / f"rank{k}.log" for k in (0, 1, 2, 3, 4, 5, 7, 9)])
    status = dict(zip(ranks.names, (run.status for run in found.runs), strict=True))
    assert {name: one for name, one in status.items() if one != "ok"} == {"rank 3": "unreadable", "rank 9": "missing"}
    assert ranks.missing == ("rank 6", "rank 8")
    said = "8 ranks, 6 of them with figures: peaks of 144.00 MiB, alike to the byte; 2 ranks have no log, rank 6 the first."
    assert found.verdict.startswith(said)
    found, ranks = compared([tmp_path / f"rank{k}.log" for k in range(20, 23)])
    assert found.verdict == "None of 3 ranks could be read: no such file."
    assert ranks.spreads == ()


# --- where logs are cut ---


# --- which logs are ranks, and who reads them ---


def test_a_folder_without_a_log_stands_for_those_in_its_folders(tmp_path: Path) -> None:
    for rank in (10, 9, 2, 1, 0, 11):
        write(tmp_path, f"dp{rank % 2}/rank{rank}.log", USUAL)
    _, ranks = compared(tmp_path)
    assert ranks.names == tuple(f"rank {k}" for k in (0, 1, 2, 9, 10, 11))
    write(tmp_path, "other.log", USUAL)
    assert [run.path for run in memlens.compare(tmp_path, jobs=1).runs] == [str(tmp_path / "other.log")]


def test_each_gpu_of_an_input_is_a_rank_and_memory_of_the_cpu_beside_them_is_left_out(tmp_path: Path) -> None:
    for node in range(2):
        write_trace(
            tmp_path / f"node{node}.json", cpu=7, **{f"gpu{k}": (10 + 10 * (node == k == 1)) * MIB for k in range(2)}
        )
    found, ranks = compared(tmp_path)
    assert ranks.names == tuple(f"node {node} device {k}" for node in range(2) for k in range(2))
    assert peaks(found) == [10 * MIB] * 3 + [20 * MIB]
    one = found.outliers[0]
    assert (one.rank, [(held.size_bytes, held.blocks) for held in one.holds]) == ("node 1 device 1", [(20 * MIB, 1)])
    for node in range(2):
        (tmp_path / f"node{node}.json").rename(tmp_path / f"device{node}.json")
    with pytest.raises(UsageError, match="has a field 'device' already"):
        memlens.compare(tmp_path, jobs=1)


def test_a_folder_that_cannot_be_looked_into_and_what_lies_there_are_no_missing_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = write(tmp_path, "closed/rank2.log", USUAL).parent
    open_logs = [write(tmp_path, f"open/rank{rank}.log", USUAL) for rank in (0, 1)]
    real_scan, real_stat = os.scandir, os.stat

    def refused(real: Any) -> Any:
        def call(path: Any = ".", *args: Any, **more: Any) -> Any:
            if isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith(str(closed)):
                raise PermissionError(errno.EACCES, "Permission denied", path)
            return real(path, *args, **more)

        return call

    monkeypatch.setattr(os, "scandir", refused(real_scan))  # the tests may run as root, whom no mode stops
    found, _ = compared(tmp_path)
    assert [run.status for run in found.runs] == ["ok", "ok"]
    assert found.problems == (f"{closed}: cannot be read: Permission denied",)
    monkeypatch.setattr(os, "stat", refused(real_stat))
    logs = [open_logs[0], closed / "rank2.log", open_logs[1], tmp_path / "open" / "rank3.log"]
    assert [run.status for run in memlens.compare(logs, jobs=1).runs] == ["ok", "unreadable", "ok", "missing"]


def test_braces_in_the_name_of_a_log_in_a_folder_elsewhere_are_no_template() -> None:
    files = pytest.importorskip("fsspec", reason="pip install 'memlens[remote]'").filesystem("memory")
    for name in ("{a}.log", "b.log"):
        files.pipe(f"/braces/{name}", b"Alloc 512 bytes, ptr = 0x7f01\n")
    try:
        found = memlens.compare(["memory://braces/"], jobs=1)
    finally:
        files.rm("/braces", recursive=True)
    assert [run.path for run in found.runs] == ["memory://braces/b.log", "memory://braces/{a}.log"]
