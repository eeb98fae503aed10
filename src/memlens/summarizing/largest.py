"""The blocks of one moment, by size and owner, and by who holds them: what one run holds more of than another is told by them."""

from __future__ import annotations

import re
import sys
from collections import Counter
from itertools import islice, zip_longest
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, structs

from memlens.analyzers.composition import LiveBlocks, Roles
from memlens.analyzers.fates import live_events
from memlens.analyzers.groups import commonest_holders, kinds_of_blocks, owner_labels
from memlens.claims.roles import EITHER, UNSEEN, role_of, variable_of
from memlens.folding import peak_ends
from memlens.text import innermost

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from memlens.columns import Ints
    from memlens.windows.windows import Window


#: Groups of blocks that are kept of a rank, the largest; and characters of an owner.
_MOST_GROUPS, OF_OWNER = 128, 200
#: The attribute that the path of a holder ends with, and what of it.
_ATTRIBUTE = re.compile(r"\.[A-Za-z_]\w*(?:\[\*\])*(?= \([^()]*\)$)")


class LargestGroups(Struct, frozen=True):
    """The blocks of one moment by size and owner, the groups with the most bytes; of ten thousand ranks they are held at once.

    Attributes:
        blocks: The size and the count of each group, and how many of its blocks the holder has, three int64 a group.
        owners: Whom they belong to, ``None`` where unknown: an operator, or the innermost frame of a call stack; text from the log.
        holders: Who holds half of each group or more; ``None`` where nobody is known to; empty where the log names no holder.
        left_out_bytes: The most that a group has that is not among them; 0 where all are.
    """

    blocks: bytes
    owners: tuple[str | None, ...]
    holders: tuple[str | None, ...] = ()
    left_out_bytes: int = 0

    def __post_init__(self) -> None:
        # What comes back from workers has the same names again and again.
        for key in ("owners", "holders"):
            structs.force_setattr(self, key, tuple(name and sys.intern(name) for name in getattr(self, key)))

    @classmethod
    def of(
        cls,
        sizes: Ints,
        counts: Ints,
        owners: Sequence[str | None],
        holders: tuple[Ints, tuple[str, ...], Ints] | None = None,
    ) -> LargestGroups:
        """Those of all groups, given the size, the count and the owner of each, int64, and what :func:`~memlens.analyzers.groups.commonest_holders` says first."""
        totals = sizes * counts
        order = np.lexsort((sizes, totals))[::-1]
        kept = order[:_MOST_GROUPS]
        left_out = int(totals[order[len(kept) :]].max(initial=0))
        which, names, held = holders or (counts, (), np.zeros_like(counts))
        named = tuple(names[k] if k >= 0 else None for k in which[kept].tolist()) if names else ()
        blocks = np.stack([sizes[kept], counts[kept], held[kept]], axis=1).tobytes()
        return cls(blocks, tuple(owners[k] for k in kept), named, left_out)

    @property
    def _rows(self) -> Iterator[tuple[tuple[int, str | None], int, str | None, int]]:
        """The size and the owner of each group, how many blocks it has, who holds most of them, and how many that is."""
        rows = np.frombuffer(self.blocks, np.int64).reshape(-1, 3).tolist()
        for (size, count, held), owner, holder in zip_longest(rows, self.owners, self.holders):
            yield (size, owner), count, holder, held

    @property
    def counts(self) -> Counter[tuple[int, str | None]]:
        """How many blocks there are of each size and owner."""
        return Counter({key: count for key, count, _, _ in self._rows})

    def more_than(self, other: LargestGroups) -> dict[tuple[int, str | None], int]:
        """How many more blocks there are of each size and owner; nothing is said of those that the other may have, too."""
        known = other.counts
        more = (self.counts - known).items()
        return {key: count for key, count in more if key in known or key[0] > other.left_out_bytes}

    def holders_of_more(self, other: LargestGroups) -> dict[tuple[int, str | None], str]:
        """Who surely holds half of these further blocks of each size and owner, or more."""
        known = {key: (count, holder, held) for key, count, holder, held in other._rows}
        found = {}
        for key, count, holder, held in self._rows:
            theirs, their_holder, their_held = known.get(key, (0, None, 0))
            # Of another one's blocks it may have those that this one has not.
            theirs_too = their_held if their_holder == holder else theirs - (their_held if their_holder else 0)
            if holder is not None and 2 * (held - theirs_too) >= count - theirs:
                found[key] = holder
        return found


