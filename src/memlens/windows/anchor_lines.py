"""The lines of a log that may mark its work, by the expressions that find them: those that hold a number that may count, and those that come again.

Of one log the landmarks are looked at (:mod:`memlens.windows.landmarks`).  Of two logs the whole text is, but only lines that begin at the
margin and carry no header of the framework are looked at one by one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from memlens.scanner import pieces
from memlens.windows.anchor_templates import (
    Place,
    Template,
    Work,
    may_mark,
    padded,
    recurring,
    shown_text,
    skeleton,
    templates,
    unpadded,
)
from memlens.windows.anchors import text_blocks
from memlens.windows.landmarks import LONGEST_LINE, Landmarks, at_margin, holds_word, word_scanner
from memlens.windows.patterns import clean_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from memlens.columns import Ints
    from memlens.events import EventLog


#: Lines of one log that are looked at one by one, from its beginning: done in about a second.
_MOST_LINES = 400_000
#: With more lines to look at in a piece of the text (512 KiB), only those with a word of anchors are looked at, so many at most.
_CROWDED = 2000
#: Kinds of lines that are told apart in one log; a log with more of them is full of something else.
_MOST_KINDS = 20_000
#: Numbers are short: longer ones are addresses, process ids, times.
_MOST_DIGITS = 9
#: The numbers of a line.
_NUMBERS = re.compile(rb"[0-9]+").findall

Numbers = tuple[int, ...]


class Seen(Struct, frozen=True):
    """The lines of one log that fit a template: where they begin, and their numbers; and the events up to where they were looked for."""

    template: Template
    offsets: list[int]
    numbers: list[Numbers]
    events: int

    @property
    def counts_steps(self) -> bool:
        """Whether the lines name steps and not something else with a number."""
        return self.template.work is Work.STEP and self.template.place is not Place.UNNAMED


def counting_lines(lines: Iterable[tuple[int, bytes]], events: int) -> dict[str, Seen]:
    """Lines that may count, by the expression that finds them.

    Args:
        lines: Where each begins, and what is shown of it (:func:`~memlens.windows.anchor_templates.shown_text`).
        events: The events up to where they were looked for.
    """
    kinds = defaultdict[bytes, list[tuple[int, list[bytes]]]](list)  # by their skeletons
    wide = set[bytes]()
    for offset, line in lines:
        narrow = unpadded(line)
        digits, kind = _NUMBERS(narrow), skeleton(narrow)
        if len(line) > LONGEST_LINE or max(map(len, digits), default=0) > _MOST_DIGITS:
            continue
        if kind in kinds or len(kinds) < _MOST_KINDS:
            kinds[kind].append((offset, digits))
            if narrow is not line and narrow != line:
                wide.add(kind)
    known = [(kind, template) for kind in kinds for template in templates(kind)]
    may_be_wide = {template.by for kind, template in known if kind in wide}
    found: dict[str, tuple[Template, list[tuple[int, Numbers]]]] = {}
    for kind, template in known:
        one = padded(template) if template.by in may_be_wide else template
        _, rows = found.setdefault(one.by, (one, []))
        rows += [(offset, tuple(int(digits[n]) for n in one.numbers)) for offset, digits in kinds[kind]]
    seen: dict[str, Seen] = {}
    for by, (template, rows) in found.items():
        rows.sort()
        seen[by] = Seen(template, [offset for offset, _ in rows], [numbers for _, numbers in rows], events)
    return seen


def recurring_lines(landmarks: Landmarks, events: int) -> dict[str, Seen]:
    """Landmarks by their words, whatever they count, as :func:`counting_lines` has them."""
    known: dict[bytes, Template | None] = {}
    offsets = defaultdict[Template, list[int]](list)
    for offset, line in zip(landmarks.offsets, landmarks.texts, strict=True):
        text = shown_text(line)
        if text.startswith((b" ", b"\t")) or len(text) > LONGEST_LINE or (landmarks.thinned and not holds_word(text)):
            continue
        kind = skeleton(text)
        if kind not in known:
            parts = any(one.work is Work.PART and one.place is not Place.UNNAMED for one in templates(kind))
            known[kind] = None if parts or len(known) >= _MOST_KINDS else recurring(kind)
        if (template := known[kind]) is not None:
            offsets[template].append(offset)
    return {one.by: Seen(one, places, [()] * len(places), events) for one, places in offsets.items()}


def marking(landmarks: Landmarks) -> Iterator[tuple[int, bytes]]:
    """Those landmarks that could be anchors: where each begins, and its text."""
    lines = zip(landmarks.offsets, map(shown_text, landmarks.texts), strict=True)
    return (line for line in lines if may_mark(line[1]))


def looked_at(log: EventLog) -> tuple[list[tuple[int, bytes]], int]:
    """The lines of a log that could be anchors, as many as are looked at, and the events up to there."""
    if not log.source.rereadable and log.landmarks is not None:
        return list(marking(log.landmarks)), len(log)
    found: list[tuple[int, bytes]] = []
    looked_at = 0
    for piece, lines, looks in _marginal_lines(log):
        looked_at += looks
        if looked_at > _MOST_LINES:
            return found, int(log.offset.searchsorted(piece))
        found += lines
    return found, len(log)


def _marginal_lines(log: EventLog) -> Iterator[tuple[int, list[tuple[int, bytes]], int]]:
    """The lines of a log that could be anchors: those at the margin, without a header of the framework, that hold a number.

    Yields:
        For each piece of the text its byte offset, such lines of it (where each begins, and its clean text), and how many lines were
        looked at one by one.
    """
    for offset, block in text_blocks(log):
        for low, high in pieces(block):
            piece = block[low:high]
            starts, stops = _at_margin(piece)
            looks = len(starts)
            if looks > _CROWDED:
                positions = word_scanner().scan(block, low, high).start - low
                held = np.unique(starts.searchsorted(positions, "right") - 1)
                held = held[held >= 0][:_CROWDED]
                starts, stops, looks = starts[held], stops[held], _CROWDED
            lines = piece.tobytes() if len(starts) else b""
            found = [
                (offset + low + start, shown_text(clean_line(line)))
                for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
                if may_mark(line := lines[start:stop].rstrip(b"\r"))
            ]
            yield offset + low, found, looks


def _at_margin(piece: NDArray[np.uint8]) -> tuple[Ints, Ints]:
    """Starts and ends (int64) of the lines that begin like an anchor and are no longer than one."""
    ends = np.flatnonzero(piece == ord("\n"))
    if not len(ends) or ends[-1] < len(piece) - 1:
        ends = np.append(ends, len(piece))
    starts = np.concatenate(([0], ends[:-1] + 1))
    length = ends - starts
    fits = at_margin(piece, starts) & (length > 2) & (length <= LONGEST_LINE)
    return starts[fits], ends[fits]
