"""What a comparison of two runs gives: window by window, each difference named, each byte accounted for.

All figures are exact int64 bytes.  A sign always reads as *head - base*: what is positive, head has more of.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

from memlens.analyzers.result import Lazy, Row

if TYPE_CHECKING:
    import pandas as pd

    from memlens.trust import Trust

__all__ = [
    "KINDS",
    "SCHEMA",
    "Approximation",
    "ContextLine",
    "Diff",
    "Finding",
    "Kind",
    "Member",
    "PeakAccount",
    "RemainingAccount",
    "Repeated",
    "RunSide",
    "Side",
    "WindowDiff",
    "WindowSide",
]

SCHEMA = "memlens.diff/1"

Kind = Literal[
    "missing_free", "extra_free", "only_head", "only_base", "released", "late_free", "early_free", "elsewhere"
]
#: What each kind of finding means; ``docs/diff.md`` says the same at length.
KINDS: dict[str, str] = {
    "missing_free": "base frees it in the window, head does not",
    "extra_free": "head frees it in the window, base does not",
    "only_head": "head allocates it, base does not",
    "only_base": "base allocates it, head does not",
    "released": "born before the window; only one of the runs frees it in the window",
    "late_free": "both runs treat it alike, but at its peak head has not freed it yet, while base has",
    "early_free": "both runs treat it alike, but at its peak base has not freed it yet, while head has",
    "elsewhere": "both runs treat it alike, but one run reaches its peak before it allocates it",
}


@dataclass(frozen=True)
class Side(Row):
    """Where one run allocates and frees a block.

    Attributes:
        alloc_event: Its ALLOC, 0-based in the log; ``None`` for the FREE of a block of another size's ALLOC.
        alloc_line: The line of that, 1-based; ``None`` where it cannot be told.
        free_event: The FREE that ends it, wherever in the log it stands; ``None`` where none does.
        free_line: The line of that.
        freed: ``in_window``, ``later`` or ``never``.
    """

    alloc_event: int | None
    alloc_line: int | None
    free_event: int | None
    free_line: int | None
    freed: str


@dataclass(frozen=True)
class Member(Row):
    """One block of a finding: where each of the runs that have it allocates and frees it."""

    base: Side | None
    head: Side | None

    def to_dict(self) -> dict[str, Any]:
        """The two sides by name."""
        return {
            "base": None if self.base is None else self.base.to_dict(),
            "head": None if self.head is None else self.head.to_dict(),
        }


@dataclass(frozen=True)
class ContextLine(Row):
    """A line of a log that is shown because of what stands next to it.

    Attributes:
        line: Its 1-based number.
        text: What stands there, cut to a sane length; text from the log.
        is_event: It is the very line that the context is for.
    """

    line: int
    text: str
    is_event: bool


@dataclass(frozen=True, eq=False)
class Finding:
    """Blocks that the two runs treat differently, alike in kind, fate, size, owner and place.

    Attributes:
        kind: One of :data:`KINDS`.
        fate: ``held`` or ``temporary`` for ``only_head`` and ``only_base``; ``base`` or ``head`` for ``released``: the run that
            frees it; ``carried_in`` for ``late_free`` and ``early_free`` of blocks born before the window; else ``None``.
        size_bytes: Of each block.
        requested_bytes: What the tensor asked for, ``None`` where unknown.
        count: Blocks.
        total_bytes: ``size_bytes * count``.
        d_remaining_bytes: What they contribute to the window's Δremaining.
        d_peak_bytes: What they contribute to the window's Δpeak.
        owner: What the allocation is blamed on, or ``None``; text from the log.
        freed_by: The owner of the FREE that one run has and the other has not, or ``None``; text from the log.
        base: The first of the blocks in base, ``None`` where base has none.
        head: The first of the blocks in head, ``None`` where head has none.
        context_of: Whose log the context lines are from: ``base`` or ``head``.
        context: The log lines around the FREE (or, for what is never freed, the ALLOC) that tells the two runs apart.
        members: All blocks, in log order.
    """

    kind: Kind
    fate: str | None
    size_bytes: int
    requested_bytes: int | None
    count: int
    total_bytes: int
    d_remaining_bytes: int
    d_peak_bytes: int
    owner: str | None
    freed_by: str | None
    base: Side | None
    head: Side | None
    context_of: str
    context: Lazy[tuple[ContextLine, ...]] = field(default=Lazy(()), repr=False)
    members: Lazy[tuple[Member, ...]] = field(default=Lazy(()), repr=False)

    def to_dict(self, *, members: bool = True) -> dict[str, Any]:
        """The finding as it stands in the machine output.

        Args:
            members: List every block of it, unless it is one.
        """
        plain: dict[str, Any] = {
            name: getattr(self, name)
            for name in (
                "kind", "fate", "size_bytes", "requested_bytes", "count", "total_bytes", "d_remaining_bytes",
                "d_peak_bytes", "owner", "freed_by",
            )
        }  # fmt: skip
        plain["base"] = None if self.base is None else self.base.to_dict()
        plain["head"] = None if self.head is None else self.head.to_dict()
        plain["context_of"] = self.context_of
        plain["context"] = [line.to_dict() for line in self.context]
        if members and self.count > 1:
            plain["members"] = [member.to_dict() for member in self.members]
        return plain


@dataclass(frozen=True)
class RemainingAccount(Row):
    """Δremaining, term by term; ``unexplained_bytes`` is what is left, and it is 0 in every window of every log.

    ``Δremaining = missing - extra + only head held - only base held - Δreleased - Δunknown frees + Δmismatch``, where a
    mismatch is ALLOC - FREE of a pair whose two sizes differ.
    """

    missing_free_bytes: int
    extra_free_bytes: int
    only_head_held_bytes: int
    only_base_held_bytes: int
    d_released_bytes: int
    d_unknown_free_bytes: int
    d_mismatch_bytes: int
    unexplained_bytes: int


@dataclass(frozen=True)
class PeakAccount(Row):
    """Δpeak, term by term: what is live at head's peak and not at base's, less the opposite, by the same classes.

    Each term is signed, and they add up: ``Δpeak = Σ of all terms``, with ``unexplained_bytes`` 0.  ``late_free_bytes`` is never
    negative, ``early_free_bytes`` never positive.  The last three terms count what was freed up to the two peaks, with the sign
    that they have in the sum.
    """

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


@dataclass(frozen=True)
class WindowSide(Row):
    """One run's figures of a window, as the analyzers define them.

    Attributes:
        name: The window's name in this run; text from the log.
        start_line: 1-based number of its first line.
        end_line: 1-based number of its last line (included).
        events: Events in it.
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
    peak_bytes: int
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


