"""What is looked at of a line that may be an anchor: the text that a terminal shows of it, and its *skeleton*, in which each number is ``0``."""

from __future__ import annotations

import re

#: What no anchor holds: an address, JSON, an arrow, a progress bar, a header of glog.
NO_ANCHOR = re.compile(rb'0x|\{|"|->|\r|%\||[IWEF][0-9]{4,8} [0-9][0-9]:')
#: … but for JSON with the number of a step, and a bar that counts.
_ANCHOR = re.compile(rb'\{.*"(?:global_)?step": ?[0-9]|.*%\|[^|]*\| *[0-9]+/[0-9]+ \[')
#: A header of glog right behind what was written without a line end: a bar that returns to its beginning.
_JOINED = re.compile(rb"[IWEF][0-9]{4,8} [0-9]{2}:")
#: Blanks before a number beyond what separates it: it is padded to a width.
_PADDED = re.compile(rb"(?<=[ \t])[ \t]+(?=[0-9])|(?<=[\[(])[ \t]+(?=[0-9])")
_DIGITS = re.compile(rb"[0-9]+")


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


def decoded(bones: bytes) -> str:
    """The text of a skeleton without blanks at its end; ``""``, which is like no anchor, where it is no UTF-8."""
    try:
        return bones.decode().rstrip()
    except UnicodeDecodeError:
        return ""
