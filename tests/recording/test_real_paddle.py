"""``memlens record`` of real PaddlePaddle: the figures of a log that it recorded are Paddle's own counters in the same run.

Paddle computes on a device whose memory is host memory; the allocators above it, their log and their counters are Paddle's.  Runs where
``MEMLENS_PADDLE`` names interpreters that have paddlepaddle, separated as a PATH is.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from night import NIGHT
from real_paddle import MARKED, TIMEOUT, RealPaddle, counted, record

import memlens

pytestmark = pytest.mark.paddle

# The figures


def counters(lines: list[str], word: str) -> list[dict[str, Any]]:
    """Paddle's own counters at the lines that begin with a word, as the shared training script prints them."""
    return [json.loads(line.removeprefix(word)) for line in lines if line.startswith(word)]


def test_the_figures_are_paddles_own_counters_in_the_same_run(counting: RealPaddle, tmp_path: Path) -> None:
    run = record(counting, tmp_path, [str(counting.train), "--model", "cnn", "--steps", "5", "--leak-graph"])
    assert run.code == 0, run.said
    steps, (final,) = counters(run.lines, "MEMSTAT "), counters(run.lines, "FINAL MEMSTAT ")
    whole = memlens.analyze(run.log, end="FINAL MEMSTAT").logs[0].windows[0].results
    assert whole["remaining"].live_bytes == final["allocated"]
    assert whole["peak"].peak_bytes == final["allocated_peak"]
    assert whole["peak"].reserved_peak_bytes == final["reserved_peak"] == final["hostdev_peak"]
    windows = memlens.analyze(run.log, by="^MEMSTAT").logs[0].windows[:-1]
    assert [window.results["remaining"].live_bytes for window in windows] == [step["allocated"] for step in steps]
    assert len({step["allocated"] for step in steps}) == 5  # it leaks: no two are alike
    trust = memlens.read(run.log).trust
    assert (trust.ok, trust.malformed, trust.unknown_frees) == (True, 0, 0)
    assert (
        trust.figures_checked == trust.figures_agreeing == 4 * (1 + len(steps) + 1)
    )  # the script prints them when its model is ready as well


MARKS = re.compile(r"^(STEP \d+|START forward|END forward|TRAINED)$")


@pytest.mark.changed("recording")
def test_windows_cut_at_marks_have_the_counters_that_paddle_had_between_them(
    counting: RealPaddle, tmp_path: Path
) -> None:
    run = record(counting, tmp_path, [str(MARKED), "--steps", "4"])
    assert run.code == 0, run.said
    lines = run.lines
    marks = [at for at, line in enumerate(lines) if MARKS.match(line)]
    assert [lines[at] for at in marks] == [
        *(mark for step in range(4) for mark in (f"STEP {step}", "START forward", "END forward")),
        "TRAINED",
    ]
    # Who holds tensors is looked for at marks, too, and written between the two.
    told = [line for line in lines if MARKS.match(line) or "line.py:0] memlens holds " not in line]
    theirs = [counted(told[at - 1]) for at, line in enumerate(told) if MARKS.match(line)]
    (log,) = memlens.analyze(run.log, by=MARKS.pattern).logs
    ours = [figures(window) for window in log.windows[: len(marks)]]  # what comes after the last mark is freed at exit
    assert ours == theirs
    assert len(set(theirs)) == len(theirs)
    assert [window.start_line for window in log.windows] == [1, *(at + 1 for at in marks)]


def figures(window: Any) -> tuple[int, ...]:
    """The same of a window."""
    end = next(moment for moment in window.results["segments"].moments if moment.at == "end")
    peak = window.results["peak"]
    live = window.results["remaining"].live_bytes
    return live, peak.peak_bytes, end.reserved_bytes, peak.reserved_peak_bytes


# Whose memory it is

#: Numbers in each of the parameters of the program, and in its buffer.
SIZES, BUFFER = (100 * 300, 300, 300 * 200, 200), (500,)


