"""The ranks of one job judged together: how far their figures are spread, which of them stand out, how they differ by field, which failed first, whose log ended early."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from memlens.comparing.first import Failed, FirstFailure, first_to_fail
from memlens.comparing.layout import run_key
from memlens.comparing.naming import is_machine, labels_of, missing_of, numbers_ranks
from memlens.comparing.outliers import Peers, codes_of, medians, members_of, peers_of, standing_out
from memlens.results import Result

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from memlens.columns import Ints
    from memlens.comparing.figures import Metric, Run, RunWindow


#: Figures that a rank which ran out of memory has, too: at least so much it needed.
_UP_TO_FAILURE = frozenset({"peak", "rise", "reserved-peak"})
#: A log that ended early has at most this part of the allocations of the median rank of its peers, and of the time that it lasts.
_EARLY = 0.9
#: Groups of peers that are listed.
_MOST_GROUPS = 100


class HeldMore(Result, frozen=True):
    """Blocks of one size and owner of which a rank holds more at its peak than the median rank of its peers.

    Attributes:
        size_bytes: Of each block.
        blocks: How many more.
        more_bytes: Their bytes.
        owner: Whom they belong to, ``None`` where unknown; text from the log.
    """

    size_bytes: int
    blocks: int
    more_bytes: int
    owner: str | None


class Outlier(Result, frozen=True):
    """A rank that stands out among its peers in one metric.

    Attributes:
        metric: The metric, by its name in machine output.
        rank: What the rank is called; text from paths, like all ranks.
        path: Its log.
        fields: The values of its fields.
        figure: Its figure, in the metric's unit.
        median: The lower median of its peers.
        off: Its figure less the median.
        peers: Ranks among its peers, itself included.
        median_rank: The rank that it is compared with: the first of its peers whose figure is the median.
        median_path: The log of that rank.
        holds: What it holds more of at its peak than the median rank, the most bytes first; of the peak only.
    """

    metric: str
    rank: str
    path: str
    fields: Mapping[str, str]
    figure: int
    median: int
    off: int
    peers: int
    median_rank: str
    median_path: str
    holds: tuple[HeldMore, ...] = ()


class Spread(Result, frozen=True):
    """The spread of one metric over ranks.

    Attributes:
        metric: The metric, by its name in machine output.
        name: The values of the fields that make ranks peers, ``pp 0``; ``""`` of all ranks, and where no field tells the groups apart.
        ranks: Ranks that have a figure.
        min: The lowest figure, in the metric's unit.
        min_rank: The first rank that has it.
        median: The lower median.
        median_rank: The first rank that has it.
        max: The highest.
        max_rank: The first rank that has it.
    """

    metric: str
    name: str
    ranks: int
    min: int
    min_rank: str
    median: int
    median_rank: str
    max: int
    max_rank: str


class Skew(Result, frozen=True):
    """How the median of the first metric differs by the values of one field: beyond what ranks differ by from their peers by design, where other fields make these.

    Attributes:
        field: The field.
        values: Values that it has.
        lowest: The value with the lowest median; text from paths.
        lowest_off: That median less the median of all.
        highest: The value with the highest one.
        highest_off: That one less the median of all.
    """

    field: str
    values: int
    lowest: str
    lowest_off: int
    highest: str
    highest_off: int


class EndedEarly(Result, frozen=True):
    """A rank whose log ends before those of its peers, and not because it ran out of memory.

    Attributes:
        rank: What it is called.
        path: Its log.
        allocs: Its allocations.
        median_allocs: Those of the median rank of its peers.
        median_rank: That rank.
    """

    rank: str
    path: str
    allocs: int
    median_allocs: int
    median_rank: str


class Ranks(Result, frozen=True):
    """The ranks of one job: spreads, groups, skew and the first failure.

    Attributes:
        names: What each run is called, in their order; text from paths.
        spreads: The spread of each metric that ranks have.
        peers_by: The fields that make groups of peers, by the first of these metrics.
        modes: Whether ranks fall into groups of which no field tells why.
        groups: That metric in each group of peers, where there are several.
        skews: How it differs by each field, the largest difference first.
        first_failure: The rank that ran out of memory first, or ``None``.
        ended_early: The ranks whose logs end early.
        missing: Ranks that the numbering leaves out.
    """

    in_json: ClassVar[tuple[str, ...]] = (
        *("spreads", "groups", "skews", "ended_early", "peers_by", "modes", "missing", "first_failure"),
    )

    names: tuple[str, ...]
    spreads: tuple[Spread, ...] = ()
    peers_by: tuple[str, ...] = ()
    modes: bool = False
    groups: tuple[Spread, ...] = ()
    skews: tuple[Skew, ...] = ()
    first_failure: FirstFailure | None = None
    ended_early: tuple[EndedEarly, ...] = ()
    missing: tuple[str, ...] = ()


def names_of(runs: Sequence[Run]) -> list[str]:
    """Return the names of runs with fields; text from paths."""
    return labels_of([run.path for run in runs], [run.fields for run in runs])


class Job:
    """The ranks of one job as they are judged.

    Args:
        runs: The ranks.
        windows: The window of each whose figures count; ``None`` where it has none.
        names: What they are called.
    """

    def __init__(self, runs: Sequence[Run], windows: Sequence[RunWindow | None], names: Sequence[str]) -> None:
        self._runs, self._windows, self.names = runs, windows, names
        values = {name: np.array([run.fields[name] for run in runs]) for name in runs[0].fields}
        self._codes = {name: codes for name, texts in values.items() if (codes := codes_of(texts)).any()}
        self._failed = np.array([run.status == "oom" for run in runs], bool)

    def _known(self, metric: Metric) -> tuple[Ints, Ints]:
        """The ranks that have a figure, and their figures; both int64."""
        found = {
            k: figure
            for k, window in enumerate(self._windows)
            if window is not None
            and (metric.name in _UP_TO_FAILURE or not self._failed[k])
            and (figure := window.figure(metric)) is not None
        }
        return np.array([*found], np.int64), np.array([*found.values()], np.int64)

    def _peers(self, known: Ints, figures: Ints, least_change: int) -> Peers:
        fields = {name: codes[known] for name, codes in self._codes.items() if not is_machine(name)}
        return peers_of(figures, fields, least_change)

    def outliers(self, metric: Metric) -> list[Outlier]:
        """The ranks that stand out in one metric, the farthest first."""
        known, figures = self._known(metric)
        if not len(known):
            return []
        peers = self._peers(known, figures, metric.least_change)
        found = []
        for one in standing_out(figures, peers, metric.least_change, self._failed[known]):
            rank, usual = int(known[one.rank]), int(known[one.median_rank])
            run, figures_of = self._runs[rank], (one.median + one.off, one.median, one.off, one.peers)
            other = self.names[usual], self._runs[usual].path
            found.append(Outlier(metric.key, self.names[rank], run.path, run.fields, *figures_of, *other))
        return found

    def ranks(self, metrics: Sequence[Metric]) -> Ranks:
        """All else that is said of them, by the first of the metrics that some rank has."""
        names, missing = tuple(self.names), tuple(missing_of([run.fields for run in self._runs]))
        having = [(metric, *self._known(metric)) for metric in metrics]
        having = [(metric, known, figures) for metric, known, figures in having if len(known)]
        spreads = tuple(self._spread(metric, "", known, figures) for metric, known, figures in having)
        early = tuple(self._ended_early())
        if not having:
            return Ranks(names, first_failure=self._first(alike=True), ended_early=early, missing=missing)
        metric, known, figures = having[0]
        peers = self._peers(known, figures, metric.least_change)
        members = [np.sort(ranks) for ranks in members_of(figures, peers.group)]
        groups = tuple(
            self._spread(metric, self._group_name(int(known[ranks[0]]), peers), known[ranks], figures[ranks])
            for ranks in sorted(members, key=lambda ranks: int(ranks[0]))[:_MOST_GROUPS]
            if len(members) > 1
        )
        skews = sorted(self._skews(known, figures, peers), key=lambda skew: skew.lowest_off - skew.highest_off)
        first = self._first(alike=not peers.fields)
        return Ranks(names, spreads, peers.fields, peers.modes, groups, tuple(skews), first, early, missing)

    def _group_name(self, rank: int, peers: Peers) -> str:
        return " ".join(f"{name} {self._runs[rank].fields[name]}" for name in peers.fields)

    def _spread(self, metric: Metric, name: str, known: Ints, figures: Ints) -> Spread:
        middle = figures == medians(figures, np.zeros_like(figures))
        ends = (figures.argmin(), middle.argmax(), figures.argmax())
        ranks = [value for k in map(int, ends) for value in (int(figures[k]), self.names[int(known[k])])]
        return Spread(metric.key, name, len(known), *ranks)  # type: ignore[arg-type]

    def _skews(self, known: Ints, figures: Ints, peers: Peers) -> list[Skew]:
        """How figures differ by each field with at least two ranks a value."""
        one = np.zeros_like(figures)
        usual = int(medians(figures, one)[0])
        found = []
        for name, codes in self._codes.items():
            field = codes_of(codes[known])
            if not 0 < field.max() < len(known) // 2:
                continue
            own = (
                figures
                if name in peers.fields
                else figures - medians(figures, peers.by_fields)[peers.by_fields] + usual
            )
            middle = medians(own, field)
            off = middle - medians(own, one)[0]
            low, high = int(off.argmin()), int(off.argmax())
            texts = [self._runs[int(known[(field == k).argmax()])].fields[name] for k in (low, high)]
            if off[low] != off[high]:
                found.append(Skew(name, len(off), texts[0], int(off[low]), texts[1], int(off[high])))
        return found

    def _first(self, *, alike: bool) -> FirstFailure | None:
        failed = [
            Failed(name, run.path, run.fields, run.oom.time_us, run.begins_us, run.oom.allocs)
            for name, run in zip(self.names, self._runs, strict=True)
            if run.oom is not None
        ]
        return first_to_fail(failed, alike=alike)

    def _ended_early(self) -> list[EndedEarly]:
        """The ranks that stand out by few allocations, and whose logs last less long where that is known."""
        known = np.array([k for k, run in enumerate(self._runs) if run.allocs is not None], np.int64)
        if not len(known):
            return []
        allocs = np.array([self._runs[k].allocs for k in known.tolist()], np.int64)
        peers = self._peers(known, allocs, 1)
        found = []
        for one in standing_out(allocs, peers, 1):
            rank, usual = int(known[one.rank]), int(known[one.median_rank])
            run, few = self._runs[rank], one.median + one.off
            lasts, usually = run.lasts_us, self._runs[usual].lasts_us
            longer = lasts is not None and usually is not None and lasts > _EARLY * usually
            if few <= _EARLY * one.median and run.status != "oom" and not longer:
                found.append(EndedEarly(self.names[rank], run.path, few, one.median, self.names[usual]))
        return found


def outliers_of(
    runs: Sequence[Run],
    windows: Sequence[RunWindow | None],
    values: Mapping[str, Sequence[str]],
    metrics: Sequence[Metric],
) -> Iterator[Outlier]:
    """The ranks that stand out in a matrix: among the runs that are alike in all fields but those that number ranks.

    Args:
        runs: The runs.
        windows: The window of each run whose figures count; ``None`` where it has none.
        values: The values of each field.
        metrics: The metrics that are shown.
    """
    others = [name for name, texts in values.items() if not numbers_ranks(name, texts)]
    jobs: dict[tuple[str, ...], list[int]] = {}
    for k, run in enumerate(runs):
        jobs.setdefault(run_key(run, others), []).append(k)
    names = names_of(runs)
    judged = [Job([runs[k] for k in own], [windows[k] for k in own], [names[k] for k in own]) for own in jobs.values()]
    for metric in metrics:
        found = (one for job in judged for one in job.outliers(metric))
        yield from sorted(found, key=lambda one: -abs(one.off))
