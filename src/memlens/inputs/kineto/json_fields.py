"""Values of some keys of many JSON objects, read out of their text together, without parsing them.

Only plain spellings are read here: keys without escapes, numbers of up to 18 digits and without exponents.  Everything else is *odd*
and left to the JSON parser, object by object.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens.inputs.kineto.json_objects import unescaped
from memlens.inputs.paddle.swar import as_word, decimal_from, gather

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memlens.inputs.kineto.json_objects import Objects

    Positions = NDArray[np.int64]
    Text = NDArray[np.uint8]

__all__ = ["MOST", "KeySet", "Values", "string_ends", "text_stands_at", "thousandths_at", "wholes_at"]

#: Masks that keep the first 0 … 8 characters of a word.
_FIRST = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)
_NOT_SPACE = re.compile(rb"[^ \t\r\n]")
#: So many spaces in a row are passed one by one, for all places together.
_FEW_SPACES = 8
#: Places of the table of keys, as a power of two: eight for a key keep them apart.
_TABLE_BITS = 7
#: What may follow a number.
_AFTER_NUMBER = np.zeros(256, np.bool_)
_AFTER_NUMBER[list(b",}] \t\r\n")] = True
_POWERS_OF_TEN = 10 ** np.arange(19, dtype=np.int64)
#: The largest number whose thousandths are read.
MOST = 4 * 10**15


class KeySet:
    """Keys to look for; no two of one length may have the same first seven characters.

    Args:
        keys: The keys, as they stand between quotes.
    """

    def __init__(self, keys: tuple[str, ...]) -> None:
        self.keys = keys
        self._quoted = tuple(b'"' + key.encode() + b'"' for key in keys)
        marks = _marks(
            np.array([as_word(text[:8]) for text in self._quoted], np.uint64),
            np.array([len(text) for text in self._quoted], np.int64),
        )
        # A multiplier that gives each key a place of its own in a table: found within a few tries.
        self._multiplier = next(
            multiplier
            for multiplier in (np.uint64(pow(0x9E3779B97F4A7C15, k, 1 << 64)) for k in range(1, 10_000))
            if len(np.unique(_places(marks, multiplier))) == len(keys)
        )
        self._table, self._number = np.zeros(1 << _TABLE_BITS, np.uint64), np.full(1 << _TABLE_BITS, -1, np.int8)
        places = _places(marks, self._multiplier)
        self._table[places], self._number[places] = marks, np.arange(len(keys))

    def strings(self, text: Text, first: Positions, last: Positions) -> tuple[Positions, NDArray[np.int8]]:
        """Which of the strings given by their quotes are one of the keys: their indices, int64, and the number of the key, int8."""
        length = last - first + 1
        words = gather(text, first)
        words &= _FIRST[np.minimum(length, 8)]
        marks = _marks(words, length)
        place = _places(marks, self._multiplier)
        found = np.flatnonzero(self._table[place] == marks)
        which = self._number[place[found]]
        for k, quoted in enumerate(self._quoted):
            if len(quoted) >= 8:  # what follows was not compared yet
                like = np.flatnonzero(which == k)
                which[like[~text_stands_at(text, first[found[like]], quoted)]] = -1
        known = which >= 0
        return found[known], which[known]


def _marks(words: NDArray[np.uint64], length: NDArray[np.int64]) -> NDArray[np.uint64]:
    """One number for the first characters of a text and its length."""
    return words ^ (np.minimum(length, 255).astype(np.uint64) << np.uint64(56))


def _places(marks: NDArray[np.uint64], multiplier: np.uint64) -> NDArray[np.uint64]:
    return (marks * multiplier) >> np.uint64(64 - _TABLE_BITS)


class Values:
    """Where the values of some keys begin, for the objects of one block.

    Args:
        objects: The objects.
        keys: The keys to look for, in the objects and in the objects that these hold.
    """

    def __init__(self, objects: Objects, keys: KeySet) -> None:
        self._objects, self._keys = objects, keys
        text, first, last = objects.text, objects.first_quotes, objects.last_quotes
        # Strings of the objects and of what they hold; lists hold most strings, and those are no keys.
        near = np.flatnonzero(objects.depths[objects.brackets_before - 1] <= 2)
        first, last, bracket = first[near], last[near], objects.brackets_before[near] - 1
        found, which = keys.strings(text, first, last)
        colon = _after_space(text, last[found] + 1)
        is_key = text[colon] == ord(":")
        found, which = found[is_key], which[is_key]
        value = _after_space(text, colon[is_key] + 1)
        bracket = bracket[found]
        # The object that a bracket stands in: each begins with an opening bracket, at least as many as there are objects.
        starts = np.zeros(len(objects.brackets), np.int64)
        starts[objects.brackets.searchsorted(objects.begin)] = 1
        number = (np.cumsum(starts) - 1)[bracket]
        inside = (number >= 0) & (first[found] < objects.end[np.maximum(number, 0)])
        depth = objects.depths[bracket]
        outer, inner = np.flatnonzero(inside & (depth == 1)), np.flatnonzero(inside & (depth == 2))
        # int64 (keys, objects): where the value begins; of several keys of one name the last one stays.
        self._outer = np.full((len(keys.keys), len(objects)), -1, np.int64)
        self._outer[which[outer], number[outer]] = value[outer]
        self._inner = _Inner(which[inner], number[inner], value[inner], bracket[inner])

    def of(self, key: str) -> Positions:
        """Where the value of a key begins in each object, int64; -1 where it has no such key; the last of several."""
        places: Positions = self._outer[self._keys.keys.index(key)]
        return places

    def inside(self, holders: Positions, keys: Sequence[str]) -> dict[str, Positions]:
        """The same for keys of an inner object, one in each object.

        Args:
            holders: Where the inner object of each object begins; -1 for none.
            keys: The keys of the inner objects.
        """
        objects, inner = self._objects, self._inner
        found = {key: np.full(len(objects), -1, np.int64) for key in keys}
        numbers = [self._keys.keys.index(key) for key in keys]
        wanted = np.zeros(len(self._keys.keys), np.bool_)
        wanted[numbers] = True
        chosen = np.flatnonzero(wanted[inner.which])
        if not len(chosen):
            return found
        # The bracket that encloses a text of depth 2 is the last one before it that opened such a depth.
        opening = np.where(objects.opens & (objects.depths == 2), np.arange(len(objects.brackets)), -1)
        enclosing = np.maximum.accumulate(opening)[inner.bracket[chosen]]
        chosen = chosen[objects.brackets[enclosing] == holders[inner.number[chosen]]]
        which = inner.which[chosen]
        for key, k in zip(keys, numbers, strict=True):
            mine = chosen[which == k]
            found[key][inner.number[mine]] = inner.value[mine]
        return found

    def with_escapes(self) -> NDArray[np.bool_]:
        r"""Which objects hold a ``\u`` escape: it may spell any letter, so that a key is not seen for what it is."""
        objects = self._objects
        marked = np.zeros(len(objects), np.bool_)
        if not objects.escapes:
            return marked
        text = objects.text
        slashes = np.flatnonzero(text == ord("\\"))
        slashes = slashes[text[slashes + 1] == ord("u")]
        slashes = slashes[unescaped(text, slashes)]
        number = objects.begin.searchsorted(slashes, "right") - 1
        marked[number[number >= 0]] = True
        return marked


class _Inner(NamedTuple):
    """Keys of inner objects: which, in which object, where the value begins, and the last bracket before the key."""

    which: NDArray[np.int8]
    number: Positions
    value: Positions
    bracket: Positions


def string_ends(objects: Objects, at: Positions) -> Positions:
    """Where the strings end that begin at some positions: their last quotes; -1 where none begins there."""
    if not len(objects.first_quotes):
        return np.full(len(at), -1, np.int64)
    k = np.minimum(objects.first_quotes.searchsorted(at), len(objects.first_quotes) - 1)
    return np.where(objects.first_quotes[k] == at, objects.last_quotes[k], -1)


def text_stands_at(text: Text, at: Positions, wanted: bytes) -> NDArray[np.bool_]:
    """Whether a text stands at each position, bool; never at a negative one."""
    found = at >= 0
    at = np.maximum(at, 0)
    for begin in range(0, len(wanted), 8):
        part = wanted[begin : begin + 8]
        found &= (gather(text, np.minimum(at + begin, len(text) - 8)) & _FIRST[len(part)]) == as_word(part)
    return found


def wholes_at(text: Text, at: Positions, *, quoted: bool = False) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The whole numbers that stand at some positions.

    Args:
        text: The text.
        at: int64; -1 for none.
        quoted: They may stand in quotes.

    Returns:
        ``(values, fine)``, int64 and bool; where not ``fine`` there is no number, or one that is not read here.
    """
    fine, start = at >= 0, np.maximum(at, 0)
    in_quotes = text[start] == ord('"') if quoted else np.zeros(len(at), np.bool_)
    start = start + in_quotes
    negative = text[start] == ord("-")
    start = start + negative
    values, digits = _digits_at(text, start)
    after = text[start + digits]
    fine &= (digits > 0) & (digits <= 18) & np.where(in_quotes, after == ord('"'), _AFTER_NUMBER[after])
    return np.where(negative, -values, values), fine


