"""The memory history of PyTorch: what is recorded, when it is written, and what is said where nothing can be.

A stand-in (``stand_in_torch.py``) has the place of a device; the tests without one, and those of the import, run the real PyTorch too.
What torch itself does with memory, call stacks and threads on a device is not shown here.
"""

from __future__ import annotations

import pickle
import signal
from typing import Any

import numpy as np
import pytest
from torch_programs import Programs, ended_by, real_torch

import memlens


def block(programs: Programs, text: str, **variables: str) -> Any:
    """Run a program with the stand-in on its path, and memlens."""
    return programs.run(text, path=(programs.source, programs.stand_in()), **variables)


def snapshot(programs: Programs, name: str = "run.pickle") -> dict[str, Any]:
    with (programs.folder / name).open("rb") as file:
        return dict(pickle.load(file))


def actions(programs: Programs, name: str = "run.pickle") -> list[str]:
    return [entry["action"] for entry in snapshot(programs, name)["device_traces"][0]]


# --- a block -----------------------------------------------------------------------------------------------------------


def test_a_block_is_written_with_the_figures_of_the_allocator(programs: Programs) -> None:
    done = block(
        programs,
        "import torch, memlens\n"
        "with memlens.record_torch('run.pickle') as recording:\n"
        "    kept = [torch.alloc(1000 * step) for step in range(1, 5)]\n"
        "    passing = torch.alloc(7000); passing.free(); kept[0].free()\n"
        "print(torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated(), *recording.written)\n",
    )
    peak, level, *written = done.stdout.split()
    assert written == [str(programs.folder / "run.pickle")]
    results = memlens.analyze(programs.folder / "run.pickle").logs[0].windows[0].results
    assert results["peak"].peak_bytes == int(peak) == 1000 + 2000 + 3000 + 4000 + 7000
    assert results["remaining"].live_bytes == int(level) == 2000 + 3000 + 4000
    assert programs.files == ["run.pickle"]


RECOMPUTES = """
import sys, torch
kept = []
def step():
    torch.alloc(1000).free()  # a temporary of one call
    kept.append(torch.alloc(2000))
    if len(kept) > 1: kept[-2].free()
def recomputes():
    sys.modules["torch.utils.checkpoint"]._recomputation_hook()
{}
print([call[2] for call in torch.calls if call[0] == "record"])
"""


@pytest.mark.parametrize(
    ("text", "contexts", "known"),
    [
        ("step(); step(); recomputes(); step(); recomputes(); step()", ["all", "alloc"], 3),
        ("step(); step(); step(); step()", ["all"], 7),
    ],
)
def test_what_is_freed_has_no_stacks_from_where_layers_are_computed_anew(
    programs: Programs, text: str, contexts: list[str], known: int
) -> None:
    done = programs.recorded(RECOMPUTES.format(f"torch.cuda.init()\n{text}"))
    assert (done.stdout, done.stderr) == (f"{contexts}\n", "")
    log = memlens.read(programs.folder / "run.pickle")
    freed = np.flatnonzero(log.kind == memlens.Kind.FREE)
    assert log.owner is not None
    assert (log.owner[log.kind == memlens.Kind.ALLOC] >= 0).all()
    # Four steps give back a temporary each, and all but the first of them the block of the step before.
    assert (log.owner[freed] >= 0).tolist() == [number < known for number in range(7)]
    # Where nobody knows what runs when a block is given back, its life tells nothing.
    assert log.holder is not None
    short = freed[log.size[freed] == 1000]
    assert [log.holder_names[k] if k >= 0 else "" for k in log.holder[short].tolist()] == [
        "a temporary" if number < (known + 1) // 2 else "" for number in range(4)
    ]


def test_a_failing_block_is_written_and_its_exception_passes(programs: Programs) -> None:
    done = block(
        programs,
        "import torch, memlens\n"
        "with memlens.record_torch('run.pickle'):\n"
        "    torch.alloc(1000)\n"
        "    raise KeyError('of the program')\n",
    )
    assert done.returncode == 1
    assert done.stderr.endswith("KeyError: 'of the program'\n")
    assert actions(programs) == ["segment_alloc", "alloc"]


TRIES = """
import torch, memlens
def step(size):
    kept = torch.alloc(600_000)
    try:
        torch.alloc(size)
    except torch.OutOfMemoryError:
        kept.free()  # as unwinding does
with memlens.record_torch("run.pickle") as recording:
    step(700_000)
    step(800_000)
    print(recording.ooms, len(recording.written))
print(recording.ooms, len(recording.written))
"""


