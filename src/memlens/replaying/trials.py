"""Settings tried: each replayed without a limit, under the limit that was asked for, and under many more, with new chunks at several addresses."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import TYPE_CHECKING

import numpy as np

from memlens.allocators.engine import Replay, replay
from memlens.allocators.placing import Addresses, Placement
from memlens.replaying.packing import BlockStays, live_peak, stays_of
from memlens.replaying.result import MemoryRange, RefusedRequest, SettingTrial
from memlens.replaying.scanning import LimitScan, scan_limits, summed_up

if TYPE_CHECKING:
    from memlens.allocators.history import RequestHistory
    from memlens.allocators.registry import AllocatorModel, Values
    from memlens.allocators.rules import AllocatorRules

__all__ = ["PLACEMENTS", "Trials", "lowest_blocks"]

#: Where new chunks are put: as recorded, then above all others; and where drivers may put them otherwise.
PLACEMENTS = (
    Addresses(Placement.RECORDED),
    Addresses(Placement.ASCENDING),
    Addresses(Placement.DESCENDING),
    Addresses(Placement.REUSE),
    *(Addresses(Placement.SHUFFLED, seed) for seed in range(1, 5)),
)
#: Operations that are replayed in all, about; and limits that are tried of one setting and one placement, at least and at most.
_OPERATIONS, _LEAST, _MOST = 120_000_000, 6, 48


@dataclass(eq=False)
class _Replayed:
    """One setting while it is tried: its rules, and one entry a placement of the others."""

    values: Values
    line: str
    rules: AllocatorRules
    peaks: list[int] = field(default_factory=list)
    limited: list[Replay] = field(default_factory=list)
    scans: list[LimitScan] = field(default_factory=list)
    stuck: bool = False
    chunks: tuple[int, int] = (0, 0)


@dataclass(eq=False)
class Trials:
    """Settings to try on one history.

    Attributes:
        history: What is asked for; no request in it has failed.
        model: The model of the allocator.
        own: How the run was set.
        limit: The limit to hold settings against; ``None`` for none.
        line_of: The line of an operation, 1-based.
        tried: Told how many settings are done, and of how many.
    """

    history: RequestHistory
    model: AllocatorModel
    own: Values
    limit: int | None
    line_of: Callable[[int], int | None]
    tried: Callable[[int, int], None] | None = None
    _stop: Event = field(default_factory=Event)

    def run(
        self, changes: Sequence[Values], *, scanned: bool = True
    ) -> tuple[tuple[SettingTrial, ...], int, BlockStays]:
        """Try the run as it was set, and with each of some changes.

        Args:
            changes: What to set otherwise.
            scanned: Look for the limits with which each completes.

        Returns:
            The trials, best first; the most bytes live at once; and the blocks, as small as any of the settings makes them.
        """
        each = [self._made(change) for change in ({}, *changes)]
        stays = lowest_blocks(self.history, [one.rules for one in each])
        lowest = live_peak(stays)
        done = 0

        def said() -> None:
            nonlocal done
            done += 1
            if self.tried is not None:
                self.tried(min(done, len(each)), len(each))

        self._on_threads(self._peaks, each, said if not scanned else None)
        if scanned:
            most = self._limits_of_each(each)
            wanted = each if most >= _LEAST else self._promising(each)
            most = max(most, _LEAST)
            self._on_threads(lambda one: self._scan(one, lowest, most), wanted, said)
        trials = [self._trial(one) for one in each]
        own = trials[0]
        judged = [own, *(_judged(one, own) for one in trials[1:])]
        return tuple(sorted(judged, key=_rank)), lowest, stays

    def _made(self, change: Values) -> _Replayed:
        values = {**self.own, **change}
        return _Replayed(change, self.model.line(change) if change else "", self.model.rules(self.history, values))

    def _replay(self, one: _Replayed, addresses: Addresses, limit: int | None = None) -> Replay:
        if self._stop.is_set():
            raise KeyboardInterrupt
        return replay(self.history, one.rules, addresses=addresses, limit=limit)

    def _peaks(self, one: _Replayed) -> None:
        for addresses in PLACEMENTS:
            free = self._replay(one, addresses)
            if not one.peaks:
                one.chunks = free.taken, free.given_back
            one.peaks.append(free.reserved_peak)
            one.stuck = one.stuck or not free.completed
            if self.limit is None or (free.completed and free.reserved_peak <= self.limit):
                one.limited.append(free)  # under the limit it goes the same way
            else:
                one.limited.append(self._replay(one, addresses, self.limit))

    def _limits_of_each(self, each: Sequence[_Replayed]) -> int:
        replays = _OPERATIONS // max(len(self.history), 1) - len(each) * len(PLACEMENTS) * (
            1 + (self.limit is not None)
        )
        return min(max(replays // (len(each) * len(PLACEMENTS)), 0), _MOST)

    def _promising(self, each: Sequence[_Replayed]) -> Sequence[_Replayed]:
        """The run as it was set, and the settings that reserve least: of a long history not all are looked at under many limits."""
        return [each[0], *sorted(each[1:], key=lambda one: (one.stuck, max(one.peaks)))[:2]]

    def _scan(self, one: _Replayed, lowest: int, most: int) -> None:
        if one.stuck:  # by itself it never has enough
            return
        for addresses, peak in zip(PLACEMENTS, one.peaks, strict=True):
            known = scan_limits(
                partial(self._replay, one, addresses),
                peak,
                lowest,
                most,
            )
            one.scans.append(summed_up(known, len(known) - 1))

    def _on_threads(
        self, work: Callable[[_Replayed], None], items: Sequence[_Replayed], done: Callable[[], None] | None
    ) -> None:
        """Work on settings on several threads; an interrupt ends those that are under way with their next replay."""
        with ThreadPoolExecutor(max(min(os.cpu_count() or 1, len(items), 8), 1)) as threads:
            try:
                for _ in threads.map(work, items):
                    if done is not None:
                        done()
            except BaseException:
                self._stop.set()
                threads.shutdown(wait=True, cancel_futures=True)
                raise

    def _trial(self, one: _Replayed) -> SettingTrial:
        completes = None
        if one.scans:
            completes = MemoryRange(
                min(scan.completes_least for scan in one.scans), max(scan.completes_from for scan in one.scans)
            )
        completing = sum(found.completed for found in one.limited)
        within = None
        if self.limit is not None or one.stuck:
            within = "completes" if completing == len(one.limited) else "depends" if completing else "fails"
        refused = next((found for found in one.limited if not found.completed), None)
        return SettingTrial(
            one.line,
            dict(one.values),
            MemoryRange(min(one.peaks), max(one.peaks)),
            completes,
            within,
            completing,
            len(PLACEMENTS),
            None if refused is None else self._refused(refused),
            *one.chunks,
        )

    def _refused(self, found: Replay) -> RefusedRequest:
        return RefusedRequest(
            self.line_of(found.failed),
            int(self.history.size[found.failed]),
            found.failed_reserved,
            found.failed_free,
            found.failed_largest,
        )


def lowest_blocks(history: RequestHistory, rules: Iterable[AllocatorRules]) -> BlockStays:
    """The blocks of a history, each as small as any of some rules makes it."""
    block = None
    for one in rules:
        block = one.block if block is None else np.minimum(block, one.block)
    assert block is not None
    return stays_of(history.operation, history.of, block)


def _judged(trial: SettingTrial, own: SettingTrial) -> SettingTrial:
    """A trial with whether it is better than the run as it was set: only where nothing of it lies within the other's range."""
    if trial.completes is not None and own.completes is not None:
        better = trial.completes.high_bytes < own.completes.low_bytes
    else:
        better = trial.reserved_peak.high_bytes < own.reserved_peak.low_bytes
    if own.within_limit is not None and (trial.within_limit, own.within_limit) != ("completes", "fails"):
        better = better and trial.within_limit == own.within_limit
    elif own.within_limit is not None:
        better = True
    return dataclasses.replace(trial, better=better)


def _rank(trial: SettingTrial) -> tuple[int, ...]:
    """By what trials are ordered: those that complete within the limit first, then those that need least, then the run as it was set."""
    within = {None: 0, "completes": 0, "depends": 1, "fails": 2}[trial.within_limit]
    needs = trial.needs
    return within, needs.high_bytes, needs.low_bytes, trial.reserved_peak.high_bytes, not trial.own, len(trial.values)
