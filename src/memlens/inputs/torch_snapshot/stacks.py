"""Values of a memory snapshot: which numbers can be counts, and what columns number, each once: call stacks, memory pools and texts of the user's."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import islice
from reprlib import Repr
from typing import Any, Generic, TypeVar

from memlens.inputs.holders import is_count
from memlens.inputs.stack_names import OPERATOR, Frame, name_of

#: Larger sizes are no sizes of GPU memory (128 TiB).
MOST_BYTES = 1 << 47
#: One more than the last address.
ADDRESSES = 1 << 64
#: Characters of a text of the user's, at most.
LONGEST_TEXT = 200
#: Characters of one text of a frame, and frames of one stack, that are looked at.
_LONGEST_TEXT = 2000
_MOST_FRAMES = 512

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


class Tables:
    """The texts that columns of a snapshot hold by number: call stacks, texts that users write, memory pools.

    A stack has at most 512 frames, innermost first; a frame is file name, line, function.

    Attributes:
        of_paddle: Something names an operator, which may be none, as entries of Paddle's history do.
    """

    def __init__(self) -> None:
        self.texts: Numbering[str] = Numbering()
        self.pools: Numbering[tuple[int, int]] = Numbering()
        self.of_paddle = False
        self._operators: Numbering[str] = Numbering()
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

    def operator(self, value: Any) -> int:
        """The number of an operator; -1 for none."""
        if type(value) is not str:
            return -1
        self.of_paddle = True
        return self._operators.number(self._text(value)) if value else -1

    def called(self, stack: int, operator: int) -> int:
        """The number of a stack with an operator before its frames; -1 where neither is known.

        Where Paddle knows no stack it makes one frame of the operator, which says nothing more.
        """
        frames = self._stacks.values[stack] if stack >= 0 else ()
        if operator < 0:
            return stack
        name = self._operators.values[operator]
        if len(frames) == 1 and name in (frame := self._frames.values[frames[0]]) and not frame[0].endswith(".py"):
            frames = ()
        return self._stacks.number((self._frames.number((OPERATOR, 0, name)), *frames[: _MOST_FRAMES - 1]))

    def whole(self, number: int) -> tuple[str, ...]:
        """All frames of a stack as text, innermost first."""
        frames = self._frames_of(number)
        return tuple(name if file == OPERATOR else f"{file}:{line} {name}" for file, line, name in frames)

    def name(self, number: int) -> str:
        """The name of a stack as an owner: :func:`~memlens.inputs.stack_names.name_of`."""
        return name_of(self._frames_of(number))

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


#: Cuts values that hold others, or themselves, again and again.
_SHORT = Repr()
_SHORT.maxlevel, _SHORT.maxstring = 2, LONGEST_TEXT
_OF_ENTRIES = frozenset({"action", "addr", "size"})


def as_text(value: Any) -> str:
    """Metadata as a text of at most 200 characters: a text as it is, a dict as ``step=3, phase=forward``.

    An entry of the trace, which only a damaged file has there, is none.
    """
    if type(value) is not dict:
        return value[:LONGEST_TEXT] if type(value) is str else ""
    if value.keys() >= _OF_ENTRIES:
        return ""
    items = islice(value.items(), LONGEST_TEXT)
    parts = (
        f"{key[:LONGEST_TEXT]}={item if type(item) is str else _SHORT.repr(item)}"[:LONGEST_TEXT] for key, item in items
    )
    text = ", ".join(parts)
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"
