"""The lists of a result: what is live at the peak, what is held, which sizes there are, what piles up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memlens.analyzers.trend import MINIMUM
from memlens.reports.blocks import Block, Column, Figure, Figures, Line, Table, Value, take
from memlens.reports.generic import generic_blocks
from memlens.reports.place_words import format_place, many_chunks
from memlens.reports.text import format_share, plural
from memlens.units import format_bytes, format_signed

if TYPE_CHECKING:
    from memlens.analyzing.result import WindowAnalysis

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
_MOMENTS = (
    Column("at", "At", "word"),
    Column("line", "Line", "count", drop=3),
    Column("reserved_bytes", "Reserved", "bytes"),
    Column("allocated_bytes", "Allocated", "bytes"),
    Column("free_bytes", "Free inside", "bytes", strong=True),
    Column("gaps", "Gaps", "count", drop=2),
    Column("largest_gap_bytes", "Largest gap", "bytes"),
    Column("requested_bytes", "Asked for", "bytes", drop=1),
)
_POOLS = (
    Column("at", "At", "word"),
    Column("pool", "Pool", "name"),
    Column("stream", "Stream", "count"),
    Column("reserved_bytes", "Reserved", "bytes"),
    Column("allocated_bytes", "Allocated", "bytes"),
    Column("gaps", "Gaps", "count", drop=2),
    Column("gap_bytes", "In gaps", "bytes", strong=True),
    Column("largest_gap_bytes", "Largest gap", "bytes"),
)
_GAPS = (
    Column("at", "At", "word"),
    Column("low_bytes", "From", "bytes"),
    Column("below_bytes", "Below", "bytes"),
    Column("gaps", "Gaps", "count"),
    Column("gap_bytes", "In gaps", "bytes", strong=True),
)
_AT = {"peak": "the peak", "end": "the end", "oom": "out of memory"}
_CANNOT = "cannot be told, for no line says which block it is about."


@dataclass(frozen=True)
class Asked:
    """What was asked of the lists of a window: rows, the smallest block, everything or one screen, and of what window.

    Attributes:
        paired: Lines say which block they are about, so that it can be told which blocks are live.
    """

    top: int
    min_size: int
    full: bool
    window: WindowAnalysis
    paired: bool = True

    def large(self, groups: Sequence[Any]) -> list[Any]:
        """Those groups whose blocks are not too small to be listed."""
        return [group for group in groups if group.size_bytes >= self.min_size]


def lists_of(name: str, result: Any, asked: Asked) -> Iterator[Table | Line | Figures]:
    """The lists of one result of a window; nothing for results that are key figures only."""
    if name == "peak":
        yield from _live(result, asked)
    elif name == "unmatched":
        yield from _held(result, asked)
    elif name == "segments":
        yield from _chunks(result, asked)
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


def _chunks(segments: Any, asked: Asked) -> Iterator[Table]:
    """What is free inside chunks; on the first screen only where an allocation failed."""
    moments = segments.moments
    if not moments or not (asked.full or any(moment.at == "oom" for moment in moments)):
        return
    asks = any(moment.requested_bytes is not None for moment in moments)
    columns = [column for column in _MOMENTS if asks or column.key != "requested_bytes"]
    # The peak and the end, which come first, are always shown.
    most = max(asked.top, 3)
    shown = sorted(moments[:most], key=lambda moment: -1 if moment.event is None else moment.event)
    rows = [
        [_AT[moment.at] if column.key == "at" else getattr(moment, column.key) for column in columns]
        for moment in shown
    ]
    yield take(f"Free inside {many_chunks()}", columns, rows, len(moments), len(rows), "failure")
    if not asked.full:
        return
    if segments.pools:
        private = any(pool.pool is not None for pool in segments.pools)
        columns = [column for column in _POOLS if private or column.key != "pool"]
        rows = [
            [_AT[moments[pool.moment].at] if column.key == "at" else getattr(pool, column.key) for column in columns]
            for pool in segments.pools
            if pool.moment < most
        ]
        yield take(
            "By pool and stream" if private else "By stream", columns, rows, len(segments.pools), len(rows), "row"
        )
    if segments.histogram:
        rows = [
            [_AT[moments[row.moment].at], row.low_bytes, row.high_bytes + 1, row.gaps, row.gap_bytes]
            for row in segments.histogram
            if row.moment < most
        ]
        yield take("Gaps by size", _GAPS, rows, len(segments.histogram), len(rows), "row")


def _live(peak: Any, asked: Asked) -> Iterator[Table | Line]:
    groups = peak.live
    total = sum(group.total_bytes for group in groups)
    if not asked.paired:
        yield Line(f"Live at the peak: {_CANNOT}", "doubt")
        return
    if not groups:
        yield Line("Live at the peak: nothing.", "quiet")
        yield from _off_level(0, peak.peak_bytes)
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
    yield from _off_level(total, peak.peak_bytes)


def _off_level(total: int, level: int) -> Iterator[Line]:
    """Why listed blocks do not add up to a level that stands on the same screen; nothing in a sound log."""
    if total != level:
        yield Line(
            f"The level is {format_bytes(level)}: FREEs that have no ALLOC in the log, or another size than it, change the level"
            " by bytes of none of these blocks.",
            "doubt",
        )


def _held(unmatched: Any, asked: Asked) -> Iterator[Table | Line | Figures]:
    whole, first = asked.window.whole, asked.window.starts_input
    # Where nothing else is carried in, the opening blocks make the list all that is live at the end.
    opening = unmatched.opening if first else ()
    size = unmatched.held_bytes + sum(group.total_bytes for group in opening)
    place = "Held at the end" if whole else "Held at its end" if opening else "Held (allocated here, not freed here)"
    if not asked.paired:
        yield Line(f"{place}: {_CANNOT}", "doubt")
        return
    if unmatched.held or opening:
        yield _held_table(place, unmatched, opening, size, asked)
    elif carried := unmatched.opening_bytes + unmatched.earlier_bytes:
        yield Line(f"{place}: nothing; {format_bytes(carried)} carried in is still live at its end.")
    else:
        yield Line(f"{place}: nothing; every block allocated here is freed here.", "good")
    if first:
        yield from _off_level(size, size - unmatched.unknown_free_bytes + unmatched.mismatch_bytes)
    if asked.full and (rest := _other_fates(unmatched)):
        yield Figures(tuple(rest))


def _held_table(place: str, unmatched: Any, opening: Sequence[Any], size: int, asked: Asked) -> Table:
    """The blocks held, and those from before the input where they count: ``size`` bytes together."""
    groups = sorted((*unmatched.held, *opening), key=lambda group: (-group.total_bytes, group.first_event))
    title = f"{place}: {format_bytes(size)} in {plural(sum(group.count for group in groups), 'block')}"
    if opening:
        part = f"{format_bytes(unmatched.opening_bytes)} of it" if unmatched.held else "all of it"
        title += f", {part} from before the input"
    owners = any(group.owner for group in groups)
    columns = (
        *(_SIZE, _COUNT, _TOTAL, _SHARE),
        *((_BORN,) if unmatched.held else ()),  # opening blocks have no line
        *(() if asked.window.whole else (_FREED,)),  # what the whole log holds at its end is never freed
        *((_OWNER,) if owners else ()),
    )
    keys = [column.key for column in columns]
    rows = (_held_row(group, size, keys) for group in asked.large(groups))
    return take(title, columns, rows, len(groups), asked.top, _kind_of_rows(owners))


def _held_row(group: Any, held_bytes: int, keys: Sequence[str]) -> tuple[Value, ...]:
    freed = group.freed
    if freed == "later" and group.first_free_line is not None:
        freed = f"later, {format_place(group.first_free_line)}"
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
