"""Who holds the memory of a program of PyTorch: in snapshots, with a stand-in for a device, and in traces of the real one on a processor."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from night import NIGHT
from torch_programs import STARTUP, Programs, real_torch

import memlens

TRAIN = """
import torch
cache = {}
def step(size):
    kept.append(torch.alloc(size))
    inner = torch.alloc(2 * size)
    torch.backward(inner)
    inner.free()
def main():
    global kept
    kept = []
    for _ in range(4): step(1000)
    cache["last"] = torch.alloc(7000)
"""


def held(path: Path) -> dict[int, str | None]:
    """By the size of blocks who holds them, as the log says."""
    log = memlens.read(path)
    chosen = log.kind == memlens.Kind.ALLOC
    names = [*log.holder_names, None]
    assert log.holder is not None
    return {size: names[n] for size, n in zip(log.size[chosen].tolist(), log.holder[chosen].tolist(), strict=True)}


KEPT = {1000: "variable kept[*] (program.py)", 2000: "variable inner (step, program.py)", 7000: "variable cache['last'] (program.py)"}  # fmt: skip


def test_a_snapshot_says_who_holds_what_and_is_read_by_others_as_before(programs: Programs) -> None:
    done = programs.recorded(TRAIN + "main()\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert held(programs.folder / "run.pickle") == KEPT
    whole = pickle.loads((programs.folder / "run.pickle").read_bytes())
    assert [*whole] == ["segments", "device_traces", "allocator_settings", "external_annotations", "memlens"]


@pytest.mark.torch
def test_the_viewer_of_pytorch_says_the_same_of_a_snapshot_with_holders(programs: Programs) -> None:
    programs.recorded(TRAIN + "main()\n")
    whole = programs.folder / "run.pickle"
    content = pickle.loads(whole.read_bytes())
    del content["memlens"]
    (programs.folder / "plain.pickle").write_bytes(pickle.dumps(content))
    view = "import runpy, sys, torch.cuda._memory_viz as v; sys.argv[1:] = [{!r}, {!r}]; runpy.run_path(v.__file__, run_name='__main__')"
    for action in ("stats", "trace"):
        said = [
            programs.run(view.format(action, name), python=real_torch()).stdout
            for name in ("run.pickle", "plain.pickle")
        ]
        assert said[0] == said[1] != ""


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("with memlens.record_torch('run.pickle'): main()", ""),
        ("memlens.names()\ntorch.cuda.memory._record_memory_history()", "main(); torch.cuda.memory._dump_snapshot('run.pickle')"),
        ("torch.cuda.memory._record_memory_history()\nmemlens.names()\nmemlens.names()", "main(); torch.cuda.memory._dump_snapshot('run.pickle')"),
    ],
)  # fmt: skip
def test_a_program_that_records_itself_says_the_same(programs: Programs, begin: str, end: str) -> None:
    done = programs.run(f"import memlens\n{TRAIN}{begin}\n{end}\n", path=(programs.source, programs.stand_in()))
    assert (done.returncode, done.stderr) == (0, "")
    assert held(programs.folder / "run.pickle") == KEPT


def test_at_marks_the_variables_of_a_program_without_backward_passes_are_named(programs: Programs) -> None:
    done = programs.run(
        "import memlens, torch\ndef serve(size):\n    reply = torch.alloc(size)\n    memlens.mark('reply')\n    reply.free()\n"
        "with memlens.record_torch('run.pickle'):\n    with memlens.window('phase'):\n        serve(1000)\n        other = torch.alloc(2000)\n"
        "    del other\n",
        path=(programs.source, programs.stand_in()),
    )
    assert done.returncode == 0, done.stderr
    names = {1000: "variable reply (serve, program.py)", 2000: "variable other (program.py)"}
    assert held(programs.folder / "run.pickle") == names


def test_what_a_program_that_only_serves_held_is_named(programs: Programs) -> None:
    """Though it is gone when the program ends, and there was neither a backward pass nor a mark."""
    serve = "def serve(size):\n    with torch.no_grad():\n        history.append(torch.alloc(size))\n"
    main = "def main():\n    global history\n    history = []\n    serve(1000)\n    serve(2000)\n    [one.free() for one in history]\n"
    done = programs.recorded(f"import torch, time\n{serve}{main}time.sleep(0.03)\nmain()\n".replace("(1000)\n", "(1000)\n    time.sleep(0.03)\n"))  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert held(programs.folder / "run.pickle") == dict.fromkeys((1000, 2000), "variable history[*] (program.py)")


def test_names_are_said_where_they_are_asked_for_alone(programs: Programs) -> None:
    text = f"import memlens\n{TRAIN}with memlens.record_torch('run.pickle', names='none'): main()\n"
    programs.run(text, path=(programs.source, programs.stand_in()))
    assert memlens.read(programs.folder / "run.pickle").holder is None
    with pytest.raises(memlens.UsageError, match="names says no 'none'"):
        memlens.names("none")  # type: ignore[arg-type]


def test_when_memory_runs_out_the_variables_of_what_fails_are_named(programs: Programs) -> None:
    programs.recorded(TRAIN + "def fails():\n    batch = torch.alloc(500)\n    torch.alloc(2_000_000)\nfails()\n")
    assert held(programs.folder / "run.oom.pickle") == {500: "variable batch (fails, program.py)"}


def test_a_forked_child_walks_no_more_unless_it_records_itself(programs: Programs) -> None:
    done = programs.recorded(
        TRAIN + "import os, sys\nmain()\n"
        "if os.fork() == 0:\n"
        "    print('memlens' in torch.cuda.memory._snapshot(), flush=True)\n    os._exit(0)\n"
        "os.wait()\n"
        "print('memlens' in torch.cuda.memory._snapshot())\n"
    )
    assert done.stdout == "False\nTrue\n", done.stderr


def test_a_torch_without_what_is_looked_at_runs_as_ever_and_that_is_said(programs: Programs) -> None:
    folder = programs.folder / "other" / "torch"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("__version__ = '0'\nclass _C: _cuda_getDeviceCount = None\n")
    path = (STARTUP, folder.parent)
    done = programs.run("import torch; print('ran')", path=path, MEMLENS_RECORD='{"holders": {}}')
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert done.stderr.startswith("memlens: who holds tensors is not recorded: AttributeError: ")


# --- the real PyTorch, on a processor ---------------------------------------------------------------------------------

BEGIN = """
import torch
profiling = torch.profiler.profile(profile_memory=True)
torch.manual_seed(0)
"""
END = "\nmain()\nprofiling.export_chrome_trace('run.json')\n"


def traced(programs: Programs, text: str, *, names: bool = True, itself: bool = False) -> tuple[list[str], memlens.Log]:
    """The lines that a program prints, and its log; by itself it asks for names and is not started with them."""
    begin = "import memlens\nmemlens.names()\n" if itself else ""
    asked = {"MEMLENS_RECORD": '{"holders": {}}'} if names and not itself else {}
    path = (programs.source if itself else STARTUP,)
    done = programs.run(begin + BEGIN + text + END, python=real_torch(), path=path, **asked)
    assert done.returncode == 0, done.stderr
    assert "memlens: " not in done.stderr
    return done.stdout.splitlines(), memlens.read(programs.folder / "run.json")


def by_role(log: memlens.Log) -> dict[str, int]:
    """The bytes that are live when the profile ends, by the first word of who holds them."""
    rows = np.flatnonzero((log.kind == memlens.Kind.ALLOC) & (log.lifetimes.partner < 0))
    found: dict[str, int] = {}
    assert log.holder is not None
    for size, number in zip(log.size[rows].tolist(), log.holder[rows].tolist(), strict=True):
        role = log.holder_names[number].partition(" ")[0] if number >= 0 else ""
        found[role] = found.get(role, 0) + size
    return found


ROLES = """
def main():
    with profiling:
        net = torch.nn.Sequential(torch.nn.Linear(40, 30), torch.nn.BatchNorm1d(30), torch.nn.Linear(30, 20))
        masters = []
        {change}
        trained = masters or [one for one in net.parameters() if one.requires_grad]
        optimizer = torch.optim.{optimizer}
        for step in range(2):
            optimizer.zero_grad()
            for _ in range({passes}):
                with torch.autocast("cpu", enabled={autocast}):
                    net(torch.randn(16, 40, dtype=net[0].weight.dtype)).square().mean().backward()
            for one, other in zip(masters, net.parameters()):
                one.grad = other.grad.float()
            optimizer.step()
            with torch.no_grad():
                for one, other in zip(masters, net.parameters()):
                    other.copy_(one)
        del trained
