"""Real diffs of the ranks that stand out most against the median rank of their peers, as further jobs."""

from __future__ import annotations

from dataclasses import dataclass, field

from memlens.analyzers.result import Row
from memlens.diffing.finding import Record
from memlens.options import Cut, Diff, OfRanks, ReadAs
from memlens.options.parts import Owners, values_of
from memlens.text import innermost

__all__ = ["DiffFinding", "DiffOrder", "RankDiff", "compare_ranks"]

#: Findings of a diff that are kept.
_MOST_FINDINGS = 5
_OF_OWNER = 200


@dataclass(frozen=True)
class DiffOrder:
    """Two ranks to be compared.

    Attributes:
        given: The log of the one that stands out.
        base: The log of the median rank.
        options: Where to cut both, and what to read them as.
    """

    given: str
    base: str
    options: OfRanks = field(default_factory=OfRanks)


@dataclass(frozen=True)
class DiffFinding(Row):
    """Blocks that two ranks treat differently: what ``memlens diff`` finds, in short.

    Attributes:
        kind: As in ``memlens diff``: ``only_head``, ``missing_free``, …; head is the rank that stands out.
        size_bytes: Of each block.
        count: Blocks.
        d_peak_bytes: What they contribute to Δpeak of the window in which it is most.
        d_remaining_bytes: What they contribute to Δremaining.
        owner: Whom they belong to, ``None`` where unknown; text from the log.
        head_line: The line of the first ALLOC in the log of the rank that stands out, 1-based; ``None`` where it has none.
    """

    kind: str
    size_bytes: int
    count: int
    d_peak_bytes: int
    d_remaining_bytes: int
    owner: str | None
    head_line: int | None


@dataclass(frozen=True)
class RankDiff(Record):
    """What a diff of a rank against the median rank of its peers says.

    Attributes:
        verdict: In words; text from logs is in it.  Where the diff could not be made: why.
        findings: What differs, the largest effect first.
    """

    verdict: str
    findings: tuple[DiffFinding, ...] = ()


def compare_ranks(order: DiffOrder) -> RankDiff:
    """Compare two ranks, in a worker.

    Raises:
        MemlensError: A log cannot be read, or the two cannot be compared.
    """
    from memlens.diffing.run import diff_with

    options = Diff(**values_of(order.options, Cut, ReadAs, Owners), strict=order.options.strict)
    found = diff_with(order.base, order.given, options)
    if found.by is None:
        listed = [(one, one.count, one.d_peak_bytes, one.d_remaining_bytes) for one in found.windows[0].findings]
    else:
        listed = [(one.finding, one.count, one.largest_d_peak_bytes, one.d_remaining_bytes) for one in found.repeated]
    findings = (
        DiffFinding(
            one.kind,
            one.size_bytes,
            count,
            d_peak,
            d_remaining,
            None if one.owner is None else innermost(one.owner)[:_OF_OWNER],
            None if one.head is None else one.head.alloc_line,
        )
        for one, count, d_peak, d_remaining in listed[:_MOST_FINDINGS]
    )
    return RankDiff(found.verdict, tuple(findings))
