"""What text a line must hold so that a regular expression can match in it: a cheap first look before the expression.

The expression is taken apart with the parser of :mod:`re`, which is private to Python.  Where it has changed, or says
something that is not understood here, the answer is "nothing is known", and matching goes line by line: slower, never wrong.
"""

from __future__ import annotations

import importlib
import re
from typing import Any, NamedTuple

__all__ = ["required_literals"]

#: Most texts kept as alternatives; more would cost more than they save.
_MOST = 8
_LONGEST = 64

Texts = frozenset[bytes]
_NOTHING: Texts = frozenset([b""])


class _Part(NamedTuple):
    """What is known of one part of an expression.

    ``exact``: it matches exactly one of these texts and nothing else; ``None`` where that cannot be said.
    ``needed``: whatever it matches holds one of these texts; ``{b""}`` where nothing is known.
    """

    exact: Texts | None
    needed: Texts


_UNKNOWN = _Part(None, _NOTHING)
_EMPTY = _Part(_NOTHING, _NOTHING)


def required_literals(pattern: bytes) -> tuple[bytes, ...] | None:
    r"""Texts of which at least one stands in every line that the expression matches.

    Args:
        pattern: A regular expression over bytes that compiles.

    Returns:
        The texts, sorted, or ``None`` where no such texts are known (``\d+``, all of it with ignored case, …).
    """
    try:
        tree = importlib.import_module("re._parser").parse(pattern)
        flags = int(tree.state.flags)
        part = _sequence(list(tree), flags, _NOTHING)
    except Exception:  # noqa: BLE001 - whatever a future parser does, the line-by-line way stays right
        return None
    best = _better(part.needed, part.exact or _NOTHING)
    return tuple(sorted(best)) if all(best) else None


def _better(one: Texts, other: Texts) -> Texts:
    """Of two sets of needed texts the one that tells more: longer texts first, then fewer."""

    def worth(texts: Texts) -> tuple[int, int]:
        return min(map(len, texts)), -len(texts)

    return max(one, other, key=worth)


def _sequence(items: list[Any], flags: int, before: Texts) -> _Part:
    """Parts that follow each other; ``before`` is what stands right before the first one, for sure."""
    run, needed, exact = before, before, True
    for item in items:
        # An alternative that is not exact still follows the run: START and STEP of "ST(?:ART \d|EP \d)".
        part = _item(item, flags, run)
        joined = _join(run, part.exact)
        if joined is not None:
            run = joined
        else:
            exact = False
            needed = _better(needed, run)
            run = _NOTHING if part.exact is None else part.exact
        needed = _better(needed, part.needed)
    return _Part(run if exact else None, _better(needed, run))


def _join(run: Texts, exact: Texts | None) -> Texts | None:
    """Every text of the run followed by every text of the part, or ``None`` where those are too many or not known."""
    if exact is None or len(run) * len(exact) > _MOST:
        return None
    joined = frozenset(head + tail for head in run for tail in exact)
    return joined if max(map(len, joined)) <= _LONGEST else None


def _item(item: Any, flags: int, before: Texts) -> _Part:
    operation, argument = str(item[0]), item[1]
    if operation == "LITERAL":
        return _literal(argument, flags)
    if operation == "AT":  # ^ $ \b: between characters, so the run goes on
        return _EMPTY
    if operation in ("ASSERT", "ASSERT_NOT"):
        # What is looked at ahead or behind stands in the line too, but it may overlap what comes next.
        return _Part(
            _NOTHING, _sequence(list(argument[1]), flags, _NOTHING).needed if operation == "ASSERT" else _NOTHING
        )
    if operation == "SUBPATTERN":
        _, add, remove, inner = argument
        return _sequence_after(list(inner), flags & ~remove | add, before)
    if operation == "ATOMIC_GROUP":
        return _sequence_after(list(argument), flags, before)
    if operation in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        least, most, inner = argument
        if least < 1:
            return _UNKNOWN
        part = _sequence(list(inner), flags, _NOTHING)
        return part if least == most == 1 else _Part(None, part.needed)
    if operation == "BRANCH":
        return _branch(argument[1], flags, before)
    return _UNKNOWN


def _literal(code: int, flags: int) -> _Part:
    if flags & re.LOCALE:
        return _UNKNOWN
    text = bytes([code])
    # Bytes have no case beyond ASCII letters, which is what bytes.lower() knows as well.
    texts = frozenset([text.lower(), text.upper()]) if flags & re.IGNORECASE else frozenset([text])
    return _Part(texts, texts)


def _sequence_after(items: list[Any], flags: int, before: Texts) -> _Part:
    """A group: what it matches alone, and what it needs together with what stands before it."""
    alone = _sequence(items, flags, _NOTHING)
    if alone.exact is not None:
        return alone
    return _Part(None, _sequence(items, flags, before).needed)


def _branch(alternatives: list[Any], flags: int, before: Texts) -> _Part:
    parts = [_sequence_after(list(alternative), flags, before) for alternative in alternatives]
    exacts = [part.exact for part in parts]
    exact: Texts | None = None
    if all(e is not None for e in exacts):
        exact = frozenset().union(*(e for e in exacts if e is not None))
        if len(exact) > _MOST:
            exact = None
    # An exact alternative needs what stands before it, followed by itself.
    needed_each = [part.needed if part.exact is None else (_join(before, part.exact) or part.exact) for part in parts]
    needed: Texts = frozenset().union(*needed_each)
    return _Part(exact, needed if len(needed) <= _MOST else _NOTHING)
