"""The lines of the program in the log of Paddle: which operator is called from where, and who holds its tensors.

A stand-in has the place of Paddle: its operators are functions of Python's own, as Paddle's are built-in ones.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from night import NIGHT, chance_of, some
from pythons import VERSIONS, python_of
from real_paddle import RealPaddle, command, environment, run
from torch_programs import STARTUP, Programs

import memlens
from memlens import native
from memlens.recording.names import asked_for

STAND_IN = {
    "paddle/__init__.py": """
from paddle import base, framework
from paddle import _C_ops, _legacy_C_ops
class Tensor(int):
    def data_ptr(self): return int(self) if self < 8192 else None
    def _offset(self): return 0
    def _is_initialized(self): return self > 0
    def _grad_ivar(self): return Tensor(int.__add__(self, 1)) if type(self) is not Tensor or self == 2048 else None
    def is_selected_rows(self): return self == 8192
    def _get_tensor_from_selected_rows(self): return Tensor(256)
    __add__, clone = str.__add__, int.__abs__
class EagerParamBase(Tensor):
    __module__ = "paddle.base.framework"
""",
    "paddle/_C_ops.py": "matmul, sort, run_program, take = abs, sorted, max, next\n__all__ = []\n",
    "paddle/_legacy_C_ops.py": "from math import sqrt as linear\n",
    "paddle/base/__init__.py": "from paddle.base import core, libpaddle\n",
    "paddle/framework.py": "class _current_expected_place:\n    def get_device_id(self): return 0\n",
    "paddle/base/core.py": "peak = [0]\ndef device_memory_stat_peak_value(*_): return peak[0]\ndef device_memory_stat_current_value(*_): return 0\n",
    "paddle/base/libpaddle/__init__.py": "from paddle.base.libpaddle import eager, pir\n",
    "paddle/base/libpaddle/eager/__init__.py": "from paddle.base.libpaddle.eager import ops\nrun_backward = sum\n",
    "paddle/base/libpaddle/eager/ops.py": "relu = len\n",
    "paddle/base/libpaddle/pir/__init__.py": "from paddle.base.libpaddle.pir import ops\n",
    "paddle/base/libpaddle/pir/ops.py": "",
}
COMPILED = native.load("memlens.recording.inside._calls") is not None
LINE = re.compile(r"^I\d{4} \d\d:\d\d:\d\d\.\d{6} +(\d+) line\.py:0\] memlens (calls|holds|met) (.*)$")
BEGIN = "import os, threading, paddle\nfrom paddle import _C_ops\n"


@pytest.fixture
def ran(programs: Programs) -> Ran:
    for name, text in STAND_IN.items():
        (path := programs.folder / "stand_in" / name).parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Ran(programs)


class Ran:
    def __init__(self, programs: Programs) -> None:
        self.programs = programs

    def __call__(
        self, text: str, names: str = "lines", python: str = sys.executable, *, compiled: bool = True
    ) -> subprocess.CompletedProcess[str]:
        lines = asked_for(names)["lines"]
        if lines is not None and not compiled:
            lines["compiled"] = None
        asked = json.dumps({"lines": lines})
        path = (STARTUP, self.programs.folder / "stand_in")
        return self.programs.run(BEGIN + text, python=python, path=path, MEMLENS_RECORD=asked)


def said(done: subprocess.CompletedProcess[str], what: str = "calls") -> list[str]:
    found = [match for line in done.stderr.splitlines() if (match := LINE.match(line))]
    return [match[3] for match in found if match[2] == what]


def test_an_operator_is_named_with_the_lines_of_the_program_that_call_it_and_ends_with_its_call(ran: Ran) -> None:
    done = ran("def forward(x):\n    return _C_ops.matmul(x)\nprint(forward(-3))\n")
    assert (done.returncode, done.stdout) == (0, "3\n")
    assert said(done) == ["matmul < program.py:4 forward < program.py:5 <module>", "-"]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("_C_ops.sort([2, 1])", "sort"),
        ("paddle._legacy_C_ops.linear(4.0)", "linear"),
        ("paddle.base.libpaddle.eager.ops.relu('ab')", "relu"),
        ("paddle.base.libpaddle.eager.run_backward([1, 2])", "run_backward"),
        ("paddle.Tensor(-2).clone()", "clone"),
    ],
)
def test_operators_of_every_module_and_of_tensors_are_named(ran: Ran, call: str, name: str) -> None:
    assert f"{name} < program.py:3 <module>" in said(ran(call))


def test_what_was_taken_from_the_module_before_is_named_too(ran: Ran) -> None:
    """Paddle's own modules take operators when they are imported, which is after the operators were."""
    assert said(ran("from paddle._C_ops import sort\nsort([1])\n"))[0] == "sort < program.py:4 <module>"


