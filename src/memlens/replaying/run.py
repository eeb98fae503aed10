"""``memlens.whatif``: read a log, prove that the run can be replayed, and replay it under other settings.

What a program would have asked for, had a request not failed, is not in its log.  Where the run ended in a failure, the history ends with that
request: the question is whether the run would have got past it.  A failure that it caught is left out, for it went
on without that block.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, structs
from msgspec.structs import replace

from memlens.allocators import registry
from memlens.allocators.engine import compiled, proven
from memlens.allocators.history import ChunkChange, NotReplayable, Operation
from memlens.errors import InputError, UsageError
from memlens.inputs import Reading, input_name, named_devices
from memlens.options import as_list
from memlens.options.keywords import with_keywords
from memlens.options.verbs import TryOut
from memlens.replaying.choosing import chosen_settings, named_values, own_settings
from memlens.replaying.claims import claims_of, claims_of_log
from memlens.replaying.result import ReplayedLog, ReplayProof, WhatIf
from memlens.replaying.trials import Trials
from memlens.results import Failure, claimed
from memlens.trust.failures import STILL_GOING, failures_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from memlens.allocators.engine import Proof
    from memlens.allocators.history import RequestHistory
    from memlens.allocators.models import AllocatorModel, AllocatorRules
    from memlens.events import EventLog
    from memlens.log import Input


def whatif_with(log: Input, options: TryOut) -> WhatIf:
    """Replay a run under other settings of its allocator.

    Args:
        log: A path, a URL, a binary file, or a log already read.
        options: See :class:`memlens.options.verbs.TryOut`.

    Raises:
        UsageError: A setting that the allocator does not have.
        InputError: The run of the only device cannot be replayed; one of several becomes a :class:`memlens.errors.Failure` instead.
        MemlensError: The log cannot be read, or there is no compiled module to replay it.
    """
    if options.memory is not None and not (isinstance(options.memory, int) and options.memory > 0):
        raise UsageError(f"no limit: {options.memory!r}", "Give bytes, a whole number above 0 (--memory 7.5GiB).")
    if options.all_settings and options.settings:
        raise UsageError("all settings and some exclude each other", "Leave out --all, or --set.")
    compiled()
    logs = Reading(how=options, threads=True, requests=True).read_all(log)
    found, failures = [], []
    for one, name, device in _of_each_process(named_devices(input_name(log), logs)):
        known = replayable(one)
        if isinstance(known, Replayable):
            run = replayed(one, name, known, options, scanned=True)
            found.append(claimed(run, claims_of_log))
            continue
        message = f"{name}: cannot be replayed: {known.reason}"
        if not device:
            raise InputError(message, known.hint)
        failures.append(Failure(name, message, known.hint))
    if not found:
        raise InputError(failures[0].message, failures[0].hint)
    return claimed(WhatIf(tuple(found), tuple(failures)), claims_of)


def _of_each_process(logs: Sequence[tuple[EventLog, str, str]]) -> Iterator[tuple[EventLog, str, str]]:
    """Some logs with their names and devices, those that several processes wrote in parts."""
    for log, name, device in logs:
        runs = [run for model in registry.models() for run in model.runs(log)]
        yield from [(run, f"{name} [{what}]", what) for run, what in runs] or [(log, name, device)]


whatif = with_keywords("whatif", whatif_with, TryOut)


class Replayable(Struct, frozen=True):
    """A run that can be replayed: the model of its allocator, and what it asked for."""

    model: AllocatorModel
    history: RequestHistory


def replayable(log: EventLog) -> Replayable | NotReplayable:
    """The run of a log and the model of its allocator, or why there is none."""
    for model in registry.models():
        history = model.history(log)
        if isinstance(history, NotReplayable):
            return history
        if history is not None:
            return Replayable(model, history)
    return NotReplayable(
        f"no allocator that memlens can replay writes {log.facts.layer}",
        "It replays Paddle's auto-growth allocator (GLOG_vmodule='auto_g*=10') and PyTorch's caching allocator (a memory snapshot with its history).",
    )


def replayed(log: EventLog, name: str, known: Replayable, options: TryOut, *, scanned: bool) -> ReplayedLog:
    """The run of one device under other settings.

    Args:
        log: Its log.
        name: What it is called.
        known: What it asked for.
        options: What to try.
        scanned: Look for the limits with which each setting completes.

    Raises:
        UsageError: A setting that the allocator does not have.
        InputError: Its settings, as it tells them, cannot be or leave out what is needed.
    """
    model, history = known.model, known.history
    named = named_values(model, as_list(options.settings), tried=True)
    with _of_log(name, options):
        recorded = model.recorded(history)
    own = own_settings(model, recorded, as_list(options.own))
    with _of_log(name, options):
        proof = proven(model, history, own)
    by_default = model.defaults
    last = ending_failure(history)
    head = ReplayedLog(
        name,
        log.facts.layer,
        model.name,
        {setting: value for setting, value in own.items() if value != by_default.get(setting)},
        _proof(log, proof),
        refused=last is not None,
        cut_short=bool(log.facts.cut_short),
        refused_line=None if last is None else _line_at(log, int(history.line[last])),
        opening_reserved_bytes=int(history.opening_chunks.size.sum()),
        has_lines=log.facts.has_lines,
    )
    if not head.proof.holds:
        return head
    limit, limit_from, most, free = options.memory, "given", options.memory, None
    if limit is None and history.limit_is_share:
        limit, limit_from, most = history.limit_bytes, "allowed", history.limit_bytes
    elif limit is None and last is not None:
        limit, limit_from = limit_of(history, last), "log"
        said = next((oom.free_bytes for oom in failures_of(log) if oom.line == head.refused_line), None)
        free = max((history.limit_bytes or 0) - limit, 0) or said or None
        most = most_of(history, model.rules(history, own), last, said)
    changes, left_out = chosen_settings(model, history, own, named, every=options.all_settings)
    served = with_refused_served(history)
    trials, live = Trials(served, model, own, limit, lambda at: _line_at(log, int(served.line[at])), options.tried).run(
        changes, scanned=scanned, skip_refused=options.all_settings
    )
    return structs.replace(
        head,
        limit_bytes=limit,
        limit_from="" if limit is None else limit_from,
        limit_most_bytes=most,
        device_free_bytes=free,
        live_peak_bytes=live,
        trials=trials,
        left_out=left_out,
    )


@contextmanager
def _of_log(name: str, options: TryOut) -> Iterator[None]:
    """Raise what is refused meanwhile as an error of a log, unless its user has said how it was set."""
    try:
        yield
    except UsageError as error:
        kind = UsageError if as_list(options.own) else InputError
        raise kind(f"{name}: cannot be replayed: {error.message}", error.hint) from None


def _proof(log: EventLog, found: Proof) -> ReplayProof:
    chunks, given_back, addresses, mismatch = found.chunks, found.given_back, found.addresses, found.mismatch
    return ReplayProof(
        found.exact,
        chunks.of,
        chunks.matched,
        given_back.of,
        given_back.matched,
        addresses.of,
        addresses.matched,
        None if mismatch is None else _line_at(log, mismatch.line),
        "" if mismatch is None else f"{mismatch.expected} in the log, {mismatch.got} in the replay",
    )


def _line_at(log: EventLog, offset: int) -> int | None:
    """The 1-based line at a byte offset; ``None`` for -1."""
    return log.source.line_numbers([offset])[0] if offset >= 0 else None


def ending_failure(history: RequestHistory) -> int | None:
    """The request on whose failure the run ended, by what counts as that in the report on failures; the first one of several tries, ``None`` where there is none."""
    requests = np.flatnonzero(history.operation == Operation.REQUEST)
    answered = requests[~np.isin(requests, history.failed)]
    for failed in history.failed.tolist():
        after = len(answered) - int(np.searchsorted(answered, failed))
        if after * STILL_GOING <= len(requests):
            return int(failed)
    return None


def with_refused_served(history: RequestHistory) -> RequestHistory:
    """The history to replay under other settings: no request in it has failed.

    The one that the run ended in stands at its end, to be served.  Those that it caught are left out: it went on without them, and what it would have
    done with their blocks is not known.
    """
    if not len(history.failed):
        return history
    last = ending_failure(history)
    stop = len(history) if last is None else last + 1
    kept = ~np.isin(np.arange(stop), history.failed[history.failed != last])
    at = np.cumsum(kept) - 1
    names = ("operation", "of", "size", "stream", "pool", "event", "line", "address", "block_bytes")
    columns = {name: getattr(history, name)[:stop][kept] for name in names}
    columns["of"] = np.where(columns["of"] >= 0, at[columns["of"]], -1)
    changes = history.changes.take(history.changes.at < stop)
    changes = changes._replace(at=np.where(changes.at >= 0, at[changes.at], -1))
    return replace(history, failed=np.zeros(0, np.int64), changes=changes, **columns)


def limit_of(history: RequestHistory, failed: int) -> int:
    """Bytes that the run surely could have when it was refused a request: the most that it had reserved until then.

    What the device says was free is not added: the run was not given it.
    """
    return int(_levels(history, failed).max())


def most_of(history: RequestHistory, rules: AllocatorRules, failed: int, free: int | None) -> int:
    """The most that it may have been: with what the device said was free, or else less than the refused chunk would have made it."""
    levels, least = _levels(history, failed), limit_of(history, failed)
    if (history.limit_bytes or 0) > least:
        return history.limit_bytes or 0
    if free is not None:
        return max(int(levels[-1]) + free, least)
    page = int(rules.groups.page[rules.group[failed]])
    growth = -(-int(rules.block[failed]) // page) * page if page else int(rules.growth[failed])
    return max(int(levels[-1]) + growth - 1, least)


def _levels(history: RequestHistory, operation: int) -> NDArray[np.int64]:
    """Bytes reserved at the beginning, and after each change of chunks until an operation, int64."""
    changes, opening = history.changes, int(history.opening_chunks.size.sum())
    sign = np.where((changes.kind == ChunkChange.TAKEN) | (changes.kind == ChunkChange.MAPPED), 1, -1)
    return np.append(0, np.cumsum((sign * changes.size)[changes.at <= operation])) + opening
