"""The finding that explains most of what one run needs more than the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from memlens.diffing.finding import Finding
    from memlens.diffing.result import Diff, WindowDiff

__all__ = ["WHOLE", "Explained", "asked_for", "explained", "peaks_of", "sign_of", "telling"]

#: The name of a window that is a whole log.
WHOLE = "(whole log)"
#: The kind of findings that are of peaks at two moments.
_ELSEWHERE = "elsewhere"

Found = TypeVar("Found")


def telling(
    findings: Sequence[Found],
    *measures: Callable[[Found], int],
    size: Callable[[Found], int] = attrgetter("size_bytes"),
) -> list[Found]:
    """The findings that raise one of some measures (bytes), the largest effect first.

    Blocks of one size may well be found under several kinds whose effects cancel (freed early here, allocated anew there).  What a finding
    adds counts only as far as all findings of its size together add something; what cancels comes last.
    """
    together: Counter[tuple[int, int]] = Counter()
    for finding in findings:
        for which, measure in enumerate(measures):
            together[which, size(finding)] += measure(finding)

    def effects(finding: Found) -> tuple[int, int]:
        added = [(measure(finding), together[which, size(finding)]) for which, measure in enumerate(measures)]
        return max(max(min(alone, all_alike), 0) for alone, all_alike in added), max(alone for alone, _ in added)

    return sorted((one for one in findings if effects(one)[1] > 0), key=effects, reverse=True)


class Explained(NamedTuple):
    """The finding that explains most of a difference.

    Attributes:
        finding: The first of its kind.
        window: The pair of windows that has it.
        at_peak: It raises the peak; else what is left behind.
        effect: The bytes that all of its kind add to that.
        whole: The bytes by which that differs; 0 where no one sum tells.
        blocks: How many of its kind.
        windows: Windows that have such findings; 0 where one pair of windows is looked at.
    """

    finding: Finding
    window: WindowDiff
    at_peak: bool
    effect: int
    whole: int
    blocks: int
    windows: int = 0


def peaks_of(diff: Diff) -> tuple[int, int]:
    """The highest allocated level of both runs, or, of a window that was asked about, of it."""
    base, head = diff.base.peak_bytes, diff.head.peak_bytes
    if base is None or head is None or asked_for(diff):
        sides = [(window.base.peak_bytes, window.head.peak_bytes) for window in diff.windows]
        base, head = map(max, zip(*sides, strict=True))
    return base, head


def asked_for(diff: Diff) -> bool:
    """Whether one window of each run was asked for, and not the runs."""
    first = diff.windows[0]
    return not diff.series and len(diff.windows) == 1 and WHOLE not in (first.base.name, first.head.name)


def sign_of(diff: Diff) -> int:
    """1 where head needs more, -1 where less, 0 where neither: by the peaks, else by what is left behind, else by how far a window rises."""
    base, head = peaks_of(diff)
    left = [window.remaining_left_bytes for window in diff.judged]
    rise = max((window.rise_left_bytes for window in diff.judged), key=abs, default=0)
    decides = next(filter(None, (head - base, sum(left), rise, *left)), 0)
    return (decides > 0) - (decides < 0)


def explained(diff: Diff) -> Explained | None:
    """The finding that explains most of what head needs more, or less, by :func:`sign_of`; ``None`` where none does.

    Of a series it is the one that leaves most behind over all windows, or, where the run that goes higher does so by what the window of its
    peak adds, the one that raises that window.
    """
    sign = sign_of(diff) if diff.windows else 0
    if not sign:
        return None
    if not diff.series and len(diff.windows) == 1:
        return _of_pair(diff.windows[0], sign)
    left = sign * sum(window.remaining_left_bytes for window in diff.judged)
    top, before = _at_peak(diff, sign), left
    if top is not None and top.judged and diff.base.peak_bytes != diff.head.peak_bytes:
        before = sign * top.d_carried_in_bytes
    else:
        top = max(diff.judged, key=lambda window: sign * window.rise_left_bytes, default=None)
    of_top = None if top is None else _of_pair(top, sign, peak_only=True)
    raised = top is not None and sign * top.rise_left_bytes > max(before, 0)
    if of_top is not None and raised and of_top.finding.kind != _ELSEWHERE:
        return of_top
    return _of_series(diff, sign, left) or of_top


def _at_peak(diff: Diff, sign: int) -> WindowDiff | None:
    """The pair of windows in which the run that goes higher has its peak."""
    run = diff.head if sign > 0 else diff.base
    sides = ((window, window.head if sign > 0 else window.base) for window in diff.windows)
    return next((window for window, side in sides if side.name == run.peak_window), None)


def _of_pair(window: WindowDiff, sign: int, *, peak_only: bool = False) -> Explained | None:
    """The finding that explains most of a pair of windows.

    That a peak comes at another moment explains nothing where anything else does: it follows from what raises the one or the other.
    """
    high = sign * (window.d_peak_bytes - window.peak.factor_bytes - window.peak.carried_in_bytes)
    left = 0 if peak_only else sign * window.remaining_left_bytes
    chosen = []
    for whole, at_peak in sorted([(high, True), (left, False)], reverse=True):
        if whole <= 0:
            continue

        def effect(finding: Finding, at_peak: bool = at_peak) -> int:
            return sign * (finding.d_peak_bytes if at_peak else finding.d_remaining_bytes)

        found = telling(window.findings, effect)
        found.sort(key=lambda finding: finding.kind == _ELSEWHERE)
        chosen += [Explained(one, window, at_peak, effect(one), whole, one.count) for one in found[:1]]
    return min(chosen, key=lambda one: one.finding.kind == _ELSEWHERE, default=None)


def _of_series(diff: Diff, sign: int, left: int) -> Explained | None:
    # The Free of an older block takes nothing back from the window that left it behind: such rows come last.
    born = [row for row in diff.repeated if row.finding.kind != "released"]
    older = [row for row in diff.repeated if row.finding.kind == "released"]
    found = [
        row
        for rows in (born, older)
        for row in telling(rows, lambda row: sign * row.d_remaining_bytes, size=lambda row: row.finding.size_bytes)
    ]
    if not found:
        return None
    row = found[0]
    effect = sign * row.d_remaining_bytes
    window = next(window for window in diff.judged if window.name == row.first_window)
    return Explained(row.finding, window, False, effect, left if left >= effect else 0, row.count, row.windows)
