"""Whether memory grows from window to window, which blocks pile up, and of whom more and more is live, whatever the sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from memlens.analyzers.composition import Roles
from memlens.analyzers.fates import held_events, until
from memlens.analyzers.groups import (
    UNOWNED,
    Alike,
    by_label,
    by_size_and_owner,
    commonest_holders,
    holder_of,
    kinds_of_blocks,
    owner_labels,
)
from memlens.analyzers.series.shapes import MINIMUM, floor_of
from memlens.analyzers.series.trend import Verdict, began, judge
from memlens.claims.roles import GRAPH, ROLES
from memlens.columns import Ints, distinct, spans
from memlens.facts import Kind
from memlens.folding import bounds, profile
from memlens.results import Result, Tables, deferred, lazy
from memlens.spool import walk
from memlens.text import STACK, innermost
from memlens.windows.windows import BEFORE, Window, judged, some_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from memlens.analyzers.series.phases import Pieces
    from memlens.events import EventLog


#: From how many windows blocks of a size and owner must come to be a pile: what fewer leave behind may be in use.
PILE_WINDOWS = 3
#: In so large a share of the windows reserved memory must rise: a pool takes a chunk for each request larger than all before, and of
#: requests by chance these come ever more seldom.
_OFTEN = 1 / 3
#: In so many windows it is counted what each leaves until a later one, as always.
_SAMPLES = 16
#: Of so many owners with the most live bytes it is asked whether they come to more and more.
_LOOKED_AT = 20


class Pile(Alike, frozen=True):
    """Blocks of one size (and owner, where that is known) that window after window leaves behind.

    Attributes:
        count: Blocks born in the judged windows from ``since`` on and still live at the end of the last one, less as many as each of these
            windows leaves until a later one as always.
        total_bytes: Their bytes.
        windows: In how many of these windows they were born.
        phase: The phase of a step in which all of them were born, where there is one; text from the log.
        bytes_per_window: ``total_bytes`` by the number of these windows.
        at_exit: So many are freed after the last ALLOC of the log.
        holder: Who holds half of them or more, where that was recorded: ``variable feats[*] (main, train.py)``.
        held_in_part: Somebody else was seen to hold one of their size and owner.
        role: What most of them are to the program, where holders or call stacks tell it: one of :data:`memlens.claims.roles.ROLES`.
    """

    owner: str | None
    windows: int
    bytes_per_window: float
    phase: str | None = None
    at_exit: bool = False
    holder: str | None = None
    held_in_part: bool = False
    role: str | None = None


class Grown(Result, frozen=True):
    """An owner of whom more and more is live, whatever the sizes of its blocks: a tensor that is made anew, larger, or results of one line of any length.

    Attributes:
        owner: It, as sentences name it: the operator or innermost frame, and the innermost of the user's own.
        gained_bytes: By how much the floor of its live bytes at the ends of windows rose, as :attr:`memlens.analyzers.series.growth.Growth.gained_bytes` of all.
        gained_bytes_per_window: As that of all.
        since: Name of the window in which the first of these bytes were gained.
        count: Its blocks that are live at the end of the last judged window.
        holder: Who holds more than half of these bytes, where that was recorded.
        held_in_part: Somebody else was seen to hold one of these blocks.
        at_exit: So much of it is freed after the last ALLOC of the log.
    """

    owner: str
    gained_bytes: int
    gained_bytes_per_window: float
    since: str
    count: int
    holder: str | None = None
    held_in_part: bool = False
    at_exit: bool = False


@lazy("piling", "grown")
class Growth(Result, frozen=True):
    """The live bytes at the ends of a series of windows.

    Attributes:
        windows: How many windows there are.
        judged: How many of them the verdict is about: all but what precedes the first one and an open one at the end.
        live_bytes: The level at the end of each window (all of them).
        gained_bytes: By how much the floor of the level rose; see :class:`~memlens.analyzers.series.trend.Trend`.
        gained_bytes_per_window: What is gained in a window; see there.
        every: So many windows lie between any two gains, where these come evenly; else ``None``.
        verdict: ``"flat"``, ``"growing"``, ``"shrinking"`` or ``"swinging"``; the rule is in :mod:`memlens.analyzers.series.trend`.
        since: Name of the window in which the first bytes were gained, where the series grows.
        since_window: Its 0-based index in the series.
        until: Name of the window of the last ones, where it has grown and grows no longer; see :class:`~memlens.analyzers.series.trend.Trend`.
        growing_windows: How many windows there are from it to the last that is judged; 0 where the series does not grow.
        swing_bytes: Half of the most by which the level rose and came back, or fell and came back.
        open_end: Name of the open window that is left out, or ``None``.
        peak_verdict: The same verdict on the windows' peaks, but for that of what precedes the series; not ``"growing"`` where they have stopped.
        peak_since: Name of the window from which on the peaks grow, or ``None``.
        peak_from_bytes: The floor of the peaks right before it, or ``None``.
        peak_gained_bytes: By how much the floor of the peaks rose.
        reserved_verdict: The verdict on what is reserved at the ends of the windows; ``None`` where the log does not tell of chunks.
            Reserved memory that grows must rise in a third of the windows from ``reserved_since`` on: a pool takes a chunk for every
            request larger than all before, and these come ever more seldom.
        reserved_since: As for the peaks.
        reserved_from_bytes: As for the peaks.
        reserved_gained_bytes: As for the peaks; ``None`` where it is not known.
        rose: How the level rose where the verdict is neither ``"growing"`` nor ``"shrinking"``: ``"stayed"``, ``"late"`` or ``"unsteady"``; ``None`` where it did not; see
            :class:`~memlens.analyzers.series.shapes.Rise`.
        rose_from_bytes: The floor right before it rose, or ``None``.
        rose_bytes: By how much; 0 where it did not.
        rose_from: Name of the window in which it began to rise, or ``None``.
        rose_until: Name of the window from which on it stays above what it rose to, or ``None``.
        rose_windows: How many windows there are from the first of these to the last that is judged; 0 where it did not rise.
        rising_windows: How many there are from the first of these to the second.
        rises_bytes: By how much it rose in each of its parts, by their windows; ``None`` where it did not.
        period: After so many windows a level repeats itself that swings and did not rise; ``None`` where it does not.
        lowest_bytes: The lowest level at the end of a judged window.
        highest_bytes: The highest one.
        piling: The blocks that pile up from window ``since`` on, the largest total first; none where the series does not grow.
        grown: The owner of whom more than half of what is gained is.  Of a series that swings, and does not end lower than it began, one of whom as much is
            gained as the series swings by: what comes and goes hides it.  ``None`` where there is none.
    """

    tables: ClassVar[Tables] = {"piling": Pile}

    windows: int
    judged: int
    live_bytes: tuple[int, ...]
    gained_bytes: int
    gained_bytes_per_window: float
    verdict: Verdict
    since: str | None
    since_window: int | None
    swing_bytes: int
    open_end: str | None = None
    peak_verdict: Verdict = "flat"
    peak_since: str | None = None
    peak_from_bytes: int | None = None
    peak_gained_bytes: int = 0
    reserved_verdict: Verdict | None = None
    reserved_since: str | None = None
    reserved_from_bytes: int | None = None
    reserved_gained_bytes: int | None = None
    rose: Literal["stayed", "late", "unsteady"] | None = None
    rose_from_bytes: int | None = None
    rose_bytes: int = 0
    rose_from: str | None = None
    rose_until: str | None = None
    rose_windows: int = 0
    rising_windows: int = 0
    rises_bytes: dict[str, int] | None = None
    period: int | None = None
    lowest_bytes: int = 0
    highest_bytes: int = 0
    growing_windows: int = 0
    every: int | None = None
    until: str | None = None
    piling: tuple[Pile, ...] = ()
    grown: Grown | None = None

    @property
    def piles_alike(self) -> list[list[Pile]]:
        """Those of ``piling`` together that a sentence would name alike, for their stacks differ farther out; the largest total first."""
        piles: dict[object, list[Pile]] = {}
        for one in self.piling:
            piles.setdefault((one.size_bytes, one.owner and innermost(one.owner), one.phase), []).append(one)
        return sorted(piles.values(), key=bytes_of, reverse=True)

    @property
    def from_bytes(self) -> int | None:
        """The level that a series fell from that swings and fell once, from its higher half into its lower one; ``None`` where it went to and fro."""
        first = self.windows - self.judged - (self.open_end is not None)
        middle = (self.lowest_bytes + self.highest_bytes) // 2
        higher = [level > middle for level in self.live_bytes[first : first + self.judged]]
        return self.highest_bytes if self.verdict == "swinging" and higher == sorted(higher, reverse=True) else None

    @property
    def most(self) -> Pile | Grown | None:
        """The largest pile; or ``grown``, where no pile is half of what is gained, nor a quarter and the same owner's."""
        alike = next(iter(self.piles_alike), None)
        if alike is None or self.grown is None:
            return self.grown if alike is None else alike[0]
        same = alike[0].owner is not None and innermost(alike[0].owner) == self.grown.owner
        return alike[0] if (4 if same else 2) * bytes_of(alike) > self.gained_bytes else self.grown


