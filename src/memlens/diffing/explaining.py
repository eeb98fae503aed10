"""The finding that explains most of what one run needs more than the other: which one it is, and how it is worded."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from memlens.text import Terms, format_count, short_name
from memlens.units import format_bytes, plural
from memlens.windows.windows import WHOLE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memlens.diffing.finding import Finding, Member, Repeated, Side
    from memlens.diffing.result import Diff, WindowDiff


#: The kind of findings that are of peaks at two moments.
_ELSEWHERE = "elsewhere"
#: So many windows at the end of a run that leave more behind are a leak, whatever was saved before.
_LEAK = 3

Row = TypeVar("Row", bound="Finding | Repeated")


def telling(findings: Sequence[Row], *measures: Callable[[Row], int]) -> list[Row]:
    """Return the findings that raise one of some measures (bytes), the largest effect first.

    Blocks of one size may well be found under several kinds whose effects cancel (freed early here, allocated anew there).  What a finding
    adds counts only as far as all findings of its size together add something; what cancels comes last.
    """
    together: Counter[tuple[int, int]] = Counter()
    for finding in findings:
        for which, measure in enumerate(measures):
            together[which, finding.size_bytes] += measure(finding)

    def effects(finding: Row) -> tuple[int, int]:
        added = [(measure(finding), together[which, finding.size_bytes]) for which, measure in enumerate(measures)]
        return max(max(min(alone, all_alike), 0) for alone, all_alike in added), max(alone for alone, _ in added)

    return sorted((one for one in findings if effects(one)[1] > 0), key=effects, reverse=True)


class Explained(NamedTuple):
    """The finding that explains most of a difference.

    Attributes:
        finding: The first of its kind.
        window: The pair of windows that has it.
        at_peak: It raises the peak; else what is left behind.
        sign: 1 where it is what head needs more, -1 where less.
        effect: The bytes that all of its kind add to that.
        whole: The bytes by which that differs; below ``effect`` where other findings take some of it back.
        blocks, counting: How many of its kind, and how many of these count: at a peak those live at one of the peaks only.
        base: The first of those that count in base, ``None`` where base has none.
        head: Likewise in head.
        windows: Windows that have such findings; 0 where one pair of windows is looked at.
        freed_later: Of the bytes left behind those that are freed in later windows.
        alike: Blocks of any size that are treated as these, and the windows that have some, where they are all of ``whole``; else 0.
    """

    finding: Finding
    window: WindowDiff
    at_peak: bool
    sign: int
    effect: int
    whole: int
    blocks: int
    counting: int
    base: Side | None
    head: Side | None
    windows: int = 0
    freed_later: int = 0
    alike: tuple[int, int] = (0, 0)


# --- which run needs more, and which finding explains it ---


def peaks_of(diff: Diff) -> tuple[int, int]:
    """Return the highest allocated level of both runs, or, of a window that was asked about, of it."""
    base, head = diff.base.peak_bytes, diff.head.peak_bytes
    if base is None or head is None or is_one_window(diff):
        sides = [(window.base.peak_bytes, window.head.peak_bytes) for window in diff.windows]
        base, head = map(max, zip(*sides, strict=True))
    return base, head


def is_one_window(diff: Diff) -> bool:
    """Return whether one window of each run was asked for, and not the runs."""
    first = diff.windows[0]
    return not diff.series and len(diff.windows) == 1 and WHOLE not in (first.base.name, first.head.name)


def sign_of(diff: Diff) -> int:
    """Return 1 where head needs more, -1 where less, 0 where neither: by the peaks, else by what is left behind, else by how far a window rises."""
    base, head = peaks_of(diff)
    left = [window.d_remaining_bytes for window in diff.judged]
    rise = max((window.d_rise_bytes for window in diff.judged), key=abs, default=0)
    decides = next(filter(None, (head - base, sum(left), rise, *left)), 0)
    return (decides > 0) - (decides < 0)


def costs_of(diff: Diff) -> tuple[WindowDiff, ...]:
    """Return the judged windows that leave more behind although head needs less, where that is a cost: more in sum, or to the last window."""
    if sign_of(diff) >= 0:
        return ()
    more = tuple(window for window in diff.judged if window.d_remaining_bytes > 0)
    if sum(window.d_remaining_bytes for window in diff.judged) > 0:
        return more
    last = diff.judged[-_LEAK:]
    if len(last) < _LEAK or any(window.d_remaining_bytes <= 0 for window in last):
        return ()
    others = [number for number, window in enumerate(diff.judged) if window.d_remaining_bytes <= 0]
    return diff.judged[others[-1] + 1 if others else 0 :]


def explained(diff: Diff) -> Explained | None:
    """Return the finding that explains most of what head needs more, or less, by :func:`sign_of`; ``None`` where none does.

    Of a series it is the one that leaves most behind over all windows, or, where the run that goes higher does so by what the window of its
    peak adds, the one that raises that window.  Costs go before savings: where head needs less but leaves more behind, it is of that.
    Where the runs share little there is none: all that differs is not for one cause.
    """
    sign = sign_of(diff) if diff.windows and not diff.shares_little else 0
    if not sign:
        return None
    costs = costs_of(diff)
    left = sum(window.d_remaining_bytes for window in diff.judged)
    if not diff.series and len(diff.windows) == 1:
        return _of_pair(diff.windows[0], 1, left_only=True) if costs else _of_pair(diff.windows[0], sign)
    if costs:
        return _of_series(diff, 1, left)
    left *= sign
    top, before = _at_peak(diff, sign), left
    if top is not None and diff.base.peak_bytes != diff.head.peak_bytes:
        before = sign * top.d_carried_in_bytes
    else:
        top = max(diff.judged, key=lambda window: sign * window.d_rise_bytes, default=None)
    of_top = None if top is None else _of_pair(top, sign, peak_only=True)
    raised = top is not None and sign * top.d_rise_bytes > max(before, 0)
    if of_top is not None and raised and (of_top.finding.kind != _ELSEWHERE or left <= 0):
        return of_top
    return _of_series(diff, sign, left) or of_top


def _at_peak(diff: Diff, sign: int) -> WindowDiff | None:
    """Return the pair of windows in which the run that goes higher has its peak."""
    run = diff.head if sign > 0 else diff.base
    sides = ((window, window.head if sign > 0 else window.base) for window in diff.windows)
    return next((window for window, side in sides if side.name == run.peak_window), None)


def _of_pair(window: WindowDiff, sign: int, *, peak_only: bool = False, left_only: bool = False) -> Explained | None:
    """Return the finding that explains most of a pair of windows.

    That a peak comes at another moment explains nothing where anything else does: it follows from what raises the one or the other.
    """
    high = 0 if left_only else sign * (window.d_peak_bytes - window.peak.carried_in_bytes)
    left = 0 if peak_only else sign * window.d_remaining_bytes
    chosen = []
    for whole, at_peak in sorted([(high, True), (left, False)], reverse=True):
        if whole <= 0:
            continue

        def effect(finding: Finding, at_peak: bool = at_peak) -> int:
            return sign * (finding.d_peak_bytes if at_peak else finding.d_remaining_bytes)

        rows = telling(window.findings, effect)
        rows.sort(key=lambda finding: finding.kind == _ELSEWHERE)
        chosen += [(one, at_peak, effect(one), whole) for one in rows[:1]]
    if not chosen:
        return None
    finding, at_peak, added, whole = min(chosen, key=lambda one: one[0].kind == _ELSEWHERE)
    # Blocks alike in all else are live at a peak, or at neither.
    counting = added // finding.size_bytes if at_peak else finding.count
    base, head = finding.base, finding.head
    if counting < finding.count:
        member = next((one for one in finding.members if _at_one_peak(one, window) == sign), None)
        base, head = (base, head) if member is None else (member.base, member.head)
    return Explained(finding, window, at_peak, sign, added, whole, finding.count, counting, base, head)


def _at_one_peak(member: Member, window: WindowDiff) -> int:
    """Return 1 where a block is live at head's peak only, -1 where at base's only, else 0."""
    return _live(member.head, window.head.peak_event) - _live(member.base, window.base.peak_event)


def _live(side: Side | None, event: int | None) -> bool:
    """Return whether a block is live right after an event."""
    if side is None or event is None:
        return False
    return (side.alloc_event or 0) <= event and (side.free_event is None or event < side.free_event)


def _of_series(diff: Diff, sign: int, left: int) -> Explained | None:
    """Return the finding that leaves most behind over all windows."""
    # The Free of an older block takes nothing back from the window that left it behind: such rows come last.
    older = [row for row in diff.repeated if row.finding.kind == "released"]
    rows = [
        row
        for some in ([row for row in diff.repeated if row.finding.kind != "released"], older)
        for row in telling(some, lambda row: sign * row.d_remaining_bytes)
    ]
    if not rows:
        return None
    row = rows[0]
    finding, effect = row.finding, sign * row.d_remaining_bytes
    window = next(window for window in diff.judged if window.name == row.first_window)
    back = -sign * sum(one.d_remaining_bytes for one in older if one.finding.size_bytes == finding.size_bytes)
    of_first = (finding, window, False, sign, effect, left, row.count, row.count, finding.base, finding.head)
    return Explained(
        *of_first,
        row.windows,
        freed_later=max(min(back, effect - left), 0) if finding.kind != "released" else 0,
        alike=_all_alike(diff, finding, sign, left) if effect < left else (0, 0),
    )


#: What blocks that are treated alike add to Δremaining, with the sign that it has there, by their kind.
_TERMS = {
    "missing_free": (1, "missing_free_bytes"),
    "extra_free": (-1, "extra_free_bytes"),
    "only_head": (1, "only_head_held_bytes"),
    "only_base": (-1, "only_base_held_bytes"),
}


def _all_alike(diff: Diff, finding: Finding, sign: int, left: int) -> tuple[int, int]:
    """Return how many blocks of any size are of a finding's kind, and windows that have some, where these leave all that is left; else 0."""
    of_kind, term = _TERMS.get(finding.kind, (0, ""))
    if of_kind != sign:
        return 0, 0
    added = [getattr(window.remaining, term) for window in diff.judged]
    rows = [row for row in diff.repeated if row.finding.kind == finding.kind and row.d_remaining_bytes]
    return (sum(row.count for row in rows), sum(map(bool, added))) if sum(added) == left else (0, 0)