def test_the_first_moment_without_memory_is_written_at_once_and_the_end_has_all_of_them(programs: Programs) -> None:
    done = block(programs, TRIES)
    assert done.stdout == "2 1\n2 2\n", done.stderr
    assert programs.files == ["run.oom.pickle", "run.pickle"]
    first, end = (memlens.analyze(programs.folder / name).logs[0] for name in programs.files)
    assert [oom.requested_bytes for oom in first.ooms] == [700_000]
    assert first.windows[0].results["remaining"].live_bytes == 600_000
    assert [oom.requested_bytes for oom in end.ooms] == [700_000, 800_000]
    assert end.windows[0].results["remaining"].live_bytes == 0
    assert done.stderr.count("out of memory: the snapshot of this moment is ") == 1


def test_when_memory_runs_out_again_it_is_looked_for_who_holds_it(programs: Programs) -> None:
    """The first time the snapshot of the moment does so."""
    names = "types.SimpleNamespace(start=lambda *_: None, recording=lambda: None, failed=lambda: print('looked'))"
    done = block(programs, f"import sys, types\nsys.modules['_memlens.torch_names'] = {names}\n{TRIES}")
    assert done.stdout == "looked\n2 1\n2 2\n", done.stderr


def test_a_moment_that_cannot_be_written_leaves_the_error_of_the_program(programs: Programs) -> None:
    done = block(
        programs,
        "import torch, memlens, os\n"
        "os.mkdir('gone')\n"
        "with memlens.record_torch('gone/run.pickle'):\n"
        "    os.rmdir('gone')\n"
        "    torch.alloc(2_000_000)\n",
    )
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if line.startswith("memlens: ")]
    assert "no snapshot of the moment" in said[0]
    assert "cannot write" in said[1]
    assert "OutOfMemoryError: CUDA out of memory" in done.stderr.splitlines()[-1]


REFUSED = """
import memlens
try:
    with memlens.record_torch({arguments}):
        print("ran")
except memlens.MemlensError as error:
    print(type(error).__name__, error.exit_code, error.message, sep=" | ")
    print(error.hint)
import sys
if "torch" in sys.modules: print(getattr(sys.modules["torch"], "calls", []))
"""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("'run.pickle', stacks='c'", "UsageError | 2 | no stacks 'c'"),
        ("'run.pickle', entries=0", "UsageError | 2 | entries is at least 1"),
        ("'there.pickle'", "OutputError | 1 | {folder}/there.pickle exists"),
        ("'other.pickle'", "OutputError | 1 | {folder}/other.oom.pickle exists"),
        ("'none/run.pickle'", "OutputError | 1 | cannot write {folder}/none/run.pickle: there is no directory"),
    ],
)
def test_what_makes_no_sense_is_said_before_anything_runs(programs: Programs, arguments: str, expected: str) -> None:
    for name in ("there.pickle", "other.oom.pickle"):
        (programs.folder / name).write_text("kept")
    done = block(programs, REFUSED.format(arguments=arguments))
    assert done.stdout.startswith(expected.format(folder=programs.folder)), done.stderr
    assert "ran" not in done.stdout
    assert programs.files == ["other.oom.pickle", "there.pickle"]


@pytest.mark.parametrize(
    ("torch", "expected"),
    [
        (None, "there is no PyTorch here: "),
        ("STAND_IN_DEVICES=0", "no CUDA device"),
        (
            "del torch._C._cuda_getDeviceCount",
            "no CUDA device: this build of PyTorch, 2.13.0+standin, is one without CUDA",
        ),
        (
            "del torch._C._cuda_record_memory_history",
            "PyTorch 2.13.0+standin records no memory history that can be limited",
        ),
        (
            "def broken(): raise RuntimeError('no driver')\ntorch.cuda.init = broken",
            "PyTorch does not record its memory history: no driver",
        ),
    ],
)
def test_without_a_device_it_says_so_before_the_block_runs(
    programs: Programs, torch: str | None, expected: str
) -> None:
    program = REFUSED.format(arguments="'run.pickle'")
    if torch is None:
        done = programs.run(program, path=(programs.source,))
    elif torch.startswith("STAND_IN"):
        done = block(programs, program, STAND_IN_DEVICES="0")
    else:
        done = block(programs, f"import torch\n{torch}\n{program}")
    assert done.stdout.startswith(f"MemlensError | 1 | {expected}"), done.stderr
    assert "ran" not in done.stdout
    assert programs.files == []


# --- a program that knows nothing of it ---------------------------------------------------------------------------------

