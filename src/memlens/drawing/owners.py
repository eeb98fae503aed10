"""The owners that a page names: each text stands in it once, and its parts refer to owners by number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.analyzers.groups import owner_labels, owners_of
from memlens.columns import distinct
from memlens.drawing.packing import pack_json
from memlens.text import visible

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.events import EventLog

__all__ = ["Owners"]


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
        """What the page gets: the whole texts in the order of their numbers; to be asked for last."""
        return pack_json([visible(text) for text in self._numbers])
