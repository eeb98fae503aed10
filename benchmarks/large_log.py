#!/usr/bin/env python3
"""Write a log of any size, made of a real piece of a Paddle log again and again, and print what arithmetic says that it holds.

A repetition is a line ``START STEP_k``, the piece, and FREEs of what the piece left live.  Repetitions take turns at a few ranges of addresses, whose
chunks are reserved in the first turn and kept; times go on from one to the next.  Wanted besides: a block leaked by each repetition, and one
repetition that is higher than the others.  What is printed, as JSON, comes from one walk over the lines of the piece and from the number of
repetitions: memlens has no part in it.  The same arguments give the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import zstandard

from memlens.text import parse_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

EVENT = re.compile(rb"(Alloc|Free) ([0-9]+) bytes, ptr = 0x([0-9a-f]+)")
RESERVE = re.compile(rb"Not found and reallocate ([0-9]+)\(0x([0-9a-f]+)\), and remaining ([0-9]+)")
HEADER = re.compile(rb"[IWEF](?:[0-9]{4})?(?P<second>[0-9]{4} [0-9:]{8})\.[0-9]{6} +[0-9]+ ")
#: What is overwritten in each repetition: the seconds of a header, and addresses.
MOVED = re.compile(rb"(?m)(?:^[IWEF](?:[0-9]{4})?([0-9]{4} [0-9:]{8})\.)|0x([0-9a-f]+)")
#: Lines of a program about itself, which would not be true of the log that is made: its anchors and its figures.
WITHOUT = r"\b(?:START|END|STEP|EPOCH|MEMSTAT|MODEL READY)\b|current value"
#: Addresses have so many digits; LEAKED and the ones after it, and EXTRA, belong to no repetition.
DIGITS, LEAKED, EXTRA = 12, 0x8000_0000_0000, 0xF000_0000_0000
#: What lies further apart than this in the piece is moved together.
GAP = 1 << 20
DAY = datetime(2025, 1, 1, tzinfo=UTC)


@dataclass
class Walk:
    """What a walk over the lines of a piece has seen: counts, bytes, its level and where that was highest, what is live.

    Attributes:
        kinds: For ``Alloc`` and ``Free`` the events and their bytes.
        live: Bytes of each block that is live, by address.
        extents: First address and bytes of all blocks and chunks.
    """

    kinds: dict[str, tuple[int, int]] = field(default_factory=lambda: {"Alloc": (0, 0), "Free": (0, 0)})
    level: int = 0
    peak: int = 0
    peak_line: int = -1
    chunks: int = 0
    reserved: int = 0
    live: dict[int, int] = field(default_factory=dict)
    extents: list[tuple[int, int]] = field(default_factory=list)

    def see(self, index: int, line: bytes) -> None:
        """Take in a line of the piece."""
        if chunk := RESERVE.search(line):
            self.chunks += 1
            self.reserved += int(chunk[1])
            self.extents.append((int(chunk[2], 16), int(chunk[1])))
        elif event := EVENT.search(line):
            kind, size, address = event[1].decode(), int(event[2]), int(event[3], 16)
            events, total = self.kinds[kind]
            self.kinds[kind] = events + 1, total + size
            self.extents.append((address, size))
            if kind == "Alloc":
                self.level += size
                self.live[address] = size
            else:
                self.level -= size
                self.live.pop(address, None)
            if self.level > self.peak:
                self.peak, self.peak_line = self.level, index


def moved_together(extents: list[tuple[int, int]]) -> tuple[dict[int, int], int]:
    """New addresses of blocks and chunks, from 0 on, with what lies close together kept so; and where the last one ends."""
    places: dict[int, int] = {}
    old_end, shift, new_end = -GAP, 0, -GAP
    for address, size in sorted(extents):
        if address - old_end > GAP or not places:
            base = new_end + GAP & ~0xFFF
            shift = base + (address & 0xFFF) - address
        places[address] = address + shift
        old_end = max(old_end, address + size)
        new_end = max(new_end, address + size + shift)
    return places, max(new_end, 1)


class Template:
    """The text of a repetition, made once and overwritten in place: high digits of addresses, seconds of times, the leaked block."""

    def __init__(self, lines: list[bytes], places: dict[int, int], high: int) -> None:
        text, made, done = b"".join(lines), bytearray(), 0
        addresses: list[int] = []
        leaked: list[int] = []
        seconds: dict[bytes, list[int]] = {}
        for match in MOVED.finditer(text):
            made += text[done : match.start()]
            done = match.end()
            at = len(made)
            made += match[0]
            if match[1]:
                seconds.setdefault(match[1], []).append(at + match.start(1) - match.start())
                continue
            address = int(match[2], 16)
            if address == LEAKED:
                leaked.append(at + 2)
            elif address in places:
                made[at:] = b"0x%0*x" % (DIGITS, places[address])
                addresses.append(at + 2)
        self.text = made + text[done:]
        self.lines = len(lines)
        self._addresses = self._fields(high), np.array(addresses, np.int64)
        self._leaked = self._fields(DIGITS), np.array(leaked, np.int64)
        self._seconds = self._fields(13)
        self._stamps = [(moment(second), np.array(at, np.int64)) for second, at in seconds.items()]

    def _fields(self, width: int) -> NDArray[Any]:
        """Each place of the text as a field of so many bytes, so that many can be written at once."""
        return np.ndarray((len(self.text) - width + 1,), f"V{width}", self.text, strides=(1,))

    def filled(self, high: bytes, leaked: int, shift: timedelta) -> bytearray:
        """The text with these digits and times, valid until the next call."""
        fields, at = self._addresses
        fields[at] = np.void(high)
        fields, at = self._leaked
        fields[at] = np.void(b"%0*x" % (DIGITS, leaked))
        for second, at in self._stamps:
            self._seconds[at] = np.void(f"{second + shift:%m%d %H:%M:%S}".encode())
        return self.text


def moment(second: bytes) -> datetime:
    """What ``mmdd hh:mm:ss`` says, in the year of DAY."""
    return datetime.strptime(f"{DAY.year}{second.decode()} +0000", "%Y%m%d %H:%M:%S %z")


class LargeLog:
    """A piece of a log, repeated.

    Args:
        piece: Lines of a Paddle log that keeps its chunks (no ``Free chunk``), decompressed.
        leak: Bytes that each repetition allocates at its end and nobody frees.
        higher: A repetition, and the bytes by which it is higher than the piece at the piece's peak.
        anchor: What a repetition's first line says, with ``{}`` for its number, from 0 on.
        ranges: How many ranges of addresses take turns.
        without: Lines of the piece that are left out.

    Raises:
        ValueError: The piece gives chunks back, has no events, or its addresses are too many.
    """

    def __init__(
        self,
        piece: bytes,
        *,
        leak: int = 0,
        higher: tuple[int, int] | None = None,
        anchor: str = "START STEP_{}",
        ranges: int = 4,
        without: str = WITHOUT,
    ) -> None:
        self.leak, self.higher, self.anchor, self.ranges = leak, higher, anchor, ranges
        unwanted = re.compile(without.encode())
        self.piece = [line + b"\n" for line in piece.splitlines() if not unwanted.search(line)]
        self.walk = Walk()
        for index, line in enumerate(self.piece):
            self.walk.see(index, line)
        if self.walk.peak_line < 0 or b"Free chunk with size" in piece:
            raise ValueError("a piece must have events, and keep its chunks")
        headers = [header for line in self.piece if (header := HEADER.match(line))]
        self._head = headers[-1][0] + b"auto_growth_best_fit_allocator.cc:1] " if headers else b""
        for address, size in list(self.walk.live.items()):
            self.piece.append(self._line(f"Free {size} bytes, ptr = {address:#x}"))
            self.walk.see(len(self.piece) - 1, self.piece[-1])
        self._places, extent = moved_together(self.walk.extents)
        low = len(f"{extent:x}")
        if low > DIGITS - 2:
            raise ValueError("the addresses of the piece lie too far apart, or its blocks are too large")
        self._high = DIGITS - low
        moments = [moment(header["second"]) for header in headers] or [DAY]
        self._begin, self._lasts = min(moments), max(moments) - min(moments) + timedelta(seconds=1)
        self._templates: dict[tuple[bool, bool], Template] = {}

    def _line(self, text: str) -> bytes:
        return self._head + text.encode() + b"\n"

    def _template(self, repetition: int) -> Template:
        key = repetition < self.ranges, self.higher is not None and repetition == self.higher[0]
        if key not in self._templates:
            lines = list(self.piece)
            if not key[0]:  # its chunks are there
                lines = [RESERVE.sub(served, line) for line in lines]
            if key[1]:
                assert self.higher
                lines[self.walk.peak_line + 1 : self.walk.peak_line + 1] = [
                    *self._taken(self.higher[1], EXTRA),
                    self._line(f"Free {self.higher[1]} bytes, ptr = {EXTRA:#x}"),
                ]
            if self.leak:
                lines += self._taken(self.leak, LEAKED)
            self._templates[key] = Template(lines, self._places, self._high)
        return self._templates[key]

    def _taken(self, size: int, address: int) -> list[bytes]:
        """A block with a chunk of its own."""
        return [
            self._line(f"Not found and reallocate {size}({address:#x}), and remaining 0"),
            self._line(f"Alloc {size} bytes, ptr = {address:#x}"),
        ]

    def _anchor(self, repetition: int) -> bytes:
        return self.anchor.format(repetition).encode() + b"\n"

    def length(self, repetition: int) -> int:
        """Bytes of a repetition."""
        return len(self._anchor(repetition)) + len(self._template(repetition).text)

    def repetitions(self, size: int) -> int:
        """How many repetitions a log of at most so many bytes has, and one at least."""
        count = total = 0
        while not count or total + self.length(count) <= size:
            total += self.length(count)
            count += 1
        return count

    def write(self, file: IO[bytes], repetitions: int) -> None:
        """Write so many of them."""
        shift = DAY - self._begin
        for k in range(repetitions):
            high = b"%0*x" % (self._high, 16 ** (self._high - 1) + k % self.ranges)
            file.write(self._anchor(k))
            file.write(self._template(k).filled(high, LEAKED + k * (self.leak + 0xFF & ~0xFF), shift + k * self._lasts))

    def holds(self, repetitions: int) -> dict[str, Any]:
        """What so many of them hold, by arithmetic: bytes end in ``_bytes``, lines are counted from 1, repetitions from 0."""
        walk, n = self.walk, repetitions
        leaks = n if self.leak else 0
        extra_at, extra = self.higher if self.higher and self.higher[0] < n else (-1, 0)
        (allocs, alloc_bytes), (frees, free_bytes) = walk.kinds["Alloc"], walk.kinds["Free"]
        gained = walk.level + self.leak  # by each of them
        peak, peak_at = max(
            ((k * gained + max(walk.peak + extra * (k == extra_at), gained), k) for k in {0, max(extra_at, 0), n - 1}),
            key=lambda each: (each[0], -each[1]),
        )
        first_turn = min(n, self.ranges)
        lines = 1 + self._template(0).lines - 3 * (extra_at == 0)
        before = peak_at * lines + 3 * (0 <= extra_at < peak_at)
        at_leak = peak == (peak_at + 1) * gained and gained > walk.peak + extra * (peak_at == extra_at)
        peak_line = lines - 1 if at_leak else walk.peak_line + 2 * (peak_at == extra_at)
        return {
            "repetitions": n,
            "windows": n,
            "bytes": sum(self.length(k) for k in range(n)),
            "lines": n * lines + 3 * (extra_at >= 0),
            "allocs": n * allocs + leaks + (extra_at >= 0),
            "frees": n * frees + (extra_at >= 0),
            "reserves": first_turn * walk.chunks + leaks + (extra_at >= 0),
            "releases": 0,
            "alloc_bytes": n * (alloc_bytes + self.leak) + extra,
            "free_bytes": n * free_bytes + extra,
            "peak_bytes": peak,
            "peak_repetition": peak_at,
            "peak_line": before + peak_line + 2 - at_leak,
            "reserved_peak_bytes": first_turn * walk.reserved + n * self.leak + extra,
            "live_bytes": n * gained,
            "remaining_bytes_per_repetition": gained,
        }


def served(chunk: re.Match[bytes]) -> bytes:
    """What the allocator says where it finds a chunk instead of reserving one."""
    size, rest = int(chunk[1]), int(chunk[3])
    return f"Allocate {size - rest} bytes from chunk size {size}, remaining {rest}".encode()


def contents(path: Path) -> bytes:
    """The bytes of a log, decompressed."""
    packed = path.read_bytes()
    if path.suffix == ".zst":
        return zstandard.ZstdDecompressor().decompressobj().decompress(packed)
    return gzip.decompress(packed) if path.suffix == ".gz" else packed


def main() -> int:
    """Write a log and print what it holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("piece", type=Path, help="a Paddle log; .gz and .zst are decompressed")
    parser.add_argument(
        "out", help="the log to write, compressed where it ends in .zst; - is stdout, with the JSON on stderr"
    )
    parser.add_argument(
        "--size", type=parse_bytes, default=1 << 30, help="bytes at most, uncompressed, such as 20GB (1GiB)"
    )
    parser.add_argument("--repetitions", type=int, help="so many instead")
    parser.add_argument("--leak", type=parse_bytes, default=0, help="bytes that each repetition leaks (none)")
    parser.add_argument("--higher-at", type=int, help="a repetition that is higher than the others")
    parser.add_argument("--higher-by", type=parse_bytes, default=1 << 20, help="by so many bytes (1MiB)")
    parser.add_argument("--anchor", default="START STEP_{}", help="the first line of a repetition (%(default)s)")
    parser.add_argument("--ranges", type=int, default=4, help="ranges of addresses that take turns (%(default)s)")
    parser.add_argument("--without", default=WITHOUT, help="a regular expression: lines of the piece to leave out")
    given = parser.parse_args()
    higher = None if given.higher_at is None else (given.higher_at, given.higher_by)
    log = LargeLog(
        contents(given.piece),
        leak=given.leak,
        higher=higher,
        anchor=given.anchor,
        ranges=given.ranges,
        without=given.without,
    )
    repetitions = given.repetitions or log.repetitions(given.size)
    with ExitStack() as stack:
        file: Any = sys.stdout.buffer if given.out == "-" else stack.enter_context(Path(given.out).open("wb"))
        if given.out.endswith(".zst"):
            file = stack.enter_context(zstandard.ZstdCompressor(threads=-1).stream_writer(file))
        log.write(file, repetitions)
    print(json.dumps(log.holds(repetitions), indent=1), file=sys.stderr if given.out == "-" else sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