# --- in words ---


def called(name: str) -> str:
    """Return a window's name for a sentence; one that is only a number is called a window."""
    words = short_name(name)
    return words if any(map(str.isalpha, words)) else f"window {words}"


def explanation_of(cause: Explained, terms: Terms, *, single: bool) -> str:
    """Return what a finding explains, what its blocks are, and where each run allocates and frees the first that counts.

    Args:
        cause: The finding.
        terms: What lines are called.
        single: One pair of windows is looked at, and need not be named.
    """
    where = "" if single or cause.windows else f" of {called(cause.window.label)}"
    place = f"at the peak{where}" if cause.at_peak else "left behind"
    saved = "" if cause.sign > 0 else "saved " if cause.at_peak else "less "
    many = f" in {plural(cause.windows, 'window')}" if cause.windows > 1 else ""
    effect, whole = format_bytes(cause.effect), format_bytes(abs(cause.whole))
    what, ends = f"{_what(cause)}{many}", _ends(cause, terms)
    if cause.effect > cause.whole:
        net = f"{effect} {_effect(cause, place)} by" if single else f"{_net(cause, place)}: {effect} by"
        return f"{net} {what}, {_taken_back(cause)}; {ends}"
    if cause.effect == cause.whole:
        lead = f"all of the {whole} {saved}{place} is"
    else:
        lead = f"{'most' if 2 * cause.effect > cause.whole else 'the largest part'} of the {whole} {saved}{place}, {effect}, is"
    (count, windows), kind = cause.alike, cause.finding.kind
    kinds = _FREES[kind][1] if kind in _FREES else f"blocks that only {kind.removeprefix('only_')} keeps"
    alike = f" ({format_count(count)} {kinds} in {plural(windows, 'window')} are all of it)" if count else ""
    return f"{lead} {what}{alike}: {ends}"


