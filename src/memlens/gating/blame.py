"""What fails, explained: compared with the base where its events are known, and what piles up where memory grows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from memlens.errors import InputError
from memlens.facts import Kind
from memlens.folding.levels import profile
from memlens.gating.verdict import Blame, Verdict
from memlens.windows.windows import BEFORE, WHOLE, Window, names_of, some_of

if TYPE_CHECKING:
    from memlens.gating.baseline import Baseline
    from memlens.gating.figures import Run
    from memlens.gating.judging import PairedRuns
    from memlens.gating.limits import Metric

__all__ = ["explain"]

#: What is compared, the worst first: a gate is to say what broke, and not to compare it all.
_BLAMED = 10


def explain(
    found: Verdict,
    paired: PairedRuns,
    head: Run,
    old: Run | None,
    kept: Baseline | None,
    context: int,
    events: bytes | None = None,
) -> Verdict:
    """The verdict, with what piles up where the log grows, and the worst that fails compared where the base's events are known."""
    if found.growth is not None and found.growth.verdict == "growing":
        from memlens.analyzers.series.growth import growth

        named = [name != BEFORE for name in names_of(head.windows)]
        found = replace(found, piling=growth(some_of(head.windows, np.array(named, np.bool_))).piling)
    failed: dict[tuple[str, str], list[Metric]] = {}
    for row in found.failing:
        # What chunks hold does not follow from blocks.
        if not row.missing and row.metric != "reserved":
            # The peak of a run and its growth come about in different places.
            place = row.metric if row.name == WHOLE and head.cut.series else ""
            failed.setdefault((row.name, place), []).append(row.metric)
    if not failed:
        return found
    notes = list(found.notes)
    try:
        base_windows = _base_windows(old, kept, found.base, events)
    except InputError as error:
        notes.append(f"no blame: {error.message}")
        base_windows = {}
    if old is not None and kept is not None:
        notes.extend(_other_run(old, kept, found.base))
    pairs = _Pairs(paired, head, base_windows)
    known = [(name, metrics, pair) for (name, _), metrics in failed.items() if (pair := pairs.of(name, metrics[0]))]
    blame = _compare(known[:_BLAMED], context)
    return replace(found, blame=tuple(blame), unblamed=len(known[_BLAMED:]), notes=tuple(notes))


class _Pairs:
    """The windows of both runs, with their events, to compare where something fails.

    Args:
        paired: The windows by their figures.
        head: The log that is judged.
        base: The base's windows by name, with ``(whole log)``; none where its events are not known.
    """

    def __init__(self, paired: PairedRuns, head: Run, base: dict[str, Window]) -> None:
        self._whole = (base[WHOLE], head.log.whole) if base else None
        windows = {window.name: window for window in head.windows}
        if base and not head.cut.series:  # whatever they are called
            base = {paired.pairs[0][0].name: next(iter(base.values()))}
        self._pairs = {one.name: (base[one.name], windows[new.name]) for one, new in paired.pairs if one.name in base}
        self._judged = [one.name for one, _ in paired.judged if one.name in self._pairs]

    def of(self, name: str, metric: Metric) -> tuple[Window, Window] | None:
        """The two windows that show best why a metric fails; ``None`` where the base's events are not known."""
        if self._whole is None or metric not in ("peak", "growth"):
            return self._pairs.get(name)
        return self._at_peak(*self._whole) if metric == "peak" else self._last_that_gains() or self._whole

    def _at_peak(self, base: Window, head: Window) -> tuple[Window, Window]:
        """The window in which the run has its peak where its own rise is what makes the difference, else the whole run."""
        old, new = profile([base]), profile([head])
        for pair in self._pairs.values():
            if pair[1].lo <= int(new.summit[0]) < pair[1].hi:
                before, after = (int(profile([window])["rise_bytes"][0]) for window in pair)
                if 2 * (after - before) >= int(new["peak_bytes"][0] - old["peak_bytes"][0]):
                    return pair
        return base, head

    def _last_that_gains(self) -> tuple[Window, Window] | None:
        """The last judged window that leaves more behind than the base's; the last one where none does."""
        pairs = [self._pairs[name] for name in self._judged]
        if not pairs:
            return None
        old, new = (profile([pair[side] for pair in pairs])["remaining_bytes"] for side in (0, 1))
        gaining = np.flatnonzero(new > old)
        return pairs[int(gaining[-1]) if len(gaining) else -1]


def _base_windows(old: Run | None, kept: Baseline | None, path: str, events: bytes | None) -> dict[str, Window]:
    """The base's windows with their events, by name, and ``(whole log)``; none where these are not known.

    Raises:
        InputError: The events beside the baseline cannot be read.
    """
    if old is not None:
        windows = (*old.windows, old.log.whole)
    elif kept is None or kept.events_sha256 is None:
        return {}
    else:
        from memlens.gating import stored

        names = [*(window.name for window in kept.runs[0].windows), WHOLE]
        windows = stored.read_events(stored.events_path(path), kept.events_sha256, path, names, events)
    return {window.name: window for window in windows}


def _other_run(old: Run, kept: Baseline, path: str) -> Iterator[str]:
    """Say what to doubt of the log that blames: its own doubts, and that it is none of the runs that the baseline was taken of."""
    yield from old.doubts()
    if old.figures in kept.runs:
        return
    figures, ours = (
        {window.name: (window.rise_bytes, window.remaining_bytes) for window in run.windows}
        for run in (kept.runs[0], old.figures)
    )
    differ = sum(ours[name] != figures[name] for name in figures.keys() & ours.keys())
    where = f" in {differ:,} of its windows" if differ else ""
    yield f"{old.name} has other figures than {path}{where}: it was not this run that was accepted"


def _compare(failed: Sequence[tuple[str, Sequence[Metric], tuple[Window, Window]]], context: int) -> Iterator[Blame]:
    from memlens.diffing.run import diff_windows

    pairs = list(dict.fromkeys(pair for _, _, pair in failed))
    if any(not (window.log.kind <= Kind.FREE).any() for pair in pairs for window in pair):
        return
    compared = dict(zip(pairs, diff_windows(pairs, context=context), strict=True))
    for name, metrics, pair in failed:
        yield Blame(name, tuple(metrics), compared[pair])
