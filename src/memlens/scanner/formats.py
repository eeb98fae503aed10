"""A line format as data: what a log line looks like, what its parts mean, and lines that prove it.

The regular expression is the definition, and what runs is made from it.  A new kind of line is one more :class:`LineFormat` in the
``FORMATS`` of a reader, and its samples and traps are its tests.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from memlens.facts import Kind


#: A group in a sample: its text, or that it takes no part.
_GROUP = re.compile(r"<(\w+)(?:=(.*?)|!)>", re.DOTALL)


class Sample(Struct, frozen=True):
    """A line that a format must match, and the text of its groups, or what must be read from it; what is left out is not checked."""

    line: str
    values: Mapping[str, Any]

    @classmethod
    def of(cls, marked: str) -> Sample:
        """A line in which groups are marked: ``Free <size=512> bytes``; ``<addr!>``, which is no text, of one that takes no part."""
        line = _GROUP.sub(lambda group: group[2] or "", marked)
        return cls(line, {group[1]: group[2] for group in _GROUP.finditer(marked)})


class LineFormat(Struct, frozen=True, dict=True):
    r"""One kind of log line.

    Attributes:
        name: What reports and tests call the format; lower case, no spaces.
        layer: The part of the framework that writes it (``auto_growth``, ``stats``, ``trainer``, …).
        literal: Text that stands in every line of the format: a cheap first look before the regular expression.
        regex: Its definition: a pattern over bytes with named groups.  It is searched for and not anchored, because a log
            line may begin in the middle of another one, or after prefixes that a launcher put there.
        means: What each named group is, in words.
        kinds: The event that a match is, by the text of its group ``kind``; by ``""`` where all matches are alike; empty
            for formats that are no event.
        samples: Lines that must match, with the groups marked in them that are checked (:meth:`Sample.of`).
        traps: Lines that look alike and must not match.

    >>> from memlens.events import Kind
    >>> line = LineFormat("chunk_back", "auto_growth", b"Free chunk with size ", r"Free chunk with size (?P<size>\d+)",
    ...                   {"size": "bytes of the chunk"}, {"": Kind.RELEASE}, ("Free chunk with size <size=512>",))
    >>> line.examples[0].line
    'Free chunk with size 512'
    >>> line.search(b"I1120 auto_growth.cc:1] Free chunk with size 512")["size"]
    b'512'
    """

    name: str
    layer: str
    literal: bytes
    regex: str
    means: Mapping[str, str]
    kinds: Mapping[str, Kind] = {}
    samples: tuple[str, ...] = ()
    traps: tuple[str, ...] = ()

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        """The regular expression, compiled over bytes: case matters, digits and word characters are those of ASCII."""
        return re.compile(self.regex.encode())

    def search(self, line: bytes) -> re.Match[bytes] | None:
        """The first match in a line, or ``None``."""
        return self.pattern.search(line) if self.literal in line else None

    def find_all(self, line: bytes) -> Iterator[re.Match[bytes]]:
        """All matches in a line, left to right (two events may stand in one torn line)."""
        return self.pattern.finditer(line) if self.literal in line else iter(())

    @cached_property
    def examples(self) -> tuple[Sample, ...]:
        """The samples as lines and the texts of their groups."""
        return tuple(map(Sample.of, self.samples))
