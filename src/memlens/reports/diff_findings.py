"""One finding of a comparison in words: what differs, where each run allocates and frees it, and the log lines around that place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from memlens.reports.blocks import Block, Column, Excerpt, Line, Quoted, Table, Value, take
from memlens.reports.diff_words import words_of
from memlens.reports.place_words import format_place, plural_places
from memlens.reports.text import format_count, format_exact, format_explained, plural
from memlens.units import format_bytes, format_signed

if TYPE_CHECKING:
    from memlens.diffing.finding import Finding, Side
    from memlens.diffing.result import Repeated, WindowDiff

__all__ = [
    "excerpt_of",
    "finding_blocks",
    "height_of",
    "left_of",
    "one_sided_table",
    "repeated_table",
    "untimely_table",
]

#: Further places of a finding of many blocks that are told; machine output has all.
_PLACES = 6

_SIZE = Column("size_bytes", "Size", "bytes", strong=True)
_COUNT = Column("count", "Count", "count")
_TOTAL = Column("total_bytes", "Total", "bytes", strong=True)
_SIDE = Column("side", "In", "word")
_D_REMAINING = Column("d_remaining_bytes", "Δremaining", "signed", strong=True)
_D_PEAK = Column("d_peak_bytes", "Δpeak", "signed", drop=1)
_ALLOC = Column("alloc_line", "ALLOC line", "count", drop=3)
_FREE = Column("free_line", "FREE line", "count", drop=4)
_LATER_BY = Column("late_by_allocs", "Later by ALLOCs", "count", drop=2)
_BASE_FREE = Column("base_free_line", "Base FREE", "count", drop=3)
_HEAD_FREE = Column("head_free_line", "Head FREE", "count", drop=4)
_OWNER = Column("owner", "Owner", "name")
_WHAT = Column("what", "What", "word")
_WINDOWS = Column("windows", "In windows", "count")
_BLOCKS = Column("count", "Count", "count", drop=2)
_FIRST = Column("first_window", "First in", "name", drop=3)
_LARGEST = Column("largest_d_peak_bytes", "Largest Δpeak", "signed", drop=1)
_LARGEST_IN = Column("largest_window", "in", "name", drop=4)


def finding_blocks(finding: Finding, window: WindowDiff) -> Iterator[Block]:
    """Everything about one finding, the log lines around its place included."""
    words = words_of(finding)
    yield Line(f"{words.title}: {_amount(finding)}", "heading")
    yield Line(f"{words.meaning}{_requested(finding)}", "quiet")
    if finding.owner:
        yield Line("", name=finding.owner, label="Owner")
    if finding.freed_by:
        yield Line("", name=finding.freed_by, label="Freed after")
    first = ""
    if finding.count > 1:
        first = f" (the first of {format_count(finding.count)})"
    for label, side in (("Base", finding.base), ("Head", finding.head)):
        yield Line(_without(finding) if side is None else f"{_fate(side)}{first}", label=label)
    if finding.count > 1 and (others := _others(finding)):
        yield Line(others, label="Also")
    if finding.late_by_allocs:
        meanwhile = f"{plural(finding.late_by_allocs, 'ALLOC')} ({format_bytes(finding.late_by_bytes or 0)})"
        yield Line(f"both runs make up to {meanwhile} between the one FREE and the other", label="Later by")
    yield Line(_effect(finding, window), label="Effect")
    if excerpt := excerpt_of(finding):
        yield excerpt


def _amount(finding: Finding) -> str:
    size = format_exact(finding.size_bytes)
    if finding.count == 1:
        return size
    return f"{format_count(finding.count)} × {size} = {format_bytes(finding.total_bytes)}"


def _requested(finding: Finding) -> str:
    asked = finding.requested_bytes
    return "" if asked is None or asked == finding.size_bytes else f"; the tensor asked for {asked} B"


def _without(finding: Finding) -> str:
    return "frees none like it in the window" if finding.kind == "released" else "has none like it"


def _fate(side: Side) -> str:
    parts = []
    if side.alloc_line is not None:
        parts.append(f"ALLOC {format_place(side.alloc_line)}")
    at = "" if side.free_line is None else f" {format_place(side.free_line)}"
    if side.freed == "in_window":
        parts.append(f"FREE{at}" if at else "freed in the window")
    elif side.freed == "later":
        parts.append(f"freed later, FREE{at}" if at else "freed later")
    else:
        parts.append("never freed")
    return ", ".join(parts)


def _others(finding: Finding) -> str:
    """Where the other blocks of the finding are told apart."""
    lines, what = [], ""
    for member in finding.members[1:]:
        side = member.base if finding.context_of == "base" else member.head
        if side is None:
            continue
        freed = side.freed == "in_window" and side.free_line is not None
        line = side.free_line if freed else side.alloc_line
        if line is not None:
            what = what or ("FREE" if freed else "ALLOC")
            lines.append(line)
    if not lines:
        return ""
    shown = ", ".join(map(format_count, lines[:_PLACES]))
    left = len(lines) - _PLACES
    more = f" and {format_count(left)} more" if left > 0 else ""
    return f"{finding.context_of}'s {what} {plural_places(len(lines))} {shown}{more}"


def _effect(finding: Finding, window: WindowDiff) -> str:
    effects = (
        (left_of(window)[0], finding.d_remaining_bytes, left_of(window)[1]),
        (height_of(window)[0], finding.d_peak_bytes, height_of(window)[1]),
    )
    parts = []
    for name, part, whole in effects:
        share = format_explained(part, whole) if part else ""
        if part:
            parts.append(f"{format_signed(part)} of {name}{f' ({share})' if share else ''}")
    return ", ".join(parts) or "none on Δremaining and Δpeak"


def height_of(window: WindowDiff) -> tuple[str, int]:
    """What findings explain of how high the runs go: Δpeak, or Δrise where blocks carried in from earlier in the log are no findings.

    A factor between the sizes is taken out, here as there.
    """
    by_factor = window.peak.factor_bytes
    name, whole = (
        ("Δrise", window.rise_left_bytes)
        if window.peak.carried_in_bytes
        else ("Δpeak", window.d_peak_bytes - by_factor)
    )
    return f"{name} beside the factor" if by_factor else name, whole


def left_of(window: WindowDiff) -> tuple[str, int]:
    """What findings explain of what the runs leave."""
    name = "Δremaining beside the factor" if window.remaining.factor_bytes else "Δremaining"
    return name, window.remaining_left_bytes


def excerpt_of(finding: Finding) -> Excerpt | None:
    """The log lines around the place that tells the runs apart; ``None`` where there is no text to show."""
    lines = finding.context
    if not lines:
        return None
    marked = {line.line for line in lines if line.is_event}
    frees = {side.free_line for side in (finding.base, finding.head) if side is not None}
    place = "FREE" if marked & frees else "ALLOC"
    title = f"{finding.context_of}'s log around this {place}:"
    return Excerpt(title, tuple(Quoted(line.line, line.text, line.is_event) for line in lines))


def one_sided_table(title: str, findings: Sequence[Finding], listed: Sequence[Finding], top: int) -> Table:
    """Blocks that only one of the runs allocates, or has at its peak, a row for those alike.

    Args:
        title: What they are.
        findings: All of them.
        listed: Those that are large enough to be listed.
        top: Rows to show.
    """
    owners = any(finding.owner for finding in listed[:top])
    columns = (_SIDE, _SIZE, _COUNT, _TOTAL, _D_PEAK, _ALLOC, _FREE, *((_OWNER,) if owners else ()))
    rows = (_one_sided_row(finding, owners) for finding in listed)
    return take(title, columns, rows, len(findings), top, "row")


def _one_sided_row(finding: Finding, owners: bool) -> tuple[Value, ...]:
    which = _which(finding)
    side = finding.head if which == "head" else finding.base
    places = (None, None) if side is None else (side.alloc_line, side.free_line)
    return (
        *(which, finding.size_bytes, finding.count, finding.total_bytes, finding.d_peak_bytes, *places),
        *((finding.owner or "",) if owners else ()),
    )


def _which(finding: Finding) -> str:
    """The run that has the blocks, or has them at its peak; of several blocks some may be the one's and some the other's."""
    if finding.kind != "elsewhere":
        return finding.kind.removeprefix("opening_").removeprefix("only_")
    return {finding.total_bytes: "head", -finding.total_bytes: "base"}.get(finding.d_peak_bytes, "either")


def untimely_table(findings: Sequence[Finding], listed: Sequence[Finding], top: int) -> Table:
    """Blocks that both runs free, one of them before its peak and the other after its own, or much later, a row for those alike.

    Args:
        findings: All of them.
        listed: Those that are large enough to be listed.
        top: Rows to show.
    """
    owners = any(finding.owner for finding in listed[:top])
    columns = (_WHAT, _SIZE, _COUNT, _TOTAL, _D_PEAK, _LATER_BY, _BASE_FREE, _HEAD_FREE, *((_OWNER,) if owners else ()))
    rows = (
        (
            *(words_of(one).short, one.size_bytes, one.count, one.total_bytes, one.d_peak_bytes, one.late_by_allocs),
            *(None if side is None else side.free_line for side in (one.base, one.head)),
            *((one.owner or "",) if owners else ()),
        )
        for one in listed
    )
    return take("Freed sooner in one run than in the other", columns, rows, len(findings), top, "row")


def repeated_table(rows: Sequence[Repeated], listed: Sequence[Repeated], windows: int, top: int) -> Table:
    """Findings of all windows, those alike in one row: ``3.38 MiB, kept by head, in 412 of 430 windows``."""
    owners = any(row.finding.owner for row in listed[:top])
    # Peaks of several windows are of several moments: the largest one is shown, and never a sum.
    high = any(row.largest_d_peak_bytes for row in listed[:top])
    columns = (
        *(_SIZE, _WHAT, _WINDOWS, _BLOCKS, _D_REMAINING),
        *((_LARGEST, _LARGEST_IN) if high else ()),
        _FIRST,
        *((_OWNER,) if owners else ()),
    )
    cells = (
        (
            row.finding.size_bytes,
            words_of(row.finding).short,
            f"{format_count(row.windows)} of {format_count(windows)}",
            *(row.count, row.d_remaining_bytes),
            *((row.largest_d_peak_bytes, row.largest_window or "") if high else ()),
            row.first_window,
            *((row.finding.owner or "",) if owners else ()),
        )
        for row in listed
    )
    return take("Findings over all windows", columns, cells, len(rows), top, "finding")
