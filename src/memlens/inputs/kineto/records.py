"""What is known of a Kineto trace's events once they are read, as columns; and what makes a number of theirs believable."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.inputs.paddle.events import MAX_SIZE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Positions = NDArray[np.int64]

__all__ = [
    "ARGS",
    "CATEGORIES",
    "INSTANT",
    "MEMORY",
    "MOST_THREAD",
    "MOST_TOTAL",
    "NO_TEXT",
    "OUT_OF_MEMORY",
    "STACK",
    "UNKNOWN",
    "Changes",
    "Failure",
    "Names",
    "SpanKind",
    "Spans",
    "is_change",
    "is_device",
]

#: Stands for a number that an event does not have.
UNKNOWN = np.iinfo(np.int64).min
#: Stands for the number of a text that is none.
NO_TEXT = -2

#: What ``[memory]`` events say of themselves, in the order of the arguments of :func:`is_change`.
ARGS = ("Device Type", "Device Id", "Bytes", "Addr", "Total Allocated", "Total Reserved")
#: What operators say of their call stack, until 2022.
STACK = "Call stack"
MEMORY, OUT_OF_MEMORY = "[memory]", "[OutOfMemory]"
#: The phases of an event without a duration.
INSTANT = ("i", "I")
#: No process and no thread has a larger number.
MOST_THREAD = 10**15
#: No device has more bytes.
MOST_TOTAL = 1 << 60
#: Characters of a name that are kept.
_LONGEST_NAME = 4096


class SpanKind(IntEnum):
    """What an interval of a trace is."""

    OP = 0
    FRAME = 1
    ANNOTATION = 2


#: The categories of intervals that are read.  2021 called operators ``Operator``.
CATEGORIES = {
    "cpu_op": SpanKind.OP,
    "Operator": SpanKind.OP,
    "python_function": SpanKind.FRAME,
    "user_annotation": SpanKind.ANNOTATION,
}


@dataclass(frozen=True)
class Changes:
    """``[memory]`` events of one part of a trace, int64, one entry an event; :data:`UNKNOWN` where an event does not say.

    Attributes:
        place: Byte offset of the event in the input.
        time: Nanoseconds on the trace's own clock.
        pid: Process.
        tid: Thread.
        kind: The device's type, PyTorch's number for it: 0 is the CPU, 1 CUDA.
        device: The device's number, -1 for the CPU.
        size: Bytes; negative for memory given back.
        addr: Address, as the bits of an uint64.
        has_addr: It has an address, 0 or 1.
        allocated: Bytes allocated on the device after the event.
        reserved: Bytes reserved.
    """

    place: Positions
    time: NDArray[np.int64]
    pid: NDArray[np.int64]
    tid: NDArray[np.int64]
    kind: NDArray[np.int64]
    device: NDArray[np.int64]
    size: NDArray[np.int64]
    addr: NDArray[np.int64]
    has_addr: NDArray[np.int64]
    allocated: NDArray[np.int64]
    reserved: NDArray[np.int64]


@dataclass(frozen=True)
class Spans:
    """Intervals of one part of a trace, int64, one entry an interval.

    Attributes:
        place: Byte offset in the input.
        kind: :class:`SpanKind`.
        start: Nanoseconds on the trace's own clock.
        end: The same; of an annotation its start.
        pid: Process.
        tid: Thread.
        name: Its number among :class:`Names`.
        stack: The number of its call stack, -1 for none.
    """

    place: Positions
    kind: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    pid: NDArray[np.int64]
    tid: NDArray[np.int64]
    name: NDArray[np.int64]
    stack: NDArray[np.int64]


@dataclass(frozen=True)
class Failure:
    """An ``[OutOfMemory]`` event: where, when, on which device, and the bytes asked for."""

    place: int
    time: int
    kind: int
    device: int
    size: int | None


@dataclass
class Names:
    """Texts as numbers."""

    texts: list[str] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)
    _spelled: dict[bytes, int] = field(default_factory=dict)

    def number(self, text: str) -> int:
        """The number of a text, as far as anybody would read it; what is no character becomes a question mark."""
        text = text[:_LONGEST_NAME].encode("utf-8", "replace").decode()
        found = self._numbers.setdefault(text, len(self.texts))
        if found == len(self.texts):
            self.texts.append(text)
        return found

    def numbers(self, raw: bytes, begin: Positions, end: Positions) -> NDArray[np.int64]:
        """The numbers of texts given by what stands between their quotes, escapes and all.

        Args:
            raw: The text of a block.
            begin: Where each text begins in it, int64.
            end: Where it ends.

        Returns:
            int64; :data:`NO_TEXT` where an escape is none.
        """
        # A slice and a look-up for each is what the interpreter does fastest, and far less than their place in the file costs.
        spelled = [raw[a:b] for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
        for text in dict.fromkeys(spelled):
            if text not in self._spelled:
                self._spelled[text] = self._decode(text)
        return np.array([self._spelled[text] for text in spelled], np.int64)

    def _decode(self, spelled: bytes) -> int:
        text = spelled.decode("utf-8", "replace")
        if "\\" in text:
            try:
                text = json.loads(f'"{text}"', strict=False)
            except ValueError:
                return NO_TEXT
        return self.number(text)


def is_change(kind: Any, device: Any, size: Any, addr: Any, allocated: Any, reserved: Any) -> Any:
    """Whether numbers, or arrays of them, can be those of a change of memory."""
    fine = is_device(kind, device) & (size != 0) & (abs(size) <= MAX_SIZE) & (size != UNKNOWN)
    fine &= (addr == UNKNOWN) | (addr >= 0)
    for total in (allocated, reserved):
        fine &= (total == UNKNOWN) | (abs(total) <= MOST_TOTAL)
    return fine


def is_device(kind: Any, device: Any) -> Any:
    """The same for the type and the number of a device."""
    return (kind >= 0) & (kind < 1 << 8) & (device >= -1) & (device < 1 << 15)