@dataclass(frozen=True, eq=False)
class WindowDiff:
    """Two windows compared.

    Attributes:
        name: Base's name of the window, or head's where the two have one name; text from the log.
        base: Base's figures.
        head: Head's figures.
        d_remaining_bytes: Δremaining.
        d_peak_bytes: Δpeak, of the peaks that count from each window's start.
        d_reserved_peak_bytes: Δ of the reserved peaks.
        cost_bytes: The cost of the alignment; half a byte is possible.
        pairs: Pairs of allocations in it.
        moved: Further pairs of equal size and fate that stand in another order.
        moved_bytes: The bytes of one side of these.
        only_head_temporary_bytes: Temporaries that only head has.
        only_base_temporary_bytes: Temporaries that only base has.
        remaining: Δremaining, accounted for.
        peak: Δpeak, accounted for.
        approximation: What is not exact about the alignment, or ``None``.
        findings: What differs, the largest effect first.
        judged: Its differences count in what is said of all windows; ``False`` for a pair of a series of which one is an open window.
    """

    name: str
    base: WindowSide
    head: WindowSide
    d_remaining_bytes: int
    d_peak_bytes: int
    d_reserved_peak_bytes: int
    cost_bytes: int | float
    pairs: int
    moved: int
    moved_bytes: int
    only_head_temporary_bytes: int
    only_base_temporary_bytes: int
    remaining: RemainingAccount
    peak: PeakAccount
    approximation: Approximation | None = None
    findings: Lazy[tuple[Finding, ...]] = field(default=Lazy(()), repr=False)
    judged: bool = True

    @property
    def label(self) -> str:
        """What to call the pair: its name, or both where the runs name it differently; text from the logs."""
        return self.name if self.base.name == self.head.name else f"{self.base.name} / {self.head.name}"

    @property
    def same(self) -> bool:
        """Whether nothing tells the two windows apart: every allocation pairs with one of equal fate, and so do the frees."""
        return not (
            self.cost_bytes or self.moved or self.d_remaining_bytes or self.d_peak_bytes or any(self._released_terms())
        )

    def _released_terms(self) -> tuple[int, ...]:
        return self.remaining.d_released_bytes, self.remaining.d_unknown_free_bytes, self.remaining.d_mismatch_bytes

    @property
    def remaining_explained_bytes(self) -> int:
        """The part of Δremaining that named findings explain: all but unknown frees and size mismatches."""
        return self.d_remaining_bytes - (self.remaining.d_mismatch_bytes - self.remaining.d_unknown_free_bytes)

    @property
    def peak_explained_bytes(self) -> int:
        """The part of Δpeak that named findings explain, likewise."""
        return self.d_peak_bytes - (self.peak.unknown_free_bytes + self.peak.mismatch_bytes)

    def to_dict(self, top: int | None = None, min_size: int = 0) -> dict[str, Any]:
        """The pair of windows as it stands in the machine output.

        Args:
            top: Findings to list; ``None`` is all, ``0`` none.
            min_size: Leave findings of smaller blocks (bytes) out of the list.
        """
        account = self.remaining
        plain: dict[str, Any] = {
            "name": self.name,
            "judged": self.judged,
            "d_remaining_bytes": self.d_remaining_bytes,
            "d_peak_bytes": self.d_peak_bytes,
            "d_reserved_peak_bytes": self.d_reserved_peak_bytes,
            "cost_bytes": self.cost_bytes,
            **account.to_dict(),
            "only_head_temporary_bytes": self.only_head_temporary_bytes,
            "only_base_temporary_bytes": self.only_base_temporary_bytes,
            "pairs": self.pairs,
            "moved": self.moved,
            "moved_bytes": self.moved_bytes,
            "peak": self.peak.to_dict(),
            "approximation": None if self.approximation is None else self.approximation.to_dict(),
            "base": self.base.to_dict(),
            "head": self.head.to_dict(),
        }
        if top != 0:
            wanted = [finding for finding in self.findings if finding.size_bytes >= min_size]
            plain["findings"] = [finding.to_dict() for finding in wanted[:top]]
            if left_out := len(self.findings) - len(plain["findings"]):
                plain["findings_left_out"] = left_out
        return plain


