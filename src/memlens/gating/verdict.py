"""The judgement: figures of a log against those it is compared with, window by window and metric by metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

from memlens.analyzers.result import Row
from memlens.errors import AnchorError
from memlens.gating.limits import METRICS, Limit, Metric

if TYPE_CHECKING:
    import pandas as pd

    from memlens.cut import Cut
    from memlens.diffing.result import WindowDiff
    from memlens.gating.baseline import WindowFigures
    from memlens.slicing import Window
    from memlens.trust import Trust

__all__ = ["SCHEMA", "Blame", "Judged", "Paired", "Verdict", "judge", "pair_figures"]

SCHEMA = "memlens.gate/1"

#: Metrics that are shown whether they are gated or not.
_SHOWN: tuple[Metric, ...] = ("peak", "remaining", "reserved")
_EXIT_CODES = {"pass": 0, "regression": 3, "unjudged": 1}


@dataclass(frozen=True)
class Judged(Row):
    """One metric of one window.

    Attributes:
        name: The window's name, the baseline's where both have it; text from the log.
        metric: One of :data:`~memlens.gating.limits.METRICS`.
        base_bytes: The figure that it is compared with; ``None`` where there is none.
        head_bytes: The figure that is judged; ``None`` where the log has no such window.
        d_bytes: Head less base; ``None`` where one of them is.
        limit_bytes: The highest ``head_bytes`` that is within limits: the base and what it may grow by, or the budget, whichever is
            lower; ``None`` where the metric is not gated.
        limit_from: ``base`` or ``budget``: which of the two ``limit_bytes`` is; ``None`` where it is ``None``.
        over_bytes: What ``head_bytes`` is above ``limit_bytes``; 0 where it is not.
        ok: It is within limits.
        improved: It fell by more than it may grow.
        start_line: The 1-based number of the window's first line in the log that is judged; ``None`` where it has no such window.
    """

    name: str
    metric: Metric
    base_bytes: int | None
    head_bytes: int | None
    d_bytes: int | None
    limit_bytes: int | None
    limit_from: Literal["base", "budget"] | None
    over_bytes: int
    ok: bool
    improved: bool
    start_line: int | None

    @property
    def missing(self) -> bool:
        """The log has no such window."""
        return self.head_bytes is None


@dataclass(frozen=True)
class Paired:
    """The windows of the base and of the log that is judged.

    Attributes:
        pairs: Windows of both, in base's order.
        missing: Windows that the log lacks.
        new: Windows that the base lacks.
    """

    pairs: tuple[tuple[WindowFigures, WindowFigures], ...] = ()
    missing: tuple[WindowFigures, ...] = ()
    new: tuple[WindowFigures, ...] = ()


@dataclass(frozen=True, eq=False)
class Blame:
    """A failing window, and what the two runs do differently in it.

    Attributes:
        name: The window's name, as in :class:`Judged`.
        metrics: The metrics that failed.
        diff: The two windows compared.
    """

    name: str
    metrics: tuple[Metric, ...]
    diff: WindowDiff

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """The window as ``memlens diff`` gives it, and the metrics that failed."""
        return {"metrics": list(self.metrics), **self.diff.to_dict(top), "name": self.name}


@dataclass(frozen=True, eq=False)
class Verdict:
    """What :func:`memlens.gate` found.

    Attributes:
        verdict: ``pass``, ``regression``, or ``unjudged`` where nothing can be said.
        path: The log as it was named.
        base: The baseline or the log that it is compared with, as it was named; ``""`` for budgets alone.
        windows: Every metric of every window: those that fail first, the worst of them at the top, then windows that are missing, then the
            others, the largest growth first.
        reasons: Why nothing can be said; empty unless ``unjudged``.
        doubtful: It is not judged because figures are in doubt, and would be with ``trust=False``.
        notes: What to doubt all the same, in words.
        missing: Names of windows that the base has and the log lacks.
        new: Names of windows that the log has and the base lacks.
        allow_missing: Missing windows do not fail.
        limits: How much each gated metric may grow.
        budgets: How high each budgeted metric may be, in bytes.
        trust: What to believe of the log.
        anchors: Where the logs were cut.
        blame: The worst failing windows compared with the base's, where the base's events are known.
        unblamed: Failing windows that were not compared though they could have been.
        is_baseline: ``base`` is a baseline file, and could be written anew.
        top: Findings that :meth:`to_dict` lists for each window.
    """

    verdict: Literal["pass", "regression", "unjudged"]
    path: str
    base: str
    windows: tuple[Judged, ...]
    trust: Trust
    anchors: Cut
    reasons: tuple[str, ...] = ()
    doubtful: bool = False
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    allow_missing: bool = False
    limits: Mapping[Metric, Limit] = field(default_factory=dict)
    budgets: Mapping[Metric, int] = field(default_factory=dict)
    blame: tuple[Blame, ...] = ()
    unblamed: int = 0
    is_baseline: bool = False
    top: int | None = 10

    @property
    def ok(self) -> bool:
        """Everything was judged and is within limits."""
        return self.verdict == "pass"

    @property
    def exit_code(self) -> int:
        """0 within limits, 3 a regression, 1 unjudged."""
        return _EXIT_CODES[self.verdict]

    @property
    def failing(self) -> tuple[Judged, ...]:
        """What fails, worst first, missing windows last."""
        return tuple(row for row in self.windows if not row.ok)

    @property
    def improved(self) -> tuple[Judged, ...]:
        """What fell by more than it may grow, the largest change first."""
        return tuple(sorted((row for row in self.windows if row.improved), key=lambda row: row.d_bytes or 0))

    def to_dict(self) -> dict[str, Any]:
        """Everything, in plain JSON types, by the contract ``memlens.gate/1``: exact bytes."""
        return {
            "schema": SCHEMA,
            "verdict": self.verdict,
            "path": self.path,
            "base": self.base or None,
            "by": self.anchors.by,
            "reasons": list(self.reasons),
            "notes": list(self.notes),
            "limits": {metric: limit.to_dict() for metric, limit in self.limits.items()},
            "budgets": dict(self.budgets),
            "missing": list(self.missing),
            "new": list(self.new),
            "allow_missing": self.allow_missing,
            "windows": self.rows(),
            "blame": [blame.to_dict(self.top) for blame in self.blame],
            "unblamed": self.unblamed,
            "trust": self.trust.to_dict(),
        }

    def rows(self) -> list[dict[str, Any]]:
        """A flat row for each metric of each window, the worst first."""
        return [row.to_dict() for row in self.windows]

    def to_pandas(self) -> pd.DataFrame:
        """:meth:`rows` as a DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.rows())