def test_after_a_call_within_a_call_the_outer_one_goes_on(ran: Ran) -> None:
    done = ran("_C_ops.sort([-1], key=lambda one: _C_ops.matmul(one))\n")
    outer = "sort < program.py:3 <module>"
    assert said(done) == [outer, "matmul < program.py:3 <lambda> < program.py:3 <module>", outer, "-"]


def test_an_exception_passes_and_ends_the_call(ran: Ran) -> None:
    done = ran("try:\n    _C_ops.matmul('x')\nexcept TypeError as error:\n    print(error)\n")
    assert done.stdout == "bad operand type for abs(): 'str'\n"
    assert said(done)[-1] == "-"


@pytest.mark.parametrize("compiled", [True, False])
def test_an_interrupt_that_comes_within_an_operator_is_the_programs(ran: Ran, compiled: bool) -> None:
    """Python looks for signals when the next function of its own runs, which may be one of memlens."""
    done = ran(
        "import signal\n"
        "signal.signal(signal.SIGALRM, signal.default_int_handler)\n"
        "for _ in range(3):\n"
        "    signal.setitimer(signal.ITIMER_REAL, 0.05)\n"
        "    try:\n        _C_ops.sort(range(5_000_000))\n        print('went on')\n"
        "    except KeyboardInterrupt:\n        print('interrupted')\n",
        "holders",
        compiled=compiled,
    )
    assert (done.returncode, done.stdout) == (0, "interrupted\n" * 3)
    assert said(done)[-1] == "-"


def test_a_recursion_at_its_limit_ends_as_it_would(ran: Ran) -> None:
    done = ran(
        "def deeper():\n    _C_ops.matmul(1)\n    deeper()\n"
        "try:\n    deeper()\nexcept RecursionError:\n    print('ended')\n_C_ops.matmul(2)\n"
    )
    assert (done.returncode, done.stdout) == (0, "ended\n")
    assert said(done)[-2:] == ["matmul < program.py:10 <module>", "-"]


def test_a_forked_child_writes_nothing_and_each_thread_has_its_own_number(ran: Ran) -> None:
    done = ran(
        "child = os.fork()\n"
        "if not child:\n    _C_ops.matmul(1)\n    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "thread = threading.Thread(target=lambda: (_C_ops.matmul(1), print(threading.get_native_id())))\n"
        "thread.start(); thread.join(); _C_ops.matmul(2); print(threading.get_native_id())\n"
    )
    threads = [match[1] for line in done.stderr.splitlines() if (match := LINE.match(line))]
    assert [thread for thread in threads for _ in "x"] == [one for one in done.stdout.split() for _ in range(2)]


@pytest.mark.parametrize("compiled", [True, False])
def test_the_program_gets_what_it_would_get(ran: Ran, compiled: bool) -> None:
    text = (
        "import copy\nprint(_C_ops.sort([2, 3, 1], reverse=True), _C_ops.matmul.__name__, _C_ops.matmul.__doc__ == abs.__doc__,"
        " copy.deepcopy(_C_ops.matmul) is _C_ops.matmul, paddle.Tensor(1).clone.__self__, hasattr(_C_ops.sort, 'missing'))\n"
    )
    assert ran(text, compiled=compiled).stdout == "[3, 2, 1] abs True True 1 False\n"


def test_holders_are_written_when_a_backward_pass_begins_and_at_exit(ran: Ran) -> None:
    done = ran(
        "feats, weight = [], paddle.EagerParamBase(4096)\n"
        "def main():\n"
        "    for step in range(2):\n"
        "        h = paddle.Tensor(256 * (step + 1))\n"
        "        feats.append(h)\n"
        "        paddle.base.libpaddle.eager.run_backward([1])\n"
        "main()\n",
        "holders",
    )
    assert done.returncode == 0
    found = said(done, "holds")
    # When the first pass begins and at the end; when the second one does as well, unless the machine is too slow for that.
    assert set(found) - {"0x200 variable h (main, program.py)"} == {
        "0x1000 parameter weight (program.py)",
        "0x1001 gradient weight.grad (program.py)",
        "0x100 variable h (main, program.py)",
        "0x100 variable feats[*] (program.py)",
        "0x200 variable feats[*] (program.py)",
        "0x0 -",
    }
    # A parameter stays what it is, and is written once.
    assert (found.count("0x1000 parameter weight (program.py)"), found[0]) == (
        1,
        "0x1000 parameter weight (program.py)",
    )