"""
FROZEN, TIED = "net[0].weight.requires_grad_(False)", "net.append(torch.nn.Linear(20, 20)); net.append(net[3])"
MASTERS = "net.bfloat16(); masters += [one.detach().float().requires_grad_() for one in net.parameters()]"
#: Parameters of the model, and how many tensors they are in; the bytes of its buffers, one of which is a count.
SIZES, TENSORS, BUFFERS = 40 * 30 + 30 + 30 + 30 + 30 * 20 + 20, 6, 4 * (30 + 30) + 8
FIRST, SECOND = 40 * 30, 20 * 20 + 20  # the weight that is frozen, and the layer that is there twice
PLAIN = {"parameter": 4 * SIZES, "buffer": BUFFERS, "gradient": 4 * SIZES}
ADAM = {**PLAIN, "optimizer": 8 * SIZES + 4 * TENSORS}  # two moments, and a count of steps
MODELS = {
    "SGD": ("SGD(trained, 0.1)", "", PLAIN),
    "momentum, frozen": (
        "SGD(trained, 0.1, momentum=0.9)",
        FROZEN,
        {**PLAIN, "gradient": 4 * (SIZES - FIRST), "optimizer": 4 * (SIZES - FIRST)},
    ),
    "Adam, tied": (
        "Adam(trained)",
        TIED,
        {
            "parameter": 4 * (SIZES + SECOND),
            "buffer": BUFFERS,
            "gradient": 4 * (SIZES + SECOND),
            "optimizer": 8 * (SIZES + SECOND) + 4 * (TENSORS + 2),
        },
    ),
    "AdamW of all at once": ("AdamW(trained, foreach=True)", "", ADAM),
    "AdamW in one kernel": ("AdamW(trained, fused=True)", "", ADAM),
    "several passes": ("Adam(trained)", "", ADAM),
    "autocast": ("Adam(trained)", "", ADAM),
    "masters": (
        "AdamW(trained)",
        MASTERS,
        {
            "parameter": 2 * SIZES,
            "buffer": 2 * (30 + 30) + 8,
            "variable": 4 * SIZES,
            "gradient": 2 * SIZES + 4 * SIZES,
            "optimizer": 8 * SIZES + 4 * TENSORS,
        },
    ),
    "masters of the optimizer alone": (
        "AdamW([one.detach().float().requires_grad_() for one in net.bfloat16().parameters()])",
        "",
        {"parameter": 2 * SIZES, "buffer": 2 * (30 + 30) + 8, "gradient": 2 * SIZES, "optimizer": 4 * SIZES},
    ),
}


@pytest.mark.torch
@pytest.mark.parametrize("kind", MODELS if NIGHT else ["Adam, tied", "masters"])
def test_bytes_of_each_role_are_those_of_the_model(programs: Programs, kind: str) -> None:
    optimizer, change, sums = MODELS[kind]
    passes, autocast = (3 if kind == "several passes" else 1), kind == "autocast"
    text = ROLES.format(optimizer=optimizer, change=change, passes=passes, autocast=autocast)
    assert by_role(traced(programs, text)[1]) == sums


#: What the program of the user's could notice a walk by: code of its own, its results, its memory.
WATCHFUL = """
import gc, threading
class Mine(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if walking(): print("code of a tensor was run by", function)
        return super().__torch_function__(function, types, args, kwargs or {})
    def __getattr__(self, name):
        raise AttributeError(name)
def walking():
    return any("holders.py" in str(top.f_code.co_filename) or "torch_names.py" in str(top.f_code.co_filename)
               for top in sys._current_frames().values())
import sys
def unpacks(saved):
    if walking(): print("a hook was run")
    return saved[0]
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        context.square = x * x
        return x * context.square
    @staticmethod
    def backward(context, gradient):
        return 3 * context.square * gradient
def main():
    gc.disable()
    net = torch.nn.Sequential(torch.nn.Linear(30, 40), torch.nn.ReLU(), torch.nn.Linear(40, 1))
    mine = torch.ones(30).as_subclass(Mine)
    with profiling:
        for step in range(5):
            x = torch.randn(8, 30) * mine
            with torch.autograd.graph.saved_tensors_hooks(lambda tensor: (tensor, step), unpacks):
                loss = Cube.apply(net(torch.as_tensor(x))).sum()
            (only,) = torch.autograd.grad(loss, [net[0].weight], retain_graph=True)
            loss.backward()
            with torch.no_grad():
                for one in net.parameters(): one -= 0.01 * one.grad; one.grad = None
            del x, loss, only
    thread = threading.Thread(target=lambda: net(torch.randn(8, 30)).sum().backward()); thread.start(); thread.join()
    print(sum(one.double().sum().item() for one in net.parameters()), torch.randn(1).item())
"""


@pytest.mark.torch
def test_a_program_does_what_it_did_and_runs_no_code_for_a_walk(programs: Programs) -> None:
    printed, named = traced(programs, WATCHFUL)
    assert len(printed) == 1
    assert named.holder is not None
    (programs.folder / "run.json").rename(programs.folder / "named.json")
    assert traced(programs, WATCHFUL, names=False)[0] == printed
    found = memlens.diff(programs.folder / "run.json", programs.folder / "named.json")
    assert found.verdict.startswith("No difference: ")


SAVED = """
class Crop(torch.Tensor): ...
class Lost:
    def __init__(self, tensor): self.tensor, self.itself = tensor, self
def pack(tensor): return {"shelf": [tensor.clone()]}
def main():
    import gc
    gc.disable()
    with profiling:
        x = torch.randn(1000, requires_grad=True)
        squared = x.exp().sum()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed["shelf"][0]):
            packed = torch.randn(2000, requires_grad=True).exp().sum()
        Lost(torch.randn(3000))
        views = [torch.randn(4000)[::2] for _ in range(2)]
        sparse = torch.eye(10).to_sparse()
        crop = torch.ones(10).as_subclass(Crop)
        crop.parent = torch.randn(5000)
