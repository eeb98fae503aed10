"""What paths say of ranks: fields by usual names, what ranks are called, and which numbers are missing."""

from __future__ import annotations

import pytest

from memlens.ranking.naming import fields_of, is_machine, labels_of, missing_of


def named(*paths: str) -> list[dict[str, str]]:
    return fields_of(paths)


@pytest.mark.parametrize(
    ("paths", "fields"),
    [
        (("log/workerlog.0", "log/workerlog.1"), [{"rank": "0"}, {"rank": "1"}]),
        (("rank0007.log.zst", "rank0010.log.zst"), [{"rank": "7"}, {"rank": "10"}]),
        (("run.rank0.log.zst", "run.rank1.log.zst"), [{"rank": "0"}, {"rank": "1"}]),
        (("a/rank_3.log", "a/rank_4.log"), [{"rank": "3"}, {"rank": "4"}]),
        (("node3/workerlog.0", "node4/workerlog.0"), [{"node": "3", "rank": "0"}, {"node": "4", "rank": "0"}]),
        (("host-1_gpu5.log", "host-2_gpu0.log"), [{"node": "1", "gpu": "5"}, {"node": "2", "gpu": "0"}]),
        (
            ("pp1_tp0_dp2.log", "pp0_tp1_dp2.log"),
            [{"pp": "1", "tp": "0", "dp": "2"}, {"pp": "0", "tp": "1", "dp": "2"}],
        ),
        (("pp1tp0.log", "pp0tp0.log"), [{"pp": "1", "tp": "0"}, {"pp": "0", "tp": "0"}]),
        (("mp_rank_00/log.txt", "mp_rank_01/log.txt"), [{"mp": "0"}, {"mp": "1"}]),
        (("stage=2/a.log", "stage=3/a.log"), [{"stage": "2"}, {"stage": "3"}]),
        (
            ("node_rank_1/local_rank_2.log", "node_rank_0/local_rank_2.log"),
            [{"node": "1", "local_rank": "2"}, {"node": "0", "local_rank": "2"}],
        ),
        (("s3://b/run/Rank-1.log", "s3://b/run/Rank-2.log"), [{"rank": "1"}, {"rank": "2"}]),
        (("worker-0a1f.log", "worker-0b2e.log"), [{}, {}]),  # random names number nothing
        (
            ("worker-7f/rank0.log", "worker-7c/rank0.log"),
            [{"rank": "0", "folder": "worker-7f"}, {"rank": "0", "folder": "worker-7c"}],
        ),
        (("rank0of2.log", "rank1of2.log"), [{"rank": "0"}, {"rank": "1"}]),
        (("rank3/rank4.log", "rank3/rank5.log"), [{"rank": "4"}, {"rank": "5"}]),  # the last one counts
        (("rank3/rank3.log", "rank4/rank4.log"), [{"rank": "3"}, {"rank": "4"}]),
        (
            (
                "job-worker-0/workerlog.0",
                "job-worker-1/workerlog.0",
            ),  # and where it takes the place of another one the folder says which
            [{"rank": "0", "folder": "job-worker-0"}, {"rank": "0", "folder": "job-worker-1"}],
        ),
        # folders without such names, and numbers alone
        (
            ("alpha/workerlog.0", "beta/workerlog.0"),
            [{"rank": "0", "folder": "alpha"}, {"rank": "0", "folder": "beta"}],
        ),
        (("run/0/stdout.log", "run/1/stdout.log"), [{"rank": "0"}, {"rank": "1"}]),
        (("job-12345_0.out", "job-12345_1.out"), [{"rank": "0"}, {"rank": "1"}]),
        (("0712_17.log", "0712_18.log"), [{"rank": "17"}, {"rank": "18"}]),
        # words that only look like one
        (("steps10.log", "steps11.log"), [{"rank": "10"}, {"rank": "11"}]),
        (("clamp1.log", "clamp2.log"), [{"rank": "1"}, {"rank": "2"}]),
        (("before.log", "after.log"), [{}, {}]),
    ],
)
def test_fields_are_told_by_usual_names(paths: tuple[str, ...], fields: list[dict[str, str]]) -> None:
    assert named(*paths) == fields


def test_a_rank_is_called_by_its_number_where_that_is_enough_and_else_by_all_that_differs() -> None:
    def called(*paths: str) -> list[str]:
        return labels_of(paths, fields_of(paths))

    assert called("n1/rank_0.log", "n1/rank_1.log") == ["rank 0", "rank 1"]
    assert called("node1/workerlog.0", "node2/workerlog.0") == ["node 1", "node 2"]
    assert called("node1/workerlog.0", "node1/workerlog.1", "node2/workerlog.0") == [
        "node 1 rank 0",
        "node 1 rank 1",
        "node 2 rank 0",
    ]
    assert called("alpha/rank0.log", "beta/rank0.log", "beta/rank1.log") == [
        "alpha rank 0",
        "beta rank 0",
        "beta rank 1",
    ]
    assert called("x/before.log", "x/after.log") == ["before.log", "after.log"]


def test_the_numbers_that_a_numbering_leaves_out_are_named() -> None:
    assert missing_of([{"rank": str(k)} for k in (0, 1, 3, 5)]) == ["rank 2", "rank 4"]
    assert missing_of([{"rank": str(k)} for k in (1, 2, 4)]) == ["rank 3"]  # counted from 1
    assert missing_of([{"rank": str(k)} for k in (1, 3, 5)]) == ["rank 2", "rank 4"]
    assert missing_of([{"rank": str(k)} for k in range(8)]) == []
    assert missing_of([{"branch": "a"}, {"branch": "b"}]) == []
    assert missing_of([]) == []


def test_where_numbers_come_on_each_node_all_nodes_have_all_of_them() -> None:
    found = [{"node": str(node), "rank": str(rank)} for node in (0, 1) for rank in range(8) if (node, rank) != (1, 5)]
    assert missing_of(found) == ["node 1 rank 5"]


def test_a_number_too_long_for_a_rank_is_no_numbering() -> None:
    assert missing_of([{"rank": "0"}, {"rank": "9" * 5000}]) == []


def test_a_rank_that_one_pod_lacks_is_missing_there() -> None:
    paths = [f"job-worker-{pod}/workerlog.{rank}" for pod in (0, 1) for rank in range(3) if (pod, rank) != (1, 1)]
    assert missing_of(fields_of(paths)) == ["job-worker-1 rank 1"]


def test_a_numbering_that_is_global_is_one_whatever_else_paths_name() -> None:
    found = [{"pp": str(rank // 4), "rank": str(rank)} for rank in range(8) if rank != 6]
    assert missing_of(found) == ["rank 6"]


def test_numbers_far_apart_are_no_numbering() -> None:
    assert missing_of([{"rank": "0"}, {"rank": "12345"}, {"rank": "999999999999"}]) == []


@pytest.mark.parametrize(
    ("field", "machine"),
    [("node", True), ("host", True), ("node_name", True), ("folder2", True), ("pp", False), ("rank", False)],
)
def test_fields_that_number_machines_are_known(field: str, machine: bool) -> None:
    assert is_machine(field) == machine
