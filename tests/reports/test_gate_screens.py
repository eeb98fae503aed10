"""What a verdict shows to people, from hand-made results: golden copies, and the figures that decide."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import made_diffs as made
import made_verdicts as verdicts
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from widths import check_widths

from memlens.gating.verdict import Blame, Verdict
from memlens.reports.blocks import brief
from memlens.reports.gate import EVERYTHING, Room, comment, gate_blocks, telling
from memlens.reports.markdown import render as render_markdown
from memlens.reports.terminal import render
from memlens.text import visible, width_of

VERDICTS: dict[str, Callable[[], Verdict]] = {
    "passing": verdicts.passing,
    "failing": verdicts.failing,
    "growing": verdicts.growing,
    "shorter": verdicts.shorter,
    "missing": verdicts.missing,
    "improved": verdicts.improved,
    "unjudged": verdicts.unjudged,
    "hostile": verdicts.hostile,
    "many": lambda: verdicts.many(30),
}


any_text = st.text(st.characters(codec=None), max_size=60)


def screen(verdict: Verdict, width: int | None = 80, **room: Any) -> str:
    return render(gate_blocks(verdict, Room(**room)), width=width)


@pytest.mark.parametrize("name", list(VERDICTS))
def test_a_verdict_looks_as_approved_and_says_the_same_at_every_width(
    golden: Callable[[str, str], None], name: str
) -> None:
    verdict = VERDICTS[name]()
    golden(f"gate_{name}_80.txt", screen(verdict))
    check_widths(lambda width: screen(verdict, width), narrow=60)


@pytest.mark.parametrize("name", list(VERDICTS))
def test_by_default_all_of_it_is_one_screen_and_its_first_line_explains(name: str) -> None:
    verdict = VERDICTS[name]()
    text = render(gate_blocks(verdict), width=80)
    assert len(text.splitlines()) <= 40
    assert " ".join(text.partition("\n\n")[0].split()) == visible(verdict.explanation)
    assert render(brief(gate_blocks(verdict))) == f"{visible(verdict.explanation)}\n"
    assert comment(verdict).startswith(render_markdown(brief(gate_blocks(verdict))).rstrip("\n"))
    assert verdict.answer.tone == {"pass": "good", "regression": "bad", "unjudged": "plain"}[verdict.verdict]
    assert 1 <= len(verdict.answer.sentences) <= 3
    everything = render(gate_blocks(verdict, EVERYTHING), width=80)
    assert "--full" not in everything
    assert len(everything) >= len(text) - len("\n--full shows everything.\n")


@given(any_text, any_text, st.integers(0, 30))
@settings(max_examples=30, deadline=None)
def test_no_text_of_a_log_makes_it_longer_than_a_screen(name: str, text: str, count: int) -> None:
    verdict = replace(verdicts.failing(), path=name, base=text, notes=(text,) * count, new=(name,) * count)
    assert len(render(gate_blocks(verdict), width=80).splitlines()) <= 40
    unjudged = replace(verdicts.unjudged(), path=name, reasons=(text,) * (count + 1), notes=(text,) * count)
    assert len(render(gate_blocks(unjudged), width=80).splitlines()) <= 40


def test_what_is_not_judged_is_said_with_its_reason() -> None:
    assert (
        "Not judged: growth of the run (2 closed, 4 needed), reserved of the run (not told by the log)."
        in verdicts.passing().explanation
    )
    assert verdicts.unjudged().explanation == (
        "Not judged: the log is doubtful: several processes, malformed; 98 events in 266 lines (29.35 KiB)."
    )


def test_what_piles_up_is_said_with_what_grows() -> None:
    # 20 windows keep 900 KiB each, a quarter of them is warm-up at most.
    said = verdicts.growing().explanation
    assert "Memory grows by 900.00 KiB a window from window 1 on" in said
    assert "20 × 900.00 KiB (conv2d) pile up, 17.58 MiB." in said


@pytest.mark.parametrize("name", sorted(VERDICTS.keys() - {"many"}))
def test_a_verdict_as_markdown_looks_as_approved(golden: Callable[[str, str], None], name: str) -> None:
    golden(f"gate_{name}.md", comment(VERDICTS[name]()))


def test_the_verdict_stands_first_with_the_worst_figure_and_the_count() -> None:
    first, _, below = screen(verdicts.failing(), None).partition("\n\n")
    # 3.375 MiB became 6.75; 1 MiB more is allowed, for that is more than 2 %.
    assert first.startswith(
        "Regression in SOT_CALL_0: remaining went from 3.38 MiB to 6.75 MiB, +3.38 MiB (+100.00%); over the limit of 4.38 MiB"
    )
    # The peak, and 3 windows with 2 gated figures each: what remains in one, and the peak.
    assert "; 2 of 7 figures are over the limit: the peak of the run and 1 window. " in first
    assert below.startswith("runs/head.log  regression against memory.json\n")
    assert "all 5 figures judged are within limits. " in screen(verdicts.passing(), None).partition("\n\n")[0]
    assert screen(verdicts.missing()).startswith("Regression: 2 windows are missing, EVAL_1, EVAL_2.\n\n")


def test_growth_is_said_in_the_verdict_whether_it_fails_or_not() -> None:
    text = " ".join(screen(verdicts.growing()).split())
    assert "the growth of the run. Memory grows by 900.00 KiB a window" in text
    # Of 20 windows a quarter is warm-up at most; 20 blocks pile up.
    assert "What piles up in the log Size Owner Blocks Total 900.00 KiB conv2d 20 17.58 MiB" in text
    passing = " ".join(screen(verdicts.growing(limits="growth=1GiB", blame=())).split())
    assert "within limits. Memory grows by 900.00 KiB a window" in passing
    assert "over 20 windows, within the limit" in passing


def test_a_shorter_run_says_how_much_was_judged_and_open_windows_stand_by_themselves() -> None:
    text = " ".join(screen(verdicts.shorter()).split())
    assert "within limits; 2 of the base's 6 windows judged, for the run ends earlier" in text
    assert "2 rise 9.00 MiB 9.00 MiB open: no end anchor" in text
    assert "3 accepted runs; no limit is narrower than their spread" in text


def test_what_fails_is_a_table_with_the_worst_first() -> None:
    text = screen(verdicts.failing(), None).partition("Lower by")[0]
    rows = re.findall(
        r"^(SOT_CALL_\d|\(whole log\)) +(\w+) +(\S+ \w+) +(\S+ \w+) +(\S+ \w+) +[-+.\d]+% +(\S+ \w+)$",
        text,
        re.MULTILINE,
    )
    assert rows == [
        ("SOT_CALL_0", "remaining", "3.38 MiB", "6.75 MiB", "+3.38 MiB", "4.38 MiB"),
        ("(whole log)", "peak", "64.00 MiB", "64.50 MiB", "+512.00 KiB", "64.00 MiB"),
    ]


def test_the_finding_that_explains_it_is_told() -> None:
    text = screen(verdicts.failing())
    assert "over the limit\nof 4.38 MiB by 2.38 MiB (2490368 B)" in text
    assert "Missing free: 3.38 MiB (3538944 B)" in text
    assert "> 77" in text


def test_an_improvement_comes_with_the_command_that_keeps_it() -> None:
    text = " ".join(screen(verdicts.improved()).split())
    assert "To keep what was won: memlens gate 'my runs/head.log' --baseline memory.json --accept" in text
    # Not where something else failed: accepting would keep that, too.
    assert "--accept" not in screen(verdicts.failing()).split("New")[0]
    assert "SOT_CALL_2  remaining  9.00 MiB  2.00 MiB" in screen(verdicts.failing())
    assert "--accept" not in screen(replace(verdicts.improved(), is_baseline=False, base="old.log"))


def test_what_is_not_judged_says_why_and_what_to_do() -> None:
    text = " ".join(screen(verdicts.unjudged()).split())
    assert "Reason runs/head.log is doubtful: several processes" in text
    assert "--no-trust judges it all the same." in text
    other = replace(verdicts.unjudged(), doubtful=False)
    assert "--no-trust" not in screen(other)


def test_what_is_left_out_is_counted() -> None:
    text = screen(verdicts.many(30), rows=4, others=2, windows=2, findings=3)
    # 30 windows grew, by 2 MiB and more, and 50 MiB may grow by 1 MiB.
    assert "… and 26 more failing figures" in text
    assert "… and 28 more failing windows whose differences are not told here" in text
    assert "… and 37 more findings" in text
    assert "and 24 more, which the base has" in " ".join(text.split())


def test_findings_that_cancel_within_their_size_come_last() -> None:
    found = [
        made.finding("only_head", 4096, d_peak_bytes=4096),
        made.finding("early_free", 4096, d_peak_bytes=-4096),
        made.finding("late_free", 1024, d_peak_bytes=1024),
        made.finding("only_head", 512, fate="held", d_remaining_bytes=512),
    ]
    side = made.figures("w", 1, 0, 4096)
    window = made.window("w", side, side, *found)
    assert [one.size_bytes for one in telling(Blame("w", ("peak",), window))] == [1024, 4096]
    assert [one.size_bytes for one in telling(Blame("w", ("remaining",), window))] == [512]
    assert [one.size_bytes for one in telling(Blame("w", ("rise", "remaining"), window))] == [1024, 512, 4096]
    assert [one.size_bytes for one in telling(Blame("(whole log)", ("growth",), window))] == [512]


def test_where_no_allocation_explains_it_that_is_said() -> None:
    side = made.figures("w", 1, 0, 4096)
    blame = Blame("SOT_CALL_0", ("peak",), made.window("w", side, side))
    assert "No allocation is kept longer, and none is new" in screen(verdicts.failing(blame=(blame,)), None)


@settings(deadline=None)
@given(any_text, any_text, st.sampled_from([None, 45, 80]))
def test_text_of_a_log_cannot_act_on_the_terminal(name: str, note: str, width: int | None) -> None:
    verdict = verdicts.many(3, f"{name.replace('{', '').replace('}', '')}{{}}", notes=(note,), path=name, base=note)
    text = screen(verdict, width)
    assert visible(text.replace("\n", "")) == text.replace("\n", "")
    assert width is None or all(width_of(row) <= width for row in text.splitlines())
