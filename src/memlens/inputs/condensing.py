"""The columns of a log that is condensed while it is read: what is counted, and what is dropped."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy as np

from memlens.columns import Ints, distinct
from memlens.facts import Facts
from memlens.folding.condenser import Condenser, Counted, Events
from memlens.inputs.growing import GrowingColumn
from memlens.windows.anchor_templates import skeleton
from memlens.windows.landmarks import Landmarks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memlens.folding.condensed import Condensed
    from memlens.windows.patterns import Pattern


#: Lines that may mark the work of the run: of more of them only those are kept that count its steps, and of more of these none.
_MOST_LANDMARKS = 1 << 17
#: Kinds of such lines that are told apart.
_MOST_KINDS = 1000


class Condensing:
    """Condenses the columns of a builder.

    Attributes:
        full: So many events may be held before it is worth while to look again which of them are needed.
    """

    def __init__(self) -> None:
        self._condenser = Condenser()
        self._counted = 0  # events that were counted, of those that are kept
        self._last: dict[bytes, int] = {}  # where the last line of each kind of landmark stands
        self._seen = 0
        self._family: Pattern | None = None  # what the landmarks are that are kept
        self._cuts = np.zeros(0, np.int64)
        self.full = 0

    def landmarks(self, parts: Sequence[Landmarks]) -> Landmarks:
        """The landmarks so far, put together, as far as they are kept.

        Args:
            parts: What came of this the last time, and the new ones.
        """
        if self._family is not None:
            parts = [*parts[:1], *(_matching(part, self._family) for part in parts[1:])]
        found = Landmarks().and_then(parts)
        if (
            self._family is None
            and len(found.offsets) > _MOST_LANDMARKS
            and found.complete
            and (steps := self._steps(found)) is not None
        ):
            self._family = steps
            found = _matching(found, steps)
        if len(found.offsets) > _MOST_LANDMARKS or not found.complete:
            found = Landmarks(complete=False)
        if len(found.offsets) < self._seen:  # some are let go
            self._last, self._seen = {}, 0
        for offset, text in zip(found.offsets[self._seen :], found.texts[self._seen :], strict=True):
            kind = skeleton(text)
            if kind in self._last or len(self._last) < _MOST_KINDS:
                self._last[kind] = offset
        self._seen = len(found.offsets)
        return found

    def _steps(self, landmarks: Landmarks) -> Pattern | None:
        """The lines among them that count the steps of the run, as far as they go."""
        from memlens.events import Outline
        from memlens.windows.anchor_discovery import family

        places, counts = self._condenser.events_at_folds()
        known = bisect_left(landmarks.offsets, int(places[-1]))
        some = Landmarks(landmarks.offsets[:known], landmarks.lines[:known], landmarks.texts[:known])
        facts = Facts(bytes=int(places[-1]), lines=landmarks.lines[-1])
        found = family(Outline.of(places, counts, facts, some, blocks=True))
        return None if found is None else found.anchors[0].pattern

    def condense(
        self,
        columns: dict[str, GrowingColumn],
        chosen: NDArray[np.bool_] | None,
        places: tuple[Ints, Ints, Ints],
        end: int,
    ) -> None:
        """Count the events that are new, and drop those that need not be kept.

        Args:
            columns: The columns of the events that are held.
            chosen: Which of them are of the log; ``None`` for all.
            places: Byte offsets: where windows begin and end, where levels and live blocks are wanted, and where figures are.
            end: Where the text ends that they stand in.
        """
        if chosen is not None and not chosen.all():
            self._counted = int(np.count_nonzero(chosen[: self._counted]))
            for column in columns.values():
                column.keep(chosen)
        cuts, keeps, folds = map(distinct, places)
        keeps = distinct(np.concatenate((keeps, np.fromiter(self._last.values(), np.int64, len(self._last)))))
        folds = distinct(np.concatenate((cuts, keeps, folds)))
        self._cuts = cuts
        count = len(columns["kind"])
        for name in Counted._fields:
            if name not in columns:
                columns[name] = GrowingColumn(np.int64)
                columns[name].fill(-1, count, 0.0)
        events = self._events(columns)
        new = events.part(self._counted)
        for name, values in self._condenser.count(new, cuts, folds, end)._asdict().items():
            columns[name].entries()[self._counted :] = values
        self._condenser.forget(folds)
        kept = ~self._condenser.needless(events, self._of(columns), cuts, keeps)
        del new, events  # whose columns are written anew
        for column in columns.values():
            column.keep(kept)
        self._counted = len(columns["kind"])
        self.full = self._counted * 5 // 4

    def finish(self, columns: dict[str, GrowingColumn]) -> Condensed:
        """The facts of the log; columns of what was counted are taken out of the others."""
        if not self._condenser.with_lives:
            columns["allocated"].clear()
        counted = Counted(*(columns.pop(name).whole(tight=True) for name in Counted._fields))
        return self._condenser.finish(columns["offset"].entries(), counted, self._cuts)

    @staticmethod
    def _events(columns: dict[str, GrowingColumn]) -> Events:
        kind, size, addr, offset = (columns[name].entries() for name in ("kind", "size", "addr", "offset"))
        return Events(kind, size, addr, offset, columns["requested"].entries() if "requested" in columns else None)

    @staticmethod
    def _of(columns: dict[str, GrowingColumn]) -> Counted:
        return Counted(*(columns[name].entries() for name in Counted._fields))


def _matching(landmarks: Landmarks, pattern: Pattern) -> Landmarks:
    """Those landmarks that match a pattern."""
    some = [k for k, text in enumerate(landmarks.texts) if pattern.name_in(text) is not None]
    offsets, lines, texts = (tuple(column[k] for k in some) for column in landmarks[:3])
    return Landmarks(offsets, lines, texts, landmarks.complete)  # type: ignore[arg-type]
