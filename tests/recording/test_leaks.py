"""Real programs that keep memory, in one way each: the verdict names the line of the program that makes it, and the variable that holds it."""

from __future__ import annotations

from pathlib import Path

import pytest
from night import NIGHT
from real_paddle import RealPaddle, command, environment, run

import memlens

PROGRAM = Path(__file__).parent / "programs" / "paddle_leaks.py"
#: By the kind of the leak: bytes of a block that each step leaves, what makes it (an operator, and where), and who holds it.
LEAKS = {
    "module": (256, "relu < {relu(self.first} forward", "module_list[*] (paddle_leaks.py)"),
    "local": (256, "relu < {relu(self.first} forward", "outputs[*] (main, paddle_leaks.py)"),
    "closure": (256, "relu < {relu(self.first} forward", "keep.seen[*] (main, paddle_leaks.py)"),
    "attribute": (256, "relu < {relu(self.first} forward", "net.maps[*] (main, paddle_leaks.py)"),
    "key": (256, "relu < {relu(self.first} forward", "by_key[*] (paddle_leaks.py)"),
    "total": (256, "relu < {relu(self.first} forward", "no variable"),  # it is saved for the backward pass of a sum
    "hook": (256, "MatmulGradNode < {loss.backward} main", "hooked[*] (main, paddle_leaks.py)"),
    "cycle": (256, "relu < {relu(self.first} forward", "garbage Node.tensor (a cycle that gc.collect() frees)"),
    "generator": (256, "mul < {copy =} waiting", "outputs[*].copy (main, paddle_leaks.py)"),
    "exception": (256, "mul < {doubled =} fails", "outputs[*].doubled (main, paddle_leaks.py)"),
    "optimizer": (128, "full_ < {optimizer.step} main", "optimizer optimizers[*].moment1[*] (main, paddle_leaks.py)"),
    "model": (
        128,
        "uniform < {self.first, self.second} __init__",
        "parameter outputs[*].first.weight (main, paddle_leaks.py)",
    ),
}


def place(words: str) -> str:
    """The name and the number of the line of the program that has some words."""
    lines = PROGRAM.read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if words in line]
    return f"{PROGRAM.name}:{number}"


@pytest.mark.paddle
@pytest.mark.parametrize("kind", [kind for kind in LEAKS if NIGHT or kind in {"attribute", "cycle"}])
def test_a_leak_is_named_by_its_line_and_its_variable(paddle: RealPaddle, tmp_path: Path, kind: str) -> None:
    log = tmp_path / "run.log.zst"
    done = run(command(paddle, log, [str(PROGRAM), kind], []), environment(paddle, tmp_path), tmp_path, log)
    assert done.code == 0
    size, maker, holder = LEAKS[kind]
    words = maker[maker.index("{") + 1 : maker.index("}")]
    found = next(one for one in memlens.analyze(log).to_dict()["claims"] if one["kind"] == "piling_up")
    assert found["block_bytes"] == size * 1024
    assert (found["owner"], found["holder"]) == (maker.replace(f"{{{words}}}", place(words)), holder)