@dataclass(frozen=True, eq=False)
class Repeated:
    """Findings alike in kind, fate, size, owner and place, in any number of windows.

    Attributes:
        windows: Windows that have such a finding.
        count: Blocks, over all of them.
        total_bytes: Their bytes.
        d_remaining_bytes: What they contribute to Δremaining, over all windows.
        d_peak_bytes: What they contribute to the Δpeak of their windows, added up.
        first_window: The name of the first window that has it.
        finding: The finding of that window.
    """

    windows: int
    count: int
    total_bytes: int
    d_remaining_bytes: int
    d_peak_bytes: int
    first_window: str
    finding: Finding

    def to_dict(self) -> dict[str, Any]:
        """The figures by name, and the first such finding without its members."""
        plain = {spec.name: getattr(self, spec.name) for spec in fields(self) if spec.name != "finding"}
        return {**plain, "finding": self.finding.to_dict(members=False)}


@dataclass(frozen=True, eq=False)
class RunSide:
    """One of the two runs.

    Attributes:
        path: The input as it was named.
        trust: What to believe of it.
        windows: Windows that it was cut into.
        unpaired: Names of those without a partner in the other run.
    """

    path: str
    trust: Trust
    windows: int
    unpaired: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The run as it stands in the machine output."""
        return {
            "path": self.path,
            "trust": self.trust.to_dict(),
            "windows": self.windows,
            "unpaired": list(self.unpaired),
        }


@dataclass(frozen=True, eq=False)
class Diff:
    """Two runs compared, window pair by window pair.

    Attributes:
        base: The run that is compared against.
        head: The run that is judged.
        windows: The window pairs, in base's order.
        by: The regular expression that cut both into a series; ``None`` for a single pair.
        found_by: Whether ``by`` was not given but found as a family of anchor lines that both logs have.
        notes: What to doubt of the windows or of the comparison, in words.
        repeated: Findings of all windows, alike ones as one, the largest effect first; empty for a single pair.
        top: Findings that :meth:`to_dict` lists for each window; ``None`` is all.
        min_size: Findings of smaller blocks (bytes) are left out of lists (not of figures).
        paired_by_work: The windows pair by what they do, for the numbers in their names do not mean the same in the two runs.
    """

    base: RunSide
    head: RunSide
    windows: tuple[WindowDiff, ...]
    by: str | None = None
    found_by: bool = False
    notes: tuple[str, ...] = ()
    repeated: Lazy[tuple[Repeated, ...]] = field(default=Lazy(()), repr=False)
    top: int | None = None
    min_size: int = 0
    paired_by_work: bool = False

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
        """The first judged window in which the runs differ in what they leave or in how high they rise, else in anything."""
        for differs in (lambda w: w.d_remaining_bytes or w.d_peak_bytes, lambda w: not w.same):
            for window in self.judged:
                if differs(window):
                    return window
        return None

    def worst(self) -> tuple[WindowDiff, ...]:
        """The judged windows by falling |Δremaining|, then |Δpeak|, then cost; equal ones in base's order."""
        return tuple(
            sorted(self.judged, key=lambda w: (-abs(w.d_remaining_bytes), -abs(w.d_peak_bytes), -w.cost_bytes))
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything, in plain JSON types, by the contract ``memlens.diff/1``: exact bytes, 1-based lines."""
        parting = self.parting
        return {
            "schema": SCHEMA,
            "base": self.base.to_dict(),
            "head": self.head.to_dict(),
            "by": self.by,
            "found_by": self.found_by,
            "paired_by_work": self.paired_by_work,
            "notes": list(self.notes),
            "parting": None if parting is None else parting.name,
            "windows": [window.to_dict(self.top, self.min_size) for window in self.windows],
            "repeated": [row.to_dict() for row in self.repeated[: self.top] if row.finding.size_bytes >= self.min_size],
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

    def to_pandas(self) -> pd.DataFrame:
        """:meth:`rows` as a DataFrame, a row a window pair."""
        import pandas as pd

        return pd.DataFrame(self.rows())