def test_the_gradient_of_a_tensor_that_is_no_parameter_is_one_too(ran: Ran) -> None:
    done = ran("x = paddle.Tensor(2048)\npaddle.base.libpaddle.eager.run_backward([1])\n", "holders")
    assert {"0x800 variable x (program.py)", "0x801 gradient x.grad (program.py)"} <= set(said(done, "holds"))


def test_the_gradient_of_a_parameter_in_garbage_is_garbage(ran: Ran) -> None:
    text = (
        "import gc\ngc.disable()\nclass Net: pass\nnet = Net()\nnet.me, net.weight = net, paddle.EagerParamBase(4096)\n"
    )
    done = ran(f"{text}del net\npaddle.base.libpaddle.eager.run_backward([1])\n", "holders")
    cycle = "(a cycle that gc.collect() frees)"
    assert {f"0x1000 garbage Net.weight {cycle}", f"0x1001 garbage Net.weight.grad {cycle}"} <= set(said(done, "holds"))


@pytest.mark.parametrize(
    ("sparse", "seen"),
    [
        (8192, {"0x100 variable rows (program.py)", "0x400 variable feats[*] (program.py)", "0x0 -"}),
        # Of other sparse tensors it is not known where their parts lie, so not all was seen.
        (8193, {"0x400 variable feats[*] (program.py)"}),
    ],
)
def test_a_sparse_gradient_hides_no_holder(ran: Ran, sparse: int, seen: set[str]) -> None:
    text = f"rows, feats = paddle.Tensor({sparse}), [paddle.Tensor(1024)]\n"
    done = ran(text + "paddle.base.libpaddle.eager.run_backward([1])\n", "holders")
    assert set(said(done, "holds")) == seen


def test_holders_are_written_when_a_backward_pass_is_over_too(ran: Ran) -> None:
    done = ran(
        "def main():\n"
        "    grads = []\n"
        "    def work():\n"
        "        grads.append(paddle.Tensor(768))\n"
        "        yield 1\n"
        "    paddle.base.libpaddle.eager.run_backward(work())\n"
        "main()\n",
        "holders",
    )
    assert done.returncode == 0
    first, *after = said(done, "holds")
    assert first == "0x0 -"
    assert after[0].startswith("0x300 variable grads[")


def test_when_an_operator_raised_the_peak_what_functions_hold_and_what_it_was_given_are_written(ran: Ran) -> None:
    done = ran(
        "peak, cache = paddle.base.core.peak, {'a': paddle.Tensor(768)}\n"
        "for _ in range(256): _C_ops.matmul(1)\n"
        "def attend():\n"
        "    x = paddle.Tensor(256)\n"
        "    peak[0] += 1024\n"
        "    _C_ops.sort([paddle.Tensor(512), x])\n"
        "    del x\n"
        "    _C_ops.matmul(paddle.Tensor(1024))\n"
        "    _C_ops.matmul(paddle.Tensor(1280))\n"
        "attend()\n",
        "holders",
    )
    whole = ["0x300 variable cache['a'] (program.py)", "0x0 -"]
    rose = [
        "0x100 variable x (attend, program.py)",
        "0x200 temporary argument of sort (attend, program.py)",
        "0x0 some",
    ]
    following = ["0x400 temporary argument of matmul (attend, program.py)", "0x0 some"]  # and then no more
    assert said(done, "holds") == [*whole, *rose, *following, "0x300 variable cache['a'] (program.py)"]


def test_who_holds_tensors_when_memory_runs_out_is_written(ran: Ran) -> None:
    done = ran(
        "def fails():\n    raise RuntimeError('ResourceExhaustedError: Out of memory error on GPU 0')\n    yield\n"
        "def serve():\n    sessions = {'a': paddle.Tensor(512)}\n    _C_ops.take(fails())\n"
        "serve()\n",
        "holders",
    )
    assert done.returncode == 1
    holder = "0x200 variable sessions['a'] (serve, program.py)"
    assert said(done, "holds") == [holder, "0x0 -", holder]  # the traceback has it when the program ends
    assert said(done, "met") == ["ResourceExhaustedError: Out of memory error on GPU 0"]


