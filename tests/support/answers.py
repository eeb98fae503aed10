"""Made-up results with their verdicts, as the verbs give them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from msgspec import Struct, structs

from memlens.analyzers.failures import MemoryFailure, failure_claim
from memlens.analyzing import claims as of_analysis
from memlens.analyzing.result import Analysis, LogAnalysis
from memlens.claims.claim import answer_of
from memlens.comparing import claims as of_comparison
from memlens.comparing.result import Comparison
from memlens.diffing import claims as of_diff
from memlens.diffing.result import Diff
from memlens.gating import verdict as of_gate
from memlens.results import Answered, claimed
from memlens.trust import Trust
from memlens.watching import judging as of_watch
from memlens.watching.result import Watched

#: Log text made to break things: markup, escape codes, a title change, bidi and zero-width marks, HTML, Markdown, a formula.
HOSTILE = "[red]STEP[/] \x1b[31m\x1b]0;owned\x07 \u202etxt.exe\u200b <b>|`@root`"
LONG = "BLOCK_" + "a" * 60 + "_" + "b" * 60 + "_17"

_CLAIMS: dict[type[Answered], Any] = {
    Analysis: of_analysis.claims_of,
    LogAnalysis: of_analysis.claims_of_log,
    Comparison: of_comparison.claims_of,
    Diff: of_diff.claims_of,
    Watched: of_watch.claims_of,
    of_gate.Verdict: of_gate.claims_of,
}

R = TypeVar("R", bound=Answered)
S = TypeVar("S", bound=Struct)


def with_answer(result: R) -> R:
    """A result with the verdict that its figures give."""
    return claimed(result, _CLAIMS[type(result)])


def failure_sentence(failures: Sequence[MemoryFailure]) -> str:
    """What the failures of a log come to."""
    return str(answer_of([failure_claim(failures)]))


def replace(made: S, **changes: Any) -> S:
    """The same with some fields changed; a result gets the verdict that it has then."""
    changed = structs.replace(made, **changes)
    return with_answer(changed) if isinstance(changed, Answered) else changed


@dataclass(frozen=True)
class FakeTrust:
    """Looks like a trust report."""

    ok: bool = True
    layer: str = "auto_growth"
    has_lines: bool = True
    doubts: tuple[Any, ...] = ()
    notes: tuple[Any, ...] = ()
    ooms: tuple[Any, ...] = ()
    ending: None = None
    events: int = 98
    lines: int = 300
    distinct_ooms: int = 0
    peak_may_be_earlier: bool = False
    summary_text: str = "ok: 98 events in 266 lines (29.35 KiB); every FREE has its ALLOC"

    @property
    def doubt_codes(self) -> frozenset[str]:
        return frozenset(doubt.code for doubt in self.doubts)

    def summary(self) -> str:
        return self.summary_text

    def to_dict(self) -> dict[str, Any]:
        return {"ok": self.ok, "doubts": [vars(doubt) for doubt in self.doubts], "lines": self.lines}


def fake_trust(**values: Any) -> Trust:
    """A trust report of which these values are known."""
    return cast("Trust", FakeTrust(**values))
