"""Settings tried: each replayed without a limit, under the limit that was asked for, and under many more, with new chunks at several addresses.

With which limits of memory a run completes under one setting is tried from the top down, never bisected alone.
Completing is not monotone in the limit: a run that completes within 8 MiB may fail within 9 MiB, for the limit decides when idle chunks go,
and so which addresses are free later.  What can be said is with which of the limits that were tried it completes.

A replay tells of more than its own limit.  With the limit L it is granted at most R bytes in all, and everything it is refused would be more
than L: so it goes the same way under every limit from R to L, and the next one that may differ lies below R.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from functools import cache
from threading import Event
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from msgspec import Struct, field, structs

from memlens.allocators.engine import Replay, nothing_idle, replay, replays_within
from memlens.allocators.history import Operation
from memlens.allocators.models import NO_LIMIT
from memlens.allocators.placing import Addresses, Placement
from memlens.errors import UsageError
from memlens.replaying.result import MemoryRange, RefusedRequest, SettingTrial

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from memlens.allocators.engine import Replay
    from memlens.allocators.history import RequestHistory
    from memlens.allocators.models import AllocatorModel, AllocatorRules, Values


Item = TypeVar("Item")

#: Where new chunks are put: as recorded, then above all others; and where drivers may put them otherwise.
PLACEMENTS = (
    *(Addresses(one) for one in Placement if one != Placement.SHUFFLED),
    *(Addresses(Placement.SHUFFLED, seed) for seed in range(1, 5)),
)
#: Those of a history of more operations than this.
_FEWER, _LONG = (PLACEMENTS[0], *PLACEMENTS[2:5]), 200_000
#: Operations that are replayed in all, about; and limits that are tried of one setting and one placement, at least and at most.
_OPERATIONS = 60_000_000
_LEAST, _MOST = 4, 48


class _StoppedError(Exception):
    """Another thread failed, or somebody interrupts."""


class _Replayed(Struct, eq=False):
    """One setting while it is tried; its rules are made when they are needed, for they are columns as long as the history.

    Attributes:
        values: What differs from how the run was set.
        line: The very line to set.
        relieved: Something is given back where the device refuses.
        begins: Bytes reserved as the history begins.
        peaks, limited, scans: Of each placement the reserved peak, the replay under the limit that was asked for, and what many limits tell.
        stuck: It fails without any limit.
        chunks: Chunks taken and given back with the first placement.
        within: Of each placement what replays under a limit, as long as it is known that it may be asked.
    """

    values: Values
    line: str
    relieved: bool
    begins: int
    peaks: list[int] = []
    limited: list[Replay] = []
    scans: list[LimitScan | None] = []
    stuck: bool = False
    chunks: tuple[int, int] = (0, 0)
    within: list[Callable[[int], Replay]] = []


class Trials(Struct, eq=False):
    """Settings to try on one history.

    Attributes:
        history: What is asked for; no request in it has failed.
        model: The model of the allocator.
        own: How the run was set.
        limit: The limit to hold settings against; ``None`` for none.
        line_of: The line of an operation, 1-based.
        tried: Told how much is done, and of how much: settings, then settings under many limits.
    """

    history: RequestHistory
    model: AllocatorModel
    own: Values
    limit: int | None
    line_of: Callable[[int], int | None]
    tried: Callable[[int, int], None] | None = None
    _stop: Event = field(default_factory=Event)

    @property
    def placements(self) -> Sequence[Addresses]:
        """Where new chunks are put, one after the other."""
        return PLACEMENTS if len(self.history) <= _LONG else _FEWER

    def run(
        self, changes: Sequence[Values], *, scanned: bool = True, skip_refused: bool = False
    ) -> tuple[tuple[SettingTrial, ...], int]:
        """Try the run as it was set, and with each of some changes.

        Args:
            changes: What to set otherwise.
            scanned: Look for the limits with which each completes.
            skip_refused: Leave out what the allocator refuses to be set to.

        Raises:
            UsageError: It refuses one of them.

        Returns:
            The trials, best first; and the most bytes live at once, of blocks as small as any setting makes them, the defaults among them.
        """
        by_default = {setting.name: setting.default for setting in self.model.settings if setting.settable}
        each, block = [], self._rules(by_default).block.astype(np.int64)
        for change in ({}, *changes):
            with suppress(UsageError) if skip_refused and change else nullcontext():
                rules = self._rules(change)
                each.append(self._made(change, rules))
                np.minimum(block, rules.block, out=block)
        lowest = live_peak(self.history, block)
        most = self._limits_of_each(sum(one.relieved for one in each), len(each))

        def peaks(one: _Replayed) -> None:
            shared = scanned and most < _LEAST
            self._peaks(one, lowest if shared else None)
            if shared:  # only what may be among those looked at more closely is kept
                done = [other for other in each[1:] if len(other.peaks) == len(self.placements)]
                for other in set(done).difference(self._promising([each[0], *done])):
                    other.within = []

        self._on_threads(peaks, each)
        if scanned:
            wanted = each if most >= _LEAST else self._promising(each)
            most = max(most, _LEAST)
            for one in wanted:
                one.scans = [None] * (0 if one.stuck else len(self.placements))  # what is stuck never has enough
            places = [(one, k) for one in wanted for k in range(len(one.scans))]
            self._on_threads(lambda place: self._scan(*place, lowest, most), places)
        trials = [self._trial(one) for one in each]
        own = trials[0]
        judged = [own, *(_judged(one, own) for one in trials[1:])]
        return tuple(sorted(judged, key=_rank)), lowest

    def _rules(self, change: Values) -> AllocatorRules:
        return self.model.rules(self.history, {**self.own, **change})

    def _made(self, change: Values, rules: AllocatorRules) -> _Replayed:
        # The line is whole: what the run had set stays set.
        usual = self.model.defaults
        line = {**{name: value for name, value in self.own.items() if value != usual.get(name)}, **change}
        begins = int(self.history.opening_chunks.size.sum()) if rules.keep_opening else 0
        return _Replayed(change, self.model.line(line) if change else "", relieved=bool(rules.relief), begins=begins)

    def _go_on(self) -> None:
        """End what is under way where another thread failed."""
        if self._stop.is_set():
            raise _StoppedError

    def _replay(self, rules: AllocatorRules, addresses: Addresses, limit: int | None = None) -> Replay:
        self._go_on()
        return replay(self.history, rules, addresses=addresses, limit=limit)

    def _peaks(self, one: _Replayed, lowest: int | None) -> None:
        rules = self._rules(one.values)
        alike = nothing_idle(self.history, rules)
        for addresses in self.placements:
            if alike is None and lowest is not None and one.relieved:
                self._go_on()
                one.within.append(replays_within(self.history, rules, addresses, max(lowest, one.begins)))
                free = one.within[-1](NO_LIMIT)
            else:
                free = alike or self._replay(rules, addresses)
            if not one.peaks:
                one.chunks = free.taken, free.given_back
            one.peaks.append(free.reserved_peak)
            one.stuck = one.stuck or not free.completed
            if self.limit is None or (free.completed and free.reserved_peak <= self.limit):
                one.limited.append(free)  # under the limit it goes the same way
            else:
                one.limited.append(self._replay(rules, addresses, self.limit))

    def _limits_of_each(self, relieved: int, settings: int) -> int:
        """Limits that there is time to try of each setting and placement."""
        done = settings * len(self.placements) * (1 if self.limit is None else 2)
        replays = _OPERATIONS // max(len(self.history), 1) - done
        return min(max(replays // max(relieved * len(self.placements), 1), 0), _MOST)

    def _promising(self, each: Sequence[_Replayed]) -> Sequence[_Replayed]:
        """The settings that need few replays, the run as it was set, and the settings that reserve least: of a long history not all are tried under many limits."""
        relieved = sorted((one for one in each[1:] if one.relieved), key=lambda one: (one.stuck, max(one.peaks)))
        return [each[0], *(one for one in each[1:] if not one.relieved), *relieved[:2]]

    def _within(self, found: Replay) -> bool:
        """Whether a replay completes within the limit."""
        return found.completed and (self.limit is None or found.reserved_peak <= self.limit)

    def _scan(self, one: _Replayed, number: int, lowest: int, most: int) -> None:
        # What is refused is refused for good where nothing is given back then: with less than its peak it fails.
        tries, least = most if one.relieved else 0, max(lowest, one.begins)

        @cache
        def within() -> Callable[[int], Replay]:
            return replays_within(self.history, self._rules(one.values), self.placements[number], least)

        def tried(limit: int) -> Replay:
            self._go_on()
            return (one.within[number] if one.within else within())(limit)

        one.scans[number] = summed_up(scan_limits(tried, one.peaks[number], least, tries))

    def _on_threads(self, work: Callable[[Item], None], items: Sequence[Item]) -> None:
        """Work on several threads; an interrupt, or an error in one of them, ends what is under way with its next replay."""

        def unless_stopped(item: Item) -> None:
            try:
                work(item)
            except _StoppedError:
                return  # what stopped it is raised elsewhere
            except BaseException:
                self._stop.set()
                raise

        with ThreadPoolExecutor(max(min(os.cpu_count() or 1, len(items), 8), 1)) as threads:
            try:
                for done, _ in enumerate(threads.map(unless_stopped, items), 1):
                    if self.tried is not None:
                        self.tried(done, len(items))
            except BaseException:
                self._stop.set()
                threads.shutdown(wait=True, cancel_futures=True)
                raise

    def _trial(self, one: _Replayed) -> SettingTrial:
        completes = None
        if scans := [scan for scan in one.scans if scan is not None]:
            completes = MemoryRange(
                min(scan.completes_least for scan in scans), max(scan.completes_from for scan in scans)
            )
        completing = sum(map(self._within, one.limited))
        within = None
        if self.limit is not None or one.stuck:
            within = "completes" if completing == len(one.limited) else "depends" if completing else "fails"
        refused = next((found for found in one.limited if not self._within(found)), None)
        return SettingTrial(
            one.line,
            dict(one.values),
            MemoryRange(min(one.peaks), max(one.peaks)),
            completes,
            within,
            completing,
            len(self.placements),
            None if refused is None or refused.completed else self._refused(refused),
            *one.chunks,
            since=max(
                (it.since for it in self.model.settings if one.values.get(it.name, it.default) != it.default),
                default="",
            ),
        )

    def _refused(self, found: Replay) -> RefusedRequest:
        return RefusedRequest(
            self.line_of(found.failed),
            int(self.history.size[found.failed]),
            found.failed_reserved,
            found.failed_free,
            found.failed_largest,
        )


def live_peak(history: RequestHistory, block: NDArray[np.int64]) -> int:
    """The most bytes live at once, where each REQUEST's block has so many."""
    change = np.where(history.operation == Operation.REQUEST, block, 0)
    freed = history.operation == Operation.FREE
    change[freed] = -block[history.of[freed]]
    return max(int(change.cumsum().max(initial=0)), 0)


