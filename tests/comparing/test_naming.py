"""What paths say of ranks: fields by usual names, what ranks are called, and which numbers are missing."""

from __future__ import annotations

import pytest

from memlens.comparing.templates import fields_of_ranks, is_machine, labels_of, missing_of


@pytest.mark.parametrize(
    ("paths", "fields"),
    [
        (("log/workerlog.0", "log/workerlog.1"), [{"rank": "0"}, {"rank": "1"}]),
        (("rank0007.log.zst", "rank0010.log"), [{"rank": "7"}, {"rank": "10"}]),  # one is compressed
        (("node3/workerlog.0", "node4/workerlog.1"), [{"node": "3", "rank": "0"}, {"node": "4", "rank": "1"}]),
        (("node3/workerlog.0", "node4/workerlog.0"), [{"node": "3"}, {"node": "4"}]),  # only what differs is a field
        (("host-1_gpu5.log", "host-2_gpu0.log"), [{"node": "1", "gpu": "5"}, {"node": "2", "gpu": "0"}]),
        (("pp1_tp0_dp2.log", "pp0_tp1_dp2.log"), [{"pp": "1", "tp": "0"}, {"pp": "0", "tp": "1"}]),
        (("mp_rank_00/log.txt", "mp_rank_01/log.txt"), [{"mp": "0"}, {"mp": "1"}]),
        (
            ("node_rank_1/local_rank_2.log", "node_rank_0/local_rank_3.log"),
            [{"node": "1", "local_rank": "2"}, {"node": "0", "local_rank": "3"}],
        ),
        (("s3://b/run/Rank-1.log", "s3://b/run/Rank-2.log"), [{"rank": "1"}, {"rank": "2"}]),
        (("rank0of2.log", "rank1of2.log"), [{"rank": "0"}, {"rank": "1"}]),
        (("rank3/rank4.log", "rank3/rank5.log"), [{"rank": "4"}, {"rank": "5"}]),  # the last one counts
        (  # and what another word says keeps its name
            ("job-worker-0/workerlog.0", "job-worker-1/workerlog.0"),
            [{"worker": "0"}, {"worker": "1"}],
        ),
        # no ranks of one job: two runs, random names, numbers of something else, degrees and not numbers of stages, one log twice
        (("pt/workerlog.0", "pir/workerlog.0"), None),
        (("worker-0a1f.log", "worker-0b2e.log"), None),
        (("worker-7f/rank0.log", "worker-7c/rank0.log"), None),
        (("clamp1.log", "clamp2.log"), None),
        (("gpu_2021_resnet50.json", "gpu_2022_rank1.json"), None),
        (("dp2.log", "dp4.log"), None),
        (("stage1.log", "stage2.log", "stage3.log"), None),
        (("rank0.log", "rank0.log"), None),
        (("rank0.log", "rank00.log"), None),
        (("rank0.log",), None),
    ],
)
def test_paths_that_differ_in_numbers_of_ranks_only_are_those_of_one_job(
    paths: tuple[str, ...], fields: list[dict[str, str]] | None
) -> None:
    assert fields_of_ranks(paths) == fields


def test_a_rank_is_called_by_its_number_where_that_is_enough_and_else_by_all_that_differs() -> None:
    def called(*paths: str) -> list[str]:
        return labels_of(paths, fields_of_ranks(paths) or [{} for _ in paths])

    assert called("n1/rank_0.log", "n1/rank_1.log") == ["rank 0", "rank 1"]
    assert called("node1/workerlog.0", "node2/workerlog.0") == ["node 1", "node 2"]
    assert called("node1/workerlog.0", "node1/workerlog.1", "node2/workerlog.0") == [
        "node 1 rank 0",
        "node 1 rank 1",
        "node 2 rank 0",
    ]
    assert called("x/before.log", "x/after.log") == ["x/before.log", "x/after.log"]


PODS = [f"job-worker-{pod}/workerlog.{rank}" for pod in (0, 1) for rank in range(3) if (pod, rank) != (1, 1)]


@pytest.mark.parametrize(
    ("fields", "missing"),
    [
        ([{"rank": k} for k in (0, 1, 3, 5)], ["rank 2", "rank 4"]),
        ([{"rank": k} for k in (1, 2, 4)], ["rank 3"]),  # counted from 1
        ([{"rank": k} for k in (1, 3, 5)], ["rank 2", "rank 4"]),
        ([{"rank": k} for k in range(8)], []),
        ([{"branch": "a"}, {"branch": "b"}], []),
        ([], []),
        # Numbers that come on each node: all nodes have all of them; and so with pods.
        ([{"node": k // 8, "rank": k % 8} for k in range(16) if k != 13], ["node 1 rank 5"]),
        (fields_of_ranks(PODS) or [], ["worker 1 rank 1"]),
        # A numbering that is global is one, whatever else paths name.
        ([{"pp": k // 4, "rank": k} for k in range(8) if k != 6], ["rank 6"]),
        # Numbers too long for a rank, or far apart, are no numbering.
        ([{"rank": 0}, {"rank": "9" * 5000}], []),
        ([{"rank": 0}, {"rank": 12345}, {"rank": 999999999999}], []),
    ],
)
def test_the_numbers_that_a_numbering_leaves_out_are_named(fields: list[dict[str, object]], missing: list[str]) -> None:
    assert missing_of([{name: str(number) for name, number in one.items()} for one in fields]) == missing


@pytest.mark.parametrize(
    ("field", "machine"),
    [("node", True), ("host", True), ("node_name", True), ("worker", True), ("pp", False), ("rank", False)],
)
def test_fields_that_number_machines_are_known(field: str, machine: bool) -> None:
    assert is_machine(field) == machine
