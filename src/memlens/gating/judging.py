"""The judgement: figures of a log against those it is compared with, for the whole run and window by window.

Windows are judged by those of the base that have their names: a baseline has no events to pair by what windows do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from memlens.analyzers.result import Row
from memlens.analyzers.series.trend import MINIMUM
from memlens.errors import AnchorError
from memlens.gating.figures import allowed_gain, growth_of, slipped
from memlens.windows.windows import BEFORE, kind_of, numbered

if TYPE_CHECKING:
    from memlens.gating.figures import RunFigures, WindowFigures
    from memlens.gating.limits import Limit, Metric
    from memlens.windows.windows import Window

__all__ = ["WHOLE", "BaseWindow", "Judged", "PairedRuns", "Rules", "judge", "pair_runs"]

#: The name of what is judged of the whole run.
WHOLE = "(whole log)"
Origin: TypeAlias = Literal["base", "spread", "budget"]

#: What is judged of windows; the other metrics are of the run.
_OF_WINDOWS: tuple[Metric, ...] = ("rise", "remaining")
_NO_BLOCKS = "no block in the log", "no block in the base"
_NOT_TOLD = "not told by the log", "not told by the base"
_OPEN = "open: no end anchor", "open in the base"


@dataclass(frozen=True)
class Judged(Row):
    """One metric of the whole run or of one window.

    Attributes:
        name: The window's name, the baseline's where both have it; text from the log.  ``(whole log)`` for the run.
        metric: One of :data:`~memlens.gating.limits.METRICS`.
        base_bytes: The figure that it is compared with, the highest of the accepted runs; ``None`` where there is none.
        head_bytes: The figure that is judged; ``None`` where the log has no such window, or does not tell.
        d_bytes: Head less base; ``None`` where one of them is.
        spread_bytes: The highest less the lowest figure of the accepted runs; 0 where one was accepted.
        limit_bytes: The highest ``head_bytes`` that is within limits: the base and what it may grow by, or the budget, whichever is
            lower; ``None`` where it is not judged.
        limit_from: What sets ``limit_bytes``: the limit over the ``base``, the ``spread`` of the accepted runs, which is wider, or the
            ``budget``; ``None`` where it is ``None``.
        slipped_bytes: The part of ``head_bytes`` above ``limit_bytes`` that is not counted, for it is of events right at an anchor that
            stand on its other side in the base.
        over_bytes: What ``head_bytes``, without ``slipped_bytes``, is above ``limit_bytes``; 0 where it is not.
        ok: It is within limits, or not judged.
        improved: It is lower than every accepted figure by more than it may grow.
        missing: The log has no such window.
        open_end: The window runs to the end of its log, in this log or in the base, so it is shown and not judged.
        unjudged: Why it is not judged though the metric is gated; ``None`` where it is judged or not gated.
        start_line: The 1-based number of the window's first line in the log that is judged; ``None`` where it has no such window.
    """

    name: str
    metric: Metric
    base_bytes: int | None = None
    head_bytes: int | None = None
    d_bytes: int | None = None
    spread_bytes: int = 0
    limit_bytes: int | None = None
    limit_from: Origin | None = None
    slipped_bytes: int = 0
    over_bytes: int = 0
    ok: bool = True
    improved: bool = False
    missing: bool = False
    open_end: bool = False
    unjudged: str | None = None
    start_line: int | None = None


@dataclass(frozen=True)
class Rules:
    """What to judge by.

    Attributes:
        limits: How much each gated metric may grow.
        budgets: How high it may be, in bytes.
        allow_missing: Windows that the log lacks do not fail.
    """

    limits: Mapping[Metric, Limit] = field(default_factory=dict)
    budgets: Mapping[Metric, int] = field(default_factory=dict)
    allow_missing: bool = False

    def gated(self, metric: Metric) -> bool:
        """Whether a metric has a limit or a budget."""
        return metric in self.limits or metric in self.budgets


@dataclass(frozen=True)
class BaseWindow:
    """One window of the base.

    Attributes:
        name: Its name in the first run that has it.
        figures: Its figures in each accepted run that has it.
        everywhere: Every accepted run has it.
    """

    name: str
    figures: tuple[WindowFigures, ...]
    everywhere: bool = True

    @property
    def closed(self) -> tuple[WindowFigures, ...]:
        """Its figures in the runs in which an end line or the next start closes it."""
        return tuple(one for one in self.figures if not one.open_end)


Pair: TypeAlias = "tuple[BaseWindow, WindowFigures]"


@dataclass(frozen=True)
class PairedRuns:
    """The windows of the base and of the log that is judged; each is in one of these.

    Attributes:
        pairs: Windows of both, in base's order.
        missing: Windows that the log lacks.
        not_reached: Windows that it lacks because it ends earlier: nothing that follows them in the base is there, and others of
            their kind are.
        optional: Windows that it lacks and that some of the accepted runs lack, too.
        new: Windows that the base lacks.
        take_open: Open windows are judged, too: neither run has another one.
    """

    pairs: tuple[Pair, ...] = ()
    missing: tuple[BaseWindow, ...] = ()
    not_reached: tuple[BaseWindow, ...] = ()
    optional: tuple[BaseWindow, ...] = ()
    new: tuple[WindowFigures, ...] = ()
    take_open: bool = False

    def is_open(self, pair: Pair) -> bool:
        """Whether a pair is shown and not judged, because one of the two runs to the end of its log."""
        base, head = pair
        return not self.take_open and (head.open_end or not base.closed)

    @property
    def judged(self) -> tuple[Pair, ...]:
        """The pairs that are judged."""
        return tuple(pair for pair in self.pairs if not self.is_open(pair))


def pair_runs(base: Sequence[RunFigures], head: RunFigures, *, series: bool) -> PairedRuns:
    """Pair the windows of a log with those of the accepted runs: by name, and names that come again in order.

    One window and one window pair whatever they are called: their anchors are the same.

    Args:
        base: The accepted runs; none where only budgets hold.
        head: The run that is judged.
        series: They were cut into series and not into one window each.
    """
    if not base:
        return PairedRuns(new=head.windows)
    if not series:
        figures = tuple(run.windows[0] for run in base)
        window = BaseWindow(figures[0].name, figures)
        return PairedRuns(((window, head.windows[0]),), take_open=head.windows[0].open_end and not window.closed)
    windows = _joined(base)
    found = _by_name(windows, head.windows)
    partner = {id(old): new for old, new in found}
    paired = {id(new) for _, new in found}
    missing, not_reached, optional = _lacking(windows, partner)
    return PairedRuns(
        tuple(found),
        tuple(missing),
        tuple(not_reached),
        tuple(optional),
        tuple(new for new in head.windows if id(new) not in paired),
        take_open=head.all_open and all(run.all_open for run in base),
    )


def _joined(runs: Sequence[RunFigures]) -> list[BaseWindow]:
    """The windows of all accepted runs: those of the first run in its order, and then what only later ones have."""
    groups = [[window] for window in runs[0].windows]
    for run in runs[1:]:
        found = _by_name([BaseWindow(group[0].name, tuple(group)) for group in groups], run.windows)
        place = {id(new): old.figures[0] for old, new in found}
        of_first = {id(group[0]): group for group in groups}
        for window in run.windows:
            if id(window) in place:
                of_first[id(place[id(window)])].append(window)
            else:
                groups.append([window])
    names = numbered([group[0].name for group in groups])
    return [BaseWindow(name, tuple(group), len(group) == len(runs)) for name, group in zip(names, groups, strict=True)]


def _by_name(base: Sequence[BaseWindow], head: Sequence[WindowFigures]) -> list[Pair]:
    from memlens.diffing.window_pairs import pair_windows

    try:
        # It looks at names only.
        found = pair_windows(cast("Sequence[Window]", base), cast("Sequence[Window]", head))
    except AnchorError:  # nothing in common
        return []
    return list(cast("Any", found.pairs))


def _lacking(
    windows: Sequence[BaseWindow], partner: dict[int, WindowFigures]
) -> tuple[list[BaseWindow], list[BaseWindow], list[BaseWindow]]:
    """What of the base the log lacks: what is missing, what it did not reach, and what accepted runs lack, too."""
    reached = [window for window in windows if id(window) in partner and window.name != BEFORE]
    kinds = {kind_of(window.name) for window in reached}
    last = windows.index(reached[-1]) if reached else len(windows)
    missing, not_reached, optional = [], [], []
    for place, window in enumerate(windows):
        if id(window) in partner:
            continue
        if not window.everywhere:
            optional.append(window)
        elif place > last and (kind_of(window.name) in kinds or not window.closed):
            not_reached.append(window)
        else:
            missing.append(window)
    return missing, not_reached, optional


def judge(
    base: Sequence[RunFigures],
    head: RunFigures,
    paired: PairedRuns,
    rules: Rules,
    *,
    start_lines: Mapping[str, int] | None = None,
) -> tuple[Judged, ...]:
    """Judge the run and every window of it.

    Args:
        base: The accepted runs; none where only budgets hold.
        head: The run that is judged.
        paired: The windows of both.
        rules: What to judge by.
        start_lines: First lines of head's windows, by their names.

    Returns:
        What fails, the worst first, then windows that are missing, then the others, the largest growth first, then what is not judged.
    """
    lines = start_lines or {}
    known = head.peak_bytes is not None, all(run.peak_bytes is not None for run in base)
    rows = [_of_run("peak", [run.peak_bytes for run in base], head.peak_bytes, rules, _NO_BLOCKS)]
    if len(head.windows) > 1 and all(known):  # one window is no series
        rows.append(_growth(base, head, rules))
    if head.reserved_peak_bytes is not None or rules.gated("reserved"):
        chunks = [run.reserved_peak_bytes for run in base]
        rows.append(_of_run("reserved", chunks, head.reserved_peak_bytes, rules, _NOT_TOLD))
    for base_window, window in [*paired.pairs, *((None, new) for new in paired.new)]:
        is_open = window.open_end if base_window is None else paired.is_open((base_window, window))
        rows += _window(base_window, window, rules, lines.get(window.name), is_open, known)
    lacking = [(window, rules.allow_missing) for window in paired.missing]
    for base_window, let_go in [*lacking, *((window, True) for window in paired.not_reached)]:
        rows += _missing(base_window, rules, let_go)
    return tuple(sorted(rows, key=_order))


def _order(row: Judged) -> tuple[bool, bool, bool, int, int]:
    return row.ok, row.missing, row.unjudged is not None, -row.over_bytes, -(row.d_bytes or 0)


def _of_run(
    metric: Metric, base: Sequence[int | None], head: int | None, rules: Rules, unknown: tuple[str, str]
) -> Judged:
    """A figure of the whole run; ``unknown`` is why head's and why base's may be ``None``."""
    return _judged(Judged(WHOLE, metric, head_bytes=head, start_line=1), base, rules, unknown)


def _growth(base: Sequence[RunFigures], head: RunFigures, rules: Rules) -> Judged:
    """The bytes that the series gained, against what one like the base's gains in as many windows."""
    closed, found = sum(not window.open_end for window in head.series), growth_of(head)
    gained = None if found is None else found.gained_bytes
    unknown = f"{closed} closed, {MINIMUM} needed", f"{MINIMUM} needed in the base"
    return _of_run("growth", [allowed_gain(run, head) for run in base], gained, rules, unknown)


