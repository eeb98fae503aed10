"""The rarer instructions of a pickle of plain data; the frequent ones stand in the machine's loop (:mod:`memlens.inputs.torch_snapshot.pickles`).

Each takes the machine and the position of the instruction in its window, and gives the position of the next one.

NumPy's numbers, ``OrderedDict`` and (in protocol 2) ``bytes`` are written as a call: the name of a function and its arguments.  Nothing is imported
or called here: a name is looked up in :data:`_CALLS`, and what the call would give is made from its arguments: a number, a dict, a text.
Every other name ends the reading before anything else is looked at.  Bytes become texts, as UTF-8; what is no UTF-8 in them is kept as lone surrogates,
so that the bytes can be had back.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from memlens.inputs.torch_snapshot.pickles import Machine

    Instruction = Callable[[Machine, int], int]

__all__ = ["INSTRUCTIONS", "BadPickle", "refused"]

_LONGEST_NAME = 256
_AS_VALUES = "Write it again with torch.cuda.memory._dump_snapshot(path), or turn such objects into numbers, texts, lists and dicts before it is pickled."
_TEXT, _ESCAPE = "surrogatepass", "surrogateescape"


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


class _Call(NamedTuple):
    """A function that a pickle may name, for what it gives is a plain value: the types of its arguments, and what makes that value of them."""

    name: str
    takes: tuple[type, ...]
    makes: Callable[..., Any]


@dataclass(slots=True)
class _Dtype:
    """A type of NumPy's numbers: its code, and the order of its bytes, which the pickle tells later."""

    code: str
    order: str = "<"


#: Modules that have another name today, as parts of the names in the tables below.
_RENAMED: Final = {"numpy._core.": "numpy.core.", "__builtin__.": "builtins.", "pathlib._local.": "pathlib."}
#: Objects that people put into files of their own, and what they are.  Whoever does so means no harm.
_OBJECTS: Final = {
    "numpy.core.multiarray._reconstruct": "a NumPy array",
    "numpy.core.numeric._frombuffer": "a NumPy array",
    "collections.defaultdict": "a defaultdict",
    "collections.deque": "a deque",
    "collections.Counter": "a Counter",
    "builtins.set": "a set",
    "builtins.frozenset": "a frozenset",
    "builtins.bytearray": "a bytearray",
    "builtins.complex": "a complex number",
    "torch.Size": "a torch.Size",
    "torch.device": "a torch.device",
    "torch._utils._rebuild_tensor_v2": "a tensor",
    "torch._utils._rebuild_parameter": "a tensor",
    "pathlib.PosixPath": "a path",
    "datetime.datetime": "a datetime",
    "decimal.Decimal": "a Decimal",
}
#: The same, where an instruction of their own writes them.
_OWN_INSTRUCTIONS: Final = {0x8F: "a set", 0x91: "a frozenset", 0x96: "a bytearray", 0x97: "a buffer beside the file"}
#: Instructions that call or look up, and that no plain value is written with: INST, OBJ, NEWOBJ, NEWOBJ_EX, EXT1, 2 and 4, PERSID, BINPERSID.
_NOT_DATA: Final = b"io\x81\x92\x82\x83\x84PQ"
#: NumPy's types of numbers, as :mod:`struct` writes them.
_NUMBERS: Final = dict(
    zip(["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"], "?bhiqBHIQefd", strict=True)
)
_ORDERS: Final = {"<": "<", ">": ">", "|": "<", "=": "<"}


def refused(code: int, where: int) -> BadPickle:
    """Why an instruction that the machine does not have, at a byte of the input, ends the reading."""
    if code in _NOT_DATA:
        from pickletools import opcodes

        return _runs_code(next(known.name for known in opcodes if known.code == chr(code)), where)
    if what := _OWN_INSTRUCTIONS.get(code):
        return _no_value(what, where)
    return BadPickle(f"instruction 0x{code:02x} at byte {where:,} is none that a memory snapshot has")


def _runs_code(instruction: str, where: int, how: str = "") -> BadPickle:
    reason = f"it is more than data: instruction {instruction} at byte {where:,} {how}runs code"
    return BadPickle(reason, hostile=True)


def _no_value(what: str, where: int) -> BadPickle:
    return BadPickle(f"it holds {what}, at byte {where:,}, and only plain values are read", hint=_AS_VALUES)


