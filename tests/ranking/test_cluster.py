"""Ranks read by the workers of a real Dask cluster: the result is that of this process, to the byte."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from made_rank_logs import large_job

import memlens

distributed: Any = pytest.importorskip("distributed", reason="needs the extra dask")


def test_a_cluster_gives_the_same_and_sends_no_events(tmp_path: Path) -> None:
    large_job(48).write(tmp_path)
    (tmp_path / "node0001" / "pp1_rank00009.log").write_bytes(b"torn\n")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
    ) as cluster:
        there = memlens.ranks(tmp_path, scheduler=cluster.scheduler_address)
    here = memlens.ranks(tmp_path, jobs=1)
    assert json.dumps(there.to_dict()) == json.dumps(here.to_dict())
    assert here.outliers