def _net(cause: Explained, place: str) -> str:
    """Return what all findings come to, where other ones take some of the largest one's back."""
    if not cause.whole:
        return f"nothing more is {place} in all"
    sign = cause.sign if cause.whole > 0 else -cause.sign
    whole = f"{format_bytes(abs(cause.whole))} {_effect(cause._replace(sign=sign), place)}"
    return whole if cause.at_peak else f"{whole} in all"


def _effect(cause: Explained, place: str) -> str:
    """Return ``is added at the peak``, ``less is left behind``, and the like."""
    if cause.at_peak:
        return f"is {'added' if cause.sign > 0 else 'saved'} {place}"
    return f"{'more' if cause.sign > 0 else 'less'} is {place}"


def _taken_back(cause: Explained) -> str:
    back, later = cause.effect - cause.whole, cause.freed_later
    parts = [f"{'head' if cause.sign > 0 else 'base'} frees {format_bytes(later)} in later windows"] if later else []
    parts += [f"{format_bytes(back - later)} is taken back by other findings"] if back > later else []
    return ", and ".join(parts if len(parts) > 1 else ["", *parts]).removeprefix(", ")


#: Findings that are about a Free: one of them, several.
_FREES = {
    "missing_free": ("a missing Free", "missing Frees"),
    "extra_free": ("a Free that base lacks", "Frees that base lacks"),
    "late_free": ("a late Free", "late Frees"),
    "early_free": ("a Free that comes sooner", "Frees that come sooner"),
}


