"""The event log: what was read from one input, as NumPy columns in file order.

What is cut out of it and what is to be doubted of it needs more than columns: :mod:`memlens.log`.

Order is file order and nothing else.  Addresses are paired by it (:class:`Lifetimes`), because in the Paddle
allocator the Alloc line is written inside the lock and the Free line before it, while time stamps step back.
"""

from __future__ import annotations

from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from msgspec import Struct, field, structs

from memlens.columns import pair as pair_by_address
from memlens.facts import Facts, Kind, Mark
from memlens.source import Source
from memlens.spool import empty, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from memlens.columns import Ints
    from memlens.windows.landmarks import Landmarks
    from memlens.windows.patterns import Anchor

__all__ = ["BATCH", "Batch", "EventLog", "Kind", "Lifetimes", "Outline", "once"]

T = TypeVar("T")
#: Events in one batch of :meth:`EventLog.batches`: its temporaries stay in the cache and below a few MB.
BATCH = 1 << 17
#: Lines are looked up one by one until one of so many events was, for a look goes through some hundred events; in a log of more than so many always.
_LOOKED_UP, _MOST_KEPT = 256, 1 << 22


class Batch(NamedTuple):
    """Consecutive events ``lo … hi-1`` of a log, with the running sums over the whole log up to each of them.

    ``allocated`` and ``reserved`` (int64, ``hi - lo`` long) are the bytes allocated and reserved right after each event,
    counted from 0 at the start of the log.
    """

    lo: int
    hi: int
    kind: NDArray[np.int8]
    size: NDArray[np.int64]
    allocated: NDArray[np.int64]
    reserved: NDArray[np.int64]


class Lifetimes(Struct, frozen=True, eq=False):
    """Which FREE ends which ALLOC.

    A FREE ends the newest ALLOC of its address, if nothing has ended that one yet; else it is an unknown free.  An ALLOC of an address that is still live is a
    *double alloc*: the older ALLOC is left without a FREE (its Free line was lost, or another process wrote it).

    Attributes:
        partner: For an ALLOC the index of its FREE, for a FREE the index of its ALLOC, else -1; one entry an event, int32
            (int64 for logs of 2**31 events and more).
        double_allocs: Indices of the ALLOCs that came while their address was still live, int64, rising.
    """

    partner: NDArray[np.int32] | NDArray[np.int64]
    double_allocs: Ints


def pair(kind: NDArray[np.int8], addr: NDArray[np.uint64], *, addresses: bool = True) -> Lifetimes:
    """Pair ALLOC and FREE events; none where events have no addresses.

    Args:
        kind: :class:`~memlens.facts.Kind` of each event, int8.
        addr: Its address.
        addresses: Blocks have addresses (:attr:`memlens.facts.Facts.addresses`).
    """
    if not addresses:
        partner = empty(len(kind), np.int32)
        partner.fill(-1)
        return Lifetimes(partner, np.zeros(0, np.int64))
    return Lifetimes(*pair_by_address(kind, addr))


class FreeAnomalies(Struct, frozen=True):
    """The FREE events that do not simply end one ALLOC of their own size, indices rising, int64.

    Attributes:
        unknown: FREEs without an earlier ALLOC.
        mismatched: FREEs whose ALLOC has another size.
        excess: ALLOC size - FREE size of each of ``mismatched``.
    """

    unknown: Ints
    mismatched: Ints
    excess: Ints


def free_anomalies(kind: NDArray[np.int8], size: Ints, lifetimes: Lifetimes) -> FreeAnomalies:
    """Gather the FREEs that stand out among events with these kinds and sizes."""
    partner, none = lifetimes.partner, np.zeros(0, np.int64)
    unknown, mismatched, excess = [none], [none], [none]
    for start, stop in walk(0, len(kind)):
        frees = np.flatnonzero(kind[start:stop] == Kind.FREE) + start
        alloc = partner[frees]
        if len(alloc) and alloc.min() < 0:
            unknown.append(frees[alloc < 0])
            frees, alloc = frees[alloc >= 0], alloc[alloc >= 0]
        difference = size[alloc] - size[frees]
        if difference.any():
            mismatched.append(frees[difference != 0])
            excess.append(difference[difference != 0])
    return FreeAnomalies(*map(np.concatenate, (unknown, mismatched, excess)))


