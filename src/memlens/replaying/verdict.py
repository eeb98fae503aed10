"""The verdict on replays under other settings, in one to three sentences: what the run needs, what would need less, what none can beat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlens.results import Answer
from memlens.text import format_count, terms_of
from memlens.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Callable

    from memlens.replaying.result import MemoryRange, RefusedRequest, ReplayedLog, SettingTrial, WhatIf
    from memlens.text import Terms


def range_words(found: MemoryRange, size: Callable[[int], str] = format_bytes) -> str:
    """``7.59 MiB``, or ``7.59 MiB to 8.20 MiB``."""
    low, high = size(found.low_bytes), size(found.high_bytes)
    return low if low == high else f"{low} to {high}"


def refused_words(refused: RefusedRequest, terms: Terms) -> str:
    """Where a request is refused, and what is free then."""
    where = "" if refused.line is None else f" at {terms.at(refused.line)}"
    words = f"{where}, where {format_bytes(refused.requested_bytes)} are asked for"
    if not refused.free_bytes:
        return f"{words} and nothing is free in {terms.chunk}s"
    pieces = f"{format_bytes(refused.largest_free_bytes)} in one piece"
    return f"{words} and {format_bytes(refused.free_bytes)} are free, at most {pieces}"


def _calls_words(trial: SettingTrial, own: SettingTrial, terms: Terms) -> str:
    """``taking 358 chunks from the device and not 56``, where it takes more than the run as it was set: each is a call that takes its time."""
    if trial.taken <= own.taken:
        return ""
    return f"taking {plural(trial.taken, terms.chunk)} from the device and not {format_count(own.taken)}"


def answer_of(whatif: WhatIf) -> Answer:
    """The verdict on all devices: that on the one that ran out of memory, or else on the first."""
    if not whatif.logs:
        return Answer(tuple(failure.message for failure in whatif.failures[:1]), "bad")
    first = min(whatif.logs, key=lambda log: (not log.refused, not log.proof.holds))
    answer = first.answer
    if len(whatif.logs) == 1:
        return answer
    others = [log for log in whatif.logs if log is not first]
    better = [log for log in others if log.best is not None]
    where = first.path[first.path.rfind("[") :].strip("[]")
    kind = "other process" if where.startswith("process") else "other device"
    counted = f"{len(better)} of {plural(len(others), kind, f'{kind}es' if kind.endswith('s') else '')} would need less with another setting too"
    head = f"{where[0].upper()}{where[1:]}: {answer.sentences[0]}" if where else answer.sentences[0]
    return Answer((head, *answer.sentences[1:2], f"{counted}."), answer.tone)


def answer_of_log(log: ReplayedLog) -> Answer:
    """The verdict on one device."""
    terms, proof = terms_of(log.has_lines), log.proof
    if not proof.holds:
        where = "" if proof.line is None else f" at {terms.at(proof.line)}"
        words = f"Nothing can be said of other settings: replayed as it was set, this run differs from its log{where}"
        return Answer((f"{words}: {proof.difference}.",), "bad")
    own = log.own
    assert own is not None
    found = _within(log, own, terms) if log.limit_bytes is not None else _needed(log, own, terms)
    if not log.cut_short:
        return found
    return Answer((*found.sentences, "The log is cut short: what the run did later is not known."), found.tone)


def _needed(log: ReplayedLog, own: SettingTrial, terms: Terms) -> Answer:
    """Return the verdict on a run without a limit: as it was set, and with the best setting."""
    best, others = log.best, len(log.trials) - 1
    if best is None:
        none = f"; of {plural(others, 'other setting')} none surely needs less" if others else ""
        return Answer((f"As it was set this run {_needs(own)}{none}.", *_bound(log)))
    less = own.needs.low_bytes - best.needs.high_bytes
    certain = all(one.needs.low_bytes == one.needs.high_bytes for one in (own, best))
    saved = f"{'' if certain else 'at least '}{format_bytes(less)} less than as it was set ({range_words(own.needs)})"
    calls = _calls_words(best, own, terms)
    words = f"With {best.line} this run {_needs(best)}, {saved}{f', {calls}' if calls else ''}"
    fewer = log.without_more_chunks(best)
    some = () if fewer is None else (f"With {fewer.line} it takes {format_count(fewer.taken)} and {_needs(fewer)}.",)
    return Answer((f"{words}.", *some, *_bound(log)), "good")


def _needs(trial: SettingTrial) -> str:
    what = "completes within" if trial.completes is not None else "reserves"
    return f"{what} {range_words(trial.needs)}"


def _bound(log: ReplayedLog, size: Callable[[int], str] = format_bytes) -> tuple[str, ...]:
    if log.live_peak_bytes is None:
        return ()
    return (f"No setting needs less than {size(log.live_peak_bytes)}, the most bytes live at once.",)


def _sizes(limit: int, *others: int) -> Callable[[int], str]:
    """How bytes are written beside a limit: where another figure would read like it and is not the same, both to the byte."""
    text = format_bytes(limit)
    alike = any(one != limit and format_bytes(one) == text for one in others)
    return lambda count: f"{count:,} bytes" if alike and format_bytes(count) == text else format_bytes(count)


def _enough(trial: SettingTrial, limit: int, who: str, size: Callable[[int], str]) -> str:
    """Return words for the bytes that a setting needs that completes within a limit; which may lie below the upper end of that, for more need not be enough."""
    if trial.needs.high_bytes <= limit:
        return f": {who} needs {range_words(trial.needs, size)}"
    if trial.completes is None:
        return f" (without a limit it reserves {range_words(trial.needs, size)})"
    return f", though not within all limits from there to {size(trial.needs.high_bytes)}"


def _within(log: ReplayedLog, own: SettingTrial, terms: Terms) -> Answer:
    """Whether the run completes within the limit as it was set, and what would let it complete."""
    limit, live, remedies = log.limit_bytes or 0, log.live_peak_bytes or 0, log.remedies
    shown = [own.needs, *(one.needs for one in remedies[:1])]
    size = _sizes(limit, live, *(one.low_bytes for one in shown), *(one.high_bytes for one in shown))
    within = f"within {size(limit)}"
    at = "" if log.refused_line is None else f" at {terms.at(log.refused_line)}"
    # What would have come behind the failure that a run ended in is not known.
    on, who = (f"gets past its failure{at}", "up to there it") if log.refused else ("completes", "it")
    if own.within_limit == "completes":
        words = f"As it was set this run {on} {within}{_enough(own, limit, who, size)}"
        return Answer((f"{words}.", *_bound(log, size)), "good")
    if log.refused and log.limit_from != "given":
        head, on = f"This run ran out of memory{at}", "gets past that"
    elif own.within_limit == "depends":
        kind = f"only where addresses are kind ({own.completing} of {own.replays} replays)"
        head = f"As it was set this run {on} {within} {kind}"
    else:
        where = (
            ": as much is reserved before its log begins" if own.refused is None else refused_words(own.refused, terms)
        )
        least = own.needs.low_bytes
        close = limit < least and format_bytes(least) == format_bytes(limit)
        needs = f" ({who} needs {range_words(own.needs, size)})" if close else ""
        head = f"As it was set this run fails {within}{needs}{where}"
    if remedies:
        best = remedies[0]
        calls = _calls_words(best, own, terms)
        words = f"With {best.line} it {on} {within}{_enough(best, limit, who, size)}{f', {calls}' if calls else ''}"
        if len(remedies) > 1:
            words += f"; so it does with {plural(len(remedies) - 1, 'other setting')}"
            if (fewer := log.without_more_chunks(best)) is not None:
                words += f", and takes {format_count(fewer.taken)} with {fewer.line}"
        return Answer((f"{head}.", f"{words}.", *_bound(log, size)), "good")
    tried = len(log.trials) - 1
    most = log.limit_most_bytes or limit
    if log.beyond_bytes:
        over = f"{format_bytes(live - limit)} more than the limit" if most == limit else "and so much was refused"
        return Answer((f"{head}.", f"No setting can help: {size(live)} are live at once, {over}."), "bad")
    depends = [one for one in log.trials if one.within_limit == "depends" and not one.own]
    some = f"; with {depends[0].line} {depends[0].completing} of {depends[0].replays} replays do" if depends else ""
    none = f"Of {plural(tried, 'other setting')} none surely {on}{some}" if tried else "No other setting was tried"
    if most > limit:  # what is reserved is not all that there was
        none += f"; the device had {size(limit)} to {size(most)}, and --memory SIZE says how much"
    return Answer((f"{head}.", f"{none}.", *_bound(log, size)), "bad")
