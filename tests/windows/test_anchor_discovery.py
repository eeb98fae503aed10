"""Anchor lines that two logs share are found without being told; what only looks like them is not."""

from __future__ import annotations

import itertools
import random
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from night import NIGHT, some
from paddle import read
from step_lines import steps, text_of

from memlens.errors import MemlensError
from memlens.log import Log
from memlens.windows import landmarks
from memlens.windows.anchor_discovery import Family, common_family, family
from memlens.windows.anchor_lines import Kinds, counting_lines, may_mark, shown_text, skeleton, unpadded
from memlens.windows.anchor_templates import padded, templates
from memlens.windows.patterns import Pattern


@pytest.fixture
def log(tmp_path: Path):  # type: ignore[no-untyped-def]
    """Reads lines as a log; ``*`` stands for three events."""
    numbers = itertools.count()

    def written(lines: Sequence[str]) -> Log:
        path = tmp_path / f"run{next(numbers)}.log"
        path.write_text(text_of(lines))
        return read(path)

    return written


def found(log, lines: Sequence[str], other: Sequence[str] | None = None) -> Family | None:  # type: ignore[no-untyped-def]
    return common_family(log(lines), log(lines if other is None else other))


def lines_of(family: Family) -> tuple[int, int]:
    """How many lines base and head have."""
    base, head = map(len, family.anchors)
    return base, head


# -- what is found; the lines that are stand in test_step_discovery.py -----------------------------------------------------


@pytest.mark.parametrize(("count", "is_family"), [(2, False), (3, True)])
def test_lines_without_a_word_of_anchors_are_three_at_least(log, count: int, is_family: bool) -> None:  # type: ignore[no-untyped-def]
    assert (found(log, steps("hello {}", count=count)) is not None) == is_family
    assert found(log, steps("SOT_CALL_{} forward", count=count)) is not None


# -- which one -------------------------------------------------------------------------------------------------------------


def by(family: Family | None) -> str | None:
    return None if family is None else family.by


def test_lines_that_say_start_go_before_lines_that_say_end(log) -> None:  # type: ignore[no-untyped-def]
    lines = [line for k in range(4) for line in (f"STEP {k} START", "*", f"END PART_{2 * k}", "*", f"END PART_{2 * k + 1}", "*")]  # fmt: skip
    assert by(found(log, lines)) == r"^(STEP \d+) START"
    assert by(found(log, [line for line in lines if "START" not in line])) == r"^(END PART_\d+)"


def test_an_expression_that_finds_other_lines_too_is_made_to_fit_the_whole_line(log) -> None:  # type: ignore[no-untyped-def]
    lines = steps("step {}", "step {} was profiled twice: step {}")
    assert by(found(log, lines)) == r"^(step \d+)\s*$"


# -- what is none ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "anchor",
    [
        "START OPT",  # no number
        'MEMSTAT {"allocated": {}, "reserved": 9}',
        "loss: {}",
        "loss {}",
        "worker {} started",
        "[rank {}] start",
        "rank {} step 3 start",
        "UserWarning: retry {} of 10",
        "warning: step {} is slow",
        "Downloading shard {}",
        "allocated {} MB",
        "took {}ms",
        "step 0.{} start",
        "time 12:30:1{}",
        "tensor {} of the call",
        "Epoch 1:  12%|###| {}/100",
        "Epoch {}: 100%|###| 1/1\rEpoch 2: 100%|###| 1/1",
        "Chunk\t{}\t256\t[(256,0x55d0)]",
        "{}       ->                                     1",
        "==========Running_C++_API: full_{}==========",
        "I1120 10:22:32.856307 13292 train.cc:3] step {}",
        "69: I1120 10:22:32.856307 13292 train.cc:3] START step {}",
        "hello 1{}",  # counts, but from 10
    ],
)
def test_lines_that_say_something_else_do_not_count_but_may_come_evenly(log, anchor: str) -> None:  # type: ignore[no-untyped-def]
    two, one = found(log, steps(anchor)), family(log(steps(anchor)))
    assert two is None or (one is not None and two.by == one.by)


def test_a_family_of_one_log_is_none(log) -> None:  # type: ignore[no-untyped-def]
    assert found(log, steps("STEP {} START"), steps("PHASE {} START")) is None
    assert found(log, steps("STEP {} START", count=5), ["*"]) is None


def test_the_family_of_the_same_numbers_goes_first(log) -> None:  # type: ignore[no-untyped-def]
    def lines(first: int) -> list[str]:
        return [line for k in range(4) for line in (f"START ROUND {first + k}", "*", f"START CALL {k}", "*")]

    family = found(log, lines(0), lines(40))
    assert family is not None
    assert family.by == r"^START (CALL \d+)"


def test_windows_that_do_not_share_the_events_out_are_none(log) -> None:  # type: ignore[no-untyped-def]
    idle = [f"START CALL_{k}" for k in range(5)]
    assert found(log, [*["*"] * 9, *idle]) is None  # all events before
    assert found(log, [*idle, *["*"] * 9]) is None  # all in the last window
    evaluated = [line for k in range(5) for line in (f"eval batch {k} begin", "*")]
    assert found(log, [*["*"] * 9, *evaluated]) is None  # most of the run before
    assert found(log, ["*", *(line for k in range(5) for line in (f"eval batch {k} begin", "*")), *["*"] * 99]) is None


# -- hostile text ----------------------------------------------------------------------------------------------------------


