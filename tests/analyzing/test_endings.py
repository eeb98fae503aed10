"""How a run ended: real logs that are cut, or that end in what Paddle 3.3.1, Python and the C library write as a process dies."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from night import NIGHT
from texts import read_packed

import memlens
from memlens.inputs import blocks

SIGNAL = """

--------------------------------------
C++ Traceback (most recent call last):
--------------------------------------
No stack trace in paddle, may be caused by external reasons.

----------------------
Error Message Summary:
----------------------
FatalError: `{}` is detected by the operating system.
  [TimeInfo: *** Aborted at 1795646414 (unix time) try "date -d @1795646414" if you are using GNU date ***]
  [SignalInfo: *** {} (@0x0) received by PID 12273 (TID 0x7f0a89477b80) from PID 0 ***]

"""
SHAPES = """Traceback (most recent call last):
  File "/run/train.py", line 14, in <module>
    x=paddle.zeros([3,4]); y=paddle.zeros([5,6]); paddle.matmul(x,y)
                                                  ^^^^^^^^^^^^^^^^^^
  File "/run/paddle/base/dygraph/generated_tensor_methods_patch.py", line 19, in _matmul
    return _C_ops.matmul(*args, **kwargs)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
ValueError: (InvalidArgument) In operator matmul, the [1] dimension of Input(X) must be equal to the [0] dimension of Input(Y).
  [Hint: Expected K_lhs == K_rhs, but received K_lhs:4 != K_rhs:5.] (at /paddle/paddle/phi/infermeta/binary.cc:3087)

"""
FAULT = """Fatal Python error: Segmentation fault

Current thread 0x00007fd2b9234b80 (most recent call first):
  File "/run/train.py", line 17 in <module>
