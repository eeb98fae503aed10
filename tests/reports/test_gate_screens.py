"""What a verdict shows to people, from hand-made results: golden copies, and the figures that decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import made_verdicts as verdicts
import pytest
from answers import replace
from hypothesis import given, settings
from hypothesis import strategies as st
from night import many
from widths import check_widths

from memlens.gating.verdict import Verdict
from memlens.reports.blocks import brief
from memlens.reports.gate import EVERYTHING, Room, comment, gate_blocks
from memlens.reports.markdown import render as render_markdown
from memlens.reports.terminal import render
from memlens.text import visible, width_of

VERDICTS = verdicts.EVERY | {"many": lambda: verdicts.many(30)}
any_text = st.text(st.characters(codec=None), max_size=60)


def screen(verdict: Verdict, width: int | None = 80, **room: Any) -> str:
    return render(gate_blocks(verdict, Room(**room)), width=width)


@pytest.mark.parametrize("name", list(VERDICTS))
def test_a_verdict_looks_as_approved_and_says_the_same_at_every_width(
    golden: Callable[[str, str], None], name: str
) -> None:
    verdict = VERDICTS[name]()
    if name == "failing":
        golden("gate_failing_80.txt", screen(verdict))
    if name == "hostile":
        golden("gate_hostile.md", comment(verdict))
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
    assert 1 <= len(verdict.answer.sentences) <= 6
    everything = render(gate_blocks(verdict, EVERYTHING), width=80)
    assert "--full" not in everything
    assert len(everything) >= len(text) - len("\n--full shows everything.\n")


@given(any_text, any_text, st.integers(0, 30))
@settings(max_examples=many(30))
def test_no_text_of_a_log_makes_it_longer_than_a_screen(name: str, text: str, count: int) -> None:
    verdict = replace(verdicts.failing(), path=name, base=text, notes=(text,) * count, new=(name,) * count)
    assert len(render(gate_blocks(verdict), width=80).splitlines()) <= 40
    unjudged = replace(verdicts.unjudged(), path=name, reasons=(text,) * (count + 1), notes=(text,) * count)
    assert len(render(gate_blocks(unjudged), width=80).splitlines()) <= 40


@given(any_text, any_text, st.sampled_from([None, 45, 80]))
def test_text_of_a_log_cannot_act_on_the_terminal(name: str, note: str, width: int | None) -> None:
    verdict = verdicts.many(3, f"{name.replace('{', '').replace('}', '')}{{}}", notes=(note,), path=name, base=note)
    text = screen(verdict, width)
    assert visible(text.replace("\n", "")) == text.replace("\n", "")
    assert width is None or all(width_of(row) <= width for row in text.splitlines())
