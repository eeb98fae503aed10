"""The lines that count the steps of one log are found; parts of steps come after them, and what counts nothing is none."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from step_lines import steps, text_of

from memlens.errors import MemlensError
from memlens.inputs import Reading
from memlens.log import Log
from memlens.windows.anchor_discovery import Family, family
from memlens.windows.anchor_templates import Work
from memlens.windows.anchors import find_anchors
from memlens.windows.patterns import Pattern


def read(lines: Sequence[str]) -> Log:
    """Lines as a log; ``*`` stands for three events."""
    (log,) = Reading(landmarks=True).read_all(io.BytesIO(text_of(lines).encode()))
    return log


def found(*lines: str) -> Family | None:
    return family(read(lines))


@pytest.mark.parametrize(
    ("anchor", "name", "work"),
    [
        ("STEP {} START", "STEP 3", Work.STEP),
        ("== iteration {} ==", "iteration 3", Work.STEP),
        ("iter {}: loss 2.5123, time 100.23ms, mfu 3.2%", "iter 3", Work.STEP),
        ("Epoch [1/5], Step [{}/600], Loss: 0.1", "Epoch [1/5], Step [3/600]", Work.STEP),
        ("[2024/10/10 23:55:07] ppocr INFO: epoch: [34/200], global_step: {}, lr: 0.1", "epoch: [34/200], global_step: 3", Work.STEP),
        ("EPOCH {} START", "EPOCH 3", Work.EPOCH),
        ("START SOT_CALL_{}", "SOT_CALL_3", Work.PART),
        ("START BLOCK_{}", "BLOCK_3", Work.PART),
        ("--- micro batch {} begins ---", "micro batch 3", Work.PART),
        ("START loading shard {}", "loading shard 3", Work.PART),
        ("STEP {} END loss=3.6", "STEP 3 END", Work.STEP),
        ("round {}", "round 3", Work.STEP),
        ("Request {} done", "Request 3 done", Work.STEP),
        ("processing sample {}", "processing sample 3", Work.STEP),
        ("    step {}", "step 3", Work.STEP),
        ("\tStep {}: loss 0.25", "Step 3", Work.STEP),
        ('{"step": {}, "loss": 0.1}', '"step": 3', Work.STEP),
        ('{"loss": 0.1, "global_step": {}}', '"global_step": 3', Work.STEP),
        # A bracket is closed, and what is marked up is no name.
        ("Train Epoch: 0 [{}/640 (10%)]\tLoss: 0.1", "Train Epoch: 0 [3/640 (10%)]", Work.EPOCH),
        ("Train Epoch: 0 [{}/640 (1.5%)]\tLoss: 0.1", "Train Epoch: 0 [3/640 (1.5%)]", Work.EPOCH),
        ("STEP {} START | <b>x</b>", "STEP 3", Work.STEP),
        # What is read in once is kept.
        ("Loading batch {} of checkpoint shards", "Loading batch 3 of checkpoint shards", Work.PART),
        ("STEP {} START load shard", "STEP 3 START load shard", Work.PART),
        ("read batch {}", "read batch 3", Work.PART),
        ("iter {}: data load 0.1s", "iter 3", Work.STEP),
    ],
)  # fmt: skip
def test_what_lines_count(anchor: str, name: str, work: Work) -> None:
    one = found(*steps(anchor))
    assert one is not None
    assert (one.anchors[0].names[3], one.work, len(one.anchors[0])) == (name, work, 5)


def calls_in_steps(restart: bool) -> list[str]:
    lines = []
    for epoch in range(2):
        lines.append(f"EPOCH {epoch} START")
        for step in range(4):
            lines.append(f"STEP {step} START")
            for call in range(3):
                lines += [f"START SOT_CALL_{call if restart else call + 3 * (step + 4 * epoch)}", "*"]
            lines.append(f"STEP {step} END loss=1.5")
    return lines


@pytest.mark.parametrize("restart", [True, False])
def test_steps_go_before_epochs_and_before_the_parts_of_a_step(restart: bool) -> None:
    lines = calls_in_steps(restart)
    expressions = []
    for gone in ("STEP .* START", "STEP .* END", "EPOCH", "SOT"):
        one = found(*lines)
        expressions.append(None if one is None else (one.by, one.work))
        lines = [line for line in lines if not re.match(gone, line.removeprefix("START "))]
    assert expressions == [
        (r"^(STEP \d+) START", Work.STEP),
        (r"^(STEP \d+ END)", Work.STEP),
        (r"^(EPOCH \d+) START", Work.EPOCH),
        (r"^START (SOT_CALL_\d+)", Work.PART),
    ]


@pytest.mark.parametrize(
    "lines",
    [
        steps("hello {}"),  # nothing says what it counts
        steps("shard {}"),
        steps("START OPT"),
        steps("STEP {} START", count=1),
        ["*", *(line for k in (0, 0, 1, 1, 2, 2) for line in (f"STEP {k} START", "*"))],  # two processes
        ["*", *(line for k in (7, 3, 9, 1, 8) for line in (f"STEP {k} START", "*"))],
        [*["*"] * 9, *(f"STEP {k} START" for k in range(5))],  # all events before
        [*(f"STEP {k} START" for k in range(5)), *["*"] * 9],  # all in the last window
        ["*", "*", *steps("I1120 10:22:32.856307 13292 train.cc:3] STEP {} START")],
        steps('{"epoch_seconds": {}}'),
        ["*"],
    ],
)
def test_what_counts_nothing_is_none(lines: list[str]) -> None:
    assert found(*lines) is None


def test_training_goes_before_evaluation_however_many_lines_that_has() -> None:
    for train, other in (
        ("train step {}", "eval step {}"),
        ("Training: step {}", "Validation: step {}"),
        ("step {}", "test step {}"),
    ):
        lines = ["*"]
        for step in range(5):
            lines += [train.replace("{}", str(step)), "*"]
            for part in range(3):
                lines += [other.replace("{}", str(3 * step + part)), "*"]
        one = found(*lines)
        assert one is not None
        assert one.anchors[0].names[0] == train.replace("{}", "0")
    only = found(*steps("eval step {}"))  # a run that only evaluates has steps, too
    assert only is not None
    assert only.work is Work.STEP


def test_an_expression_finds_the_lines_of_the_family_and_no_others() -> None:
    glog = "I1120 10:22:32.856307 13292 train.cc:3] profiled step 3 of step 4"
    for lines in (
        steps("step {}", glog),
        steps("step {}", "step {} was slow, 2 retries"),
        steps("STEP {} START", "RESTART at STEP {} START"),
        steps("\x1b[32mSTEP {} START\x1b[0m", glog),
        steps("STEP {} START\r"),
    ):
        log = read(lines)
        one = family(log)
        assert one is not None
        (again,) = Reading((Pattern(one.by, regex=True),)).read_all(io.BytesIO(text_of(lines).encode()))
        assert find_anchors(again, [Pattern(one.by, regex=True)]) == one.anchors


def test_real_logs_are_cut_by_what_their_script_printed_for_each_step(shared: Path) -> None:
    """By their steps where each number comes once and they hold the events: the README of the data lists which lines a script prints."""
    late_or_mixed = ("procs", "stdout_anchors", "loader_workers")  # as the README says of them
    count = 0
    for path in sorted((shared / "data" / "paddle").glob("*.log*")):
        try:
            (log,) = Reading(landmarks=True).read_all(path)
        except MemlensError:
            continue  # logs without events
        text = b"".join(text for _, text in log.source.blocks())
        printed = sum(line.startswith(b"STEP ") and line.rstrip().endswith(b"START") for line in text.splitlines())
        one = family(log)
        if printed < 2 or any(word in path.name for word in late_or_mixed):
            assert one is None, path.name
        else:
            assert one is not None, path.name
            assert (one.by, one.work, len(one.anchors[0])) == (r"^(STEP \d+) START", Work.STEP, printed), path.name
            count += 1
    assert count > 30
