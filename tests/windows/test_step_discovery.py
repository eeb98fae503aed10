"""The lines that count the steps of one log are found; parts of steps come after them, and what counts nothing is none."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from night import some
from step_lines import steps, text_of
from traces import memory_event, trace

import memlens
from memlens.errors import MemlensError
from memlens.inputs import Reading
from memlens.log import Log
from memlens.windows.anchor_discovery import Family, common_family, family
from memlens.windows.anchor_templates import Work
from memlens.windows.anchors import find_anchors
from memlens.windows.patterns import Pattern


def read(lines: Sequence[str]) -> Log:
    """Lines as a log; ``*`` stands for three events."""
    (log,) = Reading(landmarks=True).read_all(io.BytesIO(text_of(lines).encode()))
    return log


def found(*lines: str) -> Family | None:
    return family(read(lines))


def test_steps_in_some_of_which_the_run_is_evaluated_are_not_lost_to_the_ends_of_its_evaluations() -> None:
    lines = ["*"]
    for step in range(24):
        lines += [f"STEP {step}", "*", *(["EVAL", *["*"] * 6, "DONE"] if step % 4 == 3 else [])]
    of = found(*lines)
    assert of is not None
    assert (of.by, len(of.anchors[0])) == (r"^(STEP \d+)", 24)


@pytest.mark.parametrize(
    ("anchor", "name", "work"),
    [
        ("STEP {} START", "STEP {}", Work.STEP),
        ("== iteration {} ==", "iteration {}", Work.STEP),
        ("iter {}: loss 2.5123, time 100.23ms, mfu 3.2%", "iter {}", Work.STEP),
        ("Epoch [1/5], Step [{}/600], Loss: 0.1", "Epoch [1/5], Step [{}/600]", Work.STEP),
        ("EPOCH {} START", "EPOCH {}", Work.EPOCH),
        ("START SOT_CALL_{}", "SOT_CALL_{}", Work.PART),
        ("START BLOCK_{}", "BLOCK_{}", Work.PART),
        ("--- micro batch {} begins ---", "micro batch {}", Work.PART),
        ("START loading shard {}", "loading shard {}", Work.PART),
        ("STEP {} END loss=3.6", "STEP {} END", Work.STEP),
        ("round {}", "round {}", Work.STEP),
        ("[episode {}] start", "[episode {}]", Work.STEP),
        ("Request {} done", "Request {} done", Work.STEP),
        ("processing sample {}", "processing sample {}", Work.STEP),
        ("    step {}", "step {}", Work.STEP),
        ("\tStep {}: loss 0.25", "Step {}", Work.STEP),
        ('{"step": {}, "loss": 0.1}', '"step": {}', Work.STEP),
        ('{"loss": 0.1, "global_step": {}}', '"global_step": {}', Work.STEP),
        # A bracket is closed, and what is marked up is no name.
        ("Train Epoch: 0 [{}/640 (10%)]\tLoss: 0.1", "Train Epoch: 0 [{}/640 (10%)]", Work.STEP),
        ("Train Epoch: 0 [{}/640 (1.5%)]\tLoss: 0.1", "Train Epoch: 0 [{}/640 (1.5%)]", Work.STEP),
        ("STEP {} START | <b>x</b>", "STEP {}", Work.STEP),
        # What is read in once is kept.
        ("Loading batch {} of checkpoint shards", "Loading batch {} of checkpoint shards", Work.PART),
        ("STEP {} START load shard", "STEP {} START load shard", Work.PART),
        ("read batch {}", "read batch {}", Work.PART),
        ("iter {}: data load 0.1s", "iter {}", Work.STEP),
        # As they are found in two logs.
        ("STEP {} START\r", "STEP {}", Work.STEP),
        ("\x1b[32mSTEP {} START\x1b[0m", "STEP {}", Work.STEP),
        ("===== START CALL_{} =====", "CALL_{}", Work.PART),
        ("BEGIN subgraph_{} (fwd)", "subgraph_{} (fwd)", Work.PART),
        ("Step {}/100 START", "Step {}/100", Work.STEP),
        ("START fp16 CALL_{}", "fp16 CALL_{}", Work.PART),
        ("[rank0] STEP {} START", "[rank0] STEP {}", Work.STEP),
        ("step={} begin", "step={}", Work.STEP),
        ("step_id: {} begin", "step_id: {}", Work.STEP),
        ("Start training epoch {} with lr 0.1", "training epoch {}", Work.EPOCH),
        ("2024-07-10T09:56:31.123Z START SOT_CALL_{}", "SOT_CALL_{}", Work.PART),
        ("[1,0]<stdout>:START SOT_CALL_{}", "SOT_CALL_{}", Work.PART),
        ("INFO: step {} begin", "step {}", Work.STEP),
        ("epoch 1, batch {}, loss: 1.23", "epoch 1, batch {}", Work.STEP),
        ("STEP {} END loss=3.615504", "STEP {} END", Work.STEP),
        ("Epoch: [0] [   {}/6250] mem_allocated: 1021 MB mem_reserved: 3496 MB", "Epoch: [0] [   {}/6250]", Work.STEP),
        ("[03/03 10:20:46] ppdet.engine.callbacks INFO: Epoch: [0] [{}/827] learning_rate: 0.1 ips: 4.1807 images/s", "Epoch: [0] [{}/827]", Work.STEP),
        ("[2024/10/10 23:55:07] ppocr INFO: epoch: [34/200], global_step: {}, lr: 0.000950", "epoch: [34/200], global_step: {}", Work.STEP),
        ("[2023-11-21 13:28:00,207] [    INFO] - step_idx: {}, ips: 31763.60242 words/sec", "step_idx: {}", Work.STEP),
        ("[2023-11-21 13:28:00,207] [    INFO] - global step {} / 22140, loss: 1.780640", "global step {}", Work.STEP),
        ("[2024/07/10 09:56:31] ppcls INFO: [Train][Epoch 1/1][Iter: {}/9]lr(AdamW): 0.001", "[Train][Epoch 1/1][Iter: {}/9]", Work.STEP),
    ],
)  # fmt: skip
def test_what_lines_count_in_one_log_and_in_two(anchor: str, name: str, work: Work) -> None:
    names = [name.replace("{}", str(k)) for k in range(5)]
    one, log = found(*steps(anchor)), read(steps(anchor, "START LOSS"))
    assert one is not None
    assert (list(one.anchors[0].names), one.work) == (names, work)
    both = common_family(log, read(steps(anchor, "START LOSS")))
    assert both is not None
    assert [list(anchor.names) for anchor in both.anchors] == [names, names]


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
        steps("shard {}"),  # what is read in is kept
        steps("STEP {} START", count=1),
        ["*", *(line for k in (0, 0, 1, 1, 2, 2) for line in (f"STEP {k} START", "*"))],  # two processes
        ["*", *(line for k in (7, 3, 9, 1, 8) for line in (f"STEP {k} START", "*"))],
        [*["*"] * 9, *(f"STEP {k} START" for k in range(5))],  # all events before
        [*(f"STEP {k} START" for k in range(5)), *["*"] * 9],  # all in the last window
        ["*", "*", *steps("I1120 10:22:32.856307 13292 train.cc:3] STEP {} START")],
        ["*", *(line for k in range(9) for line in ("lost", *["*"] * (1 + k % 3 * 4)))],  # not evenly
        [*(line for _ in range(5) for line in ("lost", "*")), *["*"] * 9],  # most events after them
        steps("wrote 3 bytes"),
        ["*"],
    ],
)
def test_what_counts_nothing_is_none(lines: list[str]) -> None:
    assert found(*lines) is None


def test_lines_that_come_again_evenly_are_steps_whether_or_not_they_count() -> None:
    for anchor in ("hello {}", "START OPT", "{'loss': 0.{}1}", "0.{}1"):
        one = found(*steps(anchor))
        assert one is not None
        assert (one.work, len(one.anchors[0])) == (Work.STEP, 5)
    # What counts goes first, and so do epochs that come as often.
    assert getattr(found(*steps("step {}", "loss 0.{}1")), "by", None) == r"^(step \d+)"
    assert getattr(found(*steps("EPOCH {} START", "loss 0.{}1")), "by", None) == r"^(EPOCH \d+) START"
    # Layers that come evenly are layers.
    assert getattr(found(*steps("START BLOCK_{}")), "work", None) is Work.PART


def test_lines_without_a_word_of_steps_are_called_by_their_number_too() -> None:
    of = found(*steps("game {}"))
    assert of is not None
    assert [*of.anchors[0].names] == [f"game {n}" for n in range(5)]


def test_an_annotation_in_which_something_happens_is_where_its_step_begins_whatever_its_words_are(
    tmp_path: Path,
) -> None:
    """Sentences of eight tokens each, whose numbers begin again; a block is made and given back in each."""
    events = []
    for k in range(24):
        begin = {
            "ph": "X",
            "cat": "user_annotation",
            "name": f"token {k % 8}",
            "pid": 1,
            "tid": 1,
            "ts": 10.0 * k,
            "dur": 9,
        }
        block = [memory_event(10.0 * k + at, size, 4096, max(size, 0), -1) for at, size in ((2, 512), (4, -512))]
        events += [begin, *block]
    (tmp_path / "run.json").write_text(trace(*events))
    (log,) = memlens.analyze(tmp_path / "run.json").logs
    assert log.steps is not None
    assert [window.name for window in log.steps.windows][:9] == [*(f"token {n}" for n in range(8)), "token 0 #2"]


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
    for path in some(sorted((shared / "data" / "paddle").glob("*.log*")), 2):
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
    assert count > 15