"""


@pytest.mark.torch
@pytest.mark.parametrize("itself", [False, True])
def test_what_a_graph_has_saved_is_named_by_what_leads_to_it(programs: Programs, itself: bool) -> None:
    _, log = traced(programs, SAVED, itself=itself)
    assert log.holder is not None
    names = [log.holder_names[number] if number >= 0 else None for number in log.holder.tolist()]
    size_of = {4 * size: size for size in (1000, 2000, 3000, 4000, 5000)}
    found = {(size_of.get(size), name) for size, name in zip(log.size.tolist(), names, strict=True) if size in size_of}
    assert found == {
        (1000, "variable x (main, program.py)"),
        (1000, "saved squared.grad_fn (main, program.py)"),
        (2000, "a variable that no walk saw"),  # what exp() gave, which a hook has copied
        (2000, "saved packed.grad_fn (main, program.py)"),
        (2000, "saved packed.grad_fn['shelf'][*] (main, program.py)"),
        (3000, "garbage Lost.tensor (a cycle that gc.collect() frees)"),
        (4000, "variable views[*] (main, program.py)"),
        (5000, "variable crop.parent (main, program.py)"),
    }


GIVEN_BACK = """
@torch.no_grad()
def sample():
    path = [torch.randn(1000)]
    for k in range(4):
        with torch.profiler.record_function(f"denoise {k}"): path.append(path[-1] * 2)
    return path
