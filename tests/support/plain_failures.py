"""Out-of-memory messages read line by line by their regular expressions, and put together one by one: the reference for what works on columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from memlens.facts import Kind, OutOfMemory
from memlens.inputs.blocks import PAD, Block
from memlens.inputs.paddle.block import BlockReader
from memlens.inputs.paddle.message_formats import OUT_OF_MEMORY
from memlens.log import Log


def read_messages(text: bytes) -> tuple[list[OutOfMemory], list[str]]:
    """The messages of a text as one block has them, without their own text; and the texts of the first of them."""
    ends = np.full(PAD, 10, np.uint8)
    data = np.concatenate((ends, np.frombuffer(text, np.uint8), ends))
    found = BlockReader([], [], (), None).read(Block(data, PAD, PAD + len(text), 0)).ooms
    if found is None:
        return [], []
    lines, devices, first = found
    return [lines.message(k, devices) for k in range(len(lines))], [oom.text for oom in first]


def plain_messages(text: bytes) -> Iterator[OutOfMemory]:
    """The same, line by line; lines count from 0."""
    offset = 0
    for number, line in enumerate(text.split(b"\n")):
        match = next(filter(None, (form.search(line) for form in OUT_OF_MEMORY)), None)
        if match is not None:
            found = {name: text.decode() for name, text in match.groupdict().items() if text is not None}
            size = {name: bytes_of(text) for name, text in found.items() if name not in ("device", "code")}
            total = size.get("total", size.get("limit"))
            if total is None and size.get("used") is not None and size.get("free") is not None:
                total = size["used"] + size["free"]  # type: ignore[operator]
            device, asked, free = found.get("device", ""), size.get("requested"), size.get("free")
            yield OutOfMemory(offset, number, device, asked, free, "", total, limit_bytes=size.get("limit"))
        offset += len(line) + 1


def bytes_of(text: str) -> int | None:
    """The nearest whole number of bytes of ``98.000244MB``, the even one of two; ``None`` for more than any 64-bit number holds."""
    found = re.fullmatch(r"([\d.]+) ?([kKMGTP]?)B?", text)
    assert found is not None
    size = round(Fraction(found[1]) * 1024 ** " KMGTP".index(found[2].upper() or " "))
    return size if size < 1 << 62 else None


def plain_failures(log: Log, messages: Sequence[OutOfMemory]) -> list[tuple[int, str, int | None]]:
    """The place, the device and the size of each failure that some messages in file order tell of."""
    found: list[tuple[int, str, int | None]] = []
    before = -1
    for oom in messages:
        allocs = sum(
            int(kind) == Kind.ALLOC and int(place) < oom.offset
            for kind, place in zip(log.kind, log.offset, strict=True)
        )
        if found and allocs == before:
            place, device, size = found[-1]
            same_size = None in (size, oom.requested_bytes) or abs((size or 0) - (oom.requested_bytes or 0)) <= 1024
            if same_size and (not device or not oom.device or device == oom.device):
                found[-1] = place, device or oom.device, oom.requested_bytes if size is None else size
                continue
        found.append((oom.offset, oom.device, oom.requested_bytes))
        before = allocs
    return found