def padded(numbers: tuple[int, ...], width: int = 4) -> int:
    """The bytes of tensors of so many numbers, each in blocks of 256."""
    return sum(-(-number * width // 256) * 256 for number in numbers)


ONE = padded(
    (1,)
)  # the learning rate, which an optimizer has on the device, and the powers that Adam has for each parameter
PLAIN = {"parameter": padded(SIZES), "buffer": padded(BUFFER), "gradient": padded(SIZES), "optimizer": ONE}
ADAM = {**PLAIN, "optimizer": 2 * padded(SIZES) + ONE * (1 + 2 * len(SIZES))}
MODELS = {
    "SGD": PLAIN,
    "Momentum": {**PLAIN, "optimizer": padded(SIZES) + ONE},
    "Adam": ADAM,
    "AdamW": ADAM,
    "tied": ADAM,
    "passes": ADAM,
    "frozen": {
        **PLAIN,
        "gradient": padded(SIZES[1:]),
        "optimizer": 2 * padded(SIZES[1:]) + ONE * (1 + 2 * len(SIZES[1:])),
    },
    "masters": {
        "parameter": padded(SIZES, 2),
        "buffer": padded(BUFFER, 2),
        "gradient": padded(SIZES, 2),
        "optimizer": 3 * padded(SIZES) + ONE,
    },
}


@pytest.mark.parametrize("kind", MODELS if NIGHT else ["masters"])
def test_bytes_of_each_role_are_those_of_the_model(paddle: RealPaddle, tmp_path: Path, kind: str) -> None:
    run = record(paddle, tmp_path, [str(MARKED.parent / "paddle_roles.py"), kind])
    assert run.code == 0, run.said
    log = memlens.read(run.log)
    live = (log.kind == memlens.Kind.ALLOC) & (log.lifetimes.partner < 0)
    assert log.holder is not None
    found: dict[str, int] = {}
    for size, number in zip(log.size[live].tolist(), log.holder[live].tolist(), strict=True):
        role = log.holder_names[number].partition(" ")[0] if number >= 0 else ""
        found[role] = found.get(role, 0) + size
    assert found == MODELS[kind]


# Layers


@pytest.mark.night
def test_the_peak_with_layers_recomputed_is_that_of_a_run_that_recomputes_them(
    counting: RealPaddle, tmp_path: Path
) -> None:
    found: dict[int, Any] = {}
    for every in (0, 1, *[2] * NIGHT):
        (folder := tmp_path / str(every)).mkdir()
        run = record(counting, folder, [str(MARKED.parent / "paddle_layers.py"), str(every)])
        assert run.code == 0, run.said
        found[every] = memlens.analyze(run.log, whole=True).logs[0].windows[0].results
    plain = found[0]["activations"]
    assert [row.layer for row in plain.layers] == [*range(1, 7), None]
    assert {row.owner for row in plain.lines[:2]} == {"paddle_layers.py:34 forward", "paddle_layers.py:35 forward"}
    estimates = {row.which: row.peak_bytes for row in plain.recomputed}
    for every, which in ((1, "all"), *[(2, "every_second")] * NIGHT):
        real = found[every]["peak"].peak_bytes
        assert abs(estimates[which] - real) <= 0.012 * real
        assert real < 0.8 * found[0]["peak"].peak_bytes


# Several processes


# What the preset must not do


SHORT = """
import paddle
paddle.set_device("hostdev")
kept = []
def serve(weight):
    for _ in range(10):
        batch = paddle.ones([64, 256])
        kept.append(paddle.matmul(batch, weight))
def main():
    weight = paddle.ones([256, 256])
    serve(weight)
main()
"""


@pytest.mark.changed("recording")
def test_every_block_of_a_short_program_without_a_backward_pass_has_a_variable(
    counting: RealPaddle, tmp_path: Path
) -> None:
    run = record(counting, tmp_path, ["-c", SHORT])
    assert run.code == 0, run.said
    (window,) = memlens.analyze(run.log, whole=True).logs[0].windows
    held = {one.holder: one.total_bytes for one in window.results["composition"].holders if one.at == "peak"}
    # At the last batch: ten of 64 x 256 float32 live, of which nine are results, the weight, and the batch before.
    batch = 4 * 64 * 256
    assert {name.split(" (")[0]: size for name, size in held.items()} == {
        "variable kept[*]": 9 * batch,
        "variable weight": 4 * 256 * 256,
        "variable batch": 2 * batch,
    }


@pytest.mark.changed("recording")
def test_the_presets_variables_are_those_that_no_version_dies_of(paddle: RealPaddle, tmp_path: Path) -> None:
    show = "import os, paddle; print(os.environ['GLOG_vmodule'], os.environ['FLAGS_new_executor_sequential_run'], 'GLOG_v' in os.environ)"
    started = time.monotonic()
    run = record(paddle, tmp_path, ["-c", show])
    assert run.code == 0, run.said
    assert (
        time.monotonic() - started < TIMEOUT / 2
    )  # 3.3.1 hangs at exit where the variable is longer than 15 characters
    *_, (vmodule, sequential, level) = (line.split() for line in run.lines)
    assert len(vmodule) <= 15
    assert (sequential, level) == ("true", "False")
    assert "double free" not in run.text
    assert "corrupted" not in run.text
