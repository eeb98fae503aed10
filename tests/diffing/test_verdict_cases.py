"""What the verdict of a comparison says where a plain reading of its figures would mislead; all expected figures are arithmetic on the runs made here."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest
from answers import replace
from compared_judge import RawRun
from edited_runs import Row, rows_of, write
from logs import LogText
from night import chance_of

import memlens
from memlens.diffing.explaining import explained
from memlens.diffing.result import Diff
from memlens.events import Kind
from memlens.facts import Facts
from memlens.log import Log
from memlens.text import format_bytes
from memlens.trust.case import Note

KIB, MIB = 1 << 10, 1 << 20
#: Blocks of a step; their numbers leave room for those that a test adds.
_SIZES = (3 * MIB, 2 * MIB, 300 * KIB, 700 * KIB)
Step = Callable[[int], list[Row]]


def block(number: int, which: int, size: int) -> tuple[Row, Row]:
    """The ALLOC and the FREE of a block of a step."""
    name = 1000 * (number + 1) + which
    return ("ALLOC", size, name), ("FREE", size, name)


def work(number: int) -> list[Row]:
    """What every step does: all its blocks live together, and are freed."""
    ends = [block(number, which, size) for which, size in enumerate(_SIZES)]
    return [*(alloc for alloc, _ in ends), *(free for _, free in ends)]


def steps(count: int, step: Step = work) -> list[Row]:
    """A run of steps between a block of 1 MiB and its FREE, which stands in the last one."""
    rows: list[Row] = [("ALLOC", MIB, 1)]
    for number in range(count):
        rows += [("STEP", number, 0), *step(number)]
    return [*rows, ("FREE", MIB, 1)]


def compared(base: list[Row], head: list[Row], folder: Path, **options: str) -> Diff:
    return memlens.diff(write(base, folder / "base.log"), write(head, folder / "head.log"), **options)  # type: ignore[arg-type]


def line_of(rows: list[Row], row: Row) -> int:
    return rows.index(row) + 1


def test_at_the_peak_only_blocks_that_are_live_there_are_counted_and_one_of_them_is_cited(
    examples: Path, tmp_path: Path, rounds: Callable[[int], range]
) -> None:
    size, seen = 777_216, 0
    run = [row for row in rows_of(examples / "cnn_5steps.log.gz") if row[0] != "STEP"]
    fresh = chance_of("at the peak")
    for seed in [fresh.getrandbits(32) for _ in rounds(12)]:
        chance, head = Random(seed), list(run)
        for number in range(30):
            start = chance.randrange(len(head))
            ends = ("ALLOC", size, 900_000 + number), ("FREE", size, 900_000 + number)
            head[start:start] = [ends[0]]
            stop = min(start + 1 + chance.randrange(80), len(head))
            head[stop:stop] = [ends[1]]
        live: dict[int, int] = {}
        highest, at_peak = -1, dict(live)
        for kind, amount, name in head:
            live.update({name: amount}) if kind == "ALLOC" else live.pop(name)
            if sum(live.values()) > highest:
                highest, at_peak = sum(live.values()), dict(live)
        counting = [name for name, amount in at_peak.items() if amount == size]
        said = compared(run, head, tmp_path).verdict
        if not (found := re.search(r"(a|\d+) blocks? of 759\.00 KiB .* at line ([\d,]+) and frees", said)):
            continue
        seen += 1
        assert int(found[1].replace("a", "1")) == len(counting), (seed, said)
        assert f"{format_bytes(size * len(counting))}" in said, (seed, said)
        cited = head[int(found[2].replace(",", "")) - 1]
        assert cited in [("ALLOC", size, name) for name in counting], (seed, said)
    assert seen


def test_a_peak_that_may_lie_before_the_recording_is_no_saving(tmp_path: Path) -> None:
    """Head's steps lack the 3 MiB; had its recording begun late, nobody could know."""
    head = steps(6, lambda number: [row for row in work(number) if row[1] != 3 * MIB])
    diff = compared(steps(6), head, tmp_path)
    assert (diff.answer.tone, "earlier" in diff.verdict) == ("good", False)
    trust = replace(diff.head.trust, notes=(Note("starts_late", "late"),))
    late = replace(diff, head=replace(diff.head, trust=trust))
    assert late.answer.tone == "plain"
    assert late.verdict.startswith("Since the first entry, head peaks at ")
    assert late.verdict.endswith("he true peak of head may be earlier.")


