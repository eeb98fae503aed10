"""The rules of PyTorch's native CUDA caching allocator.

Read in ``c10/cuda/CUDACachingAllocator.cpp`` and ``c10/core/AllocatorConfig.h``, and held against the allocator itself, as it comes with PyTorch 2.6, 2.10, 2.11, 2.13
and 2.15, which serves a program of requests without a device (``tests/support/torch_allocator``).  2.12 is no other, but in rule 4.

1. A request is rounded up to a multiple of 512 bytes; with ``roundup_power2_divisions`` d, if it is larger than 512 d, to one of d steps between two powers of two.
2. What is at most 1 MiB then is served by the small pool, the rest by the large one; each stream has its own blocks in both.
3. A new segment has 2 MiB in the small pool; in the large one 20 MiB (``large_segment_size_mb``) for less than 10 MiB, else a multiple of 2 MiB.
4. The smallest free block that is large enough serves; of several, up to 2.11, the one at the lowest address, and from 2.13 on that of the segment that was taken
   first.  2.12 decides as neither.
5. The request takes the low end.  The rest is split off where it is at least 512 bytes in the small pool and in expandable segments, more than 1 MiB in the large
   pool; and not where the request has ``max_split_size_mb`` or more.  So a large block may keep up to 1 MiB that nobody asked for.
6. A block that is freed joins its free neighbours.
7. With ``max_split_size_mb`` smaller requests take no block of that size or more, and larger ones only blocks that are less than ``max_non_split_rounding_mb`` larger.
8. If the device refuses a segment: with ``max_split_size_mb`` one block of that size or more is given back that is large enough, or several, the largest first;
   then all free segments, the large pool first; then the request fails.
9. With ``garbage_collection_threshold`` and a memory fraction old free segments of the large pool are given back before a new one is asked for.
10. With a memory fraction a segment that would go beyond it is refused.
11. Expandable segments: ranges of addresses in which pages of 2 MiB (small) or of 20 MiB (``large_segment_size_mb``) are mapped where the lowest address has
    room, and whole free pages are unmapped when the device refuses.  Of free blocks that are large enough the one serves that could expand to the smallest.
12. Private pools (graphs, ``torch.cuda.MemPool``) have sets of their own, and nothing of theirs is given back.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from memlens.allocators.history import ChunkChange, NotReplayable, Operation
from memlens.allocators.models import (
    NO_LIMIT,
    AllocatorModel,
    AllocatorRules,
    Groups,
    IdleChunks,
    IdleSorting,
    Relief,
    Values,
)
from memlens.allocators.torch import settings
from memlens.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memlens.allocators.history import RequestHistory
    from memlens.allocators.models import Value
    from memlens.events import EventLog


#: Rule 11: where it is not known what the device has, as much as nothing fills.
_RANGE = 1 << 42
#: Rule 12: sets of free blocks, one for each stream in each pool.
_MOST_GROUPS = 1 << 20


def _history(log: EventLog) -> RequestHistory | NotReplayable | None:
    from memlens.allocators.torch.history import request_histories, settled

    found = request_histories(log)
    try:
        return settled(found, _rules) if isinstance(found, list) else found
    except UsageError as error:
        return NotReplayable(f"what it says of its segments and blocks cannot be: {error.message}")


def _recorded(history: RequestHistory) -> Values:
    return settings.recorded_values(history.settings)


def _rules(history: RequestHistory, values: Values) -> AllocatorRules:
    conf = settings.Configuration.of(values)
    block = settings.rounded(history.size, conf.divisions)
    small = block <= settings.SMALL
    chunks = history.opening_chunks
    # The default ones are among them.
    streams = 1 + max(int(history.stream.max(initial=0)), int(chunks.stream.max(initial=0)))
    pools = 1 + max(int(history.pool.max(initial=0)), int(chunks.pool.max(initial=0)))
    if 2 * streams * pools > _MOST_GROUPS:
        raise UsageError(f"{streams:,} streams and {pools:,} pools have more sets of free blocks than can be")
    segment = settings.SMALL_SEGMENT
    opening_small = np.where(chunks.page > 0, chunks.page == segment, chunks.size == segment)
    total = conf.total or history.limit_bytes or 0
    if (conf.share < 1 or conf.collect_share) and not total:
        raise UsageError(
            "what the device has is not known, of which these settings are shares",
            "Give it: --was device_total_mb=81920; or, where the process was given no share of it, --was garbage_collection_threshold=0.",
        )
    allowed = int(conf.share * total) if conf.share < 1 or conf.collect_share else None
    group = _group(history.pool, small, history.stream, streams)
    opening_group = _group(chunks.pool, opening_small, chunks.stream, streams)
    return AllocatorRules(
        block=block,
        group=group,
        growth=settings.segment_bytes(block, conf.large_segment),
        groups=_groups(conf, streams, pools),
        oldest_first=conf.oldest_first,
        max_split=conf.max_split,
        max_rounding=conf.max_rounding,
        idle=IdleChunks.KEPT,
        sorting=IdleSorting.SIZE,
        relief=(Relief.ENOUGH, Relief.ALL) if conf.max_split != NO_LIMIT else (Relief.ALL,),
        collect_above=int(conf.collect_share * allowed) if allowed is not None and conf.collect_share else -1,
        allowed=allowed,
        range_bytes=min(
            conf.total + conf.total // 8 if conf.total else _RANGE,
            _apart(history, group, opening_group, conf.large_segment),
        ),
        keep_opening=history.opening > 0 or len(chunks.page) > 0,
        opening_group=opening_group,
    )


def _apart(history: RequestHistory, group: NDArray[np.int32], opening_group: NDArray[np.int32], page: int) -> int:
    """How far apart the ranges of expandable segments were, as far as is recorded: of how many bytes one is at most, in whole pages."""
    mapped = history.changes.kind == ChunkChange.MAPPED
    parts = history.opening_chunks.page > 0
    addr = np.concatenate((history.changes.addr[mapped], history.opening_chunks.addr[parts]))
    of = np.concatenate((group[history.changes.at[mapped]], opening_group[parts]))
    order = np.argsort(addr, kind="stable")
    addr, of = addr[order], of[order]
    first = addr[np.append(True, of[1:] != of[:-1])[: len(of)]]
    if len(first) < 2:
        return _RANGE
    apart, steps = np.diff(first).min(), np.diff(addr)
    # A range that was given back may be followed by another one of its group.
    return int(steps[steps >= apart // 2].min(initial=apart)) // page * page


def _group(
    pool: NDArray[np.int32], small: NDArray[np.bool_], stream: NDArray[np.int32], streams: int
) -> NDArray[np.int32]:
    """The groups: pool by pool, of each the large one first, of that stream by stream."""
    return ((pool * 2 + small) * streams + stream).astype(np.int32)


def _groups(conf: settings.Configuration, streams: int, pools: int) -> Groups:
    family = np.repeat(np.arange(2 * pools, dtype=np.int32), streams)
    small, private = family % 2 == 1, family >= 2
    return Groups(
        family,
        np.where(small | conf.expandable, settings.SMALL_REST, settings.LARGE_REST).astype(np.int64),
        np.where(small | conf.expandable, NO_LIMIT, conf.max_split).astype(np.int64),
        np.where(small, settings.SMALL_SEGMENT, conf.large_segment).astype(np.int64) * conf.expandable,
        private,
        ~small & ~private,
    )


def _candidates(history: RequestHistory, values: Values) -> Sequence[Values]:
    """One setting changed at a time, from what the run had and from the defaults; values that change nothing for its requests are left out."""
    own = dict(values)
    requests = history.size[history.operation == Operation.REQUEST]
    largest = int(requests.max(initial=0))
    found: list[Values] = []

    def add(**changes: Value) -> None:
        tried = {**own, **changes}
        if tried == own or tried in found:
            return
        with suppress(UsageError):  # it does not go with what the run had
            settings.Configuration.of(tried)
            found.append(tried)

    if own:
        found.append({name: own[name] for name in own if name == "device_total_mb"})
    add(expandable_segments=True)
    for setting in settings.SETTINGS:
        for value in setting.tried:
            if setting.name == "max_split_size_mb" and int(value) * settings.MEBIBYTE > largest:
                continue
            add(**{setting.name: value})
    return found


CACHING = AllocatorModel(
    name="pytorch-caching",
    summary="PyTorch's native CUDA caching allocator, 2.0 to 2.15 without 2.12",
    settings=settings.SETTINGS,
    history=_history,
    recorded=_recorded,
    rules=_rules,
    candidates=_candidates,
    line=settings.conf_line,
    apart=settings.whole_values,
)