class EventLog(Struct, frozen=True, eq=False, dict=True, weakref=True):
    """Typed events of one log, one NumPy entry an event, in file order.

    Attributes:
        kind: :class:`Kind`, int8.
        size: Bytes of the block or chunk, int64.
        addr: Address, uint64; 0 where the line has none (RELEASE, old RESERVE lines).
        offset: Byte offset, in the uncompressed input, of the start of the line that holds the event, int64, not falling.
        time_us: Microseconds since the start of the year of the log (or since 1970 where the stamps have a year), int64, -1
            where unknown; ``None`` when not asked for.
        thread: Thread id, int64, -1 where unknown; ``None`` when not asked for.
        requested: Bytes that the tensor asked for, before alignment, int64, -1 where unknown; ``None`` when the log has none.
        owner: What an event is blamed on, as a number of ``owner_names``, int32, -1 where nothing is known; ``None`` where
            nothing is known of any event.
        owner_names: The names of the owners.
        holder: Who was last seen to hold the block of an event, at the peak for the ALLOC of one that is live there and does not stay, as a number of
            ``holder_names``, int64, -1 where unknown; ``None`` where the log does not tell.
        holder_names: The role of a tensor, its path from a variable of the program, and where that is: ``variable feats[*] (main, train.py)``.
        role: What call stacks told of the block of each ALLOC, as a number of :data:`memlens.claims.roles.ROLES`, int8, -1 where unknown, of a log whose
            stacks were not kept; else ``None``.
        device: The device whose memory this is, where the input has several; ``None`` where nothing is known of devices.
        stream: Stream of each event, as a number that the format gives, int64, -1 where unknown; ``None`` when the input has none.
        pool: The memory pool that an event's block or chunk is in, as a number of ``pool_names``, int32, -1 where unknown; ``None`` where nothing
            tells of a pool of someone's own.
        pool_names: ``default pool``, ``private pool (0, 1)``.
        user_metadata: What the user had noted when an event was recorded (``torch.cuda.memory._set_memory_metadata``), as a number of
            ``user_metadata_names``, int32, -1 for nothing; ``None`` where nothing is noted of any event.
        user_metadata_names: The notes, a dict as ``step=3, phase=forward``.
        marks: Named places, in order, of an input that has no lines of text; ``None`` for a text log, whose lines are looked at.
        line: 1-based line number, int64; kept only for inputs that cannot be read a second time, else ``None``.
        source: The input, to look up lines and line numbers by offset.
        facts: What the reader saw beside the events.
        anchors: Anchor lines found while reading, by the pattern asked for.
        landmarks: Lines found while reading that may mark the work of the run; ``None`` where they were not looked for.
    """

    kind: NDArray[np.int8]
    size: NDArray[np.int64]
    addr: NDArray[np.uint64]
    offset: NDArray[np.int64]
    time_us: NDArray[np.int64] | None = None
    thread: NDArray[np.int64] | None = None
    requested: NDArray[np.int64] | None = None
    owner: NDArray[np.int32] | None = None
    owner_names: tuple[str, ...] = ()
    holder: NDArray[np.int64] | None = None
    holder_names: tuple[str, ...] = ()
    role: NDArray[np.int8] | None = None
    device: int | None = None
    stream: NDArray[np.int64] | None = None
    pool: NDArray[np.int32] | None = None
    pool_names: tuple[str, ...] = ()
    user_metadata: NDArray[np.int32] | None = None
    user_metadata_names: tuple[str, ...] = ()
    marks: tuple[Mark, ...] | None = None
    line: NDArray[np.int64] | None = None
    source: Source = field(default_factory=lambda: Source("<memory>"))
    facts: Facts = field(default_factory=Facts)
    anchors: tuple[Anchor, ...] = ()
    landmarks: Landmarks | None = None

    @classmethod
    def from_rows(cls, rows: Sequence[tuple[Kind, int, int]], **columns: Any) -> Self:
        """Build a log from ``(kind, size, addr)`` rows, for tests and for readers of small inputs.

        Offsets count up by 1 from 0 unless ``offset`` is among ``columns``.  Owners are given as ``owner`` and ``owner_names``.
        """
        kind = np.array([int(row[0]) for row in rows], np.int8)
        size = np.array([row[1] for row in rows], np.int64)
        addr = np.array([row[2] for row in rows], np.uint64)
        columns.setdefault("offset", np.arange(len(rows), dtype=np.int64))
        return cls(kind, size, addr, **columns)

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def can_be_cut(self) -> bool:
        """Whether it has lines of text, or annotations, that anchors can be found in."""
        return self.marks is None or len(self.marks) > 0

    def __repr__(self) -> str:
        return f"<EventLog {self.source.name!r}: {len(self):,} events>"

    def line_numbers(self, events: Sequence[int] | NDArray[np.int64]) -> list[int | None]:
        """The 1-based line of each of some events, in their order; ``None`` where it cannot be told."""
        return [line or None for line in self.line_column(np.asarray(events, np.int64)).tolist()]

    def line_column(self, events: NDArray[np.int64]) -> NDArray[np.int64]:
        """The same of a column, int64; 0 where it cannot be told.  A text of which much is looked up is gone through once, and all lines are kept, if there are not very many."""
        if self.line is not None:
            return np.maximum(self.line[events], 0)
        self._looked_up[0] += len(events)
        if self.marks is None and len(self) < min(self._looked_up[0] * _LOOKED_UP, _MOST_KEPT):
            return self._lines[events]
        return self.source.lines_of_events(events, self.offset)

    @cached_property
    def _looked_up(self) -> list[int]:
        """How many lines were looked up."""
        return [0]

    @cached_property
    def _lines(self) -> NDArray[np.int64]:
        return self.source.lines_of_events(np.arange(len(self)), self.offset)

    def times_of(self, events: Sequence[int]) -> list[int | None]:
        """When each of some events was logged, as :meth:`times_at` says; ``None`` where that is not known."""
        return [time if time >= 0 else None for time in self.times_at(np.array(events, np.int64)).tolist()]

    def times_at(self, events: NDArray[np.int64]) -> NDArray[np.int64]:
        """When each of some events was logged, as in ``time_us``, int64; -1 where that is not known, and of what was there before the input begins.

        Of a log that was read without times the lines are looked up where that is cheap: few are asked for.

        Args:
            events: Events in any order, int64; those that the log does not have are not known.
        """
        times = np.full(len(events), -1, np.int64)
        logged = np.flatnonzero((events >= self.facts.opening) & (events < len(self)))
        if self.time_us is not None:
            times[logged] = self.time_us[events[logged]]
        else:
            found = self.source.times(self.offset[events[logged]].tolist())
            times[logged] = [-1 if time is None else time for time in found]
        return times

    def owner_of(self, event: int | None) -> str | None:
        """The owner of one event; ``None`` for no event, or where nothing is known."""
        return _name_at(self.owner, self.owner_names, event)

    def batches(self, lo: int = 0, hi: int | None = None, *, size: int = BATCH) -> Iterator[Batch]:
        """Walk over events ``lo … hi-1`` in batches, with running sums that count from the start of the *log*.

        The sums start at 0 before event 0; to start elsewhere than 0 the events before ``lo`` are summed once.
        """
        end = len(self) if hi is None else hi
        allocated, reserved = (0, 0) if lo == 0 else self.level_before(lo)
        for start, stop in walk(lo, end, size):
            kind, sizes = self.kind[start:stop], self.size[start:stop]
            a, r = running_sums(kind, sizes, allocated, reserved)
            yield Batch(start, stop, kind, sizes, a, r)
            allocated, reserved = int(a[-1]), int(r[-1])

    def level_before(self, event: int) -> tuple[int, int]:
        """Allocated and reserved bytes right before event number ``event``, counted from 0 at the start of the log."""
        sums = np.zeros(len(Kind), np.int64)
        for start, stop in walk(0, event):
            kind, size = self.kind[start:stop], self.size[start:stop]
            sums += [int(size[kind == k].sum()) for k in Kind]
        allocated, freed, reserved, released = sums.tolist()
        return allocated - freed, reserved - released

    def events_before(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """The index of the first event on a line at or after each of some places, given as byte offsets; int64."""
        return self.offset.searchsorted(offsets)

    def allocs_before(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many ALLOCs stand before some byte offsets, int64."""
        counts: NDArray[np.int64] = np.append(0, np.cumsum(self.kind == Kind.ALLOC))
        return counts[self.events_before(offsets)]

    @cached_property
    def tells_of_blocks(self) -> bool:
        """Whether allocated bytes are known: an event is of a block, or the input says what was there before its first event."""
        return bool(self.facts.opening) or bool(len(self) and self.kind.min() <= Kind.FREE)

    @cached_property
    def tells_of_chunks(self) -> bool:
        """Whether reserved bytes are known."""
        return bool(len(self) and self.kind.max() > Kind.FREE)

    @cached_property
    def lifetimes(self) -> Lifetimes:
        """ALLOC and FREE events paired by address, computed once."""
        return pair(self.kind, self.addr, addresses=self.facts.addresses)

    @cached_property
    def free_anomalies(self) -> FreeAnomalies:
        """The FREEs that do not simply end one ALLOC of their own size, computed once."""
        return free_anomalies(self.kind, self.size, self.lifetimes)

    def without_cache(self, **changes: Any) -> Self:
        """A copy with some columns replaced and nothing computed yet."""
        return structs.replace(self, **changes)

    def to_pandas(self) -> pd.DataFrame:
        """The events as a DataFrame, a row an event; ``kind``, ``owner``, ``holder``, ``pool`` and ``user_metadata`` are categorical."""
        import pandas as pd

        columns: dict[str, Any] = {
            "kind": pd.Categorical.from_codes(self.kind.astype(np.int64), categories=[k.name for k in Kind]),
            "size": self.size,
            "addr": self.addr,
            "offset": self.offset,
        }
        for name in ("time_us", "thread", "requested", "stream", "line"):
            if (column := getattr(self, name)) is not None:
                columns[name] = column
        for name in ("owner", "holder", "pool", "user_metadata"):
            if (column := getattr(self, name)) is not None:
                names = list(getattr(self, f"{name}_names"))
                columns[name] = pd.Categorical.from_codes(column.astype(np.int64), categories=names)
        return pd.DataFrame(columns)


def once(make: Callable[[EventLog], T]) -> Callable[[EventLog], T]:
    """A function whose answer for a log is worked out once, and forgotten with the log."""
    known: WeakKeyDictionary[EventLog, T] = WeakKeyDictionary()

    @wraps(make)
    def of(log: EventLog) -> T:
        if log not in known:
            known[log] = make(log)
        return known[log]

    return of


class Outline(EventLog, frozen=True, eq=False):
    """A log whose events are not kept: how many there are is known, and how many stand before some places.

    Attributes:
        places: Byte offsets, rising, int64; the last one is the end of the text.
        before: How many events stand before each, int64.
        allocs: How many of them are ALLOCs, int64.
        blocks: Whether an event is of a block.
    """

    places: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    before: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    allocs: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    blocks: bool = True

    @classmethod
    def of(
        cls,
        places: NDArray[np.int64],
        before: NDArray[np.int64],
        allocs: NDArray[np.int64],
        facts: Facts,
        landmarks: Landmarks,
        *,
        blocks: bool,
    ) -> Outline:
        """Return the levels and counts at the landmarks, which must be among the places."""
        none = EventLog.from_rows(())
        columns = none.kind, none.size, none.addr, none.offset
        return cls(
            *columns,
            source=Source("<log>"),
            facts=facts,
            landmarks=landmarks,
            places=places,
            before=before,
            allocs=allocs,
            blocks=blocks,
        )

    def __len__(self) -> int:
        return int(self.before[-1])

    def events_before(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.before[self._at(offsets)]

    def allocs_before(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.allocs[self._at(offsets)]

    def _at(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.minimum(self.places.searchsorted(offsets), len(self.places) - 1)

    @property
    def tells_of_blocks(self) -> bool:
        return self.blocks


def _name_at(numbers: NDArray[Any] | None, names: Sequence[str], event: int | None) -> str | None:
    """The name that stands for an event in a column of their numbers; ``None`` for no event, no column, or an unknown one."""
    number = -1 if event is None or numbers is None else int(numbers[event])
    return names[number] if number >= 0 else None


def running_sums(
    kind: NDArray[np.int8], size: NDArray[np.int64], allocated: int = 0, reserved: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Bytes allocated and reserved right after each event, int64, starting from the two given levels."""
    block = kind <= Kind.FREE
    signed = np.where(kind & 1, -size, size)  # FREE and RELEASE are the odd kinds
    a = np.cumsum(np.where(block, signed, 0))
    a += allocated
    if block.all():
        return a, np.full(len(kind), reserved, np.int64)
    r = np.cumsum(np.where(block, 0, signed))
    r += reserved
    return a, r
