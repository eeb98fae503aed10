"""The judgement: figures of a log against those it is compared with, for the whole run and window by window.

Windows are judged by those of the base that have their names: a baseline has no events to pair by what windows do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from memlens.analyzers.result import Row
from memlens.analyzers.series.trend import MINIMUM
from memlens.gating.figures import RunFigures, WindowFigures, given_back, slipped
from memlens.gating.growth import allowed_gain, growth_of, kept_gain
from memlens.units import format_bytes
from memlens.windows.numbering import numbered
from memlens.windows.windows import BEFORE, WHOLE, Window, kind_of

if TYPE_CHECKING:
    from memlens.gating.limits import Limit, Metric

__all__ = ["BaseWindow", "Judged", "PairedRuns", "Rules", "Side", "judge", "pair_runs"]

Side: TypeAlias = Literal["base", "head"]
Origin: TypeAlias = Literal["base", "spread", "budget"]

#: What is judged of windows; the other metrics are of the run.
_OF_WINDOWS: tuple[Metric, ...] = ("rise", "remaining")
_NO_BLOCKS = "no block in the log", "no block in the base"
_NOT_TOLD = "not told by the log", "not told by the base"
_OPEN = "open: no end anchor", "open in the base"
_DIED = "the run died in it, and never came to free it"
_BEGINS_LATE: Mapping[Side, str] = {
    "head": "the log begins late, and may have been higher before",
    "base": "the base begins late, and may have been higher before",
}
#: Windows that rise one after the other at the end of a series and are worth a word, though too few to tell growth.
_RISING = 3


@dataclass(frozen=True, slots=True)
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
            stand on its other side in the base, or the base gives back there what earlier windows left behind in it alone.
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


@dataclass(frozen=True, slots=True)
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

    @property
    def unlike(self) -> bool:
        """Both have windows of a series, and none pairs: the work is named otherwise, and nothing of it is missing."""
        return bool(self.new and self.missing) and all(window.name == BEFORE for window, _ in self.pairs)


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
    pairs = _by_name(windows, head.windows)
    reached = [k for k in pairs if windows[k].name != BEFORE]
    kinds, last = {kind_of(windows[k].name) for k in reached}, max(reached, default=len(windows))
    lacking = [
        (window, k > last and (kind_of(window.name) in kinds or not window.closed))
        for k, window in enumerate(windows)
        if k not in pairs
    ]
    paired = set(pairs.values())
    return PairedRuns(
        tuple((windows[k], head.windows[pairs[k]]) for k in sorted(pairs)),
        missing=tuple(window for window, beyond in lacking if window.everywhere and not beyond),
        not_reached=tuple(window for window, beyond in lacking if window.everywhere and beyond),
        optional=tuple(window for window, _ in lacking if not window.everywhere),
        new=tuple(window for k, window in enumerate(head.windows) if k not in paired),
        take_open=head.all_open and all(run.all_open for run in base),
    )


def _joined(runs: Sequence[RunFigures]) -> list[BaseWindow]:
    """The windows of all accepted runs: those of the first run in its order, and then what only later ones have."""
    joined: list[BaseWindow] = []
    for run in runs:
        pairs = _by_name(joined, run.windows)
        for k, new in pairs.items():
            joined[k] = replace(joined[k], figures=(*joined[k].figures, run.windows[new]))
        paired = set(pairs.values())
        joined += [BaseWindow(new.name, (new,)) for k, new in enumerate(run.windows) if k not in paired]
    names = numbered([window.name for window in joined])
    for k, (name, window) in enumerate(zip(names, joined, strict=True)):
        everywhere = len(window.figures) == len(runs)
        if name != window.name or not everywhere:
            joined[k] = replace(window, name=name, everywhere=everywhere)
    return joined


def _by_name(base: Sequence[BaseWindow], head: Sequence[WindowFigures]) -> dict[int, int]:
    """Which window of head each window of the base pairs with, by their indices."""
    from memlens.diffing.window_pairs import named_pairs

    # It looks at names only.
    return named_pairs(cast("Sequence[Window]", base), cast("Sequence[Window]", head))


def judge(
    base: Sequence[RunFigures],
    head: RunFigures,
    paired: PairedRuns,
    rules: Rules,
    *,
    start_lines: Mapping[str, int] | None = None,
    died_in: Collection[str] = (),
    later: Side | None = None,
) -> tuple[Judged, ...]:
    """Judge the run and every window of it.

    Args:
        base: The accepted runs; none where only budgets hold.
        head: The run that is judged.
        paired: The windows of both.
        rules: What to judge by.
        start_lines: First lines of head's windows, by their names.
        died_in: Windows of head that it was in when it ended out of memory: what they leave behind is not judged.
        later: Which of the two begins later in the program than the other, so that what is of the whole run, or of what precedes its
            windows, was at least so high: head's may fail and cannot pass, and over such a figure of the base nothing fails.

    Returns:
        What fails, the worst first, then windows that are missing, then the others, the largest growth first, then what is not judged.
    """
    lines = start_lines or {}
    known = head.peak_bytes is not None, all(run.peak_bytes is not None for run in base)
    peak = Judged(WHOLE, "peak", head_bytes=head.peak_bytes, start_line=1)
    rows = [_judged(peak, [run.peak_bytes for run in base], rules, _NO_BLOCKS)]
    if len(head.windows) > 1 and all(known):  # one window is no series
        rows.append(_growth(base, head, rules))
    if head.reserved_peak_bytes is not None or rules.gated("reserved"):
        reserved = Judged(WHOLE, "reserved", head_bytes=head.reserved_peak_bytes, start_line=1)
        rows.append(_judged(reserved, [run.reserved_peak_bytes for run in base], rules, _NOT_TOLD))
    never_left = _never_left(paired, len(base))
    for old, new in [*paired.pairs, *((None, new) for new in paired.new)]:
        is_open = new.open_end if old is None else paired.is_open((old, new))
        figures = () if old is None else old.figures if is_open else old.closed or old.figures
        is_open_in = _OPEN[not new.open_end] if is_open and old is not None else None
        for metric in _OF_WINDOWS:
            reason = is_open_in or (_DIED if metric == "remaining" and new.name in died_in else None)
            row = Judged(
                new.name if old is None else old.name,
                metric,
                head_bytes=new.of(metric) if known[0] else None,
                open_end=is_open,
                start_line=lines.get(new.name),
            )
            of_base = [one.of(metric) for one in figures] if known[1] else [None]
            row = _judged(row, of_base, rules, _NO_BLOCKS, reason)
            rows.append(_without_slips(row, figures, new, never_left.get(row.name, 0)) if row.over_bytes else row)
    if later is not None:
        rows = [_may_be_higher(row, rules, later) for row in rows]
    for lacking, let_go in ((paired.missing, rules.allow_missing or paired.unlike), (paired.not_reached, True)):
        rows += [row for window in lacking for row in _missing(window, rules, let_go)]
    # By one key after the other, the last one first: there may be very many rows, and tuples of keys would take more than they do.
    rows.sort(key=lambda row: row.d_bytes or 0, reverse=True)
    rows.sort(key=lambda row: row.over_bytes, reverse=True)
    rows.sort(key=lambda row: row.ok * 4 + row.missing * 2 + (row.unjudged is not None))
    return tuple(rows)


def _growth(base: Sequence[RunFigures], head: RunFigures, rules: Rules) -> Judged:
    """The bytes that the series gained, against what one like the base's gains in as many windows."""
    ours, theirs = head.series, [run.series for run in base]
    closed, found = sum(not window.open_end for window in ours), growth_of(head)
    gained = None if found is None else found.gained_bytes
    unknown = f"{closed} closed, {MINIMUM} needed", f"{MINIMUM} needed in the base"
    row = Judged(WHOLE, "growth", head_bytes=gained, start_line=1)
    allowed_gains = [allowed_gain(run, head) for run in base]
    judged = _judged(row, allowed_gains, rules, unknown)
    if found is None or found.verdict == "growing" or judged.limit_bytes is None or judged.base_bytes is None:
        return judged
    known = [max(series[min(k, len(series) - 1)].live_bytes for series in theirs) for k in range(len(ours))]
    live = [window.live_bytes for window in ours]
    allowed = judged.limit_bytes - judged.base_bytes
    beyond = [one - old for one, old in zip(live, known, strict=True)]
    rising = next((k for k in range(1, len(beyond)) if beyond[-k] <= beyond[-k - 1]), len(beyond)) - 1
    gained = beyond[-1] - beyond[-1 - rising]
    if rising >= _RISING and min(gained, live[-1] - max(known)) > allowed:
        return _unjudged(judged, f"the last {rising} windows rise by {format_bytes(gained)}, too few to tell")
    if kept := kept_gain(base, head, allowed):
        return _judged(
            replace(row, head_bytes=kept[0]), [max(gain or 0, kept[1]) for gain in allowed_gains], rules, unknown
        )
    return judged


