"""Reads a pickle without trusting it: plain values only, in bounded memory, running nothing.

A pickle is a program for a small stack machine, and some of its instructions import modules and call functions.  This machine
knows none of those: it makes dicts, lists, tuples, strings, numbers, booleans and None, which is all that torch writes, and refuses everything else before it
has any effect.  Python's own unpickler, even with its hooks forbidden, asks for whatever memory a length or a memo index in the file names; here a length
counts for nothing until the bytes are there, and the number of containers is bounded by the bytes read.

The input is read in windows, so a file of gigabytes needs memory for what is made of it only.  Where the input repeats one shape again and
again, :class:`~memlens.inputs.torch_snapshot.entry_runs.EntryRuns` may take over.
"""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

import numpy as np

from memlens.scanner import no_collection

if TYPE_CHECKING:
    from collections.abc import Callable


_LOWEST, _HIGHEST = 2, 5
#: Bytes read at once; of larger windows columns are fresh memory each time.  No instruction but a long string
#: reaches over the margin.
WINDOW = 1 << 20
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
#: References in a row that are read together, at most.
_GETS = 256
#: Instructions that call or look up: GLOBAL, STACK_GLOBAL, REDUCE, BUILD, INST, OBJ, NEWOBJ, NEWOBJ_EX, EXT1, 2 and 4, PERSID, BINPERSID.
_NOT_DATA: Final = b"c\x93Rbio\x81\x92\x82\x83\x84PQ"
_AS_VALUES = "Write it again with _dump_snapshot(path), or turn such objects into numbers, texts, lists and dicts before it is pickled."
#: The types that keys have.
_TEXTS = frozenset({str})
_INT4, _UINT4, _UINT8, _FLOAT = (struct.Struct(code).unpack_from for code in ("<i", "<I", "<Q", ">d"))


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


class Gone:
    """Stands in the memo for an object that was not kept; nothing that torch writes refers to one."""


class Runs(Protocol):
    """Reads stretches of the input faster than instruction by instruction."""

    def seen(self, machine: Machine, value: dict[str, Any]) -> None:
        """Learn from an entry of a trace that the machine read by itself."""

    def take(self, machine: Machine, at: int) -> int:
        """Take what there is from a position of the window on, and give where it ends."""