def pair_figures(base: Sequence[WindowFigures], head: Sequence[WindowFigures], *, series: bool) -> Paired:
    """Pair the windows of two runs by the rule of ``memlens diff``: by name, and names that come again in order.

    One window and one window pair whatever they are called: their anchors are the same.
    """
    from memlens.diffing.pairs import pair_windows

    if not series:
        return Paired(tuple(zip(base, head, strict=True)))
    try:
        # It looks at names only.
        found = pair_windows(cast("Sequence[Window]", base), cast("Sequence[Window]", head))
    except AnchorError:  # nothing in common: everything is missing, and everything is new
        return Paired((), tuple(base), tuple(head))
    return Paired(*cast("tuple[Any, ...]", (found.pairs, found.only_base, found.only_head)))


def judge(
    paired: Paired,
    limits: Mapping[Metric, Limit],
    budgets: Mapping[Metric, int],
    *,
    allow_missing: bool = False,
    start_lines: Mapping[str, int] | None = None,
) -> tuple[Judged, ...]:
    """Judge every metric of every window, and order them as :class:`Verdict` has them.

    Args:
        paired: The windows of both runs; those of the log alone are all ``new`` where there is no base.
        limits: How much each gated metric may grow.
        budgets: How high it may be, in bytes.
        allow_missing: Windows that the log lacks do not fail.
        start_lines: First lines of the log's windows, by their names in the log.
    """
    metrics = [metric for metric in METRICS if metric in _SHOWN or metric in limits or metric in budgets]
    gated = [metric for metric in metrics if metric in limits or metric in budgets]
    lines = start_lines or {}
    rows = [
        _judged(metric, base, head, limits.get(metric), budgets.get(metric), lines)
        for base, head in (*paired.pairs, *((None, head) for head in paired.new))
        for metric in metrics
    ]
    rows += [
        Judged(base.name, metric, base.of(metric), None, None, *_ceiling(base.of(metric), limits.get(metric), budgets.get(metric)),
               0, allow_missing, False, None)
        for base in paired.missing
        for metric in gated
    ]  # fmt: skip
    return tuple(sorted(rows, key=lambda row: (row.ok, row.missing, -row.over_bytes, -(row.d_bytes or 0))))


def _judged(
    metric: Metric,
    base: WindowFigures | None,
    head: WindowFigures,
    limit: Limit | None,
    budget: int | None,
    lines: Mapping[str, int],
) -> Judged:
    old, new = None if base is None else base.of(metric), head.of(metric)
    change = None if old is None else new - old
    ceiling, origin = _ceiling(old, limit, budget)
    over = 0 if ceiling is None else max(new - ceiling, 0)
    improved = old is not None and limit is not None and old - new > limit.allows(old)
    name = head.name if base is None else base.name
    return Judged(
        name, metric, old, new, change, ceiling, origin, over, not over, improved, lines.get(head.name)
    )  # fmt: skip


def _ceiling(
    base: int | None, limit: Limit | None, budget: int | None
) -> tuple[int | None, Literal["base", "budget"] | None]:
    """The highest figure within limits, and what sets it."""
    grown = None if base is None or limit is None else base + limit.allows(base)
    if grown is None:
        return budget, None if budget is None else "budget"
    if budget is None or grown <= budget:
        return grown, "base"
    return budget, "budget"
