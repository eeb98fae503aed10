"""Inputs that tell of a part: the GPU of a trace with the CPU too, and a snapshot of the last entries of a run."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from snapshots import Allocator, pickled, snapshot
from traces import write_trace

import memlens
from memlens.errors import InputError, UsageError

CPU_LEFT_OUT = "memory of the CPU is left out; --device cpu takes it instead"


def test_of_a_trace_with_the_cpu_and_one_gpu_the_gpu_is_judged_and_a_note_says_so(tmp_path: Path) -> None:
    both = write_trace(tmp_path / "both.json", cpu=4 << 20, gpu0=64 << 20)
    found = memlens.gate(both, budgets="peak=8MiB")
    assert (found.verdict, found.windows[0].head_bytes) == ("regression", 64 << 20)
    assert found.notes == (f"{both}: {CPU_LEFT_OUT}",)
    asked = memlens.gate(both, budgets="peak=8MiB", device=-1)
    assert (asked.verdict, asked.windows[0].head_bytes, asked.notes) == ("pass", 4 << 20, ())


def test_a_baseline_is_taken_of_the_gpu_too(tmp_path: Path) -> None:
    both = write_trace(tmp_path / "both.json", cpu=4 << 20, gpu1=64 << 20)
    assert memlens.accept(both, tmp_path / "memory.json").runs[0].peak_bytes == 64 << 20
    more_on_cpu = write_trace(tmp_path / "head.json", cpu=90 << 20, gpu1=64 << 20)
    assert memlens.gate(more_on_cpu, baseline=tmp_path / "memory.json").verdict == "pass"


def test_several_gpus_must_be_told_apart(tmp_path: Path) -> None:
    several = write_trace(tmp_path / "several.json", cpu=1, gpu0=2, gpu1=3)
    with pytest.raises(UsageError, match="has 2 devices: 0, 1"):
        memlens.gate(several, budgets="peak=1GiB")
    assert memlens.gate(several, budgets="peak=1GiB", device=1).windows[0].head_bytes == 3


def test_a_gpu_is_not_held_against_the_cpu(tmp_path: Path) -> None:
    gpu = write_trace(tmp_path / "gpu.json", cpu=4 << 20, gpu0=64 << 20)
    cpu = write_trace(tmp_path / "cpu.json", cpu=4 << 20)
    for head, base in ((gpu, cpu), (cpu, gpu)):
        with pytest.raises(InputError, match=r"gpu\.json has memory of a GPU and .*cpu\.json of the CPU"):
            memlens.gate(head, base=base)
    assert memlens.gate(gpu, base=cpu, device=-1).verdict == "pass"


def test_where_the_peak_may_lie_before_the_input_a_budget_says_so(tmp_path: Path) -> None:
    made = [Allocator(random.Random(3)).run(200)]
    whole, last, none = tmp_path / "whole.pickle", tmp_path / "last.pickle", tmp_path / "none.pickle"
    for path, kept in ((whole, None), (last, 20), (none, 0)):
        path.write_bytes(pickled(snapshot(made, last=kept)))
    said = "The peak may lie before the first recorded event: what came before is not in the input."
    assert memlens.gate(whole, budgets="peak=1TiB").notes == ()
    for path in (last, none):
        assert memlens.gate(path, budgets="peak=1TiB").notes == (f"{path}: {said}",)
