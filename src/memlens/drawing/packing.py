"""Columns of integers and texts as the page carries them: differences in byte planes, deflated, in base64; and owners by number.

What is packed is unpacked by ``viewer/data.js``, with nothing but what browsers have.  Each owner's text stands in the page once.
"""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from memlens.analyzers.groups import owner_labels, owners_of
from memlens.columns import distinct
from memlens.errors import MemlensError
from memlens.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike, NDArray

    from memlens.events import EventLog

#: Numbers of JavaScript are exact up to twice this, which differences of two of them may be.
_EXACT = 1 << 52


def pack(values: ArrayLike) -> dict[str, Any]:
    """A column of integers.

    Args:
        values: Integers of less than 2**52 in absolute value, in any order; the less neighbours differ, the smaller is what comes out.

    Returns:
        ``{"n", "planes", "packed"}``: how many values, how many bytes a difference takes, and the lowest byte of each difference, then the
        second lowest of each, … deflated, in base64.  A difference ``d`` is written ``2d`` or ``-2d - 1``, so that small ones are small.

    Raises:
        MemlensError: A value is too large: no page could show it to the byte.
    """
    column = np.asarray(values, np.int64)
    if len(column) and max(int(column.max()), -int(column.min())) >= _EXACT:
        raise MemlensError(
            f"a page cannot show figures of {_EXACT:,} and more: they are not exact in a browser",
            "memlens analyze shows them.",
        )
    differences = np.diff(column, prepend=0)
    folded = ((differences << 1) ^ (differences >> 63)).astype("<u8")
    planes = max((int(folded.max(initial=0)).bit_length() + 7) // 8, 1)
    data = folded.view(np.uint8).reshape(-1, 8)[:, :planes].T.tobytes()
    return {"n": len(column), "planes": planes, "packed": _deflated(data)}


def packed(of: object, *names: str) -> dict[str, Any]:
    """Columns of an object by their names."""
    return {name: pack(getattr(of, name)) for name in names}


def pack_json(value: object) -> dict[str, str]:
    """Anything that JSON can hold: a long list of texts, as a rule."""
    return {"json": _deflated(msgspec.json.encode(value))}


def _deflated(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 6)).decode("ascii")


class Owners:
    """Owners of a log by their numbers in a page, given out from 0 as parts of the page ask for them; -1 is no owner.

    Args:
        log: The log that the events and the owners are of.
    """

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._labels = owner_labels(log)
        self._numbers: dict[str, int] = {}

    def code(self, events: NDArray[np.int64]) -> NDArray[np.int64]:
        """The owners of some events, int64; of blocks that are live before the input begins ``(before the input)``, where nothing better is known."""
        labels = owners_of(self._log, events)
        kinds = distinct(labels)
        numbers = np.array(self.code_texts(self._labels[label] for label in kinds.tolist()), np.int64)
        coded: NDArray[np.int64] = numbers[kinds.searchsorted(labels)] if len(labels) else labels
        return coded

    def code_texts(self, texts: Iterable[str | None]) -> list[int]:
        """The numbers of owners by their texts, as results of analyzers have them."""
        numbers = self._numbers
        return [-1 if text is None else numbers.setdefault(text, len(numbers)) for text in texts]

    def to_dict(self) -> dict[str, Any]:
        """Return the whole texts in the order of their numbers; to be asked for last."""
        return pack_json([visible(text) for text in self._numbers])
