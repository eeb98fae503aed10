"""Each claim on a single run against the lines or entries of its file: real inputs, and runs that are made here."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import compared_judge
import many_judge
import numpy as np
import pytest
import whatif_judge
from claim_judge import JUDGES, NO_FIGURE, OF_RUNS, UNJUDGED, judge, judge_together
from failing_runs import run_until_full
from hypothesis import given
from hypothesis import strategies as st
from logs_of_reports import three_devices
from made_series import LEAKS, NO_LEAKS, Maker, made
from night import NIGHT, chance_of, some
from printed_steps import PRINTS
from printed_steps import run as printed
from raw_runs import RawRun, of_paddle, raw_runs, read_packed
from snapshots import pickled
from traces import memory_event, trace

import memlens
from memlens.analyzing.result import LogAnalysis
from memlens.claims.words import WORDS
from memlens.claims.words_compared import WORDS_COMPARED
from memlens.errors import MemlensError
from memlens.options.verbs import Watch
from memlens.text import format_bytes
from memlens.watching.watch import Watching

HEADER = "I0710 09:56:31.904374 28846 auto_growth_best_fit_allocator.cc:170] "
BY = r"^(STEP \d+) START"
#: Bytes of a file, packed, that is judged; snapshots are quickly read.
_MOST = 1 << 22 if NIGHT else 100 << 10
_MOST_OF = {".pickle": 1 << 22 if NIGHT else 500 << 10}
_PARTS = 16
_JUDGED = {*JUDGES, *OF_RUNS, *whatif_judge.JUDGES, *compared_judge.JUDGES, *many_judge.JUDGES}


def judged(log: LogAnalysis, run: RawRun) -> Counter[str]:
    """Judge the claims on a log, cut as memlens says that it is cut."""
    if log.steps is not None:
        run.by, run.ends = log.steps.by, log.steps.ends
    return judge(log.to_dict()["claims"], run)


def inputs(*folders: Path) -> list[Path]:
    """Files in folders, packed or not, that are no description of others."""
    found = sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())
    return [path for path in found if not path.name.endswith((".stats.json", ".md", ".py", ".cc", ".sh", ".txt"))]


def analyses(path: Path, **how: Any) -> Iterator[tuple[LogAnalysis, RawRun]]:
    """What is said of each run of a file, and the run; nothing of a file that memlens reads nothing in, or not so."""
    try:
        logs = memlens.analyze(path, **how).logs
    except MemlensError:
        return
    runs = raw_runs(path)
    assert {log.device for log in logs} <= {*runs}
    for log in logs:
        yield log, runs[log.device]


# -- every kind ----------------------------------------------------------------------------------------------------------------


def test_every_kind_has_a_judge_or_says_why_it_needs_none() -> None:
    unknown = {*WORDS, *WORDS_COMPARED} - _JUDGED - {*NO_FIGURE, *UNJUDGED}
    assert not unknown, "write a judge in tests/support: claim_judge.py of one run, compared_judge.py of two"


def test_no_kind_is_judged_and_excused() -> None:
    excused = {*NO_FIGURE, *UNJUDGED}
    assert excused & _JUDGED == set()
    assert excused <= {*WORDS, *WORDS_COMPARED}


# -- real inputs ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", some(range(_PARTS)))
def test_the_claims_on_real_inputs_are_right(shared: Path, examples: Path, part: int) -> None:
    seen: Counter[str] = Counter()
    for path in inputs(examples, shared / "data")[part::_PARTS]:
        if path.stat().st_size <= _MOST_OF.get(path.suffix, _MOST):
            for log, run in analyses(path):
                seen += judged(log, run)
    assert {"peak", "largest_at_peak"} <= {*seen}


@pytest.mark.parametrize("part", some(range(_PARTS), 8))
def test_the_claims_on_windows_of_real_logs_are_right(shared: Path, part: int) -> None:
    seen: Counter[str] = Counter()
    for path in inputs(shared / "data/paddle", shared / "data/traps")[part::_PARTS]:
        for log, run in analyses(path, by=BY) if path.stat().st_size <= _MOST else ():
            run.by = BY
            seen += judge(log.to_dict()["claims"], run)
            names = [name for name in run.windows if name != "(before)"]
            for name, after in [pair for pair in pairwise(names) if "#" not in "".join(pair)][-2:]:
                ((one, of),) = analyses(path, start=f"{name} START", end=f"{after} START")
                of.asked = run.windows[name]
                seen += judge(one.to_dict()["claims"], of)
    assert seen["peak"]


@pytest.mark.parametrize("part", some(range(_PARTS), 8))
def test_the_claims_on_blocks_of_real_inputs_are_right(shared: Path, examples: Path, part: int) -> None:
    chance = chance_of(f"blocks {part}")
    for path in inputs(examples, shared / "data")[part::_PARTS]:
        found = list(analyses(path, whole=True)) if path.stat().st_size <= _MOST else []
        if len(found) == 1 and "no_lifetimes" not in found[0][0].trust.doubt_codes:
            run = found[0][1]
            born = [k for k, one in enumerate(run.events) if one.kind == "alloc" and one.place is not None]
            for event in chance.sample(born, min(len(born), 3)):
                run.asked = event, event + 1
                line = run.events[event].place
                assert line is not None
                judge(memlens.block(path, line).to_dict()["claims"], run)


def test_the_claims_on_several_logs_are_right(shared: Path) -> None:
    paths = inputs(shared / "data/paddle")
    small = [path for path in paths if path.stat().st_size <= _MOST]
    groups: list[list[str | Path]] = [
        ["05_oom_331.log", "09_torn"],
        [*small[:6]],
        ["09_loader", "08_cpu_stats"],
        ["05_leak", "05_fixed"],
    ]
    for group in some(groups):
        chosen = [path for path in paths if any(path.name.startswith(str(one)) for one in group) or path in group]
        analysis, runs = memlens.analyze(chosen), {}
        for log in analysis.logs:
            name = Path(log.path).name
            runs[name] = raw_runs(Path(log.path))[""]
            assert judged(log, runs[name])["peak"]
        judge_together(analysis.to_dict()["claims"], runs)


@pytest.mark.parametrize("name", ["", *["gpu_2021_resnet50.json.gz", "gpu_2022_rank1.json.gz"] * NIGHT])
def test_the_claims_on_several_devices_are_right(shared: Path, tmp_path: Path, name: str) -> None:
    path = shared / "data/torch/kineto" / name if name else three_devices(tmp_path)
    judge_together(memlens.analyze(path).to_dict()["claims"], raw_runs(path))


def test_what_a_device_had_before_its_trace_is_in_no_counted_blocks(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(trace(memory_event(1.0, 1000, 4096, 9000, 0)))  # 8000 bytes were there
    ((log, run),) = analyses(path)
    assert judged(log, run)["largest_at_peak"]
    assert "7.81 KiB (89%) of it allocated before the first entry" in log.verdict
    assert "8.79 KiB is live at the end" in log.verdict


def test_a_state_without_a_history_has_no_first_entry(tmp_path: Path) -> None:
    blocks = [
        {"size": 4096 - 1024 * k, "requested_size": 4096 - 1024 * k, "state": "active_allocated", "frames": frames}
        for k, frames in enumerate(([], [], [{"filename": "a.py", "line": 7, "name": "main"}]))
    ]
    segments = [{"device": 0, "address": 1 << 40, "total_size": 9 << 10, "stream": 0, "blocks": blocks}]
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickled({"segments": segments, "device_traces": [[]]}))
    told = "9.00 KiB allocated, 9.00 KiB reserved; 7.00 KiB (78%) of it in 2 blocks."
    assert memlens.analyze(path).verdict == f"Live when the snapshot was taken: {told}"


@pytest.mark.parametrize("name", some(["05_leak_graph_331.log.gz", "05_fixed_331.log.gz", "05_oom_331.log"]))
def test_the_claims_on_a_log_that_grows_are_right(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("memlens.watching.judging._PATIENCE", 0)  # growth is judged at each look
    text, log, chance = read_packed(shared / "data/paddle" / name), tmp_path / "run.log", chance_of(name)
    log.touch()
    cuts = sorted([*(chance.randrange(len(text)) for _ in range(12 if NIGHT else 4)), len(text)])
    seen: Counter[str] = Counter()
    with closing(Watching(log, Watch(budgets=["growth=0", "peak=3MiB"]))) as watching, log.open("ab") as out:
        for start, end in pairwise([0, *cuts]):
            out.write(text[start:end])
            out.flush()
            watching.look()
            (state,) = watching.seen.states
            run = of_paddle(text[:end].rpartition(b"\n")[0].decode() + "\n")
            run.by = state.by
            seen += judge(watching.seen.to_dict()["claims"], run)
    assert seen["peak"]
    assert seen["budget_exceeded"]


def test_growth_that_was_judged_earlier_says_how_long_ago(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memlens.watching.judging._PATIENCE", 1e9)  # growth is judged at the first look, and at the end
    text, log = read_packed(shared / "data/paddle/05_leak_graph_331.log.gz"), tmp_path / "run.log"
    log.write_bytes(text[: len(text) // 2])
    with closing(Watching(log, Watch(by=BY))) as watching, log.open("ab") as out:
        watching.look()
        assert "judged_before" not in {claim.kind for claim in watching.seen.claims}
        out.write(text[len(text) // 2 :])
        out.flush()
        watching.look()
        run = of_paddle(text.decode())
        run.by = BY
        claims = watching.seen.to_dict()["claims"]
        assert judge(claims, run)["judged_before"]
        assert run.later
        (ago,) = (claim["text"] for claim in claims if claim["kind"] == "judged_before")
        assert ago == f"growth was judged {run.later} windows ago, at {[*run.judged][-1]}"
        assert ago in watching.seen.verdict.replace("Growth was", "growth was")
        assert "judged_before" not in {claim.kind for claim in watching.finish(analyze=False).claims}


@pytest.mark.parametrize("looks", [7, *[1, 60] * NIGHT])
def test_where_a_budget_was_exceeded_first_depends_on_no_look(shared: Path, tmp_path: Path, looks: int) -> None:
    text, log = read_packed(shared / "data/paddle/05_leak_graph_331.log.gz"), tmp_path / "run.log"
    run, budget = of_paddle(text.decode()), 3 << 20
    levels = {"peak": run.allocated, "reserved": run.reserved}
    first = {name: next(k for k, level in enumerate(each) if level > budget) for name, each in levels.items()}
    lines = {name: run.events[k - 1].place for name, k in first.items()}
    cuts = [len(text) * k // looks for k in range(looks + 1)]
    with closing(Watching(log, Watch(budgets=["peak=3MiB", "reserved=3MiB"]))) as watching, log.open("ab") as out:
        for start, end in pairwise(cuts):
            out.write(text[start:end])
            out.flush()
            watching.look()
            so_far = of_paddle(text[:end].rpartition(b"\n")[0].decode() + "\n")
            tops = {"peak": max(so_far.allocated), "reserved": max(so_far.reserved)}
            over = {name: (lines[name], top) for name, top in tops.items() if top > budget}
            assert {one.metric: (one.line, one.reached_bytes) for one in watching.seen.crossings} == over
        last = watching.finish()
    assert {one.metric: one.line for one in last.crossings} == lines
    assert last.verdict.startswith(
        f"The peak is {format_bytes(max(run.allocated))}, over the budget of 3.00 MiB from line {lines['peak']:,} on"
        " (1 more budget exceeded). "
    )


def test_of_logs_without_a_block_it_is_said_how_many_there_are(tmp_path: Path) -> None:
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_text("Loading the data\n")
    with closing(Watching([tmp_path / "a.log", tmp_path / "b.log"], Watch())) as watching:
        watching.look()
        claims = watching.seen.to_dict()["claims"]
    assert [claim["kind"] for claim in claims] == ["no_blocks_yet"]
    judge_together(claims, {name: raw_runs(tmp_path / name)[""] for name in ("a.log", "b.log")})


@pytest.mark.parametrize(
    "name",
    some(
        [
            *("05_oom_331.log", "05_grow_batch_331.log.gz", "06_padding32.log", "331_dygraph_cnn.log"),
            *("01_first_venv_dygraph.log", "09_launch2_dygraph_331.workerlog.1", "06_free_idle_chunk.log"),
        ],
        3,
    ),
)
def test_the_claims_on_other_settings_are_right(shared: Path, name: str) -> None:
    path = shared / "data/paddle" / name
    of, chance = whatif_judge.Requests(raw_runs(path)[""]), chance_of(name)
    for memory in (
        None,
        *(int(of.live_peak * chance.uniform(*span)) for span in some(((1, 1.2), (0.8, 1), (1.2, 2)), 2)),
    ):
        found = memlens.whatif(path, memory=memory).to_dict()["claims"]
        assert whatif_judge.judge(found, of).total() == len(found), memory


@pytest.mark.night
def test_what_is_claimed_of_several_processes_under_other_settings_is_right(shared: Path) -> None:
    path = shared / "data/paddle/09_two_procs_one_file_331.log.gz"
    lines, texts = read_packed(path).decode().split("\n"), dict[str, list[str]]()
    for line, thread in ((line, re.match(r"[IWE]\d{4} [\d:.]{15} +(\d+) ", line)) for line in lines):
        if thread:
            texts.setdefault(thread[1], []).append(line)
    device, *claims = memlens.whatif(path).to_dict()["claims"]
    first = of_paddle("\n".join(texts.pop(device["device"].split()[-1])))
    of = whatif_judge.Requests(first, [of_paddle("\n".join(one)) for one in texts.values()])
    assert whatif_judge.judge(claims, of)["others_need_less"]


def test_what_would_have_carried_a_run_on_is_as_claimed(
    tmp_path: Path, examples: Path, rounds: Callable[[int], range]
) -> None:
    fresh, paths = chance_of("remedy"), [examples / "oom.log.gz"]
    for seed in [57, *(fresh.getrandbits(32) for _ in rounds(12))]:  # of 57 all that is live is a multiple of 2 KiB
        text = run_until_full(seed, ("full", "size")[seed % 2])[0].text
        if b"] Alloc " in text:  # else its first request failed
            paths.append(tmp_path / f"{seed}.log")
            paths[-1].write_bytes(b"chunk_size_:256\n" + text)
    seen: Counter[str] = Counter()
    for path in paths:
        remedy = memlens.analyze(path).logs[0].remedy
        if remedy is not None:
            kind = "remedy" if remedy.line else "no_remedy" if remedy.over_bytes else "no_sure_remedy"
            seen += whatif_judge.judge([{"kind": kind, **remedy.to_dict()}], whatif_judge.Requests(raw_runs(path)[""]))
    assert seen["remedy"]
    assert seen["no_remedy"]


# -- made runs -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", some(PRINTS))
def test_the_claims_on_runs_that_print_their_steps_are_right(
    name: str, rounds: Callable[[int], range], tmp_path: Path
) -> None:
    path, fresh = tmp_path / "run.log", chance_of(name)
    for seed in [fresh.getrandbits(32) for _ in rounds(1)]:
        for leak in (True, False):
            path.write_bytes(printed(name, random.Random(seed), leak=leak, at_exit=seed % 2 == 0).text)
            for log, run in analyses(path):
                assert judged(log, run)["peak"], (seed, leak)


@pytest.mark.parametrize(
    "end", some([b"double free or corruption (!prev)\n", b"", b"Traceback (most recent call last):\n  File\n"], 2)
)
def test_the_claims_on_real_logs_that_stop_early_are_right(shared: Path, tmp_path: Path, end: bytes) -> None:
    path, seen = tmp_path / "run.log", Counter[str]()
    for name in some(("331_dygraph_cnn.log", "331_sot_pir_cnnbreaks.log", "262_ast_cnn_pt.log")):
        lines = (shared / "data/paddle" / name).read_bytes().splitlines(keepends=True)
        for part in (0.6, 0.8, 0.9, 1):
            path.write_bytes(b"".join(lines[: int(len(lines) * part)]) + end)
            for log, run in analyses(path):
                seen += judged(log, run)
    assert seen["run_ended"]


@st.composite
def runs(draw: st.DrawFn) -> str:
    """Steps that use memory, and may keep some of it; perhaps with chunks, and Frees of what was there before."""
    lines, place = [], 1 << 30
    sizes = st.sampled_from([256, 1024, 4096, 1 << 20])
    if draw(st.booleans()):
        lines.append(f"{HEADER}Alloc {draw(sizes)} bytes, ptr = 0x10")
    steps, leak = draw(st.sampled_from([0, 1, 3, 6, 12, 30])), draw(st.sampled_from([0, 0, 256, 4096]))
    for step in range(max(steps, 1)):
        lines += [f"STEP {step} START"] if steps else []
        for kept in draw(st.lists(st.booleans(), min_size=1, max_size=2)):
            place, size = place + (1 << 26), draw(sizes)
            if draw(st.booleans()):
                lines.append(f"{HEADER}Not found and reallocate {size}(0x{place:x}), and remaining 0")
            lines.append(f"{HEADER}Alloc {size} bytes, ptr = 0x{place:x}")
            if not (kept and draw(st.integers(0, 9)) == 0):
                lines.append(f"{HEADER}Free {size} bytes, ptr = 0x{place:x}")
        if leak:
            place += 1 << 26
            lines.append(f"{HEADER}Alloc {leak} bytes, ptr = 0x{place:x}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    path = tmp_path_factory.mktemp("runs") / "run.log"

    def write(text: str) -> Path:
        path.write_text(text)
        return path

    return write


@given(text=runs())
def test_the_claims_on_a_log_are_right(written: Callable[[str], Path], text: str) -> None:
    for log, run in analyses(written(text)):
        judged(log, run)


def test_of_chunks_alone_the_highest_window_is_that_with_the_most_reserved(written: Callable[[str], Path]) -> None:
    taken = [
        (f"STEP {step} START", f"{HEADER}Not found and reallocate {step + 1}000(0x{step + 1}000), and remaining 0")
        for step in range(3)
    ]
    ((log, run),) = analyses(written("\n".join(line for pair in taken for line in pair)), by=BY)
    run.by = BY
    assert judge(log.to_dict()["claims"], run)["peak"]
    assert "he highest peak in STEP 2: 5.86 KiB reserved, at line 6" in log.verdict


@given(text=runs())
def test_the_claims_on_windows_are_right(written: Callable[[str], Path], text: str) -> None:
    if "STEP 1 START" not in text:
        return
    ((series, run),) = analyses(written(text), by=BY)
    run.by = BY
    judge(series.to_dict()["claims"], run)
    ((one, of),) = analyses(written(text), start="STEP 1 START", end="STEP 2 START", to_end=True)
    of.asked = run.windows["STEP 1"]
    judge(one.to_dict()["claims"], of)


@pytest.mark.parametrize("kind", some([*LEAKS, *NO_LEAKS], 5), ids=lambda kind: kind.__name__)
def test_the_claims_on_levels_of_every_kind_are_right(
    written: Callable[[str], Path], rounds: Callable[[int], range], kind: Maker
) -> None:
    fresh = random.Random(kind.__name__)  # of a thousand series by chance one is uneven in a way of its own
    for seed in [fresh.getrandbits(32) for _ in rounds(1)]:
        live = made(kind, np.random.default_rng(seed), fresh.choice([12, 20, 50]))[0].tolist()
        lines = []
        for step, level in enumerate(live):
            lines.append(f"STEP {step} START")
            lines += [f"{HEADER}Alloc {level} bytes, ptr = 0x{step + 1:x}00"] * (level > 0)
            if step and (before := live[step - 1]):
                lines.append(f"{HEADER}Free {before} bytes, ptr = 0x{step:x}00")
        ((log, run),) = analyses(written("\n".join([*lines, "STEP END START"])), by=r"^(STEP \w+) START")
        run.by = r"^(STEP \w+) START"
        assert judge(log.to_dict()["claims"], run)["peak"], seed


@given(text=runs(), data=st.data())
def test_the_claims_on_a_block_are_right(written: Callable[[str], Path], text: str, data: st.DataObject) -> None:
    run = of_paddle(text)
    event = data.draw(st.sampled_from([k for k, one in enumerate(run.events) if one.kind == "alloc"]))
    run.asked = event, event + 1
    assert judge(memlens.block(written(text), run.events[event].place or 0).to_dict()["claims"], run).total() == 4


@pytest.mark.parametrize(("steps", "leak"), [(12, 4096), (30, 256), (99, 1 << 20)])
def test_a_constant_leak_is_claimed_to_the_byte(written: Callable[[str], Path], steps: int, leak: int) -> None:
    lines = []
    for step in range(steps):
        lines.append(f"STEP {step} START")
        lines += [f"{HEADER}{what} 8192 bytes, ptr = 0x10" for what in ("Alloc", "Free")]
        lines.append(f"{HEADER}Alloc {leak} bytes, ptr = 0x{(step + 1) << 26:x}")
    (found,) = [one for one in memlens.analyze(written("\n".join(lines))).claims if one.kind == "growing"]
    gained = (found.values["gained_bytes_per_window"], found.values["gained_bytes"])
    assert gained == (leak, leak * found.values["windows"] - leak * (found.values["since"] != "STEP 0"))


# -- the judge -----------------------------------------------------------------------------------------------------------------

#: What ranks a claim, a rate that has bounds, and flags that say why nothing is claimed.
_LEFT = {"weight", "gained_bytes_per_window", "parts", "by"}


def wronged(claim: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A claim with one of its figures, flags or names changed."""
    for name, value in claim.items():
        if name not in _LEFT and isinstance(value, (int, float)):
            yield {**claim, name: not value if isinstance(value, bool) else value + 1}


@pytest.mark.parametrize("name", some(["leak.log.gz", "torch_leak.json.gz", "oom.log.gz", "cnn_5steps.log.gz"], 2))
def test_the_judge_sees_a_wrong_figure(examples: Path, name: str) -> None:
    ((log, run),) = analyses(examples / name)
    assert judged(log, run)
    for claim in (one for one in run.claims if one["kind"] in JUDGES):
        for wrong in wronged(claim):
            with pytest.raises((AssertionError, StopIteration, KeyError, ValueError)):
                JUDGES[claim["kind"]](wrong, run)
