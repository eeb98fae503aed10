"""Helpers for tests that read log text: decode a text as one block, unpack a log, damage a log."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import numpy as np
import zstandard

from memlens.inputs.blocks import PAD
from memlens.inputs.paddle.decode import Decoded, decode
from memlens.inputs.paddle.headers import HeaderReader
from memlens.inputs.paddle.layers import Layer

__all__ = ["decode_text", "mutate", "read_packed"]


def decode_text(
    text: bytes, headers: HeaderReader | None = None, offset: int = 0, layer: Layer | None = Layer.AUTO_GROWTH
) -> Decoded:
    """Decode a text as one block: the auto-growth layer alone, unless told otherwise."""
    block = np.full(len(text) + 2 * PAD, 0x0A, np.uint8)
    block[PAD : PAD + len(text)] = np.frombuffer(text, np.uint8)
    return decode(block, PAD, PAD + len(text), offset, headers or HeaderReader(), times=True, layer=layer)


def read_packed(path: Path) -> bytes:
    """The text of a log, packed or not."""
    packed = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(packed)
    if path.suffix == ".zst":
        with zstandard.ZstdDecompressor().stream_reader(packed) as reader:
            return reader.read()
    return packed


def mutate(text: bytes, chance: random.Random) -> bytes:
    """Flip, cut, join, double and swap: what storage, copying and several writers do to a log."""
    lines = text.split(b"\n")
    for _ in range(chance.randint(1, 40)):
        at = chance.randrange(len(lines))
        line = lines[at]
        what = chance.randrange(6)
        if what == 0 and line:
            k = chance.randrange(len(line))
            lines[at] = line[:k] + bytes([chance.randrange(256)]) + line[k + 1 :]
        elif what == 1:
            lines[at] = line[: chance.randrange(len(line) + 1)]
        elif what == 2 and at + 1 < len(lines):
            lines[at : at + 2] = [line + lines[at + 1]]
        elif what == 3:
            lines.insert(at, line)
        elif what == 4:
            other = chance.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        elif line:
            k = chance.randrange(len(line))
            lines[at] = line[:k] + lines[chance.randrange(len(lines))][k:]
    return b"\n".join(lines)