def _judged(trial: SettingTrial, own: SettingTrial) -> SettingTrial:
    """A trial with whether it is better than the run as it was set.

    It is where nothing of it lies within the other's range, and less by a thousandth at least; or where the run fails within the limit whatever the
    addresses, and it completes.
    """
    if (trial.within_limit, own.within_limit) == ("completes", "fails"):
        return structs.replace(trial, better=True)
    both = trial.completes is not None and own.completes is not None
    one, other = (trial.needs, own.needs) if both else (trial.reserved_peak, own.reserved_peak)
    apart = one.high_bytes * 1000 <= other.low_bytes * 999
    return structs.replace(trial, better=apart and trial.within_limit == own.within_limit)


def _rank(trial: SettingTrial) -> tuple[int, ...]:
    """By what trials are ordered: those that complete within the limit first, then those that need least, then the run as it was set."""
    within = {None: 0, "completes": 0, "depends": 1, "fails": 2}[trial.within_limit]
    needs = trial.needs
    return within, needs.high_bytes, needs.low_bytes, trial.reserved_peak.high_bytes, not trial.own, len(trial.values)


class TriedLimits(NamedTuple):
    """Limits that are alike: from the lowest to the highest, and whether the run completes with them."""

    low: int
    high: int
    completes: bool


class LimitScan(NamedTuple):
    """A scan of one setting and one way in which new chunks get their addresses, in bytes.

    Attributes:
        reserved_peak: The most that is reserved without a limit; with any limit from there on the run completes.
        completes_from: The lowest limit from which on it completes with all that were tried.
        completes_least: The lowest limit that was tried with which it completes; below ``completes_from`` it fails with some in between.
        every: Every limit from ``completes_from`` on is known, and not only some of them.
    """

    reserved_peak: int
    completes_from: int
    completes_least: int
    every: bool


