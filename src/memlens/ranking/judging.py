"""The ranks of a job gathered as their logs are read, and judged together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields as fields_in
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens.comparing.result import field_values
from memlens.comparing.statistics import METRICS
from memlens.errors import MemlensError
from memlens.inputs import device_named
from memlens.ranking.first import Fall, first_to_fail
from memlens.ranking.held import HeldBlocks
from memlens.ranking.naming import is_machine, labels_of, missing_of
from memlens.ranking.outliers import standing_out
from memlens.ranking.peers import Peers, codes_of, peers_of
from memlens.ranking.result import FailureOfRanks, Rank, Ranking, RankOutlier
from memlens.ranking.spread import field_skew, metric_spread
from memlens.ranking.summaries import RankSummary
from memlens.ranking.verdict import alike_outliers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.comparing.result import Status
    from memlens.options import OfRanks
    from memlens.ranking.found import FoundLogs
    from memlens.ranking.held import HeldMore
    from memlens.ranking.spread import FieldSkew, MetricSpread
    from memlens.ranking.summaries import FailedRank

    Ints = NDArray[np.int64]

__all__ = ["Gathered", "WantedDiff", "judge"]

#: The field that tells the devices of inputs with several apart.
DEVICE = "device"
_METRICS = tuple(metric for metric in METRICS if metric.name in ("peak", "reserved-peak", "live"))
#: What is kept of a rank and stands in its row as it is.
_OF_SUMMARY = {spec.name for spec in fields_in(RankSummary)} & {spec.name for spec in fields_in(Rank)}
#: Of so many ranks that stand out, the farthest, it is told what they hold that their peers do not; of each so many groups, the largest.
_TOLD, _MOST_HELD = 50, 10


class WantedDiff(NamedTuple):
    """A diff to be made: of which outlier, of which logs, and of which device of them."""

    outlier: int
    base: str
    head: str
    device: int | None


class Gathered:
    """What is known of the ranks, added log by log in any order; what blocks they hold is kept in columns.

    Args:
        found: Their logs.
    """

    def __init__(self, found: FoundLogs) -> None:
        self.found = found
        self.held = HeldBlocks()
        #: Of each log its ranks, with the number by which what they hold is known, and the device of each.
        self.read: dict[int, list[tuple[Rank, int, int | None, FailedRank | None]]] = {}
        self._count = 0

    def add(self, log: int, result: tuple[RankSummary, ...] | MemlensError) -> None:
        """Add what was read of a log.

        Args:
            log: Its index.
            result: A summary a device, or why there is none.
        """
        path, fields = self.found.paths[log], self.found.fields[log]
        if isinstance(result, MemlensError):
            gone: Status = "missing" if result.message.endswith("no such file") else "unreadable"
            rank = Rank("", path, fields, gone, message=result.message, hint=result.hint)
            self.read[log] = [(rank, -1, None, None)]
            return
        self.read[log] = [self._added(path, fields, one) for one in result]

    def _added(
        self, path: str, fields: Mapping[str, str], one: RankSummary
    ) -> tuple[Rank, int, int | None, FailedRank | None]:
        number, self._count = self._count, self._count + 1
        self.held.add(number, one.held, one.rest_bytes)
        failed = one.failed if one.failed is not None and one.failed.failure.ended else None
        status: Status = "oom" if failed is not None else "no_window" if one.message else "ok"
        if one.device is not None:
            fields = {**fields, DEVICE if DEVICE not in fields else f"{DEVICE}_of_input": str(one.device)}
        rank = Rank(
            "",
            path if one.device is None else f"{path} [{device_named(one.device)}]",
            fields,
            status,
            oom_requested_bytes=None if failed is None else failed.failure.requested_bytes,
            oom_time_us=None if failed is None else failed.time_us,
            ooms=0 if one.failed is None else one.failed.failures,
            **{name: getattr(one, name) for name in _OF_SUMMARY},
        )
        return rank, number, one.device, failed


def judge(gathered: Gathered, options: OfRanks) -> tuple[Ranking, list[WantedDiff]]:
    """Judge the ranks of a job.

    Args:
        gathered: What was read.
        options: See :class:`memlens.options.OfRanks`.

    Returns:
        What is said of them, and the diffs that are still to be made.
    """
    entries = [entry for log in sorted(gathered.read) for entry in gathered.read[log]]
    fields = _filled([rank.fields for rank, *_ in entries])
    labels = labels_of([rank.path for rank, *_ in entries], fields)
    ranks = tuple(
        replace(rank, name=label, fields=own) for (rank, *_), label, own in zip(entries, labels, fields, strict=True)
    )
    case = _Case(ranks, [entry[1] for entry in entries], gathered.held)
    spreads = tuple(filter(None, map(case.spread, range(len(_METRICS)))))
    outliers = tuple(outlier for k in range(len(_METRICS)) for outlier in case.outliers(k))
    ranking = Ranking(
        ranks,
        spreads,
        outliers,
        case.skews(),
        _first(ranks, [entry[3] for entry in entries], case),
        tuple(missing_of(fields)),
        field_values(fields, fields[0] if fields else ()),
        gathered.found.template,
        options.by,
        options.given,
        gathered.found.problems,
    )
    at = {rank.path: k for k, rank in enumerate(ranks)}
    log = {rank.path: gathered.found.paths[k] for k in gathered.read for rank, *_ in gathered.read[k]}
    firsts = [group.outliers[0] for group in alike_outliers(ranking)]  # what several have alike is looked at once
    wanted = [
        WantedDiff(outliers.index(one), log[one.median_path], log[one.path], entries[at[one.path]][2])
        for one in firsts
        if one.metric == _METRICS[0].key and one.path != one.median_path
    ]
    return ranking, wanted[: options.diffs]


def _filled(found: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Fields of which each rank has all; empty values where it has none."""
    names = list(dict.fromkeys(name for fields in found for name in fields))
    return [{name: fields.get(name, "") for name in names} for fields in found]