class Machine:
    """A machine that reads a pickle: a window of the input, a stack with marks, a memo, all of them bounded by the bytes read.

    Args:
        read: Gives at most so many bytes of the input, none at its end.
        runs: Reads stretches of one shape, or ``None``.

    Attributes:
        window: The bytes at hand.
        stack: Values made so far that no container has taken yet.
        marks: Lengths of the stack where a container's items begin.
        memo: Values by memo index.
        protocol: The pickle's protocol.
    """

    def __init__(self, read: Callable[[int], bytes], runs: Runs | None = None) -> None:
        self._read, self._runs = read, runs
        self.window: bytes = b""
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: list[Any] = []
        self.protocol = 0
        self._base = 0  # where the window begins in the input
        self._at_end = False  # the window holds the end of the input
        self._limit = -1  # the position in it after which to call _go_on()
        self._reached = 0  # no further than here until then
        self._next_frame = 2  # where in it the next FRAME is due
        self._containers = 0  # dicts, lists and tuples made

    def run(self) -> Any:
        """Read the pickle; errors as of :func:`load`."""
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
            reason = "it ends in the middle" if self._at_end else f"it is damaged after byte {self._base:,}"
            raise BadPickle(reason) from None
        except UnicodeDecodeError:
            raise BadPickle("it is damaged: a text in it is no UTF-8") from None

    def value_of(self, instructions: bytes) -> Any:
        """The value that some instructions make, which are not of the input and put nothing into its memo.

        Raises:
            BadPickle: They make none.
        """
        apart = Machine(io.BytesIO(b"\x80\x04%b." % instructions).read)
        apart.memo, apart._base = self.memo, self._base + len(self.window)
        return apart.run()

    def _loop(self, pos: int) -> Any:
        """Do instruction after instruction from ``pos`` on.  The frequent ones stand here, the others in a table."""
        stack, marks, memo, runs = self.stack, self.marks, self.memo, self._runs
        push, remember, from_bytes, others = stack.append, memo.append, int.from_bytes, self._OTHERS
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
                self._containers += 1
                pos += 1
            elif code == 0x5D:  # EMPTY_LIST
                push([])
                self._containers += 1
                pos += 1
            elif code == 0x75:  # SETITEMS
                self._set_items()
                pos += 1
            elif code == 0x65:  # APPENDS
                self._append_items()
                pos += 1
            elif code == 0x2E:  # STOP
                if len(stack) != 1 or marks:
                    raise BadPickle("it is damaged: it ends with something unfinished")
                return stack[0]
            elif (other := others.get(code)) is not None:
                pos = other[0](self, pos, other[1])
                window, limit = self.window, self._limit
            else:
                raise _refused(code, self._base + pos)

    def _go_on(self, pos: int) -> int:
        """See that what was made so far is in proportion, and have enough in the window; give the position that this is now."""
        self._reached = self._base + pos + _STRIDE
        self._check_amounts()
        while not self._at_end and pos > len(self.window) - _MARGIN:
            pos = self._refill(pos)
        if pos >= len(self.window):
            raise BadPickle("it ends in the middle")
        room = len(self.window) if self._at_end else len(self.window) - _MARGIN
        self._limit = min(room, pos + _STRIDE)
        return pos

    def _refill(self, pos: int, wanted: int = WINDOW) -> int:
        """Move the window on so that it begins at ``pos``, and give the position that this is now."""
        parts, missing = [self.window[pos:]], wanted
        while missing > 0:
            more = self._read(min(missing, WINDOW))
            if not more:
                self._at_end = True
                break
            parts.append(more)
            missing -= len(more)
        self._base += pos
        self._next_frame -= pos
        self.window = self._without_frames(parts)
        self._limit = -1
        return 0

    def _without_frames(self, parts: list[bytes]) -> bytes:
        """Join parts, and cut the FRAME instructions out: they say how the writer cut its output into pieces, each where the one before ends."""
        if len(parts) != 2 or 0 <= self._next_frame < len(parts[0]):
            parts = [b"", b"".join(parts)]
        head, text = parts
        whole = memoryview(text)  # whose parts are no copies
        start, at = 0, self._next_frame - len(head)
        kept: list[bytes | memoryview] = [head]
        while 0 <= at <= len(text) - _FRAME_SIZE and text[at] == _FRAME:
            kept.append(whole[start:at])
            start = at + _FRAME_SIZE
            at = start + _UINT8(text, at + 1)[0]
        cut = _FRAME_SIZE * (len(kept) - 1)
        self._next_frame = at + len(head) - cut
        self._base += cut
        return b"".join((*kept, whole[start:]))

    def _check_amounts(self) -> None:
        """See that what was made is in proportion to the bytes read."""
        if self._containers > _FREE + self._reached // _BYTES_A_CONTAINER:
            raise BadPickle("it holds far more lists and dicts than a memory snapshot of its size", hostile=True)
        if max(len(self.stack), len(self.memo)) > _FREE + self._reached // _BYTES_A_VALUE:
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

    def _set_items(self) -> None:
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
            raise BadPickle(f"a dict in it has keys that are no texts but of type {wrong}")
        size = len(target)
        target.update(zip(keys, values, strict=True))
        if len(target) < size + len(keys):
            raise BadPickle("a dict in it has a key twice")
        if self._runs is not None and keys[:1] == ["action"]:
            self._runs.seen(self, target)

    def _append_items(self) -> None:
        """Put the items above the last mark into the list below it."""
        items, target = self._items()
        if type(target) is not list:
            raise BadPickle("it is damaged: items for something that is no list")
        target.extend(items)

    # The rarer instructions; each takes the position of the instruction in the window, and gives the position of the next one.

    def _constant(self, pos: int, value: Any) -> int:
        self.stack.append(value)
        return pos + 1

    def _number(self, pos: int, size: int) -> int:
        self.stack.append(self._unsigned(pos, size))
        return pos + 1 + size

    def _float(self, pos: int, size: int) -> int:
        self.stack.append(_FLOAT(self.window, pos + 1)[0])
        return pos + 1 + size

    def _unsigned(self, pos: int, size: int) -> int:
        """The number of so many bytes that follows an instruction."""
        raw = self.window[pos + 1 : pos + 1 + size]
        if len(raw) < size:
            raise IndexError
        return int.from_bytes(raw, "little")

    def _text(self, pos: int, size: int) -> int:
        """A text, whose length is a number of so many bytes."""
        length, pos = self._unsigned(pos, size), pos + 1 + size
        while pos + length > len(self.window) and not self._at_end:
            pos = self._refill(pos, length - (len(self.window) - pos) + _MARGIN)
        if pos + length > len(self.window):
            raise BadPickle("it ends in the middle, or a length in it is damaged")
        self.stack.append(self.window[pos : pos + length].decode("utf-8", "surrogatepass"))
        return pos + length

    def _put(self, pos: int, size: int) -> int:
        """Put the top of the stack into the memo."""
        index, value = self._unsigned(pos, size), self.stack[-1]
        if index < len(self.memo):
            if self.memo[index] is not Gone:
                raise BadPickle("a memo index in it is used twice", hostile=True)
            self.memo[index] = value
        elif index <= self._base + len(self.window):  # an optimised pickle has gaps, but never more indices than bytes
            self.memo.extend([Gone] * (index - len(self.memo)))
            self.memo.append(value)
        else:
            raise BadPickle(f"memo index {index:,} in it is far too large", hostile=True)
        return pos + 1 + size

    def _one(self, pos: int, count: int) -> int:
        """One item of a list, or one key and its value of a dict."""
        if len(self.stack) <= count:
            raise BadPickle("it is damaged: an item without its list or dict")
        self.marks.append(len(self.stack) - count)
        (self._append_items if count == 1 else self._set_items)()
        return pos + 1

    def _tuple(self, pos: int, count: int | None) -> int:
        """A tuple of so many values, or of those above the last mark."""
        start = len(self.stack) - count if count is not None else self.marks.pop()
        if start < 0:
            raise BadPickle("it is damaged: a tuple without its items")
        self.stack[start:] = [tuple(self.stack[start:])]
        self._containers += 1
        return pos + 1

    def _frame(self, pos: int, size: int) -> int:
        self._next_frame = pos + _FRAME_SIZE + self._unsigned(pos, size)
        return pos + _FRAME_SIZE

    #: Those instructions, and what they take beside their position.
    _OTHERS: ClassVar[dict[int, tuple[Callable[[Machine, int, Any], int], Any]]] = {
        0x71: (_put, 1),  # BINPUT
        0x72: (_put, 4),  # LONG_BINPUT
        0x4B: (_number, 1),  # BININT1
        0x4D: (_number, 2),  # BININT2
        0x47: (_float, 8),  # BINFLOAT
        0x8C: (_text, 1),  # SHORT_BINUNICODE
        0x58: (_text, 4),  # BINUNICODE
        0x4E: (_constant, None),  # NONE
        0x88: (_constant, True),  # NEWTRUE
        0x89: (_constant, False),  # NEWFALSE
        0x73: (_one, 2),  # SETITEM
        0x61: (_one, 1),  # APPEND
        0x74: (_tuple, None),  # TUPLE
        0x29: (_tuple, 0),  # EMPTY_TUPLE
        0x85: (_tuple, 1),  # TUPLE1
        0x86: (_tuple, 2),  # TUPLE2
        0x87: (_tuple, 3),  # TUPLE3
        _FRAME: (_frame, 8),
    }


def _refused(code: int, where: int) -> BadPickle:
    """Why an instruction that the machine does not have, at a byte of the input, ends the reading."""
    from pickletools import opcodes

    name = next((known.name for known in opcodes if known.code == chr(code)), f"0x{code:02x}")
    if code in _NOT_DATA:
        return BadPickle(f"it is more than data: instruction {name} at byte {where:,} runs code", hostile=True)
    return BadPickle(f"instruction {name} at byte {where:,} is none that a memory snapshot has", hint=_AS_VALUES)


def load(read: Callable[[int], bytes], runs: Runs | None = None) -> Any:
    """Read one pickle of plain values.

    Args:
        read: Gives at most so many bytes of the input, none at its end.
        runs: What reads stretches of one shape faster, or ``None``.

    Returns:
        Dicts with texts as keys, lists, tuples, texts, numbers, booleans, ``None``.  Containers may be shared, and may even hold themselves.

    Raises:
        BadPickle: It is damaged, too large for what it holds, or not plain data.
    """
    return Machine(read, runs).run()
