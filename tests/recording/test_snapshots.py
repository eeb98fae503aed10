"""``memlens record --preset torch``: a program of PyTorch recorded from outside, with a stand-in for one that has a device."""

from __future__ import annotations

import subprocess
import sys

import pytest
from commands import process
from torch_programs import Programs

import memlens

USES = "import torch\nkept = torch.alloc(1000)\npassing = torch.alloc(500); passing.free()\n"


def recorded(programs: Programs, text: str, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the stand-in through the command line."""
    (programs.folder / "program.py").write_text(text)
    options = ("--env", f"PYTHONPATH={programs.stand_in()}", *options)
    words = ("record", "--preset", "torch", "-o", "run.pickle", *options, "--", sys.executable, "program.py")
    return process(*words, cwd=programs.folder, env=variables)


def test_a_snapshot_is_written_and_judged_and_the_streams_are_the_programs(programs: Programs) -> None:
    done = recorded(programs, USES + "import sys; print('out'); print('error', file=sys.stderr); sys.exit(7)")
    assert (done.returncode, done.stdout) == (7, "out\n")
    assert "\nerror\n" in done.stderr
    assert programs.files == ["run.pickle"]
    assert memlens.analyze(programs.folder / "run.pickle").answer.sentences[0] in done.stderr
    assert "memlens: run.pickle: " in done.stderr
    assert "of log in" not in done.stderr


def test_of_a_program_that_runs_out_of_memory_both_snapshots_are_named_and_the_last_is_judged(
    programs: Programs,
) -> None:
    done = recorded(programs, USES + "torch.alloc(2_000_000)")
    assert done.returncode == 1
    assert programs.files == ["run.oom.pickle", "run.pickle"]
    assert "run.oom.pickle: " in done.stderr
    assert "out of memory" in str(memlens.analyze(programs.folder / "run.pickle").answer).lower()
    assert memlens.analyze(programs.folder / "run.pickle").answer.sentences[0] in done.stderr
    assert done.stderr.endswith("next: memlens analyze run.pickle\n")


@pytest.mark.parametrize(("allowed", "left"), [("", 997_952), ("4096", 2048)])
def test_what_the_device_has_and_what_of_it_the_process_may_have_is_noted(
    programs: Programs, allowed: str, left: int
) -> None:
    # 2,048 of the stand-in's 1,000,000 bytes are in use when 3,000 or 999,000 are asked for.
    recorded(programs, f"import torch\nkept = torch.alloc(2048)\ntorch.alloc({3000 if allowed else 999_000})", STAND_IN_ALLOWED=allowed)  # fmt: skip
    for name in programs.files:
        (failure,) = memlens.analyze(programs.folder / name).logs[0].ooms
        assert failure.device_total_bytes == (4096 if allowed else 1_000_000)
        assert failure.limit_bytes == (4096 if allowed else None)
        assert (failure.device_free_bytes, failure.cause) == (left, "too much")
        assert failure.elsewhere_bytes == (None if allowed else 0)


def test_without_a_device_it_is_said_at_once(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    from memlens.recording import logs as snapshots

    told: list[str] = []
    for why in ("", "no CUDA device"):
        monkeypatch.setattr(snapshots, "no_device", lambda why=why: why)
        output = programs.folder / "run.pickle"
        recording = memlens.record("true", preset="torch", output=output, tell=told.append)
        assert recording.logs == ()
        assert (told[0] == "no CUDA device: nothing will be recorded") == bool(why)
        told.clear()


def test_snapshots_of_an_earlier_run_go_only_with_force_and_only_when_the_program_starts(programs: Programs) -> None:
    old = programs.folder / "run.pickle"
    old.write_bytes(b"old")
    (programs.folder / "run.rank0.pickle").write_bytes(b"old")
    assert "run.pickle exists" in recorded(programs, USES).stderr
    with pytest.raises(memlens.MemlensError, match="no such command"):
        memlens.record(["nosuch-command"], preset="torch", output=old, force=True)
    assert old.read_bytes() == b"old"
    done = recorded(programs, USES, "-f")
    assert done.returncode == 0
    assert programs.files == ["run.pickle"]
    assert memlens.analyze(old).logs[0].windows[0].results["peak"].peak_bytes == 1500


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"output": "run.pickle.zst"}, "not compressed"),
        ({"output": "run-{rank}.pickle"}, "no meaning"),
        ({"output": "x.pickle", "passed": "none"}, "its output"),
    ],
)
def test_what_makes_no_sense_with_snapshots_is_wrong_usage(options: dict[str, str], match: str) -> None:
    with pytest.raises(memlens.UsageError, match=match):
        memlens.record("true", preset="torch", **options)  # type: ignore[arg-type]
