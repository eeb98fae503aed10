"""What follows from replays under other settings: what the run needs, what would need less, what none can beat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from memlens.claims.claim import Claim, Weight, claim
from memlens.text import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memlens.replaying.result import RefusedRequest, ReplayedLog, SettingTrial, WhatIf


def claims_of(whatif: WhatIf) -> Iterator[Claim]:
    """The claims on all devices: those on the one that ran out of memory, or else on the first."""
    first = min(whatif.logs, key=lambda log: (not log.refused, not log.proof.holds))
    if others := [log for log in whatif.logs if log is not first]:
        if device := first.path[first.path.rfind("[") :].strip("[]"):
            yield claim("device", Weight.OPENING, device=device)
        better, processes = sum(log.best is not None for log in others), device.startswith("process")
        yield claim("others_need_less", Weight.LIMITS, better=better, others=len(others), processes=processes)
    yield from first.claims


def claims_of_log(log: ReplayedLog) -> Iterator[Claim]:
    """The claims on one device."""
    entries = not log.has_lines or None
    if not log.proof.holds:
        yield claim("replay_differs", Weight.PEAK, log.proof, tone="bad", entries=entries)
        return
    assert log.own is not None
    yield from _needed(log, log.own, entries) if log.limit_bytes is None else _within(log, log.own, entries)
    if log.cut_short:
        yield claim("log_cut_short", Weight.LIMITS)


def _needs(trial: SettingTrial) -> dict[str, Any]:
    """The bytes that a run needs; those that it reserves where it was not tried with how much it completes."""
    needs = {"needs_bytes": trial.needs.low_bytes, "needs_most_bytes": trial.needs.high_bytes}
    return {"setting": trial.line, **needs, "reserves": trial.completes is None}


def chunks_beyond(trial: SettingTrial, own: SettingTrial) -> dict[str, Any]:
    """The chunks taken, where a setting takes more than the run as it was set: each is a call that takes its time."""
    return {"chunks": trial.taken, "chunks_as_set": own.taken} if trial.taken > own.taken else {}


def _needed(log: ReplayedLog, own: SettingTrial, entries: bool | None) -> Iterator[Claim]:
    """The claims on a run without a limit: as it was set, and with the best setting."""
    best = log.best
    if best is None:
        yield claim("needs_as_set", Weight.PEAK, **_needs(own), others=len(log.trials) - 1 or None)
    else:
        yield claim(
            "setting_needs_less",
            Weight.PEAK,
            tone="good",
            saved_bytes=own.needs.low_bytes - best.needs.high_bytes,
            certain=all(one.needs.low_bytes == one.needs.high_bytes for one in (own, best)),
            as_set_bytes=own.needs.low_bytes,
            as_set_most_bytes=own.needs.high_bytes,
            entries=entries,
            **_needs(best),
            **chunks_beyond(best, own),
        )
        if (fewer := log.without_more_chunks(best)) is not None:
            yield claim("fewer_chunks", Weight.REMEDY, chunks=fewer.taken, **_needs(fewer))
    if log.live_peak_bytes is not None:
        yield claim("no_setting_needs_less", Weight.BOUND, log)


def _within(log: ReplayedLog, own: SettingTrial, entries: bool | None) -> Iterator[Claim]:
    """Whether the run completes within the limit as it was set, and what would let it complete."""
    limit, live, remedies = log.limit_bytes or 0, log.live_peak_bytes or 0, log.remedies
    shown = [own.needs, *(one.needs for one in remedies[:1])]
    sizes = [live, *(one.low_bytes for one in shown), *(one.high_bytes for one in shown)]
    # Where another figure would read like the limit and is not the same, both are written to the byte.
    exact = any(one != limit and format_bytes(one) == format_bytes(limit) for one in sizes)
    common: dict[str, Any] = {"limit_bytes": limit, "exact": exact, "entries": entries}
    # What would have come behind the failure that a run ended in is not known.
    told = log.refused and log.limit_from != "given"
    if own.within_limit == "completes":
        told = False
        yield claim("completes_as_set", Weight.PEAK, log, tone="good", **common, **_enough(own, limit))
    elif told:
        yield claim("ran_out", Weight.PEAK, line=log.refused_line, entries=entries)
    elif own.within_limit == "depends":
        yield claim("depends_as_set", Weight.PEAK, own, log, **common)
    else:
        least = own.needs.low_bytes
        close = _needs(own) if limit < least and format_bytes(least) == format_bytes(limit) else {}
        yield claim("fails_as_set", Weight.PEAK, log, **common, **close, **_refused(own.refused))
    if own.within_limit != "completes":
        if remedies:
            yield from _remedies(log, own, {**common, "told": told})
        elif log.beyond_bytes:
            free = log.device_free_bytes is not None
            over = log.beyond_bytes if free or (log.limit_most_bytes or limit) == limit else None
            values = {"live_peak_bytes": live, "over_bytes": over, "with_free": free, **common}
            yield claim("no_setting_helps", Weight.REMEDY, log, tone="bad", **values)
            return
        else:
            yield _none_helps(log, {**common, "told": told})
    if log.live_peak_bytes is not None:
        yield claim("no_setting_needs_less", Weight.BOUND, log, **common)


def _enough(trial: SettingTrial, limit: int) -> dict[str, Any]:
    """The bytes that a setting needs that completes within a limit, which may lie below the upper end of that: more need not be enough."""
    return {**_needs(trial), "within": trial.needs.high_bytes <= limit}


def _refused(refused: RefusedRequest | None) -> dict[str, Any]:
    """Where a request is refused, and what is free then."""
    return {} if refused is None else {**structs.asdict(refused), "free_bytes": refused.free_bytes or None}


def _remedies(log: ReplayedLog, own: SettingTrial, common: dict[str, Any]) -> Iterator[Claim]:
    """The settings with which the run completes."""
    best, *others = log.remedies
    values = {**common, **_enough(best, log.limit_bytes or 0), **chunks_beyond(best, own)}
    yield claim("setting_helps", Weight.REMEDY, log, tone="good", **values)
    if others:
        fewer = log.without_more_chunks(best)
        less: dict[str, Any] = {} if fewer is None else {"chunks": fewer.taken, "setting": fewer.line}
        yield claim("others_help", Weight.REMEDY, others=len(others), **less)


def _none_helps(log: ReplayedLog, common: dict[str, Any]) -> Claim:
    """That no setting surely lets the run complete, and which one may."""
    some = next((one for one in log.trials if one.within_limit == "depends" and not one.own), None)
    values = (
        {**common, "setting": some.line, "completing": some.completing, "replays": some.replays} if some else common
    )
    # What is reserved is not all that there was.
    most = log.limit_most_bytes if (log.limit_most_bytes or 0) > (log.limit_bytes or 0) else None
    others = len(log.trials) - 1 or None
    return claim(
        "no_setting_surely_helps",
        Weight.REMEDY,
        log,
        tone="bad",
        **{**values, "limit_most_bytes": most, "others": others},
    )
