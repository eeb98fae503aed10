"""What is to be said of logs that grow, in one to three sentences, from what was read of them so far.

At the end, where the logs are whole, :mod:`memlens.analyzing.verdict` says it in their place, for it knows which blocks are live.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from memlens.analyzers.series.trend import MINIMUM
from memlens.analyzing.verdict import window_label
from memlens.text import Answer, file_names, plural, short_name
from memlens.units import format_bytes
from memlens.watching.crossings import key_of
from memlens.windows.windows import BEFORE

if TYPE_CHECKING:
    from memlens.analyzers import Growth
    from memlens.watching.crossings import Crossing
    from memlens.watching.state import LogState
    from memlens.watching.watch import Watched

__all__ = ["answer_of", "nothing_of", "unjudged"]


def answer_of(seen: Watched) -> Answer:
    """The verdict: which limit is exceeded, and what is said of the logs beside."""
    first = tuple(_exceeded(seen))
    if seen.analysis is not None:
        said = seen.analysis.answer
        return Answer((*first, *said.sentences), "bad" if first else said.tone)
    grows = any(growth is not None and growth.verdict == "growing" for growth in seen.growths)
    failed = any(state.ooms for state in seen.states)
    sentences = _of_one(seen.states[0], seen.growths[0]) if len(seen.states) == 1 else _of_several(seen)
    return Answer((*first, *sentences), "bad" if first or grows or failed else "plain")


def _exceeded(seen: Watched) -> Iterator[str]:
    """The first limit that was exceeded, and how many more."""
    if seen.crossings:
        first, more = seen.crossings[0], len(seen.crossings) - 1
        text = f"{first}{', for a time and not at the end' if _over_again(first, seen) else ''}"
        others = f" ({plural(more, 'more limit')} exceeded)" if more else ""
        if len(seen.states) > 1:
            yield f"{names_of(seen.states)[first.path, first.device]}: {text}{others}."
        else:
            yield f"{text[0].upper()}{text[1:]}{others}."


def _over_again(crossing: Crossing, seen: Watched) -> bool:
    """Whether growth that exceeded its limit while the log grew does not at the end, as of a sawtooth that came back."""
    growths = (
        growth
        for state, growth in zip(seen.states, seen.growths, strict=True)
        if key_of(state) == (crossing.path, crossing.device)
    )
    growth = next(growths, None)
    lasts = growth is not None and growth.verdict == "growing" and growth.gained_bytes > crossing.limit_bytes
    return bool(seen.ended) and crossing.metric == "growth" and not lasts


def unjudged(states: Sequence[LogState], growths: Sequence[Growth | None], limits: Iterable[str]) -> Iterator[str]:
    """The limits that nothing could be held against, and why, in sentences.

    Args:
        states: The logs; of those without an event nothing is said.
        growths: How memory develops over the windows of each.
        limits: The metrics that have a limit.
    """
    names = names_of(states)
    for state, growth in zip(states, growths, strict=True):
        why = {
            "peak": "" if state.allocated_bytes is not None else "no line tells of blocks",
            "reserved": "" if state.reserved_peak_bytes is not None else "no line tells of chunks",
            "growth": _not_grown(state, growth),
        }
        for metric in limits:
            if state.events and why[metric]:
                yield f"{names[key_of(state)]}: {metric} is not judged, for {why[metric]}"


def _not_grown(state: LogState, growth: Growth | None) -> str:
    """Why growth is not judged; ``""`` where it is."""
    if not state.window_count:
        return "no line that counts steps was found (--by names them)"
    if not state.repeated:
        return "no line counts steps (--by names them)"
    if growth is None or growth.judged < MINIMUM:
        return f"{plural(0 if growth is None else growth.judged, 'closed window')} tell too little"
    return ""


def names_of(states: Sequence[LogState]) -> dict[tuple[str, str], str]:
    """What logs are called, harmless and short, by their paths and devices."""
    names = file_names(list(dict.fromkeys(state.path for state in states)))
    devices = {(state.path, state.device): f" [{state.device}]" if state.device else "" for state in states}
    return {key: short_name(names[key[0]]) + device for key, device in devices.items()}


def _of_one(state: LogState, growth: Growth | None) -> list[str]:
    if not state.events:
        return [nothing_of(state)]
    figures = [f"{format_bytes(state.peak_bytes)} allocated"] if state.allocated_bytes is not None else []
    figures += [] if state.reserved_peak_bytes is None else [f"{format_bytes(state.reserved_peak_bytes)} reserved"]
    where = "" if state.peak_line is None else f", at line {state.peak_line:,}"
    peak, grows = f"Peak: {', '.join(figures)}{where}.", growth is not None and growth.verdict == "growing"
    words = [_growth(state, growth), peak] if grows else [peak, _growth(state, growth)]
    failed = f"{plural(state.ooms, 'out-of-memory message')}." if state.ooms else ""
    said = [text for text in (failed, *words) if text]
    return [*said[:2], *_gone(state), *said[2:]][:3]


def nothing_of(state: LogState) -> str:
    """Why nothing is known of a log, in a sentence."""
    if state.problem or not state.lines:
        return f"Nothing was read: {state.problem or state.waiting or 'nothing is written yet'}."
    return f"No event of an allocator in {plural(state.lines, 'line')}."


def _growth(state: LogState, growth: Growth | None) -> str:
    if growth is None or growth.judged < MINIMUM:
        return ""
    # What precedes the first window is no window of the series; where it is long gone, there was such a part.
    first = state.windows[0] if state.windows else None
    over = plural(growth.judged - (first is None or first.index > 0 or first.name == BEFORE), "window")
    if growth.verdict == "growing":
        each, since = format_bytes(round(growth.gained_bytes_per_window)), window_label(state.by, growth.since or "")
        return f"Memory grows from {since} on: {each} a window, {format_bytes(growth.gained_bytes)} in all over {over}."
    if growth.verdict == "shrinking":
        return f"Memory shrinks over {over}."
    if growth.rose is not None:
        return f"Memory does not grow steadily over {over}: it rose by {format_bytes(growth.rose_bytes)}."
    swings = f": it swings within ±{format_bytes(growth.swing_bytes)}" if growth.verdict == "swinging" else ""
    return f"Memory does not grow over {over}{swings}."


def _gone(state: LogState) -> list[str]:
    """Why the file of that name does not hold all that was read."""
    if state.restarts:
        count = plural(state.restarts, "time")
        return [f"The file was replaced by that of another run {count}; this is of the last one."]
    if state.rotations:
        count = plural(state.rotations, "time")
        return [
            f"The log went on in a new file {count}, so that earlier parts may be gone; this is of all that was read."
        ]
    return []


def _of_several(seen: Watched) -> list[str]:
    names = names_of(seen.states)
    known = [
        (state, growth)
        for state, growth in zip(seen.states, seen.growths, strict=True)
        if state.allocated_bytes is not None
    ]
    read = plural(len(seen.states), "log")
    if not known:
        return [f"Of {read} none has told of a block."]

    def called(state: LogState) -> str:
        return names[state.path, state.device]

    high = max(known, key=lambda entry: entry[0].peak_bytes)[0]
    low = min(known, key=lambda entry: entry[0].peak_bytes)[0]
    words = f"Of {read} the highest peak is {format_bytes(high.peak_bytes)} in {called(high)}"
    if len(known) > 1 and low.peak_bytes < high.peak_bytes:
        words += f", the lowest {format_bytes(low.peak_bytes)} in {called(low)}"
    sentences = [f"{words}."]
    growing = [called(state) for state, growth in known if growth is not None and growth.verdict == "growing"]
    if growing:
        more = f" and {len(growing) - 3} more" if len(growing) > 3 else ""
        sentences.insert(0, f"Memory grows in {', '.join(growing[:3])}{more}.")
    if failed := [called(state) for state, _ in known if state.ooms]:
        sentences.insert(0, f"{plural(len(failed), 'log')} ran out of memory: {', '.join(failed[:3])}.")
    return sentences[:3]
