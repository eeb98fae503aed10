"""The trust report: what a log holds, what to doubt of it, and whether the framework's own figures say the same.

``docs/trust.md`` explains every field and every code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from memlens.events import BATCH, EventLog, once
from memlens.facts import Ending, Facts, Kind, LineSample, OutOfMemory
from memlens.results import Result
from memlens.spool import walk
from memlens.text import format_bytes, plural
from memlens.trust.agreement import Disagreement, compare
from memlens.trust.case import Case, Doubt, Note
from memlens.trust.doubts import DOUBTS
from memlens.trust.failures import failures_of
from memlens.trust.notes import NOTES
from memlens.trust.processes import writers

__all__ = ["PEAK_MAY_BE_EARLIER", "Disagreement", "Doubt", "Note", "Trust", "pairing_beside", "trust_of"]


#: What to say beside a peak where :attr:`Trust.peak_may_be_earlier`.
PEAK_MAY_BE_EARLIER = "The peak may lie before the first recorded event: what came before is not in the input."


class Trust(Result, frozen=True):
    """The trust report of one log: what to believe of it.

    Attributes:
        ok: Nothing is in doubt.
        doubts: What makes figures of this log wrong or unsure, the worst first.
        notes: What to know that makes no figure wrong.
        path: The input as the user named it.
        lines: Lines read.
        bytes: Bytes read, uncompressed.
        events: Events of all kinds.
        allocs: ALLOC events.
        frees: FREE events.
        reserves: RESERVE events.
        releases: RELEASE events.
        malformed: Lines that look like an event but do not parse.
        malformed_samples: The first few of them.
        unknown_frees: FREEs without an earlier ALLOC.
        unknown_free_bytes: Their bytes: at least so much was live before the log shows it.
        double_allocs: ALLOCs of an address that was still live.
        double_alloc_bytes: Bytes of the ALLOCs that such an ALLOC left without a FREE.
        size_mismatches: Pairs whose ALLOC and FREE differ in size.
        cut_short: Why the input ended early, or ``""``.
        ends_mid_line: The last line has no line end.
        threads: How many threads wrote events; 0 where no line says.
        processes: Thread ids by process where several wrote the file, else empty.
        unstamped: Events without a readable header.
        layer: The log layer that the events come from.
        has_lines: The input consists of lines, and not of entries, as a snapshot or a trace does.
        other_layers: Lines of other layers that tell of the same memory and were passed over, by layer.
        ooms: Out-of-memory messages; of a log of Paddle the first hundred, and the one that it is cut in.
        oom_messages: How many there are.
        distinct_ooms: How many different failures they tell of; one failure may be printed several times.
        figures_checked: Figures of the framework that could be compared with our sums.
        figures_agreeing: Those that agree.
        figures_explained: Those that differ for a reason that is not the log's (see the notes).
        first_disagreement: The first figure that disagrees and that nothing explains.
        ending: How the run ended, where the log says so: ``how`` (``exception``, ``death``), ``what``, ``line``.
    """

    ok: bool
    doubts: tuple[Doubt, ...]
    notes: tuple[Note, ...]
    path: str
    lines: int
    bytes: int
    events: int
    allocs: int
    frees: int
    reserves: int
    releases: int
    malformed: int
    malformed_samples: tuple[LineSample, ...]
    unknown_frees: int
    unknown_free_bytes: int
    double_allocs: int
    double_alloc_bytes: int
    size_mismatches: int
    cut_short: str
    ends_mid_line: bool
    threads: int
    processes: tuple[tuple[int, ...], ...]
    unstamped: int
    layer: str
    has_lines: bool
    other_layers: dict[str, int]
    ooms: tuple[OutOfMemory, ...]
    oom_messages: int
    distinct_ooms: int
    figures_checked: int
    figures_agreeing: int
    figures_explained: int
    first_disagreement: Disagreement | None
    ending: Ending | None = None

    @property
    def peak_may_be_earlier(self) -> bool:
        """Blocks were live before the first event, so the highest level may be one that the input does not hold."""
        return any(note.code in ("no_trace", "starts_late") for note in self.notes)

    @property
    def doubt_codes(self) -> frozenset[str]:
        """The doubts by their codes."""
        return frozenset(doubt.code for doubt in self.doubts)

    def summary(self) -> str:
        """One line: a clean log's whole report, or a doubtful one's doubts by name."""
        unit = ("line",) if self.has_lines else ("entry", "entries")
        held = f"{plural(self.events, 'event')} in {plural(self.lines, *unit)}"
        if self.has_lines:  # else bytes of the file say nothing of it
            held += f" ({format_bytes(self.bytes)})"
        if not self.ok:
            names = ", ".join(doubt.code.replace("_", " ") for doubt in self.doubts)
            return f"doubtful: {names}; {held}"
        parts = [f"ok: {held}"]
        if self.frees:
            parts.append("every FREE has its ALLOC")
        if self.figures_checked:
            agreeing = f"{self.figures_agreeing:,} of {plural(self.figures_checked, 'figure')} of the framework agree"
            parts.append(agreeing + (", the others are explained" if self.figures_explained else ""))
        return "; ".join(parts)


@contextmanager
def pairing_beside(log: EventLog) -> Iterator[None]:
    """Pair the events of a log in a thread of its own while the body does what needs no pairs; of a log of few events they are paired later."""
    if len(log) <= BATCH:
        yield
        return
    # Imported here, since a small log needs none of this.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, "memlens-pair") as thread:
        thread.submit(getattr, log, "free_anomalies")  # what fails there fails again where it is asked for
        yield


@once
def trust_of(log: EventLog) -> Trust:
    """The trust report of a log, by its columns, its pairs and the facts that its reader saw."""
    facts, anomalies, doubles = log.facts, log.free_anomalies, log.lifetimes.double_allocs
    counts = {
        **_counts(log),
        "unknown_frees": len(anomalies.unknown),
        "unknown_free_bytes": int(log.size[anomalies.unknown].sum()),
        "double_allocs": len(doubles),
        "double_alloc_bytes": _left_behind(log),
        "size_mismatches": len(anomalies.mismatched),
        "distinct_ooms": len(failures_of(log)),
    }
    found = {"unknown_frees": anomalies.unknown, "double_allocs": doubles, "size_mismatches": anomalies.mismatched}
    firsts = {name: int(events[0]) for name, events in found.items() if len(events)}
    most_above = 0
    if counts["allocs"] and counts["reserves"] and not firsts:
        above, most_above = _allocated_above_reserved(log)
        if above is not None:
            firsts["reserved_too_low"] = above
    lines = dict(zip(firsts, log.line_numbers(list(firsts.values())), strict=True))
    agreement = compare(log, counts)
    wrote = writers(log, agreement)
    case = Case(log, counts, lines, agreement, wrote, most_above)
    taken: dict[str, Any] = {**counts, **{name: getattr(facts, name) for name in _FROM_FACTS}}
    doubts = tuple(Doubt(code, *said) for code, rule in DOUBTS.items() for said in rule(case))
    return Trust(
        ok=not doubts,
        doubts=doubts,
        notes=tuple(Note(code, *said) for code, rule in NOTES.items() for said in rule(case)),
        path=log.source.name,
        events=len(log),
        **taken,
        oom_messages=facts.oom_messages,
        threads=len(facts.threads),
        processes=wrote.groups,
        figures_checked=agreement.checked,
        figures_agreeing=agreement.agreeing,
        figures_explained=agreement.missed_peaks + agreement.overtaken,
        first_disagreement=agreement.first,
    )


def _counts(log: EventLog) -> dict[str, int]:
    """The events of each kind."""
    counts = np.zeros(len(Kind), np.int64)
    for start, stop in walk(0, len(log)):
        counts += [np.count_nonzero(log.kind[start:stop] == kind) for kind in Kind]
    return dict(zip(_OF_KINDS, counts.tolist(), strict=True))


_OF_KINDS = ("allocs", "frees", "reserves", "releases")
#: What the report has of the facts as it stands there.
_FROM_FACTS = (set(Facts.__struct_fields__) & set(Trust.__struct_fields__)) - {"threads"}


def _left_behind(log: EventLog) -> int:
    """Bytes of the ALLOCs that a later ALLOC of the same address left without a FREE."""
    doubles = log.lifetimes.double_allocs
    if not len(doubles):
        return 0
    # The last such ALLOC of each address: what was there before it and was never freed is left behind.
    addr = log.addr[doubles]
    order = np.argsort(addr, kind="stable")
    last = order[np.append(addr[order][1:] != addr[order][:-1], True)]
    addr, last = addr[last], doubles[last]
    total, partner = 0, log.lifetimes.partner
    for start, stop in walk(0, int(doubles[-1])):
        unfreed = np.flatnonzero((log.kind[start:stop] == Kind.ALLOC) & (partner[start:stop] < 0)) + start
        unfreed = unfreed[np.argsort(log.addr[unfreed])]  # neighbours are looked up one after another: far fewer misses
        at = np.minimum(np.searchsorted(addr, log.addr[unfreed]), len(addr) - 1)
        behind = (addr[at] == log.addr[unfreed]) & (unfreed < last[at])
        total += int(log.size[unfreed[behind]].sum())
    return total


def _allocated_above_reserved(log: EventLog) -> tuple[int | None, int]:
    """The first event at which blocks hold more than chunks, if there is one, and by how many bytes they do at most."""
    first, most = None, 0
    for batch in log.batches():
        over = batch.allocated - batch.reserved
        highest = int(over.max())
        if highest > 0 and first is None:
            first = batch.lo + int((over > 0).argmax())
        most = max(most, highest)
    return first, most
