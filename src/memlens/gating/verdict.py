"""What :func:`memlens.gate` finds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from memlens.analyzers.result import OneByOne, Tabled
from memlens.gating.judging import Judged, Rules
from memlens.text import Shown

if TYPE_CHECKING:
    from memlens.analyzers.series.growth import Pile
    from memlens.diffing.result import WindowDiff
    from memlens.gating.growth import SeriesGrowth
    from memlens.gating.limits import Metric
    from memlens.options import Cut
    from memlens.text import Answer
    from memlens.trust import Trust

__all__ = ["SCHEMA", "Blame", "Verdict"]

SCHEMA = "memlens.gate/2"

_EXIT_CODES = {"pass": 0, "regression": 3, "unjudged": 1}


@dataclass(frozen=True, eq=False)
class Blame:
    """What fails, and what the two runs do differently there.

    Attributes:
        name: The window's name, as in :class:`~memlens.gating.judging.Judged`.
        metrics: The metrics that failed.
        diff: Two windows compared: this one, or, for a figure of the whole run, the window in which it comes about.
    """

    name: str
    metrics: tuple[Metric, ...]
    diff: WindowDiff

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """The two windows as ``memlens diff`` gives them, what failed, and the name of the window that was compared."""
        plain = self.diff.to_dict(top)
        return {"metrics": list(self.metrics), **plain, "name": self.name, "compared": self.diff.name}


@dataclass(frozen=True, eq=False, repr=False)
class Verdict(Shown, Tabled):
    """What :func:`memlens.gate` found.

    Attributes:
        verdict: ``pass``, ``regression``, or ``unjudged`` where nothing can be said.
        path: The log as it was named.
        base: The baseline or the log that it is compared with, as it was named; ``""`` for budgets alone.
        windows: Every metric of the run and of every window: those that fail first, the worst of them at the top, then windows that are
            missing, then the others, the largest growth first, then what is not judged.
        trust: What to believe of the log.
        anchors: Where the logs were cut.
        rules: The limits and budgets that it was judged by.
        reasons: Why nothing can be said; empty unless ``unjudged``.
        doubtful: It is not judged because figures are in doubt, and would be with ``trust=False``.
        notes: What to doubt or to know all the same, in words.
        missing: Names of windows that the base has and the log lacks.
        not_reached: Names of windows that it lacks because it ends before them.
        new: Names of windows that the log has and the base lacks.
        base_windows: How many windows the base has.
        judged_windows: How many of them were judged.
        runs: How many runs the base was taken of; 0 where there is none.
        growth: What the series of the log gained; ``None`` where it has none, or too few closed windows to tell.
        failed: The sentence on how the log ran out of memory; ``""`` where it did not.
        piling: The blocks that pile up in it, where it grows, the largest total first.
        blame: What failed first compared with the base's, where the base's events are known.
        unblamed: Further windows that failed and could have been compared.
        is_baseline: ``base`` is a baseline file, and could be written anew.
        top: Findings, and kinds of blocks that pile up, that :meth:`to_dict` lists.
    """

    verdict: Literal["pass", "regression", "unjudged"]
    path: str
    base: str
    windows: tuple[Judged, ...]
    trust: Trust
    anchors: Cut
    rules: Rules = field(default_factory=Rules)
    reasons: tuple[str, ...] = ()
    doubtful: bool = False
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    not_reached: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    base_windows: int = 0
    judged_windows: int = 0
    runs: int = 0
    growth: SeriesGrowth | None = None
    failed: str = ""
    piling: tuple[Pile, ...] = ()
    blame: tuple[Blame, ...] = ()
    unblamed: int = 0
    is_baseline: bool = False
    top: int | None = 10

    @property
    def ok(self) -> bool:
        """What was judged is within limits."""
        return self.verdict == "pass"

    @cached_property
    def answer(self) -> Answer:
        """The verdict in words, with its tone."""
        from memlens.gating.explanation import answer_of

        return answer_of(self)

    @property
    def explanation(self) -> str:
        """What was judged, what is worst, what grows and what could not be judged, in one to three sentences with exact figures."""
        return str(self.answer)

    @property
    def exit_code(self) -> int:
        """0 within limits, 3 a regression, 1 unjudged."""
        return _EXIT_CODES[self.verdict]

    @property
    def judged(self) -> tuple[Judged, ...]:
        """The figures that were held against a limit or a budget."""
        return tuple(row for row in self.windows if row.limit_bytes is not None)

    @property
    def failing(self) -> tuple[Judged, ...]:
        """What fails, worst first, missing windows last."""
        return tuple(row for row in self.windows if not row.ok)

    @property
    def improved(self) -> tuple[Judged, ...]:
        """What fell by more than it may grow, the largest change first."""
        return tuple(sorted((row for row in self.windows if row.improved), key=lambda row: row.d_bytes or 0))

    def to_dict(self) -> dict[str, Any]:
        """Everything, in plain JSON types, by the contract ``memlens.gate/2``: exact bytes."""
        return self._plain(self.rows())

    def _plain(self, windows: list[Any]) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "verdict": self.verdict,
            "explanation": self.explanation,
            "path": self.path,
            "base": self.base or None,
            "runs": self.runs,
            "by": self.anchors.by,
            "reasons": list(self.reasons),
            "notes": list(self.notes),
            "limits": {metric: limit.to_dict() for metric, limit in self.rules.limits.items()},
            "budgets": dict(self.rules.budgets),
            "missing": list(self.missing),
            "not_reached": list(self.not_reached),
            "new": list(self.new),
            "allow_missing": self.rules.allow_missing,
            "base_windows": self.base_windows,
            "judged_windows": self.judged_windows,
            "windows": windows,
            "growth": None if self.growth is None else self.growth.to_dict(),
            "piling": [pile.to_dict() for pile in self.piling[: self.top]],
            "blame": [blame.to_dict(self.top) for blame in self.blame],
            "unblamed": self.unblamed,
            "trust": self.trust.to_dict(),
        }

    def to_lazy_dict(self) -> dict[str, Any]:
        """The same, but rows are written down while the list of them is walked through."""
        return self._plain(OneByOne(self.windows, Judged.to_dict))

    def lazy_rows(self) -> tuple[Sequence[str], Iterator[dict[str, Any]]]:
        """The names of their columns, and the rows of :meth:`rows` one by one."""
        names = [spec.name for spec in fields(Judged)] if self.windows else []
        return names, (row.to_dict() for row in self.windows)

    def rows(self) -> list[dict[str, Any]]:
        """A flat row for each metric of the run and of each window, the worst first."""
        return [row.to_dict() for row in self.windows]
