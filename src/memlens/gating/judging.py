"""The judgement: figures of a log against those it is compared with, for the whole run and window by window.

Windows are judged by those of the base that have their names: a baseline has no events to pair by what windows do.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from memlens.analyzers.series import trend
from memlens.analyzers.series.shapes import MINIMUM
from memlens.gating.limits import BY_ROLE, DEFAULT_OF_WINDOWS, METRICS, Rules
from memlens.results import Result
from memlens.text import format_bytes, name_list
from memlens.windows.windows import BEFORE, WHOLE, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from memlens.gating.baseline import RunFigures, WindowFigures
    from memlens.gating.limits import Limit, Metric


Origin: TypeAlias = Literal["base", "floor", "spread", "budget"]

#: The metrics of windows; ``growth`` and ``reserved`` are of the run alone.
_OF_WINDOWS: tuple[Metric, ...] = ("peak", "rise", "remaining")
_NOT_KNOWN: Mapping[Metric, str] = {
    "reserved": "not reported by the {}",
    **dict.fromkeys(BY_ROLE, "nothing in the {} tells roles"),
}
_TOLD_OTHERWISE = "roles are told otherwise in the base"
_NO_BLOCKS = "no block in the {}"
_BEGINS_LATE = "the {} begins late, and may have been higher before"
_NO_STEPS = "no steps found"
#: Why what is reserved is not judged.
NOT_NAMED = "no limit names it"


class Judged(Result, frozen=True):
    """One metric of the whole run or of one window.

    Attributes:
        name: The window's name, the baseline's where both have it; text from the log.  ``(whole log)`` for the run.
        metric: One of :data:`~memlens.gating.limits.METRICS`: a role stands for what of it is live at the peak of the run.
        base_bytes: The figure that it is compared with, the highest of the accepted runs; ``None`` where there is none.
        head_bytes: The figure that is judged; ``None`` where the log has no such window, or does not tell.
        d_bytes: Head less base; ``None`` where one of them is.
        spread_bytes: The highest less the lowest figure of the accepted runs; 0 where one was accepted.
        limit_bytes: The highest ``head_bytes`` that is within limits: the base and what it may grow by, or the budget, whichever is
            lower; ``None`` where it is not judged.
        limit_from: What sets ``limit_bytes``: a share of the ``base``, the ``floor`` that lets small figures grow by more, the ``spread`` of the
            accepted runs, which is wider, or the ``budget``; ``None`` where it is ``None``.
        over_bytes: What ``head_bytes`` is above ``limit_bytes``; 0 where it is not.
        ok: It is within limits, or not judged.
        improved: It is lower than every accepted figure by more than it may grow.
        missing: The log has no such window.
        open_end: The window runs to the end of its log, in this log or in the base, so it is shown and not judged.
        unjudged: Why it is not judged; ``None`` where it is.
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
    over_bytes: int = 0
    ok: bool = True
    improved: bool = False
    missing: bool = False
    open_end: bool = False
    unjudged: str | None = None
    start_line: int | None = None


Pair: TypeAlias = "tuple[tuple[WindowFigures, ...], WindowFigures]"


class PairedRuns(Struct, frozen=True):
    """The windows of the base and of the log that is judged; each is in one of these.

    Attributes:
        pairs: Windows of both, in base's order: the figures of one in each accepted run that has it, and those of head's.
        missing: Windows of each accepted run that the log lacks.
        not_reached: Windows that it lacks because it ends earlier: nothing that follows them in the base is there, and others of
            their kind are.
        new: Names of windows that the base lacks.
        take_open: Open windows are judged, too: neither run has another one.
    """

    pairs: tuple[Pair, ...] = ()
    missing: tuple[tuple[WindowFigures, ...], ...] = ()
    not_reached: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    take_open: bool = False

    def is_open(self, pair: Pair) -> bool:
        """Whether a pair is shown and not judged, because one of the two runs to the end of its log."""
        base, head = pair
        return not self.take_open and (head.open_end or all(one.open_end for one in base))

    @property
    def judged(self) -> tuple[Pair, ...]:
        """The pairs that are judged."""
        return tuple(pair for pair in self.pairs if not self.is_open(pair))

    @property
    def unlike(self) -> bool:
        """Both have windows of a series, and none pairs: the work is named otherwise, and nothing of it is missing."""
        return bool(self.new and self.missing) and all(window.name == BEFORE for _, window in self.pairs)


