"""Reads a pickle without trusting it: plain values only, in bounded memory, running nothing.

A pickle is a program for a small stack machine, and some of its instructions import modules and call functions.  This machine
knows none of those: it makes dicts, lists, tuples, strings, numbers, booleans and None, reads the few calls that mean such a value by hand
(:mod:`memlens.inputs.torch_snapshot.instructions`), and refuses everything else before it has any effect.  Python's own unpickler, even with its hooks forbidden, asks for whatever memory a length or a memo index in the file names; here a length
counts for nothing until the bytes are there, and the number of containers is bounded by the bytes read.

The input is read in windows, so a file of gigabytes needs memory for what is made of it only.  Where the input repeats one shape again and
again, :class:`~memlens.inputs.torch_snapshot.entry_runs.EntryRuns` may take over.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.inputs.torch_snapshot.instructions import INSTRUCTIONS, BadPickle, refused
from memlens.scanner.scan import no_collection

if TYPE_CHECKING:
    from memlens.inputs.torch_snapshot.entry_runs import EntryRuns

__all__ = ["Gone", "Machine", "load"]

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
_LOWEST, _HIGHEST = 2, 5
_FRAME, _FRAME_SIZE = 0x95, 9
#: The types that keys have.
_TEXTS = frozenset({str})
#: References in a row that are read together, at most.
_GETS = 256

_INT4 = struct.Struct("<i").unpack_from
_UINT4 = struct.Struct("<I").unpack_from
_UINT8 = struct.Struct("<Q").unpack_from


class Gone:
    """Stands in the memo for an object that was not kept; nothing that torch writes refers to one."""


class Machine:
    """The machine: a window of the input, a stack with marks, a memo.

    Args:
        read: Gives at most so many bytes of the input, none at its end.
        runs: What reads stretches of the input faster than instruction by instruction, or ``None``.

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
    """

    def __init__(self, read: Callable[[int], bytes], runs: EntryRuns | None = None) -> None:
        self._read = read
        self._runs = runs
        self._at_end = False
        self._limit = -1  # the position after which to look around
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

    def run(self) -> Any:
        """Read the pickle.

        Raises:
            BadPickle: It is damaged, too large for what it holds, or not plain data.
        """
        self._refill(0)
        if len(self.window) < 2 or self.window[0] != 0x80:
            raise BadPickle("it does not begin like a pickle")
        self.protocol = self.window[1]
        if not _LOWEST <= self.protocol <= _HIGHEST:
            raise BadPickle(f"it is a pickle of protocol {self.protocol}, and only {_LOWEST} to {_HIGHEST} are known")
        try:
            with no_collection():  # nothing made here is garbage, and looking for some takes longer than reading
                return self._loop(2)
        except (IndexError, struct.error):
            raise BadPickle(
                "it ends in the middle" if self._at_end else f"it is damaged after byte {self.base:,}"
            ) from None
        except UnicodeDecodeError:
            raise BadPickle("it is damaged: a text in it is no UTF-8") from None

    def value(self, instructions: bytes) -> Any:
        """The value that some instructions make, which are not of the input and put nothing into the memo.

        Raises:
            BadPickle: They make none.
        """
        apart = Machine(io.BytesIO(b"\x80\x04%b." % instructions).read)
        apart.memo, apart.base = self.memo, self.base + len(self.window)
        return apart.run()

    def _loop(self, pos: int) -> Any:
        """Do instruction after instruction from ``pos`` on.  The frequent ones stand here, the others are methods."""
        stack, marks, memo, runs, others = self.stack, self.marks, self.memo, self._runs, INSTRUCTIONS
        push, remember, from_bytes = stack.append, memo.append, int.from_bytes
        window, limit = self.window, -1
        while True:
            if pos > limit:
                pos = self._go_on(pos)
                window, limit = self.window, self._limit
            code = window[pos]
            if code == 0x68:  # BINGET
                push(memo[window[pos + 1]])
                pos += 2
            elif code == 0x6A:  # LONG_BINGET; a list of frames is nothing but these
                if window[pos + 5 : pos + 6] == b"j":
                    ahead = window[pos : pos + 5 * _GETS : 5]
                    count = min(len(ahead) - len(ahead.lstrip(b"j")), (len(window) - pos) // 5)
                    stack.extend([memo[index] for index in np.ndarray(count, "<u4", window, pos + 1, (5,)).tolist()])
                    pos += 5 * count
                else:
                    push(memo[_UINT4(window, pos + 1)[0]])
                    pos += 5
            elif code == 0x4A:  # BININT
                push(_INT4(window, pos + 1)[0])
                pos += 5
            elif code == 0x8A:  # LONG1
                size = window[pos + 1]
                push(from_bytes(window[pos + 2 : pos + 2 + size], "little", signed=True))
                pos += 2 + size
            elif code == 0x94:  # MEMOIZE
                remember(stack[-1])
                pos += 1
            elif code == 0x28:  # MARK
                marks.append(len(stack))
                pos += 1
            elif code == 0x7D:  # EMPTY_DICT
                if runs is not None and (after := runs.take(self, pos)) != pos:
                    pos = after
                    continue
                push({})
                self.containers += 1
                pos += 1
            elif code == 0x5D:  # EMPTY_LIST
                push([])
                self.containers += 1
                pos += 1
            elif code == 0x75:  # SETITEMS
                self.set_items()
                pos += 1
            elif code == 0x65:  # APPENDS
                self.append_items()
                pos += 1
            elif code == 0x2E:  # STOP
                if len(stack) != 1 or marks:
                    raise BadPickle("it is damaged: it ends with something unfinished")
                return stack[0]
            else:
                other = others.get(code)
                if other is None:
                    raise refused(code, self.base + pos)
                pos = other(self, pos)
                window, limit = self.window, self._limit

    def _go_on(self, pos: int) -> int:
        """See that what was made so far is in proportion, and have enough in the window; give the position that this is now."""
        self._reached = self.base + pos + _STRIDE
        self._check_amounts()
        if not self._at_end and pos > len(self.window) - _MARGIN:
            pos = self._refill(pos)
        elif pos >= len(self.window):
            raise BadPickle("it ends in the middle")
        room = len(self.window) if self._at_end else len(self.window) - _MARGIN
        self._limit = min(room, pos + _STRIDE)
        return pos

    def _refill(self, pos: int, wanted: int = WINDOW) -> int:
        """Move the window on so that it begins at ``pos``, and give the position that this is now."""
        parts = [self.window[pos:]]
        missing = wanted
        while missing > 0:
            more = self._read(min(missing, WINDOW))
            if not more:
                self._at_end = True
                break
            parts.append(more)
            missing -= len(more)
        self.base += pos
        self.next_frame -= pos
        self.window = self._without_frames(b"".join(parts))
        self._limit = -1
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
        if self._runs is not None and keys[:1] == ["action"]:
            self._runs.seen(self, target)

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
        if pos + size > len(self.window) and not self._at_end:
            pos = self._refill(pos, size - (len(self.window) - pos) + _MARGIN)
        if pos + size > len(self.window):
            raise BadPickle("it ends in the middle, or a length in it is damaged")
        return pos

    def make(self, container: list[Any] | dict[str, Any]) -> None:
        """Put a new container below the items above the last mark, and them into it."""
        if not self.marks:
            raise BadPickle("it is damaged: items without a container")
        self.stack.insert(self.marks[-1], container)
        self.marks[-1] += 1
        self.containers += 1
        if type(container) is dict:
            self.set_items()
        else:
            self.append_items()

    def make_tuple(self, count: int) -> None:
        """Make a tuple of so many values."""
        start = len(self.stack) - count
        if start < 0:
            raise BadPickle("it is damaged: a tuple without its items")
        self.stack[start:] = [tuple(self.stack[start:])]
        self.containers += 1


def load(read: Callable[[int], bytes], runs: EntryRuns | None = None) -> Any:
    """Read one pickle of plain values.

    Args:
        read: Gives at most so many bytes of the input, none at its end.
        runs: What reads stretches of one shape faster, or ``None``.

    Returns:
        Dicts with texts as keys, lists, tuples, texts, numbers, booleans, ``None``.  Containers may be shared, and may even hold themselves:
        whoever walks over them must know how deep to go.

    Raises:
        BadPickle: It is damaged, too large for what it holds, or not plain data.
    """
    return Machine(read, runs).run()
