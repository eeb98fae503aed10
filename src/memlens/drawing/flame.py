"""What is live at the peak, by whom it was allocated: the leaves of a flame graph, whose tree the page makes of the owners' names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memlens.drawing.packing import pack
from memlens.text import format_count, format_exact

if TYPE_CHECKING:
    from memlens.analyzers.peak import LiveGroup, Peak
    from memlens.drawing.owners import Owners

__all__ = ["Flame", "flame"]

#: Groups that are shown, at most; each is a box, and each caller above it another one.
_GROUPS = 1_500


@dataclass(frozen=True, eq=False)
class Flame:
    """What is live at a peak.

    Attributes:
        peak_bytes: The level there.
        event: The event that reaches it; ``None`` where the window starts with it.
        line: Its line, 1-based.
        groups: Blocks by size and owner, the largest total first, as many as are shown.
        left_groups: Groups that are not.
        left_blocks: Their blocks.
        left_bytes: Their bytes.
        other_bytes: What of the level is no block's: below 0 where the log frees what it never allocated, all of it where no line says which
            block it is about.
    """

    peak_bytes: int
    event: int | None
    line: int | None
    groups: tuple[LiveGroup, ...]
    left_groups: int
    left_blocks: int
    left_bytes: int
    other_bytes: int

    @property
    def blocks(self) -> int:
        """How many blocks are live."""
        return sum(group.count for group in self.groups) + self.left_blocks

    def words(self, line: str) -> str:
        """The same in a sentence or two.

        Args:
            line: What a line is called.
        """
        if not self.peak_bytes:
            return "Nothing is allocated, as far as this input says."
        blocks = f" in {format_count(self.blocks)} blocks" if self.groups else ", and it is not known in which blocks"
        where = "" if self.line is None else f" at {line} {format_count(self.line)}"
        lower = f" The level is {format_exact(-self.other_bytes)} lower than what is live: so much is freed that the log never allocated."
        return f"{format_exact(self.peak_bytes)}{blocks}{where}.{lower if self.other_bytes < 0 else ''}"

    def to_dict(self, owners: Owners, line: str = "line") -> dict[str, Any]:
        """What the page gets: a column a figure, one entry a group."""
        return {
            "words": self.words(line),
            "peak_bytes": self.peak_bytes,
            "event": self.event,
            "size_bytes": pack([group.size_bytes for group in self.groups]),
            "blocks": pack([group.count for group in self.groups]),
            "owners": pack(owners.code_texts(group.owner for group in self.groups)),
            "left": {"groups": self.left_groups, "blocks": self.left_blocks, "bytes": self.left_bytes},
            "other_bytes": self.other_bytes,
        }


def flame(found: Peak) -> Flame:
    """The leaves of a flame graph of what is live at a peak."""
    shown, left = found.live[:_GROUPS], found.live[_GROUPS:]
    live_bytes = sum(group.total_bytes for group in found.live)
    return Flame(
        found.peak_bytes,
        found.event,
        found.line,
        shown,
        len(left),
        sum(group.count for group in left),
        sum(group.total_bytes for group in left),
        found.peak_bytes - live_bytes,
    )
