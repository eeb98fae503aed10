"""The ranks of one job judged together: how far their figures are spread, which of them stand out, how they differ by field, which failed first, whose log ended early.

**Which rank ran out of memory first**, and how that is known:

1. *only*: one rank failed.
2. *time*: by the time stamp of the last event before each failure, where all ranks that failed have one and their logs overlap in time, each beginning before the first of
   these failures: else they are of different runs, or of clocks that have nothing to do with each other.  Ranks begin at about one time.  A lead over a rank that is not known to be on the same
   machine is therefore in doubt where it is less than a second, or than the times are apart at which the two logs begin: so much the clocks may differ by, and that is said with it.
3. *progress*: by the fewest allocations before the failure, where times do not tell, no other rank has as few, and what ran is one program: the ranks are peers.
4. *unknown*: else the first in the order of ranks is shown, and which one failed first is left open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np

from memlens.comparing.layout import run_key
from memlens.comparing.outliers import Peers, codes_of, medians, members_of, peers_of, standing_out, tells_apart
from memlens.comparing.templates import is_machine, labels_of, missing_of, numbers_ranks
from memlens.results import Result
from memlens.text import LINES, Terms, terms_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from memlens.analyzers.failures import MemoryFailure
    from memlens.columns import Ints
    from memlens.summarizing.figures import Metric, RunWindow
    from memlens.summarizing.summary import Oom, Run


#: Figures that a rank which ran out of memory has, too: at least so much it needed.
_UP_TO_FAILURE = frozenset({"peak", "rise", "reserved-peak"})
#: A log that ended early has at most this part of the allocations of the median rank of its peers, and of the time that it lasts.
_EARLY = 0.9
#: Groups of peers that are listed, and groups of blocks, the largest.
_MOST_GROUPS, _MOST_HELD = 100, 10
KnownBy: TypeAlias = Literal["only", "time", "progress", "unknown"]
#: What the clocks of machines that are set by a network differ by at most.
CLOCKS_US = 1_000_000


class HeldMore(Result, frozen=True):
    """Blocks of one size and owner of which a rank holds more at its peak than the median rank of its peers.

    Attributes:
        size_bytes: Of each block.
        blocks: How many more.
        more_bytes: Their bytes.
        owner: Whom they belong to, ``None`` where unknown; text from the log.
        holder: Who holds half of them or more, where that was recorded.
    """

    size_bytes: int
    blocks: int
    more_bytes: int
    owner: str | None
    holder: str | None = None


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


class FirstFailure(Result, frozen=True):
    """Which rank failed first.

    Attributes:
        rank: What it is called; text from paths.
        path: Its log.
        known_by: ``only``, ``time``, ``progress`` or ``unknown``.
        failed: How many ranks failed.
        lead_us: How much later the next rank failed; ``None`` where times do not tell.
        lead_allocs: How many more allocations the next one made before it failed; ``None`` where that does not tell.
        within_clocks: The lead over another one, which is not known to be on the same machine, is less than their clocks may differ by.
        next_rank: The rank that failed next; ``None`` where that is not known.
        failure: The failure, without its lists of blocks.
        terms: What the lines of its input are called.
    """

    in_json: ClassVar[tuple[str, ...]] = (
        *("rank", "path", "known_by", "failed", "lead_us", "lead_allocs", "within_clocks", "next_rank", "failure"),
    )
    top: ClassVar[int] = 0  # of the failure: its figures, no lists

    rank: str
    path: str
    known_by: KnownBy
    failed: int
    lead_us: int | None = None
    lead_allocs: int | None = None
    within_clocks: bool = False
    next_rank: str | None = None
    failure: MemoryFailure | None = None
    terms: Terms = LINES


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
        modes: Whether ranks fall into groups that are not so by design.
        told_by: The first field of which each value is in one of these alone, or ``""``.
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
    told_by: str = ""


def names_of_ranks(runs: Sequence[Run]) -> list[str]:
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
        machines = [codes for name, codes in self._codes.items() if is_machine(name)]
        self._machine = codes_of(np.stack(machines)) if machines else np.arange(len(runs))
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
        for one in standing_out(figures, peers, metric.least_change, self._failed[known], self._machine[known]):
            rank, usual = int(known[one.rank]), int(known[one.median_rank])
            run, figures_of = self._runs[rank], (one.median + one.off, one.median, one.off, one.peers)
            other = self.names[usual], self._runs[usual].path
            holds = _holds_more(run, self._runs[usual]) if metric.name == "peak" and one.off > 0 else ()
            found.append(Outlier(metric.key, self.names[rank], run.path, run.fields, *figures_of, *other, holds))
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
        told = next((name for name, codes in self._codes.items() if tells_apart(codes[known], peers.group)), "")
        return Ranks(names, spreads, peers.fields, peers.modes, groups, tuple(skews), first, early, missing, told)

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
        named = zip(self.names, self._runs, strict=True)
        return first_to_fail([(name, run, run.oom) for name, run in named if run.oom is not None], alike=alike)

    def _ended_early(self) -> list[EndedEarly]:
        """The ranks that stand out by few allocations, and whose logs last less long where that is known."""
        known = np.array([k for k, run in enumerate(self._runs) if run.allocs], np.int64)
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


def _holds_more(rank: Run, median_rank: Run) -> tuple[HeldMore, ...]:
    """The groups that a rank holds more of at its peak than another one, the most bytes first; nothing where either is not known."""
    if rank.held is None or median_rank.held is None:
        return ()
    groups, holders = rank.held.more_than(median_rank.held).items(), rank.held.holders_of_more(median_rank.held)
    more = (HeldMore(key[0], blocks, key[0] * blocks, key[1], holders.get(key)) for key, blocks in groups)
    return tuple(sorted(more, key=lambda one: (-one.more_bytes, -one.size_bytes, one.owner or "")))[:_MOST_HELD]


def first_to_fail(failed: Sequence[tuple[str, Run, Oom]], *, alike: bool) -> FirstFailure | None:
    """The rank that failed first; ``None`` where none did.

    Args:
        failed: The ranks that ran out of memory, what they are called and how they failed, in the order of ranks.
        alike: The ranks run one program: nothing tells that they are not peers.
    """
    if not failed:
        return None

    def found(one: tuple[str, Run, Oom], known_by: KnownBy, **more: Any) -> FirstFailure:
        name, run, _ = one
        values = {"failure": run.failure, "terms": terms_of(run.has_lines), **more}
        return FirstFailure(name, run.path, known_by, len(failed), **values)

    if len(failed) == 1:
        return found(failed[0], "only")
    times = [oom.time_us for *_, oom in failed if oom.time_us is not None]
    begins = [run.begins_us for _, run, _ in failed if run.begins_us is not None]
    if len(times) == len(begins) == len(failed) and max(begins) <= min(times):
        first, *later = sorted(failed, key=lambda one: (one[2].time_us or 0, one[2].allocs))
        leads = [(one[2].time_us or 0) - (first[2].time_us or 0) for one in later]
        if leads[0]:
            close = any(lead < _clocks_us(first[1], one[1]) for lead, one in zip(leads, later, strict=True))
            return found(first, "time", lead_us=leads[0], within_clocks=close, next_rank=later[0][0])
    first, second, *_ = sorted(failed, key=lambda one: one[2].allocs)
    if alike and (fewer := second[2].allocs - first[2].allocs):
        return found(first, "progress", lead_allocs=fewer, next_rank=second[0])
    return found(failed[0], "unknown")


def _clocks_us(one: Run, other: Run) -> int:
    """By how much the clocks of two ranks may differ, in microseconds."""
    machines = [tuple(value for name, value in run.fields.items() if is_machine(name)) for run in (one, other)]
    if machines[0] == machines[1] != ():
        return 0
    return max(CLOCKS_US, abs((one.begins_us or 0) - (other.begins_us or 0)))


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
    names = names_of_ranks(runs)
    judged = [Job([runs[k] for k in own], [windows[k] for k in own], [names[k] for k in own]) for own in jobs.values()]
    for metric in metrics:
        found = (one for job in judged for one in job.outliers(metric))
        yield from sorted(found, key=lambda one: -abs(one.off))
