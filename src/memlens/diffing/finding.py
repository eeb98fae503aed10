"""What the two runs treat differently: blocks alike in kind, fate, size, owner and place, with where each run has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from memlens.analyzers.result import Lazy, Row

__all__ = ["KINDS", "ContextLine", "Finding", "Kind", "Member", "Side"]

Kind = Literal[
    "missing_free", "extra_free", "only_head", "only_base", "released", "late_free", "early_free", "elsewhere",
    "opening_only_head", "opening_only_base",
]  # fmt: skip
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

    kind: Kind
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
        plain: dict[str, Any] = {
            name: getattr(self, name)
            for name in (
                "kind", "fate", "size_bytes", "requested_bytes", "count", "total_bytes", "d_remaining_bytes",
                "d_peak_bytes", "late_by_allocs", "late_by_bytes", "owner", "freed_by",
            )
        }  # fmt: skip
        plain["base"] = None if self.base is None else self.base.to_dict()
        plain["head"] = None if self.head is None else self.head.to_dict()
        plain["context_of"] = self.context_of
        plain["context"] = [line.to_dict() for line in self.context]
        if members and self.count > 1:
            plain["members"] = [member.to_dict() for member in self.members]
        return plain
