"""All that a comparison of two runs shows to people, most important first.

A pair of windows has figures side by side, findings, what only one run has, and the account down to the last byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from memlens.reports.blocks import Asked, Block, Column, Fold, Line, Table, Toned, Value, apart, cells, take
from memlens.reports.diff.findings import (
    UNTIMELY,
    account_blocks,
    effects_of,
    finding_blocks,
    other_findings,
    repeated_table,
)
from memlens.text import (
    Terms,
    format_change,
    format_count,
    format_explained,
    name_list,
    plural,
    short_name,
    terms_of,
)
from memlens.units import format_bytes, format_signed
from memlens.windows.windows import WHOLE

if TYPE_CHECKING:
    from memlens.diffing.finding import Finding
    from memlens.diffing.result import Approximation, Diff, RunSide, WindowDiff, WindowSide
    from memlens.trust import Trust

__all__ = ["OF_RUNS", "everything", "figures", "pair_head", "series_head"]

#: Findings, and rows of each list, where ``--top`` says nothing.
_TOP_OF_LISTS = 5
_TOP_OF_SERIES = 10

_WINDOW_COLUMNS = (
    Column("label", "Window", "name"),
    Column("d_remaining_bytes", "Δremaining", "signed", strong=True),
    Column("d_peak_bytes", "Δpeak", "signed", strong=True),
    Column("d_rise_bytes", "Δrise", "signed", strong=True),
    Column("base.remaining_bytes", "Base remaining", "bytes", drop=4),
    Column("head.remaining_bytes", "Head remaining", "bytes", drop=3),
    Column("base.peak_bytes", "Base peak", "bytes", drop=5),
    Column("head.peak_bytes", "Head peak", "bytes", drop=6),
    Column("base.start_line", "Base line", "count", drop=1),
    Column("head.start_line", "Head line", "count", drop=2),
)


#: Findings described in full, with the log lines around them; the others are rows of a table.
_KEPT = ("missing_free", "extra_free", "released")
#: Findings that say something of the peak only: the largest that raise or lower it as the whole window does are described in full.
_UNTIMELY_IN_FULL = 2
#: Blocks that make a pile, and sizes that the line about it names.
_PILE, _PARTS = 3, 4

#: Figures of whole runs.
OF_RUNS = ("peak_bytes", "live_bytes", "reserved_peak_bytes")
_FIGURES = (
    Column("figure", "", "word"),
    Column("base", "Base", "count"),
    Column("head", "Head", "count"),
    Column("difference", "Δ", "count", strong=True),
    Column("change", "Change", "count", drop=1),
)


def everything(diff: Diff, top: int | None) -> Iterator[Block]:
    """All that a comparison shows.

    Args:
        diff: What to show.
        top: Findings, and rows of each table; ``None`` for as many as make a page.
    """
    asked = Asked(_TOP_OF_LISTS if top is None else top, diff.min_size, terms_of(diff.base.trust.layer))
    if diff.series or len(diff.windows) != 1:
        return _series(diff, _TOP_OF_SERIES if top is None else top, asked)
    return _one_pair(diff, asked)


def pair_head(diff: Diff, terms: Terms) -> Iterator[Line]:
    """The two windows, and what to doubt of their logs."""
    window = diff.windows[0]
    for label, run, side in (("Base", diff.base, window.base), ("Head", diff.head, window.head)):
        name = run.path if side.name == WHOLE else f"{run.path}: {side.name}"
        yield Line(_lines(side, terms), "quiet", name, label)
        yield from _doubts(run.trust)
    yield from _notes(diff)


def _one_pair(diff: Diff, asked: Asked) -> Iterator[Block]:
    yield from pair_head(diff, asked.terms)
    yield from apart(*_window(diff.windows[0], asked))


def _lines(side: WindowSide, terms: Terms) -> str:
    return f"{terms.at(side.start_line)} to {format_count(side.end_line)}, {plural(side.events, 'event')}"


def _doubts(trust: Trust) -> Iterator[Line]:
    """The trust report of a log in short where it is in doubt or ran out of memory; nothing where neither is so."""
    if not trust.ok:
        yield Line(trust.summary(), "doubt", label=" ")
        yield Line("memlens analyze tells what that means for its figures.", "hint", label=" ")
    for note in trust.notes:
        if note.code == "out_of_memory":
            yield Line(note.message, "doubt", label=" ")


def _notes(diff: Diff) -> Iterator[Line]:
    if diff.factor is not None:
        yield Line(
            f"nearly all sizes of head are those of base times {diff.factor}. That is taken out: blocks of head are compared, and shown in "
            "findings, by the sizes of base that they stand for.",
            label="Factor",
        )
    for note in diff.notes:
        yield Line(note, "doubt", label="Note")


def series_head(diff: Diff) -> Iterator[Line]:
    """The two runs, the windows that they were cut into, and those that nothing is said of."""
    for label, run in (("Base", diff.base), ("Head", diff.head)):
        yield Line(plural(run.windows, "window"), "quiet", run.path, label)
        yield from _doubts(run.trust)
    yield from _notes(diff)
    found = ", a family of lines that both logs have" if diff.found_by else ""
    paired = ", paired by what they do" if diff.paired_by_work else ""
    yield Line(
        f"{plural(len(diff.windows), 'pair')} of windows by {diff.by or 'device'}{found}{paired}", label="Windows"
    )
    label = "Unpaired"
    for which, run in (("base", diff.base), ("head", diff.head)):
        if run.unpaired:
            yield Line(f"only in {which}: {name_list(run.unpaired)}", "doubt", label=label)
            label = " "
    yield from _open(diff)


def _series(diff: Diff, rows: int, asked: Asked) -> Iterator[Block]:
    yield from series_head(diff)
    if (table := figures(diff.base, diff.head, *OF_RUNS)).rows:
        yield from apart(table)
    differing = [window for window in diff.worst() if not window.alike]
    if not differing:
        yield from apart(_nothing_differs(diff))
        return
    yield _parting(diff, asked.terms)
    yield _together(diff, len(differing))
    yield None
    shown = cells(_WINDOW_COLUMNS, differing)
    yield take("", _WINDOW_COLUMNS, shown, len(differing), rows, "differing window", asked.terms)
    if diff.repeated:
        yield from apart(repeated_table(diff.repeated, len(diff.judged), rows, asked))
    if not asked.top:
        return
    # In the order of the run: what differs most is often what the first difference leads to.
    parting, worst = diff.parting, differing[0]
    if parting is not None and parting is not worst:
        yield from apart(*_in_full(parting, "is where the runs part first", asked))
    yield from apart(
        *_in_full(worst, "differs most" if parting is not worst else "is where the runs part, and differs most", asked)
    )


def _parting(diff: Diff, terms: Terms) -> Line:
    parting = diff.parting
    assert parting is not None
    where = f"base {terms.at(parting.base.start_line)}, head {terms.at(parting.head.start_line)}"
    return Line(f"the runs part first in {short_name(parting.label)} ({where}): {_effect(parting)}", label="Parting")


def _effect(window: WindowDiff) -> str:
    return f"Δremaining {format_signed(window.d_remaining_bytes)}, Δrise {format_signed(window.d_rise_bytes)}"


def _nothing_differs(diff: Diff) -> Line:
    count = len(diff.judged)
    every = "the one pair of windows is" if count == 1 else f"all {plural(count, 'pair')} of windows are"
    if all(window.same for window in diff.judged):
        return Line(f"No difference: {every} the same on both sides.", "good")
    parts = []
    for name, field in (("Δpeak", "d_peak_bytes"), ("Δreserved peak", "d_reserved_peak_bytes")):
        largest = max(diff.judged, key=lambda window: abs(getattr(window, field)))
        if change := getattr(largest, field):
            parts.append(f"the largest {name} is {format_signed(change)}, in {short_name(largest.label)}")
    return Line(f"The same work: {every} alike in all that they allocate and free; {'; '.join(parts)}.", "plain")


def _together(diff: Diff, differing: int) -> Line:
    total = sum(window.d_remaining_bytes for window in diff.judged)
    text = f"Δremaining {format_signed(total)}; {format_count(differing)} of {plural(len(diff.judged), 'window')}"
    return Line(f"{text} differ{'s' if len(diff.judged) == 1 else ''}", label="Together")


def _open(diff: Diff) -> Iterator[Line]:
    """The pairs that are not judged."""
    for window in diff.windows:
        if not window.judged:
            which = " and ".join(name for name, side in (("base", window.base), ("head", window.head)) if side.open_end)
            text = f"{short_name(window.label)} in {which}: {_effect(window)}; not judged"
            yield Line(text, "quiet", label="Open")


def _in_full(window: WindowDiff, what: str, asked: Asked) -> Iterator[Block]:
    yield Line(what, "heading", window.label)
    for label, side in (("Base", window.base), ("Head", window.head)):
        yield Line(_lines(side, asked.terms), "quiet", label=label)
    yield from apart(*_window(window, asked))


def _window(window: WindowDiff, asked: Asked) -> Iterator[Block]:
    """Everything that is shown of one pair of windows."""
    yield figures(window.base, window.head)
    yield from _approximation(window.approximation)
    if window.threads:
        yield from apart(
            Line(
                f"{plural(window.threads, 'thread')} of each run pair by what they do, and each is compared on its own, however they "
                "interleave",
                "quiet",
                label="Threads",
            )
        )
    if window.same or window.alike:
        alike = "every allocation has its partner in the other run, and both are freed alike."
        same = Line(f"No difference: {alike}", "good")
        yield from apart(same if window.same else Line(f"The same work: {alike} {_beside(window)}"))
        return
    findings = window.findings
    yield from apart(*_explained(window, findings))
    yield from _kept(findings, asked.terms)
    wanted = _in_detail(findings, window, asked)
    shown = wanted[: asked.top]
    for finding in shown:
        yield from apart(*finding_blocks(finding, window, asked.terms))
    if left := sum(map(_is_kept, findings)) - sum(map(_is_kept, shown)):
        yield from apart(Line(f"… and {plural(left, 'more finding')} (--top N shows more)", "quiet"))
    rest = [finding for finding in findings if not _is_kept(finding) and finding not in shown]
    tables, account = tuple(other_findings(rest, asked, example=not wanted)), tuple(account_blocks(window))
    if tables or account:
        what = [*(["what else differs"] if tables else []), *(["how the differences add up"] if account else [])]
        yield Fold(", ".join(what).capitalize(), (*tables, *account))


def _in_detail(findings: Sequence[Finding], window: WindowDiff, asked: Asked) -> list[Finding]:
    """The findings to describe in full, in their order: what is kept differently, and the first few that explain the peak."""
    untimely = [
        finding
        for finding in findings
        if finding.kind in UNTIMELY and finding.d_peak_bytes * window.rise_left_bytes > 0
    ]
    chosen = asked.large(untimely)[:_UNTIMELY_IN_FULL]
    return [finding for finding in asked.large(findings) if _is_kept(finding) or finding in chosen]


def _is_kept(finding: Finding) -> bool:
    return finding.kind in _KEPT or finding.fate == "to_end"


def _kept(findings: Sequence[Finding], terms: Terms) -> Iterator[Line]:
    """What one run keeps until the work of the window is done and the other does not: a leak that only the exit ends."""
    for which, kinds in (("head", ("late_free", "only_head")), ("base", ("early_free", "only_base"))):
        kept = [finding for finding in findings if finding.fate == "to_end" and finding.kind in kinds]
        blocks, size = sum(finding.count for finding in kept), sum(finding.total_bytes for finding in kept)
        if blocks < _PILE:
            continue
        sides = [finding.head if which == "head" else finding.base for finding in kept]
        lines = [side.alloc_line for side in sides if side is not None and side.alloc_line is not None]
        since = f", from {terms.at(min(lines))} on" if lines else ""
        parts = [f"{format_count(finding.count)} × {format_bytes(finding.size_bytes)}" for finding in kept[:_PARTS]]
        rest = f" and {format_count(len(kept) - _PARTS)} more" if len(kept) > _PARTS else ""
        yield Line(
            f"{which} keeps {plural(blocks, 'block')}, {format_bytes(size)}, until the work of the window is done{since}: "
            f"{', '.join(parts)}{rest}; {'base' if which == 'head' else 'head'} frees the like sooner, or has none",
            "doubt",
            label="Piling up",
        )


#: What stands side by side: its title, its figure of a side, and whether it is shown only where something is carried in.
_SIDE_BY_SIDE = (
    ("Peak", "peak_bytes", False),
    ("Rise", "rise_bytes", True),
    ("Carried in", "carried_in_bytes", True),
    ("Remaining", "remaining_bytes", False),
    ("Live at the end", "live_bytes", True),
    ("Reserved peak", "reserved_peak_bytes", False),
    ("Allocated", "alloc_bytes", False),
    ("Freed", "free_bytes", False),
    ("Allocs", "allocs", False),
    ("Frees", "frees", False),
)
#: Sums of what came and went, of which more is not worse.
_SUMS = frozenset({"alloc_bytes", "free_bytes", "allocs", "frees"})


def figures(base: WindowSide | RunSide, head: WindowSide | RunSide, *names: str) -> Table:
    """Figures of two windows, or of two runs, side by side: all that they know, or those named."""
    carried_in = getattr(base, "carried_in_bytes", 0) or getattr(head, "carried_in_bytes", 0)
    rows: list[tuple[Value, ...]] = []
    for title, name, only_carried in _SIDE_BY_SIDE:
        old, new = (getattr(side, name, None) for side in (base, head))
        if (
            old is None
            or new is None
            or (only_carried and not carried_in and not names)
            or name not in (names or (name,))
        ):
            continue
        write, signed = (format_bytes, format_signed) if name.endswith("_bytes") else (format_count, _signed_count)
        worse = 0 if name in _SUMS else new - old
        changes = (Toned.change(text, worse) for text in (signed(new - old), format_change(old, new)))
        rows.append((title, write(old), write(new), *changes))
    return Table("", _FIGURES, tuple(rows))


def _signed_count(change: int) -> str:
    return f"{change:+,}" if change else "0"


def _approximation(approximation: Approximation | None) -> Iterator[Block]:
    if approximation is None:
        return
    yield None
    where = f"{plural(approximation.allocs, 'ALLOC')} were aligned in {plural(approximation.pieces, 'piece')}"
    if not approximation.excess_bytes:
        yield Line(f"{where}, and this alignment is proved to be a cheapest one all the same", "plain", label="Exact")
        return
    lost = approximation.blind_allocs
    blind = f", {format_count(lost)} of them where nothing told where to cut" if lost else ""
    most = format_bytes(round(approximation.excess_bytes))
    yield Line(
        f"too large to be solved as a whole: {where}{blind}. The findings explain the differences to the byte, but a better "
        f"alignment may need fewer or smaller ones: this one costs at most {most} more than the cheapest.",
        "doubt",
        label="Approximate",
    )


def _explained(window: WindowDiff, findings: Sequence[Finding]) -> Iterator[Line]:
    moved = f"{plural(window.moved, 'block')} ({format_bytes(window.moved_bytes)})"
    also = _beside(window)
    if window.moved and not findings and not window.remaining_left_bytes and not window.rise_left_bytes:
        what = "The same work in another order" if also else "No difference but the order"
        yield Line(f"{what}: {moved} come in another order, and are freed alike. {also}".rstrip(), "good")
        return
    (remaining, left), (high, whole) = effects_of(window)
    parts = [
        _share(name, part, of, sum(1 for finding in findings if getattr(finding, effect)))
        for name, part, of, effect in (
            (remaining, window.remaining_explained_bytes, left, "d_remaining_bytes"),
            (high, window.peak_explained_bytes, whole, "d_peak_bytes"),
        )
        if of
    ]
    if parts:
        yield Line("; ".join(parts), "good", label="Explained")
    elif findings and all(finding.fate == "temporary" for finding in findings) and not also:
        sides = (("head", window.only_head_temporary_bytes), ("base", window.only_base_temporary_bytes))
        only = " and ".join(f"{format_bytes(size)} in {which} only" for which, size in sides if size)
        yield Line(f"No difference in what is kept: the runs differ in temporaries, {only}.", "good")
    else:
        yield Line(f"{remaining} and {high} are 0 B: what differs adds up to nothing.", "good")
    if window.moved:
        yield Line(f"{moved} come in another order, and are freed alike", "quiet", label="Moved")


def _beside(window: WindowDiff) -> str:
    """What differs though no block of the window tells it: what was carried in from earlier in the log, and what is reserved."""
    parts = [
        words.format(format_signed(change))
        for words, change in (
            ("the factor between the sizes makes {} of Δpeak", window.peak.factor_bytes),
            ("what is carried in differs by {}", window.peak.carried_in_bytes),
            ("the reserved peak differs by {}", window.d_reserved_peak_bytes),
        )
        if change
    ]
    text = " and ".join(parts)
    return f"{text[:1].upper()}{text[1:]}." if parts else ""


def _share(name: str, part: int, whole: int, findings: int) -> str:
    share = format_explained(part, whole)
    text = f"{share} of {name}" if share else f"{format_signed(part)} of {name} {format_signed(whole)}"
    return f"{text}, by {plural(findings, 'finding')}"
