"""The shape of a series of levels that does not grow: how its floor rose, and after how many windows it comes back.

The floor is the lowest level from each window on.  A rise of the floor stays, so each is a part of the answer: a *step up* where it takes one
window, memory that *fills up* where it takes many.  Whatever the level came back by on its way is no rise.  What comes back within ``width``
windows is left aside by looking at the lowest level of each ``width`` windows in a row.  Levels by chance, and a random walk, have a floor
that rises, too: the former so little that levels as low as before would hardly stay away by chance, the latter without coming back at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memlens.columns import Ints

#: The fewest windows that are judged.
MINIMUM = 4
#: The least number of windows of which growth is told, in a series of more than a few.
TAIL = 7
#: A series has so many widths, and one more where the windows of its first floor count.
SPANS = 4
#: How many times what came back the floor must rise by: in single windows, and in lowest levels of several.
_BEYOND = (1.5, 2.0)
#: Where it rises by so many times what came back, it rises neither by chance nor by wandering.
_PLAIN = 8
#: How likely levels by chance would stay above a floor as they do, in any of the windows, at most.
_CHANCE = 0.1
#: Σ squared differences of neighbours about Σ squared deviations: 2 of levels by chance, far less of a random walk.
_UNLIKE = 1.5
#: So many parts of a rise are told one by one; of more it is told where nearly all, all but one part of so many, is reached.
_FEW, _NEARLY = 4, 50
#: A series repeats itself where it differs from itself, a period later, by so small a share of what it differs by in between (variances).
_REPEATS = 0.15


class Part(NamedTuple):
    """A part of a rise: the first and the last window in which the floor rose, and by how much."""

    first: int
    last: int
    rose_bytes: int


class Rise(Struct, frozen=True):
    """How the floor of a series rose that does not grow, by more than came back.

    Attributes:
        from_bytes: The floor right before it.
        rose_bytes: By how much, in all.
        parts: One for each step up, or stretch in which memory fills up; the one stretch of them all where there are many.
        how: ``"stayed"`` where more windows follow than the floor ever waited for its next rise, two at least; ``"late"`` where the rise is
            in the last windows, too few to be judged; else ``"unsteady"``.
    """

    from_bytes: int
    rose_bytes: int
    parts: tuple[Part, ...]
    how: Literal["stayed", "late", "unsteady"]

    @property
    def first(self) -> int:
        """The window in which the floor began to rise."""
        return self.parts[0].first

    @property
    def last(self) -> int:
        """The window from which on the level stays above what it rose to."""
        return self.parts[-1].last


def floor_of(levels: Ints) -> Ints:
    """The lowest level from each place on, int64, rising."""
    return np.minimum.accumulate(levels[::-1])[::-1]


def came_back(live: Ints) -> int:
    """The most by which the level rose from a window and fell again to a later one."""
    lowest_before = np.minimum.accumulate(live)
    return int(np.minimum(live - lowest_before, live - floor_of(live)).max())


def lowest_levels(live: Ints) -> Iterator[tuple[int, Ints]]:
    """Widths from 1 to a part of the series, and the lowest levels of so many windows in a row."""
    lowest, before, width = live, 1, 1
    while width == 1 or width * (SPANS + 1) <= len(live):
        # Two stretches of the width before cover one of this width, for a width at most doubles.
        more, before = width - before, width
        lowest = np.minimum(lowest[: len(lowest) - more], lowest[more:])
        yield width, lowest
        width = width + 1 if width < 8 else width * 13 // 10


def rise_of(live: Ints, start: int, period: int | None) -> Rise | None:
    """How the floor rose after window ``start``, in a series that repeats itself after ``period`` windows or does not; ``None`` where it did not."""
    if len(live) - start < MINIMUM:
        return None
    levels = live[start:]
    n, floor = len(levels), floor_of(levels)
    for width, lowest in lowest_levels(levels) if floor[-1] > floor[0] else ():
        gain = int(floor[n - width] - floor[0])
        if gain <= 0 or (period is not None and width < period):
            continue
        back = max(came_back(lowest), came_back(-lowest))
        if gain <= _BEYOND[width > 1] * back:
            continue
        at = _edges(floor[: n - width + 1], int(_BEYOND[width > 1] * back))
        plain = gain >= _PLAIN * back
        if (plain and width == 1) or _lasts(levels, at, int(floor[n - width])):
            break
    else:
        return None
    if not plain and period is None and not _comes_back_at_once(levels, at):
        return None
    parts = _parts(levels, floor, at, back)
    later = 0
    while len(parts) > 1 and _NEARLY * (later := later + parts[-1].rose_bytes) < gain:
        parts.pop()  # hardly anything: nearly all was there before
    if len(parts) > _FEW:
        parts = [Part(parts[0].first, parts[-1].last, gain)]
    parts = [_nearly(floor, one) for one in parts]
    first = parts[0].first
    last = parts[-1].last
    waits = np.diff([one for one in at if one <= last])
    how: Literal["stayed", "late", "unsteady"] = "late" if n - first < TAIL else "unsteady"
    if n - 1 - last > max([1, *waits.tolist()]):
        how = "stayed"
    moved = tuple(Part(one.first + start, one.last + start, one.rose_bytes) for one in parts)
    return Rise(int(floor[first - 1]), int(floor[last] - floor[first - 1]), moved, how)


def _edges(floor: Ints, apart: int) -> list[int]:
    """The windows in which a floor is more than so much above where it was at the one before."""
    at, here = [], 0
    while (here := int(np.searchsorted(floor, floor[here] + apart, "right"))) < len(floor):
        at.append(here)
    return at


def _lasts(levels: Ints, at: Sequence[int], top: int) -> bool:
    """Whether levels by chance, of which as many are below ``top`` as before the rise, would hardly have stayed above it since."""
    low = int(np.count_nonzero(levels[: at[0]] < top))
    staying = (len(levels) - at[-1]) * np.log1p(-low / (at[0] + 1))
    return bool(staying + np.log(len(levels)) < np.log(_CHANCE))


def _comes_back_at_once(levels: Ints, at: Sequence[int]) -> bool:
    """Whether levels between the edges of a rise go up and down by themselves, and do not wander."""
    near = far = 0.0
    for piece in np.split(levels.astype(np.float64), at):
        squares = np.diff(piece) ** 2
        near += float(squares.sum() + squares[:1].sum() + squares[-1:].sum())  # the outermost have one neighbour
        far += float(((piece - piece.mean()) ** 2).sum())
    return near >= _UNLIKE * far


def _parts(levels: Ints, floor: Ints, at: Sequence[int], back: int) -> list[Part]:
    """A rise in its parts; edges are of one part where the wait between them is at most half as long as the part so far."""
    parts: list[Part] = []
    for edge in at:
        # A level that is for a while above both floors says nothing of the window in which the floor rose.
        first, last = edge, edge + int(np.argmax(levels[edge:] <= floor[edge] + back))
        if parts and first - parts[-1].last <= max(1, (parts[-1].last - parts[-1].first + 1) // 2):
            first, last = parts[-1].first, max(last, parts.pop().last)
        parts.append(Part(first, last, int(floor[last] - floor[first - 1])))
    return parts


def _nearly(floor: Ints, part: Part) -> Part:
    """A part without its end, in which hardly anything is added."""
    if floor[part.first] == floor[part.last]:
        return part
    before = int(floor[part.first - 1])
    nearly = floor[part.last] - (floor[part.last] - before) // _NEARLY
    last = part.first + int(np.searchsorted(floor[part.first : part.last], nearly))
    return Part(part.first, last, int(floor[last]) - before)


def period_of(live: Ints) -> int | None:
    """After how many windows a series repeats itself, two times at least; ``None`` where it does not."""
    n = len(live)
    levels = live - live.mean()
    if n < 2 * MINIMUM or not levels.any():
        return None
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.fft.rfft(levels, size)
    alike = np.fft.irfft(spectrum * spectrum.conj(), size)
    squares = np.concatenate([[0.0], np.cumsum(levels**2)])
    lag = np.arange(1, n // 2 + 1)
    # The mean of the squared differences between each level and the one so many windows later.
    unlike = (squares[n - lag] + squares[n] - squares[lag] - 2 * alike[lag]) / (n - lag)
    dips = np.flatnonzero(unlike[1:] <= _REPEATS * np.maximum.accumulate(unlike)[:-1])
    if not len(dips):
        return None
    rising = np.flatnonzero(np.diff(unlike[int(dips[0]) + 1 :]) >= 0)
    return int(dips[0]) + 2 + (int(rising[0]) if len(rising) else len(unlike) - int(dips[0]) - 2)
