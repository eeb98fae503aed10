"""However a trainer prints its steps, they are found: a leak is said, what does not grow is not said to, and each window holds its step."""

from __future__ import annotations

import io
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from night import some
from printed_steps import LEAK, PRINTS, Run, marker, run

import memlens
from memlens.analyzing.result import LogAnalysis

#: The number that a window's name has of the first step that each trainer prints, where its numbers go on over all epochs.
_FIRST = {
    "megatron": 1,
    "fastai": 0,
    "step_loss": 0,
    "global_step": 0,
    "nano_gpt": 0,
    "detectron": 0,
    "server": 0,
    "loss": 1,
    "done": 1,
}


def analyzed(run: Run) -> LogAnalysis:
    (log,) = memlens.analyze(io.BytesIO(run.text)).logs
    return log


def steps_in(log: LogAnalysis, run: Run) -> list[tuple[str, list[int]]]:
    """The name of each window, and the steps whose blocks its lines allocate: by their sizes in the text."""
    assert log.steps is not None
    sizes = {marker(step): step for step in range(run.steps)}
    lines = run.text.decode().split("\n")
    found = []
    for window in log.steps.windows:
        text = "\n".join(lines[window.start_line - 1 : window.end_line])
        allocated = map(int, re.findall(r"Alloc (\d+) bytes", text))
        found.append((window.name, [sizes[size] for size in allocated if size in sizes]))
    return found


@pytest.mark.parametrize("name", some(PRINTS, 2))
def test_steps_are_found_and_judged_however_they_are_printed(name: str, rounds: Callable[[int], range]) -> None:
    wrong: Counter[str] = Counter()
    tried = 0
    for seed in rounds(2):
        chance = random.Random(f"{name} {seed}")
        for leak in (True, False):
            tried += 1
            made = run(name, chance, leak=leak, at_exit=seed % 2 == 0)
            log = analyzed(made)
            kinds = {claim.kind for claim in log.claims}
            right = ("growing" in kinds) == leak and log.growth is not None
            right = right and (not leak or log.growth.gained_bytes_per_window == LEAK)  # type: ignore[union-attr]
            wrong["verdict"] += not right
            assert not (leak and "not_growing" in kinds), (name, seed)  # an all-clear
            # Each step is in a window of its own; what precedes the first print holds the first one too.
            windows = steps_in(log, made)
            assert windows[0][0] == "(before)"
            wrong["windows"] += [step for _, steps in windows for step in steps] != [*range(made.steps)]
            wrong["windows"] += any(len(steps) > 1 for _, steps in windows)
            if (first := _FIRST.get(name)) is not None:
                numbers = [
                    (int(re.findall(r"\d+", text)[-1]) - first, steps)
                    for text, steps in windows
                    if re.search(r"\d", text)
                ]
                wrong["names"] += any(steps != [number] for number, steps in numbers)
    assert sum(wrong.values()) <= 0.03 * tried, wrong


def test_where_lines_begin_steps_they_hold_what_follows_and_where_nothing_is_found_that_is_said() -> None:
    made = run("done", random.Random(1), leak=True)
    lines = made.text.decode().split("one more batch is done\n")
    begun = "".join(f"{text}step {k}\n" if k < made.steps else text for k, text in enumerate(lines))
    # Each line now stands before the next step: the last one is followed by what is freed at the end alone.
    log = analyzed(Run(begun.encode(), made.steps, LEAK))
    assert log.steps is not None
    assert log.steps.ends
    moved = re.sub(r"(Loading the data\n)", r"\1", begun)
    setup, first = moved.split("Alloc 262144 bytes", 1)
    opened = setup[: setup.rindex("\n") + 1] + "step 0\n" + setup[setup.rindex("\n") + 1 :] + "Alloc 262144 bytes"
    opened += re.sub(r"^step (\d+)$", lambda line: f"step {int(line[1]) + 1}", first, flags=re.MULTILINE)
    opened = opened.replace(f"step {made.steps}\n", "")
    log = analyzed(Run(opened.encode(), made.steps, LEAK))
    assert log.steps is not None
    assert not log.steps.ends
    assert steps_in(log, Run(opened.encode(), made.steps, LEAK))[1:] == [(f"step {k}", [k]) for k in range(made.steps)]
    # Without any of these lines there is no all-clear.
    silent = analyzed(Run("".join(lines).encode(), made.steps, LEAK))
    assert silent.steps is None
    assert silent.verdict.endswith("no step lines found; growth not checked (use --by).")


@pytest.mark.parametrize("name", some(PRINTS))
def test_two_runs_are_cut_into_the_steps_that_each_has_alone(name: str, tmp_path: Path) -> None:
    runs = [run(name, random.Random(name), leak=leak) for leak in (False, True)]
    paths = [tmp_path / "base.log", tmp_path / "head.log"]
    for path, made in zip(paths, runs, strict=True):
        path.write_bytes(made.text)
    found = memlens.diff(*paths)
    names = [[window.name for window in found.windows]]
    names += [[window for window, _ in steps_in(analyzed(made), made)] for made in runs]
    assert names[0] == names[1] == names[2]
    assert found.ends
    assert sum(window.d_remaining_bytes == LEAK for window in found.windows) == runs[0].steps


def test_a_bar_that_loads_a_checkpoint_marks_no_steps() -> None:
    made = run("tqdm", random.Random(1), leak=True)
    loading = re.sub(rb"\r( *\d+%)", rb"\rLoading checkpoint shards: \1", made.text)
    log = analyzed(Run(loading, made.steps, LEAK))
    assert log.growth is None
