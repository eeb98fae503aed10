"""No sentence that a verb writes of a real log has more words than can be read at once."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from night import some

import memlens
from memlens.claims.claim import MOST_WORDS, Claim, Weight, answer_of, sentences
from memlens.claims.template import PAUSE
from memlens.errors import MemlensError
from memlens.events import Kind
from memlens.options import Watch
from memlens.watching.watch import Watching

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
    for folder, every in (("paddle", 12), ("traps", 6), ("torch/snapshots", 6)):
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


def test_of_blocks_and_of_logs_that_are_watched(shared: Path) -> None:
    for path in [one for one in logs(shared) if one.suffix != ".pickle"]:
        with closing(Watching(path, Watch(budgets=["growth=1B", "peak=1MiB", "reserved=1MiB"]))) as watching:
            watching.look()
            check((*watching.seen.answer.sentences, *watching.finish().answer.sentences))
        log = memlens.read(path)
        allocs = np.flatnonzero(log.kind == Kind.ALLOC)[::250]
        for line in log.line_numbers(some(allocs, 24)):
            check(memlens.block(path, line or 0).answer.sentences)


def test_of_recordings_and_of_anchors_that_mark_nothing(shared: Path, tmp_path: Path) -> None:
    log = shared / "data/paddle/331_sot_pir_cnnbreaks.log"
    for end in ("", "raise ValueError(1)", "import os; os.abort()"):
        code = f"print(open({str(log)!r}).read(), flush=True); {end}"
        found = memlens.record([sys.executable, "-c", code], output=tmp_path / f"{len(end)}.log")
        check((*found.answer.sentences, *found.problems) if found.answer else found.problems)
    for cut in (
        {"start": "START SOT_CAL_1"},
        {"start": r"SOT_\d+"},
        {"start": "SOT", "end": "nothing"},
        {"by": "no such"},
    ):
        with pytest.raises(MemlensError) as error:
            memlens.analyze(log, **cut)  # type: ignore[arg-type]
        check(line for line in f"{error.value}\n{error.value.hint}".split("\n") if not line.startswith("  "))


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
