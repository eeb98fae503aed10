"""Steps are found by themselves, and growth is claimed over them where memory grows and nowhere else."""

from __future__ import annotations

import gc
import gzip
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from logs import ALLOC, FREE
from made_series import LEAKS, NO_LEAKS, Maker, made
from night import some

import memlens
from memlens.analyzers.series.trend import judge
from memlens.analyzing.result import LogAnalysis
from memlens.claims.template import window_label
from memlens.log import Log
from memlens.windows.windows import BEFORE


def levels(live: Sequence[int], anchor: str = "STEP {} START\n") -> bytes:
    """A log whose level at the end of each step is what is given: each step takes a block of that size, and gives the last one back."""
    lines, before = [], 0
    for step, level in enumerate(live):
        lines.append(anchor.format(step))
        if level:
            lines.append(ALLOC.format(level, 0x1000 + step))
        if before:
            lines.append(FREE.format(before, 0x1000 + step - 1))
        before = level
    # The last step is open: what it gives back at exit counts for nothing.
    lines += [anchor.format(len(live)), FREE.format(before, 0x1000 + len(live) - 1), ALLOC.format(256, 0x1), FREE.format(256, 0x1)]  # fmt: skip
    return "".join(lines).encode()


def analyzed(text: bytes, **options: object) -> LogAnalysis:
    (log,) = memlens.analyze(io.BytesIO(text), times=False, **options).logs  # type: ignore[arg-type]
    return log


@pytest.mark.parametrize("kind", some([*LEAKS, *NO_LEAKS], 6), ids=lambda kind: kind.__name__)
def test_growth_is_claimed_over_steps_where_the_series_grows_and_nowhere_else(kind: Maker) -> None:
    chance = np.random.default_rng([7, *kind.__name__.encode()])
    for windows in (20, 50):
        live = np.maximum(made(kind, chance, windows)[0], 256)
        log = analyzed(levels(live.tolist()))
        assert log.steps is not None
        assert log.growth is not None
        expected = judge(live)
        assert log.growth.verdict == expected.verdict
        assert log.growth.live_bytes == (*live.tolist(), 0)
        assert log.growth.open_end == f"STEP {windows}"
        if expected.since is not None:
            assert log.growth.since == f"STEP {expected.since}"
            assert log.growth.gained_bytes == expected.gained_bytes
        # The same series over epochs is judged, too; over calls of one forward pass, which keep activations, nothing is claimed.
        epochs = analyzed(levels(live.tolist(), "EPOCH {} START\n")).growth
        assert epochs is not None
        assert epochs.verdict == expected.verdict
        parts = analyzed(levels(live.tolist(), "START SOT_CALL_{}\n"))
        assert parts.steps is not None
        assert not parts.steps.repeated
        assert parts.growth is None


def interleaved(train: Sequence[int], each: int, kept: int, evaluation: str = "eval step {}\n") -> bytes:
    """A run whose level at the end of each step is what is given; after every tenth step an evaluation, each step of which keeps so many
    bytes until it is over, and ``kept`` bytes for ever after its first step."""
    lines, before, count, address = [], 0, 0, 0x100000
    for step, level in enumerate(train):
        lines += [f"train step {step}\n", ALLOC.format(level, 0x1000 + step)]
        lines += [FREE.format(before, 0x1000 + step - 1)] if before else []
        before = level
        if step % 10 == 9:
            held = []
            for part in range(each):
                lines += [evaluation.format(count), ALLOC.format(512, address + count)]
                held.append(address + count)
                count += 1
                if part == 0 and kept:
                    lines.append(ALLOC.format(kept, 2 * address + count))
            lines += [FREE.format(512, pointer) for pointer in held]
    return "".join(lines).encode()


def test_growth_is_seen_in_training_where_evaluation_has_more_steps() -> None:
    log = analyzed(interleaved([65536 * (k + 1) for k in range(40)], 30, 0))
    assert log.steps is not None
    assert log.growth is not None
    assert (log.steps.by, log.steps.anchors, log.growth.verdict) == (r"^(train step \d+)", 40, "growing")
    assert log.growth.gained_bytes_per_window == 65536