def bytes_of(piles: Sequence[Pile]) -> int:
    """The bytes of piles together."""
    return sum(pile.total_bytes for pile in piles)


def growth(windows: Sequence[Window], pieces: Pieces | None = None) -> Growth:
    """Analyze a series of windows of one log, in their order; ``pieces`` are their phases, where they have some."""
    if not windows:
        return Growth(0, 0, (), **of_levels(np.zeros(0, np.int64), 0, str))
    found = profile(windows)
    log, lo, hi = bounds(windows)
    fates = np.array(judged(windows, (hi - lo).tolist()), bool)
    chosen = some_of(windows, fates)
    live = found["live_bytes"]
    before = int(len(chosen) > 1 and chosen[0].name == BEFORE)
    of_live = of_levels(live[fates], before, lambda window: chosen[window].name)
    since = of_live["since_window"]
    of_device = _of_device("peak", found["peak_bytes"][fates][before:], 0, chosen[before:])
    if log.tells_of_chunks:
        reserved = (found.levels[1] + found["reserve_bytes"] - found["release_bytes"])[fates]
        of_device |= _of_device("reserved", reserved, _OFTEN, chosen)
    least = 0 if since is None else of_live["gained_bytes"] // 2
    if of_live["verdict"] == "swinging" and of_live["gained_bytes"] > 0:
        least = of_live["swing_bytes"]
    return Growth(
        windows=len(windows),
        judged=len(chosen) - before,
        live_bytes=tuple(live.tolist()),
        **of_live,
        open_end=windows[-1].name if len(chosen) < len(windows) else None,
        **of_device,
        piling=() if since is None else deferred(piles, chosen, since, pieces),
        grown=deferred(grown_of, chosen, before, least, since) if least else None,
    )


