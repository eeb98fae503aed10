"""No sentence that a verb writes of a real log has more words than can be read at once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from night import some

import memlens
from memlens.claims.claim import MOST_WORDS, Claim, Weight, answer_of, sentences
from memlens.claims.template import PAUSE

WITHOUT_EVENTS = ("08_cpu_nolines_331.log", "10_v2_dygraph_331.log")
#: A base and a head, in the shared data.
PAIRS = (
    ("traps/good.log.gz", "traps/late_leak.log.gz"),
    ("traps/good.log.gz", "traps/resumed_head.log.gz"),
    ("traps/seven.log.gz", "traps/good.log.gz"),
    ("paddle/331_ast_pir_cnn.log", "paddle/331_ast_pt_cnn.log"),
    ("paddle/05_oom_331.log", "paddle/331_dygraph_cnn.log"),
    ("torch/snapshots/medium_256_training.pickle", "torch/snapshots/medium_512_training.pickle"),
    ("paddle/262_ast_cnn_pt.log", "paddle/331_ast_pt_cnn.log"),
)


def logs(shared: Path) -> Iterator[Path]:
    for folder, every in (("paddle", 5), ("traps", 5), ("torch/snapshots", 5)):
        files = sorted((shared / "data" / folder).iterdir())
        files = [one for one in files if one.is_file() and not re.search(r"\.stats\.|\.md$", one.name)]
        yield from some([one for one in files if one.name not in WITHOUT_EVENTS], every)


def check(texts: object) -> None:
    """No sentence of some texts is too long; a text may hold several."""
    for text in texts:  # type: ignore[attr-defined]
        for sentence in re.split(r"(?<=\.) (?=[A-Z0-9])", text):
            assert len(sentence.split()) <= MOST_WORDS, sentence


def test_of_one_log(shared: Path) -> None:
    for path in logs(shared):
        analysis = memlens.analyze(path)
        check(analysis.answer.sentences)
        for log in analysis.logs:
            check((*log.remarks, *log.warnings))
            for remark in (*log.trust.doubts, *log.trust.notes):
                check((remark.message, remark.hint))


@pytest.mark.parametrize(("base", "head"), some(PAIRS, 2))
def test_of_two_runs(shared: Path, base: str, head: str) -> None:
    one, other = shared / "data" / base, shared / "data" / head
    for verb in (memlens.diff(one, other), memlens.gate(other, base=one)):
        check((*verb.answer.sentences, *verb.notes))


def test_of_many_runs_and_of_other_settings(shared: Path) -> None:
    paddle = shared / "data/paddle"
    check(memlens.compare(sorted(map(str, paddle.glob("30*_cnn_*.log")))).answer.sentences)
    for name in ("05_oom_331.log", "09_launch2_dygraph_331.workerlog.0"):
        check(memlens.whatif(paddle / name).answer.sentences)


def test_a_sentence_ends_at_a_pause_where_it_would_be_too_long_and_at_no_other_place() -> None:
    long = " ".join(["word"] * 20)
    assert sentences(f"one{PAUSE}; two") == ["one; two."]
    assert sentences(f"{long}{PAUSE}; {long}") == [f"{long}.", f"W{long[1:]}."]
    assert sentences(f"{long}{PAUSE}; run.log {long}") == [f"{long}.", f"run.log {long}."]
    assert sentences(f"one; {long} {long}") == [f"one; {long} {long}."]


def test_a_name_from_a_log_parts_no_sentence() -> None:
    name = "a; B. C: " + "d " * 200
    (said,) = answer_of([Claim("logs_growing", Weight.GROWTH, {"logs": [name, name]})]).sentences
    assert said.startswith("Memory grows in a; B. C: d")
