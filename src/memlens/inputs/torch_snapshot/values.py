"""Values of a memory snapshot: which of them can be counts and pools, and what users write into it as short texts."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, TypeGuard, TypeVar

__all__ = ["ADDRESSES", "LONGEST_TEXT", "MOST_BYTES", "Numbering", "as_pool", "as_text", "is_count", "stage_and_name"]

#: Larger sizes are no sizes of GPU memory (128 TiB).
MOST_BYTES = 1 << 47
#: One more than the last address.
ADDRESSES = 1 << 64
#: Characters of a text of the user's, at most.
LONGEST_TEXT = 200
_STAGES = ("START", "END")

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


def as_pool(value: Any) -> tuple[int, int] | None:
    """A pair of numbers, as torch names a pool; ``None`` for anything else."""
    if type(value) is tuple and len(value) == 2 and all(type(part) is int for part in value):
        return value
    return None


def as_text(value: Any, room: int = LONGEST_TEXT) -> str:
    """Metadata as a text of at most about ``room`` characters: a text as it is, a dict as ``step=3, phase=forward``.

    Every level of nesting takes from the room, so values that hold themselves or each other again and again end soon.
    """
    if type(value) is dict:
        return _joined(((f"{key[:room]}=", item) for key, item in value.items()), room)
    return _within(value, room)


def _within(value: Any, room: int) -> str:
    """A value within another one."""
    if type(value) is dict:
        return f"{{{as_text(value, room - 2)}}}"
    if type(value) in (list, tuple):
        return f"[{_joined((('', item) for item in value), room - 2)}]"
    if value is None or type(value) not in (str, int, float, bool):
        return ""
    text = value if type(value) is str else str(value)
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


def stage_and_name(*pairs: tuple[Any, Any]) -> str:
    """``START name`` or ``END name`` of the first pair that is a stage and a name; nothing where none is."""
    for stage, name in pairs:
        if type(stage) is str and stage in _STAGES and type(name) is str and name:
            return f"{stage} {name[:LONGEST_TEXT]}"
    return ""