def scan_limits(replay: Callable[[int], Replay], peak: int, lowest: int, most: int) -> list[TriedLimits]:
    """Replay under limits below a peak.

    Args:
        replay: Replays under a limit.
        peak: The reserved peak without a limit.
        lowest: With less no setting completes.
        most: Replays at most; a third of them look more closely at where it begins to fail.

    Returns:
        The limits that are known, from the top down; the first ones are those from the peak on.
    """
    known = [TriedLimits(peak, max(peak, 1 << 62), completes=True)]

    def tell(limit: int) -> TriedLimits:
        found = replay(limit)
        # What is reserved from the beginning on may be more than the limit: then nothing is known of less.
        one = TriedLimits(min(found.reserved_peak, limit), limit, found.failed < 0 and found.reserved_peak <= limit)
        known.append(one)
        return one

    coarse = max(most - most // 3, 1) if most > 0 else 0
    step = max((peak - lowest) // coarse, 1) if coarse else 1
    limit = peak - 1
    for _ in range(coarse):
        if limit < lowest:
            break
        limit = min(tell(limit).low - 1, limit - step)
    for _ in range(most - coarse):
        known.sort(key=lambda one: -one.high)
        failed = next((k for k, one in enumerate(known) if not one.completes), None)
        if failed is None:
            above, below = known[-1].low, lowest
        else:
            above, below = known[failed - 1].low, known[failed].high + 1
        if below >= above:
            break
        tell((above + below) // 2)
    return sorted(known, key=lambda one: -one.high)


def summed_up(known: Sequence[TriedLimits]) -> LimitScan:
    """Sum up a scan: the limits that are known, from the top down."""
    peak = known[0].low
    completes_from, every, gap = peak, True, False
    for one in known[1:]:
        if not one.completes:
            break
        gap = gap or one.high + 1 < completes_from
        completes_from, every = one.low, not gap
    least = min(one.low for one in known if one.completes)
    return LimitScan(peak, completes_from, least, every)