def test_a_leak_is_said_although_the_peak_is_lower(tmp_path: Path) -> None:
    """Head's steps have 1 MiB instead of the 3, and from STEP 3 on keep 128 KiB each."""

    def leaking(number: int) -> list[Row]:
        rows = [(kind, MIB if size == 3 * MIB else size, name) for kind, size, name in work(number)]
        return rows if number < 3 else [*rows, block(number, 50, 128 * KIB)[0]]

    base, head = steps(8), steps(8, leaking)
    diff = compared(base, head, tmp_path)
    # STEP 3 to 6 are closed: 4 blocks.  The last step has the highest level: 4 * 128 KiB more, 2 MiB less.
    assert "Head peaks at 5.48 MiB, 1.50 MiB less than base (6.98 MiB). But from STEP 3 on " in diff.verdict
    assert " head leaves 128.00 KiB more behind in each window. " in diff.verdict
    line = line_of(head, block(3, 50, 128 * KIB)[0])
    what = "All of the 512.00 KiB left behind is 4 blocks of 128.00 KiB that only head keeps"
    assert f"{what}. Head allocates the first at line {line} and never frees it." in diff.verdict
    assert diff.answer.tone != "good"
    # Of two whole logs likewise.
    base, head = (
        [row for row in rows if row[0] != "STEP"]
        for rows in (base, [row for row in head if row[1] != 128 * KIB or row[2] == 4050])
    )
    said = compared(base, head, tmp_path).verdict
    assert "; but head leaves 128.00 KiB behind, 128.00 KiB more than base (0 B). All of the 128.00 KiB left" in said


def test_what_stays_behind_is_said_beside_a_peak_that_is_higher(tmp_path: Path) -> None:
    """STEP 2 goes 5 MiB higher, and STEP 4 keeps 64 KiB, which the peak has nothing of."""

    def both(number: int) -> list[Row]:
        high = [*work(number)[:4], *block(number, 50, 5 * MIB), *work(number)[4:]]
        return high if number == 2 else [*work(number), *block(number, 51, 64 * KIB)[: 1 if number == 4 else 0]]

    said = compared(steps(7), steps(7, both), tmp_path).verdict
    assert "rises 5.00 MiB higher; 2 of 7 windows need more. In all 64.00 KiB more is left behind, in STEP 4." in said
    assert "All of the 5.00 MiB is a block of 5.00 MiB that only head has. Head allocates it at line " in said


def test_a_leak_of_one_steps_length_is_a_late_free_of_each_step(tmp_path: Path) -> None:
    """Each step leaves 2 MiB to the next one, which frees them: the peak has one such block more, and 8 closed steps free one late."""

    def lagging(number: int) -> list[Row]:
        before = [block(number - 1, 1, 2 * MIB)[1]] if number else []
        return [*(row for row in work(number) if row[:2] != ("FREE", 2 * MIB)), *before]

    base, head = steps(10), steps(10, lagging)
    diff = compared(base, head, tmp_path)
    free = line_of(base, block(0, 1, 2 * MIB)[1])  # the highest level comes first in STEP 1
    assert diff.answer.sentences[:2] == (
        "Head peaks at 8.98 MiB, 2.00 MiB more than base (6.98 MiB).",
        f"All of the 2.00 MiB is a late Free of 2.00 MiB: base frees it at line {free}, head one window later, in 8 windows.",
    )


def test_blocks_of_a_size_of_which_others_have_more_too_are_said_to_be_some_of_them(tmp_path: Path) -> None:
    """Both keep a block at the end of each step, base of 4 steps more; one of the four that base has more at its peak head allocates after its own."""

    def leaking(number: int) -> list[Row]:
        return [*work(number), *block(number, 50, 256 * KIB)[:1]]

    said = compared(steps(12, leaking), steps(8, leaking), tmp_path).verdict
    assert "768.00 KiB, is 3 of 4 more blocks of 256.00 KiB. " in said


