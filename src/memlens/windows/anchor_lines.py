"""The landmarks of a log by the expressions that find them: those that hold a number that may count, and those that come again.

Of a line its *skeleton* is looked at, in which each number is ``0``, of the text that a terminal shows of it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from memlens.windows.anchor_templates import Place, Template, Work, padded, recurring, templates
from memlens.windows.landmarks import LONGEST_LINE, holds_word

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


#: What no anchor holds: an address, JSON, an arrow, a progress bar, a header of glog.
NO_ANCHOR = re.compile(rb'0x|\{|"|->|\r|%\||[IWEF][0-9]{4,8} [0-9][0-9]:')
#: … but for JSON with the number of a step, and a bar that counts.
_ANCHOR = re.compile(rb'\{.*"(?:global_)?step": ?[0-9]|.*%\|[^|]*\| *[0-9]+/[0-9]+ \[')
#: A header of glog right behind what was written without a line end: a bar that returns to its beginning.
_JOINED = re.compile(rb"[IWEF][0-9]{4,8} [0-9]{2}:")
#: Blanks before a number beyond what separates it: it is padded to a width.
_PADDED = re.compile(rb"(?<=[ \t])[ \t]+(?=[0-9])|(?<=[\[(])[ \t]+(?=[0-9])")
_DIGITS = re.compile(rb"[0-9]+")
#: Kinds of lines that are told apart in one log; a log with more of them is full of something else.
_MOST_KINDS = 20_000
#: Numbers are short: longer ones are addresses, process ids, times.
_MOST_DIGITS = 9
#: The numbers of a line.
_NUMBERS = re.compile(rb"[0-9]+").findall

Numbers = tuple[int, ...]


def may_mark(line: bytes) -> bool:
    """A quick first look at a line: it holds a number, and nothing that an anchor does not hold."""
    return _DIGITS.search(line) is not None and (NO_ANCHOR.search(line) is None or _ANCHOR.match(line) is not None)


def shown_text(line: bytes) -> bytes:
    """What a terminal shows of a line: what follows its last return to its beginning, without a message of the framework that came before a line end."""
    if b"] " in line and (joined := _JOINED.search(line)) is not None:  # a plain look first: most lines have none
        line = line[: joined.start()]
    if b"\r" in line or b"\b" in line:
        line = next(filter(bytes.strip, reversed(re.split(rb"[\r\b]+", line))), b"")
    return line


def unpadded(line: bytes) -> bytes:
    """A line with one blank, or none behind a bracket, where a number is padded to a width."""
    return _PADDED.sub(b"", line) if b"  " in line or b"[ " in line or b"( " in line or b"\t" in line else line


def skeleton(line: bytes) -> bytes:
    """A line with ``0`` for each of its numbers."""
    return _DIGITS.sub(b"0", line)


class Seen(Struct, frozen=True):
    """The lines of one log that fit a template: where they begin, and their numbers."""

    template: Template
    offsets: list[int]
    numbers: list[Numbers]

    @property
    def counts_steps(self) -> bool:
        """Whether the lines name steps and not something else with a number."""
        return self.template.work is Work.STEP and self.template.place is not Place.UNNAMED


class Kinds(Struct, frozen=True):
    """Lines of one log, by what is alike of them: each kind is looked at once, however many lines are of it.

    Attributes:
        offsets: Where each line begins.
        texts: What is shown of it (:func:`shown_text`).
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


def counting_lines(kinds: Kinds) -> dict[str, Seen]:
    """Lines that may count, by the expression that finds them."""
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
        seen[by] = Seen(template, [offset for offset, _ in counted], [numbers for _, numbers in counted])
    return seen


def recurring_lines(kinds: Kinds, *, thinned: bool) -> dict[str, Seen]:
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
    return {one.by: Seen(one, sorted(places), [()] * len(places)) for one, places in offsets.items()}
