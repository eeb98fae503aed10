"""No output begins a line with what a CI service takes for a command, whatever a log says."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from night import some

from memlens.cli import main
from memlens.text import no_command

COMMANDS = (
    "::error::x",
    "::set-env name=A::b",
    "##[error]x",
    "##vso[task.complete]x",
    "##teamcity[buildStop]",
    " ::stop-commands::x",
)
#: GitHub trims a line before it looks; the second kind is found anywhere.
TAKEN = re.compile(r"(?m)^\s*::|##\[|##vso\[|##teamcity\[")


def log_of(names: list[str], leak: int) -> str:
    """Steps with hostile anchors, owners and failures; each keeps a block of ``leak`` bytes."""
    lines = []
    for step, name in enumerate(names * 3):
        lines += [name, f"{name} step {step} START", f"OWNER {name}"]
        lines += [f"Alloc {leak} bytes, ptr = 0x{0x1000 + step * leak:x}", f"{name} {name}"]
        lines += [f"Alloc 512 bytes, ptr = 0x{0x900000 + step:x}", f"Free 512 bytes, ptr = 0x{0x900000 + step:x}"]
    lines.append(
        f"ResourceExhaustedError: Out of memory error on GPU 0. Cannot allocate 98.000244MB memory on GPU 0. {names[0]}"
    )
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("seed", some(range(3)))
def test_no_verb_writes_a_command_of_a_ci_service(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = random.Random(seed)
    names = rng.sample(COMMANDS, 3)
    logs = [f"{rng.choice(COMMANDS)}{k}.log".strip() for k in range(2)]
    for k, log in enumerate(logs):
        Path(log).write_text(log_of(names, 4096 * (1 + k)))
    by = ["--by", "(.*) step [0-9]+ START"]
    verbs = [
        *(["analyze", "--owner", "OWNER (.*)", *more, "--format", form, logs[0]]
          for more in ([], by, ["--full"]) for form in ("table", "json", "csv", "markdown")),
        *(["diff", *by, "--format", form, *logs] for form in ("table", "json", "csv", "markdown")),
        *(["compare", "--format", form, *logs] for form in ("table", "markdown", "csv")),
        *(["gate", "--format", form, *logs] for form in ("table", "markdown", "csv")),
        ["formats", *logs],
        ["block", logs[0], "4"],
        ["block", logs[0], "4", "x\n::error::y"],
        ["whatif", logs[0]],
        ["analyze", "-v", logs[0]],
        ["analyze", "--start", names[0] + "zz", logs[0]],
        ["analyze", "::error::missing"],
    ]  # fmt: skip
    for verb in verbs:
        main(verb)
        out, err = capfd.readouterr()
        assert out or err, verb
        for text in (out, err):
            assert not (found := TAKEN.search(text)), (verb, text[max(found.start() - 80, 0) : found.end() + 80])


def test_a_command_is_written_so_that_it_can_be_read() -> None:
    assert no_command("a\n ::error::b") == "a\n .:error::b"
    assert no_command("torch::nn ## [x] ##vso[y]") == "torch::nn ## [x] .#vso[y]"