def test_where_both_runs_free_late_each_window_in_which_one_frees_later_still_counts(tmp_path: Path) -> None:
    """Base frees what a step leaves one step later, head three: in each window of 3 to 8 head frees what is two windows late."""

    def lagging(by: int) -> list[Row]:
        def both(number: int) -> list[Row]:
            kept = [row for row in work(number) if row[:2] != ("FREE", 2 * MIB)]
            return [*kept, *([block(number - by, 1, 2 * MIB)[1]] if number >= by else [])]

        return steps(10, both)

    said = compared(lagging(1), lagging(3), tmp_path).verdict
    assert "head 2 windows later, in 6 windows." in said


@pytest.mark.parametrize(("spared", "whole", "such"), [(0, "1.75 MiB", "all of it"), (200, "1.55 MiB", "1.75 MiB")])
def test_a_leak_of_another_size_in_every_window_is_counted_over_all_sizes(
    spared: int, whole: str, such: str, tmp_path: Path
) -> None:
    """Step n keeps what it has of n + 1 times 64 KiB, and base frees it: 64 KiB * (1 + … + 7); head may spare a block that base has throughout."""

    def growing(number: int) -> list[Row]:
        return [*work(number), *block(number, 50, 64 * KIB * (number + 1))]

    base = [*block(99, 9, spared * KIB)[:1], *steps(8, growing)] if spared else steps(8, growing)
    said = compared(base, steps(8, lambda number: growing(number)[:-1]), tmp_path).verdict
    what = f"The largest part of the {whole}, 448.00 KiB, is a missing Free of 448.00 KiB (7 such Frees are {such}). "
    assert f"{what}Base frees it at line " in said


def test_where_some_windows_need_more_and_others_less_neither_run_is_called_the_worse(tmp_path: Path) -> None:
    # The same batches in another order: steps 0 to 6 take 1, 8, 2, 7, 3, 6, 4 MiB, and in head 8, 1, 7, 2, 6, 3, 4; the last one is open.
    def run(*order: int) -> list[Row]:
        return steps(len(order), lambda number: list(block(number, 0, order[number] * MIB)))

    one, other = run(1, 8, 2, 7, 3, 6, 4, 4), run(8, 1, 7, 2, 6, 3, 4, 4)
    cases = (one, other, "8 windows need more and 3 less"), (other, one, "8 windows need less and 3 more")
    for base, head, words in cases:
        diff = compared(base, head, tmp_path)
        assert diff.answer.tone == "plain"
        assert f"3 of {words}, the first STEP 0 (line " in diff.verdict
        assert diff.verdict.endswith("and what they leave behind cancels out.")
    # Where head leaves 256 bytes behind as well, before step 7, it is the one that needs more.
    at = other.index(("STEP", 7, 0))
    assert compared(one, [*other[:at], ("ALLOC", 256, 999_999), *other[at:]], tmp_path).answer.tone == "bad"


# -- cases of real users: what is led with is what is explained ------------------------------------------------------------------


def printed(count: int, step: Step, folder: Path, name: str) -> Path:
    """A run that prints a line at the end of each step."""
    log, places = LogText(), {"ALLOC": "alloc", "FREE": "free"}
    for number in range(count):
        for kind, size, at in step(number):
            getattr(log, places[kind])(size, at << 24)
        log.lines.append(f"step {number}, loss: 0.{number:03}")
    (folder / name).write_text(log.text)
    return folder / name


def test_where_steps_are_printed_at_their_end_a_leak_is_missing_frees_and_windows_have_the_name_of_their_step(
    tmp_path: Path,
) -> None:
    """A block of each step lives until the next one replaces it; from step 4 on head keeps it."""

    def replaced(leak: int) -> Step:
        def step(number: int) -> list[Row]:
            before = [block(number - 1, 60, 256 * KIB)[1]] if 0 < number <= leak else []
            return [*work(number), block(number, 60, 256 * KIB)[0], *before]

        return step

    paths = [printed(20, replaced(leak), tmp_path, f"{leak}.log") for leak in (20, 4)]
    diff = memlens.diff(*paths)
    texts = [path.read_text().splitlines() for path in paths]
    # Step 5 is the first that does not free what the step before it allocated.
    address = f"ptr = {(5000 + 60) << 24:#x}"
    (_, free), (alloc,) = ([n for n, line in enumerate(text, 1) if line.endswith(address)] for text in texts)
    assert diff.answer.sentences[1:3] == (
        "All of the 3.50 MiB is 14 missing Frees of 256.00 KiB.",
        f"Base frees the first at line {free:,}, head allocates it at line {alloc:,} and never frees it.",
    )
    assert " first needs more in step 5 (line " in diff.verdict
    assert [one.kind for window in diff.judged for one in window.findings] == ["missing_free"] * 15


