"""Columns that grow part by part without holding every part twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray


class GrowingColumn:
    """One column that parts are appended to.

    Room is made ahead of need.  Room that is not used yet costs no memory, since the system hands out pages when they are
    first written; so making much of it is cheap, while making it anew means to copy what is there.

    Args:
        dtype: Of the entries.
    """

    def __init__(self, dtype: DTypeLike) -> None:
        self._entries = np.empty(0, dtype)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, part: NDArray[Any], done: float) -> None:
        """Append some entries.

        Args:
            part: The entries.
            done: The share of the input that they complete, 0 to 1; 0 where that is not known.
        """
        self._room(len(part), done)[:] = part

    def fill(self, value: int, count: int, done: float) -> None:
        """Append one entry some times."""
        self._room(count, done)[:] = value

    def _room(self, more: int, done: float) -> NDArray[Any]:
        before, count = self._count, self._count + more
        if count > len(self._entries):
            # What the rest will need if it is like what came so far, and some more.
            expected = int(count / done * 1.1) if done > 0 else 0
            grown = np.empty(max(expected, count + count // 2, 1 << 12), self._entries.dtype)
            grown[:before] = self._entries[:before]
            self._entries = grown
        self._count = count
        return self._entries[before:count]

    def entries(self) -> NDArray[Any]:
        """All entries, in order."""
        return self._entries[: self._count]

    def whole(self, *, tight: bool) -> NDArray[Any]:
        """All entries, where nothing is added any more; ``tight``: without the room that was made for more."""
        entries, self._entries = self.entries(), np.empty(0, self._entries.dtype)
        self._count = 0
        return entries.copy() if tight else entries

    def keep(self, rows: NDArray[np.bool_]) -> None:
        """Forget all entries but some; their memory is used again."""
        kept = self.entries()[rows]
        self._count = len(kept)
        self._entries[: self._count] = kept

    def clear(self) -> None:
        """Forget all entries; their memory is used again."""
        self._count = 0