def main():
    with profiling: sample()
"""


@pytest.mark.torch
def test_what_a_function_without_gradients_gives_back_is_held_by_its_variables_until_then(programs: Programs) -> None:
    _, log = traced(programs, GIVEN_BACK)
    assert log.holder is not None
    names = [
        log.holder_names[n] for n, size in zip(log.holder.tolist(), log.size.tolist(), strict=True) if size == 4000
    ]
    assert set(names) - {"a variable that no walk saw"} == {"variable path[*] (sample, program.py)"}


ANEW = """
from torch.utils.checkpoint import checkpoint
layers = [torch.nn.Sequential(torch.nn.Linear(50, 70), torch.nn.ReLU(), torch.nn.Linear(70, 50)) for _ in range(3)]
def through(x):
    for layer in layers: x = checkpoint(layer, x, use_reentrant=False)
    return x.square().mean()
def main():
    with profiling:
        through(torch.randn(11, 50)).backward()  # no walk while anything of it is live
        first, second = through(torch.randn(13, 50)), through(torch.randn(17, 50))
"""


@pytest.mark.torch
def test_what_layers_are_computed_anew_of_is_saved_by_the_graph_that_leads_to_them(programs: Programs) -> None:
    log = traced(programs, ANEW)[1]
    assert log.holder is not None
    rows = np.flatnonzero((log.kind == memlens.Kind.ALLOC) & (log.lifetimes.partner < 0))
    held = Counter[str]()
    for size, number in zip(log.size[rows].tolist(), log.holder[rows].tolist(), strict=True):
        if number >= 0:
            held[log.holder_names[number]] += size
    # What three layers are given, and what the square is made of, float32.
    assert held["saved first.grad_fn (main, program.py)"] == 4 * (13 * 50 * 4)
    assert held["saved second.grad_fn (main, program.py)"] == 4 * (17 * 50 * 4)


THREADS = """
import threading
def train(number):
    net = torch.nn.Linear(64, 64)
    for _ in range(200):  # a gradient that is read while another thread takes it away kills one run in three of 60
        loss = net(torch.ones(8, 64)).relu().sum()
        loss.backward()
        net.zero_grad()
