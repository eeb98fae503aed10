"""Reads a pickle without trusting it: plain values only, in bounded memory, running nothing.

A pickle is a program for a small stack machine, and some of its instructions import modules and call functions.  This machine
knows none of those: it makes dicts, lists, tuples, strings, numbers, booleans and None, reads the few calls that mean such a value by hand
(:data:`_CALLS`), and refuses everything else before it has any effect.  Python's own unpickler, even with its hooks forbidden, asks for whatever memory a length or a memo index in the file names; here a length
counts for nothing until the bytes are there, and the number of containers is bounded by the bytes read.

The input is read in windows, so a file of gigabytes needs memory for what is made of it only.  Where the input repeats one shape again and
again, :class:`~memlens.inputs.torch_snapshot.entry_runs.EntryRuns` may take over.

NumPy's numbers, ``OrderedDict`` and (in protocol 2) ``bytes`` are written as a call: the name of a function and its arguments.  Nothing is imported
or called here: a name is looked up in :data:`_CALLS`, and what the call would give is made from its arguments: a number, a dict, a text.
Every other name ends the reading before anything else is looked at.  Bytes become texts, as UTF-8; what is no UTF-8 in them is kept as lone surrogates,
so that the bytes can be had back.
"""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from msgspec import Struct

from memlens.inputs.torch_snapshot.machine import BadPickle, Machine, Runs, no_value, refused, runs_code
from memlens.scanner.scan import no_collection

if TYPE_CHECKING:
    from collections.abc import Callable

_LOWEST, _HIGHEST = 2, 5
#: References in a row that are read together, at most.
_GETS = 256
_INT4 = struct.Struct("<i").unpack_from
_UINT4 = struct.Struct("<I").unpack_from
_LONGEST_NAME = 256
_TEXT, _ESCAPE = "surrogatepass", "surrogateescape"


class _Call(NamedTuple):
    """A function that a pickle may name, for what it gives is a plain value: the types of its arguments, and what makes that value of them."""

    name: str
    takes: tuple[type, ...]
    makes: Callable[..., Any]


class _Dtype(Struct):
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
#: NumPy's types of numbers, as :mod:`struct` writes them.
_NUMBERS: Final = dict(
    zip(["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"], "?bhiqBHIQefd", strict=True)
)
_ORDERS: Final = {"<": "<", ">": ">", "|": "<", "=": "<"}


def _look_up(machine: Machine, pos: int, instruction: str, module: str, name: str) -> None:
    """Put what a name stands for on the stack."""
    asked = listed = f"{module}.{name}"
    where = machine.base + pos
    for today, before in _RENAMED.items():
        listed = listed.replace(today, before)
    if known := _CALLS.get(listed):
        machine.stack.append(known)
    elif what := _OBJECTS.get(listed):
        raise no_value(f"{what} ({asked})", where)
    else:
        asked = ascii(asked)[1:80].rstrip("'\"")
        raise runs_code(instruction, where, f"asks for {asked}, which ")


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
    """The result of a call of a function that stands on the stack, with the arguments above it."""
    call, arguments = _two(machine)
    where = machine.base + pos
    if type(call) is not _Call or type(arguments) is not tuple:
        raise runs_code("REDUCE", where)
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
        raise no_value(f"a NumPy value of type {ascii(code[:20])[1:-1]}", machine.base + pos)
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
        raise runs_code("BUILD", machine.base + pos)
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
    """A new container below the items above the last mark, and them in it."""
    if not machine.marks:
        raise BadPickle("it is damaged: items without a container")
    machine.stack.insert(machine.marks[-1], made)
    machine.marks[-1] += 1
    machine.containers += 1
    (machine.set_items if type(made) is dict else machine.append_items)()
    return pos + 1


def _tuple(machine: Machine, pos: int, count: int | None = None) -> int:
    """A tuple of so many values, or of those above the last mark."""
    stack, marks = machine.stack, machine.marks
    start = len(stack) - count if count is not None else marks.pop() if marks else -1
    if start < 0:
        raise BadPickle("it is damaged: a tuple without its items")
    stack[start:] = [tuple(stack[start:])]
    machine.containers += 1
    return pos + 1


def _push(machine: Machine, pos: int, value: Any, size: int = 0) -> int:
    machine.stack.append(value)
    return pos + 1 + size


def _frame(machine: Machine, pos: int) -> int:
    machine.next_frame = pos + 9 + _unsigned(machine, pos, 8)
    return pos + 9


#: The rarer instructions; each takes the machine and the position of the instruction in its window, and gives the position of the next one.
_INSTRUCTIONS: Final[dict[int, Callable[[Machine, int], int]]] = {
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


class _Loop(Machine):
    """Does instruction after instruction."""

    def run(self) -> Any:
        """Read the pickle; errors as of :func:`load`."""
        self.refill(0)
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
                "it ends in the middle" if self.at_end else f"it is damaged after byte {self.base:,}"
            ) from None
        except UnicodeDecodeError:
            raise BadPickle("it is damaged: a text in it is no UTF-8") from None

    def _loop(self, pos: int) -> Any:
        """Do instruction after instruction from ``pos`` on.  The frequent ones stand here, the others in a table."""
        stack, marks, memo, runs, others = self.stack, self.marks, self.memo, self.runs, _INSTRUCTIONS
        push, remember, from_bytes = stack.append, memo.append, int.from_bytes
        window, limit = self.window, -1
        while True:
            if pos > limit:
                pos = self.go_on(pos)
                window, limit = self.window, self.limit
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
                window, limit = self.window, self.limit


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
    return _Loop(read, runs).run()


def value_of(machine: Machine, instructions: bytes) -> Any:
    """The value that some instructions make, which are not of a machine's input and put nothing into its memo.

    Raises:
        BadPickle: They make none.
    """
    apart = _Loop(io.BytesIO(b"\x80\x04%b." % instructions).read)
    apart.memo, apart.base = machine.memo, machine.base + len(machine.window)
    return apart.run()
