"""Who holds what is live in a log that grows, held against a plain program that follows it line by line."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from claim_judge import judge
from hypothesis import example, given
from hypothesis import strategies as st
from logs import LogText
from raw_runs import of_paddle
from texts import read_packed

from memlens.options.verbs import Watch
from memlens.watching.followed import Followed
from memlens.watching.holding import Walk
from memlens.watching.watch import Watching

HOLDERS = ("variable feats[{}] (main, t.py)", "variable x{} (t.py)", "parameter net.w{} (t.py)", "variable h (f, t.py)")
ROWS = st.tuples(st.just("holds"), st.integers(1, 6), st.sampled_from(HOLDERS), st.integers(0, 2))
EVENTS = st.tuples(st.just("event"), st.integers(1, 6), st.integers(1, 9))
LINES = st.lists(EVENTS | ROWS | st.sampled_from([("whole",), ("graph",)]), max_size=60)
KIB = 1 << 10


def text_of(lines: list[tuple[Any, ...]]) -> str:
    """Each event allocates what is not live at its address, and frees what is."""
    log, live = LogText(), dict[int, int]()
    log.say("memlens calls -", "line.py:0")
    for what, *values in lines:
        if what == "event":
            addr, size = values
            if addr in live:
                log.free(live.pop(addr), addr << 12)
            else:
                live[addr] = size * KIB
                log.alloc(size * KIB, addr << 12)
        elif what == "holds":
            addr, holder, number = values
            log.say(f"memlens holds {addr << 12:#x} {holder.format(number)}", "line.py:0")
        else:
            for row in ["graph loss.grad_fn (main, t.py): Add 1 Mean 1"] * (what == "graph") + ["-"]:
                log.say(f"memlens holds 0x0 {row}", "line.py:0")
    return log.text


def plain_walks(text: str) -> list[Walk]:
    """The walks that saw all."""
    live, said = dict[str, int](), dict[str, tuple[str, int]]()
    found, walk, last = list[Walk](), 0, 0
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("] ")[2].split()
        if words[0] == "Alloc":
            live[words[-1]], last = int(words[1]), number
        elif words[0] == "Free":
            del live[words[-1]]
            said.pop(words[-1], None)
            last = number
        elif words[:4] == ["memlens", "holds", "0x0", "-"]:
            held = dict[str, tuple[int, int]]()
            for addr, (holder, at) in said.items():
                if at == walk or holder.startswith("parameter"):
                    size, count = held.get(holder, (0, 0))
                    held[holder] = size + live[addr], count + 1
            found.append(Walk(last, -1, sum(live.values()), True, held, 0))
            walk += 1
        elif words[1] == "holds" and words[2] in live:
            holder = " ".join(words[3:])
            head, _, rest = holder.partition("[")
            said[words[2]] = (f"{head}[*]{rest.partition(']')[2]}" if rest else holder), walk
    return found


@example([("event", 1, 2), ("holds", 1, HOLDERS[1], 0), ("graph",)], 3000)
@given(LINES, st.integers(30, 3000))
def test_a_walk_has_what_a_plain_program_finds_however_the_log_grows(
    tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[Any, ...]], piece: int
) -> None:
    text = text_of(lines)
    path = tmp_path_factory.mktemp("log") / "run.log"
    path.touch()
    with closing(Followed(path)) as log, path.open("a") as out:
        for at in range(0, len(text), piece):
            out.write(text[at : at + piece])
            out.flush()
            while log.poll():
                pass
        walks = [walk._replace(window=-1) for walk in log.states()[0].walks]
    # Of many walks some are looked at, in their order, the last one among them.
    expected = plain_walks(text)
    assert walks[-1:] == expected[-1:]
    rest = iter(expected)
    assert all(any(walk == one for one in rest) for walk in walks)


def test_few_walks_are_kept_and_of_each_the_largest_holders(tmp_path: Path) -> None:
    log = LogText()
    log.say("memlens calls -", "line.py:0")
    with closing(Followed(tmp_path / "run.log")) as followed, (tmp_path / "run.log").open("a") as out:
        for number in range(1, 401):
            log.alloc(number, number << 12)
            for one in range(1, number + 1):
                log.say(f"memlens holds {one << 12:#x} variable x{one} (t.py)", "line.py:0")
            log.say("memlens holds 0x0 -", "line.py:0")
            out.write(log.text)
            out.flush()
            log.lines.clear()
            assert followed.poll()
        walks = followed.states()[0].walks
    assert len(walks) <= 32
    assert (len(walks[0].held), len(walks[-1].held)) == (1, 256)
    assert walks[-1].live_bytes == 400 * 401 // 2
    # The 256 largest are those of 145 bytes to 400; a smaller one has 144 at most.
    assert (min(walks[-1].held.values()), walks[-1].left_out_bytes) == ((145, 1), 144)
    assert walks[-1].gained("variable x400 (t.py)", walks[0]) == 400


def leak(steps: int, *, keeps: bool) -> list[str]:
    """The lines of each step: a block that is kept in a list, or freed; a walk in every fourth step."""
    log, found = LogText(), list[str]()
    log.say("memlens calls -", "line.py:0")
    for step in range(steps):
        log.lines.append(f"STEP {step} START")
        log.alloc(256 * KIB, (step + 1) << 20)
        if step % 4 == 3:
            for one in range(step + 1) if keeps else [step]:
                log.say(f"memlens holds {(one + 1) << 20:#x} variable feats[{one}] (main, train.py)", "line.py:0")
            log.say("memlens holds 0x0 -", "line.py:0")
        if not keeps:
            log.free(256 * KIB, (step + 1) << 20)
        found.append(log.text)
        log.lines.clear()
    return found


@pytest.mark.parametrize("budget", ["peak=5MiB", "peak=1GiB"])
def test_while_memory_grows_it_is_said_who_holds_what_it_grows_by(budget: str, tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.touch()
    with closing(Watching(path, Watch(budgets=[budget]))) as watching, path.open("a") as out:
        for text in leak(22, keeps=True):
            out.write(text)
            out.flush()
            watching.look()
        watching._judge._again = 0.0
        seen = watching.finish(analyze=False)
    (claim,) = [claim for claim in seen.claims if claim.kind == "held_then"]
    first, last = claim.values["since_line"], claim.values["line"]
    lines = path.read_text().splitlines()
    # The blocks of 20 steps are there when it is looked for the last time, in step 19.
    assert [sum(" Alloc " in line for line in lines[:at]) for at in (first, last)][1] == 20
    before = sum(" Alloc " in line for line in lines[:first])
    more = f"{(20 - before) / 4:.2f} MiB more than at line {first:,}"
    assert (
        claim.text
        == f"at line {last:,} feats[*] (main, train.py) held 5.00 MiB (100% of what was live) in 20 blocks, {more}"
    )
    assert claim.text[1:] in seen.verdict
    assert judge([claim.to_dict()], of_paddle(path.read_text()))["held_then"]


@pytest.mark.parametrize(("budget", "last", "said"), [
    ("peak=1KiB", "", True),
    ("peak=1MiB", "", False),
    ("peak=1MiB", "Allocation of 1048576 bytes failed after releasing memory from all streams.", True),
])  # fmt: skip
def test_past_its_budget_or_out_of_memory_who_held_most_is_said_though_nothing_grows(
    budget: str, last: str, said: bool, tmp_path: Path
) -> None:
    path = tmp_path / "run.log"
    log = LogText(lines=leak(22, keeps=False))
    log.say(last, "stream_safe_cuda_allocator.cc:224")
    path.write_text(log.text)
    with closing(Watching(path, Watch(budgets=[budget]))) as watching:
        watching.look()
        verdict = watching.finish(analyze=False).verdict
    assert verdict.count("feats[*] (main, train.py) held 256.00 KiB (100% of what was live) in 1 block.") == said


def test_a_log_without_names_says_nothing_of_holders(shared: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(read_packed(next((shared / "data" / "paddle").glob("05_leak_activations_331.log*"))))
    with closing(Watching(path, Watch(budgets=["peak=1KiB"]))) as watching:
        watching.look()
        seen = watching.finish(analyze=False)
    assert (seen.states[0].walks, "held" in seen.verdict) == ((), False)
