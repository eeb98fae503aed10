"""The lists of a result: what is live at the peak, what is held, which sizes there are, what piles up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from memlens.analyzers.trend import MINIMUM
from memlens.reports.blocks import Block, Column, Figure, Figures, Line, Table, Value, take
from memlens.reports.generic import generic_blocks
from memlens.reports.text import format_count, format_share, plural
from memlens.units import format_bytes, format_signed

__all__ = ["Asked", "growth_blocks", "lists_of"]

_SIZE = Column("size_bytes", "Size", "bytes")
_COUNT = Column("count", "Count", "count")
_TOTAL = Column("total_bytes", "Total", "bytes", strong=True)
_SHARE = Column("share", "Share", "count", drop=3)
_FREED = Column("freed", "Freed", "word", drop=1)
_BORN = Column("first_line", "First line", "count", drop=2)
_PER_WINDOW = Column("bytes_per_window", "Per window", "bytes")
_IN_WINDOWS = Column("windows", "In windows", "count", drop=1)
_SIZES = (
    Column("low_bytes", "From", "bytes"),
    Column("below_bytes", "Below", "bytes"),
    Column("allocs", "Allocs", "count"),
    Column("alloc_bytes", "Allocated", "bytes", strong=True),
    Column("frees", "Frees", "count"),
    Column("free_bytes", "Freed", "bytes"),
)
_OWNER = Column("owner", "Owner", "name")


@dataclass(frozen=True)
class Asked:
    """What was asked of the lists of a window: rows, the smallest block, everything or one screen, and of what window."""

    top: int
    min_size: int
    full: bool
    whole: bool

    def large(self, groups: Sequence[Any]) -> list[Any]:
        """Those groups whose blocks are not too small to be listed."""
        return [group for group in groups if group.size_bytes >= self.min_size]


def lists_of(name: str, result: Any, asked: Asked) -> Iterator[Table | Line | Figures]:
    """The lists of one result of a window; nothing for results that are key figures only."""
    if name == "peak":
        yield from _live(result, asked)
    elif name == "unmatched":
        yield from _held(result, asked)
    elif name == "remaining" or (name == "stats" and not asked.full):
        return
    elif name == "stats":
        rows = [
            [row.low_bytes, row.high_bytes + 1, row.allocs, row.alloc_bytes, row.frees, row.free_bytes]
            for row in result.histogram
        ]
        yield take("Sizes", _SIZES, rows, len(rows), len(rows), "size")
    else:
        yield from generic_blocks(name, result, asked.top, asked.min_size)


def _live(peak: Any, asked: Asked) -> Iterator[Table | Line]:
    groups = peak.live
    total = sum(group.total_bytes for group in groups)
    if not groups:
        yield Line("Live at the peak: nothing.", "quiet")
        return
    title = f"Live at the peak: {format_bytes(total)} in {plural(sum(group.count for group in groups), 'block')}"
    owners = any(group.owner for group in groups)
    columns = (_SIZE, _COUNT, _TOTAL, _SHARE, *((_OWNER,) if owners else ()))
    rows = (
        (
            g.size_bytes,
            g.count,
            g.total_bytes,
            format_share(g.total_bytes, total),
            *((g.owner or "",) if owners else ()),
        )
        for g in asked.large(groups)
    )
    yield take(title, columns, rows, len(groups), asked.top, _kind_of_rows(owners))


def _held(unmatched: Any, asked: Asked) -> Iterator[Table | Line | Figures]:
    groups = unmatched.held
    place = "Held at the end" if asked.whole else "Held (allocated here, not freed here)"
    if not unmatched.held_allocs:
        yield Line(f"{place}: nothing; every block allocated here is freed here.", "good")
    else:
        title = f"{place}: {format_bytes(unmatched.held_bytes)} in {plural(unmatched.held_allocs, 'block')}"
        owners = any(group.owner for group in groups)
        # What the whole log holds at its end is never freed: the column would say nothing.
        columns = (
            *(_SIZE, _COUNT, _TOTAL, _SHARE, _BORN),
            *(() if asked.whole else (_FREED,)),
            *((_OWNER,) if owners else ()),
        )
        keys = [column.key for column in columns]
        rows = (_held_row(group, unmatched.held_bytes, keys) for group in asked.large(groups))
        yield take(title, columns, rows, len(groups), asked.top, _kind_of_rows(owners))
    if asked.full and (rest := _other_fates(unmatched)):
        yield Figures(tuple(rest))


def _held_row(group: Any, held_bytes: int, keys: Sequence[str]) -> tuple[Value, ...]:
    freed = group.freed
    if freed == "later" and group.first_free_line is not None:
        freed = f"later, line {format_count(group.first_free_line)}"
    made = {"share": format_share(group.total_bytes, held_bytes), "freed": freed, "owner": group.owner or ""}
    return tuple(made[key] if key in made else getattr(group, key) for key in keys)


def _other_fates(unmatched: Any) -> list[Figure]:
    found = [
        ("Released", unmatched.released_bytes, unmatched.released_frees, "free", "of blocks allocated before"),
        ("Unknown", unmatched.unknown_free_bytes, unmatched.unknown_frees, "free", "of blocks the log never allocated"),
        (
            "Mismatch",
            unmatched.mismatch_bytes,
            unmatched.size_mismatches,
            "pair",
            "whose alloc and free name two sizes",
        ),
    ]
    figures = [
        Figure(label, format_bytes(size), f"{plural(n, what)} {words}") for label, size, n, what, words in found if n
    ]
    if unmatched.double_allocs:
        figures.append(
            Figure("Doubled", "", f"{plural(unmatched.double_allocs, 'alloc')} of an address that was still live")
        )
    return figures


def growth_blocks(growth: Any, top: int) -> Iterator[Block]:
    """How memory develops over a series, and what piles up."""
    yield Line(_growth_words(growth), "doubt" if growth.verdict == "growing" else "plain", label="Growth")
    if not growth.piling:
        return
    owners = any(pile.owner for pile in growth.piling)
    columns = (_SIZE, _COUNT, _TOTAL, _PER_WINDOW, _IN_WINDOWS, *((_OWNER,) if owners else ()))
    rows = (
        (
            *(pile.size_bytes, pile.count, pile.total_bytes, round(pile.bytes_per_window), pile.windows),
            *((pile.owner or "",) if owners else ()),
        )
        for pile in growth.piling
    )
    yield None
    yield take("Piling up", columns, rows, len(growth.piling), top, _kind_of_rows(owners))


def _growth_words(growth: Any) -> str:
    judged = f"over {plural(growth.judged, 'window')} judged"
    if growth.open_end is not None:
        judged += f"; left out: {growth.open_end}, which runs to the end of the log"
    if growth.judged < MINIMUM:
        return f"not judged: {plural(growth.judged, 'window')}, {MINIMUM} are the fewest that tell anything"
    if growth.verdict == "growing":
        gained = f"{format_signed(round(growth.gained_bytes_per_window))} a window, {format_bytes(growth.gained_bytes)} in all"
        return f"growing from {growth.since} on: {gained}, {judged}"
    if growth.verdict == "swinging":
        return f"swinging within ±{format_bytes(growth.swing_bytes)} {judged}"
    if growth.verdict == "shrinking":
        return f"shrinking, {format_signed(round(growth.gained_bytes_per_window))} a window {judged}"
    return f"flat {judged}"


def _kind_of_rows(owners: bool) -> str:
    """What the rows of a list are: one a size, or one a size and owner."""
    return "group" if owners else "size"
