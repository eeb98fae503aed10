"""What the two runs treat differently: blocks alike in kind, fate, size, owner and place, with where each run has them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, cast

from memlens.analyzers.result import Lazy, Row

__all__ = ["KINDS", "ContextLine", "Finding", "Member", "Record", "Repeated", "Side"]

#: What each kind of finding means; ``docs/diff.md`` says the same at length.
KINDS: dict[str, str] = {
    "missing_free": "base frees it in the window, head does not",
    "extra_free": "head frees it in the window, base does not",
    "only_head": "head allocates it, base does not",
    "only_base": "base allocates it, head does not",
    "released": "born before the window; only one of the runs frees it in the window",
    "late_free": "both runs free it, head much later than base, or only after its peak",
    "early_free": "both runs free it, base much later than head, or only after its peak",
    "elsewhere": "both runs treat it alike, but one run reaches its peak before it allocates it",
    "opening_only_head": "live in head before its input begins, and base has none like it then",
    "opening_only_base": "live in base before its input begins, and head has none like it then",
}


class Record(Row):
    """Rows within rows: a frozen dataclass of plain values, of records, and of tuples of these."""

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, in plain JSON types."""
        return {spec.name: _plain(getattr(self, spec.name)) for spec in fields(cast("Any", self))}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    return value.to_dict() if hasattr(value, "to_dict") else value


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
class Member(Record):
    """One block of a finding: where each of the runs that have it allocates and frees it."""

    base: Side | None
    head: Side | None


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
class Finding(Record):
    """Blocks that the two runs treat differently, alike in kind, fate, size, owner and place.

    Attributes:
        kind: One of :data:`KINDS`.
        fate: ``held`` or ``temporary`` for ``only_head`` and ``only_base``; ``base`` or ``head`` for ``released``: the run that
            frees it; ``carried_in`` for ``late_free`` and ``early_free`` of blocks born before the window; ``to_end`` for blocks that
            one run keeps until the work of the window is done and frees with all the rest, as at exit; else ``None``.
        size_bytes: Of each block.
        requested_bytes: What the tensor asked for, ``None`` where unknown.
        count: Blocks.
        total_bytes: ``size_bytes * count``.
        d_remaining_bytes: What they contribute to the window's Δremaining.
        d_peak_bytes: What they contribute to the window's Δpeak.
        late_by_allocs: How many allocations that both runs make lie between the FREE of the one run and that of the other, at
            most, where both free it in the window; else ``None``.
        late_by_bytes: The bytes of these allocations.
        owner: What the allocation is blamed on, or ``None``; text from the log.  ``(before the input)`` and ``(no stack)`` where an
            input with stacks has none of it.
        freed_by: The owner of the FREE that one run has and the other has not, or ``None``; text from the log.
        base: The first of the blocks in base, ``None`` where base has none.
        head: The first of the blocks in head, ``None`` where head has none.
        context_of: Whose log the context lines are from: ``base`` or ``head``.
        context: The log lines around the FREE (or, for what is never freed, the ALLOC) that tells the two runs apart.
        members: All blocks, in log order.
    """

    kind: str
    fate: str | None
    size_bytes: int
    requested_bytes: int | None
    count: int
    total_bytes: int
    d_remaining_bytes: int
    d_peak_bytes: int
    late_by_allocs: int | None
    late_by_bytes: int | None
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
        shown = fields(self) if members and self.count > 1 else fields(self)[:-1]
        return {spec.name: _plain(getattr(self, spec.name)) for spec in shown}


@dataclass(frozen=True, eq=False)
class Repeated:
    """Findings alike in kind, fate, size, owner and place, in any number of windows.

    Attributes:
        windows: Windows that have such a finding.
        count: Blocks, over all of them.
        total_bytes: Their bytes.
        d_remaining_bytes: What they contribute to Δremaining, over all windows.
        largest_d_peak_bytes: The most that they contribute to the Δpeak of any one window; peaks of several moments do not add up.
        largest_window: The name of that window, ``None`` where they contribute to none.
        first_window: The name of the first window that has it.
        finding: The finding of that window.
        members: The blocks, over all of them, in log order.
    """

    windows: int
    count: int
    total_bytes: int
    d_remaining_bytes: int
    largest_d_peak_bytes: int
    largest_window: str | None
    first_window: str
    finding: Finding
    members: Lazy[tuple[Member, ...]] = field(default=Lazy(()), repr=False)

    @property
    def weight(self) -> tuple[int, int, int]:
        """What it is listed by, the largest first: its effect on Δremaining or on the Δpeak of one window, then Δremaining, then bytes."""
        remaining = abs(self.d_remaining_bytes)
        return max(remaining, abs(self.largest_d_peak_bytes)), remaining, self.total_bytes

    def to_dict(self) -> dict[str, Any]:
        """The figures by name, and the first such finding without its members."""
        figures = {spec.name: getattr(self, spec.name) for spec in fields(self)[:-1]}
        return {**figures, "finding": self.finding.to_dict(members=False)}