def pair_runs(base: Sequence[RunFigures], head: RunFigures, *, series: bool) -> PairedRuns:
    """Pair the windows of a log with those of the accepted runs that have their names.

    One window and one window pair whatever they are called: their anchors are the same.

    Args:
        base: The accepted runs; none where only budgets hold.
        head: The run that is judged.
        series: They were cut into series and not into one window each.
    """
    if not base:
        return PairedRuns()
    take_open = all(one.open_end for run in (*base, head) for one in run.windows if one.name != BEFORE)
    if not series:
        return PairedRuns(((tuple(run.windows[0] for run in base), head.windows[0]),), take_open=take_open)
    known: dict[str, tuple[WindowFigures, ...]] = {}
    for run in base:
        for window in run.windows:
            known[window.name] = (*known.get(window.name, ()), window)
    ours = {window.name: window for window in head.windows}
    reached = [k for k, name in enumerate(known) if name in ours and name != BEFORE]
    last, kinds = max(reached, default=len(known)), {kind_of(name) for name in ours if name in known}
    missing, not_reached = [], []
    for k, (name, figures) in enumerate(known.items()):
        if name in ours or len(figures) < len(base):  # what some of the accepted runs lack too is not missing
            continue
        if k > last and (kind_of(name) in kinds or all(one.open_end for one in figures)):
            not_reached.append(name)
        else:
            missing.append(figures)
    return PairedRuns(
        tuple((figures, ours[name]) for name, figures in known.items() if name in ours),
        tuple(missing),
        tuple(not_reached),
        tuple(name for name in ours if name not in known),
        take_open,
    )


def judge(
    base: Sequence[RunFigures],
    head: RunFigures,
    paired: PairedRuns,
    rules: Rules,
    *,
    start_lines: Mapping[str, int] | None = None,
    no_steps: str = _NO_STEPS,
) -> tuple[Judged, ...]:
    """Judge the run and every window of it, in each metric that has a limit or a budget.

    What is reserved has a row without these, too, which is not judged, where it grew by more than 2 % and 1 MiB: chunks are large.

    Args:
        base: The accepted runs; none where only budgets hold.
        head: The run that is judged.
        paired: The windows of both.
        rules: What to judge by.
        start_lines: First lines of head's windows, by their names.
        no_steps: Why head has no steps, if it has none.

    Returns:
        What fails, the worst first, then windows that are missing, then the others, the largest growth first, then what is not judged.
    """
    lines = start_lines or {}
    rows = []
    if rules.gated("peak"):
        row = Judged(WHOLE, "peak", head_bytes=head.peak_bytes, start_line=1)
        rows.append(_judged(row, [run.peak_bytes for run in base], rules))
    row = Judged(WHOLE, "reserved", head_bytes=head.reserved_peak_bytes, start_line=1)
    reserved = [run.reserved_peak_bytes for run in base]
    if rules.gated("reserved"):
        rows.append(_judged(row, reserved, rules))
    elif "reserved" not in rules.named:
        row = _judged(row, reserved, Rules({"reserved": DEFAULT_OF_WINDOWS}))
        rows += [] if row.ok else [_unjudged(row, NOT_NAMED)]
    for role in rules.roles:
        row = Judged(WHOLE, role, head_bytes=head.role_bytes(role), start_line=1)
        alike = not head.told_by or all(not run.told_by or run.told_by == head.told_by for run in base)
        known = [run.role_bytes(role) if alike else None for run in base]
        rows.append(_judged(row, known, rules, None if alike or role in rules.budgets else _TOLD_OTHERWISE))
    no_blocks = [_NO_BLOCKS.format("log")] if head.peak_bytes is None else []
    no_blocks += [_NO_BLOCKS.format("base")] if any(run.peak_bytes is None for run in base) else []
    if "growth" in rules.limits:
        rows.append(_growth(base, head, rules, *no_blocks, no_steps))
    for pair in paired.pairs:
        figures, new = pair
        reason = no_blocks[0] if no_blocks else None
        if is_open := paired.is_open(pair):
            reason = "open: no end anchor" if new.open_end else "open in the base"
        elif not paired.take_open:
            figures = tuple(one for one in figures if not one.open_end)
        name, line = figures[0].name, lines.get(new.name)
        for metric in (metric for metric in _OF_WINDOWS if metric in rules.limits):
            if new.name == WHOLE and metric == "peak":  # which is that of the run
                continue
            row = Judged(name, metric, head_bytes=new.of(metric), open_end=is_open, start_line=line)
            rows.append(_judged(row, [one.of(metric) for one in figures], rules, reason))
    rows = [_may_be_higher(row, base, head, rules) for row in rows]
    if not (rules.allow_missing or paired.unlike):
        rows += [row for figures in paired.missing for row in _missing(figures, rules)]
    # By one key after the other, the last one first: there may be very many rows, and tuples of keys would take more than they do.
    rows.sort(key=lambda row: row.d_bytes or 0, reverse=True)
    rows.sort(key=lambda row: row.over_bytes, reverse=True)
    rows.sort(key=lambda row: row.ok * 4 + row.missing * 2 + (row.unjudged is not None))
    return tuple(rows)


