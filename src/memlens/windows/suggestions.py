"""The lines that come nearest to an anchor that matches nothing, for the message that says so."""

from __future__ import annotations

import difflib
import re
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from memlens.errors import AnchorError, UsageError
from memlens.windows.landmarks import lines_at_margin
from memlens.windows.patterns import Matcher, Pattern, clean_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from memlens.facts import Mark


#: Text that is gone through for lines that come near: read in a few seconds.
_MOST_BYTES = 4 << 30
#: Lines at the margin, from the beginning, that may be compared with the pattern, and of those that are in earnest.
_KEPT, _MOST_LINES = 100_000, 2000
_SHOWN = 3
_LONGEST_LINE = 160
#: What is no mark of the work, though it stands at the margin: an event without a header.
_EVENT = re.compile(rb"(?:Alloc|Free|Allocate) \d+ bytes|Not found and reallocate|Free chunk with size")
#: Characters that a person writes in an expression and seldom in a literal.
_META = re.compile(r"\\[dwsSDWbB.(\[]|[\[(^$|]|\.[*+?]")

#: A line as ``(1-based number, clean text)``.
Line = tuple[int, bytes]


def missing_mark(
    name: str, patterns: Sequence[Pattern], marks: Sequence[Mark], after: int | None, layer: str
) -> AnchorError:
    """The same for an input whose anchors are its annotations; ``layer`` as of :class:`~memlens.facts.Facts`."""
    text = b"".join(mark.text.replace("\n", " ").encode("utf-8", "surrogatepass") + b"\n" for mark in marks)
    error = missing_anchor(name, patterns, [(0, text)] if marks else [], after, [mark.line for mark in marks])
    if marks:
        return error
    return AnchorError(
        f"{error.message}: it has no annotations at all", _MARK_PADDLE if layer == "paddle_history" else _MARK
    )


_MARK_PADDLE = "Mark the run with paddle.device.cuda._annotate_memory_history(text), and record it again."
_MARK = "Mark the run with torch.profiler.record_function(name), or, in a snapshot, torch.cuda.memory._set_memory_metadata(text), and record it again."


def missing_anchor(
    name: str,
    patterns: Sequence[Pattern],
    blocks: Iterable[tuple[int, bytes]],
    after: int | None = None,
    entries: Sequence[int] | None = None,
) -> AnchorError:
    """The error for a start that marks no line, or for ends of which none does.

    Args:
        name: The input as the user gave it.
        patterns: What was looked for: a start, or the ends; there is one at least.
        blocks: The text again, ``(offset, bytes)`` pieces from the beginning; nothing where it cannot be read again.
        after: Of ends: the number of the line that the window starts with; 0 without a start.  ``None`` of a start.
        entries: Where the lines are annotations of an input of entries, the number of the entry that each stands before.
    """
    what = "line" if entries is None else "annotation"
    pattern = patterns[0]
    how = "where this regular expression is found" if pattern.regex else "that contains it as whole words"
    which = "start" if after is None else "end"
    place = f" after {what if entries is None else 'entry'} {after:,}" if after else ""
    others = f", nor {', '.join(_shown(str(other)) for other in patterns[1:])}" if patterns[1:] else ""
    message = f"{_shown(name)}: no {what}{place} matches the {which} {_shown(str(pattern))}{others} (none {how})"
    begun: list[Line] = []
    nearest = _looked_for(_looser(pattern), blocks, begun) or _similar(pattern, begun)
    to_end = "" if after is None else "--to-end takes the window to the end of the log where no end comes."
    if not nearest:
        none = f"No {what} comes near to it." if begun else ""
        return AnchorError(message, " ".join(filter(None, [_advice(pattern, which), none, to_end])))
    listed = "\n".join(
        f"  {f'line {number}' if entries is None else f'entry {entries[number - 1]:,}'}: {_shown(line.decode('utf-8', 'replace'))[:_LONGEST_LINE]}"
        for number, line in nearest
    )
    advice = filter(None, [_advice(pattern, which, [line for _, line in nearest]), to_end])
    return AnchorError(message, "\n".join([f"{what.capitalize()}s that come near to it:", listed, *advice]))


