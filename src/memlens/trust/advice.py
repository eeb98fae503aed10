"""How to switch allocator logging on, and what to say of a log that holds no event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlens.claims.claim import Claim, Weight, answer_of
from memlens.errors import NoEventsError
from memlens.text import format_bytes, plural

if TYPE_CHECKING:
    from memlens.facts import Facts


#: The environment that makes Paddle log its allocator, and the command that keeps the log.
SWITCH_ON = """\
To get a log that memlens can read, run Paddle with allocator logging on:
    export GLOG_vmodule='auto_g*=10'
    export FLAGS_allocator_strategy=auto_growth
    python -u train.py > run.log 2>&1
Write auto_g* and not the whole file name: a GLOG_vmodule longer than 15 characters makes Paddle 3.3.1 crash at exit.
Leave GLOG_v below 6: from 6 on it changes what it measures, and it does not log tensors below 10."""

_OTHERS = "For PyTorch and RAPIDS memlens reads other files: memlens formats lists them."
_TRIED = (
    "Looked for lines of Paddle's auto-growth allocator: 'Alloc N bytes, ptr = 0x…', 'Free N bytes, ptr = 0x…',"
    " 'Not found and reallocate N(0x…)' and 'Free chunk with size N'. Also for lines of the stream-safe and naive best fit"
    " allocators, of memory statistics and of cudaMalloc calls."
)


#: What it means that a log has lines of another layer and no event.
_OF_OTHER_LAYERS = {
    "naive_best_fit": "lines of the naive_best_fit allocator, none of which is an event: the run did not use"
    " FLAGS_allocator_strategy=auto_growth.",
    "stream_safe": "lines of the stream-safe allocator, none of which is an event: log the auto-growth allocator below it instead.",
    "cuda_malloc": "lines of cudaMalloc calls: the run may have used FLAGS_use_cuda_malloc_async_allocator, which bypasses the"
    " auto-growth allocator; set it to 0.",
    "stats": "memory statistics lines (GLOG_v=8 or 9), each of which only repeats another one.",
}


def no_events_error(path: str, facts: Facts, layer: str | None = None) -> NoEventsError:
    """The error for an input without any event: what was tried, what was seen, and how to switch logging on.

    Args:
        path: The input as the user named it.
        facts: What was seen.
        layer: The layer that was asked for; ``None`` where any would have done.
    """
    if facts.bytes == 0 and facts.cut_short:
        return NoEventsError(
            f"{path}: the file is empty as far as it can be read: {facts.cut_short}",
            "Copy the file again, or wait until the run has closed it.",
        )
    if facts.bytes == 0:
        return NoEventsError(
            f"{path}: the file is empty",
            "Nothing was written to it: check that the run started, and that its output goes there. memlens formats lists what"
            " memlens reads.",
        )
    size = f"{plural(facts.lines, 'line')}, {format_bytes(facts.bytes)}"
    if layer is not None:
        others = ", ".join(f"{name} ({count:,})" for name, count in sorted(facts.other_layers.items()))
        seen = f"Lines of other layers: {others}." if others else "No line of another layer was counted either."
        return NoEventsError(
            f"{path}: no event of the {layer} layer in {size}\n{seen}",
            "Without --layer the most exact layer of the log is read.",
        )
    if (first := _first_request(facts)) is not None:
        return NoEventsError(f"{path}: {first[0]}; there is no allocator event in {size}", first[1])
    message = "\n".join([f"{path}: no allocator event in {size}", _TRIED, *_seen(facts)])
    return NoEventsError(message, f"{SWITCH_ON}\n{_OTHERS}")


def _first_request(facts: Facts) -> tuple[str, str] | None:
    """That a run was refused its first block though logging was on, and what that means; ``None`` where it is not so."""
    waited = (oom for oom in facts.ooms if oom.unanswered_bytes is not None)
    oom = next(waited, None)
    if oom is None or facts.malformed or facts.other_layers:
        return None
    asked = oom.unanswered_bytes or 0
    left = "" if oom.free_bytes is None else f", with {format_bytes(oom.free_bytes)} left"
    words = f"ran out of memory on its first request ({format_bytes(asked)}{left}, line {oom.line:,})"
    whole = "the limit of the process is" if any(one.limit_bytes for one in facts.ooms) else "the device has"
    if oom.total_bytes is not None and asked > oom.total_bytes:
        return words, f"It can never fit: {whole} {format_bytes(oom.total_bytes)}."
    if oom.chunk_bytes > asked and (oom.requested_bytes is None or (oom.asked_bytes or 0) > asked):
        chunk, setting = format_bytes(oom.chunk_bytes), "FLAGS_auto_growth_chunk_size_in_mb"
        return words, f"The allocator requested a chunk of {chunk} for it: with a smaller {setting} it requests less."
    return words, "The log shows that the run held nothing yet: check what else uses the device, or request less."


def _seen(facts: Facts) -> list[str]:
    """Say what the log does hold that tells why there are no events, a sentence each."""
    other, found = facts.other_layers, []
    if facts.cut_short:
        found.append(f"The input ends early ({facts.cut_short}): events may stand in the part that is missing.")
    if "binary" in facts.hints:
        found.append(f"There are NUL bytes, first in line {facts.hints['binary']:,}: this may be no text file at all.")
    if facts.malformed:
        at = f", first line {facts.malformed_samples[0].line:,}" if facts.malformed_samples else ""
        looks = plural(facts.malformed, "line looks", "lines look")
        found.append(f"{looks} like an event but cannot be parsed{at}.")
    found += [f"There are {other[layer]:,} {what}" for layer, what in _OF_OTHER_LAYERS.items() if other.get(layer)]
    if facts.figures and not found:
        found.append(
            f"The framework printed {plural(len(facts.figures), 'figure')} about its memory, so something was allocated: logging was off,"
            " or the run was on the CPU."
        )
    if facts.ooms:
        found.append(f"There is an out-of-memory message in line {facts.ooms[0].line:,}.")
    if (ending := facts.ending) is not None:
        values = {"how": ending.how, "what": ending.what or None, "line": ending.line}
        found.append(
            f"{answer_of([Claim('run_ended', Weight.ENDING, values)])} It may not have come to its first block."
        )
    if not found:
        found.append("No other allocator layer was seen either: allocator logging was off.")
    return found
