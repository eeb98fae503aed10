"""Notes on a log that make none of its figures wrong.  ``docs/trust.md`` has all of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from memlens.facts import DEFAULT_POOL, Kind
from memlens.text import format_bytes, plural
from memlens.trust.case import RECORD_FROM_THE_START, Case, Remark, Rule, seen


def _out_of_memory(case: Case) -> Iterator[Remark]:
    if ooms := case.log.facts.ooms:
        # The message that says most: the first with a size, else the first behind a request without its block, else the first.
        first = max(ooms, key=lambda oom: (oom.requested_bytes is not None, oom.asked_bytes is not None))
        asked = "" if first.asked_bytes is None else f", asking for {format_bytes(first.asked_bytes)}"
        free = "" if first.free_bytes is None else f", with {format_bytes(first.free_bytes)} left"
        failures = plural(case.counts["distinct_ooms"], "out-of-memory failure")
        yield Remark(f"the run met {failures}{case.first(ooms[0].line)}{asked}{free}.", line=ooms[0].line)


def _missed_peaks(case: Case) -> Iterator[Remark]:
    if (missed := case.agreement.missed_peaks) and not case.writers.groups:
        yield Remark(
            f"{plural(missed, 'peak')} that the framework printed {'is' if missed == 1 else 'are'} up to {format_bytes(case.agreement.missed_bytes)}"
            " lower than the peak computed here, which is the true one. With several threads, Paddle's counter checks the total only"
            " when one thread reaches a new maximum of its own."
        )


def _not_kept(case: Case) -> Iterator[Remark]:
    if names := ", ".join(name.replace("_", " ") for name in case.agreement.not_kept):
        yield Remark(
            f"the framework always prints 0 for {names}: this build does not count them, so they were not compared."
        )


def _overtaken(case: Case) -> Iterator[Remark]:
    if count := case.agreement.overtaken:
        were = plural(count, "statistics line was", "statistics lines were")
        yield Remark(
            f"{were} written after events of other threads that happened later; the totals agree again right after."
        )


def _no_headers(case: Case) -> Iterator[Remark]:
    if count := case.log.facts.unstamped:
        which = "no event has" if count >= len(case.log) else f"{plural(count, 'event')} without"
        yield Remark(
            f"{which} a log header: time and thread are not known there. Pairs and sums need neither.",
            "GLOG_log_prefix=1 turns headers on.",
        )


def _several_devices(case: Case) -> Iterator[Remark]:
    facts = case.log.facts
    devices = {figure.device for figure in facts.figures}
    if facts.stat_lines is not None:
        devices |= set(facts.stat_lines.device.tolist())
    known = sorted(device for device in devices if device >= 0)
    if len(known) > 1:
        yield Remark(
            f"the log mentions {len(known)} devices ({', '.join(map(str, known[:16]))}), but events do not name theirs. All figures are"
            " sums over the devices, and were not compared with the framework's."
        )


def _no_reserved(case: Case) -> Iterator[Remark]:
    if not case.log.facts.has_chunks and case.counts["allocs"] and not case.counts["reserves"]:
        yield Remark("this input records blocks only: reserved bytes are not known.")


def _starts_late(case: Case) -> Iterator[Remark]:
    log = case.log
    opening, entries = log.facts.opening, log.facts.lines
    before, reserved = log.level_before(opening)
    # Whoever gives a max_entries gives a round number.
    full = entries >= 1000 and (entries % 1000 == 0 or entries & (entries - 1) == 0)
    # Of what was live before only that is known which is freed later.
    at_least = log.facts.keeps_last and not log.facts.has_chunks
    if (
        not case.of_entries
        or (before <= 0 and reserved <= 0 and not (full and at_least))
        or "no_trace" in log.facts.hints
    ):
        return
    highest = max((int(batch.allocated.max()) for batch in log.batches(opening)), default=0)
    kept = (
        "recording started late"
        if not log.facts.keeps_last
        else f"it seems that only the last {entries:,} entries were kept (max_entries)"
        if full
        else "recording started late, or earlier entries were dropped (max_entries)"
    )
    taken = f", and {format_bytes(reserved)} reserved," if reserved else ""
    live = f"{'at least ' * at_least}{format_bytes(before)} were live{taken} before the first entry"
    if before <= 0 and at_least:
        live = "what was live before the first entry is not known"
    peak = (
        "Peaks are those since the first entry; the true peak may have been earlier."
        if highest > before
        else "Nothing after it is higher: the true peak was before the first entry, and is not known."
    )
    yield Remark(f"{live}: {kept}. {peak}", RECORD_FROM_THE_START, 1)


def _private_pools(case: Case) -> Iterator[Remark]:
    log = case.log
    if log.pool is None:
        return
    private = np.isin(log.pool, [number for number, name in enumerate(log.pool_names) if name != DEFAULT_POOL])
    taken, given_back = (int(log.size[private & (log.kind == kind)].sum()) for kind in (Kind.RESERVE, Kind.RELEASE))
    pools = plural(len(log.pool_names) - (DEFAULT_POOL in log.pool_names), "private pool")
    yield Remark(
        f"{format_bytes(taken - given_back)} of the {format_bytes(log.level_before(len(log))[1])} reserved at the end belong to"
        f" {pools} (CUDA graphs, torch.cuda.MemPool). Free memory there cannot be used by others."
    )


def _other_layers(case: Case) -> Iterator[Remark]:
    facts = case.log.facts
    layers = facts.other_layers
    if not layers or not len(case.log):
        return
    listed = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in sorted(layers.items()))
    layer, chunks = facts.layer.replace("_", " "), facts.chunk_layer.replace("_", " ")
    ours = (
        f"Only events of the {layer} layer are used"
        if chunks in ("", layer)
        else f"Blocks are taken from the {layer} layer, chunks from the {chunks} layer"
    )
    passed = f"lines of other layers report the same memory and were skipped ({listed}). {ours}."
    if not (layers.get("stats") or layers.get("stream_safe")):
        yield Remark(passed)
        return
    which = "this" if layer == "auto growth" else "the auto-growth"
    yield Remark(
        f"{passed} With GLOG_v at 6 or above, Paddle itself keeps more memory from step to step.",
        f"GLOG_vmodule='auto_g*=10' logs {which} layer alone, and does not change what it measures.",
    )


def _sizes_from_allocs(case: Case) -> Iterator[Remark]:
    layer = case.log.facts.layer
    if case.counts["frees"] and not case.log.facts.sized_frees:
        asked = " Sizes are those requested, before any alignment." if "naive" in layer else ""
        yield Remark(
            f"free lines of the {layer.replace('_', ' ')} layer have no size: each FREE counts that of its ALLOC, and 0 where the log has"
            f" none.{asked}"
        )


_WAITING = seen(
    "deferred_frees",
    "some freed blocks wait for a stream before they can be reused{first}: they count as allocated until they are freed, as the"
    " framework counts them.",
)
_PUT_OFF = seen(
    "deferred_frees",
    "frees were deferred until a stream had finished its work{first}: the memory is held longer than its FREE line says. The"
    " framework's own figure of allocated bytes has the same error.",
    "GLOG_vmodule='auto_g*=10' logs when the memory is really freed.",
)


def _host_memory(case: Case) -> Iterator[Remark]:
    if case.log.facts.layer.startswith("host_"):
        yield Remark("no device memory is reported: all figures are about host memory.")


#: Every note there is, by code.
NOTES: dict[str, Rule] = {
    "out_of_memory": _out_of_memory,
    "missed_peaks": _missed_peaks,
    "not_kept": _not_kept,
    "overtaken": _overtaken,
    "several_devices": _several_devices,
    "no_headers": _no_headers,
    "no_pointers": seen(
        "no_pointers",
        "lines of chunks have no address{first}: Paddle up to 2.2 logs chunks only, so only reserved bytes are known.",
    ),
    "no_reserved": _no_reserved,
    "no_trace": seen(
        "no_trace",
        "the snapshot has no history of this device, only what was live when it was written. The true peak was earlier, and is not"
        " known.",
        "Call _record_memory_history() before the first tensor is created.",
    ),
    "starts_late": _starts_late,
    "private_pools": _private_pools,
    "deferred_frees": lambda case: case.either(_PUT_OFF, _WAITING)(case),
    "unknown_actions": seen(
        "unknown_actions", "some entries have actions that memlens does not know{first}; they were skipped."
    ),
    "annotations_not_placed": seen(
        "annotations_not_placed",
        "some annotations cannot be placed among the events, because times are missing or cannot be read: anchors do not find them.",
    ),
    "no_addresses": seen(
        "no_addresses",
        "events have no addresses, as was usual until 2021: each FREE is paired with the newest live ALLOC of its size. Sums are"
        " exact; which of several blocks of one size is freed is not known.",
    ),
    "uncounted_blocks": seen(
        "uncounted_blocks",
        "of what was live before the first entry only the bytes are known, by the device's total: here they count as one block.",
    ),
    "other_layers": _other_layers,
    "sizes_from_allocs": _sizes_from_allocs,
    "host_memory": _host_memory,
}