def of_levels(live: NDArray[np.int64], before: int, name: Callable[[int], str]) -> dict[str, Any]:
    """The fields of :class:`Growth` that follow from the levels at the ends of windows, of which the first ``before`` precede the series."""
    trend = judge(live if len(live) - before >= MINIMUM else live[:0], before)
    since, rise, of_series = trend.since, trend.rise, live[before:]
    found = {
        "gained_bytes": trend.gained_bytes,
        "gained_bytes_per_window": trend.gained_bytes_per_window,
        "every": trend.every,
        "verdict": trend.verdict,
        "since": None if since is None else name(since),
        "since_window": since,
        "until": None if trend.until is None else name(trend.until),
        "growing_windows": 0 if since is None else len(live) - since,
        "swing_bytes": trend.swing_bytes,
        "period": trend.period,
        "lowest_bytes": min(of_series.tolist(), default=0),
        "highest_bytes": max(of_series.tolist(), default=0),
    }
    if rise is None:
        return found
    ends = [tuple(dict.fromkeys((name(part.first), name(part.last)))) for part in rise.parts]
    return found | {
        "rose": rise.how,
        "rose_from_bytes": rise.from_bytes,
        "rose_bytes": rise.rose_bytes,
        "rose_from": name(rise.first),
        "rose_until": name(rise.last),
        "rose_windows": len(live) - rise.first,
        "rising_windows": rise.last - rise.first + 1,
        "rises_bytes": {" to ".join(end): part.rose_bytes for end, part in zip(ends, rise.parts, strict=True)},
    }


def _of_device(level: str, levels: NDArray[np.int64], often: float, windows: Sequence[Window]) -> dict[str, Any]:
    """The fields on what the device must hold, from where it began to rise; it grows where its floor rises in such a share of the windows, and still does."""
    trend = judge(levels)
    verdict, since, start, gained = trend.verdict, trend.since, trend.from_bytes, trend.gained_bytes
    if since is not None:
        floor = floor_of(levels)
        if trend.until is not None or np.count_nonzero(np.diff(floor)[since - 1 :]) < often * (len(levels) - since):
            verdict, since, start = "swinging" if trend.swing_bytes else "flat", None, None
        elif (first := began(levels, since)) != since:
            gained += (start or 0) - int(floor[first - 1])
            since, start = first, int(floor[first - 1])
    name = None if since is None else windows[since].name
    found = {"verdict": verdict, "since": name, "from_bytes": start, "gained_bytes": gained}
    return {f"{level}_{field}": value for field, value in found.items()}


