"""The loop that follows logs: when it looks, what it gives, which commands it runs, and when it ends; and on real logs the figures of the analysis."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from made_states import MIB, ScriptedLog, log_state
from msgspec.structs import asdict
from night import some
from texts import read_packed

import memlens
from memlens.options.verbs import Watch
from memlens.watching import followed
from memlens.watching.result import LogState
from memlens.watching.watch import Watching

Script = Sequence[LogState | Exception | None]


class Scripts:
    """Logs by their scripts, in place of what follows files."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.given: dict[str, tuple[Script, bool]] = {}
        self.opened: dict[str, ScriptedLog] = {}
        monkeypatch.setattr(followed, "Followed", self._open)

    def _open(self, path: str, **_: Any) -> ScriptedLog:
        states, ends = self.given[path]
        self.opened[path] = ScriptedLog(path, states, ends=ends)
        return self.opened[path]

    def watching(self, options: Watch, *, ends: bool = False, **logs: Script) -> Watching:
        self.given = {name: (states, ends) for name, states in logs.items()}
        return Watching(list(logs), options)


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Scripts:
    return Scripts(monkeypatch)


def test_the_next_look_follows_at_once_where_much_was_read(scripts: Scripts) -> None:
    states = [log_state("a", bytes=size * MIB) for size in (64, 128, 129)]
    watching = scripts.watching(Watch(), a=states)
    busy = []
    for _ in range(4):
        watching.look()
        busy.append(watching.busy)
    assert busy == [True, True, False, False]