def _growth(base: Sequence[RunFigures], head: RunFigures, rules: Rules, *reasons: str) -> Judged:
    """The bytes that the steps gained, against what the base's steps gain, per step, in as many.

    Args:
        base: The accepted runs.
        head: The run that is judged.
        rules: What to judge by.
        reasons: Why it is not judged: that a run has no blocks, if so; and at last what to say where head has no steps.
    """
    count = len(head.step_series)
    row = Judged(WHOLE, "growth", start_line=1)
    if len(reasons) > 1 or not head.steps_by:
        return replace(row, unjudged=reasons[0])
    if any(run.steps_by != head.steps_by for run in base):
        same = all(run.steps_by for run in base)
        return replace(row, unjudged="other lines mark the steps of the base" if same else f"{_NO_STEPS} in the base")
    for levels, where in ((head.step_levels, ""), *((run.step_levels, " in the base") for run in base)):
        if len(levels) < MINIMUM:
            return replace(row, unjudged=f"{len(levels)} closed steps{where}, {MINIMUM} needed")
    found = trend.judge(np.array(head.step_series, np.int64))
    # What fills up within a quarter of the steps is warm-up.
    rise = found.rise if found.rise is not None and 4 * found.rise.last > count else None
    gained, since = (0, None) if found.since is None else (found.gained_bytes, found.since)
    if rise is not None:
        gained, since = rise.rose_bytes, rise.first
    judged = _judged(replace(row, head_bytes=gained), [_gained(run.step_series, since, count) for run in base], rules)
    if rise is None or rise.how != "late":
        return judged
    if not judged.ok:
        why = f"the last {count - rise.first} steps rise by {format_bytes(gained)}, too few to tell"
        return _unjudged(judged, why)
    return _judged(replace(row, head_bytes=0), [_gained(run.step_series, None, count) for run in base], rules)


def _gained(levels: Sequence[int], since: int | None, count: int) -> int:
    """The bytes that a run gains over so many steps: those per step times steps, or, as while it warms up, those of the same steps."""
    found = trend.judge(np.array(levels, np.int64))
    rate = Fraction(found.gained_bytes, found.spanned) if found.since is not None else Fraction(0)
    same = levels[max((since or 0) - 1, 0) : count]
    return max(ceil(rate * (count - (found.since or 0))), same[-1] - min(same) if since is not None and same else 0)


def default_limits(base: Sequence[RunFigures]) -> list[Judged]:
    """The peak and the growth that accepted runs allow by default, or why that cannot be judged, as rows of the first of them."""
    rows = judge(base, base[0], PairedRuns(), Rules.parse(windows=False))
    return sorted((row for row in rows if row.metric in ("peak", "growth")), key=lambda row: METRICS.index(row.metric))


