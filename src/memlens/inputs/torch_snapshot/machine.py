"""The state of the machine that reads a pickle: a window of the input, a stack with marks and a memo, all of them bounded by the bytes read."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


#: Bytes read at once.  No instruction but a long string reaches over the margin.
WINDOW = 1 << 22
_MARGIN = 1 << 16
#: Bytes after which the machine looks whether all is in proportion.
_STRIDE = 1 << 15

#: Containers, and values on the stack or in the memo, that any pickle may hold, and bytes of the file that each further one must come with.
#: The smallest dict that torch writes takes 16 bytes, a reference 2.  A hostile list takes 1 byte, and 64 in memory.
_FREE = 50_000
_BYTES_A_CONTAINER = 6
_BYTES_A_VALUE = 2
#: A real snapshot has 7 marks open at most.
_MOST_MARKS = 100
_FRAME, _FRAME_SIZE = 0x95, 9
_AS_VALUES = "Write it again with torch.cuda.memory._dump_snapshot(path), or turn such objects into numbers, texts, lists and dicts before it is pickled."
#: Objects that no plain value is, where an instruction of their own writes them.
_OWN_INSTRUCTIONS: Final = {0x8F: "a set", 0x91: "a frozenset", 0x96: "a bytearray", 0x97: "a buffer beside the file"}
#: Instructions that call or look up, and that no plain value is written with: INST, OBJ, NEWOBJ, NEWOBJ_EX, EXT1, 2 and 4, PERSID, BINPERSID.
_NOT_DATA: Final = b"io\x81\x92\x82\x83\x84PQ"
#: The types that keys have.
_TEXTS = frozenset({str})

_UINT8 = struct.Struct("<Q").unpack_from


class BadPickle(Exception):  # noqa: N818 - said in words to whoever named the file
    """A pickle that is damaged, or that is more than plain data.

    Args:
        reason: What is wrong.
        hostile: It asks for more than reading data.
        hint: What to do about it, where that is not what helps with a damaged file.
    """

    def __init__(self, reason: str, *, hostile: bool = False, hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.hostile = hostile
        self.hint = hint


def refused(code: int, where: int) -> BadPickle:
    """Why an instruction that the machine does not have, at a byte of the input, ends the reading."""
    if code in _NOT_DATA:
        from pickletools import opcodes

        return runs_code(next(known.name for known in opcodes if known.code == chr(code)), where)
    if what := _OWN_INSTRUCTIONS.get(code):
        return no_value(what, where)
    return BadPickle(f"instruction 0x{code:02x} at byte {where:,} is none that a memory snapshot has")


def runs_code(instruction: str, where: int, how: str = "") -> BadPickle:
    """That an instruction at a byte of the input calls or looks up something."""
    return BadPickle(f"it is more than data: instruction {instruction} at byte {where:,} {how}runs code", hostile=True)


def no_value(what: str, where: int) -> BadPickle:
    """That something at a byte of the input is no plain value."""
    return BadPickle(f"it holds {what}, at byte {where:,}, and only plain values are read", hint=_AS_VALUES)


class Gone:
    """Stands in the memo for an object that was not kept; nothing that torch writes refers to one."""


class Runs(Protocol):
    """Reads stretches of the input faster than instruction by instruction."""

    def seen(self, machine: Machine, value: dict[str, Any]) -> None:
        """Learn from an entry of a trace that the machine read by itself."""

    def take(self, machine: Machine, at: int) -> int:
        """Take what there is from a position of the window on, and give where it ends."""


class Machine:
    """A machine that reads a pickle: a window of the input, a stack with marks, a memo.

    Args:
        read: Gives at most so many bytes of the input, none at its end.
        runs: Reads stretches of one shape, or ``None``.

    Attributes:
        containers: How many dicts, lists and tuples were made.
        encoded: Characters of texts that were made into bytes.
        window: The bytes at hand.
        base: Where the window begins in the input.
        stack: Values made so far that no container has taken yet.
        marks: Lengths of the stack where a container's items begin.
        memo: Values by memo index.
        protocol: The pickle's protocol.
        next_frame: Where in the window the next FRAME is due.
        limit: The position in it after which to call :meth:`go_on`.
        at_end: The window holds the end of the input.
        runs: As given.
    """

    def __init__(self, read: Callable[[int], bytes], runs: Runs | None = None) -> None:
        self._read = read
        self.runs = runs
        self.at_end = False
        self.limit = -1
        self._reached = 0  # no further than here until then
        self.next_frame = 2
        self.containers = 0
        self.encoded = 0
        self.window: bytes = b""
        self.base = 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: list[Any] = []
        self.protocol = 0

    def go_on(self, pos: int) -> int:
        """See that what was made so far is in proportion, and have enough in the window; give the position that this is now."""
        self._reached = self.base + pos + _STRIDE
        self._check_amounts()
        if not self.at_end and pos > len(self.window) - _MARGIN:
            pos = self.refill(pos)
        elif pos >= len(self.window):
            raise BadPickle("it ends in the middle")
        room = len(self.window) if self.at_end else len(self.window) - _MARGIN
        self.limit = min(room, pos + _STRIDE)
        return pos

    def refill(self, pos: int, wanted: int = WINDOW) -> int:
        """Move the window on so that it begins at ``pos``, and give the position that this is now."""
        parts = [self.window[pos:]]
        missing = wanted
        while missing > 0:
            more = self._read(min(missing, WINDOW))
            if not more:
                self.at_end = True
                break
            parts.append(more)
            missing -= len(more)
        self.base += pos
        self.next_frame -= pos
        self.window = self._without_frames(b"".join(parts))
        self.limit = -1
        return 0

    def _without_frames(self, window: bytes) -> bytes:
        """Cut the FRAME instructions out: they say how the writer cut its output into pieces, each where the one before ends."""
        parts, start, at = [], 0, self.next_frame
        while 0 <= at <= len(window) - _FRAME_SIZE and window[at] == _FRAME:
            parts.append(window[start:at])
            start = at + _FRAME_SIZE
            at = start + _UINT8(window, at + 1)[0]
        if not start:
            return window
        parts.append(window[start:])
        self.next_frame = at - _FRAME_SIZE * (len(parts) - 1)
        self.base += _FRAME_SIZE * (len(parts) - 1)
        return b"".join(parts)

    def _check_amounts(self) -> None:
        """See that what was made is in proportion to the bytes read."""
        reached = self._reached
        if self.containers > _FREE + reached // _BYTES_A_CONTAINER:
            raise BadPickle("it holds far more lists and dicts than a memory snapshot of its size", hostile=True)
        if max(len(self.stack), len(self.memo)) > _FREE + reached // _BYTES_A_VALUE:
            raise BadPickle("it holds far more values than a memory snapshot of its size", hostile=True)
        if len(self.marks) > _MOST_MARKS:
            raise BadPickle("its lists and dicts are nested far too deep", hostile=True)

    def _items(self) -> tuple[list[Any], Any]:
        """Take what stands above the last mark off the stack; and what stands right below it."""
        if not self.marks:
            raise BadPickle("it is damaged: items without a container")
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        self._check_amounts()
        return items, self.stack[-1]

    def set_items(self) -> None:
        """Put the keys and values above the last mark into the dict below it."""
        items, target = self._items()
        if type(target) is not dict:
            raise BadPickle("it is damaged: keys for something that is no dict")
        keys, values = items[::2], items[1::2]
        if len(keys) > len(values):
            raise BadPickle("it is damaged: a key without a value")
        # Only texts are keys: numbers that share a hash would make a dict of them take forever.
        if not _TEXTS.issuperset(map(type, keys)):
            wrong = min(type(key).__name__ for key in keys if type(key) is not str)
            raise BadPickle(f"a dict in it has keys that are no texts but of type {wrong.lstrip('_')}")
        size = len(target)
        target.update(zip(keys, values, strict=True))
        if len(target) < size + len(keys):
            raise BadPickle("a dict in it has a key twice")
        if self.runs is not None and keys[:1] == ["action"]:
            self.runs.seen(self, target)

    def append_items(self) -> None:
        """Put the items above the last mark into the list below it."""
        items, target = self._items()
        if type(target) is not list:
            raise BadPickle("it is damaged: items for something that is no list")
        target.extend(items)

    def put(self, index: int) -> None:
        """Put the top of the stack into the memo."""
        value = self.stack[-1]
        if index == len(self.memo):
            self.memo.append(value)
        elif index < len(self.memo):
            if self.memo[index] is not Gone:
                raise BadPickle("a memo index in it is used twice", hostile=True)
            self.memo[index] = value
        elif index <= self.base + len(self.window):  # an optimised pickle has gaps, but never more indices than bytes
            self.memo.extend([Gone] * (index - len(self.memo)))
            self.memo.append(value)
        else:
            raise BadPickle(f"memo index {index:,} in it is far too large", hostile=True)

    def hold(self, pos: int, size: int) -> int:
        """Have ``size`` bytes from ``pos`` on in the window, and give the position that this is now."""
        if pos + size > len(self.window) and not self.at_end:
            pos = self.refill(pos, size - (len(self.window) - pos) + _MARGIN)
        if pos + size > len(self.window):
            raise BadPickle("it ends in the middle, or a length in it is damaged")
        return pos