def test_the_loop_waits_between_looks_and_not_after_it_has_ended(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    scripts.given = {"a": ([log_state("a", bytes=64 * MIB), log_state("a", bytes=65 * MIB), None, None], True)}
    items = list(memlens.watch("a", every=0.25, idle=1000))
    # After the second look and the third; after the first more was there, after the fourth nothing can come.
    assert slept == [0.25, 0.25]
    assert [item.ended for item in items] == ["", "", "input"]
    assert scripts.opened["a"].closed


def test_idle_ends_it_when_nothing_came_for_so_long(scripts: Scripts, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    watching = scripts.watching(Watch(idle=10), a=[log_state("a"), None, None, log_state("a"), None, None, None])
    ended = []
    for _ in range(7):
        now[0] += 5
        watching.look()
        ended.append(watching.ended)
    # Read at 5 and 20 s; at 15 s ten seconds had passed since 5 s.
    assert ended[:3] == ["", "", "idle"]
    assert ended[3:] == ["idle"] * 4  # it has ended: nobody looks again


def test_a_process_that_ended_ends_it_once_all_is_read(scripts: Scripts) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as program:
        watching = scripts.watching(Watch(pid=program.pid), a=[log_state("a"), None, None, log_state("a")])
        for _ in range(3):
            watching.look()
            assert watching.ended == ""
        assert program.stdin is not None
        program.stdin.close()
        os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)  # ended, and a zombie until somebody takes note
        ended = []
        for _ in range(3):
            watching.look()
            ended.append(watching.ended)
        # Something is still read; then it must be quiet twice, for it may have written through another program.
        assert ended == ["", "", "process"]
    watching = scripts.watching(Watch(pid=program.pid), a=[None])
    assert [(watching.look(), watching.ended)[1] for _ in range(2)] == ["", "process"]


def test_a_budget_that_nothing_can_be_held_against_is_said_at_the_end(scripts: Scripts) -> None:
    blind = log_state("a", allocated_bytes=None, reserved_peak_bytes=None)
    watching = scripts.watching(
        Watch(budgets=["peak=1GiB", "reserved=1GiB", "growth=1GiB"]),
        a=[blind],
        b=[log_state("b", live=range(3, 40), repeated=False)],
        bare=[log_state("bare", lines=9, events=9)],
        c=[log_state("c", live=[3, 4, 5])],  # the first of them is what precedes the first step
        d=[log_state("d", live=[3, 4, 5, 6, 7])],
        e=[],
    )
    assert watching.finish(analyze=False).unjudged == (
        "a: peak is not judged, for no line tells of blocks",
        "a: reserved is not judged, for no line tells of chunks",
        "a: growth is not judged, for no step lines were found (use --by)",
        "b: growth is not judged, for only parts of steps were found (use --by)",
        "bare: growth is not judged, for no step lines were found",  # every line is an event
        "c: growth is not judged, for 2 closed windows tell too little",
    )


def test_a_log_that_cannot_be_followed_does_not_lose_the_others(scripts: Scripts) -> None:
    error = memlens.InputError("a: is a directory", "Name a log file.")
    watching = scripts.watching(Watch(), a=[error], b=[log_state("b"), log_state("b")])
    watching.look()
    watching.look()
    assert [state.problem for state in watching.seen.states] == ["is a directory", ""]
    assert scripts.opened["a"].looks == 1
    assert watching.finish().states[1].events
    alone = scripts.watching(Watch(), a=[error])
    with pytest.raises(memlens.InputError, match="is a directory"):
        alone.look()


# Commands


def ran(scripts: Scripts, command: str, path: str = "a", patience: float = 20) -> str:
    """What a command writes that a peak over its budget runs."""
    with tempfile.TemporaryFile() as output:
        scripts.given = {path: ([log_state(path, peak_bytes=11 * MIB)], False)}
        watching = Watching(path, Watch(budgets=["peak=10MiB"], run=command), output)
        watching.look()
        watching.look()
        assert not watching.wait(patience)
        output.seek(0)
        return output.read().decode()


@pytest.mark.skipif(os.name != "posix", reason="the shell is another one")
def test_a_name_of_a_log_is_never_read_by_the_shell(scripts: Scripts) -> None:
    name = "a\"; echo owned; $(echo owned) `echo owned` '\n echo owned #"
    assert ran(scripts, 'printf %s "$MEMLENS_LOG"', name) == name


def real_log(shared: Path, name: str) -> bytes:
    return read_packed(next((shared / "data" / "paddle").glob(f"{name}.log*")))


def rows(result: Any) -> list[tuple[Any, ...]]:
    names = ("name", "start_line", "peak_bytes", "rise_bytes", "live_bytes", "allocs", "frees")
    return [tuple(row[name] for name in names) for row in result]


@pytest.mark.parametrize("by", [None, r"STEP (\d+) START"])
@pytest.mark.parametrize(
    "name", some(["05_leak_activations_331", "05_fixed_331", "05_grow_batch_331", "05_oom_331"], 2)
)
def test_the_figures_at_the_end_are_those_of_the_analysis(
    name: str, by: str | None, shared: Path, tmp_path: Path
) -> None:
    text = real_log(shared, name)
    log = tmp_path / "run.log"
    log.touch()
    pieces = [text[at : at + 100_003] for at in range(0, len(text), 100_003)]
    items = []
    with log.open("ab") as out:
        for item in memlens.watch(log, by=by, every=0.001, idle=0.2):
            items.append(item)
            if pieces:
                out.write(pieces.pop(0))
                out.flush()
    last = items[-1]
    (state,) = last.states
    assert not pieces
    assert (last.ended, state.bytes) == ("idle", len(text))
    whole = memlens.analyze(log, whole=True).logs[0].windows[0].results
    assert state.peak_bytes == whole["peak"].peak_bytes
    assert state.peak_line == whole["peak"].line
    assert state.allocated_bytes == whole["remaining"].live_bytes
    assert state.reserved_peak_bytes == whole["peak"].reserved_peak_bytes
    analysis = memlens.analyze(log, by=by)
    assert last.verdict == analysis.verdict
    assert last.analysis is not None
    series = analysis.to_dict()["logs"][0]
    windows = series["windows"] if by else series["steps"]["windows"]
    figures = [
        {**window, **window["peak"], **window["remaining"], **window.get("stats", {})} for window in windows[-64:]
    ]
    if by:
        assert rows(map(asdict, state.windows)) == rows(figures)
    else:
        assert [row[:5] for row in rows(map(asdict, state.windows))] == [
            (row["name"], row["start_line"], row["peak_bytes"], row["rise_bytes"], row["live_bytes"]) for row in figures
        ]
    growth = analysis.logs[0].growth
    assert (growth is None) == (last.growths[0] is None)
    if growth is not None and last.growths[0] is not None:
        assert (last.growths[0].verdict, last.growths[0].gained_bytes) == (growth.verdict, growth.gained_bytes)


@pytest.mark.parametrize(
    ("name", "leaks"),
    some(
        [  # by the flags that each was made with
            ("05_leak_activations_331", True),
            ("05_leak_graph_331", True),
            ("05_grow_batch_331", True),
            ("05_fixed_331", False),
            ("04_threads_30_ast_pt_transformer", False),
            # Calls of subgraphs and blocks are counted long before steps are, and fill memory one after the other.
            ("30_sot_cnn_breaks_pir", False),
            ("30b2_sot_cnn_breaks_pt", False),
            ("331_parts_pir_transformer", False),
        ],
        3,
    ),
)
def test_growth_of_a_real_log_is_claimed_while_it_is_written_where_it_leaks_alone(
    name: str, leaks: bool, shared: Path, tmp_path: Path
) -> None:
    text = real_log(shared, name)
    log = tmp_path / "run.log"
    log.touch()
    with closing(Watching(log, Watch(budgets=["growth=0"]))) as watching, log.open("ab") as out:
        for at in range(0, len(text), 20_011):
            out.write(text[at : at + 20_011])
            out.flush()
            watching.look()
        assert bool(watching.seen.crossings) == leaks
        assert bool(watching.finish().crossings) == leaks


def test_a_rotated_log_ends_with_the_figures_of_all_that_was_read(examples: Path, tmp_path: Path) -> None:
    text = read_packed(examples / "cnn_5steps.log.gz")
    half = text.index(b"\n", len(text) // 2) + 1
    log = tmp_path / "run.log"
    log.write_bytes(text[:half])
    items = memlens.watch(log, by=r"STEP (\d+) START", every=0.001, idle=0.2)
    next(items)
    log.rename(tmp_path / "run.log.1")
    log.write_bytes(text[half:])
    *_, last = items
    whole = tmp_path / "whole.log"
    whole.write_bytes(text)
    peak = memlens.analyze(whole, whole=True).logs[0].windows[0].results["peak"]
    assert (last.states[0].rotations, last.states[0].peak_bytes) == (1, peak.peak_bytes)
    assert last.analysis is None  # the file of that name holds the second half alone
    assert last.verdict.startswith(f"Peak: {memlens.format_bytes(peak.peak_bytes)} allocated, ")
    assert "continued in a new file 1 time, so earlier parts may be lost" in last.verdict


def test_every_field_of_the_machine_output_is_on_its_page(examples: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "watch.md").read_text()
    *_, last = memlens.watch(examples / "leak.log.gz", idle=0, budgets=["growth=0"])
    found = last.to_dict()
    (log,) = found["logs"]
    crossing = found["crossings"][0]
    for fields in (found, log, log["growth"], log["windows"][0], crossing):
        missing = [field for field in fields if f"`{field}`" not in page]
        assert not missing