def test_blocks_of_one_size_cancel_whichever_window_keeps_them(tmp_path: Path) -> None:
    """Head keeps 8 blocks of STEP 1 that base keeps of STEP 2, and both free them in STEP 5; of another size head keeps one more."""

    def kept(where: int, more: int) -> Step:
        def step(number: int) -> list[Row]:
            born = [block(1, 70 + which, 128 * KIB) for which in range(8)]
            rows = (
                [alloc for alloc, _ in born] if number == where else [free for _, free in born] if number == 5 else []
            )
            return [*work(number), *rows, *([block(3, 90, 64 * KIB)[0]] if number == more else [])]

        return step

    diff = compared(steps(9, kept(2, -1)), steps(9, kept(1, 3)), tmp_path)
    what = "All of the 64.00 KiB is a block of 64.00 KiB that only head has: head allocates it at line "
    assert diff.answer.sentences[1].startswith(what)


def test_a_missing_free_is_of_the_window_in_which_one_run_frees_the_block_and_the_first_is_what_is_freed_first(
    tmp_path: Path,
) -> None:
    """Base lets go of two blocks of each step in the one after it, the second of them first; head keeps them to the end."""

    def step(number: int) -> list[Row]:
        born, older = ([block(of, 60 + which, 512 * KIB) for which in range(2)] for of in (number, number - 1))
        frees = [free for _, free in reversed(older)] if number else []
        return [*work(number), *(alloc for alloc, _ in born), *frees]

    base = steps(9, step)
    kept = [row for row in base if row[0] == "FREE" and row[1] == 512 * KIB]
    head = [*(row for row in base if row not in kept), *kept]
    diff = compared(base, head, tmp_path)
    first = line_of(base, block(0, 61, 512 * KIB)[1])
    assert f" in 7 windows. Base frees the first at line {first}, head " in diff.verdict
    found = explained(diff)
    assert found is not None
    # Those of STEP 0 to STEP 6: those of STEP 7 are live at both peaks, in STEP 8.
    assert (found.cause.window, found.cause.windows, found.cause.finding.count) == ("STEP 1", 7, 14)
    assert found.cause.finding.base is not None
    assert found.cause.finding.base.freed == "in_window"


def test_where_both_peaks_are_alike_and_only_the_start_differs_nothing_raises_the_peak(tmp_path: Path) -> None:
    base, head = ([*before, ("STEP", 0, 0), *work(0), ("STEP", 1, 0)] for before in ([("ALLOC", MIB, 1)], []))
    # Head's window rises by 1 MiB more to the same level.
    at = head.index(("FREE", _SIZES[0], 1000))
    head[at:at] = [("ALLOC", MIB, 77), ("FREE", MIB, 77)]
    diff = memlens.diff(
        write(base, tmp_path / "base.log"), write(head, tmp_path / "head.log"), start="STEP 0 START", end="STEP 1 START"
    )
    assert "both peak at 6.98 MiB; what is carried in differs by -1.00 MiB" in diff.verdict
    assert not [claim for claim in diff.claims if claim.kind.startswith(("explains", "outweighs"))]


def test_what_the_peak_is_led_with_is_what_is_explained(tmp_path: Path) -> None:
    """STEP 2 needs 258 KiB more, STEP 4, which has the peak, 768 KiB more."""
    more = {2: 258 * KIB, 4: 768 * KIB}

    def step(number: int) -> list[Row]:
        high = block(number, 55, MIB * (number == 4))
        own = block(number, 50, more.get(number, 0))
        return [*work(number)[:4], high[0], own[0], own[1], high[1], *work(number)[4:]]

    base, head = ([row for row in steps(7, step) if row[1] or row[0] == "STEP"] for _ in range(2))
    base = [row for row in base if row[1] not in more.values()]
    diff = compared(base, head, tmp_path)
    line = line_of(head, block(4, 50, 768 * KIB)[0])
    assert diff.answer.sentences[:3] == (
        "Head peaks at 8.73 MiB, 768.00 KiB more than base (7.98 MiB).",
        "All of the 768.00 KiB is a block of 768.00 KiB that only head has.",
        f"Head allocates it at line {line} and frees it at line {line + 1}.",
    )


