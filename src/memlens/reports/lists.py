"""The lists of a result: what is live at the peak, what is held, which sizes there are, what piles up.

Results of other packages, and those without a screen of their own, are shown by the names of their fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from heapq import merge
from itertools import product
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from memlens.analyzers.composition import largest_share
from memlens.analyzers.groups import columns_of
from memlens.analyzers.series.shapes import MINIMUM
from memlens.analyzing.claims import growth_claim
from memlens.claims.roles import NOT_SEEN, OF_BACKWARD, ROLES, TEMPORARY, TOLD_BY, TWINS
from memlens.reports.blocks import ALIKE, OWNER, Column, Figure, Figures, Line, ListOptions, Table, Value, take
from memlens.results import plain, to_builtins
from memlens.text import format_bytes, format_share, format_signed, format_value, plural, short_name

if TYPE_CHECKING:
    from memlens.analyzing.result import WindowAnalysis

_SHARE = Column("share", "Share", "count", drop=3)
_FREED = Column("freed", "Freed", "word", drop=1)
_BORN = Column("first_line", "First line", "count", drop=2)
_PER_WINDOW = Column("bytes_per_window", "Per window", "bytes")
_IN_WINDOWS = Column("windows", "In windows", "count", drop=1)
_FROM, _BELOW = Column("low_bytes", "From", "bytes"), Column("below_bytes", "Below", "bytes")
_SIZES = (
    *(_FROM, _BELOW, Column("allocs", "Allocs", "count"), Column("alloc_bytes", "Allocated", "bytes", strong=True)),
    *(Column("frees", "Frees", "count"), Column("free_bytes", "Freed", "bytes")),
)
_WHEN = Column("at", "At", "word")
_RESERVED, _ALLOCATED = Column("reserved_bytes", "Reserved", "bytes"), Column("allocated_bytes", "Allocated", "bytes")
_FREE = Column("free_bytes", "Free inside", "bytes", strong=True)
_LARGEST_GAP = Column("largest_gap_bytes", "Largest gap", "bytes")
_IN_GAPS = Column("gap_bytes", "In gaps", "bytes", strong=True)
_GAPS = Column("gaps", "Gaps", "count", drop=2)
_LINE, _ASKED = Column("line", "Line", "count", drop=3), Column("requested_bytes", "Asked for", "bytes", drop=1)
_POOL, _STREAM = Column("pool", "Pool", "name"), Column("stream", "Stream", "count")
_MOMENTS = (_WHEN, _LINE, _RESERVED, _ALLOCATED, _FREE, _GAPS, _LARGEST_GAP, _ASKED)
_POOLS = (_WHEN, _POOL, _STREAM, _RESERVED, _ALLOCATED, _GAPS, _IN_GAPS, _LARGEST_GAP)
_GAP_SIZES = (_WHEN, _FROM, _BELOW, Column("gaps", "Gaps", "count"), _IN_GAPS)
#: How a log comes to name who allocates and who holds.
RECORD_NAMES = "For lines and variables: memlens record"
_AT = {"peak": "the peak", "end": "the end", "oom": "out of memory"}
#: What else becomes of blocks: their bytes, how many they are, and what one of them is.
_FATES = (
    ("Released", "released_bytes", "released_frees", "free", "of blocks allocated before"),
    ("Unknown", "unknown_free_bytes", "unknown_frees", "free", "of blocks the log never allocated"),
    ("Mismatch", "mismatch_bytes", "size_mismatches", "pair", "whose alloc and free name two sizes"),
    ("Doubled", "", "double_allocs", "alloc", "of an address that was still live"),
)
_CANNOT = "cannot be told, for no line says which block it is about."


def lists_of(
    name: str, result: Any, window: WindowAnalysis, options: ListOptions, *, full: bool, paired: bool
) -> Iterator[Table | Line | Figures]:
    """The lists of one result of a window; nothing for results that are key figures only.

    Args:
        name: The analyzer.
        result: What it gives.
        window: The window.
        options: The rows of lists, and the smallest block in them.
        full: Show everything, and not one screen.
        paired: Lines say which block they are about, so that the blocks that are live are known.
    """
    if name == "peak":
        if options.group == "owner":
            yield from _live(result, options, paired)
    elif name == "composition":
        yield from _composition(result, options, full=full)
    elif name == "activations":
        most = largest_share(window.results.get("composition"))
        if full or (most is not None and most.role == "saved"):
            yield from _activations(result, options, full=full)
    elif name == "unmatched":
        yield from _held(result, window, options, paired)
        if full and paired and (rest := tuple(_other_fates(result))):
            yield Figures(rest)
    elif name == "segments":
        # The first screen has what matters of it beside the peak and the failures.
        if full and result.moments:
            yield from _chunks(result, options)
    elif name == "stats" and full:
        every = ListOptions(len(result.histogram))
        yield every.table("Sizes", _SIZES, result.histogram, "size", below_bytes=lambda row: row.high_bytes + 1)
    elif name not in ("remaining", "stats"):
        yield from _generic(name, result, options)


def _chunks(segments: Any, options: ListOptions) -> Iterator[Table]:
    """The table of what is free inside chunks."""
    moments = segments.moments
    most = max(options.top, 3)  # the peak and the end, which come first, are always shown
    asks = any(moment.requested_bytes is not None for moment in moments)
    columns = [column for column in _MOMENTS if asks or column is not _ASKED]
    shown = sorted(moments[:most], key=lambda moment: -1 if moment.event is None else moment.event)
    title, some = f"Free inside {options.terms.chunk}s", ListOptions(most, terms=options.terms)
    made = {"at": lambda one: _AT[one.at], "requested_bytes": lambda one: one.requested_bytes or ""}
    yield some.table(title, columns, shown, "failure", len(moments), **made)
    private = any(pool.pool is not None for pool in segments.pools)
    pools = [column for column in _POOLS if private or column is not _POOL]
    for title, columns, found in (
        ("By pool and stream" if private else "By stream", pools, segments.pools),
        ("Gaps by size", list(_GAP_SIZES), segments.histogram),
    ):
        if found:
            kept = [row for row in found if row.moment < most]
            made = {"at": lambda row: _AT[moments[row.moment].at], "below_bytes": lambda row: row.high_bytes + 1}
            yield ListOptions(len(kept)).table(title, columns, kept, "row", len(found), **made)


def _live(peak: Any, options: ListOptions, paired: bool) -> Iterator[Table | Line]:
    groups = peak.live
    live = columns_of(groups)
    total = live.bytes
    if not paired:
        yield Line(f"Live at the peak: {_CANNOT}", "doubt")
        return
    if groups:
        title = f"Live at the peak: {format_bytes(total)} in {plural(live.blocks, 'block')}"
        columns, what = owned((*ALIKE, _SHARE), groups)
        yield options.table(title, columns, groups, what, share=partial(_share_of, total), holder=held_by)
    else:
        yield Line("Live at the peak: nothing.", "quiet")
    yield from _off_level(total, peak.peak_bytes)


def _composition(found: Any, options: ListOptions, *, full: bool) -> Iterator[Table | Line]:
    """What is live at the peak and at the end, by role or by holder; where neither is asked for by both, or on one screen the roles at the peak."""
    groups: tuple[str, ...] = (options.group,)
    moments = _LIVE
    if options.group == "owner":
        groups, moments = (("role", "holder"), _LIVE) if full else (("role",), _LIVE[:1])
    elif not (found.roles if options.group == "role" else found.holders):
        lacks = (
            "nothing tells the roles of its blocks"
            if options.group == "role"
            else "the log does not say who holds its blocks"
        )
        yield Line(f"Live by {options.group}: {lacks}. {RECORD_NAMES}.", "doubt")
    for group, (at, which) in product(groups, moments):
        if rows := [share for share in (found.roles if group == "role" else found.holders) if share.at == at]:
            total, blocks = sum(row.total_bytes for row in rows), sum(row.count for row in rows)
            if group not in (options.group, "holder") and 2 * sum(row.total_bytes for row in rows if row.role) < total:
                continue  # nobody asked, and most of it is not known
            told = "" if found.holders else f", told by {TOLD_BY[rows[0].told_by]}"
            title = f"{which} by {group}{told}: {format_bytes(total)} in {plural(blocks, 'block')}"
            made: dict[str, Any] = {"role": _role, "holder": held_by, "share": partial(_share_of, total)}
            columns = _SHARES[group] if found.holders else (*_OF_ROLES, replace(OWNER, drop=2))
            yield ListOptions(options.top).table(title, columns, rows, group, **made)
    if full and found.twins:
        title = "Exists twice at the peak"
        yield ListOptions(options.top).table(
            title, _OF_TWINS, found.twins, "kind", kind=_twin, once=_once, holder=held_by
        )


def _activations(found: Any, options: ListOptions, *, full: bool) -> Iterator[Table]:
    """What is saved for backward at the peak by line; and where all is asked for by layer, and what recomputing layers would leave."""
    saved = "Saved for backward at the peak"
    total, blocks = sum(row.total_bytes for row in found.lines), sum(row.count for row in found.lines)
    made: dict[str, Any] = {"layer": lambda row: row.layer or "none", "share": partial(_share_of, total)}
    for by, column, rows in (("line", OWNER, found.lines), ("layer", _LAYER, found.layers if full else ())):
        if rows:
            title = f"{saved} by {by}: {format_bytes(total)} in {plural(blocks, 'block')}"
            columns = [column, *_OF_SAVED, *([_WAITS_US] if any(row.waits_us is not None for row in rows) else [])]
            some = ListOptions(options.top if full else min(options.top, _FEW_LINES))
            yield some.table(title, columns, rows, by, **made)
    if full and found.recomputed:
        made = {"which": lambda row: _RECOMPUTED[row.which]}
        yield ListOptions(3).table(
            "The peak if layers were recomputed (an estimate)", _PEAKS, found.recomputed, "row", **made
        )


def _share_of(total: int, group: Any) -> Value:
    return format_share(group.total_bytes, total)


def _twin(twin: Any) -> Value:
    return TWINS[twin.kind][0]


def _once(twin: Any) -> Value:
    return TWINS[twin.kind][1]


def _role(share: Any) -> Value:
    return "not known" if share.role is None else ROLES[share.role]


def _off_level(total: int, level: int) -> Iterator[Line]:
    """Why listed blocks do not add up to a level that stands on the same screen; nothing in a sound log."""
    if total != level:
        yield Line(
            f"The level is {format_bytes(level)}: FREEs that have no ALLOC in the log, or another size than it, change the level"
            " by bytes of none of these blocks.",
            "doubt",
        )


def _held(unmatched: Any, window: WindowAnalysis, options: ListOptions, paired: bool) -> Iterator[Table | Line]:
    whole, first = window.whole, window.starts_input
    # Where nothing else is carried in, the opening blocks make the list all that is live at the end.
    opening = unmatched.opening if first else ()
    size = unmatched.held_bytes + (unmatched.opening_bytes if first else 0)
    which = "Held at the end" if whole else "Held at its end" if opening else "Held (allocated here, not freed here)"
    if not paired:
        yield Line(f"{which}: {_CANNOT}", "doubt")
        return
    if unmatched.held or opening:
        yield _held_table(which, unmatched, opening, size, options, whole)
    elif carried := unmatched.opening_bytes + unmatched.earlier_bytes:
        yield Line(f"{which}: nothing; {format_bytes(carried)} carried in is still live at its end.")
    else:
        yield Line(f"{which}: nothing; every block allocated here is freed here.", "good")
    if first:
        yield from _off_level(size, size - unmatched.unknown_free_bytes + unmatched.mismatch_bytes)


def _held_table(
    which: str, unmatched: Any, opening: Sequence[Any], size: int, options: ListOptions, whole: bool
) -> Table:
    """The blocks held, and those from before the input where they count: ``size`` bytes together."""
    groups = unmatched.held or opening
    if opening and unmatched.held:
        groups = list(merge(unmatched.held, opening, key=lambda group: (-group.total_bytes, group.first_event)))
    blocks = unmatched.held_allocs + (unmatched.opening_blocks if opening else 0)
    title = f"{which}: {format_bytes(size)} in {plural(blocks, 'block')}"
    if opening:
        part = f"{format_bytes(unmatched.opening_bytes)} of it" if unmatched.held else "all of it"
        title += f", {part} from before the input"
    born = (_BORN,) if unmatched.held else ()  # opening blocks have no line
    freed = () if whole else (_FREED,)  # what the whole log holds at its end is never freed
    columns, what = owned((*ALIKE, _SHARE, *born, *freed), groups)

    def when(group: Any) -> Value:
        later = group.freed == "later" and group.first_free_line is not None
        return f"later, {options.terms.at(group.first_free_line)}" if later else group.freed

    share = partial(_share_of, size)
    return options.table(title, columns, groups, what, freed=when, holder=held_by, share=share)


def _other_fates(unmatched: Any) -> Iterator[Figure]:
    for label, size, count, what, words in _FATES:
        if many := getattr(unmatched, count):
            yield Figure(label, format_bytes(getattr(unmatched, size)) if size else "", f"{plural(many, what)} {words}")


def growth_line(growth: Any) -> Line:
    """How memory develops over a series, in words."""
    words = _growth_words(growth)
    if growth.verdict != "growing":
        for what, since, gained in (
            ("the peaks grow", growth.peak_since, growth.peak_gained_bytes),
            ("reserved grows", growth.reserved_since, growth.reserved_gained_bytes),
        ):
            words += "" if since is None else f"; {what} from {short_name(since)} on, {format_signed(gained)}"
    grows = growth.verdict == "growing" or growth.peak_since or growth.reserved_since
    return Line(words, "bad" if grows else "plain", label="Growth")


def piling_table(growth: Any, options: ListOptions) -> Table:
    """The table of what piles up over a series."""
    held = any(pile.holder for pile in growth.piling[:_LOOKED_AT])
    roles = _OF_ROLES[: not held and any(pile.role for pile in growth.piling)]  # whose it is says what it is
    columns, what = owned((*ALIKE, _PER_WINDOW, _IN_WINDOWS, *roles), growth.piling)
    made = {"bytes_per_window": lambda pile: round(pile.bytes_per_window), "role": _role, "holder": held_by}
    return ListOptions(options.top).table("Piling up", columns, growth.piling, what, **made)


#: Who holds blocks, and the groups that are looked at for one.
HOLDER, _LOOKED_AT = Column("holder", "Held by", "name"), 20
#: Columns of what is saved for backward, and of peaks with some of it recomputed; and lines on one screen.
_LAYER = Column("layer", "Layer", "word")
_OF_SAVED = (
    Column("count", "Count", "count", drop=2),
    ALIKE[-1],
    _SHARE,
    Column("waits_events", "Waits, events", "count"),
)
_WAITS_US = Column("waits_us", "Time", "duration", drop=1)
_PEAKS = (
    Column("which", "Recomputed", "name"),
    Column("count", "Layers", "count"),
    Column("peak_bytes", "Peak", "bytes", strong=True),
)
_RECOMPUTED = {"first": "the first layer", "every_second": "every second layer", "all": "all layers"}
_FEW_LINES = 3
#: Columns of what is live by role and by holder, and at which moments it is.
_OF_ROLES = (Column("role", "Role", "name"), Column("count", "Count", "count"), ALIKE[-1], _SHARE)
_SHARES = {
    "role": (*_OF_ROLES, replace(HOLDER, title="Held by, for the most part", drop=2)),
    "holder": (HOLDER, *_OF_ROLES, replace(OWNER, drop=2)),
}
_OF_TWINS = (
    *(Column("kind", "What", "word"), Column("count", "Count", "count", drop=3), ALIKE[-1]),
    *(Column("peak_bytes", "Peak without", "bytes", strong=True), Column("once", "To have it once", "word", drop=1)),
    replace(HOLDER, drop=2),
)
_LIVE: tuple[tuple[str, str], ...] = (("peak", "Live at the peak"), ("end", "Held at the end"))
#: Holders that no path leads to, in a column.
_SHORT = dict.fromkeys((TEMPORARY, OF_BACKWARD), "(temporary)") | dict.fromkeys(NOT_SEEN, "(not seen)")


def held_by(group: Any) -> Value:
    """The path alone of who holds blocks, without its role and where it begins."""
    holder: str = group.holder or ""
    if holder in _SHORT:
        return _SHORT[holder]
    named, _, _ = holder.partition(" (")
    return named.partition(" ")[2] if named != holder else holder  # or it is no variable


def owned(columns: Sequence[Column], groups: Sequence[Any]) -> tuple[Sequence[Column], str]:
    """The columns of groups, with their owners where some has one, and who holds them where that was recorded; and what a row is then."""
    owners = (OWNER,) if columns_of(groups).is_owned else ()
    holders = (HOLDER,) if any(getattr(group, "holder", None) for group in groups[:_LOOKED_AT]) else ()
    return (*columns, *owners, *holders), "group" if owners else "size"


def _growth_words(growth: Any) -> str:
    if growth.judged < MINIMUM:
        return f"not judged: {plural(growth.judged, 'window')}, {MINIMUM} are the fewest that tell anything"
    left = (
        ""
        if growth.open_end is None
        else f"; left out: {short_name(growth.open_end)}, which runs to the end of the log"
    )
    return f"{growth_claim(growth, 'window').text}{left}"


def _generic(name: str, result: Any, options: ListOptions) -> Iterator[Table | Line | Figures]:
    """All that a result says: its figures, then its lists, by the names they have in machine output."""
    values = to_builtins(plain(result, None, options.min_size))
    yield Line(_words(name).capitalize(), "heading")
    figures = tuple(
        Figure(key.removesuffix("_us").replace("_", " ").capitalize(), _figure_text(key, value))
        for key, value in values.items()
        if not isinstance(value, (list, dict)) and value is not None
    )
    if figures:
        yield Figures(figures)
    for key, value in values.items():
        if isinstance(value, list) and value and all(isinstance(row, Mapping) for row in value):
            yield _rows(_words(key).capitalize(), value, options)


def _rows(title: str, rows: Sequence[Mapping[str, Any]], options: ListOptions) -> Table:
    keys = [key for key, value in rows[0].items() if not isinstance(value, (list, dict))]
    kinds = [_kind(key, [row.get(key) for row in rows]) for key in keys]
    # The numbers of events go first where there is no room: their lines say the same.
    drops = [index + (100 if key.endswith("event") else 0) for index, key in enumerate(keys)]
    columns = [Column(key, _words(key).capitalize(), *how) for key, *how in zip(keys, kinds, drops, strict=True)]
    values = ([_scalar(row.get(key)) for key in keys] for row in rows)
    return take(title, columns, values, len(rows), options.top, "row", options.terms)


def _words(key: str) -> str:
    for ending in ("_bytes", "_us"):
        key = key.removesuffix(ending)
    return key.replace("_", " ")


def _kind(key: str, values: Sequence[object]) -> Any:
    if any(isinstance(value, str) for value in values):
        return "name"
    if any(isinstance(value, (bool, float)) for value in values):
        return "word"
    return "bytes" if key.endswith("_bytes") else "duration" if key.endswith("_us") else "count"


def _scalar(value: object) -> Value:
    if isinstance(value, float):
        return f"{value:,.2f}"
    return value if value is None or (isinstance(value, int) and not isinstance(value, bool)) else str(value)


def _figure_text(key: str, value: object) -> str:
    if isinstance(value, float):
        return format_bytes(round(value)) if "bytes" in key else f"{value:,.2f}"
    return format_value(_kind(key, [value]), value)
