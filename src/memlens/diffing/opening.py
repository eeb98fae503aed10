"""Opening blocks: what an input says was live before its first event, in both runs or in one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from memlens.analyzers.fates import opening_allocs
from memlens.diffing.blocks import Blocks
from memlens.diffing.pairing import Match, match_unordered

if TYPE_CHECKING:
    from memlens.windows.windows import Window

__all__ = ["match_opening"]


def match_opening(base: Sequence[Window], head: Sequence[Window]) -> Match:
    """Pair the opening blocks of window pairs of which both windows begin with their inputs; other windows have none here.

    Such blocks come in no order of their own (by address, as a rule), so there is nothing to align.

    Args:
        base: Windows of base; not empty.
        head: Windows of head, as many.
    """
    begin = [
        left.lo == left.log.facts.opening and right.lo == right.log.facts.opening
        for left, right in zip(base, head, strict=True)
    ]
    return match_unordered(_opening(base, begin), _opening(head, begin))


def _opening(windows: Sequence[Window], begin: Sequence[bool]) -> Blocks:
    log = windows[0].log
    allocs = opening_allocs(log)
    some = np.array(begin, np.bool_)
    hi = np.array([window.hi for window in windows], np.int64)[some]
    event = np.tile(allocs, len(hi))
    free = log.lifetimes.partner[event].astype(np.int64)
    nothing = np.zeros(len(event), np.uint64)
    return Blocks(
        log,
        np.concatenate(([0], np.cumsum(some * len(allocs)))).astype(np.int64),
        event,
        event,
        free,
        (free < 0) | (free >= np.repeat(hi, len(allocs))),
        log.size[event],
        np.full(len(event), -1, np.int32) if log.owner is None else log.owner[event],
        nothing,
        nothing,
        nothing,
    )