def test_no_method_of_an_exception_of_the_user_s_is_called(ran: Ran) -> None:
    done = ran(
        "class Mine(RuntimeError):\n    def __str__(self): os._exit(9)\n    args = property(__str__)\n"
        "def fails():\n    raise Mine('out of memory')\n    yield\n"
        "try: _C_ops.take(fails())\nexcept Mine: pass\n"
    )
    assert done.returncode == 0
    assert said(done, "met") == ["out of memory"]


#: What Paddle 3.0 says on a GPU, the text from its header on.
MESSAGE = """

--------------------------------------
C++ Traceback (most recent call last):
--------------------------------------
0   matmul_ad_func(paddle::Tensor const&)

----------------------
Error Message Summary:
----------------------
ResourceExhaustedError:

Out of memory error on GPU 0. Cannot allocate 39.062500MB memory on GPU 0, 45.960000MB memory has been allocated and available memory is only 18.000000MB.

Please check whether there is any other process using GPU 0.
"""


@pytest.mark.parametrize("prints", [False, True])
def test_a_failure_that_a_program_survives_is_told_once_whether_it_is_printed_or_not(
    ran: Ran, tmp_path: Path, prints: bool
) -> None:
    log = "I0710 09:56:31.904374 28846 auto_growth_best_fit_allocator.cc:191] "
    lines = (
        f"{log}Alloc 256 bytes, ptr = 0x5606f8aeb000",
        f"{log}Allocate 40960000 bytes, aligned to 40960000, extra size 0",
    )
    done = ran(
        f"def fails():\n    os.write(2, {lines[1].encode()!r} + b'\\n')\n    raise MemoryError({MESSAGE!r})\n    yield\n"
        f"os.write(2, {lines[0].encode()!r} + b'\\n')\n"
        f"try: _C_ops.take(fails())\nexcept MemoryError as error: {'os.write(2, str(error).encode())' if prints else 'pass'}\n"
        "_C_ops.matmul(1)\n"
    )
    (tmp_path / "run.log").write_text(done.stderr)
    (failure,) = memlens.analyze(tmp_path / "run.log").logs[0].ooms
    assert failure.requested_bytes == 40_960_000


#: Calls in a thread, a generator, a coroutine, a forked child that ends at once, at the limit of recursion; a program that ends so itself.
EVERYWHERE = """
import asyncio, contextlib
tensor = paddle.Tensor
def pieces():
    piece = tensor(256)
    yield _C_ops.matmul(1)
    yield piece
async def reply(size):
    answer = tensor(size)
    await asyncio.sleep(0)
    _C_ops.matmul(2)
    paddle.base.libpaddle.eager.run_backward([size])
    await asyncio.sleep(0)
    del answer
async def serve():
    await asyncio.gather(reply(512), reply(768))
def deeper():
    deeper()
def main():
    made = pieces(); print(next(made))
    thread = threading.Thread(target=lambda: _C_ops.matmul(3)); thread.start(); thread.join()
    asyncio.run(serve())
    with contextlib.suppress(RecursionError): deeper()
    child = os.fork()
    if not child:
        _C_ops.matmul(4)
        os._exit(5)
    print(os.waitpid(child, 0)[1] >> 8)
    try:
        _C_ops.matmul("x")
    except TypeError:
        paddle.base.libpaddle.eager.run_backward([1])
main()
os.write(1, b"over")
os._exit(3)
"""


#: Functions within each other by chance, whose names and files are short, long and of several bytes a character; some call the next one within a pass.
MADE = """
import random
rng, run_backward = random.Random({seed}), paddle.base.libpaddle.eager.run_backward
NAMES, FILES = ["f", "forward" * 9, "über" * 40, "层" * 30, "x" * 300], ["layer.py", "nét.py", "m" * 200 + ".py"]
BODIES = "_C_ops.matmul(1); inner()", "inner(); _C_ops.matmul(2)", "inner()", "run_backward(inner() for _ in [1])"
def made(inner):
    space, name = {{"inner": inner, "_C_ops": _C_ops, "run_backward": run_backward}}, rng.choice(NAMES)
    exec(compile("def " + name + "():\\n  " + rng.choice(BODIES) + "\\n  return 1", rng.choice(FILES), "exec"), space)
    return space[name]
for _ in range(60):
    inner = lambda: _C_ops.matmul(3)
    for _ in range(rng.randrange(9)):
        inner = made(inner)
    inner()
for _ in range({more}):
    made(int)()
"""


