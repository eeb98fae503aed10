"""Tables of scanners that were made beforehand and stand in a file.

To make those of a framework's formats takes a quarter of the time that a small log takes; to read them takes a hundredth.  A test holds the
file and the formats equal.
"""

from __future__ import annotations

import zlib
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Raw, Struct, msgpack

from memlens.scanner.expressions import Group  # noqa: TC001 - the fields of a Struct are of it

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memlens.scanner.formats import LineFormat
    from memlens.scanner.plain import Scan


class Prepared(Struct, frozen=True, array_like=True):
    """The groups and tables of one scanner.

    Attributes:
        groups: Of each scan the groups in the order of the value columns.
        modes: How each format is looked for (:class:`~memlens.scanner.tables.Mode`).
        tables: The tables of the compiled scanner; empty where it cannot be used.
    """

    groups: tuple[tuple[Group, ...], ...]
    modes: tuple[int, ...]
    tables: bytes


def checksum(scans: Sequence[Scan], header: LineFormat | None, header_values: Sequence[str]) -> int:
    """A number that tells what is looked for from anything else that a file may have been made for."""
    looked_for = [(scan.format.literal, scan.format.regex, *scan[1:-1], sorted(scan.texts)) for scan in scans]
    return zlib.crc32(repr((looked_for, header and header.regex, tuple(header_values))).encode())


def load(path: str, number: int) -> Prepared | None:
    """The scanner of a checksum, from a file; ``None`` where it has none."""
    raw = _load(path).get(number)
    return None if raw is None else msgpack.decode(raw, type=Prepared)


@cache
def _load(path: str) -> dict[int, Raw]:
    try:
        with open(path, "rb") as file:
            return msgpack.decode(zlib.decompress(file.read()), type=dict[int, Raw])
    except OSError:
        return {}


def packed(scanners: Mapping[int, Prepared]) -> bytes:
    """The content of a file."""
    return zlib.compress(msgpack.encode(scanners), 9)
