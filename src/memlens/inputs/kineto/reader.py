"""Kineto traces: the JSON files that ``torch.profiler`` writes, read for their ``[memory]`` events.

The file is never parsed as a whole: :mod:`memlens.inputs.kineto.json_objects` finds the events in it, :mod:`memlens.inputs.kineto.events`
reads those that matter, :mod:`memlens.inputs.kineto.owners` says who is to blame, :mod:`memlens.inputs.kineto.logs` makes the logs.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import fields, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from memlens.errors import InputError, NoEventsError
from memlens.facts import LineSample
from memlens.inputs.kineto.events import EventReader
from memlens.inputs.kineto.json_objects import ListReader
from memlens.inputs.kineto.logs import Trace, make_logs
from memlens.inputs.kineto.owners import owners_of
from memlens.inputs.kineto.records import Changes, SpanKind, Spans

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memlens.events import EventLog
    from memlens.inputs.file_source import FileSource
    from memlens.windows.patterns import Pattern

__all__ = ["looks_like", "read_kineto"]

_BASE = "baseTimeNanoseconds"
_MOST_BASE = 4 * 10**18
_MARKS = (b'"traceEvents"', b'"schemaVersion"', b'"deviceProperties"', b'"displayTimeUnit"', b'"baseTimeNanoseconds"')
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_HINT = (
    "Record with torch.profiler.profile(profile_memory=True), export_chrome_trace(), and without profile_all_threads:"
    " with it PyTorch writes no [memory] events."
)
_Rows = TypeVar("_Rows", Changes, Spans)


def looks_like(head: bytes) -> bool:
    """Whether an input that begins so is a trace: a JSON object with a list of trace events, or that list alone."""
    start = head.removeprefix(_BYTE_ORDER_MARK).lstrip()
    if start.startswith(b"["):
        return start[1:].lstrip().startswith(b"{") and b'"ph"' in start
    return start.startswith(b"{") and any(mark in start for mark in _MARKS)


def read_kineto(
    source: FileSource,
    *,
    patterns: Sequence[Pattern] = (),
    strict: bool = False,
    progress: Callable[[int], None] | None = None,
) -> list[EventLog]:
    """Read a trace.

    Args:
        source: The input; compressed or not.
        patterns: Anchors that will be looked for among the annotations; checked here, found when they are asked for.
        strict: Raise where the trace is cut short or damaged, instead of reading what there is.
        progress: Called now and then with the bytes consumed of the input as it lies on disk.

    Returns:
        A log for each device with ``[memory]`` events, by rising :attr:`~memlens.EventLog.device`; the CPU is number -1.

    Raises:
        InputError: It cannot be read, or is no trace.
        NoEventsError: It has no ``[memory]`` event.
        UsageError: A pattern is no regular expression.
    """
    for pattern in patterns:
        pattern.compiled  # noqa: B018 - a wrong pattern is said before any trace is read
    reader = EventReader()
    count = 0
    samples: list[LineSample] = []
    with closing(source.open()) as stream:
        listed = ListReader(stream, "traceEvents", (_BASE,))
        for objects in listed:
            if objects.again:  # JSON's rule for a key that comes twice: the last one counts
                reader.clear()
                count, samples = 0, []
            known = len(reader.malformed)
            reader.add(objects)
            for place in reader.malformed[known : known + 5 - len(samples)]:
                k = int(objects.begin.searchsorted(place - objects.offset))
                text = objects.text[objects.begin[k] : objects.end[k]][:200].tobytes().decode("utf-8", "replace")
                samples.append(LineSample(place, count + k + 1, " ".join(text.split())))
            count += len(objects)
            if progress is not None:
                progress(stream.consumed)
    problem = listed.problem
    if not listed.listed:
        raise InputError(
            f"{source.name}: {problem or 'there is no list of trace events in this JSON file'}",
            "A trace has the key traceEvents; write one with torch.profiler's export_chrome_trace().",
        )
    if problem and strict:
        raise InputError(f"{source.name}: {problem}", "Leave out --strict to analyze what can be read.")
    changes = _join(Changes, reader.changes)
    if not len(changes.time):
        early = f" ({problem})" if problem else ""
        events = f"{count:,} event{'' if count == 1 else 's'}"
        odd = f"; {len(reader.malformed):,} of them cannot be read, first event {samples[0].line:,}" if samples else ""
        raise NoEventsError(f"{source.name}: no [memory] event among {events} of a Kineto trace{early}{odd}", _HINT)
    spans = _settle(_join(Spans, reader.spans), reader.names.texts)
    owner, owner_names = owners_of(changes, spans, reader.names.texts)
    base = listed.found.get(_BASE, 0)
    return make_logs(
        Trace(
            name=source.name,
            size=listed.size,
            changes=changes,
            owner=owner,
            owner_names=owner_names,
            spans=spans,
            texts=reader.names.texts,
            failures=reader.failures,
            base=base if abs(base) <= _MOST_BASE else 0,
            malformed=len(reader.malformed),
            samples=tuple(samples),
            cut_short=problem,
        )
    )


def _join(of: type[_Rows], parts: Sequence[_Rows]) -> _Rows:
    """The rows of all parts together, in the order of the file."""
    empty = [np.zeros(0, np.int64)]
    columns = [np.concatenate([getattr(part, item.name) for part in parts] or empty) for item in fields(of)]
    order = np.argsort(columns[0], kind="stable")  # the first column is the place
    return of(*(column[order] for column in columns))


def _settle(spans: Spans, texts: Sequence[str]) -> Spans:
    """Annotations told from operators: until 2022 both had one category, but only annotations have a ``#`` in their name."""
    hashed = np.array(["#" in text for text in texts], np.bool_)
    marked = (spans.kind == SpanKind.OP) & (hashed[spans.name] if len(texts) else False)
    return replace(spans, kind=np.where(marked, SpanKind.ANNOTATION, spans.kind).astype(np.int64))