"""
ABORTED = SIGNAL.format("Process abort signal", "SIGABRT")
DEATHS = {
    "double free or corruption (!prev)\n": "double free or corruption",
    f"double free or corruption (!prev)\n{ABORTED}": "double free or corruption",
    ABORTED: "SIGABRT",
    SIGNAL.format("Segmentation fault", "SIGSEGV"): "SIGSEGV",
    SIGNAL.format("Termination signal", "SIGTERM"): "SIGTERM",
    FAULT + SIGNAL.format("Segmentation fault", "SIGSEGV"): "Segmentation fault",
    "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n": "std::bad_alloc",
}


def endings(text: bytes) -> list[dict[str, Any]]:
    claims = memlens.analyze(io.BytesIO(text)).to_dict()["claims"]
    return [claim for claim in claims if claim["kind"] == "run_ended"]


def kinds(text: bytes | Path) -> set[str]:
    return {claim.kind for claim in memlens.analyze(text if isinstance(text, Path) else io.BytesIO(text)).claims}


@pytest.fixture(scope="module")
def run(shared: Path) -> bytes:
    return (shared / "data/paddle/331_dygraph_cnn.log").read_bytes()


def cut_in_step(run: bytes, part: float) -> tuple[bytes, int]:
    """A log cut in the last step, after so much of it, and how many lines it has."""
    lines = run.splitlines(keepends=True)
    start, end = lines.index(b"STEP 4 START\n"), next(k for k, line in enumerate(lines) if line[:10] == b"STEP 4 END")
    count = start + int((end - start) * part)
    return b"".join(lines[:count]), count


@pytest.mark.parametrize(("text", "what"), DEATHS.items())
def test_a_process_that_dies_after_a_run_did_so_at_exit(run: bytes, text: str, what: str) -> None:
    (found,) = endings(run + text.encode())
    line = run.count(b"\n") + next(
        k for k, one in enumerate(text.splitlines(), 1) if re.search(r"FatalE|Fatal P|doub|termi", one)
    )
    assert (found["how"], found["what"], found["line"], found["at_exit"]) == ("death", what, line, True)
    verdict = memlens.analyze(io.BytesIO(run + text.encode())).verdict
    assert verdict.startswith(f"The run died of {what} at exit, at line {line:,}. Peak: 4.26 MiB allocated")


@pytest.mark.parametrize(("text", "what"), DEATHS.items())
def test_a_process_that_dies_in_a_step_did_so_inside_it(run: bytes, text: str, what: str) -> None:
    log, _ = cut_in_step(run, 0.5)
    (found,) = endings(log + text.encode())
    assert (found["how"], found["what"], found["window"]) == ("death", what, "STEP 4")
    assert "at_exit" not in found


def test_a_run_that_ends_with_an_exception_says_which(run: bytes) -> None:
    log, count = cut_in_step(run, 0.5)
    exit_frees = b"".join(run.splitlines(keepends=True)[-125:])
    for frees in (b"", exit_frees, exit_frees * 9):  # those of a large model are more than a block of text
        (found,) = endings(log + SHAPES.encode() + frees)
        assert (found["how"], found["what"], found["line"]) == ("exception", "ValueError", count + 1)
    assert (
        endings(log + SHAPES.encode())[0]["text"]
        == f"the run ended with a Python exception (ValueError) inside STEP 4, at line {count + 1:,}"
    )


def test_diff_and_gate_say_how_a_run_ended(run: bytes, tmp_path: Path) -> None:
    log, count = cut_in_step(run, 0.5)
    whole, ended = tmp_path / "whole.log", tmp_path / "ended.log"
    whole.write_bytes(run)
    ended.write_bytes(log + SHAPES.encode())
    how = f"ended with a Python exception (ValueError), at line {count + 1:,}."
    assert f"Head {how}" in memlens.diff(whole, ended).verdict
    assert f"Base {how}" in memlens.diff(ended, whole).verdict
    inside = how.replace(", at", " inside STEP 4, at")
    assert memlens.gate(ended, base=whole, limits="peak=2%").explanation.endswith(f" The run {inside}")
    assert "ended" not in memlens.diff(whole, whole).verdict


def test_what_ends_no_run_is_no_ending(run: bytes, shared: Path) -> None:
    lines = run.splitlines(keepends=True)
    caught = b"".join([*lines[:2000], SHAPES.encode(), *lines[2000:]])
    assert endings(caught) == []
    at_exit = b"Exception ignored in: <function Reader.__del__ at 0x7f01>\n" + SHAPES.encode()
    assert endings(run + at_exit) == []
    assert "run_ended" not in kinds(shared / "data/paddle/05_oom_331.log")  # its traceback is the failure's own


@pytest.mark.parametrize("size", [1 << 10, 1 << 12, 1 << 16])
def test_an_ending_is_found_wherever_blocks_begin(run: bytes, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = endings(run + SHAPES.encode())
    monkeypatch.setattr(blocks, "BLOCK_BYTES", size)
    assert endings(run + SHAPES.encode()) == expected


@pytest.mark.parametrize(
    "name",
    [
        *("331_dygraph_cnn.log", "05_leak_graph_331.log.gz", "05_grow_batch_331.log.gz", "331_ast_pir_cnn.log"),
        *("30_ast_transformer_pt.log", "04_threads_30_ast_pt_transformer.log.gz"),
    ][:: 1 if NIGHT else 2],
)
def test_a_log_that_is_cut_in_a_step_says_so(name: str, shared: Path) -> None:
    whole = read_packed(shared / "data/paddle" / name)
    assert "run_ended" not in kinds(whole)
    for part in (0.1, 0.3, 0.5, 0.7, 0.9):
        log, count = cut_in_step(whole, part)
        (found,) = endings(log)
        assert (found["how"], found["window"], found["line"]) == ("cut", "STEP 4", count)
        assert memlens.analyze(io.BytesIO(log)).verdict.startswith(f"The log stops inside STEP 4, at line {count:,}.")


def test_a_log_that_stops_between_steps_stops_inside_none(run: bytes) -> None:
    lines = run.splitlines(keepends=True)
    for start in (lines.index(b"STEP 3 START\n"), lines.index(b"STEP 4 START\n")):
        assert endings(b"".join(lines[: start + 1])) == []


def test_a_step_that_is_cut_is_not_judged(run: bytes) -> None:
    log, _ = cut_in_step(run, 0.5)
    (analysis,) = memlens.analyze(io.BytesIO(log)).logs
    assert analysis.growth is not None
    assert analysis.growth.judged == 4  # steps 0 to 3


@pytest.mark.parametrize(
    "name", ["torch/kineto/window1.json", "traps/late_leak.log.gz", "torch/snapshots/ring_3000.pickle"]
)
def test_an_input_that_ends_near_its_peak_says_that_it_may_come_later(name: str, shared: Path) -> None:
    assert "peak_may_come_later" in kinds(shared / "data" / name)


@pytest.mark.parametrize(
    "name",
    [
        "torch/kineto/window2.json",
        "paddle/331_dygraph_cnn.log",
        "paddle/30_ast_transformer_pt.log",
        "torch/snapshots/oom_2023.pickle",
    ],
)
def test_one_that_has_come_down_from_its_peak_does_not(name: str, shared: Path) -> None:
    assert "peak_may_come_later" not in kinds(shared / "data" / name)


def test_blocks_that_are_freed_at_exit_alone_are_told_where_no_step_is_known(run: bytes) -> None:
    log = re.sub(rb"(?m)^(STEP|START|EPOCH|END).*\n", b"", run)
    events = re.findall(rb"(Alloc|Free) (\d+) bytes, ptr", log)
    last = max(k for k, (kind, _) in enumerate(events) if kind == b"Alloc")
    (found,) = (claim for claim in memlens.analyze(io.BytesIO(log)).claims if claim.kind == "nothing_live_at_end")
    assert found.values["exit_bytes"] == sum(int(size) for _, size in events[last + 1 :])