def _window(
    base: BaseWindow | None,
    head: WindowFigures,
    rules: Rules,
    line: int | None,
    is_open: bool,
    known: tuple[bool, bool],
) -> Iterator[Judged]:
    name = head.name if base is None else base.name
    reason = _OPEN[not head.open_end] if is_open and base is not None else None
    figures = () if base is None else base.figures if is_open else base.closed or base.figures
    for metric in _OF_WINDOWS:
        head_bytes = head.of(metric) if known[0] else None
        row = Judged(name, metric, head_bytes=head_bytes, open_end=is_open, start_line=line)
        base_bytes = [one.of(metric) for one in figures] if known[1] else [None]
        row = _judged(row, base_bytes, rules, _NO_BLOCKS, reason)
        yield _without_slips(row, figures, head) if row.over_bytes else row


def _without_slips(row: Judged, base: Sequence[WindowFigures], head: WindowFigures) -> Judged:
    """A row that is over its limit, without the bytes that are there only because events came on this side of an anchor."""
    most = 0
    for one in base:
        lower = -slipped(one.start_events, head.start_events)
        most = max(most, lower + (0 if row.metric == "rise" else slipped(one.end_events, head.end_events)))
    over_anchors = min(most, row.over_bytes)
    over = row.over_bytes - over_anchors
    return replace(row, slipped_bytes=over_anchors, over_bytes=over, ok=not over)


