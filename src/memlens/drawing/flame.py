"""What is live at the peak, by whom it was allocated: the leaves of a flame graph, whose tree the page makes of the owners' names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memlens.drawing.packing import pack
from memlens.text import format_count, format_exact

if TYPE_CHECKING:
    from memlens.analyzers.peak import Peak
    from memlens.drawing.owners import Owners

__all__ = ["flame"]

#: Groups that are shown, at most; each is a box, and each caller above it another one.
_GROUPS = 1_500


def flame(found: Peak, owners: Owners, line: str = "line") -> dict[str, Any]:
    """What the page gets of what is live at a peak.

    Args:
        found: The peak.
        owners: Gives the owners their numbers.
        line: What a line is called.

    Returns:
        ``words``; the ``peak_bytes`` and the ``event`` that reaches them, ``None`` where the window starts with them; ``size_bytes``, ``blocks``
        and ``owners`` with one entry a group of blocks by size and owner, the largest total first; what of them is ``left`` out; and
        ``other_bytes``, what of the level is no block's: below 0 where the log frees what it never allocated, all of it where no line says which
        block it is about.
    """
    shown, left = found.live[:_GROUPS], found.live[_GROUPS:]
    other_bytes = found.peak_bytes - sum(group.total_bytes for group in found.live)
    return {
        "words": _words(found, other_bytes, line),
        "peak_bytes": found.peak_bytes,
        "event": found.event,
        "size_bytes": pack([group.size_bytes for group in shown]),
        "blocks": pack([group.count for group in shown]),
        "owners": pack(owners.code_texts(group.owner for group in shown)),
        "left": {
            "groups": len(left),
            "blocks": sum(group.count for group in left),
            "bytes": sum(group.total_bytes for group in left),
        },
        "other_bytes": other_bytes,
    }


def _words(found: Peak, other_bytes: int, line: str) -> str:
    """The same in a sentence or two."""
    if not found.peak_bytes:
        return "Nothing is allocated, as far as this input says."
    count = format_count(sum(group.count for group in found.live))
    blocks = f" in {count} blocks" if found.live else ", and it is not known in which blocks"
    where = "" if found.line is None else f" at {line} {format_count(found.line)}"
    lower = f" The level is {format_exact(-other_bytes)} lower than what is live: so much is freed that the log never allocated."
    return f"{format_exact(found.peak_bytes)}{blocks}{where}.{lower if other_bytes < 0 else ''}"