def _look_up(machine: Machine, pos: int, instruction: str, module: str, name: str) -> None:
    """Put what a name stands for on the stack."""
    asked = listed = f"{module}.{name}"
    where = machine.base + pos
    for today, before in _RENAMED.items():
        listed = listed.replace(today, before)
    if known := _CALLS.get(listed):
        machine.stack.append(known)
    elif what := _OBJECTS.get(listed):
        raise _no_value(f"{what} ({asked})", where)
    else:
        asked = ascii(asked)[1:80].rstrip("'\"")
        raise _runs_code(instruction, where, f"asks for {asked}, which ")


def _two(machine: Machine) -> list[Any]:
    """The two values on top of the stack."""
    if len(machine.stack) < 2:
        raise BadPickle("it is damaged: a call in it has no arguments")
    return machine.stack[-2:]


def _global(machine: Machine, pos: int) -> int:
    names, start = [], pos + 1
    for _ in range(2):
        end = machine.window.find(b"\n", start, start + _LONGEST_NAME)
        if end < 0:
            raise BadPickle("it is damaged: a name in it does not end")
        names.append(machine.window[start:end].decode("utf-8", "replace"))
        start = end + 1
    _look_up(machine, pos, "GLOBAL", *names)
    return start


def _stack_global(machine: Machine, pos: int) -> int:
    module, name = _two(machine)
    if type(module) is not str or type(name) is not str:
        raise BadPickle("it is damaged: a name in it is no text")
    del machine.stack[-2:]
    _look_up(machine, pos, "STACK_GLOBAL", module, name)
    return pos + 1


def _reduce(machine: Machine, pos: int) -> int:
    """What a call gives: of a function that stands on the stack, with the arguments above it."""
    call, arguments = _two(machine)
    where = machine.base + pos
    if type(call) is not _Call or type(arguments) is not tuple:
        raise _runs_code("REDUCE", where)
    unfit = BadPickle(f"it is damaged: {call.name} at byte {where:,} has arguments that it cannot have")
    if tuple(map(type, arguments)) != call.takes:
        raise unfit
    try:
        machine.stack[-2:] = [call.makes(machine, pos, *arguments)]
    except (ValueError, struct.error):
        raise unfit from None
    return pos + 1


def _ordered_dict(machine: Machine, pos: int) -> dict[str, Any]:  # noqa: ARG001 - every call takes the position
    machine.containers += 1
    return {}


def _encoded(machine: Machine, pos: int, text: str, encoding: str) -> str:
    if encoding != "latin1":
        raise ValueError
    machine.encoded += len(text)
    if machine.encoded > machine.base + pos:  # the same long text again and again
        raise BadPickle("it makes more bytes than it has", hostile=True)
    return text.encode("latin1").decode("utf-8", _ESCAPE)


def _dtype(machine: Machine, pos: int, code: str, *_: bool) -> _Dtype:
    if code not in _NUMBERS:
        raise _no_value(f"a NumPy value of type {ascii(code[:20])[1:-1]}", machine.base + pos)
    return _Dtype(code)


def _number(machine: Machine, pos: int, dtype: _Dtype, text: str) -> Any:  # noqa: ARG001 - see above
    """The number that bytes, here as text, are in a type of NumPy's."""
    if len(text) > 8:
        raise ValueError
    return struct.unpack(dtype.order + _NUMBERS[dtype.code], text.encode("utf-8", _ESCAPE))[0]


_CALLS: Final = {
    "numpy.core.multiarray.scalar": _Call("numpy scalar", (_Dtype, str), _number),
    "numpy.dtype": _Call("numpy dtype", (str, bool, bool), _dtype),
    "collections.OrderedDict": _Call("OrderedDict", (), _ordered_dict),
    "_codecs.encode": _Call("encode", (str, str), _encoded),
    "builtins.bytes": _Call("bytes", (), lambda machine, pos: ""),  # noqa: ARG005
}


def _build(machine: Machine, pos: int) -> int:
    """The state of an object: that of a NumPy type tells the order of its bytes."""
    dtype, state = _two(machine)
    if type(dtype) is not _Dtype or type(state) is not tuple:
        raise _runs_code("BUILD", machine.base + pos)
    if len(state) < 2 or type(state[1]) is not str or state[1] not in _ORDERS:
        raise BadPickle("it is damaged: a NumPy type in it has no order of bytes")
    dtype.order = _ORDERS[state[1]]
    machine.stack.pop()
    return pos + 1


