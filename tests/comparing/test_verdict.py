"""The verdict of a comparison of runs: who ran out, who needs most and least, what changed, what grows."""

from __future__ import annotations

import made_comparisons as made
import pytest
from night import chance_of

from memlens.comparing.result import Comparison
from memlens.reports.blocks import brief
from memlens.reports.compare import compare_blocks
from memlens.reports.terminal import render
from memlens.summarizing.summary import Oom
from memlens.text import format_bytes, visible

MIB = 1 << 20
MADE = ("case_2", "case_3", "failures", "hostile", "series", "ranks_healthy", "ranks_loud", "ranks_hostile")


@pytest.mark.parametrize("name", MADE)
def test_the_verdict_comes_first_and_all_of_it_is_one_screen(name: str) -> None:
    comparison: Comparison = getattr(made, name)()
    text = render(compare_blocks(comparison), width=80)
    assert " ".join(text.partition("\n\n")[0].split()) == visible(comparison.verdict)
    assert len(text.splitlines()) <= 40
    assert len(brief(compare_blocks(comparison))) == 1
    assert comparison.to_dict()["verdict"] == comparison.verdict
    assert 1 <= len(comparison.answer.sentences) <= 9


def test_case_3_says_who_ran_out_how_much_changed_and_that_it_grows_in_one_branch_only() -> None:
    comparison = made.case_3()
    assert comparison.verdict.startswith(
        "3 of 36 runs ran out of memory: all with gbs 3072 and develop (each asked for 256.00 MiB). "
    )
    # 29632 MB in develop, 7830 in develop: published figures.
    assert (
        "The highest peak is 28.94 GiB (gbs 2048 develop rank 1), the lowest 7.65 GiB (gbs 32 develop rank 7)"
        in comparison.verdict
    )
    # Of 15 pairs without a failure: 4 MB more in 6 and 64 MB more in one; 254 to 8252 less in 7; one is alike.
    assert (
        "7 of 15 runs need more than develop, by up to 64.00 MiB (gbs 2048 PR rank 0). 7 need less, by up to 8.06 GiB"
        in comparison.verdict
    )
    # Card 1: 21376, 21634, 22408, 25504, 29632 at 32, 64, 256, 1024, 2048: the median of ten slopes is 4.03 MB; card 7: 3.94.
    assert comparison.verdict.endswith(
        "Peak allocated grows by up to 4.03 MiB per gbs in develop (2 of 3 rows); not in PR."
    )
    assert comparison.answer.tone == "plain"  # some need more, some less, and only the base failed


def test_of_many_runs_the_highest_and_the_lowest_are_named_and_counted_against_the_base() -> None:
    chance = chance_of("listed")
    for _ in range(100):
        sizes = chance.sample(range(1, 1000), chance.randint(3, 9))
        comparison = made.listed(*(made.run(f"{n}.log", made.window(size)) for n, size in enumerate(sizes)))
        most, least = max(sizes), min(sizes)
        ends = f"({sizes.index(most)}.log), the lowest {format_bytes(least * MIB)} ({sizes.index(least)}.log)"
        assert (
            f"The highest peak is {format_bytes(most * MIB)} {ends}, {format_bytes((most - least) * MIB)} apart"
            in comparison.verdict
        )
        higher = sum(size > sizes[0] for size in sizes)
        total = f"{higher} of {len(sizes) - 1} runs need{'s' if higher == 1 else ''} more than 0.log"
        assert (total in comparison.verdict) == (higher > 0)


def test_runs_that_failed_are_bad_where_their_base_did_not_and_good_the_other_way_round() -> None:
    fine = made.run("fine.log", made.window(100))
    failed = made.run("failed.log", made.window(90, oom=True), status="oom", oom=Oom(512 << 20, "GPU 0", 7), ooms=1)
    worse, better = made.listed(fine, failed), made.listed(failed, fine)
    assert (
        worse.verdict
        == "1 of 2 runs ran out of memory: failed.log (asked for 512.00 MiB). The peak is 100.00 MiB in fine.log."
    )
    assert (worse.answer.tone, better.answer.tone) == ("bad", "good")


def test_the_ranks_of_a_job_say_who_failed_first_how_they_spread_and_who_stands_out() -> None:
    said = made.ranks_loud().verdict
    for words in (
        "3 of 62 ranks ran out of memory, rank 3 first by the time stamps (6.00 s before rank 9). Rank 3 ran out of memory at line 1,945: embedding asked for 2.00 GiB",
        "62 ranks, 61 of them with figures: peaks of 60.00 GiB to 68.00 GiB, median 60.00 GiB. 2 ranks have no log, rank 40 the first.",
        "3 ranks stand out: rank 50 holds 3.00 GiB more than its peers, in 1 block of 3.00 GiB",
        "Rank 21 holds 2.10 GiB more than its peers, in 2 blocks of 1.05 GiB of embedding",
        "Rank 33 reserves 8.50 GiB more than its peers (its log is in doubt: unknown frees)",
        "The log of rank 44 ends early (800 allocations, 8,800 in that of rank 0).",
    ):
        assert words in said
    assert made.ranks_loud().answer.tone == "bad"
    assert made.ranks_healthy().verdict.endswith("median 1000.00 MiB. No rank stands out.")
    assert made.ranks_healthy().answer.tone == "good"
    assert made.ranks_unreadable().verdict == "None of 12 ranks could be read: no such file."