def thousandths_at(text: Text, at: Positions) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The numbers, not negative, that stand at some positions, in thousandths, rounded down; see :func:`wholes_at`."""
    fine, start = at >= 0, np.maximum(at, 0)
    values, digits = _digits_at(text, start)
    fine &= (digits > 0) & (digits <= 16) & (values <= MOST)
    end = start + digits
    values = np.where(fine, values, 0) * 1000
    point = np.flatnonzero(fine & (text[end] == ord(".")))
    if len(point):
        fraction, places = _digits_at(text, end[point] + 1)
        fine[point] &= (places > 0) & (places <= 18)
        places = np.clip(places, 0, 18)
        shorter = fraction // _POWERS_OF_TEN[np.maximum(places - 3, 0)] * _POWERS_OF_TEN[np.maximum(3 - places, 0)]
        values[point] += shorter
        end[point] += 1 + places
    fine &= _AFTER_NUMBER[text[end]]
    return values, fine


def _digits_at(text: Text, at: Positions) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The numbers whose digits begin at some positions, and how many digits they have, 19 for more than 18; both int64."""
    values, digits = decimal_from(gather(text, at), np.zeros(len(at), np.uint64))
    for so_far in (8, 16):
        more = np.flatnonzero(digits == so_far)
        if not len(more):
            break
        lower, count = decimal_from(gather(text, at[more] + so_far), np.zeros(len(more), np.uint64))
        count = np.minimum(count, 19 - so_far)
        fits = so_far + count <= 18
        values[more] = np.where(fits, values[more] * _POWERS_OF_TEN[count] + lower, 0)
        digits[more] += count
    return values, digits


def _after_space(text: Text, at: Positions) -> Positions:
    """The position of the first character from each position on that is no white space; the last of the text where there is none."""
    at = at.copy()
    left = np.arange(len(at))
    for _ in range(_FEW_SPACES):
        here = text[at[left]]
        left = left[(here == 0x20) | ((here >= 0x09) & (here <= 0x0D))]
        if not len(left):
            return at
        at[left] += 1
    raw = text.tobytes()
    for k in left.tolist():  # hardly any, and each is looked at once
        found = _NOT_SPACE.search(raw, at[k])
        at[k] = found.start() if found else len(raw) - 1
    return at