def _put(machine: Machine, pos: int, size: int) -> int:
    machine.put(_unsigned(machine, pos, size))
    return pos + 1 + size


def _unsigned(machine: Machine, pos: int, size: int) -> int:
    """The number of so many bytes that follows an instruction."""
    raw: bytes = machine.window[pos + 1 : pos + 1 + size]
    if len(raw) < size:
        raise IndexError
    return int.from_bytes(raw, "little")


def _text(machine: Machine, pos: int, size: int, errors: str) -> int:
    """A text or bytes, whose length is a number of so many bytes."""
    length = _unsigned(machine, pos, size)
    pos = machine.hold(pos + 1 + size, length)
    machine.stack.append(machine.window[pos : pos + length].decode("utf-8", errors))
    return pos + length


def _items(machine: Machine, pos: int, count: int) -> int:
    """One item of a list, or one key and its value of a dict."""
    if len(machine.stack) <= count:
        raise BadPickle(f"it is damaged: {'an item without its list' if count == 1 else 'a key without its dict'}")
    machine.marks.append(len(machine.stack) - count)
    (machine.append_items if count == 1 else machine.set_items)()
    return pos + 1


def _container(machine: Machine, pos: int, made: list[Any] | dict[str, Any]) -> int:
    machine.make(made)
    return pos + 1


def _tuple(machine: Machine, pos: int, count: int | None = None) -> int:
    if count is None:
        if not machine.marks:
            raise BadPickle("it is damaged: a tuple without its items")
        count = len(machine.stack) - machine.marks.pop()
    machine.make_tuple(count)
    return pos + 1


def _push(machine: Machine, pos: int, value: Any, size: int = 0) -> int:
    machine.stack.append(value)
    return pos + 1 + size


def _frame(machine: Machine, pos: int) -> int:
    machine.next_frame = pos + 9 + _unsigned(machine, pos, 8)
    return pos + 9


INSTRUCTIONS: Final[dict[int, Instruction]] = {
    0x71: lambda machine, pos: _put(machine, pos, 1),  # BINPUT
    0x72: lambda machine, pos: _put(machine, pos, 4),  # LONG_BINPUT
    0x4B: lambda machine, pos: _push(machine, pos, _unsigned(machine, pos, 1), 1),  # BININT1
    0x4D: lambda machine, pos: _push(machine, pos, _unsigned(machine, pos, 2), 2),  # BININT2
    0x8C: lambda machine, pos: _text(machine, pos, 1, _TEXT),  # SHORT_BINUNICODE
    0x58: lambda machine, pos: _text(machine, pos, 4, _TEXT),  # BINUNICODE
    0x8D: lambda machine, pos: _text(machine, pos, 8, _TEXT),  # BINUNICODE8
    0x43: lambda machine, pos: _text(machine, pos, 1, _ESCAPE),  # SHORT_BINBYTES
    0x42: lambda machine, pos: _text(machine, pos, 4, _ESCAPE),  # BINBYTES
    0x8E: lambda machine, pos: _text(machine, pos, 8, _ESCAPE),  # BINBYTES8
    0x73: lambda machine, pos: _items(machine, pos, 2),  # SETITEM
    0x61: lambda machine, pos: _items(machine, pos, 1),  # APPEND
    0x64: lambda machine, pos: _container(machine, pos, {}),  # DICT
    0x6C: lambda machine, pos: _container(machine, pos, []),  # LIST
    0x74: _tuple,  # TUPLE
    0x29: lambda machine, pos: _tuple(machine, pos, 0),  # EMPTY_TUPLE
    0x85: lambda machine, pos: _tuple(machine, pos, 1),  # TUPLE1
    0x86: lambda machine, pos: _tuple(machine, pos, 2),  # TUPLE2
    0x87: lambda machine, pos: _tuple(machine, pos, 3),  # TUPLE3
    0x47: lambda machine, pos: _push(machine, pos, struct.unpack_from(">d", machine.window, pos + 1)[0], 8),  # BINFLOAT
    0x4E: lambda machine, pos: _push(machine, pos, None),  # NONE
    0x88: lambda machine, pos: _push(machine, pos, True),  # NEWTRUE
    0x89: lambda machine, pos: _push(machine, pos, False),  # NEWFALSE
    0x95: _frame,  # FRAME
    0x63: _global,  # GLOBAL
    0x93: _stack_global,  # STACK_GLOBAL
    0x52: _reduce,  # REDUCE
    0x62: _build,  # BUILD
}