def piles(windows: Sequence[Window], since: int = 0, pieces: Pieces | None = None) -> tuple[Pile, ...]:
    """The blocks that windows leave behind from one on, and that are still live at the end of the last of them, by size and owner.

    What comes between two windows, where they are annotations of a part of each step say, is the latter's: it is live at its end.
    """
    log, lo, hi = bounds(windows)
    lo = np.append(lo[:1], np.minimum(lo[1:], hi[:-1]))
    windows, lo, hi = windows[since:], lo[since:], hi[since:]
    if len(windows) < PILE_WINDOWS:
        return ()
    end = int(hi.max())
    left = held_events(log, int(lo.min()), end, end)
    # A row for each block and window that it was born in: windows may overlap.
    first, last = np.searchsorted(left, lo), np.searchsorted(left, hi)
    count = np.maximum(last - first, 0)
    rows, window = spans(first, count), np.repeat(np.arange(len(windows)), count)
    passing, sample, ends = _passing(log, lo, hi, end)
    kind, sizes, owners = kinds_of_blocks(log, np.concatenate([left, passing]))
    born = distinct(kind[rows] * len(windows) + window) // len(windows)
    seen = np.bincount(born, minlength=len(sizes))
    # Of each kind by the phase in which it was born: what passes through in one does not hide what another leaves.
    phases = 1 + (len(pieces.names) if pieces else 0)
    part = kind * phases + 1 + (pieces.of(np.concatenate([left, passing])) if pieces else -1)
    parts, inside = distinct(part), distinct(rows)
    part = parts.searchsorted(part)
    kept = np.bincount(part[inside], minlength=len(parts))
    some, samples = distinct(part[len(left) :]), min(_SAMPLES, len(windows) - 1)
    table = np.zeros((len(some), samples), np.int64)
    np.add.at(table, (some.searchsorted(part[len(left) :]), sample), ends)
    kept[some] -= np.sort(table)[:, samples // 2]
    at_exit = np.bincount(part[inside], freed_last(log, left[inside], end), minlength=len(parts)) >= kept
    names, found = owner_labels(log), []
    holders = commonest_holders(log, left, kind[: len(left)], len(sizes))
    roles = _commonest_roles(log, left, kind[: len(left)], len(sizes))
    edges = parts.searchsorted(phases * np.arange(len(sizes) + 1)).tolist()
    for k in np.flatnonzero(seen >= PILE_WINDOWS).tolist():
        of_kind = edges[k] + np.flatnonzero(kept[edges[k] : edges[k + 1]] > 0)
        size, count = int(sizes[k]), int(kept[of_kind].sum())
        if count:
            place = int(parts[of_kind[0]]) % phases if len(of_kind) == 1 else 0
            phase = pieces.names[place - 1] if pieces and place else None
            total, late = size * count, bool(at_exit[of_kind].all())
            held = None if holders is None or holders[0][k] < 0 else holders[1][holders[0][k]]
            in_part = held is not None and holders is not None and bool(holders[3][k])
            each, owner = total / len(windows), names[owners[k]]
            found.append(Pile(size, count, total, owner, int(seen[k]), each, phase, late, held, in_part, roles.get(k)))
    return tuple(sorted(found, key=lambda pile: (-pile.total_bytes, -pile.size_bytes, pile.owner or "")))


def _commonest_roles(log: EventLog, blocks: Ints, kind: Ints, kinds: int) -> dict[int, str | None]:
    """What most of the blocks of each kind are to the program, of the kinds of which that is told."""
    of_event = Roles(log).of_event
    if of_event is None:  # steps tell nothing of what an earlier one left
        return {}
    names = (*ROLES, None)
    pairs, counts = np.unique(kind * len(names) + of_event[blocks] % len(names), return_counts=True)
    of, role = np.divmod(pairs, len(names))
    most = (role < len(ROLES)) & (2 * counts > np.bincount(kind, minlength=kinds)[of])
    return {k: names[number] for k, number in zip(of[most].tolist(), role[most].tolist(), strict=True)}


def _passing(log: EventLog, lo: Ints, hi: Ints, end: int) -> tuple[Ints, Ints, Ints]:
    """The blocks of some windows that these do not free and others do before ``end``; of each in which sample it is, and how many ends of windows it passes.

    Where windows do alike, so many of them are live at the end of each: as many as are born in one, times the ends that they pass.
    """
    chosen = np.linspace(0, len(lo) - 2, min(_SAMPLES, len(lo) - 1)).astype(np.int64).tolist()
    partner = until(log.lifetimes.partner)
    held = [(blocks := held_events(log, int(lo[k]), int(hi[k]), int(hi[k])))[partner[blocks] < end] for k in chosen]
    passing, edges = np.concatenate(held), distinct(hi)
    ends = edges.searchsorted(partner[passing].astype(np.int64), "right") - edges.searchsorted(passing, "right")
    return passing, np.repeat(np.arange(len(chosen)), [len(blocks) for blocks in held]), ends


def freed_last(log: EventLog, blocks: Ints, end: int) -> NDArray[np.bool_]:
    """Which of the blocks that are live at event ``end`` are freed after the last ALLOC of the log."""
    freed, allocs = until(log.lifetimes.partner)[blocks], np.flatnonzero(log.kind[end:] == Kind.ALLOC)
    late: NDArray[np.bool_] = (freed < len(log)) & (freed >= (end + int(allocs[-1]) if len(allocs) else end))
    return late


def grown_of(windows: Sequence[Window], before: int, least: int, since: int | None = None) -> Grown | None:
    """The owner of whom most is gained over a series, where his live bytes grow by themselves, by more than so many.

    Args:
        windows: The series that is judged, of one log.
        before: How many of them precede it.
        least: What must be gained.
        since: The window from which on that is, as an index of the windows; ``None`` for the first.
    """
    log, _, hi = bounds(windows)
    if log.owner is None:
        return None
    if since:  # what others gained before it is no part of it
        windows, hi, before = windows[since - 1 :], hi[since - 1 :], max(before - since + 1, 0)
    end, ends = int(hi.max()), np.sort(hi)
    blocks = held_events(log, 0, end, end)
    groups = by_size_and_owner(log, blocks)
    live = {label: found for label, found in by_label(groups).items() if label not in UNOWNED}
    labels = [label for label, (size, _) in live.items() if size > least][:_LOOKED_AT]
    number, first = {label: k for k, label in enumerate(labels)}, {label.partition(STACK)[0] for label in labels}
    alike = (name if name and name.partition(STACK)[0] in first else None for name in groups.names)
    row = np.array([number.get(innermost(name), -1) if name else -1 for name in alike])
    changes, partner = np.zeros((len(labels), len(ends) + 1), np.int64), until(log.lifetimes.partner)
    for start, stop in walk(0, end):
        of = row[log.owner[start:stop]]
        events = np.flatnonzero((of >= 0) & (log.kind[start:stop] == Kind.ALLOC))
        of, size = of[events], log.size[start:stop][events]
        freed = np.minimum(partner[start:stop][events], end).astype(np.int64)
        np.add.at(changes, (of, ends.searchsorted(start + events, "right")), size)
        np.add.at(changes, (of, ends.searchsorted(freed, "right")), -size)
    trends = zip(labels, (judge(levels, before) for levels in changes.cumsum(axis=1)[:, :-1]), strict=True)
    grow = [(label, trend) for label, trend in trends if trend.since is not None and trend.gained_bytes > least]
    if not grow:
        return None
    owner, trend = max(grow, key=lambda one: one[1].gained_bytes)
    theirs = blocks[row[log.owner[blocks]] == number[owner]]
    # What was there before it grew has holders of its own.
    new = by_size_and_owner(log, theirs[theirs >= hi[trend.since - 1]]) if trend.since else groups
    holder, in_part = holder_of(new, owner, by_label(new).get(owner, live[owner])[0])
    gained, rate = trend.gained_bytes, trend.gained_bytes_per_window
    at_exit = int(log.size[theirs][freed_last(log, theirs, end)].sum()) >= gained
    if holder == GRAPH and not at_exit and (partner[theirs] < len(log)).all():  # that of a later pass gives it back
        holder = in_part = None
    return Grown(owner, gained, rate, windows[trend.since or 0].name, live[owner][1], holder, bool(in_part), at_exit)