def held_at_peak(window: Window, summit: int | None, peak_bytes: int) -> LargestGroups | None:
    """The blocks live at the peak of a window; ``None`` where these are not known.

    Args:
        window: The window.
        summit: The event that reaches its peak; ``None`` where it never rises above its start.
        peak_bytes: The level there.
    """
    log = window.log
    live = live_events(log, window.lo if summit is None else summit + 1)
    if not len(live):
        return None if peak_bytes else LargestGroups(b"", ())
    number, sizes, owners = kinds_of_blocks(log, live)
    used, places = np.unique(owners, return_inverse=True)
    labels = owner_labels(log)
    short = [None if (name := labels[k]) is None else innermost(name)[:OF_OWNER] for k in used.tolist()]
    codes = {name: code for code, name in enumerate(dict.fromkeys(short))}
    code = np.array([codes[name] for name in short], np.int64)[places]
    # Stacks that differ further out are of one owner now.
    order = np.lexsort((code, sizes))
    sizes, code = sizes[order], code[order]
    begins = np.append(True, (np.diff(sizes) != 0) | (np.diff(code) != 0))
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(begins) - 1
    number, starts, names = group[number], np.flatnonzero(begins), list(codes)
    owned = [names[k] for k in code[starts].tolist()]
    holders = commonest_holders(log, live, number, len(starts))
    return LargestGroups.of(sizes[starts], np.bincount(number), owned, holders and holders[:3])


def bytes_by_holder(window: Window) -> dict[str, int]:
    """The bytes of each holder at the peak of a window, those of the largest ones; who differ by an index or a key alone are one."""
    shares = LiveBlocks(Roles(window.log), peak_ends([window]).item()).shares("holder")
    return {share.holder: share.total_bytes for share in islice(shares, _MOST_GROUPS) if share.holder is not None}


def holder_of_most(held: Mapping[str, int], base: Mapping[str, int], more_bytes: int) -> tuple[str, int, bool] | None:
    """Who surely holds half of so many further bytes or more, how many more, and whether that is the least.

    Two peaks may lie where one attribute is reached from two variables (``metric.preds[*]`` and, in its method, ``self.preds[*]``), and what a graph has
    saved is seen (``loss.grad_fn``) or inferred: what base holds more of by another name is not more, and what is more by another name may be that, as
    what walks missed may be.
    """
    left_out = min(base.values()) if len(base) >= _MOST_GROUPS - 1 else 0
    gained = {name: size - base.get(name, left_out) for name, size in held.items() if variable_of(name) is not None}
    for other, size in base.items():
        if (less := size - held.get(other, 0)) > 0 and (attribute := _known_by(other)):
            for name in gained:
                gained[name] -= less * (name != other and _known_by(name) == attribute)
    holder = max(gained, key=gained.__getitem__, default="")
    if not holder or 2 * gained[holder] < more_bytes:
        return None
    missed, missed_in_base = (sum(of.get(name, 0) for name in (UNSEEN, EITHER)) for of in (held, base))
    others = (name for name, more in gained.items() if name != holder and more > 0)
    alike = (attribute := _known_by(holder)) is not None and attribute in map(_known_by, others)
    return holder, gained[holder], alike or missed > missed_in_base


def _known_by(holder: str) -> tuple[str, str] | None:
    """What a holder has by any name: its role and, of a variable, the attribute that its path ends with; ``None`` where it ends otherwise."""
    role, found = role_of(holder), _ATTRIBUTE.search(holder)
    if role is not None and role != "variable":
        return role, ""
    return found and ("variable", found[0])