@pytest.mark.skipif(not COMPILED, reason="without the compiled module")
@pytest.mark.parametrize("version", some(VERSIONS, 2))
def test_what_is_compiled_writes_the_same_lines(ran: Ran, version: str) -> None:
    python = python_of(version)
    more = 12_000 if NIGHT else 200  # at night more than are remembered at once
    text = MADE.format(seed=chance_of(version).getrandbits(32), more=more)
    compiled, plain = (ran(text, python=python, compiled=way) for way in (True, False))
    assert (compiled.returncode, plain.returncode) == (0, 0), compiled.stderr + plain.stderr
    assert said(compiled) == said(plain)
    assert len(said(plain)) > 60


def test_what_is_compiled_is_used_where_it_was_built(ran: Ran) -> None:
    done = ran("import sys\nprint(sys.modules['_memlens.program_lines']._lines)\n")
    assert ("built-in" in done.stdout) == COMPILED


@pytest.mark.parametrize("version", some(VERSIONS, 2))
@pytest.mark.parametrize("compiled", [True, False])
def test_other_pythons_say_the_same(ran: Ran, version: str, compiled: bool) -> None:
    done = ran(EVERYWHERE, "holders", python_of(version), compiled=compiled)
    assert (done.returncode, done.stdout) == (3, "1\n5\nover")
    main, other = "program.py:35 <module>", [line for line in done.stderr.splitlines() if not LINE.match(line)]
    replies = [
        f"{name} < program.py:{line} reply < program.py:24 main < {main}"
        for name, line in (("matmul", 13), ("run_backward", 14))
    ]
    assert [line for line in said(done) if line != "-"] == [
        f"matmul < program.py:8 pieces < program.py:22 main < {main}",
        "matmul < program.py:23 <lambda>",
        *replies * 2,
        f"matmul < program.py:32 main < {main}",
        f"run_backward < program.py:34 main < {main}",
    ]
    assert (said(done).count("-"), other) == (8, [])
    assert set(said(done, "holds")) == {
        "0x100 variable made.piece (main, program.py)",
        "0x200 variable answer (reply, program.py)",
        "0x300 variable answer (reply, program.py)",
        "0x0 -",
    }


#: A program whose variables are of its file, of a function, and of a thread, and which calls one operator from each.
WATCHED = """
kept = [paddle.Tensor(256)]
def forward(x):
    hidden = [paddle.Tensor(x)]
    for _ in range(3):
        _C_ops.matmul(x)
    paddle.base.libpaddle.eager.run_backward([x])
    return len(hidden)
print(forward(512), forward(768))
thread = threading.Thread(target=forward, args=(1024,)); thread.start(); thread.join()
"""
#: What watches a program, and writes what it saw of it to a file; nothing of the tools' own, and of what memlens puts there.
WATCHERS = {
    "coverage": """
import coverage, runpy, json
watch = coverage.Coverage(data_file=None); watch.start()
runpy.run_path('watched.py', run_name='__main__')
watch.stop(); seen = [sorted(watch.get_data().lines(path)) for path in watch.get_data().measured_files() if 'watched' in path]
""",
    "profiler": """
import cProfile, pstats, runpy, json
watch = cProfile.Profile()
watch.runcall(runpy.run_path, 'watched.py', run_name='__main__')
seen = sorted([place[1:], calls[:2]] for place, calls in pstats.Stats(watch).stats.items() if 'watched' in place[0])
""",
    "tracer": """
import sys, threading, runpy, json
seen = []
def trace(frame, event, value):
    if 'watched' in frame.f_code.co_filename: seen.append([event, frame.f_code.co_name, frame.f_lineno, sorted(frame.f_locals) if event == 'return' and frame.f_code.co_name == 'forward' else 0])
    return trace
threading.settrace(trace); sys.settrace(trace)
runpy.run_path('watched.py', run_name='__main__')
sys.settrace(None); threading.settrace(None)
""",
    "debugger": """
import io, pdb, json
said = io.StringIO()
class Watch(pdb.Pdb):
    def stop_here(self, frame): return False
watch = Watch(stdin=io.StringIO('p x, len(hidden)\\nc\\n' * 2), stdout=said, nosigint=True, readrc=False)
import os
watch.set_break(os.path.abspath('watched.py'), 9, cond='paddle.Tensor(-x).clone() > 300')
text = compile(open('watched.py').read(), os.path.abspath('watched.py'), 'exec')
watch.run(text, {'__name__': '__main__', '__file__': os.path.abspath('watched.py')})
seen = [line for line in said.getvalue().splitlines() if line.startswith('(Pdb)')]
""",
    "monitoring": """
import sys, runpy, json
seen, events = [], sys.monitoring.events
def line(code, number):
    if 'watched' in code.co_filename: seen.append([code.co_name, number])
def call(code, at, function, value):
    if 'watched' in code.co_filename: seen.append([code.co_name, getattr(function, '__name__', '')])
sys.monitoring.use_tool_id(3, 'watch')
sys.monitoring.register_callback(3, events.LINE, line); sys.monitoring.register_callback(3, events.CALL, call)
sys.monitoring.set_events(3, events.LINE | events.CALL)
runpy.run_path('watched.py', run_name='__main__')
sys.monitoring.set_events(3, 0)
""",
}


