"""The result of a comparison of two runs: window by window, each difference named, each byte accounted for.

All figures are exact int64 bytes.  A sign always reads as *head - base*: what is positive, head has more of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from memlens.diffing.finding import Finding, Repeated, label_of
from memlens.results import Result, Tables, Tabular, lazy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from memlens.diffing.attribution import Cause
    from memlens.diffing.failed import FailedRun
    from memlens.diffing.pairing import InOrder
    from memlens.trust import Trust


SCHEMA = "memlens.diff/2"
#: A run does nearly all that the other does where no larger share of the other's bytes is without a partner.
_ALL_BUT = 0.2


class WindowSide(Result, frozen=True):
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
        reserved_peak_bytes: The highest reserved level in it; ``None`` where the log does not tell of chunks.
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
    reserved_peak_bytes: int | None
    open_end: bool = False


class Approximation(Result, frozen=True):
    """An alignment that was too large to be solved as a whole.

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


class RemainingAccount(Result, frozen=True):
    """Δremaining, term by term; ``unexplained_bytes`` is what is left, and it is 0 in every window of every log.

    ``Δremaining = missing - extra + only head held - only base held - Δreleased - Δunknown frees + Δmismatch``, where a mismatch is
    ALLOC - FREE of a pair whose two sizes differ.
    """

    missing_free_bytes: int
    extra_free_bytes: int
    only_head_held_bytes: int
    only_base_held_bytes: int
    d_released_bytes: int
    d_unknown_free_bytes: int
    d_mismatch_bytes: int
    unexplained_bytes: int


class PeakAccount(Result, frozen=True):
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


@lazy("findings")
class WindowDiff(Result, frozen=True, kw_only=True, eq=False):
    """Two windows compared.

    Attributes:
        name: Base's name of the window, or head's where the two have one name; text from the log.
        judged: Its differences count in what is said of all windows; ``False`` for a pair of a series of which one is an open window.
        d_remaining_bytes: Δremaining.
        d_carried_in_bytes: Δ of what is live when the windows start.
        d_live_bytes: Δ of what is live when they end: Δcarried in + Δremaining.
        d_peak_bytes: Δpeak: Δcarried in + Δrise.
        d_rise_bytes: Δ of what the windows add to what they start with, at their peaks.
        d_reserved_peak_bytes: Δ of the reserved peaks; ``None`` where a log does not tell of chunks.
        cost_bytes: The cost of the alignment; half a byte is possible.
        remaining: Δremaining, accounted for.
        only_head_temporary_bytes: Temporaries that only head has.
        only_base_temporary_bytes: Temporaries that only base has.
        pairs: Pairs of allocations in it.
        moved: Further pairs of equal size and fate that stand in another order.
        moved_bytes: The bytes of one side of these.
        threads: Pairs of threads, each of them aligned on its own; 0 where the window was aligned in its order.
        peak: Δpeak, accounted for.
        approximation: What is not exact about the alignment, or ``None``.
        base: Base's figures.
        head: Head's figures.
        findings: What differs, the largest effect first.
    """

    spliced: ClassVar[frozenset[str]] = frozenset({"remaining"})
    tables: ClassVar[Tables] = {"findings": Finding}

    name: str
    judged: bool = True
    d_remaining_bytes: int
    d_carried_in_bytes: int
    d_live_bytes: int
    d_peak_bytes: int
    d_rise_bytes: int
    d_reserved_peak_bytes: int | None
    cost_bytes: int | float
    remaining: RemainingAccount
    only_head_temporary_bytes: int
    only_base_temporary_bytes: int
    pairs: int
    moved: int
    moved_bytes: int
    threads: int
    peak: PeakAccount
    approximation: Approximation | None = None
    base: WindowSide
    head: WindowSide
    findings: tuple[Finding, ...] = ()

    @property
    def label(self) -> str:
        """The name of the pair, or both where the runs name it differently; text from the logs."""
        return label_of(self.base.name, self.head.name)

    @property
    def alike(self) -> bool:
        """The two windows do the same: every allocation pairs with one of equal fate, and so do the frees.

        What they were carried in, and what is reserved, may differ.
        """
        released = self.remaining.d_released_bytes, self.remaining.d_unknown_free_bytes, self.remaining.d_mismatch_bytes
        opening = self.peak.opening_only_head_bytes, self.peak.opening_only_base_bytes
        return not any((self.cost_bytes, self.moved, self.d_remaining_bytes, self.d_rise_bytes, *released, *opening))

    @property
    def same(self) -> bool:
        """Nothing tells the two windows apart: they are :attr:`alike`, and hold and reserve equally much."""
        reserved = self.base.reserved_peak_bytes, self.head.reserved_peak_bytes
        equal = not (self.d_carried_in_bytes or self.d_live_bytes or self.d_peak_bytes) and reserved[0] == reserved[1]
        return self.alike and equal

    @property
    def d_left_bytes(self) -> int:
        """Δremaining; and of windows that begin with their inputs Δ of what is live when they end: recordings of one program may begin apart."""
        return self.d_remaining_bytes + self.peak.opening_only_head_bytes + self.peak.opening_only_base_bytes

    @property
    def d_higher_bytes(self) -> int:
        """Δrise as far as it makes the peak higher, or lower: a window that starts lower rises farther to one level."""
        rise, peak = self.d_rise_bytes, self.d_peak_bytes
        return min(rise, peak, key=abs) if rise * peak > 0 else 0

    @property
    def remaining_explained_bytes(self) -> int:
        """The part of Δremaining that named findings explain: all but unknown frees and size mismatches."""
        return self.d_remaining_bytes - (self.remaining.d_mismatch_bytes - self.remaining.d_unknown_free_bytes)

    @property
    def peak_explained_bytes(self) -> int:
        """The part of Δpeak that named findings explain, likewise; what was carried in from earlier in the log has no name here."""
        others = self.peak.unknown_free_bytes + self.peak.mismatch_bytes + self.peak.carried_in_bytes
        return self.d_peak_bytes - others


