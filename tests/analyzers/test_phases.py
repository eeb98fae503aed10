"""The phases of steps share them out: every figure is that of a plain walk over the lines, and the bytes of a step add up."""

from __future__ import annotations

import gzip
import io
import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from night import NIGHT, some

import memlens
from memlens.analyzers.series.phases import NO_PHASE, START, Phase, cut_phases, phases
from memlens.events import Kind
from memlens.facts import Facts, Mark
from memlens.inputs import Reading
from memlens.log import Log
from memlens.source import NumberedSource
from memlens.windows.anchors import landmarks_of
from memlens.windows.patterns import Pattern

ALLOC = "I0712 10:54:00.000000  1120 auto_growth_best_fit_allocator.cc:169] Alloc {} bytes, ptr = 0x{:x}"
FREE = "I0712 10:54:00.000000  1120 auto_growth_best_fit_allocator.cc:220] Free {} bytes, ptr = 0x{:x}"
EVENT = re.compile(r"(Alloc|Free) (\d+) bytes")


BY = r"^(STEP \d+) START"


def read(lines: list[str]) -> Log:
    text = "\n".join(lines) + "\n"
    (log,) = Reading((Pattern(BY, regex=True),), landmarks=True).read_all(io.BytesIO(text.encode()))
    return log


def made(chance: random.Random, steps: int) -> list[str]:
    """A run with the same phases in each step, some of which now and then are missing, and events between all lines."""
    live: list[tuple[int, int]] = []
    lines: list[str] = []

    def events() -> None:
        for _ in range(chance.randint(0, 4)):
            if live and chance.random() < 0.5:
                lines.append(FREE.format(*live.pop(chance.randrange(len(live)))))
            else:
                live.append((256 * chance.randint(1, 9), 0x1000 * (len(lines) + 1)))
                lines.append(ALLOC.format(*live[-1]))

    plan = chance.sample(["LOSS", "BACKWARD", "OPT", "CALL", "BLOCK", "VALIDATE"], chance.randint(1, 6))
    missing = chance.choice([0.0, 0.2])
    call = 100  # no number of a step, after which the phase would not be named
    events()
    for step in range(steps):
        lines.append(f"STEP {step} START")
        events()
        for phase in plan:
            if chance.random() < missing:
                continue
            for number in range(2):
                if phase == "CALL":
                    lines += [f"START CALL_{call}"]
                    events()
                    lines += [f"END CALL_{call}"]
                    call += 1
                elif phase == "BLOCK":
                    lines.append(f"START BLOCK_{number}")
                elif not number:
                    lines.append(f"START {phase}")
                events()
        if chance.random() < 0.9:
            lines.append(f"STEP {step} END loss=0.{chance.randint(0, 99)}")
        events()
    return lines


def plain_name(line: str, step: int, times: dict[str, int]) -> str | None:
    """What a line of :func:`made` is called, by hand."""
    kind = re.sub("[0-9]+", "", line)
    times[kind] += 1
    if match := re.fullmatch(r"START ([A-Z]+)", line):
        return match[1]
    if match := re.fullmatch(r"START (BLOCK_\d)", line):
        # the first one is always 0 and the second always 1
        return match[1]
    if re.fullmatch(r"START CALL_\d+", line):
        return f"CALL_n#{times[kind]}"
    if re.fullmatch(r"END CALL_\d+", line):
        return f"after END CALL_n#{times[kind]}"
    return "after STEP END" if re.match(rf"STEP {step} END", line) else None


def plain(lines: list[str], steps: int) -> tuple[dict[str, list[tuple[int, int, int, int]]], dict[int, int]]:
    """For each phase ``(step, peak, rise, remaining)`` of each step that has it, and what each step leaves behind: line by line."""
    level, step, phase = 0, -1, ""
    found: dict[str, dict[int, list[int]]] = defaultdict(dict)
    total: dict[int, int] = defaultdict(int)
    times: dict[str, int] = defaultdict(int)

    def begin(name: str) -> None:
        nonlocal phase
        phase = name
        found[phase][step] = [level, level, level]  # at its start, highest, last

    for line in lines:
        if match := re.fullmatch(r"STEP (\d+) START", line):
            step, times = int(match[1]), defaultdict(int)
            begin(START)
        elif match := EVENT.search(line):
            change = int(match[2]) * (1 if match[1] == "Alloc" else -1)
            level += change
            if step >= 0:
                total[step] += change
                row = found[phase][step]
                row[1], row[2] = max(row[1], level), level
        elif (name := plain_name(line, step, times)) is not None:
            begin(name)
    closed = range(steps - 1)  # the last step is open
    return (
        {
            name: [(k, row[1], row[1] - row[0], row[2] - row[0]) for k, row in rows.items() if k in closed]
            for name, rows in found.items()
        },
        {k: total[k] for k in closed},
    )