@pytest.mark.parametrize("watcher", WATCHERS)
def test_what_watches_a_program_sees_what_it_saw_and_names_are_written(ran: Ran, watcher: str) -> None:
    if watcher == "coverage":
        pytest.importorskip("coverage")
    python = python_of("3.12") if watcher == "monitoring" else sys.executable
    (ran.programs.folder / "watched.py").write_text(BEGIN + WATCHED)
    text = WATCHERS[watcher] + "print(json.dumps(sorted(seen, key=str)))\n"  # two threads run at once
    plain = ran(text, "none", python)
    named = ran(text, "holders", python)
    assert plain.returncode == named.returncode == 0, plain.stderr + named.stderr
    assert (plain.stdout, said(plain)) == (named.stdout, [])
    assert len(plain.stdout.splitlines()[-1]) > 20  # it saw something
    lines = [line.partition(" < program.py")[0] for line in said(named) if line != "-" and "clone" not in line]
    calls = [*["matmul < watched.py:8 forward"] * 3, "run_backward < watched.py:9 forward"]
    assert lines == [*(f"{call} < watched.py:11 <module>" for call in calls * 2), *calls]
    assert set(said(named, "holds")) >= {
        "0x100 variable kept[*] (watched.py)",
        "0x200 variable hidden[*] (forward, watched.py)",
        "0x0 -",
    }


def test_at_marks_it_is_looked_for_who_holds_what_where_that_is_asked_for(ran: Ran) -> None:
    text = f"import sys; sys.path.insert(0, {str(ran.programs.source)!r})\nimport memlens\ndef serve():\n    session = paddle.Tensor(512)\n    memlens.mark('DONE')\nserve()\n"
    assert said(ran(text, "holders"), "holds")[0] == "0x200 variable session (serve, program.py)"
    assert said(ran(text), "holds") == []


@pytest.mark.changed("recording")
@pytest.mark.paddle
@pytest.mark.parametrize("mode", some(["dygraph", "ast", "sot"]))
def test_a_run_with_names_allocates_what_one_without_does_and_every_block_has_one(
    counting: RealPaddle, tmp_path: Path, mode: str
) -> None:
    program = [str(counting.train), "--model", "cnn", "--steps", "4", "--mode", mode]
    runs = []
    for names in ("none", "holders"):
        (folder := tmp_path / names).mkdir()
        log = folder / "run.log.zst"
        variables = environment(counting, folder, MIN_GRAPH_SIZE="0")
        runs.append(run(command(counting, log, program, ["--names", names]), variables, folder, log))
    assert [run.code for run in runs] == [0, 0]
    without, events = (memlens.read(run.log) for run in runs)
    assert sorted(without.size[without.kind == 0]) == sorted(events.size[events.kind == 0])
    # Paddle's own counters of what tensors hold; what is reserved differs from run to run by where chunks lie.
    # Peaks do as well, and what is held between steps, where threads of 3.0's executors free later (5 of 31 runs without names).
    later = mode != "dygraph" and counting.version.startswith("3.0")
    counters = [re.findall(rf'"allocated{"" if later else "(?:_peak)?"}": \d+', run.text) for run in runs]
    assert len(counters[0]) == len(counters[1]) > 5
    without_names, with_names = ((found[0], found[-1]) if later else found for found in counters)
    assert without_names == with_names
    assert events.owner is not None
    owners = [events.owner_names[number] if number >= 0 else "" for number in events.owner[events.kind == 0].tolist()]
    assert [owner for owner in owners if "train.py:" not in owner] == []
