"""Which windows of a log are judged by which of the base, by name: a baseline has no events to pair by what windows do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from memlens.errors import AnchorError
from memlens.windows.windows import BEFORE, kind_of, numbered

if TYPE_CHECKING:
    from memlens.gating.figures import RunFigures, WindowFigures
    from memlens.windows.windows import Window

__all__ = ["BaseWindow", "PairedRuns", "pair_runs"]


@dataclass(frozen=True)
class BaseWindow:
    """One window of the base.

    Attributes:
        name: Its name in the first run that has it.
        figures: Its figures in each accepted run that has it.
        everywhere: Every accepted run has it.
    """

    name: str
    figures: tuple[WindowFigures, ...]
    everywhere: bool = True

    @property
    def closed(self) -> tuple[WindowFigures, ...]:
        """Its figures in the runs in which an end line or the next start closes it."""
        return tuple(one for one in self.figures if not one.open_end)


Pair: TypeAlias = "tuple[BaseWindow, WindowFigures]"


@dataclass(frozen=True)
class PairedRuns:
    """The windows of the base and of the log that is judged; each is in one of these.

    Attributes:
        pairs: Windows of both, in base's order.
        missing: Windows that the log lacks.
        not_reached: Windows that it lacks because it ends earlier: nothing that follows them in the base is there, and others of
            their kind are.
        optional: Windows that it lacks and that some of the accepted runs lack, too.
        new: Windows that the base lacks.
        take_open: Open windows are judged, too: neither run has another one.
    """

    pairs: tuple[Pair, ...] = ()
    missing: tuple[BaseWindow, ...] = ()
    not_reached: tuple[BaseWindow, ...] = ()
    optional: tuple[BaseWindow, ...] = ()
    new: tuple[WindowFigures, ...] = ()
    take_open: bool = False

    def is_open(self, pair: Pair) -> bool:
        """Whether a pair is shown and not judged, because one of the two runs to the end of its log."""
        base, head = pair
        return not self.take_open and (head.open_end or not base.closed)

    @property
    def judged(self) -> tuple[Pair, ...]:
        """The pairs that are judged."""
        return tuple(pair for pair in self.pairs if not self.is_open(pair))


def pair_runs(base: Sequence[RunFigures], head: RunFigures, *, series: bool) -> PairedRuns:
    """Pair the windows of a log with those of the accepted runs: by name, and names that come again in order.

    One window and one window pair whatever they are called: their anchors are the same.

    Args:
        base: The accepted runs; none where only budgets hold.
        head: The run that is judged.
        series: They were cut into series and not into one window each.
    """
    if not base:
        return PairedRuns(new=head.windows)
    if not series:
        figures = tuple(run.windows[0] for run in base)
        window = BaseWindow(figures[0].name, figures)
        return PairedRuns(((window, head.windows[0]),), take_open=head.windows[0].open_end and not window.closed)
    windows = _joined(base)
    found = _by_name(windows, head.windows)
    partner = {id(old): new for old, new in found}
    paired = {id(new) for _, new in found}
    missing, not_reached, optional = _lacking(windows, partner)
    return PairedRuns(
        tuple(found),
        tuple(missing),
        tuple(not_reached),
        tuple(optional),
        tuple(new for new in head.windows if id(new) not in paired),
        take_open=head.all_open and all(run.all_open for run in base),
    )


def _joined(runs: Sequence[RunFigures]) -> list[BaseWindow]:
    """The windows of all accepted runs: those of the first run in its order, and then what only later ones have."""
    groups = [[window] for window in runs[0].windows]
    for run in runs[1:]:
        found = _by_name([BaseWindow(group[0].name, tuple(group)) for group in groups], run.windows)
        place = {id(new): old.figures[0] for old, new in found}
        of_first = {id(group[0]): group for group in groups}
        for window in run.windows:
            if id(window) in place:
                of_first[id(place[id(window)])].append(window)
            else:
                groups.append([window])
    names = numbered([group[0].name for group in groups])
    return [BaseWindow(name, tuple(group), len(group) == len(runs)) for name, group in zip(names, groups, strict=True)]


def _by_name(base: Sequence[BaseWindow], head: Sequence[WindowFigures]) -> list[Pair]:
    from memlens.diffing.window_pairs import pair_windows

    try:
        # It looks at names only.
        found = pair_windows(cast("Sequence[Window]", base), cast("Sequence[Window]", head))
    except AnchorError:  # nothing in common
        return []
    return list(cast("Any", found.pairs))


def _lacking(
    windows: Sequence[BaseWindow], partner: dict[int, WindowFigures]
) -> tuple[list[BaseWindow], list[BaseWindow], list[BaseWindow]]:
    """What of the base the log lacks: what is missing, what it did not reach, and what accepted runs lack, too."""
    reached = [window for window in windows if id(window) in partner and window.name != BEFORE]
    kinds = {kind_of(window.name) for window in reached}
    last = windows.index(reached[-1]) if reached else len(windows)
    missing, not_reached, optional = [], [], []
    for place, window in enumerate(windows):
        if id(window) in partner:
            continue
        if not window.everywhere:
            optional.append(window)
        elif place > last and (kind_of(window.name) in kinds or not window.closed):
            not_reached.append(window)
        else:
            missing.append(window)
    return missing, not_reached, optional
