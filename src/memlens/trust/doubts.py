"""What makes a log doubtful: findings after which some figure is wrong or cannot be known.

Each says what was seen, how often, where first, what it does to the figures, and what to do.  ``docs/trust.md`` has them all.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from memlens import glog
from memlens.facts import Kind
from memlens.trust.case import RECORD_FROM_THE_START, WITHOUT_CHUNKS, Case, Doubt, Finding, counted, first_in
from memlens.units import format_bytes

__all__ = ["DOUBTS", "doubts_of"]


def doubts_of(case: Case) -> tuple[Doubt, ...]:
    """Everything to doubt of a log, the worst first."""
    rules = {code: rule for code, rule in DOUBTS.items() if code in _ENTRY_DOUBTS or not case.of_entries}
    return tuple(Doubt(code, *found) for code, rule in rules.items() if (found := rule(case)) is not None)


def _several_processes(case: Case) -> Finding | None:
    groups = case.writers.groups
    if not groups:
        return None
    shown = "; ".join(", ".join(map(str, group[:4])) + (", …" if len(group) > 4 else "") for group in groups[:8])
    surely = (
        f"{len(groups)} processes wrote this file (threads {shown}{'; …' if len(groups) > 8 else ''})"
        if case.writers.certain
        else f"several processes seem to have written this file: {len(groups)} threads, and a peak that falls"
    )
    return Finding(
        f"{surely}: levels and peaks here are sums over all of them, which no"
        " single device ever held, and lines may be torn where two wrote at once.",
        "Let every process write a file of its own (paddle.distributed.launch --log_dir does), or keep the lines of one"
        " process by its thread ids.",
    )


def _cut_short(case: Case) -> Finding | None:
    if not (reason := case.log.facts.cut_short):
        return None
    again = "write it again" if case.of_entries else "wait until the run has closed it"
    return Finding(
        f"the input ends early: {reason}. What could be read was read; all that came later is missing, so blocks may"
        " look unfreed and the peak may have come later.",
        f"Copy the file again, or {again}; --strict makes this an error.",
        case.log.facts.lines or None,
    )


_LIKE_AN_EVENT = re.compile(f"{glog.LEVEL}{glog.DAY}(?:{glog.YEAR})? ?[0-9:.]*|Alloc|Free|Not found and".encode())


def _half_line(case: Case) -> Finding | None:
    facts, log = case.log.facts, case.log
    if not facts.ends_mid_line:
        return None
    # A complete last event without a line end shows in its pair: only a FREE can have one here.
    last = len(log) - 1
    text = log.source.lines([facts.bytes - 1])[0] or b""
    on_last_line = last >= 0 and int(log.offset[last]) >= facts.bytes - len(text) - 1
    paired = on_last_line and log.kind[last] == Kind.FREE and log.lifetimes.partner[last] >= 0
    if paired or not _LIKE_AN_EVENT.search(text):
        return None
    return Finding(
        f"the last line (line {facts.lines:,}) has no end: the process was killed while it wrote, or is still writing. One"
        " event may be missing, or its address cut.",
        "If the run still goes on, read the log again later.",
        facts.lines,
    )


def _malformed(case: Case) -> Finding | None:
    facts = case.log.facts
    if not facts.malformed:
        return None
    line = facts.malformed_samples[0].line if facts.malformed_samples else None
    looks, torn, damage = (
        (("entry looks", "entries look"), "", "the file is damaged, or of a version that memlens does not know")
        if case.of_entries
        else (("line looks", "lines look"), ": torn by another process writing at the same time, or damaged", "")
    )
    return Finding(
        f"{counted(facts.malformed, *looks)} like an event but cannot be read{case.first(line)}{torn}. Each may hide an ALLOC or a"
        " FREE.",
        f"Look at the samples{f': {damage}' if damage else '; write stderr of each process to a file of its own'}.",
        line,
    )


def _nul_bytes(case: Case) -> Finding | None:
    if (line := case.log.facts.hints.get("binary")) is None:
        return None
    return Finding(
        f"there are NUL bytes in the file{first_in(line)}: text was lost there (a log that was truncated while it was"
        " written, a full disk), or this is no log.",
        "Copy the log again from where it was written.",
        line,
    )


def _uneven_segments(case: Case) -> Finding | None:
    uneven = case.log.facts.uneven_segments
    if not uneven:
        return None
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
    return Finding(
        f"{counted(len(uneven), 'segment has', 'segments have')} blocks that do not add up. The one at 0x{first.address:x}: {what}. What is"
        " held at the end, and every level counted back from it, may be off by as much.",
        "torch adds these figures up itself: the file was edited or damaged, or blocks are missing. Write the snapshot again.",
    )


def _unknown_frees(case: Case) -> Finding | None:
    pairs, line = case.pairs, case.at(case.pairs.first[0])
    if not pairs.unknown_frees or not case.log.facts.addresses:
        return None
    where, late, inside, hint = (
        ("it", "recording began late", "it", RECORD_FROM_THE_START)
        if case.of_entries
        else (
            "the log",
            "logging began late or was switched off for a while",
            "the log",
            "Switch allocator logging on before the first tensor is made: in the environment, not in the script.",
        )
    )
    return Finding(
        f"{counted(pairs.unknown_frees, 'FREE has', 'FREEs have')} no earlier ALLOC in {where}{case.first(line)}: {late}. Levels and peaks"
        f" are too low by at least {format_bytes(pairs.unknown_free_bytes)}; differences within {inside} are right.",
        hint,
        line,
    )


def _double_allocs(case: Case) -> Finding | None:
    count, line = len(case.log.lifetimes.double_allocs), case.at(case.pairs.first[1])
    if not count:
        return None
    why, hint = (
        ("FREEs are missing", RECORD_FROM_THE_START)
        if case.of_entries
        else (
            "FREE lines were lost, or several processes wrote the file",
            "Check that nothing filters or rotates the log, and that each process has a file of its own.",
        )
    )
    return Finding(
        f"{counted(count, 'ALLOC is of an address that was', 'ALLOCs are of addresses that were')} still live{case.first(line)}: {why}."
        f" Levels are too high by up to {format_bytes(case.pairs.double_alloc_bytes)}, and as many blocks look unfreed.",
        hint,
        line,
    )


def _size_mismatches(case: Case) -> Finding | None:
    count, line = case.pairs.size_mismatches, case.at(case.pairs.first[2])
    if not count:
        return None
    why, hint = (
        ("is missing", RECORD_FROM_THE_START)
        if case.of_entries
        else (
            "was lost, or a line is damaged",
            "Look at the first such line with the ALLOC of the same address before it.",
        )
    )
    return Finding(
        f"{counted(count, 'FREE has another size than its', 'FREEs have other sizes than their')} ALLOC{case.first(line)}: the FREE or the"
        f" ALLOC between them {why}. Sums are off by the differences.",
        hint,
        line,
    )


def _disagreement(case: Case) -> tuple[str, int | None] | None:
    """What disagrees, in words, and its line; ``None`` where nothing does or several processes explain it."""
    agreement, first = case.agreement, case.agreement.first
    if first is None or (case.writers.groups and not case.of_entries):
        return None
    theirs = (
        f"{first.low_bytes:,} bytes"
        if first.low_bytes == first.high_bytes
        else f"between {first.low_bytes:,} and {first.high_bytes:,} bytes"
    )
    which, where = ("it holds", "at entry") if case.of_entries else ("the framework printed", "in line")
    message = (
        f"{agreement.disagreeing:,} of {counted(agreement.checked, 'figure')} that {which} about itself are not"
        f" ours. The first{'' if first.line is None else f', {where} {first.line:,},'} says {first.metric.replace('_', ' ')} {theirs};"
        f" the events before it add up to {first.ours_bytes:,}."
    )
    return message, first.line


def _is_late(case: Case) -> bool:
    # Several processes print different figures right after each other, too.
    return case.agreement.late and case.writers.certain and not case.of_entries


def _late_output(case: Case) -> Finding | None:
    if (found := _disagreement(case)) is None or not _is_late(case):
        return None
    return Finding(
        f"{found[0]} Figures change where no event stands between them: the script's output went through a buffer, so its"
        " lines, and all anchors printed the same way, stand later than they belong. Sums of the whole log are right;"
        " windows cut at these anchors are not.",
        "Run python -u, or print(..., flush=True), or set PYTHONUNBUFFERED=1.",
        found[1],
    )


def _figures_disagree(case: Case) -> Finding | None:
    if (found := _disagreement(case)) is None or _is_late(case):
        return None
    return Finding(
        found[0],
        "Events are missing: entries were dropped, or recording was off for a while."
        if case.of_entries
        else "Events may be missing (logging switched on late, a filtered log), the script's output may be buffered (use python -u),"
        " the framework's peak may have been reset, several devices or pinned memory may share the log, or frees may wait for"
        " a stream.",
        found[1],
    )


def _no_tensor_events(case: Case) -> Finding | None:
    if case.kinds[Kind.ALLOC] or case.kinds[Kind.FREE] or not len(case.log):
        return None
    return Finding(
        f"there are {counted(len(case.log), 'chunk event', 'chunk events')} but no ALLOC and no FREE: reserved bytes can"
        " be analyzed, allocated bytes cannot.",
        "Set GLOG_vmodule='auto_g*=10' in the environment, and leave GLOG_v alone, to log every ALLOC and FREE.",
    )


def _no_lifetimes(case: Case) -> Finding | None:
    facts, blocks = case.log.facts, case.kinds[Kind.ALLOC] + case.kinds[Kind.FREE]
    if facts.addresses or not blocks:
        return None
    return Finding(
        f"lines of the {facts.layer.replace('_', ' ')} layer say how many bytes came and went, but not of which block. Levels and"
        " peaks are right; no ALLOC can be paired with its FREE, so every block looks unfreed and every FREE unknown: what is"
        " held, released or temporary, and what is live at the peak, cannot be told.",
        "Give the format's regex a group addr, if its lines have addresses."
        if facts.layer.startswith("format:")
        else "Log the allocator itself: GLOG_vmodule='auto_g*=10' on a GPU, XPU or custom device."
        if facts.layer != "host_stats"
        else "The CPU has no allocator that logs its blocks: run on a GPU, XPU or custom device for lifetimes.",
    )


def _rounded_sizes(case: Case) -> Finding | None:
    facts = case.log.facts
    if not any(layer.startswith("cuda_malloc") for layer in (facts.layer, facts.chunk_layer)):
        return None
    return Finding(
        "lines of cudaMalloc calls print their sizes in MB with six digits: sizes of more than a MB are right to a millionth, and"
        " sums are off by as much.",
        "GLOG_vmodule='auto_g*=10,stats=8' logs exact bytes.",
    )


def _prealloc(case: Case) -> Finding | None:
    if (line := case.log.facts.hints.get("prealloc")) is None:
        return None
    return Finding(
        f"memory pools were taken in advance{first_in(line)}, without a line for each chunk: reserved bytes here are too"
        " low by the size of the pools. Allocated bytes are not touched.",
        "For exact reserved bytes run without FLAGS_small_pool_pre_alloc_in_mb and FLAGS_large_pool_pre_alloc_in_mb.",
        line,
    )


_KEEP_CHUNK_LINES = (
    "Log from the start of the process, and keep 'Not found and reallocate' lines when you filter a log."
)


def _no_chunk_lines(case: Case) -> Finding | None:
    facts, kinds = case.log.facts, case.kinds
    if (
        facts.layer.startswith(WITHOUT_CHUNKS)
        or kinds[Kind.RESERVE]
        or not kinds[Kind.ALLOC]
        or "prealloc" in facts.hints
    ):
        return None
    return Finding(
        "no line tells of a chunk taken from the device: reserved bytes are not known (shown as 0 or too low).",
        _KEEP_CHUNK_LINES
        if facts.layer == "auto_growth"
        else "The auto-growth allocator logs its chunks (FLAGS_allocator_strategy=auto_growth, GLOG_vmodule='auto_g*=10'), and so"
        " do memory statistics (GLOG_vmodule='stats=8').",
    )


def _above_reserved(case: Case) -> Finding | None:
    if case.above_reserved is None or "prealloc" in case.log.facts.hints:
        return None
    event, most = case.above_reserved
    line = case.at(event)
    return Finding(
        f"blocks hold up to {format_bytes(most)} more than the chunks they lie in{first_in(line)}: lines of chunks are"
        " missing, so reserved bytes are too low by at least that.",
        _KEEP_CHUNK_LINES,
        line,
    )


#: Every doubt there is, by code, the worst first.
DOUBTS: dict[str, Callable[[Case], Finding | None]] = {
    "several_processes": _several_processes,
    "cut_short": _cut_short,
    "malformed": _malformed,
    "nul_bytes": _nul_bytes,
    "uneven_segments": _uneven_segments,
    "unknown_frees": _unknown_frees,
    "double_allocs": _double_allocs,
    "size_mismatches": _size_mismatches,
    "late_output": _late_output,
    "figures_disagree": _figures_disagree,
    "no_tensor_events": _no_tensor_events,
    "no_lifetimes": _no_lifetimes,
    "rounded_sizes": _rounded_sizes,
    "prealloc": _prealloc,
    "no_chunk_lines": _no_chunk_lines,
    "reserved_too_low": _above_reserved,
    "half_line": _half_line,
}
#: Those that an input of entries may raise.
_ENTRY_DOUBTS = (
    "cut_short",
    "malformed",
    "uneven_segments",
    "unknown_frees",
    "double_allocs",
    "size_mismatches",
    "figures_disagree",
)