def unpaired_bytes(windows: Sequence[WindowDiff]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return what base allocates in some pairs of windows without a partner in head, and all that it allocates there, in bytes; and so of head."""
    in_base = sum(one.remaining.only_base_held_bytes + one.only_base_temporary_bytes for one in windows)
    in_head = sum(one.remaining.only_head_held_bytes + one.only_head_temporary_bytes for one in windows)
    return (
        (in_base, sum(one.base.alloc_bytes for one in windows)),
        (in_head, sum(one.head.alloc_bytes for one in windows)),
    )


def shares_little(windows: Sequence[WindowDiff]) -> bool:
    """Return whether most bytes of the runs have no partner, and neither does nearly all that the other does: then no single difference makes them differ."""
    (base, of_base), (head, of_head) = unpaired_bytes(windows)
    return 2 * (base + head) > of_base + of_head and min(base * of_head, head * of_base) > _ALL_BUT * of_base * of_head


class RunSide(Result, frozen=True, eq=False):
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


class RoleChange(Result, frozen=True):
    """What is live at the peak of each run of one role, one of :data:`memlens.claims.roles.ROLES`; ``None`` for that of which it is not known."""

    role: str | None
    base_bytes: int
    head_bytes: int
    d_bytes: int


@lazy("repeated", "failed", "in_order", "causes_at_peak", "causes_left_behind", "roles")
class Diff(Tabular, frozen=True, eq=False):
    """Two runs compared, window pair by window pair.

    Attributes:
        base: The run that is compared against.
        head: The run that is judged.
        windows: The window pairs, in base's order.
        by: The regular expression that cut both into a series; ``None`` for a single pair.
        found_by: Whether ``by`` was not given but found as a family of anchor lines that both logs have.
        notes: What to doubt of the windows or of the comparison, in words.
        repeated: Findings of all windows, alike ones as one, the largest effect first; empty for a single pair.
        factor: Where the runs share little, what most sizes of head are those of base times; ``None`` where there is no such factor.
        top: Findings that :meth:`to_dict` lists for each window; ``None`` is all.
        min_size: Findings of smaller blocks (bytes) are left out of lists (not of figures).
        paired_by_work: The windows pair by what they do, for the numbers in their names do not mean the same in the two runs.
        failed: The runs that ran out of memory, and where the other one was then.
        causes_at_peak: What is live at one run's peak and not at the other's, blocks alike together, the largest effect first.
        causes_left_behind: What one run leaves behind in the judged windows and the other does not, likewise; where head needs less, in those
            that leave more behind all the same, if that is a cost.
        in_order: What an axis that both runs share is made of, one entry a device; worked out by aligning the runs once more where that was not kept.
        ends: The lines come when the work is done, so that each window has the name of the line that ends it.
        roles: What is live at both peaks by role, the largest change first; none where one run does not tell who holds its blocks.
    """

    schema: ClassVar[str] = SCHEMA
    in_json: ClassVar[tuple[str, ...]] = (
        *(
            "schema",
            "verdict",
            "claims",
            "base",
            "head",
            "by",
            "found_by",
            "ends",
            "paired_by_work",
            "factor=factor_text",
        ),
        *("notes", "parting=parting_name", "failed", "roles", "windows", "repeated"),
    )
    tables: ClassVar[Tables] = {"roles": RoleChange, "repeated": Repeated}

    base: RunSide
    head: RunSide
    windows: tuple[WindowDiff, ...]
    by: str | None = None
    found_by: bool = False
    notes: tuple[str, ...] = ()
    repeated: tuple[Repeated, ...] = ()
    factor: Fraction | None = None
    top: int | None = None
    min_size: int = 0
    paired_by_work: bool = False
    failed: tuple[FailedRun, ...] = ()
    in_order: tuple[InOrder, ...] = ()
    causes_at_peak: tuple[Cause, ...] = ()
    causes_left_behind: tuple[Cause, ...] = ()
    ends: bool = False
    roles: tuple[RoleChange, ...] = ()

    @property
    def judged(self) -> tuple[WindowDiff, ...]:
        """The window pairs that are judged, in base's order."""
        return tuple(window for window in self.windows if window.judged)

    @property
    def series(self) -> bool:
        """The runs were cut into a series of windows."""
        return self.by is not None

    @property
    def shares_little(self) -> bool:
        """Most bytes that each run allocates in the judged windows have no partner in the other."""
        return shares_little(self.judged)

    @property
    def parting(self) -> WindowDiff | None:
        """The first judged window in which the runs differ in what they leave or in how high they rise, else in what they do, else in anything."""
        parted = (
            [w for w in self.judged if w.d_remaining_bytes or w.d_rise_bytes]
            or [w for w in self.judged if not w.alike]
            or [w for w in self.judged if not w.same]
        )
        return parted[0] if parted else None

    @property
    def parting_name(self) -> str | None:
        """The name of that window, ``None`` where there is none."""
        return None if self.parting is None else self.parting.name

    @property
    def factor_text(self) -> str | None:
        """The factor as text, ``3/2``: a JSON number may be read as a float."""
        return None if self.factor is None else str(self.factor)

    def worst(self) -> tuple[WindowDiff, ...]:
        """The judged windows by falling |Δremaining|, then |Δrise|, then cost, then |Δpeak|; equal ones in base's order."""
        return tuple(sorted(self.judged, key=_weight))

    def rows(self) -> list[dict[str, Any]]:
        """A flat row a window pair: its name, and every single figure."""
        rows = []
        for window in self.windows:
            values = window.to_dict(0)
            row = {key: value for key, value in values.items() if not isinstance(value, (dict, list))}
            row.pop("approximation", None)
            row |= {f"peak_{key}": value for key, value in values["peak"].items()}
            for side in ("base", "head"):
                row |= {f"{side}_{key}": value for key, value in values[side].items()}
            rows.append(row)
        return rows


def _weight(window: WindowDiff) -> tuple[int | float, ...]:
    figures = window.d_remaining_bytes, window.d_rise_bytes, window.cost_bytes, window.d_peak_bytes
    return tuple(-abs(figure) for figure in figures)