class _Case:
    """Ranks as they are judged: by each figure those that have it."""

    def __init__(self, ranks: Sequence[Rank], numbers: Sequence[int], held: HeldBlocks) -> None:
        self.ranks, self._numbers, self._held = ranks, numbers, held
        values = {name: [rank.fields[name] for rank in ranks] for name in (ranks[0].fields if ranks else ())}
        self._values = {name: texts for name, texts in values.items() if len(set(texts)) > 1}
        self._codes = {name: codes_of(np.array(texts)) for name, texts in self._values.items()}
        self._known = [
            np.array([k for k in range(len(ranks)) if self._figure(k, one) is not None], np.int64)
            for one in range(len(_METRICS))
        ]
        self._figures = [
            np.array([self._figure(k, one) for k in known.tolist()], np.int64) for one, known in enumerate(self._known)
        ]
        self.peers = [self._peers(one) for one in range(len(_METRICS))]

    def _figure(self, rank: int, metric: int) -> int | None:
        if _METRICS[metric].name == "live" and self.ranks[rank].status == "oom":
            return None  # it did not come to its end
        value: int | None = getattr(self.ranks[rank], _METRICS[metric].key)
        return value

    def _peers(self, metric: int) -> Peers | None:
        known = self._known[metric]
        if not len(known):
            return None
        fields = {name: codes[known] for name, codes in self._codes.items() if not is_machine(name)}
        return peers_of(self._figures[metric], fields, _METRICS[metric].least_change)

    def spread(self, metric: int) -> MetricSpread | None:
        """The spread of one figure; ``None`` where no rank has it."""
        peers, known = self.peers[metric], self._known[metric].tolist()
        if peers is None:
            return None
        names = [self.ranks[k].name for k in known]
        groups = [" ".join(f"{name} {self.ranks[k].fields[name]}" for name in peers.fields) for k in known]
        return metric_spread(_METRICS[metric].key, self._figures[metric], names, peers, groups)

    def outliers(self, metric: int) -> list[RankOutlier]:
        """The ranks that stand out by one figure."""
        peers, known = self.peers[metric], self._known[metric]
        if peers is None:
            return []
        failed = np.array([self.ranks[k].status == "oom" for k in known.tolist()], bool)
        figures = self._figures[metric]
        found: list[RankOutlier] = []
        for one in standing_out(figures, peers, _METRICS[metric].least_change, failed):
            alike = known[peers.group == peers.group[one.rank]]
            usual = int(known[np.flatnonzero((peers.group == peers.group[one.rank]) & (figures == one.median))[0]])
            rank, median_rank = int(known[one.rank]), self.ranks[usual]
            holds: list[HeldMore] = []
            if metric == 0 and one.off > 0 and len(found) < _TOLD:
                numbers = np.array(self._numbers, np.int64)
                holds = self._held.more(self._numbers[rank], self._numbers[usual], numbers[alike], _MOST_HELD)
            own = self.ranks[rank]
            found.append(
                RankOutlier(
                    own.name,
                    own.path,
                    _METRICS[metric].key,
                    int(figures[one.rank]),
                    one.median,
                    one.off,
                    one.z,
                    one.peers,
                    median_rank.name,
                    median_rank.path,
                    own.allocs or 0,
                    median_rank.allocs or 0,
                    own.doubts,
                    tuple(holds),
                )
            )
        return found

    def skews(self) -> tuple[FieldSkew, ...]:
        """How the peak differs by each field, the largest skew first."""
        known, peers = self._known[0].tolist(), self.peers[0]
        if peers is None:
            return ()
        metric = _METRICS[0]
        found = (
            field_skew(name, metric.key, self._figures[0], [texts[k] for k in known], peers, metric.least_change)
            for name, texts in self._values.items()
        )
        return tuple(sorted(filter(None, found), key=lambda skew: -skew.skew_bytes))


def _first(ranks: Sequence[Rank], failed: Sequence[FailedRank | None], case: _Case) -> FailureOfRanks | None:
    """The rank that failed first."""
    falls = [
        Fall(k, one.time_us, ranks[k].begins_us, one.allocs, ranks[k].fields)
        for k, one in enumerate(failed)
        if one is not None
    ]
    peers = case.peers[0]
    first = first_to_fail(falls, alike=peers is None or not peers.fields)
    if first is None:
        return None
    rank, how = ranks[first.rank], failed[first.rank]
    assert how is not None
    return FailureOfRanks(
        rank.name, rank.path, first, how, None if first.next_rank is None else ranks[first.next_rank].name
    )
