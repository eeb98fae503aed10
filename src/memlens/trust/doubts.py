"""Doubts about a log: findings after which some figure is wrong or cannot be known.

Each says what was seen, how often, where first, what it does to the figures, and what to do.  ``docs/trust.md`` has them all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from memlens.facts import Kind
from memlens.text import format_bytes, plural
from memlens.trust.case import RECORD_FROM_THE_START, Case, Remark, Rule, of_lines, seen
from memlens.windows import glog


def _several_processes(case: Case) -> Iterator[Remark]:
    if groups := case.writers.groups:
        shown = "; ".join(", ".join(map(str, group[:4])) + (", …" if len(group) > 4 else "") for group in groups[:8])
        surely = (
            f"{len(groups)} processes wrote this file (threads {shown}{'; …' if len(groups) > 8 else ''})."
            if case.writers.certain
            else f"several processes seem to have written this file: {len(groups)} threads, and a printed peak that falls."
        )
        yield Remark(
            f"{surely} Levels and peaks are sums over all of them, which no single device ever held. Lines may be torn where two"
            " processes wrote at once.",
            "Let each process write its own file (paddle.distributed.launch --log_dir does that), or keep the lines of one process by"
            " its thread ids.",
        )


def _cut_short(case: Case) -> Iterator[Remark]:
    if reason := case.log.facts.cut_short:
        again = case.either("wait until the run has closed it", "write it again")
        yield Remark(
            f"the input ends early: {reason}. What follows is missing, so blocks may look unfreed, and the peak may have come later.",
            f"Copy the file again, or {again}; --strict makes this an error.",
            case.log.facts.lines or None,
        )


_LIKE_AN_EVENT = f"{glog.LEVEL}{glog.DAY}(?:{glog.YEAR})? ?[0-9:.]*|Alloc|Free|Not found and".encode()


def _half_line(case: Case) -> Iterator[Remark]:
    facts, log = case.log.facts, case.log
    if not facts.ends_mid_line:
        return
    # A complete last event without a line end shows in its pair: only a FREE can have one here.
    last = len(log) - 1
    text = log.source.lines([facts.bytes - 1])[0] or b""
    on_last_line = last >= 0 and int(log.offset[last]) >= facts.bytes - len(text) - 1
    paired = on_last_line and log.kind[last] == Kind.FREE and log.lifetimes.partner[last] >= 0
    if not paired and re.search(_LIKE_AN_EVENT, text):
        yield Remark(
            f"the last line (line {facts.lines:,}) is incomplete: the process was killed while writing it, or is still writing. One"
            " event may be missing, or its address cut.",
            "If the run is still going on, read the log again later.",
            facts.lines,
        )


def _malformed(case: Case) -> Iterator[Remark]:
    facts = case.log.facts
    if facts.malformed:
        line = facts.malformed_samples[0].line if facts.malformed_samples else None
        looks = plural(facts.malformed, *case.either(("line looks", "lines look"), ("entry looks", "entries look")))
        torn = case.either(": torn by another process that wrote at the same time, or damaged", "")
        then = case.either(
            "; let each process write its stderr to its own file",
            ": the file is damaged, or comes from a version that memlens does not know",
        )
        yield Remark(
            f"{looks} like an event but cannot be parsed{case.first(line)}{torn}. Each may hide an ALLOC or a FREE.",
            f"Look at the samples{then}.",
            line,
        )


def _uneven_segments(case: Case) -> Iterator[Remark]:
    if uneven := case.log.facts.uneven_segments:
        first = uneven[0]
        says, has = first.stated_bytes, first.blocks_bytes
        by = f"{abs(says - has):,} bytes"
        sums = f"its {first.what} says {says:,} bytes, and its blocks add up to {has:,}, {by} {'less' if has < says else 'more'}"
        what = {
            "overlap": f"its blocks overlap by {by}",
            "total_size": f"its total_size is {says:,} bytes, and its blocks reach {by} beyond that",
        }.get(first.what, sums)
        yield Remark(
            f"{plural(len(uneven), 'segment has', 'segments have')} blocks that do not add up to it. The one at 0x{first.address:x}:"
            f" {what}. What is held at the end may be off by as much, and so may every level counted back from it.",
            "torch computes these figures itself: the file was edited or damaged, or blocks are missing. Write the snapshot again.",
        )


def _unknown_frees(case: Case) -> Iterator[Remark]:
    if (count := case.counts["unknown_frees"]) and case.log.facts.addresses:
        line, log = case.first_line["unknown_frees"], case.either("the log", "it")
        late = case.either("logging started late or was off for a while", "recording started late")
        switch = "Turn allocator logging on in the environment, not in the script, so that it is on before the first tensor is created."
        yield Remark(
            f"{plural(count, 'FREE has', 'FREEs have')} no earlier ALLOC in {log}{case.first(line)}: {late}. Levels and peaks"
            f" are too low by at least {format_bytes(case.counts['unknown_free_bytes'])}. Differences within {log} are correct.",
            case.either(switch, RECORD_FROM_THE_START),
            line,
        )


def _double_allocs(case: Case) -> Iterator[Remark]:
    if count := case.counts["double_allocs"]:
        line, left = case.first_line["double_allocs"], format_bytes(case.counts["double_alloc_bytes"])
        were = plural(count, "ALLOC returns an address that was", "ALLOCs return addresses that were")
        why = case.either("FREE lines are missing, or several processes wrote the file", "FREEs are missing")
        check = "Check that nothing filters or rotates the log, and that each process writes its own file."
        yield Remark(
            f"{were} still live{case.first(line)}: {why}. Levels are too high by up to {left}, and that many blocks look unfreed.",
            case.either(check, RECORD_FROM_THE_START),
            line,
        )


def _size_mismatches(case: Case) -> Iterator[Remark]:
    if count := case.counts["size_mismatches"]:
        line = case.first_line["size_mismatches"]
        have = plural(count, "FREE differs in size from its", "FREEs differ in size from their")
        why = case.either("was lost, or a line is damaged", "is missing")
        look = "Compare the first such line with the ALLOC of the same address before it."
        yield Remark(
            f"{have} ALLOC{case.first(line)}: the FREE or the ALLOC between them {why}. Sums are off by these differences.",
            case.either(look, RECORD_FROM_THE_START),
            line,
        )


def _disagreement(case: Case, *, late: bool) -> Iterator[Remark]:
    """Say what disagrees, with what follows from it; nothing where several processes explain it."""
    agreement, first = case.agreement, case.agreement.first
    if first is None or (case.writers.groups and not case.of_entries):
        return
    # Several processes print different figures right after each other, too.
    if late != (agreement.late and case.writers.certain and not case.of_entries):
        return
    low, high = first.low_bytes, first.high_bytes
    theirs = f"{low:,} bytes" if low == high else f"between {low:,} and {high:,} bytes"
    which, where = case.either(("the framework's own figures", "in line"), ("its own figures", "at entry"))
    message = (
        f"{agreement.disagreeing:,} of {agreement.checked:,} of {which} disagree with the events."
        f" The first{'' if first.line is None else f', {where} {first.line:,},'} says {first.metric.replace('_', ' ')} {theirs};"
        f" the events before it add up to {first.ours_bytes:,}."
    )
    if late:
        yield Remark(
            f"{message} Figures change with no event between them: the script's output was buffered, so its lines appear too late."
            " So do all anchors printed the same way. Sums over the whole log are correct; windows cut at these anchors are not.",
            "Run python -u, or print(..., flush=True), or set PYTHONUNBUFFERED=1.",
            first.line,
        )
        return
    perhaps = (
        "Events may be missing (logging turned on late, a filtered log), or the script's output may be buffered (use python -u)."
        " Or the framework's peak was reset, several devices or pinned memory share the log, or frees wait for a stream."
    )
    dropped = "Events are missing: entries were dropped, or recording was off for a while."
    yield Remark(message, case.either(perhaps, dropped), first.line)


def _no_tensor_events(case: Case) -> Iterator[Remark]:
    if len(case.log) and not case.counts["allocs"] and not case.counts["frees"]:
        yield Remark(
            f"there are {plural(len(case.log), 'chunk event')} but no ALLOC and no FREE: reserved bytes can"
            " be analyzed, allocated bytes cannot.",
            "Set GLOG_vmodule='auto_g*=10' in the environment, and do not set GLOG_v, to log every ALLOC and FREE.",
        )


#: How to get addresses, of the layers whose lines have none.
_WITHOUT_ADDRESSES = {
    "stats": "Log the allocator itself: GLOG_vmodule='auto_g*=10' on a GPU, XPU or custom device.",
    "host_stats": "The CPU has no allocator that logs its blocks: run on a GPU, XPU or custom device for lifetimes.",
}


def _no_lifetimes(case: Case) -> Iterator[Remark]:
    facts = case.log.facts
    if not facts.addresses and (case.counts["allocs"] or case.counts["frees"]):
        yield Remark(
            f"lines of the {facts.layer.replace('_', ' ')} layer give sizes but no addresses. Levels and peaks are correct, but no ALLOC"
            " can be paired with its FREE. So what is held, released or temporary is not known, nor what is live at the peak.",
            _WITHOUT_ADDRESSES.get(facts.layer, "Give the format's regex a group addr, if its lines have addresses."),
        )


def _rounded_sizes(case: Case) -> Iterator[Remark]:
    if any(layer.startswith("cuda_malloc") for layer in (case.log.facts.layer, case.log.facts.chunk_layer)):
        yield Remark(
            "lines of cudaMalloc calls print sizes in MB with six digits: they are rounded, and so are sums.",
            "GLOG_vmodule='auto_g*=10,stats=8' logs exact bytes.",
        )


_KEEP_CHUNK_LINES = (
    "Log from the start of the process, and keep 'Not found and reallocate' lines when you filter a log."
)


def _no_chunk_lines(case: Case) -> Iterator[Remark]:
    layer, chunks_known = case.log.facts.layer, case.counts["reserves"] or "prealloc" in case.log.facts.hints
    if case.counts["allocs"] and not chunks_known and case.log.facts.has_chunks:
        yield Remark(
            "no line reports a chunk taken from the device: reserved bytes are not known.",
            _KEEP_CHUNK_LINES
            if layer == "auto_growth"
            else "The auto-growth allocator logs its chunks (FLAGS_allocator_strategy=auto_growth, GLOG_vmodule='auto_g*=10'). Memory"
            " statistics report them too (GLOG_vmodule='stats=8').",
        )


def _reserved_too_low(case: Case) -> Iterator[Remark]:
    if (most := case.above_reserved_bytes) and "prealloc" not in case.log.facts.hints:
        line = case.first_line["reserved_too_low"]
        yield Remark(
            f"blocks hold up to {format_bytes(most)} more than the chunks they lie in{case.first(line)}: lines of chunks are"
            " missing, so reserved bytes are at least that much too low.",
            _KEEP_CHUNK_LINES,
            line,
        )


#: Every doubt there is, by code, the worst first.
DOUBTS: dict[str, Rule] = {
    "several_processes": of_lines(_several_processes),
    "cut_short": _cut_short,
    "malformed": _malformed,
    "nul_bytes": seen(
        "binary",
        "the file holds NUL bytes{first}: text was lost there (the log was truncated while being written, or the disk was full), or"
        " it is not a log.",
        "Copy the log again from the machine that wrote it.",
    ),
    "uneven_segments": _uneven_segments,
    "unknown_frees": _unknown_frees,
    "double_allocs": _double_allocs,
    "size_mismatches": _size_mismatches,
    "late_output": partial(_disagreement, late=True),
    "figures_disagree": partial(_disagreement, late=False),
    "no_tensor_events": of_lines(_no_tensor_events),
    "no_lifetimes": of_lines(_no_lifetimes),
    "rounded_sizes": of_lines(_rounded_sizes),
    "prealloc": seen(
        "prealloc",
        "memory pools were allocated in advance{first}, without a line for each chunk. Reserved bytes are too low by the size of"
        " these pools; allocated bytes are not affected.",
        "For exact reserved bytes, run without FLAGS_small_pool_pre_alloc_in_mb and FLAGS_large_pool_pre_alloc_in_mb.",
    ),
    "no_chunk_lines": of_lines(_no_chunk_lines),
    "reserved_too_low": of_lines(_reserved_too_low),
    "half_line": of_lines(_half_line),
}
