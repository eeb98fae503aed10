"""A comparison of two runs for people, as blocks that any form can show: the verdict, and all there is (``full``) or one screen.

The screen has figures side by side, the windows that cost most, and the finding that explains most with its log lines.  All there is comes most
important first; a pair of windows has figures side by side, findings, what only one run has, and the account down to the last byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from memlens.diffing.explaining import explained
from memlens.reports.blocks import Block, Column, Fold, Line, ListOptions, Table, Toned, Value, answered, apart
from memlens.reports.diff.findings import (
    account_blocks,
    around,
    effects_of,
    finding_blocks,
    finding_table,
    repeated_table,
)
from memlens.reports.terminal import SCREEN, Part, Size, one_screen
from memlens.text import (
    Terms,
    format_bytes,
    format_change,
    format_count,
    format_explained,
    format_signed,
    name_list,
    plural,
    short_name,
    terms_of,
)
from memlens.windows.windows import WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memlens.diffing.finding import Finding
    from memlens.diffing.result import Approximation, Diff, RemainingAccount, RunSide, WindowDiff, WindowSide
    from memlens.trust import Trust

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
#: Late or early Frees that are so as well: the largest that raise or lower the peak as the whole window does.
_UNTIMELY_IN_FULL = 2

#: Figures of whole runs.
_OF_RUNS = ("peak_bytes", "live_bytes", "reserved_peak_bytes")
_FIGURES = (
    Column("figure", "", "word"),
    Column("base", "Base", "count"),
    Column("head", "Head", "count"),
    Column("difference", "Δ", "count", strong=True),
    Column("change", "Change", "count", drop=1),
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
        return [*answered(diff.answer), None, *_everything(diff, top)]
    single = not diff.series and len(diff.windows) == 1
    options = ListOptions(_ROWS[0], diff.min_size, terms_of(diff.base.trust.has_lines))
    return one_screen(diff.answer, _pair(diff, options) if single else _series(diff, options), size)


def _pair(diff: Diff, options: ListOptions) -> Iterator[Part]:
    window = diff.windows[0]
    yield _head([*_pair_head(diff, options.terms)])
    shown = (_figures(window.base, window.head), _figures(window.base, window.head, *_OF_WINDOW))
    yield Part((*map(apart, shown), ()), 20)
    yield from _findings(diff, options)


def _series(diff: Diff, options: ListOptions) -> Iterator[Part]:
    yield _head([*_series_head(diff)])
    if (table := _figures(diff.base, diff.head, *_OF_RUNS)).rows:
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
        if diff.series and found.cause.window is not None:
            windows = plural(found.cause.windows, "window")
            others = f", the first of {windows} that have it" if found.cause.windows > 1 else ""
            blocks.insert(1, Line(f"in {short_name(found.cause.window)}{others}", "quiet"))
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
    return first and tuple(one.members) == tuple(other.members)


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


# -- all there is -------------------------------------------------------------------------------------------------------------


def _everything(diff: Diff, top: int | None) -> Iterator[Block]:
    """All that a comparison shows.

    Args:
        diff: What to show.
        top: Findings, and rows of each table; ``None`` for as many as make a page.
    """
    options = ListOptions(_TOP_OF_LISTS if top is None else top, diff.min_size, terms_of(diff.base.trust.has_lines))
    if diff.series or len(diff.windows) != 1:
        return _full_series(diff, _TOP_OF_SERIES if top is None else top, options)
    return iter((*_pair_head(diff, options.terms), None, *_window(diff.windows[0], options)))


def _pair_head(diff: Diff, terms: Terms) -> Iterator[Line]:
    """The two windows, and what to doubt of their logs."""
    window = diff.windows[0]
    for label, run, side in (("Base", diff.base, window.base), ("Head", diff.head, window.head)):
        name = run.path if side.name == WHOLE else f"{run.path}: {side.name}"
        yield Line(_lines(side, terms), "quiet", name, label)
        yield from _doubts(run.trust)
    yield from _notes(diff)


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
    for note in diff.notes:
        yield Line(note, "doubt", label="Note")


def _series_head(diff: Diff) -> Iterator[Line]:
    """The two runs, the windows that they were cut into, and those that nothing is said of."""
    for label, run in (("Base", diff.base), ("Head", diff.head)):
        yield Line(plural(run.windows, "window"), "quiet", run.path, label)
        yield from _doubts(run.trust)
    yield from _notes(diff)
    found = ", a family of lines that both logs have" if diff.found_by else ""
    ended = ", each ended by its line" if diff.ends else ""
    paired = ", paired by what they do" if diff.paired_by_work else ""
    pairs = f"{plural(len(diff.windows), 'pair')} of windows by {diff.by or 'device'}"
    yield Line(f"{pairs}{found}{ended}{paired}", label="Windows")
    label = "Unpaired"
    for which, run in (("base", diff.base), ("head", diff.head)):
        if run.unpaired:
            yield Line(f"only in {which}: {name_list(run.unpaired)}", "doubt", label=label)
            label = " "
    yield from _open(diff)


def _full_series(diff: Diff, rows: int, options: ListOptions) -> Iterator[Block]:
    yield from _series_head(diff)
    if (table := _figures(diff.base, diff.head, *_OF_RUNS)).rows:
        yield from apart(table)
    differing = [window for window in diff.worst() if not window.alike]
    if not differing:
        return
    yield _parting(diff, options.terms)
    count, judged = format_count(len(differing)), plural(len(diff.judged), "window")
    total = format_signed(sum(window.d_remaining_bytes for window in diff.judged))
    differ = "differs" if len(diff.judged) == 1 else "differ"
    yield Line(f"Δremaining {total}; {count} of {judged} {differ}", label="Together")
    yield None
    yield ListOptions(rows, terms=options.terms).table("", _WINDOW_COLUMNS, differing, "differing window")
    if diff.repeated:
        yield from apart(repeated_table(diff.repeated, len(diff.judged), replace(options, top=rows)))
    if not options.top:
        return
    # In the order of the run: what differs most is often what the first difference leads to.
    parting, worst = diff.parting, differing[0]
    if parting is not None and parting is not worst:
        yield from apart(*_in_full(parting, "is where the runs part first", options))
    what = "differs most" if parting is not worst else "is where the runs part, and differs most"
    yield from apart(*_in_full(worst, what, options))


def _parting(diff: Diff, terms: Terms) -> Line:
    parting = diff.parting
    assert parting is not None
    where = f"base {terms.at(parting.base.start_line)}, head {terms.at(parting.head.start_line)}"
    return Line(f"the runs part first in {short_name(parting.label)} ({where}): {_effect(parting)}", label="Parting")


def _effect(window: WindowDiff) -> str:
    return f"Δremaining {format_signed(window.d_remaining_bytes)}, Δrise {format_signed(window.d_rise_bytes)}"


def _open(diff: Diff) -> Iterator[Line]:
    """The pairs that are not judged."""
    for window in diff.windows:
        if not window.judged:
            which = " and ".join(name for name, side in (("base", window.base), ("head", window.head)) if side.open_end)
            text = f"{short_name(window.label)} in {which}: {_effect(window)}; not judged"
            yield Line(text, "quiet", label="Open")


def _in_full(window: WindowDiff, what: str, options: ListOptions) -> Iterator[Block]:
    yield Line(what, "heading", window.label)
    for label, side in (("Base", window.base), ("Head", window.head)):
        yield Line(_lines(side, options.terms), "quiet", label=label)
    yield from apart(*_window(window, options))


def _window(window: WindowDiff, options: ListOptions) -> Iterator[Block]:
    """Everything that is shown of one pair of windows."""
    yield _figures(window.base, window.head)
    if window.approximation is not None:
        yield from apart(_approximation(window.approximation))
    if window.threads:
        text = f"{plural(window.threads, 'thread')} of each run pair by what they do, and each is compared on its own"
        yield from apart(Line(text, "quiet", label="Threads"))
    if window.alike:
        return
    if explained := [*_explained(window)]:
        yield from apart(*explained)
    in_full = [finding for finding in _in_full_of(window) if finding.size_bytes >= options.min_size][: options.top]
    for finding in in_full:
        yield from apart(*finding_blocks(finding, effects_of(window), options.terms))
    rest = [finding for finding in window.findings if finding not in in_full]
    table = apart(finding_table(rest, options, wide=True)) if rest else ()
    if blocks := (*table, *account_blocks(window)):
        yield Fold("What else differs, and how the differences add up", blocks)


def _in_full_of(window: WindowDiff) -> Sequence[Finding]:
    """Return the findings to describe in full: kept differently, or the first few that explain the peak, else the largest."""
    untimely = [one for one in window.findings if one.untimely and one.d_peak_bytes * window.d_rise_bytes > 0]
    chosen = untimely[:_UNTIMELY_IN_FULL]
    return [one for one in window.findings if one.kind in _KEPT or one in chosen] or window.findings[:1]


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


def _figures(base: WindowSide | RunSide, head: WindowSide | RunSide, *names: str) -> Table:
    """Figures of two windows, or of two runs, side by side: all that they know, or those named."""
    carried_in = getattr(base, "carried_in_bytes", 0) or getattr(head, "carried_in_bytes", 0)
    rows: list[tuple[Value, ...]] = []
    for title, name, only_carried in _SIDE_BY_SIDE:
        old, new = (getattr(side, name, None) for side in (base, head))
        wanted = name in names if names else carried_in or not only_carried
        if old is None or new is None or not wanted:
            continue
        write, signed = (format_bytes, format_signed) if name.endswith("_bytes") else (format_count, _signed_count)
        worse = 0 if name in _SUMS else new - old
        changes = (Toned.change(text, worse) for text in (signed(new - old), format_change(old, new)))
        rows.append((title, write(old), write(new), *changes))
    return Table("", _FIGURES, tuple(rows))


def _signed_count(change: int) -> str:
    return f"{change:+,}" if change else "0"


def _approximation(approximation: Approximation) -> Line:
    where = f"{plural(approximation.allocs, 'ALLOC')} were aligned in {plural(approximation.pieces, 'piece')}"
    if not approximation.excess_bytes:
        return Line(f"{where}, and this alignment is proved to be a cheapest one all the same", label="Exact")
    lost = approximation.blind_allocs
    blind = f", {format_count(lost)} of them where nothing told where to cut" if lost else ""
    costs = f"it costs at most {format_bytes(round(approximation.excess_bytes))} more than the cheapest alignment"
    return Line(f"too large to be solved as a whole: {where}{blind}; {costs}", "doubt", label="Approximate")


def _explained(window: WindowDiff) -> Iterator[Line]:
    """Which share of the differences has a finding, and what only moved."""
    parts = [
        _share(name, part, whole, sum(1 for finding in window.findings if getattr(finding, effect)))
        for effect, name, whole, part in effects_of(window)
        if whole
    ]
    if parts:
        yield Line("; ".join(parts), "good", label="Explained")
    if window.moved:
        moved = f"{plural(window.moved, 'block')} ({format_bytes(window.moved_bytes)})"
        yield Line(f"{moved} come in another order, and are freed alike", "quiet", label="Moved")


def _share(name: str, part: int, whole: int, findings: int) -> str:
    share = format_explained(part, whole)
    text = f"{share} of {name}" if share else f"{format_signed(part)} of {name} {format_signed(whole)}"
    return f"{text}, by {plural(findings, 'finding')}"