def _may_be_higher(row: Judged, rules: Rules, later: Side) -> Judged:
    """A row of two runs of which one begins later, and may have been higher before."""
    if row.name not in (WHOLE, BEFORE) or row.metric == "growth" or row.base_bytes is None or row.unjudged:
        return row
    known = not row.ok if later == "head" else row.ok or row.limit_from == "budget"
    return row if known or not rules.gated(row.metric) else _unjudged(row, _BEGINS_LATE[later])


def _unjudged(row: Judged, why: str) -> Judged:
    return replace(row, limit_bytes=None, limit_from=None, over_bytes=0, ok=True, improved=False, unjudged=why)


def _never_left(paired: PairedRuns, runs: int) -> dict[str, int]:
    """The bytes that the runs of the base give back in their windows and head never left (:func:`~memlens.gating.figures.given_back`), where there are any."""
    known = [pair for pair in paired.judged if len(pair[0].figures) == runs]
    heads = [new for _, new in known]
    found: dict[str, int] = {}
    for run in range(runs):
        sizes = given_back([old.figures[run] for old, _ in known], heads)
        found |= {old.name: max(found.get(old.name, 0), one) for (old, _), one in zip(known, sizes, strict=True) if one}
    return found


def _without_slips(row: Judged, base: Sequence[WindowFigures], head: WindowFigures, never_left: int) -> Judged:
    """A row that is over its limit, without the bytes that are there only because events came on this side of an anchor.

    Nor are those counted that the base gives back there and head never left (``never_left``, see :func:`~memlens.gating.figures.given_back`).
    """
    most = never_left
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
    ceiling, origin = _ceiling(row.base_bytes, row.spread_bytes, limit, budget)
    over = 0 if ceiling is None else max(head - ceiling, 0)
    improved = limit is not None and row.base_bytes is not None and min(known) - head > limit.allows(min(known))
    return replace(row, limit_bytes=ceiling, limit_from=origin, over_bytes=over, ok=not over, improved=improved)


@lru_cache(maxsize=1024)  # windows are often alike
def _ceiling(
    base: int | None, spread: int, limit: Limit | None, budget: int | None
) -> tuple[int | None, Origin | None]:
    """The highest figure within limits, and what sets it."""
    found: list[tuple[int, Origin]] = [] if budget is None else [(budget, "budget")]
    if base is not None and limit is not None:
        grown = limit.allows(base)
        origin: Origin = "base" if grown >= spread else "spread"
        found.insert(0, (base + max(grown, spread), origin))
    return min(found, key=lambda one: one[0], default=(None, None))
