"""Whether a series of levels grows, told by its floors: the lowest level from each window on.

What is leaked never comes back, so the level never again falls below what was leaked before: a leak lifts the floor.  All other
memory comes and goes above it; where it is away at the ends of few windows alone (between epochs), these are left aside.  A series
grows where a stretch of it up to its end (a *tail*) has

* a floor that rises by more than the level *came back* before (its largest fall from any earlier level), by a factor,
* in several steps of comparable size, and in several parts of the tail, not in a jump or two,
* that keep coming: the later half of the tail gains about as much as the earlier one.  Memory that fills up ever more slowly does not.

What swings within ``width`` windows is taken out by looking at the lowest level of each ``width`` windows in a row, for widths from 1 to
a fifth of the series.  A random walk is no growth: there, too, the floor may rise for long, but it wanders as far within a width as
its steps add up to, whereas temporary memory comes back.

Shrinking is the same upside down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from msgspec import Struct

from memlens.analyzers.series.shapes import (
    MINIMUM,
    SPANS,
    TAIL,
    Rise,
    came_back,
    floor_of,
    lowest_levels,
    period_of,
    rise_of,
)
from memlens.columns import Ints, distinct

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


Verdict = Literal["flat", "growing", "shrinking", "swinging"]

#: Shorter series are judged window by window: see :func:`_rises_throughout`.
_FEW = 8
#: How many times what came back before the floor must rise: in single windows, and in lowest levels of several.
_BEYOND = (6, 5)
#: How many steps of equal size the rise is worth, at least; below so many they must come evenly.
_STEPS, _MANY = 3.7, 6
_EVEN = 2.0
#: The same once steps next to each other count as one: those within a width, or within such a part of the tail; of few stretches so large a
#: share of them.
_PARTS, _SHARE = 6, 0.7
#: The later rises of few windows add up to so many tenths of the earlier ones, at least.
_LASTING = 9
#: How far lowest levels may wander within a width, against a random walk of the same steps (1), times the root of the width.
_WANDER = 0.5
#: How much slower than the earlier half the later half of a tail may gain, as a share of how much slower a logarithm gains there.
_SLOWING = 0.6
#: One window in so many may dip alone.
_DIPS = 8
#: A series has grown, and grows no longer, where so many times the longest wait for a rise has passed without one.
_STOPPED = 2
#: A swing of at most this share of the highest level is flat, and a rise of at most a tenth of it is none that is told.
_FLAT = 100


class Trend(Struct, frozen=True):
    """The verdict on a series.

    Attributes:
        verdict: ``"flat"``, ``"growing"``, ``"shrinking"`` or ``"swinging"``.
        gained_bytes: By how much the floor rose (below 0: fell).  Where the series grows, from right before ``since`` on; elsewhere from
            the second quarter of the windows to the second half of them, or from all of the middle half to the last quarter.
        spanned: The number of windows between these two floors.
        gained_bytes_per_window: The same by that number.  Where the series grows, what the floor rose by from its first rise (not
            included) to its last one, by the windows between, of the rises at least half as large as the largest, where they are most of it: of a block in every
            tenth window a tenth, wherever the series begins and ends.
        every: So many windows lie between any two of these rises, by which most is gained; ``None`` where their distances differ, there are only
            two of them, or the series does not grow.
        since: Index of the window in which the first bytes were gained, or ``None`` where the series does not grow.
        until: That of the last ones, where it has grown: no rise has followed for more than twice as long as any of its rises was waited for.
        swing_bytes: Half of the most by which the level rose and came back, or fell and came back.
        from_bytes: The floor right before ``since``, or ``None`` where the series does not grow.
        rise: How its floor rose all the same where the series does not grow, or ``None``.
        period: After so many windows a series repeats itself that swings and whose floor did not rise; ``None`` where it does not.
    """

    verdict: Verdict
    gained_bytes: int
    spanned: int
    gained_bytes_per_window: float
    every: int | None
    since: int | None
    swing_bytes: int
    from_bytes: int | None = None
    rise: Rise | None = None
    period: int | None = None
    until: int | None = None


class _Tail(Struct, frozen=True):
    """A stretch up to the end of the series that grows: the lowest levels of ``width`` windows in a row, from ``start`` on."""

    width: int
    start: int
    lowest: Ints


def judge(live: Ints, start: int = 1) -> Trend:
    """Judge a series.

    Args:
        live: The live bytes at the ends of consecutive windows, int64, shape ``(windows,)``.
        start: The window after which a rise counts that is no growth: by then the run has started.
    """
    live = np.asarray(live, np.int64)
    if not len(live):
        return Trend("flat", 0, 0, 0.0, None, None, 0)
    back = max(came_back(live), came_back(-live))
    swing = back // 2
    if tail := _growing_tail(live) or _growing_but_for_dips(live):
        since = began(tail.lowest, _since(tail))  # what each window leaves may be ever more
        spanned = len(tail.lowest) - since
        before = int(tail.lowest[since - 1])
        gained = int(tail.lowest[-1]) - before
        each, every = _rate(tail, since, gained / spanned)
        return Trend("growing", gained, spanned, each, every, since, swing, before, until=_until(tail))
    n = len(live)
    half, quarter = n // 2, n // 4
    spanned = half - quarter if n >= MINIMUM else 0
    gained = int(live[half:].min() - live[quarter:half].min()) if spanned else 0
    if n >= _FEW:
        gained = max(gained, int(live[3 * n // 4 :].min() - live[quarter : 3 * n // 4].max()))
    highest = int(np.abs(live).max())
    hardly = not swing or 5 * gained <= swing or gained * 10 * _FLAT <= highest
    verdict: Verdict = "flat" if swing * 2 * _FLAT <= highest and hardly else "swinging"
    rise = period = None
    if _growing_tail(-live) and _falls(live[start:]):
        verdict = "shrinking"
    else:
        period = period_of(live[start:]) if verdict == "swinging" else None
        rise = rise_of(live, start, period)
        if rise is not None and rise.rose_bytes * 10 * _FLAT <= highest:
            rise = None
    rate = gained / spanned if spanned else 0.0
    return Trend(verdict, gained, spanned, rate, None, None, swing, None, rise, None if rise else period)


def _until(tail: _Tail) -> int | None:
    """The window of the last rise of a tail that has grown; ``None`` where it may go on."""
    rises = tail.start + 1 + np.flatnonzero(np.diff(floor_of(tail.lowest[tail.start :])))
    *waits, idle = np.diff(rises, append=len(tail.lowest) - 1).tolist()
    return int(rises[-1]) if waits and idle > _STOPPED * max(waits) else None


def _falls(live: Ints) -> bool:
    """Whether a series ends below all of its first quarter, and rose on its way by less than half of what it falls by."""
    rose = (live - np.minimum.accumulate(live)).max()
    return bool(live[-1] < live[: max(len(live) // 4, 1)].min() and 2 * rose < live[0] - live[-1])


def began(levels: Ints, since: int) -> int:
    """The window in which a floor began to rise that rose up to ``since`` as often as from it on, in no window by a quarter more than in all of these.

    Where it does not rise in each window, rises that are less than a quarter of the next one are none of it.
    """
    steps = np.diff(floor_of(levels))
    rises, here = np.flatnonzero(steps), since - 1
    most, wait = 5 * steps[here:].max(), max(np.diff(rises[rises >= here]), default=1)
    for before in rises[rises < here][::-1].tolist():
        rose = 4 * steps[before]
        if here - before > wait or rose > most or (wait > 1 and rose < steps[here]):
            break
        here = before
    return here + 1


def _rate(tail: _Tail, since: int, plain: float) -> tuple[float, int | None]:
    """Return the gain of a tail per window, from the first to the last of its rises that are half as large as the largest, or more; and their distance.

    Of these the first one is not counted, nor, where windows are taken together, are those that follow right after another one at the
    end, which may be a tooth that is cut off.  So it makes no difference where in a sawtooth the series ends.  Where there is only one,
    or they are less than half of what is gained, all rises count; ``plain`` where there is one in all, or where it is less than half of that.
    """
    floor = floor_of(tail.lowest)
    steps = np.diff(floor)[since - 1 :]
    for least in (int(steps.max()), 1):
        rises = since + np.flatnonzero(2 * steps >= least)
        apart = np.flatnonzero(np.diff(rises) > 1)
        if tail.width > 1 and len(apart) and rises[-1] == len(floor) - 1:
            rises = rises[: apart[-1] + 2]
        if len(rises) > 1 and 2 * steps[rises - since].sum() >= steps.sum():
            first, last = int(rises[0]), int(rises[-1])
            waits, gained = np.diff(rises), int(floor[last] - floor[first])
            rate = gained / (last - first)
            if rate > 2 * plain:  # which stops before the end
                break
            # One distance alone is no rhythm, nor is one between small rises, or beside which as much is gained in between or before.
            steady = len(waits) > 1 and least > 1 and (waits == waits[0]).all()
            steady &= (
                4 * steps[rises[1:] - since].sum() >= 3 * gained and 4 * steps[rises - since].sum() >= 3 * steps.sum()
            )
            return rate, int(waits[0]) if steady else None
    return plain, None


def _growing_tail(live: Ints) -> _Tail | None:
    """The longest tail that grows, in the smallest width that shows nearly all of it."""
    n = len(live)
    if n < _FEW:
        return _Tail(1, 0, live) if _rises_throughout(live) else None
    best: _Tail | None = None
    for width, lowest in lowest_levels(live):
        start = _start_of_growth(live, lowest, width)
        # A wider look costs precision about the start, so it must show a good deal more.
        if start is not None and (best is None or n - start > 1.25 * (n - best.start)):
            best = _Tail(width, start, lowest)
        if (best is not None and n <= 1.25 * (n - best.start)) or lowest.min() == lowest.max():
            break  # nothing longer, or nothing that rises, comes of a wider look
    return best


def _growing_but_for_dips(live: Ints) -> _Tail | None:
    """The same where few windows alone end lower than those beside them, as between two epochs, not as low as all that grows began, and no other falls."""
    before, here, after = live[:-2], live[1:-1], live[2:]
    dips = 1 + np.flatnonzero((here < before) & (after >= before))
    if not 0 < len(dips) <= len(live) // _DIPS:
        return None
    filled = live.copy()
    filled[dips] = live[dips - 1]
    tail = _growing_tail(filled)
    if tail is None or (np.diff(filled[tail.start :]) < 0).any():
        return None
    return tail if live[dips[dips >= tail.start]].min(initial=filled[-1]) >= filled[tail.start] else None


def _rises_throughout(live: Ints) -> bool:
    """Whether few windows rise one after the other and do not slow down; the first rise is the warm-up's."""
    rises = np.diff(live)
    if len(live) < MINIMUM or not (rises > 0).all():
        return False
    counted = rises[1:]
    half = len(counted) // 2
    lasting = 10 * int(counted[-half:].sum()) >= _LASTING * int(counted[:half].sum())
    return lasting and 2 * int(counted.min()) >= int(counted.max())


