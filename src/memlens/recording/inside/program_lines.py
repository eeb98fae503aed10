"""The lines of the program in the log of Paddle's allocators: which operator runs, and where the program calls it.

Runs inside the program, whose Python may be an older one (3.8) and need not have memlens: the standard library alone.

Once Paddle's operators are imported, something that writes one line to file descriptor 2, where glog writes, and goes on is put in the place of each::

    I1120 10:54:54.176385 14189 line.py:0] memlens calls matmul < mlp.py:25 forward < train.py:13 main
    I1120 10:54:54.176411 14189 line.py:0] memlens calls -

The second line stands after the call: what is allocated later is not its own.  Frames are those of files that are neither installed nor of
the standard library.  Operators of Paddle are built-in functions of the modules in :data:`_MODULES`, and the methods of ``paddle.Tensor``
that Python's own operators call.  Nothing of the program is kept alive, no code of its is run, and whatever fails here ends the lines and not the
program.  A forked child writes none.

``_calls.c`` does the same in a third of the time, where it was built and the program's Python can load it; what is here is its reference.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from functools import partial
from types import MethodType

from .graphs import Graphs
from .walks import ALWAYS, AT_TIMES, LOOK, NEVER, PAUSE, Walks, others_wait, own_name_of

TYPE_CHECKING = False  # what is imported here is paid by every Python process of the program
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType
    from typing import Any

#: Where built-in functions are operators, by the module at whose import they are replaced.
_WITH_TENSOR = ("eager",)
_MODULES = {"paddle._C_ops": ("", "eager.ops", "pir.ops"), "paddle._legacy_C_ops": ("",), "paddle": _WITH_TENSOR}
#: Frames in a line, and characters of it, at most.
_MOST_FRAMES, _LONGEST = 6, 240
#: Frames that are looked at for those of the user.
_DEEPEST = 200
#: Methods of tensors that allocate, beside those that Python's operators call.
_METHODS = frozenset(
    {"_getitem_index_not_tensor", "__setitem_eager_tensor__", "_copy_to", "clone", "copy_", "contiguous", "__init__"}
)

_BACKWARD = "run_backward"
_PASS = _BACKWARD.encode()
#: What an exception says, within so many characters, of memory that ran out, a custom device the latter; what Paddle calls it; so much is written.
_OUT_OF_MEMORY = "ut of memory", "CustomDevice error, the error code is : 2."
_SEARCHED, _REFUSED, _SAID = 1 << 16, "ResourceExhaustedError", 400
_ARGS: Any = vars(BaseException)["args"]
#: What a pipe takes at once.
_PIPE = 4096


class _Local(threading.local):
    """What a thread does: the call that it is within, the header of its last line, and its number."""

    text = b"-"
    head = b""
    number = 0


_local = _Local()
_on = [True]
_walks: list[Walks] = []
#: Calls so far, of which each so many-th may be a moment to look who holds tensors, once in :data:`~.walks.LOOK` seconds after the first ones; how many
#: of these were told, and when the last one was; when it is asked whether the peak rose, and when it was last.
_calls, _EACH, _FIRST, _told, _looked, _asks, _asked = [0], 16, 256, [0], [0.0], [ALWAYS], [0.0]
#: Bytes of the lines of calls so far; the second of the last header, and how that is written.
_text = [0]
_second: list[Any] = [0, b""]
#: By the id of a code object and the instruction that it is at: itself, so that no other gets that id, and what is written of the place.
_places: dict[tuple[int, int], tuple[CodeType, bytes | None]] = {}
_MOST_PLACES = 10_000
#: What stands in the place of an operator, given that and its name, what ends all lines, and what gives the bytes of lines so far.
_lines: list[Callable[..., Any]] = []


def start(asked: dict[str, Any], when_imported: Callable[[str, Callable[[Any], None]], None]) -> None:
    """Replace the operators once they are imported.

    Args:
        asked: ``holders``: write who holds tensors, too; ``compiled``: the file of the compiled functions, if there is one.
        when_imported: Calls a function with a module once it is imported.
    """
    if _lines:  # once in a process
        return
    _lines[:] = _compiled(asked.get("compiled")) or [_replaced, int, _written]
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_stop)
    for module, places in _MODULES.items():
        when_imported(module, partial(_imported, places))
    if asked["holders"]:
        when_imported("paddle", lambda paddle: _walks.append(_walks_of(_Paddle(paddle))))


def marked() -> None:
    """The program marks a phase, which may be over."""
    for walks in _walks:
        walks.look("mark")


def _stop() -> None:
    _on[0] = False
    _lines[1]()
    for walks in _walks:
        walks.on = False


def _imported(places: tuple[str, ...], module: Any) -> None:
    for place in places:
        owner = module if place == "" else sys.modules.get("paddle.base.libpaddle")
        for part in filter(None, place.split(".")):
            owner = getattr(owner, part, None)
        for operator, function in list(getattr(owner, "__dict__", {}).items()):
            if type(function) is _BUILT_IN and not operator.startswith("__"):
                setattr(owner, operator, _lines[0](function, operator.encode("utf-8", "replace")))
    for operator, function in list(vars(module.Tensor).items()) if places == _WITH_TENSOR else ():
        if (operator.startswith("__") and type(function) is _METHOD) or operator in _METHODS:
            name = "Tensor" if operator == "__init__" else operator.strip("_")
            setattr(module.Tensor, operator, _lines[0](function, name.encode()))


_BUILT_IN, _METHOD = type(len), type(str.join)


def _replaced(function: Any, operator: bytes) -> Any:
    on, backward = _on, operator == _PASS

    def call(*args: Any, **kwargs: Any) -> Any:
        number = _calls[0] = _calls[0] + 1
        if backward:
            _asks[0] = _before(operator, 1)
        elif number % _EACH == 0 and (number <= _FIRST or time.monotonic() > _looked[0] + LOOK):
            times, _told[0], _looked[0] = number // _EACH - _told[0], number // _EACH, time.monotonic()
            _asks[0] = _before(operator, times)
        within = _begin(operator) if on[0] else None
        try:
            # A constructor of Paddle 3.0 takes an empty dictionary for one with names.
            result = function(*args, **kwargs) if kwargs else function(*args)
        except Exception as error:
            if on[0]:
                _failed(error)
            raise
        finally:
            if within is not None and on[0]:
                _end(within)
        if backward or _asks[0] == ALWAYS or (_asks[0] == AT_TIMES and time.monotonic() > _asked[0] + PAUSE):
            _asks[0], _asked[0] = _after(operator, args), time.monotonic()
        return result

    call.__name__ = call.__qualname__ = getattr(function, "__name__", operator.decode())
    call.__module__ = getattr(function, "__module__", None) or "paddle"
    call.__doc__ = function.__doc__
    return call


def _before(operator: bytes, times: int) -> int:
    """A backward pass, or the latest of so many operators, is about to run, which may be the time to walk; gives when :func:`_after` is to be called."""
    for walks in _walks:
        walks.look("backward" if operator == _PASS else "operator", times)
    return _walks[0].asks if _walks else NEVER


def _after(operator: bytes, args: tuple[Any, ...]) -> int:
    """An operator or a backward pass has run, in which the peak may have risen, or gradients were made; gives the same."""
    for walks in _walks:
        if operator == _PASS:
            walks.look("gradients")
        elif walks.peak() > walks.above_peak:
            walks.ran(operator.decode(), args)
    return _walks[0].asks if _walks else NEVER


def _failed(error: BaseException) -> None:
    """Where memory ran out, write who holds tensors, and what was said of it, for a program that goes on may say nothing."""
    text = next(iter(_ARGS.__get__(error)), "")  # by no method of the user's
    at = max(map(text[:_SEARCHED].find, _OUT_OF_MEMORY)) if type(text) is str else -1
    if at < 0:
        return
    for walks in _walks:
        walks.walk()
    begin = text.rfind(_REFUSED, 0, at) if _REFUSED in text[:at] else text.rfind("\n", 0, at) + 1
    said = " ".join(text[begin : begin + _SAID].split())
    try:
        os.write(2, f"{_head().decode()}memlens met {said}\n".encode("utf-8", "replace"))
    except OSError:  # a closed descriptor
        return


#: The methods of tensors by which a walk asks.
_ASKING = ("data_ptr", "_offset", "_is_initialized", "_grad_ivar", "is_selected_rows", "_get_tensor_from_selected_rows")


class _Paddle:
    """What a walk asks of Paddle."""

    def __init__(self, paddle: Any) -> None:
        self._paddle, tensor = paddle, paddle.Tensor
        self._graphs = Graphs(tensor).of
        self._tensor, self.whole = tensor, True
        #: Gives the bytes that were allocated at most on the device that :meth:`level` saw.
        self.peak: Callable[[], int] = int
        self._of = {name: tensor.__dict__[name] for name in _ASKING}

    def is_tensor(self, kind: type) -> bool:
        return issubclass(kind, self._tensor)

    def level(self) -> int:
        """The bytes that are allocated on the device of the program now, 0 where that is not known."""
        try:
            device = self._paddle.framework._current_expected_place().get_device_id()
            core = self._paddle.base.core
            self.peak = partial(core.device_memory_stat_peak_value, "Allocated", device)
            return int(core.device_memory_stat_current_value("Allocated", device))
        except Exception:  # noqa: BLE001  a processor, or another Paddle
            return 0

    def beyond(self, _: Any, tensor: Any, role: str) -> Iterator[tuple[str, Any, str]]:
        """The gradient of a tensor; what graphs have saved is not open to Python, but see :meth:`graphs`."""
        if role != "gradient" and (grad := self._of["_grad_ivar"](tensor)) is not None:
            yield ".grad", grad, "gradient"

    def graphs(self, found: tuple[tuple[Any, str, str, str], ...]) -> Iterator[str]:
        """The graphs that tensors lead to, unless another thread may be changing them."""
        return self._graphs(found) if others_wait() else iter(())

    def address(self, tensor: Any) -> int:
        """Where the block of a tensor begins, 0 where it has none."""
        if not self._of["_is_initialized"](tensor):
            return 0
        begin = self._of["data_ptr"](tensor)
        if begin is None and self._of["is_selected_rows"](tensor):  # the gradient of a table of embeddings
            return self.address(self._of["_get_tensor_from_selected_rows"](tensor))
        if begin is None:  # a sparse tensor, whose parts are not looked at
            self.whole = False
            return 0
        return int(begin - self._of["_offset"](tensor))


def _walks_of(framework: _Paddle) -> Walks:
    """Walks that are written as lines, of no more text than those of calls.

    ::

        I1120 10:54:54.176411 14189 line.py:0] memlens holds 0x5606f8aeb000 variable feats[*] (main, train.py)
        I1120 10:54:54.176411 14189 line.py:0] memlens holds 0x0 graph total.grad_fn (main, train.py): Add 59 Relu 59
        I1120 10:54:54.176411 14189 line.py:0] memlens holds 0x0 -

    The last one says that all was looked at that variables lead to: what has no line is held by none; ``some`` ends a short walk.
    """
    paced = [0]  # bytes of the lines of calls from which on there is room

    def write(rows: Iterator[tuple[int, str]]) -> None:
        head, text = _head().decode(), 0
        for chunk in _chunks(f"{head}memlens holds {address:#x} {holder}" for address, holder in rows):
            text += os.write(2, chunk)
        paced[0] = _lines[-1]() + text

    found = Walks(framework, write, lambda: _lines[-1]() >= paced[0])
    atexit.register(found.walk, at_exit=True)
    return found


def _chunks(lines: Iterator[str]) -> Iterator[bytes]:
    """Whole lines in pieces that a pipe takes at once, so that no other line stands in the middle of one."""
    chunk = b""
    for line in lines:
        data = line.encode("utf-8", "replace") + b"\n"
        if len(chunk) + len(data) > _PIPE:
            yield chunk
            chunk = b""
        chunk += data
    yield chunk


def _compiled(file: str | None) -> list[Callable[..., Any]] | None:
    """The functions of ``_calls.c``, set up; ``None`` where this Python cannot load them."""
    if file is None or sys.implementation.name != "cpython" or "t" in getattr(sys, "abiflags", "t"):
        return None  # they are for interpreters that have the lock and the stable ABI
    try:
        from importlib.machinery import ExtensionFileLoader, ModuleSpec

        loader = ExtensionFileLoader("_calls", file)
        module: Any = loader.create_module(ModuleSpec("_calls", loader, origin=file))
        loader.exec_module(module)
        module.setup(_words, _before, _after, _failed, MethodType, "f_code", "f_back", "f_lasti")
    except Exception:  # noqa: BLE001  for another machine, or another interpreter of this process has them
        return None
    return [module.replaced, module.stop, module.written]


def _begin(operator: bytes) -> bytes | None:
    """Write the line of a call; gives the one that it is within, for :func:`_end`, and ``None`` where nothing is written."""
    try:
        within = _local.text
        _local.head = _head()
        text = _owner(operator, sys._getframe(2))
        outer = within[len(_PASS) :] if within.startswith(_PASS) and len(within) <= _LONGEST else b""
        if outer and text.endswith(outer):  # a hook, which the pass calls
            text = text[: -len(outer)] + b" < " + within
        _local.text = text
        _write(text)
    except Exception:  # noqa: BLE001  a recursion at its limit
        return None
    return within


def _end(within: bytes) -> None:
    """Write that a call is over, and which one it was within."""
    _local.text = within
    _write(within)


def _written() -> int:
    """The bytes of lines so far."""
    return _text[0]


def _owner(operator: bytes, frame: FrameType | None) -> bytes:
    text, frames = operator, 0
    for _ in range(_DEEPEST):
        if frame is None:
            break
        code = frame.f_code
        place = id(code), frame.f_lasti
        known = _places.get(place)
        if known is None:
            if len(_places) >= _MOST_PLACES:
                _places.clear()
            known = _places[place] = code, _words(frame)
        _, piece = known
        if piece is not None:
            frames += 1
            if frames > _MOST_FRAMES or (len(text) + len(piece) > _LONGEST and frames > 1):
                break
            text += piece
        frame = frame.f_back
    return text if len(text) <= _LONGEST else text[:_LONGEST].decode("utf-8", "ignore").encode()


def _words(frame: FrameType) -> bytes | None:
    """What is written of the place where a frame is; ``None`` where that is not the user's."""
    code = frame.f_code
    name = own_name_of(code.co_filename)
    return None if name is None else f" < {name}:{frame.f_lineno} {code.co_name}".encode("utf-8", "replace")


def _write(text: bytes) -> None:
    line = b"%bmemlens calls %b\n" % (_local.head, text)
    _text[0] += len(line)
    try:
        os.write(2, line)
    except OSError:  # a closed descriptor
        return


def _head() -> bytes:
    """A header as glog writes it, with this thread's number; the line after a call has that of the one before it."""
    now = time.time()
    second = int(now)
    if second != _second[0]:
        _second[:] = second, time.strftime("I%m%d %H:%M:%S", time.localtime(second)).encode()
    number = _local.number
    if not number:
        number = _local.number = threading.get_native_id()
    return b"%b.%06d %5d line.py:0] " % (_second[1], (now - second) * 1e6, number)
