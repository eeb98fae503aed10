"""``memlens.ranks`` from logs to what is said, with figures from the arithmetic of what the logs were made of, or from the framework itself."""

from __future__ import annotations

import errno
import json
import os
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from made_rank_logs import GIB, MIB, MadeJob, Program, large_job, write

import memlens
from memlens.errors import InputError, UsageError
from memlens.folding import condenser
from memlens.inputs import Reading, blocks
from memlens.ranking.result import Ranking
from memlens.ranking.summaries import MOST_GROUPS, RankOrder, summarize

USUAL = Program()


def made(folder: Path, programs: dict[str, Program], **options: object) -> Ranking:
    MadeJob(programs).write(folder)
    return memlens.ranks(folder, **{"jobs": 1, **options})  # type: ignore[arg-type]


def of_ranks(count: int, odd: dict[int, Program] | None = None, usual: Program = USUAL) -> dict[str, Program]:
    return {f"rank{rank}.log": (odd or {}).get(rank, usual) for rank in range(count)}


def test_the_figures_of_each_rank_are_those_that_its_log_was_made_of(tmp_path: Path) -> None:
    programs = {f"rank{k}.log": replace(USUAL, steps=k + 1, leaked=((k * MIB, "cache"),) * (k > 0)) for k in range(5)}
    ranking = made(tmp_path, programs)
    assert [rank.name for rank in ranking.ranks] == [f"rank {k}" for k in range(5)]
    for rank, program in zip(ranking.ranks, programs.values(), strict=True):
        assert (rank.peak_bytes, rank.reserved_peak_bytes, rank.live_bytes) == (
            program.peak,
            program.reserved,
            program.live,
        )
        assert rank.allocs == len(program.parameters) + program.steps * (len(program.temporaries) + len(program.leaked))
    peaks = sorted(program.peak for program in programs.values())
    spread = ranking.spreads[0]
    assert (spread.min_bytes, spread.lower_quartile_bytes, spread.median_bytes, spread.max_bytes) == (
        peaks[0],
        peaks[1],
        peaks[2],
        peaks[4],
    )


def test_ranks_that_are_alike_are_said_to_be(tmp_path: Path) -> None:
    ranking = made(tmp_path, of_ranks(8))
    assert ranking.verdict == "8 ranks: all peaks are 144.00 MiB, to the byte. No rank stands out."
    assert ranking.answer.tone == "good"


def test_figures_that_are_written_alike_are_told_by_how_far_they_are_apart(tmp_path: Path) -> None:
    large = replace(USUAL, parameters=((4 * GIB, "embedding"),))
    little = replace(large, parameters=(*large.parameters, (12 * 1024, "norm")))
    ranking = made(tmp_path, of_ranks(4, {3: little}, large))
    assert ranking.verdict == "4 ranks: peaks of about 4.02 GiB, at most 12.00 KiB apart. No rank stands out."


def test_a_rank_with_two_blocks_more_is_named_with_them_and_with_a_diff(tmp_path: Path) -> None:
    odd = replace(USUAL, parameters=(*USUAL.parameters, (20 * MIB, "gather"), (20 * MIB, "gather")))
    ranking = made(tmp_path, of_ranks(8, {5: odd}))
    (one,) = [one for one in ranking.outliers if one.metric == "peak_bytes"]
    assert (one.rank, one.off_bytes, one.median_bytes, one.median_rank) == ("rank 5", 40 * MIB, USUAL.peak, "rank 0")
    (held,) = one.holds
    assert (held.size_bytes, held.blocks, held.owner, held.at_least, held.peers_alike) == (
        20 * MIB,
        2,
        "gather",
        False,
        0,
    )
    assert (
        "One rank stands out: rank 5 holds 40.00 MiB more than its peers, in 2 blocks of 20.00 MiB of gather."
        in ranking.verdict
    )
    assert one.diff is not None
    (finding,) = one.diff.findings
    assert (finding.kind, finding.size_bytes, finding.count, finding.owner) == ("only_head", 20 * MIB, 2, "gather")


def test_blocks_of_more_bytes_than_a_rank_is_off_by_are_not_all_it_holds_more(tmp_path: Path) -> None:
    # 10 blocks of 110 MiB, 1,100 MiB, in place of 10 of 100 MiB: 100 MiB more in all.
    usual = replace(USUAL, parameters=((100 * MIB, "linear"),) * 10)
    odd = replace(usual, parameters=((110 * MIB, "linear"),) * 10)
    assert made(tmp_path, of_ranks(8, {5: odd}, usual)).verdict.endswith(
        "rank 5 holds 100.00 MiB more than its peers, with 1.07 GiB more in 10 blocks of 110.00 MiB of linear, and less in others."
    )