def main():
    with profiling:
        threads = [threading.Thread(target=train, args=(number,)) for number in range(4)]
        for one in threads: one.start()
        for one in threads: one.join()
"""


@pytest.mark.torch
def test_threads_that_train_at_once_are_waited_for(programs: Programs) -> None:
    text, python = BEGIN + "a = torch.ones(3)\n" + THREADS + END, real_torch()
    done = programs.recorded(text, python)
    assert done.returncode == 0, done.stderr


COMPILED = """
import torch._dynamo
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(net.parameters())
def step(x):
    loss = net(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss
def gradient(x):
    return torch.autograd.grad((x * x).sum(), x)[0]
def frozen(x):
    with torch.no_grad():
        y = net(x)
    return y.sum()
@torch.jit.script
def scripted(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        y = x * 2
    return y.requires_grad_()
def main():
    print(scripted(torch.ones(2)))
    compiled = [torch.compile(function, backend="eager") for function in (step, gradient, frozen)]
    with profiling:
        for _ in range(3):
            print(compiled[0](torch.randn(4, 8)).item(), compiled[1](torch.randn(3, requires_grad=True)), compiled[2](torch.randn(2, 8)).requires_grad)
    counters = torch._dynamo.utils.counters
    print(dict(counters["stats"]), dict(counters["frames"]), len(counters["graph_break"]))
"""


@pytest.mark.torch
def test_what_is_compiled_is_compiled_as_ever(programs: Programs) -> None:
    assert traced(programs, COMPILED)[0] == traced(programs, COMPILED, names=False)[0]
