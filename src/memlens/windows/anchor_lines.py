"""The lines of a log that may mark its work, by the expressions that find them: those that hold a number that may count, and those that come again.

Of one log the landmarks are looked at (:mod:`memlens.windows.landmarks`).  Of two logs the whole text is, but only lines that begin at the
margin and carry no header of the framework are looked at one by one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from memlens.scanner import pieces
from memlens.windows.anchor_templates import Place, Template, Work, padded, recurring, templates
from memlens.windows.anchor_text import NO_ANCHOR, may_mark, shown_text, skeleton, unpadded
from memlens.windows.anchors import text_blocks
from memlens.windows.landmarks import LONGEST_LINE, at_margin, holds_word, word_scanner
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


class Kinds(Struct, frozen=True):
    """Lines of one log, by what is alike of them: each kind is looked at once, however many lines are of it.

    Attributes:
        offsets: Where each line begins.
        texts: What is shown of it (:func:`~memlens.windows.anchor_text.shown_text`).
        rows: The lines of each skeleton, as indices of these; none that is longer than an anchor.
    """

    offsets: Sequence[int]
    texts: Sequence[bytes]
    rows: Mapping[bytes, list[int]]

    @classmethod
    def of(cls, offsets: Sequence[int], lines: Iterable[bytes]) -> Kinds:
        """The kinds of some lines."""
        texts = [*map(shown_text, lines)]
        rows = defaultdict[bytes, list[int]](list)
        for row, text in enumerate(texts):
            if len(text) <= LONGEST_LINE:
                rows[skeleton(text)].append(row)
        return cls(offsets, texts, rows)

    def counting(self, bones: bytes) -> Iterator[tuple[int, tuple[bytes, ...]]]:
        """Those of one kind that may count: where each begins, and its numbers."""
        rows = self.rows[bones]
        together = b"\n".join([self.texts[row] for row in rows])
        if NO_ANCHOR.search(together) is not None:
            rows = [row for row in rows if may_mark(self.texts[row])]
            together = b"\n".join([self.texts[row] for row in rows])
        numbers = zip(*[iter(_NUMBERS(together))] * bones.count(b"0"), strict=True)
        lines = zip(rows, numbers, strict=True)
        return ((self.offsets[row], digits) for row, digits in lines if max(map(len, digits)) <= _MOST_DIGITS)


def counting_lines(kinds: Kinds, events: int) -> dict[str, Seen]:
    """Lines that may count, by the expression that finds them.

    Args:
        kinds: The lines.
        events: The events up to where they were looked for.
    """
    found = list[tuple[Template, list[tuple[int, tuple[bytes, ...]]]]]()
    wide = set[str]()
    for bones in islice((bones for bones in kinds.rows if b"0" in bones), _MOST_KINDS):
        narrow = unpadded(bones)
        if (fitting := templates(narrow)) and (lines := [*kinds.counting(bones)]):
            found += ((template, lines) for template in fitting)
            wide.update(template.by for template in fitting if narrow != bones)
    rows: dict[str, tuple[Template, list[tuple[int, Numbers]]]] = {}
    for template, lines in found:
        one = padded(template) if template.by in wide else template
        counted = rows.setdefault(one.by, (one, []))[1]
        counted += [(offset, tuple(int(digits[n]) for n in one.numbers)) for offset, digits in lines]
    seen: dict[str, Seen] = {}
    for by, (template, counted) in rows.items():
        counted.sort()
        seen[by] = Seen(template, [offset for offset, _ in counted], [numbers for _, numbers in counted], events)
    return seen


def recurring_lines(kinds: Kinds, events: int, *, thinned: bool) -> dict[str, Seen]:
    """Lines by their words, whatever they count, as :func:`counting_lines` has them; only those with a word of anchors where they are thinned."""
    offsets = defaultdict[Template, list[int]](list)
    known = (
        bones for bones in kinds.rows if not (bones.startswith((b" ", b"\t")) or (thinned and not holds_word(bones)))
    )
    for bones in islice(known, _MOST_KINDS):
        if any(one.work is Work.PART and one.place is not Place.UNNAMED for one in templates(bones)):
            continue
        if (template := recurring(bones)) is not None:
            offsets[template] += [kinds.offsets[row] for row in kinds.rows[bones]]
    return {one.by: Seen(one, sorted(places), [()] * len(places), events) for one, places in offsets.items()}


def looked_at(log: EventLog) -> tuple[Kinds, int]:
    """The lines of a log that could be anchors, as many as are looked at, and the events up to there."""
    if not log.source.rereadable and log.landmarks is not None:
        return Kinds.of(log.landmarks.offsets, log.landmarks.texts), len(log)
    offsets, texts = list[int](), list[bytes]()
    looked_at, events = 0, len(log)
    for piece, lines, looks in _marginal_lines(log):
        looked_at += looks
        if looked_at > _MOST_LINES:
            events = int(log.offset.searchsorted(piece))
            break
        offsets += (offset for offset, _ in lines)
        texts += (text for _, text in lines)
    return Kinds.of(offsets, texts), events


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
                (offset + low + start, clean_line(line))
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