def test_phases_are_what_a_plain_walk_finds_and_add_up_to_their_steps(rounds: Callable[[int], range]) -> None:
    seen = 0
    for seed in rounds(60):
        chance = random.Random(seed)
        steps = chance.randint(5, 12)
        lines = made(chance, steps)
        log = read(lines)
        windows = log.windows(BY)
        landmarks = landmarks_of(log)
        assert landmarks is not None
        pieces = cut_phases(windows, landmarks)
        (analyzed,) = memlens.analyze(io.BytesIO(("\n".join(lines) + "\n").encode()), by=BY).logs
        found, total = plain(lines, steps)
        # A line that comes in half of the steps or fewer marks nothing: what it begins belongs to the phase before.
        common = {name: rows for name, rows in found.items() if 2 * len(rows) > steps - 1}
        if pieces is None:
            assert len(common) == 1
            assert analyzed.phases is None
            continue
        assert pieces.steps[0].name == "STEP 0"
        for k, window in enumerate(pieces.steps):
            at = pieces.step == k
            # They share the step out: each begins where the one before ends.
            assert pieces.lo[at].tolist()[1:] == pieces.hi[at].tolist()[:-1]
            assert (pieces.lo[at][0], pieces.hi[at][-1]) == (window.lo, window.hi)
        assert analyzed.phases is not None
        assert analyzed.phases.steps == steps - 1
        assert sum(phase.remaining_bytes for phase in analyzed.phases.phases) == sum(total.values())
        if len(common) < len(found):
            continue
        seen += 1
        names = [re.sub(r" #(\d+)$", "", phase.name) for phase in analyzed.phases.phases]
        expected = {name: rows for name, rows in found.items() if any(rise or left for _, _, rise, left in rows)}
        by_name: dict[str, list[Phase]] = defaultdict(list)
        for name, phase in zip(names, analyzed.phases.phases, strict=True):
            by_name[name].append(phase)
        for name, rows in expected.items():
            which, _, number = name.partition("#")
            with_number = [phase for phase in analyzed.phases.phases if phase.name == (which if number in ("", "1") else f"{which} #{number}")]  # fmt: skip
            # Of two calls the first may never do anything: then it is not shown.
            assert len(with_number) == 1, (seed, name, analyzed.phases.phases)
            (phase,) = with_number
            left = sorted(row[3] for row in rows)
            rise = sorted(row[2] for row in rows)
            peak = max(row[1] for row in rows)
            first = next(row[0] for row in rows if row[1] == peak)
            middle = (len(rows) - 1) // 2
            assert phase == Phase(
                phase.name, len(rows), peak, f"STEP {first}", rise[middle], rise[-1], left[0], left[middle], left[-1], sum(left)
            ), (seed, name)  # fmt: skip
    assert seen > 30


def test_phases_of_a_real_run_add_up_to_the_framework_s_own_figures(shared: Path) -> None:
    """MEMSTAT stands right behind the END of each step: between two of them lies all but the last phase of one step and the last of the other."""
    for name in some(
        (
            "331_parts_pir_transformer.log",
            "05_fixed_331.log.gz",
            "05_leak_graph_331.log.gz",
            "20_big_v10_dygraph_331.part.log.zst",
        ),
        2,
    ):
        path = shared / "data" / "paddle" / name
        (log,) = memlens.analyze(path, times=False).logs
        whole = memlens.read(path)
        text = b"".join(text for _, text in whole.source.blocks())
        stated = [json.loads(line.removeprefix(b"MEMSTAT "))["allocated"] for line in text.splitlines() if line.startswith(b"MEMSTAT ")]  # fmt: skip
        assert log.steps is not None
        assert log.phases is not None
        landmarks = landmarks_of(whole)
        assert landmarks is not None
        pieces = cut_phases(whole.windows(log.steps.by), landmarks)
        assert pieces is not None
        assert pieces.names[-1] == "after STEP END"
        sums = [int((whole.size[lo:hi] * (1 - 2 * (whole.kind[lo:hi] % 2)) * (whole.kind[lo:hi] < 2)).sum()) for lo, hi in zip(pieces.lo, pieces.hi, strict=True)]  # fmt: skip
        last = len(pieces.names) - 1
        for k in range(1, len(pieces.steps)):
            of_step = sum(size for size, step, phase in zip(sums, pieces.step, pieces.phase, strict=True) if step == k and phase != last)  # fmt: skip
            before = sum(size for size, step, phase in zip(sums, pieces.step, pieces.phase, strict=True) if step == k - 1 and phase == last)  # fmt: skip
            assert before + of_step == stated[k] - stated[k - 1], (name, k)