def test_where_only_the_moments_of_frees_differ_no_more_is_said_than_that_all_are_freed(tmp_path: Path) -> None:
    """Head keeps to the end what base frees at once, and both peak before that."""
    top = [*block(0, 1, 9 * MIB)]
    born = [block(1, 10 + which, MIB) for which in range(8)]
    base = [*top, *(row for ends in born for row in ends)]
    head = [*top, *(alloc for alloc, _ in born), *(free for _, free in born)]
    said = compared(base, head, tmp_path).verdict
    assert said.startswith(
        "No difference: every allocation has its partner in the other run, and both free it sooner or later, or"
    )


def test_two_programs_share_little_and_no_cause_is_named(shared: Path) -> None:
    folder = shared / "data/paddle"
    cnn, transformer = folder / "05_fixed_331.log.gz", folder / "04_threads_30_ast_pt_transformer.log.gz"
    for base, head in ((cnn, transformer), (transformer, cnn)):
        diff = memlens.diff(base, head)
        assert diff.verdict.startswith("The runs share little: ")
        assert not [claim for claim in diff.claims if claim.kind.startswith(("explains", "outweighs"))]


def test_how_many_blocks_are_held_against_how_many_is_said(shared: Path) -> None:
    """Of 256 KiB 30_sot_cnn_breaks_pt holds 2 at its peak, 262_ast_cnn_pt 9: counted from raw lines."""
    paths = [shared / "data/paddle" / f"{name}.log" for name in ("30_sot_cnn_breaks_pt", "262_ast_cnn_pt")]
    assert [run.live(run.top)[256 * KIB] for run in map(RawRun, paths)] == [2, 9]
    assert "1.75 MiB more is 7 more blocks of 256.00 KiB (9 instead of 2): " in memlens.diff(*paths, whole=True).verdict


def test_outputs_that_are_kept_until_the_step_ends_are_late_frees_though_the_peak_moves(tmp_path: Path) -> None:
    """Three parts of a step allocate an output of 450 KiB and a temporary of ever less.

    Base frees each output with its part and is highest in the first one; head frees all three at the end, and is highest in the third.
    """

    def parts(*, late: bool) -> Step:
        def step(number: int) -> list[Row]:
            outs = [block(number, 80 + which, 450 * KIB) for which in range(3)]
            rows: list[Row] = []
            for which, (alloc, free) in enumerate(outs):
                rows += [alloc, *block(number, 90 + which, MIB - which * 100 * KIB), *([] if late else [free])]
            return rows + [free for _, free in outs] if late else rows

        return step

    base, head = steps(6, parts(late=False)), steps(6, parts(late=True))
    # 3 × 450 + 824 KiB against 450 + 1,024 KiB: of the 700 KiB two outputs are 900, and the temporary is 200 KiB smaller.
    said = compared(base, head, tmp_path).answer.sentences
    alloc, free = block(0, 80, 450 * KIB)
    in_head, in_base = (f"line {line_of(rows, alloc)} to {line_of(rows, free)}" for rows in (head, base))
    assert said[0] == "Head peaks at 3.12 MiB, 700.00 KiB more than base (2.44 MiB)."
    assert said[1] == "900.00 KiB more is 2 late Frees of 450.00 KiB."
    # In head five allocations follow that of the first output before it is freed, in base one.
    assert said[2].startswith(f"The first lives for 5 allocations in head ({in_head}), for 1 in base ({in_base})")


def test_a_block_from_before_a_recording_that_began_later_is_the_same_block() -> None:
    """Base's recording begins after its block of 32 MiB was allocated, head's a moment before."""
    stack = {"owner": np.array([0, 1, 1], np.int32), "owner_names": ["load", "step"]}
    rows = [(Kind.ALLOC, 32 * MIB, 1), (Kind.ALLOC, MIB, 2), (Kind.FREE, MIB, 2)]
    lines = np.array([1, 2, 3])
    head = Log.from_rows(rows, line=lines, facts=Facts(lines=3), **stack)
    base = Log.from_rows(rows, line=lines - 1, facts=Facts(opening=1, lines=2), **stack)
    for pair in ((base, head), (head, base)):
        diff = memlens.diff(*(log.whole for log in pair))
        assert diff.verdict.startswith("Both peak at 33.00 MiB")
        assert "more" not in diff.verdict
        assert diff.answer.tone != "bad"
