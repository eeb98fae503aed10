"""Values of a memory snapshot: which numbers can be counts, and what columns number, each once: call stacks, memory pools and texts of the user's.

A stack is named by what says most of it.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from functools import lru_cache
from typing import Any, Generic, TypeGuard, TypeVar

from memlens.inputs.stack_names import GENERATED, is_compiler, is_generated, joined

#: Larger sizes are no sizes of GPU memory (128 TiB).
MOST_BYTES = 1 << 47
#: One more than the last address.
ADDRESSES = 1 << 64
#: Characters of a text of the user's, at most.
LONGEST_TEXT = 200
#: Characters of a frame in the name of an owner, at most.
_LONGEST_FRAME = 80
#: Characters of one text of a frame, and frames of one stack, that are looked at.
_LONGEST_TEXT = 2000
_MOST_FRAMES = 512

#: Python frames that stand in every stack and tell nothing: they only call what is above them.
_PASSING_ON = frozenset(
    {
        ("module.py", "_call_impl"),
        ("module.py", "_wrapped_call_impl"),
        ("_contextlib.py", "decorate_context"),
        ("optimizer.py", "wrapper"),
        ("optimizer.py", "_use_grad"),
        ("lr_scheduler.py", "wrapper"),
        ("_tensor.py", "__torch_function__"),
        ("graph.py", "_engine_run_backward"),
    }
)
_OPERATOR = re.compile(r"\bat::_ops::(\w+)::(?:call|redispatch)\b")
_BACKWARD = re.compile(r"\b(?:torch::autograd::)(?:generated::)?(\w+)::apply\(")
#: Operators that only make the memory for the one that is meant.
_MAKING = frozenset({"empty", "empty_memory_format", "empty_strided", "empty_like", "new_empty", "resize_", "set_"})
#: C++ functions between the allocator and whoever called it, and around the program.
PLUMBING = re.compile(
    r"torch::unwind|CapturedTraceback|gather_with_cpp|CUDACachingAllocator|CachingAllocator|at::detail::empty|^_?_?libc_start|^_?_?clone"
    r"|^pthread|^_start\b|^std::|^c10::impl::wrap_kernel|^Py|^_Py|^cfunction|^method_vectorcall|::create_out\("
)

Frame = tuple[str, int, str]


Value = TypeVar("Value", bound=Hashable)


class Numbering(Generic[Value]):
    """Numbers distinct values in the order in which they come.

    Attributes:
        values: The values by number.
    """

    def __init__(self) -> None:
        self._numbers: dict[Value, int] = {}
        self.values: list[Value] = []

    def number(self, value: Value) -> int:
        """The number of a value."""
        number = self._numbers.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


def is_count(value: Any, below: int) -> TypeGuard[int]:
    """Whether a value is a whole number, not negative and below a bound."""
    return type(value) is int and 0 <= value < below


class Tables:
    """The texts that columns of a snapshot hold by number: call stacks, texts that users write, memory pools.

    A stack has at most 512 frames, innermost first; a frame is file name, line, function.
    """

    def __init__(self) -> None:
        self.texts: Numbering[str] = Numbering()
        self.pools: Numbering[tuple[int, int]] = Numbering()
        self._stacks: Numbering[tuple[int, ...]] = Numbering()
        self._frames: Numbering[Frame] = Numbering()
        # By the ids of objects, which are kept, so that no other object gets the same id.
        self._known_lists: dict[int, tuple[int, Any]] = {}
        self._known_frames: dict[int, tuple[int, Any]] = {}
        self._known_metadata: dict[int, tuple[int, Any]] = {}
        self._long_texts: dict[str, str] = {}

    def refuse(self, trace: Any) -> None:
        """Take a trace for no stack, which only a damaged file has it for: its entries may stand there as rows."""
        self._known_lists[id(trace)] = -1, trace

    def add(self, values: Iterable[Any]) -> None:
        """Number stacks, pools and texts that stand among other values, in their order."""
        for value in values:
            if type(value) is list:
                self.stack(value)
            elif type(value) in (str, dict):
                self.metadata(value)
            else:
                self.pool(value)

    def stack(self, frames: Any) -> int:
        """The number of a stack; -1 for none.

        Args:
            frames: Frames as the snapshot has them, dicts with ``filename``, ``line`` and ``name``, innermost first.
        """
        if type(frames) not in (list, tuple):
            return -1
        known = self._known_lists.get(id(frames))
        if known is not None:
            return known[0]
        seen, new = self._known_frames.get, self._frame
        stack = tuple(
            [new(frame) if (found := seen(id(frame))) is None else found[0] for frame in frames[:_MOST_FRAMES]]
        )
        number = self._stacks.number(stack) if stack else -1
        self._known_lists[id(frames)] = number, frames
        return number

    def whole(self, number: int) -> tuple[str, ...]:
        """All frames of a stack as text, innermost first."""
        return tuple(f"{file}:{line} {function}" for file, line, function in self._frames_of(number))

    def name(self, number: int) -> str:
        """The name of a stack as an owner: what called for the memory, then its callers, in at most 240 characters.

        Python frames as ``file.py:line function``, without those that only pass a call on; generated code by one name.  A stack without Python frames (the backward
        pass runs on a thread of its own) is named by its operators and autograd nodes, or else by its functions.
        """
        labels = [label for frame in self._frames_of(number) for label in _labels_of(frame)]
        best = min((level for level, _ in labels), default=0)
        return joined(label for level, label in labels if level == best) or "(no name)"

    def _frames_of(self, number: int) -> list[Frame]:
        return [self._frames.values[frame] for frame in self._stacks.values[number]]

    def innermost(self, number: int) -> Frame:
        """The innermost frame of a stack; one without a name where there is none."""
        return self._frames_of(number)[0] if number >= 0 else ("", 0, "")

    def _frame(self, frame: Any) -> int:
        """The number of a frame that was not seen yet."""
        content = "?", 0, "?"
        if type(frame) is dict:
            line = frame.get("line")
            content = (
                self._text(frame.get("filename")),
                line if is_count(line, 1 << 31) else 0,
                self._text(frame.get("name")),
            )
        number = self._frames.number(content)
        self._known_frames[id(frame)] = number, frame
        return number

    def _text(self, text: Any) -> str:
        if type(text) is not str:
            return "?"
        if len(text) <= _LONGEST_TEXT:
            return text
        # One long text may be that of many frames: it is cut once.
        return self._long_texts.setdefault(text, f"{text[: _LONGEST_TEXT // 2]}…{text[-_LONGEST_TEXT // 2 :]}")

    def pool(self, value: Any) -> int:
        """The number of a pool, which torch names by a pair of numbers; -1 for none."""
        is_pool = type(value) is tuple and len(value) == 2 and all(type(part) is int for part in value)
        return self.pools.number(value) if is_pool else -1

    def metadata(self, value: Any) -> int:
        """The number of metadata among the texts, shortened unless they are a text; -1 for none."""
        if not value or type(value) is str:
            return self.texts.number(value) if value and type(value) is str else -1
        known = self._known_metadata.get(id(value))
        if known is None:
            text = as_text(value)
            known = self._known_metadata[id(value)] = (self.texts.number(text) if text else -1), value
        return known[0]

    def forget_objects(self) -> None:
        """Let go of the objects that were numbered; none may be numbered again."""
        for known in (self._known_lists, self._known_frames, self._known_metadata, self._long_texts):
            known.clear()


@lru_cache(maxsize=1 << 14)
def _labels_of(frame: Frame) -> list[tuple[int, str]]:
    """The labels that a frame may have, each with its level: a stack is named by the labels of the lowest level that it has.

    The levels are Python frames, those that only pass a call on, operators and autograd nodes, functions that tell something, all others.
    """
    file, line, function = frame
    base = file.replace("\\", "/").rpartition("/")[2]
    # torch.profiler's own converter writes the whole frame into the name.
    if file == "none" and ".py(" in function:
        return [(0, _cut(function))]
    if is_generated(file):
        return [(0, GENERATED)]
    if is_compiler(file) or (base, function) in _PASSING_ON:
        return [(1, _cut(function))]
    if file.endswith((".py", ">")):
        return [(0, _cut(f"{base}:{line} {function}"))]
    plain = _plain(function)
    labels = [(4, plain)]
    place = "" if file in ("", "?", "??") else f"{base}:{line} "
    if place + plain and not PLUMBING.search(plain):
        labels.append((3, _cut(place + plain)))
    match = _OPERATOR.search(function) or _BACKWARD.search(function)
    if match and match[1] not in _MAKING and match[1] != "Node":
        labels.append((2, _cut(match[1])))
    return labels


def _plain(function: str) -> str:
    """A C++ function without its arguments and template parameters."""
    head = function.replace("(anonymous namespace)", "{anonymous}").partition("(")[0]
    return _cut(head.partition("<")[0] or function)


def _cut(label: str) -> str:
    return label if len(label) <= _LONGEST_FRAME else f"{label[: _LONGEST_FRAME - 1]}…"


_OF_ENTRIES = frozenset({"action", "addr", "size"})


def as_text(value: Any, room: int = LONGEST_TEXT) -> str:
    """Metadata as a text of at most about ``room`` characters: a text as it is, a dict as ``step=3, phase=forward``.

    Every level of nesting takes from the room, so values that hold themselves or each other again and again end soon.  An entry of the trace, which
    only a damaged file has there, is none.
    """
    if type(value) is dict and value.keys() >= _OF_ENTRIES:
        return ""
    if type(value) is dict:
        return _joined(((f"{key[:room]}=", item) for key, item in value.items()), room)
    return _within(value, room)


def _within(value: Any, room: int) -> str:
    """A value within another one."""
    if type(value) is dict and value.keys() >= _OF_ENTRIES:
        return ""
    if type(value) is dict:
        return f"{{{as_text(value, room - 2)}}}"
    if type(value) in (list, tuple):
        return f"[{_joined((('', item) for item in value), room - 2)}]"
    if type(value) not in (str, int, float, bool):
        return ""
    text = str(value)
    return text if len(text) <= room else f"{text[: max(room - 1, 0)]}…"


def _joined(items: Any, room: int) -> str:
    parts: list[str] = []
    for head, item in items:
        if room <= 0:
            parts.append("…")
            break
        part = head + _within(item, room - len(head))
        parts.append(part)
        room -= len(part) + 2
    return ", ".join(parts)
