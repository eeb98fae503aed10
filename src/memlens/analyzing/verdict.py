"""The verdict of an analysis in one to three sentences: what ran out, what grows, how high the peak is and of what.

Every figure is one of the results; the words claim no more than these do.  ``docs/analyzers.md`` has the rules.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from memlens.analyzers.failures.words import failure_sentence
from memlens.analyzers.groups import BEFORE_INPUT
from memlens.analyzers.series.phases import START
from memlens.analyzers.series.trend import MINIMUM
from memlens.results import Answer
from memlens.text import MOST_NAMES, clipped, file_names, format_share, innermost, name_list, short_name, terms_of
from memlens.trust.case import RESERVED_DOUBTS, UNPAIRED_DOUBTS
from memlens.units import format_bytes, plural
from memlens.windows.windows import BEFORE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from memlens.analyzers.series.growth import Growth
    from memlens.analyzing.result import Analysis, LogAnalysis, WindowAnalysis
    from memlens.text import Terms


#: What each doubt means for a verdict, in short; of any other its name says it.
_MEANING = {
    "several_processes": "several processes wrote the log",
    "unknown_frees": "blocks from before the log are freed in it",
    "double_allocs": "Frees are missing",
    "late_output": "anchors or figures come late",
    "no_tensor_events": "only chunks are logged",
    "no_lifetimes": "no line says which block it is about",
    "half_line": "the last line is cut",
}


def answer_of(analysis: Analysis) -> Answer:
    """The verdict on all logs together; that on the log itself where there is one."""
    logs = analysis.logs
    if len(logs) == 1 and not analysis.failures:
        return logs[0].answer
    if not analysis.failures and logs and all(log.device for log in logs) and len({log.input for log in logs}) == 1:
        return _of_devices(logs)
    names = file_names([log.path for log in logs])
    sentences = []
    failed = [log for log in logs if log.ooms]
    if len(failed) == 1:
        sentences.append(failure_sentence(failed[0].ooms, terms_of(failed[0].trust.has_lines), names[failed[0].path]))
    elif failed:
        listed = name_list([names[log.path] for log in failed])
        sentences.append(f"{plural(len(failed), 'log')} ran out of memory: {listed}.")
    growing = [names[log.path] for log in logs if _grows(log)]
    if growing:
        sentences.append(f"Memory grows in {name_list(growing)}.")
    sentences.append(_spread(logs, names, len(analysis.failures)))
    if (doubtful := sum(not log.trust.ok for log in logs)) and len(sentences) < 3:
        sentences.append(f"{plural(doubtful, 'log is', 'logs are')} in doubt.")
    return Answer(tuple(sentences), "bad" if failed or growing or analysis.failures else "plain")


def _of_devices(logs: Sequence[LogAnalysis]) -> Answer:
    """The verdict on one input with several devices: that on one that ran out of memory, or on the fullest GPU, and how high the others come."""
    peaks = {log.device: max(_peaks(log), default=0) for log in logs}
    first, *others = sorted(logs, key=lambda log: (not log.ooms, log.device == "CPU", -peaks[log.device]))
    listed = ", ".join(f"{log.device} {format_bytes(peaks[log.device])}" for log in others[:MOST_NAMES])
    more = f" and {plural(len(others) - MOST_NAMES, 'more device')}" if len(others) > MOST_NAMES else ""
    answer = first.answer
    head = f"{first.device[0].upper()}{first.device[1:]}: {answer.sentences[0]}"
    return Answer((head, *answer.sentences[1:2], f"Peaks of the others: {listed}{more}."), answer.tone)


def _spread(logs: Sequence[LogAnalysis], names: Mapping[str, str], unread: int) -> str:
    """How high each of several logs comes, and how many could not be analyzed."""
    not_analyzed = f"{plural(unread, 'log')} could not be analyzed" if unread else ""
    peaks = [(max(_peaks(log), default=None), log) for log in logs]
    known = sorted(((peak, log) for peak, log in peaks if peak is not None), key=lambda entry: -entry[0])
    if not known:
        return f"{not_analyzed or plural(len(logs), 'log') + ' analyzed'}."
    (most, first), (least, last) = known[0], known[-1]
    words = f"Of {plural(len(logs), 'log')} the highest peak is {format_bytes(most)} in {short_name(names[first.path])}"
    if len(known) == 1:
        words = f"Peak {format_bytes(most)} in {short_name(names[first.path])}"
    elif most > least:
        words += f", the lowest {format_bytes(least)} in {short_name(names[last.path])}"
    else:
        words = f"All of {plural(len(known), 'log')} have the same peak, {format_bytes(most)}"
    return f"{words}{'; ' if not_analyzed else ''}{not_analyzed}."


def _peaks(log: LogAnalysis) -> Iterator[int]:
    if "no_tensor_events" in log.trust.doubt_codes:
        return iter(())
    return (result.peak_bytes for window in log.windows if (result := window.results.get("peak")) is not None)


def answer_of_log(log: LogAnalysis) -> Answer:
    """The verdict on one log."""
    terms = terms_of(log.trust.has_lines)
    growth = log.growth
    grows = _grows(log)
    sentences = [failure_sentence(log.ooms, terms)] if log.ooms else []
    sentences += [_growing(log)] if grows else []
    if len(log.figures.get("peak_bytes", ())) == len(log.windows):
        highest: WindowAnalysis | None = log.windows[int(log.figures["peak_bytes"].argmax())]
    else:
        highest = max(log.windows, key=_height, default=None)
    if highest is not None and "peak" in highest.results:
        sentences.append(_peak(log, highest, terms))
    judged = growth is not None and growth.judged >= MINIMUM
    # The windows asked for, without what precedes them; of very many few are looked at.
    asked_for = range(int(len(log.windows) > 1 and log.windows[0].name == BEFORE), len(log.windows))
    if not any(log.windows[k].events for k in asked_for) and not _state_only(log):
        where = "lies in this window" if len(asked_for) == 1 else f"lies in any of the {len(asked_for):,} windows"
        sentences = [*sentences, f"No event {where}, so nothing can be said of it."]
    else:
        sentences += [_flat(log)] if judged and not grows else []
        if not log.series and len(log.windows) == 1 and not _state_only(log):
            unjudged = "" if judged or not log.windows[0].whole else _unjudged(log)
            sentences += [_left(log, log.windows[0], unjudged)]
    sentences = [text for text in sentences if text] or [
        f"{plural(sum(w.events for w in log.windows), 'event')} analyzed."
    ]
    if doubts := _doubts(log):
        sentences[0] = f"In doubt ({doubts}): {sentences[0][0].lower()}{sentences[0][1:]}"
    return Answer(tuple(sentences[:3]), "bad" if grows or log.ooms else "plain")


def _height(window: WindowAnalysis) -> int:
    result = window.results.get("peak")
    return -1 if result is None else result.peak_bytes


def _state_only(log: LogAnalysis) -> bool:
    """Whether it is a snapshot without a trace, of which one moment is known."""
    return any(note.code == "no_trace" for note in log.trust.notes)


def _doubts(log: LogAnalysis) -> str:
    """Return the doubts of a log in words: none where it is only what is reserved, which the sentence on the peak leaves out then."""
    if log.trust.ok:
        return ""
    codes = [doubt.code for doubt in log.trust.doubts if doubt.code not in RESERVED_DOUBTS]
    return ", ".join(_MEANING.get(code, code.replace("_", " ")) for code in codes)


def _unjudged(log: LogAnalysis) -> str:
    """Why nothing is said of growth."""
    if log.steps is None:
        return "growth is not judged, for no steps were found (--by names them)"
    if not log.steps.repeated:
        return "growth is not judged, for no line counts steps"
    return f"growth is not judged: {plural(log.steps.anchors, 'step')} tell too little"


def _growing(log: LogAnalysis) -> str:
    growth, codes = log.growth, log.trust.doubt_codes
    assert growth is not None
    above = _above(log, growth)
    if growth.verdict != "growing":
        if "no_tensor_events" in codes:
            return f"Reserved grows {above[-1][1]}."
        rising = ", and ".join(f"{what} does {how}" for what, how in above)
        flat = "grow" if growth.rose is None else "keep growing"
        return f"What is live after each {_unit(log)} does not {flat} over {_judged(log)}, but {rising}."
    words = (
        f"Memory grows from {window_label(log.by, growth.since or '')} on: {format_bytes(round(growth.gained_bytes_per_window))} a"
        f" {_unit(log)}, {format_bytes(growth.gained_bytes)} in all over {_gaining(log, growth)}"
    )
    if growth.piling:
        pile, gained = growth.piling[0], growth.gained_bytes
        of, where = f"{plural(pile.count, 'block')} of {format_bytes(pile.size_bytes)}", _by(pile.owner)
        if pile.phase is not None:
            where += " allocated " + ("before the first phase" if pile.phase == START else f"in {clipped(pile.phase)}")
        if pile.total_bytes > gained:  # those of a sawtooth, say, the last tooth of which is cut off
            words += f"; {of}{where} pile up"
        elif 2 * pile.total_bytes > gained:
            words += f", most of it in {of}{where}"
        else:
            words += f", above all {of} ({format_share(pile.total_bytes, gained)}){where}"
    elif not UNPAIRED_DOUBTS & codes:
        words += ", and no blocks of one size pile up"
    if above:
        words += f"; {', and '.join(f'{what} grows {how}' for what, how in above)}"
    return words + "."


def _above(log: LogAnalysis, growth: Growth) -> list[tuple[str, str]]:
    """Return the levels (peaks, reserved) that grow by more than twice what stays live after each window, in words."""
    rows = [
        (f"the peak of a {_unit(log)}", growth.peak_since, growth.peak_from_bytes, growth.peak_gained_bytes),
        ("reserved", growth.reserved_since, growth.reserved_from_bytes, growth.reserved_gained_bytes),
    ]
    if RESERVED_DOUBTS & log.trust.doubt_codes:
        rows.pop()
    live = growth.gained_bytes if growth.verdict == "growing" else growth.rose_bytes
    return [
        (what, f"from {window_label(log.by, since)} on, from {format_bytes(start)} to {format_bytes(start + gained)}")
        for what, since, start, gained in rows
        if since is not None and start is not None and gained is not None and gained > 2 * live
    ]


def _grows(log: LogAnalysis) -> bool:
    """Whether what is live after each window grows, or their peaks do, or what is reserved."""
    growth = log.growth
    return growth is not None and (growth.verdict == "growing" or bool(_above(log, growth)))


def _gaining(log: LogAnalysis, growth: Growth) -> str:
    """Over which windows bytes are gained: all of them, where it begins in the first one or the second, else the last so many."""
    last = growth.judged - (growth.since_window or 0)
    every = _count(log, growth)
    return _judged(log) if last >= every - 1 else f"the last {last:,} of {_judged(log)}"


def _unit(log: LogAnalysis) -> str:
    """Return the word for one of a series: a step, where steps were found, else a window."""
    return "window" if log.steps is None else "step"


def _count(log: LogAnalysis, growth: Growth) -> int:
    """Over how many of a series growth is judged; what precedes the first of them is none."""
    windows = log.windows if log.steps is None else log.steps.windows
    return growth.judged - (bool(windows) and windows[0].name == BEFORE)


def _judged(log: LogAnalysis) -> str:
    return plural(0 if log.growth is None else _count(log, log.growth), _unit(log))


def window_label(by: str | None, name: str) -> str:
    """Return the name of a window of a series in a sentence: its name, as in the table; a bare number is told to be one of a window."""
    if name == BEFORE:
        return f"the part before the first {'step' if by is None else 'window'}"
    return clipped(name if any(map(str.isalpha, name)) else f"window {name}")


def _flat(log: LogAnalysis) -> str:
    growth = log.growth
    assert growth is not None
    if growth.verdict == "shrinking":
        return f"Memory shrinks over {_judged(log)}."
    if growth.rose is not None:
        rose, last = format_bytes(growth.rose_bytes), growth.rose_windows
        if growth.rose == "late":
            return f"Memory rises by {rose} in the last {f'{last} ' if last > 1 else ''}of {_judged(log)}, too few to judge."
        first, until = (window_label(log.by, name or "") for name in (growth.rose_from, growth.rose_until))
        when = f"in {first}" if first == until else f"from {first} to {until}"
        if growth.rose == "stayed":
            return f"Memory does not keep growing over {_judged(log)}: it rose by {rose} {when} and stays there."
        return f"Memory does not grow steadily over {_judged(log)}: it rose by {rose} {when}."
    if growth.verdict == "swinging":
        return f"Memory does not grow over {_judged(log)}: it swings within ±{format_bytes(growth.swing_bytes)}."
    return f"Memory does not grow over {_judged(log)}."


def _peak(log: LogAnalysis, window: WindowAnalysis, terms: Terms) -> str:
    """How high a window comes, what the device had to hold for it, where, and of what."""
    peak = window.results["peak"]
    words = "The highest peak" if log.series else "Peak"
    if _state_only(log):
        words = "Live when the snapshot was taken"
    elif log.trust.peak_may_be_earlier:
        words += " since recording began"
    elif "unknown_frees" in log.trust.doubt_codes:
        words += " without what was there before the log"
    if not window.whole:
        words += f" in {window_label(log.by, window.name)}"
    figures = [f"{format_bytes(peak.peak_bytes)} allocated"] if "no_tensor_events" not in log.trust.doubt_codes else []
    reserved = peak.reserved_peak_bytes and not RESERVED_DOUBTS & log.trust.doubt_codes
    figures += [f"{format_bytes(peak.reserved_peak_bytes)} reserved"] if reserved or not figures else []
    words += f": {', '.join(figures)}"
    if peak.at_start:
        words += "" if _state_only(log) else ", all of it there from the start"
    elif peak.line is not None:
        words += f", at {terms.at(peak.line)}"
    if not window.whole and peak.carried_in_bytes and peak.rise_bytes:
        words += f", {format_bytes(peak.rise_bytes)} above what was carried in"
    if not UNPAIRED_DOUBTS & log.trust.doubt_codes:
        words += _most_of(peak.live, peak.peak_bytes)
    return f"{words}."


def _most_of(groups: Sequence[Any], whole: int) -> str:
    """Return the largest part of the peak: the owner with the most bytes where owners are known of most, else the size."""
    if not groups or whole <= 0:
        return ""
    total: defaultdict[str | None, int] = defaultdict(int)
    count: defaultdict[str | None, int] = defaultdict(int)
    for group in groups:
        total[group.owner] += group.total_bytes
        count[group.owner] += group.count
    owner = max(total, key=lambda name: (name is not None, total[name]))
    if owner is not None and 2 * total[None] <= whole:
        size, blocks = total[owner], plural(count[owner], "block")
    else:
        first = groups[0]
        owner, size = None, first.total_bytes
        blocks = f"{plural(first.count, 'block')} of {format_bytes(first.size_bytes)}"
    if size > whole:  # where FREEs have no ALLOC in the log, blocks may add up to more than the level
        return ""
    return f"; {format_bytes(size)} ({format_share(size, whole)}) of it in {blocks}{_by(owner)}"


def _by(owner: str | None) -> str:
    """Whose a block is: an operator, or the innermost frame of a call stack."""
    if owner is None:
        return ""
    return " from before the input" if owner == BEFORE_INPUT else f" by {clipped(innermost(owner))}"


def _left(log: LogAnalysis, window: WindowAnalysis, unjudged: str) -> str:
    """Return what a single window leaves behind, and why growth is not judged."""
    remaining, unmatched = window.results.get("remaining"), window.results.get("unmatched")
    words = ""
    if (
        remaining is not None
        and unmatched is not None
        and not UNPAIRED_DOUBTS & log.trust.doubt_codes
        and remaining.live_bytes >= 0
    ):
        opening = unmatched.opening if window.starts_input else ()
        held = sum(group.count for group in unmatched.held)
        if not window.whole:
            words = "every block allocated in it is freed in it"
            if held:
                kept = format_bytes(unmatched.held_bytes)
                words = f"{kept} allocated in it is not freed in it: {plural(held, 'block')}"
        elif blocks := held + sum(group.count for group in opening):
            size = unmatched.held_bytes + sum(group.total_bytes for group in opening)
            words = f"{format_bytes(size)} in {plural(blocks, 'block')} is live at the end"
        else:
            grows = log.growth is not None and log.growth.verdict == "growing"
            words = "all of it is freed only when the log ends" if grows else "everything is freed at the end"
    text = "; ".join(filter(None, [words, unjudged]))
    return f"{text[0].upper()}{text[1:]}." if text else ""
