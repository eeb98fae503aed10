"""What to say of an input that consists of entries and not of lines: memory snapshots and traces.

The codes of doubts are those of :mod:`memlens.trust.doubts`; only what is said differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from memlens.facts import DEFAULT_POOL, Kind
from memlens.trust.case import Case, Doubt, Note, counted, first_in
from memlens.units import format_bytes

__all__ = ["DOUBTS", "NOTES"]

_FROM_THE_START = "Begin to record before the first tensor is made, and keep all entries: give no max_entries, and no schedule that skips."


def _first(number: int | None) -> str:
    return first_in(number, "entry")


def _cut_short(case: Case) -> Iterator[Doubt]:
    if reason := case.log.facts.cut_short:
        yield Doubt(
            "cut_short",
            f"the input ends early: {reason}. What could be read was read; all that came later is missing, so blocks may"
            " look unfreed and the peak may have come later.",
            "Copy the file again, or write it again; --strict makes this an error.",
            case.log.facts.lines or None,
        )


def _malformed(case: Case) -> Iterator[Doubt]:
    facts = case.log.facts
    if not facts.malformed:
        return
    number = facts.malformed_samples[0].line if facts.malformed_samples else None
    yield Doubt(
        "malformed",
        f"{counted(facts.malformed, 'entry looks', 'entries look')} like an event but cannot be read{_first(number)}. Each may"
        " hide an ALLOC or a FREE.",
        "Look at the samples: the file is damaged, or of a version that memlens does not know.",
        number,
    )


def _uneven_segments(case: Case) -> Iterator[Doubt]:
    uneven = case.log.facts.uneven_segments
    if not uneven:
        return
    first = uneven[0]
    says, has = first.stated_bytes, first.blocks_bytes
    by = f"{abs(says - has):,} bytes"
    what = {
        "overlap": f"its blocks lie over each other by {by}",
        "total_size": f"it has a total_size of {says:,} bytes, and its blocks reach {by} beyond it",
    }.get(
        first.what,
        f"its {first.what} says {says:,} bytes, and its blocks add up to {has:,}, {by} {'less' if has < says else 'more'}",
    )
    yield Doubt(
        "uneven_segments",
        f"{counted(len(uneven), 'segment has', 'segments have')} blocks that do not add up. The one at 0x{first.address:x}: {what}. What is"
        " held at the end, and every level counted back from it, may be off by as much.",
        "torch adds these figures up itself: the file was edited or damaged, or blocks are missing. Write the snapshot again.",
    )


def _unknown_frees(case: Case) -> Iterator[Doubt]:
    pairs, number = case.pairs, case.at(case.pairs.first[0])
    if pairs.unknown_frees:
        yield Doubt(
            "unknown_frees",
            f"{counted(pairs.unknown_frees, 'FREE has', 'FREEs have')} no earlier ALLOC in it{_first(number)}: recording began late."
            f" Levels and peaks are too low by at least {format_bytes(pairs.unknown_free_bytes)}; differences within it are"
            " right.",
            _FROM_THE_START,
            number,
        )


def _double_allocs(case: Case) -> Iterator[Doubt]:
    count, number = len(case.log.lifetimes.double_allocs), case.at(case.pairs.first[1])
    if count:
        yield Doubt(
            "double_allocs",
            f"{counted(count, 'ALLOC is of an address that was', 'ALLOCs are of addresses that were')} still live{_first(number)}:"
            f" FREEs are missing. Levels are too high by up to {format_bytes(case.pairs.double_alloc_bytes)}, and as many blocks look"
            " unfreed.",
            _FROM_THE_START,
            number,
        )


def _size_mismatches(case: Case) -> Iterator[Doubt]:
    count, number = case.pairs.size_mismatches, case.at(case.pairs.first[2])
    if count:
        yield Doubt(
            "size_mismatches",
            f"{counted(count, 'FREE has another size than its', 'FREEs have other sizes than their')} ALLOC{_first(number)}: the FREE or"
            " the ALLOC between them is missing. Sums are off by the differences.",
            _FROM_THE_START,
            number,
        )


def _figures_disagree(case: Case) -> Iterator[Doubt]:
    agreement, first = case.agreement, case.agreement.first
    if first is None:
        return
    where = "" if first.line is None else f", at entry {first.line:,},"
    yield Doubt(
        "figures_disagree",
        f"{agreement.disagreeing:,} of {counted(agreement.checked, 'figure')} that it holds about itself are not ours. The first"
        f"{where} says {first.metric.replace('_', ' ')} {first.low_bytes:,} bytes; the events before it add up to {first.ours_bytes:,}.",
        "Events are missing: entries were dropped, or recording was off for a while.",
        first.line,
    )


def _hinted(code: str, message: str, hint: str = "") -> Callable[[Case], Iterator[Note]]:
    """A note on something that the reader saw, by the name under which it told of it; ``{first}`` is where it saw it first."""

    def rule(case: Case) -> Iterator[Note]:
        facts = case.log.facts
        if case.log.marks is not None and code in facts.hints:
            number = facts.hints[code]
            yield Note(code, message.replace("{first}", _first(number)), hint, number)

    return rule


def _starts_late(case: Case) -> Iterator[Note]:
    log = case.log
    opening, entries = log.facts.opening, log.facts.lines
    before, reserved = log.level_before(opening)
    if log.marks is None or (before <= 0 and reserved <= 0) or "no_trace" in log.facts.hints:
        return
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
    yield Note(
        "starts_late",
        f"{format_bytes(before)} were live{taken} before the first entry: {kept}. {peak}",
        _FROM_THE_START,
        1,
    )


def _private_pools(case: Case) -> Iterator[Note]:
    log = case.log
    if log.pool is None:
        return
    private = np.isin(log.pool, [number for number, name in enumerate(log.pool_names) if name != DEFAULT_POOL])
    reserved = log.level_before(len(log))[1]
    taken = int(
        log.size[private & (log.kind == Kind.RESERVE)].sum() - log.size[private & (log.kind == Kind.RELEASE)].sum()
    )
    count = len(log.pool_names) - (DEFAULT_POOL in log.pool_names)
    yield Note(
        "private_pools",
        f"{format_bytes(taken)} of the {format_bytes(reserved)} reserved at the end are of"
        f" {counted(count, 'private pool')} (CUDA graphs, torch.cuda.MemPool): what is free there serves nobody else.",
    )


#: The notes that such an input may raise, by code.
NOTES: dict[str, Callable[[Case], Iterator[Note]]] = {
    "no_trace": _hinted(
        "no_trace",
        "there is no history of this device, only what was held when the snapshot was written: every block stands in it as one that"
        " was there before. The true peak was before that, and is not known.",
        "Call torch.cuda.memory._record_memory_history() before the first tensor is made.",
    ),
    "starts_late": _starts_late,
    "private_pools": _private_pools,
    "deferred_frees": _hinted(
        "deferred_frees",
        "some blocks wait for a stream after they are given back{first}: they count as allocated until they can be used again, as"
        " torch counts them.",
    ),
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
}

#: The doubts that such an input may raise, by code, the worst first.
DOUBTS: dict[str, Callable[[Case], Iterator[Doubt]]] = {
    "cut_short": _cut_short,
    "malformed": _malformed,
    "uneven_segments": _uneven_segments,
    "unknown_frees": _unknown_frees,
    "double_allocs": _double_allocs,
    "size_mismatches": _size_mismatches,
    "figures_disagree": _figures_disagree,
}