def _may_be_higher(row: Judged, base: Sequence[RunFigures], head: RunFigures, rules: Rules) -> Judged:
    """A row of the run, or of what precedes its windows, not judged where one recording begins later than the other and may have been higher before."""
    if row.name not in (WHOLE, BEFORE) or row.metric == "growth" or row.unjudged or row.base_bytes is None:
        return row
    limit = rules.limit(row.metric, of_window=row.name != WHOLE)

    def later(one: RunFigures, other: RunFigures) -> bool:
        if one.begins_at_bytes is None or other.begins_at_bytes is None:
            return one.begins_at_bytes is not None
        at = other.begins_at_bytes
        return one.begins_at_bytes - at > (0 if limit is None else limit.allows(at))

    if row.ok and any(later(head, run) for run in base):
        return _unjudged(row, _BEGINS_LATE.format("log"))
    if not row.ok and row.limit_from != "budget" and any(later(run, head) for run in base):
        return _unjudged(row, _BEGINS_LATE.format("base"))
    return row


def _unjudged(row: Judged, why: str) -> Judged:
    return replace(row, limit_bytes=None, limit_from=None, over_bytes=0, ok=True, improved=False, unjudged=why)


def _missing(base: Sequence[WindowFigures], rules: Rules) -> Iterator[Judged]:
    for metric in (metric for metric in _OF_WINDOWS if metric in rules.limits):
        known = [one.of(metric) for one in base]
        yield Judged(base[0].name, metric, max(known), spread_bytes=max(known) - min(known), ok=False, missing=True)


def _judged(row: Judged, base: Sequence[int | None], rules: Rules, reason: str | None = None) -> Judged:
    """A row with its name and head's figure, judged by the base's figures.

    Args:
        row: The row.
        base: The figure in each accepted run.
        rules: What to judge by.
        reason: Why it is not judged whatever is known.
    """
    limit, head = rules.limit(row.metric, of_window=row.name != WHOLE), row.head_bytes
    budget = rules.budgets.get(row.metric) if row.name == WHOLE else None
    known = [figure for figure in base if figure is not None]
    if known and len(known) == len(base):
        change = None if head is None else head - max(known)
        row = replace(row, base_bytes=max(known), d_bytes=change, spread_bytes=max(known) - min(known))
    not_known = _NOT_KNOWN.get(row.metric, _NO_BLOCKS)
    if reason is None and head is None:
        reason = not_known.format("log")
    elif reason is None and row.base_bytes is None and budget is None:
        reason = not_known.format("base")
    if reason is not None or head is None:
        return replace(row, unjudged=reason)
    ceiling, origin = _ceiling(row.base_bytes, row.spread_bytes, limit, budget)
    over = max(head - ceiling, 0)
    improved = limit is not None and row.base_bytes is not None and min(known) - head > limit.allows(min(known))
    return replace(row, limit_bytes=ceiling, limit_from=origin, over_bytes=over, ok=not over, improved=improved)


@lru_cache(maxsize=1024)  # windows are often alike
def _ceiling(base: int | None, spread: int, limit: Limit | None, budget: int | None) -> tuple[int, Origin]:
    """The highest figure within limits, and what sets it."""
    found: list[tuple[int, Origin]] = [] if budget is None else [(budget, "budget")]
    if base is not None and limit is not None:
        grown = limit.allows(base)
        origin: Origin = "floor" if limit.relative and grown > int(limit.relative * abs(base)) else "base"
        found.insert(0, (base + max(grown, spread), origin if grown >= spread else "spread"))
    return min(found, key=lambda one: one[0])


def why_unjudged(rows: Sequence[Judged], paired: PairedRuns, rules: Rules, *, needs_window: bool) -> Iterator[str]:
    """Why a log in which nothing is over its limit does not pass all the same: its peak, or something that the user named, could not be judged."""
    if paired.unlike:
        lacking = [figures[0].name for figures in paired.missing if figures[0].name != BEFORE]
        new = [name for name in paired.new if name != BEFORE]
        yield f"no window of the log could be judged: the base has none of them. The base has {name_list(lacking)}; the log has {name_list(new)}"
    elif needs_window and not any(window.name != BEFORE for _, window in paired.judged):
        yield "no window of the log could be judged: the base has none of them, or none that a line ends"
    judged = any(row.limit_bytes is not None for row in rows)
    wanted = {"peak", *rules.named, *rules.budgets} if judged else METRICS
    for metric in METRICS:
        if metric in wanted and rules.gated(metric):
            mine = [row for row in rows if row.metric == metric and (metric != "peak" or row.name == WHOLE)]
            if not any(row.limit_bytes is not None for row in mine):
                why = next((row.unjudged for row in mine if row.unjudged), "the base has no such window")
                yield f"{metric} ({why})"
