"""Regular expressions taken apart: sets of bytes, and how the text of a named group becomes a number.

The parser is that of :mod:`re`, which is private to Python: here alone it is spoken to.  Where it says something that is not understood
the answer is the general one (a group is text, an expression has no program): slower, never wrong.
"""

from __future__ import annotations

import importlib
import re
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

ALL_BYTES = (1 << 256) - 1
_MOST_PATHS = 64
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
_LOOKS = ("AHEAD", "NOT_AHEAD", "BEHIND", "NOT_BEHIND")


class Item(Struct, frozen=True):
    """A part of an expression.

    Attributes:
        kind: ``BYTE``, ``GROUP``, ``BRANCH``, a repeat or a look at what is around as listed here; a place like ``AT_END``; or a word of
            the parser for what nothing more is known of.
        inner: The sequences in it: of a branch several.
        members: Of a byte those that it may be, a set of 256 bits.
        letters: These bytes in order, where they were written one by one.
        least: How often it stands there; of a look the width of what it looks at.
        most: The same, at most.
        number: Of a group its number, where it has one.
    """

    kind: str
    inner: tuple[tuple[Item, ...], ...] = ()
    members: int = 0
    letters: bytes = b""
    least: int = 1
    most: int = 1
    number: int | None = None

    @property
    def repeats(self) -> bool:
        """Whether it is a repeat."""
        return self.kind in _REPEATS

    @property
    def takes_no_text(self) -> bool:
        """Whether it is a condition: a place, or a look at what is around."""
        return self.kind in _LOOKS or self.kind.startswith("AT_")


#: Parts that follow each other.
Items = tuple[Item, ...]


class Conversion(IntEnum):
    """How the text of a named group becomes an int64; the group's expression says which.  -1: the group took no part."""

    DECIMAL = 0
    """``-?[0-9]{m,n}``: the number, at most 2**63-1."""
    HEXADECIMAL = 1
    """``0x[0-9a-f]{m,n}``, with or without ``0x``: the bits of the unsigned number; -1 for more than 16 digits."""
    WORD = 2
    """One of some texts, the empty one allowed: its index in :attr:`Group.words`."""
    DIGITS = 3
    """Digits with fixed punctuation between them, 18 at most (a clock): the digits read as one decimal number."""
    TEXT = 4
    """Anything else: the position of its first byte in the block, plus its length << :data:`TEXT_LENGTH` (2**23-1 at most)."""


#: Of the value of a text the bits of its position, and where its length begins.
TEXT_PLACE, TEXT_LENGTH = (1 << 40) - 1, 40


class Group(Struct, frozen=True, array_like=True):
    """A named group of an expression."""

    name: str
    number: int
    conversion: Conversion
    words: tuple[bytes, ...] = ()


@lru_cache(maxsize=1 << 8)
def parse(regex: bytes) -> tuple[Items, dict[str, int]]:
    """The parts of an expression over bytes, and the numbers of its named groups.

    Raises:
        re.error: It is none.
        NotImplementedError: It has flags (``(?i)``).
    """
    tree = _tree(regex)
    if int(tree.state.flags):
        raise NotImplementedError("flags")
    return _items(tree), dict(tree.state.groupdict)


def can_be_empty(regex: bytes) -> bool:
    """Whether an expression may match no text at all."""
    return bool(_tree(regex).getwidth()[0] == 0)


@lru_cache(maxsize=1 << 8)
def _tree(regex: bytes) -> Any:
    return importlib.import_module("re._parser").parse(regex)


def _items(tree: Any) -> Items:
    return tuple(_item(operation.name, argument) for operation, argument in tree)


def _item(operation: str, argument: Any) -> Item:
    if operation == "LITERAL":
        return Item("BYTE", members=1 << argument, letters=bytes([argument]))
    if operation == "NOT_LITERAL":
        return Item("BYTE", members=ALL_BYTES & ~(1 << argument))
    if operation == "ANY":
        return Item("BYTE", members=ALL_BYTES & ~(1 << ord("\n")))
    if operation == "IN":
        letters = bytes(value for kind, value in argument if kind.name == "LITERAL")
        return Item("BYTE", members=_set(argument), letters=letters if len(letters) == len(argument) else b"")
    if operation in _REPEATS:
        least, most, inner = argument
        return Item(operation, (_items(inner),), least=least, most=int(most))
    if operation == "BRANCH":
        return Item(operation, tuple(map(_items, argument[1])))
    if operation == "SUBPATTERN" and not argument[1] and not argument[2]:
        return Item("GROUP", (_items(argument[3]),), number=argument[0])
    if operation in ("ASSERT", "ASSERT_NOT"):
        kind = ("NOT_" if operation == "ASSERT_NOT" else "") + ("AHEAD" if argument[0] > 0 else "BEHIND")
        least, most = argument[1].getwidth()
        return Item(kind, (_items(argument[1]),), least=least, most=int(most))
    if operation == "AT":
        return Item(argument.name.removesuffix("_STRING"))
    if operation in ("SUBPATTERN", "ATOMIC_GROUP"):
        flagged = operation == "SUBPATTERN"
        return Item(operation, (_items(argument[3] if flagged else argument),), number=argument[0] if flagged else None)
    return Item(operation)


def _set(parts: Any) -> int:
    """The bytes of a class like ``[a-z_]``."""
    found = 0
    for kind, value in parts:
        if kind.name == "RANGE":
            found |= (1 << (value[1] + 1)) - (1 << value[0])
        elif kind.name == "CATEGORY":
            found |= _category(value.name)
        elif kind.name == "LITERAL":
            found |= 1 << value
    return ALL_BYTES & ~found if parts[0][0].name == "NEGATE" else found


