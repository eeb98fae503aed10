"""Which of two runs needs more, and the blocks that explain most of that."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from memlens.diffing.differences import OF_FREES
from memlens.windows.windows import WHOLE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memlens.diffing.attribution import Cause
    from memlens.diffing.finding import Finding
    from memlens.diffing.result import Diff, WindowDiff


#: So many windows at the end of a run that leave more behind are a leak, whatever was saved before.
_LEAK = 3


def telling(findings: Sequence[Finding], *measures: Callable[[Finding], int]) -> list[Finding]:
    """Return the findings that raise one of some measures (bytes), the largest effect first.

    Blocks of one size may well be found under several kinds whose effects cancel (freed early here, allocated anew there).  What a finding
    adds counts only as far as all findings of its size together add something; what cancels comes last.
    """
    together: Counter[tuple[int, int]] = Counter()
    for finding in findings:
        for which, measure in enumerate(measures):
            together[which, finding.size_bytes] += measure(finding)

    def effects(finding: Finding) -> tuple[int, int]:
        added = [(measure(finding), together[which, finding.size_bytes]) for which, measure in enumerate(measures)]
        return max(max(min(alone, all_alike), 0) for alone, all_alike in added), max(alone for alone, _ in added)

    return sorted((one for one in findings if effects(one)[1] > 0), key=effects, reverse=True)


class Explained(NamedTuple):
    """The blocks that explain most of a difference.

    Attributes:
        cause: The blocks.
        at_peak: They raise the peak; else what is left behind.
        sign: 1 where it is what head needs more, -1 where less.
        whole: The bytes by which that differs; below the effect of the blocks where others take some of it back.
    """

    cause: Cause
    at_peak: bool
    sign: int
    whole: int

    @property
    def effect(self) -> int:
        """The bytes that the blocks add."""
        return self.sign * self.cause.effect


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
    left = [window.d_left_bytes for window in diff.judged]
    rise = max((window.d_higher_bytes for window in diff.judged), key=abs, default=0)
    decides = next(filter(None, (head - base, sum(left), rise, *left)), 0)
    return (decides > 0) - (decides < 0)


def costs_of(diff: Diff) -> tuple[WindowDiff, ...]:
    """Return the judged windows that leave more behind although head needs less, where that is a cost: more in sum, or to the last window."""
    if sign_of(diff) >= 0:
        return ()
    more = tuple(window for window in diff.judged if window.d_left_bytes > 0)
    if sum(window.d_left_bytes for window in diff.judged) > 0:
        return more
    last = diff.judged[-_LEAK:]
    if len(last) < _LEAK or any(window.d_left_bytes <= 0 for window in last):
        return ()
    others = [number for number, window in enumerate(diff.judged) if window.d_left_bytes <= 0]
    return diff.judged[others[-1] + 1 if others else 0 :]


def explained(diff: Diff) -> Explained | None:
    """Return the blocks that explain most of what is said first: which run peaks higher, else which one leaves more behind; ``None`` where none do.

    Costs go before savings: where head needs less but leaves more behind, it is of that.
    Where the runs share little there is none: all that differs is not for one cause.
    """
    sign = sign_of(diff) if diff.windows and not diff.shares_little else 0
    if not sign:
        return None
    base, head = peaks_of(diff)
    costs, left = costs_of(diff), sum(window.d_left_bytes for window in diff.judged)
    if costs:
        at_peak, sign, whole = False, 1, sum(window.d_left_bytes for window in costs)
    else:
        at_peak, whole = base != head, sign * (head - base or left)
    causes = diff.causes_at_peak if at_peak else diff.causes_left_behind
    cause = next((one for one in causes if sign * one.effect > 0), None)
    if at_peak and sign * left > 0 and (cause is None or cause.finding.kind not in OF_FREES):
        # Who has more of some blocks at a peak may be by chance of where the peaks are: a Free that one run lacks is not.
        lacking = next((one for one in diff.causes_left_behind if sign * one.effect > 0), None)
        if lacking is not None and lacking.finding.kind in OF_FREES and sign * lacking.effect >= whole:
            return Explained(lacking, at_peak=False, sign=sign, whole=sign * left)
    return None if cause is None else Explained(cause, at_peak, sign, whole)
