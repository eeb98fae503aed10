"""A pair of windows compared: figures side by side, findings, what only one run has, and the account down to the last byte."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memlens.reports.blocks import Block, Column, Fold, Line, Table, Value
from memlens.reports.diff_findings import (
    excerpt_of,
    finding_blocks,
    height_of,
    left_of,
    one_sided_table,
    untimely_table,
)
from memlens.reports.place_words import format_place
from memlens.reports.text import format_change, format_count, format_explained, plural
from memlens.units import format_bytes, format_signed

if TYPE_CHECKING:
    from memlens.diffing.finding import Finding
    from memlens.diffing.result import Approximation, WindowDiff

__all__ = ["Asked", "window_blocks"]

#: Findings told in full, with the log lines around them; the others are rows of a table.
_KEPT = ("missing_free", "extra_free", "released")
#: Findings that say something of the peak only: the largest that raise or lower it as the whole window does are told in full.
_UNTIMELY = ("late_free", "early_free")
_UNTIMELY_IN_FULL = 2
#: Blocks that make a pile, and sizes that the line about it names.
_PILE, _PARTS = 3, 4

_FIGURES = (
    Column("figure", "", "word"),
    Column("base", "Base", "count"),
    Column("head", "Head", "count"),
    Column("difference", "Δ", "count", strong=True),
    Column("change", "Change", "count", drop=1),
)
_TERM = Column("term", "Adding up", "word")
_D_REMAINING = Column("d_remaining_bytes", "Δremaining", "signed")
_D_PEAK = Column("d_peak_bytes", "Δpeak", "signed")


@dataclass(frozen=True)
class Asked:
    """What was asked of lists: rows, and the smallest block."""

    top: int
    min_size: int

    def large(self, findings: Sequence[Finding]) -> list[Finding]:
        """Those findings whose blocks are not too small to be listed."""
        return [finding for finding in findings if finding.size_bytes >= self.min_size]


def window_blocks(window: WindowDiff, asked: Asked) -> Iterator[Block]:
    """Everything that is shown of one pair of windows."""
    yield _figures(window)
    yield from _approximation(window.approximation)
    if window.threads:
        yield None
        yield Line(
            f"{plural(window.threads, 'thread')} of each run pair by what they do, and each is compared on its own, however they "
            "interleave",
            "quiet",
            label="Threads",
        )
    if window.same:
        yield None
        yield Line(
            "No difference: every allocation has its partner in the other run, and both are freed alike.", "good"
        )
        return
    if window.alike:
        yield None
        yield Line(
            f"The same work: every allocation has its partner in the other run, and both are freed alike. {_beside(window)}",
            "plain",
        )
        return
    findings = window.findings
    yield None
    yield from _explained(window, findings)
    yield from _kept(findings)
    wanted = _to_tell(findings, window, asked)
    told = wanted[: asked.top]
    for finding in told:
        yield None
        yield from finding_blocks(finding, window)
    if left := sum(map(_is_kept, findings)) - sum(map(_is_kept, told)):
        yield None
        yield Line(f"… and {plural(left, 'more finding')} (--top N shows more)", "quiet")
    rest = [finding for finding in findings if not _is_kept(finding) and finding not in told]
    tables, account = tuple(_tables(rest, asked, example=not wanted)), tuple(_account(window))
    if tables or account:
        what = [*(["what else differs"] if tables else []), *(["how the differences add up"] if account else [])]
        yield Fold(", ".join(what).capitalize(), (*tables, *account))


def _to_tell(findings: Sequence[Finding], window: WindowDiff, asked: Asked) -> list[Finding]:
    """The findings to tell in full, in their order: what is kept differently, and the first few that explain the peak."""
    untimely = [
        finding
        for finding in findings
        if finding.kind in _UNTIMELY and finding.d_peak_bytes * window.rise_left_bytes > 0
    ]
    chosen = asked.large(untimely)[:_UNTIMELY_IN_FULL]
    return [finding for finding in asked.large(findings) if _is_kept(finding) or finding in chosen]


def _is_kept(finding: Finding) -> bool:
    return finding.kind in _KEPT or finding.fate == "to_end"


def _kept(findings: Sequence[Finding]) -> Iterator[Line]:
    """What one run keeps until the work of the window is done and the other does not: a leak that only the exit ends."""
    for which, kinds in (("head", ("late_free", "only_head")), ("base", ("early_free", "only_base"))):
        kept = [finding for finding in findings if finding.fate == "to_end" and finding.kind in kinds]
        blocks, size = sum(finding.count for finding in kept), sum(finding.total_bytes for finding in kept)
        if blocks < _PILE:
            continue
        sides = [finding.head if which == "head" else finding.base for finding in kept]
        lines = [side.alloc_line for side in sides if side is not None and side.alloc_line is not None]
        since = f", from {format_place(min(lines))} on" if lines else ""
        parts = [f"{format_count(finding.count)} × {format_bytes(finding.size_bytes)}" for finding in kept[:_PARTS]]
        rest = f" and {format_count(len(kept) - _PARTS)} more" if len(kept) > _PARTS else ""
        yield Line(
            f"{which} keeps {plural(blocks, 'block')}, {format_bytes(size)}, until the work of the window is done{since}: "
            f"{', '.join(parts)}{rest}; {'base' if which == 'head' else 'head'} frees the like sooner, or has none",
            "doubt",
            label="Piling up",
        )


def _figures(window: WindowDiff) -> Table:
    base, head = window.base, window.head
    carried_in = bool(base.carried_in_bytes or head.carried_in_bytes)
    rows: list[tuple[Value, ...]] = [
        (title, format_bytes(old), format_bytes(new), format_signed(new - old), format_change(old, new))
        for title, old, new in (
            ("Peak", base.peak_bytes, head.peak_bytes),
            *([("Rise", base.rise_bytes, head.rise_bytes)] if carried_in else []),
            *([("Carried in", base.carried_in_bytes, head.carried_in_bytes)] if carried_in else []),
            ("Remaining", base.remaining_bytes, head.remaining_bytes),
            *([("Live at the end", base.live_bytes, head.live_bytes)] if carried_in else []),
            ("Reserved peak", base.reserved_peak_bytes, head.reserved_peak_bytes),
            ("Allocated", base.alloc_bytes, head.alloc_bytes),
            ("Freed", base.free_bytes, head.free_bytes),
        )
    ]
    rows += [
        (title, format_count(old), format_count(new), f"{new - old:+,}" if new != old else "0", format_change(old, new))
        for title, old, new in (("Allocs", base.allocs, head.allocs), ("Frees", base.frees, head.frees))
    ]
    return Table("", _FIGURES, tuple(rows))


def _approximation(approximation: Approximation | None) -> Iterator[Block]:
    if approximation is None:
        return
    yield None
    where = f"{plural(approximation.allocs, 'ALLOC')} were aligned in {plural(approximation.pieces, 'piece')}"
    if not approximation.excess_bytes:
        yield Line(f"{where}, and this alignment is proved to be a cheapest one all the same", "plain", label="Exact")
        return
    blind = ""
    if approximation.blind_allocs:
        blind = f", {format_count(approximation.blind_allocs)} of them where nothing told where to cut"
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
    (remaining, left), (name, whole) = left_of(window), height_of(window)
    parts = [
        _share(name, part, whole, sum(1 for effect in effects if effect))
        for name, part, whole, effects in (
            (
                remaining,
                window.remaining_explained_bytes,
                left,
                [finding.d_remaining_bytes for finding in findings],
            ),
            (name, window.peak_explained_bytes, whole, [finding.d_peak_bytes for finding in findings]),
        )
        if whole
    ]
    if parts:
        yield Line("; ".join(parts), "good", label="Explained")
    elif findings and all(finding.fate == "temporary" for finding in findings) and not also:
        sides = (("head", window.only_head_temporary_bytes), ("base", window.only_base_temporary_bytes))
        only = " and ".join(f"{format_bytes(size)} in {which} only" for which, size in sides if size)
        yield Line(f"No difference in what is kept: the runs differ in temporaries, {only}.", "good")
    else:
        yield Line(f"{remaining} and {name} are 0 B: what differs adds up to nothing.", "good")
    if window.moved:
        yield Line(f"{moved} come in another order, and are freed alike", "quiet", label="Moved")


def _beside(window: WindowDiff) -> str:
    """What differs though no block of the window tells it: what was carried in from earlier in the log, and what is reserved."""
    parts = []
    if factor := window.peak.factor_bytes:
        parts.append(f"the factor between the sizes makes {format_signed(factor)} of Δpeak")
    if carried := window.peak.carried_in_bytes:
        parts.append(f"what is carried in differs by {format_signed(carried)}")
    if reserved := window.d_reserved_peak_bytes:
        parts.append(f"the reserved peak differs by {format_signed(reserved)}")
    text = " and ".join(parts)
    return f"{text[:1].upper()}{text[1:]}." if parts else ""


def _share(name: str, part: int, whole: int, findings: int) -> str:
    share = format_explained(part, whole)
    said = f"{share} of {name}" if share else f"{format_signed(part)} of {name} {format_signed(whole)}"
    return f"{said}, by {plural(findings, 'finding')}"


def _tables(findings: Sequence[Finding], asked: Asked, *, example: bool) -> Iterator[Block]:
    """What is not told in full.

    Args:
        findings: Of any kind that has a table.
        asked: What was asked of lists.
        example: Nothing is told in full: show where the largest block that only one run holds comes from.
    """
    for title, kinds, fate in (
        ("Held, and only one run allocates it", ("only_head", "only_base"), "held"),
        ("Temporary, and only one run allocates it", ("only_head", "only_base"), "temporary"),
        ("Live at one of the two peaks only", ("elsewhere",), None),
        ("From before the input, and only one run has it", ("opening_only_head", "opening_only_base"), None),
    ):
        found = [finding for finding in findings if finding.kind in kinds and finding.fate == fate]
        if not found:
            continue
        listed = asked.large(found)
        yield None
        yield one_sided_table(title, found, listed, asked.top)
        if example and fate == "held" and listed[: asked.top] and (excerpt := excerpt_of(listed[0])):
            yield excerpt
    if untimely := [finding for finding in findings if finding.kind in _UNTIMELY]:
        yield None
        yield untimely_table(untimely, asked.large(untimely), asked.top)


def _account(window: WindowDiff) -> Iterator[Block]:
    remaining, peak = window.remaining, window.peak
    terms = (
        ("From before, only in head", None, peak.opening_only_head_bytes),
        ("From before, only in base", None, peak.opening_only_base_bytes),
        ("Carried in", None, peak.carried_in_bytes),
        ("Missing frees", remaining.missing_free_bytes, peak.missing_free_bytes),
        ("Extra frees", -remaining.extra_free_bytes, peak.extra_free_bytes),
        ("Only head allocates", remaining.only_head_held_bytes, peak.only_head_bytes),
        ("Only base allocates", -remaining.only_base_held_bytes, peak.only_base_bytes),
        ("Late frees", None, peak.late_free_bytes),
        ("Early frees", None, peak.early_free_bytes),
        ("Live at one peak only", None, peak.elsewhere_bytes),
        ("Older blocks freed", -remaining.d_released_bytes, peak.released_bytes),
        ("Frees without an ALLOC", -remaining.d_unknown_free_bytes, peak.unknown_free_bytes),
        ("Sizes that disagree", remaining.d_mismatch_bytes, peak.mismatch_bytes),
        ("Factor between the sizes", remaining.factor_bytes, peak.factor_bytes),
    )
    used: list[tuple[Value, ...]] = [term for term in terms if term[1] or term[2]]
    if not used:
        return
    rows = (
        *used,
        ("Sum", window.d_remaining_bytes, window.d_peak_bytes),
        ("Unexplained", remaining.unexplained_bytes, peak.unexplained_bytes),
    )
    yield None
    if any(term[2] for term in used):
        yield Table("", (_TERM, _D_REMAINING, _D_PEAK), rows)
    else:
        yield Table("", (_TERM, _D_REMAINING), tuple(row[:2] for row in rows))
