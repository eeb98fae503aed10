"""The setting with which a run would have got past the failure that it ended in, for the report of that failure."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from memlens.allocators.engine import compiled
from memlens.claims.claim import Claim, Weight
from memlens.errors import MemlensError
from memlens.inputs import Reading
from memlens.options import ReadAs
from memlens.options.verbs import TryOut
from memlens.replaying.claims import chunks_beyond
from memlens.replaying.run import Replayable, replayable, replayed
from memlens.results import Result

if TYPE_CHECKING:
    from memlens.events import EventLog
    from memlens.replaying.result import ReplayedLog


#: Layers of logs whose requests stand on lines that are read only where a replay asks for them.
_WITH_REQUESTS = frozenset({"auto_growth", "stream_safe"})
#: A larger file is not read a second time, and a longer history not replayed, for one line of a report.
_MOST_BYTES, _MOST_EVENTS = 256 << 20, 500_000
#: The same for the setting that leaves less idle, of a run that did not fail.
_FEW_BYTES, _FEW_EVENTS = 16 << 20, 20_000
_NOT_TRIED = "memlens whatif tries other settings of the allocator on it"


class FailureRemedy(Result, frozen=True):
    """The effect of other settings of the allocator on a run that ran out of memory.

    Attributes:
        message: What there is to say, in words.
        line: The very line to set with which the run surely gets past its failure; ``""`` where there is none, or none was tried.
        tried: Settings that were tried; 0 where none was.
        limit_bytes: The memory that they were given: what the device had when it refused, as far as the log says.
        live_peak_bytes: The most bytes live at once with what was asked for.
        over_bytes: What of that is beyond the limit: then no setting helps; 0 where it is not.
    """

    message: str
    line: str = ""
    tried: int = 0
    limit_bytes: int | None = None
    live_peak_bytes: int | None = None
    over_bytes: int = 0


def remedy_of(log: EventLog, how: ReadAs) -> FailureRemedy | None:
    """Return the effect of other settings on the run of a log that ran out of memory.

    A log of text is read once more, with its lines of requests.

    Args:
        log: The log.
        how: How it was read.

    Returns:
        ``None`` where the run, or any run for want of a compiler, cannot be replayed, or does not come out as recorded.
    """
    try:
        compiled()
        return _tried(log, how)
    except MemlensError:  # it has changed meanwhile, or what it says of itself cannot be: whatif tells more
        return None


def _tried(log: EventLog, how: ReadAs) -> FailureRemedy | None:
    if _too_large(log, _MOST_EVENTS, _MOST_BYTES):
        return FailureRemedy(_NOT_TRIED)
    found = _replayed(log, how, failed=True)
    return None if found is None or found.limit_bytes is None else _in_words(found)


def saving_of(log: EventLog, how: ReadAs) -> dict[str, Any]:
    """The best setting for a run that did not fail, as values of a claim; nothing where none is better, or where it is not known in a moment."""
    try:
        compiled()
        found = None if _too_large(log, _FEW_EVENTS, _FEW_BYTES) else _replayed(log, how, failed=False)
    except MemlensError:
        return {}
    if found is None or found.best is None or found.own is None:
        return {}
    best = found.best
    needs = {"needs_bytes": best.needs.low_bytes, "needs_most_bytes": best.needs.high_bytes}
    return {"setting": best.line, **needs, **chunks_beyond(best, found.own)}


def _too_large(log: EventLog, most_events: int, most_bytes: int) -> bool:
    name = log.source.name
    return len(log) > most_events or (os.path.isfile(name) and os.path.getsize(name) > most_bytes)


def _replayed(log: EventLog, how: ReadAs, *, failed: bool) -> ReplayedLog | None:
    """The run under other settings; ``None`` where it cannot be replayed, or does not come out as recorded."""
    name = log.source.name
    if log.facts.layer in _WITH_REQUESTS and log.facts.requests is None:
        if not log.source.rereadable or not os.path.isfile(name):
            return None
        again = ReadAs(**{**how.of(ReadAs), "progress": None})
        logs = Reading(how=again, threads=True, requests=True).read_all(name)
        log = next((one for one in logs if one.device == log.device), log)
    known = replayable(log)
    if not isinstance(known, Replayable) or bool(len(known.history.failed)) != failed:
        return None
    found = replayed(log, name, known, TryOut(), scanned=False)
    return found if found.proof.holds else None


def _in_words(found: ReplayedLog) -> FailureRemedy | None:
    own, limit, live = found.own, found.limit_bytes or 0, found.live_peak_bytes or 0
    assert own is not None
    if own.within_limit == "completes":  # the device had not the same at all times
        return None
    others, most = len(found.trials) - 1, found.limit_most_bytes or limit
    values: dict[str, Any] = {
        "others": others,
        "limit_bytes": limit,
        "live_peak_bytes": live,
        "entries": not found.has_lines or None,
    }
    best = found.remedies[0] if found.remedies else None
    if best is not None:
        values |= {"setting": best.line, **chunks_beyond(best, own)}
    elif found.beyond_bytes:
        known = most == limit or found.device_free_bytes is not None
        values |= {"over_bytes": found.beyond_bytes, "limit_most_bytes": most} if known else {}
    elif most > limit:
        values["limit_most_bytes"] = most
    kind = "remedy" if best is not None else "no_remedy" if found.beyond_bytes else "no_sure_remedy"
    text = Claim(kind, Weight.REMEDY, values).text
    return FailureRemedy(text, "" if best is None else best.line, others, limit, live, found.beyond_bytes)
