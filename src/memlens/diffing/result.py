"""What a comparison of two runs gives: window by window, each difference named, each byte accounted for.

All figures are exact int64 bytes.  A sign always reads as *head - base*: what is positive, head has more of.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from memlens.analyzers.result import Lazy, Row, Tabled
from memlens.diffing.finding import Finding, Record, Repeated
from memlens.text import Answer, Answered

if TYPE_CHECKING:
    from fractions import Fraction

    from memlens.diffing.failed import FailedRun
    from memlens.diffing.pairing import InOrder
    from memlens.trust import Trust

__all__ = ["SCHEMA", "Approximation", "Diff", "Finding", "PeakAccount", "RemainingAccount", "Repeated", "RunSide", "WindowDiff", "WindowSide"]  # fmt: skip

SCHEMA = "memlens.diff/2"


@dataclass(frozen=True)
class WindowSide(Row):
    """One run's figures of a window, as the analyzers define them.

    Attributes:
        name: The window's name in this run; text from the log.
        start_line: 1-based number of its first line.
        end_line: 1-based number of its last line (included).
        events: Events in it.
        carried_in_bytes: Live when it starts.
        live_bytes: Live when it ends: what was carried in and what remains.
        peak_bytes: The highest level in it, what was carried in included.
        rise_bytes: The peak less what was carried in; at least 0.
        peak_event: The event that reaches the peak, 0-based in the log; ``None`` where the window never rises above its start.
        open_end: It is an open window: it runs to the end of its log, for no end line closes it.
    """

    name: str
    start_line: int
    end_line: int
    events: int
    allocs: int
    frees: int
    alloc_bytes: int
    free_bytes: int
    remaining_bytes: int
    carried_in_bytes: int
    live_bytes: int
    peak_bytes: int
    rise_bytes: int
    peak_event: int | None
    reserved_peak_bytes: int
    open_end: bool = False


@dataclass(frozen=True)
class Approximation(Row):
    """Where the alignment was too large to be solved as a whole.

    Attributes:
        allocs: ALLOCs of both runs in the part that was aligned piece by piece.
        pieces: How many pieces.
        blind_allocs: Of these ALLOCs, those in pieces that were cut with nothing to go by.
        excess_bytes: The cost of this alignment is above that of the cheapest one by at most so much; 0 proves that it is a
            cheapest one.
    """

    allocs: int
    pieces: int
    blind_allocs: int
    excess_bytes: int | float


@dataclass(frozen=True)
class RemainingAccount(Row):
    """Δremaining, term by term; ``unexplained_bytes`` is what is left, and it is 0 in every window of every log.

    ``Δremaining = missing - extra + only head held - only base held - Δreleased - Δunknown frees + Δmismatch + factor``, where a
    mismatch is ALLOC - FREE of a pair whose two sizes differ, and the factor is what head's sizes make beyond those of base that they
    stand for (0 where there is no factor between the two).
    """

    missing_free_bytes: int
    extra_free_bytes: int
    only_head_held_bytes: int
    only_base_held_bytes: int
    d_released_bytes: int
    d_unknown_free_bytes: int
    d_mismatch_bytes: int
    unexplained_bytes: int
    factor_bytes: int = 0


@dataclass(frozen=True)
class PeakAccount(Row):
    """Δpeak, term by term: Δcarried in, and what is live at head's peak and not at base's, less the opposite, by the same classes.

    Each term is signed, and they add up: ``Δpeak = Σ of all terms``, with ``unexplained_bytes`` 0.  The first three are Δcarried in:
    the opening blocks that only one run has, and all else (0 where both windows begin with their inputs); the others are Δrise.
    The last three terms count what was freed up to the two
    peaks, with the sign that they have in the sum.
    """

    opening_only_head_bytes: int
    opening_only_base_bytes: int
    carried_in_bytes: int

    missing_free_bytes: int
    extra_free_bytes: int
    only_head_bytes: int
    only_base_bytes: int
    late_free_bytes: int
    early_free_bytes: int
    elsewhere_bytes: int
    released_bytes: int
    unknown_free_bytes: int
    mismatch_bytes: int
    unexplained_bytes: int
    factor_bytes: int = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowDiff:
    """Two windows compared.

    Attributes:
        name: Base's name of the window, or head's where the two have one name; text from the log.
        judged: Its differences count in what is said of all windows; ``False`` for a pair of a series of which one is an open window.
        d_remaining_bytes: Δremaining.
        d_carried_in_bytes: Δ of what is live when the windows start.
        d_live_bytes: Δ of what is live when they end: Δcarried in + Δremaining.
        d_peak_bytes: Δpeak: Δcarried in + Δrise.
        d_rise_bytes: Δ of what the windows add to what they start with, at their peaks.
        d_reserved_peak_bytes: Δ of the reserved peaks.
        cost_bytes: The cost of the alignment; half a byte is possible.
        remaining: Δremaining, accounted for.
        only_head_temporary_bytes: Temporaries that only head has.
        only_base_temporary_bytes: Temporaries that only base has.
        pairs: Pairs of allocations in it.
        moved: Further pairs of equal size and fate that stand in another order.
        moved_bytes: The bytes of one side of these.
        late_frees: Pairs that both runs free, one of them much later than the other.
        threads: Pairs of threads, each of them aligned on its own; 0 where the window was aligned in its order.
        peak: Δpeak, accounted for.
        approximation: What is not exact about the alignment, or ``None``.
        base: Base's figures.
        head: Head's figures.
        findings: What differs, the largest effect first.
    """

    name: str
    judged: bool = True
    d_remaining_bytes: int
    d_carried_in_bytes: int
    d_live_bytes: int
    d_peak_bytes: int
    d_rise_bytes: int
    d_reserved_peak_bytes: int
    cost_bytes: int | float
    remaining: RemainingAccount
    only_head_temporary_bytes: int
    only_base_temporary_bytes: int
    pairs: int
    moved: int
    moved_bytes: int
    late_frees: int
    threads: int
    peak: PeakAccount
    approximation: Approximation | None = None
    base: WindowSide
    head: WindowSide
    findings: Lazy[tuple[Finding, ...]] = field(default=Lazy(()), repr=False)

    @property
    def label(self) -> str:
        """What to call the pair: its name, or both where the runs name it differently; text from the logs."""
        return self.name if self.base.name == self.head.name else f"{self.base.name} / {self.head.name}"

    @property
    def alike(self) -> bool:
        """Whether the two windows do the same: every allocation pairs with one of equal fate, and so do the frees.

        What they were carried in, and what is reserved, may differ.
        """
        released = self.remaining.d_released_bytes, self.remaining.d_unknown_free_bytes, self.remaining.d_mismatch_bytes
        opening = self.peak.opening_only_head_bytes, self.peak.opening_only_base_bytes
        figures = self.cost_bytes, self.moved, self.remaining_left_bytes, self.rise_left_bytes, self.late_frees
        return not any((*figures, *released, *opening))

    @property
    def same(self) -> bool:
        """Whether nothing tells the two windows apart: they are :attr:`alike`, and hold and reserve equally much."""
        return self.alike and not (
            self.d_carried_in_bytes or self.d_live_bytes or self.d_peak_bytes or self.d_reserved_peak_bytes
        )

    @property
    def remaining_left_bytes(self) -> int:
        """Δremaining once a factor between the sizes is taken out; Δremaining itself where there is none."""
        return self.d_remaining_bytes - self.remaining.factor_bytes

    @property
    def rise_left_bytes(self) -> int:
        """Δrise, likewise."""
        carried_in = self.peak.opening_only_head_bytes + self.peak.opening_only_base_bytes + self.peak.carried_in_bytes
        return self.d_peak_bytes - self.peak.factor_bytes - carried_in

    @property
    def remaining_explained_bytes(self) -> int:
        """The part of Δremaining that named findings explain: all but unknown frees, size mismatches, and a factor between the sizes."""
        return self.remaining_left_bytes - (self.remaining.d_mismatch_bytes - self.remaining.d_unknown_free_bytes)

    @property
    def peak_explained_bytes(self) -> int:
        """The part of Δpeak that named findings explain, likewise; what was carried in from earlier in the log has no name here."""
        others = self.peak.unknown_free_bytes + self.peak.mismatch_bytes + self.peak.carried_in_bytes
        return self.d_peak_bytes - self.peak.factor_bytes - others

    def to_dict(self, top: int | None = None, min_size: int = 0) -> dict[str, Any]:
        """The pair of windows as it stands in the machine output.

        Args:
            top: Findings to list; ``None`` is all, ``0`` none.
            min_size: Leave findings of smaller blocks (bytes) out of the list.
        """
        plain: dict[str, Any] = {}
        for spec in fields(self)[:-1]:
            value = getattr(self, spec.name)
            # The terms of Δremaining stand beside the other figures.
            shown = value.to_dict() if isinstance(value, Row) else value
            plain |= shown if spec.name == "remaining" else {spec.name: shown}
        if top != 0:
            wanted = [finding for finding in self.findings if finding.size_bytes >= min_size]
            plain["findings"] = [finding.to_dict() for finding in wanted[:top]]
            if left_out := len(self.findings) - len(plain["findings"]):
                plain["findings_left_out"] = left_out
        return plain


@dataclass(frozen=True, eq=False)
class RunSide(Record):
    """One of the two runs.

    Attributes:
        path: The input as it was named.
        trust: What to believe of it.
        windows: Windows that it was cut into.
        unpaired: Names of those without a partner in the other run.
        peak_bytes: The highest allocated level of the whole run; of several devices that of the fullest one; ``None`` where it is not known.
        peak_window: The name of the window in which that is, ``None`` where it is in none.
        live_bytes: Live at the end of the run.
        reserved_peak_bytes: The highest reserved level; ``None`` where the input does not tell of chunks.
        devices: Devices of which the run is compared.
    """

    path: str
    trust: Trust
    windows: int
    unpaired: tuple[str, ...] = ()
    peak_bytes: int | None = None
    peak_window: str | None = None
    live_bytes: int | None = None
    reserved_peak_bytes: int | None = None
    devices: int = 1


@dataclass(frozen=True, eq=False, repr=False)
class Diff(Answered, Tabled):
    """Two runs compared, window pair by window pair.

    Attributes:
        base: The run that is compared against.
        head: The run that is judged.
        windows: The window pairs, in base's order.
        by: The regular expression that cut both into a series; ``None`` for a single pair.
        found_by: Whether ``by`` was not given but found as a family of anchor lines that both logs have.
        notes: What to doubt of the windows or of the comparison, in words.
        repeated: Findings of all windows, alike ones as one, the largest effect first; empty for a single pair.
        factor: Head's sizes are nearly all those of base times this, and the rest was compared after it was taken out: sizes of findings
            are base's; ``None`` where there is no such factor.
        top: Findings that :meth:`to_dict` lists for each window; ``None`` is all.
        min_size: Findings of smaller blocks (bytes) are left out of lists (not of figures).
        paired_by_work: The windows pair by what they do, for the numbers in their names do not mean the same in the two runs.
        failed: The runs that ran out of memory, and where the other one was then.
        in_order: What an axis that both runs share is made of, one entry a device; worked out by aligning the runs once more.
    """

    base: RunSide
    head: RunSide
    windows: tuple[WindowDiff, ...]
    by: str | None = None
    found_by: bool = False
    notes: tuple[str, ...] = ()
    repeated: Lazy[tuple[Repeated, ...]] = field(default=Lazy(()), repr=False)
    factor: Fraction | None = None
    top: int | None = None
    min_size: int = 0
    paired_by_work: bool = False
    failed: Lazy[tuple[FailedRun, ...]] = field(default=Lazy(()), repr=False)
    in_order: Lazy[tuple[InOrder, ...]] = field(default=Lazy(()), repr=False)

    @property
    def judged(self) -> tuple[WindowDiff, ...]:
        """The window pairs that are judged, in base's order."""
        return tuple(window for window in self.windows if window.judged)

    @property
    def series(self) -> bool:
        """Whether the runs were cut into a series of windows."""
        return self.by is not None

    @property
    def parting(self) -> WindowDiff | None:
        """The first judged window in which the runs differ in what they leave or in how high they rise, else in what they do, else in anything."""
        parted = (
            [w for w in self.judged if w.remaining_left_bytes or w.rise_left_bytes]
            or [w for w in self.judged if not w.alike]
            or [w for w in self.judged if not w.same]
        )
        return parted[0] if parted else None

    @cached_property
    def answer(self) -> Answer:
        """The verdict with its tone."""
        from memlens.diffing.verdict import answer_of

        return answer_of(self)

    def worst(self) -> tuple[WindowDiff, ...]:
        """The judged windows by falling |Δremaining|, then |Δrise|, a factor taken out, then cost, then |Δpeak|; equal ones in base's order."""
        return tuple(sorted(self.judged, key=_weight))

    def to_dict(self) -> dict[str, Any]:
        """Everything, in plain JSON types, by the contract ``memlens.diff/2``: exact bytes, 1-based lines."""
        parting = self.parting
        wanted = [row for row in self.repeated if row.finding.size_bytes >= self.min_size]
        return {
            "schema": SCHEMA,
            "verdict": self.verdict,
            "base": self.base.to_dict(),
            "head": self.head.to_dict(),
            "by": self.by,
            "found_by": self.found_by,
            "paired_by_work": self.paired_by_work,
            "factor": None if self.factor is None else str(self.factor),
            "notes": list(self.notes),
            "parting": None if parting is None else parting.name,
            "failed": [run.to_dict() for run in self.failed],
            "windows": [window.to_dict(self.top, self.min_size) for window in self.windows],
            "repeated": [row.to_dict() for row in wanted[: self.top]],
        }

    def rows(self) -> list[dict[str, Any]]:
        """A flat row a window pair: its name, and every single figure."""
        rows = []
        for window in self.windows:
            values = window.to_dict(top=0)
            row = {key: value for key, value in values.items() if not isinstance(value, (dict, list))}
            row.pop("approximation", None)
            row |= {f"peak_{key}": value for key, value in values["peak"].items()}
            for side in ("base", "head"):
                row |= {f"{side}_{key}": value for key, value in values[side].items()}
            rows.append(row)
        return rows


def _weight(window: WindowDiff) -> tuple[int | float, ...]:
    figures = window.remaining_left_bytes, window.rise_left_bytes, window.cost_bytes, window.d_peak_bytes
    return tuple(-abs(figure) for figure in figures)
