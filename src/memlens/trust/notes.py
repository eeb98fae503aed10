"""What to know of a log that makes none of its figures wrong.  ``docs/trust.md`` has all of these notes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from memlens.facts import Kind
from memlens.inputs.paddle.layers import SIZELESS
from memlens.trust import entries
from memlens.trust.case import WITHOUT_CHUNKS, Case, Note, counted, first_in
from memlens.units import format_bytes

__all__ = ["NOTES", "notes_of"]


def notes_of(case: Case) -> tuple[Note, ...]:
    """Everything to know of a log that makes no figure wrong."""
    return tuple(note for rule in NOTES.values() for note in rule(case))


def _out_of_memory(case: Case) -> Iterator[Note]:
    ooms = case.log.facts.ooms
    if not ooms:
        return
    # The message that says most: the first with a size, else the first.
    first = next((oom for oom in ooms if oom.requested_bytes is not None), ooms[0])
    asked = "" if first.requested_bytes is None else f", asking for {format_bytes(first.requested_bytes)}"
    free = "" if first.free_bytes is None else f", with {format_bytes(first.free_bytes)} free on the device"
    yield Note(
        "out_of_memory",
        f"the run met {counted(case.distinct_ooms, 'out-of-memory failure', 'out-of-memory failures')}"
        f"{first_in(ooms[0].line, case.place)}{asked}{free}.",
        line=ooms[0].line,
    )


def _traceback(case: Case) -> Iterator[Note]:
    line = case.log.facts.hints.get("traceback")
    if line is not None:
        yield Note("traceback", f"there is a Python traceback{first_in(line)}.", line=line)


def _missed_peaks(case: Case) -> Iterator[Note]:
    missed = case.agreement.missed_peaks
    if missed and not case.writers.groups:
        yield Note(
            "missed_peaks",
            f"{counted(missed, 'peak', 'peaks')} that the framework printed are lower than ours, by up to"
            f" {format_bytes(case.agreement.missed_bytes)}: with several threads Paddle's counter looks at the total only when"
            " one thread's own net value reaches a new maximum, so it misses peaks. The peak here is the true one.",
        )


def _not_kept(case: Case) -> Iterator[Note]:
    if names := case.agreement.not_kept:
        yield Note(
            "not_kept",
            f"the framework prints 0 for {', '.join(name.replace('_', ' ') for name in names)} all the time: this build does"
            " not keep that figure, so it was not compared.",
        )


def _overtaken(case: Case) -> Iterator[Note]:
    if count := case.agreement.overtaken:
        yield Note(
            "overtaken",
            f"{counted(count, 'statistics line was', 'statistics lines were')} overtaken by events of other threads on the"
            " way into the log; the totals meet again right after.",
        )


def _no_headers(case: Case) -> Iterator[Note]:
    count = case.log.facts.unstamped
    if count:
        which = "no event has" if count >= len(case.log) else f"{counted(count, 'event')} without"
        yield Note(
            "no_headers",
            f"{which} a log header: time and thread are unknown there. Pairs and sums need neither.",
            "GLOG_log_prefix=1 writes headers.",
        )


def _several_devices(case: Case) -> Iterator[Note]:
    facts = case.log.facts
    devices = {figure.device for figure in facts.figures if figure.device >= 0}
    if facts.stat_lines is not None:
        devices |= {int(device) for device in set(facts.stat_lines.device.tolist()) if device >= 0}
    if len(devices) > 1:
        yield Note(
            "several_devices",
            f"the log tells of {len(devices)} devices ({', '.join(map(str, sorted(devices)[:16]))}), and events do not say"
            " theirs: all figures are sums over the devices, and were not compared with the framework's.",
        )


def _no_pointers(case: Case) -> Iterator[Note]:
    line = case.log.facts.hints.get("no_pointers")
    if line is not None:
        yield Note(
            "no_pointers",
            f"lines of chunks have no address{first_in(line)}: Paddle up to 2.2 logs chunks only, so there is a curve of reserved"
            " bytes and nothing about tensors.",
            line=line,
        )


def _no_reserved(case: Case) -> Iterator[Note]:
    kinds = case.kinds
    if case.log.facts.layer.startswith(WITHOUT_CHUNKS) and kinds[Kind.ALLOC] and not kinds[Kind.RESERVE]:
        yield Note("no_reserved", "such an input tells of blocks only: reserved bytes are not known, and shown as 0.")


def _other_layers(case: Case) -> Iterator[Note]:
    layers = case.log.facts.other_layers
    if not layers or not len(case.log):
        return
    listed = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in sorted(layers.items()))
    verbose = layers.get("stats") or layers.get("stream_safe")
    facts = case.log.facts
    layer, chunks = facts.layer.replace("_", " "), facts.chunk_layer.replace("_", " ")
    of = (
        f"blocks are those of the {layer} layer and chunks those of the {chunks} layer"
        if chunks not in ("", layer)
        else ""
    )
    yield Note(
        "other_layers",
        f"lines of other layers tell of the same memory and were passed over ({listed});"
        f" {of or f'events are those of the {layer} layer alone'}."
        + (" With GLOG_v of 6 or more Paddle itself keeps more memory from step to step." if verbose else ""),
        f"GLOG_vmodule='auto_g*=10' logs {'this' if layer == 'auto growth' else 'the auto-growth'} layer alone and does not change what"
        " it measures."
        if verbose
        else "",
    )


def _sizes_from_allocs(case: Case) -> Iterator[Note]:
    layer = case.log.facts.layer
    if layer in {of.label for of in SIZELESS} and case.kinds[Kind.FREE]:
        yield Note(
            "sizes_from_allocs",
            f"free lines of the {layer.replace('_', ' ')} layer have no size: each FREE counts that of its ALLOC, and nothing where"
            " its ALLOC is not in the log."
            + (" Sizes are what tensors asked for, before any alignment." if "naive" in layer else ""),
        )


def _deferred_frees(case: Case) -> Iterator[Note]:
    line = case.log.facts.hints.get("deferred_frees")
    if line is not None:
        yield Note(
            "deferred_frees",
            f"frees were put off until a stream has done its work{first_in(line)}: the memory is held longer than its FREE here tells,"
            " as the framework's own figure of allocated bytes has it too.",
            "GLOG_vmodule='auto_g*=10' logs when the memory is really given back.",
            line,
        )


def _host_memory(case: Case) -> Iterator[Note]:
    if case.log.facts.layer.startswith("host_"):
        yield Note("host_memory", "nothing tells of memory of a device: all figures are of the host's memory.")


#: Every note there is, by code.
NOTES: dict[str, Callable[[Case], Iterator[Note]]] = {
    "out_of_memory": _out_of_memory,
    "traceback": _traceback,
    "missed_peaks": _missed_peaks,
    "not_kept": _not_kept,
    "overtaken": _overtaken,
    "several_devices": _several_devices,
    "no_headers": _no_headers,
    "no_pointers": _no_pointers,
    "no_reserved": _no_reserved,
    **entries.NOTES,
    "other_layers": _other_layers,
    "sizes_from_allocs": _sizes_from_allocs,
    "deferred_frees": _deferred_frees,
    "host_memory": _host_memory,
}