def lines_of_steps(*inner: str, count: int = 6) -> Log:
    lines = [line.replace("{}", str(k)) for k in range(count) for one in ("STEP {} START", *inner) for line in (one, ALLOC.format(256, 0x100 * k + 1))]  # fmt: skip
    return read(lines)


def names(log: Log) -> list[str] | None:
    landmarks = landmarks_of(log)
    assert landmarks is not None
    pieces = cut_phases(log.windows(BY), landmarks)
    return None if pieces is None else list(pieces.names)


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        (("START FORWARD", "START BACKWARD"), ["FORWARD", "BACKWARD"]),
        (("FORWARD BEGIN", "BACKWARD BEGIN", "END OF STEP"), ["FORWARD", "BACKWARD", "after END OF STEP"]),
        (("== START LOSS ==",), ["LOSS"]),
        (("BEGIN LOSS of step {}",), ["LOSS of step"]),
        (("STEP {} FORWARD START",), ["STEP FORWARD"]),
        (("START CALL_0", "START CALL_1"), ["CALL_0", "CALL_1"]),
        (("Please start the server before the run",), None),
        (('START {"json": 1}',), None),
        (("warning: step {} starts late",), None),
        ((), None),
    ],
)  # fmt: skip
def test_which_lines_mark_phases_and_what_they_are_called(inner: tuple[str, ...], expected: list[str] | None) -> None:
    assert names(lines_of_steps(*inner)) == (None if expected is None else [START, *expected])


def test_an_annotation_that_comes_once_a_step_is_a_phase_and_one_that_comes_often_is_not() -> None:
    marks: list[Mark] = []
    rows: list[tuple[Kind, int, int]] = []
    for step in range(5):
        for text in (
            f"STEP {step} START",
            "## data ##",
            "nccl:all_reduce",
            "nccl:all_reduce",
            "Optimizer.step#SGD.step",
        ):
            marks.append(Mark(len(rows), len(rows) + 1, text))
            rows.append((Kind.ALLOC, 256, len(rows) + 1))
    log = Log.from_rows(rows, marks=tuple(marks), source=NumberedSource("made"), facts=Facts(bytes=25, lines=25))
    assert names(log) == [START, "## data ##", "Optimizer.step#SGD.step"]


