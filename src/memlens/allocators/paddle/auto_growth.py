"""The rules of Paddle's auto-growth best-fit allocator (``FLAGS_allocator_strategy=auto_growth``).

Read in the sources of Paddle 2.3 to 3.3 (``auto_growth_best_fit_allocator.cc``) and checked, block by block, on logs of 2.6.2, 3.0.0-beta2, 3.0.0 and 3.3.1:

1. A request is padded by what the device wants behind each tensor (plug-in devices of 3.0 and later), and rounded up to the device's alignment (256 on GPUs).
2. It takes the smallest free block that is large enough, of several the one at the lowest address, in all chunks of its pool.
3. It takes the high end of that block; what is left stays free, however small.
4. Where no block is large enough a chunk is taken from the device: as large as the request, and at least ``FLAGS_auto_growth_chunk_size_in_mb``.
5. A block that is freed becomes one with its free neighbours in its chunk; chunks stay apart even where they touch.
6. ``FLAGS_free_idle_chunk``: after each free all chunks that are one free block are given back, in the order in which they were taken.
7. ``FLAGS_free_when_no_cache_hit``: they are given back before a chunk is taken; then a refusal is final.
8. Else a refusal makes the allocator give them back and ask once more.  A plug-in device fails by an error of another kind, and nothing is tried again.
9. Two pools (3.3 and later): blocks up to ``FLAGS_small_pool_size_in_mb`` come from the small one, the others from the large one; 0 is one pool.  With two
   the least bytes of a chunk are ``FLAGS_small_pool_auto_growth_chunk_size_in_mb`` and ``FLAGS_large_…`` alone.
10. ``FLAGS_small_pool_pre_alloc_in_mb`` and ``FLAGS_large_…`` (3.3 and later): a chunk each, taken when the allocator is made.
11. Each stream of a device has an allocator of its own, which shares no chunk with another one; a refusal makes all of them give back idle chunks.

Not modelled: naive best fit, ``FLAGS_use_auto_growth_v2``, virtual memory (``FLAGS_use_virtual_memory_auto_growth``), waiting for other threads to free
(``FLAGS_gpu_allocator_retry_time``), recording of CUDA graphs, during which no idle chunk is given back.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from memlens.allocators.engine import proven
from memlens.allocators.history import ChunkChange, NotReplayable, RequestHistory
from memlens.allocators.models import (
    AllocatorModel,
    AllocatorRules,
    AllocatorSetting,
    Groups,
    IdleChunks,
    Relief,
    Value,
    Values,
)
from memlens.allocators.paddle import history as logged
from memlens.text import name_list

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from memlens.columns import Ints
    from memlens.events import EventLog


_CHUNK, _IDLE, _MISS = "FLAGS_auto_growth_chunk_size_in_mb", "FLAGS_free_idle_chunk", "FLAGS_free_when_no_cache_hit"
_SMALL = "FLAGS_small_pool_size_in_mb"
_CHUNKS = ("FLAGS_small_pool_auto_growth_chunk_size_in_mb", "FLAGS_large_pool_auto_growth_chunk_size_in_mb")
_ADVANCE = ("FLAGS_small_pool_pre_alloc_in_mb", "FLAGS_large_pool_pre_alloc_in_mb")
#: What is no flag but the device's.
_PADDING, _ALIGNMENT, _RETRY = "padding_bytes", "alignment_bytes", "retry_refused"
#: The first release that has pools.
_POOLED = "PaddlePaddle 3.3"

_SETTINGS = (
    AllocatorSetting(_CHUNK, "mebibytes", 0, "the least size of a chunk", (0, 4, 16, 64, 256)),
    AllocatorSetting(_IDLE, "switch", False, "give chunks back as soon as they are idle", (False, True)),
    AllocatorSetting(_MISS, "switch", False, "give idle chunks back before a new one is taken", (False, True)),
    AllocatorSetting(_SMALL, "mebibytes", 0, "blocks up to this come from a pool of their own", (0, 1), _POOLED),
    AllocatorSetting(_CHUNKS[0], "mebibytes", 0, "the least size of its chunks", (2,), _POOLED),
    AllocatorSetting(_CHUNKS[1], "mebibytes", 0, "… of the chunks of the other pool", (16, 64), _POOLED),
    AllocatorSetting(_ADVANCE[0], "mebibytes", 0, "a chunk of the small pool taken at the start", since=_POOLED),
    AllocatorSetting(_ADVANCE[1], "mebibytes", 0, "a chunk of the large pool taken at the start", since=_POOLED),
    AllocatorSetting(
        _PADDING, "count", 0, "bytes that the device wants behind each tensor: no flag, the device's", settable=False
    ),
    AllocatorSetting(_ALIGNMENT, "count", 256, "what blocks are a multiple of: no flag, the device's", settable=False),
    AllocatorSetting(_RETRY, "switch", True, "a refusal is tried again: not on plug-in devices", settable=False),
)
#: Sizes of the small pool that are looked for in a log whose pools are not known, MiB.
_POOLS = (1, 2, 4, 8, 16, 32, 64)


def _history(log: EventLog) -> RequestHistory | NotReplayable | None:
    """The requests of a log of Paddle; ``None`` for other inputs."""
    return logged.request_history(log) if log.facts.layer in logged.LAYERS else None


def _runs(log: EventLog) -> Sequence[tuple[EventLog, str]]:
    """The processes that wrote a log, told apart by their threads."""
    runs = logged.processes(log) if log.facts.layer in logged.LAYERS else ()
    return [(run, f"process of {_named(run.facts.threads)}") for run in runs]


def _named(threads: Sequence[int]) -> str:
    return f"{'thread' if len(threads) == 1 else 'threads'} {name_list(list(map(str, threads)))}"


def _rules(history: RequestHistory, values: Values) -> AllocatorRules:
    of = {**AUTO_GROWTH.defaults, **values}
    alignment = max(int(of[_ALIGNMENT]), 1)
    block = _rounded(history.size + int(of[_PADDING]) if of[_PADDING] else history.size, alignment)
    small = int(of[_SMALL]) << 20
    pools = 2 if small else 1
    names = _CHUNKS if small else (_CHUNK,)
    least = np.maximum(_rounded(np.array([int(of[name]) << 20 for name in names], np.int64), alignment), alignment)
    pool = (block > small).astype(np.int32) if small else np.int32(0)
    streams = int(history.stream.max(initial=0)) + 1
    relief: tuple[Relief, ...] = ()
    if of[_RETRY] and not of[_MISS]:
        relief = (Relief.FAMILY,) if streams == 1 else (Relief.FAMILY, Relief.ALL)
    idle = IdleChunks.BEFORE_GROWTH if of[_MISS] else IdleChunks.KEPT
    return AllocatorRules(
        block=block,
        group=history.stream * np.int32(pools) + pool if small else history.stream,
        growth=np.maximum(block, least[pool] if small else least),
        groups=Groups.alike(streams * pools, family=np.repeat(np.arange(streams, dtype=np.int32), pools)),
        take_high=True,
        idle=IdleChunks.AFTER_FREE if of[_IDLE] else idle,
        relief=relief,
        preallocated=tuple(
            (min(number, pools - 1), int(of[name]) << 20) for number, name in enumerate(_ADVANCE) if int(of[name])
        ),
    )


def _rounded(size: Ints, to: int) -> Ints:
    if to & (to - 1):
        rounded: Ints = (size + (to - 1)) // to * to
    else:  # a division takes as long as all else
        rounded = size + (to - 1)
        rounded &= -to
    return rounded


def _recorded(history: RequestHistory) -> Values:
    """The settings of the run: those that its lines tell, and of what they leave open what replays it, or else most of it."""
    best: tuple[int, Values] = (-1, {})
    for values in _possible(history):
        proof = proven(AUTO_GROWTH, history, values)
        if proof.exact:
            return values
        best = max(best, (proof.addresses.matched, values), key=lambda one: one[0])
    return best[1]


def _possible(history: RequestHistory) -> Iterator[Values]:
    """The settings that the run may have had, the likeliest first."""
    recorded = history.settings
    known = {
        _ALIGNMENT: int(recorded[logged.ALIGNMENT]),
        _PADDING: int(recorded.get(logged.PADDING, 0)),
        _IDLE: logged.IDLE in recorded,
        _ADVANCE[0]: int(recorded.get(logged.SMALL_PREALLOC, 0)) >> 20,
        _ADVANCE[1]: int(recorded.get(logged.LARGE_PREALLOC, 0)) >> 20,
    }
    retries = [False, True] if logged.CUSTOM_DEVICE in recorded else [True, False]
    misses = [True, False] if logged.GIVEN_BACK_FOR_REQUESTS in recorded else [False]
    if not len(history.failed) and logged.GIVEN_BACK_FOR_REQUESTS not in recorded:
        del retries[1:]  # nothing tells them apart
    one_pool = {_CHUNK: _least(history, recorded.get(logged.CHUNK_BYTES))}
    for retry, miss in product(retries, misses):
        yield {**known, **one_pool, _MISS: miss, _RETRY: retry}
    for small in _POOLS:
        in_small = history.block_bytes <= small << 20
        pools = dict(zip(_CHUNKS, (_least(history, None, in_small), _least(history, None, ~in_small)), strict=True))
        for retry, miss in product(retries, misses):
            yield {**known, **one_pool, **pools, _SMALL: small, _MISS: miss, _RETRY: retry}


def _least(history: RequestHistory, recorded: str | None, requests: NDArray[np.bool_] | None = None) -> int:
    """The least size of chunks, MiB: as recorded, or that of the smallest one that is larger than the block it was taken for; of some requests."""
    if recorded is not None:
        return int(recorded) >> 20
    changes = history.changes
    taken = (changes.kind == ChunkChange.TAKEN) & (changes.at >= 0)
    at, size = changes.at[taken], changes.size[taken]
    larger = size > history.block_bytes[at]
    larger &= history.block_bytes[at] >= 0
    if requests is not None:
        larger &= requests[at]
    return int(size[larger].min()) >> 20 if larger.any() else 0


def _candidates(history: RequestHistory, own: Values) -> Sequence[Values]:  # noqa: ARG001 - the same for each run
    """Sizes of chunks with each way of giving them back, and two pools."""
    sizes = next(setting.tried for setting in _SETTINGS if setting.name == _CHUNK)
    flags = {name: value for name, value in AUTO_GROWTH.defaults.items() if name.startswith("FLAGS_")}
    ways: tuple[dict[str, Value], ...] = ({}, {_IDLE: True}, {_MISS: True})
    found: list[Values] = [{**flags, _CHUNK: size, **way} for size, way in product(sizes, ways)]
    found += [{**flags, _SMALL: 1, _CHUNKS[0]: 2, _CHUNKS[1]: large} for large in (0, 16, 64)]
    return found


def _line(values: Values) -> str:
    """``FLAGS_free_idle_chunk=1``; what is the device's own stands there only where there is nothing else."""
    flags = {name: value for name, value in values.items() if name.startswith("FLAGS_")}
    return " ".join(f"{name}={int(value)}" for name, value in (flags or values).items())


AUTO_GROWTH = AllocatorModel(
    name="paddle-auto-growth",
    summary="Paddle's auto-growth best-fit allocator, 2.3 to 3.3",
    settings=_SETTINGS,
    history=_history,
    recorded=_recorded,
    rules=_rules,
    candidates=_candidates,
    line=_line,
    runs=_runs,
)