USES = "import torch\nkept = torch.alloc(1000)\npassing = torch.alloc(500); passing.free()\n"
#: How a program ends, what it returns, and which snapshots it leaves.
ENDS = {
    "at its end": ("", 0, ["run.pickle"]),
    "by sys.exit": ("import sys; sys.exit(7)", 7, ["run.pickle"]),
    "by an exception": ("1 / 0", 1, ["run.pickle"]),
    "without memory": ("torch.alloc(2_000_000)", 1, ["run.oom.pickle", "run.pickle"]),
    "by SIGTERM": (
        "import os; os.kill(os.getpid(), 15); print('not reached')",
        ended_by(signal.SIGTERM),
        ["run.pickle"],
    ),
    "by SIGINT": ("import os; os.kill(os.getpid(), 2); print('not reached')", ended_by(signal.SIGINT), ["run.pickle"]),
    "by SIGKILL": ("import os; os.kill(os.getpid(), 9)", ended_by(signal.SIGKILL), []),
    "by os._exit": ("import os; os._exit(5)", 5, []),
}


@pytest.mark.parametrize(("end", "code", "files"), ENDS.values(), ids=ENDS)
def test_a_program_ends_as_it_does_unrecorded_and_leaves_its_history(
    programs: Programs, end: str, code: int, files: list[str]
) -> None:
    alone = programs.run(USES + end, path=(programs.stand_in(),))
    recorded = programs.recorded(USES + end)
    assert (recorded.returncode, recorded.stdout) == (alone.returncode, alone.stdout) == (code, "")
    assert [line for line in recorded.stderr.splitlines() if not line.startswith("memlens: ")] == (
        alone.stderr.splitlines()
    )
    assert programs.files == files
    for name in files:
        results = memlens.analyze(programs.folder / name).logs[0].windows[0].results
        assert (results["peak"].peak_bytes, results["remaining"].live_bytes) == (1500, 1000)


def test_a_program_that_never_uses_cuda_writes_nothing_and_says_nothing(programs: Programs) -> None:
    done = programs.recorded("import torch\nprint(torch.calls, torch.cuda.is_available())")
    assert (done.returncode, done.stdout, done.stderr) == (0, "[] True\n", "")
    assert programs.files == []


def test_a_handler_of_the_program_keeps_its_signal(programs: Programs) -> None:
    handles = "import os, signal, sys\nsignal.signal(15, lambda *_: (print('handled'), sys.exit(3)))\n"
    for text in (handles + USES, USES + handles):
        done = programs.recorded(f"{text}os.kill(os.getpid(), 15)\n")
        assert (done.returncode, done.stdout) == (3, "handled\n")
    done = programs.recorded(
        "import os, signal\nsignal.signal(15, signal.SIG_IGN)\n" + USES + "os.kill(os.getpid(), 15)\n"
    )
    assert done.returncode == 0


def test_a_signal_during_the_writing_ends_the_process_after_it(programs: Programs) -> None:
    done = programs.recorded(
        USES + "import os\n"
        "whole = torch.cuda.memory._snapshot\n"
        "def slow():\n    os.kill(os.getpid(), 15)\n    return whole()\n"
        "torch.cuda.memory._snapshot = slow\n"
    )
    assert done.returncode == ended_by(signal.SIGTERM)
    assert len(actions(programs)) == 7
    assert programs.files == ["run.pickle"]


def test_a_forked_child_does_not_write_over_its_parent(programs: Programs) -> None:
    done = programs.recorded(
        USES + "import os, sys\n"
        "if os.fork() == 0:\n    sys.exit(0)\n"
        "os.wait()\nprint(os.path.exists('run.pickle'))\n"
        "if os.fork() == 0:\n    os.kill(os.getpid(), 15)\n"
        "print(os.wait()[1], os.path.exists('run.pickle'))\n"
    )
    assert done.stdout.splitlines()[-2:] == ["False", "15 False"], done.stderr
    assert programs.files == ["run.pickle"]


@pytest.mark.parametrize("way", ["fork", "spawn", "forkserver"])
def test_processes_that_use_cuda_write_a_file_each(programs: Programs, way: str) -> None:
    done = programs.recorded(
        "import multiprocessing, torch\n"
        "def work(size):\n    global kept\n    kept = torch.alloc(size)\n    if size == 3000: raise KeyError\n"
        "def idle(): pass\n"
        "if __name__ == '__main__':\n"
        f"    context = multiprocessing.get_context({way!r})\n"
        "    jobs = [context.Process(target=work, args=(size,)) for size in (1000, 2000, 3000)]\n"
        "    jobs.append(context.Process(target=idle))\n"
        "    [job.start() for job in jobs]; [job.join() for job in jobs]\n"
        "    kept = torch.alloc(4000)\n"
    )
    assert done.returncode == 0, done.stderr
    files = programs.files
    assert len(files) == 4
    assert sum(name.startswith("run.pid") for name in files) == 3
    sizes = {snapshot(programs, name)["device_traces"][0][-1]["size"] for name in files}
    assert sizes == {1000, 2000, 3000, 4000}


