"""What a gate found, in one to three sentences: what was judged, what is worst, what grows and piles up, what could not be judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from memlens.text import Answer, format_change, format_count, format_exact, name_list, plural, short_name
from memlens.units import format_bytes, format_signed
from memlens.windows.windows import WHOLE

if TYPE_CHECKING:
    from memlens.gating.judging import Judged
    from memlens.gating.verdict import Verdict

__all__ = ["answer_of", "growth_words", "of_the_run", "row_words", "verdict_words"]

#: Reasons, and figures that are not judged, that a sentence names; and how much of a reason.
_NAMED, _LONGEST = 2, 300


def answer_of(verdict: Verdict) -> Answer:
    """The verdict of a gate in words."""
    if verdict.verdict == "unjudged":
        reasons = "; ".join(_reason(reason, verdict.path) for reason in verdict.reasons[:_NAMED])
        reasons = reasons.removeprefix("nothing could be judged: ")
        more = f"; and {plural(len(verdict.reasons) - _NAMED, 'more reason')}" if len(verdict.reasons) > _NAMED else ""
        return Answer((*_failed(verdict), f"Not judged: {reasons}{more}."))
    said = ["; ".join(_growing(verdict)), "; ".join(_unjudged(verdict))]
    if verdict.failed:  # which is the first of three sentences
        said = ["; ".join(filter(None, said))]
    sentences = tuple(f"{text[:1].upper()}{text[1:]}." for text in (_first(verdict), *filter(None, said)))
    return Answer((*_failed(verdict), *sentences), "good" if verdict.ok else "bad")


def _failed(verdict: Verdict) -> tuple[str, ...]:
    return (verdict.failed,) if verdict.failed else ()


def _reason(reason: str, path: str) -> str:
    """A reason as it stands in a sentence: of the log, without its name."""
    reason = reason.replace(f"{path} is ", "the log is ").removeprefix(f"{path}: ")
    return reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]}…"


def _first(verdict: Verdict) -> str:
    """What was judged, and the worst of what fails, or the peak where nothing does."""
    over = [row for row in verdict.failing if not row.missing]
    if over:
        worst = over[0]
        where = "the run" if worst.name == WHOLE else short_name(worst.name)
        rest = verdict_words(verdict, growth=False)
        return f"regression in {where}: {row_words(worst)}; {rest}"
    if not verdict.ok:
        return f"regression: {verdict_words(verdict, growth=False)}, {name_list(verdict.missing)}"
    peak = next((row for row in verdict.judged if row.name == WHOLE and row.metric == "peak"), None)
    figure = "" if peak is None else f": {_within(peak)}"
    return f"within limits{figure}; {verdict_words(verdict, growth=False)}"


def _within(row: Judged) -> str:
    """A figure that passes, with what it may be."""
    head, base = row.head_bytes or 0, row.base_bytes
    against = "" if base is None else f", {format_signed(head - base)} against {format_bytes(base)}"
    what = "budget" if row.limit_from == "budget" else "limit"
    return f"the {row.metric} of the run is {format_bytes(head)}{against}, {what} {format_bytes(row.limit_bytes or 0)}"


def _growing(verdict: Verdict) -> Iterator[str]:
    """What the series gains, and what it consists of."""
    if not (words := growth_words(verdict)):
        return
    yield words
    if verdict.piling:
        pile = verdict.piling[0]
        owner = f" ({short_name(pile.owner)})" if pile.owner else ""
        kinds = f", first of {plural(len(verdict.piling), 'kind')}" if len(verdict.piling) > 1 else ""
        yield (
            f"{format_count(pile.count)} × {format_bytes(pile.size_bytes)}{owner} pile up, {format_bytes(pile.total_bytes)}{kinds}"
        )


def _unjudged(verdict: Verdict) -> Iterator[str]:
    """What is gated and could not be judged, and why; why what was judged may be doubted."""
    why: dict[str, list[str]] = {}
    for row in verdict.windows:
        if row.unjudged is not None:
            name = f"{row.metric} of the run" if row.name == WHOLE else f"window {short_name(row.name)}"
            why.setdefault(row.unjudged, []).append(name)
    parts = [f"{name_list([*dict.fromkeys(names)][:_NAMED])}{_left(names)} ({reason})" for reason, names in why.items()]
    if parts:
        yield f"not judged: {', '.join(parts)}"
    if verdict.trust.peak_may_be_earlier and all(row.metric != "peak" for row in verdict.windows if row.unjudged):
        yield "the peak may be higher, for the log begins late"
    if verdict.failed:
        yield "what a run held when it ran out is not what it needs"


def _left(names: list[str]) -> str:
    left = len(dict.fromkeys(names)) - _NAMED
    return f" and {format_count(left)} more" if left > 0 else ""


def verdict_words(verdict: Verdict, *, growth: bool = True) -> str:
    """All of it in one sentence, with or without what grows."""
    if verdict.verdict == "unjudged":
        return "not judged"
    figures = verdict.judged
    over = [row for row in figures if not row.ok]
    parts = []
    if over:
        count = f"{format_count(len(over))} of {plural(len(figures), 'figure')} {'is' if len(over) == 1 else 'are'} over the limit"
        of_run = [row.metric for row in over if row.name == WHOLE]
        windows = len({row.name for row in over if row.name != WHOLE})
        where = [of_the_run(of_run)] if of_run else []
        where += [f"{plural(windows, 'window')}"] if windows else []
        parts.append(f"{count}: {' and '.join(where)}")
    elif verdict.ok:
        few = {1: "the one figure", 2: "both figures"}
        all_of = few.get(len(figures), f"all {plural(len(figures), 'figure')}")
        parts.append(f"{all_of} judged {'is' if len(figures) == 1 else 'are'} within limits")
    if verdict.missing:
        gone = plural(len(verdict.missing), "window is", "windows are")
        parts.append(f"{gone} missing{', which is let go' if verdict.rules.allow_missing else ''}")
    if verdict.not_reached:
        parts.append(
            f"{format_count(verdict.judged_windows)} of the base's {plural(verdict.base_windows, 'window')} judged, for the run ends earlier"
        )
    if growth and (words := growth_words(verdict)):
        parts.append(words)
    return "; ".join(parts)


def of_the_run(metrics: Sequence[str]) -> str:
    """Metrics of the run, in a sentence: ``the remaining, peak and rise of the run``."""
    *first, last = metrics
    return f"the {', '.join(first)}{' and ' if first else ''}{last} of the run"


def growth_words(verdict: Verdict) -> str:
    """By how much the series of windows grows; ``""`` where it does not."""
    found = verdict.growth
    if found is None or found.verdict != "growing":
        return ""
    since = "" if found.since is None else f" from window {short_name(found.since)} on"
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
    if row.limit_from == "budget" and not row.ok:
        d_bytes = row.d_bytes or 0
        change = f", {format_signed(d_bytes)} against {format_bytes(row.base_bytes or 0)}" if d_bytes else ""
        over = f"over the budget of {format_bytes(row.limit_bytes or 0)} by {format_exact(row.over_bytes)}"
        return f"{metric} is {format_bytes(row.head_bytes)}{change}; {over}"
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
    what = "the limit, the spread of the accepted runs," if row.limit_from == "spread" else "the limit"
    return f"{text}; over {what} of {format_bytes(row.limit_bytes)} by {format_exact(row.over_bytes)}"