@lru_cache(maxsize=8)
def _category(name: str) -> int:
    pattern = re.compile(rb"\%c" % {"DIGIT": b"d", "SPACE": b"s", "WORD": b"w"}[name.rpartition("_")[2]])
    found = sum(1 << byte for byte in range(256) if pattern.match(bytes([byte])))
    return ALL_BYTES & ~found if "_NOT_" in name else found


def runs_of(items: Items) -> list[bytes]:
    """Texts that stand in every match of a sequence."""
    found = [b""]
    for item in items:
        if len(item.letters) == 1:
            found[-1] += item.letters
        elif item.kind == "GROUP":
            first, *others = runs_of(item.inner[0])
            found[-1] += first
            found += others
        elif not item.kind.startswith("AT_"):
            found.append(b"")
    return found


def longest_text(regex: bytes) -> bytes:
    """The longest text that is known to stand in every match, in any case where case is ignored; empty where none is known."""
    return max(runs_of(_items(_tree(regex))), key=len)


@lru_cache(maxsize=1 << 8)
def groups_of(regex: bytes) -> tuple[Group, ...]:
    """The named groups of an expression, in order."""
    try:
        items, numbers = parse(regex)
        inner = dict(captures(items))
    except NotImplementedError:
        numbers, inner = dict(re.compile(regex).groupindex), {}
    return tuple(
        Group(name, number, *_conversion(inner.get(number)))
        for name, number in sorted(numbers.items(), key=lambda named: named[1])
    )


def captures(items: Items) -> Iterator[tuple[int, Items]]:
    """The groups in a sequence, with what is in them."""
    for item in items:
        if item.number is not None:
            yield item.number, item.inner[0]
        for part in item.inner:
            yield from captures(part)


#: One way through a group: literal bytes, and bytes of a set that are repeated.
_Path = tuple["bytes | Item", ...]

_DIGITS, _HEX = (sum(1 << byte for byte in digits) for digits in (b"0123456789", b"0123456789abcdefABCDEF"))
#: What stands in the shape of a path for repeated digits, hexadecimal digits and other bytes: no byte is one of these.
_DIGIT_RUN, _HEX_RUN, _OTHER_RUN = "\u0100\u0101\u0102"


def _conversion(items: Items | None) -> tuple[Conversion, tuple[bytes, ...]]:
    paths = None if items is None else _paths(items)
    if paths is None:
        return Conversion.TEXT, ()
    if all(isinstance(part, bytes) for path in paths for part in path):
        words = dict.fromkeys(b"".join(part for part in path if isinstance(part, bytes)) for path in paths)
        return Conversion.WORD, tuple(words)
    shapes = {"".join(map(_shape, path)) for path in paths}
    if shapes <= {_DIGIT_RUN, f"-{_DIGIT_RUN}"}:
        return Conversion.DECIMAL, ()
    if shapes <= {"0", f"0x{_DIGIT_RUN}", f"0x{_HEX_RUN}", _HEX_RUN}:
        return Conversion.HEXADECIMAL, ()
    most = max(sum(part.most for part in path if isinstance(part, Item)) for path in paths)
    if most <= 18 and all(_DIGIT_RUN in shape and not re.search(_NO_PUNCTUATION, shape) for shape in shapes):
        return Conversion.DIGITS, ()
    return Conversion.TEXT, ()


_NO_PUNCTUATION = rf"(?a)[\w{_HEX_RUN}{_OTHER_RUN}-]"


def _shape(part: bytes | Item) -> str:
    if isinstance(part, bytes):
        return part.decode("latin-1")
    if not part.least or part.members & ~_HEX:
        return _OTHER_RUN
    return _HEX_RUN if part.members & ~_DIGITS else _DIGIT_RUN


def _paths(items: Items) -> list[_Path] | None:
    """All ways through a sequence, in the order in which they are tried; ``None`` where they are too many or too odd."""
    paths: list[_Path] = [()]
    for item in items:
        following = _item_paths(item)
        if following is None or len(paths) * len(following) > _MOST_PATHS:
            return None
        paths = [_joined(path, after) for path in paths for after in following]
    return paths


def _joined(path: _Path, after: _Path) -> _Path:
    if path and after and isinstance(path[-1], bytes) and isinstance(after[0], bytes):
        return (*path[:-1], path[-1] + after[0], *after[1:])
    return path + after


def _item_paths(item: Item) -> list[_Path] | None:
    if item.kind == "BYTE":
        return [(bytes([letter]),) for letter in item.letters] or [(item,)]
    if item.kind == "MAX_REPEAT":
        (inner,) = item.inner
        if (item.least, item.most) == (0, 1):
            paths = _paths(inner)
            return None if paths is None else [*paths, ()]
        return (
            [(replace(inner[0], least=item.least, most=item.most),)]
            if [part.kind for part in inner] == ["BYTE"]
            else None
        )
    if item.kind in ("GROUP", "BRANCH") and item.number is None:
        found = [_paths(part) for part in item.inner]
        return None if None in found else [path for paths in found if paths is not None for path in paths]
    return [()] if item.takes_no_text else None


def looks_within_lines(regex: bytes, literal: bytes) -> bool:
    """Whether searching a text finds what searching its lines one by one does, of those lines that hold a literal."""
    try:
        items, _ = parse(regex)
    except NotImplementedError:
        return False
    return literal in b"\n".join(runs_of(items)) and _within_lines(items)


def _within_lines(items: Items) -> bool:
    """Whether a line end can neither be matched nor be told from the end of a text."""
    known = (*_REPEATS, *_LOOKS, "BYTE", "GROUP", "BRANCH", "AT_BOUNDARY")
    return all(
        item.kind in known and not item.members >> ord("\n") & 1 and all(map(_within_lines, item.inner))
        for item in items
    )
