"""The anchor lines of a log: as found while it was read, or by going through its text again; names that come again, told apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlens.errors import InputError
from memlens.events import EventLog, once
from memlens.scanner import count_lines
from memlens.windows.landmarks import LONGEST_LINE, Landmarks, landmarks_in_block
from memlens.windows.patterns import Anchor, Match, Matcher, Matches, Pattern, clean_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from memlens.facts import Mark


def find_anchors(log: EventLog, patterns: Sequence[Pattern]) -> tuple[Anchor, ...]:
    """All lines of a log that match some patterns: as found when the log was read, or by going once through its text again.

    Raises:
        InputError: A pattern was not asked for when the log was read, and its text cannot be read again.
        UsageError: A pattern is empty or is not a regular expression.
    """
    known = {anchor.pattern: anchor for anchor in log.anchors}
    missing = [pattern for pattern in dict.fromkeys(patterns) if pattern not in known]
    if missing:
        known.update(_scan(log, [Matcher(pattern) for pattern in missing]))
    return tuple(known[pattern] for pattern in patterns)


def _scan(log: EventLog, matchers: Sequence[Matcher]) -> dict[Pattern, Anchor]:
    if log.marks is not None:
        return {matcher.pattern: _among(log.marks, matcher.pattern) for matcher in matchers}
    if not log.source.rereadable:
        raise InputError(
            f"the text of {log.source.name} cannot be searched again",
            "Name the anchors when reading: memlens.read(…, patterns=[Pattern(…)]).",
        )
    found = {matcher.pattern: Matches() for matcher in matchers}
    line = 1
    for offset, block in text_blocks(log):
        for matcher in matchers:
            found[matcher.pattern].add(matcher.find(block, offset, line))
        line += count_lines(block)
    return {pattern: matches.anchor(pattern) for pattern, matches in found.items()}


def text_blocks(log: EventLog) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """The text of a log again, in whole lines, each block with its byte offset; what was written to it after it was read is no part of it.

    Raises:
        InputError: The text is no longer there.
    """
    end = log.facts.bytes or None
    for offset, text in log.source.blocks(0, end):
        yield offset, np.frombuffer(text, np.uint8)[: None if end is None else end - offset]


def _among(marks: Sequence[Mark], pattern: Pattern) -> Anchor:
    """The marks that match, for inputs without lines of text."""
    named = ((mark, pattern.match_line(mark.text.encode("utf-8", "surrogatepass"))) for mark in marks)
    return Anchor.of(pattern, [Match(mark.offset, mark.line, name) for mark, name in named if name is not None])


@once
def landmarks_of(log: EventLog) -> Landmarks | None:
    """The landmarks of a log: as found when it was read, its marks where it has no lines, or else from its text.

    Returns:
        ``None`` where they were not looked for and the text cannot be read again.

    Raises:
        InputError: The text is no longer there.
    """
    if log.marks is not None:
        texts = (clean_line(mark.text.encode("utf-8", "surrogatepass")) for mark in log.marks)
        return Landmarks(
            tuple(mark.offset for mark in log.marks),
            tuple(mark.line for mark in log.marks),
            tuple(text[: LONGEST_LINE + 1] for text in texts),
        )
    if log.landmarks is not None:
        return log.landmarks
    if not log.source.rereadable:
        return None
    found, line = [], 1
    for offset, block in text_blocks(log):
        found.append(landmarks_in_block(block, offset, line))
        line += count_lines(block)
    return Landmarks().and_then(found)


def numbered(names: Sequence[str]) -> list[str]:
    """The names, those that come again with ``#2``, ``#3``; no two alike."""
    if len(set(names)) == len(names):
        return list(names)
    numbering = Numbering(names)
    return list(map(numbering.next, names))


class Numbering:
    """Numbers names that come again, one after the other.

    Args:
        taken: Names that stand already, which no numbered one may be like.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._times: dict[str, int] = {}

    def next(self, name: str) -> str:
        """The name of the next one."""
        times = self._times.get(name, 0) + 1
        new = name
        while times > 1 and (new := f"{name} #{times}") in self._taken:  # a log may well have a name that ends so
            times += 1
        self._times[name] = times
        self._taken.add(new)
        return new
