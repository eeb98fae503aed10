"""The marker that limits the device memory of a test: what passes, what fails and with which words.

A stand-in has the place of a CUDA device; Paddle's counters are real, on its host-memory device, where an environment has them.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from marked_tests import Marked, outcomes, said
from night import many
from real_paddle import RealPaddle
from torch_programs import Programs
from traces import memory_event, trace

KEEPS = "kept = []\n"


@pytest.fixture
def marked(programs: Programs) -> Marked:
    return Marked(programs)


@pytest.fixture
def device(marked: Marked) -> tuple[Path, ...]:
    """A path with the stand-in for PyTorch."""
    return (marked.programs.source, marked.programs.stand_in())


def one(name: str, limits: str, body: str, argument: str = "") -> str:
    return f"@pytest.mark.memlens({limits})\ndef test_{name}({argument}):\n    {body}\n"


def test_a_peak_and_a_growth_fail_with_exact_figures(marked: Marked, device: tuple[Path, ...]) -> None:
    done = marked.run(
        KEEPS
        + one("within", "peak='2KiB', growth=0", "import torch; torch.alloc(2048).free()")
        + one("peak", "peak='2KiB'", "import torch; torch.alloc(2049).free()")
        + one("growth", "growth='1KiB'", "import torch; kept.append(torch.alloc(1500))")
        + one("carried_in", "peak='2KiB'", "import torch; torch.alloc(1000).free()")
        + one("both", "peak='1kb', growth='0'", "import torch; kept.append(torch.alloc(3))"),
        path=device,
    )
    where = "CUDA device 0 by the statistics of PyTorch"
    assert outcomes(done) == {
        "test_within": "PASSED",
        "test_peak": "FAILED",
        "test_growth": "FAILED",
        "test_carried_in": "FAILED",
        "test_both": "FAILED",
    }
    assert said(done) == [
        f"the peak is 2.00 KiB (2,049 B), 1 B over the limit of 2.00 KiB (2,048 B): {where}",
        f"1.46 KiB (1,500 B) are left behind, where the limit is 1.00 KiB (1,024 B): {where}",
        f"the peak is 2.44 KiB (2,500 B), 452 B over the limit of 2.00 KiB (2,048 B); 1.46 KiB (1,500 B) of it carried in: {where}",
        f"the peak is 1.47 KiB (1,503 B), 479 B over the limit of 1.00 KiB (1,024 B); 1.46 KiB (1,500 B) of it carried in: {where}",
        f"3 B are left behind, where the limit is 0 B: {where}",
    ]


def test_verdicts_are_those_of_a_plain_sum(marked: Marked, device: tuple[Path, ...]) -> None:
    """Programs by chance: the level is summed up here, and a limit lies one byte below, at, or above what it comes to."""
    chance = random.Random(13)
    text, expected, carried_in = KEEPS + "import torch\n", {}, 0
    for number in range(many(200)):
        level = highest = carried_in
        body: list[str] = []
        blocks: list[tuple[str, int]] = []
        for step in range(chance.randrange(1, 8)):
            if blocks and chance.random() < 0.5:
                freed, size = blocks.pop(chance.randrange(len(blocks)))
                body.append(f"{freed}.free()")
                level -= size
            else:
                size = chance.randrange(1, 5000)
                body.append(f"a{step} = torch.alloc({size})")
                blocks.append((f"a{step}", size))
                level += size
                highest = max(highest, level)
        limits = {"peak": highest + chance.choice((-1, 0, 1)), "growth": level - carried_in + chance.choice((-1, 0, 1))}
        limits = {name: size for name, size in limits.items() if size >= 0 and chance.random() < 0.8} or {
            "peak": highest
        }
        over = highest > limits.get("peak", highest) or level - carried_in > limits.get("growth", level - carried_in)
        expected[f"test_{number}"] = "FAILED" if over else "PASSED"
        text += one(str(number), ", ".join(f"{name}={size}" for name, size in limits.items()), "; ".join(body))
        carried_in = level
    assert set(expected.values()) == {"FAILED", "PASSED"}
    assert outcomes(marked.run(text, path=device)) == expected


def test_a_test_that_ends_by_itself_keeps_its_end(marked: Marked, device: tuple[Path, ...]) -> None:
    over = "import torch; torch.alloc(9)"
    done = marked.run(
        one("fails", "peak=1", f"{over}; assert 1 == 2")
        + one("skips", "peak=1", f"{over}; pytest.skip('no')")
        + "@pytest.mark.xfail(raises=ZeroDivisionError)\n"
        + one("expected", "peak=1", f"{over}; 1 / 0")
        + "@pytest.mark.xfail\n"
        + one("expected_over", "peak=1", over),
        path=device,
    )
    got = outcomes(done)
    assert {name: got[name] for name in ("test_fails", "test_expected", "test_expected_over")} == {
        "test_fails": "FAILED",
        "test_expected": "XFAIL",
        "test_expected_over": "XFAIL",
    }
    assert "1 skipped" in done.stdout
    assert "assert 1 == 2" in done.stdout
    assert said(done) == []


def test_marks_of_classes_parameters_and_later_ones_count(marked: Marked, device: tuple[Path, ...]) -> None:
    (marked.programs.folder / "conftest.py").write_text(
        "import pytest\n"
        "def pytest_collection_modifyitems(items):\n"
        "    for item in items:\n"
        "        if item.name == 'test_later': item.add_marker(pytest.mark.memlens(peak=5))\n"
    )
    done = marked.run(
        "import torch, unittest\n"
        "@pytest.mark.memlens(peak=10)\n"
        "class TestAll:\n"
        "    def test_a(self): torch.alloc(11).free()\n"
        "    @pytest.mark.memlens(peak=20)\n"
        "    def test_b(self): torch.alloc(11).free()\n"
        "@pytest.mark.memlens(peak=10)\n"
        "class TestUnit(unittest.TestCase):\n"
        "    def test_c(self): torch.alloc(11).free()\n"
        "@pytest.mark.parametrize('size', [10, 12, pytest.param(12, marks=pytest.mark.memlens(peak=12))])\n"
        "@pytest.mark.memlens(peak=11)\n"
        "def test_d(size): torch.alloc(size).free()\n"
        "def test_later(): torch.alloc(6).free()\n",
        path=device,
    )
    assert outcomes(done) == {
        "TestAll::test_a": "FAILED",
        "TestAll::test_b": "PASSED",
        "TestUnit::test_c": "FAILED",
        "test_d[10]": "PASSED",
        "test_d[12_0]": "FAILED",
        "test_d[12_1]": "PASSED",
        "test_later": "FAILED",
    }


WRONG = {
    "'2GiB'": "'2GiB' has no name; it takes peak=SIZE, growth=SIZE, log=FILE and by=REGEX",
    "limit=3, peak=1": "there is no limit; it takes peak=SIZE, growth=SIZE, log=FILE and by=REGEX",
    "": 'it limits nothing: give peak="2GiB", growth="0" or both',
    "log='run.log'": 'it limits nothing: give peak="2GiB", growth="0" or both',
    "peak='2 apples'": "peak: '2 apples' is not a size; Write a size like",
    "growth=-1": "growth: '-1' is not a size; ",
    "peak=1, by='x'": "by cuts a log, and none is named: give log=FILE too",
    "peak=1, log='x', by='('": "by: '(' is no regular expression: ",
    "peak=1, log='x', by=3": "by: 3 is no regular expression: ",
}


@pytest.mark.parametrize(
    "ways", [(), ("--collect-only",), ("-p", "xdist.plugin", "-n", "1")], ids=["runs", "looks", "xdist"]
)
def test_a_marker_that_makes_no_sense_is_an_error_of_its_file(marked: Marked, ways: tuple[str, ...]) -> None:
    if "-n" in ways:
        pytest.importorskip("xdist")
    tests = [one(str(number), limits, "print('ran')") for number, limits in enumerate(WRONG)]
    done = marked.run("".join(tests) + one("right", "peak=1", "print('ran')"), *ways, path=(marked.programs.source,))
    shown = [line for line in done.stdout.splitlines() if line.startswith("test_it.py::")]
    for line, (number, expected) in zip(shown, enumerate(WRONG.values()), strict=True):
        assert line.startswith(f"test_it.py::test_{number}: @pytest.mark.memlens: {expected}")
    assert "ERROR collecting test_it.py" in done.stdout
    assert "INTERNALERROR" not in done.stdout
    assert done.returncode != 0
    assert "ran" not in done.stdout.split()


def test_workers_judge_as_one_process_does(marked: Marked, device: tuple[Path, ...]) -> None:
    pytest.importorskip("xdist")
    done = marked.run(
        one("within", "peak=10", "import torch; torch.alloc(10).free()")
        + one("over", "peak=10", "import torch; torch.alloc(1000).free()"),
        *("-p", "xdist.plugin", "-n", "2"),
        path=device,
    )
    assert outcomes(done) == {"test_within": "PASSED", "test_over": "FAILED"}


# --- a log ---------------------------------------------------------------------------------------------------------------


def log_text(windows: list[list[int]], end: str = "") -> str:
    """A log with a line ``STEP n`` for each window; a size above 0 is allocated, one below 0 frees the oldest block of that size."""
    lines, live, address = [], [], 0x7F0000000000
    for number, sizes in enumerate(windows):
        lines.append(f"STEP {number}")
        for size in sizes:
            if size > 0:
                address += 1 << 20
                live.append((size, address))
                verb = "Alloc"
            else:
                live.remove(block := next(one for one in live if one[0] == -size))
                verb = "Free"
            done, where = live[-1] if size > 0 else block
            lines.append(
                f"I1117 12:00:00.000000 1234 auto_growth_best_fit_allocator.cc:100] {verb} {done} bytes, ptr = {where:#x}"
            )
    return "\n".join([*lines, end]) + "\n"


def writes(name: str, limits: str, text: str, file: str = "run.log") -> str:
    return one(name, limits, f"(tmp_path / {file!r}).write_text({text!r})", "tmp_path")


def test_a_log_of_the_test_is_judged(marked: Marked) -> None:
    steps = [[4096, 512, -512]] * 6  # each keeps 4096 bytes; the peak is the last one's
    text = log_text([*steps, []])
    peak, held = 6 * 4096 + 512, 6 * 4096
    done = marked.run(
        writes("within", f"peak={peak}, growth={held}, log='run.log'", text)
        + writes("peak", f"peak={peak - 1}, log='run.log'", text)
        + writes("growth", f"growth={held - 1}, log='run.log'", text)
        + writes("series", "growth=0, log='run.log', by='STEP ([0-9]+)'", text)
        + writes("flat", "growth=0, log='run.log', by='STEP ([0-9]+)'", log_text([[4096], *[[512, -512]] * 6, []]))
        + writes("few", "growth=0, log='run.log', by='STEP ([0-9]+)'", log_text([[512, -512]] * 3))
        + writes("few_but_peak", "peak=512, log='run.log', by='STEP ([0-9]+)'", log_text([[512, -512]] * 3)),
        path=(marked.programs.source,),
    )
    assert outcomes(done) == {
        "test_within": "PASSED",
        "test_peak": "FAILED",
        "test_growth": "FAILED",
        "test_series": "FAILED",
        "test_flat": "PASSED",
        "test_few": "FAILED",
        "test_few_but_peak": "PASSED",
    }
    shown = [re.sub(r"/\S*/", "", line) for line in said(done)]
    assert shown[:2] == [
        "the peak is 24.50 KiB (25,088 B), 1 B over the limit of 24.50 KiB (25,087 B): run.log",
        "24.00 KiB (24,576 B) are left behind, where the limit is 24.00 KiB (24,575 B): run.log",
    ]
    assert re.fullmatch(r"\d\d\.00 KiB \((\d\d,\d{3}) B\) are left behind, where the limit is 0 B: run\.log", shown[2])
    gained = int(shown[2].split("(")[1].split(" ")[0].replace(",", ""))
    assert gained % 4096 == 0
    assert 3 * 4096 <= gained <= 5 * 4096  # from the first judged window to the last
    assert shown[3].startswith("the growth of run.log is not known: ")


def test_of_a_trace_the_device_is_judged_and_not_the_cpu_beside_it(marked: Marked) -> None:
    on_cpu = memory_event(1, 9000, 64, 9000, -1)
    both, cpu = trace(on_cpu, memory_event(2, 512, 1024, 512, 0)), trace(on_cpu)
    done = marked.run(
        writes("device", "peak=512, log='run.json'", both, "run.json")
        + writes("over", "peak=511, log='run.json'", both, "run.json")
        + writes("cpu", "peak=8999, log='run.json'", cpu, "run.json"),
        path=(marked.programs.source,),
    )
    assert outcomes(done) == {"test_device": "PASSED", "test_over": "FAILED", "test_cpu": "FAILED"}
    over, cpu_over = said(done)
    assert over.startswith("the peak is 512 B, 1 B over the limit of 511 B: ")
    assert over.endswith("[device 0]")
    assert cpu_over.startswith("the peak is 8.79 KiB (9,000 B), 1 B over the limit of 8.79 KiB (8,999 B): ")


def test_a_snapshot_of_the_test_is_judged_with_what_was_live_before_it(
    marked: Marked, device: tuple[Path, ...]
) -> None:
    block = "import memlens, torch\n    with memlens.record_torch(tmp_path / 'run.pickle'): torch.alloc(300).free(); keep.append(torch.alloc(20))"
    done = marked.run(
        "keep = []\n"
        "@pytest.fixture(autouse=True, scope='module')\n"
        "def model():\n    import torch; keep.append(torch.alloc(1000))\n"
        + one("within", "peak=1300, growth=20, log='run.pickle'", block, "tmp_path")
        + one("over", "peak=1319, growth=19, log='run.pickle'", block, "tmp_path"),
        path=device,
    )
    assert outcomes(done) == {"test_within": "PASSED", "test_over": "FAILED"}
    peak, growth = said(done)  # the first test kept 20 bytes too
    assert peak.startswith(
        "the peak is 1.29 KiB (1,320 B), 1 B over the limit of 1.29 KiB (1,319 B); 1020 B of it carried in: "
    )
    assert growth.startswith("20 B are left behind, where the limit is 19 B: ")


def test_a_log_that_cannot_be_believed_fails_the_test(marked: Marked) -> None:
    doubtful = log_text([[100, 200, -100]]).replace("Alloc 100", "Alloc 1OO")
    done = marked.run(
        writes("empty", "peak=1, log='run.log'", "no event\n")
        + writes("doubt", "peak='1GiB', log='run.log'", doubtful)
        + writes("oom", "peak='1GiB', log='run.log'", log_text([[100]], OOM))
        + writes("anchor", "growth='1GiB', log='run.log', by='nowhere'", log_text([[100]])),
        path=(marked.programs.source,),
    )
    assert set(outcomes(done).values()) == {"FAILED"}
    shown = said(done)
    assert "no allocator event" in shown[0]
    assert "is in doubt, so that nothing is judged by it: " in shown[1]
    assert "runs out of memory: its figures are those of what fitted" in shown[2]
    assert "no line matches" in shown[3]


def test_a_test_that_nothing_counts_runs_as_ever_and_says_so(marked: Marked) -> None:
    of_2_6 = "import sys, types; base = types.SimpleNamespace(core=object()); sys.modules |= {'paddle': base, 'paddle.base': base}"
    done = marked.run(one("alone", "peak=1", "pass") + one("old", "peak=1", of_2_6), path=(marked.programs.source,))
    assert outcomes(done) == {"test_alone": "PASSED", "test_old": "PASSED"}
    assert "is not judged: it used neither PyTorch nor Paddle, and its marker names no log" in done.stdout
    assert "is not judged: Paddle before 3.0 begins no peak anew, and its marker names no log" in done.stdout


OOM = (
    "ResourceExhaustedError: \n\nOut of memory error on GPU 0. Cannot allocate 10.000000GB memory on GPU 0, 15.000000GB memory has been "
    "allocated and available memory is only 1.000000GB.\n"
)


# --- the real thing, and what it costs ----------------------------------------------------------------------------------------


@pytest.mark.changed("recording")
@pytest.mark.paddle
def test_paddle_is_judged_by_its_own_counters(marked: Marked, counting: RealPaddle) -> None:
    """Real allocations on Paddle's host-memory device; the expected figures are read from Paddle in the test itself."""
    counters = (
        "(core.device_memory_stat_current_value('Allocated', 0), core.device_memory_stat_peak_value('Allocated', 0))"
    )
    done = marked.run(
        "import gc\nkept = []\n"
        "@pytest.fixture\n"
        "def core(request):\n"
        "    import paddle; from paddle.base import core\n"
        "    paddle.set_device('hostdev'); paddle.empty([500_000])\n"
        f"    gc.collect(); print('SHOWN', request.node.name, 'before', *{counters})\n"
        "    yield core\n"
        f"    gc.collect(); print('SHOWN', request.node.name, 'after', *{counters})\n"
        "def use(*sizes):\n    import paddle; return [paddle.empty([size], 'float32') for size in sizes]\n"
        + one("loose", "peak='1GiB', growth='1GiB'", "kept.append(use(10_000, 20_000)); use(70_000)", "core")
        + one("over", "peak='200KiB', growth='100KiB'", "kept.append(use(50_000)); use(70_000)", "core"),
        python=counting.python,
        path=(marked.programs.source, marked.programs.packages()),
        CUSTOM_DEVICE_ROOT=str(counting.device),
    )
    assert outcomes(done) == {"test_loose": "PASSED", "test_over": "FAILED"}, done.stdout + done.stderr
    shown = {
        tuple(words[1:3]): (int(words[3]), int(words[4]))
        for line in done.stdout.splitlines()
        if (words := line.split())[:1] == ["SHOWN"]
    }
    before, _ = shown["test_over", "before"]
    after, peak = shown["test_over", "after"]
    assert before > 4 * 30_000  # what the first test kept
    assert after - before >= 4 * 50_000
    assert peak - before >= 4 * 120_000
    over, left = said(done)
    assert over.startswith("the peak is ")
    assert f"({peak:,} B), " in over
    assert f"({before:,} B) of it carried in: device 0 by the statistics of Paddle" in over
    assert f"({after - before:,} B) are left behind" in left
