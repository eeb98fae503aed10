"""What a comparison of two runs shows to people, most important first, as blocks that any form can show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from memlens.reports.blocks import Block, Column, Line, Value, take
from memlens.reports.diff_findings import repeated_table
from memlens.reports.diff_window import Asked, window_blocks
from memlens.reports.place_words import format_place, in_words_of
from memlens.reports.text import format_count, plural, shorten, visible
from memlens.reports.trust_lines import doubt_lines
from memlens.units import format_signed

if TYPE_CHECKING:
    from memlens.diffing.result import Diff, RunSide, WindowDiff, WindowSide

__all__ = ["diff_blocks"]

#: Findings, and rows of each list, where ``--top`` says nothing.
_TOP_OF_LISTS = 5
_TOP_OF_SERIES = 10
#: Windows without a partner that are named, and how long a name may be among others.
_MOST_NAMES = 6
_WIDEST_NAME = 40
_WHOLE = "(whole log)"

_WINDOW_COLUMNS = (
    Column("name", "Window", "name"),
    Column("d_remaining_bytes", "Δremaining", "signed", strong=True),
    Column("d_peak_bytes", "Δpeak", "signed", strong=True),
    Column("d_rise_bytes", "Δrise", "signed", strong=True),
    Column("base_remaining_bytes", "Base remaining", "bytes", drop=4),
    Column("head_remaining_bytes", "Head remaining", "bytes", drop=3),
    Column("base_peak_bytes", "Base peak", "bytes", drop=5),
    Column("head_peak_bytes", "Head peak", "bytes", drop=6),
    Column("base_start_line", "Base line", "count", drop=1),
    Column("head_start_line", "Head line", "count", drop=2),
)


def diff_blocks(diff: Diff, *, top: int | None = None) -> list[Block]:
    """Everything a comparison shows.

    Args:
        diff: What to show.
        top: Findings, and rows of each table; ``None`` for as many as make a page.
    """
    asked = Asked(_TOP_OF_LISTS if top is None else top, diff.min_size)
    with in_words_of(diff.base.trust.layer):
        if diff.series or len(diff.windows) != 1:
            return list(_series(diff, _TOP_OF_SERIES if top is None else top, asked))
        return list(_one_pair(diff, asked))


def _one_pair(diff: Diff, asked: Asked) -> Iterator[Block]:
    window = diff.windows[0]
    for label, run, side in (("Base", diff.base, window.base), ("Head", diff.head, window.head)):
        yield _place(label, run, side)
        yield from doubt_lines(run.trust, " ")
    yield from _notes(diff)
    yield None
    yield from window_blocks(window, asked)


def _place(label: str, run: RunSide, side: WindowSide) -> Line:
    name = run.path if side.name == _WHOLE else f"{run.path}: {side.name}"
    return Line(_lines(side), "quiet", name, label)


def _lines(side: WindowSide) -> str:
    return f"{format_place(side.start_line)} to {format_count(side.end_line)}, {plural(side.events, 'event')}"


def _notes(diff: Diff) -> Iterator[Line]:
    if diff.factor is not None:
        yield Line(
            f"nearly all sizes of head are those of base times {diff.factor}. That is taken out: blocks of head are compared, and shown in "
            "findings, by the sizes of base that they stand for.",
            label="Factor",
        )
    for note in diff.notes:
        yield Line(note, "doubt", label="Note")


def _series(diff: Diff, rows: int, asked: Asked) -> Iterator[Block]:
    for label, run in (("Base", diff.base), ("Head", diff.head)):
        yield Line(plural(run.windows, "window"), "quiet", run.path, label)
        yield from doubt_lines(run.trust, " ")
    yield from _notes(diff)
    found = ", a family of lines that both logs have" if diff.found_by else ""
    paired = ", paired by what they do" if diff.paired_by_work else ""
    yield Line(
        f"{plural(len(diff.windows), 'pair')} of windows by {diff.by or 'device'}{found}{paired}", label="Windows"
    )
    label = "Unpaired"
    for which, run in (("base", diff.base), ("head", diff.head)):
        if run.unpaired:
            yield Line(f"only in {which}: {_names(run.unpaired)}", "doubt", label=label)
            label = " "
    yield from _open(diff)
    differing = [window for window in diff.worst() if not window.alike]
    if not differing:
        yield None
        yield _nothing_differs(diff)
        return
    yield _parting(diff)
    yield _together(diff, len(differing))
    yield None
    yield take("", _WINDOW_COLUMNS, map(_row, differing), len(differing), rows, "differing window")
    if diff.repeated:
        listed = [row for row in diff.repeated if row.finding.size_bytes >= asked.min_size]
        yield None
        yield repeated_table(diff.repeated, listed, len(diff.judged), rows)
    if not asked.top:
        return
    # In the order of the run: what differs most is often what the first difference leads to.
    parting, worst = diff.parting, differing[0]
    if parting is not None and parting is not worst:
        yield None
        yield from _in_full(parting, "is where the runs part first", asked)
    yield None
    yield from _in_full(
        worst, "differs most" if parting is not worst else "is where the runs part, and differs most", asked
    )


def _parting(diff: Diff) -> Line:
    parting = diff.parting
    assert parting is not None
    where = f"base {format_place(parting.base.start_line)}, head {format_place(parting.head.start_line)}"
    effect = f"Δremaining {format_signed(parting.d_remaining_bytes)}, Δrise {format_signed(parting.d_rise_bytes)}"
    name = shorten(visible(parting.label), _WIDEST_NAME)
    return Line(f"the runs part first in {name} ({where}): {effect}", label="Parting")


def _nothing_differs(diff: Diff) -> Line:
    every = _all(len(diff.judged))
    if all(window.same for window in diff.judged):
        return Line(f"No difference: {every} the same on both sides.", "good")
    parts = []
    for name, differences in (
        ("Δpeak", [window.d_peak_bytes for window in diff.judged]),
        ("Δreserved peak", [window.d_reserved_peak_bytes for window in diff.judged]),
    ):
        largest = max(range(len(differences)), key=lambda k: abs(differences[k]))
        if differences[largest]:
            where = shorten(visible(diff.judged[largest].label), _WIDEST_NAME)
            parts.append(f"the largest {name} is {format_signed(differences[largest])}, in {where}")
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
            effect = f"Δremaining {format_signed(window.d_remaining_bytes)}, Δrise {format_signed(window.d_rise_bytes)}"
            name = shorten(visible(window.label), _WIDEST_NAME)
            yield Line(f"{name} in {which}: {effect}; not judged", "quiet", label="Open")


def _row(window: WindowDiff) -> tuple[Value, ...]:
    base, head = window.base, window.head
    return (
        *(window.label, window.d_remaining_bytes, window.d_peak_bytes, window.d_rise_bytes),
        *(base.remaining_bytes, head.remaining_bytes, base.peak_bytes, head.peak_bytes),
        *(base.start_line, head.start_line),
    )


def _in_full(window: WindowDiff, what: str, asked: Asked) -> Iterator[Block]:
    yield Line(what, "heading", window.label)
    for label, side in (("Base", window.base), ("Head", window.head)):
        yield Line(_lines(side), "quiet", label=label)
    yield None
    yield from window_blocks(window, asked)


def _all(count: int) -> str:
    return "the one pair of windows is" if count == 1 else f"all {plural(count, 'pair')} of windows are"


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(shorten(visible(name), _WIDEST_NAME) for name in names[:_MOST_NAMES])
    left = len(names) - _MOST_NAMES
    return shown + (f" and {format_count(left)} more" if left > 0 else "")