def _start_of_growth(live: Ints, lowest: Ints, width: int) -> int | None:
    """Where the longest growing tail of lowest levels starts: the last window of its first floor."""
    if lowest[-1] <= lowest.min():
        return None
    m, floor = len(lowest), floor_of(lowest)
    came_back = int((np.maximum.accumulate(lowest) - lowest).max())
    beyond = _BEYOND[width > 1] * came_back

    def grows(first: int) -> bool:
        gain = int(floor[-1] - floor[first])
        # Windows that stand on the first floor, or hardly above it, do not belong to the rise.
        start = int(np.searchsorted(floor, floor[first] + gain // 20, "right")) - 1
        enough = m - start >= max(TAIL, SPANS * width) - width + 1
        return enough and gain > beyond and _grows(live, lowest, floor, start, width, beyond)

    least = max(TAIL + 1, (SPANS + 1) * width) - width + 1
    length, before = m, -1
    while length >= least and floor[-1] - floor[m - length] > beyond:
        if grows(m - length):
            # The tail may start between this length and the one before.
            finer = distinct(np.linspace(before + 1, m - length, 8).astype(np.int64)).tolist()
            first = next((first for first in finer if grows(first)), m - length)
            return int(np.searchsorted(floor, floor[first], "right")) - 1
        before, length = m - length, min(length - 1, int(length * 0.85))
    return None


def _grows(live: Ints, lowest: Ints, floor: Ints, start: int, width: int, beyond: int) -> bool:
    """Whether the floor of a tail rises far enough, in several steps, at a rate that lasts, and not by wandering."""
    m, length = len(floor), len(floor) - start
    steps = np.diff(floor[start:]).astype(np.float64)
    gain, largest = float(steps.sum()), float(steps.max())
    rest = gain - largest
    # A jump that is nearly all of the gain is no growth, whatever steps stand beside it.
    if rest < max(0.2 * gain, beyond):
        return False
    worth = _worth(steps)
    if worth < _STEPS or _jumps(steps, max(width, len(steps) // _PARTS)):
        return False
    if width > 1 and _wander(live, lowest, start, width) > _WANDER / width**0.5:
        return False
    # Noise makes the two halves differ, too, by about so large a part of what they gain.
    doubt = 4 * _off_line(lowest[start:]) / gain
    if worth < _MANY and doubt * worth > _EVEN:
        return False
    slowing = _slowing(steps, gain)
    before = (floor[start] - floor[max(0, start - length)]) / max(1, min(start, length)) * (length - 1) / gain
    # Memory that fills up ever more slowly looks like a leak that slows down, too.
    if before < 0.5:
        return slowing + 0.25 * doubt <= _SLOWING * _logarithm(0.5 / length)
    at = max(start, 0.5) / m  # more was gained before
    return at <= 0.5 and slowing + doubt <= _SLOWING * _logarithm(at)


def _logarithm(at: float) -> float:
    """How much slower a logarithm gains in the later half of what follows ``at``, a share of its course, than in the earlier one."""
    middle = (at + 1) / 2
    return float(np.log(middle / at) + np.log(middle)) / -float(np.log(at))


def _jumps(steps: Floats, stretch: int) -> bool:
    """Whether the rise is worth too few steps where those within ``stretch`` windows count as one.

    A jump of the level beside noise lifts the floor in several steps: before it, the lowest level is that of ever fewer windows.
    """
    total = np.concatenate([[0.0], np.cumsum(steps)])
    least = min(_STEPS, _SHARE * len(steps) / stretch)
    for phase in range(0, stretch, max(1, stretch // 8)):
        merged = np.diff(total[distinct(np.array([0, *range(phase, len(steps), stretch), len(steps)]))])
        if _worth(merged) < least:
            return True
    return False


def _worth(steps: Floats) -> float:
    """How many steps of equal size a rise is worth; the largest one counts as one."""
    largest = float(steps.max())
    others = float((steps**2).sum()) - largest**2
    return 1 + (float(steps.sum()) - largest) ** 2 / others if others > 0 else 1.0


def _slowing(steps: Floats, gain: float) -> float:
    """How much slower the later half gains than the earlier one: 0 for not at all, 1 where it gains nothing.

    One step that is a large part of the gain is a jump beside the growth, and left out.
    """
    half, at = (len(steps) + 1) // 2, int(steps.argmax())
    kept = np.ones(len(steps), bool)
    kept[at] = steps[at] <= 0.3 * gain
    early, late = (float(steps[part][kept[part]].mean()) for part in (slice(0, half), slice(half, None)))
    return max((early - late) / (early + late), 0.0) if early + late > 0 else 1.0


def _wander(live: Ints, lowest: Ints, start: int, width: int) -> float:
    """How far lowest levels wander within a width, as a share of what a random walk of the same steps does (variances)."""
    step = float(np.diff(live[start:]).astype(np.float64).var())
    tail = lowest[start:]
    return float((tail[width:] - tail[:-width]).astype(np.float64).var()) / (width * step) if step > 0 else 0.0


def _off_line(values: Ints) -> float:
    """The standard deviation about the straight line through values that least squares draws."""
    y = (values - values[0]).astype(np.float64)
    x = np.arange(len(y)) - (len(y) - 1) / 2
    y -= y.mean()
    y -= x * (float(x @ y) / float(x @ x))
    return float(y.std())


def _since(tail: _Tail) -> int:
    """The window in which the first bytes of a tail were gained.

    Least squares finds the bend of a level that stays and then rises; the next window in which the floor rises is the one, unless it
    rises by much more than any later one: that is warm-up.
    """
    y = (tail.lowest[tail.start :] - tail.lowest[tail.start]).astype(np.float64)
    m = len(y)
    # A ramp that is 0 up to and with window k and then 1, 2, …, j = m - 1 - k: how well does it fit, for each k at once?
    j = np.arange(m - 1, 0, -1, dtype=np.float64)
    ramp, squares = j * (j + 1) / 2, j * (j + 1) * (2 * j + 1) / 6
    after = np.cumsum(y[::-1])[::-1]  # Σ of y from each window on
    product = np.cumsum(after[::-1])[::-1][1:]  # Σ ramp · y
    fit = (product - ramp * y.mean()) ** 2 / (squares - ramp**2 / m)
    bend = tail.start + int(fit.argmax())
    floor = floor_of(tail.lowest)
    steps = np.diff(floor)
    rises = np.flatnonzero(steps)
    first, rises = rises[(rises >= tail.start) & (rises < bend)], rises[rises >= bend]
    if not len(rises):
        return bend + 1
    usual = int(steps[rises[1:]].max()) if len(rises) > 2 else int(steps[rises[0]])
    if len(first) == 1 and 4 * steps[first[0]] <= 5 * usual and np.array_equal(floor, tail.lowest):
        rises = first  # of a leak every many windows: a level that stays for long after its first step looks like the one before
    return 1 + int(rises[1 if 4 * steps[rises[0]] > 5 * usual else 0])
