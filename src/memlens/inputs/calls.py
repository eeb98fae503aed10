"""What a program runs at each event of its log."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens.facts import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memlens.columns import Flags, Ints

#: Where the stack of a backward function that is written in Python begins, and that of a whole pass.
_BACKWARD = re.compile(r"\btorch/autograd/(?:function\.py:\d+ apply\Z|__init__\.py:\d+ (?:backward|grad)\b)")


class Calls(NamedTuple):
    """What runs at each event of a log.

    Attributes:
        place: The line of the program that calls, as a number, int32; -1 for none.
        backward: A backward pass runs, bool.
        outside: The program itself runs, and no operator, bool.
        told: Of a FREE at this event or behind it nothing is known.
        operator: The operator that runs, as an index of the operators, int32, -1 for none; ``None`` where that is not known.
        operators: Their names.
        alike: A number that calls of one operator at one line share, int32, where the place is that of a single call.
    """

    place: NDArray[np.int32]
    backward: Flags
    outside: Flags
    told: int = 1 << 62
    operator: NDArray[np.int32] | None = None
    operators: Sequence[str] = ()
    alike: NDArray[np.int32] | None = None

    def operator_of(self, events: Ints) -> tuple[Ints, Sequence[str]]:
        """The operators that run at some events, and what their numbers mean; -1 where none does or that is not known."""
        numbers = np.full(len(events), -1) if self.operator is None else self.operator[events].astype(np.int64)
        return numbers, self.operators


def calls_of_stacks(owner: NDArray[np.int32] | None, names: Sequence[str], kind: NDArray[np.int8]) -> Calls | None:
    """What runs where the owners are call stacks: threads of backward passes have none of Python, or one that begins with a function of autograd's.

    Args:
        owner: The owner of each event, int32, -1 for no stack; ``None`` where no event has one.
        names: The owners.
        kind: The kinds of the events, int8; stacks of FREEs may not be recorded at all, or not to the end.
    """
    if owner is None:
        return None
    backward = np.array([*(_BACKWARD.search(name) is not None for name in names), True])[owner]
    freed = np.flatnonzero((owner >= 0) & (kind == Kind.FREE))
    return Calls(owner, backward, ~backward, int(freed[-1]) + 1 if len(freed) else 0)