@pytest.mark.parametrize("kind", some(NO_LEAKS, 6), ids=lambda kind: kind.__name__)
def test_evaluation_between_steps_adds_no_false_alarm(kind: Maker) -> None:
    chance = np.random.default_rng([11, *kind.__name__.encode()])
    for _ in range(5):
        live = np.maximum(made(kind, chance, 50)[0], 256)
        log = analyzed(interleaved(live.tolist(), 12, 0))
        assert log.growth is not None
        assert log.growth.verdict != "growing" or judge(live[:-1]).verdict == "growing"


@pytest.mark.parametrize(
    ("unit", "name", "said"),
    [
        ("step", BEFORE, "the part before the first step"),
        ("window", BEFORE, "the part before the first window"),
        ("window", "9", "window 9"),
        ("window", "STEP 9", "STEP 9"),
        ("window", "STEP 9 START", "STEP 9 START"),
    ],
)
def test_a_sentence_calls_a_window_what_the_table_calls_it(unit: str, name: str, said: str) -> None:
    assert window_label(name, unit) == said


def test_steps_are_the_windows_of_their_expression() -> None:
    text = levels([1000, 2000, 3000, 4000, 5000])
    log = analyzed(text)
    assert log.steps is not None
    assert log.by is None
    (whole,) = log.windows
    assert whole.whole
    cut = analyzed(text, by=log.steps.by)
    assert [window.to_dict(0) for window in log.steps.windows] == [
        {key: value for key, value in window.to_dict(0).items() if key not in ("composition", "activations", "segments", "stats", "unmatched", "lifetimes")}
        for window in cut.windows
    ]  # fmt: skip
    assert log.growth == cut.growth
    assert log.steps.anchors == 6
    assert [window.name for window in log.steps.windows] == [f"STEP {k}" for k in range(6)]
    assert [window.results["remaining"].remaining_bytes for window in log.steps.windows] == [1000] * 5 + [-5000]
    assert [window.results["peak"].peak_bytes for window in log.steps.windows] == [1000, 3000, 5000, 7000, 9000, 5000]


def test_the_events_of_one_of_several_logs_are_let_go(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(levels(range(1000, 300_000, 1000)))
    analysis = memlens.analyze([path, path], analyzers=["remaining", "growth"])
    gc.collect()
    assert not [one for one in gc.get_objects() if type(one) is Log and one.source.name == str(path)]
    (alone,) = memlens.analyze(path).logs
    for log in analysis.logs:
        assert log.steps is not None
        assert alone.steps is not None
        assert log.steps.to_dict() == alone.steps.to_dict()


@pytest.mark.parametrize(
    ("name", "since", "bytes_a_step"),
    [
        ("paddle/05_leak_activations_331.log.gz", "STEP 1", 512),  # the README: 512 bytes a step
        ("traps/late_leak.log.gz", "STEP 50", 1 << 20),  # 1 MiB a step from the middle of 100
        ("traps/leak900k.log.gz", "STEP 0", 900 << 10),  # 900 KiB each step
    ],
)
def test_known_leaks_have_their_figures(shared: Path, name: str, since: str, bytes_a_step: int) -> None:
    (log,) = memlens.analyze(shared / "data" / name, times=False).logs
    assert log.growth is not None
    assert (log.growth.since, log.growth.gained_bytes_per_window) == (since, bytes_a_step)


@pytest.mark.parametrize("cut", [{"whole": True}, {}], ids=["whole", "steps"])
def test_what_cannot_be_read_twice_has_the_roles_that_a_file_has(cut: dict[str, bool]) -> None:
    """Steps tell the roles of a log without names, whatever it is cut into."""
    path = Path(__file__).parents[2] / "examples/logs/cnn_5steps.log.gz"
    once = io.BufferedReader(_Pipe(gzip.decompress(path.read_bytes())))
    piped, file = (memlens.analyze(given, **cut) for given in (once, path))  # type: ignore[arg-type]
    assert piped.verdict == file.verdict
    assert "by_role" in {claim.kind for claim in piped.claims}


class _Pipe(io.BytesIO):
    """Text that can be read from front to back alone."""

    def seekable(self) -> bool:
        return False