def test_ranks_are_named_and_a_second_attempt_keeps_the_first_one(programs: Programs) -> None:
    for _ in range(2):
        programs.recorded(USES, RANK="3")
    first, second = programs.files
    assert first == "run.rank3.pickle"
    assert second.startswith("run.rank3.pid")


def test_a_program_that_records_itself_is_left_alone(programs: Programs) -> None:
    done = programs.recorded(
        "import torch\n"
        "kept = torch.alloc(1)\n"
        "torch.cuda.memory._record_memory_history(enabled=None)\n"
        "torch.cuda.memory._record_memory_history(max_entries=2)\n"
        "kept = torch.alloc(1000)\n"
        "torch.cuda.memory._dump_snapshot('own.pickle')\n"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert programs.files == ["own.pickle", "run.pickle"]


CHILDREN = (
    "import subprocess, sys, torch\n"
    "for _ in range(2): subprocess.run([sys.executable, '-c', 'import torch; print(1)'], check=True)\n"
)


@pytest.mark.torch
def test_the_real_torch_is_imported_as_ever_and_says_that_it_has_no_device(programs: Programs) -> None:
    python = real_torch()
    if programs.run("import torch; print(torch.cuda.is_available())", python=python).stdout == "True\n":
        pytest.skip("this PyTorch has a device")
    done = programs.recorded(
        "import importlib.util; importlib.util.find_spec('torch')\n"
        "import torch.nn, sys\n"
        "print(torch.ones(3).sum().item(), torch.cuda.is_initialized())\n"
        "print(torch.__loader__ is torch.__spec__.loader, sys.modules['torch'] is torch)\n"
        "print([finder for finder in sys.meta_path if 'memlens' in str(type(finder))])\n" + CHILDREN,
        python=python,
    )
    assert (done.returncode, done.stdout) == (0, "3.0 False\nTrue True\n[]\n1\n1\n"), done.stderr
    assert done.stderr.startswith("memlens: no CUDA device")
    assert len(done.stderr.splitlines()) == 1
    assert programs.files == []


#: The real torch of a build without CUDA, with functions put where its compiled part has none: what memlens asks of torch's own Python, and what
#: that asks of the compiled part, in the order and with the arguments of torch's signatures.
COMPILED = """
import os, sys, torch, types
asked, state = [], {"enabled": False, "entries": []}
def record(enabled, context, stacks, entries, clear, compiled, annotations, skipped):
    asked.append(("record", enabled, context, stacks, entries, clear, annotations, skipped))
    state["enabled"] = enabled is not None
    if not enabled: state["entries"].clear()
def snapshot(pool):
    asked.append("snapshot")
    return {"segments": [], "device_traces": [list(state["entries"])], "external_annotations": []}
C = torch._C
C._cuda_getDeviceCount = lambda: 1
C._cuda_init = lambda: asked.append("init")
C._cuda_isInBadFork = lambda: False
C._cuda_record_memory_history = record
C._cuda_memorySnapshot = snapshot
C._cuda_isHistoryEnabled = lambda: state["enabled"]
C._cuda_attach_out_of_memory_observer = lambda observer: (asked.append("observer"), state.update(observer=observer))
torch.cuda.get_device_properties = lambda device: types.SimpleNamespace(total_memory=4096)
torch.cuda.memory_reserved = lambda device: 512
torch.cuda._cudart = object()
torch.cuda._queued_calls.clear()  # they look at the properties of devices
listed = os.listdir
os.listdir = lambda path=".": listed(path) + ["nvidia0"] * (path == "/dev")
def alloc(size):
    state["entries"].append({"action": "alloc", "addr": 512, "size": size, "stream": 0, "time_us": 1, "frames": []})
"""


@pytest.mark.torch
def test_the_python_of_the_real_torch_is_asked_as_it_expects(programs: Programs) -> None:
    from torch_programs import STARTUP

    inside = STARTUP.parent / "inside"
    done = programs.run(
        COMPILED + f"sys.path.insert(0, {str(inside)!r})\n"
        "import imports\n"
        "imports.start({'torch': {'output': 'run.pickle'}})\n"
        "print(asked)\n"
        "torch.cuda.init(); alloc(512); state['observer'](0, 512, 4096, 0)\n"
        "print(asked)\n",
        python=real_torch(),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[]",
        "['init', ('record', 'all', 'all', 'python', 1000000, False, True, []), 'observer', 'snapshot']",
    ]
    assert done.stderr == f"memlens: out of memory: the snapshot of this moment is {programs.folder}/run.oom.pickle\n"
    assert programs.files == ["run.oom.pickle", "run.pickle"]
    assert actions(programs) == ["alloc"]