def _missing(base: BaseWindow, rules: Rules, let_go: bool) -> Iterator[Judged]:
    for metric in filter(rules.gated, _OF_WINDOWS):
        known = [one.of(metric) for one in base.closed or base.figures]
        spread = max(known) - min(known)
        yield Judged(
            base.name, metric, max(known), spread_bytes=spread, ok=let_go, missing=True, open_end=not base.closed
        )


def _judged(
    row: Judged, base: Sequence[int | None], rules: Rules, unknown: tuple[str, str], reason: str | None = None
) -> Judged:
    """A row with its name and head's figure, judged by the base's figures.

    Args:
        row: The row.
        base: The figure in each accepted run.
        rules: What to judge by.
        unknown: Why head's figure, and why one of the base's, may be ``None``.
        reason: Why it is not judged whatever is known.
    """
    limit, budget, head = rules.limits.get(row.metric), rules.budgets.get(row.metric), row.head_bytes
    known = [figure for figure in base if figure is not None]
    if known and len(known) == len(base):
        change = None if head is None else head - max(known)
        row = replace(row, base_bytes=max(known), d_bytes=change, spread_bytes=max(known) - min(known))
    if reason is None and head is None:
        reason = unknown[0]
    elif reason is None and row.base_bytes is None and base and budget is None:
        reason = unknown[1]
    if reason is not None or head is None:
        return replace(row, unjudged=reason if rules.gated(row.metric) else None)
    ceiling, origin = _ceiling(row, limit, budget)
    over = 0 if ceiling is None else max(head - ceiling, 0)
    improved = limit is not None and row.base_bytes is not None and min(known) - head > limit.allows(min(known))
    return replace(row, limit_bytes=ceiling, limit_from=origin, over_bytes=over, ok=not over, improved=improved)


def _ceiling(row: Judged, limit: Limit | None, budget: int | None) -> tuple[int | None, Origin | None]:
    """The highest figure within limits, and what sets it."""
    found: list[tuple[int, Origin]] = [] if budget is None else [(budget, "budget")]
    if row.base_bytes is not None and limit is not None:
        grown = limit.allows(row.base_bytes)
        origin: Origin = "base" if grown >= row.spread_bytes else "spread"
        found.insert(0, (row.base_bytes + max(grown, row.spread_bytes), origin))
    return min(found, key=lambda one: one[0], default=(None, None))
