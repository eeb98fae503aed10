"""Regular expressions taken apart: sets of bytes, and how the text of a named group becomes a number.

The parser is that of :mod:`re`, which is private to Python.  Where it says something that is not understood here the answer
is the general one (a group is text, an expression has no program): slower, never wrong.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple

__all__ = [
    "ALL_BYTES",
    "Conversion",
    "Group",
    "Item",
    "byte_set",
    "can_be_empty",
    "captures",
    "groups_of",
    "longest_text",
    "looks_within_lines",
    "parse",
    "runs_of",
]

#: Of the parser of ``re``: an operation and its argument.
Item = tuple[Any, Any]
_MOST_PATHS = 64


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
    """Anything else: the position of its first byte in the block, plus its length << 40 (2**23-1 at most)."""


class Group(NamedTuple):
    """A named group of an expression."""

    name: str
    number: int
    conversion: Conversion
    words: tuple[bytes, ...] = ()


def parse(regex: bytes) -> tuple[list[Item], dict[str, int]]:
    """The tree of an expression over bytes, and the numbers of its named groups.

    Raises:
        re.error: It is none.
        NotImplementedError: It has flags (``(?i)``).
    """
    tree = _tree(regex)
    if int(tree.state.flags):
        raise NotImplementedError("flags")
    return list(tree), dict(tree.state.groupdict)


def can_be_empty(regex: bytes) -> bool:
    """Whether an expression may match no text at all."""
    return bool(_tree(regex).getwidth()[0] == 0)


@lru_cache(maxsize=1 << 8)
def _tree(regex: bytes) -> Any:
    return importlib.import_module("re._parser").parse(regex)


def byte_set(item: Item) -> int | None:
    """The bytes that an item matches one of, as a set of 256 bits; ``None`` where the item is not of one byte."""
    operation, argument = item[0].name, item[1]
    if operation == "LITERAL":
        return 1 << int(argument)
    if operation == "NOT_LITERAL":
        return ALL_BYTES & ~(1 << int(argument))
    if operation == "ANY":
        return ALL_BYTES & ~(1 << 10)
    if operation != "IN":
        return None
    found, negated = 0, False
    for kind, value in argument:
        if kind.name == "NEGATE":
            negated = True
        elif kind.name == "RANGE":
            found |= (1 << (value[1] + 1)) - (1 << value[0])
        elif kind.name == "CATEGORY":
            found |= _category(value.name)
        else:
            found |= 1 << value
    return ALL_BYTES & ~found if negated else found


ALL_BYTES = (1 << 256) - 1


@lru_cache(maxsize=8)
def _category(name: str) -> int:
    pattern = re.compile(rb"\%c" % {"DIGIT": b"d", "SPACE": b"s", "WORD": b"w"}[name.rpartition("_")[2]])
    found = sum(1 << byte for byte in range(256) if pattern.match(bytes([byte])))
    return ALL_BYTES & ~found if "_NOT_" in name else found


def runs_of(items: Sequence[Item]) -> list[bytes]:
    """Texts that stand in every match of a sequence."""
    found = [b""]
    for operation, argument in items:
        name = str(operation)
        if name == "LITERAL":
            found[-1] += bytes([argument])
        elif name == "SUBPATTERN" and not argument[1] and not argument[2]:
            first, *others = runs_of(list(argument[3]))
            found[-1] += first
            found += others
        elif name != "AT":
            found.append(b"")
    return found


def longest_text(regex: bytes) -> bytes:
    """The longest text that is known to stand in every match, in any case where case is ignored; empty where none is known."""
    return max(runs_of(list(importlib.import_module("re._parser").parse(regex))), key=len)


@lru_cache(maxsize=1 << 8)
def groups_of(regex: bytes) -> tuple[Group, ...]:
    """The named groups of an expression, in order."""
    try:
        tree, numbers = parse(regex)
        inner = dict(captures(tree))
    except NotImplementedError:
        numbers, inner = dict(re.compile(regex).groupindex), {}
    return tuple(
        Group(name, number, *_conversion(inner.get(number)))
        for name, number in sorted(numbers.items(), key=lambda named: named[1])
    )


def captures(items: Iterable[Item]) -> Iterable[tuple[int, list[Item]]]:
    """The groups in a tree, with what is in them."""
    for operation, argument in items:
        name = str(operation)
        if name == "SUBPATTERN":
            if argument[0] is not None:
                yield argument[0], list(argument[3])
            yield from captures(argument[3])
        elif name == "BRANCH":
            for branch in argument[1]:
                yield from captures(branch)
        elif name.endswith("_REPEAT"):
            yield from captures(argument[2])
        elif name in ("ASSERT", "ASSERT_NOT"):
            yield from captures(argument[1])
        elif name == "ATOMIC_GROUP":
            yield from captures(argument)


class _Run(NamedTuple):
    """Bytes of one set, repeated."""

    members: int
    least: int
    most: int


#: One way through a group: literal bytes and runs.
_Path = tuple["bytes | _Run", ...]

_DIGITS, _HEX = _category("CATEGORY_DIGIT"), sum(1 << byte for byte in b"0123456789abcdefABCDEF")


def _conversion(items: Sequence[Item] | None) -> tuple[Conversion, tuple[bytes, ...]]:
    paths = None if items is None else _paths(items)
    if paths is None:
        return Conversion.TEXT, ()
    if all(isinstance(part, bytes) for path in paths for part in path):
        words = dict.fromkeys(b"".join(part for part in path if isinstance(part, bytes)) for path in paths)
        return Conversion.WORD, tuple(words)
    if () in paths:
        return Conversion.TEXT, ()
    if all(_is_decimal(path) for path in paths):
        return Conversion.DECIMAL, ()
    if all(_is_hexadecimal(path) for path in paths):
        return Conversion.HEXADECIMAL, ()
    if all(_is_punctuated(path) for path in paths):
        return Conversion.DIGITS, ()
    return Conversion.TEXT, ()


def _is_decimal(path: _Path) -> bool:
    run = path[-1]
    return path[:-1] in ((), (b"-",)) and isinstance(run, _Run) and not run.members & ~_DIGITS and run.least > 0


def _is_hexadecimal(path: _Path) -> bool:
    if path == (b"0",):
        return True
    run, prefixed = path[-1], path[:-1] == (b"0x",)
    if not (prefixed or len(path) == 1) or not isinstance(run, _Run):
        return False
    # Without 0x, a run of digits alone would be decimal.
    return not run.members & ~_HEX and (prefixed or bool(run.members & ~_DIGITS)) and run.least > 0


def _is_punctuated(path: _Path) -> bool:
    runs = [part for part in path if isinstance(part, _Run)]
    literal = b"".join(part for part in path if isinstance(part, bytes))
    digits = bool(runs) and all(not run.members & ~_DIGITS and run.least > 0 for run in runs)
    return digits and sum(run.most for run in runs) <= 18 and not re.search(rb"[\w-]", literal)


def _paths(items: Sequence[Item]) -> list[_Path] | None:
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
    operation, argument = item[0].name, item[1]
    if operation == "LITERAL":
        return [(bytes([argument]),)]
    if operation == "IN":
        if all(kind.name == "LITERAL" for kind, _ in argument):
            return [(bytes([value]),) for _, value in argument]
        members = byte_set(item)
        return None if members is None else [(_Run(members, 1, 1),)]
    if operation == "MAX_REPEAT":
        least, most, inner = argument
        if (least, most) == (0, 1):
            paths = _paths(list(inner))
            return None if paths is None else [*paths, ()]
        members = byte_set(inner[0]) if len(inner) == 1 else None
        return None if members is None else [(_Run(members, least, int(most)),)]
    if operation == "BRANCH":
        found = [_paths(list(branch)) for branch in argument[1]]
        return None if None in found else [path for paths in found if paths is not None for path in paths]
    if operation == "SUBPATTERN" and argument[0] is None and not argument[1] and not argument[2]:
        return _paths(list(argument[3]))
    if operation in ("ASSERT", "ASSERT_NOT", "AT"):
        return [()]  # it takes no text
    return None


def looks_within_lines(regex: bytes, literal: bytes) -> bool:
    """Whether searching a text finds what searching its lines one by one does, of those lines that hold a literal."""
    try:
        items, _ = parse(regex)
    except NotImplementedError:
        return False
    return literal in b"\n".join(runs_of(items)) and _within_lines(items)


def _within_lines(items: Iterable[Item]) -> bool:
    """Whether a line end can neither be matched nor be told from the end of a text."""
    for item in items:
        operation, argument, members = item[0].name, item[1], byte_set(item)
        if members is not None:
            inner: list[Item] = []
            if members >> ord("\n") & 1:
                return False
        elif operation == "SUBPATTERN":
            inner = list(argument[3])
        elif operation == "BRANCH":
            inner = [of_branch for branch in argument[1] for of_branch in branch]
        elif operation.endswith("_REPEAT"):
            inner = list(argument[2])
        elif operation in ("ASSERT", "ASSERT_NOT"):
            inner = list(argument[1])
        elif (operation, str(argument)) == ("AT", "AT_BOUNDARY"):
            inner = []
        else:
            return False
        if not _within_lines(inner):
            return False
    return True
