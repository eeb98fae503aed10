"""A comparison of two runs for people, as blocks that any form can show: the verdict, and all there is (``full``) or one screen.

The screen has figures side by side, the windows that cost most, and the finding that explains most with its log lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from memlens.diffing.explaining import explained
from memlens.reports.blocks import Block, Column, Line, ListOptions, Table, answered, apart
from memlens.reports.diff.findings import around, finding_blocks, finding_table, repeated_table
from memlens.reports.diff.full import OF_RUNS, everything, figures, pair_head, series_head
from memlens.reports.terminal import SCREEN, Part, Size, one_screen
from memlens.text import Terms, plural, short_name, terms_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memlens.diffing.finding import Finding
    from memlens.diffing.result import Diff, RemainingAccount, WindowDiff

_ROWS = (8, 5, 3, 2)
#: Lines around the one that a finding is told by, which say who should have freed a block; and how long they stay.
_AROUND, _OF_LOG_LINES = (100, 2, 1, 0, -1), (11, 19, 24, 25)
_OF_WINDOW = ("peak_bytes", "remaining_bytes", "live_bytes", "reserved_peak_bytes")

_WINDOWS = (
    Column("label", "Window", "name"),
    Column("windows", "Windows", "count"),
    Column("d_remaining_bytes", "Δremaining", "signed", strong=True),
    Column("d_rise_bytes", "Δrise", "signed", strong=True),
    Column("d_peak_bytes", "Largest Δpeak", "signed", strong=True),
    Column("head_line", "Head line", "count", drop=1),
)


def diff_blocks(diff: Diff, size: Size = SCREEN, *, top: int | None = None, full: bool = False) -> list[Block]:
    """The verdict of a comparison, and what it rests on.

    Args:
        diff: What to show.
        size: What one screen holds.
        top: Findings, and rows of each table; ``None`` for as many as fit.
        full: Show everything; without it, and without ``top``, all of it is one screen.
    """
    if full or top is not None:
        return [*answered(diff.answer), None, *everything(diff, top)]
    single = not diff.series and len(diff.windows) == 1
    options = ListOptions(_ROWS[0], diff.min_size, terms_of(diff.base.trust.has_lines))
    return one_screen(diff.answer, _pair(diff, options) if single else _series(diff, options), size)


def _pair(diff: Diff, options: ListOptions) -> Iterator[Part]:
    window = diff.windows[0]
    yield _head([*pair_head(diff, options.terms)])
    shown = (figures(window.base, window.head), figures(window.base, window.head, *_OF_WINDOW))
    yield Part((*map(apart, shown), ()), 20)
    yield from _findings(diff, options)


def _series(diff: Diff, options: ListOptions) -> Iterator[Part]:
    yield _head([*series_head(diff)])
    if (table := figures(diff.base, diff.head, *OF_RUNS)).rows:
        yield Part((apart(table), ()), 21)
    groups = [*_groups(diff.judged)]
    if groups:
        tables = (apart(_windows(groups, diff.judged, most, options.terms)) for most in _ROWS)
        yield Part((*tables, ()), (20, 21, 22, 23))
    yield from _findings(diff, options)


def _head(lines: Sequence[Line]) -> Part:
    """The two runs and what to know of them, less and less of it: notes go first, for the verdict has what matters of them."""
    noted = [line for line in lines if line.label != "Note" and line.style != "hint"]
    plain = [line for line in noted if line.style != "doubt"]
    runs = [line for line in plain if line.label in ("Base", "Head", "Windows")]
    return Part((lines, noted, plain, runs), 12)


def _findings(diff: Diff, options: ListOptions) -> Iterator[Part]:
    """The finding that explains most in full, and the others in rows."""
    found = explained(diff)
    best = None if found is None else found.cause.finding
    if found is not None and best is not None and best.size_bytes >= diff.min_size:
        effect = ("d_peak_bytes", "Δpeak") if found.at_peak else ("d_remaining_bytes", "Δremaining")
        whole = found.sign * found.whole
        blocks = [*finding_blocks(best, ((*effect, whole, whole),), options.terms)]
        if diff.series and found.cause.window >= 0:
            windows = plural(found.cause.windows, "window")
            others = f", the first of {windows} that have it" if found.cause.windows > 1 else ""
            blocks.insert(1, Line(f"in {short_name(diff.windows[found.cause.window].label)}{others}", "quiet"))
        yield Part(tuple(apart(*around(blocks, lines)) for lines in _AROUND), _OF_LOG_LINES)
    each = [replace(options, top=most) for most in _ROWS]
    if diff.series:
        tables = [repeated_table(diff.repeated, len(diff.judged), one, wide=False) for one in each if diff.repeated]
    else:
        found_too = [one for one in diff.windows[0].findings if best is None or not _same(one, best)]
        tables = [finding_table(found_too, one) for one in each if found_too]
    if tables:
        yield Part((*map(apart, tables), ()), 10)


def _same(one: Finding, other: Finding) -> bool:
    """Whether two findings are of the same blocks: their first ones tell most apart, and to list all takes as many lines to be looked up."""
    first = (one.base, one.head, one.count) == (other.base, other.head, other.count)
    return first and one.members == other.members


def _groups(windows: Sequence[WindowDiff]) -> Iterator[tuple[WindowDiff, ...]]:
    """Windows that differ by the same bytes in the same way, together: those that cost most first, before those that save."""
    alike: dict[tuple[RemainingAccount, int], list[WindowDiff]] = {}
    for window in windows:
        if not window.alike:
            alike.setdefault((window.remaining, window.d_rise_bytes), []).append(window)

    def order(group: Sequence[WindowDiff]) -> tuple[bool, int]:
        costs = [len(group) * group[0].d_remaining_bytes, group[0].d_rise_bytes]
        return max(costs) <= 0, -max(costs) if max(costs) > 0 else min(costs)

    yield from map(tuple, sorted(alike.values(), key=order))


def _windows(groups: Sequence[tuple[WindowDiff, ...]], judged: Sequence[WindowDiff], most: int, terms: Terms) -> Table:
    """A row for windows that differ alike."""
    place = {id(window): number for number, window in enumerate(judged)}

    def label(group: tuple[WindowDiff, ...]) -> str:
        first, last = group[0], group[-1]
        if first is last:
            return first.label
        together = place[id(last)] - place[id(first)] == len(group) - 1
        if together and len(group) > 2:
            return f"{first.label} to {last.label}"
        return f"{first.label}, {'' if len(group) == 2 else '…, '}{last.label}"

    return ListOptions(most, terms=terms).table(
        "",
        _WINDOWS,
        groups,
        "row",
        label=label,
        windows=len,
        d_remaining_bytes=lambda group: group[0].d_remaining_bytes,
        d_rise_bytes=lambda group: group[0].d_rise_bytes,
        d_peak_bytes=lambda group: max((window.d_peak_bytes for window in group), key=abs),
        head_line=lambda group: group[0].head.start_line,
    )
