"""One scanner for every input: blocks of text in, rows of numbers out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memlens.scanner.expressions import Conversion, Group
from memlens.scanner.plain import Header, PlainScanner, Rows, Scan

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memlens.scanner.formats import LineFormat

__all__ = ["Conversion", "Group", "Rows", "Scan", "Scanner"]


class Scanner:
    r"""Finds all matches of some formats in text.

    What it finds is what ``re`` finds: of every line (lines end at ``\n``, a ``\r`` is part of its line) that holds the literal of a
    format all matches of its expression, left to right, not overlapping within one format.  Formats do not hide each other, but
    for :attr:`Scan.covers`.  Threads may share a scanner.

    Args:
        scans: What to look for.
        header: What may stand right before a match.  It must end where the match starts; it is looked for in the 400 bytes of the line
            before, colours taken out.
        header_values: The groups wanted of the header, in the order of the columns; numbers, no text.

    Attributes:
        groups: Of each scan the groups in the order of the value columns.

    Raises:
        ValueError: A format may match the empty text, or has no group of a name wanted.
    """

    def __init__(
        self,
        scans: Sequence[Scan | LineFormat],
        *,
        header: LineFormat | None = None,
        header_values: Sequence[str] = (),
    ) -> None:
        self._scans = tuple(scan if isinstance(scan, Scan) else Scan(scan) for scan in scans)
        self._header = None if header is None else Header(header, header_values)
        self.groups: tuple[tuple[Group, ...], ...] = tuple(scan.groups() for scan in self._scans)
        self._plain = PlainScanner(self._scans, self._header)

    def scan(self, block: NDArray[np.uint8], begin: int, end: int) -> Rows:
        """All rows of ``block[begin:end]``, which is whole lines; the last one may lack its line end."""
        return self._plain.scan(block, begin, end)

    def last_header(self, block: NDArray[np.uint8], begin: int, end: int) -> NDArray[np.int64] | None:
        """The values of the last header that ends in ``block[begin:end]``, trailing blanks not counted."""
        return self._plain.last_header(block, begin, end)
