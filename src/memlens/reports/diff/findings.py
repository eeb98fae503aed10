"""One finding of a comparison in words: what it is called, where each run allocates and frees it, the log lines around that place."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec.structs import replace

from memlens.claims.template import write
from memlens.claims.words_compared import TIMING
from memlens.diffing.claims import timing
from memlens.reports.blocks import ALIKE, OWNER, Block, Column, Excerpt, Line, ListOptions, Table, Value, apart
from memlens.text import MOST_NAMES, Terms, format_bytes, format_count, format_exact, format_explained, format_signed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from memlens.diffing.finding import Finding, Repeated, Side
    from memlens.diffing.result import WindowDiff


#: What findings explain: the name of a finding's share, what it is a share of, bytes, and those explained.
Effects: TypeAlias = tuple[tuple[str, str, int, int], ...]


class Words(NamedTuple):
    """How a finding is worded.

    Attributes:
        title: As a heading: ``Missing free``.
        short: In a cell of a table.
        meaning: In a sentence.
    """

    title: str
    short: str
    meaning: str


_LATE = "both runs free it, base before its peak and head only after its own"
_EARLY = "both runs free it, head before its peak and base only after its own"
_BEFORE = "born before the window"
#: By kind, or by kind and fate where that says more.
_WORDS = {
    "missing_free": Words("Missing free", "kept by head", "base frees it in the window, head does not"),
    "extra_free": Words("Extra free", "kept by base", "head frees it in the window, base does not"),
    "released base": Words("Older block", "older, freed by base", f"{_BEFORE}; base frees it in the window, head does not"),
    "released head": Words("Older block", "older, freed by head", f"{_BEFORE}; head frees it in the window, base does not"),
    "late_free": Words("Late free", "freed late", _LATE),
    "early_free": Words("Early free", "freed early", _EARLY),
    "late_free carried_in": Words("Late free", "older, freed late", f"{_BEFORE}; {_LATE}"),
    "early_free carried_in": Words("Early free", "older, freed early", f"{_BEFORE}; {_EARLY}"),
    "elsewhere": Words(
        "At one peak only", "at one peak only", "live at one run's peak, and the other reaches its own before it allocates it"
    ),
    "opening_only_head": Words("From before the input", "from before, in head", "live in head before its input begins; base has none like it"),
    "opening_only_base": Words("From before the input", "from before, in base", "live in base before its input begins; head has none like it"),
    "only_head held": Words("Only in head", "held, only in head", "head allocates and holds it, base does not"),
    "only_base held": Words("Only in base", "held, only in base", "base allocates and holds it, head does not"),
    "only_head temporary": Words("Only in head", "temporary in head", "head allocates and frees it, base does not"),
    "only_base temporary": Words("Only in base", "temporary in base", "base allocates and frees it, head does not"),
}  # fmt: skip


def words_of(finding: Finding) -> Words:
    """Return what a finding is called; of a kind that nobody has words for yet, its name."""
    name = finding.kind.replace("_", " ")
    known = _WORDS.get(f"{finding.kind} {finding.fate}") or _WORDS.get(finding.kind)
    return known or Words(name.capitalize(), name, name)


_TERM = Column("term", "Adding up", "word")
_REMAINING = Column("d_remaining_bytes", "Δremaining", "signed")
_PEAK = Column("d_peak_bytes", "Δpeak", "signed")
_SIZE = Column("size_bytes", "Size", "bytes", strong=True)
_D_REMAINING = Column("d_remaining_bytes", "Δremaining", "signed", strong=True)
_D_PEAK = Column("d_peak_bytes", "Δpeak", "signed", drop=1)
_ALLOC = Column("alloc_line", "ALLOC line", "count", drop=2)
_WHAT = Column("what", "What", "word")
_WINDOWS = Column("windows", "In windows", "count")
_BLOCKS = Column("count", "Count", "count", drop=2)
_FIRST = Column("first_window", "First in", "name", drop=3)
_LARGEST = Column("largest_d_peak_bytes", "Largest Δpeak", "signed", drop=1)
_LARGEST_IN = Column("largest_window", "in", "name", drop=4)


def finding_blocks(finding: Finding, effects: Effects, terms: Terms) -> Iterator[Block]:
    """Everything about one finding, the log lines around its place included; ``effects`` as :func:`effects_of` gives them."""
    words = words_of(finding)
    yield Line(f"{words.title}: {_amount(finding)}", "heading")
    yield Line(f"{words.meaning}{_requested(finding)}", "quiet")
    if finding.owner:
        yield Line("", name=finding.owner, label="Owner")
    if finding.freed_by:
        yield Line("", name=finding.freed_by, label="Freed after")
    first = f" (the first of {format_count(finding.count)})" if finding.count > 1 else ""
    for label, side in (("Base", finding.base), ("Head", finding.head)):
        none = "frees none like it in the window" if finding.kind == "released" else "has none like it"
        yield Line(none if side is None else f"{_ends(side, terms)}{first}", label=label)
    for side in (finding.base, finding.head):
        if side is not None and side.holder and (side.freed != "in_window" or finding.d_peak_bytes):
            yield Line("", name=side.holder, label="Held by")
    if finding.count > 1 and (others := _others(finding, terms)):
        yield Line(others, label="Also")
    if finding.untimely:
        yield Line(write(TIMING, timing(finding, lines=False)), label="Freed")
    yield Line(_effect(finding, effects), label="Effect")
    if excerpt := _excerpt(finding):
        yield excerpt


def around(blocks: Iterable[Block], most: int) -> Iterator[Block]:
    """The same blocks with so many log lines on each side of the marked one; with -1 without any."""
    for block in blocks:
        if not isinstance(block, Excerpt):
            yield block
        elif most >= 0:
            marked = next((at for at, line in enumerate(block.lines) if line.is_event), 0)
            yield replace(block, lines=block.lines[max(marked - most, 0) : marked + most + 1])


def _amount(finding: Finding) -> str:
    size = format_exact(finding.size_bytes)
    if finding.count == 1:
        return size
    return f"{format_count(finding.count)} × {size} = {format_bytes(finding.total_bytes)}"


def _requested(finding: Finding) -> str:
    requested = finding.requested_bytes
    return "" if requested in (None, finding.size_bytes) else f"; the tensor asked for {requested} B"


def _ends(side: Side, terms: Terms) -> str:
    parts = [] if side.alloc_line is None else [f"ALLOC {terms.at(side.alloc_line)}"]
    at = "" if side.free_line is None else f" {terms.at(side.free_line)}"
    if side.freed == "in_window":
        parts.append(f"FREE{at}" if at else "freed in the window")
    elif side.freed == "later":
        parts.append(f"freed later, FREE{at}" if at else "freed later")
    else:
        parts.append("never freed")
    return ", ".join(parts)


def _others(finding: Finding, terms: Terms) -> str:
    """The lines of the other blocks of a finding."""
    others = (member.base if finding.context_of == "base" else member.head for member in finding.members[1:])
    sides = [side for side in others if side is not None]
    freed = all(side.freed == "in_window" and side.free_line is not None for side in sides)
    lines = [line for side in sides if (line := side.free_line if freed else side.alloc_line) is not None]
    if not lines:
        return ""
    shown = ", ".join(map(format_count, lines[:MOST_NAMES]))
    left = len(lines) - MOST_NAMES
    more = f" and {format_count(left)} more" if left > 0 else ""
    return f"{finding.context_of}'s {'FREE' if freed else 'ALLOC'} {terms.line if len(lines) == 1 else terms.lines} {shown}{more}"


def _effect(finding: Finding, effects: Effects) -> str:
    parts = []
    for effect, name, whole, _ in effects:
        if part := getattr(finding, effect):
            share = format_explained(part, whole)
            parts.append(f"{format_signed(part)} of {name}{f' ({share})' if share else ''}")
    return ", ".join(parts) or "none on Δremaining and Δpeak"


def effects_of(window: WindowDiff) -> Effects:
    """Return what findings explain, of what the runs leave, and of how high they go: a finding's share, its name, bytes, and those explained.

    How high is Δrise where blocks carried in from earlier in the log are no findings.
    """
    high = ("Δrise", window.d_rise_bytes) if window.peak.carried_in_bytes else ("Δpeak", window.d_peak_bytes)
    remaining = "Δremaining", window.d_remaining_bytes, window.remaining_explained_bytes
    return ("d_remaining_bytes", *remaining), ("d_peak_bytes", *high, window.peak_explained_bytes)


def _excerpt(finding: Finding) -> Excerpt | None:
    """The log lines around the place that tells the runs apart; ``None`` where there is no text to show."""
    lines = finding.context
    if not lines:
        return None
    marked = {line.line for line in lines if line.is_event}
    frees = {side.free_line for side in (finding.base, finding.head) if side is not None}
    what = "FREE" if marked & frees else "ALLOC"
    title = f"{finding.context_of}'s log around this {what}:"
    return Excerpt(title, lines)


def finding_table(findings: Sequence[Finding], options: ListOptions, *, wide: bool = False) -> Table:
    """Findings of any kind, the largest effect first, a row each; ``wide`` with the line of the first block of each."""
    shown = options.large(findings)[: options.top]
    high = any(finding.d_peak_bytes for finding in shown)
    # What tells the runs apart is never what makes room.
    effects: tuple[Column, ...] = (_D_REMAINING, _D_PEAK)
    if high and not any(finding.d_remaining_bytes for finding in shown):
        effects = (replace(_D_PEAK, strong=True, drop=0),)
    elif high:
        effects = (_D_REMAINING, replace(_D_PEAK, drop=0))
    owner = (OWNER,) if any(finding.owner for finding in shown) else ()
    return options.table(
        "Other findings",
        (_WHAT, _SIZE, ALIKE[1], *effects, *((_ALLOC,) if wide else ()), *owner),
        findings,
        "finding",
        what=lambda one: words_of(one).short,
        alloc_line=lambda one: getattr(one, one.context_of).alloc_line,
    )


def repeated_table(rows: Sequence[Repeated], windows: int, options: ListOptions, *, wide: bool = True) -> Table:
    """Findings of all windows, those alike in one row: ``3.38 MiB, kept by head, in 412 of 430 windows``; ``wide`` names these windows."""
    shown = options.large(rows)[: options.top]
    # Peaks of several windows are of several moments: the largest one is shown, and never a sum.
    high = (_LARGEST, _LARGEST_IN) if any(row.largest_d_peak_bytes for row in shown) else ()
    places = (*high, _FIRST) if wide else high[:1]
    owner = (OWNER,) if any(row.finding.owner for row in shown) else ()
    columns = (_SIZE, _WHAT, _WINDOWS, _BLOCKS, _D_REMAINING, *places, *owner)
    return options.table(
        "Findings over all windows",
        columns,
        rows,
        "finding",
        what=lambda row: words_of(row.finding).short,
        windows=lambda row: f"{format_count(row.windows)} of {format_count(windows)}",
        owner=lambda row: row.finding.owner,
    )


def account_blocks(window: WindowDiff) -> Iterator[Block]:
    """Yield how the differences of a pair of windows add up, to the last byte."""
    remaining, peak = window.remaining, window.peak
    terms = (
        ("From before, only in head", "", peak.opening_only_head_bytes),
        ("From before, only in base", "", peak.opening_only_base_bytes),
        ("Carried in", "", peak.carried_in_bytes),
        ("Missing frees", remaining.missing_free_bytes, peak.missing_free_bytes),
        ("Extra frees", -remaining.extra_free_bytes, peak.extra_free_bytes),
        ("Only head allocates", remaining.only_head_held_bytes, peak.only_head_bytes),
        ("Only base allocates", -remaining.only_base_held_bytes, peak.only_base_bytes),
        ("Late frees", "", peak.late_free_bytes),
        ("Early frees", "", peak.early_free_bytes),
        ("Live at one peak only", "", peak.elsewhere_bytes),
        ("Older blocks freed", -remaining.d_released_bytes, peak.released_bytes),
        ("Frees without an ALLOC", -remaining.d_unknown_free_bytes, peak.unknown_free_bytes),
        ("Sizes that disagree", remaining.d_mismatch_bytes, peak.mismatch_bytes),
    )
    used: list[tuple[Value, ...]] = [term for term in terms if term[1] or term[2]]
    if not used:
        return
    rows = (
        *used,
        ("Sum", window.d_remaining_bytes, window.d_peak_bytes),
        ("Unexplained", remaining.unexplained_bytes, peak.unexplained_bytes),
    )
    columns = (_TERM, _REMAINING, *((_PEAK,) if any(term[2] for term in used) else ()))
    yield from apart(Table("", columns, tuple(row[: len(columns)] for row in rows)))