def test_without_diffs_none_is_made(tmp_path: Path) -> None:
    odd = replace(USUAL, parameters=(*USUAL.parameters, (20 * MIB, "gather")))
    assert all(one.diff is None for one in made(tmp_path, of_ranks(8, {5: odd}), diffs=0).outliers)


def test_a_rank_that_leaks_is_named_with_what_piles_up(tmp_path: Path) -> None:
    ranking = made(tmp_path, of_ranks(16, {3: replace(USUAL, leaked=((2 * MIB, "cache"),))}))
    # At the peak of its fifth step it holds what four steps have left.
    assert "rank 3 holds 8.00 MiB more than its peers, in 4 blocks of 2.00 MiB of cache" in ranking.verdict
    live = next(one for one in ranking.outliers if one.metric == "live_bytes")
    assert live.off_bytes == 10 * MIB


def test_stages_are_peers_and_the_machine_of_all_odd_ranks_is_named(tmp_path: Path) -> None:
    programs = {}
    for rank in range(32):
        parameters = (
            *USUAL.parameters,
            *([(64 * MIB, "head")] * (rank // 8 == 3)),
            *([(30 * MIB, "nccl")] * (rank % 8 == 5)),
        )
        programs[f"node{rank % 8}/pp{rank // 8}_rank{rank}.log"] = replace(USUAL, parameters=parameters)
    ranking = made(tmp_path, programs)
    spread = ranking.spreads[0]
    assert spread.peers_by == ("pp",)
    assert [(group.name, group.ranks, group.median_bytes) for group in spread.groups] == [
        *((f"pp {k}", 8, USUAL.peak) for k in range(3)),
        ("pp 3", 8, USUAL.peak + 64 * MIB),
    ]
    assert [one.rank for one in ranking.outliers if one.metric == "peak_bytes"] == [
        "rank 5",
        "rank 13",
        "rank 21",
        "rank 29",
    ]
    assert (
        "4 ranks stand out: rank 5 and 3 more, all of node 5, hold 30.00 MiB more than their peers, in 1 block of 30.00 MiB of nccl."
        in ranking.verdict
    )
    skews = {skew.field: skew for skew in ranking.skews}
    assert (skews["pp"].highest, skews["pp"].skew_bytes, skews["pp"].beyond) == ("3", 64 * MIB, ())
    assert (skews["node"].highest, skews["node"].skew_bytes, skews["node"].beyond) == ("5", 30 * MIB, ("pp",))
    assert skews["node"].explained == 1


def test_two_modes_are_told_and_no_rank_of_them_stands_out(tmp_path: Path) -> None:
    more = replace(USUAL, parameters=(*USUAL.parameters, (56 * MIB, "cache")))
    ranking = made(tmp_path, of_ranks(20, dict.fromkeys(range(0, 20, 3), more)))
    assert not ranking.outliers
    assert (
        "They fall into 2 groups that no field of the paths tells apart: 13 of about 144.00 MiB; 7 of about 200.00 MiB."
        in ranking.verdict
    )


def test_the_first_rank_to_fail_is_told_by_time_with_what_it_asked_for(tmp_path: Path) -> None:
    odd = {
        k: replace(USUAL, asks=(2, GIB, "matmul"), begin_us=begin) for k, begin in ((2, 500_000), (6, 0), (7, 700_000))
    }
    ranking = made(tmp_path, of_ranks(8, odd))
    first = ranking.first
    assert first is not None
    assert (first.rank, first.first.known_by, first.first.lead_us, first.next_rank, first.first.failed) == (
        "rank 6",
        "time",
        500_000,
        "rank 2",
        3,
    )
    failure = first.failed.failure
    assert (failure.requested_bytes, failure.owner, failure.allocated_bytes, failure.reserved_bytes) == (
        GIB,
        "matmul",
        odd[6].live,
        odd[6].reserved,
    )
    # Parameters, and the temporaries of three steps.
    assert first.failed.allocs == len(USUAL.parameters) + 3 * len(USUAL.temporaries)
    assert ranking.verdict.startswith(
        "3 of 8 ranks ran out of memory, rank 6 first by the time stamps (500.00 ms before rank 2, less than clocks of machines may differ by). Rank 6 ran out of memory at line "
    )
    assert "matmul asked for 1.00 GiB" in ranking.verdict
    assert [rank.oom_requested_bytes for rank in ranking.ranks if rank.status == "oom"] == [GIB] * 3


def test_a_rank_with_fewer_events_that_holds_less_is_told_with_how_few(tmp_path: Path) -> None:
    early = replace(USUAL, stops=0, parameters=USUAL.parameters[:3])
    ranking = made(tmp_path, of_ranks(8, {4: early}))
    assert (
        f"rank 4 holds {(USUAL.peak - early.peak) // MIB}.00 MiB less than its peers (its log has 3 allocations, that of rank 0 20)"
        in ranking.verdict
    )


def test_a_rank_whose_log_goes_on_for_longer_is_said_to_have_more_allocations(tmp_path: Path) -> None:
    usual = replace(USUAL, leaked=((2 * MIB, "cache"),))
    longer = replace(usual, steps=5 * usual.steps)
    ranking = made(tmp_path, of_ranks(8, {4: longer}, usual), diffs=0)
    # 5 parameters, and three temporaries and one leaked block a step: each keeps a block a step but the last, before its peak.
    assert (
        "rank 4 holds 40.00 MiB more than its peers, in 20 blocks of 2.00 MiB of cache (its log has 105 allocations, that of rank 0 25)"
        in ranking.verdict
    )


def test_logs_that_cannot_be_read_and_ranks_without_one_are_told(tmp_path: Path) -> None:
    programs = of_ranks(8)
    del programs["rank6.log"]
    MadeJob(programs).write(tmp_path)
    (tmp_path / "rank3.log").write_bytes(b"no event in here\n" * 50)
    ranking = memlens.ranks([tmp_path / f"rank{k}.log" for k in (0, 1, 2, 3, 4, 5, 7, 9)], jobs=1)
    assert {rank.name: rank.status for rank in ranking.ranks if rank.status != "ok"} == {
        "rank 3": "unreadable",
        "rank 9": "missing",
    }
    assert ranking.missing == ("rank 6", "rank 8")
    assert ranking.verdict.startswith(
        "8 ranks, 6 of them with figures: all peaks are 144.00 MiB, to the byte; 2 ranks have no log, rank 6 the first."
    )


def test_where_no_log_can_be_read_the_verdict_says_why(tmp_path: Path) -> None:
    ranking = memlens.ranks([tmp_path / f"rank{k}.log" for k in range(3)], jobs=1)
    assert ranking.verdict == "None of 3 ranks could be read: no such file."
    assert ranking.to_dict()["spreads"] == []


def test_a_series_is_judged_by_its_median_window(tmp_path: Path) -> None:
    # One step of rank 2 alone is higher: that is no median window.
    ranking = made(
        tmp_path, of_ranks(5, {2: replace(USUAL, leaked=((MIB, "cache"),), steps=6)}), by=r"STEP (\d+) START"
    )
    assert [rank.windows for rank in ranking.ranks] == [4, 4, 5, 4, 4]  # the last one is open
    assert [rank.peak_bytes for rank in ranking.ranks] == [USUAL.peak] * 2 + [USUAL.peak + 2 * MIB] + [USUAL.peak] * 2
    assert {rank.window for rank in ranking.ranks} == {"0", "2"}


def test_one_window_is_cut_by_anchors(tmp_path: Path) -> None:
    ranking = made(tmp_path, of_ranks(4, {1: replace(USUAL, stops=2)}), start="STEP 3 START")
    assert [rank.status for rank in ranking.ranks] == ["ok", "no_window", "ok", "ok"]
    assert ranking.ranks[1].message


def test_any_executor_gives_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    large_job(48).write(folder)
    here = json.dumps(memlens.ranks(folder, jobs=1).to_dict())
    assert json.dumps(memlens.ranks(folder, jobs=2).to_dict()) == here
    with ThreadPoolExecutor(2) as threads:
        assert json.dumps(memlens.ranks(folder, executor=threads).to_dict()) == here
    with ProcessPoolExecutor(2) as processes:
        assert json.dumps(memlens.ranks(folder, executor=processes).to_dict()) == here


def test_a_template_names_fields(tmp_path: Path) -> None:
    for rank in range(4):
        write(tmp_path, f"x{rank // 2}/worker_{rank}.txt", USUAL)
    ranking = memlens.ranks(f"{tmp_path}/x{{host}}/worker_{{rank}}.txt", jobs=1)
    assert [dict(rank.fields) for rank in ranking.ranks] == [{"host": str(k // 2), "rank": str(k)} for k in range(4)]
    assert ranking.template == f"{tmp_path}/x{{host}}/worker_{{rank}}.txt"
    with pytest.raises(InputError, match="no file matches"):
        memlens.ranks(f"{tmp_path}/y{{host}}/worker_{{rank}}.txt")


def test_arguments_without_sense_are_refused(tmp_path: Path) -> None:
    log = write(tmp_path, "rank0.log", USUAL)
    refused: list[tuple[list[str | Path], str]] = [
        ([], "no log of a rank"),
        (["-"], "by their paths"),
        ([log, log], "named twice"),
        ([log, tmp_path / "x" / ".." / log.name], "named twice"),
        ([log, "a{b}"], "exclude each other"),
        ([f"{tmp_path}/{{path}}.log"], "cannot be called 'path'"),  # the rows have a column of that name
        ([f"{tmp_path}/{{status}}.log"], "cannot be called 'status'"),
    ]
    for given, match in refused:
        with pytest.raises(UsageError, match=match):
            memlens.ranks(given)
    with pytest.raises(UsageError, match="diffs"):
        memlens.ranks(log, diffs=-1)
    with pytest.raises(UsageError):
        memlens.ranks(log, by="(")


def test_what_comes_back_from_a_worker_is_bounded(tmp_path: Path) -> None:
    many = replace(USUAL, parameters=tuple((k * 1024, f"op{k}") for k in range(1, 200)))
    (summary,) = summarize(RankOrder(str(write(tmp_path, "rank0.log", many))))
    assert len(summary.held) == MOST_GROUPS
    assert sum(group.total_bytes for group in summary.held) + summary.rest_bytes == many.peak


def test_real_ranks_have_the_figures_of_the_framework(shared: Path) -> None:
    folder = shared / "data" / "paddle"
    ranking = memlens.ranks([folder / f"09_launch2_dygraph_331.workerlog.{rank}" for rank in (0, 1)], jobs=1)
    for rank, found in enumerate(ranking.ranks):
        stats = json.loads((folder / f"09_launch2_dygraph_331.rank{rank}.stats.json").read_text())
        text = json.dumps(stats)
        assert found.name == f"rank {rank}"
        assert f'"allocated_peak": {found.peak_bytes}' in text
        assert f'"reserved_peak": {found.reserved_peak_bytes}' in text


def test_an_edited_block_of_a_real_log_is_what_stands_out(shared: Path, tmp_path: Path) -> None:
    """Eight ranks of one real log; of one rank the largest block that is live at the peak is larger by arithmetic on its lines."""
    text = (shared / "data" / "paddle" / "09_launch2_dygraph_331.workerlog.0").read_bytes()
    held = summarize(RankOrder(str(shared / "data" / "paddle" / "09_launch2_dygraph_331.workerlog.0")))[0]
    sizes = {group.size_bytes: group.count for group in held.held}
    size = 98304
    assert sizes[size] == 1
    for rank in range(8):
        more = text.replace(b"98304", b"%d" % (size + 2 * MIB)) if rank == 6 else text
        (tmp_path / f"workerlog.{rank}").write_bytes(more)
    ranking = memlens.ranks(tmp_path, jobs=1)
    (one,) = [one for one in ranking.outliers if one.metric == "peak_bytes"]
    assert (one.rank, one.holds[0].size_bytes, one.holds[0].blocks) == ("rank 6", size + 2 * MIB, 1)


def trace(path: Path, **devices: int) -> None:
    """A trace in which each device allocates one block of so many bytes and keeps it."""
    events: list[dict[str, object]] = []
    for name, size in devices.items():
        number = -1 if name == "cpu" else int(name.removeprefix("gpu"))
        arguments = {
            "Device Type": int(number >= 0),
            "Device Id": number,
            "Addr": 4096,
            "Bytes": size,
            "Total Allocated": size,
        }
        events.append({"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": float(len(events)), "args": arguments})
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))


def test_each_gpu_of_an_input_is_a_rank_and_memory_of_the_cpu_beside_them_is_left_out(tmp_path: Path) -> None:
    for node in range(2):
        trace(tmp_path / f"node{node}.json", cpu=7, **{f"gpu{k}": (10 + 10 * (node == k == 1)) * MIB for k in range(2)})
    ranking = memlens.ranks(tmp_path, jobs=1)
    assert [rank.name for rank in ranking.ranks] == [f"node {node} device {k}" for node in range(2) for k in range(2)]
    assert [rank.peak_bytes for rank in ranking.ranks] == [10 * MIB] * 3 + [20 * MIB]
    (one,) = [one for one in ranking.outliers if one.metric == "peak_bytes"]
    assert one.rank == "node 1 device 1"
    assert one.diff is not None
    assert [(finding.kind, finding.size_bytes) for finding in one.diff.findings] == [
        ("only_head", 20 * MIB),
        ("only_base", 10 * MIB),
    ]


def test_logs_that_tell_of_chunks_alone_are_judged_by_what_they_reserve(tmp_path: Path) -> None:
    for rank in range(6):
        text = (replace(USUAL, parameters=((400 * MIB, "x"),)) if rank == 2 else USUAL).text
        chunks = [line for line in text.splitlines(keepends=True) if b"reallocate" in line]
        (tmp_path / f"rank{rank}.log").write_bytes(b"".join(chunks))
    ranking = memlens.ranks(tmp_path, jobs=1)
    assert [spread.metric for spread in ranking.spreads] == ["reserved_peak_bytes"]
    assert "One rank stands out: rank 2 reserves 272.00 MiB more than its peers." in ranking.verdict


def test_ranks_come_in_the_natural_order_of_their_names(tmp_path: Path) -> None:
    programs = {f"dp{rank % 2}/rank{rank}.log": USUAL for rank in (10, 9, 2, 1, 0, 11)}
    assert [rank.name for rank in made(tmp_path, programs).ranks] == [f"rank {k}" for k in (0, 1, 2, 9, 10, 11)]


def test_one_rank_is_told_as_one(tmp_path: Path) -> None:
    assert (
        made(tmp_path, of_ranks(1)).verdict
        == "1 rank: a peak of 144.00 MiB. Of fewer than four ranks none can stand out."
    )


def test_in_bounded_memory_all_is_the_same(tmp_path: Path) -> None:
    odd = replace(USUAL, steps=300, leaked=((1024, "cache"),), parameters=(*USUAL.parameters, (30 * MIB, "gather")))
    made(tmp_path, of_ranks(6, {2: odd, 4: replace(USUAL, steps=300, asks=(299, GIB, "x"))}, replace(USUAL, steps=300)))
    # Blocks of text are small, and no first events are kept whole: events are dropped after every block.
    with mock.patch.object(blocks, "BLOCK_BYTES", 4000), mock.patch.object(condenser, "FIRST_EVENTS", 0):
        (log,) = Reading(most_events=30).read_all(tmp_path / "rank0.log")
        assert log.condensed is not None
        for by in (None, r"STEP (\d+) START"):
            whole = memlens.ranks(tmp_path, jobs=1, diffs=0, memory=0, by=by)
            bounded = memlens.ranks(tmp_path, jobs=1, diffs=0, memory=4096, by=by)
            assert bounded.to_dict() == whole.to_dict()
            assert whole.outliers


def test_a_folder_that_cannot_be_looked_into_and_what_lies_there_are_no_missing_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = write(tmp_path, "closed/rank2.log", USUAL).parent
    for rank in (0, 1):
        write(tmp_path, f"rank{rank}.log", USUAL)
    real_scan, real_stat = os.scandir, os.stat

    def refused(real: Any) -> Any:
        def call(path: Any = ".", *args: Any, **more: Any) -> Any:
            if isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith(str(closed)):
                raise PermissionError(errno.EACCES, "Permission denied", path)
            return real(path, *args, **more)

        return call

    monkeypatch.setattr(os, "scandir", refused(real_scan))  # the tests may run as root, whom no mode stops
    ranking = memlens.ranks(tmp_path, jobs=1)
    assert [rank.status for rank in ranking.ranks] == ["ok", "ok"]
    assert ranking.problems == (f"{closed}: cannot be read: Permission denied",)
    monkeypatch.setattr(os, "stat", refused(real_stat))
    logs = [
        str(tmp_path / "rank0.log"),
        f"{closed}/rank2.log",
        str(tmp_path / "rank1.log"),
        str(tmp_path / "rank3.log"),
    ]
    status = ["ok", "unreadable", "ok", "missing"]
    assert sorted(rank.status for rank in memlens.ranks(logs, jobs=1).ranks) == sorted(status)
    assert [run.status for run in memlens.compare(logs, jobs=1).runs] == status


def test_braces_in_the_name_of_a_log_in_a_folder_elsewhere_are_no_template(capsys: pytest.CaptureFixture[str]) -> None:
    from memlens.cli import main

    files = pytest.importorskip("fsspec", reason="pip install 'memlens[remote]'").filesystem("memory")
    for name in ("{a}.log", "b.log"):
        files.pipe(f"/braces/{name}", b"Alloc 512 bytes, ptr = 0x7f01\n")
    try:
        assert main(["ranks", "memory://braces/", "--jobs", "1", "--format", "json"]) == 0
    finally:
        files.rm("/braces", recursive=True)
    assert [rank["path"] for rank in json.loads(capsys.readouterr().out)["ranks"]] == [
        "memory://braces/b.log",
        "memory://braces/{a}.log",
    ]
