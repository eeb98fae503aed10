"""The rows of the scanner for one block of a log, by format and by line."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.facts import MAX_SIZE
from memlens.inputs.builder import Text
from memlens.inputs.paddle.lines import GROUPS, LANDMARKS
from memlens.windows.landmarks import landmarks_at, landmarks_in_block, words_are_scanned

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.inputs.blocks import Block
    from memlens.scanner.scan import Rows
    from memlens.windows.landmarks import Landmarks

    Ints = NDArray[np.int64]

__all__ = ["BlockRows"]

_LONGEST_TEXT = 4096


class BlockRows:
    """The rows of one block.

    Attributes:
        block: The block.
        found: What the scanner found in it.
        counts: How many rows each format has.
        to_input: What makes a byte offset of a position.
    """

    def __init__(self, block: Block, found: Rows) -> None:
        self.block, self.found = block, found
        self.to_input = block.offset - block.begin
        self.counts: list[int] = np.bincount(found.format, minlength=len(GROUPS)).tolist()

    def of(self, *numbers: int) -> Ints:
        """The rows of some formats, in order."""
        present = [number for number in numbers if self.counts[number]]
        if sum(self.counts[number] for number in present) == len(self.found.format):
            return np.arange(len(self.found.format))
        if not present:
            return np.empty(0, np.int64)
        order, ends = self._by_format
        parts = [order[ends[number] - self.counts[number] : ends[number]] for number in present]
        return parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))

    @cached_property
    def _by_format(self) -> tuple[Ints, list[int]]:
        """All rows by format, and where those of each format end."""
        return self.found.format.argsort(kind="stable"), np.cumsum(self.counts).tolist()

    def take(self, column: NDArray[Any], rows: Ints) -> NDArray[Any]:
        """The entries of some rows, in order."""
        return column if len(rows) == len(column) else column[rows]

    def values(self, number: int, group: str, rows: Ints | None = None) -> Ints:
        """A group of the rows of a format, or of some of them, in order."""
        found: Ints = self.take(self.found.values[:, GROUPS[number][group]], self.of(number) if rows is None else rows)
        return found

    def sound(self, number: int, size: str = "size") -> Ints:
        """The rows of a format whose size is to be believed."""
        rows = self.of(number)
        return rows[self.values(number, size, rows) <= MAX_SIZE]

    def lines_of(self, rows: Ints) -> Ints:
        """One row for each line that holds some rows, in order."""
        if not len(rows):
            return rows
        rows = np.sort(rows)
        return rows[np.unique(self.found.line[rows], return_index=True)[1]]

    def landmarks(self) -> Landmarks:
        """The lines that may mark the work of the run."""
        if not words_are_scanned():
            return landmarks_in_block(self.block.text, self.block.offset)
        rows = self.of(*LANDMARKS)
        starts, lines = self.found.line_start[rows], self.found.line[rows]
        return landmarks_at(self.block.data[: self.block.end], starts, lines, self.to_input)

    def texts(self, rows: Ints) -> tuple[Text, ...]:
        """The lines of some rows."""
        places = zip(self.found.line_start[rows].tolist(), self.found.line[rows].tolist(), strict=True)
        return tuple(Text.of(self.block, start, line, _LONGEST_TEXT) for start, line in places)
