"""A model of an allocator: its settings, and the rules that they mean for one history, as numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Literal

import numpy as np
from msgspec import Struct, field

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.allocators.history import NotReplayable, RequestHistory
    from memlens.columns import Ints
    from memlens.events import EventLog


#: Where a rule has a limit that nothing reaches.
NO_LIMIT = (1 << 63) - 1
#: Bytes that no block, chunk, page or range of addresses has more of.
MOST = 1 << 48


class IdleChunks(IntEnum):
    """When idle chunks (those that are one free block) are given back without need: never, after each FREE, or before a new chunk is taken."""

    KEPT = 0
    AFTER_FREE = 1
    BEFORE_GROWTH = 2


class IdleSorting(IntEnum):
    """In which order idle chunks are given back: as they were taken, or by group, size and address."""

    CREATION = 0
    SIZE = 1


class Relief(IntEnum):
    """How memory is given back when the device refuses a chunk, before it is asked again.

    ``ENOUGH``: of the group's free blocks of ``max_split`` bytes and more the smallest that is large enough, or else the largest ones until they are as much
    together; if that cannot be, the device is not asked.  ``FAMILY``: the idle chunks of the group's family.  ``ALL``: those of all families.
    """

    ENOUGH = 0
    FAMILY = 1
    ALL = 2


class Groups(Struct, frozen=True, eq=False):
    """Sets of free blocks that serve each other's requests, one entry a group; a chunk belongs to the group that it was taken for.

    Attributes:
        family: Groups whose idle chunks are given back together, and whose requests count as one age: an instance of an allocator, a pool of several streams;
            from 0, not falling, int32.
        min_remainder: A block is split if at least so many bytes of it are left over, int64.
        split_below: A request of so many bytes or more takes a block whole, int64; :data:`NO_LIMIT`: each may split one.
        page: 0; or the group's chunks are expandable: a range of addresses in which so many bytes are mapped at a time.  Int64.
        kept: Its chunks are never given back, bool.
        collected: Its idle chunks may be given back by their age, bool.
    """

    family: NDArray[np.int32]
    min_remainder: Ints
    split_below: Ints
    page: Ints
    kept: NDArray[np.bool_]
    collected: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.family)

    @classmethod
    def alike(
        cls,
        count: int,
        *,
        family: NDArray[np.int32] | None = None,
        min_remainder: int = 1,
        split_below: int = NO_LIMIT,
        page: int = 0,
    ) -> Groups:
        """So many groups with the same rules, all of one family unless ``family`` says otherwise."""
        return cls(
            np.zeros(count, np.int32) if family is None else family,
            np.full(count, min_remainder, np.int64),
            np.full(count, split_below, np.int64),
            np.full(count, page, np.int64),
            np.zeros(count, np.bool_),
            np.zeros(count, np.bool_),
        )


class AllocatorRules(Struct, frozen=True, eq=False):
    """How one allocator with one setting serves one history.

    A request takes the smallest free block of its group that is large enough, of several the one at the lowest address; if there is none, a new chunk.

    Attributes:
        block: Of each REQUEST the bytes of the block that it needs (rounded, padded); else anything.  Int64.
        group: Of each REQUEST the group that serves it; else anything.  Int32.
        growth: Of each REQUEST the bytes of the chunk that is taken if no block serves it; in an expandable group what is held against ``allowed``.  Int64.
        groups: The groups.
        oldest_first: Of several free blocks that are as large, the one serves whose chunk was taken first, and in it the one at the lowest address; else the one
            at the lowest address of all.
        take_high: A request takes the high end of a block, the rest stays free at the low one; else the other way round.
        max_split: A request of fewer bytes takes no block of so many or more; one of as many takes a block only if it is smaller than the request and
            ``max_rounding`` together; :data:`NO_LIMIT`: no such rule.
        max_rounding: See there.
        idle: When idle chunks are given back without need.
        sorting: In which order they are given back, then and ever.
        relief: What is given back when the device refuses, in this order, the device asked again after each.
        collect_above: Before a chunk is taken while more than so many bytes are reserved, idle chunks of collected groups are given back: those at least as old
            as their mean, again and again until the excess is given back; a block's age counts the requests to its family since it became free.  -1: never.
        allowed: Bytes above which nothing is reserved, whatever the device has; ``None``: no such limit.
        range_bytes: Addresses of an expandable chunk; rounded up to pages.
        preallocated: Chunks taken when the allocator is made: groups and bytes.
        keep_opening: Opening blocks stay where they were, in their chunks; else they are asked for anew, one after the other.
        opening_group: Of each opening chunk its group, int32; empty unless they are kept.
    """

    block: Ints
    group: NDArray[np.int32]
    growth: Ints
    groups: Groups
    take_high: bool = False
    oldest_first: bool = False
    max_split: int = NO_LIMIT
    max_rounding: int = 0
    idle: IdleChunks = IdleChunks.KEPT
    sorting: IdleSorting = IdleSorting.CREATION
    relief: tuple[Relief, ...] = ()
    collect_above: int = -1
    allowed: int | None = None
    range_bytes: int = 0
    preallocated: tuple[tuple[int, int], ...] = ()
    keep_opening: bool = False
    opening_group: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))


#: What a setting is set to, and settings by name; what is not among them has its default.
Value = bool | int | float | str
Values = Mapping[str, Value]


class AllocatorSetting(Struct, frozen=True):
    """A setting of an allocator.

    Attributes:
        name: As the framework calls it, ``FLAGS_auto_growth_chunk_size_in_mb``, ``expandable_segments``.
        kind: What it is: bytes counted in MiB, yes or no, a whole number, any number, a word.
        default: What it is unless it is set.
        summary: What it does, in half a line.
        tried: Values that are worth a try.
        since: The first release that has it, ``PaddlePaddle 3.3``; ``""`` where all that are modelled have it.
        settable: A user can set it; else it is the device's or the release's, and can only be said of the run.
    """

    name: str
    kind: Literal["mebibytes", "switch", "count", "number", "word"]
    default: Value
    summary: str
    tried: tuple[Value, ...] = ()
    since: str = ""
    settable: bool = True


class AllocatorModel(Struct, frozen=True):
    """A model of an allocator.

    Attributes:
        name: ``paddle-auto-growth``, ``pytorch-caching``.
        summary: What it is a model of, in half a line, with the versions.
        settings: What can be set.
        history: The requests of a log; or why it cannot be replayed, ``None`` where the log is not one of this allocator.
        recorded: The values of its settings in a run, as far as the history tells them.
        rules: The rules for a history with these values.
        candidates: The values to try, for a history with its own ones.
        line: The very line that sets values, ``PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True``.
        package: The package it comes from.
        runs: Of a log that several processes wrote the log of each, with what to call it; of others nothing.
        apart: What a user set, a setting that holds several others replaced by these; in most models there is none.
    """

    name: str
    summary: str
    settings: tuple[AllocatorSetting, ...]
    history: Callable[[EventLog], RequestHistory | NotReplayable | None]
    recorded: Callable[[RequestHistory], Values]
    rules: Callable[[RequestHistory, Values], AllocatorRules]
    candidates: Callable[[RequestHistory, Values], Sequence[Values]]
    line: Callable[[Values], str]
    package: str = "memlens"
    runs: Callable[[EventLog], Sequence[tuple[EventLog, str]]] = lambda _: ()
    apart: Callable[[Values], Values] = lambda values: values

    @property
    def defaults(self) -> dict[str, Value]:
        """The value of each setting unless it is set."""
        return {setting.name: setting.default for setting in self.settings}
