"""Real programs that keep memory, in one way each: the verdict names the line of the program that makes it, and the variable that holds it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from night import NIGHT
from real_paddle import RealPaddle, command, environment, run
from torch_programs import Programs, real_torch

import memlens

PROGRAMS = Path(__file__).parent / "programs"
PROGRAM, TORCH_PROGRAM = PROGRAMS / "paddle_leaks.py", PROGRAMS / "torch_leaks.py"
#: The claims that say what grows: blocks of one size, or of any.
NAMED = ("piling_up", "grown_by")
#: By the kind of the leak: KiB of a block that each step leaves, 0 where no two are alike, what makes it (an operator, and where), and who holds it.
LEAKS = {
    "module": (256, "relu < {relu(self.first} forward", "module_list[*] (paddle_leaks.py)"),
    "local": (256, "relu < {relu(self.first} forward", "outputs[*] (main, paddle_leaks.py)"),
    "lengths": (0, "relu < {relu(self.first} forward", "outputs[*] (main, paddle_leaks.py)"),
    "joined": (0, "concat < {paddle.concat} main", "joined (main, paddle_leaks.py)"),
    "closure": (256, "relu < {relu(self.first} forward", "keep.seen[*] (main, paddle_leaks.py)"),
    "attribute": (256, "relu < {relu(self.first} forward", "net.maps[*] (main, paddle_leaks.py)"),
    "class": (256, "relu < {relu(self.first} forward", "Net.all_maps[*] (paddle_leaks.py)"),
    "cached": (128, "mul < {return self.first.weight} scaled", "Net.scaled[*] (paddle_leaks.py)"),
    "key": (256, "relu < {relu(self.first} forward", "by_key[*] (paddle_leaks.py)"),
    "total": (256, "relu < {relu(self.first} forward", "total.grad_fn (main, paddle_leaks.py)"),
    "saving": (256, "relu < {relu(self.first} forward", "Same.saving[*].container[*] (paddle_leaks.py)"),
    "hook": (256, "MatmulGradNode < {loss.backward} main", "hooked[*] (main, paddle_leaks.py)"),
    "cycle": (256, "relu < {relu(self.first} forward", "garbage Node.tensor (a cycle that gc.collect() frees)"),
    "generator": (256, "mul < {copy =} waiting", "outputs[*].copy (main, paddle_leaks.py)"),
    "exception": (256, "mul < {doubled =} fails", "outputs[*].doubled (main, paddle_leaks.py)"),
    "optimizer": (128, "full_ < {optimizer.step} main", "optimizer optimizers[*] (main, paddle_leaks.py)"),
    "model": (
        128,
        "uniform < {self.first, self.second} __init__",
        "parameter outputs[*].first.weight (main, paddle_leaks.py)",
    ),
}
#: The same of PyTorch, whose profiler names a function by its first line, or by the one at which the profile began.
TORCH_LEAKS = {
    "module": (256, "aten::clamp_min < {def forward} forward", "module_list[*] (program.py)"),
    "local": (256, "aten::clamp_min < {def forward} forward", "outputs[*] (train, program.py)"),
    "lengths": (0, "aten::clamp_min < {def forward} forward", "outputs[*] (train, program.py)"),
    "joined": (0, "aten::cat < {with (} train", "joined (train, program.py)"),
    "closure": (256, "aten::clamp_min < {def forward} forward", "keep.seen[*] (train, program.py)"),
    "attribute": (256, "aten::clamp_min < {def forward} forward", "net.maps[*] (train, program.py)"),
    "class": (256, "aten::clamp_min < {def forward} forward", "Net.all_maps[*] (program.py)"),
    "cached": (128, "aten::mul < {lru_cache(None)} scaled", "Net.scaled[*] (program.py)"),
    "key": (256, "aten::clamp_min < {def forward} forward", "by_key[*] (program.py)"),
    "context": (256, "aten::clamp_min < {def forward} forward", "context[*] (a context variable)"),
    "sparse": (256, "aten::clamp_min < {def forward} forward", "outputs[*] (train, program.py)"),
    "total": (256, "aten::clamp_min < {def forward} forward", "total.grad_fn (train, program.py)"),
    "graph": (256, "aten::clamp_min < {def forward} forward", "outputs[*].grad_fn (train, program.py)"),
    "hook": (256, "aten::mm < {with (} train", "hooked[*] (train, program.py)"),
    "cycle": (256, "aten::clamp_min < {def forward} forward", "garbage Node.tensor (a cycle that gc.collect() frees)"),
    "generator": (512, "aten::cat < {def waiting} waiting", "outputs[*].copy (train, program.py)"),
    "exception": (512, "aten::cat < {def fails} fails", "outputs[*].doubled (train, program.py)"),
    "optimizer": (128, "aten::empty_strided < {with (} train", "optimizer optimizers[*] (train, program.py)"),
    "model": (
        128,
        "aten::empty < {def __init__(self) ->} __init__",
        "parameter outputs[*].first.weight (train, program.py)",
    ),
}


def place(program: Path, words: str) -> str:
    """The name and the number of the line of a program that has some words."""
    lines = program.read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if words in line]
    return f"{program.name}:{number}"


@pytest.mark.paddle
@pytest.mark.parametrize("kind", [kind for kind in LEAKS if NIGHT or kind in ("total", "saving")])
def test_a_leak_is_named_by_its_line_and_its_variable(paddle: RealPaddle, tmp_path: Path, kind: str) -> None:
    if kind == "joined" and paddle.version.startswith("2."):
        pytest.skip(
            "each block lives for a step: it is looked at where the peak rises, of which Paddle 2.6 has no counter here"
        )
    log = tmp_path / "run.log.zst"
    done = run(command(paddle, log, [str(PROGRAM), kind], []), environment(paddle, tmp_path), tmp_path, log)
    assert done.code == 0
    assert_named(log, kind)


def assert_named(log: Path, kind: str) -> None:
    """See that the claim of growth names what makes the blocks, and who holds them."""
    size, maker, holder = LEAKS[kind]
    words = maker[maker.index("{") + 1 : maker.index("}")]
    (found,) = (one for one in memlens.analyze(log).to_dict()["claims"] if one["kind"] in NAMED)
    assert found.get("block_bytes", 0) == size * 1024
    assert (found["owner"], found["holder"]) == (maker.replace(f"{{{words}}}", place(PROGRAM, words)), holder)


@pytest.mark.changed("recording")
@pytest.mark.paddle
def test_a_program_of_paddle_that_is_started_by_itself_says_the_same(paddle: RealPaddle, tmp_path: Path) -> None:
    log, kind = tmp_path / "run.log", "closure"
    begin = f"import memlens, runpy, sys; memlens.names(); sys.argv = ['', {kind!r}]; runpy.run_path({str(PROGRAM)!r}, run_name='__main__')"
    variables = environment(paddle, tmp_path, GLOG_vmodule="auto_g*=10,b*=3", PYTHONUNBUFFERED="1")
    with log.open("wb") as output:
        words = [paddle.python, "-c", begin]
        assert (
            subprocess.run(words, env=variables, cwd=tmp_path, stdout=output, stderr=output, check=False).returncode
            == 0
        )
    assert_named(log, kind)


@pytest.mark.torch
@pytest.mark.parametrize(
    "kind", [kind for kind in TORCH_LEAKS if NIGHT or kind in {"total", "cycle", "lengths", "sparse", "context"}]
)
def test_a_leak_of_pytorch_is_named_by_its_function_and_its_variable(programs: Programs, kind: str) -> None:
    done = programs.recorded(TORCH_PROGRAM.read_text(), real_torch(), LEAK=kind)
    assert done.returncode == 0, done.stderr
    size, maker, holder = TORCH_LEAKS[kind]
    words = maker[maker.index("{") + 1 : maker.index("}")]
    line = place(TORCH_PROGRAM, words).partition(":")[2]
    found = memlens.analyze(programs.folder / "run.json").to_dict()["claims"]
    piles = [one for one in found if one["kind"] in NAMED]
    assert piles[0].get("block_bytes", 0) == size * 1024
    assert (maker.replace(f"{{{words}}}", f"program.py({line}):"), holder) in [
        (one["owner"], one["holder"]) for one in piles
    ]
