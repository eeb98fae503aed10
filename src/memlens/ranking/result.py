"""What many ranks side by side give: their spread, those that stand out and why, the first that failed; and all of it in plain types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from memlens.analyzers.result import Row, Tabled
from memlens.diffing.finding import Record
from memlens.text import Answer, Answered

if TYPE_CHECKING:
    from memlens.comparing.result import Status
    from memlens.ranking.diffs import RankDiff
    from memlens.ranking.first import FirstFailure
    from memlens.ranking.held import HeldMore
    from memlens.ranking.spread import FieldSkew, MetricSpread
    from memlens.ranking.summaries import FailedRank

__all__ = ["SCHEMA", "FailureOfRanks", "Rank", "RankOutlier", "Ranking"]

SCHEMA = "memlens.ranks/1"


@dataclass(frozen=True)
class Rank(Row):
    """One rank.

    Attributes:
        name: What it is called: ``rank 17``; text from paths.
        path: Its log.
        fields: What its path says: names of fields and their values.
        status: ``ok``; ``oom`` where it ended out of memory; ``no_window`` where its log has no such anchor; ``missing`` where there is no such file;
            ``unreadable``.
        peak_bytes: The highest allocated level, what was carried in included; with ``by`` that of the window with the median peak.
        reserved_peak_bytes: The highest reserved level; with ``by`` the median of the windows'.
        live_bytes: Live at the end; with ``by`` the median of the windows'.
        allocs: Allocations in the whole log.
        window: The window that the peak is of.
        windows: Windows of its series that count.
        begins_us: The time of its first event, in microseconds as its log has it.
        ends_us: The time of its last event.
        oom_requested_bytes: What it asked for when it ran out of memory; ``None`` where it did not, or that is not known.
        oom_time_us: When, where that is known.
        ooms: Out-of-memory failures that its log reports, also those that it survived.
        doubts: The codes of what its trust report doubts.
        message: Why there are no figures, or ``""``.
        hint: What to do about that, or ``""``.
    """

    name: str
    path: str
    fields: Mapping[str, str]
    status: Status
    peak_bytes: int | None = None
    reserved_peak_bytes: int | None = None
    live_bytes: int | None = None
    allocs: int | None = None
    window: str = ""
    windows: int = 0
    begins_us: int | None = None
    ends_us: int | None = None
    oom_requested_bytes: int | None = None
    oom_time_us: int | None = None
    ooms: int = 0
    doubts: tuple[str, ...] = ()
    message: str = ""
    hint: str = ""


@dataclass(frozen=True)
class RankOutlier(Record):
    """A rank that stands out among its peers by one figure, and what it holds at its peak that they do not.

    Attributes:
        rank: What it is called.
        path: Its log.
        metric: ``peak_bytes``, ``reserved_peak_bytes`` or ``live_bytes``.
        figure_bytes: Its figure.
        median_bytes: The median of its peers.
        off_bytes: ``figure_bytes - median_bytes``.
        z: Its robust z-score; ``None`` where more than half of its peers are alike.
        peers: Ranks among its peers, itself included.
        median_rank: The rank that it is compared with: the first of its peers whose figure is the median.
        median_path: The log of that rank.
        allocs: Its allocations, in the whole log.
        median_allocs: Those of the median rank.
        doubts: The codes of what its trust report doubts.
        holds: What it holds more of at its peak than the median rank, the most bytes first; of the peak only.
        diff: What a diff of the two logs says, of the few that are farthest off; else ``None``.
    """

    rank: str
    path: str
    metric: str
    figure_bytes: int
    median_bytes: int
    off_bytes: int
    z: float | None
    peers: int
    median_rank: str
    median_path: str
    allocs: int
    median_allocs: int
    doubts: tuple[str, ...] = ()
    holds: tuple[HeldMore, ...] = ()
    diff: RankDiff | None = None


@dataclass(frozen=True)
class FailureOfRanks:
    """The rank that ran out of memory first.

    Attributes:
        rank: What it is called.
        path: Its log.
        first: How it is known to be the first.
        failed: How it failed.
        next_rank: The rank whose failure came next; ``None`` where that is not known.
    """

    rank: str
    path: str
    first: FirstFailure
    failed: FailedRank
    next_rank: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The failure as it stands in the machine output: that of ``memlens analyze``, and how it is known to be the first."""
        how = {key: value for key, value in self.first.to_dict().items() if key not in ("rank", "next_rank")}
        return {
            "rank": self.rank,
            "path": self.path,
            **how,
            "next_rank": self.next_rank,
            "time_us": self.failed.time_us,
            "allocs_before": self.failed.allocs,
            "failure": self.failed.failure.to_dict(0),
        }


@dataclass(frozen=True, eq=False, repr=False)
class Ranking(Answered, Tabled):
    """The ranks of a job side by side.

    Attributes:
        ranks: All of them, in the natural order of their names.
        spreads: The spread of the peak, of reserved and of live bytes, where ranks have them.
        outliers: Ranks that stand out, by figure, and in each the farthest first.
        skews: How the peak differs by each field of the paths, by falling skew.
        first: The rank that ran out of memory first, or ``None``.
        missing: Ranks that the numbering leaves out.
        fields: The values of each field, in their natural order.
        template: The template that found the logs, or ``None``.
        by: The regular expression that cut each log into a series, or ``None``.
        cut: Whether the logs were cut at all.
        problems: Folders that could not be looked into, in words.
    """

    ranks: tuple[Rank, ...]
    spreads: tuple[MetricSpread, ...] = ()
    outliers: tuple[RankOutlier, ...] = ()
    skews: tuple[FieldSkew, ...] = ()
    first: FailureOfRanks | None = None
    missing: tuple[str, ...] = ()
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    template: str | None = None
    by: str | None = None
    cut: bool = False
    problems: tuple[str, ...] = ()

    @property
    def read(self) -> tuple[Rank, ...]:
        """The ranks whose logs could be read."""
        return tuple(rank for rank in self.ranks if rank.status in ("ok", "oom"))

    @cached_property
    def answer(self) -> Answer:
        """The verdict with its tone."""
        from memlens.ranking.verdict import answer_of

        return answer_of(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain JSON types, by the contract ``memlens.ranks/1``: exact bytes, 1-based lines."""
        return {
            "schema": SCHEMA,
            "verdict": self.verdict,
            "template": self.template,
            "fields": {name: list(values) for name, values in self.fields.items()},
            "by": self.by,
            "first_failure": None if self.first is None else self.first.to_dict(),
            "spreads": [spread.to_dict() for spread in self.spreads],
            "outliers": [outlier.to_dict() for outlier in self.outliers],
            "skews": [skew.to_dict() for skew in self.skews],
            "missing": list(self.missing),
            "problems": list(self.problems),
            "ranks": [
                {**rank.to_dict(), "fields": dict(rank.fields), "doubts": list(rank.doubts)} for rank in self.ranks
            ],
        }

    def rows(self) -> list[dict[str, Any]]:
        """A flat row a rank: its name, its log, its fields, its figures, and what became of it."""
        return [self._row(rank) for rank in self.ranks]

    def _row(self, rank: Rank) -> dict[str, Any]:
        plain = rank.to_dict()
        fields, doubts = plain.pop("fields"), plain.pop("doubts")
        head = {name: plain.pop(name) for name in ("name", "path")}
        return {**head, **fields, **plain, "doubts": " ".join(doubts)}
