"""What to know of a log that makes none of its figures wrong.  ``docs/trust.md`` has all of these notes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from memlens.facts import DEFAULT_POOL, Kind
from memlens.trust.case import RECORD_FROM_THE_START, WITHOUT_CHUNKS, Case, Finding, Note, counted, first_in
from memlens.units import format_bytes

__all__ = ["NOTES", "notes_of"]


def notes_of(case: Case) -> tuple[Note, ...]:
    """Everything to know of a log that makes no figure wrong."""
    return tuple(Note(code, *found) for code, rule in NOTES.items() if (found := rule(case)) is not None)


def _out_of_memory(case: Case) -> Finding | None:
    ooms = case.log.facts.ooms
    if not ooms:
        return None
    # The message that says most: the first with a size, else the first behind a request without its block, else the first.
    first = max(ooms, key=lambda oom: (oom.requested_bytes is not None, oom.asked_bytes is not None))
    asked = "" if first.asked_bytes is None else f", asking for {format_bytes(first.asked_bytes)}"
    free = "" if first.free_bytes is None else f", with {format_bytes(first.free_bytes)} free on the device"
    failures = counted(case.distinct_ooms, "out-of-memory failure")
    return Finding(f"the run met {failures}{case.first(ooms[0].line)}{asked}{free}.", line=ooms[0].line)


def _traceback(case: Case) -> Finding | None:
    line = case.log.facts.hints.get("traceback")
    return None if line is None else Finding(f"there is a Python traceback{first_in(line)}.", line=line)


def _missed_peaks(case: Case) -> Finding | None:
    missed = case.agreement.missed_peaks
    if not missed or case.writers.groups:
        return None
    return Finding(
        f"{counted(missed, 'peak')} that the framework printed are lower than ours, by up to"
        f" {format_bytes(case.agreement.missed_bytes)}: with several threads Paddle's counter looks at the total only when"
        " one thread's own net value reaches a new maximum, so it misses peaks. The peak here is the true one.",
    )


def _not_kept(case: Case) -> Finding | None:
    names = ", ".join(name.replace("_", " ") for name in case.agreement.not_kept)
    message = f"the framework prints 0 for {names} all the time: this build does not keep that figure, so it was not compared."
    return Finding(message) if names else None


def _overtaken(case: Case) -> Finding | None:
    if not (count := case.agreement.overtaken):
        return None
    were = counted(count, "statistics line was", "statistics lines were")
    return Finding(
        f"{were} overtaken by events of other threads on the way into the log; the totals meet again right after."
    )


def _no_headers(case: Case) -> Finding | None:
    if not (count := case.log.facts.unstamped):
        return None
    which = "no event has" if count >= len(case.log) else f"{counted(count, 'event')} without"
    return Finding(
        f"{which} a log header: time and thread are unknown there. Pairs and sums need neither.",
        "GLOG_log_prefix=1 writes headers.",
    )


def _several_devices(case: Case) -> Finding | None:
    facts = case.log.facts
    devices = {figure.device for figure in facts.figures}
    if facts.stat_lines is not None:
        devices |= set(facts.stat_lines.device.tolist())
    known = sorted(device for device in devices if device >= 0)
    if len(known) < 2:
        return None
    return Finding(
        f"the log tells of {len(known)} devices ({', '.join(map(str, known[:16]))}), and events do not say"
        " theirs: all figures are sums over the devices, and were not compared with the framework's.",
    )


def _no_pointers(case: Case) -> Finding | None:
    if (line := case.log.facts.hints.get("no_pointers")) is None:
        return None
    return Finding(
        f"lines of chunks have no address{first_in(line)}: Paddle up to 2.2 logs chunks only, so there is a curve of reserved"
        " bytes and nothing about tensors.",
        line=line,
    )


def _no_reserved(case: Case) -> Finding | None:
    if not case.log.facts.layer.startswith(WITHOUT_CHUNKS) or case.kinds[Kind.RESERVE] or not case.kinds[Kind.ALLOC]:
        return None
    return Finding("such an input tells of blocks only: reserved bytes are not known, and shown as 0.")


def _starts_late(case: Case) -> Finding | None:
    log = case.log
    opening, entries = log.facts.opening, log.facts.lines
    before, reserved = log.level_before(opening)
    if log.marks is None or (before <= 0 and reserved <= 0) or "no_trace" in log.facts.hints:
        return None
    highest = max((int(batch.allocated.max()) for batch in log.batches(opening)), default=0)
    # Whoever gives a max_entries gives a round number.
    full = entries >= 1000 and (entries % 1000 == 0 or entries & (entries - 1) == 0)
    kept = (
        f"only the last {entries:,} entries were kept, it seems (max_entries)"
        if log.facts.layer == "torch_snapshot" and full
        else "recording began late, or what came before was dropped (max_entries)"
        if log.facts.layer == "torch_snapshot"
        else "recording began late"
    )
    taken = f", and {format_bytes(reserved)} reserved," if reserved else ""
    peak = (
        "Peaks hold from the first entry on; the true peak may have been earlier."
        if highest > before
        else "Nothing after it is higher: the true peak was before the first entry and is not known."
    )
    return Finding(
        f"{format_bytes(before)} were live{taken} before the first entry: {kept}. {peak}",
        RECORD_FROM_THE_START,
        1,
    )


def _private_pools(case: Case) -> Finding | None:
    log = case.log
    if log.pool is None:
        return None
    private = np.isin(log.pool, [number for number, name in enumerate(log.pool_names) if name != DEFAULT_POOL])
    reserved = log.level_before(len(log))[1]
    taken = int(
        log.size[private & (log.kind == Kind.RESERVE)].sum() - log.size[private & (log.kind == Kind.RELEASE)].sum()
    )
    count = len(log.pool_names) - (DEFAULT_POOL in log.pool_names)
    return Finding(
        f"{format_bytes(taken)} of the {format_bytes(reserved)} reserved at the end are of"
        f" {counted(count, 'private pool')} (CUDA graphs, torch.cuda.MemPool): what is free there serves nobody else.",
    )


def _hinted(code: str, message: str, hint: str = "") -> Callable[[Case], Finding | None]:
    """A note on something that the reader of an input of entries saw; ``{first}`` is where it saw it first."""

    def rule(case: Case) -> Finding | None:
        line = case.log.facts.hints.get(code) if case.of_entries else None
        return None if line is None else Finding(message.replace("{first}", case.first(line)), hint, line)

    return rule


def _other_layers(case: Case) -> Finding | None:
    layers = case.log.facts.other_layers
    if not layers or not len(case.log):
        return None
    listed = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in sorted(layers.items()))
    verbose = layers.get("stats") or layers.get("stream_safe")
    facts = case.log.facts
    layer, chunks = facts.layer.replace("_", " "), facts.chunk_layer.replace("_", " ")
    of = (
        f"blocks are those of the {layer} layer and chunks those of the {chunks} layer"
        if chunks not in ("", layer)
        else ""
    )
    return Finding(
        f"lines of other layers tell of the same memory and were passed over ({listed});"
        f" {of or f'events are those of the {layer} layer alone'}."
        + (" With GLOG_v of 6 or more Paddle itself keeps more memory from step to step." if verbose else ""),
        f"GLOG_vmodule='auto_g*=10' logs {'this' if layer == 'auto growth' else 'the auto-growth'} layer alone and does not change what"
        " it measures."
        if verbose
        else "",
    )


def _sizes_from_allocs(case: Case) -> Finding | None:
    layer = case.log.facts.layer
    if case.log.facts.sized_frees or not case.kinds[Kind.FREE]:
        return None
    return Finding(
        f"free lines of the {layer.replace('_', ' ')} layer have no size: each FREE counts that of its ALLOC, and nothing where"
        " its ALLOC is not in the log."
        + (" Sizes are what tensors asked for, before any alignment." if "naive" in layer else ""),
    )


def _deferred_frees(case: Case) -> Finding | None:
    if (line := case.log.facts.hints.get("deferred_frees")) is None:
        return None
    if case.of_entries:
        return Finding(
            f"some blocks wait for a stream after they are given back{case.first(line)}: they count as allocated until they can be used"
            " again, as torch counts them.",
            line=line,
        )
    return Finding(
        f"frees were put off until a stream has done its work{first_in(line)}: the memory is held longer than its FREE here tells,"
        " as the framework's own figure of allocated bytes has it too.",
        "GLOG_vmodule='auto_g*=10' logs when the memory is really given back.",
        line,
    )


def _host_memory(case: Case) -> Finding | None:
    of_host = case.log.facts.layer.startswith("host_")
    return Finding("nothing tells of memory of a device: all figures are of the host's memory.") if of_host else None


#: Every note there is, by code.
NOTES: dict[str, Callable[[Case], Finding | None]] = {
    "out_of_memory": _out_of_memory,
    "traceback": _traceback,
    "missed_peaks": _missed_peaks,
    "not_kept": _not_kept,
    "overtaken": _overtaken,
    "several_devices": _several_devices,
    "no_headers": _no_headers,
    "no_pointers": _no_pointers,
    "no_reserved": _no_reserved,
    "no_trace": _hinted(
        "no_trace",
        "there is no history of this device, only what was held when the snapshot was written: every block stands in it as one that"
        " was there before. The true peak was before that, and is not known.",
        "Call torch.cuda.memory._record_memory_history() before the first tensor is made.",
    ),
    "starts_late": _starts_late,
    "private_pools": _private_pools,
    "deferred_frees": _deferred_frees,
    "unknown_actions": _hinted(
        "unknown_actions", "there are entries with actions that memlens does not know{first}; they were passed over."
    ),
    "annotations_not_placed": _hinted(
        "annotations_not_placed",
        "there are annotations that cannot be placed among the events, for one or the other has no time, or they cannot be read:"
        " anchors do not find them.",
    ),
    "no_addresses": _hinted(
        "no_addresses",
        "events have no addresses, as up to 2021: a FREE ends the newest live ALLOC of its size. Sums, and what is left by size, are"
        " exact; which of several blocks of one size is meant is not known.",
    ),
    "other_layers": _other_layers,
    "sizes_from_allocs": _sizes_from_allocs,
    "host_memory": _host_memory,
}
