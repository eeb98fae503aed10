"""What a verdict of the gate is in words: a sentence for all of it, one for each figure, and the command that accepts it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from memlens.gating.judging import WHOLE
from memlens.reports.text import format_change, format_count, format_exact, plural, shorten, visible
from memlens.units import format_bytes, format_signed

if TYPE_CHECKING:
    from memlens.gating.judging import Judged
    from memlens.gating.limits import Limit, Metric
    from memlens.gating.verdict import Verdict

__all__ = ["accept_command", "clipped", "growth_words", "limit_words", "name_list", "row_words", "verdict_words"]

#: A name of more characters than this is cut before anything else is done with it: marks without a width count for nothing later.
_LONGEST = 200
_MOST_NAMES = 6
_WIDEST_NAME = 40


def clipped(name: str) -> str:
    """A name of a log or a file, cut in its middle where nobody would read all of it."""
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST // 2]}…{name[-_LONGEST // 3 :]}"


def name_list(names: Sequence[str]) -> str:
    """The first few of some names, harmless and short, and how many more there are."""
    shown = ", ".join(shorten(visible(clipped(name)), _WIDEST_NAME) for name in names[:_MOST_NAMES])
    left = len(names) - _MOST_NAMES
    return shown + (f" and {format_count(left)} more" if left > 0 else "")


def limit_words(limits: Mapping[Metric, Limit]) -> str:
    """The limits, metrics of one limit together: ``peak, rise 2%, 1.00 MiB; reserved 5%``."""
    metrics: dict[Limit, list[str]] = {}
    for metric, limit in limits.items():
        metrics.setdefault(limit, []).append(metric)
    return "; ".join(f"{', '.join(names)} {limit}" for limit, names in metrics.items())


def verdict_words(verdict: Verdict) -> str:
    """All of it in one sentence."""
    if verdict.verdict == "unjudged":
        return "not judged"
    figures = verdict.judged
    over = [row for row in figures if not row.ok]
    parts = []
    if over:
        count = f"{format_count(len(over))} of {plural(len(figures), 'figure')} {'is' if len(over) == 1 else 'are'} over the limit"
        of_run = [row.metric for row in over if row.name == WHOLE]
        windows = len({row.name for row in over if row.name != WHOLE})
        where = [f"the {' and the '.join(of_run)} of the run"] if of_run else []
        where += [f"{plural(windows, 'window')}"] if windows else []
        parts.append(f"{count}: {' and '.join(where)}")
    elif verdict.ok:
        few = {1: "the one figure", 2: "both figures"}
        all_of = few.get(len(figures), f"all {plural(len(figures), 'figure')}")
        parts.append(f"{all_of} judged {'is' if len(figures) == 1 else 'are'} within limits")
    if verdict.missing:
        gone = plural(len(verdict.missing), "window is", "windows are")
        parts.append(f"{gone} missing{', which is let go' if verdict.allow_missing else ''}")
    if verdict.not_reached:
        parts.append(
            f"{format_count(verdict.judged_windows)} of the base's {plural(verdict.base_windows, 'window')} judged, for the run ends earlier"
        )
    if words := growth_words(verdict):
        parts.append(words)
    return "; ".join(parts)


def growth_words(verdict: Verdict) -> str:
    """By how much the series of windows grows; ``""`` where it does not."""
    found = verdict.growth
    if found is None or found.verdict != "growing":
        return ""
    since = "" if found.since is None else f" from window {shorten(visible(clipped(found.since)), _WIDEST_NAME)} on"
    within = next((", within the limit" for row in verdict.judged if row.metric == "growth" and row.ok), "")
    return (
        f"memory grows by {format_bytes(round(found.per_window))} a window{since}, {format_bytes(found.gained_bytes)} over"
        f" {plural(found.windows, 'window')}{within}"
    )


def row_words(row: Judged) -> str:
    """One figure that fails or improved, in a sentence without the window's name."""
    metric = row.metric
    if row.missing or row.head_bytes is None:
        return f"{metric}: the log has no such window; it was {format_bytes(row.base_bytes or 0)}"
    if row.base_bytes is None:
        text = f"{metric} is {format_bytes(row.head_bytes)}"
    else:
        change = format_change(row.base_bytes, row.head_bytes)
        text = (
            f"{metric} went from {format_bytes(row.base_bytes)} to {format_bytes(row.head_bytes)},"
            f" {format_signed(row.head_bytes - row.base_bytes)}{f' ({change})' if change else ''}"
        )
    if row.limit_bytes is None or row.ok:
        return text
    what = {"budget": "the budget", "spread": "the limit, the spread of the accepted runs,"}.get(
        row.limit_from or "", "the limit"
    )
    return f"{text}; over {what} of {format_bytes(row.limit_bytes)} by {format_exact(row.over_bytes)}"


def accept_command(verdict: Verdict) -> str:
    """The command that makes this log the baseline; ``""`` where there is no baseline file."""
    if not verdict.is_baseline:
        return ""
    log = "LOG" if verdict.path.startswith("<") else shlex.quote(verdict.path)
    if verdict.runs > 1:  # one run has no spread
        log += " LOG..."
    return f"memlens gate {log} --baseline {shlex.quote(verdict.base)} --accept"
