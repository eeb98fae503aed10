"""The finding that explains most of what one run needs more than the other: which one it is."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

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
