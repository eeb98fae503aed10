"""The proof of a model: a run replayed under its own settings does what was recorded, chunk by chunk and block by block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec import Struct

from memlens.allocators.engine import replay
from memlens.allocators.history import ChunkChange, ChunkChanges, Operation
from memlens.allocators.placing import Addresses, Placement
from memlens.units import format_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.allocators.history import RequestHistory
    from memlens.allocators.rules import AllocatorRules


class Matched(NamedTuple):
    """How many of how many came out as recorded."""

    matched: int
    of: int


class Mismatch(Struct, frozen=True):
    """The first thing that came out otherwise.

    Attributes:
        operation: The operation during which it happened, -1 for the opening.
        line: How that operation is named to people: the byte offset of its line or entry, -1 where it has none.
        expected: What was recorded, in words.
        got: What the model did, in words.
    """

    operation: int
    line: int
    expected: str
    got: str


class Proof(Struct, frozen=True):
    """A replay of a run under its own settings, compared with its record, new chunks put where they were recorded.

    Attributes:
        chunks: Chunks taken and pages mapped, with their moments, sizes and addresses.
        given_back: Chunks given back and pages unmapped, likewise.
        addresses: Requests whose address is known, and whose block lay there.
        failures: Requests that got nothing, and should not have.
        operations: How many operations were replayed, of all.
        mismatch: The first thing that came out otherwise; ``None`` where nothing did.
    """

    chunks: Matched
    given_back: Matched
    addresses: Matched
    failures: Matched
    operations: Matched
    mismatch: Mismatch | None

    @property
    def exact(self) -> bool:
        """Whether all came out as recorded."""
        return self.mismatch is None


def prove(history: RequestHistory, rules: AllocatorRules) -> Proof:
    """Replay a run under the settings it had, and compare what happens with what was recorded.

    Raises:
        UsageError: As :func:`memlens.allocators.engine.replay`.
    """
    got = replay(history, rules, addresses=Addresses(Placement.RECORDED), limit=history.limit_bytes, trace=True)
    assert got.changes is not None
    assert got.address is not None
    recorded, made = history.changes, got.changes
    taking = _compared(recorded, made, (ChunkChange.TAKEN, ChunkChange.MAPPED))
    giving = _compared(recorded, made, (ChunkChange.GIVEN_BACK, ChunkChange.UNMAPPED))

    requests = history.operation == Operation.REQUEST
    failed = np.zeros(len(history), np.bool_)
    failed[history.failed] = True
    known = requests & (history.address != 0)
    # What never came to pass, because the replay ended before, has address 0.
    same = known & (got.address == history.address)
    refused = requests & (got.address == 0)
    refused[got.operations :] = False
    wrongly = refused != failed
    wrongly[got.operations :] = failed[got.operations :]

    candidates = [pair for pair in (taking[1], giving[1]) if pair is not None]
    moved = np.flatnonzero(known & ~same & ~refused & (np.arange(len(history)) < got.operations))
    if len(moved):
        at = int(moved[0])
        candidates.append((at, f"its block at {int(history.address[at]):#x}", f"one at {int(got.address[at]):#x}"))
    if wrongly.any():
        at = int(wrongly.argmax())
        words = f"no block for the request of {format_bytes(int(history.size[at]))}", "a block for it"
        candidates.append((at, *(words if failed[at] else words[::-1])))
    mismatch = None
    if candidates:
        at, expected, found = min(candidates, key=lambda each: each[0])
        mismatch = Mismatch(at, int(history.line[at]) if at >= 0 else -1, expected, found)
    return Proof(
        taking[0],
        giving[0],
        Matched(int(same.sum()), int(known.sum())),
        Matched(int((refused & failed).sum()), len(history.failed)),
        Matched(got.operations, len(history)),
        mismatch,
    )


def _compared(
    recorded: ChunkChanges, made: ChunkChanges, kinds: tuple[ChunkChange, ChunkChange]
) -> tuple[Matched, tuple[int, str, str] | None]:
    """How many changes of these kinds are the same, one by one in their order, and the first one that is not."""
    rows = [
        [column[(changes.kind == kinds[0]) | (changes.kind == kinds[1])] for column in changes]
        for changes in (recorded, made)
    ]
    first, second = ([column[: min(len(rows[0][0]), len(rows[1][0]))] for column in side] for side in rows)
    same = np.ones(len(first[0]), np.bool_)
    for name, one, other in zip(ChunkChanges._fields, first, second, strict=True):
        same &= (one == other) | ((one == 0) & (name == "addr"))  # not every log says where
    matched = Matched(int(same.sum()), len(rows[0][0]))
    if same.all() and len(rows[0][0]) == len(rows[1][0]):
        return matched, None
    at = int(same.argmin()) if not same.all() else len(same)
    moments = [int(side[0][at]) for side in rows if at < len(side[0])]
    recorded_as, made_as = (_in_words(side, at) for side in rows)
    if recorded_as == made_as:
        made_as = "the same later" if moments[1] > moments[0] else "the same earlier"
    return matched, (min(moments), recorded_as, made_as)


def _in_words(side: list[NDArray[Any]], at: int) -> str:
    if at >= len(side[0]):
        return "nothing"
    kind, addr, size = (int(column[at]) for column in side[1:])
    done = ("taken", "given back", "mapped", "unmapped")[kind]
    return f"{format_bytes(size)} {done} at {addr:#x}"