@pytest.mark.parametrize("name", ["cnn_leak", "transformer", *["gpu_2021_resnet50", "gpu_2022_rank1"] * NIGHT])
def test_phases_of_a_trace_end_where_its_annotations_do(shared: Path, name: str) -> None:
    """Every change of memory by hand: in the last annotation to begin of those of its step that last beyond it, or in none."""
    path = shared / "data" / "torch" / "kineto" / f"{name}.json.gz"
    whole = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)
    spans = sorted((Decimal(one["ts"]), Decimal(one["dur"]), one["name"]) for one in whole["traceEvents"] if one.get("cat") == "user_annotation" or (one.get("cat") in ("cpu_op", "Operator") and "#" in one["name"]))  # fmt: skip
    changes = [(Decimal(one["ts"]), one["args"]) for one in whole["traceEvents"] if one.get("name") == "[memory]"]
    steps = [(start, start + lasts) for start, lasts, text in spans if text.startswith("ProfilerStep#")]
    for log in Reading(landmarks=True).read_all(path):
        landmarks = landmarks_of(log)
        assert landmarks is not None
        pieces = cut_phases(log.windows(r"ProfilerStep#(\d+)"), landmarks)
        assert pieces is not None
        assert pieces.names[0] == NO_PHASE
        expected: Counter[tuple[int, str]] = Counter()
        for time, args in changes:
            device = -1 if args["Device Type"] == 0 else args["Device Id"]
            inside = [k for k, (start, end) in enumerate(steps) if start <= time < end and device == log.device]
            for step in inside:
                around = [text for start, lasts, text in spans if steps[step][0] <= start <= time < start + lasts and text in pieces.names]  # fmt: skip
                expected[step, [NO_PHASE, *around][-1]] += args["Bytes"]
        found: Counter[tuple[int, str]] = Counter()
        change = log.size * np.select([log.kind == Kind.ALLOC, log.kind == Kind.FREE], [1, -1])
        for row in range(len(pieces.lo)):
            lo, hi = pieces.lo[row], pieces.hi[row]
            found[int(pieces.step[row]), pieces.names[pieces.phase[row]]] += int(change[lo:hi].sum())
            if row and pieces.step[row - 1] == pieces.step[row]:
                assert pieces.hi[row - 1] == lo
        assert {key: size for key, size in found.items() if size} == {
            key: size for key, size in expected.items() if size
        }
        table = phases(pieces)
        assert sum(phase.remaining_bytes for phase in table.phases) == sum(expected.values())
        assert {phase.name: phase.remaining_bytes for phase in table.phases if phase.remaining_bytes} == {text: total for text in pieces.names if (total := sum(size for (_, own), size in expected.items() if own == text))}  # fmt: skip
        # What no annotation is around is no phase of the picture, nor of what piles up.
        assert not (pieces.inside().phase == 0).any()


def test_a_phase_goes_on_after_one_within_it_and_a_place_lasts_to_the_next() -> None:
    marks: list[Mark] = []
    rows: list[tuple[Kind, int, int]] = []
    sizes = iter(range(1, 100))
    for step in range(4):
        at = len(rows)
        marks += [Mark(at, at + 1, f"STEP {step} START"), Mark(at + 1, at + 2, "outer", at + 7)]
        marks += [Mark(at + 2, at + 3, "inner", at + 4), Mark(at + 5, at + 6, "START place")]
        rows += [(Kind.ALLOC, 256 * next(sizes), at + k + 1) for k in range(9)]
    log = Log.from_rows(rows, marks=tuple(marks), source=NumberedSource("made"), facts=Facts(bytes=36, lines=36))
    landmarks = landmarks_of(log)
    assert landmarks is not None
    pieces = cut_phases(log.windows(BY), landmarks)
    assert pieces is not None
    spread = [pieces.names[phase] for phase, lo, hi in zip(pieces.phase, pieces.lo, pieces.hi, strict=True) for _ in range(lo, hi)]  # fmt: skip
    assert (
        spread == [NO_PHASE, "outer", "inner", "inner", "outer", "START place", "START place", NO_PHASE, NO_PHASE] * 3
    )
    outer = phases(pieces).phases[1]
    # 256 bytes times 2 and 5 of the first step, 11 and 14 of the second, 20 and 23 of the third, whose peak is what was live by then.
    assert (outer.name, outer.steps, outer.remaining_bytes) == ("outer", 3, 256 * (2 + 5 + 11 + 14 + 20 + 23))
    assert (outer.peak_bytes, outer.rise_max_bytes) == (256 * sum(range(24)), 256 * (20 + 21 + 22 + 23))


def test_lines_in_another_order_in_most_steps_mark_no_phases() -> None:
    texts = [f"START {letter}{letter}" for letter in "ABC"]
    lines = []
    for k in range(9):
        order = texts[k % 3 :] + texts[: k % 3] if k % 2 else texts[::-1]
        lines += [f"STEP {k} START", *(line for text in order for line in (text, ALLOC.format(256, 0x100 * k + 1)))]
    log = read(lines)
    assert names(log) is None


def test_json_of_a_series_has_all_phases_though_it_leaves_lists_out(examples: Path) -> None:
    analysis = memlens.analyze(examples / "cnn_5steps.log.gz", by=r"STEP (\d+) START", top=0)
    (log,) = analysis.logs
    assert log.phases is not None
    (plain,) = analysis.to_dict()["logs"]
    assert len(plain["phases"]["phases"]) == len(log.phases.phases) > 1
    assert "live" not in plain["windows"][0]["peak"]