def test_any_line_is_looked_at_without_harm_and_its_template_finds_it() -> None:
    texts = ["START", "STEP", "epoch", " ", "  ", "\t", "3", "17", "0", "/", "[", "]", "(", ")", "=", "==", ":", ".", "-", "#", "_", "|", "*", "\\", "^", "$", "END", "é", "\ufffd", "fp16", "x"]  # fmt: skip
    chance = random.Random(0)
    for _ in range(20_000):
        line = "".join(chance.choices(texts, k=chance.randint(1, 12)))
        for template in templates(skeleton(line.encode())) if may_mark(line.encode()) else ():
            for expression in (template.by, template.strict):
                name = Pattern(expression, regex=True).match_line(line.encode())
                assert name, (line, expression)
            digits = re.findall("[0-9]+", line)
            # The numbers of the name are those that are said to be in it.
            assert [digits[n] for n in template.numbers] == re.findall("[0-9]+", re.search(template.by, line)[1])  # type: ignore[index]
    assert templates(b"\xff START 0") == ()


def line_by_line(lines: Sequence[bytes]) -> dict[str, list[tuple[int, tuple[int, ...]]]]:
    """Which lines count, by what finds them: as ``counting_lines`` says, but each line by itself."""
    known = []
    for at, line in enumerate(map(shown_text, lines)):
        digits = re.findall(rb"[0-9]+", line)
        if len(line) <= 400 and max(map(len, digits), default=0) <= 9 and may_mark(line):
            wide = unpadded(line) != line
            known += [(at, digits, template, wide) for template in templates(skeleton(unpadded(line)))]
    may_be_wide = {template.by for _, _, template, wide in known if wide}
    found: dict[str, list[tuple[int, tuple[int, ...]]]] = {}
    for at, digits, template, _ in known:
        by = padded(template).by if template.by in may_be_wide else template.by
        found.setdefault(by, []).append((at, tuple(int(digits[n]) for n in template.numbers)))
    return found


def test_lines_that_are_looked_at_by_kind_are_found_as_each_by_itself_is(rounds: Callable[[int], range]) -> None:
    texts = [b"START", b"STEP ", b"step: ", b"epoch ", b"  ", b"\t", b"3", b"17", b"0", b"/", b"[", b"]", b"1234567890", b"\r", b"\b",
             b"] I0712 10:22:32 ", b'{"step": ', b"}", b"0x", b"loss = 0.5", b"%|", b"|", b"->", b"END", b"\xe5", b"x" * 390, b"\n"]  # fmt: skip
    chance = random.Random(0)
    for _ in rounds(500):
        known = [b"".join(chance.choices(texts, k=chance.randint(1, 6))) for _ in range(4)]
        lines = [chance.choice((chance.choice(known), b"STEP %*d of 9" % (chance.randint(1, 3), k))) for k in range(12)]
        seen = counting_lines(Kinds.of(range(len(lines)), lines))
        assert {by: list(zip(one.offsets, one.numbers, strict=True)) for by, one in seen.items()} == line_by_line(lines)


def test_a_log_full_of_lines_at_the_margin_is_gone_through_in_a_moment(log, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    noise = [f"noise {chr(97 + k % 26)}{k * 7919 % 1000} of {k}" for k in range(3000)]
    lines = [line for k in range(6) for line in (f"START CALL_{k}", "*", *noise)]
    base, head = log(lines), log(lines)
    begun = time.process_time()
    assert by(common_family(base, head)) == r"^START (CALL_\d+)"
    assert time.process_time() - begun < 10
    # Where not all lines are kept, the family is still the one of the whole log.
    monkeypatch.setattr(landmarks, "_MOST_OF_BLOCK", 3)
    family = common_family(log(lines), log(lines))
    assert by(family) == r"^START (CALL_\d+)"
    assert family is not None
    assert lines_of(family) == (6, 6)


# -- real logs -------------------------------------------------------------------------------------------------------------


def test_real_pairs_are_cut_by_what_their_script_printed(shared: Path) -> None:
    """By the anchors that the data's README lists: the calls or blocks where both have them, else the steps, where both have two."""
    logs: dict[str, Log] = {}
    for path in some(sorted((shared / "data" / "paddle").glob("*.log*")), 2):
        try:
            if not path.name.endswith(".zst"):
                logs[path.name] = read(path)
        except MemlensError:
            continue  # logs without events
    assert len(logs) > 15
    texts = {name: b"".join(text for _, text in log.source.blocks()) for name, log in logs.items()}
    unclear = {
        name
        for name in logs
        # Several processes wrote each number; anchors came late, or there are chunk lines only, so that most windows are empty.
        if re.search("procs|stdout_anchors|loader_workers", name)
    }

    def names(name: str, expression: bytes) -> set[bytes]:
        return set() if "procs" in name else set(re.findall(expression, texts[name], re.MULTILINE))

    order = list(logs)
    for k, one in enumerate(order):
        for other in order[k + 1 :: 15 if NIGHT else 45]:
            if one in unclear and other in unclear:
                continue
            expected = None
            for expression in (rb"^START (SOT_CALL_\d+)", rb"^START (BLOCK_\d+)", rb"^(STEP \d+) START"):
                if len(names(one, expression) & names(other, expression)) >= 2:
                    expected = expression.decode()
                    break
            assert by(common_family(logs[one], logs[other])) == expected, (one, other)


def test_anchors_that_came_late_in_both_real_runs_are_none(shared: Path) -> None:
    late = read(shared / "data" / "paddle" / "07_stdout_anchors_331.log.gz")
    chunks_only = read(shared / "data" / "paddle" / "09_loader_workers_331.log.gz")
    assert common_family(late, chunks_only) is None
    assert common_family(late, late) is None
