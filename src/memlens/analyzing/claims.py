"""What follows from an analysis: what ran out, what grows, how high the peak is and of what, what is left at the end.

Every figure is one of the results; the claims say no more than these do.  ``docs/analyzers.md`` has the rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.analyzers.composition import largest_share
from memlens.analyzers.endings import ended, higher_after, stopped_inside
from memlens.analyzers.failures import failure_claim, most_telling
from memlens.analyzers.groups import largest_of
from memlens.analyzers.series.growth import Grown, Growth, bytes_of
from memlens.analyzers.series.phases import START
from memlens.analyzers.series.shapes import MINIMUM
from memlens.claims.claim import Claim, Weight, claim, logs_peaks
from memlens.claims.roles import variable_of
from memlens.text import MOST_NAMES, file_names, innermost
from memlens.trust.case import RESERVED_DOUBTS, UNPAIRED_DOUBTS
from memlens.windows.windows import BEFORE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from memlens.analyzing.result import Analysis, LogAnalysis, WindowAnalysis


#: What is reserved and never in use counts as much from so many bytes on: less may be one chunk.
_MUCH_IDLE = 32 << 20


# -- several logs -------------------------------------------------------------------------------------------------------------


def claims_of(analysis: Analysis) -> Iterator[Claim]:
    """The claims on all logs together; those on the log itself where there is one."""
    logs = analysis.logs
    if len(logs) == 1 and not analysis.failures:
        yield from logs[0].claims
    elif not analysis.failures and logs and all(log.device for log in logs) and len({log.input for log in logs}) == 1:
        yield from _of_devices(logs)
    else:
        yield from _of_logs(logs, len(analysis.failures))


def _of_devices(logs: Sequence[LogAnalysis]) -> Iterator[Claim]:
    """The claims on one input with several devices: those on one that ran out of memory, or on the fullest GPU, and how high the others come."""
    peaks = {log.device: max(_peaks(log), default=0) for log in logs}
    first, *others = sorted(logs, key=lambda log: (not log.ooms, log.device == "CPU", -peaks[log.device]))
    yield claim("device", Weight.OPENING, first)
    yield from first.claims
    listed = {log.device: peaks[log.device] for log in others[:MOST_NAMES]}
    yield claim("peaks_of_others", Weight.LIMITS, peaks_bytes=listed, more=len(others) - len(listed) or None)


def _of_logs(logs: Sequence[LogAnalysis], unread: int) -> Iterator[Claim]:
    names = file_names([log.path for log in logs])
    if len(failed := [log for log in logs if log.ooms]) == 1:
        yield failure_claim(failed[0].ooms, has_lines=failed[0].trust.has_lines, run=names[failed[0].path])
    elif failed:
        logs_failed = [names[log.path] for log in failed]
        yield claim("logs_out_of_memory", Weight.FAILURE, tone="bad", count=len(failed), logs=logs_failed)
    if growing := [names[log.path] for log in logs if _grows(log)]:
        yield claim("logs_growing", Weight.GROWTH, tone="bad", logs=growing)
    heights = [(max(_peaks(log), default=None), names[log.path]) for log in logs]
    if known := [(peak, name) for peak, name in heights if peak is not None]:
        yield logs_peaks(known, len(logs))
    elif not unread:
        yield claim("logs_analyzed", Weight.PEAK, count=len(logs))
    if unread:
        yield claim("logs_not_analyzed", Weight.PEAK, tone="bad", count=unread)
    if doubtful := sum(not log.trust.ok for log in logs):
        yield claim("logs_in_doubt", Weight.LIMITS, count=doubtful)


def _peaks(log: LogAnalysis) -> Iterator[int]:
    if "no_tensor_events" in log.trust.doubt_codes:
        return iter(())
    return (result.peak_bytes for window in log.windows if (result := window.results.get("peak")) is not None)


# -- one log ------------------------------------------------------------------------------------------------------------------


def claims_of_log(log: LogAnalysis) -> Iterator[Claim]:
    """The claims on one log."""
    # No doubt where it is only what is reserved, or single blocks, of which the claims say nothing then.
    sure = RESERVED_DOUBTS | UNPAIRED_DOUBTS
    if doubts := [one.code for one in log.trust.doubts if not log.trust.ok and one.code not in sure]:
        yield claim("in_doubt", Weight.OPENING, doubts=doubts)
    if found := list(_claims(log)):
        yield from found
    else:
        yield claim("events", Weight.PEAK, events=sum(window.events for window in log.windows))


def _claims(log: LogAnalysis) -> Iterator[Claim]:
    growth, windows, state_only = log.growth, log.windows, _state_only(log)
    failed = bool(log.ooms) and log.ooms[most_telling(log.ooms)].ended
    if log.ooms:
        yield failure_claim(log.ooms, has_lines=log.trust.has_lines)
    stopped = {} if failed else _stopped_inside(log)
    if not failed and (end := ended(log.trust, stopped, _live_at_end(log), log.freed_last)):
        yield Claim("run_ended", Weight.ENDING, end, "bad" if log.trust.ending else "plain")
    if grows := _grows(log):
        yield from _growing(log)
    highest = _highest(log, "reserved_peak_bytes" if "no_tensor_events" in log.trust.doubt_codes else "peak_bytes")
    if highest is not None and "peak" in highest.results:
        yield from _peak(log, highest)
        if not (failed or log.trust.ending or state_only):
            yield from _later(log, highest, stopped)
    # The windows asked for, without what precedes them; of very many few are looked at.
    asked_for = range(int(len(windows) > 1 and windows[0].name == BEFORE), len(windows))
    if not state_only and not any(windows[k].events for k in asked_for):
        yield claim("no_event", Weight.STEADY, windows=len(asked_for) if len(asked_for) != 1 else None)
        return
    if growth is not None and growth.judged >= MINIMUM and not grows:
        yield from filter(None, (growth_claim(growth, _unit(log)), _what_grows(growth, _unit(log))))
        if higher := higher_after(*_series(log), highest):
            yield claim("higher_after", Weight.STEADY, peak_bytes=higher)
    if not log.series and len(windows) == 1 and not state_only:
        yield from _left(log, windows[0])
        if (growth is None or growth.judged < MINIMUM) and windows[0].whole and not log.ooms:
            yield _not_judged(log)


def _highest(log: LogAnalysis, level: str) -> WindowAnalysis | None:
    """The window with the highest level; of very many few have results, and all have figures."""
    if len(figures := log.figures.get(level, ())) == len(log.windows):
        return log.windows[int(np.argmax(figures))]
    peaks = ((window.results.get("peak"), window) for window in log.windows)
    known = [(getattr(peak, level) or 0, window) for peak, window in peaks if peak is not None]
    return max(known, key=lambda one: one[0])[1] if known else None


def _state_only(log: LogAnalysis) -> bool:
    """Whether it is a snapshot without a trace, of which one moment is known."""
    return any(note.code == "no_trace" for note in log.trust.notes)


def _stopped_inside(log: LogAnalysis) -> dict[str, str]:
    """The step or the window that a log stops inside, by the values of the claim."""
    return stopped_inside(*_series(log), _unit(log))


def _series(log: LogAnalysis) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """The steps of a log, or else its windows, and the figures of all."""
    steps = log.steps if not log.series and log.steps is not None and log.steps.repeated else None
    return (log.windows, log.figures) if steps is None else (steps.windows, steps.figures)


def _live_at_end(log: LogAnalysis) -> int | None:
    """What is live at the end of the last window."""
    remaining = log.windows[-1].results.get("remaining") if log.windows else None
    return None if remaining is None else remaining.live_bytes


def _later(log: LogAnalysis, window: WindowAnalysis, stopped: Mapping[str, Any]) -> Iterator[Claim]:
    """That the peak may come later: the log ends near it, or inside the step that it is in."""
    peak, events, live = window.results["peak"], log.trust.events, _live_at_end(log)
    if window.end_line < log.trust.lines or peak.event is None or live is None:
        return
    inside = stopped.get("window") == window.name
    if inside or (20 * live >= 19 * peak.peak_bytes and (events - 1 - peak.event) * 100 <= events):
        entries = not log.trust.has_lines or None
        yield claim("peak_may_come_later", Weight.PEAK, inside=inside, entries=entries, unit=stopped.get("unit"))


def _uncounted(log: LogAnalysis) -> bool:
    """Whether it is not known in how many blocks that was which was live before the input."""
    return any(note.code == "uncounted_blocks" for note in log.trust.notes)


def _not_judged(log: LogAnalysis) -> Claim:
    """Why nothing is said of growth."""
    parts = log.steps is not None and not log.steps.repeated
    few = None if log.steps is None or parts or log.growth is None else log.growth.judged
    by = None if few is not None or log.uncut else log.can_be_cut
    # Where lines come late, or are of several runs, there may be step lines, and they mark no steps.
    mixed = [one.code for one in log.trust.doubts if one.code in ("late_output", "several_processes")]
    mixed = mixed[:1] if log.steps is None and not log.uncut else []
    why: dict[str, Any] = {
        "entries": None if log.trust.has_lines else True,
        "whole": log.uncut or None,
        "mixed": mixed or None,
    }
    return claim("growth_not_judged", Weight.LEFT, steps=few, parts=parts, by=by, **why)


def _growing(log: LogAnalysis) -> Iterator[Claim]:
    growth, codes = log.growth, log.trust.doubt_codes
    assert growth is not None
    above, unit = _above(log, growth), _unit(log)
    grows = growth.verdict == "growing" or growth.grown is not None
    if grows:
        yield from filter(None, (growth_claim(growth, unit), _what_grows(growth, unit)))
        if growth.most is None and not UNPAIRED_DOUBTS & codes:
            yield claim("no_size_piles_up", Weight.GROWTH)
    elif "no_tensor_events" not in codes:
        rose = growth.rose is not None
        calm: dict[str, Any] = {"lowest_bytes": None} if rose or growth.verdict != "swinging" else {}
        yield claim("live_not_growing", Weight.GROWTH, growth, windows=growth.judged, unit=unit, rose=rose, **calm)
    else:
        above, grows = above[-1:], True
    for level in above:
        yield claim("level_growing", Weight.GROWTH, tone="bad", **level, unit=unit, live_growing=grows)


def growth_claim(growth: Growth, unit: str) -> Claim:
    """How what is live after each window develops; ``unit`` is what one of them is, a step or a window."""
    series: dict[str, Any] = {"windows": growth.judged, "unit": unit}
    every, rises = growth.every or 1, growth.rises_bytes or {}
    if growth.verdict == "growing":
        some = growth.growing_windows if growth.growing_windows < growth.judged else None
        rate = growth.gained_bytes_per_window
        each = {"every": every if every > 1 else None, "gained_each_bytes": round(rate * every), "last_windows": some}
        return claim("growing", Weight.GROWTH, growth, tone="bad", gained_bytes_per_window=rate, **series, **each)
    if (grown := growth.grown) is not None:
        rate = round(grown.gained_bytes_per_window)
        return claim("hidden_growth", Weight.GROWTH, grown, tone="bad", gained_bytes_per_window=rate, **series)
    if growth.rose == "late":
        return claim("rose_late", Weight.STEADY, growth, **series)
    if growth.rose is not None:
        # Memory that fills up from the first window on, within a quarter of them, warms up.
        one_by_one = growth.rising_windows == 1 or len(rises) > 1
        warm_up = growth.rose_windows + 1 >= growth.judged and 4 * growth.rising_windows <= growth.judged
        return claim(
            *("rose", Weight.STEADY, growth),
            **series,
            from_bytes=growth.rose_from_bytes,
            to_bytes=(growth.rose_from_bytes or 0) + growth.rose_bytes,
            rose_bytes=growth.rose_bytes,
            rises_bytes=rises if one_by_one else None,
            times=len(rises),
            warm_up=warm_up,
            stays=growth.rose == "stayed",
        )
    if growth.verdict == "swinging" and growth.period is None:
        # It does not grow where the level is as low again in the later half.
        returns = 5 * growth.gained_bytes <= growth.swing_bytes
        kind, swings = "not_growing" if returns else "uneven", growth.swing_bytes
        return claim(kind, Weight.STEADY, growth, swing_bytes=swings, **series)
    kind = "shrinking" if growth.verdict == "shrinking" else "not_growing" if growth.period is None else "sawtooth"
    flat: dict[str, Any] = {"lowest_bytes": None} if kind == "not_growing" else {}
    return claim(kind, Weight.STEADY, growth, **series, **flat)


def _what_grows(growth: Growth, unit: str) -> Claim | None:
    """Which blocks pile up, or of whom more and more is live; blocks of a sawtooth, the last tooth of which is cut off, may be more than what is gained."""
    if (most := growth.most) is None or isinstance(most, Grown):
        return None if most is None else claim("grown_by", Weight.GROWTH, most, held_in_part=most.held_in_part or None)
    alike, *others = growth.piles_alike
    pile, total, gained = alike[0], bytes_of(alike), growth.gained_bytes
    return claim(
        *("piling_up", Weight.GROWTH, growth),
        since=growth.since,
        total_bytes=total,
        blocks=sum(one.count for one in alike),
        block_bytes=pile.size_bytes,
        ties=sum(bytes_of(those) == total for those in others) or None,
        phase=None if pile.phase == START else pile.phase,
        before_phases=pile.phase == START,
        unit=unit,
        beyond=total > gained,
        most=2 * total > gained,
        owner=pile.owner and innermost(pile.owner),
        holder=(holder := variable_of(pile.holder)),
        held_in_part=holder and any(one.held_in_part or one.holder != pile.holder for one in alike),
    )


def _above(log: LogAnalysis, growth: Growth) -> list[dict[str, Any]]:
    """The levels (peaks, reserved) that grow by more than twice what stays live after each window."""
    rows = [
        ("peak", growth.peak_since, growth.peak_from_bytes, growth.peak_gained_bytes),
        ("reserved", growth.reserved_since, growth.reserved_from_bytes, growth.reserved_gained_bytes),
    ]
    if RESERVED_DOUBTS & log.trust.doubt_codes:
        rows.pop()
    live = growth.gained_bytes if growth.verdict == "growing" else growth.rose_bytes
    return [
        {"level": level, "since": since, "from_bytes": start, "to_bytes": start + gained}
        for level, since, start, gained in rows
        if since is not None and start is not None and gained is not None and gained > 2 * live
    ]


def _grows(log: LogAnalysis) -> bool:
    """Whether what is live after each window grows, or their peaks do, or what is reserved."""
    if (growth := log.growth) is None or growth.judged < MINIMUM:
        return False
    return growth.verdict == "growing" or bool(_above(log, growth))


def _unit(log: LogAnalysis) -> str:
    """What a window of a series is: a step, where steps were found."""
    return "window" if log.steps is None else log.steps.unit


def _peak(log: LogAnalysis, window: WindowAnalysis) -> Iterator[Claim]:
    """How high a window comes, what the device had to hold for it, where, and of what."""
    peak, codes = window.results["peak"], log.trust.doubt_codes
    known, chunks_known = "no_tensor_events" not in codes, not RESERVED_DOUBTS & codes
    there = peak.reserved_at_peak_bytes if known else peak.reserved_peak_bytes
    line = peak.line if known else peak.reserved_peak_line
    at_start = peak.at_start if known else line is None
    yield claim(
        *("peak", Weight.PEAK, log),
        peak_bytes=peak.peak_bytes if known else None,
        reserved_bytes=there if (peak.reserved_peak_bytes and chunks_known) or not known else None,
        line=None if at_start else line,
        entries=not log.trust.has_lines or None,
        window=None if window.whole else window.name,
        unit=_unit(log),
        rise_bytes=(peak.rise_bytes or None) if not window.whole and peak.carried_in_bytes else None,
        snapshot=_state_only(log),
        since_recording=log.trust.peak_may_be_earlier,
        earlier_unknown="unknown_frees" in codes,
        at_start=at_start,
    )
    if not UNPAIRED_DOUBTS & codes and peak.live and peak.peak_bytes > 0:
        largest = largest_of(peak.live, peak.peak_bytes) | ({"before_input": False} if _state_only(log) else {})
        if largest.get("before_input") and _uncounted(log):
            largest |= {"blocks": None, "no_stack": None}
        grows = None if log.growth is None else _what_grows(log.growth, _unit(log))
        if grows is not None and largest.get("holder") == grows.values.get("holder"):
            largest |= {"holder": None, "held_in_part": None}  # it is said of what piles up
        # Where FREEs have no ALLOC in the log, blocks may add up to more than the level.
        if largest["total_bytes"] <= peak.peak_bytes:
            yield claim("largest_at_peak", Weight.PEAK, **largest, peak_bytes=peak.peak_bytes)
        if "several_processes" not in codes:  # which have several models
            yield from _by_role(window, peak.peak_bytes)
            if not (log.ooms or _grows(log)):  # which are what a user would act on
                yield from _twice(window, peak.peak_bytes)
            yield from _activations(window, peak.peak_bytes, grows=_grows(log))
    if known and chunks_known and there is not None:
        yield from _most_reserved(log, peak.peak_bytes, there)


def _by_role(window: WindowAnalysis, whole: int) -> Iterator[Claim]:
    """What the peak consists of, where the roles of most of it are known: the largest three of at least a tenth."""
    found = window.results.get("composition")
    shares = [] if found is None else [share for share in found.roles if share.at == "peak" and share.role is not None]
    if whole <= 2 * sum(share.total_bytes for share in shares) <= 2 * whole:
        roles = {share.role: share.total_bytes for share in shares[:3] if 10 * share.total_bytes >= whole}
        yield claim("by_role", Weight.PEAK, roles=roles, peak_bytes=whole, told_by=shares[0].told_by)


def _twice(window: WindowAnalysis, whole: int) -> Iterator[Claim]:
    """What exists twice at the peak, and would save most, where that is a twentieth of it or more."""
    found = window.results.get("composition")
    if found is not None and found.twins and 20 * found.twins[0].saved_bytes >= whole:
        most = found.twins[0]
        values = {"what": most.kind, "total_bytes": most.total_bytes, "peak_without_bytes": most.peak_bytes}
        who = {"holder": None if most.of is None else (most.holder or "").partition(" ")[2], "of": most.of}
        yield claim("exists_twice", Weight.REMEDY, **values, **who, peak_bytes=whole, at_most=most.at_most or None)


def _activations(window: WindowAnalysis, whole: int, *, grows: bool) -> Iterator[Claim]:
    """Where most of the peak is saved for backward, the line of the most of that, and what recomputing all layers would leave, a tenth less or lower.

    Where memory grows, graphs may be kept from step to step: a step looks like a layer.
    """
    most, found = largest_share(window.results.get("composition")), window.results.get("activations")
    if found is None or most is None or most.role != "saved" or 10 * most.total_bytes < whole or not found.lines:
        return
    values, (first, *others) = dict[str, Any](), found.lines[:2]
    if first.owner is not None and all(other.total_bytes < first.total_bytes for other in others):
        values = {"saved_bytes": most.total_bytes, "total_bytes": first.total_bytes, "owner": first.owner}
    if found.recomputed and not grows and 10 * (peak := found.recomputed[-1].peak_bytes) <= 9 * whole:
        values |= {"layers": found.recomputed[-1].count, "recomputed_peak_bytes": peak}
    if values:
        yield claim("activations", Weight.REMEDY, **values, peak_bytes=whole)


def _most_reserved(log: LogAnalysis, peak_bytes: int, at_peak: int) -> Iterator[Claim]:
    """The highest reserved level of all windows: where most of it lies idle whatever is allocated, or a twentieth more is reserved than at the peak."""
    window = _highest(log, "reserved_peak_bytes")
    assert window is not None
    peak, growth = window.results["peak"], log.growth
    most = peak.reserved_peak_bytes
    where: dict[str, Any] = {"line": peak.reserved_peak_line, "entries": not log.trust.has_lines or None}
    idle = most - peak_bytes
    # Of a run that was recorded in part it is not known what was ever in use.
    whole = not (log.trust.peak_may_be_earlier or "unknown_frees" in log.trust.doubt_codes or _state_only(log))
    if whole and 2 * idle >= most and idle >= _MUCH_IDLE:
        kept, higher = (0, 0) if growth is None else (growth.gained_bytes, growth.peak_gained_bytes)
        # A leak goes on, and what lies idle does not: it comes first only where hardly any more is kept.
        weight = Weight.WASTE if idle > max(kept, higher) and 10 * kept < peak_bytes else Weight.IDLE
        yield claim("reserved_idle", weight, reserved_peak_bytes=most, peak_bytes=peak_bytes, **where, **log.saving)
    elif 20 * most >= 21 * max(at_peak, 1):
        where |= {"window": None if window.whole else window.name, "unit": _unit(log)}
        yield claim("reserved_peak", Weight.PEAK, reserved_peak_bytes=most, **where)


def _left(log: LogAnalysis, window: WindowAnalysis) -> Iterator[Claim]:
    """What a single window leaves behind."""
    remaining, unmatched = window.results.get("remaining"), window.results.get("unmatched")
    if remaining is None or unmatched is None or UNPAIRED_DOUBTS & log.trust.doubt_codes or remaining.live_bytes < 0:
        return
    held = unmatched.held_allocs
    opening = (unmatched.opening_blocks, unmatched.opening_bytes) if window.starts_input else (0, 0)
    if not window.whole:
        if held:
            yield claim("held_in_window", Weight.LEFT, unmatched, blocks=held)
        else:
            yield claim("nothing_held_in_window", Weight.LEFT)
    elif blocks := held + opening[0]:
        counted = None if opening[0] and _uncounted(log) else blocks
        yield claim("live_at_end", Weight.LEFT, live_bytes=unmatched.held_bytes + opening[1], blocks=counted)
    else:
        growth = log.growth
        ends = [] if growth is None else [part.at_exit for part in (*growth.piling, growth.grown) if part is not None]
        grows = bool(ends) and all(ends)
        at_exit = log.freed_last if growth is None and log.trust.has_lines else None
        yield claim("nothing_live_at_end", Weight.LEFT, grows=grows, exit_bytes=at_exit)
