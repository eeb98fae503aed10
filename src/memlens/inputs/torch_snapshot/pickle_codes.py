"""The rarer instructions of a pickle of plain data; the frequent ones stand in the machine's loop (:mod:`memlens.inputs.torch_snapshot.pickles`).

Each takes the machine and the position of the instruction in its window, and gives the position of the next one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from memlens.inputs.torch_snapshot.pickles import Machine

__all__ = ["OTHERS", "UINT4", "UINT8", "BadPickle"]

#: The unsigned number of 4, and of 8 bytes at a position.
UINT4 = struct.Struct("<I").unpack_from
UINT8 = struct.Struct("<Q").unpack_from
_FLOAT = struct.Struct(">d").unpack_from
_CONSTANTS = {0x4E: None, 0x88: True, 0x89: False}


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


def _binput(machine: Machine, pos: int) -> int:
    machine.put(machine.window[pos + 1])
    return pos + 2


def _long_binput(machine: Machine, pos: int) -> int:
    machine.put(UINT4(machine.window, pos + 1)[0])
    return pos + 5


def _unicode4(machine: Machine, pos: int) -> int:
    return _text(machine, pos + 5, UINT4(machine.window, pos + 1)[0])


def _unicode8(machine: Machine, pos: int) -> int:
    return _text(machine, pos + 9, UINT8(machine.window, pos + 1)[0])


def _text(machine: Machine, pos: int, size: int) -> int:
    pos = machine.hold(pos, size)
    machine.stack.append(str(machine.window[pos : pos + size], "utf-8", "surrogatepass"))
    return pos + size


def _setitem(machine: Machine, pos: int) -> int:
    if len(machine.stack) < 3:
        raise BadPickle("it is damaged: a key without its dict")
    machine.marks.append(len(machine.stack) - 2)
    machine.set_items()
    return pos + 1


def _append(machine: Machine, pos: int) -> int:
    if len(machine.stack) < 2:
        raise BadPickle("it is damaged: an item without its list")
    machine.marks.append(len(machine.stack) - 1)
    machine.append_items()
    return pos + 1


def _dict(machine: Machine, pos: int) -> int:
    machine.make({})
    return pos + 1


def _list(machine: Machine, pos: int) -> int:
    machine.make([])
    return pos + 1


def _tuple(machine: Machine, pos: int) -> int:
    if not machine.marks:
        raise BadPickle("it is damaged: a tuple without its items")
    machine.make_tuple(len(machine.stack) - machine.marks.pop())
    return pos + 1


def _tuple_of(count: int) -> Callable[[Machine, int], int]:
    def make(machine: Machine, pos: int) -> int:
        machine.make_tuple(count)
        return pos + 1

    return make


def _float(machine: Machine, pos: int) -> int:
    machine.stack.append(_FLOAT(machine.window, pos + 1)[0])
    return pos + 9


def _constant(machine: Machine, pos: int) -> int:
    machine.stack.append(_CONSTANTS[machine.window[pos]])
    return pos + 1


def _frame(machine: Machine, pos: int) -> int:
    machine.frame(pos + 9, UINT8(machine.window, pos + 1)[0])
    return pos + 9


#: By code: BINPUT, LONG_BINPUT, BINUNICODE, BINUNICODE8, SETITEM, APPEND, DICT, LIST, TUPLE, EMPTY_TUPLE, TUPLE1 to TUPLE3, BINFLOAT, NONE,
#: NEWTRUE, NEWFALSE, FRAME.
OTHERS: Final[dict[int, Callable[[Machine, int], int]]] = {
    0x71: _binput,
    0x72: _long_binput,
    0x58: _unicode4,
    0x8D: _unicode8,
    0x73: _setitem,
    0x61: _append,
    0x64: _dict,
    0x6C: _list,
    0x74: _tuple,
    0x29: _tuple_of(0),
    0x85: _tuple_of(1),
    0x86: _tuple_of(2),
    0x87: _tuple_of(3),
    0x47: _float,
    0x4E: _constant,
    0x88: _constant,
    0x89: _constant,
    0x95: _frame,
}