def _advice(pattern: Pattern, which: str, nearest: Iterable[bytes] = ()) -> str:
    if pattern.regex:
        return ""
    expression = _as_expression(pattern.text)
    if expression is not None and (any(map(expression.search, nearest)) or not nearest):
        return f"It looks like a regular expression: give it with --{which}-regex."
    return ""


def _as_expression(text: str) -> re.Pattern[bytes] | None:
    expression = Pattern(text, regex=True)
    return expression.compiled if _META.search(text) and _compiles(expression) else None


def _looser(pattern: Pattern) -> list[Pattern]:
    """Patterns that mark more: what looks like an expression as one; without regard to case, whole words, how many blanks."""
    looser = []
    if pattern.regex:
        looser.append(Pattern(f"(?i:{pattern.text})", regex=True))
    else:
        if _as_expression(pattern.text) is not None:
            looser.append(Pattern(pattern.text, regex=True))
        if words := pattern.text.split():
            looser.append(Pattern("(?i)" + r"[ \t]+".join(map(re.escape, words)), regex=True))
    return [p for p in looser if _compiles(p)]


def _compiles(pattern: Pattern) -> bool:
    try:
        return pattern.compiled is not None
    except UsageError:
        return False


def _looked_for(patterns: list[Pattern], blocks: Iterable[tuple[int, bytes]], begun: list[Line]) -> list[Line]:
    """At most three lines of different text that the first of the patterns marks that marks any; ``begun`` takes the first lines at the margin on the way."""
    found: list[dict[bytes, int]] = [{} for _ in patterns]
    matchers = [Matcher(pattern) for pattern in patterns]
    first_line = 1
    for offset, text in blocks:
        block = np.frombuffer(text, np.uint8)

        def line_at(start: int, text: bytes = text) -> bytes:
            return clean_line(text[start : text.find(b"\n", start) + 1 or None])

        for matcher, lines in zip(matchers, found, strict=True):
            for start, number, _ in matcher.find(block, 0, first_line)[:_MOST_LINES]:
                lines.setdefault(line_at(start), number)
        if any(len(lines) >= _SHOWN for lines in found) or offset >= _MOST_BYTES:
            break
        starts, numbers, count = lines_at_margin(block)
        places = zip(starts.tolist(), (first_line + numbers).tolist(), strict=True)
        begun += ((number, line_at(start)) for start, number in islice(places, max(_KEPT - len(begun), 0)))
        first_line += count
    best = next(filter(None, found), {})
    return [(number, line) for line, number in islice(best.items(), _SHOWN)]


def _similar(pattern: Pattern, begun: Sequence[Line]) -> list[Line]:
    """Lines that may be anchors (short, and no event) and read like the pattern: of those that share a word with it, or else of all."""
    words = re.findall(r"[^\W\d_]{3,}", re.sub(r"\\[a-zA-Z]", " ", pattern.text))
    wanted = re.sub(r"\\[a-zA-Z]|[\\^$()\[\]{}?*+|]", "", pattern.text) if pattern.regex else pattern.text
    sharing = re.compile(b"|".join(re.escape(w.encode("utf-8", "replace")) for w in words) or rb"(?!)", re.IGNORECASE)
    first = {line: number for number, line in reversed(begun) if len(line) <= _LONGEST_LINE and not _EVENT.search(line)}
    every = [*reversed(first.items())]  # each text once, in order
    for lines in ([one for one in every if sharing.search(one[0])], every):
        scored = [(_likeness(wanted, line), -number, line) for line, number in lines[:_MOST_LINES]]
        if best := sorted((one for one in scored if one[0] >= 0.5), reverse=True)[:_SHOWN]:
            return [(-number, line) for _, number, line in best]
    return []


def _likeness(wanted: str, line: bytes) -> float:
    matcher = difflib.SequenceMatcher(None, wanted.lower(), line.decode("utf-8", "replace").lower(), autojunk=False)
    return matcher.ratio() if matcher.quick_ratio() >= 0.5 else 0.0


def _shown(text: str) -> str:
    """Text of a log or a command line without characters that a terminal would obey."""
    return text if text.isprintable() else repr(text)[1:-1]