def sized(finding: Finding) -> str:
    """Return the size of blocks, and who allocates them."""
    size, name = format_bytes(finding.size_bytes), short_name(finding.owner or "")
    return f"{size} {name}" if name.startswith("(") else f"{size} ({name})" if name else size


def _what(cause: Explained) -> str:
    """Return the blocks of a finding: ``a missing Free of 3.38 MiB``, ``58 blocks of 512.00 KiB that only head keeps``."""
    finding, count, kind = cause.finding, cause.blocks, cause.finding.kind
    part = f"{format_count(cause.counting)} of " if cause.counting < count else ""
    if kind in _FREES:
        one, many = _FREES[kind]
        return f"{one if count == 1 else f'{part}{format_count(count)} {many}'} of {sized(finding)}"
    older = "older " if kind == "released" else ""
    blocks = f"{'an' if older else 'a'} {older}block" if count == 1 else f"{part}{format_count(count)} {older}blocks"
    side = kind.rpartition("_")[2]
    if kind == "released":
        tail = f"only {finding.fate} frees"
    elif kind == _ELSEWHERE:
        tail = f"{'base' if finding.d_peak_bytes > 0 else 'head'} allocates only after its own peak"
    elif kind.startswith("opening"):
        tail = f"only {side} has from before its input"
    else:
        tail = f"only {side} {'keeps' if finding.fate == 'held' else 'allocates'}"
    return f"{blocks} of {sized(finding)} that {tail}"


def _ends(cause: Explained, terms: Terms) -> str:
    """Return where each run allocates and frees the first of the blocks."""
    finding, base, head = cause.finding, cause.base, cause.head
    first = "the first" if cause.counting > 1 else "it" if cause.blocks == 1 else "that one"
    if 1 < cause.counting < cause.blocks:
        first += f" of the {format_count(cause.counting)}"
    if finding.untimely:
        return f"{first} is freed {timing(finding, terms)}"
    if finding.kind in _FREES and base is not None and head is not None:
        return f"base {freed_by(base, terms, first)}, head {freed_by(head, terms)}"
    in_base = head is None or (finding.kind == _ELSEWHERE and finding.d_peak_bytes < 0)
    side, who = (base, "base") if in_base else (head, "head")
    if side is None:
        return "no line tells of it"
    allocated = "" if side.alloc_line is None else f"allocates {first} at {terms.at(side.alloc_line)} and "
    return f"{who} {allocated}{freed_by(side, terms, '' if allocated else first)}"


def freed_by(side: Side, terms: Terms, what: str = "it") -> str:
    """Return ``frees it at line 77``, ``frees it only later, at line 201``, ``never frees it``."""
    it = what or "it"
    if side.freed == "never":
        return f"never frees {it}"
    when = "only later" if side.freed == "later" else ""
    at = "" if side.free_line is None else f"at {terms.at(side.free_line)}"
    return f"frees {it} {', '.join(filter(None, (when, at)))}".rstrip()


def timing(finding: Finding, terms: Terms | None = None) -> str:
    """Return when each run frees the first block of a late or an early Free.

    ``22 allocations after head's peak (line 201), 25 before base's (line 77)``.

    Args:
        finding: The late or the early Free.
        terms: What lines are called; without it they are left out.
    """
    words: list[str] = []
    for which, allocs, side in (
        ("head's peak", finding.head_allocs_after_peak or 0, finding.head),
        ("base's", finding.base_allocs_after_peak or 0, finding.base),
    ):
        many = format_count(abs(allocs)) if words else plural(abs(allocs), "allocation")
        at = f" ({terms.at(side.free_line)})" if terms and side is not None and side.free_line is not None else ""
        words.append(f"{many if allocs else 'right'} {'before' if allocs < 0 else 'after'} {which}{at}")
    return ", ".join(words)
